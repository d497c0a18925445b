/* worldkeeper-setup: options, and the choice of schemas. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actions/worlds.h"
#include "base/js.h"
#include "base/number.h"
#include "setup/admin.h"
#include "setup/from_cron.h"
#include "setup/interrupt.h"
#include "setup/setup.h"
#include "setup/talk.h"
#include "setup/undo.h"
#include "setup/world.h"

static const char help[] =
    "worldkeeper-setup finds schemas with MEMORY tables and sets up worldkeeper for them:\n"
    "account, config, directories, first dump, drill, service. It asks before it changes "
    "anything.\n"
    "\n"
    "usage: worldkeeper-setup [OPTIONS]\n"
    "       worldkeeper-setup --undo NAME\n"
    "\n"
    "  --yes                  take the defaults, ask nothing\n"
    "  --dry-run              print each statement, file and command; do nothing\n"
    "  --undo NAME            remove what setup made for that world, but no dumps\n"
    "  --from-cron DIR        replace the cron scripts in DIR\n"
    "\n"
    "the server, and an administrator's login, which is never stored:\n"
    "  --socket PATH          default: /run/mysqld/mysqld.sock\n"
    "  --host NAME, --port N, --tls-ca FILE\n"
    "  --admin USER           default: root\n"
    "  --admin-password-file FILE\n"
    "\n"
    "answers:\n"
    "  --schema NAME          the schema to keep, or all; may be repeated\n"
    "  --name NAME            of the world; default: made from the schema's\n"
    "  --no-global            decline all privileges on the whole server\n"
    "  --no-server-file       write no option file of the server\n"
    "  --restart-server       restart the server at the end if that is needed for its binary log\n"
    "  --status-dir DIR       publish the state there for the homepage\n"
    "  --page                 add a page for players to it\n"
    "  --mail ADDRESS         send alerts by mail; may be repeated\n"
    "  --smtp URL             mail server; default: this machine's\n"
    "  --webhook-file FILE    send alerts to the webhook whose URL is in FILE\n"
    "  --webhook-format FORMAT\n"
    "  --service-user NAME    user of the service; default: worldkeeper\n"
    "  --root DIR             make all files below DIR (for images and trials)\n"
    "  --version, -V  --help, -h\n"
    "\n"
    "exit status: 0 done; 1 failed: what was done is listed, a second run continues;\n"
    "2 bad usage; 4 refused for safety\n";

enum { OPT_TEXT = 256 };

static const struct text_option {
    const char *name;
    size_t offset; /* of a const char * in struct setup */
} texts[] = {
#define AT(member) offsetof(struct setup, member)
    {"undo", AT(undo)},
    {"socket", AT(socket)},
    {"host", AT(host)},
    {"tls-ca", AT(tls_ca)},
    {"admin", AT(admin)},
    {"admin-password-file", AT(admin_password_file)},
    {"from-cron", AT(from_cron)},
    {"schema", AT(schema)},
    {"name", AT(name)},
    {"status-dir", AT(status_dir)},
    {"mail", AT(mail)},
    {"smtp", AT(smtp)},
    {"webhook-file", AT(webhook_file)},
    {"webhook-format", AT(webhook_format)},
    {"service-user", AT(service_user)},
    {"root", AT(root)},
};
static const struct flag_option {
    const char *name;
    size_t offset; /* of a bool */
} flags[] = {
    {"yes", AT(yes)},
    {"dry-run", AT(dry)},
    {"no-global", AT(own_schema_only)},
    {"no-server-file", AT(no_server_file)},
    {"page", AT(page)},
    {"restart-server", AT(restart_server)},
#undef AT
};
#define TEXTS (sizeof texts / sizeof *texts)
#define FLAGS (sizeof flags / sizeof *flags)

static int read_port(const char *text, unsigned *out, struct err *e)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (!text_is_digit(text[0]) || *end || n < 1 || n > 65535)
        return err_set(e, ERR_USAGE, 0, "--port %.40s: 1 to 65535", text);
    *out = (unsigned)n;
    return 0;
}

