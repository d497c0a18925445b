/* Decides which events become alerts, and delivers them: alerts about the world's own state and
 * about conditions, their incidents, the deliveries and the heartbeat.
 *
 * An alert stays in the outbox until every channel has it. Each delivery is a worker that inherits
 * its message with the fork. The heartbeat is delivered the same way. */
#include "supervisor/notifier.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "actions/hint_command.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/js.h"
#include "base/line.h"
#include "base/steps.h"
#include "notify/incident.h"
#include "notify/outbox.h"
#include "notify/queue.h"
#include "supervisor/condition_words.h"
#include "supervisor/disk_writer.h"
#include "supervisor/recorder.h"
#include "supervisor/words.h"
#include "supervisor/world.h"

/* Two engines decide what is reported: the guard for the world's own state (notify_guard()), and
 * condition_alert() for all conditions (set_condition()). After that, all alerts take the same
 * path: composed, queued in the outbox, copied to the disk, delivered. */

#define HEARTBEAT_EVERY_MS 60000
/* Pause after a start or failure message that was not delivered. */
#define BEAT_RETRY_MS fault_wait(30000)
/* Extra time for a request that hangs in spite of its own timeout. */
#define DELIVERY_EXTRA_MS ((int64_t)fault_limit("alert.extra", 10000))
/* A restore that ends within this time causes one message, at its end, instead of two that wake the
 * same person. A longer delay would hide that the world is down while an operator can still act. */
#define HOLD_MS fault_wait(60000)
/* The probe and the journal find a dropped database independently. The alert of the one that finds
 * it first waits this long for the other one, because both are one event. MySQL also logs a dropped
 * database table by table. */
#define TOGETHER_MS fault_wait(3000)
/* A condition that ends within this time, as its alert announced, causes no second mail. */
#define EXPECTED_MS 60000
/* Name of the incident for the world's own state. The incidents of conditions are named in
 * condition_words.c. */
#define WORLD_INCIDENT "world"

#define DELIVERIES (ALERT_HEARTBEAT + 1)

struct delivery {
    struct worker worker;
    char name[64];        /* name of its channel, which outlives the config */
    char last_error[256]; /* for the status; "": the last delivery succeeded */
    char failed[64];      /* kind of the last failure: the same kind is logged once */
    uint64_t sent_count, failed_count;
};

/* State of the alert queue that an earlier supervisor left. Alerts are delivered only after it was
 * read. */
enum queue_state { QUEUE_UNREAD, QUEUE_READING, QUEUE_READ };

static struct notifier {
    struct delivery deliveries[DELIVERIES]; /* by channel */
    mono_t next_heartbeat;                  /* when UP is sent again */
    enum alert_beat beat;                   /* the last one sent */
    /* Whether this start, and the current outage, were sent. */
    bool start_sent, failure_sent;
    mono_t beat_retry;
    struct outbox outbox; /* all alerts that have not reached every channel */
    enum queue_state queue;
    mono_t queue_retry;         /* time of the next attempt to read it; ms 0: none was made yet */
    mono_t store_retry;         /* time of the next attempt to store what could not be stored */
    struct incidents incidents; /* as alerts name them */
    bool incidents_dirty;       /* the incidents have to be saved */
    /* Alert about the start of a restore, held back to be merged with the alert about its end; or
     * NULL. */
    json_t *held;
    mono_t held_until; /* after this time it is sent on its own */
    json_t *missing;   /* alert about missing tables that waits for the journal, or NULL */
    json_t *dropped;   /* array of alerts of the journal about dropped tables, or NULL */
    bool database;     /* `dropped` is about the whole database */
    mono_t together_until;
    bool
        refused; /* the latest report about the world's state: the server refuses worldkeeper now */
} notifier;

/* Packets from a delivery worker: what the server has accepted of the message so far, then the
 * result. */
enum sent_packet {
    SENT,       /* struct sent */
    SENT_ALERT, /* unsigned: the place of an accepted alert in the message */
    SENT_LEFT,  /* JSON: the recipients who have the mail ("received"), or lack it ("left") */
};

/* What the loop needs to know of a delivery. The text of the answer stays in the child. */
struct sent {
    bool ok, accepted; /* accepted by all recipients; by any recipient */
    bool left;         /* recipients must be retried (SENT_LEFT) */
    bool unneeded;     /* no recipient lacked the message: no request was made */
    int64_t retry_after;
    struct err error;
};

/* ---- conditions and alerts, as the status shows them ---- */

/* An alert waits for each channel that lacks it, so the longest backlog is the number of waiting
 * alerts. */
static json_t *notifier_status_json(const struct world *w)
{
    json_t *channels = json_object();
    size_t most = 0;
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++) {
        size_t waiting = outbox_waiting(&notifier.outbox, ch);
        most = waiting > most ? waiting : most;
        if (alert_channel_on(w->cfg, ch))
            json_object_set_new(channels, alert_channel_name(w->cfg, ch),
                                json_pack("{s:I, s:o}", "waiting", (json_int_t)waiting,
                                          "last_error",
                                          js_clean(notifier.deliveries[ch].last_error)));
    }
    return json_pack("{s:I, s:o}", "waiting", (json_int_t)most, "channels", channels);
}

