/* The privilege that each feature needs, by version: names, privileges that imply them, and the
 * manual. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "sql/privileges.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char *const versions[] = {"10.5.29-MariaDB",
                                       "10.6.23-MariaDB",
                                       "10.11.19-MariaDB",
                                       "11.4.9-MariaDB",
                                       "11.8.9-MariaDB",
                                       "12.3.1-MariaDB",
                                       "8.0.19",
                                       "8.0.43",
                                       "8.2.0",
                                       "8.4.7",
                                       "9.7.4"};
#define VERSIONS COUNT(versions)

static struct server_version at(size_t i)
{
    return server_version_of(versions[i]);
}

/* Names in the order of `versions`. */
static void test_names(void **state)
{
    (void)state;
    static const struct {
        enum server_privilege privilege;
        const char *name[VERSIONS];
    } cases[] = {
        {MAY_ASK_LOG,
         {"BINLOG MONITOR", "BINLOG MONITOR", "BINLOG MONITOR", "BINLOG MONITOR", "BINLOG MONITOR",
          "BINLOG MONITOR", "REPLICATION CLIENT", "REPLICATION CLIENT", "REPLICATION CLIENT",
          "REPLICATION CLIENT", "REPLICATION CLIENT"}},
        {MAY_NAME_DEFINER,
         {"SET USER", "SET USER", "SET USER", "SET USER", "SET USER", "SET USER", "SET_USER_ID",
          "SET_USER_ID", "SET_ANY_DEFINER", "SET_ANY_DEFINER", "SET_ANY_DEFINER"}},
        {MAY_NAME_MISSING,
         {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "ALLOW_NONEXISTENT_DEFINER",
          "ALLOW_NONEXISTENT_DEFINER", "ALLOW_NONEXISTENT_DEFINER"}},
        {MAY_READ_ROUTINES,
         {"SELECT", "SELECT", "SELECT", "SHOW CREATE ROUTINE", "SHOW CREATE ROUTINE",
          "SHOW CREATE ROUTINE", "SELECT", "SHOW_ROUTINE", "SHOW_ROUTINE", "SHOW_ROUTINE",
          "SHOW_ROUTINE"}},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t v = 0; v < VERSIONS; v++) {
            const char *name = server_privilege(at(v), cases[i].privilege);
            const char *want = cases[i].name[v];
            if (!name != !want || (name && strcmp(name, want) != 0))
                fail_msg("%s: %s, not %s", versions[v], name ? name : "none", want ? want : "none");
        }
    assert_string_equal(server_privilege_on(at(0), MAY_READ_ROUTINES), "`mysql`.`proc`");
    assert_string_equal(server_privilege_on(at(4), MAY_READ_ROUTINES), "*.*");
}

static bool may(size_t v, const char *granted, enum server_privilege p)
{
    struct grants g = {0};
    char *line = xasprintf("GRANT %s TO `k`@`localhost`", granted);
    assert_int_equal(grants_add(&g, line), 0);
    bool held = server_may(&g, at(v), p);
    grants_free(&g);
    free(line);
    return held;
}

/* What SUPER stands for, as it was found by trying on 10.5, 10.11, 11.8 and 9.7: a bit for each
 * version. */
static void test_super(void **state)
{
    (void)state;
    static const struct {
        enum server_privilege privilege;
        const char *held; /* a letter for each version */
    } cases[] = {
        {MAY_READ_LOG, "--- --- --- --"},        {MAY_ASK_LOG, "yyy --- yyy yy"},
        {MAY_NAME_DEFINER, "yyy --- yyy yy"},    {MAY_NAME_SYSTEM, "yyy yyy --- --"},
        {MAY_NAME_MISSING, "yyy yyy yyy yy"},    {MAY_SKIP_TRUST, "yyy yyy yyy yy"},
        {MAY_SKIP_LOG, "yyy --- yyy yy"},        {MAY_WRITE_READ_ONLY, "yy- --- yyy yy"},
        {MAY_LEAVE_KEYS, "yyy yyy yyy yy"},      {MAY_READ_ROUTINES, "--- --- --- --"},
        {MAY_LEAVE_CLUSTER, "yyy yyy yyy yy"},   {MAY_SEE_SESSIONS, "--- --- --- --"},
        {MAY_LIST_LOCKS, "yyy yyy --- --"},      {MAY_LIST_THREADS, "yyy yyy --- --"},
        {MAY_READ_STATEMENTS, "yyy yyy --- --"}, {MAY_END_SESSIONS, "yyy --- yyy yy"},
    };
    assert_int_equal(COUNT(cases), SERVER_PRIVILEGES);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *s = cases[i].held;
        for (size_t v = 0; v < VERSIONS; v++, s++) {
            s += *s == ' ';
            if (may(v, "SUPER ON *.*", cases[i].privilege) != (*s == 'y'))
                fail_msg("%s: SUPER and \"%s\"", versions[v],
                         server_privilege_use(cases[i].privilege));
        }
    }
}

