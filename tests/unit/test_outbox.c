/* The alerts in memory: order, channels, the copy on the disk, and which alerts are dropped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "alert_kit.h"
#include "notify/outbox.h"

static mono_t now = {5000000};

static json_t *named(const char *name)
{
    return json_pack("{s:s, s:s}", "id", name, "what", name);
}

static void add(struct outbox *o, const char *name)
{
    outbox_add(o, kit_config(true, true), named(name));
}

/* Begins a delivery: the names in it, joined by blanks, and the counts. */
static void begin(struct outbox *o, enum alert_channel ch, const char *names, unsigned dropped)
{
    struct message m;
    struct buf got = {0};
    outbox_begin(o, ch, true, now, &m);
    kit_names(&got, m.alerts);
    assert_string_equal(got.p, names);
    assert_int_equal(m.dropped, dropped);
    json_decref((json_t *)(uintptr_t)m.alerts);
    buf_free(&got);
}

/* What the mail before it announced is no mail of its own; a webhook closes what it opened. */
static void test_an_expected_end_is_no_mail(void **state)
{
    (void)state;
    struct outbox o = {0};
    json_t *end = named("end");
    json_object_set_new(end, "expected", json_true());
    add(&o, "a");
    outbox_add(&o, kit_config(true, true), end);
    assert_int_equal(outbox_waiting(&o, ALERT_SMTP), 1);
    begin(&o, ALERT_WEBHOOK, "a end", 0);
    kit_outbox_free(&o);
}

static void store(struct outbox *o, uint64_t number)
{
    assert_non_null(outbox_next(o));
    outbox_given(o);
    outbox_stored(o, number);
}

static void test_each_channel_gets_each_once(void **state)
{
    (void)state;
    struct outbox o = {0};
    add(&o, "a");
    begin(&o, ALERT_SMTP, "a", 0);
    add(&o, "b"); /* while the message is on its way */
    outbox_sent(&o, ALERT_SMTP, now);
    begin(&o, ALERT_SMTP, "b", 0);
    outbox_failed(&o, ALERT_SMTP, 0, now);
    begin(&o, ALERT_SMTP, "b", 0);
    begin(&o, ALERT_WEBHOOK, "a b", 0);
    outbox_sent(&o, ALERT_WEBHOOK, now);
    assert_int_equal(outbox_waiting(&o, ALERT_WEBHOOK), 0);
    assert_int_equal(outbox_waiting(&o, ALERT_SMTP), 1);
    assert_int_equal(o.count, 1);
    outbox_sent(&o, ALERT_SMTP, now);
    assert_int_equal(o.count, 0);
    kit_outbox_free(&o);
}

/* A channel that comes into the config begins with the next alert; one that leaves waits for
 * none. */
static void test_channels_come_and_go(void **state)
{
    (void)state;
    struct outbox o = {0};
    outbox_add(&o, kit_config(true, false), named("a"));
    store(&o, 5);
    begin(&o, ALERT_SMTP, "a", 0);
    outbox_sent(&o, ALERT_SMTP, now);
    assert_int_equal(outbox_mark(&o, ALERT_SMTP), 5);
    outbox_follow(&o, kit_config(false, true));
    assert_int_equal(outbox_mark(&o, ALERT_SMTP), 0);
    outbox_add(&o, kit_config(true, false), named("a"));
    outbox_follow(&o, kit_config(true, true));
    add(&o, "b");
    begin(&o, ALERT_WEBHOOK, "b", 0);
    outbox_failed(&o, ALERT_WEBHOOK, 0, now);
    outbox_follow(&o, kit_config(false, true));
    assert_int_equal(outbox_waiting(&o, ALERT_SMTP), 0);
    begin(&o, ALERT_WEBHOOK, "b", 0);
    outbox_sent(&o, ALERT_WEBHOOK, now);
    assert_int_equal(o.count, 0);
    kit_outbox_free(&o);
}

