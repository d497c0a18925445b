/* --check does once what a worker would do, because no setting shows as much. It also tries what
 * a store must refuse. What cannot be tried is UNKNOWN, which is not a warning. */
#include <fcntl.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/number.h"
#include "offsite/remote_int.h"

#define BYTES 32

/* A small file: the bytes to store, or the bytes that came back. */
struct sample {
    unsigned char bytes[BYTES];
    size_t at;
};

static ssize_t sample_read(void *arg, void *data, size_t room, struct err *e)
{
    struct sample *s = arg;
    size_t n = BYTES - s->at < room ? BYTES - s->at : room;
    (void)e;
    memcpy(data, s->bytes + s->at, n);
    s->at += n;
    return (ssize_t)n;
}

static int sample_write(void *arg, const void *data, size_t len, struct err *e)
{
    struct sample *s = arg;
    if (len > BYTES - s->at)
        return err_set(e, ERR_DAMAGED, 0, "more bytes were read back than were stored");
    memcpy(s->bytes + s->at, data, len);
    s->at += len;
    return 0;
}

struct proving {
    struct remote *r;
    struct remote_proof *p;
    char *name;
    struct sample stored;
    bool listed;
    bool may_stay; /* deleting it may not be possible */
};

static enum remote_result remote_prove_store(struct proving *v, const struct sample *what,
                                             struct err *e)
{
    struct sample copy = *what;
    return remote_put(v->r, v->name,
                      &(struct remote_source){.read = sample_read, .arg = &copy, .size = BYTES}, e);
}

/* Returns REMOTE_OK if exactly the stored bytes came back. */
static enum remote_result remote_prove_read_back(struct proving *v, struct err *e)
{
    struct sample back = {0};
    enum remote_result got =
        remote_get(v->r, v->name, 0, &(struct remote_sink){sample_write, &back}, e);
    if (got != REMOTE_OK || (back.at == BYTES && memcmp(back.bytes, v->stored.bytes, BYTES) == 0))
        return got;
    err_set(e, ERR_DAMAGED, 0, "%s: the bytes read back differ from what was stored",
            v->r->shown.p);
    return REMOTE_REFUSED;
}

static int remote_prove_listed(void *arg, const struct remote_entry *x, struct err *e)
{
    struct proving *v = arg;
    (void)e;
    v->listed |= strcmp(x->name, v->name) == 0 && (x->size < 0 || x->size == BYTES);
    return 0;
}

static enum remote_result remote_prove_list(struct proving *v, const char *dir, struct err *e)
{
    enum remote_result got =
        remote_list(v->r, dir, &(struct remote_list){remote_prove_listed, v}, e);
    if (got != REMOTE_OK || v->listed)
        return got;
    err_set(e, ERR_DAMAGED, 0, "%s: its listing lacks the stored file", v->r->shown.p);
    return REMOTE_REFUSED;
}

/* Stores a second file under the same name, which must be refused: first as usual, then without
 * looking it up first. */
static enum remote_result remote_prove_replace(struct proving *v, struct err *e)
{
    struct sample other = {.bytes = {1}};
    enum remote_result got = remote_prove_store(v, &other, e);
    if (got != REMOTE_EXISTS) {
        if (got == REMOTE_OK)
            err_set(e, ERR_DAMAGED, 0, "%s: a second file replaced the first", v->r->shown.p);
        return got == REMOTE_OK ? REMOTE_REFUSED : got;
    }
    err_clear(e);
    v->r->blind = true;
    got = remote_prove_store(v, &other, NULL);
    v->r->blind = false;
    if (got == REMOTE_EXISTS && remote_prove_read_back(v, e) != REMOTE_OK)
        return REMOTE_REFUSED;
    v->p->conditional = got == REMOTE_OK       ? REMOTE_NO
                        : got == REMOTE_EXISTS ? REMOTE_YES
                                               : REMOTE_UNKNOWN;
    if (v->r->unconditional)
        v->p->conditional = REMOTE_NO;
    return REMOTE_OK;
}

/* Reads the store without a login. In a public bucket perhaps only the list is public, but its
 * names already reveal when the world was saved, and how large it is. */
static void look_from_outside(struct proving *v, const char *dir)
{
    struct sample back = {0};
    bool login = v->r->url.kind == STORE_S3 || (v->r->url.kind == STORE_HTTP && v->r->login.len);
    if (!login)
        return;
    v->r->anonymous = true;
    enum remote_result got =
        remote_get(v->r, v->name, 0, &(struct remote_sink){sample_write, &back}, NULL);
    v->listed = false;
    bool read = got == REMOTE_OK || (remote_prove_list(v, dir, NULL) == REMOTE_OK && v->listed);
    v->r->anonymous = false;
    v->p->public = read                                            ? REMOTE_YES
                   : got == REMOTE_DENIED || got == REMOTE_MISSING ? REMOTE_NO
                                                                   : REMOTE_UNKNOWN;
}

/* Connects to the same server with a known_hosts that does not contain it, which must be
 * refused. */
