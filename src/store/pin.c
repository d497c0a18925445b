#include "store/pin.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/js.h"
#include "base/line.h"
#include "base/text.h"
#include "store/kept.h"

static const char *const kinds[PIN_KINDS] = {[PIN_SHRINK] = "shrink", [PIN_ROUND] = "round"};

int pin_set(int dirfd, const char *name, enum pin_kind kind, const char *reason, struct err *e)
{
    char at[TEXT_SHORT];
    wall_t now = clock_wall();
    SCOPED(xfree) char *file = xasprintf("%s" PIN_ENDING, name);
    struct pin is;
    pin_read(dirfd, name, &is);
    if (is.kind > kind) /* the existing pin holds longer */
        return 0;
    json_t *o = json_pack("{s:i, s:s, s:s, s:I}", "format", 1, "kind", kinds[kind], "since",
                          text_utc(now, at), "since_unix", (json_int_t)(now.ms / 1000));
    js_set_clean(o, "reason", reason);
    if (kept_save(dirfd, file, PIN_MAX, o, e) < 0)
        return -1;
    /* The service could not read a pin that belongs to root. */
    return kept_give(dirfd, file, e);
}

static int pin_parse(const json_t *o, const char *file, struct pin *out, struct err *e)
{
    const char *kind = js_text(o, "kind");
    for (unsigned i = PIN_NONE + 1; i < PIN_KINDS; i++)
        if (strcmp(kind, kinds[i]) == 0)
            out->kind = i;
    out->since.ms = js_within(o, "since_unix", 0, CLOCK_WALL_MAX / 1000, 0) * 1000;
    js_copy(o, "reason", out->reason, sizeof out->reason);
    return out->kind ? 0 : err_set(e, ERR_DAMAGED, 0, "%s is a pin of an unknown kind", file);
}

/* `got`: the result of kept_load() or kept_parse(). */
static void pin_judge(int got, const json_t *o, const char *file, struct err *why, struct pin *out)
{
    *out = (struct pin){0};
    if (got == 0 || (got == 1 && pin_parse(o, file, out, why) == 0))
        return;
    /* It is unknown how long the dump must be kept, and a pin that is not ours costs only space. */
    out->kind = PIN_ROUND;
    out->unread = true;
    err_hint_in_text(why);
    line_set(out->reason, sizeof out->reason, "%s", why->text);
}

void pin_read(int dirfd, const char *name, struct pin *out)
{
    struct err why = {0};
    json_auto_t *o = NULL;
    SCOPED(xfree) char *file = xasprintf("%s" PIN_ENDING, name);
    int got = kept_load(dirfd, file, PIN_MAX, &o, &why);
    pin_judge(got, o, file, &why, out);
}

void pin_take(const char *name, const struct buf *text, struct err *why, struct pin *out)
{
    json_auto_t *o = NULL;
    SCOPED(xfree) char *file = xasprintf("%s" PIN_ENDING, name);
    int got = why->cls == ERR_NONE ? kept_parse(file, text, &o, why) : -1;
    pin_judge(got, o, file, why, out);
}

bool pin_outlasts(const struct pin *a, const struct pin *b)
{
    return a->kind != b->kind ? a->kind > b->kind
                              : a->kind == PIN_SHRINK && a->since.ms > b->since.ms;
}

int pin_sign(int dirfd, const char *name, bool changed, struct err *e)
{
    SCOPED(xfree) char *file = xasprintf("%s" PIN_ENDING, name);
    return kept_sign(dirfd, file, PIN_MAX, changed, e);
}

bool pin_holds(const struct pin *p, const struct config_retention *rule, wall_t now)
{
    if (p->kind != PIN_SHRINK)
        return p->kind == PIN_ROUND;
    return p->since.ms > now.ms || now.ms - p->since.ms < rule->keep_before_shrink;
}
