/* SPDX-License-Identifier: Apache-2.0 */
/* Every SQL statement of the program: Q(NAME, "SQL"), and L(NAME, "SQL") for lists that have no bound. Each is prepared when it is
 * first used. SQLite and PostgreSQL get the same text; STATEMENTS_OF_POSTGRESQL says that it is for PostgreSQL, where
 *   - `user` has to be quoted, and max() takes one argument
 *   - tables whose rows are listed have a column `rowid`
 *   - parameters are typed by their letters, so NULL is fine for each
 * What cannot be the same is a word below. */
#ifdef STATEMENTS_OF_POSTGRESQL
#define PLACE          "coalesce(place, lpad(to_hex(seq), 16, '0')) COLLATE \"C\""
#define BYTES_OF(text) "octet_length(" text ")"
#define IS_MARKDOWN    "CASE WHEN meta LIKE '{%' THEN CAST(meta AS json) ->> 'kind' END = 'markdown'"
#define SAME(a, b)                                                                                 \
	"lower(" a " COLLATE \"C\") = lower(" b " COLLATE \"C\")" /* in any case of ASCII letters */
#else
#define PLACE          "coalesce(place, printf('%016x', seq))" /* as the index has it */
#define BYTES_OF(text) "length(CAST(" text " AS BLOB))"
#define IS_MARKDOWN    "json_extract(meta, '$.kind') = 'markdown'"
#define SAME(a, b)     a " = " b
#endif
#define USER_COLUMNS                                                                               \
	"id, name, coalesce(email, ''), coalesce(hash, ''), role, active, created_ms,"             \
	" quota_sandboxes, quota_cpu_s, quota_disk, quota_runs"
#define KEY_COLUMNS                                                                                \
	"k.id, k.user, k.name, k.hint, k.scope, k.profile, k.created_ms, k.expires_ms, k.used_ms"
#define INVITATION_COLUMNS "id, role, note, created_ms, expires_ms"
#define SANDBOX_COLUMNS                                                                            \
	"id, owner, name, image, persist, disk_bytes, created_ms, used_ms, network, place,"        \
	" options, runs"
#define PACKAGE_COLUMNS "sandbox, name, version, status, text, started_ms, ended_ms"
#define RUN_COLUMNS                                                                                \
	"id, owner, sandbox, kind, reason, exit_code, started_ms, duration_ms, cpu_us,"            \
	" peak_bytes, out_bytes"
#define MOVING_COLUMNS                                                                             \
	"m.incarnation, m.id, m.owner, m.epoch, m.change, m.saved, m.removed, "                    \
	"coalesce(s.disk_bytes, 0), m.proof"
#define MOVING_TABLES "moving m LEFT JOIN sandboxes s ON s.id = m.id AND m.removed = 0"
#define SNAPSHOT_COLUMNS                                                                           \
	"incarnation, id, owner, worker, loading, epoch, generation, snap_epoch, snap_generation," \
	" hash, disk_bytes, bytes, saved_ms, removed_ms, version"
#define SNAPSHOT_NEXT "version = (SELECT n FROM snapshot_clock)"
#define AUDIT_COLUMNS "id, at_ms, actor, action, object, result, detail, peer, class, count"

Q(BEGIN, "BEGIN IMMEDIATE")
Q(COMMIT, "COMMIT")
Q(ROLLBACK, "ROLLBACK")
Q(ROW_BEGIN, "SAVEPOINT row")
Q(ROW_KEEP, "RELEASE row")
Q(ROW_DROP, "ROLLBACK TO row")
Q(SYNC_FULL, "PRAGMA synchronous = FULL")
Q(SYNC_NORMAL, "PRAGMA synchronous = NORMAL")

Q(VERSION, "SELECT coalesce(max(version), 0) FROM migrations")
/* of PostgreSQL alone */
Q(VERSION_KNOWN, "SELECT count(*) FROM pg_catalog.pg_tables WHERE tablename = 'migrations' AND "
		 "schemaname = current_schema()")
Q(VERSION_ADD, "INSERT INTO migrations VALUES(?1, ?2)")

