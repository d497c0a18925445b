#include "setup/undo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "actions/worlds.h"
#include "base/file.h"
#include "base/js.h"
#include "mysql/account.h"
#include "setup/account.h"
#include "setup/admin.h"
#include "setup/interrupt.h"
#include "setup/talk.h"
#include "sql/literal.h"

/* Answers of the servers to a REVOKE of a privilege that is not granted, or from an account that
 * does not exist. */
#define NO_GRANT 1141
#define NO_TABLE_GRANT 1147

static int remove_file(struct setup *s, const char *path, struct err *e)
{
    int rc = effect_remove(&s->x, &s->x.made, path, e);
    if (rc > 0 && strstr(path, SERVER_FILE))
        talk_say(
            "  the server keeps the options that it was started with until its next restart\n");
    return rc;
}

static int remove_dir(struct setup *s, const char *path, struct err *e)
{
    if (s->dry) {
        talk_line("would remove directory %s, if it is empty\n", path);
        return 1;
    }
    const char *last;
    struct err why = {0};
    SCOPED(file_close) int place = file_open_place(path, &last, &why);
    if (place < 0)
        return why.num == ENOENT ? 1 : err_pass(e, &why);
    if (unlinkat(place, last, AT_REMOVEDIR) == 0) {
        talk_line("removed directory %s\n", path);
        return 1;
    }
    if (errno == ENOENT)
        return 1;
    if (errno == ENOTEMPTY || errno == EEXIST) {
        talk_say("directory %s is not empty, and stays\n", path);
        return 1; /* it is no longer ours to remove */
    }
    return err_sys(e, errno, "cannot remove directory %s", path);
}

static int undo_type(struct setup *s, const char *sql, struct err *e)
{
    return effect_sql(&s->x, sql, NULL, NULL, e) < 0 ? -1 : 1;
}

static int drop_account(struct setup *s, const char *name, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    buf_adds(&sql, "DROP USER IF EXISTS ");
    db_account_quote(&sql, name);
    buf_addc(&sql, ';');
    return undo_type(s, sql.p, e);
}

/* Drops the sentinel and the lease table. They only mark the world as kept; its dumps can be
 * restored without them. */
static int drop_sentinel(struct setup *s, const char *table, const char *schema, struct err *e)
{
    SCOPED(xfree) char *lease = xasprintf("%s_lease", table);
    SCOPED(buf_free) struct buf sql = {0};
    buf_adds(&sql, "DROP TABLE IF EXISTS ");
    sql_ident2(&sql, schema, table);
    buf_adds(&sql, ", ");
    sql_ident2(&sql, schema, lease);
    buf_addc(&sql, ';');
    return undo_type(s, sql.p, e);
}

static int stop_service(struct setup *s, const char *unit, struct err *e)
{
    const char *const argv[] = {"systemctl", "disable", "--now", unit, NULL};
    int rc = effect_run(&s->x, argv, e);
    return rc == 0  ? 1
           : rc < 0 ? -1
                    : err_set(e, ERR_SYSTEM, 0, "systemctl failed with exit status %d", rc);
}

/* Revokes one privilege, or several at once. Returns 1 if they were revoked, 0 if at least one of
 * them is not granted, or -1. */
static int undo_revoke(struct setup *s, const char *sql, struct err *e)
{
    static const int gone[] = {NO_GRANT, NO_TABLE_GRANT, 0};
    struct err why = {0};
    if (undo_type(s, sql, &why) == 1)
        return 1;
    if (!err_among(&why, gone))
        return err_pass(e, &why);
    return 0;
}

/* Executes a REVOKE. Privileges that no longer exist count as success. MySQL rejects the whole
 * statement if one privilege of its list is missing, so each is then revoked alone. */
static int undo_take_back(struct setup *s, const char *sql, struct err *e)
{
    int rc = undo_revoke(s, sql, e);
    const char *word = sql + strlen("REVOKE "), *target = strstr(sql, " ON ");
    if (rc != 0 || !target)
        return rc < 0 ? -1 : 1;
    while (word < target) {
        size_t n = strcspn(word, ",");
        n = n < (size_t)(target - word) ? n : (size_t)(target - word);
        SCOPED(xfree) char *one = xasprintf("REVOKE %.*s%s", (int)n, word, target);
        rc = undo_revoke(s, one, e);
        if (rc < 0)
            return -1;
        if (rc == 0)
            talk_line("already revoked: %s\n", one);
        word += n + strspn(word + n, ", ");
    }
    return 1;
}

