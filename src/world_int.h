/* The inside of the supervisor, shared by world.c (loop, probe, scribe, signals), world_job.c (jobs
 * and the control socket), world_journal.c (who follows the changes) and world_tell.c (status,
 * alerts, deliveries). Nobody else includes it.
 */
#ifndef WK_WORLD_INT_H
#define WK_WORLD_INT_H

#include "act.h"
#include "config/config.h"
#include "core/worker.h"
#include "report/alert.h"
#include "store/manifest.h"
#include "watch/guard.h"

#define WORLD_CLIENTS 16
#define WORLD_UNSENT 64 /* alerts the scribe could not take yet */

struct client {
    int fd;                /* -1: free place */
    bool waits;            /* for the end of the present job */
    struct request queued; /* to be started when the present job has ended; action NULL: none */
};

/* One alert channel, or the heartbeat. */
struct delivery {
    struct worker worker;
    struct alert_pace pace;
    unsigned waiting; /* in the queue on the disk */
    json_t *past;     /* alerts that could not get into it: they wait here, and go first */
    unsigned sending; /* how many of these the worker sends now */
    uint64_t upto;    /* what of the queue was sent and could not be noted there */
    char last_error[256];
    char failed[64]; /* what kind of failure that was */
};

struct job_now {
    struct worker worker;
    struct request request; /* action NULL: no job */
    wall_t since;
    json_t *progress; /* last {"phase",…} */
    bool told_stalled;
    bool told_started; /* the guard knows of this restore */
    bool restores;     /* it replaces the world (not --into, not --dry-run) */
};

enum journal_state {
    JOURNAL_IDLE, /* the world is not up, nobody follows */
    JOURNAL_STARTING,
    JOURNAL_FOLLOWING,
    JOURNAL_UNABLE, /* the server or the account does not allow it */
    JOURNAL_FAILED,
};

struct trouble {
    bool on;
    char key[64]; /* the same trouble again is no news, whatever numbers are in its text */
    char text[640];
    wall_t since;
    mono_t told;
};

struct journal_now {
    struct worker worker;
    enum journal_state state;
    mono_t heard, next_start;
    int64_t retry; /* ms to wait after the next failure */
    mono_t proven; /* no change from before is missing in it */
    bool beaten;   /* that is by a change of our own that came by */
    int64_t changes, pos;
    char file[256], reason[640];
    mono_t dumped;          /* the last one for a gap ended; ms 0: none since we began */
    int64_t pause;          /* ms between dumps that gaps ask for */
    bool lost_place;        /* the log no longer reaches back to the newest dump */
    bool anew;              /* nor does it lead on from where segments end */
    bool blind;             /* the worker began where it could, not at the newest dump */
    bool unwritten;         /* its files cannot be written; told */
    mono_t end_by;          /* the worker was told to end */
    bool restore_waits;     /* for what it still writes */
    struct db_point gap_at; /* the last gap; file "": its place is not known */
    uint64_t gaps, covered; /* gaps so far; those before the dump that runs */
    struct trouble gap, failed, lag;
};

struct world {
    struct act *a;
    struct config *cfg; /* owned; replaced by a reload */
    struct guard guard;
    struct guard_config guard_cfg;
    struct expectation expect;
    struct db_names
        nonces; /* of stored dumps: a restore by hand with the stock client is no stranger */
    char host[256];
    char lost_reason[640];

    int lock_fd, listen_fd, signal_fd;
    mono_t listen_after; /* nobody can be taken before; 0: nothing is in the way */
    struct worker probe, scribe;
    struct probe_state {
        bool asked;
        uint64_t number; /* of the present question; an answer to an older one is dropped */
        mono_t asked_at, next;
        struct observation last;
        char text[640], history[9];
        wall_t at;
    } probed;
    struct job_now job;
    struct journal_now journal;
    struct client clients[WORLD_CLIENTS];
    struct delivery channels[ALERT_CHANNELS], heartbeat;
    json_t *unsent; /* array of alerts */
    json_t *given;  /* those that the scribe has and does not yet say to be on the disk */
    mono_t looked;  /* it was asked to look and has said nothing since; ms 0: it was not */
    mono_t next_scribe;
    pid_t hung_scribe; /* killed, and not yet dead */

