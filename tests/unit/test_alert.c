/* Composing alerts: their texts, the webhook formats, and the pacing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fake_clock.h"
#include "notify/alert.h"
#include "notify/message.h"
#include "notify/webhook.h"
static char world[] = "s8", hook[] = "http://127.0.0.1/";

static const struct config *config(void)
{
    static struct config c;
    c.name = world;
    c.webhooks[0].url = hook;
    c.alert_events = EVENT_DOWN | EVENT_RESTORED;
    return &c;
}

static json_t *make(const char *what, const char *kind)
{
    struct alert a = {.event = EVENT_RESTORED,
                      .kind = kind,
                      .what = what,
                      .doing = "probing every second",
                      .todo = "nothing"};
    a.facts =
        json_pack("{s:s, s:i, s:b, s:n, s:s, s:f, s:{s:i, s:s, s:s}}", "dump", "s8-000002-00000043",
                  "rows", 50000, "whole", 1, "lost_seconds", "conflict_file", "", "outage_seconds",
                  4.2, "journal", "changes", 1031, "nonce", "0a8d", "gap", "");
    json_t *j = alert_compose(config(), &a, (wall_t){1769903999000});
    json_decref(a.facts);
    return j;
}

static const char *field(const json_t *j, const char *key)
{
    return json_string_value(json_object_get(j, key));
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(config_event_name(EVENT_DOWN), "down");
    assert_string_equal(config_event_name(EVENT_STARTED), "started");
    assert_null(config_event_name(0));
    assert_null(config_event_name(EVENT_ALL));
    for (unsigned bit = 1; bit < EVENT_ALL; bit <<= 1)
        assert_non_null(config_event_name(bit));
    assert_string_equal(alert_channel_name(config(), ALERT_SMTP), "smtp");
    assert_string_equal(alert_channel_name(config(), ALERT_WEBHOOK), "webhook");
    assert_true(alert_wanted(config(), EVENT_DOWN));
    assert_false(alert_wanted(config(), EVENT_DISK));
    struct config off = {.alert_events = EVENT_ALL};
    assert_false(alert_wanted(&off, EVENT_DOWN));
}

static void test_compose(void **state)
{
    (void)state;
    json_t *j = make("RESTORED from s8-000002-00000043 in 3.1 s", NULL);
    assert_string_equal(field(j, "event"), "restored");
    assert_string_equal(field(j, "kind"), "new");
    assert_string_equal(field(j, "world"), "s8");
    assert_string_equal(field(j, "at"), "2026-01-31T23:59:59Z");
    assert_string_equal(field(j, "what"), "RESTORED from s8-000002-00000043 in 3.1 s");
    assert_string_equal(field(j, "todo"), "nothing");
    assert_int_equal(json_integer_value(json_object_get(j, "at_unix")), 1769903999);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "facts"), "rows")),
                     50000);
    assert_int_equal(strlen(field(j, "id")), 32);
    json_t *k = make("again", NULL);
    assert_string_not_equal(field(j, "id"), field(k, "id"));
    json_decref(k);
    json_decref(j);
    j = alert_compose(config(), &(struct alert){.what = "a message"}, (wall_t){0});
    assert_string_equal(field(j, "event"), "test");
    json_decref(j);
}

/* Whatever the server put into a name: one clean, limited line of valid UTF-8. */
static void test_compose_untrusted(void **state)
{
    (void)state;
    char *big = malloc(200001);
    assert_non_null(big);
    memset(big, '"', 200000);
    big[200000] = '\0';
    struct alert a = {.event = EVENT_DISCARDED,
                      .what = "table 'a\r\nBcc: x@example.org' \xff\xfe\xe2\x82 \x1b[31m",
                      .doing = big,
                      .todo = NULL};
    a.facts = json_object();
    json_object_set_new(a.facts, "k\n\x01", json_string("v\r\nInjected: yes"));
    json_object_set_new(a.facts, "list", json_pack("[s, s]", "one", "two"));
    json_object_set_new(a.facts, "journal", json_pack("{s:i, s:s}", "changes", 3, "gap", ""));
    json_object_set_new(a.facts, "big", json_string(big));
    for (int i = 0; i < 200; i++) {
        char key[32];
        snprintf(key, sizeof key, "fact %d", i);
        json_object_set_new(a.facts, key, json_integer(i));
    }
    json_t *j = alert_compose(config(), &a, (wall_t){0});
    assert_string_equal(field(j, "what"), "table 'a  Bcc: x@example.org' ???? ?[31m");
    assert_string_equal(field(j, "todo"), "");
    assert_in_range(strlen(field(j, "doing")), 900, 1003);
    json_t *facts = json_object_get(j, "facts");
    assert_int_equal(json_object_size(facts), 40);
    assert_string_equal(field(facts, "k??"), "v  Injected: yes");
    assert_string_equal(field(facts, "list"), "[\"one\",\"two\"]");
    assert_null(json_object_get(facts, "journal"));
    assert_int_equal(json_integer_value(json_object_get(facts, "journal_changes")), 3);
    assert_string_equal(field(facts, "journal_gap"), "");
    char *s = json_dumps(j, 0);
    assert_in_range(strlen(s), 1, 32768);
    free(s);
    json_decref(j);
    json_decref(a.facts);
    free(big);
}

