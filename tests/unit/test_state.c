/* store/state: state.json and pending.json, with everything that a crash or a person can do to
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/stat.h>

#include "base/js.h"
#include "base/text.h"
#include "dir_kit.h"
#include "store/pending.h"
#include "store/state.h"

#define NONCE "0123456789abcdef0123456789abcdef"

/* Stands before the system's call. */
static const char *host_name;
int gethostname(char *name, size_t len)
{
    snprintf(name, len, "%s", host_name);
    return 0;
}

/* ---- state.json ---- */

static const struct state full = {
    .known = true,
    .nonce = NONCE,
    .generation = 12,
    .server = {.start = 1700000000,
               .uid = "3af2",
               .hostname = "host",
               .young = true,
               .pid = 4711,
               .connection = 12,
               .datadir = "/var/lib/mysql/",
               .version = "10.11.6-MariaDB"},
    .alive_at = {1700000000123},
    .boot = "24b01163064a4ee09277f365dcdd86bd",
    .paused = true,
    .pause_until = {1700000360000},
    .endless_since = {1700000000456},
    .role = ROLE_PRIMARY,
    .holder = "host/0123456789abcdef",
    .next = "fedcba9876543210fedcba9876543210",
    .lease_number = 7,
    .last_restore = "{\"dump\": \"w-\xc3\xa4\", \"rows\": 5}",
};

static void same_state(const struct state *a, const struct state *b)
{
    assert_int_equal(a->known, b->known);
    assert_string_equal(a->nonce, b->nonce);
    assert_true(a->generation == b->generation);
    assert_int_equal(a->server.start, b->server.start);
    assert_int_equal(a->server.young, b->server.young);
    assert_int_equal(a->server.pid, b->server.pid);
    assert_int_equal(a->server.connection, b->server.connection);
    assert_string_equal(a->server.uid, b->server.uid);
    assert_string_equal(a->server.hostname, b->server.hostname);
    assert_string_equal(a->server.datadir, b->server.datadir);
    assert_string_equal(a->server.version, b->server.version);
    assert_int_equal(a->alive_at.ms, b->alive_at.ms);
    assert_string_equal(a->boot, b->boot);
    assert_int_equal(a->paused, b->paused);
    assert_int_equal(a->pause_until.ms, b->pause_until.ms);
    assert_int_equal(a->endless_since.ms, b->endless_since.ms);
    assert_string_equal(a->last_restore, b->last_restore);
    assert_int_equal(a->role, b->role);
    assert_string_equal(a->holder, b->holder);
    assert_string_equal(a->next, b->next);
    assert_string_equal(a->made.nonce, b->made.nonce);
    assert_string_equal(a->made.dump, b->made.dump);
    assert_true(a->lease_number == b->lease_number);
}

static void state_round_trip(const struct state *s)
{
    struct state back = {0};
    struct err e = {0};
    if (state_save(kit_dir, s, &e) < 0 || state_load(kit_dir, &back, &e) < 0)
        fail_msg("%s", e.text);
    same_state(s, &back);
}

/* The disk writer gets states that the supervisor sent before a job saved its own. */
static void test_a_job_saved_its_world(void **state)
{
    (void)state;
    static const struct state empty;
    struct state sent = full, saved = full, wrote = full;
    snprintf(saved.nonce, sizeof saved.nonce, "%s", "00000000000000000000000000000001");
    saved.generation = full.generation + 1;
    saved.server.start++;
    snprintf(saved.made.dump, sizeof saved.made.dump, "%s", "w-000012");
    snprintf(saved.last_restore, sizeof saved.last_restore, "%s", "{}");
    memset(saved.boot, 'b', sizeof saved.boot - 1);
    sent.alive_at.ms += 1000;
    sent.paused = false;
    struct state both = sent;
    state_keep_later(&both, &saved, &wrote);
    assert_false(both.paused);
    both.paused = saved.paused;
    same_state(&both, &saved);
    /* The supervisor has learned of it, of a later one, or has adopted an older one itself. */
    const struct state later = {.known = true, .nonce = NONCE, .generation = full.generation + 2};
    const struct state older = {.known = true, .nonce = NONCE, .generation = 3};
    both = saved;
    state_keep_later(&both, &saved, &wrote);
    same_state(&both, &saved);
    both = later;
    state_keep_later(&both, &saved, &wrote);
    same_state(&both, &later);
    both = older;
    state_keep_later(&both, &saved, &saved);
    same_state(&both, &older);
    both = full;
    state_keep_later(&both, &empty, &wrote);
    same_state(&both, &full);
}

