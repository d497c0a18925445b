#include "supervisor/disk_writer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fence.h"
#include "base/js.h"
#include "base/machine.h"
#include "base/number.h"
#include "notify/incident.h"
#include "notify/queue.h"
#include "page/site.h"
#include "store/catalog.h"
#include "store/history.h"
#include "store/proof.h"
#include "store/state.h"
#include "supervisor/history_file.h"
#include "supervisor/published.h"
#include "supervisor/status_files.h"

/* Packets are handled one at a time. Each write is either complete or has no effect
 * (file_publish(), file_commit()). A failure is reported once, and the supervisor sends the data
 * again. */

/* What the process keeps between two packets; it is private to this process. */
struct disk_writer {
    const struct disk_writer_args *args;
    int fd, status_dirfd, alerts_dirfd;
    /* True if this process has written it and the last write succeeded. */
    bool status_ok, state_ok;
    uint64_t marks[ALERT_CHANNELS]; /* highest marks that this process has written */
    int mark_failed;                /* error number of the last reported failure */
    json_t *incidents;              /* incidents that are not stored yet, or NULL */
    struct site *site;
    struct state wrote; /* the state as it was last saved */
    json_t *damaged;    /* dumps that were damaged at the last poll, or NULL */
    wall_t intact_at;   /* as in struct disk_state */
    char disk[600];     /* name of the dumps' disk; "": not determined yet, or unknown */
    struct {
        char text[256];  /* text that this process wrote into the flag file; "": none */
        struct stat was; /* stat of the flag file after that write */
    } flag;
};

/* Returns -1 also if the queue of the disk writer is full. The caller then keeps its data and sends
 * it again later. */
int disk_writer_send(const struct worker *writer, enum disk_request request, const void *data,
                     size_t size)
{
    return writer->fd < 0 ? -1 : worker_send_packet(writer->fd, (int)request, data, size);
}

int disk_writer_send_json(const struct worker *writer, enum disk_request request, json_t *o)
{
    int rc = writer->fd < 0 ? -1 : worker_send_json(writer->fd, (int)request, o);
    json_decref(o);
    return rc;
}

static void disk_writer_answer(struct disk_writer *s, enum disk_answer type, const void *data,
                               size_t size, const json_t *o)
{
    SCOPED(buf_free) struct buf b = {0};
    SCOPED(xfree) char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    buf_add(&b, data, size);
    buf_adds(&b, text ? text : "");
    worker_send_packet(s->fd, (int)type, b.p, b.len);
}

static void report_failure(struct disk_writer *s, enum disk_request request, const struct err *e)
{
    struct disk_failure f = {request, *e};
    disk_writer_answer(s, DISK_FAILED, &f, sizeof f, NULL);
}

/* Removes temporary files from the status directory, including those that file_republish() keeps
 * there and those that killed processes left. */
static void sweep_status(int dirfd, const struct config *c)
{
    const char *const names[] = {c->flag_file, c->json_file, c->metrics_file, HISTORY_PUBLISHED};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i])
            file_sweep(dirfd, names[i], NULL);
    for (size_t i = 0; c->page && site_files[i]; i++)
        file_sweep(dirfd, site_files[i], NULL);
}

static void close_status(struct disk_writer *s)
{
    if (s->status_dirfd >= 0) {
        sweep_status(s->status_dirfd, s->args->cfg);
        close(s->status_dirfd);
    }
    s->status_dirfd = -1;
    s->flag.text[0] = '\0';
    site_forget(s->site);
}

/* Opens the status directory again after a failure, or if its path now names another directory: it
 * may have been mounted, repaired, or deployed with a new version of a web site. */
static int open_dirs(struct disk_writer *s, struct err *e)
{
    const struct config *c = s->args->cfg;
    if (s->status_dirfd >= 0 && file_dir_place(s->status_dirfd, c->status_dir) != FILE_DIR_SAME)
        close_status(s);
    if (!c->status_dir || s->status_dirfd >= 0)
        return 0;
    s->status_dirfd = file_dir(c->status_dir, FILE_MAKE | FILE_PUBLIC, 0755, e);
    if (s->status_dirfd >= 0)
        sweep_status(s->status_dirfd, c);
    return s->status_dirfd < 0 ? -1 : 0;
}

