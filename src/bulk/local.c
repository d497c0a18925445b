/* LOAD DATA LOCAL, fed from memory. The server reads the tuples of a dump without their quotes;
 * fields end in CR, lines in LF. sql_string() escapes both and the backslash, so values are
 * copied unchanged. */
#include "bulk/local.h"

#include <stdio.h>
#include <string.h>

#include "bulk/block.h"
#include "bulk/bulk_int.h"
#include "sql/literal.h"

/* Writes a value and returns the end of the output, which is never longer than the literal.
 * Returns NULL if the value is not a plain literal. */
static char *local_put_value(const struct sql_literal *l, char *o)
{
    char *bytes = o + l->len / 2, *end;
    switch (l->kind) {
    case SQL_IS_NULL:
        *o++ = '\\';
        *o++ = 'N';
        return o;
    case SQL_IS_STRING: /* an unescaped CR would split the row */
        if (!l->ours && (!sql_literal_bytes(l, o) || memchr(l->s, '\r', l->len)))
            return NULL;
        break;
    case SQL_IS_NUMBER:
        break;
    case SQL_IS_HEX: /* the bytes are kept in the second half of the space until they are escaped */
        end = sql_literal_bytes(l, bytes);
        for (; end && bytes < end; bytes++) {
            char c = *bytes;
            if (c == '\\' || c == '\r' || c == '\n' || c == '\0') {
                *o++ = '\\';
                c = c == '\r' ? 'r' : c == '\n' ? 'n' : c == '\0' ? '0' : '\\';
            }
            *o++ = c;
        }
        return end ? o : NULL;
    }
    memcpy(o, l->s, l->len);
    return o + l->len;
}

int bulk_lines(struct buf *out, const char *s, size_t len)
{
    const char *end = s + len;
    struct sql_literal l;
    buf_reserve(out, len); /* a line is never longer than its tuple */
    char *o = out->p + out->len;
    for (;;) {
        if (s >= end || *s != '(')
            return -1;
        do {
            s = sql_read_literal(s + 1, end, &l);
            if (!s || s == end || (*s != ',' && *s != ')') || !(o = local_put_value(&l, o)))
                return -1;
            *o++ = *s == ',' ? '\r' : '\n';
        } while (*s == ',');
        if (++s == end)
            break;
        if (end - s < 3 || s[0] != ',' || s[1] != '\n')
            return -1;
        s += 2;
    }
    out->len = (size_t)(o - out->p);
    *o = '\0';
    return 0;
}

static bool by_variable(const struct bulk_column *c)
{
    return c->encoding == DB_INDEX || c->encoding == DB_LATIN1 || c->encoding == DB_UTF8;
}

void bulk_local_open(struct db_bulk *b, const struct bulk_column *columns, size_t count)
{
    SCOPED(buf_free) struct buf set = {0};
    char variable[24];
    bool any = false;
    for (size_t i = 0; i < count; i++)
        any |= by_variable(&columns[i]);
    buf_adds(&b->sql, "LOAD DATA LOCAL INFILE 'rows' INTO TABLE ");
    sql_ident(&b->sql, b->table);
    buf_adds(&b->sql, " CHARACTER SET binary FIELDS TERMINATED BY '\\r' ENCLOSED BY '' "
                      "ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' STARTING BY '' (");
    for (size_t i = 0; i < count; i++) {
        const struct bulk_column *c = &columns[i];
        buf_adds(&b->sql, i ? "," : "");
        /* With a SET clause MariaDB replaces a zero by the next number, unless the SET clause
         * also assigns this column. */
        bool counter = c->counter && any;
        if (!by_variable(c) && !counter) {
            sql_ident(&b->sql, c->name);
            continue;
        }
        snprintf(variable, sizeof variable, "@v%zu", i);
        buf_adds(&b->sql, variable);
        buf_adds(&set, set.len ? "," : " SET ");
        sql_ident(&set, c->name);
        buf_addc(&set, '=');
        if (counter)
            buf_adds(&set, variable);
        else
            bulk_expression(&set, c->encoding, variable);
    }
    buf_addc(&b->sql, ')');
    buf_add(&b->sql, set.p, set.len);
}

int bulk_local_send(struct db_bulk *b, const struct buf *lines, struct err *e)
{
    struct db_feed feed = {lines->p, lines->len};
    b->db->feed = &feed;
    int rc = db_exec_len(b->db, b->sql.p, b->sql.len, e);
    b->db->feed = NULL;
    b->taken += rc < 0 ? 0 : db_affected(b->db);
    b->warnings += rc < 0 ? 0 : db_warnings(b->db);
    return rc;
}
