#include "setup/interrupt.h"

#include <poll.h>
#include <signal.h>

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
    struct sigaction note = {.sa_handler = interrupt_note, .sa_flags = (int)SA_RESETHAND}, before;
    for (size_t i = 0; i < SIGNALS; i++)
        /* nohup and shells without job control ignore some on purpose. */
        if (sigaction(interrupt_signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(interrupt_signals[i], &note, NULL);
}

bool interrupt_came(void)
{
    return came;
}

int interrupt_check(struct err *e)
{
    return came ? err_set(e, ERR_ABORTED, 0, "interrupted") : 0;
}

void interrupt_wait(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    sigset_t held, before;
    sigemptyset(&held);
    for (size_t i = 0; i < SIGNALS; i++)
        sigaddset(&held, interrupt_signals[i]);
    /* Blocked, so that a request cannot come between the check and the wait. */
    sigprocmask(SIG_BLOCK, &held, &before);
    if (!came)
        ppoll(&p, 1, NULL, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
}
