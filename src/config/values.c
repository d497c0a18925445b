/* The kinds of values: how each is read, what is allowed, and what was probably meant. */
#include "base/line.h"
#include "config/keys.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "config/store_url.h"

#define SOCKET_BYTES_MAX 107 /* sun_path */

/* Sets "is not <what>; allowed: …", for the message about the value; a hint follows. */
static int values_refuse(struct err *bad, const char *what, const char *allowed, ...)
    __attribute__((format(printf, 3, 4)));
static int values_refuse(struct err *bad, const char *what, const char *allowed, ...)
{
    char text[sizeof bad->text / 2];
    va_list ap;
    va_start(ap, allowed);
    line_vset(text, sizeof text, allowed, ap);
    va_end(ap);
    return err_set(bad, ERR_CONFIG, 0, "is not %s; allowed: %s", what, text);
}

/* Copies `s` in lower case, as much of it as fits. */
static void values_lower(const char *s, char *out, size_t size)
{
    size_t i = 0;
    for (; i < size - 1 && s[i]; i++)
        out[i] = (char)tolower((unsigned char)s[i]);
    out[i] = '\0';
}

/* Reads digits only. Returns -1 for anything else, and for more than 18 digits. */
static int64_t values_digits(const char *s)
{
    size_t len = strspn(s, "0123456789");
    return len == 0 || len > 18 || s[len] ? -1 : (int64_t)strtoll(s, NULL, 10);
}

char *config_next_part(const char **list)
{
    if (!*list)
        return NULL;
    const char *s = *list + strspn(*list, " \t");
    size_t whole = strcspn(s, ","), len = whole;
    while (len && (s[len - 1] == ' ' || s[len - 1] == '\t'))
        len--;
    *list = s[whole] ? s + whole + 1 : NULL;
    return xstrndup(s, len);
}

size_t config_distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b), row[CONFIG_NEAR_MAX + 1];
    if (la >= CONFIG_NEAR_MAX || lb >= CONFIG_NEAR_MAX)
        return CONFIG_NEAR_MAX;
    for (size_t j = 0; j <= lb; j++)
        row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t corner = row[0]; /* the diagonal cell */
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

void config_nearer(const char *typed, const char *word, const char **best)
{
    if (config_near(typed, word) &&
        (!*best || config_distance(typed, word) < config_distance(typed, *best)))
        *best = word;
}

/* ---- numbers and choices: `n` receives the value ---- */

static int read_yes_no(const char *value, int64_t *n, struct err *bad)
{
    static const char *const like_yes[] = {"yes", "true", "on", "1", "y", "enabled"};
    static const char *const like_no[] = {"no", "false", "off", "0", "n", "disabled"};
    *n = strcmp(value, "yes") == 0;
    if (*n || strcmp(value, "no") == 0)
        return 0;
    values_refuse(bad, "yes or no", "yes, no");
    for (size_t i = 0; i < sizeof like_yes / sizeof *like_yes; i++)
        if (strcasecmp(value, like_yes[i]) == 0 || strcasecmp(value, like_no[i]) == 0)
            err_hint(bad, "write %s", strcasecmp(value, like_yes[i]) == 0 ? "yes" : "no");
    return -1;
}

/* The case of a word is only used for a suggestion, because a config must be unambiguous. `what`
 * and `before` begin the two parts of a refusal. */
static int read_choice(const struct config_choice *list, const char *value, const char *what,
                       const char *before, int64_t *n, struct err *bad)
{
    SCOPED(buf_free) struct buf allowed = {0};
    char low[CONFIG_NEAR_MAX] = "";
    const char *near = NULL;
    values_lower(value, low, sizeof low);
    buf_adds(&allowed, before);
    for (const struct config_choice *c = list; c->name; c++) {
        if (strcmp(c->name, value) == 0) {
            *n = c->value;
            return 0;
        }
        buf_printf(&allowed, "%s%s", c == list ? "" : ", ", c->name);
        config_nearer(low, c->name, &near);
    }
    values_refuse(bad, what, "%s", allowed.p);
    return near ? err_hint(bad, "write %s", near) : -1;
}

