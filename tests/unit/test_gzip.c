/* core/gzip: what was written comes back with the same counts and the same SHA-256, and nothing
 * else is ever taken for it: cut, flipped, empty, no gzip, or with something behind it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <openssl/evp.h>

#include "core/gzip.h"
#include "core/text.h"
#include "dir_kit.h"

#define CHUNK 131072u /* what the reader and the writer take at a time */

static void sha_of(const void *data, size_t len, char out[SHA256_HEX])
{
    unsigned char md[EVP_MAX_MD_SIZE];
    assert_int_equal(EVP_Digest(data, len, md, NULL, EVP_sha256(), NULL), 1);
    text_hex(md, 32, out);
}

/* Bytes that do not pack, or text that does. */
static char *sample(size_t len, bool noise)
{
    char *p = xcalloc(len + 1, 1);
    uint64_t x = UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < len; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        p[i] = noise ? (char)x : "(1,'orc'),\n"[i % 11];
    }
    return p;
}

/* Everything from the present place of `fd`: 0 and its bytes, or -1. */
static int read_all(int fd, size_t step, struct buf *out, char sha[SHA256_HEX], uint64_t *packed,
                    struct err *e)
{
    struct gunzip *g = gunzip_open(fd, "it", e);
    assert_non_null(g);
    int64_t n;
    do {
        buf_reserve(out, step);
        n = gunzip_read(g, out->p + out->len, step, e);
        out->len += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    if (n == 0) {
        assert_int_equal(gunzip_plain_bytes(g), out->len);
        assert_int_equal(gunzip_read(g, out->p, step, e), 0); /* and stays at the end */
        *packed = gunzip_packed_bytes(g);
        gunzip_sha256(g, sha);
    } else { /* and stays damaged */
        struct err again = {0};
        assert_int_equal(gunzip_read(g, out->p, 1, &again), -1);
        assert_int_equal(again.cls, e->cls);
        assert_string_equal(again.text, e->text);
    }
    gunzip_close(g);
    return (int)n;
}

static int read_file(const char *name, size_t step, struct buf *out, char sha[SHA256_HEX],
                     struct err *e)
{
    uint64_t packed = 0;
    size_t size = 0;
    char *raw = kit_get(name, &size);
    int fd = openat(kit_dir, name, O_RDONLY | O_CLOEXEC);
    int rc = read_all(fd, step, out, sha, &packed, e);
    if (rc == 0) {
        char want[SHA256_HEX];
        sha_of(raw, size, want);
        assert_string_equal(sha, want);
        assert_int_equal(packed, size);
    }
    close(fd);
    free(raw);
    return rc;
}

static void round_trip(const char *data, size_t len, int level, size_t step)
{
    struct err e = {0};
    char sha[SHA256_HEX], again[SHA256_HEX];
    int fd = kit_create("f");
    struct gzip_writer *g = gzip_open(fd, "f", level, &e);
    assert_non_null(g);
    for (size_t at = 0; at < len; at += step)
        assert_int_equal(gzip_write(g, data + at, len - at < step ? len - at : step, &e), 0);
    assert_int_equal(gzip_member_end(g, &e), 0);
    assert_int_equal(gzip_plain_bytes(g), len);
    uint64_t packed = gzip_packed_bytes(g);
    assert_int_equal(gzip_close(g, sha, &e), 0);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), packed);
    close(fd);
    struct buf b = {0};
    if (read_file("f", step, &b, again, &e) < 0)
        fail_msg("%zu bytes, level %d: %s", len, level, e.text);
    assert_int_equal(b.len, len);
    assert_memory_equal(b.p, data, len);
    assert_string_equal(sha, again);
    buf_free(&b);
}

static void test_round_trip(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 1000, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 17};
    for (int noise = 0; noise < 2; noise++) {
        char *data = sample(3 * CHUNK + 17, noise);
        for (size_t i = 0; i < COUNT(sizes); i++) {
            round_trip(data, sizes[i], 1, sizes[i]);
            round_trip(data, sizes[i], 6, 4096);
            round_trip(data, sizes[i], 9, CHUNK);
        }
        round_trip(data, 3000, 5, 1);
        free(data);
    }
}

