/* Reads a statement of another tool's file before it is planned or loaded. */
#include "restore/import_pass.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "restore/import_read.h"
#include "restore/plan.h"

/* Removes "/ *!40101 SET … * /" around a whole statement, which this server executes. */
static void open_comment(struct import_seen *x)
{
    while (x->len > 4 && x->sql[0] == '/' && x->sql[1] == '*' &&
           (x->sql[2] == '!' || (x->sql[2] == 'M' && x->sql[3] == '!'))) {
        const char *end = x->sql + x->len;
        x->sql += x->sql[2] == 'M' ? 4 : 3;
        while (x->sql < end && (text_is_digit(*x->sql) || isspace((unsigned char)*x->sql)))
            x->sql++;
        x->len = (size_t)(end - x->sql);
        while (x->len && isspace((unsigned char)x->sql[x->len - 1]))
            x->len--;
        if (x->len >= 2 && memcmp(x->sql + x->len - 2, "*/", 2) == 0)
            x->len -= 2;
    }
}

int import_hint_stock(const struct import *in, const struct plan *plan, struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    const char *client = in->server.version.mariadb ? "mariadb" : "mysql";
    size_t n = strlen(in->name);
    bool packed = n > 3 && strcmp(in->name + n - 3, ".gz") == 0;
    if (packed) {
        buf_adds(&b, "gunzip -c ");
        buf_shell(&b, in->name);
        buf_adds(&b, " | ");
    }
    buf_printf(&b, "%s ", client);
    buf_shell(&b, plan->schema ? plan->schema : "SCHEMA");
    if (!packed) {
        buf_adds(&b, " < ");
        buf_shell(&b, in->name);
    }
    return err_hint(
        e,
        "the stock client executes any file, but not all or nothing: worldkeeper --pause, then %s",
        b.p);
}

int import_refuse(const struct import_pass *p, const struct import_seen *x, const char *why,
                  struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    text_clean_bytes(&b, x->st->sql, x->st->len < 200 ? x->st->len : 200, 80);
    err_set(e, ERR_REFUSED, 0, "%s, line %llu: --restore does not accept this statement%s%s: %s",
            p->in->name, (unsigned long long)x->st->line, why ? ", " : "", why ? why : "", b.p);
    return import_hint_stock(p->in, p->plan, e);
}

int import_step(const struct import_pass *p, const struct import_seen *x, struct err *e)
{
    return err_step(e, "%s, line %llu", p->in->name, (unsigned long long)x->st->line);
}

const char *import_names(const struct import_pass *p)
{
    return p->in->charset ? p->in->charset : p->session.now[FOREIGN_NAMES];
}

/* Refuses settings under which the server would see other quotes in the rows than we do. */
static int rows_are_readable(const struct import_pass *p, const struct import_seen *x,
                             struct err *e)
{
    const char *names = import_names(p);
    if (x->modes & SQL_PLAIN_STRINGS)
        return import_refuse(p, x, "rows under sql_mode NO_BACKSLASH_ESCAPES", e);
    if (sql_charset_safe(names, strlen(names)))
        return 0;
    SCOPED(buf_free) struct buf b = {0};
    text_clean(&b, names, 40);
    err_set(e, ERR_REFUSED, 0, "%s, line %llu: its character set %s cannot be read safely",
            p->in->name, (unsigned long long)x->st->line, b.p);
    return err_hint(e, "dump it again with --default-character-set=utf8mb4");
}

int import_rows(const struct import_pass *p, const struct import_seen *x, const struct target *t,
                struct sql_insert *out, struct err *e)
{
    bool generated = t && t->defined > t->column_count;
    if (rows_are_readable(p, x, e) < 0)
        return -1;
    if (sql_insert_read(x->f.rest, (size_t)(x->f.end - x->f.rest), x->modes & SQL_ANSI_QUOTES,
                        generated ? t->generated : NULL, t ? t->defined : 0, out) == 0)
        return 0;
    return import_refuse(p, x, "whose values are not all literals", e);
}

static int take_set(struct import_pass *p, const struct import_seen *x,
                    const struct foreign_reading *how, struct import_statement *st, struct err *e)
{
    struct foreign_set set;
    if (!foreign_set(&p->session, st->sql, st->len, how, &set) && !p->survey) {
        SCOPED(xfree) char *why = xasprintf("which sets %s", set.what[0] ? set.what : "something");
        return import_refuse(p, x, why, e);
    }
    st->begins = set.saves && p->begun;
    st->closes = set.restores;
    p->begun &= !set.restores;
    return 0;
}

/* Returns whether the statement is of another schema than the wanted one. */
static bool import_pass_elsewhere(const struct import_pass *p, const struct import_seen *x)
{
    return p->only && strcmp(p->schema.p, p->only) != 0 && x->f.kind != FOREIGN_SET &&
           x->f.kind != FOREIGN_USE && x->f.kind != FOREIGN_MAKE_SCHEMA &&
           x->f.kind != FOREIGN_DROP_SCHEMA;
}

static int import_pass_take(void *arg, struct import_statement *st, struct err *e)
{
    struct import_pass *p = arg;
    const char *mode = p->session.now[FOREIGN_MODE];
    struct foreign_reading how = {.ansi_quotes = foreign_has_mode(mode, "ANSI_QUOTES") ||
                                                 foreign_has_mode(mode, "ANSI"),
                                  .plain_strings = foreign_has_mode(mode, "NO_BACKSLASH_ESCAPES"),
                                  .server = p->in->server.version};
    struct import_seen x = {.st = st, .sql = st->sql, .len = st->len, .modes = SQL_QUALIFIED};
    x.modes |= how.ansi_quotes ? SQL_ANSI_QUOTES : 0;
    x.modes |= how.plain_strings ? SQL_PLAIN_STRINGS : 0;
    open_comment(&x);
    foreign_read(st->sql, st->len, &how, &x.f);
    int rc = 0;
    if (x.f.kind == FOREIGN_SET)
        rc = take_set(p, &x, &how, st, e);
    if (x.f.kind == FOREIGN_USE) {
        buf_clear(&p->schema);
        buf_add(&p->schema, x.f.name.p, x.f.name.len);
    }
    p->begun |= x.f.kind == FOREIGN_TABLE || x.f.kind == FOREIGN_ROWS;
    mode = p->session.now[FOREIGN_MODE];
    p->reading.plain = foreign_has_mode(mode, "NO_BACKSLASH_ESCAPES");
    if (rc == 0 && !import_pass_elsewhere(p, &x))
        rc = p->fn(p->arg, &x, e);
    foreign_free(&x.f);
    return rc;
}

int import_pass(struct import_pass *p, import_seen_fn *fn, void *arg, struct err *e)
{
    const struct import_server *s = &p->in->server;
    p->reading = (struct import_reading){.name = p->in->name, .accept_cut = p->in->accept_cut};
    p->fn = fn;
    p->arg = arg;
    foreign_session_begin(&p->session, "utf8mb4", s->mode, s->zone);
    p->reading.plain = foreign_has_mode(s->mode, "NO_BACKSLASH_ESCAPES");
    buf_adds(&p->schema, "");
    return import_read(p->in->fd, &p->reading, import_pass_take, p, e);
}

void import_pass_free(struct import_pass *p)
{
    foreign_session_free(&p->session);
    buf_free(&p->schema);
}
