#include "core/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/text.h"

static enum log_level max_level = LOG_INFO_;
static int to_journal;

void log_open(enum log_level max)
{
    max_level = max;
    to_journal = getenv("JOURNAL_STREAM") != NULL;
}

void log_line(enum log_level level, const char *fmt, ...)
{
    if (level > max_level)
        return;
    struct buf raw = {0}, line = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&raw, fmt, ap);
    va_end(ap);
    char t[TEXT_SHORT];
    if (to_journal)
        buf_printf(&line, "<%d>", (int)level);
    else
        buf_printf(&line, "%s ", text_utc(clock_wall(), t));
    text_clean(&line, raw.p, 4000);
    buf_addc(&line, '\n');
    ssize_t ignored = write(STDERR_FILENO, line.p, line.len); /* one call: lines never mix */
    (void)ignored;
    buf_free(&raw);
    buf_free(&line);
}

void log_err(enum log_level level, const char *what, const struct err *e)
{
    log_line(level, "%s: %s", what, e->text);
    if (e->hint[0])
        log_line(level, "HINT: %s", e->hint);
}
