-- worldkeeper, part `progress`: the central store of players' blobs, with exclusive access.
--
--   worldkeeper --sql=progress-central | mysql progress
--
-- For MariaDB from 10.11, MySQL from 8.4 and MariaDB Galera clusters. It can be applied again, over what is there: rows stay.
-- It is applied by an account that stays: the routines run with its privileges (SQL SECURITY DEFINER). Game servers and
-- worldkeeper itself need EXECUTE and nothing else, so nobody gets at a lock or a blob except by these routines:
--
--   GRANT EXECUTE ON progress.* TO 'gs_a'@'10.0.0.1';
--
-- A lock_id is believed until it is bound to the account of its game server, and to the one that worldkeeper has there:
--
--   CALL wk_bind('gs-a', 'gs_a', '10.0.0.1');
--
-- For a program that has no mysql client: DELIMITER // in the first line that is no comment; every statement ends with //
-- at the end of a line, and // is nowhere else.
--
-- Rules of all routines:
-- * Keys and lock_id are 1 to 64 bytes and compared as bytes. An argument that is NULL, too long or malformed is an error
--   (SQLSTATE 45000), and nothing was done. Only takeover_ms may be NULL.
-- * They commit: what the session had open before as well. Their answer is sent after the commit. An error means: not
--   done. A connection that is lost in a call means: unknown; the same call, repeated, says. A call that was killed (KILL QUERY,
--   a time limit) may leave its transaction open: ROLLBACK or close the connection, then repeat.
-- * 1213 (deadlock, conflict of two Galera nodes) is repeated inside; when it still comes out, repeat the call.
-- * Times are UTC, by the clock of the server; DATETIME(3). A session's own @@timestamp is taken back where others depend on it.
-- * On MariaDB RENAME TABLE puts a temporary table of any schema in the place of wk_lock, for its session, without asking for
--   privileges here. Each routine that decides something drops such tables first; nothing is logged of it. wk_save, where time
--   counts most, drops only those of the tables that it uses.
-- * On Galera each call first waits until its node has applied all that was committed in the cluster before.
-- * On Galera a commit may be rolled back after it has won, and what it wrote be applied again (a replay). That is a success,
--   but a ROW_COUNT() of it is lost, and so are rows that it put into InnoDB's temporary tables. So no answer depends on them:
--   ROW_COUNT() is asked before the COMMIT, in a transaction that was begun, and on MariaDB wk_refused is a MEMORY table.
-- * On Galera a call that is not in a transaction would be repeated by the server after a conflict (wsrep_retry_autocommit), and
--   the head of its answer then be missing now and then: clients see a malformed packet. The calls set it to 0, for their session.
--
-- Why it is correct, in short:
-- * wk_lock.lock_seq only grows. Who took a lock holds (lock_key, lock_id, lock_seq), and that triple is the one test of
--   staleness: wk_load, wk_save and wk_release compare it with the row of wk_lock, and wk_acquire replaces it.
-- * A save is one conditional write of one row of wk_blob: the row is stamped with our lock_seq, its seq is lower, and
--   the row in wk_lock, locked by the same statement, is ours.
-- * wk_load stamps our lock_seq into the blobs before it reads them. On Galera locks of rows are not known to other nodes,
--   only what was written is compared: a late save of the previous holder on another node collides with the stamp. A blob
--   that is not there yet cannot be stamped: who adds one raises wk_lock.touched, and collides with wk_acquire.
-- * A wk_lock that was lost, or is an older one, continues after the highest stamp.
DELIMITER //

SET @wk_sql_mode = @@sql_mode, @wk_client = @@character_set_client, @wk_results = @@character_set_results,
    @wk_connection = @@collation_connection //
SET NAMES utf8mb4 //
SET sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION' //

-- locked_at: since when lock_id has it. wanted_at: the first `busy` since. touched: see above. account: the login that took it,
-- under a lock_id that was bound to it; NULL: it was bound to none; '': that is to be asked again.
CREATE TABLE IF NOT EXISTS wk_lock (
    lock_key  VARBINARY(64) NOT NULL,
    lock_seq  BIGINT UNSIGNED NOT NULL,
    lock_id   VARBINARY(64) NULL,
    locked_at DATETIME(3) NULL,
    wanted_at DATETIME(3) NULL,
    touched   BIGINT UNSIGNED NOT NULL DEFAULT 0,
    account   VARBINARY(1024) NULL,
    PRIMARY KEY (lock_key)
) ENGINE=InnoDB //

-- A blob belongs to one lock for ever.
CREATE TABLE IF NOT EXISTS wk_blob (
    blob_key VARBINARY(64) NOT NULL,
    lock_key VARBINARY(64) NOT NULL,
    lock_seq BIGINT UNSIGNED NOT NULL,
    seq      BIGINT UNSIGNED NOT NULL,
    saved_at DATETIME(3) NOT NULL,
    `blob`   LONGBLOB NOT NULL,
    PRIMARY KEY (blob_key),
    KEY wk_blob_lock (lock_key, lock_seq)
) ENGINE=InnoDB //

CREATE TABLE IF NOT EXISTS wk_server (
    lock_id VARBINARY(64) NOT NULL,
    seen_at DATETIME(3) NOT NULL,
    PRIMARY KEY (lock_id)
) ENGINE=InnoDB //