/* Notes an option as it was typed, for commands in hints. */
static void note_typed(struct setup *s, const char *name, const char *value)
{
    SCOPED(buf_free) struct buf b = {0};
    buf_printf(&b, "--%s", name);
    if (value) {
        buf_addc(&b, ' ');
        buf_shell(&b, value);
    }
    names_add(&s->typed, b.p);
}

/* --mail and --schema may be given several times. */
static void take_text(struct setup *s, const struct text_option *o, const char *value)
{
    if (o->offset == offsetof(struct setup, schema))
        names_add(&s->schemas, value);
    if (o->offset == offsetof(struct setup, mail)) {
        buf_printf(&s->mails, "%s%s", s->mails.len ? ", " : "", value);
        value = s->mails.p;
    }
    *(const char **)(void *)((char *)s + o->offset) = value;
}

/* Refuses an option without the one that it belongs to, unless the dialog can still ask for it. */
static int check_pairs(const struct setup *s, struct err *e)
{
    const struct {
        bool given, complete;
        const char *option, *needs;
    } pairs[] = {{s->page, s->status_dir, "page", "status-dir"},
                 {s->smtp, s->mail, "smtp", "mail"},
                 {s->webhook_format, s->webhook_file, "webhook-format", "webhook-file"}};
    for (size_t i = 0; s->yes && i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].given && !pairs[i].complete)
            return err_set(e, ERR_USAGE, 0, "--%s has no effect without --%s", pairs[i].option,
                           pairs[i].needs);
    return 0;
}

static int setup_main_parse(int argc, char **argv, struct setup *s, struct err *e)
{
    struct option longs[TEXTS + FLAGS + 4] = {{0}};
    size_t n = 0;
    int opt;
    for (size_t i = 0; i < TEXTS; i++)
        longs[n++] = (struct option){texts[i].name, required_argument, NULL, OPT_TEXT + (int)i};
    for (size_t i = 0; i < FLAGS; i++)
        longs[n++] =
            (struct option){flags[i].name, no_argument, NULL, OPT_TEXT + (int)TEXTS + (int)i};
    longs[n++] = (struct option){"port", required_argument, NULL, 'p'};
    longs[n++] = (struct option){"help", no_argument, NULL, 'h'};
    longs[n++] = (struct option){"version", no_argument, NULL, 'V'};
    int at = 0;
    while ((opt = getopt_long(argc, argv, "hV", longs, &at)) != -1) {
        if (opt == 'h' || opt == 'V') {
            fputs(opt == 'h' ? help : "worldkeeper-setup " WK_VERSION "\n", stdout);
            exit(0);
        }
        if (opt == 'p' || opt >= OPT_TEXT)
            note_typed(s, longs[at].name, optarg);
        if (opt == 'p') {
            if (read_port(optarg, &s->port, e) < 0)
                return -1;
        } else if (opt >= OPT_TEXT && (size_t)opt < OPT_TEXT + TEXTS) {
            take_text(s, &texts[opt - OPT_TEXT], optarg);
        } else if (opt >= OPT_TEXT) {
            *(bool *)((char *)s + flags[(size_t)opt - OPT_TEXT - TEXTS].offset) = true;
        } else {
            err_set(e, ERR_USAGE, 0, "bad option");
            return err_hint(e, "worldkeeper-setup --help lists the options");
        }
    }
    if (optind < argc)
        return err_set(e, ERR_USAGE, 0, "stray word '%s'", argv[optind]);
    if (s->socket && s->host)
        return err_set(e, ERR_USAGE, 0, "--socket and --host: one of the two");
    if (s->from_cron && (s->schema || s->undo))
        return err_set(e, ERR_USAGE, 0,
                       "--from-cron finds the schemas in the scripts: no %s with it",
                       s->schema ? "--schema" : "--undo");
    if (s->from_cron && answers_refuse(s, NULL, e) < 0)
        return -1;
    if (s->root[0] && s->root[0] != '/')
        return err_set(e, ERR_USAGE, 0, "--root %s: an absolute path", s->root);
    return check_pairs(s, e);
}

/* ---- who the service is ---- */

