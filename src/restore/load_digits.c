/* Columns with digits (db/digits.h) have none while their rows are loaded. */
#include <stdlib.h>
#include <string.h>

#include "db/digits.h"
#include "restore/load_int.h"

/* ALTER_OPERATION_NOT_SUPPORTED, and with a REASON */
#define NOT_SO 1845
#define NOT_SO_BECAUSE 1846

static int take_off(struct loader *l, const struct db_table *place, struct err *e)
{
    const struct target *t = l->target;
    struct buf off = {0};
    char *create = db_create_table(l->db, l->schema, loader_place(l, t), e);
    if (!create)
        return -1;
    db_digits(place, create, t->mapped ? t->create : create, &off, &l->digits);
    int rc = off.len ? load_place_alter(l, t, off.p, e) : 0;
    buf_free(&off);
    free(create);
    return rc;
}

/* Nearly always no, and then nobody is asked for more. */
static bool may_have_digits(const struct loader *l, const char *create, size_t len)
{
    if (!plan_defines(l->plan, l->target))
        return db_digits_any(l->target->live);
    return memmem(create, len, " float(", 7) || memmem(create, len, " double(", 8);
}

int load_digits_off(struct loader *l, const char *create, size_t len, struct err *e)
{
    struct db_tables made;
    buf_clear(&l->digits);
    if (!may_have_digits(l, create, len))
        return 0;
    if (load_place_read(l, l->target, &made, e) < 0)
        return -1;
    int rc = db_digits_any(&made.list[0]) ? take_off(l, &made.list[0], e) : 0;
    db_tables_free(&made);
    return rc;
}

/* Where a server must move the rows, what is stored is to be compared with what was loaded. */
static int put_back(struct loader *l, struct err *e)
{
    char *instant = xasprintf("%s, ALGORITHM=INSTANT", l->digits.p);
    int rc = load_place_alter(l, l->target, instant, e);
    free(instant);
    if (rc == 0 || (e->num != NOT_SO && e->num != NOT_SO_BECAUSE))
        return rc;
    l->target->warnings++;
    return load_place_alter(l, l->target, l->digits.p, e);
}

/* The counter goes first: an ALTER that sets it moves the rows, and MariaDB rounds them then. */
int load_digits_on(struct loader *l, struct err *e)
{
    if (l->digits.len == 0)
        return 0;
    int rc = load_place_counter(l, l->target, e) < 0 ? -1 : put_back(l, e);
    buf_clear(&l->digits);
    if (rc < 0)
        err_step(e, "giving columns of table %s their digits back", l->target->name);
    return rc;
}
