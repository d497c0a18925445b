/* The changes of a world, in order. They come from either source of a journal: the server's binary
 * log (decode.h), or the segments that a follower wrote (segment.h). A replay and the follower
 * consume them. Plain data; texts live until the next change. In the code a transaction is called a
 * group. */
#ifndef WK_BINLOG_CHANGE_H
#define WK_BINLOG_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "binlog/statement.h"
#include "mysql/schema.h"

/* A table of the world, as far as its changes need it. */
struct change_table {
    const char *name;
    char columns[17];    /* db_columns_hash() */
    const unsigned *key; /* positions of the primary key's columns in a tuple */
    size_t key_count;
    int counter; /* position of the AUTO_INCREMENT column in a tuple; -1: there is none */
    bool gone;   /* no longer on the server; only its name is known */
    void *user;  /* owned by the consumer; NULL at first */
};

/* The GTID of a transaction; gtid.h maps MySQL's to a domain as well. seq 0: it has none. */
struct change_gtid {
    uint32_t domain, server;
    uint64_t seq;
};

enum change_kind {
    CHANGE_BEGIN,    /* a transaction begins: file and pos, at, gtid */
    CHANGE_TABLE,    /* the first change of this table; the callback may refuse it with a gap */
    CHANGE_INSERT,   /* table, tuple */
    CHANGE_DELETE,   /* table, tuple */
    CHANGE_UPDATE,   /* table, before, tuple */
    CHANGE_REPLACE,  /* table, tuple: the row with this key became this one */
    CHANGE_TRUNCATE, /* table: all its rows were deleted */
    CHANGE_END,      /* the transaction is complete: file and the position after it, at, gtid */
    CHANGE_CUT,      /* the transaction was cut off and did not happen */
    CHANGE_LOST,     /* the server was restarted and the world is empty: at */
    CHANGE_SWAP,   /* a statement shows that a restore of ours replaced the world: mark, at; why */
    CHANGE_GAP,    /* something that row changes cannot express: why, at */
    CHANGE_MARKER, /* the sentinel's row was written: tuple (only on request) */
    /* rows of an unknown table, or such a table may now be part of the world */
    CHANGE_UNKNOWN_TABLE,
    CHANGE_EXISTS, /* CREATE TABLE IF NOT EXISTS: the table existed, or is new: table, sql */
    /* a definition changed, but no row, column or primary key: deed, sql, at; scope: with an ENGINE
     * clause, or from segments */
    CHANGE_DEFINED,
    CHANGE_CREATED, /* the table scope->tables[0] is new and empty: scope, create, why, at */
    /* table: at least one of its rows changed in a form that cannot be read; follows the gap that
     * reports it */
    CHANGE_UNREAD,
};

struct change {
    enum change_kind kind;
    struct change_table *table;
    const char *before, *tuple;
    size_t before_len, len;
    const char *file;
    uint64_t pos;
    uint32_t created_at; /* creation time of the file */
    wall_t at;           /* to the second, by the server's clock */
    struct change_gtid gtid;
    const struct statement_mark *mark;
    const char *why;
    /* GAP, SWAP: what a statement did to whole tables; NULL: nothing of that kind */
    const struct statement_summary *deed;
    const char *sql; /* text of the statement of `deed`, not terminated */
    size_t sql_len;
    bool definitions; /* GAP: the tables' definitions differ from those listed */
    /* GAP: the only tables concerned; UNKNOWN_TABLE: what the statement did; NULL: not known */
    const struct statement_scope *scope;
    bool unmissed; /* GAP: concerns tables that no dump has and that are gone */
    /* CREATED, DEFINED: the table's CREATE TABLE, as in SHOW CREATE TABLE; NULL: not known, or not
     * new */
    const char *create;
};

/* Returns -1 to stop the source; the callback keeps the reason. */
typedef int change_fn(void *arg, const struct change *c);

#endif
