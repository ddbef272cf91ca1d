/* SPDX-License-Identifier: Apache-2.0 */
/* Runs: sends INIT_RUN with its descriptors and reports the end. Timers of the front end a run that init
 * does not end. inside_output.c reads the output. */
#include "engine/front/inside/inside_output.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/walls.h"
#include "base/workers.h"
#include "engine/front/inside/inside.h"
#include "engine/front/inside/tail_reader.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define STATE_WAIT_NS (35 * NS_PER_S)
#define REPORT_MAX    (256u << 10) /* bytes of a command's report */
#define VALUE_MAX     (17u << 20)  /* bytes of a value's text; the interpreter keeps it below */
#define VALUE_PIECE   (256u << 10)
#define VALUE_APART                                                                                \
	(1u << 20) /* bytes of a result's file from which on threads read it, piece by piece */
#define RESULT_LARGE (4u << 20) /* bytes of a result's file that are not given back on the loop */
#define BACKSTOP_NS  (3 * NS_PER_S)
#define WAKE_NS                                                                                    \
	(30 * NS_PER_S) /* in which init gives a session whose process has died another one */

/* A large value on its way: init has said how the run ended, and nobody else knows yet. */
struct value_read {
	struct engine_run *run; /* NULL: it ended meanwhile, with its sandbox */
	int fd;
	uint32_t at;
	struct engine_run_result res;
	char payer[WORKERS_WHO_SIZE];
};

struct engine_run {
	struct engine_sandbox *s;
	uint32_t id;
	struct inside_output output;
	int result; /* stateful, notebook, report: memfd that the run writes its result to, else -1 */
	uint32_t result_max; /* bytes of it that are read */
	struct value_read *reading;
	sd_event_source *backstop; /* init should have ended the run long before */
	bool backstop_killed;
	bool lost; /* with its sandbox: it ends as lost, even if it is killed meanwhile */
	uint64_t started_ns;
	uint64_t timeout_ns, grace_ns;
	bool stateful;
	bool background; /* one of s->background, and not s->run */
	struct list node;
	uint64_t oom_before;
	uint64_t cpu_before_ns; /* of the sandbox, between its last run and this one */
	void (*on_done)(struct engine_run *, const struct engine_run_result *, const struct err *,
			void *);
	void *user;
};

/* ---- end ---- */

/* False: the text ends with these N bytes of the file. The callback may end the run. */
static bool deliver_piece(struct engine_run *r, const char *data, ssize_t n)
{
	const size_t len = n <= 0                      ? 0
			   : records_follow(r->result) ? records_text_in(data, (size_t)n)
						       : (size_t)n;

	if (len > 0)
		r->output.on_output(r, ENGINE_RESULT, data, len, r->user);
	return n > 0 && len == (size_t)n;
}

/* From AT on. The file is the sandbox's to write: its size and bytes are whatever it likes. */
static void deliver_result(struct engine_run *r, uint32_t at)
{
	_cleanup_free_ char *text = r->result >= 0 ? malloc(VALUE_PIECE) : NULL;
	ssize_t n = 0;

	if (!text || !r->output.on_output)
		return;
	for (bool more = true; more && at < r->result_max; at += (uint32_t)n) {
		n = pread(r->result, text, MIN(VALUE_PIECE, r->result_max - at), at);
		more = deliver_piece(r, text, n);
	}
}

/* A run may have filled it with all its memory, which takes tens of milliseconds to give back. */
static void close_result(int fd)
{
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_blocks >= RESULT_LARGE / 512)
		workers_close("results of runs", fd);
	else
		(void)fd_close(fd);
}

static void run_free(struct engine_run *r)
{
	inside_output_done(&r->output);
	r->backstop = sd_event_source_disable_unref(r->backstop);
	if (r->reading)
		r->reading->run = NULL;
	close_result(r->result);
	free(r);
}

/* What is left in the pipes, and what is shown. */
static void deliver_rest(struct engine_run *r, bool shown)
{
	inside_output_drain(&r->output);
	if (shown && r->output.on_record)
		records_take_rest(&r->output.records);
}

