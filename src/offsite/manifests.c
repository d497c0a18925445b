/* Reads the manifests in the store, and two files beside the dumps that remember them.
 *
 * offsite.json has an entry for each manifest that was read, with its size and stamp at that time.
 * While the list shows the same values, the manifest is not read again, so a start with a thousand
 * dumps in the store costs a list instead of a thousand requests. The file also stores which dumps
 * this machine has sent, and which of them had a pin here, which the store does not show.
 *
 * offsite-damaged.json has what a verify found. A list does not show it, so it is stored
 * separately and written at once. */
#include "offsite/manifests.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/js.h"
#include "store/kept.h"

#define KNOWN "offsite.json"
#define DAMAGED "offsite-damaged.json"
#define KNOWN_MAX (64u << 20)
#define DAMAGED_MAX (1u << 20)

/* ---- one manifest ---- */

/* Returns the number of the attempt, or 0 if the name is not one of this dump's files in the
 * store. */
static unsigned named_file(const char *world, const struct copy_dump *d, const char *file)
{
    char name[COPY_NAME_MAX];
    for (unsigned i = 1; i <= COPY_TRIES; i++)
        for (unsigned sealed = 0; sealed < 2; sealed++) {
            copy_file_name(name, world, d->name, i, sealed);
            if (d->files & 1U << (i - 1) && strcmp(strrchr(name, '/') + 1, file) == 0)
                return i;
        }
    return 0;
}

/* With a key, a missing signature is as bad as a wrong one: otherwise an attacker who can write
 * to the store could simply omit it. The manifest names its data file, which must be in the
 * list, so that no manifest is accepted before its data. */
static void manifests_parse(const struct buf *text, const char *world, struct copy_dump *d,
                            struct manifest *m, struct err *why)
{
    if (manifest_parse(text->p, text->len, d->name, m, why) < 0)
        return;
    unsigned attempt = named_file(world, d, m->copy.file);
    if (strcmp(m->world, world) != 0)
        err_set(why, ERR_DAMAGED, 0, "it belongs to world %s", m->world);
    else if (m->signature == SIGNATURE_MISSING || m->signature == SIGNATURE_WRONG)
        err_set(why, ERR_DAMAGED, 0, "its manifest in the store has no HMAC of our key");
    else if (!attempt)
        err_set(why, ERR_DAMAGED, 0, "its file is not in the store");
    else
        d->attempt = attempt;
    memcpy(d->nonce, m->nonce, sizeof d->nonce);
    /* If somebody else has replaced the dump, it is no longer ours. */
    d->ours = d->ours && strcmp(d->sha256, m->sha256) == 0;
    memcpy(d->sha256, m->sha256, sizeof d->sha256);
}

enum remote_result manifests_read(const struct transfer *t, const char *world, struct copy_dump *d,
                                  struct manifest *m, struct err *why, struct err *e)
{
    SCOPED(buf_free) struct buf text = {0};
    char name[COPY_NAME_MAX];
    *m = (struct manifest){0};
    err_clear(why);
    copy_manifest_name(name, world, d->name);
    enum remote_result got = transfer_get_text(t, name, MANIFEST_MAX, &text, why);
    if (got != REMOTE_OK && got != REMOTE_MISSING && why->cls != ERR_DAMAGED) {
        err_pass(e, why);
        return got;
    }
    d->attempt = 0;
    if (got == REMOTE_OK)
        manifests_parse(&text, world, d, m, why);
    d->manifest = got != REMOTE_MISSING;
    d->bad = why->cls != ERR_NONE;
    return REMOTE_OK;
}

enum remote_result manifests_read_pin(const struct transfer *t, const char *world, const char *dump,
                                      struct pin *p, struct err *e)
{
    SCOPED(buf_free) struct buf text = {0};
    struct err why = {0};
    char name[COPY_NAME_MAX];
    *p = (struct pin){0};
    copy_pin_name(name, world, dump);
    enum remote_result got = transfer_get_text(t, name, PIN_MAX, &text, &why);
    if (got == REMOTE_LATER || (got == REMOTE_STOPPED && why.cls != ERR_DAMAGED)) {
        err_pass(e, &why);
        return got;
    }
    pin_take(dump, &text, &why, p);
    return REMOTE_OK;
}

/* ---- remembered manifests ---- */

/* Remembers that the dump is ours, whatever is in the store now: manifests_parse() reverts it if
 * that is another dump. What the manifest says is remembered only for the same size and stamp. */
static void recall_dump(struct copies *c, const char *name, const char *line)
{
    struct copy_dump *d = copies_dump(c, name);
    char sha256[SHA256_HEX], nonce[NONCE_HEX], stamp[REMOTE_STAMP], pin[4] = "";
    int64_t size;
    unsigned attempt, ours;
    if (!d || !d->manifest ||
        sscanf(line, "%" SCNd64 " %u %u %64[0-9a-f] %32[0-9a-f-] %71s %3s", &size, &attempt, &ours,
               sha256, nonce, stamp, pin) < 6)
        return;
    d->known = true;
    d->pin.had = d->pin.there && strcmp(pin, "pin") == 0;
    d->ours = ours == 1;
    memcpy(d->sha256, sha256, sizeof sha256);
    if (size != d->size || strcmp(stamp, d->stamp[0] ? d->stamp : "-") != 0 || attempt == 0 ||
        attempt > COPY_TRIES || !(d->files & 1U << (attempt - 1)))
        return; /* the manifest is read again */
    d->attempt = attempt;
    memcpy(d->nonce, nonce, sizeof nonce);
}