/* Each member can be read on its own from the offset that was told; all together are the file. */
static void test_members(void **state)
{
    (void)state;
    struct err e = {0};
    char sha[SHA256_HEX];
    char *data = sample(CHUNK, true);
    static const size_t lens[] = {10, 1, CHUNK, 500, 7};
    uint64_t offset[COUNT(lens)], total = 0;
    int fd = kit_create("f");
    struct gzip_writer *g = gzip_open(fd, "f", 6, &e);
    for (size_t i = 0; i < COUNT(lens); i++) {
        offset[i] = gzip_packed_bytes(g);
        assert_int_equal(gzip_write(g, data, lens[i], &e), 0);
        assert_int_equal(gzip_member_end(g, &e), 0);
        assert_int_equal(gzip_member_end(g, &e), 0); /* nothing is open: no empty one comes of it */
        total += lens[i];
    }
    assert_int_equal(gzip_close(g, sha, &e), 0);
    for (size_t i = 0; i < COUNT(lens); i++) {
        struct buf b = {0};
        uint64_t packed = 0;
        lseek(fd, (off_t)offset[i], SEEK_SET);
        assert_int_equal(read_all(fd, 1000, &b, sha, &packed, &e), 0);
        assert_int_equal(b.len, total);
        assert_memory_equal(b.p, data, lens[i]);
        total -= lens[i];
        buf_free(&b);
    }
    close(fd);
    free(data);
}

/* A member of nothing is one all the same. */
static void test_empty_member(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf b = {0};
    char sha[SHA256_HEX];
    int fd = kit_create("f");
    struct gzip_writer *g = gzip_open(fd, "f", 6, &e);
    assert_int_equal(gzip_write(g, "", 0, &e), 0);
    assert_int_equal(gzip_member_end(g, &e), 0);
    assert_int_equal(gzip_write(g, "abc", 3, &e), 0);
    assert_int_equal(gzip_close(g, sha, &e), 0);
    close(fd);
    assert_int_equal(read_file("f", 100, &b, sha, &e), 0);
    assert_int_equal(b.len, 3);
    buf_free(&b);
}

/* A file with nothing written to it is no gzip. */
static void test_nothing(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf b = {0};
    char sha[SHA256_HEX], want[SHA256_HEX];
    int fd = kit_create("f");
    struct gzip_writer *g = gzip_open(fd, "f", 6, &e);
    assert_int_equal(gzip_close(g, sha, &e), 0);
    sha_of("", 0, want);
    assert_string_equal(sha, want);
    close(fd);
    assert_int_equal(read_file("f", 100, &b, sha, &e), -1);
    assert_int_equal(e.cls, ERR_DAMAGED);
    assert_string_equal(e.text, "it is empty");
    buf_free(&b);
}

/* ---- damage ---- */

#define FIRST "INSERT INTO `users` (`id`,`name`) VALUES\n(1,'orc'),\n(2,'troll');\n"
#define SECOND "-- worldkeeper end tables=1 rows=2\n"

static char *small_file(size_t *len, size_t *first)
{
    struct err e = {0};
    char sha[SHA256_HEX];
    int fd = kit_create("small");
    struct gzip_writer *g = gzip_open(fd, "small", 6, &e);
    assert_int_equal(gzip_write(g, FIRST, strlen(FIRST), &e), 0);
    assert_int_equal(gzip_member_end(g, &e), 0);
    *first = (size_t)gzip_packed_bytes(g);
    assert_int_equal(gzip_write(g, SECOND, strlen(SECOND), &e), 0);
    assert_int_equal(gzip_close(g, sha, &e), 0);
    close(fd);
    return kit_get("small", len);
}

static int read_bytes(const char *data, size_t len, struct buf *b, char sha[SHA256_HEX],
                      struct err *e)
{
    kit_put("f", data, len);
    buf_clear(b);
    return read_file("f", 7, b, sha, e);
}

/* Only behind a whole member can a cut go unseen here: the trailer and the manifest are for that.
 */
