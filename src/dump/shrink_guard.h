/* The shrink guard: does this dump hold suspiciously fewer rows than the last good one? Pure. */
#ifndef WK_DUMP_SHRINK_GUARD_H
#define WK_DUMP_SHRINK_GUARD_H

#include "config/config.h"
#include "store/manifest.h"

struct shrink_rule {
    unsigned limit;       /* percent of its rows that a table, or the world, may lose */
    uint64_t least;       /* tables, and worlds, that had fewer rows are not judged */
    const char *sentinel; /* name of its table, which is not judged either */
};
#define SHRINK_LEAST                                                                               \
    1000u /* rows; below that, tables shrink for no reason that anybody has to hear of */

/* The rule of the config: where a shrunken dump only alarms, small tables do not. Where it is rejected, all are judged. */
struct shrink_rule shrink_rule(const struct config *cfg);
/* Returns true if a table or the whole world lost more than the rule allows; `reason` says which. A ledger may lose the
 * rows that were rolled up since, by the numbers in both; rows of the local store of players' progress go when sessions
 * end. Tables that were dropped are ignored. */
bool shrink_guard_suspicious(const struct manifest *before, const struct manifest *now,
                             const struct shrink_rule *rule, char *reason, size_t size);
/* Appends the tables concerned: [{"name", "rows" (before), "rows_now", "dump" (the one that has them),
 * "covers_ms" (the rows of that dump are of this time at the latest)}]. Where no single table did: one entry without
 * a name, of the whole world. To be called for a suspicious dump. */
void shrink_guard_tables(const struct manifest *before, const struct manifest *now,
                         const struct shrink_rule *rule, json_t *out);

#endif
