/* offsite/upload_ledgers and fetch_ledgers: files of rolled-up rows on their way to a store and
 * back, which files count, and which are deleted. The store is a directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/file.h>

#include "dir_kit.h"
#include "fake_clock.h"
#include "ledger/keep.h"
#include "offsite/fetch_ledgers.h"
#include "offsite/upload_ledgers.h"
#include "store/signature.h"

static char world[] = "s8", first[] = "xp", second[] = "yp";
static struct config config;
static struct upload u;
static struct fetch f;
static struct ledger_ref last; /* the file that the next one is begun after */

static int set_up(void **state)
{
    (void)state;
    static char url[128];
    snprintf(url, sizeof url, "file://%s/store/", kit_path);
    config = (struct config){.name = world,
                             .dump_dir = kit_path,
                             .dump_interval = 86400000,
                             .ledger_count = 1,
                             .ledgers = {{.name = first}, {.name = second}},
                             .offsite = {.url = url}};
    assert_int_equal(mkdirat(kit_dir, "store", 0700), 0);
    u = (struct upload){.cfg = &config, .dirfd = kit_dir};
    last = (struct ledger_ref){.known = true};
    return 0;
}

static int tear_down(void **state)
{
    upload_close(&u);
    names_free(&u.ledgers_damaged);
    fetch_close(&f);
    return kit_clean(state);
}

static struct ledger_ref ref(const struct ledger_file *x)
{
    return (struct ledger_ref){.known = true, .sequence = x->sequence, .written = x->written};
}

/* Writes a file of one row in the dump directory. `before`: rows in totals when it was begun. */
static struct ledger_file written(const char *ledger, uint64_t sequence, const char *row,
                                  uint64_t before)
{
    struct err e = {0};
    struct buf header = {0}, rows = {0};
    struct ledger_file x = {.sequence = sequence,
                            .first = sequence,
                            .last = sequence,
                            .rows = 1,
                            .before = before,
                            .previous = last};
    buf_adds(&header, "\"id\"\r\n");
    buf_printf(&rows, "%s\r\n", row);
    struct ledger_file_writer *w = ledger_file_begin(kit_dir, ledger, sequence, 1, &header, &e);
    assert_non_null(w);
    assert_int_equal(ledger_file_write(w, &rows, &e), 0);
    assert_int_equal(ledger_file_commit(w, &x, &e), 0);
    buf_free(&header);
    buf_free(&rows);
    last = ref(&x);
    return x;
}

/* Gives a file of this machine another time: that of a file which another life wrote. */
static struct ledger_file of_another(struct ledger_file x)
{
    last = x.previous;
    struct ledger_file other = written(first, x.sequence, "77", x.before);
    assert_string_not_equal(other.name, x.name);
    return other;
}

static void second_passes(void)
{
    fake_wall_ms += 1000;
}

static bool exists(const char *format, const struct ledger_file *x)
{
    char name[LEDGER_FILE_NAME + 64];
    snprintf(name, sizeof name, "%s%s", x->name, format);
    return faccessat(kit_dir, name, F_OK, 0) == 0;
}

static bool stored(const char *ending, const struct ledger_file *x)
{
    char name[LEDGER_FILE_NAME + 64];
    snprintf(name, sizeof name, "store/s8/ledgers/%s%s", x->name, ending);
    return faccessat(kit_dir, name, F_OK, 0) == 0;
}