static void expect_subject(const char *what, const char *kind, size_t earlier, const char *expected)
{
    json_t *list = json_array();
    for (size_t i = 0; i < earlier; i++)
        json_array_append_new(list, make("earlier", "new"));
    json_array_append_new(list, make(what, kind));
    struct message m = {list, 0, 0};
    struct buf b = {0};
    message_subject(&b, &m);
    assert_string_equal(b.p, expected);
    buf_free(&b);
    json_decref(list);
}

static void test_subject(void **state)
{
    (void)state;
    expect_subject("RESTORED from s8-000002-00000043 in 3.1 s", "new", 0,
                   "s8 RESTORED from s8-000002-00000043 in 3.1 s");
    expect_subject("WAITING for the server", "reminder", 0, "s8 still WAITING for the server");
    expect_subject("UP", "recovered", 3, "s8 UP (+3 earlier)");
    expect_subject("a\nb", "new", 0, "s8 a b");
    expect_subject("\xc3\xa4\xc3\xb6", "new", 0, "s8 \xc3\xa4\xc3\xb6");
    expect_subject("dump failed: cannot connect: no", "new", 0, "s8 dump failed");
    expect_subject("table planets was dropped at 21:03:10; no journal: more", "new", 0,
                   "s8 table planets was dropped at 21:03:10");
}

/* The world's own state leads; what else came is told after it. */
static void test_lead(void **state)
{
    (void)state;
    json_t *list = json_pack("[o, o, o]", make("one thing", NULL), make("BACK", NULL),
                             make("another thing", NULL));
    json_object_set_new(json_array_get(list, 0), "event", json_string("disk"));
    json_object_set_new(json_array_get(list, 2), "event", json_string("discarded"));
    struct message m = {list, 0, 0};
    struct buf b = {0};
    message_subject(&b, &m);
    assert_string_equal(b.p, "s8 BACK (+2 more)");
    buf_clear(&b);
    message_text(&b, &m, 65536);
    assert_true(text_starts(b.p, "What happened  BACK\n"));
    const char *rest = strstr(b.p, "--- 2 more, oldest first ---\n");
    assert_true(rest && strstr(strstr(rest, "one thing"), "another thing"));
    buf_clear(&b);
    message_chat(&b, &m, 2000);
    assert_true(text_starts(b.p, "s8 BACK\n") && strstr(b.p, "another thing"));
    buf_clear(&b);
    message_id(&b, &m);
    assert_string_equal(b.p, field(json_array_get(list, 2), "id"));
    buf_free(&b);
    json_decref(list);
}

/* A dump fails because of a dropped table: the subject names the table. Other failed dumps lead as
 * the newest alert does. */
static void test_lead_of_a_failed_dump(void **state)
{
    (void)state;
    for (unsigned undoable = 0; undoable < 2; undoable++) {
        json_t *list =
            json_pack("[o, o]", make("table a dropped", NULL), make("dump failed", NULL));
        json_object_set_new(json_array_get(list, 0), "event", json_string("journal"));
        json_object_set_new(json_array_get(list, 0), "commands",
                            undoable ? json_pack("[s]", "x") : json_array());
        json_object_set_new(json_array_get(list, 1), "event", json_string("discarded"));
        struct message m = {list, 0, 0};
        struct buf b = {0};
        message_subject(&b, &m);
        assert_string_equal(b.p, undoable ? "s8 table a dropped (+1 more)"
                                          : "s8 dump failed (+1 earlier)");
        /* Lost rows are alerts of the same event, and lead if they are the newest. */
        json_object_set_new(json_array_get(list, 1), "headline", json_string("table b lost rows"));
        buf_clear(&b);
        message_subject(&b, &m);
        assert_string_equal(b.p, "s8 table b lost rows (+1 earlier)");
        buf_free(&b);
        json_decref(list);
    }
}

