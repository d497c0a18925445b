/* Options and the choice of an action; everything else is elsewhere. */
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actions/control.h"
#include "actions/hint_command.h"
#include "actions/history.h"
#include "actions/run.h"
#include "actions/worlds.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/js.h"
#include "base/log.h"
#include "check/check.h"
#include "check/needed_grants.h"
#include "cli/help.h"
#include "cli/result_view.h"
#include "cli/screen.h"
#include "config/parts.h"
#include "progress/central_sql.h"
#include "restore/restore.h"
#include "store/signature.h"
#include "supervisor/loop.h"
#include "supervisor/world.h"

struct options {
    struct request request;
    char *config; /* path; NULL: none is named */
    bool json, quiet, verbose, allow_root, help;
};

/* How an option's value is read. The option's row says where it is stored. */
enum option_kind {
    OPT_ACTION,
    OPT_CONFIG,
    OPT_WORLD,
    OPT_TABLE, /* may be repeated, unlike others */
    OPT_TIME,  /* a time, into the char * at `offset` */
    OPT_SINCE, /* the same; "7d" is a week ago */
    OPT_TEXT,  /* into the char * at `offset` */
    OPT_FLAG,  /* sets the bool at `offset` */
    OPT_SQL,
    OPT_LETTER, /* the same as the letter at `offset` */
};

/* Listed in the order in which check_combination() looks for options that the action does not
 * take. */
static const struct option_row {
    const char *name;
    int argument; /* as getopt_long() has it */
    enum option_kind kind;
    size_t offset;           /* in struct options */
    enum action_trait trait; /* of the actions that take it; 0: all do */
} rows[] = {
#define AT(member) offsetof(struct options, member)
    {"from", required_argument, OPT_TEXT, AT(request.from), ACTION_FROM},
    {"into", required_argument, OPT_TEXT, AT(request.into), ACTION_INTO},
    {"table", required_argument, OPT_TABLE, AT(request.tables), ACTION_TABLE},
    {"at", required_argument, OPT_TIME, AT(request.at), ACTION_AT},
    {"until", required_argument, OPT_TEXT, AT(request.until), ACTION_UNTIL}, /* see read_until() */
    {"since", required_argument, OPT_SINCE, AT(request.since), ACTION_SINCE},
    {"charset", required_argument, OPT_TEXT, AT(request.charset), ACTION_CHARSET},
    {"accept-cut", no_argument, OPT_FLAG, AT(request.accept_cut), ACTION_ACCEPT_CUT},
    {"with-code", no_argument, OPT_FLAG, AT(request.with_code), ACTION_WITH_CODE},
    {"dry-run", no_argument, OPT_FLAG, AT(request.dry_run), ACTION_DRY_RUN},
    {"apply", no_argument, OPT_FLAG, AT(request.apply), ACTION_APPLY},
    {"renumber", no_argument, OPT_FLAG, AT(request.renumber), ACTION_APPLY},
    {"force", no_argument, OPT_FLAG, AT(request.force), ACTION_FORCE},
    {"by-hand", no_argument, OPT_FLAG, AT(request.by_hand), ACTION_BY_HAND},
    {"grants", no_argument, OPT_FLAG, AT(request.grants), ACTION_GRANTS},
    {"unlock", no_argument, OPT_FLAG, AT(request.unlock), ACTION_UNLOCK},
    {"config", required_argument, OPT_CONFIG, 0, 0},
    {"world", required_argument, OPT_WORLD, 0, 0},
    {"json", no_argument, OPT_FLAG, AT(json), 0},
    {"quiet", no_argument, OPT_FLAG, AT(quiet), 0},
    {"verbose", no_argument, OPT_FLAG, AT(verbose), 0},
    {"allow-root", no_argument, OPT_FLAG, AT(allow_root), 0},
    {"sql", required_argument, OPT_SQL, 0, 0},
    {"version", no_argument, OPT_LETTER, 'V', 0},
    {"help", no_argument, OPT_LETTER, 'h', 0},
    {"run", no_argument, OPT_ACTION, 0, 0},
    {"check", no_argument, OPT_ACTION, 0, 0},
    {"init", no_argument, OPT_ACTION, 0, 0},
    {"new-round", no_argument, OPT_ACTION, 0, 0},
    {"dump", no_argument, OPT_ACTION, 0, 0},
    {"list", no_argument, OPT_ACTION, 0, 0},
    {"verify", optional_argument, OPT_ACTION, 0, 0},
    {"drill", optional_argument, OPT_ACTION, 0, 0},
    {"restore", optional_argument, OPT_ACTION, 0, 0},
    {"conflicts", optional_argument, OPT_ACTION, 0, 0},
    {"rollup", optional_argument, OPT_ACTION, 0, 0},
    {"history", no_argument, OPT_ACTION, 0, 0},
    {"write-back", no_argument, OPT_ACTION, 0, 0},
    {"locks", no_argument, OPT_ACTION, 0, 0},
    {"release", required_argument, OPT_ACTION, 0, 0},
    {"seal", optional_argument, OPT_ACTION, 0, 0},
    {"status", no_argument, OPT_ACTION, 0, 0},
    {"pause", optional_argument, OPT_ACTION, 0, 0},
    {"resume", no_argument, OPT_ACTION, 0, 0},
    {"test-alert", no_argument, OPT_ACTION, 0, 0},
    {"promote", no_argument, OPT_ACTION, 0, 0},
    {"demote", no_argument, OPT_ACTION, 0, 0},
    {"switch-over", no_argument, OPT_ACTION, 0, 0},
#undef AT
};
#define ROWS (sizeof rows / sizeof *rows)
#define FIRST_ROW 256 /* what getopt_long() returns for the first row; not a character */

