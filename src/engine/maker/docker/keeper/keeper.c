/* SPDX-License-Identifier: Apache-2.0 */
/* Start, loop and end of the keeper. */
#include "engine/maker/docker/keeper/keeper.h"

#include "base/fdio.h"
#include "base/parent.h"
#include "base/rand.h"
#include "base/text.h"
#include "walls/confine.h"
#include "walls/filter.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define TURN_MS    1000 /* the longest wait, so that deadlines are looked at */
#define END_NS     (15 * NS_PER_S)
#define FRONT_UID  UINT32_C(1879113727) /* as the native engine's: no account has it */
#define LISTEN_MAX 4096

void keeper_send(struct keeper *k, const struct proto_head *frame, int *fds, size_t n)
{
	if (!k->closing && parent_send(k->channel, k->front, frame, frame->size, fds, n) < 0)
		k->closing = true;
}

/* ---- loop ---- */

static unsigned gather(struct keeper *k, struct curl_waitfd *fds, struct docker_sandbox **who,
		       uint64_t now)
{
	unsigned n = 0;

	fds[n++] = (struct curl_waitfd){.fd = k->channel, .events = CURL_WAIT_POLLIN};
	if (k->front >= 0) {
		who[n] = NULL;
		fds[n++] = (struct curl_waitfd){.fd = k->front, .events = CURL_WAIT_POLLIN};
	}
	for (uint32_t i = 0; i < k->config->max_sandboxes; i++) {
		struct docker_sandbox *b = &k->sandboxes[i];
		docker_sandbox_tick(b, now);
		if (b->listener < 0 || n == LISTEN_MAX)
			continue;
		who[n] = b;
		fds[n++] = (struct curl_waitfd){.fd = b->listener, .events = CURL_WAIT_POLLIN};
	}
	return n;
}

static void loop(struct keeper *k)
{
	static struct curl_waitfd fds[LISTEN_MAX];
	static struct docker_sandbox *who[LISTEN_MAX];

	while (!k->closing) {
		const uint64_t now = now_ns();
		leftovers_tick(k, now);
		orphans_tick(k, now);
		remover_look(&k->remover);
		const unsigned n = gather(k, fds, who, now);
		daemon_wait(k->daemon, fds, n, TURN_MS);
		/* An answer of the daemon may have changed a sandbox meanwhile. */
		for (unsigned i = 1; i < n; i++)
			if (fds[i].revents && !who[i])
				k->closing = true;
			else if (fds[i].revents && who[i]->listener == fds[i].fd)
				docker_sandbox_connected(who[i]);
		if (fds[0].revents && keeper_take(k) < 0)
			k->closing = true;
	}
}

/* The front has ended: every container goes, also those that were to be asked for again later. */
static void end_all(struct keeper *k)
{
	const uint64_t until = now_ns() + END_NS;
	bool left = true;

	k->closing = true;
	for (uint32_t i = 0; i < k->config->max_sandboxes; i++)
		docker_sandbox_destroy(k, i);
	while (left && now_ns() < until) {
		left = false;
		for (uint32_t i = 0; i < k->config->max_sandboxes; i++) {
			docker_sandbox_tick(&k->sandboxes[i], now_ns());
			left = left || k->sandboxes[i].state != SANDBOX_FREE;
		}
		if (left)
			daemon_wait(k->daemon, NULL, 0, TURN_MS / 10);
	}
	leftovers_hurry(k);
	while ((k->n_leftovers > 0 || daemon_is_asked(k->daemon)) && now_ns() < until) {
		leftovers_tick(k, now_ns());
		daemon_wait(k->daemon, NULL, 0, TURN_MS / 10);
	}
}

/* ---- start ---- */

static int start_files(struct keeper *k, struct err *e)
{
	_cleanup_free_ struct filter_program *filter = calloc(1, sizeof(*filter));
	int liveness[2];

	if (!filter || !(k->profile = profile_json()))
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the system call filter");
	int r = filter_compile(&filter_run, 0, filter, e);
	if (r < 0)
		return r;
	k->filter = fd_sealed_memfd("filter", filter->insn, filter->n * sizeof(filter->insn[0]));
	if (k->filter < 0)
		return err_set(e, ERR_SYSTEM, -k->filter, "the system call filter");
	if (pipe2(liveness, O_CLOEXEC) < 0)
		return err_set(e, ERR_SYSTEM, errno, "the liveness pipe");
	k->liveness_read = liveness[0];
	k->liveness_write = liveness[1];
	return 0;
}

