/* The configuration of one world, read from an INI file by inih, with stricter checks of our own:
 * an unknown section or key, a duplicate key, a line over the limit, a bad value or a missing unit
 * is an error that names file, line, value and what is allowed. All or nothing: a config that fails
 * leaves `*out` untouched, so that a running supervisor keeps the old one on reload.
 *
 * Strings are owned by the config and never NULL unless noted; durations are milliseconds, sizes
 * bytes. It holds no secrets, only where they are stored (file_read_secret() reads them when
 * needed). etc/example.ini shows every key; a test loads it. */
#ifndef WK_CONFIG_CONFIG_H
#define WK_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum config_tls { TLS_OFF, TLS_PREFERRED, TLS_REQUIRED, TLS_VERIFY };
/* Source of the changes since a dump: auto reads them from the server's binary log if possible;
 * follow also keeps them in files of our own. */
enum config_journal { JOURNAL_AUTO, JOURNAL_OFF, JOURNAL_SERVER, JOURNAL_FOLLOW };
enum config_method { METHOD_AUTO, METHOD_COPY, METHOD_LOCK, METHOD_FUZZY };
enum config_format { WEBHOOK_JSON, WEBHOOK_SLACK, WEBHOOK_DISCORD };
/* What decides which machine keeps the world. */
enum config_lease { LEASE_NONE, LEASE_S3, LEASE_ETCD };
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
    EVENT_CHECK = 1 << 10,
    EVENT_PROGRESS = 1 << 11,
    EVENT_LEDGER = 1 << 12,
    EVENT_DRILL = 1 << 13, /* also for verifies */
    EVENT_OFFSITE = 1 << 14,
    EVENT_PAUSE = 1 << 15, /* a pause without an end */
    EVENT_STANDBY = 1 << 16,
    EVENT_ALL = (1 << 17) - 1,
};

struct config_mysql {
    char *socket; /* NULL: TCP */
    char *host;   /* NULL: socket */
    unsigned port;
    char *user, *password_file; /* password_file NULL: no password */
    char *tls_ca;               /* NULL: the system's certificate authorities */
    enum config_tls tls;
    bool insecure; /* allows tls below verify for another host */
    int64_t connect_timeout, read_timeout;
};

/* A list of texts. */
struct config_list {
    char **list;
    unsigned count;
};

struct config_smtp {
    char *url;                                  /* NULL: channel off */
    char *from, *user, *password_file, *tls_ca; /* user, password_file, tls_ca may be NULL */
    struct config_list to;
    enum config_starttls starttls;
    bool insecure; /* allows starttls below required for another host */
    int64_t timeout;
};

/* One [alert.webhook] or [alert.webhook.NAME] section. */
#define CONFIG_WEBHOOKS 8
struct config_webhook {
    char *section;        /* "alert.webhook.NAME"; NULL: there is none */
    char *url, *url_file; /* both NULL: channel off; never both */
    char *tls_ca;
    enum config_format format;
    /* A template (notify/template.h) that replaces the format. Only one of body and body_file is
     * set. */
    char *body, *body_file;
    char *header, *header_file; /* "Name: value"; the file has one per line; either may be NULL */
    bool put;                   /* use PUT instead of POST */
    bool insecure;              /* allows http:// to another host */
    int64_t timeout;
};

struct config_retention {
    unsigned keep_last; /* at least 1 */
    int64_t keep_within;
    unsigned keep_hourly, keep_daily, keep_weekly;
    int64_t keep_before_shrink; /* ms that the last dump before a shrink is pinned */
};

/* One [ledger NAME] section. */
#define CONFIG_LEDGERS 16
#define CONFIG_LEDGER_COLUMNS 8 /* of keys, and of values */
struct config_ledger {
    char *name;              /* letters, digits and "_", 1 to 40 */
    char *table, *id, *time; /* the ledger and its columns */
    char *levels;            /* NULL: none */
    char *request;           /* column of request ids; NULL: none */
    struct config_list key, value;
    int64_t rollup_after, interval;
    int64_t keep; /* ms to keep rolled-up rows in files; 0: not kept */
    int64_t request_keep;
    unsigned late_limit; /* rows of one run; 0: none */
};

