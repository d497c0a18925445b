#include "restore/checks.h"

#include <string.h>

#include "mysql/job.h"
#include "mysql/session.h"
#include "restore/constraints.h"
#include "restore/plan.h"
#include "restore/result.h"
#include "restore/running.h"
#include "sql/literal.h"

/* ER_CHECK_CONSTRAINT_VIOLATED, and ER_DATA_OUT_OF_RANGE of an expression: the difference of two
 * unsigned numbers without NO_UNSIGNED_SUBTRACTION */
#define CHECK_VIOLATED 3819
#define OUT_OF_RANGE 1690

bool checks_refused(struct db *db, const struct err *e)
{
    return !db_is_mariadb(db) && e->cls == ERR_QUERY &&
           (e->num == CHECK_VIOLATED || e->num == OUT_OF_RANGE);
}

/* The SQL modes that change the value of an expression. A mode that is about values when they are
 * stored, such as NO_ZERO_IN_DATE, would change rows while ALTER TABLE copies them. */
#define SERVER_MODE(mode) "IF(FIND_IN_SET('" mode "',@@GLOBAL.sql_mode),'," mode "','')"
#define AS_SERVER                                                                                  \
    "SET SESSION time_zone=@@GLOBAL.time_zone, sql_mode=CONCAT(" SESSION_SQL_MODE                  \
    "," SERVER_MODE("NO_UNSIGNED_SUBTRACTION") "," SERVER_MODE(                                    \
        "PAD_CHAR_TO_FULL_LENGTH") "," SERVER_MODE("TIME_TRUNCATE_FRACTIONAL") ")"
#define AS_OURS "SET SESSION time_zone=" SESSION_TIME_ZONE ", sql_mode=" SESSION_SQL_MODE

int checks_alter(struct db *db, const char *table, const char *change, struct err *e)
{
    static const char alter[] = "ALTER TABLE ?? $";
    /* The server may no longer know the time zone that it was given. */
    bool set = db_exec(db, AS_SERVER, e) == 0;
    if (!set && db_unanswered(e))
        return -1;
    int rc = set ? db_exec_with(db, alter, DB_ARGS(table, change), e) : -1;
    if (set && db_exec(db, AS_OURS, rc < 0 ? NULL : e) < 0)
        return -1;
    return rc < 0 && (!set || checks_refused(db, e))
               ? db_exec_with(db, alter, DB_ARGS(table, change), e)
               : rc;
}

int checks_utf8(struct db *db, bool on, int rc, struct err *e)
{
    const char *set = on ? "SET NAMES utf8mb4" : "SET NAMES binary";
    return db_exec(db, set, rc < 0 ? NULL : e) < 0 ? -1 : rc;
}

int checks_off(const struct shadow_session *s, struct target *t, const char *was, struct err *e)
{
    SCOPED(xfree) char *now = db_create_table(s->db, s->plan->schema, t->shadow, e);
    SCOPED(buf_free) struct buf change = {0};
    if (!now)
        return -1;
    names_free(&t->enforced);
    names_free(&t->enforced_named);
    constraints_enforced(now, was, &t->enforced, &t->enforced_named);
    for (size_t i = 0; i < t->enforced.count; i++)
        constraints_enforce(&change, t->enforced.list[i], false);
    if (!change.len)
        return 0;
    int rc = checks_utf8(s->db, true, 0, e);
    if (rc == 0)
        rc = db_exec_with(s->db, "ALTER TABLE ?? $", DB_ARGS(t->shadow, change.p), e);
    return checks_utf8(s->db, false, rc, e);
}

/* Enforces those constraints together that the server accepts, because ALTER copies the table. */
static int enforce_all(struct db *db, const char *table, const struct names *list,
                       const struct names *named, struct names *left, struct err *e)
{
    SCOPED(buf_free) struct buf change = {0};
    struct err why = {0};
    for (size_t i = 0; i < list->count; i++)
        constraints_enforce(&change, list->list[i], true);
    if (!change.len || checks_alter(db, table, change.p, &why) == 0)
        return 0;
    if (!checks_refused(db, &why))
        return err_pass(e, &why);
    for (size_t i = 0; i < list->count; i++) {
        buf_clear(&change);
        constraints_enforce(&change, list->list[i], true);
        if (list->count > 1 && checks_alter(db, table, change.p, &why) == 0)
            continue;
        if (!checks_refused(db, &why))
            return err_pass(e, &why);
        names_add(left, named->list[i]);
    }
    return 0;
}

int checks_enforce(struct db *db, const char *table, const struct names *list,
                   const struct names *named, struct names *left, struct err *e)
{
    int rc = checks_utf8(db, true, 0, e);
    if (rc == 0)
        rc = enforce_all(db, table, list, named, left, e);
    return checks_utf8(db, false, rc, e);
}

int checks_on(const struct shadow_session *s, struct target *t, struct err *e)
{
    names_free(&t->unenforced);
    return checks_enforce(s->db, t->shadow, &t->enforced, &t->enforced_named, &t->unenforced, e);
}

/* `table`: quoted */
static void describe_check(struct buf *out, const char *table, const char *name)
{
    SCOPED(buf_free) struct buf alter = {0};
    sql_fill(&alter, "ALTER TABLE $ ALTER CHECK ?? ENFORCED", DB_ARGS(table, name));
    buf_adds(out, "a CHECK is not enforced, because rows violate it in this server's time zone and "
                  "SQL mode; in a session like those of the game: ");
    text_clean(out, alter.p, 400);
}

void checks_describe(struct buf *out, const char *table, const char *name)
{
    SCOPED(buf_free) struct buf shown = {0};
    sql_ident(&shown, table);
    describe_check(out, shown.p, name);
}

bool checks_table(const struct restore *r, const char *table, struct buf *out)
{
    if (restore_is(r)->swaps)
        sql_ident(out, table);
    else if (r->opt->mode == RESTORE_SCRATCH)
        sql_ident2(out, r->schema, table);
    return out->len > 0;
}

void checks_warn(struct restore *r, const char *table, const char *name)
{
    SCOPED(buf_free) struct buf text = {0}, shown = {0};
    if (!checks_table(r, table, &shown))
        return;
    describe_check(&text, shown.p, name);
    result_warn(r->out, "%s", text.p);
}

void checks_warn_all(struct restore *r)
{
    for (size_t i = 0; i < r->plan.count; i++) {
        const struct target *t = &r->plan.list[i];
        for (size_t k = 0; k < t->unenforced.count && !t->skip; k++)
            checks_warn(r, t->name, t->unenforced.list[k]);
    }
}
