/* Reads another tool's file statement by statement, split as by the stock client: delimiters,
 * comments, lines. The file is plain text or gzip; anything else is refused, named by its first
 * bytes. */
#ifndef WK_RESTORE_IMPORT_READ_H
#define WK_RESTORE_IMPORT_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/gzip.h"

struct import_statement {
    const char *sql; /* borrowed; without leading comments */
    size_t len;
    uint64_t number, line; /* counted from 1 */
    /* Set by the called function: */
    bool
        /* it restores the settings that the file's head had saved, which is the end of a tool's
         * file */
        closes;
    bool begins; /* it belongs to a file's head: another file has begun */
};
typedef int import_statement_fn(void *arg, struct import_statement *st, struct err *e);

struct import_reading {
    const char *name; /* of the file, for errors */
    bool accept_cut;  /* skip an incomplete last statement */
    bool plain; /* a backslash is an ordinary character from here on; the function may set it */
    /* Results: */
    bool ends;               /* the last statement of each part is one that ends a tool's file */
    uint64_t cut_line;       /* line of the incomplete statement; 0: there is none */
    uint64_t last_line;      /* line of the last statement */
    char sha256[SHA256_HEX]; /* of the bytes that were read, if the reading succeeded */
};

/* Reads `fd` from its start. */
int import_read(int fd, struct import_reading *r, import_statement_fn *fn, void *arg,
                struct err *e);

#endif
