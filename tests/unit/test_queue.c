/* The alert queue in a real directory, with what crashes and people leave in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "alert_kit.h"
#include "base/file.h"
#include "dir_kit.h"
#include "fake_clock.h"
#include "notify/alert.h"
#include "notify/incident.h"
#include "notify/queue.h"
#include "open_kit.h"
#include "store/signature.h"

/* Where this is set, who waits for a lock waits no time, and this happens meanwhile. */
static void (*meanwhile)(void);
static unsigned naps;

int nanosleep(const struct timespec *t, struct timespec *rest)
{
    naps++;
    if (!meanwhile)
        return (int)syscall(SYS_nanosleep, t, rest);
    meanwhile();
    return 0;
}

static int teardown(void **state)
{
    kit_refuse(NULL, 0, 0);
    kit_meanwhile.name = NULL;
    meanwhile = NULL;
    return kit_clean(state);
}

static void add(const struct config *c, const char *what)
{
    struct err e = {0};
    struct alert a = {.event = EVENT_DOWN, .what = what};
    json_t *j = alert_compose(c, &a, (wall_t){1769903999000});
    uint64_t number;
    if (queue_add(c, kit_dir, j, &number, &e) < 0)
        fail_msg("%s", e.text);
    json_decref(j);
}

static const struct config unnamed; /* its webhook has no name */

static int waiting(enum alert_channel ch)
{
    return queue_waiting(&unnamed, kit_dir, ch, NULL);
}

/* Loads and compares: the texts for the channel in order, joined by blanks, and its counts. */
static uint64_t expect(const struct config *c, enum alert_channel ch, const char *texts,
                       unsigned dropped, unsigned damaged)
{
    struct queue_kept k;
    struct err e = {0};
    struct buf got = {0};
    uint64_t upto = 0;
    if (queue_load(c, kit_dir, &k, &e) < 0)
        fail_msg("%s", e.text);
    json_t *due = json_array();
    for (size_t i = 0; i < json_array_size(k.alerts); i++)
        if (k.number[i] > k.channel[ch].mark) {
            json_array_append(due, json_array_get(k.alerts, i));
            upto = k.number[i];
        }
    kit_names(&got, due);
    json_decref(due);
    assert_string_equal(got.p, texts);
    assert_int_equal(k.channel[ch].dropped, dropped);
    assert_int_equal(k.channel[ch].damaged, damaged);
    buf_free(&got);
    queue_kept_free(&k);
    return upto;
}

static void done(const struct config *c, enum alert_channel ch, uint64_t upto)
{
    assert_int_equal(queue_done(c, kit_dir, ch, upto, NULL), 0);
}

/* First of all, because fault points are read once per process. */
static void test_killed_after_queued(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, false);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("WORLDKEEPER_FAULT", "alert.queued=kill", 1);
        add(c, "one");
        _exit(1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(waiting(ALERT_SMTP), 1);
    add(c, "two");
    expect(c, ALERT_SMTP, "one two", 0, 0);
}

