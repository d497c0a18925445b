/* The status files that are published together, as one DISK_PUBLISH packet: names and texts, each
 * ending with a NUL byte. In JSON each quote of these files would be escaped, and the disk writer
 * would parse texts that it only writes: an eighth of what an idle world costs
 * (tests/bench/README.md). */
#ifndef WK_SUPERVISOR_STATUS_FILES_H
#define WK_SUPERVISOR_STATUS_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

/* Begins a packet in an empty `out`. `up`: the files say UP, and must not be written after the
 * lease has ended. */
void status_files_begin(struct buf *out, bool up);
/* Appends a file; with `text` NULL the file is removed. */
void status_files_add(struct buf *out, const char *name, const char *text);
bool status_files_any(const struct buf *packet);

/* A packet while it is read. It points into the packet. */
struct status_files {
    bool up; /* false without files */
    const char *at, *end;
};
struct status_file {
    const char *name, *text; /* text NULL: remove the file */
};
struct status_files status_files_read(const char *packet, size_t len);
/* Returns false after the last file, and at bytes that are no file. */
bool status_files_next(struct status_files *s, struct status_file *out);

#endif
