#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/number.h"

/* Without memory no operation can be finished, so the process exits and systemd starts another. The
 * files on the disk are consistent at every moment. */
static void out_of_memory(void)
{
    static const char msg[] = "<2>worldkeeper: out of memory\n";
    fwrite(msg, 1, sizeof msg - 1, stderr);
    exit(1);
}

void *xcalloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);
    if (!p)
        out_of_memory();
    return p;
}

void *xrealloc(void *old, size_t size)
{
    void *p = realloc(old, size ? size : 1);
    if (!p)
        out_of_memory();
    return p;
}

void *xgrow(void *list, size_t count, size_t size)
{
    /* full at 0, 1, 2, 4, 8 …: so the capacity need not be stored */
    bool full = (count & (count - 1)) == 0;
    return full ? xrealloc(list, (count ? 2 * count : 1) * size) : list;
}

void wipe_free(void *p)
{
    if (p)
        explicit_bzero(p, malloc_usable_size(p));
    free(p);
}

void xfree(void *at)
{
    void *p;
    memcpy(&p, at, sizeof p); /* `at` may be the address of a pointer of any type */
    free(p);
}

/* Copies exactly `n` bytes, including NULs, and terminates them. */
char *xstrndup(const char *s, size_t n)
{
    char *p = xcalloc(n + 1, 1);
    memcpy(p, s, n);
    return p;
}

char *xstrdup(const char *s)
{
    return xstrndup(s, strlen(s));
}

char *xasprintf(const char *fmt, ...)
{
    struct buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    return b.p;
}

void buf_reserve(struct buf *b, size_t more)
{
    size_t need = b->len + more + 1;
    if (need <= b->cap)
        return;
    /* doubled, so that appending byte by byte is not slower */
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap *= 2;
    char *old = b->secret ? b->p : NULL;
    b->p = xrealloc(b->secret ? NULL : b->p, cap);
    if (old) { /* overwrites the old memory of a secret */
        memcpy(b->p, old, b->len + 1);
        explicit_bzero(old, b->cap);
        free(old);
    }
    b->cap = cap;
}

void buf_add(struct buf *b, const void *data, size_t len)
{
    buf_reserve(b, len);
    if (len)
        memcpy(b->p + b->len, data, len);
    b->len += len;
    b->p[b->len] = '\0';
}

void buf_adds(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_addc(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_shell(struct buf *b, const char *word)
{
    /* a list of characters that need no quotes, because shells differ in those that do */
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "@%+=:,./_-";
    if (word[0] && word[strspn(word, plain)] == '\0') {
        buf_adds(b, word);
        return;
    }
    buf_addc(b, '\'');
    for (const char *p = word; *p; p++)
        if (*p == '\'')
            buf_adds(b, "'\\''");
        else
            buf_addc(b, *p);
    buf_addc(b, '\'');
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
    /* printed twice: the first time only counts, so that nothing is truncated */
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0)
        n = 0;
    buf_reserve(b, (size_t)n);
    vsnprintf(b->p + b->len, (size_t)n + 1, fmt, again);
    va_end(again);
    b->len += (size_t)n;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(b, fmt, ap);
    va_end(ap);
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    if (b->p)
        b->p[0] = '\0';
}

void buf_free(struct buf *b)
{
    if (b->secret && b->p)
        explicit_bzero(b->p, b->cap);
    free(b->p);
    *b = (struct buf){0};
}

void names_add(struct names *n, const char *name)
{
    n->list = xgrow(n->list, n->count, sizeof *n->list);
    n->list[n->count++] = xstrdup(name);
}

bool names_has(const struct names *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->list[i], name) == 0)
            return true;
    return false;
}

void names_free(struct names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->list[i]);
    free(n->list);
    *n = (struct names){0};
}

struct unit {
    const char *name;
    uint64_t factor;
};

/* Reads "<digits><unit>" at *s; the units table ends with a NULL name. */
static int number_with_unit(const char **s, const struct unit *units, uint64_t *value)
{
    uint64_t n;
    const char *end = *s;
    if (!number_digits(&end, INT64_MAX, &n))
        return -1;
    size_t len = strcspn(end, "0123456789");
    for (const struct unit *u = units; u->name; u++)
        if (strlen(u->name) == len && strncmp(end, u->name, len) == 0) {
            *value = number_product(n, u->factor);
            if (*value > INT64_MAX)
                return -1;
            *s = end + len;
            return 0;
        }
    return -1;
}

int text_duration_parse(const char *s, int64_t *ms)
{
    static const struct unit units[] = {{"ms", 1},      {"s", 1000},     {"m", 60000},
                                        {"h", 3600000}, {"d", 86400000}, {"w", 604800000},
                                        {NULL, 0}};
    if (strcmp(s, "0") == 0) {
        *ms = 0;
        return 0;
    }
    uint64_t sum = 0, part;
    do {
        if (number_with_unit(&s, units, &part) < 0)
            return -1;
        sum = number_sum(sum, part);
        if (sum > INT64_MAX / 4)
            return -1;
    } while (*s);
    *ms = (int64_t)sum;
    return 0;
}

