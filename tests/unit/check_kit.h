/* A set-up for the parts of --check: a config, a server that is all right, and what they said. */
#ifndef WK_TESTS_CHECK_KIT_H
#define WK_TESTS_CHECK_KIT_H

#include "check/rule.h"
#include "check/rules_privileges.h"
#include "check/rules_schema.h"
#include "check/rules_server.h"
#include "fake_clock.h"
#include "scripted_server.h"

/* What the lists of tables and of columns are asked by, and rows of them. */
#define ALL_TABLES "ENGINE IS NOT NULL ORDER BY BINARY TABLE_NAME"
#define OWN_TABLES "= 'worldkeeper_tmp_' ORDER BY BINARY TABLE_NAME"
#define ALL_COLUMNS "ORDER BY BINARY TABLE_NAME, ORDINAL_POSITION"
#define BAG "bag\tMEMORY\t\\N\t10\t1000\t200\t16000000\t100"
#define BAG_KEYED "bag\tid\tint(11)\t\t0\tPRI\t\\N"
#define BAG_BARE "bag\tid\tint(11)\t\t0\t\t\\N"
#define UP "\t0\t1700000000.0" /* since, by the server's clock */

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum kind { MARIA, MYSQL_9, MYSQL_8, MARIA_11, MARIA_10_5 };

static struct config kit_cfg;
static char kit_host[] = "localhost", kit_user[] = "keeper", kit_schema[] = "game",
            kit_name[] = "game1", kit_sentinel[] = "worldkeeper", kit_none[] = "/nonexistent/wk";

#define KIT_SCHEMA_RIGHTS                                                                          \
    "SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES, CREATE TEMPORARY TABLES, TRIGGER, " \
    "SHOW VIEW, EVENT"

static inline void kit_config(void)
{
    kit_cfg = (struct config){.name = kit_name,
                              .schema = kit_schema,
                              .sentinel = kit_sentinel,
                              .dump_dir = kit_none,
                              .journal_dir = kit_none,
                              .dump_level = 1,
                              .dump_interval = 60000,
                              .probe_timeout = 5000,
                              .max_dump_age = 3600000,
                              .restore_binlog = true,
                              .retention = {.keep_last = 1}};
    kit_cfg.mysql = (struct config_mysql){.host = kit_host, .port = 3306, .user = kit_user};
}

static inline void kit_sound_server(enum kind kind)
{
    static const char *const versions[] = {[MARIA] = "10.11.19-MariaDB-log",
                                           [MYSQL_9] = "9.7.4",
                                           [MYSQL_8] = "8.0.25",
                                           [MARIA_11] = "11.8.9-MariaDB",
                                           [MARIA_10_5] = "10.5.29-MariaDB"};
    static char id[128];
    snprintf(id, sizeof id, "1700000000\tdb1\t/var/lib/mysql/\t%s" UP, versions[kind]);
    script_reset();
    scripted_server.version = versions[kind];
    script("VARIABLE_NAME='Uptime'", id);
    script("SELECT CURRENT_USER()", "keeper@localhost\t0");
    script("SELECT UNIX_TIMESTAMP(NOW(6))", "1770000000.0");
    script("SELECT @@global.max_heap_table_size", "16777216");
    script("SELECT @@global.max_allowed_packet", "16777216");
    script("SELECT @@global.log_bin", "1");
    script("SELECT @@global.server_id", "1");
    script("SELECT @@global.binlog_format", "ROW");
    script("SELECT @@global.binlog_row_image", "FULL");
    script("SELECT @@global.log_bin_trust_function_creators", "1");
    script("SELECT @@global.local_infile", "1");
    script("SELECT @@lower_case_table_names", "0");
    script("SELECT @@global.max_prepared_stmt_count", "16382");
    script("SHOW GRANTS",
           "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `keeper`@`localhost`"
           "\nGRANT " KIT_SCHEMA_RIGHTS " ON `game`.* TO `keeper`@`localhost`");
    script("FROM information_schema.SCHEMATA", "1");
    script("SELECT nonce, generation, dump FROM `game`.`worldkeeper`",
           "0123456789abcdef0123456789abcdef\t3\td");
    script("SELECT generation FROM `game`.`worldkeeper_lease`", "3");
    script(kind == MYSQL_9 ? "SHOW BINARY LOG STATUS" : "SHOW MASTER STATUS", "bin.000001\t4\t\t");
    /* What --check proves ends so where the privilege is there. */
    script_error("SET NEW.worldkeeper_no_such_column=1", 1054);
    fake_wall_ms = 1770000000000;
}

static inline struct check kit_check(void)
{
    return check_begin(&kit_cfg, HINT_HERE);
}

static inline void kit_check_free(struct check *c)
{
    check_free(c);
}

/* All that asks the server, as check_run() does it. */
static inline void kit_ask(struct check *c)
{
    check_connect(c, NULL);
    assert_non_null(c->db);
    check_load_world(c);
    check_privileges(c);
    check_world(c);
    check_server(c);
}

static inline const char *kit_key(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* Is there a finding of that name and level with these words in it (NULL: any), and as a hint? */
static inline bool kit_said(const struct check *c, enum check_level level, const char *name,
                            const char *text, const char *hint)
{
    static const char *const words[] = {"ok", "note", "warn", "fail"};
    size_t i;
    json_t *o;
    json_array_foreach(c->list, i, o) if (strcmp(kit_key(o, "name"), name) == 0 &&
                                          strcmp(kit_key(o, "level"), words[level]) == 0 &&
                                          (!text || strstr(kit_key(o, "text"), text)) &&
                                          (!hint || strstr(kit_key(o, "hint"), hint))) return true;
    return false;
}

static inline void kit_expect(const struct check *c, enum check_level level, const char *name,
                              const char *text, const char *hint)
{
    size_t i;
    json_t *o;
    struct buf all = {0};
    if (kit_said(c, level, name, text, hint))
        return;
    json_array_foreach(c->list, i, o) if (strcmp(kit_key(o, "name"), name) == 0) buf_printf(
        &all, "\n%s: %s (%s)", kit_key(o, "level"), kit_key(o, "text"), kit_key(o, "hint"));
    fail_msg("%s: \"%s\" (%s) was not said, but:%s", name, text ? text : "", hint ? hint : "",
             all.p ? all.p : "");
}

/* What a case of a table leaves out is zero. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* One question answered otherwise than by the sound server, and what is to be said then. */
struct kit_case {
    enum kind kind;
    const char *ask, *rows;
    unsigned num; /* instead of rows: this error */
    enum check_level level;
    const char *name, *text, *hint;
    const char *ask2, *rows2;
    void (*change)(void); /* of kit_cfg */
};

static inline void kit_case_run(const struct kit_case *k, void (*run)(struct check *))
{
    kit_config();
    kit_sound_server(k->kind);
    if (k->ask && k->num)
        script_error(k->ask, k->num);
    else if (k->ask)
        script(k->ask, k->rows);
    if (k->ask2)
        script(k->ask2, k->rows2);
    if (k->change)
        k->change();
    struct check c = kit_check();
    run(&c);
    kit_expect(&c, k->level, k->name, k->text, k->hint);
    kit_check_free(&c);
}

#endif
