/* SPDX-License-Identifier: Apache-2.0 */
/* Reaps children and tells the file that each one belongs to. A hash table finds the sandbox of a pid, so
 * that reaping costs the same for any number of sandboxes. Each bucket is a chain through the sandboxes
 * (sandbox.pid_next), and a sandbox can be in two chains: for its maker and for its init. */
#include "base/rand.h"
#include "engine/maker/native/monitor/monitor.h"
#include "engine/maker/native/monitor/workspace_store.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

enum { CHAIN_MAKER = 0, CHAIN_INIT = 1 };

/* A link of a chain is slot * 2 + kind + 1; 0 is the end. */
static uint32_t link_of(uint32_t slot, int kind)
{
	return slot * 2 + (uint32_t)kind + 1;
}

static pid_t *pid_of(struct monitor *m, uint32_t link)
{
	struct monitor_sandbox *b = &m->sandboxes[(link - 1) / 2];

	return (link - 1) % 2 == CHAIN_INIT ? &b->init : &b->maker;
}

static uint32_t *next_of(struct monitor *m, uint32_t link)
{
	return &m->sandboxes[(link - 1) / 2].pid_next[(link - 1) % 2];
}

int reap_init(struct monitor *m)
{
	uint32_t size = 64;

	while (size < m->config->max_sandboxes * 2)
		size *= 2;
	m->pid_table = calloc(size, sizeof(*m->pid_table));
	m->pid_mask = size - 1;
	return m->pid_table ? 0 : -ENOMEM;
}

void reap_watch(struct monitor *m, uint32_t slot, bool init)
{
	uint32_t link = link_of(slot, init ? CHAIN_INIT : CHAIN_MAKER);
	uint32_t *head = &m->pid_table[(uint32_t)*pid_of(m, link) & m->pid_mask];

	*next_of(m, link) = *head;
	*head = link;
}

/* Takes PID out of the table. Returns its link; 0 = it is not there. */
static uint32_t take(struct monitor *m, pid_t pid)
{
	for (uint32_t *at = &m->pid_table[(uint32_t)pid & m->pid_mask]; *at; at = next_of(m, *at)) {
		uint32_t link = *at;
		if (*pid_of(m, link) != pid)
			continue;
		*at = *next_of(m, link);
		*pid_of(m, link) = 0;
		return link;
	}
	return 0;
}

bool reap_is_early(struct monitor *m, pid_t pid)
{
	for (uint32_t i = 0; i < m->n_early; i++) {
		if (m->early[i] != pid)
			continue;
		m->early[i] = m->early[--m->n_early];
		return true;
	}
	return false;
}

static int note_early(struct monitor *m, pid_t pid)
{
	if (m->n_making == 0)
		return 0; /* an orphan: we are its subreaper, prctl(2) */
	if (m->n_early == EARLY_MAX)
		return -ENOBUFS;
	m->early[m->n_early++] = pid;
	return 0;
}

int reap_children(struct monitor *m)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		uint32_t link = take(m, pid);
		uint32_t slot = (link - 1) / 2;
		if (link == 0 && (zygote_reaped(m, pid) || session_disk_dropped(m, pid) ||
				  monitor_sandbox_kept(m, pid, status) || space_reaped(m, pid) ||
				  monitor_disk_kept(m, pid, status) || workspace_swept(m, pid))) {
			continue;
		} else if (link == 0) {
			if (note_early(m, pid) < 0)
				return -ENOBUFS;
		} else if ((link - 1) % 2 == CHAIN_MAKER) {
			monitor_sandbox_made(m, slot, status);
		} else {
			monitor_sandbox_gone(m, slot);
		}
		if (m->n_making == 0)
			m->n_early = 0;
	}
	return 0;
}

static void kill_all(struct monitor *m)
{
	remover_kill(&m->sweep, false);
	if (m->space.worker > 0)
		(void)kill(m->space.worker, SIGKILL);
	if (m->space.returner > 0)
		(void)kill(m->space.returner, SIGKILL);
	for (uint32_t i = 0; i < m->config->max_sandboxes; i++) {
		const struct monitor_sandbox *b = &m->sandboxes[i];
		if (b->maker > 0)
			(void)kill(b->maker, SIGKILL);
		if (b->init > 0)
			(void)kill(b->init, SIGKILL);
	}
}

/* Makers, inits, zygotes, sweeps, those who drop disks, and orphans of all of these. */
static bool has_child(void)
{
	siginfo_t what;

	return waitid(P_ALL, 0, &what, WEXITED | WNOHANG | WNOWAIT) == 0;
}

void reap_all(struct monitor *m)
{
	uint64_t end = now_ns() + END_WAIT_MS * NS_PER_MS;
	struct pollfd p = {.fd = m->signals, .events = POLLIN};
	struct signalfd_siginfo seen;

	m->ending = true;
	for (size_t i = 0; i < IMAGES_MAX; i++)
		zygote_stop(m, &m->templates[i]);
	for (uint32_t i = 0; i < m->config->max_sandboxes; i++)
		if (m->sandboxes[i].state == SANDBOX_LIVE)
			session_disk_drop(m, &m->sandboxes[i]);
	/* Whoever started the server may not reap what is left when the monitor has ended. And while a process
	 * of a sandbox is left, its control group cannot be removed. */
	while (has_child() && now_ns() < end) {
		kill_all(m);
		(void)poll(&p, 1, 5);
		while (read(m->signals, &seen, sizeof(seen)) == sizeof(seen))
			; /* else poll() would not wait */
		if (reap_children(m) < 0)
			return;
	}
}
