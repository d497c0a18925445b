#include "restore/constraints.h"

#include <stdlib.h>
#include <string.h>

#include "sql/literal.h"
#include "sql/shown_table.h"
#include "sql/table.h"

struct line {
    char *name;
    const char *from, *end; /* CONSTRAINT `name` CHECK (…) */
    const char *check;      /* CHECK (…), up to `end` */
    const char *condition;  /* the end of CHECK (…): NOT ENFORCED may follow */
    bool met;               /* has a counterpart in the other definition */
    bool renamed;
};
struct lines {
    struct line *list;
    size_t count;
};

/* Returns a pointer to CHECK in "CONSTRAINT `name` CHECK (…)", or NULL if it is another item. */
static const char *check_of(const struct shown_item *i, struct buf *name)
{
    struct sql_text rest = {.s = i->rest, .end = i->end};
    struct sql_token t;
    buf_clear(name);
    bool is = sql_is(&i->first, "CONSTRAINT") && sql_next(&rest, &t) == SQL_NAME &&
              sql_token_name(&t, name) && sql_next(&rest, &t) == SQL_WORD && sql_is(&t, "CHECK");
    return is ? t.s : NULL;
}

/* Returns the end of the parentheses after CHECK. */
static const char *condition_end(const char *check, const char *end)
{
    struct sql_text text = {.s = check, .end = end};
    struct sql_token t;
    unsigned depth = 0;
    sql_next(&text, &t); /* CHECK */
    do {
        sql_next(&text, &t);
        depth += t.kind == SQL_OPEN;
        depth -= t.kind == SQL_CLOSE && depth;
    } while (depth && t.kind != SQL_END && t.kind != SQL_BAD);
    return t.s + t.len;
}

/* Reads the CHECK constraints. They point into `create`, which must outlive them. */
static struct lines read_lines(const char *create)
{
    struct sql_text items = shown_table_items(create);
    struct shown_item i;
    struct lines out = {0};
    SCOPED(buf_free) struct buf name = {0};
    while (shown_table_next(&items, &i)) {
        const char *check = check_of(&i, &name);
        if (!check)
            continue;
        out.list = xrealloc(out.list, (out.count + 1) * sizeof *out.list);
        out.list[out.count++] = (struct line){
            xstrdup(name.p), i.first.s, i.end, check, condition_end(check, i.end), false, false};
    }
    return out;
}

static void free_lines(struct lines *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->list[i].name);
    free(l->list);
}

void constraints_lines(struct buf *out, const char *create)
{
    SCOPED(free_lines) struct lines all = read_lines(create);
    buf_adds(out, "");
    for (size_t i = 0; i < all.count; i++) {
        buf_adds(out, "  ");
        buf_add(out, all.list[i].from, (size_t)(all.list[i].end - all.list[i].from));
        buf_adds(out, i + 1 < all.count ? ",\n" : "\n");
    }
}

static bool is_enforced(const struct line *l)
{
    return l->condition == l->end;
}

/* Compares the conditions, and unless `loosely` whether they are enforced. */
static bool same_check(const struct line *a, const struct line *b, bool loosely)
{
    size_t len = (size_t)(a->condition - a->check);
    return len == (size_t)(b->condition - b->check) && memcmp(a->check, b->check, len) == 0 &&
           (loosely || is_enforced(a) == is_enforced(b));
}

/* Marks the constraints that have the right name already. */
static void constraints_meet(struct lines *was, struct lines *now, bool loosely)
{
    for (size_t i = 0; i < was->count; i++)
        for (size_t k = 0; k < now->count; k++)
            if (!was->list[i].met && !now->list[k].met &&
                strcmp(was->list[i].name, now->list[k].name) == 0 &&
                same_check(&was->list[i], &now->list[k], loosely))
                was->list[i].met = now->list[k].met = true;
}

/* Finds a constraint with the same condition that has no counterpart yet. */
static struct line *stand_in(struct lines *l, const struct line *other, bool loosely)
{
    for (size_t k = 0; k < l->count; k++)
        if (!l->list[k].met && same_check(&l->list[k], other, loosely))
            return &l->list[k];
    return NULL;
}

