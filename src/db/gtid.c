#include "db/gtid.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool of_mysql(const char *gtid)
{
    return strchr(gtid, ':') != NULL;
}

/* FNV-1a. Two that meet would be counted as one: with a handful of servers that does not happen. */
uint32_t db_gtid_domain(const uint8_t uuid[16], const char *tag)
{
    uint32_t h = UINT32_C(0x811c9dc5);
    for (int i = 0; i < 16; i++)
        h = (h ^ uuid[i]) * UINT32_C(0x01000193);
    for (; *tag; tag++)
        h = (h ^ (uint8_t)tolower((unsigned char)*tag)) * UINT32_C(0x01000193);
    return h;
}

/* "3e11fa47-71ca-11e1-9e33-c80aa9429562"; the place behind it, NULL where it is none. */
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

/* "1-5", "7" or "7#44" (of session 44). A server gives the lowest number that is free, so what
 * somebody numbered himself far ahead says nothing. */
static uint64_t go_on(uint64_t seq, const char *s)
{
    uint64_t first, last;
    int n = sscanf(s, "%" SCNu64 "-%" SCNu64, &first, &last);
    if (n == 1)
        last = first;
    return n >= 1 && first <= seq + 1 && last > seq ? last : seq;
}

/* Once over what stands behind the UUID of one server: ":1-5:7:tag:1-9". */
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

/* A server may be there twice, and what is first may go on where the second ends. */
static uint64_t seq_of_mysql(const char *gtid, uint32_t domain)
{
    uint64_t seq = 0, before;
    do {
        before = seq;
        seq = seq_of_servers(gtid, domain, seq);
    } while (seq != before);
    return seq;
}

uint64_t db_gtid_seq(const char *gtid, uint32_t domain)
{
    uint32_t d, server;
    uint64_t seq;
    int n;
    if (of_mysql(gtid))
        return seq_of_mysql(gtid, domain);
    for (; sscanf(gtid, "%" SCNu32 "-%" SCNu32 "-%" SCNu64 "%n", &d, &server, &seq, &n) == 3;
         gtid += n + (gtid[n] == ','))
        if (d == domain)
            return seq;
    return 0;
}

struct db_gtid_range db_gtid_range(const struct db_point *p, uint32_t domain)
{
    const char *after = p->gtid_after[0] ? p->gtid_after : p->gtid;
    return (struct db_gtid_range){db_gtid_seq(p->gtid, domain), db_gtid_seq(after, domain)};
}
