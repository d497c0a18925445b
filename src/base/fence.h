/* Until when this machine may change the world, publish that it is up, and store copies elsewhere: a
 * moment of the monotonic clock in memory that all processes of a supervisor share, so that each of
 * them can ask right before it does something, without waiting for another one. The holder of the
 * world's lease extends it.
 *
 * A process that never made a fence is never stopped by one: worlds without a lease. */
#ifndef WK_BASE_FENCE_H
#define WK_BASE_FENCE_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/err.h"

/* Makes it, passed already; in the process whose children, forked afterwards, share it. Once. */
int fence_make(struct err *e);
bool fence_made(void);
/* It is the world's record that opens it, not a lease: for the words of fence_check(). */
void fence_by_record(void);
/* Nothing may be done from `until` on. ms 0: from now on. */
void fence_set(mono_t until);
/* Without a lease nothing ends what the record says: it stays open until fence_set() closes it. */
void fence_stay_open(void);
/* This machine gives the world away: nothing may be done, whatever is set, until it is shut no more. */
void fence_shut(bool shut);
bool fence_is_shut(void);
/* It is published that this machine is up, and that this may be believed until then; ms 0: that it is not. */
void fence_said(mono_t until);
/* May somebody still believe it? Then the lease is not given back yet. */
bool fence_believed(void);
/* ms 0: it was never extended, or was closed, or shut, or never made. */
mono_t fence_until(void);
/* May this machine act? */
bool fence_open(void);
/* The same as an error: 0, or -1 with ERR_REFUSED, "… : the lease of this world is not held". */
int fence_check(const char *what, struct err *e);

#endif
