/* What the supervisor publishes: flag, status.json, metrics, and the status line for systemctl. */
#include "supervisor/publisher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "actions/hint_command.h"
#include "base/fault.h"
#include "base/js.h"
#include "base/line.h"
#include "base/systemd.h"
#include "page/site.h"
#include "supervisor/condition_words.h"
#include "supervisor/disk.h"
#include "supervisor/disk_writer.h"
#include "supervisor/drills.h"
#include "supervisor/dumps.h"
#include "supervisor/lease.h"
#include "supervisor/metrics.h"
#include "supervisor/notifier.h"
#include "supervisor/prober.h"
#include "supervisor/published.h"
#include "supervisor/recorder.h"
#include "supervisor/status_files.h"
#include "supervisor/world.h"

/* status.json is built from the parts' own JSON. Metrics and page are made from it, so that they
 * cannot contradict it. Files that are published together go to the disk writer in one packet. */

/* The status is published three times while it is valid (STATUS_VALID_MS), changed or not: a single
 * status that is late, or that the disk did not take, does not yet mean that the supervisor is
 * dead. */
#define PUBLISH_EVERY_MS fault_wait(5000)
/* Below this difference, two readings of the clocks differ because they are not read at the same
 * moment. Above it, the wall clock was set. */
#define CLOCKS_APART_MS 1000

/* How late the loop was, in ms: each iteration oversleeps, and takes time itself. The bounds are
 * those of the histogram in the metrics, from unnoticeable to what the guard calls doubt. */
static const int64_t late_bounds[] = {5, 10, 25, 50, 100, 250, 500, 1000, 5000};
#define LATE_BUCKETS (sizeof late_bounds / sizeof *late_bounds)
struct lateness {
    int64_t now, max, sum;             /* the maximum since the last status, and since the start */
    uint64_t counts[LATE_BUCKETS + 1]; /* iterations up to each bound and above the previous one */
};

static struct publisher {
    mono_t next;
    char systemd_status[700]; /* the last text sent */
    mono_t since;             /* monotonic time of the last state change, as published */
    wall_t since_wall;        /* the same as wall-clock time */
    struct lateness late;
    bool too_long; /* the last status did not fit a packet */
} publisher;

void publish_late(int64_t ms)
{
    struct lateness *l = &publisher.late;
    size_t bucket = 0;
    while (bucket < LATE_BUCKETS && ms > late_bounds[bucket])
        bucket++;
    l->counts[bucket]++;
    l->sum += ms;
    l->now = ms > l->now ? ms : l->now;
    l->max = ms > l->max ? ms : l->max;
}

/* Describes the newest dump with its current age, without the names that the status already has. */
static json_t *dump_json(const struct world *w)
{
    const struct manifest *m = dumps_newest();
    if (!m)
        return json_null();
    json_t *o = manifest_summary(m, w->cfg->sentinel);
    js_set_int(o, "age_seconds", dumps_age(clock_mono()) / 1000);
    json_object_del(o, "tables");
    json_object_del(o, "world");
    return o;
}

/* Rounds a future time to a whole second. The two clocks are not read at the same moment, so the
 * time would otherwise differ by a millisecond in each status. */
static wall_t whole_second(int64_t wall, int64_t in)
{
    return (wall_t){(wall + in + 500) / 1000 * 1000};
}

static json_t *next_dump_json(const struct world *w, mono_t now, int64_t wall)
{
    if (w->guard.state != GUARD_UP)
        return json_null();
    int64_t in = mono_since(dumps_next(), now);
    if (in < 0)
        in = 0;
    return json_pack("{s:o, s:I}", "at", js_time(whole_second(wall, in)), "in_seconds",
                     (json_int_t)(in / 1000));
}

/* The insecure settings of the config, shown in the status so that they are not forgotten. */
static json_t *insecure_json(const struct config *c)
{
    json_t *list = json_array();
    char *text;
    for (unsigned i = 0; (text = config_exposed(c, i)); i++) {
        json_array_append_new(list, json_string(text));
        free(text);
    }
    return list;
}

/* Returns the time of the last state change. It stays the same until the state or the clock
 * changes; otherwise each file that contains it would be written again. */