/* A second action is refused, whichever comes first; only --rollup and --verify belong together. */
static int set_action(struct options *o, const char *name, const char *arg, struct err *e)
{
    struct request *r = &o->request;
    enum action action = action_find(name);
    bool pair = (action == ACTION_VERIFY && r->action == ACTION_ROLLUP && !arg) ||
                (action == ACTION_ROLLUP && r->action == ACTION_VERIFY && !r->dump);
    if (pair) { /* --rollup --verify */
        r->verify = true;
        action = r->action = ACTION_ROLLUP;
    }
    if (r->action != ACTION_NONE && r->action != action) {
        err_set(e, ERR_USAGE, 0, "--%s and --%s together: one action at a time",
                action_name(r->action), name);
        return err_hint(e, "worldkeeper --help lists the actions");
    }
    r->action = action;
    if (arg && action == ACTION_PAUSE) {
        if (text_duration_parse(arg, &r->pause_ms) < 0 || r->pause_ms <= 0) {
            err_set(e, ERR_USAGE, 0, "--pause=%s is not a duration", arg);
            return err_hint(e, "write it with a unit: --pause=30m, --pause=2h");
        }
    } else if (arg) {
        free(r->dump);
        r->dump = xstrdup(arg);
    }
    return 0;
}

/* Takes ownership of `path`. A second config is an error, even if it is the same. */
static int set_config(struct options *o, char *path, struct err *e)
{
    if (o->config) {
        free(path);
        return err_set(e, ERR_USAGE, 0, "--config and --world name one config between them");
    }
    o->config = path;
    return 0;
}

/* Refuses a local time that occurs twice in the night in which clocks are set back, because it is
 * ambiguous. */
static int refuse_twice(const char *option, const char *text, bool to_come, struct err *e)
{
    char first[TEXT_SHORT], second[TEXT_SHORT];
    wall_t both[2];
    if (!text_time_twice(text, clock_wall(), to_come, both))
        return 0;
    err_set(e, ERR_USAGE, 0, "--%s \"%s\" is two moments, since the clock is set back: %s and %s",
            option, text, text_utc(both[0], first), text_utc(both[1], second));
    return err_hint(e, "--%s %s, or --%s %s", option, first, option, second);
}

/* Converts the time to UTC here, because a supervisor may have another time zone and may run the
 * request later. */
static int set_time(const char *option, char **out, const char *text, struct err *e)
{
    char utc[TEXT_SHORT];
    wall_t at, now = clock_wall();
    if (refuse_twice(option, text, false, e) < 0)
        return -1;
    if (text_time_parse(text, now, &at) < 0 || at.ms > now.ms) {
        err_set(e, ERR_USAGE, 0, "--%s \"%s\" is not a time in the past", option, text);
        return err_hint(
            e, "\"2026-11-21 18:30:05\" (local time, or UTC with a Z after it), 2026-11-21 for the "
               "beginning of that day, 18:30, or -15m");
    }
    free(*out);
    *out = xstrdup(text_utc(at, utc));
    return 0;
}

/* Prints SQL that is built in, without a config or a server. Returns only on error; otherwise the
 * process exits. */
static int print_sql(const char *name, struct err *e)
{
    if (strcmp(name, "progress-central") != 0)
        return err_set(e, ERR_USAGE, 0, "--sql=%s: there is progress-central", name);
    if (!config_has_part("progress"))
        return err_set(e, ERR_USAGE, 0, CONFIG_NO_PART, "progress");
    bool written = fputs(progress_central_sql, stdout) >= 0 && fflush(stdout) == 0;
    if (!written)
        return err_sys(e, errno, "cannot write to the standard output");
    exit(0);
}

