/* Helpers for jansson. A missing value reads as the default; a value of the wrong type, or a number
 * out of range, counts as missing. */
#ifndef WK_BASE_JS_H
#define WK_BASE_JS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

/* Makes running out of memory for JSON end the program, as elsewhere. Call it before any other use
 * of jansson. Otherwise text that could not be parsed for lack of memory would count as damaged,
 * and a dump would be removed. */
void js_begin(void);
/* Returns a string for display, with control characters and invalid UTF-8 replaced. */
json_t *js_clean(const char *s);
/* Returns "" if the key is missing; valid as long as `o` is. */
const char *js_text(const json_t *o, const char *key);
int64_t js_number(const json_t *o, const char *key, int64_t missing);
/* Returns the number if it is within the bounds, else `missing`. Every number from a file that is
 * used in a computation is read here, with bounds that rule out an overflow. */
int64_t js_within(const json_t *o, const char *key, int64_t least, int64_t most, int64_t missing);
/* Reads milliseconds since 1970, up to CLOCK_WALL_MAX; 0: missing or out of range. */
wall_t js_moment(const json_t *o, const char *key);
int js_flag(const json_t *o, const char *key);
/* Copies a text into a fixed field, truncated between characters. */
void js_copy(const json_t *o, const char *key, char *out, size_t size);
void js_set_clean(json_t *o, const char *key, const char *s);
void js_set_int(json_t *o, const char *key, int64_t n);
/* Maps members of a struct to members of an object; the same table writes and reads them. */
enum js_kind {
    JS_TEXT,    /* char[] */
    JS_SHOWN,   /* char[] of text from outside: written with js_clean() */
    JS_HEX,     /* char[], filled with hex digits */
    JS_STRING,  /* char *, owned; never NULL after reading */
    JS_NUMBER,  /* int64_t or uint64_t (or wall_t: milliseconds), from `least` to `most` */
    JS_SECONDS, /* wall_t as seconds since 1970, from `least` to `most` */
    JS_HASH,    /* uint64_t as 16 hex digits */
    JS_FLAG,    /* bool */
};
struct js_field {
    const char *key;
    enum js_kind kind;
    size_t offset, size;
    const char *lack; /* text of the error if it is missing or wrong; NULL: optional */
    int64_t least, most;
    bool sparse; /* an empty text is not written */
};
/* Fields that are not given (`lack`, the range) are NULL and 0. */
#define JS_FIELD(type, kind_, key_, member, ...)                                                   \
    {                                                                                              \
        .key = key_, .kind = JS_##kind_, .offset = offsetof(type, member),                         \
        .size = sizeof(((type *)0)->member), __VA_ARGS__                                           \
    }
#define JS_COUNT(fields) (sizeof(fields) / sizeof *(fields))
/* Adds the fields to `o`. Returns -1 if a text is not UTF-8. */
int js_write(json_t *o, const struct js_field *fields, size_t count, const void *from);
/* Returns an object of the fields, or NULL if a text is not UTF-8. */
json_t *js_object(const struct js_field *fields, size_t count, const void *from);
/* Sets all fields; missing or wrong ones become zero or "". Returns NULL, or the first `lack`. A
 * required JS_STRING must not be empty. */
const char *js_read(const json_t *o, const struct js_field *fields, size_t count, void *to);

/* Returns the text of `o` in one canonical form, independent of spaces and order, without the
 * listed keys (ended by NULL). The caller frees it. Returns NULL on failure. */
char *js_canonical(const json_t *o, const char *const *without);
/* Returns the time in UTC with milliseconds; null for ms 0. */
json_t *js_time(wall_t t);
json_t *js_utc(wall_t t); /* the same in whole seconds */
/* Returns the number, or null if it is not known. */
json_t *js_known(bool known, int64_t n);
/* Returns a new reference: the value, or JSON null for NULL. */
json_t *js_or_null(json_t *borrowed);

#endif
