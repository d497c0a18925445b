#include "binlog/statement_words.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "binlog/statement_int.h"
#include "sql/literal.h"
#include "sql/token.h"

#define MARIADB_OPENS "/*M!"
#define VERSION_MIN 5u
#define VERSION_MAX 6u

static const char *skip_comment(const char *s, const char *end)
{
    const char *close = memmem(s + 2, (size_t)(end - s - 2), "*/", 2);
    return close ? close + 2 : end;
}

static const char *skip_line(const char *s, const char *end)
{
    const char *lf = memchr(s, '\n', (size_t)(end - s));
    return lf ? lf + 1 : end;
}

/* Returns the length of the opening of a version comment (MariaDB's own one has an M) with its
 * version, or 0. As in servers, the version is the first five or six digits; what follows is read
 * as statement text, even without a blank. */
static size_t version_opens(const char *s, const char *end)
{
    size_t left = (size_t)(end - s), digits = 0;
    size_t n = left >= 3 && memcmp(s, "/*!", 3) == 0    ? 3
               : left >= 4 && memcmp(s, "/*M!", 4) == 0 ? 4
                                                        : 0;
    while (n && digits < VERSION_MAX && n + digits < left && isdigit((unsigned char)s[n + digits]))
        digits++;
    return digits < VERSION_MIN ? n : n + digits;
}

bool words_after_version(const char *s, size_t at)
{
    for (size_t opens = 3; opens <= 4 + VERSION_MAX && opens <= at; opens++)
        if (version_opens(s + at - opens, s + at) == opens)
            return true;
    return false;
}

/* Returns whether a comment up to the end of the line begins here. Two dashes begin one before a
 * blank or a control character, of which DEL is one. */
static bool line_opens(const char *s, const char *end)
{
    return *s == '#' || (end - s > 2 && s[0] == '-' && s[1] == '-' &&
                         ((unsigned char)s[2] <= ' ' || s[2] == 0x7f));
}

/* Skips blanks and comments, but not version comments. */
static const char *words_skip_blank(const char *s, const char *end)
{
    while (s < end) {
        if (isspace((unsigned char)*s))
            s++;
        else if (end - s > 3 && s[0] == '/' && s[1] == '*' && !version_opens(s, end))
            s = skip_comment(s, end);
        else if (line_opens(s, end))
            s = skip_line(s, end);
        else
            break;
    }
    return s;
}

const char *words_skip_edges(const char *s, const char *end)
{
    for (;;) {
        s = words_skip_blank(s, end);
        size_t opens = version_opens(s, end);
        if (opens)
            s += opens;
        else if (end - s > 1 && s[0] == '*' && s[1] == '/')
            s += 2;
        else
            return s;
    }
}

bool words_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (c & 0x80);
}

bool words_next(struct words *w)
{
    size_t n = 0;
    w->s = w->through ? words_skip_edges(w->s, w->end) : words_skip_blank(w->s, w->end);
    w->quoted = w->s < w->end && *w->s == '`';
    if (w->s == w->end)
        return false;
    if (w->quoted) {
        struct buf name = {0};
        const char *after = sql_read_ident(w->s, w->end, &name);
        snprintf(w->word, sizeof w->word, "%s", after ? name.p : "");
        buf_free(&name);
        w->s = after ? after : w->end;
        return true;
    }
    do {
        if (n < sizeof w->word - 1)
            w->word[n++] = *w->s;
        w->s++;
    } while (w->s < w->end && words_char(w->s[-1]) && words_char(*w->s));
    w->word[n] = '\0';
    return true;
}

bool words_is(const struct words *w, const char *word)
{
    return !w->quoted && strcasecmp(w->word, word) == 0;
}

bool words_any(const struct words *w, const char *list)
{
    return !w->quoted && sql_find_word(list, w->word, strlen(w->word));
}

bool words_next_any(struct words *w, const char *list)
{
    return words_next(w) && words_any(w, list);
}

bool words_skip(struct words *w, const char *list)
{
    bool more;
    do
        more = words_next(w);
    while (more && words_any(w, list));
    return more;
}

bool words_dot(struct words *w)
{
    const char *next = w->through ? words_skip_edges(w->s, w->end) : words_skip_blank(w->s, w->end);
    if (next == w->end || *next != '.')
        return false;
    w->s = next + 1;
    return true;
}

bool words_at_version(const struct words *w)
{
    return version_opens(words_skip_blank(w->s, w->end), w->end) > 0;
}

bool words_name(const struct words *w)
{
    return w->quoted || words_char(w->word[0]);
}

/* ---- comments ---- */

bool words_for_mariadb(const char *sql, size_t len)
{
    return memmem(sql, len, MARIADB_OPENS, sizeof MARIADB_OPENS - 1) != NULL;
}

void words_blank_letters(struct buf *text)
{
    for (size_t i = 0; i < text->len; i++)
        if (text->p[i] & 0x80)
            text->p[i] = ' ';
}

/* ---- masking ---- */

/* Skips a quoted text. Returns NULL if it contains a backslash, because whether that escapes a
 * quote depends on the SQL mode of another session. */
const char *words_skip_text(const char *s, const char *end)
{
    const char *close = memchr(s + 1, *s, (size_t)(end - s - 1));
    return close && !memchr(s, '\\', (size_t)(close - s)) ? close + 1 : NULL;
}

/* Masks a quoted text. Keeps "…", which may be a name, and names in backticks. A doubled quote
 * within a literal looks like two adjacent literals, which become one. */
static const char *mask_text(const char *s, const char *end, struct buf *out)
{
    const char *after = words_skip_text(s, end);
    bool doubled = out->len && out->p[out->len - 1] == '\'';
    if (after && *s == '\'' && !doubled)
        buf_adds(out, "''");
    else if (after && *s != '\'')
        buf_add(out, s, (size_t)(after - s));
    return after;
}

/* Skips blanks and comments. `mysql`: also skips MariaDB's version comments, as MySQL does. */
static const char *skip_masked(const char *s, const char *end, bool mysql)
{
    const size_t opens = sizeof MARIADB_OPENS - 1;
    const char *from;
    do {
        from = s;
        s = words_skip_blank(s, end);
        if (mysql && (size_t)(end - s) >= opens && memcmp(s, MARIADB_OPENS, opens) == 0)
            s = skip_comment(s, end);
    } while (s > from);
    return s;
}

bool words_mask(const char *sql, size_t len, bool mysql, struct buf *out)
{
    const char *s = sql, *end = sql + len;
    /* In other character sets a quote may be the second byte of a character, so nothing is
     * masked. */
    bool text = text_utf8_valid(sql, len);
    buf_clear(out);
    buf_adds(out, "");
    while (text && s < end) {
        const char *next = skip_masked(s, end, mysql);
        if (next > s)
            buf_adds(out, " ");
        s = next;
        if (s == end)
            return true;
        if (!strchr("'\"`", *s)) {
            buf_add(out, s++, 1);
            continue;
        }
        next = mask_text(s, end, out);
        if (!next)
            break;
        s = next;
    }
    buf_add(out, s, (size_t)(end - s));
    return s == end;
}
