/* base/worker: real children. What they say arrives whole and in order, also their last words; they
 * die with their parent unless they were told to drain what it left them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/js.h"
#include "base/text.h"
#include "base/worker.h"
#include "fake_clock.h"

#define PATIENCE_MS 20000

/* Polls, then receives; NULL at the end of the other side. */
static json_t *next_message(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    bool closed;
    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    json_t *o = worker_receive(fd, &closed);
    assert_true(o || closed);
    return o;
}

static int exit_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static struct worker start(worker_fn *fn, void *arg)
{
    struct worker w;
    struct err e = {0};
    worker_init(&w, "test");
    assert_int_equal(w.pid, 0);
    assert_int_equal(w.fd, -1);
    if (worker_start(&w, fn, arg, false, &e) < 0)
        fail_msg("%s", e.text);
    assert_true(w.pid > 0 && w.fd >= 0);
    return w;
}

static void finish(struct worker *w, int want)
{
    assert_int_equal(exit_of(w->pid), want);
    worker_end(w);
    assert_int_equal(w->pid, 0);
    assert_int_equal(w->fd, -1);
}

/* ---- messages ---- */

/* Gives each message back, until the other side ends. */
static int echo(int fd, void *arg)
{
    (void)arg;
    for (;;) {
        bool closed;
        json_t *o = worker_receive(fd, &closed);
        if (closed)
            return 7;
        worker_send(fd, o);
        json_decref(o);
    }
}

static void round_trip(int fd, json_t *o)
{
    assert_int_equal(worker_send(fd, o), 0);
    json_t *back = next_message(fd);
    assert_true(json_equal(o, back));
    json_decref(back);
    json_decref(o);
}

/* {"x": "aaa…"} of `size` bytes as one packet. */
static json_t *message_of(size_t size)
{
    char *s = xcalloc(size, 1);
    memset(s, 'a', size - strlen("{\"x\":\"\"}"));
    json_t *o = json_pack("{s:s}", "x", s);
    free(s);
    return o;
}

static void test_round_trip(void **state)
{
    (void)state;
    fake_mono_ms = 5000;
    struct worker w = start(echo, NULL);
    assert_int_equal(w.started.ms, 5000);
    assert_int_equal(w.heard.ms, 5000);
    assert_false(w.stop_requested);
    round_trip(w.fd, json_object());
    round_trip(
        w.fd, json_pack("{s:s, s:[i, f, n, b]}", "text", "\xc3\xa4\n\"\\\x01", "list", -5, 0.1, 1));
    round_trip(w.fd, json_pack("{s:I}", "n", (json_int_t)INT64_MIN));
    static const size_t sizes[] = {1000, 65536, WORKER_MESSAGE_MAX - 1, WORKER_MESSAGE_MAX};
    for (size_t i = 0; i < 4; i++)
        round_trip(w.fd, message_of(sizes[i]));
    bool closed;
    assert_null(worker_receive(w.fd, &closed)); /* nothing there now: and nobody waits */
    assert_false(closed);
    shutdown(w.fd, SHUT_WR);
    assert_null(next_message(w.fd));
    finish(&w, 7);
}

/* A message that would arrive cut is not sent at all. */
static void test_too_big(void **state)
{
    (void)state;
    struct worker w = start(echo, NULL);
    static const size_t sizes[] = {WORKER_MESSAGE_MAX + 1, WORKER_MESSAGE_MAX + 100000,
                                   4 * WORKER_MESSAGE_MAX};
    for (size_t i = 0; i < 3; i++) {
        json_t *big = message_of(sizes[i]);
        errno = 0;
        assert_int_equal(worker_send(w.fd, big), -1);
        assert_int_equal(errno, EMSGSIZE);
        json_decref(big);
    }
    assert_int_equal(worker_send(w.fd, NULL), -1);
    round_trip(w.fd, json_pack("{s:i}", "still", 1));
    worker_stop(&w, SIGTERM);
    assert_true(w.stop_requested);
    finish(&w, -SIGTERM);
}

