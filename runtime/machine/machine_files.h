/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of files that a sandbox does not have: its own limits and processes in the words of proc(5). They are written in
 * any program of a sandbox, in the middle of what it does: no locks, no state, and errno may change. */
#pragma once

/* Opens PATH for reading, past the functions that this library replaces. -1 with errno set. */
int machine_open(const char *path);
unsigned machine_processors(void);

/* Each writes a text to FD. What cannot be asked is left out. */
void machine_cpu_list(int fd); /* "0-3" */
void machine_cpuinfo(int fd);
void machine_loadavg(int fd);
void machine_meminfo(int fd);
void machine_stat(int fd);
void machine_uptime(int fd);
void machine_version(int fd);
