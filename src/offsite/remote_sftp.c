/* SFTP, with libcurl's libssh2. Version 3 of the protocol is used, whose rename replaces nothing.
 *
 * libcurl connects to any host unless it has a known_hosts, even if a callback judges the key.
 * So the file is always set, and is opened and checked before the first request, and --check
 * tests that another host is refused. libssh2 before 1.11 cannot agree with today's servers on
 * any RSA key. A server with only an RSA host key is refused at once, because the error would
 * otherwise look like a broken connection. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "offsite/remote_curl.h"

#define LINE 2048 /* of a directory */
#define KNOWN_HOSTS_MAX 262144

/* ---- opening ---- */

static int check_library(struct remote *r, struct err *e)
{
    const struct curl_api *api = curl_api(e);
    if (!api)
        return -1;
    const curl_version_info_data *v = api->version_info(CURLVERSION_NOW);
    bool sftp = text_among("sftp", v->protocols),
         libssh2 = v->libssh_version && text_starts(v->libssh_version, "libssh2/");
    r->request.api = api;
    if (sftp && libssh2)
        return 0;
    err_set(e, ERR_SYSTEM, 0, "this libcurl (%s) %s", v->version,
            sftp ? "uses another library than libssh2 for SFTP" : "does not support SFTP");
    return err_hint(e, "install one with libssh2 (Debian: apt install libcurl4)");
}

/* Checks that known_hosts has a key on which libssh2 and today's servers can agree. With an RSA
 * key, the error would look like a broken connection. */
static int check_known_keys(const struct remote *r, int fd, const char *path, struct err *e)
{
    SCOPED(xfree) char *text = xcalloc(1, KNOWN_HOSTS_MAX + 1);
    ssize_t n = pread(fd, text, KNOWN_HOSTS_MAX, 0);
    if (n < 0)
        return err_sys(e, errno, "[offsite] known_hosts: cannot read %s", path);
    if (n == KNOWN_HOSTS_MAX || strstr(text, " ssh-ed25519 ") || strstr(text, " ecdsa-sha2-"))
        return 0;
    err_set(e, ERR_REFUSED, 0, "[offsite] known_hosts: %s has no Ed25519 or ECDSA key", path);
    return remote_hint_host_key(e, r, "a server with only an RSA key is not supported");
}

/* A process that can write known_hosts, or replace it, could redirect our copies. */
static int open_known_hosts(const struct remote *r, const char *path, struct err *e)
{
    struct err why = {0};
    int fd = file_open_trusted(path, &why);
    if (fd >= 0 && check_known_keys(r, fd, path, e) == 0)
        return fd;
    if (fd < 0) {
        err_pass(e, &why);
        err_step(e, "[offsite] known_hosts");
        if (why.num == ENOENT)
            remote_hint_host_key(e, r, "compare it with the key that its admin gives you");
    }
    file_close(&fd);
    return -1;
}

static enum remote_result sftp_open(struct remote *r, struct err *e)
{
    if (check_library(r, e) < 0)
        return REMOTE_REFUSED;
    r->key_fd = file_open_secret(r->cfg->key_file, e);
    if (r->key_fd < 0) {
        err_step(e, "[offsite] key_file");
        return REMOTE_REFUSED;
    }
    r->dirfd = open_known_hosts(r, r->cfg->known_hosts, e);
    return r->dirfd < 0 ? REMOTE_REFUSED : REMOTE_OK;
}

/* ---- requests ---- */

