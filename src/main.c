/* Options and the choice of an action; everything else is elsewhere. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "act.h"
#include "control.h"
#include "core/js.h"
#include "core/log.h"
#include "restore/restore.h"
#include "screen.h"
#include "store/seal.h"
#include "typed.h"
#include "world.h"

struct options {
    struct request request;
    char *config;
    bool json, quiet, verbose, allow_root;
    bool told; /* how it ended was said */
};

static const char usage[] =
    "worldkeeper keeps the MEMORY tables of one game world alive.\n"
    "\n"
    "usage: worldkeeper [--config FILE | --world NAME] [ACTION] [OPTIONS]\n"
    "\n"
    "actions (one):\n"
    "  --run              supervise in the foreground (default; systemd Type=notify)\n"
    "  --check            what is right, what is missing, how to mend it\n"
    "  --init             create the sentinel and lease tables (--force: adopt what is there)\n"
    "  --dump             one dump now (--force: also when the world shrank)\n"
    "  --list             dumps, newest first\n"
    "  --verify[=DUMP]    read dumps back and say whether they are whole (default: all)\n"
    "  --drill[=DUMP]     restore a dump into a scratch schema, compare, drop it\n"
    "  --restore[=DUMP]   restore now; DUMP is a name, 'latest' (default), or a path\n"
    "                     to any mysqldump .sql or .sql.gz\n"
    "       --into SCHEMA    somewhere else\n"
    "       --force          also over a living world, after a dump of it\n"
    "       --dry-run        say what would be done\n"
    "       --at TIME        to that moment, by dump and journal: \"2026-11-21 18:30:05\", 18:30, "
    "-15m\n"
    "  --seal[=DUMP]      take dumps without a good HMAC for ours, after reading them back\n"
    "                     (default: all that have none)\n"
    "  --status           state of the running supervisor\n"
    "  --pause[=DURATION], --resume     planned work on the server\n"
    "  --test-alert       one message through each channel\n"
    "\n"
    "options:\n"
    "  --config FILE      the config of the world\n"
    "  --world NAME       the same as --config /etc/worldkeeper/NAME.ini\n"
    "  --json  --quiet  --verbose  --allow-root  --version  --help\n"
    "\n"
    "exit status: 0 done; 1 failed; 2 bad usage or config; 3 another instance has the world;\n"
    "4 refused for safety; 5 nothing intact to restore from; 6 --status, --verify: not well\n";

enum {
    OPT_CONFIG = 256,
    OPT_WORLD,
    OPT_INTO,
    OPT_AT,
    OPT_FORCE,
    OPT_DRY_RUN,
    OPT_JSON,
    OPT_QUIET,
    OPT_VERBOSE,
    OPT_ALLOW_ROOT,
    OPT_VERSION,
    OPT_HELP,
    OPT_ACTION, /* the first of the actions; the rest follow in the order of the table */
};

static const struct option longs[] = {
    {"config", required_argument, NULL, OPT_CONFIG},
    {"world", required_argument, NULL, OPT_WORLD},
    {"into", required_argument, NULL, OPT_INTO},
    {"at", required_argument, NULL, OPT_AT},
    {"force", no_argument, NULL, OPT_FORCE},
    {"dry-run", no_argument, NULL, OPT_DRY_RUN},
    {"json", no_argument, NULL, OPT_JSON},
    {"quiet", no_argument, NULL, OPT_QUIET},
    {"verbose", no_argument, NULL, OPT_VERBOSE},
    {"allow-root", no_argument, NULL, OPT_ALLOW_ROOT},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, OPT_HELP},
    {"run", no_argument, NULL, OPT_ACTION},
    {"check", no_argument, NULL, OPT_ACTION},
    {"init", no_argument, NULL, OPT_ACTION},
    {"dump", no_argument, NULL, OPT_ACTION},
    {"list", no_argument, NULL, OPT_ACTION},
    {"verify", optional_argument, NULL, OPT_ACTION},
    {"drill", optional_argument, NULL, OPT_ACTION},
    {"restore", optional_argument, NULL, OPT_ACTION},
    {"seal", optional_argument, NULL, OPT_ACTION},
    {"status", no_argument, NULL, OPT_ACTION},
    {"pause", optional_argument, NULL, OPT_ACTION},
    {"resume", no_argument, NULL, OPT_ACTION},
    {"test-alert", no_argument, NULL, OPT_ACTION},
    {NULL, 0, NULL, 0},
};