/* The mark on the disk says what was delivered, whichever of the two comes first. */
static void test_marks(void **state)
{
    (void)state;
    struct outbox o = {0};
    add(&o, "a");
    add(&o, "b");
    store(&o, 7);
    outbox_given(&o); /* b is under way to the disk */
    begin(&o, ALERT_SMTP, "a b", 0);
    begin(&o, ALERT_WEBHOOK, "a b", 0);
    assert_int_equal(outbox_mark(&o, ALERT_SMTP), 0);
    outbox_sent(&o, ALERT_SMTP, now);
    assert_int_equal(outbox_mark(&o, ALERT_SMTP), 7);
    outbox_sent(&o, ALERT_WEBHOOK, now);
    assert_int_equal(o.count, 1);
    outbox_stored(&o, 8);
    assert_int_equal(o.count, 0);
    assert_int_equal(outbox_mark(&o, ALERT_SMTP), 8);
    assert_int_equal(outbox_mark(&o, ALERT_WEBHOOK), 8);
    kit_outbox_free(&o);
}

/* Nothing is heard of the disk writer any more: what it had is given again; a disk that takes
 * nothing holds up nothing. */
static void test_disk_gone(void **state)
{
    (void)state;
    struct outbox o = {0};
    add(&o, "a");
    assert_int_equal(outbox_wait(&o, ALERT_SMTP, false, now), -1);
    assert_int_equal(outbox_wait(&o, ALERT_SMTP, true, now), 0);
    outbox_given(&o);
    assert_null(outbox_next(&o));
    assert_int_equal(outbox_wait(&o, ALERT_SMTP, false, now), -1);
    outbox_not_stored(&o);
    assert_non_null(outbox_next(&o));
    outbox_given(&o);
    outbox_stored(&o, 0);
    assert_int_equal(outbox_wait(&o, ALERT_SMTP, false, now), 0);
    assert_null(outbox_next(&o));
    begin(&o, ALERT_SMTP, "a", 0);
    outbox_sent(&o, ALERT_SMTP, now);
    begin(&o, ALERT_WEBHOOK, "a", 0);
    outbox_sent(&o, ALERT_WEBHOOK, now);
    assert_int_equal(o.count, 0);
    assert_int_equal(outbox_mark(&o, ALERT_SMTP), 0);
    kit_outbox_free(&o);
}

/* ---- pacing ---- */

static json_t *urgent(const char *name)
{
    return json_pack("{s:s, s:s, s:b}", "id", name, "what", name, "urgent", 1);
}

static int64_t wait_now(const struct outbox *o)
{
    return outbox_wait(o, ALERT_SMTP, true, now);
}

/* A delivery of all that waits, with its result: the server's Retry-After, or -1: delivered. */
static void deliver(struct outbox *o, int64_t retry_after)
{
    struct message m;
    outbox_begin(o, ALERT_SMTP, true, now, &m);
    json_decref((json_t *)(uintptr_t)m.alerts);
    if (retry_after < 0)
        outbox_sent(o, ALERT_SMTP, now);
    else
        outbox_failed(o, ALERT_SMTP, retry_after, now);
}

static void add_mail(struct outbox *o, json_t *alert)
{
    outbox_add(o, kit_config(true, false), alert);
}

/* Bad news waits neither for a token nor, the first time, for the end of a pause. */
static void test_urgent(void **state)
{
    (void)state;
    struct outbox o = {0};
    for (int i = 0; i < OUTBOX_BURST; i++) {
        add_mail(&o, named("x"));
        assert_int_equal(wait_now(&o), 0);
        deliver(&o, -1);
    }
    add_mail(&o, named("calm"));
    assert_int_equal(wait_now(&o), OUTBOX_REFILL);
    add_mail(&o, urgent("a"));
    assert_int_equal(wait_now(&o), 0);
    deliver(&o, 0);
    assert_int_equal(wait_now(&o), OUTBOX_RETRY_FIRST); /* and no token */
    add_mail(&o, urgent("b"));
    assert_int_equal(wait_now(&o), 0);
    deliver(&o, 0); /* it has not made the pause longer */
    assert_int_equal(wait_now(&o), OUTBOX_RETRY_FIRST);
    add_mail(&o, urgent("c"));
    struct message m;
    outbox_begin(&o, ALERT_SMTP, true, now, &m);
    json_decref((json_t *)(uintptr_t)m.alerts);
    add_mail(&o, urgent("d")); /* news that came while that one was under way */
    outbox_sent(&o, ALERT_SMTP, now);
    assert_int_equal(wait_now(&o), 0);
    deliver(&o, -1);
    assert_int_equal(wait_now(&o), -1);
    add_mail(&o, named("calm"));
    assert_int_equal(wait_now(&o), OUTBOX_REFILL);
    kit_outbox_free(&o);
}

