/* Rows as RFC 4180: fields with commas between them, lines that end with CR LF. A quoted field
 * is text in UTF-8; a field without quotes is a number, a date, 0x and the hex digits of binary
 * data, or, if it is empty, NULL. So "" is an empty text. Pure. */
#ifndef WK_LEDGER_CSV_H
#define WK_LEDGER_CSV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/text.h"

void csv_text(struct buf *b, const char *s, size_t len);

struct csv_field {
    const char *s; /* without its quotes */
    size_t len;
    bool quoted;
};
/* Returns -1 to end the reading. The fields are valid until it returns. */
typedef int csv_row_fn(void *arg, const struct csv_field *fields, unsigned count, struct err *e);

#define CSV_FIELDS 4096u
#define CSV_ROW (1u << 30)
/* Reads a file in pieces of any length. Starts as {0}. */
struct csv_reader {
    struct buf row;
    struct csv_field *fields; /* s is NULL until the row is complete */
    unsigned count;
    size_t begin; /* start of this field, in `row` */
    enum { CSV_BEGIN, CSV_PLAIN, CSV_QUOTED, CSV_QUOTE, CSV_RETURN } state;
    bool quoted;
};
/* Returns 0; -1 if it is not such a file (ERR_DAMAGED), or if `fn` returned -1. */
int csv_feed(struct csv_reader *r, const char *s, size_t len, csv_row_fn *fn, void *arg,
             struct err *e);
/* Returns true if the file ends with a complete row. */
bool csv_whole(const struct csv_reader *r);
void csv_free(struct csv_reader *r);

#endif