static enum remote_result meet_stranger(struct proving *v, struct err *e)
{
    struct err why = {0};
    int64_t size;
    if (v->r->url.kind != STORE_SFTP)
        return REMOTE_OK;
    int known = v->r->dirfd;
    v->r->dirfd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    curl_request_close(&v->r->request); /* forces a new connection */
    enum remote_result got = remote_size(v->r, v->name, &size, &why);
    curl_request_close(&v->r->request);
    file_close(&v->r->dirfd);
    v->r->dirfd = known;
    /* The file is deleted by now, so a server that answers "missing" has let us in. */
    bool let_in = got == REMOTE_OK || got == REMOTE_MISSING;
    v->p->checks_host = got == REMOTE_REFUSED && why.num == CURLE_PEER_FAILED_VERIFICATION
                            ? REMOTE_YES
                        : let_in ? REMOTE_NO
                                 : REMOTE_UNKNOWN;
    if (v->p->checks_host != REMOTE_NO)
        return REMOTE_OK;
    err_set(e, ERR_REFUSED, 0, "%s: this libcurl connects to a server with any host key",
            v->r->shown.p);
    return REMOTE_REFUSED;
}

/* Checks that the file is really gone: if the store only claims to delete, it fills up, and the
 * cause would be unknown. */
static enum remote_result take_away(struct proving *v, struct err *e)
{
    int64_t size;
    enum remote_result got = remote_delete(v->r, v->name, e);
    v->p->deletes = got == REMOTE_OK ? REMOTE_YES : REMOTE_NO;
    if ((got == REMOTE_DENIED || got == REMOTE_REFUSED) && v->may_stay) {
        err_clear(e);
        return REMOTE_OK;
    }
    if (got == REMOTE_DENIED)
        err_hint(
            e, "allow this login to delete files, or leave deletion to the store: delete = never");
    if (got != REMOTE_OK)
        return got;
    got = remote_size(v->r, v->name, &size, e);
    err_clear(got == REMOTE_MISSING ? e : NULL);
    if (got == REMOTE_OK)
        err_set(e, ERR_DAMAGED, 0, "%s: a deleted file still exists", v->r->shown.p);
    return got == REMOTE_MISSING ? REMOTE_OK : got == REMOTE_OK ? REMOTE_REFUSED : got;
}

static void look_at_disk(const struct remote *r, const char *local, struct remote_proof *p)
{
    struct stat there, here;
    struct statvfs v;
    if (r->url.kind != STORE_DIR)
        return;
    if (fstat(r->dirfd, &there) == 0 && stat(local, &here) == 0)
        p->same_disk = there.st_dev == here.st_dev ? REMOTE_YES : REMOTE_NO;
    p->free_known = fstatvfs(r->dirfd, &v) == 0;
    p->free_bytes = p->free_known ? number_product(v.f_bavail, v.f_frsize) : 0;
}

/* Returns an unused name. If the file may stay, the name is fixed for each month, with known
 * bytes. */
static char *sample_name(struct proving *v, const char *dir, struct err *e)
{
    unsigned char random[8];
    char hex[2 * sizeof random + 1], now[TEXT_SHORT];
    if (v->may_stay) {
        text_utc(clock_wall(), now);
        memset(v->stored.bytes, 'w', BYTES);
        return xasprintf("%scheck-%.4s%.2s", dir, now, now + 5);
    }
    if (RAND_bytes(random, sizeof random) != 1 || RAND_bytes(v->stored.bytes, BYTES) != 1) {
        err_set(e, ERR_SYSTEM, 0, "cannot get random numbers");
        return NULL;
    }
    text_hex(random, sizeof random, hex);
    return xasprintf("%scheck-%s", dir, hex);
}

enum remote_result remote_prove(struct remote *r, const char *dir, const char *local,
                                struct remote_proof *p, struct err *e)
{
    struct proving v = {.r = r, .p = p, .may_stay = r->cfg->delete_never || r->cfg->object_lock};
    *p = (struct remote_proof){0};
    v.name = sample_name(&v, dir, e);
    if (!v.name)
        return REMOTE_REFUSED;
    r->unlocked = true; /* otherwise the file would stay */
    look_at_disk(r, local, p);
    enum remote_result got = remote_prove_store(&v, &v.stored, e);
    if (got == REMOTE_EXISTS && v.may_stay) {
        err_clear(e);
        got = REMOTE_OK; /* stored by an earlier check */
    }
    if (got == REMOTE_OK) {
        got = remote_prove_read_back(&v, e);
        if (got == REMOTE_OK)
            got = remote_prove_list(&v, dir, e);
        if (got == REMOTE_OK)
            got = remote_prove_replace(&v, e);
        look_from_outside(&v, dir);
        enum remote_result gone = take_away(&v, got == REMOTE_OK ? e : NULL);
        if (got == REMOTE_OK)
            got = gone;
        if (got == REMOTE_OK)
            got = meet_stranger(&v, e);
    }
    r->unlocked = false;
    p->skew = r->skew;
    p->skew_known = r->skew_known;
    free(v.name);
    return got;
}