/* Adds the hint as alerts show it to root: its prose without the commands, and the commands as
 * [{"does","command"}]. */
static void set_steps(const struct world *w, json_t *o, const char *hint)
{
    SCOPED(buf_free) struct buf whole = {0};
    SCOPED(steps_free) struct steps s = {0};
    json_t *list = json_array();
    hint_command(w->cfg, HINT_ROOT, hint, &whole);
    steps_split(whole.p, &s);
    for (size_t i = 0; i < s.count; i++)
        json_array_append_new(list, json_pack("{s:o, s:o}", "does", js_clean(s.list[i].does.p),
                                              "command", js_clean(s.list[i].command.p)));
    js_set_clean(o, "prose", s.prose.p ? s.prose.p : "");
    json_object_set_new(o, "commands", list);
}

/* Uses the same texts as the log and the alerts. */
json_t *notify_conditions_json(const struct world *w)
{
    json_t *list = json_array();
    for (size_t i = 0; i < CONDITIONS; i++) {
        const struct condition *t = &w->conditions[i];
        if (!t->on || t->with_world)
            continue;
        json_t *o = json_pack("{s:o, s:o, s:o}", "what", js_clean(t->text), "hint",
                              js_clean(t->hint), "since", js_time(t->since));
        set_steps(w, o, t->hint);
        json_array_append_new(list, o);
    }
    return list;
}

json_t *notify_condition_figures(const struct world *w)
{
    json_t *list = json_array();
    for (size_t i = 0; i < CONDITIONS; i++)
        json_array_append_new(list, json_pack("{s:s, s:b}", "condition", condition_words[i].name,
                                              "is", (int)w->conditions[i].on));
    return list;
}

json_t *notify_channel_figures(const struct world *w)
{
    json_t *list = json_array();
    for (enum alert_channel ch = 0; ch < DELIVERIES; ch++) {
        const struct delivery *d = &notifier.deliveries[ch];
        if (!alert_channel_on(w->cfg, ch))
            continue;
        json_t *o = json_pack("{s:s, s:I, s:I}", "channel", alert_channel_name(w->cfg, ch), "sent",
                              (json_int_t)d->sent_count, "failed", (json_int_t)d->failed_count);
        if (d->sent_count + d->failed_count)
            json_object_set_new(o, "up", json_boolean(!d->failed[0]));
        if (ch < ALERT_CHANNELS)
            js_set_int(o, "waiting", (int64_t)outbox_waiting(&notifier.outbox, ch));
        json_array_append_new(list, o);
    }
    return list;
}

/* ---- the copy on the disk ---- */

/* Sends new data to the disk writer. Incidents are written before the alerts that open and close
 * them. */
static void give_to_disk(struct world *w)
{
    const json_t *alert;
    if (w->conditions[CONDITION_DISK_WRITER].on)
        return;
    if (notifier.queue == QUEUE_UNREAD && mono_reached(clock_mono(), notifier.queue_retry) &&
        disk_writer_send(&w->disk_writer, DISK_LOAD, "", 0) == 0)
        notifier.queue = QUEUE_READING;
    if (notifier.incidents_dirty &&
        disk_writer_send_json(&w->disk_writer, DISK_INCIDENTS,
                              incidents_json(&notifier.incidents, w->cfg->name)) == 0)
        notifier.incidents_dirty = false;
    if (mono_reached(clock_mono(), notifier.store_retry))
        outbox_store_again(&notifier.outbox);
    while ((alert = outbox_next(&notifier.outbox)) &&
           disk_writer_send_json(&w->disk_writer, DISK_ALERT,
                                 json_incref((json_t *)(uintptr_t)alert)) == 0)
        outbox_given(&notifier.outbox);
    uint64_t number;
    while ((alert = outbox_changed(&notifier.outbox, &number)) &&
           disk_writer_send_json(&w->disk_writer, DISK_REWRITE,
                                 json_pack("[I, O]", (json_int_t)number, alert)) == 0)
        outbox_rewritten(&notifier.outbox, number);
}

