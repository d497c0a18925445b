#include "notify/message.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/js.h"
#include "notify/alert.h"

/* One alert leads (message_lead()): subject and text begin with it. The other alerts follow as far
 * as they fit. */

#define FIELD_MAX 1000     /* bytes of one field in the full text */
#define CHAT_FIELD_MAX 400 /* bytes of one field in a chat message */
#define COMMAND_MAX 2000
#define COMMANDS_MAX 2
#define FACT_MAX 200
#define LABEL_WIDTH 13 /* columns of "What happened", the longest label */

void request_result_free(struct request_result *r)
{
    json_decref(r->left);
    buf_free(&r->reply);
    *r = (struct request_result){0};
}

void message_field(struct buf *out, const json_t *alert, const char *key, size_t max)
{
    text_clean(out, js_text(alert, key), max);
}

const json_t *message_newest(const struct message *m)
{
    return json_array_get(m->alerts, json_array_size(m->alerts) - 1);
}

/* The event alone does not tell: lost and overwritten rows are alerts of the same one. */
static bool is_failed_dump(const json_t *alert)
{
    return strcmp(js_text(alert, "event"), "discarded") == 0 &&
           strcmp(js_text(alert, "headline"), "dump failed") == 0;
}

/* Reports a statement that took rows away, with the command that brings them back. A dump that
 * fails just after it fails because of it. */
static bool is_undoable(const json_t *alert)
{
    return strcmp(js_text(alert, "event"), "journal") == 0 &&
           strcmp(js_text(alert, "kind"), "new") == 0 &&
           json_array_size(json_object_get(alert, "commands")) > 0;
}

/* Returns the index of the alert that the subject names: the newest about the state of the world,
 * else the newest; but a dropped table or database before the failed dump that follows from it. */
static size_t lead_index(const struct message *m)
{
    static const char *const of_the_world[] = {"down",    "restoring", "restored",
                                               "waiting", "sentinel",  NULL};
    size_t n = json_array_size(m->alerts);
    for (size_t i = n; i > 0; i--)
        if (text_among(js_text(json_array_get(m->alerts, i - 1), "event"), of_the_world))
            return i - 1;
    size_t cause = n;
    if (is_failed_dump(json_array_get(m->alerts, n - 1)))
        while (cause > 0 && !is_undoable(json_array_get(m->alerts, cause - 1)))
            cause--;
    return (cause ? cause : n) - 1;
}

const json_t *message_lead(const struct message *m)
{
    return json_array_get(m->alerts, lead_index(m));
}

/* Returns the word for the other alerts in "(+2 …)". */
static const char *others_word(const struct message *m)
{
    return lead_index(m) + 1 == json_array_size(m->alerts) ? "earlier" : "more";
}

/* Returns all alerts but the lead, in order. The caller frees the array. */
static struct message message_others(const struct message *m)
{
    json_t *list = json_copy((json_t *)(uintptr_t)m->alerts);
    json_array_remove(list, lead_index(m));
    return (struct message){list, m->dropped, m->damaged};
}

wall_t message_time(const struct message *m)
{
    json_int_t s = json_integer_value(json_object_get(message_newest(m), "at_unix"));
    return (wall_t){s > 0 && s < 253402300800 /* year 10000 */ ? (int64_t)s * 1000 : 0};
}

/* Returns an id in the form that alert_compose() writes, else "". Checked because the id becomes
 * part of header fields. */
static const char *hex_field(const json_t *alert, const char *key)
{
    const char *s = js_text(alert, key);
    size_t len = strspn(s, "0123456789abcdef");
    return len <= 64 && !s[len] ? s : "";
}

void message_id(struct buf *out, const struct message *m)
{
    const char *id = hex_field(message_newest(m), "id");
    if (id[0])
        buf_adds(out, id);
    else
        buf_printf(out, "%llx", (unsigned long long)message_time(m).ms);
}

void message_incident(struct buf *out, const json_t *alert)
{
    buf_adds(out, hex_field(alert, "incident"));
}

/* Returns the number of characters (or UTF-16 units) of valid UTF-8. Chat services count UTF-16
 * units: a character beyond the first 65,536 counts twice. */
static size_t text_units(const char *s, bool utf16)
{
    size_t n = 0;
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        n += (c & 0xc0) != 0x80;
        n += utf16 && c >= 0xf0;
    }
    return n;
}

/* Truncates `b` to `max` characters and appends "...". It cuts between characters, because a
 * service rejects a partial character or shows it as a box. */
static void cut_chars(struct buf *b, size_t max)
{
    if (text_units(b->p, false) <= max)
        return;
    size_t chars = 0, i = 0;
    for (; i < b->len; i++) {
        chars += ((unsigned char)b->p[i] & 0xc0) != 0x80;
        if (chars > max - 3)
            break;
    }
    b->len = i;
    buf_adds(b, "...");
}