/* Bad news hurries once, for each channel, from when it is on disk; not what another supervisor
 * left. */
static void test_urgent_once(void **state)
{
    (void)state;
    struct outbox o = {0};
    const bool both[ALERT_CHANNELS] = {true, true};
    for (int i = 0; i < ALERT_CHANNELS; i++)
        o.channel[i].not_before = mono_add(now, 700); /* a pause */
    add(&o, "calm");
    store(&o, 1);
    outbox_add(&o, kit_config(true, true), urgent("b"));
    assert_int_equal(outbox_wait(&o, ALERT_SMTP, false, now), 700);
    assert_int_equal(outbox_wait(&o, ALERT_SMTP, true, now), 0);
    store(&o, 2);
    assert_int_equal(outbox_wait(&o, ALERT_SMTP, false, now), 0);
    begin(&o, ALERT_SMTP, "calm b", 0);
    outbox_failed(&o, ALERT_SMTP, 0, now);
    assert_int_equal(outbox_wait(&o, ALERT_SMTP, false, now), 700);
    assert_int_equal(outbox_wait(&o, ALERT_WEBHOOK, false, now), 0);
    begin(&o, ALERT_WEBHOOK, "calm b", 0);
    outbox_add_stored(&o, urgent("c"), 3, both);
    assert_int_equal(outbox_wait(&o, ALERT_WEBHOOK, false, now), 700);
    kit_outbox_free(&o);
}

/* What is done at which second, and how long the next one then has to wait. */
static void test_pace(void **state)
{
    (void)state;
    static const struct {
        int64_t at; /* ms */
        char what;  /* s: sent, f: failed, r: failed with Retry-After of 40 s, -: nothing */
        int64_t wait;
    } steps[] = {
        {0, '-', 0}, /* the burst */
        {0, 's', 0},           {100, 's', 0},
        {200, 's', 0},         {300, 's', 59700}, /* used up: a minute after the first */
        {30000, '-', 30000},   {60000, '-', 0},
        {60000, 's', 60000}, /* then one a minute */
        {120000, 's', 60000},  {180000, '-', 0},
        {180000, 'f', 5000}, /* failures: doubled */
        {185000, 'f', 10000},  {195000, 'f', 20000},
        {215000, 'f', 40000},  {255000, 'f', 80000},
        {335000, 'f', 160000}, {495000, 'f', 300000}, /* at most five minutes */
        {795000, 'f', 300000}, {1095000, 's', 0},     /* the bucket has filled meanwhile */
        {1095000, 'f', 5000},                         /* a success forgets the failures */
        {1100000, 'r', 40000},
    };
    struct outbox o = {0};
    const mono_t start = now;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        now = mono_add(start, steps[i].at);
        add_mail(&o, named("x"));
        if (steps[i].what != '-')
            deliver(&o, steps[i].what == 's' ? -1 : steps[i].what == 'r' ? 40000 : 0);
        add_mail(&o, named("y"));
        assert_int_equal(wait_now(&o), steps[i].wait);
    }
    kit_outbox_free(&o);
}

