#include "base/js.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static void *js_allocate(size_t size)
{
    return xrealloc(NULL, size);
}

/* Ends the program when jansson runs out of memory, so that its callers need not check. Overwrites
 * memory that it frees, because JSON may contain a password or a token, of which jansson makes
 * copies. */
void js_begin(void)
{
    json_set_alloc_funcs(js_allocate, wipe_free);
}

json_t *js_clean(const char *s)
{
    SCOPED(buf_free) struct buf b = {0};
    text_clean(&b, s ? s : "", 4000);
    return json_string(b.p);
}

const char *js_text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* Other programs write whole numbers as 1e3 or 5.0. */
int64_t js_number(const json_t *o, const char *key, int64_t missing)
{
    const json_t *v = json_object_get(o, key);
    double d = json_real_value(v); /* 9e18: a number beyond INT64_MAX has no defined conversion */
    if (json_is_integer(v))
        return json_integer_value(v);
    return json_is_real(v) && d > -9e18 && d < 9e18 ? (int64_t)d : missing;
}

int64_t js_within(const json_t *o, const char *key, int64_t least, int64_t most, int64_t missing)
{
    int64_t n = js_number(o, key, missing);
    return n >= least && n <= most ? n : missing;
}

wall_t js_moment(const json_t *o, const char *key)
{
    return (wall_t){js_within(o, key, 0, CLOCK_WALL_MAX, 0)};
}

int js_flag(const json_t *o, const char *key)
{
    return json_is_true(json_object_get(o, key));
}

void js_copy(const json_t *o, const char *key, char *out, size_t size)
{
    const char *s = js_text(o, key);
    size_t len = strnlen(s, size - 1);
    /* half a character would be invalid UTF-8, which jansson would not write again */
    while (len > 0 && ((unsigned char)s[len] & 0xc0) == 0x80) /* never cut inside a character */
        len--;
    memcpy(out, s, len);
    out[len] = '\0';
}

void js_set_clean(json_t *o, const char *key, const char *s)
{
    json_object_set_new(o, key, js_clean(s));
}

void js_set_int(json_t *o, const char *key, int64_t n)
{
    json_object_set_new(o, key, json_integer(n));
}

int js_write(json_t *o, const struct js_field *fields, size_t count, const void *from)
{
    int rc = 0;
    for (const struct js_field *f = fields; f < fields + count; f++) {
        const char *at = (const char *)from + f->offset;
        const char *text = f->kind == JS_STRING ? *(char *const *)(const void *)at : at;
        char hash[17];
        int64_t n = 0;
        json_t *v;
        if (f->kind == JS_NUMBER || f->kind == JS_SECONDS || f->kind == JS_HASH)
            memcpy(&n, at, sizeof n);
        snprintf(hash, sizeof hash, "%016" PRIx64, (uint64_t)n);
        if (f->kind == JS_FLAG)
            v = json_boolean(*(const bool *)at);
        else if (f->kind == JS_NUMBER || f->kind == JS_SECONDS)
            v = json_integer(f->kind == JS_SECONDS ? n / 1000 : n);
        else if (f->kind == JS_SHOWN)
            v = js_clean(text);
        else
            v = json_string(f->kind == JS_HASH ? hash : text);
        if (f->sparse && !*text) /* like a file of an older version: no key at all */
            json_decref(v);
        else
            rc |= json_object_set_new(o, f->key, v);
    }
    return rc;
}

json_t *js_object(const struct js_field *fields, size_t count, const void *from)
{
    json_t *o = json_object();
    if (js_write(o, fields, count, from) == 0)
        return o;
    json_decref(o);
    return NULL;
}

const char *js_read(const json_t *o, const struct js_field *fields, size_t count, void *to)
{
    const char *lack = NULL;
    for (const struct js_field *f = fields; f < fields + count; f++) {
        char *at = (char *)to + f->offset;
        const json_t *v = json_object_get(o, f->key);
        const char *text = js_text(o, f->key);
        int64_t n = js_within(o, f->key, f->least, f->most, 0);
        bool good, flag = js_flag(o, f->key);
        if (f->kind == JS_NUMBER || f->kind == JS_SECONDS) {
            /* js_within() returns 0 for a number out of range, and 0 itself may be below the lowest
             * value */
            good = json_is_integer(v) && json_integer_value(v) == n && n >= f->least;
            n *= f->kind == JS_SECONDS ? 1000 : 1;
            memcpy(at, &n, sizeof n);
        } else if (f->kind == JS_HASH) {
            good = text_is_hex(text, 16);
            uint64_t hash = good ? strtoull(text, NULL, 16) : 0;
            memcpy(at, &hash, sizeof hash);
        } else if (f->kind == JS_FLAG) {
            good = json_is_boolean(v);
            memcpy(at, &flag, sizeof flag);
        } else if (f->kind == JS_STRING) {
            good = text[0];
            char *copy = xstrdup(text);
            *(char **)(void *)at = copy;
        } else {
            js_copy(o, f->key, at, f->size);
            good = json_is_string(v) && strcmp(at, text) == 0 &&
                   (f->kind != JS_HEX || text_is_hex(text, f->size - 1));
        }
        /* the first error is named, but all other fields are filled, because the readable part of a
         * file may be useful */
        lack = (lack || good) ? lack : f->lack;
    }
    return lack;
}

/* The signed text: the same for the same content, whatever the order and format of the file. */
char *js_canonical(const json_t *o, const char *const *without)
{
    json_auto_t *copy = json_copy((json_t *)(uintptr_t)o);
    for (; *without; without++)
        json_object_del(copy, *without);
    return json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
}

json_t *js_time(wall_t t)
{
    char text[TEXT_SHORT];
    return t.ms ? json_string(text_utc_ms(t, text)) : json_null();
}

json_t *js_utc(wall_t t)
{
    char text[TEXT_SHORT];
    return t.ms ? json_string(text_utc(t, text)) : json_null();
}

json_t *js_or_null(json_t *borrowed)
{
    return borrowed ? json_incref(borrowed) : json_null();
}

json_t *js_known(bool known, int64_t n)
{
    return known ? json_integer(n) : json_null();
}
