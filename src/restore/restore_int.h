/* Private to src/restore: a restore while it runs, and what its parts do with it. */
#ifndef WK_RESTORE_RESTORE_INT_H
#define WK_RESTORE_RESTORE_INT_H

#include "dump/verify.h"
#include "journal/replay.h"
#include "mysql/blockers.h"
#include "mysql/sentinel.h"
#include "restore/load.h"
#include "restore/plan.h"
#include "restore/restore.h"
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

/* permit.c: may the world be replaced? ERR_REFUSED. */
/* Before anything is changed. */
int permit_world(struct restore *r, struct err *e);
/* --force over a living world: it is dumped first. */
int permit_keep(struct restore *r, struct err *e);
/* What is fetched may take the place of an empty world only. */
int permit_empty(struct restore *r, struct err *e);
/* The last look before the point of no return. */
int permit_swap(struct restore *r, struct err *e);
/* --table: is each of them in one of the dumps? In the plan made from `dump`, and not skipped? */
int permit_tables_known(const struct restore *r, struct err *e);
int permit_tables_planned(const struct restore *r, const char *dump, struct err *e);
/* --dry-run: finds missing privileges and what the server would refuse. -1: the error with which the restore would
 * end. What cannot be checked is not an error. */
int permit_rehearse(struct restore *r, struct err *e);

/* plan.c: a new plan, which knows what is in the schema. */
int plan_begin(struct restore *r, struct err *e);

/* choice.c: which dump is loaded, and what it means when that fails. */
/* A mistyped name is reported before anything else. */
int choice_find(struct restore *r, struct err *e);
int choice_load(struct restore *r, struct err *e);

#define CATCHUP_BY_MOMENT                                                                          \
    "--restore --at without the name of a dump takes the newest one before that moment"
/* catchup.c: reads the changes since r->m into r->journal. ERR_REFUSED: the requested moment cannot be restored.
 * Where changes could be expected and are not used, out->journal.gap says why. */
int catchup_read(struct restore *r, struct err *e);
/* Notes what of the journal is in what is restored. */
void catchup_figures(struct restore *r);

/* fresh.c: tables that came since the dump, and are restored from their creation on. */
/* After replay_read(): finds the definition of each; one without is given up. `now`: the world's tables. */
int fresh_define(struct restore *r, const char *schema, const struct db_tables *now, struct err *e);
/* Adds them to the plan. */
int fresh_plan(struct restore *r, struct err *e);
/* After load_pool_run(). One that the server refuses is left out, and said so: it is in no dump. */
int fresh_load(struct restore *r, struct err *e);

/* load_pool.c: loads r->file over several connections at once, one table each at a time, the largest first, while
 * another thread reads the rest (header, definitions, trailer) into r->code. The caller's thread reports progress. If
 * any part fails, the whole load fails.
 *
 * The first connection is r->db, which holds the lease; another thread uses it until load_pool_run() returns. The
 * others are opened and closed here. Each holds a lock of its own next to the lease (db_lease_slot), so that no
 * restore starts loading while a stale connection of an earlier one could still write. If the server grants fewer
 * connections, the pool is smaller. */
int load_pool_run(struct restore *r, struct err *e);
/* Only checks that the dump's definitions can be restored on this server, as load_pool_run() does before anything is
 * loaded; changes nothing. */
int load_pool_check(struct restore *r, struct err *e);

/* code.c: a verify_fn that notes the definitions of a dump. */
int code_see(void *code, const struct format_item *item, struct err *e);
/* The use of the dump's code depends on what exists before anything is loaded. */
int code_judge(struct restore *r, struct err *e);
/* Makes it, or says why not. A dry run with --with-code names what would be made. */
void code_restore(struct restore *r);
/* Is there code to make? Then a crash before it is made must not lose it: */
bool code_due(const struct restore *r);
/* The same after a crash, from the dump of that name. -1: it may not have been made. */
int code_recover(struct db *db, const struct job *job, const char *dump, struct err *e);

/* ledgers.c: ledger, rollup and marks of a restored world are of one moment, or it is refused or said; and no new row
 * gets an id that its key's total counts as rolled up. */
/* In this session until it ends: no run of a ledger goes on while tables are swapped. */
int ledgers_lock(struct db *db, const struct config *c, struct err *e);
/* Before anything is changed: can --table and --at take the ledgers back as the world has them? ERR_REFUSED. */
int ledgers_guard(struct restore *r, struct err *e);
/* After plan_finish(): may the ledgers be restored in this way? ERR_REFUSED. */
int ledgers_plan(struct restore *r, struct err *e);
/* After the load, before the swap. */
int ledgers_loaded(struct restore *r, struct err *e);

/* warm_promote.c: the tables of a standby's copy become the shadow tables. False: they have to be loaded. */
bool warm_take(struct restore *r);

/* turn.c: which of several worlds of one server is loaded first. Worlds that are lost together would all load at once
 * and take the server from each other; they agree in its named locks, without a master: a dead one's locks end with
 * its connection.
 *
 * Waits until no more important world waits, and fewer than two of those at least as important load; never for less
 * important ones, and at most five minutes. The turn lasts until r->db is closed. -1: the connection is lost. */
int turn_wait(struct restore *r, struct err *e);

