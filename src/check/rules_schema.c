#include "check/rules_schema.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "bulk/bulk.h"
#include "check/rule.h"
#include "check/rules_privileges.h"
#include "dump/snapshot.h"
#include "mysql/lease.h"
#include "mysql/sentinel.h"
#include "restore/load_pool.h"
#include "restore/rename.h"
#include "restore/restore.h"
#include "sql/literal.h"
#include "sql/table.h"

/* ---- facts that other parts use too ---- */

void check_load_world(struct check *c)
{
    struct err ignored;
    struct db_triggers *t = &c->triggers, rest = {0};
    c->tables_known = db_tables(c->db, c->cfg->schema, true, &c->tables, &ignored) == 0;
    for (size_t i = c->tables.count; i-- > 0;)
        if (db_sentinel_own(c->cfg->sentinel, c->tables.list[i].name))
            db_tables_remove(&c->tables, &c->tables.list[i]);
    for (size_t i = 0; i < c->tables.count; i++)
        if (c->tables.list[i].memory) {
            const struct db_table *on = &c->tables.list[i];
            c->memory_data = number_sum(c->memory_data, on->data_length);
            c->memory_bytes = number_sum(c->memory_bytes, db_table_bytes(on));
        }
    /* Only triggers on tables that a restore replaces are moved to the new tables. */
    if (db_triggers(c->db, c->cfg->schema, t, &ignored) == 0) {
        size_t all = t->count;
        rest.list = xcalloc(all, sizeof *rest.list);
        t->count = 0;
        for (size_t i = 0; i < all; i++) {
            const struct db_table *on = db_table_find(&c->tables, t->list[i].table);
            if (on && (on->memory || c->cfg->restore_all))
                t->list[t->count++] = t->list[i];
            else
                rest.list[rest.count++] = t->list[i];
        }
        db_triggers_free(&rest);
    }
    check_add_world(c, c->cfg->schema);
    check_add_leases(c);
}

/* ---- sentinel and lease ---- */

/* The row is lost at a server restart. A missing table does not prove a loss: rows in other tables
 * may have been inserted by hand. */
static const struct check_rule sentinel[] = {
    /* The order is from a missing table to a row that belongs to another world. */
    {"sentinel", "sentinel_gone standby_here", CHECK_OK, "a standby has none until it is promoted"},
    {"sentinel", "sentinel_gone !known_before", CHECK_FAIL, "{sentinel_gone} does not exist",
     "worldkeeper --init creates it"},
    {"sentinel", "sentinel_gone !restarted", CHECK_FAIL,
     "{sentinel_gone} was removed; the server was not restarted since the world was last seen",
     "if the world's tables are complete, recreate it: worldkeeper --init; if not: worldkeeper "
     "--restore --force"},
    {"sentinel", "sentinel_gone table_gone holds_rows", CHECK_FAIL,
     "{sentinel_gone} is missing, but other tables hold rows",
     "if these tables are the world, created manually: worldkeeper --init --force; if the world "
     "was lost: worldkeeper --restore"},
    {"sentinel", "sentinel_gone elsewhere", CHECK_FAIL,
     "{sentinel_gone} is missing: this is another database server than before, without the world",
     "if the game has moved to this server: worldkeeper --restore; if not, correct [mysql] in the "
     "config"},
    {"sentinel", "sentinel_gone table_gone !restore.new_server", CHECK_FAIL,
     "{sentinel_gone} is missing: the server was restarted and the world is lost",
     "worldkeeper --restore brings it back"},
    {"sentinel", "sentinel_gone", CHECK_FAIL,
     "{sentinel_gone} is missing: the server was restarted and the world is lost",
     "worldkeeper --restore brings it back; a running supervisor does so automatically"},
    {"sentinel", "sentinel_foreign", CHECK_FAIL,
     "table {probe.table} exists, but is not a sentinel of worldkeeper",
     "choose another name in [probe] table"},
    {"sentinel", "sentinel_error", CHECK_FAIL, "{sentinel_error}", "{sentinel_hint}"},
    {"sentinel", "sentinel_many", CHECK_FAIL,
     "table {probe.table} has more than one row; it is not a sentinel of worldkeeper",
     "choose another name in [probe] table"},
    {"sentinel", "sentinel_engine", CHECK_FAIL,
     "its table is of engine {sentinel_engine} instead of MEMORY: its row survives a loss and "
     "proves nothing",
     "if the world exists: ALTER TABLE {world.schema:name}.{probe.table:name} ENGINE=MEMORY;"},
    {"sentinel", "!nonce_known", CHECK_FAIL,
     "its nonce is unknown here: another worldkeeper restored or adopted this world",
     "find that worldkeeper; if it no longer exists, adopt the world as it is now: worldkeeper "
     "--init --force"},
    {"sentinel", NULL, CHECK_OK,
     "{probe.table} has this world's row, generation {sentinel_generation:count}"},

    /* The lease survives restarts. A generation above ours comes from another restore. */
    {"lease", "lease_error", CHECK_FAIL, "{lease_error}", "{lease_hint}"},
    {"lease", "!lease standby_here", CHECK_OK, "a standby has none until it is promoted"},
    {"lease", "!lease", CHECK_FAIL, "table {probe.table}_lease or its row does not exist",
     "worldkeeper --init creates it"},
    {"lease", "lease_ahead", CHECK_WARN,
     "generation {lease}, but the dumps here are of generation {dump_generation}: another "
     "worldkeeper also restores this world"},
    {"lease", NULL, CHECK_OK, "{probe.table}_lease, generation {lease}"},
};