/* However deliveries are asked for: never more than the burst and one a minute. */
static void test_pace_limit(void **state)
{
    (void)state;
    struct outbox o = {0};
    unsigned sent = 0;
    for (now.ms = 0; now.ms < 3600000; now.ms += 700) {
        add_mail(&o, named("x"));
        if (wait_now(&o) == 0) {
            deliver(&o, -1);
            sent++;
        }
    }
    assert_in_range(sent, 60, OUTBOX_BURST + 60);
    kit_outbox_free(&o);
}

/* A webhook of another name in the same slot gets nothing that was meant for the one before, and
 * no pause of its; what waits elsewhere goes on waiting. */
static void test_another_webhook(void **state)
{
    (void)state;
    struct outbox o = {0};
    const bool both[ALERT_CHANNELS] = {true, true};
    outbox_add_stored(&o, named("a"), 3, both);
    begin(&o, ALERT_WEBHOOK, "a", 0);
    outbox_failed(&o, ALERT_WEBHOOK, 60000, now);
    outbox_forget(&o, ALERT_WEBHOOK);
    assert_int_equal(outbox_waiting(&o, ALERT_WEBHOOK), 0);
    assert_int_equal(outbox_waiting(&o, ALERT_SMTP), 1);
    outbox_add(&o, kit_config(true, true), named("b"));
    store(&o, 4);
    assert_int_equal(outbox_wait(&o, ALERT_WEBHOOK, false, now), 0);
    begin(&o, ALERT_WEBHOOK, "b", 0);
    outbox_sent(&o, ALERT_WEBHOOK, now);
    begin(&o, ALERT_SMTP, "a b", 0);
    kit_outbox_free(&o);
}

/* What an earlier supervisor left goes first, in its order, for the channels that lack it; once,
 * though two files hold it. */
static void test_left_by_another(void **state)
{
    (void)state;
    struct outbox o = {0};
    const bool both[ALERT_CHANNELS] = {true, true}, web[ALERT_CHANNELS] = {false, true};
    add(&o, "new");
    outbox_add_stored(&o, named("one"), 3, web);
    outbox_add_stored(&o, named("two"), 4, both);
    outbox_add_stored(&o, named("two"), 5, both);
    begin(&o, ALERT_SMTP, "two new", 0);
    begin(&o, ALERT_WEBHOOK, "one two new", 0);
    outbox_sent(&o, ALERT_SMTP, now);
    assert_int_equal(outbox_mark(&o, ALERT_SMTP), 4);
    store(&o, 6);
    assert_int_equal(outbox_mark(&o, ALERT_SMTP), 6);
    assert_int_equal(outbox_mark(&o, ALERT_WEBHOOK), 0);
    outbox_failed(&o, ALERT_WEBHOOK, 0, now);
    /* Another directory: all that waits is stored there too, before what waits in it. */
    outbox_moved(&o);
    assert_int_equal(outbox_mark(&o, ALERT_SMTP), 0);
    store(&o, 9);
    outbox_add_stored(&o, named("there"), 2, web);
    begin(&o, ALERT_WEBHOOK, "there one two new", 0);
    outbox_sent(&o, ALERT_WEBHOOK, now);
    assert_int_equal(outbox_mark(&o, ALERT_WEBHOOK), 9);
    kit_outbox_free(&o);
}

/* The oldest goes, and each channel that lacked it hears how many. */
static void test_too_many(void **state)
{
    (void)state;
    struct outbox o = {0};
    struct message m;
    char name[16];
    for (int i = 0; i < ALERT_QUEUE_MAX + 3; i++) {
        snprintf(name, sizeof name, "%d", i);
        add(&o, name);
        if (i == 0) {
            begin(&o, ALERT_SMTP, "0", 0);
            outbox_sent(&o, ALERT_SMTP, now);
            outbox_given(&o); /* it stays until the disk has answered */
        }
    }
    assert_int_equal(o.count, ALERT_QUEUE_MAX);
    assert_string_equal(json_string_value(json_object_get(o.list[0].json, "id")), "0");
    assert_string_equal(json_string_value(json_object_get(o.list[1].json, "id")), "4");
    outbox_begin(&o, ALERT_SMTP, true, now, &m);
    assert_int_equal(json_array_size(m.alerts), ALERT_QUEUE_MAX - 1);
    assert_int_equal(m.dropped, 3);
    json_decref((json_t *)(uintptr_t)m.alerts);
    add(&o, "last"); /* one more is dropped while these are on their way */
    outbox_sent(&o, ALERT_SMTP, now);
    begin(&o, ALERT_SMTP, "last", 1);
    kit_outbox_free(&o);
}

