/* base/gzip: what was written comes back in its order with the same counts and the same SHA-256,
 * and nothing else is ever taken for it: cut, flipped, empty, no gzip, or with something behind it.
 * Errors come out of the packing threads and stick. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <signal.h>

#include "base/arrival.h"
#include "base/gunzip.h"
#include "base/gzip.h"
#include "base/text.h"
#include "dice_kit.h"
#include "dir_kit.h"
#include "sample_kit.h"

#define CHUNK 131072u /* what the reader takes at a time */

/* Stands before the system's: so many more threads can be started. */
static int threads_left = 1000;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real) {
        void *p = dlsym(RTLD_NEXT, "pthread_create");
        memcpy(&real, &p, sizeof p);
    }
    return threads_left-- > 0 ? real(thread, attr, fn, arg) : EAGAIN;
}

static void sha_of(const void *data, size_t len, char out[SHA256_HEX])
{
    unsigned char md[EVP_MAX_MD_SIZE];
    assert_int_equal(EVP_Digest(data, len, md, NULL, EVP_sha256(), NULL), 1);
    text_hex(md, 32, out);
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

/* A member of just that. */
static void give(struct gzip_writer *g, const char *data, size_t len)
{
    struct err e = {0};
    struct buf text = {0};
    buf_add(&text, data, len);
    assert_int_equal(gzip_give(g, 0, &text, &e), 0);
    buf_free(&text);
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
    assert_int_equal(gzip_plain_bytes(g), len);
    assert_int_equal(gzip_close(g, sha, &e), 0);
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
    static const size_t sizes[] = {1,
                                   2,
                                   1000,
                                   CHUNK - 1,
                                   CHUNK,
                                   CHUNK + 1,
                                   GZIP_MEMBER,
                                   GZIP_MEMBER + 1,
                                   3 * GZIP_MEMBER + 17};
    for (int noise = 0; noise < 2; noise++) {
        char *data = sample(3 * GZIP_MEMBER + 17, noise);
        for (size_t i = 0; i < COUNT(sizes); i++) {
            round_trip(data, sizes[i], 1, sizes[i]);
            round_trip(data, sizes[i], 4, 4096);
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
        assert_int_equal(gzip_flush(g, &e), 0);
        offset[i] = gzip_packed_bytes(g);
        give(g, data, lens[i]); /* nothing is open: no empty one comes before it */
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
    give(g, "abc", 3);
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
    give(g, FIRST, strlen(FIRST));
    assert_int_equal(gzip_flush(g, &e), 0);
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
        else if (cut != 1 && cut != first + 1) /* of one byte it may be told that it is no gzip */
            assert_non_null(strstr(e.text, "it: cut short near byte "));
    }
    buf_free(&b);
    free(data);
}

/* No checksum covers the time and the system in a member's header, the padding behind its last
 * block, and a code that no byte uses: the text is the same then, and the SHA-256 is not. */
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

/* ---- members that are given ---- */

struct seen {
    uint64_t tag, offset, packed, plain;
};
struct book {
    struct seen list[1000];
    size_t count;
};

static void note(void *arg, const struct gzip_member *m)
{
    struct book *b = arg;
    assert_true(b->count < COUNT(b->list));
    b->list[b->count++] = (struct seen){m->tag, m->offset, m->packed_len, m->plain};
}

static struct gunzip *open_part(int fd, const struct seen *from, const struct seen *to)
{
    struct err e = {0};
    struct gunzip *g =
        gunzip_open_part(fd, "it", from->offset, to->offset + to->packed - from->offset, &e);
    assert_non_null(g);
    return g;
}

static void expect_part(int fd, const struct seen *from, const struct seen *to, const char *text,
                        size_t len)
{
    struct err e = {0};
    char *got = xcalloc(len + 1, 1), sha[SHA256_HEX] = "-";
    struct gunzip *g = open_part(fd, from, to);
    int64_t n = gunzip_read(g, got, len + 1, &e);
    if (n < 0)
        fail_msg("%s", e.text);
    assert_int_equal(n, len);
    assert_memory_equal(got, text, len);
    assert_int_equal(gunzip_read(g, got, 1, &e), 0);
    assert_int_equal(gunzip_plain_bytes(g), len);
    assert_int_equal(gunzip_packed_bytes(g), to->offset + to->packed - from->offset);
    gunzip_sha256(g, sha);
    assert_string_equal(sha, "");
    gunzip_close(g);
    free(got);
}

/* Texts that take long to pack stand before ones that take no time: who is ready first must wait.
 * What is gathered in between keeps its place. */
static void order(int level, size_t members)
{
    struct err e = {0};
    char sha[SHA256_HEX], again[SHA256_HEX];
    struct book book = {.count = 0};
    struct buf all = {0}, text = {0}, back = {0};
    char *noise = sample(300000, true), *sql = sample(300000, false);
    uint64_t tags[1000], at[1000];
    size_t n = 0;
    int fd = kit_create("f");
    struct gzip_writer *g = gzip_open(fd, "f", level, &e);
    gzip_on_member(g, note, &book);
    for (size_t i = 0; i < members; i++) {
        size_t len = i % 5 == 0 ? 300000 - i : i % 3 + 1;
        const char *from = i % 2 ? noise : sql;
        if (i % 7 == 6) {
            assert_int_equal(gzip_write(g, "-- between\n", 11, &e), 0);
            at[n] = all.len;
            tags[n++] = 0;
            buf_adds(&all, "-- between\n");
        }
        buf_add(&text, from, len);
        at[n] = all.len;
        tags[n++] = i + 1;
        buf_add(&all, from, len);
        assert_int_equal(gzip_give(g, i + 1, &text, &e), 0);
        assert_int_equal(text.len, 0);
        assert_true(text.p && text.cap > GZIP_MEMBER);
        assert_int_equal(gzip_plain_bytes(g), all.len);
    }
    assert_int_equal(gzip_flush(g, &e), 0);
    assert_int_equal(gzip_flush(g, &e), 0);
    assert_int_equal(gzip_packed_bytes(g), lseek(fd, 0, SEEK_CUR));
    assert_int_equal(gzip_close(g, sha, &e), 0);
    assert_int_equal(read_file("f", 100000, &back, again, &e), 0);
    assert_string_equal(sha, again);
    assert_int_equal(back.len, all.len);
    assert_memory_equal(back.p, all.p, all.len);
    assert_int_equal(book.count, n);
    uint64_t offset = 0;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(book.list[i].tag, tags[i]);
        assert_int_equal(book.list[i].offset, offset);
        assert_int_equal(book.list[i].plain, (i + 1 < n ? at[i + 1] : all.len) - at[i]);
        expect_part(fd, &book.list[i], &book.list[i], all.p + at[i], book.list[i].plain);
        offset += book.list[i].packed;
    }
    assert_int_equal(lseek(fd, 0, SEEK_CUR), offset); /* reading parts left it where it was */
    expect_part(fd, &book.list[0], &book.list[n - 1], all.p, all.len);
    expect_part(fd, &book.list[n / 2], &book.list[n - 1], all.p + at[n / 2], all.len - at[n / 2]);
    close(fd);
    buf_free(&all);
    buf_free(&text);
    buf_free(&back);
    free(noise);
    free(sql);
}

static void test_order(void **state)
{
    (void)state;
    order(1, 200);
    order(3, 30);
    order(6, 30);
}

/* Where the system gives no threads, or too few, the file is the same. */
static void test_without_threads(void **state)
{
    (void)state;
    char *first = NULL;
    size_t len = 0;
    for (int left = 1; left >= 0; left--) {
        threads_left = left;
        order(1, 50);
        char *file = kit_get("f", &len);
        if (first)
            assert_memory_equal(file, first, len);
        free(first);
        first = file;
    }
    threads_left = 0;
    struct err e = {0};
    struct buf text = {0};
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    struct gzip_writer *g = gzip_open(fd, "f", 1, &e);
    buf_adds(&text, "x");
    for (int i = 0; i < 2; i++) {
        err_clear(&e);
        assert_int_equal(gzip_give(g, 1, &text, &e), -1);
        assert_int_equal(e.cls, ERR_NOSPACE);
    }
    gzip_abort(g);
    close(fd);
    threads_left = 1000;
    buf_free(&text);
    free(first);
}

/* As large as a real one, and what the system's own program makes of it. */
static void test_by_gunzip(void **state)
{
    (void)state;
    struct err e = {0};
    char sha[SHA256_HEX], command[200], *sql = sample(GZIP_MEMBER, false);
    char *got = xcalloc(GZIP_MEMBER, 1);
    struct buf text = {0};
    uint64_t members = dice_rounds(200);
    int fd = kit_create("f.gz");
    struct gzip_writer *g = gzip_open(fd, "f.gz", 1, &e);
    for (uint64_t i = 0; i < members; i++) {
        memcpy(sql + 5000 * i, &i, sizeof i);
        buf_add(&text, sql, GZIP_MEMBER);
        assert_int_equal(gzip_give(g, i, &text, &e), 0);
    }
    assert_int_equal(gzip_close(g, sha, &e), 0);
    close(fd);
    free(sql);
    sql = sample(GZIP_MEMBER, false);
    snprintf(command, sizeof command, "gunzip -c %s/f.gz", kit_path);
    FILE *f = popen(command, "r"); /* NOLINT(cert-env33-c) */
    assert_non_null(f);
    for (uint64_t i = 0; i < members; i++) {
        memcpy(sql + 5000 * i, &i, sizeof i);
        assert_int_equal(fread(got, 1, GZIP_MEMBER, f), GZIP_MEMBER);
        assert_memory_equal(got, sql, GZIP_MEMBER);
    }
    assert_int_equal(fread(got, 1, 1, f), 0);
    assert_int_equal(pclose(f), 0);
    buf_free(&text);
    free(sql);
    free(got);
}

/* A text that is longer than all that may be on its way goes alone. */
static void test_long_text(void **state)
{
    (void)state;
    struct err e = {0};
    char sha[SHA256_HEX], again[SHA256_HEX];
    size_t len = (40u << 20) + 1;
    char *data = sample(len, false);
    struct buf text = {0}, back = {0};
    int fd = kit_create("f");
    struct gzip_writer *g = gzip_open(fd, "f", 1, &e);
    for (int i = 0; i < 2; i++) {
        buf_adds(&text, "short");
        assert_int_equal(gzip_give(g, 1, &text, &e), 0);
        buf_add(&text, data, len);
        assert_int_equal(gzip_give(g, 2, &text, &e), 0);
        assert_true(text.cap <= 4u << 20); /* and its memory is not kept */
    }
    assert_int_equal(gzip_close(g, sha, &e), 0);
    close(fd);
    assert_int_equal(read_file("f", 1u << 20, &back, again, &e), 0);
    assert_string_equal(sha, again);
    assert_int_equal(back.len, 2 * (len + 5));
    assert_memory_equal(back.p + len + 10, data, len);
    buf_free(&text);
    buf_free(&back);
    free(data);
}

/* ---- parts, and files that grow ---- */

static void expect_bad_part(int fd, uint64_t offset, uint64_t length, const char *why)
{
    struct err e = {0};
    char got[4096];
    int64_t n;
    struct gunzip *g = gunzip_open_part(fd, "it", offset, length, &e);
    while ((n = gunzip_read(g, got, sizeof got, &e)) > 0)
        ;
    assert_int_equal(n, -1);
    assert_int_equal(e.cls, ERR_DAMAGED);
    if (!strstr(e.text, why))
        fail_msg("%s", e.text);
    assert_int_equal(gunzip_read(g, got, 1, &e), -1);
    gunzip_close(g);
}

static void test_parts(void **state)
{
    (void)state;
    size_t len = 0, first = 0;
    char *data = small_file(&len, &first), where[60], a[5], b[5];
    struct err e = {0};
    int fd = openat(kit_dir, "small", O_RDONLY | O_CLOEXEC);
    struct seen one = {0, 0, first, 0}, two = {0, first, len - first, 0};
    expect_part(fd, &one, &one, FIRST, strlen(FIRST));
    expect_part(fd, &two, &two, SECOND, strlen(SECOND));
    expect_part(fd, &one, &two, FIRST SECOND, strlen(FIRST SECOND));
    for (size_t cut = 1; cut < first; cut++) {
        snprintf(where, sizeof where,
                 "a gzip member extends beyond the end of the file near byte %zu", cut);
        expect_bad_part(fd, 0, cut, cut == 1 ? "" : where);
    }
    snprintf(where, sizeof where, "a gzip member extends beyond the end of the file near byte %zu",
             len - 1);
    expect_bad_part(fd, first, len - first - 1, where);
    expect_bad_part(fd, 1, first - 1, "near byte ");
    snprintf(where, sizeof where, "cut short near byte %zu", len);
    expect_bad_part(fd, 0, len + 1, where);
    expect_bad_part(fd, first, len, where);
    expect_bad_part(fd, len, 1, where);
    struct gunzip *none = gunzip_open_part(fd, "it", first, 0, &e);
    assert_int_equal(gunzip_read(none, a, 5, &e), 0);
    gunzip_close(none);
    /* Two of one file by turns. */
    struct gunzip *x = open_part(fd, &one, &one), *y = open_part(fd, &two, &two);
    for (size_t i = 0; i + 5 <= strlen(SECOND); i += 5) {
        assert_int_equal(gunzip_read(x, a, 5, &e), 5);
        assert_int_equal(gunzip_read(y, b, 5, &e), 5);
        assert_memory_equal(a, FIRST + i, 5);
        assert_memory_equal(b, SECOND + i, 5);
    }
    gunzip_close(x);
    gunzip_close(y);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    close(fd);
    free(data);
}

/* Parts of `bytes` bytes of what `data` was. */
struct proofs {
    const char *data;
    size_t len;
    uint32_t bytes;
    unsigned asked;
};

static void prove(void *arg, uint64_t from, struct gunzip_part *part)
{
    struct proofs *p = arg;
    size_t left = p->len - (size_t)from;
    p->asked++;
    part->length = left < p->bytes ? (uint32_t)left : p->bytes;
    assert_int_equal(
        EVP_Digest(p->data + from, part->length, part->sha256, NULL, EVP_sha256(), NULL), 1);
}

/* How many bytes of text come out of "small" before it ends; -1 in *rc where it ends badly. */
static size_t read_proven(struct proofs *p, bool plain, int64_t *rc, struct err *e)
{
    char got[7];
    size_t len = 0;
    int fd = openat(kit_dir, "small", O_RDONLY | O_CLOEXEC);
    struct gunzip *g = plain ? gunzip_open_plain(fd, "it", e) : gunzip_open(fd, "it", e);
    gunzip_prove(g, prove, p);
    while ((*rc = gunzip_read(g, got, sizeof got, e)) > 0)
        len += (size_t)*rc;
    gunzip_close(g);
    close(fd);
    return len;
}

/* Of a part in which a bit is another one nothing comes out, whatever stands in it. */
static void test_proven_first(void **state)
{
    (void)state;
    size_t len = 0, first = 0;
    char *data = small_file(&len, &first);
    int64_t rc;
    static const uint32_t sizes[] = {1, 7, 64, 100000};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct err e = {0};
        struct proofs p = {.data = data, .len = len, .bytes = sizes[i]};
        assert_int_equal(read_proven(&p, false, &rc, &e), strlen(FIRST SECOND));
        assert_int_equal(rc, 0);
        assert_int_equal(p.asked, (len + sizes[i] - 1) / sizes[i] + 1);
        for (size_t at = 0; at < len; at++) {
            char *other = xcalloc(len, 1);
            memcpy(other, data, len);
            other[at] ^= 1;
            kit_put("small", other, len);
            err_clear(&e);
            assert_int_equal(read_proven(&p, true, &rc, &e), at - at % sizes[i]);
            assert_int_equal(rc, -1);
            assert_int_equal(e.cls, ERR_DAMAGED);
            if (!strstr(e.text, "it: its SHA-256 does not match the manifest between byte"))
                fail_msg("%s", e.text);
            free(other);
        }
        kit_put("small", data, len);
        kit_put("small", data, len - 1);
        err_clear(&e);
        read_proven(&p, true, &rc, &e);
        assert_int_equal(rc, -1);
        assert_non_null(strstr(e.text, "cut short"));
        kit_put("small", data, len);
    }
    free(data);
}

