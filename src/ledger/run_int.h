/* Internals of a run of a ledger, shared by its files. */
#ifndef WK_LEDGER_RUN_INT_H
#define WK_LEDGER_RUN_INT_H

#include "ledger/ledger.h"

__extension__ typedef __int128 total_t;

/* Sum of the rows of one key in a piece. */
struct group {
    struct buf key; /* as in an INSERT: "1,'a'" */
    total_t sum[CONFIG_LEDGER_COLUMNS];
    uint64_t last_id, rows;
    struct buf time; /* the newest */
};

struct run {
    struct db *db;
    struct ledger *l;
    const struct ledger_options *opt;
    struct ledger_result *out;
    struct buf table, rollup, mark; /* quoted names */
    uint64_t upto;                  /* ids up to this one are old enough */
    struct buf until;               /* InnoDB: SQL of the newest allowed time; empty: no limit */
    struct buf newest;              /* SQL of the newest time in the rollup; empty: there is none */
    bool left_over;                 /* the previous run was interrupted in a piece */
    uint64_t left_over_max;         /* maximum number of rows of that piece */
    struct buf after;  /* condition for rows after the last piece; empty: from the beginning */
    uint64_t after_id; /* InnoDB */
    unsigned piece;    /* maximum rows of one piece */
    total_t largest[CONFIG_LEDGER_COLUMNS]; /* no total is farther from 0 */
    struct buf whole; /* ",column,…" to read in addition; empty: none; borrowed */
    unsigned whole_count;
    struct ledger_keep *keep; /* NULL: rolled-up rows are not kept */
    /* with `keep`: returns true if the row is in a file */
    bool (*filed)(struct ledger_keep *keep, uint64_t id);
};

struct piece {
    struct group *groups;
    size_t count;
    uint64_t rows, late, left_over;
    bool open;          /* MEMORY: part of it may have been executed */
    bool end;           /* it is the last piece */
    struct buf up_to;   /* condition for rows up to its last one */
    struct buf next;    /* condition for rows after it */
    struct buf ids;     /* InnoDB: "1,2,3" */
    struct buf ignored; /* ids below the mark, which are left alone */
    size_t ignored_count;
};

/* sums.c */
bool ledger_value_parse(const char *s, size_t len, unsigned scale, total_t *out);
void ledger_value_put(struct buf *b, total_t v, unsigned scale);
bool ledger_parse_id(const char *s, size_t len, uint64_t *out);
struct group *ledger_group_of(struct piece *p, struct buf *key);
void ledger_group_add(const struct run *r, struct group *g, uint64_t id, const total_t *v,
                      const char *time, size_t len);
/* Merges the rows into one group per key, in the order of keys. */
void ledger_merge_groups(const struct run *r, struct piece *p);

/* piece_sql.c */
void ledger_sql_select(struct buf *b, const struct run *r);
void ledger_sql_limit(struct buf *b, const struct run *r, char **row, const unsigned long *len,
                      uint64_t id, bool after, bool whole_key);
void ledger_sql_add(struct buf *b, const struct run *r, const struct piece *p);
/* Appends the condition for the rows of a piece. */
void ledger_sql_rows_of(struct buf *b, const struct run *r, const struct piece *p);
void ledger_sql_delete(struct buf *b, const struct run *r, const struct piece *p);
void ledger_put_literal(struct buf *b, const struct db_column *c, const char *v, size_t len,
                        bool compared);

/* limits.c: checks that every total fits its column. */
int ledger_limits_begin(struct run *r, struct err *e);
int ledger_limits_check(struct run *r, const struct piece *p, struct err *e);

/* age.c: finds the last id that is old enough; InnoDB: and the newest time. */
/* Appends a time as SQL, in the terms of the time column: a column without a time zone has that of
 * the server. */
void ledger_sql_moment(struct buf *b, const struct ledger *l, int64_t ms);
int ledger_find_end(struct run *r, struct err *e);

/* Called for each row: `row` holds these fields, then the columns of `whole`. */
enum { FIELD_ID, FIELD_MARK, FIELD_FLAG, FIELD_KEY };
typedef int row_fn(struct run *r, struct piece *p, uint64_t id, uint64_t mark, char **row,
                   const unsigned long *len, struct err *e);
/* Reads the next rows after the previous piece. */
int ledger_read_piece(struct run *r, struct piece *p, row_fn *fn, struct err *e);
void ledger_free_piece(struct piece *p);
/* Adds and deletes all pieces, from the current one on. */
int ledger_all_pieces(struct run *r, struct err *e);
/* The same for a ledger with `keep`: each row is written to a file first. */
int ledger_keep_run(struct run *r, struct err *e);
/* Continues after this piece; NULL: from the beginning. */
void ledger_next_piece(struct run *r, struct piece *p);
/* Refuses a row whose key no total can have: NULL, or none of an ENUM's values. */
int ledger_check_key(const struct run *r, uint64_t id, char **key, struct err *e);
int ledger_refuse_row(const struct run *r, uint64_t id, const char *column, const char *why,
                      struct err *e);
/* Runs a query for a number; NULL becomes 0. */
int ledger_ask(struct db *db, uint64_t *out, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Writes a row of NAME_mark: `what` with a number and the current time. */
int ledger_mark_write(struct run *r, const char *what, uint64_t id, struct err *e);
int ledger_server_now(struct db *db, int64_t *ms, struct err *e);

#endif
