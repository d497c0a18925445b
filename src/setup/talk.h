/* The dialog of worldkeeper-setup: its output and its questions. Texts from a server or a file are
 * shown as printable lines. */
#ifndef WK_SETUP_TALK_H
#define WK_SETUP_TALK_H

#include <stdbool.h>

#include "base/err.h"
#include "base/text.h"

/* With `yes` nothing is asked: each question has its default. */
void talk_open(bool yes);
/* Prints sentences, one or more lines; each ends with "\n". They are wrapped at the terminal's
 * width, and each further line has the indent of the first. */
void talk_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Prints what can be copied: statements, commands, and what became of a file. Never wrapped. */
void talk_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Prints our own text unchanged, such as a file's. */
void talk_show(const char *text, const char *indent);
/* Prints sentences that are wrapped like those of talk_say(); each line begins with `lead`. */
void talk_reason(const char *text, const char *lead);
/* Appends `lead` and the line, wrapped between words so that each line has at most `width` columns.
 * A word that is wider stays whole, because it may be a path to copy. */
void talk_wrap(struct buf *out, const char *lead, const char *line, size_t width);
/* Asks a question. *answer: the caller frees it; an empty line is `def`, which may be "".
 * ERR_ABORTED: there is no answer, or Ctrl+C was pressed. */
int talk_ask(const char *question, const char *def, char **answer, struct err *e);
int talk_yes(const char *question, bool def, bool *answer, struct err *e);
/* Asks without an echo, from the terminal. ERR_USAGE: there is none; `option` is the
 * alternative. */
int talk_secret(const char *question, const char *option, struct buf *answer, struct err *e);
bool talk_asks(void); /* returns true if questions are asked */

#endif