static void test_order_and_marks(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, true);
    struct stat st;
    add(c, "one");
    add(c, "two");
    assert_true(kit_there("000000000001.json") && kit_there("000000000002.json"));
    assert_int_equal(fstatat(kit_dir, "000000000001.json", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(waiting(ALERT_SMTP), 2);
    uint64_t upto = expect(c, ALERT_SMTP, "one two", 0, 0);
    add(c, "three"); /* while the message was on its way */
    done(c, ALERT_SMTP, upto);
    assert_true(kit_there("000000000001.json")); /* the other channel has not got it */
    assert_int_equal(waiting(ALERT_SMTP), 1);
    assert_int_equal(waiting(ALERT_WEBHOOK), 3);
    done(c, ALERT_WEBHOOK, expect(c, ALERT_WEBHOOK, "one two three", 0, 0));
    assert_false(kit_there("000000000001.json") || kit_there("000000000002.json"));
    done(c, ALERT_SMTP, expect(c, ALERT_SMTP, "three", 0, 0));
    assert_false(kit_there("000000000003.json"));
    assert_int_equal(waiting(ALERT_SMTP), 0);
    expect(c, ALERT_SMTP, "", 0, 0);
    add(c, "four"); /* numbers go on with an empty queue too */
    assert_true(kit_there("000000000004.json"));
    expect(c, ALERT_WEBHOOK, "four", 0, 0);
}

static void test_no_channel(void **state)
{
    (void)state;
    add(kit_config(false, false), "nobody");
    assert_false(kit_there("000000000001.json"));
    assert_int_equal(waiting(ALERT_SMTP), 0);
}

/* Webhooks side by side: a mark each, by name. One that fails keeps an alert's file for itself
 * alone, wherever the config has it; the mark of one that was taken out goes. */
static void test_webhooks(void **state)
{
    (void)state;
    static char plain[] = "alert.webhook", ops[] = "alert.webhook.ops", url[] = "x";
    struct config c = *kit_config(false, false);
    c.webhooks[0] = (struct config_webhook){.section = plain, .url = url};
    c.webhooks[1] = (struct config_webhook){.section = ops, .url = url};
    add(&c, "one");
    add(&c, "two");
    done(&c, ALERT_WEBHOOK, 2);
    expect(&c, ALERT_WEBHOOK, "", 0, 0);
    expect(&c, ALERT_WEBHOOK + 1, "one two", 0, 0);
    assert_true(kit_there("webhook.done") && kit_there("webhook.ops.done"));
    assert_true(kit_there("000000000001.json"));
    /* The same two in another order. */
    c.webhooks[0].section = ops;
    c.webhooks[1].section = plain;
    expect(&c, ALERT_WEBHOOK, "one two", 0, 0);
    expect(&c, ALERT_WEBHOOK + 1, "", 0, 0);
    c.webhooks[0].url = NULL;
    add(&c, "three");
    assert_false(kit_there("webhook.ops.done"));
    done(&c, ALERT_WEBHOOK + 1, 3);
    assert_false(kit_there("000000000001.json"));
}

static void test_new_channel(void **state)
{
    (void)state;
    add(kit_config(true, false), "old");
    const struct config *c = kit_config(true, true);
    assert_int_equal(waiting(ALERT_WEBHOOK), 0);
    expect(c, ALERT_WEBHOOK, "", 0, 0);
    add(c, "new");
    expect(c, ALERT_WEBHOOK, "new", 0, 0);
    expect(c, ALERT_SMTP, "old new", 0, 0);
    /* Off for a while, then on again: what came meanwhile is not for it. */
    add(kit_config(false, true), "meanwhile");
    assert_false(kit_there("smtp.done"));
    c = kit_config(true, true);
    add(c, "back");
    expect(c, ALERT_SMTP, "back", 0, 0);
    expect(c, ALERT_WEBHOOK, "new meanwhile back", 0, 0);
}

static void test_full_queue(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, false);
    add(c, "first");
    for (int i = 2; i <= ALERT_QUEUE_MAX + 10; i++) {
        char name[32];
        snprintf(name, sizeof name, "%012d.json", i);
        kit_text(name, "{\"what\":\"x\"}");
    }
    add(c, "last");
    assert_false(kit_there("000000000011.json"));
    assert_true(kit_there("000000000012.json"));
    assert_int_equal(waiting(ALERT_SMTP), ALERT_QUEUE_MAX);
    struct queue_kept k;
    assert_int_equal(queue_load(c, kit_dir, &k, NULL), 0);
    assert_int_equal(json_array_size(k.alerts), ALERT_QUEUE_MAX);
    assert_int_equal(k.channel[ALERT_SMTP].dropped, 11);
    done(c, ALERT_SMTP, k.number[ALERT_QUEUE_MAX - 1]);
    queue_kept_free(&k);
    add(c, "later");
    expect(c, ALERT_SMTP, "later", 0, 0);
}

