/* Fuzzing of event_read() over a stream of events as a file of the binary log has them, and of
 * row_image_read() over the rows in it. Lengths and checksums are put right, or nothing behind them
 * would ever be reached; each event is read as it came, too. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "scratch.h"
#include "synth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct stream {
    struct event_format format;
    char *map_bytes; /* of the last map event */
    struct event_map map;
    uint64_t events;
    struct buf plain;
};

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static void repair(uint8_t *p, size_t len, const struct event_format *f)
{
    bool format = p[4] == 15;
    put32(p + 9, (uint32_t)len);
    if (len < EVENT_HEADER + 4 || (format ? len < 30 || p[len - 5] != 1 : !f->checksum))
        return;
    uint8_t flag = p[17];
    if (format)
        p[17] &= 0xfe;
    put32(p + len - 4, (uint32_t)crc32(0, p, (uInt)len - 4));
    p[17] = flag;
}

/* Keeps `bytes` where the map points into them. */
static bool take(struct stream *s, char *bytes, const struct event *ev)
{
    if (ev->kind == EVENT_FORMAT)
        s->format = ev->format;
    if (ev->kind == EVENT_ROWS && s->map_bytes)
        synth_rows(&s->map, &ev->rows, s->events);
    if (ev->kind != EVENT_MAP)
        return false;
    free(s->map_bytes);
    s->map_bytes = bytes;
    s->map = ev->map;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stream s = {.format = event_format_first(false)};
    for (size_t at = 0; size - at >= EVENT_HEADER; s.events++) {
        uint32_t len;
        memcpy(&len, data + at + 9, 4);
        if (len < EVENT_HEADER || len > size - at)
            len = (uint32_t)(size - at);
        char *bytes = scratch_copy(data + at, len);
        at += len;
        struct event ev;
        struct err e;
        event_read(&s.format, bytes, len, &ev, &e);
        repair((uint8_t *)bytes, len, &s.format);
        if (event_read(&s.format, bytes, len, &ev, &e) < 0 || event_unpack(&ev, &s.plain, &e) < 0 ||
            !take(&s, bytes, &ev))
            free(bytes);
    }
    free(s.map_bytes);
    buf_free(&s.plain);
    return 0;
}
