#include "setup/answers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "setup/admin.h"
#include "setup/talk.h"

#define LOCAL_MAIL "smtp://localhost"
#define MAIL_SECRET ".smtp-password"
#define WEB_SECRET ".webhook"
#define ADDRESS_FILE_MAX 4096 /* of a webhook */

void answers_free(struct answers *a)
{
    draft_free(&a->draft);
    buf_free(&a->mail_password);
    buf_free(&a->webhook);
}

int answers_check(const char *text, struct config **cfg, struct err *e)
{
    char path[64];
    SCOPED(file_close) int fd = memfd_create("config", MFD_CLOEXEC);
    if (fd < 0 || fchmod(fd, 0600) < 0 || file_write_all(fd, text, strlen(text)) < 0)
        return err_sys(e, errno, "cannot hold the config in memory");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return config_load(path, cfg, e);
}

/* Returns true if the daemon would accept these answers; otherwise prints why not. */
static bool answers_accepted(const struct draft *p)
{
    SCOPED(buf_free) struct buf text = {0};
    struct config *cfg = NULL;
    struct err why = {0};
    draft_config(p, &text);
    bool good = answers_check(text.p, &cfg, &why) == 0;
    config_free(cfg);
    if (!good) {
        /* Skips the file name, because no such file exists. */
        const char *at = strstr(why.text, ": ");
        talk_say("%s\n", at ? at + 2 : why.text);
    }
    return good;
}

/* Asks until the daemon would accept the answer. Does not ask if an option gave the answer. */
static int ask_value(struct draft *p, char **out, const char *question, const char *given,
                     const char *def, struct err *e)
{
    for (;;) {
        free(*out);
        *out = NULL;
        if (given || !talk_asks())
            *out = xstrdup(given ? given : def);
        else if (talk_ask(question, def, out, e) < 0)
            return -1;
        if (answers_accepted(p))
            return 0;
        if (given || !talk_asks())
            return err_set(e, ERR_USAGE, 0, "%s: \"%s\" cannot be used, as said above", question,
                           *out);
    }
}

/* ---- mail and webhook ---- */

/* Each returns NULL for a secret that can be used, or what is wrong with it. */
static const char *is_password(const char *text)
{
    return *text ? NULL : "a password is needed for that user";
}

static const char *is_web_address(const char *text)
{
    return text_starts(text, "https://") || text_starts(text, "http://")
               ? NULL
               : "the URL of a webhook begins with https:// or http://";
}

/* Asks until the secret can be used. */
static int ask_secret(const char *question, const char *(*judge)(const char *), const char *option,
                      struct buf *out, struct err *e)
{
    for (;;) {
        buf_free(out);
        if (talk_secret(question, option, out, e) < 0)
            return -1;
        const char *wrong = judge(out->p);
        if (!wrong)
            return 0;
        talk_say("%s\n", wrong);
    }
}

static int read_web_address(const char *path, struct buf *out, struct err *e)
{
    if (file_read_secret(path, out, e) < 0)
        return -1;
    const char *wrong = is_web_address(out->p);
    return wrong ? err_set(e, ERR_CONFIG, 0, "--webhook-file %s: %s", path, wrong) : 0;
}

static int ask_mail_login(struct setup *s, struct answers *a, struct err *e)
{
    struct draft *p = &a->draft;
    if (strcmp(p->mail_url, LOCAL_MAIL) == 0 || !talk_asks() || s->mail)
        return 0;
    if (talk_ask("User at that mail server (Enter: none)", "", &p->mail_user, e) < 0)
        return -1;
    if (!p->mail_user[0])
        return 0;
    p->mail_password_file = setup_config_path(s, p->name, MAIL_SECRET);
    return ask_secret("Password at that mail server, kept in a file that only the service can read",
                      is_password, "--mail", &a->mail_password, e);
}

static int ask_mail(struct setup *s, struct answers *a, struct err *e)
{
    struct draft *p = &a->draft;
    char host[256] = "localhost";
    gethostname(host, sizeof host - 1);
    p->mail_url = xstrdup(s->smtp ? s->smtp : LOCAL_MAIL);
    p->mail_from = xasprintf("worldkeeper@%s", host);
    const char *server = s->smtp ? s->smtp : s->mail ? LOCAL_MAIL : NULL;
    if (ask_value(p, &p->mail_to, "Mail address for alerts (several: with commas)", s->mail,
                  "root@localhost", e) < 0 ||
        ask_value(p, &p->mail_url, "Mail server", server, LOCAL_MAIL, e) < 0)
        return -1;
    return ask_mail_login(s, a, e);
}

