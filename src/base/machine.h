/* What the kernel says of this machine: its disks, its memory, its locks. */
#ifndef WK_BASE_MACHINE_H
#define WK_BASE_MACHINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The disk that a directory is on, for messages: "/dev/sda1 on /var"; "" if unknown. */
void mount_name(int fd, char *out, size_t size);
/* The same from the text of a /proc/self/mountinfo. Pure. */
void mount_find(const char *mountinfo, unsigned major, unsigned minor, char *out, size_t size);
/* Bytes that can be allocated without swapping, as the kernel estimates it; -1: not known. */
int64_t memory_available(void);
/* The process that holds a flock on the file with this inode; 0: one that is not seen from here; -1: none, or a
 * sandbox hides who. */
int flock_holder(ino_t inode);

#endif
