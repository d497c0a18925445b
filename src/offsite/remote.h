/* A store of files on another machine ([offsite] url): a mounted directory, SFTP, S3 or WebDAV.
 *
 * What holds for each kind: a name is visible only once all of its bytes are stored; a name that
 * exists is never replaced; nothing of a secret is in a text; a server that is slow, silent or
 * endless is given up after [offsite] timeout without progress. What a store says is not proof of
 * what it has: read it back.
 *
 * Calls block, so they are made in workers only. One connection, one thread. Nothing is tried twice
 * in here. */
#ifndef WK_OFFSITE_REMOTE_H
#define WK_OFFSITE_REMOTE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "config/config.h"

/* The error's text says more, with what the store answered; none with REMOTE_OK. */
enum remote_result {
    REMOTE_OK,
    REMOTE_MISSING, /* there is no such name */
    REMOTE_EXISTS, /* the name is there, and was not touched. After a put that was cut off it may be
                     * our own: read it back */
    REMOTE_DENIED, /* the login or its rights */
    REMOTE_FULL,   /* no room, or a quota is used up */
    REMOTE_LATER,  /* network, timeout, overload: the same call may succeed later */
    REMOTE_REFUSED, /* it will not without somebody's help: a host key, a certificate, a bucket that
                     * is missing, a store that cannot do it */
    REMOTE_STOPPED, /* the caller's function returned an error, which is its own */
};
const char *remote_result_name(enum remote_result r);

struct remote;

/* Reads secrets and connects where that can be known without a request. `cfg` is borrowed and has
 * [offsite] url. On success *out is to be closed with remote_close(). */
enum remote_result remote_open(const struct config *cfg, struct remote **out, struct err *e);
void remote_close(struct remote *r); /* NULL: nothing */
/* For another thread: what is under way ends within a second, as REMOTE_LATER, and so does all that is asked later.
 * Of a directory nothing can be ended. */
void remote_abandon(struct remote *r);
/* Without secrets: "sftp://host/dir/". */
const char *remote_shown(const struct remote *r);
/* ms that the store asked to wait with its last REMOTE_LATER; 0: nothing was said. */
int64_t remote_pause(const struct remote *r);

/* Names are relative to the URL: components of [A-Za-z0-9._-] joined by '/', each beginning with a
 * letter or digit, 1 to 600 bytes; directories are made as needed. ".part" at the end is reserved. */
bool remote_name_valid(const char *name);

struct remote_source {
    /* Up to `room` bytes; 0: the end; -1 with `e` filled. */
    ssize_t (*read)(void *arg, void *data, size_t room, struct err *e);
    void *arg;
    int64_t size;                           /* all bytes that come; -1: unknown */
    int (*again)(void *arg, struct err *e); /* begins anew; NULL: it cannot */
};
/* REMOTE_REFUSED if the source has another number of bytes than it said. */
enum remote_result remote_put(struct remote *r, const char *name, const struct remote_source *from,
                              struct err *e);

struct remote_sink {
    int (*write)(void *arg, const void *data, size_t len, struct err *e); /* 0, or -1 with `e` */
    void *arg;
};
/* All bytes from `offset` on. One that is cut off ends with REMOTE_LATER, whatever went into the
 * sink before. */
enum remote_result remote_get(struct remote *r, const char *name, int64_t offset,
                              const struct remote_sink *to, struct err *e);

enum remote_result remote_size(struct remote *r, const char *name, int64_t *size, struct err *e);

/* ---- small files that are replaced on condition (leases): only where a store is seen to honour that ---- */

#define REMOTE_SMALL 4096  /* bytes */
#define REMOTE_VERSION 130 /* a store's name for the content of a file, with its end */

/* Some stores know a version only without the quotes that they put around it. */
void remote_bare_versions(struct remote *r, bool bare);
/* All of a file, and its version. REMOTE_REFUSED: it is larger than REMOTE_SMALL. */
enum remote_result remote_read(struct remote *r, const char *name, struct buf *out,
                               char version[REMOTE_VERSION], struct err *e);
/* Writes the whole file if it still has this version; NULL: if there is none of this name. REMOTE_EXISTS: it
 * is another. After REMOTE_LATER it may have been written. `next`: its version now. */
enum remote_result remote_replace(struct remote *r, const char *name, const struct buf *data,
                                  const char *version, char next[REMOTE_VERSION], struct err *e);

#define REMOTE_STAMP 72
struct remote_entry {
    const char *name; /* whole, as remote_get() takes it */
    int64_t size;     /* -1: the store does not say */
    char stamp
        [REMOTE_STAMP]; /* another one for other content, as far as the store can tell (an ETag, a
                               * time); printable, without blanks; "": it does not say */
};
struct remote_list {
    int (*entry)(void *arg, const struct remote_entry *x, struct err *e); /* 0, or -1 with `e` */
    void *arg;
};
/* Each file in a directory ("s8/dumps/"; "": at the top), not those in directories in it, in no
 * order, without unfinished ones and without names that remote_name_valid() refuses. A directory
 * that is missing is empty. */
enum remote_result remote_list(struct remote *r, const char *dir, const struct remote_list *to,
                               struct err *e);

/* A missing name is REMOTE_OK. */
enum remote_result remote_delete(struct remote *r, const char *name, struct err *e);

/* Removes what uploads into a directory left that were begun more than `age` ms before `now`. */
enum remote_result remote_sweep(struct remote *r, const char *dir, wall_t now, int64_t age,
                                unsigned *removed, struct err *e);

/* ---- --check ---- */

enum remote_known { REMOTE_UNKNOWN, REMOTE_YES, REMOTE_NO };
/* What a store was seen to do. */
struct remote_proof {
    enum remote_known conditional; /* refuses to replace a name when nobody looked first */
    enum remote_known public;      /* others can read what is in it, without a login */
    enum remote_known deletes;     /* NO: only where [offsite] wants nothing deleted, or locked */
    enum remote_known checks_host; /* sftp: another host key is refused */
    enum remote_known same_disk;   /* file: it is that of the directory given */
    int64_t skew;                  /* ms that its clock is ahead */
    bool skew_known;
    uint64_t free_bytes;
    bool free_known;
};
/* Stores a file of its own in `dir`, reads it back, lists and deletes it, and tries what must not work.
 * Nothing of it stays, unless it cannot be deleted: then one for each month. `local`: a directory whose disk
 * must not be the store's. */
enum remote_result remote_prove(struct remote *r, const char *dir, const char *local,
                                struct remote_proof *p, struct err *e);

#endif
