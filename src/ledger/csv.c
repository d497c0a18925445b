#include "ledger/csv.h"

#include <stdlib.h>
#include <string.h>

void csv_text(struct buf *b, const char *s, size_t len)
{
    buf_addc(b, '"');
    for (const char *quote; (quote = memchr(s, '"', len)); s = quote + 1) {
        size_t n = (size_t)(quote - s) + 1;
        buf_add(b, s, n);
        buf_addc(b, '"');
        len -= n;
    }
    buf_add(b, s, len);
    buf_addc(b, '"');
}

/* Sets an error that says only what is wrong; the caller adds the file's name. */
static int csv_damaged(struct err *e, const char *what)
{
    return err_set(e, ERR_DAMAGED, 0, "%s", what);
}

/* A field has only a length until its row is complete, because the row's text moves when it
 * grows. */
static int end_field(struct csv_reader *r, struct err *e)
{
    if (r->count == CSV_FIELDS)
        return csv_damaged(e, "a row is too long");
    r->fields = xgrow(r->fields, r->count, sizeof *r->fields);
    r->fields[r->count++] = (struct csv_field){.len = r->row.len - r->begin, .quoted = r->quoted};
    r->begin = r->row.len;
    r->quoted = false;
    r->state = CSV_BEGIN;
    return 0;
}

/* Passes the row to `fn` and reuses its memory for the next row. */
static int end_row(struct csv_reader *r, csv_row_fn *fn, void *arg, struct err *e)
{
    const char *s = r->row.p ? r->row.p : "";
    for (unsigned i = 0; i < r->count; i++) {
        r->fields[i].s = s;
        s += r->fields[i].len;
    }
    int rc = fn(arg, r->fields, r->count, e);
    r->count = 0;
    r->begin = 0;
    buf_clear(&r->row);
    return rc;
}

/* Processes a byte outside of quotes. */
static int feed_plain(struct csv_reader *r, char c, struct err *e)
{
    if (c == ',')
        return end_field(r, e);
    if (c == '\r') {
        r->state = CSV_RETURN;
        return 0;
    }
    if (c == '\n' || c == '"' || r->quoted)
        return csv_damaged(e, "a field has text beside its quotes, or a line ends without CR");
    r->state = CSV_PLAIN;
    buf_addc(&r->row, c);
    return 0;
}

/* Reads byte by byte, because a piece may end anywhere, even between CR and LF. */
int csv_feed(struct csv_reader *r, const char *s, size_t len, csv_row_fn *fn, void *arg,
             struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < len && rc == 0; i++) {
        char c = s[i];
        if (r->state == CSV_QUOTED) {
            if (c == '"')
                r->state = CSV_QUOTE;
            else
                buf_addc(&r->row, c);
        } else if (c == '"' && (r->state == CSV_BEGIN || r->state == CSV_QUOTE)) {
            if (r->state == CSV_QUOTE)
                buf_addc(&r->row, c);
            r->quoted = true;
            r->state = CSV_QUOTED;
        } else if (r->state == CSV_RETURN) {
            rc = c != '\n' ? csv_damaged(e, "a line ends without LF") : end_field(r, e);
            if (rc == 0)
                rc = end_row(r, fn, arg, e);
        } else {
            rc = feed_plain(r, c, e);
        }
        /* Checked after each byte, because a field may be endless. */
        if (rc == 0 && r->row.len > CSV_ROW)
            rc = csv_damaged(e, "a row is too long");
    }
    return rc;
}

bool csv_whole(const struct csv_reader *r)
{
    return r->state == CSV_BEGIN && r->count == 0;
}

void csv_free(struct csv_reader *r)
{
    buf_free(&r->row);
    free(r->fields);
    *r = (struct csv_reader){0};
}