static void test_subject_long(void **state)
{
    (void)state;
    char what[1201] = "";
    for (int i = 0; i < 300; i++)
        strcat(what, "\xf0\x9f\x8c\x8d");
    json_t *list = json_pack("[o, o]", make("x", NULL), make(what, NULL));
    struct message m = {list, 0, 0};
    struct buf b = {0};
    message_subject(&b, &m);
    assert_true(text_utf8_valid(b.p, b.len));
    size_t chars = 0;
    for (size_t i = 0; i < b.len; i++)
        chars += ((unsigned char)b.p[i] & 0xc0) != 0x80;
    assert_int_equal(chars, MESSAGE_SUBJECT_MAX);
    assert_non_null(strstr(b.p, "... (+1 earlier)"));
    buf_free(&b);
    json_decref(list);
}

static void test_text(void **state)
{
    (void)state;
    json_t *list = json_pack("[o]", make("RESTORED", NULL));
    json_object_set_new(json_array_get(list, 0), "host", json_string("db1"));
    struct message m = {list, 0, 0};
    struct buf b = {0};
    message_text(&b, &m, 65536);
    assert_string_equal(b.p, "What happened  RESTORED\n"
                             "To do          nothing\n"
                             "Being done     probing every second\n"
                             "\n"
                             "World          s8\n"
                             "Host           db1\n"
                             "Time           2026-01-31T23:59:59Z\n"
                             "Event          restored\n"
                             "\n"
                             "Was down for   4.2 s\n"
                             "From dump      s8-000002-00000043\n"
                             "With changes   1,031\n"
                             "Rows           50,000\n");
    buf_free(&b);
    json_decref(list);
}

/* Each command is a line of its own, whole, with what it does above it; what it costs to lose
 * the world now. */
static void test_text_commands(void **state)
{
    (void)state;
    struct alert a = {.event = EVENT_JOURNAL,
                      .what = "table planet was dropped",
                      .doing = "a dump is taken",
                      .exposure = "at most 3 s of play",
                      .todo = "find out who did it; this brings it back: runuser -u worldkeeper -- "
                              "worldkeeper --world s8 "
                              "--restore=s8-000001-00000001-20260131T120000Z --at "
                              "2026-01-31T23:59:59Z --table planet"};
    json_t *list = json_pack("[o]", alert_compose(config(), &a, (wall_t){1769903999000}));
    struct message m = {list, 0, 0};
    SCOPED(buf_free) struct buf b = {0}, chat = {0};
    message_text(&b, &m, 65536);
    assert_true(text_starts(
        b.p,
        "What happened  table planet was dropped\n"
        "To do          find out who did it\n"
        "               this brings it back:\n"
        "    runuser -u worldkeeper -- worldkeeper --world s8 "
        "--restore=s8-000001-00000001-20260131T120000Z --at 2026-01-31T23:59:59Z --table planet\n"
        "Being done     a dump is taken\n"
        "A loss now     at most 3 s of play\n"));
    message_chat(&chat, &m, 2000);
    assert_non_null(
        strstr(chat.p, "\nTo do: find out who did it\nthis brings it back:\nrunuser -u worldkeeper"
                       " -- worldkeeper --world s8 --restore=s8-000001-00000001-20260131T120000Z"
                       " --at 2026-01-31T23:59:59Z --table planet\nBeing done: "));
    /* in a short text it is missing rather than cut */
    buf_clear(&chat);
    message_chat(&chat, &m, 200);
    assert_null(strstr(chat.p, "runuser"));
    json_decref(list);
}

