/* Reads the config file line by line. libinih parses the lines. The reader below passes them to it,
 * counts them, and stops at anything libinih would misread: it truncates long lines, ends a value
 * at " ;", repeats the previous key for an indented line, reports no line numbers, and may return 0
 * despite an error. */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "config/check.h"
#include "config/keys.h"
#include "config/parts.h"

#define FILE_BYTES_MAX 65536
#define VALUE_SHOWN_MAX 80
#define LEDGER "ledger "
#define WEBHOOK "alert.webhook"

struct reading {
    struct config_source src;
    const char *at, *end; /* the rest of the file */
    unsigned line;        /* number of the line that libinih is parsing */
    int line_size;        /* size of libinih's buffer, with the NUL; 0 before the first line */
    struct config *c;
    enum config_owner owner; /* of the section's keys, and its struct */
    void *object;
    unsigned webhook; /* the slot of the last [alert.webhook] or [alert.webhook.NAME] */
    bool failed;      /* `e` is filled, and reading ends */
    struct err *e;
};

/* Sets "FILE:LINE: ..."; only the first error is kept. */
static int config_fail(struct reading *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static int config_fail(struct reading *r, const char *fmt, ...)
{
    SCOPED(buf_free) struct buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    err_set(r->e, ERR_CONFIG, 0, "%s:%u: %s", r->src.path, r->line, text.p);
    r->failed = true;
    return -1;
}

/* ---- lines ---- */

static bool config_blank(char ch)
{
    return ch == ' ' || ch == '\t';
}

/* Returns true if it contains a blank followed by `mark`, which may be meant as a comment. */
static bool has_late_comment(const char *s, size_t len, char mark)
{
    for (size_t i = 1; i < len; i++)
        if (s[i] == mark && config_blank(s[i - 1]))
            return true;
    return false;
}

static int fail_late_comment(struct reading *r, char mark)
{
    config_fail(r, "' %c' after other text; allowed: a comment on its own line", mark);
    return err_hint(r->e,
                    "move what follows it to a line above, after '%c'; a value cannot hold ' %c'",
                    mark, mark);
}

/* Refuses bytes that no editor shows, because a value with one is not what it seems. */
static int check_bytes(struct reading *r, const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)s[i];
        if ((ch >= 0x20 && ch != 0x7f) || ch == '\t')
            continue;
        config_fail(r, "%s (0x%02x) in column %zu; allowed: text in UTF-8",
                    ch ? "control character" : "NUL byte", ch, i + 1);
        return err_hint(r->e, ch == '\r' ? "save the file with LF or CRLF line ends"
                                         : "is this a text file? Save it as UTF-8");
    }
    return 0;
}

/* Begins the section "ledger NAME", in which its keys may be set again. */
static int begin_ledger(struct reading *r, const char *name)
{
    size_t len = strlen(name);
    struct config *c = r->c;
    if (len == 0 || len > 40 || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != len)
        return config_fail(
            r, "[ledger NAME]: not a ledger's name; allowed: 1 to 40 of a-z, 0-9 and _");
    for (unsigned i = 0; i < c->ledger_count; i++)
        if (strcmp(c->ledgers[i].name, name) == 0)
            return config_fail(r, "[ledger %s]: given twice; allowed: once", name);
    if (c->ledger_count == CONFIG_LEDGERS)
        return config_fail(r, "[ledger %s]: one ledger too many; allowed: %d", name,
                           CONFIG_LEDGERS);
    struct config_ledger *l = &c->ledgers[c->ledger_count++];
    config_set_defaults(l, OWNER_LEDGER);
    l->name = xstrdup(name);
    r->owner = OWNER_LEDGER;
    r->object = l;
    /* "given twice" is judged within one section */
    for (size_t i = 0; i < config_key_count; i++)
        if (config_owner(&config_keys[i]) == OWNER_LEDGER)
            r->src.line[i] = 0;
    return 0;
}

