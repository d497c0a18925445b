#include "store/round.h"

#include <jansson.h>

#include "base/js.h"
#include "base/text.h"
#include "store/kept.h"
#include "store/state.h"

#define ROUND_FILE "round.json"
#define ROUND_BYTES 4096

void round_read(int dirfd, struct round *out)
{
    struct err ignored;
    json_auto_t *o = NULL;
    *out = (struct round){0};
    /* An unsigned file, written before a key was configured, still supplies the number. A number
     * that is too high causes no restore, and the manifests correct one that is too low. The
     * nonce is ignored without a signature, because it could make another world ours. */
    bool ours = kept_load(dirfd, ROUND_FILE, ROUND_BYTES, &o, &ignored) == 1;
    if (!ours)
        kept_load_unsigned(dirfd, ROUND_FILE, ROUND_BYTES, &o, &ignored);
    out->number = (uint64_t)js_within(o, "round", 1, ROUND_MAX, 0);
    if (ours)
        js_copy(o, "nonce", out->nonce, sizeof out->nonce);
    /* The file may have been lost or damaged before the round had a dump. */
    struct state s;
    if (state_load(dirfd, &s, &ignored) == 0 && s.round > out->number)
        out->number = s.round;
}

int round_begin(int dirfd, uint64_t number, const char *nonce, struct err *e)
{
    char at[TEXT_SHORT];
    json_t *o = json_pack("{s:i, s:I, s:s, s:s}", "format", 1, "round", (json_int_t)number, "nonce",
                          nonce, "begun", text_utc(clock_wall(), at));
    if (kept_save(dirfd, ROUND_FILE, ROUND_BYTES, o, e) < 0)
        return -1;
    return kept_give(dirfd, ROUND_FILE, e);
}

int round_sign(int dirfd, struct err *e)
{
    return kept_sign(dirfd, ROUND_FILE, ROUND_BYTES, false, e);
}
