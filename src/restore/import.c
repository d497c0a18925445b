/* The first pass over another tool's file: it makes the tables targets, and refuses everything that
 * the second pass would not carry out. */
#include "restore/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "mysql/job.h"
#include "mysql/sentinel.h"
#include "restore/code.h"
#include "restore/import_pass.h"
#include "restore/plan.h"
#include "restore/shadow_table.h"

static const char dropped_again[] = "the file drops it again";

/* Names with the lines of their statements, in the order of these, until noted_settle(). */
struct noted {
    struct note {
        char *name;
        uint64_t line; /* 0: this statement undoes what was noted for the name before */
        size_t number;
    } * list;
    size_t count;
};

static void import_note(struct noted *n, const char *name, uint64_t line)
{
    n->list = xgrow(n->list, n->count, sizeof *n->list);
    n->list[n->count] = (struct note){xstrdup(name), line, n->count};
    n->count++;
}

static int note_by_name(const void *a, const void *b)
{
    return strcmp(((const struct note *)a)->name, ((const struct note *)b)->name);
}

static int note_by_age(const void *a, const void *b)
{
    const struct note *x = a, *y = b;
    int order = note_by_name(a, b);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

/* Sorts the notes by name and keeps the last one of each name, unless it has no line. A file may
 * have many, so they are not searched while it is read. */
static void noted_settle(struct noted *n)
{
    size_t kept = 0;
    if (n->count)
        qsort(n->list, n->count, sizeof *n->list, note_by_age);
    for (size_t i = 0; i < n->count; i++) {
        bool last = i + 1 == n->count || note_by_name(&n->list[i], &n->list[i + 1]) != 0;
        if (last && n->list[i].line)
            n->list[kept++] = n->list[i];
        else
            free(n->list[i].name);
    }
    n->count = kept;
}

static bool import_noted(const struct noted *n, char *name)
{
    struct note wanted = {.name = name};
    return n->count && bsearch(&wanted, n->list, n->count, sizeof wanted, note_by_name);
}

static void free_noted(struct noted *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->list[i].name);
    free(n->list);
    *n = (struct noted){0};
}

struct planning {
    struct import_pass pass;
    struct plan *plan;
    struct import_report *report;
    struct code *code; /* NULL: not noted */
    bool surveyed;     /* the schemas of the file's tables are known */
    bool asks;         /* the pass ended because they must be known */
    struct noted dropped, gone,
        views; /* tables and schemas that it drops, and views that it makes */
};

/* ---- CREATE TABLE ---- */

/* Plans a table whose definition is refused. With a durable engine it is left as it is. A MEMORY
 * table is an error, because the columns of its rows are not known. */
static int plan_refused(struct planning *p, const struct import_seen *x, struct err *e)
{
    SCOPED(xfree) char *engine = sql_table_engine(x->sql, x->len, x->modes);
    bool memory = !engine || strcasecmp(engine, "MEMORY") == 0 || strcasecmp(engine, "HEAP") == 0;
    if (memory && strstr(e->text, "not UTF-8"))
        err_hint(e, "it is in another character set: iconv -f CP1252 -t UTF-8 FILE > NEW.sql makes "
                    "UTF-8 of text in latin1");
    else if (memory && strstr(e->text, "option TYPE "))
        err_hint(e, "it is a file of MySQL 4: sed 's/) TYPE=/) ENGINE=/' FILE > NEW.sql");
    else if (memory)
        import_hint_stock(p->pass.in, p->plan, e);
    if (memory)
        return import_step(&p->pass, x, e);
    struct target *t = plan_add(p->plan, x->f.name.p, engine);
    if (!t->skip)
        plan_leave_out(p->plan, t, SHADOW_NOT_ACCEPTED);
    err_clear(e);
    return 0;
}

/* Plans a table from its definition. A row without a column list has a value for each column that
 * is not hidden. Values of generated columns are not loaded. */
static int plan_definition(struct planning *p, const struct import_seen *x, struct err *e)
{
    SCOPED(sql_table_free) struct sql_table table = {0};
    if (sql_table_read(x->sql, x->len, x->modes, &table, e) < 0)
        return plan_refused(p, x, e);
    struct target *t = plan_add(p->plan, x->f.name.p, table.engine);
    t->auto_increment = t->counter = table.auto_increment;
    t->generated = xcalloc(table.column_count, sizeof *t->generated);
    for (size_t i = 0; i < table.column_count; i++) {
        const struct sql_column *c = &table.columns[i];
        if (c->hidden)
            continue;
        bool generated = c->generated || c->row_end;
        t->generated[t->defined++] = generated;
        if (!generated)
            target_add_column(t, c->name);
    }
    return 0;
}

