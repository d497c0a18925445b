#include "restore/foreign.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/gzip.h"
#include "db/sql.h"
#include "dump/format.h"
#include "restore/allowed.h"
#include "restore/values.h"

#define CHUNK 262144u
#define STATEMENT_MAX (1u << 30)

struct statement {
    const char *sql; /* without comments in front; conditional comments are opened up */
    size_t len;
    uint64_t number;
    bool plain; /* the sql_mode that the file set before has NO_BACKSLASH_ESCAPES */
};
typedef int statement_fn(void *arg, const struct statement *st, struct err *e);

struct source {
    struct gunzip *in;
    const char *name;
    struct buf text, delimiter;
    size_t at;
    bool eof, ends, plain;
    const char *only; /* the schema whose statements are wanted; NULL: whatever there is */
    bool elsewhere;   /* behind USE of another one */
    uint64_t number;
};

static int fill(struct source *s, struct err *e)
{
    if (s->at) {
        s->text.len -= s->at;
        memmove(s->text.p, s->text.p + s->at, s->text.len);
        s->at = 0;
    }
    if (s->text.len > STATEMENT_MAX)
        return err_set(e, ERR_DAMAGED, 0, "%s: statement %llu has no end", s->name,
                       (unsigned long long)s->number + 1);
    buf_reserve(&s->text, CHUNK);
    int64_t n = gunzip_read(s->in, s->text.p + s->text.len, CHUNK, e);
    if (n < 0)
        return -1;
    s->text.len += (size_t)n;
    s->text.p[s->text.len] = '\0';
    s->eof = n == 0;
    return 0;
}

/* White space, "-- …" lines and comments in front of a statement. */
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
        /* MariaDB's sandbox mark is a conditional comment for no server at all. */
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
        if (text_starts(from, "-- Dump completed") || text_starts(from, FORMAT_TRAILER))
            s->ends = true;
        const char *nl = memchr(from, '\n', s->text.len - s->at);
        s->at = nl ? (size_t)(nl + 1 - s->text.p) : s->text.len;
    }
}

/* 1: one was there. Every place would be the end of a statement for an empty one. */
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

/* "/ *!40101 SET … * /" is a statement for a server of that version: look inside. */
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
    }
}

static int next_statement(struct source *s, struct statement *st, struct err *e)
{
    struct sql_scan scan = {.plain = s->plain};
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
            if (!end)
                return err_set(e, ERR_DAMAGED, 0, "%s: statement %llu is cut off", s->name,
                               (unsigned long long)s->number);
            open_comment(st);
            return 1;
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

/* The place behind a word of the statement, NULL where it is not there. */
static const char *behind_word(const struct statement *st, const char *word)
{
    size_t n = strlen(word);
    for (const char *s = st->sql; s + n <= st->sql + st->len; s++)
        if (strncasecmp(s, word, n) == 0)
            return s + n;
    return NULL;
}

/* A trigger's body is written under its own mode, which tells what a backslash in it is. */
static void note_mode(struct source *s, const struct statement *st)
{
    if (is(st, "SET ") && behind_word(st, "sql_mode"))
        s->plain = behind_word(st, "NO_BACKSLASH_ESCAPES") != NULL;
}

/* Quoted, or of letters that need no quotes (--skip-quote-names). */
static const char *read_name(const char *s, const char *end, struct buf *name)
{
    if (s < end && *s == '`')
        return sql_read_ident(s, end, name);
    const char *from = s;
    while (s < end &&
           (isalnum((unsigned char)*s) || *s == '_' || *s == '$' || (unsigned char)*s >= 0x80))
        s++;
    buf_add(name, from, (size_t)(s - from));
    return s > from ? s : NULL;
}

/* The table's name behind `word`; NULL where it is not a plain (quoted or bare) name. */
static const char *name_behind(const struct statement *st, const char *word, struct buf *name)
{
    const char *s = st->sql + strlen(word), *end = st->sql + st->len;
    while (s < end && isspace((unsigned char)*s))
        s++;
    if (s + 13 < end && strncasecmp(s, "IF NOT EXISTS", 13) == 0)
        for (s += 13; s < end && isspace((unsigned char)*s);)
            s++;
    s = read_name(s, end, name);
    return s && s < end && *s != '.' ? s : NULL;
}

/* The name behind USE, or what stands there. */
static void used_schema(const struct statement *st, struct buf *name)
{
    buf_clear(name);
    if (!name_behind(st, "USE ", name) && name->len == 0)
        buf_add(name, st->sql, st->len);
}

static void note_schema(struct source *s, const struct statement *st)
{
    struct buf name = {0};
    if (!s->only || !is(st, "USE "))
        return;
    used_schema(st, &name);
    s->elsewhere = strcmp(name.p, s->only) != 0;
    buf_free(&name);
}

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
        note_mode(s, &st);
        note_schema(s, &st);
        if (s->elsewhere && !is(&st, "SET "))
            continue;
        if (fn(arg, &st, e) < 0)
            return -1;
    }
}

