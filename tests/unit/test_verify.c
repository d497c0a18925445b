/* dump/verify: the small dump is valid, at once and in parts; a cut, a flipped bit, other text,
 * another manifest or another position of a part is detected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>

#include "base/gunzip.h"
#include "dump/verify.h"
#include "dump_kit.h"

static int verify(const struct manifest *m, struct err *e)
{
    *e = (struct err){0};
    return verify_dump(kit_dir, "dump", m, NULL, e);
}

struct seen {
    size_t creates, rows, definitions, ends, reports;
    size_t fail_at, items;
};

static int see(void *arg, const struct format_item *item, struct err *e)
{
    struct seen *s = arg;
    s->creates += item->type == FORMAT_CREATE;
    s->rows += item->type == FORMAT_ROWS ? item->rows : 0;
    s->definitions += item->type == FORMAT_DEFINITION;
    s->ends += item->type == FORMAT_END;
    return ++s->items == s->fail_at ? err_set(e, ERR_QUERY, 1114, "table full") : 0;
}

/* One table's part to its end, or to `items` of it. */
static int read_part(struct verify_file *v, size_t table, size_t items, struct seen *s,
                     struct err *e)
{
    struct format_item item = {.type = FORMAT_CREATE};
    struct verify_part *p = verify_part_open(v, table, e);
    int rc = p ? 0 : -1;
    for (size_t i = 0; i < items && rc == 0 && item.type != FORMAT_END; i++)
        if ((rc = verify_part_next(p, &item, e)) == 0)
            see(s, &item, e);
    verify_part_close(p);
    return rc;
}

#define ALL SIZE_MAX
/* All parts, the last table first, so that nothing depends on their order. */
static int read_parts(struct verify_file *v, const struct manifest *m, struct seen *s,
                      struct err *e)
{
    for (size_t i = m->table_count; i-- > 0;)
        if (read_part(v, i, ALL, s, e) < 0)
            return -1;
    return verify_rest(v, see, s, e);
}

static int verify_parts(const struct manifest *m, struct seen *s, struct err *e)
{
    *e = (struct err){0};
    struct verify_file *v = verify_open(kit_dir, "dump", m, NULL, e);
    int rc = v ? read_parts(v, m, s, e) : -1;
    verify_close(v);
    return rc;
}

static void check_error(const struct err *e, const char *how, const char *what, const char *want)
{
    if (e->cls != ERR_DAMAGED || (want && !strstr(e->text, want)))
        fail_msg("%s %s: %s %s, not %s", what, how, err_class_name(e->cls), e->text, want);
}

static void parts_refused(const struct manifest *m, const char *what, const char *want)
{
    struct err e;
    struct seen s = {0};
    if (verify_parts(m, &s, &e) == 0)
        fail_msg("%s passed in parts", what);
    check_error(&e, "in parts", what, want);
}

/* Both ways; the words are those of the reading in one go. */
static void refused(const struct manifest *m, const char *what, const char *want)
{
    struct err e;
    if (verify(m, &e) == 0)
        fail_msg("%s passed", what);
    check_error(&e, "at once", what, want);
    parts_refused(m, what, NULL);
}

static void report(struct progress *p)
{
    ((struct seen *)p->arg)->reports++;
}

static void test_whole(void **state)
{
    (void)state;
    struct manifest m;
    struct err e = {0};
    struct seen s = {0};
    struct progress p = {.report = report, .arg = &s};
    kit_dump(&m);
    if (verify_dump(kit_dir, "dump", &m, &p, &e) < 0)
        fail_msg("%s", e.text);
    assert_int_equal(p.rows, KIT_ROWS);
    assert_int_equal(p.bytes, m.file_size);
    if (verify_parts(&m, &s, &e) < 0)
        fail_msg("%s", e.text);
    assert_int_equal(s.creates, KIT_TABLES);
    assert_int_equal(s.rows, KIT_ROWS);
    assert_int_equal(s.definitions, 2);
    assert_int_equal(s.ends, KIT_TABLES + 1); /* of each part, and of the trailer */
    manifest_free(&m);
}

