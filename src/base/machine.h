/* Facts from the kernel about this machine: disks, memory, locks. */
#ifndef WK_BASE_MACHINE_H
#define WK_BASE_MACHINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MACHINE_BOOT 33

/* Sets `out` to the disk that a directory is on, for messages: "/dev/sda1 on /var"; "" if
 * unknown. */
void mount_name(int fd, char *out, size_t size);
/* Like mount_name(), from the text of /proc/self/mountinfo. Pure. */
void mount_find(const char *mountinfo, unsigned major, unsigned minor, char *out, size_t size);
/* Returns the bytes that can be allocated without swapping, as the kernel estimates them; -1: not
 * known. */
int64_t memory_available(void);
/* Returns the process that holds a flock on the file with this inode; 0 if that process is not
 * visible from here; -1 if no process holds it, or a sandbox hides which one. */
int flock_holder(ino_t inode);
/* Returns the kernel's id of this boot, 32 hex digits; "" if it is not known. A sandbox that hides
 * the id from /proc passes it in the variable WORLDKEEPER_BOOT (systemd: %b). It is read only once,
 * because no process outlives a boot. Main thread only. */
const char *machine_boot(void);
/* Sets `out` to the id in the text of boot_id, with or without dashes; "" if it has none. Pure. */
void machine_boot_parse(const char *text, char out[MACHINE_BOOT]);

#endif
