#include "base/fault.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FAULT_MAX 16

static struct fault {
    char name[48];
    char action[24];
    long nth, seen;
} faults[FAULT_MAX];
static int fault_count = -1;
static long shorter = 1;
static pid_t supervisor;

void fault_supervisor(pid_t pid)
{
    supervisor = pid;
}

/* Parses WORLDKEEPER_FAULT once. Malformed entries are ignored, because only tests set it. */
static void fault_read(void)
{
    if (fault_count >= 0)
        return;
    fault_count = 0;
    for (const char *s = getenv("WORLDKEEPER_FAULT"); s && *s && fault_count < FAULT_MAX;) {
        struct fault *f = &faults[fault_count];
        size_t len = strcspn(s, ",");
        int end = 0;
        char *hash;
        if (sscanf(s, "%47[^=,]=%23[^,]%n", f->name, f->action, &end) == 2 && (size_t)end == len) {
            if ((hash = strchr(f->name, '#'))) {
                *hash = '\0';
                f->nth = strtol(hash + 1, NULL, 10);
            }
            if (strcmp(f->name, "waits") == 0)
                shorter = strtol(f->action, NULL, 10);
            fault_count++;
        }
        s += len + (s[len] == ',');
    }
}

/* Uses SIGKILL and SIGSTOP, so that nothing is flushed, released or reported, as after a crash or
 * on a frozen machine. */
static void fault_act(const char *action)
{
    if (strcmp(action, "killall") == 0 && supervisor > 0)
        kill(supervisor, SIGKILL);
    if (strcmp(action, "killall") == 0 || strcmp(action, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(action, "stop") == 0)
        kill(getpid(), SIGSTOP);
    if (strncmp(action, "sleep:", 6) == 0) {
        long ms = strtol(action + 6, NULL, 10);
        struct timespec ts = {ms / 1000, ms % 1000 * 1000000};
        nanosleep(&ts, NULL);
    }
}

void fault_point(const char *name)
{
    fault_read();
    for (int i = 0; i < fault_count; i++)
        if (strcmp(faults[i].name, name) == 0 &&
            (__atomic_add_fetch(&faults[i].seen, 1, __ATOMIC_RELAXED) == faults[i].nth ||
             faults[i].nth == 0))
            fault_act(faults[i].action);
}

int64_t fault_wait(int64_t ms)
{
    fault_read();
    return shorter > 1 ? ms / shorter : ms;
}

unsigned fault_limit(const char *name, unsigned limit)
{
    fault_read();
    for (int i = 0; i < fault_count; i++)
        if (strcmp(faults[i].name, name) == 0)
            return (unsigned)strtoul(faults[i].action, NULL, 10);
    return limit;
}
