#include "journal/replay_tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/line.h"
#include "binlog/statement_scope.h"

#define NAMED 3u /* number of tables named in the gap */

struct replay_table *replay_table(const struct replay *r, const char *name)
{
    for (size_t i = 0; i < r->table_count; i++)
        if (strcmp(r->tables[i].name, name) == 0)
            return &r->tables[i];
    return NULL;
}

static struct replay_table *replay_tables_find_or_add(struct replay *r, const struct manifest *m,
                                                      const char *name)
{
    struct replay_table *t = replay_table(r, name);
    if (t)
        return t;
    r->tables = xgrow(r->tables, r->table_count, sizeof *r->tables);
    t = &r->tables[r->table_count++];
    *t = (struct replay_table){.name = xstrdup(name), .fresh = !m || !manifest_table(m, name)};
    return t;
}

static void replay_tables_clear(struct replay_table *t)
{
    if (t->changes)
        delta_truncate(t->changes);
    t->changes = NULL;
    free(t->create);
    t->create = NULL;
    t->made_by = 0;
    t->by_present = t->dropped = false;
}

static void forget_table(struct replay *r, struct replay_table *t)
{
    replay_tables_clear(t);
    free(t->name);
    *t = r->tables[--r->table_count];
}

void replay_table_forget(struct replay *r, const char *name)
{
    struct replay_table *t = replay_table(r, name);
    if (t)
        forget_table(r, t);
}

/* Closes a table. Only the first reason and its time are kept. If the table is new, everything
 * since its creation is lost; if that is not known, its rows may be of any age. */
static struct replay_table *close_table(struct replay *r, const struct manifest *m,
                                        const char *name, const char *why, wall_t at)
{
    struct replay_table *t = replay_tables_find_or_add(r, m, name);
    if (t->closed)
        return t;
    replay_tables_clear(t);
    t->closed = true;
    t->older = t->fresh && !t->at.ms;
    t->at = t->at.ms ? t->at : at;
    line_set(t->why, sizeof t->why, "%s", why);
    return t;
}

void replay_table_close(struct replay *r, const struct manifest *m, const char *name,
                        const char *why, wall_t at)
{
    close_table(r, m, name, why, at);
}

void replay_give_up(struct replay *r, struct replay_table *t, const char *why)
{
    replay_table_close(r, NULL, t->name, why, t->at);
}

void replay_table_open(struct replay *r, const char *name, const char *create, bool unsure,
                       wall_t at)
{
    struct replay_table *t = replay_tables_find_or_add(r, NULL, name);
    replay_tables_clear(t);
    t->unsure = unsure;
    t->closed = t->older = t->engine = false;
    t->at = at;
    t->left = 0;
    t->create = create ? xstrdup(create) : NULL;
}

void replay_table_define(struct replay *r, const char *name, const char *create)
{
    struct replay_table *t = replay_table(r, name);
    if (!t || !t->fresh || t->closed || !t->create)
        return;
    free(t->create);
    t->create = xstrdup(create);
}

void replay_tables_restored(struct replay *r)
{
    for (size_t i = r->table_count; i-- > 0;)
        if (!r->tables[i].fresh || r->tables[i].dropped)
            forget_table(r, &r->tables[i]);
}

/* Returns whether a new table is still empty. An ALTER of such a table is part of its creation. */
static bool still_empty(const struct replay_table *t)
{
    return t && t->fresh && !t->closed && !t->changes;
}

bool replay_scope_fits(const struct replay *r, const struct manifest *m,
                       const struct statement_scope *scope, bool parts)
{
    for (size_t i = 0; i < scope->count && !parts; i++) {
        const struct scope_table *s = &scope->tables[i];
        bool known = m && !manifest_table(m, s->name) &&
                     (s->deed == SCOPE_DROPPED || s->deed == SCOPE_CREATED ||
                      (s->deed == SCOPE_ALTERED && still_empty(replay_table(r, s->name))));
        if (!known)
            return false;
    }
    return m != NULL;
}

/* Returns whether the table has another engine than MEMORY in the dump. Segments have no changes of
 * such a table. */
