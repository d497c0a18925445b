/* What the supervisor tells: status files, alerts and their delivery, the heartbeat. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/file.h"
#include "core/js.h"
#include "core/log.h"
#include "db/sql.h"
#include "report/notify.h"
#include "typed.h"
#include "world_int.h"

#define PUBLISH_EVERY_MS 5000
#define VALID_FOR_MS 15000
#define LOOK_EVERY_MS 10000
#define HEARTBEAT_EVERY_MS 60000
/* A delivery's own time-outs end it before; this is for one that hangs all the same. */
#define DELIVERY_EXTRA_MS 10000

void tell_init(struct world *w)
{
    mono_t now = clock_mono();
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++) {
        worker_init(&w->channels[ch].worker, alert_channel_name(ch));
        alert_pace_init(&w->channels[ch].pace, now);
    }
    worker_init(&w->heartbeat.worker, "heartbeat");
    w->unsent = json_array();
    w->given = json_array();
    w->next_look = now;
    w->next_heartbeat = mono_add(now, HEARTBEAT_EVERY_MS);
}

/* ---- status ---- */

static json_t *time_json(int64_t wall_ms)
{
    char t[TEXT_SHORT];
    return wall_ms ? json_string(text_utc((wall_t){wall_ms}, t)) : json_null();
}

static json_t *dump_json(const struct world *w)
{
    if (!w->have_dump)
        return json_null();
    json_t *o = manifest_summary(&w->last);
    js_set_int(o, "age_seconds", (clock_wall().ms - w->last.at.ms) / 1000);
    json_object_del(o, "tables");
    json_object_del(o, "world");
    return o;
}

static json_t *running_json(const struct world *w)
{
    char t[TEXT_SHORT];
    if (!w->job.request.action)
        return json_null();
    json_t *o = w->job.progress ? json_copy(w->job.progress) : json_object();
    json_object_set_new(o, "job", json_string(w->job.request.action));
    json_object_set_new(o, "since", json_string(text_utc(w->job.since, t)));
    return o;
}

static json_t *next_dump_json(const struct world *w, mono_t now, int64_t wall)
{
    if (w->guard.state != GUARD_UP)
        return json_null();
    int64_t in = mono_since(w->next_dump, now);
    if (in < 0)
        in = 0;
    return json_pack("{s:o, s:I}", "at", time_json(wall + in), "in_seconds",
                     (json_int_t)(in / 1000));
}

static json_t *alerts_json(const struct world *w)
{
    json_t *channels = json_object();
    int64_t waiting = 0;
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++) {
        const struct delivery *d = &w->channels[ch];
        if (!alert_channel_on(w->cfg, ch))
            continue;
        int64_t here = (int64_t)d->waiting + (int64_t)json_array_size(d->past);
        waiting = here > waiting ? here : waiting;
        json_object_set_new(channels, alert_channel_name(ch),
                            json_pack("{s:I, s:o}", "waiting", (json_int_t)here, "last_error",
                                      js_clean(d->last_error)));
    }
    return json_pack("{s:I, s:o}", "waiting",
                     (json_int_t)waiting + (json_int_t)json_array_size(w->unsent), "channels",
                     channels);
}

static json_t *probe_status_json(const struct world *w)
{
    const struct probe_state *p = &w->probed;
    return json_pack("{s:s, s:o, s:o, s:I, s:s}", "verdict", verdict_name(w->guard.verdict), "text",
                     js_clean(p->text), "at", time_json(p->at.ms), "latency_ms",
                     (json_int_t)p->last.latency_ms, "history", p->history);
}

/* What the config lets cross a network unprotected, so that it is not forgotten. */
static json_t *insecure_json(const struct config *c)
{
    json_t *list = json_array();
    const char *text;
    for (unsigned i = 0; (text = config_exposed(c, i)); i++)
        json_array_append_new(list, json_string(text));
    return list;
}

