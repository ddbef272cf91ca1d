/* SPDX-License-Identifier: Apache-2.0 */
/* The table of budgets: what clients can use up. The array of bounds, the names in SANDBOX_BUDGETS,
 * the figures in /api/v1/me and /api/v1/stats, and docs/budgets.md are made from it.
 *
 * B(NAME, "word", "unit", each, total, stranger, "meaning")
 *   each      the most that one user gets, whatever is free
 *   total     all users together; an eighth of it is the reserve for administrators. 0: a setting of its
 *             own says it
 *   stranger  the most that one network address gets before its clients are identified; 0 = what a user
 *             gets */
#define MIB (INT64_C(1) << 20)

B(CONNECTIONS, "connections", "connections", 4096, 0, 512,
  "connections over HTTP; the total is SANDBOX_MAX_CONNECTIONS, and SANDBOX_MAX_CONNECTIONS_PER_ADDRESS holds "
  "for a network address")
B(STREAMS, "streams", "streams", 256, 4096, 0,
  "event streams that wait for news: GET /mcp, /sse, subscriptions/listen")
B(MCP_SESSIONS, "mcp_sessions", "sessions", 1024, 16384, 0,
  "MCP sessions and SSE connections; at the bound a user's session that was idle longest makes room")
B(SUBSCRIPTIONS, "subscriptions", "resources", 1024, 4096, 0,
  "resources whose changes a client wants to be told")
B(MESSAGE_MEMORY, "message_memory", "bytes", 12 * MIB, 40 * MIB, MIB,
  "memory of requests that have not arrived completely, and of messages at work")
B(MESSAGE_FILES, "message_files", "bytes", 256 * MIB, 512 * MIB, 0,
  "long strings of messages that have not arrived completely or are at work, and results of edits; they are kept in "
  "files in memory")
B(ANSWER_MEMORY, "answer_memory", "bytes", 16 * MIB, 48 * MIB, 4 * MIB,
  "answers that clients have not read, here and in the buffers of the kernel, and room for those that are being made; "
  "a user over the bound gets no further request through")
B(KEPT_BYTES, "kept_bytes", "bytes", 8 * MIB, 32 * MIB, 0,
  "answers that are kept for later: events of MCP streams, output of runs over REST, answers with an "
  "Idempotency-Key; over the bound they are not kept")
B(SECRET_MEMORY, "secret_memory", "bytes", 8 * MIB, 24 * MIB, 0,
  "memory of what finds the secrets of sandboxes; over the bound the history of a run is kept without code and output")
B(TASKS, "tasks", "tasks", 128, 1024, 0,
  "background tasks of MCP; at the bound the oldest task of the user that has ended makes room")
B(TASK_RESULTS, "task_results", "bytes", 12 * MIB, 32 * MIB, 0,
  "results of background tasks; at the bound the oldest of the user make room")
B(SANDBOXES, "sandboxes", "sandboxes", 100000, 0, 0,
  "sandboxes that are not stored; the total is SANDBOX_MAX_SESSIONS")
B(ACTIVE_STORED, "active_stored", "active stored sandboxes", 100000, 0, 0,
  "stored sandboxes that are active; the total is SANDBOX_STORED_MAX_ACTIVE; at the bound the user's that was idle "
  "longest is deactivated")
B(PROCESSES, "processes", "background processes", 96, 256, 0, "background processes that have not ended")
B(PORT_REQUESTS, "port_requests", "requests", 128, 512, 0,
  "requests to ports of sandboxes that have not been answered to the end, and WebSockets to them; in the router of a fleet all "
  "requests to workers, 1024 and 8192, of which a list of sandboxes counts once for each worker")
B(PUBLIC_REQUESTS, "public_requests", "requests", 64, 256, 0,
  "the same of people who are not the owner, to public ports of the user's sandboxes; one network address gets at most a quarter "
  "of what the user gets")
B(QUEUED_RUNS, "queued_runs", "runs", 64, 1024, 0, "runs that wait for a busy sandbox")
B(RUN_INPUT, "run_input", "bytes", 32 * MIB, 96 * MIB, 0,
  "text for standard input: of runs that wait or are at work, and what background processes have not read yet")
B(FOLLOWERS, "followers", "streams", 64, 1024, 0, "clients that follow a run (GET …/events), wait for a background process, or are attached to a terminal")
B(WATCHERS, "watchers", "watches", 32, 256, 0,
  "watches of the files and ports of sandboxes: GET …/sandboxes/{id}/events, and one for each sandbox with files that MCP clients "
  "have subscribed to")
B(INSTALLATIONS, "installations", "jobs", 32, 512, 0,
  "installations, removals and lists of packages that wait or work")
B(ARCHIVES, "archives", "archives", 4, 16, 0, "folders that are being sent as one file")
B(IDEMPOTENCY_KEYS, "idempotency_keys", "keys", 128, 2048, 0,
  "requests with an Idempotency-Key that are remembered; at the bound the user's oldest is forgotten")
B(UPLOAD_LINKS, "upload_links", "links", 32, 1024, 0,
  "links by which people upload files; at the bound the user's oldest ends, and if there are too many in all, the "
  "oldest of whoever has the most")
B(UPLOAD_MEMORY, "upload_memory", "bytes", 8 * MIB, 32 * MIB, 0,
  "bytes of uploads that wait until a thread has written them; over the bound the next bytes of the user are not read "
  "from the network until there is room")
B(KEYS, "keys", "keys", 256, 1048576, 0, "API keys that have not expired")

#undef MIB
