#include "setup/interrupt.h"

#include <poll.h>
#include <signal.h>

#include "base/fault.h"

static const int interrupt_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
#define SIGNALS (sizeof interrupt_signals / sizeof *interrupt_signals)

static volatile sig_atomic_t came;

static void interrupt_note(int sig)
{
    (void)sig;
    came = 1;
}

void interrupt_catch(void)
{
    /* System calls are not restarted, so that a question and a wait for a program end. */
    struct sigaction note = {.sa_handler = interrupt_note}, before;
    for (size_t i = 0; i < SIGNALS; i++) {
        note.sa_flags = interrupt_signals[i] == SIGHUP ? 0 : (int)SA_RESETHAND;
        /* nohup and shells without job control ignore some on purpose. */
        if (sigaction(interrupt_signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(interrupt_signals[i], &note, NULL);
    }
}

bool interrupt_came(void)
{
    return came;
}

int interrupt_check(struct err *e)
{
    return came ? err_set(e, ERR_ABORTED, 0, "interrupted") : 0;
}

static void interrupt_poll(int fd, const struct timespec *limit)
{
    struct pollfd p = {.fd = fd, .events = POLLIN}; /* -1 is never readable */
    sigset_t held, before;
    sigemptyset(&held);
    for (size_t i = 0; i < SIGNALS; i++)
        sigaddset(&held, interrupt_signals[i]);
    /* Blocked, so that a request cannot come between the check and the wait. */
    sigprocmask(SIG_BLOCK, &held, &before);
    if (!came)
        ppoll(&p, 1, limit, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

void interrupt_wait(int fd)
{
    interrupt_poll(fd, NULL);
}

int interrupt_pause(int ms, struct err *e)
{
    struct timespec limit = {ms / 1000, ms % 1000 * 1000000L};
    fault_point("setup.step");
    interrupt_poll(-1, &limit);
    return interrupt_check(e);
}
