/* SPDX-License-Identifier: Apache-2.0 */
/* Terminals of background processes: terminal.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

bool terminal_is_size(uint32_t rows, uint32_t columns);
int terminal_open(uint32_t rows,
		  uint32_t columns); /* its master, or -errno; ENOSPC: there are too many */
/* A descriptor, or -errno. ROOT: the root user owns the terminal, so that no other user reads what is typed there. */
int terminal_slave(int master, bool root);
void terminal_resize(int master, uint32_t rows, uint32_t columns);
struct terminal_ends {
	int master, slave;
	int input, output; /* pipes of the front; INPUT -1 = none */
};
/* Passes bytes on until REAP says that no child is left. REAP is called first, and after each SIGCHLD, which is blocked. */
void terminal_relay(const struct terminal_ends *t, bool (*reap)(void *user), void *user);
