/* SPDX-License-Identifier: Apache-2.0 */
/* What host_probe_run() tries in a child process, in this order. A failure is reported, and the tries
 * that do not depend on it go on. NEEDED = without it no sandbox can be made.
 *   P(NAME, needed, "the text that doctor shows") */
P(USERNS, true, "user namespace")
P(MAPS, true, "id maps")
P(MOUNTNS, true, "mount namespace")
P(NETNS, true, "network namespace")
P(IPCNS, true, "ipc namespace")
P(UTSNS, true, "uts namespace")
P(CGROUPNS, true, "cgroup namespace")
P(PIDNS, true, "pid namespace")
P(PRIVATE, true, "private mounts")
P(TMPFS, true, "tmpfs with size and inode limit")
P(OVERLAY, true, "overlay")
P(PROC, true, "/proc with subset=pid")
P(DEVPTS, true, "private devpts")
P(LOOPBACK, true, "loopback interface")
P(PIVOT, true, "pivot_root")
