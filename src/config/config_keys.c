/* The table of keys: the one place that says what a config file may hold. */
#include "config/config_keys.h"

#include <stdlib.h>
#include <string.h>

#define S ((int64_t)1000)
#define M (60 * S)
#define H (60 * M)
#define D (24 * H)
#define YEAR (52 * 7 * D)

static const struct config_choice tls[] = {{"off", TLS_OFF},
                                           {"preferred", TLS_PREFERRED},
                                           {"required", TLS_REQUIRED},
                                           {"verify", TLS_VERIFY},
                                           {NULL, 0}};
static const struct config_choice method[] = {{"auto", METHOD_AUTO},
                                              {"copy", METHOD_COPY},
                                              {"lock", METHOD_LOCK},
                                              {"fuzzy", METHOD_FUZZY},
                                              {NULL, 0}};
static const struct config_choice engines[] = {{"memory", false}, {"all", true}, {NULL, 0}};
static const struct config_choice scope[] = {{"lost", false}, {"all", true}, {NULL, 0}};
static const struct config_choice journal[] = {{"auto", JOURNAL_AUTO},
                                               {"off", JOURNAL_OFF},
                                               {"server", JOURNAL_SERVER},
                                               {"follow", JOURNAL_FOLLOW},
                                               {NULL, 0}};
static const struct config_choice starttls[] = {{"required", STARTTLS_REQUIRED},
                                                {"preferred", STARTTLS_PREFERRED},
                                                {"off", STARTTLS_OFF},
                                                {NULL, 0}};
static const struct config_choice format[] = {
    {"json", WEBHOOK_JSON}, {"slack", WEBHOOK_SLACK}, {"discord", WEBHOOK_DISCORD}, {NULL, 0}};

#define KEY(section, name, field, parse, ...)                                                      \
    {                                                                                              \
        section, name, offsetof(struct config, field), config_parse_##parse, __VA_ARGS__           \
    }
#define TEXT(section, name, field, parse, flags, def)                                              \
    KEY(section, name, field, parse, CONFIG_STRING | (flags), def, 0, 0, NULL)
#define VALUE(section, name, field, parse, def, min, max)                                          \
    KEY(section, name, field, parse, 0, def, min, max, NULL)
#define CHOICE(section, name, field, parse, def, choices)                                          \
    KEY(section, name, field, parse, 0, def, 0, 0, choices)

