/* The supervisor's side of the disk writer (disk_writer.h): starts and watches it, polls the disk's
 * state, saves our own, and keeps the conditions that follow. */
#include "supervisor/disk.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/js.h"
#include "base/line.h"
#include "base/steps.h"
#include "supervisor/condition_words.h"
#include "supervisor/disk_writer.h"
#include "supervisor/dumps.h"
#include "supervisor/jobs.h"
#include "supervisor/notifier.h"
#include "supervisor/recorder.h"
#include "supervisor/world.h"

/* The disk writer's state as the supervisor sees it. It is polled at intervals, and counts as alive
 * while it answers. A failure of the disk becomes a condition; it never stops the supervisor from
 * watching the world. */

#define POLL_EVERY_MS                                                                              \
    fault_wait(5000) /* each poll wakes two processes, for every world of a machine */
#define SAVE_EVERY_MS 60000
#define START_AGAIN_MS 1000         /* pause before the next disk writer is started */
#define SILENT_MS fault_wait(20000) /* if a poll is unanswered for so long, the disk hangs */
#define FINISH_STEP_US 20000
#define FINISH_STEPS 250

static struct disk {
    mono_t polled; /* the oldest poll that is unanswered or was not queued; ms 0: none */
    mono_t next_poll, next_start, next_save;
    mono_t save_retry; /* after a failed write of the state, the time of the next attempt */
    /* Process id of a disk writer that was killed but has not exited yet; 0: none. */
    pid_t hung;
    /* The logged error of each request whose failure is not a condition. It is logged again only
     * after a success. */
    struct {
        bool on;
        int num;
    } logged[DISK_HISTORY + 1];
    uint64_t free_bytes; /* at the last poll */
    bool free_known;
    json_t *damaged; /* list as in proof_damaged_json(); NULL: not known yet */
    wall_t intact_at;
} disk;

json_t *disk_damaged_dumps(void)
{
    return disk.damaged;
}

wall_t disk_intact_at(void)
{
    return disk.intact_at;
}

/* Starts the disk writer, which does everything that can block on the disk. The supervisor only
 * sends requests and never waits for their answers. */
int disk_start(struct world *w, struct err *e)
{
    static struct disk_writer_args args; /* read by the child after the fork */
    args = (struct disk_writer_args){.cfg = w->cfg, .dump_dirfd = w->a->job.dirfd};
    disk.next_start = mono_add(clock_mono(), START_AGAIN_MS);
    disk.polled = (mono_t){0};
    return worker_start(&w->disk_writer, disk_writer_worker, &args, true, e);
}

static void supervisor_disk_away(struct world *w, const char *key, const char *why,
                                 const char *todo)
{
    notify_open(w, CONDITION_DISK_WRITER, key,
                "still trying; alerts are sent from memory, and the world is still watched", todo,
                "status, state and alerts are not written: %s", why);
}

/* Requests that the old disk writer has not answered are sent to the next one: storing a record or
 * an alert twice is better than losing it. */
static void writer_gone(void)
{
    notify_disk_gone();
    recorder_disk_gone();
}

static void disk_restart(struct world *w)
{
    /* It finishes its queue and exits; the next disk writer opens the new directories. */
    worker_end(&w->disk_writer);
    writer_gone();
    disk.next_start = clock_mono();
}

void disk_reaped(pid_t pid)
{
    if (pid == disk.hung)
        disk.hung = 0;
}

/* Polls the disk writer, and sends it the marks of delivered alerts. */
static int poll_writer(struct world *w)
{
    struct disk_marks marks = notify_marks();
    return disk_writer_send(&w->disk_writer, DISK_POLL, &marks, sizeof marks);
}

void disk_note_pause(struct world *w)
{
    struct state *s = &w->a->state;
    s->paused = guard_paused(&w->guard);
    s->pause_until.ms = s->paused && w->guard.pause_until.ms
                            ? clock_wall().ms + mono_since(w->guard.pause_until, clock_mono())
                            : 0;
}

