/* What the parts of a supervisor share. Everything else is in the part that it belongs to, in a
 * static struct that only that part's file can see: a process keeps one world. Each calls only those below it, and
 * returns what its caller has to do instead of calling back; what has to happen in the same turn of the
 * loop, but not at once, is a flag here.
 *
 *   loop              waits, passes messages from one part to another, starts and ends everything
 *   reload            another config or dump directory while it runs; the world's lock
 *   clients           requests over the control socket
 *   publisher         flag, status.json, metrics (metrics.c)
 *   disk, periodic_check   the disk writer and what it finds; the rules of --check
 *   write_back        players' progress goes to the central store
 *   offsite           copies on another machine
 *   standby           the machine that may take the world over
 *   lease             which machine has the world: the fence (base/fence.h) and the guard hear of it
 *   jobs              world_event(): the guard's decisions; dumps and restores
 *   follower, prober, rollups   the journal; the question of each second; ledgers
 *   drills            drills and verifies by the clock; when: schedule.h
 *   dumps             the newest dump, and when the next is due
 *   notifier          alerts and conditions
 *   recorder          the history
 *   disk_writer.h     packets to the disk writer
 */
#ifndef WK_SUPERVISOR_WORLD_H
#define WK_SUPERVISOR_WORLD_H

#include <jansson.h>
#include <poll.h>
#include <stdlib.h>

#include "actions/context.h"
#include "actions/request.h"
#include "base/file.h"
#include "base/log.h"
#include "base/worker.h"
#include "store/catalog.h"
#include "store/history.h"
#include "supervisor/disk_writer.h"
#include "supervisor/words.h"
#include "watch/explain.h"
#include "watch/guard.h"

struct world;

/* A worker of one of the parts, and what the loop calls with each of its packets; NULL: it has ended. */
#define WORKERS_MAX 16
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
    /* its state in words for people, as of the last world_event() */ /* changed by world_event() alone */
    struct guard_config guard_cfg;
    struct condition conditions[CONDITIONS]; /* set by notify_open() and notify_over() */
    char host[256];                          /* this machine, as status and history name it */
    bool stopping;                           /* SIGTERM came: nothing new begins */
    /* A job puts tables in the place of the world's, or finishes what a killed restore began. */
    bool swaps;
    /* For the next turn of the loop: save the state, publish the status, poll the disk writer. */
    bool state_dirty, status_dirty, poll_disk;
    json_t *last_restore; /* as in the status; or NULL */
    wall_t started;       /* of this supervisor */
    /* Polled one by one, before all that is in `heard`: what follows from their packets is decided in the loop. */
    struct worker probe_worker;      /* started and watched by prober.c */
    struct worker job_worker;        /* by jobs.c */
    struct worker disk_writer;       /* by disk.c; all may send (disk_writer.h) */
    struct heard heard[WORKERS_MAX]; /* in this order; set up once by world_worker() */
    size_t heard_count;
    /* In the order in which their timers find what those before them have decided; ended by NULL. */
    const struct part *const *parts;
    /* What a loss now would cost: the loop asks the parts, which call the notifier themselves. */
    struct exposure (*exposure)(const struct world *w);
};

/* What the loop, a reload and the status ask of each part that has it; NULL: nothing. */
struct part {
    void (*begin)(struct world *w);              /* first of all: memory and registrations only */
    void (*timers)(struct world *w, mono_t now); /* in each turn of the loop */
    /* Its next worker works with the config of now, … */
    void (*restart)(struct world *w);
    bool opens_dirs; /* … and with the directories: also when only these are others */
    void (*stop)(struct world *w);
    const char *status; /* the member of the status that status_json() makes */
    json_t *(*status_json)(const struct world *w);
};
extern const struct part clients_part, disk_part, drills_part, dumps_part, follower_part, jobs_part,
    leases_part, notifier_part, offsite_part, periodic_check_part, prober_part, publisher_part,
    recorder_part, rollups_part, standby_part, write_backs_part;

