/* Restores a world: by itself after a loss, or by hand. All or nothing, in the contract's order:
 * lease, choice of the dump, shadows, check, conflict rows, one RENAME, tidying up. */
#ifndef WK_RESTORE_RESTORE_H
#define WK_RESTORE_RESTORE_H

#include <jansson.h>

#include "dump/job.h"
#include "store/state.h"

struct restore_options {
    const char *dump; /* NULL or "latest", a dump's name, or a path to a file (contains '/' or ends
                         in .sql/.gz) */
    const char *into; /* another schema, or NULL */
    wall_t at;        /* to the last change of this second; ms 0: to the loss */
    bool force, dry_run;
    bool automatic;            /* by the supervisor after a proven loss */
    unsigned skip;             /* newest dumps to pass over */
    const struct state *state; /* last ALIVE, for telling a living world */
};

struct restore_result {
    char dump[256];
    uint64_t rows, tables, generation;
    int64_t took_ms;
    unsigned connections; /* that loaded; 0: none did */
    const char *way;      /* of rows into tables: array, local, insert (static text) */
    bool over_living;     /* --force: nothing was lost, a living world was replaced */
    wall_t dump_at;       /* ms 0: unknown (a foreign file) */
    struct {
        bool used;        /* changes since the dump are in, if there were any */
        bool whole;       /* up to the loss */
        uint64_t changes; /* that the journal held of the world */
        uint64_t filed;   /* of these, from segments */
        uint64_t rows;    /* that they came to */
        int64_t took_ms;  /* to read and fold them */
        wall_t last;      /* of the last one; ms 0: there was none */
        wall_t gap_at;    /* from when on they are missing; ms 0: from the dump on */
        struct db_point upto;
        char gap[640]; /* why it is not whole */
    } journal;
    char nonce[33]; /* of the world that is now in; "" for --into and --dry-run */
    struct server_id server;
    char conflict_file[128];
    uint64_t conflict_rows;
    json_t *skipped;   /* array of {dump, reason} */
    json_t *plan;      /* tables with rows and what happens to each */
    char warning[512]; /* restored, but … */
};

/* Does this name of a dump mean the newest one? */
bool restore_newest(const char *dump);
int restore_run(const struct job *job, const struct restore_options *opt,
                struct restore_result *out, struct err *e);
void restore_result_free(struct restore_result *r);
json_t *restore_json(const struct restore_result *r);

/* Restores a dump into a scratch schema, compares content, drops the schema. */
int restore_drill(const struct job *job, const char *dump, struct restore_result *out,
                  struct err *e);
/* Tidies up after a restore that was cut off, where there is something to tidy. */
int restore_tidy(const struct job *job, struct err *e);

#endif