static int set_option(struct options *o, const struct option_row *row, struct err *e)
{
    void *member = (char *)o + row->offset;
    char *before;
    switch (row->kind) {
    case OPT_ACTION:
        return set_action(o, row->name, optarg, e);
    case OPT_CONFIG:
        return set_config(o, xstrdup(optarg), e);
    case OPT_WORLD:
        if (strchr(optarg, '/') || optarg[0] == '.')
            return err_set(e, ERR_USAGE, 0, "--world %s: a name, not a path (see --config)",
                           optarg);
        return set_config(o, xasprintf(WORLDS_DIR "/%s.ini", optarg), e);
    case OPT_TIME:
        return set_time(row->name, (char **)member, optarg, e);
    case OPT_SINCE: {
        char **out = (char **)member;
        int64_t ago;
        SCOPED(xfree) char *moment =
            xasprintf("%s%s", text_duration_parse(optarg, &ago) == 0 ? "-" : "", optarg);
        return set_time(row->name, out, moment, e);
    }
    case OPT_TABLE:
        before = o->request.tables;
        o->request.tables = before ? xasprintf("%s,%s", before, optarg) : xstrdup(optarg);
        free(before);
        return 0;
    case OPT_TEXT:
        free(*(char **)member);
        *(char **)member = xstrdup(optarg);
        return 0;
    case OPT_FLAG:
        *(bool *)member = true;
        return 0;
    case OPT_SQL:
        return print_sql(optarg, e);
    case OPT_LETTER:
        break;
    }
    return 0;
}

/* Refuses options that the action does not take: ignoring one could cost a world. */
static int check_combination(const struct options *o, struct err *e)
{
    const struct request *r = &o->request;
    for (size_t i = 0; i < ROWS; i++) {
        const void *member = (const char *)o + rows[i].offset;
        bool given = rows[i].kind == OPT_FLAG ? *(const bool *)member
                                              : rows[i].trait && *(char *const *)member;
        if (given && rows[i].trait && !action_is(r->action, rows[i].trait))
            return err_set(e, ERR_USAGE, 0, "--%s does not go with --%s", rows[i].name,
                           action_name(r->action));
    }
    if ((r->renumber || (r->action == ACTION_CONFLICTS && r->dry_run)) && !r->apply)
        return err_set(e, ERR_USAGE, 0, "%s needs --apply",
                       r->renumber ? "--renumber" : "--dry-run");
    if (r->from && r->dry_run)
        return err_set(e, ERR_USAGE, 0,
                       "--dry-run does not go with --from: the dump would be "
                       "fetched; --list --from offsite shows what is there");
    if (r->apply && !r->dump) {
        err_set(e, ERR_USAGE, 0, "--apply of which file? --conflicts=FILE --apply");
        return err_hint(e, "worldkeeper --conflicts lists them");
    }
    if (!o->config && r->action != ACTION_STATUS) {
        err_set(e, ERR_USAGE, 0, "which world? neither --config nor --world is given");
        return err_hint(e, "worldkeeper --world NAME reads /etc/worldkeeper/NAME.ini");
    }
    return 0;
}

/* Parses --until. The end of a pause must be in the future, the end of what is rolled up in the
 * past. */
static int read_until(struct request *r, struct err *e)
{
    SCOPED(xfree) char *text = r->until;
    wall_t at, now = clock_wall();
    char utc[TEXT_SHORT];
    r->until = NULL;
    if (!text)
        return 0;
    if (r->action != ACTION_PAUSE)
        return set_time("until", &r->until, text, e);
    if (r->pause_ms)
        return err_set(e, ERR_USAGE, 0, "--pause=DURATION and --until: one of the two");
    if (refuse_twice("until", text, true, e) < 0)
        return -1;
    if (text_time_to_come(text, now, &at) < 0) {
        err_set(e, ERR_USAGE, 0, "--until \"%s\" is no moment that is to come", text);
        return err_hint(e, "\"2027-01-31 04:30\" (local time, or UTC with a Z after it), or 04:30");
    }
    r->pause_ms = at.ms - now.ms;
    /* The supervisor keeps this end even if the clock is set. */
    r->until = xstrdup(text_utc(at, utc));
    return 0;
}

/* Handles one option. -h and -V arrive as their letters, all other options as the number of their
 * row. */
static int take_option(struct options *o, int opt, struct err *e)
{
    if (opt == 'V') {
        puts("worldkeeper " WK_VERSION);
        exit(0);
    }
    if (opt == 'h') {
        o->help = true;
        return 0;
    }
    if (opt >= FIRST_ROW)
        return set_option(o, &rows[opt - FIRST_ROW], e);
    err_set(e, ERR_USAGE, 0, "bad option");
    return err_hint(e, "worldkeeper --help lists the options");
}