/* Publishes the history and the status page. The page is made from the status.json that was just
 * written, so both agree. `json`: its text, NULL if it was not written. */
static int publish_history(struct disk_writer *s, const char *json, struct err *e)
{
    const struct config *c = s->args->cfg;
    if (history_file_publish(c->name, s->args->dump_dirfd, s->status_dirfd, e) < 0)
        return -1;
    json_auto_t *status = json && c->page ? json_loads(json, 0, NULL) : NULL;
    return status ? site_publish(s->site, s->status_dirfd, status, history_file_events(), e) : 0;
}

/* Updates only the time of the flag file if its text is unchanged. The text stays the same for
 * days, and readers check the time; a new file each time would be the most expensive part of the
 * work. Returns false if anything else changed the file since this process wrote it. */
static bool touch_flag(struct disk_writer *s, const char *name, const char *text)
{
    const struct stat *was = &s->flag.was;
    struct stat is;
    return s->flag.text[0] && strcmp(s->flag.text, text) == 0 &&
           fstatat(s->status_dirfd, name, &is, AT_SYMLINK_NOFOLLOW) == 0 &&
           is.st_ino == was->st_ino && is.st_size == was->st_size &&
           memcmp(&is.st_ctim, &was->st_ctim, sizeof is.st_ctim) == 0 &&
           utimensat(s->status_dirfd, name, NULL, AT_SYMLINK_NOFOLLOW) == 0;
}

static int write_flag(struct disk_writer *s, const char *name, const char *text, struct err *e)
{
    if (!touch_flag(s, name, text) &&
        file_publish(s->status_dirfd, name, text, strlen(text), 0644, e) < 0)
        return -1;
    bool known = fstatat(s->status_dirfd, name, &s->flag.was, AT_SYMLINK_NOFOLLOW) == 0;
    snprintf(s->flag.text, sizeof s->flag.text, "%s", known ? text : "");
    return 0;
}

/* Records until when readers believe a status that is written now: while the status is valid, but
 * not beyond the lease. */
static void say_until(mono_t lease)
{
    mono_t valid = mono_add(clock_mono(), STATUS_VALID_MS);
    fence_said(valid.ms < lease.ms ? valid : lease);
}

static int write_status_file(struct disk_writer *s, const struct status_file *f, struct err *e)
{
    const char *flag = s->args->cfg->flag_file;
    if (!f->text)
        return file_remove(s->status_dirfd, f->name, e);
    if (flag && strcmp(f->name, flag) == 0)
        return write_flag(s, f->name, f->text, e);
    return file_republish(s->status_dirfd, f->name, f->text, strlen(f->text), 0644, e);
}

static void disk_writer_publish(struct disk_writer *s, const struct packet *m)
{
    struct status_files files = status_files_read(m->data, m->len);
    struct status_file f;
    struct err e;
    const char *json_file = s->args->cfg->json_file, *json = NULL;
    bool up = files.up, leaves = false;
    if (!s->args->cfg->status_dir)
        return;
    /* A status from before the end of the lease is no longer true if this process slept
     * meanwhile. */
    mono_t lease = fence_until();
    if (up && fence_made() && mono_reached(clock_mono(), lease))
        return;
    /* The time is recorded before the write, which may take any time on a slow disk: the process
     * that shuts the fence reads it afterwards. */
    if (up)
        fence_said(lease);
    if (up && !fence_open()) {
        say_until(lease);
        return;
    }
    int rc = open_dirs(s, &e);
    while (rc == 0 && status_files_next(&files, &f)) {
        rc = write_status_file(s, &f, &e);
        if (json_file && strcmp(f.name, json_file) == 0)
            json = f.text;
        leaves |= !f.text;
    }
    /* After a reload that moves the status directory, the page in the old one may have been removed
     * already: it is not written again. */
    if (rc == 0 && json_file)
        rc = publish_history(s, leaves ? NULL : json, &e);
    if (rc < 0) {
        close_status(s);
        report_failure(s, DISK_PUBLISH, &e);
        s->status_ok = false;
    } else {
        s->status_ok = true;
        if (!up)
            fence_said((mono_t){0});
        fault_point("status.published");
    }
    if (up)
        say_until(lease);
}

