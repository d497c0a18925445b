/* Webhook and heartbeat against a small scripted HTTP server, and whole deliveries from the queue.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <cmocka.h>

#include "alert_kit.h"
#include "base/file.h"
#include "dir_kit.h"
#include "fake_clock.h"
#include "notify/outbox.h"
#include "notify/template.h"
#include "tiny_server.h"

#define SECRET "/services/T0CANARY1/B0CANARY2/xxCANARYxx3"
static char world[] = "s8", url[128], section[] = "alert.webhook";

static struct config config(int port)
{
    struct config c = {.name = world, .alert_events = EVENT_ALL};
    snprintf(url, sizeof url, "http://127.0.0.1:%d" SECRET "?key=CANARY4", port);
    c.webhooks[0].section = section;
    c.webhooks[0].url = c.heartbeat_url = url;
    c.webhooks[0].timeout = c.heartbeat_timeout = 800;
    return c;
}

/* Reads one request into the log: line, headers, body. */
static void read_request(FILE *in, int log)
{
    char line[4096];
    size_t length = 0;
    while (fgets(line, sizeof line, in) && strcmp(line, "\r\n") != 0) {
        tiny_log(log, line);
        if (strncasecmp(line, "Content-Length:", 15) == 0)
            length = strtoul(line + 15, NULL, 10);
    }
    char *body = calloc(length + 2, 1);
    if (!body || fread(body, 1, length, in) != length)
        _exit(1);
    body[length] = '\n';
    tiny_log(log, body);
    free(body);
}

