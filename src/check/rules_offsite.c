/* --check: the store of [offsite] is tested by storing a file in it. */
#include "check/rules_offsite.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "check/rule.h"
#include "check/rules_disk.h"
#include "offsite/age_crypto.h"
#include "offsite/age_keys.h"
#include "offsite/upload.h"

#define TRIED "stored, read back, listed and deleted a file in {store}"
#define KEPT                                                                                       \
    "stored, read back and listed a file in {store}, which stays there: this login may not "       \
    "delete "

static const struct check_rule store[] = {
    /* The store is tested by use: a file is written, read, listed and deleted. */
    {"off-site store", "store_error store_later", CHECK_WARN, "a test copy failed: {store_error}",
     "{store_hint}", true},
    {"off-site store", "store_error !store_later", CHECK_FAIL, "{store_error}", "{store_hint}",
     true},
    {"off-site store", "fence_error", CHECK_FAIL, "{fence_error}", "{fence_hint}", true},
    {"off-site store", "!found !store_keeps", CHECK_OK, TRIED "{store_room}", NULL, true},
    {"off-site store", "!found store_keeps", CHECK_WARN, KEPT,
     "with delete = never, configure the store to delete old files, or it fills up", true},
    {"off-site store", "identity_error", CHECK_FAIL, "{identity_error}", "{identity_hint}", true},
    {"off-site store", "identity_other", CHECK_FAIL,
     "[offsite] identity_file {offsite.identity_file} cannot read the copies: none of its keys "
     "belongs to a recipient",
     "name the recipient that it belongs to in [offsite] recipient, too: age-keygen -y "
     "{offsite.identity_file:shell}",
     true},
    {"off-site store", "store_public", CHECK_WARN, "{store} can be read by others without a login",
     "remove public access to the bucket or directory", true},
    {"off-site store", "store_same_disk", CHECK_WARN,
     "{store} is on the same file system as the dumps: either one broken disk destroys both, or "
     "the store is not mounted",
     "name a directory on another machine", true},
    {"off-site store", "store_replaces", CHECK_NOTE,
     "{store} allows replacing a file, so worldkeeper checks before it writes: nothing else may "
     "write there",
     NULL, true},
    {"off-site store", "60000<store_clock", CHECK_WARN,
     "its clock is {store_clock:time} {store_ahead} of this machine's: one of the clocks is wrong",
     "S3 refuses requests if the clocks differ by 15 minutes", true},
    {"off-site store", "offsite.plain", CHECK_NOTE,
     "plain = yes: copies are not encrypted; anyone who can read the store can read the world",
     NULL, true},
};

/* Returns true if one of the identities decrypts what is encrypted for these recipients. */
static bool can_read(const struct age_keys *identities, const struct age_keys *recipients)
{
    unsigned char key[AGE_KEY];
    for (size_t i = 0; i < identities->count; i++)
        for (size_t k = 0; k < recipients->count; k++)
            if (age_public(identities->key[i], key, NULL) == 0 &&
                memcmp(key, recipients->key[k], AGE_KEY) == 0)
                return true;
    return false;
}

/* Loads the keys as a restore does. A file that cannot be read is reported with the other secrets.
 * Recipients that cannot be read are reported by the connection for uploads. */
static void identity_facts(struct check *c)
{
    const struct config_offsite *o = &c->cfg->offsite;
    SCOPED(age_keys_wipe) struct age_keys identities = {.count = 0};
    SCOPED(buf_free) struct buf all = {0};
    struct age_keys recipients;
    struct err e = {0};
    bool there = o->identity_file &&
                 file_read_secret_lines(o->identity_file, CHECK_KEYS_MAX, &all, NULL) == 0;
    bool known = there && age_identities_file(o->identity_file, &identities, &e) == 0;
    if (there && !known)
        err_step(&e, "[offsite] identity_file");
    check_error(c, "identity", &e);
    known = known && transfer_recipients(o, &recipients, NULL) == 0 && recipients.count;
    check_fact(c, "identity_other", known && !can_read(&identities, &recipients));
}

void check_offsite(struct check *c)
{
    struct remote_proof p = {0};
    struct remote *r = NULL;
    struct upload u = {.cfg = c->cfg, .dirfd = c->dirfd};
    struct err e = {0}, fence = {0};
    char room[TEXT_SHORT];
    if (!c->cfg->offsite.url)
        return;
    SCOPED(xfree) char *dir = xasprintf("%s/", c->cfg->name);
    enum remote_result got = remote_open(c->cfg, &r, &e);
    if (got == REMOTE_OK)
        got = remote_prove(r, dir, c->cfg->dump_dir, &p, &e);
    /* Does another machine store this world there? Without a dump directory that is unknown. For a
     * standby the answer is always yes. */
    bool stores = got == REMOTE_OK && c->dirfd >= 0 && !state_standby(&c->state, c->cfg);
    if (stores && upload_look(&u, &fence) == REMOTE_OK)
        fence = u.fenced;
    check_error(c, "fence", &fence);
    upload_close(&u);
    check_word(c, "store", "%s", r ? remote_shown(r) : "");
    check_error(c, "store", &e);
    check_fact(c, "store_later", got == REMOTE_LATER);
    check_word(c, "store_room", "%s%s", p.free_known ? ", free: " : "",
               p.free_known ? text_size(p.free_bytes, room) : "");
    check_fact(c, "store_keeps", p.deletes == REMOTE_NO);
    check_fact(c, "store_public", p.public == REMOTE_YES);
    check_fact(c, "store_same_disk", p.same_disk == REMOTE_YES);
    check_fact(c, "store_replaces", p.conditional == REMOTE_NO);
    identity_facts(c);
    check_number(c, "store_clock", p.skew_known ? llabs(p.skew) : 0);
    check_word(c, "store_ahead", "%s", p.skew > 0 ? "ahead" : "behind");
    CHECK_RULES(c, store);
    remote_close(r);
}
