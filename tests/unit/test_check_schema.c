/* Rules of --check for the world in the server: schema, sentinel, lease, method, tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "check_kit.h"

#define SENTINEL "SELECT nonce, generation, dump FROM `game`.`worldkeeper`"
#define LEASE "SELECT generation FROM `game`.`worldkeeper_lease`"
#define NONCE "0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210"
#define CHEST "chest\tInnoDB\t\\N\t10\t1000\t200\t\\N\t100"

static void copy(void)
{
    kit_cfg.dump_method = METHOD_COPY;
}

static void lock(void)
{
    kit_cfg.dump_method = METHOD_LOCK;
}

static void fuzzy(void)
{
    kit_cfg.dump_method = METHOD_FUZZY;
}

static void dump_all(void)
{
    kit_cfg.dump_all = true;
}

static void restore_all(void)
{
    kit_cfg.dump_all = kit_cfg.restore_all = true;
}

static char odd_sentinel[] = "my`own";

static void odd_name(void)
{
    kit_cfg.sentinel = odd_sentinel;
    script("SELECT nonce, generation, dump FROM `game`.`my``own`", NONCE "\t3\td");
}

static void test_world(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {MARIA, "FROM information_schema.SCHEMATA", "", 0, CHECK_FAIL, "schema",
         "`game` does not exist", "--restore creates it"},
        {MYSQL_9, "FROM information_schema.SCHEMATA", "", 0, CHECK_FAIL, "schema",
         "or this account may not see it", "SHOW DATABASES", "SHOW GRANTS",
         "GRANT USAGE ON *.* TO `keeper`@`localhost`"},
        {MARIA, "FROM information_schema.SCHEMATA", NULL, 1227, CHECK_FAIL, "schema"},

        {MARIA, SENTINEL, NULL, 1146, CHECK_FAIL, "sentinel", "its table does not exist", "--init"},
        {MARIA, SENTINEL, NULL, 1054, CHECK_FAIL, "sentinel", "not a sentinel of worldkeeper",
         "[probe] table"},
        {MARIA, SENTINEL, NULL, 1142, CHECK_FAIL, "sentinel", NULL, "see the finding \"rights\""},
        {MARIA, SENTINEL, "", 0, CHECK_FAIL, "sentinel", "its row does not exist"},
        {MARIA, SENTINEL, NONCE "\t1\td\n" NONCE "\t2\td", 0, CHECK_FAIL, "sentinel",
         "more than one row"},
        {MARIA, "AND ENGINE<>'MEMORY'", "InnoDB", 0, CHECK_FAIL, "sentinel",
         "of engine InnoDB instead of MEMORY", "ALTER TABLE `game`.`worldkeeper` ENGINE=MEMORY;"},
        {MYSQL_9, "AND ENGINE<>'MEMORY'", "MyISAM", 0, CHECK_FAIL, "sentinel", "of engine MyISAM",
         "ALTER TABLE `game`.`my``own` ENGINE=MEMORY;", .change = odd_name},
        {MARIA, LEASE, NULL, 1146, CHECK_FAIL, "lease", "or its row does not exist", "--init"},
        {MARIA, LEASE, NULL, 1142, CHECK_FAIL, "lease"},

        {.level = CHECK_OK, .name = "method", .text = "copy: set", .change = copy},
        {.level = CHECK_OK, .name = "method", .hint = "writers wait", .change = lock},
        {.level = CHECK_OK, .name = "method", .text = "fuzzy: tables are scanned"},
        {MYSQL_9, .level = CHECK_OK, .name = "method", .text = "fuzzy: tables are copied"},
        {MARIA, "SELECT @@global.log_bin", NULL, 1227, CHECK_WARN, "method", "cannot be chosen"},
        {MARIA, "SELECT @@global.log_bin", "0", 0, CHECK_OK, "method", "copy: writers wait"},
        {MARIA, "SELECT @@global.log_bin", "0", 0, CHECK_FAIL, "method", "is not possible",
         "method = auto", .change = fuzzy},

        {MARIA, "SELECT @@global.local_infile", "0", 0, CHECK_NOTE, "loading",
         "as prepared INSERTs", "SET GLOBAL local_infile=1"},
        {MYSQL_9, "SELECT @@global.local_infile", "0", 0, CHECK_NOTE, "loading",
         "as prepared INSERTs", "SET PERSIST local_infile=ON"},
        {MYSQL_9, "SELECT @@global.local_infile", "0", 0, CHECK_NOTE, "loading", "as INSERTs",
         "SET PERSIST local_infile=ON", "SELECT @@global.max_prepared_stmt_count", "0"},

        {.level = CHECK_WARN, .name = "tables", .text = "no MEMORY table"},
        {MARIA, ALL_TABLES, NULL, 1227, CHECK_OK, "lease"},
        {MARIA, ALL_TABLES, BAG, 0, CHECK_OK, "tables", "1 of engine MEMORY, 10 rows", NULL,
         ALL_COLUMNS, BAG_KEYED},
        {MARIA, ALL_TABLES, BAG "\n" CHEST, 0, CHECK_OK, "tables", "1 durable, which are not"},
        {MARIA, ALL_TABLES, BAG "\n" CHEST, 0, CHECK_OK, "tables", "dumped but not restored",
         .change = dump_all},
        {MARIA, ALL_TABLES, BAG "\n" CHEST, 0, CHECK_OK, "tables", "dumped and restored too",
         .change = restore_all},
        {MYSQL_9, ALL_TABLES, CHEST, 0, CHECK_OK, "tables", "0 of engine MEMORY",
         .change = dump_all},
        {MARIA, ALL_TABLES, BAG, 0, CHECK_NOTE, "tables", "without a primary key: `bag`", NULL,
         ALL_COLUMNS, BAG_BARE},

        {MARIA, "CONSTRAINT_TYPE='FOREIGN KEY'", "chest", 0, CHECK_FAIL, "tables",
         "with foreign keys, which cannot be swapped: a restore is refused: `chest`",
         "scope = lost", .change = restore_all},
        {MYSQL_9, "REFERENCED_TABLE_NAME IS NOT NULL", "chest", 0, CHECK_FAIL, "tables",
         "that foreign keys point to", .change = restore_all},
        {MARIA, "TABLE_TYPE='SEQUENCE'", "ids", 0, CHECK_WARN, "tables", "sequences",
         .change = dump_all},
        {MARIA, "TABLE_TYPE='SEQUENCE'", NULL, 1227, CHECK_OK, "tables", .change = dump_all},
        {MARIA, "'SYSTEM VERSIONED' AND TABLE_SCHEMA", "past", 0, CHECK_WARN, "tables",
         "system versioning: their history is not dumped: `past`", .change = dump_all},
        {MARIA, "'SYSTEM VERSIONED' AND ENGINE='MEMORY'", "past", 0, CHECK_FAIL, "tables",
         "of engine MEMORY with system versioning: after a change of their rows, dumps fail: "
         "`past`",
         "DROP SYSTEM VERSIONING"},
        {MARIA, "'SPIDER','MRG_MyISAM','BLACKHOLE')", "far", 0, CHECK_WARN, "tables",
         "whose rows are stored elsewhere", "engines = memory", .change = dump_all},

        {MARIA, OWN_TABLES, "worldkeeper_tmp_mine\tMEMORY\t\\N\t0\t0\t0\t0\t0", 0, CHECK_FAIL,
         "tables", "`worldkeeper_tmp_mine`: names that begin with", "RENAME TABLE"},
        {MARIA, OWN_TABLES, "worldkeeper_tmp_new_00001\tMEMORY\t\\N\t0\t0\t0\t0\t0", 0, CHECK_FAIL,
         "tables", "`worldkeeper_tmp_new_00001`"},
        {MARIA, OWN_TABLES,
         "worldkeeper_tmp_new_000001\tMEMORY\t\\N\t0\t0\t0\t0\t0\n"
         "worldkeeper_tmp_old_sentinel\tMEMORY\t\\N\t0\t0\t0\t0\t0\n"
         "worldkeeper_tmp_swap\tMEMORY\t\\N\t0\t0\t0\t0\t0",
         0, CHECK_NOTE, "left-overs", "3 shadow tables", "drops them"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        kit_case_run(&cases[i], kit_ask);
}

/* ---- what is known of the world from before ---- */

