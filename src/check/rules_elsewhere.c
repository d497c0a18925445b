/* --check: services reached over the network other than the server. The store of [offsite] is
 * tested by storing a file, and the lease of [standby] by the operations that it needs. Alert
 * channels and the heartbeat follow, then settings that are insecure on purpose. */
#include "check/rules_elsewhere.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "check/rule.h"
#include "notify/alert.h"
#include "notify/queue.h"
#include "offsite/upload.h"
#include "standby/lease.h"

/* ---- the store ---- */

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
    check_number(c, "store_clock", p.skew_known ? llabs(p.skew) : 0);
    check_word(c, "store_ahead", "%s", p.skew > 0 ? "ahead" : "behind");
    CHECK_RULES(c, store);
    remote_close(r);
}

/* ---- the lease ---- */

static const struct check_rule lease[] = {
    /* The lease is tested by use, in separate objects that are deleted afterwards. */
    {"standby", "lease_error lease_later", CHECK_WARN, "it could not be tested now: {lease_error}",
     "{lease_hint}", true},
    {"standby", "lease_error !lease_later", CHECK_FAIL, "{lease_error}", "{lease_hint}", true},
    {"standby", "standby.lease=s3 !lease_error", CHECK_OK,
     "the store honors If-None-Match and If-Match: a file was written and refused by each", NULL,
     true},
    {"standby", "standby.lease=etcd !lease_error", CHECK_OK,
     "etcd grants {lease_ttl} s; members: {members}", NULL, true},
    {"standby", "members_silent !lease_error", CHECK_WARN,
     "{members_silent} of {members_named} members of etcd that the config names do not answer",
     "[standby] etcd", true},
    {"standby", "members_lone !lease_error", CHECK_NOTE,
     "etcd has one member: if its machine fails, no machine can take the world over", NULL, true},
    {"standby", "lease_long !lease_error", CHECK_WARN,
     "etcd grants {lease_ttl} s, more than [standby] ttl: a takeover waits for that long",
     "set a longer ttl in the config", true},
    {"standby", "lock_wait_long", CHECK_WARN,
     "[restore] lock_wait {restore.lock_wait:time} is not shorter than a fifth of [standby] ttl "
     "{standby.ttl:time}: a restore that waits for a lock may swap its tables in after the lease "
     "has ended",
     "set [standby] ttl to more than five times lock_wait, or shorten lock_wait", true},
    {"standby", "standby.lease=none", CHECK_NOTE,
     "no lease decides which machine has the world: an operator decides with worldkeeper --promote "
     "--by-hand",
     NULL, true},
};

void check_standby(struct check *c)
{
    const struct config_standby *s = &c->cfg->standby;
    struct lease_proof p = {0};
    struct err e = {0};
    enum lease_result got = LEASE_OK;
    if (!s->given)
        return;
    if (s->lease != LEASE_NONE) {
        SCOPED(file_close) int dirfd = file_dir(c->cfg->dump_dir, 0, 0, &e);
        got = dirfd < 0 ? LEASE_REFUSED : lease_prove(c->cfg, dirfd, &p, &e);
    }
    check_error(c, "lease", &e);
    check_fact(c, "lock_wait_long",
               s->lease != LEASE_NONE && c->cfg->restore_lock_wait >= LEASE_MARGIN(s->ttl));
    check_fact(c, "lease_later", got == LEASE_AWAY);
    check_number(c, "lease_ttl", p.ttl / 1000);
    check_fact(c, "lease_long", p.ttl > (s->ttl + 999) / 1000 * 1000);
    check_word(c, "members", "%s", p.members);
    check_number(c, "members_named", p.count);
    check_number(c, "members_silent", p.count - p.answered);
    check_fact(c, "members_lone", p.members[0] && !strchr(p.members, ','));
    CHECK_RULES(c, lease);
}

/* ---- alerts ---- */