static void http_serve(FILE *in, int conn, int log, const char *mode)
{
    static const struct {
        const char *mode, *answer;
    } answers[] = {
        {"ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
        {"no content", "HTTP/1.1 204 No Content\r\n\r\n"},
        {"429", "HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"},
        {"429 long", "HTTP/1.1 429 Too Many\r\nRetry-After: 99999999\r\nContent-Length: 0\r\n\r\n"},
        {"500", "HTTP/1.1 500 Oops\r\nContent-Length: 12\r\n\r\ntry \x1b[1m later"},
        {"redirect",
         "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n"},
        {"loop", "HTTP/1.1 307 T\r\nLocation: " SECRET "\r\nContent-Length: 0\r\n\r\n"},
        {"404 echo", "HTTP/1.1 404 N\r\n\r\nno such page: " SECRET},
        {"404 part", "HTTP/1.1 404 N\r\n\r\nno such hook: xxCANARYxx3"},
        {"400 key", "HTTP/1.1 400 N\r\n\r\nkey TOKENCANARY5678 is unknown"},
        {"400 part", "HTTP/1.1 400 N\r\n\r\nkey ending in ANARY5678 is unknown"},
        {"400 name", "HTTP/1.1 400 N\r\n\r\nrouting_key is unknown to event_action trigger"},
        {"403", "HTTP/1.1 403 N\r\n\r\ninvalid_token\r\n"},
        {"html", "HTTP/1.1 404 N\r\n\r\n<html><style>p</style><p>none\n<b>here</b></html>"},
        {"json",
         "HTTP/1.1 400 N\r\n\r\n{\"message\": \"Cannot send an empty message\", \"code\": 50006}"},
        {"garbage", "\x01\x02\x03\r\n\r\n"},
        {"cut", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nfew"},
        {"cut 500", "HTTP/1.1 500 O\r\nContent-Length: 50\r\n\r\nfew"},
        {"malformed", "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nok"},
    };
    read_request(in, log);
    if (strcmp(mode, "silent") == 0)
        sleep(60);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (strcmp(mode, answers[i].mode) == 0)
            tiny_say(conn, answers[i].answer);
    if (strcmp(mode, "headers") == 0)
        tiny_say(conn, "HTTP/1.1 200 OK\r\n");
    while (strcmp(mode, "headers") == 0)
        tiny_say(conn, "X-Again: and again\r\n");
    if (strcmp(mode, "huge") == 0 || strcmp(mode, "huge 500") == 0)
        tiny_say(conn,
                 strcmp(mode, "huge") == 0 ? "HTTP/1.1 200 OK\r\n\r\n" : "HTTP/1.1 500 O\r\n\r\n");
    while (strncmp(mode, "huge", 4) == 0)
        tiny_say(conn, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    for (int i = 0; strcmp(mode, "drip") == 0; i++) {
        tiny_say(conn, i ? "X-Some: header\r\n" : "HTTP/1.1 200 OK\r\n");
        usleep(100000);
    }
}

static void expect(const char *mode, int rc, enum err_class cls, const char *text, int64_t wait)
{
    struct tiny t;
    struct err e = {0};
    struct request_result r = {0};
    struct timespec a, b;
    assert_int_equal(tiny_start(&t, http_serve, mode), 0);
    struct config c = config(t.port);
    clock_gettime(CLOCK_MONOTONIC, &a);
    int got = alert_test(&c, ALERT_WEBHOOK, &r, &e);
    clock_gettime(CLOCK_MONOTONIC, &b);
    char *said = tiny_stop(&t);
    const char *told = rc ? e.text : r.reply.p;
    if (got != rc || e.cls != cls || !strstr(told, text))
        fail_msg("%s: %d, %s: %s", mode, got, err_class_name(e.cls), told);
    assert_int_equal(r.retry_after, wait);
    assert_int_equal(r.accepted, rc == 0);
    assert_null(strstr(e.text, "CANARY"));
    assert_null(strstr(e.hint, "CANARY"));
    assert_null(strstr(r.reply.p ? r.reply.p : "", "CANARY"));
    assert_null(strpbrk(e.text, "\x1b\r\n"));
    assert_true(b.tv_sec - a.tv_sec < 3);
    assert_int_equal(tiny_count(said, "POST " SECRET "?key=CANARY4 HTTP/1.1\r\n"), 1);
    assert_int_equal(tiny_count(said, "Content-Type: application/json\r\n"), 1);
    free(said);
    request_result_free(&r);
}

static void test_answers(void **state)
{
    (void)state;
    expect("ok", 0, ERR_NONE, "HTTP 200, ok", 0);
    expect("no content", 0, ERR_NONE, "HTTP 204", 0);
    expect("huge", 0, ERR_NONE, "HTTP 200", 0);
    expect("headers", 0, ERR_NONE, "HTTP 200", 0);
    expect("429", -1, ERR_UNREACHABLE, ": not now: HTTP 429", 7000);
    expect("429 long", -1, ERR_UNREACHABLE, ": not now: HTTP 429", REQUEST_RETRY_AFTER_MAX);
    expect("500", -1, ERR_UNREACHABLE, ": not now: HTTP 500, try ?[1m lat", 0);
    expect("huge 500", -1, ERR_UNREACHABLE, ": not now: HTTP 500", 0);
    expect("redirect", -1, ERR_REFUSED, ": answers with a redirect (HTTP 302), not followed", 0);
    expect("loop", -1, ERR_REFUSED, ": answers with a redirect (HTTP 307), not followed", 0);
    expect("404 echo", -1, ERR_DENIED, ": refused: HTTP 404", 0);
    expect("404 part", -1, ERR_DENIED, ": refused: HTTP 404", 0);
    expect("html", -1, ERR_DENIED, ": refused: HTTP 404, none here", 0);
    expect("json", -1, ERR_DENIED,
           ": refused: HTTP 400, {\"message\": \"Cannot send an empty message\", \"code\": 50006}",
           0);
    expect("403", -1, ERR_DENIED, ": refused: HTTP 403, invalid_token", 0);
    expect("garbage", -1, ERR_UNREACHABLE, "127.0.0.1:", 0);
    expect("cut", 0, ERR_NONE, "HTTP 200, few, and its answer broke off there", 0);
    expect("malformed", 0, ERR_NONE, "HTTP 200", 0);
    expect("cut 500", -1, ERR_UNREACHABLE, "127.0.0.1:", 0);
    expect("silent", -1, ERR_STALLED, "timed out", 0);
    expect("drip", 0, ERR_NONE, "HTTP 200, and its answer broke off there", 0);
}

static void test_no_server(void **state)
{
    (void)state;
    struct config c = config(1);
    struct err e = {0};
    struct request_result r = {0};
    assert_int_equal(alert_test(&c, ALERT_WEBHOOK, &r, &e), -1);
    assert_int_equal(e.cls, ERR_UNREACHABLE);
    assert_null(strstr(e.text, "CANARY"));
    static char bad[][64] = {"file:///etc/CANARY1", "hooks.example.org/CANARY1",
                             "ftp://hooks.example.org/CANARY1", "http://127.0.0.1:99999/CANARY1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        c.webhooks[0].url = bad[i];
        assert_int_equal(alert_request(&c, ALERT_WEBHOOK, REQUEST_CHECK, NULL, NULL, NULL, &e), -1);
        assert_int_equal(e.cls, ERR_CONFIG);
        assert_null(strstr(e.text, "CANARY"));
    }
}

static void test_url_file(void **state)
{
    (void)state;
    struct tiny t;
    struct err e = {0};
    struct request_result r = {0};
    assert_int_equal(tiny_start(&t, http_serve, "ok"), 0);
    struct config c = config(t.port);
    char name[] = "secret-url";
    struct buf full = {0};
    buf_printf(&full, "%s/%s", kit_path, name);
    assert_int_equal(file_publish(kit_dir, name, url, strlen(url), 0600, NULL), 0);
    c.webhooks[0].url = NULL;
    c.webhooks[0].url_file = full.p;
    assert_int_equal(alert_test(&c, ALERT_WEBHOOK, &r, &e), 0);
    assert_int_equal(fchmodat(kit_dir, name, 0640, 0), 0);
    assert_int_equal(alert_request(&c, ALERT_WEBHOOK, REQUEST_CHECK, NULL, NULL, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_CONFIG);
    assert_true(text_starts(e.text, "[alert.webhook] url_file: "));
    free(tiny_stop(&t));
    buf_free(&full);
    request_result_free(&r);
}

/* A template may contain a service's key: no answer that repeats it is quoted. */
static void test_key_in_template(void **state)
{
    (void)state;
    static char templates[][160] = {
        "{\"routing_key\" : \"TOKENCANARY5678\", \"event_action\": \"{state}\", \"text\": "
        "\"{text}\"}",
        "{\"a\": [\"in {world} \\\"{host}TOKENCANARY5678\"], \"priority\": 4}",
        "[{\"message\": \"{text}\"}, \"TOKENCANARY5678",
        "routing_key=TOKENCANARY5678&event_action={text}",
        "event_action={text}\r\ntoken=a=TOKENCANARY5678{id}",
        "{text} TOKENCANARY5678",
    };
    static const char *const modes[] = {"400 key", "400 part", "400 name"};
    for (size_t i = 0; i < sizeof templates / sizeof *templates * 3; i++) {
        struct tiny t;
        struct err e = {0};
        struct request_result r = {0};
        const char *mode = modes[i % 3];
        assert_int_equal(tiny_start(&t, http_serve, mode), 0);
        struct config c = config(t.port);
        SCOPED(xfree) char *file = xasprintf("%s/body", kit_path);
        const char *body = templates[i / 3];
        assert_int_equal(file_publish(kit_dir, "body", body, strlen(body), 0600, NULL), 0);
        if (i % 2)
            c.webhooks[0].body_file = file;
        else
            c.webhooks[0].body = templates[i / 3];
        assert_int_equal(alert_test(&c, ALERT_WEBHOOK, &r, &e), -1);
        char *said = tiny_stop(&t);
        assert_non_null(strstr(said, "TOKENCANARY5678"));
        const char *quoted = strstr(e.text, ": refused: HTTP 400");
        assert_non_null(quoted);
        assert_string_equal(quoted, i % 3 == 2 ? ": refused: HTTP 400, routing_key is unknown to "
                                                 "event_action trigger"
                                               : ": refused: HTTP 400");
        free(said);
        request_result_free(&r);
    }
}

static void test_heartbeat(void **state)
{
    (void)state;
    static const struct {
        const char *mode;
        int rc;
    } table[] = {{"ok", 0},   {"no content", 0}, {"huge", 0},
                 {"500", -1}, {"loop", -1},      {"silent", -1}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct tiny t;
        struct err e = {0};
        assert_int_equal(tiny_start(&t, http_serve, table[i].mode), 0);
        struct config c = config(t.port);
        struct request_result r = {0};
        assert_int_equal(alert_request(&c, ALERT_HEARTBEAT, REQUEST_SEND, NULL, NULL, &r, &e),
                         table[i].rc);
        request_result_free(&r);
        assert_null(strstr(e.text, "CANARY"));
        char *said = tiny_stop(&t);
        assert_int_equal(tiny_count(said, "GET " SECRET "?key=CANARY4 HTTP/1.1\r\n"), 1);
        free(said);
    }
}

/* What waits in an outbox goes as one message; returns how many alerts it held, 0: not
 * delivered. */
static unsigned deliver(struct outbox *o, int port, enum config_format format)
{
    struct config c = config(port);
    struct request_result r = {0};
    struct err e = {0};
    struct message m;
    c.webhooks[0].format = format;
    outbox_begin(o, ALERT_WEBHOOK, true, clock_mono(), &m);
    const unsigned held = (unsigned)json_array_size(m.alerts);
    const bool sent = alert_request(&c, ALERT_WEBHOOK, REQUEST_SEND, &m, NULL, &r, &e) == 0;
    if (sent)
        outbox_sent(o, ALERT_WEBHOOK, clock_mono());
    else
        outbox_failed(o, ALERT_WEBHOOK, 0, clock_mono());
    json_decref((json_t *)(uintptr_t)m.alerts);
    request_result_free(&r);
    return sent ? held : 0;
}

static void add(struct outbox *o, const char *what, int64_t ms)
{
    struct config c = config(1);
    struct alert a = {.event = EVENT_DOWN, .what = what};
    outbox_add(o, &c, alert_compose(&c, &a, (wall_t){ms}));
}

/* Nothing is lost while the server is away, and what has piled up comes as one message, in
 * order. */
static void test_deliver_later(void **state)
{
    (void)state;
    struct tiny t;
    struct outbox o = {0};
    add(&o, "one", 1769903999000);
    assert_int_equal(deliver(&o, 1, WEBHOOK_SLACK), 0);
    add(&o, "two", 1769903999000);
    assert_int_equal(tiny_start(&t, http_serve, "500"), 0);
    assert_int_equal(deliver(&o, t.port, WEBHOOK_SLACK), 0);
    free(tiny_stop(&t));
    assert_int_equal(outbox_waiting(&o, ALERT_WEBHOOK), 2);
    assert_int_equal(tiny_start(&t, http_serve, "ok"), 0);
    assert_int_equal(deliver(&o, t.port, WEBHOOK_SLACK), 2);
    assert_int_equal(outbox_waiting(&o, ALERT_WEBHOOK), 0);
    char *said = tiny_stop(&t);
    assert_int_equal(tiny_count(said, "POST "), 1);
    assert_non_null(strstr(said, "s8 two\\ntwo\\nTime: "));
    assert_non_null(strstr(said, "1 earlier:\\n2026-01-31T23:59:59Z one"));
    free(said);
    kit_outbox_free(&o);
}

/* Killed between the server's yes and the mark: the same message goes again, with the same id. */
static void test_sent_again(void **state)
{
    (void)state;
    struct tiny t;
    struct outbox before = {0}, after = {0};
    add(&before, "one", 1769903999000);
    outbox_given(&before);
    outbox_add_stored(&after, json_deep_copy(before.list[0].json), 1,
                      (bool[ALERT_CHANNELS]){false, true});
    assert_int_equal(tiny_start(&t, http_serve, "ok"), 0);
    assert_int_equal(deliver(&before, t.port, WEBHOOK_JSON), 1);
    assert_int_equal(deliver(&after, t.port, WEBHOOK_JSON), 1);
    char *said = tiny_stop(&t);
    const char *id = strstr(said, "\"id\":\"");
    assert_non_null(id);
    char same[48];
    snprintf(same, sizeof same, "%.39s", id);
    assert_int_equal(tiny_count(said, "POST "), 2);
    assert_int_equal(tiny_count(said, same), 4); /* message and alert, twice */
    free(said);
    kit_outbox_free(&before);
    kit_outbox_free(&after);
}

/* Each value is escaped for the place that it is put into; text is limited in bytes. */
static void test_template(void **state)
{
    (void)state;
    struct err e = {0};
    SCOPED(buf_free) struct buf json = {0}, form = {0}, plain = {0}, bad = {0}, wide = {0};
    json_auto_t *v = json_pack("{s:s, s:s}", "text", "a\"b\\\n\xc3\xa4", "world", "s8");
    assert_int_equal(template_fill(&json, "{\"a\":\"{text}\",\"b\":{}}", TEMPLATE_JSON, v, &e), 0);
    assert_string_equal(json.p, "{\"a\":\"a\\\"b\\\\\\n\xc3\xa4\",\"b\":{}}");
    assert_int_equal(template_fill(&form, "x={text}&{", TEMPLATE_FORM, v, &e), 0);
    assert_string_equal(form.p, "x=a%22b%5C%0A%C3%A4&{");
    assert_int_equal(template_fill(&plain, "{world}{world}", TEMPLATE_TEXT, v, &e), 0);
    assert_string_equal(plain.p, "s8s8");
    assert_int_equal(template_fill(&bad, "{subjekt}", TEMPLATE_TEXT, v, &e), -1);
    assert_non_null(strstr(e.text, "{subjekt} is not a known placeholder; allowed: {subject}, "));
    assert_true(template_each("{state}") && template_each("{dedup_key}") &&
                !template_each("{text}"));
    for (int i = 0; i < 500; i++)
        buf_adds(&wide, "\xe6\x98\x9f");
    json_auto_t *list = json_array();
    for (int i = 0; i < 20; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "event", "down", "kind",
                                              "new", "world", "s8", "what", wide.p));
    struct message m = {list, 0, 0};
    json_auto_t *values = template_values(&m, NULL);
    assert_in_range(json_string_length(json_object_get(values, "text")), 500, TEMPLATE_TEXT_MAX);
    assert_string_equal(json_string_value(json_object_get(values, "severity")), "critical");
    assert_string_equal(json_string_value(json_object_get(values, "state")), "trigger");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_template),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_no_server),
        cmocka_unit_test_teardown(test_url_file, kit_clean),
        cmocka_unit_test_teardown(test_key_in_template, kit_clean),
        cmocka_unit_test(test_heartbeat),
        cmocka_unit_test(test_deliver_later),
        cmocka_unit_test(test_sent_again),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
