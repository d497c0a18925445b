/* offsite/ledger_copies: files of rolled-up rows, by their names in the store and here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "offsite/ledger_copies.h"

#define FIRST "xp-00000001-1-300-20260131T235959Z"
#define OTHER "xp-00000001-1-280-20260201T000000Z"
#define SECOND "xp-00000002-301-310-20260202T000000Z"

static char world[] = "s8";
static struct config config = {.name = world, .ledger_count = 1};

static struct ledger_copy copy(const char *name)
{
    struct ledger_copy x = {.of = &config.ledgers[0], .manifest = true, .plain = 1};
    assert_true(ledger_file_parse(name, strlen(name), "xp", &x.f));
    return x;
}

static void test_names(void **state)
{
    (void)state;
    char name[COPY_NAME_MAX];
    ledger_copy_name(name, "s8", FIRST, LEDGER_FILES_MANIFEST);
    assert_string_equal(name, "s8/ledgers/" FIRST ".csv.json");
    ledger_copy_data(name, "s8", FIRST, 1, false);
    assert_string_equal(name, "s8/ledgers/" FIRST ".csv.gz");
    ledger_copy_data(name, "s8", FIRST, 2, true);
    assert_string_equal(name, "s8/ledgers/" FIRST ".2.csv.gz.age");
}

static void test_one_of_two_with_a_number(void **state)
{
    (void)state;
    SCOPED(ledger_copies_free) struct ledger_copies c = {0};
    struct ledger_copy first = copy(FIRST), other = copy(OTHER), second = copy(SECOND);
    ledger_copies_put(&c, &second);
    ledger_copies_put(&c, &first);
    assert_null(ledger_copies_rival(&c, &first));
    assert_string_equal(ledger_copies_rival(&c, &other)->f.name, FIRST);
    assert_null(ledger_copies_find(&c, OTHER));
    struct ledger_copy undone = {.f = first.f, .of = first.of, .undone = true};
    ledger_copies_put(&c, &undone); /* joined with what is known of it */
    assert_int_equal(c.count, 2);
    assert_true(ledger_copies_find(&c, FIRST)->manifest);
    assert_false(ledger_copy_valid(ledger_copies_find(&c, FIRST)));
    assert_null(ledger_copies_rival(&c, &other));
}

static void test_age(void **state)
{
    (void)state;
    struct ledger_copy x = copy(FIRST);
    wall_t later = {x.f.written.ms + 1001};
    config.ledgers[0].keep = 0;
    assert_false(ledger_copy_expired(&x, later));
    config.ledgers[0].keep = 1001;
    assert_false(ledger_copy_expired(&x, later));
    config.ledgers[0].keep = 1000;
    assert_true(ledger_copy_expired(&x, later));
    config.ledgers[0].keep = 0;
}

static void test_what_is_here(void **state)
{
    (void)state;
    static const char *const names[] = {FIRST ".csv.gz",        FIRST ".csv.json",
                                        OTHER ".csv.gz.undone", SECOND ".csv.gz",
                                        "yp" FIRST ".csv.gz",   "xp-00000003.csv.gz.part"};
    char dir[] = "/tmp/wk-unit-XXXXXX";
    struct err e = {0};
    assert_non_null(mkdtemp(dir));
    int dirfd = open(dir, O_RDONLY | O_DIRECTORY);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        close(openat(dirfd, names[i], O_WRONLY | O_CREAT, 0600));
    SCOPED(ledger_copies_free) struct ledger_copies c = {0};
    assert_int_equal(ledger_copies_here(&config, dirfd, &c, &e), 0);
    assert_int_equal(c.count, 3);
    assert_true(ledger_copy_valid(ledger_copies_find(&c, FIRST)));
    assert_true(ledger_copies_find(&c, OTHER)->undone);
    assert_false(ledger_copy_valid(ledger_copies_find(&c, SECOND))); /* without a manifest */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlinkat(dirfd, names[i], 0);
    close(dirfd);
    rmdir(dir);
}

int main(void)
{
    static char ledger[] = "xp";
    config.ledgers[0].name = ledger;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_one_of_two_with_a_number),
        cmocka_unit_test(test_age),
        cmocka_unit_test(test_what_is_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
