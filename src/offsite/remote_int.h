/* Private to src/offsite: what the kinds of stores share. */
#ifndef WK_OFFSITE_REMOTE_INT_H
#define WK_OFFSITE_REMOTE_INT_H

#include "base/text.h"
#include "config/store_url.h"
#include "net/curl_request.h"
#include "offsite/remote.h"

#define REMOTE_PIECE 65536
#define REMOTE_ENTRIES_MAX 1000000 /* of one directory */
#define REMOTE_PAUSE_MAX 3600000   /* ms */

/* What a server lists, as it comes. */
struct remote_listing {
    const struct remote *r;
    const struct remote_list *to;
    struct remote_entry x;
    size_t count;
    uint64_t bytes;
};
/* `len` bytes more; -1: a list that has more than so many files need has no end. */
int remote_listing_grows(struct remote_listing *l, size_t len, struct err *e);
/* A size as a server writes it; -1: it is none. */
int64_t remote_size_read(const char *text);
/* Passes `x` on, under this name. */
int remote_listing_entry(struct remote_listing *l, const char *name, struct err *e);

/* Names have been checked; a directory's is "" or ends with '/'. */
struct remote_kind {
    enum remote_result (*open)(struct remote *r, struct err *e);
    enum remote_result (*put)(struct remote *r, const char *name, const struct remote_source *from,
                              struct err *e);
    enum remote_result (*get)(struct remote *r, const char *name, int64_t offset,
                              const struct remote_sink *to, struct err *e);
    enum remote_result (*size)(struct remote *r, const char *name, int64_t *size, struct err *e);
    /* Is it there? NULL: size() is as fast. */
    enum remote_result (*look)(struct remote *r, const char *name, struct err *e);
    /* With unfinished ones. */
    enum remote_result (*list)(struct remote *r, const char *dir, const struct remote_list *to,
                               struct err *e);
    enum remote_result (*remove)(struct remote *r, const char *name, struct err *e);
    /* Uploads that leave no file with a remote_part() name; NULL: none do. */
    enum remote_result (*sweep)(struct remote *r, const char *dir, wall_t before, unsigned *removed,
                                struct err *e);
    /* remote_read() and remote_replace(); NULL: it has no versions. */
    enum remote_result (*read)(struct remote *r, const char *name, const struct remote_sink *to,
                               char version[REMOTE_VERSION], struct err *e);
    enum remote_result (*replace)(struct remote *r, const char *name, const struct buf *data,
                                  const char *version, char next[REMOTE_VERSION], struct err *e);
};
extern const struct remote_kind remote_dir, remote_sftp, remote_s3, remote_http;

struct remote {
    const struct config_offsite *cfg;
    const struct remote_kind *kind;
    struct store_url url;
    struct buf shown;
    int64_t pause;
    mono_t paced; /* max_rate: when the bytes so far were due */
    int dirfd;    /* remote_dir */

    struct curl_request request; /* all others: the connection is kept between requests */
    struct buf login, password;  /* the key's ID and its secret, or user and password; secret */
    int key_fd;                  /* sftp: the private key */
    struct buf made;             /* http: the directory that is known to be there */
    bool unconditional;          /* s3: the store does not know If-None-Match */
    bool anonymous;              /* no login, to see whether others can read */
    bool blind;                  /* a put does not look first whether the name is free */
    bool bare;                   /* versions without their quotes */
    bool unlocked;               /* without object_lock */
    _Atomic bool abandoned;      /* remote_abandon() */
    bool in_parts;               /* s3: what is large was refused in one request */
    int64_t skew;                /* ms that the server's clock is ahead, if that is known */
    bool skew_known;
};

/* The name under which `name` is uploaded: "NAME.1700000000-0123abcd.part". malloc. */
#define REMOTE_NAME_MAX 600 /* bytes */
/* Each component may be one of a name in a store (remote_common.c). */
bool remote_path_valid(const char *name);
char *remote_part(const char *name);
/* Seconds since 1970 at which such an upload began; -1: it is no such name. */
int64_t remote_part_time(const char *name);
void remote_stamp(char out[REMOTE_STAMP], const char *text);
/* Sleeps as max_rate demands after `len` bytes. */
void remote_pace(struct remote *r, size_t len);
/* The name is taken: fills the error. */
enum remote_result remote_exists(const char *name, struct err *e);
/* Compares what came from a source with what it said. */
enum remote_result remote_came(const struct remote_source *from, const char *name, int64_t bytes,
                               struct err *e);

#endif