static void save_state(struct world *w, mono_t now)
{
    struct state *s = &w->a->state;
    bool due =
        mono_reached(now, disk.next_save) || (w->state_dirty && mono_reached(now, disk.save_retry));
    /* Our copy of the state is older than the one that the job writes. */
    if (!due || jobs_save_state())
        return;
    disk.next_save = mono_add(now, SAVE_EVERY_MS);
    if (!w->stopping)
        disk_note_pause(w);
    s->watched = !w->stopping;
    s->watched_at = clock_wall();
    if (disk_writer_send(&w->disk_writer, DISK_STATE, s, sizeof *s) == 0) {
        w->state_dirty = false;
        w->poll_disk |= w->state_unsigned;
    }
}

static void disk_timers(struct world *w, mono_t now)
{
    struct err e;
    save_state(w, now);
    if (w->stopping)
        return;
    if (w->poll_disk || mono_reached(now, disk.next_poll)) {
        w->poll_disk = false;
        disk.next_poll = mono_add(now, POLL_EVERY_MS);
        /* Also if the poll cannot be queued: a disk writer that hangs leaves its queue full. */
        if (!disk.polled.ms && w->disk_writer.pid)
            disk.polled = now;
        poll_writer(w);
    }
    /* A disk writer that is killed while its disk hangs exits only when the disk answers again.
     * Until then no second disk writer is started. */
    if (w->disk_writer.pid && disk.polled.ms && mono_since(now, disk.polled) > SILENT_MS &&
        mono_since(now, w->disk_writer.heard) > SILENT_MS) {
        char todo[LINE];
        disk.hung = w->disk_writer.pid;
        worker_kill(&w->disk_writer);
        writer_gone();
        line_set(todo, sizeof todo, "see the kernel's log, and the disks of %s and %s",
                 w->cfg->dump_dir, w->cfg->status_dir ? w->cfg->status_dir : "no status directory");
        supervisor_disk_away(w, "silent", "their disk does not answer", todo);
    }
    if (w->disk_writer.pid || disk.hung || !mono_reached(now, disk.next_start))
        return;
    if (disk_start(w, &e) < 0)
        supervisor_disk_away(w, "start", e.text,
                             "see the limits of processes, descriptors and memory");
}

/* The order matters: first the final state and history, then the marks of delivered alerts, then
 * the end of the disk writer. */
void disk_finish(struct world *w)
{
    pid_t pid = w->disk_writer.pid;
    w->state_dirty = true;
    disk.save_retry = (mono_t){0};
    save_state(w, clock_mono());
    recorder_finish(w);
    poll_writer(w);
    worker_end(&w->disk_writer); /* it writes what is queued and exits */
    /* Waits at most five seconds: a disk that hangs must not keep systemd from stopping the
     * supervisor. */
    for (int i = 0; pid > 0 && i < FINISH_STEPS && waitpid(pid, NULL, WNOHANG) == 0; i++)
        usleep(FINISH_STEP_US);
}

/* ---- answers ---- */

