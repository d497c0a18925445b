/* Follows the server's binary log while the world lives, so that a restore does not discover only
 * after the loss that what it needs is missing: that the log can be read at all, that every change
 * of the world is in it as rows, and how far the reader lags. With [journal] mode = follow the
 * changes are also written into segments (archive.h), which continue where they ended last time, if
 * the log still reaches back to there.
 *
 * A worker of the supervisor. Each second it asks the server where the log ends, reads up to there, and notes in the
 * segments that they go up to that moment. Every twenty seconds, and every second as long as it has not read that
 * far, it also writes a number (the marker) into the sentinel's row and waits until it has read it in the log, and
 * has stored it. How far it is stands on a board (base/board.h); only news are sent, as packets (base/worker.h), in
 * which all texts are printable UTF-8: a packet each second would wake the supervisor once more. It receives one,
 * of any content, when a dump was stored: the segment is finalized, and those that no dump needs any more are
 * deleted. SIGTERM ends it in order: what it has read is on the disk. */
#ifndef WK_JOURNAL_FOLLOW_H
#define WK_JOURNAL_FOLLOW_H

#include "base/board.h"
#include "binlog/statement.h"
#include "config/config.h"
#include "mysql/schema.h"

enum follow_packet {
    FOLLOW_REPORT, /* struct follow_report */
    FOLLOW_GAP,    /* struct follow_gap */
    FOLLOW_UNABLE, /* struct follow_unable; the worker ends */
    FOLLOW_FAILED, /* struct follow_failure; the worker ends */
};

#define FOLLOW_EMPTIED 16u /* tables of which the largest loss of rows is remembered */
/* Rows that one transaction has to delete from a table to be reported: half of the smallest loss that alarms by default
 * (dump/shrink_guard.h). Games delete fewer all the time. */
#define FOLLOW_DELETED_LEAST 250u

/* How far it is: on the board, and with each report. */
struct follow_progress {
    /* No change from before is missing: when the last marker that was read back was written, or
     * later, when the server named an end of the log that has been read since. */
    mono_t proven;
    uint64_t marker_read; /* one of this worker was; 0: none, and `proven` is its start */
    uint64_t changes;     /* rows changed since it began */
    uint64_t pos;
    char file[256];
    uint64_t packets; /* that were sent before: what they say comes first */
};

/* Sent at the beginning, when the first marker was read, and when tables lost many rows at once. */
struct follow_report {
    struct follow_progress at;
    size_t emptied_count; /* tables that lost rows to one statement since the last report */
    struct follow_emptied {
        char name[256];
        uint64_t rows; /* that one transaction deleted; 0: all, by a TRUNCATE */
        wall_t at;
        char file[256];
        uint64_t pos;
    } emptied[FOLLOW_EMPTIED];
};

/* A statement that affected whole tables, for display. */
struct follow_statement {
    bool schema;   /* all of the world's schema; then it names no tables */
    char verb[16]; /* "dropped" … */
    char by[16];   /* "TRUNCATE", or "" */
    size_t count;
    struct follow_table {
        char name[256], dump[128]; /* the newest dump that has it; "": none */
        uint64_t rows;             /* in that */
    } tables[STATEMENT_DEED_TABLES];
    size_t more;       /* tables that are not listed */
    wall_t at, before; /* by the server's clock; --at `before` is just before it */
};

/* Something that row changes cannot express: only a dump of a moment after that position ends it. */
struct follow_gap {
    char why[640];
    char file[256]; /* "": the position is not known */
    uint64_t pos;
    wall_t at; /* by the server's clock; ms 0: nothing in the log caused it */
    bool by_statement;
    struct follow_statement statement;
    bool
        tables_only; /* the statement ended the changes of its tables only, if the newest dump is restored by itself */
    bool earlier; /* of an earlier worker, found in its segments after the newest dump */
};

/* The server or the account does not allow it. */
struct follow_unable {
    char why[640], hint[704];
};

/* The connection was lost, … */
struct follow_failure {
    struct err error;
    bool files; /* the segments' disk is at fault */
};

struct follow_args {
    const struct config *cfg;
    struct db_params db; /* without a default schema */
    struct board *board; /* of struct follow_progress */
    int dump_dirfd;      /* the dumps there decide which segments are needed */
    /* Of the newest dump: what came after it must be in the log; file "": from now on, wherever
     * segments end. */
    struct db_binlog_pos from;
    uint32_t created_at; /* of its file, 0: not known */
    char nonce[33];      /* of that dump's world */
    bool log_broken;     /* the log does not continue where segments end */
};
int follow_worker(int fd, void *arg /* struct follow_args */);

#endif
