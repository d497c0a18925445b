#include "report/message.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD_MAX 1000     /* bytes of one field in the full text */
#define CHAT_FIELD_MAX 400 /* the same in a chat */
#define FACTS_MAX 40
#define FACT_MAX 200
#define LABEL_MAX 24 /* columns that facts are aligned to at most */

void message_field(struct buf *out, const json_t *alert, const char *key, size_t max)
{
    const char *s = json_string_value(json_object_get(alert, key));
    text_clean(out, s ? s : "", max);
}

const json_t *message_newest(const struct message *m)
{
    return json_array_get(m->alerts, json_array_size(m->alerts) - 1);
}

wall_t message_time(const struct message *m)
{
    json_int_t s = json_integer_value(json_object_get(message_newest(m), "at_unix"));
    return (wall_t){s > 0 && s < 253402300800 /* year 10000 */ ? (int64_t)s * 1000 : 0};
}

void message_id(struct buf *out, const struct message *m)
{
    const char *s = json_string_value(json_object_get(message_newest(m), "id"));
    size_t len = s ? strspn(s, "0123456789abcdef") : 0;
    if (len == 0 || len > 64 || s[len]) {
        buf_printf(out, "%llx", (unsigned long long)message_time(m).ms);
        return;
    }
    buf_adds(out, s);
}

/* Characters (or UTF-16 units) of clean UTF-8. */
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

/* Cuts `b` to `max` characters, with "..." at the end of what was cut. */
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

static bool is_kind(const json_t *alert, const char *name)
{
    const char *kind = json_string_value(json_object_get(alert, "kind"));
    return kind && strcmp(kind, name) == 0;
}

void message_subject(struct buf *out, const struct message *m)
{
    const json_t *a = message_newest(m);
    struct buf s = {0};
    char suffix[40] = "";
    size_t n = json_array_size(m->alerts);
    if (n > 1)
        snprintf(suffix, sizeof suffix, " (+%zu earlier)", n - 1);
    buf_adds(&s, "[worldkeeper] ");
    message_field(&s, a, "world", 64);
    buf_adds(&s, is_kind(a, "reminder") ? ": still " : ": ");
    message_field(&s, a, "what", FIELD_MAX);
    cut_chars(&s, MESSAGE_SUBJECT_MAX - strlen(suffix));
    buf_printf(out, "%s%s", s.p, suffix);
    buf_free(&s);
}

/* A fact's value as one clean line. */
static void fact_value(struct buf *out, const json_t *v)
{
    if (json_is_string(v)) {
        text_clean(out, json_string_value(v), FACT_MAX);
        return;
    }
    if (json_is_boolean(v)) {
        buf_adds(out, json_is_true(v) ? "yes" : "no");
        return;
    }
    char *s = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    text_clean(out, s ? s : "", FACT_MAX);
    free(s);
}

static size_t label_width(const json_t *facts)
{
    const char *key;
    json_t *v;
    size_t width = strlen("What happened"), seen = 0;
    json_object_foreach((json_t *)(uintptr_t)facts, key, v)
    {
        size_t n = text_units(key, false);
        if (n > width && n <= LABEL_MAX)
            width = n;
        if (++seen == FACTS_MAX)
            break;
    }
    return width;
}

static void add_row(struct buf *out, size_t width, const char *label, const char *value)
{
    size_t n = text_units(label, false);
    buf_printf(out, "%s%*s  %s\n", label, n < width ? (int)(width - n) : 0, "", value);
}

static void field_row(struct buf *out, size_t width, const char *label, const json_t *alert,
                      const char *key)
{
    struct buf v = {0};
    message_field(&v, alert, key, FIELD_MAX);
    if (v.len)
        add_row(out, width, label, v.p);
    buf_free(&v);
}

/* What is not known, or is not, is no fact for people. */
static bool is_empty(const json_t *v)
{
    return json_is_null(v) || (json_is_string(v) && json_string_length(v) == 0);
}

static void add_facts(struct buf *out, size_t width, const json_t *facts)
{
    const char *key;
    json_t *v;
    size_t seen = 0;
    json_object_foreach((json_t *)(uintptr_t)facts, key, v)
    {
        if (is_empty(v))
            continue;
        struct buf label = {0}, value = {0};
        text_clean(&label, key, 40);
        fact_value(&value, v);
        add_row(out, width, label.p, value.p);
        buf_free(&label);
        buf_free(&value);
        if (++seen == FACTS_MAX)
            break;
    }
}

