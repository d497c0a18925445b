#include "notify/template.h"

#include <stdio.h>
#include <string.h>

#include "base/js.h"

#define WORD_CHARS "abcdefghijklmnopqrstuvwxyz_"

/* Returns the severity in the words that alerting services use. */
static const char *template_severity(const json_t *a)
{
    static const char *const critical[] = {"down", "waiting", "sentinel", "restoring", NULL},
                             *const warning[] = {"check",   "drill",   "pause",
                                                 "started", "standby", NULL};
    const char *event = js_text(a, "event");
    bool over = strcmp(js_text(a, "kind"), "recovered") == 0 || strcmp(event, "restored") == 0;
    return over || strcmp(event, "test") == 0 ? "info"
           : text_among(event, critical)      ? "critical"
           : text_among(event, warning)       ? (js_flag(a, "urgent") ? "warning" : "info")
                                              : "error";
}

/* An incident lasts from its first alert to its end. Events without duration resolve at once, so
 * that no incident stays open. */
static const char *template_state(const json_t *a)
{
    const char *event = js_text(a, "event");
    bool over = strcmp(js_text(a, "kind"), "recovered") == 0 || strcmp(event, "restored") == 0 ||
                strcmp(event, "started") == 0 || strcmp(event, "test") == 0;
    return over ? "resolve" : "trigger";
}

/* Services limit texts in characters, UTF-16 units or bytes. The limit here is in bytes, because no
 * other count is higher. */
static void short_text(struct buf *out, const struct message *m)
{
    for (size_t room = TEMPLATE_TEXT_MAX;; room = room * TEMPLATE_TEXT_MAX / (out->len + 1)) {
        buf_clear(out);
        message_chat(out, m, room);
        if (out->len <= TEMPLATE_TEXT_MAX)
            return;
    }
}

static void template_put(json_t *o, const char *name, const char *value)
{
    json_object_set_new(o, name, json_string(value));
}

json_t *template_values(const struct message *m, const char *url)
{
    SCOPED(buf_free) struct buf subject = {0}, text = {0}, id = {0}, incident = {0};
    const json_t *a = message_lead(m);
    static const char *const fields[] = {"world", "host", "event"};
    json_t *o = json_object();
    message_subject(&subject, m);
    short_text(&text, m);
    message_id(&id, m);
    buf_adds(&incident, "worldkeeper-");
    message_incident(&incident, a);
    template_put(o, "subject", subject.p);
    template_put(o, "text", text.p);
    template_put(o, "id", id.p);
    template_put(o, "dedup_key", incident.p);
    template_put(o, "state", template_state(a));
    template_put(o, "severity", template_severity(a));
    template_put(o, "url", url ? url : "");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        SCOPED(buf_free) struct buf v = {0};
        message_field(&v, a, fields[i], 255);
        template_put(o, fields[i], v.p ? v.p : "");
    }
    return o;
}

static void add_json(struct buf *out, const char *value)
{
    json_auto_t *s = json_string(value);
    SCOPED(xfree) char *quoted = json_dumps(s, JSON_ENCODE_ANY);
    if (quoted) /* the quotes are not part of the value */
        buf_add(out, quoted + 1, strlen(quoted) - 2);
}

static void add_percent(struct buf *out, const char *value)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (; *value; value++) {
        if (strchr(plain, *value))
            buf_addc(out, *value);
        else
            buf_printf(out, "%%%02X", (unsigned)(unsigned char)*value);
    }
}

/* Returns the length of the placeholder at `s`, or 0 if there is none. */
static size_t template_placeholder(const char *s)
{
    size_t n = s[0] == '{' ? strspn(s + 1, WORD_CHARS) : 0;
    return n && s[n + 1] == '}' ? n + 2 : 0;
}

int template_fill(struct buf *out, const char *text, enum template_escape escape,
                  const json_t *values, struct err *e)
{
    buf_adds(out, "");
    for (size_t n; *text; text += n ? n : 1) {
        n = template_placeholder(text);
        if (!n) {
            buf_addc(out, *text);
            continue;
        }
        SCOPED(xfree) char *name = xstrndup(text + 1, n - 2);
        const json_t *value = json_object_get(values, name);
        if (!value) {
            err_set(e, ERR_CONFIG, 0, "{%s} is not a known placeholder; allowed: " TEMPLATE_NAMES,
                    name);
            return err_hint(e, "correct the template, then: worldkeeper --test-alert");
        }
        const char *s = json_string_value(value);
        if (escape == TEMPLATE_JSON)
            add_json(out, s);
        else if (escape == TEMPLATE_FORM)
            add_percent(out, s);
        else
            buf_adds(out, s);
    }
    return 0;
}

/* Appends what is between the placeholders of a value. */
static void constants_of(struct buf *out, const char *value, size_t len)
{
    for (size_t i = 0, n; i < len; i += n ? n : 1) {
        n = template_placeholder(value + i);
        buf_addc(out, n ? '\n' : value[i]);
    }
    buf_addc(out, '\n');
}

/* Returns the length of the JSON text whose quotation mark precedes `s`. */
static size_t json_text(const char *s)
{
    size_t n = 0;
    while (s[n] && s[n] != '"')
        n += s[n] == '\\' && s[n + 1] ? 2 : 1;
    return n;
}

void template_constants(struct buf *out, const char *text)
{
    const char *s = text + strspn(text, " \t\r\n");
    buf_adds(out, "");
    if (*s && strchr("{[", *s) && !template_placeholder(s)) {
        for (size_t n; *s; s += n) {
            n = strspn(s, "0123456789");
            if (n) { /* a key of digits */
                constants_of(out, s, n);
            } else if (*s == '"') {
                n = json_text(s + 1);
                const char *end = s + 1 + n + (s[1 + n] == '"');
                if (end[strspn(end, " \t\r\n")] != ':') /* not a member's name */
                    constants_of(out, s + 1, n);
                n = (size_t)(end - s);
            } else {
                n = 1;
            }
        }
        return;
    }
    for (size_t n; *s; s += n + strspn(s + n, "&\r\n")) {
        n = strcspn(s, "&\r\n");
        const char *is = memchr(s, '=', n);
        size_t name = is ? (size_t)(is + 1 - s) : 0;
        constants_of(out, s + name, n - name);
    }
}

bool template_each(const char *text)
{
    return strstr(text, "{state}") || strstr(text, "{dedup_key}");
}
