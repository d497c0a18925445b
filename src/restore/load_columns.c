/* Whether the columns of a table take the rows of a dump, and what they mean there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/digits.h"
#include "db/sql.h"
#include "restore/load_int.h"

void load_columns_note(struct target *t, const char *columns)
{
    const char *s = columns, *end = columns + strlen(columns);
    struct buf name = {0};
    while (s && s < end && *s != ')') {
        buf_clear(&name);
        s = sql_read_ident(s + 1, end, &name);
        if (!s)
            break;
        t->columns = xrealloc(t->columns, (t->column_count + 1) * sizeof *t->columns);
        t->columns[t->column_count++] = xstrdup(name.p);
    }
    buf_free(&name);
}

const struct db_column *load_columns_find(const struct db_table *t, const char *name)
{
    for (size_t i = 0; i < t->column_count; i++)
        if (strcasecmp(t->columns[i].name, name) == 0)
            return &t->columns[i];
    return NULL;
}

/* ENUM and SET values travel by number: the old list must be the beginning of the new one. */
static bool index_fits(const char *was, const struct db_column *now)
{
    size_t n = 0;
    bool quoted = false;
    if (!was)
        return false;
    for (; was[n] && (quoted || was[n] != ')'); n++)
        if (was[n] == '\'')
            quoted = !quoted;
    return was[n] == ')' && strncmp(was, now->type, n) == 0 &&
           (now->type[n] == ')' || now->type[n] == ',');
}

int load_columns_advise(struct err *e)
{
    err_hint(
        e, "change the table back, or restore with --into another schema and copy what is needed");
    return -1;
}

static int check_column(const struct target *t, const char *name, struct err *e)
{
    const struct db_column *c = load_columns_find(t->live, name);
    const char *was = t->create ? db_digits_type(t->create, name) : NULL;
    if (!c || c->generated) {
        err_set(e, ERR_REFUSED, 0, "table %s has no column %s any more; its values would be lost",
                t->name, name);
    } else {
        bool was_index = was && (text_starts(was, "enum(") || text_starts(was, "set("));
        bool is_index = c->encoding == DB_INDEX;
        if (!was_index && !is_index)
            return 0;
        if (was_index && is_index && index_fits(was, c))
            return 0;
        err_set(e, ERR_REFUSED, 0,
                "column %s of table %s is %s now, which would give its values another meaning",
                name, t->name, c->type);
    }
    return load_columns_advise(e);
}

int load_columns_check(const struct target *t, struct err *e)
{
    for (size_t i = 0; i < t->column_count; i++)
        if (check_column(t, t->columns[i], e) < 0)
            return -1;
    for (size_t i = 0; i < t->live->column_count; i++) {
        const struct db_column *c = &t->live->columns[i];
        bool given = c->generated || c->has_default;
        for (size_t k = 0; k < t->column_count && !given; k++)
            given = strcasecmp(t->columns[k], c->name) == 0;
        if (!given)
            return err_set(e, ERR_REFUSED, 0, "table %s has a new column %s without a default",
                           t->name, c->name);
    }
    return 0;
}

/* The word behind `front` in a line, "" where that is not in front of all quotes. */
static void word_behind(const char *line, const char *front, char out[33])
{
    size_t len = strcspn(line, "'\n");
    const char *s = memmem(line, len, front, strlen(front));
    s = s ? s + strlen(front) : "";
    snprintf(out, 33, "%.*s", (int)strcspn(s, " ,\n"), s);
    if (strcmp(out, "utf8") == 0)
        snprintf(out, 33, "utf8mb3");
}

static bool letters_fit(const char *was, const char *now)
{
    return strcmp(was, now) == 0 || strcmp(was, "ascii") == 0 ||
           (strcmp(was, "utf8mb3") == 0 && strcmp(now, "utf8mb4") == 0);
}

/* What a line does not tell, the last one does, for all columns. */
static void letters_of(const char *create, const char *column, char out[33])
{
    const char *type = db_digits_type(create, column), *last = db_digits_options(create);
    out[0] = '\0';
    if (!type)
        return;
    word_behind(type, " CHARACTER SET ", out);
    if (!out[0] && last)
        word_behind(last, " DEFAULT CHARSET=", out);
}

int load_columns_letters(const struct target *t, const char *create, size_t len, struct err *e)
{
    char was[33], *text = xstrndup(create, len);
    int rc = 0;
    for (size_t i = 0; i < t->live->column_count && rc == 0; i++) {
        const struct db_column *c = &t->live->columns[i];
        if (!c->charset[0] || c->generated || c->encoding == DB_INDEX)
            continue;
        letters_of(text, c->name, was);
        if (!was[0] || letters_fit(was, c->charset))
            continue;
        err_set(e, ERR_REFUSED, 0,
                "column %s of table %s is in character set %s now, and its texts are in %s",
                c->name, t->name, c->charset, was);
        rc = load_columns_advise(e);
    }
    free(text);
    return rc;
}
