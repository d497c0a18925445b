#include "supervisor/words.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/js.h"
#include "base/line.h"
#include "base/text.h"
#include "mysql/galera.h"
#include "restore/loss.h"
#include "restore/permit.h"
#include "sql/literal.h"
#include "watch/explain.h"
#include "watch/probe.h"

/* Each alert has four texts: the subject, what happened, what is being done, and what to do. They
 * are written for a reader who was asleep a minute ago. */

#define NO_DATABASE 1049 /* ER_BAD_DB_ERROR of the server */
#define SET(field, ...) line_set(field, sizeof(field), __VA_ARGS__)

/* ---- not there, or not to be judged ---- */

struct text {
    const char *headline, *what, *doing, *todo; /* `what` is followed by the guard's reason */
};

/* Fills the four texts. The reason comes from the guard, which has cleaned it. */
static void words_say(struct words *out, const char *reason, const struct text *t)
{
    SET(out->headline, "%s", t->headline);
    SET(out->what, "%s%s", t->what, reason);
    SET(out->doing, "%s", t->doing);
    SET(out->todo, "%s", t->todo);
}

/* Describes problems of the sentinel, which the verdict alone does not determine. */
static void words_sentinel(const struct words_facts *f, struct words *out)
{
    static const struct text
        elsewhere = {"LOST, on a different server",
                     "the world's tables are empty, on a different server than before: ",
                     "nothing is restored there automatically",
                     "if the game has moved to this server: worldkeeper --restore; if not, correct "
                     "[mysql] in the config"},
        missing =
            {"NOT PROTECTED, the sentinel table is missing",
             "the table by which worldkeeper knows its world is missing: ",
             "no dump; nothing is restored automatically",
             "if another alert shows a command with the time of the loss, run that one, because it "
             "loses less; if the table was lost or dropped by mistake: worldkeeper --restore; if "
             "the present tables are the world now, such as a new round (earlier dumps are then "
             "restored only by name): worldkeeper --init"},
        dropped =
            {"NOT PROTECTED, the sentinel table is missing",
             "the table by which worldkeeper knows its world is missing: ",
             "no dump; nothing is restored automatically over what may be a living world",
             "if another alert shows a command with the time of the loss, run that one, because it "
             "loses less; if the present tables are complete, this takes them as the world "
             "(earlier dumps are then restored only by name): worldkeeper --init; if not, this "
             "restores the newest dump, or with --at a later moment, and keeps a copy of the rows "
             "that it replaces: worldkeeper --restore --force"},
        gone = {"DATABASE MISSING",
                "the server answers, and the database of the world does not exist: ",
                "no dump; nothing is restored automatically",
                "if it was dropped or lost by mistake, this creates it again: worldkeeper "
                "--restore; if it was renamed, correct [world] schema in the config"},
        deleted =
            {"NOT PROTECTED, the sentinel row was deleted",
             "the row by which worldkeeper knows its world was deleted, and the server was "
             "not restarted: ",
             "no dump; nothing is restored automatically over what may be a living world",
             "if the world is still there, this puts the row back: worldkeeper --init; if it is "
             "lost, this restores the newest dump, or with --at a later moment: worldkeeper "
             "--restore --force"},
        foreign = {"NOT PROTECTED, the sentinel row was changed",
                   "the sentinel row does not identify this world: ",
                   "no dump and no restore until it does",
                   "find out who changed the sentinel table; to adopt the world that is there: "
                   "worldkeeper --init --force"};
    const struct text *t = f->guard->cause == CAUSE_ELSEWHERE ? &elsewhere
                           : f->guard->verdict == VERDICT_MISSING && f->error == NO_DATABASE ? &gone
                           : f->guard->verdict == VERDICT_MISSING && f->guard->rows_there ? &dropped
                           : f->guard->verdict == VERDICT_MISSING                         ? &missing
                           : f->guard->verdict == VERDICT_EMPTY                           ? &deleted
                                                                : &foreign;
    words_say(out, f->guard->reason, t);
    /* A row that survives a server restart proves neither a living world nor a loss. */
    if (t == &foreign && f->engine[0]) {
        SCOPED(buf_free) struct buf name = {0};
        sql_ident2(&name, f->cfg->schema, f->cfg->sentinel);
        SET(out->headline, "NOT PROTECTED, the sentinel table is not in memory");
        SET(out->todo,
            "if the world is still there: ALTER TABLE %s ENGINE=MEMORY; if it was lost, this "
            "lets it be restored: TRUNCATE TABLE %s",
            name.p, name.p);
    }
}