static void test_a_job_stepped_back(void **state)
{
    (void)state;
    struct state saved = full, sent = full;
    saved.role = ROLE_STANDBY;
    state_keep_later(&sent, &saved, &full);
    assert_int_equal(sent.role, ROLE_STANDBY);
    sent = full;
    sent.generation++; /* promoted since */
    state_keep_later(&sent, &saved, &full);
    assert_int_equal(sent.role, ROLE_PRIMARY);
    sent = full;
    state_keep_later(&sent, &saved, &saved);
    assert_int_equal(sent.role, ROLE_PRIMARY);
}

static void test_state(void **state)
{
    (void)state;
    static const struct state none;
    struct state s;
    struct err e = {0};
    memset(&s, 0xff, sizeof s);
    assert_int_equal(state_load(kit_dir, &s, &e), 0);
    same_state(&s, &none);
    state_round_trip(&none);
    state_round_trip(&full);
    s = full;
    s.generation = DB_GENERATION_MAX;
    s.server.start = CLOCK_WALL_MAX / 1000;
    s.alive_at.ms = CLOCK_WALL_MAX;
    memset(s.server.datadir, 'd', sizeof s.server.datadir - 1);
    memset(s.last_restore, 'r', sizeof s.last_restore - 1);
    state_round_trip(&s);
    struct stat st;
    assert_int_equal(fstatat(kit_dir, "state.json", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

/* Where a world with [standby] is kept, and under which name. */
static void test_state_role(void **state)
{
    (void)state;
    struct config c = {.standby.given = true};
    struct state s = {0};
    assert_true(state_standby(&s, &c));
    c.standby.given = false;
    assert_false(state_standby(&s, &c));
    c.standby.given = s.known = true;
    assert_false(state_standby(&s, &c));
    s.role = ROLE_STANDBY;
    assert_true(state_standby(&s, &c));
    s = (struct state){.role = ROLE_PRIMARY};
    assert_false(state_standby(&s, &c));
    static const char *const hosts[] = {"game1", "", "a\tb", "\xff"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        char holder[sizeof s.holder];
        host_name = hosts[i];
        assert_int_equal(state_holder(&s, NULL), 1);
        memcpy(holder, s.holder, sizeof holder);
        assert_int_equal(state_holder(&s, NULL), 0);
        assert_string_equal(s.holder, holder);
        snprintf(s.holder, sizeof s.holder, "elsewhere/%s", strchr(holder, '/') + 1);
    }
}

/* Of a restore of which no more is known; what is noted of it later stays. */
static void test_state_restored(void **state)
{
    (void)state;
    struct state s = full;
    struct state_made made = {.nonce = NONCE, .dump = "d\"\xff"};
    state_restored(&s, &made);
    json_auto_t *o = json_loads(s.last_restore, 0, NULL);
    assert_string_equal(js_text(o, "dump"), "d\"?");
    assert_true(js_flag(o, "ok") && strlen(js_text(o, "at")) > 20);
    assert_true(json_is_null(json_object_get(o, "lost_seconds")));
    made.followed = true;
    memcpy(s.last_restore, "{}", 3);
    state_restored(&s, &made);
    assert_string_equal(s.last_restore, "{}");
    assert_false(s.made.followed);
}

/* Odd text from a server must not keep the rest from being saved. */
static void test_state_odd_text(void **state)
{
    (void)state;
    struct state s = full, back = {0};
    memcpy(s.server.hostname, "h\xff\n\x01", 5);
    memcpy(s.server.version, "v\xc3", 3);
    memcpy(s.server.uid, "\xf0\x9f", 3);
    memcpy(s.last_restore, "\xff", 2);
    assert_int_equal(state_save(kit_dir, &s, NULL), 0);
    assert_int_equal(state_load(kit_dir, &back, NULL), 0);
    assert_string_equal(back.nonce, NONCE);
    assert_int_equal(back.generation, 12);
    assert_string_equal(back.server.hostname, "h???");
}

static void test_state_damaged(void **state)
{
    (void)state;
    static const struct state none;
    static const char *const texts[] = {"",     "{",   "[]", "null", "7", "{\"known\": tru",
                                        "{}{}", "\xff"};
    struct state s;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct err e = {0};
        kit_text("state.json", texts[i]);
        s = full;
        assert_int_equal(state_load(kit_dir, &s, &e), -1);
        assert_int_equal(e.cls, ERR_DAMAGED);
        assert_string_equal(e.text, "state.json has invalid contents");
        same_state(&s, &none);
    }
    /* Each beginning of a whole one. */
    size_t len = 0;
    assert_int_equal(state_save(kit_dir, &full, NULL), 0);
    char *whole = kit_get("state.json", &len);
    for (size_t cut = 0; cut < len; cut++) {
        kit_put("state.json", whole, cut);
        assert_int_equal(state_load(kit_dir, &s, NULL), -1);
    }
    free(whole);
}

/* A field of a wrong type counts as missing; none of them is believed half. */
static void test_state_fields(void **state)
{
    (void)state;
    static const struct state none;
    struct state s;
    struct err e = {0};
    kit_text("state.json",
             "{\"known\": 1, \"nonce\": 5, \"generation\": -7, \"server\": [], \"alive_at\": "
             "\"x\", \"paused\": \"true\", \"pause_until\": null, \"last_restore\": {}}");
    assert_int_equal(state_load(kit_dir, &s, &e), 0);
    same_state(&s, &none);
    kit_text("state.json",
             "{\"generation\": 1e300, \"alive_at\": -1e300, \"pause_until\": 99999999999}");
    assert_int_equal(state_load(kit_dir, &s, &e), 0);
    assert_int_equal(s.generation + (uint64_t)s.alive_at.ms, 0);
    assert_int_equal(s.pause_until.ms, 99999999999);
}

static void test_state_files(void **state)
{
    (void)state;
    struct state s;
    struct err e = {0};
    assert_int_equal(symlinkat("elsewhere", kit_dir, "state.json"), 0);
    assert_int_equal(state_load(kit_dir, &s, &e), -1);
    assert_int_equal(e.num, ELOOP);
    assert_int_equal(state_save(kit_dir, &full, &e), 0); /* the link is replaced */
    assert_int_equal(state_load(kit_dir, &s, &e), 0);
    same_state(&s, &full);
    assert_false(kit_there("elsewhere"));
    unlinkat(kit_dir, "state.json", 0);
    assert_int_equal(mkdirat(kit_dir, "state.json", 0700), 0);
    assert_int_equal(state_load(kit_dir, &s, &e), -1);
    assert_int_equal(state_save(kit_dir, &full, &e), -1);
    unlinkat(kit_dir, "state.json", AT_REMOVEDIR);
    int fd = kit_create("state.json");
    assert_int_equal(ftruncate(fd, (64 << 10) + 1), 0);
    close(fd);
    assert_int_equal(state_load(kit_dir, &s, &e), -1);
    assert_int_equal(e.num, EFBIG);
}

/* ---- pending.json ---- */

static char *const odd_names[] = {(char[]){"users"}, (char[]){"it's `a` \"b\"\n\t\\"},
                                  (char[]){"\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x89"},
                                  (char[]){"select"}, (char[]){" ; -- \x01"}};
static char *names[COUNT(odd_names)];

static struct db_trigger trigger(void)
{
    static char name[] = "t`r", table[] = "users", event[] = "INSERT", timing[] = "BEFORE";
    static char body[] = "BEGIN\r\n\tSET NEW.a = '\xc3\xa4\\'';;\nEND", definer[] = "game@%",
                mode[] = "";
    static char charset[] = "utf8mb4", collation[] = "utf8mb4_general_ci";
    return (struct db_trigger){name, table, event, timing, body, definer, mode, charset, collation};
}

static char bound[] = "bo`und \xc5\x91", lines[] = "  CONSTRAINT `a``b` CHECK ((`v` > 0)),\n";
static struct pending_checks checks[] = {{bound, lines, UINT64_C(1) << 40}, {lines, bound, 0}};

/* Nothing in it is owned. */
static struct pending sample(struct db_trigger triggers[2])
{
    triggers[0] = triggers[1] = trigger();
    memcpy(names, odd_names, sizeof names);
    return (struct pending){.nonce = NONCE,
                            .generation = 9,
                            .dump = "w-000001-00000001-20231114T221320Z",
                            .tables = {names, COUNT(names)},
                            .triggers = {triggers, 2},
                            .checks = checks,
                            .check_count = COUNT(checks)};
}

static void same_trigger(const struct db_trigger *a, const struct db_trigger *b)
{
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->table, b->table);
    assert_string_equal(a->event, b->event);
    assert_string_equal(a->timing, b->timing);
    assert_string_equal(a->body, b->body);
    assert_string_equal(a->definer, b->definer);
    assert_string_equal(a->sql_mode, b->sql_mode);
    assert_string_equal(a->charset, b->charset);
    assert_string_equal(a->collation, b->collation);
}

static void pending_round_trip(const struct pending *p)
{
    struct pending back = {0};
    struct err e = {0};
    if (pending_save(kit_dir, p, &e) < 0 || pending_load(kit_dir, &back, &e) < 0)
        fail_msg("%s", e.text);
    assert_true(back.there);
    assert_string_equal(back.nonce, p->nonce);
    assert_int_equal(back.generation, p->generation);
    assert_string_equal(back.dump, p->dump);
    assert_int_equal(back.tables.count, p->tables.count);
    for (size_t i = 0; i < back.tables.count; i++)
        assert_string_equal(back.tables.list[i], p->tables.list[i]);
    assert_int_equal(back.triggers.count, p->triggers.count);
    for (size_t i = 0; i < back.triggers.count; i++)
        same_trigger(&back.triggers.list[i], &p->triggers.list[i]);
    assert_int_equal(back.check_count, p->check_count);
    for (size_t i = 0; i < back.check_count; i++) {
        assert_string_equal(back.checks[i].table, p->checks[i].table);
        assert_string_equal(back.checks[i].lines, p->checks[i].lines);
        assert_int_equal(back.checks[i].heap, p->checks[i].heap);
    }
    pending_free(&back);
    assert_false(back.there);
}

static void test_pending(void **state)
{
    (void)state;
    struct db_trigger triggers[2];
    struct pending p = sample(triggers), back = {0};
    assert_int_equal(pending_load(kit_dir, &back, NULL), 0);
    assert_false(back.there);
    pending_free(&back);
    assert_int_equal(pending_remove(kit_dir, NULL), 0);
    pending_round_trip(&p);
    triggers[0].event = (char[]){"UPDATE OF `a``OR`, `b` OR INSERT"};
    triggers[1].event = (char[]){"INSERT,DELETE"};
    pending_round_trip(&p);
    p.tables.count = p.triggers.count = 0;
    p.dump[0] = '\0';
    pending_round_trip(&p);
    assert_int_equal(pending_remove(kit_dir, NULL), 0);
    assert_false(kit_there("pending.json"));
}

/* A name that is left out would give the next shadow to another table. */
static void test_pending_not_utf8(void **state)
{
    (void)state;
    struct db_trigger triggers[2];
    struct pending p = sample(triggers), back = {0};
    struct err e = {0};
    char broken[] = "a\xff";
    names[1] = broken;
    assert_int_equal(pending_save(kit_dir, &p, &e), -1);
    assert_int_equal(e.cls, ERR_REFUSED);
    assert_string_equal(e.text, "the name of table a\xff is not UTF-8 text");
    p = sample(triggers);
    triggers[1].body = broken;
    assert_int_equal(pending_save(kit_dir, &p, &e), -1);
    assert_int_equal(e.cls, ERR_REFUSED);
    assert_string_equal(e.text, "trigger t`r is not UTF-8 text and cannot be recreated");
    assert_false(kit_there("pending.json"));
    /* The dump may be a path that somebody typed, cut to size in the middle of a character. */
    p = sample(triggers);
    memcpy(p.dump, "old\xc3", 5);
    assert_int_equal(pending_save(kit_dir, &p, &e), 0);
    assert_int_equal(pending_load(kit_dir, &back, &e), 0);
    assert_string_equal(back.dump, "old?");
    pending_free(&back);
}

static void test_pending_limit(void **state)
{
    (void)state;
    struct db_trigger triggers[2];
    struct pending p = sample(triggers);
    struct err e = {0};
    char *body = xcalloc((8u << 20) + 1, 1);
    memset(body, 'b', 8u << 20);
    triggers[0].body = body;
    pending_round_trip(&p);
    triggers[1].body = body;
    assert_int_equal(pending_save(kit_dir, &p, &e), -1);
    assert_int_equal(e.num, EFBIG);
    triggers[1] = trigger();
    pending_round_trip(&p); /* the one before is still there whole */
    free(body);
}

#define HEAD "{\"nonce\": \"" NONCE "\", \"generation\": 9, \"dump\": \"d\", "
#define TRIGGER "{\"name\": \"n\", \"table\": \"t\", \"event\": \"INSERT\", \"timing\": \"AFTER\""

static void test_pending_damaged(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "{}",
        "[]",
        "null",
        "{\"nonce\": \"" NONCE "\"}",
        HEAD "\"tables\": []}",
        HEAD "\"triggers\": []}",
        HEAD "\"tables\": {}, \"triggers\": []}",
        HEAD "\"tables\": [], \"triggers\": \"\"}",
        HEAD "\"tables\": [\"a\", 5], \"triggers\": []}",
        HEAD "\"tables\": [\"a\", \"\"], \"triggers\": []}",
        HEAD "\"tables\": [null], \"triggers\": []}",
        HEAD "\"tables\": [], \"triggers\": [{}]}",
        HEAD "\"tables\": [], \"triggers\": [5]}",
        HEAD "\"tables\": [], \"triggers\": [" TRIGGER "}]}",
        HEAD "\"tables\": [], \"triggers\": [" TRIGGER ", \"body\": \"\"}]}",
        HEAD
        "\"tables\": [], \"triggers\": [{\"name\": \"n\", \"table\": \"t\", \"timing\": \"AFTER\", "
        "\"event\": \"UPDATE OF `a` ON `x`\", \"body\": \"b\"}]}",
        "{\"generation\": 9, \"tables\": [], \"triggers\": []}",
        "{\"nonce\": \"012\", \"generation\": 9, \"tables\": [], \"triggers\": []}",
        "{\"nonce\": \"" NONCE "\", \"tables\": [], \"triggers\": []}",
        "{\"nonce\": \"" NONCE "\", \"generation\": 0, \"tables\": [], \"triggers\": []}",
        "{\"nonce\": \"" NONCE "\", \"generation\": -1, \"tables\": [], \"triggers\": []}",
    };
    struct pending p;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct err e = {0};
        kit_text("pending.json", texts[i]);
        if (pending_load(kit_dir, &p, &e) == 0)
            fail_msg("%s was believed", texts[i]);
        assert_int_equal(e.cls, ERR_DAMAGED);
        assert_string_equal(e.text, "pending.json has invalid contents");
        assert_false(p.there);
        assert_int_equal(p.tables.count + p.triggers.count, 0);
    }
    kit_text("pending.json",
             HEAD "\"tables\": [\"t\"], \"triggers\": [" TRIGGER ", \"body\": \"b\"}]}");
    assert_int_equal(pending_load(kit_dir, &p, NULL), 0);
    assert_string_equal(p.triggers.list[0].sql_mode, "");
    pending_free(&p);
}

