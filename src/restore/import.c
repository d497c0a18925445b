#include "restore/import.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/gzip.h"
#include "sql/literal.h"
#include "dump/format.h"
#include "sql/insert.h"
#include "sql/table.h"
#include "sql/token.h"

#define STATEMENT_MAX (1u << 30) /* as the largest max_allowed_packet */

struct statement {
    const char *sql; /* without leading comments; conditional comments are unwrapped */
    size_t len;
    uint64_t number;
    bool plain; /* the sql_mode in effect has NO_BACKSLASH_ESCAPES */
};
typedef int statement_fn(void *arg, const struct statement *st, struct err *e);

struct source {
    struct gunzip *in;
    const char *name;
    struct buf text, delimiter;
    size_t at;
    bool eof, plain;
    bool open; /* there were statements since the last closing line */
    bool cut;  /* a part began before the previous one was closed */
    bool accept_cut;
    const char *only; /* the schema whose statements are wanted; NULL: all */
    bool elsewhere;   /* after USE of another one */
    uint64_t number;
};

/* The byte 0 at its end is for the string functions. */
static int fill(struct source *s, struct err *e)
{
    if (s->text.len - s->at > STATEMENT_MAX)
        return err_set(e, ERR_DAMAGED, 0, "%s: statement %llu has no end", s->name,
                       (unsigned long long)s->number + 1);
    return format_fill(s->in, &s->text, &s->at, &s->eof, e);
}

/* Skips whitespace, "-- …" lines and comments before a statement. */
static int skip_front(struct source *s, struct err *e)
{
    for (;;) {
        while (s->at < s->text.len && isspace((unsigned char)s->text.p[s->at]))
            s->at++;
        if (s->text.len - s->at < 4096 && !s->eof) {
            if (fill(s, e) < 0)
                return -1;
            continue;
        }
        const char *from = s->text.p + s->at;
        /* MariaDB's sandbox mark is a conditional comment that no server executes. */
        bool comment = text_starts(from, "/*!999999") || text_starts(from, "/*M!999999") ||
                       (text_starts(from, "/*") && from[2] != '!' && from[2] != 'M');
        const char *close = comment ? strstr(from, "*/") : NULL;
        if (close) {
            s->at = (size_t)(close + 2 - s->text.p);
            if (s->text.p[s->at] == ';')
                s->at++;
            continue;
        }
        if (strncmp(from, "--", 2) != 0 && from[0] != '#')
            return 0;
        /* Concatenated files (cat a.sql b.sql) are parts, each with its own opening and closing
         * line. */
        if (text_starts(from, "-- Dump completed") || text_starts(from, FORMAT_TRAILER))
            s->open = false;
        else if (text_starts(from, "-- MySQL dump ") || text_starts(from, "-- MariaDB dump ") ||
                 text_starts(from, FORMAT_MAGIC))
            s->cut |= s->open;
        const char *nl = memchr(from, '\n', s->text.len - s->at);
        s->at = nl ? (size_t)(nl + 1 - s->text.p) : s->text.len;
    }
}

/* 1: there was a DELIMITER line. An empty delimiter is refused: it would match everywhere. */
static int take_delimiter(struct source *s, struct err *e)
{
    const char *from = s->text.p + s->at;
    if (strncasecmp(from, "DELIMITER ", 10) != 0)
        return 0;
    size_t len = strcspn(from, "\r\n");
    if (len == 10)
        return err_set(e, ERR_DAMAGED, 0, "%s: DELIMITER without a delimiter before statement %llu",
                       s->name, (unsigned long long)s->number + 1);
    buf_clear(&s->delimiter);
    buf_add(&s->delimiter, from + 10, len - 10);
    s->at += len;
    return 1;
}

/* "/ *!40101 SET … * /" is a statement for servers from that version on: unwrap it. */
static void open_comment(struct statement *st)
{
    while (st->len > 4 && st->sql[0] == '/' && st->sql[1] == '*' &&
           (st->sql[2] == '!' || (st->sql[2] == 'M' && st->sql[3] == '!'))) {
        const char *end = st->sql + st->len;
        st->sql += st->sql[2] == 'M' ? 4 : 3;
        while (st->sql < end &&
               (isdigit((unsigned char)*st->sql) || isspace((unsigned char)*st->sql)))
            st->sql++;
        st->len = (size_t)(end - st->sql);
        if (st->len >= 2 && memcmp(end - 2, "*/", 2) == 0)
            st->len -= 2;
    }
}

