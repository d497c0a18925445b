#include "notify/webhook.h"

#include "notify/alert.h"

#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "net/curl_request.h"
#include "notify/template.h"

/* Texts contain names that the server chose. They are escaped as required by services that render
 * markup. Plain JSON needs only its own escaping. */

/* Services reject bodies of several megabytes. Alerts that do not fit are counted instead. */
#define ALERTS_BYTES 262144 /* most JSON of alerts in one request */
#define ANSWER_CAP 65536    /* most bytes read of an answer, and of its headers */
#define ANSWER_KEPT 4096    /* bytes of an answer that are searched for a text to quote */
#define DISCORD_MAX 2000
#define TEMPLATE_MAX 16384 /* bytes of a template file or a header file */
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

/* Appends as much of the message as fits after escaping. */
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

/* Returns the latest alerts that fit, oldest first. An earlier alert that was not sent separately
 * precedes the alert that contains it. *left_out is the number of alerts that did not fit. */
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
        json_object_del(plain, ALERT_RECEIVED);
        json_array_insert_new(out, 0, plain);
        if (json_is_object(earlier))
            json_array_insert(out, 0, earlier);
    }
    *left_out = i;
    return out;
}

/* "format" changes only if the meaning of a key changes. New keys may be added at any time. */
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

/* Escapes the three characters that start links and mentions in Slack's markup. */
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
    struct buf first;     /* first bytes of the answer, for quoting */
    size_t size, headers; /* bytes received of body and headers */
};

/* Returns 0 to make libcurl abort, so that a server cannot send headers without end. */
static size_t webhook_on_header(char *data, size_t size, size_t n, void *arg)
{
    struct answer *a = arg;
    (void)data;
    a->headers += size * n;
    return a->headers > ANSWER_CAP ? 0 : size * n;
}

static size_t webhook_on_body(char *data, size_t size, size_t n, void *arg)
{
    struct answer *a = arg;
    size_t len = size * n;
    a->size += len;
    size_t room = ANSWER_KEPT - a->first.len;
    buf_add(&a->first, data, len < room ? len : room);
    return a->size > ANSWER_CAP ? 0 : len;
}

/* Runs the request. A 2xx status is a success if the whole body was sent, even if the rest of the
 * answer fails (a server may answer before it has read the body). Otherwise a server whose answers
 * always break later (too long, too short, never ending) would be sent the same message forever. */
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
    /* An answer that is too long is aborted, but its status still counts. */
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
            err_hint(e, "check the URL and the format; the message stays queued and is retried");
        }
        result = -1;
    } else if (rc != CURLE_OK)
        buf_adds(&quoted, ", and its answer broke off there");
    if (rc == CURLE_OK || ended || r->accepted)
        buf_add(&r->reply, quoted.p, quoted.len);
    buf_free(&a.first);
    return result;
}

/* All parts of a request except its URL. */
struct http_content {
    const char *body;    /* NULL for a GET */
    const char *headers; /* lines of "Name: value"; NULL: none */
    bool put;
    const char *section;  /* config section; NULL: no headers */
    const json_t *values; /* values for placeholders in the URL; NULL: no placeholders */
    const char *template; /* of the body; NULL: none */
};

static struct curl_slist *add_header(struct curl_request *w, struct curl_slist *list,
                                     const char *line)
{
    struct curl_slist *more = w->api->slist_append(list, line);
    return more ? more : list;
}

static bool is_header(const char *line)
{
    size_t n = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");
    return n && line[n] == ':' && line[n + 1] && !strpbrk(line, "\r\n");
}

/* Returns the Content-Type header for a body without one of its own: JSON or plain text. */
static const char *content_type(const char *body)
{
    return strchr("{[", body[strspn(body, " \t\r\n")]) && body[0]
               ? "Content-Type: application/json"
               : "Content-Type: text/plain; charset=utf-8";
}

static bool has_type(const char *headers)
{
    for (const char *s = headers; s && *s; s = strchr(s, '\n') ? strchr(s, '\n') + 1 : "")
        if (strncasecmp(s, "Content-Type:", 13) == 0)
            return true;
    return false;
}

