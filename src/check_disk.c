#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/codec.h"
#include "core/file.h"
#include "core/js.h"
#include "typed.h"

#define DISK "disk"
#define DUMP_DIR "dump directory"

/* Not in every <linux/magic.h>. */
#define MAGIC_CIFS 0xff534d42u
#define MAGIC_SMB2 0xfe534d42u

/* The nearest part of the path that is there. */
static char *existing_parent(const char *path)
{
    char *p = xstrdup(path);
    while (access(p, F_OK) < 0) {
        char *slash = strrchr(p, '/');
        if (!slash || slash == p) {
            p[slash ? 1 : 0] = '\0';
            break;
        }
        *slash = '\0';
    }
    return p;
}

static void check_missing_dir(struct check *c, const char *name, const char *path, const char *mode)
{
    char *parent = existing_parent(path);
    bool can = faccessat(AT_FDCWD, parent, W_OK | X_OK, AT_EACCESS) == 0;
    check_add(c, can ? CHECK_NOTE : CHECK_FAIL, name,
              can ? "%s is not there yet; the first start makes it"
                  : "%s is not there and cannot be made in %s",
              path, parent);
    if (!can || geteuid() == 0) {
        char *command = xasprintf("%sinstall -d -m %s -o", geteuid() == 0 ? "" : "as root: ", mode);
        check_hint_user(c, command, path);
        free(command);
    }
    free(parent);
}

/* What a file system of this kind does not promise, or NULL. */
static const char *weak_file_system(int fd)
{
    struct statfs s;
    if (fstatfs(fd, &s) < 0)
        return NULL;
    switch ((unsigned long)s.f_type) {
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
        return "it is in memory (tmpfs): a reboot takes the dumps with it";
    case OVERLAYFS_SUPER_MAGIC:
        return "it is in a container's own layer (overlay): the dumps go with the container";
    case NFS_SUPER_MAGIC:
        return "it is on NFS: a dump waits for the network, and locks are as good as the file "
               "server";
    case MAGIC_CIFS:
    case MAGIC_SMB2:
        return "it is on a Windows share: locks and fsync are as good as the file server";
    default:
        return NULL;
    }
}

static void judge_dump_dir(struct check *c)
{
    const char *dir = c->cfg->dump_dir, *weak = weak_file_system(c->dirfd);
    struct stat st;
    struct statvfs v;
    if (fstat(c->dirfd, &st) < 0)
        return;
    if (fstatvfs(c->dirfd, &v) == 0 && (v.f_flag & ST_RDONLY)) {
        check_add(c, CHECK_FAIL, DUMP_DIR, "%s is on a file system that is mounted read-only", dir);
    } else if (faccessat(c->dirfd, ".", R_OK | W_OK | X_OK, AT_EACCESS) < 0) {
        check_add(c, CHECK_FAIL, DUMP_DIR, "%s belongs to uid %u and cannot be written by uid %u",
                  dir, (unsigned)st.st_uid, (unsigned)geteuid());
        check_hint_user(c, "run this as the user that it belongs to, or, as root: chown", dir);
    } else if (st.st_mode & 077) {
        check_add(c, CHECK_WARN, DUMP_DIR,
                  "%s can be looked into by others (mode %04o): names and sizes of dumps", dir,
                  (unsigned)st.st_mode & 07777);
        check_hint_file(c, "chmod 0700", dir);
    } else if (weak) {
        check_add(c, CHECK_WARN, DUMP_DIR, "%s: %s", dir, weak);
        check_hint(c, "name a directory on a disk in [dump] dir");
    } else {
        check_add(c, CHECK_OK, DUMP_DIR, "%s (mode %04o)", dir, (unsigned)st.st_mode & 07777);
    }
}

/* Is the file locked? Without taking the lock ourselves: a supervisor may be starting right now. */
static bool is_locked(int dirfd, const char *name)
{
    struct stat st;
    char line[256];
    bool found = false;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    FILE *f = fopen("/proc/locks", "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *inode = strrchr(line, ':');
        found = strstr(line, "FLOCK") && inode &&
                strtoull(inode + 1, NULL, 10) == (unsigned long long)st.st_ino;
    }
    if (f)
        fclose(f);
    return found;
}

static void check_running(struct check *c)
{
    struct buf b = {0};
    struct err ignored;
    c->running = is_locked(c->dirfd, "lock");
    if (c->state.paused) {
        check_add(c, CHECK_NOTE, "supervisor", "paused on request: nothing is restored by itself");
        check_hint(c, "to go on: worldkeeper --resume");
    }
    if (!c->running) {
        check_add(c, CHECK_NOTE, "supervisor", "none is running: nobody watches this world now");
        char *start = typed_start(c->cfg);
        check_hint(c, "%s", start);
        free(start);
        return;
    }
    json_t *o = NULL;
    if (file_read(c->dirfd, "lock", 4096, &b, &ignored) == 0)
        o = json_loadb(b.p, b.len, 0, NULL);
    check_add(c, CHECK_OK, "supervisor", "%s (pid %" PRId64 " since %s)",
              js_text(o, "socket")[0] ? "running"
                                      : "none, but another worldkeeper works on this world",
              js_number(o, "pid", 0), js_text(o, "since"));
    json_decref(o);
    buf_free(&b);
}

