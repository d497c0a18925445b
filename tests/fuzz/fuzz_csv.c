/* Fuzzing of the reader of rolled-up rows: read in pieces of any length it gives the same rows
 * or the same refusal, and what it gave can be written and read again. The first byte is the
 * length of a piece. */
#include <stdlib.h>
#include <string.h>

#include "ledger/csv.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Rows as text: each field with its length and whether it was quoted. */
static int note(void *arg, const struct csv_field *fields, unsigned count, struct err *e)
{
    struct buf *b = arg;
    (void)e;
    for (unsigned i = 0; i < count; i++) {
        buf_printf(b, "%zu%c", fields[i].len, fields[i].quoted ? '"' : ':');
        buf_add(b, fields[i].s, fields[i].len);
    }
    buf_addc(b, '\n');
    return 0;
}

static int again(void *arg, const struct csv_field *fields, unsigned count, struct err *e)
{
    struct buf *b = arg;
    (void)e;
    for (unsigned i = 0; i < count; i++) {
        buf_adds(b, i ? "," : "");
        if (fields[i].quoted)
            csv_text(b, fields[i].s, fields[i].len);
        else
            buf_add(b, fields[i].s, fields[i].len);
    }
    buf_adds(b, "\r\n");
    return 0;
}

static bool read_all(const char *s, size_t size, size_t step, csv_row_fn *fn, struct buf *out)
{
    struct csv_reader r = {0};
    struct err e = {0};
    int rc = 0;
    buf_adds(out, "");
    for (size_t at = 0; at < size && rc == 0; at += step)
        rc = csv_feed(&r, s + at, step < size - at ? step : size - at, fn, out, &e);
    demand(rc == 0 || e.cls == ERR_DAMAGED);
    bool whole = rc == 0 && csv_whole(&r);
    csv_free(&r);
    return whole;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf rows = {0}, pieces = {0}, text = {0}, same = {0};
    if (size < 2)
        return 0;
    const char *s = (const char *)data + 1;
    bool whole = read_all(s, size - 1, size, note, &rows);
    demand(read_all(s, size - 1, 1u + data[0], note, &pieces) == whole);
    demand(strcmp(rows.p, pieces.p) == 0);
    if (whole) {
        demand(read_all(s, size - 1, size, again, &text));
        demand(read_all(text.p, text.len, text.len + 1, note, &same));
        demand(rows.len == same.len && memcmp(rows.p, same.p, rows.len) == 0);
    }
    buf_free(&rows);
    buf_free(&pieces);
    buf_free(&text);
    buf_free(&same);
    return 0;
}