#define WAITING "configured and reachable, but {waiting} alerts wait to be delivered"
#define SEND_ONE "worldkeeper --test-alert sends one message"

/* Connects and logs in, but sends nothing, because a check must not alert anyone. */
static void check_channel(struct check *c, enum alert_channel ch)
{
    SCOPED(xfree) char *name = xasprintf("alert %s", alert_channel_name(c->cfg, ch));
    const struct check_rule rules[] = {
        {name, "bad_error", CHECK_FAIL, "{bad_error}", "{bad_hint}"},
        {name, "reach_error", CHECK_WARN, "{reach_error}", "{reach_hint}"},
        {name, "waiting running", CHECK_WARN, WAITING, SEND_ONE},
        {name, "waiting", CHECK_WARN, WAITING, "a running supervisor delivers them"},
        {name, NULL, CHECK_OK, "configured and reachable{login_tried}; nothing was sent", SEND_ONE},
    };
    struct err bad = {0}, unreachable = {0};
    if (alert_request(c->cfg, ch, REQUEST_CHECK, NULL, NULL, &bad) == 0 &&
        alert_request(c->cfg, ch, REQUEST_CONNECT, NULL, NULL, &unreachable) < 0)
        err_step(&unreachable, "no message would get through now");
    check_error(c, "bad", &bad);
    check_error(c, "reach", &unreachable);
    /* Counts alerts that are not delivered yet; without a queue there are none. */
    SCOPED(file_close) int fd =
        c->dirfd < 0 ? -1
                     : openat(c->dirfd, "alerts", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int n = fd < 0 ? 0 : queue_waiting(c->cfg, fd, ch, NULL);
    check_number(c, "waiting", n > 0 ? n : 0);
    check_word(c, "login_tried", ch == ALERT_SMTP && c->cfg->smtp.user ? ", login accepted" : "");
    CHECK_RULES(c, rules);
}

static const struct check_rule insecure[] = {
    {"insecure", NULL, CHECK_WARN, "{insecure}", "use it only for tests and private networks"},
};

static const struct check_rule rest[] = {
    /* A world that is lost at night is back within minutes only if an operator is notified. */
    {"alerts", "!channels", CHECK_WARN,
     "no channel is configured: a lost world would not be reported",
     "set [alert.smtp] url, from, to or [alert.webhook] url"},
    {"alerts", "!all_events", CHECK_NOTE, "[alert] events excludes some"},

    /* The heartbeat is the only alert that works when this machine is down. */
    {"heartbeat", "!heartbeat", CHECK_NOTE, "none: a failure of this whole machine is not reported",
     "set [heartbeat] url to a service that alerts when its URL is no longer fetched"},
    {"heartbeat", "heartbeat_error", CHECK_WARN, "{heartbeat_error}", "{heartbeat_hint}"},
    {"heartbeat", NULL, CHECK_OK, "configured and reachable; it was not fetched"},
};

void check_alerts(struct check *c)
{
    struct err e = {0};
    char *text;
    bool heartbeat = alert_channel_on(c->cfg, ALERT_HEARTBEAT);
    unsigned channels = 0;
    /* Reports all insecure settings that the config explicitly allows, not only those of alerts. */
    for (unsigned i = 0; (text = config_exposed(c->cfg, i)); i++) {
        check_word(c, "insecure", "%s", text);
        free(text);
        CHECK_RULES(c, insecure);
    }
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++)
        if (alert_channel_on(c->cfg, ch)) {
            check_channel(c, ch);
            channels++;
        }
    check_number(c, "channels", channels);
    check_fact(c, "all_events", c->cfg->alert_events == EVENT_ALL);
    check_fact(c, "heartbeat", heartbeat);
    if (heartbeat)
        alert_request(c->cfg, ALERT_HEARTBEAT, REQUEST_CONNECT, NULL, NULL, &e);
    check_error(c, "heartbeat", &e);
    CHECK_RULES(c, rest);
}