/* Names are an interface: configs list them, and filters of mails and webhooks read them. */
static const struct config_choice events[] = {
    {"down", EVENT_DOWN},       {"restoring", EVENT_RESTORING}, {"restored", EVENT_RESTORED},
    {"waiting", EVENT_WAITING}, {"discarded", EVENT_DISCARDED}, {"stale", EVENT_STALE},
    {"disk", EVENT_DISK},       {"sentinel", EVENT_SENTINEL},   {"started", EVENT_STARTED},
    {"journal", EVENT_JOURNAL}, {"check", EVENT_CHECK},         {"progress", EVENT_PROGRESS},
    {"ledger", EVENT_LEDGER},   {"drill", EVENT_DRILL},         {"offsite", EVENT_OFFSITE},
    {"pause", EVENT_PAUSE},     {"standby", EVENT_STANDBY},     {NULL, 0}};

const char *config_event_name(unsigned event)
{
    const struct config_choice *c = events;
    while (c->name && (unsigned)c->value != event)
        c++;
    return c->name;
}

static int values_read_events(const char *value, int64_t *n, struct err *bad)
{
    bool all = strcmp(value, "all") == 0;
    int rc = 0;
    char *part;
    *n = all ? EVENT_ALL : 0;
    for (const char *rest = value; !all && rc == 0 && (part = config_next_part(&rest));) {
        int64_t bit = 0;
        rc = read_choice(events, part, "'all' or a list of events", "all, or some of ", &bit, bad);
        *n |= bit;
        free(part);
    }
    return rc;
}

/* Reads "04:30". Minutes are counted from 1, because 0 means none. */
static int values_read_time(const char *value, int64_t *n, struct err *bad)
{
    size_t hours = strspn(value, "0123456789");
    bool form = hours >= 1 && hours <= 2 && value[hours] == ':' &&
                strspn(value + hours + 1, "0123456789") == 2 && !value[hours + 3];
    int64_t hour = form ? strtol(value, NULL, 10) : 24,
            minute = form ? strtol(value + hours + 1, NULL, 10) : 60;
    *n = 1 + hour * 60 + minute;
    return hour < 24 && minute < 60 ? 0 : values_refuse(bad, "a time of day", "00:00 to 23:59");
}

/* A whole number, a percentage, or a number of connections. */
static int values_read_number(const struct config_key *k, const char *value, int64_t *n,
                              struct err *bad)
{
    bool percent = k->kind == CONFIG_PERCENT, connections = k->kind == CONFIG_CONNECTIONS;
    size_t len = strlen(value);
    /* a bare number could also mean a fraction of one */
    bool sign = percent && value[len - 1] == '%';
    char *number = xstrndup(value, len - sign);
    bool automatic = connections && strcmp(value, "auto") == 0;
    *n = automatic ? 0 : values_digits(number);
    free(number);
    bool fits = *n >= k->min && *n <= k->max;
    if (automatic || (fits && sign == percent))
        return 0;
    const char *unit = percent ? "%" : "";
    values_refuse(bad,
                  connections                  ? "a number of connections"
                  : *n >= 0 && sign == percent ? "in range"
                  : percent                    ? "a percentage"
                                               : "a whole number",
                  "%s%" PRId64 "%s to %" PRId64 "%s", connections ? "auto, or " : "", k->min, unit,
                  k->max, unit);
    return percent && fits ? err_hint(bad, "write %" PRId64 "%%", *n) : -1;
}

/* Writes "100ms", "90s", "15m": in the largest unit that divides the duration. */
static void exact_duration(int64_t ms, char *out, size_t size)
{
    static const struct {
        int64_t ms;
        const char *unit;
    } units[] = {{604800000, "w"}, {86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}};
    for (size_t i = 0; ms && i < sizeof units / sizeof *units; i++)
        if (ms % units[i].ms == 0) {
            snprintf(out, size, "%" PRId64 "%s", ms / units[i].ms, units[i].unit);
            return;
        }
    snprintf(out, size, ms ? "%" PRId64 "ms" : "%" PRId64, ms);
}