/* Some recipients of a mail have it: only the others are left, on the disk too; what is new goes
 * to all, and an address that is new gets what is left. */
static void test_partly_delivered(void **state)
{
    (void)state;
    struct outbox o = {0};
    uint64_t number = 0;
    json_auto_t *b_and_c = json_pack("[s, s]", "b@x", "c@x"), *a = json_pack("[s]", "a@x"),
                *a_and_b = json_pack("[s, s]", "a@x", "b@x"), *c = json_pack("[s]", "c@x"),
                *a_and_c = json_pack("[s, s]", "a@x", "c@x"), *none = json_array(),
                *added = json_string("d@x");
    outbox_add(&o, kit_config(true, false), named("one"));
    store(&o, 4);
    begin(&o, ALERT_SMTP, "one", 0);
    outbox_partly(&o, ALERT_SMTP, a, b_and_c);
    outbox_failed(&o, ALERT_SMTP, 0, now);
    assert_int_equal(outbox_mark(&o, ALERT_SMTP), 0);
    assert_true(outbox_wait(&o, ALERT_SMTP, false, now) > 0);
    const json_t *changed = outbox_changed(&o, &number);
    assert_int_equal(number, 4);
    assert_true(json_equal(json_object_get(changed, ALERT_RECEIVED), a));
    assert_true(message_lacks(changed, added)); /* an address that is new in the config */
    outbox_rewritten(&o, number);
    assert_null(outbox_changed(&o, &number));
    /* who has the first one may lack the second */
    outbox_add(&o, kit_config(true, false), named("two"));
    store(&o, 5);
    begin(&o, ALERT_SMTP, "one two", 0);
    outbox_partly(&o, ALERT_SMTP, c, a_and_b);
    outbox_failed(&o, ALERT_SMTP, 0, now);
    assert_true(json_equal(json_object_get(o.list[0].json, ALERT_RECEIVED), a_and_c));
    assert_true(json_equal(json_object_get(o.list[1].json, ALERT_RECEIVED), c));
    /* a failure of all changes nothing of who lacks what */
    begin(&o, ALERT_SMTP, "one two", 0);
    outbox_failed(&o, ALERT_SMTP, 0, now);
    assert_true(json_equal(json_object_get(o.list[0].json, ALERT_RECEIVED), a_and_c));
    begin(&o, ALERT_SMTP, "one two", 0);
    outbox_partly(&o, ALERT_SMTP, a_and_b, none);
    outbox_failed(&o, ALERT_SMTP, 0, now);
    assert_int_equal(o.count, 0);
    assert_int_equal(outbox_mark(&o, ALERT_SMTP), 5);
    kit_outbox_free(&o);
}

/* A webhook with a request for each alert: what it accepted is not sent again when the rest fails;
 * the first request told the counts, and the pause does not grow. */
