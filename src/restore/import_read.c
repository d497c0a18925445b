#include "restore/import_read.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/gunzip.h"
#include "base/gzip.h"
#include "base/text.h"
#include "dump/format.h"
#include "sql/token.h"

#define STATEMENT_MAX (1u << 30) /* as the largest max_allowed_packet */

struct source {
    struct gunzip *in;
    struct import_reading *r;
    struct buf text, delimiter;
    size_t at;
    uint64_t number, line; /* line: of `at` */
    bool eof;
    bool open; /* statements came after the last closing line */
    bool cut;  /* a part began before the previous one was closed */
};

/* ---- what the file is ---- */

static const struct magic {
    const char *bytes;
    size_t len;
    const char *what, *pipe; /* the command that makes text of it */
} magics[] = {
    {"\xfd"
     "7zXZ",
     5, "compressed with xz", "xz -dc"},
    {"\x28\xb5\x2f\xfd", 4, "compressed with zstd", "zstd -dc"},
    {"BZh", 3, "compressed with bzip2", "bzip2 -dc"},
    {"\x04\x22\x4d\x18", 4, "compressed with lz4", "lz4 -dc"},
    {"7z\xbc\xaf\x27\x1c", 6, "a 7-Zip archive", "7z e -so"},
    {"PK\x03\x04", 4, "a ZIP archive", "unzip -p"},
    {"\xff\xfe", 2, "text in UTF-16", "iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff", 2, "text in UTF-16", "iconv -f UTF-16 -t UTF-8"},
};

/* Text in UTF-16 without a mark has a zero byte in each pair. */
static const struct magic *magic_of(const char *head, size_t len)
{
    static const struct magic pairs[] = {
        {"", 0, "text in UTF-16", "iconv -f UTF-16LE -t UTF-8"},
        {"", 0, "text in UTF-16", "iconv -f UTF-16BE -t UTF-8"},
    };
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (len >= magics[i].len && memcmp(head, magics[i].bytes, magics[i].len) == 0)
            return &magics[i];
    if (len >= 4 && head[0] && !head[1] && head[2] && !head[3])
        return &pairs[0];
    if (len >= 4 && !head[0] && head[1] && !head[2] && head[3])
        return &pairs[1];
    return NULL;
}

static int refuse_magic(const char *name, const struct magic *m, struct err *e)
{
    SCOPED(buf_free) struct buf command = {0};
    buf_printf(&command, "%s ", m->pipe);
    buf_shell(&command, name);
    buf_adds(&command, " > ");
    SCOPED(xfree) char *to = xasprintf("%s.sql", name);
    buf_shell(&command, to);
    err_set(e, ERR_REFUSED, 0, "%s is %s; --restore reads plain SQL and gzip", name, m->what);
    return err_hint(e, "%s", command.p);
}

