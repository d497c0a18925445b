#include "config/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/line.h"
#include "base/text.h"
#include "config/parts.h"
#include "config/store_url.h"

/* A slower store would count as hanging. */
#define OFFSITE_RATE_MIN 16384

/* The default of max_dump_age is at least this many dump intervals. */
#define STALE_INTERVALS 4
#define SHORTEST_WORK 1000
#define DAY 86400000
#define WEBHOOK "alert.webhook"

struct checking {
    struct config *c;
    const struct config_source *src;
    struct err *e;
    const unsigned *line; /* of the keys: src->line, or those of one webhook */
};

/* Messages name a line; of two keys the later one is refused. */
static unsigned line_of(const struct checking *k, const char *section, const char *name)
{
    bool webhook = k->line != k->src->line;
    int i = config_key_find(webhook ? WEBHOOK : section, name);
    return i < 0 ? 0 : k->line[i];
}

/* If `is`, refuses the key: "FILE:LINE: [section] name: ...". Returns `is`, so that checks can be
 * joined by ||. */
static bool check_wrong(const struct checking *k, bool is, const char *section, const char *name,
                        const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
static bool check_wrong(const struct checking *k, bool is, const char *section, const char *name,
                        const char *hint, const char *fmt, ...)
{
    SCOPED(buf_free) struct buf text = {0};
    va_list ap;
    if (!is)
        return false;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    err_set(k->e, ERR_CONFIG, 0, "%s:%u: [%s] %s: %s", k->src->path, line_of(k, section, name),
            section, name, text.p);
    err_hint(k->e, "%s", hint);
    return true;
}

/* Refuses `name`, which has no effect without `needed`. */
static bool check_useless(const struct checking *k, bool is, const char *section, const char *name,
                          const char *needed, const char *way_out)
{
    return check_wrong(k, is, section, name, way_out, "has no effect; allowed: only with %s",
                       needed);
}

/* The same for each key of a list (ended by NULL) that is in the file. */
static bool all_useless(const struct checking *k, bool is, const char *section,
                        const char *const *names, const char *needed, const char *way_out)
{
    for (; is && *names; names++)
        if (check_useless(k, line_of(k, section, *names), section, *names, needed, way_out))
            return true;
    return false;
}

static bool half_login(const struct checking *k, const char *section, const char *user,
                       const char *password_file)
{
    return check_useless(k, !user != !password_file, section, user ? "user" : "password_file",
                         user ? "password_file" : "user",
                         "a login needs both user and password_file");
}

/* `exposed`: the key's URL goes to another host without TLS, which needs explicit consent in the
 * file. Consent that is not needed is refused, because it could take effect some day. */
static bool wrong_plain(const struct checking *k, bool exposed, bool insecure, const char *section,
                        const char *name, const char *hint)
{
    return check_wrong(k, exposed && !insecure, section, name, hint,
                       "http:// to another host; allowed: https://, or insecure = yes beside it") ||
           check_useless(k, insecure && !exposed, section, "insecure",
                         "an http:// URL of another host",
                         "remove this key: the connection is safe without it");
}

/* Only one of two keys of a section may be set. */
static bool check_both(const struct checking *k, const char *section, const char *one,
                       const char *other)
{
    unsigned a = line_of(k, section, one), b = line_of(k, section, other);
    const char *first = a > b ? other : one, *second = a > b ? one : other;
    char hint[120];
    line_set(hint, sizeof hint, "%s is in line %u; remove one of the two", first, a > b ? b : a);
    return check_wrong(k, a && b, section, second, hint,
                       "not together with %s; allowed: one of the two", first);
}

/* Returns the section's first key in the file; NULL: there is none. */
static const char *first_key(const struct checking *k, const char *section)
{
    const char *first = NULL;
    unsigned at = 0;
    for (size_t i = 0; i < config_key_count; i++) {
        unsigned line = k->src->line[i];
        if (strcmp(config_keys[i].section, section) != 0 || !line || (at && line > at))
            continue;
        first = config_keys[i].name;
        at = line;
    }
    return first;
}

/* Checks keys that every config needs, or every section that is present: they have no default. */
static bool are_missing(const struct checking *k)
{
    static const struct {
        const char *section, *name, *or_name, *shown;
        bool optional; /* the section */
    } needed[] = {{"world", "name", "name", "[world] name", false},
                  {"world", "schema", "schema", "[world] schema", false},
                  {"mysql", "socket", "host", "[mysql] socket or host", false},
                  {"mysql", "user", "user", "[mysql] user", false},
                  {"dump", "dir", "dir", "[dump] dir", false},
                  {"progress", "socket", "host", "[progress] socket or host", true},
                  {"progress", "user", "user", "[progress] user", true},
                  {"progress", "lock_id", "lock_id", "[progress] lock_id", true},
                  {"offsite", "url", "url", "[offsite] url", true}};
    /* reports all of them in one message, so that a new config is completed in one step */
    SCOPED(buf_free) struct buf missing = {0};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!(needed[i].optional && !first_key(k, needed[i].section)) &&
            !line_of(k, needed[i].section, needed[i].name) &&
            !line_of(k, needed[i].section, needed[i].or_name))
            buf_printf(&missing, "%s%s", missing.len ? ", " : "", needed[i].shown);
    if (missing.len == 0)
        return false;
    err_set(k->e, ERR_CONFIG, 0, "%s: missing: %s", k->src->path, missing.p);
    err_hint(k->e, "add %s; example.ini explains every key",
             strchr(missing.p, ',') ? "these keys" : "this key");
    return true;
}