/* The server of the kit began at 1700000000. */
static void known(struct check *c, const char *nonce, int64_t start)
{
    kit_config();
    kit_sound_server(MARIA);
    *c = kit_check();
    c->state.known = true;
    c->state.generation = 3;
    c->state.server.start = start;
    snprintf(c->state.nonce, sizeof c->state.nonce, "%s", nonce);
}

static void dumped(struct check *c, const char *nonce, int64_t start)
{
    known(c, nonce, start);
    c->state = (struct state){0};
    c->catalog.list = xcalloc(1, sizeof *c->catalog.list);
    c->catalog.count = 1;
    c->catalog.generation = 3;
    c->catalog.list[0].intact = true;
    c->catalog.list[0].m.server.start = start;
    snprintf(c->catalog.list[0].m.nonce, sizeof c->catalog.list[0].m.nonce, "%s", nonce);
}

static void expect(struct check *c, enum check_level level, const char *name, const char *text)
{
    kit_ask(c);
    kit_expect(c, level, name, text, NULL);
    kit_check_free(c);
}

static void test_known_world(void **state)
{
    (void)state;
    struct check c;
    known(&c, NONCE, 1700000000);
    expect(&c, CHECK_OK, "sentinel", "has this world's row, generation 3");
    known(&c, OTHER, 1700000000);
    expect(&c, CHECK_FAIL, "sentinel", "another worldkeeper restored or adopted");
    dumped(&c, NONCE, 1700000000);
    expect(&c, CHECK_OK, "sentinel", "has this world's row");
    dumped(&c, OTHER, 1700000000);
    expect(&c, CHECK_FAIL, "sentinel", "unknown here");

    known(&c, NONCE, 1700000000);
    script_error(SENTINEL, 1146);
    expect(&c, CHECK_FAIL, "sentinel", "was removed");
    known(&c, NONCE, 1600000000);
    script_error(SENTINEL, 1146);
    expect(&c, CHECK_FAIL, "sentinel", "the server was restarted and the world is lost");
    known(&c, NONCE, 1600000000);
    snprintf(c.state.server.datadir, sizeof c.state.server.datadir, "/another/");
    script_error(SENTINEL, 1146);
    expect(&c, CHECK_FAIL, "sentinel", "another database server than before");
    dumped(&c, NONCE, 1600000000);
    script(SENTINEL, "");
    expect(&c, CHECK_FAIL, "sentinel", "row is missing");
}

