/* Reads SQL one token ahead, for the readers of definitions of tables and of code. Any refusal
 * stops it: the next token is SQL_BAD from then on, so that nothing matches any more, every loop
 * ends, and the first error stays. A caller may read on without asking after each step. */
#ifndef WK_SQL_READER_H
#define WK_SQL_READER_H

#include "base/err.h"
#include "sql/token.h"

struct sql_table;
struct reader {
    struct sql_text text;
    struct sql_token t;   /* the next to read; plain comments are dropped */
    bool bare;            /* comments that only some servers read stop it, even listed ones */
    bool refused;         /* `e` is set */
    struct sql_table *of; /* the table that is read, which owns its texts; NULL: none is */
    struct err *e;
};
/* Appends what it reads to `out`, as SQL. */
typedef void read_fn(struct reader *r, struct buf *out);

void reader_next(struct reader *r);
/* Nothing more is read. `why` (static) becomes text.why, unless there is one already. */
void reader_stop(struct reader *r, const char *why);
/* The token after `t`. */
struct sql_token reader_peek(const struct reader *r);
/* `words`: one or several, such as "NOT NULL". */
bool reader_at(const struct reader *r, const char *words);
/* Is the next token this name, bare or quoted? */
bool reader_names(const struct reader *r, const char *name);
/* Each reads it if it is next. */
bool reader_word(struct reader *r, const char *words);
bool reader_punct(struct reader *r, const char *sign);
bool reader_token(struct reader *r, enum sql_kind kind);

/* Refuse what is next: "table t: X is not taken from a dump". `what` is its kind, such as "option";
 * NULL: it was not expected here. */
void reader_refuse(struct reader *r, const char *what);
void reader_refuse_text(struct reader *r, const char *what, const char *text, size_t len);

/* Each reads one thing or refuses it. */
void reader_need(struct reader *r, const char *words);
void reader_expect(struct reader *r, enum sql_kind kind, struct buf *out /* NULL: dropped */);
void reader_number(struct reader *r, struct buf *out);
void reader_string(struct reader *r, struct buf *out);
void reader_name(struct reader *r, struct buf *out);        /* without quotes */
void reader_identifier(struct reader *r, struct buf *out);  /* `name` */
void reader_identifiers(struct reader *r, struct buf *out); /* (`a`,`b`) */
/* The name of a character set or collation. */
void reader_letters(struct reader *r, struct buf *out);
/* One of the words in "A B C", as it is spelled there; a named one may be quoted. */
void reader_one_of(struct reader *r, const char *list, const char *what, struct buf *out);
void reader_named_one_of(struct reader *r, const char *list, const char *what, struct buf *out);
/* The table owns the text, which is returned. */
char *reader_own(struct reader *r, char *text);
/* Sets *out to what `fn` reads: a text of the table. */
void reader_text(struct reader *r, read_fn *fn, char **out);

#endif
