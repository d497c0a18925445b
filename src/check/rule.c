/* The engine of --check: words, terms, texts, rules. */
#include "check/rule.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/js.h"
#include "sql/literal.h"

#define NEARLY_FULL 80 /* percent of a MEMORY table's limit */
#define NAMES_SHOWN 5
#define DIGITS "-0123456789"

/* ---- words ---- */

/* Searches linearly: there are few facts, and a check spends its time in the server. */
static struct check_fact *rule_find(const struct check *c, const char *name, size_t len)
{
    for (size_t i = 0; i < c->fact_count; i++)
        if (c->facts[i].len == len && memcmp(c->facts[i].name, name, len) == 0)
            return &c->facts[i];
    return NULL;
}

/* Takes ownership of `text`. */
static const char *rule_set(struct check *c, const char *name, size_t len, char *text)
{
    struct check_fact *f = rule_find(c, name, len);
    if (!f) {
        c->facts = xrealloc(c->facts, (c->fact_count + 1) * sizeof *c->facts);
        f = &c->facts[c->fact_count++];
        *f = (struct check_fact){.name = name, .len = len};
    }
    free(f->text);
    f->text = text ? text : xstrdup("");
    return f->text;
}

void check_word(struct check *c, const char *name, const char *fmt, ...)
{
    struct buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    rule_set(c, name, strlen(name), b.p);
}

void check_fact(struct check *c, const char *name, bool holds)
{
    check_word(c, name, "%d", holds);
}

void check_number(struct check *c, const char *name, int64_t n)
{
    check_word(c, name, "%lld", (long long)n);
}

bool check_table_size(struct check *c, const struct db_table *t, const char *size, const char *room)
{
    /* Indexes are not counted: the server's limit applies to the data only. */
    uint64_t most = t->memory ? t->max_data_length : 0;
    check_number(c, size, (int64_t)t->data_length);
    check_number(c, room, (int64_t)most);
    return most && t->data_length / NEARLY_FULL >= most / 100;
}

void check_names(struct check *c, const char *name, const struct names *n)
{
    struct buf b = {0};
    for (size_t i = 0; i < n->count && i < NAMES_SHOWN; i++) {
        buf_adds(&b, i ? ", " : "");
        sql_ident(&b, n->list[i]);
    }
    if (n->count > NAMES_SHOWN)
        buf_printf(&b, " and %zu more", n->count - NAMES_SHOWN);
    rule_set(c, name, strlen(name), b.p);
}

void check_list(struct check *c, const char *name, const json_t *list)
{
    struct buf b = {0};
    for (size_t i = 0; i < json_array_size(list); i++)
        buf_printf(&b, "%s%s", i ? ", " : "", json_string_value(json_array_get(list, i)));
    rule_set(c, name, strlen(name), b.p);
}

/* Sets the words of an error. A hint to run --check is useless within --check, so it is replaced by
 * a reference to the finding. */
void check_words_error(struct check *c, const char *error, const char *hint, const struct err *e)
{
    bool any = e->cls != ERR_NONE;
    check_word(c, error, "%s", any ? e->text : "");
    check_word(c, hint, "%s",
               !any                         ? ""
               : strstr(e->hint, "--check") ? "see the finding \"rights\""
                                            : e->hint);
}

/* Returns the text of a word. A server variable is queried when its word is first used. */
static const char *rule_word(struct check *c, const char *name, size_t len)
{
    const struct check_fact *f = rule_find(c, name, len);
    if (f)
        return f->text;
    SCOPED(xfree) char *key = xstrndup(name, len);
    char *text = NULL;
    if (key[0] == '@' && c->db) {
        SCOPED(xfree) char *sql =
            xasprintf("SELECT @@%s%s", strchr(key, '.') ? "" : "global.", key + 1);
        text = db_one(c->db, sql, NULL);
    } else if (strchr(key, '.')) {
        text = config_value(c->cfg, key);
    }
    return rule_set(c, name, len, text);
}

const char *check_text(struct check *c, const char *name)
{
    return rule_word(c, name, strlen(name));
}

int64_t check_value(struct check *c, const char *name)
{
    return db_variable_value(check_text(c, name));
}

/* The server writes true as 1, ON or YES. An unknown word counts as false. */
static bool is_true(const char *text)
{
    return text[0] && strcmp(text, "0") != 0 && strcasecmp(text, "OFF") != 0 &&
           strcasecmp(text, "NO") != 0;
}

bool check_is(struct check *c, const char *name)
{
    return is_true(check_text(c, name));
}

/* ---- rules ---- */

/* Evaluates "word", "word=text" or "a<b", where a and b are words or numbers. The term is false if
 * either number is missing. */
static bool term_holds(struct check *c, const char *s, size_t len)
{
    size_t left = strcspn(s, "=< "), right = len - left - 1;
    if (left >= len)
        return is_true(rule_word(c, s, len));
    if (s[left] == '=') {
        const char *is = rule_word(c, s, left);
        return strlen(is) == right && memcmp(is, s + left + 1, right) == 0;
    }
    const struct {
        const char *name;
        size_t len;
    } sides[] = {{s, left}, {s + left + 1, right}};
    int64_t n[2];
    for (size_t i = 0; i < 2; i++) {
        const char *text = sides[i].name;
        if (strspn(text, DIGITS) < sides[i].len) {
            text = rule_word(c, text, sides[i].len);
            if (!text[0] || text[strspn(text, DIGITS)])
                return false;
        }
        n[i] = strtoll(text, NULL, 10);
    }
    return n[0] < n[1];
}