static void words_down(const struct words_facts *f, struct words *out)
{
    static const struct text
        node = {"NOT ANSWERING, its node is not in the primary component",
                "the server is a Galera node that answers no queries: ",
                "probing continues; nothing is restored while its content is not known",
                GALERA_PRIMARY_HINT},
        stalled = {"NOT ANSWERING", "the database server is there and does not answer: ",
                   "probing continues; nothing is restored while it may still hold the world",
                   "find out what blocks the server or the sentinel table: SHOW PROCESSLIST"},
        another = {"NOT WATCHED FROM HERE, another supervisor has this world", "",
                   "no dump and no restore from here; this one takes over as soon as the other one "
                   "has ended",
                   "stop one of the two"},
        denied =
            {"NOT PROTECTED, the server refuses worldkeeper",
             "the database server refuses worldkeeper's account, so it is unknown whether the "
             "world is there: ",
             "probing continues; no dump, and nothing is restored on a refusal",
             "if the account's password was changed, let this supervisor read it again (systemctl "
             "reload, or SIGHUP); this names the privilege or limit that is missing: "
             "worldkeeper --check"},
        away = {"DOWN", "",
                "probing until the server answers; the world is restored automatically when it "
                "comes back empty",
                "find out why the database server is down, and start it"},
        away_by_hand = {"DOWN", "",
                        "probing until the server answers; nothing is restored automatically "
                        "([restore] auto = no)",
                        "find out why the database server is down, and start it"};
    static const char again[] = "cannot connect: "; /* the alert already says this */
    const char *reason = f->guard->reason;
    const struct text *t = f->cfg->restore_auto ? &away : &away_by_hand;
    if (text_starts(reason, again))
        reason += strlen(again);
    if (f->guard->verdict == VERDICT_STALLED)
        t = f->error == GALERA_NOT_PRIMARY ? &node : &stalled;
    else if (f->guard->verdict == VERDICT_DENIED)
        t = text_starts(reason, PROBE_ANOTHER) ? &another : &denied;
    words_say(out, reason, t);
    /* First a sentence for people, then the server's message. */
    if (t == &away || t == &away_by_hand) {
        struct explanation x;
        explain(f->guard, f->cfg, f->error, "", &x);
        SET(out->what, "%c%s. Detail: %s", tolower((unsigned char)x.cause[0]), x.cause + 1, reason);
        if (x.command[0])
            SET(out->todo, "%s; this shows its state: %s", t->todo, x.command);
    }
}

/* Describes a lost world that waits. After a failed restore an operator must choose: first the hint
 * of its error, then the command that is always right. */
static void words_waiting(const struct words_facts *f, struct words *out)
{
#define SHOWN "worldkeeper --list shows what can be restored"
#define CHOICE SHOWN "; to restore a certain dump: worldkeeper --restore=DUMP"
    static const struct text by_hand = {
        "LOST, and waits for you to restore it",
        "the world is lost: ", "waiting: nothing is restored automatically ([restore] auto = no)",
        CHOICE};
    static const struct text failed = {"DOWN, the restore failed",
                                       "the world is lost and could not be restored: ",
                                       "retrying automatically, with growing waits", CHOICE};
    words_say(out, f->guard->reason, f->cfg->restore_auto ? &failed : &by_hand);
    if (f->cfg->restore_auto && f->hint[0])
        SET(out->todo, "%s; %s", f->hint, SHOWN);
}

/* ---- restored ---- */

/* Formats a time as --at takes it: "2026-11-22T21:03:10Z", or "21:03:10Z" without `day`. */
static void words_moment(const char *utc, bool day, char out[TEXT_SHORT])
{
    if (strlen(utc) != strlen("2026-11-22T21:03:10Z") || utc[10] != 'T') {
        line_set(out, TEXT_SHORT, "%s", utc);
        return;
    }
    snprintf(out, TEXT_SHORT, "%s", day ? utc : utc + 11);
}

/* Rows that were written into the emptied tables. The server accepted them, but the restored world
 * does not contain them. */
struct set_aside {
    char rows[TEXT_SHORT], when[2 * TEXT_SHORT]; /* "668 rows", "written … to …" */
    const char *is;
    const char *file, *name; /* path and file name */
};