/* Returns the descriptor of the alert queue's directory, which is opened and swept on first use; -1
 * on error. */
static int alerts_dir(struct disk_writer *s, struct err *e)
{
    if (s->alerts_dirfd >= 0)
        return s->alerts_dirfd;
    s->alerts_dirfd = file_subdir(s->args->dump_dirfd, "alerts", e);
    if (s->alerts_dirfd >= 0)
        file_sweep(s->alerts_dirfd, NULL, NULL);
    return s->alerts_dirfd;
}

static void queue_alert(struct disk_writer *s, const json_t *alert)
{
    struct err e;
    uint64_t number;
    int fd = alerts_dir(s, &e);
    if (fd < 0 || queue_add(s->args->cfg, fd, alert, &number, &e) < 0) {
        report_failure(s, DISK_ALERT, &e);
        return;
    }
    disk_writer_answer(s, DISK_STORED, &number, sizeof number, NULL);
}

static void queue_again(struct disk_writer *s, const json_t *o)
{
    struct err e;
    int fd = alerts_dir(s, &e);
    uint64_t number = (uint64_t)json_integer_value(json_array_get(o, 0));
    if (fd < 0 || queue_replace(fd, number, json_array_get(o, 1), &e) < 0)
        report_failure(s, DISK_REWRITE, &e);
}

/* Saves the incidents. A failure is not reported, because other writes report the disk. The save is
 * retried at each poll: without it the next supervisor would not know which incidents to end. */
static void save_incidents(struct disk_writer *s)
{
    if (!s->incidents || alerts_dir(s, NULL) < 0 ||
        incidents_save(s->alerts_dirfd, s->incidents, NULL) < 0)
        return;
    json_decref(s->incidents);
    s->incidents = NULL;
}

/* Notes the time of the newest intact dump. Manifests are read only when another dump proved
 * damaged: while the newest dump is intact, its time is known to the supervisor. */
static void note_intact(struct disk_writer *s, int dir, json_t *damaged)
{
    SCOPED(catalog_free) struct catalog c = {0};
    struct err ignored;
    if (s->damaged && json_equal(s->damaged, damaged))
        return;
    json_decref(s->damaged);
    s->damaged = json_incref(damaged);
    s->intact_at = (wall_t){0};
    if (json_array_size(damaged) == 0 || catalog_load(dir, s->args->cfg->name, &c, &ignored) < 0)
        return;
    const struct catalog_entry *newest = catalog_newest(&c, 0);
    if (newest)
        s->intact_at = newest->m.at;
}

/* Sends one packet per alert, since all alerts together may exceed a packet, then the summary. */
static void load_alerts(struct disk_writer *s)
{
    SCOPED(queue_kept_free) struct queue_kept k = {0};
    struct err e;
    int fd = alerts_dir(s, &e);
    if (fd < 0 || queue_load(s->args->cfg, fd, &k, &e) < 0) {
        report_failure(s, DISK_LOAD, &e);
        return;
    }
    for (size_t i = 0; i < json_array_size(k.alerts); i++) {
        struct disk_kept kept = {.number = k.number[i]};
        for (int ch = 0; ch < ALERT_CHANNELS; ch++)
            kept.waits[ch] = kept.number > k.channel[ch].mark;
        disk_writer_answer(s, DISK_KEPT, &kept, sizeof kept, json_array_get(k.alerts, i));
    }
    struct queue_kept rest = k;
    rest.alerts = NULL;
    rest.number = NULL;
    disk_writer_answer(s, DISK_LOADED, &rest, sizeof rest, NULL);
}

