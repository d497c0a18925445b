/* Fuzzing of definitions of views, routines, packages, libraries, triggers and events: what is
 * written for one that was taken has the tokens that were checked, no comment in its head, the
 * body byte for byte, and reads as the same again. The lowest four bits of the first byte select
 * how the session reads the text. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "scratch.h"
#include "sql/definition.h"
#include "sql/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct tokens {
    struct sql_token *list;
    size_t count;
};

static struct tokens tokens_of(const char *s, size_t len, const struct definition_modes *modes)
{
    struct tokens out = {0};
    struct sql_text text = {.s = s,
                            .end = s + len,
                            .ansi_quotes = modes->ansi_quotes,
                            .plain_strings = modes->plain_strings,
                            .binary = modes->bytes};
    struct sql_token t;
    while (sql_next(&text, &t) != SQL_END) {
        demand(t.kind != SQL_BAD);
        if (t.kind == SQL_COMMENT)
            continue;
        out.list = xgrow(out.list, out.count, sizeof *out.list);
        out.list[out.count++] = t;
    }
    return out;
}

/* The same token; a name that is written anew is quoted. */
static bool same(const struct sql_token *a, const struct sql_token *b, bool names_anew)
{
    if (a->kind == b->kind && a->len == b->len && memcmp(a->s, b->s, a->len) == 0)
        return true;
    struct buf x = {0}, y = {0};
    bool equal = names_anew && sql_token_name(a, &x) && sql_token_name(b, &y) &&
                 (a->kind == SQL_WORD && b->kind == SQL_WORD ? strcasecmp(x.p, y.p) == 0
                                                             : strcmp(x.p, y.p) == 0);
    buf_free(&x);
    buf_free(&y);
    return equal;
}

/* Leaves out the state of an event, whose last tokens are its comment and DO: in its place
 * DISABLE is written. */
static void leave_out_state(struct tokens *t, size_t behind)
{
    size_t at = t->count - behind, from = at;
    if (!t->list)
        return;
    static const char *const states[] = {"REPLICA", "SLAVE", "ON", "DISABLE"};
    if (at > 0 && sql_is(&t->list[at - 1], "ENABLE")) {
        from = at - 1;
    } else {
        for (size_t i = 0; i < sizeof states / sizeof *states; i++)
            from -= from > 0 && sql_is(&t->list[from - 1], states[i]);
    }
    memmove(t->list + from, t->list + at, behind * sizeof *t->list);
    t->count -= at - from;
}

/* As a server sees the head, by rules of its own: outside of quotes nothing begins a comment. */
static void no_comment_in(const char *s, const char *end, const struct definition_modes *modes)
{
    char quote = 0;
    for (; s < end; s++) {
        if (quote) {
            bool name = quote == '`' || (quote == '"' && modes->ansi_quotes);
            if (*s == '\\' && !name && !modes->plain_strings)
                s++;
            else if (*s == quote)
                quote = 0;
        } else if (strchr("'\"`", *s)) {
            quote = *s;
        } else {
            demand(*s != '#' && !(*s == '/' && s + 1 < end && s[1] == '*'));
            demand(!(*s == '-' && s + 2 < end && s[1] == '-' && (unsigned char)s[2] <= ' '));
        }
    }
    demand(quote == 0);
}

static void judge_tokens(const char *sql, const struct definition *d, const struct buf *written,
                         const struct definition_modes *modes)
{
    bool event = d->kind == DEFINITION_EVENT;
    const char *body = written->p + written->len - d->body_len;
    struct tokens in = tokens_of(sql, (size_t)(d->body - sql), modes);
    struct tokens out = tokens_of(written->p, (size_t)(body - written->p), modes);
    struct tokens rest = tokens_of(d->rest.len ? d->rest.p : "", d->rest.len, modes);
    struct tokens comment = tokens_of(d->comment.len ? d->comment.p : "", d->comment.len, modes);
    size_t behind = event ? comment.count + 1 : 0, n = rest.count + behind;
    demand(event || comment.count == 0);
    if (event) {
        demand(in.count > behind && out.count > behind);
        leave_out_state(&in, behind);
        leave_out_state(&out, behind);
    }
    demand(n < in.count && n < out.count);
    for (size_t i = 1; i <= n; i++)
        demand(same(&in.list[in.count - i], &out.list[out.count - i],
                    d->kind == DEFINITION_TRIGGER || (event && i == 1))); /* DO is written anew */
    free(in.list);
    free(out.list);
    free(rest.list);
    free(comment.list);
}

static void judge(const char *sql, const struct definition *d, const struct definition_modes *modes,
                  bool definer)
{
    struct definition again;
    struct buf first = {0}, second = {0};
    const char *why = NULL;
    definition_write(d, definer, &first);
    demand(strlen(first.p) == first.len && strncmp(first.p, "CREATE ", 7) == 0);
    demand(first.len > d->body_len &&
           memcmp(first.p + first.len - d->body_len, d->body, d->body_len) == 0);
    no_comment_in(first.p, first.p + first.len - d->body_len, modes);
    judge_tokens(sql, d, &first, modes);
    demand(definition_read(first.p, first.len, modes, &again, &why));
    demand(again.kind == d->kind && strcmp(again.name.p, d->name.p) == 0);
    demand(again.has_definer == (definer && d->has_definer));
    demand(!again.enabled || again.kind != DEFINITION_EVENT);
    demand(again.body_len == d->body_len && memcmp(again.body, d->body, d->body_len) == 0);
    definition_write(&again, definer, &second);
    demand(first.len == second.len && memcmp(first.p, second.p, first.len) == 0);
    definition_free(&again);
    buf_free(&first);
    buf_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct definition d;
    const char *why = NULL;
    if (size == 0)
        return 0;
    const struct definition_modes modes = {.ansi_quotes = data[0] & 1,
                                           .plain_strings = data[0] & 2,
                                           .oracle = data[0] & 4,
                                           .bytes = data[0] & 8};
    char *text = scratch_copy((const char *)data + 1, size - 1);
    if (definition_read(text, size - 1, &modes, &d, &why)) {
        if (d.host.len > 0) /* a role is never written */
            judge(text, &d, &modes, true);
        judge(text, &d, &modes, false);
    } else {
        demand(why && why[0] && d.name.p);
    }
    definition_free(&d);
    free(text);
    return 0;
}