/* What a missing sentinel means depends on what was known of the world before. */
static void sentinel_facts(struct check *c)
{
    const struct catalog_entry *last = catalog_newest(&c->catalog, 0);
    const struct server_id *before = c->state.known ? &c->state.server
                                     : last         ? &last->m.server
                                                    : NULL;
    bool rows = false;
    for (size_t i = 0; i < c->tables.count; i++)
        rows |= c->tables.list[i].memory && c->tables.list[i].rows > 0;
    check_fact(c, "known_before", before && before->start != 0);
    check_fact(c, "restarted", before && server_restarted(&c->server, before));
    check_fact(c, "elsewhere",
               before && before->datadir[0] && !server_same_place(&c->server, before));
    check_fact(c, "holds_rows", rows);
    /* Without dumps this may also be the machine on which the world will start. */
    check_fact(c, "standby_here",
               state_standby(&c->state, c->cfg) &&
                   (c->state.role == ROLE_STANDBY || c->catalog.count > 0));

    struct err e = {0};
    struct db_sentinel s = {0};
    char engine[65] = "";
    bool read = db_sentinel_read(c->db, c->cfg->schema, c->cfg->sentinel, &s, &e) == 0;
    check_error(c, "sentinel", &e);
    bool table_gone = !read && db_table_missing(&e), row_gone = read && s.rows == 0;
    check_fact(c, "table_gone", table_gone);
    check_word(c, "sentinel_gone", table_gone ? "its table" : row_gone ? "its row" : "");
    check_fact(c, "sentinel_foreign", !read && e.num == 1054); /* unknown column */
    check_fact(c, "sentinel_many", s.rows > 1);
    if (s.rows != 1 || db_sentinel_durable(c->db, c->cfg->schema, c->cfg->sentinel, engine, &e) < 0)
        engine[0] = '\0';
    check_word(c, "sentinel_engine", "%s", engine);
    /* Without a state and a dump, there is nothing that the nonce could contradict. */
    check_fact(c, "nonce_known",
               (!c->state.known && c->catalog.count == 0) ||
                   (c->state.known && strcmp(c->state.nonce, s.nonce) == 0) ||
                   catalog_knows_nonce(&c->catalog, s.nonce));
    check_number(c, "sentinel_generation", (int64_t)s.generation);

    uint64_t generation = 0;
    err_clear(&e);
    db_lease_read(c->db, c->cfg->schema, c->cfg->sentinel, &generation, &e);
    check_error(c, "lease", &e);
    check_number(c, "lease", (int64_t)generation);
    check_number(c, "dump_generation", (int64_t)c->catalog.generation);
    /* A lease that is one generation ahead is normal: a restore raises the generation before its
     * first dump is written. */
    check_fact(c, "lease_ahead",
               c->catalog.count && generation > c->catalog.generation + 1 &&
                   generation > c->state.generation);
}

/* ---- method and loading ---- */

#define SCANNED "tables are scanned while the game writes"
#define ONE_BY_ONE                                                                                 \
    "tables are copied in the server one by one, a big one in parts, while the game writes; a "    \
    "writer waits for one copy"