static int make_user(struct setup *s, struct err *e)
{
    const char *const argv[] = {"systemd-sysusers", "worldkeeper.conf", NULL};
    if (s->x.dry)
        return effect_run(&s->x, argv, e);
    if (effect_run(&s->x, argv, e) == 0 && getpwnam(SERVICE_USER))
        return 0;
    err_set(e, ERR_SYSTEM, 0, "there is no user %s for the service", s->service_user);
    return err_hint(e,
                    "useradd --system --home-dir /var/lib/worldkeeper --shell /usr/sbin/nologin %s",
                    s->service_user);
}

static int find_user(struct setup *s, struct err *e)
{
    bool root = geteuid() == 0;
    if (!root && !s->root[0] && !s->dry) {
        err_set(
            e, ERR_REFUSED, 0,
            "setting a world up writes to /etc and makes an account of the server: only root can");
        return err_hint(e,
                        "sudo worldkeeper-setup; or --dry-run, which only shows what it would do");
    }
    const struct passwd *own = root || s->service_user ? NULL : getpwuid(geteuid());
    s->x.user = s->service_user = s->service_user ? s->service_user
                                  : own           ? xstrdup(own->pw_name)
                                                  : SERVICE_USER;
    const struct passwd *p = getpwnam(s->service_user);
    if (!p && strcmp(s->service_user, SERVICE_USER) == 0) {
        if (make_user(s, e) < 0)
            return -1;
        p = getpwnam(s->service_user);
    }
    if (!p && !s->dry)
        return err_set(e, ERR_USAGE, 0, "there is no user %s", s->service_user);
    if (p && !root && p->pw_uid != geteuid() && !s->dry)
        return err_set(e, ERR_REFUSED, 0, "only root can set a world up for user %s",
                       s->service_user);
    s->x.uid = p ? p->pw_uid : 0;
    s->x.gid = p ? p->pw_gid : 0;
    return 0;
}

/* Opens the program of the daemon that was installed with this one. */
static int open_program(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 32);
    if (n <= 0)
        return -1;
    path[n] = '\0';
    const char *slash = strrchr(path, '/');
    SCOPED(xfree) char *daemon =
        xasprintf("%.*sworldkeeper", slash ? (int)(slash + 1 - path) : 0, path);
    return open(daemon, O_PATH | O_CLOEXEC);
}

/* ---- which schemas ---- */

struct kept {
    const struct setup *s;
    const char *schema;
    char *world;
};

static void main_see_world(void *arg, const char *path, const struct config *cfg,
                           const struct err *why)
{
    struct kept *k = arg;
    (void)path;
    (void)why;
    if (cfg && !k->world && setup_keeps(k->s, cfg, k->schema))
        k->world = xstrdup(cfg->name);
}

/* Returns the name of the world that already keeps this server's schema; NULL if there is none. The
 * caller frees it. */
static char *kept_by(struct setup *s, const char *schema)
{
    struct kept k = {.s = s, .schema = schema};
    struct err ignored;
    SCOPED(xfree) char *dir = setup_path(s, "/etc/worldkeeper");
    worlds_each(dir, main_see_world, &k, &ignored);
    return k.world;
}

static void show_schemas(struct setup *s)
{
    talk_say("Schemas with MEMORY tables:\n");
    for (size_t i = 0; i < s->survey.count; i++) {
        SCOPED(buf_free) struct buf line = {0};
        SCOPED(xfree) char *world = kept_by(s, s->survey.list[i].name);
        survey_show(&s->survey.list[i], &line);
        talk_say("  %zu. %s", i + 1, line.p);
        if (world)
            talk_say("     already kept as world %s\n", world);
    }
    if (s->survey.unfit)
        talk_say("  skipped: %u with a control character in the name, which no config can hold\n",
                 s->survey.unfit);
}

/* Returns the position of a schema, or -1. A number counts only for a person who sees the list. */
static int find_schema(const struct setup *s, const char *word)
{
    char *end;
    for (size_t i = 0; i < s->survey.count; i++)
        if (strcmp(s->survey.list[i].name, word) == 0)
            return (int)i;
    if (s->schema)
        return -1;
    unsigned long n = strtoul(word, &end, 10);
    return text_is_digit(word[0]) && !*end && n >= 1 && n <= s->survey.count ? (int)n - 1 : -1;
}

/* Sets chosen[i] for each word of the answer, which is a name or a number of the list. Returns 0 if
 * a word is not understood. */
