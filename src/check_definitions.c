#include "check.h"

#include <stdlib.h>

/* Views, triggers, events, routines and libraries: what of them a dump holds, and what the account
 * may not see. */
static const struct {
    enum db_kind kind;
    const char *many, *right; /* right: on the schema; NULL: see routine_grant() */
} kinds[] = {
    {DB_VIEW, "views", "SHOW VIEW"},
    {DB_TRIGGER, "triggers", "TRIGGER"},
    {DB_EVENT, "events", "EVENT"},
    {DB_FUNCTION, "functions", NULL},
    {DB_LIBRARY, "libraries", NULL},
    {DB_PACKAGE, "packages", NULL},
    {DB_PACKAGE_BODY, "bodies of packages", NULL},
    {DB_PROCEDURE, "procedures", NULL},
};

static bool has(const struct check *c, const char *right)
{
    return grants_have(&c->grants, c->cfg->schema, right);
}

/* Who may read the bodies of routines is a right of its own on each server. */
static bool routines_readable(const struct check *c)
{
    return has(c, "SHOW CREATE ROUTINE") || grants_have(&c->grants, NULL, "SHOW_ROUTINE") ||
           grants_have(&c->grants, NULL, "SELECT") ||
           grants_have_table(&c->grants, "mysql", "proc", "SELECT");
}

static void routine_grant(const struct check *c, struct buf *b)
{
    if (!db_is_mariadb(c->db))
        buf_adds(b, "GRANT SHOW_ROUTINE ON *.* TO ");
    else if (strtod(c->server.version, NULL) >= 11.3)
        buf_adds(b, "GRANT SHOW CREATE ROUTINE ON *.* TO ");
    else
        buf_adds(b, "GRANT SELECT ON `mysql`.`proc` TO ");
    doctor_account(b, c->session.account);
    buf_addc(b, ';');
}

static void kind_hint(struct check *c, size_t i, const char *before)
{
    struct buf b = {0};
    if (!kinds[i].right)
        routine_grant(c, &b);
    else if (!has(c, kinds[i].right))
        check_schema_grant(c, &b);
    if (b.len)
        check_hint(c, "%s%s", before, b.p);
    else
        check_hint(c, "SHOW CREATE says why: what it needs may be gone");
    buf_free(&b);
}

static size_t unreadable(struct check *c, enum db_kind kind, const struct db_names *names,
                         const char **first)
{
    size_t n = 0;
    for (size_t i = 0; i < names->count; i++) {
        struct db_definition d;
        struct err ignored;
        bool read =
            db_definition(c->db, c->cfg->schema, kind, names->list[i], &d, &ignored) == 0 && d.sql;
        if (!read && n++ == 0)
            *first = names->list[i];
        db_definition_free(&d);
    }
    return n;
}

/* What the server does not show to this account at all cannot be counted, only named. */
static bool may_be_hidden(const struct check *c, size_t i)
{
    return kinds[i].kind == DB_EVENT ? !has(c, "EVENT") : !kinds[i].right && !routines_readable(c);
}

static bool check_kind(struct check *c, size_t i, size_t *total)
{
    struct db_names names;
    const char *first = NULL;
    if (db_names(c->db, c->cfg->schema, kinds[i].kind, &names, NULL) < 0)
        return true;
    size_t bad = unreadable(c, kinds[i].kind, &names, &first);
    *total += names.count - bad;
    bool quiet = !kinds[i].right && kinds[i].kind != DB_PROCEDURE; /* which say it for all */
    if (bad) {
        check_add(c, CHECK_WARN, "definitions",
                  "%zu of %zu %s are not in dumps, such as %s: they cannot be read", bad,
                  names.count, kinds[i].many, first);
        kind_hint(c, i, "");
    } else if (may_be_hidden(c, i) && !quiet) {
        check_add(c, CHECK_NOTE, "definitions",
                  "%s would not be in dumps: this account may not see any",
                  kinds[i].right ? kinds[i].many : "functions and procedures");
        kind_hint(c, i, "if there are any: ");
    }
    bool good = bad == 0 && !may_be_hidden(c, i);
    db_names_free(&names);
    return good;
}

void check_definitions(struct check *c)
{
    bool good = true;
    size_t total = 0;
    if (c->grants_known && !has(c, "SELECT")) /* nothing can be read, and that was said */
        return;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        good = check_kind(c, i, &total) && good;
    if (good)
        check_add(c, CHECK_OK, "definitions",
                  "%zu views, triggers, events, functions and procedures are in dumps", total);
}
