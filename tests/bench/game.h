/* The orders of the game that plays in the benchmark's world (world.py). */
#ifndef WK_TESTS_GAME_H
#define WK_TESTS_GAME_H

#include "bench.h"

#define ORDER_KINDS 5
#define BATCH_KINDS 3
#define BATCH_MAX 500u
#define ORDER_MAX 256u                     /* bytes of one order */
#define BATCH_BYTES (128 + 40 * BATCH_MAX) /* of one that changes many rows */

struct world {
    uint32_t users, planets, fleets;
};

static inline uint32_t count_rows(MYSQL *db, const char *table)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT COUNT(*) FROM %s", table);
    run_sql(db, sql);
    MYSQL_RES *res = mysql_store_result(db);
    MYSQL_ROW row = res ? mysql_fetch_row(res) : NULL;
    if (!row || strtoul(row[0], NULL, 10) == 0) {
        fprintf(stderr, "table %s has no rows\n", table);
        exit(1);
    }
    uint32_t n = (uint32_t)strtoul(row[0], NULL, 10);
    mysql_free_result(res);
    return n;
}

static inline struct world see_world(MYSQL *db)
{
    return (struct world){.users = count_rows(db, "users"),
                          .planets = count_rows(db, "planets"),
                          .fleets = count_rows(db, "fleets")};
}

/* One order: each table in its turn, one row by its primary key; now and then a B-tree key moves.
 * It adds, so that the row changes whatever it was. */
static inline int next_order(char *sql, size_t size, const struct world *w, uint64_t i,
                             uint64_t *seed)
{
    uint32_t user = 1 + random_below(seed, w->users), planet = 1 + random_below(seed, w->planets);
    uint32_t fleet = 1 + random_below(seed, w->fleets), v = 1 + random_below(seed, 1000);
    switch (i % ORDER_KINDS) {
    case 0:
        return snprintf(sql, size, "UPDATE planets SET iron = iron + %u, owner = %u WHERE id = %u",
                        v, user, planet);
    case 1:
        return snprintf(sql, size, "UPDATE fleets SET x = x + %u, status = %u WHERE id = %u", v,
                        v % 4, fleet);
    case 2:
        return snprintf(sql, size, "UPDATE users SET points = points + %u WHERE id = %u", v, user);
    case 3:
        return snprintf(sql, size,
                        "UPDATE factories SET stock = stock + %u WHERE planet = %u AND type = %u",
                        v, planet, v % 12);
    default:
        return snprintf(sql, size,
                        "UPDATE ships SET many = many + %u WHERE fleet = %u AND type = %u", v,
                        fleet, v % 10);
    }
}

/* What the game does to many at once, at the end of a turn: `rows` neighbours, by their keys. */
static inline int next_batch(char *sql, size_t size, const struct world *w, uint64_t i,
                             uint64_t *seed, uint32_t rows)
{
    static const char *const tables[BATCH_KINDS] = {"planets", "fleets", "users"};
    static const char *const columns[BATCH_KINDS] = {"iron", "x", "points"};
    const uint32_t all[BATCH_KINDS] = {w->planets, w->fleets, w->users};
    size_t k = i % BATCH_KINDS;
    uint32_t first = random_below(seed, all[k]), v = 1 + random_below(seed, 1000);
    int n = snprintf(sql, size, "UPDATE %s SET %s = %s + %u WHERE id IN (", tables[k], columns[k],
                     columns[k], v);
    for (uint32_t row = 0; row < rows; row++)
        n += snprintf(sql + n, size - (size_t)n, "%u%c", 1 + (first + row) % all[k],
                      row + 1 < rows ? ',' : ')');
    return n;
}

/* Of a ledger: `rows` gains of `keys` keys, three minis for each player. */
static inline int next_gains(char *sql, size_t size, uint64_t *seed, uint32_t keys, uint32_t rows)
{
    int n = snprintf(sql, size, "INSERT INTO gains (player,mini,xp,at) VALUES ");
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t key = random_below(seed, keys);
        n += snprintf(sql + n, size - (size_t)n, "(%u,%u,%u,NOW())%c", key / 3, key % 3,
                      1 + random_below(seed, 1000), row + 1 < rows ? ',' : ' ');
    }
    return n;
}

#endif
