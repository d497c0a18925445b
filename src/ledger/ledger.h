/* Ledgers with rollups: a table to which the game only adds rows, and beside it one row per key
 * with the total up to a rollup position (in the code: mark). The total of a key is the rollup's
 * row plus the ledger's rows after that position (the view NAME_total).
 *
 * In a MEMORY table ids become visible in order, because the table's lock covers a whole INSERT. A
 * key's position is the last id in its total; total and position change in one write of one row,
 * and the rows up to the position are deleted afterwards. In InnoDB ids do not become visible in
 * order: rows are claimed with FOR UPDATE SKIP LOCKED, added and deleted in one transaction, and
 * the view adds all remaining rows.
 *
 * A ledger belongs to one connection of one thread. Errors as in mysql/conn.h; ERR_REFUSED if the
 * table breaks a rule of ledgers; nothing was changed then. */
#ifndef WK_LEDGER_LEDGER_H
#define WK_LEDGER_LEDGER_H

#include <jansson.h>

#include "base/clock.h"
#include "config/config.h"
#include "mysql/only_table.h"
#include "mysql/schema.h"
#include "sql/table.h"

#define LEDGER_TOTAL_DIGITS 38u
#define LEDGER_DIGITS 30u /* of a DECIMAL value, so that sums fit in 128 bits */

/* One ledger as the server describes it. */
struct ledger {
    const struct config_ledger *cfg; /* borrowed, like schema */
    const char *schema;
    bool mariadb;
    const char *new_row;    /* WORD_NEW_ROW */
    bool memory;            /* ENGINE=MEMORY */
    bool made;              /* rollup and marks exist */
    bool time_is_number;    /* seconds since 1970 */
    bool time_is_instant;   /* TIMESTAMP: read in the session's time zone */
    struct db_table table;  /* the ledger */
    struct db_table rollup; /* valid if made */
    struct sql_table def;   /* the ledger's definition */
    const struct db_column *key[CONFIG_LEDGER_COLUMNS], *value[CONFIG_LEDGER_COLUMNS];
    unsigned scale[CONFIG_LEDGER_COLUMNS]; /* digits after the point, per value */
    char *index; /* an index that begins with the key and ends with the id; NULL: there is none */
    char *id_index; /* InnoDB in MySQL: an index that begins with the id; NULL elsewhere */
    const struct db_column *request; /* NULL: none */
    uint64_t next_id;
};
/* Returns the number of its keys and values. */
static inline unsigned ledger_columns(const struct ledger *l)
{
    return l->cfg->key.count + l->cfg->value.count;
}
static inline const struct db_column *ledger_column(const struct ledger *l, unsigned i)
{
    unsigned keys = l->cfg->key.count;
    return i < keys ? l->key[i] : l->value[i - keys];
}
/* Takes the lock for rolling up a ledger, held by this session until it ends. Waits `wait` ms for
 * another session, then ERR_BUSY. Take it before ledger_open(), so that the facts read there stay
 * true: a restore takes the locks of all ledgers before it swaps tables. */
int ledger_lock(struct db *db, const char *schema, const char *name, int64_t wait, struct err *e);
/* Reads a ledger. The table must exist (else db_table_missing()) and have the columns that the
 * config names, of types that can be rolled up. */
int ledger_open(struct db *db, const char *schema, const struct config_ledger *cfg,
                struct ledger *out, struct err *e);
void ledger_close(struct ledger *l);

/* Checks right before a statement that changes the ledger or its tables that this machine still has
 * the world (mysql/fenced.h). */
int ledger_may_change(const struct ledger *l, struct db *db, struct err *e);

/* Adds the names of what ledger_init() would create. */
int ledger_missing(struct db *db, const struct ledger *l, json_t *names, struct err *e);
/* Creates the missing ones of rollup, marks, views and request ids, and adds their names to the
 * array `made`. Creates views again, and a trigger that ledger_check_trigger() refuses. */
int ledger_init(struct db *db, struct ledger *l, json_t *made, struct err *e);

/* ERR_REFUSED: the trigger for request ids is not on the ledger's table, or was created for another
 * column or another engine. Sets `unsafe` (may be NULL) to whether the table has such a trigger and
 * that also reads a view in the place of NAME_request. */
int ledger_check_trigger(struct db *db, const struct ledger *l, bool *unsafe, struct err *e);
/* ERR_REFUSED: NAME_total was created for another table, or for another engine of it. */
int ledger_check_view(struct db *db, const struct ledger *l, struct err *e);

/* Figures from the tables since --init; for a session whose default schema is the world's. */
struct ledger_figures {
    uint64_t rows, rolled_up, keys, late;
    wall_t last;  /* end of the last run; ms 0: there was none */
    wall_t since; /* if there was none: time of the oldest mark; ms 0: no row was ever seen */
};
int ledger_figures(struct db *db, const struct ledger *l, struct ledger_figures *out,
                   struct err *e);
#endif
