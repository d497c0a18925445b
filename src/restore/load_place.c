/* The table that rows are loaded into: made like the one that it will replace, or as the dump
 * describes it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db/sql.h"
#include "restore/allowed.h"
#include "restore/constraints.h"
#include "restore/load_int.h"

#define COUNTER_FIRST_ROWS 20000u
#define TURNS 100

const char *loader_place(const struct loader *l, const struct target *t)
{
    return l->plan->into ? t->name : t->shadow;
}

int load_place_read(struct loader *l, const struct target *t, struct db_tables *out, struct err *e)
{
    const char *place = loader_place(l, t);
    if (db_table_named(l->db, l->schema, place, out, e) < 0)
        return -1;
    if (out->count)
        return 0;
    db_tables_free(out);
    return err_set(e, ERR_CHANGED, 0, "table %s disappeared while it was being loaded", place);
}

/* MySQL locks the tables at both ends of a foreign key, in the order in which it meets them: two
 * sessions that make or change such tables at once may be in each other's way. */
static int exec_in_turn(struct loader *l, const struct buf *sql, struct err *e)
{
    int rc = -1;
    for (int i = 0; i < TURNS; i++) {
        rc = db_exec_len(l->db, sql->p, sql->len, e);
        if (rc == 0 || e->num != DB_DEADLOCK)
            break;
        usleep((useconds_t)(1000 * (i + 1)));
    }
    return rc;
}

static int exec_utf8(struct loader *l, const struct buf *sql, struct err *e)
{
    struct err ignored;
    int rc = db_exec(l->db, "SET NAMES utf8mb4", e);
    if (rc == 0)
        rc = exec_in_turn(l, sql, e);
    if (db_exec(l->db, "SET NAMES binary", rc < 0 ? &ignored : e) < 0)
        rc = -1;
    return rc;
}

static int set_heap(struct loader *l, uint64_t bytes, struct err *e)
{
    return db_execf(l->db, e, "SET SESSION max_heap_table_size=%" PRIu64, bytes);
}

static int create_like(struct loader *l, const struct target *t, struct err *e)
{
    struct buf b = {0};
    buf_adds(&b, "CREATE TABLE ");
    sql_ident(&b, t->shadow);
    buf_adds(&b, " LIKE ");
    sql_ident(&b, t->name);
    int rc = db_exec_len(l->db, b.p, b.len, e);
    buf_free(&b);
    return rc;
}

int loader_takes(const struct plan *plan, const char *table, const char *create, size_t len,
                 struct err *e)
{
    static const char key[] = " FOREIGN KEY ";
    if (plan->into || !memmem(create, len, key, sizeof key - 1))
        return 0;
    err_set(e, ERR_REFUSED, 0, "table %s has foreign keys, which cannot be swapped in", table);
    err_hint(e, "restore it by hand: gunzip -c DUMP | mysql SCHEMA, or use --into");
    return -1;
}

int loader_reads(const struct target *t, const char *create, size_t len, const char **behind_name,
                 struct err *e)
{
    static const char prefix[] = "CREATE TABLE ";
    struct buf name = {0};
    const char *rest = NULL;
    if (len > sizeof prefix && memcmp(create, prefix, sizeof prefix - 1) == 0)
        rest = sql_read_ident(create + sizeof prefix - 1, create + len, &name);
    bool own = rest && strcmp(name.p, t->name) == 0;
    buf_free(&name);
    if (!own)
        return err_set(e, ERR_DAMAGED, 0, "the definition of table %s is not one", t->name);
    *behind_name = rest;
    if (allowed_table(rest, (size_t)(create + len - rest)))
        return 0;
    err_set(e, ERR_REFUSED, 0,
            "the definition of table %s holds more than columns and options of a table", t->name);
    err_hint(e, "gunzip -c DUMP.sql.gz shows it; mysql SCHEMA runs it if you trust it");
    return -1;
}

/* CREATE TABLE `name` (…): the same text with our name in it, behind `how`. */
static int create_from_text(struct loader *l, const struct target *t, const char *how,
                            const char *create, size_t len, struct err *e)
{
    struct buf sql = {0};
    const char *rest = create;
    if (loader_reads(t, create, len, &rest, e) < 0 ||
        loader_takes(l->plan, t->name, create, len, e) < 0)
        return -1;
    buf_adds(&sql, how);
    sql_ident(&sql, loader_place(l, t));
    if (t->live && !db_is_mariadb(l->db)) /* which has constraints of these names */
        constraints_unnamed(&sql, rest, (size_t)(create + len - rest));
    else
        buf_add(&sql, rest, (size_t)(create + len - rest));
    int rc = exec_utf8(l, &sql, e);
    buf_free(&sql);
    return rc;
}

