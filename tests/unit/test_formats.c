/* Files of other versions: an older format is read and upgraded; a newer one is refused with a
 * clear message and left unchanged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/codec.h"
#include "base/js.h"
#include "base/text.h"
#include "dir_kit.h"
#include "journal/segment_read.h"
#include "segment_kit.h"
#include "standby/lease_int.h"
#include "store/kept.h"
#include "store/manifest.h"
#include "store/pending.h"
#include "store/pin.h"
#include "store/proof.h"
#include "store/round.h"
#include "store/state.h"

#define NONCE "0123456789abcdef0123456789abcdef"
#define NAME "w-000001-00000002-20240101T000000Z"

static int64_t format_of(const char *file)
{
    SCOPED(xfree) char *text = kit_get(file, NULL);
    json_auto_t *o = json_loads(text, 0, NULL);
    return js_number(o, "format", -1);
}

static void newer(const char *file, const char *more)
{
    SCOPED(xfree) char *text = xasprintf("{\"format\": 99%s}", more);
    kit_text(file, text);
}

/* The words name the file, what it is, and the way out. */
static void refused(const struct err *e, const char *file)
{
    assert_true(kept_is_newer(e));
    SCOPED(xfree) char *words =
        xasprintf("%s was written by a newer version of worldkeeper: its format is 99, ", file);
    assert_true(text_starts(e->text, words));
    assert_non_null(strstr(e->hint, "version again"));
}

/* Versions up to 0.2 wrote no number. */
static void test_state(void **state)
{
    (void)state;
    struct state s;
    struct err e = {0};
    kit_text("state.json", "{\"known\": true, \"nonce\": \"" NONCE "\", \"generation\": 7}");
    assert_int_equal(state_load(kit_dir, &s, &e), 0);
    assert_true(s.known && s.generation == 7);
    assert_int_equal(state_save(kit_dir, &s, &e), 0);
    assert_int_equal(format_of("state.json"), KEPT_FORMAT);
    assert_int_equal(state_load(kit_dir, &s, &e), 0);
    assert_true(s.known && s.generation == 7);

    newer("state.json", ", \"generation\": 8");
    assert_int_equal(state_load(kit_dir, &s, &e), -1);
    refused(&e, "state.json");
    assert_int_equal(s.generation, 0);
    assert_int_equal(state_sign(kit_dir, &e), -1);
    refused(&e, "state.json");
    assert_int_equal(format_of("state.json"), 99);
}

/* Its digest, which the server has, covers the number: without one it is that of the version
 * that wrote it. */
static void test_pending(void **state)
{
    (void)state;
    struct pending p = {0}, got;
    struct err e = {0};
    char digest[PENDING_DIGEST];
    kit_text("pending.json", "{\"nonce\": \"" NONCE "\", \"generation\": 7, \"dump\": \"\", "
                             "\"tables\": [], \"triggers\": []}");
    assert_int_equal(pending_load(kit_dir, &got, &e), 0);
    pending_free(&got);
    memcpy(p.nonce, NONCE, sizeof NONCE);
    p.generation = 7;
    assert_int_equal(pending_save(kit_dir, &p, &e), 0);
    assert_int_equal(format_of("pending.json"), KEPT_FORMAT);
    assert_int_equal(pending_digest(&p, digest, &e), 0);
    assert_int_equal(pending_load(kit_dir, &got, &e), 0);
    assert_string_equal(got.digest, digest);
    pending_free(&got);
    newer("pending.json", "");
    assert_int_equal(pending_load(kit_dir, &got, &e), -1);
    refused(&e, "pending.json");
}

/* What a newer version says of a dump is not known: it is kept, and not used. The number of a
 * round counts in any case: without it dumps of earlier rounds would be restored. */