/* The same rules for every server that the config names. */
static bool wrong_server(const struct checking *k, const char *section,
                         const struct config_mysql *m)
{
    bool exposed = config_mysql_exposed(m);
    return check_both(k, section, "socket", "host") ||
           check_useless(k, !m->host && line_of(k, section, "port"), section, "port", "host",
                         "a socket has no port: remove port") ||
           check_useless(k, m->tls_ca && m->tls != TLS_VERIFY, section, "tls_ca", "tls = verify",
                         "set tls = verify, or remove tls_ca") ||
           check_wrong(
               k, exposed && !m->insecure, section, "tls",
               "set tls = verify, and tls_ca for a private authority; insecure = yes accepts "
               "eavesdropping and impersonation",
               "less than verify, to another host; allowed: verify, or insecure = yes beside "
               "it") ||
           check_useless(k, m->insecure && !exposed, section, "insecure",
                         "another host and less than tls = verify",
                         "remove this key: the connection is safe without it");
}

/* The page's own files have these names, in any directory. */
static bool is_of_page(const char *name)
{
    static const char *const files[] = {
        "status.html", "players.html", "players.json", "history.json", "incidents.atom",
        "badge.svg",   "page.css",     "status.js",    "players.js",   NULL};
    return name && text_among(name, files);
}

static bool wrong_status(const struct checking *k)
{
    static const char *const files[] = {"flag", "json", "metrics", "logo", NULL};
    static const char *const of_page[] = {"page",
                                          "title",
                                          "logo",
                                          "announcement",
                                          "message_up",
                                          "message_restoring",
                                          "message_waiting",
                                          NULL};
    static const char dir[] = "dir in the same section", name_it[] = "name the directory with dir",
                      once[] = "one file would overwrite the other";
    const struct config *c = k->c;
    const char *const values[] = {c->flag_file, c->json_file, c->metrics_file, c->logo};
    const char *const own[] = {"flag", "json", "metrics", NULL};
    if (all_useless(k, !c->status_dir, "status", own, dir, name_it))
        return true;
    for (size_t i = 1; files[i]; i++)
        for (size_t j = 0; j < i; j++) {
            /* Refuses the key that is set, because the other one may be a default. */
            bool later = line_of(k, "status", files[i]) > line_of(k, "status", files[j]);
            if (check_wrong(k, values[i] && values[j] && strcmp(values[i], values[j]) == 0,
                            "status", files[later ? i : j], once,
                            "value '%s' is also the name of %s; allowed: a different name",
                            values[i], files[later ? j : i]))
                return true;
        }
    if (check_wrong(k, c->page && !config_has_part("page"), "status", "page",
                    "allowed: no, which is the default", CONFIG_NO_PART, "page") ||
        all_useless(k, !c->status_dir, "status", of_page, dir, name_it) ||
        all_useless(k, !c->page, "status", of_page + 1, "page = yes",
                    "set page = yes, or remove this key"))
        return true;
    for (size_t i = 0; files[i]; i++)
        if (check_wrong(
                k, is_of_page(values[i]), "status", files[i], once,
                "value '%s' is the name of a file of the page or the history; allowed: another "
                "name",
                values[i]))
            return true;
    return false;
}

