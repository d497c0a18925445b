#include "restore/result.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "base/line.h"
#include "restore/plan.h"

static void code_report_free(struct code_report *r)
{
    json_decref(r->lists);
    buf_free(&r->enable);
    *r = (struct code_report){0};
}

void restore_result_free(struct restore_result *r)
{
    json_decref(r->skipped);
    json_decref(r->plan);
    json_decref(r->conflict.tables);
    json_decref(r->as_dumped);
    free(r->as_dumped_file);
    free(r->conflict.file);
    code_report_free(&r->code);
    *r = (struct restore_result){0};
}

/* Adds the conflict file. Its rows are null while the file may lack some that were written shortly
 * before the swap. */
static void add_conflicts(json_t *o, const struct restore_result *r)
{
    json_object_set_new(o, "conflict_file",
                        r->conflict.file ? js_clean(r->conflict.file) : json_string(""));
    json_object_set_new(o, "conflict_rows",
                        r->conflict.part ? json_null()
                                         : json_integer((json_int_t)r->conflict.rows));
    json_object_set_new(o, "conflict_from", js_utc(r->conflict.from));
    json_object_set_new(o, "conflict_to", js_utc(r->conflict.to));
    if (r->conflict.tables)
        json_object_set(o, "conflict_tables", r->conflict.tables);
}

/* Returns what catch-up did with the journal. `nonce` is that of the restored world, by which a
 * later restore recognizes its journal. */
static json_t *journal_json(const struct restore_result *r)
{
    json_t *o =
        json_pack("{s:b, s:b, s:I, s:I, s:I, s:f, s:o, s:s, s:I}", "used", r->journal.used, "whole",
                  r->journal.whole, "changes", (json_int_t)r->journal.changes, "filed",
                  (json_int_t)r->journal.filed, "rows", (json_int_t)r->journal.rows, "seconds",
                  (double)r->journal.took_ms / 1000.0, "last", js_utc(r->journal.last), "file",
                  r->journal.upto.file, "pos", (json_int_t)r->journal.upto.pos);
    if (r->journal.gap[0])
        js_set_clean(o, "gap", r->journal.gap);
    if (r->journal.part)
        json_object_set_new(o, "part", json_true());
    if (r->journal.used && r->made.nonce[0])
        json_object_set_new(o, "nonce", json_string(r->made.nonce));
    return o;
}

/* Returns what was done with the dump's code, or NULL if there is nothing to report. */
static json_t *code_json(const struct code_report *r)
{
    if (!r->made && !r->lists)
        return NULL;
    json_t *o = json_pack("{s:I}", "made", (json_int_t)r->made);
    json_object_update(o, r->lists);
    if (r->why[0])
        js_set_clean(o, "why", r->why);
    if (r->enable.len)
        js_set_clean(o, "enable", r->enable.p);
    return o;
}

json_t *restore_json(const struct restore_result *r)
{
    json_t *o =
        json_pack("{s:o, s:I, s:I, s:f, s:I, s:i, s:s, s:O, s:O}", "dump", js_clean(r->dump),
                  "rows", (json_int_t)r->rows, "tables", (json_int_t)r->tables, "seconds",
                  (double)r->took_ms / 1000.0, "generation", (json_int_t)r->generation,
                  "connections", (int)r->connections, "load", r->way ? r->way : "insert", "skipped",
                  r->skipped, "plan", r->plan);
    add_conflicts(o, r);
    if (r->warm || r->cold[0])
        json_object_set_new(o, "warm", json_boolean(r->warm));
    if (r->cold[0])
        js_set_clean(o, "cold", r->cold);
    json_object_set_new(o, "replicas", r->replicas < 0 ? json_null() : json_integer(r->replicas));
    if (r->warning[0])
        js_set_clean(o, "warning", r->warning);
    if (r->as_dumped) {
        json_object_set(o, "as_dumped", r->as_dumped);
        json_object_set_new(o, "as_dumped_file", js_clean(r->as_dumped_file));
    }
    if (r->sessions.asked)
        json_object_set_new(o, "sessions",
                            json_pack("{s:I, s:I}", "renewed", (json_int_t)r->sessions.taken,
                                      "closed", (json_int_t)r->sessions.closed));
    json_t *code = code_json(&r->code);
    if (code)
        json_object_set_new(o, "definitions", code);
    if (r->journal.used || r->journal.gap[0])
        json_object_set_new(o, "journal", journal_json(r));
    if (r->live.read) {
        json_t *live = json_pack("{s:I, s:I}", "same", (json_int_t)r->live.same, "moved",
                                 (json_int_t)r->live.moved);
        if (r->live.unread)
            js_set_int(live, "unread", (int64_t)r->live.unread);
        json_object_set_new(o, "live", live);
    }
    return o;
}

void result_warn(struct restore_result *r, const char *fmt, ...)
{
    char *all = r->warning, text[LINE];
    va_list ap;
    va_start(ap, fmt);
    line_vset(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!strstr(all, text)) /* a dump that was tried before may have reported it */
        line_add(all, sizeof r->warning, "%s%s", all[0] ? "; " : "", text);
}

/* Returns what is special about the table in this restore; NULL: nothing. */
static const char *plan_says(const struct target *t)
{
    if (t->why)
        return t->why;
    if (t->as_dumped && t->fresh)
        return "not in the dump; restored as the journal defines it, because its rows do not fit "
               "the present definition";
    if (t->as_dumped)
        return "restored as the dump defines it, because its rows do not fit the present "
               "definition";
    if (t->fresh && t->mapped)
        return "not in the dump; restored from the journal; its columns changed, and rows were "
               "matched by column name";
    if (t->fresh)
        return "not in the dump; restored from the journal, which has its creation";
    return t->mapped ? "its columns changed; rows were matched by column name" : NULL;
}

/* Lists what happened, or would happen, to each table of the dump, and which other tables stay. */
void result_plan(struct restore_result *r, const struct plan *p, const char *sentinel)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct target *t = &p->list[i];
        uint64_t rows = t->created ? t->rows : t->expected;
        if (strcmp(t->name, sentinel) == 0)
            continue; /* the sentinel is not part of the world: the swap creates a new one */
        if (t->skip && p->only)
            continue; /* not requested */
        json_t *o = json_pack("{s:o, s:I, s:b, s:b}", "table", js_clean(t->name), "rows",
                              (json_int_t)rows, "restored", !t->skip, "triggers", t->triggers);
        const char *why = plan_says(t);
        if (why)
            json_object_set_new(o, "why", json_string(why));
        json_array_append_new(r->plan, o);
        if (!t->skip) {
            r->tables++;
            r->rows += rows;
        }
    }
    for (size_t i = 0; i < p->not_in_dump.count; i++)
        json_array_append_new(
            r->plan, json_pack("{s:o, s:i, s:s, s:s}", "table", js_clean(p->not_in_dump.list[i]),
                               "rows", 0, "restored", 0, "why", "not in the dump; left unchanged"));
}
