#include "store/proof.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/js.h"
#include "base/line.h"
#include "base/text.h"
#include "store/kept.h"

#define PROOF_MAX 8192

#define PROOF(kind, key, member, ...) JS_FIELD(struct proof, kind, key, member, __VA_ARGS__)

static const struct js_field fields[] = {
    PROOF(FLAG, "damaged", damaged, NULL),
    PROOF(NUMBER, "failures", failures, NULL, 0, PROOF_LOADS),
    PROOF(SECONDS, "at_unix", at, NULL, 0, CLOCK_WALL_MAX / 1000),
    PROOF(TEXT, "by", by, NULL),
    PROOF(SHOWN, "reason", reason, NULL),
};

int proof_read(int dirfd, const char *name, struct proof *out, struct err *e)
{
    struct err why = {0};
    json_auto_t *o = NULL;
    SCOPED(xfree) char *file = xasprintf("%s" PROOF_ENDING, name);
    *out = (struct proof){0};
    if (kept_load(dirfd, file, PROOF_MAX, &o, &why) == 1)
        js_read(o, fields, JS_COUNT(fields), out);
    /* file_open_own() sets EPERM for a file that others own or can write. */
    if (!kept_is_newer(&why) && (why.cls != ERR_REFUSED || why.num != EPERM))
        return 0;
    return err_pass(e, &why);
}

int proof_sign(int dirfd, const char *name, bool changed, struct err *e)
{
    SCOPED(xfree) char *file = xasprintf("%s" PROOF_ENDING, name);
    return kept_sign(dirfd, file, PROOF_MAX, changed, e);
}

bool proof_unloadable(const struct proof *p)
{
    return !p->damaged && p->failures >= PROOF_LOADS;
}

/* Writes the findings. Root may run a drill or a verify, but the service must be able to read the
 * result. */
static int write_proof(int dirfd, const char *name, const struct proof *p, struct err *e)
{
    char at[TEXT_SHORT];
    SCOPED(xfree) char *file = xasprintf("%s" PROOF_ENDING, name);
    json_t *o = json_pack("{s:i, s:s}", "format", 1, "at", text_utc(p->at, at));
    js_write(o, fields, JS_COUNT(fields), p);
    int rc = kept_save(dirfd, file, PROOF_MAX, o, e);
    /* A file that still belongs to root would be refused by each later read, so it is deleted. */
    if (rc == 0 && kept_give(dirfd, file, NULL) < 0)
        unlinkat(dirfd, file, 0);
    return rc;
}

/* Returns a current finding, which replaces the earlier ones. */
static struct proof proof_finding(const char *by, const char *reason)
{
    struct proof p = {.at = clock_wall()};
    snprintf(p.by, sizeof p.by, "%s", by);
    line_set(p.reason, sizeof p.reason, "%s", reason);
    return p;
}

int proof_intact(int dirfd, const char *name, const char *by, struct err *e)
{
    struct proof p = proof_finding(by, "");
    return write_proof(dirfd, name, &p, e);
}

int proof_damaged(int dirfd, const char *name, const char *by, const char *reason, struct err *e)
{
    struct proof p = proof_finding(by, reason);
    p.damaged = true;
    return write_proof(dirfd, name, &p, e);
}

int proof_load_failed(int dirfd, const char *name, const char *by, const char *reason,
                      struct proof *out, struct err *e)
{
    struct proof was;
    if (proof_read(dirfd, name, &was, e) < 0)
        return -1;
    *out = proof_finding(by, reason);
    /* The count never exceeds the limit, which is also the maximum that proof_read() accepts. */
    out->failures = was.failures < PROOF_LOADS ? was.failures + 1 : was.failures;
    return write_proof(dirfd, name, out, e);
}

void proof_words(const struct proof *p, char *out, size_t size)
{
    char at[TEXT_SHORT];
    if (proof_unloadable(p))
        line_set(out, size,
                 "%" PRId64 " restores of it failed because of its contents, the last on %s: %s",
                 p->failures, text_utc(p->at, at), p->reason);
    else
        line_set(out, size, "found damaged by a %s on %s: %s", p->by, text_utc(p->at, at),
                 p->reason);
}

/* Lists the newest first: names of dumps sort by generation and number. */
json_t *proof_damaged_json(int dirfd)
{
    json_t *list = json_array();
    SCOPED(names_free) struct names found = {0};
    file_list(dirfd, "cannot list findings", &found, NULL);
    for (size_t n = 0; n < found.count; n++) {
        const char *file = found.list[n];
        struct proof p;
        char name[NAME_MAX + 1], at[TEXT_SHORT];
        size_t len = strlen(file), end = strlen(PROOF_ENDING);
        if (len <= end || strcmp(file + len - end, PROOF_ENDING) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(len - end), file);
        proof_read(dirfd, name, &p, NULL);
        if (!p.damaged && !proof_unloadable(&p))
            continue;
        size_t i = 0;
        while (i < json_array_size(list) &&
               strcmp(js_text(json_array_get(list, i), "dump"), name) > 0)
            i++;
        json_array_insert_new(list, i,
                              json_pack("{s:o, s:s, s:s, s:o, s:b}", "dump", js_clean(name), "at",
                                        text_utc(p.at, at), "by", p.by, "reason",
                                        js_clean(p.reason), "loadable", !proof_unloadable(&p)));
    }
    return list;
}
