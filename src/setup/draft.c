#include "setup/draft.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "config/check.h"
#include "mysql/schema.h"

#define NAME_MAX_LENGTH 32
#define ACCOUNT_MAX_LENGTH 32
#define DEFAULT_PORT 3306
/* From this size on, INSERTs in place of LOAD DATA cost a restore more than about a second
 * (tests/bench/README.md). */
#define SLOW_ROWS_BYTES (32u << 20)
#define HELD_DAYS                                                                                  \
    3 /* of the binary log: longer than worldkeeper needs, short enough not to fill the disk */

void draft_free(struct draft *p)
{
    char **texts[] = {&p->name,          &p->schema,
                      &p->socket,        &p->host,
                      &p->tls_ca,        &p->user,
                      &p->password_file, &p->dump_dir,
                      &p->status_dir,    &p->mail_to,
                      &p->mail_from,     &p->mail_url,
                      &p->mail_user,     &p->mail_password_file,
                      &p->webhook_file,  &p->webhook_format};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(*texts[i]);
    *p = (struct draft){0};
}

char *draft_name(const char *schema)
{
    struct buf b = {0};
    for (; *schema && b.len < NAME_MAX_LENGTH; schema++) {
        char c = (char)tolower((unsigned char)*schema);
        bool taken = (c >= 'a' && c <= 'z') || text_is_digit(c) || (b.len && strchr("_-", c));
        if (taken)
            buf_addc(&b, c);
        else if (b.len && b.p[b.len - 1] != '-' && (c & 0x80) == 0)
            buf_addc(&b, '-');
    }
    while (b.len && b.p[b.len - 1] == '-')
        b.p[--b.len] = '\0';
    if (!b.len)
        buf_adds(&b, "world");
    return b.p;
}

char *draft_account(const char *world)
{
    char *name = xasprintf("worldkeeper_%s", world);
    if (strlen(name) <= ACCOUNT_MAX_LENGTH)
        return name;
    unsigned hash = (unsigned)text_hash(TEXT_HASH, world, strlen(world));
    char *shorter = xasprintf("%.*s_%08x", ACCOUNT_MAX_LENGTH - 9, name, hash);
    free(name);
    return shorter;
}

void draft_password(const unsigned char raw[DRAFT_PASSWORD_BYTES], struct buf *out)
{
    buf_reserve(out, (size_t)3 * DRAFT_PASSWORD_BYTES);
    for (size_t i = 0; i < DRAFT_PASSWORD_BYTES; i += 3) {
        if (i)
            buf_addc(out, '-');
        for (size_t k = i; k < i + 2; k++) {
            buf_addc(out, (char)('A' + (raw[k] & 15)));
            buf_addc(out, (char)('a' + (raw[k] >> 4)));
        }
        buf_addc(out, (char)('0' + (raw[i + 2] & 7)));
        buf_addc(out, (char)('0' + (raw[i + 2] >> 3 & 7)));
    }
}

/* A line is "0::/system.slice/mariadb.service". With cgroups v1 there are several lines, and one of
 * them has this path.
 * Returns what follows /system.slice/ in the first line whose path begins with it; or NULL. What
 * any user may run is below /user.slice, where directories may have any name. The path is what
 * follows the second colon of a line. Source: cgroups(7), /proc/PID/cgroup. */
static const char *below_system_slice(const char *cgroup)
{
    static const char slice[] = "/system.slice/";
    while (cgroup && *cgroup) {
        size_t len = strcspn(cgroup, "\n");
        const char *path = memchr(cgroup, ':', len);
        path = path ? memchr(path + 1, ':', len - (size_t)(path + 1 - cgroup)) : NULL;
        if (path && strncmp(path + 1, slice, strlen(slice)) == 0)
            return path + 1 + strlen(slice);
        cgroup += len + (cgroup[len] == '\n');
    }
    return NULL;
}