struct growing {
    uint64_t asked, step, end;
    unsigned calls;
};

static int grow(void *arg, uint64_t from, uint64_t *to, struct err *e)
{
    (void)e;
    struct growing *w = arg;
    assert_int_equal(from, w->asked); /* no byte is read that was not allowed, none is left out */
    w->calls++;
    w->asked = from + w->step < w->end ? from + w->step : w->end;
    *to = w->asked;
    return 0;
}

static int read_growing(struct growing *w, struct buf *out, char sha[SHA256_HEX], struct err *e)
{
    int fd = openat(kit_dir, "small", O_RDONLY | O_CLOEXEC);
    struct gunzip *g = gunzip_open(fd, "it", e);
    int64_t n;
    gunzip_on_wait(g, grow, w);
    buf_clear(out);
    do {
        buf_reserve(out, 10);
        n = gunzip_read(g, out->p + out->len, 10, e);
        out->len += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    if (n == 0)
        assert_int_equal(gunzip_packed_bytes(g), w->end);
    gunzip_sha256(g, sha);
    gunzip_close(g);
    close(fd);
    return (int)n;
}

static void test_wait(void **state)
{
    (void)state;
    size_t len = 0, first = 0;
    struct buf out = {0};
    char *data = small_file(&len, &first), sha[SHA256_HEX], want[SHA256_HEX];
    static const uint64_t steps[] = {1, 2, 10, 1000};
    for (size_t i = 0; i < COUNT(steps); i++) {
        struct err e = {0};
        struct growing w = {.step = steps[i], .end = len};
        assert_int_equal(read_growing(&w, &out, sha, &e), 0);
        assert_int_equal(w.calls, (len + steps[i] - 1) / steps[i] + 1);
        assert_int_equal(out.len, strlen(FIRST SECOND));
        assert_memory_equal(out.p, FIRST SECOND, out.len);
        sha_of(data, len, want);
        assert_string_equal(sha, want);
        w = (struct growing){.step = steps[i], .end = first}; /* what ends there is whole */
        assert_int_equal(read_growing(&w, &out, sha, &e), 0);
        assert_int_equal(out.len, strlen(FIRST));
        w = (struct growing){.step = steps[i], .end = first + 5};
        assert_int_equal(read_growing(&w, &out, sha, &e), -1);
        assert_int_equal(e.cls, ERR_DAMAGED);
        assert_non_null(strstr(e.text, "cut short near byte"));
        err_clear(&e);
        w = (struct growing){.step = steps[i],
                             .end = len + 1}; /* more was promised than is there */
        assert_int_equal(read_growing(&w, &out, sha, &e), -1);
        assert_int_equal(e.cls, ERR_DAMAGED);
        err_clear(&e);
        w = (struct growing){.step = steps[i], .end = 0};
        assert_int_equal(read_growing(&w, &out, sha, &e), -1);
        assert_string_equal(e.text, "it is empty");
    }
    buf_free(&out);
    free(data);
}

/* A reader in a thread of its own, right behind the writer. */
struct follow {
    struct arrival file;
    _Atomic bool unread; /* it is not read any more */
    uint64_t lines;
    char sha[SHA256_HEX];
    struct err e;
};

static void more_there(void *arg, const struct gzip_member *m)
{
    struct follow *f = arg;
    assert_int_equal(arrival_grown(&f->file, m->offset + m->packed_len, NULL), 0);
}

static int wait_there(void *arg, uint64_t from, uint64_t *to, struct err *e)
{
    struct follow *f = arg;
    return arrival_wait(&f->file, from, to, &f->unread, e);
}

static void *follower(void *arg)
{
    struct follow *f = arg;
    char got[50000];
    int64_t n;
    struct gunzip *g = gunzip_open(f->file.fd, "it", &f->e);
    gunzip_on_wait(g, wait_there, f);
    while ((n = gunzip_read(g, got, sizeof got, &f->e)) > 0)
        for (int64_t i = 0; i < n; i++)
            f->lines += got[i] == '\n';
    gunzip_sha256(g, f->sha);
    gunzip_close(g);
    return NULL;
}

static void test_follow(void **state)
{
    (void)state;
    struct err e = {0};
    char sha[SHA256_HEX], *data = sample(220000, false);
    struct buf text = {0};
    int fd = kit_create("f");
    struct follow f = {.lines = 0};
    pthread_t thread;
    arrival_init(&f.file, openat(kit_dir, "f", O_RDONLY | O_CLOEXEC));
    assert_int_equal(pthread_create(&thread, NULL, follower, &f), 0);
    struct gzip_writer *g = gzip_open(fd, "f", 1, &e);
    gzip_on_member(g, more_there, &f);
    for (int i = 0; i < 100; i++) {
        buf_add(&text, data, 220000);
        assert_int_equal(gzip_give(g, 0, &text, &e), 0);
        assert_true(gzip_packed_bytes(g) <= 220000u * (unsigned)(i + 1));
    }
    assert_int_equal(gzip_close(g, sha, &e), 0);
    arrival_end(&f.file, &e);
    assert_int_equal(arrival_whole(&f.file, &e), 0);
    pthread_join(thread, NULL);
    assert_int_equal(f.e.cls, ERR_NONE);
    assert_int_equal(f.lines, 100 * 20000);
    assert_string_equal(f.sha, sha);
    close(f.file.fd);
    arrival_free(&f.file);
    close(fd);
    buf_free(&text);
    free(data);
}

/* What waits for bytes that will not come hears why, whoever gave up. */
static void test_arrival_ends(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct err why = {0}, e = {0};
        struct follow f = {.lines = 0};
        size_t len, first;
        free(small_file(&len, &first));
        pthread_t thread;
        arrival_init(&f.file, openat(kit_dir, "small", O_RDONLY | O_CLOEXEC));
        assert_int_equal(arrival_grown(&f.file, first, &e), 0);
        assert_int_equal(pthread_create(&thread, NULL, follower, &f), 0);
        if (i == 0)
            err_set(&why, ERR_UNREACHABLE, 0, "the store went away");
        f.unread = i == 2;
        if (i == 2)
            arrival_wake(&f.file);
        else
            arrival_end(&f.file, &why);
        pthread_join(thread, NULL);
        assert_int_equal(f.e.cls, i == 0 ? ERR_UNREACHABLE : i == 2 ? ERR_CHANGED : ERR_NONE);
        arrival_give_up(&f.file);
        assert_int_equal(arrival_grown(&f.file, len, &e), -1);
        assert_int_equal(arrival_here(&f.file), len);
        close(f.file.fd);
        arrival_free(&f.file);
    }
}

