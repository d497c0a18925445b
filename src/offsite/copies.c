/* Reads what is in the store from names alone: a list of a thousand files costs one request, but
 * reading each file would cost a thousand. A name has everything that must be known before a file
 * is read:
 *
 * - dump: generation, sequence, time, number of the attempt, and whether it is encrypted;
 * - part of a segment: the segment and its position in it.
 *
 * A name that differs in any way from the one that would be made here belongs to somebody else,
 * and its file is never touched. */
#include "offsite/copies.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/number.h"
#include "store/retention.h"
#include "store/signature.h"

#define FRONT "worldkeeper part of a journal segment 1\n"
#define SLACK_MS 3600000 /* tolerated clock difference of this machine and the database */

void copy_file_name(char out[COPY_NAME_MAX], const char *world, const char *dump, unsigned attempt,
                    bool sealed)
{
    char nth[8] = "";
    if (attempt > 1)
        snprintf(nth, sizeof nth, ".%u", attempt);
    snprintf(out, COPY_NAME_MAX, "%s/dumps/%s%s.sql.gz%s", world, dump, nth, sealed ? ".age" : "");
}

void copy_manifest_name(char out[COPY_NAME_MAX], const char *world, const char *dump)
{
    snprintf(out, COPY_NAME_MAX, "%s/dumps/%s.json", world, dump);
}

void copy_pin_name(char out[COPY_NAME_MAX], const char *world, const char *dump)
{
    snprintf(out, COPY_NAME_MAX, "%s/dumps/%s" PIN_ENDING, world, dump);
}

void copy_part_name(char out[COPY_NAME_MAX], const char *world, const struct copy_part *p)
{
    snprintf(out, COPY_NAME_MAX,
             "%s/segments/%s-%012" PRIu64 "-%013" PRId64 ".%012" PRIu64 "-%012" PRIu64 "%s%s%s",
             world, world, p->number, p->made, p->from, p->to, p->hmac[0] ? "." : "", p->hmac,
             p->sealed ? ".age" : "");
}

/* Returns what is signed: the name without its signature. */
static void unsigned_name(char out[COPY_NAME_MAX], const char *world, const struct copy_part *p)
{
    struct copy_part bare = *p;
    bare.hmac[0] = '\0';
    copy_part_name(out, world, &bare);
}

int copy_part_sign(struct copy_part *p, const char *world, struct err *e)
{
    char name[COPY_NAME_MAX];
    unsigned char hmac[SIGNATURE_BYTES];
    if (!signature_on())
        return 0;
    unsigned_name(name, world, p);
    if (signature_bytes(FRONT, name, strlen(name), hmac) < 0)
        return err_set(e, ERR_SYSTEM, 0, "libcrypto cannot sign %s", name);
    text_hex(hmac, sizeof hmac, p->hmac);
    return 0;
}

/* With a key, a part that the key did not sign is not ours. Without a key every part is
 * accepted, like every dump and every frame: otherwise a new machine whose key is not installed
 * yet would restore a signed world without its journal. */
static bool is_proven(const struct copy_part *p, const char *world)
{
    char name[COPY_NAME_MAX];
    unsigned char hmac[SIGNATURE_BYTES];
    unsigned_name(name, world, p);
    return !signature_on() || (text_unhex(p->hmac, hmac, sizeof hmac) &&
                               signature_bytes_good(FRONT, name, strlen(name), hmac));
}

/* ---- the list ---- */

/* Returns the time at the end of "…-20260131T235959Z". Returns 0 if there is none; the dump then
 * counts as the oldest. */
static wall_t copies_time_of(const char *name)
{
    struct tm tm = {0};
    const char *dash = strrchr(name, '-'),
               *end = dash ? strptime(dash, "-%Y%m%dT%H%M%SZ", &tm) : NULL;
    int64_t s = end && !*end ? (int64_t)timegm(&tm) : 0;
    return (wall_t){s > 0 ? s * 1000 : 0};
}

