#include "restore/mode.h"

#include "mysql/account.h"

/* What all restores into the world have in common. */
#define PUTS_IN_PLACE                                                                              \
    .world = true, .writes = true, .swaps = true, .journal = true, .partial = true,                \
    .dump_alone = true, .locks = true, .logs = true, .code = true, .proof = true

const struct restore_traits restore_traits[RESTORE_MODES] = {
    [RESTORE_WORLD] = {PUTS_IN_PLACE, .asks = true},
    [RESTORE_LOSS] = {PUTS_IN_PLACE, .asks = true, .unattended = true},
    [RESTORE_PROMOTION] = {PUTS_IN_PLACE, .elsewhere = true, .to_end = true},
    [RESTORE_COPY] = {.writes = true,
                      .elsewhere = true,
                      .journal = true,
                      .to_end = true,
                      .locks = true,
                      .privileges = COPY_PRIVILEGES},
    [RESTORE_SCRATCH] = {.writes = true,
                         .partial = true,
                         .dump_alone = true,
                         .logs = true,
                         .code = true,
                         .proof = true,
                         .privileges = SCRATCH_PRIVILEGES},
    [RESTORE_DRILL] = {.writes = true,
                       .journal = true,
                       .to_end = true,
                       .partial = true,
                       .proof = true,
                       .compares = true,
                       .passing = true,
                       .privileges = DRILL_PRIVILEGES},
    [RESTORE_REHEARSAL] = {.world = true, .writes = true, .compares = true, .passing = true},
    [RESTORE_WORLD_DRY] = {.world = true,
                           .asks = true,
                           .journal = true,
                           .partial = true,
                           .dump_alone = true,
                           .logs = true,
                           .code = true},
    [RESTORE_SCRATCH_DRY] = {.partial = true,
                             .dump_alone = true,
                             .logs = true,
                             .code = true,
                             .privileges = SCRATCH_PRIVILEGES},
};
