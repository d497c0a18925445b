/* offsite/record and store/lives: who owns the world according to the record, and which dumps are
 * abandoned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "offsite/record.h"

#define HERE "here/0000000000000001"
#define THERE "there/0000000000000002"

static struct life life(uint64_t generation, char digit)
{
    struct life l = {.generation = generation};
    memset(l.nonce, digit, sizeof l.nonce - 1);
    return l;
}

static struct lives named(const char *machine, struct life now, const struct life *before)
{
    struct lives l = {.number = 5, .now = now};
    snprintf(l.machine, sizeof l.machine, "%s", machine);
    if (before)
        l.before[l.count++].life = *before;
    return l;
}

/* The whole table: what the store says, by what this machine knows of itself. */
static void test_judge(void **state)
{
    (void)state;
    const struct lives none = {0};
    const struct life own = life(7, 'a'), other = life(8, 'b');
    struct lives last = named(HERE, own, NULL), known = last;
    last.own = true;
    /* promoted without the store; there it replaced a machine, or it never knew of one */
    struct lives late = named(HERE, life(107, 'e'), &own), alone = late;
    late.own = late.unwritten = alone.own = alone.unwritten = true;
    snprintf(late.replaced, sizeof late.replaced, "%s", THERE);
    const struct {
        bool read;
        struct lives newest;
        struct life own;
        struct lives last;
        enum record_says says;
    } rows[] = {
        {false, none, own, last, RECORD_UNKNOWN},
        {false, none, {0}, none, RECORD_UNKNOWN},
        {true, none, own, last, RECORD_NONE},
        {true, none, {0}, none, RECORD_NONE},
        /* by the machine, whatever life it was: a restore that is not recorded yet, or was cut
         * off */
        {true, named(HERE, own, NULL), own, last, RECORD_OURS},
        {true, named(HERE, other, NULL), own, none, RECORD_OURS},
        {true, named(HERE, own, NULL), {0}, none, RECORD_OURS},
        /* a host with another name, by its life, or by the one that it recorded last */
        {true, named(THERE, own, NULL), own, none, RECORD_OURS},
        {true, named(THERE, own, NULL), other, last, RECORD_OURS},
        /* what a standby has read of it makes nothing its own */
        {true, named(THERE, own, NULL), other, known, RECORD_ANOTHERS},
        /* the same generation, restored independently */
        {true, named(THERE, life(7, 'b'), NULL), own, none, RECORD_ANOTHERS},
        {true, named(THERE, other, &own), own, last, RECORD_ANOTHERS},
        {true, named(THERE, other, NULL), {0}, none, RECORD_ANOTHERS},
        {true, named(THERE, own, NULL), life(107, 'e'), late, RECORD_OURS},
        {true, named(THERE, other, &own), life(108, 'f'), late, RECORD_OURS},
        {true, named("third/3", other, &own), life(107, 'e'), late, RECORD_ANOTHERS},
        {true, named(THERE, own, NULL), life(107, 'e'), alone, RECORD_ANOTHERS},
        {true, none, life(107, 'e'), alone, RECORD_NONE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (record_judge(rows[i].read ? &rows[i].newest : NULL, HERE, &rows[i].own,
                         &rows[i].last) != rows[i].says)
            fail_msg("row %zu", i);
}

/* Without the record, the lease must be unchanged and the last known record own. */
static void test_permits(void **state)
{
    (void)state;
    struct lives own = named(HERE, life(7, 'a'), NULL), theirs = own;
    const struct lives none = {0};
    own.own = true;
    for (int unchanged = 0; unchanged < 2; unchanged++) {
        assert_true(record_permits(RECORD_OURS, unchanged, &none));
        assert_true(record_permits(RECORD_NONE, unchanged, &none));
        assert_false(record_permits(RECORD_ANOTHERS, unchanged, &own));
        assert_false(record_permits(RECORD_UNKNOWN, unchanged, &none));
        assert_false(record_permits(RECORD_UNKNOWN, unchanged, &theirs));
        assert_false(record_permits(RECORD_DAMAGED, unchanged, &theirs));
        assert_int_equal(record_permits(RECORD_UNKNOWN, unchanged, &own), unchanged);
        assert_int_equal(record_permits(RECORD_DAMAGED, unchanged, &own), unchanged);
    }
}

static void test_replaced(void **state)
{
    (void)state;
    const struct life own = life(7, 'a'), later = life(8, 'c'), other = life(8, 'b');
    const struct lives none = {0};
    struct lives newest = named(THERE, other, &own), last = named(HERE, own, NULL);
    assert_true(record_replaced(&newest, &own, &none));
    assert_false(record_replaced(&newest, &later, &last)); /* not written here */
    last.own = true;
    assert_true(record_replaced(&newest, &later, &last));
    assert_false(record_replaced(&newest, &later, &none));
    newest.count = 0;
    assert_false(record_replaced(&newest, &own, &last));
}

static void test_number(void **state)
{
    (void)state;
    const struct lives none = {0}, five = {.number = 5};
    assert_int_equal(record_number(&none, 0), 1);
    assert_int_equal(record_number(&five, 0), 6);
    assert_int_equal(record_number(&five, 4), 6); /* a lease whose place was lost */
    assert_int_equal(record_number(&five, 5), 5); /* another life under the same lease */
    assert_int_equal(record_number(&five, 9), 9);
    /* one of this life that has no HMAC yet may have each number up to the highest */
    const struct lives unsaid = {.highest = 5}, below = {.number = 5, .highest = 7};
    assert_int_equal(record_number(&unsaid, 5), 6);
    assert_int_equal(record_number(&unsaid, 0), 6);
    assert_int_equal(record_number(&below, 6), 8);
    assert_int_equal(record_number(&below, 8), 8);
    /* the damaged record of this life keeps its name in the store */
    const struct lives damaged = {.number = 5, .highest = 5, .damaged = true};
    assert_int_equal(record_number(&damaged, 5), 6);
    assert_int_equal(record_number(&damaged, 0), 6);
}

static struct manifest dump(struct life of, uint64_t sequence, uint64_t end)
{
    struct manifest m = {.generation = of.generation, .sequence = sequence};
    snprintf(m.world, sizeof m.world, "w1");
    memcpy(m.nonce, of.nonce, sizeof m.nonce);
    m.at.ms = 1767225600000;
    manifest_name(&m);
    snprintf(m.end.file, sizeof m.end.file, "%s", end ? "log.000001" : "");
    m.end.pos = end;
    return m;
}

static void check(const struct lives *l, struct life of, uint64_t sequence, uint64_t end,
                  bool abandoned)
{
    struct manifest m = dump(of, sequence, end);
    if (lives_abandoned(l, &m) != abandoned)
        fail_msg("%s, end %d", m.name, (int)end);
}

static void test_abandoned(void **state)
{
    (void)state;
    const struct life first = life(7, 'a'), second = life(8, 'b'), stray = life(8, 'c');
    const struct lives none = {0};
    struct lives l = named(THERE, second, &first);
    struct manifest m = dump(first, 3, 1000);
    snprintf(l.before[0].dump, sizeof l.before[0].dump, "%s", m.name);
    snprintf(l.before[0].file, sizeof l.before[0].file, "log.000001");
    l.before[0].pos = 2000;
    check(&none, stray, 1, 1, false);
    check(&l, life(6, 'f'), 9, 1, false); /* of before the record */
    check(&l, first, 2, 500, false);
    check(&l, first, 3, 1000, false);
    check(&l, first, 4, 2000, false); /* all of it was taken over */
    check(&l, first, 4, 2001, true);
    check(&l, first, 4, 0, true);
    check(&l, second, 1, 1, false);
    check(&l, stray, 1, 1, true);
    check(&l, life(7, 'd'), 1, 1, true);
    check(&l, life(9, 'e'), 1, 1, true);
    l.own = true; /* a restore here that is not recorded yet */
    check(&l, life(9, 'e'), 1, 1, false);
    check(&l, stray, 1, 1, true);
    l.before[0].file[0] = '\0';
    check(&l, first, 4, 2000, true);
    l.before[0].dump[0] = '\0'; /* not known what was taken */
    check(&l, first, 4, 2001, false);
}

static void test_next(void **state)
{
    (void)state;
    struct lives l = {0};
    for (uint64_t i = 1; i <= LIVES_MAX + 3; i++) {
        struct life now = life(i, 'a');
        struct ancestor a = {.ended = "lost"};
        l = lives_next(&l, i, HERE, &now, &a);
        assert_int_equal(l.count, i - 1 < LIVES_MAX ? i - 1 : LIVES_MAX);
        assert_true(l.own && l.number == i && l.now.generation == i);
        for (size_t k = 0; k < l.count; k++)
            assert_int_equal(l.before[k].life.generation, i - 1 - k);
    }
    json_auto_t *o = lives_json(&l);
    struct lives again;
    assert_int_equal(lives_parse(o, &again), 0);
    assert_memory_equal(&again.now, &l.now, sizeof l.now);
    assert_int_equal(again.count, l.count);
    assert_memory_equal(&again.before[LIVES_MAX - 1].life, &l.before[LIVES_MAX - 1].life,
                        sizeof l.before[0].life);
    json_object_set_new(o, "format", json_integer(2));
    assert_int_equal(lives_parse(o, &again), -1);
    assert_int_equal(again.number, 0);
}

/* What the replaced machine has recorded itself since is an ancestor, of which nothing was
 * taken. */
static void test_late(void **state)
{
    (void)state;
    const struct life first = life(7, 'a'), again = life(8, 'b'), now = life(107, 'c');
    struct lives l = named(HERE, now, &first), there = named(THERE, first, NULL), next;
    struct manifest m = dump(first, 3, 1000);
    l.own = l.unwritten = true;
    snprintf(l.replaced, sizeof l.replaced, "%s", THERE);
    snprintf(l.before[0].dump, sizeof l.before[0].dump, "%s", m.name);
    json_auto_t *o = lives_json(&l);
    assert_int_equal(lives_parse(o, &next), 0);
    assert_true(next.unwritten);
    assert_string_equal(next.replaced, THERE);

    next = lives_late(&l, &there, 6);
    assert_true(next.own && !next.unwritten && next.number == 6 && next.count == 1);
    there = named(THERE, again, &first);
    next = lives_late(&l, &there, 6);
    assert_int_equal(next.count, 2);
    assert_true(life_is(&next.before[0].life, &again) && life_is(&next.before[1].life, &first));
    check(&next, again, 1, 1, true);
    check(&next, first, 3, 1000, false);
    check(&next, first, 4, 1001, true);
    check(&next, now, 1, 1, false);
    there = (struct lives){0}; /* the store has lost it */
    assert_int_equal(lives_late(&l, &there, 1).count, 1);
}

/* Whoever can write one name into the store must not make a promotion write a record that nobody
 * reads. */
static void test_no_number_is_left(void **state)
{
    (void)state;
    struct err e = {0};
    const struct transfer nowhere = {0};
    struct lives planted = named(THERE, life(8, 'b'), NULL), next = named(HERE, life(9, 'c'), NULL);
    planted.highest = UINT64_C(999999999999999);
    next.number = record_number(&planted, 6);
    assert_int_equal(record_write(&nowhere, "w", &next, &e), -1);
    assert_int_equal(e.cls, ERR_REFUSED);
    assert_non_null(strstr(e.text, "the highest possible number"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_judge),     cmocka_unit_test(test_permits),
        cmocka_unit_test(test_replaced),  cmocka_unit_test(test_number),
        cmocka_unit_test(test_abandoned), cmocka_unit_test(test_next),
        cmocka_unit_test(test_late),      cmocka_unit_test(test_no_number_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
