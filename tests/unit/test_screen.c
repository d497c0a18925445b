/* screen: output for people, written to real files and to a real (pseudo) terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/draw.h"
#include "cli/result_view.h"
#include "cli/screen.h"
#include "fake_clock.h"

/* libc's, or as on a machine without the files of the locale. */
static bool no_locale;

locale_t newlocale(int mask, const char *name, locale_t base)
{
    locale_t (*libc)(int, const char *, locale_t);
    void *p = dlsym(RTLD_NEXT, "newlocale");
    memcpy(&libc, &p, sizeof p);
    return no_locale ? (locale_t)0 : libc(mask, name, base);
}

/* Standard output and standard error while a test looks at them. */
static struct {
    int saved[2], master, slave;
    int file[2];
    struct buf shown[2]; /* out, err; on a terminal both are in [0] */
} cap;

static void begin(void)
{
    fflush(stdout);
    fflush(stderr);
    for (int i = 0; i < 2; i++) {
        cap.saved[i] = dup(i + 1);
        assert_true(cap.saved[i] >= 0);
    }
}

static void capture_files(int quiet, int verbose)
{
    begin();
    cap.master = cap.slave = -1;
    for (int i = 0; i < 2; i++) {
        cap.file[i] = memfd_create("shown", 0);
        assert_true(cap.file[i] >= 0);
        dup2(cap.file[i], i + 1);
    }
    screen_open(quiet, verbose);
}

static void capture_terminal(unsigned short columns)
{
    begin();
    struct winsize w = {.ws_row = 24, .ws_col = columns};
    cap.file[0] = cap.file[1] = -1;
    cap.master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    assert_true(cap.master >= 0);
    assert_int_equal(grantpt(cap.master) | unlockpt(cap.master), 0);
    cap.slave = open(ptsname(cap.master), O_RDWR | O_NOCTTY);
    assert_true(cap.slave >= 0);
    ioctl(cap.slave, TIOCSWINSZ, &w);
    dup2(cap.slave, 1);
    dup2(cap.slave, 2);
    screen_open(0, 0);
}

static void read_all(int fd, struct buf *out)
{
    char data[4096];
    ssize_t n;
    buf_clear(out);
    buf_adds(out, "");
    while ((n = read(fd, data, sizeof data)) > 0)
        buf_add(out, data, (size_t)n);
}

/* Gives the descriptors back; what was shown is in cap.shown. */
static void end(void)
{
    fflush(stdout);
    fflush(stderr);
    if (cap.master >= 0)
        read_all(cap.master, &cap.shown[0]);
    for (int i = 0; i < 2; i++) {
        if (cap.file[i] >= 0) {
            lseek(cap.file[i], 0, SEEK_SET);
            read_all(cap.file[i], &cap.shown[i]);
            close(cap.file[i]);
        }
        dup2(cap.saved[i], i + 1);
        close(cap.saved[i]);
    }
    if (cap.master >= 0) {
        close(cap.master);
        close(cap.slave);
    }
}

static json_t *parse(const char *text)
{
    json_error_t e;
    json_t *o = json_loads(text, 0, &e);
    if (!o)
        fail_msg("%s in: %s", e.text, text);
    return o;
}

static void event(const char *text)
{
    json_t *o = parse(text);
    screen_event(o);
    json_decref(o);
}

/* The result as files show it. */
static const char *result_of(const char *action, const char *text)
{
    json_t *o = parse(text);
    capture_files(0, 0);
    screen_result(action_find(action), o);
    end();
    json_decref(o);
    return cap.shown[0].p;
}

#define SEES(part) assert_non_null(strstr(cap.shown[0].p, part))
#define SEES_NOT(part) assert_null(strstr(cap.shown[0].p, part))
#define ERR_SEES(part) assert_non_null(strstr(cap.shown[1].p, part))
#define ERR_SEES_NOT(part) assert_null(strstr(cap.shown[1].p, part))

