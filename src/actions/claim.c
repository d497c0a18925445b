#include "actions/claim.h"

#include <errno.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "actions/worlds.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/js.h"
#include "base/machine.h"
#include "base/worker.h"

/* Claims are kernel objects that are released when the process exits: two abstract sockets for the
 * schema, and a flock for the status directory. They need no cleanup after a crash. */

/* The space in sun_path after the zero byte of an abstract name. */
#define NAME_MAX_LEN 107
/* A process that asks for the holder only connects. claims_drain() closes these connections every
 * second. */
#define BACKLOG 64

/* ---- the schema ---- */

/* Returns the server's address in canonical form. */
static char *server_of(const struct config_mysql *m)
{
    if (!m->socket)
        return xasprintf("%s:%u", config_is_here(m->host) ? "localhost" : m->host, m->port);
    char *real = realpath(m->socket, NULL);
    return real ? real : xstrdup(m->socket);
}

bool claims_same_server(const struct config_mysql *a, const struct config_mysql *b)
{
    SCOPED(xfree) char *x = server_of(a);
    SCOPED(xfree) char *y = server_of(b);
    return strcmp(x, y) == 0;
}

/* Returns "worldkeeper/4f0c…". It is a hash because an abstract name has at most 107 bytes, while a
 * socket's path and a schema may have more. */
static char *claim_name(const struct config *cfg)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    char hex[2 * EVP_MAX_MD_SIZE + 1];
    SCOPED(xfree) char *server = server_of(&cfg->mysql);
    unsigned len = 0;
    SCOPED(buf_free) struct buf b = {0};
    buf_printf(&b, "%s\n%s", server, cfg->schema);
    EVP_Digest(b.p, b.len, digest, &len, EVP_sha256(), NULL);
    text_hex(digest, len, hex);
    return xasprintf("worldkeeper/%.32s", hex);
}

static socklen_t claim_abstract(const char *name, struct sockaddr_un *sa)
{
    *sa = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(sa->sun_path + 1, NAME_MAX_LEN, "%s", name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(sa->sun_path + 1));
}

/* Binds an abstract name. It needs no file and disappears with the process, however that ended.
 * Returns -1 with errno EADDRINUSE if the name is taken. */
static int bind_name(const char *name)
{
    struct sockaddr_un sa;
    socklen_t len = claim_abstract(name, &sa);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || (bind(fd, (struct sockaddr *)&sa, len) == 0 && listen(fd, BACKLOG) == 0))
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* Returns a description of the other world (malloc), or NULL if it is this world. */
static char *other_world(const struct config *cfg, const char *world, int pid)
{
    if (strcmp(world, cfg->name) == 0)
        return NULL;
    const char *name = world[0] ? world : "of another name";
    return pid ? xasprintf("world %s (pid %d)", name, pid) : xasprintf("world %s", name);
}

char *claims_schema_holder(const struct config *cfg)
{
    SCOPED(xfree) char *name = claim_name(cfg);
    char world[64];
    /* Find the process that listens there if it belongs to our user or to root; 0: there is none.
     * Sockets of other users are ignored, so that they cannot claim a world. Root sees all
     * sockets. */
    struct sockaddr_un sa;
    struct ucred who = {0};
    socklen_t len = claim_abstract(name, &sa), size = sizeof who;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool there = fd >= 0 && connect(fd, (struct sockaddr *)&sa, len) == 0;
    if (there && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0)
        who.pid = 0;
    if (fd >= 0)
        close(fd);
    bool ours = who.uid == geteuid() || who.uid == 0 || geteuid() == 0;
    int pid = there && ours ? who.pid : 0;
    if (!pid)
        return NULL;
    /* A second socket's name consists of the claim's name followed by the world's name. */
    char line[512];
    SCOPED(xfree) char *mark = xasprintf("@%s/", name);
    FILE *f = fopen("/proc/self/net/unix", "re");
    world[0] = '\0';
    while (f && !world[0] && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, mark);
        if (at)
            snprintf(world, 64, "%.*s", (int)strcspn(at + strlen(mark), "\n"), at + strlen(mark));
    }
    if (f)
        fclose(f);
    return other_world(cfg, world, pid);
}