static bool words_set_aside(const json_t *restored, struct set_aside *out)
{
    int64_t rows = js_number(restored, "conflict_rows", 0);
    const char *slash;
    /* The number is unknown if the last rows could not be saved yet. */
    bool unknown = json_is_null(json_object_get(restored, "conflict_rows")) &&
                   js_text(restored, "conflict_file")[0];
    if (rows <= 0 && !unknown)
        return false;
    char n[TEXT_SHORT];
    line_set(out->rows, sizeof out->rows, "%s%s", unknown ? "rows" : text_count((uint64_t)rows, n),
             unknown     ? ""
             : rows == 1 ? " row"
                         : " rows");
    out->is = rows == 1 ? "is" : "are";
    /* "written 21:03:10Z to 21:04:24Z", as far as the times are known. */
    const char *from = js_text(restored, "conflict_from");
    const char *to = js_text(restored, "conflict_to");
    char a[TEXT_SHORT], b[TEXT_SHORT];
    bool one_day = strncmp(from, to, 10) == 0;
    words_moment(from, !one_day, a);
    words_moment(to, !one_day, b);
    if (from[0] && to[0])
        SET(out->when, "written %s to %s", a, b);
    else if (to[0])
        SET(out->when, "written until %s", b);
    else
        SET(out->when, "written meanwhile");
    out->file = js_text(restored, "conflict_file");
    slash = strrchr(out->file, '/');
    out->name = slash ? slash + 1 : out->file;
    return true;
}

/* Puts the rows that were set aside first, so that the message does not read as if nothing were
 * lost. */
static void set_aside_words(const struct set_aside *s, const struct loss *loss, struct words *out)
{
    char lost[TEXT_SHORT], rest[sizeof out->what];
    SCOPED(buf_free) struct buf file = {0};
    buf_shell(&file, s->file);
    if (loss->nothing)
        SET(out->headline, "BACK, but %s %s %s in %s", s->rows, s->when, s->is, s->name);
    else
        SET(out->headline, "BACK, %s, and %s %s %s in %s", loss_words(loss, lost), s->rows, s->when,
            s->is, s->name);
    SET(rest, "%s", out->what);
    SET(out->what,
        "%s that players wrote into the emptied tables (%s) %s not in the world but in %s; %s",
        s->rows, s->when, s->is, s->name, rest);
    SET(out->todo,
        "give the players their %s back; this compares them with the world: worldkeeper "
        "--conflicts=%s; this inserts those that collide with nothing: worldkeeper "
        "--conflicts=%s --apply",
        s->rows, file.p, file.p);
}

static const char *after_loss(const json_t *restored, const struct loss *loss)
{
    if (loss->nothing || !js_text(restored, "lost")[0])
        return "nothing";
    return json_object_get(restored, "journal")
               ? "tell the players"
               : "tell the players; with a journal such changes are kept: worldkeeper --check says "
                 "what that needs";
}

static void add_what(struct words *out, const char *front, const char *text)
{
    char shown[400]; /* so that there is room for the next one */
    SET(shown, "%s", text);
    if (text[0])
        line_add(out->what, sizeof out->what, "%s%s", front, shown);
}

/* Returns whether a logged statement may be offered for pasting. The game's account wrote it, in a
 * session of its own: where a text contains a backslash or a quotation mark, another client may
 * read its end elsewhere, and what follows as a command. "?" stands for a control character. The
 * rest would be taken for a command of the hint (base/steps.h). The server writes a DROP TABLE
 * itself, and ends it in a comment. */
static bool can_be_pasted(const char *sql)
{
    static const char by_server[] = " /* generated by server */";
    static const char *const doubtful[] = {"\\", "\"", "?",  "#",           "--",
                                           "/*", ";",  ": ", "worldkeeper "};
    size_t n = strlen(sql), end = sizeof by_server - 1;
    SCOPED(xfree)
    char *own = xstrndup(sql, n > end && strcmp(sql + n - end, by_server) == 0 ? n - end : n);
    for (size_t i = 0; i < sizeof doubtful / sizeof *doubtful; i++)
        if (strstr(own, doubtful[i]))
            return false;
    return true;
}

/* Adds the statements that bring back changed definitions, for tables that are as the dump defines
 * them. */
