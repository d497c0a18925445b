/* Values that are words or numbers: one parser per kind. Each says what is allowed and, where a
 * guess is good, what to write. */
#include "config/config_keys.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/text.h"

int config_refuse(struct config_bad *bad, const char *what, const char *allowed)
{
    *bad = (struct config_bad){0};
    snprintf(bad->what, sizeof bad->what, "%s", what);
    snprintf(bad->allowed, sizeof bad->allowed, "%s", allowed);
    return -1;
}

int config_hint(struct config_bad *bad, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(bad->hint, sizeof bad->hint, fmt, ap);
    va_end(ap);
    return -1;
}

int config_store(void *field, const char *value)
{
    char **p = field;
    free(*p);
    *p = xstrdup(value);
    return 0;
}

static int store_int(void *field, int value) /* int, unsigned and the enums are stored alike */
{
    memcpy(field, &value, sizeof value);
    return 0;
}
_Static_assert(sizeof(enum config_tls) == sizeof(int) && sizeof(unsigned) == sizeof(int), "store");

/* ---- words ---- */

int config_parse_yes_no(const struct config_key *k, const char *value, void *field,
                        struct config_bad *bad)
{
    (void)k;
    static const char *const like_yes[] = {"yes", "true", "on", "1", "y", "enabled"};
    static const char *const like_no[] = {"no", "false", "off", "0", "n", "disabled"};
    bool yes = strcmp(value, "yes") == 0;
    if (yes || strcmp(value, "no") == 0) {
        memcpy(field, &yes, sizeof yes);
        return 0;
    }
    config_refuse(bad, "yes or no", "yes, no");
    for (size_t i = 0; i < sizeof like_yes / sizeof *like_yes; i++)
        if (strcasecmp(value, like_yes[i]) == 0 || strcasecmp(value, like_no[i]) == 0)
            config_hint(bad, "write %s", strcasecmp(value, like_yes[i]) == 0 ? "yes" : "no");
    return -1;
}

static int refuse_choice(const struct config_choice *list, const char *value,
                         struct config_bad *bad)
{
    struct buf allowed = {0};
    char low[CONFIG_NEAR_MAX] = "";
    for (size_t i = 0; i < sizeof low - 1 && value[i]; i++)
        low[i] = (char)tolower((unsigned char)value[i]);
    const struct config_choice *near = NULL;
    buf_adds(&allowed, "");
    for (const struct config_choice *c = list; c->name; c++) {
        buf_printf(&allowed, "%s%s", allowed.len ? ", " : "", c->name);
        if (config_near(low, c->name) &&
            (!near || config_distance(low, c->name) < config_distance(low, near->name)))
            near = c;
    }
    config_refuse(bad, "known", allowed.p);
    buf_free(&allowed);
    return near ? config_hint(bad, "write %s", near->name) : -1;
}

static const struct config_choice *choose(const struct config_choice *list, const char *value,
                                          struct config_bad *bad)
{
    for (const struct config_choice *c = list; c->name; c++)
        if (strcmp(c->name, value) == 0)
            return c;
    refuse_choice(list, value, bad);
    return NULL;
}

int config_parse_choice(const struct config_key *k, const char *value, void *field,
                        struct config_bad *bad)
{
    const struct config_choice *c = choose(k->choices, value, bad);
    return c ? store_int(field, c->value) : -1;
}

int config_parse_flag(const struct config_key *k, const char *value, void *field,
                      struct config_bad *bad)
{
    const struct config_choice *c = choose(k->choices, value, bad);
    if (!c)
        return -1;
    bool on = c->value != 0;
    memcpy(field, &on, sizeof on);
    return 0;
}

int config_each(const char *list, int (*each)(const char *part, void *arg), void *arg)
{
    for (;;) {
        list += strspn(list, " \t");
        size_t whole = strcspn(list, ","), len = whole;
        while (len && (list[len - 1] == ' ' || list[len - 1] == '\t'))
            len--;
        char *part = xstrndup(list, len);
        int rc = each(part, arg);
        free(part);
        if (rc < 0 || list[whole] == '\0')
            return rc;
        list += whole + 1;
    }
}

static const struct config_choice event_names[] = {{"down", EVENT_DOWN},
                                                   {"restoring", EVENT_RESTORING},
                                                   {"restored", EVENT_RESTORED},
                                                   {"waiting", EVENT_WAITING},
                                                   {"discarded", EVENT_DISCARDED},
                                                   {"stale", EVENT_STALE},
                                                   {"disk", EVENT_DISK},
                                                   {"sentinel", EVENT_SENTINEL},
                                                   {"started", EVENT_STARTED},
                                                   {"journal", EVENT_JOURNAL},
                                                   {NULL, 0}};

struct events {
    int bits;
    struct config_bad *bad;
};

static int add_event(const char *part, void *arg)
{
    struct events *ev = arg;
    const struct config_choice *c = choose(event_names, part, ev->bad);
    if (c)
        ev->bits |= c->value;
    return c ? 0 : -1;
}

int config_parse_events(const struct config_key *k, const char *value, void *field,
                        struct config_bad *bad)
{
    (void)k;
    if (strcmp(value, "all") == 0)
        return store_int(field, EVENT_ALL);
    struct events ev = {0, bad};
    if (config_each(value, add_event, &ev) == 0)
        return store_int(field, ev.bits);
    snprintf(bad->what, sizeof bad->what, "'all' or a list of events");
    char list[sizeof bad->allowed];
    memcpy(list, bad->allowed, sizeof list);
    snprintf(bad->allowed, sizeof bad->allowed, "all, or some of %.200s", list);
    return -1;
}

