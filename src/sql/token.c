#include "sql/token.h"

#include <ctype.h>
#include <string.h>

/* Version comments of SHOW CREATE TABLE: the number, and the words that the clause begins with.
 * MySQL writes all of them; MariaDB only the parser and its own COMPRESSED, and partitions before
 * version 10. Other numbers and clauses do not match, even if a server would execute them. */
static const struct known {
    const char *head, *clause;
} known[] = {
    {"/*!50100", "PARTITION BY "},    {"/*!50500", "PARTITION BY "},
    {"/*!50100", "TABLESPACE "},      {"/*!50100", "WITH PARSER "},
    {"/*!50606", "STORAGE "},         {"/*!50606", "COLUMN_FORMAT "},
    {"/*!80000", "INVISIBLE "},       {"/*!80003", "SRID "},
    {"/*!80016", "NOT ENFORCED "},    {"/*!80016", "ENCRYPTION="},
    {"/*!80021", "ENGINE_ATTRIBUTE"}, {"/*!80021", "SECONDARY_ENGINE_ATTRIBUTE"},
    {"/*!80023", "AUTOEXTEND_SIZE="}, {"/*!80023", "INVISIBLE "},
    {"/*M!100301", "COMPRESSED*/"},
};

/* Returns true for ASCII blanks only, regardless of the locale. */
static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_word(char c)
{
    return text_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '$' || (unsigned char)c >= 0x80;
}

static bool is_bit(char c)
{
    return c == '0' || c == '1';
}

static bool token_at(const struct sql_text *x, const char *s, const char *what)
{
    size_t n = strlen(what);
    return (size_t)(x->end - s) >= n && memcmp(s, what, n) == 0;
}

/* Ends the text at the first thing that is not understood, because the rest could be read in two
 * ways. */
static enum sql_kind token_bad(struct sql_text *x, struct sql_token *t, const char *why)
{
    x->why = why;
    x->s = t->s;
    t->len = 0;
    return t->kind = SQL_BAD;
}

/* Accepts a token: the next one begins after it. */
static enum sql_kind token_take(struct sql_text *x, struct sql_token *t, enum sql_kind kind,
                                const char *after)
{
    t->len = (size_t)(after - t->s);
    x->s = after;
    return t->kind = kind;
}

/* Returns the position after the closing quote, or NULL if there is none. `s` is at the opening
 * quote. */
static const char *after_quotes(const struct sql_text *x, const char *s, bool escapes)
{
    char quote = *s++;
    for (; s < x->end; s++) {
        if (*s == quote && (s + 1 == x->end || s[1] != quote))
            return s + 1;
        if (*s == quote || (*s == '\\' && escapes))
            s++;
    }
    return NULL;
}

/* Reads a quoted text. Rejects bytes that are not UTF-8: they could end in an incomplete
 * character, which some character sets complete with the quote. */
static enum sql_kind token_quoted(struct sql_text *x, struct sql_token *t, const char *s)
{
    bool name = *s == '`' || (*s == '"' && x->ansi_quotes);
    const char *after = after_quotes(x, s, !name && !x->plain_strings);
    if (!after)
        return token_bad(
            x, t, name ? "a name without its closing quote" : "a string without its closing quote");
    bool any = x->binary && !name;
    if (!any && memchr(s, '\0', (size_t)(after - s)))
        return token_bad(x, t, "a NUL byte in quotes");
    if (!any && !text_utf8_valid(s, (size_t)(after - s)))
        return token_bad(x, t, "bytes in quotes that are not UTF-8");
    return token_take(x, t, name ? SQL_NAME : SQL_STRING, after);
}

/* Reads x'…' and b'…', which may contain only digits that form whole bytes. */
static enum sql_kind digits_in_quotes(struct sql_text *x, struct sql_token *t)
{
    bool hex = *t->s == 'x' || *t->s == 'X';
    const char *s = t->s + 2;
    while (s < x->end && (hex ? isxdigit((unsigned char)*s) : is_bit(*s)))
        s++;
    if (s == x->end || *s != '\'' || (hex && (s - t->s) % 2 != 0))
        return token_bad(x, t, "a literal of digits that contains other characters");
    return token_take(x, t, hex ? SQL_HEX : SQL_BITS, s + 1);
}

/* Returns true if a literal follows, so that _latin1 before it is an introducer. Alone _latin1
 * is a name. */