static void test_pending_cut(void **state)
{
    (void)state;
    struct db_trigger triggers[2];
    struct pending p = sample(triggers), back = {0};
    size_t len = 0;
    assert_int_equal(pending_save(kit_dir, &p, NULL), 0);
    char *whole = kit_get("pending.json", &len);
    for (size_t cut = 0; cut < len; cut++) {
        kit_put("pending.json", whole, cut);
        assert_int_equal(pending_load(kit_dir, &back, NULL), -1);
        assert_false(back.there);
    }
    free(whole);
}

/* One that was cut off before it had its room is made again. */
static void test_pending_reserve(void **state)
{
    (void)state;
    struct stat st;
    for (int i = 0; i < 2; i++) {
        kit_text("pending.reserve", "");
        pending_reserve(kit_dir);
        assert_int_equal(fstatat(kit_dir, "pending.reserve", &st, 0), 0);
        assert_true(st.st_size >= 4096 && st.st_blocks > 0);
    }
    ino_t same = st.st_ino;
    pending_reserve(kit_dir);
    assert_int_equal(fstatat(kit_dir, "pending.reserve", &st, 0), 0);
    assert_true(st.st_ino == same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_state, kit_clean),
        cmocka_unit_test(test_state_restored),
        cmocka_unit_test(test_a_job_saved_its_world),
        cmocka_unit_test(test_a_job_stepped_back),
        cmocka_unit_test(test_state_role),
        cmocka_unit_test_teardown(test_state_odd_text, kit_clean),
        cmocka_unit_test_teardown(test_state_damaged, kit_clean),
        cmocka_unit_test_teardown(test_state_fields, kit_clean),
        cmocka_unit_test_teardown(test_state_files, kit_clean),
        cmocka_unit_test_teardown(test_pending, kit_clean),
        cmocka_unit_test_teardown(test_pending_not_utf8, kit_clean),
        cmocka_unit_test_teardown(test_pending_limit, kit_clean),
        cmocka_unit_test_teardown(test_pending_damaged, kit_clean),
        cmocka_unit_test_teardown(test_pending_cut, kit_clean),
        cmocka_unit_test_teardown(test_pending_reserve, kit_clean),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