/* Restores a setting, but only if it still has the value that setup gave it. */
static int undo_set_back(struct setup *s, const char *setting, const char *value, const char *sql,
                         struct err *e)
{
    SCOPED(xfree) char *now = effect_setting_value(s->db, setting, e);
    if (e->cls != ERR_NONE)
        return -1;
    if (!now || strcmp(now, value) != 0) {
        talk_say("%s was changed since, and stays\n", setting);
        return 1; /* it is no longer ours */
    }
    return undo_type(s, sql, e);
}

static int undo_remove_one(struct setup *s, const json_t *o, struct err *e)
{
    const char *name = js_text(o, "name");
    switch (made_kind_of(o)) {
    case MADE_DIR:
        return remove_dir(s, name, e);
    case MADE_FILE:
        return remove_file(s, name, e);
    case MADE_ACCOUNT:
        return drop_account(s, name, e);
    case MADE_STATEMENT:
        return undo_take_back(s, js_text(o, "undo"), e);
    case MADE_SENTINEL:
        return drop_sentinel(s, name, js_text(o, "undo"), e);
    case MADE_SERVICE:
        return stop_service(s, name, e);
    case MADE_SETTING:
        return undo_set_back(s, name, js_text(o, "sum"), js_text(o, "undo"), e);
    case MADE_KINDS:
        break;
    }
    return 0;
}

/* ---- what another world of the same server needs, too ---- */

struct heir {
    struct setup *s;
    const char *world;   /* the world that is undone */
    const json_t *thing; /* of its record */
    char *record;        /* path of the record of another world that needs the thing */
};

/* Returns true for what each world of the server needs. */
static bool is_server_wide(const json_t *o, const char *world)
{
    SCOPED(xfree) char *file = xasprintf(SERVER_FILE "%s.cnf", world);
    const char *name = js_text(o, "name"), *at = strstr(name, file);
    return made_kind_of(o) == MADE_SETTING ||
           (made_kind_of(o) == MADE_FILE && at && strcmp(at, file) == 0);
}

/* Returns true for an account, its password file, or its privilege on the whole server, if a world
 * with this config needs it, too. */
static bool is_account_wide(const json_t *o, const struct config_mysql *m)
{
    const char *name = js_text(o, "name");
    SCOPED(xfree) char *account = xasprintf("%s@", m->user);
    SCOPED(buf_free) struct buf to = {0};
    buf_adds(&to, " TO ");
    sql_ident(&to, m->user);
    buf_addc(&to, '@');
    return (made_kind_of(o) == MADE_ACCOUNT && text_starts(name, account)) ||
           (made_kind_of(o) == MADE_FILE && m->password_file &&
            strcmp(name, m->password_file) == 0) ||
           (made_kind_of(o) == MADE_STATEMENT && account_is_wide(name) && strstr(name, to.p));
}

/* Returns true for what may be needed by another world, too. */
static bool is_shareable(const json_t *o, const char *world)
{
    return made_kind_of(o) == MADE_ACCOUNT || is_server_wide(o, world) ||
           (made_kind_of(o) == MADE_STATEMENT && account_is_wide(js_text(o, "name")));
}

struct unread {
    const char *own;   /* the config of the world that is undone */
    struct err *first; /* set for the first other config that cannot be loaded */
};

static void see_unread(void *arg, const char *path, const struct config *cfg, const struct err *why)
{
    const struct unread *u = arg;
    if (cfg || strcmp(path, u->own) == 0 || u->first->cls != ERR_NONE)
        return;
    err_set(u->first, ERR_REFUSED, 0,
            "%s cannot be loaded, and its world may need what would be removed: %s", path,
            why->text);
    err_hint(u->first, "correct that file, or move it to another directory, then repeat the "
                       "command");
}

/* Refuses --undo if it is unknown whether another world needs a thing that would be removed. */
static int check_heirs(struct setup *s, const char *world, struct err *e)
{
    SCOPED(xfree) char *dir = setup_path(s, "/etc/worldkeeper");
    SCOPED(xfree) char *own = setup_config_path(s, world, ".ini");
    struct unread u = {.own = own, .first = e};
    struct err none;
    bool shares = false;
    for (size_t i = 0; i < json_array_size(s->x.made.list); i++)
        shares |= is_shareable(json_array_get(s->x.made.list, i), world);
    if (shares)
        worlds_each(dir, see_unread, &u, &none);
    return e->cls == ERR_NONE ? 0 : -1;
}

