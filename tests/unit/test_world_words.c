/* Texts about the world's state, as operators read them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "supervisor/condition_words.h"
#include "supervisor/words.h"
#include "watch/condition.h"

static char world[] = "s8", path[] = "/etc/worldkeeper/s8.ini", elsewhere[] = "/srv/s8.ini";
static struct config cfg = {.name = world, .path = path, .restore_auto = true};

static struct words say(enum guard_alert_kind kind, unsigned event, enum verdict verdict,
                        enum guard_cause cause, const char *restored, bool by_hand)
{
    struct words out;
    struct guard g = {.verdict = verdict, .cause = cause, .by_hand = by_hand};
    struct guard_answer a = {.alert = kind, .alert_event = event};
    json_t *r = restored ? json_loads(restored, 0, NULL) : NULL;
    snprintf(g.reason, sizeof g.reason, "%sREASON",
             verdict == VERDICT_UNREACHABLE ? "cannot connect: " : "");
    words_for_guard(&(struct words_facts){.cfg = &cfg,
                                          .guard = &g,
                                          .answer = &a,
                                          .engine = "",
                                          .lost_reason = "",
                                          .hint = "GRANT DROP;",
                                          .restored = r},
                    &out);
    json_decref(r);
    return out;
}

static void test_subjects(void **state)
{
    (void)state;
    static const struct {
        unsigned event;
        enum verdict verdict;
        enum guard_cause cause;
        const char *headline;
    } table[] = {
        {EVENT_DOWN, VERDICT_UNREACHABLE, CAUSE_UNREACHABLE, "DOWN"},
        {EVENT_DOWN, VERDICT_STALLED, CAUSE_STALLED, "NOT ANSWERING"},
        {EVENT_DOWN, VERDICT_DENIED, CAUSE_DENIED, "NOT PROTECTED, the server refuses worldkeeper"},
        {EVENT_SENTINEL, VERDICT_FOREIGN, CAUSE_FOREIGN,
         "NOT PROTECTED, the sentinel row was changed"},
        {EVENT_SENTINEL, VERDICT_MISSING, CAUSE_MISSING,
         "NOT PROTECTED, the sentinel table is missing"},
        {EVENT_SENTINEL, VERDICT_EMPTY, CAUSE_DELETED,
         "NOT PROTECTED, the sentinel row was deleted"},
        {EVENT_SENTINEL, VERDICT_EMPTY, CAUSE_ELSEWHERE, "LOST, on a different server"},
        {EVENT_WAITING, VERDICT_EMPTY, CAUSE_FAILED, "DOWN, the restore failed"},
        {EVENT_RESTORING, VERDICT_EMPTY, CAUSE_RESTORE, "RESTORING"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct words w =
            say(GUARD_ALERT_NEW, table[i].event, table[i].verdict, table[i].cause, NULL, false);
        assert_string_equal(w.headline, table[i].headline);
        assert_true(strstr(w.what, "REASON") && !strstr(w.what, "cannot connect: "));
        assert_true(w.doing[0] && w.todo[0]);
    }
}

/* The beginning of a restore says what is known of the loss. */
static void test_restoring(void **state)
{
    (void)state;
    struct words out;
    struct guard g = {.cause = CAUSE_RESTORE, .loss_elsewhere = true};
    struct guard_answer a = {.alert = GUARD_ALERT_NEW, .alert_event = EVENT_RESTORING};
    struct words_facts f = {
        .cfg = &cfg, .guard = &g, .answer = &a, .engine = "", .lost_reason = "REASON", .hint = ""};
    words_for_guard(&f, &out);
    assert_string_equal(out.what, "the world is empty, on another database server than before; it "
                                  "is being restored. Detail: REASON");
    g.loss_elsewhere = false;
    words_for_guard(&f, &out);
    assert_true(text_starts(out.what, "the database server was restarted and the world is empty"));
}