/* Appends DROP CHECK with the old name to `out`, and ADD CONSTRAINT with the new one to `add`. */
static void rename_line(struct buf *out, struct buf *add, const struct line *have, const char *name,
                        struct names *enforced)
{
    buf_adds(out, out->len ? ", DROP CHECK " : "DROP CHECK ");
    sql_ident(out, have->name);
    buf_adds(add, ", ADD CONSTRAINT ");
    sql_ident(add, name);
    buf_addc(add, ' ');
    buf_add(add, have->check, (size_t)(have->end - have->check));
    if (!enforced || !is_enforced(have))
        return;
    buf_adds(add, " NOT ENFORCED");
    names_add(enforced, name);
}

void constraints_enforce(struct buf *out, const char *name, bool enforced)
{
    buf_adds(out, out->len ? ", ALTER CHECK " : "ALTER CHECK ");
    sql_ident(out, name);
    buf_adds(out, enforced ? " ENFORCED" : " NOT ENFORCED");
}

size_t constraints_rename(struct buf *out, const char *was_sql, const char *now_sql,
                          struct names *enforced)
{
    SCOPED(free_lines) struct lines was = read_lines(was_sql), now = read_lines(now_sql);
    SCOPED(buf_free) struct buf drop = {0}, add = {0};
    size_t n = 0;
    /* A restore may have left a constraint not enforced, so its condition alone is compared after
     * the others have their counterparts. */
    for (int loosely = 0; loosely <= 1; loosely++) {
        constraints_meet(&was, &now, loosely);
        for (size_t i = 0; i < was.count; i++) {
            struct line *w = &was.list[i], *have = w->met ? NULL : stand_in(&now, w, loosely);
            if (!have)
                continue;
            w->met = have->met = have->renamed = true;
            rename_line(&drop, &add, have, w->name, enforced);
            n++;
        }
    }
    for (size_t k = 0; k < now.count && enforced; k++)
        if (is_enforced(&now.list[k]) && !now.list[k].renamed) {
            constraints_enforce(&add, now.list[k].name, false);
            names_add(enforced, now.list[k].name);
        }
    if (n) {
        buf_add(out, drop.p, drop.len);
        buf_add(out, add.p, add.len);
    }
    return n;
}

void constraints_enforced(const char *now_sql, const char *was_sql, struct names *out,
                          struct names *named)
{
    SCOPED(free_lines) struct lines was = read_lines(was_sql), now = read_lines(now_sql);
    constraints_meet(&was, &now, false);
    for (size_t i = 0; i < now.count; i++) {
        struct line *l = &now.list[i], *w = l->met ? NULL : stand_in(&was, l, false);
        if (w)
            w->met = true;
        if (!is_enforced(l))
            continue;
        names_add(out, l->name);
        names_add(named, w ? w->name : l->name);
    }
}

void constraints_unenforced(const char *now_sql, const char *was_sql, struct names *out)
{
    SCOPED(free_lines) struct lines was = read_lines(was_sql), now = read_lines(now_sql);
    constraints_meet(&was, &now, false);
    for (size_t i = 0; i < was.count; i++)
        for (size_t k = 0; k < now.count && is_enforced(&was.list[i]); k++)
            if (!was.list[i].met && strcmp(was.list[i].name, now.list[k].name) == 0 &&
                same_check(&was.list[i], &now.list[k], true))
                names_add(out, now.list[k].name);
}

/* ---- CHECKs that a definition lacks ---- */

static bool has_check(const struct sql_table *t, const struct sql_constraint *c)
{
    for (size_t i = 0; i < t->constraint_count; i++) {
        const struct sql_constraint *own = &t->constraints[i];
        if (own->check && !own->not_enforced && strcmp(own->check, c->check) == 0)
            return true;
    }
    return false;
}

static bool lacks_check(const struct sql_table *was, const struct sql_table *now)
{
    bool lacks = false;
    for (size_t i = 0; i < now->column_count && !lacks; i++) {
        const struct sql_column *c = &now->columns[i], *own = sql_table_column(was, c->name);
        lacks = c->check && (!own || !own->check || strcmp(own->check, c->check) != 0);
    }
    for (size_t i = 0; i < now->constraint_count && !lacks; i++) {
        const struct sql_constraint *c = &now->constraints[i];
        lacks = c->check && !c->not_enforced && !has_check(was, c);
    }
    return lacks;
}

bool constraints_added(const char *now_sql, const char *was_sql)
{
    SCOPED(sql_table_free) struct sql_table now = {0}, was = {0};
    struct err ignored;
    return sql_table_read(now_sql, strlen(now_sql), 0, &now, &ignored) < 0 ||
           sql_table_read(was_sql, strlen(was_sql), 0, &was, &ignored) < 0 ||
           lacks_check(&was, &now);
}
