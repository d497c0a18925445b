/* Name of the disk that a directory is on, for messages. */
#ifndef WK_BASE_MOUNT_H
#define WK_BASE_MOUNT_H

#include <stddef.h>

/* "/dev/sda1 on /var"; "" if unknown. */
void mount_name(int fd, char *out, size_t size);
/* The same from the text of a /proc/self/mountinfo. Pure. */
void mount_find(const char *mountinfo, unsigned major, unsigned minor, char *out, size_t size);

#endif
