#include "store/catalog.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/fault.h"
#include "store/retention.h"

#define REJECTED_KEPT 3

typedef int name_fn(int dirfd, const char *file, void *arg, struct err *e);

static int each_name(int dirfd, name_fn *fn, void *arg, struct err *e)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        int keep = errno;
        if (fd >= 0)
            close(fd);
        return err_sys(e, keep, "cannot list the dump directory");
    }
    int rc = 0;
    const struct dirent *ent;
    while (rc == 0 && (errno = 0, ent = readdir(d)))
        rc = fn(dirfd, ent->d_name, arg, e);
    if (rc == 0 && errno) /* half a list is none: the newest dump may be in the other half */
        rc = err_sys(e, errno, "cannot list the dump directory");
    closedir(d);
    return rc;
}

struct load {
    struct catalog *out;
    const char *world;
};

static void check_file(int dirfd, struct catalog_entry *ent)
{
    struct stat st;
    char *file = xasprintf("%s.sql.gz", ent->m.name);
    if (fstatat(dirfd, file, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        ent->unread = errno != ENOENT;
        snprintf(ent->reason, sizeof ent->reason, "%s: %s", file, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        snprintf(ent->reason, sizeof ent->reason, "%s is not a regular file", file);
    } else if ((uint64_t)st.st_size != ent->m.file_size) {
        snprintf(ent->reason, sizeof ent->reason, "%s has %lld bytes, its manifest says %llu", file,
                 (long long)st.st_size, (unsigned long long)ent->m.file_size);
    } else {
        ent->intact = true;
    }
    free(file);
}

static void check_seal(struct catalog_entry *ent)
{
    enum seal seal = ent->m.seal;
    if (!ent->intact || seal == SEAL_UNASKED || seal == SEAL_GOOD)
        return;
    ent->intact = false;
    ent->unproven = true;
    snprintf(
        ent->reason, sizeof ent->reason,
        seal == SEAL_MISSING
            ? "%s.json has no HMAC: made before [dump] hmac_key_file was set, or not by us; "
              "worldkeeper --seal=%s takes it for ours"
            : "the HMAC of %s.json is by none of our keys: it was changed, or made under "
              "another one ([dump] hmac_old_key_file); worldkeeper --seal=%s takes it for ours",
        ent->m.name, ent->m.name);
}

static int load_one(int dirfd, const char *file, void *arg, struct err *e)
{
    (void)e;
    struct load *l = arg;
    uint64_t generation, sequence;
    size_t len = manifest_parse_name(file, l->world, &generation, &sequence);
    if (len == 0 || len >= DUMP_NAME_MAX)
        return 0;
    if (generation > l->out->generation)
        l->out->generation = generation;
    if (sequence > l->out->sequence)
        l->out->sequence = sequence;
    if (strcmp(file + len, ".json") != 0)
        return 0;
    l->out->list = xrealloc(l->out->list, (l->out->count + 1) * sizeof *l->out->list);
    struct catalog_entry *ent = &l->out->list[l->out->count++];
    *ent = (struct catalog_entry){0};
    char name[DUMP_NAME_MAX];
    snprintf(name, sizeof name, "%.*s", (int)len, file);
    struct err why;
    if (manifest_read(dirfd, name, &ent->m, &why) < 0) {
        ent->unread = why.cls != ERR_DAMAGED;
        snprintf(ent->reason, sizeof ent->reason, "%.500s", why.text);
        snprintf(ent->m.name, sizeof ent->m.name, "%s", name);
        ent->m.generation = generation;
        ent->m.sequence = sequence;
    } else {
        check_file(dirfd, ent);
        check_seal(ent);
    }
    return 0;
}

static int newest_first(const void *a, const void *b)
{
    const struct catalog_entry *x = a, *y = b;
    return manifest_compare(&y->m, &x->m);
}

static int load_dir(int dirfd, const char *world, struct catalog *out, struct err *e)
{
    struct load l = {out, world};
    if (each_name(dirfd, load_one, &l, e) < 0) {
        catalog_free(out);
        return -1;
    }
    if (out->count)
        qsort(out->list, out->count, sizeof *out->list, newest_first);
    return 0;
}

int catalog_load_rejected(int dirfd, const char *world, struct catalog *out, struct err *e)
{
    *out = (struct catalog){0};
    /* Looking must not make it: as root it would be a directory that the service cannot read. */
    int fd = openat(dirfd, "rejected", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(e, errno, "cannot open directory rejected");
    int rc = load_dir(fd, world, out, e);
    close(fd);
    return rc;
}

int catalog_load(int dirfd, const char *world, struct catalog *out, struct err *e)
{
    struct catalog rejected;
    *out = (struct catalog){0};
    if (catalog_load_rejected(dirfd, world, &rejected, e) < 0)
        return -1;
    out->generation = rejected.generation;
    out->sequence = rejected.sequence;
    catalog_free(&rejected);
    return load_dir(dirfd, world, out, e);
}

void catalog_free(struct catalog *c)
{
    for (size_t i = 0; i < c->count; i++)
        manifest_free(&c->list[i].m);
    free(c->list);
    *c = (struct catalog){0};
}

const struct catalog_entry *catalog_newest(const struct catalog *c, unsigned skip)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->list[i].intact && skip-- == 0)
            return &c->list[i];
    return NULL;
}

const struct catalog_entry *catalog_find(const struct catalog *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->list[i].m.name, name) == 0)
            return &c->list[i];
    return NULL;
}