#define COPIED                                                                                     \
    "; without a primary key, and therefore copied together under a lock of these tables, which "  \
    "their writers wait for: {copied}"

static const struct check_rule method[] = {
    /* These rules show which method "auto" would choose, and why it does not choose a better
     * one. */
    {"method", "dump.method=copy", CHECK_OK, "copy: set by [dump] method"},
    {"method", "dump.method=lock", CHECK_OK, "lock: set by [dump] method",
     "writers wait for the whole dump; with method = auto they wait less"},
    {"method", "method_error", CHECK_WARN, "cannot be chosen: {method_error}"},
    {"method", "!not_fuzzy mariadb copied", CHECK_OK, "fuzzy: " SCANNED COPIED},
    {"method", "!not_fuzzy mariadb", CHECK_OK, "fuzzy: " SCANNED},
    {"method", "!not_fuzzy copied", CHECK_OK, "fuzzy: " ONE_BY_ONE COPIED},
    {"method", "!not_fuzzy", CHECK_OK, "fuzzy: " ONE_BY_ONE},
    {"method", "dump.method=fuzzy", CHECK_FAIL,
     "[dump] method = fuzzy is not possible: {not_fuzzy}",
     "method = auto uses the best that is possible"},
    {"method", NULL, CHECK_OK,
     "copy: writers wait for a copy in memory; fuzzy, which does not block them, is not possible: "
     "{not_fuzzy}"},

    /* How a restore will load the rows. */
    /* INSERTs take several times as long; local_infile is a server setting. */
    {"loading", "slow_loading mariadb", CHECK_NOTE,
     "a restore sends rows {loading}, over {loaders} at most",
     DB_SET_FOR_GOOD("local_infile", "1") "; worldkeeper never reads "
                                          "a file that a server asks for"},
    {"loading", "slow_loading", CHECK_NOTE,
     "a restore sends rows {loading}, over {loaders} at most",
     "SET PERSIST local_infile=ON; worldkeeper never reads a file that a server asks for"},
    {"loading", NULL, CHECK_OK, "a restore sends rows {loading}, over {loaders} at most"},
};

/* The dump method is chosen as for a dump, and the way of loading as for a restore. */
static void method_facts(struct check *c)
{
    static const char *const ways[] = {
        [DB_BULK_NONE] = "as INSERTs, which take several times as long as necessary",
        [DB_BULK_ARRAY] = "as arrays of binary values",
        [DB_BULK_LOCAL] = "by LOAD DATA LOCAL, fed from memory",
        [DB_BULK_ROWS] = "as prepared INSERTs, which take twice as long as necessary",
    };
    enum config_method m = c->cfg->dump_method;
    enum db_bulk_way way = db_bulk_way(c->db);
    unsigned n = restore_connections(c->cfg->restore_connections, c->tables.count);
    bool given = m == METHOD_COPY || m == METHOD_LOCK;
    SCOPED(names_free) struct names copied = {0};
    struct err e = {0};
    SCOPED(xfree) char *why = given ? NULL : snapshot_no_fuzzy(c->cfg, c->db, &copied, &e);
    check_word(c, "not_fuzzy", "%s", why ? why : "");
    check_names(c, "copied", &copied);
    check_error(c, "method", &e);
    check_word(c, "loading", "%s", ways[way]);
    check_word(c, "loaders", "%u connection%s", n, n == 1 ? "" : "s");
    check_fact(c, "slow_loading", way == DB_BULK_NONE || way == DB_BULK_ROWS);
}

/* ---- tables ---- */

/* Queries for tables that dumps or restores skip or reject. */
#define TABLES(what)                                                                               \
    "SELECT TABLE_NAME FROM information_schema.TABLES WHERE " what " AND TABLE_SCHEMA=?"
#define FOREIGN_KEYS                                                                               \
    "SELECT DISTINCT TABLE_NAME FROM information_schema.TABLE_CONSTRAINTS WHERE "                  \
    "CONSTRAINT_TYPE='FOREIGN KEY' AND TABLE_SCHEMA=?"
#define REFERENCED                                                                                 \
    "SELECT DISTINCT REFERENCED_TABLE_NAME FROM information_schema.KEY_COLUMN_USAGE WHERE "        \
    "REFERENCED_TABLE_NAME IS NOT NULL AND REFERENCED_TABLE_SCHEMA=?"

