/* A store of any kind: the guarantees of offsite/remote.h that must not depend on the server. A
 * store is not trusted. Its list is filtered by what was requested and has a limit, and no name
 * is stored before it was looked up. */
#include "offsite/remote_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

const char *remote_result_name(enum remote_result r)
{
    static const char *const names[] = {
        [REMOTE_OK] = "ok",           [REMOTE_MISSING] = "missing", [REMOTE_EXISTS] = "exists",
        [REMOTE_DENIED] = "denied",   [REMOTE_FULL] = "full",       [REMOTE_LATER] = "later",
        [REMOTE_REFUSED] = "refused", [REMOTE_STOPPED] = "stopped"};
    return names[r];
}

/* ---- names ---- */

static bool dir_valid(const char *dir)
{
    size_t len = strlen(dir);
    return len == 0 || (len <= REMOTE_NAME_MAX && dir[len - 1] == '/' && remote_path_valid(dir));
}

static enum remote_result bad_name(const char *name, struct err *e)
{
    SCOPED(buf_free) struct buf shown = {0};
    text_clean(&shown, name, 100);
    err_set(e, ERR_USAGE, 0, "'%s' is not a valid name in a store", shown.p);
    return REMOTE_REFUSED;
}

/* ---- the store ---- */

static void make_shown(struct remote *r)
{
    static const char *const schemes[] = {
        [STORE_DIR] = "file://", [STORE_SFTP] = "sftp://", [STORE_S3] = "s3://"};
    const struct store_url *u = &r->url;
    SCOPED(buf_free) struct buf b = {0};
    buf_printf(&b, "%s%s%s%s",
               u->kind != STORE_HTTP ? schemes[u->kind]
               : u->plain            ? "http://"
                                     : "https://",
               u->host     ? u->host
               : u->bucket ? u->bucket
                           : "",
               u->bucket ? "/" : "", u->path);
    text_clean(&r->shown, b.p, 200);
}

enum remote_result remote_open(const struct config *cfg, struct remote **out, struct err *e)
{
    static const struct remote_kind *const kinds[] = {[STORE_DIR] = &remote_dir,
                                                      [STORE_SFTP] = &remote_sftp,
                                                      [STORE_S3] = &remote_s3,
                                                      [STORE_HTTP] = &remote_http};
    struct remote *r = xcalloc(1, sizeof *r);
    r->cfg = &cfg->offsite;
    r->dirfd = r->key_fd = -1;
    r->login.secret = r->password.secret = true;
    *out = NULL;
    if (store_url_parse(cfg->offsite.url, &r->url) < 0) {
        err_set(e, ERR_CONFIG, 0, "[offsite] url: not the URL of a store");
        free(r);
        return REMOTE_REFUSED;
    }
    make_shown(r);
    r->kind = kinds[r->url.kind];
    enum remote_result got = r->kind->open(r, e);
    if (got == REMOTE_OK)
        *out = r;
    else
        remote_close(r);
    return got;
}

void remote_close(struct remote *r)
{
    if (!r)
        return;
    file_close(&r->dirfd);
    file_close(&r->key_fd);
    curl_request_close(&r->request);
    buf_free(&r->login);
    buf_free(&r->password);
    buf_free(&r->made);
    store_url_free(&r->url);
    buf_free(&r->shown);
    free(r);
}

/* A callback of libcurl reads the flag once a second. It is not a signal, because the other
 * thread may be anywhere. */
void remote_abandon(struct remote *r)
{
    r->abandoned = true;
}

const char *remote_shown(const struct remote *r)
{
    return r->shown.p;
}

int64_t remote_pause(const struct remote *r)
{
    return r->pause;
}

/* Checks that a source that is announced as empty has no bytes, because it is otherwise never
 * read. */
static enum remote_result check_empty(const struct remote_source *from, const char *name,
                                      struct err *e)
{
    char byte;
    ssize_t n = from->size == 0 ? from->read(from->arg, &byte, 1, e) : 0;
    return n < 0 ? REMOTE_STOPPED : n > 0 ? remote_came(from, name, n, e) : REMOTE_OK;
}

enum remote_result remote_put(struct remote *r, const char *name, const struct remote_source *from,
                              struct err *e)
{
    int64_t size;
    r->pause = 0;
    if (!remote_name_valid(name))
        return bad_name(name, e);
    /* Looked up first, so that a store that ignores its conditions cannot overwrite an older
     * copy. */
    enum remote_result got = r->blind        ? REMOTE_MISSING
                             : r->kind->look ? r->kind->look(r, name, e)
                                             : r->kind->size(r, name, &size, e);
    if (got != REMOTE_MISSING)
        return got == REMOTE_OK ? remote_exists(name, e) : got;
    err_clear(e);
    got = check_empty(from, name, e);
    return got == REMOTE_OK ? r->kind->put(r, name, from, e) : got;
}