/* ---- numbers ---- */

int64_t config_digits(const char *s)
{
    size_t len = strspn(s, "0123456789");
    return len == 0 || len > 9 || s[len] ? -1 : (int64_t)strtol(s, NULL, 10);
}

static int refuse_number(const struct config_key *k, const char *what, const char *unit,
                         struct config_bad *bad)
{
    config_refuse(bad, what, "");
    snprintf(bad->allowed, sizeof bad->allowed, "%" PRId64 "%s to %" PRId64 "%s", k->min, unit,
             k->max, unit);
    return -1;
}

int config_parse_number(const struct config_key *k, const char *value, void *field,
                        struct config_bad *bad)
{
    int64_t n = config_digits(value);
    if (n >= k->min && n <= k->max)
        return store_int(field, (int)n);
    return refuse_number(k, n < 0 ? "a whole number" : "in range", "", bad);
}

int config_parse_percent(const struct config_key *k, const char *value, void *field,
                         struct config_bad *bad)
{
    size_t len = strlen(value);
    bool sign = value[len - 1] == '%';
    char *number = xstrndup(value, len - sign);
    int64_t n = config_digits(number);
    free(number);
    bool fits = n >= k->min && n <= k->max;
    if (sign && fits)
        return store_int(field, (int)n);
    refuse_number(k, sign && n >= 0 ? "in range" : "a percentage", "%", bad);
    return fits ? config_hint(bad, "write %" PRId64 "%%", n) : -1;
}

int config_parse_connections(const struct config_key *k, const char *value, void *field,
                             struct config_bad *bad)
{
    if (strcmp(value, "auto") == 0)
        return store_int(field, 0);
    int64_t n = config_digits(value);
    if (n >= k->min && n <= k->max)
        return store_int(field, (int)n);
    refuse_number(k, "a number of connections", "", bad);
    char range[sizeof bad->allowed];
    memcpy(range, bad->allowed, sizeof range);
    snprintf(bad->allowed, sizeof bad->allowed, "auto, or %.100s", range);
    return -1;
}

/* "100ms", "90s", "15m": in the largest unit that is exact. */
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

/* What was probably meant by `value`: without blanks, and with the unit of `example` if it has
 * none. Empty if it cannot be told. */
static void guess_unit(const char *value, const char *example, char out[32])
{
    size_t n = 0;
    out[0] = '\0';
    for (const char *p = value; *p; p++)
        if (*p != ' ' && *p != '\t') {
            if (n >= 20)
                return;
            out[n++] = *p;
        }
    out[n] = '\0';
    if (n && strspn(out, "0123456789") == n)
        snprintf(out + n, 32 - n, "%s", example + strspn(example, "0123456789"));
}

int config_parse_duration(const struct config_key *k, const char *value, void *field,
                          struct config_bad *bad)
{
    int64_t ms = 0;
    bool parsed = text_duration_parse(value, &ms) == 0;
    if (parsed && ms >= k->min && ms <= k->max) {
        memcpy(field, &ms, sizeof ms);
        return 0;
    }
    const char *example = k->def ? k->def : "15m";
    char from[32], to[32], meant[32];
    exact_duration(k->min, from, sizeof from);
    exact_duration(k->max, to, sizeof to);
    config_refuse(bad,
                  !parsed       ? "a duration with units"
                  : ms < k->min ? "long enough"
                                : "short enough",
                  "");
    snprintf(bad->allowed, sizeof bad->allowed, "%s to %s", from, to);
    guess_unit(value, example, meant);
    if (!parsed && text_duration_parse(meant, &ms) == 0)
        return config_hint(bad, "write %s (units: ms, s, m, h, d, w)", meant);
    return parsed ? -1 : config_hint(bad, "units: ms, s, m, h, d, w; such as %s or 1h30m", example);
}

static void size_range(const struct config_key *k, struct config_bad *bad)
{
    char from[TEXT_SHORT], to[TEXT_SHORT];
    text_size((uint64_t)k->min, from);
    if (k->max == INT64_MAX)
        snprintf(bad->allowed, sizeof bad->allowed, "%s and more", from);
    else
        snprintf(bad->allowed, sizeof bad->allowed, "%s to %s", from,
                 text_size((uint64_t)k->max, to));
}

int config_parse_size(const struct config_key *k, const char *value, void *field,
                      struct config_bad *bad)
{
    uint64_t bytes = 0;
    bool parsed = text_size_parse(value, &bytes) == 0;
    if (parsed && bytes >= (uint64_t)k->min && bytes <= (uint64_t)k->max) {
        memcpy(field, &bytes, sizeof bytes);
        return 0;
    }
    const char *example = k->def ? k->def : "1GiB";
    char meant[32];
    if (parsed) {
        config_refuse(bad, bytes < (uint64_t)k->min ? "large enough" : "small enough", "");
        size_range(k, bad);
        return -1;
    }
    guess_unit(value, example, meant);
    config_refuse(bad, "a size with a unit",
                  "0, or a number with B, KiB, MiB, GiB, TiB, kB, MB, GB or TB");
    if (text_size_parse(meant, &bytes) == 0)
        return config_hint(bad, "write %s", meant);
    return config_hint(bad, "such as %s", example);
}