/* ---- proven before it is used ---- */

/* The part of a table as its reader gives it, and how many items come of it. */
static size_t items_of(struct verify_file *v, size_t table, struct err *e)
{
    struct seen s = {0};
    *e = (struct err){0};
    return read_part(v, table, ALL, &s, e) == 0 ? s.items : s.items + 1000;
}

static void test_part_sizes(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 3, 64, 4096, MANIFEST_PART};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct manifest m;
        struct err e = {0};
        struct seen s = {0};
        kit_dump(&m);
        kit_list_parts(&m, "dump", sizes[i]);
        if (verify(&m, &e) < 0 || verify_parts(&m, &s, &e) < 0)
            fail_msg("parts of %u bytes: %s", sizes[i], e.text);
        assert_int_equal(s.rows, KIT_ROWS);
        m.parts.count--;
        refused(&m, "a part too few", "parts, but its manifest says");
        m.parts.count += 2;
        refused(&m, "a part too many", "parts, but its manifest says");
        m.parts.count--;
        m.parts.sha256[m.parts.count / 2][5] ^= 1;
        refused(&m, "another part", "its SHA-256 does not match the manifest between byte");
        manifest_free(&m);
    }
}

/* One member of a table becomes another one of the same length, which says something else. */
static void forge(const struct manifest *m, size_t table)
{
    struct err e = {0};
    const struct manifest_table *t = &m->tables[table];
    size_t len = 0;
    char *data = kit_get("dump", &len), sha[SHA256_HEX];
    int fd = kit_create("forged");
    struct gzip_writer *g = gzip_open(fd, "forged", 9, &e);
    assert_int_equal(gzip_write(g, "CREATE TABLE `users` (x);\n", 26, &e), 0);
    assert_int_equal(gzip_close(g, sha, &e), 0);
    off_t packed = lseek(fd, 0, SEEK_CUR);
    assert_true(packed > 0 && (uint64_t)packed <= t->length);
    assert_int_equal(pread(fd, data + t->offset, (size_t)packed, 0), packed);
    close(fd);
    fd = openat(kit_dir, "dump", O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, data, len, 0), len);
    close(fd);
    free(data);
}

/* Nothing of a forged table is seen: neither where the manifest lists parts, nor where the file was
 * read whole before it was forged. */
static void test_forged_before_used(void **state)
{
    (void)state;
    for (int listed = 0; listed < 2; listed++) {
        struct manifest m;
        struct err e = {0};
        kit_dump(&m);
        if (listed)
            kit_list_parts(&m, "dump", 64);
        struct verify_file *v = verify_open(kit_dir, "dump", &m, NULL, &e);
        size_t whole = items_of(v, 0, &e), other = items_of(v, 1, &e);
        assert_in_range(whole, 2, 10);
        forge(&m, 0);
        assert_int_equal(items_of(v, 0, &e), 1000); /* an error, and no item before it */
        assert_int_equal(e.cls, ERR_DAMAGED);
        assert_non_null(strstr(e.text, "its SHA-256 does not match the manifest"));
        assert_int_equal(items_of(v, 1, &e), other); /* what was not forged is what it was */
        verify_close(v);
        e = (struct err){0};
        v = verify_open(kit_dir, "dump", &m, NULL, &e);
        if (listed) /* opened after it was forged */
            assert_int_equal(items_of(v, 0, &e), 1000);
        else
            assert_null(v);
        assert_int_equal(e.cls, ERR_DAMAGED);
        verify_close(v);
        manifest_free(&m);
    }
}

