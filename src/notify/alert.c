#include "notify/alert.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/js.h"
#include "base/steps.h"
#include "notify/mail.h"
#include "notify/message.h"
#include "notify/webhook.h"

/* Limits of what is stored and sent, so that an alert can neither fill a disk nor be rejected for
 * its size. */
#define TEXT_MAX 1000    /* bytes of one text of an alert */
#define HEADLINE_MAX 640 /* bytes */
#define COMMAND_MAX 2000 /* bytes; longer ones are omitted: a truncated command may differ */
#define FACTS_MAX 40
#define FACT_MAX 200 /* bytes of one fact */

static bool is_webhook(enum alert_channel ch)
{
    return ch >= ALERT_WEBHOOK && ch < ALERT_CHANNELS;
}

/* Returns NULL if the channel is not a webhook. */
static const struct config_webhook *webhook_of(const struct config *c, enum alert_channel ch)
{
    return is_webhook(ch) ? &c->webhooks[ch - ALERT_WEBHOOK] : NULL;
}

const char *alert_channel_name(const struct config *c, enum alert_channel ch)
{
    const struct config_webhook *w = webhook_of(c, ch);
    return ch == ALERT_SMTP ? "smtp"
           : !w             ? "heartbeat"
           : w->section     ? w->section + sizeof "alert." - 1
                            : "webhook";
}

bool alert_channel_on(const struct config *c, enum alert_channel ch)
{
    return ch == ALERT_SMTP ? c->smtp.url != NULL
           : is_webhook(ch) ? config_webhook_on(webhook_of(c, ch))
                            : c->heartbeat_url || c->heartbeat_url_file;
}

int64_t alert_channel_timeout(const struct config *c, enum alert_channel ch)
{
    return ch == ALERT_SMTP ? c->smtp.timeout
           : is_webhook(ch) ? webhook_of(c, ch)->timeout
                            : c->heartbeat_timeout;
}

bool alert_wanted(const struct config *c, unsigned event)
{
    return (c->alert_events & event) && config_any_channel(c);
}

bool alert_is_expected(const json_t *alert)
{
    return js_flag(alert, "expected");
}

/* Composing */

/* Converts a text to one line of valid UTF-8: line ends and tabs become blanks, and text_clean()
 * does the rest. Needed because a text from a server or a file may contain any bytes. */
static json_t *clean_json(const char *s, size_t max)
{
    SCOPED(buf_free) struct buf line = {0}, clean = {0};
    buf_adds(&line, s ? s : "");
    for (size_t i = 0; i < line.len; i++)
        if (strchr("\r\n\t", line.p[i]))
            line.p[i] = ' ';
    text_clean(&clean, line.p, max);
    return json_string(clean.p);
}

/* Adds one fact. Numbers stay numbers; a list becomes one string. */
static void alert_add_fact(json_t *out, const char *key, const json_t *value)
{
    SCOPED(buf_free) struct buf b = {0};
    json_t *fact;
    if (json_object_size(out) == FACTS_MAX)
        return;
    text_clean(&b, key, 40);
    if (json_is_string(value)) {
        fact = clean_json(json_string_value(value), FACT_MAX);
    } else if (json_is_array(value) || json_is_object(value)) {
        SCOPED(xfree) char *s = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(9));
        fact = clean_json(s, FACT_MAX);
    } else {
        fact = json_deep_copy(value);
    }
    json_object_set_new(out, b.p, fact);
}

/* Flattens nested facts so that people can read them: "journal_changes". */
static json_t *clean_facts(json_t *facts)
{
    json_t *out = json_object(), *value, *part;
    const char *key, *name;
    json_object_foreach(facts, key, value)
    {
        if (!json_is_object(value))
            alert_add_fact(out, key, value);
        json_object_foreach(value, name, part)
        {
            SCOPED(xfree) char *whole = xasprintf("%s_%s", key, name);
            alert_add_fact(out, whole, part);
        }
    }
    return out;
}

static json_t *new_id(wall_t now)
{
    unsigned char raw[16];
    char hex[2 * sizeof raw + 1];
    if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw) {
        /* getrandom() should not fail for so few bytes. If it does, an id that is unlikely to
         * repeat is good enough. */
        int64_t seed[2] = {now.ms, (int64_t)getpid()};
        memcpy(raw, seed, sizeof raw);
    }
    text_hex(raw, sizeof raw, hex);
    return json_string(hex);
}

/* Adds the recommended steps as sentences and as commands. Each command can be pasted as it is. */
static void add_steps(json_t *j, const char *todo)
{
    SCOPED(steps_free) struct steps s = {0};
    json_t *commands = json_array();
    steps_split(todo ? todo : "", &s);
    for (size_t i = 0; i < s.count; i++) {
        const struct step *step = &s.list[i];
        if (step->command.len <= COMMAND_MAX)
            json_array_append_new(commands, json_pack("{s:o, s:o}", "does",
                                                      clean_json(step->does.p, TEXT_MAX), "command",
                                                      clean_json(step->command.p, COMMAND_MAX)));
    }
    json_object_set_new(j, "advice", clean_json(s.prose.p, TEXT_MAX));
    json_object_set_new(j, "commands", commands);
}

