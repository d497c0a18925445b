/* What writing and reading of core/gzip.h share. */
#ifndef WK_CORE_GZIP_INT_H
#define WK_CORE_GZIP_INT_H

#include <openssl/evp.h>

#include "core/gzip.h"

EVP_MD_CTX *gzip_sha_new(void); /* NULL: no memory */
void gzip_sha_hex(EVP_MD_CTX *sha, char out[SHA256_HEX]);
/* Hands out the error that sticks; always -1. */
int gzip_stuck(const struct err *failed, struct err *e);

#endif
