/* What of a dump's text may go to the server as it stands. Rows are values and nothing else;
 * definitions are statements by nature, and may be no other statement than the one that makes the
 * thing. Whoever can put a file where dumps lie gets no further than that. Pure.
 *
 * The text is read as a server reads it in a session of ours: backslashes escape, "…" is a string.
 */
#ifndef WK_RESTORE_ALLOWED_H
#define WK_RESTORE_ALLOWED_H

#include <stdbool.h>
#include <stddef.h>

/* What stands behind the name in CREATE TABLE: columns in parentheses and options, nothing that
 * reads another table, names a file or reaches another server. */
bool allowed_table(const char *s, size_t len);
/* Why a durable table is left out whose definition is another. */
#define ALLOWED_NOT_TABLE                                                                          \
    "left as it is: its definition holds more than columns and options of a table (such as a "     \
    "directory of the server's)"
/* What stands behind the table's name in somebody else's INSERT: an optional list of columns, then
 * VALUES and rows of literals, as any mysqldump writes them. */
bool allowed_rows(const char *s, size_t len);
/* One statement of a dump's definitions: a setting that is made for them, DROP … IF EXISTS, or
 * CREATE of a view, trigger, routine, library or event in the session's own schema. */
bool allowed_definition(const char *sql);
/* Of a character set's name: do its characters leave ASCII alone, so that a quote is a quote? */
bool allowed_charset(const char *name, size_t len);

#endif