/* Guesses what `value` means: removes blanks, and adds the unit of `example` if it has none. Empty
 * if there is no guess. */
static void guess_unit(const char *value, const char *example, char out[32])
{
    size_t n = 0;
    for (const char *p = value; *p; p++)
        if (*p != ' ' && *p != '\t') {
            if (n >= 20) {
                out[0] = '\0';
                return;
            }
            out[n++] = *p;
        }
    out[n] = '\0';
    if (n && strspn(out, "0123456789") == n)
        snprintf(out + n, 32 - n, "%s", example + strspn(example, "0123456789"));
}

static int read_duration(const struct config_key *k, const char *value, int64_t *ms,
                         struct err *bad)
{
    bool parsed = text_duration_parse(value, ms) == 0;
    if (parsed && *ms >= k->min && *ms <= k->max)
        return 0;
    const char *example = k->def ? k->def : "15m";
    char from[32], to[32], meant[32];
    exact_duration(k->min, from, sizeof from);
    exact_duration(k->max, to, sizeof to);
    values_refuse(bad,
                  !parsed        ? "a duration with units"
                  : *ms < k->min ? "long enough"
                                 : "short enough",
                  "%s to %s", from, to);
    guess_unit(value, example, meant);
    if (!parsed && text_duration_parse(meant, ms) == 0)
        return err_hint(bad, "write %s (units: ms, s, m, h, d, w)", meant);
    return parsed ? -1 : err_hint(bad, "units: ms, s, m, h, d, w; such as %s or 1h30m", example);
}

static int values_read_size(const struct config_key *k, const char *value, int64_t *n,
                            struct err *bad)
{
    uint64_t bytes = 0;
    char from[TEXT_SHORT], to[TEXT_SHORT], meant[32];
    const char *example = k->def ? k->def : "1GiB";
    if (text_size_parse(value, &bytes) == 0) {
        *n = (int64_t)bytes;
        if (bytes >= (uint64_t)k->min && bytes <= (uint64_t)k->max)
            return 0;
        return values_refuse(bad, bytes < (uint64_t)k->min ? "large enough" : "small enough",
                             "%s%s%s", text_size((uint64_t)k->min, from),
                             k->max == INT64_MAX ? " and more" : " to ",
                             k->max == INT64_MAX ? "" : text_size((uint64_t)k->max, to));
    }
    guess_unit(value, example, meant);
    values_refuse(bad, "a size with a unit",
                  "%sa number with B, KiB, MiB, GiB, TiB, kB, MB, GB or TB",
                  k->min > 0 ? "" : "0, or ");
    if (text_size_parse(meant, &bytes) == 0)
        return err_hint(bad, "write %s", meant);
    return err_hint(bad, "such as %s", strcmp(example, "0") == 0 ? "1MiB" : example);
}

/* ---- texts ---- */

/* Returns the path without "//", "/./" and a trailing '/' (malloc); NULL: it is relative, is "/" or
 * contains "..". */
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

/* Returns true for the server's own schemas. A restore replaces tables by name, and would replace
 * accounts or statistics there. */
static bool is_of_server(const char *schema)
{
    static const char *const own[] = {"mysql", "information_schema", "performance_schema", "sys"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcasecmp(schema, own[i]) == 0)
            return true;
    return false;
}

struct own_schema {
    const char *prefix, *what, *allowed;
};

/* Returns which of our own schemas, which are dropped, it is; NULL: none. */
static const struct own_schema *own_schema(const char *schema)
{
    static const struct own_schema own[] = {
        {CONFIG_DRILL_SCHEMA, "a world's schema: drills create and drop schemas with such names",
         "a name that does not begin with " CONFIG_DRILL_SCHEMA},
        {CONFIG_WARM_SCHEMA, "a world's schema: standbys create and drop schemas with such names",
         "a name that does not begin with " CONFIG_WARM_SCHEMA}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strncasecmp(schema, own[i].prefix, strlen(own[i].prefix)) == 0)
            return &own[i];
    return NULL;
}

