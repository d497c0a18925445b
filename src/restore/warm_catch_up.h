/* Brings a standby's copy (warm.h) up to the end of the journal. */
#ifndef WK_RESTORE_WARM_CATCH_UP_H
#define WK_RESTORE_WARM_CATCH_UP_H

#include "journal/archive.h"
#include "journal/replay.h"
#include "restore/warm_int.h"
#include "store/catalog.h"

/* Applies the rest of the journal; `out` is what was read. Returns an enum warm_found, or -1: try
 * again. */
int warm_catch_up(struct warm *w, const struct catalog *dumps, struct replay *out, struct err *e);
/* Returns the size of the segments that lead on from the one that the copy has reached, or that the
 * dump `m` ends in. 0 if none leads on: then the distance is not known. Pure. */
uint64_t warm_bytes_ahead(const struct warm *w, const struct archive *a, const struct manifest *m);

#endif
