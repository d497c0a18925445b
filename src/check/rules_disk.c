#include "check/rules_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "actions/claim.h"
#include "actions/worlds.h"
#include "base/codec.h"
#include "base/file.h"
#include "base/js.h"
#include "base/machine.h"
#include "base/number.h"
#include "check/rule.h"
#include "check/rules_privileges.h"
#include "store/signature.h"

/* Some versions of <linux/magic.h> lack these. */
#define MAGIC_CIFS 0xff534d42u
#define MAGIC_SMB2 0xfe534d42u

/* ---- config and secrets ---- */

static const struct check_rule config[] = {
    /* A URL in the config may be a secret, for example that of a webhook. */
    {"config", "config_gone", CHECK_WARN, "{config}: {config_gone}"},
    {"config", "config_exposed", CHECK_WARN,
     "{config} (mode {config_mode}, owner {config_owner}): every user can read the URL in it, "
     "which may be a secret",
     "put the URL in its own file (url_file), or: chmod o-r {config:shell}"},
    {"config", NULL, CHECK_OK, "{config} (mode {config_mode}, owner {config_owner})"},

    /* Root can read and write everything, so its access proves nothing about the service's user. */
    {"user", "root !config_gone", CHECK_NOTE,
     "this check runs as root and does not show what the service's user can read and write",
     "as the service's user: worldkeeper --check"},
};

static void check_mode(struct check *c, const char *name, const struct stat *st)
{
    check_word(c, name, "%04o", (unsigned)st->st_mode & 07777);
}

/* Does the config itself hold a URL, which may be a secret? */
static bool has_url(const struct config *c)
{
    unsigned i = 0;
    while (i < CONFIG_WEBHOOKS && !c->webhooks[i].url)
        i++;
    return i < CONFIG_WEBHOOKS || c->heartbeat_url;
}

void check_config(struct check *c)
{
    struct stat st = {0};
    bool gone = stat(c->cfg->path, &st) < 0;
    check_word(c, "config", "%s", c->cfg->path);
    check_word(c, "config_gone", "%s", gone ? strerror(errno) : "");
    const struct passwd *owner = gone ? NULL : getpwuid(st.st_uid);
    check_mode(c, "config_mode", &st);
    if (owner)
        check_word(c, "config_owner", "%s", owner->pw_name);
    else
        check_word(c, "config_owner", "uid %u", (unsigned)st.st_uid);
    check_fact(c, "config_exposed", has_url(c->cfg) && (st.st_mode & 04));
    CHECK_RULES(c, config);
}

static const struct check_rule secret[] = {
    /* Each file is judged separately, and only the first reason why it cannot be used is
     * reported. */
    {"secrets", "secret_error", CHECK_FAIL, "{secret_error}", "{secret_hint}"},
    {"secrets", "secret_empty", CHECK_WARN, "{secret_key}: {secret} is empty"},
    {"secrets", "secret_foreign", CHECK_WARN,
     "{secret_key}: {secret} and the dumps belong to different users",
     "chown {user} {secret:shell}"},
    {"secrets", "secret_mode", CHECK_OK, "{secret_key}: {secret} (mode {secret_mode})"},
    {"secrets", NULL, CHECK_OK, "{secret_key}: {secret}"},
};

/* Adds one finding per file. It starts with what an operator would check first: can the service
 * read the file, and is it empty? */
static void judge_secret(struct check *c, const char *key, const char *path, bool empty,
                         const struct err *e)
{
    struct stat st, dumps;
    bool file = path && !text_starts(path, "credential:") && stat(path, &st) == 0;
    check_word(c, "secret_key", "%s", key);
    check_word(c, "secret", "%s", path ? path : "");
    check_error(c, "secret", e);
    check_fact(c, "secret_empty", empty);
    /* Root can read any file. The service's user, who owns the dumps, may be unable to. */
    check_fact(c, "secret_foreign",
               file && geteuid() == 0 && stat(c->cfg->dump_dir, &dumps) == 0 && dumps.st_uid != 0 &&
                   st.st_uid != dumps.st_uid);
    check_word(c, "secret_mode", "%s", "");
    if (file)
        check_mode(c, "secret_mode", &st);
    CHECK_RULES(c, secret);
}

