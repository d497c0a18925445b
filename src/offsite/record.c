/* Each life has its own object, which is never overwritten: a store may answer a read with the
 * previous content, and a write that arrives late must not count. */
#include "offsite/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fence.h"
#include "base/js.h"
#include "base/number.h"
#include "store/signature.h"

#define RECORD_BYTES (64u << 10)
#define TRIES 32u /* invalid records, newest first, after which reading fails */
#define NUMBER_MAX UINT64_C(999999999999999) /* far above any that a world reaches */
/* The signed text begins with it, in each version of the format. */
#define FRONT "worldkeeper record 1\n"

/* ---- decisions ---- */

enum record_says record_judge(const struct lives *newest, const char *holder,
                              const struct life *own, const struct lives *last)
{
    if (!newest)
        return RECORD_UNKNOWN;
    if (!newest->number)
        return RECORD_NONE;
    bool ours = strcmp(newest->machine, holder) == 0 || life_is(&newest->now, own) ||
                (last->number && last->own && life_is(&newest->now, &last->now)) ||
                (last->own && last->unwritten && strcmp(newest->machine, last->replaced) == 0);
    return ours ? RECORD_OURS : RECORD_ANOTHERS;
}

bool record_replaced(const struct lives *newest, const struct life *own, const struct lives *last)
{
    return lives_ancestor(newest, own) ||
           (last->number && last->own && lives_ancestor(newest, &last->now));
}

bool record_permits(enum record_says says, bool unchanged, const struct lives *last)
{
    if (says == RECORD_UNKNOWN || says == RECORD_DAMAGED)
        return unchanged && last->number && last->own;
    return says != RECORD_ANOTHERS;
}

uint64_t record_number(const struct lives *newest, uint64_t lease)
{
    uint64_t highest = newest->highest > newest->number ? newest->highest : newest->number;
    bool covered = newest->highest > newest->number || newest->damaged; /* by an invalid record */
    return lease && (covered ? lease > highest : lease >= highest) ? lease : highest + 1;
}

/* ---- in the store ---- */

struct name {
    uint64_t number;
    struct life life;
};

static int record_compare(const struct name *a, const struct name *b)
{
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    if (a->life.generation != b->life.generation)
        return a->life.generation < b->life.generation ? -1 : 1;
    return strcmp(a->life.nonce, b->life.nonce);
}

static char *record_object(const char *world, const struct name *n)
{
    return xasprintf("%s/record/%" PRIu64 "-%" PRIu64 "-%s.json", world, n->number,
                     n->life.generation, n->life.nonce);
}

static struct name record_name_of(const struct lives *l)
{
    return (struct name){.number = l->number, .life = l->now};
}

/* Parses an object's name. Returns false if it is not spelled exactly as worldkeeper spells it:
 * such an object is not ours. */
static bool record_parse_name(const char *world, const char *object_name, struct name *out)
{
    const char *slash = strrchr(object_name, '/'), *at = slash ? slash + 1 : object_name;
    struct name n = {0};
    if (!number_digits(&at, NUMBER_MAX, &n.number) || *at++ != '-' ||
        !number_digits(&at, DB_GENERATION_MAX, &n.life.generation) || *at++ != '-')
        return false;
    size_t len = strspn(at, "0123456789abcdef");
    if (!n.number || !n.life.generation || !len || len >= sizeof n.life.nonce ||
        strcmp(at + len, ".json") != 0)
        return false;
    memcpy(n.life.nonce, at, len);
    SCOPED(xfree) char *name = record_object(world, &n);
    *out = n;
    return strcmp(name, object_name) == 0;
}

struct found {
    const char *world;
    const struct name *below; /* only records before this one; NULL: all */
    struct name newest;       /* number 0: none */
};

static int record_see(void *arg, const struct remote_entry *x, struct err *e)
{
    struct found *f = arg;
    struct name n;
    (void)e;
    if (record_parse_name(f->world, x->name, &n) &&
        (!f->below || record_compare(&n, f->below) < 0) && record_compare(&n, &f->newest) > 0)
        f->newest = n;
    return 0;
}

