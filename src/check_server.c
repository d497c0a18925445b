#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "db/binlog.h"
#include "db/packet.h"
#include "db/sql.h"

#define NEAR_LIMIT_PERCENT 80
#define CLOCK_LIMIT 2000 /* ms */
/* A row of a MEMORY table has at most 64 KiB, twice that when every byte is escaped. */
#define PACKET_WANTED (256u << 10)
#define X_PORT 33060u
#define EPOCH_2024 1704067200000

/* Connection */

static bool is_local(const struct config_mysql *m)
{
    return m->socket || strcmp(m->host, "localhost") == 0 || text_starts(m->host, "127.") ||
           strcmp(m->host, "::1") == 0;
}

static void where(const struct config_mysql *m, char out[300])
{
    if (m->socket)
        snprintf(out, 300, "socket %s", m->socket);
    else
        snprintf(out, 300, "%s port %u", m->host, m->port);
}

static void tell_version(struct check *c)
{
    enum check_level level;
    bool mariadb = db_is_mariadb(c->db);
    char *said = check_version(mariadb, c->server.version, &level);
    check_add(c, level, "version", "%s %s: %s", mariadb ? "MariaDB" : "MySQL", c->server.version,
              said);
    if (level == CHECK_WARN)
        check_hint(c, "upgrade the server; --drill shows whether dumps and restores work with it");
    free(said);
}

static void check_encryption(struct check *c)
{
    const struct config_mysql *m = &c->cfg->mysql;
    static const char name[] = "encryption";
    if (c->session.tls[0] && m->tls != TLS_VERIFY && !c->local) {
        check_add(c, CHECK_NOTE, name, "%s, but the server's certificate is not looked at",
                  c->session.tls);
        check_hint(c, "[mysql] tls = verify, with tls_ca for an authority of your own");
    } else if (c->session.tls[0]) {
        check_add(c, CHECK_OK, name, "%s%s", c->session.tls,
                  m->tls == TLS_VERIFY ? ", certificate checked" : "");
    } else if (c->local) {
        check_add(c, CHECK_OK, name, "none, and none is needed: the server is on this machine");
    } else {
        char *have = db_variable(c->db, "have_ssl"); /* gone in newer MySQL, which always offers */
        bool offered = !have || strcasecmp(have, "YES") == 0;
        check_add(c, CHECK_WARN, name,
                  "none: rows and logins cross the network for everybody to read (%s)",
                  m->tls == TLS_OFF ? "[mysql] tls = off"
                  : offered         ? "the server offers TLS"
                                    : "the server offers no TLS");
        check_hint(c, "%s[mysql] tls = verify",
                   offered ? "" : "give the server a certificate (ssl_cert, ssl_key), then ");
        free(have);
    }
}

/* Who has no account is let in as nobody where the server has an account without a name. A GRANT to
 * that one would be a GRANT to everybody. */
static bool is_nobody(const struct check *c)
{
    return c->session.account[0] == '@';
}

static void check_nobody(struct check *c)
{
    const struct config_mysql *m = &c->cfg->mysql;
    struct buf taken = {0}, wanted = {0};
    char *name = xasprintf("%s%s", m->user, c->session.account);
    const char *by_name =
        db_is_mariadb(c->db) ? "IDENTIFIED VIA unix_socket;" : "IDENTIFIED WITH auth_socket;";
    doctor_account(&taken, c->session.account);
    doctor_account(&wanted, name);
    check_add(c, CHECK_FAIL, "account",
              "the server has no account %s and took us for %s, which has no name and is anybody's",
              wanted.p, taken.p);
    check_hint(c, "CREATE USER %s %s", wanted.p,
               m->socket && !m->password_file
                   ? by_name
                   : "IDENTIFIED BY '…'; with the password that is in [mysql] password_file");
    buf_free(&taken);
    buf_free(&wanted);
    free(name);
}

