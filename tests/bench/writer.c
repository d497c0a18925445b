/* writer SOCKET SCHEMA [RATE ROWS [KEYS]]: a game with one connection that changes RATE rows a
 * second (1000), ROWS (1) with each statement, until SIGTERM. With KEYS it adds rows of so many
 * keys to the ledger `gains` instead. Prints how long its statements took.
 *
 * The schedule is absolute: what fell due while a statement waited is sent as soon as that one
 * has ended, as orders of players queue up behind a lock. `wait` counts from sending a statement
 * to its answer. `late` counts from the moment at which it fell due to its answer: of a wait of
 * three seconds it also sees the three thousand statements that stood behind it. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "game.h"

#define RATE 1000

static volatile sig_atomic_t begin, stop;

static void on_signal(int sig)
{
    if (sig == SIGUSR1)
        begin = 1;
    else
        stop = 1;
}

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

struct pace {
    int64_t interval_ns;
    uint32_t rows, keys;
};

/* What fell due before SIGTERM is played to its end, however late. Gives the rows that changed. */
static uint64_t play(MYSQL *db, const struct pace *p, struct samples *wait, struct samples *late)
{
    static char sql[BATCH_BYTES];
    struct world w = {0};
    if (!p->keys)
        w = see_world(db);
    uint64_t seed = 0x9e3779b97f4a7c15, changes = 0;
    int64_t due = now_ns(), end = 0;
    for (uint64_t i = 0;; i++, due += p->interval_ns) {
        sleep_until(due);
        if (stop && !end)
            end = now_ns();
        if (end && due >= end)
            return changes;
        if (begin) {
            begin = 0;
            wait->count = late->count = changes = 0;
        }
        int n = p->keys        ? next_gains(sql, sizeof sql, &seed, p->keys, p->rows)
                : p->rows == 1 ? next_order(sql, sizeof sql, &w, i, &seed)
                               : next_batch(sql, sizeof sql, &w, i, &seed, p->rows);
        int64_t sent = now_ns();
        if (mysql_real_query(db, sql, (unsigned long)n) != 0)
            die_sql(db, sql);
        int64_t done = now_ns();
        add(wait, done - sent);
        add(late, done - due);
        changes += mysql_affected_rows(db);
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
    uint32_t rate = argc >= 5 ? (uint32_t)strtoul(argv[3], NULL, 10) : RATE;
    struct pace pace = {.rows = argc >= 5 ? (uint32_t)strtoul(argv[4], NULL, 10) : 1,
                        .keys = argc == 6 ? (uint32_t)strtoul(argv[5], NULL, 10) : 0};
    if ((argc != 3 && argc != 5 && argc != 6) || rate == 0 || pace.rows == 0 ||
        pace.rows > BATCH_MAX) {
        fprintf(stderr, "usage: writer SOCKET SCHEMA [RATE ROWS [KEYS]]\n");
        return 2;
    }
    pace.interval_ns = NS_PER_S * pace.rows / rate;
    sigaction(SIGUSR1, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    MYSQL *db = connect_to(argv[1], argv[2]);
    uint64_t changes = play(db, &pace, &wait, &late);
    mysql_close(db);
    printf("{\"statements\": %zu, \"changes\": %" PRIu64 ", ", wait.count, changes);
    print("wait_ms", &wait, ", ");
    print("late_ms", &late, "}\n");
    return 0;
}
