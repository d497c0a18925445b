/* A libcurl that carries nothing: it gives out pieces of a target's input. What a request does
 * is the target's easy_perform(). Included by one file of a target. */
#ifndef WK_FUZZ_FAKE_CURL_H
#define WK_FUZZ_FAKE_CURL_H

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "net/curl.h"
#include "scratch.h"

struct fake {
    const char *all, *rest, *end; /* what the server says, and what of it is still to come */
    long status;
    curl_off_t retry;
    CURLcode ends;
    char *why;
    curl_write_callback body;
    void *body_arg;
    curl_read_callback read;
    void *read_arg;
    curl_debug_callback debug;
    void *debug_arg;
    char said[CURL_ERROR_SIZE];
};
static struct fake f;
static int handle; /* its address is one */

static CURL *easy_init(void)
{
    return (CURL *)&handle;
}

static CURLcode easy_setopt(CURL *h, CURLoption option, ...)
{
    va_list ap;
    (void)h;
    va_start(ap, option);
    switch ((int)option) {
    case CURLOPT_ERRORBUFFER:
        f.why = va_arg(ap, char *);
        break;
    case CURLOPT_WRITEFUNCTION:
        f.body = va_arg(ap, curl_write_callback);
        break;
    case CURLOPT_WRITEDATA:
        f.body_arg = va_arg(ap, void *);
        break;
    case CURLOPT_READFUNCTION:
        f.read = va_arg(ap, curl_read_callback);
        break;
    case CURLOPT_READDATA:
        f.read_arg = va_arg(ap, void *);
        break;
    case CURLOPT_DEBUGFUNCTION:
        f.debug = va_arg(ap, curl_debug_callback);
        break;
    case CURLOPT_DEBUGDATA:
        f.debug_arg = va_arg(ap, void *);
        break;
    default:
        break;
    }
    va_end(ap);
    return CURLE_OK;
}

static CURLcode easy_getinfo(CURL *h, CURLINFO info, ...)
{
    va_list ap;
    (void)h;
    va_start(ap, info);
    CURLcode rc = CURLE_OK;
    if (info == CURLINFO_RESPONSE_CODE)
        *va_arg(ap, long *) = f.status;
    else if (info == CURLINFO_RETRY_AFTER)
        *va_arg(ap, curl_off_t *) = f.retry;
    else
        rc = CURLE_UNKNOWN_OPTION;
    va_end(ap);
    return rc;
}

static void easy_reset(CURL *h)
{
    (void)h;
    f.debug = NULL;
    f.body = NULL;
    f.read = NULL;
}

static void easy_cleanup(CURL *h)
{
    (void)h;
}

static CURLcode global_init_mem(long flags, curl_malloc_callback m, curl_free_callback release,
                                curl_realloc_callback r, curl_strdup_callback s,
                                curl_calloc_callback c)
{
    (void)m;
    (void)release;
    (void)r;
    (void)s;
    (void)c;
    (void)flags;
    return CURLE_OK;
}

static CURLcode easy_perform(CURL *h);

const struct curl_api *curl_api(struct err *e)
{
    static const struct curl_api api = {
        .global_init_mem = global_init_mem,
        .easy_init = easy_init,
        .easy_reset = easy_reset,
        .easy_setopt = easy_setopt,
        .easy_perform = easy_perform,
        .easy_getinfo = easy_getinfo,
        .easy_cleanup = easy_cleanup,
        .easy_strerror = curl_easy_strerror,
        .slist_append = curl_slist_append,
        .slist_free_all = curl_slist_free_all,
        .url = curl_url,
        .url_set = curl_url_set,
        .url_get = curl_url_get,
        .url_cleanup = curl_url_cleanup,
        .free = curl_free,
        .version_info = curl_version_info,
    };
    (void)e;
    return &api;
}

#endif
