/* offsite/age: age(1) can read what we write and the reverse, at the sizes at which chunks begin
 * and end. Cut or changed input is detected, and no byte of it is returned; errors in keys are
 * named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dir_kit.h"
#include "offsite/age_keys.h"
#include "offsite/age_read.h"
#include "offsite/age_write.h"

static const size_t sizes[] = {0, 1, 65535, 65536, 65537, 131072};
#define SIZES (sizeof sizes / sizeof *sizes)

static struct age_keys own, other; /* identities */
static char own_text[AGE_TEXT], other_text[AGE_TEXT];
static struct err e;

static int set_up(void **state)
{
    own.count = other.count = 1;
    for (unsigned i = 0; i < AGE_KEY; i++) {
        own.key[0][i] = (unsigned char)(i * 7 + 1);
        other.key[0][i] = (unsigned char)(i * 5 + 3);
    }
    assert_int_equal(age_recipient_of(own.key[0], own_text, &e), 0);
    assert_int_equal(age_recipient_of(other.key[0], other_text, &e), 0);
    return kit_set_up(state);
}

static int into_buf(void *arg, const void *data, size_t len, struct err *err)
{
    (void)err;
    buf_add(arg, data, len);
    return 0;
}

static void make_plain(struct buf *b, size_t len)
{
    buf_adds(b, "");
    for (size_t i = 0; i < len; i++)
        buf_addc(b, (char)(i * 31 + i / 251));
}

static void seal(const char *recipients, const struct buf *plain, size_t step, struct buf *out)
{
    struct age_keys to = {0};
    assert_int_equal(age_recipients(recipients, &to, &e), 0);
    struct age_writer *w = age_write_open(&to, into_buf, out, &e);
    assert_non_null(w);
    for (size_t at = 0; at < plain->len; at += step)
        assert_int_equal(
            age_write(w, plain->p + at, plain->len - at < step ? plain->len - at : step, &e), 0);
    assert_int_equal(age_write_end(w, &e), 0);
    age_write_free(w);
    assert_int_equal(out->len, age_size(to.count, plain->len));
}

static int unseal(const struct age_keys *with, const char *p, size_t len, size_t step,
                  struct buf *out)
{
    int rc = 0;
    buf_adds(out, "");
    struct age_reader *r = age_read_open(with, into_buf, out);
    for (size_t at = 0; at < len && rc == 0; at += step)
        rc = age_read(r, p + at, len - at < step ? len - at : step, &e);
    if (rc == 0)
        rc = age_read_end(r, &e);
    else
        assert_int_equal(age_read_end(r, NULL), -1); /* it sticks */
    age_read_free(r);
    return rc;
}

static bool same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && memcmp(a->p, b->p, a->len) == 0;
}

static void test_there_and_back(void **state)
{
    (void)state;
    static const size_t steps[] = {1u << 20, 4096, 1000};
    char both[2 * AGE_TEXT + 4];
    snprintf(both, sizeof both, " %s , %s", other_text, own_text);
    for (size_t i = 0; i < SIZES; i++) {
        struct buf plain = {0}, sealed = {0}, again = {0}, second = {0};
        make_plain(&plain, sizes[i]);
        seal(both, &plain, steps[i % 3], &sealed);
        assert_int_equal(unseal(&own, sealed.p, sealed.len, steps[(i + 1) % 3], &again), 0);
        assert_true(same(&plain, &again));
        assert_int_equal(unseal(&other, sealed.p, sealed.len, 1, &second), 0);
        assert_true(same(&plain, &second));
        buf_free(&plain);
        buf_free(&sealed);
        buf_free(&again);
        buf_free(&second);
    }
}

/* ---- age(1) ---- */

static void run(const char *command)
{
    int rc =
        system(command); // NOLINT(cert-env33-c,bugprone-command-processor,concurrency-mt-unsafe)
    if (rc != 0)
        fail_msg("%s: %d", command, rc);
}

