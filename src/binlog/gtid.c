#include "binlog/gtid.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sql/literal.h"

/* Returns the 32-bit FNV-1a hash that journals and manifests store. Two servers with the same
 * hash would be treated as one, which is practically impossible with a handful of servers. */
uint32_t db_gtid_domain(const uint8_t uuid[16], const char *tag)
{
    uint32_t h = UINT32_C(0x811c9dc5);
    for (int i = 0; i < 16; i++)
        h = (h ^ uuid[i]) * UINT32_C(0x01000193);
    for (; *tag; tag++)
        h = (h ^ (uint8_t)tolower((unsigned char)*tag)) * UINT32_C(0x01000193);
    return h;
}

/* Reads a UUID such as "3e11fa47-71ca-11e1-9e33-c80aa9429562". Returns the position after it, or
 * NULL if it is malformed. */
static const char *read_uuid(const char *s, uint8_t out[16])
{
    for (int i = 0; i < 16; i++) {
        unsigned byte;
        if (*s == '-')
            s++;
        if (!isxdigit((unsigned char)s[0]) || !isxdigit((unsigned char)s[1]) ||
            sscanf(s, "%2x", &byte) != 1)
            return NULL;
        out[i] = (uint8_t)byte;
        s += 2;
    }
    return s;
}

/* Extends `seq` by an interval "1-5", "7" or "7#44" (of session 44). A server assigns the lowest
 * free number, so a number far ahead, which a client assigned itself, is ignored. */
static uint64_t go_on(uint64_t seq, const char *s)
{
    uint64_t first, last;
    int n = sscanf(s, "%" SCNu64 "-%" SCNu64, &first, &last);
    if (n == 1)
        last = first;
    return n >= 1 && first <= seq + 1 && last > seq ? last : seq;
}

/* Reads once what follows the UUID of one server: ":1-5:7:tag:1-9". */
static uint64_t seq_of_server(const uint8_t uuid[16], const char *s, uint32_t domain, uint64_t seq)
{
    char tag[33] = "";
    while (*s == ':') {
        s++;
        s += strspn(s, " \n");
        size_t n = strcspn(s, ":, \n");
        if (isdigit((unsigned char)*s)) {
            if (db_gtid_domain(uuid, tag) == domain)
                seq = go_on(seq, s);
        } else if (n < sizeof tag) {
            memcpy(tag, s, n);
            tag[n] = '\0';
        } else {
            break;
        }
        s += n;
    }
    return seq;
}

static uint64_t seq_of_servers(const char *gtid, uint32_t domain, uint64_t seq)
{
    while (gtid) {
        uint8_t uuid[16];
        gtid += strspn(gtid, ", \n");
        const char *rest = read_uuid(gtid, uuid);
        if (!rest)
            break;
        seq = seq_of_server(uuid, rest, domain, seq);
        gtid = strchr(rest, ',');
    }
    return seq;
}

/* Returns the highest number of a domain. The set is read until nothing changes, because a
 * server may occur twice and its first part may continue its second. */
static uint64_t seq_of_mysql(const char *gtid, uint32_t domain)
{
    uint64_t seq = 0, before;
    do {
        before = seq;
        seq = seq_of_servers(gtid, domain, seq);
    } while (seq != before);
    return seq;
}

/* Reads one of MariaDB's GTIDs. Returns the position of the next one, or NULL if there is none. */
static const char *read_mariadb(const char *s, struct change_gtid *out)
{
    int n;
    if (sscanf(s, "%" SCNu32 "-%" SCNu32 "-%" SCNu64 "%n", &out->domain, &out->server, &out->seq,
               &n) != 3)
        return NULL;
    return s + n + (s[n] == ',');
}

struct change_gtid db_gtid_last(const char *gtid, uint32_t domain)
{
    struct change_gtid g;
    if (strchr(gtid, ':')) /* MySQL's format */
        return (struct change_gtid){.domain = domain, .seq = seq_of_mysql(gtid, domain)};
    while ((gtid = read_mariadb(gtid, &g)))
        if (g.domain == domain)
            return g;
    return (struct change_gtid){.domain = domain};
}

/* Returns the GTIDs written up to a moment after the position. */
static const char *gtid_after(const struct db_binlog_pos *p)
{
    return p->gtid_after[0] ? p->gtid_after : p->gtid;
}

