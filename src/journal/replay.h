/* The changes of the world's MEMORY tables from one time to another, usually that of a loss. They
 * are read from segments (archive.h) as far as these go, then from the server's binary log, and
 * merged by row (delta.h). Nothing is written anywhere.
 *
 * A replay ends at the first transaction that is later than the requested time, at the end of the
 * log, or at a restart of the server, which empties the tables (the log's format description shows
 * a restart, and no client can write one). A restart followed by a restore of ours does not end it
 * if that restore loaded exactly what is merged so far: its mark in the log shows that
 * (statement.h). Rows that the game wrote into emptied tables do not belong to the world.
 *
 * A change that cannot be followed is a gap: the changes before it count, and the reason is
 * reported. A gap that concerns only some tables (`parts`) ends the changes of these, and the
 * others continue. A table that was created since the dump is followed from its creation (`fresh`),
 * and one that was dropped again leaves no trace.
 *
 * The log has no names of columns. Rows of a new table are read by its present definition, so the
 * log is read to its end: if a statement changed that definition after the changes that count, for
 * example before the lost world is restored, the table is not followed. */
#ifndef WK_JOURNAL_REPLAY_H
#define WK_JOURNAL_REPLAY_H

#include "base/line.h"
#include "base/progress.h"
#include "journal/delta.h"
#include "mysql/schema.h"
#include "store/manifest.h"

/* The segment of a position. A position alone does not prove that it is not one in another server's
 * log, or in a log that was reset. */
struct replay_place {
    uint64_t number; /* 0: none */
    int64_t made;    /* struct segment_head, ms */
};

struct replay_source {
    const struct db_params *db;
    const char *schema, *sentinel;
    const struct db_binlog_pos
        *from;                /* where the changes begin; its GTID proves that it is the same log */
    const struct manifest *m; /* the dump that the changes follow, and its tables; NULL: none */
    const struct db_binlog_pos *upto; /* end of the replay; NULL: the end of the log */
    const struct db_tables *tables;   /* current tables of the schema, with their keys read */
    const bool *unwanted; /* [i]: rows of tables->list[i] are not merged; NULL: all are */
    /* the tables that differ now, as the dump has them; NULL: none known */
    const struct db_tables *then;
    /* Why changes may be missing from the log that the server writes now, or from all of it; NULL:
     * none are. The dump knows about older logs. */
    const char *unlogged, *all_unlogged;
    const char *known; /* nonce of the world that was last seen alive; NULL: not known */
    wall_t until;      /* ms 0: up to the loss or the end */
    int archive_fd;    /* directory of segments; -1: none. Needs `m` */
    const struct replay_place
        /* if `from` is `upto` of an earlier replay: the `place` of that replay; else NULL */
        *after;
    bool elsewhere; /* read segments only: the log of this server has nothing of the world */
    /* This server is not the one that the dump was taken from. Its log has the following changes
     * only if it was moved here as well. */
    bool another;
    bool parts;                /* changes of other tables continue after a gap of one */
    bool fresh;                /* also merge changes of tables created since the dump */
    struct progress *progress; /* counts bytes of both sources; may be NULL */
};

/* A statement that changed the definition of a table, up to the loss. `sql` is its text in the log,
 * in its session's schema and character set. Segments contain it up to a maximum length; those of
 * older versions do not. */
struct replay_statement {
    char *table, *sql;
    wall_t at;
};
#define REPLAY_STATEMENTS 200u      /* maximum number of recorded statements */
#define REPLAY_STATEMENT_MAX 65536u /* longer ones are truncated */

/* A table that is not followed from the dump to the end. */
struct replay_table {
    char *name;
    bool
        /* not in the dump: followed since its creation; with `closed` it is restored without
         * rows */
        fresh;
    bool unsure;   /* fresh: it may have had another engine, with rows that no change shows */
    bool closed;   /* followed only up to `at` */
    bool older;    /* closed: rows of unknown age, from before `at`, may be lost, too */
    bool engine;   /* closed by an ALTER TABLE with an ENGINE clause */
    wall_t at;     /* time of creation, or of the end */
    char why[256]; /* reason for `closed` */
    uint64_t
        /* closed: minimum number of omitted changes; a change of several rows may count once */
        left;
    struct delta_table *changes; /* fresh: its changes in the delta; NULL: none */
    char columns[17];            /* db_columns_hash() of these changes */
    /* fresh: the changes come from the log, which has no names of columns: these are of the present
     * definition */
    bool by_present;
    uint64_t made_by; /* fresh: hash of the statement that created it; 0: not known */
    bool dropped;     /* fresh: dropped after the changes that count */
    char
        *create; /* fresh: its CREATE TABLE when it was new, if segments have it; NULL: not known */
};

struct replay {
    struct delta *delta;
    struct replay_table *tables;
    size_t table_count;
    struct replay_statement *statements;
    size_t statement_count;
    struct db_binlog_pos upto; /* position after the last transaction that counts; no GTID */
    struct replay_place place; /* segment of `upto`; number 0: no segment has it */
    bool all_files;            /* all remaining segments continue those that were read */
    wall_t latest;             /* latest time of any transaction that counts */
    wall_t last; /* time of the last transaction that counts, to the second; ms 0: none */
    uint64_t changes;
    uint64_t filed;    /* number of these from segments */
    wall_t files_end;  /* end of the segments; ms 0: there were none */
    uint64_t bytes;    /* read */
    char nonce[33];    /* nonce of the world after the changes */
    bool known_met;    /* that world, or one that it was restored from, was the known one */
    bool at_end;       /* the log was read to its end */
    bool to_loss;      /* a restart of the server ended it */
    wall_t lost_at;    /* time of that restart, to the second; there may have been later ones */
    char damage[LINE]; /* damage of a segment; "": none found */
    char gap[LINE];    /* why all of it, or a table, ends earlier than it should; "": it does not */
    wall_t gap_at; /* time of the first transaction that could not be followed; ms 0: before any */
    bool older;    /* rows of unknown age, from before `gap_at`, may be lost, too */
    bool part;     /* the gap concerns only the tables named in it; all others are complete */
    /* that transaction could not be followed: everything before it is included */
    bool gap_is_group;
    /* With `until`: the world's transactions with a time up to `until` that follow a later one in
     * the log, so that they do not count. The log is read on for them as far as it can be read, but
     * at most until 100,000 later transactions follow each other. */
    struct {
        uint64_t count;
        wall_t first;     /* time of the later transaction that ended the replay */
        wall_t to;        /* a replay with this `until` has all of them */
        int64_t apart_ms; /* by how much the times are out of order, at most */
    } late;
};
/* Reads the changes. Returns 0, also if there is a gap; -1 if the connection to the server is lost
 * or a stop was requested. */
int replay_read(const struct replay_source *s, struct replay *out, struct err *e);
/* Returns a table's AUTO_INCREMENT counter after the changes; 0: they do not tell. */
uint64_t replay_counter(const struct replay *r, const char *table);
/* Returns the counter after the changes. `was`: its value before or during them, which can only be
 * lowered by a TRUNCATE. */
uint64_t replay_counter_after(const struct replay *r, const char *table, uint64_t was);
void replay_free(struct replay *r);

#endif
