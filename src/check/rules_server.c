#include "check/rules_server.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/machine.h"
#include "base/number.h"
#include "binlog/prerequisites.h"
#include "binlog/stream.h"
#include "check/rule.h"
#include "check/rules_privileges.h"
#include "mysql/answer.h"
#include "mysql/galera.h"
#include "mysql/packet_limit.h"
#include "mysql/prove.h"
#include "mysql/server.h"
#include "sql/literal.h"

/* ---- connection, version, encryption, account ---- */

#define CONNECTED "{vendor} {short_version} on {server} ({where}), {latency} ms there and back"
#define ANYBODY "while the server is down, any user of this machine can impersonate it"
#define NO_TLS "none: rows and logins cross the network unencrypted "

static const struct check_rule login[] = {
    /* These rules first test for reasons that the server does not name, and then report the
     * server's own error. */
    {"connection", "connect_error mysql.port=33060 !mysql.socket", CHECK_FAIL, "{connect_error}",
     "33060 is the port of MySQL's X protocol; the port of the classic protocol is 3306 by "
     "default"},
    {"connection", "connect_error certificate", CHECK_FAIL, "{connect_error}",
     "the server's certificate (ssl_cert, ssl_key) must name {mysql.host} and be signed by an "
     "authority in [mysql] tls_ca; automatically generated certificates name no host; tls = "
     "required encrypts without verifying the server"},
    {"connection", "connect_error unreachable", CHECK_FAIL, "{connect_error}",
     "is the server running, and is it at {where} ([mysql] in the config)?"},
    {"connection", "connect_error", CHECK_FAIL, "{connect_error}", "{connect_hint}"},
    {"connection", "slow", CHECK_WARN, CONNECTED ": near [probe] timeout"},
    {"connection", NULL, CHECK_OK, CONNECTED},
};

static const struct check_rule session[] = {
    /* Users of other versions must know this before a restore reveals a difference. */
    {"version", "tested", CHECK_OK, "{vendor} {version}: worldkeeper is tested with this version"},
    {"version", "documented", CHECK_NOTE,
     "{vendor} {version}: supported by its documentation; worldkeeper is tested with {tested_with}",
     "--drill shows whether dumps and restores work with it"},
    {"version", "old", CHECK_WARN,
     "{vendor} {version}: too old: worldkeeper supports {vendor} from {known_from} on",
     "upgrade the server; --drill shows whether dumps and restores work with it"},
    {"version", NULL, CHECK_NOTE,
     "{vendor} {version}: newer than what worldkeeper knows; it is tested with {tested_with}",
     "--drill shows whether dumps and restores work with it"},

    /* Without TLS, anyone on the network path can read the rows and the password. */
    {"encryption", "tls verified mysql.tls=verify", CHECK_OK,
     "{tls}; certificate verified for {name} against {authorities}"},
    {"encryption", "mysql.socket tls", CHECK_OK, "{tls}"},
    {"encryption", "mysql.socket", CHECK_OK, "none, and none is needed: the server's socket"},
    {"encryption", "tls !local", CHECK_NOTE,
     "{tls}, but a certificate that cannot be verified is accepted: an impersonator receives "
     "everything",
     "set [mysql] tls = verify, and tls_ca for a private authority"},
    {"encryption", "tls", CHECK_NOTE,
     "{tls}, but a certificate that cannot be verified is accepted: " ANYBODY,
     "[mysql] socket, or tls = verify"},
    {"encryption", "local", CHECK_NOTE, "none, and nothing leaves this machine, but " ANYBODY,
     "[mysql] socket, or tls = verify"},
    {"encryption", "mysql.tls=off tls_offered", CHECK_WARN, NO_TLS "([mysql] tls = off)",
     "[mysql] tls = verify"},
    {"encryption", "tls_offered", CHECK_WARN, NO_TLS "(the server offers TLS)",
     "[mysql] tls = verify"},
    {"encryption", NULL, CHECK_WARN, NO_TLS "(the server offers no TLS)",
     "give the server a certificate (ssl_cert, ssl_key), then [mysql] tls = verify"},

    /* A GRANT to the anonymous account would give the privileges to everyone. */
    {"account", "anonymous", CHECK_FAIL,
     "the server has no account {wanted:account} and logged worldkeeper in as {account}, the "
     "anonymous account, which anyone can use",
     "CREATE USER {wanted:account} {login}"},
    {"account", "everywhere local", CHECK_NOTE, "{account}: it may log in from every host",
     "an account only for this machine is safer: 'NAME'@'localhost', with a user name that no "
     "other "
     "account has, or it would get the sessions of that one",
     true},
    {"account", "!found", CHECK_OK, "{account}", NULL, true},
    {"account", "0<most_sessions most_sessions<5", CHECK_WARN,
     "at most {most_sessions} connections at a time; probe, dump and restore take up to 4",
     "ALTER USER {account} WITH MAX_USER_CONNECTIONS 0;"},
};

