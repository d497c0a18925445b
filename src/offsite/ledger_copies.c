/* As for dumps and segments, one list tells all that must be known before a file is read, and a
 * name that would be spelled differently here belongs to somebody else. */
#include "offsite/ledger_copies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "store/retention.h"

/* ---- names ---- */

void ledger_copy_name(char out[COPY_NAME_MAX], const char *world, const char *name,
                      const char *ending)
{
    snprintf(out, COPY_NAME_MAX, "%s/ledgers/%s%s", world, name, ending);
}

void ledger_copy_data(char out[COPY_NAME_MAX], const char *world, const char *name,
                      unsigned attempt, bool sealed)
{
    char nth[8] = "";
    if (attempt > 1)
        snprintf(nth, sizeof nth, ".%u", attempt);
    snprintf(out, COPY_NAME_MAX, "%s/ledgers/%s%s" LEDGER_FILES_GZIP "%s", world, name, nth,
             sealed ? ".age" : "");
}

/* ---- lists ---- */

/* Returns where the first name that is not before `name` is. */
static size_t ledger_copies_at(const struct ledger_copies *c, const char *name)
{
    size_t from = 0, to = c->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (strcmp(c->list[middle].f.name, name) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

struct ledger_copy *ledger_copies_find(const struct ledger_copies *c, const char *name)
{
    size_t at = ledger_copies_at(c, name);
    return at < c->count && strcmp(c->list[at].f.name, name) == 0 ? &c->list[at] : NULL;
}

bool ledger_copy_valid(const struct ledger_copy *x)
{
    return x->manifest && (x->plain || x->sealed) && !x->undone;
}

struct ledger_copy *ledger_copies_rival(const struct ledger_copies *c, const struct ledger_copy *x)
{
    char front[LEDGER_FILE_NAME];
    const char *dash = strchr(x->f.name, '-'); /* before the number: a ledger's name has none */
    size_t len = (size_t)(strchr(dash + 1, '-') - x->f.name) + 1;
    snprintf(front, sizeof front, "%.*s", (int)len, x->f.name);
    for (size_t i = ledger_copies_at(c, front);
         i < c->count && strncmp(c->list[i].f.name, front, len) == 0; i++)
        if (strcmp(c->list[i].f.name, x->f.name) != 0 && ledger_copy_valid(&c->list[i]))
            return &c->list[i];
    return NULL;
}

wall_t ledger_copies_now(const struct ledger_copies *c, struct retention_item *dates, size_t dumps,
                         int64_t interval, wall_t wall)
{
    for (size_t i = 0; i < c->count; i++)
        dates[dumps + i].at = c->list[i].f.written;
    return retention_now(dates, dumps + c->count, interval, wall);
}

bool ledger_copy_expired(const struct ledger_copy *x, wall_t now)
{
    return x->of->keep && x->f.written.ms < now.ms - x->of->keep;
}

void ledger_copies_free(struct ledger_copies *c)
{
    free(c->list);
    *c = (struct ledger_copies){0};
}

static int ledger_copies_by_name(const void *a, const void *b)
{
    const struct ledger_copy *x = a, *y = b;
    return strcmp(x->f.name, y->f.name);
}

/* Joins the entries of one file: a list has its data and its manifest in any order. */
static void ledger_copies_join(struct ledger_copies *c)
{
    size_t kept = 0;
    if (c->count)
        qsort(c->list, c->count, sizeof *c->list, ledger_copies_by_name);
    for (size_t i = 0; i < c->count; i++) {
        struct ledger_copy *x = &c->list[i], *is = kept ? &c->list[kept - 1] : NULL;
        if (!is || strcmp(is->f.name, x->f.name) != 0) {
            c->list[kept++] = *x;
            continue;
        }
        is->plain |= x->plain;
        is->sealed |= x->sealed;
        is->manifest |= x->manifest;
        is->undone |= x->undone;
    }
    c->count = kept;
}

static void ledger_copies_add(struct ledger_copies *c, const struct ledger_copy *x)
{
    c->list = xgrow(c->list, c->count, sizeof *c->list);
    c->list[c->count++] = *x;
}

void ledger_copies_put(struct ledger_copies *c, const struct ledger_copy *x)
{
    ledger_copies_add(c, x);
    ledger_copies_join(c);
}

const struct config_ledger *ledger_copy_of(const struct config *c, const char *name, size_t len,
                                           struct ledger_file *out)
{
    for (unsigned i = 0; i < c->ledger_count; i++)
        if (ledger_file_parse(name, len, c->ledgers[i].name, out))
            return &c->ledgers[i];
    return NULL;
}

struct ledger_listing {
    struct ledger_copies *out;
    const struct config *c;
};

/* Reads what follows the name of a file in the store. Returns false if it is not one of ours. */
static bool read_ending(const char *rest, struct ledger_copy *x)
{
    x->manifest = strcmp(rest, LEDGER_FILES_MANIFEST) == 0;
    for (unsigned i = 1; i <= COPY_TRIES && !x->manifest; i++)
        for (unsigned sealed = 0; sealed < 2; sealed++) {
            char name[COPY_NAME_MAX];
            ledger_copy_data(name, "", "", i, sealed);
            if (strcmp(strrchr(name, '/') + 1, rest) == 0)
                *(sealed ? &x->sealed : &x->plain) = 1U << (i - 1);
        }
    return x->manifest || x->plain || x->sealed;
}

static int see_ledger_file(void *arg, const struct remote_entry *entry, struct err *e)
{
    (void)e;
    const struct ledger_listing *l = arg;
    const char *slash = strrchr(entry->name, '/'), *file = slash ? slash + 1 : entry->name;
    size_t len = strcspn(file, ".");
    struct ledger_copy x = {0};
    x.of = ledger_copy_of(l->c, file, len, &x.f);
    if (x.of && read_ending(file + len, &x))
        ledger_copies_add(l->out, &x);
    return 0;
}

enum remote_result ledger_copies_load(struct remote *r, const struct config *c,
                                      struct ledger_copies *out, struct err *e)
{
    struct ledger_listing l = {out, c};
    SCOPED(xfree) char *dir = xasprintf("%s/ledgers/", c->name);
    ledger_copies_free(out);
    if (!c->ledger_count)
        return REMOTE_OK;
    enum remote_result got =
        remote_list(r, dir, &(struct remote_list){.entry = see_ledger_file, .arg = &l}, e);
    ledger_copies_join(out);
    return got;
}

int ledger_copies_here(const struct config *c, int dirfd, struct ledger_copies *out, struct err *e)
{
    SCOPED(names_free) struct names found = {0};
    *out = (struct ledger_copies){0};
    if (c->ledger_count && file_list(dirfd, "cannot list the dump directory", &found, e) < 0)
        return -1;
    for (size_t n = 0; n < found.count; n++)
        for (unsigned i = 0; i < c->ledger_count; i++) {
            struct ledger_copy x = {.of = &c->ledgers[i]};
            const char *file = found.list[n], *ledger = x.of->name;
            x.manifest = ledger_file_named(file, LEDGER_FILES_MANIFEST, ledger, &x.f);
            x.plain = !x.manifest && ledger_file_named(file, LEDGER_FILES_GZIP, ledger, &x.f);
            x.undone = !x.manifest && !x.plain &&
                       ledger_file_named(file, LEDGER_FILES_GZIP LEDGER_FILES_UNDONE, ledger, &x.f);
            if (x.manifest || x.plain || x.undone)
                ledger_copies_add(out, &x);
        }
    ledger_copies_join(out);
    return 0;
}

/* ---- manifests ---- */

int ledger_copy_manifest(const struct transfer *t, const char *world, struct ledger_file *f,
                         struct buf *text, struct err *why, struct err *e)
{
    char object[COPY_NAME_MAX];
    ledger_copy_name(object, world, f->name, LEDGER_FILES_MANIFEST);
    enum remote_result got = transfer_get_text(t, object, LEDGER_FILES_MANIFEST_MAX, text, why);
    if (got != REMOTE_OK)
        return got == REMOTE_MISSING || why->cls == ERR_DAMAGED ? 0 : err_pass(e, why);
    return ledger_file_take(text, f, why) == 0;
}
