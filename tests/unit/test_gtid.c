/* binlog/gtid: up to which number the transactions of a domain were written, in both servers'
 * notation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "binlog/gtid.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define A "3e11fa47-71ca-11e1-9e33-c80aa9429562"
#define B "12345678-1234-1234-1234-123456789012" /* begins as a number of MariaDB's does */

static const uint8_t a[16] = {0x3e, 0x11, 0xfa, 0x47, 0x71, 0xca, 0x11, 0xe1,
                              0x9e, 0x33, 0xc8, 0x0a, 0xa9, 0x42, 0x95, 0x62};
static const uint8_t b[16] = {0x12, 0x34, 0x56, 0x78, 0x12, 0x34, 0x12, 0x34,
                              0x12, 0x34, 0x12, 0x34, 0x56, 0x78, 0x90, 0x12};

static void test_mariadb(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct change_gtid last;
    } cases[] = {
        {"0-5-7,1-6-3", {0, 5, 7}}, {"0-5-7,1-6-3", {1, 6, 3}},
        {"0-5-7,1-6-3", {2, 0, 0}}, {"", {0, 0, 0}},
        {"anything", {0, 0, 0}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct change_gtid g = db_gtid_last(cases[i].text, cases[i].last.domain);
        assert_memory_equal(&g, &cases[i].last, sizeof g);
    }
}

static void test_mysql(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t a, tagged, b;
    } cases[] = {
        {A ":1-5", 5, 0, 0},
        {A ":1", 1, 0, 0},
        {A ":1-5:9-1000000", 5, 0, 0}, /* somebody gave numbers himself */
        {A ":7-9", 0, 0, 0},
        {A ":1-5,\n" B ":1-18446744073709551614", 5, 0, UINT64_MAX - 1},
        {B ":1-2:4," A ":1-5", 5, 0, 2},
        {A ":1-5:tag:1-8:10", 5, 8, 0},
        {A ":tag:1-8,\n" B ":other:1-7:tag:1-3:9", 0, 8, 0},
        {A ":TAG:1-8", 0, 8, 0},
        {A ": tag : 1-8", 0, 0, 0}, /* the server writes no blanks there */
        {A ":", 0, 0, 0},
        {A ":10#44:12#9," A ":1-9:11", 12, 0, 0}, /* on their way */
        {B ":7#1:tag:9#2," A ":3#9," A ":1-2," B ":1-6", 3, 0, 7},
        {A ":1-", 1, 0, 0},
        {":1-5", 0, 0, 0},
        {"3e11fa47-71ca-11e1-9e33:1-5", 0, 0, 0},
        {A ":a_tag_that_is_longer_than_they_may_be:1-5," B ":1", 0, 0, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(db_gtid_last(cases[i].text, db_gtid_domain(a, "")).seq, cases[i].a);
        assert_int_equal(db_gtid_last(cases[i].text, db_gtid_domain(a, "tag")).seq,
                         cases[i].tagged);
        assert_int_equal(db_gtid_last(cases[i].text, db_gtid_domain(b, "")).seq, cases[i].b);
    }
}

/* Both are asked while others write. */
static void test_range(void **state)
{
    (void)state;
    struct db_binlog_pos p = {.gtid = "0-1-7"};
    struct db_gtid_range r = db_gtid_range(&p, 0);
    assert_int_equal(r.least.seq, 7);
    assert_int_equal(r.most.seq, 7);
    snprintf(p.gtid_after, sizeof p.gtid_after, "0-1-9");
    r = db_gtid_range(&p, 0);
    assert_int_equal(r.least.seq, 7);
    assert_int_equal(r.most.seq, 9);
    snprintf(p.gtid, sizeof p.gtid, A ":1-7");
    snprintf(p.gtid_after, sizeof p.gtid_after, A ":1-9");
    r = db_gtid_range(&p, db_gtid_domain(a, ""));
    assert_int_equal(r.least.seq, 7);
    assert_int_equal(r.most.seq, 9);
    r = db_gtid_range(&p, db_gtid_domain(b, ""));
    assert_int_equal(r.least.seq, 0);
    assert_int_equal(r.most.seq, 0);
}

