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
    FILE_MAKE = 1,   /* create it and missing parents with mode `mode` */
    FILE_PUBLIC = 2, /* only published files: another owner or a sticky directory is accepted */
};
/* Opens a directory whose last component is not a symbolic link. Refuses (ERR_REFUSED) one in which
 * other users could create files: writable by group or others, or owned by neither root nor us.
 * Root itself accepts any owner. Returns the descriptor or -1. */
int file_dir(const char *path, unsigned flags, mode_t mode, struct err *e);
/* Is the directory at `path` still the open one, another, or none? */
enum file_dir_place { FILE_DIR_SAME, FILE_DIR_OTHER, FILE_DIR_GONE };
enum file_dir_place file_dir_place(int dirfd, const char *path);
/* Opens a directory of our own inside an open one, created if missing; its mode is set to 0700. */
int file_subdir(int dirfd, const char *name, struct err *e);
/* Opens a file of our own to be written in place. `flags` as in open(2); O_CREAT creates it with
 * mode 0600. ERR_REFUSED for a symbolic or hard link, anything but a regular file, and a file that
 * others could have written (see file_open_own()); with O_CREAT a file that has another hard link
 * is replaced by a new one, unless somebody holds a lock (flock) on it. */
int file_open(int dirfd, const char *name, int flags, struct err *e);

int file_publish(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                 struct err *e);
int file_commit(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                struct err *e);
/* As file_publish(), for what one process publishes every few seconds: the file that it replaces stays as the temporary
 * one, with mode 0600, and is written anew the next time, unless somebody has it open then. To make a file and to
 * delete one costs a file system several times what the bytes do. file_sweep() removes it at the end. For a process
 * that ignores SIGIO, which whoever opens the temporary file may cause. */
int file_republish(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                   struct err *e);
/* Removes temporary files of either kind that killed processes left, for `name` (NULL: for any). */
int file_sweep(int dirfd, const char *name, struct err *e);
/* Renames within one directory or between two, then syncs the directories involved. */
int file_rename(int fromfd, const char *from, int tofd, const char *to, struct err *e);
int file_sync_dir(int dirfd, const char *what, struct err *e);
/* A missing file is not an error. */
int file_remove(int dirfd, const char *name, struct err *e);

/* Opens a file in a directory of ours (`flags`: O_RDONLY or O_RDWR) and checks what was opened: not
 * a link, a regular file, owned by us or by root (for root: by root or the directory's owner), not
 * writable by group or others. Else ERR_REFUSED with num EPERM, and the command that fixes it as
 * the hint. Returns the descriptor or -1, with num ENOENT if the file does not exist. */
int file_open_own(int dirfd, const char *name, int flags, struct err *e);
/* For SCOPED(): closes it, if it is one. */
void file_close(int *fd);
/* Appends the names in an open directory, in any order, without "." and "..". Returns -1 unless all
 * of them could be read: `failed`, with the reason. */
int file_list(int dirfd, const char *failed, struct names *out, struct err *e);
/* Opens a file for reading by a path that an admin gave: a regular file of any owner. Links are
 * followed only where nobody else could have planted them: in directories owned by us or by root
 * and not writable by group or others. Otherwise ERR_REFUSED. */
int file_open_path(const char *path, struct err *e);
/* The same for a file that decides whom we trust: ERR_REFUSED unless it and each directory of its real path are owned by root
 * or us (for root: by anybody) and not writable by group or others; a sticky directory may be. */
int file_open_trusted(const char *path, struct err *e);
/* Appends what is left of an open file to `out`; num EFBIG: more than `limit` bytes. `name` is for error texts. */
int file_read_fd(int fd, const char *name, size_t limit, struct buf *out, struct err *e);
/* Appends a whole file of at most `limit` bytes to `out`; opened by file_open_own(). Returns 0, or
 * -1 with num ENOENT if it does not exist. */
int file_read(int dirfd, const char *name, size_t limit, struct buf *out, struct err *e);
/* The same for a file that only we can have made: mode 0600, our own even for root, and with one
 * name; else ERR_REFUSED. */
int file_read_private(int dirfd, const char *name, size_t limit, struct buf *out, struct err *e);
/* The same for a published file (status.json), which may belong to another user. */
int file_read_public(int dirfd, const char *name, size_t limit, struct buf *out, struct err *e);
/* Sets the hint to `command` and `path`, quoted for a shell. */
void file_hint(struct err *e, const char *command, const char *path);
/* Reads a secret into a buffer that wipes what it leaves (buf.secret): like file_read() with a
 * limit of 4 KiB, first line only. Refused if group or others can read the file, if neither root
 * nor we own it, or if the line is not plain text. `path` may be "credential:NAME", relative to
 * $CREDENTIALS_DIRECTORY. */
int file_read_secret(const char *path, struct buf *out, struct err *e);
/* The same with all its lines, of whatever text, and a limit of the caller's. */
int file_read_secret_lines(const char *path, size_t limit, struct buf *out, struct err *e);
/* Opens one for reading, checked the same way, for a library that reads it by /proc/self/fd. */
int file_open_secret(const char *path, struct err *e);

int file_write_all(int fd, const void *data, size_t len); /* 0, or -1 with errno */

#endif
