/* Keeps the lease of the world (standby/lease.h) during an action if no supervisor renews it. */
#ifndef WK_ACTIONS_LEASE_KEEP_H
#define WK_ACTIONS_LEASE_KEEP_H

#include "actions/context.h"
#include "base/worker.h"
#include "standby/lease.h"

struct lease_keep {
    struct action_context *a;
    struct lease_grant grant; /* the newest */
    struct lease_record had;  /* the lease before it was taken; holder "": that was not read */
    bool own;                 /* a supervisor may renew the same lease at the same time */
    uint64_t above;           /* the highest number known of a lease or a record */
    struct worker renewer;    /* renews it while the action works */
};
/* Takes the lease; waits for one that is held but no longer renewed. ERR_REFUSED: another machine
 * renews it. The fence is open while the lease is ours. The caller reads the record before anything
 * is replaced. */
int lease_keep_take(struct lease_keep *k, struct action_context *a, struct err *e);
/* Makes sure that this machine has the lease, for an action of the primary. In the supervisor's
 * process it only checks that the lease is held now. In a process of its own it renews the lease of
 * this machine, which a supervisor may renew too, and takes it if it has ended. It never takes a
 * lease that another machine has, or had last, and first reads the record: action_may_take(). */
int lease_keep_own(struct lease_keep *k, struct action_context *a, const char *what, struct err *e);
/* Called by actions that only read the world. Returns -1 if another machine is known to have the
 * lease, or to have had it last; if the lease is not the one that this machine held last, also if
 * the record names another machine. */
int lease_keep_ask(struct action_context *a, struct err *e);
/* Publishes the lease for games in the promoted world, before UP is published. A failure is only
 * logged. */
void lease_keep_publish(struct lease_keep *k);
/* Ends the renewals; a supervisor continues them. */
void lease_keep_end(struct lease_keep *k);
/* Shuts the fence for all other processes, and waits until no status reports the world as up here,
 * or until such a status has expired. */
void lease_keep_withdraw(struct action_context *a);
/* Withdraws the status and gives the lease back if it is ours. A failure is only logged, because
 * the lease ends by itself. `kept`: this machine was the primary, and games may have read that. */
void lease_keep_release(struct action_context *a, bool kept);

#endif
