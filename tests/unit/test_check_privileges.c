/* Rules of --check for an account: missing privileges, superfluous ones, and the commands to
 * run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "check_kit.h"

#define US "`keeper`@`localhost`"
#define OURS "GRANT " KIT_SCHEMA_RIGHTS " ON `game`.* TO " US
#define BLIND                                                                                      \
    "GRANT SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES, CREATE TEMPORARY TABLES "     \
    "ON `game`.* TO " US
#define TRIGGERS "FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA='game' ORDER BY"
#define TRIGGER(name, table, definer)                                                              \
    name "\t" table "\tINSERT\tAFTER\tSET @a=1\t" definer "\t\tutf8mb4\tutf8mb4_bin"

static void journal_off(void)
{
    kit_cfg.journal = JOURNAL_OFF;
}

static void unlogged(void)
{
    kit_cfg.restore_binlog = false;
}

static void position_refused(void)
{
    journal_off();
    script_error("SHOW MASTER STATUS", 1227);
    script_error("SHOW BINARY LOG STATUS", 1227);
}

static void unlogged_refused(void)
{
    unlogged();
    script_error("SET SESSION sql_log_bin=0", 1227);
}

static void kept_loaded(void)
{
    kit_cfg.standby.warm = true;
}

static void method_lock(void)
{
    kit_cfg.dump_method = METHOD_LOCK;
}

static void one_trigger_of(const char *definer)
{
    static char row[256];
    snprintf(row, sizeof row, TRIGGER("t1", "bag", "%s"), definer);
    script(ALL_TABLES, BAG);
    script(ALL_COLUMNS, BAG_KEYED);
    script(TRIGGERS, row);
}

static void our_trigger(void)
{
    one_trigger_of("keeper@localhost");
}

static void hers(void)
{
    one_trigger_of("ann@%");
}

static void roots(void)
{
    one_trigger_of("root@localhost");
}

static void on_durable(void)
{
    script(ALL_TABLES, "bag\tInnoDB\t\\N\t10\t1000\t200\t\\N\t100");
    script(TRIGGERS, TRIGGER("t1", "bag", "ann@%"));
}

static void log_strict(void)
{
    our_trigger();
    script("SELECT @@global.log_bin_trust_function_creators", "0");
}

static void key_required(void)
{
    script("SELECT @@global.sql_require_primary_key", "1");
}

static void test_needed(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {MARIA, "SHOW GRANTS", NULL, 1227, CHECK_WARN, "rights", "cannot be read (SHOW GRANTS)"},
        {MARIA, "SHOW GRANTS", OURS "\nGRANT SELECT ON", 0, CHECK_NOTE, "rights",
         "1 lines of SHOW GRANTS"},
        {MARIA, "SHOW GRANTS", "GRANT SELECT ON `game`.* TO " US, 0, CHECK_FAIL, "rights",
         "INSERT (loading rows), UPDATE (raising",
         "GRANT INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES, CREATE TEMPORARY TABLES, "
         "TRIGGER, "
         "SHOW VIEW, EVENT ON `game`.* TO " US ";"},
        {MARIA, "SHOW GRANTS",
         "GRANT SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES, TRIGGER ON `game`.* "
         "TO " US,
         0, CHECK_OK, "rights", "all privileges that dumps", .change = method_lock},
        /* A row for this schema alone would hide the wider one: it gets everything. */
        {MARIA, "SHOW GRANTS", "GRANT SELECT ON `gam%`.* TO " US, 0, CHECK_FAIL, "rights", "INSERT",
         "GRANT SELECT, INSERT, UPDATE,"},
        /* … and what the wider one gives beyond that. */
        {MARIA, "SHOW GRANTS",
         "GRANT SELECT, DELETE, EXECUTE ON `g_me`.* TO " US " WITH GRANT OPTION", 0, CHECK_FAIL,
         "rights", "INSERT", "EVENT, DELETE, EXECUTE, GRANT OPTION ON `game`.* TO " US ";"},
        {MARIA, "SHOW GRANTS", OURS "\nGRANT DELETE, SELECT ON `worldkeeper%`.* TO " US, 0,
         CHECK_NOTE, "drill", "--drill could not use",
         "LOCK TABLES, TRIGGER, DELETE ON `worldkeeper\\_drill\\_"},
        {MARIA, "SHOW GRANTS",
         OURS "\nGRANT ALL PRIVILEGES ON `worldkeeper%`.* TO " US " WITH GRANT OPTION", 0,
         CHECK_WARN, "left-overs", "unused standby copy",
         "GRANT ALL PRIVILEGES ON `worldkeeper\\_warm\\_game1`.* TO " US " WITH GRANT OPTION;",
         "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA", "worldkeeper_warm_game1"},
        {MARIA, "VARIABLE_NAME='Uptime'", "1700000000\tdb1\t/d\t11.8.9-MariaDB" UP, 0, CHECK_FAIL,
         "rights", NULL, "EVENT, SHOW CREATE ROUTINE ON", "SHOW GRANTS",
         "GRANT SELECT ON `game`.* TO " US},
        {MYSQL_9, "SELECT CURRENT_ROLE()", "`r`@`%`", 0, CHECK_OK, "rights", "all privileges that",
         NULL, "SHOW GRANTS FOR CURRENT_USER() USING `r`@`%`", OURS},
        {MYSQL_9, "SELECT CURRENT_ROLE()", "NONE", 0, CHECK_OK, "rights", "all privileges that"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        kit_case_run(&cases[i], kit_ask);
}

