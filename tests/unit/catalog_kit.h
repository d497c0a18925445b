/* Dumps in a directory by their numbers alone, as the tests of the catalog want them. */
#ifndef WK_TESTS_CATALOG_KIT_H
#define WK_TESTS_CATALOG_KIT_H

#include <inttypes.h>

#include "dump_kit.h"
#include "fake_clock.h"
#include "store/catalog.h"

static inline char *name_of(uint64_t generation, uint64_t sequence, const char *ending)
{
    struct manifest m = {
        .world = "w", .generation = generation, .sequence = sequence, .at = {fake_wall_ms}};
    manifest_name(&m);
    return xasprintf("%s%s", m.name, ending);
}

/* A dump of `size` bytes that nobody reads here, made at the false clock's time. */
static inline void add(uint64_t generation, uint64_t sequence)
{
    struct manifest m;
    kit_manifest(&m, "w", generation, sequence);
    m.at.ms = fake_wall_ms;
    m.file_size = 9;
    manifest_name(&m);
    char *gz = xasprintf("%s.sql.gz", m.name);
    kit_text(gz, "nine byte");
    assert_int_equal(manifest_write(kit_dir, &m, NULL), 0);
    free(gz);
    manifest_free(&m);
}

static inline void put(uint64_t generation, uint64_t sequence, const char *ending, const char *text)
{
    char *name = name_of(generation, sequence, ending);
    kit_text(name, text);
    free(name);
}

static inline void reject(uint64_t sequence)
{
    struct manifest m;
    struct err e = {0};
    put(1, sequence, ".sql.gz.part", "nine byte");
    char *part = name_of(1, sequence, ".sql.gz.part"),
         *why = xasprintf("reason %" PRIu64, sequence);
    kit_manifest(&m, "w", 1, sequence);
    m.at.ms = fake_wall_ms;
    m.file_size = 9;
    manifest_name(&m);
    if (catalog_reject(kit_dir, &m, part, why, &e) < 0)
        fail_msg("%s", e.text);
    assert_false(kit_there(part));
    free(part);
    free(why);
    manifest_free(&m);
}

static inline bool there(uint64_t generation, uint64_t sequence, const char *ending)
{
    char *name = name_of(generation, sequence, ending);
    bool yes = kit_there(name);
    free(name);
    return yes;
}

static inline bool dump_there(uint64_t generation, uint64_t sequence)
{
    bool manifest = there(generation, sequence, ".json");
    assert_int_equal(manifest, there(generation, sequence, ".sql.gz")); /* both or none */
    return manifest;
}

static inline void take_away(uint64_t generation, uint64_t sequence, const char *ending)
{
    char *name = name_of(generation, sequence, ending);
    if (unlinkat(kit_dir, name, 0) < 0)
        unlinkat(kit_dir, name, AT_REMOVEDIR);
    free(name);
}

static inline struct catalog load(void)
{
    struct catalog c;
    struct err e = {0};
    if (catalog_load(kit_dir, "w", &c, &e) < 0)
        fail_msg("%s", e.text);
    return c;
}

/* "1.2 1.1! " newest first, ! where not intact, ? where it could not be looked at. */
static inline void expect_these(struct catalog c, const char *want)
{
    struct buf b = {0};
    buf_adds(&b, "");
    for (size_t i = 0; i < c.count; i++) {
        const struct catalog_entry *x = &c.list[i];
        buf_printf(&b, "%" PRIu64 ".%" PRIu64 "%s ", x->m.generation, x->m.sequence,
                   x->intact   ? ""
                   : x->unread ? "?"
                               : "!");
        assert_int_equal(x->intact, x->reason[0] == '\0');
    }
    assert_string_equal(b.p, want);
    buf_free(&b);
    catalog_free(&c);
}

static inline void expect(const char *want)
{
    expect_these(load(), want);
}

static inline void expect_rejected(const char *want)
{
    struct catalog c;
    assert_int_equal(catalog_load_rejected(kit_dir, "w", &c, NULL), 0);
    expect_these(c, want);
}

#endif
