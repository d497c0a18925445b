#include "sql/privileges.h"

#include <string.h>

#define V(major, minor, patch) SERVER_VERSION(major, minor, patch)
#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { MYSQL, MARIADB };

/* Rows omit members that are NULL. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* ---- on the whole server ---- */

/* A table on which a privilege is granted. */
static const struct place {
    const char *schema, *table, *quoted;
} proc = {"mysql", "proc", "`mysql`.`proc`"},
  locks = {"performance_schema", "metadata_locks", "`performance_schema`.`metadata_locks`"},
  threads = {"performance_schema", "threads", "`performance_schema`.`threads`"},
  statements = {"performance_schema", "events_statements_current",
                "`performance_schema`.`events_statements_current`"};

/* For each privilege and vendor, the last row whose version is not newer than the server's
 * applies. `implied` lists one or two privileges that include it. Tested on each tested version,
 * with each privilege alone. */
static const struct privilege {
    enum server_privilege privilege;
    bool mariadb;
    unsigned since;
    const char *name;
    const struct place *on; /* NULL for *.* */
    const char *implied[2];
} privileges[] = {
    {MAY_READ_LOG, MARIADB, 0, "REPLICATION SLAVE"},
    {MAY_READ_LOG, MYSQL, 0, "REPLICATION SLAVE"},
    {MAY_ASK_LOG, MARIADB, 0, "BINLOG MONITOR", NULL, {"SUPER"}},
    {MAY_ASK_LOG, MARIADB, V(11, 0, 0), "BINLOG MONITOR"},
    {MAY_ASK_LOG, MYSQL, 0, "REPLICATION CLIENT", NULL, {"SUPER"}},
    {MAY_NAME_DEFINER, MARIADB, 0, "SET USER", NULL, {"SUPER"}},
    {MAY_NAME_DEFINER, MARIADB, V(11, 0, 0), "SET USER"},
    {MAY_NAME_DEFINER, MYSQL, 0, "SET_USER_ID", NULL, {"SUPER"}},
    {MAY_NAME_DEFINER, MYSQL, V(8, 2, 0), "SET_ANY_DEFINER", NULL, {"SUPER", "SET_USER_ID"}},
    {MAY_NAME_DEFINER, MYSQL, V(8, 4, 0), "SET_ANY_DEFINER", NULL, {"SUPER"}},
    {MAY_NAME_SYSTEM, MYSQL, 0, "SYSTEM_USER"},
    {MAY_NAME_MISSING,
     MYSQL,
     V(8, 2, 0),
     "ALLOW_NONEXISTENT_DEFINER",
     NULL,
     {"SUPER", "SET_USER_ID"}},
    {MAY_NAME_MISSING, MYSQL, V(8, 4, 0), "ALLOW_NONEXISTENT_DEFINER", NULL, {"SUPER"}},
    {MAY_SKIP_TRUST, MARIADB, 0, "SUPER"},
    {MAY_SKIP_TRUST, MYSQL, 0, "SUPER"},
    {MAY_SKIP_LOG, MARIADB, 0, "BINLOG ADMIN", NULL, {"SUPER"}},
    {MAY_SKIP_LOG, MARIADB, V(11, 0, 0), "BINLOG ADMIN"},
    {MAY_SKIP_LOG,
     MYSQL,
     V(8, 0, 14),
     "SESSION_VARIABLES_ADMIN",
     NULL,
     {"SUPER", "SYSTEM_VARIABLES_ADMIN"}},
    {MAY_WRITE_READ_ONLY, MARIADB, 0, "READ_ONLY ADMIN", NULL, {"SUPER"}},
    {MAY_WRITE_READ_ONLY, MARIADB, V(10, 11, 0), "READ_ONLY ADMIN"},
    {MAY_WRITE_READ_ONLY, MYSQL, 0, "CONNECTION_ADMIN", NULL, {"SUPER"}},
    {MAY_LEAVE_KEYS,
     MYSQL,
     V(8, 0, 14),
     "SESSION_VARIABLES_ADMIN",
     NULL,
     {"SUPER", "SYSTEM_VARIABLES_ADMIN"}},
    {MAY_READ_ROUTINES, MARIADB, 0, "SELECT", &proc, {"SELECT"}},
    {MAY_READ_ROUTINES, MARIADB, V(11, 3, 0), "SHOW CREATE ROUTINE", NULL, {"SELECT"}},
    {MAY_READ_ROUTINES, MYSQL, 0, "SELECT"},
    {MAY_READ_ROUTINES, MYSQL, V(8, 0, 20), "SHOW_ROUTINE", NULL, {"SELECT"}},
    {MAY_LEAVE_CLUSTER, MARIADB, 0, "SUPER"},
    {MAY_SEE_SESSIONS, MARIADB, 0, "PROCESS"},
    {MAY_SEE_SESSIONS, MYSQL, 0, "PROCESS"},
    {MAY_LIST_LOCKS, MYSQL, 0, "SELECT", &locks, {"SELECT"}},
    {MAY_LIST_THREADS, MYSQL, 0, "SELECT", &threads, {"SELECT"}},
    {MAY_READ_STATEMENTS, MYSQL, 0, "SELECT", &statements, {"SELECT"}},
    {MAY_END_SESSIONS, MARIADB, 0, "CONNECTION ADMIN", NULL, {"SUPER"}},
    {MAY_END_SESSIONS, MARIADB, V(11, 0, 0), "CONNECTION ADMIN"},
    {MAY_END_SESSIONS, MYSQL, 0, "CONNECTION_ADMIN", NULL, {"SUPER"}},
};