void check_dump_dir(struct check *c)
{
    struct err e = {0};
    if (access(c->cfg->dump_dir, F_OK) < 0 && errno == ENOENT) {
        check_missing_dir(c, DUMP_DIR, c->cfg->dump_dir, "0700");
        return;
    }
    c->dirfd = file_dir(c->cfg->dump_dir, 0, 0, &e);
    if (c->dirfd < 0) {
        struct stat st;
        bool seen = lstat(c->cfg->dump_dir, &st) == 0;
        check_error(c, CHECK_FAIL, DUMP_DIR, &e);
        if (seen && S_ISLNK(st.st_mode))
            check_hint(c, "it is a symbolic link; name the directory itself in [dump] dir");
        else if (seen && e.num == EACCES)
            check_hint(c, "it belongs to uid %u: run this as that user", (unsigned)st.st_uid);
        return;
    }
    judge_dump_dir(c);
    if (state_load(c->dirfd, &c->state, &e) < 0) {
        check_error(c, CHECK_FAIL, "state", &e);
        check_hint(c, "remove %s/state.json; the next contact with the world makes it anew",
                   c->cfg->dump_dir);
    } else if (state_is_of(&c->state, c->cfg->name, c->cfg->dump_dir, &e) < 0) {
        check_error(c, CHECK_FAIL, DUMP_DIR, &e);
        c->state = (struct state){0};
        close(c->dirfd);
        c->dirfd = -1;
        return;
    }
    if (seal_open(c->cfg, &e) >= 0 && /* else it was said of the key */
        catalog_load(c->dirfd, c->cfg->name, &c->catalog, &e) < 0)
        check_error(c, CHECK_FAIL, "dumps", &e);
    check_running(c);
}

/* Room */

/* How many dumps the rules keep in the long run; a dump may be kept by several of them, so at most.
 */
static uint64_t kept_dumps(const struct config *c)
{
    const struct config_retention *r = &c->retention;
    int64_t every = c->dump_interval > 0 ? c->dump_interval : 1;
    uint64_t within = (uint64_t)((r->keep_within + every - 1) / every);
    uint64_t n = within > r->keep_last ? within : r->keep_last;
    return n + r->keep_hourly + r->keep_daily + r->keep_weekly;
}

static void check_room(struct check *c)
{
    struct statvfs v;
    char a[TEXT_SHORT], b[TEXT_SHORT], d[TEXT_SHORT];
    char *parent = c->dirfd < 0 ? existing_parent(c->cfg->dump_dir) : NULL;
    int rc = c->dirfd < 0 ? statvfs(parent, &v) : fstatvfs(c->dirfd, &v);
    free(parent);
    if (rc < 0)
        return;
    uint64_t free_now = (uint64_t)v.f_bavail * v.f_frsize, used = 0, count = kept_dumps(c->cfg);
    const struct catalog_entry *last = catalog_newest(&c->catalog, 0);
    /* Before the first dump: rows as SQL, packed, take well under the memory they have. */
    uint64_t size = last ? last->m.file_size : c->memory_data / 2;
    for (size_t i = 0; i < c->catalog.count; i++)
        used += c->catalog.list[i].m.file_size;
    const char *about = last ? "the last dump took" : "a dump may take up to";
    uint64_t need = (count + 1) * size; /* one more while it is being written */
    if (v.f_files > 0 && v.f_favail < 16) {
        check_add(c, CHECK_FAIL, DISK, "the file system of %s has no free inodes left",
                  c->cfg->dump_dir);
    } else if (size > 0 && free_now < size) {
        check_add(c, CHECK_FAIL, DISK, "%s free, %s %s: the next dump would fail",
                  text_size(free_now, a), about, text_size(size, b));
        check_hint(c, "make room on the file system of %s, or keep fewer dumps in [retention]",
                   c->cfg->dump_dir);
    } else if (free_now + used < need) {
        check_add(c, CHECK_WARN, DISK,
                  "%s free; the %" PRIu64
                  " dumps that [retention] keeps in the long run need about %s",
                  text_size(free_now, a), count, text_size(need, b));
        check_hint(
            c, "keep_within = %s at an interval of %s is what counts most; make room or keep less",
            text_duration(c->cfg->retention.keep_within, a),
            text_duration(c->cfg->dump_interval, d));
    } else if (free_now < c->cfg->disk_low) {
        check_add(c, CHECK_WARN, DISK, "%s free, less than [alert] disk_low (%s)",
                  text_size(free_now, a), text_size(c->cfg->disk_low, b));
    } else if (size > 0) {
        check_add(c, CHECK_OK, DISK, "%s free; %" PRIu64 " kept dumps need about %s (%s %s)",
                  text_size(free_now, a), count, text_size(need, b), about, text_size(size, d));
    } else {
        check_add(c, CHECK_OK, DISK, "%s free", text_size(free_now, a));
    }
}