static void test_node_outside_its_cluster(void **state)
{
    (void)state;
    struct words out;
    struct guard g = {.verdict = VERDICT_STALLED, .cause = CAUSE_STALLED, .reason = "REASON"};
    struct guard_answer a = {.alert = GUARD_ALERT_NEW, .alert_event = EVENT_DOWN};
    words_for_guard(&(struct words_facts){.cfg = &cfg,
                                          .guard = &g,
                                          .answer = &a,
                                          .engine = "",
                                          .error = 1047,
                                          .lost_reason = "",
                                          .hint = ""},
                    &out);
    assert_string_equal(out.headline, "NOT ANSWERING, its node is not in the primary component");
    assert_non_null(strstr(out.todo, "galera_new_cluster"));
}

static void test_restore_failed_or_not_wanted(void **state)
{
    (void)state;
    struct words w = say(GUARD_ALERT_NEW, EVENT_WAITING, VERDICT_EMPTY, CAUSE_FAILED, NULL, false);
    assert_true(text_starts(w.todo, "GRANT DROP;; worldkeeper --list"));
    cfg.restore_auto = false;
    w = say(GUARD_ALERT_NEW, EVENT_WAITING, VERDICT_EMPTY, CAUSE_MANUAL, NULL, false);
    cfg.restore_auto = true;
    assert_string_equal(w.headline, "LOST, and waits for you to restore it");
    assert_true(text_starts(w.todo, "worldkeeper --list"));
}

static struct words back(const char *restored, bool by_hand)
{
    return say(GUARD_ALERT_NEW, EVENT_RESTORED, VERDICT_ALIVE, CAUSE_RESTORED, restored, by_hand);
}

static void test_back(void **state)
{
    (void)state;
    struct words w = back("{\"lost_seconds\":0,\"lost_seconds_max\":0}", false);
    assert_string_equal(w.headline, "BACK, nothing lost");
    assert_string_equal(w.todo, "nothing");
    w = back("{\"lost_seconds\":null,\"lost_seconds_max\":20.5,\"warning\":\"one view\"}", false);
    assert_string_equal(w.headline, "BACK, at most 21 s lost");
    assert_string_equal(w.what, "the world is back, at most 21 s lost (REASON); but: one view");
    w = back("{\"lost_seconds\":0,\"lost_seconds_max\":0,\"passed_over\":\"d2 (refused)\"}", false);
    assert_string_equal(w.what,
                        "the world is back, nothing lost (REASON); skipped for what is wrong "
                        "with it: d2 (refused)");
    w = back("{\"lost\":\"loss unknown\",\"restored_to\":\"2026-11-22T21:03:10Z\"}", false);
    assert_string_equal(w.headline, "BACK, loss unknown");
    assert_string_equal(w.what, "the world is back as it was at 2026-11-22T21:03:10Z, loss "
                                "unknown (REASON)");
    assert_true(text_starts(w.todo, "tell the players; with a journal"));
    w = back("{\"restored_to\":\"2026-11-22T21:03:10Z\"}", true);
    assert_string_equal(w.headline, "RESTORED by hand to 2026-11-22T21:03:10Z");
    w = back("{\"restored_to\":\"2026-11-22T21:03:10Z\",\"outage_seconds\":7.5}", true);
    assert_string_equal(w.headline, "BACK, restored by hand to 2026-11-22T21:03:10Z");
    assert_string_equal(w.what, "the world is back, restored by hand to 2026-11-22T21:03:10Z "
                                "(REASON)");
    w = back("{\"lost_seconds\":0,\"lost_seconds_max\":0,\"lost\":\"nothing lost\"}", true);
    assert_string_equal(w.headline, "RESTORED by hand, nothing lost");
    w = back("{\"lost_seconds\":null,\"lost_seconds_max\":null}", true);
    assert_string_equal(w.headline, "RESTORED by hand");
}