static void check_account(struct check *c)
{
    struct buf b = {0};
    const char *account = c->session.account, *at = strrchr(account, '@');
    doctor_account(&b, account);
    if (at && strcmp(at, "@%") == 0 && c->local) {
        check_add(c, CHECK_NOTE, "account", "%s: it may log in from every host", b.p);
        check_hint(c, "an account for this machine only is safer: 'NAME'@'localhost'");
    } else {
        check_add(c, CHECK_OK, "account", "%s", b.p);
    }
    buf_free(&b);
    if (c->session.max_connections > 0 && c->session.max_connections < 5) {
        check_add(c, CHECK_WARN, "account",
                  "at most %" PRId64 " connections at a time; probe, dump and restore take up to 4",
                  c->session.max_connections);
        check_hint(c, "ALTER USER … WITH MAX_USER_CONNECTIONS 0");
    }
}

void check_connect(struct check *c, const char *password)
{
    const struct config_mysql *m = &c->cfg->mysql;
    struct err e = {0};
    char at[300];
    double ms = 0;
    struct db_params p = {.socket = m->socket,
                          .host = m->host,
                          .port = m->port,
                          .user = m->user,
                          .password = m->password_file ? password : NULL,
                          .tls_ca = m->tls_ca,
                          .tls = (int)m->tls,
                          .connect_timeout = m->connect_timeout,
                          .read_timeout = m->read_timeout,
                          .bulk = true};
    where(m, at);
    c->local = is_local(m);
    c->db = db_open(&p, &e);
    if (!c->db || db_server_id(c->db, &c->server, &e) < 0 ||
        doctor_session(c->db, &c->session, &e) < 0 || doctor_latency(c->db, &ms, &e) < 0) {
        if (m->port == X_PORT && !m->socket)
            err_hint(&e,
                     "%u is the port of MySQL's X protocol; the one of the classic protocol is "
                     "3306 when nothing else is said",
                     X_PORT);
        else if (e.num == 2026 && m->tls == TLS_VERIFY)
            err_hint(
                &e,
                "the server's certificate must be made out to %s (ssl_cert and ssl_key; what a "
                "server makes for itself is made out to nobody), by an authority that "
                "[mysql] tls_ca names; tls = required encrypts without knowing who answers",
                m->host);
        else if (e.cls == ERR_UNREACHABLE && !e.hint[0])
            err_hint(&e, "is the server running, and is it at %s ([mysql] in the config)?", at);
        check_error(c, CHECK_FAIL, "connection", &e);
        db_close(c->db);
        c->db = NULL;
        return;
    }
    bool slow = ms * 4 > (double)c->cfg->probe_timeout;
    /* "10.11.19-MariaDB-…": the vendor is told before */
    int version = (int)strcspn(c->server.version, "-");
    check_add(c, slow ? CHECK_WARN : CHECK_OK, "connection",
              "%s %.*s on %s (%s), %.2f ms there and back%s",
              db_is_mariadb(c->db) ? "MariaDB" : "MySQL", version, c->server.version,
              c->server.hostname, at, ms, slow ? ": near [probe] timeout" : "");
    tell_version(c);
    check_encryption(c);
    if (!is_nobody(c)) {
        check_account(c);
        return;
    }
    check_nobody(c);
    db_close(c->db);
    c->db = NULL;
}

/* Clocks */

static void check_clock(struct check *c)
{
    struct err e = {0};
    int64_t ahead, error;
    char t[TEXT_SHORT];
    if (clock_wall().ms < EPOCH_2024) {
        check_add(c, CHECK_WARN, "clock",
                  "it says %s here: names and ages of dumps will mislead people",
                  text_utc(clock_wall(), t));
        check_hint(c, "timedatectl set-ntp true");
        return;
    }
    if (doctor_clock(c->db, &ahead, &error, &e) < 0) {
        check_error(c, CHECK_WARN, "clock", &e);
        return;
    }
    int64_t off = ahead < 0 ? -ahead : ahead;
    if (off - error > CLOCK_LIMIT) {
        check_add(c, CHECK_WARN, "clock", "the server's is %s %s ours", text_duration(off, t),
                  ahead > 0 ? "ahead of" : "behind");
        check_hint(c, "restores go by numbers, not by time, but ages told to people will be wrong; "
                      "set the clocks (NTP)");
    } else {
        check_add(c, CHECK_OK, "clock", "the server's and ours agree");
    }
}

/* Settings */

static bool text_is(const char *v, const char *const *any)
{
    for (; v && *any; any++)
        if (strcasecmp(v, *any) == 0)
            return true;
    return false;
}

