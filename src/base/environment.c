#include "base/environment.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* A name that ends in '_' is a prefix. */
static const char *const kept[] = {"CREDENTIALS_DIRECTORY",
                                   "RUNTIME_DIRECTORY",
                                   "NOTIFY_SOCKET",
                                   "JOURNAL_STREAM", /* systemd */
                                   "INVOCATION_ID",
                                   "WATCHDOG_",
                                   "LISTEN_", /* systemd */
                                   "TZ",
                                   "LANG",
                                   "LC_",
                                   "TERM",
                                   "NO_COLOR",
                                   "COLUMNS", /* screen */
                                   "PATH",
                                   "ASAN_OPTIONS",
                                   "UBSAN_OPTIONS",
                                   "LSAN_OPTIONS",
                                   "TSAN_OPTIONS", /* builds */
                                   "GCOV_",
                                   "WK_",
                                   "WORLDKEEPER_FAULT"}; /* tests */

static bool is_kept(const char *variable)
{
    size_t len = strcspn(variable, "=");
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        size_t n = strlen(kept[i]);
        bool begins = len >= n && memcmp(variable, kept[i], n) == 0;
        if (begins && (len == n || kept[i][n - 1] == '_'))
            return true;
    }
    return false;
}

void environment_keep(void)
{
    char **to = environ;
    for (char **from = environ; from && *from; from++)
        if (is_kept(*from))
            *to++ = *from;
    if (to)
        *to = NULL;
}
