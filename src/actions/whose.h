/* Who owns the world by its record (offsite/record.h): queried by actions, and written by a
 * promotion. tests/models/README.md: rules 1 and 3. */
#ifndef WK_ACTIONS_WHOSE_H
#define WK_ACTIONS_WHOSE_H

#include "actions/context.h"
#include "offsite/record.h"
#include "offsite/transfer.h"
#include "store/lives.h"

struct lease_keep;

/* Reads the current record and judges it. RECORD_UNKNOWN, RECORD_DAMAGED: `e` has the reason. */
enum record_says action_whose(struct action_context *a, struct lives *newest, struct err *e);
/* Returns -1 with ERR_REFUSED: the record names another machine. */
int action_taken_over(const struct lives *newest, struct err *e);
/* For an action of a primary with lease = none that no supervisor's fence covers: ERR_REFUSED if
 * another machine has the world, ERR_DAMAGED if it may have it. A record that cannot be reached is
 * only logged, because it is not a lock. */
int action_need_record(struct action_context *a, struct err *e);

/* State of a promotion, from reading the record to the life that it begins. */
struct succession {
    struct action_context *a;
    const struct transfer *t; /* NULL: the store does not answer, and the record is written later */
    struct lives before;
    bool handed_over;
    const struct lease_keep *lease;
    char replaced[LIVES_HOLDER_MAX]; /* without the store: the machine that the record names */
};
/* Reads the record. `a`, `t` and `lease` of `s` are set. `newest`: the dump that will be
 * restored. */
int succession_read(struct succession *s, const struct manifest *newest, struct err *e);
/* Returns -1 with ERR_REFUSED: the record changed during the promotion, and is now `now`. */
int succession_changed(const struct lives *now, struct err *e);
/* Writes the new record, unless it has changed since; called before anything of the world is
 * replaced. `arg`: struct succession. */
int succession_begin(void *arg, const struct state_made *made, uint64_t generation, struct err *e);

#endif
