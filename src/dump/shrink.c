#include "dump/shrink.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool lost_too_much(uint64_t before, uint64_t now, unsigned limit)
{
    return now < before && (double)(before - now) * 100 > (double)before * limit;
}

bool shrink_suspicious(const struct manifest *before, const struct manifest *now, unsigned limit,
                       const char *sentinel, char *reason, size_t size)
{
    if (lost_too_much(before->rows, now->rows, limit)) {
        snprintf(reason, size, "%" PRIu64 " rows in all, before %" PRIu64 " (shrink_limit %u%%)",
                 now->rows, before->rows, limit);
        return true;
    }
    for (size_t i = 0; i < now->table_count; i++) {
        const struct manifest_table *t = &now->tables[i];
        const struct manifest_table *was = manifest_table(before, t->name);
        if (was && strcmp(t->name, sentinel) != 0 && lost_too_much(was->rows, t->rows, limit)) {
            snprintf(reason, size,
                     "%" PRIu64 " rows in '%s', before %" PRIu64 " (shrink_limit %u%%)", t->rows,
                     t->name, was->rows, limit);
            return true;
        }
    }
    return false;
}