static int src_main_parse(int argc, char **argv, struct options *o, struct err *e)
{
    /* Built from our own table, so that the two tables cannot differ. The last element stays
     * empty. */
    struct option longs[ROWS + 1] = {{0}};
    int opt, rc = 0;
    for (size_t i = 0; i < ROWS; i++)
        longs[i] = (struct option){.name = rows[i].name,
                                   .has_arg = rows[i].argument,
                                   .val = rows[i].kind == OPT_LETTER ? (int)rows[i].offset
                                                                     : FIRST_ROW + (int)i};
    while ((opt = getopt_long(argc, argv, "hV", longs, NULL)) != -1)
        if (rc == 0)
            rc = take_option(o, opt, e);
        else {
            /* After a refused option, the rest is read only to learn whether the error is printed
             * as JSON, and for which action. */
            const struct option_row *row = opt >= FIRST_ROW ? &rows[opt - FIRST_ROW] : NULL;
            if (row && row->kind == OPT_FLAG && row->offset == offsetof(struct options, json))
                o->json = true;
            else if (row && row->kind == OPT_ACTION && o->request.action == ACTION_NONE)
                o->request.action = action_find(row->name);
        }
    if (rc < 0)
        return rc;
    if (o->help) {
        /* Prints the help of the action named after the options, as in --help drill. Without such a
         * word, prints the help of the action among the options, or of everything. */
        const char *word = argv[optind];
        bool known = word == NULL;
        for (size_t i = 0; i < ROWS && !known; i++)
            known = rows[i].kind == OPT_ACTION && strcmp(rows[i].name, word) == 0;
        if (known) {
            help_print(word ? action_find(word) : o->request.action);
            exit(0);
        }
        err_set(e, ERR_USAGE, 0, "--help %s: no such action", word);
        return err_hint(e, "worldkeeper --help lists the actions");
    }
    /* `--restore NAME` with a space is an error: it must not restore the latest dump. */
    if (optind < argc) {
        err_set(e, ERR_USAGE, 0, "stray word '%s'", argv[optind]);
        return err_hint(
            e, "values of actions are joined with '=': --restore=DUMP, --verify=DUMP, --pause=30m");
    }
    if (o->request.action == ACTION_NONE)
        o->request.action = ACTION_RUN;
    return check_combination(o, e) < 0 ? -1 : read_until(&o->request, e);
}

/* ---- root ---- */

/* Is the option among these, as retype_options() writes them? */
static bool has_option(const char *options, const char *name)
{
    SCOPED(xfree) char *option = xasprintf(" --%s", name);
    const char *at = strstr(options, option), *end = at ? at + strlen(option) : " ";
    return at && (*end == '\0' || *end == ' ');
}

/* Appends every option that was typed and is not in `own`. Values are written as they were parsed,
 * so that times stay the same. The config is left to hint_command(). */
static void retype_options(const struct options *o, const char *own, struct buf *b)
{
    if (o->request.verify && !has_option(own, "verify"))
        buf_adds(b, " --verify");
    for (size_t i = 0; i < ROWS; i++) {
        const struct option_row *row = &rows[i];
        if (has_option(own, row->name))
            continue;
        const void *member = (const char *)o + row->offset;
        bool flag = row->kind == OPT_FLAG;
        bool text = row->kind == OPT_TEXT || row->kind == OPT_TABLE || row->kind == OPT_TIME ||
                    row->kind == OPT_SINCE;
        if (flag && *(const bool *)member && strcmp(row->name, "allow-root") != 0)
            buf_printf(b, " --%s", row->name);
        if (text && *(char *const *)member) {
            buf_printf(b, " --%s ", row->name);
            buf_shell(b, *(char *const *)member);
        }
    }
}

/* Appends the command with every option that was typed. Without one of them, the command could mean
 * something else, such as a restore of everything instead of a look at one table. */
static void main_retype(const struct options *o, struct buf *b)
{
    const struct request *r = &o->request;
    buf_printf(b, "worldkeeper --%s", action_name(r->action));
    if (r->dump) {
        buf_addc(b, '=');
        buf_shell(b, r->dump);
    }
    if (r->pause_ms && !r->until)
        buf_printf(b, "=%lldms", (long long)r->pause_ms);
    retype_options(o, "", b);
}

/* Returns the end of a word as buf_shell() writes it: quoted text may hold blanks, and what follows
 * a word in a sentence is no part of it. */
static const char *main_end_of_word(const char *p)
{
    while (*p && *p != ' ' && !(strchr(";,:", *p) && (!p[1] || p[1] == ' '))) {
        const char *close = *p == '\'' ? strchr(p + 1, '\'') : NULL;
        p = close ? close + 1 : p + 1 + (*p == '\\' && p[1]);
    }
    return p;
}