/* R leaves its sandbox before on_done, which may start another run. */
static void end_run(struct engine_run *r, struct engine_run_result *res, const struct err *e)
{
	struct engine_sandbox *s = r->s;

	if (res)
		memcpy(res->output_total, r->output.total, sizeof(res->output_total));
	if (r->background) {
		list_remove(&r->node);
		s->n_background--;
	} else if (s->run == r) {
		s->run = NULL;
	}
	r->s = NULL;
	inside_clean_again(s);
	inside_idle_note(s);
	r->on_done(r, res, e, r->user);
	run_free(r);
}

static void finish(struct engine_run *r, struct engine_run_result *res, const struct err *e)
{
	deliver_rest(r, res != NULL);
	if (res)
		deliver_result(r, r->reading ? r->reading->at : 0);
	end_run(r, res, e);
}

static void read_on(struct value_read *v);

static void on_piece(char *data, ssize_t n, void *user)
{
	_cleanup_free_ char *owned = data;
	struct value_read *v = user;
	struct engine_run *r = v->run;

	if (r && n < 0) { /* no thread takes it */
		deliver_result(r, v->at);
	} else if (r) {
		v->at += (uint32_t)n;
		if (deliver_piece(r, data, n) && v->run && v->at < r->result_max) {
			read_on(v);
			return;
		}
	}
	struct engine_run_result res = v->res;
	r = v->run;
	workers_close("results of runs", v->fd);
	free(v);
	if (r) {
		r->reading = NULL;
		end_run(r, &res, NULL);
	}
}

static void read_on(struct value_read *v)
{
	workers_read_some(v->payer, v->fd, v->at, MIN(VALUE_APART, v->run->result_max - v->at),
			  on_piece, v);
}

/* Reading 16 MiB takes 10 ms, so threads do, and a turn takes one piece. False: it is small, or there is no memory. */
static bool begin_reading(struct engine_run *r, const struct engine_run_result *res)
{
	struct stat st;

	if (r->result < 0 || !r->output.on_output || fstat(r->result, &st) < 0 ||
	    st.st_blocks < VALUE_APART / 512)
		return false;
	struct value_read *v = malloc(sizeof(*v));
	const int fd = v ? fd_dup(r->result) : -1;
	if (fd < 0) {
		free(v);
		return false;
	}
	*v = (struct value_read){.run = r, .fd = fd, .res = *res};
	(void)snprintf(v->payer, sizeof(v->payer), "%s", channel_payer(r->s->init));
	r->reading = v;
	r->backstop = sd_event_source_disable_unref(r->backstop);
	deliver_rest(r, true);
	read_on(v);
	return true;
}

static enum engine_end end_of(const struct engine_run *r, const struct proto_init_ended *m)
{
	bool oom_killed = m->end == PROTO_END_SIGNALED && m->value == SIGKILL &&
			  inside_oom_kills(r->s) > r->oom_before;

	if (m->flags & PROTO_ENDED_TIMEOUT)
		return ENGINE_END_TIMEOUT;
	if (m->flags & PROTO_ENDED_KILLED)
		return r->output.flooded ? ENGINE_END_OUTPUT : ENGINE_END_KILLED;
	if ((m->flags & PROTO_ENDED_OOM) || oom_killed)
		return ENGINE_END_OOM;
	if (m->flags & PROTO_ENDED_DISK)
		return ENGINE_END_DISK;
	return m->end == PROTO_END_SIGNALED ? ENGINE_END_SIGNALED : ENGINE_END_EXITED;
}

static struct engine_run *find_run(struct engine_sandbox *s, uint32_t id)
{
	list_for_each(n, &s->background) {
		struct engine_run *r = list_entry(n, struct engine_run, node);
		if (r->id == id)
			return r;
	}
	return s->run && s->run->id == id ? s->run : NULL;
}

