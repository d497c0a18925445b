"""Schemas like those of database courses (a film rental and a company's staff), with all kinds of objects, beside the MEMORY
tables of a game, are dumped, wiped, restored and compared."""
import gzip
import os

import pytest
from wk.server import MYSQL, mysqldump, stock_restore
from wk.snapshot import assert_same

# Durable tables of the shop.
SHOP = [
    "CREATE TABLE tongue (id TINYINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name CHAR(20) NOT NULL, "
    "changed TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP) ENGINE=InnoDB",
    "CREATE TABLE reel (id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, title VARCHAR(128) NOT "
    "NULL, about TEXT, made YEAR, spoken TINYINT UNSIGNED NOT NULL, dubbed TINYINT UNSIGNED, rate "
    "DECIMAL(4,2) NOT NULL DEFAULT 4.99, grade ENUM('all','12','16','18') DEFAULT 'all', extras "
    "SET('trailer','scenes','talk'), still LONGBLOB, facts JSON, KEY by_title (title), CONSTRAINT "
    "reel_spoken FOREIGN KEY (spoken) REFERENCES tongue (id) ON UPDATE CASCADE, CONSTRAINT reel_dubbed "
    "FOREIGN KEY (dubbed) REFERENCES tongue (id) ON DELETE SET NULL, FULLTEXT KEY words (title,about)) "
    "ENGINE=InnoDB",
    "CREATE TABLE player_in_reel (reel SMALLINT UNSIGNED NOT NULL, person INT NOT NULL, PRIMARY KEY "
    "(person,reel), KEY (reel), FOREIGN KEY (reel) REFERENCES reel (id) ON DELETE CASCADE) ENGINE=InnoDB",
    "CREATE TABLE place (id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, street VARCHAR(50) NOT "
    "NULL, at GEOMETRY NOT NULL, road LINESTRING, SPATIAL KEY (at)) ENGINE=InnoDB",
    "CREATE TABLE rental (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, reel SMALLINT UNSIGNED NOT NULL, who "
    "INT UNSIGNED NOT NULL, since DATETIME NOT NULL, until DATETIME, days INT AS (DATEDIFF(until,since)) "
    "VIRTUAL, month INT AS (YEAR(since)*100+MONTH(since)) STORED, UNIQUE KEY (since,reel,who), KEY (month), "
    "CONSTRAINT rental_reel FOREIGN KEY (reel) REFERENCES reel (id)) ENGINE=InnoDB",
    "CREATE TABLE words (reel SMALLINT PRIMARY KEY, text TEXT, FULLTEXT KEY (text)) ENGINE=MyISAM",
    "INSERT INTO tongue VALUES (1,'magyar','2026-01-01'),(2,'English','2026-01-02'),(7,'日本語','2026-01-03')",
    "INSERT INTO reel VALUES (1,'A tanú','a dyke keeper is made a judge; ''life is not a cream "
    "cake''',1969,1,2,0.99,'12','trailer,talk',x'00ff1a0d0a5c27','{\"length\": 103, \"tags\": [\"é\", "
    "null]}'),"
    "(2,'Seven','',1954,7,NULL,2.99,NULL,'',NULL,NULL),(3,'Blow-up',NULL,1966,2,1,4.99,'18',NULL,'','[]')",
    "INSERT INTO player_in_reel VALUES (1,5),(2,5),(3,9)",
    "INSERT INTO place VALUES (1,'Fő utca 1',ST_GeomFromText('POINT(19.04 "
    "47.5)'),ST_GeomFromText('LINESTRING(0 0,1 1,2 0)')),(2,'',ST_GeomFromText('POLYGON((0 0,0 3,3 3,0 0))'),NULL)",
    "INSERT INTO rental (id,reel,who,since,until) SELECT seq, 1+seq MOD 3, seq, '2026-02-01'+INTERVAL seq "
    "HOUR, IF(seq MOD 4,'2026-03-01'+INTERVAL seq MINUTE,NULL) FROM seq_1_to_200",
    "INSERT INTO words SELECT id, about FROM reel", "FLUSH TABLES words",
]
# Tables of the firm, with partitions by year and a self-reference.
FIRM = [
    "CREATE TABLE person (no INT NOT NULL PRIMARY KEY, born DATE NOT NULL, first VARCHAR(14) NOT NULL, last "
    "VARCHAR(16) NOT NULL, sex ENUM('M','F') NOT NULL, hired DATE NOT NULL, leader INT, CONSTRAINT led "
    "FOREIGN KEY (leader) REFERENCES person (no)) ENGINE=InnoDB",
    "CREATE TABLE section (no CHAR(4) NOT NULL PRIMARY KEY, name VARCHAR(40) NOT NULL, UNIQUE KEY (name)) "
    "ENGINE=InnoDB",
    "CREATE TABLE works (person INT NOT NULL, section CHAR(4) NOT NULL, since DATE NOT NULL, until DATE "
    "NOT NULL, PRIMARY KEY (person,section), CONSTRAINT who_works FOREIGN KEY (person) REFERENCES person "
    "(no) ON DELETE CASCADE, CONSTRAINT works_where FOREIGN KEY (section) REFERENCES section (no) ON DELETE "
    "CASCADE) ENGINE=InnoDB",
    "CREATE TABLE pay (person INT NOT NULL, amount INT NOT NULL, since DATE NOT NULL, until DATE NOT NULL, "
    "PRIMARY KEY (person,since), CONSTRAINT pay_something CHECK (amount>0)) ENGINE=InnoDB PARTITION BY RANGE "
    "(YEAR(since)) (PARTITION old VALUES LESS THAN (2000), PARTITION now VALUES LESS THAN MAXVALUE)",
    "INSERT INTO person VALUES (1,'1960-02-29','Ő','Első','F','1990-01-01',NULL)",
    "INSERT INTO person SELECT seq+1, '1970-01-01'+INTERVAL seq DAY, CONCAT('f',seq), 'O''Last', IF(seq "
    "MOD 2,'M','F'), '1995-05-05', 1+FLOOR(seq/2) FROM seq_1_to_300",
    "INSERT INTO section VALUES ('d001','Sales'),('d002','Fejlesztés')",
    "INSERT INTO works SELECT no, IF(no MOD 3,'d001','d002'), hired, '9999-01-01' FROM person",
    "INSERT INTO pay SELECT no, 1000+no, hired+INTERVAL no MONTH, '9999-01-01' FROM person",
]
# MEMORY tables.
GAME = [
    "CREATE TABLE customer (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(45) NOT NULL, "
    "balance DECIMAL(9,2) NOT NULL, active BOOL NOT NULL DEFAULT 1, seen DATETIME, KEY (name) USING BTREE) "
    "ENGINE=MEMORY",
    "INSERT INTO customer SELECT seq, CONCAT('Vevő ',seq), seq/3, seq MOD 2, '2026-01-01'+INTERVAL seq "
    "SECOND FROM seq_1_to_3000",
    "CREATE TABLE basket (customer INT UNSIGNED NOT NULL, reel SMALLINT UNSIGNED NOT NULL, n TINYINT NOT "
    "NULL, PRIMARY KEY (customer,reel), CONSTRAINT some CHECK (n>0)) ENGINE=MEMORY",
    "INSERT INTO basket SELECT seq, 1+seq MOD 3, 1+seq MOD 5 FROM seq_1_to_900",
    "CREATE TABLE gossip (who INT UNSIGNED, what VARCHAR(200)) ENGINE=MEMORY",
    "INSERT INTO gossip SELECT seq MOD 9, CONCAT('it''s \\\\ ',seq) FROM seq_1_to_500",
]
# Definitions that use all these tables.
DEFINED = [
    "CREATE FUNCTION held_by(r INT) RETURNS INT READS SQL DATA RETURN (SELECT COUNT(*) FROM basket WHERE "
    "reel=r)",
    "CREATE FUNCTION full_name(a VARCHAR(14) CHARACTER SET utf8mb4, b VARCHAR(16) CHARACTER SET utf8mb4) "
    "RETURNS VARCHAR(31) CHARACTER SET utf8mb4 DETERMINISTIC BEGIN DECLARE s VARCHAR(31); SET s = "
    "CONCAT(a,' ',b); RETURN s; END",
    "CREATE PROCEDURE in_stock(IN r INT, OUT n INT) READS SQL DATA SQL SECURITY INVOKER COMMENT 'what''s "
    "left' BEGIN SELECT COUNT(*) INTO n FROM rental WHERE reel=r AND until IS NULL; END",
    "CREATE PROCEDURE raise_all(p INT) BEGIN DECLARE done INT DEFAULT 0; DECLARE k INT; DECLARE c CURSOR "
    "FOR SELECT no FROM person; DECLARE CONTINUE HANDLER FOR NOT FOUND SET done=1; OPEN c; l: LOOP FETCH c "
    "INTO k; IF done THEN LEAVE l; END IF; UPDATE pay SET amount=amount+p WHERE person=k; END LOOP; CLOSE "
    "c; END",
    "CREATE ALGORITHM=MERGE VIEW buyers (id, `the name`, `owes;`) AS SELECT id, name, -balance FROM "
    "customer WHERE active WITH CHECK OPTION",
    "CREATE ALGORITHM=TEMPTABLE SQL SECURITY INVOKER VIEW a_list AS SELECT b.`the name`, COUNT(*) AS n "
    "FROM buyers b JOIN basket k ON k.customer=b.id GROUP BY b.id, b.`the name`",
    "CREATE VIEW latest AS SELECT person, MAX(since) AS since FROM works GROUP BY person",
    "CREATE VIEW now_in AS SELECT l.person, w.section FROM works w JOIN latest l ON w.person=l.person AND "
    "w.since=l.since",
    "CREATE TRIGGER reel_in AFTER INSERT ON reel FOR EACH ROW INSERT INTO words VALUES (NEW.id,NEW.about)",
    "CREATE TRIGGER reel_out AFTER DELETE ON reel FOR EACH ROW DELETE FROM words WHERE reel=OLD.id",
    "CREATE TRIGGER customer_first BEFORE INSERT ON customer FOR EACH ROW SET NEW.name=TRIM(NEW.name)",
    "CREATE TRIGGER customer_second BEFORE INSERT ON customer FOR EACH ROW FOLLOWS customer_first SET "
    "NEW.seen=COALESCE(NEW.seen,'2026-01-01')",
    "CREATE TRIGGER basket_said AFTER UPDATE ON basket FOR EACH ROW BEGIN IF NEW.n > OLD.n THEN INSERT "
    "INTO gossip VALUES (NEW.customer,'more;'); END IF; END",
    "CREATE EVENT sweep ON SCHEDULE EVERY 1 DAY STARTS '2037-01-01 03:00:00' ON COMPLETION PRESERVE "
    "DISABLE COMMENT 'at ''night''' DO DELETE FROM rental WHERE until < '2020-01-01'",
]
SCOPES = pytest.mark.parametrize("engines, scope", [("memory", "lost"), ("all", "lost"), ("all", "all")])
REFERENCES = {"reel", "player_in_reel", "rental", "person", "works"}  # tables with foreign keys
LIKE_MINE = "DEFINER=keeper@localhost "