static void see_heir(void *arg, const char *path, const struct config *cfg, const struct err *why)
{
    struct heir *h = arg;
    (void)path;
    (void)why;
    if (!cfg || h->record || strcmp(cfg->name, h->world) == 0)
        return;
    if (setup_same_server(h->s, &cfg->mysql) &&
        (is_server_wide(h->thing, h->world) || is_account_wide(h->thing, &cfg->mysql)))
        h->record = setup_config_path(h->s, cfg->name, ".setup");
}

/* Records, before the i-th thing, what an account may do on a schema, if anything. */
static int note_schema(struct made *m, size_t i, const struct grants *g, const char *account,
                       const char *schema, struct err *e)
{
    SCOPED(buf_free) struct buf pattern = {0}, grant = {0};
    bool granted = false;
    grants_pattern(g, &pattern, schema);
    for (size_t k = 0; k < g->count; k++)
        granted |=
            g->list[k].on == GRANT_SCHEMA && grants_same_name(g, g->list[k].schema, pattern.p);
    if (!granted)
        return 0;
    buf_adds(&grant, "GRANT ALL PRIVILEGES");
    db_grant_target(&grant, g, schema, account);
    buf_addc(&grant, ';');
    SCOPED(xfree) char *back = account_reverse(grant.p);
    return made_insert(m, i, grant.p, back, e);
}

/* Records what the i-th thing, an account that stays, may do on the schemas of the world that is
 * undone. It was not recorded, because dropping the account would have revoked it. */
static int note_schemas(struct setup *s, const char *world, size_t i, struct err *e)
{
    SCOPED(grants_free) struct grants g = {0};
    SCOPED(xfree) char *path = setup_config_path(s, world, ".ini");
    SCOPED(xfree) char *account = xstrdup(js_text(json_array_get(s->x.made.list, i), "name"));
    char drill[CONFIG_OWN_SCHEMA_MAX], warm[CONFIG_OWN_SCHEMA_MAX];
    struct config *cfg = NULL;
    struct err why = {0};
    unsigned unknown = 0;
    if (config_load(path, &cfg, &why) < 0) {
        talk_say("the privileges of %s on the schemas of world %s stay: %s\n", account, world,
                 why.text);
        return 0;
    }
    config_own_schema(CONFIG_DRILL_SCHEMA, cfg, drill);
    config_own_schema(CONFIG_WARM_SCHEMA, cfg, warm);
    int rc = db_grants_of(s->db, account, &g, &unknown, e);
    const char *const schemas[] = {cfg->schema, drill, warm};
    for (size_t k = 0; rc == 0 && k < sizeof schemas / sizeof *schemas; k++)
        rc = note_schema(&s->x.made, i, &g, account, schemas[k], e);
    config_free(cfg);
    return rc;
}

/* Moves the i-th thing to the record of another world of the same server that needs it, if there is
 * one. It stays for as long as there is such a world. */
static int hand_over_one(struct setup *s, const char *world, size_t i, struct err *e)
{
    struct made *m = &s->x.made, to = {0};
    json_t *o = json_array_get(m->list, i);
    struct heir h = {.s = s, .world = world, .thing = o};
    struct err none;
    SCOPED(xfree) char *dir = setup_path(s, "/etc/worldkeeper");
    worlds_each(dir, see_heir, &h, &none);
    if (!h.record)
        return 0;
    int rc = made_open(&to, h.record, s->dry, e);
    if (rc == 0) {
        talk_say("%s stays: another world of this server needs it, too\n", js_text(o, "name"));
        if (!to.server)
            to.server = json_incref(m->server);
        rc = made_take(&to, m, i, e);
    }
    size_t before = json_array_size(m->list);
    if (rc == 0 && made_kind_of(o) == MADE_ACCOUNT)
        rc = note_schemas(s, world, i, e);
    if (rc == 0)
        rc = made_forget(m, i + json_array_size(m->list) - before, e);
    made_free(&to);
    free(h.record);
    return rc;
}

static int undo_hand_over(struct setup *s, const char *world, struct err *e)
{
    for (size_t i = json_array_size(s->x.made.list); i-- > 0;)
        if (hand_over_one(s, world, i, e) < 0)
            return -1;
    return 0;
}

static bool needs_server(const struct made *m)
{
    bool any = false;
    for (size_t i = 0; i < json_array_size(m->list); i++) {
        enum made_kind kind = made_kind_of(json_array_get(m->list, i));
        any |= kind == MADE_ACCOUNT || kind == MADE_STATEMENT || kind == MADE_SENTINEL ||
               kind == MADE_SETTING;
    }
    return any;
}