static void test_lease_of_others(void **state)
{
    (void)state;
    struct check c;
    dumped(&c, NONCE, 1700000000);
    script(LEASE, "4"); /* a restore has raised it, and its first dump is not there yet */
    expect(&c, CHECK_OK, "lease", "generation 4");
    dumped(&c, NONCE, 1700000000);
    script(LEASE, "5");
    expect(&c, CHECK_WARN, "lease", "another worldkeeper also restores this world");
    dumped(&c, NONCE, 1700000000);
    c.state.generation = 5;
    script(LEASE, "5");
    expect(&c, CHECK_OK, "lease", NULL);
}

static void test_while_it_runs(void **state)
{
    (void)state;
    struct check c;
    known(&c, NONCE, 1700000000);
    check_fact(&c, "running", true);
    script(OWN_TABLES, "worldkeeper_tmp_copy_000001\tMEMORY\t\\N\t0\t0\t0\t0\t0");
    kit_ask(&c);
    assert_false(kit_said(&c, CHECK_NOTE, "left-overs", NULL, NULL));
    kit_check_free(&c);
}

/* ---- definitions ---- */

#define SEE_ALL "GRANT SELECT ON `mysql`.`proc` TO `keeper`@`localhost`\n"
#define OURS "GRANT " KIT_SCHEMA_RIGHTS " ON `game`.* TO `keeper`@`localhost`"
#define BLIND                                                                                      \
    "GRANT SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES, CREATE TEMPORARY TABLES, "    \
    "TRIGGER ON `game`.* TO `keeper`@`localhost`"

static void test_definitions(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {MARIA, "SHOW GRANTS", SEE_ALL OURS, 0, CHECK_OK, "definitions", "0 views"},
        {MYSQL_9, "SHOW GRANTS", "GRANT SHOW_ROUTINE ON *.* TO `keeper`@`localhost`\n" OURS, 0,
         CHECK_OK, "definitions"},
        {MARIA, "FROM information_schema.VIEWS", "v", 0, CHECK_WARN, "definitions",
         "1 of 1 views are not in dumps, such as v", "SHOW CREATE says why"},
        {MARIA, "FROM information_schema.VIEWS", "v", 0, CHECK_WARN, "definitions", "such as v",
         "SHOW VIEW", "SHOW GRANTS", BLIND},
        {MARIA, "SHOW GRANTS", BLIND, 0, CHECK_NOTE, "definitions", "events would not be in dumps",
         "if there are any: GRANT"},
        {.level = CHECK_NOTE,
         .name = "definitions",
         .text = "functions and procedures",
         .hint = "GRANT SELECT ON `mysql`.`proc`"},
        {MYSQL_9, .level = CHECK_NOTE, .name = "definitions", .hint = "GRANT SHOW_ROUTINE ON *.*"},
        {MARIA, "VARIABLE_NAME='Uptime'", "1700000000\tdb1\t/d\t11.8.9-MariaDB" UP, 0, CHECK_NOTE,
         "definitions", NULL, "GRANT SHOW CREATE ROUTINE ON *.*"},
        {MYSQL_9, "ROUTINE_TYPE='FUNCTION'", "f", 0, CHECK_WARN, "definitions", "1 of 1 functions",
         "GRANT SHOW_ROUTINE"},
        {MYSQL_9, "FROM information_schema.LIBRARIES", NULL, 1109, CHECK_NOTE, "definitions"},
        {MYSQL_9, "FROM information_schema.LIBRARIES", NULL, 1142, CHECK_NOTE, "definitions"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        kit_case_run(&cases[i], kit_ask);
}

static void test_readable_definition(void **state)
{
    (void)state;
    kit_config();
    kit_sound_server(MARIA);
    script("SHOW GRANTS", SEE_ALL OURS);
    script("ROUTINE_TYPE='FUNCTION'", "f");
    script("SHOW CREATE FUNCTION `game`.`f`", "f\t\tCREATE FUNCTION f\tutf8mb4\tutf8mb4_bin");
    struct check c = kit_check();
    expect(&c, CHECK_OK, "definitions", "1 views, triggers, events, functions");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_world),           cmocka_unit_test(test_known_world),
        cmocka_unit_test(test_lease_of_others), cmocka_unit_test(test_while_it_runs),
        cmocka_unit_test(test_definitions),     cmocka_unit_test(test_readable_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
