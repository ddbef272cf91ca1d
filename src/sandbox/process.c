/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/process.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/manager.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_SIZE 4096u /* of what keeps a stream; it doubles */
/* One page: the kernel bounds the pages of all pipes of the front, pipe(7). The rest of the input waits here. */
#define PIPE_BYTES 4096
#define WORKSPACE  "/mnt/data"

struct stream {
	char *data;           /* owned: a ring of SIZE bytes, the newest LEN of them are used */
	size_t size, len, at; /* AT: where the next byte goes */
	uint64_t total;
	struct budget_share share;
};

struct process {
	struct list node;          /* of sandbox.processes */
	unsigned refs;             /* one of the list, one of the engine while it lives */
	struct sandbox *sandbox;   /* reference while it lives */
	struct engine_run *handle; /* NULL: it has ended */
	char id[PROCESS_ID_SIZE];
	char name[PROCESS_NAME_MAX + 1];
	char *command;
	struct stream out, err;
	int input;         /* -1 = none, or closed */
	bool last;         /* nothing follows what is in UNREAD */
	struct buf unread; /* input for which the pipe has no room */
	struct budget_share unread_share;
	sd_event_source *room; /* tells when it has; NULL: nothing is unread */
	struct budget_share share;
	struct list watches;
	struct err failure;
	struct engine_run_result end;
	uint64_t started_ms, started_ns;
	void *credential; /* reference while it lives, or NULL */
};

/* ---- output ---- */

static struct stream *stream_of(struct process *p, enum engine_stream s)
{
	return s == ENGINE_STDERR ? &p->err : &p->out;
}

static void stream_done(struct stream *k)
{
	free(k->data);
	k->data = NULL;
	k->size = k->len = 0;
	budget_give(&k->share);
}

/* The output of the oldest process of the sandbox that has ended is forgotten. False: there is none. */
static bool give_up_output(struct sandbox *s)
{
	list_for_each(l, &s->processes) {
		struct process *p = list_entry(l, struct process, node);

		if (p->handle || p->out.size + p->err.size == 0)
			continue;
		stream_done(&p->out);
		stream_done(&p->err);
		return true;
	}
	return false;
}

/* Without memory or budget the ring stays as large as it is. */
static void grow(struct process *p, struct stream *k, size_t wanted)
{
	size_t size = MAX(k->size, (size_t)FIRST_SIZE);
	struct err e = ERR_INIT;
	int r;

	while (size < wanted && size < PROCESS_OUTPUT_MAX)
		size *= 2;
	if (size == k->size)
		return;
	do
		r = budget_take(p->sandbox->manager->config.budgets, p->sandbox->owner,
				BUDGET_KEPT_BYTES, size, &k->share, &e);
	while (r == -EDQUOT && give_up_output(p->sandbox));
	if (r < 0)
		return;
	char *data = malloc(size);
	if (!data) {
		if (k->size > 0)
			budget_note(p->sandbox->manager->config.budgets, p->sandbox->owner,
				    BUDGET_KEPT_BYTES, k->size, &k->share);
		else
			budget_give(&k->share);
		return;
	}
	const size_t begin = k->size > 0 ? (k->at + k->size - k->len) % k->size : 0;
	const size_t first = MIN(k->len, k->size - begin);
	if (k->len > 0) {
		memcpy(data, k->data + begin, first);
		memcpy(data + first, k->data, k->len - first);
	}
	free(k->data);
	k->data = data;
	k->size = size;
	k->at = k->len % size;
}

static void keep(struct process *p, struct stream *k, const char *data, size_t len)
{
	k->total += len;
	if (k->len + len > k->size)
		grow(p, k, k->len + len);
	if (len > k->size) {
		data += len - k->size;
		len = k->size;
	}
	k->len = MIN(k->len + len, k->size);
	while (len > 0) {
		const size_t n = MIN(len, k->size - k->at);

		memcpy(k->data + k->at, data, n);
		k->at = (k->at + n) % k->size;
		data += n;
		len -= n;
	}
}

int process_output(const struct process *p, enum engine_stream stream, uint64_t from, size_t max,
		   struct buf *b, uint64_t *ret_from, uint64_t *ret_next)
{
	const struct stream *k = stream == ENGINE_STDERR ? &p->err : &p->out;
	const uint64_t oldest = k->total - k->len;
	const uint64_t begin = MIN(MAX(from, oldest), k->total);
	size_t len = (size_t)MIN(k->total - begin, max);
	_cleanup_free_ char *text = len > 0 ? malloc(len) : NULL;

