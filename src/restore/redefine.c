#include "restore/redefine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "db/sql.h"
#include "journal/statement.h"
#include "restore/allowed.h"

#define UNKNOWN_COLLATION 1273
#define OLD_MODE "NO_AUTO_CREATE_USER"
#define NAME_ROOM 280 /* a kind and a name of 64 characters */

struct telling {
    char *told;
    size_t room, failed;
};

void redefine_note(struct redefine *r, const char *sql, size_t len)
{
    r->list = xrealloc(r->list, (r->count + 1) * sizeof *r->list);
    r->list[r->count++] = xstrndup(sql, len);
}

void redefine_free(struct redefine *r)
{
    for (size_t i = 0; i < r->count; i++)
        free(r->list[i]);
    free(r->list);
    *r = (struct redefine){0};
}

/* The table's name in "CREATE DEFINER=`…`@`…` TRIGGER `…` BEFORE INSERT ON `…`"; false: no trigger.
 */
static bool trigger_table(const char *sql, struct buf *out)
{
    static const char front[] = "CREATE DEFINER=", kind[] = " TRIGGER ";
    const char *end = sql + strlen(sql), *s = sql + sizeof front - 1;
    struct buf name = {0};
    if (!text_starts(sql, front))
        return false;
    s = sql_read_ident(s, end, &name);
    if (s && *s == '@')
        s = sql_read_ident(s + 1, end, &name);
    s = s && text_starts(s, kind) ? sql_read_ident(s + sizeof kind - 1, end, &name) : NULL;
    s = s ? strstr(s, " ON `") : NULL;
    buf_free(&name);
    buf_clear(out);
    return s && sql_read_ident(s + strlen(" ON "), end, out);
}

void redefine_triggers(struct redefine *r, bool (*of)(const void *arg, const char *table),
                       const void *arg)
{
    struct redefine out = {0};
    struct buf table = {0};
    size_t group = 0; /* its settings begin there */
    for (size_t i = 0; i < r->count; i++) {
        if (text_starts(r->list[i], "SET NAMES "))
            group = i;
        if (!trigger_table(r->list[i], &table) || !of(arg, table.p))
            continue;
        for (; group <= i; group++)
            if (!text_starts(r->list[group], "DROP "))
                redefine_note(&out, r->list[group], strlen(r->list[group]));
    }
    buf_free(&table);
    redefine_free(r);
    *r = out;
}

char *redefine_mode(const char *sql)
{
    char *out = xstrdup(sql), *at = strstr(out, OLD_MODE);
    size_t n = strlen(OLD_MODE);
    if (!at)
        return out;
    if (at[n] == ',')
        n++;
    else if (at > out && at[-1] == ',')
        at--, n++;
    memmove(at, at + n, strlen(at + n) + 1);
    return out;
}

static bool sets(const char *sql)
{
    return text_starts(sql, "SET ");
}

/* A collation that this server has not compares literals of the text, and nothing that is stored.
 */
static int set_charset_only(struct db *db, const char *sql, struct err *e)
{
    const char *comma = strstr(sql, ", collation_connection=");
    return comma ? db_exec_len(db, sql, (size_t)(comma - sql), e) : -1;
}

static void tell_collation(struct telling *t, const struct err *e)
{
    if (!t->told[0])
        snprintf(t->told, t->room,
                 "definitions compare texts of their own by this server's default: %.200s",
                 e->text);
}

static int run_set(struct db *db, const char *sql, struct telling *t, struct err *e)
{
    struct err first;
    char *mode =
        text_starts(sql, "SET sql_mode=") && !db_is_mariadb(db) ? redefine_mode(sql) : NULL;
    int rc = db_exec(db, mode ? mode : sql, e);
    free(mode);
    if (rc == 0 || e->num != UNKNOWN_COLLATION)
        return rc;
    first = *e;
    rc = set_charset_only(db, sql, e);
    if (rc == 0)
        tell_collation(t, &first);
    return rc;
}

static bool drops(const char *sql)
{
    return text_starts(sql, "DROP ");
}

/* What the statement is about, as the DROP in front of each CREATE has it: VIEW `name`. */
static void name_of(const struct redefine *r, size_t i, char *out, size_t room)
{
    static const char if_exists[] = " IF EXISTS";
    const char *at;
    while (i + 1 < r->count && sets(r->list[i]))
        i++;
    if (i > 0 && !drops(r->list[i]) && drops(r->list[i - 1]))
        i--;
    const char *sql = r->list[i];
    if (drops(sql) && (at = strstr(sql, if_exists))) {
        const char *kind = sql + strlen("DROP "), *name = at + strlen(if_exists);
        snprintf(out, room, "%.*s%s", (int)(at - kind), kind, name);
    } else {
        statement_brief(sql, strlen(sql), out, room);
    }
}

static void tell_failed(struct telling *t, const struct redefine *r, size_t i, const struct err *e)
{
    char name[NAME_ROOM];
    if (t->failed++ > 0)
        return;
    name_of(r, i, name, sizeof name);
    snprintf(t->told, t->room, "a definition was not restored: %s: %.200s", name, e->text);
}

static int refused(struct err *e)
{
    return err_set(e, ERR_REFUSED, 0, "not a definition that a dump of ours holds");
}

/* Each thing has its settings in front, the first of them SET NAMES: without them it would be made
 * as something else, and is not. */
void redefine_run(struct db *db, const struct redefine *r, char *told, size_t room)
{
    struct telling t = {told, room, 0};
    struct err e;
    bool skip = false;
    told[0] = '\0';
    for (size_t i = 0; i < r->count; i++) {
        const char *sql = r->list[i];
        if (text_starts(sql, "SET NAMES "))
            skip = false;
        if (skip)
            continue;
        int rc = !allowed_definition(sql) ? refused(&e)
                 : sets(sql)              ? run_set(db, sql, &t, &e)
                                          : db_exec(db, sql, &e);
        if (rc < 0)
            tell_failed(&t, r, i, &e);
        skip = rc < 0 && sets(sql);
    }
    size_t n = strlen(told);
    if (t.failed > 1)
        snprintf(told + n, room - n, " (and %zu more)", t.failed - 1);
    if (r->count && db_as_usual(db, &e) < 0)
        snprintf(told, room, "%.400s", e.text);
}