/* What ails besides the world's own state, in the words of the log and the alerts. */
static json_t *troubles_json(const struct world *w)
{
    const struct trouble *const all[] = {&w->discarded,      &w->stale,        &w->disk_low,
                                         &w->publish,        &w->state_failed, &w->scribe_away,
                                         &w->dir_moved,      &w->refused,      &w->journal.gap,
                                         &w->journal.failed, &w->journal.lag,  NULL};
    json_t *list = json_array();
    for (size_t i = 0; all[i]; i++)
        if (all[i]->on)
            json_array_append_new(list, json_pack("{s:o, s:o}", "what", js_clean(all[i]->text),
                                                  "since", time_json(all[i]->since.ms)));
    return list;
}

json_t *tell_status_json(struct world *w)
{
    mono_t now = clock_mono();
    int64_t wall = clock_wall().ms;
    char flag[128];
    guard_flag(&w->guard, &w->guard_cfg, now, flag);
    bool ended = w->guard.state == GUARD_STOPPED;
    json_t *o = json_pack("{s:i, s:s, s:o, s:i, s:s, s:s, s:o, s:o, s:s, s:s, s:b, s:b}", "format",
                          1, "world", w->cfg->name, "host", js_clean(w->host), "pid", (int)getpid(),
                          "version", WK_VERSION, "state", guard_state_name(w->guard.state), "since",
                          time_json(wall - mono_since(now, w->guard.since)), "reason",
                          js_clean(w->guard.reason), "flag", flag, "wanted",
                          w->guard.state == GUARD_PAUSED ? "paused" : "up", "ready",
                          w->guard.state == GUARD_UP, "stale", w->stale.on);
    json_object_set_new(o, "updated", time_json(wall));
    json_object_set_new(o, "valid_until", time_json(ended ? wall : wall + VALID_FOR_MS));
    js_set_int(o, "valid_until_unix", (ended ? wall : wall + VALID_FOR_MS) / 1000);
    js_set_int(o, "generation", (int64_t)w->a->state.generation);
    json_object_set_new(o, "probe", probe_status_json(w));
    json_object_set_new(o, "last_dump", dump_json(w));
    json_object_set_new(o, "running", running_json(w));
    json_object_set_new(o, "next_dump", next_dump_json(w, now, wall));
    json_object_set_new(o, "journal", journal_status_json(w));
    json_object_set_new(o, "last_restore", js_or_null(w->last_restore));
    json_object_set_new(o, "disk",
                        json_pack("{s:I, s:I}", "free_bytes", (json_int_t)w->disk_free,
                                  "needed_bytes", (json_int_t)w->last.file_size));
    json_object_set_new(o, "alerts", alerts_json(w));
    json_object_set_new(o, "troubles", troubles_json(w));
    json_object_set_new(o, "insecure", insecure_json(w->cfg));
    json_object_set_new(o, "loop",
                        json_pack("{s:I, s:I}", "late_ms", (json_int_t)w->late_ms, "late_ms_max",
                                  (json_int_t)w->late_ms_max));
    return o;
}

static void metric(struct buf *b, const char *name, const char *help, const char *world,
                   double value)
{
    buf_printf(b,
               "# HELP worldkeeper_%s %s\n# TYPE worldkeeper_%s "
               "gauge\nworldkeeper_%s{world=\"%s\"} %.3f\n",
               name, help, name, name, world, value);
}

/* The text format of Prometheus, for the textfile collector of its node exporter. */
static void metrics(struct world *w, struct buf *b)
{
    const char *n = w->cfg->name;
    unsigned waiting = 0;
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++)
        waiting = w->channels[ch].waiting > waiting ? w->channels[ch].waiting : waiting;
    metric(b, "up", "1 while the world is up", n, w->guard.state == GUARD_UP);
    metric(b, "paused", "1 while paused on request", n, w->guard.state == GUARD_PAUSED);
    metric(b, "generation", "raised by each restore", n, (double)w->a->state.generation);
    metric(b, "last_dump_time_seconds", "when the newest dump was taken (unix time)", n,
           (double)w->last.at.ms / 1000);
    metric(b, "last_dump_rows", "rows in it", n, (double)w->last.rows);
    metric(b, "last_dump_bytes", "its size on disk", n, (double)w->last.file_size);
    metric(b, "last_dump_seconds", "how long it took", n, (double)w->last.took_ms / 1000);
    metric(b, "disk_free_bytes", "room in the dump directory", n, (double)w->disk_free);
    metric(b, "alerts_waiting", "alerts not yet delivered", n, (double)waiting);
    metric(b, "journal_behind_seconds",
           "how old a change may be that is not proven to be in the journal; -1: nobody follows", n,
           journal_behind_seconds(w));
    metric(b, "loop_late_ms_max", "greatest lateness of the loop", n, (double)w->late_ms_max);
    metric(b, "valid_until_seconds", "the supervisor is dead when this is past (unix time)", n,
           (double)(clock_wall().ms + VALID_FOR_MS) / 1000);
}

