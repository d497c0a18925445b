#include "supervisor/last_restore.h"

#include "base/js.h"
#include "base/text.h"

void last_restore_set(struct last_restore *l, json_t *shown)
{
    json_decref(l->shown);
    *l = (struct last_restore){.tables = js_text(shown, "only"), .shown = shown};
    if (text_utc_ms_parse(js_text(shown, "at"), &l->at) < 0)
        l->at.ms = 0;
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
