/* The time until which this machine may change the world, publish UP, and store copies elsewhere.
 * It is a monotonic time in memory shared by all processes of a supervisor, so that each process
 * can check it right before it acts, without waiting for another. The holder of the world's lease
 * extends it.
 *
 * tests/models/README.md, rule 2, has the same terms.
 *
 * A process that never made a fence is never stopped by one: worlds without a lease have none. */
#ifndef WK_BASE_FENCE_H
#define WK_BASE_FENCE_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/err.h"

/* Creates the fence, already expired. Call it once, before the fork of the children that share
 * it. */
int fence_make(struct err *e);
bool fence_made(void);
/* States that the world's record, not a lease, opens the fence. Only changes the text of
 * fence_check(). */
void fence_by_record(void);
/* Sets the end: nothing may be done from `until` on. ms 0: from now on. */
void fence_set(mono_t until);
/* Opens it without an end, for worlds without a lease, until fence_set() closes it. */
void fence_stay_open(void);
/* Shuts the fence while this machine gives the world away: nothing may be done, whatever
 * fence_set() says, until it is called with false. */
void fence_shut(bool shut);
/* Shuts it for all processes but this one, which may still record the handover. */
void fence_shut_others(void);
bool fence_is_shut(void);
/* Records that UP has been published and that readers may believe it until then; ms 0: UP was
 * withdrawn. */
void fence_said(mono_t until);
/* Returns true while a reader may still believe UP. The world must not be given away yet. */
bool fence_believed(void);
/* Returns ms 0 if the fence was never extended, was closed or shut for this process, or was
 * never made. */
mono_t fence_until(void);
/* Returns true if this machine may act. */
bool fence_open(void);
/* Like fence_open(), as an error: returns 0, or -1 with ERR_REFUSED, "… : the lease of this world
 * is not held". */
int fence_check(const char *what, struct err *e);

#endif
