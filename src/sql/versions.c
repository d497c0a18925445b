#include "sql/versions.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define V(major, minor, patch) SERVER_VERSION(major, minor, patch)
#define COUNT(a) (sizeof(a) / sizeof *(a))

struct server_version server_version_of(const char *reported)
{
    struct server_version v = {strstr(reported, "MariaDB") != NULL, SERVER_UNKNOWN};
    unsigned major, minor, patch = 0;
    /* MariaDB 10 puts this before its version for replicas, and some client libraries do not
     * remove it. */
    if (v.mariadb && text_starts(reported, "5.5.5-"))
        reported += strlen("5.5.5-");
    if (sscanf(reported, "%3u.%2u.%2u", &major, &minor, &patch) >= 2)
        v.number = V(major, minor, patch);
    return v;
}

/* ---- which versions are supported ---- */

enum { MYSQL, MARIADB };

/* Each series extends to the next row. The row after the last tested series stands for unknown
 * newer versions. */
static const struct server_series series[] = {
    {MARIADB, 0, "before 10.5", SERVER_TOO_OLD},
    {MARIADB, V(10, 5, 0), "10.5", SERVER_TESTED},
    {MARIADB, V(10, 6, 0), "10.6", SERVER_DOCUMENTED},
    {MARIADB, V(10, 7, 0), "10.7 to 10.10", SERVER_DOCUMENTED},
    {MARIADB, V(10, 11, 0), "10.11", SERVER_TESTED},
    {MARIADB, V(11, 0, 0), "11.0 to 11.3", SERVER_DOCUMENTED},
    {MARIADB, V(11, 4, 0), "11.4", SERVER_DOCUMENTED},
    {MARIADB, V(11, 5, 0), "11.5 to 11.7", SERVER_DOCUMENTED},
    {MARIADB, V(11, 8, 0), "11.8", SERVER_TESTED},
    {MARIADB, V(11, 9, 0), "12.0 and newer", SERVER_NEWER},
    {MYSQL, 0, "before 8.0.16", SERVER_TOO_OLD},
    {MYSQL, V(8, 0, 16), "8.0", SERVER_DOCUMENTED},
    {MYSQL, V(8, 1, 0), "8.1 to 8.3", SERVER_DOCUMENTED},
    {MYSQL, V(8, 4, 0), "8.4", SERVER_DOCUMENTED},
    {MYSQL, V(9, 0, 0), "9.0 to 9.6", SERVER_DOCUMENTED},
    {MYSQL, V(9, 7, 0), "9.7", SERVER_TESTED},
    {MYSQL, V(9, 8, 0), "9.8 and newer", SERVER_NEWER},
};

const struct server_series *server_series(size_t i)
{
    return i < COUNT(series) ? &series[i] : NULL;
}

enum server_support server_support(struct server_version v)
{
    enum server_support found = SERVER_TOO_OLD;
    for (size_t i = 0; i < COUNT(series); i++)
        if (series[i].mariadb == v.mariadb && series[i].first <= v.number)
            found = series[i].support;
    return found;
}

/* ---- statements and variables ---- */

