/* What the benchmark's small programs share. They talk to a private server over its socket as root
 * without a password, end with a message at any error, and print one JSON object. */
#ifndef WK_TESTS_BENCH_H
#define WK_TESTS_BENCH_H

#include <mysql.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NS_PER_S 1000000000LL
#define NS_PER_US 1000LL

static inline int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static inline _Noreturn void die_sql(MYSQL *db, const char *step)
{
    fprintf(stderr, "%s: error %u: %s\n", step, mysql_errno(db), mysql_error(db));
    exit(1);
}

static inline MYSQL *connect_to(const char *socket, const char *schema)
{
    MYSQL *db = mysql_init(NULL);
    if (!db || mysql_options(db, MYSQL_SET_CHARSET_NAME, "utf8mb4") != 0 ||
        !mysql_real_connect(db, NULL, "root", NULL, schema, 0, socket, 0))
        die_sql(db, "connect");
    return db;
}

static inline void run_sql(MYSQL *db, const char *sql)
{
    if (mysql_query(db, sql) != 0)
        die_sql(db, sql);
}

/* A generator of its own for each thread: reproducible, and without a lock. */
static inline uint32_t random_below(uint64_t *state, uint32_t limit)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)((*state >> 32) * limit >> 32);
}

#endif
