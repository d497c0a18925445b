#include "setup/restart.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "actions/worlds.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/js.h"
#include "check/option_file.h"
#include "mysql/galera.h"
#include "mysql/sentinel.h"
#include "mysql/server.h"
#include "setup/admin.h"
#include "setup/interrupt.h"
#include "setup/talk.h"

#define LOCK_WAIT 10000          /* ms to wait for writing statements to end */
#define SERVER_PATIENCE 300000   /* ms until the server answers again */
#define FOLLOWED_PATIENCE 180000 /* ms until the worlds are up and followed */
#define PAUSE 100                /* ms between two questions to the server or a world */

bool restart_needed(const struct world *w)
{
    bool restart = false;
    for (size_t i = 0; i < w->options.count; i++)
        restart |= w->options.list[i].restart;
    return restart && w->server_file && w->write_server_file;
}

bool restart_file_has(const char *path, const struct draft_option *o)
{
    size_t n = strcspn(o->line, " =");
    SCOPED(xfree) char *name = xstrndup(o->line, n);
    SCOPED(option_search_free) struct option_search search = {.name = name};
    option_file(&search, path);
    if (!search.value.len)
        return false;
    return o->restart ? strcmp(search.value.p, "0") != 0
                      : strcasecmp(search.value.p, o->line + n + strspn(o->line + n, " =")) == 0;
}

/* Returns the line that requires the restart and that the option file lacks; NULL: it lacks none.
 */
static const char *restart_lacks(const struct world *w)
{
    for (size_t i = 0; i < w->options.count; i++)
        if (w->options.list[i].restart && !restart_file_has(w->server_file, &w->options.list[i]))
            return w->options.list[i].line;
    return NULL;
}

/* Returns the systemd service of the server, if systemd started it on this machine; NULL: not
 * known. The caller frees it. */
static char *restart_service(const struct setup *s)
{
    SCOPED(buf_free) struct buf text = {0};
    struct err ignored = {0};
    int64_t pid = s->systemd ? db_server_pid(s->db) : 0;
    SCOPED(xfree) char *below = xasprintf("/proc/%lld/cgroup", (long long)pid);
    SCOPED(xfree) char *cgroup = setup_path(s, below);
    return pid == 0 || file_read_public(AT_FDCWD, cgroup, 65536, &text, &ignored) < 0
               ? NULL
               : draft_service(text.p);
}

/* ---- the worlds of this machine ---- */

bool world_is(const struct config *cfg, const char *state)
{
    struct err why = {0};
    json_t *status = NULL;
    bool same =
        worlds_ask(cfg, 0, &status, &why) == 0 && strcmp(js_text(status, "state"), state) == 0;
    json_decref(status);
    return same;
}

/* Returns true if the sentinel has its row, which is there only after the world was restored. The
 * status is not enough: the supervisor may not have seen the loss yet. */
static bool has_sentinel(const struct setup *s, const struct config *cfg)
{
    struct db_sentinel is = {0};
    struct err ignored = {0};
    return db_sentinel_read(s->db, cfg->schema, cfg->sentinel, &is, &ignored) == 0 && is.rows == 1;
}

/* Returns true if the journal has no gap and follows the server's binary log, or if the world has
 * no journal. */
static bool is_followed(const struct config *cfg)
{
    struct err why = {0};
    json_t *status = NULL;
    bool good = false;
    if (worlds_ask(cfg, 0, &status, &why) == 0) {
        const json_t *journal = json_object_get(status, "journal");
        good = json_is_null(journal) || (strcmp(js_text(journal, "state"), "following") == 0 &&
                                         !json_is_true(json_object_get(journal, "gap")));
    }
    json_decref(status);
    return good;
}

struct look {
    const struct setup *s;
    const char *schema;
    bool must_be_up, found;
};

static void see_keeper(void *arg, const char *path, const struct config *cfg, const struct err *why)
{
    struct look *l = arg;
    (void)path;
    (void)why;
    l->found |= cfg && setup_keeps(l->s, cfg, l->schema) && (!l->must_be_up || world_is(cfg, "UP"));
}

/* Returns the first schema with MEMORY tables that no world keeps; NULL if there is none. `before`:
 * the setup of the worlds is still to come, so a chosen schema counts as kept. The caller frees the
 * result. */
static char *restart_unkept(struct setup *s, const struct survey *survey, bool before)
{
    struct err ignored;
    SCOPED(xfree) char *dir = setup_path(s, "/etc/worldkeeper");
    for (size_t i = 0; i < survey->count; i++) {
        struct look l = {.s = s,
                         .schema = survey->list[i].name,
                         .must_be_up = !before,
                         .found = before && survey->list[i].chosen};
        worlds_each(dir, see_keeper, &l, &ignored);
        if (!l.found)
            return xstrdup(survey->list[i].name);
    }
    return survey->unfit ? xstrdup("(a control character in its name)") : NULL;
}