size_t message_clause(const char *what)
{
    for (const char *s = what; *s; s++)
        if ((*s == ':' || *s == ';') && s[1] == ' ')
            return (size_t)(s - what);
    return strlen(what);
}

/* Appends the headline, for example "s8 still DOWN". An alert of an older version has no
 * headline. */
static void add_head(struct buf *out, const json_t *a)
{
    SCOPED(buf_free) struct buf what = {0};
    message_field(out, a, "world", 64);
    buf_adds(out, strcmp(js_text(a, "kind"), "reminder") == 0 ? " still " : " ");
    if (json_string_length(json_object_get(a, "headline")) > 0) {
        message_field(out, a, "headline", FIELD_MAX);
        return;
    }
    message_field(&what, a, "what", FIELD_MAX);
    buf_add(out, what.p, message_clause(what.p));
}

void message_subject(struct buf *out, const struct message *m)
{
    SCOPED(buf_free) struct buf s = {0};
    char suffix[40] = "";
    size_t n = json_array_size(m->alerts);
    if (n > 1)
        snprintf(suffix, sizeof suffix, " (+%zu %s)", n - 1, others_word(m));
    add_head(&s, message_lead(m));
    cut_chars(&s, MESSAGE_SUBJECT_MAX - strlen(suffix));
    buf_printf(out, "%s%s", s.p, suffix);
}

/* The facts of a restore that people read, with the words for them; programs get all facts as they
 * are named in the status. The sentences before them say what was lost and what was set aside. */
static const struct shown_fact {
    const char *key, *label;
    enum { FACT_TEXT, FACT_COUNT, FACT_SECONDS } form;
} shown_facts[] = {
    {"restored_to", "World as of", FACT_TEXT},
    {"outage_seconds", "Was down for", FACT_SECONDS},
    {"seconds", "Restore took", FACT_SECONDS},
    {"dump", "From dump", FACT_TEXT},
    {"journal_changes", "With changes", FACT_COUNT},
    {"journal_gap", "Why not later", FACT_TEXT},
    {"rows", "Rows", FACT_COUNT},
    {"only", "Tables", FACT_TEXT},
};

/* Appends a fact's value as one line of valid UTF-8; nothing if it is unknown or empty. */
static void fact_value(struct buf *out, const json_t *facts, const struct shown_fact *f)
{
    const json_t *v = json_object_get(facts, f->key);
    double n = json_number_value(v);
    char t[TEXT_SHORT];
    if (f->form == FACT_TEXT)
        text_clean(out, json_string_value(v) ? json_string_value(v) : "", FACT_MAX);
    else if (!json_is_number(v) || n < 0 || n >= 1e12)
        return;
    else if (f->form == FACT_COUNT)
        buf_adds(out, text_count((uint64_t)n, t));
    else
        buf_adds(out, text_elapsed((int64_t)(n * 1000), t));
}

static void message_add_row(struct buf *out, const char *label, const char *value)
{
    buf_printf(out, "%-*s  %s\n", LABEL_WIDTH, label, value);
}

static void field_row(struct buf *out, const char *label, const json_t *alert, const char *key)
{
    SCOPED(buf_free) struct buf v = {0};
    message_field(&v, alert, key, FIELD_MAX);
    if (v.len)
        message_add_row(out, label, v.p);
}

/* Reads command `i` of an alert and its description, both complete and cleaned. Returns false if
 * there is no such command. */
static bool command_at(const json_t *a, size_t i, struct buf *does, struct buf *command)
{
    const json_t *o = json_array_get(json_object_get(a, "commands"), i);
    if (i >= COMMANDS_MAX || !json_is_object(o) ||
        json_string_length(json_object_get(o, "command")) > COMMAND_MAX)
        return false;
    message_field(does, o, "does", FIELD_MAX);
    message_field(command, o, "command", COMMAND_MAX);
    return command->len > 0;
}

/* Returns the key of the advice. An alert of an older version has its commands in the middle of
 * "todo". */
static const char *advice_key(const json_t *a)
{
    return json_is_string(json_object_get(a, "advice")) ? "advice" : "todo";
}

/* Adds the steps. Each command has its own line, so that a triple click selects it; the line above
 * says what it does. */
static void add_todo(struct buf *out, const json_t *a)
{
    size_t before = out->len;
    field_row(out, "To do", a, advice_key(a));
    for (size_t i = 0; i < COMMANDS_MAX; i++) {
        SCOPED(buf_free) struct buf does = {0}, command = {0};
        if (!command_at(a, i, &does, &command))
            break;
        if (does.len) {
            buf_addc(&does, ':');
            message_add_row(out, out->len == before ? "To do" : "", does.p);
        } else if (out->len == before) {
            buf_adds(out, "To do\n");
        }
        buf_printf(out, "    %s\n", command.p);
    }
}

