#include "store/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/js.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define BLIP_MS 10000        /* a shorter state of doubt is not an incident */
#define BACK_MS (5 * MINUTE) /* if the clock was set back further, the sums are void */
#define SAMPLE_LATE_MS (10 * MINUTE)
#define DETAILS_MS (30 * DAY)
#define LEAP_MS (30 * DAY)
#define CAUSE_BYTES 240

/* Ordered from the best state to the worst. */
enum {
    ST_UP,
    ST_PAUSED,
    ST_SUSPECT,
    ST_WAITING,
    ST_LOST,
    ST_RESTORING,
    STATES,
    ST_UNKNOWN = STATES
};
static const struct {
    const char *state, *key;
} states[STATES] = {
    [ST_UP] = {"UP", "up"},
    [ST_PAUSED] = {"PAUSED", "paused"},
    [ST_SUSPECT] = {"SUSPECT", "suspect"},
    [ST_WAITING] = {"WAITING", "waiting"},
    [ST_LOST] = {"LOST", "lost"},
    [ST_RESTORING] = {"RESTORING", "restoring"},
};

/* Measurements. A bucket holds the maximum of the first three and the latest value of the
 * others. */
enum { PROBE_MS, JOURNAL_LAG_MS, DUMP_MS, ROWS, BYTES, MEASURES };
static const char *const measures[MEASURES] = {"probe_ms", "journal_lag_ms", "dump_ms", "rows",
                                               "bytes"};

struct bucket {
    int64_t number; /* number of this bucket's interval since 1970; 0 if unused */
    int64_t ms[STATES];
    int64_t dumps, dumps_failed;
    int64_t measured[MEASURES]; /* -1 if not known */
};

enum { FIVE_MINUTES, HOURS, DAYS, RINGS };
static const struct {
    const char *name;
    int64_t length;
    int64_t kept, shown;
} sizes[RINGS] = {
    {"five_minutes", 5 * MINUTE, TIMELINE_FIVE_MINUTES, TIMELINE_FIVE_MINUTES},
    {"hours", HOUR, TIMELINE_HOURS, TIMELINE_HOURS},
    {"days", DAY, TIMELINE_DAYS_KEPT, TIMELINE_DAYS},
};

struct incident_span {
    wall_t begin, end; /* end.ms is 0 while the incident lasts */
    unsigned worst;
    bool watched;    /* observed from begin to end, so its duration is known */
    bool unverified; /* whether the world was up could not be determined, so this is not downtime */
    char cause[CAUSE_BYTES + 16];
    json_t *restore; /* record of the restore that ended it, or NULL */
};

struct timeline {
    wall_t now, at; /* `at` is the time of the last record */
    unsigned state; /* the state since `at` */
    struct bucket *rings[RINGS];
    struct incident_span incidents[TIMELINE_INCIDENTS];
    size_t incident_count;
    bool open; /* the last incident has not ended */
    /* the world has not been up since then; ms is 0 if it is up or nothing is known */
    wall_t left;
    bool left_seen;       /* the world was known to be up until `left` */
    bool left_unverified; /* the world may be up, but the server refuses to answer */
    char cause[CAUSE_BYTES + 16];
    json_t *last[HISTORY_KINDS]; /* the newest record of some kinds */
};

struct timeline *timeline_new(wall_t now)
{
    struct timeline *t = xcalloc(1, sizeof *t);
    t->now = now;
    t->state = ST_UNKNOWN;
    for (size_t i = 0; i < RINGS; i++)
        t->rings[i] = xcalloc((size_t)sizes[i].kept, sizeof *t->rings[i]);
    return t;
}

void timeline_free(struct timeline *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < RINGS; i++)
        free(t->rings[i]);
    for (size_t i = 0; i < t->incident_count; i++)
        json_decref(t->incidents[i].restore);
    for (size_t i = 0; i < HISTORY_KINDS; i++)
        json_decref(t->last[i]);
    free(t);
}

/* ---- buckets ---- */

/* Returns NULL if the ring no longer covers that time. */
static struct bucket *bucket_at(struct timeline *t, size_t ring, int64_t ms)
{
    int64_t number = ms / sizes[ring].length;
    struct bucket *b = &t->rings[ring][number % sizes[ring].kept];
    if (b->number > number)
        return NULL;
    if (b->number < number) /* the slot holds an older bucket */
        *b = (struct bucket){.number = number, .measured = {-1, -1, -1, -1, -1}};
    return b;
}