static int drop_place(struct loader *l, const struct target *t, struct err *e)
{
    struct buf b = {0};
    buf_adds(&b, "DROP TABLE ");
    sql_ident(&b, loader_place(l, t));
    int rc = exec_in_turn(l, &b, e);
    buf_free(&b);
    return rc;
}

static int create_once(struct loader *l, struct target *t, const char *create, size_t len,
                       struct err *e)
{
    return plan_defines(l->plan, t) ? create_from_text(l, t, "CREATE TABLE ", create, len, e)
                                    : create_like(l, t, e);
}

/* A temporary one is seen by nobody. */
int loader_prove(struct loader *l, const struct target *t, const char *create, size_t len,
                 struct err *e)
{
    struct buf b = {0};
    int rc = create_from_text(l, t, "CREATE TEMPORARY TABLE ", create, len, e);
    buf_adds(&b, "DROP TEMPORARY TABLE ");
    sql_ident(&b, loader_place(l, t));
    if (rc == 0)
        rc = db_exec_len(l->db, b.p, b.len, e);
    buf_free(&b);
    if (rc < 0)
        err_step(e, "this server does not take the definition (CREATE TABLE) of table %s", t->name);
    return rc;
}

/* A MEMORY table keeps the size limit of the session that made it. It gets at least the server's
 * default, room for twice what the dump held, and what its predecessor had when it was dumped. */
static int create_place(struct loader *l, struct target *t, const char *create, size_t len,
                        struct err *e)
{
    uint64_t base = l->heap_default > 0 ? (uint64_t)l->heap_default : 16u << 20, want = base;
    struct db_figures fresh;
    if (set_heap(l, base, e) < 0 || create_once(l, t, create, len, e) < 0)
        return -1;
    t->created = true;
    t->heap = t->memory ? base : 0;
    if (db_figures(l->db, l->schema, loader_place(l, t), &fresh, e) < 0)
        return -1;
    if (t->memory && !fresh.memory) {
        err_set(e, ERR_REFUSED, 0, "the server makes table %s of another engine than MEMORY",
                t->name);
        err_hint(e, DB_ENGINE_HINT);
        return -1;
    }
    if (t->heap_need > want)
        want = t->heap_need;
    if (fresh.max_data_length > 0 && t->max_data_length > fresh.max_data_length) {
        double scaled = (double)base * (double)t->max_data_length / (double)fresh.max_data_length;
        if (scaled < 1e15 && scaled > (double)want)
            want = (uint64_t)scaled + (64u << 10);
    }
    if (want <= base)
        return 0;
    t->heap = t->memory ? want : 0;
    return drop_place(l, t, e) < 0 || set_heap(l, want, e) < 0 ? -1
                                                               : create_once(l, t, create, len, e);
}

int load_place_alter(struct loader *l, const struct target *t, const char *change, struct err *e)
{
    struct buf b = {0};
    buf_adds(&b, "ALTER TABLE ");
    sql_ident(&b, loader_place(l, t));
    buf_adds(&b, change);
    int rc = exec_utf8(l, &b, e);
    buf_free(&b);
    return rc;
}

static int set_counter(struct loader *l, const struct target *t, struct err *e)
{
    struct buf b = {0};
    buf_adds(&b, "ALTER TABLE ");
    sql_ident(&b, loader_place(l, t));
    buf_printf(&b, " AUTO_INCREMENT=%" PRIu64, t->auto_increment);
    int rc = exec_in_turn(l, &b, e);
    buf_free(&b);
    return rc;
}

/* The counter of a table whose last rows were deleted stands higher than its rows tell. */
int load_place_counter(struct loader *l, const struct target *t, struct err *e)
{
    struct db_figures now;
    if (t->auto_increment == 0 || !t->memory)
        return 0;
    if (db_figures(l->db, l->schema, loader_place(l, t), &now, e) < 0)
        return -1;
    return now.auto_increment == t->auto_increment ? 0 : set_counter(l, t, e);
}

/* ALTER TABLE copies the table, and takes several times as long as making it even where it is
 * empty. Most counters need none: they stand behind the highest number that was loaded. Only a
 * table that would take long to copy gets it before it is filled. */
static bool counter_first(const struct target *t)
{
    return t->auto_increment > 1 && (!t->memory || t->expected >= COUNTER_FIRST_ROWS);
}

int loader_table(struct loader *l, const char *table, const char *create, size_t len, struct err *e)
{
    l->target = plan_find(l->plan, table);
    if (!l->target || l->target->skip) {
        l->target = NULL;
        return 0;
    }
    if (l->target->mapped)
        l->target->create = xstrndup(create, len);
    if (create_place(l, l->target, create, len, e) < 0 ||
        (counter_first(l->target) && set_counter(l, l->target, e) < 0)) {
        err_step(e, "making room for table %s", table);
        return -1;
    }
    return 0;
}
