#include "check/rules_ledgers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "check/rule.h"
#include "ledger/ledger.h"
#include "ledger/sql.h"
#include "sql/literal.h"
#include "sql/table.h"

/* These rules run once per ledger. Each text begins with the ledger's name. */
static const struct check_rule rules[] = {
    {"ledger", "ledger_error", CHECK_FAIL, "{ledger_error}", "{ledger_hint}"},
    {"ledger", "no_skip_locked", CHECK_FAIL,
     "[ledger {ledger}]: this server has no SKIP LOCKED, which rolling up an InnoDB table needs",
     "use MariaDB 10.6 or MySQL 8.0, or newer; or a MEMORY ledger"},
    {"ledger", "innodb_ledger @log_bin @binlog_format=STATEMENT", CHECK_FAIL,
     "[ledger {ledger}]: with binlog_format = STATEMENT the server refuses READ COMMITTED, which "
     "rolling up an InnoDB table needs",
     DB_SET_FOR_GOOD("binlog_format", "ROW"), true},
    {"ledger", "left_behind", CHECK_WARN,
     "[ledger {ledger}]: table {table:name} is durable, so it does not go to the other machine: "
     "after a promotion, the totals there lack the rows that were not rolled up",
     "a shorter rollup_after makes these fewer, and a MEMORY ledger goes with the world: see "
     "MEMORY OR INNODB in worldkeeper-ledger(7)",
     true},
    {"ledger", "missing", CHECK_FAIL, "[ledger {ledger}]: missing: {missing}",
     "worldkeeper --init creates what is missing", true},
    {"ledger", "!index !innodb_ledger", CHECK_FAIL,
     "[ledger {ledger}]: table {table:name} has no BTREE index that begins with the key and ends "
     "with the id: it cannot be rolled up, and each total reads the whole table",
     "{add_index};", true},
    {"ledger", "!index", CHECK_WARN,
     "[ledger {ledger}]: table {table:name} has no index that begins with the key and ends with "
     "the id: each total of one key reads the whole table",
     "{add_index};", true},
    {"ledger", "nullable", CHECK_WARN,
     "[ledger {ledger}]: columns of table {table:name} that may be NULL: {nullable}. A row with "
     "NULL there makes each run fail",
     "{not_null};", true},
    {"ledger", "request_not_unique", CHECK_FAIL,
     "[ledger {ledger}]: column {request:name} has no unique key of its own: a repeated insert is "
     "not refused while the first row is in the ledger",
     "ALTER TABLE {table:name} ADD UNIQUE KEY ({request:name});", true},
    {"ledger", "trigger_unsafe", CHECK_WARN,
     "[ledger {ledger}]: trigger {ledger}_request, as an older version made it, also reads a view "
     "in "
     "the place of table {ledger}_request: its functions would run with worldkeeper's privileges",
     "worldkeeper --init creates it again", true},
    {"ledger", "deleting", CHECK_WARN,
     "[ledger {ledger}]: triggers that run when rows of table {table:name} are deleted or updated: "
     "{deleting}. A rollup deletes rows, which fires those on DELETE; rows of a ledger are not "
     "updated",
     "drop these triggers, or make sure that they do no harm; see Rules of a ledger in "
     "worldkeeper-ledger(7)",
     true},
    {"ledger", "definer_views", CHECK_WARN,
     "[ledger {ledger}]: views that read with the privileges of their definer: {definer_views}",
     "worldkeeper --init creates them again, with the privileges of the reader", true},
    {"ledger", "levels_error", CHECK_FAIL,
     "[ledger {ledger}]: table {levels:name} has no columns level and amount: {levels_error}",
     "see worldkeeper-ledger(7)", true},
    {"ledger", "no_levels", CHECK_FAIL,
     "[ledger {ledger}]: table {levels:name} has no row: no key has a level",
     "INSERT INTO {levels:name} (level,amount) VALUES (1,100);", true},
    {"ledger", "double_level", CHECK_FAIL,
     "[ledger {ledger}]: table {levels:name} has more than one row of level {double_level}",
     "ALTER TABLE {levels:name} ADD PRIMARY KEY (level);", true},
    {"ledger", "level_gap", CHECK_WARN,
     "[ledger {ledger}]: table {levels:name} has levels from {first_level} to {last_level} with "
     "gaps: "
     "a missing level is skipped",
     "INSERT the rows that are missing", true},
    {"ledger", "levels first_odd", CHECK_WARN,
     "[ledger {ledger}]: the first level of table {levels:name} is {first_level}: a key without "
     "any amount is in that level",
     "INSERT the levels before it, from 1 on", true},
    {"ledger", "bad_amount", CHECK_WARN,
     "[ledger {ledger}]: the amount of level {bad_amount} in table {levels:name} is NULL before "
     "the last level, or not above 0",
     "UPDATE {levels:name} SET amount=… WHERE level={bad_amount};", true},
    {"ledger", "begin_again", CHECK_FAIL,
     "[ledger {ledger}]: the ids of table {table:name} start again: the next id is {next_id}, but "
     "ids up to {last_id} were already rolled up; new rows up to that id are in no total",
     "worldkeeper --rollup={ledger} prints the statements to type", true},
    {"ledger", "ignored", CHECK_WARN,
     "[ledger {ledger}]: the last run found {ignored:count} rows of table {table:name} with ids "
     "that were already rolled up for their keys: these rows are in no total",
     "insert them again without their ids, then delete the old ones: worldkeeper-ledger(7)", true},
    {"ledger", "nearly_full", CHECK_WARN,
     "[ledger {ledger}]: table {table:name} takes {size:size} of the {room:size} that it may take: "
     "when it is full, inserts of the game fail",
     "set a shorter rollup_after, run worldkeeper --rollup={ledger}, or use a larger "
     "max_heap_table_size and ALTER TABLE {table:name} ENGINE=MEMORY",
     true},
    {"ledger", "mixed @innodb_flush_log_at_trx_commit=0", CHECK_FAIL,
     "[ledger {ledger}]: table {ledger}_rollup is durable, but the server writes its log once a "
     "second (innodb_flush_log_at_trx_commit = 0): a crash can undo totals whose rows are already "
     "deleted",
     DB_SET_FOR_GOOD("innodb_flush_log_at_trx_commit", "1"), true},
    {"ledger", "mixed @innodb_flush_log_at_trx_commit=2", CHECK_WARN,
     "[ledger {ledger}]: table {ledger}_rollup is durable, but the server does not sync its log at "
     "each commit (innodb_flush_log_at_trx_commit = 2): a crash of the machine can undo totals "
     "whose rows are already deleted",
     DB_SET_FOR_GOOD("innodb_flush_log_at_trx_commit", "1"), true},
    {"ledger", "forgets", CHECK_WARN,
     "[ledger {ledger}]: table {ledger}_rollup is durable, {ledger}_request is not, and there is "
     "no journal: after a restart of the server the request ids of rows that were rolled up since "
     "the last dump are gone, and a repetition of such a request counts twice",
     "see the finding \"journal\": with a journal, a restore brings these request ids back", true},
    {"ledger", "mixed", CHECK_NOTE,
     "[ledger {ledger}]: table {table:name} is in MEMORY and {ledger}_rollup is durable: a "
     "transaction under REPEATABLE READ sees the rollup as of its beginning, so its totals miss "
     "what was rolled up since",
     "read totals outside transactions, or under READ COMMITTED", true},
    {"ledger", "innodb_ledger dirty", CHECK_WARN,
     "[ledger {ledger}]: sessions begin with READ UNCOMMITTED: a total that is read during a run "
     "may "
     "count rows twice",
     "SET GLOBAL {isolation}='READ-COMMITTED', and transaction-isolation = READ-COMMITTED under "
     "[mysqld] in the server's my.cnf, or the next restart of the server undoes it",
     true},
    {"ledger", "!found", CHECK_OK,
     "[ledger {ledger}]: {ledger_rows:count} rows in table {table:name}; an account that reads "
     "{ledger}_total needs SELECT on {reads}"},
};

