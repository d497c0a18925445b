/* What merging a conflict file keeps: sets of row hashes, and the file of numbers. */
#include "restore/conflict_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

#define NUMBERS_MAX (256u << 20)
#define NUMBERS_HEADER "table\tcolumn\told\tnew"

static struct merge_slot *conflict_files_slot_of(const struct merge_set *s, uint64_t hash)
{
    size_t i = (size_t)(hash * 0x9e3779b97f4a7c15u) & (s->room - 1);
    while (s->slots[i].count && s->slots[i].hash != hash)
        i = (i + 1) & (s->room - 1);
    return &s->slots[i];
}

/* Doubles the number of slots. A quarter of them stays free, so that searches are short. */
static void conflict_files_grow(struct merge_set *s)
{
    struct merge_set more = {.room = s->room ? 2 * s->room : 1024};
    more.slots = xcalloc(more.room, sizeof *more.slots);
    for (size_t i = 0; i < s->room; i++)
        if (s->slots[i].count)
            *conflict_files_slot_of(&more, s->slots[i].hash) = s->slots[i];
    more.used = s->used;
    free(s->slots);
    *s = more;
}

/* Adds a hash. Counts are stored plus 1, so that a slot whose hashes were all taken stays
 * occupied. */
void merge_set_add(struct merge_set *s, uint64_t hash)
{
    if (4 * (s->used + 1) > 3 * s->room)
        conflict_files_grow(s);
    struct merge_slot *slot = conflict_files_slot_of(s, hash);
    if (slot->count == 0) {
        *slot = (struct merge_slot){hash, 1};
        s->used++;
    }
    slot->count++;
}

bool merge_set_has(const struct merge_set *s, uint64_t hash)
{
    return s->room && conflict_files_slot_of(s, hash)->count > 1;
}

bool merge_set_take(struct merge_set *s, uint64_t hash)
{
    if (!merge_set_has(s, hash))
        return false;
    conflict_files_slot_of(s, hash)->count--;
    return true;
}

void merge_set_free(struct merge_set *s)
{
    free(s->slots);
    *s = (struct merge_set){0};
}

/* ---- the file of numbers ---- */

void merge_numbers_name(const char *file, char out[CONFLICT_NAME_MAX + 16])
{
    snprintf(out, CONFLICT_NAME_MAX + 16, "%.*s.numbers.tsv",
             (int)(strlen(file) - strlen(".sql.gz")), file);
}

static void add_escaped(struct buf *b, const char *s)
{
    for (; *s; s++) {
        const char *at = strchr("\\\t\n", *s);
        if (at)
            buf_addc(b, '\\');
        buf_addc(b, at ? "\\tn"[at - "\\\t\n"] : *s);
    }
}

static void conflict_files_keep(struct merge_numbers *n, const char *table, const char *old,
                                const char *now, const char *world)
{
    n->list = xgrow(n->list, n->count, sizeof *n->list);
    n->list[n->count++] =
        (struct merge_number){xstrdup(table), xstrdup(old), xstrdup(now), xstrdup(world)};
}

void merge_numbers_add(struct merge_numbers *n, const char *table, const char *column,
                       const char *old, const char *now, const char *world)
{
    if (n->text.len == 0)
        buf_adds(&n->text, NUMBERS_HEADER "\tworld\n");
    add_escaped(&n->text, table);
    buf_addc(&n->text, '\t');
    add_escaped(&n->text, column);
    buf_printf(&n->text, "\t%s\t%s\t%s\n", old, now, world);
    conflict_files_keep(n, table, old, now, world);
}

/* Returns the next field, split in place. A field ends at a tab or at the end of the line. */
static char *conflict_files_read_field(char **at)
{
    char *from = *at, *to = from, *s = from;
    for (; *s && *s != '\t'; s++) {
        if (*s == '\\' && s[1])
            s++, *to++ = *s == 't' ? '\t' : *s == 'n' ? '\n' : *s;
        else
            *to++ = *s;
    }
    *at = *s ? s + 1 : s;
    *to = '\0';
    return from;
}

/* Gives the lines of an earlier version, which has no world, that column. Tabs in fields are
 * escaped. */
static void add_world_column(struct buf *text)
{
    SCOPED(buf_free) struct buf wide = {0};
    if (!text->len || !text_starts(text->p, NUMBERS_HEADER "\n"))
        return;
    for (const char *s = text->p; *s; s++) {
        if (*s == '\n')
            buf_adds(&wide, wide.len < sizeof NUMBERS_HEADER ? "\tworld" : "\t");
        buf_addc(&wide, *s);
    }
    buf_clear(text);
    buf_add(text, wide.p, wide.len);
}

int merge_numbers_read(int dirfd, const char *file, struct merge_numbers *out, struct err *e)
{
    char name[CONFLICT_NAME_MAX + 16], *rest = NULL;
    struct err why = {0};
    *out = (struct merge_numbers){0};
    merge_numbers_name(file, name);
    if (file_read(dirfd, name, NUMBERS_MAX, &out->text, &why) < 0) {
        if (why.num == ENOENT)
            return 0;
        return err_pass(e, &why);
    }
    add_world_column(&out->text);
    SCOPED(xfree) char *copy = xstrdup(out->text.p ? out->text.p : "");
    char *line = strtok_r(copy, "\n", &rest); /* the header line */
    while (line && (line = strtok_r(NULL, "\n", &rest))) {
        char *at = line, *table = conflict_files_read_field(&at);
        (void)conflict_files_read_field(&at); /* the column */
        char *old = conflict_files_read_field(&at), *now = conflict_files_read_field(&at);
        char *world = conflict_files_read_field(&at); /* earlier versions did not write it */
        if (*now)
            conflict_files_keep(out, table, old, now, world);
    }
    return 0;
}

int merge_numbers_write(int dirfd, const char *file, const struct merge_numbers *n, struct err *e)
{
    char name[CONFLICT_NAME_MAX + 16];
    merge_numbers_name(file, name);
    return file_commit(dirfd, name, n->text.p, n->text.len, 0600, e);
}

void merge_numbers_free(struct merge_numbers *n)
{
    for (size_t i = 0; i < n->count; i++) {
        free(n->list[i].table);
        free(n->list[i].old);
        free(n->list[i].now);
        free(n->list[i].world);
    }
    free(n->list);
    buf_free(&n->text);
    *n = (struct merge_numbers){0};
}