/* ---- errors and giving up ---- */

/* The error of the first member comes out of some later call, whichever it is, and of all that
 * follow. */
static void expect_stuck(struct gzip_writer *g, enum err_class cls, const char *why)
{
    struct err e = {0};
    struct buf text = {0};
    char *data = sample(300000, true), sha[SHA256_HEX] = "-";
    int gives = 0, rc;
    do {
        buf_add(&text, data, 300000);
        rc = gzip_give(g, 1, &text, &e);
        assert_int_equal(text.len, 0);
        assert_true(gives++ < 100);
    } while (rc == 0);
    assert_int_equal(e.cls, cls);
    assert_string_equal(e.text, why);
    for (int i = 0; i < 4; i++) {
        err_clear(&e);
        buf_adds(&text, "x");
        rc = i == 0   ? gzip_write(g, "x", 1, &e)
             : i == 1 ? gzip_flush(g, &e)
             : i == 2 ? gzip_give(g, 1, &text, &e)
                      : gzip_close(g, sha, &e);
        assert_int_equal(rc, -1);
        assert_int_equal(e.cls, cls);
        assert_string_equal(e.text, why);
    }
    assert_string_equal(sha, "-");
    buf_free(&text);
    free(data);
}

static void test_write_fails(void **state)
{
    (void)state;
    struct err e = {0};
    char *data = sample(2 * GZIP_MEMBER, true), sha[SHA256_HEX] = "-";
    const char *full = "cannot write f: No space left on device";
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    struct gzip_writer *g = gzip_open(fd, "f", 1, &e);
    give(g, data, 2 * CHUNK);
    assert_int_equal(gzip_flush(g, &e), -1);
    assert_int_equal(e.cls, ERR_NOSPACE);
    assert_string_equal(e.text, full);
    assert_int_equal(gzip_packed_bytes(g), 0);
    expect_stuck(g, ERR_NOSPACE, full);
    expect_stuck(gzip_open(fd, "f", 1, &e), ERR_NOSPACE, full);
    /* Who only writes hears of it too. */
    err_clear(&e);
    g = gzip_open(fd, "f", 1, &e);
    int writes = 0;
    while (gzip_write(g, data, 2 * GZIP_MEMBER, &e) == 0)
        assert_true(writes++ < 100);
    assert_int_equal(e.cls, ERR_NOSPACE);
    gzip_abort(g);
    /* Little data: the first write to the file is the last act. */
    g = gzip_open(fd, "f", 1, &e);
    assert_int_equal(gzip_write(g, "x", 1, &e), 0);
    err_clear(&e);
    assert_int_equal(gzip_close(g, sha, &e), -1);
    assert_int_equal(e.cls, ERR_NOSPACE);
    assert_string_equal(sha, "-");
    gzip_abort(gzip_open(fd, "f", 1, &e));
    gzip_abort(NULL);
    gunzip_close(NULL);
    assert_null(gzip_open(fd, "f", 10, &e));
    assert_string_equal(e.text, "cannot set up compression of f");
    close(fd);
    free(data);
}

