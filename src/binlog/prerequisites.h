/* Whether the binary log can be followed at all: what a journal needs of the server and of the
 * account. */
#ifndef WK_BINLOG_PREREQUISITES_H
#define WK_BINLOG_PREREQUISITES_H

#include "mysql/conn.h"

/* Checks whether the changes of this schema can be read: what a journal needs from the server and
 * from the account, in the order in which an admin would look. `reason` is NULL, or the first
 * reason why not, as a sentence (malloc), with the solution in `hint` (malloc). Returns -1 if the
 * server could not be queried.
 *
 * Most problems show in the log itself, at the first change that cannot be read. Those that do not
 * are `silent`: such a log may lack changes, and nothing in it tells which. They are checked first.
 *
 * No query finds out the following: open sessions keep the binlog_format and binlog_row_image that
 * they began with, and may switch the log off for themselves. */
enum binlog_silence {
    BINLOG_SPEAKS,
    /* the running server filters; what it wrote before its start may be complete */
    BINLOG_FILTERED,
    BINLOG_FED, /* a replica that does not log changes of its source, since an unknown time */
};
struct binlog_prerequisites {
    char *reason, *hint;
    enum binlog_silence silent;
};
int binlog_prerequisites(struct db *db, const char *schema, struct binlog_prerequisites *out,
                         struct err *e);
/* Like binlog_prerequisites(), but only for what is `silent`. */
int binlog_silence(struct db *db, const char *schema, struct binlog_prerequisites *out,
                   struct err *e);
/* Like binlog_prerequisites(), for a reader of an existing log: if the server cannot be queried,
 * the log counts as one that may lack anything. Returns -1 only if the server does not answer. */
int binlog_judge(struct db *db, const char *schema, struct binlog_prerequisites *out,
                 struct err *e);
void binlog_prerequisites_free(struct binlog_prerequisites *a);

#endif
