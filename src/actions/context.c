#include "actions/context.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/js.h"
#include "mysql/galera.h"
#include "mysql/sentinel.h"
#include "store/kept.h"

/* The lock file holds one small object of at most this many bytes. */
#define LOCK_MAX 4096

/* Emits the progress as JSON. This is the interface of the control socket and of --json, so keys
 * may be added but never removed. */
static void report_progress(struct progress *p)
{
    struct action_context *a = p->arg;
    if (!a->emit)
        return;
    json_auto_t *o = json_pack("{s:{s:s, s:o, s:I, s:I, s:I, s:I, s:i, s:I}}", "progress", "phase",
                               p->phase ? p->phase : "", "table", js_clean(p->table), "rows",
                               (json_int_t)p->rows, "rows_total", (json_int_t)p->rows_total,
                               "bytes", (json_int_t)p->bytes, "bytes_total",
                               (json_int_t)p->bytes_total, "percent", progress_percent(p),
                               "phase_ms", (json_int_t)mono_since(clock_mono(), p->started));
    a->emit(a->emit_arg, o);
}

void action_note(void *arg, const char *text)
{
    struct action_context *a = arg;
    if (!a->emit)
        return;
    json_auto_t *o = json_pack("{s:o}", "note", js_clean(text));
    a->emit(a->emit_arg, o);
}

int action_load_state(struct action_context *a, struct err *e)
{
    int rc = state_load(a->job.dirfd, &a->state, e);
    if (rc < 0 && kept_is_newer(e))
        return err_hint(e,
                        "install that version again; or remove %s/state.json: it is created again "
                        "as soon as worldkeeper reaches the world",
                        a->cfg->dump_dir);
    if (rc < 0 && e->cls == ERR_REFUSED && e->num != EPERM) { /* EPERM (owner, mode) can be fixed */
        a->ignored = *e;
        rc = 0;
    }
    if (rc < 0 || state_is_of(&a->state, a->cfg->name, a->cfg->dump_dir, e) < 0)
        return -1;
    if (a->state.role == ROLE_STANDBY && !a->cfg->standby.given) {
        /* Without the section, this machine would act as a primary while another machine keeps the
         * world. */
        const struct config *c = a->cfg;
        err_set(e, ERR_CONFIG, 0,
                "%s/state.json says that this machine is a standby of world %s, but %s has no "
                "[standby] section",
                c->dump_dir, c->name, c->path);
        return err_hint(e, "restore the [standby] section; to make this machine the primary, see "
                           "worldkeeper-standby(7)");
    }
    snprintf(a->state.world, sizeof a->state.world, "%s", a->cfg->name);
    return 0;
}

/* Opens the context. The directory is opened first and stays open, so everything else uses this
 * directory even if another one is moved to its path. */
int action_open(struct action_context *a, const struct config *cfg, bool make, struct err *e)
{
    struct stat st;
    *a = (struct action_context){.cfg = cfg,
                                 .progress = {.report = report_progress, .arg = a},
                                 .job = {.cfg = cfg,
                                         .progress = &a->progress,
                                         .note = action_note,
                                         .note_arg = a,
                                         .db = db_params_of(&cfg->mysql)}};
    /* One statement of a job may take as long as a job may run without progress. Examples are the
     * copy of a large table, and a RENAME that waits for a lock. */
    if (a->job.db.read_timeout < cfg->dump_stall)
        a->job.db.read_timeout = cfg->dump_stall;
    if (a->job.db.read_timeout < cfg->restore_stall)
        a->job.db.read_timeout = cfg->restore_stall;
    a->job.dirfd = file_dir(cfg->dump_dir, make ? FILE_MAKE : 0, 0700, e);
    /* Dumps hold players' data, so other users get no access. */
    if (a->job.dirfd >= 0 && fstat(a->job.dirfd, &st) == 0 && st.st_uid == geteuid() &&
        (st.st_mode & 077))
        fchmod(a->job.dirfd, 0700);
    if (a->job.dirfd >= 0 && action_load_state(a, e) == 0)
        return 0;
    if (e->cls == ERR_DAMAGED)
        err_hint(
            e, "remove %s/state.json; it is created again as soon as worldkeeper reaches the world",
            cfg->dump_dir);
    action_close(a);
    return -1;
}

/* Reads the password. It is kept until the context is closed; buf_free() wipes a secret. */
int action_password(struct action_context *a, struct err *e)
{
    const char *file = a->cfg->mysql.password_file;
    if (!file || a->password.p)
        return 0;
    if (file_read_secret(file, &a->password, e) < 0)
        return -1;
    a->job.db.password = a->password.p;
    return 0;
}

