/* Fuzzing of what a server says, through the real client library: the input is a server that
 * answers on a socket.
 *
 * The first byte chooses what the client does with it (`deeds`), and bit 7 the greeting's brand.
 * Then packets follow: two bytes, 15 bits of length and a bit that ends an answer, and the bytes.
 * Each statement that reads something takes the next answer; others are done. With no answer left
 * the server hangs up. Numbers of packets are put in here.
 *
 * FUZZ_SERVER=path: no such server, but the one whose socket that is, to record a session
 * (tests/tools/record_server.py). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "binlog/stream.h"
#include "mysql/account.h"
#include "mysql/galera.h"
#include "mysql/lease.h"
#include "mysql/objects.h"
#include "mysql/scan.h"
#include "mysql/sentinel.h"
#include "mysql/server.h"
#include "scratch.h"
#include "sql/literal.h"

/* Connector/C reserves memory for as many columns as a server announces, which may be more than
 * there is: the allocator says no, as it does without sanitizers, and the library makes an error
 * of it. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the server ---- */

#define BRAND 0x80u
#define LAST 0x8000u
#define COM_QUERY 0x03u
#define COM_BINLOG_DUMP 0x12u
#define COM_PREPARE 0x16u
#define COM_EXECUTE 0x17u
#define COM_CLOSE 0x19u
#define COM_RESET 0x1Au

static struct {
    char path[64];
    int listener;
    const uint8_t *at, *end; /* packets to come */
    bool mysql, raw;         /* raw: the greeting is part of the input */
} server;

static bool send_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

static bool send_packet(int fd, const void *body, size_t len, uint8_t *number)
{
    uint8_t head[4] = {(uint8_t)len, (uint8_t)(len >> 8), (uint8_t)(len >> 16), (*number)++};
    return send_all(fd, head, sizeof head) && send_all(fd, body, len);
}

/* The next answer; false: there is none. */
static bool send_answer(int fd, uint8_t number)
{
    bool last = server.end - server.at < 2;
    if (last)
        return false;
    while (!last && server.end - server.at >= 2) {
        unsigned mark = server.at[0] | (unsigned)server.at[1] << 8;
        size_t len = mark & ~LAST, left = (size_t)(server.end - server.at) - 2;
        server.at += 2;
        if (len > left)
            len = left;
        if (!send_packet(fd, server.at, len, &number))
            return false;
        server.at += len;
        last = mark & LAST;
    }
    return true;
}

static bool send_ok(int fd, uint8_t number)
{
    return send_packet(fd, "\0\0\0\2\0\0\0", 7, &number);
}

static bool send_greeting(int fd)
{
    static const char maria[] =
        "\x0a"
        "5.5.5-10.11.6-MariaDB\0\1\0\0\0abcdefgh\0\xde\xf7\x2d\2\0\xff\x80\x15\0\0\0\0"
        "\0\0\0\0\0\0ijklmnopqrst\0mysql_native_password";
    static const char mysql[] =
        "\x0a"
        "8.4.0\0\1\0\0\0abcdefgh\0\xdf\xf7\xff\2\0\xff\xc0\x15\0\0\0\0\0\0\0\0\0\0"
        "ijklmnopqrst\0mysql_native_password";
    uint8_t number = 0;
    if (server.raw)
        return send_answer(fd, 0);
    return server.mysql ? send_packet(fd, mysql, sizeof mysql, &number)
                        : send_packet(fd, maria, sizeof maria, &number);
}

/* A whole packet of the client's; its length, as much of it as there is room for, -1 at the end. */
static ssize_t receive(int fd, uint8_t *out, size_t room, uint8_t *number)
{
    uint8_t head[4], rest[4096];
    if (recv(fd, head, sizeof head, MSG_WAITALL) != sizeof head)
        return -1;
    size_t len = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16,
           kept = len < room ? len : room;
    *number = (uint8_t)(head[3] + 1);
    if (kept && recv(fd, out, kept, MSG_WAITALL) != (ssize_t)kept)
        return -1;
    for (size_t n = len - kept; n;) {
        ssize_t got = recv(fd, rest, n < sizeof rest ? n : sizeof rest, 0);
        if (got <= 0)
            return -1;
        n -= (size_t)got;
    }
    return (ssize_t)kept;
}

