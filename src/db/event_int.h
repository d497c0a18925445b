/* How event.c and event_body.c share the reading of one event. */
#ifndef WK_DB_EVENT_INT_H
#define WK_DB_EVENT_INT_H

#include "db/event.h"

/* Bytes that may end anywhere. Reading past the end gives zeros and breaks the cursor for good, so
 * that it is enough to ask once, behind the last read. */
struct cursor {
    const uint8_t *at, *end;
    bool broken;
};

static inline size_t cursor_left(const struct cursor *c)
{
    return (size_t)(c->end - c->at);
}

/* NULL where fewer than `n` bytes are left. */
static inline const uint8_t *cursor_bytes(struct cursor *c, uint64_t n)
{
    const uint8_t *at = c->at;
    if (c->broken || n > cursor_left(c)) {
        c->broken = true;
        return NULL;
    }
    c->at += n;
    return at;
}

/* A number of `n` bytes, the lowest first. */
static inline uint64_t cursor_number(struct cursor *c, unsigned n)
{
    const uint8_t *p = cursor_bytes(c, n);
    uint64_t v = 0;
    while (p && n--)
        v = v << 8 | p[n];
    return v;
}

/* A number as the protocol packs it: one byte, or a mark and 2, 3 or 8 bytes. */
static inline uint64_t cursor_packed(struct cursor *c)
{
    unsigned mark = (unsigned)cursor_number(c, 1);
    if (mark < 251)
        return mark;
    if (mark == 251 || mark == 255)
        c->broken = true;
    return cursor_number(c, mark == 252 ? 2 : mark == 253 ? 3 : 8);
}

/* Reads what stands behind the common header, without a checksum: `post`, the part of fixed length,
 * has at least as many bytes as types[] in event.c asks for. Returns NULL or what is wrong with it;
 * a cursor that is broken need not be told. */
typedef const char *event_body_fn(const struct event_format *f, struct cursor *post,
                                  struct cursor *body, struct event *out);

event_body_fn event_body_query, event_body_rotate, event_body_heartbeat, event_body_heartbeat2,
    event_body_gtid_mysql, event_body_gtid_tagged, event_body_gtid_mariadb, event_body_map,
    event_body_insert, event_body_update, event_body_delete, event_body_partial;

#endif
