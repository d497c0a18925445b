/* base/codec: each member is one for zlib too, comes back byte by byte however it is cut into
 * pieces, and nothing else is taken for one. All of it twice: with the libraries of this machine,
 * and as on one that has zlib only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "base/codec.h"
#include "sample_kit.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define MIB (1u << 20)

static bool zlib_only;

/* Stands before the system's. */
void *dlopen(const char *name, int how)
{
    static void *(*real)(const char *, int);
    if (zlib_only && name && strstr(name, "libisal"))
        return NULL;
    if (!real) {
        void *p = dlsym(RTLD_NEXT, "dlopen");
        memcpy(&real, &p, sizeof p);
    }
    return real ? real(name, how) : NULL;
}

/* All members in `data`, `in` bytes and `out` bytes at a time: 0, or -1 (then `b` is what came
 * before). An end inside a member is bad too. */
static int unpack(const char *data, size_t len, size_t in, size_t out, struct buf *b)
{
    struct unpacker *u = unpacker_new();
    struct codec_io io = {0};
    bool inside = false;
    size_t at = 0;
    int rc = 0;
    /* What is given stands at the very end of its memory, so that a byte too much is noticed. */
    in = in < len ? in : len + 1;
    unsigned char *from = malloc(in), *to = malloc(out);
    assert_true(u && from && to);
    buf_clear(b);
    while (rc == 0 && (inside || at < len)) {
        size_t n = len - at < in ? len - at : in;
        memcpy(from + in - n, data + at, n);
        io = (struct codec_io){.in = from + in - n, .in_len = n, .out = to, .out_len = out};
        enum codec_step step = unpacker_run(u, &io);
        assert_ptr_equal(io.in, from + in - io.in_len);
        assert_ptr_equal(io.out, to + out - io.out_len);
        at += n - io.in_len;
        buf_add(b, to, out - io.out_len);
        inside = step == CODEC_MORE;
        if (inside)
            assert_true(io.in_len == 0 || io.out_len == 0);
        if (step == CODEC_BAD) {
            assert_true(io.why && io.why[0]);
            rc = -1;
        } else if (inside && at == len && io.out_len == out) {
            rc = -1; /* wants more than there is */
        }
    }
    free(from);
    free(to);
    unpacker_free(u);
    return rc;
}

static void expect(const struct buf *file, const char *data, size_t len, size_t in, size_t out)
{
    struct buf b = {0};
    assert_int_equal(unpack(file->p, file->len, in, out, &b), 0);
    assert_int_equal(b.len, len);
    assert_memory_equal(b.p, data, len);
    buf_free(&b);
}

/* The one member that zlib sees, and nothing behind it. */
static void expect_by_zlib(const struct buf *file, const char *data, size_t len)
{
    z_stream z = {0};
    unsigned char *out = xcalloc(len + 1, 1);
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    z.next_in = (unsigned char *)file->p;
    z.avail_in = (uInt)file->len;
    z.next_out = out;
    z.avail_out = (uInt)len + 1;
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.avail_in, 0);
    assert_int_equal(z.total_out, len);
    assert_memory_equal(out, data, len);
    inflateEnd(&z);
    free(out);
}

static void test_which(void **state)
{
    (void)state;
#ifdef WK_ISAL
    const char *quick = zlib_only ? "zlib" : "ISA-L";
#else
    const char *quick = "zlib";
#endif
    assert_string_equal(codec_name(1), quick);
    assert_string_equal(codec_name(3), quick);
    assert_string_equal(codec_name(4), "zlib");
    assert_string_equal(codec_name(9), "zlib");
}

static void round_trip(struct packer *p, const char *data, size_t len, bool noise)
{
    struct buf b = {0};
    assert_int_equal(packer_pack(p, data, len, &b), 0);
    expect_by_zlib(&b, data, len);
    expect(&b, data, len, b.len, len + 1);
    expect(&b, data, len, 4096, 3 * MIB);
    expect(&b, data, len, 131072, 65536);
    if (!noise && len > 1000)
        assert_true(b.len < len);
    buf_free(&b);
}