Q(META_GET, "SELECT value FROM meta WHERE key = ?1")
Q(META_ADD, "INSERT INTO meta(key, value) VALUES(?1, ?2) ON CONFLICT(key) DO NOTHING")
Q(META_SET, "INSERT INTO meta(key, value) VALUES(?1, ?2)"
	    " ON CONFLICT(key) DO UPDATE SET value = excluded.value")

Q(USER_ADD, "INSERT INTO users VALUES(?1, ?2, nullif(?3, ''), nullif(?4, ''), ?5, ?6, ?7, ?8, ?9,"
	    " ?10, ?11)")
Q(USER_GET, "SELECT " USER_COLUMNS " FROM users WHERE id = ?1")
Q(USER_BY_NAME, "SELECT " USER_COLUMNS " FROM users WHERE " SAME("name", "?1"))
Q(USER_BY_EMAIL, "SELECT " USER_COLUMNS " FROM users WHERE " SAME("email", "?1"))
Q(USER_UPDATE, "UPDATE users SET email = nullif(?2, ''), hash = nullif(?3, ''), role = ?4,"
	       " active = ?5, quota_sandboxes = ?6, quota_cpu_s = ?7, quota_disk = ?8,"
	       " quota_runs = ?9 WHERE id = ?1")
Q(USER_MIRROR, "UPDATE users SET active = ?2, quota_sandboxes = ?3, quota_cpu_s = ?4,"
	       " quota_disk = ?5, quota_runs = ?6 WHERE id = ?1")
Q(USER_KEYS_REMOVE,
  "DELETE FROM keys WHERE id IN (SELECT id FROM keys WHERE \"user\" = ?1 LIMIT ?2)")
Q(USER_REMOVE, "DELETE FROM users WHERE id = ?1")
L(USER_LIST, "SELECT " USER_COLUMNS ", rowid FROM users WHERE (created_ms, rowid) > (?1, ?2)"
	     " ORDER BY created_ms, rowid")
Q(USER_IDLE, "SELECT id FROM users WHERE active = 0 UNION ALL SELECT owner FROM departed"
	     " ORDER BY 1 LIMIT ?1")
Q(USER_COUNT, "SELECT count(*) FROM users")

Q(KEY_ADD, "INSERT INTO keys VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0)")
Q(KEY_COUNT, "SELECT count(*) FROM keys WHERE (?1 IS NULL OR \"user\" = ?1) AND (expires_ms = 0 OR "
	     "expires_ms > ?2)")
Q(KEY_CHECK, "SELECT " KEY_COLUMNS " FROM keys k WHERE k.digest = ?1"
	     " AND (k.expires_ms = 0 OR k.expires_ms > ?2)")
Q(KEY_USED, "UPDATE keys SET used_ms = ?2 WHERE id = ?1 AND used_ms < ?2")
Q(KEY_REVOKE, "DELETE FROM keys WHERE id = ?1")
Q(KEY_REVOKE_OWN, "DELETE FROM keys WHERE id = ?1 AND \"user\" = ?2")
Q(KEY_REVOKE_NAMED, "DELETE FROM keys WHERE \"user\" = ?1 AND name = ?2")
L(KEY_LIST, "SELECT " KEY_COLUMNS ", k.rowid FROM keys k WHERE k.user = ?1"
	    " AND (k.created_ms, k.rowid) > (?2, ?3) ORDER BY k.created_ms, k.rowid")

Q(KEY_GET, "SELECT " KEY_COLUMNS " FROM keys k WHERE k.id = ?1"
	   " AND (k.expires_ms = 0 OR k.expires_ms > ?2)")
Q(EPOCH, "SELECT epoch FROM credentials")

Q(INVITATION_ADD, "INSERT INTO invitations VALUES(?1, ?2, ?3, ?4, ?5, ?6)")
Q(INVITATION_FIND, "SELECT " INVITATION_COLUMNS " FROM invitations WHERE digest = ?1"
		   " AND expires_ms > ?2")
L(INVITATION_LIST, "SELECT " INVITATION_COLUMNS ", rowid FROM invitations WHERE expires_ms > ?1"
		   " AND (created_ms, rowid) > (?2, ?3) ORDER BY created_ms, rowid")
Q(INVITATION_REMOVE, "DELETE FROM invitations WHERE id = ?1")
Q(INVITATION_PRUNE, "DELETE FROM invitations WHERE expires_ms <= ?1")
Q(INVITATION_COUNT, "SELECT count(*) FROM invitations")

