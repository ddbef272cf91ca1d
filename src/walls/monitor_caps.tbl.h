/* SPDX-License-Identifier: Apache-2.0 */
/* The capabilities that a monitor which runs as root keeps. It drops all others for good.
 *   K(capability, why) */
K(CAP_SYS_ADMIN, "namespaces, mounts, joining them")
K(CAP_SETUID, "ids of sandboxes, the id maps of the namespaces")
K(CAP_SETGID, "ids of sandboxes, the id maps of the namespaces")
K(CAP_SETPCAP, "taking capabilities away")
K(CAP_CHOWN, "folders and control groups of sandboxes")
K(CAP_FOWNER, "folders of sandboxes")
K(CAP_FSETID, "folders of sandboxes")
K(CAP_DAC_OVERRIDE, "images and state that belong to another user")
K(CAP_DAC_READ_SEARCH, "images and state that belong to another user")
K(CAP_KILL, "killing sandboxes, which have other uids")
K(CAP_MKNOD, "device nodes of sandboxes")
K(CAP_SYS_CHROOT, "joining mount namespaces")
K(CAP_SYS_PTRACE, "joining the namespaces of a process that is not dumpable")
K(CAP_SYS_RESOURCE, "raising hard limits, lowering out-of-memory scores")
K(CAP_NET_ADMIN, "network namespaces of sandboxes that may reach the network")
K(CAP_SETFCAP, "id maps that contain root")
