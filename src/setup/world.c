/* One world, from its questions to its service. */
#include "setup/world.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "config/check.h"
#include "mysql/sentinel.h"
#include "mysql/server.h"
#include "setup/admin.h"
#include "setup/interrupt.h"
#include "setup/known.h"
#include "setup/restart.h"
#include "setup/scripts.h"
#include "setup/talk.h"

#define UP_PATIENCE 90   /* seconds until a new service is up */
#define VALUE_LONGEST 64 /* of a setting of the unit */

static void world_free(struct world *w)
{
    free(w->name);
    free(w->config_path);
    answers_free(&w->answers);
    buf_free(&w->text);
    config_free(w->cfg);
    account_free(&w->account);
    needed_grants_free(&w->grants);
    draft_options_free(&w->options);
    free(w->server_file);
    made_free(&w->made);
    free(w);
}

/* ---- questions ---- */

/* Returns true if the config of that name keeps another schema, or one of another server, and says
 * so. */
static bool is_taken(const struct world *w)
{
    SCOPED(xfree) char *path = setup_config_path(w->s, w->name, ".ini");
    struct config *cfg = NULL;
    struct err ignored = {0};
    if (access(path, F_OK) < 0 || config_load(path, &cfg, &ignored) < 0)
        return false;
    bool taken = !setup_keeps(w->s, cfg, w->schema->name);
    SCOPED(xfree) char *server = setup_server_name(&cfg->mysql);
    if (taken)
        talk_say("world %s already keeps schema %s of the server at %s: this one needs another "
                 "name\n",
                 w->name, cfg->schema, server);
    config_free(cfg);
    return taken;
}

static int ask_name(struct world *w, struct err *e)
{
    SCOPED(xfree) char *def = draft_name(w->schema->name);
    for (;;) {
        free(w->name);
        w->name = NULL;
        if (w->s->name)
            w->name = xstrdup(w->s->name);
        else if (talk_ask("Name of the world", def, &w->name, e) < 0)
            return -1;
        SCOPED(xfree) char *same = draft_name(w->name);
        bool valid = strcmp(same, w->name) == 0;
        if (valid && (w->s->name || !talk_asks() || !is_taken(w)))
            return 0;
        if (valid)
            continue;
        talk_say("a name has 1 to 32 of a-z, 0-9, _ and -, and begins with a letter or digit\n");
        if (w->s->name || !talk_asks())
            return err_set(e, ERR_USAGE, 0, "\"%s\" is not a valid world name", w->name);
    }
}

/* Loads the existing config, which takes precedence over any answer. */
static int take_config(struct world *w, struct err *e)
{
    if (config_load(w->config_path, &w->cfg, e) < 0)
        return -1;
    if (!setup_keeps(w->s, w->cfg, w->schema->name)) {
        SCOPED(xfree) char *server = setup_server_name(&w->cfg->mysql);
        err_set(e, ERR_REFUSED, 0,
                "%s keeps schema %s of the server at %s, not schema %s of this server",
                w->config_path, w->cfg->schema, server, w->schema->name);
        return err_hint(e,
                        "if that server is this one, repeat with its --socket or --host as in %s; "
                        "otherwise worldkeeper-setup --name NAME names another world",
                        w->config_path);
    }
    if (answers_refuse(w->s, w->cfg, e) < 0)
        return -1;
    talk_say("%s exists: its values are kept, and what is missing is added.\n", w->config_path);
    return account_of(w->s, w->cfg, &w->account, e);
}

static int make_config(struct world *w, struct err *e)
{
    if (account_choose(w->s, w->name, &w->account, e) < 0 ||
        answers_ask(w->s, w->name, w->schema, &w->account, &w->answers, e) < 0)
        return -1;
    draft_config(&w->answers.draft, &w->text);
    if (answers_check(w->text.p, &w->cfg, e) < 0)
        return -1;
    if (strcmp(w->cfg->schema, w->schema->name) == 0)
        return 0;
    return err_set(e, ERR_CONFIG, 0, "schema \"%s\": no config can hold its name", w->schema->name);
}

