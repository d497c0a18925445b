/* Fuzzing of row_image_read() alone. The bytes are: a seed, how many columns, their types, the
 * length of their metadata, the metadata, how much else the map tells, that, which columns are
 * in the rows, and the rows. */
#include <stdlib.h>

#include "scratch.h"
#include "synth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The next `n` bytes in memory of their very size; NULL where there are fewer. */
static uint8_t *part(const uint8_t **data, size_t *size, size_t n)
{
    if (*size < n)
        return NULL;
    uint8_t *p = scratch_copy(*data, n);
    *data += n;
    *size -= n;
    return p;
}

static size_t number(const uint8_t **data, size_t *size)
{
    if (*size == 0)
        return 0;
    --*size;
    return *(*data)++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t types[] = {1,  2,  3,  4,  5,  7,  8,   9,   10,  11, 12,
                                    13, 15, 16, 17, 18, 19, 141, 246, 254, 0,  250};
    uint64_t seed = number(&data, &size);
    size_t columns = number(&data, &size) % 32 + 1;
    uint8_t *type = part(&data, &size, columns);
    for (size_t i = 0; type && i < columns; i++)
        type[i] = types[type[i] % sizeof types];
    struct event_map map = {.schema = "s", .table = "t", .columns = columns, .types = type};
    map.meta_len = number(&data, &size);
    uint8_t *meta = part(&data, &size, map.meta_len);
    map.extra_len = number(&data, &size);
    uint8_t *extra = part(&data, &size, map.extra_len);
    uint8_t *present = part(&data, &size, (columns + 7) / 8);
    if (type && meta && extra && present) {
        map.meta = meta;
        map.extra = extra;
        char *rows = scratch_copy(data, size);
        struct event_rows r = {.columns = columns, .present = present, .data = rows, .len = size};
        synth_rows(&map, &r, seed);
        free(rows);
    }
    free(present);
    free(extra);
    free(meta);
    free(type);
    return 0;
}
