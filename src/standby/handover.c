/* Each handover is a separate file that is never overwritten, because a store may answer a read
 * with the previous content. */
#include "standby/handover.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fence.h"
#include "base/js.h"
#include "base/number.h"
#include "store/signature.h"

#define WORDS_MAX 1000u /* upper limit of files that are read; worldkeeper never leaves so many */
#define WORD_BYTES 4096
#define FRONT                                                                                      \
    "worldkeeper handover 1\n" /* begins the signed text: no other file of ours passes for it */

struct found {
    uint64_t least;
    char **names;
    size_t count;
};

int handover_write(const struct transfer *t, const char *world, const struct handover *h, wall_t at,
                   struct err *e)
{
    char utc[TEXT_SHORT];
    struct transfer_stored is;
    SCOPED(xfree) char *name =
        xasprintf("%s/handover/%" PRIu64 "-%" PRId64 ".json", world, h->generation, at.ms);
    json_auto_t *o =
        json_pack("{s:s, s:I, s:s, s:s, s:s, s:I}", "world", world, "generation",
                  (json_int_t)h->generation, "at", text_utc(at, utc), "nonce", h->nonce, "file",
                  h->position.file, "pos", (json_int_t)h->position.pos);
    bool failed = signature_add(o, FRONT) < 0;
    SCOPED(xfree) char *text = json_dumps(o, JSON_INDENT(1));
    if (failed || !text)
        return err_set(e, ERR_SYSTEM, 0, "cannot sign the handover of the world");
    return transfer_put_text(t, name, text, &is, e) == REMOTE_OK &&
                   transfer_check(t, name, &is, e) == REMOTE_OK
               ? 0
               : err_step(e, "recording the handover in the store");
}

/* Collects the names of handovers. Skips older generations: they predate the world that is taken
 * over. */
static int handover_see(void *arg, const struct remote_entry *x, struct err *e)
{
    struct found *f = arg;
    const char *slash = strrchr(x->name, '/'), *file = slash ? slash + 1 : x->name;
    uint64_t generation;
    (void)e;
    if (!number_digits(&file, INT64_MAX, &generation) || *file != '-' || generation < f->least ||
        f->count == WORDS_MAX)
        return 0;
    f->names = xgrow(f->names, f->count, sizeof *f->names);
    f->names[f->count++] = xstrdup(x->name);
    return 0;
}

static void free_found(struct found *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->names[i]);
    free(f->names);
}

static int handover_list(struct remote *r, const char *world, uint64_t least, struct found *out,
                         struct err *e)
{
    SCOPED(xfree) char *dir = xasprintf("%s/handover/", world);
    *out = (struct found){.least = least};
    return remote_list(r, dir, &(struct remote_list){.entry = handover_see, .arg = out}, e) ==
                   REMOTE_OK
               ? 0
               : -1;
}

bool handover_is_of(const struct handover *h, uint64_t generation, const char *nonce)
{
    return generation == h->generation && (!h->nonce[0] || strcmp(nonce, h->nonce) == 0);
}

bool handover_reached(const struct handover *h, const struct db_binlog_pos *to)
{
    return h->generation && h->position.file[0] && to->file[0] &&
           db_binlog_pos_compare(to, &h->position) >= 0;
}

/* Returns generation 0 if the handover is not ours. With a signing key, only handovers signed by it
 * count: any account that can write to the store could otherwise claim a handover that never
 * happened, and a promotion would not ask the operator. */
static struct handover handover_judge(const char *name, const struct buf *text, const char *world,
                                      struct err *ignored)
{
    struct handover h = {0};
    json_auto_t *o = json_loadb(text->p ? text->p : "", text->len, JSON_REJECT_DUPLICATES, NULL);
    enum signature is = signature_check(o, FRONT);
    uint64_t generation = (uint64_t)js_within(o, "generation", 1, INT64_MAX, 0);
    const char *digits = strrchr(name, '/') + 1;
    uint64_t number;
    bool named = number_digits(&digits, INT64_MAX, &number) && number == generation;
    if (is == SIGNATURE_MISSING || is == SIGNATURE_WRONG)
        err_set(ignored, ERR_REFUSED, 0, "%s in the store has no HMAC of our key", name);
    else if (!generation || !named || strcmp(js_text(o, "world"), world) != 0)
        err_set(ignored, ERR_DAMAGED, 0,
                "%s in the store has a name that does not match its contents", name);
    else
        h.generation = generation;
    js_copy(o, "nonce", h.nonce, sizeof h.nonce);
    js_copy(o, "file", h.position.file, sizeof h.position.file);
    h.position.pos = (uint64_t)js_within(o, "pos", 0, INT64_MAX, 0);
    return h;
}

int handover_read(const struct transfer *t, const char *world, uint64_t least, struct handover *out,
                  struct err *ignored, struct err *e)
{
    SCOPED(free_found) struct found f;
    int rc = handover_list(t->store, world, least, &f, e);
    *out = (struct handover){0};
    err_clear(ignored);
    for (size_t i = 0; i < f.count && rc == 0; i++) {
        SCOPED(buf_free) struct buf text = {0};
        /* A damaged file is not a handover. A file that cannot be read might be one, so that is an
         * error. */
        enum remote_result got = transfer_get_text(t, f.names[i], WORD_BYTES, &text, e);
        struct handover said = {0};
        if (got == REMOTE_OK)
            said = handover_judge(f.names[i], &text, world, ignored);
        if (got != REMOTE_OK && got != REMOTE_MISSING && (!e || e->cls != ERR_DAMAGED))
            rc = -1;
        if (said.generation > out->generation)
            *out = said;
    }
    return rc;
}

int handover_clear(struct remote *r, const char *world, struct err *e)
{
    SCOPED(free_found) struct found f;
    int rc = handover_list(r, world, 0, &f, e);
    for (size_t i = 0; i < f.count && rc == 0; i++) {
        bool ours = fence_check("deletion of a handover", e) == 0;
        rc = ours && remote_delete(r, f.names[i], e) == REMOTE_OK ? 0 : -1;
    }
    return rc;
}
