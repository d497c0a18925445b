#include "db/event.h"

#include <string.h>

#include "core/codec.h"
#include "db/event_int.h"

#define FORMAT_TYPE 15u
#define FORMAT_FIXED 57u  /* bytes in front of the list of lengths */
#define FORMAT_TRAILER 5u /* kind of checksum, and one */
#define FLAG_IN_USE 0x01u /* of a format description: the file was not closed */
#define FLAG_IGNORE 0x80u /* who does not know the type may pass over it */
#define GTID_MARIADB 162u

/* What the types are to a follower of row changes. A type without a name is unknown. `post` is how
 * much of the fixed part is read at least. XA PREPARE: see EVENT_XID. A payload is a compressed
 * transaction. MySQL compresses what MEMORY tables did as well, when a statement fails half-way:
 * such a DELETE was seen in one, so none can be passed over. */
static const struct event_type {
    const char *name;
    enum event_kind kind;
    uint8_t post;
    event_body_fn *read;
} types[EVENT_TYPES] = {
    [1] = {"START_V3", EVENT_UNREADABLE, 0, NULL},
    [2] = {"QUERY", EVENT_QUERY, 13, event_body_query},
    [3] = {"STOP", EVENT_STOP, 0, NULL},
    [4] = {"ROTATE", EVENT_ROTATE, 8, event_body_rotate},
    [5] = {"INTVAR", EVENT_SKIPPED, 0, NULL},
    [6] = {"LOAD", EVENT_UNREADABLE, 0, NULL},
    [7] = {"SLAVE", EVENT_SKIPPED, 0, NULL},
    [8] = {"CREATE_FILE", EVENT_UNREADABLE, 0, NULL},
    [9] = {"APPEND_BLOCK", EVENT_UNREADABLE, 0, NULL},
    [10] = {"EXEC_LOAD", EVENT_UNREADABLE, 0, NULL},
    [11] = {"DELETE_FILE", EVENT_UNREADABLE, 0, NULL},
    [12] = {"NEW_LOAD", EVENT_UNREADABLE, 0, NULL},
    [13] = {"RAND", EVENT_SKIPPED, 0, NULL},
    [14] = {"USER_VAR", EVENT_SKIPPED, 0, NULL},
    [FORMAT_TYPE] = {"FORMAT_DESCRIPTION", EVENT_FORMAT, 0, NULL},
    [16] = {"XID", EVENT_XID, 0, NULL},
    [17] = {"BEGIN_LOAD_QUERY", EVENT_UNREADABLE, 0, NULL},
    [18] = {"EXECUTE_LOAD_QUERY", EVENT_UNREADABLE, 0, NULL},
    [19] = {"TABLE_MAP", EVENT_MAP, 6, event_body_map},
    [20] = {"PRE_GA_WRITE_ROWS", EVENT_UNREADABLE, 0, NULL},
    [21] = {"PRE_GA_UPDATE_ROWS", EVENT_UNREADABLE, 0, NULL},
    [22] = {"PRE_GA_DELETE_ROWS", EVENT_UNREADABLE, 0, NULL},
    [23] = {"WRITE_ROWS_V1", EVENT_ROWS, 6, event_body_insert},
    [24] = {"UPDATE_ROWS_V1", EVENT_ROWS, 6, event_body_update},
    [25] = {"DELETE_ROWS_V1", EVENT_ROWS, 6, event_body_delete},
    [26] = {"INCIDENT", EVENT_LOST, 0, NULL},
    [27] = {"HEARTBEAT", EVENT_HEARTBEAT, 0, event_body_heartbeat},
    [28] = {"IGNORABLE", EVENT_SKIPPED, 0, NULL},
    [29] = {"ROWS_QUERY", EVENT_SKIPPED, 0, NULL},
    [30] = {"WRITE_ROWS", EVENT_ROWS, 10, event_body_insert},
    [31] = {"UPDATE_ROWS", EVENT_ROWS, 10, event_body_update},
    [32] = {"DELETE_ROWS", EVENT_ROWS, 10, event_body_delete},
    [33] = {"GTID", EVENT_GTID, 25, event_body_gtid_mysql},
    [34] = {"ANONYMOUS_GTID", EVENT_GTID, 25, event_body_gtid_mysql},
    [35] = {"PREVIOUS_GTIDS", EVENT_SKIPPED, 0, NULL},
    [36] = {"TRANSACTION_CONTEXT", EVENT_SKIPPED, 0, NULL},
    [37] = {"VIEW_CHANGE", EVENT_SKIPPED, 0, NULL},
    [38] = {"XA_PREPARE", EVENT_XID, 0, NULL},
    [39] = {"PARTIAL_UPDATE_ROWS", EVENT_ROWS, 10, event_body_partial},
    [40] = {"TRANSACTION_PAYLOAD", EVENT_UNREADABLE, 0, NULL},
    [41] = {"HEARTBEAT_V2", EVENT_HEARTBEAT, 0, event_body_heartbeat2},
    [42] = {"GTID_TAGGED", EVENT_GTID, 0, event_body_gtid_tagged},
    [160] = {"ANNOTATE_ROWS", EVENT_SKIPPED, 0, NULL},
    [161] = {"BINLOG_CHECKPOINT", EVENT_SKIPPED, 0, NULL},
    [GTID_MARIADB] = {"GTID", EVENT_GTID, 13, event_body_gtid_mariadb},
    [163] = {"GTID_LIST", EVENT_SKIPPED, 0, NULL},
    [164] = {"START_ENCRYPTION", EVENT_SKIPPED, 0, NULL},
    [165] = {"QUERY_COMPRESSED", EVENT_UNREADABLE, 0, NULL},
    [166] = {"WRITE_ROWS_COMPRESSED_V1", EVENT_UNREADABLE, 0, NULL},
    [167] = {"UPDATE_ROWS_COMPRESSED_V1", EVENT_UNREADABLE, 0, NULL},
    [168] = {"DELETE_ROWS_COMPRESSED_V1", EVENT_UNREADABLE, 0, NULL},
    [169] = {"WRITE_ROWS_COMPRESSED", EVENT_UNREADABLE, 0, NULL},
    [170] = {"UPDATE_ROWS_COMPRESSED", EVENT_UNREADABLE, 0, NULL},
    [171] = {"DELETE_ROWS_COMPRESSED", EVENT_UNREADABLE, 0, NULL},
};

