/* The record of a world: who owns it, which life is the current one, and what each life took over
 * from the previous one (store/lives.h). tests/models/README.md: rules 1, 3, 4 and 5. A promotion
 * writes the record before it replaces any table. A machine that the record names already writes it
 * before it stores anything of a life that it began itself.
 *
 * There is one object for each life, WORLD/record/NUMBER-GENERATION-NONCE.json in the [offsite]
 * store, signed if there is [dump] hmac_key_file, and never replaced. The one with the highest
 * number counts, and of one number the one with the highest generation. A machine with a lease
 * (standby/lease.h) uses the lease's number, which no other machine gets: so the record is ordered
 * like the lease, and a late record has a lower number. With lease = none the number is one above
 * the newest, without a conditional write, and the record is read back. That is not a lock, but it
 * tells a returning machine that it was replaced.
 *
 * All functions block: for workers and actions. */
#ifndef WK_OFFSITE_RECORD_H
#define WK_OFFSITE_RECORD_H

#include "offsite/transfer.h"
#include "store/lives.h"

enum record_says {
    RECORD_NONE,     /* there is none: a store of version 0.2, or a new one */
    RECORD_OURS,     /* this machine has the world */
    RECORD_ANOTHERS, /* another machine has it */
    RECORD_UNKNOWN,  /* it could not be read */
    RECORD_DAMAGED,  /* record_read(): ERR_DAMAGED. record_judge() does not return it */
};
/* Judges who has the world. `newest`: NULL if it could not be read; number 0: there is none.
 * `holder`: state_holder(); `own`: the world's life here; `last`: lives.json. A host that was
 * renamed is recognized by its life. A record of a machine that was replaced while the store did
 * not answer (lives.unwritten) must be replaced by this machine. Pure. */
enum record_says record_judge(const struct lives *newest, const char *holder,
                              const struct life *own, const struct lives *last);
/* Returns true if the record's world came from the world here. Only then may the world here be
 * given up without a command; another world, which shares only the name and the store, needs an
 * operator. Pure. */
bool record_replaced(const struct lives *newest, const struct life *own, const struct lives *last);

/* Returns true if a machine with a lease may take it, or renew it for the first time (rule 4). The
 * record must not name another machine. If it cannot be read, the lease must be unchanged
 * (lease_unchanged()), and the last known record must be this machine's own (`last`: lives.json).
 * Otherwise an outage of the store during a restart would take the world from its players. The
 * exception errs only if the place of the lease was restored from an older backup at the same time.
 * Pure. */
bool record_permits(enum record_says says, bool unchanged, const struct lives *last);

/* Reads the newest valid record; number 0: there is none. `io`: the previous result, or zeros; the
 * same record is not read again. On failure `io` is not changed. `last`: lives.json, or zeros. If
 * the newest record is invalid but is the one that this machine knows, `last` takes its place, with
 * `damaged` set. `ignored`: an invalid newer record, or the one that `last` replaces; ERR_NONE:
 * there is none.
 *
 * ERR_DAMAGED: a newer record, which this machine does not know, is damaged or of a newer version.
 * It may name another owner, so an older record must not decide: this machine waits. With a signing
 * key only a signed record counts for this; otherwise any account that can write to the store could
 * stop the world. */
int record_read(const struct transfer *t, const char *world, const struct lives *last,
                struct lives *io, struct err *ignored, struct err *e);
/* Writes it and reads it back. ERR_REFUSED: another machine was faster. */
int record_write(const struct transfer *t, const char *world, const struct lives *l, struct err *e);
/* Deletes the records below `newest` of lives before generation `oldest`. The store has no dump
 * of these lives. */
int record_trim(const struct transfer *t, const char *world, const struct lives *newest,
                uint64_t oldest, struct err *e);
/* Returns the number of the next life. `lease`: the number of the held lease; 0: there is no lease.
 * Pure. */
uint64_t record_number(const struct lives *newest, uint64_t lease);

#endif
