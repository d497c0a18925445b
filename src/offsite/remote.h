/* A store of files on another machine ([offsite] url): a mounted directory, SFTP, S3 or WebDAV.
 *
 * Rules for all kinds: a name is visible only after all of its bytes are stored; an existing name
 * is never replaced; no text contains a secret; a server that is slow, silent or endless is given
 * up after [offsite] timeout without progress. What a store reports does not prove what it has:
 * read it back.
 *
 * Calls block, so they are made in workers only. One connection, one thread. Nothing is retried
 * here. */
#ifndef WK_OFFSITE_REMOTE_H
#define WK_OFFSITE_REMOTE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "config/config.h"

/* The error's text has details from the store's answer; none with REMOTE_OK. */
enum remote_result {
    REMOTE_OK,
    REMOTE_MISSING, /* there is no such name */
    /* the name exists and was not changed. After an interrupted put it may be our own: read it
     * back */
    REMOTE_EXISTS,
    REMOTE_DENIED, /* the login failed or lacks permissions */
    REMOTE_FULL,   /* the store or a quota is full */
    REMOTE_LATER,  /* network, timeout, overload: the same call may succeed later */
    /* needs an operator: a host key, a certificate, a missing bucket, an unsupported store */
    REMOTE_REFUSED,
    REMOTE_STOPPED, /* the caller's function returned an error, which is in `e` */
};
const char *remote_result_name(enum remote_result r);

struct remote;

/* Reads secrets, and connects if that is possible without a request. `cfg` is borrowed and has
 * [offsite] url. On success *out must be closed with remote_close(). */
enum remote_result remote_open(const struct config *cfg, struct remote **out, struct err *e);
void remote_close(struct remote *r); /* NULL is allowed */
/* Called by another thread: the current call ends within a second, as REMOTE_LATER, and so does
 * every later one. A call to a mounted directory cannot be ended. */
void remote_abandon(struct remote *r);
/* Returns the URL without secrets: "sftp://host/dir/". */
const char *remote_shown(const struct remote *r);
/* Returns the ms that the store asked to wait with its last REMOTE_LATER; 0: none. */
int64_t remote_pause(const struct remote *r);

/* Names are relative to the URL: components of [A-Za-z0-9._-] joined by '/', each beginning with
 * a letter or digit, 1 to 600 bytes; directories are made as needed. ".part" at the end is
 * reserved. */
bool remote_name_valid(const char *name);

struct remote_source {
    /* Returns up to `room` bytes; 0: the end; -1 with `e` filled. */
    ssize_t (*read)(void *arg, void *data, size_t room, struct err *e);
    void *arg;
    int64_t size;                           /* all bytes that come; -1: unknown */
    int (*again)(void *arg, struct err *e); /* restarts the source; NULL: it cannot */
};
/* REMOTE_REFUSED if the source has another number of bytes than it stated. */
enum remote_result remote_put(struct remote *r, const char *name, const struct remote_source *from,
                              struct err *e);

struct remote_sink {
    /* returns 0, or -1 with `e` */
    int (*write)(void *arg, const void *data, size_t len, struct err *e);
    void *arg;
};
/* Reads all bytes from `offset` on. A truncated transfer ends with REMOTE_LATER, whatever went into
 * the sink before. */
enum remote_result remote_get(struct remote *r, const char *name, int64_t offset,
                              const struct remote_sink *to, struct err *e);

enum remote_result remote_size(struct remote *r, const char *name, int64_t *size, struct err *e);

/* ---- small files that are replaced conditionally (leases): only if a store was seen to honor
 * conditions ---- */

#define REMOTE_SMALL 4096  /* bytes */
#define REMOTE_VERSION 130 /* a store's name for the content of a file, including the NUL */

/* Sets whether versions are sent without quotes, because some stores know them only without the
 * quotes that they add. */
void remote_bare_versions(struct remote *r, bool bare);
/* Reads a whole file and its version. REMOTE_REFUSED: it is larger than REMOTE_SMALL. */
enum remote_result remote_read(struct remote *r, const char *name, struct buf *out,
                               char version[REMOTE_VERSION], struct err *e);
/* Writes the whole file if it still has this version; NULL: if the name does not exist.
 * REMOTE_EXISTS: it has another version. After REMOTE_LATER it may have been written. `next`: its
 * new version. */
enum remote_result remote_replace(struct remote *r, const char *name, const struct buf *data,
                                  const char *version, char next[REMOTE_VERSION], struct err *e);

#define REMOTE_STAMP 72
struct remote_entry {
    const char *name; /* full name, as for remote_get() */
    int64_t size;     /* -1: the store does not say */
    char stamp
        /* differs for other content, as far as the store can tell (an ETag, a time); printable,
         * without blanks; "": unknown */
        [REMOTE_STAMP];
};
struct remote_list {
    int (*entry)(void *arg, const struct remote_entry *x, struct err *e); /* 0, or -1 with `e` */
    void *arg;
};
/* Lists each file in a directory ("s8/dumps/"; "": the top), without subdirectories, in no order,
 * without unfinished files and names that remote_name_valid() refuses. A missing directory is
 * empty. */
enum remote_result remote_list(struct remote *r, const char *dir, const struct remote_list *to,
                               struct err *e);

/* A missing name is REMOTE_OK. */
enum remote_result remote_delete(struct remote *r, const char *name, struct err *e);

/* Removes remains of uploads into a directory that were begun more than `age` ms before `now`. */
enum remote_result remote_sweep(struct remote *r, const char *dir, wall_t now, int64_t age,
                                unsigned *removed, struct err *e);

/* ---- --check ---- */

enum remote_known { REMOTE_UNKNOWN, REMOTE_YES, REMOTE_NO };
/* Observed behavior of a store. */
struct remote_proof {
    enum remote_known conditional; /* refuses to replace a name without a previous check */
    enum remote_known public;      /* others can read its contents without a login */
    enum remote_known deletes;     /* NO: only if [offsite] wants nothing deleted, or locked */
    enum remote_known checks_host; /* sftp: another host key is refused */
    enum remote_known same_disk;   /* file: it is on the same disk as the given directory */
    int64_t skew;                  /* ms by which its clock is ahead */
    bool skew_known;
    uint64_t free_bytes;
    bool free_known;
};
/* Stores a test file in `dir`, reads it back, lists and deletes it, and tries what must not work.
 * Nothing remains unless it cannot be deleted: then one file per month. `local`: a directory that
 * must be on another disk than the store. */
enum remote_result remote_prove(struct remote *r, const char *dir, const char *local,
                                struct remote_proof *p, struct err *e);

#endif
