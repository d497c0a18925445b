/* Follows the server's binary log while the world is up, so that missing data is discovered before
 * a loss and not by the restore. It checks that the log can be read, that every change of the world
 * is in it as rows, and how far the reader lags. With [journal] mode = follow the changes are also
 * written into segments (archive.h), which continue where they ended last time if the log still
 * reaches back to there.
 *
 * A worker of the supervisor. Each second it asks the server where the log ends, reads up to there,
 * and records in the segments that they are complete up to that time. Every minute (every
 * second while it has not read that far) it also writes a number, the marker, into the sentinel's
 * row, and waits until it has read the marker in the log and stored it. Its progress is in shared
 * memory (base/board.h), because a packet each second would wake the supervisor once more. Only
 * news are sent as packets (base/worker.h), in which all texts are printable UTF-8. It receives a
 * packet, of any content, when a dump was stored: the segment is finalized, and segments that no
 * dump needs any longer are deleted. SIGTERM ends it cleanly: everything it has read is on the
 * disk. */
#ifndef WK_JOURNAL_FOLLOW_H
#define WK_JOURNAL_FOLLOW_H

#include "base/board.h"
#include "base/line.h"
#include "binlog/statement.h"
#include "config/config.h"
#include "mysql/schema.h"

enum follow_packet {
    FOLLOW_REPORT, /* struct follow_report */
    FOLLOW_GAP,    /* struct follow_gap */
    FOLLOW_UNABLE, /* struct follow_unable; the worker ends */
    FOLLOW_FAILED, /* struct follow_failure; the worker ends */
};

#define FOLLOW_EMPTIED 16u /* maximum number of tables whose largest loss of rows is remembered */
/* Rows that one transaction must delete from a table to be reported: half of the smallest loss that
 * causes an alert by default (dump/shrink_guard.h). Games delete fewer rows all the time. */
#define FOLLOW_DELETED_LEAST 250u

/* The follower's progress: in shared memory, and in each report. */
struct follow_progress {
    /* No change before this time is missing. It is the time when the last marker that was read back
     * was written, or later, when the server reported an end of the log that has been read
     * since. */
    mono_t proven;
    uint64_t marker_read; /* the last marker of this worker; 0: none, and `proven` is its start */
    uint64_t changes;     /* rows changed since the worker began */
    uint64_t pos;
    char file[256];
    uint64_t packets; /* number of packets sent before: the supervisor handles these first */
};

/* Sent at the beginning, when the first marker was read, and when tables lost many rows or
 * values at once. */
struct follow_report {
    struct follow_progress at;
    /* Number of tables that lost rows, or their values, to one statement since the last report. */
    size_t emptied_count;
    struct follow_emptied {
        char name[256];
        /* rows that one transaction deleted or overwrote; 0: all were deleted, by a TRUNCATE */
        uint64_t rows;
        char
            columns[128]; /* overwritten ones (journal/overwrite.h), "points, nick"; "": deletion */
        /* rows that were inserted since the table was emptied; reported as it grows by an eighth */
        uint64_t back;
        wall_t at;
        char file[256];
        uint64_t pos;    /* at which its transaction begins */
        char dump[128];  /* the newest dump before this change that has the table; "": none */
        wall_t dumped;   /* when that dump ended */
        uint64_t before; /* the table's rows there */
    } emptied[FOLLOW_EMPTIED];
};

/* A statement that affected whole tables, for display. */
struct follow_statement {
    bool schema;   /* the whole schema of the world; no tables are named then */
    char verb[16]; /* "dropped" … */
    char by[16];   /* "TRUNCATE", or "" */
    size_t count;
    struct follow_table {
        char name[256], dump[128]; /* the newest dump that has it; "": none */
        uint64_t rows;             /* rows in that dump */
    } tables[STATEMENT_DEED_TABLES];
    size_t more;       /* number of tables that are not listed */
    wall_t at, before; /* by the server's clock; `before` is a time just before it for --at */
};

/* A change that rows cannot express. Only a dump taken after that position ends the gap. */
struct follow_gap {
    char why[LINE];
    char file[256]; /* "": the position is not known */
    uint64_t pos;
    wall_t at; /* by the server's clock; ms 0: nothing in the log caused it */
    bool by_statement;
    char arrived[256]; /* the table whose creation the log does not have, or "" */
    struct follow_statement statement;
    bool
        /* the statement ends only the changes of its tables, if the newest dump is restored
         * automatically */
        tables_only;
    bool earlier; /* by an earlier worker, found in its segments after the newest dump */
};

/* The server's settings or the account do not allow following. */
struct follow_unable {
    char why[LINE], hint[704];
};

/* The connection was lost, or the files could not be written. */
struct follow_failure {
    struct err error;
    bool files; /* the segments' disk caused it */
};

struct follow_args {
    const struct config *cfg;
    struct db_params db; /* without a default schema */
    struct board *board; /* of struct follow_progress */
    int dump_dirfd;      /* the dumps there decide which segments are needed */
    /* Position of the newest dump: all later changes must be in the log. file "": from now on,
     * wherever segments end. */
    struct db_binlog_pos from;
    uint32_t created_at; /* of its file, 0: not known */
    char nonce[33];      /* of that dump's world */
    bool log_broken;     /* the log does not continue where segments end */
};
int follow_worker(int fd, void *arg /* struct follow_args */);

#endif
