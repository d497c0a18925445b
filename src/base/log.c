#include "base/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

static enum log_level max_level = LOG_INFO_;
static bool to_journal;
static unsigned long unsaid; /* lines dropped since the last one written */

void log_open(enum log_level max)
{
    max_level = max;
    to_journal = getenv("JOURNAL_STREAM") != NULL;
}

bool log_in_journal(void)
{
    return to_journal;
}

/* The reader of a pipe or a socket may stall, and the supervisor must not stall with it. A line is
 * shorter than the space that poll() guarantees. */
static int has_room(void)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&p, 1, 0) != 0;
}

static void begin_line(struct buf *line, enum log_level level)
{
    char t[TEXT_SHORT];
    if (to_journal)
        buf_printf(line, "<%d>", (int)level);
    else
        buf_printf(line, "%s ", text_utc(clock_wall(), t));
}

static void log_say(const struct buf *line)
{
    if (!has_room()) {
        unsaid++;
        return;
    }
    ssize_t ignored = write(STDERR_FILENO, line->p, line->len); /* one call, so lines never mix */
    (void)ignored;
}

void log_line(enum log_level level, const char *fmt, ...)
{
    if (level > max_level)
        return;
    SCOPED(buf_free) struct buf raw = {0}, line = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&raw, fmt, ap);
    va_end(ap);
    if (unsaid && has_room()) {
        begin_line(&line, LOG_WARN_);
        buf_printf(&line,
                   "%lu lines before this one were dropped because the log's reader was too slow\n",
                   unsaid);
        unsaid = 0;
        log_say(&line);
        buf_clear(&line);
    }
    begin_line(&line, level);
    text_clean(&line, raw.p, 4000);
    buf_addc(&line, '\n');
    log_say(&line);
}

void log_err(enum log_level level, const char *what, const struct err *e)
{
    log_line(level, "%s: %s", what, e->text);
    if (e->hint[0])
        log_line(level, "HINT: %s", e->hint);
}