static int start_sandboxes(struct keeper *k, struct err *e)
{
	k->sandboxes = calloc(k->config->max_sandboxes, sizeof(*k->sandboxes));
	if (!k->sandboxes)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "keeper");
	for (uint32_t i = 0; i < k->config->max_sandboxes; i++) {
		struct docker_sandbox *b = &k->sandboxes[i];
		b->slot = i;
		b->keeper = k;
		b->listener = b->channel = b->lock = -1;
		b->memory = b->memory_stat = b->cpu = b->pids = -1;
	}
	return 0;
}

static int start(struct keeper *k, struct err *e)
{
	int r = daemon_new(k->config, &k->daemon, e);

	r = r < 0 ? r : about_ask(k->daemon, k->config, &k->about, e);
	r = r < 0 ? r : keeper_id_take(k, e);
	r = r < 0 ? r : start_files(k, e);
	r = r < 0 ? r : parts_make(k, e);
	r = r < 0 ? r : start_sandboxes(k, e);
	r = r < 0 ? r : confine_keeper(k->folder, k->config->certs, e);
	if (r < 0)
		return r;
	(void)snprintf(k->stored, sizeof(k->stored), "%s/stored", k->folder);
	k->remover.folder = k->stored;
	remover_start(&k->remover); /* what an earlier keeper has left */
	orphans_remove(k);
	return 0;
}

static uint32_t levels_of(const struct keeper *k)
{
	uint32_t bits = 0;

	for (unsigned i = 0; i < k->config->levels.n; i++)
		if (k->about.level[i] == DOCKER_RUNTIME_GOOD)
			bits |= UINT32_C(1) << i;
	return bits;
}

static void say_hello(struct keeper *k, const struct err *e)
{
	struct proto_mon_hello h = {
	    .head = PROTO_HEAD(MON_HELLO, proto_mon_hello),
	    .version = PROTO_VERSION,
	    .enforced = k->about.enforced,
	    .best_effort = k->about.best_effort,
	    .slots = k->config->max_sandboxes,
	    .levels = levels_of(k),
	    .front_uid = geteuid() == 0 ? FRONT_UID : 0,
	    .err_code = e->code,
	    .errnum = e->errnum,
	};

	(void)!text_copy(h.runtime, sizeof(h.runtime), k->about.runtime);
	(void)!text_copy(h.cgroup, sizeof(h.cgroup), k->about.cgroup);
	(void)snprintf(h.text, sizeof(h.text), "%.*s", (int)sizeof(h.text) - 1, e->text);
	keeper_send(k, &h.head, NULL, 0);
}

int keeper_main(const struct keeper_config *config)
{
	static struct keeper k;
	struct err e = ERR_INIT;
	int type;
	socklen_t len = sizeof(type);

	k.config = config;
	k.channel = KEEPER_FD;
	k.front = parent_watch();
	k.lock = k.filter = -1;
	list_init(&k.changes);
	if (getsockopt(k.channel, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_SEQPACKET) {
		(void)fprintf(stderr,
			      "caisson keeper: it is started by the other verbs, not by hand\n");
		return err_code_exit(ERR_USAGE);
	}
	(void)umask(022);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)prctl(PR_SET_NAME, "caisson-keeper", 0, 0, 0);
	int r = start(&k, &e);
	say_hello(&k, &e);
	if (r == 0) {
		loop(&k);
		end_all(&k);
	}
	remover_kill(&k.remover, true);
	keeper_id_drop(&k);
	k.daemon = daemon_free(k.daemon);
	limits_close(&k);
	free(k.profile);
	free(k.sandboxes);
	free(k.leftovers);
	return r < 0 ? err_code_exit(e.code) : 0;
}