static void poll_disk(struct disk_writer *s, const struct disk_marks *marks)
{
    struct statvfs v;
    int dir = s->args->dump_dirfd;
    save_incidents(s);
    /* Marks keep delivered alerts from being sent again after a restart. Writing them is retried at
     * each poll; each kind of failure is reported once. */
    struct err e;
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++) {
        uint64_t upto = marks->delivered[ch];
        if (upto <= s->marks[ch] || !alert_channel_on(s->args->cfg, ch))
            continue;
        int fd = alerts_dir(s, &e);
        if (fd >= 0 && queue_done(s->args->cfg, fd, ch, upto, &e) == 0) {
            s->marks[ch] = upto;
            s->mark_failed = 0;
        } else if (s->mark_failed != e.num) {
            s->mark_failed = e.num;
            report_failure(s, DISK_POLL, &e);
        }
    }
    /* A reported failure is over when a write succeeds. A new disk writer that has not written
     * anything yet does not end it. */
    struct disk_state d = {.status_ok = s->status_ok || !s->args->cfg->status_dir,
                           .state_ok = s->state_ok,
                           .place = file_dir_place(dir, s->args->cfg->dump_dir),
                           .free_known = fstatvfs(dir, &v) == 0};
    if (d.free_known)
        d.free_bytes = number_product(v.f_bavail, v.f_frsize);
    if (!s->disk[0]) /* determined once: an open directory stays on its disk */
        mount_name(dir, s->disk, sizeof s->disk);
    snprintf(d.disk, sizeof d.disk, "%s", s->disk);
    json_auto_t *damaged = proof_damaged_json(dir);
    note_intact(s, dir, damaged);
    d.intact_at = s->intact_at;
    disk_writer_answer(s, DISK_POLLED, &d, sizeof d, damaged);
}

/* Saves the supervisor's state. A job saves its world by itself, before it removes the proof of its
 * swap. What the supervisor sent before it learned of that may be written only now, and must not
 * replace it: a supervisor that starts next would take the world for a foreign one. */
static void save_state_after_jobs(struct disk_writer *s, const struct state *sent)
{
    struct state now = *sent, saved;
    struct err e;
    if (state_load(s->args->dump_dirfd, &saved, &e) == 0)
        state_keep_later(&now, &saved, &s->wrote);
    s->state_ok = state_save(s->args->dump_dirfd, &now, &e) == 0;
    if (s->state_ok)
        s->wrote = now;
    else
        report_failure(s, DISK_STATE, &e);
}

int disk_writer_worker(int fd, void *arg)
{
    struct disk_writer s = {.args = arg, .fd = fd, .status_dirfd = -1, .alerts_dirfd = -1};
    struct packet m;
    struct err e;
    bool closed;
    signal(SIGIO, SIG_IGN); /* see file_republish() */
    s.site = site_new(s.args->cfg);
    /* Packets are handled in the order in which they were sent, so that the newest status and state
     * win. Queued packets are written even after the supervisor has exited. */
    while (worker_receive_packet(fd, &m, &closed) || !closed) {
        const void *data;
        json_t *o = NULL;
        switch ((enum disk_request)m.type) {
        case DISK_PUBLISH:
            disk_writer_publish(&s, &m);
            break;
        case DISK_STATE:
            if (!(data = packet_struct(&m, sizeof(struct state))))
                break;
            save_state_after_jobs(&s, data);
            break;
        case DISK_ALERT:
            queue_alert(&s, o = packet_json(&m, 0));
            break;
        case DISK_REWRITE:
            queue_again(&s, o = packet_json(&m, 0));
            break;
        case DISK_INCIDENTS:
            json_decref(s.incidents);
            s.incidents = packet_json(&m, 0);
            save_incidents(&s);
            break;
        case DISK_HISTORY:
            o = packet_json(&m, 0);
            if (history_append(s.args->dump_dirfd, o, &e) < 0)
                report_failure(&s, DISK_HISTORY, &e);
            else
                disk_writer_answer(&s, DISK_RECORDED, NULL, 0, NULL);
            /* Without a status directory, no other code removes old entries from the history. */
            history_file_follow(s.args->dump_dirfd);
            break;
        case DISK_LOAD:
            load_alerts(&s);
            break;
        case DISK_POLL:
            if ((data = packet_struct(&m, sizeof(struct disk_marks))))
                poll_disk(&s, data);
            break;
        }
        json_decref(o);
    }
    json_decref(s.incidents);
    json_decref(s.damaged);
    close_status(&s);
    site_free(s.site);
    return 0;
}
