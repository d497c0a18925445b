/* Helpers for jansson. A missing value reads as the default; a value of the wrong type, or a number
 * out of range, counts as missing. */
#ifndef WK_BASE_JS_H
#define WK_BASE_JS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

/* Called before any other use: makes running out of memory for JSON end the program, as it does
 * elsewhere. Otherwise text that could not be parsed for lack of memory would count as damaged, and
 * a dump would be removed. */
void js_begin(void);
/* A string for display: control characters and invalid UTF-8 replaced. */
json_t *js_clean(const char *s);
/* "" if missing; valid as long as `o` is. */
const char *js_text(const json_t *o, const char *key);
int64_t js_number(const json_t *o, const char *key, int64_t missing);
/* The number if it is within the bounds, else `missing`. Every number from a file that is computed
 * with is read here, with bounds that rule out an overflow. */
int64_t js_within(const json_t *o, const char *key, int64_t least, int64_t most, int64_t missing);
/* Milliseconds since 1970, up to CLOCK_WALL_MAX; 0: missing or out of range. */
wall_t js_moment(const json_t *o, const char *key);
int js_flag(const json_t *o, const char *key);
/* Copies into a fixed field, truncated between characters. */
void js_copy(const json_t *o, const char *key, char *out, size_t size);
void js_set_clean(json_t *o, const char *key, const char *s);
void js_set_int(json_t *o, const char *key, int64_t n);
/* Members of a struct as members of an object: one table writes and reads them. */
enum js_kind {
    JS_TEXT,    /* char[] */
    JS_SHOWN,   /* char[] of text from outside: written with js_clean() */
    JS_HEX,     /* char[], filled with hex digits */
    JS_STRING,  /* char *, owned; read, it is never NULL */
    JS_NUMBER,  /* int64_t or uint64_t (or wall_t: milliseconds), from `least` to `most` */
    JS_SECONDS, /* wall_t as seconds since 1970, from `least` to `most` */
    JS_HASH,    /* uint64_t as 16 hex digits */
    JS_FLAG,    /* bool */
};
struct js_field {
    const char *key;
    enum js_kind kind;
    size_t offset, size;
    const char *lack; /* says what is wrong without it, or with another value; NULL: optional */
    int64_t least, most;
    bool sparse; /* an empty text is not written */
};
/* Of the rest of a field, lack and range, what is not given is NULL and 0. */
#define JS_FIELD(type, kind_, key_, member, ...)                                                   \
    {                                                                                              \
        .key = key_, .kind = JS_##kind_, .offset = offsetof(type, member),                         \
        .size = sizeof(((type *)0)->member), __VA_ARGS__                                           \
    }
#define JS_COUNT(fields) (sizeof(fields) / sizeof *(fields))
/* Adds them to `o`; -1: a text is not UTF-8. */
int js_write(json_t *o, const struct js_field *fields, size_t count, const void *from);
/* An object of them; NULL: a text is not UTF-8. */
json_t *js_object(const struct js_field *fields, size_t count, const void *from);
/* Sets all of them, those that are missing or wrong to zero or "". NULL, or the first `lack`. A
 * required JS_STRING must not be empty. */
const char *js_read(const json_t *o, const struct js_field *fields, size_t count, void *to);

/* The text of `o` in one canonical form, independent of spaces and order, without the keys listed
 * (ended by NULL); the caller frees. NULL: it failed. */
char *js_canonical(const json_t *o, const char *const *without);
/* UTC to the millisecond; null for ms 0. */
json_t *js_time(wall_t t);
json_t *js_utc(wall_t t); /* in whole seconds */
/* The number; null where it is not known. */
json_t *js_known(bool known, int64_t n);
/* JSON null for NULL: a new reference in every case. */
json_t *js_or_null(json_t *borrowed);

#endif
