#include "check/rules_progress.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "check/rule.h"
#include "mysql/only_table.h"
#include "mysql/packet_limit.h"
#include "progress/central.h"
#include "sql/literal.h"

static const struct check_rule local[] = {
    /* Players are the first to notice a full MEMORY table, because their saves fail. */
    {"local store", "local_error", CHECK_FAIL, "{local_error}", "{local_hint}"},
    {"local store", "other_engine", CHECK_FAIL,
     "wk_progress is ENGINE={local_engine}, but [progress] engine differs",
     "worldkeeper --init shows what to do"},
    {"local store", "!local_put", CHECK_FAIL,
     "routines wk_put and wk_close do not exist, or this account may not see them",
     "worldkeeper --init creates them", true},
    {"local store", "local_definer", CHECK_WARN,
     "{local_definer} run with worldkeeper's privileges, as an older version made them: if the "
     "game's account replaces their tables by views, these can call functions with worldkeeper's "
     "privileges",
     "worldkeeper --init recreates them to run with the privileges of the game's account, which "
     "needs SELECT on wk_stolen for that"},
    {"local store", "local_stolen", CHECK_WARN,
     "{local_stolen:count} blob{local_stolen:+} in wk_stolen that may no longer be sent",
     "SELECT blob_key, lock_key, seq, why FROM wk_stolen; then DELETE those that are dealt with",
     true},
    {"local store", "local_full", CHECK_WARN,
     "wk_progress takes {local_size:size} of the {local_room:size} that a MEMORY table may take "
     "here: when it is full, saves fail",
     "use a larger max_heap_table_size and ALTER TABLE wk_progress ENGINE=MEMORY; or [progress] "
     "engine = innodb",
     true},
    {"local store", "!found local_forgets", CHECK_NOTE,
     "wk_session is of an earlier version: it cannot tell which central store a lock was taken in",
     "worldkeeper --init adds the column"},
    {"local store", "!found progress.engine=memory", CHECK_OK,
     "wk_progress uses {local_row:size} for each blob, however short, and accepts blobs up to "
     "{local_most:size}; {local_fit:count} blobs fit in",
     "if all blobs are shorter, make room for more: ALTER TABLE wk_progress MODIFY `blob` "
     "VARBINARY(…) NOT NULL, and the same for wk_stolen"},
    {"local store", "!found", CHECK_OK, "ENGINE={local_engine}"},
};

static const struct check_rule central[] = {
    /* Each routine is looked up; then two of them are called. */
    {"central store", "central_error", CHECK_FAIL, "{central_error}", "{central_hint}"},
    {"central store", "central_missing", CHECK_FAIL,
     "routines that do not exist, have another version, or may not be called by this account: "
     "{central_missing}",
     "worldkeeper --sql=progress-central prints them, and the GRANT"},
    {"central store", "central_broken", CHECK_FAIL, "{central_broken}",
     "worldkeeper --sql=progress-central prints its schema, which may be applied again", true},
    {"central store", "central_dirty", CHECK_FAIL,
     "sessions there begin with READ UNCOMMITTED (tx_isolation, transaction_isolation): decisions "
     "could rest on uncommitted rows",
     "SET GLOBAL TRANSACTION ISOLATION LEVEL REPEATABLE READ, and take transaction-isolation out "
     "of that server's my.cnf, or its next restart brings it back",
     true},
    {"central store", "central_enforced", CHECK_FAIL,
     "enforce_storage_engine = {central_enforced} there: no blobs can be written back, because "
     "this needs a temporary InnoDB table (1290)",
     "on that server: " DB_UNSET_FOR_GOOD("enforce_storage_engine", "NULL"), true},
    {"central store", "central_more", CHECK_WARN,
     "this account may do more than call routines ({central_more}): with it a game server can "
     "change what it has not locked",
     "as an administrator there: {central_revoke}", true},
    {"central store", "central_unread", CHECK_WARN,
     "cannot find out what else this account may do there: {central_unread}", NULL, true},
    {"central store", "central_anonymous", CHECK_WARN,
     "that server has {central_anonymous:count} anonymous account{central_anonymous:+}: a client "
     "that logs in with one can use any name, also that of another game server",
     "as an administrator there: SELECT host FROM mysql.user WHERE user=''; and DROP USER ''@'…' "
     "for each",
     true},
    {"central store", "packet_small", CHECK_FAIL,
     "the largest blob has {largest:size}, but max_allowed_packet there is {central_packet:size}: "
     "it cannot be sent",
     "SET GLOBAL max_allowed_packet there, and in that server's my.cnf", true},
    {"central store", "central_clock_off", CHECK_NOTE,
     "its clock and ours differ by {central_clock_off:time}: takeovers use its clock only", NULL,
     true},
    {"central store", "!found central_old", CHECK_NOTE,
     "its routines are of an earlier version: any account that may call them can save as lock_id "
     "{progress.lock_id}",
     "apply what worldkeeper --sql=progress-central prints, as an administrator there"},
    {"central store", "!found central_nameless", CHECK_NOTE,
     "it is of an earlier version, and cannot be distinguished from another central store",
     "apply what worldkeeper --sql=progress-central prints, as an administrator there"},
    {"central store", "!found central_open", CHECK_NOTE,
     "lock_id {progress.lock_id} is bound to no account: any game server can save as this one",
     "if each game server has its own account, as an administrator there: CALL "
     "{progress.schema:name}.wk_bind({central_binding}); the same for the game's account; "
     "worldkeeper-progress(7), Accounts"},
    {"central store", "!found", CHECK_OK,
     "{central_version}, {central_latency} ms away; lock_id {progress.lock_id}, bound to "
     "{central_account}"},
};

