/* The result of a restore, for people and as JSON. */
#ifndef WK_RESTORE_RESULT_H
#define WK_RESTORE_RESULT_H

#include <jansson.h>

#include "base/line.h"
#include "base/text.h"
#include "mysql/server.h"
#include "progress/renew.h"
#include "store/state.h"

struct plan;

/* The outcome for views, routines, triggers and events (code_make.h). */
struct code_report {
    size_t made;
    /* Arrays, by their keys in the JSON of a restore; NULL: none. would_make (found by a dry run)
     * and left_out: of "view name"; failed: "view name: why"; own_definer: "function name
     * (root@localhost)", created with our account instead; may_execute: functions on which the
     * server gave us EXECUTE; events_disabled: names of those that were enabled. */
    json_t *lists;
    struct buf enable; /* the statements that enable the events, each with its definer */
    char why[200];     /* the reason for left_out */
    char note[300];    /* "": none */
};

/* Rows that were found in the replaced tables. */
struct restore_conflict {
    char *file;      /* full path; NULL: the replaced tables held no rows */
    uint64_t rows;   /* number of rows in the file */
    bool part;       /* rows written shortly before the swap may be missing in it */
    wall_t from, to; /* the rows were written between these times; ms 0: not known */
    json_t *tables;  /* array of {table, rows} */
};

struct restore_result {
    char dump[256];
    uint64_t rows, tables; /* without the sentinel */
    uint64_t generation;
    int64_t took_ms;
    unsigned connections; /* connections used for loading; 0: nothing was loaded */
    bool warm;            /* a promotion moved the already loaded copy */
    char cold[LINE];      /* why it did not, although there should be a copy */
    const char *way;      /* how rows were inserted: array, local, insert (static text) */
    bool over_living;     /* --force: nothing was lost, a living world was replaced */
    wall_t dump_at;       /* ms 0: unknown (a foreign file) */
    struct {
        bool used;        /* the changes since the dump, if any, were applied */
        bool whole;       /* the changes lead up to the loss */
        uint64_t changes; /* changes of the world in the journal */
        uint64_t filed;   /* number of these from segments */
        uint64_t rows;    /* rows affected by them, after merging */
        int64_t took_ms;  /* to read and merge them */
        wall_t last;      /* time of the last one; ms 0: there was none */
        wall_t gap_at;    /* changes are missing from here on; ms 0: from the dump on */
        bool older;       /* rows of unknown age, from before `gap_at`, may be lost, too */
        bool unsynced;    /* a crash of the server's machine may lose the end of its log */
        struct db_binlog_pos upto;
        char gap[LINE]; /* why the changes are not complete */
        /* the gap concerns only the tables it names; all others are restored up to the loss */
        bool part;
    } journal;
    struct state_made made; /* nonce: of the restored world; "" for --into and --dry-run */
    struct server_id server;
    struct restore_conflict conflict;
    struct renewed sessions; /* of a promotion: what became of players' open sessions */
    struct code_report code; /* what became of views, routines, triggers and events */
    json_t *as_dumped;       /* redefined.h: array of {table, was, why, statements}; NULL: none */
    char *as_dumped_file;    /* full path of the file with the replaced definitions */
    json_t *skipped;         /* array of {dump, reason} */
    json_t *plan;            /* tables with rows and what happens to each */
    struct {
        bool read; /* the living world was compared */
        /* Number of tables with the same rows; with different rows, but not known to have stood
         * still; that could not be read. */
        uint64_t same, moved, unread;
    } live;             /* of a drill */
    char warning[1024]; /* what the operator must know about a successful restore */
    int replicas;       /* replicas connected to the server at the beginning; -1: not known */
};

void restore_result_free(struct restore_result *r);
json_t *restore_json(const struct restore_result *r);
/* Adds a text that an operator must know about a successful restore: each text once, one after
 * another. */
void result_warn(struct restore_result *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds the actual or planned outcome for each table of the plan except the sentinel's. */
void result_plan(struct restore_result *r, const struct plan *p, const char *sentinel);

#endif
