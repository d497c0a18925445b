/* Restores a world, automatically after a loss or by hand. All or nothing, in this order: lease,
 * choice of the dump, shadow tables, check, conflict rows, one RENAME, tidying up. */
#ifndef WK_RESTORE_RESTORE_H
#define WK_RESTORE_RESTORE_H

#include <jansson.h>
#include <string.h>

#include "base/arrival.h"
#include "dump/job.h"
#include "restore/code.h"
#include "restore/mode.h"
#include "mysql/objects.h"
#include "store/state.h"

/* A dump that is on its way into the dump directory while it is restored. */
struct restore_arriving {
    const struct manifest *m; /* proved, and lists parts; borrowed */
    struct arrival *file;
    /* Waits for its end, compares it with its manifest, and makes it a dump of the directory: before anything of
     * the world is replaced. May be called again. */
    int (*settle)(void *arg, struct err *e);
    void *arg;
};

struct restore_options {
    enum restore_mode mode;
    const char *dump; /* NULL or "latest", a dump's name, or a path to a file (contains '/' or ends
                         in .sql/.gz) */
    const char *into; /* the schema of a mode whose target is not the world; else NULL */
    struct names tables; /* only these; none: the whole world */
    wall_t at;           /* up to the last change in this second; ms 0: up to the loss */
    bool force;
    bool accept_cut;     /* accept a file without its closing line */
    const char *charset; /* of the texts in a file of another tool; NULL: as it says */
    bool newest;         /* `dump` is the newest where it came from, and its journal is wanted */
    bool fetched; /* from another machine: a world that is empty since --init is no living one */
    /* A promotion: the journal must reach this position, or nothing is replaced. NULL: as far as it goes. */
    const struct db_binlog_pos *reach;
    /* A promotion: called with all loaded and compared, before anything of the world is replaced; -1: nothing is. NULL:
     * nothing is to be asked. */
    int (*begins)(void *arg, const struct state_made *made, uint64_t generation, struct err *e);
    void *begins_arg;
    bool with_code; /* an operator accepts the dump's views, routines, … (code.h) */
    unsigned skip;  /* number of newest dumps to skip */
    /* NULL: all dumps are here. If it proves damaged, no other one is tried: ERR_DAMAGED. */
    const struct restore_arriving *arriving;
    const struct state *state; /* has the last ALIVE, to recognize a living world */
};

/* Rows that were found in the replaced tables. */
struct restore_conflict {
    char *file;      /* full path; NULL: the replaced tables held no rows */
    uint64_t rows;   /* in the file */
    bool part;       /* rows written shortly before the swap may be missing in it */
    wall_t from, to; /* the rows were written between these; ms 0: not known */
    json_t *tables;  /* array of {table, rows} */
};

struct restore_result {
    char dump[256];
    uint64_t rows, tables; /* without the sentinel */
    uint64_t generation;
    int64_t took_ms;
    unsigned connections; /* used for loading; 0: nothing was loaded */
    bool warm;            /* a promotion moved the copy that was loaded already */
    char cold[640];       /* why it did not, though there should be one */
    const char *way;      /* how rows were inserted: array, local, insert (static text) */
    bool over_living;     /* --force: nothing was lost, a living world was replaced */
    wall_t dump_at;       /* ms 0: unknown (a foreign file) */
    struct {
        bool used;        /* the changes since the dump, if any, were applied */
        bool whole;       /* up to the loss */
        uint64_t changes; /* of the world in the journal */
        uint64_t filed;   /* of these, from segments */
        uint64_t rows;    /* affected by them, after merging */
        int64_t took_ms;  /* to read and merge them */
        wall_t last;      /* time of the last one; ms 0: there was none */
        wall_t gap_at;    /* changes are missing from here on; ms 0: from the dump on */
        bool unsynced;    /* a crash of the server's machine may lose the end of its log */
        struct db_binlog_pos upto;
        char gap[640]; /* why it is not whole */
        bool part;     /* of tables that the gap names; all others are restored up to the loss */
    } journal;
    struct state_made made; /* nonce: of the restored world; "" for --into and --dry-run */
    struct server_id server;
    struct restore_conflict conflict;
    struct code_report code; /* what became of views, routines, triggers and events */
    json_t *as_dumped;       /* redefined.h: array of {table, was, why, statements}; NULL: none */
    char *as_dumped_file;    /* full path: what stood in their place */
    json_t *skipped;         /* array of {dump, reason} */
    json_t *plan;            /* tables with rows and what happens to each */
    struct {
        bool read; /* the living world was compared */
        /* Tables: with the same rows; with others, and not known to have stood still; that could not be
         * read. */
        uint64_t same, moved, unread;
    } live;             /* of a drill */
    char warning[1024]; /* what the operator must know about a successful restore */
    int replicas;       /* connected to the server at the beginning; -1: not known */
};

/* Does this value of restore_options.dump mean the newest one? */
static inline bool restore_newest(const char *dump)
{
    return !dump || strcmp(dump, "latest") == 0;
}
/* A dump that was chosen by its name is restored as it is. */
static inline bool restore_to_now(const struct restore_options *o)
{
    return o->newest || restore_newest(o->dump);
}
int restore_run(const struct job *job, const struct restore_options *opt,
                struct restore_result *out, struct err *e);
void restore_result_free(struct restore_result *r);
json_t *restore_json(const struct restore_result *r);

/* The drill: restores a dump, the newest one with its journal, into a scratch schema, compares all
 * content with what was loaded, and a world that lives with it (live.c), and drops the schema. `fetched`: as in
 * restore_options. */
int restore_drill(const struct job *job, const char *dump, bool fetched, const struct state *state,
                  struct restore_result *out, struct err *e);
/* Tidies up after an interrupted restore, if there is anything to tidy up, and drops what a standby kept loaded: for a
 * machine that has the world. */
int restore_tidy(const struct job *job, struct err *e);
/* On a standby a killed promotion may have left shadow tables with all rows of the world. They only go where nothing can
 * have been swapped in: the rest is for the next promotion, or for --demote. */
int restore_tidy_standby(const struct job *job, struct err *e);

/* --table: "planet,`a, b`": names separated by commas; a name with a comma goes in backticks. ERR_USAGE. */
int restore_tables(const char *text, struct names *out, struct err *e);
/* Over how many connections a dump is loaded; `configured` 0: as many as help with the processors of this machine. */
unsigned restore_connections(unsigned configured, size_t tables);
/* How long players are blocked by a swap: estimated milliseconds, fitted to measurements. Pure. */
int64_t restore_swap_estimate(size_t tables, bool mariadb);

#endif