/* Statements that set something up are done, whatever the input is. */
static bool reads(const uint8_t *packet, size_t len)
{
    static const char *const words[] = {"SELECT", "SHOW", "HANDLER worldkeeper_scan READ", "LOAD"};
    if (packet[0] != COM_QUERY)
        return packet[0] == COM_PREPARE || packet[0] == COM_EXECUTE || packet[0] == COM_BINLOG_DUMP;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (len > strlen(words[i]) && memcmp(packet + 1, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

static void serve(int fd)
{
    uint8_t packet[64], number;
    ssize_t len;
    bool in = false;
    if (!send_greeting(fd))
        return;
    while ((len = receive(fd, packet, sizeof packet, &number)) >= 0) {
        bool command = in && number == 1 && len > 0;
        if (command && packet[0] == COM_CLOSE)
            continue;
        bool own = server.raw || (in && (!command || reads(packet, (size_t)len)));
        if (!(own ? send_answer(fd, number) : send_ok(fd, number)))
            return;
        in = true;
    }
}

static void *server_main(void *unused)
{
    (void)unused;
    for (;;) {
        /* A client that waits for more of an answer would wait for its whole timeout. */
        struct timeval patience = {.tv_usec = 4000};
        int fd = accept(server.listener, NULL, NULL);
        if (fd < 0)
            return NULL;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        serve(fd);
        close(fd);
    }
}

static void server_remove(void)
{
    unlink(server.path);
    *strrchr(server.path, '/') = '\0';
    rmdir(server.path);
}

static void server_start(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    pthread_t thread;
    snprintf(server.path, sizeof server.path, "/tmp/fuzz-server-XXXXXX");
    demand(mkdtemp(server.path) != NULL);
    snprintf(a.sun_path, sizeof a.sun_path, "%.60s/s", server.path);
    snprintf(server.path, sizeof server.path, "%.60s", a.sun_path);
    server.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    demand(bind(server.listener, (struct sockaddr *)&a, sizeof a) == 0);
    demand(listen(server.listener, 8) == 0);
    demand(pthread_create(&thread, NULL, server_main, NULL) == 0);
    pthread_detach(thread);
    atexit(server_remove);
}

/* It serves one after the other: when it has hung up on this one, it is done with those before. */
static void server_wait(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char rest[4096];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", server.path);
    demand(connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
    shutdown(fd, SHUT_WR);
    while (recv(fd, rest, sizeof rest, 0) > 0)
        ;
    close(fd);
}

/* ---- the client ---- */

#define SCHEMA "fuzz"

static struct db_params params = {.user = "keeper",
                                  .password = "secret",
                                  .connect_timeout = 2000,
                                  .read_timeout = 2000,
                                  .schema = SCHEMA};

/* A table with a column of each kind; what the server says of it is another matter. */
static char types[][32] = {"int(11)",       "bigint(20) unsigned zerofill",
                           "decimal(10,2)", "double",
                           "float",         "enum('a','b,c')",
                           "set('x','y')",  "bit(9)",
                           "datetime(6)",   "time(3)",
                           "date",          "timestamp",
                           "year(4)",       "varchar(20)",
                           "varbinary(9)",  "inet6",
                           "char(3)"};
#define COLUMNS (sizeof types / sizeof *types)

static void table_make(struct db_table *t, struct db_column columns[COLUMNS],
                       char names[COLUMNS][4])
{
    static char name[] = "all_types", engine[] = "MEMORY";
    *t = (struct db_table){.name = name,
                           .engine = engine,
                           .memory = true,
                           .columns = columns,
                           .column_count = COLUMNS};
    for (size_t i = 0; i < COLUMNS; i++) {
        snprintf(names[i], sizeof names[i], "c%zu", i);
        columns[i] = (struct db_column){.name = names[i], .type = types[i]};
        columns[i].encoding = db_encoding_of(types[i], true);
    }
}

/* Whatever the server says, a tuple holds literals, one for each column. */
static int look_at_tuple(void *arg, const char *tuple, size_t len, struct err *e)
{
    unsigned fields = 0;
    char *copy = scratch_copy(tuple, len);
    (void)arg, (void)e;
    demand(sql_read_tuple(copy, copy + len, &fields) == copy + len);
    demand(fields == COLUMNS);
    free(copy);
    return 0;
}

typedef void deed_fn(struct db *db);

static void read_table(struct db *db, int how)
{
    struct db_table t;
    struct db_column columns[COLUMNS];
    char names[COLUMNS][4];
    uint64_t rows;
    struct err e = {0};
    table_make(&t, columns, names);
    if (how == 0)
        db_read_rows(db, &t, "`all_types`", look_at_tuple, NULL, &rows, &e);
    else if (how == 1)
        db_text_rows(db, &t, "`all_types`", look_at_tuple, NULL, &rows, &e);
    else
        db_scan_rows(db, &t, how == 2 ? DB_SCAN_HANDLER : DB_SCAN_COPIES, look_at_tuple, NULL, NULL,
                     &rows, &e);
}

static void prepared(struct db *db)
{
    read_table(db, 0);
}

static void as_text(struct db *db)
{
    read_table(db, 1);
}

static void handler(struct db *db)
{
    read_table(db, 2);
}

static void copies(struct db *db)
{
    read_table(db, 3);
}

static void tables(struct db *db)
{
    struct db_tables t = {0};
    struct db_scan_facts f = {0};
    struct err e = {0};
    if (db_tables(db, SCHEMA, true, &t, &e) == 0 && db_table_keys(db, SCHEMA, &t, &e) == 0 &&
        db_scan_facts(db, SCHEMA, &f, &e) == 0)
        for (size_t i = 0; i < t.count; i++) {
            const char *why;
            char hash[17];
            demand(t.list[i].name[0]);
            db_scan_way(&t.list[i], &f, &why);
            db_columns_hash(&t.list[i], hash);
        }
    db_scan_facts_free(&f);
    db_tables_free(&t);
}

static void definitions(struct db *db)
{
    struct db_triggers triggers = {0};
    struct buf b = {0};
    struct err e = {0};
    for (int kind = DEFINITION_VIEW; kind <= DEFINITION_EVENT; kind++) {
        struct names names = {0};
        struct db_definition d = {0};
        if (db_names(db, SCHEMA, (enum definition_kind)kind, &names, &e) == 0 && names.count)
            db_definition(db, SCHEMA, (enum definition_kind)kind, names.list[0], &d, &e);
        db_definition_free(&d);
        names_free(&names);
    }
    if (db_triggers(db, SCHEMA, &triggers, &e) == 0)
        for (size_t i = 0; i < triggers.count; i++)
            db_trigger_sql(&b, &triggers.list[i], "t");
    db_triggers_free(&triggers);
    free(db_create_table(db, SCHEMA, "all_types", &e));
    buf_free(&b);
}

static void server_facts(struct db *db)
{
    struct server_id id;
    struct db_binlog_pos point;
    struct galera g;
    struct db_sentinel s;
    struct err e = {0};
    unsigned long holder;
    uint64_t n;
    struct db_seen seen;
    db_server_id(db, &id, &e);
    db_binlog_pos(db, &point);
    db_log_closed(db);
    galera_look(db, &g, &e);
    db_sentinel_read(db, SCHEMA, "worldkeeper", &s, &e);
    db_lease_read(db, SCHEMA, "worldkeeper", &n, &e);
    db_lease_lock(db, SCHEMA, &holder, &e);
    db_session_seen(db, 1, &seen, &e);
    replicas_connected(db);
    db_variable_number(db, "max_heap_table_size");
    db_count(db, SCHEMA, "all_types", &n, &e);
}

static void account_facts(struct db *db)
{
    struct db_account account;
    struct grants g = {0};
    struct err e = {0};
    unsigned unknown;
    db_account(db, &account, &e);
    db_grants(db, &g, &unknown, &e);
    grants_free(&g);
    db_hint_grant(db, SCHEMA, "SELECT", &e);
}

static void infile(struct db *db)
{
    struct err e = {0};
    db_exec(db, "LOAD DATA LOCAL INFILE 'x' INTO TABLE t", &e);
}

static void nothing(struct db *db)
{
    (void)db;
}

/* Rows of events: fuzz_event.c, fuzz_image.c. */
static void read_log(void)
{
    const struct binlog_options o = {.heartbeat = 1000, .to_end = true};
    struct db_binlog_pos from = {.file = "binlog.000001", .pos = 4};
    struct event ev;
    struct err e = {0};
    struct binlog *b = binlog_open(&params, &from, &o, &e);
    while (b && binlog_next(b, &ev, &e) == 1)
        ;
    binlog_close(b);
}

static const struct {
    deed_fn *deed; /* NULL: the binary log */
    bool raw, bulk;
} deeds[] = {
    {prepared, false, false},     {as_text, false, false},       {handler, false, false},
    {copies, false, false},       {tables, false, false},        {definitions, false, false},
    {server_facts, false, false}, {account_facts, false, false}, {infile, false, true},
    {nothing, true, false},       {NULL, false, false}};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *real = getenv("FUZZ_SERVER");
    struct err e = {0};
    if (size < 1)
        return 0;
    if (!params.socket && !real)
        server_start();
    size_t which = (data[0] & ~BRAND) % (sizeof deeds / sizeof *deeds);
    params.socket = real ? real : server.path;
    params.bulk = deeds[which].bulk;
    server.mysql = data[0] & BRAND;
    server.raw = deeds[which].raw;
    server.at = data + 1;
    server.end = data + size;
    struct db *db = deeds[which].deed ? db_open(&params, &e) : NULL;
    if (db)
        deeds[which].deed(db);
    else if (!deeds[which].deed)
        read_log();
    db_close(db);
    if (!real)
        server_wait();
    return 0;
}