	*ret_from = *ret_next = begin;
	if (len == 0)
		return 0;
	if (!text)
		return -ENOMEM;
	const size_t start = (k->at + k->size - (size_t)(k->total - begin)) % k->size;
	const size_t first = MIN(len, k->size - start);
	memcpy(text, k->data + start, first);
	memcpy(text + first, k->data, len - first);
	/* The rest of a character is there soon, or with the next call. */
	if (p->handle || begin + len < k->total)
		len -= text_utf8_open(text, len);
	*ret_next = begin + len;
	return text_add_utf8_lossy(b, text, len);
}

/* ---- input ---- */

static void all_read(struct process *p)
{
	p->room = sd_event_source_disable_unref(p->room);
	buf_done(&p->unread);
	budget_give(&p->unread_share);
}

static void close_input(struct process *p)
{
	all_read(p);
	p->input = fd_close(p->input);
}

/* Writes as much as there is room for. -EPIPE: it does not read any more. */
static int flush(struct process *p)
{
	while (p->unread.len > 0) {
		/* SIGPIPE is ignored in the front. */
		const ssize_t n = write(p->input, p->unread.data, p->unread.len);

		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		buf_consume(&p->unread, n < 0 ? 0 : (size_t)n);
	}
	all_read(p);
	if (p->last)
		close_input(p);
	return 0;
}

static int on_room(sd_event_source *source UNUSED, int fd UNUSED, uint32_t revents UNUSED,
		   void *user)
{
	struct process *p = user;

	loop_work("process", "input");
	if (flush(p) < 0)
		close_input(p);
	return 0;
}

/* Takes DATA, all of it or nothing. */
static int add_input(struct process *p, const void *data, size_t len, struct err *e)
{
	struct manager *m = p->sandbox->manager;
	int r = budget_take(m->config.budgets, p->sandbox->owner, BUDGET_RUN_INPUT,
			    p->unread.len + len, &p->unread_share, e);

	if (r < 0)
		return r;
	if (!p->room)
		r = sd_event_add_io(m->config.loop, &p->room, p->input, EPOLLOUT, on_room, p);
	r = r < 0 ? r : buf_add(&p->unread, data, len);
	if (r < 0) {
		if (p->unread.len == 0)
			all_read(p);
		return err_set(e, ERR_OUT_OF_MEMORY, -r, "input of process %s", p->id);
	}
	return 0;
}

/* ---- life ---- */

struct process *process_ref(struct process *p)
{
	p->refs++;
	return p;
}

struct process *process_unref(struct process *p)
{
	if (!p || --p->refs > 0)
		return NULL;
	stream_done(&p->out);
	stream_done(&p->err);
	close_input(p);
	free(p->command);
	free(p);
	return NULL;
}

struct manager *process_manager(const struct process *p)
{
	return p->sandbox->manager;
}

static void tell(struct process *p)
{
	struct process_watch *w;
	struct list told;

	(void)process_ref(p);
	/* Answering one client may end the wait of another one, so no place in the list is remembered. */
	list_init(&told);
	while ((w = list_first(&p->watches, struct process_watch, node))) {
		list_remove(&w->node);
		list_append(&told, &w->node);
		w->fn(w);
	}
	while ((w = list_first(&told, struct process_watch, node))) {
		list_remove(&w->node);
		list_append(&p->watches, &w->node);
	}
	(void)process_unref(p);
}

void process_watch(struct process *p, struct process_watch *w)
{
	list_append(&p->watches, &w->node);
}

void process_unwatch(struct process_watch *w)
{
	list_remove(&w->node);
}

static void on_output(struct engine_run *handle UNUSED, enum engine_stream s, const void *data,
		      size_t len, void *user)
{
	struct process *p = user;

	keep(p, stream_of(p, s), data, len);
	tell(p);
}

static void on_done(struct engine_run *handle UNUSED, const struct engine_run_result *res,
		    const struct err *e, void *user)
{
	struct process *p = user;
	struct sandbox *s = p->sandbox;
	const struct manager_ledger *ledger = &s->manager->ledger;

	p->handle = NULL;
	if (p->credential)
		s->manager->credentials.unref(TAKE_PTR(p->credential));
	close_input(p);
	budget_give(&p->share);
	s->n_processes--;
	if (res)
		p->end = *res;
	else
		p->failure = *e;
	p->end.duration_ns = now_ns() - p->started_ns;
	LOG_INFO("process_end", LOG_S("session_id", s->id), LOG_S("process_id", p->id));
	if (ledger->note_work && res)
		ledger->note_work(ledger->user, s, "process", p->end.duration_ns,
				  res->cpu_before_ns);
	sandbox_forget_inventory(s);
	sandbox_touch(s);
	tell(p);
	(void)process_unref(p);
	(void)sandbox_unref(s);
}

static void forget(struct process *p)
{
	list_remove(&p->node);
	(void)process_unref(p);
}