/* No signal comes of it either: those are for other threads than the packing ones. */
static void test_closed_pipe(void **state)
{
    (void)state;
    struct err e = {0};
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    expect_stuck(gzip_open(ends[1], "f", 1, &e), ERR_SYSTEM, "cannot write f: Broken pipe");
    close(ends[1]);
}

/* Behind an error in the middle nothing is written, whatever was packed already. */
static void test_full_later(void **state)
{
    (void)state;
    struct err e = {0};
    struct book book = {.count = 0};
    struct buf text = {0};
    char *data = sample(1000, true);
    int ends[2];
    assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0); /* takes 64 KiB, then EAGAIN */
    struct gzip_writer *g = gzip_open(ends[1], "f", 1, &e);
    gzip_on_member(g, note, &book);
    for (int i = 0; i < 500; i++) {
        buf_add(&text, data, 1000);
        if (gzip_give(g, (uint64_t)i, &text, &e) < 0)
            break;
    }
    assert_int_equal(gzip_flush(g, &e), -1);
    assert_int_equal(e.num, EAGAIN);
    assert_in_range(book.count, 50, 70);
    assert_int_equal(gzip_packed_bytes(g),
                     book.list[book.count - 1].offset + book.list[book.count - 1].packed);
    gzip_abort(g);
    close(ends[0]);
    close(ends[1]);
    buf_free(&text);
    free(data);
}