static void as_dumped(const json_t *restored, struct words *out)
{
    SCOPED(buf_free) struct buf all = {0}, file = {0};
    char rest[sizeof out->todo];
    size_t i, k;
    json_t *t, *sql;
    bool pasted = true;
    if (!js_text(restored, "as_dumped_file")[0])
        return;
    buf_shell(&file, js_text(restored, "as_dumped_file"));
    json_array_foreach(json_object_get(restored, "as_dumped"), i, t)
    {
        json_array_foreach(json_object_get(t, "statements"), k, sql)
        {
            const char *text = json_is_string(sql) ? json_string_value(sql) : "";
            pasted = pasted && can_be_pasted(text);
            buf_printf(&all, "%s%s;", all.len ? " " : "", text);
        }
    }
    SET(rest, "%s", out->todo);
    bool nothing_else = strcmp(rest, "nothing") == 0, fits = pasted && all.len && all.len < 300;
    SET(out->todo,
        "apply the changes of definitions again, once the rows fit them%s%s (%s contains the "
        "replaced definitions)%s%s",
        fits ? ": " : "", fits ? all.p : "", file.p, nothing_else ? "" : " - and ",
        nothing_else ? "" : rest);
}

/* Describes a restore: first what was lost, then which rows were set aside, then what needs an
 * operator, because players ask in this order. */
static void words_restored(const struct words_facts *f, struct words *out)
{
    const json_t *r = f->restored;
    const struct loss loss = loss_from_json(r);
    const char *to = js_text(r, "restored_to");
    char lost[TEXT_SHORT], at[TEXT_SHORT];
    struct set_aside aside;
    words_moment(to, true, at);
    const char *words = loss_words(&loss, lost);
    /* A world that was down is back, whoever restored it. */
    bool away = json_number_value(json_object_get(r, "outage_seconds")) > 0;
    const char *restored = away ? "BACK, restored by hand" : "RESTORED by hand";
    const char *was =
        away ? "the world is back, restored by hand" : "the world was restored by hand";
    if (f->guard->by_hand && to[0]) {
        SET(out->headline, "%s to %s", restored, at);
        SET(out->what, "%s to %s (%s)", was, at, f->guard->reason);
    } else if (f->guard->by_hand) { /* if the world was alive, any loss is intended */
        const char *comma = js_text(r, "lost")[0] ? ", " : "";
        SET(out->headline, "%s%s%s", restored, comma, comma[0] ? words : "");
        SET(out->what, "%s%s%s (%s)", was, comma, comma[0] ? words : "", f->guard->reason);
    } else {
        const char *as_of = loss.nothing || !to[0] ? "" : " as it was at ";
        SET(out->headline, "BACK, %s", words);
        SET(out->what, "the world is back%s%s, %s (%s)", as_of, as_of[0] ? at : "", words,
            f->guard->reason);
    }
    SET(out->doing, "probes and dumps continue");
    SET(out->todo, "%s", after_loss(r, &loss));
    if (words_set_aside(r, &aside))
        set_aside_words(&aside, &loss, out);
    as_dumped(r, out);
    /* Events are restored disabled. The statements that enable them are shown if all of them
     * fit. */
    const char *enable = js_text(json_object_get(r, "definitions"), "enable");
    char rest[sizeof out->todo];
    if (enable[0]) {
        SET(rest, "%s", out->todo);
        bool nothing_else = strcmp(rest, "nothing") == 0, fits = strlen(enable) < 400;
        SET(out->todo, "events of the dump are disabled; once you have read them: %s%s%s",
            fits ? enable : "ALTER EVENT … ENABLE, as worldkeeper --status --json has it for each",
            nothing_else ? "" : " - and ", nothing_else ? "" : rest);
    }
    add_what(out, "; skipped for what is wrong with it: ", js_text(r, "passed_over"));
    add_what(out, "; but: ", js_text(r, "warning"));
}

static void words_recovered(const struct words_facts *f, struct words *out)
{
    static const struct text same = {
        "BACK, nothing lost",
        "the world is up again, in the same server process as before, so nothing is lost",
        "probes and dumps continue", "nothing"};
    static const struct text other = {
        "BACK, loss unknown",
        "the world is up again, but no restore finished that could tell what is lost: ",
        "probes and dumps continue", "nothing"};
    static const struct text let_in = {"PROTECTED again",
                                       "the server accepts worldkeeper again; the world stayed up "
                                       "in the same server process, so nothing is lost",
                                       "probes and dumps continue", "nothing"};
    words_say(out, f->same_world ? "" : f->guard->reason,
              !f->same_world ? &other
              : f->refused   ? &let_in
                             : &same);
    if (f->answer->alert_event == EVENT_SENTINEL)
        SET(out->headline, "PROTECTED again");
    if (f->answer->alert_event == EVENT_STANDBY)
        SET(out->headline, "KEPT HERE again, the lease is held");
}

