/* What the central store of players' progress costs. The schema has the central store and a table
 * `bare`.
 *
 * progress SOCKET SCHEMA saves COUNT BYTES    CALL wk_save beside the bare UPDATE that it stands
 *                                             for, one of each in turn, by one connection:
 *                                             microseconds
 * progress SOCKET SCHEMA sends COUNT BYTES    so many changed blobs at once: a bare multi-row
 *                                             INSERT … ON DUPLICATE KEY UPDATE, wk_send, and a CALL
 *                                             wk_save each: milliseconds
 * progress SOCKET SCHEMA waiters COUNT LOCKS  so many at so few locks, each of which is held for
 *                                             HOLD_MS, with the manual's pauses, for LIMIT_MS at
 *                                             most: when the last one had its turn, beside the time
 *                                             for which all of them hold a lock */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

struct samples {
    int64_t *ns;
    size_t count;
};

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double quantile_us(struct samples *s, double part)
{
    qsort(s->ns, s->count, sizeof *s->ns, by_size);
    return (double)s->ns[(size_t)((double)(s->count - 1) * part)] / NS_PER_US;
}

static void print(const char *name, struct samples *s, const char *end)
{
    printf("\"%s\": {\"median\": %.1f, \"p10\": %.1f, \"p90\": %.1f}%s", name, quantile_us(s, 0.5),
           quantile_us(s, 0.1), quantile_us(s, 0.9), end);
}

/* All results of a statement; whether the first value is `want` (NULL: there is none). */
static void expect(MYSQL *db, const char *want)
{
    bool seen = !want;
    int more;
    do {
        MYSQL_RES *res = mysql_store_result(db);
        MYSQL_ROW row = res ? mysql_fetch_row(res) : NULL;
        if (row && row[0] && want && strcmp(row[0], want) == 0)
            seen = true;
        mysql_free_result(res);
        more = mysql_next_result(db);
    } while (more == 0);
    if (more > 0)
        die_sql(db, "the next result");
    if (!seen) {
        fprintf(stderr, "not answered: %s\n", want);
        exit(1);
    }
}

static void timed(MYSQL *db, const char *sql, const char *want, struct samples *s)
{
    int64_t began = now_ns();
    run_sql(db, sql);
    expect(db, want);
    s->ns[s->count++] = now_ns() - began;
}

static void compare_saves(MYSQL *db, size_t count, size_t bytes)
{
    struct samples bare = {calloc(count, sizeof(int64_t)), 0},
                   save = {calloc(count, sizeof(int64_t)), 0};
    char *blob = malloc(bytes + 1), *sql = malloc(bytes + 300);
    if (!bare.ns || !save.ns || !blob || !sql)
        abort();
    uint64_t random = 0x9e3779b97f4a7c15;
    for (size_t i = 0; i < bytes; i++)
        blob[i] = (char)('a' + random_below(&random, 26));
    blob[bytes] = 0;
    for (size_t i = 1; i <= count; i++) {
        snprintf(sql, bytes + 300,
                 "UPDATE bare SET seq=%zu,saved_at=UTC_TIMESTAMP(3),`blob`='%s' WHERE blob_key='b' "
                 "AND seq<%zu",
                 i, blob, i);
        timed(db, sql, NULL, &bare);
        snprintf(sql, bytes + 300, "CALL wk_save('b','p','bench',1,%zu,'%s')", i, blob);
        timed(db, sql, "saved", &save);
    }
    printf("{");
    print("bare_us", &bare, ", ");
    print("save_us", &save, "}\n");
    free(bare.ns);
    free(save.ns);
    free(blob);
    free(sql);
}

#define STATEMENT_BYTES (4U << 20)

/* "('k7','p7',1,SEQ,'…')", the columns of wk_sent. */
static size_t add_row(char *to, size_t i, size_t seq, const char *blob)
{
    return (size_t)sprintf(to, "('k%zu','p%zu',1,%zu,'%s')", i, i, seq, blob);
}

