#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

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