/* In each version the privileges that a hint names are enough. No privilege at all is not
 * enough, and neither are all privileges on a schema. */
static void test_granted(void **state)
{
    (void)state;
    for (enum server_privilege p = 0; p < SERVER_PRIVILEGES; p++)
        for (size_t v = 0; v < VERSIONS; v++) {
            const char *name = server_privilege(at(v), p);
            if (!name) {
                assert_true(may(v, "USAGE ON *.*", p));
                continue;
            }
            SCOPED(xfree) char *grant = xasprintf("%s ON %s", name, server_privilege_on(at(v), p));
            assert_true(may(v, grant, p));
            assert_true(may(v, "ALL PRIVILEGES ON *.*", p));
            assert_false(may(v, "USAGE ON *.*", p));
            assert_false(may(v, "ALL PRIVILEGES ON `game`.*", p));
        }
    assert_true(may(10, "SYSTEM_VARIABLES_ADMIN ON *.*", MAY_SKIP_LOG));
    assert_true(may(8, "SET_USER_ID ON *.*", MAY_NAME_MISSING));
    assert_false(may(10, "SET_USER_ID ON *.*", MAY_NAME_DEFINER));
    assert_true(may(4, "SELECT ON `mysql`.`proc`", MAY_READ_ROUTINES));
    assert_true(may(4, "REPLICATION REPLICA ON *.*", MAY_READ_LOG)); /* another word for it */
}

static void test_definers(void **state)
{
    (void)state;
    static const struct {
        size_t version;
        const char *definer, *denied;
        int list[DEFINER_PRIVILEGES];
    } cases[] = {
        {4, "root@localhost", "you need the SET USER privilege(s)", {MAY_NAME_DEFINER, -1}},
        {10, "ann@%", NULL, {MAY_NAME_DEFINER, -1}},
        {10, "root@localhost", NULL, {MAY_NAME_DEFINER, MAY_NAME_SYSTEM, -1}},
        {10, "ann@%", "need the SYSTEM_USER privilege", {MAY_NAME_DEFINER, MAY_NAME_SYSTEM, -1}},
        {10,
         "ann@%",
         "need SUPER or ALLOW_NONEXISTENT_DEFINER",
         {MAY_NAME_DEFINER, MAY_NAME_MISSING, -1}},
        {7, "ann@%", "SUPER or SET_USER_ID", {MAY_NAME_DEFINER, -1}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        int list[DEFINER_PRIVILEGES];
        server_definer_privileges(at(cases[i].version), cases[i].definer, cases[i].denied, list);
        for (size_t k = 0; k < DEFINER_PRIVILEGES; k++) {
            assert_int_equal(list[k], cases[i].list[k]);
            if (list[k] < 0)
                break;
        }
    }
}

static bool on_schema(const char *version, const char *name)
{
    const struct schema_privilege *p;
    for (size_t i = 0; (p = schema_privilege(server_version_of(version), i)); i++)
        if (strcmp(p->name, name) == 0)
            return true;
    return false;
}

static void test_on_schema(void **state)
{
    (void)state;
    for (size_t v = 0; v < VERSIONS; v++) {
        assert_true(on_schema(versions[v], "SELECT"));
        assert_true(on_schema(versions[v], "EVENT"));
        assert_int_equal(on_schema(versions[v], "SHOW CREATE ROUTINE"), v >= 3 && v < 6);
    }
}

/* Lines of the manual as one: what it says must not depend on where they break. */
static void test_manual(void **state)
{
    (void)state;
    SCOPED(buf_free) struct buf text = {0};
    struct err e = {0};
    assert_int_equal(file_read(AT_FDCWD, "etc/worldkeeper.8", 1 << 20, &text, &e), 0);
    for (char *s = text.p; *s; s++)
        if (*s == '\n')
            *s = ' ';
    for (enum server_privilege p = 0; p < SERVER_PRIVILEGES; p++) {
        SCOPED(buf_free) struct buf b = {0}, entry = {0};
        server_privilege_words(&b, p);
        buf_printf(&entry, ".It %s %s .", server_privilege_use(p), b.p);
        if (!strstr(text.p, entry.p))
            fail_msg("etc/worldkeeper.8 lacks:\n%s", entry.p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),     cmocka_unit_test(test_super),
        cmocka_unit_test(test_granted),   cmocka_unit_test(test_definers),
        cmocka_unit_test(test_on_schema), cmocka_unit_test(test_manual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