void config_own_schema(const char *prefix, const struct config *c, char out[CONFIG_OWN_SCHEMA_MAX])
{
    snprintf(out, CONFIG_OWN_SCHEMA_MAX, "%s%.40s", prefix, c->name);
}

/* Returns the colon of "HOST:PORT"; NULL: none, or several, as in an IPv6 address. */
static const char *port_of(const char *value)
{
    const char *colon = strchr(value, ':');
    return colon && !strchr(colon + 1, ':') ? colon : NULL;
}

/* Checked here, so that a typing error is an error of the config, and not of an alert at night. */
static bool is_host_and_port(const char *s, size_t len)
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
    SCOPED(xfree) char *port = xstrndup(s + host + 1, len - host - 1);
    int64_t n = values_digits(port);
    return s[host] == ':' && n > 0 && n <= 65535;
}

/* Returns where the host of a URL begins; NULL: another scheme, or characters that no URL has. */
static const char *authority_of(enum config_kind kind, const char *value)
{
    bool web = kind == CONFIG_WEB_URL;
    const char *plain = web ? "http://" : "smtp://", *tls = web ? "https://" : "smtps://";
    size_t scheme = strncasecmp(value, tls, strlen(tls)) == 0       ? strlen(tls)
                    : strncasecmp(value, plain, strlen(plain)) == 0 ? strlen(plain)
                                                                    : 0;
    /* none of these may be in a URL; a line end would begin another line of a request */
    for (const char *p = value; *p; p++)
        if (*p <= ' ' || *p > '~' || strchr("\"<>\\^`{|}", *p))
            return NULL;
    return scheme ? value + scheme : NULL;
}

/* Checks the URL only: the config keeps the text, and its parts are parsed again where they are
 * needed. */
static bool is_store(const char *value)
{
    struct store_url u;
    if (store_url_parse(value, &u) < 0)
        return false;
    bool good = !u.host || is_host_and_port(u.host, strlen(u.host));
    store_url_free(&u);
    return good;
}

/* Accepts only addresses that cannot end a header line, name a second recipient or need quoting. */
static bool is_mail(const char *value)
{
    const char *at = strchr(value, '@');
    bool good = at && at > value && at[1] && !strchr(at + 1, '@') && at[1] != '.';
    for (const char *p = value; good && *p; p++)
        good = *p > ' ' && *p <= '~';
    return good;
}

#define LETTERS_DIGITS "abcdefghijklmnopqrstuvwxyz0123456789"
#define CAPITALS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define PATHS "a path from '/' on, without '..'"

