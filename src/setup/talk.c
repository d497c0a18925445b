#include "setup/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "setup/interrupt.h"

#define LINE_MAX_SHOWN 2000
#define USUAL_COLUMNS 80 /* of a terminal that does not know its width */

static bool without_questions;

void talk_open(bool yes)
{
    without_questions = yes;
    setvbuf(stdout, NULL, _IOLBF, 0);
    setvbuf(stdin, NULL, _IONBF, 0); /* no buffer of the C library may keep a typed secret */
}

bool talk_asks(void)
{
    return !without_questions;
}

/* Returns the number of columns of UTF-8 text without wide characters. */
static size_t talk_width(const char *s, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += (s[i] & 0xc0) != 0x80;
    return n;
}

void talk_wrap(struct buf *out, const char *lead, const char *line, size_t width)
{
    size_t start = talk_width(lead, strlen(lead)), used = start;
    buf_adds(out, lead);
    for (bool first = true; *line; first = false) {
        size_t blanks = strspn(line, " "), n = strcspn(line + blanks, " ");
        size_t columns = talk_width(line + blanks, n);
        if (!first && n && used + blanks + columns > width) {
            buf_printf(out, "\n%s", lead);
            used = start;
        } else {
            buf_add(out, line, blanks);
            used += blanks;
        }
        buf_add(out, line + blanks, n);
        used += columns;
        line += blanks + n;
    }
}

/* Returns the terminal's width, which is queried each time, because it may be resized. A file or a
 * pipe gets whole lines. */
static size_t talk_columns(void)
{
    struct winsize w;
    if (!isatty(STDOUT_FILENO))
        return SIZE_MAX;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : USUAL_COLUMNS;
}

/* Prints lines, each after `lead`. NULL: the blanks at its own beginning are its lead. */
static void put_lines(const char *text, const char *lead, size_t width)
{
    while (*text) {
        SCOPED(buf_free) struct buf line = {0}, clean = {0}, shown = {0};
        size_t len = strcspn(text, "\n"), blanks = lead ? 0 : strspn(text, " ");
        SCOPED(xfree) char *own = xstrndup(text, blanks);
        buf_adds(&line, "");
        buf_add(&line, text + blanks, len - blanks);
        buf_adds(&clean, "");
        text_clean(&clean, line.p, LINE_MAX_SHOWN);
        if (len)
            talk_wrap(&shown, lead ? lead : own, clean.p, width);
        fputs(len ? shown.p : "", stdout);
        text += len;
        if (*text) {
            putchar('\n');
            text++;
        }
    }
    fflush(stdout);
}

void talk_say(const char *fmt, ...)
{
    SCOPED(buf_free) struct buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    put_lines(b.p, NULL, talk_columns());
}

void talk_line(const char *fmt, ...)
{
    SCOPED(buf_free) struct buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    put_lines(b.p, "", SIZE_MAX);
}

void talk_show(const char *text, const char *indent)
{
    put_lines(text, indent, SIZE_MAX);
}

void talk_reason(const char *text, const char *lead)
{
    put_lines(text, lead, talk_columns());
}

/* Returns why there is no answer. The terminal's cursor is still behind the question. */
static int talk_nobody(const char *question, struct err *e)
{
    if (isatty(STDIN_FILENO))
        talk_say("\n");
    if (interrupt_check(e) < 0)
        return -1;
    err_set(e, ERR_ABORTED, 0, "nobody answers the question: %s", question);
    return err_hint(
        e, "worldkeeper-setup --yes takes the defaults; worldkeeper-setup --help lists the "
           "options that answer questions");
}

int talk_ask(const char *question, const char *def, char **answer, struct err *e)
{
    SCOPED(xfree) char *line = NULL;
    size_t size = 0;
    *answer = NULL;
    if (without_questions) {
        *answer = xstrdup(def);
        return 0;
    }
    if (*def)
        talk_say("%s [%s]: ", question, def);
    else
        talk_say("%s: ", question);
    interrupt_wait(STDIN_FILENO);
    ssize_t n = interrupt_came() ? -1 : getline(&line, &size, stdin);
    if (n < 0 || line[n - 1] != '\n') /* a truncated line is not an answer */
        return talk_nobody(question, e);
    line[n - 1] = '\0';
    char *from = line + strspn(line, " \t\r");
    for (char *end = from + strlen(from); end > from && strchr(" \t\r", end[-1]);)
        *--end = '\0';
    *answer = xstrdup(*from ? from : def);
    return 0;
}

int talk_yes(const char *question, bool def, bool *answer, struct err *e)
{
    for (;;) {
        SCOPED(xfree) char *text = NULL;
        if (talk_ask(question, def ? "Y/n" : "y/N", &text, e) < 0 || !text)
            return -1;
        bool same = strcmp(text, "Y/n") == 0 || strcmp(text, "y/N") == 0;
        *answer = same ? def : strchr("yY", text[0]) != NULL;
        if (same || strchr("yYnN", text[0]))
            return 0;
        talk_say("y or n\n");
    }
}

/* ---- secrets ---- */

int talk_secret(const char *question, const char *option, struct buf *answer, struct err *e)
{
    struct termios before, quiet;
    answer->secret = true;
    if (without_questions || tcgetattr(STDIN_FILENO, &before) < 0) {
        err_set(e, ERR_USAGE, 0, "%s: secrets are read only from a terminal", question);
        return err_hint(e, "worldkeeper-setup %s", option);
    }
    quiet = before;
    quiet.c_lflag &= ~(tcflag_t)ECHO;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    talk_say("%s (not shown): ", question);
    int c = EOF;
    buf_reserve(answer, 256);
    buf_adds(answer, "");
    interrupt_wait(STDIN_FILENO);
    while (!interrupt_came() && (c = getchar()) != EOF && c != '\n')
        buf_addc(answer, (char)c);
    /* The echo is turned on also after a request to end, so setup must not end before. */
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    if (c != '\n')
        return talk_nobody(question, e);
    talk_say("\n");
    return 0;
}