/* Of the whole sandbox during R; of R alone if it is a background process. Then cpu_before_ns is what nobody has counted yet,
 * unless a run is on, which counts it. */
static uint64_t cpu_of(struct engine_run *r, uint64_t told_ns)
{
	struct engine_sandbox *s = r->s;
	uint64_t cpu_ns = told_ns;

	if (s->counters.cpu < 0)
		s->told_cpu_ns += told_ns;
	if (r->background && s->counters.cpu < 0)
		r->cpu_before_ns = told_ns;
	else if (r->background && !s->run)
		(void)inside_cpu_look(s, &r->cpu_before_ns);
	else if (!r->background)
		(void)inside_cpu_look(s, &cpu_ns);
	return cpu_ns;
}

int inside_run_ended(struct engine_sandbox *s, const struct proto_init_ended *m)
{
	struct engine_run *r = find_run(s, m->run);
	struct err e = ERR_INIT;

	if (!r || r->reading || m->end < PROTO_END_EXITED || m->end > PROTO_END_FAILED)
		return -EPROTO;
	if (m->value < 0 || m->value > (m->end == PROTO_END_SIGNALED ? 64
					: m->end == PROTO_END_EXITED ? 255
								     : 4095))
		return -EPROTO;
	if (m->end == PROTO_END_FAILED) {
		inside_start_failed(m->value, r->background, &e);
		finish(r, NULL, &e);
		return 0;
	}
	KILL_POINT(END_TAKEN);
	const uint64_t cpu_ns = cpu_of(r, m->cpu_ns);
	if (m->flags & PROTO_ENDED_SPENT)
		inside_clean_spent(s);
	const uint64_t peak = r->background ? 0 : inside_peak_bytes(s);
	struct engine_run_result res = {
	    .end = end_of(r, m),
	    .exit_code = m->end == PROTO_END_SIGNALED ? 128 + m->value : m->value,
	    .signal = m->end == PROTO_END_SIGNALED ? m->value : 0,
	    .warm = m->flags & PROTO_ENDED_WARM,
	    .named_end = m->flags & PROTO_ENDED_NAMED,
	    .state_lost = m->flags & PROTO_ENDED_LOST,
	    .state_kept = m->flags & PROTO_ENDED_KEPT,
	    .left = {.rests = m->flags & PROTO_ENDED_RESTS,
		     .gone = m->kinds & PROTO_KIND_ALL,
		     .late = {r->output.late[ENGINE_STDOUT], r->output.late[ENGINE_STDERR]}},
	    .duration_ns = m->duration_ns,
	    .cpu_ns = cpu_ns,
	    .cpu_before_ns = r->cpu_before_ns,
	    .peak_bytes = peak ? peak : m->max_rss,
	    .killed = m->killed,
	    .cell = m->flags & PROTO_ENDED_KEPT ? m->cell : 0,
	};
	inside_take_names(&res.left, m);
	if (!begin_reading(r, &res))
		finish(r, &res, NULL);
	return 0;
}

static void abort_run(struct engine_run *r, enum engine_end end, const struct err *e)
{
	struct engine_sandbox *s = r->s;
	uint64_t wall_ns = now_ns() - r->started_ns;
	const uint64_t rest_ns = !r->background ? inside_cpu_of_rest(s, wall_ns)
				 : s->run       ? 0
						: inside_cpu_take_rest(s);
	struct engine_run_result res = {
	    .end = r->lost ? ENGINE_END_LOST : end,
	    .exit_code = 128 + SIGKILL,
	    .signal = SIGKILL,
	    .duration_ns = wall_ns,
	    .cpu_ns = r->background ? 0 : rest_ns,
	    .cpu_before_ns = r->background ? rest_ns : r->cpu_before_ns,
	};
	if (r->reading)
		res = r->reading->res; /* it had ended before */
	finish(r, e ? NULL : &res, e);
}

void inside_run_abort(struct engine_sandbox *s, enum engine_end end, const struct err *e)
{
	struct engine_run *r;

	while ((r = list_first(&s->background, struct engine_run, node)))
		abort_run(r, end, e);
	if (s->run)
		abort_run(s->run, end, e);
}