static void add_file(json_t *list, const char *name, const char *data)
{
    json_array_append_new(list, json_pack("{s:s, s:s}", "name", name, "data", data));
}

static void tell_systemd(struct world *w)
{
    struct buf b = {0}, line = {0};
    text_clean(&line, w->guard.reason, 400);
    buf_printf(&b, "STATUS=%s: %s", guard_state_name(w->guard.state), line.p);
    if (strncmp(b.p, w->told_status, sizeof w->told_status) != 0)
        notify_send(b.p);
    snprintf(w->told_status, sizeof w->told_status, "%s", b.p);
    buf_free(&b);
    buf_free(&line);
}

void tell_publish(struct world *w)
{
    w->next_publish = mono_add(clock_mono(), PUBLISH_EVERY_MS);
    w->status_dirty = false;
    tell_systemd(w);
    if (!w->cfg->status_dir)
        return;
    char flag[130];
    json_t *status = tell_status_json(w), *files = json_array();
    char *s = json_dumps(status, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    guard_flag(&w->guard, &w->guard_cfg, clock_mono(), flag);
    size_t end = strlen(flag);
    snprintf(flag + end, sizeof flag - end, "\n");
    if (w->cfg->flag_file)
        add_file(files, w->cfg->flag_file, flag);
    if (w->cfg->json_file && s)
        add_file(files, w->cfg->json_file, s);
    if (w->cfg->metrics_file) {
        struct buf b = {0};
        metrics(w, &b);
        add_file(files, w->cfg->metrics_file, b.p);
        buf_free(&b);
    }
    free(s);
    json_decref(status);
    if (world_scribe(w, json_pack("{s:o}", "publish", files)) < 0)
        w->next_publish = mono_add(clock_mono(), 1000); /* a newer one will do */
    else
        w->late_ms = 0;
}

/* ---- alerts ---- */

/* While nothing can be written they go out from memory. */
static void flush_unsent(struct world *w)
{
    while (json_array_size(w->unsent)) {
        json_t *alert = json_array_get(w->unsent, 0);
        if (w->scribe_away.on)
            tell_past_queue(w, alert);
        else if (world_scribe(w, json_pack("{s:O}", "alert", alert)) < 0)
            return;
        else
            json_array_append(w->given, alert);
        json_array_remove(w->unsent, 0);
    }
}

void tell_taken(struct world *w)
{
    json_array_remove(w->given, 0);
}

void tell_drained(struct world *w)
{
    json_array_clear(w->given);
}

/* One that was being written may go out twice, under the same number. */
void tell_given_back(struct world *w)
{
    json_array_extend(w->given, w->unsent);
    json_array_clear(w->unsent);
    json_t *all = w->given;
    w->given = w->unsent;
    w->unsent = all;
}

void tell_past_queue(struct world *w, json_t *alert)
{
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++) {
        struct delivery *d = &w->channels[ch];
        if (!alert_channel_on(w->cfg, ch))
            continue;
        if (!d->past)
            d->past = json_array();
        if (json_array_size(d->past) >= (size_t)WORLD_UNSENT + d->sending)
            json_array_remove(d->past, d->sending); /* the oldest that is not under way */
        json_array_append(d->past, alert);
    }
}

void tell_alert(struct world *w, unsigned event, const char *kind, const char *what,
                const char *doing, const char *todo, json_t *facts)
{
    struct buf whole = {0};
    typed_hint(w->cfg, todo, &whole);
    struct alert al = {event, kind, what, doing, whole.p, facts};
    if (alert_wanted(w->cfg, event) &&
        (alert_channel_on(w->cfg, ALERT_SMTP) || alert_channel_on(w->cfg, ALERT_WEBHOOK))) {
        if (json_array_size(w->unsent) >= WORLD_UNSENT)
            json_array_remove(w->unsent, 0);
        json_array_append_new(w->unsent, alert_compose(w->cfg, &al, clock_wall()));
        flush_unsent(w);
    }
    buf_free(&whole);
    json_decref(facts);
}