/* A failed write is tried again later; each kind of failure is reported once. */
static void disk_failed(struct world *w, const struct disk_failure *f)
{
    /* `step`: for alerts, which are sent even if they cannot be stored, the failure is only logged.
     * The condition of the disk itself is reported elsewhere. */
    static const struct {
        const char *name, *step;
    } words[] = {
        [DISK_PUBLISH] = {"status", NULL},
        [DISK_STATE] = {"state", NULL},
        [DISK_ALERT] = {"alert", "an alert cannot be stored and goes out from memory"},
        [DISK_REWRITE] = {"alert",
                          "sent to some recipients, but this cannot be recorded: a restart "
                          "would send it to all"},
        [DISK_POLL] = {"mark", "sent, but this cannot be recorded: a restart would send it again"},
        [DISK_HISTORY] = {"history", "the history cannot be written and waits in memory"},
        [DISK_LOAD] = {"queue", "the alerts that an earlier supervisor left cannot be read"},
    };
    struct err e = f->error;
    char key[64], todo[320];
    bool state = f->request == DISK_STATE, mark = f->request == DISK_POLL;
    if ((size_t)f->request >= sizeof words / sizeof *words)
        return;
    const char *name = words[f->request].name, *step = words[f->request].step;
    if (!name)
        return; /* a request whose failures are not reported */
    worker_err_clean(&e);
    notify_disk_failed(f->request);
    if (f->request == DISK_HISTORY)
        recorder_failed();
    snprintf(key, sizeof key, "%s %d", name, e.num);
    if (step) {
        err_step(&e, "%s", step);
        /* the disk writer reports a failed mark only once, so each report is logged */
        if (mark || !disk.logged[f->request].on || disk.logged[f->request].num != e.num)
            world_log_err(w, LOG_ERROR_, name, &e);
        disk.logged[f->request].on = true;
        disk.logged[f->request].num = e.num;
        return;
    }
    if (state) {
        w->state_dirty = true;
        disk.save_retry = mono_add(clock_mono(), DISK_WRITER_RETRY_MS);
    }
    line_set(todo, sizeof todo, "see the disk, owner and mode of %s",
             state || !w->cfg->status_dir ? w->cfg->dump_dir : w->cfg->status_dir);
    notify_open(w, state ? CONDITION_STATE : CONDITION_STATUS, key,
                "trying again every 10 s; the world is still watched", e.hint[0] ? e.hint : todo,
                "%s cannot be written: %s", name, e.text);
}

/* A damaged dump does not count as a dump: if it is the newest one, a new dump is taken at once. */
static void disk_damaged(struct world *w, json_t *list, const char *device)
{
    const struct condition *shown = &w->conditions[CONDITION_DAMAGED];
    const json_t *first = json_array_get(list, 0);
    const char *dump = js_text(first, "dump");
    char what[900], todo[900], headline[200];
    if (!disk.damaged || !json_equal(disk.damaged, list)) {
        json_decref(disk.damaged);
        disk.damaged = json_incref(list);
        w->status_dirty = true;
    }
    if (!first) {
        notify_over(w, CONDITION_DAMAGED,
                    "no stored dump is damaged: each was deleted or found intact");
        return;
    }
    /* A dump's name may be longer than a key; its last characters tell dumps apart. */
    const char *key =
        strlen(dump) < sizeof shown->key ? dump : dump + strlen(dump) - sizeof shown->key + 1;
    bool news = !shown->on || strcmp(shown->key, key) != 0;
    if (js_flag(first, "loadable")) {
        line_set(what, sizeof what, "dump %s in %s (disk %s) is damaged, as a %s found: %s", dump,
                 w->cfg->dump_dir, device[0] ? device : "unknown", js_text(first, "by"),
                 js_text(first, "reason"));
        line_set(headline, sizeof headline, "dump %s is damaged", dump);
        line_set(
            todo, sizeof todo,
            "check that disk (dmesg, smartctl); this is over when the damaged dump is deleted, as "
            "newer ones take its place, or is found intact; worldkeeper --verify reads all dumps "
            "back");
    } else {
        line_set(what, sizeof what, "dump %s cannot be loaded for what is in it: %s", dump,
                 js_text(first, "reason"));
        line_set(headline, sizeof headline, "dump %s cannot be loaded", dump);
        SCOPED(xfree) char *path = xasprintf("%s/%s.sql.gz", w->cfg->dump_dir, dump);
        SCOPED(buf_free) struct buf file = {0};
        buf_shell(&file, path);
        line_set(
            todo, sizeof todo,
            "correct that row in the world; this is over when the damaged dump is deleted, as "
            "newer ones take its place; then store a new dump: worldkeeper --dump; to see what "
            "the damaged one holds: gunzip -c %s",
            file.p);
    }
    notify_open_as(w, CONDITION_DAMAGED, key, headline,
                   "restores use an older dump; a new one is taken", todo, "%s", what);
    if (news && dumps_newest() && strcmp(dumps_newest()->name, dump) == 0)
        dumps_due(clock_mono());
}

