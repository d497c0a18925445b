/* Small helpers over jansson. Reading is forgiving about what is missing (it gives the default) and
 * strict about types: a wrong type counts as missing, and so does a number that does not fit. */
#ifndef WK_CORE_JS_H
#define WK_CORE_JS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Before any other use: memory that cannot be had for JSON ends the program, as it does elsewhere.
 * Text that was not taken apart for want of memory would else pass for damaged, and a dump be
 * removed. */
void js_begin(void);
/* A string for people: control characters and broken UTF-8 replaced. */
json_t *js_clean(const char *s);
/* "" when missing; valid as long as `o` is. */
const char *js_text(const json_t *o, const char *key);
int64_t js_number(const json_t *o, const char *key, int64_t missing);
int js_flag(const json_t *o, const char *key);
/* Copies into a fixed field: as far as it fits, cut between characters. */
void js_copy(const json_t *o, const char *key, char *out, size_t size);
void js_set_clean(json_t *o, const char *key, const char *s);
void js_set_int(json_t *o, const char *key, int64_t n);
/* What `o` says, whatever spaces and order it is written with, without the keys named (to NULL);
 * the caller frees. NULL: not to be had. */
char *js_canonical(const json_t *o, const char *const *without);
/* JSON null for NULL: a new reference in every case. */
json_t *js_or_null(json_t *borrowed);

#endif