/* Chooses the texts of an alert. The event determines the alert; the guard's cause and verdict
 * determine its words. */
void words_for_guard(const struct words_facts *f, struct words *out)
{
    const struct guard_answer *a = f->answer;
    *out = (struct words){.doing = "probing continues"};
    SET(out->what, "%s", f->guard->reason);
    if (a->alert == GUARD_ALERT_RECOVERED)
        words_recovered(f, out);
    else if (a->alert_event == EVENT_RESTORED)
        words_restored(f, out);
    else if (a->alert_event == EVENT_RESTORING) {
        static const struct text by_hand = {"RESTORING", "the world is being restored by hand",
                                            "what was requested is being restored; players wait",
                                            "nothing"};
        static const struct text lost = {
            "RESTORING", "", "the newest intact dump is being restored; players wait", "nothing"};
        const char *why = f->lost_reason[0] ? f->lost_reason : f->guard->reason;
        const char *what = explain_lost(f->guard);
        words_say(out, "", f->guard->by_hand ? &by_hand : &lost);
        if (!f->guard->by_hand)
            SET(out->what, "%c%s; it is being restored. Detail: %s",
                tolower((unsigned char)what[0]), what + 1, why);
    } else if (a->alert_event == EVENT_WAITING)
        words_waiting(f, out);
    else if (a->alert_event == EVENT_SENTINEL)
        words_sentinel(f, out);
    else if (a->alert_event == EVENT_STANDBY) {
        static const struct text t = {
            "NOT KEPT HERE, another machine may have it", "",
            "probing continues; no restore, no upload, and the flag is not UP",
            "worldkeeper --status says who has the world; if it should be this machine: "
            "worldkeeper --check says what is wrong with it"};
        words_say(out, f->guard->reason, &t);
    } else {
        words_down(f, out);
    }
}

void words_for_start(const struct config *cfg, bool journal, wall_t last_sign, wall_t now,
                     struct words *out)
{
    char from[TEXT_SHORT], to[TEXT_SHORT], t[TEXT_SHORT];
    *out = (struct words){
        .headline = "supervisor started", .doing = "probing the world", .todo = "nothing"};
    SET(out->what, "the supervisor was started");
    if (last_sign.ms == 0)
        return;
    words_moment(text_utc(last_sign, t), true, from);
    words_moment(text_utc(now, t), true, to);
    SET(out->headline, "supervisor died and runs again");
    SET(out->what,
        "the supervisor, or its machine, died: its last sign of life was at %s, it has been "
        "running again since %s, and the world was not watched for %s",
        from, to, text_duration(now.ms - last_sign.ms, t));
    /* In a container or in the foreground, the log goes to standard error and not to systemd's
     * journal, even if the config is in /etc. */
    if (journal && cfg->path && text_starts(cfg->path, "/etc/worldkeeper/"))
        SET(out->todo, "see who or what ended it: journalctl -u worldkeeper@%s", cfg->name);
    else
        SET(out->todo, "%s",
            "its last log lines went to its standard error (in a container: docker logs, or "
            "kubectl logs --previous); see whether the kernel ended it: dmesg -T | tail -50");
}

/* ---- statements that affected whole tables ---- */

void statement_words(const struct follow_statement *s, struct buf *out)
{
    char t[TEXT_SHORT];
    bool several = s->count + s->more > 1;
    if (s->schema) {
        buf_printf(out, "the database, with all tables of the world, was %s at %s", s->verb,
                   text_utc(s->at, t));
        return;
    }
    buf_adds(out, several ? "tables " : "table ");
    for (size_t i = 0; i < s->count; i++) {
        const struct follow_table *table = &s->tables[i];
        if (i)
            buf_adds(out, i + 1 == s->count && !s->more ? ", and " : ", ");
        buf_adds(out, table->name);
        if (table->dump[0])
            buf_printf(out, ", %s row%s in the last dump", text_count(table->rows, t),
                       table->rows == 1 ? "" : "s");
        else
            buf_adds(out, ", which is in no dump");
    }
    if (s->more)
        buf_printf(out, ", and %zu more", s->more);
    buf_printf(out, ", %s %s%s%s%s at %s", several ? "were" : "was", s->verb, s->by[0] ? " (" : "",
               s->by, s->by[0] ? ")" : "", text_utc(s->at, t));
}

