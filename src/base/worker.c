#include "base/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/js.h"

/* Descriptors that a child must not inherit: if it had a copy of our end of a sibling's socket
 * pair, the sibling would not notice our end. */
#define CLOSE_MAX 64
static int close_list[CLOSE_MAX];
static size_t close_count;

void worker_close_in_child(int fd)
{
    if (close_count < CLOSE_MAX)
        close_list[close_count++] = fd;
}

void worker_close(int *fd)
{
    if (*fd < 0)
        return;
    for (size_t i = 0; i < close_count; i++)
        if (close_list[i] == *fd)
            close_list[i] = close_list[--close_count];
    close(*fd);
    *fd = -1;
}

void worker_init(struct worker *w, const char *name)
{
    *w = (struct worker){.fd = -1, .name = name};
}

/* Resets inherited handlers, blocked signals and descriptors, which belong to the supervisor.
 * SIGHUP asks the supervisor to reload its config; a terminal that closes sends it to the workers,
 * too, and none of them has to end for it. */
static void child_setup(pid_t parent, bool orphan_ok)
{
    static const int defaults[] = {SIGTERM, SIGINT, SIGCHLD};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        signal(defaults[i], SIG_DFL);
    signal(SIGHUP, SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!orphan_ok) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) /* the parent died before prctl() */
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
    /* A packet is sent as a whole or not at all, and our end never waits: space for several of the
     * longest. */
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
    /* the supervisor never waits for a child */
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    w->pid = pid;
    w->fd = pair[0];
    w->started = w->heard = clock_mono();
    w->stop_requested = false;
    worker_close_in_child(w->fd);
    return 0;
}

/* The worker's end is only known after it was reaped, never assumed. */
void worker_stop(struct worker *w, int sig)
{
    if (w->pid > 0)
        kill(w->pid, sig);
    w->stop_requested = true;
}

void worker_end(struct worker *w)
{
    worker_close(&w->fd);
    w->pid = 0;
}

void worker_kill(struct worker *w)
{
    worker_stop(w, SIGKILL);
    worker_end(w);
}

/* The receiver would truncate a longer packet. */
static int send_parts(int fd, struct iovec *parts, size_t count)
{
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = count};
    size_t size = 0;
    ssize_t n;
    for (size_t i = 0; i < count; i++)
        size += parts[i].iov_len;
    if (size > WORKER_MESSAGE_MAX) {
        errno = EMSGSIZE;
        return -1;
    }
    do
        n = sendmsg(fd, &m, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -1 : 0;
}

/* One buffer for all workers, because a message is used before the next one is received. Aligned
 * for packet_struct(). */
static _Alignas(max_align_t) char packet[WORKER_MESSAGE_MAX];

/* Returns the number of bytes in `packet`; 0: nothing has arrived, or the other side has closed. */
static size_t worker_read(int fd, bool *closed)
{
    ssize_t n;
    do /* ECONNRESET: it exited with unread messages of ours; its own last ones can still be read */
        n = recv(fd, packet, sizeof packet, 0);
    while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    *closed = n == 0 || (n < 0 && errno != EAGAIN);
    return n > 0 ? (size_t)n : 0;
}

int worker_send(int fd, const json_t *msg)
{
    char *s = json_dumps(msg, JSON_COMPACT);
    if (!s)
        return -1;
    int rc = send_parts(fd, &(struct iovec){s, strlen(s)}, 1);
    int keep = errno;
    free(s);
    errno = keep;
    return rc;
}

json_t *worker_receive(int fd, bool *closed)
{
    size_t n = worker_read(fd, closed);
    return n ? json_loadb(packet, n, 0, NULL) : NULL;
}

/* The head is as long as the strictest alignment, for the struct after it. */
union head {
    int type;
    max_align_t align;
};

int worker_send_packet(int fd, int type, const void *data, size_t len)
{
    union head h;
    memset(&h, 0, sizeof h);
    h.type = type;
    struct iovec parts[] = {{&h, sizeof h}, {(void *)(uintptr_t)data, len}};
    return send_parts(fd, parts, 2);
}

bool worker_receive_packet(int fd, struct packet *out, bool *closed)
{
    union head h;
    size_t n = worker_read(fd, closed);
    *out = (struct packet){0};
    if (n < sizeof h)
        return false;
    memcpy(&h, packet, sizeof h);
    *out = (struct packet){.type = h.type, .len = n - sizeof h, .data = packet + sizeof h};
    return true;
}

/* A packet of another size does not match its type, and is ignored. */
const void *packet_struct(const struct packet *p, size_t size)
{
    return p->len == size ? p->data : NULL;
}

int worker_send_json(int fd, int type, const json_t *o)
{
    char *s = json_dumps(o, JSON_COMPACT);
    int rc = s ? worker_send_packet(fd, type, s, strlen(s)) : -1;
    free(s);
    return rc;
}

json_t *packet_json(const struct packet *p, size_t size)
{
    return p->len > size ? json_loadb(p->data + size, p->len - size, 0, NULL) : NULL;
}

/* Text from the server may not be valid UTF-8, which JSON requires. */
json_t *worker_err_json(const struct err *e)
{
    return json_pack("{s:s, s:i, s:o, s:o}", "class", err_class_name(e->cls), "num", e->num, "text",
                     js_clean(e->text), "hint", js_clean(e->hint));
}

void worker_err_from(const json_t *j, struct err *e)
{
    err_set(e, err_class_of(js_text(j, "class")), (int)js_number(j, "num", 0), "%s",
            js_text(j, "text"));
    err_hint(e, "%s", js_text(j, "hint"));
}

/* Converts it to JSON and back, because the result is UTF-8. */
void worker_err_clean(struct err *e)
{
    json_auto_t *o = worker_err_json(e);
    worker_err_from(o, e);
}