static int plan_table(struct planning *p, const struct import_seen *x, struct err *e)
{
    const char *name = x->f.name.p;
    import_note(&p->dropped, name, 0);
    if (!plan_find(p->plan, name))
        return plan_definition(p, x, e);
    err_set(e, ERR_REFUSED, 0, "%s, line %llu: creates table %s a second time", p->pass.in->name,
            (unsigned long long)x->st->line, name);
    return err_hint(e, "the file contains several dumps: split it and restore one of them");
}

/* ---- rows ---- */

/* Returns a target for an existing table whose rows come without CREATE TABLE (mysqldump
 * --no-create-info), or NULL. */
static struct target *plan_without_create(struct planning *p, const char *name)
{
    const struct db_table *live = p->plan->into ? NULL : db_table_find(&p->plan->live, name);
    return live ? plan_add(p->plan, name, live->engine ? live->engine : "") : NULL;
}

/* Returns the table of the rows, or NULL with the reason in `e`. */
static struct target *import_table_of(struct planning *p, const struct import_seen *x,
                                      struct err *e)
{
    const char *name = x->f.name.p;
    struct target *t = plan_find(p->plan, name);
    if (!t)
        t = plan_without_create(p, name);
    if (t && t->why == dropped_again) {
        import_refuse(&p->pass, x, "for a table that the file has dropped", e);
        return NULL;
    }
    if (t && (t->defined || t->skip || !plan_defines(p->plan, t)))
        return t;
    import_refuse(&p->pass, x, "for a table that the file does not create", e);
    err_hint(e, p->plan->into ? "a file without CREATE TABLE (mysqldump --no-create-info) can only "
                                "be restored into the world's MEMORY tables: omit --into"
                              : "a file without CREATE TABLE (mysqldump --no-create-info) needs "
                                "existing MEMORY tables: create them first");
    return NULL;
}

/* Checks that an existing table has the columns of the rows, because they are inserted by column
 * name. */
static int import_check_columns(struct planning *p, const struct import_seen *x,
                                const struct target *t, const struct sql_insert *rows,
                                struct err *e)
{
    char *const *names = rows->listed ? rows->columns : t->columns;
    size_t count = rows->listed ? rows->column_count : t->column_count;
    for (size_t i = 0; i < count && t->live && !t->skip && !plan_defines(p->plan, t); i++) {
        if (db_column_find(t->live, names[i]))
            continue;
        SCOPED(buf_free) struct buf column = {0};
        text_clean(&column, names[i], 64);
        err_set(e, ERR_REFUSED, 0, "%s, line %llu: table %s of the world has no column %s",
                p->pass.in->name, (unsigned long long)x->st->line, t->name, column.p);
        return err_hint(e, "add the column (ALTER TABLE), or drop the table: then it is created as "
                           "the file defines it; --into SCHEMA restores beside the world");
    }
    return 0;
}

static int plan_rows(struct planning *p, const struct import_seen *x, struct err *e)
{
    SCOPED(sql_insert_free) struct sql_insert rows = {0};
    const struct target *t = import_table_of(p, x, e);
    if (!t || import_rows(&p->pass, x, NULL, &rows, e) < 0)
        return -1;
    if (t->fires && !t->skip)
        return import_refuse(&p->pass, x, "for which an earlier trigger of the file would run", e);
    return import_check_columns(p, x, t, &rows, e);
}

/* ---- ALTER, DROP and others ---- */

static int plan_alter(struct planning *p, const struct import_seen *x, struct err *e)
{
    SCOPED(sql_table_free) struct sql_table change = {0};
    struct target *t = plan_find(p->plan, x->f.name.p);
    if (t && t->skip && t->why != dropped_again)
        return 0; /* it is left as it is */
    if (!t || t->why == dropped_again)
        return import_refuse(&p->pass, x, "for a table that the file does not create", e);
    struct err why = {0};
    if (sql_alter_read(x->sql, x->len, x->modes, &change, &why) < 0)
        return import_refuse(&p->pass, x, why.text, e);
    bool memory = strcasecmp(change.engine, "MEMORY") == 0;
    if (change.engine[0] && memory != t->memory)
        return import_refuse(&p->pass, x, "which changes the engine", e);
    if (sql_table_has_foreign(&change) && !p->plan->into)
        return import_refuse(&p->pass, x, "a foreign key, which cannot be swapped in", e);
    for (size_t i = 0; i < change.column_count; i++)
        if (change.columns[i].generated || change.columns[i].row_end || change.columns[i].hidden)
            return import_refuse(&p->pass, x, "which makes a column generated or hidden", e);
    if (change.auto_increment)
        t->auto_increment = t->counter = change.auto_increment;
    return 0;
}