static int ask_webhook(struct setup *s, struct answers *a, struct err *e)
{
    struct draft *p = &a->draft;
    int rc = s->webhook_file
                 ? read_web_address(s->webhook_file, &a->webhook, e)
                 : ask_secret("URL of the webhook, kept in a file that only the service can read",
                              is_web_address, "--webhook-file FILE", &a->webhook, e);
    if (rc < 0)
        return -1;
    p->webhook_file = setup_config_path(s, p->name, WEB_SECRET);
    const char *url = a->webhook.p, *def = strstr(url, "slack")     ? "slack"
                                           : strstr(url, "discord") ? "discord"
                                                                    : "json";
    return ask_value(p, &p->webhook_format, "Format: json, slack or discord", s->webhook_format,
                     def, e);
}

static int ask_alerts(struct setup *s, struct answers *a, struct err *e)
{
    if (s->mail || s->webhook_file) {
        if (s->mail && ask_mail(s, a, e) < 0)
            return -1;
        return s->webhook_file ? ask_webhook(s, a, e) : 0;
    }
    for (;;) {
        SCOPED(xfree) char *how = NULL;
        if (talk_ask("Alerts by mail, by webhook, or none", "none", &how, e) < 0)
            return -1;
        if (strcmp(how, "none") == 0)
            return 0;
        if (strcmp(how, "mail") == 0)
            return ask_mail(s, a, e);
        if (strcmp(how, "webhook") == 0)
            return ask_webhook(s, a, e);
        talk_say("mail, webhook or none\n");
    }
}

/* ---- options beside an existing config ---- */

enum typed { TYPED_DIR, TYPED_PAGE, TYPED_MAIL, TYPED_SMTP, TYPED_WEBHOOK, TYPED_FORMAT, TYPED };

static const char *typed_of(const struct setup *s, enum typed option)
{
    const char *const given[TYPED] = {s->status_dir, s->page ? "" : NULL, s->mail,
                                      s->smtp,       s->webhook_file,     s->webhook_format};
    return given[option];
}

/* Reads what the typed options would say in a config, where they are given. */
static int read_typed(const struct setup *s, const struct config *cfg, struct config **out,
                      struct err *e)
{
    struct err why = {0};
    SCOPED(buf_free) struct buf text = {0};
    SCOPED(draft_free)
    struct draft p = {.name = xstrdup(cfg->name),
                      .schema = xstrdup(cfg->schema),
                      .socket = xstrdup("/run/socket"),
                      .user = xstrdup(cfg->mysql.user),
                      .dump_dir = xstrdup(cfg->dump_dir),
                      .status_dir = s->status_dir ? xstrdup(s->status_dir) : NULL,
                      .mail_to = xstrdup(s->mail ? s->mail : "root@localhost"),
                      .mail_from = xstrdup("root@localhost"),
                      .mail_url = xstrdup(s->smtp ? s->smtp : LOCAL_MAIL),
                      .webhook_file = xstrdup("/url"),
                      .webhook_format = s->webhook_format ? xstrdup(s->webhook_format) : NULL};
    draft_config(&p, &text);
    if (answers_check(text.p, out, &why) == 0)
        return 0;
    const char *at = strstr(why.text, ": ");
    return err_set(e, ERR_USAGE, 0, "%s", at ? at + 2 : why.text);
}