/* Returns a number from the server, or 0 if there is none. An error has its own finding. */
static int64_t rules_progress_number(struct db *db, const char *sql)
{
    SCOPED(xfree) char *s = db_one(db, sql, NULL);
    return s ? strtoll(s, NULL, 10) : 0;
}

/* ---- the local store ---- */

/* Sets the facts about the local store. How many rows fit into a MEMORY table depends on its
 * longest possible row rather than on its contents. */
static void local_facts(struct check *c, struct db *db, struct err *e)
{
    bool innodb = c->cfg->progress.innodb;
    SCOPED(db_tables_free) struct db_tables list = {0};
    if (db_table_named(db, c->cfg->schema, "wk_progress", &list, e) < 0 || list.count == 0)
        return;
    const struct db_table *t = list.list;
    int64_t row = (int64_t)t->row_length, room = (int64_t)t->max_data_length;
    check_word(c, "local_engine", "%s", t->engine);
    check_fact(c, "other_engine", strcasecmp(t->engine, innodb ? "InnoDB" : "MEMORY") != 0);
    check_number(c, "local_row", row);
    check_number(c, "local_fit", row > 0 ? room / row : 0);
    check_fact(c, "local_full", check_table_size(c, t, "local_size", "local_room"));
    check_number(c, "local_most",
                 rules_progress_number(
                     db, "SELECT CHARACTER_MAXIMUM_LENGTH FROM information_schema.COLUMNS WHERE "
                         "TABLE_SCHEMA=DATABASE() AND TABLE_NAME='wk_progress' AND "
                         "COLUMN_NAME='blob'"));
    check_number(c, "local_stolen",
                 rules_progress_number(db, "SELECT COUNT(*) FROM wk_stolen " DB_ONLY_TABLE));
    check_number(
        c, "largest",
        rules_progress_number(db, "SELECT MAX(LENGTH(`blob`)) FROM wk_progress " DB_ONLY_TABLE));
    check_fact(c, "local_put",
               rules_progress_number(
                   db, "SELECT COUNT(*) FROM information_schema.ROUTINES WHERE "
                       "ROUTINE_SCHEMA=DATABASE() AND ROUTINE_NAME IN ('wk_put','wk_close')") == 2);
    SCOPED(xfree) char *definer = db_one(
        db,
        "SELECT GROUP_CONCAT(ROUTINE_NAME ORDER BY ROUTINE_NAME DESC SEPARATOR ' and ') FROM "
        "information_schema.ROUTINES WHERE ROUTINE_SCHEMA=DATABASE() AND ROUTINE_NAME IN "
        "('wk_put','wk_close') AND SECURITY_TYPE<>'INVOKER'",
        NULL);
    check_word(c, "local_definer", "%s", definer ? definer : "");
}

