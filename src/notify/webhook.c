#include "notify/alert.h"

#include <string.h>

#include "base/file.h"
#include "net/curl_request.h"

/* Texts contain names that the server chose. For a service that renders markup they are escaped as it
 * asks for; plain JSON needs no more than its own escaping. */

/* Services refuse bodies of some megabytes; what does not fit is counted. */
#define ALERTS_BYTES 262144 /* most JSON of alerts in one request */
#define ANSWER_CAP 65536    /* most bytes read of an answer, and of its headers */
#define ANSWER_KEPT 4096    /* most bytes of it in which there may be something to quote */
#define DISCORD_MAX 2000
#define SLACK_MAX 3500

/* Bodies */

/* Discord renders Markdown: links with another text, spoilers, and commands without their
 * backticks. Returns the number of characters added. */
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

/* As much of the message as fits once it is escaped. */
static void discord_text(struct buf *out, const struct message *m)
{
    SCOPED(buf_free) struct buf text = {0};
    size_t room = DISCORD_MAX, added;
    for (;;) {
        buf_clear(&text);
        message_chat(&text, m, room);
        added = discord_escape(out, text.p);
        if (room + added <= DISCORD_MAX)
            break;
        room = room * DISCORD_MAX / (room + added);
    }
}

static json_t *string_field(const struct message *m, const char *key)
{
    SCOPED(buf_free) struct buf b = {0};
    message_field(&b, message_lead(m), key, 255);
    return json_string(b.p);
}

/* The latest alerts that fit, oldest first, each after the earlier one that was not sent on its own;
 * *left_out: how many did not fit. */
static json_t *alerts_that_fit(const struct message *m, size_t *left_out)
{
    json_t *out = json_array();
    size_t i = json_array_size(m->alerts), used = 0;
    for (; i > 0; i--) {
        json_t *a = json_array_get(m->alerts, i - 1), *earlier = json_object_get(a, "earlier");
        used += json_dumpb(a, NULL, 0, JSON_COMPACT);
        if (used > ALERTS_BYTES && json_array_size(out) > 0)
            break;
        json_t *plain = json_copy(a);
        json_object_del(plain, "earlier");
        json_object_del(plain, ALERT_RECIPIENTS);
        json_array_insert_new(out, 0, plain);
        if (json_is_object(earlier))
            json_array_insert(out, 0, earlier);
    }
    *left_out = i;
    return out;
}

/* "format" changes only with the meaning of a key; new keys may come at any time. */
static json_t *generic_json(const struct message *m)
{
    SCOPED(buf_free) struct buf id = {0}, text = {0};
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
    return j;
}

/* In Slack's markup these three start links and mentions. */
static void slack_text(struct buf *out, const struct message *m)
{
    SCOPED(buf_free) struct buf text = {0};
    message_chat(&text, m, SLACK_MAX);
    for (const char *c = text.p; *c; c++) {
        if (*c == '&')
            buf_adds(out, "&amp;");
        else if (*c == '<')
            buf_adds(out, "&lt;");
        else if (*c == '>')
            buf_adds(out, "&gt;");
        else
            buf_addc(out, *c);
    }
}

char *webhook_body(enum config_format format, const struct message *m)
{
    SCOPED(buf_free) struct buf text = {0};
    json_t *j = NULL;
    switch (format) {
    case WEBHOOK_JSON:
        j = generic_json(m);
        break;
    case WEBHOOK_SLACK:
        slack_text(&text, m);
        j = json_pack("{s:s}", "text", text.p);
        break;
    case WEBHOOK_DISCORD: /* a name in a message must not wake up a whole channel */
        discord_text(&text, m);
        j = json_pack("{s:s, s:{s:[]}}", "content", text.p, "allowed_mentions", "parse");
        break;
    }
    char *s = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    return s ? s : xstrdup("{}");
}

/* Requests */

struct answer {
    struct buf first;     /* bytes, to be quoted */
    size_t size, headers; /* bytes that came, of body and headers */
};

/* 0 makes libcurl give up: no server may keep us reading. */
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
    size_t room = ANSWER_KEPT - a->first.len;
    buf_add(&a->first, data, len < room ? len : room);
    return a->size > ANSWER_CAP ? 0 : len;
}

/* Runs the request. 2xx is success as soon as the status line has arrived and the whole body was
 * sent (a server may answer before it has read it): the server has accepted the request then.
 * Otherwise a server whose answers always break later (too long, shorter than announced, never
 * ending) would be sent the same message forever. */