static int remote_sftp_begin(struct remote_request *t, const char *path, struct err *e)
{
    SCOPED(buf_free) struct buf url = {0};
    struct curl_request *w = &t->r->request;
    char file[40];
    buf_printf(&url, "sftp://%s", t->r->url.host);
    http_encode(&url, t->r->url.path, false);
    http_encode(&url, path, false);
    if (remote_request_begin(t, url.p, "sftp", e) < 0)
        return -1;
    CURL_SET(w, CURLOPT_USERNAME, t->r->url.user);
    CURL_SET(w, CURLOPT_SSH_AUTH_TYPES, (long)CURLSSH_AUTH_PUBLICKEY);
    /* The open descriptor is passed, so that the file that was checked is read even if its name
     * was given to another file since. */
    snprintf(file, sizeof file, "/proc/self/fd/%d", t->r->key_fd);
    CURL_SET(w, CURLOPT_SSH_PRIVATE_KEYFILE, file);
    snprintf(file, sizeof file, "/proc/self/fd/%d", t->r->dirfd);
    CURL_SET(w, CURLOPT_SSH_KNOWNHOSTS, file);
    return 0;
}

/* Runs a request that reads. If no byte arrives over a connection that libcurl had kept, libcurl
 * assumes that it was closed: older versions reconnect, newer ones (8.14) fail with an error
 * about redirects. An empty file has no byte. */
static CURLcode run_read(struct remote_request *t)
{
    CURLcode rc = remote_request_run(t);
    if (rc != CURLE_TOO_MANY_REDIRECTS)
        return rc;
    CURL_SET(&t->r->request, CURLOPT_FRESH_CONNECT, 1L);
    return remote_request_run(t);
}

/* Appends a path as libcurl's commands require it: in quotes, and relative if the URL has "/~/". */
static void remote_sftp_quote(struct buf *out, const struct remote *r, const char *name)
{
    const char *parts[] = {text_starts(r->url.path, "/~/") ? r->url.path + 3 : r->url.path, name};
    buf_addc(out, '"');
    for (size_t i = 0; i < 2; i++)
        for (const char *s = parts[i]; *s; s++) {
            if (*s == '"' || *s == '\\')
                buf_addc(out, '\\');
            buf_addc(out, *s);
        }
    buf_addc(out, '"');
}

/* Looks up a name. Returns REMOTE_OK or REMOTE_MISSING, or an error. */
static enum remote_result remote_sftp_look(struct remote *r, const char *what, const char *name,
                                           struct err *e)
{
    struct remote_request t = {.r = r, .what = what, .name = name, .whole = true};
    curl_off_t time = -1;
    if (remote_sftp_begin(&t, name, e) < 0)
        return REMOTE_REFUSED;
    CURL_SET(&r->request, CURLOPT_NOBODY, 1L);
    CURL_SET(&r->request, CURLOPT_FILETIME, 1L);
    CURLcode rc = remote_request_run(&t);
    enum remote_result got = rc == CURLE_OK ? REMOTE_OK : remote_request_failed(&t, rc, e);
    r->request.api->easy_getinfo(r->request.h, CURLINFO_FILETIME_T, &time);
    remote_request_end(&t);
    if (got != REMOTE_OK || time >= 0)
        return got;
    err_set(e, ERR_SYSTEM, 0, "cannot %s %s: %s: no such file", what, name, r->request.host);
    return REMOTE_MISSING;
}

/* Runs "rename FROM TO" or "rm FROM". */
static enum remote_result remote_sftp_command(struct remote *r, const char *what, const char *verb,
                                              const char *from, const char *to, struct err *e)
{
    struct remote_request t = {.r = r, .what = what, .name = to ? to : from, .whole = true};
    SCOPED(buf_free) struct buf line = {0};
    if (remote_sftp_begin(&t, "", e) < 0)
        return REMOTE_REFUSED;
    buf_printf(&line, "%s ", verb);
    remote_sftp_quote(&line, r, from);
    if (to) {
        buf_addc(&line, ' ');
        remote_sftp_quote(&line, r, to);
    }
    struct curl_slist *list = r->request.api->slist_append(NULL, line.p);
    CURL_SET(&r->request, CURLOPT_QUOTE, list);
    CURL_SET(&r->request, CURLOPT_NOBODY, 1L);
    CURLcode rc = remote_request_run(&t);
    /* libcurl has one error for every failed command. A denied command is told apart, because it
     * would otherwise be tried forever. */
    bool denied = rc == CURLE_QUOTE_ERROR && strstr(r->request.why, "Permission denied");
    enum remote_result got = rc == CURLE_OK ? REMOTE_OK : remote_request_failed(&t, rc, e);
    if (denied) {
        got = REMOTE_DENIED;
        if (e)
            e->cls = ERR_DENIED;
        err_hint(e, "let this account %s files there", to ? "rename" : "delete");
    }
    r->request.api->slist_free_all(list);
    remote_request_end(&t);
    return got;
}