/* Players' progress in a central store. */
struct config_progress {
    struct config_mysql server; /* the central one */
    char *schema;
    char *lock_id; /* NULL: there is no [progress] */
    bool innodb;   /* the local store uses InnoDB, else MEMORY */
    int64_t write_back;
    unsigned max_rate; /* blobs a second; 0: no limit */
};

/* The store on another machine for copies. */
struct config_offsite {
    char *url;                         /* config/store_url.h; NULL: nowhere */
    char *recipient, *recipients_file; /* age; both NULL only with plain */
    bool plain;                        /* copies are deliberately not encrypted */
    char *identity_file;               /* needed to read the copies; NULL: they are only written */
    char *key_file, *known_hosts;      /* sftp */
    char *endpoint, *region, *access_key_file; /* s3; endpoint NULL: that of AWS for the region */
    char *user, *password_file;                /* https; NULL: no login */
    char *tls_ca;
    bool insecure; /* allows http:// to another host */
    bool segments; /* also copy segments, with [journal] mode = follow */
    bool delete_never;
    uint64_t max_rate;   /* bytes a second; 0: no limit */
    int64_t object_lock; /* 0: none */
    int64_t timeout;     /* ms without any progress */
};

/* A second machine that can take the world over. */
struct config_standby {
    bool given; /* the config has a [standby] */
    bool warm;  /* the copy is also loaded into the server, not only fetched */
    enum config_lease lease;
    char *etcd;                 /* URLs of the members, separated by ","; NULL: none */
    char *user, *password_file; /* of etcd; NULL: no login */
    char *tls_ca;
    bool insecure; /* allows http:// to another host */
    int64_t ttl;   /* of the lease, in ms */
};

/* Scheduled work: [drill], [verify]. */
struct config_work {
    int64_t interval;  /* 0: none */
    int at;            /* local time, 1 + minutes after midnight; 0: at any time */
    unsigned max_load; /* percent of the machine's processors; above it the work waits */
    bool offsite;      /* the drill uses the copy in the store */
};

struct config {
    char *path; /* the file this came from */
    char *name; /* world: [a-z0-9][a-z0-9_-]{0,31} */
    char *schema;
    bool retired; /* deliberately without a supervisor */
    struct config_mysql mysql;

    int64_t probe_interval, probe_timeout;
    unsigned probe_confirm;
    char *sentinel; /* table name, 1 to 58 characters; the lease table is "<sentinel>_lease" */

    char *dump_dir; /* absolute */
    /* Keys that sign manifests; NULL: none. */
    char *hmac_key_file, *hmac_old_key_file;
    int64_t dump_interval, dump_stall;
    enum config_method dump_method;
    int dump_level;        /* zlib 1..9 */
    bool dump_all;         /* engines = all */
    unsigned shrink_limit; /* percent; tables below SHRINK_LEAST rows cause no alert */
#define SHRINK_LEAST 1000u
    bool
        /* a dump that lost more rows is rejected; else it counts, and the previous one is pinned */
        shrink_reject;

    struct config_retention retention;

    bool restore_auto, restore_all, restore_new_server;
    unsigned restore_connections; /* 0: auto */
    bool restore_binlog;          /* write a restore's rows to the server's binary log */
    int64_t restore_stall, restore_lock_wait;
    bool restore_ends_none;    /* end_blockers = never */
    unsigned restore_priority; /* among the worlds of one server */
#define CONFIG_PRIORITY_MAX 9

    enum config_journal journal;
    char *journal_dir;                          /* absolute; default: "journal" in dump_dir */
    uint64_t journal_segment, journal_max_size; /* bytes of one segment, and of all */
    int64_t journal_keep;

    char *status_dir;                           /* NULL: status is not published */
    char *flag_file, *json_file, *metrics_file; /* names in status_dir; metrics_file may be NULL */

