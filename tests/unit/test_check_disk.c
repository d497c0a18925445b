/* Rules of --check for directories and disks: file systems, space, age and leftovers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#include "check/rules_disk.h"
#include "check_kit.h"
#include "dir_kit.h"

/* ---- disks and rights that this machine has not: these stand before the system's calls ---- */

static struct {
    unsigned long kind; /* of file system; 0: cannot be asked */
    struct statvfs room;
    bool unknown_room, closed;
    uid_t uid;
} disk;

int fstatfs(int fd, struct statfs *out)
{
    (void)fd;
    *out = (struct statfs){0};
    memcpy(&out->f_type, &disk.kind, sizeof out->f_type);
    return disk.kind ? 0 : -1;
}

int fstatvfs(int fd, struct statvfs *out)
{
    (void)fd;
    *out = disk.room;
    return disk.unknown_room ? -1 : 0;
}

int statvfs(const char *path, struct statvfs *out)
{
    (void)path;
    return fstatvfs(-1, out);
}

int faccessat(int dirfd, const char *path, int mode, int flags)
{
    (void)flags;
    if (disk.closed && mode != F_OK) {
        errno = EACCES;
        return -1;
    }
    return (int)syscall(SYS_faccessat, dirfd, path, mode);
}

uid_t geteuid(void)
{
    return disk.uid;
}

static char sub_path[256];

static char *under(const char *name)
{
    snprintf(sub_path, sizeof sub_path, "%s/%s", kit_path, name);
    return sub_path;
}

static struct check begin(void)
{
    memset(&disk, 0, sizeof disk);
    disk.kind = 0xef53; /* ext4 */
    disk.uid = getuid();
    disk.room = (struct statvfs){.f_bavail = 1000000, .f_frsize = 1, .f_files = 0};
    fake_wall_ms = 1770000000000;
    script_reset();
    kit_config();
    kit_cfg.dump_dir = kit_path;
    return kit_check();
}

static void end(struct check *c)
{
    kit_check_free(c);
}

/* Begins again as another user. */
static void as(struct check *c, uid_t uid)
{
    disk.uid = uid;
    end(c);
    *c = kit_check();
}

/* ---- the dump directory ---- */

