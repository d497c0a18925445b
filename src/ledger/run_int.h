/* Internals of a run of a ledger, shared by its files. */
#ifndef WK_LEDGER_RUN_INT_H
#define WK_LEDGER_RUN_INT_H

#include "ledger/ledger.h"
#include "ledger/rollup.h"

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
    /* InnoDB, with `keep`: no row after this id was rolled up */
    void (*unclaim)(struct ledger_keep *keep, uint64_t after_id);
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

/* ledger.c */
/* Runs a query for a number; NULL becomes 0. */
int ledger_ask(struct db *db, uint64_t *out, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Writes a row of NAME_mark: `what` with a number and a time. */
int ledger_mark_write(struct run *r, const char *what, wall_t at, uint64_t id, struct err *e);
/* Deletes the marker row 'open' of a piece that is complete. */
int ledger_mark_closed(struct run *r, struct err *e);
int ledger_server_now(struct db *db, int64_t *ms, struct err *e);

#endif