/* Checks a file of several lines, which its user parses. */
static void check_keys(struct check *c, const char *key, const char *path)
{
    SCOPED(buf_free) struct buf all = {0};
    struct err e = {0};
    if (!path)
        return;
    if (file_read_secret_lines(path, CHECK_KEYS_MAX, &all, &e) < 0)
        err_step(&e, "%s", key);
    judge_secret(c, key, path, all.len == 0, &e);
}

/* Returns true if the file exists but cannot be used. */
static bool check_secret(struct check *c, const char *key, const char *path, bool hmac,
                         struct buf *out)
{
    struct err e = {0};
    bool bad = false;
    if (!path || (hmac && c->keys_bad))
        return false;
    if (!hmac && file_read_secret(path, out, &e) < 0) {
        err_step(&e, "%s", key);
        bad = true;
    }
    judge_secret(c, key, path, false, &e);
    return bad;
}

/* Checks each secret file once. signature_open() reads the HMAC keys; this function reads the other
 * files. */
int check_secrets(struct check *c, struct buf *password)
{
    const struct config *cfg = c->cfg;
    const struct {
        const char *key, *path;
        bool hmac;
    } files[] = {{"[mysql] password_file", cfg->mysql.password_file, false},
                 {"[progress] password_file", cfg->progress.server.password_file, false},
                 {"[alert.smtp] password_file", cfg->smtp.password_file, false},
                 {"[heartbeat] url_file", cfg->heartbeat_url_file, false},
                 {"[dump] hmac_key_file", cfg->hmac_key_file, true},
                 {"[dump] hmac_old_key_file", cfg->hmac_old_key_file, true}};
    struct err keys = {0};
    int rc = 0;
    c->keys_bad = signature_open(cfg, &keys) < 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct buf other = {0};
        bool bad =
            check_secret(c, files[i].key, files[i].path, files[i].hmac, i == 0 ? password : &other);
        rc = i == 0 && bad ? -1 : rc;
        buf_free(&other);
    }
    for (const struct config_webhook *w = cfg->webhooks; w < cfg->webhooks + CONFIG_WEBHOOKS; w++) {
        SCOPED(buf_free) struct buf url = {0};
        SCOPED(xfree) char *url_key = xasprintf("[%s] url_file", w->section);
        SCOPED(xfree) char *body_key = xasprintf("[%s] body_file", w->section);
        SCOPED(xfree) char *header_key = xasprintf("[%s] header_file", w->section);
        check_secret(c, url_key, w->url_file, false, &url);
        check_keys(c, body_key, w->body_file);
        check_keys(c, header_key, w->header_file);
    }
    check_keys(c, "[offsite] identity_file", cfg->offsite.identity_file);
    if (c->keys_bad)
        judge_secret(c, "", NULL, false, &keys);
    return rc;
}

/* ---- directories ---- */

/* Returns the nearest ancestor directory that exists. */
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

/* Returns what is unsafe on this type of file system, or "". */
static const char *weak_file_system(int fd)
{
    struct statfs s;
    if (fstatfs(fd, &s) < 0)
        return "";
    switch ((unsigned long)s.f_type) {
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
        return "it is in memory (tmpfs): a reboot deletes the dumps";
    case OVERLAYFS_SUPER_MAGIC:
        return "it is in a container's own layer (overlay): the dumps are deleted with the "
               "container";
    case NFS_SUPER_MAGIC:
        return "it is on NFS: a dump waits for the network, and locks are only as reliable as the "
               "file server";
    case MAGIC_CIFS:
    case MAGIC_SMB2:
        return "it is on a Windows share: locks and fsync are only as reliable as the file server";
    default:
        return "";
    }
}

/* Sets the facts about a directory that needs this kind of access. Returns its descriptor, or -1 if
 * it is missing or cannot be opened. */
