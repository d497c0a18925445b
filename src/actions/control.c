#include "actions/control.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/js.h"
#include "base/worker.h"
#include "actions/action.h"
#include "actions/context.h"
#include "actions/hint_command.h"
#include "actions/request.h"

/* Both sides of the socket. The supervisor's side never blocks; the client's side waits, with an end for what is answered
 * at once and none for a job. */

#define SOCKET_NAME "control.sock"

/* Opens the directory for the socket: the configured one, systemd's, our own under /run, or the
 * dump directory. */
static int control_dir(const struct config *cfg, unsigned flags, char path[256], struct err *e)
{
    const char *run = getenv("RUNTIME_DIRECTORY");
    int fd;
    if (cfg->control_dir || (run && run[0] == '/')) {
        if (cfg->control_dir)
            snprintf(path, 256, "%s", cfg->control_dir);
        else /* a unit may have several: ours is the first */
            snprintf(path, 256, "%.*s", (int)strcspn(run, ":"), run);
        return file_dir(path, flags, 0755, e);
    }
    snprintf(path, 256, "/run/worldkeeper/%s", cfg->name);
    struct stat st;
    fd = file_dir(path, 0, 0755, NULL);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid())
        return fd;
    if (fd >= 0)
        close(fd);
    snprintf(path, 256, "%s", cfg->dump_dir);
    return file_dir(path, flags, 0700, e);
}

/* A socket's path has at most 107 bytes; through the directory's descriptor any directory fits. */
static void address(int dirfd, struct sockaddr_un *sa)
{
    *sa = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(sa->sun_path, sizeof sa->sun_path, "/proc/self/fd/%d/" SOCKET_NAME, dirfd);
}

/* The mode comes from the umask while bind() makes the file: chmod() after it would leave a moment in which all may
 * connect. */
int control_listen(const struct config *cfg, char path[256], struct err *e)
{
    struct sockaddr_un sa;
    int dirfd = control_dir(cfg, FILE_MAKE, path, e);
    if (dirfd < 0)
        return -1;
    size_t len = strlen(path);
    snprintf(path + len, 256 - len, "/" SOCKET_NAME);
    unlinkat(dirfd, SOCKET_NAME, 0); /* the flock is ours, so no supervisor listens there */
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

/* The peer is known by the kernel, not by what it says; whoever is not ours is closed without a word. */
int control_accept(int listener, struct err *e)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    *e = (struct err){0};
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
        err_sys(e, errno, "cannot accept a connection on the control socket");
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

static void hint_to_start(const struct action_context *a, struct err *e)
{
    SCOPED(xfree) char *start = hint_start(a->cfg);
    err_hint(e, "%s", start);
}

/* The directory of the socket that the lock file names, else the config's: a lock file without a
 * socket may lie in a directory that replaced the supervisor's. */
static int find_supervisor(struct action_context *a, struct err *e)
{
    int fd = -1;
    json_auto_t *o = action_lock_read(a);
    SCOPED(xfree) char *path = xstrdup(js_text(o, "socket"));
    char *slash = strrchr(path, '/');
    if (slash) {
        *slash = '\0';
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    } else {
        char usual[256];
        fd = control_dir(a->cfg, 0, usual, NULL);
    }
    if (fd < 0) {
        err_set(e, ERR_UNREACHABLE, 0, "no supervisor runs for world %s", a->cfg->name);
        hint_to_start(a, e);
    }
    return fd;
}

/* A forged lock file could name another user's socket: the peer must be root, this user, or the
 * owner of the dumps. */
static bool is_supervisors(int fd, const struct action_context *a)
{
    struct ucred who;
    struct stat st;
    socklen_t len = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
           (who.uid == 0 || who.uid == geteuid() ||
            (fstat(a->job.dirfd, &st) == 0 && who.uid == st.st_uid));
}

/* In seconds. */
static int patience_of(const struct action_context *a)
{
    return a->patience ? a->patience : CONTROL_PATIENCE;
}

/* It is there: who took it for gone would start another, or take its world over. */
static int no_answer(const struct action_context *a, struct err *e)
{
    json_auto_t *o = action_lock_read(a);
    int64_t pid = js_number(o, "pid", 0); /* 0: not in what is the dump directory now */
    SCOPED(xfree) char *which = pid > 0 ? xasprintf("-p %" PRId64, pid) : xstrdup("-C worldkeeper");
    err_set(e, ERR_UNREACHABLE, 0, "the supervisor of world %s does not answer within %d s",
            a->cfg->name, patience_of(a));
    return err_hint(e,
                    "it is stopped, or the machine is overloaded: ps -o pid,stat,wchan,args %s "
                    "shows what it waits for",
                    which);
}

/* The directory is opened first: between looking and connecting nobody can put another socket into its path. */
static int connect_supervisor(struct action_context *a, struct err *e)
{
    struct sockaddr_un sa;
    int dirfd = find_supervisor(a, e);
    if (dirfd < 0)
        return -1;
    struct timeval limit = {patience_of(a), 0};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    address(dirfd, &sa);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); /* for connect() as well */
    int rc = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&sa, sizeof sa);
    close(dirfd);
    if (rc == 0 && is_supervisors(fd, a))
        return fd;
    if (rc == 0)
        err_set(e, ERR_UNREACHABLE, EPERM,
                "another user answers in the place of the supervisor of "
                "world %s",
                a->cfg->name);
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        return -1;
    if (why == EAGAIN) /* those who asked before it have not been answered either */
        return no_answer(a, e);
    err_set(e, ERR_UNREACHABLE, why, "no supervisor answers for world %s", a->cfg->name);
    hint_to_start(a, e);
    return -1;
}

