#include "config/store_url.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

#define BUCKET_MAX 63

/* Appends `len` bytes of a URL with each %XX decoded. Returns false if one is malformed, or the
 * result is not text. */
static bool store_url_decode(struct buf *out, const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        int c = (unsigned char)s[i];
        if (c == '%') {
            if (i + 2 >= len || !isxdigit((unsigned char)s[i + 1]) ||
                !isxdigit((unsigned char)s[i + 2]))
                return false;
            c = (int)strtol((const char[]){s[i + 1], s[i + 2], '\0'}, NULL, 16);
            i += 2;
        }
        if (c < 0x20 || c == 0x7f)
            return false;
        buf_addc(out, (char)c);
    }
    return text_utf8_valid(out->p ? out->p : "", out->len);
}

/* Appends the components of a path, each followed by '/'. Returns false if one is "." or "..", or
 * contains a '/' as %2F. */
static bool store_url_components(struct buf *out, const char *s)
{
    while (*s) {
        s += strspn(s, "/");
        size_t len = strcspn(s, "/"), from = out->len;
        if (len == 0)
            break;
        if (!store_url_decode(out, s, len))
            return false;
        const char *name = out->p + from;
        if (strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            return false;
        buf_addc(out, '/');
        s += len;
    }
    return true;
}

/* Parses the part between "://" and the path. */
static bool store_url_authority(struct store_url *u, const char *s, size_t len)
{
    const char *at = memchr(s, '@', len);
    if (u->kind == STORE_DIR)
        return len == 0;
    if (u->kind == STORE_S3) {
        u->bucket = xstrndup(s, len);
        /* The name becomes part of a host name or a path in signed requests. */
        static const char letters[] =
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        if (len == 0 || len > BUCKET_MAX || !strchr(letters, s[0]))
            return false;
        for (size_t i = 0; i < len; i++)
            if (!strchr(letters, s[i]) && !strchr("._-", s[i]))
                return false;
        return true;
    }
    if (u->kind == STORE_SFTP) {
        SCOPED(buf_free) struct buf user = {0};
        if (!at || at == s || memchr(s, ':', (size_t)(at - s)) ||
            !store_url_decode(&user, s, (size_t)(at - s)))
            return false;
        u->user = xstrdup(user.p);
        len -= (size_t)(at + 1 - s);
        s = at + 1;
        at = memchr(s, '@', len);
    }
    u->host = xstrndup(s, len);
    return len > 0 && !at;
}

int store_url_parse(const char *text, struct store_url *out)
{
    static const struct {
        const char *scheme;
        enum store_kind kind;
    } schemes[] = {{"file://", STORE_DIR},
                   {"sftp://", STORE_SFTP},
                   {"s3://", STORE_S3},
                   {"https://", STORE_HTTP},
                   {"http://", STORE_HTTP}};
    SCOPED(buf_free) struct buf path = {0};
    const char *rest = NULL;
    *out = (struct store_url){0};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes && !rest; i++)
        if (strncasecmp(text, schemes[i].scheme, strlen(schemes[i].scheme)) == 0) {
            rest = text + strlen(schemes[i].scheme);
            out->kind = schemes[i].kind;
            out->plain = strcmp(schemes[i].scheme, "http://") == 0;
        }
    /* names are appended to the path: nothing can follow it */
    if (!rest || strpbrk(rest, "?#"))
        return -1;
    /* up to the path: the host, or the bucket */
    size_t len = strcspn(rest, "/");
    buf_adds(&path, out->kind == STORE_S3 ? "" : "/");
    bool good = store_url_authority(out, rest, len) && store_url_components(&path, rest + len) &&
                !(out->kind == STORE_DIR && path.len == 1);
    if (!good) {
        store_url_free(out);
        return -1;
    }
    out->path = xstrdup(path.p);
    return 0;
}

void store_url_free(struct store_url *u)
{
    free(u->user);
    free(u->host);
    free(u->bucket);
    free(u->path);
    *u = (struct store_url){0};
}
