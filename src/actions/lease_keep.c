/* The lease of a world ([standby] lease) in an action that takes over the world. It is taken first,
 * and a separate process renews it while the world is loaded. Without a lease in the config these
 * functions do nothing. */
#include "actions/lease_keep.h"

#include <poll.h>
#include <string.h>
#include <sys/wait.h>

#include "actions/whose.h"
#include "base/fault.h"
#include "base/fence.h"
#include "mysql/lease.h"

#define TRY_MS 500
#define UNSAID_MS 20
/* Twice as long as a status is valid. Without a lease nothing else ends the wait for a status that
 * a slow disk is still writing. */
#define WITHDRAW_MS 30000
#define EXTRA_MS fault_wait(10000) /* in addition to twice the lease's duration */
#define AWAY_MS 60000              /* limit without an answer, regardless of the lease */

static bool lease_keep_is_wanted(const struct action_context *a)
{
    return a->cfg->standby.lease != LEASE_NONE;
}

static int lease_keep_open_lease(struct action_context *a, struct lease **l, struct err *e)
{
    return state_keep_holder(&a->state, a->job.dirfd, e) < 0 ||
                   lease_open(a->cfg, a->job.dirfd, a->state.holder, l, e) != LEASE_OK
               ? -1
               : 0;
}

/* Refuses if the newest lease belongs or belonged to another machine, because that machine has the
 * world. */
static int need_own(const struct action_context *a, const struct lease_record *r, struct err *e)
{
    if (!r->number || strcmp(r->holder, a->state.holder) == 0)
        return 0;
    char words[LEASE_WORDS];
    err_set(e, ERR_REFUSED, 0, "%s", lease_words(r, words));
    return err_hint(e, "worldkeeper --demote makes this machine the standby of the other one");
}

/* Renews whatever lease this machine has. A supervisor that runs at the same time may have taken it
 * anew, so its number is looked up each time. LEASE_HELD: this machine has none now. */
static enum lease_result renew_own(struct lease_keep *k, struct lease *l, struct err *e)
{
    k->grant = (struct lease_grant){.generation = k->a->state.generation};
    return lease_renew(l, &k->grant, e);
}

/* ---- the process that renews ---- */

static int lease_keep_renew(int fd, void *arg)
{
    struct lease_keep *k = arg;
    struct lease *l = NULL;
    struct err e;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    enum lease_result got = lease_keep_open_lease(k->a, &l, &e) < 0 ? LEASE_REFUSED : LEASE_OK;
    while (got == LEASE_OK || got == LEASE_AWAY) {
        if (poll(&p, 1, (int)(k->a->cfg->standby.ttl / 5)) > 0)
            break; /* the other end was closed: the renewer is no longer needed */
        got = k->own ? renew_own(k, l, &e) : lease_renew(l, &k->grant, &e);
        if (got == LEASE_OK)
            fence_set(k->grant.valid_until);
        else if (got != LEASE_AWAY)
            fence_set((mono_t){0});
    }
    lease_close(l);
    return 0;
}

/* ---- taking and giving back ---- */

static int refuse_held(struct lease *l, struct err *e)
{
    struct lease_record r = {0};
    struct err none;
    if (lease_read(l, &r, &none) != LEASE_OK)
        r = (struct lease_record){0};
    SCOPED(buf_free) struct buf shown = {0};
    text_clean(&shown, r.holder[0] ? r.holder : "another machine", sizeof r.holder);
    err_set(e, ERR_REFUSED, 0, "the lease is held and renewed by %s", shown.p);
    return err_hint(e, "--switch-over on that machine hands the world over");
}

/* Returns true if the lease was released. Its last holder may still rely on it until it expires. */
static bool is_ending(struct lease *l)
{
    struct lease_record r = {0};
    return lease_read(l, &r, &(struct err){0}) == LEASE_OK && r.free;
}

/* Renews the lease of this machine, or takes it if it has ended. If the supervisor was faster, the
 * next call renews what the supervisor took. */
