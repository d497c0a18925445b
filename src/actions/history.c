/* The history (store/history.h): the records of actions, and --history. */
#include "actions/history.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actions/hint_command.h"
#include "base/js.h"
#include "store/timeline.h"

/* --history shows one week without --since. */
#define SINCE_MS (7 * INT64_C(86400000))

enum history_kind history_of(const struct request *r, const json_t *result, const struct err *e)
{
    static const struct {
        enum action action;
        enum history_kind kind;
        bool of_world; /* only if it changes the world itself */
    } recorded[] = {
        {ACTION_DUMP, HISTORY_DUMP, false},      {ACTION_DRILL, HISTORY_DRILL, false},
        {ACTION_VERIFY, HISTORY_VERIFY, false},  {ACTION_WRITE_BACK, HISTORY_WRITE_BACK, false},
        {ACTION_RESTORE, HISTORY_RESTORE, true}, {ACTION_PROMOTE, HISTORY_RESTORE, false},
        {ACTION_ROLLUP, HISTORY_ROLLUP, true},
    };
    /* The request was rejected before a dump was chosen, or there is nothing to promote. No restore
     * has begun. */
    bool refused = e && (e->cls == ERR_REFUSED || e->cls == ERR_CONFIG || e->cls == ERR_USAGE);
    if (r->action == ACTION_PROMOTE && refused && !js_text(result, "dump")[0])
        return HISTORY_KINDS;
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++)
        if (recorded[i].action == r->action && !(recorded[i].of_world && (r->dry_run || r->into)))
            return recorded[i].kind;
    return HISTORY_KINDS;
}

/* The values of a record, terminated by NULL. After "=" is the key in the result, where it differs.
 * The `bytes` of a dump are those of its file. */
static const char *const of_dump[] = {"dump=name", "rows",   "bytes=file_size", "sql_bytes=bytes",
                                      "seconds",   "method", "wait_ms",         NULL},
                         *const of_restore[] = {"dump",       "rows",         "seconds",
                                                "generation", "lost_seconds", "lost_seconds_max",
                                                "lost",       "restored_to",  "conflict_rows",
                                                NULL},
                         *const of_drill[] = {"dump", "rows", "seconds", NULL},
                         *const of_rollup[] = {"ledgers", NULL},
                         *const of_write_back[] = {"sent", "stolen", "stale", "released", NULL};

/* Adds "table a (definition), table b (view)": tables that were restored as the dump defines them,
 * and the file with the replaced definitions. */
static void add_as_dumped(json_t *o, const json_t *result)
{
    SCOPED(buf_free) struct buf b = {0};
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(result, "as_dumped"), i, t)
    {
        buf_printf(&b, "%stable %s (%s)", i ? ", " : "", js_text(t, "table"), js_text(t, "was"));
    }
    js_set_clean(o, "as_dumped", b.p ? b.p : "");
    js_set_clean(o, "as_dumped_file", js_text(result, "as_dumped_file"));
}

json_t *history_fields(const struct request *r, const json_t *result, const struct err *e)
{
    const char *const *fields = r->action == ACTION_DUMP                          ? of_dump
                                : request_swaps(r) || r->action == ACTION_RESTORE ? of_restore
                                : r->action == ACTION_DRILL                       ? of_drill
                                : r->action == ACTION_ROLLUP                      ? of_rollup
                                : r->action == ACTION_WRITE_BACK                  ? of_write_back
                                                                                  : NULL;
    json_t *o = json_pack("{s:b, s:b}", "ok", e == NULL, "automatic", (int)r->automatic);
    bool nothing = (fields == of_restore || fields == of_drill) && !js_text(result, "dump")[0];
    for (; fields && *fields; fields++) {
        const char *from = strchr(*fields, '=');
        SCOPED(xfree) char *name = xstrndup(*fields, strcspn(*fields, "="));
        bool known = !nothing || strcmp(name, "seconds") == 0;
        json_object_set_new(
            o, name, js_or_null(known ? json_object_get(result, from ? from + 1 : name) : NULL));
    }
    if (r->action == ACTION_ROLLUP && r->verify) /* no rollup: the figures are totals */
        json_object_set_new(o, "verify", json_true());
    if (r->action == ACTION_VERIFY) {
        /* Null means that --verify did not finish. */
        json_t *list = json_object_get(result, "dumps"), *dump;
        int64_t whole = 0;
        size_t i;
        json_object_set_new(o, "whole", json_null());
        json_object_set_new(o, "damaged", json_null());
        if (list) {
            json_array_foreach(list, i, dump)
            {
                whole += js_flag(dump, "whole");
            }
            js_set_int(o, "whole", whole);
            js_set_int(o, "damaged", (int64_t)json_array_size(list) - whole);
        }
    }
    if (js_text(result, "as_dumped_file")[0])
        add_as_dumped(o, result);
    if (r->tables)
        js_set_clean(o, "only", r->tables);
    if (r->from)
        js_set_clean(o, "from", r->from);
    if (e && r->action == ACTION_DRILL) /* counted only after the drill passed */
        json_object_set_new(o, "rows", json_null());
    if (e) {
        bool rejected = js_text(result, "rejected")[0];
        js_set_clean(o, "error", e->text);
        json_object_set_new(o, "error_kind",
                            json_string(rejected ? "rejected" : err_class_name(e->cls)));
    }
    return o;
}