/* What the server says when it is asked for a trigger. */
#define PROOF(definer) "CREATE DEFINER=" definer " TRIGGER `game`.`worldkeeper_tmp_proof`"

static void refused(void)
{
    script_error(PROOF("`ann`@`%`"), 1227);
    script_error(PROOF("`root`@`localhost`"), 1227);
}

static void hers_refused(void)
{
    hers();
    refused();
}

static void roots_refused(void)
{
    roots();
    refused();
}

/* Before --init there is no table to ask with. */
static void hers_unproven(void)
{
    hers();
    script_error("worldkeeper_tmp_proof", DB_NO_TABLE);
}

static void roots_unproven(void)
{
    roots();
    script_error("worldkeeper_tmp_proof", DB_NO_TABLE);
}

static void strict_refused(void)
{
    log_strict();
    script_error("worldkeeper_tmp_proof", DB_LOG_NEEDS_SUPER);
}

static void test_triggers(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {MARIA, "SHOW GRANTS", BLIND, 0, CHECK_WARN, "triggers", "none now",
         "GRANT TRIGGER, SHOW VIEW, EVENT ON `game`.* TO " US},
        {MYSQL_9, "SHOW GRANTS", BLIND, 0, CHECK_FAIL, "triggers", "would lose them"},
        {MARIA, "SHOW GRANTS", BLIND, 0, CHECK_FAIL, "triggers", "no privilege to recreate them",
         .change = our_trigger},
        {.level = CHECK_OK, .name = "triggers", .text = "1 on tables", .change = our_trigger},
        {MARIA, TRIGGERS, NULL, 1227, CHECK_OK, "rights", "all privileges that"},
        {.level = CHECK_FAIL,
         .name = "triggers",
         .text = "(1419)",
         .hint = "log_bin_trust_function_creators=1",
         .change = strict_refused},
        {MARIA, "SHOW GRANTS", "GRANT SUPER ON *.* TO " US "\n" OURS, 0, CHECK_OK, "triggers",
         .change = log_strict},
        {.level = CHECK_FAIL,
         .name = "triggers",
         .text = "t1 belongs to ann@%",
         .hint = "GRANT SET USER ON *.* TO " US ";",
         .change = hers_refused},
        {MYSQL_9, .level = CHECK_FAIL, .name = "triggers", .text = "SYSTEM_USER also",
         .hint = "GRANT SET_ANY_DEFINER ON *.* TO " US ";", .change = hers_refused},
        {MYSQL_9, .level = CHECK_FAIL, .name = "triggers",
         .hint = "GRANT SET_ANY_DEFINER, SYSTEM_USER ON *.* TO", .change = roots_refused},
        {MYSQL_8, .level = CHECK_FAIL, .name = "triggers", .hint = "GRANT SET_USER_ID ON *.* TO",
         .change = hers_refused},
        /* The server's word counts, whatever the grants look like … */
        {.level = CHECK_OK, .name = "triggers", .change = hers},
        {MARIA_11, "SHOW GRANTS", "GRANT SUPER ON *.* TO " US "\n" OURS, 0, CHECK_FAIL, "triggers",
         "needs SET USER", "GRANT SET USER ON *.* TO " US ";", .change = roots_refused},
        /* … and where it cannot be asked, what SUPER includes in its version. */
        {MARIA_11, "SHOW GRANTS", "GRANT SUPER ON *.* TO " US "\n" OURS, 0, CHECK_FAIL, "triggers",
         "needs SET USER", .change = hers_unproven},
        {MARIA, "SHOW GRANTS", "GRANT SUPER ON *.* TO " US "\n" OURS, 0, CHECK_OK, "triggers",
         .change = hers_unproven},
        {MARIA, "SHOW GRANTS", "GRANT SET USER ON *.* TO " US "\n" OURS, 0, CHECK_OK, "triggers",
         .change = hers_unproven},
        {MYSQL_8, "SHOW GRANTS", "GRANT SET_USER_ID ON *.* TO " US "\n" OURS, 0, CHECK_OK,
         "triggers", .change = hers_unproven},
        {MYSQL_9, "SHOW GRANTS", "GRANT SUPER ON *.* TO " US "\n" OURS, 0, CHECK_FAIL, "triggers",
         NULL, "GRANT SYSTEM_USER ON *.* TO", .change = roots_unproven},
        {MARIA, .level = CHECK_OK, .name = "rights", .text = "all privileges that",
         .change = on_durable},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        kit_case_run(&cases[i], kit_ask);
}