bool catalog_knows_nonce(const struct catalog *c, const char *nonce)
{
    for (size_t i = 0; i < c->count; i++)
        if (nonce[0] && c->list[i].intact && strcmp(c->list[i].m.nonce, nonce) == 0)
            return true;
    return false;
}

struct sweep {
    const char *world;
    uint64_t generation, sequence; /* newest dump */
    bool any;
};

static int sweep_one(int dirfd, const char *file, void *arg, struct err *e)
{
    const struct sweep *s = arg;
    uint64_t generation, sequence;
    size_t len = manifest_parse_name(file, s->world, &generation, &sequence), all = strlen(file);
    if (text_starts(file, "conflict-") && all > 5 && strcmp(file + all - 5, ".part") == 0)
        return file_remove(dirfd, file, e); /* no restore runs while a dump does */
    if (len == 0)
        return 0;
    if (strcmp(file + len, ".sql.gz.part") == 0)
        return file_remove(dirfd, file, e);
    if (strcmp(file + len, ".sql.gz") != 0)
        return 0;
    char *json = xasprintf("%.*s.json", (int)len, file);
    bool orphan = faccessat(dirfd, json, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
    free(json);
    bool older = s->any && (generation < s->generation ||
                            (generation == s->generation && sequence < s->sequence));
    return orphan && older ? file_remove(dirfd, file, e) : 0;
}

int catalog_sweep(int dirfd, const char *world, struct err *e)
{
    struct catalog c;
    if (catalog_load(dirfd, world, &c, e) < 0)
        return -1;
    struct sweep s = {.world = world};
    const struct catalog_entry *newest = catalog_newest(&c, 0);
    if (newest) {
        s.any = true;
        s.generation = newest->m.generation;
        s.sequence = newest->m.sequence;
    }
    catalog_free(&c);
    int fd = file_subdir(dirfd, "rejected", e);
    int rc = fd < 0 || each_name(dirfd, sweep_one, &s, e) < 0 ||
                     each_name(fd, sweep_one, &s, e) < 0 || file_sweep(dirfd, NULL, e) < 0 ||
                     file_sweep(fd, NULL, e) < 0
                 ? -1
                 : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

int catalog_remove(int dirfd, const char *name, struct err *e)
{
    char *json = xasprintf("%s.json", name), *gz = xasprintf("%s.sql.gz", name);
    int rc = file_remove(dirfd, json, e);
    if (rc == 0)
        rc = file_remove(dirfd, gz, e);
    free(json);
    free(gz);
    return rc;
}

int catalog_retain(int dirfd, const char *world, const struct config_retention *rule,
                   unsigned *removed, struct err *e)
{
    struct catalog c;
    *removed = 0;
    if (catalog_load(dirfd, world, &c, e) < 0)
        return -1;
    struct retention_item *items = xcalloc(c.count, sizeof *items);
    for (size_t i = 0; i < c.count; i++)
        items[i] = (struct retention_item){.generation = c.list[i].m.generation,
                                           .sequence = c.list[i].m.sequence,
                                           .at = c.list[i].m.at,
                                           .intact = c.list[i].intact};
    retention_choose(items, c.count, rule, clock_wall());
    int rc = 0;
    for (size_t i = 0; i < c.count && rc == 0; i++)
        if (!items[i].keep && !c.list[i].unread && !c.list[i].unproven) {
            rc = catalog_remove(dirfd, c.list[i].m.name, e);
            ++*removed;
        }
    if (rc == 0 && *removed)
        rc = file_sync_dir(dirfd, "dumps", e);
    free(items);
    catalog_free(&c);
    return rc;
}

static int trim_rejected(int fd, const char *world, struct err *e)
{
    struct catalog c = {0};
    if (load_dir(fd, world, &c, e) < 0)
        return -1;
    int rc = 0;
    for (size_t i = REJECTED_KEPT; i < c.count && rc == 0; i++)
        rc = catalog_remove(fd, c.list[i].m.name, e);
    catalog_free(&c);
    return rc;
}

int catalog_reject(int dirfd, struct manifest *m, const char *part, const char *reason,
                   struct err *e)
{
    snprintf(m->rejected, sizeof m->rejected, "%s", reason);
    int fd = file_subdir(dirfd, "rejected", e);
    if (fd < 0)
        return -1;
    char *to = xasprintf("%s.sql.gz", m->name);
    int rc = file_rename(dirfd, part, fd, to, e);
    if (rc == 0)
        rc = manifest_write(fd, m, e);
    if (rc == 0)
        rc = trim_rejected(fd, m->world, e);
    free(to);
    close(fd);
    return rc;
}