void tell_err(struct world *w, enum log_level level, const char *what, const struct err *e)
{
    struct err whole = *e;
    typed_err(w->cfg, &whole);
    log_err(level, what, &whole);
}

void tell_trouble(struct world *w, struct trouble *t, unsigned event, bool on, const char *key,
                  const char *what, const char *doing, const char *todo)
{
    mono_t now = clock_mono();
    bool same = on == t->on && (!on || strcmp(t->key, key ? key : "") == 0);
    bool remind =
        on && same && w->cfg->alert_repeat > 0 && mono_since(now, t->told) >= w->cfg->alert_repeat;
    if (same && !remind)
        return;
    if (!remind)
        t->since = clock_wall();
    t->on = on;
    t->told = now;
    snprintf(t->key, sizeof t->key, "%s", key ? key : "");
    snprintf(t->text, sizeof t->text, "%s", what);
    w->status_dirty = true;
    if (remind) {
        tell_alert(w, event, "reminder", what, doing, todo, NULL);
        return;
    }
    if (event != EVENT_DISCARDED)
        log_line(on ? LOG_WARN_ : LOG_NOTE_, "%s", what);
    tell_alert(w, event, on ? "new" : "recovered", what, doing, todo, NULL);
}

struct words {
    const char *doing, *todo;
};

/* A row that outlasts a restart tells neither of a world that is there nor of a loss. */
static struct words durable_words(const struct world *w)
{
    static char todo[512];
    struct buf name = {0};
    sql_ident2(&name, w->cfg->schema, w->cfg->sentinel);
    snprintf(todo, sizeof todo,
             "where the world is still there: ALTER TABLE %.140s ENGINE=MEMORY; where it was lost: "
             "TRUNCATE TABLE %.140s, and it is restored",
             name.p, name.p);
    buf_free(&name);
    return (struct words){"probing on; no dump and no restore while nothing proves which it is",
                          todo};
}

static struct words words_for(const struct world *w)
{
    const struct guard *g = &w->guard;
    if (g->verdict == VERDICT_FOREIGN && w->probed.last.engine[0])
        return durable_words(w);
    switch (g->verdict) {
    case VERDICT_UNREACHABLE:
        return (struct words){
            "probing until the server answers; the world is restored by itself when it comes "
            "back empty",
            "see why the database server is down, and start it"};
    case VERDICT_STALLED:
        return (struct words){
            "probing on; nothing is restored while the server may still hold the world",
            "see what holds the server or the sentinel table: SHOW PROCESSLIST"};
    case VERDICT_DENIED:
        return (struct words){"probing on; nothing is restored on a refusal",
                              "worldkeeper --check names the right or limit that is missing; where "
                              "it finds none, the password was changed: SIGHUP (systemctl reload) "
                              "makes this supervisor read it again"};
    case VERDICT_FOREIGN:
        return (struct words){
            "nothing: no dump and no restore until the sentinel is ours again",
            "find out who changed the sentinel table; worldkeeper --init --force adopts what is "
            "there"};
    case VERDICT_MISSING:
        return (struct words){
            "nothing is restored by itself",
            "for a world that is new, or still there: worldkeeper --init; for one that was lost: "
            "worldkeeper --restore"};
    case VERDICT_EMPTY:
        return (struct words){"see the reason",
                              "if the world is still there, worldkeeper --init puts the row back; "
                              "if it is lost, worldkeeper --restore"};
    case VERDICT_NONE:
    case VERDICT_ALIVE:
        break;
    }
    return (struct words){"probing on", "worldkeeper --status and the log say more"};
}

static json_t *restore_facts(const struct world *w)
{
    return w->last_restore ? json_copy(w->last_restore) : NULL;
}

