/* base/text: durations, sizes, counts and times in words, buffers, and one-line safe output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void test_duration_parse(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } cases[] = {
        {"0", 0},
        {"0s", 0},
        {"1ms", 1},
        {"250ms", 250},
        {"1s", 1000},
        {"90s", 90000},
        {"15m", 900000},
        {"1h", 3600000},
        {"1h30m", 5400000},
        {"1d", 86400000},
        {"7d", 604800000},
        {"2w", 1209600000},
        {"1s1s", 2000},
        {"1w2d3h4m5s6ms", 788645006},
        {"007m", 420000},
        {"100000d", 8640000000000},
        {"", -1},
        {"15", -1},
        {"00", -1},
        {"m", -1},
        {"15 m", -1},
        {" 15m", -1},
        {"15m ", -1},
        {"-1m", -1},
        {"+1m", -1},
        {"1.5h", -1},
        {"1,5h", -1},
        {"15M", -1},
        {"15min", -1},
        {"1h30", -1},
        {"0x1s", -1},
        {"1y", -1},
        {"1h,1m", -1},
        {"99999999999999999999s", -1},
        {"9223372036854775807w", -1},
        {"9223372036854775807ms", -1},
        {"2305843009213693951ms", 2305843009213693951},
        {"2305843009213693951ms1ms", -1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t ms = -7;
        int rc = text_duration_parse(cases[i].text, &ms);
        if (rc != (cases[i].ms < 0 ? -1 : 0) || (rc == 0 && ms != cases[i].ms))
            fail_msg("'%s': %d, %lld ms", cases[i].text, rc, (long long)ms);
    }
}

static void test_size_parse(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int rc;
        uint64_t bytes;
    } cases[] = {
        {"0", 0, 0},
        {"312B", 0, 312},
        {"512k", 0, 524288},
        {"512K", 0, 524288},
        {"1KiB", 0, 1024},
        {"1kiB", 0, 1024},
        {"1kB", 0, 1000},
        {"64MiB", 0, 67108864},
        {"64M", 0, 67108864},
        {"1MB", 0, 1000000},
        {"1GiB", 0, 1073741824},
        {"1GB", 0, 1000000000},
        {"2T", 0, 2199023255552},
        {"2TiB", 0, 2199023255552},
        {"2TB", 0, 2000000000000},
        {"", -1, 0},
        {"1024", -1, 0},
        {"MiB", -1, 0},
        {"1 MiB", -1, 0},
        {"1mib", -1, 0},
        {"1MiBs", -1, 0},
        {"1M1k", -1, 0},
        {"-1M", -1, 0},
        {"1.5G", -1, 0},
        {"8388607T", 0, 9223370937343148032u},
        {"8388608T", -1, 0},
        {"99999999999T", -1, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t bytes = 7;
        int rc = text_size_parse(cases[i].text, &bytes);
        if (rc != cases[i].rc || (rc == 0 && bytes != cases[i].bytes))
            fail_msg("'%s': %d, %llu bytes", cases[i].text, rc, (unsigned long long)bytes);
    }
}

static void test_duration_words(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "0 ms"},          {250, "250 ms"},       {999, "999 ms"},     {1000, "1.0 s"},
        {12345, "12.3 s"},    {59999, "59.9 s"},     {60000, "1m"},       {185000, "3m 05s"},
        {3599999, "59m 59s"}, {3600000, "1h"},       {3720000, "1h 02m"}, {86399999, "23h 59m"},
        {86400000, "1d"},     {608400000, "7d 01h"},
    };
    char out[TEXT_SHORT];
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_string_equal(text_duration(cases[i].ms, out), cases[i].text);
    assert_string_equal(text_elapsed(0, out), "less than 1 ms");
    assert_string_equal(text_elapsed(1, out), "1 ms");
}

/* A bound is never shown as less than it is. */
static void test_bound_words(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "1 s"},      {1, "1 s"},    {1000, "1 s"},     {1001, "2 s"},
        {59000, "59 s"}, {59001, "1m"}, {60001, "1m 01s"}, {843000, "14m 03s"},
    };
    char out[TEXT_SHORT];
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_string_equal(text_bound(cases[i].ms, out), cases[i].text);
}