-- why: `wanted` or `not seen`. The milliseconds: how long it had been held and wanted, and its server not been seen (NULL:
-- nobody was answered `busy`; it never called wk_beat). Rows are only ever added; old ones may be deleted.
CREATE TABLE IF NOT EXISTS wk_takeover (
    id        BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    lock_key  VARBINARY(64) NOT NULL,
    lock_seq  BIGINT UNSIGNED NOT NULL,
    lock_id   VARBINARY(64) NOT NULL,
    from_id   VARBINARY(64) NOT NULL,
    taken_at  DATETIME(3) NOT NULL,
    why       VARCHAR(16) CHARACTER SET ascii NOT NULL,
    held_ms   BIGINT NULL,
    wanted_ms BIGINT NULL,
    unseen_ms BIGINT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB //

-- Who may be which game server: a row binds a lock_id to an account, whose password the server has checked. host: a pattern
-- of LIKE, of what USER() shows behind the @. Written by wk_bind and wk_unbind only, which see to locks that are held, too.
CREATE TABLE IF NOT EXISTS wk_account (
    lock_id VARBINARY(64) NOT NULL,
    `user`  VARBINARY(512) NOT NULL,
    host    VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL,
    PRIMARY KEY (lock_id, `user`, host),
    KEY wk_account_user (`user`)
) ENGINE=InnoDB //

-- Tells this store from every other one. Copied with the store's rows; where a copy becomes a store of its own, DELETE the row
-- and apply this file again.
CREATE TABLE IF NOT EXISTS wk_store (
    only_row TINYINT UNSIGNED NOT NULL,
    store    VARBINARY(32) NOT NULL,
    PRIMARY KEY (only_row)
) ENGINE=InnoDB //
SET @wk_new_store = LOWER(HEX(RANDOM_BYTES(16))) //
INSERT IGNORE INTO wk_store (only_row, store) VALUES (1, @wk_new_store) //

-- A table of an earlier version has no wk_lock.account. The routines of that version do not ask for it.
SET @wk_add = (SELECT IF(COUNT(*) = 0, 'ALTER TABLE wk_lock ADD account VARBINARY(1024) NULL', 'DO 0')
                 FROM information_schema.COLUMNS
                WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'wk_lock' AND COLUMN_NAME = 'account') //
PREPARE wk_add FROM @wk_add //
EXECUTE wk_add //
DEALLOCATE PREPARE wk_add //

-- Refuses a lock_id that is bound to other accounts, and any other lock_id to an account that is bound. Where neither is bound,
-- each account may use it, and p_account is NULL; otherwise it is USER().
-- USER() is the name of the login and where it came from, also in a routine, where CURRENT_USER() is the definer. It is the name
-- of the account that was authenticated, unless that is an anonymous one.
-- For the routines below, in their transaction. The rows are read with a lock: no view is opened that could be older than a
-- row which is locked later (1020).
-- SQL SECURITY INVOKER, as in all routines that game servers shall not call: they lack the privileges for what it does.
/*!80000 DROP PROCEDURE IF EXISTS wk_claim */ //
CREATE /*M! OR REPLACE */ PROCEDURE wk_claim(p_lock_id VARBINARY(65), OUT p_account VARBINARY(1024))
    READS SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE v_host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci DEFAULT SUBSTRING_INDEX(USER(), '@', -1);
    DECLARE v_user VARBINARY(512) DEFAULT LEFT(USER(), CHAR_LENGTH(USER()) - CHAR_LENGTH(v_host) - 1);
    DECLARE v_bound, v_ours BOOL;
    DECLARE v_text VARCHAR(128) CHARACTER SET utf8mb4;
    SELECT EXISTS (SELECT 1 FROM wk_account WHERE lock_id = p_lock_id LOCK IN SHARE MODE)
           OR EXISTS (SELECT 1 FROM wk_account WHERE `user` = v_user LOCK IN SHARE MODE),
           EXISTS (SELECT 1 FROM wk_account
                    WHERE lock_id = p_lock_id AND `user` = v_user AND v_host LIKE host LOCK IN SHARE MODE)
      INTO v_bound, v_ours;
    IF v_bound AND NOT v_ours THEN
        SET v_text = LEFT(CONCAT('this account may not use this lock_id (wk_account): ', USER()), 128);
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = v_text;
    END IF;
    SET p_account = IF(v_bound, USER(), NULL);
END //

-- How many anonymous accounts the server has; NULL: who calls this may not look.
/*!80000 DROP PROCEDURE IF EXISTS wk_anonymous */ //
CREATE /*M! OR REPLACE */ PROCEDURE wk_anonymous(OUT p_count INT)
    READS SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION SET p_count = NULL;
    SELECT COUNT(*) INTO p_count FROM mysql.user WHERE `User` = '';
END //

-- wk_acquire(lock_key, lock_id, takeover_ms): outcome, lock_seq, holder, held_ms, wanted_ms
-- locked, mine, taken: lock_seq is ours, holder is lock_id, held_ms is 0, wanted_ms how long it had been wanted (NULL: it was not).
-- After `mine` it is still wanted as before: who takes its own lock again and again does not keep others out.
-- busy: all of them of who has it. Nothing is written but the first wanted_at.
-- The write that takes the lock names the row that the decision was made on; when that has changed, all begins again.
-- Nobody is asked to wait in vain: while another has it, one read answers. The first one of a holder's time writes wanted_at.
-- A row that is locked, or about to be added, is not waited for, it is looked at again after pauses that grow from 0.1 s to
-- 0.4 s: in its queue hundreds would hold up each other, and the release that all of them want. Only where it stays so, as
-- under saves without end, it is waited for, by one of ten.
-- The stamps are read when the row is locked: of a view that is older than the row nothing may be written (1020).
-- 1062: on Galera AUTO_INCREMENT may give a number twice after a conflict; all begins again.
-- A wanted_at that is yet to come (the clock was set back) counts as none: otherwise nobody could take over until then.
/*!80000 DROP PROCEDURE IF EXISTS wk_acquire */ //
CREATE /*M! OR REPLACE */ PROCEDURE wk_acquire(p_lock_key VARBINARY(65), p_lock_id VARBINARY(65), p_takeover_ms BIGINT)
    MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
    DECLARE v_outcome VARCHAR(8) CHARACTER SET ascii;
    DECLARE v_tries, v_rows INT DEFAULT 0;
    DECLARE v_seq, v_stamp BIGINT UNSIGNED;
    DECLARE v_holder VARBINARY(64);
    DECLARE v_held, v_wanted, v_unseen BIGINT;
    DECLARE v_now DATETIME(3);
    DECLARE v_rounds INT DEFAULT 0;
    DECLARE v_busy, v_queue BOOL;
    DECLARE v_account VARBINARY(1024);
    /*M! SET SESSION wsrep_retry_autocommit=0; */
    /*M! IF @@secure_timestamp = 'NO' THEN */ SET SESSION timestamp=DEFAULT; /*M! END IF; */
    /*M! SET STATEMENT sql_notes=0 FOR DROP TEMPORARY TABLE IF EXISTS wk_lock, wk_blob, wk_server, wk_takeover, wk_account; */
    IF COALESCE(LENGTH(p_lock_key), 0) NOT BETWEEN 1 AND 64 OR COALESCE(LENGTH(p_lock_id), 0) NOT BETWEEN 1 AND 64
       OR p_takeover_ms < 0 THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
            'wk_acquire: lock_key and lock_id are 1 to 64 bytes, takeover_ms is NULL or not negative';
    END IF;
    WHILE v_outcome IS NULL DO
    looking: BEGIN
        DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
        DECLARE EXIT HANDLER FOR 1020, 1062, 1213 BEGIN
            ROLLBACK;
            SET v_outcome = NULL, v_tries = v_tries + 1;
            IF v_tries >= 5 THEN RESIGNAL; END IF;
        END;
        SET v_rounds = v_rounds + 1;
        IF v_rounds > 100 THEN
            SIGNAL SQLSTATE '40001' SET MESSAGE_TEXT = 'wk_acquire: the lock changed 100 times meanwhile; call again';
        END IF;
        COMMIT;
        SET v_seq = NULL, v_holder = NULL, v_held = NULL, v_wanted = NULL, v_unseen = NULL;
        /*M! SET STATEMENT wsrep_sync_wait=1 FOR */
        SELECT UTC_TIMESTAMP(3), l.lock_seq, l.lock_id,
               GREATEST(TIMESTAMPDIFF(MICROSECOND, l.locked_at, UTC_TIMESTAMP(3)) DIV 1000, 0),
               IF(l.wanted_at <= UTC_TIMESTAMP(3), TIMESTAMPDIFF(MICROSECOND, l.wanted_at, UTC_TIMESTAMP(3)) DIV 1000, NULL),
               GREATEST(TIMESTAMPDIFF(MICROSECOND, GREATEST(s.seen_at, l.locked_at), UTC_TIMESTAMP(3)) DIV 1000, 0)
          INTO v_now, v_seq, v_holder, v_held, v_wanted, v_unseen
          FROM wk_lock l LEFT JOIN wk_server s ON s.lock_id = l.lock_id WHERE l.lock_key = p_lock_key;
        CALL wk_claim(p_lock_id, v_account);
        SET v_busy = COALESCE(v_holder <> p_lock_id, FALSE) AND NOT COALESCE(COALESCE(v_wanted, 0) >= p_takeover_ms, FALSE)
                     AND NOT COALESCE(v_unseen >= p_takeover_ms, FALSE);
        IF v_busy AND v_wanted IS NOT NULL THEN
            COMMIT;
            SET v_outcome = 'busy';
            LEAVE looking;
        END IF;
        COMMIT AND NO CHAIN;
        SET v_rows = 1, v_queue = v_rounds > 12 AND RAND() < 0.1;
        IF v_seq IS NULL AND NOT v_queue THEN
            SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;
            SELECT COUNT(*) = 0 INTO v_rows FROM wk_lock WHERE lock_key = p_lock_key;
            COMMIT;
        END IF;
        START TRANSACTION;
        IF v_seq IS NOT NULL AND NOT v_queue THEN
            SELECT COUNT(*) INTO v_rows FROM wk_lock WHERE lock_key = p_lock_key FOR UPDATE SKIP LOCKED;
        ELSEIF v_seq IS NOT NULL THEN
            SELECT COUNT(*) INTO v_rows FROM wk_lock WHERE lock_key = p_lock_key FOR UPDATE;
        END IF;
        IF v_rows = 1 AND NOT v_busy THEN
            SELECT COALESCE(MAX(lock_seq), 0) INTO v_stamp FROM wk_blob WHERE lock_key = p_lock_key;
        END IF;
        IF v_rows = 0 THEN
            ROLLBACK;
            DO SLEEP(RAND() * LEAST(0.05 * POW(2, v_rounds), 0.4));
        ELSEIF v_seq IS NULL THEN
            SET v_seq = v_stamp + 1, v_now = UTC_TIMESTAMP(3);
            INSERT IGNORE INTO wk_lock (lock_key, lock_seq, lock_id, locked_at, account)
            VALUES (p_lock_key, v_seq, p_lock_id, v_now, v_account);
            IF ROW_COUNT() = 1 THEN
                SET v_outcome = 'locked';
            END IF;
        ELSEIF v_busy THEN
            UPDATE wk_lock SET wanted_at = v_now
             WHERE lock_key = p_lock_key AND lock_seq = v_seq AND lock_id = v_holder AND (wanted_at IS NULL OR wanted_at > v_now);
            IF ROW_COUNT() = 1 THEN
                SET v_outcome = 'busy', v_wanted = 0;
            END IF;
        ELSE
            UPDATE wk_lock SET lock_seq = GREATEST(lock_seq, v_stamp) + 1, lock_id = p_lock_id, locked_at = v_now, account = v_account,
                   wanted_at = IF(v_holder = p_lock_id, wanted_at, NULL)
             WHERE lock_key = p_lock_key AND lock_seq = v_seq AND lock_id <=> v_holder;
            IF ROW_COUNT() = 1 THEN
                SET v_outcome = CASE WHEN v_holder IS NULL THEN 'locked' WHEN v_holder = p_lock_id THEN 'mine' ELSE 'taken' END;
                IF v_outcome = 'taken' THEN
                    INSERT INTO wk_takeover (lock_key, lock_seq, lock_id, from_id, taken_at, why, held_ms, wanted_ms, unseen_ms)
                    VALUES (p_lock_key, GREATEST(v_seq, v_stamp) + 1, p_lock_id, v_holder, v_now,
                            IF(COALESCE(v_unseen >= p_takeover_ms, FALSE), 'not seen', 'wanted'), v_held, v_wanted, v_unseen);
                END IF;
                SET v_seq = GREATEST(v_seq, v_stamp) + 1, v_held = 0;
            END IF;
        END IF;
        COMMIT;
    END;
    END WHILE;
    SELECT v_outcome AS outcome, v_seq AS lock_seq, IF(v_outcome = 'busy', v_holder, p_lock_id) AS holder,
           COALESCE(v_held, 0) AS held_ms, v_wanted AS wanted_ms;
END //

-- wk_load(lock_key, lock_id, lock_seq): a row for each blob: outcome = loaded, blob_key, seq, blob; else one row: none, stolen
-- The stamp is committed before the blobs are read; then nobody else can change them without another wk_load.
/*!80000 DROP PROCEDURE IF EXISTS wk_load */ //
CREATE /*M! OR REPLACE */ PROCEDURE wk_load(p_lock_key VARBINARY(65), p_lock_id VARBINARY(65), p_lock_seq BIGINT UNSIGNED)
    MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
    DECLARE v_tries INT DEFAULT 0;
    DECLARE v_done BOOL DEFAULT FALSE;
    DECLARE v_account VARBINARY(1024);
    /*M! SET SESSION wsrep_retry_autocommit=0; */
    /*M! SET STATEMENT sql_notes=0 FOR DROP TEMPORARY TABLE IF EXISTS wk_lock, wk_blob, wk_server, wk_takeover, wk_account; */
    IF COALESCE(LENGTH(p_lock_key), 0) NOT BETWEEN 1 AND 64 OR COALESCE(LENGTH(p_lock_id), 0) NOT BETWEEN 1 AND 64
       OR p_lock_seq IS NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'wk_load: lock_key and lock_id are 1 to 64 bytes, lock_seq is not NULL';
    END IF;
    WHILE NOT v_done DO
    BEGIN
        DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
        DECLARE EXIT HANDLER FOR 1020, 1213 BEGIN
            ROLLBACK;
            SET v_tries = v_tries + 1;
            IF v_tries >= 5 THEN RESIGNAL; END IF;
        END;
        COMMIT;
        /*M! SET STATEMENT wsrep_sync_wait=1 FOR */ START TRANSACTION;
        CALL wk_claim(p_lock_id, v_account);
        UPDATE wk_blob SET lock_seq = p_lock_seq
         WHERE lock_key = p_lock_key AND lock_seq <> p_lock_seq
           AND (SELECT lock_id = p_lock_id AND lock_seq = p_lock_seq FROM wk_lock WHERE lock_key = p_lock_key
                LOCK IN SHARE MODE);
        COMMIT;
        SET v_done = TRUE;
    END;
    END WHILE;
    SELECT 'loaded' AS outcome, b.blob_key, b.seq, b.`blob`
      FROM wk_lock l JOIN wk_blob b ON b.lock_key = l.lock_key
     WHERE l.lock_key = p_lock_key AND l.lock_id = p_lock_id AND l.lock_seq = p_lock_seq
    UNION ALL
    SELECT IF(l.lock_key IS NULL, 'stolen', 'none'), NULL, CAST(NULL AS UNSIGNED), NULL
      FROM (SELECT 1) one LEFT JOIN wk_lock l ON l.lock_key = p_lock_key AND l.lock_id = p_lock_id AND l.lock_seq = p_lock_seq
     WHERE l.lock_key IS NULL OR NOT EXISTS (SELECT 1 FROM wk_blob b WHERE b.lock_key = p_lock_key);
    COMMIT;
END //

-- Says whether a blob may be saved, in the transaction of who calls it: the rows of wk_lock and wk_blob are locked, and nothing
-- is written but `touched`. For the routines below, which then save with one statement: what is killed has saved all or nothing.
/*!80000 DROP PROCEDURE IF EXISTS wk_save_step */ //
CREATE /*M! OR REPLACE */ PROCEDURE wk_save_step(p_blob_key VARBINARY(64), p_lock_key VARBINARY(64), p_lock_id VARBINARY(64),
    p_lock_seq BIGINT UNSIGNED, p_seq BIGINT UNSIGNED, p_blob LONGBLOB, OUT p_outcome VARCHAR(8) CHARACTER SET ascii)
    MODIFIES SQL DATA SQL SECURITY INVOKER
this: BEGIN
    DECLARE v_ours INT;
    SELECT COUNT(*) INTO v_ours FROM wk_lock
     WHERE lock_key = p_lock_key AND lock_id = p_lock_id AND lock_seq = p_lock_seq FOR UPDATE;
    SET p_outcome = 'stolen';
    IF v_ours = 0 THEN LEAVE this; END IF;
    SELECT COALESCE(MAX(CASE WHEN lock_key <> p_lock_key OR lock_seq <> p_lock_seq THEN 'stolen'
                             WHEN seq < p_seq THEN 'saved'
                             WHEN seq = p_seq AND `blob` = p_blob THEN 'same'
                             ELSE 'stale' END), 'new')
      INTO p_outcome FROM wk_blob WHERE blob_key = p_blob_key FOR UPDATE;
    IF p_outcome = 'new' THEN
        UPDATE wk_lock SET touched = touched + 1 WHERE lock_key = p_lock_key;
        SET p_outcome = 'saved';
    END IF;
END //

-- wk_save(blob_key, lock_key, lock_id, lock_seq, seq, blob): outcome
-- A new blob that another lock has added since the decision (READ COMMITTED locks no gaps): 1048, and all begins again.
/*!80000 DROP PROCEDURE IF EXISTS wk_save */ //
CREATE /*M! OR REPLACE */ PROCEDURE wk_save(p_blob_key VARBINARY(65), p_lock_key VARBINARY(65), p_lock_id VARBINARY(65),
    p_lock_seq BIGINT UNSIGNED, p_seq BIGINT UNSIGNED, p_blob LONGBLOB)
    MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
    DECLARE v_outcome VARCHAR(8) CHARACTER SET ascii;
    DECLARE v_tries INT DEFAULT 0;
    DECLARE v_account VARBINARY(1024);
    /*M! SET SESSION wsrep_retry_autocommit=0; */
    /*M! SET STATEMENT sql_notes=0 FOR DROP TEMPORARY TABLE IF EXISTS wk_lock, wk_blob, wk_account; */
    IF COALESCE(LENGTH(p_blob_key), 0) NOT BETWEEN 1 AND 64 OR COALESCE(LENGTH(p_lock_key), 0) NOT BETWEEN 1 AND 64
       OR COALESCE(LENGTH(p_lock_id), 0) NOT BETWEEN 1 AND 64 OR p_lock_seq IS NULL OR p_seq IS NULL OR p_blob IS NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'wk_save: keys and lock_id are 1 to 64 bytes, no argument is NULL';
    END IF;
    WHILE v_outcome IS NULL DO
    BEGIN
        DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
        DECLARE EXIT HANDLER FOR 1020, 1048, 1213 BEGIN
            ROLLBACK;
            SET v_outcome = NULL, v_tries = v_tries + 1;
            IF v_tries >= 5 THEN RESIGNAL; END IF;
        END;
        COMMIT;
        /*M! SET STATEMENT wsrep_sync_wait=1 FOR */ START TRANSACTION;
        UPDATE wk_blob SET seq = p_seq, saved_at = UTC_TIMESTAMP(3), `blob` = p_blob
         WHERE blob_key = p_blob_key AND lock_key = p_lock_key AND lock_seq = p_lock_seq AND seq < p_seq
           AND (SELECT lock_id = p_lock_id AND lock_seq = p_lock_seq AND (account IS NULL OR account = USER())
                  FROM wk_lock WHERE lock_key = p_lock_key LOCK IN SHARE MODE);
        IF ROW_COUNT() = 1 THEN
            SET v_outcome = 'saved';
        ELSE
            COMMIT;
            START TRANSACTION;
            CALL wk_claim(p_lock_id, v_account);
            CALL wk_save_step(p_blob_key, p_lock_key, p_lock_id, p_lock_seq, p_seq, p_blob, v_outcome);
            IF v_outcome = 'saved' THEN
                INSERT INTO wk_blob (blob_key, lock_key, lock_seq, seq, saved_at, `blob`)
                VALUES (p_blob_key, p_lock_key, p_lock_seq, p_seq, UTC_TIMESTAMP(3), p_blob)
                ON DUPLICATE KEY UPDATE
                    blob_key = IF(wk_blob.lock_key = p_lock_key AND wk_blob.lock_seq = p_lock_seq, wk_blob.blob_key, NULL),
                    seq = p_seq, saved_at = UTC_TIMESTAMP(3), `blob` = p_blob;
            END IF;
        END IF;
        COMMIT;
    END;
    END WHILE;
    SELECT v_outcome AS outcome;
END //

-- wk_save_many(lock_id, json): outcome, blob_key (the first that was refused, else NULL)
-- json: [{"blob_key": "…", "lock_key": "…", "lock_seq": 1, "seq": 2, "blob": "base64"}, …]; a key that is no UTF-8 text comes
-- as "blob_key_base64", "lock_key_base64". All or none; `same` when all were there already.
/*!80000 DROP PROCEDURE IF EXISTS wk_save_many */ //
CREATE /*M! OR REPLACE */ PROCEDURE wk_save_many(p_lock_id VARBINARY(65), p_json LONGTEXT CHARACTER SET utf8mb4)
    MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
    DECLARE v_outcome, v_first, v_one VARCHAR(8) CHARACTER SET ascii;
    DECLARE v_tries, v_count, v_bad INT DEFAULT 0;
    DECLARE v_blob_key, v_lock_key VARBINARY(64);
    DECLARE v_lock_seq, v_seq BIGINT UNSIGNED;
    DECLARE v_blob LONGBLOB;
    DECLARE v_end BOOL DEFAULT FALSE;
    DECLARE v_account VARBINARY(1024);
    /*M! SET SESSION wsrep_retry_autocommit=0; */
    /*M! SET STATEMENT sql_notes=0 FOR DROP TEMPORARY TABLE IF EXISTS wk_lock, wk_blob, wk_server, wk_takeover, wk_account; */
    /*M! SET STATEMENT wsrep_sync_wait=1 FOR */
    SELECT COUNT(*), COUNT(*) - COUNT(DISTINCT blob_key) + COALESCE(SUM(NOT COALESCE(
               LENGTH(blob_key) BETWEEN 1 AND 64 AND LENGTH(lock_key) BETWEEN 1 AND 64 AND lock_seq REGEXP '^[0-9]{1,20}$'
               AND seq REGEXP '^[0-9]{1,20}$' AND LPAD(lock_seq, 20, '0') <= '18446744073709551615'
               AND LPAD(seq, 20, '0') <= '18446744073709551615' AND `blob` IS NOT NULL, FALSE)), 0)
      INTO v_count, v_bad
      FROM (SELECT IF(blob_64 IS NULL, CAST(blob_key AS BINARY), FROM_BASE64(blob_64)) blob_key,
                   IF(lock_64 IS NULL, CAST(lock_key AS BINARY), FROM_BASE64(lock_64)) lock_key, lock_seq, seq, FROM_BASE64(`blob`) `blob`
              FROM JSON_TABLE(p_json, '$[*]' COLUMNS (
                   blob_key VARCHAR(65) CHARACTER SET utf8mb4 PATH '$.blob_key', lock_key VARCHAR(65) CHARACTER SET utf8mb4 PATH '$.lock_key',
                   blob_64 VARCHAR(96) CHARACTER SET utf8mb4 PATH '$.blob_key_base64' DEFAULT '"%"' ON ERROR,
                   lock_64 VARCHAR(96) CHARACTER SET utf8mb4 PATH '$.lock_key_base64' DEFAULT '"%"' ON ERROR,
                   lock_seq VARCHAR(21) CHARACTER SET utf8mb4 PATH '$.lock_seq', seq VARCHAR(21) CHARACTER SET utf8mb4 PATH '$.seq',
                   `blob` LONGTEXT CHARACTER SET utf8mb4 PATH '$.blob')) j) s;
    IF COALESCE(LENGTH(p_lock_id), 0) NOT BETWEEN 1 AND 64 OR v_count = 0 OR v_bad > 0 THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
            'wk_save_many: [{"blob_key","lock_key","lock_seq","seq","blob"}], keys of 1 to 64 bytes, each blob_key once, blob in base64';
    END IF;
    WHILE v_outcome IS NULL DO
    BEGIN
        DECLARE saves CURSOR FOR
            SELECT COALESCE(FROM_BASE64(blob_64), CAST(blob_key AS BINARY)), COALESCE(FROM_BASE64(lock_64), CAST(lock_key AS BINARY)),
                   CAST(lock_seq AS UNSIGNED), CAST(seq AS UNSIGNED), FROM_BASE64(`blob`)
              FROM JSON_TABLE(p_json, '$[*]' COLUMNS (n FOR ORDINALITY,
                       blob_key VARCHAR(65) CHARACTER SET utf8mb4 PATH '$.blob_key', lock_key VARCHAR(65) CHARACTER SET utf8mb4 PATH '$.lock_key',
                       blob_64 VARCHAR(96) CHARACTER SET utf8mb4 PATH '$.blob_key_base64', lock_64 VARCHAR(96) CHARACTER SET utf8mb4 PATH '$.lock_key_base64',
                       lock_seq VARCHAR(21) CHARACTER SET utf8mb4 PATH '$.lock_seq', seq VARCHAR(21) CHARACTER SET utf8mb4 PATH '$.seq',
                       `blob` LONGTEXT CHARACTER SET utf8mb4 PATH '$.blob')) j ORDER BY n;
        DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_end = TRUE;
        DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
        DECLARE EXIT HANDLER FOR 1020, 1048, 1213 BEGIN
            ROLLBACK;
            SET v_outcome = NULL, v_tries = v_tries + 1;
            IF v_tries >= 5 THEN RESIGNAL; END IF;
        END;
        COMMIT;
        START TRANSACTION;
        CALL wk_claim(p_lock_id, v_account);
        SET v_end = FALSE, v_first = 'same';
        OPEN saves;
        saving: LOOP
            FETCH saves INTO v_blob_key, v_lock_key, v_lock_seq, v_seq, v_blob;
            IF v_end THEN LEAVE saving; END IF;
            CALL wk_save_step(v_blob_key, v_lock_key, p_lock_id, v_lock_seq, v_seq, v_blob, v_one);
            IF v_one IN ('stale', 'stolen') THEN
                SET v_outcome = v_one;
                LEAVE saving;
            ELSEIF v_one = 'saved' THEN
                SET v_first = 'saved';
            END IF;
        END LOOP;
        CLOSE saves;
        IF v_outcome IS NOT NULL THEN
            ROLLBACK;
        ELSE
            IF v_first = 'saved' THEN
                INSERT INTO wk_blob (blob_key, lock_key, lock_seq, seq, saved_at, `blob`)
                SELECT s.blob_key, s.lock_key, s.lock_seq, s.seq, UTC_TIMESTAMP(3), s.`blob`
                  FROM (SELECT COALESCE(FROM_BASE64(blob_64), CAST(blob_key AS BINARY)) blob_key,
                               COALESCE(FROM_BASE64(lock_64), CAST(lock_key AS BINARY)) lock_key,
                               CAST(lock_seq AS UNSIGNED) lock_seq, CAST(seq AS UNSIGNED) seq, FROM_BASE64(`blob`) `blob`
                          FROM JSON_TABLE(p_json, '$[*]' COLUMNS (
                   blob_key VARCHAR(65) CHARACTER SET utf8mb4 PATH '$.blob_key', lock_key VARCHAR(65) CHARACTER SET utf8mb4 PATH '$.lock_key',
                   blob_64 VARCHAR(96) CHARACTER SET utf8mb4 PATH '$.blob_key_base64', lock_64 VARCHAR(96) CHARACTER SET utf8mb4 PATH '$.lock_key_base64',
                   lock_seq VARCHAR(21) CHARACTER SET utf8mb4 PATH '$.lock_seq', seq VARCHAR(21) CHARACTER SET utf8mb4 PATH '$.seq',
                   `blob` LONGTEXT CHARACTER SET utf8mb4 PATH '$.blob')) j) s
                ON DUPLICATE KEY UPDATE
                    blob_key = IF(wk_blob.lock_key = s.lock_key AND wk_blob.lock_seq = s.lock_seq, wk_blob.blob_key, NULL),
                    saved_at = IF(wk_blob.seq = s.seq, wk_blob.saved_at, UTC_TIMESTAMP(3)), seq = s.seq, `blob` = s.`blob`;
            END IF;
            COMMIT;
            SET v_outcome = v_first, v_blob_key = NULL;
        END IF;
    END;
    END WHILE;
    SELECT v_outcome AS outcome, v_blob_key AS blob_key;
END //

-- A session may do with its own wk_sent what it likes, also give its columns other types, or make them computed ones. What decides
-- (all but the bytes of the blobs) is therefore read from it once, into a table that the session cannot reach before it is used.
-- Thousands of blobs at a time, each decided as wk_save does, in one transaction. One round trip for each of the three, or
-- for all of them together with CLIENT_MULTI_STATEMENTS:
--   CALL wk_send_open();                                     makes the session's table wk_sent, empty
--   INSERT INTO wk_sent (blob_key, lock_key, lock_seq, seq, `blob`) VALUES (…), …;   as often as needed
--   CALL wk_send(lock_id);                                   a row for each that was refused: outcome (stale, stolen, unknown),
--                                                            blob_key, seq (that is there; NULL: none is)
-- unknown: wk_lock has not given out that number of the lock, or has given it out to another lock_id. This is not the store in
-- which the lock was taken, or it was restored to an earlier moment: the blob is not lost to another game server.
-- What no row names is in wk_blob. wk_sent keeps its rows: after an error, CALL wk_send may be repeated.
/*!80000 DROP PROCEDURE IF EXISTS wk_send_open */ //
CREATE /*M! OR REPLACE */ PROCEDURE wk_send_open()
    MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
    COMMIT;
    DROP TEMPORARY TABLE IF EXISTS wk_sent;
    CREATE TEMPORARY TABLE wk_sent (
        blob_key VARBINARY(64) NOT NULL,
        lock_key VARBINARY(64) NOT NULL,
        lock_seq BIGINT UNSIGNED NOT NULL,
        seq      BIGINT UNSIGNED NOT NULL,
        `blob`   LONGBLOB NOT NULL,
        PRIMARY KEY (blob_key)
    ) ENGINE=InnoDB;
END //

/*!80000 DROP PROCEDURE IF EXISTS wk_send */ //
CREATE /*M! OR REPLACE */ PROCEDURE wk_send(p_lock_id VARBINARY(65))
    MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
    DECLARE v_tries, v_new, v_equal, v_ours INT DEFAULT 0;
    DECLARE v_done BOOL DEFAULT FALSE;
    DECLARE v_account VARBINARY(1024);
    /*M! SET SESSION wsrep_retry_autocommit=0; */
    /*M! SET STATEMENT sql_notes=0 FOR DROP TEMPORARY TABLE IF EXISTS wk_lock, wk_blob, wk_server, wk_takeover, wk_account; */
    IF COALESCE(LENGTH(p_lock_id), 0) NOT BETWEEN 1 AND 64 THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'wk_send: lock_id is 1 to 64 bytes';
    END IF;
    COMMIT;
    DROP TEMPORARY TABLE IF EXISTS wk_named, wk_refused;
    CREATE TEMPORARY TABLE wk_named (
        blob_key VARBINARY(64) NOT NULL,
        lock_key VARBINARY(64) NOT NULL,
        lock_seq BIGINT UNSIGNED NOT NULL,
        seq      BIGINT UNSIGNED NOT NULL,
        PRIMARY KEY (blob_key)
    ) ENGINE=InnoDB;
    CREATE TEMPORARY TABLE wk_refused (
        outcome  VARCHAR(8) CHARACTER SET ascii NOT NULL,
        blob_key VARBINARY(64) NOT NULL,
        seq      BIGINT UNSIGNED NULL
    ) ENGINE=/*M! MEMORY */ /*!80000 InnoDB */;
    INSERT INTO wk_named SELECT blob_key, lock_key, lock_seq, seq FROM wk_sent;
    COMMIT;
    WHILE NOT v_done DO
    BEGIN
        DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
        DECLARE EXIT HANDLER FOR 1020, 1213 BEGIN
            ROLLBACK;
            SET v_tries = v_tries + 1;
            IF v_tries >= 5 THEN RESIGNAL; END IF;
        END;
        COMMIT;
        /*M! SET STATEMENT wsrep_sync_wait=1 FOR */
        SELECT COALESCE(SUM(b.blob_key IS NULL), 0), COALESCE(SUM(b.seq = s.seq), 0) INTO v_new, v_equal
          FROM wk_named s LEFT JOIN wk_blob b ON b.blob_key = s.blob_key;
        COMMIT;
        START TRANSACTION;
        CALL wk_claim(p_lock_id, v_account);
        DELETE FROM wk_refused;
        SELECT COUNT(*) INTO v_ours FROM wk_named s STRAIGHT_JOIN wk_lock l ON l.lock_key = s.lock_key FOR UPDATE;
        IF v_new > 0 THEN
            UPDATE wk_named s STRAIGHT_JOIN wk_lock l ON l.lock_key = s.lock_key SET l.touched = l.touched + 1
             WHERE l.lock_id = p_lock_id AND l.lock_seq = s.lock_seq;
        END IF;
        IF v_equal > 0 THEN
            INSERT INTO wk_refused
            SELECT 'stale', s.blob_key, b.seq FROM wk_named s STRAIGHT_JOIN wk_lock l ON l.lock_key = s.lock_key
                   STRAIGHT_JOIN wk_blob b ON b.blob_key = s.blob_key STRAIGHT_JOIN wk_sent t ON t.blob_key = s.blob_key
             WHERE l.lock_id = p_lock_id AND l.lock_seq = s.lock_seq AND b.lock_key = s.lock_key AND b.lock_seq = s.lock_seq
               AND b.seq = s.seq AND b.`blob` <> t.`blob`;
        END IF;
        INSERT INTO wk_blob (blob_key, lock_key, lock_seq, seq, saved_at, `blob`)
        SELECT s.blob_key, s.lock_key, s.lock_seq, s.seq, UTC_TIMESTAMP(3), t.`blob`
          FROM wk_named s STRAIGHT_JOIN wk_lock l ON l.lock_key = s.lock_key STRAIGHT_JOIN wk_sent t ON t.blob_key = s.blob_key
         WHERE l.lock_id = p_lock_id AND l.lock_seq = s.lock_seq
        ON DUPLICATE KEY UPDATE
            `blob` = IF(wk_blob.lock_key = s.lock_key AND wk_blob.lock_seq = s.lock_seq AND wk_blob.seq < s.seq, t.`blob`, wk_blob.`blob`),
            saved_at = IF(wk_blob.lock_key = s.lock_key AND wk_blob.lock_seq = s.lock_seq AND wk_blob.seq < s.seq, UTC_TIMESTAMP(3), wk_blob.saved_at),
            seq = IF(wk_blob.lock_key = s.lock_key AND wk_blob.lock_seq = s.lock_seq AND wk_blob.seq < s.seq, s.seq, wk_blob.seq);
        INSERT INTO wk_refused
        SELECT CASE WHEN COALESCE(l.lock_seq, 0) < s.lock_seq OR (l.lock_seq = s.lock_seq AND l.lock_id <> p_lock_id)
                    THEN 'unknown'
                    WHEN b.seq IS NULL OR b.lock_key <> s.lock_key OR b.lock_seq <> s.lock_seq OR NOT (l.lock_id <=> p_lock_id)
                         OR l.lock_seq <> s.lock_seq THEN 'stolen'
                    ELSE 'stale' END, s.blob_key, b.seq
          FROM wk_named s LEFT JOIN wk_lock l ON l.lock_key = s.lock_key LEFT JOIN wk_blob b ON b.blob_key = s.blob_key
         WHERE b.seq IS NULL OR b.lock_key <> s.lock_key OR b.lock_seq <> s.lock_seq OR l.lock_key IS NULL
            OR NOT (l.lock_id <=> p_lock_id) OR l.lock_seq <> s.lock_seq OR b.seq <> s.seq;
        COMMIT;
        SET v_done = TRUE;
    END;
    END WHILE;
    SELECT outcome, blob_key, seq FROM wk_refused;
    COMMIT;
END //

-- wk_release(lock_key, lock_id, lock_seq): outcome
/*!80000 DROP PROCEDURE IF EXISTS wk_release */ //
CREATE /*M! OR REPLACE */ PROCEDURE wk_release(p_lock_key VARBINARY(65), p_lock_id VARBINARY(65), p_lock_seq BIGINT UNSIGNED)
    MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
    DECLARE v_outcome VARCHAR(8) CHARACTER SET ascii;
    DECLARE v_tries, v_held INT DEFAULT 0;
    DECLARE v_account VARBINARY(1024);
    /*M! SET SESSION wsrep_retry_autocommit=0; */
    /*M! SET STATEMENT sql_notes=0 FOR DROP TEMPORARY TABLE IF EXISTS wk_lock, wk_blob, wk_server, wk_takeover, wk_account; */
    IF COALESCE(LENGTH(p_lock_key), 0) NOT BETWEEN 1 AND 64 OR COALESCE(LENGTH(p_lock_id), 0) NOT BETWEEN 1 AND 64
       OR p_lock_seq IS NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'wk_release: lock_key and lock_id are 1 to 64 bytes, lock_seq is not NULL';
    END IF;
    WHILE v_outcome IS NULL DO
    BEGIN
        DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
        DECLARE EXIT HANDLER FOR 1020, 1213 BEGIN
            ROLLBACK;
            SET v_outcome = NULL, v_tries = v_tries + 1;
            IF v_tries >= 5 THEN RESIGNAL; END IF;
        END;
        COMMIT;
        /*M! SET STATEMENT wsrep_sync_wait=1 FOR */ START TRANSACTION;
        CALL wk_claim(p_lock_id, v_account);
        UPDATE wk_lock SET lock_id = NULL, locked_at = NULL, wanted_at = NULL, account = NULL
         WHERE lock_key = p_lock_key AND lock_id = p_lock_id AND lock_seq = p_lock_seq;
        IF ROW_COUNT() = 1 THEN
            SET v_outcome = 'released';
        ELSE
            SELECT COUNT(*) INTO v_held FROM wk_lock WHERE lock_key = p_lock_key AND lock_id IS NOT NULL;
            SET v_outcome = IF(v_held > 0, 'not-ours', 'free');
        END IF;
        COMMIT;
    END;
    END WHILE;
    SELECT v_outcome AS outcome;
END //

-- wk_beat(lock_id): outcome = ok. A server that ever called it is taken for dead when it no longer does.
/*!80000 DROP PROCEDURE IF EXISTS wk_beat */ //
CREATE /*M! OR REPLACE */ PROCEDURE wk_beat(p_lock_id VARBINARY(65))
    MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
    DECLARE v_account VARBINARY(1024);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    /*M! SET SESSION wsrep_retry_autocommit=0; */
    /*M! IF @@secure_timestamp = 'NO' THEN */ SET SESSION timestamp=DEFAULT; /*M! END IF; */
    /*M! SET STATEMENT sql_notes=0 FOR DROP TEMPORARY TABLE IF EXISTS wk_lock, wk_blob, wk_server, wk_takeover, wk_account; */
    IF COALESCE(LENGTH(p_lock_id), 0) NOT BETWEEN 1 AND 64 THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'wk_beat: lock_id is 1 to 64 bytes';
    END IF;
    COMMIT;
    CALL wk_claim(p_lock_id, v_account);
    INSERT INTO wk_server (lock_id, seen_at) VALUES (p_lock_id, UTC_TIMESTAMP(3))
    ON DUPLICATE KEY UPDATE seen_at = UTC_TIMESTAMP(3);
    COMMIT;
    SELECT 'ok' AS outcome;
END //

-- wk_locks(): who holds what, as wk_acquire judges it: lock_key, lock_seq, lock_id, held_ms, wanted_ms (NULL: nobody wants it),
-- unseen_ms (for how long its server did neither beat nor take this lock; NULL: it never beat)
/*!80000 DROP PROCEDURE IF EXISTS wk_locks */ //
CREATE /*M! OR REPLACE */ PROCEDURE wk_locks()
    READS SQL DATA SQL SECURITY DEFINER
BEGIN
    COMMIT;
    /*M! SET STATEMENT wsrep_sync_wait=1 FOR */
    SELECT l.lock_key, l.lock_seq, l.lock_id,
           GREATEST(TIMESTAMPDIFF(MICROSECOND, l.locked_at, UTC_TIMESTAMP(3)) DIV 1000, 0) AS held_ms,
           IF(l.wanted_at <= UTC_TIMESTAMP(3), TIMESTAMPDIFF(MICROSECOND, l.wanted_at, UTC_TIMESTAMP(3)) DIV 1000, NULL) AS wanted_ms,
           GREATEST(TIMESTAMPDIFF(MICROSECOND, GREATEST(s.seen_at, l.locked_at), UTC_TIMESTAMP(3)) DIV 1000, 0) AS unseen_ms
      FROM wk_lock l LEFT JOIN wk_server s ON s.lock_id = l.lock_id
     WHERE l.lock_id IS NOT NULL
     ORDER BY l.lock_key;
    COMMIT;
END //

-- wk_store(): store, which tells this store from every other one
/*!80000 DROP PROCEDURE IF EXISTS wk_store */ //
CREATE /*M! OR REPLACE */ PROCEDURE wk_store()
    READS SQL DATA SQL SECURITY DEFINER
BEGIN
    /*M! SET STATEMENT sql_notes=0 FOR DROP TEMPORARY TABLE IF EXISTS wk_store; */
    COMMIT;
    /*M! SET STATEMENT wsrep_sync_wait=1 FOR */
    SELECT store FROM wk_store;
    COMMIT;
END //

-- wk_bind(lock_id, user, host): outcome = bound. For an administrator. Locks that this lock_id holds are asked for at each save
-- until they are taken again.
/*!80000 DROP PROCEDURE IF EXISTS wk_bind */ //
CREATE /*M! OR REPLACE */ PROCEDURE wk_bind(p_lock_id VARBINARY(65), p_user VARBINARY(513),
    p_host VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci)
    MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE v_anonymous INT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    IF COALESCE(LENGTH(p_lock_id), 0) NOT BETWEEN 1 AND 64 OR COALESCE(LENGTH(p_user), 0) NOT BETWEEN 1 AND 512
       OR COALESCE(CHAR_LENGTH(p_host), 0) NOT BETWEEN 1 AND 255 OR p_host LIKE '%/%' THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
            'wk_bind: lock_id is 1 to 64 bytes, user is not empty, host is a pattern such as 10.0.0.% (no netmask)';
    END IF;
    CALL wk_anonymous(v_anonymous);
    IF v_anonymous > 0 THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
            'wk_bind: drop the anonymous accounts first (mysql.user, User empty): they log in under any name';
    END IF;
    START TRANSACTION;
    INSERT INTO wk_account (lock_id, `user`, host) VALUES (p_lock_id, p_user, p_host) ON DUPLICATE KEY UPDATE host = p_host;
    UPDATE wk_lock SET account = '' WHERE lock_id = p_lock_id;
    COMMIT;
    SELECT 'bound' AS outcome;
END //

-- wk_unbind(lock_id, user, host): outcome = unbound, none. Ends what wk_bind did with the same arguments.
/*!80000 DROP PROCEDURE IF EXISTS wk_unbind */ //
CREATE /*M! OR REPLACE */ PROCEDURE wk_unbind(p_lock_id VARBINARY(65), p_user VARBINARY(513),
    p_host VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci)
    MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE v_rows INT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    START TRANSACTION;
    DELETE FROM wk_account WHERE lock_id = p_lock_id AND `user` = p_user AND host = p_host;
    SET v_rows = ROW_COUNT();
    UPDATE wk_lock SET account = '' WHERE lock_id = p_lock_id;
    COMMIT;
    SELECT IF(v_rows = 1, 'unbound', 'none') AS outcome;
END //

-- wk_bound(lock_id): outcome = bound, open; anonymous: accounts of the server that log in under any name (NULL: not known)
/*!80000 DROP PROCEDURE IF EXISTS wk_bound */ //
CREATE /*M! OR REPLACE */ PROCEDURE wk_bound(p_lock_id VARBINARY(65))
    READS SQL DATA SQL SECURITY DEFINER
BEGIN
    DECLARE v_account VARBINARY(1024);
    DECLARE v_anonymous INT;
    /*M! SET STATEMENT sql_notes=0 FOR DROP TEMPORARY TABLE IF EXISTS wk_lock, wk_blob, wk_server, wk_takeover, wk_account; */
    COMMIT;
    CALL wk_claim(p_lock_id, v_account);
    CALL wk_anonymous(v_anonymous);
    COMMIT;
    SELECT IF(v_account IS NULL, 'open', 'bound') AS outcome, v_anonymous AS anonymous;
END //

-- Locks that were taken while routines of another version were there, which do not ask.
UPDATE wk_account a STRAIGHT_JOIN wk_lock l ON l.lock_id = a.lock_id SET l.account = '' //

SET character_set_client = @wk_client, character_set_results = @wk_results, collation_connection = @wk_connection,
    sql_mode = @wk_sql_mode //
DELIMITER ;