/* Begins [alert.webhook] or [alert.webhook.NAME]. The one without a name may be in several
 * places, as other sections may. */
static int begin_webhook(struct reading *r, const char *section)
{
    const char *name = section + sizeof WEBHOOK - 1;
    size_t len = strlen(name);
    struct config_webhook *hooks = r->c->webhooks;
    unsigned i = 0;
    if (len && (len == 1 || len > 31 ||
                strspn(name + 1, "abcdefghijklmnopqrstuvwxyz0123456789_-") != len - 1))
        return config_fail(
            r, "[alert.webhook.NAME]: not a webhook's name; allowed: 1 to 30 of a-z, 0-9, _ and -");
    while (i < CONFIG_WEBHOOKS && hooks[i].section && strcmp(hooks[i].section, section) != 0)
        i++;
    if (i == CONFIG_WEBHOOKS)
        return config_fail(r, "[%s]: one webhook too many; allowed: %d", section, CONFIG_WEBHOOKS);
    if (hooks[i].section && len)
        return config_fail(r, "[%s]: given twice; allowed: once", section);
    if (!hooks[i].section) {
        config_set_defaults(&hooks[i], OWNER_WEBHOOK);
        hooks[i].section = xstrdup(section);
    }
    r->owner = OWNER_WEBHOOK;
    r->object = &hooks[i];
    r->webhook = i;
    return 0;
}

/* Checks a line with "[section]" alone against the table of keys. */
static int check_section(struct reading *r, const char *s, size_t len)
{
    const char *close = memchr(s, ']', len);
    if (!close)
        return config_fail(r, "a section without ']'; allowed: [section]");
    if (has_late_comment(s, len, ';') || has_late_comment(s, len, '#'))
        return fail_late_comment(r, has_late_comment(s, len, ';') ? ';' : '#');
    if (close + 1 < s + len)
        return config_fail(r, "text after a section; allowed: [section] alone on its line");
    SCOPED(xfree) char *name = xstrndup(s + 1, len - 2);
    SCOPED(buf_free) struct buf shown = {0}, allowed = {0};
    const char *near = NULL;
    bool known = false;
    const char *part = text_starts(name, LEDGER) ? "ledger" : name;
    if (!config_has_part(part))
        return config_fail(r, "[%s]: " CONFIG_NO_PART, name, part);
    if (text_starts(name, LEDGER))
        return begin_ledger(r, name + sizeof LEDGER - 1);
    if (strcmp(name, WEBHOOK) == 0 || text_starts(name, WEBHOOK "."))
        return begin_webhook(r, name);
    r->owner = OWNER_CONFIG;
    r->object = r->c;
    for (size_t i = 0; i < config_key_count; i++) {
        const char *section = config_keys[i].section;
        if (i && strcmp(section, config_keys[i - 1].section) == 0)
            continue;
        bool ledger = config_owner(&config_keys[i]) == OWNER_LEDGER;
        known |= !ledger && strcmp(section, name) == 0;
        buf_printf(&allowed, "%s[%s%s]", i ? ", " : "", section, ledger ? " NAME" : "");
        if (config_owner(&config_keys[i]) == OWNER_WEBHOOK)
            buf_adds(&allowed, ", [" WEBHOOK ".NAME]");
        config_nearer(name, section, &near);
    }
    if (!known) {
        text_clean(&shown, name, VALUE_SHOWN_MAX);
        config_fail(r, "[%s]: not a known section; allowed: %s", shown.p, allowed.p);
        if (near)
            err_hint(r->e, "did you mean [%s%s]?", near,
                     strcmp(near, "ledger") == 0 ? " NAME" : "");
    }
    return known ? 0 : -1;
}