/* Adds the configured headers. Error texts never repeat their values, which may be secrets. */
static int own_headers(struct curl_request *w, const struct http_content *c,
                       struct curl_slist **list, struct err *e)
{
    for (const char *s = c->headers; s && *s;) {
        size_t n = strcspn(s, "\r\n");
        SCOPED(xfree) char *line = xstrndup(s, n);
        if (n && !is_header(line)) {
            err_set(e, ERR_CONFIG, 0, "[%s]: a header is not \"Name: value\"", c->section);
            return err_hint(e, "such as header = Priority: high");
        }
        if (n) {
            *list = add_header(w, *list, line);
            curl_request_secret(w, line + strcspn(line, ":") + 1 +
                                       (line[strcspn(line, ":") + 1] == ' '));
        }
        wipe_free(line);
        line = NULL;
        s += n + strspn(s + n, "\r\n");
    }
    return 0;
}

static int set_content(struct curl_request *w, const struct http_content *c,
                       struct curl_slist **headers, struct err *e)
{
    if (!has_type(c->headers))
        *headers = add_header(w, *headers, content_type(c->body));
    *headers = add_header(w, *headers, "Expect:"); /* do not wait for "100 Continue" */
    if (own_headers(w, c, headers, e) < 0)
        return -1;
    CURL_SET(w, CURLOPT_HTTPHEADER, *headers);
    CURL_SET(w, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(c->body));
    CURL_SET(w, CURLOPT_POSTFIELDS, c->body);
    if (c->put)
        CURL_SET(w, CURLOPT_CUSTOMREQUEST, "PUT");
    return 0;
}

/* Sends to the URL of `t` or of the file. `end` (may be NULL) is appended to the URL's path. */
static int http_request(const struct curl_target *t, const char *url_file, const char *end,
                        const struct http_content *c, enum request_depth depth,
                        struct request_result *r, struct err *e)
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
        /* `end` is inserted after the path and before a query. */
        size_t path = strcspn(target.url, "?#"), kept = path;
        while (kept > 0 && target.url[kept - 1] == '/')
            kept--;
        buf_add(&whole, target.url, kept);
        buf_adds(&whole, end);
        buf_adds(&whole, target.url + path);
        target.url = whole.p;
    }
    if (rc == 0 && c->values) {
        rc = template_fill(&whole, target.url, TEMPLATE_FORM, c->values, e);
        target.url = whole.p;
        if (rc < 0)
            err_step(e, "%s", t->key);
    }
    if (rc == 0)
        rc = curl_request_open(&w, &target, e);
    buf_free(&whole);
    buf_free(&secret); /* the request has its own copy */
    if (rc == 0) {
        CURL_SET(&w, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        CURL_SET(&w, CURLOPT_USERAGENT, "worldkeeper/" WK_VERSION);
        CURL_SET(&w, CURLOPT_WRITEFUNCTION, webhook_on_body);
        CURL_SET(&w, CURLOPT_HEADERFUNCTION, webhook_on_header);
    }
    if (rc == 0 && c->template) {
        SCOPED(buf_free) struct buf own = {.secret = true};
        template_constants(&own, c->template);
        curl_request_secret(&w, own.p);
    }
    if (rc == 0 && c->body)
        rc = set_content(&w, c, &headers, e);
    if (rc == 0)
        rc = depth == REQUEST_SEND ? request_run(&w, c->body ? strlen(c->body) : 0, r, e)
                                   : curl_request_try(&w, depth == REQUEST_CONNECT, e);
    curl_request_close(&w);
    if (headers)
        w.api->slist_free_all(headers);
    return rc;
}

/* The settings that the config stores in files. */
struct webhook_files {
    struct buf body, headers; /* both end with a NUL; secret */
};

static int read_files(const struct config_webhook *hook, struct webhook_files *f, struct err *e)
{
    f->headers.secret = true;
    if (hook->body_file && file_read_secret_lines(hook->body_file, TEMPLATE_MAX, &f->body, e) < 0)
        return err_step(e, "[%s] body_file", hook->section);
    if (hook->header_file &&
        file_read_secret_lines(hook->header_file, TEMPLATE_MAX, &f->headers, e) < 0)
        return err_step(e, "[%s] header_file", hook->section);
    if (hook->header)
        buf_printf(&f->headers, "\n%s", hook->header);
    if ((f->body.p && !text_utf8_valid(f->body.p, f->body.len)) ||
        (f->headers.p && !text_utf8_valid(f->headers.p, f->headers.len)))
        return err_set(e, ERR_CONFIG, 0, "[%s]: a template or header is not UTF-8 text",
                       hook->section);
    return 0;
}