/* Sets {tested_with} ("10.5, 10.11, 11.8") and {known_from}, the oldest supported version. */
static void series_facts(struct check *c)
{
    SCOPED(buf_free) struct buf tested = {0};
    const struct server_series *s;
    const char *from = NULL;
    for (size_t i = 0; (s = server_series(i)); i++) {
        if (s->mariadb != c->version.mariadb)
            continue;
        if (s->support == SERVER_TESTED)
            buf_printf(&tested, "%s%s", tested.len ? ", " : "", s->name);
        if (s->support != SERVER_TOO_OLD && !from)
            from = s->name;
    }
    check_word(c, "tested_with", "%s %s", check_text(c, "vendor"), tested.p);
    check_word(c, "known_from", "%s", from);
}

void check_version(struct check *c)
{
    c->version = server_version_of(c->server.version);
    c->version.mariadb = c->mariadb;
    enum server_support support = server_support(c->version);
    check_word(c, "vendor", "%s", c->mariadb ? "MariaDB" : "MySQL");
    check_word(c, "version", "%s", c->server.version);
    series_facts(c);
    check_fact(c, "tested", support == SERVER_TESTED);
    check_fact(c, "documented", support == SERVER_DOCUMENTED);
    check_fact(c, "old", support == SERVER_TOO_OLD);
    /* The suffix of "10.11.19-MariaDB-…" is dropped because the vendor's name is shown before
     * it. */
    check_word(c, "short_version", "%.*s", (int)strcspn(c->server.version, "-"), c->server.version);
}

/* If no account has our name, the server may log us in as the anonymous account. A GRANT to that
 * account would be a GRANT to everyone. {login} is the clause for an account of our own. Over a
 * socket without a password it names {user} of this system, which in MariaDB must equal the
 * account's name. */
static void account_facts(struct check *c)
{
    const struct config_mysql *m = &c->cfg->mysql;
    const char *user = check_text(c, "user"), *at = strrchr(c->account.name, '@');
    bool same = strcmp(user, m->user) == 0;
    SCOPED(buf_free) struct buf b = {0};
    check_word(c, "wanted", "%s%s", m->user, c->account.name);
    db_account_quote(&b, c->account.name);
    check_word(c, "account", "%s", b.p);
    check_fact(c, "anonymous", c->account.name[0] == '@');
    check_fact(c, "everywhere", at && strcmp(at, "@%") == 0);
    check_number(c, "most_sessions", c->account.max_connections);
    check_word(c, "tls", "%s", c->account.tls);
    if (!m->socket || m->password_file)
        check_word(c, "login",
                   "IDENTIFIED BY '…'; with the password that is in [mysql] password_file");
    else if (!c->mariadb)
        check_word(c, "login", "IDENTIFIED WITH auth_socket%s%s%s;", same ? "" : " AS '",
                   same ? "" : user, same ? "" : "'");
    else
        check_word(c, "login", "%s",
                   same ? "IDENTIFIED VIA unix_socket;"
                        : "IDENTIFIED BY '…'; with that password in a file that [mysql] "
                          "password_file names");
}

/* Returns the round-trip time of one statement in milliseconds, the fastest of three. Returns a
 * negative value on failure. */
static double rules_server_latency(struct db *db, struct err *e)
{
    double best = -1;
    for (int i = 0; i < 3; i++) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        if (db_exec(db, "DO 1", e) < 0)
            return -1;
        clock_gettime(CLOCK_MONOTONIC, &to);
        double ms =
            (double)(to.tv_sec - from.tv_sec) * 1000.0 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
        best = best < 0 || ms < best ? ms : best;
    }
    return best;
}

static struct db_params params_of(const struct check *c, const char *password)
{
    struct db_params p = db_params_of(&c->cfg->mysql);
    p.password = c->cfg->mysql.password_file ? password : NULL;
    return p;
}

/* Connects and collects what the other checks need: identity, account and type of node. */
static int open_session(struct check *c, const char *password, struct err *e)
{
    struct db_params p = params_of(c, password);
    p.bulk = true;
    double ms = -1;
    c->db = db_open(&p, e);
    if (!c->db || db_server_id(c->db, &c->server, e) < 0 || db_account(c->db, &c->account, e) < 0 ||
        (ms = rules_server_latency(c->db, e)) < 0)
        return -1;
    c->mariadb = db_is_mariadb(c->db);
    check_fact(c, "mariadb", c->mariadb);
    check_word(c, "server", "%s", c->server.hostname);
    check_word(c, "latency", "%.2f", ms);
    SCOPED(xfree) char *authorities = db_authorities(&p);
    check_fact(c, "verified", db_verified(c->db));
    check_word(c, "name", "%s", c->cfg->mysql.socket ? "localhost" : c->cfg->mysql.host);
    check_word(c, "authorities", "%s", authorities);
    check_fact(c, "slow", ms * 4 > (double)c->cfg->probe_timeout);
    /* Newer MySQL has no have_ssl and always offers TLS. */
    const char *ssl = check_text(c, "@have_ssl");
    check_fact(c, "tls_offered", !ssl[0] || strcasecmp(ssl, "YES") == 0);
    check_version(c);
    account_facts(c);
    struct galera g = {0};
    struct err why = {0};
    check_fact(c, "node", galera_look(c->db, &g, &why) > 0);
    check_error(c, "galera", &why);
    check_word(c, "node_name", "%s", g.node);
    check_word(c, "node_status", "%s", g.status);
    return 0;
}

