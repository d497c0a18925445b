#include "mysql/world_tables.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *const world_progress_tables[] = {"wk_session", "wk_progress", "wk_stolen", NULL};
static const char *const ledger_suffixes[] = {"_rollup", "_mark", "_request"};
#define SUFFIXES (sizeof ledger_suffixes / sizeof *ledger_suffixes)

const struct config_ledger *world_ledger_of(const struct config *c, const char *table)
{
    for (unsigned i = 0; i < c->ledger_count; i++)
        if (strcasecmp(table, c->ledgers[i].table) == 0)
            return &c->ledgers[i];
    return NULL;
}

const struct config_ledger *world_ledger_own(const struct config *c, const char *table)
{
    for (unsigned i = 0; i < c->ledger_count; i++) {
        size_t n = strlen(c->ledgers[i].name);
        for (size_t k = 0; k < SUFFIXES; k++)
            if (strncasecmp(table, c->ledgers[i].name, n) == 0 &&
                strcasecmp(table + n, ledger_suffixes[k]) == 0)
                return &c->ledgers[i];
    }
    return NULL;
}

bool world_own(const struct config *c, const char *table)
{
    return (c->progress.lock_id && text_among(table, world_progress_tables)) ||
           world_ledger_own(c, table);
}

int world_tables(struct db *db, const struct config *c, const char *schema, struct db_tables *out,
                 struct err *e)
{
    SCOPED(names_free) struct names own = {0};
    for (const char *const *name = world_progress_tables; c->progress.lock_id && *name; name++)
        names_add(&own, *name);
    for (unsigned i = 0; i < c->ledger_count; i++)
        for (size_t k = 0; k < SUFFIXES; k++) {
            SCOPED(xfree) char *name = xasprintf("%s%s", c->ledgers[i].name, ledger_suffixes[k]);
            names_add(&own, name);
        }
    return db_tables_with(db, schema, &own, out, e);
}