def mine(statement):
    """Returns the statement with the keeper's account as definer, which needs no further privileges."""
    for kind in ("FUNCTION", "PROCEDURE", "TRIGGER", "EVENT"):
        statement = statement.replace("CREATE " + kind, "CREATE " + LIKE_MINE + kind, 1)
    if " VIEW " in statement and "SQL SECURITY INVOKER VIEW" not in statement:
        statement = statement.replace(" VIEW ", " " + LIKE_MINE + "VIEW ", 1)
    return statement.replace("SQL SECURITY INVOKER VIEW", LIKE_MINE + "SQL SECURITY INVOKER VIEW")


@pytest.fixture
def sample(make_world, make_keeper, victim):
    """Returns a keeper of a schema with shop, firm and game."""
    world = make_world("empty", on=victim)
    keeper = make_keeper(world)
    victim.grant("keeper@localhost", world.schema, "ALL")
    if MYSQL:
        victim.sql("GRANT SHOW_ROUTINE, SET_ANY_DEFINER ON *.* TO keeper@localhost")
    else:
        victim.sql("GRANT SELECT ON mysql.proc TO keeper@localhost")
    world.sql(*SHOP, *FIRM, *GAME, *map(mine, DEFINED))
    return keeper.init()


def works(world):
    """Asserts that the definitions work as before."""
    assert world.value("SELECT held_by(2)") == 300
    assert world.value("SELECT full_name('Ő','Első')") == "Ő Első"
    assert world.sql("CALL in_stock(1,@n)", "SELECT @n")[0][0] == 16
    assert world.rows("a_list") == 450 and world.rows("now_in") == 301
    assert world.value("SELECT COUNT(*) FROM reel WHERE MATCH (title,about) AGAINST ('keeper')") == 1
    assert world.value("SELECT COUNT(*) FROM place WHERE MBRContains(ST_GeomFromText("
                       "'POLYGON((19 47,19 48,20 48,20 47,19 47))'),at)") == 1
    world.sql("INSERT INTO customer (name,balance) VALUES ('  new  ',0)")
    assert world.sql("SELECT id, name, CAST(seen AS CHAR) FROM customer WHERE id>3000") == (
        (3001, "new", "2026-01-01 00:00:00"),)
    world.sql("DELETE FROM customer WHERE id>3000", "ALTER TABLE customer AUTO_INCREMENT=3001")


