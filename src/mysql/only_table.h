/* Statements that name a table in the world's schema, where the game's account may have put a view
 * in the table's place. A view with SQL SECURITY INVOKER calls its functions with the privileges of
 * the account that reads or writes it, which would be ours.
 *
 * Servers refuse an index hint on a view while they open it, before anything of it is evaluated. A
 * name means the same table throughout a statement, and a table that is locked stays a table until
 * it is unlocked. So each statement that reads or writes rows has one of these:
 *
 *   DB_ONLY_TABLE   after the name, and alias, of a table that is read or updated. It hints at no
 *                   index for GROUP BY: a statement without GROUP BY and DISTINCT is carried out as
 *                   without the hint
 *   DB_ONLY(name)   in INSERT, REPLACE and DELETE, whose target takes no hint: a condition that is
 *                   always true
 *   DB_ONLY_0(name) the same as a number, 0, to be added to a value of VALUES
 *   db_only_locked()  after LOCK TABLES: no statement may name a locked table twice
 *
 * A statement with one of them fails with DB_IS_VIEW if the name is that of a view. HANDLER … OPEN,
 * CREATE … LIKE, ALTER, TRUNCATE and DROP TABLE need none: servers refuse them on views. */
#ifndef WK_MYSQL_ONLY_TABLE_H
#define WK_MYSQL_ONLY_TABLE_H

#include "mysql/conn.h"

#define DB_ONLY_TABLE "USE INDEX FOR GROUP BY ()"
/* A derived table: MySQL refuses a plain subquery on the target of the statement (1093). An
 * aggregate keeps it from being merged, and FALSE keeps it from reading rows. */
#define DB_ONLY_0(name)                                                                            \
    "(SELECT wk_0 FROM (SELECT COUNT(*) AS wk_0 FROM " name " " DB_ONLY_TABLE                      \
    " WHERE FALSE) wk_only)"
#define DB_ONLY(name) "0=" DB_ONLY_0(name)
#define DB_IS_VIEW 1176
#define DB_VIEW_HINT                                                                               \
    "this name belongs to a view: SHOW CREATE VIEW shows its owner; use DROP VIEW, then "          \
    "worldkeeper --check shows what is missing"

/* Fails if one of the tables that this session has locked, `name` (not quoted), is a view. */
int db_only_locked(struct db *db, const char *name, struct err *e);

#endif