static int look_at_dir(struct check *c, const char *path, unsigned flags, int access_wanted)
{
    struct err e = {0};
    struct stat st = {0};
    struct statvfs v = {0};
    SCOPED(xfree) char *parent = existing_parent(path);
    bool missing = access(path, F_OK) < 0 && errno == ENOENT;
    int fd = missing ? -1 : file_dir(path, flags, 0, &e);
    bool seen = fd < 0 ? lstat(path, &st) == 0 : fstat(fd, &st) == 0;
    check_word(c, "dir", "%s", path);
    check_word(c, "parent", "%s", parent);
    check_fact(c, "missing", missing);
    check_fact(c, "can_make", faccessat(AT_FDCWD, parent, W_OK | X_OK, AT_EACCESS) == 0);
    check_error(c, "dir", &e);
    check_fact(c, "link", seen && S_ISLNK(st.st_mode));
    check_fact(c, "denied", seen && e.num == EACCES);
    check_word(c, "dir_owner", "%u", (unsigned)st.st_uid);
    check_mode(c, "mode", &st);
    check_fact(c, "others_look", st.st_mode & 077);
    check_fact(c, "others_write", st.st_mode & 022);
    check_fact(c, "others_read", (st.st_mode & 05) == 05);
    if (fd < 0)
        return -1;
    check_fact(c, "unusable", faccessat(fd, ".", access_wanted, AT_EACCESS) < 0);
    check_fact(c, "mounted_read_only", fstatvfs(fd, &v) == 0 && (v.f_flag & ST_RDONLY));
    check_word(c, "weak", "%s", weak_file_system(fd));
    return fd;
}

#define MAKE(mode) "install -d -m " mode " -o {user} {dir:shell}"
#define NOT_THERE(name, mode)                                                                      \
    {name, "missing can_make root", CHECK_NOTE,                                                    \
     "{dir} does not exist yet; the first start creates it", MAKE(mode)},                          \
        {name, "missing can_make", CHECK_NOTE,                                                     \
         "{dir} does not exist yet; the first start creates it"},                                  \
        {name, "missing root", CHECK_FAIL,                                                         \
         "{dir} does not exist and cannot be created in {parent}", MAKE(mode)},                    \
    {                                                                                              \
        name, "missing", CHECK_FAIL, "{dir} does not exist and cannot be created in {parent}",     \
            "as root: " MAKE(mode)                                                                 \
    }
#define DUMP_DIR "dump directory"

static const struct check_rule dump_dir[] = {
    NOT_THERE(DUMP_DIR, "0700"),
    {DUMP_DIR, "dir_error link", CHECK_FAIL, "{dir_error}",
     "it is a symbolic link; name the directory itself in [dump] dir"},
    {DUMP_DIR, "dir_error denied", CHECK_FAIL, "{dir_error}",
     "it belongs to uid {dir_owner}: run this as that user"},
    {DUMP_DIR, "dir_error", CHECK_FAIL, "{dir_error}", "{dir_hint}"},
    {DUMP_DIR, "mounted_read_only", CHECK_FAIL,
     "{dir} is on a file system that is mounted read-only"},
    {DUMP_DIR, "unusable", CHECK_FAIL,
     "{dir} belongs to uid {dir_owner} and is not writable by uid {uid}",
     "run this as its owner, or, as root: chown {user} {dir:shell}"},
    {DUMP_DIR, "others_look", CHECK_WARN,
     "{dir} can be listed by others (mode {mode}): names and sizes of dumps",
     "chmod 0700 {dir:shell}"},
    {DUMP_DIR, "weak", CHECK_WARN, "{dir}: {weak}", "name a directory on a disk in [dump] dir"},
    {DUMP_DIR, NULL, CHECK_OK, "{dir} (mode {mode})"},
};