Q(SANDBOX_ADD, "INSERT INTO sandboxes VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
	       " ?12, ?13)")
Q(SANDBOX_ENV, "SELECT env FROM sandboxes WHERE id = ?1")
Q(SANDBOX_CHANGE, "UPDATE sandboxes SET name = ?2, options = ?3, env = ?4 WHERE id = ?1")
Q(SANDBOX_GET, "SELECT " SANDBOX_COLUMNS " FROM sandboxes WHERE id = ?1")
Q(SANDBOX_GET_OWN, "SELECT " SANDBOX_COLUMNS " FROM sandboxes WHERE id = ?1 AND owner = ?2")
Q(SANDBOX_PLACE, "UPDATE sandboxes SET place = ?2 WHERE id = ?1")
Q(SANDBOX_REMOVE, "DELETE FROM sandboxes WHERE id = ?1")
L(SANDBOX_LIST, "SELECT " SANDBOX_COLUMNS ", rowid FROM sandboxes"
		" WHERE (created_ms, rowid) > (?1, ?2) ORDER BY created_ms, rowid")
L(SANDBOX_LIST_OWN, "SELECT " SANDBOX_COLUMNS ", rowid FROM sandboxes WHERE owner = ?3"
		    " AND (created_ms, rowid) > (?1, ?2) ORDER BY created_ms, rowid")
Q(SANDBOX_SUMS, "SELECT count(*), coalesce(sum(disk_bytes), 0) FROM sandboxes WHERE owner = ?1")
Q(SANDBOX_BYTES, "SELECT coalesce(sum(disk_bytes), 0) FROM sandboxes")
Q(SANDBOX_COUNT, "SELECT count(*) FROM sandboxes")
Q(SANDBOX_RUN, "UPDATE sandboxes SET runs = runs + 1 WHERE id = ?1")
Q(SANDBOX_USED, "UPDATE sandboxes SET used_ms = ?2 WHERE id = ?1 AND used_ms < ?2")

Q(MOVING_GET, "SELECT " MOVING_COLUMNS " FROM " MOVING_TABLES " WHERE m.id = ?1 AND m.removed = 0")
Q(MOVING_FIND, "SELECT " MOVING_COLUMNS " FROM " MOVING_TABLES " WHERE m.incarnation = ?1")
Q(MOVING_OPENED, "UPDATE moving SET change = change + 1 WHERE id = ?1 AND removed = 0")
Q(MOVING_SAVED, "UPDATE moving SET saved = ?3 WHERE incarnation = ?1 AND epoch = ?2 AND saved < ?3"
		" AND change >= ?3")
Q(MOVING_PROVE, "UPDATE moving SET proof = ?3 WHERE incarnation = ?1 AND epoch = ?2")
Q(MOVING_FORGET, "DELETE FROM moving WHERE incarnation = ?1 AND removed = 1")
Q(MOVING_ALL_CHANGED, "UPDATE moving SET change = change + 1 WHERE change = saved AND removed = 0")
Q(MOVING_ARRIVED, "UPDATE moving SET incarnation = ?2, epoch = ?3, change = 1, saved = 1 WHERE id "
		  "= ?1 AND removed = 0")
L(MOVING_LIST, "SELECT " MOVING_COLUMNS ", m.rowid FROM " MOVING_TABLES
	       " WHERE m.rowid > ?1 AND (?2 = 0 OR m.removed = 1 OR m.change <> m.saved)"
	       " ORDER BY m.rowid LIMIT ?3")

Q(SNAPSHOT_TICK, "UPDATE snapshot_clock SET n = n + 1")
Q(SNAPSHOT_ADD, "INSERT INTO snapshots VALUES(?1, ?2, ?3, ?4, 0, ?5, 0, 0, 0, '', ?6, 0, 0, 0,"
		" (SELECT n FROM snapshot_clock))")
Q(SNAPSHOT_GET, "SELECT " SNAPSHOT_COLUMNS " FROM snapshots WHERE incarnation = ?1")
Q(SNAPSHOT_FIND, "SELECT " SNAPSHOT_COLUMNS " FROM snapshots WHERE id = ?1 AND removed_ms = 0")
L(SNAPSHOT_SINCE,
  "SELECT " SNAPSHOT_COLUMNS " FROM snapshots WHERE version >"
  " CASE WHEN ?1 > (SELECT n FROM snapshot_clock) THEN 0 ELSE ?1 END ORDER BY version LIMIT ?2")
