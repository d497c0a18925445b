/* The lives of a world, as its record names them (standby/record.h): the current one, and those before it with the place
 * at which the next one took over. A generation alone is not unique, because two machines can restore independently; with
 * its nonce it names a life. tests/models/README.md: "record", "ancestors", rule 3.
 *
 * lives.json in the dump directory is what this machine knows of the record. By it the catalog (catalog.h) tells abandoned
 * dumps from the world's own: of lives that the record does not name, or that an ancestor made after its successor had
 * taken over. They stay, are listed, and are restored only by name. */
#ifndef WK_STORE_LIVES_H
#define WK_STORE_LIVES_H

#include <jansson.h>

#include "mysql/sentinel.h"
#include "store/manifest.h"

#define LIVES_MAX 64u /* ancestors that are kept; what is older than all of them is not judged */
#define LIVES_HOLDER_MAX 128

struct life {
    uint64_t generation; /* 0: there is none */
    char nonce[NONCE_HEX];
};

/* An ancestor, and what its successor took over. */
struct ancestor {
    struct life life;
    char dump[DUMP_NAME_MAX]; /* "": not known; then all of it counts */
    char file
        [256]; /* the journal up to here, in the log of the ancestor's server; "": the dump alone */
    uint64_t pos;
    char ended
        [16]; /* how: "lost", "handed over", or "restored": by the machine that had it, whose log goes on */
};

struct lives {
    uint64_t number;  /* of the record that says it; 0: there is none */
    uint64_t highest; /* in the store, also of one that is no good; only where it was read there */
    char machine[LIVES_HOLDER_MAX]; /* that has the world: state_holder() */
    bool
        own; /* this machine wrote it: later lives that are here are its own, and not recorded yet */
    struct life now;
    struct ancestor before[LIVES_MAX]; /* newest first */
    size_t count;
    /* This machine was promoted while the store did not answer: this record is to be written once it does. In lives.json
     * only. `replaced`: the machine that the last known record named; "": there was none. */
    bool unwritten;
    char replaced[LIVES_HOLDER_MAX];
};

bool life_is(const struct life *a, const struct life *b);
/* The ancestor with this life; NULL: none. */
const struct ancestor *lives_ancestor(const struct lives *l, const struct life *is);
/* Is a dump one that no restore may choose by itself? Pure. */
bool lives_abandoned(const struct lives *l, const struct manifest *m);
/* The life that follows: the one before it becomes an ancestor. Pure. */
struct lives lives_next(const struct lives *l, uint64_t number, const char *machine,
                        const struct life *now, const struct ancestor *before);

/* An unwritten record, as it is written under this number: `there` is what the store has, the replaced machine's. A life
 * that that machine began meanwhile is an ancestor of which nothing was taken. Pure. */
struct lives lives_late(const struct lives *l, const struct lives *there, uint64_t number);

/* The caller releases it. */
json_t *lives_json(const struct lives *l);
/* -1: it is none of ours. */
int lives_parse(const json_t *o, struct lives *out);

/* lives.json. number 0: there is none, or it is no good, which is as if there were none. */
void lives_load(int dirfd, struct lives *out);
/* Durable when it returns 0. */
int lives_save(int dirfd, const struct lives *l, struct err *e);

#endif
