#include "journal/segment_frame.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/file.h"
#include "journal/segment_int.h"
#include "store/signature.h"

#define FRONT "worldkeeper journal 2\n"
#define SCAN_BYTES (1u << 20)
_Static_assert(SEGMENT_MAC_LEN == 1 + SIGNATURE_BYTES, "the operation and the MAC");

static void put_number(unsigned char *out, uint64_t n, unsigned bytes)
{
    for (; bytes; bytes--, n >>= 8)
        *out++ = (unsigned char)(n & 0xff);
}

static uint32_t number_at(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint32_t segment_frame_crc(uint64_t number, uint64_t at, const unsigned char head[SEGMENT_FRAME])
{
    unsigned char b[16 + SEGMENT_FRAME - 4];
    put_number(b, number, 8);
    put_number(b + 8, at, 8);
    memcpy(b + 16, head, SEGMENT_FRAME - 4);
    return codec_crc32(0, b, sizeof b);
}

/* ---- MACs ---- */

/* Collects the input of the MAC; see segment_int.h. */
static int segment_frame_collect(const struct segment_file *f, uint64_t at, uint32_t word,
                                 const struct buf *body, struct buf *out, struct err *e)
{
    unsigned char numbers[20];
    char before[SIGNATURE_BYTES] = {0}; /* the last bytes of the previous frame */
    ssize_t n = at ? pread(f->fd, before, sizeof before, (off_t)(at - sizeof before)) : 0;
    if (at && n != (ssize_t)sizeof before)
        return err_sys(e, n < 0 ? errno : EIO, "cannot read journal segment %s", f->name);
    put_number(numbers, f->number, 8);
    put_number(numbers + 8, at, 8);
    put_number(numbers + 16, word, 4);
    buf_add(out, numbers, sizeof numbers);
    buf_add(out, before, sizeof before);
    buf_add(out, body->p, body->len);
    return 0;
}

/* Appends the MAC to the body of a frame. The length in `word` already includes it. */
static int add_mac(const struct segment_file *f, uint64_t at, uint32_t word, struct buf *body,
                   struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    /* stays zero without a key; no reader with a key accepts it */
    unsigned char mac[SIGNATURE_BYTES] = {0};
    int rc = segment_frame_collect(f, at, word, body, &b, e);
    if (rc == 0 && signature_on() && signature_bytes(FRONT, b.p, b.len, mac) < 0)
        rc = err_set(e, ERR_SYSTEM, 0, "cannot compute the HMAC of journal segment %s", f->name);
    buf_addc(body, SEGMENT_MAC);
    buf_add(body, mac, sizeof mac);
    return rc;
}

static int not_ours(const char *file, uint64_t at, const char *what, struct err *e)
{
    return err_set(e, ERR_DAMAGED, 0,
                   "journal segment %s has no valid HMAC from byte %" PRIu64 " on: %s", file, at,
                   what);
}

int segment_mac_take(const struct segment_file *f, uint64_t at, uint32_t word, struct buf *body,
                     struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    if (body->len <= SEGMENT_MAC_LEN || body->p[body->len - SEGMENT_MAC_LEN] != SEGMENT_MAC)
        return not_ours(f->name, at, "its end has no HMAC", e);
    body->len -= SEGMENT_MAC_LEN;
    if (!signature_on())
        return 0;
    int rc = segment_frame_collect(f, at, word, body, &b, e);
    if (rc == 0 &&
        !signature_bytes_good(FRONT, b.p, b.len, (const unsigned char *)body->p + body->len + 1))
        rc = not_ours(f->name, at, "its HMAC does not match the key in [dump] hmac_key_file", e);
    return rc;
}

/* ---- writing ---- */

int64_t segment_frame_write(const struct segment_file *f, uint64_t at, const char *body, size_t len,
                            bool within, struct err *e)
{
    unsigned char h[SEGMENT_FRAME] = SEGMENT_MAGIC;
    uint32_t word =
        (uint32_t)(len + (f->mac ? SEGMENT_MAC_LEN : 0)) | (within ? SEGMENT_WITHIN : 0);
    SCOPED(buf_free) struct buf b = {0};
    int64_t rc = 0;
    if (f->mac) {
        buf_add(&b, body, len);
        rc = add_mac(f, at, word, &b, e);
        body = b.p;
        len = b.len;
    }
    put_number(h + 4, word, 4);
    put_number(h + 8, codec_crc32(0, body, len), 4);
    put_number(h + 12, segment_frame_crc(f->number, at, h), 4);
    if (rc == 0 && (file_write_all(f->fd, h, sizeof h) < 0 || file_write_all(f->fd, body, len) < 0))
        rc = err_sys(e, errno, "cannot write journal segment %s", f->name);
    return rc < 0 ? -1 : (int64_t)(SEGMENT_FRAME + len);
}

/* ---- reading ---- */

/* Reads `len` bytes. Returns 1 on success, 0 if the file ends first. */
static int read_bytes(const struct segment_file *f, uint64_t at, void *out, size_t len,
                      struct err *e)
{
    char *p = out;
    while (len > 0) {
        ssize_t n = pread(f->fd, p, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, errno, "cannot read journal segment %s", f->name);
        if (n == 0)
            return 0;
        p += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return 1;
}

static bool is_frame(uint64_t number, uint64_t at, const unsigned char *h,
                     struct segment_frame *out)
{
    out->word = number_at(h + 4);
    out->len = out->word & ~SEGMENT_WITHIN;
    out->within = out->word & SEGMENT_WITHIN;
    return memcmp(h, SEGMENT_MAGIC, 4) == 0 && out->len > 0 && out->len <= SEGMENT_BODY_MAX &&
           number_at(h + 12) == segment_frame_crc(number, at, h);
}

int segment_frame_read(const struct segment_file *f, uint64_t at, struct segment_frame *out,
                       struct buf *body, struct err *e)
{
    unsigned char h[SEGMENT_FRAME];
    int got = read_bytes(f, at, h, sizeof h, e);
    if (got <= 0 || !is_frame(f->number, at, h, out))
        return got < 0 ? -1 : 0;
    buf_clear(body);
    buf_reserve(body, out->len);
    got = read_bytes(f, at + sizeof h, body->p, out->len, e);
    if (got <= 0)
        return got;
    body->len = out->len;
    if (codec_crc32(0, body->p, out->len) != number_at(h + 8))
        return 0;
    return f->mac && segment_mac_take(f, at, out->word, body, e) < 0 ? -1 : 1;
}

int segment_frame_follows(const struct segment_file *f, uint64_t at, struct err *e)
{
    struct stat st;
    struct segment_frame frame;
    int found = 0;
    if (fstat(f->fd, &st) < 0)
        return err_sys(e, errno, "cannot examine journal segment %s", f->name);
    uint64_t size = (uint64_t)st.st_size;
    if (++at + SEGMENT_FRAME > size)
        return 0;
    SCOPED(xfree) char *block =
        xcalloc(1, size - at < SCAN_BYTES ? (size_t)(size - at) : SCAN_BYTES);
    while (found == 0 && at + SEGMENT_FRAME <= size) {
        size_t n = size - at < SCAN_BYTES ? (size_t)(size - at) : SCAN_BYTES;
        found = read_bytes(f, at, block, n, e) < 0 ? -1 : 0;
        for (size_t i = 0; found == 0 && i + SEGMENT_FRAME <= n; i++) {
            const char *m = memmem(block + i, n - i, SEGMENT_MAGIC, 4);
            i = m ? (size_t)(m - block) : n;
            if (i + SEGMENT_FRAME <= n &&
                is_frame(f->number, at + i, (unsigned char *)block + i, &frame))
                found = 1;
        }
        /* a frame's header may cross two blocks */
        at += n > SEGMENT_FRAME ? n - SEGMENT_FRAME + 1 : n;
    }
    return found;
}
