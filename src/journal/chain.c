#include "journal/chain.h"

#include <inttypes.h>
#include <string.h>

#include "base/line.h"

#define HINT_DUMP                                                                                  \
    "worldkeeper --dump; repeat the command when worldkeeper --status shows that dump as the "     \
    "newest in the store"

/* Compares the nonce too: a generation alone is not unique, because two machines can restore
 * independently. */
static bool is_of_life(const struct chain *c)
{
    return c->m && c->m->generation == c->generation && strcmp(c->m->nonce, c->nonce) == 0;
}

/* Returns a table that is not in the dump with the same definition, or NULL. The journal
 * contains changes of rows but no definitions. */
static const char *unknown_table(const struct chain *c)
{
    for (size_t i = 0; i < c->tables->count; i++) {
        char hash[17];
        const struct db_table *t = &c->tables->list[i];
        const struct manifest_table *m = manifest_table(c->m, t->name);
        db_columns_hash(t, hash);
        if (!m || strcmp(m->columns_hash, hash) != 0)
            return t->name;
    }
    return NULL;
}

/* Returns a durable table that this restore would replace, or NULL. Such a restore cannot use
 * the journal. */
static const char *durable_table(const struct chain *c)
{
    for (size_t i = 0; c->restores_all && i < c->m->table_count; i++)
        if (strcmp(c->m->tables[i].engine, "MEMORY") != 0)
            return c->m->tables[i].name;
    return NULL;
}

/* Finds the first gap. `why` is empty if there is none. */
static void find_gap(const struct chain *c, char why[LINE])
{
    const struct archive *a = c->journal;
    struct segment_mark gap = {0};
    int i = c->m->end.file[0] && !c->m->unlogged[0]
                ? archive_find(a, &c->m->end, c->m->log_created_at, &c->m->server)
                : -1;
    why[0] = '\0';
    if (i < 0) {
        line_set(why, LINE, "no segment begins at its end");
        return;
    }
    archive_gap(a, (size_t)i, &c->m->end, &gap);
    if (gap.kind == CHANGE_GAP)
        line_set(why, LINE, "%s", gap.text);
    for (size_t k = (size_t)i; k + 1 < a->count && !why[0]; k++)
        if (!archive_continues(a, k))
            line_set(why, LINE, "segment %s does not begin at the end of the previous one",
                     a->list[k + 1].file);
}

int chain_judge(const struct chain *c, struct err *e)
{
    char why[LINE];
    const char *table;
    if (!is_of_life(c)) {
        err_set(e, ERR_REFUSED, 0,
                "the store has no dump of this world since its last restore or promotion "
                "(generation %" PRIu64 "); its newest one is %s",
                c->generation, c->m ? c->m->name : "none");
        return err_hint(e, HINT_DUMP);
    }
    if ((table = unknown_table(c))) {
        err_set(e, ERR_REFUSED, 0,
                "table %s was created or altered after dump %s, the newest in the store, and the "
                "journal does not contain this change",
                table, c->m->name);
        return err_hint(e, HINT_DUMP);
    }
    if (strcmp(c->m->code_hash, c->code_hash) != 0) {
        err_set(
            e, ERR_REFUSED, 0,
            c->m->code_hash[0]
                ? "views, triggers, routines or events were created, altered or dropped after dump "
                  "%s, the newest in the store, and the journal does not contain these changes"
                : "dump %s, the newest in the store, was written by an older version, which does "
                  "not record the dump's views, triggers, routines and events",
            c->m->name);
        return err_hint(e, HINT_DUMP);
    }
    if ((table = durable_table(c))) {
        err_set(e, ERR_REFUSED, 0,
                "table %s is also restored ([restore] scope = all), but the journal does not "
                "contain its changes since dump %s",
                table, c->m->name);
        return err_hint(e, "set [restore] scope = lost on both machines to hand over only MEMORY "
                           "tables; durable tables need replication");
    }
    find_gap(c, why);
    if (!why[0])
        return 0;
    err_set(e, ERR_REFUSED, 0, "the journal does not continue dump %s, the newest in the store: %s",
            c->m->name, why);
    return err_hint(e, HINT_DUMP);
}
