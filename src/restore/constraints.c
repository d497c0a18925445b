#include "restore/constraints.h"

#include <stdlib.h>
#include <string.h>

#include "sql/literal.h"
#include "sql/shown_table.h"

struct line {
    char *name;
    const char *from, *end; /* CONSTRAINT `name` CHECK (…) */
    const char *check;      /* CHECK (…), up to `end` */
    bool met;               /* has a counterpart in the other definition */
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
        out.list[out.count++] = (struct line){xstrdup(name.p), i.first.s, i.end, check, false};
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

static bool same_check(const struct line *a, const struct line *b)
{
    size_t len = (size_t)(a->end - a->check);
    return len == (size_t)(b->end - b->check) && memcmp(a->check, b->check, len) == 0;
}

/* Marks the constraints that have the right name already. */
static void constraints_meet(struct lines *was, struct lines *now)
{
    for (size_t i = 0; i < was->count; i++)
        for (size_t k = 0; k < now->count; k++)
            if (strcmp(was->list[i].name, now->list[k].name) == 0 &&
                same_check(&was->list[i], &now->list[k]))
                was->list[i].met = now->list[k].met = true;
}

/* Finds a constraint with the same condition and another name. */
static struct line *stand_in(struct lines *now, const struct line *w)
{
    for (size_t k = 0; k < now->count; k++)
        if (!now->list[k].met && same_check(&now->list[k], w))
            return &now->list[k];
    return NULL;
}

size_t constraints_rename(struct buf *out, const char *was_sql, const char *now_sql)
{
    SCOPED(free_lines) struct lines was = read_lines(was_sql), now = read_lines(now_sql);
    SCOPED(buf_free) struct buf add = {0};
    size_t n = 0;
    constraints_meet(&was, &now);
    for (size_t i = 0; i < was.count; i++) {
        const struct line *w = &was.list[i];
        struct line *have = w->met ? NULL : stand_in(&now, w);
        if (!have)
            continue;
        have->met = true;
        buf_adds(out, n++ ? ", DROP CHECK " : "DROP CHECK ");
        sql_ident(out, have->name);
        buf_adds(&add, ", ADD CONSTRAINT ");
        sql_ident(&add, w->name);
        buf_addc(&add, ' ');
        buf_add(&add, w->check, (size_t)(w->end - w->check));
    }
    if (n)
        buf_add(out, add.p, add.len);
    return n;
}