static void test_abort(void **state)
{
    (void)state;
    char *data = sample(GZIP_MEMBER, true);
    for (int gives = 0; gives < 12; gives++) {
        struct err e = {0};
        struct book book = {.count = 0};
        struct buf text = {0}, out = {0};
        char sha[SHA256_HEX];
        int fd = kit_create("f");
        struct gzip_writer *g = gzip_open(fd, "f", 1 + gives % 5, &e);
        gzip_on_member(g, note, &book);
        for (int i = 0; i < gives; i++) {
            buf_add(&text, data, GZIP_MEMBER);
            assert_int_equal(gzip_give(g, 1, &text, &e), 0);
        }
        if (gives % 2)
            assert_int_equal(gzip_write(g, "gathered", 8, &e), 0);
        gzip_abort(g);
        close(fd);
        /* What is there is whole. */
        int rc = read_file("f", CHUNK, &out, sha, &e);
        assert_int_equal(rc, book.count ? 0 : -1);
        assert_int_equal(out.len, book.count * GZIP_MEMBER);
        buf_free(&text);
        buf_free(&out);
    }
    free(data);
}

/* A signal that comes while the threads work is the first thread's. */
static volatile pthread_t signalled;

static void on_signal(int sig)
{
    (void)sig;
    signalled = pthread_self();
}