int manifests_recall(int dirfd, const char *store, struct copies *c, uint64_t *generation,
                     struct err *e)
{
    json_auto_t *o = NULL;
    const char *name;
    json_t *line;
    *generation = 0;
    int rc = kept_load(dirfd, KNOWN, KNOWN_MAX, &o, e);
    if (rc != 1)
        return rc;
    bool here = strcmp(js_text(o, "store"), store) == 0;
    const json_t *was = here ? o : json_object_get(json_object_get(o, "elsewhere"), store);
    *generation = (uint64_t)js_within(was, "generation", 0, INT64_MAX, 0);
    json_object_foreach(json_object_get(was, "dumps"), name, line)
    {
        recall_dump(c, name, json_is_string(line) ? json_string_value(line) : "");
    }
    return 0;
}

/* Returns what is remembered of other stores, by their names: a config that goes back to one of
 * them must still know whose it is. */
static json_t *manifests_elsewhere(int dirfd, const char *store)
{
    json_auto_t *o = NULL;
    struct err none;
    kept_load(dirfd, KNOWN, KNOWN_MAX, &o, &none);
    const char *was = js_text(o, "store");
    json_t *all = json_object();
    json_object_update(all, json_object_get(o, "elsewhere"));
    if (was[0])
        json_object_set_new(all, was,
                            json_pack("{s:I, s:O?}", "generation",
                                      (json_int_t)js_within(o, "generation", 0, INT64_MAX, 0),
                                      "dumps", json_object_get(o, "dumps")));
    json_object_del(all, store);
    return all;
}

int manifests_remember(int dirfd, const char *store, const struct copies *c, uint64_t generation,
                       bool all, struct err *e)
{
    json_t *dumps = json_object();
    for (size_t i = 0; i < c->dump_count; i++) {
        const struct copy_dump *d = &c->dumps[i];
        bool there = d->manifest && d->attempt;
        if (there ? !(all || d->known || d->ours) : !d->sending)
            continue;
        json_object_set_new(dumps, d->name,
                            json_sprintf("%" JSON_INTEGER_FORMAT " %u %d %s %s %s%s",
                                         (json_int_t)d->size, there ? d->attempt : 0, (int)d->ours,
                                         d->sha256, d->nonce[0] ? d->nonce : "-",
                                         d->stamp[0] ? d->stamp : "-", d->pin.had ? " pin" : ""));
    }
    return kept_save(dirfd, KNOWN, KNOWN_MAX,
                     json_pack("{s:s, s:I, s:o, s:o}", "store", store, "generation",
                               (json_int_t)generation, "dumps", dumps, "elsewhere",
                               manifests_elsewhere(dirfd, store)),
                     e);
}

int manifests_adopt(int dirfd, struct err *e)
{
    return file_remove(dirfd, KNOWN, e);
}

/* ---- damaged dumps ---- */

/* Stores what a verify found. The record applies only to this dump, not to another one of the
 * same name. */
int manifests_found(int dirfd, const struct manifest *m, const char *reason, struct err *e)
{
    json_t *o = NULL;
    struct err why;
    int rc = kept_load(dirfd, DAMAGED, DAMAGED_MAX, &o, &why);
    if (rc < 0 && (why.cls == ERR_SYSTEM || kept_is_newer(&why)))
        return err_pass(e, &why);
    if (rc != 1) /* its contents can be found again; nothing else repairs it */
        o = json_object();
    bool is = json_object_get(o, m->name);
    if (is == (reason != NULL)) {
        json_decref(o);
        return 0;
    }
    if (reason)
        json_object_set_new(
            o, m->name, json_pack("{s:s, s:o}", "sha256", m->sha256, "reason", js_clean(reason)));
    else
        json_object_del(o, m->name);
    return kept_save(dirfd, DAMAGED, DAMAGED_MAX, o, e);
}

int manifests_recall_damaged(int dirfd, struct copies *c, struct err *reason, struct err *e)
{
    json_auto_t *o = NULL;
    const char *name;
    json_t *found;
    if (kept_load(dirfd, DAMAGED, DAMAGED_MAX, &o, e) < 0)
        return err_hint(
            e, "remove it; worldkeeper --verify --from offsite finds damaged copies again");
    json_object_foreach(o, name, found)
    {
        struct copy_dump *d = copies_dump(c, name);
        if (!d || !d->attempt || strcmp(d->sha256, js_text(found, "sha256")) != 0)
            continue;
        d->damaged = true;
        if (reason && reason->cls == ERR_NONE)
            err_set(reason, ERR_DAMAGED, 0, "the copy of dump %s in the store is damaged: %s", name,
                    js_text(found, "reason"));
    }
    return 0;
}
