/* SPDX-License-Identifier: Apache-2.0 */
/* What the root user of a sandbox may do, as capabilities of the sandbox's own user namespace. They hold over files and
 * processes of that sandbox alone, capabilities(7). Whatever mounts, the network, devices or other processes' memory are,
 * is left out.
 *   C(capability, RUN, why)   RUN: 1 = its programs have it; 0 = init alone */
/* clang-format off */
C(CHOWN, 1, "owners of files: apt, dpkg, tar")
C(DAC_OVERRIDE, 1, "files of the sandbox's other users")
C(FOWNER, 1, "permissions and times of these files")
C(FSETID, 1, "set-group-id bits, which the mounts ignore")
C(KILL, 1, "processes of the sandbox's other users; init needs it to end a run")
C(SETGID, 1, "becoming another user of the sandbox: su, apt's own user")
C(SETUID, 1, "becoming another user of the sandbox: su, apt's own user")
C(NET_BIND_SERVICE, 1, "ports below 1024 of the sandbox's own network")
C(SYS_PTRACE, 0, "reading in /proc who listens on which port")
C(SYS_RESOURCE, 0, "reading the marks of processes (background_owner.c), which are resource limits")