void notify_disk_answer(struct world *w, const struct packet *m)
{
    const void *data = m->data;
    if (m->type == DISK_STORED && packet_struct(m, sizeof(uint64_t))) {
        outbox_stored(&notifier.outbox, *(const uint64_t *)data);
        w->status_dirty = true;
    } else if (m->type == DISK_KEPT && m->len > sizeof(struct disk_kept)) {
        /* An alert from the queue on the disk, with the channels that still lack it. */
        const struct disk_kept *kept = data;
        json_t *alert = packet_json(m, sizeof(struct disk_kept));
        bool waits[ALERT_CHANNELS];
        for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++)
            waits[ch] = kept->waits[ch] && alert_channel_on(w->cfg, ch) &&
                        !(ch == ALERT_SMTP && alert_is_expected(alert));
        if (alert)
            outbox_add_stored(&notifier.outbox, alert, kept->number, waits);
    } else if (m->type == DISK_LOADED && packet_struct(m, sizeof(struct queue_kept))) {
        /* All alerts of the queue were read. */
        const struct queue_kept *kept = data;
        unsigned refused = kept->refused;
        SCOPED(xfree) char *dir = xasprintf("%s/alerts", w->cfg->dump_dir);
        SCOPED(buf_free) struct buf todo = {0};
        notifier.queue = QUEUE_READ;
        notifier.queue_retry = (mono_t){0};
        for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++) {
            notifier.outbox.channel[ch].dropped += kept->channel[ch].dropped;
            notifier.outbox.channel[ch].damaged += kept->channel[ch].damaged;
        }
        buf_adds(&todo, "find out what put them there (a copied directory, a key that was changed, "
                        "somebody else): ls -l ");
        buf_shell(&todo, dir);
        if (refused)
            notify_open(w, CONDITION_QUEUE, NULL, "alerts of this supervisor are sent", todo.p,
                        "%u file%s in the alert queue %s refused, set aside and not sent: %s",
                        refused, refused == 1 ? "" : "s", refused == 1 ? "was" : "were", kept->why);
        else
            notify_over(w, CONDITION_QUEUE, "the alert queue holds only files of our own");
    }
}

void notify_disk_failed(enum disk_request request)
{
    if (request == DISK_ALERT) {
        outbox_stored(&notifier.outbox, 0);
        notifier.store_retry = mono_add(clock_mono(), DISK_WRITER_RETRY_MS);
    } else if (request == DISK_LOAD) {
        notifier.queue = QUEUE_UNREAD;
        notifier.queue_retry = mono_add(clock_mono(), DISK_WRITER_RETRY_MS);
    }
}

/* Copies the name of the channel, because the copy outlives the config; returns it. */
static const char *name_delivery(const struct world *w, enum alert_channel ch)
{
    struct delivery *d = &notifier.deliveries[ch];
    snprintf(d->name, sizeof d->name, "%s", alert_channel_name(w->cfg, ch));
    return d->name;
}

/* If a webhook has another name, it starts from scratch; the figures and alerts of the old one do
 * not count for it. */
static void notifier_restart(struct world *w)
{
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++) {
        struct delivery *d = &notifier.deliveries[ch];
        if (strcmp(d->name, alert_channel_name(w->cfg, ch)) == 0)
            continue;
        worker_kill(&d->worker);
        d->last_error[0] = d->failed[0] = '\0';
        d->sent_count = d->failed_count = 0;
        outbox_forget(&notifier.outbox, ch);
        name_delivery(w, ch);
    }
    outbox_follow(&notifier.outbox, w->cfg);
}

void notify_disk_gone(void)
{
    outbox_not_stored(&notifier.outbox);
    notifier.incidents_dirty |= notifier.incidents.count > 0;
    if (notifier.queue == QUEUE_READING)
        notifier.queue = QUEUE_UNREAD;
}

void notify_dir_moved(void)
{
    outbox_moved(&notifier.outbox);
    notifier.queue = QUEUE_UNREAD;
}

/* ---- alerts ---- */

/* Closes the incident. The next alert with this name opens a new one, which is another thread in
 * mails and chats. */
static void close_incident(const char *name)
{
    if (!incident_find(&notifier.incidents, name))
        return;
    incident_close(&notifier.incidents, name);
    notifier.incidents_dirty = true;
}

/* Composes an alert for the open incident with this name, or for the one that it would open.
 * `exposed`: the alert says what a loss now would cost. The result is JSON, exactly as it is stored
 * and sent; nothing is looked up later. */
static json_t *notifier_compose(struct world *w, const char *name, struct alert *al, bool exposed)
{
    SCOPED(buf_free) struct buf todo = {0}, loss = {0};
    const struct incident *open = incident_find(&notifier.incidents, name);
    hint_command(w->cfg, HINT_ROOT, al->todo, &todo);
    al->todo = todo.p;
    if (exposed && w->guard.state != GUARD_STANDBY) {
        struct exposure e = w->exposure(w);
        exposure_words(&e, &loss);
        al->exposure = loss.p;
    }
    al->incident = open ? open->id : NULL;
    return alert_compose(w->cfg, al, clock_wall());
}

/* Queues an alert, which opens the incident with this name or, with `closes`, closes it. */
static void notifier_send(struct world *w, const char *name, json_t *alert /* taken */,
                          unsigned event, bool closes)
{
    if (closes) {
        close_incident(name);
    } else if (!incident_find(&notifier.incidents, name)) {
        incident_open(&notifier.incidents, name, js_text(alert, "incident"), event);
        notifier.incidents_dirty = true;
    }
    outbox_add(&notifier.outbox, w->cfg, alert);
    give_to_disk(w);
}

void world_log_err(struct world *w, enum log_level level, const char *what, const struct err *e)
{
    struct err whole = *e;
    hint_error(w->cfg, HINT_ROOT, &whole);
    log_err(level, what, &whole);
}

/* The values of an alert's "kind". */
static const char *const alert_kinds[] = {[GUARD_ALERT_NEW] = "new",
                                          [GUARD_ALERT_REMINDER] = "reminder",
                                          [GUARD_ALERT_RECOVERED] = "recovered"};

