/* The plan of a restore: which tables it replaces, and with what; one target per table. Built from
 * the dump's list of tables and from what the server has now. --dry-run prints the same plan that
 * load and swap execute, so that the two never differ. */
#ifndef WK_RESTORE_PLAN_H
#define WK_RESTORE_PLAN_H

#include "mysql/objects.h"
#include "mysql/schema.h"
#include "dump/job.h"
#include "store/manifest.h"

/* In the world's schema: how the names of shadow tables begin, and of tables that were replaced. */
#define PLAN_SHADOW DB_OWN_PREFIX "new_"
#define PLAN_OLD DB_OWN_PREFIX "old_"

struct target {
    char *name;
    char old[64]; /* its name once it was replaced */
    char *shadow; /* the table it is loaded into; for --into: `name` itself */
    const struct db_table
        *live; /* as it is now; NULL: missing, created from the dump's definition */
    bool skip;
    const char *why;  /* why it is skipped (static text) */
    bool memory;      /* ENGINE=MEMORY, now or in the dump */
    bool outlives;    /* … in the dump, and of a durable engine now: no restart empties it */
    bool mapped;      /* its columns changed since the dump: rows are inserted by column name */
    bool created;     /* the shadow table exists */
    bool unfit;       /* the dump's definition is refused, by us or by the server */
    bool raw;         /* its rows were loaded as foreign SQL: there is no content hash */
    bool recount;     /* … by REPLACE or INSERT IGNORE: the server says how many there are */
    bool fires;       /* foreign file: it has made a trigger on this table */
    uint64_t counter; /* foreign file: the AUTO_INCREMENT that it sets */
    bool refused;     /* with changes of the journal among its rows, which may be at fault */
    bool triggers;    /* live has triggers, which are moved at the swap */
    bool as_dumped;   /* its rows do not fit the definition of live: it gets that of the dump */
    bool fresh;    /* it came since the dump: its rows are those of the journal, on top of none */
    bool in_way;   /* something that is no table has its name (a view): it gets another one */
    char kept[64]; /* … this one */
    char *misfit;  /* as_dumped: why they do not fit */
    char *now;     /* CREATE TABLE of live; NULL: not read */
    uint64_t auto_increment, heap_need, max_data_length;
    uint64_t heap;       /* max_heap_table_size at the shadow's creation; 0: a durable table */
    uint64_t definition; /* shadow_definition_hash() of the dump's; 0: not read */
    uint64_t planned;    /* the same of live; 0: not read */
    char *checks;        /* MySQL: the constraints of live, with their names; NULL: none */
    uint64_t expected;   /* rows by the manifest */
    uint64_t rows, hash; /* loaded so far */
    uint64_t warnings;
    uint64_t conflict_rows, conflict_hash; /* the rows it replaces, as saved */
    char *create;   /* mapped, as_dumped: the dump's CREATE TABLE; fresh: the table's */
    char **columns; /* of this table's INSERTs, in their order */
    size_t column_count;
    bool *generated; /* foreign file: for each column of its definition */
    size_t defined;  /* number of these columns */
};

/* Does it take the place of a table that is there? */
static inline bool target_replaces(const struct target *t)
{
    return !t->skip && t->created && t->live;
}

struct plan {
    const struct job *job;
    const char *schema; /* the target; not the world's with `into` */
    struct target *list;
    size_t count;
    uint32_t *slots;          /* hash table by name: 1 + index of a target; 0: free */
    size_t room;              /* size of `slots`: a power of two */
    struct db_tables live;    /* all tables of the schema now */
    struct names not_in_dump; /* MEMORY tables that the dump does not have: left as they are */
    bool any_case;            /* this server compares table names without regard to case */
    bool into;                /* loads into another schema, under the tables' own names */
    bool copy;                /* … what a promotion would load into the world's (warm.h) */
    bool shared;              /* a Galera node: durable tables belong to the cluster */
    const struct names *only; /* --table: restore only these; NULL: all */
    bool unfit;               /* refused because of the dump's list of tables */
    bool as_dumped;           /* MEMORY tables get their dumped definition, columns included */
    uint64_t rows;
};

/* Reads the tables of the schema and what the server does with their names. The caller has set job, schema, into, copy
 * and only; everything else is zero. */
int plan_begin(struct plan *p, struct db *db, struct err *e);
/* Adds a table of the dump; `engine` is that of its definition. */
struct target *plan_add(struct plan *p, const char *name, const char *engine);
int plan_from_manifest(struct plan *p, const struct manifest *m, struct err *e);
/* Is it created from the dump's definition, and not like the existing table? A restore after a loss
 * keeps ALTERs made since the dump where the rows fit (redefined.h); a restore by --at or --table
 * reverts them. */
bool plan_defines(const struct plan *p, const struct target *t);
/* Does the definition in the dump differ from that of the table now? */
bool plan_changed(const struct plan *p, const struct target *t);
/* After the last plan_add(): lists what is not in the dump; refuses what cannot work. */
int plan_finish(struct plan *p, struct db *db, struct err *e);
/* The next column of t->columns. */
void target_add_column(struct target *t, const char *name);
/* Was the dump itself the reason for a refusal? Then another dump may work, but trying this one
 * again is useless. */
bool plan_unfit(const struct plan *p);
/* Marks a table of the plan as skipped. `why`: static text. */
void plan_leave_out(struct plan *p, struct target *t, const char *why);
/* Is any table left to be restored? */
bool plan_wants_any(const struct plan *p);
/* By the name in the dump or, if the server ignores case, by the name on the server. */
struct target *plan_find(const struct plan *p, const char *name);
/* Drops the shadow tables that a failed load has made. */
void plan_drop(struct plan *p, struct db *db);
void plan_forget_columns(struct target *t);
/* Removes all targets; what was read from the server stays. */
void plan_clear(struct plan *p);
void plan_free(struct plan *p);

#endif