/* The next packet of a worker, if there is one, or its end, unless it was ended since it was polled. */
static inline void world_hear(struct world *w, struct worker *v, worker_message_fn *message)
{
    struct packet m;
    bool closed = false, there = v->fd >= 0 && worker_receive_packet(v->fd, &m, &closed);
    if (there)
        v->heard = clock_mono();
    if (there || closed)
        message(w, v, there ? &m : NULL);
}

static inline void world_worker(struct world *w, struct worker *v, const char *name,
                                worker_message_fn *message)
{
    worker_init(v, name);
    if (w->heard_count == WORKERS_MAX) /* no supervisor would start */
        abort();
    w->heard[w->heard_count++] = (struct heard){v, message};
}

/* ---- loop.c ---- */

/* Runs until SIGTERM/SIGINT. 0, or -1 if it could not start. Closes `a` (opened, not yet locked); a reload
 * frees the config and goes on with another. */
int world_run(struct action_context *a, struct config *cfg, struct err *e);

/* ---- reload.c ---- */

/* At the start: -1 where another supervisor or world holds something. */
int holdings_take(struct world *w, struct err *e);
/* Each second (claims_drain()). */
void holdings_timers(void);

void guard_config_from(const struct config *c, struct guard_config *out);
void warn_of_insecure(const struct config *c);

/* SIGHUP. A broken config changes nothing: the old one stays in force, and that is reported. While
 * a job runs, which works with the config that it began with, the reload waits. */
void reload_config(struct world *w);
void reload_timers(struct world *w);
/* [dump] dir names another directory than the one that was opened: opens and locks that one. Only
 * while no job works. On failure the old one stays in use. */
int reload_dump_dir(struct world *w, struct err *e);
/* What is in the place of the dump directory now. Actions by hand and the next supervisor use what
 * the config names, so that we have to follow it. */
void reload_check_place(struct world *w, enum file_dir_place place);

/* ---- clients.c ---- */

/* Also after the dump directory was replaced: the socket may lie in it. */
int clients_listen(struct world *w, struct err *e);
const char *clients_socket(void);

/* The socket and the clients: CLIENTS_FDS descriptors to poll, and what is to be done for one. */
#define CLIENTS_MAX 16
#define CLIENTS_FDS (1 + CLIENTS_MAX)
void clients_fds(mono_t now, struct pollfd *p);
void clients_message(struct world *w, size_t i);
/* To all that wait for the running job; `last`: it has ended. NULL: nothing. */
void clients_send(json_t *message /* taken */, bool last);

/* ---- publisher.c ---- */

#define STATUS_VALID_MS 15000 /* until status.json expires */

json_t *publish_status_json(struct world *w);
void publish_status(struct world *w);
/* A round of the loop ended so many ms late. */
void publish_late(int64_t ms);
/* A reload: files that `next` no longer publishes get their final content, as at a clean exit;
 * those of the page are removed. */
void publish_leave(struct world *w, const struct config *next);

/* ---- metrics.c ---- */

/* Adds a sample for each value of `status` that the table names. What is null or missing there has no
 * sample; a metric without a sample is not mentioned. */
void metrics_text(const char *world, const json_t *status, struct buf *out);

/* ---- disk.c ---- */

/* For the start of the supervisor, which fails where this does. */
int disk_start(struct world *w, struct err *e);
/* true: what is in the place of the dump directory now is in *place. */
bool disk_message(struct world *w, enum file_dir_place *place);
/* The last writes of a supervisor that ends; waits until they are done, for seconds at most. */
void disk_finish(struct world *w);
void disk_reaped(pid_t pid);
/* Into the state, for the next supervisor: a pause outlives this process, and the guard forgets it when it is told to
 * stop. */
void disk_note_pause(struct world *w);

/* Borrowed: a list of the dumps that were found damaged; NULL: not known yet. */
json_t *disk_damaged_dumps(void);

/* ---- lease.c ---- */

/* Before any child is started: with [standby] nothing is done until the lease is held. */
int leases_begin(struct world *w, struct err *e);
/* May this machine act? First in each turn of the loop: true where it may not any more, which is to be published
 * at once. */
bool leases_decide(struct world *w);
/* Not longer than until the lease ends. */
int64_t leases_sleep(mono_t now, int64_t ms);

