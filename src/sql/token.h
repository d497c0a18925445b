/* Tokenizer for the SQL of a dump (ours or mysqldump's). Only this file decides where a name, a
 * string or a comment ends. Pure: no server, only the caller's memory.
 *
 * Only blanks are skipped. Every comment is a token, so that each caller decides about it: a plain
 * comment may be dropped, but a version comment must never be treated as text. The few that servers
 * write in SHOW CREATE TABLE, each with its clause, are on an exact list (token.c): the tokens of
 * the clause follow between SQL_ENTER and SQL_LEAVE.
 *
 * Callers must not send the text that they read: they write their own SQL from what they have
 * parsed.
 *
 * Outside of row literals the text is UTF-8 without NUL. */
#ifndef WK_SQL_TOKEN_H
#define WK_SQL_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

enum sql_kind {
    SQL_END,
    SQL_BAD,     /* sql_text.why says what is wrong; the text ends here */
    SQL_WORD,    /* a keyword or a bare name: letters, digits, _, $, and any non-ASCII */
    SQL_NAME,    /* `quoted`; "quoted" where ansi_quotes is set */
    SQL_STRING,  /* '…', or "…" where ansi_quotes is not set */
    SQL_NUMBER,  /* without its sign */
    SQL_HEX,     /* 0xAB, x'AB' */
    SQL_BITS,    /* 0b01, b'01' */
    SQL_CHARSET, /* _utf8mb4 before a string, hex or bits */
    SQL_OPEN,    /* ( */
    SQL_CLOSE,   /* ) */
    SQL_PUNCT,   /* one character, or one of the operators of two and three */
    SQL_COMMENT, /* a plain comment: from slash-star, -- or # on */
    SQL_VERSION, /* a version comment that is not on the list, up to its first end */
    SQL_ENTER,   /* the start of a listed version comment, such as slash-star-!50100 */
    SQL_LEAVE,   /* the end of a listed version comment */
};

struct sql_token {
    enum sql_kind kind;
    const char *s; /* points into the text */
    size_t len;
};

/* Starts as {.s = …, .end = …} with the options; the rest is state. */
struct sql_text {
    const char *s, *end;
    bool ansi_quotes;   /* sql_mode ANSI_QUOTES: "…" is a name */
    bool plain_strings; /* sql_mode NO_BACKSLASH_ESCAPES */
    bool binary;        /* strings may contain any bytes: row literals */
    bool entered;
    const char *why;
};

/* Reads one token; `t` always gets its location, even for SQL_BAD. SQL_END and SQL_BAD are returned
 * again by further calls. */
enum sql_kind sql_next(struct sql_text *text, struct sql_token *t);
/* Returns the next token without consuming it. */
struct sql_token sql_peek(const struct sql_text *text);

/* Returns true if the token is this bare word, in either case. A quoted name never matches. */
bool sql_is(const struct sql_token *t, const char *word);
/* Finds a word in a list such as "YES NO", case-insensitively. Returns its position, where `len`
 * bytes are the list's spelling, or NULL. */
const char *sql_find_word(const char *list, const char *word, size_t len);
/* Returns true if the token is this punctuation, such as "=" or "->>". */
bool sql_is_punct(const struct sql_token *t, const char *sign);
/* Appends the unquoted name of a SQL_NAME or SQL_WORD. Returns false for another token, an empty
 * name, and a name with a NUL. */
bool sql_token_name(const struct sql_token *t, struct buf *out);
/* Appends the bytes of a SQL_STRING, SQL_HEX or SQL_BITS. Returns false for another token. */
bool sql_token_bytes(const struct sql_token *t, bool plain_strings, struct buf *out);

/* Finds the delimiter of the statement that starts at s, outside of quotes, backticks and comments.
 * If `end` comes first, NULL is returned; `*state` (starts as {0}) holds what is open, and scanning
 * may continue with the text after `end`. That text must directly follow the earlier one in memory:
 * a mark or delimiter may be split there, and the result may then be before `s`. */
struct sql_scan {
    char quote;     /* ' " ` or 0 */
    char comment;   /* '-' inside a line comment, '*' inside a block comment, or 0 */
    bool escaped;   /* the next byte is escaped by a backslash */
    bool plain;     /* option: a backslash is an ordinary character */
    size_t waiting; /* bytes before `end` that cannot be classified without those after it */
};
const char *sql_find_end(const char *s, const char *end, const char *delimiter,
                         struct sql_scan *state);

#endif