static const struct check_rule tables[] = {
    /* These rules report what a dump contains, tables that it cannot contain, and tables that a
     * restore cannot swap. */
    {"tables", "!memory_tables dump.engines=memory", CHECK_WARN,
     "the schema holds no MEMORY table: nothing needs worldkeeper", NULL, true},
    {"tables", "!found", CHECK_OK,
     "{memory_tables} of engine MEMORY, {memory_rows:count} rows, {memory_bytes:size}; "
     "{durable_tables} durable{durable_how}",
     NULL, true},
    {"tables", "4999<swap_time", CHECK_WARN,
     "{swapped} tables: the RENAME at the end of a restore takes about {swap_time:time} on this "
     "server, and all users of the world wait",
     "use fewer and larger tables; [restore] stall does not limit this time", true},
    {"tables", "keyless_tables", CHECK_NOTE,
     "without a primary key: {keyless_tables}. The journal follows them by whole rows, which is "
     "exact; equal rows come back in any order",
     NULL, true},
    {"tables", "dump.engines=all restore.scope=all", CHECK_FAIL,
     "with foreign keys, which cannot be swapped: a restore is refused: {names}",
     "[restore] scope = lost; restore such tables with --into, or manually: gunzip -c DUMP | mysql "
     "SCHEMA",
     true, FOREIGN_KEYS},
    {"tables", "dump.engines=all restore.scope=all", CHECK_FAIL,
     "that foreign keys point to: they would point to the old tables after a swap: {names}",
     "[restore] scope = lost", true, REFERENCED},
    {"tables", "!mariadb dump.engines=all restore.scope=all", CHECK_WARN,
     "with generated columns over a TIMESTAMP, which a restore computes again in the time zone "
     "UTC: {names}",
     "after a restore, in a session with the time zone of the game: ALTER TABLE … FORCE, "
     "ALGORITHM=COPY",
     true, DB_ZONED_TABLES},
    {"tables", "dump.engines=all", CHECK_WARN,
     "that are sequences: neither dumped nor restored: {names}", "mysqldump dumps them", true,
     TABLES("TABLE_TYPE='SEQUENCE'")},
    {"tables", "dump.engines=all", CHECK_WARN,
     "with system versioning: their history is not dumped: {names}",
     "mysqldump --dump-history dumps it", true, TABLES("TABLE_TYPE='SYSTEM VERSIONED'")},
    {"tables", NULL, CHECK_FAIL,
     "of engine MEMORY with system versioning: after a change of their rows, dumps fail: {names}",
     "ALTER TABLE … DROP SYSTEM VERSIONING", true,
     TABLES("TABLE_TYPE='SYSTEM VERSIONED' AND ENGINE='MEMORY'")},
    {"tables", "dump.engines=all", CHECK_WARN,
     "whose rows are stored elsewhere (FEDERATED, CONNECT, MERGE …): dumped without rows: {names}",
     "[dump] engines = memory skips them", true,
     TABLES("ENGINE IN ('FEDERATED','CONNECT','SPIDER','MRG_MyISAM','BLACKHOLE')")},
    {"tables", "taken_names", CHECK_FAIL,
     "{taken_names}: names that begin with " DB_OWN_PREFIX
     " are ours: not dumped, and dropped by the next restore",
     "RENAME TABLE to a name that begins with something else", true},

    /* Tables of our own that remained after a process was killed. */
    {"left-overs", "shadows !running", CHECK_NOTE,
     "{shadows} shadow tables of an interrupted restore",
     "the supervisor drops them when it starts, or the next --restore"},
    {"left-overs", "set_aside !running", CHECK_NOTE,
     "{set_aside} tables of the world that this machine kept before --demote: they use memory",
     "the next --promote drops them; a restart of the server empties them (their rows are also in "
     "a conflict file)"},

    /* A server that lost its data directory has no table definitions, so a restore must use those
     * in the dump. */
    {"rebuild", "not_rebuilt", CHECK_WARN,
     "{not_rebuilt} tables cannot be created from a dump on a rebuilt server: {not_rebuilt_why}",
     "keep their definitions elsewhere: mysqldump --no-data {world.schema:shell}; an existing "
     "table is restored whatever its definition"},
};