/* ---- a dropped database ---- */

/* Sends what waits separately: the other half of the event did not arrive. */
static void send_apart(struct world *w)
{
    json_t *missing = notifier.missing, *dropped = notifier.dropped, *alert;
    const char *name = condition_words[CONDITION_JOURNAL_GAP].name;
    size_t i;
    notifier.missing = notifier.dropped = NULL;
    json_array_foreach(dropped, i, alert)
    {
        if (alert_wanted(w->cfg, EVENT_JOURNAL))
            notifier_send(w, name, json_incref(alert), EVENT_JOURNAL, false);
    }
    if (missing)
        notifier_send(w, WORLD_INCIDENT, missing, EVENT_SENTINEL, false);
    json_decref(dropped);
}

/* Sends the journal's alert as the one about the world's state, because it says more than that the
 * database is missing. */
static void send_together(struct world *w)
{
    const struct incident *open = incident_find(&notifier.incidents, WORLD_INCIDENT);
    json_t *alert = json_incref(json_array_get(notifier.dropped, 0));
    if (notifier.missing) /* composed later than the other one, in the present state */
        json_object_set(alert, "exposure", json_object_get(notifier.missing, "exposure"));
    json_decref(notifier.dropped);
    json_decref(notifier.missing);
    notifier.missing = notifier.dropped = NULL;
    json_object_set_new(alert, "event", json_string(config_event_name(EVENT_SENTINEL)));
    if (open)
        json_object_set_new(alert, "incident", json_string(open->id));
    w->conditions[CONDITION_JOURNAL_GAP].with_world = true;
    notifier_send(w, WORLD_INCIDENT, alert, EVENT_SENTINEL, false);
}

/* Returns whether the guard reports, or has reported, that the world's tables are missing. */
static bool is_missing(const struct world *w)
{
    return w->guard.state == GUARD_WAITING && w->guard.cause == CAUSE_MISSING;
}

/* Takes the journal's alert about dropped tables, or with `database` about all of them. */
static void take_dropped(struct world *w, json_t *alert, bool database)
{
    if (!notifier.dropped || database) {
        json_decref(notifier.dropped);
        notifier.dropped = json_array();
    }
    json_array_append_new(notifier.dropped, alert);
    notifier.database = database;
    if (database && is_missing(w) && alert_wanted(w->cfg, EVENT_SENTINEL))
        send_together(w);
    else
        notifier.together_until = mono_add(clock_mono(), TOGETHER_MS);
}

/* Takes the guard's alert that the world's tables are missing. */
static void take_missing(struct world *w, json_t *alert)
{
    json_decref(notifier.missing);
    notifier.missing = alert;
    if (notifier.dropped && notifier.database)
        send_together(w);
    else
        notifier.together_until = mono_add(clock_mono(), TOGETHER_MS);
}

/* ---- conditions ---- */

struct condition_news {
    bool on, dropped, database; /* dropped: tables, or the database */
    const char *key, *headline, *doing, *todo, *what;
};

/* Sends the alert about a condition. */
static void alert_condition(struct world *w, enum condition_id id, const struct condition_news *n,
                            enum guard_alert_kind kind, bool expected)
{
    const char *name = condition_words[id].name;
    unsigned event = condition_words[id].event;
    /* The headline of the end repeats the short headline of the condition. */
    char over[80];
    if (condition_words[id].over)
        line_set(over, sizeof over, "%s", condition_words[id].over);
    else
        line_set(over, sizeof over, "over: %s", condition_words[id].headline);
    struct alert al = {.event = event,
                       .kind = alert_kinds[kind],
                       .headline = n->on ? n->headline : over,
                       .what = n->what,
                       .doing = n->doing,
                       .todo = n->todo,
                       .expected = expected,
                       .urgent = kind != GUARD_ALERT_REMINDER};
    if (n->dropped && kind == GUARD_ALERT_NEW &&
        (alert_wanted(w->cfg, event) || alert_wanted(w->cfg, EVENT_SENTINEL)))
        take_dropped(w, notifier_compose(w, name, &al, true), n->database);
    else if (alert_wanted(w->cfg, event))
        notifier_send(w, name, notifier_compose(w, name, &al, n->on), event, !n->on);
    else if (!n->on)
        close_incident(name);
}