static bool begins_literal(const struct sql_text *x, const char *s)
{
    if (token_at(x, s, "'") || token_at(x, s, "0x") || token_at(x, s, "0b") ||
        (token_at(x, s, "\"") && !x->ansi_quotes))
        return true;
    return x->end - s > 1 && strchr("xXbB", *s) && *s && s[1] == '\'';
}

static enum sql_kind token_word(struct sql_text *x, struct sql_token *t)
{
    const char *s = t->s;
    while (s < x->end && is_word(*s))
        s++;
    if (!text_utf8_valid(t->s, (size_t)(s - t->s)))
        return token_bad(x, t, "bytes that are not UTF-8");
    const char *next = s;
    while (next < x->end && is_blank(*next))
        next++;
    bool charset = *t->s == '_' && s - t->s > 1 && begins_literal(x, next);
    return token_take(x, t, charset ? SQL_CHARSET : SQL_WORD, s);
}

/* Returns the end of 0xAB or 0b01. Returns NULL if another letter follows, which makes it a
 * name. */
static const char *after_prefixed(const struct sql_text *x, const char *s)
{
    bool hex = token_at(x, s, "0x");
    const char *from = s += 2;
    while (s < x->end && (hex ? isxdigit((unsigned char)*s) : is_bit(*s)))
        s++;
    return s == from || (s < x->end && is_word(*s)) ? NULL : s;
}

/* Skips digits. There may be none: ".5" and "5." are numbers too. */
static const char *after_digits(const struct sql_text *x, const char *s)
{
    while (s < x->end && text_is_digit(*s))
        s++;
    return s;
}

/* Reads 12, 1.5, .5, 1e5, 1.5E-3, or a word that begins with digits. */
static enum sql_kind token_number(struct sql_text *x, struct sql_token *t)
{
    if (token_at(x, t->s, "0x") || token_at(x, t->s, "0b")) {
        const char *after = after_prefixed(x, t->s);
        return after ? token_take(x, t, t->s[1] == 'x' ? SQL_HEX : SQL_BITS, after)
                     : token_word(x, t);
    }
    const char *s = after_digits(x, t->s);
    bool point = token_at(x, s, ".");
    if (point)
        s = after_digits(x, s + 1);
    if (token_at(x, s, "e") || token_at(x, s, "E")) {
        const char *power = s + 1 + (token_at(x, s + 1, "-") || token_at(x, s + 1, "+"));
        if (power < x->end && text_is_digit(*power)) {
            s = after_digits(x, power);
            point = true;
        }
    }
    if (s == x->end || !is_word(*s))
        return token_take(x, t, SQL_NUMBER, s);
    return point ? token_bad(x, t, "a number with letters in it") : token_word(x, t);
}

/* Returns the position after a listed comment's start and its blank, or NULL. */
static const char *after_known_head(const struct sql_text *x, const char *s)
{
    for (const struct known *k = known; k < known + sizeof known / sizeof *known; k++) {
        size_t n = strlen(k->head);
        if (token_at(x, s, k->head) && token_at(x, s + n, " ") && token_at(x, s + n + 1, k->clause))
            return s + n + 1;
    }
    return NULL;
}

/* Reads a comment. Everything up to the first end of a comment is one token, unless the comment
 * is listed; then its contents are read. A version comment inside an entered one is rejected,
 * because it would end in different places on different servers. */
static enum sql_kind token_comment(struct sql_text *x, struct sql_token *t)
{
    bool version = token_at(x, t->s, "/*!") || token_at(x, t->s, "/*M!");
    const char *clause = version ? after_known_head(x, t->s) : NULL;
    if (x->entered)
        return token_bad(x, t, "a comment in a comment");
    if (clause) {
        x->entered = true;
        return token_take(x, t, SQL_ENTER, clause);
    }
    const char *from = t->s + 2;
    const char *close = memmem(from, (size_t)(x->end - from), "*/", 2);
    if (!close)
        return token_bad(x, t, "a comment that is not terminated");
    return token_take(x, t, version ? SQL_VERSION : SQL_COMMENT, close + 2);
}