static int run_source(int fd, const char *name, const char *only, statement_fn *fn, void *arg,
                      bool *ends, struct err *e)
{
    unsigned char magic[2] = {0};
    if (lseek(fd, 0, SEEK_SET) < 0 || read(fd, magic, 2) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(e, errno, "cannot read %s", name);
    struct source s = {.name = name, .only = only, .elsewhere = only != NULL};
    buf_adds(&s.delimiter, ";");
    s.in = magic[0] == 0x1f && magic[1] == 0x8b ? gunzip_open(fd, name, e)
                                                : gunzip_open_plain(fd, name, e);
    int rc = s.in ? each_statement(&s, fn, arg, e) : -1;
    *ends = s.ends;
    gunzip_close(s.in);
    buf_free(&s.text);
    buf_free(&s.delimiter);
    return rc;
}

/* Behind the word, which stands outside of parentheses and quotes: a text may hold anything. NULL:
 * it does not. */
static const char *find_word(const char *s, const char *end, const char *word)
{
    size_t n = strlen(word), depth = 0;
    while (s < end && (depth || (size_t)(end - s) <= n || strncasecmp(s, word, n) != 0)) {
        depth += *s == '(';
        depth -= *s == ')' && depth;
        s = *s && strchr("'\"`", *s) ? values_behind_quoted(s, end) : s + 1;
    }
    return s < end ? s + n : NULL;
}

static const char *find_option(const struct statement *st, const char *word, char *out, size_t size)
{
    const char *end = st->sql + st->len, *s = find_word(st->sql, end, word);
    size_t len = 0;
    if (!s)
        return NULL;
    for (; s + len < end && isalnum((unsigned char)s[len]) && len + 1 < size; len++)
        out[len] = s[len];
    out[len] = '\0';
    return out;
}

/* Reserved words, which as the name of a column stand in quotes, and one that is none. */
static bool begins_key(const char *word, const char *behind, const char *end)
{
    static const char *const words[] = {"PRIMARY", "UNIQUE",     "KEY",     "INDEX", "FULLTEXT",
                                        "SPATIAL", "CONSTRAINT", "FOREIGN", "CHECK", NULL};
    for (const char *const *w = words; *w; w++)
        if (strcasecmp(word, *w) == 0)
            return true;
    static const char period[] = " FOR ";
    return strcasecmp(word, "PERIOD") == 0 && (size_t)(end - behind) > strlen(period) &&
           strncasecmp(behind, period, strlen(period)) == 0;
}

static void note_column(struct target *t, const char *name, bool generated)
{
    t->generated = xrealloc(t->generated, (t->defined + 1) * sizeof *t->generated);
    t->generated[t->defined++] = generated;
    if (generated)
        return;
    t->columns = xrealloc(t->columns, (t->column_count + 1) * sizeof *t->columns);
    t->columns[t->column_count++] = xstrdup(name);
}

/* Column names in their order: what begins with a name between the parentheses of a definition.
 * `s`: behind the table's name. */
static void note_columns(struct target *t, const char *s, const char *end)
{
    struct buf name = {0};
    s = memchr(s, '(', (size_t)(end - s));
    while (s && s < end && *s != ')') {
        for (s++; s < end && isspace((unsigned char)*s);)
            s++;
        buf_clear(&name);
        bool quoted = s < end && *s == '`';
        const char *behind = read_name(s, end, &name), *next = values_end(s, end);
        if (behind && (quoted || !begins_key(name.p, behind, end)))
            note_column(t, name.p, find_word(behind, next, " GENERATED ALWAYS AS ") != NULL);
        s = next;
    }
    buf_free(&name);
}

static int refuse(const struct statement *st, const char *file, struct err *e)
{
    struct buf b = {0};
    char *copy = xstrndup(st->sql, st->len < 200 ? st->len : 200);
    text_clean(&b, copy, 80);
    err_set(e, ERR_REFUSED, 0, "%s: statement %llu is not one that mysqldump writes for tables: %s",
            file, (unsigned long long)st->number, b.p);
    err_hint(e, "restore such a file by hand with the mysql client");
    free(copy);
    buf_free(&b);
    return -1;
}

static int refuse_charset(const char *name, size_t len, struct err *e)
{
    struct buf b = {0};
    char *copy = xstrndup(name, len);
    text_clean(&b, copy, 40);
    err_set(e, ERR_REFUSED, 0, "its character set %s cannot be read safely", b.p);
    err_hint(e, "dump it again with --default-character-set=utf8mb4");
    free(copy);
    buf_free(&b);
    return -1;
}

static bool passed_over(const struct statement *st)
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
    const struct job *job;
    const char *file;
    struct foreign_report *report;
    struct buf schema, first; /* behind USE: now, and where the first table was */
    bool tables;              /* one was there */
    bool ours, several;       /* tables of the world's own schema; of more than one */
    bool header;              /* mysqldump's own, in which it tells the time zone */
};

