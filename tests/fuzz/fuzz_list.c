/* Fuzzing of what S3 and WebDAV stores answer to a list or a sweep: the first byte chooses, the
 * second says how a request ends, the third is the length of a piece; then pages, each ended by a
 * zero byte, and empty answers for what is asked beyond them.
 *
 * A name that is given out is one of ours, in the directory that was asked for; in pieces of any
 * length it is the same list or the same refusal; a refusal is one line without a secret. */
#include <stdio.h>

#include "base/text.h"
#include "fake_curl.h"
#include "offsite/remote.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DIR "w/dumps/"
#define SECRET "SEKRITaccesskeyOfTheStore"
static char s3[] = "s3://bucket/a b/", dav[] = "http://127.0.0.1/a/", region[] = "r",
            endpoint[] = "http://127.0.0.1:9";
static size_t step, asked;

static CURLcode easy_perform(CURL *h)
{
    (void)h;
    asked++;
    const char *zero = memchr(f.rest, '\0', (size_t)(f.end - f.rest));
    const char *end = zero ? zero : f.end;
    while (f.rest < end) {
        size_t len = step < (size_t)(end - f.rest) ? step : (size_t)(end - f.rest);
        char *copy = scratch_copy(f.rest, len);
        size_t took = f.body(copy, 1, len, f.body_arg);
        free(copy);
        f.rest += len;
        if (took != len) {
            f.rest = zero ? zero + 1 : f.end;
            return CURLE_WRITE_ERROR;
        }
    }
    f.rest = zero ? zero + 1 : f.end;
    return f.ends;
}

static int on_entry(void *arg, const struct remote_entry *x, struct err *e)
{
    (void)e;
    demand(remote_name_valid(x->name) && strncmp(x->name, DIR, sizeof DIR - 1) == 0);
    demand(!strchr(x->name + sizeof DIR - 1, '/') && x->size >= -1);
    buf_printf(arg, "%s %lld\n", x->name, (long long)x->size);
    return 0;
}

static bool has_secret; /* WebDAV is asked without a login */

static void judge(enum remote_result got, const struct err *e, struct buf *out)
{
    buf_printf(out, "%s: %s\n", remote_result_name(got), got == REMOTE_OK ? "" : e->text);
    if (got == REMOTE_OK)
        return;
    demand(e->cls != ERR_NONE && !(has_secret && strstr(e->text, SECRET)) &&
           text_utf8_valid(e->text, strlen(e->text)));
    for (const char *s = e->text; *s; s++)
        demand((unsigned char)*s >= 0x20 && *s != 0x7f);
}

static void ask(const struct config *c, bool sweep, struct buf *out)
{
    struct remote *r;
    struct err e = {0};
    unsigned removed = 0;
    buf_adds(out, "");
    demand(remote_open(c, &r, &e) == REMOTE_OK);
    const struct remote_list to = {on_entry, out};
    judge(sweep ? remote_sweep(r, DIR, (wall_t){INT64_C(2000000000000)}, 0, &removed, &e)
                : remote_list(r, DIR, &to, &e),
          &e, out);
    demand(removed < asked);
    remote_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const long statuses[] = {200, 207, 200, 403, 404, 503, 301, 207};
    static char key[48];
    struct buf whole = {0}, pieces = {0};
    if (size < 3)
        return 0;
    if (!key[0]) {
        scratch_put("key", "ID:" SECRET, sizeof "ID:" SECRET - 1);
        snprintf(key, sizeof key, "/proc/self/fd/%d/key", scratch_dir());
    }
    bool is_s3 = has_secret = data[0] & 1;
    static char name[] = "w";
    struct config c = {.name = name};
    c.offsite.url = is_s3 ? s3 : dav;
    c.offsite.timeout = 1000;
    c.offsite.region = region;
    c.offsite.endpoint = is_s3 ? endpoint : NULL;
    c.offsite.access_key_file = is_s3 ? key : NULL;
    for (int i = 0; i < 2; i++) {
        f = (struct fake){.status = data[1] ? statuses[data[1] % 8]
                                    : is_s3 ? 200
                                            : 207,
                          .ends = data[1] & 16 ? CURLE_RECV_ERROR : CURLE_OK};
        f.all = f.rest = (const char *)data + 3;
        f.end = f.rest + size - 3;
        step = i ? 1u + data[2] : size;
        asked = 0;
        ask(&c, is_s3 && data[0] & 2, i ? &pieces : &whole);
    }
    demand(strcmp(whole.p, pieces.p) == 0);
    buf_free(&whole);
    buf_free(&pieces);
    return 0;
}
