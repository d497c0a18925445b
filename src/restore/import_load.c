/* The second pass over another tool's file: it carries out the statements on the world's tables, on
 * the shadow tables, from what was parsed of them. */
#include "restore/import_load.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "mysql/job.h"
#include "restore/code.h"
#include "restore/import.h"
#include "restore/import_pass.h"
#include "restore/load.h"
#include "restore/plan.h"
#include "restore/shadow_table.h"
#include "sql/literal.h"

#define INCORRECT_VALUE 1366
#define INVALID_STRING 1300
#define TRUNCATED 1265
#define TOO_LONG 1406 /* the same in a strict mode */
#define UNKNOWN_COLLATION 1273
#define UNKNOWN_CHARSET 1115

struct loading {
    struct import_pass pass;
    struct loader *l;
    struct code *code;
    char sent[FOREIGN_SETTINGS][512]; /* what the server's session has; "?": unknown */
    struct buf scale;                 /* of the table that was altered last */
};

int import_server(struct db *db, struct import_server *out, struct err *e)
{
    SCOPED(xfree) char *mode = db_one(db, "SELECT @@GLOBAL.sql_mode", e);
    SCOPED(xfree) char *zone = mode ? db_one(db, "SELECT @@GLOBAL.time_zone", e) : NULL;
    if (!zone)
        return -1;
    out->version = db_version(db);
    snprintf(out->mode, sizeof out->mode, "%s", mode);
    snprintf(out->zone, sizeof out->zone, "%s", zone);
    return 0;
}

/* ---- the session ---- */

static int send_setting(struct loading *p, int setting, const char *value, struct err *e)
{
    struct db *db = p->l->s.db;
    SCOPED(buf_free) struct buf mode = {0};
    const char *checks = db_word(db, WORD_CHECKS);
    switch (setting) {
    case FOREIGN_NAMES:
        return db_execf(db, e, "SET NAMES %s", value);
    case FOREIGN_MODE:
        foreign_modes(value, &mode);
        return db_execf(db, e, "SET SESSION sql_mode='%s'", mode.p);
    case FOREIGN_ZONE:
        return db_execf(db, e, "SET SESSION time_zone='%s'", value);
    default:
        return checks ? db_exec_with(db, "SET SESSION $=$", DB_ARGS(checks, value), e) : 0;
    }
}

/* Gives the server's session the file's settings before a statement that depends on them.
 * Definitions are sent in UTF-8, whatever the character set of the rows. */
static int send_settings(struct loading *p, bool rows, struct err *e)
{
    for (int i = rows ? 0 : FOREIGN_NAMES + 1; i < FOREIGN_SETTINGS; i++) {
        const char *want = i == FOREIGN_NAMES ? import_names(&p->pass) : p->pass.session.now[i];
        if (strcmp(p->sent[i], want) == 0)
            continue;
        if (send_setting(p, i, want, e) < 0)
            return -1;
        snprintf(p->sent[i], sizeof p->sent[i], "%s", want);
    }
    return 0;
}

/* Notes that the session's character set was changed, because definitions are sent in UTF-8. */
static void names_changed(struct loading *p)
{
    snprintf(p->sent[FOREIGN_NAMES], sizeof p->sent[FOREIGN_NAMES], "?");
}

/* ---- text that the server cannot store ---- */

/* What the server reports about a statement's text; NULL: nothing. */
struct complaint {
    char *value;     /* "Incorrect string value: '\xF3n' for column `s`.`t`.`c` at row 3" */
    char *invalid;   /* MySQL: "Invalid utf8mb4 character string: 'F36E'" */
    char *truncated; /* text that was cut off or refused: "for column 'c' at row 3" */
};

static void free_complaint(struct complaint *c)
{
    free(c->value);
    free(c->invalid);
    free(c->truncated);
}

/* Records an error, or one of the statement's warnings, if it is about text. */
static void note_complaint(struct complaint *c, unsigned num, const char *text)
{
    if (!c->value && num == INCORRECT_VALUE && strstr(text, "Incorrect string value"))
        c->value = xstrdup(strstr(text, "Incorrect string value"));
    if (!c->invalid && num == INVALID_STRING)
        c->invalid = xstrdup(text);
    if (!c->truncated && (num == TRUNCATED || num == TOO_LONG) && strstr(text, "for column"))
        c->truncated = xstrdup(strstr(text, "for column"));
}

static bool is_hex(const char *s)
{
    return isxdigit((unsigned char)s[0]) && isxdigit((unsigned char)s[1]);
}