/* Returns the end of the options at the beginning of a text, each with its value. */
static const char *end_of_options(const char *p)
{
    while (text_starts(p, " --")) {
        const char *name = p + strlen(" --");
        p = main_end_of_word(name);
        for (size_t i = 0; i < ROWS; i++)
            if (rows[i].argument == required_argument && *p == ' ' &&
                strlen(rows[i].name) == (size_t)(p - name) && text_starts(name, rows[i].name)) {
                p = main_end_of_word(p + 1);
                break;
            }
    }
    return p;
}

/* Adds the typed options that it lacks to a command in the hint that repeats the typed action, such
 * as a restore of another dump. A command with --into or --dry-run of its own is complete: it is
 * another one than was typed, and leaves the world as it is. */
static void keep_options(const struct options *o, struct err *e)
{
    static const char program[] = "worldkeeper ";
    SCOPED(buf_free) struct buf again = {0}, typed = {0};
    buf_printf(&again, "%s--%s", program, action_name(o->request.action));
    const char *at = strstr(e->hint, again.p), *end = at ? at + again.len : NULL;
    /* strchr() also finds the end of the hint */
    if (!at || !(strchr("=;:", *end) || text_starts(end, " --")))
        return;
    const char *options = main_end_of_word(end);
    end = end_of_options(options);
    SCOPED(xfree) char *own = xstrndup(options, (size_t)(end - options));
    retype_options(o, own, &typed);
    if (has_option(own, "into") || has_option(own, "dry-run") || !typed.len)
        return;
    SCOPED(buf_free) struct buf hint = {0};
    buf_add(&hint, e->hint, (size_t)(at - e->hint));
    if (strlen(e->hint) + typed.len < sizeof e->hint / 2)
        buf_printf(&hint, "%.*s%s%s", (int)(end - at), at, typed.p, end);
    else /* the config is added to it later: it would not fit */
        buf_printf(&hint, "your command as %s", at + sizeof program - 1);
    err_hint(e, "%s", hint.p);
}

/* Sets the hint to that command, to be run as the service's user. A command that is too long for a
 * hint is not shown, because a truncated one would mean something else. */
static int hint_as_user(const struct options *o, struct err *e)
{
    SCOPED(buf_free) struct buf command = {0};
    main_retype(o, &command);
    if (command.len > sizeof e->hint / 2)
        return err_hint(e, "add --allow-root, or type the same as the service's user");
    return err_hint(e, "add --allow-root, or as the service's user: %s", command.p);
}

/* Switches to the owner permanently, so that everything that this process creates belongs to the
 * service. */
static int main_become(const struct stat *owner)
{
    const struct passwd *p = getpwuid(owner->st_uid);
    gid_t group = p ? p->pw_gid : owner->st_gid;
    bool alone = p ? initgroups(p->pw_name, group) == 0 : setgroups(0, NULL) == 0;
    return alone && setgid(group) == 0 && setuid(owner->st_uid) == 0 ? 0 : -1;
}

/* Switches to the service's user for actions that only read. They are harmless as root, but an
 * account that logs in over the server's socket without a password admits only the system user of
 * its name. */
static void look_as_user(const struct options *o, const struct config *c)
{
    struct stat st = {0};
    bool asks = o->request.action == ACTION_CHECK || o->request.action == ACTION_LIST;
    if (!asks || !c->mysql.socket || c->mysql.password_file)
        return;
    const struct passwd *p = lstat(c->dump_dir, &st) < 0 ? getpwnam(c->mysql.user) : NULL;
    if (p)
        st = (struct stat){.st_uid = p->pw_uid, .st_gid = p->pw_gid};
    if (st.st_uid != 0)
        (void)main_become(&st); /* if this fails, the server says why root may not log in */
}

/* Carries out root's actions that write as the user who owns the dumps, because the service cannot
 * read files and directories that root creates. */
static int check_root(const struct options *o, const struct config *c, struct err *e)
{
    struct stat st = {0};
    if (geteuid() != 0 || o->allow_root)
        return 0;
    if (!request_writes(&o->request)) {
        look_as_user(o, c);
        return 0;
    }
    if (o->request.action == ACTION_RUN) {
        SCOPED(xfree) char *start = hint_start(c);
        err_set(e, ERR_REFUSED, 0, "refusing to supervise as root");
        return err_hint(e, "add --allow-root, or: %s", start);
    }
    int fd = file_dir(c->dump_dir, 0, 0, e);
    bool known = fd >= 0 && fstat(fd, &st) == 0;
    if (fd >= 0)
        close(fd);
    if (!known && e->num != ENOENT)
        return -1;
    if (known && (st.st_uid == 0 || main_become(&st) == 0))
        return 0;
    if (known)
        err_set(e, ERR_REFUSED, 0, "refusing to act as root on the dumps of uid %u",
                (unsigned)st.st_uid);
    else
        err_set(e, ERR_REFUSED, 0, "refusing to make directory %s as root", c->dump_dir);
    return hint_as_user(o, e);
}