void gap_words(const struct follow_gap *gap, wall_t moment, bool first, struct buf *out)
{
    const struct follow_statement *s = &gap->statement;
    char t[TEXT_SHORT];
    bool several = s->count + s->more > 1, undumped = false;
    const char *link = first ? "at" : "no later than";
    if (gap->by_statement && s->schema) { /* there is nothing to dump */
        buf_printf(out,
                   "no dump while the database is missing; it can be brought back as it was %s %s",
                   link, text_utc(moment, t));
        return;
    }
    buf_adds(out, "a dump is taken at once; if the world is lost before it is stored, ");
    if (!gap->by_statement || !gap->tables_only) {
        buf_printf(out,
                   "it comes back as it was %s %s, and what is played after that moment is lost",
                   link, text_utc(moment, t));
        return;
    }
    buf_printf(out, "%s back as %s %s %s; all other tables come back %s",
               several ? "these tables come" : "this table comes", several ? "they were" : "it was",
               link, text_utc(moment, t),
               first ? "as they are at the loss" : "as far as the journal leads");
    for (size_t i = 0; i < s->count; i++)
        undumped |= !s->tables[i].dump[0];
    if (undumped)
        buf_adds(out, "; rows of a table that is in no dump do not come back");
}

void statement_headline(const struct follow_statement *s, char *out, size_t size)
{
    size_t all = s->count + s->more;
    if (s->schema)
        line_set(out, size, "DATABASE %s", strcmp(s->verb, "dropped") == 0 ? "DROPPED" : "CHANGED");
    else if (all == 1)
        line_set(out, size, "table %s %s", s->tables[0].name, s->verb);
    else if (all == 2)
        line_set(out, size, "tables %s and %s %s", s->tables[0].name, s->tables[1].name, s->verb);
    else
        line_set(out, size, "table %s and %zu more %s", s->tables[0].name, all - 1, s->verb);
}

/* Appends a command that restores from a dump, which is named because one that is taken now may
 * have the same second. */
static void restore_command(const struct follow_statement *s, const char *dump, bool reached,
                            struct buf *out)
{
    char t[TEXT_SHORT];
    buf_printf(out, "worldkeeper --restore%s%s", dump[0] ? "=" : "", dump);
    if (reached)
        buf_printf(out, " --at %s", text_utc(s->before, t));
}

/* Appends the command that undoes the statement. --restore can only restore single tables, from one
 * dump, into a living world; if others were affected, a second command makes their rows
 * available. */
void statement_undo(const struct follow_statement *s, bool reached, struct buf *out)
{
    SCOPED(names_free) struct names names = {0};
    const char *dump = "", *other = "";
    if (s->schema) {
        restore_command(s, "", reached, out);
        return;
    }
    /* After these statements the table still exists, with rows. */
    bool there = strcmp(s->verb, "altered") == 0 || strcmp(s->verb, "replaced") == 0 ||
                 strcmp(s->verb, "emptied") == 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct follow_table *table = &s->tables[i];
        dump = dump[0] ? dump : table->dump;
        if (table->dump[0] && strcmp(dump, table->dump) == 0)
            names_add(&names, table->name);
        else if (!other[0])
            other = table->dump;
    }
    if (!names.count)
        return;
    restore_command(s, dump, reached, out);
    restore_tables_option(&names, out);
    buf_adds(out, there ? " --force" : "");
    if (!s->more && !other[0])
        return;
    buf_printf(out,
               "; the command restores only %zu of %zu tables; this loads dump %s into another "
               "schema, to copy more of them from there: ",
               names.count, s->count + s->more, s->more ? dump : other);
    restore_command(s, s->more ? dump : other, reached && s->more, out);
    buf_adds(out, " --into SCHEMA");
}

void statement_key(const struct follow_statement *s, char *out, size_t size)
{
    snprintf(out, size, "%s %s", s->verb,
             s->schema  ? "database"
             : s->count ? s->tables[0].name
                        : "");
}
