/* Errors as values: what happened, of which class, and the way out.
 *
 * A function that can fail returns 0 or -1 and fills a `struct err` of its caller at the place
 * where the failure happened; callers add the step with err_step() and carry it up to the log,
 * the status, an alert and the exit code. Library code never logs. Passing NULL is allowed.
 * Text is truncated, never overrun; it may hold names from the server, so print it through
 * text_clean() where control characters matter. No thread safety is needed: one err per caller. */
#ifndef WK_CORE_ERR_H
#define WK_CORE_ERR_H

enum err_class {
    ERR_NONE,
    ERR_USAGE,       /* command line */
    ERR_CONFIG,      /* config file or secret file */
    ERR_SYSTEM,      /* operating system said no */
    ERR_NOSPACE,     /* disk or quota full */
    ERR_UNREACHABLE, /* no connection, or it was lost */
    ERR_STALLED,     /* connected or connecting, but no answer in time */
    ERR_DENIED,      /* the server answers, but not to us (rights, limits, account) */
    ERR_QUERY,       /* the server refused a statement for another reason */
    ERR_CHANGED,     /* the server restarted or the world changed under a dump */
    ERR_DAMAGED,     /* a dump or manifest is not what it says */
    ERR_REFUSED,     /* refused for safety */
    ERR_BUSY,        /* another instance or job has the world */
    ERR_NOTHING,     /* nothing intact to restore from */
    ERR_UNWELL,      /* status or verify: not well */
    ERR_ABORTED,     /* told to stop */
    ERR_GAP,         /* changes are missing from the journal, and no retry brings them */
};

struct err {
    enum err_class cls;
    int num; /* errno, or the server's error number */
    char text[1024];
    char hint[512];
};

/* Fill `e`; always returns -1, so that `return err_set(...)` reads well. */
int err_set(struct err *e, enum err_class cls, int num, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for an errno value: the text gets ": strerror" behind it; ENOSPC/EDQUOT get ERR_NOSPACE.
 */
int err_sys(struct err *e, int num, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void err_hint(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Puts "step: " before the text. */
void err_step(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void err_clear(struct err *e);

const char *err_class_name(enum err_class cls);
enum err_class err_class_of(const char *name); /* ERR_SYSTEM for an unknown name */
/* Exit status of the program for this class: the table of --help. */
int err_exit(enum err_class cls);

#endif
