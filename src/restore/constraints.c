#include "restore/constraints.h"

#include <stdlib.h>
#include <string.h>

#include "sql/literal.h"

struct line {
    char *name;
    const char *from, *next; /* the whole line */
    const char *check;       /* CHECK (…) to the end of the line, without the comma */
    size_t len;
    bool met; /* has a counterpart in the other definition */
};
struct lines {
    struct line *list;
    size_t count;
};

/* Returns a pointer to CHECK in "  CONSTRAINT `name` CHECK (…)", or NULL if the line is another
 * one. */
static const char *check_of(const char *s, const char *end, struct buf *name)
{
    static const char head[] = "  CONSTRAINT ", check[] = " CHECK (";
    size_t n = sizeof head - 1, m = sizeof check - 1;
    buf_clear(name);
    if ((size_t)(end - s) < n || memcmp(s, head, n) != 0)
        return NULL;
    const char *rest = sql_read_ident(s + n, end, name);
    bool is = rest && (size_t)(end - rest) > m && memcmp(rest, check, m) == 0;
    return is ? rest + 1 : NULL;
}

/* Reads the CHECK constraints. The lines point into `create`, which must outlive them. */
static struct lines read_lines(const char *create)
{
    const char *end = create + strlen(create), *next;
    struct lines out = {0};
    SCOPED(buf_free) struct buf name = {0};
    for (const char *s = create; s < end; s = next) {
        const char *nl = memchr(s, '\n', (size_t)(end - s)), *e = nl ? nl : end,
                   *check = check_of(s, e, &name);
        next = nl ? nl + 1 : end;
        if (!check)
            continue;
        size_t len = (size_t)(e - check);
        len -= check[len - 1] == ',';
        out.list = xrealloc(out.list, (out.count + 1) * sizeof *out.list);
        out.list[out.count++] = (struct line){xstrdup(name.p), s, next, check, len, false};
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
    for (size_t i = 0; i < all.count; i++)
        buf_add(out, all.list[i].from, (size_t)(all.list[i].next - all.list[i].from));
}

static bool same_check(const struct line *a, const struct line *b)
{
    return a->len == b->len && memcmp(a->check, b->check, a->len) == 0;
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
        buf_add(&add, w->check, w->len);
    }
    if (n)
        buf_add(out, add.p, add.len);
    return n;
}