static bool variable_on(struct check *c, const char *name)
{
    static const char *const yes[] = {"1", "ON", "YES", NULL};
    char *v = db_variable(c->db, name);
    bool on = text_is(v, yes);
    free(v);
    return on;
}

static bool may(const struct check *c, const char *right)
{
    return c->grants_known &&
           (grants_have(&c->grants, NULL, right) || grants_have(&c->grants, NULL, "SUPER"));
}

/* Returns whether something was found. */
static bool check_read_only(struct check *c)
{
    bool super = variable_on(c, "super_read_only"), read_only = variable_on(c, "read_only");
    if (!super && !read_only)
        return false;
    if (!super && may(c, db_is_mariadb(c->db) ? "READ_ONLY ADMIN" : "CONNECTION_ADMIN")) {
        check_add(c, CHECK_NOTE, "settings",
                  "read_only is on; this account may write all the same");
        return true;
    }
    check_add(c, CHECK_FAIL, "settings", "%s is on: nothing can be restored on this server",
              super ? "super_read_only" : "read_only");
    check_hint(c, "name the server that takes writes, or SET GLOBAL %s=OFF",
               super ? "super_read_only" : "read_only");
    return true;
}

static bool check_engine_rules(struct check *c)
{
    bool found = false;
    char *engine = db_variable(c->db, "enforce_storage_engine");
    if (engine && engine[0] && strcasecmp(engine, "MEMORY") != 0) {
        check_add(c, CHECK_FAIL, "settings",
                  "enforce_storage_engine = %s: no MEMORY table can be made", engine);
        check_hint(c, "SET GLOBAL enforce_storage_engine=NULL");
        found = true;
    }
    free(engine);
    char *disabled = db_is_mariadb(c->db) ? NULL : db_variable(c->db, "disabled_storage_engines");
    if (disabled && strcasestr(disabled, "MEMORY")) {
        check_add(c, CHECK_FAIL, "settings",
                  "disabled_storage_engines = %s: no MEMORY table can be made", disabled);
        check_hint(c, "take MEMORY out of it in the server's option file, and restart the server");
        found = true;
    }
    free(disabled);
    return found;
}

/* Where the account may, its sessions set it aside. Else copies get a key of their own; the world's
 * tables are made as they are. */
static bool check_key_rule(struct check *c)
{
    struct buf account = {0};
    const struct db_table *bare = NULL;
    char *on = db_one(c->db, "SELECT @@session.sql_require_primary_key", NULL);
    bool wanted = on && strcmp(on, "1") == 0;
    free(on);
    if (!wanted)
        return false;
    for (size_t i = 0; i < c->tables.count && !bare; i++)
        if (!c->tables.list[i].has_key && (c->tables.list[i].memory || c->cfg->restore_all))
            bare = &c->tables.list[i];
    if (bare)
        check_add(c, CHECK_FAIL, "settings",
                  "sql_require_primary_key is on, and table %s has no key: a restore could not "
                  "make it",
                  bare->name);
    else
        check_add(c, CHECK_NOTE, "settings",
                  "sql_require_primary_key is on: the copies that a dump reads from get a key, and "
                  "writers wait two or three times as long for them");
    doctor_account(&account, c->session.account);
    check_hint(c, "GRANT SESSION_VARIABLES_ADMIN ON *.* TO %s;%s", account.p,
               bare ? " or give that table a primary key" : "");
    buf_free(&account);
    return true;
}

static bool check_offline(struct check *c)
{
    if (!variable_on(c, "offline_mode"))
        return false;
    check_add(c, CHECK_WARN, "settings",
              "offline_mode is on: none but administrators get in, so no game runs");
    check_hint(c, "SET GLOBAL offline_mode=OFF");
    return true;
}

static void check_settings(struct check *c)
{
    bool found = check_read_only(c);
    char *limit = db_one(c->db, "SELECT @@session.max_statement_time", NULL);
    if (limit && strtod(limit, NULL) > 0) {
        check_add(c, CHECK_WARN, "settings",
                  "max_statement_time = %g: a statement over a large table is cut off after so "
                  "many seconds, and the dump or restore with it",
                  strtod(limit, NULL));
        check_hint(c, "ALTER USER … WITH MAX_STATEMENT_TIME 0 for worldkeeper's account");
        found = true;
    }
    free(limit);
    char *file = db_variable(c->db, "init_file");
    if (file && file[0]) {
        check_add(c, CHECK_NOTE, "settings",
                  "init_file = %s: rows that it puts into MEMORY tables at a start are in the "
                  "restore's way and go to a conflict file",
                  file);
        found = true;
    }
    free(file);
    found = check_engine_rules(c) || found;
    found = check_key_rule(c) || found;
    found = check_offline(c) || found;
    if (!found)
        check_add(c, CHECK_OK, "settings",
                  "nothing in the server's is in the way of dumps and restores");
}