/* One alert in full: at most about 14 KiB, whatever its file holds. */
static void add_full(struct buf *out, const json_t *a)
{
    static const char *const fields[][2] = {
        {"World", "world"},        {"Host", "host"},        {"Time", "at"},    {"Event", "event"},
        {"What happened", "what"}, {"Being done", "doing"}, {"To do", "todo"},
    };
    const json_t *facts = json_object_get(a, "facts");
    size_t width = label_width(facts);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        field_row(out, width, fields[i][0], a, fields[i][1]);
    if (!is_kind(a, "new"))
        field_row(out, width, "Kind", a, "kind");
    if (json_object_size(facts) > 0) {
        buf_addc(out, '\n');
        add_facts(out, width, facts);
    }
}

static void add_brief(struct buf *out, const json_t *a)
{
    message_field(out, a, "at", 32);
    buf_addc(out, ' ');
    message_field(out, a, "what", 200);
    buf_addc(out, '\n');
}

/* Alerts from `*from` to `end` that fit into `max` bytes when told by `add`, the last ones first.
 */
static size_t fitting(const struct message *m, size_t end, size_t max,
                      void (*add)(struct buf *, const json_t *))
{
    struct buf b = {0};
    size_t from = end;
    while (from > 0) {
        add(&b, json_array_get(m->alerts, from - 1));
        if (b.len + 64 * (end - from) > max)
            break;
        from--;
    }
    buf_free(&b);
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

void message_text(struct buf *out, const struct message *m, size_t max)
{
    size_t n = json_array_size(m->alerts);
    size_t full = fitting(m, n, max / 4 * 3, add_full);
    if (full == n)
        full = n - 1; /* the newest, always */
    size_t brief = fitting(m, full, max / 8, add_brief);
    if (n > 1)
        buf_printf(out, "%zu alerts, oldest first.\n", n);
    add_notes(out, m);
    if (brief)
        buf_printf(out, "The first %zu are not shown.\n", brief);
    if (out->len)
        buf_addc(out, '\n');
    for (size_t i = brief; i < full; i++)
        add_brief(out, json_array_get(m->alerts, i));
    for (size_t i = full; i < n; i++) {
        if (n > 1)
            buf_printf(out, "%s--- %zu of %zu ---\n", i > brief ? "\n" : "", i + 1, n);
        add_full(out, json_array_get(m->alerts, i));
    }
}

/* Adds "label" and text as a line when it fits; says whether it did. */
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
    struct buf v = {0};
    message_field(&v, a, key, CHAT_FIELD_MAX);
    if (v.len)
        chat_line(out, max, label, v.p);
    buf_free(&v);
}

static void chat_head(struct buf *out, const json_t *a)
{
    buf_adds(out, "[worldkeeper] ");
    message_field(out, a, "world", 64);
    buf_adds(out, " on ");
    message_field(out, a, "host", 128);
    buf_adds(out, is_kind(a, "reminder") ? ": still " : ": ");
    message_field(out, a, "what", CHAT_FIELD_MAX);
}

static void chat_facts(struct buf *out, size_t max, const json_t *facts)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)facts, key, v)
    {
        if (is_empty(v))
            continue;
        struct buf line = {0};
        text_clean(&line, key, 40);
        buf_adds(&line, ": ");
        fact_value(&line, v);
        bool fits = chat_line(out, max, "", line.p);
        buf_free(&line);
        if (!fits)
            break;
    }
}

/* The alerts before the newest, one line each: as many as fit, the last ones first to be kept. */
static void chat_earlier(struct buf *out, size_t max, const struct message *m)
{
    size_t n = json_array_size(m->alerts) - 1;
    size_t used = text_units(out->p, true) + 64;
    size_t from = fitting(m, n, used < max ? max - used : 0, add_brief);
    char head[64];
    snprintf(head, sizeof head, "%zu earlier%s:", n, from ? ", the last ones" : "");
    if (from < n)
        chat_line(out, max, "", head);
    for (size_t i = from; i < n; i++) {
        struct buf line = {0};
        add_brief(&line, json_array_get(m->alerts, i));
        line.p[line.len - 1] = '\0';
        chat_line(out, max, "", line.p);
        buf_free(&line);
    }
}

void message_chat(struct buf *out, const struct message *m, size_t max)
{
    const json_t *a = message_newest(m);
    bool folded = json_array_size(m->alerts) > 1;
    struct buf notes = {0};
    chat_head(out, a);
    chat_field(out, max, "Time: ", a, "at");
    chat_field(out, max, "Being done: ", a, "doing");
    chat_field(out, max, "To do: ", a, "todo");
    add_notes(&notes, m);
    if (notes.len) {
        notes.p[notes.len - 1] = '\0';
        chat_line(out, max, "", notes.p);
    }
    buf_free(&notes);
    /* A third of the room is for what came before. */
    size_t room = text_units(out->p, true) + (folded ? max / 6 : max);
    chat_facts(out, room < max ? room : max, json_object_get(a, "facts"));
    if (folded)
        chat_earlier(out, max, m);
}
