#include "sql/grants.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sql/reader.h"

/* Adds a privilege in capitals, in one spelling, because servers have renamed some. USAGE is not a
 * privilege. */
static void add_privilege(struct grant *g, const char *s)
{
    static const char *const same[][2] = {{"REPLICATION CLIENT", "BINLOG MONITOR"},
                                          {"REPLICATION REPLICA", "REPLICATION SLAVE"},
                                          {"DELETE VERSIONING ROWS", "DELETE HISTORY"},
                                          {"CREATE TEMPORARY TABLE", "CREATE TEMPORARY TABLES"},
                                          {"ALL", "ALL PRIVILEGES"}};
    if (!*s || strcasecmp(s, "USAGE") == 0)
        return;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (strcasecmp(s, same[i][0]) == 0)
            s = same[i][1];
    char *privilege = xstrdup(s);
    for (char *p = privilege; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    g->privileges = xgrow(g->privileges, g->count, sizeof *g->privileges);
    g->privileges[g->count++] = privilege;
}

/* Reads "SELECT (a), LOCK TABLES". A privilege for some columns is kept separately, because
 * worldkeeper reads and writes whole rows. */
static bool read_privileges(struct reader *r, struct grant *g)
{
    SCOPED(buf_free) struct buf privilege = {0};
    do {
        const char *from = r->t.s;
        buf_clear(&privilege);
        buf_adds(&privilege, "");
        for (; r->t.kind == SQL_WORD && !reader_at(r, "ON"); reader_next(r)) {
            buf_adds(&privilege, privilege.len ? " " : "");
            buf_add(&privilege, r->t.s, r->t.len);
        }
        if (r->t.kind == SQL_OPEN) {
            while (r->t.kind != SQL_CLOSE && r->t.kind != SQL_END && r->t.kind != SQL_BAD)
                reader_next(r);
            g->partial = xgrow(g->partial, g->partials, sizeof *g->partial);
            g->partial[g->partials++] = xstrndup(from, (size_t)(r->t.s + r->t.len - from));
            reader_next(r);
        } else {
            add_privilege(g, privilege.p);
        }
    } while (reader_punct(r, ","));
    return reader_word(r, "ON");
}

/* Reads a schema's or an object's name, quoted or not; NULL for "*". A backslash belongs to the
 * pattern, so strings are read without escapes. */
static bool grants_read_part(struct reader *r, char **name)
{
    struct buf b = {0};
    if (reader_punct(r, "*"))
        return true;
    if (!sql_token_name(&r->t, &b) && !sql_token_bytes(&r->t, true, &b))
        return false;
    reader_next(r);
    *name = b.p;
    return true;
}

/* Reads "`user`@`host`", a role or PUBLIC, unchanged. */
static bool read_account(struct reader *r, char **out)
{
    const char *from = r->t.s, *end;
    do {
        if (r->t.kind != SQL_NAME && r->t.kind != SQL_STRING && r->t.kind != SQL_WORD)
            return false;
        end = r->t.s + r->t.len;
        reader_next(r);
    } while (reader_punct(r, "@"));
    free(*out);
    *out = xstrndup(from, (size_t)(end - from));
    return true;
}

/* Reads the part after ON: "*.*", "`schema`.*", "`schema`.`table`", a routine, or PROXY's
 * account. */
static bool read_object(struct reader *r, struct grant *g)
{
    static const char *const routines[][2] = {{"FUNCTION", "FUNCTION "},
                                              {"PROCEDURE", "PROCEDURE "},
                                              {"PACKAGE BODY", "PACKAGE BODY "},
                                              {"PACKAGE", "PACKAGE "},
                                              {"LIBRARY", "LIBRARY "}};
    if (g->count == 1 && strcmp(g->privileges[0], "PROXY") == 0) {
        g->on = GRANT_PROXY;
        return read_account(r, &g->schema);
    }
    for (size_t i = 0; i < sizeof routines / sizeof *routines && !g->routine; i++)
        if (reader_word(r, routines[i][0]))
            g->routine = routines[i][1];
    if (!grants_read_part(r, &g->schema) || !reader_punct(r, ".") ||
        !grants_read_part(r, &g->object))
        return false;
    /* No server grants a privilege on one table of every schema, so this text is not understood. */
    if (g->object && !g->schema)
        return false;
    /* "*" leaves a name NULL, which distinguishes these kinds */
    g->on = g->routine  ? GRANT_ROUTINE
            : g->object ? GRANT_TABLE
            : g->schema ? GRANT_SCHEMA
                        : GRANT_GLOBAL;
    return true;
}

/* Reads a line after GRANT or REVOKE. Returns false if it is not understood. */
static bool grants_read_line(struct reader *r, struct grant *g)
{
    struct sql_token after = reader_peek(r);
    /* GRANT `role`,`role` TO …; older servers do not quote it */
    if (r->t.kind == SQL_NAME || r->t.kind == SQL_STRING || sql_is(&after, "TO")) {
        g->on = GRANT_ROLE;
        do
            if (!read_account(r, &g->schema))
                return false;
        while (reader_punct(r, ","));
    } else if (!read_privileges(r, g) || !read_object(r, g)) {
        return false;
    }
    if (!reader_word(r, g->revoke ? "FROM" : "TO") || !read_account(r, &g->grantee))
        return false;
    /* Quoted texts, such as a password's hash, are separate tokens. */
    for (; r->t.kind != SQL_END && r->t.kind != SQL_BAD; reader_next(r)) {
        g->option |= reader_at(r, "GRANT OPTION") || reader_at(r, "ADMIN OPTION");
        g->limited |= r->t.kind == SQL_WORD && r->t.len > 4 && strncasecmp(r->t.s, "MAX_", 4) == 0;
    }
    return true;
}

/* Frees a line, also one that was rejected half-way and has only some of these members. */
static void grant_free(struct grant *g)
{
    for (size_t i = 0; i < g->count; i++)
        free(g->privileges[i]);
    free(g->privileges);
    for (size_t i = 0; i < g->partials; i++)
        free(g->partial[i]);
    free(g->partial);
    free(g->schema);
    free(g->object);
    free(g->grantee);
}

int grants_add(struct grants *g, const char *line)
{
    struct reader r = {
        .text = {.s = line, .end = line + strlen(line), .plain_strings = true, .binary = true}};
    struct grant row = {0};
    reader_next(&r);
    bool grants = reader_word(&r, "GRANT");
    row.revoke = !grants && reader_word(&r, "REVOKE");
    if (!grants && !row.revoke)
        return reader_word(&r, "DENY") ? -1 : 0; /* DENY would remove what another line grants */
    if (!grants_read_line(&r, &row)) {
        grant_free(&row);
        return -1;
    }
    g->list = xgrow(g->list, g->count, sizeof *g->list);
    g->list[g->count++] = row;
    return 0;
}

void grants_free(struct grants *g)
{
    for (size_t i = 0; i < g->count; i++)
        grant_free(&g->list[i]);
    free(g->list);
    *g = (struct grants){0};
}

bool grants_same_name(const struct grants *g, const char *a, const char *b)
{
    return (g->any_case ? strcasecmp(a, b) : strcmp(a, b)) == 0;
}

static int grants_fold(const struct grants *g, char c)
{
    return g->any_case ? tolower((unsigned char)c) : (unsigned char)c;
}

/* Compares by LIKE with \ as the escape character, as the server compares schema names. Only the
 * newest % needs to be retried, because it can match anything that an earlier one could. */
static bool grants_like(const struct grants *g, const char *s, const char *p)
{
    /* position after the newest %, and where the rest was last tried */
    const char *after = NULL, *from = NULL;
    while (*s) {
        const char *next = p + (*p == '\\' && p[1]);
        if (*p == '%') {
            after = ++p;
            from = s;
        } else if (*p == '_' || (*p && grants_fold(g, *s) == grants_fold(g, *next))) {
            p = next + 1;
            s++;
        } else if (after) {
            p = after;
            s = ++from;
        } else {
            return false;
        }
    }
    return p[strspn(p, "%")] == '\0';
}

bool grant_matches(const struct grants *g, const struct grant *row, const char *schema)
{
    if (row->on != GRANT_SCHEMA && row->on != GRANT_TABLE)
        return row->on == GRANT_GLOBAL;
    /* only grants on schemas are patterns */
    if (g->literal || row->on == GRANT_TABLE || row->revoke)
        return grants_same_name(g, row->schema, schema);
    return grants_like(g, schema, row->schema);
}

/* Returns the position of the first unescaped one of these wildcards, or SIZE_MAX if there is
 * none. */
static size_t grants_wildcard(const char *pattern, const char *of)
{
    for (const char *p = pattern; *p; p++) {
        if (*p == '\\' && p[1])
            p++;
        else if (strchr(of, *p))
            return (size_t)(p - pattern);
    }
    return SIZE_MAX;
}

bool grant_is_wide(const struct grants *g, const struct grant *row)
{
    return row->on == GRANT_SCHEMA && !g->literal && grants_wildcard(row->schema, "%") != SIZE_MAX;
}

/* Returns true if the server looks at this row before the other one. */
static bool grants_comes_first(const struct grant *row, const struct grant *other)
{
    return row->elsewhere == other->elsewhere
               ? grants_wildcard(row->schema, "%_") > grants_wildcard(other->schema, "%_")
               : !row->elsewhere;
}

/* Returns the grant that the server uses. Patterns without wildcards come first, then the
 * pattern whose first wildcard is furthest to the right. Of equal ones, the first one in SHOW
 * GRANTS is used. */
const struct grant *grants_row(const struct grants *g, const char *schema, const char *grantee)
{
    const struct grant *best = NULL;
    for (size_t i = 0; i < g->count; i++) {
        const struct grant *row = &g->list[i];
        if (row->on == GRANT_SCHEMA && !row->revoke && strcmp(row->grantee, grantee) == 0 &&
            grant_matches(g, row, schema) && (!best || grants_comes_first(row, best)))
            best = row;
    }
    return best;
}

const struct grant *grants_hidden(const struct grants *g, const char *schema, const char *grantee)
{
    SCOPED(buf_free) struct buf pattern = {0};
    const struct grant *row = grants_row(g, schema, grantee);
    buf_adds(&pattern, "");
    grants_pattern(g, &pattern, schema);
    return row && (row->elsewhere || !grants_same_name(g, row->schema, pattern.p)) ? row : NULL;
}

/* Returns true if this row contains the privilege. */
static bool grant_has(const struct grant *g, const char *privilege)
{
    for (size_t i = 0; i < g->count; i++)
        if (strcmp(g->privileges[i], privilege) == 0 ||
            strcmp(g->privileges[i], "ALL PRIVILEGES") == 0)
            return true;
    return false;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool grants_have_row(const struct grants *g, const struct grant *row, const char *privilege)
{
    for (size_t i = 0; i < g->count; i++) {
        const struct grant *other = &g->list[i];
        if (other->on == row->on && !other->revoke && same_text(other->schema, row->schema) &&
            same_text(other->object, row->object) && same_text(other->routine, row->routine) &&
            (privilege ? grant_has(other, privilege) : other->option))
            return true;
    }
    return false;
}

/* Returns true if MySQL's partial revokes remove the privilege on this schema from a grant on
 * *.*. */
static bool grants_revoked(const struct grants *g, const char *schema, const char *privilege)
{
    for (size_t i = 0; schema && i < g->count; i++)
        if (g->list[i].revoke && g->list[i].on == GRANT_SCHEMA &&
            grants_same_name(g, g->list[i].schema, schema) && grant_has(&g->list[i], privilege))
            return true;
    return false;
}

bool grants_have(const struct grants *g, const char *schema, const char *privilege)
{
    for (size_t i = 0; i < g->count; i++) {
        const struct grant *row = &g->list[i];
        if (row->revoke || row->elsewhere || !grant_has(row, privilege))
            continue;
        if (row->on == GRANT_GLOBAL && !grants_revoked(g, schema, privilege))
            return true;
        if (row->on == GRANT_SCHEMA && schema && grants_row(g, schema, row->grantee) == row)
            return true;
    }
    return false;
}

/* Returns true if the row has a privilege that concerns the contents of schemas. */
static bool grants_opens_schemas(const struct grant *row)
{
    static const char *const words[] = {"ALL PRIVILEGES",
                                        "SHOW DATABASES",
                                        "SELECT",
                                        "INSERT",
                                        "UPDATE",
                                        "DELETE",
                                        "CREATE",
                                        "DROP",
                                        "REFERENCES",
                                        "INDEX",
                                        "ALTER",
                                        "CREATE TEMPORARY TABLES",
                                        "LOCK TABLES",
                                        "EXECUTE",
                                        "CREATE VIEW",
                                        "SHOW VIEW",
                                        "CREATE ROUTINE",
                                        "ALTER ROUTINE",
                                        "EVENT",
                                        "TRIGGER",
                                        "DELETE HISTORY",
                                        "SHOW_ROUTINE",
                                        "SHOW CREATE ROUTINE"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (size_t k = 0; k < row->count; k++)
            if (strcmp(row->privileges[k], words[i]) == 0)
                return true;
    return row->option;
}

bool grants_show(const struct grants *g, const char *schema)
{
    for (size_t i = 0; i < g->count; i++) {
        const struct grant *row = &g->list[i];
        if (row->revoke || row->elsewhere)
            continue;
        if (row->on == GRANT_GLOBAL    ? grants_opens_schemas(row)
            : row->on == GRANT_ROUTINE ? row->schema && grants_same_name(g, row->schema, schema)
                                       : row->on <= GRANT_TABLE && grant_matches(g, row, schema))
            return true;
    }
    return false;
}

bool grants_have_table(const struct grants *g, const char *schema, const char *table,
                       const char *privilege)
{
    if (grants_have(g, schema, privilege))
        return true;
    for (size_t i = 0; i < g->count; i++) {
        const struct grant *row = &g->list[i];
        if (row->on == GRANT_TABLE && !row->revoke && row->schema &&
            grants_same_name(g, row->schema, schema) && grants_same_name(g, row->object, table) &&
            grant_has(row, privilege))
            return true;
    }
    return false;
}

/* Escapes wildcards, because an unescaped "_" would grant the privilege on other schemas too. */
void grants_pattern(const struct grants *g, struct buf *b, const char *schema)
{
    for (; *schema; schema++) {
        if (!g->literal && strchr("_%\\", *schema))
            buf_addc(b, '\\');
        buf_addc(b, *schema);
    }
}
