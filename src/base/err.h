/* Errors as values: what happened, its class, and what to do about it.
 *
 * A function that can fail returns 0 or -1 and fills its caller's `struct err` where the failure
 * happened; callers add the step with err_step() and pass it up to the log, the status, an alert
 * and the exit code. Library code never logs. Passing NULL is allowed.
 * Text that is too long is cut (base/line.h). It may hold names from the server, so print it
 * through text_clean() where control characters matter. Not thread-safe: one err per caller. */
#ifndef WK_BASE_ERR_H
#define WK_BASE_ERR_H

#include <stdbool.h>

enum err_class {
    ERR_NONE,
    ERR_USAGE,       /* command line */
    ERR_CONFIG,      /* config file or secret file */
    ERR_SYSTEM,      /* a system call failed */
    ERR_NOSPACE,     /* disk or quota full */
    ERR_UNREACHABLE, /* no connection, or it was lost */
    ERR_STALLED,     /* connected or connecting, but no answer in time */
    ERR_DENIED,      /* the server refused access (account, privileges, limits) */
    ERR_QUERY,       /* the server rejected a statement for another reason */
    ERR_CHANGED,     /* the server restarted or the world changed during a dump */
    ERR_DAMAGED,     /* a dump or manifest is damaged */
    ERR_REFUSED,     /* refused for safety */
    ERR_BUSY,        /* another instance or job holds the world */
    ERR_NOTHING,     /* no intact dump to restore from */
    ERR_UNWELL,      /* status or verify found a problem */
    ERR_ABORTED,     /* stopped on request */
    ERR_GAP,         /* changes are missing from the journal, and retrying cannot recover them */
    ERR_CONDITION,   /* status: up, with open conditions */
};

struct err {
    enum err_class cls;
    int num; /* errno or the server's error number */
    char text[1024];
    char hint[512];
};

/* Fills `e`. Always returns -1, so that callers can write `return err_set(...)`; so do err_sys(),
 * err_hint() and err_step(). */
int err_set(struct err *e, enum err_class cls, int num, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Like err_set() for an errno value: appends ": strerror"; ENOSPC and EDQUOT become ERR_NOSPACE. */
int err_sys(struct err *e, int num, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int err_hint(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends "; hint" to the text, for callers that keep only the text. */
void err_hint_in_text(struct err *e);
/* Prepends "step: " to the text. */
int err_step(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void err_clear(struct err *e);
/* Returns true if its number is in the list, which ends with 0. */
bool err_among(const struct err *e, const int *nums);
/* Copies `from`, an error that was collected separately, to `e`. Always returns -1. */
int err_pass(struct err *e, const struct err *from);

const char *err_class_name(enum err_class cls);
enum err_class err_class_of(const char *name); /* returns ERR_SYSTEM for an unknown name */
/* Returns the exit status for a failure of this class, as listed by --help. A failure without a
 * class (ERR_NONE) gives 1. */
int err_exit(enum err_class cls);

#endif