/* Returns true if all terms of `when` hold. */
static bool all_hold(struct check *c, const char *when, unsigned found)
{
    size_t len;
    for (const char *s = when; s && *s; s += len + (s[len] == ' ')) {
        bool negated = *s == '!';
        s += negated;
        len = strcspn(s, " ");
        bool is = strncmp(s, "found", len) == 0 ? found > 0 : term_holds(c, s, len);
        if (is == negated)
            return false;
    }
    return true;
}

bool check_holds(struct check *c, const char *when)
{
    return all_hold(c, when, 0);
}

/* The query runs only if all terms hold, because it costs a round trip. */
static bool rule_holds(struct check *c, const struct check_rule *r, unsigned found)
{
    if (!all_hold(c, r->when, found))
        return false;
    if (!r->query)
        return true;
    SCOPED(names_free) struct names names = {0};
    db_names_select(c->db, r->query, DB_ARGS(c->cfg->schema), &names, NULL);
    check_names(c, "names", &names);
    return names.count > 0;
}

/* Appends the value of the word that `spec` names, in the format that `spec` requests. */
static void rule_show(struct check *c, const char *spec, struct buf *out)
{
    size_t len = strcspn(spec, ":}");
    const char *text = rule_word(c, spec, len), *form = spec + len;
    char t[TEXT_SHORT];
    if (text_starts(form, ":size"))
        buf_adds(out, text_size(strtoull(text, NULL, 10), t));
    else if (text_starts(form, ":time"))
        buf_adds(out, text_duration(strtoll(text, NULL, 10), t));
    else if (text_starts(form, ":count"))
        buf_adds(out, text_count(strtoull(text, NULL, 10), t));
    else if (text_starts(form, ":+"))
        buf_adds(out, strcmp(text, "1") == 0 ? "" : "s");
    else if (text_starts(form, ":shell"))
        buf_shell(out, text);
    else if (text_starts(form, ":name"))
        sql_ident(out, text);
    else if (text_starts(form, ":account"))
        db_account_quote(out, text);
    else
        buf_adds(out, text);
}

/* Expands the words in the text of a rule. */
static void fill_in(struct check *c, const char *text, struct buf *out)
{
    buf_adds(out, "");
    while (*text) {
        size_t plain = strcspn(text, "{");
        buf_add(out, text, plain);
        text += plain;
        if (!*text)
            break;
        rule_show(c, text + 1, out);
        text += strcspn(text, "}") + 1;
    }
}

void check_rules(struct check *c, const struct check_rule *rules, size_t count)
{
    static const char *const levels[] = {"ok", "note", "warn", "fail"};
    unsigned found = 0;
    bool ended = false;
    for (size_t i = 0; i < count; i++) {
        const struct check_rule *r = &rules[i];
        SCOPED(buf_free) struct buf text = {0}, raw = {0}, hint = {0};
        if (i > 0 && strcmp(r->name, r[-1].name) != 0) {
            ended = false;
            found = 0;
        }
        if (ended || !rule_holds(c, r, found))
            continue;
        fill_in(c, r->text, &text);
        fill_in(c, r->hint ? r->hint : "", &raw);
        /* The hint is a command that the reader can run, as this user or as root. */
        hint_command(c->cfg, c->reader, raw.p, &hint);
        json_array_append_new(c->list, json_pack("{s:s, s:s, s:o, s:o}", "name", r->name, "level",
                                                 levels[r->level], "text", js_clean(text.p), "hint",
                                                 js_clean(hint.len ? hint.p : "")));
        c->failed += r->level == CHECK_FAIL;
        found++;
        ended = !r->go_on;
    }
}

/* ---- its beginning and end ---- */

struct check check_begin(const struct config *cfg, enum hint_reader reader)
{
    struct check c = {.cfg = cfg, .reader = reader, .list = json_array(), .dirfd = -1};
    SCOPED(xfree) char *user = hint_user(cfg);
    check_word(&c, "user", "%s", user);
    check_word(&c, "uid", "%u", (unsigned)geteuid());
    check_fact(&c, "root", geteuid() == 0);
    return c;
}

void check_free(struct check *c)
{
    for (size_t i = 0; i < c->fact_count; i++)
        free(c->facts[i].text);
    free(c->facts);
    json_decref(c->list);
    db_close(c->db);
    grants_free(&c->grants);
    for (size_t i = 0; i < c->role_count; i++) {
        free(c->roles[i].name);
        grants_free(&c->roles[i].grants);
    }
    free(c->roles);
    db_tables_free(&c->tables);
    db_triggers_free(&c->triggers);
    for (size_t i = 0; i < c->world_count; i++)
        free(c->worlds[i].schema);
    free(c->worlds);
    catalog_free(&c->catalog);
    if (c->dirfd >= 0)
        close(c->dirfd);
}