/* Limits of the kinds of text. Omitted members do not limit. */
static const struct {
    const char *what, *allowed, *hint;
    size_t characters, bytes; /* maximum */
    /* only these characters; none of these; not at the beginning */
    const char *only, *without, *not_first;
    bool bmp; /* no character beyond U+FFFF: both servers store names in three-byte UTF-8 */
} texts[] = {
    [CONFIG_WORLD] = {"a world's name",
                      "1 to 32 of a-z, 0-9, '_' and '-', with a letter or digit in front",
                      .bytes = 32, .only = LETTERS_DIGITS "_-", .not_first = "_-"},
    [CONFIG_SCHEMA] = {"a schema name", "1 to 64 characters, none beyond U+FFFF", .characters = 64,
                       .bmp = true},
    /* the servers' limit, without "_lease" after it */
    [CONFIG_TABLE] =
        {"a table name that can be used",
         "1 to 58 characters (the lease table's name is 6 longer), no '%', none beyond U+FFFF",
         .characters = 58, .without = "%", .bmp = true},
    [CONFIG_USER] = {"a user name", "1 to 128 characters", .characters = 128},
    [CONFIG_HOST] = {"a host", "a host name or an IPv4 or IPv6 address", .bytes = 253,
                     .only = LETTERS_DIGITS CAPITALS ".-_:%", .not_first = "-"},
    [CONFIG_PATH] = {"an absolute path", PATHS},
    [CONFIG_SOCKET] = {"an absolute path", PATHS},
    [CONFIG_SECRET] = {"the location of a secret file",
                       "an absolute path without '..', or credential:NAME",
                       "put the secret in that file (mode 0600), on its first line"},
    [CONFIG_FILE] = {"a plain file name", "a name without '/' that does not begin with '.'",
                     "the directory is named by dir in the same section", .without = "/",
                     .not_first = "."},
    [CONFIG_WEB_URL] = {"a URL", "https://HOST[:PORT]... or http://HOST[:PORT]..."},
    [CONFIG_WEB_URLS] = {"a list of URLs",
                         "1 to 9 of https://HOST[:PORT] or http://HOST[:PORT], with commas between "
                         "them and no path"},
    [CONFIG_MAIL_URL] = {"a URL", "smtps://HOST[:PORT]... or smtp://HOST[:PORT]..."},
    [CONFIG_STORE_URL] =
        {"the URL of a store",
         "sftp://USER@HOST[:PORT]/DIR/, s3://BUCKET[/PREFIX/], https://HOST[:PORT]/DIR/ or "
         "file:///DIR/, without '?', '#' and '..'"},
    [CONFIG_MAIL] = {"a mail address",
                     "NAME@HOST in ASCII, without blanks and any of \"(),:;<>[\\]", .bytes = 254,
                     .without = "\"(),:;<>[\\]"},
    [CONFIG_MAILS] = {"a list of mail addresses",
                      "NAME@HOST, NAME@HOST ... in ASCII, without any of \"():;<>[\\]"},
    [CONFIG_COLUMNS] = {"a list of columns", "1 to 8 different names with commas between them"},
    [CONFIG_WORD] = {"one word", "1 to 254 bytes without blanks", .bytes = 254, .without = " \t"},
    [CONFIG_LINE] = {"a line of text", "1 to 300 characters", .characters = 300},
    [CONFIG_NAME] = {"a name on the server", "1 to 64 characters, none beyond U+FFFF",
                     .characters = 64, .bmp = true},
    [CONFIG_LOCK_ID] = {"a game server's name", "1 to 64 bytes without blanks", .bytes = 64,
                        .without = " \t"},
    [CONFIG_URL_END] = {"the end of a URL's path",
                        "'/', and up to 63 of letters, digits, '-', '.', '_', '~', '/' after it",
                        .bytes = 64, .only = LETTERS_DIGITS CAPITALS "-._~/",
                        .not_first = LETTERS_DIGITS CAPITALS "-._~"},
};

/* `value` is valid UTF-8. */
static bool values_fits(enum config_kind kind, const char *value)
{
    size_t characters = 0, bytes = strlen(value);
    bool beyond = false;
    for (const char *s = value; *s; s++) {
        characters += ((unsigned char)*s & 0xc0) != 0x80;
        beyond |= (unsigned char)*s >= 0xf0;
    }
    return bytes > 0 && !(texts[kind].characters && characters > texts[kind].characters) &&
           !(texts[kind].bytes && bytes > texts[kind].bytes) && !(texts[kind].bmp && beyond) &&
           !(texts[kind].only && strspn(value, texts[kind].only) < bytes) &&
           !(texts[kind].without && strcspn(value, texts[kind].without) < bytes) &&
           !(texts[kind].not_first && strchr(texts[kind].not_first, value[0]));
}

/* Returns the URLs without blanks, and without a '/' at the end of each; NULL: they are invalid. */
static char *read_urls(const char *value)
{
    struct buf b = {0};
    bool good = true;
    unsigned count = 0;
    char *part;
    for (const char *rest = value; (part = config_next_part(&rest));) {
        char *url = config_read_text(CONFIG_WEB_URL, part);
        const char *authority = url ? authority_of(CONFIG_WEB_URL, url) : "?";
        size_t host = strcspn(authority, "/?#");
        good = good && ++count <= 9 && (!authority[host] || strcmp(authority + host, "/") == 0);
        if (good)
            buf_printf(&b, "%s%.*s", b.len ? "," : "", (int)(authority + host - url), url);
        free(url);
        free(part);
    }
    if (good)
        return b.p;
    buf_free(&b);
    return NULL;
}

