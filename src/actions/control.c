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

#include "actions/action.h"
#include "actions/context.h"
#include "actions/hint_command.h"
#include "actions/request.h"
#include "base/file.h"
#include "base/js.h"
#include "base/worker.h"

/* Both sides of the socket. The supervisor's side never blocks. The client's side waits: with a
 * time limit for requests that are answered at once, without one for jobs. */

#define SOCKET_NAME "control.sock"
/* How long a process that listens on our socket may take to tell its world. */
#define NAME_PATIENCE_MS 1000
#define OWN_DIR "give each world its own [control] dir"

/* Opens the directory for the socket: the configured one, systemd's, an existing one of our own
 * under /run, or the dump directory. */
static int control_dir(const struct config *cfg, unsigned flags, char path[256], struct err *e)
{
    const char *run = getenv("RUNTIME_DIRECTORY");
    int fd;
    if (cfg->control_dir || (run && run[0] == '/')) {
        if (cfg->control_dir)
            snprintf(path, 256, "%s", cfg->control_dir);
        else /* a unit may have several directories; ours is the first */
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

/* Sets the address. A socket's path has at most 107 bytes; a path through the directory's
 * descriptor fits for any directory. */
static void control_address(int dirfd, struct sockaddr_un *sa)
{
    *sa = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(sa->sun_path, sizeof sa->sun_path, "/proc/self/fd/%d/" SOCKET_NAME, dirfd);
}

/* Asks the process at the other end for its world, which it may be too busy to tell. malloc;
 * NULL: not known. */
static char *ask_for_name(int fd)
{
    bool closed = false;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    json_auto_t *ask = json_pack("{s:s}", "action", action_name(ACTION_STATUS));
    bool answers = worker_send(fd, ask) == 0 && poll(&p, 1, NAME_PATIENCE_MS) > 0;
    json_auto_t *answer = answers ? worker_receive(fd, &closed) : NULL;
    const json_t *done = json_object_get(answer, "done");
    SCOPED(buf_free) struct buf name = {0};
    text_clean(&name, js_text(json_object_get(done, "result"), "world"), 60);
    return name.len ? xasprintf("world %s", name.p) : NULL;
}

/* Returns a description of the other process that listens at the address (malloc), or NULL if there
 * is none. The lock of the dumps does not exclude it: another world may have the same directory for
 * its socket. A socket of our own remains if its directory was replaced by a link to it. */
static char *other_listener(const struct sockaddr_un *sa)
{
    struct ucred who = {0};
    socklen_t len = sizeof who;
    SCOPED(file_close)
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool there = fd >= 0 && (connect(fd, (const struct sockaddr *)sa, sizeof *sa) == 0 ||
                             errno == EAGAIN /* its queue is full */ || errno == EPROTOTYPE);
    if (!there || (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.pid == getpid()))
        return NULL;
    SCOPED(xfree) char *name = ask_for_name(fd);
    const char *shown = name ? name : "another process";
    return who.pid > 0 ? xasprintf("%s (pid %d)", shown, (int)who.pid) : xstrdup(shown);
}

/* Listens on the control socket. The umask sets its mode while bind() creates the file; a later
 * chmod() would leave a moment in which every user may connect. */
int control_listen(const struct config *cfg, char path[256], struct err *e)
{
    struct sockaddr_un sa;
    int dirfd = control_dir(cfg, FILE_MAKE, path, e);
    if (dirfd < 0)
        return -1;
    size_t len = strlen(path);
    snprintf(path + len, 256 - len, "/" SOCKET_NAME);
    control_address(dirfd, &sa);
    SCOPED(xfree) char *other = other_listener(&sa);
    if (other) {
        close(dirfd);
        err_set(e, ERR_REFUSED, 0, "cannot listen on %s: %s listens there", path, other);
        return err_hint(e, OWN_DIR ", or stop the other supervisor");
    }
    unlinkat(dirfd, SOCKET_NAME, 0); /* the socket of a supervisor that has exited */
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
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

/* Accepts a connection. The kernel identifies the peer. Connections of other users are closed
 * without an answer. */
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

/* Opens the directory of the socket that the lock file names, or else the config's. A lock file
 * without a socket may be in a directory that replaced the supervisor's. */
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

/* Returns the time limit for an answer in seconds. */
static int patience_of(const struct action_context *a)
{
    return a->patience ? a->patience : CONTROL_PATIENCE;
}

/* Reports that the supervisor runs but does not answer. A client that considered it gone would
 * start another one, or take over its world. */
static int no_answer(const struct action_context *a, struct err *e)
{
    json_auto_t *o = action_lock_read(a);
    int64_t pid = js_number(o, "pid", 0); /* 0: the current dump directory does not tell */
    SCOPED(xfree) char *which = pid > 0 ? xasprintf("-p %" PRId64, pid) : xstrdup("-C worldkeeper");
    err_set(e, ERR_UNREACHABLE, 0, "the supervisor of world %s does not answer within %d s",
            a->cfg->name, patience_of(a));
    return err_hint(e,
                    "it is stopped, or the machine is overloaded: ps -o pid,stat,wchan,args %s "
                    "shows what it waits for",
                    which);
}

/* Connects to the supervisor. The directory is opened first, so no process can replace the socket's
 * path between the check and the connection. */
static int connect_supervisor(struct action_context *a, struct err *e)
{
    struct sockaddr_un sa;
    int dirfd = find_supervisor(a, e);
    if (dirfd < 0)
        return -1;
    struct timeval limit = {patience_of(a), 0};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    control_address(dirfd, &sa);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); /* limits connect() too */
    int rc = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&sa, sizeof sa);
    close(dirfd);
    if (rc == 0 && is_supervisors(fd, a))
        return fd;
    if (rc == 0)
        err_set(e, ERR_UNREACHABLE, EPERM,
                "another user's process answers on the control socket of world %s", a->cfg->name);
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        return -1;
    if (why == EAGAIN) /* earlier clients have not been answered either */
        return no_answer(a, e);
    err_set(e, ERR_UNREACHABLE, why, "no supervisor answers for world %s", a->cfg->name);
    hint_to_start(a, e);
    return -1;
}

/* Reads the final answer. A client knows only the exit classes of its own version; an unknown class
 * counts as a failure. */
static int control_answer(const struct action_context *a, const json_t *done, json_t **result,
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
    err_set(e, e->cls, e->num, "the supervisor of world %s failed without giving a reason",
            a->cfg->name);
    return err_hint(e, "see its log");
}

/* Waits for the answer. Only requests that the supervisor answers at once have a time limit; a job
 * may take any time. */
static int wait_answer(int fd, const struct action_context *a, const struct request *r,
                       struct err *e)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    mono_t began = clock_mono();
    int n = -1;
    while (n < 0) { /* repeated after a signal */
        int64_t left = patience_of(a) * INT64_C(1000) - mono_since(clock_mono(), began);
        n = poll(&p, 1, !action_is(r->action, ACTION_AT_ONCE) ? -1 : left > 0 ? (int)left : 0);
    }
    if (n > 0)
        return 0;
    return no_answer(a, e);
}

