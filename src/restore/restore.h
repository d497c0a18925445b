/* Restores a world, automatically after a loss or by hand. All or nothing, in this order: lease,
 * choice of the dump, shadow tables, check, conflict rows, one RENAME, cleanup. */
#ifndef WK_RESTORE_RESTORE_H
#define WK_RESTORE_RESTORE_H

#include <string.h>

#include "base/arrival.h"
#include "mysql/objects.h"
#include "restore/mode.h"
#include "restore/result.h"
#include "store/state.h"

struct job;

/* A dump that is restored while it is being fetched into the dump directory. */
struct restore_arriving {
    const struct manifest *m; /* verified, and lists parts; borrowed */
    struct arrival *file;
    /* Waits for its end, compares it with its manifest, and makes it a dump of the directory,
     * before anything of the world is replaced. May be called again. */
    int (*settle)(void *arg, struct err *e);
    void *arg;
};

struct restore_options {
    enum restore_mode mode;
    const char *dump; /* NULL or "latest", a dump's name, or a path to a file (contains '/' or ends
                         in .sql/.gz) */
    const char *into; /* the schema of a mode whose target is not the world; else NULL */
    struct names tables; /* restore only these; none: the whole world */
    wall_t at;           /* restore up to the last change in this second; ms 0: up to the loss */
    bool force;
    bool accept_cut; /* accept a file without its closing line */
    /* character set of the texts in a file of another tool; NULL: the file's own */
    const char *charset;
    bool newest; /* `dump` is the newest where it came from, and its journal is wanted */
    /* from another machine: a world that is empty since --init does not count as living */
    bool fetched;
    /* This round begins right before the swap: a restore that is refused begins none, and a world
     * of the store is never here without its round. 0: the round here stays. */
    uint64_t round;
    /* A promotion: the journal must reach this position, or nothing is replaced. NULL: as far as it
     * goes. */
    const struct db_binlog_pos *reach;
    /* A promotion: called when everything is loaded and compared, before anything of the world is
     * replaced; -1: nothing is replaced. NULL: no call. */
    int (*begins)(void *arg, const struct state_made *made, uint64_t generation, struct err *e);
    void *begins_arg;
    bool with_code; /* an operator accepts the dump's views, routines, … (code.h) */
    unsigned skip;  /* number of newest dumps to skip */
    /* NULL: all dumps are here. If this one proves damaged, no other one is tried: ERR_DAMAGED. */
    const struct restore_arriving *arriving;
    const struct state *state; /* has the last ALIVE, to recognize a living world */
};

/* Returns true if this value of restore_options.dump means the newest one. */
static inline bool restore_newest(const char *dump)
{
    return !dump || strcmp(dump, "latest") == 0;
}
/* Returns true if changes after the dump are wanted. A dump chosen by name is restored
 * unchanged. */
static inline bool restore_to_now(const struct restore_options *o)
{
    return o->newest || restore_newest(o->dump);
}
int restore_run(const struct job *job, const struct restore_options *opt,
                struct restore_result *out, struct err *e);

/* The drill: restores a dump (the newest one with its journal) into a scratch schema, compares all
 * content with what was loaded and with a living world (live.c), and drops the schema. `fetched`:
 * as in restore_options. */
int restore_drill(const struct job *job, const char *dump, bool fetched, const struct state *state,
                  struct restore_result *out, struct err *e);
/* Cleans up after an interrupted restore, if necessary, and drops what a standby kept loaded: for a
 * machine that has the world. */
int restore_tidy(const struct job *job, struct err *e);
/* On a standby a killed promotion may have left shadow tables with all rows of the world. They are
 * dropped only if nothing can have been swapped in; the rest is for the next promotion, or for
 * --demote. */
int restore_tidy_standby(const struct job *job, struct err *e);

#endif