static const char *const uses[SERVER_PRIVILEGES] = {
    [MAY_READ_LOG] = "Reading the binary log",
    [MAY_ASK_LOG] = "Positions in the binary log",
    [MAY_NAME_DEFINER] = "Triggers and routines of other definers",
    [MAY_NAME_SYSTEM] = "Those of definers such as root, which have SYSTEM_USER",
    [MAY_NAME_MISSING] = "Those of definers that do not exist",
    [MAY_SKIP_TRUST] = "Triggers, with a binary log and log_bin_trust_function_creators = OFF",
    [MAY_SKIP_LOG] = "[restore] binlog = no",
    [MAY_WRITE_READ_ONLY] = "Restores while read_only is ON",
    [MAY_LEAVE_KEYS] = "Copies without a key, with sql_require_primary_key = ON",
    [MAY_READ_ROUTINES] = "Functions and procedures in dumps",
    [MAY_LEAVE_CLUSTER] = "Restores and drills on a Galera node",
    [MAY_SEE_SESSIONS] = "Sessions that block a restore, without performance_schema",
    [MAY_LIST_LOCKS] = "Sessions that hold the locks, with performance_schema",
    [MAY_LIST_THREADS] = "Accounts of these sessions",
    [MAY_READ_STATEMENTS] = "Last statements of these sessions",
    [MAY_END_SESSIONS] = "[restore] end_blockers = idle",
};

static const struct privilege *privileges_row_of(struct server_version v, enum server_privilege p)
{
    const struct privilege *found = NULL;
    for (size_t i = 0; i < COUNT(privileges); i++)
        if (privileges[i].privilege == p && privileges[i].mariadb == v.mariadb &&
            privileges[i].since <= v.number)
            found = &privileges[i];
    return found;
}

const char *server_privilege(struct server_version v, enum server_privilege p)
{
    const struct privilege *row = privileges_row_of(v, p);
    return row ? row->name : NULL;
}

const char *server_privilege_on(struct server_version v, enum server_privilege p)
{
    const struct privilege *row = privileges_row_of(v, p);
    return row && row->on ? row->on->quoted : "*.*";
}

/* Returns the name that grants.h uses. SHOW GRANTS of MariaDB and MySQL differ in this name. */
static const char *in_grants(const char *name)
{
    return strcmp(name, "REPLICATION CLIENT") == 0 ? "BINLOG MONITOR" : name;
}