static int copies_newest_first(const void *a, const void *b)
{
    const struct copy_dump *x = a, *y = b;
    if (x->generation != y->generation)
        return x->generation < y->generation ? 1 : -1;
    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? 1 : -1;
    return strcmp(y->name, x->name);
}

static struct copy_dump copies_named(const char *name, const char *world)
{
    struct copy_dump d = {.at = copies_time_of(name), .size = -1};
    manifest_parse_name(name, world, &d.generation, &d.sequence);
    snprintf(d.name, sizeof d.name, "%s", name);
    return d;
}

struct copy_dump *copies_dump(const struct copies *c, const char *name)
{
    if (c->dump_count == 0)
        return NULL;
    struct copy_dump key = copies_named(name, c->world);
    return bsearch(&key, c->dumps, c->dump_count, sizeof key, copies_newest_first);
}

struct copy_dump *copies_add_dump(struct copies *c, const char *name, const char *world)
{
    struct copy_dump *is = copies_dump(c, name), d = copies_named(name, world);
    size_t at = c->dump_count;
    if (is)
        return is;
    c->world = world;
    c->dumps = xgrow(c->dumps, c->dump_count, sizeof *c->dumps);
    while (at > 0 && copies_newest_first(&c->dumps[at - 1], &d) > 0)
        at--;
    memmove(&c->dumps[at + 1], &c->dumps[at], (c->dump_count++ - at) * sizeof d);
    c->dumps[at] = d;
    return &c->dumps[at];
}

static int copies_by_place(const void *a, const void *b)
{
    const struct copy_part *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    if (x->made != y->made)
        return x->made < y->made ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->to < y->to) - (x->to > y->to);
}

