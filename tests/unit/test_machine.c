/* base/machine: the disk on which a directory is located. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/machine.h"

static const char table[] = "22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n"
                            "31 22 0:27 / /run rw,nosuid master:5 - tmpfs tmpfs rw,size=10k\n"
                            "short\n"
                            "40 22 8:17 /dumps /var/lib/worldkeeper rw - xfs /dev/sdb1 rw";

static void test_find(void **state)
{
    (void)state;
    char out[64];
    mount_find(table, 259, 2, out, sizeof out);
    assert_string_equal(out, "/dev/nvme0n1p2 on /");
    mount_find(table, 0, 27, out, sizeof out);
    assert_string_equal(out, "tmpfs on /run");
    mount_find(table, 8, 17, out, sizeof out);
    assert_string_equal(out, "/dev/sdb1 on /var/lib/worldkeeper");
    mount_find(table, 8, 18, out, sizeof out);
    assert_string_equal(out, "");
    mount_find("", 8, 17, out, sizeof out);
    assert_string_equal(out, "");
    mount_find(table, 8, 17, out, 9);
    assert_string_equal(out, "/dev/sdb");
}

static void test_boot_id(void **state)
{
    (void)state;
    static const struct {
        const char *text, *id;
    } cases[] = {
        {"24b01163-064a-4ee0-9277-f365dcdd86bd\n", "24b01163064a4ee09277f365dcdd86bd"},
        {"24b01163064a4ee09277f365dcdd86bd", "24b01163064a4ee09277f365dcdd86bd"},
        {"24b01163-064a-4ee0-9277-f365dcdd86b", ""},
        {"24b01163-064a-4ee0-9277-f365dcdd86bd0", ""},
        {"24b01163-064a-4ee0-9277-f365dcdd86bg", ""},
        {"\n24b01163-064a-4ee0-9277-f365dcdd86bd", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[MACHINE_BOOT];
        machine_boot_parse(cases[i].text, out);
        assert_string_equal(out, cases[i].id);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_boot_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
