/* Compares a standby's copy (warm.h) with the result of loading a newer dump. */
#ifndef WK_RESTORE_WARM_COMPARE_H
#define WK_RESTORE_WARM_COMPARE_H

#include "journal/replay.h"
#include "restore/warm_int.h"
#include "store/manifest.h"

/* Compares the list of tables and each definition, because the journal does not contain all changes
 * of a definition, such as an index. */
int warm_compare_definitions(struct warm *w, const struct manifest *m, struct err *e);
/* Compares all rows with the result of loading this dump and the `changes` since. */
int warm_compare_content(struct warm *w, const struct manifest *m, const struct replay *changes,
                         struct err *e);

#endif