/* Room for one more; the bound is above that of those that live. */
static void make_room(struct sandbox *s)
{
	unsigned n = 0;
	struct process *oldest = NULL;

	list_for_each(l, &s->processes) {
		struct process *p = list_entry(l, struct process, node);

		n++;
		if (!oldest && !p->handle)
			oldest = p;
	}
	if (n >= PROCESSES_MAX && oldest)
		forget(oldest);
}

/* Those of the sandbox, then Q's: the last of two with one name counts. */
static size_t add_env(const struct sandbox *s, const struct process_request *q, const char **ret)
{
	const char *own[SANDBOX_RUN_ENV_MAX];
	const char *const *env = sandbox_run_env(s, own);
	size_t n = 0;

	for (size_t i = 0; env && env[i]; i++) {
		const size_t len = strcspn(env[i], "=") + 1;
		bool other = false;
		for (size_t k = 0; q->env && q->env[k]; k++)
			other = other || strncmp(q->env[k], env[i], len) == 0;
		if (!other)
			ret[n++] = env[i];
	}
	for (size_t k = 0; q->env && q->env[k] && k < PROCESS_ENV_MAX; k++)
		ret[n++] = q->env[k];
	ret[n] = NULL;
	return n;
}

static int start(struct process *p, struct engine_sandbox *handle, const struct process_request *q,
		 struct err *e)
{
	const struct sandbox *s = p->sandbox;
	const char *env[SANDBOX_RUN_ENV_MAX + PROCESS_ENV_MAX + 1];
	char place[SANDBOX_PLACE_MAX + sizeof(WORKSPACE)];
	int pipes[2] = {-1, -1};

	if (q->cwd && strlen(q->cwd) >= SANDBOX_PLACE_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "cwd is longer than %u bytes",
			       SANDBOX_PLACE_MAX - 1u);
	if (q->cwd)
		(void)snprintf(place, sizeof(place), "%s%s", q->cwd[0] == '/' ? "" : WORKSPACE "/",
			       q->cwd);
	if (q->input && pipe2(pipes, O_CLOEXEC) < 0)
		return err_set(e, ERR_TOO_MANY_FILES, errno, "standard input of a process");
	_cleanup_fd_ int reader = pipes[0];
	p->input = pipes[1];
	if (p->input >= 0)
		(void)fcntl(p->input, F_SETPIPE_SZ, PIPE_BYTES);
	if (p->input >= 0 && (fd_set_nonblock(p->input, true) < 0 || fchmod(reader, 0444) < 0))
		return err_set(e, ERR_SYSTEM, errno, "standard input of a process");
	const struct engine_run_spec spec = {
	    .kind = ENGINE_RUN_BACKGROUND,
	    .argv = q->argv,
	    .env = add_env(s, q, env) > 0 ? env : NULL,
	    .cwd = q->cwd ? place : sandbox_workdir(s),
	    .make_cwd = !q->cwd && sandbox_workdir(s),
	    .stdin_fd = reader,
	    .timeout_ns = q->timeout_ns,
	    .grace_ns = s->manager->config.grace_ns,
	    .on_output = on_output,
	    .on_done = on_done,
	    .user = p,
	};
	return engine_run(handle, &spec, &p->handle, e);
}

static struct process *make(struct sandbox *s, const struct process_request *q)
{
	struct process *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->command =
	    strndup(q->command, text_utf8_cut(q->command, strlen(q->command), PROCESS_COMMAND_MAX));
	if (!p->command) {
		free(p);
		return NULL;
	}
	p->refs = 1;
	p->input = -1;
	buf_init(&p->unread, PROCESS_INPUT_MAX);
	p->sandbox = s;
	list_init(&p->watches);
	list_init(&p->node);
	(void)snprintf(p->id, sizeof(p->id), "p%u", ++s->last_process);
	(void)!text_copy(p->name, sizeof(p->name), q->name ? q->name : "");
	p->started_ms = now_wall_ns() / NS_PER_MS;
	p->started_ns = now_ns();
	return p;
}

int sandbox_start_process(struct sandbox *s, const struct process_request *q, struct process **ret,
			  struct err *e)
{
	const struct manager_ledger *ledger = &s->manager->ledger;
	int r = ledger->admit_work ? ledger->admit_work(ledger->user, s, e) : 0;