bool config_inside(const char *path, const char *dir)
{
    size_t len = strlen(dir);
    return text_starts(path, dir) && (path[len] == '/' || path[len] == '\0');
}

/* All users may read the status directory, so `dir` must not be inside it. */
static bool wrong_status_dir(const struct checking *k, const char *section, const char *dir,
                             const char *hint)
{
    const char *status = k->c->status_dir;
    const char *how = !status                      ? NULL
                      : strcmp(status, dir) == 0   ? "the same as"
                      : config_inside(status, dir) ? "inside"
                      : config_inside(dir, status) ? "around"
                                                   : NULL;
    return check_wrong(k, how, "status", "dir", hint,
                       "value '%s' is %s [%s] dir '%s'; allowed: two separate directories",
                       status ? status : "", how ? how : "", section, dir);
}

static bool wrong_dirs(const struct checking *k)
{
    const struct config *c = k->c;
    SCOPED(xfree) char *hint =
        xasprintf("such as %s/journal, or one on another disk or machine", c->dump_dir);
    bool is = /* segments need a separate directory */
        check_wrong(k, strcmp(c->journal_dir, c->dump_dir) == 0, "journal", "dir", hint,
                    "value '%s' is also [dump] dir; allowed: a separate directory",
                    c->journal_dir) ||
        wrong_status_dir(k, "dump", c->dump_dir,
                         "the status is public, dumps are not: put them side by side") ||
        wrong_status_dir(k, "journal", c->journal_dir,
                         "the status is public, changes are not: put them side by side");
    return is;
}

/* A section without url sends nothing, but its other keys would suggest that alerts arrive. */
static bool wrong_smtp(const struct checking *k)
{
    static const char section[] = "alert.smtp";
    static const char *const optional[] = {"from", "to", "user", "password_file", "tls_ca", NULL};
    const struct config_smtp *s = &k->c->smtp;
    bool exposed = config_smtp_exposed(k->c);
    if (!s->url)
        return all_useless(k, true, section, optional, "url in the same section",
                           "no mail is sent without url: add it, or remove the whole section");
    return (
        check_wrong(k, !s->from || s->to.count == 0, section, "url",
                    "name sender and recipients, such as from = worldkeeper@HOST",
                    "needs %s%s%s in the same section", s->from ? "" : "from",
                    s->from || s->to.count ? "" : " and ", s->to.count ? "" : "to") ||
        half_login(k, section, s->user, s->password_file) ||
        check_useless(
            k, s->tls_ca && s->starttls == STARTTLS_OFF && strncasecmp(s->url, "smtps:", 6) != 0,
            section, "tls_ca", "TLS", "set starttls = required") ||
        check_wrong(
            k, exposed && !s->insecure, section, "starttls",
            "set starttls = required, or use an smtps:// URL; insecure = yes accepts eavesdropping",
            "less than required, to another host; allowed: required, or insecure = yes "
            "beside it") ||
        check_useless(k, s->insecure && !exposed, section, "insecure",
                      "another host and starttls = preferred or off",
                      "remove this key: the mail is safe without it"));
}

static bool wrong_url(const struct checking *k, const char *section, const char *url, bool insecure)
{
    /* A URL in a separate file is checked when that file is read. */
    bool unseen = insecure && line_of(k, section, "url_file");
    return wrong_plain(k, unseen || (url && config_plain_to_others(url, "http")), insecure, section,
                       "url",
                       "insecure = yes accepts that others on the network read and use the URL");
}

