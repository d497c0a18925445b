/* The record of a world: whose it is, which life of it is the current one, and what each life took over from the one
 * before (store/lives.h). tests/models/README.md: rules 1, 3, 4 and 5.
 *
 * It is one object for each life, WORLD/record/NUMBER-GENERATION-NONCE.json in the [offsite] store, signed where [dump]
 * hmac_key_file is, and never replaced; the one with the highest number counts, and of one number the one with the highest
 * generation. A machine with a lease (lease.h) takes the lease's number, which no other machine gets: so the lease's
 * comparison is the record's, and what arrives late has a lower number. With lease = none the number is one above the
 * newest, without a comparison, and is read back: that is no lock, but it tells a machine that returns that it was replaced.
 *
 * All of it blocks: for workers and actions. */
#ifndef WK_STANDBY_RECORD_H
#define WK_STANDBY_RECORD_H

#include "offsite/transfer.h"
#include "store/lives.h"

enum record_says {
    RECORD_NONE,     /* there is none: a store of version 0.2, or a new one */
    RECORD_OURS,     /* this machine has the world */
    RECORD_ANOTHERS, /* another machine has it */
    RECORD_UNKNOWN,  /* it could not be read */
};
/* `newest`: NULL if it could not be read; number 0: there is none. `holder`: state_holder(); `own`: the world's life here;
 * `last`: lives.json. A host that was renamed is recognized by its life; a record of the machine that was replaced while
 * the store did not answer (lives.unwritten) is one that this machine has to replace. Pure. */
enum record_says record_judge(const struct lives *newest, const char *holder,
                              const struct life *own, const struct lives *last);
/* Is the world here one that the record's world came from? Only then it may be set aside without a command: another world,
 * which shares nothing but the name and the store, is for an operator. Pure. */
bool record_replaced(const struct lives *newest, const struct life *own, const struct lives *last);

/* The newest that is valid; number 0: there is none. `io`: what was read before, or zeros: the same is not read again.
 * `ignored`: a newer one that is not signed by our key, or is damaged; ERR_NONE: there is none. */
int record_read(const struct transfer *t, const char *world, struct lives *io, struct err *ignored,
                struct err *e);
/* Writes it and reads it back. ERR_REFUSED: another machine was faster. */
int record_write(const struct transfer *t, const char *world, const struct lives *l, struct err *e);
/* The number of the next life. `lease`: the number of the lease that is held; 0: there is no lease. Pure. */
uint64_t record_number(const struct lives *newest, uint64_t lease);

#endif
