#include "journal/delta_rows.h"

#include <stdlib.h>
#include <string.h>

#include "journal/delta_base.h"
#include "journal/delta_int.h"

#define SLOTS_FIRST 16u
/* Smaller amounts are not worth freeing. */
#define TIDY_BYTES 65536u
#define TIDY_ROWS 1024u

/* ---- hash ---- */

static uint64_t delta_rows_turned(uint64_t v, int bits)
{
    return v << bits | v >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = delta_rows_turned(v[1], 13) ^ v[0];
    v[0] = delta_rows_turned(v[0], 32);
    v[2] += v[3];
    v[3] = delta_rows_turned(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = delta_rows_turned(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = delta_rows_turned(v[1], 17) ^ v[2];
    v[2] = delta_rows_turned(v[2], 32);
}

static inline void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

/* SipHash-1-3: one round per word, three at the end. */
uint64_t delta_hash(const struct delta_secret *secret, const char *s, size_t len)
{
    uint64_t v[4] = {
        secret->k[0] ^ UINT64_C(0x736f6d6570736575), secret->k[1] ^ UINT64_C(0x646f72616e646f6d),
        secret->k[0] ^ UINT64_C(0x6c7967656e657261), secret->k[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t word, last = 0;
    size_t left = len;
    for (; left >= 8; s += 8, left -= 8) {
        memcpy(&word, s, 8);
        sip_word(v, word);
    }
    memcpy(&last, s, left);
    sip_word(v, last | (uint64_t)len << 56);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- slots ---- */

/* The lower bits of the hash choose the first slot. */
static uint8_t delta_rows_tag_of(uint64_t hash)
{
    uint8_t tag = (uint8_t)(hash >> 56);
    return tag ? tag : 1;
}

static size_t delta_rows_place_of(const struct delta_table *t, const struct delta_row *r)
{
    return (size_t)((const char *)r - t->bytes) / DELTA_ALIGN;
}

static struct delta_row *row_at(const struct delta_table *t, uint32_t place)
{
    return (struct delta_row *)(void *)(t->bytes + (size_t)place * DELTA_ALIGN);
}

struct delta_row *delta_rows_at(const struct delta_table *t, size_t number)
{
    return row_at(t, t->places[number]);
}

/* Returns a row's key. A live row of DELTA_FIRST stores its tuple, in which the key follows the
 * "(". */
const char *delta_rows_key(const struct delta_table *t, const struct delta_row *r)
{
    return r->bytes + (t->form == DELTA_FIRST && r->live ? 1 : 0);
}

static void take_slot(struct delta_table *t, uint64_t hash, uint32_t place)
{
    size_t i = hash & t->mask;
    while (t->tags[i])
        i = (i + 1) & t->mask;
    t->tags[i] = delta_rows_tag_of(hash);
    t->slots[i] = place;
}

/* Makes enough slots that all rows and `more` fill at most two thirds of them. */
static void make_slots(struct delta_table *t, size_t more)
{
    size_t n = SLOTS_FIRST;
    while (n / 3 * 2 < t->count + more)
        n *= 2;
    free(t->tags); /* freed first, because everything in them can be rebuilt from the rows */
    free(t->slots);
    t->tags = xcalloc(n, sizeof *t->tags);
    t->slots = xcalloc(n, sizeof *t->slots);
    t->mask = n - 1;
    for (size_t i = 0; i < t->count; i++) {
        const struct delta_row *r = delta_rows_at(t, i);
        take_slot(t, delta_hash(t->secret, delta_rows_key(t, r), r->key_len), t->places[i]);
    }
}

/* Finds a row by its key. Comparing the tags first avoids fetching nearly all rows with other
 * keys. */
struct delta_row *delta_rows_find(const struct delta_table *t, const struct delta_key *k)
{
    if (t->count == 0)
        return NULL;
    uint8_t tag = delta_rows_tag_of(k->hash);
    for (size_t i = k->hash & t->mask; t->tags[i]; i = (i + 1) & t->mask) {
        if (t->tags[i] != tag)
            continue;
        struct delta_row *r = row_at(t, t->slots[i]);
        if (r->key_len == k->len && memcmp(delta_rows_key(t, r), k->p, k->len) == 0)
            return r;
    }
    return NULL;
}

void delta_rows_ahead(const struct delta_table *t, const struct delta_key *k)
{
    if (t->count == 0)
        return;
    __builtin_prefetch(&t->tags[k->hash & t->mask]);
    __builtin_prefetch(&t->slots[k->hash & t->mask]);
}

void delta_rows_near(const struct delta_table *t, const struct delta_key *k)
{
    if (t->count == 0)
        return;
    uint8_t tag = delta_rows_tag_of(k->hash);
    for (size_t i = k->hash & t->mask; t->tags[i]; i = (i + 1) & t->mask)
        if (t->tags[i] == tag) {
            __builtin_prefetch(row_at(t, t->slots[i]));
            return;
        }
}

/* ---- bytes ---- */

/* Returns the bytes that a row takes, including its header and alignment. */
static size_t size_of(size_t len)
{
    return (sizeof(struct delta_row) + len + DELTA_ALIGN - 1) / DELTA_ALIGN * DELTA_ALIGN;
}

/* Takes memory at the end. */
static struct delta_row *take_bytes(struct delta_table *t, size_t len)
{
    size_t size = size_of(len);
    if (t->bytes_room - t->bytes_len < size) {
        t->bytes_room += t->bytes_room / 2 + size;
        t->bytes = xrealloc(t->bytes, t->bytes_room);
    }
    struct delta_row *r = row_at(t, (uint32_t)(t->bytes_len / DELTA_ALIGN));
    t->bytes_len += size;
    *r = (struct delta_row){.room = (uint32_t)(size - sizeof *r)};
    return r;
}

static struct delta_row *delta_rows_add_row(struct delta_table *t, const struct delta_key *k,
                                            size_t len)
{
    if (t->count == t->room) {
        t->room += t->room / 2 + SLOTS_FIRST / 2;
        t->places = xrealloc(t->places, t->room * sizeof *t->places);
    }
    if (!t->tags || t->count + 1 > (t->mask + 1) / 3 * 2)
        make_slots(t, 1);
    struct delta_row *r = take_bytes(t, len);
    uint32_t place = (uint32_t)delta_rows_place_of(t, r);
    r->number = (uint32_t)t->count;
    t->places[t->count++] = place;
    take_slot(t, k->hash, place);
    /* delta_rows_put() replaces this with the actual size */
    t->used += size_of(0);
    return r;
}

/* Moves a row to new memory. Its bytes are not copied, because the caller writes new ones. */
static struct delta_row *move_row(struct delta_table *t, const struct delta_row *r,
                                  const struct delta_key *k, size_t len)
{
    size_t old = delta_rows_place_of(t, r), i = k->hash & t->mask;
    while (t->slots[i] != old)
        i = (i + 1) & t->mask;
    struct delta_row *to = take_bytes(t, len), was = *row_at(t, (uint32_t)old);
    was.room = to->room;
    *to = was;
    t->slots[i] = t->places[to->number] = (uint32_t)delta_rows_place_of(t, to);
    return to;
}

struct delta_row *delta_rows_put(struct delta_table *t, struct delta_row *r,
                                 const struct delta_key *k, bool with_key, const char *tuple,
                                 size_t len)
{
    size_t key_len = with_key ? k->len : 0, all = key_len + len;
    if (!r)
        r = delta_rows_add_row(t, k, all);
    else if (all > r->room)
        r = move_row(t, r, k, all);
    if (key_len)
        memcpy(r->bytes, k->p, key_len);
    if (len)
        memcpy(r->bytes + key_len, tuple, len);
    t->used = t->used - size_of(r->len) + size_of(all);
    r->len = (uint32_t)all;
    r->key_len = (uint32_t)k->len;
    return r;
}

bool delta_rows_spent(const struct delta_table *t, const struct delta_row *r)
{
    return t->form == DELTA_WHOLE ? r->count == 0 : t->truncated && !r->live;
}

/* Drops spent rows. The others keep their order, in memory as well. */
static void delta_rows_compact(struct delta_table *t)
{
    char *old = t->bytes;
    size_t count = t->count;
    t->bytes_room = t->used + t->used / 4;
    t->bytes = xrealloc(NULL, t->bytes_room);
    t->bytes_len = t->used = t->count = t->spent = 0;
    for (size_t i = 0; i < count; i++) {
        const struct delta_row *r = (const void *)(old + (size_t)t->places[i] * DELTA_ALIGN);
        if (delta_rows_spent(t, r))
            continue;
        struct delta_row *to = take_bytes(t, r->len);
        uint32_t room = to->room;
        memcpy(to, r, sizeof *r + r->len);
        to->room = room;
        to->number = (uint32_t)t->count;
        t->places[t->count++] = (uint32_t)delta_rows_place_of(t, to);
    }
    t->used = t->bytes_len;
    free(old);
    make_slots(t, 0);
}

void delta_rows_tidy(struct delta_table *t)
{
    if (t->bytes_len > 2 * t->used + TIDY_BYTES ||
        (t->spent > TIDY_ROWS && t->spent > t->count / 2))
        delta_rows_compact(t);
}

void delta_rows_clear(struct delta_table *t)
{
    free(t->bytes);
    free(t->places);
    free(t->tags);
    free(t->slots);
    t->bytes = NULL;
    t->places = NULL;
    t->tags = NULL;
    t->slots = NULL;
    t->count = t->room = t->mask = 0;
    t->bytes_len = t->bytes_room = t->used = t->spent = 0;
    t->taken_out_count = 0;
}
