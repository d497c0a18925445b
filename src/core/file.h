/* Files, in two kinds of write with two names:
 *   file_publish()  for readers of a status: a temporary file, then rename; nothing is synced;
 *   file_commit()   for data: the same with fsync of the file before and of the directory after.
 * The temporary file is ".NAME.PID.new". Both replace the name itself (a planted symbolic link is
 * replaced, never followed), create with O_EXCL|O_NOFOLLOW and set the mode whatever the umask is.
 * All names are relative to a directory descriptor that was opened once, so that nobody can swap
 * the directory under us. */
#ifndef WK_CORE_FILE_H
#define WK_CORE_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "core/err.h"
#include "core/text.h"

enum file_dir_flag {
    FILE_MAKE = 1,   /* it and missing parents are made, mode `mode` */
    FILE_PUBLIC = 2, /* for what is only published: of another owner, or sticky, will do */
};
/* Opens a directory (no symbolic link as last part). Refuses (ERR_REFUSED) one in which others
 * could put files of theirs: that group or others may write to, or that belongs to neither root nor
 * us. Root itself works in anybody's. Returns fd or -1. */
int file_dir(const char *path, unsigned flags, mode_t mode, struct err *e);
/* Is another directory, or none, where this one was opened? */
bool file_dir_moved(int dirfd, const char *path);
/* A directory of our own inside an open one, made when missing; its mode is set to 0700. */
int file_subdir(int dirfd, const char *name, struct err *e);
/* Opens a file of our own to be written in place, `flags` as open(2) has them, with O_CREAT mode
 * 0600. Never through a link of either kind, never anything but a file: ERR_REFUSED; with O_CREAT
 * one that has another name too is made anew, unless somebody holds a lock (flock) on it. */
int file_open(int dirfd, const char *name, int flags, struct err *e);

int file_publish(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                 struct err *e);
int file_commit(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                struct err *e);
/* Removes temporary files of the two, for `name` (NULL: for any), that killed processes left here.
 */
int file_sweep(int dirfd, const char *name, struct err *e);
/* rename inside one directory or between two, then fsync of the directories involved. */
int file_rename(int fromfd, const char *from, int tofd, const char *to, struct err *e);
int file_sync_dir(int dirfd, const char *what, struct err *e);
/* Removes; a missing file is no error. */
int file_remove(int dirfd, const char *name, struct err *e);

/* Whole regular file (no symbolic link, no FIFO), at most `limit` bytes; appended to `out`.
 * Returns 0, or -1 with num ENOENT when it is not there. */
int file_read(int dirfd, const char *name, size_t limit, struct buf *out, struct err *e);
/* The hint to type `command` with `path`, as a shell reads it. */
void file_hint(struct err *e, const char *command, const char *path);
/* A secret: like file_read (limit 4 KiB), first line only, refused when group or others can read
 * the file, when it belongs to neither root nor us or when the line is no plain text; `path` may be
 * relative to $CREDENTIALS_DIRECTORY as "credential:NAME". */
int file_read_secret(const char *path, struct buf *out, struct err *e);

int file_write_all(int fd, const void *data, size_t len); /* 0, or -1 with errno */

#endif
