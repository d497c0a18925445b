/* Private to src/standby: what the two places of a lease share. */
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
    enum lease_result (*takeable)(struct lease *l, struct err *e); /* NULL: if it can be renewed */
    enum lease_result (*release)(struct lease *l, struct lease_grant *g, struct err *e);
    enum lease_result (*prove)(struct lease *l, int dirfd, struct lease_proof *out, struct err *e);
};
extern const struct lease_kind lease_s3, lease_etcd;

struct lease {
    const struct lease_kind *kind;
    struct config cfg; /* the caller's, with shorter timeouts; its texts are borrowed */
    int64_t ttl;
    char holder[LEASE_HOLDER_MAX];
    struct lease_seen seen;
    void *own; /* of the kind */
};

/* The record of a lease that is written; more may be added to it. */
json_t *lease_json(const struct lease_record *r, int64_t ttl);
/* -1: it is none of ours. */
int lease_parse(const char *text, size_t len, const char *where, struct lease_record *out,
                struct err *e);
bool lease_is_ours(const struct lease *l, const struct lease_record *r);
/* Says so in `e`; LEASE_HELD. */
enum lease_result lease_held_by(const struct lease_record *r, struct err *e);
/* What stands there now, after the answer that said so: what was seen may be older, never younger. "": nothing to go by. */
void lease_saw(struct lease *l, const char *version);
uint64_t lease_next(const struct lease_record *r, uint64_t above);

#endif