/* `count` blobs in statements of STATEMENT_BYTES, each between `head` and `tail`. */
static void send_all(MYSQL *db, size_t count, size_t seq, const char *blob, const char *head,
                     const char *tail)
{
    static char sql[STATEMENT_BYTES + (1U << 20)];
    for (size_t i = 0; i < count;) {
        size_t n = (size_t)sprintf(sql, "%s", head);
        for (bool first = true; i < count && n < STATEMENT_BYTES; i++, first = false) {
            sql[n] = ',';
            n += !first;
            n += add_row(sql + n, i, seq, blob);
        }
        n += (size_t)sprintf(sql + n, "%s", tail);
        if (mysql_real_query(db, sql, n) != 0)
            die_sql(db, head);
    }
}

static double bare_ms(MYSQL *db, size_t count, size_t seq, const char *blob)
{
    int64_t began = now_ns();
    send_all(db, count, seq, blob,
             "INSERT INTO bare (blob_key,lock_key,lock_seq,seq,`blob`) VALUES ",
             " ON DUPLICATE KEY UPDATE seq=VALUES(seq),`blob`=VALUES(`blob`)");
    return (double)(now_ns() - began) / 1e6;
}

static double send_ms(MYSQL *db, size_t count, size_t seq, const char *blob)
{
    int64_t began = now_ns();
    run_sql(db, "CALL wk_send_open()");
    expect(db, NULL);
    send_all(db, count, seq, blob, "INSERT INTO wk_sent VALUES ", "");
    run_sql(db, "CALL wk_send('bench')");
    expect(db, NULL);
    return (double)(now_ns() - began) / 1e6;
}

static double each_ms(MYSQL *db, size_t count, size_t seq, const char *blob)
{
    char *sql = malloc(strlen(blob) + 300);
    if (!sql)
        abort();
    int64_t began = now_ns();
    for (size_t i = 0; i < count; i++) {
        sprintf(sql, "CALL wk_save('k%zu','p%zu','bench',1,%zu,'%s')", i, i, seq, blob);
        run_sql(db, sql);
        expect(db, "saved");
    }
    free(sql);
    return (double)(now_ns() - began) / 1e6;
}

/* The first round makes the rows; it does not count. */
static void compare_sends(MYSQL *db, size_t count, size_t bytes)
{
    char *blob = malloc(bytes + 1);
    if (!blob || bytes > 1U << 19)
        abort();
    memset(blob, 'x', bytes);
    blob[bytes] = 0;
    printf("{\"bare_ms\": [");
    double bare[4], sent[4], each[4];
    for (size_t i = 0; i < 4; i++) {
        blob[0] = (char)('a' + i);
        bare[i] = bare_ms(db, count, 3 * i + 1, blob);
        sent[i] = send_ms(db, count, 3 * i + 1, blob);
        each[i] = each_ms(db, count, 3 * i + 2, blob);
    }
    printf("%.1f, %.1f, %.1f], \"send_ms\": [%.1f, %.1f, %.1f], \"each_ms\": [%.1f, %.1f, %.1f]}\n",
           bare[1], bare[2], bare[3], sent[1], sent[2], sent[3], each[1], each[2], each[3]);
    free(blob);
}

enum { HOLD_MS = 100, FIRST_PAUSE_MS = 50, LAST_PAUSE_MS = 500, LIMIT_MS = 120000 };
struct waiter {
    pthread_t thread;
    MYSQL *db;
    size_t number, locks;
    int64_t turn_ms; /* until it had the lock, or gave up */
    bool served;
    unsigned queries;
};
static atomic_bool go;

/* False: a conflict, after which the manual's loop asks again. */
static bool call(MYSQL *db, const char *sql)
{
    if (mysql_query(db, sql) == 0)
        return true;
    if (mysql_errno(db) != 1205 && mysql_errno(db) != 1213)
        die_sql(db, sql);
    return false;
}

static void pause_ms(unsigned ms)
{
    usleep(ms * 1000);
}