/* What lies around */

struct debris {
    const struct check *c;
    unsigned parts, conflicts, strangers;
    bool pending;
    char stranger[256];
};

static bool ends_with(const char *s, const char *end)
{
    size_t a = strlen(s), b = strlen(end);
    return a >= b && strcmp(s + a - b, end) == 0;
}

static void look_at_file(struct debris *d, const char *file)
{
    uint64_t generation, sequence;
    bool ours = manifest_parse_name(file, d->c->cfg->name, &generation, &sequence) > 0;
    if (text_starts(file, "conflict-"))
        d->conflicts += ends_with(file, ".sql.gz");
    else if (strcmp(file, "pending.json") == 0)
        d->pending = true;
    else if (ours && ends_with(file, ".part"))
        d->parts++;
    else if (!ours && ends_with(file, "Z.sql.gz") && d->strangers++ == 0)
        snprintf(d->stranger, sizeof d->stranger, "%s", file);
}

static void tell_debris(struct check *c, const struct debris *d)
{
    if (d->pending && !c->running) {
        check_add(c, CHECK_WARN, "left-overs",
                  "a restore was cut off (pending.json): old tables and triggers wait "
                  "to be tidied up");
        check_hint(c, "the supervisor does it when it starts, or the next --restore");
    }
    if (d->parts && !c->running)
        check_add(c, CHECK_NOTE, "left-overs",
                  "%u unfinished dump file%s of a dump that was cut off; the next dump removes %s",
                  d->parts, d->parts == 1 ? "" : "s", d->parts == 1 ? "it" : "them");
    if (d->conflicts) {
        check_add(c, CHECK_NOTE, "left-overs",
                  "%u conflict-*.sql.gz with rows that restores replaced", d->conflicts);
        check_hint(c, "look at them (zcat), put back what matters, then remove them");
    }
    if (d->strangers) {
        check_add(c, CHECK_WARN, "left-overs", "%u dumps of another world lie in %s, such as %s",
                  d->strangers, c->cfg->dump_dir, d->stranger);
        check_hint(c, "each world needs a directory of its own");
    }
}