static int claim_schema(const struct config *cfg, struct claims *c, struct err *e)
{
    SCOPED(xfree) char *name = claim_name(cfg);
    SCOPED(xfree) char *full = xasprintf("%s/%s", name, cfg->name);
    c->schema = bind_name(name);
    /* Other failures do not mean that another process has the claim. The world is then kept without
     * a claim, which is better than not at all. */
    bool taken = c->schema < 0 && errno == EADDRINUSE;
    /* A second socket carries the world's name, for claims_schema_holder(). */
    if (c->schema >= 0)
        c->name = bind_name(full);
    SCOPED(xfree) char *who = taken ? claims_schema_holder(cfg) : NULL;
    if (!who)
        return 0;
    err_set(e, ERR_REFUSED, 0, "schema %s of this server is already kept by %s", cfg->schema, who);
    err_hint(e, "a schema holds one world: change [world] schema, or stop the other supervisor");
    return -1;
}

/* ---- the status directory ---- */

/* Returns the process with a flock on the file, or 0 if none is visible. */
static int holder_of(int fd)
{
    struct stat st;
    int pid = fstat(fd, &st) == 0 ? flock_holder(st.st_ino) : 0;
    return pid > 0 ? pid : 0;
}

/* Returns the world whose valid status is in the directory. */
static char *claim_publisher(const struct config *cfg, int pid)
{
    json_auto_t *o = worlds_published(cfg);
    bool fresh = js_number(o, "valid_until_unix", 0) > clock_wall().ms / 1000;
    SCOPED(buf_free) struct buf world = {0};
    text_clean(&world, fresh ? js_text(o, "world") : "", 60);
    return other_world(cfg, world.p ? world.p : "", pid);
}

char *claims_status_holder(const struct config *cfg)
{
    SCOPED(file_close) int fd =
        cfg->status_dir ? file_dir(cfg->status_dir, FILE_PUBLIC, 0, NULL) : -1;
    int pid = fd >= 0 ? holder_of(fd) : 0;
    return pid ? claim_publisher(cfg, pid) : NULL;
}

static int claim_status(const struct config *cfg, struct claims *c, struct err *e)
{
    if (!cfg->status_dir)
        return 0;
    c->status = file_dir(cfg->status_dir, FILE_MAKE | FILE_PUBLIC, 0755, NULL);
    if (c->status < 0 || flock(c->status, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return 0; /* an unusable directory is reported at the first write */
    SCOPED(xfree) char *who = claim_publisher(cfg, holder_of(c->status));
    if (!who)
        return 0;
    err_set(e, ERR_REFUSED, 0, "[status] dir %s is already used by %s", cfg->status_dir, who);
    err_hint(e, "give each world its own [status] dir");
    return -1;
}

/* ---- both ---- */

/* A worker that survives the supervisor for a moment must not keep the claims. */
static void close_in_workers(const struct claims *c)
{
    const int fds[] = {c->schema, c->name, c->status};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            worker_close_in_child(fds[i]);
}

int claims_take(const struct config *cfg, struct claims *out, struct err *e)
{
    *out = CLAIMS_NONE;
    /* On failure no claim is kept, so the caller may try again with another config. */
    if (claim_schema(cfg, out, e) < 0 || claim_status(cfg, out, e) < 0) {
        close_in_workers(out);
        claims_drop(out);
        return -1;
    }
    close_in_workers(out);
    return 0;
}

/* poll() checks for connections first, because the kernel allocates a socket for each accept4()
 * even if no client waits. */
void claims_drain(const struct claims *c)
{
    struct pollfd p = {.fd = c->schema, .events = POLLIN};
    int fd;
    while (poll(&p, 1, 0) > 0 && (fd = accept4(c->schema, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        close(fd);
}

void claims_drop(struct claims *c)
{
    worker_close(&c->schema);
    worker_close(&c->name);
    worker_close(&c->status);
}
