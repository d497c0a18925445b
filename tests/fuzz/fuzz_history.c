/* Fuzzing of a history: what is in the file is read, counted and thinned out as the disk writer
 * does it. Whatever it holds, what is published keeps its limits. */
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "scratch.h"
#include "store/timeline.h"

#define NOW INT64_C(1800000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reading {
    struct timeline *all, *gone;
    struct thinning lines;
    struct buf stay;
    size_t line, cut;
};

static void count(void *arg, const json_t *record, const char *line)
{
    struct reading *r = arg;
    thinning_see(&r->lines, record, strlen(line) + 1);
    if (record)
        timeline_add(r->all, record);
}

static void divide(void *arg, const json_t *record, const char *line)
{
    struct reading *r = arg;
    if (r->line++ >= r->cut)
        buf_printf(&r->stay, "%s\n", line);
    else if (record)
        timeline_add(r->gone, record);
}

static void check_buckets(const json_t *list, int64_t length)
{
    static const char *const keys[] = {"up",   "paused",    "suspect", "waiting",
                                       "lost", "restoring", "unknown"};
    size_t i;
    json_t *b;
    json_array_foreach((json_t *)(uintptr_t)list, i, b)
    {
        int64_t sum = 0;
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            demand(js_number(b, keys[k], 0) >= 0);
            sum += js_number(b, keys[k], 0);
        }
        demand(sum <= length);
    }
}

static void check_published(const struct timeline *t)
{
    json_t *o = json_object();
    timeline_fill(t, o);
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    demand(text && strlen(text) <= TIMELINE_JSON_MAX);
    check_buckets(json_object_get(o, "five_minutes"), 300000);
    check_buckets(json_object_get(o, "hours"), 3600000);
    check_buckets(json_object_get(o, "days"), 86400000);
    demand(json_array_size(json_object_get(o, "incidents")) <= TIMELINE_INCIDENTS);
    free(text);
    json_decref(o);
}

static void read_it(history_seen *see, struct reading *r)
{
    struct history_place place = {0};
    struct err e;
    bool from_start;
    demand(history_read(scratch_dir(), &place, &from_start, see, r, &e) == 0);
    history_place_free(&place);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reading r = {.all = timeline_new((wall_t){NOW}),
                        .gone = timeline_new((wall_t){CLOCK_WALL_MAX})};
    struct buf thinned = {0};
    scratch_put(HISTORY_FILE, data, size);
    read_it(count, &r);
    timeline_until(r.all, (wall_t){NOW});
    check_published(r.all);
    (void)thinning_due(&r.lines, size / 2);
    r.cut = thinning_cut(&r.lines, size / 2);
    demand(r.cut <= r.lines.count);
    read_it(divide, &r);
    timeline_days(r.gone, &thinned);
    buf_add(&thinned, r.stay.p, r.stay.len);
    timeline_free(r.all);
    r.all = timeline_new((wall_t){NOW});
    scratch_put(HISTORY_FILE, thinned.p ? thinned.p : "", thinned.len);
    read_it(count, &r);
    check_published(r.all);
    timeline_free(r.all);
    timeline_free(r.gone);
    thinning_free(&r.lines);
    buf_free(&r.stay);
    buf_free(&thinned);
    scratch_remove(HISTORY_FILE);
    return 0;
}
