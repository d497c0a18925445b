#include "report/webhook.h"

#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "report/alert.h"
#include "report/wire.h"

#define ALERTS_BYTES 262144 /* of alerts in one request, as JSON */
#define ANSWER_CAP 65536    /* an answer is read so far and no further, and so are its headers */
#define ANSWER_TOLD 200     /* a whole answer of at most so many bytes may be repeated in a text */
#define DISCORD_MAX 2000
#define SLACK_MAX 3500

/* Bodies */

/* In Slack's text these three begin links and mentions. */
static void slack_escape(struct buf *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '&')
            buf_adds(out, "&amp;");
        else if (*s == '<')
            buf_adds(out, "&lt;");
        else if (*s == '>')
            buf_adds(out, "&gt;");
        else
            buf_addc(out, *s);
    }
}

/* Discord shows marked up text: a link under other words, what is hidden until it is touched, and
 * commands without their backticks. Returns how many characters that adds. */
static size_t discord_escape(struct buf *out, const char *s)
{
    size_t added = 0;
    buf_clear(out);
    for (; *s; s++) {
        if (strchr("\\`*_~|[]<", *s)) {
            buf_addc(out, '\\');
            added++;
        }
        buf_addc(out, *s);
    }
    return added;
}

/* As much of the message as still fits when it is escaped. */
static void discord_text(struct buf *out, const struct message *m)
{
    struct buf text = {0};
    size_t room = DISCORD_MAX, added;
    for (;;) {
        buf_clear(&text);
        message_chat(&text, m, room);
        added = discord_escape(out, text.p);
        if (room + added <= DISCORD_MAX)
            break;
        room = room * DISCORD_MAX / (room + added);
    }
    buf_free(&text);
}

static json_t *string_field(const struct message *m, const char *key)
{
    struct buf b = {0};
    message_field(&b, message_newest(m), key, 255);
    json_t *j = json_string(b.p);
    buf_free(&b);
    return j;
}

/* The last alerts that fit, oldest first; *left_out is how many did not. */
static json_t *alerts_that_fit(const struct message *m, size_t *left_out)
{
    json_t *out = json_array();
    size_t i = json_array_size(m->alerts), used = 0;
    for (; i > 0; i--) {
        json_t *a = json_array_get(m->alerts, i - 1);
        used += json_dumpb(a, NULL, 0, JSON_COMPACT);
        if (used > ALERTS_BYTES && json_array_size(out) > 0)
            break;
        json_array_insert(out, 0, a);
    }
    *left_out = i;
    return out;
}

static json_t *generic_json(const struct message *m)
{
    struct buf id = {0}, text = {0};
    size_t left_out;
    json_t *j = json_object();
    message_id(&id, m);
    message_chat(&text, m, SLACK_MAX);
    json_object_set_new(j, "format", json_integer(1));
    json_object_set_new(j, "id", json_string(id.p));
    json_object_set_new(j, "text", json_string(text.p));
    json_object_set_new(j, "world", string_field(m, "world"));
    json_object_set_new(j, "host", string_field(m, "host"));
    json_object_set_new(j, "event", string_field(m, "event"));
    json_object_set_new(j, "kind", string_field(m, "kind"));
    json_object_set_new(j, "alerts", alerts_that_fit(m, &left_out));
    json_object_set_new(j, "left_out", json_integer((json_int_t)left_out));
    json_object_set_new(j, "dropped", json_integer(m->dropped));
    json_object_set_new(j, "damaged", json_integer(m->damaged));
    buf_free(&id);
    buf_free(&text);
    return j;
}

static json_t *slack_json(const struct message *m)
{
    struct buf text = {0}, escaped = {0};
    message_chat(&text, m, SLACK_MAX);
    slack_escape(&escaped, text.p);
    json_t *j = json_pack("{s:s}", "text", escaped.p);
    buf_free(&text);
    buf_free(&escaped);
    return j;
}

