/* progress: what fits into one round trip, what a failure says about the central store, and the
 * pause for max_rate. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mysql/packet_limit.h"
#include "progress/write_back.h"

static struct local_blob blob(char *data, size_t len)
{
    return (struct local_blob){.key = {3, "a'\0"},
                               .lock_key = {1, "p"},
                               .lock_seq = UINT64_MAX,
                               .seq = 2,
                               .data = data,
                               .len = len};
}

static struct central_batch batch(size_t room, size_t most)
{
    return (struct central_batch){.room = room, .most = most};
}

static void test_statement(void **state)
{
    (void)state;
    struct central_batch b = batch(1u << 20, 1u << 20);
    char data[] = "x\0y";
    struct local_blob one = blob(data, 3), two = blob(data, 0);
    assert_true(central_batch_add(&b, &one));
    assert_true(central_batch_add(&b, &two));
    assert_int_equal(b.count, 2);
    static const char want[] =
        "CALL wk_send_open();INSERT INTO wk_sent (blob_key,lock_key,lock_seq,seq,`blob`) VALUES "
        "('a\\'\\0','p',18446744073709551615,2,'x\\0y'),('a\\'\\0','p',18446744073709551615,2,'')";
    assert_int_equal(b.sql.len, sizeof want - 1);
    assert_memory_equal(b.sql.p, want, b.sql.len);
    central_batch_clear(&b);
    assert_true(central_batch_add(&b, &one));
    assert_int_equal(b.count, 1);
    assert_memory_equal(b.sql.p, "CALL", 4);
    central_batch_free(&b);
}

/* What does not fit any more leaves the batch as it was. */
static void test_full(void **state)
{
    (void)state;
    struct central_batch b = batch(2 * DB_PACKET_SPARE, 2 * DB_PACKET_SPARE);
    char data[100] = "";
    memset(data, 'x', sizeof data);
    struct local_blob one = blob(data, sizeof data);
    size_t before = 0;
    while (b.count < 1000000 && (before = b.sql.len, central_batch_add(&b, &one)))
        assert_true(b.sql.len + DB_PACKET_SPARE <= b.room);
    assert_true(b.count > 0 && b.count < 1000000);
    assert_int_equal(b.sql.len, before);
    assert_true(b.sql.len + 2 * sizeof data + DB_PACKET_SPARE > b.room);
    central_batch_free(&b);
}

/* However small blobs are, all of them may be refused in an answer that is not waited for. */
static void test_answer(void **state)
{
    (void)state;
    struct central_batch b;
    char data[] = "";
    struct local_blob one = blob(data, 0);
    size_t rows = 0;
    central_batch_open(&b, 1u << 30);
    for (one.key.len = 64; central_batch_add(&b, &one);)
        rows++;
    assert_int_equal(rows, b.count);
    assert_true(rows * (one.key.len + 35) < DB_AHEAD_ANSWERS && rows > DB_AHEAD_ANSWERS / 128);
    central_batch_clear(&b);
    assert_true(central_batch_add(&b, &one));
    central_batch_free(&b);
}

/* One blob alone may take all that the server accepts, and no more. */
static void test_large(void **state)
{
    (void)state;
    static char data[64 << 10];
    memset(data, 'x', sizeof data);
    struct local_blob large = blob(data, sizeof data), small = blob(data, 1);
    struct central_batch b = batch(DB_PACKET_SPARE, sizeof data + 1000);
    assert_true(central_batch_add(&b, &large));
    assert_false(central_batch_add(&b, &small));
    central_batch_free(&b);
    b = batch(DB_PACKET_SPARE, sizeof data);
    assert_false(central_batch_add(&b, &large));
    assert_int_equal(b.count, 0);
    assert_true(b.refused > sizeof data);
    central_batch_free(&b);
}

static void test_failures(void **state)
{
    (void)state;
    static const struct {
        enum err_class cls;
        int num;
        enum central_state after;
        bool may_pass;
    } cases[] = {
        {ERR_UNREACHABLE, 2002, CENTRAL_AWAY, true},
        {ERR_STALLED, 2013, CENTRAL_AWAY, true},
        {ERR_QUERY, DB_DEADLOCK, CENTRAL_OK, true},
        {ERR_QUERY, DB_LOCK_TIMEOUT, CENTRAL_OK, true},
        {ERR_QUERY, 1305, CENTRAL_REFUSED, false},
        {ERR_REFUSED, 1045, CENTRAL_REFUSED, false},
        {ERR_SYSTEM, ENOENT, CENTRAL_REFUSED, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {.cls = cases[i].cls, .num = cases[i].num};
        assert_int_equal(central_state_after(&e), cases[i].after);
        mono_t since = {0};
        assert_int_equal(central_lasts(&e, &since, (mono_t){5000}, 10000), !cases[i].may_pass);
    }
}

/* What may pass by itself is told when it has lasted, whichever of these failures it was
 * meanwhile; anything else at once, and then the wait begins anew. */
static void test_grace(void **state)
{
    const struct err busy = {.cls = ERR_QUERY, .num = DB_LOCK_TIMEOUT},
                     away = {.cls = ERR_UNREACHABLE, .num = 2002},
                     refused = {.cls = ERR_REFUSED, .num = 1045}, none = {0};
    mono_t since = {0};
    (void)state;
    assert_false(central_lasts(&busy, &since, (mono_t){5000}, 10000));
    assert_false(central_lasts(&away, &since, (mono_t){14999}, 10000));
    assert_true(central_lasts(&busy, &since, (mono_t){15000}, 10000));
    assert_true(central_lasts(&away, &since, (mono_t){15001}, 10000));
    assert_true(central_lasts(&none, &since, (mono_t){15002}, 10000));
    assert_false(central_lasts(&away, &since, (mono_t){16000}, 10000));
    assert_true(central_lasts(&refused, &since, (mono_t){16001}, 10000));
    assert_false(central_lasts(&away, &since, (mono_t){20000}, 10000));
    assert_false(central_lasts(&away, &since, (mono_t){26000}, 10000));
    assert_true(central_lasts(&away, &since, (mono_t){30000}, 10000));
}

static void test_pause(void **state)
{
    (void)state;
    assert_int_equal(write_back_pause(1000, 0, 0), 0);
    assert_int_equal(write_back_pause(10, 5, 0), 2000);
    assert_int_equal(write_back_pause(10, 5, 1500), 500);
    assert_int_equal(write_back_pause(10, 5, 3000), 0);
    assert_int_equal(write_back_pause(1, 3, 0), 333);
    assert_int_equal(write_back_pause(100000000, 1, 0), INT64_C(100000000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statement), cmocka_unit_test(test_full),
        cmocka_unit_test(test_answer),    cmocka_unit_test(test_large),
        cmocka_unit_test(test_failures),  cmocka_unit_test(test_grace),
        cmocka_unit_test(test_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