struct db_gtid_range db_gtid_range(const struct db_binlog_pos *p, uint32_t domain)
{
    return (struct db_gtid_range){db_gtid_last(p->gtid, domain),
                                  db_gtid_last(gtid_after(p), domain)};
}

/* ---- does a log continue? ---- */

bool db_gtid_ordered(const char *uid, const struct change_gtid *a, const struct change_gtid *b)
{
    uint8_t uuid[16];
    const char *rest = read_uuid(uid, uuid);
    bool mysql = rest && !*rest;
    return a->domain == b->domain &&
           (mysql ? db_gtid_domain(uuid, "") == a->domain : a->server == b->server);
}

/* Returns whether MariaDB's last transaction of a domain is in the range. If the range begins and
 * ends with transactions of two servers, the numbers between them are not known. */
static bool is_within(const struct change_gtid *g, const struct db_gtid_range *r)
{
    bool is_least = g->server == r->least.server && g->seq == r->least.seq;
    bool is_most = g->server == r->most.server && g->seq == r->most.seq;
    bool same = g->server == r->least.server && g->server == r->most.server;
    return is_least || is_most || (same && g->seq > r->least.seq && g->seq < r->most.seq);
}

bool db_gtid_confirmed(const char *reported, const struct db_binlog_pos *p)
{
    struct change_gtid was;
    for (const char *s = gtid_after(p); (s = read_mariadb(s, &was));) {
        struct db_gtid_range range = db_gtid_range(p, was.domain);
        struct change_gtid is = db_gtid_last(reported, was.domain);
        if (!is_within(&is, &range))
            return false;
    }
    return true;
}

/* Returns whether a GTID is included. A segment's position contains only the last transaction. */
static bool gtid_has(const char *gtid, uint32_t domain, uint64_t seq)
{
    return strchr(gtid, ':') ? seq_of_servers(gtid, domain, seq - 1) >= seq
                             : db_gtid_last(gtid, domain).seq == seq;
}

/* Returns the server's answer, "" if it has none, or NULL on error. */
static char *gtid_ask(struct db *db, const char *sql, struct err *e)
{
    char *answer = db_one(db, sql, e);
    return answer || db_unanswered(e) ? answer : xstrdup("");
}

/* Asks MariaDB for the GTIDs at a position. The transaction after them may have any number: a
 * session may jump (gtid_seq_no), as may a replica that skips transactions. A replica's own
 * transactions and those of its source are counted separately in one domain, so a lower number may
 * follow a higher one. The server reads its file up to the position, which takes time, and reports
 * what was written before it. */
static char *numbers_at(struct db *db, const struct db_binlog_pos *point, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    buf_adds(&sql, "SELECT BINLOG_GTID_POS(");
    sql_string(&sql, point->file, strlen(point->file));
    buf_printf(&sql, ",%" PRIu64 ")", point->pos);
    return gtid_ask(db, sql.p, e);
}

/* If `first` is not the next number, returns whether the server explains why. Returns -1 if the
 * server does not answer. */
static int gtid_explained(struct db *db, const struct db_binlog_pos *point,
                          const struct change_gtid *first, struct err *e)
{
    bool maria = db_is_mariadb(db);
    SCOPED(xfree)
    char *answer = maria ? numbers_at(db, point, e) : gtid_ask(db, "SELECT @@server_uuid", e);
    if (!answer)
        return -1;
    return maria ? db_gtid_confirmed(answer, point)
                 : *answer && !db_gtid_ordered(answer, first, first) &&
                       !gtid_has(point->gtid, first->domain, first->seq);
}

int log_is_continuous(const struct db_params *p, const struct db_binlog_pos *point,
                      const struct change_gtid *first, struct err *e)
{
    struct db_gtid_range range = db_gtid_range(point, first->domain);
    bool next = range.least.server == range.most.server && first->seq > range.least.seq &&
                first->seq <= range.most.seq + 1;
    if (!first->seq || range.most.seq == 0 || next)
        return 0;
    struct db *db = db_open(p, e);
    int yes = db ? gtid_explained(db, point, first, e) : -1;
    db_close(db);
    if (yes)
        return yes < 0 ? -1 : 0;
    return err_set(e, ERR_GAP, 0,
                   "this is not the same binary log as before: it continues with number %" PRIu64
                   " after %" PRIu64,
                   first->seq, range.most.seq);
}