static int setup(void **state)
{
    (void)state;
    setenv("TERM", "xterm", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    unsetenv("NO_COLOR");
    unsetenv("COLUMNS");
    return 0;
}

/* ---- drawing ---- */

static void test_widths(void **state)
{
    (void)state;
    assert_int_equal(draw_width(""), 0);
    assert_int_equal(draw_width("abc"), 3);
    assert_int_equal(draw_width("Bolygó ★"), 8);
    assert_int_equal(draw_width("世界"), 4);
    assert_int_equal(draw_width("e\xcc\x81"), 1); /* a combining accent */
    assert_int_equal(draw_width("\xff\xc3"), 2);  /* broken bytes count for themselves */
}

static const char *padded(struct buf *b, const char *s, size_t width, bool right)
{
    buf_clear(b);
    draw_padded(b, s, width, right);
    return b->p;
}

/* Without libc's tables each character takes a column, and none is cut in two. The first test:
 * libc reads them once. */
static void test_no_locale(void **state)
{
    (void)state;
    struct buf b = {0};
    no_locale = true;
    screen_mode.utf8 = true;
    assert_int_equal(draw_width("Bolygó ★"), 8);
    assert_int_equal(draw_width("\xff\xc3"), 2);
    assert_string_equal(padded(&b, "★★★", 2, false), "★…");
    assert_string_equal(padded(&b, "★★★", 1, false), "★");
    assert_string_equal(padded(&b, "ó", 3, true), "  ó");
    no_locale = false;
    buf_free(&b);
}

static void test_padding(void **state)
{
    (void)state;
    struct buf b = {0};
    capture_files(0, 0);
    end();
    assert_string_equal(padded(&b, "ab", 4, false), "ab  ");
    assert_string_equal(padded(&b, "ab", 4, true), "  ab");
    assert_string_equal(padded(&b, "abcdef", 4, false), "abc…");
    assert_string_equal(padded(&b, "世界世界", 4, false), "世… "); /* a wide one is never halved */
    assert_string_equal(padded(&b, "abc", 1, false), "a");
    assert_string_equal(padded(&b, "abc", 0, false), "");
    setenv("LC_ALL", "C", 1);
    capture_files(0, 0);
    end();
    assert_string_equal(padded(&b, "abcdef", 5, false), "ab...");
    buf_free(&b);
}

/* ---- progress ---- */

#define READING(rows, ms)                                                                          \
    "{\"progress\":{\"phase\":\"reading\",\"table\":\"planet\",\"rows\":" rows                     \
    ",\"rows_total\":4000,\"bytes\":1048576,\"bytes_total\":0,\"percent\":-1,\"phase_ms\":" ms     \
    "}}"

static void test_bar(void **state)
{
    (void)state;
    capture_terminal(100);
    event(READING("1000", "2000"));
    screen_done();
    end();
    SEES("\rreading planet");
    SEES(" 25%");
    SEES("1,000 rows");
    SEES("512.0 KiB/s");
    SEES("7 s left");
    SEES("█");
    SEES("\033[32m");
    const char *s = cap.shown[0].p;
    assert_string_equal(s + strlen(s) - 4, "\r\033[K"); /* cleared at the end */
    SEES_NOT("\n");
}

/* A phase is shown whole before the next one begins. */
static void test_bar_phases(void **state)
{
    (void)state;
    capture_terminal(100);
    event(READING("3000", "2000"));
    event("{\"progress\":{\"phase\":\"writing to disk\",\"rows\":0,\"percent\":-1}}");
    screen_done();
    end();
    SEES("100%");
    SEES("4,000 rows");
    SEES("writing to disk");
}

/* No line may be wider than the terminal, or it would wrap and stay. */
static void test_bar_widths(void **state)
{
    (void)state;
    for (unsigned short columns = 1; columns < 140; columns++) {
        capture_terminal(columns);
        event(READING("1000", "2000"));
        end();
        struct buf plain = {0};
        buf_adds(&plain, "");
        for (const char *p = cap.shown[0].p; *p; p++) {
            if (*p == '\r')
                continue;
            if (*p == '\033')
                p += strcspn(p, "mK");
            else
                buf_addc(&plain, *p);
        }
        assert_true(draw_width(plain.p) < (columns > 1 ? columns : 2u));
        buf_free(&plain);
    }
}

static void test_bar_without_colours(void **state)
{
    (void)state;
    setenv("NO_COLOR", "1", 1);
    setenv("LC_ALL", "C", 1);
    capture_terminal(100);
    event(READING("2000", "2000"));
    end();
    SEES_NOT("\033[32m");
    SEES_NOT("█");
    SEES("[###");
    SEES("...]");
}

/* Escape codes mean nothing to a dumb terminal or to a file. */
static void test_no_bar(void **state)
{
    (void)state;
    setenv("TERM", "dumb", 1);
    capture_terminal(100);
    event(READING("2000", "2000"));
    screen_done();
    end();
    SEES_NOT("\033");
    SEES("worldkeeper: reading planet");
}

static void test_plain_lines(void **state)
{
    (void)state;
    capture_files(0, 0);
    event(READING("0", "0"));
    event(READING("1000", "2000"));
    fake_mono_ms += 10000;
    event(READING("2000", "4000"));
    event("{\"progress\":{\"phase\":\"verifying\"}}");
    screen_done();
    end();
    assert_string_equal(cap.shown[1].p,
                        "worldkeeper: reading planet\n"
                        "worldkeeper: reading planet, 50%, 2,000 rows, 256.0 KiB/s, 5 s left\n"
                        "worldkeeper: verifying\n");
    assert_string_equal(cap.shown[0].p, "");
}

static void test_quiet(void **state)
{
    (void)state;
    json_t *o = parse("{\"name\":\"n\",\"rows\":1}");
    capture_files(1, 0);
    event(READING("0", "0"));
    event("{\"note\":\"a note\"}");
    screen_result(ACTION_DUMP, o);
    screen_done();
    end();
    assert_string_equal(cap.shown[0].p, "");
    assert_string_equal(cap.shown[1].p, "");
    json_decref(o);
}

/* A note clears the bar, and the bar comes back below it. */
static void test_note(void **state)
{
    (void)state;
    capture_terminal(80);
    event(READING("1000", "2000"));
    event("{\"note\":\"dump x skipped: it is \\u001b[31mbroken\"}");
    end();
    SEES("\r\033[K");
    SEES("dump x skipped: it is ?[31mbroken");
    const char *note = strstr(cap.shown[0].p, "skipped");
    assert_non_null(strstr(note, "reading planet"));
}

/* Names from a server must not write on the terminal. */
static void test_names_are_cleaned(void **state)
{
    (void)state;
    capture_terminal(100);
    event("{\"progress\":{\"phase\":\"reading\",\"table\":\"a\\u001b]0;x\\u0007b\\nc\"}}");
    end();
    SEES("reading a?]0;x?b?c");
    json_t *o =
        parse("{\"dumps\":[{\"name\":\"n\\u001b[2J\",\"whole\":false,\"reason\":\"r\\n\"}]}");
    capture_files(0, 0);
    screen_result(ACTION_VERIFY, o);
    end();
    assert_null(strchr(cap.shown[0].p, '\033'));
    json_decref(o);
}

static void test_strange_events(void **state)
{
    (void)state;
    static const char *const events[] = {
        "{}",
        "{\"progress\":7}",
        "{\"progress\":{}}",
        "{\"progress\":{\"phase\":\"x\",\"rows\":-5,\"rows_total\":-1,\"bytes\":-1,\"percent\":900}"
        "}",
        "{\"progress\":{\"phase\":\"x\",\"rows\":9,\"rows_total\":3,\"phase_ms\":1000000}}",
        "{\"progress\":{\"phase\":3,\"table\":[]}}",
        "{\"note\":3}",
        "{\"swapping\":{}}",
    };
    capture_terminal(80);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        event(events[i]);
    screen_done();
    screen_done();
    end();
    capture_files(0, 1);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        event(events[i]);
    end();
    ERR_SEES_NOT("\033");
}

/* ---- results ---- */

#define DUMP_MEMBERS                                                                               \
    "{\"name\":\"s8-000001-00000043-20260131T235959Z\",\"rows\":3750000,\"tables\":12,"            \
    "\"bytes\":141557760,\"file_size\":59454259,\"seconds\":2.13,\"method\":\"copy\","             \
    "\"at_unix\":1699999157,\"intact\":true"
#define DUMP DUMP_MEMBERS "}"

static void test_dump(void **state)
{
    (void)state;
    assert_string_equal(result_of("dump", DUMP),
                        "stored s8-000001-00000043-20260131T235959Z: 3,750,000 rows in 12 tables, "
                        "56.7 MiB (135.0 MiB of SQL), 2.1 s, method copy\n");
    assert_non_null(strstr(result_of("dump", DUMP_MEMBERS ",\"warning\":\"by copy: t changed\"}"),
                           ", method copy\n  WARNING: by copy: t changed\n"));
}

static void test_list(void **state)
{
    (void)state;
    fake_wall_ms = 1700000000000;
    assert_string_equal(
        result_of("list", "{\"dumps\":[" DUMP ",{\"name\":\"short\",\"at_unix\":1699999990,"
                          "\"rows\":7,\"file_size\":900,\"seconds\":0.01,\"method\":\"lock\","
                          "\"intact\":false,\"reason\":\"short.sql.gz: cut\"}],"
                          "\"rejected\":[{\"name\":\"bad\",\"rejected\":\"0 rows\"}]}"),
        "NAME                                     AGE       ROWS      SIZE   TOOK  METHOD  INTACT\n"
        "s8-000001-00000043-20260131T235959Z  14m 03s  3,750,000  56.7 MiB  2.1 s  copy    yes\n"
        "short                                   10 s          7     900 B  10 ms  lock    NO: "
        "short.sql.gz: cut\n"
        "\nrejected, never restored automatically:\n"
        "NAME  AGE  ROWS  SIZE  TOOK  METHOD  WHY\n"
        "bad     ?     ?     ?     ?          0 rows\n");
    assert_string_equal(result_of("list", "{}"), "no dumps yet; to take one: worldkeeper --dump\n");
}

static void test_verify(void **state)
{
    (void)state;
    assert_string_equal(result_of("verify",
                                  "{\"dumps\":[{\"name\":\"a\",\"whole\":true},"
                                  "{\"name\":\"b\",\"whole\":false,\"reason\":\"cut\"}]}"),
                        "whole   a\nDAMAGED b: cut\n1 of 2 dumps are intact\n");
}

#define PLAN                                                                                       \
    "\"plan\":[{\"table\":\"fleet\",\"rows\":3000,\"restored\":true,\"triggers\":true},"           \
    "{\"table\":\"log\",\"rows\":0,\"restored\":false,\"why\":\"not in the dump\"}]"

static void test_restore(void **state)
{
    (void)state;
    result_of("restore",
              "{\"dump\":\"d\",\"rows\":3000,\"tables\":1,\"seconds\":4.2,"
              "\"lost_seconds_max\":843,\"lost\":\"at most 14m 03s "
              "lost\",\"conflict_rows\":2,\"conflict_file\":\"/d/conflict-x\","
              "\"conflict_from\":\"2026-01-01T00:00:00Z\",\"conflict_to\":\"2026-01-01T00:01:14Z\","
              "\"conflict_tables\":[{\"table\":\"chat\",\"rows\":2}],"
              "\"skipped\":[{\"dump\":\"e\",\"reason\":\"cut\"}],\"warning\":\"w\"," PLAN "}");
    assert_string_equal(
        cap.shown[0].p,
        "restored d: 3,000 rows in 1 table, 4.2 s\n"
        "  skipped: e: cut\n"
        "  at most 14m 03s lost\n"
        "  2 rows written into the emptied tables since 2026-01-01T00:00:00Z until "
        "2026-01-01T00:01:14Z are not in the world; they are kept in /d/conflict-x\n"
        "    chat: 2\n"
        "  HINT: worldkeeper --conflicts compares them with the world as it is, and can put them "
        "back\n"
        "  WARNING: w\n"
        "  1 table left unchanged (--verbose shows which and why)\n");
    result_of("restore", "{\"dump\":\"d\",\"rows\":3000,\"tables\":1,\"dry_run\":true," PLAN "}");
    assert_string_equal(cap.shown[0].p, "would restore d: 3,000 rows in 1 table\n"
                                        "TABLE   ROWS  WHAT\n"
                                        "fleet  3,000  restored; its triggers are recreated\n"
                                        "log        0  left: not in the dump\n");
}

static void test_status(void **state)
{
    (void)state;
    fake_wall_ms = 1700000000000;
    result_of("status",
              "{\"world\":\"s8\",\"state\":\"WAITING\",\"since\":\"2023-11-14T22:00:00Z\","
              "\"reason\":\"server gone\",\"valid_until_unix\":1699999990,"
              "\"probe\":{\"verdict\":\"UNREACHABLE\",\"text\":\"no socket\",\"latency_ms\":3,"
              "\"history\":\"AAAUUUUU\"},\"last_dump\":{\"age_seconds\":185,\"rows\":1,"
              "\"file_size\":2048,\"seconds\":1.5,\"name\":\"n\"},\"running\":{\"job\":\"restore\","
              "\"phase\":\"loading\",\"table\":\"fleet\",\"percent\":52,\"rows\":12345},"
              "\"next_dump\":{\"in_seconds\":59},\"last_restore\":{\"at\":\"2023-11-14T21:00:00Z\","
              "\"ok\":false,\"dump\":\"n\",\"outage_seconds\":7.5},"
              "\"disk\":{\"free_bytes\":1073741824,\"needed_bytes\":2048},"
              "\"alerts\":{\"waiting\":2,\"channels\":{\"smtp\":{\"last_error\":\"refused\"}}},"
              "\"loop\":{\"late_ms_max\":4}}");
    SEES("s8: WAITING since 2023-11-14T22:00:00Z\n");
    SEES("reason       server gone\n");
    SEES("this status expired 10 s ago");
    SEES("UNREACHABLE, 3 ms, history AAAUUUUU: no socket\n");
    SEES("last dump    3m 05s ago, 1 row, 2.0 KiB, took 1.5 s, n\n");
    SEES("running      restore, loading fleet, 52%, 12,345 rows\n");
    SEES("next dump    in 59 s\n");
    SEES("last restore 2023-11-14T21:00:00Z, FAILED, world away for 7.5 s, from n\n");
    SEES("disk         1.0 GiB left, the next dump takes about 2.0 KiB\n");
    SEES("alerts       2 waiting\n             smtp: refused\n");
    SEES("loop late    4 ms at most\n");
}

static void test_check(void **state)
{
    (void)state;
    static const char text[] =
        "{\"checks\":[{\"name\":\"a\",\"level\":\"ok\",\"text\":\"good\",\"hint\":\"unseen\"},"
        "{\"name\":\"rights\",\"level\":\"fail\",\"text\":\"missing\",\"hint\":\"GRANT x;\"},"
        "{\"name\":\"b\",\"level\":\"strange\"},{}]}";
    assert_string_equal(result_of("check", text), "ok    a       good\n"
                                                  "FAIL  rights  missing\n"
                                                  "              HINT: GRANT x;\n"
                                                  "note  b       \n"
                                                  "note          \n"
                                                  "\n1 ok, 2 notes, 0 warnings, 1 failed\n");
}

/* Long texts break between words on a terminal; what is to be typed stays in one piece. */
static void test_check_wraps(void **state)
{
    (void)state;
    json_t *o =
        parse("{\"checks\":[{\"name\":\"n\",\"level\":\"warn\",\"text\":\"one two three four "
              "five six\",\"hint\":\"GRANT SELECT, INSERT ON `x`.* TO `y`;\"}]}");
    setenv("NO_COLOR", "1", 1);
    capture_terminal(24);
    screen_result(ACTION_CHECK, o);
    end();
    SEES("warn  n  one two three\r\n         four five six\r\n");
    SEES("HINT: GRANT SELECT, INSERT ON `x`.* TO `y`;\r\n");
    json_decref(o);
}

static void test_small_ones(void **state)
{
    (void)state;
    assert_string_equal(
        result_of("init", "{\"sentinel\":\"s\",\"did\":\"created\",\"generation\":3}"),
        "sentinel s: created; generation 3\n");
    assert_string_equal(
        result_of("test-alert",
                  "{\"channels\":[{\"channel\":\"smtp\",\"ok\":true,\"reply\":\"250\"},"
                  "{\"channel\":\"webhook\",\"ok\":false,\"reply\":\"no\",\"hint\":\"h\"}]}"),
        "sent   smtp: 250\nFAILED webhook: no\n  HINT: h\n");
    assert_non_null(
        strstr(result_of("verify", "{\"dumps\":[{\"name\":\"d\",\"whole\":false,\"reason\":\"r\","
                                   "\"hint\":\"a\\u001b[2Jb\\nc\"}]}"),
               "\n  HINT: a?[2Jb?c\n"));
    assert_string_equal(
        result_of("pause", "{\"world\":\"w\",\"state\":\"PAUSED\",\"reason\":\"r\"}"),
        "w: PAUSED, r\n");
    assert_string_equal(result_of("unheard-of", "{\"a\":\"x\",\"b\":3,\"c\":true,\"d\":{}}"),
                        "a: x\nb: 3\nc: yes\n");
    result_of("drill", "{\"dump\":\"d\",\"rows\":1,\"tables\":1,\"seconds\":0.5}");
    SEES("drill passed d: 1 row in 1 table, read back exactly as loaded, 500 ms\n");
    result_of("drill", "{\"dump\":\"d\",\"rows\":1,\"tables\":1,\"seconds\":0.0004}");
    SEES("drill passed d: 1 row in 1 table, read back exactly as loaded, less than 1 ms\n");
}

/* Times come from somebody else too. */
static void test_times_are_cleaned(void **state)
{
    (void)state;
    result_of("restore", "{\"dump\":\"d\",\"moment\":\"\\u001b[2J\",\"journal\":{\"used\":true,"
                         "\"changes\":1,\"last\":\"\\u0007\"}}");
    SEES(" as of ?[2J");
    SEES("up to ?\n");
    result_of("list", "{\"journal\":{\"ranges\":[{\"from\":\"\\u001b[2J\",\"to\":\"\\u0007\"}]}}");
    SEES("?[2J  ?\n");
    result_of("status", "{\"alerts\":{\"channels\":{\"\\u001b[2J\":{\"last_error\":\"x\"}}}}");
    SEES("?[2J: x\n");
}

/* Times of an answer that no period can have count as 0, and none of them overflows. */
static void test_impossible_periods(void **state)
{
    (void)state;
    result_of("history", "{\"records\":[],\"states_ms\":{\"up\":9223372036854775807,\"lost\":1000,"
                         "\"waiting\":-9223372036854775807,\"paused\":-1}}");
    SEES(
        "up 0.000 % of the 1.0 s that a supervisor watched; not watched for 0 ms, paused for 0 ms");
    result_of("history", "{\"records\":[],\"states_ms\":{\"up\":10000000000000,\"lost\":"
                         "10000000000000,\"waiting\":10000000000000}}");
    SEES("up 33.333 % of the ");
}

/* Lists of texts, in which a supervisor says what a server or a file said. */
static void test_lists_are_cleaned(void **state)
{
    (void)state;
#define EVIL "[\"a\\u001b]0;x\\u0007\",\"b\\u001b[2J\\n\",\"c\\u009b31m\",7]"
    static const char *const results[][2] = {
        {"init", "{\"sentinel\":\"s\",\"ledgers\":" EVIL "}"},
        {"rollup", "{\"verify\":true,\"ledgers\":[{\"problems\":" EVIL "}]}"},
        {"rollup", "{\"verify\":true,\"ledgers\":[{\"unknown\":" EVIL "}]}"},
        {"restore", "{\"definitions\":{\"would_make\":" EVIL "}}"},
        {"restore", "{\"definitions\":{\"left_out\":" EVIL "}}"},
        {"restore", "{\"definitions\":{\"failed\":" EVIL "}}"},
        {"restore", "{\"definitions\":{\"own_definer\":" EVIL "}}"},
    };
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        result_of(results[i][0], results[i][1]);
        SEES("a?]0;x?");
        SEES("b?[2J?");
        SEES("c?31m");
        SEES_NOT("\033");
        SEES_NOT("\a");
        SEES_NOT("\xc2\x9b");
    }
#undef EVIL
}