/* Sets a word to one value queried from the world's schema, or to "" if there is no value or the
 * query fails. */
static void rules_ledgers_ask(struct check *c, const char *name, const char *sql,
                              const char *const *args)
{
    SCOPED(xfree) char *s = db_one_with(c->db, sql, args, NULL);
    check_word(c, name, "%s", s ? s : "");
}

/* Sets the words for the statements in hints, and whether these statements are needed. */
static void column_facts(struct check *c, const struct ledger *l)
{
    SCOPED(buf_free) struct buf nullable = {0}, alter = {0}, add = {0};
    SCOPED(xfree) struct sql_column *changed = xcalloc(ledger_columns(l), sizeof *changed);
    struct sql_table modify = {.columns = changed};
    for (unsigned i = 0; i < ledger_columns(l); i++) {
        const struct sql_column *is = sql_table_column(&l->def, ledger_column(l, i)->name);
        if (!is || is->not_null)
            continue;
        struct sql_column *column = &changed[modify.column_count++];
        *column = *is; /* MODIFY removes every attribute that it does not repeat */
        column->not_null = true;
        column->null = false;
        if (column->fallback && strcasecmp(column->fallback, "NULL") == 0)
            column->fallback = NULL;
        buf_printf(&nullable, "%s%s", nullable.len ? ", " : "", is->name);
    }
    sql_fill(&alter, "ALTER TABLE ??", DB_ARGS(l->cfg->table));
    sql_alter_write(&alter, &modify, &(struct sql_table_how){.mariadb = db_is_mariadb(c->db)});
    ledger_sql_index(&add, l);
    check_word(c, "nullable", "%s", nullable.len ? nullable.p : "");
    check_word(c, "not_null", "%s", alter.p);
    check_word(c, "add_index", "%s", add.p);
    check_fact(c, "index", l->index != NULL);
}