static int64_t world_number(struct db *db, const char *name)
{
    return db_variable_number(db, name);
}

static bool is_variable(struct db *db, const char *name, const char *value)
{
    SCOPED(xfree) char *v = db_variable(db, name);
    return v && strcasecmp(v, value) == 0;
}

/* Finds what the journal and the next start of the server need in the server's option files. */
static void look_at_server(struct world *w)
{
    static const char *const dirs[] = {"/etc/mysql/mariadb.conf.d", "/etc/mysql/mysql.conf.d",
                                       "/etc/mysql/conf.d", "/etc/my.cnf.d"};
    struct db *db = w->s->db;
    struct server_version v = db_version(db);
    const char *days = server_word(v, WORD_LOG_HELD_DAYS);
    struct draft_server is = {.version = v,
                              .logs = world_number(db, "log_bin") == 1,
                              .row_format = is_variable(db, "binlog_format", "ROW"),
                              .full_image = is_variable(db, "binlog_row_image", "FULL"),
                              .synced = world_number(db, "sync_binlog") != 0,
                              .held = world_number(db, days ? days : server_word(v, WORD_LOG_HELD)),
                              .trusts = world_number(db, "log_bin_trust_function_creators") == 1,
                              .makes_code = w->schema->triggers > 0 || w->schema->functions > 0,
                              .slow_rows = !v.mariadb && world_number(db, "local_infile") == 0,
                              .heap = (uint64_t)world_number(db, "max_heap_table_size"),
                              .largest = w->schema->most_bytes};
    draft_server_options(&is, &w->options);
    for (size_t i = v.mariadb ? 0 : 1; i < sizeof dirs / sizeof *dirs && !w->server_file; i++) {
        SCOPED(xfree) char *dir = setup_path(w->s, dirs[i]);
        if (w->s->params.socket && access(dir, F_OK) == 0)
            w->server_file = xasprintf("%s" SERVER_FILE "%s.cnf", dir, w->name);
    }
}

/* Asks for each option that costs the game something, but not again after an earlier run. */
static int ask_costly_options(struct world *w, struct err *e)
{
    bool there = w->server_file && access(w->server_file, F_OK) == 0;
    for (size_t i = w->options.count; i-- > 0;) {
        const struct draft_option *o = &w->options.list[i];
        bool add = false;
        SCOPED(xfree) char *question = xasprintf("Add %s?", o->line);
        if (!o->costs)
            continue;
        if (!there && w->server_file && !w->s->no_server_file) {
            talk_say("\nOptional for the server: %s (%s).\n", o->line, o->reason);
            if (talk_yes(question, false, &add, e) < 0)
                return -1;
        }
        if (!add)
            draft_options_drop(&w->options, i);
    }
    return 0;
}

/* Looks at the option file of an earlier run. What it lacks is added to it, unless somebody has
 * changed it since: then that is for the person to do. */
static int ask_old_server_file(struct world *w, const char *question, struct err *e)
{
    SCOPED(buf_free) struct buf text = {0};
    bool lacks = false, own = effect_is_own(w->x, w->server_file, &text);
    w->write_server_file = true;
    for (size_t i = 0; i < w->options.count; i++) {
        w->options.list[i].written = restart_file_has(w->server_file, &w->options.list[i]);
        lacks |= !w->options.list[i].written;
    }
    talk_say("%s exists: an earlier run wrote it.\n", w->server_file);
    if (!lacks || own)
        return lacks ? talk_yes(question, true, &w->may_add, e) : 0;
    talk_say("It was changed since. Add what it lacks under [mysqld] yourself:\n");
    for (size_t i = 0; i < w->options.count; i++)
        if (!w->options.list[i].written)
            talk_line("  %s\n", w->options.list[i].line);
    return 0;
}

