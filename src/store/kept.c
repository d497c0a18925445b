#include "store/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/js.h"
#include "base/text.h"
#include "store/signature.h"

/* Returns the line before the signed content: the signature covers the file's name. */
static char *front_of(const char *name)
{
    return xasprintf("worldkeeper %s 1\n", name);
}

bool kept_is_newer(const struct err *e)
{
    return e->cls == ERR_REFUSED && e->num == ENOTSUP;
}

int kept_newer(struct err *e, const char *file, int64_t format, int64_t newest)
{
    err_set(e, ERR_REFUSED, ENOTSUP,
            "%s was written by a newer version of worldkeeper: its format is %" PRId64
            ", this version reads formats up to %" PRId64,
            file, format, newest);
    return err_hint(
        e, "install the newer version again; CHANGELOG.md lists the formats of each version");
}

static int kept_wrong(const char *name, struct err *e)
{
    return err_set(e, ERR_REFUSED, 0,
                   "%s has an HMAC that does not match the key in [dump] hmac_key_file", name);
}

typedef int read_fn(int dirfd, const char *name, size_t limit, struct buf *out, struct err *e);

/* Parses what is in the file `name`. Without `checked` the signature is not verified, because
 * kept_sign() replaces it. Returns 1 or -1; *out is NULL unless the result is 1. */
static int store_kept_parse(const char *name, const struct buf *b, bool checked, int64_t newest,
                            json_t **out, struct err *e)
{
    SCOPED(xfree) char *front = front_of(name);
    int rc = 1;
    *out = json_loadb(b->p, b->len, JSON_REJECT_DUPLICATES, NULL);
    enum signature is = checked ? signature_check(*out, front) : SIGNATURE_UNASKED;
    if (!json_is_object(*out))
        rc = err_set(e, ERR_DAMAGED, 0, "%s has invalid contents", name);
    else if (is == SIGNATURE_MISSING)
        rc = err_set(e, ERR_REFUSED, 0, "%s has no HMAC, but [dump] hmac_key_file requires one",
                     name);
    else if (is == SIGNATURE_WRONG)
        rc = kept_wrong(name, e);
    else if (js_number(*out, "format", 0) > newest)
        rc = kept_newer(e, name, js_number(*out, "format", 0), newest);
    if (rc < 0) {
        json_decref(*out);
        *out = NULL;
    }
    return rc;
}

static int store_kept_load(int dirfd, const char *name, size_t limit, read_fn *read, bool checked,
                           int64_t newest, json_t **out, struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    struct err why = {0};
    *out = NULL;
    if (read(dirfd, name, limit, &b, &why) < 0)
        return why.num == ENOENT ? 0 : err_pass(e, &why);
    return store_kept_parse(name, &b, checked, newest, out, e);
}

int kept_parse(const char *name, const struct buf *text, json_t **out, struct err *e)
{
    return store_kept_parse(name, text, true, KEPT_FORMAT, out, e);
}

int kept_load(int dirfd, const char *name, size_t limit, json_t **out, struct err *e)
{
    return store_kept_load(dirfd, name, limit, file_read, true, KEPT_FORMAT, out, e);
}

int kept_load_private(int dirfd, const char *name, size_t limit, json_t **out, struct err *e)
{
    return store_kept_load(dirfd, name, limit, file_read_private, true, KEPT_FORMAT, out, e);
}

int kept_load_unsigned(int dirfd, const char *name, size_t limit, json_t **out, struct err *e)
{
    return store_kept_load(dirfd, name, limit, file_read, false, INT64_MAX, out, e);
}

int kept_give(int dirfd, const char *name, struct err *e)
{
    struct stat st;
    return geteuid() == 0 && fstat(dirfd, &st) == 0 && st.st_uid != 0 &&
                   fchownat(dirfd, name, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0
               ? err_sys(e, errno, "cannot change the owner of %s to the owner of its directory",
                         name)
               : 0;
}

int kept_sign(int dirfd, const char *name, size_t limit, bool changed, struct err *e)
{
    json_t *o;
    SCOPED(xfree) char *front = front_of(name);
    int rc = store_kept_load(dirfd, name, limit, file_read, false, KEPT_FORMAT, &o, e);
    if (rc != 1)
        return rc;
    if (changed || signature_check(o, front) != SIGNATURE_WRONG)
        return kept_save(dirfd, name, limit, o, e) < 0 ? -1 : kept_give(dirfd, name, e);
    json_decref(o);
    return kept_wrong(name, e);
}

int kept_save(int dirfd, const char *name, size_t limit, json_t *o, struct err *e)
{
    SCOPED(xfree) char *front = front_of(name);
    if (!json_object_get(o, "format"))
        json_object_set_new(o, "format", json_integer(KEPT_FORMAT));
    int added = signature_add(o, front);
    SCOPED(xfree) char *s = json_dumps(o, JSON_INDENT(1));
    json_decref(o);
    if (added < 0)
        return err_set(e, ERR_SYSTEM, 0, "cannot compute the HMAC of %s", name);
    if (!s)
        return err_set(e, ERR_SYSTEM, 0, "cannot write %s: a name is not UTF-8", name);
    if (strlen(s) > limit)
        return err_set(e, ERR_SYSTEM, EFBIG, "cannot write %s: it would take %zu bytes", name,
                       strlen(s));
    return file_commit(dirfd, name, s, strlen(s), 0600, e);
}
