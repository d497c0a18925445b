/* URLs of stores, names in them, and the XML that they answer with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "config/store_url.h"
#include "offsite/remote_int.h"
#include "offsite/xml.h"

static void test_url(void **state)
{
    static const struct {
        const char *text, *user, *host, *bucket, *path;
        enum store_kind kind;
    } good[] = {
        {"file:///mnt/a%20b//c/", NULL, NULL, NULL, "/mnt/a b/c/", STORE_DIR},
        {"sftp://me%40x@h:22/dir", "me@x", "h:22", NULL, "/dir/", STORE_SFTP},
        {"sftp://u@[::1]/~/d/", "u", "[::1]", NULL, "/~/d/", STORE_SFTP},
        {"s3://b.c-d", NULL, NULL, "b.c-d", "", STORE_S3},
        {"s3://b/p/q", NULL, NULL, "b", "p/q/", STORE_S3},
        {"https://h", NULL, "h", NULL, "/", STORE_HTTP},
        {"HTTP://h:80/d/", NULL, "h:80", NULL, "/d/", STORE_HTTP},
    };
    static const char *const bad[] = {
        "",
        "ftp://h/",
        "file://",
        "file:///",
        "file://h/d/",
        "sftp://h/d",
        "sftp://@h/",
        "sftp://u:p@h/",
        "sftp://u@",
        "sftp://u@v@h/",
        "s3://",
        "s3://-b/",
        "s3://b_c@d/",
        "s3:///p",
        "https://u@h/",
        "https:///d",
        "https://h/a?b",
        "https://h/#a",
        "https://h/../a",
        "https://h/%2e%2e/a",
        "https://h/%2fa",
        "https://h/%0a",
        "https://h/%",
        "https://h/%4",
        "https://h/%ff",
    };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct store_url u;
        assert_int_equal(store_url_parse(good[i].text, &u), 0);
        assert_int_equal(u.kind, good[i].kind);
        const char *const has[] = {u.user, u.host, u.bucket, u.path};
        const char *const want[] = {good[i].user, good[i].host, good[i].bucket, good[i].path};
        for (size_t k = 0; k < 4; k++) {
            assert_true(!has[k] == !want[k]);
            if (want[k])
                assert_string_equal(has[k], want[k]);
        }
        store_url_free(&u);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct store_url u;
        assert_int_equal(store_url_parse(bad[i], &u), -1);
        assert_null(u.path);
    }
}

static void test_names(void **state)
{
    static const char *const good[] = {"a", "s8/dumps/s8-000001.sql.gz.age", "A_b-9.x/0"};
    static const char *const bad[] = {"",     "/a",  "a/",  "a//b", "../a",   "a/..", ".a",
                                      "a/.b", "a b", "a+b", "a%b",  "a.part", "a\n",  "-a"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(remote_name_valid(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(remote_name_valid(bad[i]));
    char name[700];
    memset(name, 'a', sizeof name);
    name[600] = '\0';
    assert_true(remote_name_valid(name));
    name[600] = 'a';
    name[601] = '\0';
    assert_false(remote_name_valid(name));
}

static void test_parts(void **state)
{
    static const char *const others[] = {"x.part",
                                         "x.1700000000.part",
                                         "x.1700000000-0123abc.part",
                                         "x.1700000000-0123abcG.part",
                                         "x1700000000-0123abcd.part",
                                         "x.-0123abcd.part",
                                         "x.123456789012-0123abcd.part",
                                         "x.1700000000-0123abcd.part2",
                                         ".1-0123abcd.part"};
    (void)state;
    int64_t before = clock_wall().ms / 1000;
    SCOPED(xfree) char *part = remote_part("s8/dumps/x.gz");
    assert_true(text_starts(part, "s8/dumps/x.gz."));
    assert_in_range(remote_part_time(part), before, clock_wall().ms / 1000);
    assert_false(remote_name_valid(part));
    assert_int_equal(remote_part_time("x.1700000000-0123abcd.part"), 1700000000);
    for (size_t i = 0; i + 1 < sizeof others / sizeof *others; i++)
        assert_int_equal(remote_part_time(others[i]), -1);
}

static int write_down(void *arg, const char *name, const char *text)
{
    struct buf *b = arg;
    buf_printf(b, text ? "%s=%s;" : "%s(", name, text);
    return strcmp(name, "stop") == 0 ? -1 : 0;
}

static void test_xml(void **state)
{
    static const struct {
        const char *text, *read;
    } cases[] = {
        {"<a>x</a>", "a(a=x;"},
        {"<?xml version=\"1.0\"?><!-- <a> --><D:a xmlns:D=\"x:y\">&lt;&#65;&#x42;&amp;&bad;</D:a>",
         "a(a=<AB&?;"},
        {"<a><b/>x</a>", "a(b(b=;a=x;"},
        {"<a \n b='1'/>", "a(a=;"},
        {"a & b<c>&</c>", "c(c=&;"},
        {"<a", ""},
        {"<>", "(=;"},
        {"</a>", "a=;"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step < 4; step++) {
            SCOPED(buf_free) struct buf b = {0};
            struct xml x = {.element = write_down, .arg = &b};
            buf_adds(&b, "");
            for (size_t at = 0; at < strlen(cases[i].text); at += step) {
                size_t left = strlen(cases[i].text) - at;
                assert_int_equal(xml_read(&x, cases[i].text + at, left < step ? left : step), 0);
            }
            if (strcmp(cases[i].read, "(=;") != 0)
                assert_string_equal(b.p, cases[i].read);
        }
    struct buf b = {0};
    struct xml x = {.element = write_down, .arg = &b};
    assert_int_equal(xml_read(&x, "<stop>", 6), -1);
    buf_clear(&b);
    assert_int_equal(xml_read(&x, "<a>", 3), 0);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(xml_read(&x, "x", 1), 0);
    assert_int_equal(xml_read(&x, "</a>", 4), 0);
    assert_string_equal(b.p, "a(a=;");
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_url), cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_parts), cmocka_unit_test(test_xml)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
