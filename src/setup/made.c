#include "setup/made.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/js.h"

#define FORMAT 1
#define RECORD_MAX (1u << 20)

static const char *const kinds[MADE_KINDS] = {
    [MADE_DIR] = "directory",       [MADE_FILE] = "file",         [MADE_ACCOUNT] = "account",
    [MADE_STATEMENT] = "statement", [MADE_SENTINEL] = "sentinel", [MADE_SERVICE] = "service",
    [MADE_SETTING] = "setting",
};

const char *made_kind_name(enum made_kind kind)
{
    return kinds[kind];
}

enum made_kind made_kind_of(const json_t *thing)
{
    unsigned i = 0;
    while (i < MADE_KINDS && strcmp(kinds[i], js_text(thing, "kind")) != 0)
        i++;
    return (enum made_kind)i;
}

/* Opens the record's directory. *name is the record's file name, which points into m->path. */
static int open_dir(const struct made *m, bool make, const char **name, struct err *e)
{
    char *slash = strrchr(m->path, '/');
    SCOPED(xfree) char *dir = xstrndup(m->path, (size_t)(slash - m->path));
    *name = slash + 1;
    return file_dir(dir, make ? FILE_MAKE : 0, 0755, e);
}

static int read_record(struct made *m, struct err *e)
{
    SCOPED(buf_free) struct buf text = {0};
    struct err why = {0};
    const char *name;
    SCOPED(file_close) int dirfd = open_dir(m, false, &name, &why);
    if (dirfd < 0 || file_read_private(dirfd, name, RECORD_MAX, &text, &why) < 0)
        return why.num == ENOENT ? 0 : err_pass(e, &why);
    json_auto_t *o = json_loadb(text.p, text.len, 0, NULL);
    json_t *list = json_object_get(o, "made");
    if (js_number(o, "format", 0) != FORMAT || !json_is_array(list)) {
        err_set(e, ERR_REFUSED, 0, "%s is not a record of this version of worldkeeper-setup",
                m->path);
        return err_hint(e, "install the version that wrote it");
    }
    for (size_t i = 0; i < json_array_size(list); i++)
        if (made_kind_of(json_array_get(list, i)) == MADE_KINDS)
            return err_set(e, ERR_REFUSED, 0, "%s names an object of an unknown kind", m->path);
    json_decref(m->list);
    m->list = json_incref(list);
    m->server = json_incref(json_object_get(o, "server"));
    m->scripts = json_incref(json_object_get(o, "scripts"));
    return 0;
}

int made_open(struct made *m, const char *path, bool dry, struct err *e)
{
    *m = (struct made){.path = xstrdup(path), .list = json_array(), .dry = dry};
    return read_record(m, e);
}

void made_set_server(struct made *m, const struct config_mysql *at)
{
    json_decref(m->server);
    m->server = at->socket ? json_pack("{s:s}", "socket", at->socket)
                           : json_pack("{s:s, s:i}", "host", at->host, "port", (int)at->port);
}

struct config_mysql made_address(const char *socket, const char *host, unsigned port)
{
    /* The texts are not written to; the config's type has no const. */
    return (struct config_mysql){
        .socket = (char *)(uintptr_t)socket, .host = (char *)(uintptr_t)host, .port = port};
}

struct config_mysql made_server(const struct made *m)
{
    const json_t *socket = json_object_get(m->server, "socket"),
                 *host = json_object_get(m->server, "host");
    return made_address(json_string_value(socket), json_string_value(host),
                        (unsigned)js_number(m->server, "port", 0));
}

void made_set_scripts(struct made *m, const char *dir)
{
    json_decref(m->scripts);
    m->scripts = json_string(dir);
}

const char *made_scripts(const struct made *m)
{
    return json_string_value(m->scripts);
}

static int made_save(const struct made *m, struct err *e)
{
    const char *name;
    if (m->dry)
        return 0;
    SCOPED(file_close) int dirfd = open_dir(m, true, &name, e);
    if (dirfd < 0)
        return -1;
    json_auto_t *o = json_pack("{s:i, s:O}", "format", FORMAT, "made", m->list);
    if (m->server)
        json_object_set(o, "server", m->server);
    if (m->scripts)
        json_object_set(o, "scripts", m->scripts);
    SCOPED(xfree) char *text = json_dumps(o, JSON_INDENT(1));
    int rc = json_array_size(m->list) ? file_commit(dirfd, name, text, strlen(text), 0600, e)
                                      : file_remove(dirfd, name, e);
    fault_point("setup.noted");
    return rc;
}

static json_t *made_find(const struct made *m, enum made_kind kind, const char *name)
{
    for (size_t i = 0; i < json_array_size(m->list); i++) {
        json_t *o = json_array_get(m->list, i);
        if (made_kind_of(o) == kind && strcmp(js_text(o, "name"), name) == 0)
            return o;
    }
    return NULL;
}

bool made_has(const struct made *m, enum made_kind kind, const char *name)
{
    return made_find(m, kind, name) != NULL;
}

const char *made_sum(const struct made *m, enum made_kind kind, const char *name)
{
    return js_text(made_find(m, kind, name), "sum");
}

bool made_wrote(const struct made *m, const char *path, const char *sum)
{
    const json_t *o = made_find(m, MADE_FILE, path);
    return sum[0] && (strcmp(js_text(o, "sum"), sum) == 0 || strcmp(js_text(o, "undo"), sum) == 0);
}

int made_note(struct made *m, enum made_kind kind, const char *name, const char *sum,
              const char *undo, struct err *e)
{
    json_t *o = made_find(m, kind, name);
    if (o && (!sum || strcmp(js_text(o, "sum"), sum) == 0))
        return 0;
    if (!o) {
        o = json_pack("{s:s, s:s}", "kind", kinds[kind], "name", name);
        if (!o)
            return err_set(e, ERR_REFUSED, 0, "a %s has a name that is not UTF-8", kinds[kind]);
        json_array_append_new(m->list, o);
    }
    if (sum)
        json_object_set_new(o, "sum", json_string(sum));
    if (undo)
        json_object_set_new(o, "undo", json_string(undo));
    return made_save(m, e);
}

int made_insert(struct made *m, size_t i, const char *sql, const char *undo, struct err *e)
{
    json_t *o =
        json_pack("{s:s, s:s, s:s}", "kind", kinds[MADE_STATEMENT], "name", sql, "undo", undo);
    if (json_array_insert_new(m->list, i, o) < 0)
        return err_set(e, ERR_REFUSED, 0, "a statement has a name that is not UTF-8");
    return made_save(m, e);
}

int made_take(struct made *m, const struct made *from, size_t i, struct err *e)
{
    const json_t *o = json_array_get(from->list, i);
    if (made_has(m, made_kind_of(o), js_text(o, "name")))
        return 0;
    json_array_append(m->list, json_array_get(from->list, i));
    return made_save(m, e);
}

int made_forget(struct made *m, size_t i, struct err *e)
{
    json_array_remove(m->list, i);
    return made_save(m, e);
}

void made_drop(struct made *m, enum made_kind kind, const char *name)
{
    struct err ignored;
    for (size_t i = json_array_size(m->list); i-- > 0;) {
        const json_t *o = json_array_get(m->list, i);
        if (made_kind_of(o) == kind && strcmp(js_text(o, "name"), name) == 0)
            made_forget(m, i, &ignored);
    }
}

void made_free(struct made *m)
{
    free(m->path);
    json_decref(m->list);
    json_decref(m->server);
    json_decref(m->scripts);
    *m = (struct made){0};
}
