/* The disk writer's side of the history: reads new records of the file, publishes a summary, and
 * removes old records. */
#include "supervisor/history_file.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/js.h"
#include "base/log.h"
#include "store/timeline.h"
#include "supervisor/published.h"

/* The finest bucket covers five minutes. At this rate the last one grows visibly, without writing
 * 256 KiB each second. */
#define PUBLISH_EVERY_MS INT64_C(60000)
/* A clock change leaves buckets of the wrong time. Only reading the whole file again removes
 * them. */
#define TIDY_EVERY_MS INT64_C(3600000)
#define TIDY_LARGE_MS fault_wait(60000)
/* If the file is larger, older records are replaced by one line per day. */
#define BYTES_MAX fault_limit("history.bytes", 4u << 20)

static struct history_file {
    struct history_place place;  /* position up to which the file was read */
    struct timeline *timeline;   /* NULL: nothing was read yet */
    struct thinning lines;       /* records that could be removed from the beginning */
    json_t *events;              /* timeline_events(); or NULL */
    bool news;                   /* true if there is something new to publish */
    mono_t next_publish, tidied; /* ms 0: not yet */
} history;

static void history_file_forget(void)
{
    history_place_free(&history.place);
    thinning_free(&history.lines);
    timeline_free(history.timeline);
    history.timeline = NULL;
}

static void history_file_see(void *arg, const json_t *record, const char *line)
{
    (void)arg;
    thinning_see(&history.lines, record, strlen(line) + 1);
    if (record)
        timeline_add(history.timeline, record);
    history.news = true;
}

/* Reads the records that were appended since the last call, or the whole file if it was
 * replaced. */
static int supervisor_history_file_follow(int dirfd, struct err *e)
{
    bool from_start;
    wall_t now = clock_wall();
    if (history.timeline && timeline_is_behind(history.timeline, now))
        history_file_forget(); /* buckets counted by the old clock are now in the future */
    if (!history.timeline)
        history.timeline = timeline_new(now);
    timeline_now(history.timeline, now);
    int rc = history_read(dirfd, &history.place, &from_start, history_file_see, NULL, e);
    if (!from_start)
        return rc;
    history_file_forget();
    history.timeline = timeline_new(now);
    return history_read(dirfd, &history.place, &from_start, history_file_see, NULL, e);
}

/* ---- thinning ---- */

struct thin {
    size_t line, cut;
    struct timeline *gone;
    struct buf lines;
};

static void history_file_divide(void *arg, const json_t *record, const char *line)
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

/* Replaces old records by one line per day. After a failure the file stays unchanged, and this is
 * tried again later. */
static void history_file_thin(int dirfd)
{
    struct thin t = {.cut = thinning_cut(&history.lines, BYTES_MAX)};
    struct history_place place = {0};
    struct err ignored;
    bool from_start;
    t.gone = timeline_new((wall_t){CLOCK_WALL_MAX});
    if (history_read(dirfd, &place, &from_start, history_file_divide, &t, &ignored) == 0 &&
        t.lines.len && history_replace(dirfd, &place, &t.lines, &ignored) < 0)
        log_line(LOG_WARN_, "the history cannot be compacted: %s", ignored.text);
    timeline_free(t.gone);
    history_place_free(&place);
    buf_free(&t.lines);
}

static bool tidy_due(mono_t now)
{
    int64_t since = mono_since(now, history.tidied);
    return since >= TIDY_EVERY_MS || (since >= TIDY_LARGE_MS && history.lines.bytes > BYTES_MAX);
}

void history_file_follow(int dump_dirfd)
{
    struct err unread;
    mono_t now = clock_mono();
    (void)supervisor_history_file_follow(dump_dirfd, &unread);
    if (!history.tidied.ms)
        history.tidied = now;
    if (tidy_due(now)) {
        history.tidied = now;
        if (thinning_due(&history.lines, BYTES_MAX))
            history_file_thin(dump_dirfd);
        history_file_forget(); /* also removes buckets that a temporarily wrong clock left */
        (void)supervisor_history_file_follow(dump_dirfd, &unread);
    }
}

/* ---- publishing ---- */

const json_t *history_file_events(void)
{
    return history.events;
}

int history_file_publish(const char *world, int dump_dirfd, int status_dirfd, struct err *e)
{
    mono_t now = clock_mono();
    history_file_follow(dump_dirfd);
    if (!history.news && !mono_reached(now, history.next_publish))
        return 0;
    timeline_until(history.timeline, clock_wall());
    wall_t at = clock_wall();
    json_t *o =
        json_pack("{s:i, s:s, s:o, s:o}", "format", 1, "world", world, "updated", js_time(at),
                  "valid_until", js_time((wall_t){at.ms + PUBLISH_EVERY_MS + STATUS_VALID_MS}));
    timeline_fill(history.timeline, o);
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    int rc = text ? file_publish(status_dirfd, HISTORY_PUBLISHED, text, strlen(text), 0644, e) : 0;
    free(text);
    json_decref(o);
    json_decref(history.events);
    history.events = json_object();
    timeline_events(history.timeline, history.events);
    /* The text needed hundreds of times the memory that this process uses otherwise. */
    malloc_trim(0);
    history.news = false;
    history.next_publish = mono_add(now, PUBLISH_EVERY_MS);
    return rc;
}
