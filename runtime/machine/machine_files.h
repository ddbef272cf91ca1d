/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of files that a sandbox does not have: its own limits and processes in the words of proc(5). They are written in
 * any program of a sandbox, in the middle of what it does: no locks, no state, and errno may change. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Opens PATH for reading, past the functions that this library replaces. -1 with errno set. */
int machine_open(const char *path);
/* Is PATH, seen from the folder DIR, a file that this library makes? Changes errno. */
bool machine_makes(int dir, const char *path);
unsigned machine_processors(void);
unsigned machine_processors_limit(void); /* 0: none */
/* Bytes of the memory limit, or of what is left of it. */
uint64_t machine_memory(bool left);

/* Each writes a text to FD. What cannot be asked is left out. */
void machine_cpu_list(int fd); /* "0-3" */
void machine_cpuinfo(int fd);
/* The file NAME in the folder topology of processor CPU; false: there is none. FD -1: nothing is written. */
bool machine_topology(int fd, unsigned cpu, const char *name);
void machine_loadavg(int fd);
void machine_meminfo(int fd);
void machine_stat(int fd);
void machine_uptime(int fd);
void machine_version(int fd);