static bool privileges_has(const struct grants *g, const char *name)
{
    return grants_have(g, NULL, in_grants(name));
}

bool server_may(const struct grants *g, struct server_version v, enum server_privilege p)
{
    const struct privilege *row = privileges_row_of(v, p);
    if (!row || (row->on ? grants_have_table(g, row->on->schema, row->on->table, row->name)
                         : privileges_has(g, row->name)))
        return true;
    for (size_t i = 0; i < COUNT(row->implied); i++)
        if (row->implied[i] && privileges_has(g, row->implied[i]))
            return true;
    /* Newer MariaDB versions support both ways. */
    return p == MAY_READ_ROUTINES && v.mariadb && grants_have_table(g, "mysql", "proc", "SELECT");
}

bool server_privilege_grants(struct server_version v, enum server_privilege p, const char *schema,
                             const char *table, const char *name)
{
    const struct privilege *row = privileges_row_of(v, p);
    const struct place *on = row ? row->on : NULL;
    bool here =
        on ? schema && table && strcmp(on->schema, schema) == 0 && strcmp(on->table, table) == 0
           : !schema && !table;
    return row && here && strcmp(in_grants(row->name), name) == 0;
}

void server_definer_privileges(struct server_version v, const char *definer, const char *denied,
                               int out[DEFINER_PRIVILEGES])
{
    const char *system = server_privilege(v, MAY_NAME_SYSTEM),
               *missing = server_privilege(v, MAY_NAME_MISSING);
    *out++ = MAY_NAME_DEFINER;
    if (system && (text_starts(definer, "root@") || (denied && strstr(denied, system))))
        *out++ = MAY_NAME_SYSTEM;
    if (missing && denied && strstr(denied, missing))
        *out++ = MAY_NAME_MISSING;
    *out = -1;
}

/* ---- for the manual ---- */

const char *server_privilege_use(enum server_privilege p)
{
    return uses[p];
}

static void add_version(struct buf *b, unsigned number)
{
    buf_printf(b, "%u.%u", number / 10000, number / 100 % 100);
    if (number % 100)
        buf_printf(b, ".%u", number % 100);
}

static void privileges_add_row(struct buf *b, const struct privilege *row)
{
    buf_adds(b, row->name);
    if (row->on)
        buf_printf(b, " on %s.%s", row->on->schema, row->on->table);
    for (size_t i = 0; i < COUNT(row->implied); i++)
        if (row->implied[i])
            buf_printf(b, " or %s", row->implied[i]);
}

/* Appends, for example, "MariaDB: SET USER; before 11.0: SET USER or SUPER." */
static void add_vendor(struct buf *b, enum server_privilege p, bool mariadb)
{
    const struct privilege *newer = NULL;
    for (size_t i = COUNT(privileges); i-- > 0;) {
        const struct privilege *row = &privileges[i];
        if (row->privilege != p || row->mariadb != mariadb)
            continue;
        if (newer) {
            buf_adds(b, "; before ");
            add_version(b, newer->since);
            buf_adds(b, ": ");
        } else {
            buf_printf(b, "%s%s: ", b->len ? " " : "", mariadb ? "MariaDB" : "MySQL");
        }
        privileges_add_row(b, row);
        newer = row;
    }
    if (newer)
        buf_addc(b, '.');
}

void server_privilege_words(struct buf *b, enum server_privilege p)
{
    add_vendor(b, p, MARIADB);
    add_vendor(b, p, MYSQL);
}

/* ---- privileges equivalent to root ---- */

/* These privileges count on the whole server or on the schema `mysql`, which contains the
 * accounts. Privileges that let an account create code for another account are checked
 * separately. */
