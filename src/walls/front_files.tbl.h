/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the front, by Landlock, where the kernel has it. Only what is opened after the start
 * counts: settings, scripts, listeners and the log are open by then.
 *
 *   F(place, path, rights, why)   place: what PATH stands below: ROOT (nothing), STATE (the state
 *                                 folder), STORE (the database), LOG (the log's folder), SOCKET (that
 *                                 of the server's socket), WHEELS (an operator's folder of wheels)
 *                                 rights: READ (with execute: libraries), WRITE, DEVICE
 * A path that is not there is left out. */
F(ROOT, "/usr", READ, "libraries that are loaded late, time zones, certificates")
F(ROOT, "/lib", READ, "libraries")
F(ROOT, "/lib64", READ, "libraries")
F(ROOT, "/etc", READ, "names of hosts, certificates, time zone")
F(ROOT, "/run/systemd/resolve", READ, "what /etc/resolv.conf may point to")
F(ROOT, "/run/systemd/journal", READ, "the log's socket")
F(ROOT, "/proc/self", READ, "itself")
F(ROOT, "/proc/sys", READ, "what the kernel is set to")
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
F(STORE, "", WRITE, "the database; its files are there by then")
F(STORE, "-wal", WRITE, "the database's log")
F(STORE, "-shm", WRITE, "the database's index of that")
F(STORE, "-journal", WRITE, "the database's journal")
F(STATE, "/packages", WRITE, "the cache of packages")
F(LOG, "", WRITE, "the log when it is begun anew")
F(WHEELS, "", READ, "what is installed where there is no index")
F(SOCKET, "", WRITE, "taking the server's socket away at the end")