static enum remote_result sftp_remove(struct remote *r, const char *name, struct err *e)
{
    enum remote_result got = remote_sftp_command(r, "delete", "rm", name, NULL, e);
    /* The server has few error codes, and some servers refuse to delete a missing file, so the
     * name is looked up. */
    bool unclear = got == REMOTE_LATER || got == REMOTE_DENIED;
    return unclear && remote_sftp_look(r, "delete", name, NULL) == REMOTE_MISSING ? REMOTE_MISSING
                                                                                  : got;
}

static enum remote_result sftp_look(struct remote *r, const char *name, struct err *e)
{
    return remote_sftp_look(r, "store", name, e);
}

static enum remote_result remote_sftp_upload(struct remote *r, const char *name, const char *part,
                                             const struct remote_source *from, struct err *e)
{
    struct remote_request t = {.r = r, .what = "store", .name = name, .from = from};
    if (remote_sftp_begin(&t, part, e) < 0)
        return REMOTE_REFUSED;
    CURL_SET(&r->request, CURLOPT_FTP_CREATE_MISSING_DIRS, (long)CURLFTP_CREATE_DIR);
    CURL_SET(&r->request, CURLOPT_NEW_FILE_PERMS, 0600L);
    CURL_SET(&r->request, CURLOPT_NEW_DIRECTORY_PERMS, 0700L);
    CURLcode rc = remote_request_run(&t);
    enum remote_result got =
        rc == CURLE_OK ? remote_came(from, name, t.sent, e) : remote_request_failed(&t, rc, e);
    remote_request_end(&t);
    return got;
}

/* Uploads under a temporary name and renames it, so that a name is visible only when the file is
 * complete. If the rename fails, it may still have been done and only its answer lost, so the
 * name is looked up. A server has few error codes, and seldom one for a name that is taken. */
static enum remote_result sftp_put(struct remote *r, const char *name,
                                   const struct remote_source *from, struct err *e)
{
    SCOPED(xfree) char *part = remote_part(name);
    enum remote_result got = remote_sftp_upload(r, name, part, from, e);
    bool sent = got == REMOTE_OK;
    if (sent)
        got = remote_sftp_command(r, "store", "rename", part, name, e);
    if (got == REMOTE_OK)
        return got;
    int64_t pause = r->pause;
    /* an upload that was denied is not tried in other ways, because each is a login */
    if ((got == REMOTE_LATER || (sent && got == REMOTE_DENIED)) &&
        remote_sftp_look(r, "store", name, NULL) == REMOTE_OK)
        got = remote_exists(name, e);
    remote_sftp_command(r, "delete", "rm", part, NULL, NULL);
    r->pause = pause;
    return got;
}

static enum remote_result sftp_get(struct remote *r, const char *name, int64_t offset,
                                   const struct remote_sink *to, struct err *e)
{
    struct remote_request t = {.r = r, .what = "read", .name = name, .to = to};
    if (remote_sftp_begin(&t, name, e) < 0)
        return REMOTE_REFUSED;
    CURL_SET(&r->request, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)offset);
    CURLcode rc = run_read(&t);
    /* No bytes follow the offset; newer versions (8.23) have another error for that. */
    bool end = offset && (rc == CURLE_BAD_DOWNLOAD_RESUME || rc == CURLE_RANGE_ERROR);
    enum remote_result got = rc == CURLE_OK || end ? REMOTE_OK : remote_request_failed(&t, rc, e);
    remote_request_end(&t);
    return got;
}

