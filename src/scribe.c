#include "scribe.h"

#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/fault.h"
#include "core/file.h"
#include "core/js.h"
#include "core/worker.h"
#include "report/alert.h"
#include "store/state.h"

struct scribe {
    const struct scribe_args *args;
    int fd, status_dirfd, alerts_dirfd;
    bool status_failed, state_failed; /* the last time */
};

static void tell_failure(struct scribe *s, const char *what, const struct err *e)
{
    json_t *o = json_pack("{s:s, s:o}", "failed", what, "error", worker_err_json(e));
    worker_send(s->fd, o);
    json_decref(o);
}

static void close_status(struct scribe *s)
{
    if (s->status_dirfd >= 0)
        close(s->status_dirfd);
    s->status_dirfd = -1;
}

/* Opened again after a failure, and where there is another one now: it may have been mounted,
 * mended, or put in place with a new version of the homepage. */
static int open_dirs(struct scribe *s, struct err *e)
{
    const struct config *c = s->args->cfg;
    const char *const names[] = {c->flag_file, c->json_file, c->metrics_file};
    if (s->status_dirfd >= 0 && file_dir_moved(s->status_dirfd, c->status_dir))
        close_status(s);
    if (!c->status_dir || s->status_dirfd >= 0)
        return 0;
    s->status_dirfd = file_dir(c->status_dir, FILE_MAKE | FILE_PUBLIC, 0755, e);
    for (size_t i = 0; s->status_dirfd >= 0 && i < sizeof names / sizeof *names; i++)
        if (names[i])
            file_sweep(s->status_dirfd, names[i], NULL);
    return s->status_dirfd < 0 ? -1 : 0;
}

static void publish(struct scribe *s, const json_t *files)
{
    struct err e;
    if (!s->args->cfg->status_dir)
        return;
    int rc = open_dirs(s, &e);
    for (size_t i = 0; i < json_array_size(files); i++) {
        const json_t *f = json_array_get(files, i);
        const char *data = js_text(f, "data");
        if (rc == 0)
            rc = file_publish(s->status_dirfd, js_text(f, "name"), data, strlen(data), 0644, &e);
    }
    if (rc < 0) {
        close_status(s);
        tell_failure(s, "status", &e);
        s->status_failed = true;
    } else {
        s->status_failed = false;
        fault_point("status.published");
    }
}

static void save_state(struct scribe *s, const json_t *o)
{
    struct state st;
    struct err e;
    state_from_json(o, &st);
    s->state_failed = state_save(s->args->dump_dirfd, &st, &e) < 0;
    if (s->state_failed)
        tell_failure(s, "state", &e);
}

static int alerts_dir(struct scribe *s, struct err *e)
{
    if (s->alerts_dirfd >= 0)
        return s->alerts_dirfd;
    s->alerts_dirfd = file_subdir(s->args->dump_dirfd, "alerts", e);
    if (s->alerts_dirfd >= 0)
        file_sweep(s->alerts_dirfd, NULL, NULL);
    return s->alerts_dirfd;
}

static void queue_alert(struct scribe *s, const json_t *alert)
{
    struct err e;
    int fd = alerts_dir(s, &e);
    if (fd < 0 || alert_queue_add(s->args->cfg, fd, alert, &e) < 0) {
        json_t *back = json_pack("{s:s, s:o, s:O}", "failed", "alert", "error", worker_err_json(&e),
                                 "alert", alert);
        worker_send(s->fd, back);
        json_decref(back);
        return;
    }
    json_t *o = json_pack("{s:i}", "queued", 1);
    worker_send(s->fd, o);
    json_decref(o);
}

static void look(struct scribe *s)
{
    struct statvfs v;
    struct err ignored;
    int fd = alerts_dir(s, &ignored);
    json_t *waiting = json_array();
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++) {
        int n = fd >= 0 && alert_channel_on(s->args->cfg, ch)
                    ? alert_queue_waiting(fd, ch, &ignored)
                    : 0;
        json_array_append_new(waiting, json_integer(n > 0 ? n : 0));
    }
    bool moved = file_dir_moved(s->args->dump_dirfd, s->args->cfg->dump_dir);
    json_t *o = json_pack("{s:o, s:b, s:b, s:b}", "waiting", waiting, "status_ok",
                          !s->status_failed, "state_ok", !s->state_failed, "moved", moved);
    if (fstatvfs(s->args->dump_dirfd, &v) == 0)
        js_set_int(o, "disk_free", (int64_t)((uint64_t)v.f_bavail * v.f_frsize));
    worker_send(s->fd, o);
    json_decref(o);
}

int scribe_worker(int fd, void *arg)
{
    struct scribe s = {.args = arg, .fd = fd, .status_dirfd = -1, .alerts_dirfd = -1};
    bool closed;
    for (;;) {
        json_t *o = worker_receive(fd, &closed);
        if (closed)
            return 0;
        const json_t *part;
        if ((part = json_object_get(o, "publish")))
            publish(&s, part);
        if ((part = json_object_get(o, "state")))
            save_state(&s, part);
        if ((part = json_object_get(o, "alert")))
            queue_alert(&s, part);
        if (json_object_get(o, "look"))
            look(&s);
        json_decref(o);
    }
}