static bool other_engine(const struct manifest *m, const char *name)
{
    const struct manifest_table *dumped = manifest_table(m, name);
    return dumped && strcasecmp(dumped->engine, "MEMORY") != 0;
}

static void take_deed(struct replay *r, const struct manifest *m, const struct scope_table *s,
                      const struct change *gap)
{
    struct replay_table *t = replay_table(r, s->name);
    bool fresh = !manifest_table(m, s->name), engine = gap->scope->engine;
    if (engine && t && t->unsure && !t->closed) {
        forget_table(r, t);
        t = NULL;
    }
    if (fresh && s->deed == SCOPE_CREATED) {
        replay_table_open(r, s->name, NULL, gap->scope->may_exist, gap->at);
    } else if (fresh && s->deed == SCOPE_DROPPED) {
        if (t)
            forget_table(r, t);
    } else if (s->deed == SCOPE_ALTERED && still_empty(t)) {
        replay_tables_clear(t);
        t->unsure |= engine;
    } else {
        t = close_table(r, m, s->name, gap->why, gap->at);
        t->engine |= engine;
        t->older |= (engine || s->deed == SCOPE_ARRIVED) && other_engine(m, s->name);
    }
}

void replay_scope(struct replay *r, const struct manifest *m, const struct change *gap)
{
    for (size_t i = 0; i < gap->scope->count; i++)
        take_deed(r, m, &gap->scope->tables[i], gap);
}

/* ---- messages ---- */

/* Returns whether a new table no longer exists. This counts only on this server, in a schema
 * that contains tables of the dump; then a missing table is not a loss. */
static bool replay_tables_is_gone(const struct replay_table *t, const struct manifest *m,
                                  const struct db_tables *now)
{
    bool any = false;
    for (size_t i = 0; m && i < m->table_count && !any; i++)
        any = db_table_find(now, m->tables[i].name) != NULL;
    return t->fresh && any && !db_table_find(now, t->name);
}

static void replay_tables_describe(struct buf *b, const struct replay_table *t)
{
    char at[TEXT_SHORT];
    SCOPED(buf_free) struct buf name = {0};
    text_clean(&name, t->name, 64);
    if (t->fresh)
        buf_printf(b, "table %s, which is in no dump yet, is restored without its rows (%s", name.p,
                   t->why);
    else
        buf_printf(b, "table %s is restored as of %s, before a change that cannot be followed (%s",
                   name.p, text_utc(t->at, at), t->why);
    if (t->left)
        buf_printf(b, "; at least %" PRIu64 " later changes are skipped", t->left);
    buf_addc(b, ')');
}

void replay_finish(struct replay *r, const struct manifest *m, const struct db_tables *now)
{
    SCOPED(buf_free) struct buf b = {0};
    size_t closed = 0;
    bool from_start = r->gap[0] && r->gap_at.ms == 0;
    for (size_t i = 0; i < r->table_count; i++) {
        const struct replay_table *t = &r->tables[i];
        if (!t->closed || replay_tables_is_gone(t, m, now))
            continue;
        if (!from_start && (r->gap_at.ms == 0 || t->at.ms < r->gap_at.ms))
            r->gap_at = t->at;
        r->older |= t->older;
        if (++closed > NAMED)
            continue;
        buf_adds(&b, closed > 1 ? "; " : "");
        replay_tables_describe(&b, t);
    }
    if (!closed)
        return;
    if (closed > NAMED)
        buf_printf(&b, "; and %zu more tables", closed - NAMED);
    char before[300];
    line_set(before, sizeof before, "%s", r->gap);
    if (before[0])
        line_set(r->gap, sizeof r->gap, "%s; %s", before, b.p);
    else
        line_set(r->gap, sizeof r->gap, "%s", b.p);
    r->part = !before[0];
    r->gap_is_group |= r->part;
}

void replay_tables_free(struct replay *r)
{
    for (size_t i = 0; i < r->table_count; i++) {
        free(r->tables[i].name);
        free(r->tables[i].create);
    }
    free(r->tables);
    r->tables = NULL;
    r->table_count = 0;
}
