/* One reading of another tool's file from its start to its end, as both passes of an import do (import.c, import_load.c). */
#ifndef WK_RESTORE_IMPORT_PASS_H
#define WK_RESTORE_IMPORT_PASS_H

#include "restore/import.h"
#include "restore/import_read.h"
#include "restore/plan.h"
#include "sql/insert.h"
#include "sql/table.h"

/* One statement, and what is known when it comes. */
struct import_seen {
    const struct import_statement *st;
    const char *sql; /* without the version comment around it */
    size_t len;
    unsigned modes; /* enum sql_table_modes */
    struct foreign f;
};
typedef int import_seen_fn(void *arg, struct import_seen *x, struct err *e);

struct import_pass {
    const struct import *in;
    const struct plan *plan;
    const char *only; /* the schema whose statements are wanted; NULL: all */
    bool survey;      /* nothing is refused: only what is in the file counts */
    import_seen_fn *fn;
    void *arg;
    struct import_reading reading;
    struct foreign_session session;
    struct buf schema; /* named by USE; "": none was */
    bool begun;        /* a table was seen since the head of this part of the file */
};

/* One reading of the file from its start to its end. Of other schemas than `only` the function gets nothing but SET and
 * databases. */
int import_pass(struct import_pass *p, import_seen_fn *fn, void *arg, struct err *e);
void import_pass_free(struct import_pass *p);
/* "FILE, line N: this statement is not taken (why): …" with the stock client's command; `why` NULL: none is known. */
int import_refuse(const struct import_pass *p, const struct import_seen *x, const char *why,
                  struct err *e);
/* Prepends "FILE, line N". */
int import_step(const struct import_pass *p, const struct import_seen *x, struct err *e);
/* The character set of the rows that come now. */
const char *import_names(const struct import_pass *p);
/* Reads the rows of an INSERT for the columns of `t`. -1: they are not only values. */
int import_rows(const struct import_seen *x, const struct target *t, struct sql_insert *out);
/* Sets the hint to the stock client's command for the file. */
int import_hint_stock(const struct import *in, const struct plan *plan, struct err *e);

#endif
