#include "offsite/age_keys.h"

#include <ctype.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "offsite/age_crypto.h"

#define RECIPIENT "age"
#define IDENTITY "age-secret-key-"
#define CHECKSUM 6u
#define SYMBOLS 52u /* of 5 bits each, for 32 bytes */
#define FILE_MAX_BYTES 65536u

static const char symbols[] = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";

void age_keys_wipe(struct age_keys *k)
{
    OPENSSL_cleanse(k, sizeof *k);
}

static uint32_t polymod_step(uint32_t c, unsigned value)
{
    static const uint32_t generator[5] = {0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd,
                                          0x2a1462b3};
    unsigned top = c >> 25;
    c = (c & 0x1ffffff) << 5 ^ value;
    for (unsigned i = 0; i < 5; i++)
        c ^= top >> i & 1 ? generator[i] : 0;
    return c;
}

static uint32_t polymod_prefix(const char *prefix)
{
    uint32_t c = 1;
    for (const char *p = prefix; *p; p++)
        c = polymod_step(c, (unsigned char)*p >> 5);
    c = polymod_step(c, 0);
    for (const char *p = prefix; *p; p++)
        c = polymod_step(c, *p & 31);
    return c;
}

/* The error is a constant that never holds any of the text, since it may be a secret key that
 * was pasted into the wrong place. */
/* Returns NULL, or what is wrong with "PREFIX1…". `text` has the right prefix, in upper or lower
 * case. */
static const char *read_bech32(const char *text, size_t len, const char *prefix, bool upper,
                               unsigned char out[AGE_KEY])
{
    size_t at = strlen(prefix) + 1;
    uint32_t c = polymod_prefix(prefix), bits = 0;
    unsigned have = 0;
    size_t filled = 0;
    if (len != at + SYMBOLS + CHECKSUM)
        return "it is too short or too long";
    for (size_t i = 0; i < len; i++)
        if (upper ? islower((unsigned char)text[i]) : isupper((unsigned char)text[i]))
            return upper ? "it must be in upper case" : "it must be in lower case";
    for (size_t i = at; i < len; i++) {
        const char *s = strchr(symbols, tolower((unsigned char)text[i]));
        if (!s || !*s)
            return "it has a character that is not allowed in such a key";
        c = polymod_step(c, (unsigned)(s - symbols));
        if (i >= at + SYMBOLS)
            continue;
        bits = bits << 5 | (uint32_t)(s - symbols);
        for (have += 5; have >= 8 && filled < AGE_KEY; have -= 8)
            out[filled++] = (unsigned char)(bits >> (have - 8));
    }
    if (c != 1)
        return "its checksum is wrong: a character was mistyped or lost";
    return bits & 15 ? "it does not contain 32 bytes" : NULL;
}

static bool has_prefix(const char *text, size_t len, const char *prefix)
{
    size_t n = strlen(prefix);
    return len > n && strncasecmp(text, prefix, n) == 0 && text[n] == '1';
}

static int add_key(struct age_keys *out, const unsigned char key[AGE_KEY], struct err *e)
{
    if (out->count == AGE_KEYS_MAX)
        return err_set(e, ERR_CONFIG, 0, "more than %u keys", AGE_KEYS_MAX);
    memcpy(out->key[out->count++], key, AGE_KEY);
    return 0;
}

/* A secret key as recipient gets its own error, because it is worse than a typing error: it is
 * in the config, and maybe in a log, where others can read it. The error does not repeat it. */
static int add_recipient(const char *text, size_t len, struct age_keys *out, struct err *e)
{
    unsigned char key[AGE_KEY];
    SCOPED(buf_free) struct buf shown = {0};
    SCOPED(xfree) char *copy = xstrndup(text, len);
    if (strncasecmp(copy, IDENTITY, strlen(IDENTITY)) == 0) {
        err_set(e, ERR_CONFIG, 0, "a secret key is given as recipient");
        return err_hint(e, "use its public key, which age-keygen -y FILE prints; replace this "
                           "secret key, because others may have read it in the config");
    }
    text_clean(&shown, copy, 80);
    const char *wrong = has_prefix(copy, len, RECIPIENT)
                            ? read_bech32(copy, len, RECIPIENT, false, key)
                            : "it does not begin with age1";
    if (!wrong)
        return add_key(out, key, e);
    err_set(e, ERR_CONFIG, 0, "recipient '%s': %s", shown.p ? shown.p : "", wrong);
    return err_hint(
        e, "allowed: X25519 recipients (age1 and 58 more characters, as age-keygen prints)");
}