char *draft_service(const char *cgroup)
{
    static const char end[] = ".service";
    const char *name = below_system_slice(cgroup);
    size_t n = name ? strcspn(name, "/\n") : 0, m = strlen(end);
    if (n <= m || strncmp(name + n - m, end, m) != 0 || name[0] == '-')
        return NULL;
    for (size_t i = 0; i < n - m; i++) /* the name must be safe to type unquoted */
        if (!isalnum((unsigned char)name[i]) && !strchr("@_.-", name[i]))
            return NULL;
    return xstrndup(name, n - m);
}

/* ---- the unit ---- */

/* "%" begins a specifier; quotes and backslashes are escaped inside of quotes. */
void draft_unit_path(const char *path, struct buf *out)
{
    buf_adds(out, "ReadWritePaths=\"");
    for (; *path; path++) {
        if (*path == '%')
            buf_addc(out, '%');
        else if (strchr("\"\\", *path))
            buf_addc(out, '\\');
        buf_addc(out, *path);
    }
    buf_adds(out, "\"\n");
}

const char *draft_hidden_by(const char *path)
{
    static const char *const hidden[][2] = {{"/tmp", "PrivateTmp=yes"},
                                            {"/var/tmp", "PrivateTmp=yes"},
                                            {"/home", "ProtectHome=yes"},
                                            {"/root", "ProtectHome=yes"},
                                            {"/run/user", "ProtectHome=yes"}};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (config_inside(path, hidden[i][0]))
            return hidden[i][1];
    return NULL;
}

/* ---- the config ---- */

static void draft_section(struct buf *out, const char *name)
{
    buf_printf(out, "%s[%s]\n", out->len ? "\n" : "", name);
}

static void draft_key(struct buf *out, const char *name, const char *value)
{
    if (value && *value)
        buf_printf(out, "%s = %s\n", name, value);
}

/* Returns true for a mail server on this machine, which often has no certificate that can be
 * verified. */