/* What a log of the world's MEMORY tables cannot bring back goes with them in one swap. */
static bool restores_durable(const struct check *c)
{
    bool any = false;
    for (size_t i = 0; i < c->tables.count; i++)
        any |= !c->tables.list[i].memory;
    return any && c->cfg->dump_all && c->cfg->restore_all;
}

/* With `auto` a server without it is as good as one can have; asked for by name it is missing. */
static void check_journal(struct check *c)
{
    static const char name[] = "journal";
    struct binlog_ability a;
    struct err e;
    if (c->cfg->journal == JOURNAL_OFF) {
        check_add(c, CHECK_NOTE, name,
                  "[journal] mode = off: a restore brings back the dump and nothing newer");
        return;
    }
    if (binlog_ability(c->db, c->cfg->schema, &a, &e) < 0) {
        check_add(c, CHECK_WARN, name, "cannot be asked for: %s", e.text);
        return;
    }
    if (!a.reason && restores_durable(c)) {
        check_add(
            c, CHECK_WARN, name,
            "left out of restores, which bring durable tables back too, whose changes are not "
            "followed: what is played after the last dump is lost with the server");
        check_hint(c, "[restore] scope = lost; --restore --into SCHEMA brings durable tables back");
    } else if (!a.reason) {
        check_add(c, CHECK_OK, name,
                  "the server's binary log holds each changed row: a restore brings back all that "
                  "was acknowledged");
    } else {
        bool must = c->cfg->journal != JOURNAL_AUTO;
        check_add(c, must ? CHECK_FAIL : CHECK_NOTE, name,
                  "none, so what is played after the last dump is lost with the server: %s",
                  a.reason);
        check_hint(c, "%s", a.hint ? a.hint : "see worldkeeper(8), [journal]");
    }
    binlog_ability_free(&a);
}

static void check_packet(struct check *c)
{
    static const char name[] = "packet size";
    int64_t packet = db_variable_number(c->db, "max_allowed_packet");
    struct db_names wide = {0};
    struct buf b = {0};
    struct err way_out = {0};
    char t[TEXT_SHORT];
    if (packet <= 0)
        return;
    text_size((uint64_t)packet, t);
    if (packet < PACKET_WANTED) {
        check_add(c, CHECK_WARN, name,
                  "max_allowed_packet is %s; a row of a MEMORY table may need twice 64 KiB as SQL",
                  t);
        db_packet_hint(&way_out, 0);
    } else if (c->cfg->dump_all &&
               doctor_odd_tables(c->db, c->cfg->schema, DOCTOR_LONG_ROWS, &wide, NULL) == 0 &&
               wide.count) {
        check_names(&b, &wide, 5);
        check_add(c, CHECK_NOTE, name,
                  "max_allowed_packet is %s; a longer row in %s would make dumps fail", t, b.p);
        if (packet < DB_PACKET_LARGEST)
            db_packet_hint(&way_out, DB_PACKET_UNKNOWN);
    } else {
        check_add(c, CHECK_OK, name, "max_allowed_packet is %s", t);
    }
    if (way_out.hint[0])
        check_hint(c, "%s", way_out.hint);
    db_names_free(&wide);
    buf_free(&b);
}

/* Size limits */

struct heap {
    uint64_t limit;
    const struct db_table *largest, *over, *near; /* the first ones of each */
    unsigned over_count, near_count;
};

static uint64_t total_size(const struct db_table *t)
{
    return t->data_length + t->index_length;
}