/* `s` has no trailing blanks; `size` is that of libinih's buffer. */
static int check_line(struct reading *r, const char *s, size_t len, int size)
{
    if (check_bytes(r, s, len) < 0)
        return -1;
    if (len >= (size_t)size) {
        config_fail(r, "a line of %zu bytes; allowed: at most %d", len, size - 1);
        return err_hint(r->e, "the INI library has this limit: shorten the line");
    }
    size_t indent = 0;
    while (indent < len && config_blank(s[indent]))
        indent++;
    if (indent == len || s[indent] == ';' || s[indent] == '#')
        return 0;
    if (indent) {
        config_fail(r, "an indented line; allowed: text from the first column on");
        return err_hint(r->e, "remove the leading blanks; a value cannot span several lines");
    }
    /* names are sent to a server as UTF-8, and alerts are JSON */
    if (!text_utf8_valid(s, len)) {
        config_fail(r, "not UTF-8; allowed: text in UTF-8");
        return err_hint(r->e, "save the file as UTF-8");
    }
    if (s[0] == '[')
        return check_section(r, s, len);
    if (has_late_comment(s, len, ';'))
        return fail_late_comment(r, ';');
    size_t key = 0;
    while (key < len && s[key] != '=' && s[key] != ':')
        key++;
    if (key == len || key == 0) /* the text is not shown: it may be a secret */
    {
        config_fail(r, "neither [section] nor key = value nor a comment");
        return err_hint(r->e, "a comment begins with ; or # in the first column");
    }
    return 0;
}

/* libinih's fgets(): one line, checked, without its line end; NULL ends the reading. */
static char *config_next_line(char *out, int size, void *arg)
{
    struct reading *r = arg;
    if (r->line_size == 0)
        r->line_size = size;
    /* With a smaller buffer libinih (versions newer than Debian's) asks for the rest of a line that
     * it believes truncated, because it got no line end. There is no rest. */
    if (r->failed || size < r->line_size || r->at >= r->end)
        return NULL;
    const char *s = r->at, *nl = memchr(s, '\n', (size_t)(r->end - s));
    const char *stop = nl ? nl : r->end;
    r->at = nl ? nl + 1 : r->end;
    r->line++;
    if (nl && stop > s && stop[-1] == '\r')
        stop--;
    while (stop > s && config_blank(stop[-1]))
        stop--;
    if (check_line(r, s, (size_t)(stop - s), size) < 0)
        return NULL;
    memcpy(out, s, (size_t)(stop - s));
    out[stop - s] = '\0';
    return out;
}

/* ---- keys ---- */

/* Returns true if no message may show its value. */
static bool is_secret(enum config_kind kind)
{
    return kind == CONFIG_SECRET || kind == CONFIG_WEB_URL || kind == CONFIG_MAIL_URL ||
           kind == CONFIG_STORE_URL || kind == CONFIG_WEB_URLS;
}

/* Returns true for a kind of name that may contain " #", which in other values is treated as an
 * intended comment. */
static bool is_any_name(enum config_kind kind)
{
    return kind == CONFIG_SCHEMA || kind == CONFIG_TABLE || kind == CONFIG_USER ||
           kind == CONFIG_NAME || kind == CONFIG_COLUMNS;
}

/* Checks for the most likely mistakes: another section's key, a misspelled word, a password instead
 * of its file. */
static void fail_unknown_key(struct reading *r, const char *section, const char *name)
{
    SCOPED(buf_free) struct buf shown = {0}, allowed = {0}, others = {0};
    const char *near = NULL;
    text_clean(&shown, name, VALUE_SHOWN_MAX);
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        if (strcmp(k->name, name) == 0)
            buf_printf(&others, "%s[%s]", others.len ? ", " : "", k->section);
        if (strcmp(k->section, section) != 0)
            continue;
        buf_printf(&allowed, "%s%s", allowed.len ? ", " : "", k->name);
        config_nearer(name, k->name, &near);
    }
    if (section[0])
        config_fail(r, "[%s] %s: not a known key; allowed: %s", section, shown.p, allowed.p);
    else
        config_fail(r, "%s: a key before the first [section]", shown.p);
    if (others.len)
        err_hint(r->e, "'%s' belongs to %s", name, others.p);
    else if (near)
        err_hint(r->e, "did you mean '%s'?", near);
    else if (text_starts(name, "pass") || text_starts(name, "secret"))
        err_hint(
            r->e,
            "put the password in its own file (mode 0600) and name that file in password_file");
}

