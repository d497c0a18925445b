/* restore/loss: what is known of a loss, its upper bound, and the text for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "restore/loss.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define T INT64_C(1795000000000)
#define AT(s)                                                                                      \
    {                                                                                              \
        T + (int64_t)((s)*1000)                                                                    \
    }

static void test_interval_and_words(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct loss_facts facts;
        bool nothing;
        int64_t most;
        const char *words;
    } cases[] = {
        {"nothing at all is known", {.nothing = false}, false, -1, "loss unknown"},
        {"a whole journal", {.nothing = true}, true, 0, "nothing lost"},
        {"a whole journal, whatever the clocks say",
         {.nothing = true, .covered = AT(50), .now = AT(40)},
         true,
         0,
         "nothing lost"},
        {"the clock alone: all since the dump",
         {.covered = AT(0), .now = AT(25)},
         false,
         25000,
         "at most 25 s lost"},
        {"nobody watched: the new server's start",
         {.covered = AT(0), .alive = AT(-60), .server_started = AT(20.3), .now = AT(90)},
         false,
         20300,
         "at most 21 s lost"},
        {"watched: seen gone before the new server's start",
         {.covered = AT(0),
          .alive = AT(20),
          .gone = AT(20.9),
          .server_started = AT(3600),
          .now = AT(3610)},
         false,
         20900,
         "at most 21 s lost"},
        {"seen gone only after the new server's start",
         {.covered = AT(0), .alive = AT(1), .gone = AT(80), .server_started = AT(5), .now = AT(90)},
         false,
         5000,
         "at most 5 s lost"},
        {"a row that was deleted: no new server",
         {.covered = AT(0), .alive = AT(3), .gone = AT(4), .now = AT(100)},
         false,
         4000,
         "at most 4 s lost"},
        {"a proof from before the last sign of life is none",
         {.covered = AT(0),
          .alive = AT(30),
          .gone = AT(10),
          .server_started = AT(29),
          .now = AT(40)},
         false,
         40000,
         "at most 40 s lost"},
        {"never less than a second in words",
         {.covered = AT(0), .now = AT(0)},
         false,
         0,
         "at most 1 s lost"},
        {"a file of unknown age",
         {.alive = AT(3), .gone = AT(4), .now = AT(5)},
         false,
         -1,
         "loss unknown"},
        {"clocks that contradict each other",
         {.covered = AT(50), .now = AT(40)},
         false,
         -1,
         "loss unknown"},
        {"the world seen alive in the future",
         {.covered = AT(0), .alive = AT(100), .now = AT(40)},
         false,
         -1,
         "loss unknown"},
        {"minutes", {.covered = AT(0), .now = AT(843)}, false, 843000, "at most 14m 03s lost"},
        {"just under a minute is one",
         {.covered = AT(0), .now = AT(59.2)},
         false,
         59200,
         "at most 1m lost"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char out[TEXT_SHORT];
        struct loss l = loss_of(&cases[i].facts);
        print_message("%s\n", cases[i].what);
        assert_int_equal(l.nothing, cases[i].nothing);
        assert_int_equal(l.most_ms, cases[i].most);
        assert_string_equal(loss_words(&l, out), cases[i].words);
        json_t *o = json_object();
        loss_to_json(&l, o);
        assert_string_equal(json_string_value(json_object_get(o, "lost")), cases[i].words);
        assert_int_equal(json_is_null(json_object_get(o, "lost_seconds")), !l.nothing);
        assert_int_equal(json_is_null(json_object_get(o, "lost_seconds_max")), l.most_ms < 0);
        struct loss back = loss_from_json(o);
        assert_int_equal(back.nothing, l.nothing);
        assert_int_equal(back.most_ms, l.most_ms);
        json_decref(o);
    }
}

/* What an older version wrote down counted a loss that nobody knew as 0. */
static void test_objects_that_say_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",
        "{\"lost_seconds\":0}",
        "{\"lost_seconds\":25}",
        "{\"lost_seconds\":null,\"lost_seconds_max\":null}",
        "{\"lost_seconds\":null,\"lost_seconds_max\":-3}",
        "{\"lost_seconds\":0,\"lost_seconds_max\":\"0\"}",
        "{\"lost_seconds\":0,\"lost_seconds_max\":1e300}",
        "[]",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        json_t *o = json_loads(texts[i], 0, NULL);
        struct loss l = loss_from_json(o);
        assert_false(l.nothing);
        assert_int_equal(l.most_ms, -1);
        json_decref(o);
    }
    struct loss l = loss_from_json(NULL);
    assert_int_equal(l.most_ms, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interval_and_words),
        cmocka_unit_test(test_objects_that_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
