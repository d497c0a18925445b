/* Fuzzing of what goes over the control socket. The first byte says what the rest is: a request as
 * a supervisor gets it, or the lines that a supervisor answers with to one action, a packet each.
 * What a person sees of an answer is text, whatever was in it. */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "actions/control.h"
#include "base/worker.h"
#include "cli/draw.h"
#include "cli/result_view.h"
#include "cli/screen.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the supervisor ---- */

static int listener;
static const char *lines, *lines_end;
static sem_t served; /* it needs the lines no more */

static void *supervisor(void *arg)
{
    static char request[WORKER_MESSAGE_MAX];
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        demand(fd >= 0 && recv(fd, request, sizeof request, 0) > 0);
        for (const char *s = lines; s < lines_end;) {
            const char *nl = memchr(s, '\n', (size_t)(lines_end - s));
            size_t len = (size_t)((nl ? nl : lines_end) - s);
            if (len) /* an empty packet is an end to whoever reads it */
                send(fd, s, len, MSG_NOSIGNAL);
            s += len + 1;
        }
        close(fd);
        sem_post(&served);
    }
    return arg;
}

static void start_supervisor(void)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    char dir[32], place[64], lock[128];
    pthread_t thread;
    snprintf(dir, sizeof dir, "/proc/self/fd/%d", scratch_dir());
    ssize_t len = readlink(dir, place, sizeof place); /* control_ask() follows no link */
    demand(len > 0 && (size_t)len < sizeof place);
    snprintf(sa.sun_path, sizeof sa.sun_path, "%.*s/control.sock", (int)len, place);
    snprintf(lock, sizeof lock, "{\"socket\":\"%s\"}", sa.sun_path);
    scratch_put("lock", lock, strlen(lock));
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    demand(listener >= 0 && bind(listener, (struct sockaddr *)&sa, sizeof sa) == 0);
    demand(listen(listener, 8) == 0 && sem_init(&served, 0, 0) == 0);
    demand(pthread_create(&thread, NULL, supervisor, NULL) == 0);
}

/* ---- what a person sees ---- */

/* Sanitizers write to the descriptors. */
static FILE *memory_stream(void)
{
    FILE *f = fdopen(memfd_create("screen", MFD_CLOEXEC), "w");
    demand(f != NULL);
    return f;
}

/* All that was written since; the caller frees. */
static char *take(FILE *f, size_t *size)
{
    demand(fflush(f) == 0);
    *size = (size_t)lseek(fileno(f), 0, SEEK_END);
    char *s = xcalloc(*size + 1, 1);
    demand(pread(fileno(f), s, *size, 0) == (ssize_t)*size && strlen(s) == *size);
    demand(ftruncate(fileno(f), 0) == 0);
    rewind(f);
    return s;
}

static void judge_screen(FILE *f)
{
    size_t size;
    char *s = take(f, &size);
    for (const char *p = s; *p; p++) /* a bar is drawn with these */
        demand((unsigned char)*p >= 0x20 || *p == '\n' || (f == stderr && strchr("\r\033", *p)));
    demand(!strchr(s, 0x7f) && text_utf8_valid(s, size));
    free(s);
}

/* For programs: one line. */
static void judge_json(void)
{
    size_t size;
    char *s = take(stdout, &size);
    json_t *o = json_loadb(s, size, 0, NULL);
    demand(json_is_object(o) && strchr(s, '\n') == s + size - 1);
    json_decref(o);
    free(s);
}

static void show_event(void *arg, const json_t *o)
{
    (void)arg;
    screen_event(o);
}

static void ask(enum action action, const char *s, size_t len)
{
    static struct config cfg;
    static char name[] = "w";
    struct action_context a = {.cfg = &cfg, .job = {.dirfd = scratch_dir()}, .emit = show_event};
    struct request r = {.action = action};
    struct err e = {0};
    json_t *result = NULL;
    cfg.name = name;
    lines = s;
    lines_end = s + len;
    int rc = control_ask(&a, &r, &result, &e);
    demand(rc != CONTROL_NOBODY); /* else nobody is served, ever */
    while (sem_wait(&served) < 0)
        ;
    demand(rc == 0 || e.text[0]);
    screen_result(action, result);
    if (rc < 0)
        screen_error(&e);
    judge_screen(stdout);
    judge_screen(stderr);
    screen_json(action, result, rc < 0 ? &e : NULL, rc < 0 ? err_exit(e.cls) : 0);
    judge_json();
    json_decref(result);
    request_free(&r);
}

/* ---- requests ---- */

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static void take_request(const char *s, size_t len)
{
    int pair[2];
    bool closed;
    struct request r, again;
    struct err e;
    demand(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    demand(send(pair[0], s, len, 0) == (ssize_t)len);
    json_t *o = worker_receive(pair[1], &closed);
    demand(closed == (len == 0));
    int rc = request_from_json(o, &r, &e);
    json_decref(o);
    if (rc < 0) {
        demand(!r.action && !r.dump && !r.into && !r.at && e.text[0]);
        close(pair[0]);
        close(pair[1]);
        return;
    }
    o = request_json(&r);
    demand(o && worker_send(pair[0], o) == 0);
    json_decref(o);
    o = worker_receive(pair[1], &closed);
    demand(o && !closed);
    demand(request_from_json(o, &again, &e) == 0);
    json_decref(o);
    demand(r.action == again.action && same(r.dump, again.dump) && same(r.into, again.into) &&
           same(r.at, again.at) && same(r.charset, again.charset));
    demand(r.force == again.force && r.accept_cut == again.accept_cut &&
           r.dry_run == again.dry_run && r.skip == again.skip && r.pause_ms == again.pause_ms &&
           !r.automatic && !again.automatic);
    request_free(&r);
    request_free(&again);
    close(pair[0]);
    close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum action actions[] = {
        ACTION_DUMP,  ACTION_LIST, ACTION_VERIFY,     ACTION_RESTORE, ACTION_DRILL,  ACTION_STATUS,
        ACTION_CHECK, ACTION_INIT, ACTION_TEST_ALERT, ACTION_PAUSE,   ACTION_RESUME, ACTION_TIDY};
    const size_t count = sizeof actions / sizeof *actions;
    if (size == 0)
        return 0;
    if (!listener) {
        start_supervisor();
        stdout = memory_stream();
        stderr = memory_stream();
    }
    char *rest = scratch_copy(data + 1, size - 1);
    size_t what = (data[0] & 31) % (count + 1);
    screen_mode = (struct screen){
        .verbose = data[0] & 32, .utf8 = data[0] & 64, .bar = data[0] & 128, .quiet = false};
    if (what == count)
        take_request(rest, size - 1);
    else
        ask(actions[what], rest, size - 1);
    free(rest);
    return 0;
}