static void test_damaged_files(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, false);
    char *big = malloc(100001);
    assert_non_null(big);
    memset(big, ' ', 100000);
    big[100000] = '\0';
    add(c, "one");
    kit_text("000000000002.json", "");
    kit_text("000000000003.json", "{\"what\":\"cut");
    kit_text("000000000004.json", "[1,2]");
    kit_text("000000000005.json", "{\"what\":5}");
    kit_text("000000000006.json", big);
    assert_int_equal(symlinkat("/etc/hostname", kit_dir, "000000000007.json"), 0);
    assert_int_equal(mkfifoat(kit_dir, "000000000008.json", 0600), 0);
    assert_int_equal(mkdirat(kit_dir, "000000000009.json", 0700), 0);
    add(c, "ten");
    uint64_t upto = expect(c, ALERT_SMTP, "one ten", 8, 8);
    assert_true(kit_there("000000000002.json.bad") && kit_there("000000000009.json.bad"));
    assert_false(kit_there("000000000002.json") || kit_there("000000000009.json"));
    expect(c, ALERT_SMTP, "one ten", 8, 8); /* told until it is delivered */
    done(c, ALERT_SMTP, upto);
    add(c, "eleven");
    expect(c, ALERT_SMTP, "eleven", 0, 0); /* and only once */
    free(big);
}

/* Only a damaged one waits: nothing to send yet, reported with the next. */
static void test_damaged_alone(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, false);
    add(c, "one");
    kit_text("000000000001.json", "garbage");
    expect(c, ALERT_SMTP, "", 1, 1);
    assert_int_equal(waiting(ALERT_SMTP), 0);
    add(c, "two");
    expect(c, ALERT_SMTP, "two", 1, 1);
}

static void test_few_bad_ones_stay(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, false);
    add(c, "one");
    for (int i = 2; i < 32; i++) {
        char name[40];
        snprintf(name, sizeof name, "%012d.json.bad", i);
        kit_text(name, "x");
    }
    expect(c, ALERT_SMTP, "one", 30, 30);
    assert_false(kit_there("000000000021.json.bad"));
    assert_true(kit_there("000000000022.json.bad"));
    add(c, "later"); /* never a number that a file set aside had */
    assert_true(kit_there("000000000032.json"));
}

static void test_leftovers(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, false);
    kit_text("README", "x");
    kit_text("12.json", "x");
    kit_text("0000000000001.json", "x");
    kit_text(".000000000002.json.12.new", "half");
    kit_text(".smtp.done.12.new", "half");
    add(c, "one");
    done(c, ALERT_SMTP, expect(c, ALERT_SMTP, "one", 0, 0));
    assert_true(kit_there("README") && kit_there("12.json") && kit_there("0000000000001.json"));
    /* Killed between the mark and the removal: nothing is sent twice, the file goes. */
    add(c, "two");
    kit_text("smtp.done", "000000000002\n");
    expect(c, ALERT_SMTP, "", 0, 0);
    assert_false(kit_there("000000000002.json"));
}

static void test_strange_marks(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, false);
    add(c, "one");
    add(c, "two");
    kit_text("smtp.done", "");
    expect(c, ALERT_SMTP, "one two", 0, 0); /* rather twice than never */
    kit_text("smtp.done", "000000000001 and more\n");
    expect(c, ALERT_SMTP, "one two", 0, 0);
    kit_text("smtp.done", "000000000001\n");
    expect(c, ALERT_SMTP, "two", 0, 0);
    kit_text("smtp.done", "000000000900\n"); /* from an older copy of the directory */
    expect(c, ALERT_SMTP, "", 0, 0);
    add(c, "three");
    assert_true(kit_there("000000000901.json"));
    expect(c, ALERT_SMTP, "three", 0, 0);
    kit_text("smtp.done", "999999999999\n");
    struct err e = {0};
    json_t *j = json_object();
    uint64_t number;
    assert_int_equal(queue_add(c, kit_dir, j, &number, &e), -1);
    assert_int_equal(e.cls, ERR_DAMAGED);
    json_decref(j);
}

/* Several processes add while one reads: no number twice, nothing lost, nothing taken for dropped.
 */
