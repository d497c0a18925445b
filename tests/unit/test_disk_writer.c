/* supervisor/disk: how the supervisor notices that the disk writer hangs; supervisor/publisher:
 * what it sends to the disk writer if the status does not fit a packet. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "actions/context.h"
#include "config/config.h"
#include "fake_clock.h"
#include "supervisor/disk.h"
#include "supervisor/disk_writer.h"
#include "supervisor/publisher.h"
#include "supervisor/status_files.h"
#include "supervisor/world.h"

#define SILENT_S 20 /* after so many seconds without an answer, the disk hangs */

static char name[] = "w", dumps[] = "/dumps";
static struct config cfg = {.name = name, .dump_dir = dumps};
static struct action_context context = {.cfg = &cfg, .job = {.dirfd = -1}};
static struct world w;
static int their_end = -1;

static void answer(void)
{
    enum file_dir_place place;
    assert_int_equal(worker_send_packet(their_end, DISK_RECORDED, NULL, 0), 0);
    disk_message(&w, &place);
}

/* A disk writer that never reads what it is sent. */
static int begin(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    for (int i = 0; i < 2; i++)
        fcntl(pair[i], F_SETFL, O_NONBLOCK);
    their_end = pair[1];
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    assert_true(pid > 0);
    w = (struct world){
        .a = &context, .cfg = &cfg, .disk_writer = {.pid = pid, .fd = pair[0], .name = "scribe"}};
    answer();
    w.poll_disk = true;
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (w.disk_writer.pid > 0)
        kill(w.disk_writer.pid, SIGKILL);
    while (wait(NULL) > 0)
        ;
    worker_end(&w.disk_writer);
    close(their_end);
    return 0;
}

static void seconds_pass(int seconds)
{
    for (int i = 0; i < seconds; i++) {
        fake_mono_ms += 1000;
        disk_part.timers(&w, clock_mono());
    }
}

static void fill_the_queue(void)
{
    static const char packet[1024];
    while (send(w.disk_writer.fd, packet, sizeof packet, MSG_NOSIGNAL) > 0)
        ;
}

static void test_polls_that_are_not_answered(void **state)
{
    (void)state;
    seconds_pass(SILENT_S);
    assert_false(w.conditions[CONDITION_DISK_WRITER].on);
    seconds_pass(2);
    assert_true(w.conditions[CONDITION_DISK_WRITER].on);
}

/* What is published before the next poll may already have filled the queue. */
static void test_a_full_queue(void **state)
{
    (void)state;
    fill_the_queue();
    seconds_pass(SILENT_S);
    assert_false(w.conditions[CONDITION_DISK_WRITER].on);
    seconds_pass(2);
    assert_true(w.conditions[CONDITION_DISK_WRITER].on);
}

/* The loop sets `heard` when this process stood still. */
static void test_a_machine_that_stood_still(void **state)
{
    (void)state;
    seconds_pass(2);
    fake_mono_ms += 3600000;
    w.disk_writer.heard = clock_mono();
    seconds_pass(SILENT_S);
    assert_false(w.conditions[CONDITION_DISK_WRITER].on);
    seconds_pass(2);
    assert_true(w.conditions[CONDITION_DISK_WRITER].on);
}

/* Publishes a status, and returns how many lines are logged. */
static int publish_lines(void)
{
    int kept = dup(STDERR_FILENO), fd = memfd_create("log", 0), lines = 0;
    char text[4096];
    dup2(fd, STDERR_FILENO);
    publish_status(&w);
    dup2(kept, STDERR_FILENO);
    ssize_t got = pread(fd, text, sizeof text, 0);
    for (ssize_t i = 0; i < got; i++)
        lines += text[i] == '\n';
    close(kept);
    close(fd);
    return lines;
}

/* Checks that the next packet has the flag first, and then status.json if there are two files.
 * Returns the number of files. */
static int published_files(void)
{
    struct packet m;
    struct status_file f;
    bool closed;
    int n = 0;
    if (!worker_receive_packet(their_end, &m, &closed))
        return 0;
    assert_int_equal(m.type, DISK_PUBLISH);
    struct status_files s = status_files_read(m.data, m.len);
    for (; status_files_next(&s, &f); n++)
        assert_string_equal(f.name, n ? cfg.json_file : cfg.flag_file);
    return n;
}

/* The flag, which games read, is sent even if the rest of the status is too long. */
static void test_a_status_that_fits_no_packet(void **state)
{
    (void)state;
    static char dir[] = "/status", flag[] = "flag", json[] = "status.json";
    static const struct part *const no_parts[] = {NULL};
    SCOPED(buf_free) struct buf long_text = {0};
    while (long_text.len <= WORKER_MESSAGE_MAX)
        buf_adds(&long_text, "a rather long text ");
    cfg.status_dir = dir;
    cfg.flag_file = flag;
    cfg.json_file = json;
    w.parts = no_parts;
    assert_int_equal(publish_lines(), 0);
    assert_int_equal(published_files(), 2);
    w.last_restore.shown = json_pack("{s:s}", "warning", long_text.p);
    assert_int_equal(publish_lines(), 1);
    assert_int_equal(published_files(), 1);
    assert_int_equal(publish_lines(), 0);
    assert_int_equal(published_files(), 1);
    json_decref(w.last_restore.shown);
    w.last_restore.shown = NULL;
    assert_int_equal(publish_lines(), 0);
    assert_int_equal(published_files(), 2);
    cfg.status_dir = cfg.flag_file = cfg.json_file = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_polls_that_are_not_answered, begin, end),
        cmocka_unit_test_setup_teardown(test_a_full_queue, begin, end),
        cmocka_unit_test_setup_teardown(test_a_machine_that_stood_still, begin, end),
        cmocka_unit_test_setup_teardown(test_a_status_that_fits_no_packet, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
