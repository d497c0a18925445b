#include "restore/chosen.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "sql/literal.h"

/* Parses the name at `s`; NULL: there is none. */
static const char *read_name(const char *s, struct buf *name)
{
    const char *end = s + strlen(s);
    buf_clear(name);
    if (*s == '`')
        return sql_read_ident(s, end, name);
    end = s + strcspn(s, ",");
    buf_add(name, s, (size_t)(end - s));
    return name->len ? end : NULL;
}

int chosen_parse(const char *text, struct db_names *out, struct err *e)
{
    SCOPED(buf_free) struct buf name = {0};
    const char *s = text;
    *out = (struct db_names){0};
    while ((s = read_name(s, &name))) {
        if (!db_names_has(out, name.p))
            db_names_add(out, name.p);
        if (*s != ',')
            break;
        s++;
    }
    if (s && !*s)
        return 0;
    db_names_free(out);
    err_set(e, ERR_USAGE, 0, "--table %.200s: no list of tables", text);
    return err_hint(
        e,
        "names separated by commas, --table planet,fleet; one with a comma in backticks, in quotes "
        "for the shell: --table '`a,b`'");
}

/* The newest dump that has the table; NULL: none. */
static const struct manifest *newest_with(const struct catalog *dumps, const char *table)
{
    for (size_t i = 0; dumps && i < dumps->count; i++)
        if (dumps->list[i].intact && manifest_table(&dumps->list[i].m, table))
            return &dumps->list[i].m;
    return NULL;
}

int chosen_known(const struct db_names *tables, const struct catalog *dumps, struct err *e)
{
    for (size_t i = 0; i < tables->count; i++) {
        if (newest_with(dumps, tables->list[i]))
            continue;
        err_set(e, ERR_NOTHING, 0, "table %s is in no intact dump", tables->list[i]);
        return err_hint(e, "--restore --dry-run lists the tables of the newest one");
    }
    return 0;
}

int chosen_planned(const struct plan *plan, const char *dump, const struct catalog *dumps,
                   struct err *e)
{
    for (size_t i = 0; plan->only && i < plan->only->count; i++) {
        const char *name = plan->only->list[i];
        const struct target *t = plan_find(plan, name);
        if (t && t->skip)
            return err_set(e, ERR_REFUSED, 0, "table %s is not restored: %s", name, t->why);
        if (t)
            continue;
        const struct manifest *has = newest_with(dumps, name);
        err_set(e, ERR_NOTHING, 0, "table %s is not in dump %s", name, dump);
        if (has)
            err_hint(e,
                     "%s is the newest dump that has it: --restore=%s, or --at a moment before it "
                     "went",
                     has->name, has->name);
        return -1;
    }
    return 0;
}

int chosen_guard(struct db *db, const struct config *cfg, const struct state *state,
                 const struct db_names *tables, bool force, struct db_sentinel *s, struct err *e)
{
    *s = (struct db_sentinel){0};
    if (db_sentinel_read(db, cfg->schema, cfg->sentinel, s, e) < 0 && !db_table_missing(e))
        return -1;
    if (s->rows != 1) {
        /* A lost world needs a full restore: a single table does not make it whole. */
        err_set(e, ERR_REFUSED, 0,
                "world %s is not alive (its sentinel has %u rows): one table does not make it "
                "whole",
                cfg->name, s->rows);
        return err_hint(
            e, "worldkeeper --restore brings all of it back; with --into SCHEMA the tables "
               "are put beside it");
    }
    if (state && state->known && strcmp(state->nonce, s->nonce) != 0) {
        err_set(e, ERR_REFUSED, 0,
                "the sentinel holds a nonce that is not ours: another world or keeper");
        return err_hint(
            e, "make sure that no other supervisor keeps it; worldkeeper --init --force adopts it");
    }
    for (size_t i = 0; i < tables->count && !force; i++) {
        uint64_t rows = 0;
        if (db_count(db, cfg->schema, tables->list[i], &rows, e) < 0 && !db_table_missing(e))
            return -1;
        if (rows == 0)
            continue;
        err_set(e, ERR_REFUSED, 0, "table %s holds %" PRIu64 " row%s", tables->list[i], rows,
                rows == 1 ? "" : "s");
        return err_hint(
            e, "--force replaces it (after a dump of what is there); --into SCHEMA restores "
               "beside it");
    }
    return 0;
}