static void check_debris(struct check *c)
{
    struct debris d = {.c = c};
    int fd = openat(c->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    const struct dirent *ent;
    while ((ent = readdir(dir)))
        look_at_file(&d, ent->d_name);
    closedir(dir);
    tell_debris(c, &d);
}

static void check_broken_dumps(struct check *c)
{
    struct catalog rejected;
    size_t broken = 0;
    const struct catalog_entry *first = NULL;
    for (size_t i = 0; i < c->catalog.count; i++)
        if (!c->catalog.list[i].intact && broken++ == 0)
            first = &c->catalog.list[i];
    if (first) {
        check_add(c, CHECK_WARN, "dumps", "%zu not intact, such as %s: %s", broken, first->m.name,
                  first->reason);
        check_hint(c, first->unproven
                          ? "those that you know to be yours: worldkeeper --seal=DUMP"
                          : "worldkeeper --verify reads every dump; a restore passes over those "
                            "that are not whole");
    }
    if (catalog_load_rejected(c->dirfd, c->cfg->name, &rejected, NULL) < 0)
        return;
    if (rejected.count)
        check_add(c, CHECK_NOTE, "dumps", "%zu set aside in rejected/, the last one because: %s",
                  rejected.count,
                  rejected.list[0].m.rejected[0] ? rejected.list[0].m.rejected
                                                 : rejected.list[0].reason);
    catalog_free(&rejected);
}

static void check_newest(struct check *c)
{
    const struct catalog_entry *last = catalog_newest(&c->catalog, 0);
    char age[TEXT_SHORT], rows[TEXT_SHORT], size[TEXT_SHORT], limit[TEXT_SHORT];
    if (!last) {
        check_add(c, CHECK_WARN, "dumps", "none yet: a loss now would be final");
        check_hint(c, "a supervisor takes one by itself; or now: worldkeeper --dump");
        return;
    }
    int64_t ms = clock_wall().ms - last->m.at.ms;
    if (ms < -60000) {
        check_add(c, CHECK_WARN, "dumps",
                  "the newest one, %s, is %s in the future: a clock was or is wrong", last->m.name,
                  text_duration(-ms, age));
        return;
    }
    bool old = ms > c->cfg->max_dump_age;
    check_add(
        c, old ? CHECK_WARN : CHECK_OK, "dumps", "%zu, the newest of %s ago: %s rows, %s, %s%s%s",
        c->catalog.count, text_duration(ms > 0 ? ms : 0, age), text_count(last->m.rows, rows),
        text_size(last->m.file_size, size), last->m.name, old ? "; older than max_dump_age = " : "",
        old ? text_duration(c->cfg->max_dump_age, limit) : "");
    if (strcmp(last->m.schema, c->cfg->schema) != 0) {
        check_add(c, CHECK_WARN, "dumps", "the newest one is of schema %s, the config names %s",
                  last->m.schema, c->cfg->schema);
        check_hint(c, "a directory and a world name for each schema");
    }
}

static void check_packing(struct check *c)
{
    int level = c->cfg->dump_level;
    if (strcmp(codec_name(1), "zlib") != 0) {
        check_add(c, CHECK_OK, "packing", "level %d, by %s", level, codec_name(level));
        return;
    }
    check_add(c, CHECK_NOTE, "packing",
              "level %d, by zlib: ISA-L, which takes a third of the time, is not there", level);
    check_hint(c, "apt-get install libisal2, for a worldkeeper that was built with it");
}

void check_dumps(struct check *c)
{
    check_packing(c);
    check_room(c);
    if (c->dirfd < 0)
        return;
    check_newest(c);
    check_broken_dumps(c);
    check_debris(c);
}

/* Status directory */

void check_status_dir(struct check *c)
{
    static const char name[] = "status directory";
    const char *dir = c->cfg->status_dir;
    struct err e = {0};
    struct stat st;
    if (!dir) {
        check_add(c, CHECK_NOTE, name, "none: no flag file for homepages, no status.json");
        check_hint(c, "[status] dir");
        return;
    }
    if (access(dir, F_OK) < 0 && errno == ENOENT) {
        check_missing_dir(c, name, dir, "0755");
        return;
    }
    int fd = file_dir(dir, FILE_PUBLIC, 0, &e);
    if (fd < 0) {
        check_error(c, CHECK_FAIL, name, &e);
        return;
    }
    if (fstat(fd, &st) < 0 || faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0) {
        check_add(c, CHECK_FAIL, name, "%s cannot be written by uid %u", dir, (unsigned)geteuid());
        check_hint_user(c, "as root: chown", dir);
    } else if (st.st_mode & 022) {
        check_add(c, CHECK_WARN, name,
                  "%s can be written by everybody (mode %04o): others can take our names in it",
                  dir, (unsigned)st.st_mode & 07777);
        check_hint(c, "name a directory of its own in [status] dir");
    } else if ((st.st_mode & 05) != 05) {
        check_add(
            c, CHECK_NOTE, name,
            "%s is closed to others (mode %04o): a web server of another user cannot read the flag",
            dir, (unsigned)st.st_mode & 07777);
        check_hint_file(c, "if a homepage is to read it: chmod 0755", dir);
    } else {
        check_add(c, CHECK_OK, name, "%s (mode %04o)", dir, (unsigned)st.st_mode & 07777);
    }
    close(fd);
}

/* Segments */

/* A disk that is lost should not take both the world and what it could be rebuilt from. */
static bool beside_the_server(struct check *c, int fd)
{
    struct stat ours, theirs;
    char *datadir = c->db && c->cfg->mysql.socket ? db_variable(c->db, "datadir") : NULL;
    bool same = datadir && fstat(fd, &ours) == 0 && stat(datadir, &theirs) == 0 &&
                ours.st_dev == theirs.st_dev;
    free(datadir);
    return same;
}

void check_journal_dir(struct check *c)
{
    static const char name[] = "segments";
    const char *dir = c->cfg->journal_dir;
    struct err e = {0};
    if (c->cfg->journal != JOURNAL_FOLLOW)
        return;
    if (access(dir, F_OK) < 0 && errno == ENOENT) {
        check_missing_dir(c, name, dir, "0700");
        return;
    }
    int fd = file_dir(dir, 0, 0, &e);
    if (fd < 0) {
        check_error(c, CHECK_FAIL, name, &e);
        return;
    }
    if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0) {
        check_add(c, CHECK_FAIL, name, "%s cannot be written by uid %u", dir, (unsigned)geteuid());
        check_hint_user(c, "as root: chown", dir);
    } else if (beside_the_server(c, fd)) {
        check_add(c, CHECK_NOTE, name,
                  "%s is on the disk of the server's data: who loses that disk loses both", dir);
        check_hint(c, "a directory on another disk or machine in [journal] dir");
    } else {
        check_add(c, CHECK_OK, name, "%s", dir);
    }
    close(fd);
}
