#include "setup/effect.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/js.h"
#include "setup/interrupt.h"
#include "setup/talk.h"
#include "sql/literal.h"

extern char **environ;

#define FILE_LARGEST (1u << 20)
#define PERSISTED "PERSIST."

void effect_show_made(const struct made *m)
{
    for (size_t i = 0; i < json_array_size(m->list); i++) {
        const json_t *o = json_array_get(m->list, i);
        talk_line("  %s %s\n", made_kind_name(made_kind_of(o)), js_text(o, "name"));
    }
}

/* Decides about each effect before it is made. Returns 1 if it is to be made, 0 if a dry run only
 * reports it, -1 after a request to end setup. */
static int effect_begin(const struct effects *x, struct err *e)
{
    if (interrupt_check(e) < 0)
        return -1;
    fault_point("setup.step");
    return !x->dry;
}

/* ---- directories and files ---- */

/* Creates a directory. Works on descriptors, because the owner of the parent directory could
 * replace the directory by a symbolic link at any time. */
static int make_dir(struct effects *x, const char *path, mode_t mode, bool ours, struct err *e)
{
    const char *name;
    struct stat st;
    SCOPED(file_close) int place = file_open_place(path, &name, e);
    if (place < 0 || made_note(&x->made, MADE_DIR, path, NULL, NULL, e) < 0)
        return -1;
    if (mkdirat(place, name, 0700) < 0 && errno != EEXIST) { /* made_note() may have created it */
        err_sys(e, errno, "cannot make directory %s", path);
        made_drop(&x->made, MADE_DIR, path);
        return err_hint(
            e, "name another directory, or make this one, then run worldkeeper-setup again");
    }
    SCOPED(file_close) int fd =
        openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, errno, "cannot open directory %s", path);
    if (st.st_uid != geteuid())
        return err_set(e, ERR_REFUSED, 0, "directory %s was replaced by another user (uid %u)",
                       path, (unsigned)st.st_uid);
    if ((ours && geteuid() == 0 && fchown(fd, x->uid, x->gid) < 0) || fchmod(fd, mode) < 0)
        return err_sys(e, errno, "cannot set owner and mode of %s", path);
    fault_point("setup.done");
    return 0;
}

int effect_dir(struct effects *x, const char *path, mode_t mode, bool ours, struct err *e)
{
    struct stat st;
    if (stat(path, &st) == 0)
        return S_ISDIR(st.st_mode)
                   ? 0
                   : err_set(e, ERR_REFUSED, 0, "%s exists but is not a directory", path);
    SCOPED(xfree) char *parent = xstrdup(path);
    char *slash = strrchr(parent, '/');
    if (slash && slash != parent) {
        *slash = '\0';
        if (effect_dir(x, parent, 0755, false, e) < 0)
            return -1;
    }
    int go = effect_begin(x, e);
    if (go < 0 || (go && make_dir(x, path, mode, ours, e) < 0))
        return -1;
    talk_line("%s directory %s (mode %04o%s%s)\n", x->dry ? "would make" : "made", path,
              (unsigned)mode, ours ? ", of user " : "", ours ? x->user : "");
    return 0;
}

static void effect_digest(const char *text, size_t size, char out[65])
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    EVP_Digest(text ? text : "", size, sum, &len, EVP_sha256(), NULL);
    text_hex(sum, 32, out);
}

int effect_open(int place, const char *name)
{
    struct stat st;
    int fd = openat(place, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)))
        return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

/* Computes the SHA-256 of a file's text; "": it is not a file that can be read. Returns false if it
 * does not exist. */
static bool digest_file(int place, const char *name, char sum[65])
{
    SCOPED(buf_free) struct buf there = {.secret = true};
    SCOPED(file_close) int fd = effect_open(place, name);
    sum[0] = '\0';
    if (fd < 0)
        return errno != ENOENT;
    if (file_read_fd(fd, name, FILE_LARGEST, &there, NULL) == 0)
        effect_digest(there.p, there.len, sum);
    return true;
}

bool effect_is_own(const struct effects *x, const char *path, struct buf *text)
{
    char sum[65];
    const char *name;
    struct err ignored = {0};
    SCOPED(buf_free) struct buf there = {0};
    SCOPED(file_close) int place = file_open_place(path, &name, &ignored);
    SCOPED(file_close) int fd = place < 0 ? -1 : effect_open(place, name);
    if (fd < 0 || file_read_fd(fd, path, FILE_LARGEST, &there, &ignored) < 0)
        return false;
    effect_digest(there.p, there.len, sum);
    if (!made_wrote(&x->made, path, sum))
        return false;
    buf_add(text, there.p, there.len);
    return true;
}

