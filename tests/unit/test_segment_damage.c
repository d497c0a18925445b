/* journal/segment: segments after disk faults and crashes. A reader only ever returns what was put,
 * in that order; damage is reported, and an incomplete end is cut off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dice_kit.h"
#include "io_kit.h"
#include "journal/segment_frame.h"
#include "journal/segment_op.h"
#include "journal/segment_read.h"
#include "journal/segment_write.h"
#include "segment_kit.h"

static struct kit_segment seg;

/* A segment's bytes, and how much of its text they hold up to the end of each frame. */
static struct {
    char *bytes;
    size_t len;
    struct {
        size_t at, text;
    } ends[32];
    size_t count; /* of them; the first one is the head's */
} file;

static size_t size_of(const char *name)
{
    struct stat st;
    assert_int_equal(fstatat(kit_dir, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    return (size_t)st.st_size;
}

static void frame_ends(void)
{
    kit_sync(&seg);
    assert_true(file.count < COUNT(file.ends));
    file.ends[file.count].at = size_of(seg.file);
    file.ends[file.count++].text = seg.whole.len;
}

static int set_up(void **state)
{
    (void)state;
    memset(&kit_io, 0, sizeof kit_io);
    memset(&file, 0, sizeof file);
    struct segment_head h = kit_head(1);
    kit_define_tables();
    kit_begin_segment(&seg, &h);
    frame_ends();
    return 0;
}

static int tear_down(void **state)
{
    memset(&kit_io, 0, sizeof kit_io);
    kit_forget_segment(&seg);
    free(file.bytes);
    return kit_clean(state);
}

/* Frames 2 and 3 are equally long. */
static void fill(void)
{
    for (unsigned i = 0; i < 3; i++) {
        kit_begin(&seg, 1700000000, &(struct change_gtid){0, 1, 5 + 2 * i});
        kit_insert(&seg, 0, i == 2 ? "(1,'a','tuple')" : "(1,'b','TUPLE')");
        kit_end(&seg, 100);
        frame_ends();
    }
    kit_begin(&seg, 1700000003, &(struct change_gtid){0, 1, 8});
    kit_insert(&seg, 0, "(2,'b','WKJF')");
    kit_insert(&seg, 2, "(2,'b',0)");
    kit_end(&seg, 100);
    kit_begin(&seg, 1700000003, &(struct change_gtid){0, 1, 9});
    kit_end(&seg, 100);
    kit_event(&seg, CHANGE_LOST, 1700000004, "");
    frame_ends();
    kit_rotate(&seg, 77);
    kit_begin(&seg, 1700000005, &(struct change_gtid){0, 1, 10});
    kit_event(&seg, CHANGE_SWAP, 1700000005, "dump");
    kit_end(&seg, 100);
    kit_begin(&seg, 1700000005, &(struct change_gtid){0, 1, 11});
    kit_event(&seg, CHANGE_GAP, 1700000005, "an ALTER");
    kit_end(&seg, 100);
    frame_ends();
}

/* Takes the file as it is. */
static void take(void)
{
    segment_close(seg.w);
    seg.w = NULL;
    free(file.bytes);
    file.bytes = kit_get(seg.file, &file.len);
    assert_non_null(file.bytes);
}

static void fill_unfinalized(void)
{
    fill();
    take();
    assert_int_equal(file.len, file.ends[file.count - 1].at);
}

static void fill_finalized(void)
{
    fill();
    kit_finalize(&seg);
    take();
    assert_int_equal(file.len, file.ends[file.count - 1].at + SEGMENT_FRAME + SEGMENT_SUMMARY_BODY);
}

/* The text of the frames that end within the first `len` bytes. */
static size_t text_up_to(size_t len)
{
    size_t text = 0;
    for (size_t i = 0; i < file.count && file.ends[i].at <= len; i++)
        text = file.ends[i].text;
    return text;
}

/* Reads it: what comes is a part of what was put, from its beginning on. */
static struct kit_read read_part(void)
{
    struct kit_read k = kit_read_segment(seg.file);
    if (k.text.len > seg.whole.len || memcmp(k.text.p, seg.whole.p, k.text.len) != 0)
        fail_msg("never put:\n%s", k.text.p);
    assert_true(k.got == 0 || k.got == -1);
    assert_true(k.got == 0 || k.e.cls == ERR_DAMAGED);
    buf_free(&k.text);
    return k;
}

static size_t length_read(struct kit_read *k)
{
    *k = kit_read_segment(seg.file);
    size_t len = k->text.len;
    assert_true(len <= seg.whole.len);
    assert_memory_equal(k->text.p, seg.whole.p, len);
    buf_free(&k->text);
    return len;
}

/* Recovers it, and checks that it then holds this much of the text, and is finalized. */
static void recovers(size_t text, bool with_damage)
{
    char damage[LINE] = "?";
    struct err e;
    struct kit_read k;
    struct segment_head h;
    struct segment_sum sum;
    if (segment_recover(kit_dir, seg.file, damage, &e) < 0)
        fail_msg("%s", e.text);
    if ((damage[0] != '\0') != with_damage)
        fail_msg("damage: %s", damage);
    assert_int_equal(length_read(&k), text);
    assert_int_equal(k.got, 0);
    assert_true(k.finalized);
    assert_int_equal(segment_peek(kit_dir, seg.file, &h, &sum, &e), 1);
    kit_same_sum(&sum, &k.sum);
    size_t len = size_of(seg.file);
    assert_int_equal(segment_recover(kit_dir, seg.file, damage, &e), 0); /* nothing more to do */
    assert_string_equal(damage, "");
    assert_int_equal(size_of(seg.file), len);
}

/* ---- torn ends ---- */

static void test_cut_anywhere(void **state)
{
    (void)state;
    fill_unfinalized();
    for (size_t len = 0; len <= file.len; len++) {
        struct kit_read k;
        char damage[LINE];
        struct err e;
        kit_put(seg.file, file.bytes, len);
        size_t text = length_read(&k);
        if (len < file.ends[0].at) {
            assert_int_equal(k.got, -1);
            assert_int_equal(k.e.cls, ERR_DAMAGED);
            assert_int_equal(segment_recover(kit_dir, seg.file, damage, &e), -1);
            assert_int_equal(e.cls, ERR_DAMAGED);
            assert_int_equal(size_of(seg.file), len);
            assert_int_equal(segment_blank(kit_dir, seg.file, &e), 1);
            continue;
        }
        if (k.got != 0)
            fail_msg("%zu bytes: %s", len, k.e.text);
        assert_false(k.finalized);
        assert_int_equal(text, text_up_to(len));
        assert_int_equal(segment_blank(kit_dir, seg.file, &e), 0);
        recovers(text, false);
    }
}

static void test_finalized_cut_anywhere(void **state)
{
    (void)state;
    fill_finalized();
    size_t close_to = file.len - 64;
    for (size_t len = file.ends[0].at; len <= file.len; len += len < close_to ? dice_stride() : 1) {
        struct kit_read k;
        struct segment_head h;
        struct segment_sum sum;
        struct err e;
        kit_put(seg.file, file.bytes, len);
        assert_int_equal(length_read(&k), text_up_to(len));
        assert_int_equal(k.got, 0);
        assert_int_equal(k.finalized, len == file.len);
        assert_int_equal(segment_peek(kit_dir, seg.file, &h, &sum, &e), len == file.len);
        if (len % 16 == 0 || len + 32 > file.len)
            recovers(text_up_to(len), false);
    }
}

/* A group of several frames is given out as a whole, or not at all. */
static void test_large_groups_cut(void **state)
{
    (void)state;
    char *long_text = xcalloc(1, 70000);
    size_t whole[4] = {0}, text[4] = {0};
    memset(long_text, 'x', 69999);
    memcpy(long_text, "(1,0,'", 6);
    memcpy(long_text + 69997, "')", 2);
    for (unsigned i = 1; i < 4; i++) {
        kit_begin(&seg, 1700000000, NULL);
        for (unsigned n = 0; n < 12 * i; n++)
            kit_insert(&seg, n % KIT_TABLES, long_text);
        kit_end(&seg, 100);
        kit_sync(&seg);
        whole[i] = size_of(seg.file);
        text[i] = seg.whole.len;
    }
    take();
    whole[0] = file.ends[0].at;
    unsigned frames = 0;
    for (size_t at = 0; at < file.len; at++) {
        if (memcmp(file.bytes + at, SEGMENT_MAGIC, at + 4 < file.len ? 4 : 1) != 0)
            continue;
        frames++;
        for (size_t len = at > 18 ? at - 18 : at; len < at + 18 && len < file.len; len += 3) {
            size_t want = 0;
            for (unsigned i = 0; i < 4; i++)
                want = whole[i] <= len ? text[i] : want;
            if (len < whole[0])
                continue;
            kit_put(seg.file, file.bytes, len);
            recovers(want, false);
        }
    }
    assert_true(frames > 15);
    free(long_text);
}

/* Blocks of a file that was not on the disk yet when the power went. */
static void test_tails(void **state)
{
    (void)state;
    fill_unfinalized();
    struct buf b = {0};
    for (unsigned kind = 0; kind < 5; kind++)
        for (size_t more = 1; more < 9000; more += more < 50 ? 1 : 997) {
            buf_clear(&b);
            buf_add(&b, file.bytes, file.len);
            for (size_t i = 0; i < more; i++)
                buf_addc(&b, kind == 0   ? '\0'
                             : kind == 1 ? '\xff'
                             : kind == 2 ? "WKJF"[i % 4]
                             : kind == 3 ? file.bytes[i % file.len]
                                         : (char)(i * i * 31 >> 3));
            kit_put(seg.file, b.p, b.len);
            recovers(seg.whole.len, false);
        }
    /* A part of the last frame is zero, or all behind some place. */
    for (size_t from = file.ends[file.count - 2].at; from < file.len; from++)
        for (unsigned rest = 0; rest < 2; rest++) {
            buf_clear(&b);
            buf_add(&b, file.bytes, file.len);
            memset(b.p + from, 0, rest ? file.len - from : 1);
            bool same = memcmp(b.p, file.bytes, file.len) == 0;
            kit_put(seg.file, b.p, b.len);
            recovers(same ? seg.whole.len : file.ends[file.count - 2].text, false);
        }
    buf_free(&b);
}

/* Behind a summary there is nothing, whatever is there. */
static void test_tail_behind_a_summary(void **state)
{
    (void)state;
    fill_finalized();
    for (unsigned i = 0; i < 2; i++) {
        struct buf b = {0};
        struct kit_read k;
        buf_add(&b, file.bytes, file.len);
        if (i)
            buf_add(&b, file.bytes, file.len);
        buf_add(&b, (char[300]){0}, 300);
        kit_put(seg.file, b.p, b.len);
        assert_int_equal(length_read(&k), seg.whole.len);
        assert_int_equal(k.got, 0);
        assert_true(k.finalized);
        buf_free(&b);
    }
}

/* ---- damage ---- */

/* Under sanitizers, where each takes many times as long, one bit of each byte; without, all of
 * them. */
static bool left_out(size_t at, unsigned bit)
{
#ifdef __SANITIZE_ADDRESS__
    return bit != at % 8;
#else
    (void)at, (void)bit;
    return false;
#endif
}

static bool in_padding(size_t at)
{
    return at + 4 < file.len && at > file.len - SEGMENT_SUMMARY_BODY + 1500;
}

static void test_each_bit_of_a_finalized_one(void **state)
{
    (void)state;
    fill_finalized();
    int fd = openat(kit_dir, seg.file, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    for (size_t at = 0; at < file.len; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            struct segment_head h;
            struct segment_sum sum;
            struct err e;
            char c = (char)(file.bytes[at] ^ (1 << bit));
            if (left_out(at, bit) || (in_padding(at) && bit != at % 8) ||
                (at + bit) % dice_stride() != 0)
                continue;
            assert_int_equal(pwrite(fd, &c, 1, (off_t)at), 1);
            struct kit_read k = read_part();
            int peek = segment_peek(kit_dir, seg.file, &h, &sum, &e);
            if (k.got == 0 && (k.finalized || peek == 1))
                fail_msg("bit %u of byte %zu is not missed", bit, at);
            assert_false(k.finalized);
            assert_int_equal(segment_blank(kit_dir, seg.file, &e), 0);
            assert_int_equal(pwrite(fd, &file.bytes[at], 1, (off_t)at), 1);
        }
    close(fd);
    kit_check_finalized(&seg);
}

static void test_each_bit_of_an_unfinalized_one(void **state)
{
    (void)state;
    fill_unfinalized();
    for (size_t at = file.ends[0].at; at < file.len; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            struct kit_read k;
            if (left_out(at, bit))
                continue;
            bool last = at >= file.ends[file.count - 2].at;
            char was = file.bytes[at];
            file.bytes[at] = (char)(was ^ (1 << bit));
            kit_put(seg.file, file.bytes, file.len);
            file.bytes[at] = was;
            assert_int_equal(length_read(&k), text_up_to(at));
            assert_int_equal(k.got, last ? 0 : -1);
            assert_true(last || k.e.cls == ERR_DAMAGED);
            recovers(text_up_to(at), !last);
        }
}

/* What the message says is where it is. */
static void test_what_is_told(void **state)
{
    (void)state;
    char want[300];
    fill_finalized();
    file.bytes[file.ends[1].at + 20] ^= 1;
    kit_put(seg.file, file.bytes, file.len);
    struct kit_read k;
    assert_int_equal(length_read(&k), file.ends[1].text);
    snprintf(want, sizeof want, "journal segment %s is damaged at byte %zu: its checksum is wrong",
             seg.file, file.ends[1].at);
    assert_string_equal(k.e.text, want);
    kit_put(seg.file, file.bytes, 10);
    k = read_part();
    snprintf(want, sizeof want, "journal segment %s is damaged at byte 0: its header is missing",
             seg.file);
    assert_string_equal(k.e.text, want);
}

static void swap_frames(size_t i)
{
    size_t a = file.ends[i].at, b = file.ends[i + 1].at, len = b - a;
    char *copy = kit_copy(file.bytes + a, len);
    assert_int_equal(file.ends[i + 2].at - b, len);
    memcpy(file.bytes + a, file.bytes + b, len);
    memcpy(file.bytes + b, copy, len);
    free(copy);
}

static void test_frames_in_other_places(void **state)
{
    (void)state;
    struct kit_read k;
    fill_finalized();
    swap_frames(1);
    kit_put(seg.file, file.bytes, file.len);
    assert_int_equal(length_read(&k), file.ends[1].text);
    assert_int_equal(k.got, -1);
    swap_frames(1);
    struct buf b = {0}; /* one left out, and one twice */
    buf_add(&b, file.bytes, file.ends[0].at);
    buf_add(&b, file.bytes + file.ends[1].at, file.len - file.ends[1].at);
    kit_put(seg.file, b.p, b.len);
    assert_int_equal(length_read(&k), 0);
    assert_false(k.finalized);
    buf_clear(&b);
    buf_add(&b, file.bytes, file.ends[1].at);
    buf_add(&b, file.bytes + file.ends[0].at, file.len - file.ends[0].at);
    kit_put(seg.file, b.p, b.len);
    assert_int_equal(length_read(&k), file.ends[1].text);
    assert_false(k.finalized);
    buf_free(&b);
}

/* Frames of another segment at the very same place, and a segment under another one's name. */
static void test_frames_of_another_one(void **state)
{
    (void)state;
    struct kit_read k;
    fill_finalized();
    char *bytes = file.bytes;
    size_t len = file.len;
    file.bytes = NULL;
    file.count = 0;
    kit_forget_segment(&seg);
    struct segment_head h = kit_head(2);
    kit_begin_segment(&seg, &h);
    kit_define_tables();
    frame_ends();
    fill_finalized();
    assert_int_equal(len, file.len);
    for (size_t i = 0; i + 1 < file.count; i++) {
        char *copy = kit_copy(file.bytes, len);
        memcpy(copy + file.ends[i].at, bytes + file.ends[i].at,
               file.ends[i + 1].at - file.ends[i].at);
        kit_put(seg.file, copy, len);
        assert_int_equal(length_read(&k), file.ends[i].text);
        assert_int_equal(k.got, -1);
        free(copy);
    }
    char *copy = kit_copy(file.bytes, len);
    size_t signature = file.ends[file.count - 1].at;
    memcpy(copy + signature, bytes + signature, len - signature);
    kit_put(seg.file, copy, len);
    assert_int_equal(length_read(&k), seg.whole.len);
    assert_false(k.finalized);
    free(copy);
    kit_put(seg.file, bytes, len);
    k = read_part();
    assert_int_equal(k.got, -1);
    kit_put("world-0000000001.journal.copy", bytes, len);
    k = kit_read_segment("world-0000000001.journal.copy"); /* its number is there */
    assert_int_equal(k.got, 0);
    buf_free(&k.text);
    kit_put("segment", bytes, len);
    k = kit_read_segment("segment");
    assert_int_equal(k.got, -1);
    buf_free(&k.text);
    free(bytes);
}

/* ---- frames that no writer makes ---- */

static void put_frame(struct buf *b, const void *body, size_t len, uint32_t length)
{
    unsigned char h[SEGMENT_FRAME] = SEGMENT_MAGIC;
    uint32_t n[3] = {length, codec_crc32(0, body, len), 0};
    for (unsigned i = 0; i < 12; i++) {
        if (i == 8)
            n[2] = segment_frame_crc(1, b->len, h);
        h[4 + i] = (unsigned char)(n[i / 4] >> (8 * (i % 4)));
    }
    buf_add(b, h, sizeof h);
    buf_add(b, body, len);
}

/* Behind what `fill` wrote; another whole frame comes behind it. */
static void frame_is_no_good(const struct buf *body, bool within)
{
    struct buf b = {0};
    struct kit_read k;
    buf_add(&b, file.bytes, file.len);
    put_frame(&b, body->p, body->len, (uint32_t)body->len | (within ? SEGMENT_WITHIN : 0));
    if (within)
        put_frame(&b, "\x05\x01", 2, 2);
    put_frame(&b, "\x0a\x01", 2, 2);
    kit_put(seg.file, b.p, b.len);
    k = kit_read_segment(seg.file);
    if (k.got != -1 || k.e.cls != ERR_DAMAGED)
        fail_msg("%zu bytes of body are taken, the first %d", body->len, body->p[0]);
    assert_true(k.text.len >= seg.whole.len);
    assert_memory_equal(k.text.p, seg.whole.p, seg.whole.len);
    buf_free(&k.text);
    recovers(seg.whole.len, true);
    assert_int_equal(size_of(seg.file), file.len + SEGMENT_FRAME + SEGMENT_SUMMARY_BODY);
    buf_free(&b);
}

#define OPS(bytes)                                                                                 \
    {                                                                                              \
        .p = (char[]){bytes}, .len = sizeof(bytes) - 1                                             \
    }

static void test_operations_that_are_none(void **state)
{
    (void)state;
    static const char begin[] = "\x04\x00\x00", lost[] = "\x0a\x01";
    const struct buf bad[] = {
        OPS("\x00"),
        OPS("\x0e"),
        OPS("\xff"),
        OPS("\x06\x00\x03(1)"),                     /* a row in no group */
        OPS("\x09\x00"),                            /* the same */
        OPS("\x05\x01"),                            /* an end of none */
        OPS("\x04\x00\x00\x04\x00\x00"),            /* a group within one */
        OPS("\x04\x00\x00\x06\x02\x03(1)\x05\x01"), /* no such table */
        OPS("\x04\x00\x00\x06\x63\x03(1)\x05\x01"),
        OPS("\x04\x00\x00\x06\x00\x04(1)"), /* a text that is cut off */
        OPS("\x04\x00\x00\x06\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7f(1)"),
        OPS("\x04\x00\x00\x06\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01(1)"),
        OPS("\x04\x00\x00\x06\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00\x00"),
        OPS("\x04\x03\x00\x05\x01"), /* flags */
        OPS("\x04\x08\x00\x05\x01"),
        OPS("\x04\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x05\x01"), /* 1970 is long over */
        OPS("\x04\x00\x80\x80\x80\x80\x20\x05\x01"),                     /* or not yet here */
        OPS("\x04\x04\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x05\x01"), /* beyond all logs */
        OPS("\x04\x00\x00\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        OPS("\x04\x01\x00\x01\x01"), /* cut off in each operation */
        OPS("\x04\x00"),
        OPS("\x04"),
        OPS("\x03\x4d\x0alog.000002"), /* it is there already */
        OPS("\x03\x00\x01x\x03\x4d\x0alog.000002"),
        OPS("\x03\x80\x80\x80\x80\x10\x01x"),
        OPS("\x03\x00\x01\xff"),
        OPS("\x03\x00\x00"),    /* no name */
        OPS("\x03\x00\x02w\0"), /* half a name */
        OPS("\x03\x00\x03w"),
        OPS("\x01\x02{}"), /* a second head */
        OPS("\x0a\x80\x80\x80\x80\x10"),
        OPS("\x0a"),
        OPS("\x0c\x01\x05gap"),
    };
    fill_unfinalized();
    for (size_t i = 0; i < COUNT(bad); i++) {
        frame_is_no_good(&bad[i], false);
        if (i > 5) { /* behind something good as well */
            struct buf b = {0};
            buf_add(&b, lost, sizeof lost - 1);
            buf_add(&b, bad[i].p, bad[i].len);
            frame_is_no_good(&b, false);
            buf_free(&b);
        }
    }
    for (unsigned within = 0; within < 2; within++) { /* what frames say of groups is true */
        struct buf b = {0};
        buf_add(&b, begin, sizeof begin - 1);
        if (within)
            buf_add(&b, "\x05\x01", 2);
        frame_is_no_good(&b, within);
        buf_free(&b);
    }
}

static void test_texts_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *op, *text;
    } bad[] = {
        {"\x04\x02\x02\x02", ""},
        {"\x04\x02\x02\x02", "[]"},
        {"\x04\x02\x02\x02", "{}"},
        {"\x04\x02\x02\x02", "{\"name\":\"t\",\"counter\":-1}x"},
        {"\x04\x02\x02\x02", "{\"name\":\"\",\"counter\":-1}"},
        {"\x04\x02\x02\x02", "{\"name\":1,\"counter\":-1}"},
        {"\x04\x02\x02\x02", "{\"name\":\"t\"}"},
        {"\x04\x02\x02\x02", "{\"name\":\"t\",\"counter\":-2}"},
        {"\x04\x02\x02\x02", "{\"name\":\"t\",\"counter\":65536}"},
        {"\x04\x02\x02\x02", "{\"name\":\"t\",\"counter\":-1,\"key\":[-1]}"},
        {"\x04\x02\x02\x02", "{\"name\":\"t\",\"counter\":-1,\"key\":[0,65536]}"},
        {"\x04\x02\x02\x02", "{\"name\":\"t\",\"counter\":-1,\"key\":[4294967296]}"},
        {"\x04\x02\x02\x02", "{\"name\":\"t\",\"counter\":-1,\"key\":[\"0\"]}"},
        {"\x04\x02\x02\x02", "{\"name\":\"t\",\"counter\":-1,\"key\":0}"},
        {"\x02",
         "{\"name\":\"t\",\"counter\":-1,\"key\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
         "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
         "0,0,0,0,0,0]}"},
        {"\x02", "{\"name\":\"t\",\"counter\":-1,\"key\":[]}"}, /* in no group */
        {"\x0b\x01", ""},
        {"\x0b\x01", "[]"},
        {"\x0b\x01", "{\"dump\":\"d\""},
        {"\x0d", ""},
        {"\x0d", "{}"},
        {"\x01", "{}"},
    };
    fill_unfinalized();
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct buf b = {0};
        buf_adds(&b, bad[i].op);
        segment_put_text(&b, bad[i].text, strlen(bad[i].text));
        frame_is_no_good(&b, false);
        buf_free(&b);
    }
}

/* A group of which a later frame makes no sense is not there, and so is all of it cut off. */
static void test_large_group_with_nonsense(void **state)
{
    (void)state;
    fill_unfinalized();
    struct buf b = {0};
    buf_add(&b, file.bytes, file.len);
    put_frame(&b, "\x0a\x01", 2, 2);
    size_t good = b.len;
    put_frame(&b, "\x04\x00\x00\x06\x00\x03(1)", 9, 9 | SEGMENT_WITHIN);
    put_frame(&b, "\x06\x00\x03(2)", 6, 6 | SEGMENT_WITHIN);
    put_frame(&b, "\x06\x63\x03(2)\x05\x01", 8, 8);
    put_frame(&b, "\x0a\x01", 2, 2);
    kit_put(seg.file, b.p, b.len);
    buf_adds(&seg.whole, "lost at 1\n");
    recovers(seg.whole.len, true);
    assert_int_equal(size_of(seg.file), good + SEGMENT_FRAME + SEGMENT_SUMMARY_BODY);
    buf_free(&b);
}

/* The frame that proves the damage may be far away, and anywhere. */
static void test_far_behind(void **state)
{
    (void)state;
    fill_unfinalized();
    for (size_t i = 0; i < 40; i++) {
        struct buf b = {0};
        struct kit_read k;
        buf_add(&b, file.bytes, file.len);
        buf_reserve(&b, 2 << 20);
        memset(b.p + b.len, "WKJF"[i % 5], (2 << 20));
        b.len += i == 39 ? 1000 : (1 << 20) - 20 + i;
        put_frame(&b, "\x0a\x01", 2, 2);
        kit_put(seg.file, b.p, b.len);
        assert_int_equal(length_read(&k), seg.whole.len);
        assert_int_equal(k.got, -1);
        assert_int_equal(k.e.cls, ERR_DAMAGED);
        buf_free(&b);
    }
}

/* A summary that does not say what was read ends another segment. */
static void test_other_summaries(void **state)
{
    (void)state;
    fill_unfinalized();
    struct kit_read k = kit_read_segment(seg.file);
    buf_free(&k.text);
    for (unsigned i = 0; i < 10; i++) {
        struct segment_sum sum = k.sum;
        sum.groups += i == 1;
        sum.changes += i == 2;
        sum.mark_count -= i == 3;
        sum.to.point.pos += i == 4;
        sum.to.point.file[0] = (char)(sum.to.point.file[0] + (i == 5));
        sum.to.created_at += i == 6;
        json_t *o = i == 7 ? json_array() : segment_sum_json(&sum);
        char *s = json_dumps(o, JSON_COMPACT);
        struct buf body = {0}, b = {0};
        if (i == 8) /* within a group */
            buf_add(&body, "\x04\x00\x00", 3);
        buf_addc(&body, SEGMENT_SUMMARY);
        segment_put_text(&body, s, strlen(s));
        if (i == 9) /* not the last thing */
            buf_add(&body, "\x0a\x01", 2);
        if (i) {
            frame_is_no_good(&body, false);
        } else {
            struct kit_read good;
            buf_add(&b, file.bytes, file.len);
            put_frame(&b, body.p, body.len, (uint32_t)body.len);
            kit_put(seg.file, b.p, b.len);
            assert_int_equal(length_read(&good), seg.whole.len);
            assert_true(good.finalized);
        }
        json_decref(o);
        free(s);
        buf_free(&body);
        buf_free(&b);
    }
}

/* Lengths that are none end the file, whatever checksum they have; but nothing is read for them. */
static void test_lengths(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {0,
                                       SEGMENT_WITHIN,
                                       SEGMENT_BODY_MAX,
                                       SEGMENT_BODY_MAX + 1,
                                       SEGMENT_BODY_MAX | SEGMENT_WITHIN,
                                       INT32_MAX,
                                       UINT32_MAX};
    fill_unfinalized();
    for (size_t i = 0; i < COUNT(lengths); i++) {
        struct buf b = {0};
        buf_add(&b, file.bytes, file.len);
        put_frame(&b, "\x0a\x01", 2, lengths[i]);
        kit_put(seg.file, b.p, b.len);
        recovers(seg.whole.len, false);
        buf_free(&b);
    }
}

/* ---- heads ---- */

static void head_is_no_good(const char *json, bool good)
{
    struct buf body = {0}, b = {0};
    char damage[LINE];
    struct err e;
    buf_addc(&body, SEGMENT_HEAD);
    segment_put_text(&body, json, strlen(json));
    put_frame(&b, body.p, body.len, (uint32_t)body.len);
    kit_put(seg.file, b.p, b.len);
    struct kit_read k = kit_read_segment(seg.file);
    if ((k.got == 0) != good)
        fail_msg("%s", json);
    assert_true(good || k.e.cls == ERR_DAMAGED);
    assert_int_equal(segment_recover(kit_dir, seg.file, damage, &e), good ? 0 : -1);
    assert_int_equal(segment_blank(kit_dir, seg.file, &e), 0);
    buf_free(&k.text);
    buf_free(&body);
    buf_free(&b);
}

static void test_heads(void **state)
{
    (void)state;
    take();
    head_is_no_good("{\"worldkeeper journal\":1,\"number\":1,\"from\":{\"file\":\"f\"}}", true);
    head_is_no_good("{\"worldkeeper journal\":2,\"number\":1,\"from\":{\"file\":\"f\"}}", false);
    head_is_no_good("{\"worldkeeper journal\":1,\"number\":2,\"from\":{\"file\":\"f\"}}", false);
    head_is_no_good("{\"worldkeeper journal\":1,\"number\":1,\"from\":{\"file\":\"\"}}", false);
    head_is_no_good("{\"worldkeeper journal\":1,\"number\":1,\"from\":null}", false);
    head_is_no_good("{\"worldkeeper journal\":1,\"number\":1,\"from\":{\"file\":\"f\",\"pos\":-1}}",
                    false);
    head_is_no_good(
        "{\"worldkeeper journal\":1,\"number\":1,\"from\":{\"file\":\"f\",\"at\":-1000}}", false);
    head_is_no_good("{\"worldkeeper journal\":1,\"number\":1,"
                    "\"from\":{\"file\":\"f\",\"at\":9223372036854775807}}",
                    false);
    head_is_no_good("[]", false);
    head_is_no_good("", false);
    head_is_no_good("{\"worldkeeper journal\":1", false);
}

static void test_second_head(void **state)
{
    (void)state;
    fill_unfinalized();
    struct buf b = {0};
    buf_add(&b, file.bytes + SEGMENT_FRAME, file.ends[0].at - SEGMENT_FRAME);
    frame_is_no_good(&b, false);
    buf_free(&b);
}

/* ---- what is no segment ---- */

static void is_no_segment(const char *name, enum err_class cls)
{
    struct err e, by_peek;
    struct segment_head h;
    struct segment_sum sum;
    char damage[LINE];
    assert_null(segment_open(kit_dir, name, &e));
    assert_int_equal(e.cls, cls);
    assert_int_equal(segment_peek(kit_dir, name, &h, &sum, &by_peek), -1);
    assert_string_equal(by_peek.text, e.text);
    assert_int_equal(segment_recover(kit_dir, name, damage, &e), -1);
}

static void test_no_files(void **state)
{
    (void)state;
    static const char name[] = "world-0000000009.journal";
    struct err e;
    fill_finalized();
    is_no_segment(name, ERR_SYSTEM);
    assert_int_equal(segment_blank(kit_dir, name, &e), -1);
    kit_put(name, "", 0);
    is_no_segment(name, ERR_DAMAGED);
    assert_int_equal(segment_blank(kit_dir, name, &e), 1);
    unlinkat(kit_dir, name, 0);
    assert_int_equal(symlinkat(seg.file, kit_dir, name), 0);
    is_no_segment(name, ERR_SYSTEM);
    assert_int_equal(segment_blank(kit_dir, name, &e), -1);
    unlinkat(kit_dir, name, 0);
    assert_int_equal(mkfifoat(kit_dir, name, 0600), 0);
    is_no_segment(name, ERR_DAMAGED);
    assert_int_equal(segment_blank(kit_dir, name, &e), -1);
    unlinkat(kit_dir, name, 0);
    assert_int_equal(mkdirat(kit_dir, name, 0700), 0);
    is_no_segment(name, ERR_DAMAGED);
    assert_int_equal(segment_blank(kit_dir, name, &e), -1);
    struct segment_head h = kit_head(9);
    assert_null(segment_create(kit_dir, &h, &e)); /* never in the place of anything */
    h.number = 1;
    assert_null(segment_create(kit_dir, &h, &e));
    assert_int_equal(e.num, EEXIST);
    kit_check_finalized(&seg);
    h.number = 10;
    struct segment_writer *w = segment_create(kit_dir, &h, &e);
    assert_non_null(w);
    struct stat st;
    assert_int_equal(fstatat(kit_dir, "world-0000000010.journal", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    segment_close(w);
    segment_close(NULL);
    segment_reader_close(NULL);
}

/* ---- disks that fail ---- */

static void test_read_errors(void **state)
{
    (void)state;
    fill_finalized();
    bool failed = true;
    for (unsigned n = 1; failed; n++) {
        struct segment_head h;
        struct segment_sum sum;
        struct err e;
        char damage[LINE];
        kit_io.reads = 0;
        kit_io.read_fails = n;
        struct kit_read k = kit_read_segment(seg.file);
        failed = kit_io.reads >= n;
        assert_int_equal(k.got, failed ? -1 : 0);
        assert_true(!failed || (k.e.cls == ERR_SYSTEM && k.e.num == EIO));
        assert_true(k.text.len <= seg.whole.len);
        assert_memory_equal(k.text.p, seg.whole.p, k.text.len);
        buf_free(&k.text);
        kit_io.reads = 0;
        int peek = segment_peek(kit_dir, seg.file, &h, &sum, &e);
        assert_int_equal(peek, kit_io.reads >= n ? -1 : 1);
        kit_put(seg.file, file.bytes, file.ends[file.count - 1].at);
        kit_io.reads = 0;
        int rc = segment_recover(kit_dir, seg.file, damage, &e);
        assert_int_equal(rc, kit_io.reads >= n ? -1 : 0);
        assert_int_equal(size_of(seg.file), rc ? file.ends[file.count - 1].at : file.len);
        kit_put(seg.file, file.bytes, file.len);
    }
    kit_io.read_fails = 0;
    kit_check_finalized(&seg);
}

/* All of it once more, with a disk that takes so many bytes. -1 as the writer says it. */
static int write_with_room(size_t room, struct err *e)
{
    struct segment_head h = kit_head(1);
    struct change c = {.file = "log.000001", .pos = 1000};
    kit_io.full = true;
    kit_io.room = room;
    kit_define_tables();
    struct segment_writer *w = segment_create(kit_dir, &h, e);
    for (unsigned i = 0; w && i < 6; i++) {
        c.kind = CHANGE_BEGIN;
        int rc = segment_put(w, &c, e);
        c.kind = CHANGE_INSERT;
        c.table = &kit_tables[i % 2];
        c.tuple = "(1,'a',0)";
        c.len = 9;
        rc = rc < 0 ? rc : segment_put(w, &c, e);
        c.kind = CHANGE_END;
        c.pos += 100;
        rc = rc < 0 ? rc : segment_put(w, &c, e);
        if (rc < 0 || segment_sync(w, e) < 0) {
            segment_close(w);
            w = NULL;
        }
    }
    int rc = w ? segment_finalize(w, e) : -1;
    kit_io.full = false;
    return rc;
}

static void test_full_disk(void **state)
{
    (void)state;
    struct err e;
    char damage[LINE];
    kit_forget_segment(&seg);
    unlinkat(kit_dir, "world-0000000001.journal", 0);
    assert_int_equal(write_with_room(1 << 20, &e), 0);
    size_t all = size_of("world-0000000001.journal");
    struct kit_read whole = kit_read_segment("world-0000000001.journal");
    unsigned without_head = 0;
    for (size_t room = 0; room < all; room += room < 1200 ? 1 : 61) {
        unlinkat(kit_dir, "world-0000000001.journal", 0);
        assert_int_equal(write_with_room(room, &e), -1);
        assert_int_equal(e.cls, ERR_NOSPACE);
        if (!kit_there("world-0000000001.journal")) {
            without_head++;
            continue;
        }
        assert_int_equal(segment_recover(kit_dir, "world-0000000001.journal", damage, &e), 0);
        assert_string_equal(damage, "");
        struct kit_read k = kit_read_segment("world-0000000001.journal");
        assert_int_equal(k.got, 0);
        assert_true(k.finalized && k.text.len <= whole.text.len);
        assert_memory_equal(k.text.p, whole.text.p, k.text.len);
        buf_free(&k.text);
    }
    assert_in_range(without_head, 100, 600);
    buf_free(&whole.text);
}

static void test_disk_errors(void **state)
{
    (void)state;
    struct err e;
    char damage[LINE];
    struct segment_head h = kit_head(2);
    kit_io.sync_fails = true;
    assert_null(segment_create(kit_dir, &h, &e));
    assert_false(kit_there("world-0000000002.journal"));
    kit_begin(&seg, 1700000000, NULL);
    kit_insert(&seg, 0, "(1,'a',0)");
    kit_end(&seg, 10);
    assert_int_equal(segment_sync(seg.w, &e), -1);
    kit_io.sync_fails = false;
    kit_begin(&seg, 1700000000, NULL);
    struct buf b = {0};
    buf_adds(&b, "(1,'");
    while (b.len < SEGMENT_BODY)
        buf_adds(&b, "long ");
    buf_adds(&b, "',0)");
    kit_insert(&seg, 0, b.p);
    buf_free(&b);
    kit_io.cut_fails = true;
    assert_int_equal(segment_put(seg.w, &(struct change){.kind = CHANGE_CUT}, &e), -1);
    segment_close(seg.w);
    seg.w = NULL;
    assert_int_equal(segment_recover(kit_dir, seg.file, damage, &e), -1);
    assert_int_equal(e.num, EIO);
    kit_io.cut_fails = false;
    recovers(seg.whole.len, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cut_anywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_finalized_cut_anywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_large_groups_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tail_behind_a_summary, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_each_bit_of_a_finalized_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_each_bit_of_an_unfinalized_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_frames_in_other_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_frames_of_another_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_operations_that_are_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_texts_that_are_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_large_group_with_nonsense, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_far_behind, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_summaries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lengths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_heads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_second_head, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_read_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_disk_errors, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
