#include "journal/segment_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/line.h"
#include "base/number.h"
#include "journal/segment_frame.h"
#include "journal/segment_int.h"
#include "journal/segment_op.h"
#include "journal/segment_write.h"
#include "store/kept.h"
#include "store/signature.h"

#define TRIES 4u /* attempts to read an incomplete frame, which its writer may be completing now */

struct segment_reader {
    char name[256];
    struct segment_file f;
    struct segment_parser parser;
    uint64_t at; /* offset of the frame after the one in `body` */
    /* frames before this offset are outside of transactions or belong to a complete one */
    uint64_t whole;
    struct buf bodies[2], *body; /* the body of the previous frame is kept, too */
    bool within;                 /* a transaction continues after it */
    const char *next;            /* the next operation */
    bool ended;

    /* What would remain if the file were truncated before the next frame. */
    uint64_t cut;
    struct segment_sum cut_sum;
};

static int segment_read_damaged(const struct segment_reader *r, uint64_t at, const char *what,
                                struct err *e)
{
    return err_set(e, ERR_DAMAGED, 0, "journal segment %s is damaged at byte %" PRIu64 ": %s",
                   r->name, at, what);
}

/* The frame at `at` is incomplete. Returns 0 if it is the torn end of the file, -1 if it is
 * damage. */
static int end_or_damage(const struct segment_reader *r, uint64_t at, struct err *e)
{
    int follows = segment_frame_follows(&r->f, at, e);
    if (follows <= 0)
        return follows;
    return segment_read_damaged(r, at, "its checksum is wrong", e);
}

/* Returns whether the following frames complete the transaction. Nothing of an incomplete
 * transaction is returned. */
static int group_ends(struct segment_reader *r, uint64_t at, struct err *e)
{
    struct segment_frame f;
    SCOPED(buf_free) struct buf body = {0};
    int got;
    do {
        got = segment_frame_read(&r->f, at, &f, &body, e);
        if (got == 0)
            got = end_or_damage(r, at, e);
        else if (got == 1)
            at += SEGMENT_FRAME + f.len;
    } while (got == 1 && f.within);
    if (got == 1)
        r->whole = at;
    return got;
}

static int read_next_frame(struct segment_reader *r, struct err *e)
{
    struct segment_frame f;
    int got = segment_frame_read(&r->f, r->at, &f, r->body, e);
    if (got == 0)
        return end_or_damage(r, r->at, e);
    if (got < 0)
        return -1;
    uint64_t after = r->at + SEGMENT_FRAME + f.len;
    if (r->at >= r->whole) {
        got = f.within ? group_ends(r, after, e) : 1;
        if (got <= 0)
            return got;
        if (!f.within)
            r->whole = after;
    }
    r->at = after;
    r->within = f.within;
    r->next = r->body->p;
    return 1;
}

/* Reads the next frame. If the writer discards a transaction and overwrites it while we read,
 * this looks like damage. It appears in the middle of a transaction, or as a missing frame
 * before frames that the writer has just written. */
static int next_frame(struct segment_reader *r, struct err *e)
{
    int got = -1;
    if (r->parser.s.open != r->within)
        return segment_read_damaged(
            r, r->at, "its transactions are not at the positions that its frames give", e);
    if (!r->within) {
        r->cut = r->at;
        r->cut_sum = *segment_parser_sum(&r->parser);
    }
    r->body = &r->bodies[r->body == r->bodies];
    for (unsigned i = 0; i < TRIES && got < 0; i++) {
        got = read_next_frame(r, e);
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
            int got = r->parser.finalized ? 0 : next_frame(r, e);
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
            return segment_read_damaged(r, r->at, "it contains an invalid change", e);
        }
    }
    return 0;
}

bool segment_frame_ends(const struct segment_reader *r)
{
    return !r->next || r->next == r->body->p + r->body->len;
}

/* ---- opening ---- */

/* Opens a segment. Its number, which is part of each frame's checksum, is taken from the file
 * name. */
static int segment_read_open_file(struct segment_reader *r, int dirfd, const char *file, int flags,
                                  struct err *e)
{
    struct err why = {0};
    const char *dash = strrchr(file, '-'), *digits = dash ? dash + 1 : "";
    snprintf(r->name, sizeof r->name, "%s", file);
    r->body = r->bodies;
    r->f = (struct segment_file){.name = r->name};
    number_digits(&digits, SEGMENT_NUMBER_MAX, &r->f.number);
    r->f.fd = file_open_own(dirfd, r->name, flags, &why);
    if (r->f.fd >= 0)
        return 0;
    if (why.cls == ERR_SYSTEM && why.num == 0)
        return segment_read_damaged(r, 0, "it is not a regular file", e);
    err_hint_in_text(&why);
    err_pass(e, &why);
    return err_step(e, "journal segment %s", r->name);
}

/* Reads the head. Its JSON contains no byte that could be mistaken for the operation before a
 * MAC. With a key, a head without a MAC is rejected before its contents are parsed. */
