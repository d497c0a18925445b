/* The conversation of worldkeeper-setup: what it says, what it asks. Texts may name what a server or a file names: they are
 * shown as printable lines. */
#ifndef WK_SETUP_TALK_H
#define WK_SETUP_TALK_H

#include <stdbool.h>

#include "base/err.h"
#include "base/text.h"

/* With `yes` nothing is asked: each question has its default. */
void talk_open(bool yes);
/* One or more lines; each ends with "\n". */
void talk_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Text of our own as it is, such as a file's. */
void talk_show(const char *text, const char *indent);
/* *answer: malloc; an empty line is `def`, which may be "". ERR_ABORTED: nobody answers. */
int talk_ask(const char *question, const char *def, char **answer, struct err *e);
int talk_yes(const char *question, bool def, bool *answer, struct err *e);
/* Without an echo, from the terminal. ERR_USAGE: there is none; `option` is what to use then. */
int talk_secret(const char *question, const char *option, struct buf *answer, struct err *e);
bool talk_asks(void); /* Is anybody asked? */

#endif
