/* expect_judge(): one line per (observation, expectation), read from left to right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "watch/expect.h"

#define OURS "0123456789abcdef0123456789abcdef"
#define NEXT "fedcba9876543210fedcba9876543210"
#define THEIRS "deadbeef00000000deadbeef00000000"
#define UUID_A "11111111-2222-3333-4444-555555555555"
#define UUID_B "11111111-2222-3333-4444-666666666666"

#define T1 INT64_C(1700000000) /* 2023-11-14T22:13:20Z */
#define T2 INT64_C(1700000100) /* 2023-11-14T22:15:00Z */
#define PLACE(t)                                                                                   \
    {                                                                                              \
        .start = (t), .hostname = "alpha", .datadir = "/data/"                                     \
    }
#define ELSEWHERE(t)                                                                               \
    {                                                                                              \
        .start = (t), .hostname = "beta", .datadir = "/other/"                                     \
    }
#define KNOWN                                                                                      \
    {                                                                                              \
        .known = true, .nonce = OURS, .server = PLACE(T1)                                          \
    }
#define KNOWN_NEXT                                                                                 \
    {                                                                                              \
        .known = true, .nonce = OURS, .next_nonce = NEXT, .server = PLACE(T1)                      \
    }
#define RESTARTED true
#define SAME_PROCESS false
#define HERE true
#define OTHER_PLACE false
#define REBUILT true

