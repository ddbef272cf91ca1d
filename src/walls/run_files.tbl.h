/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a run, by Landlock: what it may do below which path. A missing path is skipped.
 *
 *   L(path, rights, why)   rights: READ, WRITE, DEVICE, TERMINAL (landlock.c says what they mean) */
L("/", READ, "the image and the read-only mounts: read, list, execute")
L("/tmp", WRITE, "scratch")
L("/mnt/data", WRITE, "the workspace")
L("/app/results", WRITE, "the workspace under its other name (a mount of the same folder)")
L("/home/user", WRITE, "the same under the name that is the home of clients of E2B")
L("/app/.venv", WRITE, "packages that were installed into the sandbox")
L("/home/sandbox", WRITE, "caches and settings of libraries")
L("/dev/shm", WRITE, "POSIX shared memory and semaphores: multiprocessing")
L("/dev/null", DEVICE, "device")
L("/dev/zero", DEVICE, "device")
L("/dev/full", DEVICE, "device")
L("/dev/random", DEVICE, "device")
L("/dev/urandom", DEVICE, "device")
L("/dev/tty", TERMINAL, "the session's own terminal")
L("/dev/ptmx", TERMINAL, "terminals that a run makes: pty, pexpect")
L("/dev/pts", TERMINAL, "as /dev/ptmx, which may be a link to pts/ptmx")