static void test_size_and_count_words(void **state)
{
    (void)state;
    char out[TEXT_SHORT];
    assert_string_equal(text_size(0, out), "0 B");
    assert_string_equal(text_size(312, out), "312 B");
    assert_string_equal(text_size(1023, out), "1023 B");
    assert_string_equal(text_size(1024, out), "1.0 KiB");
    assert_string_equal(text_size(1536, out), "1.5 KiB");
    assert_string_equal(text_size(1503238553, out), "1.4 GiB");
    assert_string_equal(text_size(1048524, out), "1023.9 KiB");
    assert_string_equal(text_size(1048525, out), "1.0 MiB");
    for (unsigned bits = 10; bits < 50; bits++) /* no rounding reaches the next unit */
        for (uint64_t less = 1; less < (UINT64_C(1) << bits); less *= 3)
            assert_null(strstr(text_size((UINT64_C(1) << bits) - less, out), "1024.0"));
    assert_string_equal(text_size(UINT64_MAX, out), "16777216.0 TiB");
    assert_string_equal(text_count(0, out), "0");
    assert_string_equal(text_count(999, out), "999");
    assert_string_equal(text_count(1000, out), "1,000");
    assert_string_equal(text_count(3750000, out), "3,750,000");
    assert_string_equal(text_count(UINT64_MAX, out), "18,446,744,073,709,551,615");
}

static void test_utc(void **state)
{
    (void)state;
    char out[TEXT_SHORT];
    assert_string_equal(text_utc((wall_t){0}, out), "1970-01-01T00:00:00Z");
    assert_string_equal(text_utc((wall_t){1769903999999}, out), "2026-01-31T23:59:59Z");
    assert_string_equal(text_utc_name((wall_t){1769903999999}, out), "20260131T235959");
    assert_string_equal(text_utc_ms((wall_t){1769903999999}, out), "2026-01-31T23:59:59.999Z");
    assert_string_equal(text_utc_ms((wall_t){1769903999007}, out), "2026-01-31T23:59:59.007Z");
    assert_string_equal(text_utc_ms((wall_t){0}, out), "1970-01-01T00:00:00.000Z");
    assert_string_equal(text_utc((wall_t){4294967296000}, out), "2106-02-07T06:28:16Z");
    setenv("TZ", "Asia/Tokyo", 1); /* UTC is UTC everywhere */
    assert_string_equal(text_utc((wall_t){1709164800000}, out), "2024-02-29T00:00:00Z");
    unsetenv("TZ");
}

static void test_utf8_valid(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        bool valid;
    } cases[] = {
        {"", true},
        {"plain", true},
        {"\xc3\xa4", true},
        {"\xe2\x82\xac", true},
        {"\xf0\x9f\x8e\xae", true},
        {"\xf4\x8f\xbf\xbf", true}, /* U+10FFFF */
        {"\xed\x9f\xbf", true},     /* U+D7FF */
        {"\xee\x80\x80", true},     /* U+E000 */
        {"\x80", false},
        {"a\xc3", false},
        {"\xc3(", false},
        {"\xe2\x82", false},
        {"\xf0\x9f\x8e", false},
        {"\xc0\xaf", false}, /* overlong */
        {"\xc1\xbf", false},
        {"\xe0\x9f\xbf", false},
        {"\xf0\x8f\xbf\xbf", false},
        {"\xed\xa0\x80", false},     /* surrogate */
        {"\xf4\x90\x80\x80", false}, /* beyond U+10FFFF */
        {"\xf5\x80\x80\x80", false},
        {"\xff", false},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        if (text_utf8_valid(cases[i].bytes, strlen(cases[i].bytes)) != cases[i].valid)
            fail_msg("case %zu", i);
    assert_true(text_utf8_valid("a\0b", 3));
}

static void expect_clean(const char *s, size_t max, const char *want)
{
    struct buf b = {0};
    text_clean(&b, s, max);
    assert_string_equal(b.p, want);
    assert_int_equal(b.len, strlen(want));
    buf_free(&b);
}

