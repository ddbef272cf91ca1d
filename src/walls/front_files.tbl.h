/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the front, by Landlock, where the kernel has it. They are those that the front opens after
 * its start; settings, scripts, listeners and the log are open by then. A missing path is skipped.
 *
 *   F(place, path, rights, why)
 *     place    what PATH is appended to: ROOT (nothing), STATE (the state folder), STORE (the path of the
 *              database), LOG (the folder of the log), SOCKET (the folder of the server's socket), WHEELS
 *              (the operator's folder of wheels), ACCOUNT (the account of a router's pod)
 *     rights   READ (includes execute, for libraries), WRITE, DEVICE */
F(ROOT, "/usr", READ, "libraries that are loaded late, time zones, certificates")
F(ROOT, "/lib", READ, "libraries")
F(ROOT, "/lib64", READ, "libraries")
F(ROOT, "/etc", READ, "host names, certificates, time zone")
F(ROOT, "/run/systemd/resolve", READ, "what /etc/resolv.conf may point to")
F(ACCOUNT, "", READ, "a router shows it to the API server of Kubernetes; no other server may read it")
F(ROOT, "/run/systemd/journal", READ, "the log's socket")
F(ROOT, "/proc/self", READ, "facts about itself")
F(ROOT, "/proc/sys", READ, "settings of the kernel")
F(ROOT, "/proc/meminfo", READ, "libraries")
F(ROOT, "/proc/stat", READ, "libraries")
F(ROOT, "/proc/cpuinfo", READ, "libraries")
F(ROOT, "/proc/version", READ, "doctor's facts")
F(ROOT, "/proc/filesystems", READ, "doctor's facts")
F(ROOT, "/sys", READ, "control groups and their counters, CPUs")
F(ROOT, "/dev/null", DEVICE, "output that nobody wants")
F(ROOT, "/dev/urandom", DEVICE, "libraries")
F(ROOT, "/dev/random", DEVICE, "libraries")
F(STATE, "", READ, "images and their manifests")
F(STATE, "/images", READ, "images, if their folder is a link to another place")
F(STORE, "", WRITE, "the database; its files exist by then")
F(STORE, "-wal", WRITE, "the database's log")
F(STORE, "-shm", WRITE, "the index of the database's log")
F(STORE, "-journal", WRITE, "the database's journal")
F(STATE, "/packages", WRITE, "the cache of packages")
F(LOG, "", WRITE, "the log, when a new file is begun")
F(WHEELS, "", READ, "wheels, which are installed where there is no package index")
F(SOCKET, "", WRITE, "removing the server's socket at the end")