static int segment_read_read_head(struct segment_reader *r, struct err *e)
{
    struct segment_frame f;
    struct change c;
    struct buf *b = r->body;
    int got = segment_frame_read(&r->f, 0, &f, b, e);
    if (got < 0)
        return -1;
    bool mac = got > 0 && b->len > SEGMENT_MAC_LEN && b->p[b->len - SEGMENT_MAC_LEN] == SEGMENT_MAC;
    if (got > 0 && signature_on() && !mac)
        return err_set(e, ERR_DAMAGED, 0,
                       "journal segment %s has no HMAC: it was written before [dump] hmac_key_file "
                       "was set, or not by worldkeeper",
                       r->name);
    if (mac && segment_mac_take(&r->f, 0, f.word, b, e) < 0)
        return -1;
    r->next = b->p;
    bool head = got > 0 && !f.within &&
                segment_parse(&r->parser, &r->next, b->p + b->len, &c) == 2 &&
                r->parser.head.number == r->f.number && r->parser.head.mac == mac;
    if (!head && r->parser.head.newer) { /* the frame's CRC is correct, so this is not damage */
        SCOPED(xfree) char *file = xasprintf("journal segment %s", r->name);
        return kept_newer(e, file, r->parser.head.newer, SEGMENT_FORMAT_MAC);
    }
    if (!head)
        return segment_read_damaged(r, 0, "its header is missing", e);
    r->f.mac = mac;
    r->at = r->whole = r->cut = SEGMENT_FRAME + f.len;
    r->cut_sum = *segment_parser_sum(&r->parser);
    return 0;
}

static struct segment_reader *open_reader(int dirfd, const char *file, int flags, struct err *e)
{
    struct segment_reader *r = xcalloc(1, sizeof *r);
    if (segment_read_open_file(r, dirfd, file, flags, e) == 0 && segment_read_read_head(r, e) == 0)
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
    return segment_parser_sum(&r->parser);
}

bool segment_finalized(const struct segment_reader *r)
{
    /* the summary must be the last operation */
    return r->parser.finalized && r->next == r->body->p + r->body->len;
}

uint64_t segment_whole(const struct segment_reader *r)
{
    return r->whole;
}

void segment_reader_close(struct segment_reader *r)
{
    if (!r)
        return;
    if (r->f.fd >= 0)
        close(r->f.fd);
    segment_parser_free(&r->parser);
    buf_free(&r->bodies[0]);
    buf_free(&r->bodies[1]);
    free(r);
}

/* ---- the summary at the end ---- */

/* Reads the summary, which is the last frame and has a fixed length. */
int segment_peek(int dirfd, const char *file, struct segment_head *h, struct segment_sum *sum,
                 struct err *e)
{
    struct segment_reader *r = segment_open(dirfd, file, e);
    struct segment_frame f;
    struct stat st;
    int got = 0;
    if (!r)
        return -1;
    *h = r->parser.head;
    uint64_t len = SEGMENT_FRAME + SEGMENT_SUMMARY_BODY + (r->f.mac ? SEGMENT_MAC_LEN : 0);
    if (fstat(r->f.fd, &st) < 0)
        got = err_sys(e, errno, "cannot examine journal segment %s", r->name);
    else if ((uint64_t)st.st_size >= len)
        got = segment_frame_read(&r->f, (uint64_t)st.st_size - len, &f, r->body, e);
    if (got > 0)
        got = r->body->len == SEGMENT_SUMMARY_BODY &&
              (unsigned char)r->body->p[0] == SEGMENT_SUMMARY &&
              segment_sum_read(r->body->p + 3, SEGMENT_SUMMARY_BODY - 3, sum);
    segment_reader_close(r);
    return got;
}

/* ---- files left by a writer ---- */

int segment_settled(int dirfd, const char *file, uint64_t from, uint64_t *whole, struct err *e)
{
    struct segment_reader *r = segment_open(dirfd, file, e);
    struct segment_frame f;
    struct stat st;
    int got = 1;
    if (!r)
        return -1;
    uint64_t at = from > r->whole ? from : r->whole;
    *whole = at;
    if (fstat(r->f.fd, &st) == 0 && (uint64_t)st.st_size < at)
        got =
            err_set(e, ERR_DAMAGED, 0, "journal segment %s ends before byte %" PRIu64, r->name, at);
    while (got > 0 && (got = segment_frame_read(&r->f, at, &f, r->body, e)) > 0) {
        at += SEGMENT_FRAME + f.len;
        *whole = f.within ? *whole : at;
    }
    if (got == 0 && fsync(r->f.fd) < 0)
        got = err_sys(e, errno, "cannot sync journal segment %s", r->name);
    segment_reader_close(r);
    return got;
}

/* Returns whether a segment is empty. The head is written to the disk first, so if something
 * follows a damaged head, the head was complete once. */
int segment_blank(int dirfd, const char *file, struct err *e)
{
    struct segment_reader *r = xcalloc(1, sizeof *r);
    struct segment_frame f;
    int got = segment_read_open_file(r, dirfd, file, O_RDONLY, e);
    if (got == 0)
        got = segment_frame_read(&r->f, 0, &f, r->body, e);
    if (got == 0)
        got = segment_frame_follows(&r->f, 0, e);
    segment_reader_close(r);
    return got < 0 ? -1 : !got;
}

int segment_recover(int dirfd, const char *file, char damage[LINE], struct err *e)
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
            line_set(damage, LINE, "%s", why.text);
        got = segment_finalized(r) ? 0 : segment_append_summary(&r->f, r->cut, &r->cut_sum, e);
    }
    segment_reader_close(r);
    return got < 0 ? -1 : 0;
}