/* ---- lease_table.c ---- */
void lease_table_begin(struct world *w);
/* Has the table been written, or could it not be, since lease_table_expect(false)? */
bool lease_table_tried(void);
void lease_table_expect(bool written);
/* After each renewal. */
void lease_table_write(struct world *w, uint64_t number, mono_t until);
void lease_table_stop(void);

/* ---- jobs.c ---- */

/* The only place that changes the guard's state: decides, logs, publishes, alerts, acts. */
void world_event(struct world *w, const struct guard_event *ev);

int jobs_start(struct world *w, struct request *r /* taken on success */, struct err *e);
/* ACTION_NONE: no job. */
enum action jobs_running(void);
/* Must what a client asks for wait? */
bool jobs_busy(const struct world *w);
/* Does the running one give way to what anybody asks for? (a drill by the clock) */
bool jobs_is_spare(void);
/* Does the running one save the state itself, since it changes which world this is, or whose? */
bool jobs_save_state(void);

/* What the job has sent to the clients that wait for it: a new reference, or NULL; *last: it has
 * ended. */
json_t *jobs_message(struct world *w, bool *last);
/* The same for a job whose process has ended, once its messages have been read. */
json_t *jobs_died(struct world *w, int wait_status, bool *last);
/* Does the job wait for the dump directory to be taken up that it found in the place of ours? Then
 * it is run again there; `e` not NULL: that was not possible. As jobs_message(). */
bool jobs_await_dir(void);
json_t *jobs_dir_changed(struct world *w, const struct err *e, bool *last);

/* As the state has it, at the start of the supervisor. */
void jobs_recall(struct world *w);
/* Something of a killed restore may be left in the server. */
void jobs_tidy_soon(void);

/* ---- follower.c ---- */

/* Does the worker still write what it read from a server that is gone? A restore needs that. */
bool follower_busy(const struct world *w);
/* A job takes the world's tables away, and says so: that is no gap to report. */
void follower_leaves(bool leaves);
void follower_dump_begins(void);
void follower_dump_done(struct world *w);
/* A restore replaced the world; the old one was last seen at `alive`. */
void follower_restored(struct world *w, const char *dump, wall_t alive);
/* Of the first tables of `shrunk` (dump/shrink_guard.h): adds what happened to `what`, as far as the journal shows a
 * TRUNCATE or a deletion after the newest dump, and the way back to `todo`. To be called before follower_dump_done(). */
void follower_explain_shrunk(const struct world *w, const json_t *shrunk, struct buf *what,
                             struct buf *todo);

/* ms at the end that are not proven to be in the journal, which covers all before since the newest dump; -1: that is not
 * known. */
int64_t follower_unproven(const struct world *w);
double follower_behind_seconds(void); /* -1: not known */

/* ---- prober.c ---- */

/* Both: true if there is a judgement. */
bool prober_message(struct world *w, struct judgement *out);
bool prober_timers(struct world *w, mono_t now, struct judgement *out);
/* Ms until prober_timers() has something to do. */
int64_t prober_sleep(const struct world *w, mono_t now);
void prober_next(mono_t at);
/* Asks at once, and drops the answer to a question that is under way: it describes the world
 * before a restore. */
void prober_discard(void);

/* The world is the one of the state. `seen`: when we found that ourselves; ms 0: an earlier
 * supervisor did. */
void prober_expect(struct world *w, const struct state *s, mono_t seen);
/* A restore may swap in a world with this nonce from now on. */
void prober_expect_next(struct world *w, const char *nonce);

const struct observation *prober_last(void);
/* When its question was asked; ms 0: there was none. */
mono_t prober_last_asked(void);
/* Did the last ALIVE see the same nonce and server process as the one before it? */
bool prober_same_world(void);

/* ---- drills.c ---- */

/* Is a drill to be started now, as the job? Then drills_begun() follows where that was possible. */
bool drills_due(struct world *w, mono_t now);
void drills_begun(struct world *w);
/* A drill has ended that the supervisor carried out, by itself or by hand. `e`: NULL where it passed. */
void drills_ended(struct world *w, const struct request *r, const json_t *result,
                  const struct err *e);

