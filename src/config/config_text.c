/* Values that are text: names, paths, addresses. */
#include "config/config_keys.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/text.h"

#define NAME_CHARS_MAX 64    /* of a schema or table, in characters: the servers' limit */
#define LEASE_SUFFIX_CHARS 6 /* "_lease" behind the sentinel's name */
#define USER_CHARS_MAX 128
#define SOCKET_BYTES_MAX 107 /* sun_path */
#define HOST_BYTES_MAX 253
#define MAIL_BYTES_MAX 254

/* ---- names ---- */

int config_parse_world(const struct config_key *k, const char *value, void *field,
                       struct config_bad *bad)
{
    (void)k;
    static const char chars[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
    char low[33] = "";
    for (size_t i = 0; i < sizeof low - 1 && value[i]; i++)
        low[i] = (char)tolower((unsigned char)value[i]);
    bool fits = strlen(value) <= 32 && strspn(low, chars) == strlen(value) && low[0] != '_' &&
                low[0] != '-';
    if (fits && strcmp(low, value) == 0)
        return config_store(field, value);
    config_refuse(bad, "a world's name",
                  "1 to 32 of a-z, 0-9, '_' and '-', with a letter or digit in front");
    return fits ? config_hint(bad, "write %s", low) : -1;
}

/* Characters of UTF-8 text that is known to be valid. */
static size_t characters(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

/* Both servers keep names in three-byte UTF-8. */
static bool beyond_bmp(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s >= 0xf0)
            return true;
    return false;
}

/* NULL: a world can be there. */
static const char *schema_fault(const char *name, const char **allowed)
{
    static const char *const own[] = {"mysql", "information_schema", "performance_schema", "sys"};
    *allowed = "the schema of a game";
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcasecmp(name, own[i]) == 0)
            return "a world: it belongs to the server";
    *allowed = "1 to 64 characters, none beyond U+FFFF";
    return name[0] && characters(name) <= NAME_CHARS_MAX && !beyond_bmp(name) ? NULL
                                                                              : "a schema name";
}

int config_parse_schema(const struct config_key *k, const char *value, void *field,
                        struct config_bad *bad)
{
    (void)k;
    const char *allowed, *fault = schema_fault(value, &allowed);
    return fault ? config_refuse(bad, fault, allowed) : config_store(field, value);
}

int config_check_into(const char *schema, struct err *e)
{
    const char *allowed, *fault = schema_fault(schema, &allowed);
    if (!fault)
        return 0;
    return err_set(e, ERR_USAGE, 0, "--into '%.200s' is not %s; allowed: %s", schema, fault,
                   allowed);
}

int config_parse_table(const struct config_key *k, const char *value, void *field,
                       struct config_bad *bad)
{
    (void)k;
    if (characters(value) <= NAME_CHARS_MAX - LEASE_SUFFIX_CHARS && !beyond_bmp(value) &&
        !strchr(value, '%'))
        return config_store(field, value);
    return config_refuse(
        bad, "a table name that can be used",
        "1 to 58 characters (the lease table's name is 6 longer), no '%', none beyond "
        "U+FFFF");
}

int config_parse_user(const struct config_key *k, const char *value, void *field,
                      struct config_bad *bad)
{
    (void)k;
    if (characters(value) <= USER_CHARS_MAX)
        return config_store(field, value);
    return config_refuse(bad, "a user name", "1 to 128 characters");
}

int config_parse_word(const struct config_key *k, const char *value, void *field,
                      struct config_bad *bad)
{
    (void)k;
    if (!strpbrk(value, " \t") && strlen(value) <= MAIL_BYTES_MAX)
        return config_store(field, value);
    return config_refuse(bad, "one word", "1 to 254 bytes without blanks");
}

