#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/file.h"
#include "core/js.h"
#include "core/worker.h"
#include "typed.h"

#define SOCKET_NAME "control.sock"
#define PATIENCE 10 /* seconds, with a supervisor that should answer at once */

/* A directory that can hold the socket: configured, systemd's, our own under /run, or the dump
 * directory. */
static int control_dir(const struct config *cfg, char path[256], struct err *e)
{
    struct err ignored;
    const char *run = getenv("RUNTIME_DIRECTORY");
    int fd;
    if (cfg->control_dir || (run && run[0] == '/')) {
        if (cfg->control_dir)
            snprintf(path, 256, "%s", cfg->control_dir);
        else /* a unit may have several, ours is the first of them */
            snprintf(path, 256, "%.*s", (int)strcspn(run, ":"), run);
        return file_dir(path, FILE_MAKE, 0755, e);
    }
    snprintf(path, 256, "/run/worldkeeper/%s", cfg->name);
    struct stat st;
    if (stat(path, &st) == 0 && st.st_uid == geteuid() &&
        (fd = file_dir(path, 0, 0755, &ignored)) >= 0)
        return fd;
    snprintf(path, 256, "%s", cfg->dump_dir);
    return file_dir(path, FILE_MAKE, 0700, e);
}

/* Paths of sockets are 107 bytes at most; through the directory's descriptor any place fits. */
static void address(int dirfd, struct sockaddr_un *sa)
{
    *sa = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(sa->sun_path, sizeof sa->sun_path, "/proc/self/fd/%d/" SOCKET_NAME, dirfd);
}

int control_listen(const struct config *cfg, char path[256], struct err *e)
{
    struct sockaddr_un sa;
    int dirfd = control_dir(cfg, path, e);
    if (dirfd < 0)
        return -1;
    size_t len = strlen(path);
    snprintf(path + len, 256 - len, "/" SOCKET_NAME);
    unlinkat(dirfd, SOCKET_NAME, 0); /* the flock is ours, so nobody listens there any more */
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    address(dirfd, &sa);
    mode_t old = umask(0177);
    int rc =
        fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0 || listen(fd, 8) < 0 ? -1 : 0;
    int why = errno;
    umask(old);
    close(dirfd);
    if (rc == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return err_sys(e, why, "cannot listen on %s", path);
}

int control_accept(int listener, struct err *e)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    *e = (struct err){0};
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
        err_sys(e, errno, "cannot take a call on the control socket");
    if (fd < 0)
        return -1;
    struct ucred who;
    socklen_t len = sizeof who;
    int size = 4 * WORKER_MESSAGE_MAX;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
        (who.uid == 0 || who.uid == geteuid()))
        return fd;
    close(fd);
    return -1;
}

static void hint_start(const struct act *a, struct err *e)
{
    char *start = typed_start(a->cfg);
    err_hint(e, "%s", start);
    free(start);
}

/* The directory of the socket that the lock file names. */
static int find_supervisor(struct act *a, struct err *e)
{
    struct buf b = {0};
    struct err ignored;
    int fd = -1;
    json_t *o = NULL;
    if (file_read(a->job.dirfd, "lock", 4096, &b, &ignored) == 0)
        o = json_loadb(b.p, b.len, 0, NULL);
    char *path = xstrdup(js_text(o, "socket"));
    char *slash = strrchr(path, '/');
    if (slash) {
        *slash = '\0';
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (fd < 0) {
        err_set(e, ERR_UNREACHABLE, 0, "no supervisor runs for world %s", a->cfg->name);
        hint_start(a, e);
    }
    free(path);
    json_decref(o);
    buf_free(&b);
    return fd;
}

static int connect_supervisor(struct act *a, struct err *e)
{
    struct sockaddr_un sa;
    int dirfd = find_supervisor(a, e);
    if (dirfd < 0)
        return -1;
    struct timeval limit = {PATIENCE, 0};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    address(dirfd, &sa);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); /* of connect() as well */
    int rc = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&sa, sizeof sa);
    close(dirfd);
    if (rc == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    err_set(e, ERR_UNREACHABLE, errno, "no supervisor answers for world %s", a->cfg->name);
    hint_start(a, e);
    return -1;
}

static int answer(const json_t *done, json_t **result, struct err *e)
{
    const json_t *error = json_object_get(done, "error");
    json_t *r = json_object_get(done, "result");
    *result = r ? json_incref(r) : NULL;
    if (!error)
        return 0;
    worker_err_from(error, e);
    if (e && e->cls == ERR_NONE) /* or a failure would end as a success */
        e->cls = ERR_SYSTEM;
    return -1;
}

/* What it knows by itself it answers at once, unless it stands still; a job takes its time. */
static int wait_answer(int fd, const struct act *a, const struct request *r, struct err *e)
{
    static const char *const at_once[] = {"status", "pause", "resume", NULL};
    struct pollfd p = {.fd = fd, .events = POLLIN};
    mono_t began = clock_mono();
    int n = -1;
    while (n < 0) { /* a signal came */
        int64_t left = PATIENCE * 1000 - mono_since(clock_mono(), began);
        n = poll(&p, 1, !text_among(r->action, at_once) ? -1 : left > 0 ? (int)left : 0);
    }
    if (n > 0)
        return 0;
    err_set(e, ERR_UNREACHABLE, 0, "the supervisor of world %s does not answer within %d s",
            a->cfg->name, PATIENCE);
    err_hint(e, "it stands still: see the machine's load and disks; its pid is in %s/lock",
             a->cfg->dump_dir);
    return -1;
}

int control_ask(struct act *a, const struct request *r, void (*event)(const json_t *o),
                json_t **result, struct err *e)
{
    *result = NULL;
    json_t *o = request_json(r);
    if (!o) {
        err_set(e, ERR_USAGE, 0, "the supervisor cannot be told a name that is no UTF-8");
        err_hint(e, "write it in UTF-8; a file can be renamed");
        return -1;
    }
    int fd = connect_supervisor(a, e);
    if (fd < 0) {
        json_decref(o);
        return CONTROL_NOBODY;
    }
    int rc = worker_send(fd, o), why = errno;
    json_decref(o);
    if (rc < 0 && why != EPIPE) { /* EPIPE: it may have said why it does not listen */
        close(fd);
        return err_sys(e, why, "cannot send to the supervisor");
    }
    bool closed = false;
    while ((rc = wait_answer(fd, a, r, e)) == 0) {
        json_t *msg = worker_receive(fd, &closed);
        if (closed) {
            rc = err_set(e, ERR_ABORTED, 0, "the supervisor ended before it answered");
            break;
        }
        const json_t *done = json_object_get(msg, "done");
        if (done)
            rc = answer(done, result, e);
        else if (msg && event)
            event(msg);
        json_decref(msg);
        if (done)
            break;
    }
    close(fd);
    return rc;
}
