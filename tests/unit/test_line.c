/* base/line: what does not fit is cut between characters, and shown as cut; errors are such
 * lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/line.h"
#include "base/text.h"

static void test_cut(void **state)
{
    (void)state;
    static const struct {
        const char *text, *line;
    } cases[] = {
        {"", ""},
        {"123456789", "123456789"},
        {"1234567890", "123456..."},
        {"12345\xc3\xa4\xc3\xb6", "12345\xc3\xa4\xc3\xb6"},
        {"12345\xc3\xa4\xc3\xb6\xc3\xbc", "12345..."}, /* its second byte would not fit */
        {"\xf0\x9f\x91\xbe\xf0\x9f\x91\xbe\xf0\x9f\x91\xbe", "\xf0\x9f\x91\xbe..."},
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", "..."},
    };
    char line[10], tiny[3];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        line_set(line, sizeof line, "%s", cases[i].text);
        assert_string_equal(line, cases[i].line);
        line[0] = '\0';
        line_add(line, sizeof line, "%s", cases[i].text);
        assert_string_equal(line, cases[i].line);
    }
    line_set(line, sizeof line, "%s", "12345");
    line_add(line, sizeof line, "%s", "6789");
    assert_string_equal(line, "123456789");
    line_add(line, sizeof line, "%s", "0");
    assert_string_equal(line, "123456...");
    line_add(line, sizeof line, "%s", "0");
    assert_string_equal(line, "123456...");
    line_set(tiny, sizeof tiny, "%s", "12345");
    assert_string_equal(tiny, "12");
}

/* A hint holds commands: a command without its end must not look like one. */
static void test_errors(void **state)
{
    (void)state;
    struct err e = {0};
    SCOPED(xfree) char *big = xcalloc(3001, 1);
    memset(big, 'x', 3000);
    err_set(&e, ERR_SYSTEM, 0, "%s", big);
    assert_string_equal(e.text + strlen(e.text) - 4, "x...");
    err_hint(&e, "%s", big);
    assert_string_equal(e.hint + strlen(e.hint) - 4, "x...");
    err_step(&e, "step");
    assert_true(text_starts(e.text, "step: xxx"));
    assert_string_equal(e.text + strlen(e.text) - 4, "x...");
    err_set(&e, ERR_SYSTEM, 0, "short");
    err_hint(&e, "%s", big);
    err_hint_in_text(&e);
    assert_string_equal(e.text + strlen(e.text) - 4, "x...");
    err_sys(&e, 5, "%s", big);
    assert_string_equal(e.text + strlen(e.text) - 4, "x...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cut), cmocka_unit_test(test_errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