/* UTC, which --at takes, and the time of the machine. */
static void test_text_local_time(void **state)
{
    (void)state;
    setenv("TZ", "CET-1", 1);
    tzset();
    json_t *list = json_pack(
        "[o]", alert_compose(config(), &(struct alert){.what = "x"}, (wall_t){1769903999000}));
    unsetenv("TZ");
    tzset();
    struct message m = {list, 0, 0};
    SCOPED(buf_free) struct buf b = {0};
    message_text(&b, &m, 65536);
    assert_non_null(
        strstr(b.p, "\nTime           2026-01-31T23:59:59Z  (2026-02-01 00:59:59 CET)\n"));
    json_decref(list);
}

static void test_text_folded(void **state)
{
    (void)state;
    json_t *list = json_array();
    char what[32];
    for (int i = 0; i < 3; i++) {
        snprintf(what, sizeof what, "event %d", i);
        json_array_append_new(list, make(what, NULL));
    }
    struct message m = {list, 5, 2};
    struct buf b = {0};
    message_text(&b, &m, 65536);
    assert_true(text_starts(b.p, "What happened  event 2\n"));
    char *p = strstr(b.p, "\n--- 2 earlier, oldest first ---\n"
                          "3 earlier alerts were dropped: too many were waiting.\n"
                          "2 earlier alerts could not be read: set aside in the alerts "
                          "directory (*.bad).\n\n--- 1 of 2 ---\n");
    assert_non_null(p);
    p = strstr(p, "event 0");
    assert_non_null(p);
    p = strstr(p, "\n--- 2 of 2 ---\n");
    assert_non_null(p);
    assert_non_null(strstr(p, "event 1"));
    assert_null(strstr(p, "event 2"));
    buf_free(&b);
    json_decref(list);
}

/* 500 large ones: limited, the newest in full, the order kept, what is missing said. */
static void test_text_capped(void **state)
{
    (void)state;
    json_t *list = json_array();
    char what[900];
    for (int i = 0; i < 500; i++) {
        memset(what, 'x', sizeof what);
        snprintf(what, sizeof what, "event %03d", i);
        what[9] = ' ';
        what[sizeof what - 1] = '\0';
        json_array_append_new(list, make(what, NULL));
    }
    struct message m = {list, 0, 0};
    struct buf b = {0};
    message_text(&b, &m, 65536);
    assert_in_range(b.len, 40000, 65536);
    assert_true(text_starts(b.p, "What happened  event 499"));
    const char *before = strstr(b.p, "--- 499 earlier, oldest first ---\nThe first 4");
    assert_non_null(before);
    assert_non_null(strstr(b.p, "--- 499 of 499 ---\n"));
    assert_null(strstr(b.p, "event 000"));
    int last = -1;
    for (const char *p = before; (p = strstr(p, "event ")); p++) {
        assert_true(atoi(p + 6) > last);
        last = atoi(p + 6);
    }
    buf_free(&b);
    json_decref(list);
}

/* A queue file that somebody edited: anything may be missing or of another type. */
static void test_text_strange(void **state)
{
    (void)state;
    static const char *const strange[] = {
        "{}",
        "{\"what\":1,\"facts\":[1,2],\"world\":null,\"at_unix\":\"x\",\"id\":{}}",
        "{\"what\":\"a\\r\\nb\\u0007\",\"at_unix\":-5,\"id\":\"../../"
        "x\",\"facts\":{\"a\\nb\":{\"c\":[]}}}",
        "{\"what\":\"x\",\"at_unix\":9223372036854775807,\"facts\":{\"\":\"\",\"r\":1.5,\"n\":null}"
        "}",
    };
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        json_t *list = json_array();
        json_array_append_new(list, json_loads(strange[i], 0, NULL));
        struct message m = {list, 1, 1};
        struct buf b = {0};
        message_subject(&b, &m);
        assert_null(strpbrk(b.p, "\r\n"));
        message_text(&b, &m, 65536);
        message_chat(&b, &m, 2000);
        assert_null(strpbrk(b.p, "\r\a"));
        buf_clear(&b);
        message_id(&b, &m);
        assert_int_equal(strspn(b.p, "0123456789abcdef"), b.len);
        for (int f = WEBHOOK_JSON; f <= WEBHOOK_DISCORD; f++) {
            char *s = webhook_body((enum config_format)f, &m);
            json_t *j = json_loads(s, 0, NULL);
            assert_non_null(j);
            json_decref(j);
            free(s);
        }
        assert_in_range(message_time(&m).ms, 0, INT64_C(253402300800000));
        buf_free(&b);
        json_decref(list);
    }
}

