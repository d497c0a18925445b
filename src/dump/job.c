#include "dump/job.h"

#include "base/text.h"

void job_note(const struct job *job, const char *fmt, ...)
{
    SCOPED(buf_free) struct buf b = {0};
    va_list ap;
    if (!job->note)
        return;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    job->note(job->note_arg, b.p);
}
