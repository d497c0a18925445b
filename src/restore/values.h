/* Rows of somebody else's INSERT, as text: values of generated columns out of them. MariaDB's
 * mysqldump writes those, Oracle's does not, and no server but MariaDB takes them. Pure. */
#ifndef WK_RESTORE_VALUES_H
#define WK_RESTORE_VALUES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/text.h"

/* `s`: what stands behind the table's name in an INSERT without a list of columns: "VALUES
 * (…),(…)". `generated` says it of each of `count` columns. 1: `out` has the rows without them; 0:
 * they are without them already, `out` is as it was; -1: some row has another number of values. */
int values_pick(struct buf *out, const char *s, size_t len, const bool *generated, size_t count);
/* The place behind the text or name whose quote is at s: `end` where it does not end. */
const char *values_behind_quoted(const char *s, const char *end);
/* The comma or the parenthesis that ends the value, or the column's definition, at s; `end` where
 * there is none. */
const char *values_end(const char *s, const char *end);

#endif