static json_t *body(enum config_format format, const json_t *list)
{
    struct message m = {list, 0, 0};
    char *s = webhook_body(format, &m);
    json_t *j = json_loads(s, 0, NULL);
    assert_non_null(j);
    free(s);
    return j;
}

static void test_webhook_json(void **state)
{
    (void)state;
    json_t *list = json_pack("[o, o]", make("first", NULL), make("second", "reminder"));
    json_t *j = body(WEBHOOK_JSON, list);
    assert_int_equal(json_array_size(json_object_get(j, "alerts")), 2);
    assert_true(json_equal(json_object_get(j, "alerts"), list));
    assert_string_equal(field(j, "id"), field(json_array_get(list, 1), "id"));
    assert_string_equal(field(j, "world"), "s8");
    assert_string_equal(field(j, "kind"), "reminder");
    assert_non_null(strstr(field(j, "text"), "s8 still second\n"));
    assert_non_null(strstr(field(j, "text"), "1 earlier:\n2026-01-31T23:59:59Z first"));
    json_decref(j);
    json_decref(list);
}

static void test_webhook_slack(void **state)
{
    (void)state;
    json_t *list = json_pack("[o]", make("<!channel> a & b > c <http://x|y>", NULL));
    json_t *j = body(WEBHOOK_SLACK, list);
    assert_int_equal(json_object_size(j), 1);
    assert_non_null(strstr(field(j, "text"),
                           "\n&lt;!channel&gt; a &amp; b &gt; c &lt;http://x|y&gt;\nTo do: "));
    assert_null(strpbrk(field(j, "text"), "<>"));
    json_decref(j);
    json_decref(list);
}

static void test_webhook_discord(void **state)
{
    (void)state;
    char big[3001] = "@everyone ";
    for (int i = 0; i < 700; i++)
        strcat(big, "\xf0\x9f\x8c\x8d");
    json_t *list = json_array();
    for (int i = 0; i < 300; i++)
        json_array_append_new(list, make(big, NULL));
    for (int i = 0; i < 40; i++) {
        char key[16];
        snprintf(key, sizeof key, "f%d", i);
        json_object_set_new(json_object_get(json_array_get(list, 299), "facts"), key,
                            json_string(big));
    }
    json_t *j = body(WEBHOOK_DISCORD, list);
    const char *s = field(j, "content");
    size_t units = 0;
    for (const char *p = s; *p; p++)
        units += ((unsigned char)*p & 0xc0) == 0x80 ? 0U : (unsigned char)*p >= 0xf0 ? 2U : 1U;
    assert_in_range(units, 1000, 2000);
    json_t *mentions = json_object_get(j, "allowed_mentions");
    assert_true(json_is_array(json_object_get(mentions, "parse")));
    assert_int_equal(json_array_size(json_object_get(mentions, "parse")), 0);
    assert_non_null(strstr(s, "299 earlier, the last ones:\n"));
    json_decref(j);
    json_decref(list);
}

/* What the server repeats of a player's name is shown as it is: no link under other words, no code,
 * nothing hidden. */
static void test_webhook_discord_markup(void **state)
{
    (void)state;
    char full[1001] = "";
    json_t *list =
        json_pack("[o]", make("'[log in](http://x) ||a|| *b* _c_ ~d~ `e` \\ <#1>'", NULL));
    json_t *j = body(WEBHOOK_DISCORD, list);
    assert_non_null(strstr(field(j, "content"),
                           "\n'\\[log in\\](http://x) \\|\\|a\\|\\| \\*b\\* \\_c\\_ \\~d\\~ "
                           "\\`e\\` \\\\ \\<#1>'\nTo do: "));
    json_decref(j);
    json_decref(list);
    memset(full, '*', sizeof full - 1);
    list = json_pack("[o, o]", make(full, NULL), make(full, NULL));
    for (int i = 0; i < 10; i++) {
        char key[16];
        snprintf(key, sizeof key, "f%d", i);
        json_object_set_new(json_object_get(json_array_get(list, 1), "facts"), key,
                            json_string(full));
    }
    j = body(WEBHOOK_DISCORD, list);
    assert_in_range(strlen(field(j, "content")), 1000, 2000);
    assert_non_null(strstr(field(j, "content"), "\nTo do: nothing\n"));
    json_decref(j);
    json_decref(list);
}