static void on_event(void *arg, const json_t *o)
{
    (void)arg;
    screen_event(o);
}

/* Runs the action in this process and records in the history what the supervisor records of its own
 * jobs. */
static int run_here(struct action_context *a, const struct request *r, json_t **result,
                    struct err *e)
{
    int rc = action_run(a, r, result, e);
    history_by_hand(a, r, *result, rc < 0 ? e : NULL);
    return rc;
}

/* Runs the action here if the world's lock is free, else in the supervisor that holds it. */
static int main_carry_out(struct action_context *a, const struct request *r, json_t **result,
                          struct err *e)
{
    struct err asked = {0};
    if (r->action == ACTION_CHECK && r->grants)
        return check_grants(a->cfg, a->job.progress, result, e);
    if (r->action == ACTION_CHECK)
        return check_run(a->cfg, a->job.progress, result, e);
    if (action_is(r->action, ACTION_SUPERVISOR))
        return control_ask(a, r, result, e);
    if (!request_writes(r))
        return run_here(a, r, result, e);
    int lock = action_lock(a, e);
    if (lock >= 0 && control_elsewhere(a)) {
        close(lock); /* the supervisor takes it when it switches to this directory */
        return control_ask(a, r, result, e);
    }
    if (lock >= 0) {
        int rc = run_here(a, r, result, e);
        if (rc == 0) {
            /* A supervisor makes a dump after a restore. Without a supervisor no dump follows, and
             * the newest dump may be of the world that the restore replaced. */
            bool newest = restore_newest(r->dump) && !r->at && !r->tables && !r->force;
            if (request_swaps(r) && !newest)
                json_object_set_new(
                    *result, "hint",
                    json_string("the newest dump is of another world than this, and would "
                                "be restored after the next loss; worldkeeper --dump"));
        }
        close(lock);
        return rc;
    }
    if (e->cls != ERR_BUSY)
        return -1;
    int rc = control_ask(a, r, result, &asked);
    if (rc != CONTROL_NOBODY) /* otherwise the lock's holder is not a supervisor: keep ERR_BUSY */
        *e = asked;
    return rc;
}

/* Prints the result. With --json there is one object on standard output, whatever happened, and a
 * failure is part of it. */
static void show_result(const struct options *o, const json_t *result, int rc, const struct err *e)
{
    enum action action = o->request.action;
    if (o->json)
        screen_json(action, result, rc < 0 ? e : NULL, rc < 0 ? err_exit(e->cls) : 0);
    else if (result && (rc == 0 || e->cls == ERR_UNWELL || e->cls == ERR_CONDITION ||
                        action_is(action, ACTION_SHOWN_FAILED)))
        screen_result(action, result);
}

/* Warns once in each run, because no loss can be proven without a known state. */
static void warn_ignored(const struct action_context *a)
{
    if (a->ignored.cls != ERR_NONE)
        log_line(LOG_WARN_,
                 "%s: it is ignored, with the pause that may be in it, and what was last seen of "
                 "the world is taken from the newest dump; the next contact with the world "
                 "rewrites it, or --seal accepts the present one as ours",
                 a->ignored.text);
}

/* Runs --new-round --from FILE as four actions: a dry run of the load, the new round, the load, and
 * a dump. The dry run refuses an unusable file before the round begins. A failure after that leaves
 * the new round with its tables unchanged. The last dump is the one that is restored after a loss,
 * because the round's first dump has the tables that the file replaced. */
static int new_round_from(struct action_context *a, struct request *r, json_t **result,
                          struct err *e)
{
    SCOPED(xfree) char *file = r->from;
    struct request load = {.action = ACTION_RESTORE, .dump = file, .force = true, .dry_run = true};
    json_auto_t *tried = NULL;
    json_t *loaded = NULL;
    r->from = NULL;
    if (main_carry_out(a, &load, &tried, e) < 0 || main_carry_out(a, r, result, e) < 0)
        return -1;
    load.dry_run = false;
    if (main_carry_out(a, &load, &loaded, e) < 0) {
        json_decref(loaded);
        SCOPED(buf_free) struct buf quoted = {0};
        buf_shell(&quoted, file);
        if (!e->hint[0])
            err_hint(e, "worldkeeper --restore=%s --force loads it", quoted.p);
        return err_step(e, "the new round has begun, but %s is not in it", file);
    }
    json_object_del(loaded, "hint");
    json_object_set_new(*result, "restored", loaded);
    struct request dump = {.action = ACTION_DUMP, .force = true};
    json_auto_t *dumped = NULL;
    int rc = main_carry_out(a, &dump, &dumped, e);
    if (rc < 0 && e->cls != ERR_BUSY) /* ERR_BUSY: a supervisor is already making it */
        return err_step(e, "the new round has begun with %s, but it has no dump yet", file);
    if (rc == 0)
        json_object_set(*result, "first", json_object_get(dumped, "name"));
    return 0;
}

