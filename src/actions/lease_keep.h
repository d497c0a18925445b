/* The lease of the world (standby/lease.h) while an action works that no supervisor renews it for. */
#ifndef WK_ACTIONS_LEASE_KEEP_H
#define WK_ACTIONS_LEASE_KEEP_H

#include "actions/context.h"
#include "base/worker.h"
#include "standby/lease.h"

struct lease_keep {
    struct action_context *a;
    struct lease_grant grant; /* the newest */
    struct lease_record had;  /* as it was before it was taken; holder "": that was not read */
    struct worker renewer;    /* while the action works */
};
/* Waits for one that is held and not renewed any more. ERR_REFUSED: another machine renews it. The fence is
 * open as long as the lease is ours. */
int lease_keep_take(struct lease_keep *k, struct action_context *a, struct err *e);
/* For a primary that nobody supervises, since nothing renews its lease: the same, but never one that another
 * machine has, or had last. Where a supervisor renews it: is it held now? `what` needs it. */
int lease_keep_own(struct lease_keep *k, struct action_context *a, const char *what, struct err *e);
/* For what only reads the world: -1 where another machine is known to have the lease, or to have had it last. */
int lease_keep_ask(struct action_context *a, struct err *e);
/* For games, in the world that was promoted; before anybody says that it is up. A failure is only noted. */
void lease_keep_publish(struct lease_keep *k);
/* Ends the renewals; whoever supervises goes on with them. */
void lease_keep_end(struct lease_keep *k);
/* Gives back what is ours, if it is; a failure is only noted, since the lease ends by itself. `kept`: this machine
 * was the primary, and games may have read so. */
void lease_keep_release(struct action_context *a, bool kept);

#endif