/* Returns the words of a restore whose saved rows are in file c.gz of this directory. */
static struct words back_in(const char *dir)
{
    SCOPED(xfree) char *restored =
        xasprintf("{\"lost_seconds\":0,\"lost_seconds_max\":0,\"conflict_rows\":2,"
                  "\"conflict_file\":\"%s/c.gz\"}",
                  dir);
    return back(restored, false);
}

/* Acknowledged rows that are not in the world: said first, with how many, when and where. */
static void test_rows_set_aside(void **state)
{
    (void)state;
    struct words w = back("{\"lost_seconds\":0,\"lost_seconds_max\":0,\"conflict_rows\":1668,"
                          "\"conflict_file\":\"/srv/d/conflict-3.sql.gz\",\"conflict_from\":"
                          "\"2026-11-22T21:03:10Z\",\"conflict_to\":\"2026-11-22T21:04:24Z\"}",
                          false);
    assert_string_equal(w.headline, "BACK, but 1,668 rows written 21:03:10Z to 21:04:24Z are in "
                                    "conflict-3.sql.gz");
    assert_true(text_starts(w.what,
                            "1,668 rows that players wrote into the emptied tables (written "
                            "21:03:10Z to 21:04:24Z) are not in the world but in "
                            "conflict-3.sql.gz; "));
    assert_non_null(strstr(w.todo, "1,668 rows"));
    assert_non_null(strstr(w.todo, "worldkeeper --conflicts=/srv/d/conflict-3.sql.gz; "));
    assert_non_null(strstr(w.todo, "worldkeeper --conflicts=/srv/d/conflict-3.sql.gz --apply"));
    w = back("{\"lost_seconds\":null,\"lost_seconds_max\":3,\"conflict_rows\":1,"
             "\"conflict_file\":\"c.gz\",\"conflict_from\":\"2026-11-22T23:59:59Z\","
             "\"conflict_to\":\"2026-11-23T00:00:01Z\"}",
             false);
    assert_string_equal(w.headline, "BACK, at most 3 s lost, and 1 row written "
                                    "2026-11-22T23:59:59Z to 2026-11-23T00:00:01Z is in c.gz");
    w = back("{\"lost_seconds\":0,\"lost_seconds_max\":0,\"conflict_rows\":2,"
             "\"conflict_file\":\"c.gz\",\"conflict_from\":null,\"conflict_to\":null}",
             false);
    assert_string_equal(w.headline, "BACK, but 2 rows written meanwhile are in c.gz");
    w = back("{\"lost_seconds\":0,\"lost_seconds_max\":0,\"conflict_rows\":null,"
             "\"conflict_file\":\"c.gz\",\"conflict_from\":null,\"conflict_to\":null}",
             false);
    assert_string_equal(w.headline, "BACK, but rows written meanwhile are in c.gz");
    /* a path is shown whole, and what does not fit is shown as cut */
    char deep[301], longer[1201];
    memset(deep, 'd', sizeof deep - 1);
    deep[0] = longer[0] = '/';
    deep[sizeof deep - 1] = longer[sizeof longer - 1] = '\0';
    memset(longer + 1, 'e', sizeof longer - 2);
    w = back_in(deep);
    assert_non_null(strstr(w.todo, "d/c.gz; "));
    assert_non_null(strstr(w.todo, "d/c.gz --apply"));
    w = back_in(longer);
    assert_null(strstr(w.todo, "e; "));
    assert_string_equal(w.todo + strlen(w.todo) - 4, "e...");
}

/* A hint has the statements that changed a definition only if every client reads them alike: the
 * game's account wrote them, under a session of its own. */
