#include "restore/shadow_table.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "dump/format.h"
#include "mysql/float_scale.h"
#include "mysql/job.h"
#include "restore/plan.h"
#include "sql/literal.h"

#define COUNTER_FIRST_ROWS 20000u
#define TURNS 100
/* ER_ALTER_OPERATION_NOT_SUPPORTED, and the same with _REASON */
#define NOT_INSTANT 1845
#define NOT_INSTANT_BECAUSE 1846

int shadow_session_begin(struct shadow_session *s, struct err *e)
{
    int64_t heap = db_variable_number(s->db, "max_heap_table_size");
    s->heap_default = heap > 0 ? (uint64_t)heap : 16u << 20;
    /* Rounding a decimal only gives a note, but changes the value. */
    if (db_exec(s->db, "SET SESSION sql_notes=1", e) < 0)
        return -1;
    /* A TIMESTAMP without a default must not get an implicit one. Lacking the privilege for this
     * setting matters only on a server configured otherwise, and only for tables that are created
     * from a dump's text: these get the server's implicit default. */
    struct err why = {0};
    SCOPED(xfree) char *off = db_one(
        s->db, "SELECT 1 FROM DUAL WHERE NOT @@SESSION.explicit_defaults_for_timestamp", &why);
    if (off)
        db_exec(s->db, "SET SESSION explicit_defaults_for_timestamp=1", &why);
    if (db_unanswered(&why))
        return err_pass(e, &why);
    /* MariaDB only: on MySQL checks.h handles this. Dumped rows passed the check when written. */
    const char *checks = db_word(s->db, WORD_CHECKS);
    return checks ? db_exec_with(s->db, "SET SESSION $=0", DB_ARGS(checks), e) : 0;
}

int shadow_read(const struct shadow_session *s, const struct target *t, struct db_tables *out,
                struct err *e)
{
    if (db_table_named(s->db, s->plan->schema, t->shadow, out, e) < 0)
        return -1;
    if (out->count)
        return 0;
    db_tables_free(out);
    return err_set(e, ERR_CHANGED, 0, "table %s disappeared while it was being loaded", t->shadow);
}

/* Executes a statement again after a deadlock. MySQL locks the tables at both ends of a foreign key
 * in the order in which it finds them, so two sessions that create or alter such tables at once may
 * deadlock. */
static int exec_in_turn(const struct shadow_session *s, const struct buf *sql, bool utf8,
                        struct err *e)
{
    /* The session's character set is binary, for the bytes of rows, but definitions are UTF-8. */
    int rc = utf8 ? db_exec(s->db, "SET NAMES utf8mb4", e) : 0;
    for (int i = 0; i < TURNS && rc == 0; i++) {
        rc = db_exec_len(s->db, sql->p, sql->len, e);
        if (rc == 0 || e->num != DB_DEADLOCK || i + 1 == TURNS)
            break;
        rc = 0;
        usleep((useconds_t)(1000 * (i + 1)));
    }
    if (utf8 && db_exec(s->db, "SET NAMES binary", rc < 0 ? NULL : e) < 0)
        rc = -1;
    return rc;
}

static int shadow_table_alter(const struct shadow_session *s, const struct target *t,
                              const char *change, bool utf8, struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    sql_fill(&b, "ALTER TABLE ??$", DB_ARGS(t->shadow, change));
    return exec_in_turn(s, &b, utf8, e);
}

/* ---- definitions of the dump ---- */

uint64_t shadow_definition_hash(const char *create, size_t len)
{
    SCOPED(buf_free) struct buf b = {0};
    format_uncounted(&b, create, len);
    return sql_tuple_hash(b.p, b.len);
}

int shadow_definition(const struct target *t, const char *create, size_t len, struct sql_table *out,
                      struct err *e)
{
    if (sql_table_read(create, len, false, out, e) < 0)
        return -1;
    if (strcmp(out->name, t->name) == 0)
        return 0;
    sql_table_free(out);
    return err_set(e, ERR_DAMAGED, 0, "the definition of table %s is not valid", t->name);
}

int shadow_accepts(const struct shadow_session *s, const struct sql_table *table, struct err *e)
{
    /* A definition must not refer to another schema; MariaDB writes the schema with each
     * sequence. */
    const char *world = s->plan->job->cfg->schema;
    if (table->sequences && strcmp(table->sequences, world) != 0) {
        err_set(e, ERR_REFUSED, 0,
                "table %s: a default that uses a sequence in schema %s is not accepted from a dump",
                table->name, table->sequences);
        return err_hint(e,
                        "only sequences in schema %s are accepted; create the table manually "
                        "first, then its rows are loaded into it",
                        world);
    }
    if (s->plan->into || !sql_table_has_foreign(table))
        return 0;
    err_set(e, ERR_REFUSED, 0, "table %s has foreign keys, which cannot be swapped in",
            table->name);
    return err_hint(e, "restore it manually: gunzip -c DUMP | mysql SCHEMA, or use --into");
}