static void test_cut(void **state)
{
    (void)state;
    size_t len = 0, first = 1;
    char *data = small_file(&len, &first), sha[SHA256_HEX];
    struct buf b = {0};
    for (size_t cut = 0; cut < len; cut++) {
        struct err e = {0};
        int rc = read_bytes(data, cut, &b, sha, &e);
        if (cut == first) {
            assert_int_equal(rc, 0);
            assert_int_equal(b.len, strlen(FIRST));
            continue;
        }
        assert_int_equal(rc, -1);
        assert_int_equal(e.cls, ERR_DAMAGED);
        if (cut == 0)
            assert_string_equal(e.text, "it is empty");
        else if (cut != 1 && cut != first + 1) /* of one byte zlib cannot tell what it begins */
            assert_non_null(strstr(e.text, "it: cut short near byte "));
    }
    buf_free(&b);
    free(data);
}

/* No checksum covers the time and the system in a member's header, and the padding behind its last
 * block: the text is the same then, and the SHA-256 is not. */
static void test_flipped_bits(void **state)
{
    (void)state;
    size_t len = 0, first = 1, unseen = 0;
    char *data = small_file(&len, &first), sha[SHA256_HEX], whole[SHA256_HEX];
    struct buf b = {0};
    sha_of(data, len, whole);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        struct err e = {0};
        data[bit / 8] ^= (char)(1 << bit % 8);
        if (read_bytes(data, len, &b, sha, &e) < 0) {
            assert_int_equal(e.cls, ERR_DAMAGED);
        } else {
            unseen++;
            assert_int_equal(b.len, strlen(FIRST SECOND));
            assert_memory_equal(b.p, FIRST SECOND, b.len);
            assert_string_not_equal(sha, whole);
        }
        data[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_in_range(unseen, 2 * 6 * 8, 2 * 8 * 8);
    buf_free(&b);
    free(data);
}

static void test_garbage(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
    } tails[] = {{"\0", 1},          {"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20},
                 {"\n", 1},          {"\x1f", 1},
                 {"\x1f\x8b", 2},    {"\x1f\x8b\x08\0\0\0\0\0\0\x03", 10},
                 {"SELECT 1;\n", 10}};
    size_t len = 0, first = 1;
    char *data = small_file(&len, &first), sha[SHA256_HEX];
    struct buf b = {0}, file = {0};
    for (size_t i = 0; i < COUNT(tails); i++) {
        struct err e = {0};
        buf_clear(&file);
        buf_add(&file, data, len);
        buf_add(&file, tails[i].text, tails[i].len);
        assert_int_equal(read_bytes(file.p, file.len, &b, sha, &e), -1); /* behind */
        assert_int_equal(e.cls, ERR_DAMAGED);
        assert_int_equal(read_bytes(tails[i].text, tails[i].len, &b, sha, &e), -1); /* alone */
        assert_int_equal(e.cls, ERR_DAMAGED);
        buf_clear(&file);
        buf_add(&file, tails[i].text, tails[i].len);
        buf_add(&file, data, len);
        assert_int_equal(read_bytes(file.p, file.len, &b, sha, &e), -1); /* in front */
        assert_int_equal(e.cls, ERR_DAMAGED);
    }
    buf_free(&b);
    buf_free(&file);
    free(data);
}

/* ---- where it comes from, where it goes ---- */

static void test_plain_file(void **state)
{
    (void)state;
    struct err e = {0};
    char *data = sample(CHUNK + 5, true), *got = xcalloc(CHUNK, 1);
    char sha[SHA256_HEX], want[SHA256_HEX];
    static const size_t sizes[] = {0, 1, CHUNK + 5};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        kit_put("p", data, sizes[i]);
        int fd = openat(kit_dir, "p", O_RDONLY | O_CLOEXEC);
        struct gunzip *g = gunzip_open_plain(fd, "p", &e);
        size_t len = 0;
        int64_t n;
        while ((n = gunzip_read(g, got, 1000, &e)) > 0) {
            assert_memory_equal(got, data + len, (size_t)n);
            len += (size_t)n;
        }
        assert_int_equal(n, 0);
        assert_int_equal(len, sizes[i]);
        assert_int_equal(gunzip_plain_bytes(g), len);
        assert_int_equal(gunzip_packed_bytes(g), len);
        gunzip_sha256(g, sha);
        sha_of(data, len, want);
        assert_string_equal(sha, want);
        gunzip_close(g);
        close(fd);
    }
    free(data);
    free(got);
}