static void test_dump_dir(void **state)
{
    (void)state;
    static const struct {
        unsigned long kind, flags;
        bool closed;
        mode_t mode;
        enum check_level level;
        const char *text, *hint;
    } cases[] = {
        {0xef53, 0, false, 0700, CHECK_OK, "(mode 0700)", NULL},
        {0, 0, false, 0700, CHECK_OK, "(mode 0700)", NULL},
        {0xef53, 0, false, 0755, CHECK_WARN, "(mode 0755)", "chmod 0700"},
        {TMPFS_MAGIC, 0, false, 0700, CHECK_WARN, "a reboot deletes the dumps", "[dump] dir"},
        {RAMFS_MAGIC, 0, false, 0700, CHECK_WARN, "in memory", NULL},
        {OVERLAYFS_SUPER_MAGIC, 0, false, 0700, CHECK_WARN, "container's own layer", NULL},
        {NFS_SUPER_MAGIC, 0, false, 0700, CHECK_WARN, "NFS", NULL},
        {0xff534d42, 0, false, 0700, CHECK_WARN, "Windows share", NULL},
        {0xfe534d42, 0, false, 0700, CHECK_WARN, "Windows share", NULL},
        {TMPFS_MAGIC, ST_RDONLY, false, 0700, CHECK_FAIL, "mounted read-only", NULL},
        {0xef53, 0, true, 0700, CHECK_FAIL, "is not writable by uid", "chown "},
        {0xef53, 0, false, 0770, CHECK_FAIL, "is writable by other users", "chmod go-w"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct check c = begin();
        disk.kind = cases[i].kind;
        disk.room.f_flag = cases[i].flags;
        disk.closed = cases[i].closed;
        assert_int_equal(fchmod(kit_dir, cases[i].mode), 0);
        check_dump_dir(&c);
        kit_expect(&c, cases[i].level, "dump directory", cases[i].text, cases[i].hint);
        end(&c);
    }
    fchmod(kit_dir, 0700);
}

static void test_missing_dir(void **state)
{
    (void)state;
    struct check c = begin();
    kit_cfg.dump_dir = under("a/b");
    as(&c, 1000);
    check_dump_dir(&c);
    kit_expect(&c, CHECK_NOTE, "dump directory", "the first start creates it", NULL);
    assert_false(kit_said(&c, CHECK_NOTE, "dump directory", NULL, "install"));
    check_dumps(&c); /* the room of what would hold it */
    kit_expect(&c, CHECK_OK, "disk", "free", NULL);
    end(&c);
    c = begin();
    kit_cfg.dump_dir = under("a/b");
    as(&c, 0);
    check_dump_dir(&c);
    kit_expect(&c, CHECK_NOTE, "dump directory", "creates it", "install -d -m 0700 -o ");
    end(&c);
    c = begin();
    kit_cfg.dump_dir = under("a/b");
    disk.closed = true;
    check_dump_dir(&c);
    kit_expect(&c, CHECK_FAIL, "dump directory", kit_path, "install -d -m 0700 -o ");
    end(&c);
    c = begin();
    kit_cfg.dump_dir = kit_none;
    disk.closed = true;
    check_dump_dir(&c);
    kit_expect(&c, CHECK_FAIL, "dump directory", "cannot be created in /", NULL);
    end(&c);
}

static void test_no_dir(void **state)
{
    (void)state;
    struct check c = begin();
    assert_int_equal(symlinkat(".", kit_dir, "link"), 0);
    kit_text("file", "");
    kit_cfg.dump_dir = under("link");
    check_dump_dir(&c);
    kit_expect(&c, CHECK_FAIL, "dump directory", "symbolic link", "name the directory itself");
    end(&c);
    c = begin();
    kit_cfg.dump_dir = under("file");
    check_dump_dir(&c);
    kit_expect(&c, CHECK_FAIL, "dump directory", "Not a directory", NULL);
    end(&c);
}

static void test_what_is_in_it(void **state)
{
    (void)state;
    struct state was = {.paused = true};
    struct check c = begin();
    kit_text("state.json", "{");
    check_dump_dir(&c);
    kit_expect(&c, CHECK_FAIL, "state", NULL, "state.json; it is created");
    kit_expect(&c, CHECK_NOTE, "supervisor", "none is running", "worldkeeper@game1");
    end(&c);
    /* with a key that cannot be read, of which check_run() tells before */
    static struct config sealed;
    c = begin();
    sealed = kit_cfg;
    sealed.hmac_key_file = kit_none;
    c.cfg = &sealed;
    assert_int_equal(state_save(kit_dir, &was, NULL), 0);
    check_dump_dir(&c);
    assert_false(kit_said(&c, CHECK_FAIL, "dumps", NULL, NULL));
    assert_int_equal(c.catalog.count, 0);
    kit_expect(&c, CHECK_NOTE, "supervisor", "paused on request", "--resume");
    end(&c);
}

static void test_running(void **state)
{
    (void)state;
    static const struct {
        const char *lock, *text;
    } cases[] = {
        {"{\"socket\":\"/s\",\"pid\":77,\"since\":\"noon\"}", "running (pid 77 since noon)"},
        {"{\"pid\":77}", "another worldkeeper process uses this world (pid 77"},
        {"garbage", "another worldkeeper process uses this world (pid 0"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct check c = begin();
        kit_text("lock", cases[i].lock);
        int fd = openat(kit_dir, "lock", O_RDONLY | O_CLOEXEC);
        assert_int_equal(flock(fd, LOCK_EX), 0);
        check_dump_dir(&c);
        kit_expect(&c, CHECK_OK, "supervisor", cases[i].text, NULL);
        assert_true(check_is(&c, "running"));
        end(&c);
        close(fd);
        c = begin();
        check_dump_dir(&c);
        assert_false(check_is(&c, "running"));
        end(&c);
    }
}

/* ---- room ---- */

static void have_dumps(struct check *c, size_t count, uint64_t size)
{
    c->catalog.list = xcalloc(count ? count : 1, sizeof *c->catalog.list);
    c->catalog.count = count;
    for (size_t i = 0; i < count; i++) {
        struct catalog_entry *e = &c->catalog.list[i];
        e->intact = true;
        e->m.file_size = size;
        e->m.at.ms = fake_wall_ms - 60000 * (int64_t)(i + 1);
        snprintf(e->m.name, sizeof e->m.name, "game1-%zu", i);
        snprintf(e->m.schema, sizeof e->m.schema, "game");
    }
}

static void test_room(void **state)
{
    (void)state;
    static const struct {
        uint64_t free, inodes_free, memory, low, size;
        size_t dumps;
        int64_t within;
        enum check_level level;
        const char *text, *hint;
    } cases[] = {
        {1 << 30, 15, 0, 0, 0, 0, 0, CHECK_FAIL, "no free inodes", NULL},
        {4095, 99, 8192, 0, 0, 0, 0, CHECK_FAIL, "a dump may take up to 4.0 KiB", "make room"},
        {1023, 99, 8192, 0, 1024, 1, 0, CHECK_FAIL, "the last dump took 1.0 KiB", NULL},
        {1024, 99, 0, 0, 1024, 1, 0, CHECK_OK, "1 kept dumps need about 2.0 KiB", NULL},
        /* an hour at a dump a minute is 60, and one is being written; two are there already */
        {59 * 1024, 99, 0, 0, 1024, 2, 3600000, CHECK_OK, "60 kept dumps", NULL},
        {59 * 1024 - 1, 99, 0, 0, 1024, 2, 3600000, CHECK_WARN, "in the long run", "keep_within"},
        {1 << 20, 99, 0, 2 << 20, 1024, 1, 0, CHECK_WARN, "less than [alert] disk_low", NULL},
        {1 << 20, 99, 0, 0, 0, 0, 0, CHECK_OK, "1.0 MiB free", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct check c = begin();
        disk.room.f_bavail = cases[i].free;
        disk.room.f_files = 100;
        disk.room.f_favail = cases[i].inodes_free;
        c.memory_data = cases[i].memory;
        kit_cfg.disk_low = cases[i].low;
        kit_cfg.retention.keep_within = cases[i].within;
        have_dumps(&c, cases[i].dumps, cases[i].size);
        check_dumps(&c);
        kit_expect(&c, cases[i].level, "disk", cases[i].text, cases[i].hint);
        end(&c);
    }
    /* What a manifest claims of a file that is not so makes no room. */
    struct check c = begin();
    disk.room.f_bavail = 60 * 1024 - 1;
    kit_cfg.retention.keep_within = 3600000;
    have_dumps(&c, 2, 1024);
    c.catalog.list[1].m.file_size = INT64_MAX / 2;
    c.catalog.list[1].intact = false;
    check_dumps(&c);
    kit_expect(&c, CHECK_WARN, "disk", "in the long run", NULL);
    end(&c);
    c = begin();
    disk.unknown_room = true;
    kit_cfg.dump_interval = 0;
    check_dumps(&c);
    assert_false(kit_said(&c, CHECK_OK, "disk", NULL, NULL));
    end(&c);
}

/* ---- dumps ---- */

static struct check with_dumps(size_t count)
{
    struct check c = begin();
    c.dirfd = dup(kit_dir);
    have_dumps(&c, count, 1024);
    return c;
}

static void expect(struct check *c, enum check_level level, const char *name, const char *text,
                   const char *hint)
{
    check_dumps(c);
    kit_expect(c, level, name, text, hint);
    end(c);
}

static void test_newest(void **state)
{
    (void)state;
    struct check c = with_dumps(0);
    expect(&c, CHECK_WARN, "dumps", "none yet", "--dump");
    c = with_dumps(2);
    expect(&c, CHECK_OK, "dumps", "2, the newest of 1", NULL);
    c = with_dumps(1);
    kit_cfg.max_dump_age = 59999;
    expect(&c, CHECK_WARN, "dumps", "older than max_dump_age", NULL);
    c = with_dumps(1);
    c.catalog.list[0].m.at.ms = fake_wall_ms + 60000;
    expect(&c, CHECK_OK, "dumps", "of 0", NULL);
    c = with_dumps(1);
    c.catalog.list[0].m.at.ms = fake_wall_ms + 60001;
    expect(&c, CHECK_WARN, "dumps", "in the future", NULL);
    c = with_dumps(1);
    snprintf(c.catalog.list[0].m.schema, sizeof c.catalog.list[0].m.schema, "other");
    expect(&c, CHECK_WARN, "dumps", "of schema other, but the config names game",
           "for each schema");
}

static void test_broken(void **state)
{
    (void)state;
    struct check c = with_dumps(3);
    c.catalog.list[0].intact = c.catalog.list[1].intact = false;
    snprintf(c.catalog.list[0].reason, sizeof c.catalog.list[0].reason, "cut");
    expect(&c, CHECK_WARN, "dumps", "2 not intact, such as game1-0: cut", "--verify");
    c = with_dumps(1);
    c.catalog.list[0].intact = false;
    c.catalog.list[0].unproven = true;
    expect(&c, CHECK_WARN, "dumps", "1 not intact", "--seal=DUMP");

    struct manifest m = {.world = "game1", .generation = 1, .sequence = 1, .at = {fake_wall_ms}};
    char name[DUMP_NAME_MAX + 16];
    manifest_name(&m);
    assert_int_equal(mkdirat(kit_dir, "rejected", 0700), 0);
    snprintf(name, sizeof name, "rejected/%.127s.json", m.name);
    kit_text(name, "garbage");
    c = with_dumps(1);
    expect(&c, CHECK_NOTE, "dumps", "1 in rejected/, the last one because: ", NULL);
}

static void test_left_overs(void **state)
{
    (void)state;
    struct manifest m = {.world = "game1", .generation = 1, .sequence = 1, .at = {fake_wall_ms}};
    char name[DUMP_NAME_MAX + 16];
    kit_text("pending.json", "{}");
    kit_text("conflict-1.sql.gz", "");
    kit_text("conflict-1.json", "");
    struct check c = with_dumps(1);
    expect(&c, CHECK_WARN, "left-overs", "pending.json", "the supervisor does this");
    c = with_dumps(1);
    expect(&c, CHECK_NOTE, "left-overs", "1 conflict-*.sql.gz", "worldkeeper --conflicts");
    manifest_name(&m);
    snprintf(name, sizeof name, "%.127s.part", m.name);
    kit_text(name, "");
    c = with_dumps(1);
    expect(&c, CHECK_NOTE, "left-overs", "1 unfinished file of", NULL);
    snprintf(name, sizeof name, "%.127s.sql.gz.part", m.name);
    kit_text(name, "");
    c = with_dumps(1);
    expect(&c, CHECK_NOTE, "left-overs", "2 unfinished files of", NULL);
    c = with_dumps(1);
    check_fact(&c, "running", true); /* it works on them */
    check_dumps(&c);
    assert_false(kit_said(&c, CHECK_WARN, "left-overs", NULL, NULL));
    assert_false(kit_said(&c, CHECK_NOTE, "left-overs", "unfinished", NULL));
    end(&c);
    snprintf(m.world, sizeof m.world, "game2");
    for (m.sequence = 1; m.sequence < 3; m.sequence++) {
        manifest_name(&m);
        snprintf(name, sizeof name, "%.127s.sql.gz", m.name);
        kit_text(name, "");
    }
    c = with_dumps(1);
    expect(&c, CHECK_WARN, "left-overs", "2 dumps of another world", "its own directory");
}

/* ---- status and journal ---- */

static void test_status_dir(void **state)
{
    (void)state;
    static const struct {
        mode_t mode;
        bool closed;
        enum check_level level;
        const char *text, *hint;
    } cases[] = {
        {0755, false, CHECK_OK, "(mode 0755)", NULL},
        {0700, false, CHECK_NOTE, "not readable by others", "chmod 0755"},
        {01777, false, CHECK_WARN, "by every user", "its own directory"},
        {0777, false, CHECK_FAIL, "is writable by other users", NULL},
        {0755, true, CHECK_FAIL, "is not writable by uid", "chown "},
    };
    struct check c = begin();
    check_status_dir(&c);
    kit_expect(&c, CHECK_NOTE, "status directory", "none", "[status] dir");
    end(&c);
    c = begin();
    kit_cfg.status_dir = under("none");
    check_status_dir(&c);
    kit_expect(&c, CHECK_NOTE, "status directory", "does not exist yet", NULL);
    end(&c);
    for (size_t i = 0; i < COUNT(cases); i++) {
        c = begin();
        kit_cfg.status_dir = kit_path;
        disk.closed = cases[i].closed;
        assert_int_equal(fchmod(kit_dir, cases[i].mode), 0);
        check_status_dir(&c);
        kit_expect(&c, cases[i].level, "status directory", cases[i].text, cases[i].hint);
        end(&c);
    }
    fchmod(kit_dir, 0700);
}

static struct check with_journal(void)
{
    static char sock[] = "/run/s";
    struct check c = begin();
    kit_sound_server(MARIA);
    kit_cfg.journal = JOURNAL_FOLLOW;
    kit_cfg.journal_dir = kit_path;
    kit_cfg.mysql.socket = sock;
    c.db = script_open();
    return c;
}

static void test_journal_dir(void **state)
{
    (void)state;
    struct check c = with_journal();
    kit_cfg.journal = JOURNAL_SERVER;
    check_journal_dir(&c);
    assert_int_equal(json_array_size(c.list), 0);
    end(&c);
    c = with_journal();
    check_journal_dir(&c);
    kit_expect(&c, CHECK_OK, "segments", kit_path, NULL);
    end(&c);
    c = with_journal();
    kit_cfg.journal_dir = under("none");
    check_journal_dir(&c);
    kit_expect(&c, CHECK_NOTE, "segments", "does not exist yet", NULL);
    end(&c);
    c = with_journal();
    kit_text("file", "");
    kit_cfg.journal_dir = under("file");
    check_journal_dir(&c);
    kit_expect(&c, CHECK_FAIL, "segments", NULL, NULL);
    end(&c);
    c = with_journal();
    disk.closed = true;
    check_journal_dir(&c);
    kit_expect(&c, CHECK_FAIL, "segments", "is not writable", "chown ");
    end(&c);
    c = with_journal();
    script("SELECT @@global.datadir", kit_path);
    check_journal_dir(&c);
    kit_expect(&c, CHECK_NOTE, "segments", "losing that disk loses both", "another disk");
    end(&c);
    c = with_journal();
    script("SELECT @@global.datadir", kit_path);
    kit_cfg.mysql.socket = NULL; /* a path on another machine */
    check_journal_dir(&c);
    kit_expect(&c, CHECK_OK, "segments", NULL, NULL);
    end(&c);
}

#define DISK_TEST(f) cmocka_unit_test_teardown(f, kit_clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DISK_TEST(test_dump_dir),      DISK_TEST(test_missing_dir), DISK_TEST(test_no_dir),
        DISK_TEST(test_what_is_in_it), DISK_TEST(test_running),     DISK_TEST(test_room),
        DISK_TEST(test_newest),        DISK_TEST(test_broken),      DISK_TEST(test_left_overs),
        DISK_TEST(test_status_dir),    DISK_TEST(test_journal_dir),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
