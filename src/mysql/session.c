#include "mysql/session.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* Most rows omit the last member. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* Every variable on which one of our statements depends, and the reason. Each value is explicit,
 * because DEFAULT would be the server's global value. tests/system/test_settings.py sets all
 * variables that a session inherits from the server to their extreme values. Variables that it
 * finds are added here or reported by --check (check/rules_server.c). */
enum where { EVERYWHERE, IN_MARIADB, IN_MYSQL };
static const struct setting {
    const char *name, *value;
    enum where where;
    const char *why;
    unsigned
        /* first version that has it, as in a conditional comment; 0 if all known versions do */
        since;
} settings[] = {
    {"lc_messages", "'en_US'", EVERYWHERE, "some errors are told apart by their text"},
    /* values and names must be exact */
    {"sql_mode", SESSION_SQL_MODE, EVERYWHERE, "zero ids and zero dates are values"},
    {"time_zone", SESSION_TIME_ZONE, EVERYWHERE, "a TIMESTAMP is the same moment in each session"},
    {"sql_auto_is_null", "0", EVERYWHERE, "IS NULL would find the last inserted row"},
    {"sql_quote_show_create", "1", EVERYWHERE, "definitions are read with their quotes"},
    {"show_create_table_verbosity", "0", IN_MYSQL, "definitions are compared as text"},
    {"group_concat_max_len", "1048576", EVERYWHERE, "names of columns are compared in one value"},
    {"sql_buffer_result", "0", EVERYWHERE, "MySQL would refuse to show views from then on"},
    {"max_sort_length", "1024", EVERYWHERE, "what is read in order is told apart by longer keys"},
    {"system_versioning_asof", "DEFAULT", IN_MARIADB, "tables would be read as of another moment"},
    /* the server's default, because an empty text is NULL in some SQL modes */
    {"character_set_collations", "'latin1=latin1_swedish_ci'", IN_MARIADB,
     "a definition without COLLATE means the usual one", 110201},
    /* statements must not be refused or their results truncated */
    {"foreign_key_checks", "0", EVERYWHERE, "tables are loaded in any order"},
    {"unique_checks", "0", EVERYWHERE, "rows of a dump were unique"},
    {"autocommit", "1", EVERYWHERE, "a statement is done when it is answered"},
    {"completion_type", "'NO_CHAIN'", EVERYWHERE,
     "COMMIT would begin another transaction, or end the session"},
    {"sql_select_limit", "18446744073709551615", EVERYWHERE,
     "part of a table would look like all of it"},
    {"sql_big_selects", "1", EVERYWHERE, "max_join_size would refuse to read a large table"},
    {"sql_safe_updates", "0", EVERYWHERE, "UPDATE and DELETE over a few rows use no key"},
    {"sql_if_exists", "0", IN_MARIADB,
     "a RENAME in progress would skip tables that it then finds missing"},
    {"alter_algorithm", "'DEFAULT'", IN_MARIADB,
     "ALTER TABLE of a MEMORY table copies it, which INSTANT and NOCOPY refuse"},
    {"max_statement_time", "0", IN_MARIADB, "statements over large tables take long"},
    {"max_execution_time", "0", IN_MYSQL, "statements over large tables take long"},
    {"max_session_mem_used", "9223372036854775807", IN_MARIADB, "a load would be cut off"},
    {"tx_read_only", "0", IN_MARIADB, "nothing could be written"},
    {"transaction_read_only", "0", IN_MYSQL, "nothing could be written"},
    {"session_track_gtids", "OFF", IN_MYSQL, "MySQL 9.7 may crash where a statement is not logged"},
    {"low_priority_updates", "0", IN_MARIADB, "a write lock would wait for all readers"},
    /* notes and warnings are counted */
    {"sql_notes", "0", EVERYWHERE, "only a load counts them"},
    {"note_verbosity", "'basic'", IN_MARIADB, "a rounded decimal is a note"},
    {"max_error_count", "64", IN_MARIADB, "a value that was changed is a warning"},
    /* a session that exceeds one of these loses its locks, including the lease */
    {"wait_timeout", "86400", EVERYWHERE, "a session is idle while others load"},
    {"net_read_timeout", "600", EVERYWHERE, "rows come as fast as they are read from the dump"},
    {"net_write_timeout", "600", EVERYWHERE, "rows are read as fast as they are compressed"},
    {"lock_wait_timeout", SESSION_LOCK_WAIT, EVERYWHERE, "a lock of the game would be an error"},
    {"innodb_lock_wait_timeout", SESSION_ROW_WAIT, EVERYWHERE,
     "a lock of the game would be an error"},
    {"idle_transaction_timeout", "0", IN_MARIADB, "a snapshot is idle between tables"},
    {"idle_readonly_transaction_timeout", "0", IN_MARIADB, "a snapshot is idle between tables"},
    {"idle_write_transaction_timeout", "0", IN_MARIADB, "a piece of a ledger may wait for a file"},
    /* buffers: the server refuses the smallest values with an error, and the largest exceed the
     * memory */
    {"sort_buffer_size", "2097152", EVERYWHERE, "rows are read in the order of a key"},
    {"join_buffer_size", "262144", EVERYWHERE, "memory"},
    {"read_buffer_size", "131072", EVERYWHERE, "memory"},
    {"read_rnd_buffer_size", "262144", EVERYWHERE, "memory"},
    {"query_alloc_block_size", "8192", EVERYWHERE, "memory of each statement"},
    {"range_alloc_block_size", "4096", EVERYWHERE, "memory of each statement"},
    {"tmp_table_size", "16777216", EVERYWHERE, "results that are sorted or grouped"},
    {"tmp_disk_table_size", "18446744073709551615", IN_MARIADB,
     "results that are sorted or grouped"},
};