void check_connect(struct check *c, const char *password)
{
    const struct config_mysql *m = &c->cfg->mysql;
    struct err e = {0};
    check_fact(c, "local", m->socket || config_is_here(m->host));
    if (m->socket)
        check_word(c, "where", "socket %s", m->socket);
    else
        check_word(c, "where", "%s port %u", m->host, m->port);
    int rc = open_session(c, password, &e);
    check_error(c, "connect", &e);
    check_fact(c, "certificate", e.num == 2026 && m->tls == TLS_VERIFY); /* TLS handshake failed */
    check_fact(c, "unreachable", e.cls == ERR_UNREACHABLE && !e.hint[0]);
    CHECK_RULES(c, login);
    if (rc == 0)
        CHECK_RULES(c, session);
    /* The privileges of the anonymous account say nothing about those of ours. */
    if (rc < 0 || check_is(c, "anonymous")) {
        db_close(c->db);
        c->db = NULL;
    }
}

/* ---- sizes ---- */

/* Sets {name} to the table and the number of other tables, and {name_size} to its size. */
static void name_table(struct check *c, const char *name, const char *size_name, uint64_t size,
                       const struct db_table *t, unsigned count)
{
    SCOPED(buf_free) struct buf b = {0};
    sql_ident(&b, t->name);
    if (count > 1)
        buf_printf(&b, " (and %u more)", count - 1);
    check_word(c, name, "%s", b.p);
    check_number(c, size_name, (int64_t)size);
}

/* Sets the facts about table sizes. A MEMORY table keeps the limit with which it was created. When
 * it is created again, it gets the server's current limit. */
static void heap_facts(struct check *c)
{
    const struct db_table *full = NULL, *large = NULL, *largest = NULL;
    unsigned full_count = 0, large_count = 0;
    int64_t limit = check_value(c, "@max_heap_table_size");
    uint64_t most = limit > 0 ? (uint64_t)limit : 0;
    for (size_t i = 0; i < c->tables.count; i++) {
        const struct db_table *t = &c->tables.list[i];
        if (!t->memory)
            continue;
        if (!largest || db_table_bytes(t) > db_table_bytes(largest))
            largest = t;
        if (db_table_bytes(t) > most && large_count++ == 0)
            large = t;
        if (check_table_size(c, t, "size", "room") && full_count++ == 0)
            full = t;
    }
    uint64_t bytes = largest ? db_table_bytes(largest) : 0;
    check_number(c, "wanted_size", (int64_t)db_heap_wanted(bytes));
    if (largest)
        name_table(c, "largest", "largest_size", bytes, largest, 1);
    if (large)
        name_table(c, "large", "large_size", db_table_bytes(large), large, large_count);
    if (full) {
        check_table_size(c, full, "full_size", "full_most");
        name_table(c, "full", "full_size", full->data_length, full, full_count);
        check_word(c, "full_table", "%s", full->name);
    }
}

/* ---- journal ---- */

#define WRITTEN_EACH_SECOND                                                                        \
    "SELECT (SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME="     \
    "'BINLOG_BYTES_WRITTEN')/GREATEST(1,(SELECT VARIABLE_VALUE FROM "                              \
    "information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME='UPTIME'))"

/* Would enabling the binary log make the next restore fail (1419)? With a binary log, only SUPER
 * may move triggers or create functions, unless log_bin_trust_function_creators is on. */
static bool log_would_forbid(struct check *c)
{
    SCOPED(names_free) struct names functions = {0};
    if (check_value(c, "@log_bin") != 0 || check_may_server(c, MAY_SKIP_TRUST) ||
        check_value(c, "@log_bin_trust_function_creators") != 0)
        return false;
    return c->triggers.count > 0 || !check_routines_readable(c) ||
           (db_names(c->db, c->cfg->schema, DEFINITION_FUNCTION, &functions, NULL) == 0 &&
            functions.count > 0);
}

/* Does the server purge its log before the next dump is stored? With segments this does not matter.
 * The hint recommends twice the dump interval, because a dump takes time and one may fail. */