/* ---- the question ---- */

/* Prints why setup does not restart the server. Fails if an option requested the restart. */
static int restart_cannot(const struct setup *s, const char *why, struct err *e)
{
    if (s->restart_server) {
        err_set(e, ERR_REFUSED, 0, "--restart-server: %s", why);
        return err_hint(e, "without --restart-server, setup says at its end what is left to do");
    }
    talk_say("Setup does not restart the server itself: %s.\n", why);
    return 0;
}

/* Returns why nobody should restart the server because of other servers that it works with; NULL
 * if there is no such reason, also for a node of a cluster, which *is then describes. The caller
 * frees it. */
static char *restart_harms(struct db *db, struct galera *is)
{
    struct err why = {0};
    int replica = replicas_fed(db, &why), node = replica < 0 ? -1 : galera_look(db, is, &why);
    if (node < 0)
        return xasprintf("whether it is a replica or in a cluster is not known (%s)", why.text);
    return replica ? xstrdup("it is a replica, and the first UPDATE or DELETE that its source "
                             "sends to the emptied tables stops replication (error 1032). Keep the "
                             "world on the source")
                   : NULL;
}

/* Returns why setup cannot restart the server; NULL: it can. The caller frees it. */
static char *restart_prevented(struct world *w, const char *service)
{
    struct setup *s = w->s;
    struct galera is = {0};
    const char *line = w->may_add ? NULL : restart_lacks(w);
    if (line)
        return xasprintf("%s does not enable \"%s\"", w->server_file, line);
    if (!service)
        return xstrdup("no systemd service on this machine is known to run it");
    if (s->journal_declined)
        return xstrdup("the privileges that a journal needs were declined");
    SCOPED(xfree) char *other = restart_unkept(s, &s->survey, true);
    if (other)
        return xasprintf("schema %s has MEMORY tables and is not supervised", other);
    char *harm = restart_harms(s->db, &is);
    if (harm || !is.size[0])
        return harm;
    /* A node whose writes are blocked does not end: its shutdown waits for the cluster's writes. */
    return xasprintf("it is node %s of a Galera cluster of %s, which does not end while all writes "
                     "wait for a last dump",
                     is.node, is.size);
}

int restart_ask(struct world *w, struct err *e)
{
    struct setup *s = w->s;
    if (!restart_needed(w) || s->restart_known)
        return 0;
    SCOPED(xfree) char *service = restart_service(s);
    SCOPED(xfree) char *why = restart_prevented(w, service);
    if (why)
        return restart_cannot(s, why, e);
    s->restart_known = true;
    talk_say("Setup can restart it at the end (systemctl restart %s), after the first dump has "
             "passed its drill. All writes then wait while a last dump is taken, so that it has "
             "every acknowledged row. Every database of this server is away until it "
             "has started again, usually for some seconds, and all its sessions end.\n",
             service);
    if (!s->restart_server && !talk_asks())
        talk_say("Option --restart-server does so.\n");
    return s->restart_server || !talk_asks()
               ? 0
               : talk_yes("Restart the server at the end?", false, &s->restart_server, e);
}

/* ---- by hand ---- */

/* Returns true for a world whose rows a restart of the server would empty. */
static bool restart_empties(const struct setup *s, const struct config *cfg)
{
    return cfg && !cfg->retired && setup_same_server(s, &cfg->mysql);
}

struct dumps {
    const struct setup *s;
    struct buf commands;
};

static void add_dump(void *arg, const char *path, const struct config *cfg, const struct err *why)
{
    struct dumps *d = arg;
    const char *file = strrchr(path, '/') + 1;
    (void)why;
    if (!restart_empties(d->s, cfg))
        return;
    SCOPED(xfree) char *name = xstrndup(file, strlen(file) - strlen(".ini"));
    buf_adds(&d->commands, d->commands.len ? " && worldkeeper --world " : "worldkeeper --world ");
    buf_shell(&d->commands, name);
    buf_adds(&d->commands, " --dump");
}

/* Prints the commands: a dump of each world of the server, and the restart if all succeed. */
static void say_commands(const struct setup *s, const struct galera *is)
{
    struct err ignored;
    struct dumps d = {.s = s};
    SCOPED(xfree) char *dir = setup_path(s, "/etc/worldkeeper");
    SCOPED(xfree) char *service = restart_service(s);
    worlds_each(dir, add_dump, &d, &ignored);
    talk_say("The journal begins with the server's next restart, after which the world is restored "
             "automatically. Restart it while nobody plays, right after a dump:\n");
    if (!service)
        talk_line("  %s\n", d.commands.p);
    else if (strcmp(is->size, "1") == 0)
        talk_line("  %s && systemctl stop %s && galera_new_cluster\n", d.commands.p, service);
    else
        talk_line("  %s && systemctl restart %s\n", d.commands.p, service);
    buf_free(&d.commands);
}

