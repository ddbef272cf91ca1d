/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/process_parts.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/manager.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_SIZE 4096u /* of what keeps a stream; it doubles */
#define WORKSPACE  "/mnt/data"
/* Of a terminal, unless a client says another one: what the terminals of browsers and most others understand. */
#define TERMINAL_ENV "TERM=xterm-256color"

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

	const size_t most = p->rows > 0 || p->paced ? PROCESS_TERMINAL_MAX : PROCESS_OUTPUT_MAX;
	while (size < wanted && size < most)
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

size_t process_bytes(const struct process *p, enum engine_stream stream, uint64_t from, size_t max,
		     char *ret, uint64_t *ret_from)
{
	const struct stream *k = stream == ENGINE_STDERR ? &p->err : &p->out;
	const uint64_t begin = MIN(MAX(from, k->total - k->len), k->total);
	const size_t len = (size_t)MIN(k->total - begin, max);

	*ret_from = begin;
	if (len == 0)
		return 0;
	const size_t start = (k->at + k->size - (size_t)(k->total - begin)) % k->size;
	const size_t first = MIN(len, k->size - start);
	memcpy(ret, k->data + start, first);
	memcpy(ret + first, k->data, len - first);
	return len;
}

int process_output(const struct process *p, enum engine_stream stream, uint64_t from, size_t max,
		   struct buf *b, uint64_t *ret_from, uint64_t *ret_next)
{
	const struct stream *k = stream == ENGINE_STDERR ? &p->err : &p->out;
	const size_t most = MIN(max, k->len);
	/* Of a terminal, whose clients see more, REST and tools tell no more than of other processes. */
	const uint64_t newest = k->total - MIN(k->len, (size_t)PROCESS_OUTPUT_MAX);
	_cleanup_free_ char *text = most > 0 ? malloc(most) : NULL;

	*ret_from = *ret_next = MIN(MAX(from, newest), k->total);
	if (most == 0)
		return 0;
	if (!text)
		return -ENOMEM;
	size_t len = process_bytes(p, stream, *ret_from, most, text, ret_from);
	/* The rest of a character is there soon, or with the next call. */
	if (p->handle || *ret_from + len < k->total)
		len -= text_utf8_open(text, len);
	*ret_next = *ret_from + len;
	return text_add_utf8_lossy(b, text, len);
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
	process_close_input(p);
	free(p->command);
	free(p);
	return NULL;
}

struct manager *process_manager(const struct process *p)
{
	return p->sandbox->manager;
}

void process_tell(struct process *p)
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
	p->paced = p->paced || w->paced;
}

void process_pace(struct process *p)
{
	bool hold = false;

	list_for_each(l, &p->watches) {
		const struct process_watch *w = list_entry(l, struct process_watch, node);

		hold = hold || (w->paced && (p->out.total - w->at[0] > PROCESS_AHEAD ||
					     p->err.total - w->at[1] > PROCESS_AHEAD));
	}
	if (hold == p->held || !p->handle)
		return;
	p->held = hold;
	engine_hold_output(p->handle, hold);
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
	if (p->paced)
		process_pace(p);
	process_tell(p);
}

static void on_done(struct engine_run *handle UNUSED, const struct engine_run_result *res,
		    const struct err *e, void *user)
{
	struct process *p = user;
	struct sandbox *s = p->sandbox;
	const struct manager_accounting *accounting = &s->manager->accounting;

	p->handle = NULL;
	if (p->credential)
		s->manager->credentials.unref(TAKE_PTR(p->credential));
	process_close_input(p);
	p->resize = sd_event_source_disable_unref(p->resize);
	budget_give(&p->share);
	s->n_processes--;
	if (res)
		p->end = *res;
	else
		p->failure = *e;
	p->end.duration_ns = now_ns() - p->started_ns;
	LOG_INFO("process_end", LOG_S("session_id", s->id), LOG_S("process_id", p->id));
	if (accounting->note_work && res)
		accounting->note_work(accounting->user, s, "process", p->end.duration_ns,
				      res->cpu_before_ns);
	sandbox_forget_inventory(s);
	sandbox_touch(s);
	process_tell(p);
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
	bool named = false;
	size_t n = 0;

	while (sandbox_env_with(s, q->env, ret) && ret[n])
		n++;
	for (size_t k = 0; k < n; k++)
		named = named || text_starts_with(ret[k], "TERM=");
	if (q->rows > 0 && !named)
		ret[n++] = TERMINAL_ENV;
	ret[n] = NULL;
	return n;
}

static int start(struct process *p, struct engine_sandbox *handle, const struct process_request *q,
		 struct err *e)
{
	const struct sandbox *s = p->sandbox;
	const char *env[SANDBOX_RUN_ENV_MAX + PROCESS_ENV_MAX + 2];
	char place[SANDBOX_PLACE_MAX + sizeof(WORKSPACE)];
	int pipes[2] = {-1, -1};

	if (q->cwd && strlen(q->cwd) >= SANDBOX_PLACE_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "cwd is longer than %u bytes",
			       SANDBOX_PLACE_MAX - 1u);
	if (q->cwd)
		(void)snprintf(place, sizeof(place), "%s%s", q->cwd[0] == '/' ? "" : WORKSPACE "/",
			       q->cwd);
	if ((q->input || q->rows > 0) && pipe2(pipes, O_CLOEXEC) < 0)
		return err_set(e, ERR_TOO_MANY_FILES, errno, "standard input of a process");
	_cleanup_fd_ int reader = pipes[0];
	p->input = pipes[1];
	if (p->input >= 0)
		(void)fcntl(p->input, F_SETPIPE_SZ, PROCESS_PIPE_BYTES);
	if (p->input >= 0 && (fd_set_nonblock(p->input, true) < 0 || fchmod(reader, 0444) < 0))
		return err_set(e, ERR_SYSTEM, errno, "standard input of a process");
	const struct engine_run_spec spec = {
	    .kind = ENGINE_RUN_BACKGROUND,
	    .argv = q->argv,
	    .env = add_env(s, q, env) > 0 ? env : NULL,
	    .root = q->root,
	    .cwd = q->cwd ? place : sandbox_workdir(s),
	    .make_cwd = !q->cwd && sandbox_workdir(s),
	    .stdin_fd = reader,
	    .timeout_ns = q->timeout_ns,
	    .rows = q->rows,
	    .columns = q->columns,
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
	p->rows = p->set_rows = q->rows;
	p->columns = p->set_columns = q->columns;
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
	const struct manager_accounting *accounting = &s->manager->accounting;
	int r = accounting->admit_work ? accounting->admit_work(accounting->user, s, e) : 0;

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
	r = r < 0 ? r : sandbox_check_root(s, q->root, e);
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
	    .rows = p->rows,
	    .columns = p->columns,
	};
}

int process_signal(struct process *p, int signo, struct err *e)
{
	const int r = p->handle ? engine_signal(p->handle, signo) : 0;

	/* ESRCH: it has ended, and its end is on the way. */
	return r < 0 && r != -ESRCH ? err_set(e, ERR_SYSTEM, -r, "the signal cannot be sent") : 0;
}

int process_freeze(struct process *p, bool frozen, struct err *e)
{
	const int r = p->handle ? engine_freeze(p->handle, frozen) : 0;

	return r < 0 && r != -ESRCH ? err_set(e, ERR_SYSTEM, -r, "a process cannot be stopped") : 0;
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
