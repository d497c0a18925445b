"""Exact pictures of a schema, taken without worldkeeper, and the differences between two of them."""
import struct

from .server import MYSQL
from .util import ident

OWN = "worldkeeper_"  # the daemon's own tables do not belong to the world
TEXT = {"char", "varchar", "binary", "varbinary", "tinytext", "text", "mediumtext", "longtext",
        "tinyblob", "blob", "mediumblob", "longblob", "bit", "vector"}
FLOATS = {"float", "double"}
SPATIAL = {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring",
           "multipolygon", "geometrycollection", "geomcollection"}


def rows_of(cur, sql, *args):
    cur.execute(sql, args or None)
    return cur.fetchall()


def expression(column, kind):
    """Returns SQL that shows a value exactly in ASCII; FLOAT and DOUBLE are read as Python's exact float."""
    c = ident(column)
    if kind in FLOATS:
        return f"CAST({c} AS DOUBLE)"
    if kind in TEXT:
        return f"HEX({c})"
    if kind in SPATIAL:
        return f"HEX({c})" if MYSQL else f"HEX(AsWKB({c}))"  # MySQL's has the reference system
    if kind in ("enum", "set"):  # a member may be invalid text
        return f"CONCAT(CAST({c} AS UNSIGNED),':',HEX({c}))"
    return f"CAST({c} AS CHAR)"


# Separators that `expression` never shows.
COLUMN_END, ROW_END, NULL = "\x1f", "\x1e", "\x1d"


def in_one_piece(cur, shown, table):
    """Returns the rows, concatenated by the server, because one packet per row takes ten times as long; None if there are too
    many."""
    columns = f",'{COLUMN_END}',".join(f"IFNULL({e},'{NULL}')" for e in shown)
    cur.execute("SET SESSION group_concat_max_len=1<<28")
    text, count = rows_of(cur, f"SELECT GROUP_CONCAT({columns},'{ROW_END}' SEPARATOR ''), COUNT(*) FROM {table}")[0]
    *rows, rest = (text or "").split(ROW_END)
    if rest or len(rows) != count:
        return None
    return [[None if v == NULL else v for v in row.split(COLUMN_END)] for row in rows]


def table_rows(cur, schema, table):
    columns = rows_of(
        cur, "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema=%s AND "
        "table_name=%s AND COALESCE(generation_expression,'')='' ORDER BY ordinal_position", schema, table)
    shown = [expression(name, kind) for name, kind in columns]
    where = f"{ident(schema)}.{ident(table)}"
    rows = None
    if not MYSQL or not {kind for _, kind in columns} & FLOATS:  # within other text MariaDB's are not exact
        # Without an explicit length a number loses its last digits there.
        rows = in_one_piece(cur, [f"CAST({e} AS CHAR(100))" if kind in {"decimal", *FLOATS} else e
                                  for e, (_, kind) in zip(shown, columns)], where)
    if rows is None:
        rows = rows_of(cur, f"SELECT {','.join(shown)} FROM {where}")
    for n, (_, kind) in enumerate(columns):
        if kind in FLOATS:
            rows = [(*row[:n], None if row[n] is None else struct.pack(">d", float(row[n])).hex(), *row[n + 1:])
                    for row in rows]
    return sorted(map(tuple, rows), key=lambda row: [("", "") if v is None else ("v", str(v)) for v in row])


def create_text(cur, kind, schema, name, field):
    text = rows_of(cur, f"SHOW CREATE {kind} {ident(schema)}.{ident(name)}")[0][field]
    return None if text is None else text.replace(ident(schema) + ".", "").replace(ident(schema), "")


def tables(cur, schema, engines=None):
    return [name for name, kind, engine in rows_of(
        cur, "SELECT table_name, table_type, engine FROM information_schema.tables "
        "WHERE table_schema=%s ORDER BY table_name", schema)
        if kind in ("BASE TABLE", "SEQUENCE", "SYSTEM VERSIONED") and not name.startswith(OWN)
        and (engines is None or engine in engines)]


def snapshot(server, schema, engines=None):
    """Returns {"kind name": picture}: definitions and rows of tables, and views, triggers, routines, events. With `engines`
    only rows and definitions of tables with these engines."""
    con = server.admin(schema)
    picture = {}
    try:
        with con.cursor() as cur:
            for table in tables(cur, schema, engines):
                picture["rows " + table] = table_rows(cur, schema, table)
                picture["table " + table] = create_text(cur, "TABLE", schema, table, 1)
            if engines is not None:
                return picture
            for (name,) in rows_of(cur, "SELECT table_name FROM information_schema.views "
                                        "WHERE table_schema=%s", schema):
                picture["view " + name] = create_text(cur, "VIEW", schema, name, 1)
            for name, *parts in rows_of(
                    cur, "SELECT trigger_name, event_object_table, action_timing, event_manipulation, "
                    "action_order, action_statement, sql_mode, definer, character_set_client, "
                    "collation_connection FROM information_schema.triggers WHERE trigger_schema=%s",
                    schema):
                picture["trigger " + name] = tuple(parts)
            for name, kind in rows_of(cur, "SELECT routine_name, routine_type FROM "
                                           "information_schema.routines WHERE routine_schema=%s",
                                      schema):
                picture[f"{kind.lower()} {name}"] = create_text(cur, kind, schema, name, 2)
            for (name,) in rows_of(cur, "SELECT event_name FROM information_schema.events "
                                        "WHERE event_schema=%s", schema):
                picture["event " + name] = create_text(cur, "EVENT", schema, name, 3)
    finally:
        con.close()
    return picture


def checksums(server, schema):
    """Returns a quick fingerprint of all rows in any order: {table: (rows, checksum)}."""
    con = server.admin(schema)
    try:
        with con.cursor() as cur:
            return {t: (rows_of(cur, f"SELECT COUNT(*) FROM {ident(t)}")[0][0],
                        rows_of(cur, f"CHECKSUM TABLE {ident(t)} EXTENDED")[0][1])
                    for t in tables(cur, schema)}
    finally:
        con.close()


def short(value, limit=300):
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + f"… ({len(text)} characters)"


def diff(before, after, limit=12):
    """Returns a short readable list of the differences; empty if there are none."""
    lines = []
    for key in sorted(set(before) | set(after)):
        if key not in after:
            lines.append(f"missing: {key!r}")
        elif key not in before:
            lines.append(f"new: {key!r}")
        elif before[key] != after[key]:
            a, b = before[key], after[key]
            if key.startswith("rows "):
                lines.append(f"{key!r}: {len(a)} rows before, {len(b)} after")
                for gone in [r for r in a if r not in b][:3]:
                    lines.append("   - " + short(gone))
                for more in [r for r in b if r not in a][:3]:
                    lines.append("   + " + short(more))
            else:
                lines.append(f"{key!r}:\n   - {short(a, 1500)}\n   + {short(b, 1500)}")
    return "\n".join(lines[:limit] + (["…"] if len(lines) > limit else []))


def assert_same(before, after, what):
    difference = diff(before, after)
    assert not difference, f"{what}:\n{difference}"
