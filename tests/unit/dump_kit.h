/* A small dump as the program writes one, without a server: its text, its file, its manifest. */
#ifndef WK_TESTS_DUMP_KIT_H
#define WK_TESTS_DUMP_KIT_H

#include "base/gzip.h"
#include "dir_kit.h"
#include "dump/format.h"
#include "dump/parts.h"
#include "sql/literal.h"
#include "store/manifest.h"

/* Columns `id` and `na``me` each. Two rows a statement. */
static const struct kit_table {
    const char *name, *rows[4];
} kit_tables[] = {
    {"users", {"(1,'orc')", "(2,'it\\'s (1,2);\\n')", "(-3,NULL)"}},
    {"empty", {NULL}},
    {"wk`s", {"(7,_latin1'x')"}},
};
#define KIT_TABLES 3
#define KIT_ROWS 4

/* Between the second table and the last. */
static const char kit_definitions[] =
    "DELIMITER ;;\nSET sql_mode='NO_BACKSLASH_ESCAPES';;\n"
    "CREATE TRIGGER `t` BEGIN -- don't;\nSET @a='\\'; SET @b=5--1;;\n"
    "DELIMITER ;\nSET NAMES binary;\n";

static inline const struct db_table *kit_columns(void)
{
    static char id[] = "id", name[] = "na`me", type[] = "int";
    static struct db_column columns[] = {{.name = id, .type = type}, {.name = name, .type = type}};
    static const struct db_table t = {.columns = columns, .column_count = 2};
    return &t;
}

static inline void kit_table_text(struct buf *b, const struct kit_table *t)
{
    struct buf create = {0};
    buf_adds(&create, "CREATE TABLE ");
    sql_ident(&create, t->name);
    buf_adds(&create, " (\n  `id` int COMMENT 'a;b -- ''',\n  `na``me` text\n) ENGINE=MEMORY");
    format_table(b, t->name, create.p);
    for (size_t i = 0; i < COUNT(t->rows) && t->rows[i]; i++) {
        if (i % 2 == 0)
            format_insert(b, t->name, kit_columns());
        buf_printf(b, "%s%s", t->rows[i], i % 2 == 0 && t->rows[i + 1] ? ",\n" : ";\n");
    }
    buf_free(&create);
}

/* i-th part: header, tables, definitions, the last table, trailer. */
#define KIT_PARTS 6
static inline void kit_part(struct buf *b, size_t i)
{
    if (i == 0) {
        format_header(b, 16777216);
        format_keyless(b);
    } else if (i == 3)
        buf_adds(b, kit_definitions);
    else if (i == 5)
        format_trailer(b, KIT_TABLES, KIT_ROWS);
    else
        kit_table_text(b, &kit_tables[i < 3 ? i - 1 : 2]);
}

static inline void kit_dump_text(struct buf *b)
{
    for (size_t i = 0; i < KIT_PARTS; i++)
        kit_part(b, i);
}

static inline void kit_add_table(struct manifest *m, const struct kit_table *t)
{
    static char engine[] = "MEMORY";
    struct db_table columns = *kit_columns();
    columns.engine = engine;
    columns.name = xstrdup(t->name);
    struct manifest_table *x = manifest_add(m, &columns);
    free(columns.name);
    for (; x->rows < COUNT(t->rows) && t->rows[x->rows]; x->rows++)
        x->rows_hash += sql_tuple_hash(t->rows[x->rows], strlen(t->rows[x->rows]));
    m->rows += x->rows;
}

/* All that is known of the small dump before it is written. */
static inline void kit_manifest(struct manifest *m, const char *world, uint64_t generation,
                                uint64_t sequence)
{
    *m = (struct manifest){.generation = generation,
                           .sequence = sequence,
                           .at = {INT64_C(1700000000000)},
                           .took_ms = 1250,
                           .server = {.start = 1690000000,
                                      .uid = "uid",
                                      .hostname = "host",
                                      .datadir = "/var/lib/mysql/",
                                      .version = "10.11.6-MariaDB"},
                           .nonce = "0123456789abcdef0123456789abcdef",
                           .method = "copy",
                           .schema = "game",
                           .bytes = 1,
                           .file_size = 1};
    snprintf(m->world, sizeof m->world, "%s", world);
    memset(m->sha256, 'a', SHA256_HEX - 1);
    manifest_name(m);
    for (size_t i = 0; i < KIT_TABLES; i++)
        kit_add_table(m, &kit_tables[i]);
}

