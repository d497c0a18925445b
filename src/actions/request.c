#include "actions/request.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "base/text.h"

#define PAUSE_MAX (INT64_MAX / 4) /* the command line has the same limit */

/* All fields of a request except its action. */
static const struct field {
    const char *key;
    enum { TEXT, FLAG, SKIP, PAUSE } kind;
    size_t offset;  /* of a char * or bool in struct request */
    unsigned trait; /* if set, only actions with this option; 0: any */
} fields[] = {
    {"world", TEXT, offsetof(struct request, world), 0},
    {"dump", TEXT, offsetof(struct request, dump), 0},
    {"from", TEXT, offsetof(struct request, from), ACTION_FROM},
    {"into", TEXT, offsetof(struct request, into), ACTION_INTO},
    {"at", TEXT, offsetof(struct request, at), ACTION_AT},
    {"tables", TEXT, offsetof(struct request, tables), ACTION_TABLE},
    {"charset", TEXT, offsetof(struct request, charset), ACTION_CHARSET},
    {"until", TEXT, offsetof(struct request, until), ACTION_UNTIL},
    {"since", TEXT, offsetof(struct request, since), ACTION_SINCE},
    {"force", FLAG, offsetof(struct request, force), ACTION_FORCE},
    {"accept_cut", FLAG, offsetof(struct request, accept_cut), ACTION_ACCEPT_CUT},
    {"with_code", FLAG, offsetof(struct request, with_code), ACTION_WITH_CODE},
    {"dry_run", FLAG, offsetof(struct request, dry_run), ACTION_DRY_RUN},
    {"verify", FLAG, offsetof(struct request, verify), ACTION_UNTIL}, /* for rollups */
    {"by_hand", FLAG, offsetof(struct request, by_hand), ACTION_BY_HAND},
    {"unlock", FLAG, offsetof(struct request, unlock), ACTION_UNLOCK},
    {"apply", FLAG, offsetof(struct request, apply), ACTION_APPLY},
    {"renumber", FLAG, offsetof(struct request, renumber), ACTION_APPLY},
    {"automatic", FLAG, offsetof(struct request, automatic), 0},
    {"skip", SKIP, 0, 0},
    {"pause_ms", PAUSE, 0, 0},
};
#define FIELDS (sizeof fields / sizeof *fields)

/* Writes only the fields that are set, because a supervisor of another version rejects unknown
 * keys. */
json_t *request_json(const struct request *r)
{
    json_t *o = json_pack("{s:s}", "action", action_name(r->action));
    int rc = 0;
    for (size_t i = 0; i < FIELDS && rc == 0; i++) {
        const struct field *f = &fields[i];
        const void *member = (const char *)r + f->offset;
        const char *text = f->kind == TEXT ? *(char *const *)member : NULL;
        if (text)
            rc = json_object_set_new(o, f->key, json_string(text));
        else if (f->kind == FLAG && *(const bool *)member)
            rc = json_object_set_new(o, f->key, json_true());
    }
    if (r->skip)
        js_set_int(o, "skip", r->skip);
    if (r->pause_ms)
        js_set_int(o, "pause_ms", r->pause_ms);
    if (rc == 0)
        return o;
    json_decref(o);
    return NULL;
}

/* Returns true also for an unknown action, because then its name is reported instead of its
 * options. */
static bool request_takes(enum action action, const struct field *f)
{
    return !f->trait || action == ACTION_NONE || action_is(action, f->trait);
}

/* Returns false for an unknown key, for one that this action does not take, and for a wrong type.
 * Ignoring such a key could change the restore: to the latest dump, or into the world itself. */
static bool request_read_field(const char *key, const json_t *value, struct request *out)
{
    size_t i = 0;
    while (i < FIELDS && strcmp(fields[i].key, key) != 0)
        i++;
    if (i == FIELDS)
        return strcmp(key, "action") == 0 && json_is_string(value);
    void *member = (char *)out + fields[i].offset;
    switch (fields[i].kind) {
    case TEXT:
        if (json_is_string(value))
            *(char **)member = xstrdup(json_string_value(value));
        return json_is_string(value) && request_takes(out->action, &fields[i]);
    case FLAG:
        *(bool *)member = json_is_true(value);
        return json_is_boolean(value) &&
               (json_is_false(value) || request_takes(out->action, &fields[i]));
    case SKIP:
    case PAUSE:
        break;
    }
    return json_is_integer(value);
}

int request_from_json(const json_t *o, struct request *out, struct err *e)
{
    SCOPED(buf_free) struct buf shown = {0};
    const char *key;
    json_t *value;
    *out = (struct request){.action = action_find(js_text(o, "action")),
                            .skip = (unsigned)js_within(o, "skip", 0, UINT16_MAX, 0),
                            .pause_ms = js_within(o, "pause_ms", 0, PAUSE_MAX, 0)};
    json_object_foreach((json_t *)(uintptr_t)o, key, value)
    {
        if (request_read_field(key, value, out))
            continue;
        text_clean(&shown, key, 40);
        err_set(e, ERR_USAGE, 0, "the running supervisor does not know '%s' in the request",
                shown.p);
        err_hint(e, "it may have another version: restart it");
        request_free(out);
        return -1;
    }
    out->automatic = false; /* only the supervisor's own requests are automatic */
    if (out->action != ACTION_NONE)
        return 0;
    text_clean(&shown, js_text(o, "action"), 40);
    request_free(out);
    return err_set(e, ERR_USAGE, 0, "the supervisor knows no action '%s'", shown.p);
}

/* Frees a request. It may never have been filled. */
void request_free(struct request *r)
{
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].kind == TEXT)
            free(*(char **)(void *)((char *)r + fields[i].offset));
    *r = (struct request){0};
}

bool request_writes(const struct request *r)
{
    return action_is(r->action, ACTION_WRITES) || r->apply;
}

bool request_swaps(const struct request *r)
{
    return r->action == ACTION_PROMOTE || (r->action == ACTION_RESTORE && !r->into && !r->dry_run);
}