/* Sets a word to one value of information_schema about the ledger's table, or to "" if there is
 * none. */
static int request_ask(struct check *c, const struct ledger *l, const char *name, const char *sql,
                       const char *const *args, struct err *e)
{
    SCOPED(xfree) char *s = db_one_settled(c->db, l->schema, l->cfg->table, sql, args, e);
    check_word(c, name, "%s", s ? s : "");
    return e->cls == ERR_NONE ? 0 : -1;
}

/* While a row is in the ledger, its unique key rejects a repeated request. Afterwards the trigger
 * rejects it. `trigger`: why the trigger is refused; ERR_NONE: it is right. */
static int request_facts(struct check *c, const struct ledger *l, struct err *trigger,
                         struct err *e)
{
    const char *schema = l->schema, *table = l->cfg->table;
    bool unsafe = false;
    int rc = ledger_check_trigger(c->db, l, &unsafe, trigger);
    check_word(c, "request", "%s", l->request ? l->request->name : "");
    check_fact(c, "request_not_unique", false);
    check_fact(c, "trigger_unsafe", unsafe);
    if (rc < 0 && trigger->cls != ERR_REFUSED)
        return err_pass(e, trigger);
    if (l->request) {
        if (request_ask(
                c, l, "unique_keys",
                "SELECT COUNT(*) y FROM (SELECT INDEX_NAME FROM information_schema.STATISTICS "
                "WHERE TABLE_SCHEMA=? AND TABLE_NAME=? AND NON_UNIQUE=0 GROUP BY INDEX_NAME HAVING "
                "COUNT(*)=1 AND COUNT(SUB_PART)=0 AND LOWER(MAX(COLUMN_NAME))=LOWER(?)) z",
                DB_ARGS(schema, table, l->request->name), e) < 0)
            return -1;
        check_fact(c, "request_not_unique", !check_is(c, "unique_keys"));
    }
    return request_ask(
        c, l, "deleting",
        "SELECT GROUP_CONCAT(TRIGGER_NAME SEPARATOR ', ') y FROM information_schema.TRIGGERS WHERE "
        "EVENT_OBJECT_SCHEMA=? AND EVENT_OBJECT_TABLE=? AND EVENT_MANIPULATION<>'INSERT'",
        DB_ARGS(schema, table), e);
}

/* The table of levels belongs to the game. Errors in it affect only the view of levels. */
static void level_facts(struct check *c, const struct ledger *l)
{
    static const char *const names[] = {"levels_error", "no_levels",  "double_level", "level_gap",
                                        "first_level",  "last_level", "bad_amount",   "first_odd"};
    const char *levels = l->cfg->levels;
    struct err e = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_word(c, names[i], "%s", "");
    check_word(c, "levels", "%s", levels ? levels : "");
    if (!levels)
        return;
    struct db_rows *r = db_select_with(
        c->db, "nTTn",
        "SELECT COUNT(*),MIN(level),MAX(level),COALESCE(MAX(level)-MIN(level)+1<>COUNT(*),0) FROM "
        "??.?? " DB_ONLY_TABLE " WHERE amount IS NULL OR amount=amount",
        DB_ARGS(l->schema, levels), &e);
    if (db_next(r, &e) == 1) {
        check_fact(c, "no_levels", db_uint(r, 0) == 0);
        check_word(c, "first_level", "%s", db_text(r, 1));
        check_word(c, "last_level", "%s", db_text(r, 2));
        check_fact(c, "level_gap", db_uint(r, 3) != 0);
    }
    db_rows_end(r);
    check_word(c, "levels_error", "%s", e.text);
    if (e.cls != ERR_NONE)
        return;
    int64_t first = check_value(c, "first_level");
    check_fact(c, "first_odd", !check_is(c, "no_levels") && first != 0 && first != 1);
    rules_ledgers_ask(c, "double_level",
                      "SELECT level FROM ??.?? " DB_ONLY_TABLE
                      " GROUP BY level HAVING COUNT(*)>1 ORDER BY level LIMIT 1",
                      DB_ARGS(l->schema, levels));
    rules_ledgers_ask(
        c, "bad_amount",
        "SELECT a.level FROM ??.?? a " DB_ONLY_TABLE
        " WHERE a.amount<=0 OR (a.amount IS NULL AND a.level<(SELECT MAX(b.level) FROM ??.?? "
        "b " DB_ONLY_TABLE ")) ORDER BY a.level LIMIT 1",
        DB_ARGS(l->schema, levels, l->schema, levels));
}

