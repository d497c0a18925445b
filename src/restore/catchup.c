#include "restore/catchup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/fault.h"
#include "core/js.h"
#include "journal/archive.h"

/* A dump that was asked for by name is wanted as it is, and so is the one that replaces a living
 * world. */
static bool wants_journal(const struct catchup *c, const struct manifest *m)
{
    enum config_journal mode = c->job->cfg->journal;
    if (c->opt->at.ms)
        return true;
    bool any = mode == JOURNAL_AUTO ? m->end.file[0] != '\0' : mode != JOURNAL_OFF;
    return any && !c->opt->into && !c->out->over_living && !c->off && restore_newest(c->opt->dump);
}

/* TRUNCATE sets a counter back, and nothing else does. */
static void set_counter(struct catchup *c, struct target *t)
{
    struct fold_figures f = {0};
    const struct fold_table *ft = fold_find(c->journal.fold, t->name);
    uint64_t next = replay_counter(&c->journal, t->name);
    if (!ft)
        return;
    fold_figures(ft, &f);
    if (t->auto_increment && f.truncated)
        t->auto_increment = next ? next : 1;
    else if (next > t->auto_increment)
        t->auto_increment = next;
    t->heap_need += 4 * f.bytes;
    c->out->journal.rows += f.rows;
}

static void keep_figures(struct catchup *c)
{
    const struct replay *j = &c->journal;
    c->out->journal.used = true;
    c->out->journal.whole = !j->gap[0] && j->to_loss;
    c->out->journal.changes = j->changes;
    c->out->journal.filed = j->filed;
    c->out->journal.rows = 0;
    c->out->journal.last = j->last;
    c->out->journal.gap_at = j->gap_at;
    c->out->journal.upto = j->upto;
    memcpy(c->out->journal.gap, j->gap, sizeof j->gap);
    for (size_t i = 0; i < c->plan->count; i++)
        set_counter(c, &c->plan->list[i]);
}

static void forget_journal(struct catchup *c)
{
    replay_free(&c->journal);
    c->out->journal.used = c->out->journal.whole = false;
}

static void note(const struct catchup *c, const char *text)
{
    if (c->job->note)
        c->job->note(c->job->note_arg, text);
}

/* -1: there are none. */
static int open_segments(const struct catchup *c)
{
    struct err e = {0};
    int fd = archive_dir(c->job->cfg, false, &e);
    if (fd < 0 && e.num != ENOENT)
        note(c, e.text);
    return fd;
}

/* Both sources speak of the world's own schema, whatever is restored into. */
static int replay_world(struct catchup *c, const struct manifest *m, struct err *e)
{
    const struct config *cfg = c->job->cfg;
    struct db_tables tables;
    char *schema = db_schema_name(c->db, cfg->schema, e);
    if (!schema && e->cls != ERR_REFUSED)
        return -1;
    if (!schema) /* a new server, on which the past is looked at: segments need no schema */
        schema = xstrdup(cfg->schema);
    struct replay_source s = {.db = &c->job->db,
                              .schema = schema,
                              .sentinel = cfg->sentinel,
                              .from = &m->end,
                              .m = m,
                              .tables = &tables,
                              .until = c->opt->at,
                              .archive_fd = open_segments(c),
                              .progress = c->job->progress};
    int rc = db_tables(c->db, schema, false, &tables, e);
    if (rc == 0)
        rc = db_table_keys(c->db, schema, &tables, e);
    if (rc == 0)
        rc = replay_read(&s, &c->journal, e);
    if (s.archive_fd >= 0)
        close(s.archive_fd);
    db_tables_free(&tables);
    free(schema);
    return rc;
}

/* Durable tables come out of the dump alone: with the changes of the others they would be two
 * moments in one world. */
static bool restores_durable(const struct catchup *c)
{
    for (size_t i = 0; i < c->plan->count; i++)
        if (!c->plan->list[i].skip && !c->plan->list[i].memory)
            return true;
    return false;
}

/* Whoever emptied the tables of a server that was not restarted is in the log too, and nothing
 * tells his changes from those that are wanted. A world that came in by a way that the log does not
 * tell is not the one of the dump. */