struct event_format event_format_first(bool checksum)
{
    struct event_format f = {.checksum = checksum};
    for (unsigned i = 0; i < EVENT_TYPES; i++)
        f.post[i] = types[i].post;
    f.post[19] = f.post[23] = f.post[24] = f.post[25] = 8; /* table ids of six bytes */
    return f;
}

static int damaged(const struct event *ev, const char *what, struct err *e)
{
    return err_set(e, ERR_DAMAGED, 0, "binary log event %s (type %u) that ends at %lu: %s",
                   ev->name ? ev->name : "header", ev->type, (unsigned long)ev->next, what);
}

/* The flag that a file is in use is set and cleared in place: no checksum counts it. */
static uint32_t checksum(const uint8_t *bytes, size_t len, bool format)
{
    uint8_t flag = bytes[17] & (uint8_t)~FLAG_IN_USE;
    if (!format)
        return codec_crc32(0, bytes, len);
    uint32_t crc = codec_crc32(0, bytes, 17);
    crc = codec_crc32(crc, &flag, 1);
    return codec_crc32(crc, bytes + 18, len - 18);
}

/* A format description that tells of no checksums has one nevertheless, but who sends it may have
 * changed it. One that would be right if it told of them is damaged in this very byte. */
static bool lost_its_checksum(const uint8_t *bytes, size_t len, uint32_t stored)
{
    const uint8_t crc32_kind = 1;
    uint8_t head[EVENT_HEADER];
    memcpy(head, bytes, sizeof head);
    head[17] &= (uint8_t)~FLAG_IN_USE;
    uint32_t crc = codec_crc32(0, head, sizeof head);
    crc = codec_crc32(crc, bytes + EVENT_HEADER, len - EVENT_HEADER - FORMAT_TRAILER);
    return codec_crc32(crc, &crc32_kind, 1) == stored;
}

