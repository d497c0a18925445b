/* One reading of another tool's file from start to end, for both passes of an import (import.c,
 * import_load.c). */
#ifndef WK_RESTORE_IMPORT_PASS_H
#define WK_RESTORE_IMPORT_PASS_H

#include "restore/import.h"
#include "restore/import_read.h"
#include "restore/plan.h"
#include "sql/foreign_set.h"
#include "sql/insert.h"
#include "sql/table.h"

/* One statement, with the state at that point. */
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
    const char *only; /* the wanted schema; NULL: all */
    bool survey;      /* nothing is refused: only the contents of the file matter */
    import_seen_fn *fn;
    void *arg;
    struct import_reading reading;
    struct foreign_session session;
    struct buf schema; /* schema of the last USE; "": none */
    bool begun;        /* a table was seen since the head of this part of the file */
};

/* Reads the file from its start to its end. Of schemas other than `only` the function gets only SET
 * and database statements. */
int import_pass(struct import_pass *p, import_seen_fn *fn, void *arg, struct err *e);
void import_pass_free(struct import_pass *p);
/* Sets "FILE, line N: this statement is not taken (why): …" with the stock client's command; `why`
 * NULL: no reason is known. Returns -1. */
int import_refuse(const struct import_pass *p, const struct import_seen *x, const char *why,
                  struct err *e);
/* Prepends "FILE, line N". */
int import_step(const struct import_pass *p, const struct import_seen *x, struct err *e);
/* Returns the character set of the next rows. */
const char *import_names(const struct import_pass *p);
/* Reads the rows of an INSERT for the columns of `t` (NULL: of any table). ERR_REFUSED if they are
 * not only values, also for a server that reads them in the session's character set. */
int import_rows(const struct import_pass *p, const struct import_seen *x, const struct target *t,
                struct sql_insert *out, struct err *e);
/* Sets the hint to the stock client's command for the file. */
int import_hint_stock(const struct import *in, const struct plan *plan, struct err *e);

#endif
