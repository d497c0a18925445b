/* libcurl, loaded when the first message is sent. Linked the usual way it would load some 25 more
 * libraries and 4 MB of resident memory into the supervisor, which never sends anything itself. */
#ifndef WK_NET_CURL_H
#define WK_NET_CURL_H

#include <curl/curl.h>

#include "base/err.h"

/* clang-format off */
/* The functions that are used, by their names without "curl_". */
#define CURL_FUNCTIONS(each)                                                                       \
    each(global_init_mem) each(easy_init) each(easy_reset) each(easy_setopt) each(easy_perform)    \
    each(easy_getinfo) each(easy_cleanup) each(easy_strerror) each(slist_append)                   \
    each(slist_free_all) each(url) each(url_set) each(url_get) each(url_cleanup) each(free)        \
    each(version_info)
/* clang-format on */

struct curl_api {
#define CURL_MEMBER(name) __typeof__(&curl_##name) name;
    CURL_FUNCTIONS(CURL_MEMBER)
#undef CURL_MEMBER
};

/* Returns the table, loaded at the first call and kept until the process ends; NULL with an
 * error. */
const struct curl_api *curl_api(struct err *e);

#endif