/* A client trusts the exit class of a supervisor of its own version only; an unknown one is a failure. */
static int answer(const struct action_context *a, const json_t *done, json_t **result,
                  struct err *e)
{
    const json_t *error = json_object_get(done, "error");
    json_t *r = json_object_get(done, "result");
    *result = r ? json_incref(r) : NULL;
    if (!error)
        return 0;
    worker_err_from(error, e);
    if (!e || e->text[0])
        return -1;
    err_set(e, e->cls, e->num, "the supervisor of world %s failed, and gives no reason",
            a->cfg->name);
    return err_hint(e, "its log may say more");
}

/* Limits the wait for requests that the supervisor answers at once; a job may take any time. */
static int wait_answer(int fd, const struct action_context *a, const struct request *r,
                       struct err *e)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    mono_t began = clock_mono();
    int n = -1;
    while (n < 0) { /* again after a signal */
        int64_t left = patience_of(a) * INT64_C(1000) - mono_since(clock_mono(), began);
        n = poll(&p, 1, !action_is(r->action, ACTION_AT_ONCE) ? -1 : left > 0 ? (int)left : 0);
    }
    if (n > 0)
        return 0;
    return no_answer(a, e);
}

/* Events go to the caller as they come. The lock file names the socket, since a supervisor keeps the directory that it
 * opened, wherever the config points now. */
int control_ask(struct action_context *a, const struct request *r, json_t **result, struct err *e)
{
    *result = NULL;
    json_auto_t *o = request_json(r);
    if (!o) {
        err_set(e, ERR_USAGE, 0, "a name that is not UTF-8 cannot be passed to the supervisor");
        return err_hint(e, "write it in UTF-8; a file can be renamed");
    }
    int fd = connect_supervisor(a, e);
    if (fd < 0)
        return CONTROL_NOBODY;
    int rc = worker_send(fd, o), why = errno;
    if (rc < 0 && why != EPIPE) { /* EPIPE: its reason may be there to be read */
        close(fd);
        return err_sys(e, why, "cannot send to the supervisor");
    }
    bool closed = false;
    while ((rc = wait_answer(fd, a, r, e)) == 0) {
        json_auto_t *msg = worker_receive(fd, &closed);
        if (closed) {
            rc = err_set(e, ERR_ABORTED, 0, "no answer: the supervisor ended before it gave one");
            err_hint(e, "its log says why it ended; systemd starts it again");
            break;
        }
        const json_t *done = json_object_get(msg, "done");
        if (done)
            rc = answer(a, done, result, e);
        else if (msg && a->emit)
            a->emit(a->emit_arg, msg);
        if (done)
            break;
    }
    close(fd);
    return rc;
}

/* The answer must name this world: the socket of the config may be another one's. */
bool control_elsewhere(struct action_context *a)
{
    struct request r = {.action = ACTION_STATUS};
    struct err ignored;
    json_auto_t *status = NULL;
    return control_ask(a, &r, &status, &ignored) == 0 &&
           strcmp(js_text(status, "world"), a->cfg->name) == 0;
}