/* What takes the name of an open dump is not looked at. */
static void test_renamed_over(void **state)
{
    (void)state;
    for (int listed = 0; listed < 2; listed++) {
        struct manifest m;
        struct err e = {0};
        kit_dump(&m);
        if (listed)
            kit_list_parts(&m, "dump", 64);
        struct verify_file *v = verify_open(kit_dir, "dump", &m, NULL, &e);
        size_t whole = items_of(v, 0, &e);
        kit_text("other", "-- worldkeeper dump 1\nSET GLOBAL general_log=1;\n");
        assert_int_equal(renameat(kit_dir, "other", kit_dir, "dump"), 0);
        assert_int_equal(items_of(v, 0, &e), whole);
        assert_int_equal(verify_rest(v, NULL, NULL, &e), 0);
        assert_int_equal(verify_whole(v, NULL, &e), 0);
        verify_close(v);
        manifest_free(&m);
    }
}

/* The error of who looks on ends the reading and is not called damage. */
static void test_looker_fails(void **state)
{
    (void)state;
    struct manifest m;
    struct err e = {0};
    kit_dump(&m);
    struct verify_file *v = verify_open(kit_dir, "dump", &m, NULL, &e);
    for (size_t at = 1; at <= 3; at++) {
        struct seen s = {.fail_at = at};
        e = (struct err){0};
        assert_int_equal(verify_rest(v, see, &s, &e), -1);
        assert_int_equal(s.items, at);
        assert_int_equal(e.cls, ERR_QUERY);
    }
    assert_int_equal(verify_rest(v, NULL, NULL, &e), 0);
    verify_close(v);
    verify_close(NULL);
    verify_part_close(NULL);
    manifest_free(&m);
}

/* Who stops in the middle of a part leaves nothing behind and can begin anew. */
static void test_left_early(void **state)
{
    (void)state;
    struct manifest m;
    struct err e = {0};
    kit_dump(&m);
    struct verify_file *v = verify_open(kit_dir, "dump", &m, NULL, &e);
    for (size_t items = 0; items <= 4; items++)
        for (size_t t = 0; t < KIT_TABLES; t++) {
            struct seen s = {0};
            assert_int_equal(read_part(v, t, items, &s, &e), 0);
        }
    verify_close(v);
    manifest_free(&m);
}

struct reader {
    struct verify_file *v;
    pthread_t thread;
    struct seen seen;
    struct err e;
    int rc;
};

static void *reader_main(void *arg)
{
    struct reader *r = arg;
    for (size_t i = 0; i < 20 * KIT_TABLES && r->rc == 0; i++)
        r->rc = read_part(r->v, i % KIT_TABLES, ALL, &r->seen, &r->e);
    if (r->rc == 0)
        r->rc = verify_rest(r->v, NULL, NULL, &r->e);
    return NULL;
}

/* Each reader has places of its own in the file. */
static void test_threads(void **state)
{
    (void)state;
    struct manifest m;
    struct err e = {0};
    kit_dump(&m);
    struct verify_file *v = verify_open(kit_dir, "dump", &m, NULL, &e);
    struct reader r[8] = {{0}};
    for (size_t i = 0; i < COUNT(r); i++) {
        r[i] = (struct reader){.v = v};
        assert_int_equal(pthread_create(&r[i].thread, NULL, reader_main, &r[i]), 0);
    }
    for (size_t i = 0; i < COUNT(r); i++) {
        pthread_join(r[i].thread, NULL);
        if (r[i].rc < 0)
            fail_msg("reader %zu: %s", i, r[i].e.text);
        assert_int_equal(r[i].seen.rows, 20 * KIT_ROWS);
    }
    verify_close(v);
    manifest_free(&m);
}

/* With the size it should have, and with a manifest that believes in the smaller one. */
static void test_cut(void **state)
{
    (void)state;
    struct manifest m;
    kit_dump(&m);
    uint64_t whole = m.file_size;
    for (uint64_t len = whole; len-- > 0;) {
        char want[200];
        int fd = openat(kit_dir, "dump", O_WRONLY | O_CLOEXEC);
        assert_int_equal(ftruncate(fd, (off_t)len), 0);
        close(fd);
        m.file_size = whole;
        snprintf(want, sizeof want, "dump has %" PRIu64 " bytes, but its manifest says %" PRIu64,
                 len, whole);
        refused(&m, "a cut file", want);
        m.file_size = len;
        refused(&m, "a cut file with its size", NULL);
    }
    manifest_free(&m);
}