    bool page;          /* publish the pages of page/site.h */
    char *title;        /* NULL: the world's name */
    char *logo;         /* a file in status_dir; NULL: none */
    char *announcement; /* NULL: none */
    char *message_up, *message_restoring, *message_waiting;

    int64_t alert_repeat;
    int64_t max_dump_age; /* default: 1h, or 4 dump intervals if that is longer */
    int64_t journal_lag_limit;
    int64_t max_pause; /* of a pause without an end; 0: no limit */
    uint64_t disk_low;
    unsigned alert_events; /* EVENT_ bits */
    char *alert_url;       /* of a web page for people, for {url}; or NULL */
    struct config_smtp smtp;
    /* By slot; config_keep_slots() keeps a section in its slot. */
    struct config_webhook webhooks[CONFIG_WEBHOOKS];
    char *heartbeat_url, *heartbeat_url_file;  /* NULL: none */
    char *heartbeat_start, *heartbeat_failure; /* appended to the URL's path; NULL: not reported */
    bool heartbeat_insecure;
    int64_t heartbeat_timeout;

    char *control_dir; /* NULL: chosen at start */

    struct config_ledger ledgers[CONFIG_LEDGERS];
    unsigned ledger_count;

    struct config_progress progress;
    struct config_offsite offsite;
    struct config_standby standby;
    struct config_work drill, verify;
    unsigned drill_connections; /* for loading */
};

/* Reads `path`: a regular file (or a symbolic link to one) of at most 64 KiB that belongs to root
 * or to the user we run as (root accepts any owner) and that no other user can write. On success
 * *out is a new config (config_free()), else -1 with ERR_CONFIG and the first error only. */
int config_load(const char *path, struct config **out, struct err *e);
void config_free(struct config *c);
/* Puts the webhooks of `fresh` into the slots that those of the same section have in `old`. */
void config_keep_slots(const struct config *old, struct config *fresh);
/* Does it have a URL? */
static inline bool config_webhook_on(const struct config_webhook *w)
{
    return w->url || w->url_file;
}
/* Is there anywhere to send alerts to? */
bool config_any_channel(const struct config *c);

/* Returns the name of one EVENT_ bit, such as "down"; NULL if there is none. */
const char *config_event_name(unsigned event);
/* Returns the value of a key such as "dump.interval": text unchanged, numbers in digits (durations
 * in milliseconds, sizes in bytes, yes and no as 1 and 0), a choice by its name, "" if it is not
 * set. The caller frees it. Returns NULL if there is no such key, or it is a list or one of a
 * section that may be given several times. */
char *config_value(const struct config *c, const char *key);

/* Prefixes of our own schemas, which are dropped regardless of their contents. The world's name
 * follows; the result may be as long as a schema's name. */
#define CONFIG_DRILL_SCHEMA "worldkeeper_drill_" /* the scratch schema of a drill */
#define CONFIG_WARM_SCHEMA "worldkeeper_warm_"   /* a standby's copy of the world */
#define CONFIG_OWN_SCHEMA_MAX 64
void config_own_schema(const char *prefix, const struct config *c, char out[CONFIG_OWN_SCHEMA_MAX]);
/* Checks `schema` as a target of --into. Returns -1 with ERR_USAGE if [world] schema would not
 * accept it. */
int config_check_into(const char *schema, struct err *e);

/* Returns true if the name or address is that of this machine, without a lookup. */
bool config_is_here(const char *host);
/* Returns the next part of "a, b, c" without surrounding blanks (the caller frees it); NULL at the
 * end, or if the list is NULL. */
char *config_next_part(const char **list);
/* Returns true if the URL has this scheme and names another machine. */
bool config_plain_to_others(const char *url, const char *scheme);
/* Returns true if this connection crosses a network without encryption and a verified server. That
 * is only allowed with insecure = yes. */
bool config_mysql_exposed(const struct config_mysql *m);
bool config_smtp_exposed(const struct config *c);
/* Returns a warning sentence about the i-th such connection of this config, which the caller frees;
 * NULL after the last. */
char *config_exposed(const struct config *c, unsigned i);

#endif