/* For each word and vendor, the last row whose version is not newer than the server's applies. */
static const struct {
    enum server_word word;
    bool mariadb;
    unsigned since;
    const char *text;
} words[] = {
    {WORD_LOG_STATUS, MARIADB, 0, "SHOW MASTER STATUS"},
    {WORD_LOG_STATUS, MYSQL, 0, "SHOW MASTER STATUS"},
    {WORD_LOG_STATUS, MYSQL, V(8, 2, 0), "SHOW BINARY LOG STATUS"}, /* the only one since 8.4 */
    /* SHOW REPLICA STATUS is avoided, because in MariaDB it requires an additional privilege. */
    {WORD_REPLICA_STATUS, MARIADB, 0,
     "SELECT 1 FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME='SLAVES_RUNNING' AND "
     "VARIABLE_VALUE<>'0'"},
    {WORD_REPLICA_STATUS, MYSQL, 0, "SHOW SLAVE STATUS"},
    {WORD_REPLICA_STATUS, MYSQL, V(8, 0, 22), "SHOW REPLICA STATUS"},
    /* SHOW REPLICA HOSTS would require an additional privilege, too. */
    {WORD_REPLICAS, MARIADB, 0, "SHOW GLOBAL STATUS LIKE 'Slaves_connected'"},
    {WORD_REPLICAS, MYSQL, 0, "SHOW SLAVE HOSTS"},
    {WORD_REPLICAS, MYSQL, V(8, 0, 22), "SHOW REPLICAS"},
    {WORD_LOG_UPDATES, MARIADB, 0, "log_slave_updates"},
    {WORD_LOG_UPDATES, MYSQL, 0, "log_slave_updates"},
    {WORD_LOG_UPDATES, MYSQL, V(8, 0, 26), "log_replica_updates"},
    {WORD_LOG_HELD, MARIADB, V(10, 6, 0), "binlog_expire_logs_seconds"},
    {WORD_LOG_HELD, MYSQL, V(8, 0, 1), "binlog_expire_logs_seconds"},
    {WORD_LOG_HELD_DAYS, MARIADB, 0, "expire_logs_days"},
    {WORD_LOG_HELD_DAYS, MARIADB, V(10, 6, 0), NULL},
    {WORD_LOG_HELD_DAYS, MYSQL, 0, "expire_logs_days"},
    {WORD_LOG_HELD_DAYS, MYSQL, V(8, 0, 1), NULL},
    {WORD_LOG_TOTAL, MARIADB, V(11, 4, 0), "max_binlog_total_size"},
    {WORD_LOG_GTID, MARIADB, 0, "gtid_binlog_pos"},
    {WORD_LOG_GTID, MYSQL, 0, "gtid_executed"},
    {WORD_ISOLATION, MARIADB, 0, "tx_isolation"},
    {WORD_ISOLATION, MARIADB, V(11, 1, 1), "transaction_isolation"},
    {WORD_ISOLATION, MYSQL, 0, "tx_isolation"},
    {WORD_ISOLATION, MYSQL, V(8, 0, 3), "transaction_isolation"},
    {WORD_REQUIRE_KEY, MYSQL, V(8, 0, 13), "sql_require_primary_key"},
    {WORD_INVISIBLE_KEY, MYSQL, V(8, 0, 30), "sql_generate_invisible_primary_key"},
    {WORD_CHECKS, MARIADB, V(10, 2, 1), "check_constraint_checks"},
    {WORD_STATISTICS_AGE, MYSQL, V(8, 0, 3), "information_schema_stats_expiry"},
    /* Some releases of MariaDB's series lack it. */
    {WORD_IDENTITY, MARIADB, 0, "server_uid"},
    {WORD_IDENTITY, MYSQL, 0, "server_uuid"},
    {WORD_STATUS_SCHEMA, MARIADB, 0, "information_schema"},
    {WORD_STATUS_SCHEMA, MYSQL, 0, "performance_schema"},
    {WORD_HANDLER, MARIADB, 0, "HANDLER"},
    {WORD_SKIP_LOCKED, MARIADB, V(10, 6, 0), "SKIP LOCKED"},
    {WORD_SKIP_LOCKED, MYSQL, V(8, 0, 1), "SKIP LOCKED"},
    /* Tried: 10.5 hides them, 10.11 and 11.8 do not. Versions between are taken for hiding. */
    {WORD_SHOWN_TRIGGERS, MARIADB, V(10, 11, 0), "information_schema.TRIGGERS"},
    {WORD_NEW_ROW, MARIADB, 0, ""},
    {WORD_NEW_ROW, MYSQL, 0, ""},
    /* supported since 8.0.19; VALUES() causes a warning since 8.0.20 */
    {WORD_NEW_ROW, MYSQL, V(8, 0, 20), " AS n"},
    {WORD_OR_REPLACE, MARIADB, 0, "OR REPLACE "},
    {WORD_ROLES, MARIADB, 0, "SELECT COUNT(*) FROM mysql.roles_mapping WHERE User=? AND Host=?"},
    {WORD_ROLES, MYSQL, 0, "SELECT COUNT(*) FROM mysql.role_edges WHERE TO_USER=? AND TO_HOST=?"},
    {WORD_OLD_MODE, MYSQL, V(8, 0, 11), "NO_AUTO_CREATE_USER"},
    {WORD_UPDATE_OF, MARIADB, V(11, 8, 0), "OF"},
};

const char *server_word(struct server_version v, enum server_word w)
{
    const char *text = NULL;
    for (size_t i = 0; i < COUNT(words); i++)
        if (words[i].word == w && words[i].mariadb == v.mariadb && words[i].since <= v.number)
            text = words[i].text;
    return text;
}
