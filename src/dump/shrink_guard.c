#include "dump/shrink_guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/line.h"
#include "base/text.h"
#include "progress/local.h"

/* Computed in floating point, because the integer products could overflow. */
static bool lost_too_much(uint64_t before, uint64_t now, const struct shrink_rule *rule)
{
    return now < before && before >= rule->least &&
           (double)(before - now) * 100 > (double)before * rule->limit;
}

struct shrink_rule shrink_rule(const struct config *cfg)
{
    return (struct shrink_rule){.limit = cfg->shrink_limit,
                                .least = cfg->shrink_reject ? 0 : SHRINK_LEAST,
                                .sentinel = cfg->sentinel};
}

/* Case is ignored, because servers may change it. */
static const struct manifest_ledger *shrink_guard_ledger_of(const struct manifest *m,
                                                            const char *table)
{
    for (size_t i = 0; i < m->ledger_count; i++)
        if (m->ledgers[i].table && strcasecmp(m->ledgers[i].table, table) == 0)
            return &m->ledgers[i];
    return NULL;
}

/* Returns how many rows this table may have lost because totals replaced them. If a rollup was
 * running at the previous dump, the rows of its piece may have been counted in both. If the
 * previous dump holds the rollup table but not its sum, the result is 0. */
static uint64_t rolled_up(const struct manifest *before, const struct manifest *now,
                          const char *table)
{
    const struct manifest_ledger *is = shrink_guard_ledger_of(now, table),
                                 *was = shrink_guard_ledger_of(before, table);
    if (!is)
        return 0;
    char rollup[sizeof is->name + sizeof "_rollup"];
    snprintf(rollup, sizeof rollup, "%s_rollup", is->name);
    if (!was && manifest_table(before, rollup))
        return 0;
    uint64_t had = was ? was->rolled_up : 0, more = is->rolled_up > had ? is->rolled_up - had : 0;
    return more + (was ? was->open : 0);
}

/* True for tables whose rows expire by design: request ids of ledgers, and our own tables with
 * the rows of players' sessions. */
static bool shrink_guard_expires(const struct manifest *now, const char *table)
{
    if (text_among(table, local_own))
        return true;
    for (size_t i = 0; i < now->ledger_count; i++) {
        size_t n = strlen(now->ledgers[i].name);
        if (strncmp(table, now->ledgers[i].name, n) == 0 && strcmp(table + n, "_request") == 0)
            return true;
    }
    return false;
}

static uint64_t shrink_guard_without(uint64_t rows, uint64_t gone)
{
    return rows > gone ? rows - gone : 0;
}

/* Returns the number of rows that `now` would have if only rollups and expiry had removed rows. */
static uint64_t rows_due(const struct manifest *before, const struct manifest *now,
                         const char *sentinel)
{
    uint64_t all = manifest_world_rows(before, sentinel);
    for (size_t i = 0; i < now->table_count; i++) {
        const struct manifest_table *is = &now->tables[i], *was = manifest_table(before, is->name);
        if (was && shrink_guard_expires(now, is->name))
            all = shrink_guard_without(all, shrink_guard_without(was->rows, is->rows));
    }
    for (size_t i = 0; i < now->ledger_count; i++) {
        const char *table = now->ledgers[i].table ? now->ledgers[i].table : "";
        const struct manifest_table *was = manifest_table(before, table),
                                    *is = manifest_table(now, table);
        uint64_t explained = rolled_up(before, now, table);
        uint64_t lost = was && is ? shrink_guard_without(was->rows, is->rows) : 0;
        all = shrink_guard_without(all, lost < explained ? lost : explained);
    }
    return all;
}

/* Returns the table of the previous dump if it is much smaller now, else NULL. */
static const struct manifest_table *shrink_guard_shrunk(const struct manifest *before,
                                                        const struct manifest *now,
                                                        const struct manifest_table *t,
                                                        const struct shrink_rule *rule)
{
    const struct manifest_table *was = manifest_table(before, t->name);
    bool much = was && strcmp(t->name, rule->sentinel) != 0 &&
                !shrink_guard_expires(now, t->name) &&
                lost_too_much(shrink_guard_without(was->rows, rolled_up(before, now, t->name)),
                              t->rows, rule);
    return much ? was : NULL;
}

bool shrink_guard_suspicious(const struct manifest *before, const struct manifest *now,
                             const struct shrink_rule *rule, char *reason, size_t size)
{
    uint64_t was_all = manifest_world_rows(before, rule->sentinel);
    uint64_t all = manifest_world_rows(now, rule->sentinel);
    if (lost_too_much(rows_due(before, now, rule->sentinel), all, rule)) {
        line_set(reason, size,
                 "%" PRIu64 " rows in total, previously %" PRIu64 " (shrink_limit %u%%)", all,
                 was_all, rule->limit);
        return true;
    }
    for (size_t i = 0; i < now->table_count; i++) {
        const struct manifest_table *t = &now->tables[i],
                                    *was = shrink_guard_shrunk(before, now, t, rule);
        if (was) {
            line_set(reason, size,
                     "%" PRIu64 " rows in '%s', previously %" PRIu64 " (shrink_limit %u%%)",
                     t->rows, t->name, was->rows, rule->limit);
            return true;
        }
    }
    return false;
}

static uint64_t lost_rows(const struct manifest_table *was, const struct manifest *now)
{
    const struct manifest_table *is = manifest_table(now, was->name);
    return shrink_guard_without(was->rows, is ? is->rows : 0);
}

/* Returns the names of the tables that lost most rows or no longer exist, the largest loss
 * first. */
static json_t *most_lost(const struct manifest *before, const struct manifest *now,
                         const struct shrink_rule *rule)
{
    json_t *names = json_array();
    uint64_t limit = UINT64_MAX;
    while (json_array_size(names) < SHRINK_NAMED) {
        const struct manifest_table *most = NULL;
        for (size_t i = 0; i < before->table_count; i++) {
            const struct manifest_table *t = &before->tables[i];
            uint64_t lost = strcmp(t->name, rule->sentinel) == 0 ? 0 : lost_rows(t, now);
            if (lost && lost < limit && (!most || lost > lost_rows(most, now)))
                most = t;
        }
        if (!most)
            break;
        limit = lost_rows(most, now);
        json_array_append_new(names, json_string(most->name));
    }
    return names;
}

void shrink_guard_tables(const struct manifest *before, const struct manifest *now,
                         const struct shrink_rule *rule, json_t *out)
{
    json_int_t covers_ms = before->at.ms + before->took_ms;
    for (size_t i = 0; i < now->table_count; i++) {
        const struct manifest_table *t = &now->tables[i],
                                    *was = shrink_guard_shrunk(before, now, t, rule);
        if (was)
            json_array_append_new(out,
                                  json_pack("{s:s, s:I, s:I, s:s, s:I}", "name", was->name, "rows",
                                            (json_int_t)was->rows, "rows_now", (json_int_t)t->rows,
                                            "dump", before->name, "covers_ms", covers_ms));
    }
    if (json_array_size(out) == 0)
        json_array_append_new(
            out,
            json_pack("{s:I, s:I, s:s, s:I, s:o}", "rows",
                      (json_int_t)manifest_world_rows(before, rule->sentinel), "rows_now",
                      (json_int_t)manifest_world_rows(now, rule->sentinel), "dump", before->name,
                      "covers_ms", covers_ms, "tables", most_lost(before, now, rule)));
}
