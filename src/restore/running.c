#include "restore/running.h"

#include "restore/plan.h"

int restore_plan(struct restore *r, struct err *e)
{
    plan_free(&r->plan);
    r->plan = (struct plan){.job = r->job,
                            .schema = r->schema,
                            .into = !restore_is(r)->world,
                            .elsewhere = restore_is(r)->elsewhere,
                            .copy = r->opt->mode == RESTORE_COPY,
                            .only = r->opt->tables.count ? &r->opt->tables : NULL};
    return plan_begin(&r->plan, r->db, e);
}
