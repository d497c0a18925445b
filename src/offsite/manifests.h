/* The manifests in the store: reading one, and what is remembered of those that were read, in
 * offsite.json in the dump directory. One that is listed with the size and the stamp that it had is not
 * read again. What a verify or a restore finds of their files is in offsite-damaged.json. */
#ifndef WK_OFFSITE_MANIFESTS_H
#define WK_OFFSITE_MANIFESTS_H

#include "offsite/copies.h"
#include "offsite/transfer.h"

/* Reads that of `d`, which must be there, and fills in what it says. `m` is to be freed in any case. Where it
 * is no good, that is REMOTE_OK with `why`. */
enum remote_result manifests_read(const struct transfer *t, const char *world, struct copy_dump *d,
                                  struct manifest *m, struct err *why, struct err *e);

/* What was known when the store was looked at before. `generation` receives that of this world then, if nobody
 * else had stored one (owner.h); 0: it is the first time here, or the file is no good: -1. */
int manifests_recall(int dirfd, const char *store, struct copies *c, uint64_t *generation,
                     struct err *e);
/* Of those that were read; with `all` false only of those that were known, or are ours; and of those whose
 * manifest is about to be sent. */
int manifests_remember(int dirfd, const char *store, const struct copies *c, uint64_t generation,
                       bool all, struct err *e);
/* This machine goes on with the world that is there, whoever stored it: it has been restored from there. */
int manifests_adopt(int dirfd, struct err *e);

/* What was found of the file of `m`; it is forgotten when it is read and good, and with `reason` NULL. */
int manifests_found(int dirfd, const struct manifest *m, const char *reason, struct err *e);
/* Sets `damaged` of those that were read; `reason` (or NULL) receives that of the first. */
int manifests_recall_damaged(int dirfd, struct copies *c, struct err *reason, struct err *e);

#endif
