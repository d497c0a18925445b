/* The table of keys. It alone defines what a config file may contain. */
#include "config/keys.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define S ((int64_t)1000)
#define M (60 * S)
#define H (60 * M)
#define D (24 * H)
#define YEAR (52 * 7 * D)

/* clang-format off */
#define CHOICES static const struct config_choice
CHOICES tls[] = {{"off", TLS_OFF}, {"preferred", TLS_PREFERRED}, {"required", TLS_REQUIRED},
                 {"verify", TLS_VERIFY}, {NULL, 0}};
CHOICES method[] = {{"auto", METHOD_AUTO}, {"copy", METHOD_COPY}, {"lock", METHOD_LOCK},
                    {"fuzzy", METHOD_FUZZY}, {NULL, 0}};
CHOICES engines[] = {{"memory", false}, {"all", true}, {NULL, 0}};
CHOICES shrink[] = {{"accept", false}, {"reject", true}, {NULL, 0}};
CHOICES scope[] = {{"lost", false}, {"all", true}, {NULL, 0}};
CHOICES blockers[] = {{"idle", false}, {"never", true}, {NULL, 0}};
CHOICES delete[] = {{"own", false}, {"never", true}, {NULL, 0}};
CHOICES from[] = {{"disk", false}, {"offsite", true}, {NULL, 0}};
CHOICES store[] = {{"memory", false}, {"innodb", true}, {NULL, 0}};
CHOICES journal[] = {{"auto", JOURNAL_AUTO}, {"off", JOURNAL_OFF}, {"server", JOURNAL_SERVER},
                     {"follow", JOURNAL_FOLLOW}, {NULL, 0}};
CHOICES starttls[] = {{"required", STARTTLS_REQUIRED}, {"preferred", STARTTLS_PREFERRED},
                      {"off", STARTTLS_OFF}, {NULL, 0}};
CHOICES lease[] = {{"none", LEASE_NONE}, {"s3", LEASE_S3}, {"etcd", LEASE_ETCD}, {NULL, 0}};
CHOICES format[] = {{"json", WEBHOOK_JSON}, {"slack", WEBHOOK_SLACK}, {"discord", WEBHOOK_DISCORD},
                    {NULL, 0}};
CHOICES http_method[] = {{"POST", false}, {"PUT", true}, {NULL, 0}};
/* clang-format on */

/* Keys omit members that their kind does not use. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* For a number the default, minimum and maximum follow; for a choice the default and the
 * choices. */
#define KEY(section, name, field, kind, ...)                                                       \
    {                                                                                              \
        section, name, offsetof(struct config, field), CONFIG_##kind, __VA_ARGS__                  \
    }
#define LEDGER(name, field, kind, ...)                                                             \
    {                                                                                              \
        "ledger", name, offsetof(struct config_ledger, field), CONFIG_##kind, __VA_ARGS__          \
    }
#define WEBHOOK(name, field, kind, ...)                                                            \
    {                                                                                              \
        "alert.webhook", name, offsetof(struct config_webhook, field), CONFIG_##kind, __VA_ARGS__  \
    }
#define CHOICE(section, name, field, kind, def, choices)                                           \
    KEY(section, name, field, kind, def, 0, 0, choices)