static void set_condition(struct world *w, enum condition_id id, const struct condition_news *n)
{
    struct condition *t = &w->conditions[id];
    const char *name = condition_words[id].name;
    bool on = n->on, quiet = t->with_world && (!on || strcmp(t->key, n->key) == 0);
    mono_t now = clock_mono();
    enum guard_alert_kind kind = condition_alert(
        t, on, n->key, incident_find(&notifier.incidents, name), w->cfg->alert_repeat, now);
    /* Callers report the current situation as often as they like. Only a change or a reminder
     * passes this line. */
    if (kind == GUARD_ALERT_NONE)
        return;
    /* The mail about a dropped table promises the dump. That it was stored is not another mail,
     * unless the clock was set back: then it is unknown how long that took. */
    int64_t lasted = clock_wall().ms - t->since.ms;
    bool expected =
        !on && id == CONDITION_JOURNAL_GAP && t->key[0] && lasted >= 0 && lasted < EXPECTED_MS;
    t->on = on;
    t->notified = now;
    t->with_world = on && quiet;
    snprintf(t->key, sizeof t->key, "%s", n->key);
    line_set(t->text, sizeof t->text, "%s", n->what);
    line_set(t->hint, sizeof t->hint, "%s", n->todo);
    w->status_dirty = true;
    if (kind != GUARD_ALERT_REMINDER) {
        t->since = clock_wall();
        if (condition_words[id].event != EVENT_DISCARDED)
            log_line(on ? LOG_WARN_ : LOG_NOTE_, "%s", n->what);
        history_add(w, HISTORY_CONDITION,
                    json_pack("{s:s, s:b, s:o}", "condition", name, "on", (int)on, "what",
                              js_clean(n->what)));
    }
    if (!on && id == CONDITION_JOURNAL_GAP)
        send_apart(w); /* its beginning, before its end */
    if (!quiet)
        alert_condition(w, id, n, kind, expected);
}

static void open_condition(struct world *w, enum condition_id id, struct condition_news *n,
                           const char *fmt, va_list ap)
{
    SCOPED(buf_free) struct buf what = {0};
    buf_vprintf(&what, fmt, ap);
    n->on = true;
    n->what = what.p;
    n->key = n->key ? n->key : "";
    n->headline = n->headline ? n->headline : condition_words[id].headline;
    set_condition(w, id, n);
}

void notify_open(struct world *w, enum condition_id id, const char *key, const char *doing,
                 const char *todo, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    open_condition(w, id, &(struct condition_news){.key = key, .doing = doing, .todo = todo}, fmt,
                   ap);
    va_end(ap);
}

void notify_open_as(struct world *w, enum condition_id id, const char *key, const char *headline,
                    const char *doing, const char *todo, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    open_condition(
        w, id,
        &(struct condition_news){.key = key, .headline = headline, .doing = doing, .todo = todo},
        fmt, ap);
    va_end(ap);
}

void notify_dropped(struct world *w, const char *key, bool database, const char *headline,
                    const char *doing, const char *todo, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    open_condition(w, CONDITION_JOURNAL_GAP,
                   &(struct condition_news){.key = key,
                                            .dropped = true,
                                            .database = database,
                                            .headline = headline,
                                            .doing = doing,
                                            .todo = todo},
                   fmt, ap);
    va_end(ap);
}

void notify_over(struct world *w, enum condition_id id, const char *fmt, ...)
{
    SCOPED(buf_free) struct buf what = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&what, fmt, ap);
    va_end(ap);
    set_condition(
        w, id, &(struct condition_news){.key = "", .doing = "", .todo = "nothing", .what = what.p});
}

void notify_started(struct world *w, wall_t last_sign)
{
    struct words words;
    words_for_start(w->cfg, log_in_journal(), last_sign, clock_wall(), &words);
    struct alert al = {.event = EVENT_STARTED,
                       .headline = words.headline,
                       .what = words.what,
                       .doing = words.doing,
                       .todo = words.todo,
                       .urgent = last_sign.ms != 0};
    /* Incidents survive a restart of the supervisor. Without them, a recovery could not refer to
     * the alert before it. */
    int dir = config_any_channel(w->cfg) ? file_subdir(w->a->job.dirfd, "alerts", NULL) : -1;
    if (dir >= 0) {
        incidents_load(dir, w->cfg->name, &notifier.incidents);
        close(dir);
    }
    if (last_sign.ms)
        log_line(LOG_WARN_, "%s", words.what);
    if (alert_wanted(w->cfg, EVENT_STARTED))
        notifier_send(w, "start", notifier_compose(w, "start", &al, false), EVENT_STARTED, true);
    notify_over(w, CONDITION_REFUSED, "the config is accepted");
}

void notify_event(struct world *w, const char *name, unsigned event, const char *headline,
                  const char *what, const char *doing, const char *todo)
{
    struct alert al = {.event = event,
                       .headline = headline,
                       .what = what,
                       .doing = doing,
                       .todo = todo,
                       .urgent = true};
    log_line(LOG_WARN_, "%s", what);
    history_add(w, HISTORY_CONDITION,
                json_pack("{s:s, s:b, s:o}", "condition", name, "on", 1, "what", js_clean(what)));
    if (alert_wanted(w->cfg, event))
        notifier_send(w, name, notifier_compose(w, name, &al, true), event, true);
}

/* Sends an alert about the world's own state, which includes the one that was held back. */
static void send_guard(struct world *w, struct alert *al, bool closes)
{
    if (!alert_wanted(w->cfg, al->event)) {
        if (closes)
            close_incident(WORLD_INCIDENT);
        return;
    }
    al->earlier = notifier.held;
    if (notifier.held && !incident_find(&notifier.incidents, WORLD_INCIDENT))
        incident_open(&notifier.incidents, WORLD_INCIDENT, js_text(notifier.held, "incident"),
                      al->event);
    notifier.held = NULL;
    notifier_send(w, WORLD_INCIDENT, notifier_compose(w, WORLD_INCIDENT, al, !closes), al->event,
                  closes);
}

