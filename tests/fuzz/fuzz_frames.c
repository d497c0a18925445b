/* Fuzzing of segment_next() and segment_recover(). The bytes are a row of pieces: two bytes of
 * length, one that says what becomes of the piece, and so many bytes, of which a frame with right
 * checksums is made, or nearly that. The first frame is a head. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "changes.h"
#include "journal/segment_frame.h"
#include "journal/segment_op.h"
#include "journal/segment_read.h"
#include "scratch.h"

#define NAME "w-0000000001.journal"

enum piece { WITHIN = 1, OTHER_NUMBER = 2, OTHER_PLACE = 4, WRONG_BODY = 8, RAW = 16, CUT = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Nothing needs to be on a disk. */
int fsync(int fd)
{
    (void)fd;
    return 0;
}

static void put_frame(struct buf *b, const void *body, size_t len, unsigned how)
{
    unsigned char h[SEGMENT_FRAME] = SEGMENT_MAGIC;
    uint32_t n[3] = {(uint32_t)len | (how & WITHIN ? SEGMENT_WITHIN : 0),
                     codec_crc32(0, body, len)};
    n[1] += how & WRONG_BODY ? 1 : 0;
    for (unsigned i = 0; i < 12; i++) {
        if (i == 8)
            n[2] = segment_frame_crc(how & OTHER_NUMBER ? 2 : 1, b->len + (how & OTHER_PLACE), h);
        h[4 + i] = (unsigned char)(n[i / 4] >> (8 * (i % 4)));
    }
    buf_add(b, h, sizeof h);
    buf_add(b, body, len);
    if (how & CUT)
        b->len -= len / 2;
}

static void put_head(struct buf *b)
{
    static const struct segment_head head = {
        .world = "w", .number = 1, .from = {.point = {.file = "log.000001", .pos = 4}}};
    struct buf body = {0};
    json_t *o = segment_head_json(&head);
    char *s = json_dumps(o, JSON_COMPACT);
    buf_addc(&body, SEGMENT_HEAD);
    segment_put_text(&body, s, strlen(s));
    put_frame(b, body.p, body.len, 0);
    buf_free(&body);
    free(s);
    json_decref(o);
}

static void make_file(const uint8_t *data, size_t size)
{
    struct buf b = {0};
    put_head(&b);
    for (size_t at = 0; size - at >= 3;) {
        size_t len = data[at] | (size_t)data[at + 1] << 8;
        unsigned how = data[at + 2];
        at += 3;
        len = len < size - at ? len : size - at;
        if (how & RAW)
            buf_add(&b, data + at, len);
        else
            put_frame(&b, data + at, len, how);
        at += len;
    }
    scratch_put(NAME, b.p, b.len);
    buf_free(&b);
}

struct reading {
    int got;
    bool finalized;
    struct changes m;
    uint64_t *hashes; /* behind each change */
    size_t count;
};

static struct reading read_it(int dirfd)
{
    struct reading out = {.got = -1};
    struct err e = {0};
    struct change c;
    struct segment_reader *r = segment_open(dirfd, NAME, &e);
    if (!r)
        abort(); /* its head is whole */
    while ((out.got = segment_next(r, &c, &e)) == 1) {
        changes_take(&out.m, &c, NULL, NULL);
        if ((out.count & (out.count - 1)) == 0)
            out.hashes = xrealloc(out.hashes, (2 * out.count + 1) * sizeof *out.hashes);
        out.hashes[out.count++] = out.m.hash;
    }
    if (out.got < 0 && e.cls != ERR_DAMAGED)
        abort();
    if (out.got == 0)
        changes_sum(&out.m, segment_sum(r));
    if (out.got == 0 && out.m.within)
        abort();
    out.finalized = segment_finalized(r);
    segment_reader_close(r);
    return out;
}

/* What was recovered is whole, finalized, and the beginning of what was there: all of it, where no
 * damage was told. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e;
    struct segment_head h;
    struct segment_sum sum;
    char damage[LINE];
    int dirfd = scratch_dir();
    make_file(data, size);
    struct reading before = read_it(dirfd);
    segment_peek(dirfd, NAME, &h, &sum, &e);
    if (segment_recover(dirfd, NAME, damage, &e) < 0 || (before.got < 0) != (damage[0] != '\0'))
        abort();
    struct reading after = read_it(dirfd);
    if (after.got != 0 || !after.finalized || after.count > before.count ||
        (before.got == 0 && after.count != before.count) ||
        (after.count && before.hashes[after.count - 1] != after.m.hash))
        abort();
    if (segment_peek(dirfd, NAME, &h, &sum, &e) == 1)
        changes_sum(&after.m, &sum);
    free(before.hashes);
    free(after.hashes);
    return 0;
}
