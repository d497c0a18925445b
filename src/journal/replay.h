/* From one moment to another, that of a loss as a rule: the changes of the world's MEMORY tables,
 * read from segments (archive.h) as far as they go and then from the server's binary log, and
 * folded (fold.h). Nothing is written anywhere.
 *
 * What ends it: a restart of the server, which empties the tables (its format description says so,
 * and nobody can say it by mistake), the time that was asked for, or the end of the log. A restart
 * that was followed by a restore of ours goes on behind it, when that restore put in exactly what
 * is folded so far: its mark in the log says so (statement.h). What the game wrote into emptied
 * tables is no part of the world.
 *
 * What cannot be followed is a gap: the changes before it count, and the reason is told. */
#ifndef WK_JOURNAL_REPLAY_H
#define WK_JOURNAL_REPLAY_H

#include "core/progress.h"
#include "db/query.h"
#include "journal/fold.h"
#include "store/manifest.h"

struct replay_source {
    const struct db_params *db;
    const char *schema, *sentinel;
    const struct db_point
        *from;                /* where the changes begin; its GTID proves that it is the same log */
    const struct manifest *m; /* the dump that they follow, and its tables; NULL: none */
    const struct db_point *upto;    /* no further than this place; NULL: to the end of the log */
    const struct db_tables *tables; /* of the schema, as they are now, with their keys read */
    wall_t until;                   /* ms 0: up to the loss, or the end */
    int archive_fd;                 /* directory of segments; -1: none. Needs `m` */
    struct progress *progress;      /* counts bytes of both; may be NULL */
};

struct replay_counter {
    char *table;
    uint64_t next; /* AUTO_INCREMENT that the changes led to */
};

struct replay {
    struct fold *fold;
    struct db_point upto; /* behind the last group that counts; no GTID */
    wall_t last;          /* of the last group that counts, to the second; ms 0: none */
    uint64_t changes;
    uint64_t filed;   /* of these, from segments */
    wall_t files_end; /* how far segments went; ms 0: there were none */
    uint64_t bytes;   /* read */
    char nonce[33];   /* of the world that this is */
    bool at_end;      /* the log was read to its end */
    bool to_loss;     /* a restart of the server ended it */
    wall_t lost_at;   /* when that was, to the second */
    struct replay_counter *counters;
    size_t counter_count;
    char damage[512]; /* of a segment; "": none was met */
    char gap[640];    /* why it ends earlier than it should; "": it does not */
    wall_t gap_at;    /* of the group that could not be followed; ms 0: before any */
};

/* 0 also where there is a gap. -1: the server is gone, or told to stop. */
int replay_read(const struct replay_source *s, struct replay *out, struct err *e);
/* The AUTO_INCREMENT counter that the changes of a table led to; 0: they say nothing of it. */
uint64_t replay_counter(const struct replay *r, const char *table);
void replay_free(struct replay *r);

#endif