static int main_choose(const struct setup *s, const char *answer, bool *chosen)
{
    int any = 0;
    int whole = find_schema(s, answer); /* a name may contain a ",", or be "all" */
    SCOPED(xfree) char *words = xstrdup(answer);
    if (whole >= 0)
        return chosen[whole] = true;
    if (strcmp(answer, "all") == 0) {
        memset(chosen, true, s->survey.count * sizeof *chosen);
        return 1;
    }
    char *rest = NULL;
    for (char *word = strtok_r(words, ", ", &rest); word; word = strtok_r(NULL, ", ", &rest)) {
        int i = find_schema(s, word);
        if (i < 0)
            return 0;
        chosen[i] = true;
        any = 1;
    }
    return any;
}

/* Says which word of the answer is not in the list, and what would be. */
static void say_unknown(const struct setup *s, const char *answer)
{
    SCOPED(xfree) char *words = xstrdup(answer);
    char *rest = NULL, *word = strtok_r(words, ", ", &rest);
    while (word && find_schema(s, word) >= 0)
        word = strtok_r(NULL, ", ", &rest);
    talk_say("\"%s\" is not in the list: %s from it, with commas between, or all\n",
             word ? word : answer, s->schema ? "names" : "numbers or names");
}

static int no_such_schema(const struct setup *s, const char *answer, struct err *e)
{
    say_unknown(s, answer);
    return err_set(e, ERR_USAGE, 0, "schema \"%s\" has no MEMORY tables, or is not there", answer);
}

static int ask_schemas(struct setup *s, bool *chosen, struct err *e)
{
    for (size_t i = 0; i < s->schemas.count; i++)
        if (!main_choose(s, s->schemas.list[i], chosen))
            return no_such_schema(s, s->schemas.list[i], e);
    while (!s->schema) {
        SCOPED(xfree) char *answer = NULL;
        const char *def = s->survey.count == 1 ? "1" : "all";
        if (talk_ask("Which are to be kept? Numbers, or all: one world each", def, &answer, e) < 0)
            return -1;
        if (main_choose(s, answer, chosen))
            return 0;
        memset(chosen, 0, s->survey.count * sizeof *chosen);
        if (!talk_asks())
            return no_such_schema(s, answer, e);
        say_unknown(s, answer);
    }
    return 0;
}

/* Refuses the name of a new world (NULL: none was given) for a schema that another world keeps
 * already (NULL: none). The new one could not start, and its config would stay beside the other. */
static int main_check_name(const struct setup *s, const char *name, const char *schema,
                           const char *world, struct err *e)
{
    SCOPED(xfree) char *path = name ? setup_config_path(s, name, ".ini") : NULL;
    if (!path || !world || strcmp(name, world) == 0 || access(path, F_OK) == 0)
        return 0;
    err_set(e, ERR_REFUSED, 0, "schema %s is already kept as world %s, not as %s", schema, world,
            name);
    return err_hint(e, "worldkeeper-setup --name %s continues with that world", world);
}

/* Finishes setup. If `rc` is an error, it takes precedence over one of setup_finish(). */
static int main_finish(struct setup *s, int rc, struct err *e)
{
    struct err later = {0};
    int finished = setup_finish(s, rc == 0, &later);
    return rc < 0 || finished == 0 ? rc : err_pass(e, &later);
}

static int main_set_up(struct setup *s, struct err *e)
{
    if (setup_connect(s, e) < 0 || survey_read(s->db, &s->survey, e) < 0)
        return -1;
    if (s->survey.count == 0) {
        err_set(e, ERR_NOTHING, 0,
                "no schema of this server has MEMORY tables: there is no world to keep");
        return err_hint(e, "CREATE TABLE … ENGINE=MEMORY makes one");
    }
    if (talk_asks() && !s->dry && !s->from_cron)
        talk_say("Nothing is changed before the question \"Do it?\". Ctrl+C ends setup.\n");
    show_schemas(s);
    if (s->from_cron)
        return main_finish(s, from_cron_take_over(s, e), e);
    SCOPED(xfree) bool *chosen = xcalloc(s->survey.count, sizeof *chosen);
    if (ask_schemas(s, chosen, e) < 0)
        return -1;
    size_t count = 0;
    for (size_t i = 0; i < s->survey.count; i++)
        count += chosen[i];
    for (size_t i = 0; i < s->survey.count; i++)
        s->survey.list[i].chosen = chosen[i];
    if (count > 1 && s->name)
        return err_set(e, ERR_USAGE, 0, "--name names one world, and %zu schemas were chosen",
                       count);
    const char *given = s->name;
    int rc = 0;
    for (size_t i = 0; i < s->survey.count && rc == 0; i++) {
        SCOPED(xfree) char *world = kept_by(s, s->survey.list[i].name);
        if (!chosen[i])
            continue;
        if (main_check_name(s, given, s->survey.list[i].name, world, e) < 0)
            return -1;
        /* Continues with the world that already keeps the schema. */
        s->name = given ? given : world;
        rc = setup_world(s, &s->survey.list[i], e);
    }
    return main_finish(s, rc, e);
}

