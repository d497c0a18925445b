#include "mysql/only_table.h"

#include "base/text.h"

int db_only_locked(struct db *db, const char *name, struct err *e)
{
    SCOPED(xfree) char *none =
        db_one_with(db, "SELECT COUNT(*) FROM ?? " DB_ONLY_TABLE " WHERE FALSE", DB_ARGS(name), e);
    return none ? 0 : -1;
}
