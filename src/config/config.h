/* The configuration of one world, read from an INI file through inih with guards of our own:
 * unknown section or key, a key twice, a line over the limit, a bad value or a missing unit is an
 * error that names file, line, value and what is allowed. Nothing is read half: a config that fails
 * leaves `*out` untouched, so that a running supervisor keeps the old one on reload.
 *
 * Strings are owned by the config and never NULL unless said; durations are milliseconds, sizes are
 * bytes. Secrets are not in here: only where they stand (file_read_secret() reads them when
 * needed). etc/example.ini shows every key; a test loads it. */
#ifndef WK_CONFIG_CONFIG_H
#define WK_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

enum config_tls { TLS_OFF, TLS_PREFERRED, TLS_REQUIRED, TLS_VERIFY };
/* The changes since a dump: auto reads them from the server's log where it lets us; follow keeps
 * them in files of our own too. */
enum config_journal { JOURNAL_AUTO, JOURNAL_OFF, JOURNAL_SERVER, JOURNAL_FOLLOW };
enum config_method { METHOD_AUTO, METHOD_COPY, METHOD_LOCK, METHOD_FUZZY };
enum config_format { WEBHOOK_JSON, WEBHOOK_SLACK, WEBHOOK_DISCORD };
enum config_starttls { STARTTLS_REQUIRED, STARTTLS_PREFERRED, STARTTLS_OFF };

/* Bits of [alert] events. */
enum config_event {
    EVENT_DOWN = 1 << 0,
    EVENT_RESTORING = 1 << 1,
    EVENT_RESTORED = 1 << 2,
    EVENT_WAITING = 1 << 3,
    EVENT_DISCARDED = 1 << 4,
    EVENT_STALE = 1 << 5,
    EVENT_DISK = 1 << 6,
    EVENT_SENTINEL = 1 << 7,
    EVENT_STARTED = 1 << 8,
    EVENT_JOURNAL = 1 << 9,
    EVENT_ALL = (1 << 10) - 1,
};

struct config_mysql {
    char *socket; /* NULL: TCP */
    char *host;   /* NULL: socket */
    unsigned port;
    char *user, *password_file; /* password_file NULL: no password */
    char *tls_ca;               /* NULL: system's */
    enum config_tls tls;
    bool insecure; /* tls may be less than verify, to another host */
    int64_t connect_timeout, read_timeout;
};

struct config_smtp {
    char *url;                                  /* NULL: channel off */
    char *from, *user, *password_file, *tls_ca; /* user, password_file, tls_ca may be NULL */
    char **to;
    unsigned to_count;
    enum config_starttls starttls;
    bool insecure; /* starttls may be less than required, to another host */
    int64_t timeout;
};

struct config_webhook {
    char *url, *url_file; /* both NULL: channel off; never both */
    char *tls_ca;
    enum config_format format;
    bool insecure; /* http:// to another host */
    int64_t timeout;
};

struct config_retention {
    unsigned keep_last; /* at least 1 */
    int64_t keep_within;
    unsigned keep_hourly, keep_daily, keep_weekly;
};

struct config {
    char *path; /* the file this came from */
    char *name; /* world: [a-z0-9][a-z0-9_-]{0,31} */
    char *schema;
    struct config_mysql mysql;

    int64_t probe_interval, probe_timeout;
    unsigned probe_confirm;
    char *sentinel; /* table name, 1 to 58 characters; the lease table is "<sentinel>_lease" */

    char *dump_dir; /* absolute */
    /* Keys that manifests are sealed with (store/seal.h); NULL: none. */
    char *hmac_key_file, *hmac_old_key_file;
    int64_t dump_interval, dump_stall;
    enum config_method dump_method;
    int dump_level;        /* zlib 1..9 */
    bool dump_all;         /* engines = all */
    unsigned shrink_limit; /* percent */

    struct config_retention retention;

    bool restore_auto, restore_all, restore_new_server;
    unsigned restore_connections; /* 0: auto */
    bool restore_binlog;          /* a restore's rows go to the server's binary log */
    int64_t restore_stall, restore_lock_wait;

    enum config_journal journal;
    char *journal_dir;                          /* absolute; not given: "journal" in dump_dir */
    uint64_t journal_segment, journal_max_size; /* of one file, of all */
    int64_t journal_keep;

    char *status_dir;                           /* NULL: status is not published */
    char *flag_file, *json_file, *metrics_file; /* names in it; metrics_file may be NULL */

    int64_t alert_repeat;
    int64_t max_dump_age; /* not given: 1h, or 4 dump intervals if that is longer */
    int64_t journal_lag_limit;
    uint64_t disk_low;
    unsigned alert_events; /* bits */
    struct config_smtp smtp;
    struct config_webhook webhook;
    char *heartbeat_url, *heartbeat_url_file; /* NULL: none */
    bool heartbeat_insecure;
    int64_t heartbeat_timeout;

    char *control_dir; /* NULL: chosen at start */
};

/* Reads `path`: a regular file (or a symbolic link to one), at most 64 KiB, that belongs to root or
 * to the user we run as and that nobody else can write. On success *out is a new config
 * (config_free), else -1 with an error of class ERR_CONFIG that tells the first fault, and only
 * that one. */
int config_load(const char *path, struct config **out, struct err *e);
void config_free(struct config *c);

/* Can a restore --into it be meant? -1 with ERR_USAGE where [world] schema could not be that. */
int config_check_into(const char *schema, struct err *e);

/* Is it this machine, by its name or address alone? */
bool config_is_here(const char *host);
/* Does the URL have this scheme, and a host that is another machine? */
bool config_plain_to_others(const char *url, const char *scheme);
/* Does this go over a network without being encrypted and proven? The config allows it where it
 * says insecure = yes. */
bool config_mysql_exposed(const struct config *c);
bool config_smtp_exposed(const struct config *c);
/* The i-th such thing in this config, in words; NULL behind the last. To be told loudly. */
const char *config_exposed(const struct config *c, unsigned i);

#endif