L(SNAPSHOT_OF_WORKER,
  "SELECT " SNAPSHOT_COLUMNS " FROM snapshots WHERE worker = ?1 AND incarnation > ?2"
  " AND removed_ms = 0 ORDER BY incarnation LIMIT ?3")
Q(SNAPSHOT_GENERATION,
  "UPDATE snapshots SET generation = generation + 1, disk_bytes = ?2, " SNAPSHOT_NEXT
  " WHERE incarnation = ?1")
Q(SNAPSHOT_SAVED,
  "UPDATE snapshots SET snap_epoch = ?2, snap_generation = ?3, hash = ?4, bytes = ?5,"
  " saved_ms = ?6, " SNAPSHOT_NEXT " WHERE incarnation = ?1 AND epoch = ?2 AND generation >= ?3"
  " AND removed_ms = 0 AND (snap_epoch, snap_generation) < (?2, ?3)")
Q(SNAPSHOT_TAKE,
  "UPDATE snapshots SET epoch = epoch + 1, generation = 0, worker = ?3, loading = 1, " SNAPSHOT_NEXT
  " WHERE incarnation = ?1 AND epoch = ?2 AND removed_ms = 0")
Q(SNAPSHOT_HERE, "UPDATE snapshots SET loading = 0, " SNAPSHOT_NEXT
		 " WHERE incarnation = ?1 AND epoch = ?2 AND loading = 1")
Q(SNAPSHOT_RAISE,
  "UPDATE snapshots SET epoch = ?2, generation = 1000000, worker = ?3, loading = 0, " SNAPSHOT_NEXT
  " WHERE incarnation = ?1 AND epoch < ?2 AND removed_ms = 0")
Q(SNAPSHOT_BACK, "UPDATE snapshots SET worker = ?3, " SNAPSHOT_NEXT
		 " WHERE incarnation = ?1 AND epoch = ?2 AND loading = 0 AND removed_ms = 0")
Q(SNAPSHOT_NOWHERE, "UPDATE snapshots SET worker = '', loading = 0, " SNAPSHOT_NEXT
		    " WHERE incarnation = ?1 AND epoch = ?2 AND removed_ms = 0")
Q(SNAPSHOT_REMOVED, "UPDATE snapshots SET removed_ms = ?2, bytes = 0, " SNAPSHOT_NEXT
		    " WHERE incarnation = ?1 AND removed_ms = 0")
Q(SNAPSHOT_REMOVED_BY,
  "UPDATE snapshots SET removed_ms = ?2, bytes = 0, worker = '', " SNAPSHOT_NEXT
  " WHERE incarnation = ?1 AND removed_ms = 0 AND epoch = ?3"
  " AND (worker = ?4 OR (worker = '' AND ?5 = 1))")
L(SNAPSHOT_OF_OWNER,
  "SELECT incarnation FROM snapshots WHERE owner = ?1 AND removed_ms = 0 LIMIT ?2")
Q(SNAPSHOT_DELETE, "DELETE FROM snapshots WHERE incarnation = ?1 AND removed_ms > 0"
		   " AND epoch = 0 AND worker = '' AND NOT EXISTS"
		   "(SELECT 1 FROM snapshot_objects o WHERE o.incarnation = ?1)")
Q(SNAPSHOT_FORGET,
  "DELETE FROM snapshots WHERE incarnation IN (SELECT x.incarnation FROM snapshots x"
  " WHERE x.removed_ms > 0 AND x.removed_ms < ?1 AND NOT EXISTS"
  " (SELECT 1 FROM snapshot_objects o WHERE o.incarnation = x.incarnation) LIMIT ?2)")
Q(SNAPSHOT_BYTES,
  "SELECT coalesce(sum(bytes), 0) FROM snapshots WHERE owner = ?1 AND incarnation <> ?2")
Q(SNAPSHOT_BYTES_ALL, "SELECT coalesce(sum(bytes), 0) FROM snapshots WHERE incarnation <> ?1")
Q(OBJECTS_GET,
  "SELECT stored, live, dead, dead_ms FROM snapshot_objects WHERE incarnation = ?1 AND epoch = ?2"
  " AND generation = ?3")