static void test_age_tool(void **state)
{
    (void)state;
    char command[1024], path[600], tool[AGE_TEXT] = "";
    struct age_keys identity = {0};
    if (access("/usr/bin/age", X_OK) != 0 || access("/usr/bin/age-keygen", X_OK) != 0) {
        print_message("[  SKIPPED ] age is not installed: scripts/deps.sh test\n");
        skip();
    }
    snprintf(command, sizeof command, "cd %s && umask 077 && age-keygen -o key 2>/dev/null",
             kit_path);
    run(command);
    snprintf(path, sizeof path, "%s/key", kit_path);
    assert_int_equal(age_identities_file(path, &identity, &e), 0);
    assert_int_equal(age_recipient_of(identity.key[0], tool, &e), 0);
    for (size_t i = 0; i < SIZES; i++) {
        struct buf plain = {0}, sealed = {0}, back = {0}, theirs = {0};
        make_plain(&plain, sizes[i]);
        seal(tool, &plain, 10000, &sealed);
        kit_put("plain", plain.p, plain.len);
        kit_put("ours", sealed.p, sealed.len);
        snprintf(command, sizeof command,
                 "cd %s && age -d -i key ours | cmp - plain && age -r %s -r %s -o theirs plain",
                 kit_path, own_text, tool);
        run(command);
        assert_int_equal(file_read(kit_dir, "theirs", 1u << 20, &theirs, &e), 0);
        assert_int_equal(unseal(&identity, theirs.p, theirs.len, 70000, &back), 0);
        assert_true(same(&plain, &back));
        buf_free(&plain);
        buf_free(&sealed);
        buf_free(&back);
        buf_free(&theirs);
    }
}

/* ---- what is refused ---- */

/* Nothing but whole chunks of the beginning ever leaves. */
static void refused(const struct buf *plain, const char *p, size_t len)
{
    struct buf out = {0};
    memset(&e, 0, sizeof e);
    assert_int_equal(unseal(&own, p, len, 4096, &out), -1);
    assert_true(e.cls == ERR_DAMAGED || e.cls == ERR_CONFIG);
    assert_true(out.len % 65536 == 0 && out.len <= plain->len);
    assert_memory_equal(out.p, plain->p, out.len);
    buf_free(&out);
}

static void test_cut_and_changed(void **state)
{
    (void)state;
    struct buf plain = {0}, sealed = {0};
    make_plain(&plain, 131072 + 10);
    seal(own_text, &plain, 65536, &sealed);
    const size_t header = age_size(1, 0) - 32;
    for (size_t len = 0; len < sealed.len; len += len < 300 ? 1 : 997)
        refused(&plain, sealed.p, len);
    refused(&plain, sealed.p, header + 16 + 65552);     /* at the end of a chunk */
    refused(&plain, sealed.p, header + 16 + 2 * 65552); /* of the last full one */
    for (size_t at = 0; at < sealed.len; at += at < 300 ? 1 : 1009) {
        sealed.p[at] ^= 1;
        refused(&plain, sealed.p, sealed.len);
        sealed.p[at] ^= 1;
    }
    buf_addc(&sealed, 'x');
    refused(&plain, sealed.p, sealed.len);
    sealed.len--;
    /* two chunks that changed places */
    struct buf swapped = {0};
    buf_add(&swapped, sealed.p, header + 16);
    buf_add(&swapped, sealed.p + header + 16 + 65552, 65552);
    buf_add(&swapped, sealed.p + header + 16, 65552);
    buf_add(&swapped, sealed.p + header + 16 + 2 * 65552, 26);
    refused(&plain, swapped.p, swapped.len);
    buf_free(&swapped);
    buf_free(&plain);
    buf_free(&sealed);
}

static void test_another_key(void **state)
{
    (void)state;
    struct buf plain = {0}, sealed = {0}, out = {0};
    make_plain(&plain, 100);
    seal(other_text, &plain, 100, &sealed);
    assert_int_equal(unseal(&own, sealed.p, sealed.len, 4096, &out), -1);
    assert_int_equal(e.cls, ERR_CONFIG);
    assert_non_null(strstr(e.text, "not encrypted for any key"));
    assert_int_equal(out.len, 0);
    buf_free(&plain);
    buf_free(&sealed);
    buf_free(&out);
}

static int takes_little(void *arg, const void *data, size_t len, struct err *err)
{
    (void)data;
    size_t *left = arg;
    if (len > *left)
        return err_set(err, ERR_NOSPACE, 28, "full");
    *left -= len;
    return 0;
}

