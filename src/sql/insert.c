#include "sql/insert.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sql/literal.h"
#include "sql/token.h"

struct rows_reader {
    struct sql_text text;
    struct sql_token t;
    const bool *leave_out;
    size_t count;
    struct sql_insert *out;
};

static void insert_next(struct rows_reader *r)
{
    sql_next(&r->text, &r->t);
}

/* Appends a token if `keep` is true. "…" is a string in most sessions and a name under
 * ANSI_QUOTES, so it is written as '…', which means the same in every session. */
static void insert_add(struct rows_reader *r, bool keep)
{
    if (keep && r->t.kind == SQL_STRING && *r->t.s == '"') {
        SCOPED(buf_free) struct buf bytes = {0};
        sql_token_bytes(&r->t, false, &bytes);
        sql_text_literal(&r->out->rows, bytes.p, bytes.len);
    } else if (keep) {
        buf_add(&r->out->rows, r->t.s, r->t.len);
    }
    insert_next(r);
}

/* Reads "(…)" after UNHEX: hex digits that the server converts to a string. */
static int read_unhex(struct rows_reader *r, bool keep)
{
    SCOPED(buf_free) struct buf digits = {0}, bytes = {0};
    insert_next(r);
    if (r->t.kind != SQL_OPEN)
        return -1;
    insert_next(r);
    if (!sql_token_bytes(&r->t, false, &digits) || r->t.kind != SQL_STRING || digits.len % 2)
        return -1;
    for (size_t i = 0; i < digits.len; i += 2) {
        if (!isxdigit((unsigned char)digits.p[i]) || !isxdigit((unsigned char)digits.p[i + 1]))
            return -1;
        buf_addc(&bytes,
                 (char)(text_hex_value(digits.p[i]) << 4 | text_hex_value(digits.p[i + 1])));
    }
    insert_next(r);
    if (r->t.kind != SQL_CLOSE)
        return -1;
    if (keep) {
        buf_adds(&r->out->rows, "_binary");
        sql_text_literal(&r->out->rows, bytes.p ? bytes.p : "", bytes.len);
    }
    insert_next(r);
    return 0;
}

/* Reads "(b'…', UNSIGNED)" after CONVERT: a number written in bits. */
static int read_convert(struct rows_reader *r, bool keep)
{
    SCOPED(buf_free) struct buf bytes = {0};
    uint64_t n = 0;
    insert_next(r);
    if (r->t.kind != SQL_OPEN)
        return -1;
    insert_next(r);
    if (r->t.kind != SQL_BITS || !sql_token_bytes(&r->t, false, &bytes) || bytes.len > 8)
        return -1;
    for (size_t i = 0; i < bytes.len; i++)
        n = n << 8 | (unsigned char)bytes.p[i];
    insert_next(r);
    if (!sql_is_punct(&r->t, ","))
        return -1;
    insert_next(r);
    if (!sql_is(&r->t, "UNSIGNED"))
        return -1;
    insert_next(r);
    if (r->t.kind != SQL_CLOSE)
        return -1;
    if (keep)
        buf_printf(&r->out->rows, "%" PRIu64, n);
    insert_next(r);
    return 0;
}

/* Reads a number, a string, hex or bit digits, or NULL. Anything that could be a name is
 * rejected. */
static int insert_read_literal(struct rows_reader *r, bool keep)
{
    if (sql_is(&r->t, "UNHEX"))
        return read_unhex(r, keep);
    if (sql_is(&r->t, "CONVERT"))
        return read_convert(r, keep);
    if (r->t.kind == SQL_CHARSET) {
        if (!sql_charset_safe(r->t.s + 1, r->t.len - 1))
            return -1;
        insert_add(r, keep);
        if (keep && r->t.kind != SQL_STRING)
            buf_addc(&r->out->rows, ' ');
    } else if (sql_is_punct(&r->t, "-") || sql_is_punct(&r->t, "+")) {
        insert_add(r, keep);
        if (r->t.kind != SQL_NUMBER)
            return -1;
    } else if (r->t.kind == SQL_NUMBER || sql_is(&r->t, "NULL")) {
        insert_add(r, keep);
        return 0;
    }
    if (r->t.kind != SQL_NUMBER && r->t.kind != SQL_STRING && r->t.kind != SQL_HEX &&
        r->t.kind != SQL_BITS)
        return -1;
    insert_add(r, keep);
    return 0;
}

/* Returns the number of values in the row that begins here. It is not exact if the row is
 * malformed. */
static size_t values_ahead(const struct rows_reader *r)
{
    struct rows_reader ahead = *r;
    struct sql_insert nothing = {0};
    size_t n = 0;
    ahead.out = &nothing;
    do {
        insert_next(&ahead);
        n++;
    } while (insert_read_literal(&ahead, false) == 0 && sql_is_punct(&ahead.t, ","));
    return n;
}