/* ---- the central one ---- */

/* Returns true if the privilege lets its holder change nothing: it only shows names, sessions and
 * routines of other accounts. */
static bool rules_progress_only_shows(const char *privilege)
{
    static const char *const words[] = {
        "EXECUTE",   "PROCESS",        "SHOW DATABASES", "SLAVE MONITOR",
        "SHOW VIEW", "BINLOG MONITOR", "SHOW_ROUTINE",   "SHOW CREATE ROUTINE"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(privilege, words[i]) == 0)
            return true;
    return false;
}

/* Does the grant row apply to the central store's tables and routines, or to the tables in which
 * the server stores accounts? */
static bool rules_progress_reaches(const struct check *c, const struct grants *g,
                                   const struct grant *row)
{
    const char *const schemas[] = {c->cfg->progress.schema, "mysql"};
    if (row->on == GRANT_GLOBAL || row->on == GRANT_PROXY)
        return true;
    for (size_t i = 0; i < 2; i++)
        if (row->on == GRANT_SCHEMA ? grants_row(g, schemas[i], row->grantee) == row
                                    : row->on != GRANT_ROLE && strcmp(row->schema, schemas[i]) == 0)
            return true;
    return false;
}

static void add_name(struct buf *b, const char *name)
{
    if (name)
        sql_ident(b, name);
    else
        buf_addc(b, '*');
}

/* The account's privileges on the central store beyond EXECUTE: as text for the reader, and as
 * statements that revoke them. */
struct more {
    struct buf text, revoke;
    const char
        *role; /* MySQL shows this role's privileges as the account's own; NULL: no active role */
};

static void object_of(struct buf *b, const struct grant *row)
{
    if (row->on == GRANT_PROXY) {
        buf_adds(b, row->schema);
        return;
    }
    buf_adds(b, row->routine ? row->routine : "");
    add_name(b, row->schema);
    buf_addc(b, '.');
    add_name(b, row->object);
}

/* Adds one privilege of a grant row, without duplicates. */
static void add_more(struct more *m, const struct grant *row, const char *word)
{
    SCOPED(buf_free) struct buf object = {0}, own = {0}, role = {0};
    object_of(&object, row);
    buf_printf(&own, "REVOKE %s ON %s FROM %s;", word, object.p, row->grantee);
    buf_printf(&role, "REVOKE %s ON %s FROM %s;", word, object.p, m->role ? m->role : row->grantee);
    if (m->revoke.len && (strstr(m->revoke.p, own.p) || strstr(m->revoke.p, role.p)))
        return;
    buf_printf(&m->text, "%s%s ON %s", m->text.len ? ", " : "", word, object.p);
    buf_printf(&m->revoke, "%s%s", m->revoke.len ? " " : "", role.p);
}

/* Grants again what the write-back needs and "ALL PRIVILEGES" of this row contained. */
static void grant_execute(const struct check *c, struct more *m, const struct grants *g,
                          const struct grant *row)
{
    SCOPED(buf_free) struct buf schema = {0}, grant = {0};
    if (row->on == GRANT_GLOBAL)
        grants_pattern(g, &schema, c->cfg->progress.schema);
    else
        buf_adds(&schema, row->schema);
    buf_adds(&grant, " GRANT EXECUTE ON ");
    sql_ident(&grant, schema.p);
    buf_printf(&grant, ".* TO %s;", m->role ? m->role : row->grantee);
    if (!strstr(m->revoke.p, grant.p))
        buf_adds(&m->revoke, grant.p);
}

/* Returns false if MySQL's partial revokes removed a global privilege from both schemas. */
static bool is_left(const struct check *c, const struct grants *g, const struct grant *row,
                    const char *privilege)
{
    return row->on != GRANT_GLOBAL || grants_have(g, c->cfg->progress.schema, privilege) ||
           grants_have(g, "mysql", privilege);
}