/* Tells a file from a dump by the same rules as choice_find(). */
static bool is_file(const char *s)
{
    size_t n = strlen(s);
    return strchr(s, '/') || (n > 4 && strcmp(s + n - 4, ".sql") == 0) ||
           (n > 3 && strcmp(s + n - 3, ".gz") == 0 && access(s, F_OK) == 0);
}

/* Makes a path absolute if it is a file's and relative to the current directory. */
static void main_resolve(char **path)
{
    SCOPED(xfree) char *here = *path && **path != '/' && is_file(*path) ? getcwd(NULL, 0) : NULL;
    if (!here)
        return;
    char *full = xasprintf("%s/%s", here, *path);
    free(*path);
    *path = full;
}

/* Runs one action. Opens the dump directory as late as possible, and not at all for actions that do
 * not need it. */
static int one_action(struct options *o, struct config *cfg, json_t **result, struct err *e)
{
    struct action_context a;
    struct request *r = &o->request;
    /* worlds_ask() opens the world itself, or reads the published status. */
    if (r->action == ACTION_STATUS)
        return worlds_ask(cfg, 0, result, e) < 0 ? -1 : worlds_judge(*result, e);
    /* A relative path is resolved here, even if the supervisor opens it. Links in it are resolved
     * by the process that opens it. */
    main_resolve(&r->dump);
    main_resolve(&r->from);
    struct err later; /* action_run() refuses actions that need the key */
    (void)signature_open(cfg, &later);
    a = (struct action_context){.cfg = cfg, .job.dirfd = -1};
    /* Actions that write nothing do not create the directory, because the service could not use one
     * that root created. Without a directory no supervisor can be running, and control_ask() says
     * so. */
    if (!action_is(r->action, ACTION_NO_DIR) && action_open(&a, cfg, request_writes(r), e) < 0 &&
        !(action_is(r->action, ACTION_SUPERVISOR) && e->num == ENOENT))
        return -1;
    err_clear(e);
    warn_ignored(&a);
    a.emit = on_event;
    int rc = r->action == ACTION_NEW_ROUND && r->from ? new_round_from(&a, r, result, e)
                                                      : main_carry_out(&a, r, result, e);
    screen_done();
    action_close(&a);
    return rc;
}

/* Loads the config. If this user may not read it, the hint names a user who may. */
static int load_config(const struct options *o, char *const *argv, struct config **cfg,
                       struct err *e)
{
    int rc = config_load(o->config, cfg, e);
    if (rc == 0 || e->num != EACCES)
        return rc;
    SCOPED(xfree) char *retype = hint_retype(o->config, argv);
    err_hint(e, "%s", retype);
    return rc;
}

/* Returns true for --status without a world or with a directory: it shows all worlds with a config
 * there. */
static bool asks_for_all(const struct options *o)
{
    struct stat st;
    return o->request.action == ACTION_STATUS &&
           (!o->config || (stat(o->config, &st) == 0 && S_ISDIR(st.st_mode)));
}

/* Opens the files and the directory that a supervisor needs from its start. */
static int main_open(struct action_context *a, const struct config *cfg, struct err *e)
{
    if (signature_open(cfg, e) == -1 || action_open(a, cfg, true, e) < 0)
        return -1;
    if (faccessat(a->job.dirfd, ".", W_OK | X_OK, 0) < 0)
        err_sys(e, errno, "cannot write into directory %s", cfg->dump_dir);
    else if (action_password(a, e) == 0)
        return 0;
    action_close(a);
    return -1;
}

/* Returns true if the failure may end by itself: the system cannot open or read what the config
 * names, for example because it is mounted or unlocked after the boot. */
static bool may_come_later(const struct err *e)
{
    bool secret = e->cls == ERR_CONFIG && e->num && e->num != ELOOP && e->num != EFBIG;
    return secret || e->cls == ERR_SYSTEM;
}

/* How long one start waits for what comes later. It ends before TimeoutStartSec of the service. The
 * service starts worldkeeper again, so rarely that StartLimitBurst is never reached. */
#define LATE_MS fault_wait(10000)
#define LATE_STEP_US 200000

/* Waits for what comes later. If it does not come, the error is no longer one of the config, whose
 * exit status would be final for the service. */
