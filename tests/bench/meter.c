/* meter RESULT SECONDS COMMAND [ARGUMENT...] ['|' COMMAND...]... ['>' FILE]
 *
 * Runs a command or a pipeline and writes to RESULT how long it took, and of each process the
 * processor time and the peak of its memory. After SECONDS all of them are killed.
 *
 * A program of its own, because Linux counts towards the peak of a process what its parent had in
 * memory when it forked: measured from a large parent, a small command would look large. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define PROCESSES_MAX 8

struct process {
    char **argv;
    pid_t pid;
    int status;
    struct rusage used;
};

static struct process all[PROCESSES_MAX];
static volatile sig_atomic_t hung;

static _Noreturn void die(const char *step)
{
    fprintf(stderr, "meter: %s: %s\n", step, strerror(errno));
    exit(125);
}

static void on_alarm(int sig)
{
    (void)sig;
    hung = 1;
    for (int i = 0; i < PROCESSES_MAX; i++)
        if (all[i].pid > 0)
            kill(-all[i].pid, SIGKILL);
}

/* Splits the command line in place; gives the number of processes. */
static int split(char **argv, char **out)
{
    int n = 0;
    *out = NULL;
    all[n++].argv = argv;
    for (char **a = argv; *a; a++) {
        if (strcmp(*a, "|") == 0 && a[1] && n < PROCESSES_MAX) {
            *a = NULL;
            all[n++].argv = a + 1;
        } else if (strcmp(*a, ">") == 0 && a[1]) {
            *a = NULL;
            *out = a[1];
            break;
        }
    }
    return n;
}

static int open_output(const char *path)
{
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : dup(1);
    if (fd < 0)
        die(path ? path : "dup");
    return fd;
}

/* In a process group of its own, so that what it starts is killed with it. */
static pid_t start(char **argv, int in, int out)
{
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid > 0)
        return pid;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in, 0);
    dup2(out, 1);
    if (argv[0])
        execvp(argv[0], argv);
    die(argv[0] ? argv[0] : "no command");
}

static void start_all(int n, const char *path)
{
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < n; i++) {
        int link[2] = {-1, -1};
        if (i + 1 < n && pipe2(link, O_CLOEXEC) < 0)
            die("pipe");
        int out = i + 1 < n ? link[1] : open_output(path);
        all[i].pid = start(all[i].argv, in, out);
        setpgid(all[i].pid, all[i].pid);
        close(in);
        close(out);
        in = link[0];
    }
}

static void wait_all(int n)
{
    for (int i = 0; i < n; i++)
        while (wait4(all[i].pid, &all[i].status, 0, &all[i].used) < 0)
            if (errno != EINTR)
                die("wait");
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static bool report(int n, const char *path, int64_t ns)
{
    bool good = !hung;
    FILE *f = fopen(path, "we");
    if (!f)
        die(path);
    fprintf(f, "{\"wall\": %.6f, \"hung\": %s, \"processes\": [", (double)ns / 1e9,
            hung ? "true" : "false");
    for (int i = 0; i < n; i++) {
        const struct rusage *u = &all[i].used;
        int status = all[i].status;
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        good = good && code == 0;
        fprintf(f, "%s{\"exit\": %d, \"user\": %.6f, \"system\": %.6f, \"peak_kb\": %ld}",
                i ? ", " : "", code, seconds(u->ru_utime), seconds(u->ru_stime), u->ru_maxrss);
    }
    fprintf(f, "]}\n");
    if (fclose(f) != 0)
        die(path);
    return good;
}

int main(int argc, char **argv)
{
    struct sigaction act = {.sa_handler = on_alarm};
    char *out;
    if (argc < 4) {
        fprintf(stderr,
                "usage: meter RESULT SECONDS COMMAND [ARGUMENT...] ['|' COMMAND...] ['>' FILE]\n");
        return 2;
    }
    int n = split(argv + 3, &out);
    sigaction(SIGALRM, &act, NULL);
    int64_t began = now_ns();
    start_all(n, out);
    alarm((unsigned)strtoul(argv[2], NULL, 10));
    wait_all(n);
    return report(n, argv[1], now_ns() - began) ? 0 : 1;
}