enum remote_result remote_get(struct remote *r, const char *name, int64_t offset,
                              const struct remote_sink *to, struct err *e)
{
    r->pause = 0;
    return remote_name_valid(name) && offset >= 0 ? r->kind->get(r, name, offset, to, e)
                                                  : bad_name(name, e);
}

void remote_bare_versions(struct remote *r, bool bare)
{
    r->bare = bare;
}

static int read_small(void *arg, const void *data, size_t len, struct err *e)
{
    struct buf *b = arg;
    if (b->len + len > REMOTE_SMALL)
        return err_set(e, ERR_REFUSED, 0, "it has more than %d bytes", REMOTE_SMALL);
    buf_add(b, data, len);
    return 0;
}

enum remote_result remote_read(struct remote *r, const char *name, struct buf *out,
                               char version[REMOTE_VERSION], struct err *e)
{
    r->pause = 0;
    buf_clear(out);
    version[0] = '\0';
    if (!remote_name_valid(name))
        return bad_name(name, e);
    enum remote_result got =
        r->kind->read(r, name, &(struct remote_sink){read_small, out}, version, e);
    return got == REMOTE_STOPPED ? REMOTE_REFUSED : got;
}

enum remote_result remote_replace(struct remote *r, const char *name, const struct buf *data,
                                  const char *version, char next[REMOTE_VERSION], struct err *e)
{
    r->pause = 0;
    next[0] = '\0';
    return remote_name_valid(name) ? r->kind->replace(r, name, data, version, next, e)
                                   : bad_name(name, e);
}

enum remote_result remote_size(struct remote *r, const char *name, int64_t *size, struct err *e)
{
    r->pause = 0;
    return remote_name_valid(name) ? r->kind->size(r, name, size, e) : bad_name(name, e);
}

struct asked {
    const char *dir;
    const struct remote_list *to;
};

/* Filters the list, because some stores list more than was requested. */
static int pass_finished(void *arg, const struct remote_entry *x, struct err *e)
{
    const struct asked *a = arg;
    bool there = text_starts(x->name, a->dir) && !strchr(x->name + strlen(a->dir), '/');
    return there && remote_name_valid(x->name) ? a->to->entry(a->to->arg, x, e) : 0;
}

enum remote_result remote_list(struct remote *r, const char *dir, const struct remote_list *to,
                               struct err *e)
{
    struct asked asked = {dir, to};
    r->pause = 0;
    return dir_valid(dir) ? r->kind->list(r, dir, &(struct remote_list){pass_finished, &asked}, e)
                          : bad_name(dir, e);
}

enum remote_result remote_delete(struct remote *r, const char *name, struct err *e)
{
    r->pause = 0;
    if (!remote_name_valid(name))
        return bad_name(name, e);
    enum remote_result got = r->kind->remove(r, name, e);
    if (got != REMOTE_MISSING)
        return got;
    err_clear(e);
    return REMOTE_OK;
}

/* ---- left-overs ---- */

struct left_over {
    wall_t before;
    char **names;
    size_t count;
};

/* Collects the names before deleting, because a store may not support changes during a list. */
static int remote_collect(void *arg, const struct remote_entry *x, struct err *e)
{
    struct left_over *l = arg;
    int64_t at = remote_part_time(x->name);
    (void)e;
    if (at < 0 || at * 1000 >= l->before.ms || !remote_path_valid(x->name))
        return 0;
    l->names = xgrow(l->names, l->count, sizeof *l->names);
    l->names[l->count++] = xstrdup(x->name);
    return 0;
}

enum remote_result remote_sweep(struct remote *r, const char *dir, wall_t now, int64_t age,
                                unsigned *removed, struct err *e)
{
    struct left_over l = {.before = {now.ms - age}};
    *removed = 0;
    r->pause = 0;
    if (!dir_valid(dir))
        return bad_name(dir, e);
    enum remote_result got = r->kind->list(r, dir, &(struct remote_list){remote_collect, &l}, e);
    for (size_t i = 0; i < l.count; i++) {
        if (got == REMOTE_OK) {
            got = r->kind->remove(r, l.names[i], e);
            *removed += got == REMOTE_OK;
            if (got == REMOTE_MISSING) {
                err_clear(e);
                got = REMOTE_OK;
            }
        }
        free(l.names[i]);
    }
    free(l.names);
    if (got == REMOTE_OK && r->kind->sweep)
        got = r->kind->sweep(r, dir, l.before, removed, e);
    return got;
}
