/* Fuzzing of the reader of age files: in pieces of any length it gives the same bytes or the
 * same refusal, and a file that was changed gives only whole chunks of what was written. The
 * first byte is the length of a piece; the lowest bit of the second selects: the rest is a file,
 * or changes (place, place, bits) of one that the target made. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "offsite/age_keys.h"
#include "offsite/age_read.h"
#include "offsite/age_write.h"
#include "scratch.h"

#define PLAIN 140000u
#define CHUNK 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct age_keys identity = {.key = {{1, 2, 3}}, .count = 1};

static int into_buf(void *arg, const void *p, size_t len, struct err *e)
{
    (void)e;
    buf_add(arg, p, len);
    return 0;
}

static bool read_all(const char *p, size_t len, size_t step, struct buf *out)
{
    struct err e = {0};
    int rc = 0;
    struct age_reader *r = age_read_open(&identity, into_buf, out);
    buf_adds(out, "");
    for (size_t at = 0; at < len && rc == 0; at += step)
        rc = age_read(r, p + at, step < len - at ? step : len - at, &e);
    if (rc == 0)
        rc = age_read_end(r, &e);
    age_read_free(r);
    demand(rc == 0 || e.cls == ERR_DAMAGED || e.cls == ERR_CONFIG);
    return rc == 0;
}

/* Of zeros: made once. */
static const struct buf *made(void)
{
    static struct buf b;
    static char plain[PLAIN];
    struct age_keys to = {0};
    char text[AGE_TEXT];
    if (b.len)
        return &b;
    demand(age_recipient_of(identity.key[0], text, NULL) == 0 &&
           age_recipients(text, &to, NULL) == 0);
    struct age_writer *w = age_write_open(&to, into_buf, &b, NULL);
    demand(w && age_write(w, plain, sizeof plain, NULL) == 0 && age_write_end(w, NULL) == 0);
    age_write_free(w);
    demand(b.len == age_size(1, PLAIN));
    return &b;
}

static void change(const uint8_t *p, size_t len, struct buf *b)
{
    buf_add(b, made()->p, made()->len);
    for (; len >= 3; p += 3, len -= 3) {
        size_t at = (p[0] | (size_t)p[1] << 8) * 3 % b->len;
        b->p[p[0] & 1 ? at : at % 256] ^= (char)p[2];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf file = {0}, whole = {0}, pieces = {0};
    if (size < 2)
        return 0;
    bool ours = data[1] & 1;
    if (ours)
        change(data + 2, size - 2, &file);
    else
        buf_add(&file, data + 2, size - 2);
    bool sound = read_all(file.p ? file.p : "", file.len, file.len + 1, &whole);
    demand(read_all(file.p ? file.p : "", file.len, 1u + data[0], &pieces) == sound);
    demand(whole.len == pieces.len && memcmp(whole.p, pieces.p, whole.len) == 0);
    if (ours) {
        demand(sound == (memcmp(file.p, made()->p, file.len) == 0));
        demand(sound ? whole.len == PLAIN : whole.len % CHUNK == 0 && whole.len < PLAIN);
        for (size_t i = 0; i < whole.len; i++)
            demand(whole.p[i] == 0);
    }
    buf_free(&file);
    buf_free(&whole);
    buf_free(&pieces);
    return 0;
}