/* A jump that nobody can be asked about is no other log. */
static void test_nobody_to_ask(void **state)
{
    (void)state;
    struct err e = {0};
    struct db_binlog_pos p = {.gtid = "0-1-7"};
    struct db_params nowhere = {
        .socket = "/nowhere/s", .user = "u", .connect_timeout = 1000, .read_timeout = 1000};
    assert_int_equal(log_is_continuous(&nowhere, &p, &(struct change_gtid){0, 1, 8}, &e), 0);
    assert_int_equal(log_is_continuous(&nowhere, &p, &(struct change_gtid){0, 1, 100}, &e), -1);
    assert_int_equal(e.cls, ERR_UNREACHABLE);
    assert_non_null(strstr(e.text, "/nowhere/s"));
    snprintf(p.gtid_after, sizeof p.gtid_after, "0-1-90");
    assert_int_equal(log_is_continuous(&nowhere, &p, &(struct change_gtid){0, 1, 50}, &e), 0);
    snprintf(p.gtid_after, sizeof p.gtid_after, "0-2-90"); /* nothing is known between the two */
    assert_int_equal(log_is_continuous(&nowhere, &p, &(struct change_gtid){0, 1, 50}, &e), -1);
    assert_int_equal(e.cls, ERR_UNREACHABLE);
}

/* What a MySQL's own sessions write it numbers as it writes it. MariaDB keeps each server's
 * transactions of a domain in order. */
static void test_ordered(void **state)
{
    (void)state;
    struct change_gtid own = {db_gtid_domain(a, ""), 1, 8}, sent = {db_gtid_domain(b, ""), 1, 8};
    struct change_gtid other = {7, 2, 9}, one = {7, 1, 5};
    assert_true(db_gtid_ordered(A, &own, &own));
    assert_false(db_gtid_ordered(A, &sent, &sent));
    assert_false(db_gtid_ordered(A, &own, &sent));
    assert_true(db_gtid_ordered("CzXfrBvLMxdJYwGYnXBBmi4ZK6c=", &one, &one));
    assert_false(db_gtid_ordered("CzXfrBvLMxdJYwGYnXBBmi4ZK6c=", &one, &other));
    assert_false(db_gtid_ordered("", &one, &other));
    assert_true(db_gtid_ordered("", &other, &other));
    assert_false(db_gtid_ordered(A "00", &one, &other)); /* no UUID */
}

/* What a MariaDB server answers when it is asked for the GTIDs at a position. */
static void test_confirmed(void **state)
{
    (void)state;
    static const struct {
        const char *gtid, *after, *reported;
        bool confirmed;
    } cases[] = {
        {"0-2-1000", "", "0-2-1000", true},
        {"0-2-1000", "", "0-2-999", false},
        {"0-2-1000", "", "0-1-1000", false},
        {"0-2-1000", "", "", false},
        {"0-1-51", "", "1-1-3,0-1-51", true}, /* a segment has the last one only */
        {"0-1-51,1-1-3", "", "1-1-3,0-1-51", true},
        {"0-1-51,1-1-3", "", "0-1-51", false},
        {"0-1-51,1-1-3", "", "0-1-51,1-1-4", false},
        /* others wrote while both were asked for */
        {"0-2-1000", "0-2-1003", "0-2-1000", true},
        {"0-2-1000", "0-2-1003", "0-2-1002", true},
        {"0-2-1000", "0-2-1003", "0-2-1003", true},
        {"0-2-1000", "0-2-1003", "0-2-1004", false},
        {"0-2-1000", "0-2-1003", "0-2-999", false},
        {"0-2-1000", "0-1-51", "0-2-1000", true},
        {"0-2-1000", "0-1-51", "0-1-51", true},
        {"0-2-1000", "0-1-51", "0-1-50", false},
        {"0-2-1000", "0-1-51", "0-2-1001", false},
        {"0-2-1000", "0-2-1003", "0-1-51", false},
        {"0-1-7", "0-1-7,1-1-3", "0-1-7", true},
        {"0-1-7", "0-1-7,1-1-3", "0-1-7,1-1-3", true},
        {"0-1-7", "0-1-7,1-1-3", "0-1-7,1-1-4", false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct db_binlog_pos p = {.file = "log.000001"};
        snprintf(p.gtid, sizeof p.gtid, "%s", cases[i].gtid);
        snprintf(p.gtid_after, sizeof p.gtid_after, "%s", cases[i].after);
        if (db_gtid_confirmed(cases[i].reported, &p) != cases[i].confirmed)
            fail_msg("%s %s: %s", p.gtid, p.gtid_after, cases[i].reported);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mariadb), cmocka_unit_test(test_mysql),
        cmocka_unit_test(test_range),   cmocka_unit_test(test_nobody_to_ask),
        cmocka_unit_test(test_ordered), cmocka_unit_test(test_confirmed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