static int64_t known_ms(const struct bucket *b)
{
    int64_t sum = 0;
    for (size_t i = 0; i < STATES; i++)
        sum += b->ms[i];
    return sum;
}

/* Adds time to each bucket that it touches. */
static void span_in(struct timeline *t, size_t ring, unsigned state, int64_t from, int64_t to)
{
    int64_t length = sizes[ring].length, kept = sizes[ring].kept * length;
    if (from < to - kept)
        from = (to - kept) / length * length + length;
    while (from < to) {
        int64_t end = (from / length + 1) * length;
        end = end < to ? end : to;
        struct bucket *b = bucket_at(t, ring, from);
        if (b) {
            /* time counts twice after the clock was set back */
            int64_t room = length - known_ms(b);
            b->ms[state] += end - from < room ? end - from : room;
        }
        from = end;
    }
}

static void timeline_span(struct timeline *t, unsigned state, int64_t from, int64_t to)
{
    for (size_t i = 0; i < RINGS && state != ST_UNKNOWN; i++)
        span_in(t, i, state, from, to);
}

static void timeline_most(int64_t *value, int64_t other)
{
    *value = *value > other ? *value : other;
}

static int64_t timeline_measure(const json_t *record, const char *key)
{
    return js_within(record, key, 0, INT64_C(1) << 53, -1);
}

/* Adds the figures to each ring separately. A ring is never computed from a finer one, which
 * covers less time. */
static void timeline_add_figures(struct timeline *t, const json_t *record, enum history_kind kind)
{
    json_t *seconds = json_object_get(record, "seconds");
    bool ok = js_flag(record, "ok");
    for (size_t i = 0; i < RINGS; i++) {
        struct bucket *b = bucket_at(t, i, history_at(record).ms);
        if (!b)
            continue;
        if (kind == HISTORY_STATE) {
            timeline_most(&b->measured[PROBE_MS], timeline_measure(record, measures[PROBE_MS]));
            timeline_most(&b->measured[JOURNAL_LAG_MS],
                          timeline_measure(record, measures[JOURNAL_LAG_MS]));
        } else if (kind == HISTORY_DUMP) {
            b->dumps += ok;
            b->dumps_failed += !ok;
            double took = json_number_value(seconds);
            if (ok && took >= 0 && took < 1e9)
                timeline_most(&b->measured[DUMP_MS], (int64_t)(took * 1000));
            for (size_t k = ROWS; k < MEASURES && ok; k++)
                b->measured[k] = timeline_measure(record, measures[k]);
        }
    }
}

/* ---- incidents ---- */

/* Adds an incident. Removes the oldest one if the list is full. */
static struct incident_span *incident_new(struct timeline *t)
{
    if (t->incident_count == TIMELINE_INCIDENTS) {
        json_decref(t->incidents[0].restore);
        memmove(t->incidents, t->incidents + 1, sizeof t->incidents - sizeof *t->incidents);
        t->incident_count--;
    }
    struct incident_span *n = &t->incidents[t->incident_count++];
    *n = (struct incident_span){0};
    return n;
}

/* Begins an incident. Its cause is the one recorded when the world stopped being up, until a
 * loss is proven. */
static void incident_begin(struct timeline *t, unsigned state)
{
    struct incident_span *n = incident_new(t);
    n->begin = t->left;
    n->watched = t->left_seen;
    n->unverified = t->left_unverified;
    n->worst = state;
    snprintf(n->cause, sizeof n->cause, "%s", t->cause);
    t->open = true;
}

static void copy_clean(const char *text, char *out, size_t size)
{
    SCOPED(buf_free) struct buf b = {0};
    text_clean(&b, text, CAUSE_BYTES);
    snprintf(out, size, "%s", b.len ? b.p : "");
}

/* Ends the incident. A lasting state of doubt becomes an incident only when it ends, because its
 * duration is known only then. */
static void incident_end(struct timeline *t, wall_t at)
{
    if (!t->open && t->left.ms && at.ms - t->left.ms >= BLIP_MS)
        incident_begin(t, ST_SUSPECT);
    if (t->open)
        t->incidents[t->incident_count - 1].end = at;
    t->open = false;
    t->left = (wall_t){0};
}