/* Creates the table from our own rendering of the dump's definition, not from its text. */
static int create_from_text(const struct shadow_session *s, const struct target *t, bool temporary,
                            const char *create, size_t len, struct err *e)
{
    SCOPED(sql_table_free) struct sql_table table = {0};
    SCOPED(buf_free) struct buf sql = {0};
    if (shadow_definition(t, create, len, &table, e) < 0)
        return -1;
    int rc = shadow_accepts(s, &table, e);
    struct sql_table_how how = {
        .name = t->shadow, .temporary = temporary, .mariadb = db_is_mariadb(s->db)};
    how.unnamed_checks = t->live && !how.mariadb; /* t->live has constraints of these names */
    sql_table_write(&sql, &table, &how);
    if (rc == 0)
        rc = exec_in_turn(s, &sql, true, e);
    return rc;
}

/* Tests the definition with a temporary table, which no other session sees. */
int shadow_prove(const struct shadow_session *s, const struct target *t, const char *create,
                 size_t len, struct err *e)
{
    int rc = create_from_text(s, t, true, create, len, e);
    if (rc == 0)
        rc = db_exec_with(s->db, "DROP TEMPORARY TABLE ??", DB_ARGS(t->shadow), e);
    if (rc < 0)
        err_step(e, "this server rejects the definition (CREATE TABLE) of table %s", t->name);
    return rc;
}

/* ---- the table ---- */

/* Returns whether the definition itself is the cause, and not a lack of memory or privileges. */
static bool is_of_the_text(const struct err *e)
{
    static const int nums[] = {1063, 1064, 1067, 1071, 1072, 1074, 1101, 1115, 1118,
                               1163, 1170, 1253, 1273, 1286, 1291, 1293, 1294, 1425,
                               1426, 1427, 1439, 1441, 1901, 1911, 3105, 4161, 0};
    return e->cls == ERR_REFUSED || (e->cls == ERR_QUERY && err_among(e, nums));
}

/* Creates the table. `heap` is the size limit that it gets and keeps. */
static int create_sized(const struct shadow_session *s, struct target *t, uint64_t heap,
                        const char *create, size_t len, struct err *e)
{
    int rc = db_execf(s->db, e, "SET SESSION max_heap_table_size=%" PRIu64, heap);
    if (rc == 0 && plan_defines(s->plan, t)) {
        rc = create_from_text(s, t, false, create, len, e);
        t->unfit = rc < 0 && is_of_the_text(e);
    } else if (rc == 0) {
        rc = db_exec_with(s->db, "CREATE TABLE ?? LIKE ??", DB_ARGS(t->shadow, t->name), e);
    }
    t->heap = t->memory ? heap : 0;
    return rc;
}

/* A MEMORY table keeps the size limit of the session that created it. It gets at least the server's
 * default, twice the size in the dump, and the limit that the table had when it was dumped: how
 * much that is shows only once it was created, so it may be created twice. */
static int create_table(const struct shadow_session *s, struct target *t, const char *create,
                        size_t len, struct err *e)
{
    uint64_t base = s->heap_default, want = t->heap_need > base ? t->heap_need : base;
    struct db_figures fresh;
    if (create_sized(s, t, base, create, len, e) < 0)
        return -1;
    t->created = true;
    if (db_figures(s->db, s->plan->schema, t->shadow, &fresh, e) < 0)
        return -1;
    if (t->memory && !fresh.memory) {
        err_set(e, ERR_REFUSED, 0, "the server creates table %s with another engine than MEMORY",
                t->name);
        return err_hint(e, DB_ENGINE_HINT);
    }
    if (fresh.max_data_length > 0 && t->max_data_length > fresh.max_data_length) {
        double scaled = (double)base * (double)t->max_data_length / (double)fresh.max_data_length;
        if (scaled < 1e15 && scaled > (double)want)
            want = (uint64_t)scaled + (64u << 10);
    }
    if (want <= base)
        return 0;
    SCOPED(buf_free) struct buf drop = {0};
    sql_fill(&drop, "DROP TABLE ??", DB_ARGS(t->shadow));
    return exec_in_turn(s, &drop, false, e) < 0 ? -1 : create_sized(s, t, want, create, len, e);
}

/* Sets the counter. This copies the table with its rows; shadow_create() says when that is
 * avoided. */
static int shadow_table_set_counter(const struct shadow_session *s, const struct target *t,
                                    struct err *e)
{
    SCOPED(xfree) char *change = xasprintf(" AUTO_INCREMENT=%" PRIu64, t->auto_increment);
    return shadow_table_alter(s, t, change, false, e);
}

/* Sets the counter if it differs. If the last rows of a table were deleted, its counter is higher
 * than the remaining rows imply. */