static void disk_polled(struct world *w, const struct disk_state *d, json_t *list)
{
    /* An answered poll ends only the condition of the disk writer. Failures of the status and the
     * state end when their own writes succeed. */
    notify_over(w, CONDITION_DISK_WRITER, "what writes status, state and alerts works again");
    if (d->status_ok)
        notify_over(w, CONDITION_STATUS, "the status is written again");
    if (d->state_ok) {
        w->state_unsigned = false;
        notify_over(w, CONDITION_STATE, "the state is written again");
    }
    disk.intact_at = d->intact_at;
    if (list)
        disk_damaged(w, list, d->disk);
    if (d->free_known) {
        /* if unknown, a bad disk shows in failing writes */
        char headline[100], t[TEXT_SHORT];
        SCOPED(buf_free) struct buf todo = {0};
        /* There must be room for one more dump, whatever the limit says. */
        const struct manifest *newest = dumps_newest();
        uint64_t need = w->cfg->disk_low;
        if (newest && need < newest->file_size)
            need = newest->file_size;
        /* Hysteresis: a dump that is being written must not toggle the condition. */
        bool low = d->free_bytes < (w->conditions[CONDITION_DISK_LOW].on ? need + need / 5 : need);
        disk.free_bytes = d->free_bytes;
        disk.free_known = true;
        buf_adds(&todo, "make room on the file system of the dumps; ");
        steps_df(&todo, w->cfg->dump_dir);
        line_set(headline, sizeof headline, "disk nearly full, %s left for dumps",
                 text_size(d->free_bytes, t));
        if (low)
            notify_open_as(w, CONDITION_DISK_LOW, NULL, headline,
                           "dumps continue as long as they fit; a dump that [retention] keeps is "
                           "never deleted to make room",
                           todo.p, "the disk of the dumps is nearly full: less than %s left",
                           text_size(need, t));
        else
            notify_over(w, CONDITION_DISK_LOW, "the disk of the dumps has room again: %s free",
                        text_size(d->free_bytes, t));
    }
}

/* Handles an answer of the disk writer. Any answer proves that the disk is alive; only polls have a
 * timeout. */
bool disk_message(struct world *w, enum file_dir_place *place)
{
    struct packet m;
    bool closed;
    if (!worker_receive_packet(w->disk_writer.fd, &m, &closed)) {
        if (!closed)
            return false;
        worker_end(&w->disk_writer); /* disk_timers() starts the next one */
        writer_gone();
        if (!w->stopping)
            supervisor_disk_away(
                w, "died", "their process died",
                "nothing, unless it happens again; the kernel's log may say what killed it");
        return false;
    }
    disk.polled = (mono_t){0};
    w->disk_writer.heard = clock_mono();
    if (m.type == DISK_FAILED && packet_struct(&m, sizeof(struct disk_failure))) {
        struct disk_failure f;
        memcpy(&f, m.data, sizeof f);
        disk_failed(w, &f);
    } else if (m.type == DISK_POLLED && m.len >= sizeof(struct disk_state)) {
        struct disk_state d;
        json_auto_t *list = packet_json(&m, sizeof d);
        memcpy(&d, m.data, sizeof d);
        disk_polled(w, &d, list);
        *place = d.place;
        return true;
    } else if (m.type == DISK_RECORDED) {
        disk.logged[DISK_HISTORY].on = false;
        recorder_stored(w);
    } else {
        if (m.type == DISK_STORED)
            disk.logged[DISK_ALERT].on = false;
        if (m.type == DISK_LOADED)
            disk.logged[DISK_LOAD].on = false;
        notify_disk_answer(w, &m);
    }
    return false;
}

static json_t *disk_status_json(const struct world *w)
{
    (void)w;
    const struct manifest *newest = dumps_newest();
    return json_pack("{s:o, s:o}", "free_bytes",
                     js_known(disk.free_known, (int64_t)disk.free_bytes), "needed_bytes",
                     js_known(newest, newest ? (int64_t)newest->file_size : 0));
}

const struct part disk_part = {.timers = disk_timers,
                               .restart = disk_restart,
                               .opens_dirs = true,
                               .status = "disk",
                               .status_json = disk_status_json};