/* Each bit of the file counts, whatever gzip makes of it. */
static void test_flipped_bits(void **state)
{
    (void)state;
    struct manifest m;
    struct err e;
    kit_dump(&m);
    size_t len = 0;
    char *data = kit_get("dump", &len);
    int fd = openat(kit_dir, "dump", O_WRONLY | O_CLOEXEC);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        char byte = (char)(data[bit / 8] ^ 1 << bit % 8);
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)(bit / 8)), 1);
        refused(&m, "a flipped bit", "its SHA-256 does not match the manifest");
        assert_int_equal(pwrite(fd, data + bit / 8, 1, (off_t)(bit / 8)), 1);
    }
    assert_int_equal(verify(&m, &e), 0);
    close(fd);
    free(data);
    manifest_free(&m);
}

static void test_longer(void **state)
{
    (void)state;
    static const char *const tails[] = {"\n", "x", "\x1f\x8b"};
    for (size_t i = 0; i < COUNT(tails); i++) {
        struct manifest m;
        kit_dump(&m);
        int fd = openat(kit_dir, "dump", O_WRONLY | O_APPEND | O_CLOEXEC);
        assert_int_equal(file_write_all(fd, tails[i], strlen(tails[i])), 0);
        close(fd);
        refused(&m, "a longer file", NULL);
        m.file_size += strlen(tails[i]);
        refused(&m, "a longer file with its size", NULL);
        manifest_free(&m);
    }
}

/* Other text in a whole file: size, SHA-256 and the rest of the manifest fit it. */
static const struct {
    const char *from, *to, *error;
} edits[] = {
    {"(1,'orc')", "(1,'elf')", "dump: the rows of table users do not match the manifest"},
    {"(1,'orc')", "(1,'orc '),\n(1,'orc')",
     "the trailer's counts of tables and rows differ from what was read"},
    {"(7,_latin1'x')", "(8,_latin1'x')", "dump: the rows of table wk`s do not match the manifest"},
    {"DROP TABLE IF EXISTS `empty`", "CREATE TABLE `x` (y);\nDROP TABLE IF EXISTS `empty`",
     "dump: table x is not the one that its manifest names here"},
    {"CREATE TABLE `users`", "CREATE TABLE `Users`",
     "dump: table Users is not the one that its manifest names here"},
    {"CREATE TABLE `empty`", "CREATE TABLE `Empty`",
     "dump: table Empty is not the one that its manifest names here"},
    {"-- worldkeeper end", "CREATE TABLE `x` (y);\n-- worldkeeper end",
     "dump: table x is not the one that its manifest names here"},
};

static void replace(struct buf *b, const char *from, const char *to)
{
    const char *at = b->p ? strstr(b->p, from) : NULL;
    struct buf out = {0};
    if (!at)
        return;
    buf_add(&out, b->p, (size_t)(at - b->p));
    buf_adds(&out, to);
    buf_adds(&out, at + strlen(from));
    buf_free(b);
    *b = out;
}

static void test_other_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(edits); i++) {
        struct manifest m;
        struct buf parts[KIT_PARTS];
        kit_manifest(&m, "w", 1, 1);
        kit_parts(parts);
        for (size_t k = 0; k < KIT_PARTS; k++)
            replace(&parts[k], edits[i].from, edits[i].to);
        kit_store(&m, "dump", parts, KIT_PARTS);
        refused(&m, edits[i].to, edits[i].error);
        kit_parts_free(parts);
        manifest_free(&m);
    }
}

/* ---- the same file under another manifest ---- */

static void expect(void (*change)(struct manifest *m), const char *error)
{
    struct manifest m;
    struct err e;
    kit_dump(&m);
    assert_int_equal(verify(&m, &e), 0);
    change(&m);
    refused(&m, error, error);
    manifest_free(&m);
}