/* With two sources for one URL it would not be clear which one is used. */
static bool wrong_webhook(const struct checking *all, unsigned slot)
{
    const struct config_webhook *w = &all->c->webhooks[slot];
    const char *section = w->section;
    const struct checking one = {all->c, all->src, all->e, all->src->webhook_line[slot]}, *k = &one;
    if (!section)
        return false;
    if (strcmp(section, WEBHOOK) != 0 && !config_webhook_on(w)) {
        err_set(k->e, ERR_CONFIG, 0, "%s: missing: [%s] url or url_file", k->src->path, section);
        err_hint(k->e, "add one of these keys, or remove the section");
        return true;
    }
    return check_both(k, section, "url", "url_file") ||
           check_useless(k, w->tls_ca && !w->url_file && !w->url, section, "tls_ca",
                         "url or url_file",
                         "nothing is sent without url: add it, or remove tls_ca") ||
           check_useless(
               k, w->tls_ca && !w->url_file && w->url && strncasecmp(w->url, "https:", 6) != 0,
               section, "tls_ca", "an https:// URL", "use url = https://...") ||
           check_both(k, section, "body", "body_file") ||
           check_both(k, section, "format", w->body_file ? "body_file" : "body") ||
           wrong_url(k, section, w->url, w->insecure);
}

static bool wrong_web(const struct checking *k)
{
    for (unsigned i = 0; i < CONFIG_WEBHOOKS; i++)
        if (wrong_webhook(k, i))
            return true;
    return check_both(k, "heartbeat", "url", "url_file") ||
           wrong_url(k, "heartbeat", k->c->heartbeat_url, k->c->heartbeat_insecure);
}

/* A time of day determines the time, so an interval beside it is in days. */
static bool wrong_work(const struct checking *k, const char *section, const struct config_work *c)
{
    return check_wrong(k, c->interval > 0 && c->interval < SHORTEST_WORK, section, "interval",
                       "such as interval = 1d", "too short; allowed: 0 for none, or 1s and more") ||
           check_wrong(k, c->at && c->interval % DAY, section, "at", "such as interval = 1d",
                       "needs an interval of whole days") ||
           check_useless(k, c->at && !c->interval, section, "at", "interval in the same section",
                         "nothing is scheduled without it: add interval = 1d");
}

/* A drill of a copy that cannot be read here would always fail. */
static bool wrong_drill(const struct checking *k)
{
    const struct config_offsite *o = &k->c->offsite;
    bool from = k->c->drill.offsite;
    return wrong_work(k, "drill", &k->c->drill) ||
           check_useless(k, from && !o->url, "drill", "from", "[offsite] url",
                         "from = disk uses the dumps in [dump] dir") ||
           check_useless(k, from && !o->plain && !o->identity_file, "drill", "from",
                         "[offsite] identity_file",
                         "copies are encrypted, and this machine has no key to read them for a "
                         "drill; from = disk uses the dumps in [dump] dir");
}

static bool wrong_ledgers(const struct checking *k)
{
    for (unsigned i = 0; i < k->c->ledger_count; i++) {
        const struct config_ledger *l = &k->c->ledgers[i], *other = k->c->ledgers;
        const char *missing = !l->table         ? "table"
                              : !l->key.count   ? "key"
                              : !l->value.count ? "value"
                              : !l->time        ? "time"
                                                : NULL;
        if (missing) {
            err_set(k->e, ERR_CONFIG, 0, "%s: missing: [ledger %s] %s", k->src->path, l->name,
                    missing);
            err_hint(k->e, "add this key; example.ini explains every key");
            return true;
        }
        while (other < l && strcmp(other->table, l->table) != 0)
            other++;
        if (other < l) { /* each would delete rows that the other one has not added */
            err_set(k->e, ERR_CONFIG, 0,
                    "%s: [ledger %s] table = %s: also the table of [ledger %s]; allowed: one "
                    "ledger for each table",
                    k->src->path, l->name, l->table, other->name);
            err_hint(k->e, "[ledger %s] value accepts several columns", other->name);
            return true;
        }
    }
    return false;
}