static void test_round_trip(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 100, 32767, 32768, 65535, 65536, MIB, MIB + 17};
    static const int levels[] = {1, 2, 3, 4, 6, 9};
    for (int noise = 0; noise < 2; noise++) {
        char *data = sample(MIB + 17, noise);
        for (size_t i = 0; i < COUNT(levels); i++) {
            struct packer *p = packer_new(levels[i]);
            assert_non_null(p);
            /* The slow levels are zlib's alone. */
            for (size_t j = 0; j < COUNT(sizes) - (levels[i] > 4 ? 2 : 0); j++)
                round_trip(p, data, sizes[j], noise);
            packer_free(p);
        }
        free(data);
    }
}

static void test_levels(void **state)
{
    (void)state;
    assert_null(packer_new(0));
    assert_null(packer_new(10));
    assert_null(packer_new(-1));
    packer_free(NULL);
    unpacker_free(NULL);
}

/* Members behind each other in one buffer, empty ones among them, in pieces of any size. */
static void test_members(void **state)
{
    (void)state;
    static const size_t lens[] = {0, 1, 5000, 0, 0, 70000, 3};
    char *data = sample(75004, false);
    struct buf b = {0};
    size_t total = 0;
    for (size_t i = 0; i < COUNT(lens); i++) {
        struct packer *p = packer_new(1 + (int)i % 5);
        assert_int_equal(packer_pack(p, data + total, lens[i], &b), 0);
        total += lens[i];
        packer_free(p);
    }
    assert_int_equal(total, 75004);
    static const size_t pieces[] = {1, 2, 7, 8, 9, 300, 4096, 1u << 20};
    for (size_t i = 0; i < COUNT(pieces); i++)
        for (size_t j = 0; j < COUNT(pieces); j++)
            expect(&b, data, total, pieces[i], pieces[j]);
    buf_free(&b);
    free(data);
}

/* The output is full where the member ends, or one byte before or behind it. */
static void test_full_at_the_end(void **state)
{
    (void)state;
    char *data = sample(100000, false);
    for (size_t len = 99990; len < 100000; len++) {
        struct packer *p = packer_new(1);
        struct buf b = {0};
        assert_int_equal(packer_pack(p, data, len, &b), 0);
        assert_int_equal(packer_pack(p, data, 1, &b), 0);
        char *both = xcalloc(len + 1, 1);
        memcpy(both, data, len);
        both[len] = data[0];
        for (size_t out = len - 1; out <= len + 1; out++) {
            expect(&b, both, len + 1, b.len, out);
            expect(&b, both, len + 1, 1000, out);
        }
        free(both);
        buf_free(&b);
        packer_free(p);
    }
    free(data);
}

/* ---- headers as others write them ---- */

static void with_header(struct buf *b, gz_header *h, const char *text)
{
    z_stream z = {0};
    unsigned char out[1000];
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflateSetHeader(&z, h), Z_OK);
    z.next_in = (unsigned char *)(uintptr_t)text;
    z.avail_in = (uInt)strlen(text);
    z.next_out = out;
    z.avail_out = sizeof out;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    buf_add(b, out, sizeof out - z.avail_out);
    deflateEnd(&z);
}

static void test_headers(void **state)
{
    (void)state;
    unsigned char name[] = "world.sql", comment[] = "by hand", extra[] = "AB\4\0abcd";
    for (unsigned bits = 0; bits < 32; bits++) {
        gz_header h = {.text = bits & 1, .hcrc = bits >> 1 & 1, .time = 77, .os = 3};
        h.extra = bits & 4 ? extra : NULL;
        h.extra_len = bits & 4 ? 8 : 0;
        h.name = bits & 8 ? name : NULL;
        h.comment = bits & 16 ? comment : NULL;
        struct buf b = {0}, out = {0};
        with_header(&b, &h, "one text\n");
        size_t first = b.len;
        with_header(&b, &h, "and another\n");
        for (size_t in = 1; in <= b.len; in++)
            expect(&b, "one text\nand another\n", 21, in, 100);
        for (size_t cut = 1; cut < first; cut++)
            assert_int_equal(unpack(b.p, cut, 100, 100, &out), -1);
        /* The header's own checksum covers what nothing else does. */
        for (size_t bit = 0; bits & 2 && bit < 8 * 10; bit++) {
            b.p[bit / 8] ^= (char)(1 << bit % 8);
            assert_int_equal(unpack(b.p, b.len, 100, 100, &out), -1);
            b.p[bit / 8] ^= (char)(1 << bit % 8);
        }
        buf_free(&b);
        buf_free(&out);
    }
}

