#include "store/lives.h"

#include <stdio.h>
#include <string.h>

#include "base/js.h"
#include "store/kept.h"

#define LIVES_FILE "lives.json"
#define LIVES_BYTES (64u << 10)

bool life_is(const struct life *a, const struct life *b)
{
    return a->generation && a->generation == b->generation && strcmp(a->nonce, b->nonce) == 0;
}

const struct ancestor *lives_ancestor(const struct lives *l, const struct life *is)
{
    for (size_t i = 0; i < l->count; i++)
        if (life_is(&l->before[i].life, is))
            return &l->before[i];
    return NULL;
}

/* Returns true if the successor took the dump over. A later dump of the ancestor counts if the
 * successor contains all of it. */
static bool lives_took(const struct ancestor *a, const struct manifest *m)
{
    struct manifest than = {.generation = a->life.generation};
    struct db_binlog_pos to = {.pos = a->pos};
    uint64_t generation;
    if (!a->dump[0] || !manifest_parse_name(a->dump, m->world, &generation, &than.sequence))
        return true;
    /* The successor began from a dump of an earlier life, so it took over nothing from this one. */
    if (generation != a->life.generation)
        return false;
    if (manifest_compare(m, &than) <= 0)
        return true;
    memcpy(to.file, a->file, sizeof to.file);
    return to.file[0] && m->end.file[0] && db_binlog_pos_compare(&m->end, &to) <= 0;
}

/* Returns true if the dump is abandoned. A dump older than all lives in the record predates the
 * record and is not abandoned. */
bool lives_abandoned(const struct lives *l, const struct manifest *m)
{
    struct life is = {.generation = m->generation};
    uint64_t oldest = l->count ? l->before[l->count - 1].life.generation : l->now.generation;
    memcpy(is.nonce, m->nonce, sizeof is.nonce);
    if (!l->number || m->generation < oldest || life_is(&is, &l->now))
        return false;
    if (m->generation > l->now.generation)
        return !l->own;
    const struct ancestor *a = lives_ancestor(l, &is);
    return !a || !lives_took(a, m);
}

struct lives lives_next(const struct lives *l, uint64_t number, const char *machine,
                        const struct life *now, const struct ancestor *before)
{
    struct lives next = {.number = number, .own = true, .now = *now};
    size_t kept = l->count < LIVES_MAX ? l->count : LIVES_MAX - 1;
    snprintf(next.machine, sizeof next.machine, "%s", machine);
    if (!l->now.generation)
        return next;
    next.before[0] = *before;
    next.before[0].life = l->now;
    memcpy(next.before + 1, l->before, kept * sizeof *l->before);
    next.count = kept + 1;
    return next;
}

struct lives lives_late(const struct lives *l, const struct lives *there, uint64_t number)
{
    struct lives next = *l;
    size_t kept = l->count < LIVES_MAX ? l->count : LIVES_MAX - 1;
    next.number = number;
    next.unwritten = false;
    next.replaced[0] = '\0';
    if (!there->number || life_is(&there->now, &l->now) || lives_ancestor(l, &there->now))
        return next;
    /* With a dump of an earlier life, nothing of this one was taken (lives_took()). */
    next.before[0] = (struct ancestor){.life = there->now, .ended = "lost"};
    if (l->count)
        memcpy(next.before[0].dump, l->before[0].dump, sizeof next.before[0].dump);
    memcpy(next.before + 1, l->before, kept * sizeof *l->before);
    next.count = kept + 1;
    return next;
}

static json_t *ancestor_json(const struct ancestor *a)
{
    return json_pack("{s:I, s:s, s:s, s:s, s:I, s:s}", "generation", (json_int_t)a->life.generation,
                     "nonce", a->life.nonce, "dump", a->dump, "file", a->file, "pos",
                     (json_int_t)a->pos, "ended", a->ended);
}

json_t *lives_json(const struct lives *l)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->count; i++)
        json_array_append_new(list, ancestor_json(&l->before[i]));
    json_t *o = json_pack("{s:i, s:I, s:s, s:I, s:s, s:b, s:o}", "format", 1, "number",
                          (json_int_t)l->number, "machine", l->machine, "generation",
                          (json_int_t)l->now.generation, "nonce", l->now.nonce, "own", l->own,
                          "ancestors", list);
    if (l->unwritten)
        json_object_set_new(o, "unwritten", json_pack("{s:s}", "replaced", l->replaced));
    return o;
}

static void read_life(const json_t *o, struct life *out)
{
    out->generation = (uint64_t)js_within(o, "generation", 1, DB_GENERATION_MAX, 0);
    js_copy(o, "nonce", out->nonce, sizeof out->nonce);
}

int lives_parse(const json_t *o, struct lives *out)
{
    const json_t *list = json_object_get(o, "ancestors"), *late = json_object_get(o, "unwritten");
    *out = (struct lives){.number = (uint64_t)js_within(o, "number", 1, DB_GENERATION_MAX, 0),
                          .own = json_is_true(json_object_get(o, "own")),
                          .unwritten = late != NULL};
    js_copy(late, "replaced", out->replaced, sizeof out->replaced);
    js_copy(o, "machine", out->machine, sizeof out->machine);
    read_life(o, &out->now);
    for (size_t i = 0; i < json_array_size(list) && out->count < LIVES_MAX; i++) {
        const json_t *x = json_array_get(list, i);
        struct ancestor *a = &out->before[out->count++];
        read_life(x, &a->life);
        js_copy(x, "dump", a->dump, sizeof a->dump);
        js_copy(x, "file", a->file, sizeof a->file);
        js_copy(x, "ended", a->ended, sizeof a->ended);
        a->pos = (uint64_t)js_within(x, "pos", 0, INT64_MAX, 0);
    }
    bool good = js_within(o, "format", 1, 1, 0) == 1 && out->number && out->now.generation &&
                out->now.nonce[0] && out->machine[0];
    if (!good)
        *out = (struct lives){0};
    return good ? 0 : -1;
}

void lives_load(int dirfd, struct lives *out)
{
    json_auto_t *o = NULL;
    *out = (struct lives){0};
    if (kept_load(dirfd, LIVES_FILE, LIVES_BYTES, &o, &(struct err){0}) == 1)
        lives_parse(o, out);
}

int lives_save(int dirfd, const struct lives *l, struct err *e)
{
    return kept_save(dirfd, LIVES_FILE, LIVES_BYTES, lives_json(l), e) < 0
               ? -1
               : kept_give(dirfd, LIVES_FILE, e);
}
