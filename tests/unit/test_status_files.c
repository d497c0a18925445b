/* supervisor/status_files: what the publisher packs is what the disk writer reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "supervisor/status_files.h"

static const struct status_file files[] = {
    {"flag", "UP\n"}, {"status.json", "{\"a\": \"-+\\\"\"}"},
    {"empty", ""},    {"gone", NULL},
    {"-", "-"},       {"last", "+"},
};
#define FILES (sizeof files / sizeof *files)

static void make(struct buf *out, size_t count, bool up)
{
    status_files_begin(out, up);
    for (size_t i = 0; i < count; i++)
        status_files_add(out, files[i].name, files[i].text);
}

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Returns the number of files in a packet, which must be the first ones. */
static size_t count(const char *packet, size_t len)
{
    struct status_files s = status_files_read(packet, len);
    struct status_file f;
    size_t n = 0;
    for (; status_files_next(&s, &f); n++) {
        assert_true(n < FILES);
        assert_string_equal(f.name, files[n].name);
        assert_true(same(f.text, files[n].text));
    }
    return n;
}

static void every_number_of_files_is_read(void **state)
{
    (void)state;
    for (size_t n = 0; n <= FILES; n++)
        for (int up = 0; up < 2; up++) {
            SCOPED(buf_free) struct buf b = {0};
            make(&b, n, up);
            assert_int_equal(status_files_any(&b), n > 0);
            assert_int_equal(status_files_read(b.p, b.len).up, up && n > 0);
            assert_int_equal(count(b.p, b.len), n);
        }
}

/* With each packet in memory of its own size, a sanitizer sees what is read beyond it. */
static void a_packet_that_is_cut_has_its_first_files(void **state)
{
    (void)state;
    SCOPED(buf_free) struct buf b = {0};
    size_t before = 0;
    make(&b, FILES, true);
    for (size_t len = 0; len <= b.len; len++) {
        char *cut = malloc(len ? len : 1);
        assert_non_null(cut);
        memcpy(cut, b.p, len);
        size_t n = count(cut, len);
        assert_true(n == before || n == before + 1);
        before = n;
        free(cut);
    }
    assert_int_equal(before, FILES);
}

static void bytes_that_are_no_file_end_it(void **state)
{
    (void)state;
    static const char wrong[] = "uname\0?text\0";
    assert_int_equal(count(wrong, sizeof wrong - 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_files_is_read),
        cmocka_unit_test(a_packet_that_is_cut_has_its_first_files),
        cmocka_unit_test(bytes_that_are_no_file_end_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