enum sql_kind sql_next(struct sql_text *x, struct sql_token *t)
{
    while (x->s < x->end && is_blank(*x->s))
        x->s++;
    const char *s = x->s;
    *t = (struct sql_token){.s = s};
    if (x->why)
        return token_bad(x, t, x->why);
    if (s == x->end)
        return x->entered ? token_bad(x, t, "a comment that is not terminated") : SQL_END;
    /* checked first, because these are a third of the tokens in rows */
    if (*s == ',' || *s == '(' || *s == ')')
        return token_take(x, t, *s == ',' ? SQL_PUNCT : *s == '(' ? SQL_OPEN : SQL_CLOSE, s + 1);
    if (*s == '\'' || *s == '"' || *s == '`')
        return token_quoted(x, t, s);
    if (text_is_digit(*s) || (*s == '.' && x->end - s > 1 && text_is_digit(s[1])))
        return token_number(x, t);
    if (token_at(x, s + 1, "'") && (*s == 'x' || *s == 'X' || *s == 'b' || *s == 'B'))
        return digits_in_quotes(x, t);
    if (is_word(*s))
        return token_word(x, t);
    if (token_at(x, s, "/*"))
        return token_comment(x, t);
    if (token_at(x, s, "*/")) {
        /* One server would treat the end of a comment without a beginning as code, another one
         * as two operators. */
        if (!x->entered)
            return token_bad(x, t, "the end of a comment without its beginning");
        x->entered = false;
        return token_take(x, t, SQL_LEAVE, t->s + 2);
    }
    bool dashes = token_at(x, s, "--") && (s + 2 == x->end || (unsigned char)s[2] <= ' ');
    if (dashes || *s == '#') {
        const char *nl = memchr(s, '\n', (size_t)(x->end - s));
        return x->entered ? token_bad(x, t, "a comment in a comment")
                          : token_take(x, t, SQL_COMMENT, nl ? nl : x->end);
    }
    /* The longest operators come first, as in the servers. */
    static const char *const longer[] = {
        "->>", "<=>", "->", "<<", ">>", "<=", ">=", "<>", "!=", "&&", "||", ":=", NULL};
    for (const char *const *o = longer; *o; o++)
        if (token_at(x, t->s, *o))
            return token_take(x, t, SQL_PUNCT, t->s + strlen(*o));
    if (*t->s > ' ' && *t->s < 0x7f)
        return token_take(x, t, SQL_PUNCT, t->s + 1);
    return token_bad(x, t, *t->s ? "a control character" : "a NUL byte");
}

/* Reads ahead on a copy of the state, which is only a few pointers. */
struct sql_token sql_peek(const struct sql_text *text)
{
    struct sql_text ahead = *text;
    struct sql_token t;
    sql_next(&ahead, &t);
    return t;
}

bool sql_is(const struct sql_token *t, const char *word)
{
    return t->kind == SQL_WORD && strlen(word) == t->len && strncasecmp(t->s, word, t->len) == 0;
}

const char *sql_find_word(const char *list, const char *word, size_t len)
{
    while (*list) {
        size_t n = strcspn(list, " ");
        if (n == len && strncasecmp(list, word, n) == 0)
            return list;
        list += n + (list[n] == ' ');
    }
    return NULL;
}

/* Compares the whole sign: "-" is not a part of "->". */
bool sql_is_punct(const struct sql_token *t, const char *sign)
{
    return t->kind == SQL_PUNCT && strlen(sign) == t->len && memcmp(t->s, sign, t->len) == 0;
}

bool sql_token_name(const struct sql_token *t, struct buf *out)
{
    if (t->kind == SQL_WORD) {
        buf_add(out, t->s, t->len);
        return true;
    }
    if (t->kind != SQL_NAME || t->len < 3)
        return false;
    /* in a quoted name only the quote is special (doubled): backslashes are ordinary */
    for (const char *s = t->s + 1; s < t->s + t->len - 1; s++) {
        buf_addc(out, *s);
        s += *s == *t->s; /* a doubled quote */
    }
    return true;
}

/* Appends digits as bytes. If the number of digits does not fill whole bytes, the first byte is
 * the incomplete one. */
static void add_digits(struct buf *out, const char *s, size_t n, unsigned per_byte, unsigned bits)
{
    unsigned byte = 0;
    for (; n > 0; s++, n--) {
        byte = (byte << bits | text_hex_value(*s)) & 0xff;
        if ((n - 1) % per_byte == 0) {
            buf_addc(out, (char)byte);
            byte = 0;
        }
    }
}

/* [letter] is the character after a backslash, or 0 if the letter is unchanged. */
static const char meant[256] = {['n'] = '\n', ['r'] = '\r', ['t'] = '\t', ['b'] = '\b', ['Z'] = 26};