static void test_many_writers(void **state)
{
    (void)state;
    enum { WRITERS = 4, EACH = 15 };
    const struct config *c = kit_config(true, false);
    pid_t pid[WRITERS];
    for (int w = 0; w < WRITERS; w++) {
        pid[w] = fork();
        if (pid[w] == 0) {
            for (int i = 0; i < EACH; i++)
                add(c, "x");
            _exit(0);
        }
    }
    size_t got = 0;
    for (int tries = 0; got < (size_t)WRITERS * EACH && tries < 2000; tries++) {
        struct queue_kept k;
        assert_int_equal(queue_load(c, kit_dir, &k, NULL), 0);
        assert_int_equal(k.channel[ALERT_SMTP].dropped, 0);
        size_t now = json_array_size(k.alerts);
        got += now;
        if (now)
            done(c, ALERT_SMTP, k.number[now - 1]);
        queue_kept_free(&k);
        usleep(2000);
    }
    for (int w = 0; w < WRITERS; w++) {
        int status;
        waitpid(pid[w], &status, 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(got, WRITERS * EACH);
    assert_int_equal(waiting(ALERT_SMTP), 0);
}

/* ---- what the disk refuses ---- */

static int try_add(const struct config *c, const char *what, struct err *e)
{
    struct alert a = {.event = EVENT_DOWN, .what = what};
    json_t *j = alert_compose(c, &a, (wall_t){1769903999000});
    *e = (struct err){0};
    uint64_t number;
    int rc = queue_add(c, kit_dir, j, &number, e);
    json_decref(j);
    return rc;
}

static int try_load(const struct config *c, struct err *e)
{
    struct queue_kept k;
    *e = (struct err){0};
    int rc = queue_load(c, kit_dir, &k, e);
    queue_kept_free(&k);
    return rc;
}

#define ALWAYS 1000u

/* Of a disk that is full somebody is told: the next supervisor has to know in which thread. */
static void test_incident_on_a_full_disk(void **state)
{
    (void)state;
    struct incidents all = {0}, read;
    struct err e = {0};
    incident_open(&all, "disk", "a1", 4);
    json_t *o = incidents_json(&all, "s8");
    kit_text("reserve", "");
    kit_refuse("." INCIDENTS_FILE ".", ENOSPC, 1);
    assert_int_equal(incidents_save(kit_dir, o, &e), 0);
    assert_false(kit_there("reserve"));
    incidents_load(kit_dir, "s8", &read);
    assert_non_null(incident_find(&read, "disk"));
    kit_refuse("." INCIDENTS_FILE ".", ENOSPC, 1);
    assert_int_equal(incidents_save(kit_dir, o, &e), -1); /* nothing left to give up */
    assert_int_equal(e.cls, ERR_NOSPACE);
    json_decref(o);
}

/* The room that was kept is for one alert; after that the disk is full. */
static void test_full_disk(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, false);
    struct err e;
    add(c, "one");
    assert_true(kit_there("reserve"));
    kit_refuse(".000000000002.json.", ENOSPC, 1);
    add(c, "two");
    assert_true(kit_there("reserve")); /* there is room again, it seems */
    kit_refuse(".000000000003.json.", ENOSPC, ALWAYS);
    assert_int_equal(try_add(c, "three", &e), -1);
    assert_int_equal(e.cls, ERR_NOSPACE);
    assert_non_null(strstr(e.text, "alert not queued"));
    assert_false(kit_there("reserve"));
    kit_refuse(".000000000003.json.", ENOSPC, 1);
    assert_int_equal(try_add(c, "three", &e), -1); /* nothing left to give up */
    kit_refuse("reserve", ENOSPC, ALWAYS);
    add(c, "three"); /* an alert without room for the next is an alert all the same */
    assert_false(kit_there("reserve"));
    expect(c, ALERT_SMTP, "one two three", 0, 0);
}

/* What went out must not go out again for as long as the disk is full. */
static void test_mark_on_a_full_disk(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, false);
    struct err e = {0};
    add(c, "one");
    uint64_t upto = expect(c, ALERT_SMTP, "one", 0, 0);
    kit_refuse(".smtp.done.", ENOSPC, ALWAYS);
    done(c, ALERT_SMTP, upto);
    expect(c, ALERT_SMTP, "", 0, 0);
    assert_int_equal(unlinkat(kit_dir, "smtp.done", 0), 0);
    assert_int_equal(queue_done(c, kit_dir, ALERT_SMTP, upto, &e), -1);
    assert_int_equal(e.cls, ERR_NOSPACE);
    assert_int_equal(queue_done(c, kit_dir, ALERT_SMTP, upto, NULL), -1);
}

