/* writer SOCKET SCHEMA: a game with one connection that changes a random row each millisecond,
 * until SIGTERM. Prints how long its statements took.
 *
 * The schedule is absolute: what fell due while a statement waited is sent as soon as that one has
 * ended, as orders of players queue up behind a lock. `wait` counts from sending a statement to its
 * answer. `late` counts from the moment at which it fell due to its answer: of a wait of three
 * seconds it also sees the three thousand statements that stood behind it. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "bench.h"

#define INTERVAL_NS 1000000LL
#define KINDS 5

static volatile sig_atomic_t begin, stop;

static void on_signal(int sig)
{
    if (sig == SIGUSR1)
        begin = 1;
    else
        stop = 1;
}

struct world {
    uint32_t users, planets, fleets;
};

struct samples {
    uint32_t *us;
    size_t count, room;
};

static void add(struct samples *s, int64_t ns)
{
    if (s->count == s->room) {
        s->room = s->room ? s->room * 2 : 1 << 16;
        s->us = realloc(s->us, s->room * sizeof *s->us);
        if (!s->us)
            abort();
    }
    s->us[s->count++] = (uint32_t)(ns / NS_PER_US);
}

static uint32_t count_rows(MYSQL *db, const char *table)
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

/* One order of the game: each table in its turn, by its primary key; now and then a B-tree key
 * moves. */
static int next_order(char *sql, size_t size, const struct world *w, uint64_t i, uint64_t *seed)
{
    uint32_t user = 1 + random_below(seed, w->users), planet = 1 + random_below(seed, w->planets);
    uint32_t fleet = 1 + random_below(seed, w->fleets), v = random_below(seed, 100000);
    switch (i % KINDS) {
    case 0:
        return snprintf(sql, size, "UPDATE planets SET iron = %u, owner = %u WHERE id = %u", v,
                        user, planet);
    case 1:
        return snprintf(sql, size, "UPDATE fleets SET x = %u, status = %u WHERE id = %u", v, v % 4,
                        fleet);
    case 2:
        return snprintf(sql, size, "UPDATE users SET points = %u WHERE id = %u", v, user);
    case 3:
        return snprintf(sql, size,
                        "UPDATE factories SET stock = %u WHERE planet = %u AND type = %u", v,
                        planet, v % 12);
    default:
        return snprintf(sql, size, "UPDATE ships SET many = %u WHERE fleet = %u AND type = %u", v,
                        fleet, v % 10);
    }
}

static void sleep_until(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    while (!stop && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* In milliseconds; `part` of all samples are at most so large. */
static double quantile(const struct samples *s, double part)
{
    size_t i = (size_t)((double)s->count * part);
    return s->count ? (double)s->us[i < s->count ? i : s->count - 1] / 1000 : 0;
}

static void print(const char *name, struct samples *s, const char *end)
{
    if (s->count)
        qsort(s->us, s->count, sizeof *s->us, by_size);
    printf("\"%s\": {\"median\": %.3f, \"p99\": %.3f, \"p999\": %.3f, \"longest\": %.3f}%s", name,
           quantile(s, 0.5), quantile(s, 0.99), quantile(s, 0.999), quantile(s, 1), end);
}

/* What fell due before SIGTERM is played to its end, however late. */
static void play(MYSQL *db, const struct world *w, struct samples *wait, struct samples *late)
{
    char sql[256];
    uint64_t seed = 0x9e3779b97f4a7c15;
    int64_t due = now_ns(), end = 0;
    for (uint64_t i = 0;; i++, due += INTERVAL_NS) {
        sleep_until(due);
        if (stop && !end)
            end = now_ns();
        if (end && due >= end)
            return;
        if (begin) {
            begin = 0;
            wait->count = late->count = 0;
        }
        int n = next_order(sql, sizeof sql, w, i, &seed);
        int64_t sent = now_ns();
        if (mysql_real_query(db, sql, (unsigned long)n) != 0)
            die_sql(db, sql);
        int64_t done = now_ns();
        add(wait, done - sent);
        add(late, done - due);
        if (i == 0) {
            puts("playing");
            fflush(stdout);
        }
    }
}

int main(int argc, char **argv)
{
    struct sigaction act = {.sa_handler = on_signal};
    struct samples wait = {0}, late = {0};
    if (argc != 3) {
        fprintf(stderr, "usage: writer SOCKET SCHEMA\n");
        return 2;
    }
    sigaction(SIGUSR1, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    MYSQL *db = connect_to(argv[1], argv[2]);
    struct world w = {.users = count_rows(db, "users"),
                      .planets = count_rows(db, "planets"),
                      .fleets = count_rows(db, "fleets")};
    play(db, &w, &wait, &late);
    mysql_close(db);
    printf("{\"statements\": %zu, ", wait.count);
    print("wait_ms", &wait, ", ");
    print("late_ms", &late, "}\n");
    return 0;
}
