#include "store/catalog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/line.h"
#include "store/lives.h"
#include "store/retention.h"
#include "store/round.h"

#define REJECTED_KEPT 3

typedef int name_fn(int dirfd, const char *file, void *arg, struct err *e);

/* Calls `fn` for each name. */
static int each_name(int dirfd, name_fn *fn, void *arg, struct err *e)
{
    SCOPED(names_free) struct names found = {0};
    int rc = file_list(dirfd, "cannot list the dump directory", &found, e);
    for (size_t i = 0; rc == 0 && i < found.count; i++)
        rc = fn(dirfd, found.list[i], arg, e);
    return rc;
}

struct load {
    struct catalog *out;
    const char *world;
};

static void keep_reason(struct catalog_entry *ent, struct err *why)
{
    err_hint_in_text(why);
    line_set(ent->reason, sizeof ent->reason, "%s", why->text);
}

/* Checks that the file exists, with the size in its manifest. A missing or replaced file makes the
 * dump not intact; any other error makes it `unread`, so that retention does not delete it. */
static void catalog_check_file(int dirfd, struct catalog_entry *ent)
{
    struct stat st = {0};
    struct err why = {0};
    SCOPED(xfree) char *file = xasprintf("%s.sql.gz", ent->m.name);
    SCOPED(file_close) int fd = file_open_own(dirfd, file, O_RDONLY, &why);
    if (fd >= 0 && fstat(fd, &st) < 0)
        err_sys(&why, errno, "cannot examine %s", file);
    if (why.cls != ERR_NONE) {
        bool none = why.num == ENOENT,
             other = why.num == ELOOP || (why.cls == ERR_SYSTEM && !why.num);
        ent->unread = !none && !other;
        if (none || other)
            line_set(ent->reason, sizeof ent->reason, "%s%s", file,
                     none ? ": No such file or directory" : " is not a regular file");
        else
            keep_reason(ent, &why);
    } else if ((uint64_t)st.st_size != ent->m.file_size) {
        line_set(ent->reason, sizeof ent->reason, "%s has %lld bytes, but its manifest says %llu",
                 file, (long long)st.st_size, (unsigned long long)ent->m.file_size);
    } else {
        ent->intact = true;
    }
}

/* Checks the signature. A dump without a valid one is neither used nor deleted: an operator must
 * decide whose it is. */
static void check_signature(struct catalog_entry *ent)
{
    enum signature signature = ent->m.signature;
    if (!ent->intact || signature == SIGNATURE_UNASKED || signature == SIGNATURE_GOOD)
        return;
    ent->intact = false;
    ent->unproven = true;
    line_set(ent->reason, sizeof ent->reason,
             signature == SIGNATURE_MISSING
                 ? "%s.json has no HMAC: it was made before [dump] hmac_key_file was set, or not "
                   "by worldkeeper; to accept it: worldkeeper --seal=%s"
                 : "the HMAC of %s.json does not match any configured key: the file was changed, "
                   "or made with another key ([dump] hmac_old_key_file); to accept it: worldkeeper "
                   "--seal=%s",
             ent->m.name, ent->m.name);
}

/* Reads the findings of earlier reading or loading. */
static void check_proof(int dirfd, struct catalog_entry *ent)
{
    const struct proof *p = &ent->proof;
    struct err why = {0};
    if (proof_read(dirfd, ent->m.name, &ent->proof, &why) < 0 && ent->intact) {
        ent->intact = false;
        ent->unread = true;
        keep_reason(ent, &why);
    }
    if (!ent->intact || (!p->damaged && !proof_unloadable(p)))
        return;
    ent->intact = false;
    ent->damaged = true;
    proof_words(p, ent->reason, sizeof ent->reason);
}

/* Loads one entry. Every name counts for the highest generation and sequence, even without a
 * manifest, so that no number is used twice. A manifest that cannot be read is listed with the
 * numbers of its name. */
