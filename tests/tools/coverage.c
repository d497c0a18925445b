/* Linked only into the program of `make coverage`. Many of our processes are killed: by a test, by
 * a fault point, or by the supervisor. The lines that they ran would not be counted. So a thread
 * writes the counters at short intervals, and a process writes them before it kills itself. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define EVERY_NS 200000000

void __gcov_dump(void);
void __gcov_reset(void);
int __real_kill(pid_t pid, int sig);
int __wrap_kill(pid_t pid, int sig);

/* Held while counters are written and during a fork, so that no child is forked in the middle of a
 * write. */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

static void write_down(void)
{
    __gcov_dump();
    __gcov_reset();
}

static void *run(void *arg)
{
    const struct timespec every = {0, EVERY_NS};
    for (;;) {
        nanosleep(&every, NULL);
        pthread_mutex_lock(&writing);
        write_down();
        pthread_mutex_unlock(&writing);
    }
    return arg;
}

static void start(void)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, run, NULL) == 0)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void hold(void)
{
    pthread_mutex_lock(&writing);
}

static void let_go(void)
{
    pthread_mutex_unlock(&writing);
}

static void child(void)
{
    let_go();
    start();
}

int __wrap_kill(pid_t pid, int sig)
{
    if (pid == getpid()) {
        hold();
        write_down();
        let_go();
    }
    return __real_kill(pid, sig);
}

static void __attribute__((constructor)) begin(void)
{
    /* Counters cannot be written while a test has filled the disk. The message is suppressed,
     * because the test reads this output. */
    setenv("GCOV_ERROR_FILE", "/dev/null", 0);
    pthread_atfork(hold, let_go, child);
    atexit(hold); /* gcov itself writes the counters at exit */
    start();
}