static void log_age_facts(struct check *c)
{
    const char *days = server_word(c->version, WORD_LOG_HELD_DAYS),
               *setting = days ? days : server_word(c->version, WORD_LOG_HELD),
               *total = server_word(c->version, WORD_LOG_TOTAL);
    const int64_t unit = days ? 86400 : 1, apart = c->cfg->dump_interval / 1000;
    if (c->cfg->journal == JOURNAL_FOLLOW)
        return;
    double held = 0; /* seconds */
    int64_t wanted = 0;
    int64_t age = setting ? db_variable_number(c->db, setting) : -1;
    int64_t most = total ? db_variable_number(c->db, total) : -1;
    if (age > 0 && age * unit < apart && check_value(c, "@binlog_expire_logs_auto_purge") != 0) {
        held = (double)(age * unit);
        wanted = (2 * apart + unit - 1) / unit;
    } else if (most > 0) {
        char *rate = db_one(c->db, WRITTEN_EACH_SECOND, NULL);
        double each_second = rate ? strtod(rate, NULL) : 0;
        free(rate);
        setting = total;
        if (each_second * (double)apart > (double)most) {
            held = (double)most / each_second;
            wanted = ((int64_t)(2 * each_second * (double)apart) / (1 << 20) + 1) << 20;
        }
    }
    check_word(c, "log_setting", "%s", setting ? setting : "");
    check_number(c, "log_wanted", wanted);
    check_number(c, "log_held", (int64_t)(held * 1000));
}

/* Sets {log_for_ever} to the setting because of which the log is never deleted, and the words with
 * the lines that change it. */
static void log_end_facts(struct check *c)
{
    const char *days = server_word(c->version, WORD_LOG_HELD_DAYS),
               *held = days ? days : server_word(c->version, WORD_LOG_HELD),
               *total = server_word(c->version, WORD_LOG_TOTAL);
    const int64_t unit = days ? 86400 : 1, apart = c->cfg->dump_interval / 1000;
    /* This is longer than the journal needs after the last dump. */
    int64_t keep = 2 * apart > 3 * 86400 ? 2 * apart : 3 * 86400;
    keep = (keep + unit - 1) / unit;
    if (check_text(c, "@binlog_expire_logs_auto_purge")[0] &&
        check_value(c, "@binlog_expire_logs_auto_purge") == 0) {
        check_word(c, "log_for_ever", "binlog_expire_logs_auto_purge = OFF");
        check_word(c, "log_keep", "binlog_expire_logs_auto_purge = ON");
        check_word(c, "log_keep_now", "binlog_expire_logs_auto_purge=ON");
    } else if (held && db_variable_number(c->db, held) == 0 &&
               !(total && db_variable_number(c->db, total) > 0)) {
        check_word(c, "log_for_ever", "%s = 0", held);
        check_word(c, "log_keep", "%s = %lld", held, (long long)keep);
        check_word(c, "log_keep_now", "%s=%lld", held, (long long)keep);
    }
}

/* Opens the binary log at its current end, so that no events are read. It shows whether a privilege
 * is missing; binlog_prerequisites() reports other reasons. */
void check_prove_log(struct check *c, const char *password)
{
    struct db_params p = params_of(c, password);
    struct db_binlog_pos now = {0};
    const struct binlog_options options = {.to_end = true};
    if (c->cfg->journal == JOURNAL_OFF)
        return;
    db_binlog_place(c->db, &now);
    if (now.file[0])
        binlog_close(binlog_open(&p, &now, &options, &c->log_refused));
}

/* Uses the same tests as dumps and restores. */
static void journal_facts(struct check *c)
{
    SCOPED(binlog_prerequisites_free) struct binlog_prerequisites a = {0};
    struct err e = {0};
    if (c->cfg->journal == JOURNAL_OFF)
        return;
    binlog_prerequisites(c->db, c->cfg->schema, &a, &e);
    check_error(c, "journal", &e);
    if (!a.reason && e.cls == ERR_NONE && c->log_refused.cls == ERR_DENIED) {
        a.reason = xasprintf("the account may not read the binary log: %s.", c->log_refused.text);
        a.hint = xstrdup(c->log_refused.hint);
    }
    check_word(c, "no_log", "%s", a.reason ? a.reason : "");
    if (a.reason)
        check_word(c, "log_hint", "%s%s", a.hint ? a.hint : "see worldkeeper(8), [journal]",
                   log_would_forbid(c)
                       ? "; and log_bin_trust_function_creators = ON beside it, without which no "
                         "restore could move this world's triggers or make its functions (1419)"
                       : "");
    log_age_facts(c);
}

/* ---- settings, clock ---- */

/* A row of a MEMORY table has at most 64 KiB, or twice that if every byte is escaped. */
#define PACKET_WANTED "262144"
#define PACKET_LEAST "65536" /* smaller packets cannot hold our own statements */
#define LONG_ROWS                                                                                  \
    "SELECT DISTINCT TABLE_NAME FROM information_schema.COLUMNS WHERE DATA_TYPE IN "               \
    "('longtext','longblob','mediumtext','mediumblob','json') AND TABLE_SCHEMA=?"