static json_t *discord_json(const struct message *m)
{
    struct buf text = {0};
    discord_text(&text, m);
    json_t *j = json_pack("{s:s, s:{s:[]}}", "content", text.p, "allowed_mentions", "parse");
    buf_free(&text);
    return j;
}

char *webhook_body(enum config_format format, const struct message *m)
{
    json_t *j = format == WEBHOOK_JSON    ? generic_json(m)
                : format == WEBHOOK_SLACK ? slack_json(m)
                                          : discord_json(m);
    char *s = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    return s ? s : xstrdup("{}");
}

/* Requests */

struct answer {
    struct buf told; /* the first bytes, for texts */
    size_t size, headers;
};

static size_t on_header(char *data, size_t size, size_t n, void *arg)
{
    struct answer *a = arg;
    (void)data;
    a->headers += size * n;
    return a->headers > ANSWER_CAP ? 0 : size * n;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    struct answer *a = arg;
    size_t len = size * n;
    a->size += len;
    if (a->told.len <= ANSWER_TOLD)
        buf_add(&a->told, data, len <= ANSWER_TOLD ? len : ANSWER_TOLD + 1);
    return a->size > ANSWER_CAP ? 0 : len;
}

/* Opens a request to a URL that stands in the config or in a file of its own. */
static int request_open(struct wire *w, const struct wire_target *t, const char *url_file,
                        struct err *e)
{
    struct buf secret = {0};
    struct wire_target target = *t;
    int rc = 0;
    if (url_file) {
        rc = file_read_secret(url_file, &secret, e);
        target.url = secret.p;
    }
    if (rc == 0)
        rc = wire_open(w, &target, e);
    else
        err_step(e, "%s", t->key);
    if (secret.p)
        explicit_bzero(secret.p, secret.cap);
    buf_free(&secret);
    if (rc == 0) {
        WIRE_SET(w, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        WIRE_SET(w, CURLOPT_USERAGENT, "worldkeeper/" WK_VERSION);
        WIRE_SET(w, CURLOPT_WRITEFUNCTION, on_body);
        WIRE_SET(w, CURLOPT_HEADERFUNCTION, on_header);
    }
    return rc;
}

/* What the server wrote, when it is short plain text without a piece of the URL. */
static void tell_answer(struct buf *out, const struct wire *w, long status, const struct answer *a)
{
    buf_printf(out, "HTTP %ld", status);
    if (a->told.len == 0 || a->told.len > ANSWER_TOLD || !text_utf8_valid(a->told.p, a->told.len) ||
        strchr(a->told.p, '<') || strlen(a->told.p) != a->told.len || wire_leaks(w, a->told.p))
        return;
    size_t len = a->told.len;
    while (len && strchr("\r\n ", a->told.p[len - 1]))
        len--;
    a->told.p[len] = '\0';
    if (len)
        buf_adds(out, ", ");
    text_clean(out, a->told.p, ANSWER_TOLD);
}

static int bad_status(const struct wire *w, long status, const char *told, struct err *e)
{
    if (status >= 300 && status < 400) {
        err_set(e, ERR_REFUSED, (int)status, "%s: answers with a redirect (HTTP %ld), not followed",
                w->host, status);
        err_hint(e, "write the final address into the config");
    } else if (status == 429 || status >= 500) {
        err_set(e, ERR_UNREACHABLE, (int)status, "%s: not now: %s", w->host, told);
    } else {
        err_set(e, ERR_DENIED, (int)status, "%s: refused: %s", w->host, told);
        err_hint(e, "check the URL and the format; the message stays and is tried again");
    }
    return -1;
}

static int64_t retry_after(const struct wire *w)
{
    curl_off_t s = 0;
    if (w->api->easy_getinfo(w->h, CURLINFO_RETRY_AFTER, &s) != CURLE_OK || s <= 0)
        return 0;
    return s > ALERT_RETRY_AFTER_MAX / 1000 ? ALERT_RETRY_AFTER_MAX : (int64_t)s * 1000;
}

/* Runs the request; 2xx is success. */
static int request_run(struct wire *w, int64_t *wait, struct buf *reply, struct err *e)
{
    struct answer a = {0};
    struct buf told = {0};
    long status = 0;
    WIRE_SET(w, CURLOPT_WRITEDATA, &a);
    WIRE_SET(w, CURLOPT_HEADERDATA, &a);
    CURLcode rc = wire_run(w);
    w->api->easy_getinfo(w->h, CURLINFO_RESPONSE_CODE, &status);
    *wait = retry_after(w);
    /* We ended an answer that is too long ourselves; its status counts. */
    int result = 0;
    bool ended = rc == CURLE_WRITE_ERROR && (a.size > ANSWER_CAP || a.headers > ANSWER_CAP);
    if (rc != CURLE_OK && !ended) {
        result = wire_fail(w, rc, e);
    } else {
        tell_answer(&told, w, status, &a);
        if (status < 200 || status > 299)
            result = bad_status(w, status, told.p, e);
        buf_add(reply, told.p, told.len);
    }
    buf_free(&told);
    buf_free(&a.told);
    return result;
}

static int webhook_open(struct wire *w, const struct config_webhook *c, struct err *e)
{
    const struct wire_target t = {.key = c->url_file ? "[alert.webhook] url_file"
                                                     : "[alert.webhook] url",
                                  .url = c->url,
                                  .protocols = "http,https",
                                  .tls_ca = c->tls_ca,
                                  .insecure = c->insecure,
                                  .timeout = c->timeout};
    if (!c->url && !c->url_file)
        return err_set(e, ERR_CONFIG, 0, "[alert.webhook] has no url");
    return request_open(w, &t, c->url_file, e);
}

int webhook_send(const struct config *c, const struct message *m, int64_t *wait, struct buf *reply,
                 struct err *e)
{
    struct wire w = {0};
    struct curl_slist *headers = NULL;
    char *body = webhook_body(c->webhook.format, m);
    int rc = webhook_open(&w, &c->webhook, e);
    *wait = 0;
    if (rc == 0) {
        headers = w.api->slist_append(NULL, "Content-Type: application/json");
        if (headers)
            w.api->slist_append(headers, "Expect:"); /* no waiting for "100 Continue" */
        WIRE_SET(&w, CURLOPT_HTTPHEADER, headers);
        WIRE_SET(&w, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
        WIRE_SET(&w, CURLOPT_POSTFIELDS, body);
        rc = request_run(&w, wait, reply, e);
    }
    wire_close(&w);
    if (headers)
        w.api->slist_free_all(headers);
    free(body);
    return rc;
}

int webhook_check(const struct config *c, struct err *e)
{
    struct wire w = {0};
    int rc = webhook_open(&w, &c->webhook, e);
    if (rc == 0 && w.refused != CURLE_OK)
        rc = wire_fail(&w, w.refused, e);
    wire_close(&w);
    return rc;
}

int webhook_heartbeat(const struct config *c, struct err *e)
{
    struct wire w = {0};
    struct buf reply = {0};
    int64_t wait;
    const struct wire_target t = {.key = c->heartbeat_url_file ? "[heartbeat] url_file"
                                                               : "[heartbeat] url",
                                  .url = c->heartbeat_url,
                                  .protocols = "http,https",
                                  .insecure = c->heartbeat_insecure,
                                  .timeout = c->heartbeat_timeout};
    if (!c->heartbeat_url && !c->heartbeat_url_file)
        return err_set(e, ERR_CONFIG, 0, "[heartbeat] has no url");
    int rc = request_open(&w, &t, c->heartbeat_url_file, e);
    if (rc == 0)
        rc = request_run(&w, &wait, &reply, e);
    wire_close(&w);
    buf_free(&reply);
    return rc;
}