static const struct {
    const char *what;
    struct observation seen;
    struct expectation known;
    enum verdict verdict;
    bool restarted, same_place, rebuilt;
    const char *text;
} cases[] = {
    /* The row is there. */
    {"the nonce of the last contact",
     {.rows = 1, .nonce = OURS, .generation = 3, .server = PLACE(T1)},
     KNOWN,
     VERDICT_ALIVE,
     SAME_PROCESS,
     HERE,
     false,
     "sentinel there, nonce 01234567, generation 3"},
    {"first contact: nothing known",
     {.rows = 1, .nonce = THEIRS, .generation = 1, .server = PLACE(T1)},
     {.known = false},
     VERDICT_ALIVE,
     SAME_PROCESS,
     HERE,
     false,
     "sentinel there, nonce deadbeef, generation 1, first contact"},
    {"known, but without any nonce",
     {.rows = 1, .nonce = THEIRS, .server = PLACE(T1)},
     {.known = true, .server = PLACE(T1)},
     VERDICT_ALIVE,
     SAME_PROCESS,
     HERE,
     false,
     "sentinel there, nonce deadbeef, generation 0, first contact"},
    {"the nonce of a restore that swapped before a crash",
     {.rows = 1, .nonce = NEXT, .generation = 4, .server = PLACE(T2)},
     KNOWN_NEXT,
     VERDICT_ALIVE,
     RESTARTED,
     HERE,
     false,
     "sentinel there, nonce fedcba98, generation 4, from one of our restores or dumps"},
    {"the old nonce, though a restore was under way",
     {.rows = 1, .nonce = OURS, .generation = 3, .server = PLACE(T1)},
     KNOWN_NEXT,
     VERDICT_ALIVE,
     SAME_PROCESS,
     HERE,
     false,
     "sentinel there, nonce 01234567, generation 3"},
    {"the old nonce in a new process",
     {.rows = 1, .nonce = OURS, .generation = 3, .server = PLACE(T2)},
     KNOWN,
     VERDICT_ALIVE,
     RESTARTED,
     HERE,
     false,
     "sentinel there, nonce 01234567, generation 3, inserted again after the server started at "
     "2023-11-14T22:15:00Z"},
    {"another nonce",
     {.rows = 1, .nonce = THEIRS, .server = PLACE(T1)},
     KNOWN,
     VERDICT_FOREIGN,
     SAME_PROCESS,
     HERE,
     false,
     "sentinel nonce deadbeef is not ours, expected 01234567"},
    {"another nonce, after a restart too: a game's init file put a row in",
     {.rows = 1, .nonce = THEIRS, .server = PLACE(T2)},
     KNOWN,
     VERDICT_FOREIGN,
     RESTARTED,
     HERE,
     false,
     "sentinel nonce deadbeef is not ours, expected 01234567"},
    {"another nonce than that of the restore, which is all that is known",
     {.rows = 1, .nonce = THEIRS, .server = PLACE(T1)},
     {.known = true, .next_nonce = NEXT, .server = PLACE(T1)},
     VERDICT_FOREIGN,
     SAME_PROCESS,
     HERE,
     false,
     "sentinel nonce deadbeef is not ours, expected fedcba98"},
    {"two rows, ours among them",
     {.rows = 2, .nonce = OURS, .server = PLACE(T1)},
     KNOWN,
     VERDICT_FOREIGN,
     SAME_PROCESS,
     HERE,
     false,
     "sentinel holds 2 rows instead of one"},
    {"a nonce that is none, at first contact",
     {.rows = 1, .nonce = "1", .server = PLACE(T1)},
     {.known = false},
     VERDICT_FOREIGN,
     SAME_PROCESS,
     HERE,
     false,
     "sentinel row is not ours: its nonce is not 32 hex digits"},

    {"the row is there, and another supervisor watches",
     {.rows = 1, .nonce = OURS, .server = PLACE(T1), .another = true, .text = "another\n"},
     KNOWN,
     VERDICT_DENIED,
     SAME_PROCESS,
     HERE,
     false,
     "another?"},
    {"the row is gone, and another supervisor watches",
     {.rows = 0, .server = PLACE(T2), .another = true, .text = "another"},
     KNOWN,
     VERDICT_DENIED,
     RESTARTED,
     HERE,
     false,
     "another"},
    {"another supervisor watches what is not ours",
     {.rows = 2, .nonce = OURS, .server = PLACE(T1), .another = true, .text = "another"},
     KNOWN,
     VERDICT_FOREIGN,
     SAME_PROCESS,
     HERE,
     false,
     "sentinel holds 2 rows instead of one"},

    /* The row is gone. */
    {"gone after a restart",
     {.rows = 0, .server = PLACE(T2)},
     KNOWN,
     VERDICT_EMPTY,
     RESTARTED,
     HERE,
     false,
     "sentinel empty, server started at 2023-11-14T22:15:00Z, previously at 2023-11-14T22:13:20Z"},
    {"gone, another process with an older start: its clock was set back",
     {.rows = 0, .server = PLACE(T1)},
     {.known = true, .nonce = OURS, .server = PLACE(T2)},
     VERDICT_EMPTY,
     RESTARTED,
     HERE,
     false,
     "sentinel empty, server started at 2023-11-14T22:13:20Z, previously at 2023-11-14T22:15:00Z"},
    {"gone, the same process",
     {.rows = 0, .server = PLACE(T1)},
     KNOWN,
     VERDICT_EMPTY,
     SAME_PROCESS,
     HERE,
     false,
     "sentinel row deleted: the server is still the one started at 2023-11-14T22:13:20Z"},
    {"gone on another server",
     {.rows = 0, .server = ELSEWHERE(T2)},
     KNOWN,
     VERDICT_EMPTY,
     RESTARTED,
     OTHER_PLACE,
     false,
     "sentinel empty, on another server: host beta, data in /other/, previously host alpha, data "
     "in /data/"},
    {"gone on another server that started in the same second",
     {.rows = 0, .server = ELSEWHERE(T1)},
     KNOWN,
     VERDICT_EMPTY,
     RESTARTED,
     OTHER_PLACE,
     false,
     "sentinel empty, on another server: host beta, data in /other/, previously host alpha, data "
     "in /data/"},
    {"gone, nothing known: nothing proves that anything was lost",
     {.rows = 0, .server = PLACE(T2)},
     {.known = false},
     VERDICT_EMPTY,
     SAME_PROCESS,
     HERE,
     false,
     "sentinel empty, and no earlier state of this world is known"},
    {"gone, start of the server not learnt",
     {.rows = 0, .server = {.start = 0}},
     KNOWN,
     VERDICT_EMPTY,
     SAME_PROCESS,
     HERE,
     false,
     "sentinel empty, and it is unknown whether the server restarted"},
    {"gone, start of the last contact not known",
     {.rows = 0, .server = PLACE(T2)},
     {.known = true, .nonce = OURS, .server = PLACE(0)},
     VERDICT_EMPTY,
     SAME_PROCESS,
     HERE,
     false,
     "sentinel empty, and it is unknown whether the server restarted"},

    /* The table is gone. */
    {"no table, rights not proven: doubt",
     {.failed = VERDICT_MISSING, .error = 1146, .server = PLACE(T2)},
     KNOWN,
     VERDICT_DENIED,
     RESTARTED,
     HERE,
     false,
     "sentinel table not visible (error 1146); this account may lack the privilege to see it"},
    {"no table, the others hold rows",
     {.failed = VERDICT_MISSING,
      .error = 1146,
      .privileges_proven = true,
      .schema_there = true,
      .schema_has_rows = true,
      .server = PLACE(T1)},
     KNOWN,
     VERDICT_MISSING,
     SAME_PROCESS,
     HERE,
     false,
     "sentinel table not there (error 1146), tables of the schema hold rows"},
    {"no table, no rows, restarted",
     {.failed = VERDICT_MISSING,
      .error = 1146,
      .privileges_proven = true,
      .schema_there = true,
      .server = PLACE(T2)},
     KNOWN,
     VERDICT_MISSING,
     RESTARTED,
     HERE,
     REBUILT,
     "sentinel table not there (error 1146), no table of the schema holds a row"},
    {"no schema, on another server",
     {.failed = VERDICT_MISSING, .error = 1049, .privileges_proven = true, .server = ELSEWHERE(T2)},
     KNOWN,
     VERDICT_MISSING,
     RESTARTED,
     OTHER_PLACE,
     REBUILT,
     "schema not there (error 1049)"},
    {"no schema, the same process: somebody dropped it",
     {.failed = VERDICT_MISSING, .error = 1049, .privileges_proven = true, .server = PLACE(T1)},
     KNOWN,
     VERDICT_MISSING,
     SAME_PROCESS,
     HERE,
     REBUILT,
     "schema not there (error 1049)"},

    /* The probe came no further. */
    {"no connection",
     {.failed = VERDICT_UNREACHABLE, .error = 2002, .text = "connect: Can't connect (2002)"},
     KNOWN,
     VERDICT_UNREACHABLE,
     SAME_PROCESS,
     HERE,
     false,
     "connect: Can't connect (2002)"},
    {"the number is added where the words lack it",
     {.failed = VERDICT_DENIED, .error = 1040, .text = "Too many connections"},
     KNOWN,
     VERDICT_DENIED,
     SAME_PROCESS,
     HERE,
     false,
     "Too many connections (error 1040)"},
    {"lost in the middle, after the server was identified",
     {.failed = VERDICT_UNREACHABLE, .error = 2013, .server = PLACE(T1)},
     KNOWN,
     VERDICT_UNREACHABLE,
     SAME_PROCESS,
     HERE,
     false,
     "no connection (error 2013)"},
    {"no answer",
     {.failed = VERDICT_STALLED},
     KNOWN,
     VERDICT_STALLED,
     SAME_PROCESS,
     HERE,
     false,
     "no answer in time"},
    {"refused without a word",
     {.failed = VERDICT_DENIED, .error = 1142},
     KNOWN,
     VERDICT_DENIED,
     SAME_PROCESS,
     HERE,
     false,
     "the server refuses this account (error 1142)"},
    {"a server's text with line ends",
     {.failed = VERDICT_DENIED, .text = "a\r\nb\x1b[1m"},
     {.known = false},
     VERDICT_DENIED,
     SAME_PROCESS,
     HERE,
     false,
     "a??b?[1m"},
};

