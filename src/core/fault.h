/* Named fault points: places between two effects where tests stop or kill the real program.
 * WORLDKEEPER_FAULT="point=action[,point#N=action...]"; actions: kill, killall (the supervisor
 * named with fault_supervisor() first, then this process), stop, sleep:MS; #N: only the Nth time
 * the point is passed here. Without the variable a point costs one comparison. */
#ifndef WK_CORE_FAULT_H
#define WK_CORE_FAULT_H

#include <sys/types.h>

void fault_point(const char *name);
/* Which process `killall` kills too; 0 (nobody) until told. Told by the supervisor before it forks.
 */
void fault_supervisor(pid_t pid);

#endif
