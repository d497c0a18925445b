/* libcurl, loaded when the first message is sent. Linked the usual way it would load some 25 more
 * libraries and 4 MB of resident memory into the supervisor, which never sends anything itself. */
#ifndef WK_NET_CURL_H
#define WK_NET_CURL_H

#include <curl/curl.h>

#include "base/err.h"

struct curl_api {
    __typeof__(&curl_global_init) global_init;
    __typeof__(&curl_easy_init) easy_init;
    __typeof__(&curl_easy_reset) easy_reset;
    CURLcode (*easy_setopt)(CURL *h, CURLoption option, ...);
    __typeof__(&curl_easy_perform) easy_perform;
    CURLcode (*easy_getinfo)(CURL *h, CURLINFO info, ...);
    __typeof__(&curl_easy_cleanup) easy_cleanup;
    __typeof__(&curl_easy_strerror) easy_strerror;
    __typeof__(&curl_slist_append) slist_append;
    __typeof__(&curl_slist_free_all) slist_free_all;
    __typeof__(&curl_url) url;
    __typeof__(&curl_url_set) url_set;
    __typeof__(&curl_url_get) url_get;
    __typeof__(&curl_url_cleanup) url_cleanup;
    __typeof__(&curl_free) free;
    __typeof__(&curl_version_info) version_info;
};

/* The table, loaded at the first call and kept until the process ends. NULL with an error. */
const struct curl_api *curl_api(struct err *e);

#endif
