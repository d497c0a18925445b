#include "base/progress.h"

#include <stdio.h>

#include "base/text.h"

#define REPORT_EVERY_MS 200

/* Called for each row or block, so it limits the reports, which would cost more than the work. */
static void progress_report(struct progress *p, int at_once)
{
    mono_t now = clock_mono();
    if (!p->report || (!at_once && mono_since(now, p->reported) < REPORT_EVERY_MS))
        return;
    p->reported = now;
    p->report(p);
}

void progress_phase(struct progress *p, const char *phase, uint64_t rows_total,
                    uint64_t bytes_total)
{
    if (!p)
        return;
    p->phase = phase;
    p->table[0] = '\0';
    p->rows = p->bytes = 0;
    p->rows_total = rows_total;
    p->bytes_total = bytes_total;
    p->started = clock_mono();
    progress_report(p, 1);
}

void progress_table(struct progress *p, const char *table)
{
    if (!p)
        return;
    SCOPED(buf_free) struct buf b = {0};
    text_clean(&b, table, 200);
    snprintf(p->table, sizeof p->table, "%s", b.p);
    progress_report(p, 0);
}

void progress_at(struct progress *p, uint64_t rows, uint64_t bytes)
{
    if (!p)
        return;
    p->rows = rows;
    p->bytes = bytes;
    progress_report(p, 0);
}

int progress_percent(const struct progress *p)
{
    double part = p->bytes_total  ? (double)p->bytes / (double)p->bytes_total
                  : p->rows_total ? (double)p->rows / (double)p->rows_total
                                  : -1;
    if (part < 0)
        return -1;
    return part > 1 ? 100 : (int)(part * 100);
}
