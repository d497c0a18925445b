#include "page/site.h"
#include "parts/missing.h"

const char *const site_files[] = {NULL};

struct site *site_new(const struct config *c)
{
    return NULL;
}

void site_free(struct site *s)
{
}

void site_forget(struct site *s)
{
}

int site_publish(struct site *s, int dirfd, const json_t *status, const json_t *history,
                 struct err *e)
{
    return 0;
}