/* An extra field that is there and empty. */
static void test_empty_extra(void **state)
{
    (void)state;
    struct buf plain = {0}, b = {0};
    gz_header none = {0};
    with_header(&plain, &none, "text");
    buf_add(&b, plain.p, 10);
    b.p[3] = 4;
    buf_add(&b, "\0", 2);
    buf_add(&b, plain.p + 10, plain.len - 10);
    expect(&b, "text", 4, 1, 1);
    expect(&b, "text", 4, 100, 100);
    buf_free(&plain);
    buf_free(&b);
}

static void test_bad_headers(void **state)
{
    (void)state;
    struct buf b = {0}, out = {0};
    gz_header none = {0};
    with_header(&b, &none, "text");
    static const struct {
        size_t at;
        unsigned char to;
    } bad[] = {{0, 0}, {0, 0x1e}, {1, 0},    {1, 0x8a}, {2, 0},
               {2, 7}, {2, 9},    {3, 0x20}, {3, 0x40}, {3, 0x80}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        char was = b.p[bad[i].at];
        b.p[bad[i].at] = (char)bad[i].to;
        assert_int_equal(unpack(b.p, b.len, 1, 1, &out), -1);
        assert_int_equal(unpack(b.p, b.len, 100, 100, &out), -1);
        assert_int_equal(out.len, 0);
        b.p[bad[i].at] = was;
    }
    buf_free(&b);
    buf_free(&out);
}

/* ---- damage ---- */

/* Members with blocks of each kind, from both libraries: tables of their own, fixed ones, stored.
 */
static void small_file(struct buf *b, struct buf *text)
{
    char *noise = sample(150, true);
    static const char sql[] = "INSERT INTO `users` (`id`,`name`) VALUES\n(1,'orc'),\n(2,'troll'),"
                              "\n(3,'orc'),\n(4,'elf'),\n(5,'troll'),\n(6,'orc');\n";
    for (int level = 1; level <= 6; level += 5) {
        struct packer *p = packer_new(level);
        packer_pack(p, sql, strlen(sql), b);
        packer_pack(p, "-- end\n", 7, b);
        packer_pack(p, noise, 150, b);
        packer_free(p);
        buf_adds(text, sql);
        buf_adds(text, "-- end\n");
        buf_add(text, noise, 150);
    }
    free(noise);
}

/* A header's time and system mean nothing; what stands behind the last block, up to the next whole
 * byte, is padding; and a code that no byte uses may change. All else is noticed, and what passes
 * is the same text in each case. */
static void test_flipped_bits(void **state)
{
    (void)state;
    struct buf b = {0}, text = {0}, out = {0};
    size_t unseen = 0;
    small_file(&b, &text);
    expect(&b, text.p, text.len, 1, 1);
    for (size_t bit = 0; bit < 8 * b.len; bit++) {
        b.p[bit / 8] ^= (char)(1 << bit % 8);
        static const size_t pieces[] = {1, 5, 4096};
        int first = 0;
        for (size_t i = 0; i < COUNT(pieces); i++) {
            int rc = unpack(b.p, b.len, pieces[i], 4096, &out);
            if (i == 0)
                first = rc;
            assert_int_equal(rc, first); /* however it is read */
            if (rc == 0) {
                assert_int_equal(out.len, text.len);
                assert_memory_equal(out.p, text.p, text.len);
            }
        }
        unseen += first == 0;
        b.p[bit / 8] ^= (char)(1 << bit % 8);
    }
    /* 49: six bytes of each header, and the flag that says "text" */
    assert_in_range(unseen, 6 * 49, 6 * (49 + 8));
    buf_free(&b);
    buf_free(&text);
    buf_free(&out);
}

