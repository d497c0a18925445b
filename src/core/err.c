#include "core/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    enum err_class cls;
    const char *name;
    int exit;
} classes[] = {
    {ERR_NONE, "none", 0},       {ERR_USAGE, "usage", 2},      {ERR_CONFIG, "config", 2},
    {ERR_SYSTEM, "system", 1},   {ERR_NOSPACE, "no-space", 1}, {ERR_UNREACHABLE, "unreachable", 1},
    {ERR_STALLED, "stalled", 1}, {ERR_DENIED, "denied", 1},    {ERR_QUERY, "query", 1},
    {ERR_CHANGED, "changed", 1}, {ERR_DAMAGED, "damaged", 1},  {ERR_REFUSED, "refused", 4},
    {ERR_BUSY, "busy", 3},       {ERR_NOTHING, "nothing", 5},  {ERR_UNWELL, "not-well", 6},
    {ERR_ABORTED, "aborted", 1}, {ERR_GAP, "gap", 1},
};

int err_set(struct err *e, enum err_class cls, int num, const char *fmt, ...)
{
    if (e) {
        e->cls = cls;
        e->num = num;
        e->hint[0] = '\0';
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(e->text, sizeof e->text, fmt, ap);
        va_end(ap);
    }
    return -1;
}

int err_sys(struct err *e, int num, const char *fmt, ...)
{
    if (!e)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    size_t n = strlen(e->text);
    snprintf(e->text + n, sizeof e->text - n, ": %s", strerror(num));
    e->cls = num == ENOSPC || num == EDQUOT ? ERR_NOSPACE : ERR_SYSTEM;
    e->num = num;
    e->hint[0] = '\0';
    if (e->cls == ERR_NOSPACE)
        err_hint(e, "make room on that file system; dumps already stored are untouched");
    return -1;
}

void err_hint(struct err *e, const char *fmt, ...)
{
    if (!e)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->hint, sizeof e->hint, fmt, ap);
    va_end(ap);
}

void err_step(struct err *e, const char *fmt, ...)
{
    if (!e)
        return;
    char old[sizeof e->text];
    memcpy(old, e->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    size_t at = n < 0 ? 0 : (size_t)n;
    if (at < sizeof e->text - 1)
        snprintf(e->text + at, sizeof e->text - at, ": %.*s", (int)(sizeof e->text - at), old);
}

void err_clear(struct err *e)
{
    if (e)
        *e = (struct err){0};
}

const char *err_class_name(enum err_class cls)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (classes[i].cls == cls)
            return classes[i].name;
    return "unknown";
}

enum err_class err_class_of(const char *name)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (name && strcmp(classes[i].name, name) == 0)
            return classes[i].cls;
    return ERR_SYSTEM;
}

int err_exit(enum err_class cls)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (classes[i].cls == cls)
            return classes[i].exit;
    return 1;
}
