#include "db/grants.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_quote(char c)
{
    return c == '`' || c == '\'' || c == '"';
}

/* Behind a quoted name at s; a doubled quote stands for itself. NULL when it never ends. */
static const char *read_quoted(const char *s, struct buf *out)
{
    char quote = *s++;
    for (; *s; s++) {
        if (*s == quote && s[1] != quote)
            return s + 1;
        if (*s == quote)
            s++;
        buf_addc(out, *s);
    }
    return NULL;
}

static const char *skip_spaces(const char *s)
{
    return s + strspn(s, " ");
}

static const char *word(const char *s, const char *w)
{
    size_t n = strlen(w);
    return strncasecmp(s, w, n) == 0 ? s + n : NULL;
}

/* "a, `b``c`)": behind the closing parenthesis. */
static const char *skip_columns(const char *s)
{
    struct buf ignored = {0};
    while (s && *s && *s != ')')
        s = is_quote(*s) ? read_quoted(s, &ignored) : s + 1;
    buf_free(&ignored);
    return s && *s == ')' ? s + 1 : NULL;
}

/* Servers changed some names; one spelling is kept. */
static char *spelling(const char *s, size_t len)
{
    static const char *const same[][2] = {{"REPLICATION CLIENT", "BINLOG MONITOR"},
                                          {"DELETE VERSIONING ROWS", "DELETE HISTORY"},
                                          {"CREATE TEMPORARY TABLE", "CREATE TEMPORARY TABLES"},
                                          {"ALL", "ALL PRIVILEGES"}};
    while (len && s[len - 1] == ' ')
        len--;
    char *right = xstrndup(s, len);
    for (char *p = right; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (strcmp(right, same[i][0]) == 0) {
            free(right);
            return xstrdup(same[i][1]);
        }
    return right;
}

static void add_right(struct grant *g, const char *s, size_t len)
{
    char *right = spelling(s, len);
    if (!right[0] || strcmp(right, "USAGE") == 0) {
        free(right);
        return;
    }
    g->rights = xrealloc(g->rights, (g->count + 1) * sizeof *g->rights);
    g->rights[g->count++] = right;
}

/* "SELECT (a), LOCK TABLES ON ": the place behind ON. */
static const char *read_rights(const char *s, struct grant *g)
{
    for (;;) {
        s = skip_spaces(s);
        const char *from = s, *end;
        while (*s && *s != ',' && *s != '(' && !word(s, " ON "))
            s++;
        end = s;
        if (*s == '(') {
            g->columns = true;
            s = skip_columns(s);
            if (!s)
                return NULL;
        } else {
            add_right(g, from, (size_t)(end - from));
        }
        if (*s == ',') {
            s++;
            continue;
        }
        return word(s, " ON ");
    }
}

static const char *read_part(const char *s, char **name)
{
    if (*s == '*') {
        *name = NULL;
        return s + 1;
    }
    struct buf b = {0};
    buf_adds(&b, "");
    if (is_quote(*s)) {
        s = read_quoted(s, &b);
    } else {
        size_t n = strcspn(s, ". ");
        buf_add(&b, s, n);
        s += n;
    }
    *name = b.p;
    return s;
}

static const char *read_account(const char *s, struct buf *out)
{
    const char *from = s;
    for (;;) {
        struct buf ignored = {0};
        if (is_quote(*s)) {
            s = read_quoted(s, &ignored);
        } else {
            s += strcspn(s, "@ ,");
        }
        buf_free(&ignored);
        if (!s)
            return NULL;
        if (*s != '@')
            break;
        s++;
    }
    buf_add(out, from, (size_t)(s - from));
    return s;
}

static const char *read_object(const char *s, struct grant *g)
{
    static const char *const routines[] = {"FUNCTION ", "PROCEDURE ", "PACKAGE BODY ", "PACKAGE ",
                                           NULL};
    g->on = GRANT_SCHEMA;
    if (g->count == 1 && strcmp(g->rights[0], "PROXY") == 0) {
        struct buf b = {0};
        s = read_account(s, &b);
        g->on = GRANT_PROXY;
        g->schema = b.p;
        return s;
    }
    for (const char *const *r = routines; *r; r++)
        if (word(s, *r)) {
            g->on = GRANT_ROUTINE;
            g->routine = *r;
            s += strlen(*r);
            break;
        }
    s = read_part(s, &g->schema);
    if (!s || *s != '.')
        return NULL;
    s = read_part(s + 1, &g->object);
    if (g->on == GRANT_SCHEMA)
        g->on = g->object ? GRANT_TABLE : g->schema ? GRANT_SCHEMA : GRANT_GLOBAL;
    return s;
}

/* What stands behind the grantee, without quoted texts (a password's hash among them). */
static void read_rest(const char *s, struct grant *g)
{
    struct buf plain = {0}, ignored = {0};
    buf_adds(&plain, "");
    while (s && *s) {
        if (is_quote(*s)) {
            s = read_quoted(s, &ignored);
        } else {
            buf_addc(&plain, *s++);
        }
    }
    g->option = strstr(plain.p, " GRANT OPTION") || strstr(plain.p, " ADMIN OPTION");
    g->limited = strstr(plain.p, " MAX_") != NULL;
    buf_free(&plain);
    buf_free(&ignored);
}

static int read_line(const char *s, struct grant *g)
{
    struct buf to = {0};
    if (is_quote(*s) || !strstr(s, " ON ")) { /* GRANT `role`,`role` TO … */
        struct buf role = {0};
        g->on = GRANT_ROLE;
        while (s && *s && !word(s, " TO "))
            s = is_quote(*s) || isalpha((unsigned char)*s) ? read_account(s, &role) : s + 1;
        g->schema = role.p;
    } else {
        s = read_rights(s, g);
        s = s ? read_object(s, g) : NULL;
    }
    const char *behind = s ? word(s, g->revoke ? " FROM " : " TO ") : NULL;
    if (!behind || !(s = read_account(behind, &to))) {
        buf_free(&to);
        return -1;
    }
    g->grantee = to.p;
    read_rest(s, g);
    return 0;
}

static void grant_free(struct grant *g)
{
    for (size_t i = 0; i < g->count; i++)
        free(g->rights[i]);
    free(g->rights);
    free(g->schema);
    free(g->object);
    free(g->grantee);
}

int grants_add(struct grants *g, const char *line)
{
    struct grant row = {0};
    const char *s = word(line, "GRANT ");
    if (!s) {
        s = word(line, "REVOKE ");
        row.revoke = s != NULL;
    }
    if (!s)
        return 0;
    if (read_line(s, &row) < 0) {
        grant_free(&row);
        return -1;
    }
    g->list = xrealloc(g->list, (g->count + 1) * sizeof *g->list);
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

/* LIKE with \ as escape, as the server compares schema names. */
static bool like(const char *s, const char *p)
{
    for (; *p; p++, s++) {
        if (*p == '%') {
            while (p[1] == '%')
                p++;
            do {
                if (like(s, p + 1))
                    return true;
            } while (*s++);
            return false;
        }
        if (*p == '_') {
            if (!*s)
                return false;
            continue;
        }
        if (*p == '\\' && p[1])
            p++;
        if (*s != *p)
            return false;
    }
    return *s == '\0';
}

bool grant_matches(const struct grants *g, const struct grant *row, const char *schema)
{
    if (row->on != GRANT_SCHEMA && row->on != GRANT_TABLE)
        return row->on == GRANT_GLOBAL;
    if (g->literal || row->on == GRANT_TABLE || row->revoke)
        return strcmp(row->schema, schema) == 0;
    return like(schema, row->schema);
}

/* The server's order: no wildcard first, then the one whose first wildcard stands furthest behind;
 * of equals the one that SHOW GRANTS lists first. */
static size_t specific(const char *pattern)
{
    for (const char *p = pattern; *p; p++) {
        if (*p == '\\' && p[1])
            p++;
        else if (*p == '%' || *p == '_')
            return (size_t)(p - pattern);
    }
    return (size_t)-1;
}

bool grant_is_wide(const struct grants *g, const struct grant *row)
{
    for (const char *p = row->on == GRANT_SCHEMA && !g->literal ? row->schema : ""; *p; p++) {
        if (*p == '\\' && p[1])
            p++;
        else if (*p == '%')
            return true;
    }
    return false;
}

const struct grant *grants_row(const struct grants *g, const char *schema, const char *grantee)
{
    const struct grant *best = NULL;
    for (size_t i = 0; i < g->count; i++) {
        const struct grant *row = &g->list[i];
        if (row->on == GRANT_SCHEMA && !row->revoke && strcmp(row->grantee, grantee) == 0 &&
            grant_matches(g, row, schema) &&
            (!best || specific(row->schema) > specific(best->schema)))
            best = row;
    }
    return best;
}

bool grant_has(const struct grant *g, const char *right)
{
    for (size_t i = 0; i < g->count; i++)
        if (strcmp(g->rights[i], right) == 0 || strcmp(g->rights[i], "ALL PRIVILEGES") == 0)
            return true;
    return false;
}

static bool revoked(const struct grants *g, const char *schema, const char *right)
{
    for (size_t i = 0; schema && i < g->count; i++)
        if (g->list[i].revoke && g->list[i].on == GRANT_SCHEMA &&
            strcmp(g->list[i].schema, schema) == 0 && grant_has(&g->list[i], right))
            return true;
    return false;
}

bool grants_have(const struct grants *g, const char *schema, const char *right)
{
    for (size_t i = 0; i < g->count; i++) {
        const struct grant *row = &g->list[i];
        if (row->revoke || !grant_has(row, right))
            continue;
        if (row->on == GRANT_GLOBAL && !revoked(g, schema, right))
            return true;
        if (row->on == GRANT_SCHEMA && schema && grants_row(g, schema, row->grantee) == row)
            return true;
    }
    return false;
}

bool grants_have_table(const struct grants *g, const char *schema, const char *table,
                       const char *right)
{
    if (grants_have(g, schema, right))
        return true;
    for (size_t i = 0; i < g->count; i++) {
        const struct grant *row = &g->list[i];
        if (row->on == GRANT_TABLE && !row->revoke && row->schema &&
            strcmp(row->schema, schema) == 0 && strcmp(row->object, table) == 0 &&
            grant_has(row, right))
            return true;
    }
    return false;
}

void grants_pattern(const struct grants *g, struct buf *b, const char *schema)
{
    for (; *schema; schema++) {
        if (!g->literal && strchr("_%\\", *schema))
            buf_addc(b, '\\');
        buf_addc(b, *schema);
    }
}