static void restored_words(const struct world *w, char *out, size_t size)
{
    const char *warning = js_text(w->last_restore, "warning");
    const json_t *lost = json_object_get(w->last_restore, "lost_seconds");
    char t[TEXT_SHORT];
    size_t n = (size_t)snprintf(out, size, "%.400s", w->guard.reason);
    if (json_is_integer(lost) && json_integer_value(lost) == 0 &&
        js_flag(json_object_get(w->last_restore, "journal"), "whole"))
        n += (size_t)snprintf(out + n, size - n, "; nothing that was acknowledged is lost");
    else if (json_is_integer(lost) && n < size)
        n += (size_t)snprintf(out + n, size - n, "; play of the last %s before the loss is gone",
                              text_duration(json_integer_value(lost) * 1000, t));
    if (warning[0] && n < size)
        snprintf(out + n, size - n, "; but: %s", warning);
}

void tell_guard(struct world *w, const struct guard_answer *a)
{
    static const char *const kinds[] = {"", "new", "reminder", "recovered"};
    char what[700];
    if (a->alert == GUARD_ALERT_NONE)
        return;
    struct words words = words_for(w);
    json_t *facts = NULL;
    snprintf(what, sizeof what, "%.690s", w->guard.reason);
    if (a->alert_event == EVENT_RESTORING) {
        snprintf(what, sizeof what, "restoring the world: %.600s",
                 w->lost_reason[0] ? w->lost_reason : w->guard.reason);
        words = (struct words){w->guard.by_hand
                                   ? "what was asked for is being restored; players wait"
                                   : "the newest intact dump is being restored; players wait",
                               "nothing"};
    } else if (a->alert_event == EVENT_RESTORED) {
        restored_words(w, what, sizeof what);
        words = (struct words){"probing and dumping on", "nothing"};
        facts = restore_facts(w);
    } else if (a->alert == GUARD_ALERT_RECOVERED) {
        snprintf(what, sizeof what, "the world is up again: %.600s", w->guard.reason);
        words = (struct words){"probing and dumping on", "nothing"};
    } else if (a->alert_event == EVENT_WAITING) {
        words.doing = w->guard_cfg.restore_auto ? "waiting, and trying again with growing pauses"
                                                : "waiting: [restore] auto = no";
        words.todo = "worldkeeper --list and worldkeeper --verify show what can be restored; "
                     "worldkeeper --restore=DUMP takes a certain one";
    }
    if (a->alert == GUARD_ALERT_NEW && strcmp(words.todo, "nothing") != 0) {
        struct buf todo = {0};
        typed_hint(w->cfg, words.todo, &todo);
        log_line(LOG_NOTE_, "HINT: %s", todo.p);
        buf_free(&todo);
    }
    tell_alert(w, a->alert_event, kinds[a->alert], what, words.doing, words.todo, facts);
}

/* ---- delivery ---- */

struct delivery_args {
    const struct config *cfg;
    int dump_dirfd;
    enum alert_channel channel; /* ALERT_CHANNELS: the heartbeat */
    const json_t *past;         /* to be sent instead of the queue, when there are any */
    uint64_t upto;
};

static int delivery_child(int fd, void *arg)
{
    const struct delivery_args *d = arg;
    struct err e = {0};
    struct alert_result r = {.upto = d->upto};
    int rc;
    if (d->channel == ALERT_CHANNELS) {
        rc = alert_heartbeat(d->cfg, &e);
    } else if (json_array_size(d->past)) {
        rc = alert_send(d->cfg, d->channel, d->past, &r, &e);
    } else {
        int dir = file_subdir(d->dump_dirfd, "alerts", &e);
        rc = dir < 0 ? -1 : alert_deliver(d->cfg, dir, d->channel, &r, &e);
    }
    json_t *o = json_pack("{s:b, s:i, s:I, s:I, s:o}", "ok", rc == 0, "sent", (int)r.sent,
                          "retry_after", (json_int_t)r.retry_after, "upto", (json_int_t)r.upto,
                          "error", worker_err_json(&e));
    worker_send(fd, o);
    json_decref(o);
    alert_result_free(&r);
    return 0;
}

/* Told by its kind: the words may hold how long it took, or the number of a mail that was refused.
 */
static void delivery_failed(struct world *w, struct delivery *d, int64_t retry_after,
                            const struct err *e)
{
    char key[sizeof d->failed];
    snprintf(key, sizeof key, "%s %d", err_class_name(e->cls), e->num);
    if (strcmp(d->failed, key) != 0)
        log_line(LOG_WARN_, "%s not delivered: %s", d->worker.name, e->text);
    snprintf(d->failed, sizeof d->failed, "%s", key);
    snprintf(d->last_error, sizeof d->last_error, "%s", e->text);
    alert_pace_failed(&d->pace, retry_after, clock_mono());
    w->status_dirty = true;
}

