/* Fuzzing of manifest_read(). What it takes can be written, and says the same when it is read back:
 * all that a restore relies on at once, all there is from then on. */
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "base/text.h"
#include "scratch.h"
#include "store/manifest.h"

#define SOME_NAME "w-000001-00000001-20260101T000000Z"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The two calls that this is about. */
static int read_it(const char *name, struct manifest *m, struct err *e)
{
    return manifest_read(scratch_dir(), name, m, e);
}

static char *text_of(const struct manifest *m)
{
    json_t *o = manifest_json(m);
    demand(o && manifest_sign(o) == 0);
    char *s = json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(o);
    return s;
}

static bool same_table(const struct manifest_table *a, const struct manifest_table *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->engine, b->engine) == 0 &&
           a->rows == b->rows && a->bytes == b->bytes && a->rows_hash == b->rows_hash &&
           strcmp(a->columns_hash, b->columns_hash) == 0 && a->offset == b->offset &&
           a->length == b->length && a->auto_increment == b->auto_increment;
}

/* Texts of a server that nothing relies on may have been cleaned. */
static void same(const struct manifest *a, const struct manifest *b)
{
    demand(strcmp(a->name, b->name) == 0 && strcmp(a->world, b->world) == 0);
    demand(a->generation == b->generation && a->sequence == b->sequence && a->at.ms == b->at.ms);
    demand(strcmp(a->nonce, b->nonce) == 0 && a->server.start == b->server.start);
    demand(strcmp(a->sha256, b->sha256) == 0 && a->file_size == b->file_size);
    demand(a->rows == b->rows && a->bytes == b->bytes && a->all == b->all);
    demand(a->table_count == b->table_count);
    for (size_t i = 0; i < a->table_count; i++)
        demand(same_table(&a->tables[i], &b->tables[i]));
}

/* The name that it gives itself, where a file can have that. */
static char *name_in(const uint8_t *data, size_t size)
{
    json_t *o = json_loadb((const char *)data, size, 0, NULL);
    const char *s = js_text(o, "name");
    bool can = s[0] && s[0] != '.' && !strchr(s, '/') && strlen(s) < 240;
    char *name = xstrdup(can ? s : SOME_NAME);
    json_decref(o);
    return name;
}

static struct manifest again(const char *name, const char *text)
{
    struct manifest m;
    char *file = xasprintf("%s.json", name);
    scratch_put(file, text, strlen(text));
    demand(read_it(name, &m, NULL) == 0);
    free(file);
    return m;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct manifest a, b, c;
    struct err e = {0};
    char *name = name_in(data, size), *file = xasprintf("%s.json", name);
    scratch_put(file, data, size);
    if (read_it(name, &a, &e) < 0) {
        demand(e.cls == ERR_DAMAGED);
    } else {
        a.took_ms = (int64_t)(size * 7919 % 100000000); /* text that is no decimal of it is rare */
        char *first = text_of(&a);
        demand(first != NULL);
        b = again(name, first);
        same(&a, &b);
        demand(a.took_ms == b.took_ms);
        char *second = text_of(&b);
        c = again(name, second);
        char *third = text_of(&c);
        demand(strcmp(second, third) == 0 && strcmp(first, second) == 0);
        free(first);
        free(second);
        free(third);
        manifest_free(&a);
        manifest_free(&b);
        manifest_free(&c);
    }
    scratch_remove(file);
    free(file);
    free(name);
    return 0;
}