enum { COUNT = sizeof settings / sizeof *settings };
_Static_assert(COUNT <= SESSION_SETTINGS, "SESSION_SETTINGS");

bool session_ends(size_t next)
{
    return next >= COUNT;
}

/* Variables that MySQL lets a session change only with SESSION_VARIABLES_ADMIN. They are numbers
 * and are changed only if they differ. Without the privilege they stay, and --check reports when
 * this matters. */
static const struct {
    const char *name, *value, *why;
    enum server_word word; /* the word in sql/versions.h, if not every version has the variable */
} restricted[] = {
    {"sql_require_primary_key", "0", "a table of the game may lack one", WORD_REQUIRE_KEY},
    {"sql_generate_invisible_primary_key", "0", "a table would have a column more than it had",
     WORD_INVISIBLE_KEY},
    {"low_priority_updates", "0", "a write lock would wait for all readers", SERVER_WORDS},
    {"max_error_count", "64", "a value that was changed is a warning", SERVER_WORDS},
};

enum { RESTRICTED = sizeof restricted / sizeof *restricted };

#define SMALL                                                                                      \
    900 /* each server accepts so many bytes, because max_allowed_packet is at least 1024 */

/* Builds a statement with the settings from `*next` on: all of them, or with `small` as many as
 * fit. */
void session_statement(struct buf *b, size_t *next, bool small, bool mariadb,
                       const bool missing[SESSION_SETTINGS])
{
    buf_clear(b);
    buf_adds(b, "SET NAMES binary");
    for (; *next < COUNT && (!small || b->len < SMALL - 100); ++*next) {
        const struct setting *s = &settings[*next];
        if (missing[*next] || s->where == (mariadb ? IN_MYSQL : IN_MARIADB))
            continue;
        if (s->since)
            buf_printf(b, " /*%s!%u", mariadb ? "M" : "", s->since);
        buf_printf(b, ", SESSION %s=%s%s", s->name, s->value, s->since ? " */" : "");
    }
}

/* Notes the variable that the server does not have. Returns false if the error names none of
 * ours. */
bool session_missing(bool missing[SESSION_SETTINGS], const struct err *e)
{
    for (size_t i = 0; i < COUNT && e->num == 1193; i++) {
        char quoted[TEXT_SHORT * 2];
        snprintf(quoted, sizeof quoted, "'%s'", settings[i].name);
        if (!missing[i] && strstr(e->text, quoted))
            return missing[i] = true;
    }
    return false;
}

bool session_restricted(size_t i, struct buf *differs, struct buf *set, enum server_word *word)
{
    if (i >= RESTRICTED)
        return false;
    buf_clear(differs);
    buf_clear(set);
    buf_printf(differs, "@@SESSION.%s<>%s", restricted[i].name, restricted[i].value);
    buf_printf(set, "SET SESSION %s=%s", restricted[i].name, restricted[i].value);
    *word = restricted[i].word;
    return true;
}