Q(OBJECTS_SET, "INSERT INTO snapshot_objects VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)"
	       " ON CONFLICT(incarnation, epoch, generation) DO UPDATE SET stored = ?4, live = ?5,"
	       " dead = ?6, dead_ms = ?7")
Q(OBJECTS_REMOVE,
  "DELETE FROM snapshot_objects WHERE incarnation = ?1 AND epoch = ?2 AND generation = ?3")
Q(OBJECTS_NEXT,
  "SELECT stored, live, dead, dead_ms, epoch, generation FROM snapshot_objects"
  " WHERE incarnation = ?1 AND (epoch, generation) > (?2, ?3) ORDER BY epoch, generation LIMIT 1")
L(OBJECTS_DEAD, "SELECT incarnation, epoch, generation, dead FROM snapshot_objects"
		" WHERE dead_ms > 0 AND dead_ms < ?1 ORDER BY dead_ms LIMIT ?2")

Q(PACKAGE_SET,
  "INSERT INTO packages VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT(sandbox, name) DO UPDATE"
  " SET version = ?3, status = ?4, text = ?5, started_ms = ?6, ended_ms = ?7")
Q(PACKAGE_GET, "SELECT " PACKAGE_COLUMNS " FROM packages WHERE sandbox = ?1 AND name = ?2")
Q(PACKAGE_REMOVE, "DELETE FROM packages WHERE sandbox = ?1 AND name = ?2")

Q(RUN_ADD, "INSERT INTO runs(id, owner, sandbox, kind, reason, exit_code, started_ms, duration_ms,"
	   " cpu_us, peak_bytes, out_bytes) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")
Q(RUN_KNOWN, "SELECT count(*) FROM runs WHERE sandbox = ?1 AND id = ?2")
Q(RUN_OVER, "SELECT coalesce(sum(n), 0) - ?1 FROM run_owners")
Q(RUN_PRUNE, "DELETE FROM runs WHERE seq IN (SELECT seq FROM runs WHERE owner ="
	     " (SELECT owner FROM run_owners ORDER BY n DESC LIMIT 1) ORDER BY seq LIMIT ?1)")
Q(RUN_LIST, "SELECT " RUN_COLUMNS " FROM runs WHERE started_ms < ?1 ORDER BY seq DESC LIMIT ?2")
Q(RUN_LIST_OWN, "SELECT " RUN_COLUMNS " FROM runs WHERE owner = ?3 AND started_ms < ?1"
		" ORDER BY seq DESC LIMIT ?2")
Q(RUN_LIST_SANDBOX, "SELECT " RUN_COLUMNS " FROM runs WHERE sandbox = ?4"
		    " AND (?3 IS NULL OR owner = ?3) AND started_ms < ?1"
		    " ORDER BY seq DESC LIMIT ?2")
Q(USAGE_ADD, "INSERT INTO usage VALUES(?1, ?2, ?3, 1) ON CONFLICT(owner, day) DO UPDATE"
	     " SET cpu_us = usage.cpu_us + excluded.cpu_us, runs = usage.runs + 1")
Q(USAGE_GET, "SELECT cpu_us FROM usage WHERE owner = ?1 AND day = ?2")
Q(USAGE_DAY, "SELECT owner, cpu_us FROM usage WHERE day = ?1")
Q(USAGE_PRUNE, "DELETE FROM usage WHERE day < ?1")

Q(AUDIT_ADD,
  "INSERT INTO audit(at_ms, actor, action, object, result, detail, peer, class, who, count)"
  " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")
Q(AUDIT_MORE, "UPDATE audit SET count = ?2, detail = ?3 WHERE id = ?1 AND count < ?2")
Q(AUDIT_BOUND, "INSERT INTO audit_classes VALUES(?1, 0, ?2)"
	       " ON CONFLICT(class) DO UPDATE SET keep = excluded.keep")
Q(AUDIT_OVER, "SELECT n - keep FROM audit_classes WHERE class = ?1")
Q(AUDIT_PRUNE, "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE class = ?2 AND who ="
	       " (SELECT who FROM audit_actors WHERE class = ?2 ORDER BY n DESC LIMIT 1)"
	       " ORDER BY id LIMIT ?1)")