static void other_sha(struct manifest *m)
{
    m->sha256[63] = m->sha256[63] == '0' ? '1' : '0';
}
static void more_bytes(struct manifest *m)
{
    m->bytes++;
}
static void more_rows(struct manifest *m)
{
    m->tables[0].rows++;
}
static void other_rows(struct manifest *m)
{
    m->tables[2].rows_hash++;
}
static void rows_of_empty(struct manifest *m)
{
    m->tables[1].rows_hash++;
}
static void other_order(struct manifest *m)
{
    struct manifest_table t = m->tables[0];
    m->tables[0] = m->tables[1];
    m->tables[1] = t;
}
static void fewer_tables(struct manifest *m)
{
    free(m->tables[--m->table_count].name);
    free(m->tables[m->table_count].engine);
}
static void more_tables(struct manifest *m)
{
    kit_add_table(m, &kit_tables[1]);
}

static void test_other_manifest(void **state)
{
    (void)state;
    struct manifest m;
    char text[100];
    kit_dump(&m);
    snprintf(text, sizeof text, "dump: %" PRIu64 " bytes of SQL, but its manifest says %" PRIu64,
             m.bytes, m.bytes + 1);
    manifest_free(&m);
    expect(more_bytes, text);
    expect(other_sha, "dump: its SHA-256 does not match the manifest");
    expect(more_rows, "dump: 3 rows in table users, but its manifest says 4");
    expect(other_rows, "dump: the rows of table wk`s do not match the manifest");
    expect(rows_of_empty, "dump: the rows of table empty do not match the manifest");
    expect(other_order, "dump: in its manifest, table users has no valid position");
    expect(fewer_tables, "dump: table wk`s is not the one that its manifest names here");
    expect(more_tables, "dump: in its manifest, table empty has no valid position");
}

/* ---- no file at all ---- */

static void test_no_file(void **state)
{
    (void)state;
    struct manifest m;
    kit_dump(&m);
    assert_int_equal(renameat(kit_dir, "dump", kit_dir, "real"), 0);
    refused(&m, "nothing", "cannot open dump: No such file or directory");
    assert_int_equal(symlinkat("real", kit_dir, "dump"), 0);
    refused(&m, "a link", "cannot open dump: Too many levels of symbolic links");
    unlinkat(kit_dir, "dump", 0);
    assert_int_equal(mkfifoat(kit_dir, "dump", 0600), 0);
    refused(&m, "a pipe", "dump is not a regular file"); /* and nobody waits for a writer */
    unlinkat(kit_dir, "dump", 0);
    assert_int_equal(mkdirat(kit_dir, "dump", 0700), 0);
    refused(&m, "a directory", "dump is not a regular file");
    manifest_free(&m);
}

/* ---- parts in other places ---- */

static void overlapping(struct manifest *m)
{
    m->tables[1].offset--;
}
static void overlapping_tail(struct manifest *m)
{
    m->tables[0].length++;
}
static void same_place(struct manifest *m)
{
    m->tables[1].offset = m->tables[0].offset;
    m->tables[1].length = m->tables[0].length;
}
static void backwards(struct manifest *m)
{
    struct manifest_table t = m->tables[0];
    m->tables[0].offset = m->tables[1].offset;
    m->tables[0].length = m->tables[1].length;
    m->tables[1].offset = t.offset;
    m->tables[1].length = t.length;
}
static void empty_part(struct manifest *m)
{
    m->tables[1].length = 0;
}
static void over_the_end(struct manifest *m)
{
    m->tables[2].length = m->file_size - m->tables[2].offset + 1;
}
static void behind_the_end(struct manifest *m)
{
    m->tables[2].offset = m->file_size;
}
static void far_away(struct manifest *m)
{
    m->tables[2].offset = UINT64_MAX;
}
static void far_too_long(struct manifest *m)
{
    m->tables[0].length = UINT64_MAX;
}
static void wraps_around(struct manifest *m)
{
    m->tables[2].offset = UINT64_MAX - 1;
    m->tables[2].length = 2;
}
static void no_places(struct manifest *m)
{
    for (size_t i = 0; i < m->table_count; i++)
        m->tables[i].offset = m->tables[i].length = 0;
}
static void byte_short(struct manifest *m)
{
    m->tables[0].length--;
}
static void byte_short_in_front(struct manifest *m)
{
    m->tables[0].offset++;
    m->tables[0].length--;
}
static void byte_short_last(struct manifest *m)
{
    m->tables[2].length--;
}
static void byte_into_the_header(struct manifest *m)
{
    m->tables[0].offset--;
    m->tables[0].length++;
}
static void with_the_header(struct manifest *m)
{
    m->tables[0].length += m->tables[0].offset;
    m->tables[0].offset = 0;
}
static void with_the_trailer(struct manifest *m)
{
    m->tables[2].length = m->file_size - m->tables[2].offset;
}
static void with_the_definitions(struct manifest *m)
{
    m->tables[1].length = m->tables[2].offset - m->tables[1].offset;
}
static void with_the_next(struct manifest *m)
{
    m->tables[0].length += m->tables[1].length;
    free(m->tables[1].name);
    free(m->tables[1].engine);
    m->tables[1] = m->tables[2];
    m->table_count = 2;
}
static void swapped_names(struct manifest *m)
{
    char *name = m->tables[0].name;
    m->tables[0].name = m->tables[1].name;
    m->tables[1].name = name;
}
static void fewer_bytes(struct manifest *m)
{
    m->tables[0].bytes--;
}
static void bytes_elsewhere(struct manifest *m)
{
    m->tables[0].bytes--;
    m->tables[1].bytes++;
}