/* Adds last_drill, next_drill, last_verify and next_verify to the status. */
void drills_status(const struct world *w, json_t *status);

/* ---- dumps.c ---- */

/* What is in the catalog of the dump directory, at the start or after that was replaced. */
void dumps_load(struct world *w, const struct catalog *c);
/* `m` is here, now: it was stored, or a standby has fetched it. */
void dumps_stored(struct world *w, const struct manifest *m);
/* A dump failed. Returns the ms until the next attempt; `next_interval`: until the next is due. */
int64_t dumps_failed(struct world *w, bool next_interval);

/* Without its tables (manifest_figures()); NULL: there is none. */
const struct manifest *dumps_newest(void);
/* A world that was loaded from a stored dump by hand, with the stock client, is ours. */
bool dumps_know_nonce(const char *nonce);
unsigned dumps_failures(void); /* in a row */
mono_t dumps_next(void);
void dumps_due(mono_t when);

/* ---- notifier.c ---- */

/* Loads the incidents from the disk and reports the start; `last_sign`: when a supervisor that did
 * not exit cleanly was last known to run, or ms 0. */
void notify_started(struct world *w, wall_t last_sign);
/* After each step of the guard. */
void notify_guard(struct world *w, const struct words_facts *facts);
/* Something is wrong, in the words of the format, with the condition's own subject (condition_words); said as often as it is found: alerts and logs only
 * changes, and sends reminders. `key`: what it is that is wrong, where a condition may have several causes;
 * NULL: there is only one. */
void notify_open(struct world *w, enum condition_id id, const char *key, const char *doing,
                 const char *todo, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* The same with a subject that names the object, or NULL: "table planet altered". */
void notify_open_as(struct world *w, enum condition_id id, const char *key, const char *headline,
                    const char *doing, const char *todo, const char *fmt, ...)
    __attribute__((format(printf, 7, 8)));
/* It is not, or no more: nothing is being done about it, and nothing is left to do. */
void notify_over(struct world *w, enum condition_id id, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Logs an error, with the commands in its hint made pasteable (hint_command.h). */
void world_log_err(struct world *w, enum log_level level, const char *what, const struct err *e);

void notify_heartbeat_now(void);

/* An answer of the disk writer about the alert queue. */
void notify_disk_answer(struct world *w, const struct packet *m);
/* It could not store an alert (DISK_ALERT), or not read the queue (DISK_LOAD). */
void notify_disk_failed(enum disk_request request);
/* The disk writer is gone: what it was given will not be answered. */
void notify_disk_gone(void);
/* The alert queue moved to another directory. */
void notify_dir_moved(void);
/* The numbers up to which each channel has delivered, for the disk writer. */
struct disk_marks notify_marks(void);

/* What the status shows. */
json_t *notify_conditions_json(const struct world *w);
/* For the metrics: each condition, open or not, and each channel that is on. */
json_t *notify_condition_figures(const struct world *w);
json_t *notify_channel_figures(const struct world *w);

/* ---- recorder.c ---- */

/* A record of now. `fields`: taken; text from outside by js_clean(), null for what is not known. */
void history_add(struct world *w, enum history_kind kind, json_t *fields);
/* The state has changed, for the guard's reason. */
void history_state(struct world *w);
/* This process stood still for `late` ms, the wall clock jumped by `drift` ms; 0: it did not. */
void history_doubt(struct world *w, const char *reason, int64_t late, int64_t drift);

/* For the metrics, since the start: [{"action","result","count"}] and [{"action","kind","count"}]. */
json_t *recorder_runs(void);
json_t *recorder_failures(void);

/* The figures of now; -1: not known. The largest of some minutes become a record. */
void recorder_sample(struct world *w, mono_t now, int64_t probe_ms, int64_t journal_lag_ms);
/* The disk writer has stored the record that it was given, or could not. */
void recorder_stored(struct world *w);
void recorder_failed(void);
/* It is gone: what it was given may not be stored. */
void recorder_disk_gone(void);
/* The supervisor ends: what waits goes to the disk writer at once. */
void recorder_finish(struct world *w);

#endif