Q(AUDIT_LIST, "SELECT " AUDIT_COLUMNS " FROM audit WHERE id < ?1 ORDER BY id DESC LIMIT ?2")
Q(AUDIT_LIST_OWN, "SELECT " AUDIT_COLUMNS " FROM audit WHERE actor = ?3 AND id < ?1"
		  " ORDER BY id DESC LIMIT ?2")

#define CELL_COLUMNS                                                                               \
	"seq, run, owner, sandbox, started_ms, bytes, code, out, err, value, meta,"                \
	" (SELECT name FROM notebook_names n WHERE n.owner = cells.owner AND n.sandbox = "         \
	"cells.sandbox), " PLACE
Q(NOTEBOOK_NAME,
  "INSERT INTO notebook_names SELECT ?1, ?2, ?3 WHERE EXISTS(SELECT 1 FROM cells WHERE owner = ?1"
  " AND sandbox = ?2) ON CONFLICT(owner, sandbox) DO UPDATE SET name = excluded.name")
Q(CELL_ADD,
  "INSERT INTO cells(run, owner, sandbox, started_ms, bytes, code, out, err, value, meta, place)"
  " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, nullif(?11, ''))")
Q(DRAFT_PUT,
  "INSERT INTO cell_drafts(run, owner, sandbox, started_ms, bytes, code, out, err, value, meta, "
  "region)"
  " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT(owner, sandbox, run) DO UPDATE"
  " SET started_ms = ?4, bytes = ?5, code = ?6, out = ?7, err = ?8, value = ?9, meta = ?10")
Q(DRAFT_DROP, "DELETE FROM cell_drafts WHERE owner = ?1 AND sandbox = ?2 AND run = ?3")
Q(DRAFT_COUNT, "SELECT count(*) FROM cell_drafts")
Q(DRAFT_KEEP,
  "INSERT INTO cells(run, owner, sandbox, started_ms, bytes, code, out, err, value, meta)"
  " SELECT run, owner, sandbox, started_ms, bytes, code, out, err, value, meta"
  " FROM cell_drafts WHERE region = ?1 ORDER BY id")
Q(DRAFT_DROP_ALL, "DELETE FROM cell_drafts WHERE region = ?1")
Q(CELL_LAST, "SELECT coalesce(max(seq), 0) FROM cells")
Q(CELL_KNOWN, "SELECT EXISTS(SELECT 1 FROM cells WHERE owner = ?1 AND sandbox = ?2)"
	      " OR EXISTS(SELECT 1 FROM sandboxes WHERE owner = ?1 AND id = ?2)")
Q(CELL_WRITTEN,
  "SELECT coalesce(max(seq), 0) FROM cells WHERE owner = ?1 AND sandbox = ?2 AND run = ?3"
  " AND " IS_MARKDOWN)
Q(CELL_CHANGE,
  "UPDATE cells SET bytes = bytes - " BYTES_OF("code") " + ?3, code = ?2 WHERE seq = ?1")
Q(CELL_FILE_PUT,
  "INSERT INTO cell_files VALUES(?1, ?2, ?3) ON CONFLICT(cell, name) DO UPDATE SET data = ?3")
Q(CELL_OVER, "SELECT n > ?2 OR bytes > ?3 FROM cell_sums WHERE owner = ?1")
Q(CELL_ALL_OVER, "SELECT coalesce(sum(bytes), 0) > ?1 FROM cell_sums")
Q(CELL_DROP_OLDEST, "DELETE FROM cells WHERE seq = (SELECT min(seq) FROM cells WHERE owner = ?1)")
Q(CELL_DROP_OF_LARGEST, "DELETE FROM cells WHERE seq = (SELECT min(seq) FROM cells WHERE owner ="
			" (SELECT owner FROM cell_sums ORDER BY bytes DESC LIMIT 1))")
Q(CELL_REMOVE,
  "DELETE FROM cells WHERE seq IN (SELECT seq FROM cells WHERE owner = ?1 AND sandbox = ?2"
  " AND seq <= ?3 LIMIT ?4)")