static void each_case(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct judgement got;
        expect_judge(&cases[i].seen, &cases[i].known, &got);
        if (got.verdict != cases[i].verdict || got.restarted != cases[i].restarted ||
            got.same_place != cases[i].same_place || got.rebuilt != cases[i].rebuilt ||
            got.start != cases[i].seen.server.start || strcmp(got.text, cases[i].text) != 0)
            fail_msg("%s: %s, restarted %d, same place %d, rebuilt %d, '%s'", cases[i].what,
                     verdict_name(got.verdict), got.restarted, got.same_place, got.rebuilt,
                     got.text);
    }
}

/* Empty, with the same start time as at the last ALIVE. */
static void within_one_second(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        bool young;
        int64_t pid_then, pid_now;
        uint64_t connection_then, connection_now;
        int64_t seen, opened; /* ms; seen 0: by a supervisor before us */
        bool restarted;
    } c[] = {
        {"another pid", true, 700, 701, 5, 9, 1000, 1500, true},
        {"another pid, known from the disk", true, 700, 701, 5, 9, 0, 1500, true},
        {"another pid, but it had outlived that second", false, 700, 701, 5, 9, 1000, 1500, false},
        {"the same pid", true, 700, 700, 5, 9, 1000, 1500, false},
        {"the connection of the last ALIVE", true, 700, 700, 5, 5, 1000, 500, false},
        {"an older one, a restore's came after it", true, 0, 0, 9, 5, 1000, 500, false},
        {"a number that was given out before", true, 0, 0, 9, 9, 1000, 1500, true},
        {"the same, known from the disk", true, 0, 0, 9, 3, 0, 1500, true},
        {"a number that was given out before, late", false, 0, 0, 9, 3, 1000, 1500, false},
        {"over TCP: the connection broke", true, 0, 0, 5, 90, 1000, 1500, true},
        {"over TCP: the supervisor was another", true, 0, 0, 5, 90, 0, 1500, false},
        {"over TCP: the connection broke late", false, 0, 0, 5, 90, 1000, 1500, false},
        {"a socket made by systemd", true, 1, 1, 5, 90, 1000, 1500, true},
        {"nothing but start times is known", false, 0, 0, 0, 0, 0, 0, false},
        {"a young one of whom nothing else is known", true, 0, 0, 0, 0, 0, 0, false},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct observation seen = {.server = PLACE(T1), .opened = {c[i].opened}};
        struct expectation known = KNOWN;
        struct judgement got;
        seen.server.pid = c[i].pid_now;
        seen.server.connection = c[i].connection_now;
        known.server.young = c[i].young;
        known.server.pid = c[i].pid_then;
        known.server.connection = c[i].connection_then;
        known.seen.ms = c[i].seen;
        expect_judge(&seen, &known, &got);
        if (got.verdict != VERDICT_EMPTY || got.restarted != c[i].restarted)
            fail_msg("%s: restarted %d, '%s'", c[i].what, got.restarted, got.text);
        const char *words = c[i].restarted ? "sentinel empty, server started again within the "
                                             "second of its start, 2023-11-14T22:13:20Z"
                                           : "sentinel row deleted: the server is still the one "
                                             "started at 2023-11-14T22:13:20Z";
        assert_string_equal(got.text, words);
    }
}