/* Returns the index of the first part that does not come before this one. */
static size_t copies_place_of(const struct copies *c, const struct copy_part *p)
{
    size_t from = 0, to = c->part_count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (copies_by_place(&c->parts[middle], p) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

void copies_add_part(struct copies *c, const struct copy_part *p)
{
    size_t at = copies_place_of(c, p);
    c->parts = xgrow(c->parts, c->part_count, sizeof *c->parts);
    memmove(&c->parts[at + 1], &c->parts[at], (c->part_count++ - at) * sizeof *p);
    c->parts[at] = *p;
}

size_t copies_part(const struct copies *c, uint64_t number, int64_t made)
{
    return copies_place_of(
        c, &(struct copy_part){.number = number, .made = made, .from = 0, .to = UINT64_MAX});
}

bool copy_part_is_of(const struct copy_part *p, uint64_t number, int64_t made)
{
    return p->number == number && p->made == made;
}

/* Returns how far the parts reach without a hole, from the segment's first byte on. Parts may
 * overlap: after an interrupted upload the part is sent again, up to the segment's size at that
 * time. */
uint64_t copies_reach(const struct copies *c, uint64_t number, int64_t made)
{
    uint64_t to = 0;
    for (size_t i = copies_part(c, number, made);
         i < c->part_count && copy_part_is_of(&c->parts[i], number, made); i++)
        if (!c->parts[i].unproven && c->parts[i].from <= to && c->parts[i].to > to)
            to = c->parts[i].to;
    return to;
}

void copies_drop_unproven(struct copies *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->part_count; i++)
        if (!c->parts[i].unproven)
            c->parts[kept++] = c->parts[i];
    c->part_count = kept;
}

void copies_free(struct copies *c)
{
    free(c->dumps);
    free(c->parts);
    *c = (struct copies){0};
}

struct listing {
    struct copies *out;
    const char *world;
};

/* Returns the number of the attempt, or 0 if the file does not belong to a dump. */
static unsigned attempt_of(const char *rest)
{
    unsigned n = 1;
    if (rest[0] == '.' && rest[1] >= '2' && rest[1] <= '9' && rest[2] == '.') {
        n = (unsigned)(rest[1] - '0');
        rest += 2;
    }
    return strcmp(rest, ".sql.gz") == 0 || strcmp(rest, ".sql.gz.age") == 0 ? n : 0;
}

/* Adds a listed file of a dump. A dump has two or more files (the manifest, one for each attempt at
 * its data, perhaps a pin), and a list may have them in any order. */
static int see_dump(void *arg, const struct remote_entry *x, struct err *e)
{
    (void)e;
    const struct listing *l = arg;
    const char *file = strrchr(x->name, '/');
    uint64_t generation, sequence;
    file = file ? file + 1 : x->name;
    size_t len = manifest_parse_name(file, l->world, &generation, &sequence);
    if (len == 0 || len >= DUMP_NAME_MAX)
        return 0;
    bool manifest = strcmp(file + len, ".json") == 0, pin = strcmp(file + len, PIN_ENDING) == 0;
    unsigned attempt = attempt_of(file + len);
    if (!manifest && !pin && !attempt)
        return 0;
    SCOPED(xfree) char *name = xstrndup(file, len);
    struct copy_dump d = copies_named(name, l->world);
    d.manifest = manifest;
    d.files = attempt ? 1U << (attempt - 1) : 0;
    d.size = manifest ? x->size : -1;
    if (manifest)
        snprintf(d.stamp, sizeof d.stamp, "%s", x->stamp);
    d.pin = (struct copy_pin){.there = pin, .size = x->size};
    if (pin)
        snprintf(d.pin.stamp, sizeof d.pin.stamp, "%s", x->stamp);
    l->out->dumps = xgrow(l->out->dumps, l->out->dump_count, sizeof d);
    l->out->dumps[l->out->dump_count++] = d; /* merged when all are listed */
    return 0;
}

/* Merges the entries that have the same name. */
static void put_together(struct copies *c)
{
    size_t kept = 0;
    if (c->dump_count)
        qsort(c->dumps, c->dump_count, sizeof *c->dumps, copies_newest_first);
    for (size_t i = 0; i < c->dump_count; i++) {
        struct copy_dump *d = &c->dumps[i], *is = kept ? &c->dumps[kept - 1] : NULL;
        if (!is || strcmp(is->name, d->name) != 0) {
            c->dumps[kept++] = *d;
            continue;
        }
        d->files |= is->files;
        d->pin = is->pin.there ? is->pin : d->pin;
        if (is->manifest) {
            is->files = d->files;
            is->pin = d->pin;
        } else {
            *is = *d;
        }
    }
    c->dump_count = kept;
}

/* Parses "-NUMBER-MADE.FROM-TO" and ".HMAC". The caller compares the rest of the name with the
 * name that is made of these. */
static bool read_part_name(const char *s, struct copy_part *p)
{
    uint64_t made;
    bool good = *s++ == '-' && number_digits(&s, COPY_NUMBER_MAX, &p->number) && *s++ == '-' &&
                number_digits(&s, CLOCK_WALL_MAX, &made) && *s++ == '.' &&
                number_digits(&s, COPY_PLACE_MAX, &p->from) && *s++ == '-' &&
                number_digits(&s, COPY_PLACE_MAX, &p->to) && p->from < p->to;
    if (!good)
        return false;
    p->made = (int64_t)made;
    if (*s == '.' && strspn(s + 1, "0123456789abcdef") == sizeof p->hmac - 1)
        snprintf(p->hmac, sizeof p->hmac, "%s", s + 1);
    return true;
}

bool copy_part_read(const char *name, const char *world, struct copy_part *out)
{
    char spelled[COPY_NAME_MAX];
    const char *front = strrchr(name, '/');
    size_t len = strlen(world), all = strlen(name);
    *out = (struct copy_part){0};
    if (!front || strncmp(front + 1, world, len) != 0 || !read_part_name(front + 1 + len, out))
        return false;
    out->sealed = all > 4 && strcmp(name + all - 4, ".age") == 0;
    copy_part_name(spelled, world, out);
    return strcmp(spelled, name) == 0;
}

/* Adds a listed part. */
static int see_part(void *arg, const struct remote_entry *x, struct err *e)
{
    (void)e;
    const struct listing *l = arg;
    struct copy_part p;
    if (!copy_part_read(x->name, l->world, &p))
        return 0;
    p.unproven = !is_proven(&p, l->world);
    l->out->parts = xgrow(l->out->parts, l->out->part_count, sizeof *l->out->parts);
    l->out->parts[l->out->part_count++] = p;
    return 0;
}

static enum remote_result copies_load(struct remote *r, const char *world, const char *folder,
                                      int (*see)(void *, const struct remote_entry *, struct err *),
                                      struct copies *out, struct err *e)
{
    struct listing l = {out, world};
    SCOPED(xfree) char *dir = xasprintf("%s/%s/", world, folder);
    out->world = world;
    return remote_list(r, dir, &(struct remote_list){.entry = see, .arg = &l}, e);
}

enum remote_result copies_load_dumps(struct remote *r, const char *world, struct copies *out,
                                     struct err *e)
{
    out->dump_count = 0;
    enum remote_result got = copies_load(r, world, "dumps", see_dump, out, e);
    put_together(out);
    return got;
}

enum remote_result copies_load_parts(struct remote *r, const char *world, struct copies *out,
                                     struct err *e)
{
    out->part_count = 0;
    enum remote_result got = copies_load(r, world, "segments", see_part, out, e);
    if (out->part_count)
        qsort(out->parts, out->part_count, sizeof *out->parts, copies_by_place);
    return got;
}

/* ---- retention ---- */

static int by_time(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Returns when the segment that was begun at `made` ended, which is when the next one was begun.
 * The next one is found by time, because a machine that starts from scratch counts from 1 again.
 * Returns 0 for the last segment. */
static int64_t copies_ended(const int64_t *times, size_t count, int64_t made)
{
    size_t from = 0, to = count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (times[middle] > made)
            to = middle;
        else
            from = middle + 1;
    }
    return from < count ? times[from] : 0;
}

struct retention_item *copies_dates(const struct copies *c, size_t more)
{
    struct retention_item *items = xcalloc(c->dump_count + more + 1, sizeof *items);
    for (size_t i = 0; i < c->dump_count; i++)
        items[i] = (struct retention_item){.generation = c->dumps[i].generation,
                                           .sequence = c->dumps[i].sequence,
                                           .at = c->dumps[i].at};
    return items;
}

wall_t copies_now(const struct copies *c, int64_t interval, wall_t wall)
{
    SCOPED(xfree) struct retention_item *items = copies_dates(c, 0);
    return retention_now(items, c->dump_count, interval, wall);
}

/* Finds the segments of the journal that can be deleted. These are the segments that ended
 * before the oldest dump in the store was begun, because no dump needs them. Segments older than
 * [journal] keep are deleted too, if a newer dump exists. In doubt a segment is kept: the last
 * one, any that was begun while the clock was set back, and all of them as long as there is no
 * dump. A dump or a segment from the future says nothing about the others: the clock was set back
 * since. */
void copies_spare(const struct copies *c, int64_t keep, wall_t now, bool *spare)
{
    int64_t oldest = INT64_MAX, newest = 0, latest = 0;
    SCOPED(xfree) int64_t *times = xcalloc(c->part_count + 1, sizeof *times);
    size_t count = 0;
    for (size_t i = 0; i < c->part_count; i++)
        if (!c->parts[i].unproven)
            times[count++] = c->parts[i].made;
    qsort(times, count, sizeof *times, by_time);
    for (size_t i = 0; i < c->dump_count; i++)
        if (c->dumps[i].manifest && c->dumps[i].at.ms <= now.ms) {
            oldest = c->dumps[i].at.ms < oldest ? c->dumps[i].at.ms : oldest;
            newest = c->dumps[i].at.ms > newest ? c->dumps[i].at.ms : newest;
        }
    for (size_t i = 0; i < c->part_count; i++) {
        int64_t end = copies_ended(times, count, c->parts[i].made);
        bool old = end < now.ms - keep && end < newest - SLACK_MS;
        /* Sequence numbers and start times disagree: the clock was set back, so times cannot
         * order these. */
        bool back = c->parts[i].made < latest;
        if (!back && !c->parts[i].unproven && c->parts[i].made <= now.ms)
            latest = c->parts[i].made;
        spare[i] = newest && end && !back && (end < oldest - SLACK_MS || old);
    }
}
