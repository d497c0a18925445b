#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/sentinel.h"
#include "db/sql.h"
#include "dump/snapshot.h"
#include "dump/writer.h"
#include "restore/crew.h"

#define NAMES_TOLD 5

/* Loading what other parts judge too */

static void remove_table(struct db_tables *list, const char *name)
{
    struct db_table *t = db_table_find(list, name);
    if (t)
        db_tables_remove(list, t);
}

/* Only triggers on tables that a restore replaces are moved. */
static void keep_moved_triggers(struct check *c)
{
    struct db_triggers *t = &c->triggers, rest = {0};
    rest.list = xcalloc(t->count, sizeof *rest.list);
    size_t n = 0;
    for (size_t i = 0; i < t->count; i++) {
        const struct db_table *on = db_table_find(&c->tables, t->list[i].table);
        if (on && (on->memory || c->cfg->restore_all))
            t->list[n++] = t->list[i];
        else
            rest.list[rest.count++] = t->list[i];
    }
    t->count = n;
    db_triggers_free(&rest);
}

void check_load_world(struct check *c)
{
    struct err ignored;
    char *lease = xasprintf("%s_lease", c->cfg->sentinel);
    c->tables_known = db_tables(c->db, c->cfg->schema, true, &c->tables, &ignored) == 0;
    remove_table(&c->tables, c->cfg->sentinel);
    remove_table(&c->tables, lease);
    free(lease);
    for (size_t i = 0; i < c->tables.count; i++)
        if (c->tables.list[i].memory) {
            c->memory_data += c->tables.list[i].data_length;
            c->memory_bytes += c->tables.list[i].data_length + c->tables.list[i].index_length;
        }
    if (db_triggers(c->db, c->cfg->schema, &c->triggers, &ignored) == 0)
        keep_moved_triggers(c);
}

/* Schema, sentinel, lease */

static bool check_schema(struct check *c)
{
    struct err e = {0};
    bool there;
    struct buf name = {0};
    if (doctor_schema(c->db, c->cfg->schema, &there, &e) < 0) {
        check_error(c, CHECK_FAIL, "schema", &e);
        return false;
    }
    sql_ident(&name, c->cfg->schema);
    if (there) {
        check_add(c, CHECK_OK, "schema", "%s is there", name.p);
    } else {
        bool sees = c->grants_known && grants_have(&c->grants, c->cfg->schema, "SELECT");
        check_add(c, CHECK_FAIL, "schema", "%s is not there%s", name.p,
                  sees ? "" : ", or this account may not see it");
        check_hint(c,
                   sees ? "[world] schema names it; on a new server, worldkeeper --restore makes it"
                        : "[world] schema names it; the rights on it are told above");
    }
    buf_free(&name);
    return there;
}

static bool nonce_known(const struct check *c, const char *nonce)
{
    bool anything = c->state.known || c->catalog.count > 0;
    return !anything || (c->state.known && strcmp(c->state.nonce, nonce) == 0) ||
           catalog_knows_nonce(&c->catalog, nonce);
}

static bool holds_rows(const struct check *c)
{
    for (size_t i = 0; i < c->tables.count; i++)
        if (c->tables.list[i].memory && c->tables.list[i].rows > 0)
            return true;
    return false;
}

/* Behind a restart of the server. A table that is not there is nobody's proof: what is in the
 * others may have been put there by hand. */
static void sentinel_lost(struct check *c, const char *what, bool table)
{
    if (table && holds_rows(c)) {
        check_add(c, CHECK_FAIL, "sentinel",
                  "%s is gone, and the server was restarted; other tables hold rows", what);
        check_hint(c, "where these are the world, made by hand: worldkeeper --init --force; where "
                      "it was lost: worldkeeper --restore");
        return;
    }
    check_add(c, CHECK_FAIL, "sentinel",
              "%s is gone: the server was restarted and the world with it", what);
    check_hint(c, "worldkeeper --restore brings it back%s",
               table && !c->cfg->restore_new_server ? ""
                                                    : "; a running supervisor does so by itself");
}