static int plan_drop_tables(struct planning *p, const struct import_seen *x, struct err *e)
{
    (void)e;
    for (size_t i = 0; i < x->f.names.count; i++) {
        const char *name = x->f.names.list[i];
        struct target *t = plan_find(p->plan, name);
        if (t)
            plan_leave_out(p->plan, t, dropped_again);
        import_note(&p->dropped, name, x->st->line);
    }
    return 0;
}

static int plan_code(struct planning *p, const struct import_seen *x, struct err *e)
{
    struct target *t = x->f.view || x->f.trigger ? plan_find(p->plan, x->f.name.p) : NULL;
    if (x->f.view && t && t->why != dropped_again)
        return import_refuse(&p->pass, x, "because a table of that name exists", e);
    if (x->f.view)
        import_note(&p->views, x->f.name.p, x->st->line);
    if (x->f.trigger && t)
        t->fires = true;
    return 0;
}

static int plan_empty(struct planning *p, const struct import_seen *x, struct err *e)
{
    return import_table_of(p, x, e) ? 0 : -1;
}

static int plan_sequence(struct planning *p, const struct import_seen *x, struct err *e)
{
    (void)e;
    names_add(&p->report->sequences, x->f.name.p);
    return 0;
}

static int plan_refuse(struct planning *p, const struct import_seen *x, struct err *e)
{
    return import_refuse(&p->pass, x, NULL, e);
}

/* The handlers of statements on objects in a schema. */
static int (*const in_schema[])(struct planning *p, const struct import_seen *x, struct err *e) = {
    [FOREIGN_REFUSED] = plan_refuse, [FOREIGN_TABLE] = plan_table,
    [FOREIGN_ROWS] = plan_rows,      [FOREIGN_EMPTY] = plan_empty,
    [FOREIGN_ALTER] = plan_alter,    [FOREIGN_DROP] = plan_drop_tables,
    [FOREIGN_CODE] = plan_code,      [FOREIGN_SEQUENCE] = plan_sequence,
    [FOREIGN_DROP_SCHEMA] = NULL};

/* Returns whether definitions can be read under the current sql_mode. Under some modes they are
 * written in another language. */
static bool import_readable(const struct import_pass *p)
{
    SCOPED(buf_free) struct buf modes = {0};
    return foreign_modes(p->session.now[FOREIGN_MODE], &modes);
}

static int plan_in_schema(struct planning *p, const struct import_seen *x, struct err *e)
{
    const struct config *cfg = p->plan->job->cfg;
    const char *own = p->pass.schema.len ? p->pass.schema.p : cfg->schema;
    if (x->f.schema.len && (!own || strcmp(x->f.schema.p, own) != 0))
        return import_refuse(&p->pass, x, "which names another schema", e);
    if (!import_readable(&p->pass) && x->f.kind != FOREIGN_CODE && x->f.kind != FOREIGN_DROP)
        return import_refuse(&p->pass, x, "under an sql_mode that imitates another database system",
                             e);
    return in_schema[x->f.kind](p, x, e);
}

/* Everything is read once before anything is created, so that a file that is refused at its end has
 * changed nothing. */
static int plan_statement(void *arg, struct import_seen *x, struct err *e)
{
    struct planning *p = arg;
    if (p->code && (x->f.kind == FOREIGN_SET || x->f.kind == FOREIGN_CODE))
        code_note_foreign(p->code, x->sql, x->len);
    if (x->f.kind == FOREIGN_MAKE_SCHEMA)
        import_note(&p->gone, x->f.name.p, 0);
    if (x->f.kind == FOREIGN_DROP_SCHEMA)
        import_note(&p->gone, x->f.name.p, x->st->line);
    const char *world = p->plan->job->cfg->schema;
    p->asks = x->f.kind == FOREIGN_USE && !p->surveyed && world && strcmp(x->f.name.p, world) != 0;
    return p->asks ? -1 : in_schema[x->f.kind] ? plan_in_schema(p, x, e) : 0;
}

/* Refuses the file if the stock client would drop something that this restore leaves as it is. A
 * table that a tool makes in place of a view of the file does not count. */