/* Which table of the manifest the i-th part holds; -1: none. */
static inline int kit_part_table(size_t i)
{
    return i == 1 || i == 2 ? (int)i - 1 : i == 4 ? 2 : -1;
}

/* A member for each statement with rows, as the program writes them. */
static inline void kit_members(struct gzip_writer *g, const struct buf *text)
{
    static const char border[] = ";\nINSERT INTO ";
    struct err e = {0};
    struct buf member = {0};
    const char *from = text->p, *end = text->p + text->len;
    while (from < end) {
        const char *at = memmem(from, (size_t)(end - from), border, sizeof border - 1);
        const char *to = at ? at + 2 : end;
        buf_add(&member, from, (size_t)(to - from));
        assert_int_equal(gzip_give(g, 0, &member, &e), 0);
        from = to;
    }
    buf_free(&member);
    assert_int_equal(gzip_flush(g, &e), 0);
}

/* Writes `parts` texts to `file`, and tells the manifest; where they are all parts of the small
 * dump, also where its tables are. */
static inline void kit_store(struct manifest *m, const char *file, const struct buf *parts,
                             size_t count)
{
    struct err e = {0};
    int fd = kit_create(file);
    struct gzip_writer *g = gzip_open(fd, file, 6, &e);
    for (size_t i = 0; i < count; i++) {
        uint64_t before = gzip_packed_bytes(g);
        kit_members(g, &parts[i]);
        if (count != KIT_PARTS || kit_part_table(i) < 0)
            continue;
        struct manifest_table *t = &m->tables[kit_part_table(i)];
        t->offset = before;
        t->length = gzip_packed_bytes(g) - before;
        t->bytes = parts[i].len;
    }
    m->bytes = gzip_plain_bytes(g);
    m->file_size = gzip_packed_bytes(g);
    assert_int_equal(gzip_close(g, m->sha256, &e), 0);
    close(fd);
}

static inline void kit_parts(struct buf parts[KIT_PARTS])
{
    for (size_t i = 0; i < KIT_PARTS; i++) {
        parts[i] = (struct buf){0};
        kit_part(&parts[i], i);
    }
}

static inline void kit_parts_free(struct buf parts[KIT_PARTS])
{
    for (size_t i = 0; i < KIT_PARTS; i++)
        buf_free(&parts[i]);
}

static inline void kit_keep_part(void *list, uint32_t length,
                                 const unsigned char sha256[SHA256_BYTES])
{
    (void)length;
    parts_keep(list, sha256);
}

/* Lists the parts of `file` as it is now, each of `bytes` bytes. */
static inline void kit_list_parts(struct manifest *m, const char *file, uint32_t bytes)
{
    size_t len = 0;
    char *data = kit_get(file, &len);
    free(m->parts.sha256);
    m->parts = (struct manifest_parts){.bytes = bytes};
    struct parts_hash *h = parts_hash_new(bytes, kit_keep_part, &m->parts);
    for (size_t i = 0; i < parts_regions(m); i++) {
        struct parts_region r = parts_region(m, i);
        assert_true(r.to <= len);
        parts_hash_add(h, i, data + r.from, r.to - r.from);
    }
    assert_int_equal(parts_hash_end(h), 0);
    parts_hash_free(h);
    free(data);
}

/* The small dump whole, as "dump", without a list of its parts: as it was before there were any. */
static inline void kit_dump(struct manifest *m)
{
    struct buf parts[KIT_PARTS];
    kit_manifest(m, "w", 1, 1);
    kit_parts(parts);
    kit_store(m, "dump", parts, KIT_PARTS);
    kit_parts_free(parts);
}

#endif