static void test_clean(void **state)
{
    (void)state;
    expect_clean("", 10, "");
    expect_clean("plain", 10, "plain");
    expect_clean("a\nb\r\tc\x1b[31m\x7f", 20, "a?b??c?[31m?");
    expect_clean("\xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\xae", 20,
                 "\xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\xae");
    expect_clean("\xc2\x9b"
                 "31m\xc2\xa0",
                 20, "?31m\xc2\xa0"); /* a control character of two bytes; a space of two */
    /* ends a line in a mail or a chat, and turns the rest of it round */
    expect_clean("a\xe2\x80\xa8z\xe2\x80\xae"
                 "b\xe2\x81\xa6"
                 "c\xe2\x81\xa9\xe2\x80\xaa",
                 40, "a?z?b?c??");
    expect_clean("\xe2\x80\xa6\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\x9f", 40,
                 "\xe2\x80\xa6\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\x9f");
    /* U+200E, U+200F, U+061C; U+200B, U+2060, U+FEFF, U+00AD, U+3164, U+E0041: not seen at all */
    expect_clean("\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c", 40, "???");
    expect_clean("\xe2\x80\x8b\xe2\x81\xa0\xef\xbb\xbf\xc2\xad\xe3\x85\xa4\xf3\xa0\x81\x81", 40,
                 "??????");
    expect_clean("\xff\xc3_", 10, "??_");
    expect_clean("tail\xe2\x82", 10, "tail??");
    expect_clean("0123456789", 10, "0123456789");
    expect_clean("0123456789a", 10, "0123456789...");
    expect_clean("012345678\xc3\xa4", 10, "012345678..."); /* no half characters */
    expect_clean("x", 0, "...");
}

/* Any bytes: the outcome is valid UTF-8 on one line. */
static void test_clean_random(void **state)
{
    (void)state;
    uint64_t seed = 42;
    for (int i = 0; i < 20000; i++) {
        char s[24];
        for (size_t k = 0; k < sizeof s; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            s[k] = (char)(seed >> 56);
        }
        s[sizeof s - 1] = '\0';
        struct buf b = {0};
        text_clean(&b, s, 16);
        assert_true(b.len <= 16 + 3);
        assert_true(text_utf8_valid(b.p, b.len));
        for (size_t k = 0; k < b.len; k++)
            assert_true((unsigned char)b.p[k] >= 0x20 && b.p[k] != 0x7f);
        buf_free(&b);
    }
}

static void test_buf(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_clear(&b); /* fine on an empty one */
    buf_add(&b, "a\0b", 3);
    assert_int_equal(b.len, 3);
    assert_memory_equal(b.p, "a\0b", 4);
    buf_clear(&b);
    assert_string_equal(b.p, "");
    for (int i = 0; i < 10000; i++)
        buf_printf(&b, "%d,", i % 10);
    assert_int_equal(b.len, 20000);
    buf_addc(&b, '!');
    assert_string_equal(b.p + 19998, "9,!");
    buf_free(&b);
    assert_null(b.p);
    assert_int_equal(b.len + b.cap, 0);
    buf_add(&b, "", 0);
    assert_string_equal(b.p, "");
    buf_free(&b);
}

static void test_small_ones(void **state)
{
    (void)state;
    char hex[9];
    text_hex((const unsigned char *)"\x00\x7f\x80\xff", 4, hex);
    assert_string_equal(hex, "007f80ff");
    assert_true(text_is_hex(hex, 8) && !text_is_hex(hex, 6) && !text_is_hex("007F80ff", 8));
    unsigned char bytes[4];
    assert_true(text_unhex(hex, bytes, 4) && memcmp(bytes, "\x00\x7f\x80\xff", 4) == 0);
    assert_false(text_unhex("007F80ff", bytes, 4) || text_unhex("007f80f", bytes, 4));
    for (int c = 0; c < 256; c++) {
        char digit[] = {(char)c, '\0'};
        assert_int_equal(text_is_digit((char)c), c >= '0' && c <= '9');
        if (c && strspn(digit, "0123456789abcdefABCDEF"))
            assert_int_equal(text_hex_value((char)c), strtoul(digit, NULL, 16));
    }
    assert_true(text_starts("worldkeeper", "world"));
    assert_true(text_starts("x", ""));
    assert_false(text_starts("wor", "world"));
    char *s = xasprintf("%s-%03d", "w", 7), *d = xstrndup("abcdef", 3), *c = xstrdup("");
    assert_string_equal(s, "w-007");
    assert_string_equal(d, "abc");
    assert_string_equal(c, "");
    free(s);
    free(d);
    free(c);
}