static int set_action(struct options *o, const char *name, const char *arg, struct err *e)
{
    struct request *r = &o->request;
    if (r->action && strcmp(r->action, name) != 0) {
        err_set(e, ERR_USAGE, 0, "--%s and --%s together: one action at a time", r->action, name);
        err_hint(e, "worldkeeper --help lists the actions");
        return -1;
    }
    free(r->action);
    r->action = xstrdup(name);
    if (arg && strcmp(name, "pause") == 0) {
        if (text_duration_parse(arg, &r->pause_ms) < 0 || r->pause_ms <= 0) {
            err_set(e, ERR_USAGE, 0, "--pause=%s is not a duration", arg);
            err_hint(e, "write it with a unit: --pause=30m, --pause=2h");
            return -1;
        }
    } else if (arg) {
        free(r->dump);
        r->dump = xstrdup(arg);
    }
    return 0;
}

static void set_flag(struct options *o, int opt)
{
    switch (opt) {
    case OPT_FORCE:
        o->request.force = true;
        break;
    case OPT_DRY_RUN:
        o->request.dry_run = true;
        break;
    case OPT_JSON:
        o->json = true;
        break;
    case OPT_QUIET:
        o->quiet = true;
        break;
    case OPT_VERBOSE:
        o->verbose = true;
        break;
    case OPT_ALLOW_ROOT:
        o->allow_root = true;
        break;
    case OPT_VERSION:
        puts("worldkeeper " WK_VERSION);
        exit(0);
    case OPT_HELP:
        fputs(usage, stdout);
        exit(0);
    default:
        break;
    }
}

static int set_config(struct options *o, char *path, struct err *e)
{
    if (o->config) {
        free(path);
        return err_set(e, ERR_USAGE, 0, "--config and --world name one config between them");
    }
    o->config = path;
    return 0;
}

/* Where and when it was typed is what it is meant by: a supervisor may have another time zone. */
static int set_at(struct options *o, const char *text, struct err *e)
{
    char utc[TEXT_SHORT];
    wall_t at, now = clock_wall();
    if (text_time_parse(text, now, &at) < 0 || at.ms > now.ms) {
        err_set(e, ERR_USAGE, 0, "--at \"%.100s\" is no moment of the past", text);
        err_hint(e,
                 "\"2026-11-21 18:30:05\" (local time, or UTC with a Z behind it), 18:30, or -15m");
        return -1;
    }
    free(o->request.at);
    o->request.at = xstrdup(text_utc(at, utc));
    return 0;
}

static int one_option(struct options *o, int opt, int index, struct err *e)
{
    switch (opt) {
    case OPT_CONFIG:
        return set_config(o, xstrdup(optarg), e);
    case OPT_WORLD:
        if (strchr(optarg, '/') || optarg[0] == '.')
            return err_set(e, ERR_USAGE, 0, "--world %s: a name, not a path (see --config)",
                           optarg);
        return set_config(o, xasprintf("/etc/worldkeeper/%s.ini", optarg), e);
    case OPT_INTO:
        free(o->request.into);
        o->request.into = xstrdup(optarg);
        return 0;
    case OPT_AT:
        return set_at(o, optarg, e);
    case OPT_ACTION:
        return set_action(o, longs[index].name, optarg, e);
    case '?':
    case ':':
        err_set(e, ERR_USAGE, 0, "bad option");
        err_hint(e, "worldkeeper --help lists the options");
        return -1;
    default:
        set_flag(o, opt);
        return 0;
    }
}

/* Options that belong to certain actions only: silence about a misplaced one could cost a world. */
static int check_combination(const struct options *o, struct err *e)
{
    const struct request *r = &o->request;
    bool restore = strcmp(r->action, "restore") == 0;
    const char *wrong = NULL;
    if (!restore && r->into)
        wrong = "--into";
    else if (!restore && r->at)
        wrong = "--at";
    else if (!restore && r->dry_run)
        wrong = "--dry-run";
    else if (r->force && !restore && strcmp(r->action, "dump") != 0 &&
             strcmp(r->action, "init") != 0)
        wrong = "--force";
    if (wrong)
        return err_set(e, ERR_USAGE, 0, "%s does not go with --%s", wrong, r->action);
    if (!o->config) {
        err_set(e, ERR_USAGE, 0, "which world? neither --config nor --world is given");
        err_hint(e, "worldkeeper --world NAME reads /etc/worldkeeper/NAME.ini");
        return -1;
    }
    return 0;
}