/* Takes the checksum off `body`. */
static const char *verify(const struct event_format *f, const uint8_t *bytes, size_t len,
                          const struct event *ev, struct cursor *body)
{
    bool format = ev->type == FORMAT_TYPE, expected = f->checksum;
    if (format) {
        if (cursor_left(body) < FORMAT_FIXED + FORMAT_TRAILER)
            return "it is cut off";
        uint8_t kind = body->end[-(int)FORMAT_TRAILER];
        if (kind > 1)
            return "it announces checksums of an unknown kind";
        expected = kind == 1;
    }
    if (!format && !expected)
        return NULL;
    if (cursor_left(body) < 4)
        return "it is cut off";
    body->end -= 4;
    struct cursor c = {body->end, body->end + 4, false};
    uint32_t stored = (uint32_t)cursor_number(&c, 4);
    if (expected ? checksum(bytes, len - 4, format) != stored
                 : lost_its_checksum(bytes, len, stored))
        return "its checksum is wrong";
    return NULL;
}

static const char *read_format(struct cursor *c, struct event_format *out)
{
    *out = (struct event_format){0};
    unsigned version = (unsigned)cursor_number(c, 2);
    const uint8_t *server = cursor_bytes(c, 50);
    out->created = (uint32_t)cursor_number(c, 4);
    size_t header = (size_t)cursor_number(c, 1);
    if (!server || version != 4 || header != EVENT_HEADER)
        return "it describes another version of the binary log than 4";
    memcpy(out->version, server, 50);
    out->checksum = c->end[-1] == 1;
    c->end--;
    size_t n = cursor_left(c);
    if (n < FORMAT_TYPE || n >= EVENT_TYPES)
        return "it describes too few or too many types of events";
    memcpy(out->post + 1, c->at, n);
    if (out->post[FORMAT_TYPE] != (uint8_t)(FORMAT_FIXED + n))
        return "its length is not what it says about itself";
    out->mariadb = n >= GTID_MARIADB || strstr(out->version, "MariaDB");
    return NULL;
}

/* `post` becomes the fixed part, `body` what is behind it. */
static const char *read_body(const struct event_format *f, struct cursor *post, struct cursor *body,
                             struct event *out)
{
    const struct event_type *t = &types[out->type];
    if (out->type == FORMAT_TYPE)
        return read_format(body, &out->format);
    if (!t->read)
        return NULL;
    unsigned n = f->post[out->type];
    if (n < t->post)
        return "the format description makes it too short";
    *post = (struct cursor){body->at, body->at, false};
    if (!cursor_bytes(body, n))
        return "it is cut off";
    post->end = body->at;
    const char *wrong = t->read(f, post, body, out);
    return post->broken || body->broken ? "it is cut off" : wrong;
}

static void read_header(struct cursor *c, struct event *out)
{
    *out = (struct event){0};
    out->at = (uint32_t)cursor_number(c, 4);
    out->type = (unsigned)cursor_number(c, 1);
    out->server_id = (uint32_t)cursor_number(c, 4);
    out->size = (uint32_t)cursor_number(c, 4);
    out->next = (uint32_t)cursor_number(c, 4);
    out->flags = (unsigned)cursor_number(c, 2);
    const struct event_type *t = &types[out->type];
    out->name = t->name ? t->name : "of an unknown type";
    out->kind = t->name ? t->kind : out->flags & FLAG_IGNORE ? EVENT_SKIPPED : EVENT_UNREADABLE;
}

int event_read(const struct event_format *f, const char *bytes, size_t len, struct event *out,
               struct err *e)
{
    const uint8_t *p = (const uint8_t *)bytes;
    struct cursor post, body = {p, p + len, false};
    read_header(&body, out);
    if (body.broken || out->size != len)
        return damaged(out, "its length is not what it says", e);
    const char *wrong = verify(f, p, len, out, &body);
    if (!wrong)
        wrong = read_body(f, &post, &body, out);
    return wrong ? damaged(out, wrong, e) : 0;
}