static void long_names_fit(void **state)
{
    (void)state;
    struct observation seen = {.server = {.start = 1}};
    struct expectation known = {.known = true, .nonce = OURS, .server = {.start = INT64_MAX}};
    struct judgement got;
    memset(seen.server.hostname, 'h', sizeof seen.server.hostname - 1);
    memset(seen.server.datadir, 'd', sizeof seen.server.datadir - 1);
    memset(known.server.datadir, 'e', sizeof known.server.datadir - 1);
    expect_judge(&seen, &known, &got);
    assert_int_equal(got.verdict, VERDICT_EMPTY);
    assert_string_equal(got.text + strlen(got.text) - 3, "...");
}

static const struct {
    struct server_id a, b;
    bool same;
} places[] = {
    /* MySQL: the UUID decides. */
    {{.uid = UUID_A, .hostname = "a", .datadir = "/d"}, {.uid = UUID_A, .datadir = "/moved"}, true},
    {{.uid = UUID_A, .hostname = "a", .datadir = "/d"},
     {.uid = UUID_B, .hostname = "a", .datadir = "/d"},
     false},
    /* MariaDB: a reboot with other network cards; a second data directory on the same port. */
    {{.uid = "hash1", .hostname = "a", .datadir = "/d"},
     {.uid = "hash2", .hostname = "a", .datadir = "/d"},
     true},
    {{.uid = "hash1", .hostname = "a", .datadir = "/d"},
     {.uid = "hash1", .hostname = "a", .datadir = "/e"},
     false},
    /* A new container around the same data; other hosts with the usual directory. */
    {{.uid = "hash1", .hostname = "a", .datadir = "/d"},
     {.uid = "hash1", .hostname = "b", .datadir = "/d"},
     true},
    {{.uid = "hash1", .hostname = "a", .datadir = "/d"},
     {.uid = "hash2", .hostname = "b", .datadir = "/d"},
     false},
    {{.uid = "unknown", .hostname = "a", .datadir = "/d"},
     {.uid = "unknown", .hostname = "b", .datadir = "/d"},
     false},
    /* No uid at all; nothing at all. */
    {{.hostname = "a", .datadir = "/d"}, {.hostname = "a", .datadir = "/d"}, true},
    {{.hostname = "a", .datadir = "/d"}, {.hostname = "b", .datadir = "/d"}, false},
    {{.hostname = ""}, {.hostname = ""}, false},
};

static void each_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (server_same_place(&places[i].a, &places[i].b) != places[i].same ||
            server_same_place(&places[i].b, &places[i].a) != places[i].same)
            fail_msg("pair %zu", i);
}

static void names_and_letters(void **state)
{
    (void)state;
    static const char *const names[] = {"NONE",    "ALIVE",       "EMPTY",   "MISSING",
                                        "FOREIGN", "UNREACHABLE", "STALLED", "DENIED"};
    char letters[9] = "";
    for (unsigned v = VERDICT_NONE; v <= VERDICT_DENIED; v++) {
        letters[v] = verdict_letter((enum verdict)v);
        assert_string_equal(verdict_name((enum verdict)v), names[v]);
    }
    assert_string_equal(letters, "-AEMFUSD");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_case),         cmocka_unit_test(within_one_second),
        cmocka_unit_test(long_names_fit),    cmocka_unit_test(each_place),
        cmocka_unit_test(names_and_letters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