/* "2026-11-22 23:08:56 CET": for people in the machine's time zone; "" where that is UTC. */
static void local_time(wall_t now, char out[TEXT_SHORT])
{
    time_t t = (time_t)(now.ms / 1000);
    struct tm tm;
    out[0] = '\0';
    if (localtime_r(&t, &tm) && tm.tm_gmtoff != 0 &&
        strftime(out, TEXT_SHORT, "%Y-%m-%d %H:%M:%S %Z", &tm) == 0)
        out[0] = '\0';
}

json_t *alert_compose(const struct config *c, const struct alert *a, wall_t now)
{
    char at[TEXT_SHORT], host[256] = "";
    if (gethostname(host, sizeof host - 1) < 0 || !host[0])
        snprintf(host, sizeof host, "unknown");
    const char *what = a->what ? a->what : "", *event = config_event_name(a->event);
    /* An alert without its own headline uses the beginning of `what`, up to the first colon or
     * semicolon. */
    SCOPED(xfree) char *headline =
        a->headline ? xstrdup(a->headline) : xstrndup(what, message_clause(what));
    json_t *j = json_object(), *id = new_id(now);
    /* The id of an incident is the id of its first message, to which all later messages reply. If
     * the alert and the earlier one belong to the same new incident, the earlier one is the first
     * message. */
    json_t *incident = a->incident ? clean_json(a->incident, 64) : json_incref(id);
    json_t *first = json_object_get(a->earlier, "id");
    if (first && json_equal(first, incident)) {
        json_incref(first);
        json_object_set_new(a->earlier, "id", id);
        id = first;
    }
    json_object_set_new(j, "id", id);
    json_object_set_new(j, "incident", incident);
    json_object_set_new(j, "event", json_string(event ? event : "test"));
    json_object_set_new(j, "kind", clean_json(a->kind ? a->kind : "new", 20));
    json_object_set_new(j, "urgent", json_boolean(a->urgent));
    if (a->expected)
        json_object_set_new(j, "expected", json_true());
    json_object_set_new(j, "world", clean_json(c->name, 64));
    json_object_set_new(j, "host", clean_json(host, 255));
    json_object_set_new(j, "at", json_string(text_utc(now, at)));
    local_time(now, at);
    if (at[0])
        json_object_set_new(j, "at_local", clean_json(at, TEXT_SHORT));
    json_object_set_new(j, "at_unix", json_integer(now.ms / 1000));
    json_object_set_new(j, "headline", clean_json(headline, HEADLINE_MAX));
    json_object_set_new(j, "what", clean_json(what, TEXT_MAX));
    json_object_set_new(j, "doing", clean_json(a->doing, TEXT_MAX));
    json_object_set_new(j, "todo", clean_json(a->todo, TEXT_MAX));
    add_steps(j, a->todo);
    json_object_set_new(j, "exposure", clean_json(a->exposure, TEXT_MAX));
    json_object_set_new(j, "facts", clean_facts(a->facts));
    if (a->earlier)
        json_object_set_new(j, "earlier", a->earlier);
    return j;
}

/* Sending */

int alert_request(const struct config *c, enum alert_channel ch, enum request_depth depth,
                  const struct message *m, const struct request_progress *p,
                  struct request_result *r, struct err *e)
{
    const struct config_webhook *w = webhook_of(c, ch);
    return ch == ALERT_SMTP ? mail_request(c, depth, m, p, r, e)
           : w              ? webhook_request(c, w, depth, m, p, r, e)
                            : webhook_heartbeat(c, depth, NULL, r, e);
}

int alert_beat(const struct config *c, enum alert_beat beat, struct request_result *r,
               struct err *e)
{
    const char *end = beat == BEAT_START     ? c->heartbeat_start
                      : beat == BEAT_FAILURE ? c->heartbeat_failure
                                             : NULL;
    return webhook_heartbeat(c, REQUEST_SEND, end, r, e);
}

int alert_test(const struct config *c, enum alert_channel ch, struct request_result *r,
               struct err *e)
{
    if (!alert_channel_on(c, ch))
        return err_set(e, ERR_CONFIG, 0, "no [alert.%s] in the config", alert_channel_name(c, ch));
    struct alert a = {
        .headline = "TEST",
        .what = "this is a test message, sent by --test-alert; the world is not affected",
        .doing = "nothing",
        .todo = "nothing: if you can read this, the channel works",
    };
    json_auto_t *list = json_array();
    json_array_append_new(list, alert_compose(c, &a, clock_wall()));
    struct message m = {list, 0, 0};
    return alert_request(c, ch, REQUEST_SEND, &m, NULL, r, e);
}
