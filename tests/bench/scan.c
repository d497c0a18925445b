/* scan --socket PATH --user NAME --schema NAME [--compare] [--pause]: reads every MEMORY table
 * of a schema with db_scan_rows() and throws the rows away, for the benchmark to run beside a
 * writer. Prints one JSON object. --compare reads all tables by each way that src/mysql has, and
 * tells those whose tuples differ. --pause waits between the list of the tables and the reading
 * of them: it says "listed" on stderr, and goes on at the end of its input. */
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mysql/scan.h"
#include "sql/literal.h"

struct sum {
    uint64_t rows, hash;
    uint64_t in_order;
};

struct work {
    struct db *db;
    struct db_tables tables;
    struct db_scan_facts facts;
    struct sum now;
    double *chunks; /* milliseconds */
    size_t chunk_count;
    json_t *refused, *copied, *differ; /* "table: why" */
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int die(const char *step, const struct err *e)
{
    fprintf(stderr, "%s: %s: %s\n", step, err_class_name(e->cls), e->text);
    return 1;
}

static int take_tuple(void *arg, const char *tuple, size_t len, struct err *e)
{
    struct work *w = arg;
    (void)tuple, (void)len, (void)e;
    w->now.rows++;
    return 0;
}

static int hash_tuple(void *arg, const char *tuple, size_t len, struct err *e)
{
    struct work *w = arg;
    (void)e;
    w->now.rows++;
    w->now.hash += sql_tuple_hash(tuple, len);
    w->now.in_order = w->now.in_order * 31 + sql_tuple_hash(tuple, len);
    return 0;
}

static int take_chunk(void *arg, uint64_t rows, int64_t us, struct err *e)
{
    struct work *w = arg;
    (void)rows, (void)e;
    w->chunks = xrealloc(w->chunks, (w->chunk_count + 1) * sizeof *w->chunks);
    w->chunks[w->chunk_count++] = (double)us / 1000;
    return 0;
}

static void add_text(json_t *list, const char *table, const char *what)
{
    json_array_append_new(list, json_sprintf("%s: %s", table, what));
}

static int compare(struct work *w, const struct db_table *t, enum db_scan_way way, struct err *e)
{
    struct buf from = {0};
    uint64_t rows;
    sql_ident(&from, t->name);
    w->now = (struct sum){0};
    int rc = db_text_rows(w->db, t, from.p, hash_tuple, w, &rows, e);
    struct sum text = w->now;
    w->now = (struct sum){0};
    if (rc == 0)
        rc = db_read_rows(w->db, t, from.p, hash_tuple, w, &rows, e);
    if (rc == 0 && memcmp(&text, &w->now, sizeof text) != 0)
        add_text(w->differ, t->name, "binary");
    w->now = (struct sum){0};
    if (rc == 0 && way != DB_SCAN_NONE) {
        rc = db_scan_rows(w->db, t, way, hash_tuple, take_chunk, w, &rows, e);
        if (way == DB_SCAN_COPIES) /* share by share */
            w->now.in_order = text.in_order;
        if (rc == 0 && memcmp(&text, &w->now, sizeof text) != 0)
            add_text(w->differ, t->name, "scan");
    }
    buf_free(&from);
    return rc;
}

static int read_tables(struct work *w, bool comparing, uint64_t *total, struct err *e)
{
    for (size_t i = 0; i < w->tables.count; i++) {
        const struct db_table *t = &w->tables.list[i];
        const char *why;
        enum db_scan_way way = db_scan_way(t, &w->facts, &why);
        uint64_t rows = 0;
        if (why)
            add_text(way == DB_SCAN_NONE ? w->refused : w->copied, t->name, why);
        if (comparing ? compare(w, t, way, e) < 0
                      : way != DB_SCAN_NONE &&
                            db_scan_rows(w->db, t, way, take_tuple, take_chunk, w, &rows, e) < 0)
            return -1;
        *total += comparing ? w->now.rows : rows;
    }
    return 0;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double part(const struct work *w, double share)
{
    return w->chunk_count ? w->chunks[(size_t)((double)(w->chunk_count - 1) * share)] : 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: scan --socket PATH --user NAME --schema NAME [--compare] [--pause]\n");
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"socket", 1, NULL, 's'}, {"user", 1, NULL, 'u'},
                                            {"schema", 1, NULL, 'd'}, {"compare", 0, NULL, 'c'},
                                            {"pause", 0, NULL, 'p'},  {NULL, 0, NULL, 0}};
    struct db_params p = {.user = "root", .connect_timeout = 5000, .read_timeout = 60000};
    struct work w = {.refused = json_array(), .copied = json_array(), .differ = json_array()};
    struct err e = {0};
    bool comparing = false, pause = false;
    uint64_t total = 0;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 's':
            p.socket = optarg;
            break;
        case 'u':
            p.user = optarg;
            break;
        case 'd':
            p.schema = optarg;
            break;
        case 'c':
            comparing = true;
            break;
        case 'p':
            pause = true;
            break;
        default:
            return usage();
        }
    }
    if (!p.socket || !p.schema)
        return usage();
    w.db = db_open(&p, &e);
    if (!w.db)
        return die("connect", &e);
    if (db_tables(w.db, p.schema, comparing, &w.tables, &e) < 0 ||
        db_table_keys(w.db, p.schema, &w.tables, &e) < 0 ||
        db_scan_facts(w.db, p.schema, &w.facts, &e) < 0)
        return die("list", &e);
    if (pause) {
        fputs("listed\n", stderr);
        while (getchar() != EOF)
            ;
    }
    double began = seconds();
    if (read_tables(&w, comparing, &total, &e) < 0)
        return die("scan", &e);
    double took = seconds() - began;
    qsort(w.chunks, w.chunk_count, sizeof *w.chunks, by_size);
    json_t *out =
        json_pack("{sI sI sf sI s{sf sf sf} so so so}", "tables", (json_int_t)w.tables.count,
                  "rows", (json_int_t)total, "seconds", took, "chunks", (json_int_t)w.chunk_count,
                  "chunk_ms", "median", part(&w, 0.5), "p99", part(&w, 0.99), "max", part(&w, 1),
                  "refused", w.refused, "copied", w.copied, "differ", w.differ);
    json_dumpf(out, stdout, JSON_REAL_PRECISION(5));
    printf("\n");
    json_decref(out);
    free(w.chunks);
    db_scan_facts_free(&w.facts);
    db_tables_free(&w.tables);
    db_close(w.db);
    return 0;
}