static int request_run(struct curl_request *w, size_t body, struct request_result *r, struct err *e)
{
    struct answer a = {0};
    SCOPED(buf_free) struct buf quoted = {0};
    long status = 0;
    curl_off_t sent = 0, wait = 0;
    CURL_SET(w, CURLOPT_WRITEDATA, &a);
    CURL_SET(w, CURLOPT_HEADERDATA, &a);
    CURLcode rc = curl_request_run(w);
    w->api->easy_getinfo(w->h, CURLINFO_RESPONSE_CODE, &status);
    if (w->api->easy_getinfo(w->h, CURLINFO_RETRY_AFTER, &wait) == CURLE_OK && wait > 0)
        r->retry_after =
            wait > REQUEST_RETRY_AFTER_MAX / 1000 ? REQUEST_RETRY_AFTER_MAX : (int64_t)wait * 1000;
    /* We aborted an answer that was too long; its status still counts. */
    bool ended = rc == CURLE_WRITE_ERROR && (a.size > ANSWER_CAP || a.headers > ANSWER_CAP);
    r->accepted = status >= 200 && status <= 299 &&
                  w->api->easy_getinfo(w->h, CURLINFO_SIZE_UPLOAD_T, &sent) == CURLE_OK &&
                  sent >= (curl_off_t)body;
    int result = 0;
    buf_printf(&quoted, "HTTP %ld", status);
    curl_request_quote(w, &quoted, ", ", &a.first);
    if (rc != CURLE_OK && !ended && !r->accepted)
        result = curl_request_fail(w, rc, e);
    else if (!r->accepted) {
        if (status >= 300 && status < 400) {
            err_set(e, ERR_REFUSED, (int)status,
                    "%s: answers with a redirect (HTTP %ld), not followed", w->host, status);
            err_hint(e, "write the final address into the config");
        } else if (status == 429 || status >= 500) {
            err_set(e, ERR_UNREACHABLE, (int)status, "%s: not now: %s", w->host, quoted.p);
        } else {
            err_set(e, ERR_DENIED, (int)status, "%s: refused: %s", w->host, quoted.p);
            err_hint(e, "check the URL and the format; the message stays and is tried again");
        }
        result = -1;
    } else if (rc != CURLE_OK)
        buf_adds(&quoted, ", and its answer broke off there");
    if (rc == CURLE_OK || ended || r->accepted)
        buf_add(&r->reply, quoted.p, quoted.len);
    buf_free(&a.first);
    return result;
}

/* A POST of `body`, or with NULL a GET, to the URL of `t` or of the file. `end`: what its path continues
 * with, or NULL. */
static int http_request(const struct curl_target *t, const char *url_file, const char *end,
                        const char *body, enum request_depth depth, struct request_result *r,
                        struct err *e)
{
    struct curl_request w = {0};
    struct curl_target target = *t;
    struct curl_slist *headers = NULL;
    struct buf secret = {0}, whole = {.secret = true};
    int rc = 0;
    if (url_file) {
        rc = file_read_secret(url_file, &secret, e);
        target.url = secret.p;
        if (rc < 0)
            err_step(e, "%s", t->key);
    }
    if (rc == 0 && end) {
        /* `end` continues the path, before a query. */
        size_t path = strcspn(target.url, "?#"), kept = path;
        while (kept > 0 && target.url[kept - 1] == '/')
            kept--;
        buf_add(&whole, target.url, kept);
        buf_adds(&whole, end);
        buf_adds(&whole, target.url + path);
        target.url = whole.p;
    }
    if (rc == 0)
        rc = curl_request_open(&w, &target, e);
    buf_free(&whole);
    buf_free(&secret); /* the request has its own copy */
    if (rc == 0) {
        CURL_SET(&w, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        CURL_SET(&w, CURLOPT_USERAGENT, "worldkeeper/" WK_VERSION);
        CURL_SET(&w, CURLOPT_WRITEFUNCTION, on_body);
        CURL_SET(&w, CURLOPT_HEADERFUNCTION, on_header);
    }
    if (rc == 0 && body) {
        headers = w.api->slist_append(NULL, "Content-Type: application/json");
        if (headers)
            w.api->slist_append(headers, "Expect:"); /* do not wait for "100 Continue" */
        CURL_SET(&w, CURLOPT_HTTPHEADER, headers);
        CURL_SET(&w, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
        CURL_SET(&w, CURLOPT_POSTFIELDS, body);
    }
    if (rc == 0)
        rc = depth == REQUEST_SEND ? request_run(&w, body ? strlen(body) : 0, r, e)
                                   : curl_request_try(&w, depth == REQUEST_CONNECT, e);
    curl_request_close(&w);
    if (headers)
        w.api->slist_free_all(headers);
    return rc;
}

int webhook_request(const struct config *c, enum request_depth depth, const struct message *m,
                    struct request_result *r, struct err *e)
{
    const struct config_webhook *hook = &c->webhook;
    const struct curl_target t = {.key = hook->url_file ? "[alert.webhook] url_file"
                                                        : "[alert.webhook] url",
                                  .url = hook->url,
                                  .protocols = "http,https",
                                  .tls_ca = hook->tls_ca,
                                  .insecure = hook->insecure,
                                  .timeout = hook->timeout};
    if (!hook->url && !hook->url_file)
        return err_set(e, ERR_CONFIG, 0, "[alert.webhook] has no url");
    SCOPED(xfree) char *body = depth == REQUEST_SEND ? webhook_body(hook->format, m) : NULL;
    return http_request(&t, hook->url_file, NULL, body, depth, r, e);
}

int webhook_heartbeat(const struct config *c, enum request_depth depth, const char *end,
                      struct request_result *r, struct err *e)
{
    const struct curl_target t = {.key = c->heartbeat_url_file ? "[heartbeat] url_file"
                                                               : "[heartbeat] url",
                                  .url = c->heartbeat_url,
                                  .protocols = "http,https",
                                  .insecure = c->heartbeat_insecure,
                                  .timeout = c->heartbeat_timeout};
    if (!c->heartbeat_url && !c->heartbeat_url_file)
        return err_set(e, ERR_CONFIG, 0, "[heartbeat] has no url");
    return http_request(&t, c->heartbeat_url_file, end, NULL, depth, r, e);
}