static unsigned timeline_state_of(const json_t *record)
{
    for (unsigned i = 0; i < STATES; i++)
        if (strcmp(states[i].state, js_text(record, "state")) == 0)
            return i;
    return ST_UNKNOWN;
}

/* Returns the cause as readable text. Records of earlier versions have only the detail. */
static const char *cause_of(const json_t *record)
{
    return js_text(record, "cause")[0] ? js_text(record, "cause") : js_text(record, "reason");
}

/* Applies a change of state. A pause is not an incident, and a current incident continues
 * through it. */
static void incident_state(struct timeline *t, unsigned before, const json_t *record)
{
    unsigned state = timeline_state_of(record);
    wall_t since = js_moment(record, "since_ms");
    bool unverified = js_flag(record, "unverified");
    if (state == ST_UP) {
        incident_end(t, t->at);
    } else if (state == ST_PAUSED && !t->open) {
        t->left = (wall_t){0};
    } else if (state != ST_UNKNOWN && state != ST_PAUSED) {
        if (!t->open && t->left.ms && t->left_unverified && !unverified)
            incident_end(t, t->at); /* what follows is another incident */
        if (!t->left.ms) {
            t->left = since.ms && since.ms < t->at.ms ? since : t->at;
            t->left_unverified = unverified;
            t->left_seen = !unverified && (before == ST_UP || js_flag(record, "since_up"));
            copy_clean(cause_of(record), t->cause, sizeof t->cause);
        }
        if (!t->open && state != ST_SUSPECT && !unverified)
            incident_begin(t, state);
        struct incident_span *n = t->open ? &t->incidents[t->incident_count - 1] : NULL;
        if (n && state > n->worst && !unverified)
            n->worst = state;
        /* A loss explains more than the first observation: the server was restarted. */
        if (n && state == ST_LOST && js_text(record, "cause")[0])
            copy_clean(cause_of(record), n->cause, sizeof n->cause);
    }
}

/* Returns an incident as JSON. Its duration is known only if it was observed from its beginning
 * to its end. */
static json_t *incident_json(const struct incident_span *n)
{
    static const char *const restored[] = {"rows", "dump", "lost_seconds", "lost_seconds_max",
                                           "automatic"},
                             *const conflicts[] = {"conflict_rows", "conflict_file",
                                                   "conflict_command"};
    json_t *outage = json_object_get(n->restore, "outage_seconds");
    json_t *o =
        json_pack("{s:o, s:o, s:s, s:o}", "begin", js_time(n->begin), "end", js_time(n->end),
                  "state", states[n->worst].state, "cause", js_clean(n->cause));
    if (n->watched && json_is_number(outage))
        json_object_set(o, "outage_seconds", outage);
    else
        json_object_set_new(o, "outage_seconds",
                            n->watched && n->end.ms
                                ? json_real((double)(n->end.ms - n->begin.ms) / 1000)
                                : json_null());
    if (n->unverified)
        json_object_set_new(o, "unverified", json_true());
    json_object_set_new(o, "restored", json_boolean(n->restore != NULL));
    for (size_t i = 0; n->restore && i < sizeof restored / sizeof *restored; i++)
        json_object_set_new(o, restored[i], js_or_null(json_object_get(n->restore, restored[i])));
    for (size_t i = 0;
         js_text(n->restore, "conflict_file")[0] && i < sizeof conflicts / sizeof *conflicts; i++)
        json_object_set_new(o, conflicts[i], js_or_null(json_object_get(n->restore, conflicts[i])));
    return o;
}

/* Returns the time stored under `key` instead of the record's own key; ms is 0 if there is none. */
static wall_t timeline_moment_of(const json_t *record, const char *key)
{
    json_auto_t *o = json_pack("{s:O?}", "at", json_object_get(record, key));
    return history_at(o);
}