void restart_say(struct world *w)
{
    struct galera is = {0};
    const char *line = restart_lacks(w);
    SCOPED(xfree) char *harm = restart_harms(w->s->db, &is);
    SCOPED(xfree) char *other = restart_unkept(w->s, &w->s->survey, false);
    if (line)
        talk_say("The journal needs a restart of the server, but %s does not enable \"%s\". Add "
                 "that line under [mysqld], then run worldkeeper-setup again.\n",
                 w->server_file, line);
    else if (harm)
        talk_say("The journal needs a restart of the server, but %s.\n", harm);
    else if (other)
        talk_say("The journal needs a restart of the server, but schema %s has MEMORY tables, and "
                 "no world that keeps it is up: the restart would empty it.\n",
                 other);
    else
        say_commands(w->s, &is);
}

/* ---- before it ---- */

/* Checks the option files, because a file that was edited may lack the line that requires the
 * restart. */
static int check_files(const struct setup *s, struct err *e)
{
    for (size_t i = 0; i < s->world_count; i++) {
        const struct world *w = s->worlds[i];
        const char *line = restart_needed(w) ? restart_lacks(w) : NULL;
        if (line)
            return err_set(e, ERR_REFUSED, 0,
                           "the server was not restarted: %s does not enable \"%s\"",
                           w->server_file, line);
    }
    return 0;
}

struct last {
    struct setup *s;
    struct err *e;
    int rc;
};

static void restart_dump(void *arg, const char *path, const struct config *cfg,
                         const struct err *why)
{
    static const char *const options[] = {"--dump", NULL};
    struct last *l = arg;
    (void)why;
    if (l->rc < 0 || !restart_empties(l->s, cfg))
        return;
    l->rc = effect_keeper(&l->s->x, path, options, l->e);
    if (l->rc > 0)
        l->rc = err_set(l->e, ERR_SYSTEM, 0, "the dump of world %s failed", cfg->name);
}

/* Makes statements fail that wait for the lock of this session or come later. MariaDB ends the
 * newest sessions first when it stops: it would release the lock and execute waiting statements of
 * older sessions. read_only is checked again after the wait. */
static int refuse_writes(struct setup *s, struct err *e)
{
    SCOPED(xfree) char *before = db_one(s->db, "SELECT @@GLOBAL.read_only", e);
    if (!before || strcmp(before, "0") != 0)
        return before ? 0 : -1;
    if (effect_sql(&s->x, "SET @@GLOBAL.read_only=ON;", NULL, NULL, e) < 0)
        return -1;
    s->writes_refused = !s->x.dry;
    return 0;
}

/* Ends the lock. Returns false if the session, and so the server's process, has ended. */
static bool allow_writes(struct setup *s)
{
    return s->db && db_exec(s->db, "UNLOCK TABLES", NULL) == 0 &&
           (!s->writes_refused || db_exec(s->db, "SET @@GLOBAL.read_only=OFF", NULL) == 0);
}

/* Blocks all writes and makes the last dumps of the server's worlds. A lock on the tables alone
 * would not suffice: a writer that waits for it blocks every later reader, including the dump. */
static int lock_and_dump(struct setup *s, struct err *e)
{
    struct last l = {.s = s, .e = e};
    SCOPED(xfree) char *dir = setup_path(s, "/etc/worldkeeper");
    if ((!s->x.dry && db_lock_wait(s->db, LOCK_WAIT, e) < 0) ||
        effect_sql(&s->x, "FLUSH TABLES WITH READ LOCK;", NULL, NULL, e) < 0)
        return -1;
    if (!s->x.dry && worlds_each(dir, restart_dump, &l, e) < 0)
        return -1;
    for (size_t i = 0; s->x.dry && i < s->world_count; i++) /* a dry run wrote no configs */
        restart_dump(&l, s->worlds[i]->config_path, s->worlds[i]->cfg, NULL);
    return l.rc < 0 ? -1 : refuse_writes(s, e);
}

/* Afterwards this session holds the lock until the server ends the session; after an error the lock
 * is released. */
static int last_dumps(struct setup *s, struct err *e)
{
    if (lock_and_dump(s, e) == 0)
        return 0;
    if (!s->x.dry)
        allow_writes(s);
    return err_step(e, "the server was not restarted");
}

/* ---- the restart ---- */

static int wait_for_server(struct setup *s, struct err *e)
{
    mono_t end = mono_add(clock_mono(), SERVER_PATIENCE);
    while (setup_reconnect(s, e) < 0) {
        if (mono_reached(clock_mono(), end))
            return err_step(e, "the server does not answer after its restart");
        err_clear(e);
        if (interrupt_pause(PAUSE, e) < 0)
            return -1;
    }
    return 0;
}

