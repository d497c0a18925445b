/* What happened to a world, one thing after the other: what both sources of a journal give out, the
 * server's binary log (decode.h) and the segments that a follower wrote (segment.h), and what a
 * replay and the follower take in. Plain data; texts live until the next change. */
#ifndef WK_JOURNAL_CHANGE_H
#define WK_JOURNAL_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "db/query.h"
#include "journal/statement.h"

/* A table of the world, as far as its changes go. */
struct change_table {
    const char *name;
    char columns[17];    /* db_columns_hash() */
    const unsigned *key; /* places of the primary key's columns within a tuple */
    size_t key_count;
    int counter; /* place of the AUTO_INCREMENT column; -1: there is none */
    bool gone;   /* it is not on the server any more, and nothing is known but its name */
    void *user;  /* of who takes the changes in; NULL at first */
};

/* The number of a group, MySQL's as gtid.h makes it one of a domain; seq 0: there is none. */
struct change_gtid {
    uint32_t domain, server;
    uint64_t seq;
};

enum change_kind {
    CHANGE_BEGIN,    /* a group begins: file and pos, at, gtid */
    CHANGE_TABLE,    /* the table is meant for the first time; it may be refused with a gap */
    CHANGE_INSERT,   /* table, tuple */
    CHANGE_DELETE,   /* table, tuple */
    CHANGE_UPDATE,   /* table, before, tuple */
    CHANGE_REPLACE,  /* table, tuple: the row with this key became this one */
    CHANGE_TRUNCATE, /* table: all its rows went */
    CHANGE_END,      /* the group is whole: file and pos behind it, at, gtid */
    CHANGE_CUT,      /* the group goes on nowhere: it did not happen */
    CHANGE_LOST,     /* the server was restarted, the world is empty: at */
    CHANGE_SWAP,     /* a restore of ours put a world in: mark, at */
    CHANGE_GAP,      /* what row changes cannot follow: why, at */
    CHANGE_BEAT,     /* the sentinel's row was written: tuple (only where it was asked for) */
    CHANGE_STRANGER, /* rows of a table that is not listed, or one may have come into the world */
};

struct change {
    enum change_kind kind;
    struct change_table *table;
    const char *before, *tuple;
    size_t before_len, len;
    const char *file;
    uint64_t pos;
    uint32_t born; /* of the file: binlog_born() */
    wall_t at;     /* to the second, by the server's clock */
    struct change_gtid gtid;
    const struct statement_mark *mark;
    const char *why;
    bool definitions; /* GAP: those of tables are not what was listed */
};

/* -1 ends it: the taker knows why. */
typedef int change_fn(void *arg, const struct change *c);

#endif
