/* Finds connections that other users of the network could read or change. */
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "config/config.h"

/* Accepts only addresses in 127.0.0.0/8: 127.example.org is a name that may resolve elsewhere. */
static bool safe_is_here(const char *host, size_t len)
{
    static const char *const names[] = {"localhost", "::1", "[::1]"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == len && strncasecmp(host, names[i], len) == 0)
            return true;
    return len > 4 && strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") >= len;
}

/* Does not resolve the name, because that would depend on the network. */
bool config_is_here(const char *host)
{
    return safe_is_here(host, strlen(host));
}

/* The last "@" before the path ends the login: a password may hold others. */
static const char *safe_host_of(const char *url, size_t *len)
{
    const char *s = strstr(url, "://"), *at;
    s = s ? s + 3 : url;
    size_t n = strcspn(s, "/?#");
    while ((at = memchr(s, '@', n))) {
        n -= (size_t)(at + 1 - s);
        s = at + 1;
    }
    const char *close = *s == '[' ? memchr(s, ']', n) : NULL;
    *len = close ? (size_t)(close + 1 - s) : strcspn(s, ":/?#");
    *len = *len < n ? *len : n;
    return s;
}

bool config_plain_to_others(const char *url, const char *scheme)
{
    size_t n = strlen(scheme), len;
    if (strncasecmp(url, scheme, n) != 0 || url[n] != ':')
        return false;
    const char *host = safe_host_of(url, &len);
    return !safe_is_here(host, len);
}

/* An unverified certificate protects from listeners, but not from an impostor. */
bool config_mysql_exposed(const struct config_mysql *m)
{
    return m->host && m->tls != TLS_VERIFY && !config_is_here(m->host);
}

bool config_smtp_exposed(const struct config *c)
{
    return c->smtp.url && c->smtp.starttls != STARTTLS_REQUIRED &&
           config_plain_to_others(c->smtp.url, "smtp");
}

char *config_exposed(const struct config *c, unsigned i)
{
    const struct {
        bool is;
        const char *text;
    } list[] = {
        {config_mysql_exposed(&c->mysql) && c->mysql.tls == TLS_OFF,
         "[mysql] tls = off: rows and logins cross the network unencrypted"},
        {config_mysql_exposed(&c->mysql) && c->mysql.tls != TLS_OFF,
         "[mysql] insecure = yes: anybody on the network path can impersonate the database server"},
        {config_mysql_exposed(&c->progress.server) && c->progress.server.tls == TLS_OFF,
         "[progress] tls = off: players' progress and logins cross the network unencrypted"},
        {config_mysql_exposed(&c->progress.server) && c->progress.server.tls != TLS_OFF,
         "[progress] insecure = yes: anybody on the network path can impersonate the central "
         "store"},
        {config_smtp_exposed(c),
         "[alert.smtp] insecure = yes: mail may cross the network unencrypted"},
        {c->offsite.insecure,
         "[offsite] insecure = yes: copies and the login may cross the network unencrypted"},
        {c->standby.insecure,
         "[standby] insecure = yes: anybody on the network path can take the lease"},
        {c->heartbeat_insecure,
         "[heartbeat] insecure = yes: the secret in the URL may cross the network unencrypted"},
    };
    for (size_t k = 0; k < sizeof list / sizeof *list; k++)
        if (list[k].is && i-- == 0)
            return xstrdup(list[k].text);
    for (const struct config_webhook *w = c->webhooks; w < c->webhooks + CONFIG_WEBHOOKS; w++)
        if (w->insecure && i-- == 0)
            return xasprintf("[%s] insecure = yes: alerts and the secret in the URL may cross the "
                             "network unencrypted",
                             w->section);
    return NULL;
}
