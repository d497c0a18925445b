/* Text: growing buffers, durations and sizes with units, times, one-line safe output.
 * Memory: running out of it ends the process (systemd starts it again); callers never check. */
#ifndef WK_CORE_TEXT_H
#define WK_CORE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/clock.h"

void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A growing byte buffer, always NUL terminated behind `len` once anything was added.
 * Starts as {0}; buf_free() gives the memory back and makes it {0} again. */
struct buf {
    char *p;
    size_t len, cap;
};
void buf_reserve(struct buf *b, size_t more);
void buf_add(struct buf *b, const void *data, size_t len);
void buf_adds(struct buf *b, const char *s);
void buf_addc(struct buf *b, char c);
/* A word as a shell must be told it: as it is, or in quotes. */
void buf_shell(struct buf *b, const char *word);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list ap);
void buf_clear(struct buf *b);
void buf_free(struct buf *b);

/* "250ms", "15m", "1h30m", "7d": milliseconds. Units ms s m h d w, each number with its unit.
 * Returns 0, or -1 for anything else (a bare number too, except "0"). */
int text_duration_parse(const char *s, int64_t *ms);
/* "64MiB", "1GB", "512k" (k M G T: powers of 1024 with or without "iB"; "kB MB GB TB": of 1000). */
int text_size_parse(const char *s, uint64_t *bytes);

#define TEXT_SHORT 48
/* "1h 02m", "3m 05s", "12.3 s", "250 ms" / "1.4 GiB", "312 B" / "3,750,000"; return `out`. */
const char *text_duration(int64_t ms, char out[TEXT_SHORT]);
const char *text_size(uint64_t bytes, char out[TEXT_SHORT]);
const char *text_count(uint64_t n, char out[TEXT_SHORT]);
/* "2026-01-31T23:59:59Z" and "20260131T235959" (for file names; UTC). */
const char *text_utc(wall_t t, char out[TEXT_SHORT]);
/* A moment as people write it: "2026-11-21 18:30[:05]" in the machine's time zone, with a Z behind
 * it (and a T or a blank within) in UTC; "18:30[:05]" for the last time it was so late; "-15m" for
 * so long ago. Returns -1 where it is none of them. */
int text_time_parse(const char *s, wall_t now, wall_t *out);
const char *text_utc_name(wall_t t, char out[TEXT_SHORT]);

/* Copies `s` as one printable line: control characters, also those for the direction of writing,
 * and broken UTF-8 become '?'; at most `max` bytes, cut between characters with "..." at the end.
 */
void text_clean(struct buf *out, const char *s, size_t max);
bool text_utf8_valid(const char *s, size_t len);
void text_hex(const unsigned char *data, size_t len, char *out /* 2*len+1 */);
bool text_starts(const char *s, const char *prefix);
bool text_among(const char *s, const char *const *list); /* ended by NULL */

#endif
