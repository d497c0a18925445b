/* row_images --socket PATH --schema NAME [--user NAME] --read text|binary
 * row_images --socket PATH --schema NAME [--user NAME] --log FILE [--repeat N]
 *
 * Prints the rows of all MEMORY tables of a schema, or all changes of them in a file of the binary
 * log, decoded by the program's own code, so that tests can compare the two. Each row is a line:
 * the table's name in hex, + (a new row) or - (a removed row), and its tuple. --repeat decodes the
 * file N more times without printing, and reports on stderr how long that took. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "binlog/event.h"
#include "binlog/row_image.h"
#include "mysql/rows.h"
#include "sql/literal.h"

#define MAPS 256u /* tables that one statement changes */

struct work {
    const char *schema;
    struct db *db;
    struct db_tables tables;
    struct row_image **images; /* one for each table, NULL until its first map */
    struct {
        uint64_t id;
        ssize_t table; /* -1: ignored */
    } maps[MAPS];
    size_t map_count;
    uint64_t rows, skipped, unreadable;
    struct buf plain;
    bool quiet;
    const char *name; /* table that is read */
};

static void print(const struct work *w, const char *table, char sign, const char *tuple, size_t len)
{
    char hex[129 * 4];
    if (w->quiet)
        return;
    text_hex((const unsigned char *)table, strlen(table), hex);
    printf("%s %c ", hex, sign);
    fwrite(tuple, 1, len, stdout);
    putchar('\n');
}

/* ---- the log ---- */

static ssize_t find_table(const struct work *w, const char *name)
{
    for (size_t i = 0; i < w->tables.count; i++)
        if (strcmp(w->tables.list[i].name, name) == 0)
            return (ssize_t)i;
    return -1;
}

static int take_map(struct work *w, const struct event_map *map, struct err *e)
{
    ssize_t t = strcmp(map->schema, w->schema) == 0 ? find_table(w, map->table) : -1;
    if (w->map_count == MAPS)
        return err_set(e, ERR_SYSTEM, 0, "too many tables");
    w->maps[w->map_count].id = map->table_id;
    w->maps[w->map_count++].table = t;
    if (t < 0 || (w->images[t] && row_image_fits(w->images[t], map)))
        return 0;
    row_image_close(w->images[t]);
    w->images[t] = row_image_open(map, &w->tables.list[t], e);
    return w->images[t] ? 0 : -1;
}

static int each_row(struct work *w, ssize_t t, const struct event_rows *r, struct err *e)
{
    struct buf out = {0};
    const char *at = r->data, *end = r->data + r->len;
    struct row_image *m = w->images[t];
    for (bool after = false; at && at < end; after = r->op == EVENT_UPDATE && !after) {
        bool came = r->op == EVENT_INSERT || after;
        buf_clear(&out);
        at = row_image_read(m, r, after, at, end, &out, e);
        if (at)
            print(w, w->tables.list[t].name, came ? '+' : '-', out.p, out.len);
        w->rows++;
    }
    buf_free(&out);
    return at ? 0 : -1;
}

static int take_rows(struct work *w, const struct event_rows *r, struct err *e)
{
    for (size_t i = w->map_count; i-- > 0;) {
        if (w->maps[i].id != r->table_id)
            continue;
        int rc = w->maps[i].table < 0 ? 0 : each_row(w, w->maps[i].table, r, e);
        if (r->ends)
            w->map_count = 0;
        return rc;
    }
    return err_set(e, ERR_DAMAGED, 0, "rows of a table without a map");
}

static int take_event(struct work *w, const struct event *ev, struct event_format *f, struct err *e)
{
    w->skipped += ev->kind == EVENT_SKIPPED;
    w->unreadable += ev->kind == EVENT_UNREADABLE;
    if (ev->kind == EVENT_FORMAT)
        *f = ev->format;
    if (ev->kind == EVENT_MAP)
        return take_map(w, &ev->map, e);
    return ev->kind == EVENT_ROWS ? take_rows(w, &ev->rows, e) : 0;
}

