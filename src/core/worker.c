#include "core/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <fcntl.h>

#include "core/js.h"

#define CLOSE_MAX 64
static int close_list[CLOSE_MAX];
static size_t close_count;

void worker_close_in_child(int fd)
{
    if (close_count < CLOSE_MAX)
        close_list[close_count++] = fd;
}

void worker_forget_fd(int fd)
{
    for (size_t i = 0; i < close_count; i++)
        if (close_list[i] == fd)
            close_list[i] = close_list[--close_count];
}

void worker_init(struct worker *w, const char *name)
{
    *w = (struct worker){.fd = -1, .name = name};
}

static void child_setup(pid_t parent, bool orphan_ok)
{
    static const int defaults[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        signal(defaults[i], SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!orphan_ok) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) /* it died before the line above */
            _exit(1);
    }
    for (size_t i = 0; i < close_count; i++)
        close(close_list[i]);
    close_count = 0;
}

int worker_start(struct worker *w, worker_fn *fn, void *arg, bool orphan_ok, struct err *e)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(e, errno, "cannot make a socket pair for the %s worker", w->name);
    int size = 4 * WORKER_MESSAGE_MAX;
    for (int i = 0; i < 2; i++)
        setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        int keep = errno;
        close(pair[0]);
        close(pair[1]);
        return err_sys(e, keep, "cannot fork the %s worker", w->name);
    }
    if (pid == 0) {
        close(pair[0]);
        child_setup(parent, orphan_ok);
        char title[16];
        snprintf(title, sizeof title, "wk-%s", w->name);
        prctl(PR_SET_NAME, title);
        exit(fn(pair[1], arg));
    }
    close(pair[1]);
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    w->pid = pid;
    w->fd = pair[0];
    w->started = w->heard = clock_mono();
    w->told_to_stop = false;
    worker_close_in_child(w->fd);
    return 0;
}

void worker_stop(struct worker *w, int sig)
{
    if (w->pid > 0)
        kill(w->pid, sig);
    w->told_to_stop = true;
}

void worker_end(struct worker *w)
{
    if (w->fd >= 0) {
        worker_forget_fd(w->fd);
        close(w->fd);
    }
    w->fd = -1;
    w->pid = 0;
}

int worker_send(int fd, const json_t *msg)
{
    char *s = json_dumps(msg, JSON_COMPACT);
    if (!s)
        return -1;
    ssize_t n = -1;
    errno = EMSGSIZE;
    if (strlen(s) <= WORKER_MESSAGE_MAX) /* the other side would cut it */
        do
            n = send(fd, s, strlen(s), MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
    free(s);
    return n < 0 ? -1 : 0;
}

json_t *worker_receive(int fd, bool *closed)
{
    static char packet[WORKER_MESSAGE_MAX];
    *closed = false;
    ssize_t n;
    do /* ECONNRESET: it ended with words of ours unread; its own last ones are still there */
        n = recv(fd, packet, sizeof packet, 0);
    while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    if (n < 0 && errno == EAGAIN)
        return NULL;
    if (n <= 0) {
        *closed = true;
        return NULL;
    }
    return json_loadb(packet, (size_t)n, 0, NULL);
}

/* Text from the server may be no UTF-8, which JSON cannot hold. */
json_t *worker_err_json(const struct err *e)
{
    return json_pack("{s:s, s:i, s:o, s:o}", "class", err_class_name(e->cls), "num", e->num, "text",
                     js_clean(e->text), "hint", js_clean(e->hint));
}

void worker_err_from(const json_t *j, struct err *e)
{
    const char *text = json_string_value(json_object_get(j, "text"));
    const char *hint = json_string_value(json_object_get(j, "hint"));
    err_set(e, err_class_of(json_string_value(json_object_get(j, "class"))),
            (int)json_integer_value(json_object_get(j, "num")), "%s", text ? text : "");
    if (hint && hint[0])
        err_hint(e, "%s", hint);
}