/* clang-format off */
const struct config_key config_keys[] = {
    KEY("world", "name", name, WORLD, NULL),
    KEY("world", "schema", schema, SCHEMA, NULL),
    KEY("world", "retired", retired, YES_NO, "no"),

    KEY("mysql", "socket", mysql.socket, SOCKET, NULL),
    KEY("mysql", "host", mysql.host, HOST, NULL),
    KEY("mysql", "port", mysql.port, NUMBER, "3306", 1, 65535),
    KEY("mysql", "user", mysql.user, USER, NULL),
    KEY("mysql", "password_file", mysql.password_file, SECRET, NULL),
    CHOICE("mysql", "tls", mysql.tls, CHOICE, NULL, tls),
    KEY("mysql", "tls_ca", mysql.tls_ca, PATH, NULL),
    KEY("mysql", "insecure", mysql.insecure, YES_NO, "no"),
    KEY("mysql", "connect_timeout", mysql.connect_timeout, DURATION, "5s", S, H),
    KEY("mysql", "read_timeout", mysql.read_timeout, DURATION, "30s", S, H),

    KEY("probe", "interval", probe_interval, DURATION, "1s", 100, H),
    KEY("probe", "timeout", probe_timeout, DURATION, "2s", 100, H),
    KEY("probe", "confirm", probe_confirm, NUMBER, "2", 1, 20),
    KEY("probe", "table", sentinel, TABLE, "worldkeeper_sentinel"),

    KEY("dump", "dir", dump_dir, PATH, NULL),
    KEY("dump", "interval", dump_interval, DURATION, "15m", S, YEAR),
    CHOICE("dump", "method", dump_method, CHOICE, "auto", method),
    KEY("dump", "level", dump_level, NUMBER, "1", 1, 9),
    CHOICE("dump", "engines", dump_all, FLAG, "memory", engines),
    KEY("dump", "shrink_limit", shrink_limit, PERCENT, "50%", 1, 100),
    CHOICE("dump", "shrink_action", shrink_reject, FLAG, "accept", shrink),
    KEY("dump", "stall", dump_stall, DURATION, "60s", S, D),
    KEY("dump", "hmac_key_file", hmac_key_file, SECRET, NULL),
    KEY("dump", "hmac_old_key_file", hmac_old_key_file, SECRET, NULL),

    KEY("retention", "keep_last", retention.keep_last, NUMBER, "8", 1, 100000),
    KEY("retention", "keep_within", retention.keep_within, DURATION, "24h", 0, 100 * YEAR),
    KEY("retention", "keep_hourly", retention.keep_hourly, NUMBER, "0", 0, 100000),
    KEY("retention", "keep_daily", retention.keep_daily, NUMBER, "7", 0, 100000),
    KEY("retention", "keep_weekly", retention.keep_weekly, NUMBER, "4", 0, 100000),
    KEY("retention", "keep_before_shrink", retention.keep_before_shrink, DURATION, "7d", 0, YEAR),

    KEY("restore", "auto", restore_auto, YES_NO, "yes"),
    CHOICE("restore", "scope", restore_all, FLAG, "lost", scope),
    KEY("restore", "connections", restore_connections, CONNECTIONS, "auto", 1, 16),
    KEY("restore", "binlog", restore_binlog, YES_NO, "yes"),
    KEY("restore", "stall", restore_stall, DURATION, "60s", S, D),
    KEY("restore", "lock_wait", restore_lock_wait, DURATION, "10s", S, D),
    CHOICE("restore", "end_blockers", restore_ends_none, FLAG, "idle", blockers),
    KEY("restore", "priority", restore_priority, NUMBER, "5", 1, CONFIG_PRIORITY_MAX),
    KEY("restore", "new_server", restore_new_server, YES_NO, "no"),

    CHOICE("journal", "mode", journal, CHOICE, "auto", journal),
    KEY("journal", "dir", journal_dir, PATH, NULL),
    KEY("journal", "segment", journal_segment, SIZE, "64MiB", 64 * 1024, 1024 * 1024 * 1024),
    KEY("journal", "keep", journal_keep, DURATION, "24h", 0, 100 * YEAR),
    KEY("journal", "max_size", journal_max_size, SIZE, "8GiB", 1024 * 1024, INT64_MAX),

    KEY("status", "dir", status_dir, PATH, NULL),
    KEY("status", "flag", flag_file, FILE, "index.html"),
    KEY("status", "json", json_file, FILE, "status.json"),
    KEY("status", "metrics", metrics_file, FILE, NULL),
    KEY("status", "page", page, YES_NO, "no"),
    KEY("status", "title", title, LINE, NULL),
    KEY("status", "logo", logo, FILE, NULL),
    KEY("status", "announcement", announcement, LINE, NULL),
    KEY("status", "message_up", message_up, LINE, "The world is up."),
    KEY("status", "message_restoring", message_restoring, LINE, "The world is being restored."),
    KEY("status", "message_waiting", message_waiting, LINE,
        "The world is not there at the moment."),

    KEY("drill", "interval", drill.interval, DURATION, "0", 0, YEAR),
    KEY("drill", "at", drill.at, TIME, NULL),
    KEY("drill", "max_load", drill.max_load, PERCENT, "100%", 1, 100000),
    KEY("drill", "connections", drill_connections, NUMBER, "1", 1, 16),
    CHOICE("drill", "from", drill.offsite, FLAG, "disk", from),

    KEY("verify", "interval", verify.interval, DURATION, "0", 0, YEAR),
    KEY("verify", "at", verify.at, TIME, NULL),
    KEY("verify", "max_load", verify.max_load, PERCENT, "100%", 1, 100000),

    KEY("alert", "repeat", alert_repeat, DURATION, "15m", S, YEAR),
    KEY("alert", "events", alert_events, EVENTS, "all"),
    KEY("alert", "max_dump_age", max_dump_age, DURATION, "1h", S, YEAR),
    KEY("alert", "journal_lag_limit", journal_lag_limit, DURATION, "10s", S, YEAR),
    KEY("alert", "max_pause", max_pause, DURATION, "1d", 0, YEAR),
    KEY("alert", "disk_low", disk_low, SIZE, "1GiB", 0, INT64_MAX),
    KEY("alert", "url", alert_url, WEB_URL, NULL),

    KEY("alert.smtp", "url", smtp.url, MAIL_URL, NULL),
    KEY("alert.smtp", "from", smtp.from, MAIL, NULL),
    KEY("alert.smtp", "to", smtp.to, MAILS, NULL),
    KEY("alert.smtp", "user", smtp.user, WORD, NULL),
    KEY("alert.smtp", "password_file", smtp.password_file, SECRET, NULL),
    CHOICE("alert.smtp", "starttls", smtp.starttls, CHOICE, "required", starttls),
    KEY("alert.smtp", "tls_ca", smtp.tls_ca, PATH, NULL),
    KEY("alert.smtp", "insecure", smtp.insecure, YES_NO, "no"),
    KEY("alert.smtp", "timeout", smtp.timeout, DURATION, "30s", S, H),

    WEBHOOK("url", url, WEB_URL, NULL),
    WEBHOOK("url_file", url_file, SECRET, NULL),
    WEBHOOK("format", format, CHOICE, "json", 0, 0, format),
    WEBHOOK("body", body, LINE, NULL),
    WEBHOOK("body_file", body_file, SECRET, NULL),
    WEBHOOK("header", header, LINE, NULL),
    WEBHOOK("header_file", header_file, SECRET, NULL),
    WEBHOOK("method", put, FLAG, "POST", 0, 0, http_method),
    WEBHOOK("tls_ca", tls_ca, PATH, NULL),
    WEBHOOK("insecure", insecure, YES_NO, "no"),
    WEBHOOK("timeout", timeout, DURATION, "10s", S, H),

    KEY("heartbeat", "url", heartbeat_url, WEB_URL, NULL),
    KEY("heartbeat", "url_file", heartbeat_url_file, SECRET, NULL),
    KEY("heartbeat", "start", heartbeat_start, URL_END, NULL),
    KEY("heartbeat", "failure", heartbeat_failure, URL_END, NULL),
    KEY("heartbeat", "insecure", heartbeat_insecure, YES_NO, "no"),
    KEY("heartbeat", "timeout", heartbeat_timeout, DURATION, "10s", S, H),

    KEY("control", "dir", control_dir, PATH, NULL),

    KEY("progress", "socket", progress.server.socket, SOCKET, NULL),
    KEY("progress", "host", progress.server.host, HOST, NULL),
    KEY("progress", "port", progress.server.port, NUMBER, "3306", 1, 65535),
    KEY("progress", "user", progress.server.user, USER, NULL),
    KEY("progress", "password_file", progress.server.password_file, SECRET, NULL),
    CHOICE("progress", "tls", progress.server.tls, CHOICE, NULL, tls),
    KEY("progress", "tls_ca", progress.server.tls_ca, PATH, NULL),
    KEY("progress", "insecure", progress.server.insecure, YES_NO, "no"),
    KEY("progress", "schema", progress.schema, SCHEMA, "progress"),
    KEY("progress", "lock_id", progress.lock_id, LOCK_ID, NULL),
    CHOICE("progress", "engine", progress.innodb, FLAG, "memory", store),
    KEY("progress", "write_back", progress.write_back, DURATION, "10m", S, YEAR),
    KEY("progress", "max_rate", progress.max_rate, NUMBER, "0", 0, 1000000),

    KEY("offsite", "url", offsite.url, STORE_URL, NULL),
    KEY("offsite", "recipient", offsite.recipient, LINE, NULL),
    KEY("offsite", "recipients_file", offsite.recipients_file, PATH, NULL),
    KEY("offsite", "plain", offsite.plain, YES_NO, "no"),
    KEY("offsite", "identity_file", offsite.identity_file, SECRET, NULL),
    KEY("offsite", "key_file", offsite.key_file, SECRET, NULL),
    KEY("offsite", "known_hosts", offsite.known_hosts, PATH, NULL),
    KEY("offsite", "endpoint", offsite.endpoint, WEB_URL, NULL),
    KEY("offsite", "region", offsite.region, WORD, "us-east-1"),
    KEY("offsite", "access_key_file", offsite.access_key_file, SECRET, NULL),
    KEY("offsite", "user", offsite.user, WORD, NULL),
    KEY("offsite", "password_file", offsite.password_file, SECRET, NULL),
    KEY("offsite", "tls_ca", offsite.tls_ca, PATH, NULL),
    KEY("offsite", "insecure", offsite.insecure, YES_NO, "no"),
    KEY("offsite", "segments", offsite.segments, YES_NO, "yes"),
    KEY("offsite", "max_rate", offsite.max_rate, SIZE, "0", 0, INT64_MAX),
    CHOICE("offsite", "delete", offsite.delete_never, FLAG, "own", delete),
    KEY("offsite", "object_lock", offsite.object_lock, DURATION, "0", 0, 100 * YEAR),
    KEY("offsite", "timeout", offsite.timeout, DURATION, "30s", S, H),

    KEY("standby", "warm", standby.warm, YES_NO, "no"),
    CHOICE("standby", "lease", standby.lease, CHOICE, "none", lease),
    KEY("standby", "ttl", standby.ttl, DURATION, "15s", 2 * S, H),
    KEY("standby", "etcd", standby.etcd, WEB_URLS, NULL),
    KEY("standby", "user", standby.user, WORD, NULL),
    KEY("standby", "password_file", standby.password_file, SECRET, NULL),
    KEY("standby", "tls_ca", standby.tls_ca, PATH, NULL),
    KEY("standby", "insecure", standby.insecure, YES_NO, "no"),

    LEDGER("table", table, NAME, NULL),
    LEDGER("key", key, COLUMNS, NULL),
    LEDGER("value", value, COLUMNS, NULL),
    LEDGER("id", id, NAME, "id"),
    LEDGER("time", time, NAME, NULL),
    LEDGER("levels", levels, NAME, NULL),
    LEDGER("rollup_after", rollup_after, DURATION, "1d", 0, YEAR),
    LEDGER("interval", interval, DURATION, "1h", S, YEAR),
    LEDGER("keep", keep, DURATION, "0", 0, 100 * YEAR),
    LEDGER("request", request, NAME, NULL),
    LEDGER("request_keep", request_keep, DURATION, "7d", S, 100 * YEAR),
    LEDGER("late_limit", late_limit, NUMBER, "10000", 0, 1000000000),
};
/* clang-format on */
const size_t config_key_count = sizeof config_keys / sizeof *config_keys;
_Static_assert(sizeof config_keys / sizeof *config_keys <= CONFIG_KEYS_MAX, "CONFIG_KEYS_MAX");