static int read_log(struct work *w, const char *log, size_t size, struct err *e)
{
    struct event_format f = event_format_first(false);
    for (size_t at = 4; at < size;) { /* after the four bytes that identify the file type */
        uint32_t len = 0;
        struct event ev;
        if (size - at >= EVENT_HEADER)
            memcpy(&len, log + at + 9, 4);
        if (len < EVENT_HEADER || len > size - at)
            return err_set(e, ERR_DAMAGED, 0, "no event at %zu", at);
        if (event_read(&f, log + at, len, &ev, e) < 0 || event_unpack(&ev, &w->plain, e) < 0 ||
            take_event(w, &ev, &f, e) < 0) {
            err_step(e, "at %zu", at);
            return -1;
        }
        at += len;
    }
    return 0;
}

static char *load(const char *path, size_t *size)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (!f || fstat(fileno(f), &st) < 0) {
        perror(path);
        exit(1);
    }
    *size = (size_t)st.st_size;
    char *p = xcalloc(*size, 1);
    if (fread(p, 1, *size, f) != *size) {
        perror(path);
        exit(1);
    }
    fclose(f);
    return p;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int show_log(struct work *w, const char *path, long repeat, struct err *e)
{
    size_t size;
    char *log = load(path, &size);
    w->images = xcalloc(w->tables.count, sizeof(struct row_image *));
    int rc = read_log(w, log, size, e);
    uint64_t rows = w->rows;
    double began = seconds();
    w->quiet = true;
    for (long i = 0; i < repeat && rc == 0; i++)
        rc = read_log(w, log, size, e);
    double took = seconds() - began;
    fprintf(stderr,
            "{\"rows\": %llu, \"skipped\": %llu, \"unreadable\": %llu, \"bytes\": %zu, "
            "\"rows_per_second\": %.0f}\n",
            (unsigned long long)rows, (unsigned long long)w->skipped,
            (unsigned long long)w->unreadable, size, repeat ? (double)(w->rows - rows) / took : 0);
    for (size_t i = 0; i < w->tables.count; i++)
        row_image_close(w->images[i]);
    free(w->images);
    buf_free(&w->plain);
    free(log);
    return rc;
}

/* ---- the tables ---- */

static int show_tuple(void *arg, const char *tuple, size_t len, struct err *e)
{
    const struct work *w = arg;
    (void)e;
    print(w, w->name, '+', tuple, len);
    return 0;
}

static int show_tables(struct work *w, bool text, struct err *e)
{
    for (size_t i = 0; i < w->tables.count; i++) {
        struct buf from = {0};
        uint64_t rows = 0;
        w->name = w->tables.list[i].name;
        sql_ident(&from, w->name);
        int rc = (text ? db_text_rows : db_read_rows)(w->db, &w->tables.list[i], from.p, show_tuple,
                                                      w, &rows, e);
        buf_free(&from);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* ---- the command ---- */

static int usage(void)
{
    fprintf(stderr, "usage: row_images --socket PATH --schema NAME [--user NAME] "
                    "(--read text|binary | --log FILE [--repeat N])\n");
    return 2;
}

static int run(struct work *w, const struct db_params *p, const char *read, const char *log,
               long repeat)
{
    struct err e = {0};
    w->db = db_open(p, &e);
    int rc = w->db ? db_tables(w->db, w->schema, false, &w->tables, &e) : -1;
    if (rc == 0)
        rc = read ? show_tables(w, strcmp(read, "text") == 0, &e) : show_log(w, log, repeat, &e);
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", err_class_name(e.cls), e.text);
    db_tables_free(&w->tables);
    db_close(w->db);
    return rc < 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"socket", 1, NULL, 's'}, {"user", 1, NULL, 'u'},
                                            {"schema", 1, NULL, 'd'}, {"read", 1, NULL, 'r'},
                                            {"log", 1, NULL, 'l'},    {"repeat", 1, NULL, 'n'},
                                            {NULL, 0, NULL, 0}};
    struct db_params p = {.user = "root", .connect_timeout = 60000, .read_timeout = 120000};
    const char *read = NULL, *log = NULL;
    struct work w = {0};
    long repeat = 0;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        const char **to = c == 's'   ? &p.socket
                          : c == 'u' ? &p.user
                          : c == 'd' ? &p.schema
                          : c == 'r' ? &read
                          : c == 'l' ? &log
                                     : NULL;
        if (to)
            *to = optarg;
        else if (c == 'n')
            repeat = strtol(optarg, NULL, 10);
        else
            return usage();
    }
    w.schema = p.schema;
    if (!p.socket || !p.schema || !read == !log)
        return usage();
    return run(&w, &p, read, log, repeat);
}
