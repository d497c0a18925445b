/* Who owns the world by its record (offsite/record.h): queried by actions, and written by a
 * promotion. tests/models/README.md: rules 1 and 3. */
#ifndef WK_ACTIONS_WHOSE_H
#define WK_ACTIONS_WHOSE_H

#include "actions/context.h"
#include "mysql/sentinel.h"
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

/* For an action of a primary with a lease that no supervisor's fence covers, before it takes or
 * renews the lease (rule 4). `r`: what the lease's place has. ERR_REFUSED: the record names another
 * machine. Other errors: the record cannot be read, and record_permits() does not allow the action
 * without it. *above: the lease's number must be at least this one. */
int action_may_take(struct action_context *a, const struct lease_record *r, uint64_t *above,
                    struct err *e);
/* For --init and --new-round, which begin a life of the world. ERR_REFUSED, ERR_DAMAGED: as above.
 * `here`: the sentinel in the world's schema; a machine that lost its dump directory recognizes its
 * own life by it. A record that cannot be reached is only logged: the supervisor reads it before it
 * acts. */
int action_may_begin(struct action_context *a, const struct db_sentinel *here, struct err *e);
/* Returns the number of the newest record, or of the last known one if the store does not answer
 * soon. A promotion takes a lease with a higher number, because records are ordered by it. */
uint64_t action_recorded(const struct action_context *a);

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