static int ask_server_file(struct world *w, struct err *e)
{
    bool restart = false;
    if (ask_costly_options(w, e) < 0)
        return -1;
    if (!w->options.count || w->s->no_server_file)
        return 0;
    talk_say("\nWhat the server lacks, as lines under [mysqld] of an option file:\n");
    for (size_t i = 0; i < w->options.count; i++) {
        talk_say("  %s   (%s)\n", w->options.list[i].line, w->options.list[i].reason);
        restart |= w->options.list[i].restart;
    }
    if (restart)
        talk_say("The binary log starts with a restart of the server, which empties all MEMORY "
                 "tables. Once the world is supervised, it is then restored automatically from its "
                 "newest dump, so that a dump belongs right before the restart. Until then there "
                 "is no journal.\n");
    if (!w->server_file) {
        talk_say("The server's option files were not found on this machine: add these lines to "
                 "them yourself.\n");
        return 0;
    }
    SCOPED(xfree) char *question = xasprintf("Write them to %s?", w->server_file);
    bool there = access(w->server_file, F_OK) == 0;
    if ((there ? ask_old_server_file(w, question, e) : talk_yes(question, true, &w->may_add, e)) <
        0)
        return -1;
    w->write_server_file |= w->may_add;
    return restart_ask(w, e);
}

/* Opens the record of what was made for the world. A record holds things of one server only. */
static int open_record(struct world *w, struct err *e)
{
    struct made *m = &w->x->made;
    SCOPED(xfree) char *record = setup_config_path(w->s, w->name, ".setup");
    if (made_open(m, record, w->s->dry, e) < 0)
        return -1;
    const struct config_mysql at = made_server(m);
    if ((at.socket || at.host) && !setup_same_server(w->s, &at)) {
        SCOPED(xfree) char *other = setup_server_name(&at);
        err_set(e, ERR_REFUSED, 0, "%s lists what was made on another server, at %s", record,
                other);
        return err_hint(e, "if that server has moved, change \"server\" in %s", record);
    }
    made_set_server(m, &w->cfg->mysql);
    return 0;
}

/* Directories that the service writes to, without those inside of the dump directory. */
struct place {
    const char *key, *path;
    mode_t mode;
};
enum { PLACES_MAX = 4 };

static size_t world_places(const struct world *w, struct place out[PLACES_MAX])
{
    const struct config *c = w->cfg;
    const struct place all[PLACES_MAX] = {
        {"[dump] dir", c->dump_dir, 0700},
        {"[journal] dir", c->journal == JOURNAL_FOLLOW ? c->journal_dir : NULL, 0700},
        {"[status] dir", c->status_dir, 0755},
        {"[control] dir", c->control_dir, 0755}};
    size_t n = 0;
    for (size_t i = 0; i < PLACES_MAX; i++)
        if (all[i].path && (i == 0 || !config_inside(all[i].path, c->dump_dir)))
            out[n++] = all[i];
    return n;
}

/* Returns the setting of the unit that hides a path below --root; NULL: it can be reached. */
static const char *world_hidden_by(const struct setup *s, const char *path)
{
    SCOPED(xfree) char *real = realpath(path, NULL);
    const char *const paths[] = {path, real};
    const char *by = NULL;
    for (size_t i = 0; i < 2 && !by; i++)
        if (paths[i] && text_starts(paths[i], s->root))
            by = draft_hidden_by(paths[i] + strlen(s->root));
    return by;
}

/* Returns true for a directory below /run that the unit does not make. A boot removes it, and the
 * unit then fails, because its ReadWritePaths= names a directory that does not exist. */
static bool is_lost_by_boot(const struct world *w, const char *path)
{
    SCOPED(xfree) char *runtime = xasprintf("%s/run/worldkeeper/%s", w->s->root, w->name);
    SCOPED(xfree) char *run = setup_path(w->s, "/run");
    SCOPED(xfree) char *old = setup_path(w->s, "/var/run"); /* a link to /run */
    return (config_inside(path, run) || config_inside(path, old)) && !config_inside(path, runtime);
}