static int open_source(int fd, struct source *s, struct err *e)
{
    char head[16] = "";
    const char *name = s->r->name;
    ssize_t got = lseek(fd, 0, SEEK_SET) < 0 ? -1 : read(fd, head, sizeof head);
    if (got < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(e, errno, "cannot read %s", name);
    const struct magic *m = magic_of(head, (size_t)got);
    if (m)
        return refuse_magic(name, m, e);
    bool packed = head[0] == '\x1f' && head[1] == '\x8b';
    s->in = packed ? gunzip_open(fd, name, e) : gunzip_open_plain(fd, name, e);
    return s->in ? 0 : -1;
}

/* ---- its text ---- */

/* Reads more text. The byte 0 at its end is for the string functions. */
static int import_read_fill(struct source *s, struct err *e)
{
    if (s->text.len - s->at > STATEMENT_MAX)
        return err_set(e, ERR_DAMAGED, 0, "%s, line %llu: the statement is not terminated",
                       s->r->name, (unsigned long long)s->line);
    return format_fill(s->in, &s->text, &s->at, &s->eof, e);
}

static void go_to(struct source *s, size_t at)
{
    if (at == s->at) /* nothing may have been read yet */
        return;
    const char *from = s->text.p + s->at, *end = s->text.p + at;
    while (from < end && (from = memchr(from, '\n', (size_t)(end - from)))) {
        s->line++;
        from++;
    }
    s->at = at;
}

/* Returns whether the line is "-- 2026-01-31 23:59:59", which is all that Adminer writes at the
 * end. */
static bool import_read_is_time(const char *line)
{
    static const char form[] = "-- dddd-dd-dd dd:dd:dd";
    for (size_t i = 0; form[i]; i++)
        if (form[i] == 'd' ? !text_is_digit(line[i]) : line[i] != form[i])
            return false;
    return true;
}

/* Concatenated files (cat a.sql b.sql) are parts, each with its own opening and closing line. */
static void note_line(struct source *s, const char *line)
{
    static const char *const heads[] = {"-- MySQL dump ",         "-- MariaDB dump ", "-- Adminer ",
                                        "-- phpMyAdmin SQL Dump", FORMAT_MAGIC,       NULL};
    if (text_starts(line, "-- Dump completed") || text_starts(line, FORMAT_TRAILER) ||
        import_read_is_time(line))
        s->open = false;
    for (const char *const *h = heads; *h; h++)
        s->cut |= text_starts(line, *h) && s->open;
}

/* Skips the rest of a line, which may be longer than the text that was read. */
static int skip_comment_line(struct source *s, struct err *e)
{
    for (;;) {
        const char *nl = memchr(s->text.p + s->at, '\n', s->text.len - s->at);
        go_to(s, nl ? (size_t)(nl + 1 - s->text.p) : s->text.len);
        if (nl || s->eof)
            return 0;
        if (import_read_fill(s, e) < 0)
            return -1;
    }
}

/* Skips whitespace, "-- …" lines and comments before a statement. */
static int skip_front(struct source *s, struct err *e)
{
    for (;;) {
        size_t at = s->at;
        while (at < s->text.len && isspace((unsigned char)s->text.p[at]))
            at++;
        go_to(s, at);
        if (s->text.len - s->at < 4096 && !s->eof) {
            if (import_read_fill(s, e) < 0)
                return -1;
            continue;
        }
        const char *from = s->text.p + s->at;
        /* MariaDB's sandbox mark is a conditional comment that no server executes. */
        bool comment = text_starts(from, "/*!999999") || text_starts(from, "/*M!999999") ||
                       (text_starts(from, "/*") && from[2] != '!' && from[2] != 'M');
        const char *close = comment ? strstr(from + 2, "*/") : NULL;
        if (close) {
            close += 2;
            go_to(s, (size_t)(close - s->text.p) + (*close == ';'));
            continue;
        }
        if (strncmp(from, "--", 2) != 0 && from[0] != '#')
            return 0;
        note_line(s, from);
        if (skip_comment_line(s, e) < 0)
            return -1;
    }
}

/* Returns 1 if there was a DELIMITER line. An empty delimiter is refused, because it would match
 * everywhere. */
static int take_delimiter(struct source *s, struct err *e)
{
    const char *from = s->text.p + s->at;
    if (strncasecmp(from, "DELIMITER ", 10) != 0)
        return 0;
    size_t len = strcspn(from, "\r\n");
    if (len == 10)
        return err_set(e, ERR_DAMAGED, 0, "%s, line %llu: DELIMITER without a delimiter",
                       s->r->name, (unsigned long long)s->line);
    size_t end = len;
    while (end > 11 && (from[end - 1] == ' ' || from[end - 1] == '\t'))
        end--;
    buf_clear(&s->delimiter);
    buf_add(&s->delimiter, from + 10, end - 10);
    go_to(s, s->at + len);
    return 1;
}

static int refuse_cut(struct source *s, struct err *e)
{
    s->r->cut_line = s->line;
    s->cut = true; /* the file ends within a statement, which is left out */
    if (s->r->accept_cut)
        return 0;
    err_set(e, ERR_DAMAGED, 0,
            "%s ends within the statement that begins in line %llu: it is truncated", s->r->name,
            (unsigned long long)s->line);
    return err_hint(e, "--accept-cut restores all statements before it");
}

/* Returns 1 for a statement, 0 if there are no more. The last bytes of the text are held back until
 * more was read, because a delimiter may be cut there. */
static int next_statement(struct source *s, struct import_statement *st, struct err *e)
{
    struct sql_scan scan = {.plain = s->r->plain};
    /* `done`: bytes that were scanned already, and are not scanned again when there is more text */
    size_t done = 0, hold = s->delimiter.len + 1;
    for (;;) {
        size_t have = s->text.len - s->at, upto = s->eof ? have : have > hold ? have - hold : 0;
        const char *from = s->text.p + s->at, *end = NULL;
        if (upto > done)
            end = sql_find_end(from + done, from + upto, s->delimiter.p, &scan);
        if (end) {
            *st = (struct import_statement){
                .sql = from, .len = (size_t)(end - from), .number = ++s->number, .line = s->line};
            return 1;
        }
        if (s->eof)
            return have && strspn(from, " \r\n\t") < have ? refuse_cut(s, e) : 0;
        done = upto > done ? upto : done;
        if (import_read_fill(s, e) < 0)
            return -1;
    }
}

/* Skips the byte order mark that Windows programs put before UTF-8, as the stock client does. */
static int skip_mark(struct source *s, struct err *e)
{
    static const char mark[] = "\xef\xbb\xbf";
    while (s->text.len < strlen(mark) && !s->eof)
        if (import_read_fill(s, e) < 0)
            return -1;
    if (text_starts(s->text.p, mark))
        s->at = strlen(mark);
    return 0;
}

static int each_statement(struct source *s, import_statement_fn *fn, void *arg, struct err *e)
{
    struct import_statement st = {0};
    if (skip_mark(s, e) < 0)
        return -1;
    for (;;) {
        if (skip_front(s, e) < 0)
            return -1;
        int got = take_delimiter(s, e);
        if (got < 0)
            return -1;
        if (got > 0)
            continue;
        if (s->at == s->text.len && s->eof)
            return 0;
        got = next_statement(s, &st, e);
        if (got <= 0)
            return got;
        s->r->last_line = st.line;
        if (fn(arg, &st, e) < 0)
            return -1;
        s->cut |= st.begins && s->open;
        s->open = !st.closes;
        go_to(s, s->at + st.len + s->delimiter.len);
    }
}

int import_read(int fd, struct import_reading *r, import_statement_fn *fn, void *arg, struct err *e)
{
    struct source s = {.r = r, .line = 1};
    r->ends = false;
    r->cut_line = r->last_line = 0;
    buf_adds(&s.delimiter, ";");
    int rc = open_source(fd, &s, e) < 0 ? -1 : each_statement(&s, fn, arg, e);
    r->ends = s.number > 0 && !s.open && !s.cut;
    if (rc == 0)
        gunzip_sha256(s.in, r->sha256);
    gunzip_close(s.in);
    buf_free(&s.text);
    buf_free(&s.delimiter);
    return rc;
}
