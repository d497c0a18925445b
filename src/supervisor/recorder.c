/* The history of the world (store/history.h). Records go to the disk writer one at a time, and wait
 * in memory while the disk does not take them. */
#include "supervisor/recorder.h"

#include <string.h>

#include "base/js.h"
#include "base/log.h"
#include "supervisor/disk_writer.h"
#include "supervisor/world.h"

/* Records wait in memory, oldest first, until the disk writer has stored them. The counters of the
 * metrics count the same records since this supervisor started. */

/* Length of the finest bucket of history.json. */
#define SAMPLE_EVERY_MS INT64_C(300000)
#define WAITING_MAX 2000

/* Kinds of records that the metrics count. */
static const enum history_kind counted[] = {HISTORY_DUMP, HISTORY_RESTORE, HISTORY_DRILL,
                                            HISTORY_VERIFY};
#define COUNTED (sizeof counted / sizeof *counted)
/* Failures are counted by their class. One more counter is for dumps that the shrink guard
 * rejected. */
#define REJECTED (ERR_CONDITION + 1)

static struct recorder {
    uint64_t passed[COUNTED], failed[COUNTED][REJECTED + 1];
    json_t *waiting; /* records, oldest first */
    bool given;      /* the first record was sent to the disk writer */
    bool dropped;    /* records were lost since the disk writer last stored one */
    mono_t retry, next_sample;
    int64_t probe_ms, journal_lag_ms; /* the largest since the last sample; -1: none */
} recorder;

static void recorder_begin(struct world *w)
{
    struct recorder *r = &recorder;
    (void)w;
    *r = (struct recorder){.waiting = json_array(), .probe_ms = -1, .journal_lag_ms = -1};
    r->next_sample = mono_add(clock_mono(), SAMPLE_EVERY_MS);
}

static int give_first(struct world *w)
{
    return disk_writer_send_json(&w->disk_writer, DISK_HISTORY,
                                 json_incref(json_array_get(recorder.waiting, 0)));
}

/* Sends one record at a time. If a disk writer dies with a record, the record is sent again; its
 * copies are then adjacent in the file and count once. */
static void recorder_give(struct world *w)
{
    if (!recorder.given && json_array_size(recorder.waiting) &&
        mono_reached(clock_mono(), recorder.retry))
        recorder.given = give_first(w) == 0;
}

static void add_count(json_t *list, size_t i, const char *key, const char *value, uint64_t count)
{
    json_array_append_new(list,
                          json_pack("{s:s, s:s, s:I}", "action", history_kind_name(counted[i]), key,
                                    value, "count", (json_int_t)count));
}

json_t *recorder_runs(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < COUNTED; i++) {
        uint64_t failed = 0;
        for (size_t k = 0; k <= REJECTED; k++)
            failed += recorder.failed[i][k];
        add_count(list, i, "result", "ok", recorder.passed[i]);
        add_count(list, i, "result", "failed", failed);
    }
    return list;
}

/* Returns the counters of failures, including zeros: a rule cannot see an increase in a series that
 * begins with its first failure. */
json_t *recorder_failures(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < COUNTED; i++)
        for (enum err_class k = 0; k <= REJECTED; k++) {
            bool expected =
                k == REJECTED ? counted[i] == HISTORY_DUMP : k >= ERR_SYSTEM && k <= ERR_GAP;
            if (expected || recorder.failed[i][k])
                add_count(list, i, "kind", k == REJECTED ? "rejected" : err_class_name(k),
                          recorder.failed[i][k]);
        }
    return list;
}

void history_add(struct world *w, enum history_kind kind, json_t *fields)
{
    for (size_t i = 0; i < COUNTED; i++) {
        const char *error = js_text(fields, "error_kind");
        if (counted[i] != kind)
            continue;
        if (js_flag(fields, "ok"))
            recorder.passed[i]++;
        else
            recorder.failed[i][strcmp(error, "rejected") == 0 ? REJECTED : err_class_of(error)]++;
    }
    if (json_array_size(recorder.waiting) == WAITING_MAX) {
        if (!recorder.dropped)
            log_line(LOG_WARN_, "the history could not be written for too long: records are lost");
        recorder.dropped = true;
        json_array_remove(recorder.waiting, 1); /* the first record may have been sent already */
    }
    json_array_append_new(recorder.waiting, history_record(kind, fields));
    recorder_give(w);
}

/* Returns the fields of a state record; `unverified` only if it is true. */
static json_t *state_fields(const struct world *w, bool changed)
{
    json_t *o =
        json_pack("{s:s, s:b}", "state", guard_state_name(w->guard.state), "changed", (int)changed);
    if (guard_unverified(&w->guard))
        json_object_set_new(o, "unverified", json_true());
    return o;
}

void history_state(struct world *w)
{
    json_t *o = state_fields(w, true);
    js_set_clean(o, "reason", w->guard.reason);
    if (w->guard.state != GUARD_UP)
        js_set_clean(o, "cause", w->why.cause);
    history_add(w, HISTORY_STATE, o);
}

void history_doubt(struct world *w, const char *reason, int64_t late, int64_t drift)
{
    json_t *o = state_fields(w, false);
    js_set_clean(o, "reason", reason);
    js_set_int(o, "unwatched_ms", late + (drift > 0 ? drift : 0)); /* by the new clock */
    if (drift)
        js_set_int(o, "clock_set_ms", drift);
    history_add(w, HISTORY_STATE, o);
}

void recorder_sample(struct world *w, mono_t now, int64_t probe_ms, int64_t journal_lag_ms)
{
    recorder.probe_ms = probe_ms > recorder.probe_ms ? probe_ms : recorder.probe_ms;
    recorder.journal_lag_ms =
        journal_lag_ms > recorder.journal_lag_ms ? journal_lag_ms : recorder.journal_lag_ms;
    if (!mono_reached(now, recorder.next_sample))
        return;
    json_t *o = state_fields(w, false);
    json_object_set_new(o, "probe_ms", js_known(recorder.probe_ms >= 0, recorder.probe_ms));
    json_object_set_new(o, "journal_lag_ms",
                        js_known(recorder.journal_lag_ms >= 0, recorder.journal_lag_ms));
    history_add(w, HISTORY_STATE, o);
    recorder.probe_ms = recorder.journal_lag_ms = -1;
    recorder.next_sample = mono_add(now, SAMPLE_EVERY_MS);
}

void recorder_stored(struct world *w)
{
    if (recorder.given)
        json_array_remove(recorder.waiting, 0);
    /* The loss of records is logged once per outage of the disk. */
    recorder.given = recorder.dropped = false;
    recorder_give(w);
}

void recorder_failed(void)
{
    recorder.given = false;
    recorder.retry = mono_add(clock_mono(), DISK_WRITER_RETRY_MS);
}

void recorder_disk_gone(void)
{
    recorder.given = false;
    recorder.retry = (mono_t){0};
}

/* Sends the remaining records without waiting for answers, because the disk writer writes its whole
 * queue before it exits. */
void recorder_finish(struct world *w)
{
    if (recorder.given)
        json_array_remove(recorder.waiting, 0);
    while (json_array_size(recorder.waiting) && give_first(w) == 0)
        json_array_remove(recorder.waiting, 0);
}

static void recorder_timers(struct world *w, mono_t now)
{
    (void)now;
    recorder_give(w);
}

const struct part recorder_part = {.begin = recorder_begin, .timers = recorder_timers};
