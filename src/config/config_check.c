/* What no single line can tell: keys that are missing, that exclude or need each other, and
 * defaults that depend on other keys. */
#include "config/config_keys.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/text.h"

/* max_dump_age is at least so many dump intervals, unless it is given. */
#define STALE_INTERVALS 4

static unsigned line_of(const struct config_source *src, const char *section, const char *name)
{
    int i = config_key_find(section, name);
    return i < 0 ? 0 : src->line[i];
}

/* "FILE:LINE: [section] name: ..." */
static int complain(const struct config_source *src, struct err *e, const char *section,
                    const char *name, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
static int complain(const struct config_source *src, struct err *e, const char *section,
                    const char *name, const char *fmt, ...)
{
    struct buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    err_set(e, ERR_CONFIG, 0, "%s:%u: [%s] %s: %s", src->path, line_of(src, section, name), section,
            name, text.p);
    buf_free(&text);
    return -1;
}

/* `name` is there although it has no effect unless `needed` is the case. */
static int useless(const struct config_source *src, struct err *e, const char *section,
                   const char *name, const char *needed, const char *way_out)
{
    complain(src, e, section, name, "has no effect; allowed: only with %s", needed);
    err_hint(e, "%s", way_out);
    return -1;
}

/* Two keys of one section of which only one may be there. */
static int check_either(const struct config_source *src, struct err *e, const char *section,
                        const char *one, const char *other)
{
    unsigned a = line_of(src, section, one), b = line_of(src, section, other);
    if (a == 0 || b == 0)
        return 0;
    complain(src, e, section, a > b ? one : other, "not together with %s; allowed: one of the two",
             a > b ? other : one);
    err_hint(e, "%s is in line %u; take one of the two out", a > b ? other : one, a > b ? b : a);
    return -1;
}

static int check_required(const struct config_source *src, struct err *e)
{
    static const struct {
        const char *section, *name, *or_name, *shown;
    } needed[] = {{"world", "name", "name", "[world] name"},
                  {"world", "schema", "schema", "[world] schema"},
                  {"mysql", "socket", "host", "[mysql] socket or host"},
                  {"mysql", "user", "user", "[mysql] user"},
                  {"dump", "dir", "dir", "[dump] dir"}};
    struct buf missing = {0};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!line_of(src, needed[i].section, needed[i].name) &&
            !line_of(src, needed[i].section, needed[i].or_name))
            buf_printf(&missing, "%s%s", missing.len ? ", " : "", needed[i].shown);
    if (missing.len == 0)
        return 0;
    err_set(e, ERR_CONFIG, 0, "%s: missing: %s", src->path, missing.p);
    err_hint(e, "add %s; example.ini explains every key",
             strchr(missing.p, ',') ? "these keys" : "this key");
    buf_free(&missing);
    return -1;
}

static int check_mysql(struct config *c, const struct config_source *src, struct err *e)
{
    if (check_either(src, e, "mysql", "socket", "host") < 0)
        return -1;
    if (!c->mysql.host && line_of(src, "mysql", "port"))
        return useless(src, e, "mysql", "port", "host", "a socket has no port: take port out");
    if (!line_of(src, "mysql", "tls"))
        c->mysql.tls = !c->mysql.host || config_is_here(c->mysql.host) ? TLS_PREFERRED
                       : c->mysql.insecure                             ? TLS_REQUIRED
                                                                       : TLS_VERIFY;
    if (c->mysql.tls_ca && c->mysql.tls != TLS_VERIFY)
        return useless(src, e, "mysql", "tls_ca", "tls = verify",
                       "write tls = verify, or take tls_ca out");
    if (config_mysql_exposed(c) && !c->mysql.insecure) {
        complain(src, e, "mysql", "tls",
                 "less than verify, to another host; allowed: verify, or insecure = yes beside it");
        err_hint(e, "tls = verify, with tls_ca for an authority of your own; insecure = yes trusts "
                    "everybody on the way");
        return -1;
    }
    if (c->mysql.insecure && !config_mysql_exposed(c))
        return useless(src, e, "mysql", "insecure", "another host and less than tls = verify",
                       "the connection is safe without it: take it out");
    return 0;
}