/* Returns whether a loss would forget request ids of rows whose totals it leaves. */
static bool forgets_requests(struct check *c, const struct ledger *l)
{
    struct db_tables t = {0};
    struct err e;
    bool journal = c->cfg->journal != JOURNAL_OFF && check_is(c, "@log_bin");
    if (!l->request || !l->made || l->rollup.memory || journal ||
        db_table_named(c->db, l->schema, LEDGER_OWN(l->cfg, "request"), &t, &e) < 0)
        return false;
    bool forgets = t.count > 0 && t.list[0].memory;
    db_tables_free(&t);
    return forgets;
}

/* Sets the facts that can be read only after the ledger's own tables were created. */
static void rollup_facts(struct check *c, const struct ledger *l)
{
    check_word(c, "last_id", "%s", "");
    check_word(c, "ignored", "%s", "");
    if (l->made) {
        rules_ledgers_ask(c, "last_id", "SELECT MAX(end_id) FROM ??.?? " DB_ONLY_TABLE,
                          DB_ARGS(l->schema, LEDGER_OWN(l->cfg, "rollup")));
        rules_ledgers_ask(c, "ignored",
                          "SELECT id FROM ??.?? " DB_ONLY_TABLE " WHERE what='ignored'",
                          DB_ARGS(l->schema, LEDGER_OWN(l->cfg, "mark")));
    }
    check_fact(c, "mixed", l->memory && l->made && !l->rollup.memory);
    check_fact(c, "forgets", forgets_requests(c, l));
    check_number(c, "next_id", (int64_t)l->next_id);
    check_fact(c, "begin_again",
               l->memory && check_is(c, "last_id") &&
                   (int64_t)l->next_id <= check_value(c, "last_id"));
    rules_ledgers_ask(
        c, "definer_views",
        "SELECT GROUP_CONCAT(TABLE_NAME SEPARATOR ', ') FROM information_schema.VIEWS WHERE "
        "TABLE_SCHEMA=? AND TABLE_NAME IN (?,?) AND SECURITY_TYPE='DEFINER'",
        DB_ARGS(l->schema, LEDGER_OWN(l->cfg, "total"), LEDGER_OWN(l->cfg, "level")));
}

/* Without SKIP LOCKED, a rollup would wait for rows that the game has locked. */
static void rules_ledgers_table_facts(struct check *c, const struct ledger *l)
{
    const struct db_table *t = &l->table;
    const char *isolation = server_word(c->version, WORD_ISOLATION);
    SCOPED(xfree) char *level = db_one_with(c->db, "SELECT @@global.$", DB_ARGS(isolation), NULL);
    check_word(c, "table", "%s", t->name);
    check_number(c, "ledger_rows", (int64_t)t->rows);
    check_word(c, "reads", "%s, %s_rollup%s%s", t->name, l->cfg->name, l->cfg->levels ? ", " : "",
               l->cfg->levels ? l->cfg->levels : "");
    check_fact(c, "innodb_ledger", !l->memory);
    check_fact(c, "left_behind", !l->memory && c->cfg->standby.given && !c->cfg->dump_all);
    check_fact(c, "no_skip_locked", !l->memory && !server_word(c->version, WORD_SKIP_LOCKED));
    check_fact(c, "nearly_full", check_table_size(c, t, "size", "room"));
    check_word(c, "isolation", "%s", isolation);
    check_fact(c, "dirty", level && strcmp(level, "READ-UNCOMMITTED") == 0);
}

void check_ledgers(struct check *c)
{
    for (unsigned i = 0; i < c->cfg->ledger_count; i++) {
        struct ledger l = {0};
        struct err e = {0}, trigger = {0};
        check_word(c, "ledger", "%s", c->cfg->ledgers[i].name);
        if (ledger_open(c->db, c->cfg->schema, &c->cfg->ledgers[i], &l, &e) == 0 &&
            request_facts(c, &l, &trigger, &e) == 0) {
            column_facts(c, &l);
            level_facts(c, &l);
            rollup_facts(c, &l);
            rules_ledgers_table_facts(c, &l);
            json_auto_t *missing = json_array();
            ledger_missing(c->db, &l, missing, &e);
            check_list(c, "missing", missing);
            if (e.cls == ERR_NONE)
                ledger_check_view(c->db, &l, &e);
            if (e.cls == ERR_NONE && json_array_size(missing) == 0)
                e = trigger;
        }
        check_error(c, "ledger", &e);
        CHECK_RULES(c, rules);
        ledger_close(&l);
    }
}
