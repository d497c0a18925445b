#include "supervisor/last_restore.h"

#include <stdio.h>
#include <string.h>

#include "base/js.h"
#include "base/text.h"
#include "base/worker.h"
#include "restore/permit.h"

#define TABLES_MAX 300 /* bytes of a shortened list of tables; its first name may be longer */
/* Bytes of the record. The status needs less than twice as many for it, for indentation, and is
 * sent in a packet of WORKER_MESSAGE_MAX bytes with the other status files. */
#define SHOWN_MAX (WORKER_MESSAGE_MAX / 4)
#define LAST_RESTORE_FORMAT (JSON_COMPACT | JSON_REAL_PRECISION(9))

/* Replaces a long list of tables by its first names and the number of the others. */
static void shorten_tables(json_t *o)
{
    SCOPED(names_free) struct names all = {0};
    SCOPED(buf_free) struct buf b = {0};
    struct err ignored;
    size_t i = 0;
    if (!js_text(o, "only")[0] || restore_tables(js_text(o, "only"), &all, &ignored) < 0)
        return;
    for (; i < all.count && (i == 0 || b.len + strlen(all.list[i]) < TABLES_MAX); i++)
        buf_printf(&b, "%s%s", i ? ", " : "", all.list[i]);
    if (i == all.count)
        return;
    buf_printf(&b, " and %zu more", all.count - i);
    js_set_clean(o, "only", b.p);
}

static bool last_restore_fits(const json_t *o, size_t size)
{
    return json_dumpb(o, NULL, 0, LAST_RESTORE_FORMAT) < size;
}

/* Shortens the record until its text has less than `size` bytes, or only the least is left. */
static void last_restore_shorten(json_t *o, size_t size)
{
    static const char *const texts[] = {"as_dumped",   "conflict_tables", "passed_over",
                                        "definitions", "journal",         "warning"};
    static const char *const kept[] = {"at", "ok", "only"};
    if (last_restore_fits(o, size))
        return;
    shorten_tables(o);
    bool fits = last_restore_fits(o, size);
    for (size_t i = 0; !fits && i < sizeof texts / sizeof *texts; i++) {
        json_object_del(o, texts[i]);
        fits = last_restore_fits(o, size);
    }
    if (fits)
        return;
    json_auto_t *least = json_object();
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (json_object_get(o, kept[i]))
            json_object_set(least, kept[i], json_object_get(o, kept[i]));
    json_object_clear(o);
    json_object_update(o, least);
}

void last_restore_set(struct last_restore *l, json_t *shown)
{
    last_restore_shorten(shown, SHOWN_MAX);
    json_decref(l->shown);
    *l = (struct last_restore){.tables = js_text(shown, "only"), .shown = shown};
    if (text_utc_ms_parse(js_text(shown, "at"), &l->at) < 0)
        l->at.ms = 0;
}

void last_restore_save(const json_t *shown, char *out, size_t size)
{
    json_auto_t *o = json_copy((json_t *)(uintptr_t)shown);
    last_restore_shorten(o, size);
    SCOPED(xfree) char *text = json_dumps(o, LAST_RESTORE_FORMAT);
    bool fits = text && strlen(text) < size;
    snprintf(out, size, "%s", fits ? text : "");
}

json_t *last_restore_load(const char *text)
{
    return text[0] ? json_loads(text, 0, NULL) : NULL;
}

bool last_restore_adopt(struct last_restore *l, json_t *saved)
{
    struct last_restore other = {.shown = NULL};
    last_restore_set(&other, saved);
    if (other.at.ms <= l->at.ms) {
        json_decref(saved);
        return false;
    }
    last_restore_set(l, saved);
    return true;
}
