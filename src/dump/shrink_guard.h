/* The shrink guard: decides whether a dump has suspiciously fewer rows than the last good one.
 * Pure. */
#ifndef WK_DUMP_SHRINK_GUARD_H
#define WK_DUMP_SHRINK_GUARD_H

#include "config/config.h"
#include "store/manifest.h"

struct shrink_rule {
    unsigned limit;       /* percent of its rows that a table, or the world, may lose */
    uint64_t least;       /* tables and worlds with fewer rows before are not judged */
    const char *sentinel; /* name of the sentinel table, which is not judged */
};

#define SHRINK_NAMED 3u
/* Returns the rule of the config: if a shrunken dump only causes an alert, small tables are not
 * judged; if it is rejected, all are. */
struct shrink_rule shrink_rule(const struct config *cfg);
/* Returns true if a table or the whole world lost more than the rule allows; `reason` names it. A
 * ledger may lose the rows that were rolled up since, by the numbers in both manifests; rows of the
 * local store of players' progress are removed when sessions end. Dropped tables are ignored. */
bool shrink_guard_suspicious(const struct manifest *before, const struct manifest *now,
                             const struct shrink_rule *rule, char *reason, size_t size);
/* Appends the tables concerned: [{"name", "rows" (before), "rows_now", "dump" (the one that has
 * them), "covers_ms" (the rows of that dump are of this time at the latest)}]. If no single table
 * qualifies: one entry without a name for the whole world, with "tables": the names of up to
 * SHRINK_NAMED that lost most. Call it only for a suspicious dump. */
void shrink_guard_tables(const struct manifest *before, const struct manifest *now,
                         const struct shrink_rule *rule, json_t *out);

#endif