/* Reads one row, starting at its parenthesis. Most rows have the form of our own dumps. They are
 * copied unchanged by a reader that is several times faster. */
static int insert_read_row(struct rows_reader *r)
{
    struct buf *rows = &r->out->rows;
    /* Without a list of columns a row has a value for each column. The values of generated
     * columns must not be written. */
    bool picks = r->leave_out && !r->out->listed && values_ahead(r) == r->count, any = false;
    unsigned fields;
    const char *after = picks ? NULL : sql_read_tuple(r->t.s, r->text.end, &fields);
    if (after) { /* the tuple contains only literals, so copying it sends nothing else */
        buf_add(rows, r->t.s, (size_t)(after - r->t.s));
        r->text.s = after;
        insert_next(r);
        return 0;
    }
    if (r->t.kind != SQL_OPEN)
        return -1;
    buf_addc(rows, '(');
    if (sql_peek(&r->text).kind == SQL_CLOSE) {
        insert_next(r);
        r->out->empty = true;
    } else {
        size_t n = 0;
        do {
            bool keep = !picks || !r->leave_out[n];
            if (keep && any)
                buf_addc(rows, ',');
            any |= keep;
            n++;
            insert_next(r);
            if (insert_read_literal(r, keep) < 0)
                return -1;
        } while (sql_is_punct(&r->t, ","));
    }
    if (r->t.kind != SQL_CLOSE)
        return -1;
    buf_addc(rows, ')');
    insert_next(r);
    return 0;
}

/* Reads a name and removes its quotes. The writer quotes it again. */
static int insert_read_name(struct rows_reader *r)
{
    struct sql_insert *o = r->out;
    struct buf name = {0};
    insert_next(r);
    if (!sql_token_name(&r->t, &name)) {
        buf_free(&name);
        return -1;
    }
    o->columns = xgrow(o->columns, o->column_count, sizeof *o->columns);
    o->columns[o->column_count++] = name.p;
    insert_next(r);
    return 0;
}

/* Reads "(`a`,`b`)", which may be missing or empty. */
static int insert_read_columns(struct rows_reader *r)
{
    if (r->t.kind != SQL_OPEN)
        return 0;
    r->out->listed = true;
    if (sql_peek(&r->text).kind == SQL_CLOSE) {
        insert_next(r);
    } else {
        do {
            if (insert_read_name(r) < 0)
                return -1;
        } while (sql_is_punct(&r->t, ","));
    }
    if (r->t.kind != SQL_CLOSE)
        return -1;
    insert_next(r);
    return 0;
}

/* Reads "VALUES (…),(…)". Either all rows are "()" or none. */
static int insert_read_rows(struct rows_reader *r)
{
    size_t rows = 0, empty = 0;
    /* INSERT … SELECT and INSERT … SET could contain code */
    if (!sql_is(&r->t, "VALUES") && !sql_is(&r->t, "VALUE"))
        return -1;
    do {
        if (rows++)
            buf_addc(&r->out->rows, ',');
        insert_next(r);
        r->out->empty = false;
        if (insert_read_row(r) < 0)
            return -1;
        empty += r->out->empty;
    } while (sql_is_punct(&r->t, ","));
    r->out->row_count = rows;
    return r->t.kind == SQL_END && (empty == 0 || empty == rows) ? 0 : -1;
}

int sql_insert_read(const char *s, size_t len, bool ansi_quotes, const bool *leave_out,
                    size_t count, struct sql_insert *out)
{
    struct rows_reader r = {
        .text = {.s = s, .end = s + len, .ansi_quotes = ansi_quotes, .binary = true},
        .leave_out = leave_out,
        .count = count,
        .out = out};
    *out = (struct sql_insert){0};
    /* the output is hardly ever longer than the input */
    buf_reserve(&out->rows, len);
    insert_next(&r);
    if (insert_read_columns(&r) == 0 && insert_read_rows(&r) == 0)
        return 0;
    sql_insert_free(out);
    return -1;
}

/* Frees an INSERT, also one that was rejected half-way. */
void sql_insert_free(struct sql_insert *i)
{
    for (size_t n = 0; n < i->column_count; n++)
        free(i->columns[n]);
    free(i->columns);
    buf_free(&i->rows);
    *i = (struct sql_insert){0};
}

bool sql_charset_safe(const char *name, size_t len)
{
    /* In these character sets the second byte of a character may be a backslash or a letter.
     * ucs2 and similar ones cannot be a client's character set. */
    static const char *const unsafe[] = {"big5",  "cp932", "gbk",     "sjis",    "ucs2",
                                         "utf16", "utf32", "utf16le", "gb18030", NULL};
    /* any other byte is not part of a character set's name and could end the literal */
    for (size_t i = 0; i < len; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", name[i]) ||
            !name[i])
            return false;
    for (const char *const *u = unsafe; *u; u++)
        if (strlen(*u) == len && strncasecmp(name, *u, len) == 0)
            return false;
    return len > 0;
}