static int check_dropped(const struct planning *p, struct err *e)
{
    const struct plan *plan = p->plan;
    for (size_t i = 0; i < p->dropped.count; i++) {
        const struct note *n = &p->dropped.list[i];
        const struct db_table *live = db_table_find(&plan->live, n->name);
        bool restored = live && (live->memory || plan->into || plan->job->cfg->restore_all) &&
                        !db_sentinel_own(plan->job->cfg->sentinel, n->name);
        if (!restored || import_noted(&p->views, n->name))
            continue;
        err_set(e, ERR_REFUSED, 0,
                "%s, line %llu: drops table %s, which is in the schema and which the restore would "
                "keep",
                p->pass.in->name, (unsigned long long)n->line, n->name);
        return import_hint_stock(p->pass.in, plan, e);
    }
    if (!p->gone.count)
        return 0;
    err_set(e, ERR_REFUSED, 0, "%s, line %llu: drops database %s and does not create it again",
            p->pass.in->name, (unsigned long long)p->gone.list[0].line, p->gone.list[0].name);
    return import_hint_stock(p->pass.in, plan, e);
}

static int plan_end(struct planning *p, struct err *e)
{
    struct import_report *r = p->report;
    r->ends = p->pass.reading.ends;
    r->cut_line = p->pass.reading.cut_line;
    r->last_line = p->pass.reading.last_line;
    memcpy(r->sha256, p->pass.reading.sha256, sizeof r->sha256);
    r->utc = !p->pass.session.any;
    noted_settle(&p->dropped);
    noted_settle(&p->gone);
    noted_settle(&p->views);
    return check_dropped(p, e);
}

/* Runs the first pass. `asks` is NULL if the file has been surveyed. */
static int plan_pass(const struct import *in, struct plan *plan, struct code *code,
                     struct import_report *report, bool *asks, struct err *e)
{
    struct planning p = {
        .pass = {.in = in, .plan = plan, .only = report->schema[0] ? report->schema : NULL},
        .plan = plan,
        .report = report,
        .code = code,
        .surveyed = !asks};
    int rc = import_pass(&p.pass, plan_statement, &p, e);
    if (rc == 0)
        rc = plan_end(&p, e);
    if (asks)
        *asks = p.asks;
    import_pass_free(&p.pass);
    free_noted(&p.dropped);
    free_noted(&p.gone);
    free_noted(&p.views);
    return rc;
}

/* ---- files with several schemas ---- */

struct survey {
    struct import_pass pass;
    struct buf first;   /* the schema of the first table */
    bool tables;        /* a table was found */
    bool ours, several; /* found tables of the world's own schema; of several schemas */
};

static int survey_statement(void *arg, struct import_seen *x, struct err *e)
{
    struct survey *s = arg;
    const char *schema = s->pass.schema.p;
    (void)e;
    if (x->f.kind != FOREIGN_TABLE)
        return 0;
    if (!s->tables)
        buf_adds(&s->first, schema);
    s->several |= strcmp(schema, s->first.p) != 0;
    s->ours |= strcmp(schema, s->pass.plan->job->cfg->schema) == 0;
    s->tables = true;
    return 0;
}

/* Finds which of the file's schemas is restored. */
static int import_survey(const struct import *in, const struct plan *plan,
                         struct import_report *report, struct err *e)
{
    struct survey s = {.pass = {.in = in, .plan = plan, .survey = true}};
    const char *world = plan->job->cfg->schema;
    int rc = import_pass(&s.pass, survey_statement, &s, e);
    if (rc == 0 && s.several && !s.ours) {
        SCOPED(buf_free) struct buf b = {0};
        text_clean(&b, s.first.p, 64);
        err_set(e, ERR_REFUSED, 0,
                "%s holds tables of several schemas (%s and more), none called %s", in->name, b.p,
                world);
        rc = err_hint(e, "dump only the wanted schema: mysqldump SCHEMA");
    }
    if (s.several)
        snprintf(report->schema, sizeof report->schema, "%s", world);
    import_pass_free(&s.pass);
    buf_free(&s.first);
    return rc;
}

/* Plans the restore of a file. Tables of several schemas may have the same name and are not one
 * world, so only those of the world's schema are used. The file is read once more for that only if
 * it names another schema. */
int import_plan(const struct import *in, struct plan *plan, struct code *code,
                struct import_report *report, struct err *e)
{
    bool asks;
    *report = (struct import_report){0};
    int rc = plan_pass(in, plan, code, report, &asks, e);
    if (!asks)
        return rc;
    if (code)
        code_free(code);
    import_report_free(report);
    plan_clear(plan);
    return import_survey(in, plan, report, e) < 0 ? -1 : plan_pass(in, plan, code, report, NULL, e);
}

void import_report_free(struct import_report *r)
{
    names_free(&r->sequences);
    *r = (struct import_report){0};
}