int control_refuse_other(const char *own, const char *asked, struct err *e)
{
    if (strcmp(own, asked) == 0)
        return 0;
    err_set(e, ERR_REFUSED, 0,
            "the supervisor of world %s listens on the control socket of world %s", own, asked);
    return err_hint(e, OWN_DIR ", and restart both supervisors");
}

/* Sends the request and passes events to the caller as they arrive. The lock file names the socket,
 * because a supervisor keeps the directory that it opened even if the config changes. `world` is
 * the world that the request names, or NULL. */
static int ask_once(struct action_context *a, const struct request *r, char *world, json_t **result,
                    struct err *e)
{
    struct request named = *r;
    *result = NULL;
    named.world = world;
    json_auto_t *o = request_json(&named);
    if (!o) {
        err_set(e, ERR_USAGE, 0, "cannot pass a name to the supervisor: it is not UTF-8");
        return err_hint(e, "use a name in UTF-8; rename the file if necessary");
    }
    int fd = connect_supervisor(a, e);
    if (fd < 0)
        return CONTROL_NOBODY;
    int rc = worker_send(fd, o), why = errno;
    if (rc < 0 && why != EPIPE) { /* after EPIPE its reason may still be readable */
        close(fd);
        return err_sys(e, why, "cannot send to the supervisor");
    }
    bool closed = false;
    while ((rc = wait_answer(fd, a, r, e)) == 0) {
        json_auto_t *msg = worker_receive(fd, &closed);
        if (closed) {
            rc = err_set(e, ERR_ABORTED, 0, "the supervisor exited before it answered");
            err_hint(e, "its log gives the reason; systemd starts it again");
            break;
        }
        const json_t *done = json_object_get(msg, "done");
        if (done)
            rc = control_answer(a, done, result, e);
        else if (msg && a->emit)
            a->emit(a->emit_arg, msg);
        if (done)
            break;
    }
    close(fd);
    return rc;
}

/* Asks for the status, which must name this world, because the config's socket may belong to
 * another one. The request does not name the world, because version 0.2 rejects that key, and an
 * upgrade asks for the status before it restarts a supervisor. */
static int control_status(struct action_context *a, const struct request *r, json_t **status,
                          struct err *e)
{
    SCOPED(buf_free) struct buf name = {0};
    int rc = ask_once(a, r, NULL, status, e);
    if (rc < 0)
        return rc;
    text_clean(&name, js_text(*status, "world"), 60);
    rc = control_refuse_other(name.p ? name.p : "", a->cfg->name, e);
    if (rc < 0) { /* it says nothing about this world */
        json_decref(*status);
        *status = NULL;
    }
    return rc;
}

/* A supervisor of an earlier version rejects the world's name. It gets the request without the name
 * if its status names this world. */
int control_ask(struct action_context *a, const struct request *r, json_t **result, struct err *e)
{
    if (r->action == ACTION_STATUS)
        return control_status(a, r, result, e);
    int rc = ask_once(a, r, a->cfg->name, result, e);
    bool rejected = rc == -1 && !*result && e->cls == ERR_USAGE && strstr(e->text, "'world'");
    return rejected && control_elsewhere(a) ? ask_once(a, r, NULL, result, e) : rc;
}

/* Returns true if a supervisor of this world answers. */
bool control_elsewhere(struct action_context *a)
{
    struct request r = {.action = ACTION_STATUS};
    struct err ignored;
    json_auto_t *status = NULL;
    return control_ask(a, &r, &status, &ignored) == 0;
}
