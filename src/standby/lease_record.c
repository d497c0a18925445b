/* Shared by both kinds of lease: the stored record of a lease, and the version of it that was seen
 * last. */
#include "standby/lease_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/js.h"
#include "store/kept.h"

#define FORMAT 1
#define TTL_MIN 1000
#define TTL_MAX 3600000
/* Larger numbers and generations are treated as damage, so that each valid one has a successor that
 * fits into a signed 64-bit number. */
#define NUMBER_MAX (INT64_MAX / 2)

/* ---- the record ---- */

json_t *lease_json(const struct lease_record *r, int64_t ttl)
{
    return json_pack("{s:i, s:I, s:I, s:s, s:b, s:I}", "format", FORMAT, "number",
                     (json_int_t)r->number, "generation", (json_int_t)r->generation, "holder",
                     r->holder, "free", r->free, "ttl_ms", (json_int_t)ttl);
}

int lease_parse(const char *text, size_t len, const char *where, struct lease_record *out,
                struct err *e)
{
    json_auto_t *o = json_loadb(text ? text : "", len, JSON_REJECT_DUPLICATES, NULL);
    int64_t number = js_within(o, "number", 1, NUMBER_MAX, 0),
            generation = js_within(o, "generation", 0, NUMBER_MAX, -1);
    *out = (struct lease_record){.number = (uint64_t)number, .free = js_flag(o, "free")};
    if (js_number(o, "format", 0) > FORMAT)
        return kept_newer(e, where, js_number(o, "format", 0), FORMAT);
    js_copy(o, "holder", out->holder, sizeof out->holder);
    out->ttl = js_within(o, "ttl_ms", TTL_MIN, TTL_MAX, 0);
    if (!number || generation < 0 || !out->ttl || !out->holder[0]) {
        err_set(e, ERR_DAMAGED, 0, "%s is not a lease of worldkeeper", where);
        return err_hint(e, "make sure that no machine keeps this world; then remove that file or "
                           "key, and run worldkeeper --promote");
    }
    out->generation = (uint64_t)generation;
    return 0;
}

/* Compares the holder's name only. So a supervisor that was killed finds its lease again, and a
 * cloned machine needs another name. */
bool lease_is_ours(const struct lease *l, const struct lease_record *r)
{
    return strcmp(r->holder, l->holder) == 0;
}

const char *lease_words(const struct lease_record *r, char out[LEASE_WORDS])
{
    SCOPED(buf_free) struct buf shown = {0};
    text_clean(&shown, r->holder, sizeof r->holder);
    snprintf(out, LEASE_WORDS, "%s %s the lease of this world, number %" PRIu64, shown.p,
             r->free ? "had" : "has", r->number);
    return out;
}

enum lease_result lease_held_by(const struct lease_record *r, struct err *e)
{
    char words[LEASE_WORDS];
    err_set(e, ERR_BUSY, 0, "%s", lease_words(r, words));
    return LEASE_HELD;
}

bool lease_unchanged(const struct lease_record *r, const char *holder, uint64_t number)
{
    return number && r->number == number && strcmp(r->holder, holder) == 0;
}

/* Returns a number above the record's and above the highest that this machine has seen, because a
 * store that was lost begins again at 1. */
uint64_t lease_next(const struct lease_record *r, uint64_t above)
{
    return (r->number > above ? r->number : above) + 1;
}

/* ---- what was seen ---- */

void lease_saw(struct lease *l, const char *version)
{
    struct lease_seen *s = &l->seen;
    if (strcmp(version, s->version) != 0)
        *s = (struct lease_seen){.since = clock_mono()};
    snprintf(s->version, sizeof s->version, "%s", version);
}

void lease_seen_get(const struct lease *l, struct lease_seen *out)
{
    *out = l->seen;
}

void lease_seen_set(struct lease *l, const struct lease_seen *seen)
{
    l->seen = *seen;
}
