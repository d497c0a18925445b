/* libcurl is loaded at run time by a worker that sends something and then exits. If it was linked,
 * it would cost each supervisor its memory for as long as the supervisor lives, and a program that
 * sends nothing would need it installed. */
#include "net/curl.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const struct {
    const char *name;
    size_t at;
} symbols[] = {
#define SYMBOL(name) {"curl_" #name, offsetof(struct curl_api, name)},
    CURL_FUNCTIONS(SYMBOL)};

/* Replaces realloc() for libcurl and overwrites the memory that it frees, because libcurl copies
 * what it sends: passwords, keys and secret URLs. */
static void *curl_grow(void *p, size_t size)
{
    size_t old = p ? malloc_usable_size(p) : 0;
    void *bigger = malloc(size ? size : 1);
    if (!bigger)
        return NULL;
    if (p)
        memcpy(bigger, p, old < size ? old : size);
    wipe_free(p);
    return bigger;
}

/* Must be called before other threads are started, because curl_global_init() is not
 * thread-safe. */
const struct curl_api *curl_api(struct err *e)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    static struct curl_api api;
    static int loaded;
    if (loaded)
        return &api;
    void *lib = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        err_set(e, ERR_SYSTEM, 0, "cannot load libcurl.so.4, which sends alerts and copies");
        err_hint(e, "install the library (Debian: apt install libcurl4)");
        return NULL;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *p = dlsym(lib, symbols[i].name);
        if (!p) {
            err_set(e, ERR_SYSTEM, 0, "libcurl has no %s: too old", symbols[i].name);
            return NULL;
        }
        /* ISO C has no cast from an object to a function pointer; POSIX makes them equivalent. */
        memcpy((char *)&api + symbols[i].at, &p, sizeof p);
    }
    if (api.global_init_mem(CURL_GLOBAL_DEFAULT, malloc, wipe_free, curl_grow, strdup, calloc) !=
        CURLE_OK) {
        err_set(e, ERR_SYSTEM, 0, "cannot initialize libcurl");
        return NULL;
    }
    loaded = 1;
    return &api;
}
