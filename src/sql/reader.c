#include "sql/reader.h"

#include <string.h>
#include <strings.h>

#include "sql/literal.h"
#include "sql/table.h"

/* Reads the next token. Clauses in listed version comments are read like other clauses, because
 * the writer decides for which server they are written. */
static void next_of(struct sql_text *text, struct sql_token *t, bool bare)
{
    do
        sql_next(text, t);
    while (t->kind == SQL_COMMENT || (!bare && (t->kind == SQL_ENTER || t->kind == SQL_LEAVE)));
}

void reader_next(struct reader *r)
{
    next_of(&r->text, &r->t, r->bare);
    /* One server would read the clause and another would not. The text that is checked must be
     * the text that runs. */
    if (r->bare && (r->t.kind == SQL_ENTER || r->t.kind == SQL_VERSION))
        reader_stop(r, "its beginning has a comment that only some servers execute");
}

void reader_stop(struct reader *r, const char *why)
{
    if (!r->text.why)
        r->text.why = why;
    r->t.kind = SQL_BAD;
}

/* Returns the token that reader_next() would read, skipping comments. */
struct sql_token reader_peek(const struct reader *r)
{
    struct sql_text ahead = r->text;
    struct sql_token t;
    next_of(&ahead, &t, r->bare);
    return t;
}

bool reader_at(const struct reader *r, const char *words)
{
    /* reads ahead on copies, so that nothing is consumed unless all words match */
    struct sql_text text = r->text;
    struct sql_token t = r->t;
    for (;; words++) {
        size_t n = strcspn(words, " ");
        if (t.kind != SQL_WORD || t.len != n || strncasecmp(t.s, words, n) != 0)
            return false;
        words += n;
        if (!*words)
            return true;
        next_of(&text, &t, r->bare);
    }
}

/* Compares a name. MariaDB quotes some option names, and their case does not matter. */
bool reader_names(const struct reader *r, const char *name)
{
    SCOPED(buf_free) struct buf b = {0};
    return sql_token_name(&r->t, &b) && strcasecmp(b.p, name) == 0;
}

bool reader_word(struct reader *r, const char *words)
{
    if (!reader_at(r, words))
        return false;
    for (; words; words = strchr(words + 1, ' '))
        reader_next(r);
    return true;
}

bool reader_punct(struct reader *r, const char *sign)
{
    bool is = sql_is_punct(&r->t, sign);
    if (is)
        reader_next(r);
    return is;
}

bool reader_token(struct reader *r, enum sql_kind kind)
{
    bool is = r->t.kind == kind;
    if (is)
        reader_next(r);
    return is;
}

/* Rejects a text. A definition may be hostile, so only a short and printable part of it is
 * shown. The hint names a way that the administrator can choose deliberately; nothing is
 * accepted by guessing. */
void reader_refuse_text(struct reader *r, const char *what, const char *text, size_t len)
{
    SCOPED(buf_free) struct buf said = {0}, table = {0};
    /* the first error is the cause; later ones follow from it */
    if (r->refused)
        return;
    SCOPED(xfree) char *copy = xstrndup(text, len < 200 ? len : 200);
    text_clean(&said, copy, 60);
    text_clean(&table, r->of->name ? r->of->name : "", 64);
    err_set(r->e, ERR_REFUSED, 0, "table %s: %s%s%s is not accepted from a dump", table.p,
            what ? what : "", what ? " " : "", said.p);
    err_hint(r->e, "gunzip -c DUMP.sql.gz shows the definition; if you trust the file, the stock "
                   "client executes it unchanged: gunzip -c DUMP.sql.gz | mysql SCHEMA");
    r->refused = true;
    reader_stop(r, "refused");
}

/* Rejects the current token and quotes it in the message. The end of the text and an invalid
 * token have fixed descriptions. */
void reader_refuse(struct reader *r, const char *what)
{
    if (r->t.kind == SQL_END)
        reader_refuse_text(r, what, "(the text ends here)", 20);
    else if (r->t.kind == SQL_BAD)
        reader_refuse_text(r, what, r->text.why, strlen(r->text.why));
    else
        reader_refuse_text(r, r->t.kind == SQL_VERSION ? "the version comment" : what, r->t.s,
                           r->t.len);
}

/* Requires these words, because without them the rest cannot be understood. */
void reader_need(struct reader *r, const char *words)
{
    if (!reader_word(r, words))
        reader_refuse(r, NULL);
}

void reader_expect(struct reader *r, enum sql_kind kind, struct buf *out)
{
    if (r->t.kind != kind) {
        reader_refuse(r, NULL);
        return;
    }
    if (out)
        buf_add(out, r->t.s, r->t.len);
    reader_next(r);
}