static bool inside(const char *path, const char *dir)
{
    size_t len = strlen(dir);
    return text_starts(path, dir) && (path[len] == '/' || path[len] == '\0');
}

/* What lies in the status directory is for everyone to read; dumps and changes are not. */
static int check_apart(const struct config *c, const struct config_source *src, struct err *e,
                       const char *section, const char *dir)
{
    const char *how = strcmp(c->status_dir, dir) == 0 ? "the same as"
                      : inside(c->status_dir, dir)    ? "inside"
                      : inside(dir, c->status_dir)    ? "around"
                                                      : NULL;
    if (!how)
        return 0;
    complain(src, e, "status", "dir",
             "value '%s' is %s [%s] dir '%s'; allowed: two directories apart", c->status_dir, how,
             section, dir);
    err_hint(e, "the status is public, %s are not: put them side by side",
             strcmp(section, "dump") == 0 ? "dumps" : "changes");
    return -1;
}

/* Segments have a directory of their own. */
static int check_journal(struct config *c, const struct config_source *src, struct err *e)
{
    if (!c->journal_dir)
        c->journal_dir = xasprintf("%s/journal", c->dump_dir);
    if (strcmp(c->journal_dir, c->dump_dir) != 0)
        return 0;
    complain(src, e, "journal", "dir",
             "value '%s' is [dump] dir too; allowed: a directory of its own", c->journal_dir);
    err_hint(e, "such as %s/journal, or one on another disk or machine", c->dump_dir);
    return -1;
}

static int check_dirs(struct config *c, const struct config_source *src, struct err *e)
{
    if (check_journal(c, src, e) < 0)
        return -1;
    if (!c->status_dir)
        return 0;
    return check_apart(c, src, e, "dump", c->dump_dir) < 0 ||
                   check_apart(c, src, e, "journal", c->journal_dir) < 0
               ? -1
               : 0;
}

static int check_status(const struct config *c, const struct config_source *src, struct err *e)
{
    static const char *const names[] = {"flag", "json", "metrics"};
    const char *const values[] = {c->flag_file, c->json_file, c->metrics_file};
    for (size_t i = 0; i < 3; i++)
        if (!c->status_dir && line_of(src, "status", names[i]))
            return useless(src, e, "status", names[i], "dir in the same section",
                           "name the directory with dir");
    for (size_t i = 1; i < 3; i++)
        for (size_t j = 0; j < i; j++) {
            if (!values[i] || !values[j] || strcmp(values[i], values[j]) != 0)
                continue;
            /* The one that was written: the other may be a default. */
            size_t at = line_of(src, "status", names[i]) > line_of(src, "status", names[j]) ? i : j;
            size_t other = at == i ? j : i;
            complain(src, e, "status", names[at],
                     "value '%s' is the name of %s too; allowed: a name of its own", values[at],
                     names[other]);
            err_hint(e, "one file would overwrite the other");
            return -1;
        }
    return 0;
}

