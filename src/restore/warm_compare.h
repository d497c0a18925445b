/* Compares a standby's copy (warm.h) with what a load of a newer dump would give. */
#ifndef WK_RESTORE_WARM_COMPARE_H
#define WK_RESTORE_WARM_COMPARE_H

#include "journal/replay.h"
#include "restore/warm_int.h"
#include "store/manifest.h"

/* The same tables, each with the same definition: the journal does not have all that changes one, such as an
 * index. */
int warm_compare_definitions(struct warm *w, const struct manifest *m, struct err *e);
/* All rows with what a load of this dump and of the `changes` since it would give. */
int warm_compare_content(struct warm *w, const struct manifest *m, const struct replay *changes,
                         struct err *e);

#endif
