/* The shrink guard: does this dump hold suspiciously fewer rows than the last good one? Pure. */
#ifndef WK_DUMP_SHRINK_GUARD_H
#define WK_DUMP_SHRINK_GUARD_H

#include "store/manifest.h"

/* true if a table or the whole world lost more than `limit_percent` of its rows; `reason` says
 * which. A ledger may lose the rows that were rolled up since, by the numbers in both; rows of the local
 * store of players' progress go when sessions end. The sentinel and tables that were dropped are ignored. */
bool shrink_guard_suspicious(const struct manifest *before, const struct manifest *now,
                             unsigned limit_percent, const char *sentinel, char *reason,
                             size_t size);
/* Appends the tables concerned: [{"name", "rows" (before), "dump" (the one that has them),
 * "covers_ms" (the rows of that dump are of this time at the latest)}]. */
void shrink_guard_tables(const struct manifest *before, const struct manifest *now,
                         unsigned limit_percent, const char *sentinel, json_t *out);

#endif