static void test_beside_dumps(void **state)
{
    (void)state;
    struct err e = {0};
    struct pin pin;
    struct proof proof;
    struct round round;
    newer(NAME PIN_ENDING, "");
    pin_read(kit_dir, NAME, &pin);
    assert_true(pin_holds(&pin, &(struct config_retention){0}, clock_wall()));
    assert_non_null(strstr(pin.reason, "newer version"));
    newer(NAME PROOF_ENDING, "");
    assert_int_equal(proof_read(kit_dir, NAME, &proof, &e), -1);
    refused(&e, NAME PROOF_ENDING);
    newer("round.json", ", \"round\": 3, \"nonce\": \"" NONCE "\"");
    round_read(kit_dir, &round);
    assert_int_equal(round.number, 3);
    assert_string_equal(round.nonce, "");
}

/* No damage, for damaged dumps are deleted; but a flipped bit is no newer version. */
static void test_manifest(void **state)
{
    (void)state;
    struct err e = {0};
    struct manifest m;
    json_auto_t *o = json_pack("{s:i}", "format", 99);
    assert_int_equal(manifest_sign(o), 0);
    SCOPED(xfree) char *text = json_dumps(o, 0);
    assert_int_equal(manifest_parse(text, strlen(text), NAME, &m, &e), -1);
    refused(&e, "manifest " NAME ".json: it");
    manifest_free(&m);
    json_object_set_new(o, "format", json_integer(98));
    SCOPED(xfree) char *flipped = json_dumps(o, 0);
    assert_int_equal(manifest_parse(flipped, strlen(flipped), NAME, &m, &e), -1);
    assert_int_equal(e.cls, ERR_DAMAGED);
    manifest_free(&m);
}

static void little(unsigned char *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

/* A frame whose checksums are right: the file is as a newer version wrote it. */
static void test_segment(void **state)
{
    (void)state;
    struct kit_segment seg;
    struct segment_head h = kit_head(1);
    struct segment_sum sum;
    struct err e = {0};
    char damage[LINE];
    size_t len;
    kit_begin_segment(&seg, &h);
    kit_finalize(&seg);
    SCOPED(xfree) char *file = kit_get(seg.file, &len);
    char *at = memmem(file, len, "\"worldkeeper journal\"", 21);
    assert_non_null(at);
    at[strcspn(at, "1")] = '9';
    unsigned char *frame = (unsigned char *)file, front[28];
    uint32_t body = (uint32_t)frame[4] | (uint32_t)frame[5] << 8 | (uint32_t)frame[6] << 16;
    little(frame + 8, codec_crc32(0, file + 16, body), 4);
    little(front, 1, 8);
    little(front + 8, 0, 8);
    memcpy(front + 16, frame, 12);
    little(frame + 12, codec_crc32(0, (char *)front, sizeof front), 4);
    kit_put(seg.file, file, len);
    assert_int_equal(segment_peek(kit_dir, seg.file, &h, &sum, &e), -1);
    assert_true(kept_is_newer(&e));
    assert_non_null(strstr(e.text, seg.file));
    assert_non_null(strstr(e.text, "its format is 9, "));
    /* Nor is it cut off. */
    assert_int_equal(segment_recover(kit_dir, seg.file, damage, &e), -1);
    size_t after;
    SCOPED(xfree) char *still = kit_get(seg.file, &after);
    assert_int_equal(after, len);
    assert_memory_equal(still, file, len);
    kit_forget_segment(&seg);
}

static void test_lease(void **state)
{
    (void)state;
    struct err e = {0};
    struct lease_record r;
    static const char text[] = "{\"format\": 99, \"number\": 1, \"generation\": 1, "
                               "\"holder\": \"h\", \"free\": false, \"ttl_ms\": 15000}";
    assert_int_equal(lease_parse(text, sizeof text - 1, "the lease", &r, &e), -1);
    refused(&e, "the lease");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_state, kit_clean),
        cmocka_unit_test_teardown(test_pending, kit_clean),
        cmocka_unit_test_teardown(test_beside_dumps, kit_clean),
        cmocka_unit_test(test_manifest),
        cmocka_unit_test_teardown(test_segment, kit_clean),
        cmocka_unit_test(test_lease),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