static void send_held(struct world *w)
{
    json_t *held = notifier.held;
    notifier.held = NULL;
    if (held)
        notifier_send(w, WORLD_INCIDENT, held, EVENT_RESTORING, false);
}

/* Ends the hold if the restore ended without an alert about the world, or with one that the config
 * disables. */
static void end_hold(struct world *w)
{
    if (!notifier.held || w->guard.state == GUARD_RESTORING)
        return;
    /* If the end of the restore will cause no alert, the alert of its start must be sent now. */
    if (!alert_wanted(w->cfg, EVENT_RESTORED) && !w->guard.by_hand)
        send_held(w);
    json_decref(notifier.held);
    notifier.held = NULL;
}

/* A restore by hand that creates a dropped schema makes the probe see another failure than the one
 * that was reported. Its start and its end are reported, not what is in between. */
static bool is_in_between(const struct world *w, const struct guard_answer *a)
{
    return a->alert == GUARD_ALERT_NEW && w->job == ACTION_RESTORE && w->swaps &&
           (w->guard.state == GUARD_WAITING || w->guard.state == GUARD_SUSPECT);
}

void notify_guard(struct world *w, const struct words_facts *facts)
{
    struct guard_answer a = *facts->answer;
    const struct incident *open = incident_find(&notifier.incidents, WORLD_INCIDENT);
    if (open && is_in_between(w, &a))
        a.alert = GUARD_ALERT_NONE;
    struct words words;
    /* The outage that an earlier supervisor reported is over. */
    if (a.alert == GUARD_ALERT_NONE && a.changed && w->guard.state == GUARD_UP && open) {
        a.alert = GUARD_ALERT_RECOVERED;
        a.alert_event = open->event;
    }
    if (a.alert == GUARD_ALERT_NONE) {
        end_hold(w);
        return;
    }
    struct words_facts f = *facts;
    f.answer = &a;
    f.refused = notifier.refused;
    if (a.alert == GUARD_ALERT_NEW)
        notifier.refused = w->guard.verdict == VERDICT_DENIED;
    words_for_guard(&f, &words);
    if (!is_missing(w))
        send_apart(w); /* in order */
    bool bad = a.alert == GUARD_ALERT_NEW && a.alert_event != EVENT_RESTORED &&
               a.alert_event != EVENT_RESTORING;
    bool over = a.alert == GUARD_ALERT_RECOVERED || a.alert_event == EVENT_RESTORED;
    struct alert al = {.event = a.alert_event,
                       .kind = alert_kinds[a.alert],
                       .headline = words.headline,
                       .what = words.what,
                       .doing = words.doing,
                       .todo = words.todo,
                       .urgent = bad || over,
                       .facts = a.alert_event == EVENT_RESTORED ? w->last_restore.shown : NULL};
    if (a.alert == GUARD_ALERT_NEW && strcmp(words.todo, "nothing") != 0) {
        SCOPED(buf_free) struct buf todo = {0};
        hint_command(w->cfg, HINT_ROOT, words.todo, &todo);
        log_line(LOG_NOTE_, "HINT: %s", todo.p);
    }
    if (a.alert == GUARD_ALERT_NEW && a.alert_event == EVENT_RESTORING) {
        /* The start of a restore is reported together with its end if the restore takes less than a
         * minute, or if an operator started it and sees it begin. */
        if (alert_wanted(w->cfg, EVENT_RESTORING)) {
            json_decref(notifier.held);
            notifier.held = notifier_compose(w, WORLD_INCIDENT, &al, false);
            notifier.held_until =
                mono_add(clock_mono(), w->guard.by_hand ? INT64_MAX / 4 : HOLD_MS);
        }
    } else if (a.alert == GUARD_ALERT_NEW && is_missing(w) && w->cfg->journal != JOURNAL_OFF &&
               alert_wanted(w->cfg, EVENT_SENTINEL)) {
        take_missing(w, notifier_compose(w, WORLD_INCIDENT, &al, true));
    } else {
        send_guard(w, &al, over);
    }
    end_hold(w);
}

/* ---- delivery ---- */

struct delivery_args {
    const struct config *cfg;
    enum alert_channel channel;
    enum alert_beat beat;
    struct message message;
};

static void report_alert(void *arg, unsigned place)
{
    const int *fd = arg;
    worker_send_packet(*fd, SENT_ALERT, &place, sizeof place);
}

static void report_recipients(void *arg, const json_t *recipients)
{
    const int *fd = arg;
    if (recipients)
        worker_send_json(*fd, SENT_LEFT, recipients);
    else
        worker_send_packet(*fd, SENT_LEFT, NULL, 0);
}

/* Delivers one message. The fork inherits the message in memory; a slow server blocks this process,
 * not the loop. */