#define CLOCK_LIMIT "2000" /* ms; the smallest possible offset is compared with it */
#define EPOCH_2024 1704067200000

/* Returns whether the account may write although the server is read-only. */
static bool rules_server_may_write(struct check *c)
{
    struct err why;
    enum db_proof proof = db_prove_write(c->db, c->cfg->schema, c->cfg->sentinel, &why);
    return proof == DB_UNPROVEN ? check_may_server(c, MAY_WRITE_READ_ONLY) : proof == DB_PROVEN;
}

/* Sets the facts about settings that would make the server reject a statement of a dump or a
 * restore. */
static void setting_facts(struct check *c)
{
    const char *enforced = check_text(c, "@enforce_storage_engine");
    const char *disabled = check_text(c, "@disabled_storage_engines");
    int64_t packet = check_value(c, "@max_allowed_packet");
    struct err way_out = {0};
    check_fact(c, "may_write", check_is(c, "@read_only") && rules_server_may_write(c));
    const char *keys = server_privilege(c->version, MAY_LEAVE_KEYS);
    check_word(c, "keys_privilege", "%s", keys ? keys : "");
    check_word(c, "statement_limit", "%g",
               strtod(check_text(c, "@session.max_statement_time"), NULL));
    check_word(c, "enforced", "%s", strcasecmp(enforced, "MEMORY") == 0 ? "" : enforced);
    check_word(c, "disabled", "%s", strcasestr(disabled, "MEMORY") ? disabled : "");
    if (packet < (int64_t)DB_PACKET_LARGEST)
        db_packet_hint(&way_out, packet < strtoll(PACKET_WANTED, NULL, 10) ? 0 : DB_PACKET_UNKNOWN);
    check_word(c, "packet_hint", "%s", way_out.hint);
    /* With sql_require_primary_key on, copies get a key of their own, but the world's tables are
     * created without changes. A session turns the setting off if the account may do so. */
    for (size_t i = c->tables.count; i-- > 0;) {
        const struct db_table *t = &c->tables.list[i];
        if (t->has_key || (!t->memory && !c->cfg->restore_all))
            continue;
        check_fact(c, "no_key", true);
        check_word(c, "keyless", "%s", t->name);
    }
}

/* The server's clock dates its log and the loss. Our clock dates the dumps and the times shown to
 * users. */
static void clock_facts(struct check *c)
{
    struct err e = {0};
    char t[TEXT_SHORT];
    wall_t before = clock_wall();
    SCOPED(xfree) char *v = db_one(c->db, "SELECT UNIX_TIMESTAMP(NOW(6))", &e);
    wall_t after = clock_wall();
    check_word(c, "now", "%s", text_utc(after, t));
    check_fact(c, "clock_unset", after.ms < EPOCH_2024);
    if (!v && e.cls == ERR_NONE)
        err_set(&e, ERR_QUERY, 0, "the server does not report its time");
    else if (v && answer_wrong('s', v, strlen(v)))
        db_invalid(c->db, &e, "its time is not in seconds");
    check_error(c, "clock", &e);
    if (v && e.cls == ERR_NONE) {
        /* The server read its clock at some time between our two readings; the middle is
         * assumed. */
        int64_t error = (after.ms - before.ms) / 2;
        int64_t ahead = (int64_t)(strtod(v, NULL) * 1000.0) - (before.ms + error);
        check_number(c, "clock_off", ahead < 0 ? -ahead : ahead);
        check_number(c, "clock_least", (ahead < 0 ? -ahead : ahead) - error);
        check_word(c, "way", "%s", ahead > 0 ? "ahead of" : "behind");
    }
}

#define MEMORY                                                                                     \
    "for its copy, a dump needs up to {memory_data:size} of additional memory in the server"
#define NO_JOURNAL "none, so changes after the last dump are lost with the server: {no_log}"

