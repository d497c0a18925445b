/* store/manifest: what is written is read back the same; names; every missing or wrong field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>

#include "dump_kit.h"

/* ---- names ---- */

static void test_name(void **state)
{
    (void)state;
    static const struct {
        const char *world;
        uint64_t generation, sequence;
        const char *name;
    } cases[] = {
        {"w", 1, 1, "w-000001-00000001-20231114T221320Z"},
        {"s8", 999999, 99999999, "s8-999999-99999999-20231114T221320Z"},
        {"s8", 1000000, 100000000, "s8-1000000-100000000-20231114T221320Z"},
        {"a-000001", 2, 3, "a-000001-000002-00000003-20231114T221320Z"},
        {"a-000001-00000002", 3, 4, "a-000001-00000002-000003-00000004-20231114T221320Z"},
        {"20231114-221320_z", 0, 0, "20231114-221320_z-000000-00000000-20231114T221320Z"},
        {"abcdefghijklmnopqrstuvwxyz012345", 1, 1,
         "abcdefghijklmnopqrstuvwxyz012345-000001-00000001-20231114T221320Z"},
        {"w", 999999999999999999, 999999999999999999,
         "w-999999999999999999-999999999999999999-20231114T221320Z"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct manifest m;
        uint64_t generation, sequence;
        kit_manifest(&m, cases[i].world, cases[i].generation, cases[i].sequence);
        assert_string_equal(m.name, cases[i].name);
        for (size_t k = 0; k < COUNT(cases); k++) { /* nobody else's */
            bool own = strcmp(cases[k].world, cases[i].world) == 0;
            size_t len = manifest_parse_name(m.name, cases[k].world, &generation, &sequence);
            assert_int_equal(len, own ? strlen(m.name) : 0);
            if (own) {
                assert_int_equal(generation, cases[i].generation);
                assert_int_equal(sequence, cases[i].sequence);
            }
        }
        manifest_free(&m);
    }
}

static void test_parse_name(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        size_t len; /* 0: none of world "w" */
    } cases[] = {
        {"w-000001-00000002-20240101T000000Z", 34},
        {"w-000001-00000002-20240101T000000Z.sql.gz", 34},
        {"w-000001-00000002-20240101T000000Z.sql.gz.part", 34},
        {"w-000001-00000002-20240101T000000Z.json", 34},
        {"w-000001-00000002-20240101T000000Z~", 34},
        {"w-000001-00000002-20240101T000000Z/../x", 34},
        {"w-00001-00000002-20240101T000000Z", 0},
        {"w-000001-0000002-20240101T000000Z", 0},
        {"w-000001-00000002-2024010T000000Z", 0},
        {"w-000001-00000002-202401010T00000Z", 0},
        {"w-000001-00000002-20240101T00000Z", 0},
        {"w-000001-00000002-20240101T0000000Z", 0},
        {"w-000001-00000002-20240101t000000z", 0},
        {"w-000001-00000002-20240101T000000", 0},
        {"w-000001-00000002-", 0},
        {"w-000001-00000002", 0},
        {"w-000001-", 0},
        {"w-000001", 0},
        {"w-", 0},
        {"w", 0},
        {"", 0},
        {"w_000001-00000002-20240101T000000Z", 0},
        {"w-+00001-00000002-20240101T000000Z", 0},
        {"w-00000a-00000002-20240101T000000Z", 0},
        {"w- 00001-00000002-20240101T000000Z", 0},
        {"W-000001-00000002-20240101T000000Z", 0},
        {"ww-000001-00000002-20240101T000000Z", 0},
        {"w-w-000001-00000002-20240101T000000Z", 0},
        {".w-000001-00000002-20240101T000000Z.json.new", 0},
        {"w-1000000000000000000-00000002-20240101T000000Z", 0},
        {"w-000001-1000000000000000000-20240101T000000Z", 0},
        {"conflict-000001-20240101T000000Z.sql.gz", 0},
        {"state.json", 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t generation = 0, sequence = 0;
        size_t len = manifest_parse_name(cases[i].file, "w", &generation, &sequence);
        if (len != cases[i].len || (len && (generation != 1 || sequence != 2)))
            fail_msg("%s: %zu, %" PRIu64 ", %" PRIu64, cases[i].file, len, generation, sequence);
    }
}

static void test_compare(void **state)
{
    (void)state;
    static const uint64_t order[][2] = {{0, 9},          {1, 1}, {1, 2},
                                        {1, UINT64_MAX}, {2, 1}, {UINT64_MAX, 0}};
    for (size_t i = 0; i < COUNT(order); i++)
        for (size_t k = 0; k < COUNT(order); k++) {
            struct manifest a = {
                .generation = order[i][0], .sequence = order[i][1], .at = {(int64_t)k}};
            struct manifest b = {
                .generation = order[k][0], .sequence = order[k][1], .at = {(int64_t)i}};
            assert_int_equal(manifest_compare(&a, &b), i < k ? -1 : i > k);
        }
}

/* ---- round trip ---- */

static void same_table(const struct manifest_table *a, const struct manifest_table *b)
{
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->engine, b->engine);
    assert_string_equal(a->columns_hash, b->columns_hash);
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->bytes, b->bytes);
    assert_true(a->rows_hash == b->rows_hash);
    assert_int_equal(a->offset, b->offset);
    assert_int_equal(a->length, b->length);
    assert_true(a->auto_increment == b->auto_increment);
    assert_true(a->data_length == b->data_length);
    assert_true(a->index_length == b->index_length);
    assert_true(a->max_data_length == b->max_data_length);
}

