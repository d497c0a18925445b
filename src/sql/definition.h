/* The statement that creates a view, routine, package, library, trigger or event, as printed by
 * SHOW CREATE. Its head is parsed from tokens into a structure and written from that without
 * comments, with the name quoted and without a schema, so that it is created in the session's
 * default one. Its body is code, which a server accepts as one statement or not at all; it is only
 * verified that every quote and comment in it ends in it. Pure.
 *
 * The head: CREATE … up to the first word of the body (after AS, DO, FOR EACH ROW or the last
 * characteristic of a routine). */
#ifndef WK_SQL_DEFINITION_H
#define WK_SQL_DEFINITION_H

#include "base/text.h"

enum definition_kind {
    DEFINITION_VIEW,
    DEFINITION_FUNCTION,
    DEFINITION_PROCEDURE,
    DEFINITION_PACKAGE,
    DEFINITION_PACKAGE_BODY,
    DEFINITION_LIBRARY,
    DEFINITION_TRIGGER,
    DEFINITION_EVENT,
};
const char *definition_kind_name(enum definition_kind kind);  /* "view", "package body" … */
const char *definition_kind_words(enum definition_kind kind); /* "VIEW" … as SQL writes it */

/* The sql_mode and character set under which a session reads the text. */
struct definition_modes {
    bool ansi_quotes;   /* sql_mode ANSI_QUOTES */
    bool plain_strings; /* sql_mode NO_BACKSLASH_ESCAPES */
    bool oracle;        /* sql_mode ORACLE of MariaDB: no parentheses without parameters */
    bool bytes;         /* single-byte character set: strings need not be UTF-8 */
};

struct definition {
    enum definition_kind kind;
    bool aggregate;                   /* of a function */
    bool duality;                     /* of a view: JSON RELATIONAL DUALITY */
    bool enabled;                     /* of an event: not DISABLE */
    bool has_definer;                 /* a definer other than CURRENT_USER */
    struct buf name;                  /* "" until it has been read */
    struct buf table;                 /* of a trigger */
    struct buf user;                  /* of the definer */
    struct buf host;                  /* "" for a role */
    const char *algorithm, *security; /* of a view; "": not given (static text) */
    /* The text after the name: columns of a view; parameters, type and characteristics of a
     * routine; time, table and order of a trigger; schedule of an event. An event's text after its
     * state is in `comment`. */
    struct buf rest, comment;
    const char *body; /* points into the text that was read; extends to its end */
    size_t body_len;
};

/* Parses one such statement. Returns false for anything else, and *why (static text) names the
 * error; kind and name are set as far as they were read. *out must always be freed. */
bool definition_read(const char *sql, size_t len, const struct definition_modes *modes,
                     struct definition *out, const char **why);
/* Writes the statement. `definer`: keep the definer that was read, if any; otherwise the session's
 * account becomes the definer. Events are always written as DISABLE. */
void definition_write(const struct definition *d, bool definer, struct buf *out);
void definition_free(struct definition *d);

/* Reads the events of a trigger, "INSERT OR UPDATE OF `a`, `b`", or "INSERT,UPDATE" as
 * information_schema lists them. Appends them as CREATE TRIGGER needs them. Returns one bit for
 * each kind of event, or 0 if the text is anything else; then what was appended is not usable. */
unsigned definition_events(const char *text, struct buf *out);
/* Finds the events in the text of SHOW CREATE TRIGGER, where names may have a schema. Appends and
 * returns the same. */
unsigned definition_trigger_events(const char *sql, bool ansi_quotes, struct buf *out);

#endif
