/* readall SOCKET SCHEMA CONNECTIONS: reads every table with a plain SELECT and throws the rows
 * away. The limit of any dump that asks the server for rows: nothing is formatted, packed or
 * written. Several connections share the tables among them, the largest first. */
#include <pthread.h>
#include <stdatomic.h>

#include "bench.h"

#define TABLES_MAX 256
#define CONNECTIONS_MAX 16

struct job {
    const char *socket, *schema;
    char *tables[TABLES_MAX];
    unsigned count;
    atomic_uint next;
    atomic_ullong rows, bytes;
};

static void list_tables(struct job *j)
{
    MYSQL *db = connect_to(j->socket, j->schema);
    run_sql(db, "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() "
                "ORDER BY table_rows DESC");
    MYSQL_RES *res = mysql_store_result(db);
    if (!res)
        die_sql(db, "list of tables");
    for (MYSQL_ROW row; j->count < TABLES_MAX && (row = mysql_fetch_row(res));)
        if (asprintf(&j->tables[j->count++], "SELECT * FROM `%s`", row[0]) < 0)
            exit(1);
    mysql_free_result(res);
    mysql_close(db);
}

static void read_table(MYSQL *db, struct job *j, const char *select)
{
    uint64_t rows = 0, bytes = 0;
    run_sql(db, select);
    MYSQL_RES *res = mysql_use_result(db);
    if (!res)
        die_sql(db, select);
    unsigned fields = mysql_num_fields(res);
    while (mysql_fetch_row(res)) {
        const unsigned long *lengths = mysql_fetch_lengths(res);
        for (unsigned i = 0; i < fields; i++)
            bytes += lengths[i];
        rows++;
    }
    if (mysql_errno(db) != 0)
        die_sql(db, select);
    mysql_free_result(res);
    j->rows += rows;
    j->bytes += bytes;
}

static void *reader(void *arg)
{
    struct job *j = arg;
    MYSQL *db = connect_to(j->socket, j->schema);
    for (unsigned i; (i = j->next++) < j->count;)
        read_table(db, j, j->tables[i]);
    mysql_close(db);
    return NULL;
}

int main(int argc, char **argv)
{
    static struct job j;
    pthread_t threads[CONNECTIONS_MAX];
    unsigned n = argc == 4 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    if (n < 1 || n > CONNECTIONS_MAX) {
        fprintf(stderr, "usage: readall SOCKET SCHEMA CONNECTIONS\n");
        return 2;
    }
    j.socket = argv[1];
    j.schema = argv[2];
    mysql_library_init(0, NULL, NULL);
    list_tables(&j);
    for (unsigned i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, reader, &j) != 0)
            return 1;
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    printf("{\"rows\": %llu, \"bytes\": %llu}\n", j.rows, j.bytes);
    return 0;
}