/* Table or row gone: what that means follows from what was known of the world before. */
static void sentinel_gone(struct check *c, const char *what, bool table)
{
    const struct catalog_entry *last = catalog_newest(&c->catalog, 0);
    int64_t start = c->state.known ? c->state.server.start : last ? last->m.server.start : 0;
    if (start == 0) {
        check_add(c, CHECK_FAIL, "sentinel", "%s is not there", what);
        check_hint(c, "worldkeeper --init makes it");
    } else if (start == c->server.start) {
        check_add(c, CHECK_FAIL, "sentinel",
                  "%s was taken away; the server was not restarted since the world was last seen",
                  what);
        check_hint(c,
                   "if the world's tables are as they should be, worldkeeper --init puts it back");
    } else {
        sentinel_lost(c, what, table);
    }
}

static void sentinel_unreadable(struct check *c, const struct err *e)
{
    if (db_table_missing(e)) {
        sentinel_gone(c, "its table", true);
    } else if (e->num == 1054) {
        check_add(c, CHECK_FAIL, "sentinel", "table %s is there, but it is not one of ours",
                  c->cfg->sentinel);
        check_hint(c, "[probe] table names another one");
    } else {
        check_error(c, CHECK_FAIL, "sentinel", e);
    }
}

static void check_sentinel(struct check *c)
{
    struct err e = {0};
    struct db_sentinel s;
    char count[TEXT_SHORT], engine[65];
    if (db_sentinel_read(c->db, c->cfg->schema, c->cfg->sentinel, &s, &e) < 0) {
        sentinel_unreadable(c, &e);
    } else if (s.rows == 0) {
        sentinel_gone(c, "its row", false);
    } else if (s.rows > 1) {
        check_add(c, CHECK_FAIL, "sentinel", "table %s holds more than one row; it is not ours",
                  c->cfg->sentinel);
        check_hint(c, "[probe] table names another one");
    } else if (db_sentinel_durable(c->db, c->cfg->schema, c->cfg->sentinel, engine, &e) == 0 &&
               engine[0]) {
        check_add(c, CHECK_FAIL, "sentinel",
                  "its table is of engine %s instead of MEMORY: its row outlasts a loss and proves "
                  "nothing",
                  engine);
        check_hint(c, "where the world is there: ALTER TABLE %s ENGINE=MEMORY", c->cfg->sentinel);
    } else if (!nonce_known(c, s.nonce)) {
        check_add(
            c, CHECK_FAIL, "sentinel",
            "its nonce is not one of ours: another worldkeeper restored or adopted this world");
        check_hint(c, "find that one; or worldkeeper --init --force adopts the world as it is now");
    } else {
        check_add(c, CHECK_OK, "sentinel", "%s holds our row, generation %s", c->cfg->sentinel,
                  text_count(s.generation, count));
    }
}

static void check_lease(struct check *c)
{
    struct err e = {0};
    uint64_t generation = 0;
    if (db_lease_read(c->db, c->cfg->schema, c->cfg->sentinel, &generation, &e) < 0) {
        check_error(c, CHECK_FAIL, "lease", &e);
    } else if (generation == 0) {
        check_add(c, CHECK_FAIL, "lease", "table %s_lease or its row is not there",
                  c->cfg->sentinel);
        check_hint(c, "worldkeeper --init makes it");
    } else if (c->catalog.count && generation > c->catalog.generation + 1 &&
               generation > c->state.generation) {
        check_add(c, CHECK_WARN, "lease",
                  "generation %" PRIu64 ", our dumps are of generation %" PRIu64
                  ": somebody else restores this world too",
                  generation, c->catalog.generation);
    } else {
        check_add(c, CHECK_OK, "lease", "%s_lease, generation %" PRIu64, c->cfg->sentinel,
                  generation);
    }
}

/* Method and tables */