static int check_smtp(const struct config *c, const struct config_source *src, struct err *e)
{
    static const char section[] = "alert.smtp";
    static const char *const optional[] = {"from", "to", "user", "password_file", "tls_ca"};
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
        if (!c->smtp.url && line_of(src, section, optional[i]))
            return useless(src, e, section, optional[i], "url in the same section",
                           "no mail is sent without url: add it, or take the whole section out");
    if (!c->smtp.url)
        return 0;
    if (!c->smtp.from || c->smtp.to_count == 0) {
        complain(src, e, section, "url", "needs %s%s%s in the same section",
                 c->smtp.from ? "" : "from", c->smtp.from || c->smtp.to_count ? "" : " and ",
                 c->smtp.to_count ? "" : "to");
        err_hint(e, "name sender and recipients, such as from = worldkeeper@HOST");
        return -1;
    }
    if (!c->smtp.user != !c->smtp.password_file)
        return useless(src, e, section, c->smtp.user ? "user" : "password_file",
                       c->smtp.user ? "password_file" : "user",
                       "a login needs both user and password_file");
    if (c->smtp.tls_ca && c->smtp.starttls == STARTTLS_OFF &&
        strncasecmp(c->smtp.url, "smtps:", 6) != 0)
        return useless(src, e, section, "tls_ca", "TLS", "write starttls = required");
    if (config_smtp_exposed(c) && !c->smtp.insecure) {
        complain(src, e, section, "starttls",
                 "less than required, to another host; allowed: required, or insecure = yes beside "
                 "it");
        err_hint(e, "starttls = required, or an smtps:// URL; insecure = yes lets everybody on the "
                    "way read");
        return -1;
    }
    if (c->smtp.insecure && !config_smtp_exposed(c))
        return useless(src, e, section, "insecure", "another host and starttls = preferred or off",
                       "the mail is safe without it: take it out");
    return 0;
}

/* Of a URL in a file it is asked when that is read. */
static int check_plain(const struct config_source *src, struct err *e, const char *section,
                       const char *url, bool insecure)
{
    bool exposed = url && config_plain_to_others(url, "http");
    if (exposed && !insecure) {
        complain(src, e, section, "url",
                 "http:// to another host; allowed: https://, or insecure = yes beside it");
        err_hint(e, "insecure = yes lets everybody on the way read it, and use it");
        return -1;
    }
    if (insecure && !exposed && !line_of(src, section, "url_file"))
        return useless(src, e, section, "insecure", "an http:// URL of another host",
                       "it is safe without it: take it out");
    return 0;
}

static int check_web_ca(const struct config *c, const struct config_source *src, struct err *e)
{
    static const char section[] = "alert.webhook";
    if (!c->webhook.tls_ca || c->webhook.url_file)
        return 0;
    if (!c->webhook.url)
        return useless(src, e, section, "tls_ca", "url or url_file",
                       "nothing is sent without url: add it, or take tls_ca out");
    if (strncasecmp(c->webhook.url, "https:", 6) != 0)
        return useless(src, e, section, "tls_ca", "an https:// URL", "write url = https://...");
    return 0;
}

static int check_web(const struct config *c, const struct config_source *src, struct err *e)
{
    if (check_either(src, e, "alert.webhook", "url", "url_file") < 0 ||
        check_either(src, e, "heartbeat", "url", "url_file") < 0 || check_web_ca(c, src, e) < 0 ||
        check_plain(src, e, "alert.webhook", c->webhook.url, c->webhook.insecure) < 0)
        return -1;
    return check_plain(src, e, "heartbeat", c->heartbeat_url, c->heartbeat_insecure);
}

static int check_keys(const struct config *c, const struct config_source *src, struct err *e)
{
    if (c->hmac_old_key_file && !c->hmac_key_file)
        return useless(src, e, "dump", "hmac_old_key_file", "hmac_key_file",
                       "new dumps need a key too: add hmac_key_file");
    return 0;
}

int config_check(struct config *c, const struct config_source *src, struct err *e)
{
    if (check_required(src, e) < 0 || check_mysql(c, src, e) < 0 || check_status(c, src, e) < 0 ||
        check_dirs(c, src, e) < 0 || check_smtp(c, src, e) < 0 || check_web(c, src, e) < 0 ||
        check_keys(c, src, e) < 0)
        return -1;
    int64_t patience = STALE_INTERVALS * c->dump_interval;
    if (!line_of(src, "alert", "max_dump_age") && c->max_dump_age < patience)
        c->max_dump_age = patience;
    return 0;
}