/* Reads an incident from the line of a day. */
static void incident_read(struct timeline *t, const json_t *o)
{
    unsigned state = timeline_state_of(o);
    struct incident_span n = {.begin = history_at(o),
                              .end = timeline_moment_of(o, "end"),
                              .worst = state == ST_UNKNOWN ? ST_SUSPECT : state};
    n.watched = json_is_number(json_object_get(o, "outage_seconds"));
    n.unverified = js_flag(o, "unverified");
    copy_clean(js_text(o, "cause"), n.cause, sizeof n.cause);
    if (!n.end.ms || n.end.ms < n.begin.ms)
        return;
    if (js_flag(o, "restored"))
        n.restore = json_deep_copy(o);
    *incident_new(t) = n;
}

/* ---- records ---- */

/* Reads a line of a thinned-out day. A line with a cause or an end is an incident; the others
 * are buckets. */
static void read_day(struct timeline *t, const json_t *o)
{
    int64_t at = history_at(o).ms;
    struct bucket *b =
        js_text(o, "cause")[0] || json_object_get(o, "end") ? NULL : bucket_at(t, DAYS, at);
    if (!b) {
        incident_read(t, o);
        return;
    }
    int64_t room = DAY;
    for (size_t i = 0; i < STATES; i++) {
        b->ms[i] = js_within(o, states[i].key, 0, room, 0);
        room -= b->ms[i];
    }
    b->dumps = js_within(o, "dumps", 0, DAY, 0);
    b->dumps_failed = js_within(o, "dumps_failed", 0, DAY, 0);
    for (size_t i = 0; i < MEASURES; i++)
        b->measured[i] = timeline_measure(o, measures[i]);
}

/* Returns until when the previous state is known to have lasted. */
static int64_t known_until(const struct timeline *t, const json_t *record, enum history_kind kind)
{
    int64_t at = history_at(record).ms;
    int64_t until = kind == HISTORY_STARTED ? timeline_moment_of(record, "watched_until").ms
                                            : at - js_within(record, "unwatched_ms", 0, at, 0);
    until = until < at ? until : at;
    return until > t->at.ms ? until : t->at.ms;
}

void timeline_add(struct timeline *t, const json_t *record)
{
    enum history_kind kind = history_kind_of(record);
    wall_t at = history_at(record);
    unsigned before = t->state;
    if (at.ms == 0 || kind == HISTORY_KINDS)
        return;
    bool counts = !json_is_false(json_object_get(record, "counts"));
    if (counts && (kind == HISTORY_DRILL || kind == HISTORY_VERIFY || kind == HISTORY_RESTORE)) {
        json_decref(t->last[kind]);
        t->last[kind] = json_deep_copy(record);
    }
    if (at.ms > t->now.ms) {
        /* The clock was wrong when this record was written. It shows only that another state
         * followed. */
        t->state = ST_UNKNOWN;
        return;
    }
    if (kind == HISTORY_DAY) {
        read_day(t, record);
        t->state = ST_UNKNOWN;
        t->at = at;
        return;
    }
    timeline_add_figures(t, record, kind);
    /* recorded by a manual action, so it does not prove that a supervisor was running */
    if (js_flag(record, "by_hand"))
        return;
    int64_t until = known_until(t, record, kind);
    timeline_span(t, before, t->at.ms, until);
    /* A record may be slightly older than the figures published before it arrived. */
    if (until < at.ms || before == ST_UNKNOWN || at.ms < t->at.ms - BACK_MS ||
        js_number(record, "clock_set_ms", 0) != 0) {
        t->left_seen = false;
        if (t->open)
            t->incidents[t->incident_count - 1].watched = false;
    }
    t->at = at;
    if (kind == HISTORY_STARTED || kind == HISTORY_STOPPED)
        t->state = ST_UNKNOWN;
    if (kind == HISTORY_STATE) {
        t->state = js_flag(record, "unverified") ? ST_UNKNOWN : timeline_state_of(record);
        incident_state(t, until < at.ms ? ST_UNKNOWN : before, record);
    }
    if (kind == HISTORY_RESTORE && t->open && js_flag(record, "ok")) {
        struct incident_span *n = &t->incidents[t->incident_count - 1];
        json_decref(n->restore);
        n->restore = json_deep_copy(record);
    }
}

void timeline_now(struct timeline *t, wall_t now)
{
    t->now = now;
}