static void test_accepted_one_by_one(void **state)
{
    (void)state;
    struct outbox o = {0};
    struct message m;
    const char *names[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < 4; i++) {
        outbox_add(&o, kit_config(false, true), named(names[i]));
        store(&o, i + 1);
    }
    o.channel[ALERT_WEBHOOK].dropped = 3;
    o.channel[ALERT_WEBHOOK].damaged = 1;
    for (int i = 0; i < 3; i++) {
        begin(&o, ALERT_WEBHOOK, "a b c d", 3);
        outbox_failed(&o, ALERT_WEBHOOK, 0, now);
    }
    begin(&o, ALERT_WEBHOOK, "a b c d", 3);
    outbox_accepted(&o, ALERT_WEBHOOK, 1);
    o.channel[ALERT_WEBHOOK].dropped++; /* another one, which this message cannot tell */
    outbox_accepted(&o, ALERT_WEBHOOK, 2);
    assert_int_equal(outbox_mark(&o, ALERT_WEBHOOK), 2);
    assert_int_equal(outbox_waiting(&o, ALERT_WEBHOOK), 2);
    outbox_failed(&o, ALERT_WEBHOOK, 0, now);
    assert_int_equal(outbox_wait(&o, ALERT_WEBHOOK, false, now), OUTBOX_RETRY_FIRST);
    outbox_begin(&o, ALERT_WEBHOOK, false, now, &m);
    assert_int_equal(json_array_size(m.alerts), 2);
    assert_int_equal(m.dropped, 1);
    assert_int_equal(m.damaged, 0);
    json_decref((json_t *)(uintptr_t)m.alerts);
    /* its own place counts, though an alert before it is gone */
    outbox_accepted(&o, ALERT_WEBHOOK, 2);
    outbox_accepted(&o, ALERT_WEBHOOK, 3); /* there is none */
    assert_int_equal(outbox_mark(&o, ALERT_WEBHOOK), 2);
    outbox_sent(&o, ALERT_WEBHOOK, now);
    assert_int_equal(outbox_mark(&o, ALERT_WEBHOOK), 4);
    assert_int_equal(o.count, 0);
    assert_int_equal(o.channel[ALERT_WEBHOOK].dropped, 0);
    kit_outbox_free(&o);
}

/* What the disk writer is given next, or NULL; it is given. */
static const char *given(struct outbox *o)
{
    const char *name = json_string_value(json_object_get(outbox_next(o), "id"));
    outbox_given(o);
    return name;
}

/* What could not be stored is stored later: the oldest first, and what is new behind it. */
static void test_stored_later(void **state)
{
    (void)state;
    struct outbox o = {0};
    add(&o, "a");
    add(&o, "b");
    assert_string_equal(given(&o), "a");
    assert_string_equal(given(&o), "b");
    outbox_store_again(&o); /* both may still be stored */
    assert_null(given(&o));
    outbox_stored(&o, 0);
    outbox_stored(&o, 0);
    assert_null(given(&o));
    begin(&o, ALERT_SMTP, "a b", 0); /* it goes out from memory */
    outbox_failed(&o, ALERT_SMTP, 0, now);
    add(&o, "c");
    assert_string_equal(given(&o), "a");
    assert_null(given(&o));
    outbox_stored(&o, 0); /* still full */
    assert_null(given(&o));
    outbox_store_again(&o);
    outbox_store_again(&o);
    assert_string_equal(given(&o), "a");
    assert_null(given(&o));
    outbox_stored(&o, 5);
    assert_string_equal(given(&o), "b");
    add(&o, "d");
    outbox_not_stored(&o); /* the next disk writer gets all, in order */
    assert_string_equal(given(&o), "b");
    assert_string_equal(given(&o), "c");
    assert_string_equal(given(&o), "d");
    for (uint64_t i = 6; i <= 8; i++)
        outbox_stored(&o, i);
    outbox_store_again(&o);
    assert_null(given(&o));
    begin(&o, ALERT_SMTP, "a b c d", 0);
    outbox_sent(&o, ALERT_SMTP, now);
    assert_int_equal(outbox_mark(&o, ALERT_SMTP), 8);
    kit_outbox_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partly_delivered),
        cmocka_unit_test(test_accepted_one_by_one),
        cmocka_unit_test(test_stored_later),
        cmocka_unit_test(test_each_channel_gets_each_once),
        cmocka_unit_test(test_an_expected_end_is_no_mail),
        cmocka_unit_test(test_channels_come_and_go),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_disk_gone),
        cmocka_unit_test(test_urgent),
        cmocka_unit_test(test_urgent_once),
        cmocka_unit_test(test_pace),
        cmocka_unit_test(test_pace_limit),
        cmocka_unit_test(test_another_webhook),
        cmocka_unit_test(test_left_by_another),
        cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
