#include "report/alert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/fault.h"
#include "report/mail.h"
#include "report/message.h"
#include "report/queue.h"
#include "report/webhook.h"

#define TEXT_MAX 1000 /* bytes of one text of an alert */
#define FACTS_MAX 40
#define FACT_MAX 200 /* bytes of one fact */

const char *alert_channel_name(enum alert_channel ch)
{
    return ch == ALERT_SMTP ? "smtp" : "webhook";
}

bool alert_channel_on(const struct config *c, enum alert_channel ch)
{
    return ch == ALERT_SMTP ? c->smtp.url != NULL : c->webhook.url || c->webhook.url_file;
}

bool alert_wanted(const struct config *c, unsigned event)
{
    return (c->alert_events & event) &&
           (alert_channel_on(c, ALERT_SMTP) || alert_channel_on(c, ALERT_WEBHOOK));
}

const char *alert_event_name(unsigned event)
{
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {
        {EVENT_DOWN, "down"},       {EVENT_RESTORING, "restoring"}, {EVENT_RESTORED, "restored"},
        {EVENT_WAITING, "waiting"}, {EVENT_DISCARDED, "discarded"}, {EVENT_STALE, "stale"},
        {EVENT_DISK, "disk"},       {EVENT_SENTINEL, "sentinel"},   {EVENT_STARTED, "started"},
        {EVENT_JOURNAL, "journal"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].bit == event)
            return names[i].name;
    return "test";
}

/* Composing */

/* One line: line ends and tabs become blanks, the rest as text_clean() does. */
static json_t *clean_json(const char *s, size_t max)
{
    struct buf line = {0}, clean = {0};
    buf_adds(&line, s ? s : "");
    for (size_t i = 0; i < line.len; i++)
        if (strchr("\r\n\t", line.p[i]))
            line.p[i] = ' ';
    text_clean(&clean, line.p, max);
    json_t *j = json_string(clean.p);
    buf_free(&line);
    buf_free(&clean);
    return j;
}

/* Figures stay figures; a list becomes one string. */
static json_t *clean_fact(const json_t *value)
{
    if (json_is_string(value))
        return clean_json(json_string_value(value), FACT_MAX);
    if (!json_is_array(value) && !json_is_object(value))
        return json_deep_copy(value);
    char *s = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_t *j = clean_json(s, FACT_MAX);
    free(s);
    return j;
}

static void add_fact(json_t *out, const char *key, const json_t *value)
{
    struct buf b = {0};
    text_clean(&b, key, 40);
    if (json_object_size(out) < FACTS_MAX)
        json_object_set_new(out, b.p, clean_fact(value));
    buf_free(&b);
}

/* What has parts is told part by part, for people to read: "journal_changes". */
static json_t *clean_facts(json_t *facts)
{
    json_t *out = json_object(), *value, *part;
    const char *key, *name;
    json_object_foreach(facts, key, value)
    {
        if (!json_is_object(value))
            add_fact(out, key, value);
        json_object_foreach(value, name, part)
        {
            char *whole = xasprintf("%s_%s", key, name);
            add_fact(out, whole, part);
            free(whole);
        }
    }
    return out;
}

static json_t *new_id(wall_t now)
{
    unsigned char raw[16];
    char hex[2 * sizeof raw + 1];
    if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw) {
        /* Cannot happen for so few bytes; an id that is merely unlikely to repeat still serves. */
        int64_t seed[2] = {now.ms, (int64_t)getpid()};
        memcpy(raw, seed, sizeof raw);
    }
    text_hex(raw, sizeof raw, hex);
    return json_string(hex);
}

json_t *alert_compose(const struct config *c, const struct alert *a, wall_t now)
{
    char at[TEXT_SHORT], host[256] = "";
    if (gethostname(host, sizeof host - 1) < 0 || !host[0])
        snprintf(host, sizeof host, "unknown");
    json_t *j = json_object();
    json_object_set_new(j, "id", new_id(now));
    json_object_set_new(j, "event", json_string(alert_event_name(a->event)));
    json_object_set_new(j, "kind", clean_json(a->kind ? a->kind : "new", 20));
    json_object_set_new(j, "world", clean_json(c->name, 64));
    json_object_set_new(j, "host", clean_json(host, 255));
    json_object_set_new(j, "at", json_string(text_utc(now, at)));
    json_object_set_new(j, "at_unix", json_integer(now.ms / 1000));
    json_object_set_new(j, "what", clean_json(a->what, TEXT_MAX));
    json_object_set_new(j, "doing", clean_json(a->doing, TEXT_MAX));
    json_object_set_new(j, "todo", clean_json(a->todo, TEXT_MAX));
    json_object_set_new(j, "facts", clean_facts(a->facts));
    return j;
}

/* Delivering */

void alert_result_free(struct alert_result *r)
{
    buf_free(&r->reply);
}

/* *accepted: the server has taken the message, whatever else is said in the error. */
static int send_message(const struct config *c, enum alert_channel ch, const struct message *m,
                        bool *accepted, struct alert_result *r, struct err *e)
{
    *accepted = false;
    int rc = ch == ALERT_SMTP ? mail_send(c, m, accepted, &r->reply, e)
                              : webhook_send(c, m, &r->retry_after, &r->reply, e);
    if (rc == 0)
        *accepted = true;
    return rc;
}