static void fail_value(struct reading *r, const char *section, const struct config_key *k,
                       const char *value, const struct err *bad)
{
    /* more people read logs and terminals than this file */
    SCOPED(buf_free) struct buf shown = {0};
    if (is_secret(k->kind)) {
        buf_adds(&shown, "(not shown)");
    } else {
        buf_addc(&shown, '\'');
        text_clean(&shown, value, VALUE_SHOWN_MAX);
        buf_addc(&shown, '\'');
    }
    config_fail(r, "[%s] %s: value %s %s", section, k->name, shown.p, bad->text);
    err_hint(r->e, "%s", bad->hint);
}

/* libinih's handler: checks and stores one key. The reader has checked the line itself, and made
 * the section's struct. */
static int on_key(void *arg, const char *section, const char *name, const char *value)
{
    struct reading *r = arg;
    struct err bad = {0};
    const char *known = r->owner == OWNER_LEDGER    ? "ledger"
                        : r->owner == OWNER_WEBHOOK ? WEBHOOK
                                                    : section;
    int i = config_key_find(known, name);
    unsigned *lines = r->owner == OWNER_WEBHOOK ? r->src.webhook_line[r->webhook] : r->src.line;
    if (r->failed)
        return 0;
    if (i < 0) {
        fail_unknown_key(r, known, name);
    } else if (lines[i]) {
        config_fail(r, "[%s] %s: given twice; allowed: once", section, name);
        err_hint(r->e, "the first one is in line %u", lines[i]);
    } else if (value[0] == '\0') {
        config_fail(r, "[%s] %s: no value", section, name);
        err_hint(r->e, "to omit the key, put '#' before it");
    } else if (!is_any_name(config_keys[i].kind) && has_late_comment(value, strlen(value), '#')) {
        fail_late_comment(r, '#');
    } else if (config_set(r->object, &config_keys[i], value, &bad) < 0) {
        fail_value(r, section, &config_keys[i], value, &bad);
    } else {
        lines[i] = r->line;
    }
    return !r->failed;
}

/* ---- the file ---- */

/* Checks owner and mode, because write access to the config controls which files this program
 * writes and where it sends data. */
static int config_check_file(int fd, const char *path, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_set(e, ERR_CONFIG, errno, "%s: cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_CONFIG, 0, "%s: %s; allowed: a regular file", path,
                       S_ISDIR(st.st_mode)    ? "a directory"
                       : S_ISFIFO(st.st_mode) ? "a FIFO"
                                              : "a device or socket");
    if (st.st_mode & 022) {
        err_set(e, ERR_CONFIG, 0,
                "%s: it is writable by other users (mode %04o); allowed: at most 0755", path,
                (unsigned)st.st_mode & 07777);
        file_hint(e, "chmod go-w", path);
        return -1;
    }
    if (st.st_uid != 0 && st.st_uid != geteuid() && geteuid() != 0) {
        err_set(e, ERR_CONFIG, 0, "%s: belongs to another user (uid %u); allowed: root or uid %u",
                path, (unsigned)st.st_uid, (unsigned)geteuid());
        file_hint(e, "chown root", path);
        return -1;
    }
    return 0;
}