static int delivery_child(int fd, void *arg)
{
    const struct delivery_args *d = arg;
    static struct sent out; /* static, so that no byte of the packet is uninitialized */
    struct request_result r = {0};
    const struct request_progress progress = {report_alert, report_recipients, &fd};
    int rc = d->channel == ALERT_HEARTBEAT ? alert_beat(d->cfg, d->beat, &r, &out.error)
                                           : alert_request(d->cfg, d->channel, REQUEST_SEND,
                                                           &d->message, &progress, &r, &out.error);
    out.ok = rc == 0;
    out.accepted = rc == 0 || r.accepted;
    out.left = out.accepted && r.left;
    out.unneeded = out.ok && r.unneeded;
    out.retry_after = r.retry_after;
    if (out.left)
        report_recipients(&fd, r.left);
    worker_send_packet(fd, SENT, &out, sizeof out);
    request_result_free(&r);
    fault_point("alert.sent");
    return 0;
}

/* Logs each kind of failure once. Texts are not compared, because they differ each time by a
 * duration or the number of a rejected mail. */
static void note_failure(struct world *w, enum alert_channel ch, const struct err *e)
{
    struct delivery *d = &notifier.deliveries[ch];
    char key[sizeof d->failed];
    d->failed_count++;
    snprintf(key, sizeof key, "%s %d", err_class_name(e->cls), e->num);
    if (strcmp(d->failed, key) != 0)
        log_line(LOG_WARN_, "%s not delivered: %s", d->worker.name, e->text);
    snprintf(d->failed, sizeof d->failed, "%s", key);
    line_set(d->last_error, sizeof d->last_error, "%s", e->text);
    w->status_dirty = true;
}

static void delivery_failed(struct world *w, enum alert_channel ch, int64_t retry_after,
                            const struct err *e)
{
    note_failure(w, ch, e);
    if (ch != ALERT_HEARTBEAT)
        outbox_failed(&notifier.outbox, ch, retry_after, clock_mono());
    else
        notifier.beat_retry = mono_add(clock_mono(), BEAT_RETRY_MS);
}

static void start_delivery(struct world *w, enum alert_channel ch)
{
    struct delivery *d = &notifier.deliveries[ch];
    struct delivery_args args = {.cfg = w->cfg, .channel = ch, .beat = notifier.beat};
    struct err e;
    if (ch != ALERT_HEARTBEAT)
        outbox_begin(&notifier.outbox, ch, w->conditions[CONDITION_DISK_WRITER].on, clock_mono(),
                     &args.message);
    if (worker_start(&d->worker, delivery_child, &args, false, &e) < 0)
        delivery_failed(w, ch, 0, &e);
    json_decref((json_t *)(uintptr_t)args.message.alerts);
}

/* Records what the server has accepted of a message at once, because the worker may never report
 * its result. */
static void partly_delivered(struct world *w, enum alert_channel ch, const struct packet *m)
{
    if (m->len == 0) /* the worker is not stuck: it waits for a mail server */
        return;
    const unsigned *place = packet_struct(m, sizeof *place);
    json_auto_t *recipients = m->type == SENT_LEFT ? packet_json(m, 0) : NULL;
    if (m->type == SENT_ALERT && place && *place)
        outbox_accepted(&notifier.outbox, ch, *place);
    else if (recipients)
        outbox_partly(&notifier.outbox, ch, json_object_get(recipients, "received"),
                      json_object_get(recipients, "left"));
    give_to_disk(w);
    w->status_dirty = true;
    w->poll_disk = true; /* the poll writes the marks */
}

/* Handles alerts that all recipients of the present config have: the last one that lacked them was
 * removed from it. That is no delivery. */
static void notifier_unneeded(struct world *w, enum alert_channel ch)
{
    struct delivery *d = &notifier.deliveries[ch];
    outbox_sent(&notifier.outbox, ch, clock_mono());
    log_line(LOG_NOTE_, "%s: alerts are not sent again: all present recipients have them",
             d->worker.name);
    d->last_error[0] = d->failed[0] = '\0';
    w->status_dirty = true;
    w->poll_disk = true; /* the poll writes the marks */
}

/* Handles an accepted message. If some recipients of a mail refused it permanently, that is logged
 * and the mail counts as delivered. */
static void notifier_delivered(struct world *w, enum alert_channel ch, bool ok, const struct err *e)
{
    struct delivery *d = &notifier.deliveries[ch];
    d->sent_count++;
    if (ch != ALERT_HEARTBEAT)
        outbox_sent(&notifier.outbox, ch, clock_mono());
    else {
        /* After the first heartbeat, the start is no longer sent: a service may never accept it. */
        notifier.start_sent |= notifier.beat == BEAT_START || notifier.beat == BEAT_UP;
        notifier.failure_sent |= notifier.beat == BEAT_FAILURE;
    }
    if (!ok)
        world_log_err(w, LOG_WARN_, d->worker.name, e);
    else if (d->last_error[0])
        log_line(LOG_NOTE_, "%s is delivered again", d->worker.name);
    line_set(d->last_error, sizeof d->last_error, "%s", ok ? "" : e->text);
    d->failed[0] = '\0';
    w->status_dirty = true;
    w->poll_disk = true; /* the poll writes the marks */
}

/* Handles a packet of a delivery. A delivery sends one message; after its result its worker is
 * always killed. Recipients that are left are tried again, as after a failure. */