static void rules_progress_add_row(const struct check *c, struct more *m, const struct grants *g,
                                   const struct grant *row)
{
    for (size_t i = 0; i < row->count; i++) {
        const char *privilege = row->privileges[i];
        if (rules_progress_only_shows(privilege) || !is_left(c, g, row, privilege))
            continue;
        add_more(m, row, privilege);
        if (strcmp(privilege, "ALL PRIVILEGES") == 0 &&
            (row->on == GRANT_GLOBAL || row->on == GRANT_SCHEMA))
            grant_execute(c, m, g, row);
    }
    for (size_t i = 0; i < row->partials; i++)
        add_more(m, row, row->partial[i]);
    if (row->option && row->on != GRANT_PROXY)
        add_more(m, row, "GRANT OPTION");
}

/* Reads the grants with one active role, or with none (NULL). */
static int grants_with(struct check *c, struct db *db, const char *role, struct more *m,
                       struct err *e)
{
    SCOPED(grants_free) struct grants g = {0};
    unsigned unknown = 0;
    if (db_exec_with(db, "SET ROLE $", DB_ARGS(role ? role : "NONE"), e) < 0 ||
        db_grants(db, &g, &unknown, e) < 0)
        return -1;
    m->role = db_is_mariadb(db) ? NULL : role;
    for (size_t i = 0; i < g.count; i++)
        if (!g.list[i].revoke && rules_progress_reaches(c, &g, &g.list[i]))
            rules_progress_add_row(c, m, &g, &g.list[i]);
    if (unknown)
        return err_set(e, ERR_QUERY, 0, "lines of SHOW GRANTS are of an unknown kind");
    return 0;
}

/* Finds the account's privileges from all sources: its own grants, those of PUBLIC, and those of
 * each role, which SET ROLE activates one by one. This must be the last query on the connection
 * because it changes the active role. */
static void rules_progress_grant_facts(struct check *c, struct db *db)
{
    SCOPED(names_free) struct names roles = {0};
    struct more m = {0};
    struct err e = {0};
    int rc = grants_with(c, db, NULL, &m, &e);
    if (rc == 0)
        rc = db_roles(db, &roles, &e);
    for (size_t i = 0; i < roles.count && rc == 0; i++)
        rc = grants_with(c, db, roles.list[i], &m, &e);
    check_word(c, "central_more", "%s", m.text.len ? m.text.p : "");
    check_word(c, "central_revoke", "%s", m.revoke.len ? m.revoke.p : "");
    check_word(c, "central_unread", "%s", e.text);
    buf_free(&m.text);
    buf_free(&m.revoke);
}

/* Sets the facts about the account to which lock_id is bound. */
static void binding_facts(struct check *c, struct db *db, const struct names *routines)
{
    struct err e = {0};
    struct db_account account;
    bool bound = false, old = !names_has(routines, "wk_bound");
    int64_t anonymous = 0;
    check_word(c, "central_account", "%s", "");
    check_word(c, "central_binding", "%s", "");
    if (db_account(db, &account, &e) == 0) {
        SCOPED(buf_free) struct buf b = {0};
        char *at = strrchr(account.name, '@');
        check_word(c, "central_account", "%s", account.name);
        sql_string(&b, c->cfg->progress.lock_id, strlen(c->cfg->progress.lock_id));
        buf_addc(&b, ',');
        sql_string(&b, account.name, at ? (size_t)(at - account.name) : strlen(account.name));
        buf_addc(&b, ',');
        /* A netmask cannot be used as a pattern. The host of the account itself still applies. */
        const char *host = at && !strchr(at, '/') ? at + 1 : "%";
        sql_string(&b, host, strlen(host));
        check_word(c, "central_binding", "%s", b.p);
    }
    if (!old && central_bound(db, c->cfg->progress.lock_id, &bound, &anonymous, &e) < 0)
        check_word(c, "central_broken", "%s", e.text);
    check_fact(c, "central_old", old);
    check_fact(c, "central_nameless", !names_has(routines, "wk_store"));
    check_fact(c, "central_open", !old && !bound);
    check_number(c, "central_anonymous", anonymous);
}

/* Sets the facts that a game server depends on. It calls what the write-back calls, and measures
 * the time of two round trips. */
