#include "dump/parts.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/* Odd regions are the tables. Even regions are the text before a table or after the last one.
 * Each table can therefore be checked and read alone. */
size_t parts_regions(const struct manifest *m)
{
    return 2 * m->table_count + 1;
}

static uint64_t end_of_table(const struct manifest *m, size_t i)
{
    return m->tables[i].offset + m->tables[i].length;
}

struct parts_region parts_region(const struct manifest *m, size_t i)
{
    size_t table = i / 2;
    if (i % 2)
        return (struct parts_region){m->tables[table].offset, end_of_table(m, table)};
    return (struct parts_region){table ? end_of_table(m, table - 1) : 0,
                                 table < m->table_count ? m->tables[table].offset : m->file_size};
}

uint64_t parts_count(struct parts_region r, uint32_t bytes)
{
    uint64_t length = r.to - r.from;
    return length / bytes + (length % bytes != 0);
}

struct parts_hash {
    uint32_t bytes;
    parts_fn *fn;
    void *arg;
    EVP_MD_CTX *sha;
    uint64_t region;
    uint32_t length; /* bytes of the current part so far */
    bool failed;
};

struct parts_hash *parts_hash_new(uint32_t bytes, parts_fn *fn, void *arg)
{
    struct parts_hash *h = xcalloc(1, sizeof *h);
    *h = (struct parts_hash){.bytes = bytes, .fn = fn, .arg = arg, .sha = EVP_MD_CTX_new()};
    if (h->sha && EVP_DigestInit_ex(h->sha, EVP_sha256(), NULL) == 1)
        return h;
    parts_hash_free(h);
    return NULL;
}

void parts_hash_free(struct parts_hash *h)
{
    if (!h)
        return;
    EVP_MD_CTX_free(h->sha);
    free(h);
}

/* Ends the current part. A failure of libcrypto is remembered, because a file without all of its
 * hashes must not become a dump. */
static void parts_end_part(struct parts_hash *h)
{
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (h->length == 0)
        return;
    if (EVP_DigestFinal_ex(h->sha, md, &len) != 1 || len != SHA256_BYTES ||
        EVP_DigestInit_ex(h->sha, EVP_sha256(), NULL) != 1)
        h->failed = true;
    else
        h->fn(h->arg, h->length, md);
    h->length = 0;
}

void parts_hash_add(struct parts_hash *h, uint64_t region, const void *data, size_t len)
{
    const unsigned char *p = data;
    if (region != h->region) /* a part lies within one region, even if this makes it short */
        parts_end_part(h);
    h->region = region;
    while (len > 0 && !h->failed) {
        size_t room = h->bytes - h->length, n = len < room ? len : room;
        h->failed = EVP_DigestUpdate(h->sha, p, n) != 1;
        h->length += (uint32_t)n;
        p += n;
        len -= n;
        if (h->length == h->bytes)
            parts_end_part(h);
    }
}

int parts_hash_end(struct parts_hash *h)
{
    parts_end_part(h);
    return h->failed ? -1 : 0;
}

void parts_keep(struct manifest_parts *list, const unsigned char sha256[SHA256_BYTES])
{
    list->sha256 = xgrow(list->sha256, list->count, SHA256_BYTES);
    memcpy(list->sha256[list->count++], sha256, SHA256_BYTES);
}
