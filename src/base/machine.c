#include "base/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/text.h"

void mount_find(const char *mountinfo, unsigned major, unsigned minor, char *out, size_t size)
{
    /* Format of a line: 36 35 98:0 /root /mount/point options … - type source options */
    out[0] = '\0';
    for (const char *line = mountinfo; *line && !out[0];) {
        size_t len = strcspn(line, "\n");
        char text[2048], point[256], source[256];
        unsigned a, b;
        snprintf(text, sizeof text, "%.*s", (int)(len < sizeof text ? len : sizeof text - 1), line);
        const char *options = strstr(text, " - ");
        if (options && sscanf(text, "%*u %*u %u:%u %*s %255s", &a, &b, point) == 3 && a == major &&
            b == minor && sscanf(options, " - %*s %255s", source) == 1)
            snprintf(out, size, "%s on %s", source, point);
        line += len + (line[len] == '\n');
    }
}

void mount_name(int fd, char *out, size_t size)
{
    struct stat st;
    char *line = NULL;
    size_t room = 0;
    FILE *f = fstat(fd, &st) == 0 ? fopen("/proc/self/mountinfo", "re") : NULL;
    out[0] = '\0';
    while (f && !out[0] && getline(&line, &room, f) > 0)
        mount_find(line, major(st.st_dev), minor(st.st_dev), out, size);
    free(line);
    if (f)
        fclose(f);
}

/* Not MemFree: memory in caches is available too, and the kernel knows best how much of it. */
int64_t memory_available(void)
{
    static const char name[] = "MemAvailable:";
    char line[128];
    int64_t bytes = -1;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && bytes < 0 && fgets(line, sizeof line, f))
        if (text_starts(line, name))
            bytes = strtoll(line + strlen(name), NULL, 10) * 1024;
    if (f)
        fclose(f);
    return bytes;
}

/* The device is not compared: on some file systems it differs from stat()'s. */
int flock_holder(ino_t inode)
{
    char line[256], wanted[64];
    int holder = -1;
    snprintf(wanted, sizeof wanted, ":%llu ", (unsigned long long)inode);
    FILE *f = fopen("/proc/locks", "re");
    while (f && holder < 0 && fgets(line, sizeof line, f))
        if (strstr(line, wanted) && sscanf(line, "%*d: FLOCK %*s %*s %d", &holder) != 1)
            holder = -1;
    if (f)
        fclose(f);
    return holder;
}

void machine_boot_parse(const char *text, char out[MACHINE_BOOT])
{
    size_t n = 0;
    for (const char *s = text; *s && *s != '\n'; s++)
        if (*s != '-' && n++ < MACHINE_BOOT - 1)
            out[n - 1] = *s;
    out[n < MACHINE_BOOT ? n : 0] = '\0';
    if (!text_is_hex(out, MACHINE_BOOT - 1))
        out[0] = '\0';
}

static void read_boot(char out[MACHINE_BOOT])
{
    char line[64] = "";
    const char *passed = getenv("WORLDKEEPER_BOOT");
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    bool read = f && fgets(line, sizeof line, f);
    if (f)
        fclose(f);
    machine_boot_parse(read || !passed ? line : passed, out);
}

const char *machine_boot(void)
{
    static char boot[MACHINE_BOOT];
    static bool known;
    if (!known)
        read_boot(boot);
    known = true;
    return boot;
}