/* Its lock number; 0: busy, or a conflict. */
static uint64_t acquire(struct waiter *w)
{
    char sql[200];
    sprintf(sql, "CALL wk_acquire('w%zu','gs-%zu',NULL)", w->number % w->locks, w->number);
    w->queries++;
    MYSQL_RES *res = call(w->db, sql) ? mysql_store_result(w->db) : NULL;
    MYSQL_ROW row = res ? mysql_fetch_row(res) : NULL;
    uint64_t seq = row && row[0] && strcmp(row[0], "locked") == 0 ? strtoull(row[1], NULL, 10) : 0;
    mysql_free_result(res);
    while (mysql_next_result(w->db) == 0)
        ;
    return seq;
}

static void hold(struct waiter *w, uint64_t seq)
{
    char sql[200];
    pause_ms(HOLD_MS);
    sprintf(sql, "CALL wk_release('w%zu','gs-%zu',%" PRIu64 ")", w->number % w->locks, w->number,
            seq);
    while (!call(w->db, sql))
        w->queries++;
    expect(w->db, "released");
    w->served = true;
}

/* The manual's loop: pauses grow from 50 to 500 ms, each between half and all of that. */
static void *wait_for_lock(void *arg)
{
    struct waiter *w = arg;
    uint64_t random = 0x9e3779b97f4a7c15 * (w->number + 1), seq;
    while (!go)
        pause_ms(5);
    int64_t began = now_ns();
    for (unsigned pause = FIRST_PAUSE_MS;;
         pause = pause * 3 / 2 < LAST_PAUSE_MS ? pause * 3 / 2 : LAST_PAUSE_MS) {
        seq = acquire(w);
        w->turn_ms = (now_ns() - began) / 1000000;
        if (seq || w->turn_ms > LIMIT_MS)
            break;
        pause_ms(pause / 2 + random_below(&random, pause / 2 + 1));
    }
    if (seq)
        hold(w, seq);
    mysql_close(w->db);
    return NULL;
}

static void crowd(const char *socket, const char *schema, size_t count, size_t locks)
{
    struct waiter *w = calloc(count, sizeof *w);
    int64_t longest = 0;
    size_t turns = 0;
    char warm[100];
    double most = 0;
    if (!w)
        abort();
    for (size_t i = 0; i < count; i++) {
        w[i] = (struct waiter){.db = connect_to(socket, schema), .number = i, .locks = locks};
        /* Each session has read the routine when the clock starts. */
        snprintf(warm, sizeof warm, "CALL wk_acquire('warm','gs-%zu',NULL)", i);
        run_sql(w[i].db, warm);
        expect(w[i].db, NULL);
        if (pthread_create(&w[i].thread, NULL, wait_for_lock, &w[i]) != 0)
            abort();
    }
    go = true;
    for (size_t i = 0; i < count; i++) {
        pthread_join(w[i].thread, NULL);
        turns += w[i].served;
        longest = w[i].turn_ms > longest ? w[i].turn_ms : longest;
        double rate = w[i].turn_ms > 1000 ? w[i].queries * 1000.0 / (double)w[i].turn_ms : 0;
        most = rate > most ? rate : most;
    }
    if (turns == 0) {
        fprintf(stderr, "no waiter had its turn within %d s\n", LIMIT_MS / 1000);
        exit(1);
    }
    printf("{\"fair_ms\": %.0f, \"longest_ms\": %" PRId64 ", \"without_turn\": %zu, "
           "\"queries_per_second\": %.1f}\n",
           (double)(count * HOLD_MS) / (double)locks, longest, count - turns, most);
    free(w);
}

int main(int argc, char **argv)
{
    size_t count = argc == 6 ? strtoul(argv[4], NULL, 10) : 0;
    size_t size = argc == 6 ? strtoul(argv[5], NULL, 10) : 0;
    if (count == 0 || size == 0 || mysql_library_init(0, NULL, NULL) != 0) {
        fprintf(stderr, "usage: progress SOCKET SCHEMA saves|sends COUNT BYTES\n"
                        "       progress SOCKET SCHEMA waiters COUNT LOCKS\n");
        return 2;
    }
    if (strcmp(argv[3], "waiters") == 0) {
        crowd(argv[1], argv[2], count, size);
        return 0;
    }
    MYSQL *db = connect_to(argv[1], argv[2]);
    (strcmp(argv[3], "saves") == 0 ? compare_saves : compare_sends)(db, count, size);
    mysql_close(db);
    return 0;
}