static enum lease_result renew_or_take(struct lease_keep *k, struct lease *l, int64_t *wait,
                                       struct err *e)
{
    struct lease_record r;
    enum lease_result got = renew_own(k, l, e);
    /* A lower number is of a place that was restored from an older backup. */
    if (got != LEASE_HELD && (got != LEASE_OK || k->grant.number >= k->above))
        return got;
    err_clear(e);
    if ((got = lease_read(l, &r, e)) != LEASE_OK)
        return got;
    if (need_own(k->a, &r, e) < 0)
        return LEASE_REFUSED;
    got = lease_take(l, k->above, k->a->state.generation, &k->grant, wait, e);
    *wait = TRY_MS;
    return got;
}

static int actions_lease_keep_take(struct lease_keep *k, struct lease *l, struct err *e)
{
    const struct state *s = &k->a->state;
    struct err none;
    int64_t ttl = k->a->cfg->standby.ttl; /* the other machine's may be longer */
    if (lease_read(l, &k->had, &none) != LEASE_OK)
        k->had = (struct lease_record){0};
    if (k->had.ttl > ttl)
        ttl = k->had.ttl;
    mono_t until = mono_add(clock_mono(), 2 * ttl + EXTRA_MS), answered = clock_mono();
    progress_phase(k->a->job.progress, "waiting for the lease", 0, 0);
    for (;;) {
        int64_t wait = TRY_MS;
        enum lease_result got = k->own
                                    ? renew_or_take(k, l, &wait, e)
                                    : lease_take(l, k->above, s->generation, &k->grant, &wait, e);
        if (got == LEASE_OK)
            return 0;
        mono_t now = clock_mono();
        if (got != LEASE_AWAY)
            answered = now;
        if (got == LEASE_REFUSED || (got == LEASE_AWAY && (mono_reached(now, until) ||
                                                           mono_since(now, answered) >= AWAY_MS)))
            return -1;
        if (got == LEASE_HELD && (wait < 0 || (mono_reached(clock_mono(), until) && !is_ending(l))))
            return refuse_held(l, e);
        if (got == LEASE_HELD)
            fault_point("lease.waits");
        progress_at(k->a->job.progress, 0, 0);
        poll(NULL, 0, (int)(wait > TRY_MS || wait < 0 ? TRY_MS : wait));
    }
}

/* Checks that this machine may take or renew its lease, and sets k->above. */
static int lease_keep_look(struct lease_keep *k, struct lease *l, struct err *e)
{
    struct lease_record r;
    if (lease_read(l, &r, e) != LEASE_OK)
        return err_step(e,
                        "nothing was changed: this machine does not hold the lease of this world");
    return need_own(k->a, &r, e) < 0 ? -1 : action_may_take(k->a, &r, &k->above, e);
}

/* Sets k->above for a promotion. */
static void keep_above(struct lease_keep *k)
{
    uint64_t recorded = action_recorded(k->a), taken = k->a->state.lease_number;
    k->above = recorded > taken ? recorded : taken;
}

/* Works without a configured lease too, so lease_keep_end() may be called in any case. */
static void lease_keep_make(struct lease_keep *k, struct action_context *a)
{
    *k = (struct lease_keep){.a = a};
    worker_init(&k->renewer, "lease");
}

static int lease_keep_begin(struct lease_keep *k, struct action_context *a, struct err *e)
{
    struct lease *l = NULL;
    if (fence_make(e) < 0 || lease_keep_open_lease(a, &l, e) < 0)
        return -1;
    lease_seen_set(l, &a->lease_seen);
    int rc = k->own ? lease_keep_look(k, l, e) : 0;
    if (!k->own)
        keep_above(k);
    if (rc == 0)
        rc = actions_lease_keep_take(k, l, e);
    lease_close(l);
    if (rc < 0)
        return -1;
    a->state.lease_number = k->grant.number;
    fence_set(k->grant.valid_until);
    fence_shut(false);
    /* Without the world's lock only the supervisor may write state.json. */
    return (!k->own && state_save(a->job.dirfd, &a->state, e) < 0) ||
                   worker_start(&k->renewer, lease_keep_renew, k, false, e) < 0
               ? -1
               : 0;
}

int lease_keep_take(struct lease_keep *k, struct action_context *a, struct err *e)
{
    lease_keep_make(k, a);
    if (lease_keep_is_wanted(a))
        return lease_keep_begin(k, a, e);
    if (fence_made()) {
        fence_stay_open();
        fence_shut(false);
    }
    return 0;
}