static const struct check_rule world_of_dir[] = {
    /* A damaged or unsigned state is not used: worldkeeper then knows nothing about the world. */
    {"state", "state_error state_unsigned", CHECK_WARN, "{state_error}",
     "if it was written by worldkeeper, accept it: worldkeeper --seal"},
    {"state", "state_error", CHECK_FAIL, "{state_error}",
     "remove {dir}/state.json; it is created again as soon as worldkeeper reaches the world"},
    {DUMP_DIR, "other_error", CHECK_FAIL, "{other_error}", "{other_hint}"},
};

static const struct check_rule supervisor[] = {
    /* A single unreadable dump is reported below. This rule reports that the directory cannot be
     * read. */
    {"dumps", "catalog_error", CHECK_FAIL, "{catalog_error}", "{catalog_hint}"},
    /* The supervisor's lock is tested, because an old status may still exist. */
    {"supervisor", "paused", CHECK_NOTE, "paused on request: no automatic restore",
     "to end the pause: worldkeeper --resume", true},
    {"supervisor", "!running", CHECK_NOTE, "none is running: this world is not watched", "{start}"},
    {"supervisor", "holder_listens", CHECK_OK, "running (pid {holder} since {since})"},
    {"supervisor", NULL, CHECK_OK,
     "none, but another worldkeeper process uses this world (pid {holder} since {since})"},
};

void check_dump_dir(struct check *c)
{
    struct err bad = {0}, other = {0}, broken = {0}, ignored;
    SCOPED(buf_free) struct buf lock = {0};
    json_auto_t *holder = NULL;
    c->dirfd = look_at_dir(c, c->cfg->dump_dir, 0, R_OK | W_OK | X_OK);
    CHECK_RULES(c, dump_dir);
    if (c->dirfd < 0)
        return;
    if (state_load(c->dirfd, &c->state, &bad) == 0)
        state_is_of(&c->state, c->cfg->name, c->cfg->dump_dir, &other);
    check_error(c, "state", &bad);
    check_fact(c, "state_unsigned", bad.cls == ERR_REFUSED);
    check_error(c, "other", &other);
    CHECK_RULES(c, world_of_dir);
    if (other.cls != ERR_NONE) {
        c->state = (struct state){0};
        close(c->dirfd);
        c->dirfd = -1;
        return;
    }
    if (!c->keys_bad)
        catalog_load(c->dirfd, c->cfg->name, &c->catalog, &broken);
    check_error(c, "catalog", &broken);
    /* The lock is not taken as a test, because that could make a starting supervisor fail. */
    struct stat st;
    bool running =
        fstatat(c->dirfd, "lock", &st, AT_SYMLINK_NOFOLLOW) == 0 && flock_holder(st.st_ino) >= 0;
    if (running && file_read(c->dirfd, "lock", 4096, &lock, &ignored) == 0)
        holder = json_loadb(lock.p, lock.len, 0, NULL);
    SCOPED(xfree) char *start = hint_start(c->cfg);
    check_fact(c, "running", running);
    check_fact(c, "paused", c->state.paused);
    check_word(c, "start", "%s", start);
    check_fact(c, "holder_listens", js_text(holder, "socket")[0]);
    check_number(c, "holder", js_number(holder, "pid", 0));
    check_word(c, "since", "%s", js_text(holder, "since"));
    CHECK_RULES(c, supervisor);
}

#define STATUS_DIR "status directory"

static const struct check_rule status_dir[] = {
    {STATUS_DIR, "!status.dir", CHECK_NOTE, "none: no flag file for homepages, no status.json",
     "[status] dir"},
    NOT_THERE(STATUS_DIR, "0755"),
    {STATUS_DIR, "dir_error", CHECK_FAIL, "{dir_error}", "{dir_hint}"},
    {STATUS_DIR, "unusable", CHECK_FAIL, "{dir} is not writable by uid {uid}",
     "as root: chown {user} {dir:shell}"},
    {STATUS_DIR, "others_write", CHECK_WARN,
     "{dir} is writable by every user (mode {mode}): others can create files with worldkeeper's "
     "file names",
     "give the status its own directory: [status] dir"},
    {STATUS_DIR, "!others_read", CHECK_NOTE,
     "{dir} is not readable by others (mode {mode}): a web server that runs as another user cannot "
     "read the flag",
     "if a homepage reads it: chmod 0755 {dir:shell}"},
    {STATUS_DIR, NULL, CHECK_OK, "{dir} (mode {mode})"},
};

