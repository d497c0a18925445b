#include "base/fence.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#define NO_END_MS INT64_C(315360000000) /* ten years: longer than any process */

/* Atomics instead of a lock, because a process that is killed while it holds a lock would stop all
 * the others. */
static struct shared {
    _Atomic int64_t until;
    atomic_bool shut;
    _Atomic int64_t said;
} * fence;
static bool by_record;
static bool exempt; /* this process has shut it for the others */

int fence_make(struct err *e)
{
    if (fence)
        return 0;
    void *p = mmap(NULL, sizeof *fence, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return err_sys(e, errno, "cannot share memory with workers");
    fence = p;
    return 0;
}

bool fence_made(void)
{
    return fence != NULL;
}

void fence_set(mono_t t)
{
    atomic_store(&fence->until, t.ms);
}

void fence_shut(bool shut)
{
    exempt = false;
    atomic_store(&fence->shut, shut);
}

void fence_shut_others(void)
{
    fence_shut(true);
    exempt = true;
}

bool fence_is_shut(void)
{
    return fence && atomic_load(&fence->shut);
}

void fence_said(mono_t until)
{
    if (fence)
        atomic_store(&fence->said, until.ms);
}

bool fence_believed(void)
{
    return fence && !mono_reached(clock_mono(), (mono_t){atomic_load(&fence->said)});
}

mono_t fence_until(void)
{
    return (mono_t){fence && (exempt || !fence_is_shut()) ? atomic_load(&fence->until) : 0};
}

bool fence_open(void)
{
    return !fence || !mono_reached(clock_mono(), fence_until());
}

void fence_stay_open(void)
{
    fence_set(mono_add(clock_mono(), NO_END_MS));
}

void fence_by_record(void)
{
    by_record = true;
}

int fence_check(const char *what, struct err *e)
{
    if (fence_open())
        return 0;
    err_set(e, ERR_REFUSED, 0, "%s: %s", what,
            by_record
                ? "the record of this world does not name this machine, or has not been read yet"
                : "this machine does not hold the lease of this world");
    return err_hint(e, "worldkeeper --status shows which machine holds the lease; if another one "
                       "does, worldkeeper --demote makes this one its standby");
}