/* A large fold is limited in every format; the newest are what stays. */
static void test_webhook_capped(void **state)
{
    (void)state;
    json_t *list = json_array();
    char big[1001];
    memset(big, 'x', 1000);
    big[1000] = '\0';
    for (int i = 0; i < 500; i++)
        json_array_append_new(list, make(big, NULL));
    json_t *j = body(WEBHOOK_JSON, list);
    size_t kept = json_array_size(json_object_get(j, "alerts"));
    assert_in_range(kept, 100, 300);
    assert_int_equal(json_integer_value(json_object_get(j, "left_out")), 500 - kept);
    assert_string_equal(field(json_array_get(json_object_get(j, "alerts"), kept - 1), "id"),
                        field(json_array_get(list, 499), "id"));
    char *s = json_dumps(j, JSON_COMPACT);
    assert_in_range(strlen(s), 1, 280000);
    free(s);
    json_decref(j);
    json_decref(list);
}

/* What had no message of its own: a line for people, an alert of its own for scripts; where it is
 * the first of its incident, the message takes its place. */
static void test_earlier(void **state)
{
    (void)state;
    struct alert first = {.event = EVENT_RESTORING, .what = "restoring it"};
    json_t *earlier = alert_compose(config(), &first, (wall_t){1769903998000});
    char incident[64];
    snprintf(incident, sizeof incident, "%s", field(earlier, "incident"));
    assert_string_equal(field(earlier, "id"), incident);
    struct alert last = {.event = EVENT_RESTORED,
                         .headline = "BACK, nothing lost",
                         .what = "it is back: whole",
                         .incident = incident,
                         .earlier = earlier};
    json_t *list = json_pack("[o]", alert_compose(config(), &last, (wall_t){1769903999000}));
    json_t *alert = json_array_get(list, 0);
    assert_string_equal(field(alert, "id"), incident);
    assert_string_equal(field(alert, "headline"), "BACK, nothing lost");
    assert_string_not_equal(field(json_object_get(alert, "earlier"), "id"), incident);
    struct message m = {list, 0, 0};
    struct buf b = {0};
    message_subject(&b, &m);
    assert_string_equal(b.p, "s8 BACK, nothing lost");
    buf_clear(&b);
    message_text(&b, &m, 65536);
    assert_non_null(strstr(b.p, "\nBefore         2026-01-31T23:59:58Z  restoring it\n"));
    json_t *j = body(WEBHOOK_JSON, list), *both = json_object_get(j, "alerts");
    assert_int_equal(json_array_size(both), 2);
    assert_string_equal(field(json_array_get(both, 0), "event"), "restoring");
    assert_string_equal(field(json_array_get(both, 1), "event"), "restored");
    assert_null(json_object_get(json_array_get(both, 1), "earlier"));
    buf_free(&b);
    json_decref(j);
    json_decref(list);
}

/* A file that a version without headlines and incidents has left in the queue. */
static void test_of_an_older_version(void **state)
{
    (void)state;
    json_t *list =
        json_pack("[{s:s, s:s, s:s, s:s, s:s}]", "id", "abc", "kind", "reminder", "world", "s8",
                  "event", "discarded", "what", "dump failed: no room: none");
    struct message m = {list, 0, 0};
    struct buf b = {0};
    message_subject(&b, &m);
    assert_string_equal(b.p, "s8 still dump failed");
    buf_clear(&b);
    message_incident(&b, json_array_get(list, 0));
    assert_string_equal(b.p, "");
    buf_free(&b);
    json_decref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_compose),
        cmocka_unit_test(test_compose_untrusted),
        cmocka_unit_test(test_subject),
        cmocka_unit_test(test_lead),
        cmocka_unit_test(test_lead_of_a_failed_dump),
        cmocka_unit_test(test_subject_long),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_text_commands),
        cmocka_unit_test(test_text_local_time),
        cmocka_unit_test(test_text_folded),
        cmocka_unit_test(test_text_capped),
        cmocka_unit_test(test_text_strange),
        cmocka_unit_test(test_webhook_json),
        cmocka_unit_test(test_webhook_slack),
        cmocka_unit_test(test_webhook_discord),
        cmocka_unit_test(test_webhook_discord_markup),
        cmocka_unit_test(test_webhook_capped),
        cmocka_unit_test(test_earlier),
        cmocka_unit_test(test_of_an_older_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