void timeline_until(struct timeline *t, wall_t alive)
{
    /* Samples arrive every five minutes. If they are missing, no supervisor is running or the
     * clock was set. */
    if (alive.ms <= t->at.ms || alive.ms - t->at.ms > SAMPLE_LATE_MS)
        return;
    timeline_span(t, t->state, t->at.ms, alive.ms);
    t->at = alive;
    t->now.ms = t->now.ms > alive.ms ? t->now.ms : alive.ms;
}

bool timeline_is_behind(const struct timeline *t, wall_t now)
{
    return now.ms < t->at.ms - BACK_MS;
}

/* ---- output ---- */

static void timeline_set_known(json_t *o, const char *key, int64_t value)
{
    if (value >= 0)
        js_set_int(o, key, value);
}

/* `length` is how much of the bucket has passed, in ms. */
static json_t *bucket_json(const struct bucket *b, int64_t length)
{
    json_t *o = json_object();
    int64_t unknown = b ? length - known_ms(b) : length;
    js_set_int(o, "up", b ? b->ms[ST_UP] : 0);
    for (size_t i = ST_UP + 1; b && i < STATES; i++)
        if (b->ms[i])
            js_set_int(o, states[i].key, b->ms[i]);
    js_set_int(o, "unknown", unknown > 0 ? unknown : 0);
    if (!b)
        return o;
    for (size_t i = 0; i < MEASURES; i++)
        timeline_set_known(o, measures[i], b->measured[i]);
    timeline_set_known(o, "dumps", b->dumps ? b->dumps : -1);
    timeline_set_known(o, "dumps_failed", b->dumps_failed ? b->dumps_failed : -1);
    return o;
}

static const struct bucket *bucket_there(const struct timeline *t, size_t ring, int64_t number)
{
    const struct bucket *b = &t->rings[ring][number % sizes[ring].kept];
    return b->number == number ? b : NULL;
}

static int64_t passed_ms(const struct timeline *t, size_t ring, int64_t number)
{
    int64_t length = sizes[ring].length, passed = t->now.ms - number * length;
    return passed < length ? passed : length;
}

/* Returns a ring as JSON, starting with the first bucket that holds data. */
static json_t *ring_json(const struct timeline *t, size_t ring)
{
    int64_t last = t->now.ms / sizes[ring].length, n = last - sizes[ring].shown + 1;
    json_t *list = json_array();
    char at[TEXT_SHORT];
    for (n = n > 0 ? n : 1; n <= last && !bucket_there(t, ring, n);)
        n++;
    for (; n <= last; n++) {
        json_t *o = bucket_json(bucket_there(t, ring, n), passed_ms(t, ring, n));
        text_utc((wall_t){n * sizes[ring].length}, at);
        json_object_set_new(o, "at", json_string(at));
        json_array_append_new(list, o);
    }
    return list;
}

void timeline_events(const struct timeline *t, json_t *o)
{
    json_t *list = json_array();
    for (size_t i = 0; i < t->incident_count; i++)
        json_array_append_new(list, incident_json(&t->incidents[i]));
    json_object_set_new(o, "incidents", list);
    json_object_set_new(o, "last_restore", js_or_null(t->last[HISTORY_RESTORE]));
    json_object_set_new(o, "last_drill", js_or_null(t->last[HISTORY_DRILL]));
    json_object_set_new(o, "last_verify", js_or_null(t->last[HISTORY_VERIFY]));
}

void timeline_fill(const struct timeline *t, json_t *o)
{
    static const char *const spare[] = {"incidents", "five_minutes", "hours", "days"};
    for (size_t i = 0; i < RINGS; i++)
        json_object_set_new(o, sizes[i].name, ring_json(t, i));
    timeline_events(t, o);
    for (size_t i = 0; i < sizeof spare / sizeof *spare; i++) {
        json_t *list = json_object_get(o, spare[i]);
        while (json_array_size(list) &&
               json_dumpb(o, NULL, 0, JSON_COMPACT | JSON_REAL_PRECISION(9)) > TIMELINE_JSON_MAX)
            for (size_t n = (json_array_size(list) + 9) / 10; n > 0; n--)
                json_array_remove(list, 0);
    }
}

