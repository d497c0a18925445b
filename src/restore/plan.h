/* What a restore would replace, and with what: one target a table. Built from the dump's list of
 * tables and from what the server has now; the same plan is printed by --dry-run and carried out by
 * load and swap, so that the two never differ. */
#ifndef WK_RESTORE_PLAN_H
#define WK_RESTORE_PLAN_H

#include "db/query.h"
#include "dump/job.h"
#include "store/manifest.h"

struct target {
    char *name;
    char shadow[64]; /* where it is loaded; "" for --into: under its own name */
    const struct db_table
        *live; /* as it is now; NULL: not there, made from the dump's definition */
    bool skip;
    const char *why; /* why it is skipped (static text) */
    bool memory;     /* ENGINE=MEMORY, now or in the dump */
    bool mapped;     /* its columns changed since the dump: rows go by column name */
    bool created;    /* the shadow exists */
    bool raw;        /* its rows came as somebody's SQL: there is no content hash of them */
    bool triggers;   /* live has triggers, which move over at the swap */
    uint64_t auto_increment, heap_need, max_data_length;
    uint64_t heap;       /* the max_heap_table_size that the shadow was made with; 0: durable */
    char *checks;        /* MySQL: the constraints of live, with their names; NULL: none */
    uint64_t expected;   /* rows the manifest names */
    uint64_t rows, hash; /* loaded so far */
    uint64_t warnings;
    uint64_t conflict_rows, conflict_hash; /* what was saved of the rows it replaces */
    char *create;   /* mapped: the dump's CREATE TABLE, which tells the types of then */
    char **columns; /* of the INSERTs of this table, in their order */
    size_t column_count;
    bool *generated; /* a foreign file: of each column of its definition */
    size_t defined;  /* so many columns has that */
};

struct plan {
    struct target *list;
    size_t count;
    struct db_tables live;       /* all tables of the schema now */
    struct db_names not_in_dump; /* MEMORY tables the dump does not know: left as they are */
    bool into;                   /* loads into another schema, under the tables' own names */
    uint64_t rows;
};

/* `schema` is the target; `into`: not the world itself. */
int plan_begin(struct db *db, const char *schema, bool into, struct plan *out, struct err *e);
/* Adds a table of the dump; `engine` as in its definition. */
struct target *plan_add(struct plan *p, const struct job *job, const char *name,
                        const char *engine);
int plan_from_manifest(struct plan *p, const struct job *job, const struct manifest *m,
                       struct err *e);
/* Is it made from the dump's definition, and not like the one that is there? */
bool plan_defines(const struct plan *p, const struct target *t);
/* After the last plan_add: names what the dump does not know; refuses what cannot work. */
int plan_finish(struct db *db, struct plan *p, const struct job *job, const char *schema,
                struct err *e);
/* Leaves a table out that was in the plan. `why`: static text. */
void plan_leave_out(struct plan *p, struct target *t, const char *why);
/* Is any table left to be restored? */
bool plan_wants_any(const struct plan *p);
struct target *plan_find(const struct plan *p, const char *name);
/* No tables are planned any more; what the server has is still known. */
void plan_clear(struct plan *p);
void plan_free(struct plan *p);

#endif