char *config_read_text(enum config_kind kind, const char *value)
{
    static const char credential[] = "credential:";
    const char *name = value + sizeof credential - 1, *authority;
    bool good = values_fits(kind, value);
    if (kind == CONFIG_SECRET && text_starts(value, credential) && name[0] && name[0] != '.' &&
        !strchr(name, '/'))
        return xstrdup(value);
    if (kind == CONFIG_PATH || kind == CONFIG_SOCKET || kind == CONFIG_SECRET) {
        char *path = plain_path(value);
        if (!path || kind != CONFIG_SOCKET || strlen(path) <= SOCKET_BYTES_MAX)
            return path;
        free(path);
        return NULL;
    }
    if (kind == CONFIG_WEB_URLS)
        return read_urls(value);
    if (kind == CONFIG_SCHEMA)
        good = good && !is_of_server(value) && !own_schema(value);
    else if (kind == CONFIG_HOST)
        good = good && !port_of(value);
    else if (kind == CONFIG_MAIL)
        good = good && is_mail(value);
    else if (kind == CONFIG_STORE_URL)
        good = is_store(value);
    else if (kind == CONFIG_WEB_URL || kind == CONFIG_MAIL_URL)
        good = (authority = authority_of(kind, value)) &&
               !memchr(authority, '@', strcspn(authority, "/?#")) &&
               is_host_and_port(authority, strcspn(authority, "/?#"));
    return good ? xstrdup(value) : NULL;
}

/* Explains what was probably meant, or what is wrong, in other words. */
static void values_explain(enum config_kind kind, const char *value, struct err *bad)
{
    bool url = kind == CONFIG_WEB_URL || kind == CONFIG_MAIL_URL;
    const char *colon = port_of(value), *authority = url ? authority_of(kind, value) : NULL;
    char low[64], *path = kind == CONFIG_SOCKET ? plain_path(value) : NULL;
    const struct own_schema *own = kind == CONFIG_SCHEMA ? own_schema(value) : NULL;
    values_lower(value, low, sizeof low);
    if (kind == CONFIG_WORLD && values_fits(kind, low))
        err_hint(bad, "write %s", low);
    else if (kind == CONFIG_SCHEMA && is_of_server(value))
        values_refuse(bad, "a world: it belongs to the server", "the schema of a game");
    else if (own)
        values_refuse(bad, own->what, "%s", own->allowed);
    else if (kind == CONFIG_HOST && colon && values_digits(colon + 1) > 0)
        err_hint(bad, "use host = %.*s and port = %s", (int)(colon - value), value, colon + 1);
    else if (kind == CONFIG_HOST && value[0] == '/')
        err_hint(bad, "for a socket use socket = %s", value);
    else if (path)
        values_refuse(bad, "a path that is short enough for a socket", "at most 107 bytes");
    else if (kind == CONFIG_STORE_URL && strncasecmp(value, "sftp:", 5) == 0 && !strchr(value, '@'))
        err_hint(bad, "add the account: sftp://USER@HOST/DIR/");
    else if (kind == CONFIG_STORE_URL && strchr(value, '@'))
        err_hint(bad, "do not put a password in a URL: for https use user and password_file; for "
                      "sftp use key_file");
    else if (kind == CONFIG_MAIL && strchr(value, '<'))
        err_hint(bad, "use only the part between < and >");
    else if (authority && memchr(authority, '@', strcspn(authority, "/?#"))) {
        values_refuse(bad, "a URL without a login", "%s", texts[kind].allowed);
        err_hint(bad, kind == CONFIG_WEB_URL
                          ? "put the URL in its own file (mode 0600) and name that file in url_file"
                          : "set user, and name the password's file in password_file");
    }
    free(path);
}