/* Structs arrive as they were sent, aligned; what is not of the size that was asked for is none. */
static void test_packets(void **state)
{
    struct sample {
        uint64_t number;
        char text[11];
        bool flag;
    } sample = {.number = UINT64_MAX, .text = "0123456789", .flag = true};
    static char big[WORKER_MESSAGE_MAX];
    struct packet m;
    bool closed;
    int pair[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
    assert_false(worker_receive_packet(pair[1], &m, &closed)); /* nothing there */
    assert_false(closed);
    assert_int_equal(worker_send_packet(pair[0], -3, &sample, sizeof sample), 0);
    assert_int_equal(worker_send_packet(pair[0], 7, "", 0), 0);
    assert_true(worker_receive_packet(pair[1], &m, &closed));
    assert_int_equal(m.type, -3);
    assert_null(packet_struct(&m, sizeof sample - 1));
    assert_null(packet_struct(&m, sizeof sample + 1));
    const struct sample *back = packet_struct(&m, sizeof sample);
    assert_non_null(back);
    assert_int_equal((uintptr_t)back % _Alignof(max_align_t), 0);
    assert_memory_equal(back, &sample, sizeof sample);
    assert_true(worker_receive_packet(pair[1], &m, &closed));
    assert_int_equal(m.type, 7);
    assert_int_equal(m.len, 0);
    assert_null(packet_struct(&m, sizeof sample));
    assert_int_equal(worker_send_packet(pair[0], 0, big, sizeof big), -1);
    assert_int_equal(errno, EMSGSIZE);
    assert_int_equal(send(pair[0], "abc", 3, 0), 3); /* without a whole head */
    assert_false(worker_receive_packet(pair[1], &m, &closed));
    assert_false(closed);
    assert_null(packet_struct(&m, sizeof sample));
    close(pair[0]);
    assert_false(worker_receive_packet(pair[1], &m, &closed));
    assert_true(closed);
    close(pair[1]);
}

static int pauser(int fd, void *arg)
{
    (void)fd;
    (void)arg;
    pause();
    return 1;
}

/* A child that does not read costs the parent nothing but the message. */
static void test_parent_never_waits(void **state)
{
    (void)state;
    struct worker w = start(pauser, NULL);
    json_t *o = message_of(1000);
    int sent = 0;
    while (sent < 100000 && worker_send(w.fd, o) == 0)
        sent++;
    assert_in_range(sent, 10, 99999);
    json_decref(o);
    worker_stop(&w, SIGKILL);
    finish(&w, -SIGKILL);
    worker_stop(&w, SIGKILL); /* none: nobody is hit */
    assert_int_equal(w.pid, 0);
}

static int speaker(int fd, void *arg)
{
    int n = *(const int *)arg;
    json_t *o = message_of(5000);
    for (int i = 0; i < n; i++) {
        js_set_int(o, "n", i);
        if (worker_send(fd, o) < 0) /* waits while the parent is slow */
            return 1;
    }
    json_decref(o);
    return 3;
}

static void hear(int fd, int n)
{
    for (int i = 0; i < n; i++) {
        json_t *o = next_message(fd);
        assert_int_equal(js_number(o, "n", -1), i);
        json_decref(o);
    }
    assert_null(next_message(fd));
}

static void test_many(void **state)
{
    (void)state;
    int n = 2000;
    struct worker w = start(speaker, &n);
    hear(w.fd, n);
    finish(&w, 3);
}

/* It is dead before it was heard, with a message to it that it never read. */
static void test_last_words(void **state)
{
    (void)state;
    int n = 3;
    for (int asked = 0; asked < 2; asked++) {
        struct worker w = start(speaker, &n);
        json_t *o = json_object();
        if (asked) /* it may be dead already, on a busy machine */
            worker_send(w.fd, o);
        json_decref(o);
        siginfo_t info;
        assert_int_equal(waitid(P_PID, (id_t)w.pid, &info, WEXITED | WNOWAIT), 0);
        hear(w.fd, n);
        finish(&w, 3);
    }
}

static int babbler(int fd, void *arg)
{
    (void)arg;
    static const char *const texts[] = {"{", "x", "true", "{\"a\":1}{"};
    for (size_t i = 0; i < 4; i++)
        if (send(fd, texts[i], strlen(texts[i]), 0) < 0)
            return 1;
    return 0;
}

/* Packets that are no JSON are nothing, not an end; so is JSON that is no container. */
static void test_babble(void **state)
{
    (void)state;
    struct worker w = start(babbler, NULL);
    for (int i = 0; i < 4; i++) {
        struct pollfd p = {.fd = w.fd, .events = POLLIN};
        bool closed;
        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
        assert_null(worker_receive(w.fd, &closed));
        assert_false(closed);
    }
    assert_null(next_message(w.fd));
    finish(&w, 0);
}

/* ---- what a child is born with ---- */

static int state_of_birth(int fd, void *arg)
{
    const int *fds = arg;
    sigset_t mask;
    struct sigaction sa;
    char name[17] = "";
    sigprocmask(SIG_SETMASK, NULL, &mask);
    sigaction(SIGTERM, NULL, &sa);
    prctl(PR_GET_NAME, name);
    json_t *o =
        json_pack("{s:b, s:b, s:b, s:b, s:b, s:b, s:s}", "blocked", sigismember(&mask, SIGTERM),
                  "handled", sa.sa_handler != SIG_DFL, "first", fcntl(fds[0], F_GETFD) >= 0,
                  "second", fcntl(fds[1], F_GETFD) >= 0, "third", fcntl(fds[2], F_GETFD) >= 0,
                  "waits", (fcntl(fd, F_GETFL) & O_NONBLOCK) == 0, "name", name);
    worker_send(fd, o);
    json_decref(o);
    return 0;
}

static void test_birth(void **state)
{
    (void)state;
    int fds[3];
    sigset_t mask, old;
    for (int i = 0; i < 3; i++)
        fds[i] = dup(0);
    worker_close_in_child(fds[0]);
    worker_close_in_child(fds[1]);
    worker_close_in_child(fds[2]);
    int number = fds[1];
    worker_close(&fds[1]);
    assert_int_equal(fds[1], -1);
    worker_close(&fds[1]);
    fds[1] = dup2(0, number); /* another descriptor, which children keep */
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigprocmask(SIG_BLOCK, &mask, &old);
    struct worker other = start(pauser, NULL); /* its end is not inherited either */
    signal(SIGTERM, SIG_IGN);
    struct worker w = start(state_of_birth, (int[]){fds[0], fds[1], other.fd});
    signal(SIGTERM, SIG_DFL);
    sigprocmask(SIG_SETMASK, &old, NULL);
    json_t *o = next_message(w.fd);
    assert_false(js_flag(o, "blocked"));
    assert_false(js_flag(o, "handled"));
    assert_false(js_flag(o, "first"));
    assert_true(js_flag(o, "second"));
    assert_false(js_flag(o, "third"));
    assert_true(js_flag(o, "waits"));
    assert_string_equal(js_text(o, "name"), "wk-test");
    json_decref(o);
    finish(&w, 0);
    worker_stop(&other, SIGKILL);
    finish(&other, -SIGKILL);
    worker_close(&fds[0]);
    worker_close(&fds[2]);
    close(fds[1]);
}

/* ---- the parent dies ---- */

static bool tell(int pipe, int n)
{
    return write(pipe, &n, sizeof n) == sizeof n;
}

static int hear_number(int pipe)
{
    int n;
    return read(pipe, &n, sizeof n) == sizeof n ? n : -1;
}

/* Says its pid, waits for its parent's death, and says how many messages it got then. */
static int drain(int fd, void *arg)
{
    int pipe = *(const int *)arg, got = 0;
    pid_t parent = getppid();
    bool closed;
    if (!tell(pipe, getpid()))
        return 1;
    while (getppid() == parent)
        usleep(1000);
    for (;;) {
        json_t *o = worker_receive(fd, &closed);
        if (closed)
            return tell(pipe, got) ? 11 : 1;
        got++;
        json_decref(o);
    }
}

#define LEFT 25

/* A parent of its own that starts a worker, leaves messages to it, says 0 and waits for its own
 * end. */
static pid_t parent_of(int pipe, bool orphan_ok)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    struct worker w;
    struct err e;
    worker_init(&w, "test");
    if (worker_start(&w, drain, &pipe, orphan_ok, &e) < 0)
        _exit(1);
    json_t *o = message_of(3000);
    for (int i = 0; i < LEFT; i++)
        if (worker_send(w.fd, o) < 0)
            _exit(1);
    json_decref(o);
    if (tell(pipe, 0))
        pause();
    _exit(1);
}