/* Writes a temporary file, changes its owner and renames it. So no process ever sees a partial
 * file, or a secret with another owner. */
static int effect_write_file(struct effects *x, int place, const char *path, const char *text,
                             mode_t mode, bool ours, struct err *e)
{
    const char *name = strrchr(path, '/') + 1;
    SCOPED(xfree) char *fresh = xasprintf("%s.new", name);
    unlinkat(place, fresh, 0);
    SCOPED(file_close) int fd =
        openat(place, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, errno, "cannot create %s.new", path);
    fault_point("setup.begun");
    bool done = file_write_all(fd, text, strlen(text)) == 0 &&
                (!ours || geteuid() != 0 || fchown(fd, x->uid, x->gid) == 0) &&
                fchmod(fd, mode) == 0 && fsync(fd) == 0 && renameat(place, fresh, place, name) == 0;
    if (done) {
        fault_point("setup.done");
        return 0;
    }
    err_sys(e, errno, "cannot write %s", path);
    unlinkat(place, fresh, 0);
    return -1;
}

/* Reports a file that is left unchanged because somebody else has given it its text. */
static void say_left(const char *path, const char *text, bool secret)
{
    talk_line("%s exists with different contents and is left unchanged%s\n", path,
              secret ? "" : "; setup would have written:");
    if (!secret)
        talk_show(text, "    ");
}

int effect_file(struct effects *x, const char *path, const char *text, mode_t mode, bool ours,
                bool secret, struct err *e)
{
    char sum[65], before[65];
    const char *name;
    struct err why = {0};
    SCOPED(file_close) int place = file_open_place(path, &name, &why);
    if (place < 0 && (!x->dry || why.num != ENOENT)) /* a dry run made no directory */
        return err_pass(e, &why);
    effect_digest(text, strlen(text), sum);
    bool there = place >= 0 && digest_file(place, name, before);
    if (there && strcmp(before, sum) == 0)
        return 0;
    if (there && !made_wrote(&x->made, path, before)) {
        say_left(path, text, secret);
        return 0;
    }
    int go = effect_begin(x, e);
    if (go < 0)
        return -1;
    if (go && (made_note(&x->made, MADE_FILE, path, sum, there ? before : NULL, e) < 0 ||
               effect_write_file(x, place, path, text, mode, ours, e) < 0)) {
        if (!there)
            made_drop(&x->made, MADE_FILE, path);
        return -1;
    }
    talk_line("%s file %s (mode %04o%s%s)%s\n", x->dry ? "would write" : "wrote", path,
              (unsigned)mode, ours ? ", of user " : "", ours ? x->user : "",
              !x->dry || secret ? "" : ":");
    if (x->dry && !secret)
        talk_show(text, "    ");
    return 1;
}

int effect_adopt(struct effects *x, const char *path, struct err *e)
{
    char sum[65];
    const char *name;
    SCOPED(buf_free) struct buf there = {.secret = true};
    SCOPED(file_close) int place = file_open_place(path, &name, e);
    if (place < 0)
        return -1;
    SCOPED(file_close) int fd = effect_open(place, name);
    if (fd < 0)
        return err_sys(e, errno, "cannot open %s", path);
    if (file_read_fd(fd, path, FILE_LARGEST, &there, e) < 0)
        return -1;
    effect_digest(there.p, there.len, sum);
    return made_note(&x->made, MADE_FILE, path, sum, NULL, e);
}

int effect_remove(struct effects *x, const struct made *m, const char *path, struct err *e)
{
    char now[65];
    const char *name;
    struct err why = {0};
    SCOPED(buf_free) struct buf text = {.secret = true};
    SCOPED(file_close) int place = file_open_place(path, &name, &why);
    if (place < 0)
        return why.num == ENOENT ? 1 : err_pass(e, &why);
    SCOPED(file_close) int fd = effect_open(place, name);
    if (fd < 0)
        return errno == ENOENT ? 1 : err_sys(e, errno, "cannot open %s", path);
    if (file_read_fd(fd, path, FILE_LARGEST, &text, e) < 0)
        return -1;
    effect_digest(text.p, text.len, now);
    if (!made_wrote(m, path, now)) {
        talk_line("%s was changed since, and stays\n", path);
        return 0;
    }
    if (!x->dry && file_remove(place, name, e) < 0)
        return -1;
    talk_line("%s file %s\n", x->dry ? "would remove" : "removed", path);
    return 1;
}

/* ---- statements ---- */

