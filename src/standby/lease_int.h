/* Private to src/standby: shared by the two kinds of lease. */
#ifndef WK_STANDBY_LEASE_INT_H
#define WK_STANDBY_LEASE_INT_H

#include <jansson.h>

#include "base/text.h"
#include "standby/lease.h"

struct lease_kind {
    enum lease_result (*open)(struct lease *l, int dirfd, struct err *e);
    void (*close)(struct lease *l);
    enum lease_result (*read)(struct lease *l, struct lease_record *out, struct err *e);
    enum lease_result (*take)(struct lease *l, uint64_t above, uint64_t generation,
                              struct lease_grant *out, int64_t *wait, struct err *e);
    enum lease_result (*renew)(struct lease *l, struct lease_grant *g, struct err *e);
    /* NULL: takeable if it can be renewed */
    enum lease_result (*takeable)(struct lease *l, struct err *e);
    enum lease_result (*release)(struct lease *l, struct lease_grant *g, struct err *e);
    enum lease_result (*prove)(struct lease *l, int dirfd, struct lease_proof *out, struct err *e);
};
extern const struct lease_kind lease_s3, lease_etcd;

struct lease {
    const struct lease_kind *kind;
    struct config cfg; /* the caller's config with shorter timeouts; its texts are borrowed */
    int64_t ttl;
    char holder[LEASE_HOLDER_MAX];
    struct lease_seen seen;
    void *own; /* data of the kind */
};

/* Returns the record of a lease for writing; the caller may add to it. */
json_t *lease_json(const struct lease_record *r, int64_t ttl);
/* Returns -1 if it is not such a record. */
int lease_parse(const char *text, size_t len, const char *where, struct lease_record *out,
                struct err *e);
bool lease_is_ours(const struct lease *l, const struct lease_record *r);
/* Sets the error that another machine holds it. Returns LEASE_HELD. */
enum lease_result lease_held_by(const struct lease_record *r, struct err *e);
/* Records the current version, after the answer that contained it: an observation may be older,
 * never younger. "": unknown. */
void lease_saw(struct lease *l, const char *version);
uint64_t lease_next(const struct lease_record *r, uint64_t above);

#endif
