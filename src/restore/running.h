/* A running restore: the data that its steps share. Private to src/restore. Lives on the stack of
 * restore_run() or restore_drill(); one thread at a time uses it, except as load_pool.h
 * documents. */
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
    /* --table: sentinel of the world that the tables are swapped into; or of the empty world that
     * may be replaced */
    struct db_sentinel living;
    bool no_sentinel;       /* --table: that world's sentinel was removed; it is created again */
    struct manifest before; /* --force: the dump of the world that is replaced */
    /* About the dump that is being loaded. */
    struct plan plan;
    const struct manifest *m; /* NULL: a file of another tool */
    struct verify_file *file;
    struct replay journal; /* the changes since the dump; without a delta: the dump alone */
    struct code code;      /* code in the dump */
    struct code_case code_case;
    int path_fd;       /* the file given by its path; -1: none */
    bool dump_alone;   /* the changes did not fit the dump */
    bool skipped_more; /* more dumps were skipped than are named */
    bool again;        /* loads of a dump tried here failed before because of its content */
    bool unloadable;   /* this dump has failed often enough to be skipped */
    /* About the swap. */
    struct state_made made;  /* upto.file "": the dump alone, or some of its tables */
    char conflict_file[128]; /* for the rows of the replaced tables, if there are any */
    struct restore_conflict conflict;
    bool kept_file; /* redefined.h: the file was written */
    /* triggers that do not fit a table with the dump's definition: their texts */
    struct buf lost_triggers;
    struct names lost_trigger_names; /* and their names */
};

/* The properties of its mode. */
static inline const struct restore_traits *restore_is(const struct restore *r)
{
    return &restore_traits[r->opt->mode];
}
/* Begins a new plan for the dump, with the tables of the schema. */
int restore_plan(struct restore *r, struct err *e);

#endif
