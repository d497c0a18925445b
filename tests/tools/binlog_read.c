/* binlog_read: prints the binary log as src/binlog/stream.h returns it, one JSON object per line,
 * for the system tests. See usage(). Exits with 0 at the end of the log, and with 1 after an error
 * that connecting again (--again) does not fix; its last line is that error. */
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "binlog/prerequisites.h"
#include "binlog/stream.h"

struct work {
    struct db_params params;
    struct db_binlog_pos from;
    struct binlog_options options;
    const char *ability; /* schema */
    int64_t again;       /* ms that connecting again may take; 0: an error ends it */
    uint64_t pause_at;   /* events, after which it waits for a line on the standard input */
    bool quiet, within;
    uint64_t events, bytes;
};

static int usage(void)
{
    fprintf(stderr,
            "usage: binlog_read [--socket PATH | --host NAME --port N] --user NAME\n"
            "  [--password TEXT] --file NAME --pos N [--born N] [--heartbeat MS] [--to-end]\n"
            "  [--again MS] [--pause-at EVENTS] [--quiet] | --ability SCHEMA\n");
    return 2;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void show(json_t *line)
{
    char *text = json_dumps(line, JSON_COMPACT);
    puts(text);
    fflush(stdout);
    free(text);
    json_decref(line);
}

static void show_error(const struct err *e)
{
    show(json_pack("{s:s s:i s:s s:s}", "error", err_class_name(e->cls), "num", e->num, "text",
                   e->text, "hint", e->hint));
}

static void show_event(const struct binlog *b, const struct event *ev)
{
    static const char *const parts[] = {
        [TRANSACTION_OUTSIDE] = "outside", [TRANSACTION_BEGINS] = "begins",
        [TRANSACTION_WITHIN] = "within",   [TRANSACTION_ENDS] = "ends",
        [TRANSACTION_SINGLE] = "ends",
    };
    const struct binlog_position *p = binlog_at(b);
    const struct transaction *t = &p->group;
    /* Not a CRC32, because the CRC32 of an event that ends with its own CRC32 is always the
     * same. */
    show(json_pack("{s:s s:I s:I s:i s:s s:I s:I s:I s:I s:s s:I s:i}", "file", p->file, "pos",
                   (json_int_t)p->pos, "size", (json_int_t)ev->size, "type", (int)ev->type, "name",
                   ev->name, "next", (json_int_t)ev->next, "at", (json_int_t)ev->at, "sum",
                   (json_int_t)adler32(1, (const unsigned char *)ev->bytes, ev->size), "group",
                   (json_int_t)(t->open ? t->begins : p->pos), "part", parts[t->part], "born",
                   (json_int_t)p->created_at, "kind", (int)ev->kind));
}

/* Notes where reading continues after an error. A transaction is read from its beginning. */
static void note_position(struct work *w, const struct binlog *b)
{
    const struct binlog_position *p = binlog_at(b);
    snprintf(w->from.file, sizeof w->from.file, "%s", p->file);
    w->from.pos = p->group.open ? p->group.begins : p->pos;
    w->options.created_at = p->created_at;
    w->within = p->group.open;
}

/* Connects again after an error. Returns 0 if reading continues. */
static int mend(struct work *w, struct binlog **b, struct err *e)
{
    mono_t began = clock_mono();
    bool mendable = e->cls == ERR_UNREACHABLE || e->cls == ERR_STALLED;
    while (w->again && mendable && mono_since(clock_mono(), began) < w->again) {
        struct err why = {0};
        binlog_close(*b);
        *b = binlog_open(&w->params, &w->from, &w->options, &why);
        if (*b) {
            show(json_pack("{s:b s:s s:I s:s}", "again", w->within, "file", w->from.file, "pos",
                           (json_int_t)w->from.pos, "after", err_class_name(e->cls)));
            return 0;
        }
        *e = why;
        mendable = e->cls == ERR_UNREACHABLE || e->cls == ERR_STALLED;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return -1;
}

static void wait_for_line(void)
{
    char line[16];
    show(json_pack("{s:b}", "paused", 1));
    if (!fgets(line, sizeof line, stdin))
        exit(2);
}

static int read_all(struct work *w, struct err *e)
{
    struct binlog *b = binlog_open(&w->params, &w->from, &w->options, e);
    if (!b)
        return -1;
    int got;
    do {
        struct event ev;
        got = binlog_next(b, &ev, e);
        if (got == 1) {
            note_position(w, b);
            w->events++;
            w->bytes += ev.size;
            if (!w->quiet)
                show_event(b, &ev);
            if (w->events == w->pause_at)
                wait_for_line();
        } else if (got < 0 && mend(w, &b, e) == 0) {
            got = 1;
        }
    } while (got == 1);
    binlog_close(b);
    return got;
}

static int ability(const struct work *w, struct err *e)
{
    struct binlog_prerequisites a;
    struct db *db = db_open(&w->params, e);
    int rc = db ? binlog_prerequisites(db, w->ability, &a, e) : -1;
    if (rc == 0) {
        show(json_pack("{s:s? s:s?}", "reason", a.reason, "hint", a.hint));
        binlog_prerequisites_free(&a);
    }
    db_close(db);
    return rc;
}

static bool take(struct work *w, int option, const char *value)
{
    switch (option) {
    case 's':
        w->params.socket = value;
        break;
    case 'h':
        w->params.host = value;
        break;
    case 'P':
        w->params.port = (unsigned)strtoul(value, NULL, 10);
        break;
    case 'u':
        w->params.user = value;
        break;
    case 'w':
        w->params.password = value;
        break;
    case 'f':
        snprintf(w->from.file, sizeof w->from.file, "%s", value);
        break;
    case 'p':
        w->from.pos = strtoull(value, NULL, 10);
        break;
    case 'b':
        w->options.created_at = (uint32_t)strtoul(value, NULL, 10);
        break;
    case 'H':
        w->options.heartbeat = strtoll(value, NULL, 10);
        break;
    case 'e':
        w->options.to_end = true;
        break;
    case 'a':
        w->again = strtoll(value, NULL, 10);
        break;
    case 'n':
        w->pause_at = strtoull(value, NULL, 10);
        break;
    case 'A':
        w->ability = value;
        break;
    case 'q':
        w->quiet = true;
        break;
    default:
        return false;
    }
    return true;
}

static bool parse(struct work *w, int argc, char **argv)
{
    static const struct option options[] = {
        {"socket", 1, NULL, 's'},  {"host", 1, NULL, 'h'},  {"port", 1, NULL, 'P'},
        {"user", 1, NULL, 'u'},    {"file", 1, NULL, 'f'},  {"password", 1, NULL, 'w'},
        {"pos", 1, NULL, 'p'},     {"born", 1, NULL, 'b'},  {"heartbeat", 1, NULL, 'H'},
        {"to-end", 0, NULL, 'e'},  {"again", 1, NULL, 'a'}, {"pause-at", 1, NULL, 'n'},
        {"ability", 1, NULL, 'A'}, {"quiet", 0, NULL, 'q'}, {NULL, 0, NULL, 0}};
    int c;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (!take(w, c, optarg))
            return false;
    return (w->params.socket || w->params.host) && (w->ability || w->from.file[0]);
}

int main(int argc, char **argv)
{
    struct work w = {
        .params = {.user = "root", .connect_timeout = 60000, .read_timeout = 120000},
        .options = {.heartbeat = 500},
    };
    struct err e = {0};
    if (!parse(&w, argc, argv))
        return usage();
    double began = seconds();
    int rc = w.ability ? ability(&w, &e) : read_all(&w, &e);
    double took = seconds() - began;
    if (rc < 0)
        show_error(&e);
    else if (!w.ability)
        show(json_pack("{s:b s:I s:I s:f}", "end", 1, "events", (json_int_t)w.events, "bytes",
                       (json_int_t)w.bytes, "seconds", took));
    return rc < 0;
}