	if (r < 0)
		return r;
	if (s->seized)
		return sandbox_check_free(s, e);
	struct engine_sandbox *handle = sandbox_use(s, e);
	if (!handle)
		return -ENOENT;
	if (s->policy.limits.pids > 0 && s->n_processes >= s->policy.limits.pids)
		return err_set(e, ERR_QUOTA_EXCEEDED, 0,
			       "The sandbox has %u background processes, and its limit is %u "
			       "processes and threads. End some, or choose a higher limit "
			       "(processes).",
			       s->n_processes, s->policy.limits.pids);
	make_room(s);
	struct process *p = make(s, q);
	if (!p)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a process in session %s", s->id);
	r = budget_take(s->manager->config.budgets, s->owner, BUDGET_PROCESSES, 1, &p->share, e);
	r = r < 0 ? r : start(p, handle, q, e);
	if (r < 0) {
		budget_give(&p->share);
		(void)process_unref(p);
		return r;
	}
	LOG_INFO("process_start", LOG_S("session_id", s->id), LOG_S("process_id", p->id));
	(void)sandbox_ref(s);
	p->refs++;
	if (q->credential && s->manager->credentials.ref)
		p->credential = s->manager->credentials.ref(q->credential);
	list_append(&s->processes, &p->node);
	s->n_processes++;
	s->used = s->keeps = true;
	*ret = p;
	return 0;
}

/* ---- calls ---- */

struct process *sandbox_find_process(const struct sandbox *s, const char *id, struct err *e)
{
	list_for_each(l, &s->processes) {
		struct process *p = list_entry(l, struct process, node);

		if (streq(p->id, id))
			return p;
	}
	(void)err_set(e, ERR_NOT_FOUND, 0, "The sandbox has no process %s", id);
	return NULL;
}

void sandbox_each_process(const struct sandbox *s, void (*fn)(struct process *p, void *user),
			  void *user)
{
	list_for_each(l, &s->processes)
		fn(list_entry(l, struct process, node), user);
}

void process_look(const struct process *p, struct process_facts *ret)
{
	static const enum run_reason reasons[] = {
	    [ENGINE_END_EXITED] = RUN_EXITED,       [ENGINE_END_SIGNALED] = RUN_SIGNALED,
	    [ENGINE_END_TIMEOUT] = RUN_TIMEOUT,     [ENGINE_END_OOM] = RUN_OOM,
	    [ENGINE_END_OUTPUT] = RUN_OUTPUT_LIMIT, [ENGINE_END_DISK] = RUN_DISK_LIMIT,
	    [ENGINE_END_KILLED] = RUN_CANCELLED,    [ENGINE_END_LOST] = RUN_LOST,
	};

	*ret = (struct process_facts){
	    .id = p->id,
	    .name = p->name,
	    .command = p->command,
	    .running = p->handle,
	    .has_input = p->input >= 0 && !p->last,
	    .failure = p->failure,
	    .reason = reasons[p->end.end],
	    .exit_code = p->end.exit_code,
	    .signal = p->end.signal,
	    .killed = p->end.killed,
	    .cpu_ns = p->end.cpu_ns,
	    .peak_bytes = p->end.peak_bytes,
	    .started_ms = p->started_ms,
	    .duration_ns = p->handle ? now_ns() - p->started_ns : p->end.duration_ns,
	    .total = {p->out.total, p->err.total},
	};
}

int process_signal(struct process *p, int signo, struct err *e)
{
	const int r = p->handle ? engine_signal(p->handle, signo) : 0;

	/* ESRCH: it has ended, and its end is on the way. */
	return r < 0 && r != -ESRCH ? err_set(e, ERR_SYSTEM, -r, "the signal cannot be sent") : 0;
}

int process_write(struct process *p, const void *data, size_t len, bool close, struct err *e)
{
	int waiting = 0;

	if (p->input < 0 || p->last)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       p->handle
				   ? "The standard input of process %s is closed, or was never open"
				   : "Process %s has ended",
			       p->id);
	if (ioctl(p->input, FIONREAD, &waiting) < 0)
		waiting = PIPE_BYTES;
	if (len > 0 && (size_t)waiting + p->unread.len + len > PROCESS_INPUT_MAX)
		return err_set(e, ERR_SERVER_BUSY, 0,
			       "Process %s has %zu bytes of input to read yet; at most %u can wait",
			       p->id, (size_t)waiting + p->unread.len, PROCESS_INPUT_MAX);
	int r = len > 0 ? add_input(p, data, len, e) : 0;
	if (r < 0)
		return r;
	p->last = close;
	r = flush(p);
	if (r < 0) {
		close_input(p);
		return err_set(e, ERR_INVALID_ARGUMENT, -r,
			       "Process %s does not read its standard input any more", p->id);
	}
	return 0;
}

void process_forget(struct process *p)
{
	struct err e = ERR_INIT;

	(void)!process_signal(p, SIGKILL, &e);
	forget(p);
}

void process_end_revoked(struct process *p, void *user)
{
	bool (*const *revoked)(const void *) = user;
	struct err e = ERR_INIT;

	if (p->credential && (*revoked)(p->credential))
		(void)!process_signal(p, SIGKILL, &e);
}

void processes_forget_all(struct sandbox *s)
{
	struct process *p;

	while ((p = list_first(&s->processes, struct process, node)))
		forget(p);
}
