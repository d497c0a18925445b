/* dump/verify: the small dump is whole, and no cut, no flipped bit, no other text and no other
 * manifest passes for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>

#include "dump/verify.h"
#include "dump_kit.h"

static int verify(const struct manifest *m, struct err *e)
{
    *e = (struct err){0};
    return verify_dump(kit_dir, "dump", m, NULL, NULL, NULL, e);
}

static void refused(const struct manifest *m, const char *what, const char *want)
{
    struct err e;
    if (verify(m, &e) == 0)
        fail_msg("%s passed", what);
    if (e.cls != ERR_DAMAGED || (want && strcmp(e.text, want) != 0))
        fail_msg("%s: %s %s", what, err_class_name(e.cls), e.text);
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
    if (verify_dump(kit_dir, "dump", &m, see, &s, &p, &e) < 0)
        fail_msg("%s", e.text);
    assert_int_equal(s.creates, KIT_TABLES);
    assert_int_equal(s.rows, KIT_ROWS);
    assert_int_equal(s.definitions, 2);
    assert_int_equal(s.ends, 1);
    assert_int_equal(p.rows, KIT_ROWS);
    assert_int_equal(p.bytes, m.file_size);
    manifest_free(&m);
}

/* The error of who looks on ends the reading and is not called damage. */
static void test_looker_fails(void **state)
{
    (void)state;
    struct manifest m;
    kit_dump(&m);
    for (size_t at = 1; at <= 9; at++) {
        struct seen s = {.fail_at = at};
        struct err e = {0};
        assert_int_equal(verify_dump(kit_dir, "dump", &m, see, &s, NULL, &e), -1);
        assert_int_equal(s.items, at);
        assert_int_equal(e.cls, ERR_QUERY);
    }
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
        snprintf(want, sizeof want, "dump has %" PRIu64 " bytes, its manifest says %" PRIu64, len,
                 whole);
        refused(&m, "a cut file", want);
        m.file_size = len;
        refused(&m, "a cut file with its size", NULL);
    }
    manifest_free(&m);
}

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
        refused(&m, "a flipped bit", NULL);
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
    {"(1,'orc')", "(1,'elf')", "dump: the rows of table users are not the ones of its manifest"},
    {"(1,'orc')", "(1,'orc '),\n(1,'orc')", "dump: 4 rows in table users, its manifest says 3"},
    {"(7,_latin1'x')", "(8,_latin1'x')",
     "dump: the rows of table wk`s are not the ones of its manifest"},
    {"DROP TABLE IF EXISTS `empty`", "CREATE TABLE `x` (y);\nDROP TABLE IF EXISTS `empty`",
     "dump: table x is not the one its manifest names there"},
    {"CREATE TABLE `users`", "CREATE TABLE `Users`",
     "dump: table Users is not the one its manifest names there"},
    {"-- worldkeeper end", "CREATE TABLE `x` (y);\n-- worldkeeper end",
     "dump: table x is not the one its manifest names there"},
};

static void test_other_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(edits); i++) {
        struct manifest m;
        struct buf text = {0}, b = {0};
        kit_manifest(&m, "w", 1, 1);
        kit_dump_text(&text);
        const char *at = strstr(text.p, edits[i].from);
        assert_non_null(at);
        buf_add(&b, text.p, (size_t)(at - text.p));
        buf_adds(&b, edits[i].to);
        buf_adds(&b, at + strlen(edits[i].from));
        kit_store(&m, "dump", &b, 1);
        refused(&m, edits[i].to, edits[i].error);
        buf_free(&b);
        buf_free(&text);
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
    snprintf(text, sizeof text, "dump: %" PRIu64 " bytes of SQL, its manifest says %" PRIu64,
             m.bytes, m.bytes + 1);
    manifest_free(&m);
    expect(more_bytes, text);
    expect(other_sha, "dump: its SHA-256 is not the one of its manifest");
    expect(more_rows, "dump: 3 rows in table users, its manifest says 4");
    expect(other_rows, "dump: the rows of table wk`s are not the ones of its manifest");
    expect(rows_of_empty, "dump: the rows of table empty are not the ones of its manifest");
    expect(other_order, "dump: table users is not the one its manifest names there");
    expect(fewer_tables, "dump: table wk`s is not the one its manifest names there");
    expect(more_tables, "dump: 3 tables, its manifest says 4");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_whole, kit_clean),
        cmocka_unit_test_teardown(test_looker_fails, kit_clean),
        cmocka_unit_test_teardown(test_cut, kit_clean),
        cmocka_unit_test_teardown(test_flipped_bits, kit_clean),
        cmocka_unit_test_teardown(test_longer, kit_clean),
        cmocka_unit_test_teardown(test_other_text, kit_clean),
        cmocka_unit_test_teardown(test_other_manifest, kit_clean),
        cmocka_unit_test_teardown(test_no_file, kit_clean),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