static const struct check_rule server[] = {
    /* A restore sets its own limit, but the game fills the table up to the existing one. */
    {"table size", "full", CHECK_WARN,
     "{full} is 80 % full or more: {full_size:size} of {full_most:size}; after that the game's "
     "INSERTs fail (1114)",
     "SET SESSION max_heap_table_size={wanted_size}; ALTER TABLE "
     "{world.schema:name}.{full_table:name} ENGINE=MEMORY; and "
     "raise the server's",
     true},
    {"table size", "large", CHECK_WARN,
     "{large} takes {large_size:size}, the server's max_heap_table_size is "
     "{@max_heap_table_size:size}. A restore raises the limit for it, but after a restart, "
     "TRUNCATE or ALTER the table has the server's limit again",
     DB_SET_FOR_GOOD("max_heap_table_size", "{wanted_size}")},
    {"table size", "largest", CHECK_OK,
     "max_heap_table_size is {@max_heap_table_size:size}; the largest table, {largest}, takes "
     "{largest_size:size}"},

    /* Method copy stores its copies in the server's memory, in addition to the tables. */
    {"memory", "memory_data !dump.method=lock !available", CHECK_NOTE,
     MEMORY "; the memory of that machine is unknown"},
    {"memory", "memory_data !dump.method=lock available<memory_wanted", CHECK_WARN,
     MEMORY ", {available:size} is available",
     "[dump] method = lock needs no memory, but writers wait for the whole dump"},
    {"memory", "memory_data !dump.method=lock", CHECK_OK, MEMORY ", {available:size} is available"},

    /* A row longer than a packet can be neither dumped nor loaded. */
    {"packet size", "@max_allowed_packet @max_allowed_packet<" PACKET_LEAST, CHECK_FAIL,
     "max_allowed_packet is {@max_allowed_packet:size}: dumps and restores fail with it",
     "{packet_hint}"},
    {"packet size", "@max_allowed_packet @max_allowed_packet<" PACKET_WANTED, CHECK_WARN,
     "max_allowed_packet is {@max_allowed_packet:size}; a row of a MEMORY table may need twice 64 "
     "KiB as SQL",
     "{packet_hint}"},
    {"packet size", "@max_allowed_packet dump.engines=all", CHECK_NOTE,
     "max_allowed_packet is {@max_allowed_packet:size}; a longer row in {names} would make dumps "
     "fail",
     "{packet_hint}", false, LONG_ROWS},
    {"packet size", "@max_allowed_packet", CHECK_OK,
     "max_allowed_packet is {@max_allowed_packet:size}"},

    /* Without a log that records every row, a loss costs everything since the last dump. */
    {"journal", "journal.mode=off", CHECK_WARN,
     "[journal] mode = off: a restore brings back only the dump", "set [journal] mode = auto"},
    {"journal", "journal_error", CHECK_WARN, "cannot be asked for: {journal_error}"},
    {"journal", "no_log !journal.mode=auto", CHECK_FAIL, NO_JOURNAL, "{log_hint}"},
    {"journal", "no_log", CHECK_WARN, NO_JOURNAL, "{log_hint}"},
    {"journal", "durable_tables dump.engines=all restore.scope=all", CHECK_WARN,
     "not used in restores, because they include durable tables, whose changes are not followed: "
     "changes after the last dump are lost with the server",
     "[restore] scope = lost; --restore --into SCHEMA brings durable tables back"},
    {"journal", "log_held", CHECK_WARN,
     "the server deletes its log after about {log_held:time} ({log_setting}), and dumps are "
     "{dump.interval:time} apart: after a loss that late, changes since the last dump are gone",
     "set {log_setting} = {log_wanted} under [mysqld] in the server's my.cnf, and now: SET GLOBAL "
     "{log_setting}={log_wanted};"},
    {"journal", "@max_binlog_stmt_cache_size<1000000000000000000", CHECK_WARN,
     "max_binlog_stmt_cache_size is {@max_binlog_stmt_cache_size:size}: a statement that changes "
     "more fails, and its changes up to then (possibly also later ones) are not in the log",
     "remove max_binlog_stmt_cache_size from [mysqld] in the server's my.cnf, and now: SET GLOBAL "
     "max_binlog_stmt_cache_size=18446744073709547520;"},
    {"journal", NULL, CHECK_OK,
     "the server's binary log holds each changed row: a restore brings back all acknowledged "
     "changes"},

    /* These rules report the cost of the log, and what a power failure may cost with it. */
    {"binary log", "@log_bin log_for_ever", CHECK_WARN,
     "the server never deletes its binary log ({log_for_ever}): it will fill the disk",
     "set {log_keep} under [mysqld] in the server's my.cnf, and now: SET GLOBAL {log_keep_now};",
     true},
    {"binary log", "@log_bin !journal.mode=off !@sync_binlog", CHECK_WARN,
     "sync_binlog = 0: after a power failure or a crash of the machine, the end of the log, and "
     "with it the last changes, may be missing; a crash of only the server loses nothing",
     "set sync_binlog = 1 under [mysqld] in the server's my.cnf, and now: SET GLOBAL "
     "sync_binlog=1; each transaction then waits for the disk",
     true},
    {"binary log", "@log_bin !found", CHECK_OK, "it is purged in time and synced to the disk"},

    /* Each of these settings alone makes a dump or a restore fail or wait. */
    {"settings", "@super_read_only", CHECK_FAIL,
     "super_read_only is on: nothing can be restored on this server",
     "name the server that takes writes, or " DB_UNSET_FOR_GOOD("super_read_only", "OFF"), true},
    {"settings", "@read_only !@super_read_only !may_write", CHECK_FAIL,
     "read_only is on: nothing can be restored on this server",
     "name the server that takes writes, or " DB_UNSET_FOR_GOOD("read_only", "OFF"), true},
    {"settings", "@read_only !@super_read_only may_write", CHECK_NOTE,
     "read_only is on, but this account may write", NULL, true},
    {"settings", "statement_limit", CHECK_WARN,
     "max_statement_time = {statement_limit}: a statement over a large table is ended after this "
     "many seconds, and the dump or restore fails",
     "ALTER USER {account} WITH MAX_STATEMENT_TIME 0;", true},
    {"settings", "@init_file", CHECK_NOTE,
     "init_file = {@init_file}: rows that it puts into MEMORY tables at a start conflict with the "
     "restore and go to a conflict file",
     NULL, true},
    {"settings", "enforced", CHECK_FAIL,
     "enforce_storage_engine = {enforced}: no MEMORY table can be created",
     DB_UNSET_FOR_GOOD("enforce_storage_engine", "NULL"), true},
    {"settings", "disabled", CHECK_FAIL,
     "disabled_storage_engines = {disabled}: no MEMORY table can be created",
     "remove MEMORY from it in the server's option file, and restart the server, which empties "
     "MEMORY tables: dump first",
     true},
    {"settings", "@session.sql_require_primary_key no_key", CHECK_FAIL,
     "sql_require_primary_key is on, but table {keyless} has no key: a restore could not create it",
     "GRANT {keys_privilege} ON *.* TO {account}; or give that table a primary key", true},
    {"settings", "@session.sql_require_primary_key !no_key", CHECK_NOTE,
     "sql_require_primary_key is on: a dump must add keys to the copies that it reads, so writers "
     "wait two or three times as long",
     "GRANT {keys_privilege} ON *.* TO {account};", true},
    {"settings", "@offline_mode", CHECK_WARN,
     "offline_mode is on: only administrators can connect, so the game cannot run",
     DB_UNSET_FOR_GOOD("offline_mode", "OFF"), true},
    {"settings", "!found", CHECK_OK, "no setting of the server prevents dumps or restores"},

    /* The clock affects only the ages of dumps and the times shown to users. */
    {"clock", "clock_unset", CHECK_WARN,
     "this machine's clock shows {now}: names and ages of dumps will be misleading",
     "timedatectl set-ntp true"},
    {"clock", "clock_error", CHECK_WARN, "{clock_error}", "{clock_hint}"},
    {"clock", CLOCK_LIMIT "<clock_least", CHECK_WARN,
     "the server's clock is {clock_off:time} {way} this machine's",
     "restores use sequence numbers, not times, but displayed ages will be wrong; synchronize the "
     "clocks (NTP)"},
    {"clock", NULL, CHECK_OK, "the server's clock and this machine's agree"},
};

