/* The operations of a segment, and the texts in them. Pure; nothing in the bytes is trusted. */
#ifndef WK_JOURNAL_SEGMENT_OP_H
#define WK_JOURNAL_SEGMENT_OP_H

#include <jansson.h>

#include "base/line.h"
#include "binlog/statement_scope.h"
#include "journal/segment.h"
#include "journal/segment_read.h"

void segment_name(const char *world, uint64_t number, char out[SEGMENT_NAME_MAX]);
/* Returns the number in a file's name; 0: it is not a segment of this world. */
uint64_t segment_number(const char *file, const char *world);
/* Writes the GTID of the transaction before a position, in the form of struct db_binlog_pos. */
void segment_gtid(const struct change_gtid *g, struct db_binlog_pos *p);

/* State between operations, on which their meaning depends. */
struct segment_state {
    bool open; /* within a transaction */
    struct change_gtid gtid, last_gtid;
    struct change_gtid to_gtid; /* GTID of sum.to, whose text does not contain it yet */
    bool moved;                 /* place.point.file differs from that of sum.to */
    struct segment_place place; /* position after the last complete transaction */
    int64_t second;             /* time of the last BEGIN, in seconds */
    struct segment_sum sum;
};

/* segment_op.c: pure. */

void segment_put_number(struct buf *b, uint64_t n);
void segment_put_difference(struct buf *b, int64_t n);
void segment_put_text(struct buf *b, const char *s, size_t len);

struct segment_table {
    struct change_table pub;
    char *name;
    unsigned *key;
};
struct segment_parser {
    struct segment_state s;
    struct segment_table **tables;
    size_t count;
    struct segment_head head;
    bool have_head, finalized;
    struct statement_mark mark;
    char text[LINE];
    struct statement_scope scope;
    json_t *scope_texts; /* texts of the last SEGMENT_GAP or _TABLES */
};
/* Parses one operation from `*at`. Returns 1: a change, in `c`; 2: nothing to report; 0:
 * malformed. */
int segment_parse(struct segment_parser *p, const char **at, const char *end, struct change *c);
/* The summary with all its texts. */
const struct segment_sum *segment_parser_sum(struct segment_parser *p);
void segment_parser_free(struct segment_parser *p);

json_t *segment_head_json(const struct segment_head *h);
bool segment_head_read(const char *text, size_t len, struct segment_head *h);
json_t *segment_sum_json(const struct segment_sum *s);
bool segment_sum_read(const char *text, size_t len, struct segment_sum *s);
json_t *segment_table_json(const struct change_table *t);
/* Returns which tables were changed, how, and by which statement; NULL: not UTF-8. */
json_t *segment_tables_json(const struct change *c);
json_t *segment_mark_json(const struct statement_mark *m);
void segment_note(struct segment_sum *s, const struct change *c);

#endif