/* Decodes the bytes of "\xF3n", as far as they are escaped, or of "F36E". Returns their number. */
static size_t bytes_of(const char *s, const char *front, char *out, size_t room)
{
    size_t n = 0, skip = strlen(front);
    for (; n < room && strncmp(s, front, skip) == 0 && is_hex(s + skip); s += skip + 2)
        out[n++] = (char)(text_hex_value(s[skip]) << 4 | text_hex_value(s[skip + 1]));
    return n;
}

/* Returns whether the bytes begin with a complete character of UTF-8. */
static bool is_character(const char *bytes, size_t n)
{
    for (size_t len = 1; len <= n && len <= 4; len++)
        if (text_utf8_valid(bytes, len))
            return true;
    return false;
}

/* Copies the last part of the column's name from the message, and returns the row number. */
static unsigned long column_and_row(const char *message, char column[200])
{
    const char *end = strstr(message, " at row "), *s = end ? end - 2 : message;
    snprintf(column, 200, "?");
    if (!end || s <= message)
        return 0;
    while (s > message && *s != end[-1])
        s--;
    snprintf(column, 200, "%.*s", (int)(end - s - 2), s + 1);
    return strtoul(end + 8, NULL, 10);
}

/* Refuses text of which the server would store a question mark or drop the rest, or whose row it
 * refused in a strict mode. */
static int refuse_text(struct loading *p, const struct import_seen *x, const struct target *t,
                       const struct complaint *c, struct err *e)
{
    const char *names = import_names(&p->pass), *text = c->value ? c->value : c->invalid;
    char bytes[16], column[200], hex[2 * sizeof bytes + 1] = "";
    const char *value = strstr(text, ": '");
    size_t n = value ? bytes_of(value + 3, c->value ? "\\x" : "", bytes, sizeof bytes) : 0;
    unsigned long row = column_and_row(c->value ? c->value : c->truncated, column);
    SCOPED(buf_free) struct buf clean = {0};
    text_clean(&clean, column, 64);
    bool utf8 = strncmp(names, "utf8", 4) == 0 || strcmp(names, "binary") == 0;
    bool lacks = c->value && (!utf8 || is_character(bytes, n));
    n = n < 4 ? n : 4;
    text_hex((const unsigned char *)bytes, n, hex);
    err_set(e, ERR_REFUSED, 0,
            "%s, line %llu: table %s, column %s, row %lu of the statement: byte%s %s %s",
            p->pass.in->name, (unsigned long long)x->st->line, t->name, clean.p, row,
            n > 1 ? "s" : "", hex,
            lacks ? "is a character that the column's character set lacks"
                  : "is not valid in the character set in which the file is read");
    if (lacks)
        return err_hint(e, "change the column to CHARACTER SET utf8mb4, also in the file (the "
                           "stock client would store a question mark)");
    return err_hint(
        e, "the file is read as %s; name its real character set, such as --charset=latin1", names);
}

/* Checks what the server reported about a statement's text. `rc` is the result of the statement. */
static int judge_text(struct loading *p, const struct import_seen *x, const struct target *t,
                      int rc, struct err *e)
{
    SCOPED(free_complaint) struct complaint c = {0};
    struct db *db = p->l->s.db;
    unsigned warnings = db_warnings(db), listed = 0;
    struct err why = {0};
    int got;
    if (rc < 0)
        note_complaint(&c, (unsigned)e->num, e->text);
    if (rc < 0 ? !c.value && !c.truncated : !warnings)
        return rc;
    struct db_rows *rows = db_select(db, "tut", "SHOW WARNINGS", &why);
    while ((got = db_next(rows, &why)) == 1 && ++listed)
        note_complaint(&c, (unsigned)db_uint(rows, 1), db_text(rows, 2));
    db_rows_end(rows);
    if (c.value || (c.invalid && c.truncated))
        return refuse_text(p, x, t, &c, e);
    if (rc < 0 || got < 0)
        return rc < 0 ? rc : err_pass(e, &why);
    if (listed >= warnings)
        return 0;
    err_set(e, ERR_REFUSED, 0,
            "%s, line %llu: the server gave %u warnings for table %s but lists only %u: text may "
            "have been lost",
            p->pass.in->name, (unsigned long long)x->st->line, warnings, t->name, listed);
    return err_hint(e, DB_SET_FOR_GOOD("max_error_count", "65535"));
}

/* ---- definitions ---- */

/* Returns whether the text starts with this name in quotes. */
static bool import_load_quotes(const char *text, const char *name)
{
    size_t n = name ? strlen(name) : 0;
    return n && strncasecmp(text + 1, name, n) == 0 && text[1 + n] == '\'';
}

