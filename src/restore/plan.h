/* The plan of a restore: which tables it replaces, and with what; one target per table. Built from
 * the dump's list of tables and from the server's current tables. --dry-run prints the same plan
 * that load and swap execute, so that the two never differ. */
#ifndef WK_RESTORE_PLAN_H
#define WK_RESTORE_PLAN_H

#include "mysql/objects.h"
#include "mysql/schema.h"
#include "store/manifest.h"

struct job;

/* Prefixes, in the world's schema, of the names of shadow tables and of replaced tables. */
#define PLAN_SHADOW DB_OWN_PREFIX "new_"
#define PLAN_OLD DB_OWN_PREFIX "old_"

struct target {
    char *name;
    char old[64]; /* its name after it was replaced */
    char *shadow; /* the table it is loaded into; for --into: `name` itself */
    const struct db_table
        *live; /* the current table; NULL: missing, created from the dump's definition. After the
                * swap, if it was altered before: the replaced table, from plan.own */
    bool skip;
    const char *why;  /* why it is skipped (static text) */
    bool memory;      /* ENGINE=MEMORY, now or in the dump */
    bool carried;     /* InnoDB, and the journal has its changes (mysql/world_tables.h) */
    bool outlives;    /* MEMORY in the dump, and of a durable engine now: no restart empties it */
    bool mapped;      /* its columns changed since the dump: rows are inserted by column name */
    bool created;     /* the shadow table exists */
    bool unfit;       /* we or the server refuse the dump's definition */
    bool raw;         /* its rows were loaded as foreign SQL, so there is no content hash */
    bool recount;     /* its rows were loaded by REPLACE or INSERT IGNORE: the server counts them */
    bool fires;       /* foreign file: the file has created a trigger on this table */
    uint64_t counter; /* foreign file: AUTO_INCREMENT in the file */
    bool refused;   /* refused with changes of the journal among its rows, which may be the cause */
    bool triggers;  /* live has triggers, which are moved at the swap */
    bool as_dumped; /* its rows do not fit the definition of live: it gets the dump's definition */
    bool fresh;     /* created since the dump: its rows come only from the journal */
    bool in_way;    /* something other than a table has its name (a view); that gets another name */
    char kept[64];  /* that other name */
    char *misfit;   /* as_dumped: why the rows do not fit */
    bool rechecked; /* live has a CHECK that the dump's definition lacks */
    bool unchecked; /* MySQL: loaded without its CHECKs (checks.h) */
    struct names enforced, enforced_named; /* unchecked: those of the shadow table; their names */
    struct names unenforced;               /* unchecked: those that stay not enforced */
    char *now;                             /* CREATE TABLE of live; NULL: not read */
    uint64_t auto_increment, heap_need, max_data_length;
    uint64_t heap;       /* max_heap_table_size at the shadow's creation; 0: a durable table */
    uint64_t definition; /* shadow_definition_hash() of the dump's definition; 0: not read */
    uint64_t planned;    /* the same for live; 0: not read */
    char *checks;        /* MySQL: the constraints of live, with their names; NULL: none */
    uint64_t expected;   /* number of rows in the manifest */
    uint64_t rows, hash; /* loaded so far */
    uint64_t warnings;
    uint64_t conflict_rows, conflict_hash; /* the rows that it replaces, as saved */
    char *create;   /* mapped, as_dumped: the dump's CREATE TABLE; fresh: the table's */
    char **columns; /* columns of this table's INSERTs, in their order */
    size_t column_count;
    bool *generated; /* foreign file: for each column of its definition */
    size_t defined;  /* number of these columns */
};

/* Returns true if it replaces an existing table. */
static inline bool target_replaces(const struct target *t)
{
    return !t->skip && t->created && t->live;
}

struct plan {
    const struct job *job;
    const char *schema; /* the target; not the world's with `into` */
    struct target *list;
    size_t count;
    uint32_t *slots;       /* hash table by name: 1 + index of a target; 0: free */
    size_t room;           /* size of `slots`: a power of two */
    struct db_tables live; /* all current tables of the schema */
    struct db_tables own;  /* after the swap: the replaced tables, under their names since */
    /* MEMORY tables that the dump does not have; they are left unchanged */
    struct names not_in_dump;
    bool any_case;  /* this server compares table names case-insensitively */
    bool into;      /* loads into another schema, under the tables' own names */
    bool elsewhere; /* the world comes from another machine, and the schema's contents do not */
    bool copy;   /* loads the tables that a promotion would load into the world's schema (warm.h) */
    bool shared; /* a Galera node: durable tables belong to the cluster */
    const struct names *only; /* --table: restore only these; NULL: all */
    bool unfit;               /* refused because of the dump's list of tables */
    bool as_dumped;           /* MEMORY tables get their dumped definition, columns included */
    uint64_t rows;
};

/* Reads the tables of the schema and how the server treats their names. The caller has set job,
 * schema, into, copy and only; everything else is zero. */
int plan_begin(struct plan *p, struct db *db, struct err *e);
/* Adds a table of the dump; `engine` is that of its definition. */
struct target *plan_add(struct plan *p, const char *name, const char *engine);
/* Notes whether rows of these columns (db_columns_hash()) must be inserted by column name. */
void plan_map(const struct plan *p, struct target *t, const char *columns);
int plan_from_manifest(struct plan *p, const struct manifest *m, struct err *e);
/* Returns true if the table is created from the dump's definition, and not like the existing table.
 * A restore after a loss keeps ALTERs made since the dump if the rows fit (redefined.h); a restore
 * by --at or --table reverts them. */
bool plan_defines(const struct plan *p, const struct target *t);
/* Returns true if the definition in the dump differs from the current one. */
bool plan_changed(const struct plan *p, const struct target *t);
/* Call it after the last plan_add(): lists what is not in the dump, and refuses what cannot
 * work. */
int plan_finish(struct plan *p, struct db *db, struct err *e);
/* Adds the next column of t->columns. */
void target_add_column(struct target *t, const char *name);
/* Returns true if the dump itself was the reason for a refusal. Then another dump may work, but
 * retrying this one is useless. */
bool plan_unfit(const struct plan *p);
/* Marks a table of the plan as skipped. `why`: static text. */
void plan_leave_out(struct plan *p, struct target *t, const char *why);
/* Returns true if any table is left to be restored. */
bool plan_wants_any(const struct plan *p);
/* Finds a target by its name in the dump or, if the server ignores case, by its name on the
 * server. */
struct target *plan_find(const struct plan *p, const char *name);
/* Drops the shadow tables of a failed load. */
void plan_drop(struct plan *p, struct db *db);
void plan_forget_columns(struct target *t);
/* Removes all targets; facts about the server stay. */
void plan_clear(struct plan *p);
void plan_free(struct plan *p);

#endif
