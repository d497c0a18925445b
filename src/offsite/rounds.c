#include "offsite/rounds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "base/number.h"
#include "store/round.h"
#include "store/signature.h"

#define ROUNDS_READ 100u /* numbers to look at: with a key, most may be a stranger's */
#define ROUND_BYTES 4096
#define FRONT "worldkeeper round 1\n" /* distinguishes it from our other files */

static char *rounds_file_name(const char *world, uint64_t number)
{
    return xasprintf("%s/rounds/%" PRIu64 ".json", world, number);
}

enum remote_result rounds_write(const struct transfer *t, const char *world, uint64_t number,
                                struct err *e)
{
    struct transfer_stored is;
    SCOPED(xfree) char *name = rounds_file_name(world, number);
    json_auto_t *o = json_pack("{s:s, s:I}", "world", world, "round", (json_int_t)number);
    bool failed = signature_add(o, FRONT) < 0;
    SCOPED(xfree) char *text = json_dumps(o, JSON_INDENT(1));
    if (failed || !text) {
        err_set(e, ERR_SYSTEM, 0, "cannot sign the number of the round");
        return REMOTE_STOPPED;
    }
    enum remote_result got = transfer_put_text(t, name, text, &is, e);
    if (got == REMOTE_OK)
        got = transfer_check(t, name, &is, e);
    if (got == REMOTE_EXISTS)
        return REMOTE_OK;
    if (got != REMOTE_OK)
        err_step(e, "recording round %" PRIu64 " in the store", number);
    return got;
}

struct found {
    const char *world;
    uint64_t numbers[ROUNDS_READ]; /* the highest ones, unordered */
    size_t count;
};

/* Collects a number. A name that is spelled differently from ours belongs to somebody else. */
static int rounds_see(void *arg, const struct remote_entry *x, struct err *e)
{
    struct found *f = arg;
    const char *slash = strrchr(x->name, '/'), *digits = slash ? slash + 1 : x->name;
    uint64_t number, *least = &f->numbers[0];
    (void)e;
    if (!number_digits(&digits, ROUND_MAX, &number))
        return 0;
    SCOPED(xfree) char *name = rounds_file_name(f->world, number);
    if (strcmp(name, x->name) != 0)
        return 0;
    if (f->count < ROUNDS_READ) {
        f->numbers[f->count++] = number;
        return 0;
    }
    for (size_t i = 0; i < f->count; i++)
        if (f->numbers[i] < *least)
            least = &f->numbers[i];
    *least = number > *least ? number : *least;
    return 0;
}

static int highest_first(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x < *y) - (*x > *y);
}

/* Without a key no signature is required: an attacker who can write to the store could also
 * delete all dumps. */
static bool rounds_is_ours(const struct buf *text, const char *world, uint64_t number)
{
    json_auto_t *o = json_loadb(text->p ? text->p : "", text->len, JSON_REJECT_DUPLICATES, NULL);
    enum signature is = signature_check(o, FRONT);
    return (is == SIGNATURE_UNASKED || is == SIGNATURE_GOOD) &&
           (uint64_t)js_within(o, "round", 1, ROUND_MAX, 0) == number &&
           strcmp(js_text(o, "world"), world) == 0;
}

enum remote_result rounds_read(const struct transfer *t, const char *world, uint64_t *number,
                               struct err *e)
{
    struct found f = {.world = world};
    SCOPED(xfree) char *dir = xasprintf("%s/rounds/", world);
    *number = 0;
    enum remote_result got =
        remote_list(t->store, dir, &(struct remote_list){.entry = rounds_see, .arg = &f}, e);
    qsort(f.numbers, f.count, sizeof *f.numbers, highest_first);
    for (size_t i = 0; i < f.count && got == REMOTE_OK && *number == 0; i++) {
        SCOPED(buf_free) struct buf text = {0};
        struct err why = {0};
        SCOPED(xfree) char *name = rounds_file_name(world, f.numbers[i]);
        enum remote_result is = transfer_get_text(t, name, ROUND_BYTES, &text, &why);
        if (is == REMOTE_OK && rounds_is_ours(&text, world, f.numbers[i]))
            *number = f.numbers[i];
        else if (is != REMOTE_OK && is != REMOTE_MISSING && why.cls != ERR_DAMAGED) {
            got = is;
            err_pass(e, &why);
        }
    }
    return got;
}
