/* Ledgers with rollups: a table to which the game only adds rows, and beside it one row per key with
 * the total up to a mark. The total of a key is the rollup's row plus the ledger's rows after the mark
 * (the view NAME_total).
 *
 * In a MEMORY table ids become visible in their order, because the table's lock covers a whole INSERT: a
 * key's mark is the last id in its total, total and mark change in one write of one row, and the rows up
 * to the mark are deleted afterwards. In InnoDB ids do not become visible in their order: rows are
 * claimed with FOR UPDATE SKIP LOCKED, added and deleted in one transaction, and the view adds all
 * rows that are there.
 *
 * A ledger belongs to one connection of one thread. Errors as in mysql/conn.h; ERR_REFUSED when the
 * table breaks a rule of ledgers, and then nothing was changed. */
#ifndef WK_LEDGER_LEDGER_H
#define WK_LEDGER_LEDGER_H

#include <jansson.h>

#include "base/clock.h"
#include "config/config.h"
#include "mysql/only_table.h"
#include "mysql/schema.h"
#include "sql/table.h"

#define LEDGER_TOTAL_DIGITS 38u
#define LEDGER_DIGITS 30u /* of a DECIMAL value: sums are formed in 128 bits */

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
    struct db_table rollup; /* if made */
    struct sql_table def;   /* the ledger's definition */
    const struct db_column *key[CONFIG_LEDGER_COLUMNS], *value[CONFIG_LEDGER_COLUMNS];
    unsigned scale[CONFIG_LEDGER_COLUMNS]; /* digits after the point, per value */
    char *index;    /* begins with the key and ends with the id; NULL: there is none */
    char *id_index; /* InnoDB in MySQL: begins with the id; NULL elsewhere */
    const struct db_column *request; /* NULL: none */
    uint64_t next_id;
};
/* The name of a table or view that is made beside it: NAME_rollup. It lives as long as the block around it. */
#define LEDGER_OWN_MAX 56 /* the config allows 40 characters for NAME */
#define LEDGER_OWN(c, suffix) ledger_own((char[LEDGER_OWN_MAX]){0}, c, suffix)
const char *ledger_own(char out[LEDGER_OWN_MAX], const struct config_ledger *c, const char *suffix);
/* Its keys, then its values. */
static inline unsigned ledger_columns(const struct ledger *l)
{
    return l->cfg->key.count + l->cfg->value.count;
}
static inline const struct db_column *ledger_column(const struct ledger *l, unsigned i)
{
    unsigned keys = l->cfg->key.count;
    return i < keys ? l->key[i] : l->value[i - keys];
}
/* The lock under which a ledger is rolled up, in this session until it ends; `wait` ms for another one's,
 * then ERR_BUSY. Taken before ledger_open(), so that what that reads stays true: a restore takes the
 * locks of all ledgers before it swaps tables. */
int ledger_lock(struct db *db, const char *schema, const char *name, int64_t wait, struct err *e);
/* The table must exist (else db_table_missing()) and have the columns that the config names, of types that
 * can be rolled up. */
int ledger_open(struct db *db, const char *schema, const struct config_ledger *cfg,
                struct ledger *out, struct err *e);
void ledger_close(struct ledger *l);

/* Adds the names of what ledger_init() would create. */
int ledger_missing(struct db *db, const struct ledger *l, json_t *names, struct err *e);
/* Creates what is missing of rollup, marks, views and request ids, and adds the names of what it made
 * to `made`, an array. */
int ledger_init(struct db *db, struct ledger *l, json_t *made, struct err *e);

/* Is the trigger for request ids one that reads no view in the place of NAME_request? 1 also where there is none. */
int ledger_trigger_current(struct db *db, const struct ledger *l, struct err *e);
/* ERR_REFUSED with the statement to type: the rollup's columns are not what the ledger's have become
 * (columns.c). */
int ledger_check_columns(struct db *db, const struct ledger *l, struct err *e);

