/* A restore while it runs: what its steps share. Private to src/restore. Lives on the stack of restore_run() or
 * restore_drill(); one thread at a time uses it, but for what load_pool.h says. */
#ifndef WK_RESTORE_RUNNING_H
#define WK_RESTORE_RUNNING_H

#include "dump/verify.h"
#include "journal/replay.h"
#include "mysql/sentinel.h"
#include "restore/code.h"
#include "restore/plan.h"
#include "restore/restore.h"
#include "restore/result.h"
#include "store/catalog.h"

struct restore {
    const struct job *job;
    const struct restore_options *opt;
    struct restore_result *out;
    const char *schema; /* the target */
    bool binlog;        /* its sessions write to the binary log */
    struct db *db;      /* holds the lease, and does the swap */
    struct catalog catalog;
    uint64_t generation, lease; /* lease: the generation seen at the start */
    struct db_sentinel living;  /* --table: of the world that the tables are swapped into; or of the
                                 * empty one that may be replaced */
    struct manifest before;     /* --force: the dump of the world that is replaced */
    /* Of the dump that is being loaded. */
    struct plan plan;
    const struct manifest *m; /* NULL: a file of another tool */
    struct verify_file *file;
    struct replay journal; /* the changes since; without a delta: the dump alone */
    struct code code;      /* in the dump */
    struct code_case code_case;
    int path_fd;       /* the file that was given by its path; -1: none */
    bool dump_alone;   /* the changes since did not fit it */
    bool skipped_more; /* more dumps were skipped than are named */
    bool again;        /* loads of a dump tried here failed before because of its content */
    bool unloadable;   /* this dump has failed often enough to be skipped */
    /* Of the swap. */
    struct state_made made;  /* upto.file "": the dump alone, or some of its tables */
    char conflict_file[128]; /* for the rows of the replaced tables, if there are any */
    struct restore_conflict conflict;
    bool kept_file;           /* redefined.h: it was written */
    struct buf lost_triggers; /* that do not fit a table as the dump defines it: their texts, */
    struct names lost_trigger_names; /* and their names */
};

/* The properties of its mode. */
static inline const struct restore_traits *restore_is(const struct restore *r)
{
    return &restore_traits[r->opt->mode];
}
/* Begins a new plan for it, which knows the tables of the schema. */
int restore_plan(struct restore *r, struct err *e);

#endif
