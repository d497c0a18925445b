/* journal/segment_mac: with a key, a reader returns only what our writer put there, even if
 * somebody else corrected all checksums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "journal/segment_frame.h"
#include "journal/segment_read.h"
#include "journal/segment_write.h"
#include "segment_kit.h"
#include "store/signature.h"

#define KEY_A "0123456789abcdef0123456789abcdef"
#define KEY_B "fedcba9876543210fedcba9876543210"
#define FRAMES 16u

static struct kit_segment seg;

/* Its bytes, and where its frames begin. */
static struct {
    char *bytes;
    size_t len, at[FRAMES], count;
} file;

/* As after a reload; NULL: no such key. */
static void use(const char *key, const char *old)
{
    static struct config cfgs[64];
    static unsigned turn;
    static char paths[2][64];
    struct config *c = &cfgs[turn++ % COUNT(cfgs)];
    const char *text[] = {key, old};
    char **at[] = {&c->hmac_key_file, &c->hmac_old_key_file};
    struct err e = {0};
    for (size_t i = 0; i < 2; i++) {
        char name[8];
        snprintf(name, sizeof name, "key%zu", i);
        snprintf(paths[i], sizeof paths[i], "/proc/self/fd/%d/%s", kit_dir, name);
        *at[i] = text[i] ? paths[i] : NULL;
        if (!text[i])
            continue;
        kit_text(name, text[i]);
        assert_int_equal(fchmodat(kit_dir, name, 0600, 0), 0);
    }
    if (signature_open(c, &e) < 0)
        fail_msg("%s", e.text);
}