static void test_nice_to_have(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {MARIA, "SHOW GRANTS", OURS, 0, CHECK_NOTE, "rights", "position in the binary log",
         "GRANT BINLOG MONITOR ON *.* TO " US ";", .change = position_refused},
        {MYSQL_9, "SHOW GRANTS", OURS, 0, CHECK_NOTE, "rights", "position in the binary log",
         "GRANT REPLICATION CLIENT ON *.* TO " US ";", .change = position_refused},
        {MARIA, .level = CHECK_WARN, .name = "rights", .text = "has no effect",
         .hint = "GRANT BINLOG ADMIN ON", .change = unlogged_refused},
        {MYSQL_9, .level = CHECK_WARN, .name = "rights", .text = "has no effect",
         .hint = "GRANT SESSION_VARIABLES_ADMIN ON", .change = unlogged_refused},
        {MARIA, .level = CHECK_NOTE, .name = "drill", .text = "worldkeeper_drill_game1",
         .hint = "ON `worldkeeper\\_drill\\_game1`.* TO " US ";"},
        /* Under partial_revokes MySQL takes names as they are. */
        {MYSQL_9, "SELECT @@global.partial_revokes", "1", 0, CHECK_NOTE, "drill", NULL,
         "ON `worldkeeper_drill_game1`.* TO " US ";"},
        {MARIA, "SHOW GRANTS",
         "GRANT SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES, TRIGGER ON "
         "`worldkeeper\\_drill\\_%`.* TO " US "\n" OURS,
         0, CHECK_OK, "drill"},
        {MARIA, .level = CHECK_FAIL, .name = "standby", .text = "worldkeeper_warm_game1",
         .hint = "ON `worldkeeper\\_warm\\_game1`.* TO " US ";", .change = kept_loaded},
        {MARIA, "SHOW GRANTS",
         "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER ON `worldkeeper\\_warm\\_%`.* "
         "TO " US "\n" OURS,
         0, CHECK_OK, "standby", .change = kept_loaded},
        {MARIA, "SHOW GRANTS", "GRANT USAGE ON *.* TO " US " WITH MAX_QUERIES_PER_HOUR 5\n" OURS, 0,
         CHECK_WARN, "account", "it has limits", "MAX_QUERIES_PER_HOUR 0"},
        {MARIA, "SHOW GRANTS", "GRANT `r1` TO " US "\n" OURS, 0, CHECK_NOTE, "account",
         "role `r1` is granted, but not active", "SET DEFAULT ROLE `r1` FOR " US},
        {MYSQL_9, "FROM information_schema.APPLICABLE_ROLES WHERE", "`r1`@`%`", 0, CHECK_NOTE,
         "account", "role `r1`@`%`", "SET DEFAULT ROLE `r1`@`%` TO " US},
        {MYSQL_9, "FROM information_schema.APPLICABLE_ROLES WHERE", NULL, 1227, CHECK_OK, "rights"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        kit_case_run(&cases[i], kit_ask);
}

static void test_too_much(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        /* What stands in for the schema's own row has to be given back in its place. */
        {MARIA, "SHOW GRANTS", "GRANT ALL PRIVILEGES ON *.* TO " US " WITH GRANT OPTION", 0,
         CHECK_WARN, "rights", "superfluous: ALL PRIVILEGES ON *.*; GRANT OPTION ON *.*",
         "REVOKE ALL PRIVILEGES ON *.* FROM " US "; REVOKE GRANT OPTION ON *.* FROM " US
         "; GRANT SELECT, INSERT,"},
        {MYSQL_9, "SHOW GRANTS", "GRANT ALL PRIVILEGES ON *.* TO " US, 0, CHECK_WARN, "rights",
         "superfluous: ALL PRIVILEGES ON *.*",
         "GRANT REPLICATION SLAVE, REPLICATION CLIENT, SESSION_VARIABLES_ADMIN ON *.* TO " US ";",
         .change = key_required},
        {MARIA, "SHOW GRANTS",
         "GRANT FILE, BINLOG MONITOR, REPLICATION SLAVE ON *.* TO " US "\n" OURS, 0, CHECK_WARN,
         "rights", "superfluous: FILE ON *.*", "REVOKE FILE ON *.* FROM " US ";"},
        {MARIA, "SHOW GRANTS", "GRANT SELECT ON `gam%`.* TO " US "\n" OURS, 0, CHECK_WARN, "rights",
         "superfluous: SELECT ON `gam%`.*"},
        {MARIA, "SHOW GRANTS", "GRANT SELECT ON `other`.* TO " US "\n" OURS, 0, CHECK_WARN,
         "rights", "superfluous: SELECT ON `other`.*"},
        {MARIA, "SHOW GRANTS", "GRANT DELETE ON `game`.`bag` TO " US "\n" OURS, 0, CHECK_WARN,
         "rights", "superfluous: DELETE ON `game`.`bag`"},
        {MARIA, "SHOW GRANTS", "GRANT INSERT ON `mysql`.`proc` TO " US "\n" OURS, 0, CHECK_WARN,
         "rights", "superfluous: INSERT ON `mysql`.`proc`"},
        {MARIA, "SHOW GRANTS", "GRANT EXECUTE ON PROCEDURE `other`.`p` TO " US "\n" OURS, 0,
         CHECK_WARN, "rights", "EXECUTE ON PROCEDURE `other`.`p`"},
        {MARIA, "SHOW GRANTS",
         "GRANT EXECUTE, ALTER ROUTINE ON PROCEDURE `game`.`p` TO " US "\n" OURS, 0, CHECK_OK,
         "rights", "all privileges that dumps"},
        {MARIA, "SHOW GRANTS",
         "GRANT EXECUTE, ALTER ROUTINE ON FUNCTION `game`.`f` TO " US "\n" OURS, 0, CHECK_WARN,
         "rights", "EXECUTE ON FUNCTION `game`.`f`: a function that",
         "REVOKE EXECUTE ON FUNCTION `game`.`f` FROM " US ";"},
        {MARIA, "SHOW GRANTS", "GRANT EXECUTE ON `game%`.* TO " US "\n" OURS, 0, CHECK_WARN,
         "rights", "EXECUTE ON `game%`.*: a function that",
         "REVOKE EXECUTE ON `game%`.* FROM " US ";"},
        {MARIA, "SHOW GRANTS", "GRANT SET USER ON *.* TO " US "\n" OURS, 0, CHECK_WARN, "rights",
         "amounts to root: SET USER ON *.*:", .change = our_trigger},
        {MYSQL_9, "SHOW GRANTS", "GRANT SET_ANY_DEFINER ON *.* TO " US "\n" OURS, 0, CHECK_WARN,
         "rights", "amounts to root: SET_ANY_DEFINER ON *.*:", .change = our_trigger},
        {MARIA, "SHOW GRANTS", "GRANT UPDATE ON `mysql`.* TO " US "\n" OURS, 0, CHECK_WARN,
         "rights", "amounts to root: UPDATE ON `mysql`.*:"},
        {MARIA, "SHOW GRANTS", "GRANT " KIT_SCHEMA_RIGHTS ", DELETE, INDEX ON `game`.* TO " US, 0,
         CHECK_NOTE, "rights", "more than needed: DELETE, INDEX ON `game`.*",
         "REVOKE DELETE, INDEX ON `game`.* FROM"},
        {MARIA, "SHOW GRANTS", OURS " WITH GRANT OPTION", 0, CHECK_WARN, "rights",
         "GRANT OPTION ON `game`.*"},
        {MARIA, "SHOW GRANTS", "GRANT SUPER ON *.* TO " US "\n" OURS, 0, CHECK_WARN, "rights",
         "superfluous: SUPER ON *.*", .change = our_trigger},
        {MARIA, "SHOW GRANTS", "GRANT SET USER ON *.* TO " US "\n" OURS, 0, CHECK_WARN, "rights",
         "superfluous: SET USER", .change = our_trigger},
        {MARIA, "SHOW GRANTS", "GRANT BINLOG ADMIN ON *.* TO " US "\n" OURS, 0, CHECK_WARN,
         "rights", "superfluous: BINLOG ADMIN"},
        /* Each dynamic right has an option of its own. */
        {MYSQL_9, "SHOW GRANTS",
         "GRANT SHOW_ROUTINE,BACKUP_ADMIN ON *.* TO " US " WITH GRANT OPTION\n" OURS, 0, CHECK_WARN,
         "rights", "superfluous: BACKUP_ADMIN ON *.*; GRANT OPTION ON *.*",
         "REVOKE BACKUP_ADMIN ON *.* FROM " US "; REVOKE SHOW_ROUTINE ON *.* FROM " US
         "; GRANT SHOW_ROUTINE ON *.* TO " US ";"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        kit_case_run(&cases[i], kit_ask);
}

#define LEASES "RIGHT(TABLE_NAME,6)='_lease'"
#define COLUMNS_OF "IN ('generation','holder','taken') AND TABLE_SCHEMA="

/* What takes a privilege from another world of the account gives it back, or is not said at all. */
static void test_other_worlds(void **state)
{
    (void)state;
    struct check c;
    kit_config();
    kit_sound_server(MARIA);
    script(LEASES, "game\tworldkeeper_lease\ngame2\tother_lease\nshop\tcar_lease");
    script(COLUMNS_OF "'game'", "3");
    script(COLUMNS_OF "'game2'", "3");
    script(COLUMNS_OF "'shop'", "1");
    script("TRIGGER_SCHEMA='game2'", TRIGGER("t1", "bag", "ann@%"));
    script("SELECT @@global.log_bin_trust_function_creators", "0");
    script("SHOW GRANTS", "GRANT ALL PRIVILEGES ON *.* TO " US);
    c = kit_check();
    kit_ask(&c);
    kit_expect(&c, CHECK_WARN, "rights", "other worlds",
               "REVOKE ALL PRIVILEGES ON *.* FROM " US ";");
    kit_expect(&c, CHECK_WARN, "rights", "",
               "LOCK TABLES, CREATE TEMPORARY TABLES, TRIGGER, SHOW VIEW, EVENT "
               "ON `game2`.* TO " US ";");
    kit_expect(
        &c, CHECK_WARN, "rights", "",
        "GRANT REPLICATION SLAVE, BINLOG MONITOR, BINLOG ADMIN, SUPER, SET USER ON *.* TO " US ";");
    assert_false(kit_said(&c, CHECK_WARN, "rights", NULL, "`shop`"));
    kit_check_free(&c);

    script("SHOW GRANTS", "GRANT SUPER, BINLOG ADMIN, SET USER ON *.* TO " US
                          "\nGRANT " KIT_SCHEMA_RIGHTS " ON `game2`.* TO " US "\n" OURS);
    c = kit_check();
    kit_ask(&c);
    assert_false(kit_said(&c, CHECK_WARN, "rights", "superfluous", NULL));
    kit_check_free(&c);

    /* The GRANT for the other world hides a row that stays, so it repeats what that one gives. */
    script("SHOW GRANTS", "GRANT ALL PRIVILEGES ON *.* TO " US
                          "\nGRANT SELECT, DELETE ON `g_me2`.* TO " US "\n" OURS);
    c = kit_check();
    kit_ask(&c);
    kit_expect(&c, CHECK_WARN, "rights", "other worlds", "EVENT, DELETE ON `game2`.* TO " US ";");
    kit_check_free(&c);
    script("SHOW GRANTS", "GRANT ALL PRIVILEGES ON *.* TO " US
                          "\nGRANT ALL PRIVILEGES ON `g_me2`.* TO " US "\n" OURS);
    c = kit_check();
    kit_ask(&c);
    assert_false(kit_said(&c, CHECK_WARN, "rights", NULL, "ON `game2`"));
    kit_check_free(&c);
}

/* None of these is superfluous where something needs it. */
static void test_not_too_much(void **state)
{
    (void)state;
    static const struct {
        enum kind kind;
        const char *grants;
        void (*change)(void);
    } cases[] = {
        {MARIA, OURS, NULL},
        {MARIA, "GRANT SELECT ON `mysql`.`proc` TO " US "\n" OURS, NULL},
        {MARIA, "GRANT SUPER ON *.* TO " US "\n" OURS, log_strict},
        {MARIA, "GRANT SET USER ON *.* TO " US "\n" OURS, hers},
        {MARIA, "GRANT BINLOG ADMIN ON *.* TO " US "\n" OURS, unlogged},
        {MYSQL_9, "GRANT SESSION_VARIABLES_ADMIN ON *.* TO " US "\n" OURS, unlogged},
        {MYSQL_9,
         "GRANT SET_ANY_DEFINER,SYSTEM_USER,ALLOW_NONEXISTENT_DEFINER ON *.* TO " US "\n" OURS,
         roots},
        {MYSQL_9, "GRANT SHOW_ROUTINE ON *.* TO " US "\n" OURS, NULL},
        {MARIA, "GRANT DELETE ON `worldkeeper\\_drill\\_game1`.* TO " US "\n" OURS, NULL},
        {MARIA, "GRANT PROXY ON ''@'%' TO " US " WITH GRANT OPTION\n" OURS, NULL},
        {MARIA, "GRANT `r1` TO " US "\nGRANT USAGE ON *.* TO `r1`\n" OURS, NULL},
        {MARIA, "GRANT DELETE ON `test`.* TO PUBLIC\n" OURS, NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        kit_config();
        kit_sound_server(cases[i].kind);
        script("SHOW GRANTS", cases[i].grants);
        if (cases[i].change)
            cases[i].change();
        struct check c = kit_check();
        kit_ask(&c);
        if (kit_said(&c, CHECK_WARN, "rights", "superfluous", NULL) ||
            kit_said(&c, CHECK_NOTE, "rights", "more than needed", NULL))
            fail_msg("superfluous: %s", cases[i].grants);
        assert_false(kit_said(&c, CHECK_NOTE, "account", "not active", NULL));
        kit_check_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_needed),       cmocka_unit_test(test_triggers),
        cmocka_unit_test(test_nice_to_have), cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_not_too_much), cmocka_unit_test(test_other_worlds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
