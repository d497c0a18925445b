/* Named fault points: places between two effects where tests stop or kill the real program.
 * WORLDKEEPER_FAULT="point=action[,point#N=action...]"; actions: kill, killall (first the process
 * set with fault_supervisor(), then this one), stop, sleep:MS; #N: only the Nth time this process
 * reaches the point. Without the variable a point costs one comparison. "waits=N" is not a point:
 * it makes each fault_wait() N times shorter. */
#ifndef WK_BASE_FAULT_H
#define WK_BASE_FAULT_H

#include <stdint.h>
#include <sys/types.h>

void fault_point(const char *name);
/* Returns `ms`, or a fraction of it in tests. For pauses between retries or before an alert; not
 * for timeouts on the work of others, which may be slow on a busy machine. */
int64_t fault_wait(int64_t ms);
/* Returns `limit`, or the number that a test sets as "name=N". */
unsigned fault_limit(const char *name, unsigned limit);
/* Sets the process that `killall` kills first. The supervisor calls it before it forks; 0: none. */
void fault_supervisor(pid_t pid);

#endif