static int open_patiently(struct action_context *a, const struct config *cfg, struct err *e)
{
    mono_t end = mono_add(clock_mono(), LATE_MS);
    for (bool told = false; main_open(a, cfg, e) < 0; told = true) {
        if (!may_come_later(e))
            return -1;
        if (!told)
            log_line(LOG_WARN_, "cannot start yet, trying again: %s", e->text);
        if (mono_reached(clock_mono(), end)) {
            e->cls = ERR_SYSTEM;
            return -1;
        }
        usleep(LATE_STEP_US);
    }
    return 0;
}

static int main_supervise(struct config *cfg, struct err *e)
{
    struct action_context a = {.job.dirfd = -1};
    if (cfg->retired) {
        err_set(e, ERR_REFUSED, 0, "world %s is retired: it has no supervisor, on purpose",
                cfg->name);
        return err_hint(e, "take [world] retired = yes out of %s", cfg->path);
    }
    if (open_patiently(&a, cfg, e) < 0)
        return -1;
    warn_ignored(&a);
    return world_run(&a, cfg, e);
}

/* Runs the command. The config is kept until the process ends, because hints name the world by it,
 * even those of errors at the end. */
static int main_run(struct options *o, char *const *argv, json_t **result, struct err *e)
{
    struct config *cfg = NULL;
    if (load_config(o, argv, &cfg, e) < 0)
        return -1;
    screen_world(cfg);
    int rc = check_root(o, cfg, e);
    if (rc == 0)
        rc = o->request.action == ACTION_RUN ? main_supervise(cfg, e)
                                             : one_action(o, cfg, result, e);
    /* `cfg` is current, because a supervisor that could not start has not reloaded it. */
    if (rc < 0) {
        keep_options(o, e);
        hint_error(cfg, HINT_HERE, e);
    }
    return rc;
}

/* The variables that are kept: what systemd sets, what is read for time zone, language and
 * terminal, and what builds and tests need. A name that ends in '_' is a prefix. */
static const char kept[] =
    "CREDENTIALS_DIRECTORY RUNTIME_DIRECTORY NOTIFY_SOCKET JOURNAL_STREAM INVOCATION_ID WATCHDOG_ "
    "LISTEN_ TZ LANG LC_ TERM NO_COLOR COLUMNS PATH ASAN_OPTIONS UBSAN_OPTIONS LSAN_OPTIONS "
    "TSAN_OPTIONS GCOV_ WK_ WORLDKEEPER_BOOT WORLDKEEPER_FAULT";

static bool main_is_kept(const char *variable)
{
    size_t len = strcspn(variable, "="), n;
    for (const char *k = kept; *k; k += n + strspn(k + n, " ")) {
        n = strcspn(k, " ");
        if (len >= n && memcmp(variable, k, n) == 0 && (len == n || (n && k[n - 1] == '_')))
            return true;
    }
    return false;
}

/* Removes all other variables from the environment. Libraries read more from it than the user who
 * starts worldkeeper intends: plugins to load, passwords, proxies, trusted certificates, a file to
 * log TLS session keys to. All of that is set in the config instead. The list is changed in place,
 * because libraries read this very list, and before any library has read it. */
static void clean_environment(void)
{
    char **to = environ;
    for (char **from = environ; from && *from; from++)
        if (main_is_kept(*from))
            *to++ = *from;
    if (to)
        *to = NULL;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    struct err e = {0};
    clean_environment();
    /* Keeps secrets in memory out of core dumps and debuggers, and new files private. */
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none); /* passwords are in memory */
    prctl(PR_SET_DUMPABLE, 0);
    umask(0077);
    /* Ignored also for libcurl and the client library, whose TLS code writes to closed
     * connections. */
    signal(SIGPIPE, SIG_IGN);
    js_begin();
    int rc = src_main_parse(argc, argv, &o, &e);
    log_open(o.verbose ? LOG_DEBUG_ : o.quiet ? LOG_WARN_ : LOG_INFO_);
    screen_open(o.quiet || o.json, o.verbose);
    json_auto_t *result = NULL;
    if (rc == 0)
        rc = asks_for_all(&o) ? worlds_status(o.config ? o.config : WORLDS_DIR, &result, &e)
                              : main_run(&o, argv, &result, &e);
    bool action = o.request.action != ACTION_NONE && o.request.action != ACTION_RUN;
    if (action)
        show_result(&o, result, rc, &e);
    if (rc < 0 && (!o.json || !action || e.cls == ERR_USAGE || e.cls == ERR_CONFIG))
        screen_error(&e);
    free(o.config);
    request_free(&o.request);
    return rc < 0 ? err_exit(e.cls) : 0;
}