/* Whatever is missing or of a wrong type: no crash, some line or none. */
static void test_holes(void **state)
{
    (void)state;
    static const char *const actions[] = {"dump",  "list",       "verify", "restore",
                                          "drill", "status",     "check",  "init",
                                          "pause", "test-alert", "tidy",   ""};
    static const char *const results[] = {
        "{}",
        "[]",
        "{\"dumps\":3,\"rejected\":{},\"plan\":\"x\",\"skipped\":7,\"checks\":[1,null,\"s\"],"
        "\"channels\":[null],\"probe\":[],\"last_dump\":5,\"running\":\"no\",\"alerts\":[],"
        "\"disk\":null,\"loop\":3,\"name\":7,\"rows\":\"many\",\"seconds\":\"long\"}",
        "{\"dumps\":[null,{}],\"rejected\":[{}],\"plan\":[null,{}],\"skipped\":[{}],\"checks\":[],"
        "\"channels\":[{}],\"probe\":{},\"last_dump\":{},\"running\":{},\"next_dump\":{},"
        "\"last_restore\":{},\"alerts\":{\"channels\":{\"x\":null}},\"disk\":{},\"loop\":{},"
        "\"rows\":-5,\"file_size\":-1,\"lost_seconds\":-3,\"conflict_rows\":-1}",
        "{\"seconds\":1e300,\"lost_seconds\":9223372036854775807,\"at_unix\":-9,"
        "\"valid_until_unix\":-9223372036854775807,\"next_dump\":{\"in_seconds\":"
        "9223372036854775807},\"last_restore\":{\"outage_seconds\":-1e300}}",
    };
    for (size_t a = 0; a < sizeof actions / sizeof *actions; a++)
        for (size_t r = 0; r < sizeof results / sizeof *results; r++) {
            json_t *o = parse(results[r]);
            capture_files(0, 1);
            screen_result(action_find(actions[a]), o);
            screen_json(action_find(actions[a]), o, NULL, 0);
            end();
            json_decref(o);
        }
    capture_files(0, 0);
    screen_result(ACTION_DUMP, NULL);
    screen_json(ACTION_DUMP, NULL, NULL, 0);
    end();
    assert_string_equal(cap.shown[0].p, "{\"action\":\"dump\",\"ok\":true,\"exit\":0}\n");
}

