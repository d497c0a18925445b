/* Fuzzing of segment_parse(), the operations of a segment, without the frames around them. The
 * first byte says whether a head stands before the others, or whether they have one of their own.
 */
#include <stdlib.h>
#include <string.h>

#include "changes.h"
#include "journal/segment_int.h"
#include "journal/segment_op.h"
#include "journal/segment_read.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct segment_head head = {
    .world = "w", .number = 1, .from = {.point = {.file = "log.000001", .pos = 4}}};

static int parse(struct segment_parser *p, struct changes *m, const char *from, const char *end)
{
    struct change c;
    const char *at = from;
    int got = 2;
    while (got > 0 && at < end) {
        const char *was = at;
        bool finalized = p->finalized;
        got = segment_parse(p, &at, end, &c);
        if (at < was || at > end || (got > 0 && (finalized || at == was)))
            abort();
        if (got == 1)
            changes_take(m, &c, was, at);
    }
    return got;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct segment_parser p = {0};
    struct changes m = {0};
    struct buf own = {0};
    if (size == 0)
        return 0;
    if (data[0] & 1) {
        json_t *o = segment_head_json(&head);
        char *s = json_dumps(o, JSON_COMPACT);
        buf_addc(&own, SEGMENT_HEAD);
        segment_put_text(&own, s, strlen(s));
        free(s);
        json_decref(o);
        if (parse(&p, &m, own.p, own.p + own.len) != 2 || !p.have_head)
            abort();
    }
    char *bytes = scratch_copy(data + 1, size - 1);
    if (parse(&p, &m, bytes, bytes + size - 1) > 0)
        changes_sum(&m, segment_parser_sum(&p));
    free(bytes);
    buf_free(&own);
    segment_parser_free(&p);
    return 0;
}