/* Names the column whose collation or character set this server does not have. */
static int explain_collation(const struct loading *p, const struct sql_table *table, struct err *e)
{
    const char *text = strchr(e->text, '\''), *column = NULL, *name = NULL;
    if ((e->num != UNKNOWN_COLLATION && e->num != UNKNOWN_CHARSET) || !text)
        return -1;
    for (size_t i = 0; i < table->column_count && !name; i++) {
        const struct sql_column *c = &table->columns[i];
        column = c->name;
        name = import_load_quotes(text, c->collation) ? c->collation
               : import_load_quotes(text, c->charset) ? c->charset
                                                      : NULL;
    }
    for (size_t i = 0; i < table->option_count && !name; i++) {
        column = NULL;
        name = import_load_quotes(text, table->options[i].value) ? table->options[i].value : NULL;
    }
    if (!name)
        return -1;
    SCOPED(buf_free) struct buf file = {0};
    buf_shell(&file, p->pass.in->name);
    err_step(e, "table %s, %s%s", table->name, column ? "column " : "its default",
             column ? column : "");
    return err_hint(e, "this server has no %s: sed 's/%s/%s/g' %s > NEW.sql, and restore that",
                    name, name, e->num == UNKNOWN_CHARSET ? "utf8mb4" : "utf8mb4_unicode_ci",
                    file.p);
}

/* Converts the definition to the form of our own dumps: quoted names, backslash escapes. */
static int load_create(struct loading *p, const struct import_seen *x, struct err *e)
{
    SCOPED(sql_table_free) struct sql_table table = {0};
    SCOPED(buf_free) struct buf sql = {0};
    struct target *t = plan_find(p->l->s.plan, x->f.name.p);
    if (!t || t->skip || t->created)
        return 0;
    if (sql_table_read(x->sql, x->len, x->modes, &table, e) < 0 || send_settings(p, false, e) < 0)
        return -1;
    struct sql_table_how how = {.name = t->name, .mariadb = db_is_mariadb(p->l->s.db)};
    sql_table_write(&sql, &table, &how);
    /* The file's own counter is set as the file sets it. A higher counter of a ledger is set at the
     * end. */
    if (t->auto_increment == t->counter)
        t->auto_increment = 0;
    names_changed(p);
    buf_clear(&p->scale);
    if (loader_table(p->l, t->name, sql.p, sql.len, e) < 0)
        return explain_collation(p, &table, e);
    struct sql_table counter = {.auto_increment = table.auto_increment};
    return !plan_defines(p->l->s.plan, t) && counter.auto_increment > 1
               ? shadow_alter(&p->l->s, t, &counter, &p->scale, e)
               : 0;
}

/* Finds the target of a statement, and creates it if necessary. It is NULL without an error if the
 * table is left as it is. */
static int import_load_table_of(struct loading *p, const struct import_seen *x, struct target **out,
                                struct err *e)
{
    struct target *t = plan_find(p->l->s.plan, x->f.name.p);
    *out = p->l->target = t && !t->skip ? t : NULL;
    if (!*out)
        return 0;
    if (t->created || t->defined)
        return t->created ? 0
                          : err_set(e, ERR_DAMAGED, 0, "the file was changed while it was read");
    names_changed(p);
    return loader_table(p->l, t->name, "", 0, e);
}

static int load_alter(struct loading *p, const struct import_seen *x, struct err *e)
{
    SCOPED(sql_table_free) struct sql_table change = {0};
    struct target *t;
    if (import_load_table_of(p, x, &t, e) < 0 || !t)
        return t ? -1 : 0;
    if (sql_alter_read(x->sql, x->len, x->modes, &change, e) < 0 || send_settings(p, false, e) < 0)
        return -1;
    int rc = judge_text(p, x, t, shadow_alter(&p->l->s, t, &change, &p->scale, e), e);
    names_changed(p);
    return rc;
}

/* ---- rows ---- */

static const char *verb_of(const struct foreign *f)
{
    return f->replace ? "REPLACE INTO " : f->ignore ? "INSERT IGNORE INTO " : "INSERT INTO ";
}

/* Loads rows. Their values are sent as they are in the file, after a check that they are only
 * values. */
static int load_rows(struct loading *p, const struct import_seen *x, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    SCOPED(sql_insert_free) struct sql_insert rows = {0};
    struct target *t;
    if (import_load_table_of(p, x, &t, e) < 0 || !t)
        return t ? -1 : 0;
    /* Checked again: the file may have been changed since it was planned. */
    if (import_rows(&p->pass, x, t, &rows, e) < 0)
        return -1;
    /* Without a column list the values are in the order of the file's own definition. The server
     * will refuse a column that the table does not have. */
    char *const *names = rows.listed ? rows.columns : t->columns;
    size_t count = rows.listed ? rows.column_count : t->column_count;
    bool list = rows.listed || t->defined || rows.empty;
    buf_adds(&sql, list ? " (" : "");
    for (size_t i = 0; i < count && !rows.empty; i++) {
        buf_adds(&sql, i ? "," : "");
        sql_ident(&sql, names[i]);
    }
    buf_adds(&sql, list ? ") VALUES " : " VALUES ");
    buf_add(&sql, rows.rows.p, rows.rows.len);
    t->recount |= x->f.ignore || x->f.replace;
    if (send_settings(p, true, e) < 0)
        return -1;
    int rc = loader_insert_raw(p->l, verb_of(&x->f), sql.p, sql.len, e);
    return judge_text(p, x, t, rc, e);
}

