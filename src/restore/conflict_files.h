/* Data that a merge of replaced rows (conflict_merge.h) keeps beside the tables: sets of rows, and
 * the file of new numbers. */
#ifndef WK_RESTORE_CONFLICT_FILES_H
#define WK_RESTORE_CONFLICT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "restore/conflict.h"

/* A multiset of hashes. */
struct merge_set {
    struct merge_slot {
        uint64_t hash, count;
    } * slots;
    size_t room, used;
};
void merge_set_add(struct merge_set *s, uint64_t hash);
/* Removes one occurrence. Returns false if there is none. */
bool merge_set_take(struct merge_set *s, uint64_t hash);
bool merge_set_has(const struct merge_set *s, uint64_t hash);
void merge_set_free(struct merge_set *s);

/* The content of conflict-….numbers.tsv. */
struct merge_numbers {
    struct merge_number {
        char *table, *old, *now;
        char *world; /* nonce of the world into which the row was inserted; "": not recorded */
    } * list;
    size_t count;
    struct buf text; /* the file */
};
int merge_numbers_read(int dirfd, const char *file, struct merge_numbers *out, struct err *e);
void merge_numbers_add(struct merge_numbers *n, const char *table, const char *column,
                       const char *old, const char *now, const char *world);
int merge_numbers_write(int dirfd, const char *file, const struct merge_numbers *n, struct err *e);
void merge_numbers_name(const char *file, char out[CONFLICT_NAME_MAX + 16]);
void merge_numbers_free(struct merge_numbers *n);

#endif