static void measure_heap(const struct check *c, struct heap *h)
{
    for (size_t i = 0; i < c->tables.count; i++) {
        const struct db_table *t = &c->tables.list[i];
        if (!t->memory)
            continue;
        if (!h->largest || total_size(t) > total_size(h->largest))
            h->largest = t;
        if (total_size(t) > h->limit && h->over_count++ == 0)
            h->over = t;
        if (t->max_data_length && t->data_length / NEAR_LIMIT_PERCENT >= t->max_data_length / 100 &&
            h->near_count++ == 0)
            h->near = t;
    }
}

static uint64_t suggested_limit(uint64_t largest)
{
    uint64_t n = 16u << 20;
    while (n < 2 * largest)
        n *= 2;
    return n;
}

static void add_more(struct buf *b, const struct db_table *t, unsigned count)
{
    sql_ident(b, t->name);
    if (count > 1)
        buf_printf(b, " (and %u more)", count - 1);
}

static void check_heap(struct check *c)
{
    static const char name[] = "table size";
    int64_t limit = db_variable_number(c->db, "max_heap_table_size");
    struct heap h = {.limit = limit > 0 ? (uint64_t)limit : 0};
    struct buf b = {0};
    char size[TEXT_SHORT], most[TEXT_SHORT], wanted[TEXT_SHORT];
    measure_heap(c, &h);
    if (!h.largest)
        return;
    text_size(h.limit, most);
    uint64_t suggested = suggested_limit(total_size(h.largest));
    if (h.near) {
        add_more(&b, h.near, h.near_count);
        check_add(c, CHECK_WARN, name,
                  "%s is %d %% full or more: %s of %s; behind that the game's INSERTs fail (1114)",
                  b.p, NEAR_LIMIT_PERCENT, text_size(h.near->data_length, size),
                  text_size(h.near->max_data_length, wanted));
        check_hint(c,
                   "SET SESSION max_heap_table_size=%" PRIu64
                   "; ALTER TABLE … ENGINE=MEMORY, and raise the server's",
                   suggested);
        buf_clear(&b);
    }
    if (h.over) {
        add_more(&b, h.over, h.over_count);
        check_add(c, CHECK_WARN, name,
                  "%s takes %s, the server's max_heap_table_size is %s. A restore makes room of "
                  "its own for it, but "
                  "after a restart the empty table, and after a TRUNCATE or ALTER the table, has "
                  "the server's limit",
                  b.p, text_size(total_size(h.over), size), most);
        check_hint(c,
                   "SET GLOBAL max_heap_table_size=%" PRIu64
                   ", and the same in the server's config file",
                   suggested);
    } else {
        sql_ident(&b, h.largest->name);
        check_add(c, CHECK_OK, name, "max_heap_table_size is %s; the largest table, %s, takes %s",
                  most, b.p, text_size(total_size(h.largest), size));
    }
    buf_free(&b);
}

/* Memory */

static int64_t memory_available(void)
{
    char line[128];
    long long kib = -1;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && kib < 0 && fgets(line, sizeof line, f))
        if (text_starts(line, "MemAvailable:"))
            kib = strtoll(line + strlen("MemAvailable:"), NULL, 10);
    if (f)
        fclose(f);
    return kib < 0 ? -1 : kib * 1024;
}

static void check_memory(struct check *c)
{
    char need[TEXT_SHORT], have[TEXT_SHORT];
    if (c->memory_data == 0 || c->cfg->dump_method == METHOD_LOCK)
        return;
    text_size(c->memory_data, need);
    int64_t available = c->local ? memory_available() : -1;
    if (available < 0) {
        check_add(c, CHECK_NOTE, "memory",
                  "a dump needs up to %s more in the server for its copy; how much that machine "
                  "has cannot be seen from here",
                  need);
    } else if ((uint64_t)available < c->memory_data + c->memory_data / 10) {
        check_add(c, CHECK_WARN, "memory",
                  "a dump needs up to %s more in the server for its copy, %s is available", need,
                  text_size((uint64_t)available, have));
        check_hint(c, "[dump] method = lock needs none, but writers wait for the whole dump");
    } else {
        check_add(c, CHECK_OK, "memory",
                  "a dump needs up to %s more in the server for its copy, %s is available", need,
                  text_size((uint64_t)available, have));
    }
}

void check_server(struct check *c)
{
    check_heap(c);
    check_memory(c);
    check_packet(c);
    check_journal(c);
    check_settings(c);
    check_clock(c);
}