/* SET TIME_ZONE='+00:00', which mysqldump writes unless it was told not to. */
static void note_zone(struct planning *p, const struct statement *st)
{
    struct foreign_report *r = p->report;
    const char *s = behind_word(st, "TIME_ZONE"), *end = st->sql + st->len;
    p->header |= behind_word(st, "@OLD_UNIQUE_CHECKS") != NULL;
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

static void note_place(struct planning *p)
{
    const char *schema = p->schema.p ? p->schema.p : "";
    if (!p->tables)
        buf_adds(&p->first, schema);
    p->several |= p->tables && strcmp(schema, p->first.p) != 0;
    p->ours |= p->job->cfg->schema && strcmp(schema, p->job->cfg->schema) == 0;
    p->tables = true;
}

static int refuse_twice(const struct planning *p, const struct statement *st, const char *name,
                        struct err *e)
{
    err_set(e, ERR_REFUSED, 0, "%s: statement %llu makes table %s a second time", p->file,
            (unsigned long long)st->number, name);
    err_hint(e, "these are several dumps in one file: take them apart, and restore one");
    return -1;
}

static int plan_table(struct planning *p, const struct statement *st, struct err *e)
{
    struct buf name = {0};
    char option[32];
    const char *rest = name_behind(st, "CREATE TABLE ", &name);
    int rc = 0;
    note_place(p);
    if (!rest) {
        rc = refuse(st, p->file, e);
    } else if (plan_find(p->plan, name.p)) {
        rc = p->several ? 0 : refuse_twice(p, st, name.p, e);
    } else {
        struct target *t =
            plan_add(p->plan, p->job, name.p,
                     find_option(st, "ENGINE=", option, sizeof option) ? option : "");
        if (find_option(st, "AUTO_INCREMENT=", option, sizeof option))
            t->auto_increment = strtoull(option, NULL, 10);
        note_columns(t, rest, st->sql + st->len);
        if (!t->skip && !t->memory && !allowed_table(rest, (size_t)(st->sql + st->len - rest)))
            plan_leave_out(p->plan, t, ALLOWED_NOT_TABLE);
    }
    buf_free(&name);
    return rc;
}

/* mysqldump defines a table with all it has. Others add its keys behind its rows; one that is there
 * has them. */
static int refuse_keys(const struct planning *p, const struct statement *st, struct err *e)
{
    static const char add[] = "ADD ";
    struct buf name = {0};
    const char *rest = name_behind(st, "ALTER TABLE ", &name), *end = st->sql + st->len;
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
    buf_free(&name);
    return rc;
}

static int plan_rows(const struct planning *p, const struct statement *st, struct err *e)
{
    struct buf name = {0};
    const char *rows = name_behind(st, "INSERT INTO ", &name);
    bool fits = rows && !st->plain && plan_find(p->plan, name.p) &&
                allowed_rows(rows, (size_t)(st->sql + st->len - rows));
    buf_free(&name);
    return fits ? 0 : refuse(st, p->file, e);
}

static int plan_statement(void *arg, const struct statement *st, struct err *e)
{
    struct planning *p = arg;
    p->report->statements++;
    if (is(st, "CREATE TABLE "))
        return plan_table(p, st, e);
    if (is(st, "INSERT INTO "))
        return plan_rows(p, st, e);
    if (is(st, "ALTER TABLE ") && refuse_keys(p, st, e) < 0)
        return -1;
    if (!passed_over(st))
        return refuse(st, p->file, e);
    p->report->passed_over++;
    if (is(st, "USE "))
        used_schema(st, &p->schema);
    if (is(st, "SET ") && !p->tables)
        note_zone(p, st);
    return 0;
}

static int refuse_several(const struct planning *p, struct err *e)
{
    struct buf b = {0};
    text_clean(&b, p->first.p, 64);
    err_set(e, ERR_REFUSED, 0, "%s holds tables of several schemas (%s and more), none called %s",
            p->file, b.p, p->job->cfg->schema);
    err_hint(e, "dump the one that is wanted alone: mysqldump SCHEMA");
    buf_free(&b);
    return -1;
}

static int plan_pass(int fd, struct planning *p, struct err *e)
{
    struct foreign_report *r = p->report;
    const char *only = r->schema[0] ? r->schema : NULL;
    buf_adds(&p->schema, "");
    int rc = run_source(fd, p->file, only, plan_statement, p, &r->ends, e);
    r->server_zone = p->header && !r->zone[0];
    if (rc == 0 && p->several && !p->ours)
        rc = refuse_several(p, e);
    buf_free(&p->schema);
    buf_free(&p->first);
    return rc;
}

/* Tables of several schemas may have the same name, and are not one world: the world's own is
 * taken. */
int foreign_plan(int fd, const char *name, struct plan *plan, const struct job *job,
                 struct foreign_report *report, struct err *e)
{
    struct planning p = {.plan = plan, .job = job, .file = name, .report = report};
    *report = (struct foreign_report){0};
    int rc = plan_pass(fd, &p, e);
    if (rc < 0 || !p.several)
        return rc;
    p = (struct planning){.plan = plan, .job = job, .file = name, .report = report};
    *report = (struct foreign_report){0};
    snprintf(report->schema, sizeof report->schema, "%s", job->cfg->schema);
    plan_clear(plan);
    return plan_pass(fd, &p, e);
}

struct loading {
    struct loader *l;
    const char *file;
    char *table;    /* of the last INSERT or CREATE */
    char names[32]; /* the character set that the file has for rows */
};

/* Only what tells the character set of the text that follows. A file has one for its rows and, in
 * front of each definition, another one for that. */
static int load_set(struct loading *p, const struct statement *st, struct err *e)
{
    static const char rows[] = "SET NAMES ";
    static const char *const wanted[] = {rows, "SET character_set_client", NULL};
    for (const char *const *w = wanted; *w; w++)
        if (is(st, *w) && !memchr(st->sql, ',', st->len) && !memchr(st->sql, '@', st->len)) {
            const char *name = st->sql + strlen(*w), *end = st->sql + st->len;
            while (name < end && strchr(" ='\"", *name))
                name++;
            size_t len = 0; /* the end of a conditional comment may still be there */
            while (name + len < end && (isalnum((unsigned char)name[len]) || name[len] == '_'))
                len++;
            if (len >= sizeof p->names || !allowed_charset(name, len))
                return refuse_charset(name, len, e);
            if (*w == rows)
                snprintf(p->names, sizeof p->names, "%.*s", (int)len, name);
            return db_execf(p->l->db, e, "%s%s%.*s", *w, *w == rows ? "" : "=", (int)len, name);
        }
    return 0;
}

/* "VALUES ()": all columns have their defaults, whatever their order is. */
static bool empty_row(const char *rest, const char *end)
{
    const char *s = memchr(rest, '(', (size_t)(end - rest));
    while (s && ++s < end && isspace((unsigned char)*s))
        ;
    return s && s < end && *s == ')';
}

/* Without a column list the values are in the order of the file's own definition. */
static int load_insert(struct loading *p, const struct statement *st, struct err *e)
{
    struct buf name = {0}, behind = {0};
    const char *rest = name_behind(st, "INSERT INTO ", &name), *end = st->sql + st->len;
    struct target *t = rest ? plan_find(p->l->plan, name.p) : NULL;
    int rc = 0;
    if (!t || t->skip || !t->created) {
        p->l->target = NULL;
    } else {
        p->l->target = t;
        /* Once more: the file may have been changed since it was planned. */
        if (!allowed_rows(rest, (size_t)(end - rest))) {
            rc = refuse(st, p->file, e);
            goto out;
        }
        while (rest < end && isspace((unsigned char)*rest))
            rest++;
        bool listed = *rest == '(' || empty_row(rest, end);
        if (!listed) {
            for (size_t i = 0; i < t->column_count; i++) {
                buf_adds(&behind, i ? "," : " (");
                sql_ident(&behind, t->columns[i]);
            }
            buf_adds(&behind, ") ");
        }
        if (listed || t->defined == t->column_count ||
            values_pick(&behind, rest, (size_t)(end - rest), t->generated, t->defined) <= 0)
            buf_add(&behind, rest, (size_t)(end - rest));
        rc = loader_insert_raw(p->l, behind.p, behind.len, e);
    }
out:
    buf_free(&name);
    buf_free(&behind);
    return rc;
}

static int load_create(struct loading *p, const struct statement *st, struct err *e)
{
    struct buf name = {0}, sql = {0};
    const char *rest = name_behind(st, "CREATE TABLE ", &name);
    int rc = 0;
    const struct target *t = rest ? plan_find(p->l->plan, name.p) : NULL;
    if (t && !t->created) {
        buf_adds(&sql, "CREATE TABLE ");
        sql_ident(&sql, name.p);
        buf_add(&sql, rest, (size_t)(st->sql + st->len - rest));
        rc = loader_table(p->l, name.p, sql.p, sql.len, e);
        if (rc == 0)
            rc = db_execf(p->l->db, e, "SET NAMES %s", p->names);
    }
    buf_free(&name);
    buf_free(&sql);
    return rc;
}

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
    if (rc < 0)
        err_step(e, "%s, statement %llu", p->file, (unsigned long long)st->number);
    progress_at(p->l->job->progress, *p->l->rows, 0);
    return rc;
}

/* The times of a file that tells no zone are those of the server that it was made on, as far as
 * anybody knows the one that it is put back to: so reads it the stock client. */
static int set_zone(struct db *db, const struct foreign_report *r, struct err *e)
{
    if (r->server_zone)
        return db_exec(db, "SET SESSION time_zone=@@GLOBAL.time_zone", e);
    return r->zone[0] ? db_execf(db, e, "SET SESSION time_zone='%s'", r->zone) : 0;
}

int foreign_load(int fd, const char *name, const struct foreign_report *report, struct loader *l,
                 struct err *e)
{
    struct loading p = {.l = l, .file = name, .names = "utf8mb4"};
    const char *only = report->schema[0] ? report->schema : NULL;
    bool ends;
    int rc = set_zone(l->db, report, e);
    if (rc == 0)
        rc = run_source(fd, name, only, load_statement, &p, &ends, e);
    struct err ignored;
    if (db_exec(l->db, "SET NAMES binary", rc < 0 ? &ignored : e) < 0 ||
        db_exec(l->db, "SET SESSION time_zone='+00:00'", rc < 0 ? &ignored : e) < 0)
        rc = -1;
    return rc;
}