static void start_delivery(struct world *w, struct delivery *d, enum alert_channel ch)
{
    static struct delivery_args args;
    struct err e;
    args = (struct delivery_args){w->cfg, w->a->job.dirfd, ch, d->past, d->upto};
    d->sending = (unsigned)json_array_size(d->past);
    if (worker_start(&d->worker, delivery_child, &args, false, &e) == 0)
        return;
    d->sending = 0;
    delivery_failed(w, d, 0, &e);
}

static void drop_sent(struct delivery *d)
{
    for (; d->sending; d->sending--)
        json_array_remove(d->past, 0);
}

void tell_delivery_message(struct world *w, struct delivery *d, enum alert_channel ch)
{
    bool closed;
    json_t *o = worker_receive(d->worker.fd, &closed);
    if (closed) {
        worker_forget_fd(d->worker.fd);
        close(d->worker.fd);
        d->worker.fd = -1;
        return;
    }
    if (!o)
        return;
    struct err e;
    unsigned sent = (unsigned)js_number(o, "sent", 0);
    worker_err_from(json_object_get(o, "error"), &e);
    d->worker.told_to_stop = true; /* it said its word; its death is no failure */
    d->upto = (uint64_t)js_number(o, "upto", 0);
    if (js_flag(o, "ok") || sent) {
        if (ch < ALERT_CHANNELS && sent)
            alert_pace_sent(&d->pace, clock_mono());
        if (d->sending)
            drop_sent(d);
        else
            d->waiting = d->waiting > sent ? d->waiting - sent : 0;
        if (!js_flag(o, "ok"))
            tell_err(w, LOG_WARN_, d->worker.name, &e);
        else if (d->last_error[0])
            log_line(LOG_NOTE_, "%s is delivered again", d->worker.name);
        snprintf(d->last_error, sizeof d->last_error, "%s", js_flag(o, "ok") ? "" : e.text);
        d->failed[0] = '\0';
        w->status_dirty = true;
        w->next_look = clock_mono();
    } else {
        d->sending = 0;
        delivery_failed(w, d, js_number(o, "retry_after", 0), &e);
    }
    json_decref(o);
}

void tell_delivery_ended(struct world *w, struct delivery *d, int wait_status)
{
    if (!d->worker.told_to_stop && d->worker.fd >= 0)
        tell_delivery_message(w, d, d == &w->heartbeat ? ALERT_CHANNELS : ALERT_SMTP);
    if (!d->worker.told_to_stop) {
        struct err e;
        err_set(&e, ERR_ABORTED, 0,
                WIFSIGNALED(wait_status) ? "its worker was killed" : "its worker died");
        delivery_failed(w, d, 0, &e);
    }
    worker_end(&d->worker);
}

/* Who works by hand, and the next supervisor, use the one that the config names. */
static void tell_moved(struct world *w, bool moved)
{
    char what[640];
    snprintf(what, sizeof what,
             moved ? "%.500s is not the directory any more that dumps go into: it was moved or "
                     "removed"
                   : "%.500s is the directory of the dumps again",
             w->cfg->dump_dir);
    tell_trouble(w, &w->dir_moved, EVENT_DISK, moved, NULL, what,
                 moved ? "dumping on into the old one; what is done by hand knows nothing of it"
                       : "",
                 moved ? "put it back in its place; where it is to stay where it is, stop the "
                         "supervisor, name it in [dump] dir and start the supervisor again"
                       : "nothing");
}