@SCOPES
def test_after_a_restart(sample, victim, engines, scope):
    """Emptied tables are restored and durable ones unchanged; with scope = all a table with foreign keys makes the restore
    fail by name."""
    sample.configure({"dump": {"engines": engines}, "restore": {"scope": scope}})
    sample.dump()
    before = sample.world.snapshot()
    victim.crash()
    if scope == "all":
        done = sample.run("--restore")
        assert done.rc != 0 and "foreign keys" in done.err and "HINT" in done.err, done
        assert any(f"table {t} " in done.err for t in REFERENCES), done
        sample.configure({"restore": {"scope": "lost"}})
    sample.ok("--restore")
    sample.world.assert_is(before)
    works(sample.world)


def wipe(world):
    world.sql("SET foreign_key_checks=0", f"DROP DATABASE `{world.schema}`",
              f"CREATE DATABASE `{world.schema}` CHARACTER SET utf8mb4")


@pytest.mark.parametrize("way", ["stock client", "--into", "--restore"])
def test_after_all_was_lost(sample, make_world, victim, way):
    """From a dump of all tables, into an empty schema, the stock client restores everything, --into restores all tables
    and rows, and --restore restores the MEMORY tables and the definitions that do not need other tables."""
    sample.configure({"dump": {"engines": "all"}})
    path = sample.dump()["path"]
    before = sample.world.snapshot()
    works(sample.world)
    if way == "--into":
        other = make_world("empty", on=victim)
        victim.grant("keeper@localhost", other.schema, "ALL")
        sample.ok("--restore", "--into", other.schema)
        tables = {k: v for k, v in before.items() if k.partition(" ")[0] in ("rows", "table")}
        return assert_same(tables, other.snapshot(), way)
    wipe(sample.world)
    if way == "stock client":
        stock_restore(victim, path, sample.world.schema)
        sample.world.assert_is(before)
        return works(sample.world)
    told = sample.ok("--restore", "--json")
    assert "not restored" in told["warning"] and len(told["definitions"]["failed"]) == 4, told
    after = sample.world.snapshot()
    # and definitions that need a missing table
    gone = {t.split()[2] for t in SHOP + FIRM if t.startswith("CREATE TABLE")} | {
        "latest", "now_in", "reel_in", "reel_out"}
    assert_same({k: v for k, v in before.items() if k.split()[1] not in gone}, after, way)
    return None


def test_a_file_of_the_old_scripts(sample, make_world, victim, tmp):
    """A restore of mysqldump's file of the whole schema restores its tables."""
    path = mysqldump(victim, sample.world.schema, os.path.join(tmp, "old.sql.gz"))
    text = gzip.open(path).read()
    assert b"FULLTEXT" in text and b"PARTITION" in text and b"TRIGGER" in text
    before = sample.world.snapshot()
    other = make_world("empty", on=victim)
    victim.grant("keeper@localhost", other.schema, "ALL")
    sample.ok("--restore=" + path, "--into", other.schema)
    tables = {k: v for k, v in before.items() if k.partition(" ")[0] in ("rows", "table")}
    assert_same(tables, other.snapshot(), "into another schema")
    victim.crash()
    sample.ok("--restore=" + path)
    sample.world.assert_is(before)
    works(sample.world)