static void add_fields(struct buf *out, const json_t *a, const char *const fields[][2])
{
    for (size_t i = 0; fields[i][0]; i++)
        field_row(out, fields[i][0], a, fields[i][1]);
}

/* Adds the time in UTC, in the format of --at. The local time of the machine that wrote the alert
 * follows in brackets if it differs. */
static void add_time(struct buf *out, const json_t *a)
{
    message_field(out, a, "at", 32);
    if (json_string_length(json_object_get(a, "at_local")) > 0) {
        buf_adds(out, "  (");
        message_field(out, a, "at_local", 48);
        buf_addc(out, ')');
    }
}

/* One alert in full: at most about 15 KiB, whatever its file contains. The most urgent lines come
 * first. */
static void add_full(struct buf *out, const json_t *a)
{
    static const char *const first[][2] = {{"What happened", "what"}, {NULL, NULL}};
    static const char *const next[][2] = {
        {"Being done", "doing"}, {"A loss now", "exposure"}, {NULL, NULL}};
    static const char *const then[][2] = {{"World", "world"}, {"Host", "host"}, {NULL, NULL}};
    static const char *const last[][2] = {{"Event", "event"}, {NULL, NULL}};
    const json_t *facts = json_object_get(a, "facts"), *earlier = json_object_get(a, "earlier");
    add_fields(out, a, first);
    add_todo(out, a);
    add_fields(out, a, next);
    if (json_is_object(earlier)) { /* an earlier alert that was not sent separately */
        SCOPED(buf_free) struct buf v = {0};
        message_field(&v, earlier, "at", 32);
        buf_adds(&v, "  ");
        message_field(&v, earlier, "what", FIELD_MAX);
        message_add_row(out, "Before", v.p);
    }
    buf_addc(out, '\n');
    add_fields(out, a, then);
    SCOPED(buf_free) struct buf time = {0};
    add_time(&time, a);
    if (time.len)
        message_add_row(out, "Time", time.p);
    add_fields(out, a, last);
    if (strcmp(js_text(a, "kind"), "new") != 0)
        field_row(out, "Kind", a, "kind");
    SCOPED(buf_free) struct buf figures = {0};
    for (size_t i = 0; i < sizeof shown_facts / sizeof *shown_facts; i++) {
        SCOPED(buf_free) struct buf value = {0};
        fact_value(&value, facts, &shown_facts[i]);
        if (value.len)
            message_add_row(&figures, shown_facts[i].label, value.p);
    }
    if (figures.len)
        buf_printf(out, "\n%s", figures.p);
}

static void add_brief(struct buf *out, const json_t *a)
{
    message_field(out, a, "at", 32);
    buf_addc(out, ' ');
    message_field(out, a, "what", 200);
    buf_addc(out, '\n');
}

/* Returns the index of the first alert that fits into `max` bytes together with all later ones up
 * to `end`, if `add` prints them. */
static size_t message_fitting(const struct message *m, size_t end, size_t max,
                              void (*add)(struct buf *, const json_t *))
{
    SCOPED(buf_free) struct buf b = {0};
    size_t from = end;
    while (from > 0) {
        add(&b, json_array_get(m->alerts, from - 1));
        if (b.len + 64 * (end - from) > max)
            break;
        from--;
    }
    return from;
}

static void add_notes(struct buf *out, const struct message *m)
{
    unsigned lost = m->dropped > m->damaged ? m->dropped - m->damaged : 0;
    if (lost)
        buf_printf(out, "%u earlier alert%s dropped: too many were waiting.\n", lost,
                   lost == 1 ? " was" : "s were");
    if (m->damaged)
        buf_printf(out,
                   "%u earlier alert%s not be read: set aside in the alerts directory (*.bad).\n",
                   m->damaged, m->damaged == 1 ? " could" : "s could");
}

/* Writes the text: the lead in full, always. Alerts in full get at most three quarters of `max`,
 * brief ones an eighth. */