/* Sets the facts about tables. The journal identifies rows of a table without a key by all columns.
 * A durable table is swapped only with [restore] scope = all. */
static void rules_schema_table_facts(struct check *c)
{
    const struct config *cfg = c->cfg;
    SCOPED(names_free) struct names keyless = {0};
    size_t memory = 0, durable = 0, swapped = 0;
    uint64_t rows = 0;
    for (size_t i = 0; i < c->tables.count; i++) {
        const struct db_table *t = &c->tables.list[i];
        memory += t->memory;
        durable += !t->memory;
        swapped += t->memory || cfg->restore_all;
        rows += t->memory ? t->rows : 0;
        if (t->memory && !t->has_key)
            names_add(&keyless, t->name);
    }
    check_number(c, "memory_tables", (int64_t)memory);
    check_number(c, "memory_rows", (int64_t)rows);
    check_number(c, "memory_bytes", number_signed(c->memory_bytes));
    check_number(c, "durable_tables", (int64_t)durable);
    check_word(c, "durable_how", "%s",
               durable == 0        ? ""
               : !cfg->dump_all    ? ", which are not dumped ([dump] engines = memory)"
               : !cfg->restore_all ? ", dumped but not restored ([restore] scope = lost)"
                                   : ", dumped and restored too");
    check_number(c, "swapped", (int64_t)swapped);
    /* One RENAME swaps all tables, so readers never see a mix of old and new ones. It may take
     * long. */
    check_number(c, "swap_time", restore_swap_estimate(swapped, c->mariadb) / 1000 * 1000);
    check_names(c, "keyless_tables", &keyless);
}

/* Reports table definitions that cannot be taken from a dump. A restore on a rebuilt server needs
 * them, and then it is too late to find out. */
static void rebuild_facts(struct check *c)
{
    size_t refused = 0;
    for (size_t i = 0; i < c->tables.count; i++) {
        const struct db_table *t = &c->tables.list[i];
        struct sql_table read;
        struct err why = {0};
        SCOPED(xfree) char *create = t->memory || c->cfg->dump_all
                                         ? db_create_table(c->db, c->cfg->schema, t->name, NULL)
                                         : NULL;
        bool good = !create || sql_table_read(create, strlen(create), 0, &read, &why) == 0;
        if (create && good)
            sql_table_free(&read);
        if (!good && refused++ == 0)
            check_word(c, "not_rebuilt_why", "%s", why.text);
    }
    check_number(c, "not_rebuilt", (int64_t)refused);
}

/* Matches worldkeeper_tmp_new_000001, …_old_…, …_sentinel and worldkeeper_tmp_swap, and …_aside_…
 * after a --demote. */
static bool is_shadow(const char *name)
{
    static const char *const kinds[] = {"new_", "old_", "copy_", "aside_", NULL};
    const char *rest = name + strlen(DB_OWN_PREFIX);
    for (const char *const *k = kinds; *k; k++)
        if (text_starts(rest, *k)) {
            const char *id = rest + strlen(*k);
            return strcmp(id, "sentinel") == 0 ||
                   (strlen(id) >= 6 && strspn(id, "0123456789") == strlen(id));
        }
    return strcmp(rest, "swap") == 0;
}

/* Finds tables of the game that have our prefix: the next restore would drop them. */
static void own_table_facts(struct check *c)
{
    SCOPED(db_tables_free) struct db_tables own = {0};
    SCOPED(names_free) struct names taken = {0};
    if (db_own_tables(c->db, c->cfg->schema, &own, NULL) < 0)
        return;
    size_t aside = 0;
    for (size_t i = 0; i < own.count; i++)
        if (!is_shadow(own.list[i].name))
            names_add(&taken, own.list[i].name);
        else
            aside += text_starts(own.list[i].name, DB_OWN_PREFIX "aside_");
    check_names(c, "taken_names", &taken);
    check_number(c, "set_aside", (int64_t)aside);
    check_number(c, "shadows", (int64_t)(own.count - taken.count - aside));
}

/* ---- definitions: which a dump holds, and which the account may not see ---- */

