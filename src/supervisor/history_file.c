#include "supervisor/history_file.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/js.h"
#include "base/log.h"
#include "store/timeline.h"
#include "supervisor/publisher.h"

/* Its finest bucket is of five minutes: the last one grows visibly, and 256 KiB are not written each second. */
#define PUBLISH_EVERY_MS INT64_C(60000)
/* A clock that was set leaves buckets of the wrong time, which only reading all of it again removes. */
#define TIDY_EVERY_MS INT64_C(3600000)
#define TIDY_LARGE_MS fault_wait(60000)
/* Beyond that older records become one line per day. */
#define BYTES_MAX fault_limit("history.bytes", 4u << 20)

struct history_file {
    const char *world;
    struct history_place place; /* how far the file was read */
    struct timeline *timeline;  /* NULL: nothing was read yet */
    struct thinning lines;      /* what could be cut off */
    json_t *events;             /* timeline_events(); or NULL */
    bool news;                  /* something to publish */
    mono_t next_publish, tidied;
};

struct history_file *history_file_new(const char *world)
{
    struct history_file *h = xcalloc(1, sizeof *h);
    h->world = world;
    h->tidied = clock_mono();
    return h;
}

static void forget(struct history_file *h)
{
    history_place_free(&h->place);
    thinning_free(&h->lines);
    timeline_free(h->timeline);
    h->timeline = NULL;
}

void history_file_free(struct history_file *h)
{
    forget(h);
    json_decref(h->events);
    free(h);
}

static void see(void *arg, const json_t *record, const char *line)
{
    struct history_file *h = arg;
    thinning_see(&h->lines, record, strlen(line) + 1);
    if (record)
        timeline_add(h->timeline, record);
    h->news = true;
}

/* Only what was appended since the last time is read, unless the file is another one. */
static int follow(struct history_file *h, int dirfd, struct err *e)
{
    bool from_start;
    wall_t now = clock_wall();
    if (h->timeline && timeline_is_behind(h->timeline, now))
        forget(h); /* what was counted under the other clock is of the future now */
    if (!h->timeline)
        h->timeline = timeline_new(now);
    timeline_now(h->timeline, now);
    int rc = history_read(dirfd, &h->place, &from_start, see, h, e);
    if (!from_start)
        return rc;
    forget(h);
    h->timeline = timeline_new(now);
    return history_read(dirfd, &h->place, &from_start, see, h, e);
}

/* ---- thinning ---- */

struct thin {
    size_t line, cut;
    struct timeline *gone;
    struct buf lines;
};

static void divide(void *arg, const json_t *record, const char *line)
{
    struct thin *t = arg;
    if (t->line++ < t->cut) {
        if (record)
            timeline_add(t->gone, record);
        return;
    }
    if (t->line == t->cut + 1)
        timeline_days(t->gone, &t->lines);
    buf_adds(&t->lines, line);
    buf_adds(&t->lines, "\n");
}

/* After a failure the file stays as it is, and is tried again later. */
static void thin(struct history_file *h, int dirfd)
{
    struct thin t = {.cut = thinning_cut(&h->lines, BYTES_MAX)};
    struct history_place place = {0};
    struct err ignored;
    bool from_start;
    t.gone = timeline_new((wall_t){CLOCK_WALL_MAX});
    if (history_read(dirfd, &place, &from_start, divide, &t, &ignored) == 0 && t.lines.len &&
        history_replace(dirfd, &place, &t.lines, &ignored) < 0)
        log_line(LOG_WARN_, "the history cannot be compacted: %s", ignored.text);
    timeline_free(t.gone);
    history_place_free(&place);
    buf_free(&t.lines);
}

static bool tidy_due(const struct history_file *h, mono_t now)
{
    int64_t since = mono_since(now, h->tidied);
    return since >= TIDY_EVERY_MS || (since >= TIDY_LARGE_MS && h->lines.bytes > BYTES_MAX);
}

/* ---- publishing ---- */

const json_t *history_file_events(const struct history_file *h)
{
    return h->events;
}

int history_file_publish(struct history_file *h, int dump_dirfd, int status_dirfd, struct err *e)
{
    struct err unread;
    mono_t now = clock_mono();
    (void)follow(h, dump_dirfd, &unread);
    if (tidy_due(h, now)) {
        h->tidied = now;
        if (thinning_due(&h->lines, BYTES_MAX))
            thin(h, dump_dirfd);
        forget(h); /* what a clock that was wrong for a while has left in it as well */
        (void)follow(h, dump_dirfd, &unread);
    }
    if (!h->news && !mono_reached(now, h->next_publish))
        return 0;
    timeline_until(h->timeline, clock_wall());
    wall_t at = clock_wall();
    json_t *o =
        json_pack("{s:i, s:s, s:o, s:o}", "format", 1, "world", h->world, "updated", js_time(at),
                  "valid_until", js_time((wall_t){at.ms + PUBLISH_EVERY_MS + STATUS_VALID_MS}));
    timeline_fill(h->timeline, o);
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    int rc = text ? file_publish(status_dirfd, HISTORY_PUBLISHED, text, strlen(text), 0644, e) : 0;
    free(text);
    json_decref(o);
    json_decref(h->events);
    h->events = json_object();
    timeline_events(h->timeline, h->events);
    malloc_trim(0); /* the text was hundreds of times what this process needs otherwise */
    h->news = false;
    h->next_publish = mono_add(now, PUBLISH_EVERY_MS);
    return rc;
}