static int parse(int argc, char **argv, struct options *o, struct err *e)
{
    int opt, index = 0;
    while ((opt = getopt_long(argc, argv, "", longs, &index)) != -1)
        if (one_option(o, opt, index, e) < 0)
            return -1;
    /* `--restore NAME` with a space reads as a stray word; say so instead of restoring the latest.
     */
    if (optind < argc) {
        err_set(e, ERR_USAGE, 0, "stray word '%s'", argv[optind]);
        err_hint(
            e, "values of actions are joined with '=': --restore=DUMP, --verify=DUMP, --pause=30m");
        return -1;
    }
    if (!o->request.action)
        o->request.action = xstrdup("run");
    return check_combination(o, e);
}

static bool acts_on_files(const char *action)
{
    static const char *const words[] = {"run", "dump", "restore", "drill", "init", "seal", NULL};
    return text_among(action, words);
}

/* Files that root makes are files that the service cannot read, and so is a directory. */
static int check_root(const struct options *o, const struct config *c, struct err *e)
{
    struct stat st;
    if (geteuid() != 0 || o->allow_root || !acts_on_files(o->request.action))
        return 0;
    if (strcmp(o->request.action, "run") == 0)
        err_set(e, ERR_REFUSED, 0, "refusing to supervise as root");
    else if (stat(c->dump_dir, &st) < 0)
        err_set(e, ERR_REFUSED, 0, "refusing to make directory %s as root", c->dump_dir);
    else if (st.st_uid != 0)
        err_set(e, ERR_REFUSED, 0, "refusing to act as root on the dumps of uid %u",
                (unsigned)st.st_uid);
    else
        return 0;
    if (strcmp(o->request.action, "run") == 0) {
        char *start = typed_start(c);
        err_hint(e, "add --allow-root, or: %s", start);
        free(start);
    } else {
        err_hint(e, "add --allow-root, or as the service's user: worldkeeper --%s",
                 o->request.action);
    }
    return -1;
}

static void on_event(void *arg, const json_t *o)
{
    (void)arg;
    screen_event(o);
}

static void on_control_event(const json_t *o)
{
    screen_event(o);
}

static bool needs_supervisor(const char *action)
{
    return strcmp(action, "status") == 0 || strcmp(action, "pause") == 0 ||
           strcmp(action, "resume") == 0;
}

/* A supervisor dumps what it restored. Here nobody does, and the newest dump may be of what the
 * restore was to replace. */
static void advise_dump(const struct request *r, json_t *result)
{
    bool newest = restore_newest(r->dump) && !r->at && !r->force;
    if (strcmp(r->action, "restore") == 0 && !r->into && !r->dry_run && !newest)
        json_object_set_new(result, "hint",
                            json_string("the newest dump is of another world than this, and would "
                                        "be restored after the next loss; worldkeeper --dump"));
}

/* Directly where the world is free, else through the supervisor that has it. */
static int carry_out(struct act *a, const struct request *r, json_t **result, struct err *e)
{
    struct err asked = {0};
    if (needs_supervisor(r->action))
        return control_ask(a, r, on_control_event, result, e);
    if (!acts_on_files(r->action))
        return act_run(a, r, result, e);
    int lock = act_lock(a, e);
    if (lock >= 0) {
        int rc = act_run(a, r, result, e);
        if (rc == 0)
            advise_dump(r, *result);
        close(lock);
        return rc;
    }
    if (e->cls != ERR_BUSY)
        return -1;
    int rc = control_ask(a, r, on_control_event, result, &asked);
    if (rc != CONTROL_NOBODY) /* else who holds the world is no supervisor */
        *e = asked;
    return rc;
}

/* The status answer carries its own judgement. */
static int judge_status(const char *action, const json_t *result, struct err *e)
{
    const char *state = json_string_value(json_object_get(result, "state"));
    if (strcmp(action, "status") != 0 || !state)
        return 0;
    bool stale = json_is_true(json_object_get(result, "stale"));
    if (strcmp(state, "UP") == 0 && !stale)
        return 0;
    return err_set(e, ERR_UNWELL, 0, "%s",
                   stale                          ? "no good dump for too long"
                   : strcmp(state, "PAUSED") == 0 ? "the supervisor is paused"
                                                  : "the world is not up");
}

