/* What a schema holds besides tables: triggers, views, routines, events, libraries, packages.
 * Names are quoted here; callers pass them raw. Returned strings are owned by the structs they
 * are in; every *_free leaves {0}. Errors as in conn.h. */
#ifndef WK_MYSQL_OBJECTS_H
#define WK_MYSQL_OBJECTS_H

#include "base/progress.h"
#include "base/text.h"
#include "mysql/conn.h"
#include "sql/definition.h"

/* Lists the schema's objects of one kind. */
int db_names(struct db *db, const char *schema, enum definition_kind kind, struct names *out,
             struct err *e);
/* Reads the first column of a SELECT of names. */
int db_names_select(struct db *db, const char *sql, const char *const *args, struct names *out,
                    struct err *e);
/* Adds the account's roles, active or not, in the form of SET ROLE. */
int db_roles(struct db *db, struct names *out, struct err *e);

/* Reads the statement by SHOW CREATE …; NULL with e->cls ERR_NONE if the account may not read
 * it. */
struct db_definition {
    char *sql, *sql_mode, *charset, *collation;
    char *zone; /* time zone of an event's times; NULL for other kinds */
};
int db_definition(struct db *db, const char *schema, enum definition_kind kind, const char *name,
                  struct db_definition *out, struct err *e);
void db_definition_free(struct db_definition *d);

struct db_trigger {
    char *name, *table;
    char *event; /* as in CREATE TRIGGER: "INSERT", "INSERT OR UPDATE OF `a`" (definition.h) */
    char *timing, *body, *definer, *sql_mode, *charset, *collation;
};
struct db_triggers {
    struct db_trigger *list;
    size_t count;
};
/* Lists the triggers in the order in which they fire. The list may lack those of a table that is
 * being altered, because information_schema waits for no definition (schema.h). Some of what it
 * shows cannot be sent back, so before a trigger is created from this list, db_triggers_read() must
 * complete it. */
int db_triggers(struct db *db, const char *schema, struct db_triggers *out, struct err *e);
/* Reads from SHOW CREATE TRIGGER what information_schema lacks: names in MySQL's bodies, and the
 * columns of MariaDB's UPDATE OF. Frees the list on error. */
int db_triggers_read(struct db *db, const char *schema, struct db_triggers *t, struct err *e);
/* Lists and reads the triggers of these tables, table by table. No trigger is missing, because this
 * waits while a session replaces a definition. It waits at most a second for a session that has
 * locked a table: a lock hides no trigger. Each table is reported as progress. */
int db_triggers_of(struct db *db, const char *schema, const struct names *tables,
                   struct progress *progress, struct db_triggers *out, struct err *e);
void db_triggers_free(struct db_triggers *t);
/* Appends "CREATE DEFINER=… TRIGGER `name` … ON `table` …", without a schema. */
void db_trigger_sql(struct buf *b, const struct db_trigger *t, const char *table);
/* Returns the character_set_client under which this statement can be sent: the trigger's own, if
 * the statement has the same bytes in it. */
const char *db_trigger_charset(const struct db_trigger *t, const char *sql);
/* Creates the trigger on `table`, which may differ from the table it was read from, with its own
 * sql_mode and character set. */
int db_trigger_create(struct db *db, const struct db_trigger *t, const char *table, struct err *e);

#endif
