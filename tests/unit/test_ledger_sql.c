/* The SQL statements that are created for a ledger. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ledger/sql.h"

/* A ledger of two keys and two values, one of them with a name that needs care. */
struct kit {
    struct config_ledger cfg;
    struct ledger l;
    struct db_column columns[7];
};

static char k_name[] = "xp", k_table[] = "ga`ins", k_id[] = "id", k_time[] = "at",
            k_levels[] = "lev`els", k_player[] = "pla`yer", k_mini[] = "mini", k_gold[] = "gold",
            k_xp[] = "xp", k_token[] = "token";
static char t_text[] = "varchar(9)", t_int[] = "int(11)", t_unsigned[] = "int(10) unsigned",
            t_decimal[] = "decimal(12,2)", t_big[] = "bigint(20) unsigned",
            t_datetime[] = "datetime(3)", t_char[] = "char(36)";

static const char definition[] = "CREATE TABLE `ga``ins` (\n  `id` bigint(20) unsigned NOT NULL "
                                 "AUTO_INCREMENT,\n  `pla``yer` varchar(9) CHARACTER SET "
                                 "utf8mb4 COLLATE utf8mb4_bin NOT NULL,\n  `mini` int(11) NOT "
                                 "NULL,\n  `xp` int(10) unsigned NOT NULL,\n  `gold` "
                                 "decimal(12,2) NOT NULL,\n  `at` datetime(3) NOT NULL,\n  `token` "
                                 "char(36) DEFAULT NULL,\n  PRIMARY KEY (`id`)\n) "
                                 "ENGINE=MEMORY DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci";

static struct kit *kit(bool memory)
{
    struct kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    struct err e = {0};
    const struct db_column columns[7] = {{.name = k_id, .type = t_big, .counter = true},
                                         {.name = k_player, .type = t_text, .encoding = DB_BYTES},
                                         {.name = k_mini, .type = t_int},
                                         {.name = k_xp, .type = t_unsigned},
                                         {.name = k_gold, .type = t_decimal},
                                         {.name = k_time, .type = t_datetime, .encoding = DB_BYTES},
                                         {.name = k_token, .type = t_char, .encoding = DB_BYTES}};
    memcpy(k->columns, columns, sizeof columns);
    static char *keys[] = {k_player, k_mini}, *values[] = {k_xp, k_gold};
    k->cfg = (struct config_ledger){.name = k_name,
                                    .table = k_table,
                                    .id = k_id,
                                    .time = k_time,
                                    .key = {keys, 2},
                                    .value = {values, 2}};
    static char schema[] = "ga`me";
    k->l = (struct ledger){.cfg = &k->cfg,
                           .schema = schema,
                           .memory = memory,
                           .scale = {0, 2},
                           .key = {&k->columns[1], &k->columns[2]},
                           .value = {&k->columns[3], &k->columns[4]}};
    assert_int_equal(sql_table_read(definition, strlen(definition), 0, &k->l.def, &e), 0);
    return k;
}

static void expect(struct kit *k, void (*make)(struct buf *, const struct ledger *),
                   const char *text)
{
    struct buf b = {0};
    make(&b, &k->l);
    assert_string_equal(b.p ? b.p : "", text);
    buf_free(&b);
}

static void done(struct kit *k)
{
    sql_table_free(&k->l.def);
    free(k);
}

static void test_tables(void **state)
{
    (void)state;
    struct kit *k = kit(true);
    expect(k, ledger_sql_rollup,
           "CREATE TABLE IF NOT EXISTS `xp_rollup` (`pla``yer` varchar(9) CHARACTER SET utf8mb4 "
           "COLLATE utf8mb4_bin NOT "
           "NULL, `mini` int(11) NOT NULL, `xp` bigint unsigned NOT NULL, `gold` decimal(38,2) NOT "
           "NULL, end_id bigint "
           "unsigned NOT NULL, end_time datetime(3) NULL, `rows` bigint unsigned NOT NULL, PRIMARY "
           "KEY "
           "(`pla``yer`,`mini`) USING BTREE) ENGINE=MEMORY DEFAULT CHARSET=latin1 "
           "COLLATE=latin1_swedish_ci");
    expect(k, ledger_sql_mark,
           "CREATE TABLE IF NOT EXISTS `xp_mark` (what varbinary(16) NOT NULL, at bigint NOT NULL, "
           "id bigint unsigned NOT "
           "NULL, PRIMARY KEY (what)) ENGINE=MEMORY");
    expect(k, ledger_sql_index,
           "ALTER TABLE `ga``me`.`ga``ins` ADD KEY `xp_key` (`pla``yer`,`mini`,`id`) USING BTREE");
    expect(k, ledger_sql_request, "");
    expect(k, ledger_sql_trigger, "");
    expect(k, ledger_sql_level, "");
    done(k);
}