static json_t *since_json(const struct world *w, mono_t now, int64_t wall)
{
    int64_t at = wall - mono_since(now, w->guard.since);
    if (publisher.since.ms != w->guard.since.ms ||
        llabs(at - publisher.since_wall.ms) > CLOCKS_APART_MS)
        publisher.since_wall.ms = at;
    publisher.since = w->guard.since;
    return js_time(publisher.since_wall);
}

/* Adds the explanation for people, and what they can do. */
static void set_explanation(const struct world *w, json_t *o)
{
    SCOPED(buf_free) struct buf todo = {0}, command = {0};
    hint_command(w->cfg, HINT_ROOT, w->why.todo, &todo);
    hint_command(w->cfg, HINT_ROOT, w->why.command, &command);
    js_set_clean(o, "cause", w->why.cause);
    js_set_clean(o, "todo", todo.p);
    js_set_clean(o, "command", command.p);
    json_object_set_new(o, "unverified", json_boolean(guard_unverified(&w->guard)));
}

json_t *publish_status_json(struct world *w)
{
    mono_t now = clock_mono();
    int64_t wall = clock_wall().ms;
    char flag[128];
    guard_flag(&w->guard, &w->guard_cfg, now, flag);
    /* A status is never valid longer than the lease: a game that reads the flag must stop when
     * another machine keeps the world. */
    /* The last status of a supervisor expires at once. */
    bool ended = w->guard.state == GUARD_STOPPED;
    int64_t left = leases_sleep(now, STATUS_VALID_MS), valid = left > 0 ? left : 0;
    json_t *o = json_pack("{s:i, s:s, s:o, s:i, s:s, s:s, s:o, s:o, s:s, s:s, s:b, s:b}", "format",
                          1, "world", w->cfg->name, "host", js_clean(w->host), "pid", (int)getpid(),
                          "version", WK_VERSION, "state", guard_state_name(w->guard.state), "since",
                          since_json(w, now, wall), "reason", js_clean(w->guard.reason), "flag",
                          flag, "wanted", guard_paused(&w->guard) ? "paused" : "up", "ready",
                          w->guard.state == GUARD_UP, "stale", w->conditions[CONDITION_STALE].on);
    set_explanation(w, o);
    bool limited = w->guard.pause_until.ms != 0;
    json_object_set_new(o, "pause_until",
                        limited ? js_time(whole_second(wall, mono_since(w->guard.pause_until, now)))
                                : json_null());
    json_object_set_new(o, "updated", js_time((wall_t){wall}));
    json_object_set_new(o, "valid_until", js_time((wall_t){ended ? wall : wall + valid}));
    js_set_int(o, "valid_until_unix", (ended ? wall : wall + valid) / 1000);
    js_set_int(o, "generation", (int64_t)w->a->state.generation);
    json_object_set_new(o, "last_dump", dump_json(w));
    json_object_set_new(o, "next_dump", next_dump_json(w, now, wall));
    for (size_t i = 0; w->parts[i]; i++)
        if (w->parts[i]->status)
            json_object_set_new(o, w->parts[i]->status, w->parts[i]->status_json(w));
    json_object_set_new(o, "last_restore", js_or_null(w->last_restore.shown));
    drills_status(w, o);
    json_object_set_new(o, "damaged_dumps", js_or_null(disk_damaged_dumps()));
    json_object_set_new(o, "troubles", notify_conditions_json(w));
    json_object_set_new(o, "insecure", insecure_json(w->cfg));
    json_object_set_new(o, "loop",
                        json_pack("{s:I, s:I}", "late_ms", (json_int_t)publisher.late.now,
                                  "late_ms_max", (json_int_t)publisher.late.max));
    return o;
}

/* Returns the histogram with cumulative counts, in seconds. */
static json_t *lateness_figures(const struct lateness *l)
{
    json_t *buckets = json_array();
    json_int_t count = 0;
    char le[TEXT_SHORT];
    for (size_t i = 0; i <= LATE_BUCKETS; i++) {
        count += (json_int_t)l->counts[i];
        if (i < LATE_BUCKETS)
            snprintf(le, sizeof le, "%g", (double)late_bounds[i] / 1000);
        json_array_append_new(
            buckets, json_pack("{s:s, s:I}", "le", i < LATE_BUCKETS ? le : "+Inf", "count", count));
    }
    return json_pack("{s:o, s:f, s:f}", "buckets", buckets, "sum", (double)l->sum / 1000, "max",
                     (double)l->max / 1000);
}

