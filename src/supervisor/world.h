/* The state that the parts of a supervisor share. All other state is in the part that it belongs
 * to, in a static struct that only that part's file can see, because a process keeps one world.
 * Each file includes and calls only those listed below it (tests/arrows.sh checks the includes). It
 * returns what its caller must do instead of calling back. An action that must happen later in the
 * same iteration of the loop is a flag here.
 *
 *   loop               waits, passes messages from one part to another, starts and ends everything
 *   reload             another config or dump directory while it runs; the world's lock
 *   clients            requests over the control socket
 *   publisher, metrics flag, status.json, metrics
 *   disk               the disk writer's end here, and what it finds
 *   periodic_check     the rules of --check
 *   write_back         players' progress goes to the central store
 *   offsite            copies on another machine
 *   standby            the machine that may take the world over
 *   lease, lease_table which machine has the world; informs fence, guard and games
 *   jobs, job_child    running dumps, restores and other actions, and their child
 *   restore_end, dump_end   consequences of their ends
 *   decisions          world_event(): carries out the guard's decisions
 *   follower           the journal
 *   prober             the probe of each second
 *   rollups            ledgers
 *   drills, schedule   scheduled drills and verifies
 *   dumps              the newest dump, and when the next one is due
 *   notifier           alerts and conditions
 *   recorder           the history
 *   disk_writer        all writing; packets to it
 *   history_file       history.json
 *   world              this header
 *   last_restore       what is known of the last restore
 *   words              the texts of alerts
 *   condition_words    conditions, their names and subjects
 *   published          how long published files are valid
 *   status_files       the status files as one packet
 */
#ifndef WK_SUPERVISOR_WORLD_H
#define WK_SUPERVISOR_WORLD_H

#include <jansson.h>
#include <stdlib.h>

#include "actions/action.h"
#include "actions/context.h"
#include "base/worker.h"
#include "supervisor/condition_words.h"
#include "supervisor/last_restore.h"
#include "watch/condition.h"
#include "watch/explain.h"
#include "watch/guard.h"

struct world;

/* A worker of one of the parts, and the function that the loop calls with each of its packets;
 * NULL: it has ended. */
#define WORKERS_MAX 24
typedef void worker_message_fn(struct world *w, struct worker *v, const struct packet *m);
struct part;
struct heard {
    struct worker *worker;
    worker_message_fn *message;
};

struct world {
    struct action_context *a; /* the dump directory, the password, and what state.json holds */
    struct config *cfg;       /* owned; replaced by a reload */
    struct guard guard;
    struct explanation why;
    /* its state in words for people, as of the last world_event() */ /* changed by world_event()
     * alone */
    struct guard_config guard_cfg;
    struct condition conditions[CONDITIONS]; /* set by notify_open() and notify_over() */
    char host[256];                          /* this machine, as status and history name it */
    bool stopping;                           /* SIGTERM came: nothing new begins */
    enum action job; /* the running job; ACTION_NONE: none. Set by jobs.c, as is `swaps` */
    /* A job replaces the world's tables, or finishes what a killed restore began. */
    bool swaps;
    const char *only; /* the tables that the running restore replaces alone, or NULL; by jobs.c */
    /* For the next iteration of the loop: save the state, publish the status, poll the disk
     * writer. */
    bool state_dirty, status_dirty, poll_disk;
    /* The key is new, and the disk writer has not written the state with it yet: a worker that
     * reads the file would refuse it. */
    bool state_unsigned;
    struct last_restore last_restore;
    wall_t started; /* of this supervisor */
    /* Polled one by one, before all workers in `heard`: the loop decides what follows from their
     * packets. */
    struct worker probe_worker;      /* started and watched by prober.c */
    struct worker job_worker;        /* started by jobs.c */
    struct worker disk_writer;       /* started by disk.c; all parts may send (disk_writer.h) */
    struct heard heard[WORKERS_MAX]; /* in polling order; set up once by world_worker() */
    size_t heard_count;
    /* In an order such that each part's timers see the decisions of the parts before it; ended by
     * NULL. */
    const struct part *const *parts;
    /* Returns what a loss now would cost. The loop asks the parts, which call the notifier
     * themselves. */
    struct exposure (*exposure)(const struct world *w);
};

/* Functions that the loop, a reload and the status call for each part; NULL: none. */
struct part {
    void (*begin)(struct world *w);              /* called first: memory and registrations only */
    void (*timers)(struct world *w, mono_t now); /* called in each iteration of the loop */
    /* Called when the config has changed, so that the next worker uses it. */
    void (*restart)(struct world *w);
    bool opens_dirs; /* restart also if only the directories changed */
    void (*stop)(struct world *w);
    const char *status; /* the member of the status that status_json() returns */
    json_t *(*status_json)(const struct world *w);
};

/* Receives the next packet of a worker, or its end, unless it was ended since it was polled.
 * Returns whether there was one. */
static inline bool world_hear(struct world *w, struct worker *v, worker_message_fn *message)
{
    struct packet m;
    bool closed = false, there = v->fd >= 0 && worker_receive_packet(v->fd, &m, &closed);
    if (there)
        v->heard = clock_mono();
    if (there || closed)
        message(w, v, there ? &m : NULL);
    return there || closed;
}

static inline void world_worker(struct world *w, struct worker *v, const char *name,
                                worker_message_fn *message)
{
    worker_init(v, name);
    if (w->heard_count == WORKERS_MAX) /* otherwise no supervisor would start */
        abort();
    w->heard[w->heard_count++] = (struct heard){v, message};
}

#endif
