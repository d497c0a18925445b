/* --check: the lease of [standby] is tested by the operations that it needs. */
#include "check/rules_standby.h"

#include <string.h>

#include "base/file.h"
#include "check/rule.h"
#include "standby/lease.h"

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
