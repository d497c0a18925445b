/* changes SOCKET SCHEMA CONNECTIONS COUNT: what a busy game leaves in the binary log, as fast as
 * the server takes it: COUNT changed rows, or a few more. Each connection plays turns: hundreds of
 * orders that change one row each, a fleet that is built with its ships and an older one that is
 * lost, and one statement that changes many rows. Each statement is a group of the log.
 *
 * A turn is one packet of many statements: what is wanted is the log, not the time on the wire. */
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include "game.h"

#define CONNECTIONS_MAX 64
#define ORDERS 200u   /* of a turn */
#define BATCH 30u     /* rows of its last statement */
#define SHIPS 10u     /* types of ships in a fleet */
#define NEW_FLEETS 64 /* of one connection; before it has so many it loses none */
#define TURN_BYTES ((size_t)ORDERS * ORDER_MAX + BATCH_BYTES + 1024)

struct game {
    const char *socket, *schema;
    uint64_t count;
    atomic_ullong changes, statements;
};

static struct game game;

struct player {
    MYSQL *db;
    struct world w;
    uint64_t seed, turns;
    uint64_t fleets[NEW_FLEETS]; /* a ring: the place of the new one is that of the oldest */
    size_t len;
    char sql[TURN_BYTES];
};

static void add(struct player *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add(struct player *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    p->len += (size_t)vsnprintf(p->sql + p->len, sizeof p->sql - p->len, fmt, ap);
    va_end(ap);
}

/* The first statement of a turn. */
static void build_fleet(struct player *p)
{
    add(p, "INSERT INTO fleets (owner, name, x, y, status) VALUES (%u, 'Új flotta', %u, 1, 0);",
        1 + random_below(&p->seed, p->w.users), random_below(&p->seed, 100000));
    add(p, "INSERT INTO ships VALUES ");
    for (unsigned type = 0; type < SHIPS; type++)
        add(p, "%s(LAST_INSERT_ID(), %u, %u)", type ? "," : "", type,
            random_below(&p->seed, 1000000));
    add(p, ";");
}

static void lose_fleet(struct player *p, uint64_t id)
{
    add(p, "DELETE FROM ships WHERE fleet = %" PRIu64 " AND type IN (0,1,2,3,4,5,6,7,8,9);", id);
    add(p, "DELETE FROM fleets WHERE id = %" PRIu64 ";", id);
}

static void make_turn(struct player *p)
{
    uint64_t oldest = p->fleets[p->turns % NEW_FLEETS];
    p->len = 0;
    build_fleet(p);
    if (oldest)
        lose_fleet(p, oldest);
    for (uint64_t i = 0; i < ORDERS; i++) {
        p->len += (size_t)next_order(p->sql + p->len, sizeof p->sql - p->len, &p->w, i, &p->seed);
        add(p, ";");
    }
    p->len += (size_t)next_batch(p->sql + p->len, sizeof p->sql - p->len, &p->w, p->turns, &p->seed,
                                 BATCH);
}

static void play_turn(struct player *p)
{
    uint64_t changes = 0, statements = 0;
    int more;
    make_turn(p);
    if (mysql_real_query(p->db, p->sql, p->len) != 0)
        die_sql(p->db, "a turn");
    p->fleets[p->turns++ % NEW_FLEETS] = mysql_insert_id(p->db);
    do {
        changes += mysql_affected_rows(p->db);
        statements++;
        more = mysql_next_result(p->db);
    } while (more == 0);
    if (more > 0)
        die_sql(p->db, "a statement of a turn");
    game.changes += changes;
    game.statements += statements;
}

static void *play(void *arg)
{
    struct player *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->db = connect_to(game.socket, game.schema);
    mysql_set_server_option(p->db, MYSQL_OPTION_MULTI_STATEMENTS_ON);
    p->w = see_world(p->db);
    p->seed = 0x9e3779b97f4a7c15 * (1 + (uint64_t)(uintptr_t)arg);
    while (game.changes < game.count)
        play_turn(p);
    mysql_close(p->db);
    free(p);
    return NULL;
}

int main(int argc, char **argv)
{
    static pthread_t threads[CONNECTIONS_MAX];
    unsigned n = argc == 5 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    if (n < 1 || n > CONNECTIONS_MAX) {
        fprintf(stderr, "usage: changes SOCKET SCHEMA CONNECTIONS COUNT\n");
        return 2;
    }
    game.socket = argv[1];
    game.schema = argv[2];
    game.count = strtoull(argv[4], NULL, 10);
    mysql_library_init(0, NULL, NULL);
    int64_t began = now_ns();
    for (unsigned i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, play, (void *)(uintptr_t)i) != 0)
            return 1;
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    printf("{\"changes\": %llu, \"statements\": %llu, \"seconds\": %.3f}\n", game.changes,
           game.statements, (double)(now_ns() - began) / NS_PER_S);
    return 0;
}
