/* Private to src/restore: what the parts of the copy share (restore/warm.h). Each part uses only those before it:
 * warm.c (what proves it), warm_apply.c, warm_compare.c, warm_catch_up.c; warm_promote.c and warm_keep.c use them. */
#ifndef WK_RESTORE_WARM_INT_H
#define WK_RESTORE_WARM_INT_H

#include "mysql/sentinel.h"
#include "restore/warm.h"

#define WARM_MARK DB_OWN_PREFIX "copy"     /* one row: the whole copy */
#define WARM_TABLES DB_OWN_PREFIX "tables" /* a row for each table */

/* `what`, with the reason in w->why. */
int warm_finding(struct warm *w, enum warm_found what, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* An error that says something about the copy; or -1: one of the server or the system, which says nothing. */
int warm_judged(struct warm *w, enum warm_found what, const struct err *why, struct err *e);

/* Applies the changes to each table and notes its new figures. An error may leave a table half changed: whoever calls
 * marks the copy before (`redo`), and takes the mark away only after all of them. */
int warm_apply_tables(struct warm *w, const struct replay *changes, struct err *e);

/* The same tables, each with the same definition: the journal does not have all that changes one, such as an
 * index. */
int warm_compare_definitions(struct warm *w, const struct manifest *m, struct err *e);
/* All rows with what a load of this dump and of the `changes` since it would give. */
int warm_compare_content(struct warm *w, const struct manifest *m, const struct replay *changes,
                         struct err *e);

#endif
