/* Whose world it is, by the record (standby/record.h): asked by actions, and written by a promotion. */
#ifndef WK_ACTIONS_WHOSE_H
#define WK_ACTIONS_WHOSE_H

#include "actions/context.h"
#include "offsite/transfer.h"
#include "standby/record.h"
#include "store/lives.h"

struct lease_keep;

/* By the record, as it is now. RECORD_UNKNOWN: `e` says why. */
enum record_says action_whose(struct action_context *a, struct lives *newest, struct err *e);
/* For an action of a primary with lease = none that no supervisor's fence covers: ERR_REFUSED where another machine has
 * the world. A record that cannot be read is only noted: nothing there would be a lock. */
int action_need_record(struct action_context *a, struct err *e);

/* A promotion, between what it read first and the life that it begins. */
struct succession {
    struct action_context *a;
    const struct transfer *t; /* NULL: the store does not answer, and the record is written later */
    struct lives before;
    bool handed_over;
    const struct lease_keep *lease;
    char replaced[LIVES_HOLDER_MAX]; /* without the store: the machine that the record names */
};
/* Of `s`, `a`, `t` and `lease` are set. `newest`: the dump that is going to be restored. */
int succession_read(struct succession *s, const struct manifest *newest, struct err *e);
/* Swaps the record, unless it has changed since; before anything of the world is replaced. `arg`: struct succession. */
int succession_begin(void *arg, const struct state_made *made, uint64_t generation, struct err *e);

#endif
