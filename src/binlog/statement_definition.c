#include "binlog/statement_definition.h"

#include <string.h>

#include "binlog/statement_int.h"
#include "binlog/statement_words.h"

#define INDEX_WORDS "INDEX KEY"

/* Skips the rest of a quoted text, whose first quote is in `w`. Returns false if its end depends on
 * the SQL mode of the session, or is missing. */
static bool skip_text(struct words *w)
{
    if (words_is(w, "'")) /* masking reduces a literal to two quotes */
        return words_next_any(w, "'");
    const char *after = words_skip_text(w->s - 1, w->end);
    w->s = after ? after : w->end;
    return after != NULL;
}

static bool begins_text(const struct words *w)
{
    return words_is(w, "'") || words_is(w, "\"");
}

/* Skips to the end or past the next comma outside of parentheses and texts, which may contain
 * both. Returns false if a parenthesis is missing, or a text cannot be skipped. */
static bool skip_clause(struct words *w)
{
    int depth = 0;
    while (words_next(w)) {
        if (words_is(w, "\\") || (begins_text(w) && !skip_text(w)))
            return false;
        depth += words_is(w, "(");
        depth -= words_is(w, ")");
        if (depth == 0 && words_is(w, ","))
            return true;
    }
    return depth == 0;
}

/* Reads the value of an option; "=" may precede it. */
static bool take_value(struct words *w)
{
    if (!words_next(w) || (words_is(w, "=") && !words_next(w)))
        return false;
    return begins_text(w) ? skip_text(w) : words_name(w);
}

/* Returns true if an index other than the primary key is dropped. The primary key is needed to
 * find rows. */
static bool drops_other_index(struct words *w)
{
    return words_skip(w, "IF EXISTS") && words_name(w) && strcasecmp(w->word, "PRIMARY") != 0;
}

/* Judges one clause of ALTER TABLE. Its first word is in `w`. */
static bool clause_changes_nothing(struct words *w)
{
    if (words_any(w, "FORCE DEFAULT , ;"))
        return true;
    if (words_any(w, "COMMENT MAX_ROWS MIN_ROWS AVG_ROW_LENGTH CHECKSUM TABLE_CHECKSUM LOCK "
                     "DELAY_KEY_WRITE ROW_FORMAT PACK_KEYS KEY_BLOCK_SIZE STATS_PERSISTENT "
                     "STATS_AUTO_RECALC STATS_SAMPLE_PAGES CHARSET COLLATE ALGORITHM"))
        return take_value(w);
    if (words_is(w, "ENGINE"))
        return take_value(w) && words_any(w, "MEMORY HEAP");
    if (words_is(w, "CHARACTER"))
        return words_next_any(w, "SET") && take_value(w);
    if (words_any(w, "ENABLE DISABLE"))
        return words_next_any(w, "KEYS");
    if (words_is(w, "ADD"))
        return words_next_any(w, INDEX_WORDS " UNIQUE") && skip_clause(w);
    if (words_is(w, "DROP"))
        return words_next_any(w, INDEX_WORDS) && drops_other_index(w);
    if (words_any(w, "RENAME ALTER"))
        return words_next_any(w, INDEX_WORDS) && skip_clause(w);
    return false;
}

/* Judges what follows ALTER. With IGNORE, a new index may delete rows. */
static bool alter_changes_nothing(struct words *w)
{
    if (!words_next(w))
        return false;
    if (words_any(w, "DATABASE SCHEMA"))
        return true;
    if (words_is(w, "ONLINE") && !words_next(w))
        return false;
    if (!words_is(w, "TABLE") || !words_skip(w, "IF EXISTS") || !words_name(w) ||
        (words_dot(w) && !(words_next(w) && words_name(w))))
        return false;
    while (words_next(w)) {
        if (words_is(w, "NOWAIT"))
            continue;
        if (words_is(w, "WAIT") ? !take_value(w) : !clause_changes_nothing(w))
            return false;
    }
    return true;
}

/* Returns true for maintenance that does not change rows. ANALYZE before another statement
 * executes that statement. */
static bool only_tends(struct words w)
{
    if (!words_any(&w, "OPTIMIZE REPAIR ANALYZE CHECK CHECKSUM PRELOAD") || !words_next(&w))
        return false;
    if (words_any(&w, "NO_WRITE_TO_BINLOG LOCAL") && !words_next(&w))
        return false;
    return words_any(&w, "TABLE TABLES");
}

bool statement_sets_engine(const char *sql, size_t len)
{
    struct words w = {.s = sql, .end = sql + len, .through = true};
    bool found = false;
    if (!words_next_any(&w, "ALTER"))
        return false;
    while (!found && words_next(&w))
        found = words_is(&w, "ENGINE");
    return found;
}

bool statement_changes_nothing(const char *sql, size_t len)
{
    struct words w = {.s = sql, .end = sql + len, .through = true};
    if (!words_next(&w) ||
        words_any(&w, "GRANT REVOKE FLUSH RESET PURGE CACHE INSTALL UNINSTALL") || only_tends(w))
        return true;
    if (words_is(&w, "CREATE"))
        return words_skip(&w, "OR REPLACE ONLINE OFFLINE UNIQUE") &&
               words_any(&w, "DATABASE SCHEMA INDEX");
    if (words_is(&w, "RENAME"))
        return words_next_any(&w, "USER");
    if (!text_utf8_valid(sql, len)) /* a quote may be a part of a character */
        return false;
    if (words_is(&w, "ALTER"))
        return alter_changes_nothing(&w);
    if (!words_is(&w, "DROP") || !words_next(&w) || (words_is(&w, "ONLINE") && !words_next(&w)))
        return false;
    return words_is(&w, "INDEX") && drops_other_index(&w);
}
