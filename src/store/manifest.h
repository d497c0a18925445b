/* The manifest of a dump. It makes a file a dump, and contains everything that is known without
 * reading the file. Written last, as NAME.json beside NAME.sql.gz, with file_commit(). Strings are
 * owned. */
#ifndef WK_STORE_MANIFEST_H
#define WK_STORE_MANIFEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/gzip.h"
#include "base/line.h"
#include "mysql/schema.h"
#include "store/signature.h"

#define MANIFEST_FORMAT 2
#define MANIFEST_UNCHECKED 1     /* the previous format, without a checksum; still read */
#define MANIFEST_MAX (16u << 20) /* bytes; larger ones are not read */
#define DUMP_NAME_MAX 128
#define NONCE_HEX 33

struct manifest_table {
    char *name, *engine;
    uint64_t rows, bytes; /* bytes of SQL */
    uint64_t rows_hash;   /* sum of sql_tuple_hash over its rows */
    char columns_hash[17];
    uint64_t offset, length; /* position of its gzip members in the file */
    uint64_t auto_increment, data_length, index_length, max_data_length;
};

/* The hashes that verify the file part by part before it is used; dump/parts.h defines the
 * parts. */
#define MANIFEST_PART (1u << 20) /* bytes of a part that this version writes */
struct manifest_parts {
    uint32_t bytes; /* of each part except the last one of a region */
    size_t count;   /* 0: a manifest of an older version; only the whole file has a SHA-256 */
    unsigned char (*sha256)[SHA256_BYTES];
};

/* A ledger of this world at the time of the dump. */
struct manifest_ledger {
    char name[48];
    char *table;
    uint64_t rolled_up; /* rows that are in totals */
    uint64_t end_id;    /* the highest rollup position of all totals */
    uint64_t open;      /* at most this many of them may still be in the ledger */
    bool counted;       /* rolled_up is known; otherwise it is not stored */
};

struct manifest {
    char name[DUMP_NAME_MAX], world[64], schema[256];
    uint64_t generation, sequence;
    uint64_t round; /* round of the game (round.h); 0: made before rounds existed */
    wall_t at;
    int64_t took_ms;
    int64_t wait_ms; /* the longest that a writer can have waited for the dump, if wait_known */
    bool wait_known;
    struct server_id server;
    struct db_binlog_pos start, end; /* file "": there is no log, or it may lack changes */
    char unlogged[256];              /* why changes may be missing from the log; "": none are */
    uint32_t log_created_at;         /* creation time of the log file of `end`; 0: not known */
    char nonce[NONCE_HEX];
    char method[16];
    char warning[LINE]; /* why another method than the configured one was used, or "" */
    bool all;           /* engines = all */
    struct manifest_table *tables;
    size_t table_count;
    struct manifest_ledger *ledgers;
    size_t ledger_count;
    uint32_t *by_name; /* indexes into `tables` sorted by name; NULL unless it was read */
    uint64_t rows, bytes, file_size;
    uint64_t in_memory; /* bytes of its MEMORY tables in the server; only in manifest_figures() */
    char sha256[SHA256_HEX];
    struct manifest_parts parts;
    struct manifest_copy { /* the dump's file in another store, in the form stored there */
        char file[DUMP_NAME_MAX + 32]; /* "": the manifest is not from such a store */
        uint64_t size;
        char sha256[SHA256_HEX];
    } copy;
    /* of its views, routines, triggers and events (dump/definitions.h); "": made by an older
     * version */
    char code_hash[17];
    char rejected[LINE];      /* why it is in rejected/, or "" */
    enum signature signature; /* signature of the file that it was read from */
};

/* Sets the name <world>-<generation>-<sequence>-<UTC>Z. */
void manifest_name(struct manifest *m);
/* Parses a file name, with any extension after the Z. Returns the length of NAME, or 0 if it is not
 * a dump's name. */
size_t manifest_parse_name(const char *file, const char *world, uint64_t *generation,
                           uint64_t *sequence);
/* Returns NULL if a string in it is not UTF-8. */
json_t *manifest_json(const struct manifest *m);
/* Adds the SHA-256 of the rest, so that any change is detected, and the signature if there is a
 * key. Returns -1 on failure. */
int manifest_sign(json_t *o);
/* Returns a binlog position; null if there is none. */
json_t *manifest_point_json(const struct db_binlog_pos *p);
void manifest_read_point(const json_t *o, struct db_binlog_pos *p);
/* Returns everything except the lists, as plain data that needs no freeing. Its rows do not include
 * the sentinel's. */
struct manifest manifest_figures(const struct manifest *m, const char *sentinel);
/* Returns the number of rows without the sentinel's, which is in each dump as well. */
uint64_t manifest_world_rows(const struct manifest *m, const char *sentinel);
/* Returns the fields that --list, status and alerts show; rows and tables without the sentinel. */
json_t *manifest_summary(const struct manifest *m, const char *sentinel);
/* Returns the signed text of a manifest (malloc), or NULL with `e`. */
char *manifest_text(const struct manifest *m, struct err *e);
int manifest_write(int dirfd, const struct manifest *m, struct err *e);
/* Reads dirfd/`name`.json. A malformed file is ERR_DAMAGED with the reason. */
int manifest_read(int dirfd, const char *name, struct manifest *m, struct err *e);
/* Like manifest_read(), from its text. */
int manifest_parse(const char *text, size_t len, const char *name, struct manifest *m,
                   struct err *e);
void manifest_free(struct manifest *m);
/* Returns NULL if there is no such table. Takes logarithmic time in a manifest that was read,
 * linear time otherwise. */
const struct manifest_table *manifest_table(const struct manifest *m, const char *name);
struct manifest_table *manifest_add(struct manifest *m, const struct db_table *t);
/* Compares (generation, sequence). Returns -1, 0 or 1. */
int manifest_compare(const struct manifest *a, const struct manifest *b);

#endif