void check_status_dir(struct check *c)
{
    const char *dir = c->cfg->status_dir;
    SCOPED(file_close) int fd = dir ? look_at_dir(c, dir, FILE_PUBLIC, W_OK | X_OK) : -1;
    CHECK_RULES(c, status_dir);
}

static const struct check_rule segments[] = {
    NOT_THERE("segments", "0700"),
    {"segments", "dir_error", CHECK_FAIL, "{dir_error}", "{dir_hint}"},
    {"segments", "unusable", CHECK_FAIL, "{dir} is not writable by uid {uid}",
     "as root: chown {user} {dir:shell}"},
    /* Losing one disk should not lose both the world and the journal to rebuild it from. */
    {"segments", "beside_data", CHECK_NOTE,
     "{dir} is on the same disk as the server's data: losing that disk loses both",
     "set [journal] dir to a directory on another disk or machine"},
    {"segments", NULL, CHECK_OK, "{dir}"},
};

void check_journal_dir(struct check *c)
{
    struct stat ours, theirs;
    if (c->cfg->journal != JOURNAL_FOLLOW)
        return;
    SCOPED(file_close) int fd = look_at_dir(c, c->cfg->journal_dir, 0, W_OK | X_OK);
    check_fact(c, "beside_data",
               c->cfg->mysql.socket && fd >= 0 && fstat(fd, &ours) == 0 &&
                   stat(check_text(c, "@datadir"), &theirs) == 0 && ours.st_dev == theirs.st_dev);
    CHECK_RULES(c, segments);
}

/* ---- room ---- */

static const struct check_rule room[] = {
    /* zlib gives the same result but takes three times as long. */
    {"packing", "zlib", CHECK_NOTE,
     "level {dump.level}, by zlib: ISA-L, which needs a third of the time, is not installed",
     "if this worldkeeper was built with ISA-L: apt-get install libisal2"},
    {"packing", NULL, CHECK_OK, "level {dump.level}, by {packer}"},

    /* The order is: the next dump, then what retention keeps, then the limit for alerts. */
    {"disk", "inodes<16", CHECK_FAIL, "the file system of {dump.dir} has no free inodes left"},
    {"disk", "dump_size free<dump_size", CHECK_FAIL,
     "{free:size} free, {about} {dump_size:size}: the next dump would fail",
     "make room on the file system of {dump.dir}, or keep fewer dumps in [retention]"},
    {"disk", "free_for_dumps<all_dumps", CHECK_WARN,
     "{free:size} free; the {kept} dumps that [retention] keeps in the long run need about "
     "{all_dumps:size}",
     "keep_within = {retention.keep_within:time} with an interval of {dump.interval:time} needs "
     "most of it; make room or keep fewer dumps"},
    {"disk", "free<alert.disk_low", CHECK_WARN,
     "{free:size} free, less than [alert] disk_low ({alert.disk_low:size})"},
    {"disk", "dump_size", CHECK_OK,
     "{free:size} free; {kept} kept dumps need about {all_dumps:size} ({about} {dump_size:size})"},
    {"disk", "room_known", CHECK_OK, "{free:size} free"},
};