static bool is_local_mail(const char *url)
{
    static const char *const hosts[] = {"smtp://localhost", "smtp://127.0.0.1", "smtp://[::1]"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        /* strchr() also finds the terminating NUL: the URL may end there. */
        if (text_starts(url, hosts[i]) && strchr(":/", url[strlen(hosts[i])]))
            return true;
    return false;
}

static void draft_alerts(const struct draft *p, struct buf *out)
{
    if (p->mail_to && *p->mail_to) {
        draft_section(out, "alert.smtp");
        draft_key(out, "url", p->mail_url);
        draft_key(out, "from", p->mail_from);
        draft_key(out, "to", p->mail_to);
        draft_key(out, "user", p->mail_user);
        draft_key(out, "password_file", p->mail_password_file);
        if (is_local_mail(p->mail_url))
            draft_key(out, "starttls", "preferred");
    }
    if (p->webhook_file && *p->webhook_file) {
        draft_section(out, "alert.webhook");
        draft_key(out, "url_file", p->webhook_file);
        draft_key(out, "format",
                  p->webhook_format && strcmp(p->webhook_format, "json") != 0 ? p->webhook_format
                                                                              : NULL);
    }
}

void draft_config(const struct draft *p, struct buf *out)
{
    buf_printf(
        out,
        "# World %s. All keys, with their defaults: worldkeeper(8), and example.ini beside it.\n",
        p->name);
    draft_section(out, "world");
    draft_key(out, "name", p->name);
    draft_key(out, "schema", p->schema);
    draft_section(out, "mysql");
    draft_key(out, "socket", p->socket);
    if (!p->socket) {
        draft_key(out, "host", p->host);
        if (p->port != DEFAULT_PORT)
            buf_printf(out, "port = %u\n", p->port);
    }
    draft_key(out, "user", p->user);
    draft_key(out, "password_file", p->password_file);
    draft_key(out, "tls_ca", p->tls_ca);
    draft_section(out, "dump");
    draft_key(out, "dir", p->dump_dir);
    if (p->status_dir && *p->status_dir) {
        draft_section(out, "status");
        draft_key(out, "dir", p->status_dir);
        if (p->page)
            draft_key(out, "page", "yes");
    }
    draft_alerts(p, out);
}

/* ---- the server's options ---- */

/* Takes ownership of `line` and `now`. */
static void setup_draft_option(struct draft_options *o, const char *reason, char *line, char *now,
                               bool restart)
{
    o->list[o->count++] =
        (struct draft_option){.line = line, .reason = reason, .now = now, .restart = restart};
}

static char *draft_global(const char *line, bool running)
{
    return running ? xasprintf("SET @@GLOBAL.%s;", line) : NULL;
}

/* Adds the options of the binary log. While the log is off, its settings are not changed in the
 * running server: they take effect at its restart. */
static void log_options(const struct draft_server *s, struct draft_options *out)
{
    const char *days = server_word(s->version, WORD_LOG_HELD_DAYS),
               *held = days ? days : server_word(s->version, WORD_LOG_HELD);
    if (!s->logs)
        setup_draft_option(
            out, "the journal: without a binary log, a loss costs all changes since the last dump",
            xstrdup("log_bin = binlog"), NULL, true);
    if (!s->row_format)
        setup_draft_option(
            out, "the journal needs each changed row in the log; sessions keep what they have",
            xstrdup("binlog_format = ROW"), draft_global("binlog_format=ROW", s->logs), false);
    if (!s->full_image)
        setup_draft_option(out, "the journal needs all columns of each changed row",
                           xstrdup("binlog_row_image = FULL"),
                           draft_global("binlog_row_image=FULL", s->logs), false);
    if (held && s->held == 0) {
        int64_t keep = HELD_DAYS * (days ? 1 : INT64_C(86400));
        SCOPED(xfree) char *now = xasprintf("%s=%" PRId64, held, keep);
        setup_draft_option(out, "without it, the binary log is never deleted and fills the disk",
                           xasprintf("%s = %" PRId64, held, keep), draft_global(now, s->logs),
                           false);
    }
    if (!s->synced) {
        setup_draft_option(
            out,
            "a power failure may cut off the end of the log; each transaction then waits for the "
            "disk",
            xstrdup("sync_binlog = 1"), draft_global("sync_binlog=1", s->logs), false);
        out->list[out->count - 1].costs = true;
    }
    if (!s->trusts && s->makes_code)
        setup_draft_option(
            out,
            "without it, restores with a binary log fail at triggers and functions (error 1419)",
            xstrdup("log_bin_trust_function_creators = 1"), NULL, false);
}

void draft_server_options(const struct draft_server *s, struct draft_options *out)
{
    uint64_t wanted = db_heap_wanted(s->largest);
    *out = (struct draft_options){.count = 0};
    log_options(s, out);
    if (s->slow_rows && s->largest >= SLOW_ROWS_BYTES) {
        setup_draft_option(
            out,
            "a restore loads rows in less than half the time; worldkeeper never reads a file that "
            "a server asks for, but a game server whose client library sends files would do so "
            "for injected SQL",
            xstrdup("local_infile = ON"), draft_global("local_infile=ON", true), false);
        out->list[out->count - 1].costs = true;
    }
    if (s->heap < wanted && s->largest * 4 > s->heap * 3)
        setup_draft_option(
            out,
            "a MEMORY table is full at the limit that it was made with; a restart gives it the "
            "server's",
            xasprintf("max_heap_table_size = %" PRIu64, wanted),
            xasprintf("SET @@GLOBAL.max_heap_table_size=%" PRIu64 ";", wanted), false);
}

void draft_server_file(const struct draft_options *o, const char *world, const char *before,
                       struct buf *out)
{
    if (*before)
        buf_adds(out, before);
    else
        buf_printf(out, "# For world %s, written by worldkeeper-setup.\n[mysqld]\n", world);
    for (size_t i = 0; i < o->count; i++)
        if (!o->list[i].written)
            buf_printf(out, "# %s\n%s\n", o->list[i].reason, o->list[i].line);
}

void draft_options_drop(struct draft_options *o, size_t i)
{
    free(o->list[i].line);
    free(o->list[i].now);
    memmove(&o->list[i], &o->list[i + 1], (o->count - i - 1) * sizeof *o->list);
    o->count--;
}

void draft_options_free(struct draft_options *o)
{
    for (size_t i = 0; i < o->count; i++) {
        free(o->list[i].line);
        free(o->list[i].now);
    }
    o->count = 0;
}