static void test_mark_in_the_way(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, false);
    struct err e = {0};
    assert_int_equal(mkdirat(kit_dir, "smtp.done", 0700), 0);
    assert_int_equal(try_add(c, "one", &e), -1);
    assert_int_equal(e.num, EISDIR);
    assert_int_equal(try_load(c, &e), -1);
    assert_int_equal(queue_done(c, kit_dir, ALERT_SMTP, 1, &e), -1);
}

/* That a mark cannot be read now is no reason to send all anew, or to remove what it covers. */
static void test_mark_unreadable(void **state)
{
    (void)state;
    static const int nums[] = {EMFILE, ENFILE, EACCES};
    const struct config *c = kit_config(true, false);
    struct err e = {0};
    add(c, "one");
    add(c, "two");
    done(c, ALERT_SMTP, 1);
    for (size_t i = 0; i < 3; i++) {
        kit_refuse("smtp.done", nums[i], ALWAYS);
        assert_int_equal(try_load(c, &e), -1);
        assert_int_equal(e.num, nums[i]);
        assert_int_equal(try_add(c, "three", &e), -1);
        assert_int_equal(queue_waiting(&unnamed, kit_dir, ALERT_SMTP, NULL), -1);
    }
    kit_refuse("smtp.done", EMFILE, ALWAYS);
    done(c, ALERT_SMTP, 2);
    assert_true(kit_there("000000000002.json")); /* tidied away the next time */
    kit_refuse(NULL, 0, 0);
    expect(c, ALERT_SMTP, "", 0, 0);
    assert_false(kit_there("000000000002.json"));
}

/* The first alert of a channel makes its mark; the other's may be what cannot be read. */
static void test_other_mark_unreadable(void **state)
{
    (void)state;
    struct err e = {0};
    const struct config *c = kit_config(true, true);
    kit_refuse("webhook.done", EMFILE, ALWAYS);
    assert_int_equal(try_load(c, &e), -1);
    assert_int_equal(e.num, EMFILE);
    assert_false(kit_there("smtp.done"));
    assert_int_equal(try_add(c, "one", &e), -1);
    assert_false(kit_there("000000000001.json"));
    c = kit_config(true, false); /* the mark of a channel that is off does not matter */
    add(c, "one");
    expect(c, ALERT_SMTP, "one", 0, 0);
}

/* Out of descriptors: the alert is whole, and waits. */
static void test_alert_unreadable_now(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, false);
    add(c, "one");
    add(c, "two");
    kit_refuse("000000000001.json", EMFILE, 1);
    expect(c, ALERT_SMTP, "two", 1, 0);
    assert_true(kit_there("000000000001.json"));
    expect(c, ALERT_SMTP, "one two", 0, 0);
}

static void test_lock_on_a_full_disk(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, false);
    struct err e = {0};
    kit_refuse("lock", ENOSPC, ALWAYS);
    add(c, "one"); /* the directory is locked instead */
    kit_refuse("lock", EROFS, ALWAYS);
    expect(c, ALERT_SMTP, "one", 0, 0);
    kit_refuse("lock", EACCES, ALWAYS);
    assert_int_equal(try_add(c, "two", &e), -1);
    assert_non_null(strstr(e.text, "the lock of the alert queue"));
    assert_int_equal(try_load(c, &e), -1);
}