/* Checks keys that only one kind of store has, and keys that a kind requires. */
static bool wrong_store_keys(const struct checking *k, enum store_kind kind)
{
    static const struct {
        const char *name;
        unsigned kinds; /* bits */
        bool needed;
        const char *with;
    } keys[] = {{"key_file", 1U << STORE_SFTP, true, "an sftp:// URL"},
                {"known_hosts", 1U << STORE_SFTP, true, "an sftp:// URL"},
                {"endpoint", 1U << STORE_S3, false, "an s3:// URL"},
                {"region", 1U << STORE_S3, false, "an s3:// URL"},
                {"access_key_file", 1U << STORE_S3, true, "an s3:// URL"},
                {"object_lock", 1U << STORE_S3, false, "an s3:// URL"},
                {"user", 1U << STORE_HTTP, false, "an https:// URL"},
                {"password_file", 1U << STORE_HTTP, false, "an https:// URL"},
                {"tls_ca", 1U << STORE_HTTP | 1U << STORE_S3, false, "an https:// or s3:// URL"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        bool has = keys[i].kinds & 1U << kind, given = line_of(k, "offsite", keys[i].name);
        if (check_useless(k, given && !has, "offsite", keys[i].name, keys[i].with,
                          "remove this key") ||
            check_wrong(k, !given && has && keys[i].needed, "offsite", "url",
                        "example.ini explains every key", "needs %s in the same section",
                        keys[i].name))
            return true;
    }
    return false;
}

/* Finds the kind of store of [offsite] url, if it is set. Its text was accepted when its line was
 * read. */
static bool store_kind_of(const struct config_offsite *o, enum store_kind *kind)
{
    struct store_url u;
    if (!o->url || store_url_parse(o->url, &u) < 0)
        return false;
    *kind = u.kind;
    store_url_free(&u);
    return true;
}

/* Copies are stored on other machines, so they must be encrypted unless the config explicitly says
 * otherwise. */
static bool wrong_offsite(const struct checking *k)
{
    static const char section[] = "offsite";
    const struct config_offsite *o = &k->c->offsite;
    enum store_kind kind;
    if (!store_kind_of(o, &kind))
        return false;
    bool exposed_url = config_plain_to_others(o->url, "http"),
         exposed_endpoint = o->endpoint && config_plain_to_others(o->endpoint, "http");
    return wrong_store_keys(k, kind) || check_both(k, section, "recipient", "recipients_file") ||
           check_wrong(
               k, !o->recipient && !o->recipients_file && !o->plain, section, "url",
               "recipient = age1... encrypts for the holder of its identity; plain = yes stores "
               "copies unencrypted",
               "nothing would be encrypted; allowed: recipient or recipients_file, or plain = "
               "yes") ||
           check_wrong(k, o->plain && (o->recipient || o->recipients_file), section, "plain",
                       "remove plain to encrypt the copies",
                       "not together with %s; allowed: one of the two",
                       o->recipient ? "recipient" : "recipients_file") ||
           half_login(k, section, o->user, o->password_file) ||
           wrong_plain(k, exposed_url || exposed_endpoint, o->insecure, section,
                       exposed_url ? "url" : "endpoint",
                       "insecure = yes accepts that others on the network read the login") ||
           check_wrong(k, o->max_rate && o->max_rate < OFFSITE_RATE_MIN, section, "max_rate",
                       "0 means no limit", "value too small; allowed: 0, or 16 KiB and more");
}

/* An attacker who can forge etcd's answers can make two machines believe that each has the
 * lease. */
static bool wrong_etcd(const struct checking *k)
{
    static const char section[] = "standby";
    static const char *const only[] = {"etcd", "user", "password_file", "tls_ca", "insecure", NULL};
    const struct config_standby *s = &k->c->standby;
    bool exposed = false; /* one of its members */
    char *url;
    for (const char *rest = s->etcd; (url = config_next_part(&rest)); free(url))
        exposed |= config_plain_to_others(url, "http");
    return all_useless(k, s->lease != LEASE_ETCD, section, only, "lease = etcd",
                       "set lease = etcd, or remove this key") ||
           check_wrong(k, s->lease == LEASE_ETCD && !s->etcd, section, "lease",
                       "such as etcd = https://a.example.net:2379, https://b.example.net:2379",
                       "value 'etcd' needs etcd in the same section") ||
           half_login(k, section, s->user, s->password_file) ||
           wrong_plain(k, exposed, s->insecure, section, "etcd",
                       "insecure = yes accepts that others on the network take the lease");
}

/* Checks where both machines find the same copies, and what decides which one may continue. */
static bool wrong_standby(const struct checking *k)
{
    static const char section[] = "standby";
    const struct config *c = k->c;
    const char *first = first_key(k, section);
    enum store_kind kind = STORE_DIR;
    bool s3 = store_kind_of(&c->offsite, &kind) && kind == STORE_S3;
    k->c->standby.given = first != NULL;
    return first &&
           (check_wrong(k, !c->offsite.url, section, first,
                        "[offsite] url names the store that both machines use",
                        "needs [offsite]; allowed: only with it") ||
            check_wrong(k, c->standby.lease == LEASE_S3 && !s3, section, "lease",
                        "set lease = etcd; or lease = none and use --promote --by-hand",
                        "value 's3' needs a store with conditional writes; allowed: only with an "
                        "s3:// URL in [offsite]") ||
            check_useless(k, c->standby.lease == LEASE_NONE && line_of(k, section, "ttl"), section,
                          "ttl", "lease = s3 or etcd",
                          "remove this key: without a lease, nothing expires") ||
            check_wrong(k, strcasecmp(c->sentinel, "worldkeeper") == 0, "probe", "table",
                        "table = worldkeeper_sentinel is the default",
                        "value '%s' with [standby]: its lease table would be worldkeeper_lease, "
                        "which is reserved for the lease between machines; allowed: another name",
                        c->sentinel) ||
            wrong_etcd(k));
}

/* Within one machine there is no attacker on the way, and servers there rarely have a certificate.
 * To another host the default is the only level that authenticates the server. */
static void default_tls(const struct checking *k, const char *section, struct config_mysql *m)
{
    if (!line_of(k, section, "tls"))
        m->tls = !m->host || config_is_here(m->host) ? TLS_PREFERRED
                 : m->insecure                       ? TLS_REQUIRED
                                                     : TLS_VERIFY;
}

int config_check(struct config *c, const struct config_source *src, struct err *e)
{
    const struct checking k = {c, src, e, src->line};
    static const char *const pings[] = {"start", "failure", NULL};
    bool no_pings = !c->heartbeat_url && !c->heartbeat_url_file;
    int64_t patience = STALE_INTERVALS * c->dump_interval;
    if (are_missing(&k))
        return -1;
    default_tls(&k, "mysql", &c->mysql);
    default_tls(&k, "progress", &c->progress.server);
    /* the same timeouts for all servers, because a player's patience does not depend on the
     * server */
    c->progress.server.connect_timeout = c->mysql.connect_timeout;
    c->progress.server.read_timeout = c->mysql.read_timeout;
    if (!c->journal_dir)
        c->journal_dir = xasprintf("%s/journal", c->dump_dir);
    /* with a long interval the usual limit would cause an alert between any two dumps */
    if (!line_of(&k, "alert", "max_dump_age") && c->max_dump_age < patience)
        c->max_dump_age = patience;
    return wrong_server(&k, "mysql", &c->mysql) || wrong_status(&k) || wrong_dirs(&k) ||
                   wrong_smtp(&k) || wrong_web(&k) || wrong_ledgers(&k) ||
                   (first_key(&k, "progress") &&
                    wrong_server(&k, "progress", &c->progress.server)) ||
                   wrong_offsite(&k) || wrong_standby(&k) || wrong_drill(&k) ||
                   wrong_work(&k, "verify", &c->verify) ||
                   all_useless(&k, no_pings, "heartbeat", pings, "url or url_file",
                               "nothing is fetched without url: add it") ||
                   check_useless(&k, c->hmac_old_key_file && !c->hmac_key_file, "dump",
                                 "hmac_old_key_file", "hmac_key_file",
                                 "new dumps need a key too: add hmac_key_file")
               ? -1
               : 0;
}
