#include "core/js.h"

#include <stdlib.h>
#include <string.h>

#include "core/text.h"

static void *allocate(size_t size)
{
    return xrealloc(NULL, size);
}

void js_begin(void)
{
    json_set_alloc_funcs(allocate, free);
}

json_t *js_clean(const char *s)
{
    struct buf b = {0};
    text_clean(&b, s ? s : "", 4000);
    json_t *j = json_string(b.p);
    buf_free(&b);
    return j;
}

const char *js_text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

int64_t js_number(const json_t *o, const char *key, int64_t missing)
{
    const json_t *v = json_object_get(o, key);
    double d = json_real_value(v);
    if (json_is_integer(v))
        return json_integer_value(v);
    return json_is_real(v) && d > -9e18 && d < 9e18 ? (int64_t)d : missing;
}

int js_flag(const json_t *o, const char *key)
{
    return json_is_true(json_object_get(o, key));
}

void js_copy(const json_t *o, const char *key, char *out, size_t size)
{
    const char *s = js_text(o, key);
    size_t len = strnlen(s, size - 1);
    while (len > 0 && ((unsigned char)s[len] & 0xc0) == 0x80) /* half of a character is no text */
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

char *js_canonical(const json_t *o, const char *const *without)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)o);
    for (; *without; without++)
        json_object_del(copy, *without);
    char *text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
    json_decref(copy);
    return text;
}

json_t *js_or_null(json_t *borrowed)
{
    return borrowed ? json_incref(borrowed) : json_null();
}