/* The disk must have room for everything that retention keeps, not only for the next dump. */
static void room_facts(struct check *c)
{
    struct statvfs v;
    const struct config_retention *r = &c->cfg->retention;
    SCOPED(xfree) char *parent = c->dirfd < 0 ? existing_parent(c->cfg->dump_dir) : NULL;
    int rc = c->dirfd < 0 ? statvfs(parent, &v) : fstatvfs(c->dirfd, &v);
    check_word(c, "packer", "%s", codec_name(c->cfg->dump_level));
    check_fact(c, "zlib", strcmp(codec_name(1), "zlib") == 0);
    check_fact(c, "room_known", rc == 0);
    if (rc < 0)
        return;
    /* This is the largest number of dumps that retention keeps. Several rules may keep the same
     * dump. */
    int64_t every = c->cfg->dump_interval > 0 ? c->cfg->dump_interval : 1;
    uint64_t kept = (uint64_t)((r->keep_within + every - 1) / every);
    kept = (kept > r->keep_last ? kept : r->keep_last) + r->keep_hourly + r->keep_daily +
           r->keep_weekly;
    uint64_t free_now = number_product(v.f_bavail, v.f_frsize), used = 0;
    const struct catalog_entry *last = catalog_newest(&c->catalog, 0);
    /* Before the first dump this is an estimate: compressed SQL is much smaller than the rows in
     * memory. */
    uint64_t size = last ? last->m.file_size : c->memory_data / 2;
    for (size_t i = 0; i < c->catalog.count; i++)
        used = number_sum(used, c->catalog.list[i].intact ? c->catalog.list[i].m.file_size : 0);
    uint64_t all = number_product(number_sum(kept, 1), size); /* one more, which is being written */
    if (v.f_files > 0) /* some file systems have no limit, and report 2^64-1 */
        check_number(c, "inodes", v.f_favail < INT64_MAX ? (int64_t)v.f_favail : INT64_MAX);
    check_number(c, "free", number_signed(free_now));
    check_number(c, "free_for_dumps", number_signed(number_sum(free_now, used)));
    check_number(c, "kept", (int64_t)kept);
    check_number(c, "dump_size", (int64_t)size);
    check_number(c, "all_dumps", number_signed(all));
    check_word(c, "about", "%s", last ? "the last dump took" : "a dump may take up to");
}

/* ---- dumps and left-overs ---- */

#define NEWEST                                                                                     \
    "{dump_count}, the newest of {age:time} ago: {dump_rows:count} rows, {newest_size:size}, "     \
    "{newest}"
#define BROKEN "{broken} not intact, such as {broken_first}: {broken_reason}"

static const struct check_rule dumps[] = {
    /* --verify reports what is wrong with each dump. These rules report what an operator must know
     * about all of them. */
    {"dumps", "!newest", CHECK_WARN, "none yet: after a loss now, nothing could be restored",
     "a running supervisor takes one; or now: worldkeeper --dump", true},
    {"dumps", "60000<early", CHECK_WARN,
     "the newest one, {newest}, is {early:time} in the future: a clock was wrong or is wrong", NULL,
     true},
    {"dumps", "alert.max_dump_age<age", CHECK_WARN,
     NEWEST "; older than max_dump_age = {alert.max_dump_age:time}", NULL, true},
    {"dumps", "newest !found", CHECK_OK, NEWEST, NULL, true},
    {"dumps", "other_schema !60000<early", CHECK_WARN,
     "the newest one is of schema {dump_schema}, but the config names {world.schema}",
     "use a separate directory and world name for each schema", true},
    {"dumps", "broken broken_unproven", CHECK_WARN, BROKEN,
     "to accept those that you trust: worldkeeper --seal=DUMP", true},
    {"dumps", "broken !broken_unproven", CHECK_WARN, BROKEN,
     "worldkeeper --verify reads every dump; a restore skips damaged ones", true},
    {"dumps", "rejected", CHECK_NOTE,
     "{rejected} in rejected/, the last one because: {rejected_reason}", NULL, true},

    /* None of these left-overs blocks anything: the next action that may remove them does so. */
    {"left-overs", "pending !running", CHECK_WARN,
     "a restore was interrupted (pending.json): old tables and triggers must be cleaned up",
     "the supervisor does this when it starts, or the next --restore", true},
    {"left-overs", "parts=1 !running", CHECK_NOTE,
     "1 unfinished file of an interrupted dump; the next dump removes it", NULL, true},
    {"left-overs", "1<parts !running", CHECK_NOTE,
     "{parts} unfinished files of an interrupted dump; the next dump removes them", NULL, true},
    {"left-overs", "conflicts", CHECK_NOTE,
     "{conflicts} conflict-*.sql.gz with rows that restores replaced",
     "worldkeeper --conflicts compares them with the world and can reinsert rows; then remove the "
     "files",
     true},
    {"left-overs", "foreign_dumps", CHECK_WARN,
     "{foreign_dumps} dumps of another world are in {dump.dir}, such as {foreign_dump}",
     "give each world its own directory", true},
};

