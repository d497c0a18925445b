/* The changes of the world's MEMORY tables from one moment to another, usually that of a loss: read
 * from segments (archive.h) as far as they go and then from the server's binary log, and merged by
 * row (delta.h). Nothing is written anywhere.
 *
 * What ends it: a restart of the server, which empties the tables (its format description says so,
 * and no client can write one), the time that was asked for, or the end of the log. A restart that
 * was followed by a restore of ours does not end it when that restore put in exactly what is merged
 * so far: its mark in the log says so (statement.h). What the game wrote into emptied tables is no
 * part of the world.
 *
 * What cannot be followed is a gap: the changes before it count, and the reason is reported. A gap that concerns some
 * tables only (`parts`) ends the changes of these, and the others go on. A table that was created since the dump is
 * followed from its creation (`fresh`), and one that was dropped again leaves no trace. */
#ifndef WK_JOURNAL_REPLAY_H
#define WK_JOURNAL_REPLAY_H

#include "base/progress.h"
#include "mysql/schema.h"
#include "journal/delta.h"
#include "store/manifest.h"

/* The segment that a position lies in. A position alone does not prove that another server's log, or one
 * that was reset, is not meant. */
struct replay_place {
    uint64_t number; /* 0: none */
    int64_t made;    /* struct segment_head, ms */
};

struct replay_source {
    const struct db_params *db;
    const char *schema, *sentinel;
    const struct db_binlog_pos
        *from;                /* where the changes begin; its GTID proves that it is the same log */
    const struct manifest *m; /* the dump that they follow, and its tables; NULL: none */
    const struct db_binlog_pos
        *upto;                      /* no further than this position; NULL: to the end of the log */
    const struct db_tables *tables; /* of the schema now, with their keys read */
    const bool *unwanted;           /* [i]: rows of tables->list[i] are not merged; NULL: all are */
    const struct db_tables *then;   /* the dump's, for those that differ now, as they were when it
                                       was taken; NULL: none known */
    /* Why changes may be missing from the log that the server writes now, or from all of it; NULL:
     * they are not. The dump knows about older logs. */
    const char *unlogged, *all_unlogged;
    const char *known; /* nonce of the world that was last seen alive; NULL: not known */
    wall_t until;      /* ms 0: up to the loss, or the end */
    int archive_fd;    /* directory of segments; -1: none. Needs `m` */
    const struct replay_place
        *after; /* `from` is `upto` of an earlier replay, whose `place` this was; NULL: it is not */
    bool elsewhere; /* segments only: the log of this server has nothing of the world */
    /* This server does not look like the one that the dump was taken from: its log has what follows only if it was
     * moved here as well. */
    bool another;
    bool parts;                /* changes of other tables go on after a gap of one */
    bool fresh;                /* changes of tables that came since the dump are wanted, too */
    struct progress *progress; /* counts bytes of both sources; may be NULL */
};

/* What changed the definition of a table, up to the loss; `sql` as it was logged, in its session's schema and character
 * set. Segments have it up to a length, and not those that an older version wrote. */
struct replay_statement {
    char *table, *sql;
    wall_t at;
};
#define REPLAY_STATEMENTS 200u      /* more are not noted */
#define REPLAY_STATEMENT_MAX 65536u /* longer ones are cut */

/* A table that is not followed from the dump to the end. */
struct replay_table {
    char *name;
    bool
        fresh; /* not in the dump: followed since it was created, empty; where `closed`, it comes without its rows */
    bool closed;   /* not followed any further than `at` */
    wall_t at;     /* created, or closed */
    char why[256]; /* closed */
    uint64_t
        left; /* closed: changes that are left out, at least: one of several rows may count once */
    struct delta_table *changes; /* fresh: in the delta; NULL: none */
    char columns[17];            /* of these changes: db_columns_hash() */
    char
        *create; /* fresh: its CREATE TABLE when it was new, if segments have it; NULL: not known */
};

struct replay {
    struct delta *delta;
    struct replay_table *tables;
    size_t table_count;
    struct replay_statement *statements;
    size_t statement_count;
    struct db_binlog_pos upto; /* after the last group that counts; no GTID */
    struct replay_place place; /* of `upto`; number 0: no segment has it */
    bool all_files;            /* no segment is left that does not continue those that were read */
    wall_t latest;             /* of any group that counts */
    wall_t last;               /* of the last group that counts, to the second; ms 0: none */
    uint64_t changes;
    uint64_t filed;   /* of these, from segments */
    wall_t files_end; /* how far segments went; ms 0: there were no segments */
    uint64_t bytes;   /* read */
    char nonce[33];   /* of the world after the changes */
    bool known_met;   /* that world, or one that it was restored from, was the known one */
    bool at_end;      /* the log was read to its end */
    bool to_loss;     /* a restart of the server ended it */
    wall_t lost_at;   /* time of that restart, to the second; there may have been more since */
    char damage[512]; /* of a segment; "": none found */
    char gap[640]; /* why it ends earlier than it should, all of it or a table; "": it does not */
    wall_t gap_at; /* of the first group that could not be followed; ms 0: before any */
    bool part;     /* it concerns only tables that are named in it; all others are whole */
    bool gap_is_group; /* that group could not be followed: everything before it is included */
};

/* A new table is followed no further: it cannot be restored. Before replay_finish(). */
void replay_give_up(struct replay *r, struct replay_table *t, const char *why);
/* With `fresh` or `parts`, after replay_read(): what is said of single tables becomes the gap, or is added to it. `now`:
 * the tables of the server. */
void replay_finish(struct replay *r, const struct manifest *m, const struct db_tables *now);
/* 0 also where there is a gap. -1: the connection to the server is lost, or a stop was
 * requested. */
int replay_read(const struct replay_source *s, struct replay *out, struct err *e);
/* A table's AUTO_INCREMENT counter after the changes; 0: they do not say. */
uint64_t replay_counter(const struct replay *r, const char *table);
/* The counter after them, if it was `was` before or during them. Only TRUNCATE sets one back. */
uint64_t replay_counter_after(const struct replay *r, const char *table, uint64_t was);
void replay_free(struct replay *r);

#endif