static const struct {
    const char *name;
    bool in_mysql; /* also equivalent to root on that schema alone */
} like_root[] = {
    {"ALL PRIVILEGES", true},
    {"INSERT", true},
    {"UPDATE", true},
    {"CREATE USER"},             /* creates accounts and changes their passwords */
    {"FILE"},                    /* reads the table of accounts as a file */
    {"BINLOG REPLAY"},           /* executes changes of any table */
    {"REPLICATION SLAVE ADMIN"}, /* executes changes of another server */
    {"REPLICATION_APPLIER"},
    {"REPLICATION_SLAVE_ADMIN"},
    {"ROLE_ADMIN"},
};

bool server_privilege_rules(struct server_version v, bool in_mysql, const char *name)
{
    const struct privilege *definer = privileges_row_of(v, MAY_NAME_DEFINER);
    for (size_t i = 0; i < COUNT(like_root); i++)
        if (strcmp(like_root[i].name, name) == 0)
            return !in_mysql || like_root[i].in_mysql;
    bool implied = strcmp(definer->name, name) == 0;
    for (size_t i = 0; i < COUNT(definer->implied); i++)
        implied |= definer->implied[i] && strcmp(definer->implied[i], name) == 0;
    return !in_mysql && implied;
}

/* ---- on the schema ---- */

/*
 *   SELECT                   all reading; CREATE TABLE … LIKE
 *   INSERT                   rows into shadows, sentinel, lease; RENAME TABLE
 *   UPDATE                   the lease's generation
 *   CREATE                   sentinel, lease, shadows; RENAME TABLE; the schema on a new server
 *   DROP                     old tables and shadows; RENAME TABLE
 *   ALTER                    AUTO_INCREMENT counters; RENAME TABLE
 *   LOCK TABLES              a dump of one moment
 *   CREATE TEMPORARY TABLES  the copies of [dump] method = copy
 *   TRIGGER                  moving triggers over at the swap; seeing them at all
 *                            (WORD_SHOWN_TRIGGERS)
 *   DELETE, CREATE ROUTINE, ALTER ROUTINE   [progress]: rows that were written back, the routines
 *                            of the local store, which are never called
 *   DELETE, CREATE VIEW      [ledger NAME]: rows that were rolled up, the views of totals; and
 *                            TRIGGER with `request`
 */
static const struct schema_privilege on_schema[] = {
    {"SELECT", "reading", PART_ALL},
    {"INSERT", "loading rows", PART_ALL},
    {"UPDATE", "raising the generation in the lease table", PART_ALL},
    {"CREATE", "making shadow tables", PART_ALL},
    {"DROP", "swapping tables", PART_ALL},
    {"ALTER", "swapping tables, AUTO_INCREMENT", PART_ALL},
    {"LOCK TABLES", "a dump of one moment", PART_ALL},
    {"CREATE TEMPORARY TABLES", "the copies that a dump reads from", PART_ALL},
    {"DELETE", "deleting rows that were rolled up or written back", PART_LEDGER | PART_PROGRESS},
    {"CREATE VIEW", "the views of ledgers", PART_LEDGER},
    {"CREATE ROUTINE", "wk_put and wk_close", PART_PROGRESS},
    {"ALTER ROUTINE", "making them again", PART_PROGRESS},
    {"TRIGGER", NULL, PART_ALL, "seeing triggers, and moving them over at the swap"},
    {"SHOW VIEW", NULL, PART_ALL, "views in dumps"},
    {"EVENT", NULL, PART_ALL, "events in dumps"},
    /* The last row. Only MariaDB has this privilege on a schema; MAY_READ_ROUTINES has the first
     * version. */
    {"SHOW CREATE ROUTINE", NULL, PART_ALL, "functions and procedures in dumps"},
};

const struct schema_privilege *schema_privilege(struct server_version v, size_t i)
{
    const char *routines = server_privilege(v, MAY_READ_ROUTINES);
    size_t count = COUNT(on_schema);
    if (!routines || strcmp(routines, on_schema[count - 1].name) != 0)
        count--;
    return i < count ? &on_schema[i] : NULL;
}
