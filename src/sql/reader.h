/* Reads SQL one token ahead, for the readers of definitions of tables and of code. Any refusal
 * stops it: the next token is SQL_BAD from then on, so nothing matches, every loop ends, and the
 * first error remains. Therefore a caller need not check after each step. */
#ifndef WK_SQL_READER_H
#define WK_SQL_READER_H

#include "base/err.h"
#include "sql/token.h"

struct sql_table;
struct reader {
    struct sql_text text;
    struct sql_token t;   /* the next token; plain comments are dropped */
    bool bare;            /* stop at version comments, even at listed ones */
    bool refused;         /* `e` is set */
    struct sql_table *of; /* the table being read, which owns its texts; NULL: none */
    struct err *e;
};
/* Appends what it reads to `out`, as SQL. */
typedef void read_fn(struct reader *r, struct buf *out);

void reader_next(struct reader *r);
/* Stops reading. `why` (static) becomes text.why, unless that is already set. */
void reader_stop(struct reader *r, const char *why);
/* Returns the token after `t`. */
struct sql_token reader_peek(const struct reader *r);
/* Returns true if these words are next; one or several, such as "NOT NULL". */
bool reader_at(const struct reader *r, const char *words);
/* Returns true if the next token is this name, bare or quoted. */
bool reader_names(const struct reader *r, const char *name);
/* Each of these consumes the next token if it matches. */
bool reader_word(struct reader *r, const char *words);
bool reader_punct(struct reader *r, const char *sign);
bool reader_token(struct reader *r, enum sql_kind kind);

/* Refuses the next token: "table t: X is not taken from a dump". `what` is its kind, such as
 * "option"; NULL: it was not expected here. */
void reader_refuse(struct reader *r, const char *what);
void reader_refuse_text(struct reader *r, const char *what, const char *text, size_t len);

/* Each of these reads one item or refuses it. */
void reader_need(struct reader *r, const char *words);
/* out NULL: the text is dropped */
void reader_expect(struct reader *r, enum sql_kind kind, struct buf *out);
void reader_number(struct reader *r, struct buf *out);
void reader_string(struct reader *r, struct buf *out);
void reader_name(struct reader *r, struct buf *out);        /* without quotes */
void reader_identifier(struct reader *r, struct buf *out);  /* `name` */
void reader_identifiers(struct reader *r, struct buf *out); /* (`a`,`b`) */
/* Reads the name of a character set or collation. */
void reader_letters(struct reader *r, struct buf *out);
/* Reads one of the words in "A B C" and appends it in that spelling; a named one may be quoted. */
void reader_one_of(struct reader *r, const char *list, const char *what, struct buf *out);
void reader_named_one_of(struct reader *r, const char *list, const char *what, struct buf *out);
/* Makes the table the owner of `text`, and returns it. */
char *reader_own(struct reader *r, char *text);
/* Sets *out to the text that `fn` reads; the table owns it. */
void reader_text(struct reader *r, read_fn *fn, char **out);

#endif
