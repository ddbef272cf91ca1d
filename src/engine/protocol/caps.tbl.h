/* SPDX-License-Identifier: Apache-2.0 */
/* What makers of sandboxes can enforce, on a host that lets them.
 * C(NAME, bit, native, docker, "needs")
 *   native, docker  YES, NO: can the monitor, can the keeper do it on some host? What a maker says of its host counts only
 *                   where this says YES. Another maker is another column here.
 *   needs           for settings of the whole server: what there must be, and what to do without it; "" = no such setting
 * enum engine_cap, enum proto_cap, the refusal of settings that no maker enforces (app/limits.c) and a column of
 * docs/configuration.md are made from it. */
/* clang-format off */
/* memory and swap of the whole sandbox */
C(MEMORY, 0, YES, YES, "")
/* share of CPU time */
C(CPU, 1, YES, YES, "")
/* processes and threads */
C(PIDS, 2, YES, YES, "")
/* bytes and inodes of the workspace */
C(DISK, 3, YES, YES, "")
/* each sandbox has a host uid of its own */
C(OWN_UID, 4, YES, NO, "")
/* workspaces that outlive the sandbox, with a hard limit; best effort: without one */
C(PERSISTENT, 5, YES, NO, "")
/* forked interpreters */
C(WARM, 6, YES, YES, "")
/* workspaces of sessions are on disk, not in memory */
C(ON_DISK, 7, YES, NO,
  "the native engine, a server that root started, and loop devices; without them workspaces of sessions are in memory")
/* memory of all sandboxes together */
C(TOTAL, 8, YES, NO,
  "the native engine; remove it, and set SANDBOX_MEMORY_LIMIT and SANDBOX_MAX_SESSIONS instead")
/* sandboxes with a root user of their own */
C(ROOT, 9, YES, NO, "the native engine, a server that root started, and control groups for memory and processes")
/* runtimes of a container daemon, as the operator names them */
C(RUNTIME, 10, NO, YES,
  "a container daemon, which alone has runtimes; set SANDBOX_ENGINE=docker, or remove it")
/* clang-format on */
