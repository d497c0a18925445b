#include "check/option_file.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"

#define LARGEST (1u << 20)
#define DEPTH 4 /* limit for nested include files */
#define BLANKS " \t\r"

/* A part of a line. */
struct part {
    const char *s;
    size_t len;
};

static struct part option_file_trim(struct part p)
{
    for (; p.len > 0 && strchr(BLANKS, *p.s); p.s++)
        p.len--;
    while (p.len > 0 && strchr(BLANKS, p.s[p.len - 1]))
        p.len--;
    return p;
}

/* Compares an option name; "-" and "_" are equal in option names. */
static bool is_named(struct part p, const char *name)
{
    size_t i = 0;
    while (i < p.len && name[i] &&
           (p.s[i] == '-' ? '_' : tolower((unsigned char)p.s[i])) == name[i])
        i++;
    return i == p.len && !name[i];
}

static bool drop_prefix(struct part *p, const char *prefix)
{
    size_t n = strlen(prefix);
    if (p->len <= n || strncasecmp(p->s, prefix, n) != 0 || !strchr("-_", p->s[n]))
        return false;
    p->s += n + 1;
    p->len -= n + 1;
    return true;
}

void option_line(struct option_search *s, const char *line, size_t len)
{
    const char *equals = memchr(line, '=', len);
    struct part name =
        option_file_trim((struct part){line, equals ? (size_t)(equals - line) : len});
    drop_prefix(&name, "loose");
    bool off = drop_prefix(&name, "skip") || drop_prefix(&name, "disable");
    if (!off)
        drop_prefix(&name, "enable");
    if (!is_named(name, s->name))
        return;
    buf_clear(&s->value);
    if (!equals) {
        buf_addc(&s->value, off ? '0' : '1');
        return;
    }
    struct part value =
        option_file_trim((struct part){equals + 1, len - (size_t)(equals + 1 - line)});
    if (value.len >= 2 && strchr("'\"", *value.s) && value.s[value.len - 1] == *value.s)
        value = (struct part){value.s + 1, value.len - 2};
    buf_adds(&s->value, "");
    buf_add(&s->value, value.s, value.len);
}

/* Returns the length of a line without its trailing comment, which begins at the first # outside
 * quotes. */
static size_t before_comment(const char *line, size_t len)
{
    char quote = '\0';
    for (size_t i = 0; i < len; i++) {
        if (line[i] == '#' && !quote)
            return i;
        if (line[i] == '\\' && quote)
            i++;
        else if (strchr("'\"", line[i]) && (!quote || quote == line[i]))
            quote = quote ? '\0' : line[i];
    }
    return len;
}

/* Returns true for [mysqld], [server], [mariadb-10.11] and similar groups, but false for
 * [mysqld_safe] and [mariadb-dump]. */
static bool is_server_group(struct part p)
{
    static const char *const groups[] = {"mysqld", "server", "mariadb", "mariadbd", "galera"};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        size_t n = strlen(groups[i]);
        if (p.len >= n && strncmp(p.s, groups[i], n) == 0 &&
            (p.len == n || (p.len > n + 1 && p.s[n] == '-' && isdigit((unsigned char)p.s[n + 1]))))
            return true;
    }
    return false;
}

static void option_file_read_file(struct option_search *s, const char *path, unsigned depth);

static int option_file_by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void read_dir(struct option_search *s, const char *path, unsigned depth)
{
    SCOPED(names_free) struct names names = {0};
    DIR *dir = opendir(path);
    const struct dirent *d;
    while (dir && (d = readdir(dir))) {
        size_t n = strlen(d->d_name);
        if (n > 4 && strcmp(d->d_name + n - 4, ".cnf") == 0)
            names_add(&names, d->d_name);
    }
    if (dir)
        closedir(dir);
    if (names.count)
        qsort(names.list, names.count, sizeof *names.list, option_file_by_name);
    for (size_t i = 0; i < names.count; i++) {
        SCOPED(xfree) char *file = xasprintf("%s/%s", path, names.list[i]);
        option_file_read_file(s, file, depth);
    }
}

static void option_file_include(struct option_search *s, struct part line, unsigned depth)
{
    static const char dir[] = "!includedir", file[] = "!include";
    bool whole_dir = text_starts(line.s, dir);
    size_t n = whole_dir ? strlen(dir) : strlen(file);
    if (!whole_dir && !text_starts(line.s, file))
        return;
    struct part rest = option_file_trim((struct part){line.s + n, line.len > n ? line.len - n : 0});
    SCOPED(xfree) char *path = xstrndup(rest.s, rest.len);
    if (whole_dir)
        read_dir(s, path, depth + 1);
    else
        option_file_read_file(s, path, depth + 1);
}

static void option_file_read_file(struct option_search *s, const char *path, unsigned depth)
{
    SCOPED(buf_free) struct buf text = {0};
    struct err ignored;
    bool ours = false;
    if (depth > DEPTH)
        return;
    int fd = file_open_path(path, &ignored);
    int rc = fd < 0 ? -1 : file_read_fd(fd, path, LARGEST, &text, &ignored);
    if (fd >= 0)
        close(fd);
    if (rc < 0 || !text.p)
        return;
    s->looked_at++;
    for (const char *p = text.p; *p; p += *p == '\n') {
        size_t len = strcspn(p, "\n");
        struct part line = option_file_trim((struct part){p, len});
        const char *close_at = line.len ? memchr(line.s, ']', line.len) : NULL;
        p += len;
        if (!line.len || strchr("#;", *line.s))
            continue;
        if (*line.s == '[' && close_at)
            ours = is_server_group((struct part){line.s + 1, (size_t)(close_at - line.s) - 1});
        else if (*line.s == '!')
            option_file_include(s, line, depth);
        else if (ours)
            option_line(s, line.s, before_comment(line.s, line.len));
    }
}

void option_file(struct option_search *s, const char *path)
{
    option_file_read_file(s, path, 0);
}

void option_dir(struct option_search *s, const char *path)
{
    read_dir(s, path, 0);
}

void option_search_free(struct option_search *s)
{
    buf_free(&s->value);
}