static void put(const char *path, const char *text)
{
    int fd = openat(kit_dir, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void put_stored(const struct ledger_file *x, const char *ending, const char *text)
{
    char name[LEDGER_FILE_NAME + 64];
    snprintf(name, sizeof name, "store/s8/ledgers/%s%s", x->name, ending);
    put(name, text);
}

/* Lists the store as a look of the worker does. */
static void look(void)
{
    struct err e = {0};
    if (!u.t.store && remote_open(&config, &u.t.store, &e) != REMOTE_OK)
        fail_msg("%s", e.text);
    if (ledger_copies_load(u.t.store, &config, &u.ledgers, &e) != REMOTE_OK)
        fail_msg("%s", e.text);
}

/* Does one step. Returns false if there was nothing to do. */
static bool step(struct upload_ledgers_step *s)
{
    struct err e = {0};
    u.skipped = (struct err){0};
    if (upload_ledgers_choose(&u, s, &e) < 0)
        fail_msg("%s", e.text);
    if (!s->send)
        return false;
    if (upload_ledgers_send(&u, &s->file, &e) != REMOTE_OK)
        fail_msg("%s", e.text);
    return true;
}

/* Returns the number of steps until nothing is left to do, or 20. */
static unsigned steps(struct upload_ledgers_step *s)
{
    unsigned n = 0;
    look();
    while (n < 20 && step(s))
        n++;
    return n;
}

static void tidy(void)
{
    struct err e = {0};
    u.skipped = (struct err){0};
    if (upload_ledgers_tidy(&u, &e) != REMOTE_OK)
        fail_msg("%s", e.text);
}

/* Fetches with the marker rows of a world whose last file is `newest`. */
static int fetched(const struct ledger_file *newest)
{
    struct err e = {0};
    json_auto_t *unknown = json_array();
    struct fetch_ledgers l = {.of = &config.ledgers[0],
                              .marks = {.file = newest->sequence, .written = newest->written},
                              .unknown = unknown};
    fetch_close(&f);
    if (fetch_open(&f, &config, kit_dir, NULL, &e) < 0 || fetch_ledgers(&f, &l, &e) < 0)
        fail_msg("%s", e.text);
    return l.fetched;
}

static void remove_here(const struct ledger_file *x)
{
    static const char *const endings[] = {".csv.gz", ".csv.json", ".csv.gz.undone",
                                          ".csv.json.undone"};
    char name[LEDGER_FILE_NAME + 64];
    for (size_t i = 0; i < COUNT(endings); i++) {
        snprintf(name, sizeof name, "%s%s", x->name, endings[i]);
        unlinkat(kit_dir, name, 0);
    }
}

/* Does the file count here; was it moved aside with its manifest? */
static bool counts(const struct ledger_file *x)
{
    return exists(".csv.gz", x) && exists(".csv.json", x);
}

static bool is_aside(const struct ledger_file *x)
{
    return exists(".csv.gz.undone", x) && exists(".csv.json.undone", x) && !exists(".csv.gz", x) &&
           !exists(".csv.json", x);
}

/* Settles the files here with the marker rows of a world whose last file is `x`. Returns the number
 * of the first one that is not here. */
static uint64_t settled(const struct ledger_file *x)
{
    struct err e = {0};
    struct ledger_ref at = ref(x);
    at.end = UINT64_MAX;
    if (ledger_files_settle(kit_dir, first, true, &at, &e) < 0)
        fail_msg("%s", e.text);
    return at.known ? at.sequence : UINT64_MAX;
}

static void set_aside(void)
{
    struct err e = {0};
    fetch_close(&f);
    if (fetch_open(&f, &config, kit_dir, NULL, &e) < 0 || fetch_ledgers_set_aside(&f, &e) < 0)
        fail_msg("%s", e.text);
}

static void spoil(const struct ledger_file *x)
{
    char name[LEDGER_FILE_NAME + 64];
    snprintf(name, sizeof name, "%s" LEDGER_FILES_GZIP, x->name);
    int fd = openat(kit_dir, name, O_WRONLY);
    assert_int_equal(pwrite(fd, "?", 1, (off_t)x->size - 1), 1);
    close(fd);
}

static void sign(void)
{
    struct err e = {0};
    static char path[128];
    put("key", "0123456789abcdef0123456789abcdef\n");
    snprintf(path, sizeof path, "%s/key", kit_path);
    config.hmac_key_file = path;
    if (signature_open(&config, &e) < 0)
        fail_msg("%s", e.text);
}

static void unsign(void)
{
    struct err e;
    config.hmac_key_file = NULL;
    signature_open(&config, &e);
}

/* ---- sending ---- */

static void test_two_ledgers(void **state)
{
    (void)state;
    struct upload_ledgers_step s;
    config.ledger_count = 2;
    struct ledger_file x = written(first, 1, "1", 0), y = written(second, 1, "1", 0);
    assert_int_equal(steps(&s), 2);
    assert_true(stored(LEDGER_FILES_MANIFEST, &x) && stored(LEDGER_FILES_MANIFEST, &y));
    assert_int_equal(s.waiting, 0);
}

static void test_two_damaged_files(void **state)
{
    (void)state;
    struct upload_ledgers_step s;
    struct ledger_file x = written(first, 1, "1", 0), y = written(first, 2, "2", 1),
                       good = written(first, 3, "3", 2);
    spoil(&x);
    spoil(&y);
    assert_int_equal(steps(&s), 3);
    assert_true(stored(LEDGER_FILES_MANIFEST, &good));
    assert_false(stored(LEDGER_FILES_MANIFEST, &x) || stored(LEDGER_FILES_MANIFEST, &y));
    for (unsigned i = 0; i < 2; i++) { /* always the same one is named */
        assert_false(step(&s));
        assert_non_null(strstr(u.skipped.text, x.name));
    }
}

/* A file that became shorter holds up no other one. */
static void test_a_file_that_became_shorter(void **state)
{
    (void)state;
    struct upload_ledgers_step s;
    struct ledger_file x = written(first, 1, "1", 0), good = written(first, 2, "2", 1);
    char name[LEDGER_FILE_NAME + 64];
    snprintf(name, sizeof name, "%s" LEDGER_FILES_GZIP, x.name);
    int fd = openat(kit_dir, name, O_WRONLY);
    assert_int_equal(ftruncate(fd, (off_t)x.size - 1), 0);
    close(fd);
    assert_int_equal(steps(&s), 2);
    assert_true(stored(LEDGER_FILES_MANIFEST, &good));
    assert_false(stored(LEDGER_FILES_MANIFEST, &x) || stored(LEDGER_FILES_GZIP, &x));
    assert_non_null(strstr(u.skipped.text, x.name));
}

static void test_oldest_that_waits(void **state)
{
    (void)state;
    struct upload_ledgers_step s;
    struct err e = {0};
    look();
    assert_false(step(&s));
    assert_int_equal(s.since.ms, 0);
    struct ledger_file x = written(first, 1, "1", 0);
    second_passes();
    written(first, 2, "2", 1);
    assert_int_equal(upload_ledgers_choose(&u, &s, &e), 0);
    assert_int_equal(s.waiting, 2);
    assert_int_equal(s.since.ms, x.written.ms);
    assert_int_equal(steps(&s), 2);
    assert_int_equal(s.since.ms, 0);
}

/* Nine interrupted uploads use up the names of a file. Their data is deleted after a day. */
static void test_interrupted_uploads(void **state)
{
    (void)state;
    struct upload_ledgers_step s;
    struct ledger_file x = written(first, 1, "1", 0);
    char to[16];
    mkdirat(kit_dir, "store/s8", 0700);
    mkdirat(kit_dir, "store/s8/ledgers", 0700);
    put_stored(&x, ".csv.gz", "cut");
    for (unsigned i = 2; i <= COPY_TRIES; i++) {
        snprintf(to, sizeof to, ".%u.csv.gz", i);
        put_stored(&x, to, "cut");
    }
    assert_int_equal(steps(&s), 0);
    assert_non_null(strstr(u.skipped.text, "is not sent"));
    fake_wall_ms += 25 * 3600 * 1000;
    tidy();
    assert_int_equal(steps(&s), 1);
    assert_true(stored(".csv.json", &x) && stored(".csv.gz", &x) && !stored(".2.csv.gz", &x));
}

/* A failure of a local file names this machine: a reader of "the other machine" would look at the
 * store. */
static void test_where_it_failed(void **state)
{
    (void)state;
    static char dir[] = "/srv/the dumps";
    struct config here = {.dump_dir = dir};
    struct upload of = {.cfg = &here};
    struct err e;
    err_sys(&e, ENOSPC, "cannot write offsite.json");
    upload_here(&of, &e);
    assert_string_equal(e.text, "on this machine, in /srv/the dumps: cannot write offsite.json: No "
                                "space left on device");
    assert_string_equal(e.hint, "make room on the file system of the dumps; this shows how full it "
                                "is: df -h '/srv/the dumps'");
    err_sys(&e, EIO, "cannot read x");
    upload_here(&of, &e);
    assert_string_equal(e.hint, "see the disk, owner and mode of '/srv/the dumps'");
    err_set(&e, ERR_REFUSED, 0, "another machine keeps this world");
    upload_here(&of, &e);
    assert_string_equal(e.text, "another machine keeps this world");
}

/* ---- which files count ---- */

/* The world that took over counts the rows of files that did not reach the store: they are moved
 * back when this machine has the world again, once it is known which files came after them. */
static void test_files_that_the_world_counts(void **state)
{
    (void)state;
    struct upload_ledgers_step s;
    struct ledger_file x = written(first, 1, "1", 0);
    assert_int_equal(steps(&s), 1);
    struct ledger_file y = written(first, 2, "2", 1), z = written(first, 3, "3", 2);
    struct ledger_file later = written(first, 4, "4", 3);
    assert_int_equal(steps(&s), 3);
    remove_here(&later);
    for (unsigned i = 2; i <= 3; i++) { /* the store has only the first file and the other's */
        put_stored(i == 2 ? &y : &z, ".csv.json", "");
        char name[LEDGER_FILE_NAME + 64];
        snprintf(name, sizeof name, "store/s8/ledgers/%s.csv.json", i == 2 ? y.name : z.name);
        assert_int_equal(unlinkat(kit_dir, name, 0), 0);
    }
    set_aside();
    assert_true(counts(&x) && is_aside(&y) && is_aside(&z));
    struct err e = {0};
    struct ledger_filed marks = {.filed = 4, .file = 4, .written = later.written};
    uint64_t from;
    assert_int_equal(ledger_lacks_files(&marks, first, kit_dir, &from, &e), LEDGER_LACKS_ASIDE);
    assert_int_equal(from, 2);
    marks.filed = 3;
    assert_int_equal(ledger_lacks_files(&marks, first, kit_dir, &from, &e), LEDGER_LACKS_OPEN);
    assert_int_equal(from, 4);
    marks = (struct ledger_filed){.filed = 1, .file = 1, .written = x.written};
    assert_int_equal(ledger_lacks_files(&marks, first, kit_dir, &from, &e), 0);
    assert_int_equal(fetched(&x), 0); /* a world that counts none of them */
    assert_true(is_aside(&y) && is_aside(&z));
    assert_int_equal(fetched(&later), 1);
    assert_true(counts(&y) && counts(&z) && counts(&later));
    set_aside();
    assert_true(is_aside(&y) && is_aside(&z));
    assert_int_equal(settled(&y), 0);                      /* without the store */
    assert_true(counts(&x) && counts(&y) && is_aside(&z)); /* `later` was begun after it */
    assert_int_equal(settled(&later), 0);
    assert_true(counts(&y) && counts(&z) && counts(&later));
    assert_int_equal(steps(&s), 2);
    assert_true(stored(".csv.json", &y) && stored(".csv.json", &z));
}

/* A restore takes the world back to a time before the file, and a later restore to one after it. */
static void test_a_restore_and_another_one(void **state)
{
    (void)state;
    struct ledger_file x = written(first, 1, "1", 0), y = written(first, 2, "2", 1);
    last = ref(&x);
    struct ledger_file z = written(first, 3, "2", 1), after = written(first, 4, "3", 2);
    assert_int_equal(settled(&after), 0);
    assert_true(counts(&x) && is_aside(&y) && counts(&z) && counts(&after));
    assert_int_equal(settled(&y), 0); /* not refused, although totals have grown */
    assert_true(counts(&x) && counts(&y) && is_aside(&z) && is_aside(&after));
}

/* What the mark and the manifests name is told from what another life of the world wrote, even if
 * that has as many rows. */
static void test_files_of_two_lives(void **state)
{
    (void)state;
    struct upload_ledgers_step s;
    struct ledger_file x = written(first, 1, "1", 0);
    struct ledger_file mine[] = {written(first, 2, "2", 1), written(first, 3, "3", 2),
                                 written(first, 4, "4", 3)};
    second_passes();
    last = ref(&x);
    struct ledger_file other[] = {written(first, 2, "22", 1), written(first, 3, "33", 2)};
    assert_int_equal(steps(&s), 6);
    for (size_t i = 0; i < COUNT(other); i++)
        remove_here(&other[i]);
    assert_int_equal(fetched(&other[1]), 2);
    assert_true(counts(&x) && counts(&other[0]) && counts(&other[1]));
    assert_true(is_aside(&mine[0]) && is_aside(&mine[1]) && is_aside(&mine[2]));
    for (size_t i = 0; i < COUNT(mine); i++)
        remove_here(&mine[i]);
    remove_here(&other[0]); /* a machine that had neither */
    assert_int_equal(fetched(&other[1]), 1);
    assert_true(counts(&other[0]) && !exists(".csv.gz", &mine[0]));
}

/* The machine that took over did not have the file of an interrupted run: some of its rows are in
 * totals, and the others were written to its next file. */
static void test_a_file_that_counts_in_part(void **state)
{
    (void)state;
    struct upload_ledgers_step s;
    struct ledger_file x = written(first, 1, "1", 0), next = written(first, 2, "1", 0);
    set_aside();
    assert_int_equal(settled(&next), 0);
    assert_true(is_aside(&x) && counts(&next));
    assert_int_equal(settled(&x), 0); /* the world before the takeover */
    assert_true(counts(&x));
    assert_int_equal(steps(&s), 2); /* it reaches the store late */
    set_aside();
    remove_here(&x);
    assert_int_equal(settled(&next), 1);
    assert_true(counts(&next));
    assert_int_equal(fetched(&next), 0);
    assert_false(exists(".csv.gz", &x));
}

/* A manifest of an earlier version does not name the file before it: nothing is moved, and what is
 * here comes first. */
static void test_files_of_an_earlier_version(void **state)
{
    (void)state;
    struct upload_ledgers_step s;
    char name[LEDGER_FILE_NAME + 64];
    last.known = false;
    struct ledger_file x = written(first, 1, "1", 0);
    second_passes();
    last.known = false;
    struct ledger_file y = written(first, 1, "1", 0);
    last = ref(&x);
    struct ledger_file z = written(first, 2, "2", 1);
    assert_int_equal(steps(&s), 3);
    assert_int_equal(settled(&z), UINT64_MAX);
    assert_true(counts(&x) && counts(&y) && counts(&z));
    second_passes();
    last.known = false;
    struct ledger_file after = written(first, 3, "3", 2);
    remove_here(&y);
    snprintf(name, sizeof name, "store/s8/ledgers/%s.csv.json", x.name);
    assert_int_equal(renameat(kit_dir, name, kit_dir, "kept"), 0);
    assert_int_equal(settled(&after), UINT64_MAX);
    assert_int_equal(fetched(&after), 0);
    assert_false(exists(".csv.gz", &y));
    assert_int_equal(renameat(kit_dir, "kept", kit_dir, name), 0);
    remove_here(&x);
    assert_int_equal(fetched(&after), 0); /* neither of two with one number */
    assert_false(exists(".csv.gz", &x) || exists(".csv.gz", &y));
}

/* After a kill between two renames. */
static void test_a_file_that_was_moved_by_half(void **state)
{
    (void)state;
    struct err e = {0};
    struct ledger_file x = written(first, 1, "1", 0);
    char from[LEDGER_FILE_NAME + 64], to[LEDGER_FILE_NAME + 64];
    snprintf(from, sizeof from, "%s.csv.json", x.name);
    snprintf(to, sizeof to, "%s.csv.json.undone", x.name);
    assert_int_equal(renameat(kit_dir, from, kit_dir, to), 0);
    assert_int_equal(settled(&x), 0);
    assert_true(counts(&x));
    assert_int_equal(renameat(kit_dir, from, kit_dir, to), 0);
    assert_int_equal(ledger_file_undo(kit_dir, &x, &e), 0);
    assert_true(is_aside(&x));
}

/* The signature of a manifest covers its name, which changes when the file is moved aside. */
static void test_a_signed_file_that_the_world_counts(void **state)
{
    (void)state;
    struct upload_ledgers_step s;
    sign();
    mkdirat(kit_dir, "store/s8", 0700);
    struct ledger_file x = written(first, 1, "1", 0);
    set_aside();
    assert_true(exists(".csv.json.undone", &x));
    fetched(&x);
    assert_true(exists(".csv.json", &x) && exists(".csv.gz", &x));
    assert_int_equal(steps(&s), 1);
    assert_true(stored(".csv.json", &x));
    unsign();
}

/* A mark that 0.3.0 or an operator stored names no file. */
static void test_a_mark_without_a_name(void **state)
{
    (void)state;
    struct err e = {0};
    uint64_t from;
    mkdirat(kit_dir, "store/s8", 0700);
    struct ledger_file y = written(first, 2, "2", 1), z = written(first, 3, "3", 2), later = z;
    set_aside();
    for (int ms = 1; ms < 1000; ms += 500) {
        later.written.ms = z.written.ms + ms;
        fetched(&later);
        assert_true(is_aside(&y) && is_aside(&z));
    }
    second_passes();
    last = (struct ledger_ref){.known = true};
    struct ledger_file other = written(first, 3, "33", 1);
    struct ledger_filed marks = {.filed = 2, .file = 3, .written.ms = other.written.ms + 1};
    assert_int_equal(ledger_lacks_files(&marks, first, kit_dir, &from, &e), 0);
    marks.written.ms = 0;
    assert_int_equal(ledger_lacks_files(&marks, first, kit_dir, &from, &e), 0);
    marks.filed = 1;
    assert_int_equal(ledger_lacks_files(&marks, first, kit_dir, &from, &e), LEDGER_LACKS_OPEN);
    assert_int_equal(from, 2);
    assert_true(is_aside(&y) && is_aside(&z) && counts(&other));
}

/* Rows that are in a file of another life of the world would count twice. It stays in the store,
 * because another restore may make it count. */
static void test_a_file_whose_number_is_another_one_s(void **state)
{
    (void)state;
    struct upload_ledgers_step s;
    struct ledger_file x = written(first, 1, "1", 0);
    second_passes();
    assert_int_equal(steps(&s), 1);
    struct ledger_file y = of_another(x);
    remove_here(&x);
    assert_int_equal(fetched(&y), 0);
    assert_false(exists(".csv.gz", &x));
    assert_int_equal(steps(&s), 1);
    tidy();
    assert_true(stored(".csv.json", &x) && stored(".csv.json", &y));
    assert_int_equal(fetched(&x), 1);
    assert_true(counts(&x) && is_aside(&y));
}

/* A machine comes back with a file of its own that its successor does not count: the successor's
 * file stays in the store, and is fetched. */
static void test_a_file_of_the_successor(void **state)
{
    (void)state;
    struct upload_ledgers_step s;
    struct ledger_file x = written(first, 1, "1", 0);
    assert_int_equal(steps(&s), 1);
    second_passes();
    struct ledger_file y = of_another(x);
    assert_int_equal(steps(&s), 1);
    remove_here(&y);
    assert_int_equal(steps(&s), 0);
    tidy();
    assert_true(stored(".csv.gz", &y) && stored(".csv.json", &y));
    assert_int_equal(fetched(&y), 1);
    assert_true(counts(&y) && is_aside(&x));
}

/* Files after the last one that the world counts were written by a life of it that ended. With them
 * here, the next run would refuse to set them aside. */
static void test_files_after_the_last_one(void **state)
{
    (void)state;
    struct upload_ledgers_step s;
    char name[LEDGER_FILE_NAME + 64];
    struct ledger_file x[3];
    for (uint64_t i = 0; i < COUNT(x); i++)
        x[i] = written(first, 4 + i, "1", i);
    assert_int_equal(steps(&s), 3);
    for (size_t i = 0; i < COUNT(x); i++) {
        snprintf(name, sizeof name, "%s.csv.gz", x[i].name);
        unlinkat(kit_dir, name, 0);
        snprintf(name, sizeof name, "%s.csv.json", x[i].name);
        unlinkat(kit_dir, name, 0);
    }
    assert_int_equal(fetched(&x[0]), 1);
    assert_true(exists(".csv.json", &x[0]));
    assert_false(exists(".csv.gz", &x[1]) || exists(".csv.gz", &x[2]));
}

/* ---- deleting ---- */

/* Nothing in the store deletes a file, and neither does a file that was moved aside here. */
static void test_what_deletes_a_file(void **state)
{
    (void)state;
    struct upload_ledgers_step s;
    struct err e = {0};
    config.ledgers[0].keep = 86400000;
    struct ledger_file x = written(first, 1, "1", 0);
    assert_int_equal(steps(&s), 1);
    put_stored(&x, ".csv.undone", "undone");
    assert_int_equal(ledger_file_undo(kit_dir, &x, &e), 0);
    assert_int_equal(steps(&s), 0);
    tidy();
    assert_true(stored(".csv.gz", &x) && stored(".csv.json", &x));
    assert_int_equal(fetched(&x), 0);
    assert_true(counts(&x));
    fake_wall_ms += 86401000;
    tidy(); /* the next run of the rollup deletes it here first */
    assert_true(stored(".csv.gz", &x) && stored(".csv.json", &x));
    remove_here(&x);
    tidy();
    assert_false(stored(".csv.gz", &x) || stored(".csv.json", &x));
    config.ledgers[0].keep = 0;
}

/* A clock that jumps ahead deletes nothing for a day, and files are fetched as before. */
static void test_a_clock_that_jumps(void **state)
{
    (void)state;
    struct upload_ledgers_step s;
    int64_t was = fake_wall_ms;
    config.ledgers[0].keep = 90 * INT64_C(86400000);
    struct ledger_file x = written(first, 1, "1", 0);
    assert_int_equal(steps(&s), 1);
    remove_here(&x);
    fake_wall_ms += 1000 * INT64_C(86400000);
    tidy();
    assert_true(stored(".csv.gz", &x) && stored(".csv.json", &x));
    assert_int_equal(fetched(&x), 1);
    struct ledger_file y = written(first, 2, "2", 1);
    assert_int_equal(steps(&s), 1);
    remove_here(&x);
    fake_wall_ms += 2 * INT64_C(86400000);
    tidy();
    assert_false(stored(".csv.gz", &x) || stored(".csv.json", &x));
    assert_true(stored(".csv.json", &y));
    config.ledgers[0].keep = 0;
    fake_wall_ms = was;
}

/* ---- two processes ---- */

static atomic_bool released;

static void *release(void *arg)
{
    poll(NULL, 0, 300);
    released = true;
    flock(*(int *)arg, LOCK_UN);
    return NULL;
}

/* A fetch waits for another one, whose half file it would delete. */
static void test_two_fetches(void **state)
{
    (void)state;
    struct upload_ledgers_step s;
    pthread_t thread;
    struct ledger_file x = written(first, 1, "1", 0);
    assert_int_equal(steps(&s), 1);
    int lock = openat(kit_dir, "ledgers.lock", O_RDWR | O_CREAT, 0600);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    assert_int_equal(pthread_create(&thread, NULL, release, &lock), 0);
    fetched(&x);
    assert_true(released);
    pthread_join(thread, NULL);
    close(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_ledgers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_two_damaged_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_that_became_shorter, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_oldest_that_waits, set_up, tear_down),
        cmocka_unit_test(test_where_it_failed),
        cmocka_unit_test_setup_teardown(test_interrupted_uploads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_that_the_world_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_restore_and_another_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_of_two_lives, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_that_counts_in_part, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_of_an_earlier_version, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_that_was_moved_by_half, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_signed_file_that_the_world_counts, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_mark_without_a_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_whose_number_is_another_one_s, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_of_the_successor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_after_the_last_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_deletes_a_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_clock_that_jumps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_two_fetches, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
