#include "typed.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRAM "worldkeeper"

static char *name_of(uid_t uid)
{
    const struct passwd *p = getpwuid(uid);
    return p ? xstrdup(p->pw_name) : xasprintf("%u", (unsigned)uid);
}

static char *user_if_known(const struct config *cfg)
{
    struct stat st;
    if (geteuid() != 0)
        return name_of(geteuid());
    if (stat(cfg->dump_dir, &st) == 0 && st.st_uid != 0)
        return name_of(st.st_uid);
    return getpwnam(PROGRAM) ? xstrdup(PROGRAM) : NULL;
}

char *typed_user(const struct config *cfg)
{
    char *user = user_if_known(cfg);
    return user ? user : xstrdup("USER");
}

/* Where --world and the service look. */
static bool in_usual_place(const struct config *cfg)
{
    char *usual = xasprintf("/etc/worldkeeper/%s.ini", cfg->name);
    bool same = strcmp(cfg->path, usual) == 0;
    free(usual);
    return same;
}

/* "worldkeeper --world s8", and what stands before it. */
static void whole_command(const struct config *cfg, struct buf *b)
{
    char *user = geteuid() == 0 ? user_if_known(cfg) : NULL;
    if (user)
        buf_printf(b, "runuser -u %s -- ", user);
    if (in_usual_place(cfg)) {
        buf_printf(b, PROGRAM " --world %s", cfg->name);
    } else {
        char *path = realpath(cfg->path, NULL);
        buf_adds(b, PROGRAM " --config ");
        buf_shell(b, path ? path : cfg->path);
        free(path);
    }
    free(user);
}

char *typed_start(const struct config *cfg)
{
    struct buf b = {0};
    if (!cfg->path || in_usual_place(cfg)) {
        buf_printf(&b, "systemctl start " PROGRAM "@%s", cfg->name);
    } else {
        whole_command(cfg, &b);
        buf_adds(&b, " --run");
    }
    return b.p;
}

/* Names the world already, or needs none. */
static bool is_whole(const char *options)
{
    return text_starts(options, "--world") || text_starts(options, "--config") ||
           text_starts(options, "--help");
}

void typed_hint(const struct config *cfg, const char *hint, struct buf *out)
{
    const char *at;
    while (cfg->path && (at = strstr(hint, PROGRAM " --"))) {
        const char *options = at + strlen(PROGRAM " ");
        buf_add(out, hint, (size_t)(at - hint));
        if (is_whole(options))
            buf_adds(out, PROGRAM);
        else
            whole_command(cfg, out);
        buf_addc(out, ' ');
        buf_adds(out, "--");
        hint = options + 2;
    }
    buf_adds(out, hint);
}

void typed_err(const struct config *cfg, struct err *e)
{
    struct buf hint = {0};
    typed_hint(cfg, e->hint, &hint);
    err_hint(e, "%s", hint.p);
    buf_free(&hint);
}