    /* what is known of dumps */
    bool have_dump;
    struct manifest last; /* without its tables */
    mono_t next_dump, last_dump_mono;
    unsigned dump_failures;
    struct trouble discarded, stale, disk_low, publish, state_failed, scribe_failed, scribe_away,
        dir_moved, refused;
    uint64_t disk_free;
    json_t *last_restore; /* or NULL */
    bool reload_due;      /* SIGHUP came while a job ran */
    bool tidy_due;
    mono_t tidy_at;
    mono_t state_retry; /* not before: it could not be written */

    mono_t next_publish, next_look, next_state_save, next_heartbeat, next_watchdog;
    bool state_dirty, status_dirty, ready, stopping;
    mono_t stop_deadline;
    int64_t late_ms, late_ms_max; /* of the loop: since the last status, and ever */
    int64_t wall_offset;
    mono_t began, last_tick;
    char told_status[700];
};

/* world.c */
void world_event(struct world *w, const struct guard_event *ev);
/* Hands one packet to the scribe; -1 when it cannot take it now. */
int world_scribe(struct world *w, json_t *msg /* taken */);

/* world_job.c */
void job_init(struct world *w);
int job_start(struct world *w, struct request *r /* taken on success */, struct err *e);
/* Starts the restore of a lost world; that it cannot start is an event. No job runs. */
void job_restore(struct world *w);
void job_message(struct world *w);
void job_ended(struct world *w, int wait_status);
void job_timers(struct world *w, mono_t now);
void job_stop(struct world *w, int sig);
void job_accept(struct world *w);
void job_client_input(struct world *w, struct client *c);
void job_close_clients(struct world *w);
void job_set_last_dump(struct world *w, const struct manifest *m);

/* world_journal.c */
void journal_init(struct world *w);
void journal_message(struct world *w);
void journal_timers(struct world *w, mono_t now);
void journal_stop(struct world *w);
/* Does a worker still write what it has read of a server that is gone? A restore needs it. */
bool journal_busy(const struct world *w);
void journal_dump_begins(struct world *w);
void journal_dump_done(struct world *w);
json_t *journal_status_json(const struct world *w);
double journal_behind_seconds(const struct world *w); /* -1: nobody follows */

/* world_tell.c */
void tell_init(struct world *w);
json_t *tell_status_json(struct world *w);
void tell_publish(struct world *w);
void tell_guard(struct world *w, const struct guard_answer *a);
/* An alert that the queue could not take: it waits in memory, and is sent from there. */
void tell_past_queue(struct world *w, json_t *alert);
/* Of the alerts that the scribe was given: the first one is done with; none is heard of again,
 * though all are written; it is gone, and all have to be told anew. */
void tell_taken(struct world *w);
void tell_drained(struct world *w);
void tell_given_back(struct world *w);
void tell_alert(struct world *w, unsigned event, const char *kind, const char *what,
                const char *doing, const char *todo, json_t *facts /* taken, may be NULL */);
/* A line of the log, and how to type what its hint names. */
void tell_err(struct world *w, enum log_level level, const char *what, const struct err *e);
/* Turns a trouble on or off; an alert and a log line only when that is news, and reminders. `key`
 * names the trouble; NULL: there is only one of its kind. */
void tell_trouble(struct world *w, struct trouble *t, unsigned event, bool on, const char *key,
                  const char *what, const char *doing, const char *todo);
void tell_timers(struct world *w, mono_t now);
void tell_delivery_message(struct world *w, struct delivery *d, enum alert_channel ch);
void tell_delivery_ended(struct world *w, struct delivery *d, int wait_status);
void tell_look(struct world *w, const json_t *o);

#endif