void message_text(struct buf *out, const struct message *m, size_t max)
{
    struct message rest = message_others(m);
    size_t n = json_array_size(rest.alerts), room = max / 4 * 3;
    add_full(out, message_lead(m));
    size_t full = message_fitting(&rest, n, room > out->len ? room - out->len : 0, add_full);
    size_t brief = message_fitting(&rest, full, max / 8, add_brief);
    buf_adds(out, n || m->dropped ? "\n" : "");
    if (n)
        buf_printf(out, "--- %zu %s, oldest first ---\n", n, others_word(m));
    add_notes(out, m);
    if (brief)
        buf_printf(out, "The first %zu are not shown.\n", brief);
    for (size_t i = brief; i < full; i++)
        add_brief(out, json_array_get(rest.alerts, i));
    for (size_t i = full; i < n; i++) {
        buf_printf(out, "\n--- %zu of %zu ---\n", i + 1, n);
        add_full(out, json_array_get(rest.alerts, i));
    }
    json_decref((json_t *)(uintptr_t)rest.alerts);
}

/* Adds label and text as a line if the complete line fits. Returns whether it did. */
static bool chat_line(struct buf *out, size_t max, const char *label, const char *text)
{
    if (text_units(out->p ? out->p : "", true) + text_units(label, true) + text_units(text, true) +
            1 >
        max)
        return false;
    buf_printf(out, "%s%s%s", out->len ? "\n" : "", label, text);
    return true;
}

static void chat_field(struct buf *out, size_t max, const char *label, const json_t *a,
                       const char *key)
{
    SCOPED(buf_free) struct buf v = {0};
    message_field(&v, a, key, CHAT_FIELD_MAX);
    if (v.len)
        chat_line(out, max, label, v.p);
}

/* Adds the alerts other than the lead, one line each: as many of the latest as fit. */
static void chat_others(struct buf *out, size_t max, const struct message *m)
{
    struct message rest = message_others(m);
    size_t n = json_array_size(rest.alerts);
    size_t used = text_units(out->p, true) + 64;
    size_t from = message_fitting(&rest, n, used < max ? max - used : 0, add_brief);
    char head[64];
    snprintf(head, sizeof head, "%zu %s%s:", n, others_word(m), from ? ", the last ones" : "");
    if (from < n)
        chat_line(out, max, "", head);
    for (size_t i = from; i < n; i++) {
        SCOPED(buf_free) struct buf line = {0};
        add_brief(&line, json_array_get(rest.alerts, i));
        line.p[line.len - 1] = '\0';
        chat_line(out, max, "", line.p);
    }
    json_decref((json_t *)(uintptr_t)rest.alerts);
}

/* Adds the same steps as in a mail, as far as they fit. A command that does not fit is omitted,
 * never truncated. */
static void chat_todo(struct buf *out, size_t max, const json_t *a)
{
    chat_field(out, max, "To do: ", a, advice_key(a));
    for (size_t i = 0; i < COMMANDS_MAX; i++) {
        SCOPED(buf_free) struct buf does = {0}, command = {0}, lines = {0};
        if (!command_at(a, i, &does, &command))
            break;
        buf_printf(&lines, "%s%s%s", does.p ? does.p : "", does.len ? ":\n" : "", command.p);
        chat_line(out, max, "", lines.p);
    }
}

void message_chat(struct buf *out, const struct message *m, size_t max)
{
    const json_t *a = message_lead(m);
    bool folded = json_array_size(m->alerts) > 1;
    SCOPED(buf_free) struct buf notes = {0};
    add_head(out, a);
    cut_chars(out, MESSAGE_SUBJECT_MAX);
    chat_field(out, max, "", a, "what");
    chat_todo(out, max, a);
    chat_field(out, max, "Being done: ", a, "doing");
    chat_field(out, max, "A loss now: ", a, "exposure");
    SCOPED(buf_free) struct buf time = {0};
    add_time(&time, a);
    if (time.len)
        chat_line(out, max, "Time: ", time.p);
    chat_field(out, max, "Host: ", a, "host");
    add_notes(&notes, m);
    if (notes.len) {
        notes.p[notes.len - 1] = '\0';
        chat_line(out, max, "", notes.p);
    }
    /* The other alerts get a third of the room. */
    size_t room = text_units(out->p, true) + (folded ? max / 6 : max);
    const json_t *facts = json_object_get(a, "facts");
    bool fits = true;
    for (size_t i = 0; i < sizeof shown_facts / sizeof *shown_facts && fits; i++) {
        SCOPED(buf_free) struct buf line = {0}, value = {0};
        fact_value(&value, facts, &shown_facts[i]);
        buf_printf(&line, "%s: %s", shown_facts[i].label, value.len ? value.p : "");
        fits = !value.len || chat_line(out, room < max ? room : max, "", line.p);
    }
    if (folded)
        chat_others(out, max, m);
}

bool message_lacks(const json_t *alert, const json_t *address)
{
    const json_t *one;
    size_t i;
    json_array_foreach(json_object_get(alert, ALERT_RECEIVED), i, one)
    {
        if (json_equal(one, address))
            return false;
    }
    return true;
}