static const char no_place[] = "has no valid position";
static const struct {
    void (*change)(struct manifest *m);
    const char *what, *error;
} places[] = {
    {overlapping, "overlapping", no_place},
    {overlapping_tail, "overlapping tail", no_place},
    {same_place, "two at one place", no_place},
    {backwards, "backwards", no_place},
    {empty_part, "an empty part", no_place},
    {over_the_end, "beyond the end", no_place},
    {behind_the_end, "behind the end", no_place},
    {far_away, "far away", no_place},
    {far_too_long, "far too long", no_place},
    {wraps_around, "wrapping around", no_place},
    {no_places, "no places", no_place},
    {byte_short, "a byte short", NULL},
    {byte_short_in_front, "a byte short in front", NULL},
    {byte_short_last, "a byte short at the last", NULL},
    {byte_into_the_header, "a byte of the header", NULL},
    {with_the_header, "with the header", "bytes of SQL, but its manifest says"},
    {with_the_trailer, "with the trailer", NULL},
    {with_the_definitions, "with the definitions", NULL},
    {with_the_next, "with the next table",
     "table empty is not the one that its manifest names here"},
    {swapped_names, "swapped names", "is not the one that its manifest names here"},
    {fewer_bytes, "fewer bytes", "bytes of SQL, but its manifest says"},
    {bytes_elsewhere, "bytes elsewhere", "bytes of SQL, but its manifest says"},
    {more_rows, "more rows", "3 rows in table users, but its manifest says 4"},
    {other_rows, "other rows", "the rows of table wk`s do not match the manifest"},
    {rows_of_empty, "rows of none", "the rows of table empty do not match the manifest"},
    {more_bytes, "more bytes", "the lengths of its parts do not match the manifest"},
    {other_sha, "another hash", "its SHA-256 does not match the manifest"},
};

static void test_places(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(places); i++) {
        struct manifest m;
        kit_dump(&m);
        places[i].change(&m);
        parts_refused(&m, places[i].what, places[i].error);
        manifest_free(&m);
    }
}

