/* What the files of load.h share: the table that rows are loaded into (load_place.c), whether its
 * columns take them (load_columns.c) to the last digit (load_digits.c), how they go in
 * (load_rows.c), what the journal makes of them on their way (load_changes.c), the order of all
 * that (load.c), and whether they arrived (load_check.c). */
#ifndef WK_RESTORE_LOAD_INT_H
#define WK_RESTORE_LOAD_INT_H

#include "restore/load.h"

/* load_place.c */

/* As the server has it now; ERR_CHANGED when it is not there any more. */
int load_place_read(struct loader *l, const struct target *t, struct db_tables *out, struct err *e);
/* AUTO_INCREMENT as the dump has it, set where the rows did not bring it there. */
int load_place_counter(struct loader *l, const struct target *t, struct err *e);
/* ALTER TABLE … `change`, which is UTF-8. */
int load_place_alter(struct loader *l, const struct target *t, const char *change, struct err *e);

/* load_columns.c: names as in an INSERT, whatever the case of their letters. */

/* "(`a`,`b`)" becomes t->columns. */
void load_columns_note(struct target *t, const char *columns);
/* NULL when not there. */
const struct db_column *load_columns_find(const struct db_table *t, const char *name);
/* Can rows of a table whose columns changed go by name, with nothing lost? ERR_REFUSED. */
int load_columns_check(const struct target *t, struct err *e);
/* Are the texts of a table that is there in the character sets that the dump's definition tells?
 * The bytes are put back, which are other letters in another one. ERR_REFUSED. */
int load_columns_letters(const struct target *t, const char *create, size_t len, struct err *e);
/* What to do when not; -1. */
int load_columns_advise(struct err *e);

/* load_digits.c: around the rows of l->target, which `create` (len bytes) defines in the dump. */
int load_digits_off(struct loader *l, const char *create, size_t len, struct err *e);
int load_digits_on(struct loader *l, struct err *e);

/* load_rows.c */

/* `columns` as in an INSERT: "(`a`,`b`)". */
int load_rows_open(struct loader *l, const char *columns, struct err *e);
/* `hash` is the sum over their tuples. */
int load_rows_give(struct loader *l, const char *tuples, size_t len, uint64_t rows, uint64_t hash,
                   struct err *e);
/* Waits for the server's word on the last ones. */
int load_rows_finish(struct loader *l, struct err *e);
void load_rows_close(struct loader *l);
/* The tuple behind the one that ends at `next`: ",\n" is between them. */
static inline const char *load_rows_behind(const char *next, const char *end)
{
    return next < end ? next + 2 : next;
}

/* load_changes.c: l->changes is not NULL. ERR_GAP: these are not the changes of this dump. */

/* Rows of the dump, without those that went or come back changed. */
int load_changes_base(struct loader *l, const struct format_item *item, struct err *e);
/* Behind all of them: what was changed or is new. */
int load_changes_finish(struct loader *l, struct err *e);

#endif