void check_server(struct check *c)
{
    int64_t available = check_is(c, "local") ? memory_available() : -1;
    if (available >= 0)
        check_number(c, "available", available);
    check_number(c, "memory_data", number_signed(c->memory_data));
    /* The rows of a copy may be aligned differently from those of the table. */
    check_number(c, "memory_wanted",
                 number_signed(number_sum(c->memory_data, c->memory_data / 10)));
    heap_facts(c);
    journal_facts(c);
    log_end_facts(c);
    setting_facts(c);
    clock_facts(c);
    CHECK_RULES(c, server);
}

/* ---- replication ---- */

#define OPENED                                                                                     \
    "{replicas} connected. After a restart of this server they keep the rows of each MEMORY "      \
    "table "                                                                                       \
    "that {@init_file} opens with sql_log_bin=0, and are emptied of others; "
#define EMPTIED                                                                                    \
    "{replicas} connected. A restart of this server empties the MEMORY tables there, too: it "     \
    "logs a "                                                                                      \
    "TRUNCATE of each as soon as that is opened. "
#define REFILLED EMPTIED "A restore is logged and fills them again"
#define STOPPED                                                                                    \
    EMPTIED "A restore is not logged ([restore] binlog = no): the next UPDATE or DELETE of a row " \
            "that they lack stops them (error 1032)"
#define OPENING                                                                                    \
    "if replicas are to keep their rows: mariadb -N -B -r -e {opening:shell} > "                   \
    "/etc/mysql/{world.name}-open.sql, again after each CREATE TABLE, and init_file = "            \
    "/etc/mysql/{world.name}-open.sql under [mysqld] in the server's my.cnf"
#define GROUP                                                                                      \
    " MySQL Group Replication refuses each change of a MEMORY table (error 3098), the game's "     \
    "too: no world can be kept on such a server"
#define OTHER_SERVER "keep the world on a server of its own, or use ordinary replication from it"