/* Returns true if a drop-in of the unit turns this setting off. */
static bool is_turned_off(const struct world *w, const char *setting)
{
    SCOPED(xfree) char *unit = xasprintf("worldkeeper@%s", w->name);
    SCOPED(xfree) char *property =
        xasprintf("--property=%.*s", (int)strcspn(setting, "="), setting);
    const char *const argv[] = {"systemctl", "show", "--value", property, unit, NULL};
    SCOPED(buf_free) struct buf value = {0};
    struct err ignored = {0};
    return effect_read(argv, VALUE_LONGEST, &value, &ignored) == 0 && value.len &&
           strcmp(value.p, "no\n") == 0;
}

static bool is_supervised(const struct world *w)
{
    return w->known && (world_is(w->cfg, "UP") || world_is(w->cfg, "PAUSED"));
}

/* Refuses a path of the config that the service cannot reach, unless the world's supervisor does.
 * `hint` is for a new world. */
static int check_path(const struct world *w, const char *key, const char *path, bool dir,
                      const char *hint, struct err *e)
{
    const char *by = world_hidden_by(w->s, path);
    bool lost = !by && dir && is_lost_by_boot(w, path);
    if ((!by && !lost) || is_supervised(w) || (by && is_turned_off(w, by)))
        return 0;
    err_set(e, ERR_REFUSED, 0, "%s %s: the service cannot reach it (%s)", key, path,
            by ? by : "each boot empties /run");
    if (!w->known)
        return err_hint(e, "%s", hint);
    return err_hint(e, "change %s in %s, or change the unit: systemctl edit worldkeeper@%s", key,
                    w->config_path, w->name);
}

