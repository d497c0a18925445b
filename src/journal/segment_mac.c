#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "journal/segment_int.h"
#include "store/seal.h"

#define FRONT "worldkeeper journal 2\n"
_Static_assert(SEGMENT_MAC_LEN == 1 + SEAL_BYTES, "the operation and the seal");

static void add_number(struct buf *b, uint64_t n, unsigned bytes)
{
    for (; bytes; bytes--, n >>= 8)
        buf_addc(b, (char)(n & 0xff));
}

/* The last bytes of the frame before. */
static int mac_before(const struct segment_file *f, uint64_t at, char out[SEAL_BYTES],
                      struct err *e)
{
    memset(out, 0, SEAL_BYTES);
    if (at == 0)
        return 0;
    ssize_t n = pread(f->fd, out, SEAL_BYTES, (off_t)(at - SEAL_BYTES));
    if (n == (ssize_t)SEAL_BYTES)
        return 0;
    return err_sys(e, n < 0 ? errno : EIO, "cannot read journal segment %s", f->name);
}

/* What the MAC is made of. */
static int collect(const struct segment_file *f, uint64_t at, uint32_t word, const struct buf *body,
                   struct buf *out, struct err *e)
{
    char before[SEAL_BYTES];
    if (mac_before(f, at, before, e) < 0)
        return -1;
    add_number(out, f->number, 8);
    add_number(out, at, 8);
    add_number(out, word, 4);
    buf_add(out, before, sizeof before);
    buf_add(out, body->p, body->len);
    return 0;
}

int segment_mac_add(const struct segment_file *f, uint64_t at, uint32_t word, struct buf *body,
                    struct err *e)
{
    struct buf b = {0};
    unsigned char mac[SEAL_BYTES] = {0}; /* without a key it is none, as whoever has one will see */
    int rc = collect(f, at, word, body, &b, e);
    if (rc == 0 && seal_on() && seal_bytes(FRONT, b.p, b.len, mac) < 0)
        rc = err_set(e, ERR_SYSTEM, 0, "cannot compute the HMAC of journal segment %s", f->name);
    buf_free(&b);
    if (rc < 0)
        return -1;
    buf_addc(body, SEGMENT_MAC);
    buf_add(body, mac, sizeof mac);
    return 0;
}

static int not_ours(const char *file, uint64_t at, const char *what, struct err *e)
{
    return err_set(e, ERR_DAMAGED, 0, "journal segment %s is not ours from byte %" PRIu64 " on: %s",
                   file, at, what);
}

int segment_mac_take(const struct segment_file *f, uint64_t at, uint32_t word, struct buf *body,
                     struct err *e)
{
    struct buf b = {0};
    if (body->len <= SEGMENT_MAC_LEN || body->p[body->len - SEGMENT_MAC_LEN] != SEGMENT_MAC)
        return not_ours(f->name, at, "it ends in no HMAC", e);
    body->len -= SEGMENT_MAC_LEN;
    if (!seal_on())
        return 0;
    int rc = collect(f, at, word, body, &b, e);
    if (rc == 0 &&
        !seal_bytes_good(FRONT, b.p, b.len, (const unsigned char *)body->p + body->len + 1))
        rc = not_ours(f->name, at, "its HMAC is not by the key of [dump] hmac_key_file", e);
    buf_free(&b);
    return rc;
}