/* ---- errors and JSON ---- */

static void test_error(void **state)
{
    (void)state;
    struct err e = {0};
    err_set(&e, ERR_DENIED, 1045, "dump: table a\nb\033");
    err_hint(&e, "do\nthis");
    capture_files(0, 0);
    screen_error(&e);
    end();
    assert_string_equal(cap.shown[1].p, "worldkeeper: dump: table a?b?\nHINT: do?this\n");
    err_set(&e, ERR_DENIED, 0, "x");
    capture_files(0, 0);
    screen_error(&e);
    end();
    assert_string_equal(cap.shown[1].p, "worldkeeper: x\n");
}

static void test_json(void **state)
{
    (void)state;
    struct err e = {0};
    json_t *o = parse("{\"name\":\"n\"}");
    err_set(&e, ERR_CHANGED, 5, "t\xff\n");
    err_hint(&e, "h");
    capture_files(1, 0);
    screen_json(ACTION_DUMP, o, NULL, 0);
    screen_json(ACTION_DUMP, o, &e, 1);
    end();
    assert_string_equal(
        cap.shown[0].p,
        "{\"action\":\"dump\",\"ok\":true,\"exit\":0,\"result\":{\"name\":\"n\"}}\n"
        "{\"action\":\"dump\",\"ok\":false,\"exit\":1,\"result\":{\"name\":\"n\"},"
        "\"error\":{\"class\":\"changed\",\"num\":5,\"text\":\"t??\",\"hint\":\"h\"}}\n");
    json_decref(o);
}