/* The worker's exit, and what it said at the end; -1 when it said nothing. */
static int worker_of_dead_parent(bool orphan_ok, int *got)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t parent = parent_of(ends[1], orphan_ok);
    close(ends[1]);
    int a = hear_number(ends[0]), b = hear_number(ends[0]); /* in any order */
    assert_true((a == 0) != (b == 0));
    kill(parent, SIGKILL);
    assert_int_equal(exit_of(parent), -SIGKILL);
    int code = exit_of(a ? a : b); /* ours now: see main() */
    *got = hear_number(ends[0]);
    close(ends[0]);
    return code;
}

static void test_dies_with_parent(void **state)
{
    (void)state;
    int got;
    assert_int_equal(worker_of_dead_parent(false, &got), -SIGKILL);
    assert_int_equal(got, -1);
}

static void test_orphan_drains(void **state)
{
    (void)state;
    int got;
    assert_int_equal(worker_of_dead_parent(true, &got), 11);
    assert_int_equal(got, LEFT);
}

/* ---- errors ---- */

static void test_err(void **state)
{
    (void)state;
    for (enum err_class cls = ERR_NONE; cls <= ERR_ABORTED; cls++) {
        struct err e = {.cls = cls,
                        .num = (int)cls - 5,
                        .text = "table 'a': \xc3\xa4",
                        .hint = "way out"},
                   back = {0};
        json_t *j = worker_err_json(&e);
        worker_err_from(j, &back);
        assert_int_equal(back.cls, cls);
        assert_int_equal(back.num, (int)cls - 5);
        assert_string_equal(back.text, e.text);
        assert_string_equal(back.hint, e.hint);
        json_decref(j);
    }
}

