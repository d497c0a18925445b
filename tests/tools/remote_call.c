/* Calls a store as the program does: remote_call CONFIG, then on standard input a line for each
 * call:
 *
 *     put NAME FILE [SIZE]   SIZE: the announced size, -1 for unknown; default: the file's
 *     store NAME FILE        encrypted, if the config has recipients
 *     get NAME FILE [OFFSET]
 *     size NAME | list DIR | delete NAME | sweep DIR AGE_MS
 *
 * Each call is answered with a line of JSON. All calls use one connection. SIGUSR1 abandons the
 * store. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "config/config.h"
#include "offsite/remote.h"
#include "offsite/transfer.h"

static ssize_t source_read(void *arg, void *data, size_t room, struct err *e)
{
    ssize_t n = read(*(int *)arg, data, room);
    return n < 0 ? err_sys(e, errno, "source") : n;
}

static int sink_write(void *arg, const void *data, size_t len, struct err *e)
{
    return file_write_all(*(int *)arg, data, len) < 0 ? err_sys(e, errno, "sink") : 0;
}

static int list_entry(void *arg, const struct remote_entry *x, struct err *e)
{
    (void)e;
    json_object_set_new(arg, x->name, x->size < 0 ? json_null() : json_integer(x->size));
    return 0;
}

static enum remote_result store(struct remote *r, const struct config *c, const char *name,
                                const char *path, struct err *e)
{
    struct transfer t = {.store = r};
    struct transfer_stored stored;
    struct stat st;
    SCOPED(file_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fstat(fd, &st) < 0)
        abort();
    if (transfer_recipients(&c->offsite, &t.recipients, e) < 0)
        return REMOTE_REFUSED;
    return transfer_put(&t, name, fd, 0, (uint64_t)st.st_size, &stored, e);
}

static enum remote_result call(struct remote *r, const struct config *c, char *words[4],
                               json_t *out, struct err *e)
{
    const char *verb = words[0], *name = words[1] ? words[1] : "";
    SCOPED(file_close) int fd = -1;
    enum remote_result got = REMOTE_REFUSED;
    if (strcmp(verb, "put") == 0 && words[2]) {
        struct stat st;
        fd = open(words[2], O_RDONLY | O_CLOEXEC);
        if (fstat(fd, &st) < 0)
            abort();
        int64_t size = words[3] ? strtoll(words[3], NULL, 10) : st.st_size;
        got = remote_put(r, name,
                         &(struct remote_source){.read = source_read, .arg = &fd, .size = size}, e);
    } else if (strcmp(verb, "store") == 0 && words[2]) {
        got = store(r, c, name, words[2], e);
    } else if (strcmp(verb, "get") == 0 && words[2]) {
        fd = open(words[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        got = remote_get(r, name, words[3] ? strtoll(words[3], NULL, 10) : 0,
                         &(struct remote_sink){sink_write, &fd}, e);
    } else if (strcmp(verb, "size") == 0) {
        int64_t size = 0;
        got = remote_size(r, name, &size, e);
        json_object_set_new(out, "size", json_integer(size));
    } else if (strcmp(verb, "list") == 0) {
        json_t *names = json_object();
        got = remote_list(r, name, &(struct remote_list){list_entry, names}, e);
        json_object_set_new(out, "names", names);
    } else if (strcmp(verb, "delete") == 0) {
        got = remote_delete(r, name, e);
    } else if (strcmp(verb, "sweep") == 0 && words[2]) {
        unsigned removed = 0;
        got = remote_sweep(r, name, clock_wall(), strtoll(words[2], NULL, 10), &removed, e);
        json_object_set_new(out, "removed", json_integer(removed));
    } else {
        err_set(e, ERR_USAGE, 0, "no such call: %s", verb);
    }
    return got;
}

static void answer(enum remote_result got, const struct remote *r, json_t *out, const struct err *e)
{
    json_object_set_new(out, "result", json_string(remote_result_name(got)));
    json_object_set_new(out, "error", json_string(e->text));
    json_object_set_new(out, "hint", json_string(e->hint));
    json_object_set_new(out, "pause", json_integer(r ? remote_pause(r) : 0));
    json_dumpf(out, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(out);
}

static struct remote *opened;

static void on_signal(int n)
{
    (void)n;
    remote_abandon(opened);
}

int main(int argc, char **argv)
{
    struct config *cfg = NULL;
    struct remote *r = NULL;
    struct err e = {0};
    char line[4096];
    if (argc != 2 || config_load(argv[1], &cfg, &e) < 0) {
        fprintf(stderr, "%s\n", argc == 2 ? e.text : "usage: remote_call CONFIG");
        return 2;
    }
    enum remote_result got = remote_open(cfg, &r, &e);
    opened = r;
    if (r)
        signal(SIGUSR1, on_signal);
    answer(got, r, json_object(), &e);
    while (r && fgets(line, sizeof line, stdin)) {
        char *words[4] = {NULL}, *rest = NULL;
        for (size_t i = 0; i < 4 && (words[i] = strtok_r(i ? NULL : line, " \n", &rest)); i++)
            continue;
        json_t *out = json_object();
        err_clear(&e);
        answer(words[0] ? call(r, cfg, words, out, &e) : REMOTE_REFUSED, r, out, &e);
    }
    remote_close(r);
    config_free(cfg);
    return 0;
}