/* The service ends first, wherever the record has it, because it uses what the other things are.
 * Directories come last, because the record's own is needed for as long as there is a record. */
enum undo_stage { UNDO_SERVICE, UNDO_THINGS, UNDO_DIRS };

static enum undo_stage undo_stage_of(enum made_kind kind)
{
    return kind == MADE_SERVICE ? UNDO_SERVICE : kind == MADE_DIR ? UNDO_DIRS : UNDO_THINGS;
}

/* Removes the things of one stage. Returns -1 if the next stage must not begin. */
static int remove_all(struct setup *s, enum undo_stage stage, unsigned *failed)
{
    struct made *m = &s->x.made;
    for (size_t i = json_array_size(m->list); i-- > 0;) {
        struct err e = {0};
        json_t *o = json_array_get(m->list, i);
        if (undo_stage_of(made_kind_of(o)) != stage)
            continue;
        if (interrupt_came())
            return -1;
        int rc = undo_remove_one(s, o, &e);
        if (rc < 0) {
            talk_say("%s\n", e.text);
            ++*failed;
            if (stage == UNDO_SERVICE)
                return -1;
            continue;
        }
        if (rc == 1 && !s->dry && stage != UNDO_DIRS && made_forget(m, i, &e) < 0)
            return -1;
    }
    return 0;
}

/* Finds the server on which setup made the world: the record says it, or else the world's config.
 * No other server is used, because it may have an account and a schema of the same names. */
static int undo_find_server(struct setup *s, const char *name, struct err *e)
{
    struct made *m = &s->x.made;
    struct config *cfg = NULL;
    struct err why = {0};
    SCOPED(xfree) char *config = setup_config_path(s, name, ".ini");
    if (!m->server && config_load(config, &cfg, &why) == 0)
        made_set_server(m, &cfg->mysql);
    config_free(cfg);
    const struct config_mysql at = made_server(m);
    if (!at.socket && !at.host) {
        if (s->socket || s->host)
            return 0;
        err_set(e, ERR_REFUSED, 0, "neither %s nor %s says on which server world %s was made",
                m->path, config, name);
        return err_hint(e, "say where the server is: --socket PATH or --host NAME");
    }
    if (setup_choose_server(s, &at, e) == 0)
        return 0;
    return err_hint(e,
                    "leave out --socket, --host and --port; if the server has moved, change "
                    "\"server\" in %s",
                    m->path);
}

int setup_undo(struct setup *s, const char *name, struct err *e)
{
    unsigned failed = 0;
    bool go = true;
    SCOPED(xfree) char *record = setup_config_path(s, name, ".setup");
    struct made *m = &s->x.made;
    if (made_open(m, record, s->dry, e) < 0)
        return -1;
    if (json_array_size(m->list) == 0) {
        err_set(e, ERR_USAGE, 0, "%s is not there: worldkeeper-setup made nothing for a world %s",
                record, name);
        return err_hint(e, "ls /etc/worldkeeper/*.setup lists the worlds that it set up");
    }
    if (check_heirs(s, name, e) < 0 || (needs_server(m) && undo_find_server(s, name, e) < 0))
        return -1;
    talk_say("Made for world %s:\n", name);
    effect_show_made(m);
    if (talk_yes("Stop the supervisor of that world, and remove all this? Dumps stay, and so do "
                 "directories that are not empty and files that were changed since.",
                 true, &go, e) < 0)
        return -1;
    if (!go)
        talk_say("Nothing was removed.\n");
    if (!go || (needs_server(m) && setup_connect(s, e) < 0))
        return go ? -1 : 0;
    if (s->db && undo_hand_over(s, name, e) < 0)
        return -1;
    if (remove_all(s, UNDO_SERVICE, &failed) == 0 && remove_all(s, UNDO_THINGS, &failed) == 0 &&
        !failed) {
        /* The record can be removed, because nothing failed that a second run could continue.
         * Whatever stays was changed by others. */
        if (!s->dry && unlink(m->path) < 0 && errno != ENOENT)
            return err_sys(e, errno, "cannot remove %s", m->path);
        remove_all(s, UNDO_DIRS, &failed);
    }
    if (interrupt_check(e) < 0)
        return err_hint(e, "a second run continues");
    return failed ? err_set(e, ERR_SYSTEM, 0,
                            "%u of them could not be removed; a second run continues", failed)
                  : 0;
}
