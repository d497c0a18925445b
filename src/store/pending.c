#include "store/pending.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/js.h"
#include "base/text.h"
#include "store/kept.h"
#include "store/signature.h"

#define FILE_NAME "pending.json"
#define PENDING_MAX (16u << 20)
#define RESERVE "pending.reserve"
#define RESERVE_BYTES (64 << 10) /* the names of more than a thousand tables, or long triggers */
#define WHOLE "conflict_whole"

#define BAD FILE_NAME " has invalid contents"
#define PENDING(kind, key, member, ...) JS_FIELD(struct pending, kind, key, member, __VA_ARGS__)
#define TRIGGER(key, member, ...) JS_FIELD(struct db_trigger, STRING, key, member, __VA_ARGS__)
#define CHECKS(kind, key, member, ...)                                                             \
    JS_FIELD(struct pending_checks, kind, key, member, __VA_ARGS__)

static const struct js_field fields[] = {
    PENDING(HEX, "nonce", nonce, BAD),
    PENDING(NUMBER, "generation", generation, BAD, 1, DB_GENERATION_MAX),
    PENDING(SHOWN, "dump", dump, NULL),
    PENDING(TEXT, "conflict", conflict, NULL),
    PENDING(FLAG, "code", code, NULL),
    PENDING(FLAG, WHOLE, conflict_whole, NULL),
    PENDING(NUMBER, "server_start", server_start, NULL, 0, CLOCK_WALL_MAX / 1000),
};
static const struct js_field trigger_fields[] = {
    TRIGGER("name", name, BAD),
    TRIGGER("table", table, BAD),
    TRIGGER("event", event, BAD),
    TRIGGER("timing", timing, BAD),
    TRIGGER("body", body, BAD),
    TRIGGER("definer", definer, NULL),
    TRIGGER("sql_mode", sql_mode, NULL),
    TRIGGER("charset", charset, NULL),
    TRIGGER("collation", collation, NULL),
};
static const struct js_field check_fields[] = {
    CHECKS(STRING, "table", table, BAD),
    CHECKS(STRING, "lines", lines, BAD),
    CHECKS(NUMBER, "heap", heap, NULL, 0, INT64_MAX),
};

/* Returns the JSON object. Content that could not be read again is an error here, before
 * anything has happened, rather than after a crash. */
static json_t *pending_json(const struct pending *p, struct err *e)
{
    json_t *o = json_object(), *tables = json_array(), *triggers = json_array(),
           *checks = json_array();
    int rc = js_write(o, fields, JS_COUNT(fields), p) < 0
                 ? err_set(e, ERR_SYSTEM, 0, "cannot write " FILE_NAME ": a name is not UTF-8")
                 : 0;
    /* Added here, because the digest covers it. */
    json_object_set_new(o, "format", json_integer(KEPT_FORMAT));
    json_object_set_new(o, "tables", tables);
    json_object_set_new(o, "triggers", triggers);
    json_object_set_new(o, "checks", checks);
    /* The i-th name belongs to the i-th shadow table, so none may be missing. */
    for (size_t i = 0; i < p->tables.count && rc == 0; i++)
        if (json_array_append_new(tables, json_string(p->tables.list[i])) < 0)
            rc = err_set(e, ERR_REFUSED, 0, "the name of table %s is not UTF-8 text",
                         p->tables.list[i]);
    for (size_t i = 0; i < p->triggers.count && rc == 0; i++) {
        const struct db_trigger *t = &p->triggers.list[i];
        if (json_array_append_new(triggers, js_object(trigger_fields, JS_COUNT(trigger_fields), t)))
            rc = err_set(e, ERR_REFUSED, 0, "trigger %s is not UTF-8 text and cannot be recreated",
                         t->name);
    }
    /* Constraints whose text is not UTF-8 are omitted and keep their generated names. */
    for (size_t i = 0; i < p->check_count; i++)
        json_array_append_new(checks,
                              js_object(check_fields, JS_COUNT(check_fields), &p->checks[i]));
    if (rc == 0)
        return o;
    json_decref(o);
    return NULL;
}

/* Computes the digest without the one member that changes while the server holds it, and without
 * the signature, which covers that member too. */
static int digest_of(const json_t *o, char hex[PENDING_DIGEST], struct err *e)
{
    static const char *const without[] = {WHOLE, "hmac", NULL};
    return signature_sum(o, without, hex)
               ? 0
               : err_set(e, ERR_SYSTEM, 0, "cannot compute the SHA-256 of " FILE_NAME);
}

