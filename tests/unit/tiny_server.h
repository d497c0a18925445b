/* A server for one test: a forked child on a free port of 127.0.0.1 that answers each connection
 * with `serve` and keeps what it was told. Ended by its pid. */
#ifndef WK_TESTS_TINY_SERVER_H
#define WK_TESTS_TINY_SERVER_H

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct tiny {
    pid_t pid;
    int port;
    int log; /* memory file that parent and child share */
};

/* `in` and `conn` are the connection, `log` takes what the test wants to see. */
typedef void tiny_serve(FILE *in, int conn, int log, const char *mode);

static inline void tiny_say(int conn, const char *s)
{
    if (send(conn, s, strlen(s), MSG_NOSIGNAL) < 0)
        _exit(0);
}

static inline void tiny_log(int log, const char *s)
{
    if (write(log, s, strlen(s)) < 0)
        _exit(1);
}

static inline void tiny_loop(int s, int log, tiny_serve *serve, const char *mode)
{
    for (;;) {
        int conn = accept(s, NULL, NULL);
        if (conn < 0)
            _exit(1);
        FILE *in = fdopen(dup(conn), "r");
        if (in) {
            serve(in, conn, log, mode);
            fclose(in);
        }
        shutdown(conn, SHUT_WR);
        close(conn);
    }
}

static inline int tiny_start(struct tiny *t, tiny_serve *serve, const char *mode)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&a, sizeof a) < 0 || listen(s, 8) < 0 ||
        getsockname(s, (struct sockaddr *)&a, &len) < 0)
        return -1;
    t->port = ntohs(a.sin_port);
    t->log = memfd_create("tiny", MFD_CLOEXEC);
    t->pid = fork();
    if (t->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        tiny_loop(s, t->log, serve, mode);
    }
    close(s);
    return t->pid < 0 || t->log < 0 ? -1 : 0;
}

/* Ends it and returns what it kept; the caller frees. */
static inline char *tiny_stop(struct tiny *t)
{
    kill(t->pid, SIGKILL);
    waitpid(t->pid, NULL, 0);
    off_t size = lseek(t->log, 0, SEEK_END);
    char *s = calloc((size_t)size + 1, 1);
    if (s && pread(t->log, s, (size_t)size, 0) != size)
        s[0] = '\0';
    close(t->log);
    return s;
}

static inline int tiny_count(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

#endif
