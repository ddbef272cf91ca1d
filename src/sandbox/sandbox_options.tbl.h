/* SPDX-License-Identifier: Apache-2.0 */
/* What the creator of a sandbox may choose for it, besides its network.
 * O(NAME, "member", TYPE, min, max, LATER, "setting", "doc")
 *   NAME     SANDBOX_OPTION_NAME
 *   member   in the JSON of REST and tools
 *   TYPE     BOOL, INT, NUMBER (min and max in thousandths), TEXT (min and max in bytes), PAIRS (an object
 *            with texts as values; min and max: how many)
 *   LATER    1: can be changed while the sandbox lives
 *   setting  what decides the operator's maximum; NULL: there is none
 *   doc      for people and models
 * The bounds hold on every server. manager_check_options() checks what the operator permits. */
/* clang-format off */
O(NAME, "name", TEXT, 0, SANDBOX_NAME_MAX, 1, NULL, "a name for people; it need not be unique")
O(LABELS, "labels", PAIRS, 0, SANDBOX_LABELS_MAX, 1, NULL,
  "labels of your own, name to text; at most 16; null as a text removes one when they are changed")
O(IMAGE, "image", TEXT, 1, ENGINE_NAME_MAX - 1, 0, "SANDBOX_IMAGES",
  "the image that it is made from; missing: the server's")
O(LEVEL, "level", TEXT, 1, ENGINE_LEVEL_MAX, 0, "SANDBOX_LEVELS",
  "the level of isolation, one of those that the server names; missing: the server's")
O(ROOT, "root", BOOL, 0, 1, 0, "SANDBOX_ROOT",
  "true: it has a root user, for commands that install packages of the system; not in a stored sandbox")
O(MEMORY, "memory_mb", INT, 6, SANDBOX_MB_MAX, 1, "SANDBOX_MAX_MEMORY_LIMIT",
  "memory in MiB; in a session its files count, too")
O(CPUS, "cpus", NUMBER, 10, 1024000, 1, "SANDBOX_MAX_CPU_LIMIT", "CPU time in cores, such as 0.5 or 2")
O(PROCESSES, "processes", INT, 4, 1000000, 1, "SANDBOX_MAX_PIDS_LIMIT", "processes and threads")
O(DISK, "disk_mb", INT, 1, SANDBOX_MB_MAX, 0, "SANDBOX_MAX_WORKSPACE_LIMIT",
  "size of all its files in MiB")
O(TIMEOUT, "timeout_s", INT, 1, 604800, 1, "SANDBOX_MAX_TIMEOUT_S",
  "seconds that a run may take if the call does not say")
O(TTL, "ttl_s", INT, 1, 31536000, 1, "SANDBOX_MAX_TTL_M",
  "seconds without use after which a session is closed; a stored sandbox only stops its processes")
O(ENV, "env", PAIRS, 0, SANDBOX_ENV_MAX, 1, NULL,
  "environment variables of everything that runs in it; each value is kept secret: answers show "
  "only the names; null as a value removes one when they are changed")
O(WORKDIR, "workdir", TEXT, 1, SANDBOX_WORKDIR_MAX, 1, NULL,
  "the folder in which runs start: /mnt/data or a folder below it, made if it is missing")
O(PUBLIC, "public", BOOL, 0, 1, 1, "SANDBOX_PUBLIC_PORTS",
  "whether everybody who knows the address PORT-SANDBOX.DOMAIN reaches its ports, without a key")