static const struct check_rule replication[] = {
    /* In group replication, no MEMORY table can be changed. */
    {"group replication", "@group_replication_group_name group_runs", CHECK_FAIL,
     "this server is a member of a group." GROUP, OTHER_SERVER},
    {"group replication", "@group_replication_group_name !group_known", CHECK_WARN,
     "a group is configured." GROUP, OTHER_SERVER},

    /* These rules report how a restart of this server affects its replicas' rows, and whether a
     * restore reaches the replicas. */
    {"replicas", "replicas mariadb @init_file restore.binlog", CHECK_NOTE,
     OPENED "a restore is logged, and carried out there again"},
    {"replicas", "replicas mariadb @init_file", CHECK_OK,
     OPENED "a restore is not logged, and where it lost nothing they go on"},
    {"replicas", "replicas mariadb restore.binlog", CHECK_NOTE, REFILLED, OPENING},
    {"replicas", "replicas mariadb", CHECK_WARN, STOPPED, OPENING},
    {"replicas", "replicas restore.binlog", CHECK_NOTE, REFILLED},
    {"replicas", "replicas", CHECK_WARN, STOPPED,
     "[restore] binlog = yes; MySQL has no way to keep that TRUNCATE out of its log"},

    /* A replica's rows come from its source, so its restores must come from there too. */
    {"replica", "fed", CHECK_WARN,
     "this server is a replica. Its restart empties its MEMORY tables, and the next UPDATE or "
     "DELETE that comes from its source stops replication (error 1032), a restore or not: what its "
     "source did meanwhile is in no dump of this one",
     "keep the world on the source, and on this server SET sql_log_bin=0; ALTER TABLE … "
     "ENGINE=InnoDB for each table, which survives a restart"},

    /* Rows of MEMORY tables exist on one node only, but DDL applies to all nodes. */
    {"galera", "galera_error", CHECK_WARN, "{galera_error}", "{galera_hint}"},
    {"galera", "node node_status !node_status=Primary", CHECK_FAIL,
     "node {node_name} is not in the cluster's primary component (wsrep_cluster_status = "
     "{node_status}): its tables may be outdated, so nothing is restored",
     GALERA_PRIMARY_HINT},
    {"galera", "node !own_node", CHECK_FAIL,
     "node {node_name}: restores, drills and --init are refused, because CREATE, RENAME and DROP "
     "would be executed on all nodes and empty their MEMORY tables; to limit them to this node "
     "(wsrep_on) the account needs {cluster_privilege}",
     "GRANT {cluster_privilege} ON *.* TO {account};"},
    {"galera", "node restore.scope=all", CHECK_WARN,
     "node {node_name}: [restore] scope = all has no effect in the world itself, because durable "
     "tables belong to the whole cluster and would differ if restored on one node",
     "[restore] scope = lost; --restore --into SCHEMA brings durable tables back, on this node "
     "alone"},
    {"galera", "node", CHECK_OK,
     "node {node_name}: restores, drills and --init affect only this node; MEMORY rows exist on "
     "one node only, so the game must use this one"},
};

/* Tests node ownership as a restore does. This session takes part in the cluster again
 * afterwards. */
static bool owns_node(struct check *c)
{
    struct err why = {0}, ignored;
    if (galera_own_node(c->db, &why) == 0)
        return galera_share(c->db, true, &ignored) == 0;
    return why.num != GALERA_DENIED && (!c->grants_known || check_may_server(c, MAY_LEAVE_CLUSTER));
}

void check_replication(struct check *c)
{
    struct err ignored;
    /* Group Replication rejects every change of a MEMORY table. Few accounts may see whether it is
     * running. */
    SCOPED(xfree) char *members =
        !check_is(c, "@group_replication_group_name")
            ? NULL
            : db_one(c->db,
                     "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE "
                     "MEMBER_STATE<>'OFFLINE'",
                     NULL);
    check_fact(c, "group_known", members != NULL);
    check_word(c, "group_runs", "%s", members ? members : "");
    /* Sets {opening} to a query whose result is a file for init_file. The file opens each MEMORY
     * table at the server's start, unlogged and before other sessions. That keeps the server's own
     * TRUNCATE out of MariaDB's log; MySQL logs it in any case. */
    SCOPED(buf_free) struct buf opening = {0};
    buf_adds(&opening,
             "SELECT 'SET sql_log_bin=0;' UNION ALL SELECT CONCAT('SELECT 1 FROM "
             "`',REPLACE(TABLE_SCHEMA,'`','``'),'`.`',REPLACE(TABLE_NAME,'`','``'),'` LIMIT 0;') "
             "FROM information_schema.TABLES WHERE ENGINE='MEMORY' AND TABLE_SCHEMA=");
    sql_string(&opening, c->cfg->schema, strlen(c->cfg->schema));
    check_word(c, "opening", "%s", opening.p);
    int count = replicas_connected(c->db);
    if (count > 0)
        check_word(c, "replicas", "%d %s", count, count == 1 ? "is" : "are");
    check_fact(c, "fed", replicas_fed(c->db, &ignored) > 0);
    const char *leave = server_privilege(c->version, MAY_LEAVE_CLUSTER);
    check_word(c, "cluster_privilege", "%s", leave ? leave : "");
    check_fact(c, "own_node", check_is(c, "node") && owns_node(c));
    CHECK_RULES(c, replication);
}