/* Reads an unsigned integer. No option and no length has a sign, fraction or exponent. */
void reader_number(struct reader *r, struct buf *out)
{
    bool whole = r->t.kind == SQL_NUMBER;
    for (size_t i = 0; i < r->t.len; i++)
        whole = whole && r->t.s[i] >= '0' && r->t.s[i] <= '9';
    if (whole)
        reader_expect(r, SQL_NUMBER, out);
    else
        reader_refuse(r, "the number");
}

/* Reads a string to its bytes and writes it again, so that its original quoting does not matter. */
void reader_string(struct reader *r, struct buf *out)
{
    SCOPED(buf_free) struct buf bytes = {0};
    if (r->t.kind != SQL_STRING) {
        reader_refuse(r, "the text");
        return;
    }
    sql_token_bytes(&r->t, r->text.plain_strings, &bytes);
    sql_text_literal(out, bytes.p, bytes.len);
    reader_next(r);
}

void reader_name(struct reader *r, struct buf *out)
{
    size_t from = out->len;
    bool is = sql_token_name(&r->t, out);
    /* No server stores names with characters beyond the BMP. It would store a different name. */
    for (size_t i = from; is && i < out->len; i++)
        is = (unsigned char)out->p[i] < 0xf0;
    if (is)
        reader_next(r);
    else
        reader_refuse(r, "the name");
}

/* Reads a name and always quotes it, so that it is never a keyword of a later version. */
void reader_identifier(struct reader *r, struct buf *out)
{
    SCOPED(buf_free) struct buf name = {0};
    reader_name(r, &name);
    sql_ident(out, name.p ? name.p : "");
}

void reader_identifiers(struct reader *r, struct buf *out)
{
    reader_expect(r, SQL_OPEN, out);
    reader_identifier(r, out);
    while (reader_punct(r, ",")) {
        buf_addc(out, ',');
        reader_identifier(r, out);
    }
    reader_expect(r, SQL_CLOSE, out);
}

/* Reads the name of a character set or collation. A collation's name begins with the name of its
 * character set. */
void reader_letters(struct reader *r, struct buf *out)
{
    static const char charsets[] =
        "armscii8 ascii big5 binary cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 cp932 dec8 "
        "eucjpms euckr gb18030 gb2312 gbk geostd8 greek hebrew hp8 keybcs2 koi8r koi8u latin1 "
        "latin2 latin5 latin7 macce macroman sjis swe7 tis620 uca1400 ucs2 ujis utf16 utf16le "
        "utf32 utf8 utf8mb3 utf8mb4";
    /* a name that consists of such letters needs no quotes */
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    size_t cut = r->t.kind == SQL_STRING, front = 0;
    bool is = (cut || r->t.kind == SQL_WORD) && r->t.len > 2 * cut;
    const char *s = r->t.s + cut;
    size_t len = is ? r->t.len - 2 * cut : 0;
    for (size_t i = 0; i < len; i++)
        is = is && s[i] && strchr(letters, s[i] | (s[i] == '_' ? 0 : 0x20));
    while (front < len && s[front] != '_')
        front++;
    if (!is || !sql_find_word(charsets, s, front)) {
        reader_refuse(r, "the character set");
        return;
    }
    buf_add(out, s, len);
    reader_next(r);
}

/* Reads a name and appends it as spelled in our list, so that the server receives no byte of the
 * file. */
void reader_named_one_of(struct reader *r, const char *list, const char *what, struct buf *out)
{
    SCOPED(buf_free) struct buf name = {0};
    const char *word = sql_token_name(&r->t, &name) ? sql_find_word(list, name.p, name.len) : NULL;
    if (!word) {
        reader_refuse(r, what);
        return;
    }
    buf_add(out, word, name.len);
    reader_next(r);
}

void reader_one_of(struct reader *r, const char *list, const char *what, struct buf *out)
{
    if (r->t.kind == SQL_WORD)
        reader_named_one_of(r, list, what, out);
    else
        reader_refuse(r, what);
}

char *reader_own(struct reader *r, char *text)
{
    r->of->texts = xgrow(r->of->texts, r->of->text_count, sizeof *r->of->texts);
    return r->of->texts[r->of->text_count++] = text;
}

/* Reads a text that is never NULL, so that an empty clause differs from a missing one. */
void reader_text(struct reader *r, read_fn *fn, char **out)
{
    struct buf b = {0};
    fn(r, &b);
    *out = reader_own(r, b.p ? b.p : xstrdup(""));
}
