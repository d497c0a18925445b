/* Text: growing buffers, durations and sizes with units, times, safe one-line output.
 * Running out of memory ends the process (systemd restarts it), so callers never check. */
#ifndef WK_BASE_TEXT_H
#define WK_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

/* A local variable that this function frees on every way out of its scope. It is initialized
 * where it is declared, and nothing else frees it: SCOPED(buf_free) struct buf b = {0}. */
#define SCOPED(free_it) __attribute__((cleanup(free_it)))

void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t size);
/* Overwrites and frees memory from malloc(); NULL is allowed. */
void wipe_free(void *p);
/* Returns `list` (`count` members of `size` bytes, grown only by this function) with room for one
 * more member. The capacity is doubled when it is full. */
void *xgrow(void *list, size_t count, size_t size);
/* Frees the memory that a pointer of any type points to: SCOPED(xfree) char *s = …. `at` is the
 * pointer's address. */
void xfree(void *at);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A growing byte buffer, always NUL-terminated at `len` once anything was added.
 * Starts as {0}; buf_free() frees the memory and resets it to {0}. */
struct buf {
    char *p;
    size_t len, cap;
    /* memory is overwritten before it is freed, also when the buffer grows; set it before anything
     * is added, as file_read_secret() does */
    bool secret;
};
void buf_reserve(struct buf *b, size_t more);
void buf_add(struct buf *b, const void *data, size_t len);
void buf_adds(struct buf *b, const char *s);
void buf_addc(struct buf *b, char c);
/* Appends a word for a shell, quoted if necessary. */
void buf_shell(struct buf *b, const char *word);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list ap);
void buf_clear(struct buf *b);
void buf_free(struct buf *b);

/* A list of names. Starts as {0}; names_free() frees it and resets it to {0}. */
struct names {
    char **list;
    size_t count;
};
void names_add(struct names *n, const char *name); /* copies the name */
bool names_has(const struct names *n, const char *name);
void names_free(struct names *n);

/* "250ms", "15m", "1h30m", "7d": milliseconds. Units ms s m h d w, each number with its unit.
 * Returns 0, or -1 for anything else (a bare number too, except "0"). */
int text_duration_parse(const char *s, int64_t *ms);
/* "64MiB", "1GB", "512k" (k M G T: powers of 1024 with or without "iB"; "kB MB GB TB": of 1000). */
int text_size_parse(const char *s, uint64_t *bytes);

#define TEXT_SHORT 48
/* Format a value as "1h 02m", "3m 05s", "12.3 s", "250 ms" / "1.4 GiB", "312 B" / "3,750,000";
 * return `out`. */
const char *text_duration(int64_t ms, char out[TEXT_SHORT]);
/* Formats a measured duration like text_duration(), but "less than 1 ms" for 0. */
const char *text_elapsed(int64_t ms, char out[TEXT_SHORT]);
/* Formats an upper bound of a duration: whole seconds below a minute, rounded up, never 0. */
const char *text_bound(int64_t ms, char out[TEXT_SHORT]);
const char *text_size(uint64_t bytes, char out[TEXT_SHORT]);
const char *text_count(uint64_t n, char out[TEXT_SHORT]);
/* Format a time as "2026-01-31T23:59:59Z", "2026-01-31T23:59:59.999Z" and "20260131T235959" (file
 * names; UTC). */
const char *text_utc(wall_t t, char out[TEXT_SHORT]);
const char *text_utc_ms(wall_t t, char out[TEXT_SHORT]);
/* Reads a time in the format of text_utc_ms(), up to CLOCK_WALL_MAX. Returns -1 for anything
 * else. */
int text_utc_ms_parse(const char *s, wall_t *out);
/* A time as people write it: "2026-11-21 18:30[:05]" in the machine's time zone, or in UTC with a Z
 * at the end (and a T or a blank inside); "2026-11-21" for its midnight; "18:30[:05]" for the most
 * recent such time; "-15m" for 15 minutes ago. Returns -1 for anything else. */
int text_time_parse(const char *s, wall_t now, wall_t *out);
/* Like text_time_parse(), for a time in the future; "18:30[:05]" is the next such time. */
int text_time_to_come(const char *s, wall_t now, wall_t *out);
/* Returns true for a local time that occurs twice because the clock is set back in between; `both`
 * is then set to the two times. */
bool text_time_twice(const char *s, wall_t now, bool to_come, wall_t both[2]);
const char *text_utc_name(wall_t t, char out[TEXT_SHORT]);

/* Appends `s` as one printable line: control, bidirectional and zero-width characters and invalid
 * UTF-8 become '?'; at most `max` bytes, truncated between characters with "..." at the end. */
void text_clean(struct buf *out, const char *s, size_t max);
/* Like text_clean(), for bytes that may include NUL. */
void text_clean_bytes(struct buf *out, const char *bytes, size_t len, size_t max);
/* Appends JSON without line ends. Each character that text_clean() replaces is written as \uXXXX:
 * the value is the same, but nothing moves the cursor or is invisible on a terminal. */
void text_escape_json(struct buf *out, const char *json);
bool text_utf8_valid(const char *s, size_t len);
void text_hex(const unsigned char *data, size_t len, char *out /* sets 2*len+1 characters */);
/* Returns true if `s` is exactly `len` hex digits as text_hex() writes them. */
bool text_is_hex(const char *s, size_t len);
/* Decodes `len` bytes. Returns false unless `s` has exactly their hex digits as text_hex() writes
 * them. */
bool text_unhex(const char *s, unsigned char *out, size_t len);
/* Inline, because they run over each byte of a dump. */
static inline bool text_is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}
/* Returns the value of a hex digit of either case. */
static inline unsigned text_hex_value(char c)
{
    return ((unsigned char)c & 15U) + ((unsigned char)c >> 6) * 9U;
}
/* Returns a 64-bit FNV-1a hash, which does not resist chosen input. Start with TEXT_HASH; continue
 * with the previous result. */
#define TEXT_HASH UINT64_C(0xcbf29ce484222325)
uint64_t text_hash(uint64_t hash, const void *bytes, size_t len);
bool text_starts(const char *s, const char *prefix);
bool text_among(const char *s, const char *const *list); /* ended by NULL */

#endif
