#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/line.h"

/* JSON and processes use the names, the manual (EXIT STATUS) the numbers: both must stay. */
static const struct {
    const char *name;
    int exit;
} classes[] = {
    [ERR_NONE] = {"none", 1},        [ERR_USAGE] = {"usage", 2},
    [ERR_CONFIG] = {"config", 2},    [ERR_SYSTEM] = {"system", 1},
    [ERR_NOSPACE] = {"no-space", 1}, [ERR_UNREACHABLE] = {"unreachable", 1},
    [ERR_STALLED] = {"stalled", 1},  [ERR_DENIED] = {"denied", 1},
    [ERR_QUERY] = {"query", 1},      [ERR_CHANGED] = {"changed", 1},
    [ERR_DAMAGED] = {"damaged", 1},  [ERR_REFUSED] = {"refused", 4},
    [ERR_BUSY] = {"busy", 3},        [ERR_NOTHING] = {"nothing", 5},
    [ERR_UNWELL] = {"not-well", 6},  [ERR_ABORTED] = {"aborted", 1},
    [ERR_GAP] = {"gap", 1},          [ERR_CONDITION] = {"condition", 1},
};
#define CLASSES (sizeof classes / sizeof *classes)

int err_set(struct err *e, enum err_class cls, int num, const char *fmt, ...)
{
    if (e) {
        e->cls = cls;
        e->num = num;
        e->hint[0] = '\0';
        va_list ap;
        va_start(ap, fmt);
        line_vset(e->text, sizeof e->text, fmt, ap);
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
    line_vset(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    line_add(e->text, sizeof e->text, ": %s", strerror(num));
    /* For the admin, a full quota is a full disk. */
    e->cls = num == ENOSPC || num == EDQUOT ? ERR_NOSPACE : ERR_SYSTEM;
    e->num = num;
    e->hint[0] = '\0';
    if (e->cls == ERR_NOSPACE)
        err_hint(e, "make room on that file system; stored dumps are not affected");
    return -1;
}

int err_hint(struct err *e, const char *fmt, ...)
{
    if (!e)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    line_vset(e->hint, sizeof e->hint, fmt, ap);
    va_end(ap);
    return -1;
}

/* Journals and records keep one line per failure. */
void err_hint_in_text(struct err *e)
{
    if (e && e->hint[0])
        line_add(e->text, sizeof e->text, "; %s", e->hint);
}

int err_step(struct err *e, const char *fmt, ...)
{
    if (!e)
        return -1;
    char old[sizeof e->text];
    memcpy(old, e->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    line_vset(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    /* The outer step is kept in full; the end of the inner text is cut if necessary. */
    line_add(e->text, sizeof e->text, ": %s", old);
    return -1;
}

void err_clear(struct err *e)
{
    if (e)
        *e = (struct err){0};
}

bool err_among(const struct err *e, const int *nums)
{
    for (; *nums; nums++)
        if (e->num == *nums)
            return true;
    return false;
}

int err_pass(struct err *e, const struct err *from)
{
    if (e)
        *e = *from;
    return -1;
}

const char *err_class_name(enum err_class cls)
{
    return cls < CLASSES ? classes[cls].name : "unknown";
}

enum err_class err_class_of(const char *name)
{
    for (unsigned i = 0; i < CLASSES; i++)
        if (name && strcmp(classes[i].name, name) == 0)
            return i;
    return ERR_SYSTEM;
}

int err_exit(enum err_class cls)
{
    return cls < CLASSES ? classes[cls].exit : 1;
}
