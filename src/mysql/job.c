#include "mysql/job.h"

#include "base/text.h"

struct db *job_open(const struct job *job, struct err *e)
{
    struct db_params p = job->db;
    p.schema = job->cfg->schema;
    return db_open(&p, e);
}

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