/* Returns -1 if the text is not a valid record of ours. With a signing key, only records signed by
 * it count: any account that can write to the store could otherwise give the world to any
 * machine. */
static int record_parse(const char *name, const struct buf *text, const char *world,
                        const struct name *is, struct lives *out, struct err *ignored)
{
    json_auto_t *o = json_loadb(text->p ? text->p : "", text->len, JSON_REJECT_DUPLICATES, NULL);
    enum signature signed_by = signature_check(o, FRONT);
    bool good = lives_parse(o, out) == 0 && strcmp(js_text(o, "world"), world) == 0;
    struct name said = record_name_of(out);
    if (good && record_compare(&said, is) == 0 &&
        (signed_by == SIGNATURE_UNASKED || signed_by == SIGNATURE_GOOD)) {
        out->own = out->unwritten = false; /* used only in lives.json */
        return 0;
    }
    *out = (struct lives){0};
    if (signed_by == SIGNATURE_MISSING || signed_by == SIGNATURE_WRONG)
        return err_set(ignored, ERR_REFUSED, 0, "%s in the store has no HMAC of our key", name);
    return err_set(ignored, ERR_DAMAGED, 0,
                   "%s in the store cannot be read: it is damaged, or written by a newer version",
                   name);
}

/* Reads one record. Returns 1 if it is valid, 0 if it is invalid or was deleted, -1 on error.
 * `ignored`: why it is invalid. */
static int read_one(const struct transfer *t, const char *world, const struct name *n,
                    struct lives *out, struct err *ignored, struct err *e)
{
    SCOPED(buf_free) struct buf text = {0};
    SCOPED(xfree) char *name = record_object(world, n);
    struct err why = {0};
    enum remote_result got = transfer_get_text(t, name, RECORD_BYTES, &text, &why);
    if (got == REMOTE_MISSING)
        return 0;
    if (got != REMOTE_OK && why.cls != ERR_DAMAGED)
        return err_pass(e, &why);
    if (got != REMOTE_OK) /* it is too long for a record, and judged like one without content */
        buf_clear(&text);
    return record_parse(name, &text, world, n, out, ignored) == 0;
}

/* The newest record may give the world to another machine, so no older one decides. */
static int record_doubt(const struct transfer *t, const char *world, const struct err *why,
                        struct err *e)
{
    err_set(e, ERR_DAMAGED, 0, "the record of the world is not known: %s%s", remote_shown(t->store),
            why->text);
    return err_hint(e,
                    "systemctl restart worldkeeper@%s on the machine that keeps the world writes "
                    "the record again; if that machine runs a newer version, update this one; if "
                    "that machine and its dump directory are lost, move the file elsewhere: then "
                    "the record before it counts",
                    world);
}

int record_read(const struct transfer *t, const char *world, const struct lives *last,
                struct lives *io, struct err *ignored, struct err *e)
{
    SCOPED(xfree) char *dir = xasprintf("%s/record/", world);
    struct found f = {.world = world};
    struct name tried, known = record_name_of(io), here = record_name_of(last);
    struct lives read;
    uint64_t highest = 0;
    err_clear(ignored);
    for (unsigned i = 0; i < TRIES; i++) {
        struct err why = {0};
        f.newest = (struct name){0};
        if (remote_list(t->store, dir, &(struct remote_list){.entry = record_see, .arg = &f}, e) !=
            REMOTE_OK)
            return err_step(e, "reading the record of the world");
        if (!f.newest.number) {
            *io = (struct lives){.highest = highest};
            return 0;
        }
        if (i == 0)
            highest = f.newest.number;
        bool cached = !io->damaged && record_compare(&f.newest, &known) == 0;
        int got = cached ? 1 : read_one(t, world, &f.newest, &read, &why, e);
        if (got < 0)
            return err_step(e, "reading the record of the world");
        bool damaged = got == 0 && why.cls != ERR_NONE,
             copied = damaged && record_compare(&f.newest, &here) == 0;
        if (damaged && (ignored->cls == ERR_NONE || copied))
            *ignored = why;
        if (got > 0 || copied) {
            *io = cached ? *io : copied ? *last : read;
            io->highest = highest;
            io->damaged = copied;
            if (copied)
                io->own = io->unwritten = false;
            return 0;
        }
        if (why.cls == ERR_DAMAGED)
            return record_doubt(t, world, &why, e);
        tried = f.newest;
        f.below = &tried;
    }
    err_set(e, ERR_REFUSED, 0,
            "cannot determine the record of the world: %u newer files have no valid HMAC: %s",
            TRIES, ignored->text);
    return err_hint(e,
                    "find out what wrote them, and remove the files in %s%s that no machine of "
                    "this world wrote",
                    remote_shown(t->store), dir);
}

