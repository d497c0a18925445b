/* Reading, writing and checking files. Two kinds of write:
 *   file_publish()  for readers of a status: a temporary file, then rename; nothing is synced;
 *   file_commit()   for data: the same with fsync of the file before and of the directory after.
 * The temporary file is ".NAME.PID.new". Both replace the name itself (a planted symbolic link is
 * replaced, never followed), create with O_EXCL|O_NOFOLLOW and set the mode whatever the umask is.
 * All names are relative to a directory descriptor that was opened once, so that nobody can swap
 * the directory under us. */
#ifndef WK_BASE_FILE_H
#define WK_BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/text.h"

enum file_dir_flag {
    FILE_MAKE = 1, /* create it and missing parents with mode `mode` */
    /* only published files are in it: another owner or a sticky directory is accepted */
    FILE_PUBLIC = 2,
};
/* Opens a directory whose last component is not a symbolic link. Refuses (ERR_REFUSED) one in which
 * other users could create files: writable by group or others, or owned by neither root nor us.
 * Root itself accepts any owner. Returns the descriptor or -1. */
int file_dir(const char *path, unsigned flags, mode_t mode, struct err *e);
/* Tells whether the directory at `path` is still the open one, another one, or missing. */
enum file_dir_place { FILE_DIR_SAME, FILE_DIR_OTHER, FILE_DIR_GONE };
enum file_dir_place file_dir_place(int dirfd, const char *path);
/* Opens a directory of our own inside an open one, created if missing; its mode is set to 0700. */
int file_subdir(int dirfd, const char *name, struct err *e);
/* Opens a file of our own to be written in place. `flags` as in open(2); O_CREAT creates it with
 * mode 0600. ERR_REFUSED for a symbolic or hard link, anything but a regular file, and a file that
 * others could have written (see file_open_own()); with O_CREAT a file that has another hard link
 * is replaced by a new one, unless somebody holds a lock (flock) on it: then it is used as it is,
 * or refused with O_TRUNC. O_TRUNC empties the file after these checks, so a refused file keeps its
 * content. */
int file_open(int dirfd, const char *name, int flags, struct err *e);

int file_publish(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                 struct err *e);
int file_commit(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                struct err *e);
/* Like file_publish(), for a file that is published every few seconds. The replaced file remains as
 * the temporary file, with mode 0600, and is rewritten the next time unless another process has it
 * open: creating and deleting a file costs several times as much as writing it. file_sweep()
 * removes it at the end. The caller must ignore SIGIO, which any process that opens the temporary
 * file can cause. */
int file_republish(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                   struct err *e);
/* Removes temporary files of both kinds that killed processes left, for `name` (NULL: for any
 * name). */
int file_sweep(int dirfd, const char *name, struct err *e);
/* Renames within one directory or between two, then syncs the directories. */
int file_rename(int fromfd, const char *from, int tofd, const char *to, struct err *e);
int file_sync_dir(int dirfd, const char *what, struct err *e);
/* Removes a file. A missing file is not an error. */
int file_remove(int dirfd, const char *name, struct err *e);

/* Opens a file in a directory of ours (`flags`: O_RDONLY or O_RDWR) and checks what was opened: not
 * a link, a regular file, owned by us or by root (for root: by root or the directory's owner), not
 * writable by group or others. Else ERR_REFUSED with num EPERM, and the command that fixes it as
 * the hint. Returns the descriptor or -1, with num ENOENT if the file does not exist. */
int file_open_own(int dirfd, const char *name, int flags, struct err *e);
/* For SCOPED(): closes the descriptor unless it is negative. */
void file_close(int *fd);
/* Appends the names in an open directory, in any order, without "." and "..". Returns -1 with the
 * text `failed` and the reason if not all could be read. */
int file_list(int dirfd, const char *failed, struct names *out, struct err *e);
/* Opens a file for reading by a path that an admin gave: a regular file of any owner. Links are
 * followed only where nobody else could have planted them: in directories owned by us or by root
 * and not writable by group or others. Otherwise ERR_REFUSED. */
int file_open_path(const char *path, struct err *e);
/* Opens the directory of `path`, and sets `name` to its last component. Links on the way are
 * followed as by file_open_path(). Returns the descriptor, or -1 with num ENOENT if a directory
 * does not exist. */
int file_open_place(const char *path, const char **name, struct err *e);
/* Like file_open_path(), for a file that decides which peers are trusted. Returns ERR_REFUSED
 * unless it and each directory of its real path are owned by root or us (for root: by anybody) and
 * not writable by group or others; a directory may be sticky. */
int file_open_trusted(const char *path, struct err *e);
/* Appends the rest of an open file to `out`. num EFBIG: more than `limit` bytes. `name` is for
 * error texts. */
int file_read_fd(int fd, const char *name, size_t limit, struct buf *out, struct err *e);
/* Appends a whole file of at most `limit` bytes to `out`; opened by file_open_own(). Returns 0, or
 * -1 with num ENOENT if it does not exist. */
int file_read(int dirfd, const char *name, size_t limit, struct buf *out, struct err *e);
/* Like file_read(), for a file that only this user can have written: mode 0600, owned by us (also
 * for root), with one link; else ERR_REFUSED. */
int file_read_private(int dirfd, const char *name, size_t limit, struct buf *out, struct err *e);
/* Like file_read(), for a published file (status.json), which may belong to another user. */
int file_read_public(int dirfd, const char *name, size_t limit, struct buf *out, struct err *e);
/* Sets the hint to `command` and `path`, quoted for a shell. */
void file_hint(struct err *e, const char *command, const char *path);
/* Reads a secret into a buffer that wipes what it leaves (buf.secret): like file_read() with a
 * limit of 4 KiB, first line only. Refused if group or others can read the file, if neither root
 * nor we own it, or if the line is empty or not plain text; `out` is freed then. `path` may be
 * "credential:NAME", relative to $CREDENTIALS_DIRECTORY. */
int file_read_secret(const char *path, struct buf *out, struct err *e);
/* Reduces the text of a secret file to the secret, its first line. Refused as by
 * file_read_secret(). `path` is for error texts. */
int file_take_secret(const char *path, struct buf *out, struct err *e);
/* Like file_read_secret(), but reads all lines, of any text, up to the caller's limit. */
int file_read_secret_lines(const char *path, size_t limit, struct buf *out, struct err *e);
/* Opens a secret file for reading with the same checks, for a library that reads it as
 * /proc/self/fd/N. */
int file_open_secret(const char *path, struct err *e);

int file_write_all(int fd, const void *data, size_t len); /* returns 0, or -1 with errno */

#endif