/* First what is allowed, then what may have been meant: the second replaces words of the
 * first. */
static char *read_text(enum config_kind kind, const char *value, struct err *bad)
{
    char *text = config_read_text(kind, value);
    if (text)
        return text;
    values_refuse(bad, texts[kind].what, "%s", texts[kind].allowed);
    if (texts[kind].hint)
        err_hint(bad, "%s", texts[kind].hint);
    values_explain(kind, value, bad);
    return NULL;
}

int config_check_into(const char *schema, struct err *e)
{
    struct err bad;
    SCOPED(xfree) char *good = read_text(CONFIG_SCHEMA, schema, &bad);
    return good ? 0 : err_set(e, ERR_USAGE, 0, "--into '%s' %s", schema, bad.text);
}

/* ---- storing ---- */

void config_list_free(struct config_list *l)
{
    for (unsigned i = 0; i < l->count; i++)
        free(l->list[i]);
    free(l->list);
    *l = (struct config_list){0};
}

/* The servers' names of columns do not differ by case. */
static bool has_column(const struct config_list *l, const char *name)
{
    for (unsigned i = 0; i < l->count; i++)
        if (strcasecmp(l->list[i], name) == 0)
            return true;
    return false;
}

/* The old list stays until every part of the new one is good. */
static int set_list(struct config_list *list, enum config_kind kind, const char *value,
                    struct err *bad)
{
    bool columns = kind == CONFIG_COLUMNS, good = true;
    enum config_kind of = columns ? CONFIG_NAME : CONFIG_MAIL;
    struct config_list new = {0};
    char *part;
    for (const char *rest = value; good && (part = config_next_part(&rest)); free(part)) {
        SCOPED(xfree) char *text = config_read_text(of, part);
        good = text && (!columns || (new.count < CONFIG_LEDGER_COLUMNS && !has_column(&new, text)));
        if (good) {
            new.list = xgrow(new.list, new.count, sizeof *new.list);
            new.list[new.count++] = xstrdup(text);
        } else {
            values_refuse(bad, texts[kind].what, "%s", texts[kind].allowed);
            values_explain(of, part, bad);
        }
    }
    config_list_free(good ? list : &new);
    if (good)
        *list = new;
    return good ? 0 : -1;
}

_Static_assert(sizeof(enum config_tls) == sizeof(int) && sizeof(unsigned) == sizeof(int), "store");

int config_set(void *object, const struct config_key *k, const char *value, struct err *bad)
{
    char *field = (char *)object + k->offset;
    int64_t n = 0;
    if (k->kind == CONFIG_MAILS || k->kind == CONFIG_COLUMNS)
        return set_list((void *)field, k->kind, value, bad);
    if (k->kind >= CONFIG_TEXTS) {
        char **stored = (char **)(void *)field, *text = read_text(k->kind, value, bad);
        if (!text)
            return -1;
        free(*stored);
        *stored = text;
        return 0;
    }
    int rc = k->kind == CONFIG_YES_NO     ? read_yes_no(value, &n, bad)
             : k->choices                 ? read_choice(k->choices, value, "known", "", &n, bad)
             : k->kind == CONFIG_EVENTS   ? values_read_events(value, &n, bad)
             : k->kind == CONFIG_DURATION ? read_duration(k, value, &n, bad)
             : k->kind == CONFIG_TIME     ? values_read_time(value, &n, bad)
             : k->kind == CONFIG_SIZE     ? values_read_size(k, value, &n, bad)
                                          : values_read_number(k, value, &n, bad);
    if (rc < 0)
        return -1;
    int small = (int)n; /* int, unsigned and enums have the same layout */
    bool flag = n != 0;
    if (k->kind == CONFIG_DURATION || k->kind == CONFIG_SIZE)
        memcpy(field, &n, sizeof n);
    else if (k->kind == CONFIG_YES_NO || k->kind == CONFIG_FLAG)
        memcpy(field, &flag, sizeof flag);
    else
        memcpy(field, &small, sizeof small);
    return 0;
}