static void check_method(struct check *c)
{
    static const char name[] = "method";
    enum config_method m = c->cfg->dump_method;
    struct err e;
    if (m == METHOD_COPY || m == METHOD_LOCK) {
        check_add(c, CHECK_OK, name, "%s: asked for by [dump] method", dump_method_name(m));
        if (m == METHOD_LOCK)
            check_hint(c, "writers wait for the whole dump; method = auto lets them go on sooner");
        return;
    }
    char *why = snapshot_no_fuzzy(c->cfg, c->db, &e);
    if (!why && e.cls != ERR_NONE)
        check_add(c, CHECK_WARN, name, "cannot be chosen: %s", e.text);
    else if (!why)
        check_add(c, CHECK_OK, name,
                  db_is_mariadb(c->db)
                      ? "fuzzy: tables are scanned while the game writes"
                      : "fuzzy: tables are copied in the server one by one, a big one in shares, "
                        "while the game writes; a writer waits for one copy");
    else if (m == METHOD_FUZZY)
        check_add(c, CHECK_FAIL, name, "[dump] method = fuzzy cannot be had: %s", why);
    else
        check_add(c, CHECK_OK, name,
                  "copy: writers wait for a copy in memory; not fuzzy, which lets them go on: %s",
                  why);
    if (why && m == METHOD_FUZZY)
        check_hint(c, "method = auto takes the best that there is");
    free(why);
}

/* How a restore will bring the rows in. */
static void check_loading(struct check *c)
{
    unsigned n = crew_size(c->cfg->restore_connections, c->tables.count);
    enum db_bulk_way way = db_bulk_way(c->db);
    static const char *const how[] = {
        [DB_BULK_NONE] = "as INSERTs, which take several times as long as need be",
        [DB_BULK_ARRAY] = "as arrays of binary values",
        [DB_BULK_LOCAL] = "by LOAD DATA LOCAL, fed from memory",
        [DB_BULK_ROWS] = "as prepared INSERTs, which take twice as long as need be",
    };
    bool slow = way == DB_BULK_NONE || way == DB_BULK_ROWS;
    check_add(c, slow ? CHECK_NOTE : CHECK_OK, "loading",
              "a restore sends rows %s, over %u connection%s at most", how[way], n,
              n == 1 ? "" : "s");
    if (slow)
        check_hint(c, "%s; worldkeeper never reads a file that a server asks for",
                   db_is_mariadb(c->db)
                       ? "SET GLOBAL local_infile=1, and the same in the server's config file"
                       : "SET PERSIST local_infile=ON");
}

static void check_counts(struct check *c)
{
    size_t memory = 0, durable = 0;
    uint64_t rows = 0;
    char n[TEXT_SHORT], size[TEXT_SHORT];
    for (size_t i = 0; i < c->tables.count; i++) {
        memory += c->tables.list[i].memory;
        durable += !c->tables.list[i].memory;
        rows += c->tables.list[i].memory ? c->tables.list[i].rows : 0;
    }
    if (memory == 0 && !c->cfg->dump_all) {
        check_add(c, CHECK_WARN, "tables",
                  "the schema holds no MEMORY table: there is nothing to keep");
        return;
    }
    check_add(c, CHECK_OK, "tables", "%zu of engine MEMORY, %s rows, %s; %zu durable%s", memory,
              text_count(rows, n), text_size(c->memory_bytes, size), durable,
              durable == 0           ? ""
              : !c->cfg->dump_all    ? ", which are not dumped ([dump] engines = memory)"
              : !c->cfg->restore_all ? ", dumped but not restored ([restore] scope = lost)"
                                     : ", dumped and restored too");
}

static void check_keys(struct check *c)
{
    struct db_names bare = {0};
    struct buf b = {0};
    bare.list = xcalloc(c->tables.count, sizeof *bare.list);
    for (size_t i = 0; i < c->tables.count; i++)
        if (c->tables.list[i].memory && !c->tables.list[i].has_key)
            bare.list[bare.count++] = c->tables.list[i].name;
    if (bare.count) {
        check_names(&b, &bare, NAMES_TOLD);
        check_add(
            c, CHECK_NOTE, "tables",
            "without a primary key: %s. The journal follows them by whole rows, which is exact; "
            "equal rows come back in any order",
            b.p);
    }
    free(bare.list); /* the names are the tables' */
    buf_free(&b);
}

