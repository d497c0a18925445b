"""The benchmark's world: five MEMORY tables of a browser game, the same rows each time.

Size 1 has 3.75 million rows, about 135 MB as SQL text. Other sizes have the same tables with
proportionally more or fewer players, planets and fleets."""

SCHEMA = "world"
STOCK = "stock"    # the same rows in durable tables, for filling and comparing
COPY = "memcopy"   # the same rows in MEMORY tables, the source of the INSERT ... SELECT limit

# Numbers per unit of size. A planet has factories of twelve types, a fleet ships of ten.
USERS, PLANETS, FLEETS, TYPES, SHIPS = 50_000, 200_000, 100_000, 12, 10

TABLES = {
    "up_sentinel": "(id INT PRIMARY KEY, v INT)",
    "users": """(
        id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
        nick VARCHAR(50) NOT NULL,
        email VARCHAR(100) NOT NULL,
        pw VARBINARY(32) NOT NULL,
        points BIGINT NOT NULL,
        UNIQUE KEY nick (nick))""",
    "planets": """(
        id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
        owner INT UNSIGNED NOT NULL DEFAULT 0,
        x INT NOT NULL,
        y INT NOT NULL,
        name VARCHAR(60) NOT NULL,
        class TINYINT NOT NULL,
        size SMALLINT NOT NULL,
        iron BIGINT NOT NULL,
        water BIGINT NOT NULL,
        food BIGINT NOT NULL,
        people BIGINT NOT NULL,
        growth DOUBLE NOT NULL,
        morale DECIMAL(6,3) NOT NULL,
        seen DATETIME NOT NULL,
        KEY owner (owner) USING BTREE,
        KEY place (x, y) USING BTREE)""",
    "factories": """(
        planet INT UNSIGNED NOT NULL,
        type SMALLINT UNSIGNED NOT NULL,
        many INT UNSIGNED NOT NULL,
        output INT NOT NULL,
        stock BIGINT NOT NULL,
        PRIMARY KEY (planet, type),
        KEY type (type))""",
    "fleets": """(
        id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
        owner INT UNSIGNED NOT NULL,
        name VARCHAR(40) NOT NULL,
        x INT NOT NULL,
        y INT NOT NULL,
        to_x INT,
        to_y INT,
        status TINYINT NOT NULL,
        KEY owner (owner) USING BTREE)""",
    "ships": """(
        fleet INT UNSIGNED NOT NULL,
        type SMALLINT UNSIGNED NOT NULL,
        many DOUBLE NOT NULL,
        PRIMARY KEY (fleet, type))""",
}


def counts(size):
    """Returns {table: rows} of a world of this size."""
    users, planets, fleets = (max(1, round(n * size)) for n in (USERS, PLANETS, FLEETS))
    return {"up_sentinel": 1, "users": users, "planets": planets, "factories": planets * TYPES,
            "fleets": fleets, "ships": fleets * SHIPS}


def heap_limit(size):
    """Returns max_heap_table_size for this world: its largest table with some space, as an admin would set it."""
    return int(max(64, 400 * size)) << 20


def rows(size):
    """Returns {table: SELECT that makes its rows}. RAND() with a seed gives the same numbers each time."""
    n = counts(size)
    many = n["users"]
    return {
        "up_sentinel": "SELECT 1, 1",
        "users": f"""SELECT seq, CONCAT('játékos', seq), CONCAT('u', seq, '@example.com'),
            UNHEX(SHA2(seq, 256)), RAND(2) * 1e9 FROM seq_1_to_{many}""",
        "planets": f"""SELECT seq, 1 + seq * 7919 % {many}, FLOOR(RAND(1) * 1e5), FLOOR(RAND(2) * 1e5),
            CONCAT('Bolygó ', seq, ' ★'), seq % 5, seq % 1000, RAND(3) * 1e9, RAND(4) * 1e8,
            RAND(5) * 1e7, RAND(6) * 1e6, RAND(7) * 1e5, RAND(8) * 100,
            '2026-01-01 12:00:00' - INTERVAL seq % 100000 SECOND FROM seq_1_to_{n["planets"]}""",
        "factories": f"""SELECT 1 + (seq - 1) DIV {TYPES}, seq % {TYPES}, FLOOR(RAND(1) * 100),
            FLOOR(RAND(2) * 1000), FLOOR(RAND(3) * 1e9) FROM seq_1_to_{n["factories"]}""",
        "fleets": f"""SELECT seq, 1 + seq % {many}, CONCAT('Flotta ''', seq, ''''), RAND(1) * 1e5,
            RAND(2) * 1e5, IF(seq % 3, NULL, RAND(3) * 1e5), IF(seq % 3, NULL, RAND(4) * 1e5),
            seq % 4 FROM seq_1_to_{n["fleets"]}""",
        "ships": f"""SELECT 1 + (seq - 1) DIV {SHIPS}, seq % {SHIPS}, RAND(1) * 1e6
            FROM seq_1_to_{n["ships"]}""",
    }


def make(size):
    """Yields statements that make the stock and an empty world beside it, without logging them."""
    yield "SET sql_log_bin = 0"
    for schema in (STOCK, SCHEMA):
        yield f"CREATE DATABASE {schema} CHARACTER SET utf8mb4"
    yield f"USE {STOCK}"  # the sequence tables are searched in the present schema
    for table, select in rows(size).items():
        yield f"CREATE TABLE {SCHEMA}.{table} {TABLES[table]} ENGINE=MEMORY"
        yield f"CREATE TABLE {STOCK}.{table} ENGINE=MyISAM AS SELECT * FROM {SCHEMA}.{table}"
        yield f"INSERT INTO {STOCK}.{table} {select}"
        # Closed, so that a killed server finds it intact.
        yield f"FLUSH TABLES {STOCK}.{table}"


def fill():
    """Yields statements that copy the stock's rows into the emptied world."""
    yield "SET sql_log_bin = 0"
    for table in TABLES:
        yield f"TRUNCATE TABLE {SCHEMA}.{table}"
        yield f"INSERT INTO {SCHEMA}.{table} SELECT * FROM {STOCK}.{table}"


def copy():
    """Yields statements that make the MEMORY copy beside the world."""
    yield "SET sql_log_bin = 0"
    yield f"DROP DATABASE IF EXISTS {COPY}"
    yield f"CREATE DATABASE {COPY}"
    for table in TABLES:
        yield f"CREATE TABLE {COPY}.{table} ENGINE=MEMORY AS SELECT * FROM {STOCK}.{table}"


def pour():
    """Yields the lower limit of a restore: the statements that the server needs for the rows alone, on one connection."""
    for table in TABLES:
        yield f"INSERT INTO {SCHEMA}.{table} SELECT * FROM {COPY}.{table}"