Q(CELL_REMOVE_ONE, "DELETE FROM cells WHERE owner = ?1 AND sandbox = ?2 AND run = ?3")
Q(CELL_GET, "SELECT " CELL_COLUMNS " FROM cells WHERE owner = ?1 AND sandbox = ?2 AND run = ?3"
	    " ORDER BY seq DESC LIMIT 1")
#define PLACED " FROM cells WHERE owner = ?1 AND sandbox = ?2 AND " PLACE
L(CELL_UP, "SELECT " CELL_COLUMNS PLACED " > ?3 ORDER BY " PLACE)
L(CELL_UP_FROM, "SELECT " CELL_COLUMNS PLACED " >= ?3 ORDER BY " PLACE)
L(CELL_BACK, "SELECT " CELL_COLUMNS PLACED " < ?3 ORDER BY " PLACE " DESC")
Q(PLACE_NEXT, "SELECT " PLACE PLACED " > ?3 ORDER BY " PLACE " LIMIT 1")
Q(PLACE_LAST, "SELECT " PLACE PLACED " < ?3 ORDER BY " PLACE " DESC LIMIT 1")
Q(PLACE_OF_RUN,
  "SELECT " PLACE
  " FROM cells WHERE owner = ?1 AND sandbox = ?2 AND run = ?3 ORDER BY seq DESC LIMIT 1")
Q(PLACE_OF_SEQ, "SELECT " PLACE " FROM cells WHERE owner = ?1 AND sandbox = ?2 AND seq = ?3")
L(CELL_DOWN, "SELECT " CELL_COLUMNS " FROM cells WHERE owner = ?1 AND sandbox = ?2 AND seq < ?3"
	     " ORDER BY seq DESC")
L(CELL_DOWN_ALL,
  "SELECT " CELL_COLUMNS " FROM cells WHERE owner = ?1 AND seq < ?2 ORDER BY seq DESC")
Q(CELL_AT, "SELECT " CELL_COLUMNS " FROM cells WHERE seq = ?1")
Q(CELL_FILE_GET, "SELECT data FROM cell_files WHERE cell = ?1 AND name = ?2")
Q(NOTEBOOK_LIST, "SELECT sandbox, min(started_ms), max(started_ms), count(*), sum(bytes), max(seq)"
		 " FROM cells WHERE owner = ?1 GROUP BY sandbox HAVING max(seq) < ?2"
		 " ORDER BY max(seq) DESC LIMIT ?3")

/* A sign-in that was made a day or more in the future was made while the clock was wrong; it could last for years.
 * The oldest one is the one with the smallest rowid: the clock may have been set back since. */
Q(SIGNIN_ADD, "INSERT INTO signins VALUES(?1, ?2, nullif(?3, ''), ?4, ?5, ?6)")
Q(SIGNIN_FIND, "SELECT id, coalesce(\"user\", ''), key, expires_ms FROM signins WHERE digest = ?1"
	       " AND expires_ms > ?2 AND created_ms < ?2 + 86400000")
Q(SIGNIN_GET, "SELECT id, coalesce(\"user\", ''), key, expires_ms FROM signins WHERE id = ?1"
	      " AND expires_ms > ?2 AND created_ms < ?2 + 86400000")
Q(SIGNIN_REMOVE, "DELETE FROM signins WHERE id = ?1")
Q(SIGNIN_REMOVE_ALL, "DELETE FROM signins WHERE coalesce(\"user\", '') = ?1")
Q(SIGNIN_PRUNE, "DELETE FROM signins WHERE expires_ms <= ?1")
Q(SIGNIN_KEEP,
  "DELETE FROM signins WHERE coalesce(\"user\", '') = ?1 AND key = ?2 AND id NOT IN (SELECT id"
  " FROM signins WHERE coalesce(\"user\", '') = ?1 AND key = ?2"
  " ORDER BY rowid DESC LIMIT ?3)")

/* What removed users left. */
#define DEPARTED "(SELECT owner FROM departed)"
Q(DEPARTED_HAS, "SELECT count(*) FROM departed WHERE owner = ?1")
Q(DEPARTED_ANY, "SELECT count(*) FROM departed")
Q(DEPARTED_RUNS,
  "DELETE FROM runs WHERE seq IN (SELECT seq FROM runs WHERE owner IN " DEPARTED " LIMIT ?1)")