int age_recipients(const char *text, struct age_keys *out, struct err *e)
{
    for (const char *p = text;; p++) {
        size_t n = strcspn(p, ",");
        const char *first = p, *end = p + n;
        while (first < end && isspace((unsigned char)*first))
            first++;
        while (end > first && isspace((unsigned char)end[-1]))
            end--;
        if (add_recipient(first, (size_t)(end - first), out, e) < 0)
            return -1;
        p += n;
        if (!*p)
            return 0;
    }
}

/* Calls `fn` for each line of a file that is neither empty nor a comment. */
typedef int line_fn(const char *line, size_t len, struct age_keys *out, struct err *e);
static int each_line(const char *path, const struct buf *b, line_fn *fn, struct age_keys *out,
                     struct err *e)
{
    size_t before = out->count;
    unsigned number = 0;
    for (size_t at = 0; at < b->len;) {
        const char *line = b->p + at, *nl = memchr(line, '\n', b->len - at);
        size_t len = nl ? (size_t)(nl - line) : b->len - at;
        at += len + 1;
        number++;
        while (len && isspace((unsigned char)line[len - 1]))
            len--;
        if (len == 0 || line[0] == '#')
            continue;
        if (fn(line, len, out, e) < 0)
            return err_step(e, "%s line %u", path, number);
    }
    return out->count > before ? 0 : err_set(e, ERR_CONFIG, 0, "%s holds no key", path);
}

int age_recipients_file(const char *path, struct age_keys *out, struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    if (file_read(AT_FDCWD, path, FILE_MAX_BYTES, &b, e) < 0) {
        if (e && e->cls == ERR_SYSTEM)
            e->cls = ERR_CONFIG;
        return -1;
    }
    return each_line(path, &b, add_recipient, out, e);
}

static int add_identity(const char *line, size_t len, struct age_keys *out, struct err *e)
{
    unsigned char key[AGE_KEY];
    const char *wrong = has_prefix(line, len, IDENTITY)
                            ? read_bech32(line, len, IDENTITY, true, key)
                            : "it does not begin with AGE-SECRET-KEY-1";
    int rc = wrong ? err_set(e, ERR_CONFIG, 0, "no identity: %s", wrong) : add_key(out, key, e);
    if (wrong)
        err_hint(e, "allowed: files that age-keygen writes; keys with a passphrase and keys of "
                    "plugins are not supported");
    OPENSSL_cleanse(key, sizeof key);
    return rc;
}

int age_identities_file(const char *path, struct age_keys *out, struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    if (file_read_secret_lines(path, FILE_MAX_BYTES, &b, e) < 0)
        return -1;
    return each_line(path, &b, add_identity, out, e);
}

/* Returns the recipient of an identity as text, to tell for whom a key reads: the key's bits in
 * groups of five, then a checksum. */
int age_recipient_of(const unsigned char identity[AGE_KEY], char out[AGE_TEXT], struct err *e)
{
    unsigned char key[AGE_KEY];
    size_t n = strlen(RECIPIENT "1");
    uint32_t bits = 0, c = polymod_prefix(RECIPIENT);
    unsigned have = 0;
    if (age_public(identity, key, e) < 0)
        return -1;
    memcpy(out, RECIPIENT "1", n);
    for (size_t i = 0; i < SYMBOLS; i++) {
        if (have < 5) {
            size_t byte = (i * 5 + 4) / 8;
            bits = bits << 8 | (byte < AGE_KEY ? key[byte] : 0u);
            have += 8;
        }
        have -= 5;
        unsigned value = bits >> have & 31;
        c = polymod_step(c, value);
        out[n++] = symbols[value];
    }
    for (unsigned i = 0; i < CHECKSUM; i++)
        c = polymod_step(c, 0);
    c ^= 1;
    for (unsigned i = 0; i < CHECKSUM; i++)
        out[n++] = symbols[c >> 5 * (5 - i) & 31];
    out[n] = 0;
    return 0;
}