static int deliver_batch(const struct config *c, int dirfd, enum alert_channel ch,
                         const struct queue_batch *b, struct alert_result *r, struct err *e)
{
    struct message m = {b->alerts, b->dropped, b->damaged};
    struct err mark = {0};
    bool accepted = r->upto == b->upto;
    int rc = accepted ? 0 : send_message(c, ch, &m, &accepted, r, e);
    if (!accepted)
        return rc;
    r->upto = b->upto;
    fault_point("alert.sent");
    if (queue_done(c, dirfd, ch, b->upto, &mark) < 0) {
        if (e)
            *e = mark;
        err_step(e, "sent, but it cannot be noted: a restart would send it again");
        return -1;
    }
    r->upto = 0;
    r->sent = (unsigned)json_array_size(b->alerts);
    return rc;
}

int alert_deliver(const struct config *c, int dirfd, enum alert_channel ch, struct alert_result *r,
                  struct err *e)
{
    struct queue_batch b = {0};
    int rc = queue_load(c, dirfd, ch, &b, e);
    if (rc == 0 && json_array_size(b.alerts) > 0)
        rc = deliver_batch(c, dirfd, ch, &b, r, e);
    queue_batch_free(&b);
    return rc;
}

int alert_send(const struct config *c, enum alert_channel ch, const json_t *alerts,
               struct alert_result *r, struct err *e)
{
    struct message m = {alerts, 0, 0};
    bool accepted;
    int rc = send_message(c, ch, &m, &accepted, r, e);
    r->sent = accepted ? (unsigned)json_array_size(alerts) : 0;
    return rc;
}

int alert_test(const struct config *c, enum alert_channel ch, struct alert_result *r, struct err *e)
{
    if (!alert_channel_on(c, ch))
        return err_set(e, ERR_CONFIG, 0, "no [alert.%s] in the config", alert_channel_name(ch));
    struct alert a = {
        .what = "TEST message, asked for with --test-alert",
        .doing = "nothing: the world is not concerned",
        .todo = "nothing: that you can read this is the proof",
    };
    json_t *list = json_array();
    json_array_append_new(list, alert_compose(c, &a, clock_wall()));
    int rc = alert_send(c, ch, list, r, e);
    json_decref(list);
    return rc;
}

int alert_check(const struct config *c, enum alert_channel ch, struct err *e)
{
    return ch == ALERT_SMTP ? mail_check(c, e) : webhook_check(c, e);
}

int alert_heartbeat(const struct config *c, struct err *e)
{
    return webhook_heartbeat(c, e);
}

/* Pacing */

void alert_pace_init(struct alert_pace *p, mono_t now)
{
    *p = (struct alert_pace){.tokens = ALERT_BURST, .refilled = now, .not_before = now};
}

/* What the tokens have grown to by now; the rest of a minute stays counted. */
static struct alert_pace refill(const struct alert_pace *p, mono_t now)
{
    struct alert_pace r = *p;
    int64_t more = mono_since(now, r.refilled) / ALERT_REFILL;
    if (more <= 0)
        return r;
    if (more >= (int64_t)(ALERT_BURST - r.tokens)) {
        r.tokens = ALERT_BURST;
        r.refilled = now;
    } else {
        r.tokens += (unsigned)more;
        r.refilled = mono_add(r.refilled, more * ALERT_REFILL);
    }
    return r;
}

int64_t alert_pace_wait(const struct alert_pace *p, mono_t now)
{
    struct alert_pace r = refill(p, now);
    int64_t failed = mono_since(r.not_before, now);
    int64_t token = r.tokens ? 0 : ALERT_REFILL - mono_since(now, r.refilled);
    int64_t wait = failed > token ? failed : token;
    return wait > 0 ? wait : 0;
}

bool alert_pace_may(const struct alert_pace *p, mono_t now)
{
    return alert_pace_wait(p, now) == 0;
}

void alert_pace_sent(struct alert_pace *p, mono_t now)
{
    *p = refill(p, now);
    if (p->tokens == ALERT_BURST)
        p->refilled = now; /* a full bucket has no minute running */
    if (p->tokens)
        p->tokens--;
    p->failures = 0;
    p->not_before = now;
}

void alert_pace_failed(struct alert_pace *p, int64_t retry_after_ms, mono_t now)
{
    int64_t wait = ALERT_RETRY_FIRST;
    for (unsigned i = 0; i < p->failures && wait < ALERT_RETRY_MAX; i++)
        wait *= 2;
    if (wait > ALERT_RETRY_MAX)
        wait = ALERT_RETRY_MAX;
    if (retry_after_ms > ALERT_RETRY_AFTER_MAX)
        retry_after_ms = ALERT_RETRY_AFTER_MAX;
    if (wait < retry_after_ms)
        wait = retry_after_ms;
    if (p->failures < 1000)
        p->failures++;
    p->not_before = mono_add(now, wait);
}