static const char *no_use(const struct catchup *c)
{
    const struct state *st = c->opt->state;
    bool any_moment = c->opt->at.ms == 0;
    if (any_moment && c->journal.at_end && !c->journal.to_loss)
        return "the server was not restarted since the dump, so nothing tells where the loss was; "
               "--at TIME goes to a moment before it";
    if (any_moment && st && st->known && strcmp(st->nonce, c->journal.nonce) != 0)
        return "the world that was lost is not the one of the dump: another one was put in its "
               "place, and the log does not tell how";
    return NULL;
}

static void leave_journal_out(struct catchup *c, const char *why)
{
    forget_journal(c);
    snprintf(c->out->journal.gap, sizeof c->out->journal.gap, "%s", why);
}

/* A moment that was asked for is that moment or nothing. */
static int refuse_gap(const struct catchup *c, struct err *e)
{
    char t[TEXT_SHORT];
    if (!c->opt->at.ms)
        return 0;
    if (c->journal.to_loss && c->journal.lost_at.ms < c->opt->at.ms) {
        err_set(e, ERR_REFUSED, 0, "at that moment there was no world: it was lost at %s",
                text_utc(c->journal.lost_at, t));
        err_hint(e, "a moment before that, or after the first dump behind it");
        return -1;
    }
    if (!c->journal.gap[0])
        return 0;
    err_set(e, ERR_REFUSED, 0, "the journal does not reach that moment from dump %s: %s",
            c->out->dump, c->journal.gap);
    if (c->journal.last.ms)
        err_hint(e,
                 "--at %s is the last moment before the gap; a dump taken behind it reaches "
                 "further",
                 text_utc(c->journal.last, t));
    else
        err_hint(e, "--restore=DUMP --into SCHEMA brings back the moment of a dump; --list shows "
                    "them");
    return -1;
}

static void note_gap(const struct catchup *c)
{
    char text[900];
    if (!c->out->journal.gap[0])
        return;
    snprintf(text, sizeof text, "%s: %s",
             c->out->journal.used ? "the journal ends before the loss" : "the journal is left out",
             c->out->journal.gap);
    note(c, text);
}

static int use_journal(struct catchup *c, const struct manifest *m, struct err *e)
{
    progress_phase(c->job->progress, "reading the journal", 0, 0);
    mono_t began = clock_mono();
    if (replay_world(c, m, e) < 0) {
        err_step(e, "reading the journal");
        return -1;
    }
    if (c->journal.damage[0] && !c->journal.gap[0]) /* else the gap says so */
        note(c, c->journal.damage);
    c->out->journal.took_ms = mono_since(clock_mono(), began);
    const char *why = no_use(c);
    if (why)
        leave_journal_out(c, why);
    else
        keep_figures(c);
    return refuse_gap(c, e);
}

int catchup_read(struct catchup *c, const struct manifest *m, struct err *e)
{
    static const char durable[] = "durable tables are restored too, whose changes are not followed";
    forget_journal(c);
    if (!wants_journal(c, m))
        return 0;
    if (restores_durable(c) && c->opt->at.ms)
        return err_set(e, ERR_REFUSED, 0, "--at cannot be had: %s", durable);
    if (restores_durable(c))
        leave_journal_out(c, durable);
    else if (use_journal(c, m, e) < 0)
        return -1;
    fault_point("restore.journal_read");
    note_gap(c);
    return 0;
}

void catchup_free(struct catchup *c)
{
    replay_free(&c->journal);
}

json_t *catchup_json(const struct restore_result *r)
{
    char last[TEXT_SHORT];
    json_t *o =
        json_pack("{s:b, s:b, s:I, s:I, s:I, s:f, s:o, s:s, s:I}", "used", r->journal.used, "whole",
                  r->journal.whole, "changes", (json_int_t)r->journal.changes, "filed",
                  (json_int_t)r->journal.filed, "rows", (json_int_t)r->journal.rows, "seconds",
                  (double)r->journal.took_ms / 1000.0, "last",
                  r->journal.last.ms ? json_string(text_utc(r->journal.last, last)) : json_null(),
                  "file", r->journal.upto.file, "pos", (json_int_t)r->journal.upto.pos);
    if (r->journal.gap[0])
        js_set_clean(o, "gap", r->journal.gap);
    return o;
}