static int catalog_load_one(int dirfd, const char *file, void *arg, struct err *e)
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
        keep_reason(ent, &why);
        snprintf(ent->m.name, sizeof ent->m.name, "%s", name);
        ent->m.generation = generation;
        ent->m.sequence = sequence;
    } else {
        catalog_check_file(dirfd, ent);
        check_signature(ent);
    }
    check_proof(dirfd, ent);
    pin_read(dirfd, name, &ent->pin);
    return 0;
}

static int catalog_newest_first(const void *a, const void *b)
{
    const struct catalog_entry *x = a, *y = b;
    return manifest_compare(&y->m, &x->m);
}

/* Sorts newest first, so that a search can take the first suitable dump. */
static int load_dir(int dirfd, const char *world, struct catalog *out, struct err *e)
{
    struct load l = {out, world};
    if (each_name(dirfd, catalog_load_one, &l, e) < 0) {
        catalog_free(out);
        return -1;
    }
    if (out->count)
        qsort(out->list, out->count, sizeof *out->list, catalog_newest_first);
    return 0;
}

int catalog_load_rejected(int dirfd, const char *world, struct catalog *out, struct err *e)
{
    *out = (struct catalog){0};
    /* Not created here: if root runs this, the service could not read the directory. */
    SCOPED(file_close) int fd =
        openat(dirfd, "rejected", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(e, errno, "cannot open directory rejected");
    return load_dir(fd, world, out, e);
}

/* Determines the current round. A manifest without a valid signature must not end the round of
 * all others. The manifest of a damaged, truncated or missing dump counts, so that the loss of
 * the dump does not lead back to an earlier round. */
void catalog_judge_rounds(struct catalog *c, uint64_t known)
{
    c->round = known > c->round ? known : c->round;
    for (size_t i = 0; i < c->count; i++) {
        const struct manifest *m = &c->list[i].m;
        bool ours = m->signature == SIGNATURE_UNASKED || m->signature == SIGNATURE_GOOD;
        if (ours && m->round > c->round)
            c->round = m->round;
    }
    /* The round of a manifest that cannot be read, or has no valid signature, is not known; such a
     * dump is not used anyway. */
    for (size_t i = 0; i < c->count; i++) {
        const struct catalog_entry *x = &c->list[i];
        c->list[i].earlier = (x->intact || x->damaged) && x->m.round < c->round;
    }
}

void catalog_judge_lives(struct catalog *c, int dirfd)
{
    struct lives l;
    lives_load(dirfd, &l);
    for (size_t i = 0; i < c->count; i++) {
        struct catalog_entry *x = &c->list[i];
        x->abandoned = (x->intact || x->damaged) && lives_abandoned(&l, &x->m);
    }
}

int catalog_load(int dirfd, const char *world, struct catalog *out, struct err *e)
{
    SCOPED(catalog_free) struct catalog rejected = {0};
    *out = (struct catalog){0};
    if (catalog_load_rejected(dirfd, world, &rejected, e) < 0)
        return -1;
    out->generation = rejected.generation;
    out->sequence = rejected.sequence;
    if (load_dir(dirfd, world, out, e) < 0)
        return -1;
    struct round begun;
    round_read(dirfd, &begun);
    memcpy(out->round_nonce, begun.nonce, sizeof out->round_nonce);
    catalog_judge_rounds(out, begun.number);
    catalog_judge_lives(out, dirfd);
    return 0;
}

void catalog_free(struct catalog *c)
{
    for (size_t i = 0; i < c->count; i++)
        manifest_free(&c->list[i].m);
    free(c->list);
    *c = (struct catalog){0};
}

bool catalog_usable(const struct catalog_entry *c)
{
    return c->intact && !c->earlier && !c->abandoned;
}

const struct catalog_entry *catalog_newest(const struct catalog *c, unsigned skip)
{
    for (size_t i = 0; i < c->count; i++)
        if (catalog_usable(&c->list[i]) && skip-- == 0)
            return &c->list[i];
    return NULL;
}

wall_t catalog_proven(const struct catalog_entry *c, const char **by)
{
    wall_t at = c->m.at;
    bool since = c->proof.at.ms && !c->proof.failures;
    *by = !c->intact ? "" : since ? c->proof.by : "dump";
    if (!c->intact)
        return (wall_t){0};
    at.ms += c->m.took_ms;
    return since ? c->proof.at : at;
}

bool catalog_named(const char *name, const char *asked)
{
    size_t len = strcspn(asked, ".");
    return strlen(name) == len && strncmp(name, asked, len) == 0;
}

const struct catalog_entry *catalog_find(const struct catalog *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (catalog_named(c->list[i].m.name, name))
            return &c->list[i];
    return NULL;
}

bool catalog_knows_nonce(const struct catalog *c, const char *nonce)
{
    for (size_t i = 0; i < c->count; i++)
        if (nonce[0] && c->list[i].intact && strcmp(c->list[i].m.nonce, nonce) == 0)
            return true;
    return nonce[0] && strcmp(c->round_nonce, nonce) == 0;
}

struct sweep {
    const char *world;
    uint64_t generation, sequence; /* newest dump */
    bool any;
};

/* Only with ENOENT does a manifest count as missing: after any other error the file is left
 * alone. */
static int sweep_one(int dirfd, const char *file, void *arg, struct err *e)
{
    const struct sweep *s = arg;
    uint64_t generation, sequence;
    size_t len = manifest_parse_name(file, s->world, &generation, &sequence), all = strlen(file);
    if (text_starts(file, "conflict-") && all > 5 && strcmp(file + all - 5, ".part") == 0)
        return file_remove(dirfd, file, e); /* no restore runs during a dump */
    if (len == 0)
        return 0;
    if (strcmp(file + len, ".sql.gz.part") == 0)
        return file_remove(dirfd, file, e);
    if (strcmp(file + len, ".sql.gz") != 0 && strcmp(file + len, PROOF_ENDING) != 0 &&
        strcmp(file + len, PIN_ENDING) != 0)
        return 0;
    SCOPED(xfree) char *json = xasprintf("%.*s.json", (int)len, file);
    bool orphan = faccessat(dirfd, json, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
    bool older = s->any && (generation < s->generation ||
                            (generation == s->generation && sequence < s->sequence));
    return orphan && older ? file_remove(dirfd, file, e) : 0;
}

static int sweep_all(int dirfd, struct sweep *s, struct err *e)
{
    SCOPED(names_free) struct names found = {0};
    int rc = file_list(dirfd, "cannot list the dump directory", &found, e);
    /* A file that cannot be removed must not prevent the removal of the others, which may be as
     * large as dumps. */
    for (size_t i = 0; i < found.count; i++)
        if (sweep_one(dirfd, found.list[i], s, rc < 0 ? NULL : e) < 0)
            rc = -1;
    return file_sweep(dirfd, NULL, rc < 0 ? NULL : e) < 0 ? -1 : rc;
}

int catalog_sweep(int dirfd, const char *world, struct err *e)
{
    SCOPED(catalog_free) struct catalog c = {0};
    if (catalog_load(dirfd, world, &c, e) < 0)
        return -1;
    struct sweep s = {.world = world};
    const struct catalog_entry *newest = catalog_newest(&c, 0);
    if (newest) {
        s.any = true;
        s.generation = newest->m.generation;
        s.sequence = newest->m.sequence;
    }
    SCOPED(file_close) int fd = file_subdir(dirfd, "rejected", e);
    int rc = sweep_all(dirfd, &s, fd < 0 ? NULL : e);
    if (fd < 0)
        return -1;
    return sweep_all(fd, &s, rc < 0 ? NULL : e) < 0 ? -1 : rc;
}

int catalog_remove(int dirfd, const char *name, struct err *e)
{
    SCOPED(xfree) char *json = xasprintf("%s.json", name);
    SCOPED(xfree) char *gz = xasprintf("%s.sql.gz", name);
    SCOPED(xfree) char *proof = xasprintf("%s" PROOF_ENDING, name);
    SCOPED(xfree) char *pin = xasprintf("%s" PIN_ENDING, name);
    return file_remove(dirfd, json, e) < 0 || file_remove(dirfd, gz, e) < 0 ||
                   file_remove(dirfd, proof, e) < 0
               ? -1
               : file_remove(dirfd, pin, e);
}

/* `damaged`: treat damaged dumps as intact. `more` empty items follow. */
static struct retention_item *catalog_items(const struct catalog *c, bool damaged, size_t more)
{
    struct retention_item *items = xcalloc(c->count + more, sizeof *items);
    for (size_t i = 0; i < c->count; i++)
        items[i] =
            (struct retention_item){.generation = c->list[i].m.generation,
                                    .sequence = c->list[i].m.sequence,
                                    .at = c->list[i].m.at,
                                    .intact = c->list[i].intact || (damaged && c->list[i].damaged),
                                    .abandoned = c->list[i].abandoned};
    return items;
}

struct retention_item *catalog_dates(const struct catalog *c, size_t more)
{
    return catalog_items(c, false, more);
}

wall_t catalog_now(const struct catalog *c, int64_t interval, wall_t wall)
{
    SCOPED(xfree) struct retention_item *items = catalog_dates(c, 0);
    return retention_now(items, c->count, interval, wall);
}

static struct retention_item *catalog_choose(const struct catalog *c,
                                             const struct config_retention *rule, wall_t now,
                                             wall_t wall, bool damaged)
{
    struct retention_item *items = catalog_items(c, damaged, 0);
    for (size_t i = 0; i < c->count; i++)
        items[i].pinned = pin_holds(&c->list[i].pin, rule, now);
    retention_choose(items, c->count, rule, now, wall);
    return items;
}

/* A damaged dump displaces no other dump. It is kept as long as if it were intact, because most
 * of its rows can still be recovered manually. */
int catalog_retain(int dirfd, const char *world, const struct config_retention *rule,
                   int64_t interval, unsigned *removed, struct err *e)
{
    SCOPED(catalog_free) struct catalog c = {0};
    *removed = 0;
    if (catalog_load(dirfd, world, &c, e) < 0)
        return -1;
    wall_t wall = clock_wall(), now = catalog_now(&c, interval, wall);
    SCOPED(xfree) struct retention_item *items = catalog_choose(&c, rule, now, wall, false);
    SCOPED(xfree) struct retention_item *as_intact = catalog_choose(&c, rule, now, wall, true);
    int rc = 0;
    for (size_t i = 0; i < c.count; i++) {
        const struct catalog_entry *x = &c.list[i];
        if (items[i].keep || x->unread || x->unproven || (x->damaged && as_intact[i].keep))
            continue;
        ++*removed;
        /* A dump that an admin has made immutable must not prevent the removal of the others. */
        if (catalog_remove(dirfd, x->m.name, rc < 0 ? NULL : e) < 0)
            rc = -1;
    }
    return *removed && file_sync_dir(dirfd, "dumps", rc < 0 ? NULL : e) < 0 ? -1 : rc;
}

/* Deletes our own rejected dumps beyond the newest. A file that could not be read, or has no valid
 * signature although a key is configured, may be another user's: it stays for an operator, and
 * displaces none of ours. */
static int trim_rejected(int fd, const char *world, struct err *e)
{
    SCOPED(catalog_free) struct catalog c = {0};
    if (load_dir(fd, world, &c, e) < 0)
        return -1;
    int rc = 0;
    for (size_t i = 0, ours = 0; i < c.count && rc == 0; i++) {
        const struct catalog_entry *x = &c.list[i];
        if (x->unread || (signature_on() && x->m.signature != SIGNATURE_GOOD))
            continue;
        if (++ours > REJECTED_KEPT)
            rc = catalog_remove(fd, x->m.name, e);
    }
    return rc;
}

int catalog_reject(int dirfd, struct manifest *m, const char *part, const char *reason,
                   struct err *e)
{
    snprintf(m->rejected, sizeof m->rejected, "%s", reason);
    SCOPED(file_close) int fd = file_subdir(dirfd, "rejected", e);
    if (fd < 0)
        return -1;
    SCOPED(xfree) char *to = xasprintf("%s.sql.gz", m->name);
    return file_rename(dirfd, part, fd, to, e) < 0 || manifest_write(fd, m, e) < 0
               ? -1
               : trim_rejected(fd, m->world, e);
}