static void test_odd_err(void **state)
{
    (void)state;
    struct err e = {.cls = ERR_QUERY, .num = 1064, .text = "near \xff\n\x01%s"},
               back = {.hint = "old"};
    json_t *j = worker_err_json(&e);
    worker_err_from(j, &back);
    assert_string_equal(back.text, "near ???%s");
    assert_string_equal(back.hint, "");
    json_decref(j);
    memset(e.text, 't', sizeof e.text - 1);
    memset(e.hint, 'h', sizeof e.hint - 1);
    j = worker_err_json(&e);
    worker_err_from(j, &back);
    assert_string_equal(back.text, e.text);
    assert_string_equal(back.hint, e.hint);
    json_decref(j);
    static const char *const texts[] = {
        "{}", "[]", "{\"class\": 5, \"num\": \"x\", \"text\": null, \"hint\": {}}"};
    for (size_t i = 0; i < 3; i++) {
        j = json_loads(texts[i], 0, NULL);
        worker_err_from(j, &back);
        assert_int_equal(back.cls, ERR_SYSTEM);
        assert_int_equal(back.num, 0);
        assert_string_equal(back.text, "");
        assert_string_equal(back.hint, "");
        json_decref(j);
    }
    worker_err_from(NULL, &back);
    assert_int_equal(back.cls, ERR_SYSTEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_too_big),
        cmocka_unit_test(test_packets),
        cmocka_unit_test(test_parent_never_waits),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_last_words),
        cmocka_unit_test(test_babble),
        cmocka_unit_test(test_birth),
        cmocka_unit_test(test_dies_with_parent),
        cmocka_unit_test(test_orphan_drains),
        cmocka_unit_test(test_err),
        cmocka_unit_test(test_odd_err),
    };
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* orphans come to us */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