static void test_views(void **state)
{
    (void)state;
    struct kit *k = kit(true);
    expect(
        k, ledger_sql_total,
        "CREATE OR REPLACE SQL SECURITY INVOKER VIEW `xp_total` AS SELECT "
        "t.`pla``yer`,t.`mini`,SUM(t.`xp`) AS "
        "`xp`,SUM(t.`gold`) AS `gold` FROM (SELECT r.`pla``yer`,r.`mini`,r.`xp`,r.`gold` FROM "
        "`xp_rollup` r UNION ALL "
        "SELECT l.`pla``yer`,l.`mini`,l.`xp`,l.`gold` FROM `ga``ins` l LEFT JOIN `xp_rollup` r ON "
        "r.`pla``yer`=l.`pla``yer` AND r.`mini`=l.`mini` WHERE l.`id`>COALESCE(r.end_id,0)) t "
        "GROUP BY "
        "t.`pla``yer`,t.`mini`");
    done(k);
    k = kit(false); /* all rows that are there count */
    expect(k, ledger_sql_total,
           "CREATE OR REPLACE SQL SECURITY INVOKER VIEW `xp_total` AS SELECT "
           "t.`pla``yer`,t.`mini`,SUM(t.`xp`) AS "
           "`xp`,SUM(t.`gold`) AS `gold` FROM (SELECT r.`pla``yer`,r.`mini`,r.`xp`,r.`gold` FROM "
           "`xp_rollup` r UNION ALL "
           "SELECT l.`pla``yer`,l.`mini`,l.`xp`,l.`gold` FROM `ga``ins` l) t GROUP BY "
           "t.`pla``yer`,t.`mini`");
    k->cfg.levels = k_levels;
    struct buf b = {0};
    ledger_sql_level(&b, &k->l);
    assert_non_null(strstr(b.p, "VIEW `xp_level` AS SELECT t.`pla``yer`,t.`mini`,s.level AS "
                                "level,t.`xp`-s.begins AS exp,"));
    assert_non_null(strstr(b.p, "FROM `lev``els` UNION ALL"));
    buf_free(&b);
    done(k);
}

/* Before the insert where it cannot be undone, after it where others can come in between. */
static void test_requests(void **state)
{
    (void)state;
    for (int memory = 0; memory < 2; memory++) {
        struct kit *k = kit(memory);
        k->l.request = &k->columns[6];
        char *table = xasprintf(
            "CREATE TABLE IF NOT EXISTS `xp_request` (`token` char(36) NOT NULL, at bigint NOT "
            "NULL, PRIMARY KEY (`token`), "
            "KEY at USING BTREE (at)) ENGINE=%s DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci",
            memory ? "MEMORY" : "InnoDB");
        char *trigger = xasprintf("CREATE TRIGGER `xp_request` %s INSERT ON `ga``ins` FOR EACH ROW "
                                  "IF EXISTS (SELECT 1 FROM `xp_request` q " DB_ONLY_TABLE " WHERE "
                                  "q.`token`=NEW.`token`%s) THEN SIGNAL SQLSTATE '23000' SET "
                                  "MYSQL_ERRNO=1062,MESSAGE_TEXT='Duplicate request: it "
                                  "is in a total of ledger xp'; END IF",
                                  memory ? "BEFORE" : "AFTER", memory ? "" : " LOCK IN SHARE MODE");
        expect(k, ledger_sql_request, table);
        expect(k, ledger_sql_trigger, trigger);
        free(table);
        free(trigger);
        done(k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_requests),
    };
    return cmocka_run_group_tests_name("ledger_sql", tests, NULL, NULL);
}