/* Linear search: some hundred keys, once for each line of a file. */
int config_key_find(const char *section, const char *name)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].section, section) == 0 && strcmp(config_keys[i].name, name) == 0)
            return (int)i;
    return -1;
}

enum config_owner config_owner(const struct config_key *k)
{
    return strcmp(k->section, "ledger") == 0          ? OWNER_LEDGER
           : strcmp(k->section, "alert.webhook") == 0 ? OWNER_WEBHOOK
                                                      : OWNER_CONFIG;
}

void config_set_defaults(void *object, enum config_owner owner)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        struct err bad;
        if (k->def && config_owner(k) == owner && config_set(object, k, k->def, &bad) < 0)
            abort(); /* its own kind refuses the default: an error in the table */
    }
}

char *config_value(const struct config *c, const char *key)
{
    const char *dot = strrchr(key, '.');
    SCOPED(xfree) char *section = xstrndup(key, dot ? (size_t)(dot - key) : 0);
    int i = config_key_find(section, dot ? dot + 1 : key);
    const struct config_key *k = &config_keys[i < 0 ? 0 : i];
    const char *field = (const char *)c + k->offset;
    int64_t n = 0;
    int small;
    if (i < 0 || k->kind == CONFIG_MAILS || config_owner(k) != OWNER_CONFIG)
        return NULL;
    if (k->kind >= CONFIG_TEXTS) {
        const char *s = *(char *const *)(const void *)field;
        return xstrdup(s ? s : "");
    }
    if (k->kind == CONFIG_DURATION || k->kind == CONFIG_SIZE) {
        memcpy(&n, field, sizeof n);
    } else if (k->kind == CONFIG_YES_NO || k->kind == CONFIG_FLAG) {
        n = *(const bool *)field;
    } else {
        memcpy(&small, field, sizeof small);
        n = small;
    }
    /* in the form of the file, not of the program */
    for (const struct config_choice *x = k->choices; x && x->name; x++)
        if (x->value == n)
            return xstrdup(x->name);
    return xasprintf("%" PRId64, n);
}