static void notifier_message(struct world *w, struct worker *v, const struct packet *m)
{
    struct delivery *d = notifier.deliveries;
    enum alert_channel ch = 0;
    struct sent s = {0};
    for (; &d->worker != v; d++)
        ch++;
    if (m && m->type != SENT) {
        partly_delivered(w, ch, m);
        return;
    }
    const struct sent *p = m ? packet_struct(m, sizeof s) : NULL;
    if (p)
        s = *p;
    else
        err_set(&s.error, ERR_ABORTED, 0, "its worker died");
    worker_err_clean(&s.error);
    if (s.unneeded)
        notifier_unneeded(w, ch);
    else if (s.accepted && !s.left)
        notifier_delivered(w, ch, s.ok, &s.error);
    else
        delivery_failed(w, ch, s.retry_after, &s.error);
    worker_kill(&d->worker);
}

/* Returns whether no delivery of the channel is running; kills one that hangs in spite of its own
 * timeout, which applies to each of its requests. Each channel has one delivery at a time, so that
 * messages arrive in order. */
static bool is_idle(struct world *w, enum alert_channel ch, mono_t now)
{
    struct delivery *d = &notifier.deliveries[ch];
    struct err e;
    int64_t limit = alert_channel_timeout(w->cfg, ch) + DELIVERY_EXTRA_MS;
    if (d->worker.pid && mono_since(now, d->worker.heard) > limit) {
        worker_kill(&d->worker);
        err_set(&e, ERR_STALLED, 0, "its worker does not end and was killed");
        delivery_failed(w, ch, 0, &e);
        return false;
    }
    return !d->worker.pid;
}

/* Chooses what the heartbeat sends now (notifier.beat); returns false if nothing is due. */
static bool choose_beat(struct world *w, mono_t now)
{
    enum guard_state s = w->guard.state;
    /* Start and failure are sent once each, and retried until the service accepts them. UP is not
     * retried, because it is valid for its minute only. */
    bool retry = mono_reached(now, notifier.beat_retry) && !w->stopping;
    bool down =
        s == GUARD_LOST || s == GUARD_WAITING || (s == GUARD_RESTORING && !w->guard.by_hand);
    if (s == GUARD_UP && notifier.failure_sent) { /* the end of the failure is sent at once */
        notifier.failure_sent = false;
        notifier.next_heartbeat = now;
    }
    if (retry && w->cfg->heartbeat_start && !notifier.start_sent) {
        notifier.beat = BEAT_START;
    } else if (retry && w->cfg->heartbeat_failure && down && !notifier.failure_sent) {
        notifier.beat = BEAT_FAILURE;
    } else if (s == GUARD_UP && mono_reached(now, notifier.next_heartbeat)) {
        notifier.beat = BEAT_UP;
        notifier.next_heartbeat = mono_add(now, HEARTBEAT_EVERY_MS);
    } else {
        return false;
    }
    return true;
}

struct disk_marks notify_marks(void)
{
    struct disk_marks marks;
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++)
        marks.delivered[ch] = outbox_mark(&notifier.outbox, ch);
    return marks;
}

static void notifier_timers(struct world *w, mono_t now)
{
    if (notifier.held && mono_reached(now, notifier.held_until))
        send_held(w);
    if (mono_reached(now, notifier.together_until))
        send_apart(w);
    give_to_disk(w);
    /* Alerts that an earlier supervisor left are sent first, unless the disk cannot be read. */
    bool away = w->conditions[CONDITION_DISK_WRITER].on,
         known = notifier.queue == QUEUE_READ || notifier.queue_retry.ms || away;
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++)
        if (is_idle(w, ch, now) && known && !w->stopping &&
            outbox_wait(&notifier.outbox, ch, away, now) == 0)
            start_delivery(w, ch);
    if (is_idle(w, ALERT_HEARTBEAT, now) && alert_channel_on(w->cfg, ALERT_HEARTBEAT) &&
        choose_beat(w, now))
        start_delivery(w, ALERT_HEARTBEAT);
}

void notify_heartbeat_now(void)
{
    notifier.next_heartbeat = clock_mono();
}

/* Kills the running deliveries, and marks those that are already done. */
static void notifier_stop(struct world *w)
{
    for (enum alert_channel ch = 0; ch < DELIVERIES; ch++) {
        struct delivery *d = &notifier.deliveries[ch];
        while (ch != ALERT_HEARTBEAT && world_hear(w, &d->worker, notifier_message))
            ; /* mark what was sent; the rest stays queued */
        worker_stop(&d->worker, SIGKILL);
    }
}

static void notifier_begin(struct world *w)
{
    for (enum alert_channel ch = 0; ch < DELIVERIES; ch++)
        world_worker(w, &notifier.deliveries[ch].worker, name_delivery(w, ch), notifier_message);
    notifier.next_heartbeat = mono_add(clock_mono(), HEARTBEAT_EVERY_MS);
}

const struct part notifier_part = {.begin = notifier_begin,
                                   .timers = notifier_timers,
                                   .restart = notifier_restart,
                                   .opens_dirs = true,
                                   .stop = notifier_stop,
                                   .status = "alerts",
                                   .status_json = notifier_status_json};