/* What a sink says is said to the caller, and again at each further call. */
static void test_sink_that_fails(void **state)
{
    (void)state;
    struct age_keys to = {0};
    struct buf plain = {0}, sealed = {0};
    size_t left = 300;
    assert_null(age_write_open(&to, takes_little, &left, &e));
    assert_non_null(strstr(e.text, "no recipient"));
    assert_int_equal(age_recipients(own_text, &to, &e), 0);
    make_plain(&plain, 131072);
    struct age_writer *w = age_write_open(&to, takes_little, &left, &e);
    assert_non_null(w);
    assert_int_equal(age_write(w, plain.p, plain.len, &e), -1);
    memset(&e, 0, sizeof e);
    assert_int_equal(age_write_end(w, &e), -1);
    assert_int_equal(e.cls, ERR_NOSPACE);
    age_write_free(w);
    left = 10;
    assert_null(age_write_open(&to, takes_little, &left, &e));
    seal(own_text, &plain, 65536, &sealed);
    struct age_reader *r = age_read_open(&own, takes_little, &left);
    assert_int_equal(age_read(r, sealed.p, sealed.len, &e), -1);
    memset(&e, 0, sizeof e);
    assert_int_equal(age_read_end(r, &e), -1);
    assert_int_equal(e.cls, ERR_NOSPACE);
    age_read_free(r);
    buf_free(&plain);
    buf_free(&sealed);
}

static void test_recipients_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"", "does not begin with age1"},
        {"ssh-ed25519 AAAA", "does not begin with age1"},
        {"age1yubikey1qqqq", "too short or too long"},
        {"age1", "too short or too long"},
        {"age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwb", "character that"},
        {"age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwx", "checksum"},
        {"AGE1ZVKYG2LQZRAA2LNJVQEJ32NKUU0UES2S82HZRYE869XEEXVN73EQUNUJWJ", "lower case"},
        {"age-secret-key-1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq", "secret key"},
    };
    struct age_keys k = {0};
    assert_int_equal(
        age_recipients("age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj", &k, &e),
        0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(age_recipients(wrong[i].text, &k, &e), -1);
        assert_int_equal(e.cls, ERR_CONFIG);
        if (!strstr(e.text, wrong[i].why))
            fail_msg("%s: %s", wrong[i].text, e.text);
        assert_null(strstr(e.text, "qqqqqqqqqqqq"));
    }
    assert_int_equal(k.count, 1);
}

static void test_identity_files(void **state)
{
    (void)state;
    static const char good[] = "# "
                               "created\r\n\nAGE-SECRET-KEY-"
                               "184JMZMVQH3E6U0PSL869004Y3U2NYV7R30EU99CSEDNPH02YUVFSZW44VU\r\n";
    char path[600];
    struct age_keys k = {0};
    snprintf(path, sizeof path, "%s/id", kit_path);
    kit_text("id", good);
    assert_int_equal(age_identities_file(path, &k, &e), 0);
    assert_int_equal(k.count, 1);
    assert_int_equal(fchmodat(kit_dir, "id", 0644, 0), 0);
    assert_int_equal(age_identities_file(path, &k, &e), -1);
    assert_non_null(strstr(e.text, "is readable by other users"));
    assert_int_equal(fchmodat(kit_dir, "id", 0600, 0), 0);
    kit_text("id", "\nAGE-SECRET-KEY-1QQ\n");
    assert_int_equal(age_identities_file(path, &k, &e), -1);
    assert_non_null(strstr(e.text, "id line 2: "));
    assert_null(strstr(e.text, "1QQ"));
    kit_text("id", "# empty\n");
    assert_int_equal(age_identities_file(path, &k, &e), -1);
    assert_non_null(strstr(e.text, "holds no key"));
    snprintf(path, sizeof path, "%s/to", kit_path);
    kit_text("to", own_text);
    memset(&k, 0, sizeof k);
    assert_int_equal(age_recipients_file(path, &k, &e), 0);
    assert_int_equal(k.count, 1);
    age_keys_wipe(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test_teardown(test_age_tool, kit_clean),
        cmocka_unit_test(test_cut_and_changed),
        cmocka_unit_test(test_another_key),
        cmocka_unit_test(test_sink_that_fails),
        cmocka_unit_test(test_recipients_by_name),
        cmocka_unit_test_teardown(test_identity_files, kit_clean),
    };
    return cmocka_run_group_tests(tests, set_up, kit_tear_down);
}