/* Unescapes like the servers: \% and \_ keep their backslash, unknown letters lose it. */
bool sql_token_bytes(const struct sql_token *t, bool plain_strings, struct buf *out)
{
    if (t->kind == SQL_HEX || t->kind == SQL_BITS) {
        bool hex = t->kind == SQL_HEX;
        add_digits(out, t->s + 2, t->len - 2 - (t->s[1] == '\''), hex ? 2 : 8, hex ? 4 : 1);
        return true;
    }
    if (t->kind != SQL_STRING)
        return false;
    buf_adds(out, "");
    for (const char *s = t->s + 1, *close = t->s + t->len - 1; s < close; s++) {
        if (*s == *t->s) {
            s++; /* a doubled quote */
        } else if (*s == '\\' && !plain_strings) {
            s++;
            if (*s == '0')
                buf_addc(out, '\0');
            else if (*s == '%' || *s == '_')
                buf_addc(out, '\\'), buf_addc(out, *s);
            else
                buf_addc(out, meant[(unsigned char)*s] ? meant[(unsigned char)*s] : *s);
            continue;
        }
        buf_addc(out, *s);
    }
    return true;
}

/* Bytes that begin a quoted text or a comment. */
static const bool opens[256] = {
    ['\''] = true, ['"'] = true, ['`'] = true, ['#'] = true, ['-'] = true, ['/'] = true};

/* Returns the position after the classified text, or NULL if the bytes after `end` are needed to
 * decide. A doubled quote closes and reopens the text, with the same result. */
static const char *scan_inside(struct sql_scan *st, const char *s, const char *end)
{
    if (st->quote) {
        const char quote = st->quote;
        s += st->escaped;
        st->escaped = false;
        while (s < end && *s != quote && *s != '\\')
            s++;
        if (s == end)
            return s;
        st->escaped = *s == '\\' && quote != '`' && !st->plain;
        if (*s == quote)
            st->quote = 0;
        return s + 1;
    }
    const char *at = memchr(s, st->comment == '-' ? '\n' : '*', (size_t)(end - s));
    if (!at)
        return end;
    if (st->comment == '*' && at > s)
        return at;
    if (st->comment == '*' && end - at < 2)
        return NULL;
    if (st->comment == '-' || at[1] == '/') {
        at += st->comment == '*';
        st->comment = 0;
    }
    return at + 1;
}

/* Handles one of `opens`. Returns the same as scan_inside(). */
static const char *scan_opening(struct sql_scan *st, const char *s, const char *end)
{
    size_t left = (size_t)(end - s);
    if (*s == '-') { /* two dashes start a comment only before white space: 5--3 is 8 */
        if (left < 2 || (s[1] == '-' && left < 3))
            return NULL;
        if (s[1] != '-' || !(isspace((unsigned char)s[2]) || iscntrl((unsigned char)s[2])))
            return s + 1;
        st->comment = '-';
        return s + 2;
    }
    if (*s == '/') { /* the contents of a conditional comment are part of the statement */
        if (left < 2 || (s[1] == '*' && (left < 3 || (s[2] == 'M' && left < 4))))
            return NULL;
        if (s[1] != '*')
            return s + 1;
        if (s[2] == '!' || (s[2] == 'M' && s[3] == '!'))
            return s + 3;
        st->comment = '*';
        return s + 2;
    }
    if (*s == '#')
        st->comment = '-';
    else
        st->quote = *s;
    return s + 1;
}

const char *sql_find_end(const char *s, const char *end, const char *delimiter, struct sql_scan *st)
{
    /* a client's DELIMITER may be any text, so its first byte is searched, then the rest
     * compared */
    size_t dl = strlen(delimiter);
    s -= st->waiting;
    while (s < end) {
        size_t left = (size_t)(end - s);
        const char *next = s + 1;
        if (st->quote || st->comment) {
            next = scan_inside(st, s, end);
        } else if (*s == *delimiter && memcmp(s, delimiter, left < dl ? left : dl) == 0) {
            if (left >= dl)
                return s;
            next = NULL;
        } else if (opens[(unsigned char)*s]) {
            next = scan_opening(st, s, end);
        } else {
            while (next < end && *next != *delimiter && !opens[(unsigned char)*next])
                next++;
        }
        if (!next)
            break;
        s = next;
    }
    st->waiting = (size_t)(end - s);
    return NULL;
}