/* Refuses paths that the service cannot reach from its sandbox. */
static int check_reach(const struct world *w, struct err *e)
{
    struct place places[PLACES_MAX];
    const char *socket = w->cfg->mysql.socket;
    size_t n = w->s->systemd ? world_places(w, places) : 0;
    if (socket && w->s->systemd &&
        check_path(w, "[mysql] socket", socket, false,
                   "connect over the network with --host 127.0.0.1, or move the server's socket, "
                   "for instance to /run/mysqld/mysqld.sock",
                   e) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (check_path(w, places[i].key, places[i].path, true,
                       "choose a directory below /srv or /var/lib", e) < 0)
            return -1;
    return 0;
}

static int ask_all(struct world *w, struct err *e)
{
    if (ask_name(w, e) < 0)
        return -1;
    w->config_path = setup_config_path(w->s, w->name, ".ini");
    w->known = access(w->config_path, F_OK) == 0;
    if ((w->known ? take_config(w, e) : make_config(w, e)) < 0)
        return -1;
    if (check_reach(w, e) < 0 || open_record(w, e) < 0 ||
        needed_grants_for(w->cfg, w->s->db, w->account.name, &w->grants, e) < 0)
        return -1;
    look_at_server(w);
    talk_say("\nAccount %s, %s, %s.%s\n", w->account.name,
             w->account.by_socket ? "which logs in by the server's socket without a password"
                                  : "with a password in a file",
             w->account.there ? "exists" : "will be created",
             w->grants.count ? " It needs these privileges, each with its reason:" : "");
    for (size_t i = 0; i < w->grants.count; i++) {
        talk_reason(w->grants.list[i].why, "  -- ");
        talk_line("\n  %s\n", w->grants.list[i].sql);
    }
    if (account_ask(w->s, &w->grants, e) < 0)
        return -1;
    return ask_server_file(w, e);
}

/* ---- steps 2 to 4 ---- */

static int world_make_dirs(struct world *w, struct err *e)
{
    struct place places[PLACES_MAX];
    size_t n = world_places(w, places);
    SCOPED(xfree) char *etc = setup_path(w->s, "/etc/worldkeeper");
    int rc = effect_dir(w->x, etc, 0755, false, e);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = effect_dir(w->x, places[i].path, places[i].mode, true, e);
    return rc;
}

static int make_secret(struct world *w, const char *path, const struct buf *secret, struct err *e)
{
    if (!secret->len)
        return 0;
    SCOPED(buf_free) struct buf line = {.secret = true};
    buf_reserve(&line, secret->len + 2);
    buf_printf(&line, "%s\n", secret->p);
    return effect_file(w->x, path, line.p, 0400, true, true, e);
}

/* Appends the user of the service and the user's own group, if they are not those of the unit. */
static void unit_user(const struct world *w, struct buf *out)
{
    const struct passwd *p = getpwnam(w->x->user);
    const struct group *g = p ? getgrgid(p->pw_gid) : NULL;
    if (strcmp(w->x->user, SERVICE_USER) != 0)
        buf_printf(out, "User=%s\nGroup=%s\n", w->x->user, g ? g->gr_name : w->x->user);
}

/* Appends the directories outside of those that systemd makes for the unit, which alone are
 * writable. */
static void unit_paths(const struct world *w, struct buf *out)
{
    struct place places[PLACES_MAX];
    size_t n = world_places(w, places);
    SCOPED(xfree) char *state = xasprintf("%s/var/lib/worldkeeper/%s", w->s->root, w->name);
    SCOPED(xfree) char *runtime = xasprintf("%s/run/worldkeeper/%s", w->s->root, w->name);
    for (size_t i = 0; i < n; i++)
        if (!config_inside(places[i].path, state) && !config_inside(places[i].path, runtime))
            draft_unit_path(places[i].path, out);
}

/* Makes systemd read a changed drop-in. A running service keeps the directories that it was started
 * with. */
static int reload_unit(struct world *w, struct err *e)
{
    const char *const reload[] = {"systemctl", "daemon-reload", NULL};
    talk_say("The running service keeps its former directories until it is restarted, which "
             "leaves the world as it is:\n");
    talk_line("  systemctl restart worldkeeper@%s\n", w->name);
    int rc = effect_run(w->x, reload, e);
    return rc <= 0 ? rc : err_set(e, ERR_SYSTEM, 0, "systemctl failed with exit status %d", rc);
}

/* Writes a drop-in with what differs from the unit. One that an earlier run wrote is written again,
 * also if nothing differs now. */
static int make_unit(struct world *w, struct err *e)
{
    SCOPED(buf_free) struct buf text = {0};
    if (!w->s->systemd)
        return 0;
    unit_user(w, &text);
    unit_paths(w, &text);
    SCOPED(xfree) char *below = xasprintf("/etc/systemd/system/worldkeeper@%s.service.d", w->name);
    SCOPED(xfree) char *dir = setup_path(w->s, below);
    SCOPED(xfree) char *file = xasprintf("%s/setup.conf", dir);
    if (!text.len && !made_has(&w->x->made, MADE_FILE, file))
        return 0;
    SCOPED(xfree) char *whole = xasprintf("[Service]\n%s", text.len ? text.p : "");
    int rc = effect_dir(w->x, dir, 0755, false, e);
    if (rc == 0)
        rc = effect_file(w->x, file, whole, 0644, false, false, e);
    return rc > 0 && is_supervised(w) ? reload_unit(w, e) : rc;
}

/* Sets in the running server only what the option file has, too: otherwise the server's next
 * restart would undo it. */
static int make_server_file(struct world *w, struct err *e)
{
    SCOPED(buf_free) struct buf before = {0}, text = {0};
    if (!w->write_server_file)
        return 0;
    effect_is_own(w->x, w->server_file, &before);
    draft_server_file(&w->options, w->name, before.len ? before.p : "", &text);
    if (w->may_add && effect_file(w->x, w->server_file, text.p, 0644, false, false, e) < 0)
        return -1;
    for (size_t i = 0; i < w->options.count; i++) {
        const struct draft_option *o = &w->options.list[i];
        if (o->now && (o->written || w->may_add) && effect_setting(w->x, o->now, e) < 0)
            return -1;
    }
    return 0;
}

/* Sends a test alert, because an alert that does not arrive is useless. */
static int test_alert(struct world *w, struct err *e)
{
    static const char *const options[] = {"--test-alert", NULL};
    bool arrived = true;
    if (!config_any_channel(w->cfg))
        return 0;
    int rc = effect_keeper(w->x, w->config_path, options, e);
    if (rc < 0 ||
        (rc == 0 && !w->s->dry &&
         talk_yes(w->cfg->smtp.to.count > 1 ? "Did the test message arrive at each address?"
                                            : "Did the test message arrive?",
                  true, &arrived, e) < 0))
        return -1;
    if (rc == 0 && arrived)
        return 0;
    err_set(e, ERR_SYSTEM, 0, "the test message did not arrive");
    return err_hint(e, "edit the [alert.…] sections of %s, then run worldkeeper-setup again",
                    w->config_path);
}

static int world_prepare(struct world *w, struct err *e)
{
    const struct draft *p = &w->answers.draft;
    if (world_make_dirs(w, e) < 0 || account_make(w->s, &w->account, &w->grants, e) < 0 ||
        make_secret(w, p->mail_password_file, &w->answers.mail_password, e) < 0 ||
        make_secret(w, p->webhook_file, &w->answers.webhook, e) < 0 ||
        (!w->known && effect_file(w->x, w->config_path, w->text.p, 0644, false, false, e) < 0))
        return -1;
    return make_unit(w, e) < 0 || make_server_file(w, e) < 0 || test_alert(w, e) < 0 ? -1 : 0;
}

/* ---- step 5 ---- */

static int world_keeper(struct world *w, const char *option, struct err *e)
{
    const char *const options[] = {option, NULL};
    int rc = effect_keeper(w->x, w->config_path, options, e);
    return rc <= 0
               ? rc
               : err_set(e, ERR_SYSTEM, 0, "worldkeeper %s failed with exit status %d", option, rc);
}

static int first_dump(struct world *w, struct err *e)
{
    struct err why = {0};
    struct db_sentinel is = {0};
    bool there = db_sentinel_read(w->s->db, w->cfg->schema, w->cfg->sentinel, &is, &why) == 0;
    if (!there && !w->s->dry &&
        made_note(&w->x->made, MADE_SENTINEL, w->cfg->sentinel, NULL, w->cfg->schema, e) < 0)
        return -1;
    return world_keeper(w, "--init", e) < 0 || world_keeper(w, "--dump", e) < 0 ||
                   world_keeper(w, "--drill", e) < 0
               ? -1
               : 0;
}

static int start_service(struct world *w, struct err *e)
{
    SCOPED(xfree) char *unit = xasprintf("worldkeeper@%s", w->name);
    const char *const reload[] = {"systemctl", "daemon-reload", NULL};
    const char *const enable[] = {"systemctl", "enable", "--now", unit, NULL};
    int rc = effect_run(w->x, reload, e);
    if (rc == 0 && !w->s->dry)
        rc = made_note(&w->x->made, MADE_SERVICE, unit, NULL, NULL, e);
    if (rc == 0)
        rc = effect_run(w->x, enable, e);
    if (rc > 0) {
        err_set(e, ERR_SYSTEM, 0, "systemctl failed with exit status %d", rc);
        return err_hint(e, "journalctl -u %s says why", unit);
    }
    for (unsigned i = 0; rc == 0 && !w->s->dry && !world_is(w->cfg, "UP"); i++) {
        if (i == UP_PATIENCE) {
            err_set(e, ERR_SYSTEM, 0, "%s does not report the world as up", unit);
            return err_hint(e, "journalctl -u %s says why", unit);
        }
        rc = interrupt_pause(1000, e);
    }
    return rc;
}

/* Prints the remaining commands for a machine without systemd. In a container, the entry point
 * starts the daemon. */
static void say_how_to_start(struct world *w)
{
    SCOPED(buf_free) struct buf path = {0};
    buf_shell(&path, w->config_path);
    talk_say(
        "\nsystemd does not run here: the world is prepared, and nothing is started. As user %s:\n",
        w->x->user);
    static const char *const steps[] = {"init", "dump", "drill", "run"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        talk_line("  worldkeeper --config %s --%s\n", path.p, steps[i]);
}

/* ---- all of it ---- */

static int world_carry_out(struct world *w, struct err *e)
{
    if (setup_reconnect(w->s, e) < 0 || world_prepare(w, e) < 0 ||
        scripts_ended(w->s, w->schema->name, e) < 0)
        return -1;
    if (!w->s->systemd) {
        say_how_to_start(w);
        return 0;
    }
    if (!w->s->dry && w->known && world_is(w->cfg, "UP"))
        talk_say("The world is supervised, and up.\n");
    else if (!w->s->dry && w->known && world_is(w->cfg, "PAUSED"))
        talk_say("The world is supervised, and paused: worldkeeper --world %s --resume ends the "
                 "pause.\n",
                 w->name);
    else if (first_dump(w, e) < 0 || start_service(w, e) < 0)
        return -1;
    w->started = true;
    return 0;
}

static void say_done(const struct world *w, const struct made *made)
{
    if (w->s->dry || json_array_size(made->list) == 0)
        return;
    talk_say("\nDone so far (a second run continues; worldkeeper-setup --undo %s removes it):\n",
             w->name);
    effect_show_made(made);
}

int setup_world(struct setup *s, const struct survey_schema *schema, struct err *e)
{
    struct world *w = xcalloc(1, sizeof *w);
    bool go = true;
    *w = (struct world){.s = s, .x = &s->x, .schema = schema};
    talk_say("\n== %s\n", schema->name);
    int rc = ask_all(w, e);
    if (rc == 0)
        rc = talk_yes(s->dry ? "\nShow what would be done?" : "\nDo it?", true, &go, e);
    if ((rc < 0 || !go) && s->from_cron && !s->dry)
        talk_say("The config of world %s was written from the scripts; nothing else was done.\n",
                 s->name);
    else if (rc < 0)
        talk_say("Nothing was changed for %s.\n", schema->name);
    else if (!go)
        talk_say("Nothing was done.\n");
    else if ((rc = world_carry_out(w, e)) < 0)
        say_done(w, &s->x.made);
    w->made = s->x.made;
    s->x.made = (struct made){0};
    if (!w->started) {
        world_free(w);
        return rc;
    }
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): pointers are what it holds */
    s->worlds = xgrow(s->worlds, s->world_count, sizeof *s->worlds);
    s->worlds[s->world_count++] = w;
    return 0;
}

static int world_check(struct world *w, struct err *e)
{
    static const char *const options[] = {"--check", "--quiet", NULL};
    int rc = effect_keeper(w->x, w->config_path, options, e);
    if (rc >= 0 && !w->s->dry)
        known_say(w);
    return rc <= 0 ? rc : err_set(e, ERR_SYSTEM, 0, "--check names what is left to do, as above");
}

int setup_finish(struct setup *s, bool good, struct err *e)
{
    int rc = s->world_count ? setup_reconnect(s, e) : 0;
    if (rc == 0 && good && s->world_count)
        rc = restart_server(s, e);
    for (size_t i = 0; i < s->world_count; i++) {
        struct world *w = s->worlds[i];
        struct err why = {0};
        if (s->db && world_check(w, &why) < 0 && rc == 0)
            rc = err_pass(e, &why);
        if (rc < 0)
            say_done(w, &w->made);
        world_free(w);
    }
    free(s->worlds);
    s->worlds = NULL;
    s->world_count = 0;
    return rc;
}