/* swap.c: from loaded shadow tables to a living world, and the recovery after a restore that was interrupted
 * anywhere in that. */
/* Saves the rows of the tables to be replaced to conflict-….sql.gz, because a server crash after the swap would lose
 * them. swap_tidy() completes the file. */
int swap_save_conflicts(struct restore *r, struct err *e);
/* db_lease_claim() of the new generation, right before swap_in(). */
int swap_claim(const struct restore *r, struct err *e);
/* Creates the shadow sentinel, moves the triggers, runs the one RENAME TABLE. On failure everything is as before. If
 * an answer was lost, r->db is a new connection afterwards. */
int swap_in(struct restore *r, struct err *e);
/* blocked.c: statements of a swap wait for locks of other sessions. Each time one has waited in vain it is found out for
 * whom, as far as the server tells; idle sessions of the world's schema are ended where [restore] end_blockers and the
 * privileges of this account allow it, and a backup is waited for as long as it lasts. What still blocks is reported at
 * once, by job_note() and job->blocked. */
struct blocked {
    struct restore *r;
    enum lock_wait wait; /* what the last attempt was seen to wait for */
    mono_t since;        /* when it began */
    unsigned tries;      /* left */
    char reported[400];  /* the hint that was */
};
struct blocked blocked_begin(struct restore *r, unsigned tries);
/* Before each attempt. */
void blocked_try(struct blocked *b);
/* The attempt failed with `e`: is there to be another one? Else e names who blocks, where that was it. */
bool blocked_again(struct blocked *b, struct err *e);
/* Waits for a backup that keeps tables from being made, replaced and dropped: before a step that does that. */
int blocked_wait_backup(struct restore *r, struct err *e);

/* Runs a statement on r->db as a long one: a second connection sees that the server works on it, which counts as
 * progress, and what it waits for (b may be NULL). */
int rename_exec(struct restore *r, const char *sql, size_t len, struct blocked *b, struct err *e);
/* One attempt at the RENAME (rename.c). It takes seconds for thousands of tables and minutes for more: as long as the
 * server works on it, that counts as progress. If its answer is lost, its outcome is looked up before it is reported
 * as failed; if it took place, r->db is a new connection, which holds the lease. */
int rename_run(struct restore *r, const char *sql, size_t len, struct blocked *b, struct err *e);
/* Asks the fence of the world's lease, right before a statement that changes the world, and lets that statement wait for
 * locks on r->db no longer than the lease lasts. ERR_REFUSED: this machine may not act. Does nothing in a drill, or
 * without a lease. */
int rename_may(struct restore *r, struct err *e);
/* Saves all replaced rows, drops the old tables, raises the generation. The swap has already taken place: a failure
 * here is reported, and repaired by the next swap_recover(). */
int swap_tidy(struct restore *r, struct err *e);
/* A drill: the same statements in the scratch schema, in which each loaded table is a shadow table beside an empty
 * copy of the living one (rehearsal.c). */
int swap_rehearse(struct restore *r, struct err *e);
/* Into the result: where the rows that players wrote into the replaced tables are now. */
void swap_result(struct restore *r);
/* After a crash: moves triggers back where they belong, saves and drops old tables, drops shadow tables. Does nothing
 * if nothing is left over. *swapped: the pending restore had taken effect. */
int swap_recover(struct db *db, const struct job *job, bool *swapped, struct err *e);
/* Drops the shadow tables alone, unless a swap may have begun: that is for swap_recover(). */
int swap_drop_shadows(struct db *db, const struct job *job, struct err *e);

/* triggers.c: a trigger belongs to a table, not to a name. Before the swap each is moved to the shadow table, and
 * renamed with it. */
int triggers_replaced(struct restore *r, struct db_triggers *out, struct err *e);
/* Creates every trigger once under a temporary name before the first real one is touched: a definer that we may not
 * use, or a body that no longer compiles, must not cost the game its trigger. One that does not fit the definition
 * that its table gets (redefined.h) is taken out of the list. */
int triggers_prove(struct restore *r, struct db_triggers *list, struct err *e);
int triggers_move(struct restore *r, const struct db_triggers *list, struct err *e);
/* Puts each trigger of `list` on the table it names; one that is not there is created again. */
int triggers_put(struct db *db, const char *schema, const struct db_triggers *list, struct err *e);
/* The same after a crash. A trigger that cannot be put back must not keep the world down: its text is kept in a
 * file. */
int triggers_recover(struct db *db, const struct job *job, const struct db_triggers *list,
                     struct err *e);

/* rehearsal.c: what a restore of this world would send after the load, in the scratch schema of a drill: all kinds of
 * statements, with the world's own definitions and triggers. */
int rehearse(struct restore *r, struct err *e);

/* live.c: the last step of a drill. Has the world that was rebuilt in the scratch schema the rows of the living one? A
 * table that differs counts only if it stood still: nothing in the binary log has changed it since the moment that was
 * rebuilt. Reads the MEMORY tables of the living world as a dump does, so that the game goes on meanwhile. -1 with
 * ERR_QUERY: a table that stood still has other rows. */
int live_compare(struct restore *r, struct err *e);

/* result.c */
/* What the operator must know about a restore that succeeded: each of it once, one after the other. */
void result_warn(struct restore *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void result_plan(struct restore *r);

#endif
