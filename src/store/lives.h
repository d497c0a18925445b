/* The lives of a world, as its record names them (offsite/record.h): the current one, and earlier
 * ones with the position at which the next one took over. A generation alone is not unique, because
 * two machines can restore independently; with its nonce it names a life. tests/models/README.md:
 * "record", "ancestors", rule 3.
 *
 * lives.json in the dump directory is this machine's copy of the record. The catalog (catalog.h)
 * uses it to tell abandoned dumps from the world's own. A dump is abandoned if the record does not
 * name its life, or if an ancestor made it after its successor had taken over. Abandoned dumps
 * stay, are listed, and are restored only by name. */
#ifndef WK_STORE_LIVES_H
#define WK_STORE_LIVES_H

#include <jansson.h>

#include "mysql/sentinel.h"
#include "store/manifest.h"

#define LIVES_MAX 64u /* maximum ancestors; lives older than all of them are not judged */
#define LIVES_HOLDER_MAX 128

struct life {
    uint64_t generation; /* 0: there is none */
    char nonce[NONCE_HEX];
};

/* An ancestor, and what its successor took over. */
struct ancestor {
    struct life life;
    char dump[DUMP_NAME_MAX]; /* "": not known; then all of its dumps count */
    char file
        /* end of the journal that was taken over, in the log of the ancestor's server; "": the dump
         * alone */
        [256];
    uint64_t pos;
    char ended
        /* how: "lost", "handed over", or "restored" (by the machine that had the world, whose log
         * continues) */
        [16];
};

struct lives {
    uint64_t number; /* number of the record; 0: there is none */
    /* highest number in the store, including damaged records; only if it was read there */
    uint64_t highest;
    bool damaged; /* the store's record with this name is not valid; this is the copy here */
    char machine[LIVES_HOLDER_MAX]; /* the machine that has the world: state_holder() */
    bool own; /* this machine wrote it: later lives here are its own and not recorded yet */
    struct life now;
    struct ancestor before[LIVES_MAX]; /* newest first */
    size_t count;
    /* This machine was promoted while the store did not answer; the record is written when it
     * answers again. Stored only in lives.json. `replaced`: the machine that the last known record
     * named; "": there was none. */
    bool unwritten;
    char replaced[LIVES_HOLDER_MAX];
};

bool life_is(const struct life *a, const struct life *b);
/* Returns the ancestor with this life, or NULL. */
const struct ancestor *lives_ancestor(const struct lives *l, const struct life *is);
/* Returns true if no restore may choose the dump automatically. Pure. */
bool lives_abandoned(const struct lives *l, const struct manifest *m);
/* Returns the lives after `now` has begun: the previous life becomes an ancestor. Pure. */
struct lives lives_next(const struct lives *l, uint64_t number, const char *machine,
                        const struct life *now, const struct ancestor *before);

/* Returns what to write into the store for a record that could not be written at the promotion (see
 * `unwritten`), under this number. `there` is the record in the store, which the replaced machine
 * wrote. If that machine has begun another life meanwhile, that life becomes an ancestor of which
 * nothing was taken over. Pure. */
struct lives lives_late(const struct lives *l, const struct lives *there, uint64_t number);

/* The caller releases it. */
json_t *lives_json(const struct lives *l);
/* Returns -1 if it is not such an object. */
int lives_parse(const json_t *o, struct lives *out);

/* Loads lives.json. number 0: it is missing or invalid, which has the same effect. */
void lives_load(int dirfd, struct lives *out);
/* Durable when it returns 0. */
int lives_save(int dirfd, const struct lives *l, struct err *e);

#endif