Q(DEPARTED_CELLS,
  "DELETE FROM cells WHERE seq IN (SELECT seq FROM cells WHERE owner IN " DEPARTED " LIMIT ?1)")
Q(DEPARTED_DRAFTS, "DELETE FROM cell_drafts WHERE owner IN " DEPARTED)
Q(DEPARTED_USAGE, "DELETE FROM usage WHERE owner IN " DEPARTED)
Q(DEPARTED_SUMS, "DELETE FROM cell_sums WHERE owner IN " DEPARTED)
Q(DEPARTED_DONE, "DELETE FROM departed WHERE at_ms < ?1")
/* Rows of the loop's copy of a PostgreSQL database (replica_rows.c): read there, put here. A row that is there is changed and not
 * replaced: what refers to it would go. */
#define USER_ROW                                                                                   \
	"id, name, email, hash, role, active, created_ms, quota_sandboxes, quota_cpu_s, "          \
	"quota_disk, quota_runs"
L(COPY_USERS, "SELECT " USER_ROW " FROM users ORDER BY rowid")
Q(COPY_USER, "SELECT " USER_ROW " FROM users WHERE id = ?1")
Q(COPY_USER_PUT, "INSERT INTO users(" USER_ROW
		 ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT(id)"
		 " DO UPDATE SET name = ?2, email = ?3, hash = ?4, role = ?5, active = ?6, "
		 "created_ms = ?7, quota_sandboxes = ?8,"
		 " quota_cpu_s = ?9, quota_disk = ?10, quota_runs = ?11")
#define KEY_ROW "id, \"user\", name, hint, digest, scope, profile, created_ms, expires_ms, used_ms"
L(COPY_KEYS, "SELECT " KEY_ROW " FROM keys ORDER BY rowid")
Q(COPY_KEY, "SELECT " KEY_ROW " FROM keys WHERE id = ?1")
Q(COPY_KEY_PUT, "INSERT INTO keys(" KEY_ROW
		") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT(id) DO UPDATE"
		" SET \"user\" = ?2, name = ?3, hint = ?4, digest = ?5, scope = ?6, profile = ?7, "
		"created_ms = ?8, expires_ms = ?9,"
		" used_ms = ?10")
#define INVITATION_ROW "id, digest, role, note, created_ms, expires_ms"
L(COPY_INVITATIONS, "SELECT " INVITATION_ROW " FROM invitations ORDER BY rowid")
Q(COPY_INVITATION, "SELECT " INVITATION_ROW " FROM invitations WHERE id = ?1")
Q(COPY_INVITATION_PUT,
  "INSERT INTO invitations(" INVITATION_ROW ") VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT(id)"
  " DO UPDATE SET digest = ?2, role = ?3, note = ?4, created_ms = ?5, expires_ms = ?6")
#define SIGNIN_ROW "id, digest, \"user\", key, created_ms, expires_ms"
L(COPY_SIGNINS, "SELECT " SIGNIN_ROW " FROM signins ORDER BY rowid")
Q(COPY_SIGNIN, "SELECT " SIGNIN_ROW " FROM signins WHERE id = ?1")
Q(COPY_SIGNIN_PUT,
  "INSERT INTO signins(" SIGNIN_ROW ") VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT(id)"
  " DO UPDATE SET digest = ?2, \"user\" = ?3, key = ?4, created_ms = ?5, expires_ms = ?6")
L(COPY_METAS, "SELECT key, value FROM meta ORDER BY key")
Q(COPY_META, "SELECT key, value FROM meta WHERE key = ?1")
Q(COPY_META_DROP, "DELETE FROM meta WHERE key = ?1")
L(AUDIT_ALL, "SELECT id, at_ms, actor, action, object, result, detail, peer, class, who, count "
	     "FROM audit ORDER BY id")
Q(AUDIT_COPY,
  "INSERT INTO audit(id, at_ms, actor, action, object, result, detail, peer, class, who, count)"
  " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")
Q(META_COUNT, "SELECT count(*) FROM meta")
Q(AUDIT_COUNT, "SELECT count(*) FROM audit")
Q(COPY_EPOCH, "UPDATE credentials SET epoch = ?1")
#undef PLACE
#undef BYTES_OF
#undef IS_MARKDOWN
#undef SAME