static int on_backstop(sd_event_source *source, uint64_t at, void *user)
{
	struct engine_run *r = user;
	struct proto_init_signal k = {
	    .head = PROTO_HEAD(INIT_SIGNAL, proto_init_signal), .run = r->id, .signo = SIGKILL};

	if (r->lost) { /* the engine has not said what it used; go on without */
		inside_tell_loss(r->s);
		return 0;
	}
	if (r->backstop_killed) {
		inside_lose(r->s, "a run did not end");
		return 0;
	}
	r->backstop_killed = true;
	if (r->s->init)
		(void)!channel_send(r->s->init, &k.head, NULL, 0);
	(void)sd_event_source_set_time(source, at + (BACKSTOP_NS + (r->stateful ? WAKE_NS : 0)) /
							NS_PER_US);
	(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

static int arm_backstop(struct engine_run *r, uint64_t after_ns)
{
	if (!wall_stands(WALL_GRACE))
		return 0;
	uint64_t after_us = after_ns / NS_PER_US;

	r->backstop = sd_event_source_disable_unref(r->backstop);
	/* accuracy 0 would mean 250 ms (sd_event_add_time(3)) */
	return sd_event_add_time_relative(r->s->engine->loop, &r->backstop, CLOCK_MONOTONIC,
					  after_us, NS_PER_MS / NS_PER_US, on_backstop, r);
}

bool inside_run_lose(struct engine_sandbox *s)
{
	list_for_each(n, &s->background)
		list_entry(n, struct engine_run, node)->lost = true;
	if (!s->run || s->run->reading)
		return false;
	s->run->lost = true;
	return s->state == INSIDE_LOST && arm_backstop(s->run, BACKSTOP_NS) == 0;
}

int engine_signal(struct engine_run *r, int signo)
{
	if (!r->s || !r->s->init || r->reading)
		return -ESRCH;
	if (r->background ? signo < 1 || signo > PROTO_SIGNAL_MAX
			  : signo != SIGTERM && signo != SIGINT && signo != SIGKILL)
		return -EINVAL;
	struct proto_init_signal k = {
	    .head = PROTO_HEAD(INIT_SIGNAL, proto_init_signal), .run = r->id, .signo = signo};
	const bool ladder =
	    signo == SIGTERM && r->stateful; /* init kills it after the grace period */
	if ((signo == SIGKILL || ladder) && !r->backstop_killed) {
		int armed = arm_backstop(r, BACKSTOP_NS + (ladder ? r->grace_ns : 0) +
						(r->stateful ? WAKE_NS : 0));
		if (armed < 0)
			return armed;
		r->backstop_killed = signo == SIGKILL;
	}
	return channel_send(r->s->init, &k.head, NULL, 0);
}

int engine_freeze(struct engine_run *r, bool frozen)
{
	const struct proto_init_signal k = {.head = PROTO_HEAD(INIT_SIGNAL, proto_init_signal),
					    .run = r->id,
					    .signo =
						frozen ? PROTO_SIGNAL_FREEZE : PROTO_SIGNAL_THAW};

	return !r->s || !r->s->init ? -ESRCH : channel_send(r->s->init, &k.head, NULL, 0);
}

int engine_resize(struct engine_run *r, uint32_t rows, uint32_t columns)
{
	const struct proto_init_signal k = {.head = PROTO_HEAD(INIT_SIGNAL, proto_init_signal),
					    .run = r->id,
					    .rows = rows,
					    .columns = columns};

	ASSERT(rows >= 1 && rows <= ENGINE_TERMINAL_MAX && columns >= 1 &&
	       columns <= ENGINE_TERMINAL_MAX);
	return !r->s || !r->s->init ? -ESRCH : channel_send(r->s->init, &k.head, NULL, 0);
}

void engine_hold_output(struct engine_run *r, bool hold)
{
	inside_output_hold(&r->output, hold);
}

/* ---- start ---- */

static bool is_command(const struct engine_run_spec *spec)
{
	return spec->kind == ENGINE_RUN_ARGV ||
	       (spec->kind == ENGINE_RUN_BACKGROUND && !spec->code);
}

static int check_spec(const struct engine_sandbox *s, const struct engine_run_spec *spec,
		      struct err *e)
{
	int r = inside_check_ready(s, e);

	if (r < 0)
		return r;
	if (s->checkpoint.cb || (s->run && spec->kind != ENGINE_RUN_BACKGROUND))
		return err_set(e, ERR_SESSION_BUSY, EBUSY, "a run is in progress");
	if (spec->kind == ENGINE_RUN_STATEFUL && !s->warm)
		return err_set(e, ERR_WARM_OFF, 0,
			       "stateful runs need warm interpreters, and SANDBOX_WARM is off");
	ASSERT(spec->context < ENGINE_CONTEXTS_MAX &&
	       (spec->context == 0 || spec->kind == ENGINE_RUN_STATEFUL) &&
	       (!spec->root || (is_command(spec) && (s->policy.enforced & ENGINE_CAP_ROOT))));
	if (spec->rows > 0 && s->inward) {
		inside_start_failed(ENOTSUP, true, e);
		return -ENOTSUP;
	}
	if (is_command(spec) && (!spec->argv || !spec->argv[0]))
		return err_set(e, ERR_INVALID_ARGUMENT, EINVAL, "empty command");
	for (size_t i = 0; spec->env && spec->env[i]; i++)
		if (!strchr(spec->env[i], '=') || spec->env[i][0] == '=')
			return err_set(e, ERR_INVALID_ARGUMENT, EINVAL,
				       "environment: not NAME=VALUE");
	return 0;
}

/* The descriptors of INIT_RUN, in the order of proto.h. */
static int make_fds(struct engine_run *r, const struct engine_run_spec *spec,
		    struct proto_init_run *m, int fds[PROTO_FDS_MAX], size_t *n)
{
	struct inside_pipe *kept = r->stateful ? r->s->streams[spec->context] : NULL;
	if (spec->restarts) /* what the old session's processes wrote last is nobody's output */
		inside_streams_close(r->s, spec->context);
	int q = inside_output_pipe(&r->output, ENGINE_STDOUT, kept, &fds[*n]);

	if (q < 0)
		return q;
	(*n)++;
	q = inside_output_pipe(&r->output, ENGINE_STDERR, kept ? kept + 1 : NULL, &fds[*n]);
	if (q < 0)
		return q;
	(*n)++;
	q = inside_run_args(r->s, spec, m);
	if (q < 0)
		return q;
	fds[(*n)++] = q;
	if (!is_command(spec)) {
		q = fd_sealed_memfd("code", spec->code, spec->code_len);
		if (q < 0)
			return q;
		fds[(*n)++] = q;
		m->fds |= PROTO_RUN_CODE;
	}
	if (is_command(spec) ? spec->report && !r->background : r->stateful || spec->notebook) {
		r->result = (int)syscall(SYS_memfd_create, "result", MFD_CLOEXEC);
		q = r->result < 0 ? -errno : fd_dup(r->result);
		if (q < 0)
			return q;
		r->output.records.fd = r->result;
		fds[(*n)++] = q;
		m->fds |= PROTO_RUN_RESULT;
	}
	if (spec->stdin_fd >= 0) {
		q = fd_dup(spec->stdin_fd);
		if (q < 0)
			return q;
		fds[(*n)++] = q;
		m->fds |= PROTO_RUN_STDIN;
	}
	q = !is_command(spec) ? tail_make(&r->output.tail) : -1;
	if (q >= 0) { /* without one the run writes everything to the pipe */
		fds[(*n)++] = q;
		m->fds |= PROTO_RUN_TAIL;
	}
	return 0;
}

static const uint32_t run_kinds[] = {
    [ENGINE_RUN_PYTHON] = PROTO_RUN_PYTHON,
    [ENGINE_RUN_ARGV] = PROTO_RUN_ARGV,
    [ENGINE_RUN_STATEFUL] = PROTO_RUN_STATEFUL,
    [ENGINE_RUN_BACKGROUND] = PROTO_RUN_BACKGROUND,
};

static int start(struct engine_run *r, const struct engine_run_spec *spec)
{
	struct engine_sandbox *s = r->s;
	int fds[PROTO_FDS_MAX];
	size_t n = 0;
	struct proto_init_run m = {
	    .head = PROTO_HEAD(INIT_RUN, proto_init_run),
	    .run = r->id,
	    .kind = run_kinds[spec->kind],
	    .timeout_ns = spec->timeout_ns,
	    .grace_ns = spec->grace_ns,
	    .make_cwd = spec->make_cwd,
	    .restarts = spec->restarts,
	    .context = spec->context,
	    .root = spec->root,
	    .rows = spec->rows,
	    .columns = spec->columns,
	};
	if (!is_command(spec))
		m.python = (spec->display ? (uint32_t)PROTO_PYTHON_DISPLAY : 0U) |
			   (spec->notebook ? (uint32_t)PROTO_PYTHON_NOTEBOOK : 0U) |
			   (spec->errors ? (uint32_t)PROTO_PYTHON_ERRORS : 0U);
	bool stateful = spec->kind == ENGINE_RUN_STATEFUL;
	int q = make_fds(r, spec, &m, fds, &n);

	if (q < 0) {
		fd_close_many(fds, n);
		return q;
	}
	if (s->warm && (stateful || inside_run_can_be_warm(spec)))
		m.warm = inside_clean_for_run(s);
	r->oom_before = inside_oom_kills(s);
	if (!r->background)
		(void)inside_cpu_look(s, &r->cpu_before_ns);
	if (s->counters.peak >= 0 && !r->background)
		(void)!pwrite(s->counters.peak, "0", 1,
			      0); /* starts counting again where the kernel can */
	if (spec->timeout_ns > 0 && spec->timeout_ns < UINT64_MAX / 4 &&
	    spec->grace_ns < UINT64_MAX / 4) {
		/* the clock of a first stateful run starts when it has an interpreter */
		uint64_t wait = stateful ? STATE_WAIT_NS : 0;
		q = arm_backstop(r, spec->timeout_ns + spec->grace_ns + BACKSTOP_NS + wait);
		if (q < 0) {
			fd_close_many(fds, n);
			return q;
		}
	}
	q = channel_send(s->init, &m.head, fds, n);
	KILL_POINT(RUN_SENT);
	return q;
}

int engine_run(struct engine_sandbox *s, const struct engine_run_spec *spec,
	       struct engine_run **ret, struct err *e)
{
	int q = check_spec(s, spec, e);

	if (q < 0)
		return q;
	struct engine_run *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "run");
	*r = (struct engine_run){
	    .s = s,
	    .id = ++s->engine->next_run ? s->engine->next_run : ++s->engine->next_run,
	    .result = -1,
	    .result_max = spec->report ? REPORT_MAX : VALUE_MAX,
	    .timeout_ns = spec->timeout_ns,
	    .grace_ns = spec->grace_ns,
	    .stateful = spec->kind == ENGINE_RUN_STATEFUL,
	    .background = spec->kind == ENGINE_RUN_BACKGROUND,
	    .started_ns = now_ns(),
	    .on_done = spec->on_done,
	    .user = spec->user,
	};
	inside_output_init(&r->output, r, s->engine->loop, spec);
	q = start(r, spec);
	if (q < 0) {
		run_free(r);
		return inside_refuse(e, q, ERR_EXECUTION_FAILED, "the run cannot be started");
	}
	if (r->background) {
		list_append(&s->background, &r->node);
		s->n_background++;
	} else {
		s->run = r;
	}
	inside_idle_note(s);
	*ret = r;
	return 0;
}