/* Sends one request. The format or the template makes the body of `m`. */
static int webhook_send_one(const struct config *cfg, const struct config_webhook *hook,
                            const struct curl_target *t, const char *template, const char *headers,
                            enum request_depth depth, const struct message *m,
                            struct request_result *r, struct err *e)
{
    /* The template is filled even without a message, to check that each placeholder is known. */
    static const char form[] = "x-www-form-urlencoded";
    json_auto_t *none = json_pack("[{}]");
    struct message empty = {none, 0, 0};
    json_auto_t *values = template ? template_values(m ? m : &empty, cfg->alert_url) : NULL;
    SCOPED(buf_free) struct buf filled = {.secret = true};
    SCOPED(xfree) char *body = !template && m ? webhook_body(hook->format, m) : NULL;
    if (template) {
        enum template_escape escape = headers && strstr(headers, form)         ? TEMPLATE_FORM
                                      : strstr(content_type(template), "json") ? TEMPLATE_JSON
                                                                               : TEMPLATE_TEXT;
        if (template_fill(&filled, template, escape, values, e) < 0)
            return err_step(e, "[%s] body", hook->section);
    }
    struct http_content c = {.body = template ? filled.p : body,
                             .headers = headers,
                             .put = hook->put,
                             .section = hook->section,
                             .values = values,
                             .template = template};
    return http_request(t, hook->url_file, NULL, &c, depth, r, e);
}

/* A service that tracks incidents needs each alert separately, so waiting alerts are sent one by
 * one. Each is reported when it is accepted, so that a retry sends only those after it. */
static int send_each(const struct config *cfg, const struct config_webhook *hook,
                     const struct curl_target *t, const char *template, const char *headers,
                     const struct message *m, const struct request_progress *p,
                     struct request_result *r, struct err *e)
{
    json_t *a;
    size_t i;
    json_array_foreach(m->alerts, i, a)
    {
        json_auto_t *list = json_pack("[O]", a);
        struct message one = {list, i ? 0 : m->dropped, i ? 0 : m->damaged};
        request_result_free(r);
        if (webhook_send_one(cfg, hook, t, template, headers, REQUEST_SEND, &one, r, e) < 0) {
            r->accepted = false;
            return -1;
        }
        if (p)
            p->alert(p->arg, (unsigned)i + 1);
    }
    return 0;
}

int webhook_request(const struct config *c, const struct config_webhook *hook,
                    enum request_depth depth, const struct message *m,
                    const struct request_progress *p, struct request_result *r, struct err *e)
{
    SCOPED(xfree) char *key =
        xasprintf("[%s] %s", hook->section, hook->url_file ? "url_file" : "url");
    const struct curl_target t = {.key = key,
                                  .url = hook->url,
                                  .protocols = "http,https",
                                  .tls_ca = hook->tls_ca,
                                  .insecure = hook->insecure,
                                  .timeout = hook->timeout};
    if (!hook->url && !hook->url_file)
        return err_set(e, ERR_CONFIG, 0, "[%s] has no url", hook->section);
    struct webhook_files f = {0};
    int rc = read_files(hook, &f, e);
    const char *template = hook->body_file ? f.body.p : hook->body;
    if (rc == 0 && template && depth == REQUEST_SEND && template_each(template))
        rc = send_each(c, hook, &t, template, f.headers.p, m, p, r, e);
    else if (rc == 0)
        rc = webhook_send_one(c, hook, &t, template, f.headers.p, depth,
                              depth == REQUEST_SEND ? m : NULL, r, e);
    buf_free(&f.body);
    buf_free(&f.headers);
    return rc;
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
    return http_request(&t, c->heartbeat_url_file, end, &(struct http_content){0}, depth, r, e);
}