static int config_read_file(const char *path, struct buf *out, struct err *e)
{
    struct err why = {0};
    struct stat st;
    /* O_NONBLOCK: a FIFO is refused, not waited for */
    SCOPED(file_close) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    int num = errno;
    if (fd < 0 && num == ENOENT && lstat(path, &st) == 0) {
        err_set(e, ERR_CONFIG, num, "%s: a symbolic link to nothing", path);
        return err_hint(e, "correct the link, or name the file itself");
    }
    if (fd < 0) {
        err_set(e, ERR_CONFIG, num, "%s: cannot be opened: %s", path, strerror(num));
        if (num == ENOENT)
            err_hint(e, "copy example.ini there and edit it: it explains every key");
        return -1;
    }
    if (config_check_file(fd, path, e) < 0)
        return -1;
    if (file_read_fd(fd, path, FILE_BYTES_MAX, out, &why) == 0)
        return 0;
    if (why.num == EFBIG)
        return err_set(e, ERR_CONFIG, 0, "%s: too large; allowed: at most %d bytes", path,
                       FILE_BYTES_MAX);
    return err_set(e, ERR_CONFIG, why.num, "%s: cannot be read: %s", path, strerror(why.num));
}

int config_load(const char *path, struct config **out, struct err *e)
{
    static const char bom[] = "\xef\xbb\xbf";
    SCOPED(buf_free) struct buf file = {.secret = true}; /* URLs may contain tokens */
    struct reading r = {.src.path = path, .e = e};
    if (config_read_file(path, &file, e) < 0)
        return -1;
    r.at = file.p + (text_starts(file.p, bom) ? sizeof bom - 1 : 0);
    r.end = file.p + file.len;
    r.c = xcalloc(1, sizeof *r.c);
    r.c->path = xstrdup(path);
    config_set_defaults(r.c, OWNER_CONFIG);
    r.object = r.c;
    /* it calls config_next_line() for each line, and on_key() for each key in it */
    int bad = ini_parse_stream(config_next_line, &r, on_key, &r);
    if (bad != 0 && !r.failed) { /* libinih rejects what config_next_line() accepted: no config */
        r.line = bad > 0 ? (unsigned)bad : r.line;
        config_fail(&r, "the INI library cannot read this line");
    }
    if (r.failed || config_check(r.c, &r.src, e) < 0) {
        config_free(r.c);
        return -1;
    }
    *out = r.c;
    return 0;
}

static void free_fields(void *object, enum config_owner owner)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        void *field = (char *)object + k->offset;
        if (config_owner(k) != owner)
            continue;
        if (k->kind >= CONFIG_TEXTS)
            xfree(field);
        else if (k->kind == CONFIG_MAILS || k->kind == CONFIG_COLUMNS)
            config_list_free(field);
    }
}

void config_free(struct config *c)
{
    if (!c)
        return;
    free_fields(c, OWNER_CONFIG);
    for (unsigned n = 0; n < c->ledger_count; n++)
        free_fields(&c->ledgers[n], OWNER_LEDGER);
    for (unsigned n = 0; n < CONFIG_WEBHOOKS; n++) {
        free_fields(&c->webhooks[n], OWNER_WEBHOOK);
        free(c->webhooks[n].section);
    }
    for (unsigned n = 0; n < c->ledger_count; n++)
        free(c->ledgers[n].name);
    free(c->path);
    free(c);
}

bool config_any_channel(const struct config *c)
{
    unsigned i = 0;
    while (i < CONFIG_WEBHOOKS && !config_webhook_on(&c->webhooks[i]))
        i++;
    return i < CONFIG_WEBHOOKS || c->smtp.url;
}

/* Slot of that section, or CONFIG_WEBHOOKS. */
static unsigned config_slot_of(const struct config *c, const char *section)
{
    unsigned i = 0;
    while (i < CONFIG_WEBHOOKS &&
           (!c->webhooks[i].section || strcmp(c->webhooks[i].section, section) != 0))
        i++;
    return i;
}

void config_keep_slots(const struct config *old, struct config *fresh)
{
    struct config_webhook *w = fresh->webhooks;
    for (unsigned i = 0; i < CONFIG_WEBHOOKS; i++) {
        unsigned at = old->webhooks[i].section ? config_slot_of(fresh, old->webhooks[i].section)
                                               : CONFIG_WEBHOOKS;
        if (at == CONFIG_WEBHOOKS || at == i)
            continue;
        struct config_webhook other = w[i]; /* its own turn may come later */
        w[i] = w[at];
        w[at] = other;
    }
}