/* A request to end waits for systemctl, because the end of this session would unlock the tables
 * before the server has stopped, and because a server that does not start must be taken back. */
static int restart_restart(struct setup *s, const char *service, struct err *e)
{
    const char *const argv[] = {"systemctl", "restart", service, NULL};
    int rc =
        effect_run_whole(&s->x, argv,
                         "\nInterrupted. Setup ends when systemctl has restarted the server, "
                         "because ending now could lose rows. A second Ctrl+C ends setup at once.",
                         e);
    if (rc > 0)
        err_set(e, ERR_SYSTEM, 0, "systemctl restart %s failed with exit status %d", service, rc);
    return rc ? -1 : s->x.dry ? 0 : wait_for_server(s, e);
}

static int wait_for_worlds(struct setup *s, mono_t begun, bool followed, struct err *e)
{
    mono_t end = mono_add(clock_mono(), FOLLOWED_PATIENCE);
    for (size_t i = 0; i < s->world_count;) {
        const struct config *cfg = s->worlds[i]->cfg;
        if (has_sentinel(s, cfg) && world_is(cfg, "UP") && (!followed || is_followed(cfg))) {
            talk_say("world %s is up again%s, %.1f s after the restart began\n", cfg->name,
                     followed ? ", and its journal is followed" : "",
                     (double)mono_since(clock_mono(), begun) / 1000);
            i++;
        } else if (mono_reached(clock_mono(), end)) {
            err_set(
                e, ERR_SYSTEM, 0,
                "the server was restarted, and world %s is not up, or its journal is not followed",
                cfg->name);
            return err_hint(e, "worldkeeper --world %s --status says why", cfg->name);
        } else if (interrupt_pause(PAUSE, e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Removes our lines and starts the server again, because it started without them before. A file
 * that was edited since stays, and the server is started with it, because it must not stay down. */
static int restart_take_back(struct setup *s, const char *service, struct err *e)
{
    struct err again = {0};
    const struct world *first = NULL;
    bool removed = true;
    for (size_t i = 0; i < s->world_count; i++) {
        const struct world *w = s->worlds[i];
        if (!restart_needed(w))
            continue;
        int rc = effect_remove(&s->x, &w->made, w->server_file, &again);
        if (rc < 0)
            talk_say("%s\n", again.text);
        err_clear(&again);
        removed = removed && rc > 0;
        first = first ? first : w;
    }
    mono_t begun = clock_mono();
    bool waited =
        restart_restart(s, service, &again) == 0 && wait_for_worlds(s, begun, false, &again) == 0;
    if (!waited && again.cls != ERR_ABORTED)
        return err_step(e, "%s", again.text);
    err_set(e, ERR_SYSTEM, 0, "the server did not start with %s, which was %s%s",
            first ? first->server_file : "the new options",
            removed ? "removed again; the server runs without it"
                    : "not removed; a second start succeeded",
            waited ? "" : ", and setup did not wait for its worlds, because it was interrupted");
    return err_hint(e, "journalctl -u %s says why", service);
}

static int restart_failed(struct setup *s, const char *service, struct err *e)
{
    /* The option files are not the cause if the server never ended. */
    return allow_writes(s) ? err_step(e, "the server was not restarted")
                           : restart_take_back(s, service, e);
}

static int restart_interrupted(const char *service, struct err *e)
{
    err_step(e, "the server was restarted, and setup did not wait until its worlds are up again");
    return err_hint(e, "worldkeeper --status shows them; systemctl status %s shows the server",
                    service);
}

int restart_server(struct setup *s, struct err *e)
{
    SCOPED(survey_free) struct survey now = {0};
    SCOPED(xfree) char *service = restart_service(s);
    if (!s->restart_server || !s->restart_known)
        return 0;
    if (!s->x.dry) {
        if (check_files(s, e) < 0 || survey_read(s->db, &now, e) < 0)
            return -1;
        SCOPED(xfree) char *other = restart_unkept(s, &now, false);
        if (other || !service)
            return err_set(e, ERR_REFUSED, 0, "the server was not restarted: %s %s",
                           other ? other : "its service",
                           other ? "has MEMORY tables, and no world that keeps it is up"
                                 : "is no longer known");
    }
    talk_say("\n== restart of the server\n");
    if (last_dumps(s, e) < 0)
        return -1;
    mono_t begun = clock_mono();
    int rc = restart_restart(s, service, e);
    if (rc < 0 && e->cls != ERR_ABORTED)
        return restart_failed(s, service, e);
    if (rc == 0 && !s->x.dry)
        rc = wait_for_worlds(s, begun, true, e);
    return rc < 0 && e->cls == ERR_ABORTED ? restart_interrupted(service, e) : rc;
}