int config_parse_host(const struct config_key *k, const char *value, void *field,
                      struct config_bad *bad)
{
    (void)k;
    static const char chars[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%";
    const char *colon = strchr(value, ':');
    bool with_port = colon && !strchr(colon + 1, ':');
    if (strlen(value) <= HOST_BYTES_MAX && strspn(value, chars) == strlen(value) && !with_port &&
        value[0] != '-')
        return config_store(field, value);
    config_refuse(bad, "a host", "a host name or an IPv4 or IPv6 address");
    if (with_port && config_digits(colon + 1) > 0)
        return config_hint(bad, "write host = %.*s and port = %s", (int)(colon - value), value,
                           colon + 1);
    return value[0] == '/' ? config_hint(bad, "a socket is written as socket = %.100s", value) : -1;
}

int config_parse_file(const struct config_key *k, const char *value, void *field,
                      struct config_bad *bad)
{
    (void)k;
    if (!strchr(value, '/') && value[0] != '.')
        return config_store(field, value);
    config_refuse(bad, "a plain file name", "a name without '/' that does not begin with '.'");
    return config_hint(bad, "the directory is named by dir in the same section");
}

/* ---- paths ---- */

/* The same path without "//", "/./" and a '/' at the end, to be freed; NULL for one that is
 * relative, names nothing below "/" or climbs with "..". */
static char *plain_path(const char *s)
{
    struct buf b = {0};
    bool good = s[0] == '/';
    while (good && *s) {
        s += strspn(s, "/");
        size_t len = strcspn(s, "/");
        if (len == 2 && strncmp(s, "..", 2) == 0)
            good = false;
        else if (len && !(len == 1 && s[0] == '.'))
            buf_printf(&b, "/%.*s", (int)len, s);
        s += len;
    }
    if (good && b.len)
        return b.p;
    buf_free(&b);
    return NULL;
}

int config_parse_path(const struct config_key *k, const char *value, void *field,
                      struct config_bad *bad)
{
    char *path = plain_path(value);
    if (!path)
        return config_refuse(bad, "an absolute path", "a path from '/' on, without '..'");
    bool fits = strcmp(k->name, "socket") != 0 || strlen(path) <= SOCKET_BYTES_MAX;
    if (fits)
        config_store(field, path);
    else
        config_refuse(bad, "a path that a socket can have", "at most 107 bytes");
    free(path);
    return fits ? 0 : -1;
}

int config_parse_secret(const struct config_key *k, const char *value, void *field,
                        struct config_bad *bad)
{
    (void)k;
    static const char credential[] = "credential:";
    if (text_starts(value, credential)) {
        const char *name = value + sizeof credential - 1;
        if (name[0] && name[0] != '.' && !strchr(name, '/'))
            return config_store(field, value);
    }
    char *path = plain_path(value);
    if (path) {
        config_store(field, path);
        free(path);
        return 0;
    }
    config_refuse(bad, "the place of a secret file",
                  "an absolute path without '..', or credential:NAME");
    return config_hint(bad, "the secret itself stands in that file (mode 0600), on its first line");
}

/* ---- addresses ---- */

static bool host_and_port(const char *s, size_t len)
{
    size_t host;
    if (s[0] == '[') {
        host = 1 + strspn(s + 1, "0123456789abcdefABCDEF:.");
        if (host < 4 || host >= len || s[host] != ']')
            return false;
        host++;
    } else {
        for (host = 0; host < len && s[host] != ':'; host++)
            if (!isalnum((unsigned char)s[host]) && !strchr(".-_", s[host]))
                return false;
        if (host == 0 || s[0] == '-')
            return false;
    }
    if (host == len)
        return true;
    char *port = xstrndup(s + host + 1, len - host - 1);
    int64_t n = config_digits(port);
    free(port);
    return s[host] == ':' && n > 0 && n <= 65535;
}

static int parse_url(const char *plain, const char *tls, const char *login_hint, const char *value,
                     void *field, struct config_bad *bad)
{
    config_refuse(bad, "a URL", "");
    snprintf(bad->allowed, sizeof bad->allowed, "%sHOST[:PORT]... or %sHOST[:PORT]...", tls, plain);
    size_t scheme = strncasecmp(value, tls, strlen(tls)) == 0       ? strlen(tls)
                    : strncasecmp(value, plain, strlen(plain)) == 0 ? strlen(plain)
                                                                    : 0;
    if (scheme == 0)
        return -1;
    for (const char *p = value; *p; p++)
        if (*p <= ' ' || *p > '~' || strchr("\"<>\\^`{|}", *p))
            return -1;
    const char *authority = value + scheme;
    size_t len = strcspn(authority, "/?#");
    if (memchr(authority, '@', len)) {
        snprintf(bad->what, sizeof bad->what, "free of a login");
        return config_hint(bad, "%s", login_hint);
    }
    return host_and_port(authority, len) ? config_store(field, value) : -1;
}

int config_parse_web_url(const struct config_key *k, const char *value, void *field,
                         struct config_bad *bad)
{
    (void)k;
    return parse_url("http://", "https://",
                     "put the URL into a file of its own (mode 0600) and name that with url_file",
                     value, field, bad);
}

int config_parse_mail_url(const struct config_key *k, const char *value, void *field,
                          struct config_bad *bad)
{
    (void)k;
    return parse_url("smtp://", "smtps://",
                     "name the login with user, and the password's file with password_file", value,
                     field, bad);
}

/* Nothing in it can end a header line, name a second recipient or need quoting. */
static int check_mail(const char *value, struct config_bad *bad)
{
    const char *at = strchr(value, '@');
    bool good = at && at > value && at[1] && !strchr(at + 1, '@') && at[1] != '.' &&
                strlen(value) <= MAIL_BYTES_MAX;
    for (const char *p = value; good && *p; p++)
        good = *p > ' ' && *p <= '~' && !strchr("\"(),:;<>[\\]", *p);
    if (good)
        return 0;
    config_refuse(bad, "a mail address",
                  "NAME@HOST in ASCII, without blanks and any of \"(),:;<>[\\]");
    return strchr(value, '<') ? config_hint(bad, "write only what stands between < and >") : -1;
}

int config_parse_mail(const struct config_key *k, const char *value, void *field,
                      struct config_bad *bad)
{
    (void)k;
    return check_mail(value, bad) < 0 ? -1 : config_store(field, value);
}

struct mails {
    char **to;
    unsigned count;
    struct config_bad *bad;
};

static int add_mail(const char *part, void *arg)
{
    struct mails *m = arg;
    if (check_mail(part, m->bad) < 0)
        return -1;
    m->to = xrealloc(m->to, (m->count + 1) * sizeof *m->to);
    m->to[m->count++] = xstrdup(part);
    return 0;
}

int config_parse_mails(const struct config_key *k, const char *value, void *field,
                       struct config_bad *bad)
{
    (void)k;
    struct config_smtp *smtp = field;
    struct mails m = {NULL, 0, bad};
    int rc = config_each(value, add_mail, &m);
    struct mails drop = m;
    if (rc == 0) {
        drop.to = smtp->to;
        drop.count = smtp->to_count;
        smtp->to = m.to;
        smtp->to_count = m.count;
    } else {
        snprintf(bad->what, sizeof bad->what, "a list of mail addresses");
        snprintf(bad->allowed, sizeof bad->allowed,
                 "NAME@HOST, NAME@HOST ... in ASCII, without any of \"():;<>[\\]");
    }
    for (unsigned i = 0; i < drop.count; i++)
        free(drop.to[i]);
    free(drop.to);
    return rc;
}