json_t *timeline_sum(const struct timeline *t, wall_t since)
{
    size_t ring = FIVE_MINUTES;
    int64_t sum[STATES] = {0}, known = 0, passed = 0;
    while (ring < DAYS && since.ms < t->now.ms - sizes[ring].length * (sizes[ring].shown - 1))
        ring++;
    int64_t last = t->now.ms / sizes[ring].length, n = last - sizes[ring].kept + 1;
    for (n = n > 0 ? n : 1; n <= last; n++) {
        const struct bucket *b = bucket_there(t, ring, n);
        if ((n + 1) * sizes[ring].length <= since.ms || (!b && !passed))
            continue; /* time before the history begins does not count as unknown */
        passed += passed_ms(t, ring, n);
        for (size_t s = 0; b && s < STATES; s++)
            sum[s] += b->ms[s];
        known += b ? known_ms(b) : 0;
    }
    json_t *o = json_object();
    for (size_t s = 0; s < STATES; s++)
        js_set_int(o, states[s].key, sum[s]);
    js_set_int(o, "unknown", passed > known ? passed - known : 0);
    return o;
}

/* ---- thinning ---- */

void thinning_see(struct thinning *t, const json_t *record, size_t bytes)
{
    wall_t at = record ? history_at(record) : t->last;
    int64_t step = t->count ? at.ms - t->last.ms : 0;
    step = step < 0 ? 0 : step > LEAP_MS ? LEAP_MS : step;
    t->list = xgrow(t->list, t->count, sizeof *t->list);
    t->list[t->count] =
        (struct thinning_line){.lived = (t->count ? t->list[t->count - 1].lived : 0) + step,
                               .bytes = bytes,
                               .detail = history_kind_of(record) != HISTORY_DAY};
    t->last = at;
    t->count++;
    t->bytes += bytes;
}

void thinning_free(struct thinning *t)
{
    free(t->list);
    *t = (struct thinning){0};
}

static int64_t timeline_age(const struct thinning *t, size_t i)
{
    return t->list[t->count - 1].lived - t->list[i].lived;
}

/* Waits a day longer than necessary, so that the file is not rewritten for each record. */
bool thinning_due(const struct thinning *t, size_t most)
{
    for (size_t i = 0; i < t->count && timeline_age(t, i) > DETAILS_MS + DAY; i++)
        if (t->list[i].detail)
            return true;
    return t->bytes > most;
}

size_t thinning_cut(const struct thinning *t, size_t most)
{
    size_t i = t->count, bytes = 0;
    while (i > 0 && timeline_age(t, i - 1) <= DETAILS_MS &&
           bytes + t->list[i - 1].bytes <= most / 2)
        bytes += t->list[--i].bytes;
    return i;
}

static void timeline_add_line(struct buf *out, json_t *o /* taken */, wall_t at,
                              enum history_kind kind)
{
    json_object_set_new(o, "at", js_time(at));
    json_object_set_new(o, "kind", json_string(history_kind_name(kind)));
    SCOPED(xfree) char *line = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    buf_adds(out, line ? line : "");
    buf_adds(out, "\n");
    json_decref(o);
}

void timeline_days(const struct timeline *t, struct buf *out)
{
    int64_t newest = 0;
    for (int64_t i = 0; i < sizes[DAYS].kept; i++)
        timeline_most(&newest, t->rings[DAYS][i].number);
    for (int64_t n = newest > sizes[DAYS].kept ? newest - sizes[DAYS].kept + 1 : 1; n <= newest;
         n++)
        if (bucket_there(t, DAYS, n))
            timeline_add_line(out, bucket_json(bucket_there(t, DAYS, n), 0), (wall_t){n * DAY},
                              HISTORY_DAY);
    for (size_t i = 0; i < t->incident_count; i++)
        if (t->incidents[i].end.ms)
            timeline_add_line(out, incident_json(&t->incidents[i]), t->incidents[i].begin,
                              HISTORY_DAY);
    if (t->state == ST_UNKNOWN)
        return;
    /* The incident continues in the detailed records. */
    json_t *o = json_pack("{s:s, s:b}", "state", states[t->state].state, "changed", 0);
    if (t->left.ms) {
        js_set_clean(o, "reason", t->cause);
        js_set_int(o, "since_ms", t->left.ms);
        json_object_set_new(o, "since_up", json_boolean(t->left_seen));
    }
    timeline_add_line(out, o, t->at, HISTORY_STATE);
}