int effect_sql(struct effects *x, const char *sql, const char *shown, const char *undo,
               struct err *e)
{
    shown = shown ? shown : sql;
    int go = effect_begin(x, e);
    if (go < 0)
        return -1;
    if (go && ((undo && made_note(&x->made, MADE_STATEMENT, shown, NULL, undo, e) < 0) ||
               db_exec(x->db, sql, e) < 0))
        return err_step(e, "%s", shown);
    fault_point("setup.done");
    talk_line("%s %s\n", x->dry ? "would run" : "ran", shown);
    return 0;
}

char *effect_setting_value(struct db *db, const char *setting, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    const char *name = strchr(setting, '.') + 1;
    if (text_starts(setting, PERSISTED))
        return db_one_with(db,
                           "SELECT VARIABLE_VALUE FROM performance_schema.persisted_variables "
                           "WHERE VARIABLE_NAME=?",
                           DB_ARGS(name), e);
    buf_adds(&sql, "SELECT @@GLOBAL.");
    sql_ident(&sql, name);
    return db_one(db, sql.p, e);
}

/* Returns the statement that restores the current value of the setting; NULL on error. The caller
 * frees it. */
static char *effect_set_back(struct db *db, const char *setting, struct err *e)
{
    struct buf sql = {0};
    bool persisted = text_starts(setting, PERSISTED);
    const char *name = strchr(setting, '.') + 1;
    SCOPED(xfree) char *value = effect_setting_value(db, setting, e);
    if (e->cls != ERR_NONE)
        return NULL;
    buf_adds(&sql, !persisted ? "SET @@GLOBAL."
                   : value    ? "SET PERSIST_ONLY "
                              : "RESET PERSIST IF EXISTS ");
    sql_ident(&sql, name);
    if (value) {
        buf_addc(&sql, '=');
        if (value[strspn(value, "0123456789")] || !*value)
            sql_string(&sql, value, strlen(value));
        else
            buf_adds(&sql, value);
    }
    buf_addc(&sql, ';');
    return sql.p;
}

/* Records a setting. PERSIST also sets the value in the running server: that value is recorded
 * first and undone last. After the change, the value is recorded as the server shows it: ON for 1.
 * A value that an earlier run set is not one to return to. */
static int note_setting(struct effects *x, const char *name, bool persisted, const char *wanted,
                        struct err *e)
{
    for (int i = 0; i < (persisted ? 2 : 1); i++) {
        SCOPED(xfree) char *setting = xasprintf("%s%s", i ? PERSISTED : "GLOBAL.", name);
        SCOPED(xfree) char *now = effect_setting_value(x->db, setting, e);
        bool own = now && *now && strcmp(made_sum(&x->made, MADE_SETTING, setting), now) == 0;
        SCOPED(xfree) char *back = wanted && !own ? effect_set_back(x->db, setting, e) : NULL;
        const char *value = wanted ? wanted : now;
        if (e->cls != ERR_NONE)
            return err_step(e, "cannot read the present value of %s", name);
        if (value && made_note(&x->made, MADE_SETTING, setting, value, back, e) < 0)
            return -1;
    }
    return 0;
}

int effect_setting(struct effects *x, const char *sql, struct err *e)
{
    static const char global[] = "SET @@GLOBAL.", persist[] = "SET PERSIST ";
    bool persisted = text_starts(sql, persist);
    const char *at = sql + strlen(persisted ? persist : global), *value = strchr(at, '=') + 1;
    SCOPED(xfree) char *name = xasprintf("%.*s", (int)(value - 1 - at), at);
    SCOPED(xfree) char *wanted = xasprintf("%.*s", (int)strcspn(value, ";"), value);
    if (x->dry)
        return effect_sql(x, sql, NULL, NULL, e);
    return note_setting(x, name, persisted, wanted, e) < 0 || effect_sql(x, sql, NULL, NULL, e) < 0
               ? -1
               : note_setting(x, name, persisted, NULL, e);
}

/* ---- programs ---- */

/* Waits until a program has ended or a request to end setup comes. Returns true after a request. */
static bool effect_attend(pid_t pid)
{
    SCOPED(file_close) int fd = pidfd_open(pid, 0);
    fault_point("setup.step");
    if (fd >= 0)
        interrupt_wait(fd);
    return interrupt_came();
}

/* Returns the exit status of a program, for which it waits, or -1. */
static int effect_status(pid_t pid, const char *what, struct err *e)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(e, errno, "cannot wait for %s", what);
    fault_point("setup.step");
    if (!WIFEXITED(status))
        return err_set(e, ERR_SYSTEM, 0, "%s was ended by signal %d", what, WTERMSIG(status));
    return WEXITSTATUS(status);
}

/* Waits for a program and returns its exit status, or -1. A request to end setup is passed on to
 * the program, because the terminal's keys do not reach each of them. */