/* Returns one series for each state, so that a rule may use any of them. */
static json_t *state_figures(const struct world *w)
{
    json_t *list = json_array();
    for (enum guard_state s = 0; s <= GUARD_STOPPED; s++)
        json_array_append_new(
            list, json_pack("{s:s, s:b}", "state", guard_state_name(s), "is", w->guard.state == s));
    return list;
}

/* Returns the figures of the metrics that the status lacks, or does not have as a number. */
static json_t *publisher_figures(const struct world *w, const json_t *status)
{
    const char *central = js_text(json_object_get(status, "progress"), "central");
    json_t *o = json_object(), *damaged = disk_damaged_dumps();
    json_object_set_new(o, "runs", recorder_runs());
    json_object_set_new(o, "failures", recorder_failures());
    json_object_set_new(o, "build", json_pack("[{s:s, s:b}]", "version", WK_VERSION, "is", 1));
    json_object_set_new(o, "started", js_time(w->started));
    json_object_set_new(o, "paused", json_boolean(guard_paused(&w->guard)));
    json_object_set_new(o, "states", state_figures(w));
    json_object_set_new(o, "conditions", notify_condition_figures(w));
    json_object_set_new(o, "channels", notify_channel_figures(w));
    json_object_set_new(o, "dump_interval", json_real((double)w->cfg->dump_interval / 1000));
    if (prober_last()->failed == VERDICT_NONE && w->guard.verdict != VERDICT_NONE)
        json_object_set_new(o, "probe_seconds",
                            json_real((double)prober_last()->latency_ms / 1000));
    if (dumps_newest() && dumps_newest()->wait_known)
        json_object_set_new(o, "dump_wait_seconds",
                            json_real((double)dumps_newest()->wait_ms / 1000));
    if (damaged)
        js_set_int(o, "damaged", (int64_t)json_array_size(damaged));
    if (central[0])
        json_object_set_new(o, "central_up", json_boolean(strcmp(central, "ok") == 0));
    json_object_set_new(o, "lateness", lateness_figures(&publisher.late));
    return o;
}

/* What is published in each status file; NULL or empty if it is not published. */
struct texts {
    char flag[130];
    char *json;
    struct buf metrics;
    bool up;
};

