#include "base/steps.h"

#include <ctype.h>
#include <string.h>

/* Hints are written as sentences, by code that does not know where they are shown. Commands in them
 * are recognized by the program's own command line: options follow its name, and values follow the
 * options that take one. */

#define PROGRAM "worldkeeper"
#define RUNUSER "runuser -u "
#define CUT "..." /* the end of a text that was cut (base/line.h) */

void steps_free(struct steps *s)
{
    buf_free(&s->prose);
    for (size_t i = 0; i < STEPS_MAX; i++) {
        buf_free(&s->list[i].does);
        buf_free(&s->list[i].command);
    }
    *s = (struct steps){0};
}

/* Options whose value is a separate word (main.c has the table). */
static bool takes_value(const char *option, size_t len)
{
    static const char *const with[] = {"--from",  "--into",  "--table",   "--at",
                                       "--until", "--since", "--charset", "--config",
                                       "--world", "--sql",   "--release"};
    for (size_t i = 0; i < sizeof with / sizeof *with; i++)
        if (strlen(with[i]) == len && strncmp(option, with[i], len) == 0)
            return true;
    return false;
}

/* Returns the end of a shell word: quotes and backslashes keep blanks inside it. */
static const char *word_end(const char *s)
{
    char quote = '\0';
    for (; *s && (quote || *s != ' '); s++) {
        if (quote)
            quote = *s == quote ? '\0' : quote;
        else if (*s == '\'' || *s == '"')
            quote = *s;
        else if (*s == '\\' && s[1])
            s++;
    }
    return s;
}

/* Like word_end(), without the punctuation of the sentence around the word. */
static const char *word_cut(const char *from, const char *end)
{
    while (end > from && strchr(",;:.)", end[-1]))
        end--;
    return end;
}

/* Returns the end of the command whose options begin at `s`, right after the program's name. */
static const char *command_end(const char *s)
{
    const char *end = s;
    while (s[0] == ' ' && s[1] == '-' && s[2] == '-' && isalpha((unsigned char)s[3])) {
        const char *word = s + 1, *stop = word_end(word);
        end = word_cut(word, stop);
        if (end != stop)
            break;
        if (takes_value(word, (size_t)(end - word)) && *stop == ' ' && stop[1] && stop[1] != '-') {
            word = stop + 1;
            stop = word_end(word);
            end = word_cut(word, stop);
            if (end != stop)
                break;
        }
        s = stop;
    }
    return end;
}

/* Returns where runuser begins if it is right before the program's name, else `at`. */
static const char *with_runuser(const char *from, const char *at)
{
    const char *s = at - strlen(" -- ");
    if (s < from || strncmp(s, " -- ", 4) != 0)
        return at;
    while (s > from && s[-1] != ' ')
        s--;
    s -= strlen(RUNUSER);
    return s >= from && text_starts(s, RUNUSER) ? s : at;
}

/* Finds the first command of the program from `s` on. Returns false if there is none. */
static bool find_program(const char *s, const char **start, const char **end)
{
    for (const char *at = s; (at = strstr(at, PROGRAM " --")); at++) {
        const char *stop = command_end(at + strlen(PROGRAM));
        if (stop == at + strlen(PROGRAM)) /* the end of "runuser -u worldkeeper --" */
            continue;
        *start = with_runuser(s, at);
        *end = stop;
        return true;
    }
    return false;
}

/* Returns true if a command of another program begins here. *sql: a statement, which ends in a
 * semicolon. */
static bool other_begins(const char *at, bool first, bool *sql)
{
    static const char *const programs[] = {"systemctl ", "journalctl ", "ls -", "df -",
                                           "dmesg",      "gunzip -",    "mv /", "mv '"};
    static const char *const statements[] = {"GRANT ",      "ALTER ", "TRUNCATE ",
                                             "SET GLOBAL ", "SHOW ",  "UPDATE "};
    *sql = false;
    for (size_t i = 0; !first && i < sizeof programs / sizeof *programs; i++)
        if (text_starts(at, programs[i]))
            return true;
    *sql = true;
    for (size_t i = 0; i < (first ? 1 : sizeof statements / sizeof *statements); i++)
        if (text_starts(at, statements[i]))
            return true;
    return false;
}

/* Finds another program's command, or a statement (*sql). It ends its clause: "see who ended it:
 * journalctl -u worldkeeper@s8". */
static bool find_other(const char *s, const char *clause, const char **start, const char **end,
                       bool *sql)
{
    const char *at = s;
    if (!other_begins(s, true, sql))
        for (at = clause; at > s + 1; at--)
            if (at[-1] == ' ' && at[-2] == ':' && other_begins(at, false, sql))
                break;
    if (at == s + 1 || (at == s && !*sql))
        return false;
    *start = at;
    *end = *sql ? clause : word_cut(at, clause);
    return true;
}

/* Appends text without blanks, colons and commas at its edges. */
static void add_trimmed(struct buf *out, const char *from, const char *to)
{
    while (from < to && strchr(" ,:", *from))
        from++;
    while (to > from && strchr(" ,:", to[-1]))
        to--;
    buf_add(out, from, (size_t)(to - from));
}