/* Sets the facts about dumps. A restore after a loss would use the newest one. */
static void dump_facts(struct check *c)
{
    SCOPED(catalog_free) struct catalog rejected = {0};
    const struct catalog_entry *last = catalog_newest(&c->catalog, 0), *broken = NULL;
    unsigned broken_count = 0;
    for (size_t i = 0; i < c->catalog.count; i++)
        if (!c->catalog.list[i].intact && broken_count++ == 0)
            broken = &c->catalog.list[i];
    check_number(c, "broken", broken_count);
    check_word(c, "broken_first", "%s", broken ? broken->m.name : "");
    check_word(c, "broken_reason", "%s", broken ? broken->reason : "");
    check_fact(c, "broken_unproven", broken && broken->unproven);
    if (last) {
        int64_t ms = clock_wall().ms - last->m.at.ms;
        check_word(c, "newest", "%s", last->m.name);
        check_number(c, "age", ms > 0 ? ms : 0);
        check_number(c, "early", -ms);
        check_number(c, "dump_count", (int64_t)c->catalog.count);
        check_number(c, "dump_rows", (int64_t)manifest_world_rows(&last->m, c->cfg->sentinel));
        check_number(c, "newest_size", (int64_t)last->m.file_size);
        check_fact(c, "other_schema", strcmp(last->m.schema, c->cfg->schema) != 0);
        check_word(c, "dump_schema", "%s", last->m.schema);
    }
    catalog_load_rejected(c->dirfd, c->cfg->name, &rejected, NULL);
    check_number(c, "rejected", (int64_t)rejected.count);
    if (rejected.count)
        check_word(c, "rejected_reason", "%s",
                   rejected.list[0].m.rejected[0] ? rejected.list[0].m.rejected
                                                  : rejected.list[0].reason);
}

static bool rules_disk_ends(const char *s, const char *ending)
{
    size_t n = strlen(s), m = strlen(ending);
    return n >= m && strcmp(s + n - m, ending) == 0;
}

/* Counts the files in the dump directory that are not stored dumps of this world. */
static void left_over_facts(struct check *c)
{
    unsigned parts = 0, conflicts = 0, foreign = 0;
    uint64_t generation, sequence;
    bool pending = false;
    SCOPED(names_free) struct names found = {0};
    if (file_list(c->dirfd, "cannot list the dump directory", &found, NULL) < 0)
        return; /* the facts stay unknown; listing the dumps failed as well and is reported */
    for (size_t i = 0; i < found.count; i++) {
        const char *file = found.list[i];
        bool ours = manifest_parse_name(file, c->cfg->name, &generation, &sequence) > 0;
        if (text_starts(file, "conflict-"))
            conflicts += rules_disk_ends(file, ".sql.gz");
        else if (strcmp(file, "pending.json") == 0)
            pending = true;
        else if (ours)
            parts += rules_disk_ends(file, ".part");
        else if (rules_disk_ends(file, "Z.sql.gz") && foreign++ == 0)
            check_word(c, "foreign_dump", "%s", file);
    }
    check_fact(c, "pending", pending);
    check_number(c, "parts", parts);
    check_number(c, "conflicts", conflicts);
    check_number(c, "foreign_dumps", foreign);
}

void check_dumps(struct check *c)
{
    room_facts(c);
    CHECK_RULES(c, room);
    if (c->dirfd < 0)
        return;
    dump_facts(c);
    left_over_facts(c);
    CHECK_RULES(c, dumps);
}