bool history_counts(const struct config *cfg, const struct request *r)
{
    if (r->action == ACTION_DRILL && !r->automatic)
        return (r->from != NULL) == cfg->drill.offsite &&
               (!r->dump || strcmp(r->dump, "latest") == 0);
    return r->action != ACTION_VERIFY || (!r->dump && !r->from);
}

void history_discount(json_t *o)
{
    json_object_set_new(o, "counts", json_false());
}

void history_conflict(const struct config *cfg, const json_t *result, json_t *o)
{
    SCOPED(buf_free) struct buf b = {0}, whole = {0};
    const char *file = js_text(result, "conflict_file");
    if (!file[0])
        return;
    buf_adds(&b, "worldkeeper --conflicts=");
    buf_shell(&b, file);
    hint_command(cfg, HINT_ROOT, b.p, &whole);
    js_set_clean(o, "conflict_file", file);
    js_set_clean(o, "conflict_command", whole.p);
}

void history_by_hand(struct action_context *a, const struct request *r, const json_t *result,
                     const struct err *e)
{
    enum history_kind kind = history_of(r, result, e);
    struct stat dir;
    struct err late;
    /* A file that root creates is useless to the service. */
    if (kind == HISTORY_KINDS || a->job.dirfd < 0 || fstat(a->job.dirfd, &dir) < 0 ||
        dir.st_uid != geteuid())
        return;
    json_auto_t *o = history_fields(r, result, e);
    history_conflict(a->cfg, result, o);
    json_object_set_new(o, "by_hand", json_true());
    if (!history_counts(a->cfg, r))
        history_discount(o);
    o = history_record(kind, o);
    if (history_append(a->job.dirfd, o, &late) < 0)
        action_note(a, late.text);
}

/* ---- --history ---- */

struct reading {
    wall_t since;
    json_t *records;
    struct timeline *timeline;
};

static void history_see(void *arg, const json_t *record, const char *line)
{
    struct reading *r = arg;
    (void)line;
    if (!record)
        return;
    timeline_add(r->timeline, record);
    if (history_at(record).ms >= r->since.ms)
        json_array_append(r->records, (json_t *)(uintptr_t)record);
}

/* Reads the file itself, so that it works without a supervisor. Records of the last seconds may be
 * missing. */
int action_history(struct action_context *a, const struct request *r, json_t **result,
                   struct err *e)
{
    wall_t now = clock_wall();
    struct reading reading = {.since = {now.ms - SINCE_MS}};
    struct history_place place = {0};
    bool from_start;
    /* The time is in UTC, as main.c writes it. */
    if (r->since && text_time_parse(r->since, now, &reading.since) < 0)
        return err_set(e, ERR_USAGE, 0, "--since \"%s\" is not a time in the past", r->since);
    reading.records = json_array();
    reading.timeline = timeline_new(now);
    int rc = history_read(a->job.dirfd, &place, &from_start, history_see, &reading, e);
    /* The timeline ends at the supervisor's last sign of life in the state. Nothing is known about
     * the time after it. */
    const struct state *s = &a->state;
    if (s->watched && s->watched_at.ms <= now.ms)
        timeline_until(reading.timeline, s->watched_at);
    timeline_now(reading.timeline, now);
    if (rc == 0)
        *result =
            json_pack("{s:s, s:o, s:o, s:o, s:O}", "world", a->cfg->name, "since",
                      js_time(reading.since), "until", js_time(now), "states_ms",
                      timeline_sum(reading.timeline, reading.since), "records", reading.records);
    history_place_free(&place);
    timeline_free(reading.timeline);
    json_decref(reading.records);
    return rc;
}