/* Closes the context. The descriptor is set to -1, so a second call does nothing. */
void action_close(struct action_context *a)
{
    buf_free(&a->password);
    if (a->job.dirfd >= 0)
        close(a->job.dirfd);
    a->job.dirfd = -1;
}

json_t *action_lock_read(const struct action_context *a)
{
    SCOPED(buf_free) struct buf b = {0};
    return file_read(a->job.dirfd, "lock", LOCK_MAX, &b, NULL) == 0
               ? json_loadb(b.p, b.len, 0, NULL)
               : NULL;
}

/* Sets ERR_BUSY, with the holder from the lock file. */
static int held_by(struct action_context *a, struct err *e)
{
    json_auto_t *o = action_lock_read(a);
    const char *socket = js_text(o, "socket");
    err_set(e, ERR_BUSY, 0, "world %s is held by %s (pid %" PRId64 " on %s since %s)", a->cfg->name,
            socket[0] ? "a running supervisor" : "another worldkeeper action",
            js_number(o, "pid", 0), js_text(o, "host"), js_text(o, "since"));
    err_hint(e, socket[0] ? "worldkeeper --status shows its state; stop it before starting another"
                          : "wait until that action ends");
    return -1;
}

/* Takes the world's lock. The kernel keeps it as long as any process has the descriptor, including
 * workers that inherited it. A killed supervisor with a running job therefore still holds the
 * world. */
int action_lock(struct action_context *a, struct err *e)
{
    int fd = file_open(a->job.dirfd, "lock", O_RDWR | O_CREAT, e);
    if (fd < 0)
        return err_step(e, "%s", a->cfg->dump_dir);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int why = errno;
        close(fd);
        return why == EWOULDBLOCK ? held_by(a, e)
                                  : err_sys(e, why, "cannot lock %s/lock", a->cfg->dump_dir);
    }
    action_lock_write(fd, "");
    return fd;
}

void action_lock_write(int fd, const char *socket)
{
    char host[256] = "", at[TEXT_SHORT];
    gethostname(host, sizeof host - 1);
    json_auto_t *o = json_pack("{s:i, s:o, s:s, s:s}", "pid", (int)getpid(), "host", js_clean(host),
                               "since", text_utc(clock_wall(), at), "socket", socket);
    SCOPED(xfree) char *s = json_dumps(o, 0);
    /* The content only informs other processes: the lock is held even if writing fails. */
    if (s && lseek(fd, 0, SEEK_SET) == 0 && ftruncate(fd, 0) == 0)
        (void)!file_write_all(fd, s, strlen(s));
}

/* ---- the world itself ---- */

struct db *action_connect_world(const struct action_context *a, struct err *e)
{
    struct db_params p = a->job.db;
    p.schema = a->cfg->schema;
    struct db *db = db_open(&p, e);
    if (db && galera_own_node(db, e) == 0)
        return db;
    db_close(db);
    return NULL;
}

/* Checks that the sentinel is ours. Its row is in memory: it is missing after a server restart, and
 * differs if another process filled the server. */
int action_check_world(const struct action_context *a, struct db *db, struct err *e)
{
    struct db_sentinel s = {0};
    if (db_sentinel_read(db, a->cfg->schema, a->cfg->sentinel, &s, e) < 0 && !db_table_missing(e))
        return -1;
    if (s.rows == 1 && (!a->state.known || strcmp(s.nonce, a->state.nonce) == 0))
        return 0;
    err_set(e, ERR_REFUSED, 0, "world %s is not up: %s", a->cfg->name,
            s.rows ? "its sentinel row has an unexpected nonce" : "its sentinel row is missing");
    err_hint(e, "worldkeeper --status shows the reason and what the supervisor does");
    return -1;
}

/* Saves what is known about the world. Call it only once the world is up under this nonce, because
 * later losses are measured against it. */
int action_remember(struct action_context *a, const char *nonce, uint64_t generation,
                    const struct server_id *server, struct err *e)
{
    snprintf(a->state.nonce, sizeof a->state.nonce, "%s", nonce);
    a->state.generation = generation;
    a->state.server = *server;
    state_alive(&a->state, clock_wall());
    if (a->cfg->standby.given)
        a->state.role = ROLE_PRIMARY;
    return state_save(a->job.dirfd, &a->state, e);
}