/* A whole statement falls between two parts: what is left of each is plausible by itself. */
static void test_gap(void **state)
{
    (void)state;
    struct manifest m;
    struct seen s = {0};
    struct err e = {0};
    kit_dump(&m);
    struct manifest_table *t = &m.tables[0];
    int fd = openat(kit_dir, "dump", O_RDONLY | O_CLOEXEC);
    size_t second = 0;
    for (uint64_t len = t->length - 1; len > 0 && !second; len--) {
        struct gunzip *in = gunzip_open_part(fd, "dump", t->offset, len, &e);
        char data[4096];
        int64_t n = gunzip_read(in, data, sizeof data, &e);
        gunzip_close(in);
        if (n > 0 && memcmp(data + n - 2, ";\n", 2) == 0) {
            second = len;
            m.tables[0].bytes = (uint64_t)n;
        }
    }
    close(fd);
    assert_true(second > 0);
    m.tables[0].length = second;
    parts_refused(&m, "a lost member", "2 rows in table users, but its manifest says 3");
    m.tables[0].rows = 2;
    m.tables[0].rows_hash = 0;
    for (size_t i = 0; i < 2; i++)
        m.tables[0].rows_hash +=
            sql_tuple_hash(kit_tables[0].rows[i], strlen(kit_tables[0].rows[i]));
    struct verify_file *v = verify_open(kit_dir, "dump", &m, NULL, &e);
    assert_int_equal(read_part(v, 0, ALL, &s, &e), 0); /* so far it looks right */
    verify_close(v);
    parts_refused(&m, "a member of nobody", "INSERT that this program did not write");
    manifest_free(&m);
}

/* ---- other text in a part; size, hash, places and bytes fit it ---- */

static const struct {
    size_t part;
    const char *from, *to, *error;
} part_edits[] = {
    /* the rest */
    {0, "SET NAMES binary;\n", "SET NAMES binary;\nINSERT INTO `users` (`id`) VALUES\n(1);\n",
     "INSERT that this program did not write"},
    {0, "SET NAMES binary;\n", "SET NAMES binary;\nDELETE FROM `users`;\n",
     "a statement that this program did not write"},
    {0, "SET NAMES binary;\n", "CREATE TABLE `x` (y);\n",
     "table x is not the one that its manifest names here"},
    {0, "-- worldkeeper dump 1\n", "", "not a dump of this program"},
    {0, "-- worldkeeper dump 1\n", "-- worldkeeper dump 1\n-- worldkeeper end tables=3 rows=4\n",
     "text after the trailer"},
    {3, "DELIMITER ;\n", "DELIMITER ;\nDROP DATABASE x;\n",
     "a statement that this program did not write"},
    {3, "DELIMITER ;\n", "DELIMITER ;\nCREATE TABLE `x` (y);\n",
     "table x is not the one that its manifest names here"},
    {3, "DELIMITER ;\n", "", NULL},
    {3, "SET NAMES binary;\n", "SET NAMES binary", NULL},
    {5, "tables=3", "tables=2",
     "the trailer's counts of tables and rows differ from what was read"},
    {5, "tables=3", "tables=4",
     "the trailer's counts of tables and rows differ from what was read"},
    {5, "rows=4", "rows=3", "the trailer's counts of tables and rows differ from what was read"},
    {5, "rows=4", "rows=5", "the trailer's counts of tables and rows differ from what was read"},
    {5, "rows=4\n", "rows=4", "an incomplete line"},
    {5, "rows=4\n", "rows=4\n-- worldkeeper end tables=3 rows=4\n", "text after the trailer"},
    {5, "-- worldkeeper end tables=3 rows=4\n", "\n", "its trailer is missing"},
    /* tables */
    {1, "DROP TABLE", "CREATE TABLE `x` (y);\nDROP TABLE",
     "table x is not the one that its manifest names here"},
    {1, "CREATE TABLE `users`", "CREATE TABLE `Users`",
     "table Users is not the one that its manifest names here"},
    {1, "(1,'orc')", "(1,'elf')", "the rows of table users do not match the manifest"},
    {1, "(-3,NULL);\n", "(-3,NULL);\nCREATE TABLE `users` (x);\n",
     "table users is not the one that its manifest names here"},
    {1, "(-3,NULL);\n", "(-3,NULL);\nCREATE TABLE `more` (x);\n",
     "table more is not the one that its manifest names here"},
    {1, "(-3,NULL);\n", "(-3,NULL);\nINSERT INTO `users` (`id`,`na``me`) VALUES\n(4,'');\n",
     "4 rows in table users, but its manifest says 3"},
    {1, "(-3,NULL);\n", "(-3,NULL);\nTRUNCATE `users`;\n",
     "a statement that this program did not write"},
    {1, "(-3,NULL);\n", "(-3,NULL);\nDELIMITER ;;\nDROP VIEW v;;\nDELIMITER ;\n",
     "definitions among the rows of table users"},
    {1, "(-3,NULL);\n", "(-3,NULL)", "rows with values that are not literals"},
    {2, "CREATE TABLE", "SET TABLE", "table empty is not at the position that its manifest gives"},
};