/* JSON is read by people, too: what a terminal obeys or hides is escaped, in keys as well, and
 * the value is the same. */
static void test_json_on_a_terminal(void **state)
{
    (void)state;
    static const char all[] = "\xc2\x9b"
                              "31m\x7f\xe2\x80\xae\xf3\xa0\x81\x81 \xc3\xa4\xf0\x9f\x98\x80";
    json_t *o = json_object();
    json_object_set_new(o, all, json_string(all));
    capture_files(1, 0);
    screen_json(ACTION_DUMP, o, NULL, 0);
    end();
#define SHOWN "\"\\u009b31m\\u007f\\u202e\\udb40\\udc41 \xc3\xa4\xf0\x9f\x98\x80\""
    assert_string_equal(cap.shown[0].p,
                        "{\"action\":\"dump\",\"ok\":true,\"exit\":0,\"result\":{" SHOWN ":" SHOWN
                        "}}\n");
#undef SHOWN
    json_t *again = parse(cap.shown[0].p);
    assert_true(json_equal(json_object_get(again, "result"), o));
    json_decref(again);
    json_decref(o);
}

/* Each line of the grants is a comment or a statement, whatever names are in them. */
static void test_grants(void **state)
{
    (void)state;
    json_t *o = json_pack("{s:[{s:s, s:s}]}", "grants", "why", "a\r\033[2J\nb", "statement",
                          "GRANT x\n\033[2J;");
    capture_files(0, 0);
    screen_result(ACTION_CHECK, o);
    end();
    assert_string_equal(cap.shown[0].p, "-- a??[2J\n-- b\nGRANT x??[2J;\n");
    json_decref(o);
}

