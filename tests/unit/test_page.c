/* Templates and pages, from config, status and history, with text that tries to be markup. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "page/page.h"

#define HOSTILE "<b>&\"'{{x}}</b>"
#define ESCAPED "&lt;b&gt;&amp;&quot;&#39;{{x}}&lt;/b&gt;"

static json_t *parsed(const char *text)
{
    json_t *o = json_loads(text, 0, NULL);
    assert_non_null(o);
    return o;
}

static void test_fill(void **state)
{
    static const struct {
        const char *template_text, *values, *page;
    } cases[] = {
        {"", "{}", ""},
        {"as it is }} {", "{}", "as it is }} {"},
        {"<{{a}}>", "{\"a\":\"x\"}", "<x>"},
        {"<{{a}}>", "{}", "<>"},
        {"<{{a}}{{a}}>", "{\"a\":-7}", "<-7-7>"},
        {"{{a}}", "{\"a\":null}", ""},
        {"{{a}}", "{\"a\":[1]}", ""},
        /* a section is there where the value is */
        {"[{{#a}}yes{{/a}}]", "{\"a\":true}", "[yes]"},
        {"[{{#a}}yes{{/a}}]", "{\"a\":false}", "[]"},
        {"[{{#a}}yes{{/a}}]", "{\"a\":0}", "[yes]"},
        {"[{{#a}}yes{{/a}}]", "{\"a\":\"\"}", "[]"},
        {"[{{#a}}<{{a}}>{{/a}}]", "{\"a\":\"x\"}", "[<x>]"},
        {"[{{#a}}yes{{/a}}]", "{}", "[]"},
        {"[{{#a}}yes{{/a}}]", "{\"a\":[]}", "[]"},
        /* once for each, with what stands around them */
        {"{{#a}}{{n}}{{w}},{{/a}}.", "{\"a\":[{\"n\":1},{\"n\":2,\"w\":\"own\"}],\"w\":\"w\"}",
         "1w,2own,."},
        {"{{#a}}{{#n}}({{n}}){{/n}}{{/a}}", "{\"a\":[{\"n\":\"x\"},{},{\"n\":\"y\"}]}", "(x)(y)"},
        {"{{#a}}1{{/a}}{{#b}}2{{/b}}{{c}}", "{\"b\":true,\"c\":3}", "23"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        SCOPED(buf_free) struct buf out = {0};
        json_t *values = parsed(cases[i].values);
        buf_adds(&out, "");
        page_fill(&out, cases[i].template_text, values);
        assert_string_equal(out.p, cases[i].page);
        json_decref(values);
    }
}

/* A value is text, whatever stands in it, and no template. */
static void test_escape(void **state)
{
    SCOPED(buf_free) struct buf out = {0};
    json_t *values = json_pack("{s:s, s:s}", "a", HOSTILE, "x", "never");
    (void)state;
    page_fill(&out, "<i title=\"{{a}}\">{{#a}}{{a}}{{/a}}</i>", values);
    assert_string_equal(out.p, "<i title=\"" ESCAPED "\">" ESCAPED "</i>");
    json_decref(values);
}

static struct config config(void)
{
    return (struct config){.name = (char *)(uintptr_t) "w1",
                           .json_file = (char *)(uintptr_t) "status.json",
                           .title = (char *)(uintptr_t)HOSTILE,
                           .message_up = (char *)(uintptr_t) "up!",
                           .message_restoring = (char *)(uintptr_t) "back soon",
                           .message_waiting = (char *)(uintptr_t) "not there"};
}