static int effect_wait_for(pid_t pid, const char *what, struct err *e)
{
    if (effect_attend(pid))
        kill(pid, SIGTERM);
    int rc = effect_status(pid, what, e);
    if (rc == 0 || !interrupt_came())
        return rc;
    err_clear(e);
    return interrupt_check(e);
}

/* Starts a system program and returns its process; 0 in a dry run, -1 on error. `own`: it gets a
 * session of its own, so that the terminal's keys do not reach it. */
static pid_t effect_start(const struct effects *x, const char *const *argv, bool own, struct err *e)
{
    SCOPED(buf_free) struct buf command = {0};
    buf_shell(&command, argv[0]);
    for (size_t i = 1; argv[i]; i++) {
        buf_addc(&command, ' ');
        buf_shell(&command, argv[i]);
    }
    talk_line("%s %s\n", x->dry ? "would run" : "running", command.p);
    pid_t pid = x->dry ? 0 : fork();
    if (pid < 0)
        return err_sys(e, errno, "cannot start %s", argv[0]);
    if (pid == 0 && !x->dry) {
        if (!own || setsid() >= 0)
            execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    return pid;
}

static int effect_started(int rc, const char *what, struct err *e)
{
    return rc == 127 ? err_set(e, ERR_SYSTEM, 0, "cannot start %s", what) : rc;
}

int effect_run(struct effects *x, const char *const *argv, struct err *e)
{
    if (effect_begin(x, e) < 0)
        return -1;
    pid_t pid = effect_start(x, argv, false, e);
    return pid <= 0 ? (int)pid : effect_started(effect_wait_for(pid, argv[0], e), argv[0], e);
}

int effect_run_whole(struct effects *x, const char *const *argv, const char *notice, struct err *e)
{
    pid_t pid = effect_start(x, argv, true, e);
    if (pid <= 0)
        return (int)pid;
    if (effect_attend(pid))
        talk_say("%s\n", notice);
    return effect_started(effect_status(pid, argv[0], e), argv[0], e);
}

int effect_read(const char *const *argv, size_t limit, struct buf *out, struct err *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, errno, "cannot start %s", argv[0]);
    pid_t pid = fork();
    if (pid == 0) {
        if (dup2(ends[1], STDOUT_FILENO) >= 0)
            execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    int why = errno;
    close(ends[1]);
    for (ssize_t n = 1; pid > 0 && n > 0 && out->len < limit;) {
        char some[512];
        n = read(ends[0], some, sizeof some);
        if (n > 0)
            buf_add(out, some, (size_t)n);
        else if (n < 0 && errno == EINTR)
            n = 1;
    }
    close(ends[0]); /* a program that writes more than the limit is ended by this */
    return pid < 0 ? err_sys(e, why, "cannot start %s", argv[0]) : effect_wait_for(pid, argv[0], e);
}

static bool effect_become(const struct effects *x)
{
    return geteuid() != 0 || x->uid == 0 ||
           (initgroups(x->user, x->gid) == 0 && setgid(x->gid) == 0 && setuid(x->uid) == 0);
}

/* Runs the daemon's program as the service's user. Other processes of that user can control this
 * process. It therefore gets a session of its own without a terminal, so that none of them can type
 * into root's terminal. A key such as Ctrl+C then reaches only setup, which passes it on, or whose
 * death ends this process. */
static void be_keeper(const struct effects *x, const char *const *argv, pid_t parent)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || setsid() < 0 || !effect_become(x) ||
        chdir("/") < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
        _exit(126);
    fexecve(x->program, (char *const *)(uintptr_t)argv, environ);
    _exit(127);
}

int effect_keeper(struct effects *x, const char *config, const char *const *options, struct err *e)
{
    const char *argv[16] = {"worldkeeper", "--config", config};
    SCOPED(buf_free) struct buf command = {0};
    if (effect_begin(x, e) < 0)
        return -1;
    buf_adds(&command, "worldkeeper --config ");
    buf_shell(&command, config);
    for (size_t i = 0; options[i] && i + 4 < sizeof argv / sizeof *argv; i++) {
        argv[3 + i] = options[i];
        buf_addc(&command, ' ');
        buf_shell(&command, options[i]);
    }
    talk_line("%s %s (as %s)\n", x->dry ? "would run" : "running", command.p, x->user);
    if (x->dry)
        return 0;
    if (x->program < 0)
        return err_set(e, ERR_SYSTEM, 0, "there is no program worldkeeper beside this one");
    pid_t self = getpid(), pid = fork();
    if (pid < 0)
        return err_sys(e, errno, "cannot start worldkeeper");
    if (pid == 0)
        be_keeper(x, argv, self);
    return effect_wait_for(pid, "worldkeeper", e);
}
