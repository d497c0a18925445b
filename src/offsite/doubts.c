#include "offsite/doubts.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

void doubts_name(const char *world, char out[SEGMENT_NAME_MAX])
{
    snprintf(out, SEGMENT_NAME_MAX, "%.48s.unproven", world);
}

int doubts_read(int dirfd, const char *world, struct doubts *out, struct err *e)
{
    char file[SEGMENT_NAME_MAX];
    struct err why = {0};
    struct stat st;
    *out = (struct doubts){.names = {0}};
    doubts_name(world, file);
    if (fstat(dirfd, &st) < 0)
        return err_sys(e, errno, "cannot examine the journal's directory");
    out->changed = st.st_mtim;
    if (file_read(dirfd, file, (size_t)2 * DOUBTS_MAX, &out->names, &why) < 0 && why.num != ENOENT)
        return err_pass(e, &why);
    return 0;
}

void doubts_free(struct doubts *d)
{
    buf_free(&d->names);
}

char *doubts_find(const struct buf *names, const char *name)
{
    SCOPED(xfree) char *line = xasprintf("%s\n", name);
    return names->len ? strstr(names->p, line) : NULL;
}

void doubts_drop(const struct doubts *d, struct copies *c)
{
    char name[COPY_NAME_MAX];
    size_t kept = 0;
    for (size_t i = 0; i < c->part_count; i++) {
        copy_part_name(name, c->world, &c->parts[i]);
        if (!doubts_find(&d->names, name))
            c->parts[kept++] = c->parts[i];
    }
    c->part_count = kept;
}

/* Copies the line at `*at` and moves to the next one. Returns false at the end. */
static bool doubts_next(const char **at, char name[COPY_NAME_MAX])
{
    const char *end = *at ? strchr(*at, '\n') : NULL;
    if (!end)
        return false;
    snprintf(name, COPY_NAME_MAX, "%.*s", (int)(end - *at), *at);
    *at = end + 1;
    return true;
}

static bool has_later(const struct doubts *d, const char *world, uint64_t number, uint64_t at)
{
    char name[COPY_NAME_MAX];
    struct copy_part p;
    for (const char *line = d->names.p; doubts_next(&line, name);)
        if (copy_part_read(name, world, &p) &&
            (p.number > number || (p.number == number && p.from >= at)))
            return true;
    return false;
}

bool doubts_allow(const struct doubts *before, const struct doubts *after, const char *world,
                  uint64_t number, uint64_t at)
{
    return has_later(before, world, number, at) || has_later(after, world, number, at) ||
           (before->changed.tv_sec == after->changed.tv_sec &&
            before->changed.tv_nsec == after->changed.tv_nsec);
}
