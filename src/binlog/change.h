/* What happened to a world, in order: the output of both sources of a journal, the server's binary
 * log (decode.h) and the segments that a follower wrote (segment.h), and the input of a replay and
 * of the follower. Plain data; texts live until the next change. */
#ifndef WK_BINLOG_CHANGE_H
#define WK_BINLOG_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "mysql/schema.h"
#include "binlog/statement.h"

/* A table of the world, as far as its changes need it. */
struct change_table {
    const char *name;
    char columns[17];    /* db_columns_hash() */
    const unsigned *key; /* positions of the primary key's columns within a tuple */
    size_t key_count;
    int counter; /* position of the AUTO_INCREMENT column; -1: there is none */
    bool gone;   /* no longer on the server: only its name is known */
    void *user;  /* the consumer's; NULL at first */
};

/* The GTID of a group; gtid.h maps MySQL's to a domain as well. seq 0: the group has none. */
struct change_gtid {
    uint32_t domain, server;
    uint64_t seq;
};

enum change_kind {
    CHANGE_BEGIN,    /* a group begins: file and pos, at, gtid */
    CHANGE_TABLE,    /* the table occurs for the first time; it may be refused with a gap */
    CHANGE_INSERT,   /* table, tuple */
    CHANGE_DELETE,   /* table, tuple */
    CHANGE_UPDATE,   /* table, before, tuple */
    CHANGE_REPLACE,  /* table, tuple: the row with this key became this one */
    CHANGE_TRUNCATE, /* table: all its rows were deleted */
    CHANGE_END,      /* the group is complete: file and the position after it, at, gtid */
    CHANGE_CUT,      /* the group was cut off: it did not happen */
    CHANGE_LOST,     /* the server was restarted, the world is empty: at */
    CHANGE_SWAP,     /* a statement says that a restore of ours replaced the world: mark, at; why */
    CHANGE_GAP,      /* something that row changes cannot express: why, at */
    CHANGE_MARKER,   /* the sentinel's row was written: tuple (only on request) */
    CHANGE_UNKNOWN_TABLE, /* rows of an unknown table, or such a table may be part of the world now */
    CHANGE_EXISTS,        /* CREATE TABLE IF NOT EXISTS: the table existed, or is new since then */
    CHANGE_DEFINED, /* a definition changed, and no row, column or primary key: deed, sql, at */
    CHANGE_CREATED, /* the table scope->tables[0] is new, and empty: scope, create, why, at */
    CHANGE_UNREAD, /* table: one row or more of it changed, in a form that cannot be read; after the gap that says so */
};

struct change {
    enum change_kind kind;
    struct change_table *table;
    const char *before, *tuple;
    size_t before_len, len;
    const char *file;
    uint64_t pos;
    uint32_t created_at; /* of the file */
    wall_t at;           /* to the second, by the server's clock */
    struct change_gtid gtid;
    const struct statement_mark *mark;
    const char *why;
    const struct statement_summary *deed; /* GAP, SWAP: what a statement did to whole tables; NULL:
                                          nothing of that kind */
    const char *sql;                      /* of the statement of `deed`, not terminated */
    size_t sql_len;
    bool definitions; /* GAP: the tables' definitions are not those listed */
    /* GAP: it concerns only these tables; UNKNOWN_TABLE: what the statement did; NULL: not known */
    const struct statement_scope *scope;
    bool unmissed; /* GAP: of tables that no dump has, which are gone */
    /* CREATED, DEFINED: the one table's CREATE TABLE, as SHOW CREATE TABLE has it; NULL: not known, or not new */
    const char *create;
};

/* -1 stops the source; the callback keeps the reason. */
typedef int change_fn(void *arg, const struct change *c);

#endif