/* Tables that this program leaves out or refuses, each kind with its reason. */
static void check_odd(struct check *c)
{
    const struct config *cfg = c->cfg;
    const bool all = cfg->dump_all, back = cfg->dump_all && cfg->restore_all;
    const struct {
        enum doctor_oddity which;
        bool matters;
        enum check_level level;
        const char *what, *hint;
    } kinds[] = {
        {DOCTOR_FOREIGN_KEY, back, CHECK_FAIL,
         "with foreign keys, which cannot be swapped in: a restore is refused",
         "[restore] scope = lost; such tables come back with --into, or by hand: gunzip -c DUMP | "
         "mysql SCHEMA"},
        {DOCTOR_REFERENCED, back, CHECK_FAIL,
         "that foreign keys point to: they would point to the old tables after a swap",
         "[restore] scope = lost"},
        {DOCTOR_SEQUENCE, all, CHECK_WARN, "that are sequences: neither dumped nor restored",
         "mysqldump takes them"},
        {DOCTOR_VERSIONED, all, CHECK_WARN, "with system versioning: their history is not dumped",
         "mysqldump --dump-history takes it"},
        {DOCTOR_VERSIONED_MEMORY, true, CHECK_FAIL,
         "of engine MEMORY with system versioning: once a row of theirs has changed, dumps fail",
         "ALTER TABLE … DROP SYSTEM VERSIONING"},
        {DOCTOR_FEDERATED, all, CHECK_WARN,
         "whose rows are elsewhere (FEDERATED, CONNECT, MERGE …): they are dumped without them",
         "[dump] engines = memory leaves them out"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct db_names found;
        struct buf b = {0};
        if (!kinds[i].matters ||
            doctor_odd_tables(c->db, cfg->schema, kinds[i].which, &found, NULL) < 0)
            continue;
        if (found.count) {
            check_names(&b, &found, NAMES_TOLD);
            check_add(c, kinds[i].level, "tables", "%s: %s", kinds[i].what, b.p);
            check_hint(c, "%s", kinds[i].hint);
        }
        db_names_free(&found);
        buf_free(&b);
    }
}

/* worldkeeper_tmp_new_000001, …_old_…, …_sentinel */
static bool is_shadow(const char *name)
{
    static const char *const kinds[] = {"new_", "old_", "copy_", NULL};
    const char *rest = name + strlen(DB_OWN_PREFIX);
    for (const char *const *k = kinds; *k; k++)
        if (text_starts(rest, *k)) {
            const char *id = rest + strlen(*k);
            return strcmp(id, "sentinel") == 0 ||
                   (strlen(id) >= 6 && strspn(id, "0123456789") == strlen(id));
        }
    return false;
}

static void check_own(struct check *c)
{
    struct db_tables own;
    struct db_names taken = {0};
    struct buf b = {0};
    if (db_own_tables(c->db, c->cfg->schema, &own, NULL) < 0)
        return;
    taken.list = xcalloc(own.count, sizeof *taken.list);
    for (size_t i = 0; i < own.count; i++)
        if (!is_shadow(own.list[i].name))
            taken.list[taken.count++] = own.list[i].name;
    if (taken.count) {
        check_names(&b, &taken, NAMES_TOLD);
        check_add(
            c, CHECK_FAIL, "tables",
            "%s: names that begin with %s are ours: not dumped, and dropped by the next restore",
            b.p, DB_OWN_PREFIX);
        check_hint(c, "RENAME TABLE to a name that begins with something else");
    }
    if (own.count > taken.count && !c->running) {
        check_add(c, CHECK_NOTE, "left-overs", "%zu shadow tables of a restore that was cut off",
                  own.count - taken.count);
        check_hint(c, "the supervisor drops them when it starts, or the next --restore");
    }
    free(taken.list); /* the names are own's */
    db_tables_free(&own);
    buf_free(&b);
}

void check_world(struct check *c)
{
    if (!check_schema(c))
        return;
    check_sentinel(c);
    check_lease(c);
    check_method(c);
    check_loading(c);
    if (!c->tables_known)
        return;
    check_counts(c);
    check_keys(c);
    check_odd(c);
    check_own(c);
    check_definitions(c);
}
