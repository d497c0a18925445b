/* The shrink guard. Pure: does this dump hold suspiciously less than the last good one? */
#ifndef WK_DUMP_SHRINK_H
#define WK_DUMP_SHRINK_H

#include "store/manifest.h"

/* true when a table or the whole world lost more than `limit_percent` of its rows; `reason` says
 * which. The sentinel is not judged, nor is a table that was dropped. */
bool shrink_suspicious(const struct manifest *before, const struct manifest *now,
                       unsigned limit_percent, const char *sentinel, char *reason, size_t size);

#endif