static void test_statements_to_paste(void **state)
{
    (void)state;
    static const struct {
        const char *sql;
        bool pasted;
    } cases[] = {
        {"ALTER TABLE `t` DROP COLUMN gone", true},
        {"ALTER TABLE t COMMENT 'it''s 10:30, (a)'", true},
        {"DROP TABLE `t` /* generated by server */", true},
        {"DROP TABLE `/*` /* generated by server */", false},
        /* under NO_BACKSLASH_ESCAPES the first text ends before the comma */
        {"ALTER TABLE t COMMENT 'x\\\\', ADD c CHAR(9) DEFAULT '; \\\\! touch /tmp/x ; '", false},
        {"ALTER TABLE t COMMENT 'x; GRANT ALL ON *.* TO game; y'", false},
        {"ALTER TABLE t COMMENT 'x: mv /etc /tmp'", false},
        {"ALTER TABLE t COMMENT 'worldkeeper --init --force'", false},
        {"ALTER TABLE t ADD x INT COMMENT \\\"a\\\"", false},
        {"ALTER TABLE t /* a */ ADD x INT", false},
        {"ALTER TABLE t -- a?ADD x INT", false},
        {"ALTER TABLE t # a?ADD x INT", false},
        {"ALTER TABLE t?ADD x INT", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        SCOPED(xfree)
        char *restored = xasprintf("{\"lost\":\"nothing lost\",\"as_dumped_file\":\"/d/r.sql\","
                                   "\"as_dumped\":[{\"statements\":[\"%s\"]}]}",
                                   cases[i].sql);
        struct words w = back(restored, false);
        const char *at = strstr(w.todo, "once the rows fit them");
        assert_non_null(at);
        if (text_starts(at, "once the rows fit them: ") != cases[i].pasted)
            fail_msg("%s", w.todo);
        assert_non_null(strstr(at, "(/d/r.sql contains the replaced definitions)"));
    }
}

static void test_start(void **state)
{
    (void)state;
    struct words w;
    wall_t now = {1795381510000};
    words_for_start(&cfg, true, (wall_t){0}, now, &w);
    assert_string_equal(w.headline, "supervisor started");
    assert_string_equal(w.todo, "nothing");
    words_for_start(&cfg, true, (wall_t){now.ms - 125000}, now, &w);
    assert_string_equal(w.headline, "supervisor died and runs again");
    assert_non_null(strstr(w.what, "the world was not watched for 2m 05s"));
    assert_non_null(strstr(w.todo, "journalctl -u worldkeeper@s8"));
    cfg.path = elsewhere;
    words_for_start(&cfg, true, (wall_t){now.ms - 125000}, now, &w);
    cfg.path = path;
    assert_null(strstr(w.todo, "journalctl"));
    words_for_start(&cfg, false, (wall_t){now.ms - 125000}, now, &w);
    assert_null(strstr(w.todo, "journalctl"));
    assert_non_null(strstr(w.todo, "docker logs"));
    assert_non_null(strstr(w.todo, "see whether the kernel ended it: dmesg -T | tail -50"));
}

/* Each condition's subject fits on a phone, says what is wrong, and has none of our own words. */
static void test_condition_subjects(void **state)
{
    (void)state;
    static const char *const private[] = {"condition", "sentinel", "probe", "follower",  "gap",
                                          "catalog",   "worker",   "ERR_",  "not whole", NULL};
    for (size_t i = 0; i < CONDITIONS; i++) {
        const struct condition_words *c = &condition_words[i];
        assert_true(c->name && c->name[0] && config_event_name(c->event));
        assert_in_range(strlen(c->headline), 8, 50);
        for (size_t k = 0; private[k]; k++)
            assert_null(strstr(c->headline, private[k]));
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(c->name, condition_words[k].name);
            assert_string_not_equal(c->headline, condition_words[k].headline);
        }
    }
}

static void test_statement_subjects(void **state)
{
    (void)state;
    struct follow_statement s = {.verb = "altered", .count = 1, .tables = {{.name = "planet"}}};
    char out[200];
    statement_headline(&s, out, sizeof out);
    assert_string_equal(out, "table planet altered");
    s.count = 2;
    snprintf(s.tables[1].name, sizeof s.tables[1].name, "fleet");
    snprintf(s.verb, sizeof s.verb, "dropped");
    statement_headline(&s, out, sizeof out);
    assert_string_equal(out, "tables planet and fleet dropped");
    s.more = 3;
    statement_headline(&s, out, sizeof out);
    assert_string_equal(out, "table planet and 4 more dropped");
    s = (struct follow_statement){.verb = "dropped", .schema = true, .at = {1795000000000}};
    statement_headline(&s, out, sizeof out);
    assert_string_equal(out, "DATABASE DROPPED");
    SCOPED(buf_free) struct buf what = {0};
    statement_words(&s, &what);
    assert_string_equal(what.p, "the database, with all tables of the world, was dropped at "
                                "2026-11-18T11:06:40Z");
}

