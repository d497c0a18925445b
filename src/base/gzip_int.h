/* Shared by the writer and the reader of base/gzip.h. */
#ifndef WK_BASE_GZIP_INT_H
#define WK_BASE_GZIP_INT_H

#include <openssl/evp.h>

#include "base/gzip.h"

EVP_MD_CTX *gzip_sha_new(void); /* returns NULL if there is no memory */
void gzip_sha_hex(EVP_MD_CTX *sha, char out[SHA256_HEX]);

#endif
