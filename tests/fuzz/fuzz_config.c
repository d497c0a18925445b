/* Fuzzing of config_load(): a file that is refused says why, in one line and without a secret; what
 * is taken obeys the table of keys, whatever the file looked like. A secret here is what holds the
 * word below. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "config/keys.h"
#include "scratch.h"

#define SECRET "CANARY"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Stored is what its own kind takes, and would store again as it is. */
static void judge_text(const struct config_key *k, const char *value)
{
    if (!value)
        return;
    char *again = config_read_text(k->kind, value);
    demand(value[0] && text_utf8_valid(value, strlen(value)));
    demand(again && strcmp(again, value) == 0);
    free(again);
}

static void judge_choice(const struct config_key *k, int value)
{
    const struct config_choice *c = k->choices;
    while (c->name && c->value != value)
        c++;
    demand(c->name != NULL);
}

/* `stale`: what max_dump_age is where it is not given and dumps are rare. */
static void judge_value(const struct config_key *k, const void *field, int64_t stale)
{
    if (k->kind >= CONFIG_TEXTS) {
        judge_text(k, *(char *const *)field);
    } else if (k->kind == CONFIG_CHOICE) {
        judge_choice(k, *(const int *)field);
    } else if (k->kind == CONFIG_NUMBER || k->kind == CONFIG_PERCENT) {
        demand(*(const int *)field >= k->min && *(const int *)field <= k->max);
    } else if (k->kind == CONFIG_CONNECTIONS) {
        int n = *(const int *)field;
        demand(n == 0 || (n >= k->min && n <= k->max));
    } else if (k->kind == CONFIG_DURATION) {
        int64_t ms = *(const int64_t *)field;
        demand(ms >= k->min && (ms <= k->max || ms == stale));
    } else if (k->kind == CONFIG_SIZE) {
        uint64_t n = *(const uint64_t *)field;
        demand(n >= (uint64_t)k->min && n <= (uint64_t)k->max);
    } else if (k->kind == CONFIG_TIME) {
        demand(*(const int *)field >= 0 && *(const int *)field <= 24 * 60);
    } else if (k->kind == CONFIG_EVENTS) {
        demand((*(const unsigned *)field & ~(unsigned)EVENT_ALL) == 0);
    }
}

static bool inside(const char *path, const char *dir)
{
    size_t len = strlen(dir);
    return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static bool apart(const char *a, const char *b)
{
    return !inside(a, b) && !inside(b, a);
}

/* What config.h and example.ini promise of several keys together. */
static void judge_whole(const struct config *c)
{
    demand(c->name && c->schema && c->mysql.user && c->dump_dir && c->journal_dir);
    demand(!c->mysql.socket != !c->mysql.host);
    demand(strcmp(c->journal_dir, c->dump_dir) != 0);
    demand(!c->status_dir ||
           (apart(c->status_dir, c->dump_dir) && apart(c->status_dir, c->journal_dir)));
    demand(strcmp(c->flag_file, c->json_file) != 0);
    demand(!c->metrics_file || (strcmp(c->metrics_file, c->flag_file) != 0 &&
                                strcmp(c->metrics_file, c->json_file) != 0));
    demand(!c->smtp.url || (c->smtp.from && c->smtp.to.count));
    demand(!c->smtp.user == !c->smtp.password_file);
    for (unsigned i = 0; i < CONFIG_WEBHOOKS; i++)
        demand(!(c->webhooks[i].url && c->webhooks[i].url_file));
    demand(!(c->heartbeat_url && c->heartbeat_url_file));
    demand(c->retention.keep_last > 0);
    demand(c->ledger_count <= CONFIG_LEDGERS);
    for (unsigned i = 0; i < c->ledger_count; i++) {
        const struct config_ledger *l = &c->ledgers[i];
        demand(l->name && l->table && l->id && l->time && l->key.count && l->value.count);
        for (unsigned n = 0; n < i; n++)
            demand(strcmp(l->table, c->ledgers[n].table) != 0);
    }
    for (unsigned i = 0; i < c->smtp.to.count; i++) {
        char *to = config_read_text(CONFIG_MAIL, c->smtp.to.list[i]);
        demand(to != NULL);
        free(to);
    }
}

static bool holds_secret(const char *s, size_t len)
{
    return memmem(s, len, SECRET, strlen(SECRET)) != NULL;
}

/* Is the word nowhere but in the values of keys that may hold a secret? */
static bool only_secret(const char *s, size_t len)
{
    static const char *const keys[] = {"url", "url_file", "password_file"};
    for (const char *end = s + len; s < end;) {
        const char *nl = memchr(s, '\n', (size_t)(end - s)), *stop = nl ? nl : end;
        size_t key = 0;
        bool quiet = false;
        while (s + key < stop && s[key] != '=' && s[key] != ':' && s[key] != ' ' && s[key])
            key++;
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            quiet |= key == strlen(keys[i]) && memcmp(s, keys[i], key) == 0;
        while (s + key < stop && s[key] == ' ')
            key++;
        quiet &= s + key < stop && (s[key] == '=' || s[key] == ':');
        if (!quiet && holds_secret(s, (size_t)(stop - s)))
            return false;
        s = stop + (nl != NULL);
    }
    return true;
}

static void judge_error(const struct err *e, const char *path, const char *data, size_t size)
{
    demand(e->cls == ERR_CONFIG && text_starts(e->text, path) && !strpbrk(e->text, "\n\r\033"));
    demand(!strpbrk(e->hint, "\n\r\033"));
    if (holds_secret(e->text, strlen(e->text)) || holds_secret(e->hint, strlen(e->hint)))
        demand(!only_secret(data, size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct config untouched;
    struct config *c = &untouched;
    struct err e = {0};
    char path[40];
    int fd = scratch_file(data, size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (config_load(path, &c, &e) < 0) {
        demand(c == &untouched);
        judge_error(&e, path, (const char *)data, size);
    } else {
        for (size_t i = 0; i < config_key_count; i++) {
            const struct config_key *k = &config_keys[i];
            enum config_owner owner = config_owner(k);
            const unsigned count = owner == OWNER_LEDGER    ? c->ledger_count
                                   : owner == OWNER_WEBHOOK ? CONFIG_WEBHOOKS
                                                            : 1;
            for (unsigned n = 0; n < count; n++) {
                const char *object = owner == OWNER_LEDGER    ? (const char *)&c->ledgers[n]
                                     : owner == OWNER_WEBHOOK ? (const char *)&c->webhooks[n]
                                                              : (const char *)c;
                if (owner != OWNER_WEBHOOK || c->webhooks[n].section)
                    judge_value(k, object + k->offset, 4 * c->dump_interval);
            }
        }
        judge_whole(c);
        config_free(c);
    }
    close(fd);
    return 0;
}