static void test_lock_of_another_kind(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, false);
    struct err e = {0};
    assert_int_equal(mkdirat(kit_dir, "lock", 0700), 0);
    assert_int_equal(try_add(c, "one", &e), -1);
    assert_int_equal(unlinkat(kit_dir, "lock", AT_REMOVEDIR), 0);
    assert_int_equal(symlinkat("/tmp/wk-queue-elsewhere", kit_dir, "lock"), 0);
    assert_int_equal(try_add(c, "one", &e), -1);
    assert_int_equal(e.cls, ERR_REFUSED);
    assert_int_equal(access("/tmp/wk-queue-elsewhere", F_OK), -1);
}

static int held = -1;

static void let_go(void)
{
    if (naps == 100)
        flock(held, LOCK_UN);
}

static void test_lock_held(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, false);
    struct err e = {0};
    add(c, "one");
    held = openat(kit_dir, "lock", O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(held, LOCK_EX), 0);
    meanwhile = let_go;
    naps = 1000;
    assert_int_equal(try_add(c, "two", &e), -1);
    assert_int_equal(e.cls, ERR_BUSY);
    assert_int_equal(try_load(c, &e), -1);
    assert_int_equal(e.cls, ERR_BUSY);
    naps = 0;
    add(c, "two");
    assert_int_equal(naps, 100);
    close(held);
    expect(c, ALERT_SMTP, "one two", 0, 0);
}

static void test_directory_unreadable(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, false);
    struct err e = {0};
    add(c, "one");
    kit_refuse(".", EMFILE, 1);
    assert_int_equal(try_load(c, &e), -1);
    assert_int_equal(e.num, EMFILE);
    kit_refuse(".", EMFILE, 1);
    assert_int_equal(try_add(c, "two", &e), -1);
    kit_refuse(".", EMFILE, 1);
    assert_int_equal(waiting(ALERT_SMTP), -1);
    int file = openat(kit_dir, "lock", O_RDONLY | O_CLOEXEC);
    assert_int_equal(queue_waiting(&unnamed, file, ALERT_SMTP, &e), -1);
    assert_int_equal(e.num, ENOTDIR);
    close(file);
    expect(c, ALERT_SMTP, "one", 0, 0);
}

/* ---- what others put there ---- */

static unsigned refused(const struct config *c, const char *why)
{
    struct queue_kept k;
    assert_int_equal(queue_load(c, kit_dir, &k, NULL), 0);
    unsigned n = k.refused;
    if (!strstr(k.why, why))
        fail_msg("%s", k.why);
    for (size_t i = 0; i < json_array_size(k.alerts); i++)
        assert_null(json_object_get(json_array_get(k.alerts, i), "hmac"));
    queue_kept_free(&k);
    return n;
}

/* Without a key: only files that this user made for itself. */
static void test_not_our_file(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, false);
    add(c, "one");
    add(c, "two");
    add(c, "three");
    assert_int_equal(fchmodat(kit_dir, "000000000001.json", 0644, 0), 0);
    assert_int_equal(linkat(kit_dir, "000000000002.json", kit_dir, "other", 0), 0);
    assert_int_equal(refused(c, "000000000001.json is not a regular file of this user"), 2);
    assert_true(kit_there("000000000001.json.bad") && kit_there("000000000002.json.bad"));
    expect(c, ALERT_SMTP, "three", 2, 2);
    if (geteuid() == 0) {
        assert_int_equal(fchownat(kit_dir, "000000000003.json", 65534, 65534, 0), 0);
        assert_int_equal(refused(c, "000000000003.json"), 1);
    }
}

static void plant(void)
{
    kit_text("planted", "{\"what\":\"planted\"}");
    assert_int_equal(fchmodat(kit_dir, "planted", 0644, 0), 0);
    assert_int_equal(renameat(kit_dir, "planted", kit_dir, "000000000001.json"), 0);
}

/* The file that is checked is the one that is read, whatever the name leads to a moment later. */
static void test_exchanged_before_it_is_opened(void **state)
{
    (void)state;
    const struct config *c = kit_config(true, false);
    add(c, "one");
    add(c, "two");
    kit_meanwhile.happens = plant;
    kit_meanwhile.name = "000000000001.json";
    assert_int_equal(refused(c, "000000000001.json is not a regular file of this user"), 1);
    assert_null(kit_meanwhile.name);
    expect(c, ALERT_SMTP, "two", 1, 1);
}