static uint32_t number_at(size_t at)
{
    const unsigned char *p = (const unsigned char *)file.bytes + at;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static size_t length_at(size_t at)
{
    return number_at(at + 4) & ~SEGMENT_WITHIN;
}

static void take(void)
{
    free(file.bytes);
    file.bytes = kit_get(seg.file, &file.len);
    assert_non_null(file.bytes);
    file.count = 0;
    for (size_t at = 0; at < file.len; at += SEGMENT_FRAME + length_at(at)) {
        assert_true(file.count < FRAMES);
        file.at[file.count++] = at;
    }
}

/* Whoever changed the frame there has put its sums right. */
static void put_sums_right(uint64_t number, size_t at)
{
    unsigned char *h = (unsigned char *)file.bytes + at;
    uint32_t n[2] = {codec_crc32(0, file.bytes + at + SEGMENT_FRAME, length_at(at)), 0};
    for (unsigned i = 0; i < 8; i++) {
        if (i == 4)
            n[1] = segment_frame_crc(number, at, h);
        h[8 + i] = (unsigned char)(n[i / 4] >> (8 * (i % 4)));
    }
}

static int set_up(void **state)
{
    (void)state;
    memset(&file, 0, sizeof file);
    kit_define_tables();
    use(KEY_A, NULL);
    struct segment_head h = kit_head(1);
    kit_begin_segment(&seg, &h);
    return 0;
}

static int tear_down(void **state)
{
    kit_forget_segment(&seg);
    free(file.bytes);
    use(NULL, NULL);
    return kit_clean(state);
}

static void put_group(unsigned i, const char *tuple)
{
    kit_begin(&seg, 1700000000 + (int64_t)i, &(struct change_gtid){0, 1, 5 + i});
    kit_insert(&seg, 0, tuple);
    kit_end(&seg, 100);
}

static void fill(void)
{
    for (unsigned i = 0; i < 4; i++) {
        put_group(i, "(1,'a','tuple')");
        kit_sync(&seg);
    }
}

static void fill_finalized(void)
{
    fill();
    kit_finalize(&seg);
    take();
}

/* A group of several frames. */
static void put_large_group(void)
{
    char *tuple = kit_copy("", 0);
    size_t len = SEGMENT_BODY / 2;
    tuple = xrealloc(tuple, len + 1);
    memset(tuple, 'x', len);
    tuple[len] = '\0';
    kit_begin(&seg, 1700000100, &(struct change_gtid){0, 1, 100});
    for (unsigned i = 0; i < 5; i++)
        kit_insert(&seg, 0, tuple);
    kit_end(&seg, 100);
    kit_sync(&seg);
    free(tuple);
}

static void write_back(void)
{
    kit_put(seg.file, file.bytes, file.len);
}

/* What comes is the beginning of what was put; the whole of it where `good`. */
static struct kit_read expect_read(bool good)
{
    struct kit_read k = kit_read_segment(seg.file);
    if (good != (k.got == 0))
        fail_msg("%d: %s", k.got, k.got < 0 ? k.e.text : "nothing is said");
    assert_true(good || k.e.cls == ERR_DAMAGED);
    assert_true(k.text.len <= seg.whole.len && (!good || k.text.len == seg.whole.len));
    assert_memory_equal(k.text.p, seg.whole.p, k.text.len);
    buf_free(&k.text);
    return k;
}

static int peek(void)
{
    struct segment_head h;
    struct segment_sum sum;
    struct err e;
    return segment_peek(kit_dir, seg.file, &h, &sum, &e);
}

static void test_keys(void **state)
{
    (void)state;
    fill();
    put_large_group();
    assert_false(expect_read(true).finalized); /* while it is written */
    kit_finalize(&seg);
    assert_true(expect_read(true).head.mac);
    assert_true(expect_read(true).finalized);
    assert_int_equal(peek(), 1);
    use(KEY_B, KEY_A);
    expect_read(true);
    use(NULL, NULL); /* somebody who has no key reads it, and proves nothing */
    assert_true(expect_read(true).finalized);
    assert_int_equal(peek(), 1);
    use(KEY_B, NULL);
    assert_non_null(strstr(expect_read(false).e.text, "hmac_key_file"));
    assert_int_equal(peek(), -1);
}

static void test_from_before_the_key(void **state)
{
    (void)state;
    kit_forget_segment(&seg);
    use(NULL, NULL);
    struct segment_head h = kit_head(2);
    kit_begin_segment(&seg, &h);
    fill();
    kit_finalize(&seg);
    assert_false(expect_read(true).head.mac);
    use(KEY_A, NULL);
    struct kit_read k = expect_read(false);
    assert_non_null(strstr(k.e.text, "has no HMAC"));
    assert_int_equal(k.text.len, 0);
    assert_int_equal(peek(), -1);
}

/* Of each frame each byte. Nothing of a frame that is not ours is given out. */
static void test_each_byte_with_sums_put_right(void **state)
{
    (void)state;
    fill_finalized();
    assert_int_equal(file.count, 6); /* the head, four groups, the summary */
    for (size_t i = 0; i < file.count; i++) {
        size_t from = file.at[i] + SEGMENT_FRAME, to = from + length_at(file.at[i]);
        for (size_t at = from; at < to; at += i == 5 && at > from + 300 && at + 50 < to ? 41 : 1) {
            char was = file.bytes[at];
            file.bytes[at] ^= 1;
            put_sums_right(1, file.at[i]);
            write_back();
            struct kit_read k = expect_read(false);
            assert_true(i > 0 || k.text.len == 0);
            file.bytes[at] = was;
        }
        put_sums_right(1, file.at[i]);
    }
    write_back();
    expect_read(true);
}

/* A group that ends becomes one that does not. */
static void test_the_word_of_the_length(void **state)
{
    (void)state;
    fill_finalized();
    file.bytes[file.at[2] + 7] ^= (char)0x80;
    put_sums_right(1, file.at[2]);
    write_back();
    expect_read(false);
}

static void cut_out(size_t from, size_t to)
{
    memmove(file.bytes + from, file.bytes + to, file.len - to);
    file.len -= to - from;
    for (size_t at = from; at < file.len; at += SEGMENT_FRAME + length_at(at))
        put_sums_right(1, at);
    write_back();
}

static void test_a_frame_left_out(void **state)
{
    (void)state;
    fill_finalized();
    cut_out(file.at[2], file.at[3]);
    expect_read(false);
}

static void test_frames_in_another_order(void **state)
{
    (void)state;
    fill_finalized();
    size_t n = file.at[4] - file.at[3];
    assert_int_equal(n, file.at[3] - file.at[2]);
    char *second = kit_copy(file.bytes + file.at[2], n);
    memmove(file.bytes + file.at[2], file.bytes + file.at[3], n);
    memcpy(file.bytes + file.at[3], second, n);
    free(second);
    put_sums_right(1, file.at[2]);
    put_sums_right(1, file.at[3]);
    write_back();
    expect_read(false);
}

/* Of the same key, number and place: one that was written under the same name before. */
static void test_a_frame_of_another_segment(void **state)
{
    (void)state;
    fill_finalized();
    size_t n = file.at[3] - file.at[2];
    char *other = kit_copy(file.bytes + file.at[2], n);
    kit_forget_segment(&seg);
    unlinkat(kit_dir, "world-0000000001.journal", 0);
    struct segment_head h = kit_head(1);
    h.made.ms++;
    kit_define_tables();
    kit_begin_segment(&seg, &h);
    fill_finalized();
    assert_int_equal(n, file.at[3] - file.at[2]);
    memcpy(file.bytes + file.at[2], other, n);
    free(other);
    write_back();
    expect_read(false);
}

/* What a killed writer left is finalized by whoever has the key, and by no other so that it
 * counts. */
static void test_left_over(void **state)
{
    (void)state;
    char damage[LINE];
    struct err e;
    fill();
    put_large_group();
    segment_close(seg.w);
    seg.w = NULL;
    take();
    char *torn = kit_copy(file.bytes, file.len + 7);
    memset(torn + file.len, 'W', 7);
    kit_put(seg.file, torn, file.len + 7);
    assert_int_equal(segment_recover(kit_dir, seg.file, damage, &e), 0);
    assert_string_equal(damage, "");
    assert_true(expect_read(true).finalized);
    assert_int_equal(peek(), 1);
    kit_put(seg.file, torn, file.len);
    free(torn);
    use(NULL, NULL);
    assert_int_equal(segment_recover(kit_dir, seg.file, damage, &e), 0);
    assert_true(expect_read(true).finalized);
    use(KEY_A, NULL);
    struct kit_read k = kit_read_segment(seg.file); /* up to that summary all is ours */
    assert_int_equal(k.got, -1);
    assert_string_equal(k.text.p, seg.whole.p);
    assert_false(k.finalized);
    buf_free(&k.text);
    assert_int_equal(peek(), -1);
}

/* The summary by itself says what the segment holds, without reading it. */
static void test_a_forged_summary(void **state)
{
    (void)state;
    fill_finalized();
    char *changes = strstr(file.bytes + file.at[5] + SEGMENT_FRAME + 3, "\"changes\":4");
    assert_non_null(changes);
    changes[10] = '3';
    put_sums_right(1, file.at[5]);
    write_back();
    assert_int_equal(peek(), -1);
    expect_read(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_from_before_the_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_each_byte_with_sums_put_right, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_word_of_the_length, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_frame_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_frames_in_another_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_frame_of_another_segment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_left_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_forged_summary, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