int pending_digest(const struct pending *p, char hex[PENDING_DIGEST], struct err *e)
{
    json_auto_t *o = pending_json(p, e);
    return o ? digest_of(o, hex, e) : -1;
}

void pending_reserve(int dirfd)
{
    struct stat st;
    /* The process that created it may have been killed before it had its full size. */
    if (fstatat(dirfd, RESERVE, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size < RESERVE_BYTES)
        unlinkat(dirfd, RESERVE, 0);
    int fd = openat(dirfd, RESERVE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    int rc = posix_fallocate(fd, 0, RESERVE_BYTES);
    close(fd);
    if (rc != 0)
        unlinkat(dirfd, RESERVE, 0);
}

int pending_save(int dirfd, const struct pending *p, struct err *e)
{
    json_auto_t *o = pending_json(p, e);
    if (!o)
        return -1;
    int rc = kept_save(dirfd, FILE_NAME, PENDING_MAX, json_incref(o), e);
    return rc < 0 && e->cls == ERR_NOSPACE && unlinkat(dirfd, RESERVE, 0) == 0
               ? kept_save(dirfd, FILE_NAME, PENDING_MAX, json_incref(o), e)
               : rc;
}

/* Returns true for the name of a character set or collation. */
static bool pending_is_name(const char *s)
{
    return s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] == '\0';
}

/* Returns true for the events of a trigger. */
static bool is_events(const char *s)
{
    SCOPED(buf_free) struct buf out = {0};
    return definition_events(s, &out) != 0;
}

/* Checks the members that are not quoted in the statement that creates the trigger, unlike names
 * and texts. */
static bool is_head(const struct db_trigger *t)
{
    return (strcmp(t->timing, "BEFORE") == 0 || strcmp(t->timing, "AFTER") == 0) &&
           is_events(t->event) && pending_is_name(t->charset) && pending_is_name(t->collation);
}

/* Reads everything or nothing: an incomplete file would drop tables and triggers that must be put
 * back. */
static bool read_pending(const json_t *o, struct pending *out)
{
    const json_t *names = json_object_get(o, "tables"), *triggers = json_object_get(o, "triggers"),
                 *checks = json_object_get(o, "checks");
    bool whole = !js_read(o, fields, JS_COUNT(fields), out) && !strchr(out->conflict, '/') &&
                 json_is_array(names) && json_is_array(triggers);
    out->there = true;
    out->tables.list = xcalloc(json_array_size(names), sizeof *out->tables.list);
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *s = json_string_value(json_array_get(names, i));
        out->tables.list[out->tables.count++] = xstrdup(s ? s : "");
        whole = whole && s && s[0];
    }
    out->triggers.list = xcalloc(json_array_size(triggers), sizeof *out->triggers.list);
    for (size_t i = 0; i < json_array_size(triggers); i++) {
        struct db_trigger *t = &out->triggers.list[out->triggers.count++];
        bool read =
            !js_read(json_array_get(triggers, i), trigger_fields, JS_COUNT(trigger_fields), t);
        whole = whole && read && is_head(t);
    }
    out->checks = xcalloc(json_array_size(checks), sizeof *out->checks);
    for (size_t i = 0; i < json_array_size(checks); i++)
        whole = !js_read(json_array_get(checks, i), check_fields, JS_COUNT(check_fields),
                         &out->checks[out->check_count++]) &&
                whole;
    return whole;
}

int pending_load(int dirfd, struct pending *out, struct err *e)
{
    json_auto_t *o = NULL;
    *out = (struct pending){0};
    int rc = kept_load(dirfd, FILE_NAME, PENDING_MAX, &o, e);
    if (rc == 1 && !read_pending(o, out))
        rc = err_set(e, ERR_DAMAGED, 0, BAD);
    if (rc == 1 && digest_of(o, out->digest, e) < 0)
        rc = -1;
    if (rc < 0)
        pending_free(out);
    return rc < 0 ? -1 : 0;
}

int pending_remove(int dirfd, struct err *e)
{
    if (file_remove(dirfd, FILE_NAME, e) < 0)
        return -1;
    pending_reserve(dirfd);
    return file_sync_dir(dirfd, FILE_NAME, e);
}

int pending_set_aside(int dirfd, struct err *e)
{
    return file_rename(dirfd, FILE_NAME, dirfd, PENDING_ASIDE, e);
}

void pending_free(struct pending *p)
{
    names_free(&p->tables);
    db_triggers_free(&p->triggers);
    for (size_t i = 0; i < p->check_count; i++) {
        free(p->checks[i].table);
        free(p->checks[i].lines);
    }
    free(p->checks);
    *p = (struct pending){0};
}
