/* The manifests in the store: reads them, and remembers those that were read, in offsite.json in
 * the dump directory. A manifest that is listed with the same size and stamp is not read again.
 * Findings of a verify or a restore about their files are in offsite-damaged.json. */
#ifndef WK_OFFSITE_MANIFESTS_H
#define WK_OFFSITE_MANIFESTS_H

#include "offsite/copies.h"
#include "offsite/transfer.h"

/* Reads the manifest of `d`, which must be there, and fills in its values. `m` must always be
 * freed. If the manifest is damaged, returns REMOTE_OK with `why`. */
enum remote_result manifests_read(const struct transfer *t, const char *world, struct copy_dump *d,
                                  struct manifest *m, struct err *why, struct err *e);
/* Reads the pin of a dump, which was listed. If the pin is missing, or cannot be read or verified,
 * returns REMOTE_OK with p->unread. */
enum remote_result manifests_read_pin(const struct transfer *t, const char *world, const char *dump,
                                      struct pin *p, struct err *e);

/* Loads the remembered facts. `generation` receives that of this world when no other machine had
 * stored one (owner.h); 0: first time here, or the file is damaged: -1. */
int manifests_recall(int dirfd, const char *store, struct copies *c, uint64_t *generation,
                     struct err *e);
/* Saves the facts about manifests that were read (with `all` false, only those that were known or
 * are ours), and about those that are about to be sent. */
int manifests_remember(int dirfd, const char *store, const struct copies *c, uint64_t generation,
                       bool all, struct err *e);
/* Records that this machine continues with the world in the store, whoever stored it, because it
 * was restored from there. */
int manifests_adopt(int dirfd, struct err *e);

/* Records a finding about the file of `m`. It is forgotten when the file is read and intact, and
 * with `reason` NULL. */
int manifests_found(int dirfd, const struct manifest *m, const char *reason, struct err *e);
/* Sets `damaged` of those that were read; `reason` (or NULL) receives that of the first. */
int manifests_recall_damaged(int dirfd, struct copies *c, struct err *reason, struct err *e);

#endif