static const char *text(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

#define RESTORED "The world was restored at 2023-11-14T20:00:00Z."
#define LOOKED_AT " Some actions during the outage are being looked at."

static void test_players(void **state)
{
    static const struct {
        const char *status, *word, *message, *kept, *pause;
        bool percent;
    } cases[] = {
        {"{}", "WAITING", "not there", NULL, "", false},
        {"{\"flag\":\"WAITING\",\"unverified\":true}", "UNKNOWN",
         "It is not known whether the world is up.", NULL, "", false},
        {"{\"flag\":\"UP\",\"unverified\":true}", "UP", "up!", "", "", false},
        {"{\"flag\":\"UP\"}", "UP", "up!", "", "", false},
        {"{\"flag\":\"RESTORING..\",\"running\":{\"job\":\"restore\",\"percent\":40}}", "RESTORING",
         "back soon", NULL, "", true},
        {"{\"flag\":\"RESTORING\",\"running\":{\"job\":\"dump\",\"percent\":40}}", "RESTORING",
         "back soon", NULL, "", false},
        {"{\"flag\":\"RESTORING\",\"running\":{\"job\":\"restore\",\"percent\":1000}}", "RESTORING",
         "back soon", NULL, "", false},
        {"{\"flag\":\"WAITING\",\"pause_until\":\"2026-05-01T02:30:00.000Z\"}", "WAITING",
         "not there", NULL, "Planned work, until 2026-05-01T02:30:00Z.", false},
        {"{\"flag\":\"UP\",\"last_restore\":{\"ok\":true,\"at\":\"2023-11-14T20:00:00Z\",\"lost_"
         "seconds\":0}}",
         "UP", "up!", "", "", false},
        {"{\"flag\":\"UP\",\"last_restore\":{\"ok\":true,\"at\":\"2023-11-14T21:14:00Z\",\"lost_"
         "seconds\":0,\"conflict_rows\":0,\"conflict_file\":\"\"}}",
         "UP", "up!", "The world was restored at 2023-11-14T21:14:00Z. Nothing was lost.", "",
         false},
        /* single tables of a world that was up all the time */
        {"{\"flag\":\"UP\",\"last_restore\":{\"ok\":true,\"at\":\"2023-11-14T22:00:00Z\",\"lost_"
         "seconds\":null,\"restored_to\":\"2023-11-14T19:00:00Z\",\"only\":\"fleet\"}}",
         "UP", "up!", "", "", false},
        /* rows that players wrote during the outage are not in the world */
        {"{\"flag\":\"UP\",\"last_restore\":{\"ok\":true,\"at\":\"2023-11-14T20:00:00Z\",\"lost_"
         "seconds\":0,\"conflict_rows\":3,\"conflict_file\":\"/dumps/secret.sql.gz\"}}",
         "UP", "up!", RESTORED LOOKED_AT, "", false},
        {"{\"flag\":\"UP\",\"last_restore\":{\"ok\":true,\"at\":\"2023-11-14T20:00:00Z\",\"lost_"
         "seconds\":null,\"restored_to\":\"2023-11-14T19:00:00Z\",\"conflict_rows\":null,"
         "\"conflict_file\":\"/dumps/secret.sql.gz\"}}",
         "UP", "up!", RESTORED LOOKED_AT " The last change kept: 2023-11-14T19:00:00Z", "", false},
        {"{\"flag\":\"UP\",\"last_restore\":{\"ok\":true,\"at\":\"2023-11-14T20:00:00Z\",\"lost_"
         "seconds\":null,"
         "\"restored_to\":\"2023-11-14T19:00:00Z\"}}",
         "UP", "up!", "The last change kept: 2023-11-14T19:00:00Z", "", false},
        {"{\"flag\":\"UP\",\"last_restore\":{\"ok\":true,\"at\":\"2023-11-10T20:00:00Z\",\"lost_"
         "seconds\":0}}",
         "UP", "up!", "", "", false},
    };
    struct config c = config();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *status = parsed(cases[i].status);
        json_t *o =
            page_players_values(&c, status, (wall_t){1700000000000}); /* 2023-11-14T22:13:20Z */
        json_t *told = page_players_json(o, status);
        assert_string_equal(text(o, "word"), cases[i].word);
        assert_string_equal(text(told, "message"), cases[i].message);
        assert_string_equal(text(o, "pause"), cases[i].pause);
        assert_true(cases[i].kept ? strcmp(text(o, "kept"), cases[i].kept) == 0
                                  : json_is_null(json_object_get(told, "kept")));
        assert_int_equal(json_is_integer(json_object_get(told, "percent")), cases[i].percent);
        json_decref(told);
        json_decref(o);
        json_decref(status);
    }
}

/* One entry for each incident, one for the announcement, one for planned work that goes on. */
static void test_feed(void **state)
{
    struct config c = config();
    json_t *status = parsed(
               "{\"state\":\"PAUSED\",\"wanted\":\"paused\",\"since\":\"2026-05-01T00:00:00Z\","
               "\"pause_until\":\"2026-05-01T02:30:00.000Z\"}"),
           *history =
               parsed("{\"incidents\":[{\"begin\":\"2026-04-01T00:00:00Z\",\"end\":"
                      "\"2026-04-01T00:01:00Z\",\"cause\":\"<killed>\",\"outage_seconds\":60}]}");
    SCOPED(buf_free) struct buf first = {0}, other = {0};
    (void)state;
    c.announcement = (char *)(uintptr_t) "new disks";
    page_feed(&first, &c, status, history);
    c.announcement = (char *)(uintptr_t) "newer disks";
    page_feed(&other, &c, status, history);
    assert_non_null(strstr(first.p, "<title>Planned work</title>"));
    assert_non_null(strstr(first.p, "Planned work, until 2026-05-01T02:30:00Z."));
    assert_non_null(strstr(first.p, "&lt;killed&gt;"));
    assert_null(strstr(first.p, HOSTILE));
    static const char id[] = "urn:worldkeeper:w1:announcement:";
    const char *a = strstr(first.p, id), *b = strstr(other.p, id);
    assert_true(a && b && strncmp(a + sizeof id - 1, b + sizeof id - 1, 8) != 0);
    json_decref(history);
    json_decref(status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_escape),
        cmocka_unit_test(test_players),
        cmocka_unit_test(test_feed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