static bool is_same_text(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static bool is_same_list(const struct config_list *a, const struct config_list *b)
{
    bool same = a->count == b->count;
    for (unsigned i = 0; same && i < a->count; i++)
        same = strcmp(a->list[i], b->list[i]) == 0;
    return same;
}

/* Returns true if the first line of both files is the same, whoever owns them. */
static bool is_same_line(const char *one, const char *other)
{
    const char *const paths[] = {one, other};
    struct buf lines[2] = {{.secret = true}, {.secret = true}};
    bool read = one && other;
    for (size_t i = 0; i < 2 && read; i++) {
        struct err ignored;
        SCOPED(file_close) int fd = file_open_path(paths[i], &ignored);
        read = fd >= 0 && file_read_fd(fd, paths[i], ADDRESS_FILE_MAX, &lines[i], &ignored) == 0;
        if (lines[i].p)
            lines[i].p[strcspn(lines[i].p, "\r\n")] = '\0';
    }
    bool same = read && is_same_text(lines[0].p, lines[1].p);
    buf_free(&lines[0]);
    buf_free(&lines[1]);
    return same;
}

/* Returns true if the config has the value of a typed option. */
static bool config_says(const struct setup *s, const struct config *cfg, const struct config *typed,
                        enum typed option)
{
    bool found = false;
    switch (option) {
    case TYPED_DIR:
        return is_same_text(cfg->status_dir, typed->status_dir);
    case TYPED_PAGE:
        return cfg->page;
    case TYPED_MAIL:
        return is_same_list(&cfg->smtp.to, &typed->smtp.to);
    case TYPED_SMTP:
        return is_same_text(cfg->smtp.url, typed->smtp.url);
    case TYPED_WEBHOOK:
    case TYPED_FORMAT:
        for (size_t i = 0; i < CONFIG_WEBHOOKS; i++)
            found |=
                config_webhook_on(&cfg->webhooks[i]) &&
                (option == TYPED_FORMAT ? cfg->webhooks[i].format == typed->webhooks[0].format
                                        : is_same_line(cfg->webhooks[i].url_file, s->webhook_file));
        return found;
    case TYPED:
        break;
    }
    return true;
}

static int no_effect(const struct config *cfg, const char *option, const char *key, struct err *e)
{
    if (!cfg) {
        err_set(e, ERR_USAGE, 0, "--from-cron writes the config from the scripts: no --%s with it",
                option);
        return err_hint(e, "add %s to the config that it has written, before you continue", key);
    }
    err_set(e, ERR_USAGE, 0, "%s exists and decides %s: --%s would have no effect", cfg->path, key,
            option);
    return err_hint(e, "change %s in that file, then repeat your command without --%s", key,
                    option);
}

int answers_refuse(const struct setup *s, const struct config *cfg, struct err *e)
{
    static const struct {
        const char *option, *key;
    } decided[TYPED] = {{"status-dir", "[status] dir"},
                        {"page", "[status] page"},
                        {"mail", "[alert.smtp] to"},
                        {"smtp", "[alert.smtp] url"},
                        {"webhook-file", "[alert.webhook] url_file"},
                        {"webhook-format", "[alert.webhook] format"}};
    struct config *typed = NULL;
    int rc = cfg ? read_typed(s, cfg, &typed, e) : 0;
    for (int i = 0; rc == 0 && i < TYPED; i++) {
        if (typed_of(s, (enum typed)i) && !(cfg && config_says(s, cfg, typed, (enum typed)i)))
            rc = no_effect(cfg, decided[i].option, decided[i].key, e);
    }
    config_free(typed);
    return rc;
}

/* ---- all of them ---- */

static int ask_status(struct setup *s, struct draft *p, struct err *e)
{
    if (ask_value(p, &p->status_dir,
                  "Status directory for the homepage, an absolute path (Enter: none)",
                  s->status_dir, "", e) < 0)
        return -1;
    if (!p->status_dir[0])
        return 0;
    p->page = s->page;
    return s->page || !talk_asks()
               ? 0
               : talk_yes("A status page for players in it?", true, &p->page, e);
}

int answers_ask(struct setup *s, const char *world, const struct survey_schema *schema,
                const struct account *account, struct answers *a, struct err *e)
{
    struct draft *p = &a->draft;
    SCOPED(xfree) char *below = xasprintf("/var/lib/worldkeeper/%s", world);
    *p = (struct draft){.name = xstrdup(world),
                        .schema = xstrdup(schema->name),
                        .socket = s->params.socket ? xstrdup(s->params.socket) : NULL,
                        .host = s->params.socket ? NULL : xstrdup(s->params.host),
                        .port = s->params.port,
                        .tls_ca = !s->params.socket && s->tls_ca ? xstrdup(s->tls_ca) : NULL,
                        .user = xstrdup(account->user),
                        .password_file =
                            account->password_file ? xstrdup(account->password_file) : NULL,
                        .dump_dir = setup_path(s, below)};
    if (!answers_accepted(p))
        return err_set(e, ERR_CONFIG, 0, "world %s cannot be kept with such a config", world);
    return ask_status(s, p, e) < 0 || ask_alerts(s, a, e) < 0 ? -1 : 0;
}
