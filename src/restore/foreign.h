/* Reads a file that plain mysqldump (or anybody's copy of ours, without its manifest) wrote,
 * statement by statement. Only for a file that an operator names. Its INSERTs go into shadow tables
 * under the names of the plan, so that such a restore is all or nothing too; locks, keys,
 * databases, triggers, views and routines are passed over and counted; anything that is not
 * understood is refused. */
#ifndef WK_RESTORE_FOREIGN_H
#define WK_RESTORE_FOREIGN_H

#include "restore/load.h"

struct foreign_report {
    uint64_t statements, passed_over;
    bool ends;        /* the closing comment was there */
    char schema[256]; /* of several in the file the one that is meant; "": there is only one */
    char zone[64];    /* of its times, where it says so */
    bool server_zone; /* it is mysqldump's, and does not */
};

/* First pass: which tables, of which engine? Adds them to the plan; changes nothing. */
int foreign_plan(int fd, const char *name, struct plan *plan, const struct job *job,
                 struct foreign_report *report, struct err *e);
/* Second pass: loads. `fd` is read from its start. */
int foreign_load(int fd, const char *name, const struct foreign_report *report, struct loader *l,
                 struct err *e);

#endif