/* 1: a statement; 0: there are no more. The last bytes of the text are held back until more was
 * read, since a delimiter may be cut there. */
static int next_statement(struct source *s, struct statement *st, struct err *e)
{
    struct sql_scan scan = {.plain = s->plain};
    /* done: scanned already, which a longer text need not be again */
    size_t done = 0, hold = s->delimiter.len + 1;
    for (;;) {
        size_t have = s->text.len - s->at, upto = s->eof ? have : have > hold ? have - hold : 0;
        const char *from = s->text.p + s->at, *end = NULL;
        if (upto > done)
            end = sql_find_end(from + done, from + upto, s->delimiter.p, &scan);
        if (end || (s->eof && have && strspn(from, " \r\n\t") < have)) {
            *st =
                (struct statement){from, end ? (size_t)(end - from) : have, ++s->number, s->plain};
            s->at += st->len + (end ? s->delimiter.len : 0);
            if (end) {
                open_comment(st);
                return 1;
            }
            s->cut = true; /* the file ends within a statement, which is left out */
            if (s->accept_cut)
                return 0;
            err_set(e, ERR_DAMAGED, 0, "%s: statement %llu is cut off", s->name,
                    (unsigned long long)s->number);
            return err_hint(e, "--accept-cut restores what is before it");
        }
        if (s->eof)
            return 0;
        done = upto > done ? upto : done;
        if (fill(s, e) < 0)
            return -1;
    }
}

static bool is(const struct statement *st, const char *word)
{
    size_t n = strlen(word);
    return st->len >= n && strncasecmp(st->sql, word, n) == 0;
}

/* The position after a word of the statement; NULL: it is not there. */
static const char *after_word(const struct statement *st, const char *word)
{
    size_t n = strlen(word);
    for (const char *s = st->sql; s + n <= st->sql + st->len; s++)
        if (strncasecmp(s, word, n) == 0)
            return s + n;
    return NULL;
}

/* The table's name after `word`, quoted or bare (--skip-quote-names). Returns what follows it; NULL
 * if that names a schema, or nothing follows. */
static const char *name_after(const struct statement *st, const char *word, struct buf *name)
{
    struct sql_text text = {.s = st->sql + strlen(word), .end = st->sql + st->len};
    struct sql_token t;
    sql_next(&text, &t);
    if (sql_is(&t, "IF")) { /* NOT EXISTS */
        sql_next(&text, &t);
        sql_next(&text, &t);
        sql_next(&text, &t);
    }
    bool is = sql_token_name(&t, name);
    return is && text.s < text.end && *text.s != '.' ? text.s : NULL;
}

/* The name after USE, or the text found there. */
static void used_schema(const struct statement *st, struct buf *name)
{
    buf_clear(name);
    if (!name_after(st, "USE ", name) && name->len == 0)
        buf_add(name, st->sql, st->len);
}

/* Calls `fn` for each statement of the wanted schema. SET counts after USE of another schema too,
 * because it changes the session. */
static int each_statement(struct source *s, statement_fn *fn, void *arg, struct err *e)
{
    struct statement st;
    int got;
    for (;;) {
        if (skip_front(s, e) < 0)
            return -1;
        got = take_delimiter(s, e);
        if (got < 0)
            return -1;
        if (got > 0)
            continue;
        if (s->at == s->text.len && s->eof)
            return 0;
        got = next_statement(s, &st, e);
        if (got <= 0)
            return got;
        s->open = true;
        /* A trigger's body is written under its own sql_mode, which decides what a backslash
         * means. */
        if (is(&st, "SET ") && after_word(&st, "sql_mode"))
            s->plain = after_word(&st, "NO_BACKSLASH_ESCAPES") != NULL;
        if (s->only && is(&st, "USE ")) {
            SCOPED(buf_free) struct buf name = {0};
            used_schema(&st, &name);
            s->elsewhere = strcmp(name.p, s->only) != 0;
        }
        if (s->elsewhere && !is(&st, "SET "))
            continue;
        if (fn(arg, &st, e) < 0)
            return -1;
    }
}