void tell_look(struct world *w, const json_t *o)
{
    const json_t *waiting = json_object_get(o, "waiting");
    if (json_object_get(o, "queued")) {
        tell_taken(w);
        w->next_look = clock_mono();
        return;
    }
    tell_trouble(w, &w->scribe_away, EVENT_DISK, false, NULL,
                 "status, state and alerts are written again", "", "nothing");
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++) {
        unsigned n = (unsigned)json_integer_value(json_array_get(waiting, ch));
        if (n != w->channels[ch].waiting)
            w->status_dirty = true;
        w->channels[ch].waiting = n;
    }
    w->disk_free = (uint64_t)js_number(o, "disk_free", (int64_t)w->disk_free);
    if (js_flag(o, "status_ok"))
        tell_trouble(w, &w->publish, EVENT_DISK, false, NULL, "the status is written again", "",
                     "nothing");
    if (js_flag(o, "state_ok"))
        tell_trouble(w, &w->state_failed, EVENT_DISK, false, NULL, "the state is written again", "",
                     "nothing");
    tell_moved(w, js_flag(o, "moved"));
    if (!json_object_get(o,
                         "disk_free")) /* a disk that does not say is told of by what fails on it */
        return;
    char what[200], a[TEXT_SHORT], b[TEXT_SHORT];
    uint64_t need = w->cfg->disk_low > w->last.file_size ? w->cfg->disk_low : w->last.file_size;
    /* A dump being written must not toggle it. */
    bool low = w->disk_free < (w->disk_low.on ? need + need / 5 : need);
    if (low)
        snprintf(what, sizeof what, "the disk of the dumps is nearly full: less than %s left",
                 text_size(need, b));
    else
        snprintf(what, sizeof what, "the disk of the dumps has room again: %s free",
                 text_size(w->disk_free, a));
    tell_trouble(w, &w->disk_low, EVENT_DISK, low, NULL, what,
                 "dumps go on while they fit; old ones are never "
                 "deleted beyond [retention] to make room",
                 low ? "make room on that file system" : "nothing");
}

static void check_stale(struct world *w, mono_t now)
{
    char what[300], t[TEXT_SHORT];
    if (w->guard.state == GUARD_PAUSED || w->cfg->max_dump_age == 0)
        return;
    if (w->last_dump_mono.ms == 0)
        w->last_dump_mono = now; /* never one: counted from our start */
    bool old = mono_since(now, w->last_dump_mono) > w->cfg->max_dump_age;
    if (!old && !w->stale.on)
        return;
    if (old)
        snprintf(what, sizeof what, "no good dump for more than %s",
                 text_duration(w->cfg->max_dump_age, t));
    else
        snprintf(what, sizeof what, "there is a good dump again");
    tell_trouble(w, &w->stale, EVENT_STALE, old, NULL, what, "trying on",
                 old ? "see why dumps fail: the log, worldkeeper --check" : "nothing");
}

static void deliver(struct world *w, mono_t now)
{
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++) {
        struct delivery *d = &w->channels[ch];
        int64_t limit =
            (ch == ALERT_SMTP ? w->cfg->smtp.timeout : w->cfg->webhook.timeout) + DELIVERY_EXTRA_MS;
        if (d->worker.pid && mono_since(now, d->worker.started) > limit)
            kill(d->worker.pid, SIGKILL);
        else if (!d->worker.pid && !w->stopping && alert_pace_may(&d->pace, now) &&
                 ((d->waiting && !w->scribe_away.on) || json_array_size(d->past)))
            start_delivery(w, d, ch);
    }
    struct delivery *h = &w->heartbeat;
    bool wanted = w->cfg->heartbeat_url || w->cfg->heartbeat_url_file;
    if (h->worker.pid &&
        mono_since(now, h->worker.started) > w->cfg->heartbeat_timeout + DELIVERY_EXTRA_MS)
        kill(h->worker.pid, SIGKILL);
    else if (!h->worker.pid && wanted && w->guard.state == GUARD_UP &&
             mono_reached(now, w->next_heartbeat)) {
        w->next_heartbeat = mono_add(now, HEARTBEAT_EVERY_MS);
        start_delivery(w, h, ALERT_CHANNELS);
    }
}

void tell_timers(struct world *w, mono_t now)
{
    flush_unsent(w);
    check_stale(w, now);
    if (mono_reached(now, w->next_look) && !w->stopping) {
        w->next_look = mono_add(now, LOOK_EVERY_MS);
        if (world_scribe(w, json_pack("{s:i}", "look", 1)) == 0 && !w->looked.ms)
            w->looked = now;
    }
    deliver(w, now);
    if (w->status_dirty || mono_reached(now, w->next_publish))
        tell_publish(w);
}
