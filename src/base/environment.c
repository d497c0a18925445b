#include "base/environment.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* What systemd sets, what is read for time zone, language and terminal, and what builds and tests
 * need. A name that ends in '_' is a prefix. */
static const char kept[] =
    "CREDENTIALS_DIRECTORY RUNTIME_DIRECTORY NOTIFY_SOCKET JOURNAL_STREAM INVOCATION_ID WATCHDOG_ "
    "LISTEN_ TZ LANG LC_ TERM NO_COLOR COLUMNS PATH ASAN_OPTIONS UBSAN_OPTIONS LSAN_OPTIONS "
    "TSAN_OPTIONS GCOV_ WK_ WORLDKEEPER_FAULT";

static bool is_kept(const char *variable)
{
    size_t len = strcspn(variable, "="), n;
    for (const char *k = kept; *k; k += n + strspn(k + n, " ")) {
        n = strcspn(k, " ");
        if (len >= n && memcmp(variable, k, n) == 0 && (len == n || (n && k[n - 1] == '_')))
            return true;
    }
    return false;
}

/* In place: what libraries find is this very list, before any of them has looked. */
void environment_keep(void)
{
    char **to = environ;
    for (char **from = environ; from && *from; from++)
        if (is_kept(*from))
            *to++ = *from;
    if (to)
        *to = NULL;
}
