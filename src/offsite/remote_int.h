/* Private to src/offsite: shared by the kinds of stores. */
#ifndef WK_OFFSITE_REMOTE_INT_H
#define WK_OFFSITE_REMOTE_INT_H

#include "base/text.h"
#include "config/store_url.h"
#include "net/curl_request.h"
#include "offsite/remote.h"

#define REMOTE_PIECE 65536
#define REMOTE_ENTRIES_MAX 1000000 /* entries of one directory */
#define REMOTE_PAUSE_MAX 3600000   /* ms */

/* A server's listing while it arrives. */
struct remote_listing {
    const struct remote *r;
    const struct remote_list *to;
    struct remote_entry x;
    size_t count;
    uint64_t bytes;
};
/* Counts `len` more bytes. Returns -1 if the list is longer than that many files need: it is
 * endless. */
int remote_listing_grows(struct remote_listing *l, size_t len, struct err *e);
/* Parses a size as a server writes it; -1: invalid. */
int64_t remote_size_read(const char *text);
/* Passes `x` on under this name. */
int remote_listing_entry(struct remote_listing *l, const char *name, struct err *e);

/* Functions of a kind of store. Names have been checked; a directory's name is "" or ends with
 * '/'. */
struct remote_kind {
    enum remote_result (*open)(struct remote *r, struct err *e);
    enum remote_result (*put)(struct remote *r, const char *name, const struct remote_source *from,
                              struct err *e);
    enum remote_result (*get)(struct remote *r, const char *name, int64_t offset,
                              const struct remote_sink *to, struct err *e);
    enum remote_result (*size)(struct remote *r, const char *name, int64_t *size, struct err *e);
    /* Checks that a name exists. NULL: size() is as fast. */
    enum remote_result (*look)(struct remote *r, const char *name, struct err *e);
    /* Also lists unfinished files. */
    enum remote_result (*list)(struct remote *r, const char *dir, const struct remote_list *to,
                               struct err *e);
    enum remote_result (*remove)(struct remote *r, const char *name, struct err *e);
    /* For uploads that leave no file with a remote_part() name; NULL: none do. */
    enum remote_result (*sweep)(struct remote *r, const char *dir, wall_t before, unsigned *removed,
                                struct err *e);
    /* remote_read() and remote_replace(); NULL: no versions. */
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
    struct buf made;             /* http: a directory that is known to exist */
    bool unconditional;          /* s3: the store does not know If-None-Match */
    bool anonymous;              /* no login, to find out whether others can read */
    bool blind;                  /* a put does not check first whether the name is free */
    bool bare;                   /* versions without their quotes */
    bool unlocked;               /* without object_lock */
    _Atomic bool abandoned;      /* set by remote_abandon() */
    bool in_parts;               /* s3: large files were refused in one request */
    int64_t skew;                /* ms by which the server's clock is ahead, if known */
    bool skew_known;
};

/* Returns the name under which `name` is uploaded: "NAME.1700000000-0123abcd.part". The caller
 * frees it. */
#define REMOTE_NAME_MAX 600 /* bytes */
/* Returns true if each component may be part of a name in a store (remote_common.c). */
bool remote_path_valid(const char *name);
char *remote_part(const char *name);
/* Returns when such an upload began, in seconds since 1970; -1: it is not such a name. */
int64_t remote_part_time(const char *name);
void remote_stamp(char out[REMOTE_STAMP], const char *text);
/* Sleeps as long as max_rate requires after `len` bytes. */
void remote_pace(struct remote *r, size_t len);
/* Sets the error for a name that is taken. */
enum remote_result remote_exists(const char *name, struct err *e);
/* Compares the bytes of a source with the stated size. */
enum remote_result remote_came(const struct remote_source *from, const char *name, int64_t bytes,
                               struct err *e);

#endif