/* Returns true if the option at the beginning of `command` takes the place of a typed one. The
 * schemas of --from-cron are named by --schema, which continues without the scripts. */
static bool is_retyped(const char *typed, const char *command)
{
    size_t n = strcspn(command, " ;");
    return (strncmp(typed, command, n) == 0 && strchr(" ", typed[n])) ||
           (text_starts(command, "--schema ") && text_starts(typed, "--from-cron "));
}

/* Adds the options that were typed to the command in the hint. Without --dry-run, for one, it would
 * set up what was only to be shown. A list of options is no command to repeat. */
static void setup_keep_options(const struct setup *s, struct err *e)
{
    static const char program[] = "worldkeeper-setup";
    SCOPED(buf_free) struct buf hint = {0};
    const char *at = strstr(e->hint, program);
    const char *rest = at ? at + sizeof program - 1 : "";
    bool complete = *rest == ';'; /* a command with no option of its own */
    if (!complete && (!text_starts(rest, " --") || text_starts(rest, " --help")))
        return;
    buf_add(&hint, e->hint, (size_t)(rest - e->hint));
    for (size_t i = 0; i < s->typed.count; i++)
        if (complete || !is_retyped(s->typed.list[i], rest + 1))
            buf_printf(&hint, " %s", s->typed.list[i]);
    buf_adds(&hint, rest);
    if (hint.len < sizeof e->hint)
        err_hint(e, "%s", hint.p);
    else
        err_hint(e, "repeat your command with %s", complete ? "sudo" : rest + 1);
}

static void show_error(const struct err *e)
{
    SCOPED(buf_free) struct buf text = {0}, hint = {0};
    text_clean(&text, e->text, sizeof e->text);
    text_clean(&hint, e->hint, sizeof e->hint);
    fprintf(stderr, "worldkeeper-setup: %s\n", text.p ? text.p : "failed");
    if (hint.len)
        fprintf(stderr, "HINT: %s\n", hint.p);
}

int main(int argc, char **argv)
{
    struct setup s = {.root = "", .password = {.secret = true}, .x = {.program = -1}};
    struct err e = {0};
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none); /* the administrator's password is in memory */
    prctl(PR_SET_DUMPABLE, 0);
    umask(0022);
    signal(SIGPIPE, SIG_IGN);
    js_begin();
    interrupt_catch();
    int rc = setup_main_parse(argc, argv, &s, &e);
    talk_open(s.yes || (s.dry && !isatty(STDIN_FILENO)));
    s.x.dry = s.dry;
    if (rc == 0)
        rc = find_user(&s, &e);
    if (rc == 0) {
        SCOPED(xfree) char *systemd = setup_path(&s, "/run/systemd/system");
        s.systemd = access(systemd, F_OK) == 0;
        s.x.program = open_program();
        rc = s.undo ? setup_undo(&s, s.undo, &e) : main_set_up(&s, &e);
    }
    if (rc < 0) {
        setup_keep_options(&s, &e);
        show_error(&e);
    }
    names_free(&s.typed);
    names_free(&s.schemas);
    made_free(&s.x.made);
    survey_free(&s.survey);
    db_close(s.db);
    free(s.asked_admin);
    free(s.own_socket);
    buf_free(&s.password);
    buf_free(&s.mails);
    return rc < 0 ? err_exit(e.cls) : 0;
}