int text_size_parse(const char *s, uint64_t *bytes)
{
    /* single letters as in the servers' own options; "kB" and the like as on disk labels */
    static const uint64_t k = 1024, d = 1000;
    const struct unit units[] = {{"B", 1},
                                 {"k", k},
                                 {"K", k},
                                 {"M", k * k},
                                 {"G", k * k * k},
                                 {"T", k * k * k * k},
                                 {"KiB", k},
                                 {"kiB", k},
                                 {"MiB", k * k},
                                 {"GiB", k * k * k},
                                 {"TiB", k * k * k * k},
                                 {"kB", d},
                                 {"MB", d * d},
                                 {"GB", d * d * d},
                                 {"TB", d * d * d * d},
                                 {NULL, 0}};
    if (strcmp(s, "0") == 0) {
        *bytes = 0;
        return 0;
    }
    return number_with_unit(&s, units, bytes) < 0 || *s ? -1 : 0;
}

/* "1h 05m", but "1h" for a whole number of units, as written in a config. */
static void two_units(char out[TEXT_SHORT], int64_t n, const char *unit, int64_t rest,
                      const char *small)
{
    if (rest)
        snprintf(out, TEXT_SHORT, "%" PRId64 "%s %02" PRId64 "%s", n, unit, rest, small);
    else
        snprintf(out, TEXT_SHORT, "%" PRId64 "%s", n, unit);
}

const char *text_duration(int64_t ms, char out[TEXT_SHORT])
{
    int64_t s = ms / 1000;
    if (ms < 1000)
        snprintf(out, TEXT_SHORT, "%" PRId64 " ms", ms);
    else if (s < 60)
        snprintf(out, TEXT_SHORT, "%" PRId64 ".%" PRId64 " s", s, ms % 1000 / 100);
    else if (s < 3600)
        two_units(out, s / 60, "m", s % 60, "s");
    else if (s < 86400)
        two_units(out, s / 3600, "h", s % 3600 / 60, "m");
    else
        two_units(out, s / 86400, "d", s % 86400 / 3600, "h");
    return out;
}

const char *text_elapsed(int64_t ms, char out[TEXT_SHORT])
{
    if (ms != 0)
        return text_duration(ms, out);
    snprintf(out, TEXT_SHORT, "less than 1 ms");
    return out;
}

const char *text_bound(int64_t ms, char out[TEXT_SHORT])
{
    int64_t s = ms / 1000 + (ms % 1000 > 0);
    if (s >= 60)
        return text_duration(s * 1000, out);
    snprintf(out, TEXT_SHORT, "%" PRId64 " s", s > 0 ? s : 1);
    return out;
}

const char *text_size(uint64_t bytes, char out[TEXT_SHORT])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    size_t i = 0;
    while (v >= (i ? 1023.95 : 1024) && i < 4) { /* "1024.0 KiB" is "1.0 MiB" */
        v /= 1024;
        i++;
    }
    snprintf(out, TEXT_SHORT, i ? "%.1f %s" : "%.0f %s", v, names[i]);
    return out;
}

/* Independent of the locale, because scripts read messages and logs too. */
const char *text_count(uint64_t n, char out[TEXT_SHORT])
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, n);
    size_t o = 0;
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            out[o++] = ',';
        out[o++] = digits[i];
    }
    out[o] = '\0';
    return out;
}