static void test_signals(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf text = {0};
    char sha[SHA256_HEX], *data = sample(GZIP_MEMBER, true);
    sigset_t set;
    struct sigaction act = {.sa_handler = on_signal}, was;
    sigaction(SIGUSR1, &act, &was);
    int fd = kit_create("f");
    struct gzip_writer *g = gzip_open(fd, "f", 1, &e);
    for (int i = 0; i < 20; i++) {
        buf_add(&text, data, GZIP_MEMBER);
        assert_int_equal(gzip_give(g, 1, &text, &e), 0);
        signalled = 0;
        kill(getpid(), SIGUSR1);
        assert_true(pthread_equal(signalled, pthread_self()));
    }
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &set), 0);
    assert_int_equal(sigismember(&set, SIGTERM), 0); /* and its mask is as before */
    assert_int_equal(gzip_close(g, sha, &e), 0);
    sigaction(SIGUSR1, &was, NULL);
    close(fd);
    buf_free(&text);
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
        cmocka_unit_test_teardown(test_order, kit_clean),
        cmocka_unit_test_teardown(test_without_threads, kit_clean),
        cmocka_unit_test_teardown(test_by_gunzip, kit_clean),
        cmocka_unit_test_teardown(test_long_text, kit_clean),
        cmocka_unit_test_teardown(test_parts, kit_clean),
        cmocka_unit_test_teardown(test_proven_first, kit_clean),
        cmocka_unit_test_teardown(test_wait, kit_clean),
        cmocka_unit_test_teardown(test_follow, kit_clean),
        cmocka_unit_test_teardown(test_arrival_ends, kit_clean),
        cmocka_unit_test(test_write_fails),
        cmocka_unit_test(test_closed_pipe),
        cmocka_unit_test(test_full_later),
        cmocka_unit_test_teardown(test_abort, kit_clean),
        cmocka_unit_test_teardown(test_signals, kit_clean),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