/* The same moment however it is written; nothing that is only nearly one. */
static void test_times(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t seconds; /* UTC */
    } good[] = {
        {"2026-11-21 18:30:05", 1795285805},
        {"2026-11-21T18:30:05", 1795285805},
        {"2026-11-21T18:30:05Z", 1795285805},
        {"2026-11-21 18:30", 1795285800},
        {"2026-11-21 18:30Z", 1795285800},
        {"18:30", 1795285800},
        {"18:30Z", 1795285800},
        {"18:30:05Z", 1795285805}, /* as mails print it */
        {"18:29:59", 1795285799},
        {"18:45", 1795285800 + 900 - 86400},
        {"2026-11-21", 1795219200},
        {"2026-11-21Z", 1795219200},
        {"-15m", 1795286100 - 900},
        {"-1h30m", 1795286100 - 5400},
    };
    static const char *const bad[] = {"",
                                      "now",
                                      "2026-11",
                                      "2026-02-30",
                                      "18",
                                      "18:30:05x",
                                      "18:30ZZ",
                                      "-",
                                      "15m",
                                      "-15",
                                      "25:00",
                                      "2026-13-01 00:00",
                                      "2026-02-30 12:00",
                                      "2026-02-30 12:00Z",
                                      "2026-11-21 18:30:05Zx",
                                      " ",
                                      "18:30 "};
    const wall_t now = {INT64_C(1795286100000)}; /* 2026-11-21T18:35:00Z */
    wall_t t;
    setenv("TZ", "UTC", 1);
    tzset();
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(text_time_parse(good[i].text, now, &t), 0);
        assert_int_equal(t.ms, good[i].seconds * 1000);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(text_time_parse(bad[i], now, &t), -1);
    setenv("TZ", "Europe/Budapest", 1); /* an hour ahead of UTC in November */
    tzset();
    assert_int_equal(text_time_parse("2026-11-21 19:30:05", now, &t), 0);
    assert_int_equal(t.ms, INT64_C(1795285805000));
    assert_int_equal(text_time_parse("2026-11-21 18:30:05Z", now, &t), 0);
    assert_int_equal(t.ms, INT64_C(1795285805000));
    assert_int_equal(text_time_parse("2026-11-21 18:30:05 UTC", now, &t), 0); /* as mails have it */
    assert_int_equal(t.ms, INT64_C(1795285805000));
    assert_int_equal(text_time_parse("2026-11-21 19:30:05 CET", now, &t), 0);
    assert_int_equal(t.ms, INT64_C(1795285805000));
    assert_int_equal(text_time_parse("2026-11-21 19:30:05 CEST", now, &t), -1);
    assert_int_equal(text_time_parse("2026-11-21 19:30:05 PST", now, &t), -1);
    assert_int_equal(text_time_parse("19:30:05 CET", now, &t), -1);
    assert_int_equal(text_time_parse("18:30:05Z", now, &t), 0);
    assert_int_equal(t.ms, INT64_C(1795285805000));
}

/* The next such time, also on days of 23 and of 25 hours. */
static void test_time_to_come(void **state)
{
    (void)state;
    static const struct {
        const char *text, *now, *is;
    } cases[] = {
        {"04:30", "2026-05-01 04:00", "2026-05-01 04:30"},
        {"04:30", "2026-05-01 04:30", "2026-05-02 04:30"},
        {"04:30", "2026-05-01 05:00", "2026-05-02 04:30"},
        {"04:30", "2026-03-28 04:00", "2026-03-28 04:30"}, /* 23 hours follow */
        {"04:30", "2026-03-28 20:00", "2026-03-29 04:30"},
        {"04:30", "2026-10-24 04:35", "2026-10-25 04:30"}, /* 25 hours */
        {"04:30", "2026-10-24 05:00", "2026-10-25 04:30"},
        {"2026-10-26 04:30", "2026-10-24 05:00", "2026-10-26 04:30"},
        {"2026-10-24 05:00", "2026-10-24 05:00", NULL},
        {"2026-10-23", "2026-10-24 05:00", NULL},
        {"-15m", "2026-10-24 05:00", NULL},
        {"noon", "2026-10-24 05:00", NULL},
    };
    setenv("TZ", "Europe/Budapest", 1);
    tzset();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wall_t now, is, t;
        assert_int_equal(text_time_parse(cases[i].now, (wall_t){0}, &now), 0);
        int rc = text_time_to_come(cases[i].text, now, &t);
        assert_int_equal(rc, cases[i].is ? 0 : -1);
        if (cases[i].is && text_time_parse(cases[i].is, (wall_t){0}, &is) == 0)
            assert_int_equal(t.ms, is.ms);
    }
}

