/* attack SOCKET SCHEMA CONNECTIONS: a game that does not wait for its world to come back. Each
 * connection writes into the tables in a loop, without a pause, until SIGTERM.
 *
 * All rows have keys that the world never uses (from BASE on), and each connection writes the same
 * few again and again: afterwards they can be told from the world's own, and are not many. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "bench.h"

#define BASE 3000000000u
#define ROWS_EACH 200u
#define KINDS 5
#define CONNECTIONS_MAX 200

struct front {
    const char *socket, *schema;
    atomic_bool stop;
    atomic_ullong writes, errors, connections;
    atomic_uint last_error;
    atomic_llong longest_ns;
};

static struct front front;

static int next_write(char *sql, size_t size, uint32_t id, uint64_t i)
{
    switch (i % KINDS) {
    case 0:
        return snprintf(sql, size,
                        "REPLACE INTO users VALUES (%u, 'attacker%u', 'a@example.com', 'pw', %u)",
                        id, id, (uint32_t)(i & 0xffff));
    case 1:
        return snprintf(
            sql, size,
            "INSERT INTO planets VALUES (%u, 1, 2, 3, 'attacked', 1, 1, 1, 1, 1, 1, 1, 1, "
            "'2026-01-01') ON DUPLICATE KEY UPDATE iron = iron + 1",
            id);
    case 2:
        return snprintf(sql, size, "REPLACE INTO factories VALUES (%u, 1, 1, 1, 1)", id);
    case 3:
        return snprintf(sql, size, "UPDATE users SET points = points + 1 WHERE id = %u", id);
    default:
        return snprintf(sql, size, "REPLACE INTO ships VALUES (%u, 1, 1)", id);
    }
}

static void keep_longest(int64_t ns)
{
    long long seen = front.longest_ns;
    while (ns > seen && !atomic_compare_exchange_weak(&front.longest_ns, &seen, ns))
        ;
}

/* An order that is refused is lost, and the game goes on with the next. */
static void *attacker(void *arg)
{
    uint32_t first = BASE + (uint32_t)(uintptr_t)arg * ROWS_EACH;
    char sql[256];
    MYSQL *db = connect_to(front.socket, front.schema);
    front.connections++;
    for (uint64_t i = 0; !front.stop; i++) {
        int n = next_write(sql, sizeof sql, first + (uint32_t)(i / KINDS % ROWS_EACH), i);
        int64_t sent = now_ns();
        if (mysql_real_query(db, sql, (unsigned long)n) == 0) {
            front.writes++;
        } else {
            front.errors++;
            front.last_error = mysql_errno(db);
        }
        keep_longest(now_ns() - sent);
    }
    mysql_close(db);
    return NULL;
}

int main(int argc, char **argv)
{
    static pthread_t threads[CONNECTIONS_MAX];
    unsigned n = argc == 4 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    sigset_t end;
    int sig;
    if (n < 1 || n > CONNECTIONS_MAX) {
        fprintf(stderr, "usage: attack SOCKET SCHEMA CONNECTIONS\n");
        return 2;
    }
    front.socket = argv[1];
    front.schema = argv[2];
    /* Before the threads begin, so that they all leave it to sigwait(). */
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &end, NULL);
    mysql_library_init(0, NULL, NULL);
    for (unsigned i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, attacker, (void *)(uintptr_t)i) != 0)
            return 1;
    while (front.connections < n)
        sched_yield();
    puts("attacking");
    fflush(stdout);
    sigwait(&end, &sig);
    front.stop = true;
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    printf("{\"writes\": %llu, \"errors\": %llu, \"last_error\": %u, \"longest_ms\": %.1f}\n",
           front.writes, front.errors, front.last_error, (double)front.longest_ns / 1e6);
    return 0;
}
