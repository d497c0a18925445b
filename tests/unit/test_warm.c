/* restore/warm: the state of the copy that a standby keeps loaded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_clock.h"
#include "mysql/job.h"
#include "restore/warm_catch_up.h"
#include "restore/warm_int.h"
#include "scripted_server.h"

#define MARK "SELECT redo,dump,file,pos,segment,made FROM " WARM_MARK
#define TABLES "SELECT name,held,heap,counter,definition FROM " WARM_TABLES
#define TRY_AGAIN (-1)

static int opened(const char *mark, const char *tables, unsigned mark_error, unsigned tables_error)
{
    static char world[] = "w1", sentinel[] = "worldkeeper";
    static struct config cfg = {.name = world, .sentinel = sentinel};
    struct job job = {.cfg = &cfg, .db = {.socket = "/none", .user = "keeper"}};
    struct warm w;
    struct err e = {0};
    script_reset();
    scripted_server.version = "10.11.6-MariaDB";
    script("SELECT IF(GET_LOCK", "0");
    script("SELECT COALESCE", "0");
    script(MARK, mark);
    script(TABLES, tables);
    scripted_server.list[2].num = mark_error;
    scripted_server.list[3].num = tables_error;
    int rc = warm_open(&w, &job, &e);
    assert_true(rc == TRY_AGAIN ? e.cls != ERR_NONE : rc == WARM_READY || w.why[0]);
    warm_close(&w);
    script_reset();
    return rc;
}

/* It is given up only for what says that it is not there: to load it costs as much as all that
 * it saves. */
static void test_open(void **state)
{
    (void)state;
    static const char mark[] = "0\tw1-1\tlog.1\t4\t0\t0", tables[] = "bag\t1\t1\t1\t1";
    assert_int_equal(opened(mark, tables, 0, 0), WARM_READY);
    assert_int_equal(opened("", tables, 0, 0), WARM_GONE);
    assert_int_equal(opened(mark, tables, DB_NO_TABLE, 0), WARM_GONE);
    assert_int_equal(opened(mark, tables, 0, DB_NO_TABLE), WARM_GONE);
    assert_int_equal(opened(mark, tables, DB_LOCK_TIMEOUT, 0), TRY_AGAIN);
    assert_int_equal(opened(mark, tables, 0, DB_LOCK_TIMEOUT), TRY_AGAIN);
    assert_int_equal(opened(mark, tables, 0, SCRIPT_LOST), TRY_AGAIN);
}

static struct db_binlog_pos at(uint64_t pos)
{
    struct db_binlog_pos p = {.pos = pos};
    snprintf(p.file, sizeof p.file, "log.000001");
    return p;
}

/* Three segments, of 10, 20 and 40 bytes. Only what is known to lead on counts. */
static void test_distance(void **state)
{
    (void)state;
    struct archive_segment list[3] = {0};
    struct archive a = {.list = list, .count = 3};
    struct manifest m = {.end = at(1500), .server = {.uid = "uid"}};
    struct warm w = {.redo = false};
    for (uint64_t i = 0; i < 3; i++) {
        struct archive_segment *s = &list[i];
        s->number = s->head.number = i + 1;
        s->size = 10U << i;
        s->head.made.ms = 100 + (int64_t)i;
        s->head.follows = i > 0;
        snprintf(s->head.server, sizeof s->head.server, "uid");
        s->head.from.point = at(1000 * (i + 1));
        s->sum.to.point = at(1000 * (i + 2));
    }
    assert_int_equal(warm_bytes_ahead(&w, &a, &m), 60);
    w.place = (struct replay_place){2, 101};
    assert_int_equal(warm_bytes_ahead(&w, &a, &m), 40);
    w.place.made = 7; /* its segment is not here: those that are may belong to another log */
    assert_int_equal(warm_bytes_ahead(&w, &a, &m), 0);
    w.place = (struct replay_place){0, 0};
    list[2].head.follows = false;
    assert_int_equal(warm_bytes_ahead(&w, &a, &m), 20);
    m.end = at(9000); /* no segment has the end of the dump */
    assert_int_equal(warm_bytes_ahead(&w, &a, &m), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_open),
                                       cmocka_unit_test(test_distance)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