/* The result does not depend on the store's answer to the write: the record is written if the
 * newest one that is read back is ours. */
int record_write(const struct transfer *t, const char *world, const struct lives *l, struct err *e)
{
    struct transfer_stored is;
    struct lives newest = {0}, none = {0};
    struct name n = record_name_of(l);
    struct err why = {0}, ignored;
    SCOPED(xfree) char *name = record_object(world, &n);
    if (l->number > NUMBER_MAX) { /* its name would not be recognized as ours */
        err_set(e, ERR_REFUSED, 0,
                "a file in %s/record of the store has the highest possible number: no later record "
                "can be written",
                world);
        return err_hint(
            e, "find out what wrote it, and remove the files that no machine of this world wrote");
    }
    json_auto_t *o = lives_json(l);
    json_object_del(o, "own");
    json_object_del(o, "unwritten");
    json_object_set_new(o, "world", json_string(world));
    bool failed = signature_add(o, FRONT) < 0;
    SCOPED(xfree) char *text = json_dumps(o, JSON_INDENT(1));
    if (failed || !text)
        return err_set(e, ERR_SYSTEM, 0, "cannot sign the record of the world");
    enum remote_result got = transfer_put_text(t, name, text, &is, &why);
    if (record_read(t, world, &none, &newest, &ignored, e) < 0)
        return -1;
    struct name there = record_name_of(&newest);
    if (record_compare(&there, &n) == 0)
        return 0;
    if (got != REMOTE_OK && got != REMOTE_EXISTS) {
        err_pass(e, &why);
        return err_step(e, "writing the record of the world");
    }
    SCOPED(buf_free) struct buf who = {0};
    text_clean(&who, newest.machine, sizeof newest.machine);
    return err_set(e, ERR_REFUSED, 0,
                   "the record of this world now names %s, which wrote it at the same time",
                   newest.machine[0] ? who.p : "nobody");
}

#define TRIM_MAX 64u /* in one pass */

struct trim {
    const char *world;
    struct name below;
    uint64_t oldest;
    struct name list[TRIM_MAX];
    size_t count;
};

static int see_old(void *arg, const struct remote_entry *x, struct err *e)
{
    struct trim *s = arg;
    struct name n;
    (void)e;
    if (s->count < TRIM_MAX && record_parse_name(s->world, x->name, &n) &&
        record_compare(&n, &s->below) < 0 && n.number < s->below.number &&
        n.life.generation < s->oldest)
        s->list[s->count++] = n;
    return 0;
}

/* These records are never read, because the newest one names its ancestors. They are kept only as
 * long as the dumps of their lives. */
int record_trim(const struct transfer *t, const char *world, const struct lives *newest,
                uint64_t oldest, struct err *e)
{
    struct trim s = {.world = world, .below = record_name_of(newest), .oldest = oldest};
    SCOPED(xfree) char *dir = xasprintf("%s/record/", world);
    if (remote_list(t->store, dir, &(struct remote_list){.entry = see_old, .arg = &s}, e) !=
        REMOTE_OK)
        return -1;
    for (size_t i = 0; i < s.count; i++) {
        SCOPED(xfree) char *name = record_object(world, &s.list[i]);
        if (fence_check("record", e) < 0 || remote_delete(t->store, name, e) != REMOTE_OK)
            return -1;
    }
    return 0;
}