static void central_facts(struct check *c, struct db *db)
{
    struct err e = {0};
    struct server_id id;
    mono_t began = clock_mono();
    if (central_beat(db, c->cfg->progress.lock_id, &e) == 0) {
        json_t *locks = json_array();
        central_locks(db, locks, &e);
        json_decref(locks);
    }
    check_word(c, "central_latency", "%lld", (long long)mono_since(clock_mono(), began) / 2);
    check_word(c, "central_broken", "%s", e.text);
    if (db_server_id(db, &id, &e) == 0) {
        int64_t off = id.ahead_ms < 0 ? -id.ahead_ms : id.ahead_ms;
        check_number(c, "central_clock_off", off > 60000 ? off : 0);
        check_word(c, "central_version", "%s", id.version);
    }
    SCOPED(xfree) char *isolation =
        db_one_with(db, "SELECT @@$", DB_ARGS(db_word(db, WORD_ISOLATION)), NULL);
    check_fact(c, "central_dirty", isolation && strcmp(isolation, "READ-UNCOMMITTED") == 0);
    SCOPED(xfree) char *enforced =
        db_is_mariadb(db) ? db_one(db, "SELECT @@enforce_storage_engine", NULL) : NULL;
    check_word(c, "central_enforced", "%s",
               enforced && strcasecmp(enforced, "InnoDB") != 0 ? enforced : "");
    int64_t packet = rules_progress_number(db, "SELECT @@max_allowed_packet");
    check_number(c, "central_packet", packet);
    check_fact(c, "packet_small", check_value(c, "largest") + DB_PACKET_SPARE > packet);
}

/* Checks the central store over a separate connection, opened in the same way as that of the
 * write-back. */
static void check_central(struct check *c)
{
    static const char *const routines[] = {"wk_acquire",   "wk_load",      "wk_save",
                                           "wk_save_many", "wk_send_open", "wk_send",
                                           "wk_release",   "wk_beat",      "wk_locks"};
    const struct config_progress *p = &c->cfg->progress;
    struct buf password = {0};
    struct err e = {0};
    struct db *db = NULL;
    if (!p->server.password_file || file_read_secret(p->server.password_file, &password, &e) == 0)
        db = central_open(p, password.p, &e);
    buf_free(&password);
    check_error(c, "central", &e);
    check_word(c, "central_missing", "%s", "");
    check_word(c, "central_broken", "%s", "");
    if (db) {
        /* The routines of this version are looked up. Names of other versions, and routines that
         * the account may not execute, are not listed. */
        SCOPED(names_free) struct names there = {0};
        SCOPED(buf_free) struct buf missing = {0};
        db_names_select(db,
                        "SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE "
                        "ROUTINE_SCHEMA=DATABASE()",
                        DB_ARGS(NULL), &there, NULL);
        for (size_t i = 0; i < sizeof routines / sizeof *routines; i++)
            if (!names_has(&there, routines[i]))
                buf_printf(&missing, "%s%s", missing.len ? ", " : "", routines[i]);
        check_word(c, "central_missing", "%s", missing.len ? missing.p : "");
        if (!missing.len) {
            central_facts(c, db);
            binding_facts(c, db, &there);
            rules_progress_grant_facts(c, db);
        }
    }
    CHECK_RULES(c, central);
    db_close(db);
}

bool check_central_here(const struct config *cfg)
{
    const struct config_mysql *world = &cfg->mysql, *other = &cfg->progress.server;
    if (!cfg->progress.lock_id || !other->user || strcmp(world->user, other->user) != 0)
        return false;
    if (world->socket || other->socket)
        return world->socket && other->socket && strcmp(world->socket, other->socket) == 0;
    return world->host && other->host && strcmp(world->host, other->host) == 0 &&
           world->port == other->port;
}

void check_progress(struct check *c)
{
    struct err e = {0};
    bool remembers = false;
    if (!c->cfg->progress.lock_id)
        return;
    if (db_exec_with(c->db, "USE ??", DB_ARGS(c->cfg->schema), &e) == 0 &&
        local_exists(c->db, c->cfg->schema, &remembers, &e) == 0)
        local_facts(c, c->db, &e);
    check_fact(c, "local_forgets", !remembers);
    check_error(c, "local", &e);
    CHECK_RULES(c, local);
    check_central(c);
}