/* An alert of another world, moved here: its signature is good where both worlds have one key. */
static void test_of_another_world(void **state)
{
    (void)state;
    char key_path[] = "/tmp/wk-key-XXXXXX", other[] = "s9";
    int fd = mkstemp(key_path);
    struct config plain = *kit_config(true, false), signing = plain, theirs = plain;
    struct err e = {0};
    assert_true(fd >= 0 && write(fd, "0123456789abcdef0123456789abcdef\n", 33) == 33);
    close(fd);
    theirs.name = other;
    signing.hmac_key_file = key_path;
    for (int i = 0; i < 2; i++) {
        const struct config *ours = i ? &signing : &plain;
        assert_int_equal(signature_open(ours, &e), i);
        add(ours, "one");
        add(&theirs, "of s9");
        add(ours, "two");
        assert_int_equal(refused(ours, "is an alert of world s9"), 1);
        expect(ours, ALERT_SMTP, "one two", 1, 1);
        kit_clean(state);
    }
    struct config none = *kit_config(true, false);
    assert_int_equal(signature_open(&none, &e), 1);
    unlink(key_path);
}

/* With a key: only what was signed by it, under the name that it was signed with. */
static void test_signed(void **state)
{
    (void)state;
    char key_path[] = "/tmp/wk-key-XXXXXX";
    int fd = mkstemp(key_path);
    struct config keyed = *kit_config(true, false), none = keyed;
    struct err e = {0};
    struct stat st;
    assert_true(fd >= 0 && write(fd, "0123456789abcdef0123456789abcdef\n", 33) == 33);
    close(fd);
    keyed.hmac_key_file = key_path;
    add(&none, "unsigned");
    assert_int_equal(signature_open(&keyed, &e), 1);
    add(&keyed, "two");
    add(&keyed, "three");
    add(&keyed, "four");
    kit_text("000000000005.json", "{\"what\":\"planted\",\"hmac\":\"00\"}");
    assert_int_equal(renameat(kit_dir, "000000000003.json", kit_dir, "000000000006.json"), 0);
    assert_int_equal(refused(&keyed, "000000000001.json has no HMAC"), 3);
    expect(&keyed, ALERT_SMTP, "two four", 4, 3);
    assert_int_equal(fstatat(kit_dir, "000000000006.json.bad", &st, 0), 0);
    assert_int_equal(signature_open(&none, &e), 1);
    unlink(key_path);
}

#define QUEUE_TEST(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        QUEUE_TEST(test_killed_after_queued),
        QUEUE_TEST(test_order_and_marks),
        QUEUE_TEST(test_no_channel),
        QUEUE_TEST(test_webhooks),
        QUEUE_TEST(test_new_channel),
        QUEUE_TEST(test_full_queue),
        QUEUE_TEST(test_damaged_files),
        QUEUE_TEST(test_damaged_alone),
        QUEUE_TEST(test_few_bad_ones_stay),
        QUEUE_TEST(test_leftovers),
        QUEUE_TEST(test_strange_marks),
        QUEUE_TEST(test_many_writers),
        QUEUE_TEST(test_full_disk),
        QUEUE_TEST(test_incident_on_a_full_disk),
        QUEUE_TEST(test_mark_on_a_full_disk),
        QUEUE_TEST(test_mark_in_the_way),
        QUEUE_TEST(test_mark_unreadable),
        QUEUE_TEST(test_other_mark_unreadable),
        QUEUE_TEST(test_alert_unreadable_now),
        QUEUE_TEST(test_lock_on_a_full_disk),
        QUEUE_TEST(test_lock_of_another_kind),
        QUEUE_TEST(test_lock_held),
        QUEUE_TEST(test_directory_unreadable),
        QUEUE_TEST(test_not_our_file),
        QUEUE_TEST(test_exchanged_before_it_is_opened),
        QUEUE_TEST(test_of_another_world),
        QUEUE_TEST(test_signed),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