static void add_prose(struct steps *out, const char *from, const char *to)
{
    SCOPED(buf_free) struct buf clause = {0};
    add_trimmed(&clause, from, to);
    if (clause.len)
        buf_printf(&out->prose, "%s%s", out->prose.len ? "; " : "", clause.p);
}

/* Returns true for "names what is missing", whose subject was the command itself. */
static bool lacks_subject(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz");
    return n > 1 && text[n - 1] == 's' && (text[n] == ' ' || !text[n]);
}

static void add_does(struct step *s, const char *from, const char *start, const char *end,
                     const char *clause)
{
    SCOPED(buf_free) struct buf after = {0};
    add_trimmed(&s->does, from, start);
    add_trimmed(&after, end, clause);
    if (after.len)
        buf_printf(&s->does, "%s%s",
                   s->does.len              ? " … "
                   : lacks_subject(after.p) ? "this command "
                                            : "",
                   after.p);
    buf_adds(&s->does, "");
}

/* Returns true if the text does not end where its author ended it (base/line.h). */
static bool steps_is_cut(const char *from, const char *to)
{
    return to - from >= 3 && strncmp(to - 3, CUT, 3) == 0;
}

/* Returns the last place before `to` where a text was cut (base/line.h): what comes before it may
 * contain the same letters. NULL: there is none. */
static const char *cut_before(const char *s, const char *to)
{
    const char *last = NULL;
    for (const char *at = s; (at = strstr(at, CUT)) && at < to; at++)
        if (!at[3] || strchr("; .,:)", at[3]))
            last = at;
    return last;
}

/* Returns true if a quotation begins here. A backtick always begins one. The other marks do where a
 * word begins and after a character set (SQL: _utf8mb4'text'); elsewhere they are apostrophes. */
static bool quote_opens(const char *hint, const char *at)
{
    const char *word = at;
    while (word > hint && (isalnum((unsigned char)word[-1]) || word[-1] == '_'))
        word--;
    return *at == '`' || ((*at == '\'' || *at == '"') &&
                          (at == hint || strchr(" (=,@:", at[-1]) || (word < at && *word == '_')));
}

/* Returns the quotation mark that closes the one at `open`; NULL: there is none. A doubled mark
 * (SQL) and the shell's '\'' do not close it. */
static const char *quote_close(const char *open)
{
    const char *at = open + 1;
    while ((at = strchr(at, *open))) {
        if (at[1] == *open)
            at += 2;
        else if (*open == '\'' && text_starts(at + 1, "\\''"))
            at += strlen("'\\''");
        else
            break;
    }
    return at;
}

char *steps_unquoted(const char *hint)
{
    char *copy = xstrdup(hint);
    size_t len = strlen(hint);
    for (size_t i = 0; i < len; i++) {
        if (!quote_opens(hint, hint + i))
            continue;
        const char *from = hint + i + 1, *close = quote_close(hint + i),
                   *cut = cut_before(from, close ? close : hint + len), *end = close ? close : cut;
        if (close && cut) {
            /* If the text was cut inside these quotes, the mark that was found belongs to another
             * quotation. No command after it is certain, so the rest counts as cut. */
            memset(copy + i, 'x', len - i);
            memcpy(copy + len - strlen(CUT), CUT, sizeof CUT);
            break;
        }
        if (!end) /* only a backtick is never an apostrophe */
            end = hint[i] == '`' ? hint + len : from;
        memset(copy + i + 1, 'x', (size_t)(end - from));
        i = (size_t)(end - hint) - (close ? 0 : 1);
    }
    return copy;
}

void steps_split(const char *hint, struct steps *out)
{
    SCOPED(xfree) char *plain = steps_unquoted(hint);
    *out = (struct steps){0};
    buf_adds(&out->prose, "");
    for (const char *s = plain; *s;) {
        const char *start = s, *end = s, *clause = strstr(s, "; ");
        bool cut = steps_is_cut(s, clause ? clause : s + strlen(s)), sql = false;
        struct step *next = out->count < STEPS_MAX && !cut ? &out->list[out->count] : NULL;
        bool program = !cut && find_program(s, &start, &end) && !(clause && start > clause);
        if (program && clause && clause < end) /* inside a quoted value */
            clause = strstr(end, "; ");
        if (!clause)
            clause = s + strlen(s);
        bool other = next && !program && find_other(s, clause, &start, &end, &sql);
        /* Places are found in the copy, and texts are taken from the hint. */
        const char *in = hint + (s - plain), *from = hint + (start - plain),
                   *to = hint + (end - plain), *stop = hint + (clause - plain);
        if (next && (program || other)) {
            buf_add(&next->command, from, (size_t)(to - from));
            if (sql && to[-1] != ';')
                buf_addc(&next->command, ';');
            add_does(next, in, from, other ? stop : to, stop);
            out->count++;
        } else {
            add_prose(out, in, stop);
        }
        s = clause + strspn(clause, "; ");
    }
}

void steps_df(struct buf *b, const char *dir)
{
    buf_adds(b, "this shows how full it is: df -h ");
    buf_shell(b, dir);
}