/* clang-format off */
const struct config_key config_keys[] = {
    TEXT("world", "name", name, world, 0, NULL),
    TEXT("world", "schema", schema, schema, CONFIG_ANY_NAME, NULL),

    TEXT("mysql", "socket", mysql.socket, path, 0, NULL),
    TEXT("mysql", "host", mysql.host, host, 0, NULL),
    VALUE("mysql", "port", mysql.port, number, "3306", 1, 65535),
    TEXT("mysql", "user", mysql.user, user, CONFIG_ANY_NAME, NULL),
    TEXT("mysql", "password_file", mysql.password_file, secret, CONFIG_QUIET, NULL),
    CHOICE("mysql", "tls", mysql.tls, choice, NULL, tls),
    TEXT("mysql", "tls_ca", mysql.tls_ca, path, 0, NULL),
    VALUE("mysql", "insecure", mysql.insecure, yes_no, "no", 0, 0),
    VALUE("mysql", "connect_timeout", mysql.connect_timeout, duration, "5s", S, H),
    VALUE("mysql", "read_timeout", mysql.read_timeout, duration, "30s", S, H),

    VALUE("probe", "interval", probe_interval, duration, "1s", 100, H),
    VALUE("probe", "timeout", probe_timeout, duration, "2s", 100, H),
    VALUE("probe", "confirm", probe_confirm, number, "2", 1, 20),
    TEXT("probe", "table", sentinel, table, CONFIG_ANY_NAME, "worldkeeper_sentinel"),

    TEXT("dump", "dir", dump_dir, path, 0, NULL),
    VALUE("dump", "interval", dump_interval, duration, "15m", S, YEAR),
    CHOICE("dump", "method", dump_method, choice, "auto", method),
    VALUE("dump", "level", dump_level, number, "1", 1, 9),
    CHOICE("dump", "engines", dump_all, flag, "memory", engines),
    VALUE("dump", "shrink_limit", shrink_limit, percent, "50%", 1, 100),
    VALUE("dump", "stall", dump_stall, duration, "60s", S, D),
    TEXT("dump", "hmac_key_file", hmac_key_file, secret, CONFIG_QUIET, NULL),
    TEXT("dump", "hmac_old_key_file", hmac_old_key_file, secret, CONFIG_QUIET, NULL),

    VALUE("retention", "keep_last", retention.keep_last, number, "8", 1, 100000),
    VALUE("retention", "keep_within", retention.keep_within, duration, "24h", 0, 100 * YEAR),
    VALUE("retention", "keep_hourly", retention.keep_hourly, number, "0", 0, 100000),
    VALUE("retention", "keep_daily", retention.keep_daily, number, "7", 0, 100000),
    VALUE("retention", "keep_weekly", retention.keep_weekly, number, "4", 0, 100000),

    VALUE("restore", "auto", restore_auto, yes_no, "yes", 0, 0),
    CHOICE("restore", "scope", restore_all, flag, "lost", scope),
    VALUE("restore", "connections", restore_connections, connections, "auto", 1, 16),
    VALUE("restore", "binlog", restore_binlog, yes_no, "yes", 0, 0),
    VALUE("restore", "stall", restore_stall, duration, "60s", S, D),
    VALUE("restore", "lock_wait", restore_lock_wait, duration, "10s", S, D),
    VALUE("restore", "new_server", restore_new_server, yes_no, "no", 0, 0),

    CHOICE("journal", "mode", journal, choice, "auto", journal),
    TEXT("journal", "dir", journal_dir, path, 0, NULL),
    VALUE("journal", "segment", journal_segment, size, "64MiB", 64 * 1024, 1024 * 1024 * 1024),
    VALUE("journal", "keep", journal_keep, duration, "24h", 0, 100 * YEAR),
    VALUE("journal", "max_size", journal_max_size, size, "8GiB", 1024 * 1024, INT64_MAX),

    TEXT("status", "dir", status_dir, path, 0, NULL),
    TEXT("status", "flag", flag_file, file, 0, "index.html"),
    TEXT("status", "json", json_file, file, 0, "status.json"),
    TEXT("status", "metrics", metrics_file, file, 0, NULL),

    VALUE("alert", "repeat", alert_repeat, duration, "15m", S, YEAR),
    VALUE("alert", "events", alert_events, events, "all", 0, 0),
    VALUE("alert", "max_dump_age", max_dump_age, duration, "1h", S, YEAR),
    VALUE("alert", "journal_lag_limit", journal_lag_limit, duration, "10s", S, YEAR),
    VALUE("alert", "disk_low", disk_low, size, "1GiB", 0, INT64_MAX),

    TEXT("alert.smtp", "url", smtp.url, mail_url, CONFIG_QUIET, NULL),
    TEXT("alert.smtp", "from", smtp.from, mail, 0, NULL),
    VALUE("alert.smtp", "to", smtp, mails, NULL, 0, 0),
    TEXT("alert.smtp", "user", smtp.user, word, 0, NULL),
    TEXT("alert.smtp", "password_file", smtp.password_file, secret, CONFIG_QUIET, NULL),
    CHOICE("alert.smtp", "starttls", smtp.starttls, choice, "required", starttls),
    TEXT("alert.smtp", "tls_ca", smtp.tls_ca, path, 0, NULL),
    VALUE("alert.smtp", "insecure", smtp.insecure, yes_no, "no", 0, 0),
    VALUE("alert.smtp", "timeout", smtp.timeout, duration, "30s", S, H),

    TEXT("alert.webhook", "url", webhook.url, web_url, CONFIG_QUIET, NULL),
    TEXT("alert.webhook", "url_file", webhook.url_file, secret, CONFIG_QUIET, NULL),
    CHOICE("alert.webhook", "format", webhook.format, choice, "json", format),
    TEXT("alert.webhook", "tls_ca", webhook.tls_ca, path, 0, NULL),
    VALUE("alert.webhook", "insecure", webhook.insecure, yes_no, "no", 0, 0),
    VALUE("alert.webhook", "timeout", webhook.timeout, duration, "10s", S, H),

    TEXT("heartbeat", "url", heartbeat_url, web_url, CONFIG_QUIET, NULL),
    TEXT("heartbeat", "url_file", heartbeat_url_file, secret, CONFIG_QUIET, NULL),
    VALUE("heartbeat", "insecure", heartbeat_insecure, yes_no, "no", 0, 0),
    VALUE("heartbeat", "timeout", heartbeat_timeout, duration, "10s", S, H),

    TEXT("control", "dir", control_dir, path, 0, NULL),
};
/* clang-format on */
const size_t config_key_count = sizeof config_keys / sizeof *config_keys;
_Static_assert(sizeof config_keys / sizeof *config_keys <= CONFIG_KEYS_MAX, "CONFIG_KEYS_MAX");

int config_key_find(const char *section, const char *name)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].section, section) == 0 && strcmp(config_keys[i].name, name) == 0)
            return (int)i;
    return -1;
}

bool config_section_known(const char *section)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].section, section) == 0)
            return true;
    return false;
}

void config_set_defaults(struct config *c)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        struct config_bad bad;
        if (k->def && k->parse(k, k->def, (char *)c + k->offset, &bad) < 0)
            abort(); /* a default that its own parser refuses: a fault of the table */
    }
}

size_t config_distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b), row[CONFIG_NEAR_MAX + 1];
    if (la >= CONFIG_NEAR_MAX || lb >= CONFIG_NEAR_MAX)
        return CONFIG_NEAR_MAX;
    for (size_t j = 0; j <= lb; j++)
        row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t corner = row[0]; /* the field up and to the left */
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t best = corner + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            corner = row[j];
            row[j] = best;
        }
    }
    return row[lb];
}

bool config_near(const char *typed, const char *word)
{
    return config_distance(typed, word) <= (strlen(word) > 5 ? 3 : strlen(word) / 2);
}