static const struct {
    enum definition_kind kind;
    const char *many, *privilege; /* on the schema; NULL: the privilege for routines */
} kinds[] = {
    {DEFINITION_VIEW, "views", "SHOW VIEW"},
    {DEFINITION_TRIGGER, "triggers", "TRIGGER"},
    {DEFINITION_EVENT, "events", "EVENT"},
    {DEFINITION_FUNCTION, "functions", NULL},
    {DEFINITION_LIBRARY, "libraries", NULL},
    {DEFINITION_PACKAGE, "packages", NULL},
    {DEFINITION_PACKAGE_BODY, "bodies of packages", NULL},
    {DEFINITION_PROCEDURE, "procedures", NULL},
};

#define UNREADABLE                                                                                 \
    "{unreadable} of {defined} {kind} are not in dumps, such as {unreadable_first}: they cannot "  \
    "be read"

static const struct check_rule definitions[] = {
    {"definitions", "unreadable kind_grant", CHECK_WARN, UNREADABLE, "{kind_grant}"},
    {"definitions", "unreadable", CHECK_WARN, UNREADABLE,
     "SHOW CREATE says why: what it needs may be gone"},
    {"definitions", "hidden", CHECK_NOTE,
     "{hidden} would not be in dumps: this account may not see any",
     "if there are any: {kind_grant}"},
};
static const struct check_rule all_definitions = {
    "definitions", NULL, CHECK_OK,
    "{definitions} views, triggers, events, functions and procedures are in dumps"};

/* Reads each definition as a dump does. Only then does the server report a missing privilege or a
 * broken definition. */
static size_t rules_schema_unreadable(struct check *c, enum definition_kind kind,
                                      const struct names *names)
{
    size_t n = 0;
    for (size_t i = 0; i < names->count; i++) {
        struct db_definition d;
        struct err ignored;
        bool read =
            db_definition(c->db, c->cfg->schema, kind, names->list[i], &d, &ignored) == 0 && d.sql;
        if (!read && n++ == 0)
            check_word(c, "unreadable_first", "%s", names->list[i]);
        db_definition_free(&d);
    }
    return n;
}

/* Checks one kind of definitions. Returns true if there is nothing to report. Definitions hidden
 * from this account cannot be counted. Those of routines are reported once, with the procedures. */
static bool check_kind(struct check *c, size_t i, size_t *total)
{
    SCOPED(names_free) struct names names = {0};
    bool routine = !kinds[i].privilege, seen = routine || check_may(c, kinds[i].privilege);
    if (db_names(c->db, c->cfg->schema, kinds[i].kind, &names, NULL) < 0)
        return true;
    size_t bad = rules_schema_unreadable(c, kinds[i].kind, &names);
    bool hidden =
        routine ? !check_routines_readable(c) : kinds[i].kind == DEFINITION_EVENT && !seen;
    *total += names.count - bad;
    check_word(c, "kind", "%s", kinds[i].many);
    check_word(c, "kind_grant", "%s",
               routine ? check_text(c, "routine_grant")
               : seen  ? ""
                       : check_text(c, "schema_grant"));
    check_number(c, "unreadable", (int64_t)bad);
    check_number(c, "defined", (int64_t)names.count);
    check_word(c, "hidden", "%s",
               !hidden                                 ? ""
               : !routine                              ? kinds[i].many
               : kinds[i].kind == DEFINITION_PROCEDURE ? "functions and procedures"
                                                       : "");
    CHECK_RULES(c, definitions);
    return bad == 0 && !hidden;
}

/* Adds one finding for all kinds if all definitions are readable, otherwise one for each kind with
 * unreadable definitions. */
static void rules_schema_check_definitions(struct check *c)
{
    bool good = true;
    size_t total = 0;
    if (c->grants_known && !check_may(c, "SELECT")) /* nothing can be read: already reported */
        return;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        good = check_kind(c, i, &total) && good;
    check_number(c, "definitions", (int64_t)total);
    if (good)
        check_rules(c, &all_definitions, 1);
}

/* ---- the whole world ---- */

void check_world(struct check *c)
{
    if (!check_is(c, "schema_there"))
        return;
    sentinel_facts(c);
    CHECK_RULES(c, sentinel);
    method_facts(c);
    CHECK_RULES(c, method);
    if (!c->tables_known)
        return;
    rules_schema_table_facts(c);
    own_table_facts(c);
    rebuild_facts(c);
    CHECK_RULES(c, tables);
    rules_schema_check_definitions(c);
}