static void test_cut(void **state)
{
    (void)state;
    struct buf b = {0}, text = {0}, out = {0};
    size_t whole = 0;
    small_file(&b, &text);
    for (size_t cut = 1; cut < b.len; cut++) {
        int rc = unpack(b.p, cut, 4096, 4096, &out);
        assert_int_equal(unpack(b.p, cut, 1, 1, &out), rc);
        whole += rc == 0;
        assert_memory_equal(out.p, text.p, out.len);
    }
    assert_int_equal(whole, 5); /* between two members */
    buf_free(&b);
    buf_free(&text);
    buf_free(&out);
}

/* Bytes that were never packed: whatever comes of them, it ends. */
static void test_noise(void **state)
{
    (void)state;
    char *noise = sample(20000, true);
    struct buf b = {0}, out = {0};
    for (size_t i = 0; i + 300 < 20000; i += 37) {
        buf_clear(&b);
        buf_add(&b, "\x1f\x8b\x08\0\0\0\0\0\0\3", 10);
        buf_add(&b, noise + i, 300);
        assert_int_equal(unpack(b.p, b.len, 1 + i % 50, 1 + i % 3000, &out), -1);
    }
    buf_free(&b);
    buf_free(&out);
    free(noise);
}

/* The same CRC-32 as zlib's, in one piece or in many, at every length and place of a buffer. */
static void test_crc(void **state)
{
    (void)state;
    unsigned char data[600];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 131 + 7);
    for (size_t from = 0; from < 9; from++)
        for (size_t len = 0; from + len <= sizeof data; len++) {
            uint32_t want = (uint32_t)crc32_z(0, data + from, len);
            size_t half = len / 3;
            assert_int_equal(codec_crc32(0, data + from, len), want);
            uint32_t first = codec_crc32(0, data + from, half);
            assert_int_equal(codec_crc32(first, data + from + half, len - half), want);
        }
}

/* Returns whether the upper halves of the AVX registers have values; false if the processor does
 * not tell. */
static bool upper_in_use(void)
{
#ifdef __x86_64__
    const unsigned osxsave = 1u << 27, xgetbv_1 = 1u << 2, avx = 1u << 2;
    unsigned a, b, c, d, in_use;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & osxsave) ||
        !__get_cpuid_count(0xd, 1, &a, &b, &c, &d) || !(a & xgetbv_1))
        return false;
    __asm__ volatile("xgetbv" : "=a"(in_use), "=d"(d) : "c"(1));
    return in_use & avx;
#else
    return false;
#endif
}

/* Values that stay there make all SSE code of the thread slow. */
static void test_upper_halves_are_clear(void **state)
{
    (void)state;
    static unsigned char data[100000], out[sizeof data];
    SCOPED(buf_free) struct buf b = {0};
#ifdef __x86_64__
    if (upper_in_use()) /* since an earlier test */
        __asm__ volatile("vzeroupper");
#endif
    codec_crc32(0, data, sizeof data);
    assert_false(upper_in_use());
    struct packer *p = packer_new(1);
    assert_int_equal(packer_pack(p, data, sizeof data, &b), 0);
    assert_false(upper_in_use());
    packer_free(p);
    struct unpacker *u = unpacker_new();
    struct codec_io io = {
        .in = (unsigned char *)b.p, .in_len = b.len, .out = out, .out_len = sizeof out};
    unpacker_run(u, &io);
    assert_false(upper_in_use());
    unpacker_free(u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_full_at_the_end),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_empty_extra),
        cmocka_unit_test(test_bad_headers),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_crc),
        cmocka_unit_test(test_upper_halves_are_clear),
    };
    /* Which libraries there are is asked once in a process. */
    pid_t pid = fork();
    if (pid == 0) {
        zlib_only = true;
        exit(cmocka_run_group_tests_name("with zlib only", tests, NULL, NULL));
    }
    int status = 1;
    bool good = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
    return cmocka_run_group_tests(tests, NULL, NULL) || !good;
}