/* A path is meant as seen from here, also when the supervisor opens it. */
static void absolute_path(struct request *r)
{
    char *full = r->dump && strchr(r->dump, '/') ? realpath(r->dump, NULL) : NULL;
    if (!full)
        return;
    free(r->dump);
    r->dump = full;
}

/* The doctor looks at what may keep act_open() from working. Who only looks makes no directory: one
 * of root's making is no use to the service. */
static int open_for(struct act *a, const char *action, const struct config *cfg, struct err *e)
{
    static const char *const without[] = {"check", "test-alert", NULL};
    bool makes = acts_on_files(action);
    *a = (struct act){.cfg = cfg, .job.dirfd = -1};
    if (text_among(action, without))
        return 0;
    if (needs_supervisor(action) && access(cfg->dump_dir, F_OK) < 0 && errno == ENOENT)
        return 0; /* nobody can be running */
    return act_open(a, cfg, makes, e);
}

static void tell_result(struct options *o, const json_t *result, int rc, const struct err *e)
{
    const char *action = o->request.action;
    if (o->json)
        screen_json(action, result, rc < 0 ? e : NULL, rc < 0 ? err_exit(e->cls) : 0);
    else if (result && (rc == 0 || e->cls == ERR_UNWELL || strcmp(action, "check") == 0 ||
                        strcmp(action, "seal") == 0 || strcmp(action, "test-alert") == 0))
        screen_result(action, result);
    o->told = o->json;
}

static int one_action(struct options *o, struct config *cfg, json_t **result, struct err *e)
{
    struct act a;
    const char *action = o->request.action;
    absolute_path(&o->request);
    if (open_for(&a, action, cfg, e) < 0)
        return -1;
    a.emit = on_event;
    int rc = carry_out(&a, &o->request, result, e);
    if (rc == 0 && *result)
        rc = judge_status(action, *result, e);
    screen_done();
    if (strcmp(action, "status") == 0 && rc < 0 && e->cls == ERR_UNREACHABLE)
        e->cls = ERR_UNWELL;
    act_close(&a);
    return rc;
}

static int open_to_supervise(struct act *a, struct config *cfg, struct err *e)
{
    if (act_open(a, cfg, true, e) < 0 || act_password(a, e) < 0)
        return -1;
    return seal_open(cfg, e) < 0 ? -1 : 0;
}

static const struct config *screen_world; /* whose commands are shown */

static void make_whole(const char *hint, struct buf *out)
{
    typed_hint(screen_world, hint, out);
}

static void harden(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none); /* passwords are in memory */
    prctl(PR_SET_DUMPABLE, 0);
    umask(0077);
    signal(SIGPIPE, SIG_IGN);
}

static int run(struct options *o, struct err *e)
{
    struct config *cfg = NULL;
    json_t *result = NULL;
    bool supervise = strcmp(o->request.action, "run") == 0;
    if (config_load(o->config, &cfg, e) < 0)
        return -1;
    screen_world = cfg;
    screen_typed(make_whole);
    int rc = check_root(o, cfg, e);
    if (rc == 0 && supervise) {
        struct act a;
        rc = open_to_supervise(&a, cfg, e);
        if (rc == 0)
            return world_run(&a, cfg, e);
        act_close(&a);
    } else if (rc == 0) {
        rc = one_action(o, cfg, &result, e);
    }
    if (rc < 0)
        typed_err(cfg, e);
    if (!supervise)
        tell_result(o, result, rc, e);
    json_decref(result);
    screen_typed(NULL);
    config_free(cfg);
    return rc;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    struct err e = {0};
    harden();
    js_begin();
    int rc = parse(argc, argv, &o, &e);
    log_open(o.verbose ? LOG_DEBUG_ : o.quiet ? LOG_WARN_ : LOG_INFO_);
    screen_open(o.quiet || o.json, o.verbose);
    if (rc == 0)
        rc = run(&o, &e);
    bool action = o.request.action && strcmp(o.request.action, "run") != 0;
    if (rc < 0 && (!o.json || !action || e.cls == ERR_USAGE || e.cls == ERR_CONFIG))
        screen_error(&e);
    if (rc < 0 && o.json && action && !o.told)
        tell_result(&o, NULL, rc, &e);
    free(o.config);
    request_free(&o.request);
    return rc < 0 ? err_exit(e.cls) : 0;
}