const char *text_utc(wall_t t, char out[TEXT_SHORT])
{
    time_t s = (time_t)(t.ms / 1000);
    struct tm tm;
    gmtime_r(&s, &tm);
    strftime(out, TEXT_SHORT, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return out;
}

const char *text_utc_ms(wall_t t, char out[TEXT_SHORT])
{
    text_utc(t, out);
    size_t seconds = strlen(out) - 1;
    snprintf(out + seconds, TEXT_SHORT - seconds, ".%03dZ", (int)(t.ms % 1000));
    return out;
}

/* Without a colon, because some file systems refuse it in names. */
const char *text_utc_name(wall_t t, char out[TEXT_SHORT])
{
    time_t s = (time_t)(t.ms / 1000);
    struct tm tm;
    gmtime_r(&s, &tm);
    strftime(out, TEXT_SHORT, "%Y%m%dT%H%M%S", &tm);
    return out;
}

/* Length of the valid UTF-8 character at s (RFC 3629), or 0. */
static size_t utf8_char(const unsigned char *s, size_t left)
{
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xc2 && s[0] < 0xe0   ? 2
               : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
               : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                             : 0;
    if (n == 0 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    /* overlong forms, surrogates, and code points beyond U+10FFFF */
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

bool text_utf8_valid(const char *s, size_t len)
{
    const unsigned char *p = (const unsigned char *)s;
    for (size_t i = 0; i < len;) {
        size_t n = utf8_char(p + i, len - i);
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

/* `s`: a valid character of `len` bytes. */
static uint32_t code_point(const unsigned char *s, size_t len)
{
    static const unsigned char lead[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t c = s[0] & lead[len];
    for (size_t i = 1; i < len; i++)
        c = c << 6 | (s[i] & 0x3f);
    return c;
}

/* Returns true for characters that are invisible or change how others are displayed: control
 * characters and line ends, bidirectional controls, and characters without width (Unicode's
 * Default_Ignorable_Code_Point and the invisible format characters). */
static bool text_unprintable(uint32_t c)
{
    static const struct {
        uint32_t from, to;
    } ranges[] = {{0, 0x1f},          {0x7f, 0x9f},       {0xad, 0xad},      {0x34f, 0x34f},
                  {0x61c, 0x61c},     {0x115f, 0x1160},   {0x17b4, 0x17b5},  {0x180b, 0x180f},
                  {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},  {0x3164, 0x3164},
                  {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},  {0xfff0, 0xfffb},
                  {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges && c >= ranges[i].from; i++)
        if (c <= ranges[i].to)
            return true;
    return false;
}

void text_clean(struct buf *out, const char *s, size_t max)
{
    text_clean_bytes(out, s, strlen(s), max);
}

void text_clean_bytes(struct buf *out, const char *bytes, size_t len, size_t max)
{
    const unsigned char *p = (const unsigned char *)bytes;
    size_t used = 0;
    /* makes it a text, even if nothing follows */
    buf_add(out, "", 0);
    for (size_t i = 0; i < len;) {
        size_t n = utf8_char(p + i, len - i);
        if (used + (n ? n : 1) > max) {
            buf_adds(out, "...");
            return;
        }
        if (n == 0 || text_unprintable(code_point(p + i, n)))
            buf_addc(out, '?');
        else
            buf_add(out, p + i, n);
        used += n ? n : 1;
        i += n ? n : 1;
    }
}

void text_escape_json(struct buf *out, const char *json)
{
    const unsigned char *p = (const unsigned char *)json;
    buf_add(out, "", 0);
    for (size_t len = strlen(json); len > 0;) {
        size_t n = utf8_char(p, len);
        uint32_t c = n ? code_point(p, n) : *p;
        n = n ? n : 1;
        if (c > 0xffff && text_unprintable(c))
            buf_printf(out, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
        else if (text_unprintable(c))
            buf_printf(out, "\\u%04x", c);
        else
            buf_add(out, (const char *)p, n);
        p += n;
        len -= n;
    }
}

void text_hex(const unsigned char *data, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[data[i] >> 4];
        out[2 * i + 1] = digits[data[i] & 15];
    }
    out[2 * len] = '\0';
}

bool text_is_hex(const char *s, size_t len)
{
    return strlen(s) == len && strspn(s, "0123456789abcdef") == len;
}

bool text_unhex(const char *s, unsigned char *out, size_t len)
{
    if (!text_is_hex(s, 2 * len))
        return false;
    for (size_t i = 0; i < len; i++)
        out[i] = (unsigned char)(text_hex_value(s[2 * i]) << 4 | text_hex_value(s[2 * i + 1]));
    return true;
}

bool text_among(const char *s, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(*list, s) == 0)
            return true;
    return false;
}

uint64_t text_hash(uint64_t hash, const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

bool text_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Returns true for the name of the local zone at that date, as mails print it after a local time;
 * false without a date. */
static bool is_local_zone(const char *name, struct tm at)
{
    at.tm_isdst = -1;
    return at.tm_mday > 0 && mktime(&at) != -1 && strcmp(name, at.tm_zone) == 0;
}

/* Reads a time. Only its zone may follow the part that `format` reads. */
static bool text_read_time(const char *s, const char *format, struct tm *tm, bool *utc)
{
    const char *end = strptime(s, format, tm);
    /* accepts the form of commands, and that of mails, pages and the terminal */
    size_t zone = !end ? 0 : *end == 'Z' ? 1 : text_starts(end, " UTC") ? 4 : 0;
    *utc = zone > 0;
    return end && (end[zone] == '\0' || (*end == ' ' && is_local_zone(end + 1, *tm)));
}

static wall_t text_time_of(struct tm *tm, bool utc)
{
    tm->tm_isdst = -1;
    return (wall_t){(int64_t)(utc ? timegm(tm) : mktime(tm)) * 1000};
}

int text_utc_ms_parse(const char *s, wall_t *out)
{
    struct tm tm = {0};
    const char *end = strptime(s, "%Y-%m-%dT%H:%M:%S", &tm);
    char *rest;
    if (!end || tm.tm_year < 70 || end[0] != '.' || end[1] < '0' || end[1] > '9')
        return -1;
    long ms = strtol(end + 1, &rest, 10);
    if (rest != end + 4 || strcmp(rest, "Z") != 0)
        return -1;
    int day = tm.tm_mday; /* the 31st of a shorter month would become another day */
    out->ms = (int64_t)timegm(&tm) * 1000 + ms;
    return tm.tm_mday == day && out->ms <= CLOCK_WALL_MAX ? 0 : -1;
}

static const char *const dated[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M",
                                    "%Y-%m-%d %H:%M", "%Y-%m-%d"};
static const char *const timed[] = {"%H:%M:%S", "%H:%M"};

int text_time_parse(const char *s, wall_t now, wall_t *out)
{
    int64_t ago;
    bool utc;
    if (s[0] == '-' && text_duration_parse(s + 1, &ago) == 0) {
        *out = (wall_t){now.ms - ago};
        return 0;
    }
    for (size_t i = 0; i < sizeof dated / sizeof *dated; i++) {
        struct tm tm = {0};
        if (text_read_time(s, dated[i], &tm, &utc)) {
            int day = tm.tm_mday; /* the 31st of a shorter month is normalized to another day */
            *out = text_time_of(&tm, utc);
            return tm.tm_mday == day ? 0 : -1;
        }
    }
    /* A time of day alone means the last such time. Goes back a calendar day, not 24 hours, because
     * mktime() knows which days have 23 or 25 hours. */
    for (size_t i = 0; i < sizeof timed / sizeof *timed; i++) {
        struct tm tm, clock = {0};
        time_t today = (time_t)(now.ms / 1000);
        if (!text_read_time(s, timed[i], &clock, &utc))
            continue;
        if (utc)
            gmtime_r(&today, &tm);
        else
            localtime_r(&today, &tm);
        tm.tm_hour = clock.tm_hour;
        tm.tm_min = clock.tm_min;
        tm.tm_sec = clock.tm_sec;
        *out = text_time_of(&tm, utc);
        if (out->ms > now.ms) {
            tm.tm_mday--;
            *out = text_time_of(&tm, utc);
        }
        return 0;
    }
    return -1;
}

/* Returns true if the local clock has shown this time before. Zones are set back by half an hour to
 * two hours. */
static bool shown_twice(wall_t at, wall_t both[2])
{
    static const int steps[] = {1800, 3600, 7200};
    time_t t = (time_t)(at.ms / 1000), u;
    struct tm a, b;
    localtime_r(&t, &a);
    for (size_t i = 0; i < 2 * sizeof steps / sizeof *steps; i++) {
        u = t + (i % 2 ? steps[i / 2] : -steps[i / 2]);
        localtime_r(&u, &b);
        if (a.tm_mday != b.tm_mday || a.tm_hour != b.tm_hour || a.tm_min != b.tm_min)
            continue;
        both[0] = (wall_t){(int64_t)(t < u ? t : u) * 1000};
        both[1] = (wall_t){(int64_t)(t < u ? u : t) * 1000};
        return true;
    }
    return false;
}

bool text_time_twice(const char *s, wall_t now, bool to_come, wall_t both[2])
{
    bool utc;
    for (size_t i = 0; i < sizeof dated / sizeof *dated; i++) {
        struct tm tm = {0};
        if (text_read_time(s, dated[i], &tm, &utc))
            return !utc && shown_twice(text_time_of(&tm, false), both);
    }
    /* A time of day means the nearest one: today, or the day before or after. */
    for (size_t i = 0; i < sizeof timed / sizeof *timed; i++) {
        for (int day = 0; day < 2; day++) {
            struct tm tm;
            time_t today = (time_t)(now.ms / 1000);
            localtime_r(&today, &tm);
            tm.tm_sec = 0;
            if (!text_read_time(s, timed[i], &tm, &utc) || utc)
                break;
            tm.tm_mday += to_come ? day : -day;
            wall_t at = text_time_of(&tm, false);
            bool twice = shown_twice(at, both);
            if (to_come ? (twice ? both[1] : at).ms > now.ms : (twice ? both[0] : at).ms <= now.ms)
                return twice;
        }
    }
    return false;
}

int text_time_to_come(const char *s, wall_t now, wall_t *out)
{
    /* Also covers days of 23 and 25 hours (DST): each step adds at most one such time of day. */
    for (int64_t hours = 12; hours <= 36 && s[0] != '-'; hours += 12)
        if (text_time_parse(s, (wall_t){now.ms + hours * 3600000}, out) == 0 && out->ms > now.ms)
            return 0;
    return -1;
}