static void test_gap(void **state)
{
    (void)state;
    const wall_t at = {1795000000000};
    struct follow_gap gap = {.by_statement = true, .tables_only = true};
    struct follow_statement *s = &gap.statement;
    SCOPED(buf_free) struct buf b = {0};
    s->count = 1;
    snprintf(s->tables[0].name, sizeof s->tables[0].name, "planet");
    snprintf(s->tables[0].dump, sizeof s->tables[0].dump, "w1-1");
    gap_words(&gap, at, true, &b);
    assert_string_equal(b.p, "a dump is taken at once; if the world is lost before it is stored, "
                             "this table comes back as it was at 2026-11-18T11:06:40Z; all other "
                             "tables come back as they are at the loss");
    s->count = 2;
    buf_clear(&b);
    gap_words(&gap, at, false, &b);
    assert_string_equal(b.p, "a dump is taken at once; if the world is lost before it is stored, "
                             "these tables come back as they were no later than "
                             "2026-11-18T11:06:40Z; all other tables come back as far as the "
                             "journal leads; rows of a table that is in no dump do not come back");
    gap.tables_only = false;
    buf_clear(&b);
    gap_words(&gap, at, true, &b);
    assert_string_equal(b.p, "a dump is taken at once; if the world is lost before it is stored, "
                             "it comes back as it was at 2026-11-18T11:06:40Z, and what is played "
                             "after that moment is lost");
    s->schema = true;
    buf_clear(&b);
    gap_words(&gap, at, true, &b);
    assert_string_equal(b.p, "no dump while the database is missing; it can be brought back as it "
                             "was at 2026-11-18T11:06:40Z");
}

/* The longest command that undoes a statement fits into a condition's hint: 8 names, of 64 quotes,
 * each four bytes in the shell. */
static void test_longest_undo(void **state)
{
    (void)state;
    struct follow_statement s = {
        .verb = "renamed", .count = STATEMENT_DEED_TABLES, .before.ms = 1795000000000};
    SCOPED(buf_free) struct buf hint = {0};
    for (size_t i = 0; i < s.count; i++) {
        memset(s.tables[i].name, '\'', 64);
        memset(s.tables[i].dump, 'd', sizeof s.tables[i].dump - 1);
    }
    buf_adds(&hint, "if that was not intended, this brings it back as it was just before: ");
    size_t before = hint.len;
    s.more = 99999;
    statement_undo(&s, true, &hint);
    assert_in_range(hint.len, before + 2048, CONDITION_HINT - 1);
}

/* Asserts that the command and what follows it are these. */
static void expect_undo(const struct follow_statement *s, const char *expected)
{
    SCOPED(buf_free) struct buf b = {0};
    statement_undo(s, true, &b);
    assert_string_equal(b.p ? b.p : "", expected);
}