/* --status --json has the keys of status.json beside those of every answer; without a supervisor an
 * error like any other. */
static void test_json_status(void **state)
{
    (void)state;
    struct err e = {0};
    json_t *o = parse("{\"state\":\"WAITING\"}");
    err_set(&e, ERR_UNWELL, 0, "not up");
    capture_files(1, 0);
    screen_json(ACTION_STATUS, o, &e, 6);
    screen_json(ACTION_STATUS, NULL, &e, 6);
    end();
    assert_string_equal(
        cap.shown[0].p,
        "{\"action\":\"status\",\"ok\":false,\"exit\":6,\"state\":\"WAITING\","
        "\"error\":{\"class\":\"not-well\",\"num\":0,\"text\":\"not up\",\"hint\":\"\"}}\n"
        "{\"action\":\"status\",\"ok\":false,\"exit\":6,"
        "\"error\":{\"class\":\"not-well\",\"num\":0,\"text\":\"not up\",\"hint\":\"\"}}\n");
    json_decref(o);
}

static int teardown(void **state)
{
    (void)state;
    buf_free(&cap.shown[0]);
    buf_free(&cap.shown[1]);
    screen_open(0, 0); /* lets go of the last event */
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_no_locale),
        TEST(test_widths),
        TEST(test_padding),
        TEST(test_bar),
        TEST(test_bar_phases),
        TEST(test_bar_widths),
        TEST(test_bar_without_colours),
        TEST(test_no_bar),
        TEST(test_plain_lines),
        TEST(test_quiet),
        TEST(test_note),
        TEST(test_names_are_cleaned),
        TEST(test_strange_events),
        TEST(test_dump),
        TEST(test_list),
        TEST(test_verify),
        TEST(test_restore),
        TEST(test_status),
        TEST(test_check),
        TEST(test_check_wraps),
        TEST(test_small_ones),
        TEST(test_times_are_cleaned),
        TEST(test_impossible_periods),
        TEST(test_lists_are_cleaned),
        TEST(test_holes),
        TEST(test_error),
        TEST(test_json),
        cmocka_unit_test(test_json_status),
        TEST(test_json_on_a_terminal),
        TEST(test_grants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
