/* Builds the statements that create the tables, views and trigger beside a ledger. */
#ifndef WK_LEDGER_SQL_H
#define WK_LEDGER_SQL_H

#include "ledger/ledger.h"

/* The name of a table or view that is created beside it: NAME_rollup. It lives as long as the
 * enclosing block. */
#define LEDGER_OWN_MAX 56 /* the config allows 40 characters for NAME */
#define LEDGER_OWN(c, suffix) ledger_own((char[LEDGER_OWN_MAX]){0}, c, suffix)
const char *ledger_own(char out[LEDGER_OWN_MAX], const struct config_ledger *c, const char *suffix);
/* Appends `form` for each of these columns, with the quoted name for each $ in it. Pure, like the
 * following functions. */
enum ledger_part { LEDGER_KEYS, LEDGER_VALUES, LEDGER_ALL };
void ledger_sql_each(struct buf *b, const struct ledger *l, enum ledger_part part,
                     const char *between, const char *form);
/* These append the statements for a session whose default schema is the world's. */
void ledger_sql_rollup(struct buf *b, const struct ledger *l);
/* Appends the rollup's column of a key or a value. */
void ledger_sql_column(struct buf *b, const struct ledger *l, const char *name);
void ledger_sql_mark(struct buf *b, const struct ledger *l);
void ledger_sql_total(struct buf *b, const struct ledger *l);
void ledger_sql_level(struct buf *b, const struct ledger *l);
/* Appends "r.key=l.key AND …". */
void ledger_sql_join(struct buf *b, const struct ledger *l);
/* Appends the table of request ids that were rolled up, and the trigger that refuses them. */
void ledger_sql_request(struct buf *b, const struct ledger *l);
void ledger_sql_trigger(struct buf *b, const struct ledger *l);
/* Returns when the trigger runs: "BEFORE" or "AFTER" an INSERT. */
const char *ledger_sql_timing(const struct ledger *l);
/* Appends the statement that creates the index that rolling up needs. */
void ledger_sql_index(struct buf *b, const struct ledger *l);

#endif