/* ---- neighbours: other worlds of this machine ---- */

static bool same_dir(const char *a, const char *b)
{
    SCOPED(xfree) char *x = a ? realpath(a, NULL) : NULL;
    SCOPED(xfree) char *y = b ? realpath(b, NULL) : NULL;
    return a && b && strcmp(x ? x : a, y ? y : b) == 0;
}

/* Visits all configs in this config's directory and in the default directory. */
static void each_config(struct check *c,
                        void (*see)(void *arg, const char *path, const struct config *cfg,
                                    const struct err *why))
{
    SCOPED(xfree) char *copy = xstrdup(c->cfg->path);
    const char *dir = dirname(copy);
    worlds_each(dir, see, c, NULL);
    if (!same_dir(dir, WORLDS_DIR))
        worlds_each(WORLDS_DIR, see, c, NULL);
}

/* Adds another world that uses the same account. It is found by its config because it has no lease
 * table before --init. */
static void add_world(void *arg, const char *path, const struct config *other,
                      const struct err *why)
{
    struct check *c = arg;
    (void)path, (void)why;
    if (other && strcmp(other->mysql.user, c->cfg->mysql.user) == 0 &&
        claims_same_server(&c->cfg->mysql, &other->mysql))
        check_add_world(c, other->schema);
}

void check_load_neighbours(struct check *c)
{
    each_config(c, add_world);
}

static const struct check_rule neighbours[] = {
    /* Two worlds that share a directory or schema would delete and replace each other's data. */
    {"neighbours", "shared", CHECK_FAIL, "{shared} {shared_value} is also used by {shared_with}",
     "give each world its own {shared}"},
    {"neighbours", "!neighbours", CHECK_OK,
     "no other world of this machine has this one's schema or directories"},
};

/* Reports a shared value. `with` names the other world that uses it, or is NULL if there is
 * none. */
static void judge_shared(struct check *c, const char *what, const char *value, const char *with)
{
    if (!with)
        return;
    check_word(c, "shared", "%s", what);
    check_word(c, "shared_value", "%s", value);
    check_word(c, "shared_with", "%s", with);
    check_fact(c, "neighbours", true);
    check_rules(c, neighbours, 1);
}

/* Compares this config with another one, whether or not the other supervisor runs. */
static void rules_disk_compare(void *arg, const char *path, const struct config *other,
                               const struct err *why)
{
    struct check *c = arg;
    const struct config *cfg = c->cfg;
    (void)why; /* --status reports configs that cannot be read */
    if (!other || same_dir(path, cfg->path))
        return;
    SCOPED(xfree) char *with = xasprintf("world %s (%s)", other->name, path);
    judge_shared(c, "[dump] dir", cfg->dump_dir,
                 same_dir(cfg->dump_dir, other->dump_dir) ? with : NULL);
    judge_shared(c, "[status] dir", cfg->status_dir,
                 same_dir(cfg->status_dir, other->status_dir) ? with : NULL);
    judge_shared(c, "[control] dir", cfg->control_dir,
                 same_dir(cfg->control_dir, other->control_dir) ? with : NULL);
    bool same =
        strcmp(cfg->schema, other->schema) == 0 && claims_same_server(&cfg->mysql, &other->mysql);
    judge_shared(c, "[world] schema", cfg->schema, same ? with : NULL);
}

/* A world whose config is located elsewhere is found only by the claims of its running
 * supervisor. */
void check_neighbours(struct check *c)
{
    check_fact(c, "neighbours", false);
    each_config(c, rules_disk_compare);
    if (!check_is(c, "neighbours")) {
        SCOPED(xfree) char *schema = claims_schema_holder(c->cfg);
        SCOPED(xfree) char *status = claims_status_holder(c->cfg);
        judge_shared(c, "[world] schema", c->cfg->schema, schema);
        judge_shared(c, "[status] dir", c->cfg->status_dir, status);
    }
    check_rules(c, &neighbours[1], 1);
}