int lease_keep_own(struct lease_keep *k, struct action_context *a, const char *what, struct err *e)
{
    lease_keep_make(k, a);
    if (fence_made())
        return fence_check(what, e);
    k->own = true;
    return lease_keep_is_wanted(a) ? lease_keep_begin(k, a, e) : action_need_record(a, e);
}

/* Checks the lease before a dump. A lease service that does not answer does not prevent the dump,
 * because reading is harmless. */
int lease_keep_ask(struct action_context *a, struct err *e)
{
    struct lease_record r;
    struct lease *l = NULL;
    struct err unknown;
    if (fence_made() && fence_open())
        return 0;
    if (!lease_keep_is_wanted(a))
        return action_need_record(a, e);
    if (lease_keep_open_lease(a, &l, &unknown) < 0)
        return 0;
    bool read = lease_read(l, &r, &unknown) == LEASE_OK;
    int rc = read ? need_own(a, &r, e) : 0;
    lease_close(l);
    bool sure = !read || lease_unchanged(&r, a->state.holder, a->state.lease_number);
    return rc < 0 || sure ? rc : action_need_record(a, e);
}

void lease_keep_publish(struct lease_keep *k)
{
    struct action_context *a = k->a;
    struct db_lease_word word = {.generation = a->state.generation, .number = k->grant.number};
    struct err e;
    if (!k->grant.number)
        return;
    SCOPED(xfree) char *host = xstrndup(a->state.holder, strcspn(a->state.holder, "/"));
    struct db *db = db_open(&a->job.db, &e);
    int rc = db ? db_lease_now(db, &word.now_us, &e) : -1;
    word.owner = host;
    word.left_ms = mono_since(fence_until(), clock_mono());
    if (rc == 0 && word.left_ms > 0)
        rc = db_lease_publish(db, a->cfg->schema, &word, &e);
    db_close(db);
    if (rc < 0) {
        err_step(&e, "cannot write table worldkeeper_lease, which games may read");
        action_note(a, e.text);
    }
}

void lease_keep_end(struct lease_keep *k)
{
    pid_t pid = k->renewer.pid;
    worker_end(&k->renewer);
    if (pid)
        waitpid(pid, NULL, 0);
}

/* Marks the lease as ended in the world, where games read it. Otherwise the old value would outlast
 * the released lease. */
static int end_word(const struct action_context *a, struct err *e)
{
    struct db *db = db_open(&a->job.db, e);
    int rc = db ? db_lease_end(db, a->cfg->schema, e) : -1;
    db_close(db);
    return rc;
}

void lease_keep_withdraw(struct action_context *a)
{
    if (!fence_made())
        return;
    fence_shut_others();
    mono_t until = mono_add(clock_mono(), WITHDRAW_MS);
    progress_phase(a->job.progress, "waiting for the status", 0, 0);
    while (fence_believed() && (lease_keep_is_wanted(a) || !mono_reached(clock_mono(), until))) {
        progress_at(a->job.progress, 0, 0);
        poll(NULL, 0, UNSAID_MS);
    }
}

void lease_keep_release(struct action_context *a, bool kept)
{
    struct lease *l = NULL;
    struct lease_grant g = {.number = 0};
    struct err e;
    bool supervised = fence_made();
    lease_keep_withdraw(a);
    if (!lease_keep_is_wanted(a))
        return;
    if (!supervised && a->state.watched) {
        action_note(a, "the lease was not released and expires later: no running supervisor could "
                       "withdraw the status UP");
        return;
    }
    if (kept && end_word(a, &e) < 0) {
        err_step(&e, "the lease was not released and expires later: table worldkeeper_lease in the "
                     "world may still name this machine");
        action_note(a, e.text);
        return;
    }
    enum lease_result got =
        lease_keep_open_lease(a, &l, &e) < 0 ? LEASE_REFUSED : lease_renew(l, &g, &e);
    if (got ==
        LEASE_AWAY) /* etcd may just have elected a leader: the next answer is the new leader's */
        got = lease_renew(l, &g, &e);
    if (got == LEASE_OK)
        got = lease_release(l, &g, &e);
    if (got != LEASE_OK && got != LEASE_HELD) {
        err_step(&e, "the lease was not released and expires later");
        action_note(a, e.text);
    }
    lease_close(l);
}