static void edit_part(struct buf *part, const char *from, const char *to)
{
    struct buf b = {0};
    const char *at = strstr(part->p, from);
    assert_non_null(at);
    buf_add(&b, part->p, (size_t)(at - part->p));
    buf_adds(&b, to);
    buf_adds(&b, at + strlen(from));
    buf_free(part);
    *part = b;
}

static void test_part_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(part_edits); i++) {
        struct manifest m;
        struct buf parts[KIT_PARTS];
        kit_manifest(&m, "w", 1, 1);
        kit_parts(parts);
        edit_part(&parts[part_edits[i].part], part_edits[i].from, part_edits[i].to);
        kit_store(&m, "dump", parts, KIT_PARTS);
        parts_refused(&m, part_edits[i].to, part_edits[i].error);
        kit_parts_free(parts);
        manifest_free(&m);
    }
}

/* A table that the manifest does not list ends the reading, so that a dump with tables without end
 * takes no memory. What follows the table here would be another error. */
static void test_more_tables(void **state)
{
    (void)state;
    struct manifest m;
    struct err e;
    struct buf parts[KIT_PARTS];
    kit_manifest(&m, "w", 1, 1);
    kit_parts(parts);
    edit_part(&parts[1], "(-3,NULL);\n", "(-3,NULL);\nCREATE TABLE `more` (x);\nCALL x();\n");
    kit_store(&m, "dump", parts, KIT_PARTS);
    assert_int_equal(verify(&m, &e), -1);
    check_error(&e, "at once", "more tables",
                "table more is not the one that its manifest names here");
    kit_parts_free(parts);
    manifest_free(&m);
}

/* The same two parts, the other way round in the file and in the manifest's places. */
static void test_swapped_tables(void **state)
{
    (void)state;
    struct manifest m;
    struct buf parts[KIT_PARTS];
    kit_manifest(&m, "w", 1, 1);
    kit_parts(parts);
    struct buf users = parts[1];
    parts[1] = parts[4];
    parts[4] = users;
    kit_store(&m, "dump", parts, KIT_PARTS);
    parts_refused(&m, "swapped tables", "table users is not the one that its manifest names here");
    kit_parts_free(parts);
    manifest_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_whole, kit_clean),
        cmocka_unit_test_teardown(test_looker_fails, kit_clean),
        cmocka_unit_test_teardown(test_left_early, kit_clean),
        cmocka_unit_test_teardown(test_threads, kit_clean),
        cmocka_unit_test_teardown(test_cut, kit_clean),
        cmocka_unit_test_teardown(test_flipped_bits, kit_clean),
        cmocka_unit_test_teardown(test_longer, kit_clean),
        cmocka_unit_test_teardown(test_part_sizes, kit_clean),
        cmocka_unit_test_teardown(test_forged_before_used, kit_clean),
        cmocka_unit_test_teardown(test_renamed_over, kit_clean),
        cmocka_unit_test_teardown(test_other_text, kit_clean),
        cmocka_unit_test_teardown(test_other_manifest, kit_clean),
        cmocka_unit_test_teardown(test_no_file, kit_clean),
        cmocka_unit_test_teardown(test_places, kit_clean),
        cmocka_unit_test_teardown(test_gap, kit_clean),
        cmocka_unit_test_teardown(test_part_text, kit_clean),
        cmocka_unit_test_teardown(test_more_tables, kit_clean),
        cmocka_unit_test_teardown(test_swapped_tables, kit_clean),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