/* Reads the file from its start, compressed or plain, as its first two bytes say. */
static int run_source(int fd, const char *name, const char *only, bool accept_cut, statement_fn *fn,
                      void *arg, bool *ends, struct err *e)
{
    unsigned char magic[2] = {0};
    if (lseek(fd, 0, SEEK_SET) < 0 || read(fd, magic, 2) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(e, errno, "cannot read %s", name);
    struct source s = {
        .name = name, .only = only, .elsewhere = only != NULL, .accept_cut = accept_cut};
    buf_adds(&s.delimiter, ";");
    s.in = magic[0] == 0x1f && magic[1] == 0x8b ? gunzip_open(fd, name, e)
                                                : gunzip_open_plain(fd, name, e);
    int rc = s.in ? each_statement(&s, fn, arg, e) : -1;
    *ends = s.number > 0 && !s.open && !s.cut;
    gunzip_close(s.in);
    buf_free(&s.text);
    buf_free(&s.delimiter);
    return rc;
}

static int refuse(const struct statement *st, const char *file, struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    SCOPED(xfree) char *copy = xstrndup(st->sql, st->len < 200 ? st->len : 200);
    text_clean(&b, copy, 80);
    err_set(e, ERR_REFUSED, 0, "%s: statement %llu is not one that mysqldump writes for tables: %s",
            file, (unsigned long long)st->number, b.p);
    return err_hint(e, "restore such a file by hand with the mysql client");
}

/* Statements that a restore has no use for: it makes, locks and fills its own tables. */
static bool is_skipped(const struct statement *st)
{
    static const char *const words[] = {"DROP ",
                                        "LOCK ",
                                        "UNLOCK ",
                                        "ALTER ",
                                        "USE ",
                                        "COMMIT",
                                        "CREATE",
                                        "BEGIN",
                                        "FLUSH ",
                                        "DELIMITER",
                                        "SET ",
                                        "START TRANSACTION",
                                        "CHANGE MASTER ",
                                        "CHANGE REPLICATION SOURCE ",
                                        "DO SETVAL(",
                                        "PREPARE worldkeeper ",
                                        "EXECUTE worldkeeper",
                                        "DEALLOCATE PREPARE worldkeeper",
                                        NULL};
    for (const char *const *w = words; *w; w++)
        if (is(st, *w))
            return true;
    return st->len == 0;
}

struct planning {
    struct plan *plan;
    const char *file;
    struct import_report *report;
    struct code *code;        /* NULL: not noted */
    struct buf schema, first; /* named by USE: now, and at the first table */
    bool tables;              /* a table was found */
    bool ours, several;       /* found tables of the world's own schema; of several schemas */
    bool header;              /* mysqldump's header was found, which sets the time zone */
};

/* SET TIME_ZONE='+00:00', which mysqldump writes by default. */
static void note_zone(struct planning *p, const struct statement *st)
{
    struct import_report *r = p->report;
    const char *s = after_word(st, "TIME_ZONE"), *end = st->sql + st->len;
    p->header |= after_word(st, "@OLD_UNIQUE_CHECKS") != NULL;
    while (s && s < end && strchr(" =", *s))
        s++;
    if (!s || s >= end || !strchr("'\"", *s))
        return;
    size_t len = 0;
    for (s++; s + len < end && (isalnum((unsigned char)s[len]) || strchr("+-:/_", s[len]));)
        len++;
    if (len && len < sizeof r->zone)
        snprintf(r->zone, sizeof r->zone, "%.*s", (int)len, s);
}

/* A table whose definition is refused: with a durable engine it is left as it is. A MEMORY table is
 * an error, since the columns of its rows are not known. */
static int plan_refused(struct planning *p, const struct statement *st, const char *name,
                        struct err *e)
{
    SCOPED(xfree) char *engine = sql_table_engine(st->sql, st->len, st->plain);
    bool memory = !engine || strcasecmp(engine, "MEMORY") == 0 || strcasecmp(engine, "HEAP") == 0;
    if (memory)
        return err_step(e, "%s, statement %llu", p->file, (unsigned long long)st->number);
    struct target *t = plan_add(p->plan, name, engine);
    if (!t->skip)
        plan_leave_out(p->plan, t, SHADOW_NOT_ACCEPTED);
    err_clear(e);
    return 0;
}

/* Columns that the server computes have no values of their own to load. */
static int plan_definition(struct planning *p, const struct statement *st, const char *name,
                           struct err *e)
{
    SCOPED(sql_table_free) struct sql_table table = {0};
    if (sql_table_read(st->sql, st->len, st->plain, &table, e) < 0)
        return plan_refused(p, st, name, e);
    struct target *t = plan_add(p->plan, name, table.engine);
    t->auto_increment = table.auto_increment;
    t->defined = table.column_count;
    t->generated = xcalloc(t->defined, sizeof *t->generated);
    for (size_t i = 0; i < t->defined; i++) {
        const struct sql_column *c = &table.columns[i];
        t->generated[i] = c->generated || c->row_end;
        if (!t->generated[i])
            target_add_column(t, c->name);
    }
    return 0;
}

/* Of several schemas in one file, only the one of the world is read, in a second pass. */
static int plan_table(struct planning *p, const struct statement *st, struct err *e)
{
    const char *schema = p->schema.p ? p->schema.p : "";
    SCOPED(buf_free) struct buf name = {0};
    int rc = 0;
    if (!p->tables)
        buf_adds(&p->first, schema);
    p->several |= p->tables && strcmp(schema, p->first.p) != 0;
    p->ours |= p->plan->job->cfg->schema && strcmp(schema, p->plan->job->cfg->schema) == 0;
    p->tables = true;
    if (!name_after(st, "CREATE TABLE ", &name)) {
        rc = refuse(st, p->file, e);
    } else if (!plan_find(p->plan, name.p)) {
        rc = plan_definition(p, st, name.p, e);
    } else if (!p->several) {
        rc = err_set(e, ERR_REFUSED, 0, "%s: statement %llu makes table %s a second time", p->file,
                     (unsigned long long)st->number, name.p);
        err_hint(e, "these are several dumps in one file: split them, and restore one");
    }
    return rc;
}

/* mysqldump defines a table with all its keys. Other tools add keys after the rows, which is
 * refused unless the table exists, and has them. */
static int refuse_keys(const struct planning *p, const struct statement *st, struct err *e)
{
    static const char add[] = "ADD ";
    SCOPED(buf_free) struct buf name = {0};
    const char *rest = name_after(st, "ALTER TABLE ", &name), *end = st->sql + st->len;
    const struct target *t = rest ? plan_find(p->plan, name.p) : NULL;
    int rc = 0;
    while (t && rest < end && isspace((unsigned char)*rest))
        rest++;
    if (t && !t->skip && plan_defines(p->plan, t) && (size_t)(end - rest) > strlen(add) &&
        strncasecmp(rest, add, strlen(add)) == 0) {
        rc = refuse(st, p->file, e);
        err_hint(e, "restore such a file by hand with the mysql client, or make the table first: "
                    "into one that is there its rows go as they are");
    }
    return rc;
}

/* Everything is read once before anything is made: a file that is refused at its end has changed nothing. */
static int plan_statement(void *arg, const struct statement *st, struct err *e)
{
    struct planning *p = arg;
    SCOPED(buf_free) struct buf name = {0};
    SCOPED(sql_insert_free) struct sql_insert rows = {0};
    if (p->code && (is(st, "SET ") || is(st, "CREATE")))
        code_note_foreign(p->code, st->sql, st->len);
    if (is(st, "CREATE TABLE "))
        return plan_table(p, st, e);
    if (is(st, "INSERT INTO ")) {
        const char *rest = name_after(st, "INSERT INTO ", &name);
        return rest && !st->plain && plan_find(p->plan, name.p) &&
                       sql_insert_read(rest, (size_t)(st->sql + st->len - rest), NULL, 0, &rows) ==
                           0
                   ? 0
                   : refuse(st, p->file, e);
    }
    if (is(st, "ALTER TABLE ") && refuse_keys(p, st, e) < 0)
        return -1;
    if (!is_skipped(st))
        return refuse(st, p->file, e);
    if (is(st, "USE "))
        used_schema(st, &p->schema);
    if (is(st, "SET ") && !p->tables)
        note_zone(p, st);
    return 0;
}

/* One reading of the file from its start to its end. */
static int plan_pass(int fd, struct planning *p, struct err *e)
{
    struct import_report *r = p->report;
    const char *only = r->schema[0] ? r->schema : NULL;
    buf_adds(&p->schema, "");
    int rc = run_source(fd, p->file, only, p->plan->accept_cut, plan_statement, p, &r->ends, e);
    r->server_zone = p->header && !r->zone[0];
    if (rc == 0 && p->several && !p->ours) {
        SCOPED(buf_free) struct buf b = {0};
        text_clean(&b, p->first.p, 64);
        rc = err_set(e, ERR_REFUSED, 0,
                     "%s holds tables of several schemas (%s and more), none called %s", p->file,
                     b.p, p->plan->job->cfg->schema);
        err_hint(e, "dump the one that is wanted alone: mysqldump SCHEMA");
    }
    buf_free(&p->schema);
    buf_free(&p->first);
    return rc;
}

/* Tables of several schemas may have the same name and are not one world: only those of the
 * world's schema are used. */
int import_plan(int fd, const char *name, struct plan *plan, struct code *code,
                struct import_report *report, struct err *e)
{
    struct planning p = {.plan = plan, .file = name, .report = report, .code = code};
    *report = (struct import_report){0};
    int rc = plan_pass(fd, &p, e);
    if (rc < 0 || !p.several)
        return rc;
    p = (struct planning){.plan = plan, .file = name, .report = report, .code = code};
    if (code)
        code_free(code);
    *report = (struct import_report){0};
    snprintf(report->schema, sizeof report->schema, "%s", plan->job->cfg->schema);
    plan_clear(plan);
    return plan_pass(fd, &p, e);
}

struct loading {
    struct loader *l;
    struct code *code;
    const char *file;
    char names[32]; /* the character set of the file's rows */
};

/* Executes only what sets the character set of the following text. A file has one for its rows and,
 * before each definition, another one for that. */
static int load_set(struct loading *p, const struct statement *st, struct err *e)
{
    static const char rows[] = "SET NAMES ";
    static const char *const wanted[] = {rows, "SET character_set_client", NULL};
    for (const char *const *w = wanted; *w; w++)
        if (is(st, *w) && !memchr(st->sql, ',', st->len) && !memchr(st->sql, '@', st->len)) {
            const char *name = st->sql + strlen(*w), *end = st->sql + st->len;
            while (name < end && strchr(" ='\"", *name))
                name++;
            size_t len = 0; /* the end of a conditional comment may follow the name */
            while (name + len < end && (isalnum((unsigned char)name[len]) || name[len] == '_'))
                len++;
            if (len >= sizeof p->names || !sql_charset_safe(name, len)) {
                SCOPED(buf_free) struct buf b = {0};
                text_clean_bytes(&b, name, len, 40);
                err_set(e, ERR_REFUSED, 0, "its character set %s cannot be read safely", b.p);
                return err_hint(e, "dump it again with --default-character-set=utf8mb4");
            }
            if (*w == rows)
                snprintf(p->names, sizeof p->names, "%.*s", (int)len, name);
            return db_execf(p->l->s.db, e, "%s%s%.*s", *w, *w == rows ? "" : "=", (int)len, name);
        }
    return 0;
}

/* Values go to the server as they stand in the file, once they are seen to be nothing but values. */
static int load_insert(struct loading *p, const struct statement *st, struct err *e)
{
    SCOPED(buf_free) struct buf name = {0};
    SCOPED(buf_free) struct buf sql = {0};
    struct sql_insert rows;
    const char *rest = name_after(st, "INSERT INTO ", &name);
    struct target *t = rest ? plan_find(p->l->s.plan, name.p) : NULL;
    p->l->target = t && !t->skip && t->created ? t : NULL;
    if (!p->l->target)
        return 0;
    /* Checked again: the file may have been changed since it was planned. */
    bool generated = t->defined > t->column_count;
    if (sql_insert_read(rest, (size_t)(st->sql + st->len - rest), generated ? t->generated : NULL,
                        t->defined, &rows) < 0)
        return refuse(st, p->file, e);
    /* Without a column list the values are in the order of the file's own definition. The server
     * will refuse a column that the table does not have. */
    char *const *names = rows.listed ? rows.columns : t->columns;
    size_t count = rows.listed ? rows.column_count : t->column_count;
    buf_adds(&sql, " (");
    for (size_t i = 0; i < count && !rows.empty; i++) {
        buf_adds(&sql, i ? "," : "");
        sql_ident(&sql, names[i]);
    }
    buf_adds(&sql, ") VALUES ");
    buf_add(&sql, rows.rows.p, rows.rows.len);
    int rc = loader_insert_raw(p->l, sql.p, sql.len, e);
    sql_insert_free(&rows);
    return rc;
}

/* Converts the definition to the form of our own dumps: quoted names, backslash escapes. */
static int load_create(struct loading *p, const struct statement *st, struct err *e)
{
    SCOPED(sql_table_free) struct sql_table table = {0};
    struct buf name = {0};
    SCOPED(buf_free) struct buf sql = {0};
    const struct target *t =
        name_after(st, "CREATE TABLE ", &name) ? plan_find(p->l->s.plan, name.p) : NULL;
    buf_free(&name);
    if (!t || t->skip || t->created)
        return 0;
    if (sql_table_read(st->sql, st->len, st->plain, &table, e) < 0)
        return -1;
    struct sql_table_how how = {.name = table.name, .mariadb = db_is_mariadb(p->l->s.db)};
    sql_table_write(&sql, &table, &how);
    int rc = loader_table(p->l, table.name, sql.p, sql.len, e);
    if (rc == 0)
        rc = db_execf(p->l->s.db, e, "SET NAMES %s", p->names);
    return rc;
}

/* What is not loaded was judged in the first pass. */
static int load_statement(void *arg, const struct statement *st, struct err *e)
{
    struct loading *p = arg;
    int rc = 0;
    if (is(st, "CREATE TABLE "))
        rc = load_create(p, st, e);
    else if (is(st, "INSERT INTO "))
        rc = load_insert(p, st, e);
    else if (is(st, "SET "))
        rc = load_set(p, st, e);
    if (rc == 0 && (is(st, "SET ") || is(st, "CREATE")))
        code_note_foreign(p->code, st->sql, st->len);
    if (rc < 0)
        err_step(e, "%s, statement %llu", p->file, (unsigned long long)st->number);
    progress_at(p->l->s.plan->job->progress, *p->l->rows, 0);
    return rc;
}

int import_load(int fd, const char *name, const struct import_report *report, struct loader *l,
                struct code *code, struct err *e)
{
    struct loading p = {.l = l, .code = code, .file = name, .names = "utf8mb4"};
    const char *only = report->schema[0] ? report->schema : NULL;
    bool ends;
    int rc = 0;
    /* If the file sets no time zone, its times are in the zone of the server it was made on,
     * presumably this one: the stock client reads it the same way. */
    if (report->server_zone)
        rc = db_exec(l->s.db, "SET SESSION time_zone=@@GLOBAL.time_zone", e);
    else if (report->zone[0])
        rc = db_execf(l->s.db, e, "SET SESSION time_zone='%s'", report->zone);
    if (rc == 0)
        rc = run_source(fd, name, only, l->s.plan->accept_cut, load_statement, &p, &ends, e);
    if (db_exec(l->s.db, "SET NAMES binary", rc < 0 ? NULL : e) < 0 ||
        db_exec(l->s.db, "SET SESSION time_zone='+00:00'", rc < 0 ? NULL : e) < 0)
        rc = -1;
    return rc;
}