/* On 2026-10-25 the clock goes from 03:00 back to 02:00, at 01:00 UTC. */
static void test_times_shown_twice(void **state)
{
    (void)state;
    static const struct {
        const char *text, *now;
        bool to_come, twice;
    } cases[] = {
        {"2026-10-25 02:30", "2026-10-26T00:00Z", false, true},
        {"2026-10-25T02:30:00", "2026-10-24T00:00Z", true, true},
        {"2026-10-25 02:30Z", "2026-10-26T00:00Z", false, false},
        {"2026-10-25 03:00", "2026-10-26T00:00Z", false, false},
        {"2026-10-25 01:59", "2026-10-26T00:00Z", false, false},
        {"2026-10-25", "2026-10-26T00:00Z", false, false},
        {"2026-03-29 02:30", "2026-10-26T00:00Z", false, false}, /* never shown */
        {"02:30", "2026-10-25T00:40Z", false, true},             /* 02:40, the first time */
        {"02:30", "2026-10-25T01:40Z", false, true},             /* … and the second */
        {"02:30", "2026-10-25T00:10Z", true, true},              /* 02:10, the first time */
        {"02:30", "2026-10-25T00:40Z", true, true},
        {"02:30", "2026-10-24T23:00Z", true, true},
        {"02:30", "2026-10-24T12:00Z", true, true},
        {"02:30", "2026-10-24T12:00Z", false, false}, /* today's */
        {"02:30", "2026-10-25T00:10Z", false, false}, /* yesterday's */
        {"02:30", "2026-10-25T01:40Z", true, false},  /* tomorrow's */
        {"02:30", "2026-10-26T00:10Z", false, true},  /* yesterday's */
        {"-90m", "2026-10-25T01:40Z", false, false},
        {"noon", "2026-10-25T01:40Z", false, false},
    };
    wall_t now, both[2], first;
    setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    tzset();
    assert_int_equal(text_time_parse("2026-10-25T00:30Z", (wall_t){0}, &first), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(text_time_parse(cases[i].now, (wall_t){0}, &now), 0);
        bool is = text_time_twice(cases[i].text, now, cases[i].to_come, both);
        if (is != cases[i].twice)
            fail_msg("%s at %s", cases[i].text, cases[i].now);
        if (is) {
            assert_int_equal(both[0].ms, first.ms);
            assert_int_equal(both[1].ms, first.ms + 3600000);
        }
    }
}

/* Kept so that this list of letters is not itself what is looked for. */
static const char masked[] = "B@O@SX,UI@U,ORONEX,RDDR";
#define MASK 1

static unsigned long found_between(const char *from, const char *end)
{
    size_t n = sizeof masked - 1;
    unsigned long found = 0;
    for (const char *p = from; p + n <= end; p++) {
        size_t i = 0;
        while (i < n && p[i] == (masked[i] ^ MASK))
            i++;
        found += i == n;
    }
    return found;
}

/* How often it stands in the heap of this program; 0 as well where /proc is not to be had. */
static unsigned long found_in_heap(void)
{
    char line[512], access[8], *from, *end;
    unsigned long found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%p-%p %7s", (void **)&from, (void **)&end, access) == 3 &&
            strcmp(access, "rw-p") == 0 && strstr(line, "[heap]"))
            found += found_between(from, end);
    if (maps)
        fclose(maps);
    return found;
}

static void test_secret(void **state)
{
    (void)state;
    struct buf b = {.secret = true};
    buf_adds(&b, "free() writes at the front here"); /* and not over what is looked for */
    for (size_t i = 0; i < sizeof masked - 1; i++)
        buf_addc(&b, (char)(masked[i] ^ MASK));
    unsigned long begun = found_in_heap();
    char *behind = xcalloc(1, 64); /* it cannot grow where it is */
    buf_reserve(&b, 4000);
    assert_in_range(begun, 0, 1);
    assert_int_equal(found_in_heap(), begun);
    buf_free(&b);
    assert_int_equal(found_in_heap(), 0);
    free(behind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_time_to_come),
        cmocka_unit_test(test_times_shown_twice),
        cmocka_unit_test(test_duration_parse),
        cmocka_unit_test(test_size_parse),
        cmocka_unit_test(test_duration_words),
        cmocka_unit_test(test_bound_words),
        cmocka_unit_test(test_size_and_count_words),
        cmocka_unit_test(test_utc),
        cmocka_unit_test(test_utf8_valid),
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_clean_random),
        cmocka_unit_test(test_buf),
        cmocka_unit_test(test_secret),
        cmocka_unit_test(test_small_ones),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
