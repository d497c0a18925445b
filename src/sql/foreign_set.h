/* Reads the SET statements of files written by other tools. */
#ifndef WK_SQL_FOREIGN_SET_H
#define WK_SQL_FOREIGN_SET_H

#include "sql/foreign.h"

/* The session settings that a file's SET statements change, as far as rows and definitions depend
 * on them: the values for the next statement, and those of a new session, for DEFAULT. */
enum foreign_setting {
    FOREIGN_NAMES,  /* the character set of the text */
    FOREIGN_MODE,   /* sql_mode, in upper case */
    FOREIGN_ZONE,   /* time_zone */
    FOREIGN_CHECKS, /* check_constraint_checks: "0" or "1" */
    FOREIGN_SETTINGS
};
struct foreign_session {
    char now[FOREIGN_SETTINGS][512], start[FOREIGN_SETTINGS][512];
    struct foreign_saved {
        char *variable; /* without @ */
        int setting;    /* -1: not one of these settings; its value is not tracked */
        char value[512];
    } * saved;
    size_t saved_count;
    bool any; /* true after a SET that a file's header usually contains */
};
/* Initializes it with the `names`, `mode` and `zone` of a new session. */
void foreign_session_begin(struct foreign_session *s, const char *names, const char *mode,
                           const char *zone);
/* The effects of a SET besides changing `session`. */
struct foreign_set {
    bool saves;    /* saves a session variable in @OLD_… */
    bool restores; /* restores one from @OLD_… */
    char what[80]; /* if refused: the name of the variable */
};
/* Applies a SET to `session`. Returns false if it sets something outside the grammar; `session` may
 * have changed then. */
bool foreign_set(struct foreign_session *session, const char *sql, size_t len,
                 const struct foreign_reading *how, struct foreign_set *out);
void foreign_session_free(struct foreign_session *s);
/* Returns true if the list contains the mode. */
bool foreign_has_mode(const char *modes, const char *mode);
/* Appends those modes of the list that determine the meaning of values and definitions. Modes about
 * quotes and escapes are omitted, because quoting is done here. Returns false for a mode that
 * changes the language of definitions. `out` becomes at least "". */
bool foreign_modes(const char *modes, struct buf *out);

#endif