/* Packets of a pipe: the packed bytes come one by one. */
static void test_slow_source(void **state)
{
    (void)state;
    size_t len = 0, first = 1, done = 0;
    uint64_t packed = 0;
    struct err e = {0};
    struct buf b = {0};
    char *data = small_file(&len, &first), sha[SHA256_HEX];
    int ends[2];
    assert_int_equal(pipe2(ends, O_DIRECT | O_CLOEXEC), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) >= 1 << 20);
    for (; done < len; done++)
        assert_int_equal(write(ends[1], data + done, 1), 1);
    close(ends[1]);
    assert_int_equal(read_all(ends[0], 1000, &b, sha, &packed, &e), 0);
    assert_int_equal(packed, len);
    assert_int_equal(b.len, strlen(FIRST SECOND));
    close(ends[0]);
    buf_free(&b);
    free(data);
}

static void test_read_fails(void **state)
{
    (void)state;
    struct err e = {0};
    char c;
    struct gunzip *g = gunzip_open(kit_dir, "it", &e);
    assert_int_equal(gunzip_read(g, &c, 1, &e), -1);
    assert_int_equal(e.cls, ERR_SYSTEM);
    assert_string_equal(e.text, "cannot read it: Is a directory");
    gunzip_close(g);
    int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC); /* page 0 is not there: EIO */
    g = gunzip_open(fd, "it", &e);
    assert_int_equal(gunzip_read(g, &c, 1, &e), -1);
    assert_int_equal(e.num, EIO);
    assert_int_equal(e.cls, ERR_DAMAGED);
    gunzip_close(g);
    close(fd);
}

static void test_write_fails(void **state)
{
    (void)state;
    struct err e = {0};
    char *data = sample(2 * CHUNK, true), sha[SHA256_HEX] = "-";
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    struct gzip_writer *g = gzip_open(fd, "f", 1, &e);
    assert_int_equal(gzip_write(g, data, 2 * CHUNK, &e), -1);
    assert_int_equal(e.cls, ERR_NOSPACE);
    assert_string_equal(e.text, "cannot write f: No space left on device");
    err_clear(&e);
    assert_int_equal(gzip_write(g, "x", 1, &e), -1);
    assert_int_equal(e.cls, ERR_NOSPACE);
    err_clear(&e);
    assert_int_equal(gzip_member_end(g, &e), -1);
    assert_int_equal(e.cls, ERR_NOSPACE);
    assert_int_equal(gzip_close(g, sha, NULL), -1);
    assert_string_equal(sha, "-");
    /* Little data: the first write to the file is the last act. */
    g = gzip_open(fd, "f", 1, &e);
    assert_int_equal(gzip_write(g, "x", 1, &e), 0);
    err_clear(&e);
    assert_int_equal(gzip_close(g, sha, &e), -1);
    assert_int_equal(e.cls, ERR_NOSPACE);
    gzip_abort(gzip_open(fd, "f", 1, &e));
    gzip_abort(NULL);
    gunzip_close(NULL);
    assert_null(gzip_open(fd, "f", 10, &e));
    assert_string_equal(e.text, "cannot set up compression of f");
    close(fd);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_round_trip, kit_clean),
        cmocka_unit_test_teardown(test_members, kit_clean),
        cmocka_unit_test_teardown(test_empty_member, kit_clean),
        cmocka_unit_test_teardown(test_nothing, kit_clean),
        cmocka_unit_test_teardown(test_cut, kit_clean),
        cmocka_unit_test_teardown(test_flipped_bits, kit_clean),
        cmocka_unit_test_teardown(test_garbage, kit_clean),
        cmocka_unit_test_teardown(test_plain_file, kit_clean),
        cmocka_unit_test_teardown(test_slow_source, kit_clean),
        cmocka_unit_test(test_read_fails),
        cmocka_unit_test(test_write_fails),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