/* ---- directories ---- */

struct listing {
    struct remote_listing l;
    const char *dir;
    char line[LINE];
    size_t len;
};

/* "-rw-------    1 user   group     15926 Nov 23 10:58 name", as ls -l has it: all servers do. */
static int line_read(struct listing *l, struct err *e)
{
    char *fields[9], *rest = l->line;
    size_t n = 0;
    l->line[l->len] = '\0';
    l->len = 0;
    while (n < 8 && (fields[n] = strtok_r(n ? NULL : l->line, " ", &rest)))
        n++;
    rest += strspn(rest, " ");
    if (n < 8 || fields[0][0] != '-' || !*rest || strchr(rest, '/'))
        return 0;
    SCOPED(xfree) char *name = xasprintf("%s%s", l->dir, rest);
    SCOPED(xfree) char *time = xasprintf("%s_%s_%s", fields[5], fields[6], fields[7]);
    l->l.x.size = remote_size_read(fields[4]);
    remote_stamp(l->l.x.stamp, time);
    return remote_listing_entry(&l->l, name, e);
}

static int remote_sftp_on_listing(void *arg, const void *data, size_t len, struct err *e)
{
    struct listing *l = arg;
    if (remote_listing_grows(&l->l, len, e) < 0)
        return -1;
    for (const char *s = data; len; s++, len--)
        if (*s != '\n') {
            if (l->len < LINE - 1) /* longer than any name of ours */
                l->line[l->len++] = *s;
        } else if (line_read(l, e) < 0) {
            return -1;
        }
    return 0;
}

static enum remote_result sftp_list(struct remote *r, const char *dir, const struct remote_list *to,
                                    struct err *e)
{
    struct listing l = {.l = {.r = r, .to = to}, .dir = dir};
    const struct remote_sink sink = {remote_sftp_on_listing, &l};
    struct remote_request t = {.r = r, .what = "list", .name = r->shown.p, .to = &sink};
    if (remote_sftp_begin(&t, dir, e) < 0)
        return REMOTE_REFUSED;
    CURLcode rc = run_read(&t);
    enum remote_result got = rc == CURLE_OK                      ? REMOTE_OK
                             : rc == CURLE_REMOTE_FILE_NOT_FOUND ? REMOTE_OK
                                                                 : remote_request_failed(&t, rc, e);
    remote_request_end(&t);
    return got;
}

struct wanted {
    const char *name;
    bool found;
    int64_t size;
};

static int remote_sftp_find(void *arg, const struct remote_entry *x, struct err *e)
{
    struct wanted *w = arg;
    (void)e;
    if (strcmp(x->name, w->name) == 0) {
        w->found = true;
        w->size = x->size;
    }
    return 0;
}

static enum remote_result sftp_size(struct remote *r, const char *name, int64_t *size,
                                    struct err *e)
{
    const char *slash = strrchr(name, '/');
    SCOPED(xfree) char *dir = xstrndup(name, slash ? (size_t)(slash + 1 - name) : 0);
    struct wanted w = {.name = name};
    enum remote_result got = sftp_list(r, dir, &(struct remote_list){remote_sftp_find, &w}, e);
    *size = w.found ? w.size : -1;
    if (got != REMOTE_OK || w.found)
        return got;
    err_set(e, ERR_SYSTEM, 0, "%s: %s: no such file", r->shown.p, name);
    return REMOTE_MISSING;
}

const struct remote_kind remote_sftp = {.open = sftp_open,
                                        .put = sftp_put,
                                        .get = sftp_get,
                                        .size = sftp_size,
                                        .look = sftp_look,
                                        .list = sftp_list,
                                        .remove = sftp_remove};