static void texts_make(struct world *w, struct texts *t)
{
    json_auto_t *status = publish_status_json(w);
    *t = (struct texts){0};
    guard_flag(&w->guard, &w->guard_cfg, clock_mono(), t->flag);
    /* Games read the flag file: one word and a line end, and never UP once the fence is closed. */
    size_t end = strlen(t->flag);
    t->up = strcmp(t->flag, "UP") == 0;
    snprintf(t->flag + end, sizeof t->flag - end, "\n");
    if (w->cfg->json_file)
        t->json = json_dumps(status, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    if (w->cfg->metrics_file) {
        json_object_set_new(status, "figures", publisher_figures(w, status));
        metrics_text(w->cfg->name, status, &t->metrics);
    }
}

static void texts_free(struct texts *t)
{
    free(t->json);
    buf_free(&t->metrics);
}

static int send_files(const struct world *w, const struct buf *files)
{
    return disk_writer_send(&w->disk_writer, DISK_PUBLISH, files->p, files->len);
}

/* Sends the flag without the other files. Games read it, and it always fits. */
static int send_flag(const struct world *w, const struct texts *t)
{
    SCOPED(buf_free) struct buf files = {0};
    status_files_begin(&files, t->up);
    if (w->cfg->flag_file)
        status_files_add(&files, w->cfg->flag_file, t->flag);
    return send_files(w, &files);
}

static int send_status(struct world *w)
{
    const struct config *c = w->cfg;
    SCOPED(texts_free) struct texts t;
    SCOPED(buf_free) struct buf files = {0};
    texts_make(w, &t);
    status_files_begin(&files, t.up);
    if (c->flag_file)
        status_files_add(&files, c->flag_file, t.flag);
    if (t.json)
        status_files_add(&files, c->json_file, t.json);
    if (c->metrics_file)
        status_files_add(&files, c->metrics_file, t.metrics.p);
    errno = 0; /* without a disk writer it is not set */
    int rc = send_files(w, &files);
    bool too_long = rc < 0 && errno == EMSGSIZE;
    if (too_long && !publisher.too_long)
        log_line(LOG_WARN_,
                 "status files of %zu bytes are too long to be written; only the flag is current",
                 files.len);
    if (too_long || rc == 0)
        publisher.too_long = too_long;
    return too_long ? send_flag(w, &t) : rc;
}

void publish_status(struct world *w)
{
    publisher.next = mono_add(clock_mono(), PUBLISH_EVERY_MS);
    w->status_dirty = false;
    /* The STATUS= line of systemctl status, only if it changed. */
    SCOPED(buf_free) struct buf b = {0}, line = {0};
    text_clean(&line, w->guard.reason, 400);
    buf_printf(&b, "STATUS=%s: %s", guard_state_name(w->guard.state), line.p);
    if (strncmp(b.p, publisher.systemd_status, sizeof publisher.systemd_status) != 0)
        systemd_notify(b.p);
    snprintf(publisher.systemd_status, sizeof publisher.systemd_status, "%s", b.p);
    if (!w->cfg->status_dir)
        return;
    if (send_status(w) < 0)
        publisher.next = mono_add(clock_mono(), 1000); /* try again with a status of that time */
    else
        publisher.late.now = 0;
}

static bool publishes_as(const struct config *c, const char *dir, const char *name)
{
    const char *const names[] = {c->flag_file, c->json_file, c->metrics_file};
    bool as = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        as = as || (names[i] && strcmp(names[i], name) == 0);
    return as && c->status_dir && strcmp(c->status_dir, dir) == 0;
}

static void leave_file(struct buf *files, const char *name, const char *text, const char *dir,
                       const struct config *next)
{
    if (name && !publishes_as(next, dir, name))
        status_files_add(files, name, text);
}

/* Rewrites the files that the new config no longer publishes. Without this, they would show their
 * last state for ever. */
void publish_leave(struct world *w, const struct config *next)
{
    const char *dir = w->cfg->status_dir;
    struct guard watching = w->guard;
    if (!dir)
        return;
    /* The content of these files is that of a stopped supervisor; the guard's real state is put
     * back afterwards. */
    w->guard.state = GUARD_STOPPED;
    w->guard.since = clock_mono();
    if (next->status_dir)
        line_set(w->guard.reason, sizeof w->guard.reason,
                 "since a reload of the config the status is %s/%s", next->status_dir,
                 next->json_file ? next->json_file : "");
    else
        line_set(w->guard.reason, sizeof w->guard.reason,
                 "since a reload the config has no [status] dir");
    SCOPED(texts_free) struct texts t;
    SCOPED(buf_free) struct buf files = {0};
    texts_make(w, &t);
    w->guard = watching;
    status_files_begin(&files, false);
    leave_file(&files, w->cfg->flag_file, t.flag, dir, next);
    leave_file(&files, w->cfg->json_file, t.json, dir, next);
    /* A collector would read the same series twice, from the old file and the new one. */
    leave_file(&files, w->cfg->metrics_file, NULL, dir, next);
    for (size_t i = 0; w->cfg->page && site_files[i]; i++)
        if (!next->page || !next->status_dir || strcmp(next->status_dir, dir) != 0)
            status_files_add(&files, site_files[i], NULL);
    if (status_files_any(&files) && send_files(w, &files) < 0)
        log_line(LOG_WARN_, "the old status files in %s keep their last content: remove them", dir);
    w->status_dirty = true;
}

/* Publishes the status if it changed, and otherwise every few seconds. */
static void publisher_timers(struct world *w, mono_t now)
{
    if (w->status_dirty || mono_reached(now, publisher.next))
        publish_status(w);
}

const struct part publisher_part = {.timers = publisher_timers};