static int load_empty(struct loading *p, const struct import_seen *x, struct err *e)
{
    struct target *t;
    if (import_load_table_of(p, x, &t, e) < 0 || !t)
        return t ? -1 : 0;
    return loader_empty(p->l, x->f.truncate, e);
}

static int load_code(struct loading *p, const struct import_seen *x, struct err *e)
{
    (void)e;
    code_note_foreign(p->code, x->sql, x->len);
    return 0;
}

/* Keeps the lock on a shadow table while one INSERT into it follows another. Otherwise tools that
 * write one statement per row would cost two more round trips for each row. */
static int unlock_before(struct loading *p, const struct import_seen *x, struct err *e)
{
    struct target *t = p->l->target;
    bool more = x->f.kind == FOREIGN_ROWS && t && plan_find(p->l->s.plan, x->f.name.p) == t;
    return more ? 0 : loader_unlock(p->l, 0, e);
}

/* Statements that are not loaded were judged in the first pass. */
static int load_statement(void *arg, struct import_seen *x, struct err *e)
{
    static int (*const loads[])(struct loading * p, const struct import_seen *x, struct err *e) = {
        [FOREIGN_TABLE] = load_create, [FOREIGN_ROWS] = load_rows, [FOREIGN_EMPTY] = load_empty,
        [FOREIGN_ALTER] = load_alter,  [FOREIGN_SET] = load_code,  [FOREIGN_CODE] = load_code,
        [FOREIGN_DROP_SCHEMA] = NULL};
    struct loading *p = arg;
    int rc = unlock_before(p, x, e);
    if (rc == 0 && loads[x->f.kind])
        rc = loads[x->f.kind](p, x, e);
    if (rc < 0 && !text_starts(e->text, p->pass.in->name))
        import_step(&p->pass, x, e);
    progress_at(p->l->s.plan->job->progress, *p->l->rows, 0);
    return rc;
}

/* Restores the character set, modes and time zone that all other code expects. */
static int restore_session(struct loading *p, struct err *e)
{
    const char *checks = db_word(p->l->s.db, WORD_CHECKS);
    return db_reset_session(p->l->s.db, e) < 0 ||
                   (checks && db_exec_with(p->l->s.db, "SET SESSION $=0", DB_ARGS(checks), e) < 0)
               ? -1
               : 0;
}

/* Refuses a file whose bytes differ from those that the first pass checked. */
static int check_same(const struct import *in, const struct import_report *report,
                      const struct import_pass *pass, struct err *e)
{
    if (strcmp(pass->reading.sha256, report->sha256) == 0)
        return 0;
    err_set(e, ERR_DAMAGED, 0, "%s was changed while it was read", in->name);
    return err_hint(e, "restore a copy of the file that no program writes");
}

int import_load(const struct import *in, const struct import_report *report, struct loader *l,
                struct code *code, struct err *e)
{
    struct import here = *in;
    struct loading p = {
        .pass = {.in = &here, .plan = l->s.plan, .only = report->schema[0] ? report->schema : NULL},
        .l = l,
        .code = code};
    for (int i = 0; i < FOREIGN_SETTINGS; i++)
        snprintf(p.sent[i], sizeof p.sent[i], "?");
    if (report->utc)
        snprintf(here.server.zone, sizeof here.server.zone, "+00:00");
    /* A warning about a question mark may be one of many, so all are kept. On MySQL that needs a
     * privilege, and its default is higher. */
    int rc = db_is_mariadb(l->s.db) && db_exec(l->s.db, "SET SESSION max_error_count=65535", e) < 0
                 ? -1
                 : import_pass(&p.pass, load_statement, &p, e);
    if (rc == 0)
        rc = check_same(in, report, &p.pass, e);
    rc = loader_unlock(l, rc, e);
    if (restore_session(&p, rc < 0 ? NULL : e) < 0)
        rc = -1;
    if (rc == 0)
        rc = loader_recount(l, e);
    import_pass_free(&p.pass);
    buf_free(&p.scale);
    return rc;
}
