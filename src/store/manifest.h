/* The manifest of a dump: what makes a file a dump, and all that is known of it without reading it.
 * Written last, as NAME.json beside NAME.sql.gz, by file_commit. Strings are owned. */
#ifndef WK_STORE_MANIFEST_H
#define WK_STORE_MANIFEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/gzip.h"
#include "db/query.h"
#include "store/seal.h"

#define MANIFEST_FORMAT 2
#define MANIFEST_UNCHECKED 1     /* the format before, without a checksum: still read */
#define MANIFEST_MAX (16u << 20) /* bytes read of one at most */
#define DUMP_NAME_MAX 128
#define NONCE_HEX 33

struct manifest_table {
    char *name, *engine;
    uint64_t rows, bytes; /* bytes of SQL */
    uint64_t rows_hash;   /* sum of sql_tuple_hash over its rows */
    char columns_hash[17];
    uint64_t offset, length; /* of its gzip member in the file */
    uint64_t auto_increment, data_length, index_length, max_data_length;
};

struct manifest {
    char name[DUMP_NAME_MAX], world[64], schema[256];
    uint64_t generation, sequence;
    wall_t at;
    int64_t took_ms;
    struct server_id server;
    struct db_point start, end;
    uint32_t log_born; /* of the file of `end` (binlog_born()); 0: not known */
    char nonce[NONCE_HEX];
    char method[16];
    bool all; /* engines = all */
    struct manifest_table *tables;
    size_t table_count;
    uint64_t rows, bytes, file_size;
    char sha256[SHA256_HEX];
    char rejected[512]; /* why it is in rejected/, or "" */
    enum seal seal;     /* of the file that it was read from */
};

/* <world>-<generation>-<sequence>-<UTC>Z */
void manifest_name(struct manifest *m);
/* Takes a file name apart, with any ending behind the Z. Returns the length of NAME, or 0 if it is
 * none. */
size_t manifest_parse_name(const char *file, const char *world, uint64_t *generation,
                           uint64_t *sequence);
/* NULL when a text in it is not UTF-8. */
json_t *manifest_json(const struct manifest *m);
/* Puts in SHA-256 of the rest, so that no bit of it changes unseen, and the seal where there is a
 * key; -1: not to be had. */
int manifest_sign(json_t *o);
/* A place in the binary log; null where there is none. */
json_t *manifest_point_json(const struct db_point *p);
void manifest_read_point(const json_t *o, struct db_point *p);
/* What --list, status and alerts show of it. */
json_t *manifest_summary(const struct manifest *m);
int manifest_write(int dirfd, const struct manifest *m, struct err *e);
/* Reads dirfd/`name`.json. A file that is not what it should be is ERR_DAMAGED with the reason. */
int manifest_read(int dirfd, const char *name, struct manifest *m, struct err *e);
void manifest_free(struct manifest *m);
const struct manifest_table *manifest_table(const struct manifest *m, const char *name);
struct manifest_table *manifest_add(struct manifest *m, const struct db_table *t);
/* -1, 0, 1 by (generation, sequence). */
int manifest_compare(const struct manifest *a, const struct manifest *b);

#endif