/* Appends `form` for each of these columns, with its name, quoted, for each $ in it. Pure, like the rest. */
enum ledger_part { LEDGER_KEYS, LEDGER_VALUES, LEDGER_ALL };
void ledger_sql_each(struct buf *b, const struct ledger *l, enum ledger_part part,
                     const char *between, const char *form);
/* The statements, for a session whose default schema is the world's. */
void ledger_sql_rollup(struct buf *b, const struct ledger *l);
/* The rollup's column of a key or a value. */
void ledger_sql_column(struct buf *b, const struct ledger *l, const char *name);
void ledger_sql_mark(struct buf *b, const struct ledger *l);
void ledger_sql_total(struct buf *b, const struct ledger *l);
void ledger_sql_level(struct buf *b, const struct ledger *l);
/* "r.key=l.key AND …" */
void ledger_sql_join(struct buf *b, const struct ledger *l);
/* The ids of requests that were rolled up, and the trigger that refuses them. */
void ledger_sql_request(struct buf *b, const struct ledger *l);
void ledger_sql_trigger(struct buf *b, const struct ledger *l);
/* The index that rolling up needs, as a statement to type. */
void ledger_sql_index(struct buf *b, const struct ledger *l);

/* Request ids of rows that are about to be deleted: `where` is a condition for rows of the ledger. */
int ledger_request_add(struct db *db, const struct ledger *l, const char *where, struct err *e);
/* Forgets those that were added longer ago than request_keep. */
int ledger_request_expire(struct db *db, const struct ledger *l, struct err *e);

/* ERR_REFUSED: NAME_total was made for another table, or another engine of it. */
int ledger_check_view(struct db *db, const struct ledger *l, struct err *e);

struct ledger_options {
    bool dry_run;
    int64_t until; /* ms since 1970: rows up to then, however young; -1: by rollup_after */
    bool (*stop)(void *arg); /* asked between two pieces; may be NULL */
    void *stop_arg;
    int dirfd, level; /* of the dump directory, and of gzip: for rows that are kept */
};
struct ledger_result {
    uint64_t rolled_up; /* rows that this run added to totals */
    uint64_t late;      /* rows of this run that are older than what had been rolled up before */
    uint64_t ignored;   /* rows whose id had been rolled up already: no total has them */
    uint64_t kept;      /* rows that this run wrote to files */
    uint64_t pieces;
};
/* The error of a ledger whose rollup does not exist. */
int ledger_not_made(const struct ledger *l, struct err *e);
/* One run, under ledger_lock(). */
int ledger_rollup(struct db *db, struct ledger *l, const struct ledger_options *opt,
                  struct ledger_result *out, struct err *e);
/* --rollup --verify: do rollup, files and ledger agree? (verify.c) */
struct ledger_verified {
    uint64_t rows, keys, rolled_up; /* in the ledger, in the rollup, in its totals */
    uint64_t files, file_rows;
    json_t *problems, *unknown; /* sentences: what is wrong, and what cannot be known */
};
/* Under ledger_lock(). -1: it could not be verified; what was found is no error. */
int ledger_verify(struct db *db, struct ledger *l, int dirfd, struct ledger_verified *out,
                  struct err *e);
void ledger_verified_free(struct ledger_verified *v);
/* As the tables have it now, since --init; of a session whose default schema is the world's. */
struct ledger_figures {
    uint64_t rows, rolled_up, keys, late;
    wall_t last;  /* end of the last run; ms 0: there was none */
    wall_t since; /* then the oldest mark; ms 0: no row was ever seen */
};
int ledger_figures(struct db *db, const struct ledger *l, struct ledger_figures *out,
                   struct err *e);
/* How often, in ms, at least for rows to be rolled up at their age. */
int64_t ledger_mark_step(const struct config_ledger *cfg);
/* Remembers which ids exist now, so that a later run knows which rows are old. */
int ledger_mark(struct db *db, struct ledger *l, struct err *e);

#endif
