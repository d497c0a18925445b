/* Imports a file written by mysqldump, or a copy of one of our dumps without its manifest,
 * statement by statement. Only for a file that an operator names. Its INSERTs go into the shadow
 * tables of the plan, so that such a restore is all or nothing too. Locks, keys and databases are
 * skipped, code is noted (code.h), and anything that is not understood is refused. */
#ifndef WK_RESTORE_IMPORT_H
#define WK_RESTORE_IMPORT_H

#include "restore/code.h"
#include "restore/load.h"

struct import_report {
    bool ends;        /* each part of the file has its closing comment */
    char schema[256]; /* the one to restore, of several in the file; "": there is only one */
    char zone[64];    /* time zone of its values, if the file sets it */
    bool server_zone; /* it is mysqldump's and does not set a time zone */
};

/* First pass: adds the file's tables, with their engines, to the plan; changes nothing. `code`: its
 * code is noted there; NULL: it is not wanted yet. */
int import_plan(int fd, const char *name, struct plan *plan, struct code *code,
                struct import_report *report, struct err *e);
/* Second pass: loads the rows, and notes the code. `fd` is read from its start. */
int import_load(int fd, const char *name, const struct import_report *report, struct loader *l,
                struct code *code, struct err *e);

#endif
