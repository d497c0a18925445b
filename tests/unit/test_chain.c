/* journal/chain: what a dump and the journal after it must contain before a machine gives its world
 * away. Every case is a chain that is complete except for one thing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "journal/chain.h"

#define SEGMENTS 3

static struct world {
    struct manifest m;
    struct manifest_table had[2];
    struct db_column columns[2];
    struct db_table now[2];
    struct db_tables tables;
    struct archive_segment list[SEGMENTS];
    struct archive journal;
    struct chain chain;
} w;

static struct db_binlog_pos at(uint64_t pos)
{
    struct db_binlog_pos p = {.pos = pos};
    snprintf(p.file, sizeof p.file, "log.000001");
    return p;
}

/* Tables planet and fleet, a dump at 1500, segments from 1000 to 4000. */
static void make(void)
{
    static char planet[] = "planet", fleet[] = "fleet", memory[] = "MEMORY";
    memset(&w, 0, sizeof w);
    w.now[0] = (struct db_table){.name = planet, .engine = memory, .memory = true};
    w.now[1] = (struct db_table){.name = fleet, .engine = memory, .memory = true};
    w.tables = (struct db_tables){.list = w.now, .count = 2};
    for (size_t i = 0; i < 2; i++) {
        w.had[i] = (struct manifest_table){.name = w.now[i].name, .engine = memory};
        db_columns_hash(&w.now[i], w.had[i].columns_hash);
    }
    w.m = (struct manifest){.generation = 7,
                            .nonce = "0123456789abcdef0123456789abcdef",
                            .end = at(1500),
                            .server = {.uid = "uid"},
                            .code_hash = "00000000000000c0",
                            .tables = w.had,
                            .table_count = 2};
    snprintf(w.m.name, sizeof w.m.name, "w1-000007-00000001-20260101T000000Z");
    for (uint64_t i = 0; i < SEGMENTS; i++) {
        struct archive_segment *s = &w.list[i];
        s->number = s->head.number = i + 1;
        s->head.follows = i > 0;
        s->finalized = true;
        snprintf(s->head.server, sizeof s->head.server, "uid");
        snprintf(s->head.schema, sizeof s->head.schema, "game");
        s->head.from.point = at(1000 * (i + 1));
        s->sum.to.point = at(1000 * (i + 2));
    }
    w.journal = (struct archive){.list = w.list, .count = SEGMENTS};
    w.chain = (struct chain){.m = &w.m,
                             .generation = 7,
                             .nonce = "0123456789abcdef0123456789abcdef",
                             .tables = &w.tables,
                             .code_hash = "00000000000000c0",
                             .journal = &w.journal};
}

static void complete(void)
{
    struct err e = {0};
    if (chain_judge(&w.chain, &e) < 0)
        fail_msg("%s", e.text);
}

static void refused(const char *why)
{
    struct err e = {0};
    assert_int_equal(chain_judge(&w.chain, &e), -1);
    assert_int_equal(e.cls, ERR_REFUSED);
    if (!strstr(e.text, why))
        fail_msg("%s", e.text);
    assert_true(e.hint[0]);
    make();
}

static int set_up(void **state)
{
    (void)state;
    make();
    return 0;
}

static void test_complete(void **state)
{
    (void)state;
    complete();
    w.chain.restores_all = true; /* of MEMORY tables alone that is the same */
    complete();
    w.tables.count = 1; /* a table that was dropped since is no loss */
    complete();
    w.m.end = at(4000); /* nothing happened since the dump */
    complete();
}

static void test_of_another_life(void **state)
{
    (void)state;
    w.chain.m = NULL;
    refused("no dump of this world since");
    w.chain.generation = 8;
    refused("generation 8");
    w.chain.generation = 6; /* another machine's, by itself */
    refused("generation 6");
    w.chain.nonce = "f123456789abcdef0123456789abcdef"; /* two machines restored independently */
    refused("no dump of this world since");
}

static void test_tables(void **state)
{
    static char other[] = "other", innodb[] = "InnoDB";
    (void)state;
    w.now[1].name = other;
    refused("table other was created or altered");
    snprintf(w.had[0].columns_hash, sizeof w.had[0].columns_hash, "0123456789abcdef");
    refused("table planet was created or altered");
    w.had[1].engine = innodb;
    w.tables.count = 1;
    complete(); /* it stays out of a restore */
    w.chain.restores_all = true;
    refused("scope = all");
}

static void test_code(void **state)
{
    (void)state;
    w.chain.code_hash = "00000000000000c1";
    refused("were created, altered or dropped after dump");
    w.m.code_hash[0] = '\0';
    refused("written by an older version");
    complete();
}

static void test_journal(void **state)
{
    (void)state;
    w.journal.count = 0;
    refused("no segment begins");
    w.m.end = at(500);
    refused("no segment begins");
    w.m.end.file[0] = '\0';
    refused("no segment begins");
    snprintf(w.m.unlogged, sizeof w.m.unlogged, "sql_log_bin");
    refused("no segment begins");
    snprintf(w.m.server.uid, sizeof w.m.server.uid, "another");
    refused("no segment begins");
    w.list[2].head.follows = false;
    refused("does not begin at the end of the previous one");
    w.list[1].sum.to.point = at(2900);
    refused("does not begin at the end of the previous one");
    snprintf(w.list[0].damage, sizeof w.list[0].damage, "bytes");
    refused("does not begin at the end of the previous one");
    w.list[1].sum.marks[0] =
        (struct segment_mark){.kind = CHANGE_GAP, .place = at(2500), .text = "a LOAD DATA"};
    w.list[1].sum.mark_count = 1;
    refused("a LOAD DATA");
    w.list[0].sum.marks[0] =
        (struct segment_mark){.kind = CHANGE_GAP, .place = at(1200), .text = "before the dump"};
    w.list[0].sum.mark_count = 1;
    complete();
    w.list[0].head.follows = false;
    w.list[1].head.follows = false;
    w.m.end = at(2500); /* what lies before the dump does not count */
    complete();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_complete, set_up),
        cmocka_unit_test_setup(test_of_another_life, set_up),
        cmocka_unit_test_setup(test_tables, set_up),
        cmocka_unit_test_setup(test_code, set_up),
        cmocka_unit_test_setup(test_journal, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