/* A command that leaves tables out says so, and which dump has the others. */
static void test_undo_of_some(void **state)
{
    (void)state;
    struct follow_statement s = {.verb = "dropped",
                                 .before.ms = 1795000000000,
                                 .count = 3,
                                 .tables = {{.name = "a"},
                                            {.name = "b`, c", .dump = "s8-2"},
                                            {.name = "d e", .dump = "s8-2"}}};
#define RESTORED "worldkeeper --restore=s8-2 --at 2026-11-18T11:06:40Z"
    expect_undo(&s, RESTORED " --table '`b``, c`,d e'");
    s.more = 4;
    expect_undo(&s, RESTORED " --table '`b``, c`,d e'; the command restores only 2 of 7 tables; "
                             "this loads dump s8-2 into another schema, to copy more of them from "
                             "there: " RESTORED " --into SCHEMA");
    s.more = 0;
    snprintf(s.tables[2].dump, sizeof s.tables[2].dump, "s8-1");
    expect_undo(&s, RESTORED " --table '`b``, c`'; the command restores only 1 of 3 tables; "
                             "this loads dump s8-1 into another schema, to copy more of them from "
                             "there: worldkeeper --restore=s8-1 --into SCHEMA");
    s.count = 1; /* the one that no dump has */
    expect_undo(&s, "");
}

static void expect_exposure(struct exposure e, const char *expected)
{
    SCOPED(buf_free) struct buf b = {0};
    exposure_words(&e, &b);
    assert_string_equal(b.p, expected);
}

static void test_exposure(void **state)
{
    (void)state;
    expect_exposure((struct exposure){.unproven = -1, .up = true},
                    "all of the world: no verified dump exists; this changes when one is stored");
    expect_exposure(
        (struct exposure){
            .dump = true, .dump_age = 960000, .unproven = 1400, .journal = true, .up = true},
        "at most 1.4 s of play: the newest verified dump is 16m old, and the journal covers "
        "the time since, but for these last 1.4 s; this stays so while the journal is followed");
    expect_exposure(
        (struct exposure){.dump = true, .dump_age = 960000, .unproven = -1, .up = true},
        "at most 16m of play: the newest verified dump is 16m old, and no journal covers "
        "the time since ([journal] mode = off); this grows until the next dump is stored");
    expect_exposure(
        (struct exposure){
            .dump = true, .dump_age = 960000, .unproven = -1, .journal = true, .up = true},
        "at most 16m of play: the newest verified dump is 16m old, and the journal is not "
        "known to cover the time since; this grows until the next dump is stored");
    expect_exposure(
        (struct exposure){.dump = true, .dump_age = 960000, .unproven = -1, .journal = true},
        "at most 16m of play: the newest verified dump is 16m old, and whether the journal "
        "covers the time since is seen when the world is back; this does not grow while nobody "
        "plays");
    /* what is not known is no number */
    expect_exposure(
        (struct exposure){
            .dump = true, .dump_age = -1, .unproven = 10, .journal = true, .up = true},
        "all play since the newest verified dump, whose age is not known (the clock was set back); "
        "this changes when the next dump is stored");
    expect_exposure(
        (struct exposure){
            .dump = true, .damaged = true, .dump_age = -1, .unproven = 10, .up = true},
        "all of the world: the newest dump is damaged, and no older intact one is known; this "
        "changes when the next dump is stored");
    /* a restore takes the older dump, whose age is known */
    struct exposure damaged = {
        .dump = true, .damaged = true, .dump_age = 960000, .unproven = 10, .up = true};
    expect_exposure(damaged, "at most 16m of play: the newest intact dump is 16m old, as a newer "
                             "one is damaged; this changes when the next dump is stored");
    damaged.journal = true;
    expect_exposure(damaged, "at most 16m of play: the newest intact dump is 16m old, as a newer "
                             "one is damaged; a restore adds what the journal has since that dump; "
                             "this changes when the next dump is stored");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_subjects),
        cmocka_unit_test(test_condition_subjects),
        cmocka_unit_test(test_statement_subjects),
        cmocka_unit_test(test_gap),
        cmocka_unit_test(test_longest_undo),
        cmocka_unit_test(test_undo_of_some),
        cmocka_unit_test(test_exposure),
        cmocka_unit_test(test_restoring),
        cmocka_unit_test(test_node_outside_its_cluster),
        cmocka_unit_test(test_restore_failed_or_not_wanted),
        cmocka_unit_test(test_back),
        cmocka_unit_test(test_rows_set_aside),
        cmocka_unit_test(test_statements_to_paste),
        cmocka_unit_test(test_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
