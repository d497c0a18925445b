/* The findings of verifying or loading a dump since it was stored. They are in NAME.proof beside
 * it, so that a damaged dump stays known as damaged. Without such a file the dump was last verified
 * when it was stored. */
#ifndef WK_STORE_PROOF_H
#define WK_STORE_PROOF_H

#include <jansson.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/err.h"

#define PROOF_ENDING ".proof"
/* Failed loads, for a reason in the dump, after which a dump is skipped. A single failure may be
 * temporary. */
#define PROOF_LOADS 2

struct proof {
    bool damaged;     /* its file does not match its manifest */
    int64_t failures; /* consecutive loads that the server refused because of the dump's content */
    wall_t at;        /* time of the last finding; ms 0: none since it was stored */
    char by[16];      /* "verify", "restore", "drill", "store upload", "store download" */
    char reason[400];
};

/* Reads the findings. An unreadable file counts as missing, and so does one without a valid
 * signature if a key is set (kept.h). Returns -1 if others could have written the file
 * (ERR_REFUSED); *out is empty then. */
int proof_read(int dirfd, const char *name, struct proof *out, struct err *e);
/* Signs the findings, if there are any, by kept_sign(). */
int proof_sign(int dirfd, const char *name, bool changed, struct err *e);
bool proof_unloadable(const struct proof *p);
int proof_intact(int dirfd, const char *name, const char *by, struct err *e);
int proof_damaged(int dirfd, const char *name, const char *by, const char *reason, struct err *e);
/* Counts a failed load; *out receives the updated findings. */
int proof_load_failed(int dirfd, const char *name, const char *by, const char *reason,
                      struct proof *out, struct err *e);
/* Writes "found damaged by a verify on …: …", to show an operator why a dump is not used. */
void proof_words(const struct proof *p, char *out, size_t size);
/* Lists all dumps in the directory that must not be used: [{dump, at, by, reason, loadable}]. */
json_t *proof_damaged_json(int dirfd);

#endif