static void same(const struct manifest *a, const struct manifest *b)
{
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->world, b->world);
    assert_string_equal(a->schema, b->schema);
    assert_int_equal(manifest_compare(a, b), 0);
    assert_int_equal(a->at.ms, b->at.ms);
    assert_int_equal(a->took_ms, b->took_ms);
    assert_memory_equal(&a->server, &b->server, sizeof a->server);
    assert_string_equal(a->start.file, b->start.file);
    assert_string_equal(a->start.gtid, b->start.gtid);
    assert_int_equal(a->start.pos, b->start.pos);
    assert_string_equal(a->end.file, b->end.file);
    assert_string_equal(a->nonce, b->nonce);
    assert_string_equal(a->method, b->method);
    assert_string_equal(a->sha256, b->sha256);
    assert_string_equal(a->rejected, b->rejected);
    assert_string_equal(a->warning, b->warning);
    assert_int_equal(a->all, b->all);
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->bytes, b->bytes);
    assert_int_equal(a->file_size, b->file_size);
    assert_int_equal(a->table_count, b->table_count);
    for (size_t i = 0; i < b->table_count; i++)
        same_table(&a->tables[i], &b->tables[i]);
}

static void round_trip(const struct manifest *m)
{
    struct manifest back = {0};
    struct err e = {0};
    if (manifest_write(kit_dir, m, &e) < 0 || manifest_read(kit_dir, m->name, &back, &e) < 0)
        fail_msg("%s", e.text);
    same(m, &back);
    manifest_free(&back);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct manifest m;
    kit_manifest(&m, "a-000001", 7, 43);
    round_trip(&m);
    m.start = (struct db_binlog_pos){
        .file = "mysql-bin.000042", .pos = 4294967296, .gtid = "0-1-5,1-2-7"};
    m.all = true;
    snprintf(m.rejected, sizeof m.rejected, "0 rows in 'users', previously 50000");
    snprintf(m.warning, sizeof m.warning, "using dump method copy this time: it was altered");
    struct manifest_table *t = &m.tables[1];
    free(t->name);
    t->name = xstrdup("\xc3\xa4\n\"\\`\xf0\x9f\x90\x89");
    t->auto_increment = t->max_data_length = UINT64_MAX;
    t->rows_hash = UINT64_MAX;
    t->offset = t->length = t->bytes = INT64_MAX;
    t->rows = m.rows = INT64_C(1) << 60;
    m.rows += m.tables[0].rows + m.tables[2].rows;
    m.bytes = m.file_size = INT64_MAX;
    round_trip(&m);
    struct stat st;
    char *file = xasprintf("%s.json", m.name);
    assert_int_equal(fstatat(kit_dir, file, &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    free(file);
    manifest_free(&m);
    kit_manifest(&m, "w", 1, 1); /* a world without a table */
    while (m.table_count) {
        free(m.tables[--m.table_count].name);
        free(m.tables[m.table_count].engine);
    }
    m.rows = 0;
    m.nonce[0] = '\0';
    round_trip(&m);
    manifest_free(&m);
}

/* A table that cannot be told must not be left out in silence. */
static void test_not_utf8(void **state)
{
    (void)state;
    struct manifest m;
    struct err e = {0};
    kit_manifest(&m, "w", 1, 1);
    m.tables[1].name[0] = '\xff';
    assert_int_equal(manifest_write(kit_dir, &m, &e), -1);
    assert_string_equal(e.text, "cannot write the manifest: a name is not UTF-8");
    m.tables[1].name[0] = 'e';
    snprintf(m.schema, sizeof m.schema, "\xff");
    assert_int_equal(manifest_write(kit_dir, &m, &e), -1);
    snprintf(m.schema, sizeof m.schema, "game");
    snprintf(m.server.hostname, sizeof m.server.hostname, "h\xff");
    assert_int_equal(manifest_write(kit_dir, &m, &e), 0); /* only told to people */
    snprintf(m.method, sizeof m.method, "\xff");
    assert_int_equal(manifest_write(kit_dir, &m, &e), -1);
    manifest_free(&m);
}

/* What could not be read again is not written. */
static void test_limit(void **state)
{
    (void)state;
    struct manifest m;
    struct err e = {0};
    char *name = xcalloc((1u << 20) + 1, 1);
    const struct kit_table big = {.name = name};
    memset(name, 'n', 1u << 20);
    kit_manifest(&m, "w", 1, 1);
    while (m.table_count < KIT_TABLES + 15)
        kit_add_table(&m, &big);
    round_trip(&m);
    kit_add_table(&m, &big);
    assert_int_equal(manifest_write(kit_dir, &m, &e), -1);
    assert_string_equal(e.text, "cannot write the manifest: 19 tables are too many for it");
    free(name);
    manifest_free(&m);
}

/* ---- fields ---- */

#define DISAGREE "its name does not match its contents"
#define TABLES "its list of tables is incomplete"
#define FILES "no SHA-256 or file size in it"
#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* `path`: a key, or "tables." and a key of the second table; `value`: JSON, or NULL to leave it
 * out. */
static const struct {
    const char *path, *value, *error; /* error NULL: read all the same */
} fields[] = {
    {"format", NULL, "its format is 0, but this version reads 2"},
    {"format", "-3", "its format is -3, but this version reads 2"},
    {"format", "\"1\"", "its format is 0, but this version reads 2"},
    {"format", "1", NULL},
    {"name", NULL, DISAGREE},
    {"name", "1", DISAGREE},
    {"name", "\"w-000001-00000002-20231114T221320Z\"", DISAGREE},
    {"name", "\"w-000001-00000001-20231114T221320Z.json\"", DISAGREE},
    {"world", NULL, DISAGREE},
    {"world", "\"v\"", DISAGREE},
    {"world", "\"\"", DISAGREE},
    {"world", "\"" HEX64 "\"", DISAGREE},
    {"generation", NULL, DISAGREE},
    {"generation", "2", DISAGREE},
    {"generation", "-1", DISAGREE},
    {"generation", "1.0", DISAGREE},
    {"generation", "\"1\"", DISAGREE},
    {"sequence", NULL, DISAGREE},
    {"sequence", "2", DISAGREE},
    {"sequence", "true", DISAGREE},
    {"at_unix", NULL, "it has no time"},
    {"at_unix", "-1", "it has no time"},
    {"at_unix", "1e300", "it has no time"},
    {"at_unix", "9223372036854775807", "it has no time"},
    {"at_unix", "253402300800", "it has no time"},
    {"sha256", NULL, FILES},
    {"sha256", "\"\"", FILES},
    {"sha256", "1", FILES},
    {"sha256", "\"" HEX64 "0\"", FILES},
    {"sha256", "\"g123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"", FILES},
    {"sha256", "\"0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef\"", FILES},
    {"file_size", NULL, FILES},
    {"file_size", "0", FILES},
    {"file_size", "-5", FILES},
    {"file_size", "1.5", FILES},
    {"nonce", NULL, "it has no nonce"},
    {"nonce", "5", "it has no nonce"},
    {"nonce", "\"0123456789abcdef0123456789abcdef0\"", "it has no nonce"},
    {"server", NULL, "it has no server start time"},
    {"server", "{}", "it has no server start time"},
    {"server", "{\"start\": 0}", "it has no server start time"},
    {"server", "{\"start\": \"1690000000\"}", "it has no server start time"},
    {"server", "{\"start\": 1690000000}", NULL},
    {"rows", NULL, TABLES},
    {"rows", "3", TABLES},
    {"rows", "4.0", TABLES},
    {"rows", "-4", TABLES},
    {"bytes", NULL, TABLES},
    {"bytes", "-1", TABLES},
    {"tables", NULL, TABLES},
    {"tables", "3", TABLES},
    {"tables", "{}", TABLES},
    {"tables", "[]", TABLES},
    {"tables", "[null]", TABLES},
    {"tables", "[{}]", TABLES},
    {"tables.name", NULL, TABLES},
    {"tables.name", "\"\"", TABLES},
    {"tables.name", "7", TABLES},
    {"tables.engine", NULL, TABLES},
    {"tables.engine", "\"\"", TABLES},
    {"tables.rows", NULL, TABLES},
    {"tables.rows", "1", TABLES},
    {"tables.rows", "-1", TABLES},
    {"tables.rows", "\"0\"", TABLES},
    {"tables.bytes", NULL, TABLES},
    {"tables.offset", NULL, TABLES},
    {"tables.length", "-1", TABLES},
    {"tables.rows_hash", NULL, TABLES},
    {"tables.rows_hash", "0", TABLES},
    {"tables.rows_hash", "\"0\"", TABLES},
    {"tables.rows_hash", "\"000000000000000x\"", TABLES},
    {"tables.rows_hash", "\"00000000000000000\"", TABLES},
    {"tables.columns_hash", NULL, TABLES},
    {"tables.columns_hash", "\"0123\"", TABLES},
    {"tables.auto_increment", NULL, TABLES},
    {"tables.auto_increment", "\"7\"", TABLES},
    {"tables.data_length", NULL, NULL},
    {"seconds", "1e300", NULL},
    {"seconds", "-1e300", NULL},
    {"seconds", "\"x\"", NULL},
    {"schema", NULL, NULL},
    {"method", "7", NULL},
    {"engines", NULL, NULL},
    {"start_point", "{\"file\": 1, \"pos\": 1e300}", NULL},
    {"end_point", NULL, NULL},
    {"rejected", "5", NULL},
    {"warning", "5", NULL},
    {"later", "\"a key of a later version\"", NULL},
};

static void check_field(json_t *whole, const char *name, size_t i)
{
    json_t *o = json_deep_copy(whole), *in = o;
    const char *key = fields[i].path, *value = fields[i].value;
    struct manifest m;
    struct err e = {0};
    if (text_starts(key, "tables.")) {
        in = json_array_get(json_object_get(o, "tables"), 1);
        key += strlen("tables.");
    }
    if (value)
        json_object_set_new(in, key, json_loads(value, JSON_DECODE_ANY, NULL));
    else
        assert_int_equal(json_object_del(in, key), 0);
    assert_int_equal(manifest_sign(o), 0);
    char *s = json_dumps(o, 0);
    kit_text("w-000001-00000001-20231114T221320Z.json", s);
    int rc = manifest_read(kit_dir, name, &m, &e);
    char *want = xasprintf("manifest %s.json: %s", name, fields[i].error ? fields[i].error : "");
    if (rc != (fields[i].error ? -1 : 0) || (rc < 0 && strcmp(e.text, want) != 0))
        fail_msg("%s %s: %d %s", fields[i].path, value ? value : "left out", rc, rc ? e.text : "");
    if (rc < 0) {
        assert_int_equal(e.cls, ERR_DAMAGED);
        assert_null(m.tables);
    }
    manifest_free(&m);
    free(want);
    free(s);
    json_decref(o);
}

static void test_fields(void **state)
{
    (void)state;
    struct manifest m;
    kit_manifest(&m, "w", 1, 1);
    json_t *whole = manifest_json(&m);
    for (size_t i = 0; i < COUNT(fields); i++)
        check_field(whole, m.name, i);
    json_decref(whole);
    manifest_free(&m);
}

/* What was changed without a new checksum, or has none, is refused; the format before had none. */
static void test_checksum(void **state)
{
    (void)state;
    struct manifest m, back;
    struct err e = {0};
    kit_manifest(&m, "w", 1, 1);
    json_t *o = manifest_json(&m);
    for (int i = 0; i < 6; i++) {
        json_object_set_new(o, "format", json_integer(i == 5 ? 1 : 2));
        json_object_set_new(o, "schema", json_string(i == 1 ? "other" : "game"));
        if (i == 0 || i == 4)
            assert_int_equal(manifest_sign(o), 0);
        if (i == 2)
            json_object_set_new(o, "checksum", json_string(HEX64));
        if (i == 3)
            json_object_del(o, "checksum");
        char *s = json_dumps(o, i == 4 ? JSON_INDENT(7) : JSON_SORT_KEYS);
        kit_text("w-000001-00000001-20231114T221320Z.json", s);
        int rc = manifest_read(kit_dir, m.name, &back, &e);
        assert_int_equal(rc, i == 0 || i > 3 ? 0 : -1);
        if (rc < 0)
            assert_non_null(strstr(e.text, "its checksum is wrong"));
        manifest_free(&back);
        free(s);
    }
    json_decref(o);
    manifest_free(&m);
}

/* ---- files ---- */

static void test_files(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "{",
                                        "[]",
                                        "1",
                                        "null",
                                        "\"x\"",
                                        "{}x",
                                        "{} {}",
                                        "\xff",
                                        "{\"\":}",
                                        "{\"format\":1,\"format\":1}",
                                        "{\"name\": \"\\u0000\"}"};
    struct manifest m;
    struct err e = {0};
    for (size_t i = 0; i < COUNT(texts); i++) {
        kit_text("w.json", texts[i]);
        assert_int_equal(manifest_read(kit_dir, "w", &m, &e), -1);
        assert_int_equal(e.cls, ERR_DAMAGED);
        assert_true(text_starts(e.text, "manifest w.json: "));
    }
    assert_int_equal(manifest_read(kit_dir, "none", &m, &e), -1);
    assert_int_equal(e.num, ENOENT);
    assert_int_equal(symlinkat("w.json", kit_dir, "link.json"), 0);
    assert_int_equal(manifest_read(kit_dir, "link", &m, &e), -1);
    assert_int_equal(e.num, ELOOP);
    int fd = kit_create("big.json");
    assert_int_equal(ftruncate(fd, MANIFEST_MAX + 1), 0);
    close(fd);
    assert_int_equal(manifest_read(kit_dir, "big", &m, &e), -1);
    assert_int_equal(e.num, EFBIG);
    assert_null(m.tables);
}

/* No beginning of a manifest is one. */
static void test_cut(void **state)
{
    (void)state;
    struct manifest m, back = {0};
    size_t len;
    kit_manifest(&m, "w", 1, 1);
    json_t *o = manifest_json(&m);
    char *s = json_dumps(o, JSON_COMPACT);
    char *file = xasprintf("%s.json", m.name);
    len = strlen(s);
    for (size_t cut = 0; cut < len; cut++) {
        struct err e = {0};
        kit_put(file, s, cut);
        assert_int_equal(manifest_read(kit_dir, m.name, &back, &e), -1);
        assert_int_equal(e.cls, ERR_DAMAGED);
    }
    free(file);
    free(s);
    json_decref(o);
    manifest_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_name),
        cmocka_unit_test(test_parse_name),
        cmocka_unit_test(test_compare),
        cmocka_unit_test_teardown(test_round_trip, kit_clean),
        cmocka_unit_test_teardown(test_not_utf8, kit_clean),
        cmocka_unit_test_teardown(test_limit, kit_clean),
        cmocka_unit_test_teardown(test_fields, kit_clean),
        cmocka_unit_test_teardown(test_checksum, kit_clean),
        cmocka_unit_test_teardown(test_files, kit_clean),
        cmocka_unit_test_teardown(test_cut, kit_clean),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
