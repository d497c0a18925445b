/* Reading a segment. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/codec.h"
#include "core/file.h"
#include "journal/segment_int.h"
#include "store/seal.h"

#define SCAN_BYTES (1u << 20)
#define LOOKS 4u /* at a frame that is not whole: its writer may be at it just now */

struct segment_reader {
    int fd;
    char file[256];
    uint64_t number; /* by its head: frames of another one are none */
    struct segment_parser parser;
    uint64_t at;    /* the frame behind the one in `body` */
    uint64_t whole; /* frames before this one ended outside of groups, or belong to a whole one */
    struct buf bodies[2], *body; /* that of the frame before stays */
    bool within;                 /* a group goes on behind it */
    const char *next;            /* operation */
    bool ended;

    /* What would remain if the frames from here on were cut off. */
    uint64_t cut;
    struct segment_sum cut_sum;
};

struct frame {
    uint32_t word; /* its length, as it is written */
    uint32_t len;
    uint32_t crc;
    bool within;
};

/* 1: so many bytes are there; 0: the file ends before. */
static int read_bytes(const struct segment_reader *r, uint64_t at, void *out, size_t len,
                      struct err *e)
{
    char *p = out;
    while (len > 0) {
        ssize_t n = pread(r->fd, p, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, errno, "cannot read journal segment %s", r->file);
        if (n == 0)
            return 0;
        p += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return 1;
}

static uint32_t number_at(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static bool is_frame(uint64_t number, uint64_t at, const unsigned char *h, struct frame *f)
{
    f->word = number_at(h + 4);
    f->len = f->word & ~SEGMENT_WITHIN;
    f->within = f->word & SEGMENT_WITHIN;
    f->crc = number_at(h + 8);
    return memcmp(h, SEGMENT_MAGIC, 4) == 0 && f->len > 0 && f->len <= SEGMENT_BODY_MAX &&
           number_at(h + 12) == segment_frame_crc(number, at, h);
}

static struct segment_file file_of(const struct segment_reader *r)
{
    return (struct segment_file){r->fd, r->file, r->number, r->parser.head.mac};
}

/* 1: the frame is whole, its body in `body`; 0: it is not; -1: it could not be read, or is whole
 * and not ours. */
static int read_frame(const struct segment_reader *r, uint64_t at, struct frame *f,
                      struct buf *body, struct err *e)
{
    unsigned char h[SEGMENT_FRAME];
    int got = read_bytes(r, at, h, sizeof h, e);
    if (got <= 0 || !is_frame(r->number, at, h, f))
        return got < 0 ? -1 : 0;
    buf_clear(body);
    buf_reserve(body, f->len);
    got = read_bytes(r, at + sizeof h, body->p, f->len, e);
    if (got <= 0)
        return got;
    body->len = f->len;
    if (codec_crc32(0, body->p, f->len) != f->crc)
        return 0;
    struct segment_file file = file_of(r);
    return file.mac && segment_mac_take(&file, at, f->word, body, e) < 0 ? -1 : 1;
}

/* Does any frame of this segment begin behind this place? What was written but is not on the disk
 * ends anyhow; what is damaged has something whole behind it. */
static int frame_behind(const struct segment_reader *r, uint64_t at, struct err *e)
{
    struct stat st;
    struct frame f;
    int found = 0;
    if (fstat(r->fd, &st) < 0)
        return err_sys(e, errno, "cannot look at journal segment %s", r->file);
    uint64_t size = (uint64_t)st.st_size;
    if (++at + SEGMENT_FRAME > size)
        return 0;
    char *block = xcalloc(1, size - at < SCAN_BYTES ? (size_t)(size - at) : SCAN_BYTES);
    while (found == 0 && at + SEGMENT_FRAME <= size) {
        size_t n = size - at < SCAN_BYTES ? (size_t)(size - at) : SCAN_BYTES;
        found = read_bytes(r, at, block, n, e) < 0 ? -1 : 0;
        for (size_t i = 0; found == 0 && i + SEGMENT_FRAME <= n; i++) {
            const char *m = memmem(block + i, n - i, SEGMENT_MAGIC, 4);
            i = m ? (size_t)(m - block) : n;
            if (i + SEGMENT_FRAME <= n &&
                is_frame(r->number, at + i, (unsigned char *)block + i, &f))
                found = 1;
        }
        at += n > SEGMENT_FRAME ? n - SEGMENT_FRAME + 1 : n;
    }
    free(block);
    return found;
}

static int damaged(const struct segment_reader *r, uint64_t at, const char *what, struct err *e)
{
    return err_set(e, ERR_DAMAGED, 0, "journal segment %s is damaged at byte %" PRIu64 ": %s",
                   r->file, at, what);
}

/* The frame at `at` is not whole: is that the torn end, 0, or damage, -1? */
static int end_or_damage(const struct segment_reader *r, uint64_t at, struct err *e)
{
    int behind = frame_behind(r, at, e);
    if (behind <= 0)
        return behind;
    return damaged(r, at, "a part of it is not what was written", e);
}

/* Do the frames that a group goes on in end it? Nothing of one is given out that does not end. */
static int group_ends(struct segment_reader *r, uint64_t at, struct err *e)
{
    struct frame f;
    struct buf body = {0};
    int got;
    do {
        got = read_frame(r, at, &f, &body, e);
        if (got == 0)
            got = end_or_damage(r, at, e);
        else if (got == 1)
            at += SEGMENT_FRAME + f.len;
    } while (got == 1 && f.within);
    buf_free(&body);
    if (got == 1)
        r->whole = at;
    return got;
}

static int look_at_frame(struct segment_reader *r, struct err *e)
{
    struct frame f;
    int got = read_frame(r, r->at, &f, r->body, e);
    if (got == 0)
        return end_or_damage(r, r->at, e);
    if (got < 0)
        return -1;
    uint64_t behind = r->at + SEGMENT_FRAME + f.len;
    if (r->at >= r->whole) {
        got = f.within ? group_ends(r, behind, e) : 1;
        if (got <= 0)
            return got;
        if (!f.within)
            r->whole = behind;
    }
    r->at = behind;
    r->within = f.within;
    r->next = r->body->p;
    return 1;
}

/* What its writer takes back and writes anew while we read looks like damage: a group that we are
 * in the middle of, or a frame that was not there yet before those that it just wrote. */
static int next_frame(struct segment_reader *r, struct err *e)
{
    int got = -1;
    if (r->parser.s.open != r->within)
        return damaged(r, r->at, "its groups are not where its frames say", e);
    if (!r->within) {
        r->cut = r->at;
        r->cut_sum = *segment_told(&r->parser);
    }
    r->body = &r->bodies[r->body == r->bodies];
    for (unsigned i = 0; i < LOOKS && got < 0; i++) {
        got = look_at_frame(r, e);
        if (got < 0 && e->cls != ERR_DAMAGED)
            break;
    }
    return got;
}

int segment_next(struct segment_reader *r, struct change *c, struct err *e)
{
    while (!r->ended) {
        const char *end = r->body->p + r->body->len;
        if (r->next == end) {
            int got = r->parser.sealed ? 0 : next_frame(r, e);
            r->ended = got <= 0;
            if (got <= 0)
                return got;
            end = r->body->p + r->body->len;
        }
        int got = segment_parse(&r->parser, &r->next, end, c);
        if (got == 1)
            return 1;
        if (got == 0) {
            r->ended = true;
            return damaged(r, r->at, "what stands in it is no change", e);
        }
    }
    return 0;
}

bool segment_frame_ends(const struct segment_reader *r)
{
    return !r->next || r->next == r->body->p + r->body->len;
}

/* ---- opening ---- */

static int open_file(struct segment_reader *r, int dirfd, int flags, struct err *e)
{
    struct stat st;
    r->fd = openat(dirfd, r->file, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (r->fd < 0 || fstat(r->fd, &st) < 0)
        return err_sys(e, errno, "cannot open journal segment %s", r->file);
    if (!S_ISREG(st.st_mode))
        return damaged(r, 0, "it is no regular file", e);
    return 0;
}

/* The number is part of each frame's checksum; the name has it. */
static uint64_t number_in_name(const char *file)
{
    const char *dash = strrchr(file, '-');
    return dash ? strtoull(dash + 1, NULL, 10) : 0;
}

/* Only the head tells whether there are MACs, its own included. */
static int head_is_ours(struct segment_reader *r, const struct frame *f, struct err *e)
{
    struct segment_file file = file_of(r);
    if (file.mac)
        return segment_mac_take(&file, 0, f->word, r->body, e);
    if (seal_on())
        return err_set(e, ERR_DAMAGED, 0,
                       "journal segment %s has no HMAC: written before [dump] hmac_key_file was "
                       "set, or not by us",
                       r->file);
    return 0;
}

static int read_head(struct segment_reader *r, struct err *e)
{
    struct frame f;
    struct change c;
    int got = read_frame(r, 0, &f, r->body, e);
    if (got < 0)
        return -1;
    r->next = r->body->p;
    if (got == 0 || f.within ||
        segment_parse(&r->parser, &r->next, r->body->p + r->body->len, &c) != 2 ||
        r->parser.head.number != r->number)
        return damaged(r, 0, "it has no head", e);
    if (head_is_ours(r, &f, e) < 0)
        return -1;
    if (r->next > r->body->p + r->body->len)
        return damaged(r, 0, "it has no head", e);
    r->at = r->whole = r->cut = SEGMENT_FRAME + f.len;
    r->cut_sum = *segment_told(&r->parser);
    return 0;
}

static struct segment_reader *open_reader(int dirfd, const char *file, int flags, struct err *e)
{
    struct segment_reader *r = xcalloc(1, sizeof *r);
    snprintf(r->file, sizeof r->file, "%s", file);
    r->number = number_in_name(file);
    r->body = r->bodies;
    if (open_file(r, dirfd, flags, e) == 0 && read_head(r, e) == 0)
        return r;
    segment_reader_close(r);
    return NULL;
}

struct segment_reader *segment_open(int dirfd, const char *file, struct err *e)
{
    return open_reader(dirfd, file, O_RDONLY, e);
}

const struct segment_head *segment_head(const struct segment_reader *r)
{
    return &r->parser.head;
}

const struct segment_sum *segment_sum(struct segment_reader *r)
{
    return segment_told(&r->parser);
}

bool segment_sealed(const struct segment_reader *r)
{
    return r->parser.sealed && r->next == r->body->p + r->body->len; /* nothing is behind it */
}

uint64_t segment_whole(const struct segment_reader *r)
{
    return r->whole;
}

void segment_reader_close(struct segment_reader *r)
{
    if (!r)
        return;
    if (r->fd >= 0)
        close(r->fd);
    segment_parser_free(&r->parser);
    buf_free(&r->bodies[0]);
    buf_free(&r->bodies[1]);
    free(r);
}

/* ---- the seal ---- */

/* It has a length of its own, and is the last frame. */
static int read_seal(struct segment_reader *r, struct segment_sum *sum, struct err *e)
{
    struct frame f;
    struct stat st;
    if (fstat(r->fd, &st) < 0)
        return err_sys(e, errno, "cannot look at journal segment %s", r->file);
    uint64_t behind = SEGMENT_FRAME + SEGMENT_SEAL_BODY;
    behind += r->parser.head.mac ? SEGMENT_MAC_LEN : 0;
    if ((uint64_t)st.st_size < behind)
        return 0;
    int got = read_frame(r, (uint64_t)st.st_size - behind, &f, r->body, e);
    if (got <= 0 || r->body->len != SEGMENT_SEAL_BODY ||
        (unsigned char)r->body->p[0] != SEGMENT_SEAL)
        return got < 0 ? -1 : 0;
    return segment_sum_read(r->body->p + 3, SEGMENT_SEAL_BODY - 3, sum);
}

int segment_peek(int dirfd, const char *file, struct segment_head *h, struct segment_sum *sum,
                 struct err *e)
{
    struct segment_reader *r = segment_open(dirfd, file, e);
    if (!r)
        return -1;
    *h = r->parser.head;
    int got = read_seal(r, sum, e);
    segment_reader_close(r);
    return got;
}

/* ---- what a writer left ---- */

/* The head is the first thing of all on the disk: what is behind a damaged one was there, too. */
int segment_blank(int dirfd, const char *file, struct err *e)
{
    struct segment_reader r = {.number = number_in_name(file)};
    struct frame f;
    struct buf body = {0};
    snprintf(r.file, sizeof r.file, "%s", file);
    int got = open_file(&r, dirfd, O_RDONLY, e);
    if (got == 0)
        got = read_frame(&r, 0, &f, &body, e);
    if (got == 0)
        got = frame_behind(&r, 0, e);
    if (r.fd >= 0)
        close(r.fd);
    buf_free(&body);
    return got < 0 ? -1 : !got;
}

static int append_seal(struct segment_reader *r, struct err *e)
{
    struct segment_file f = file_of(r);
    return segment_append_seal(&f, r->cut, &r->cut_sum, e);
}

int segment_recover(int dirfd, const char *file, char damage[512], struct err *e)
{
    struct change c;
    struct err why;
    int got;
    damage[0] = '\0';
    struct segment_reader *r = open_reader(dirfd, file, O_RDWR, e);
    if (!r)
        return -1;
    while ((got = segment_next(r, &c, &why)) == 1)
        ;
    if (got < 0 && why.cls != ERR_DAMAGED) {
        *e = why;
    } else {
        if (got < 0)
            snprintf(damage, 512, "%s", why.text);
        got = segment_sealed(r) ? 0 : append_seal(r, e);
    }
    segment_reader_close(r);
    return got < 0 ? -1 : 0;
}