int shadow_counter(const struct shadow_session *s, const struct target *t, struct err *e)
{
    struct db_figures now;
    if (t->auto_increment == 0 || !t->memory)
        return 0;
    if (db_figures(s->db, s->plan->schema, t->shadow, &now, e) < 0)
        return -1;
    if (now.auto_increment == 0) /* MySQL: no number is left */
        now.auto_increment = UINT64_MAX;
    return now.auto_increment == t->auto_increment ? 0 : shadow_table_set_counter(s, t, e);
}

int shadow_create(const struct shadow_session *s, struct target *t, const char *create, size_t len,
                  struct err *e)
{
    /* ALTER TABLE copies the table, and even for an empty one takes several times as long as
     * creating it. Most counters do not need it: they follow the highest number that was loaded. So
     * only a table that would take long to copy has its counter set before it is filled. */
    bool counter_first = t->auto_increment > 1 && (!t->memory || t->expected >= COUNTER_FIRST_ROWS);
    if (create_table(s, t, create, len, e) == 0 &&
        (!counter_first || shadow_table_set_counter(s, t, e) == 0))
        return 0;
    return err_step(e, "raising max_heap_table_size for table %s", t->name);
}

/* ---- FLOAT(M,D) ---- */

int shadow_scale_off(const struct shadow_session *s, const struct target *t, const char *create,
                     size_t len, struct buf *scale, struct err *e)
{
    SCOPED(db_tables_free) struct db_tables made = {0};
    SCOPED(buf_free) struct buf off = {0};
    buf_clear(scale);
    /* This is nearly always false, and then a query is saved. */
    bool any = plan_defines(s->plan, t)
                   ? memmem(create, len, " float(", 7) || memmem(create, len, " double(", 8)
                   : db_float_scale_any(t->live);
    if (!any)
        return 0;
    if (shadow_read(s, t, &made, e) < 0)
        return -1;
    int rc = 0;
    if (db_float_scale_any(&made.list[0])) {
        SCOPED(xfree) char *now = db_create_table(s->db, s->plan->schema, t->shadow, e);
        if (now)
            db_float_scale(&made.list[0], now, t->mapped ? t->create : now, &off, scale);
        rc = !now ? -1 : off.len ? shadow_table_alter(s, t, off.p, true, e) : 0;
    }
    return rc;
}

int shadow_scale_on(const struct shadow_session *s, struct target *t, struct buf *scale,
                    struct err *e)
{
    if (scale->len == 0)
        return 0;
    SCOPED(xfree) char *instant = xasprintf("%s, ALGORITHM=INSTANT", scale->p);
    /* AUTO_INCREMENT goes first: the ALTER that sets it copies the rows, and once the (M,D) are
     * back MariaDB would round them. */
    int rc = shadow_counter(s, t, e) < 0 ? -1 : shadow_table_alter(s, t, instant, true, e);
    if (rc < 0 && (e->num == NOT_INSTANT || e->num == NOT_INSTANT_BECAUSE)) {
        /* The server must copy the rows for it, so the stored content has to be compared with what
         * was loaded: counting a warning ensures that. */
        t->warnings++;
        rc = shadow_table_alter(s, t, scale->p, true, e);
    }
    buf_clear(scale);
    if (rc < 0)
        err_step(e, "restoring the number of digits of columns of table %s", t->name);
    return rc;
}

/* ---- what a file alters ---- */

/* Handles the (M,D) of one of our own dumps that is read as a file. Such a dump removes them before
 * the rows, and restores them afterwards. This does it in the same way as a restore of the dump. */
static int alter_scale(const struct shadow_session *s, struct target *t,
                       const struct sql_table *change, struct buf *scale, struct err *e)
{
    bool off = false, on = false;
    for (size_t i = 0; i < change->column_count; i++) {
        const char *type = change->columns[i].type;
        bool real = strncasecmp(type, "float", 5) == 0 || strncasecmp(type, "double", 6) == 0;
        off |= real && !strchr(type, '(');
        on |= real && strchr(type, '(');
    }
    return off && !on ? shadow_scale_off(s, t, "", 0, scale, e)
           : on       ? shadow_scale_on(s, t, scale, e)
                      : 0;
}

int shadow_alter(const struct shadow_session *s, struct target *t, const struct sql_table *change,
                 struct buf *scale, struct err *e)
{
    struct sql_table_how how = {.name = t->shadow, .mariadb = db_is_mariadb(s->db)};
    SCOPED(buf_free) struct buf b = {0};
    how.unnamed_checks = t->live && !how.mariadb;
    int rc;
    if (plan_defines(s->plan, t)) {
        sql_alter_write(&b, change, &how);
        rc = b.len ? shadow_table_alter(s, t, b.p, true, e) : 0;
    } else {
        rc = alter_scale(s, t, change, scale, e);
        if (change->auto_increment)
            buf_printf(&b, " AUTO_INCREMENT=%" PRIu64, change->auto_increment);
        if (rc == 0 && b.len)
            rc = shadow_table_alter(s, t, b.p, false, e);
    }
    return rc < 0 ? err_step(e, "altering table %s", t->name) : 0;
}
