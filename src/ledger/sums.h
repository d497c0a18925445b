/* Computes what the rows of a piece add to the totals of their keys, without the server. */
#ifndef WK_LEDGER_SUMS_H
#define WK_LEDGER_SUMS_H

#include "ledger/run_int.h"

bool ledger_value_parse(const char *s, size_t len, unsigned scale, total_t *out);
void ledger_value_put(struct buf *b, total_t v, unsigned scale);
bool ledger_parse_id(const char *s, size_t len, uint64_t *out);
struct group *ledger_group_of(struct piece *p, struct buf *key);
void ledger_group_add(const struct run *r, struct group *g, uint64_t id, const total_t *v,
                      const char *time, size_t len);
/* Merges the rows into one group per key, in the order of keys. */
void ledger_merge_groups(const struct run *r, struct piece *p);
void ledger_free_piece(struct piece *p);

#endif
