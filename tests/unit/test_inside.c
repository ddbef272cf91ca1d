/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox in the front whose init or engine ends while something is asked of it. The test is the monitor and init. */
#include "base/fdio.h"
#include "base/workers.h"
#include "engine/engine.h"
#include "engine/front/front.h"
#include "engine/maker/native/native.h"
#include "engine/protocol/proto.h"

#include <dlfcn.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

struct world {
	sd_event *loop;
	struct engine *engine;
	int monitor, init; /* the test's ends */
	struct engine_sandbox *sandbox;
	enum err_code refused; /* the last creation */
	bool lets_go;          /* whoever is told of an end destroys the sandbox */
	unsigned n_answers, n_destroyed;
};

static const struct engine_create create = {
    .image = "x",
    .limits = {.memory_bytes = 1 << 30,
	       .cpu_milli = 1000,
	       .pids = 10,
	       .workspace_bytes = 1 << 20,
	       .workspace_inodes = 100,
	       .tmp_bytes = 1 << 20,
	       .nofile = 64},
};

static void turn(struct world *w)
{
	while (sd_event_run(w->loop, 0) > 0)
		;
}

static bool no_memory;

/* In place of the library's. */
int sd_event_add_defer(sd_event *loop, sd_event_source **ret, sd_event_handler_t fn, void *user)
{
	int (*real)(sd_event *, sd_event_source **, sd_event_handler_t, void *);

	if (no_memory)
		return -ENOMEM;
	*(void **)&real = dlsym(RTLD_NEXT, "sd_event_add_defer");
	return real(loop, ret, fn, user);
}

/* ---- callbacks ---- */

static void on_created(struct engine_sandbox *s, const struct engine_policy *p UNUSED,
		       const struct err *e, void *user)
{
	struct world *w = user;

	w->sandbox = s;
	w->refused = e ? e->code : ERR_NONE;
}

static void on_destroyed(const struct err *e UNUSED, void *user)
{
	((struct world *)user)->n_destroyed++;
}

static void answered(struct world *w)
{
	w->n_answers++;
	if (w->lets_go && w->sandbox)
		engine_destroy(TAKE_PTR(w->sandbox), on_destroyed, w);
}

static void on_output(struct engine_run *r UNUSED, enum engine_stream s UNUSED,
		      const void *data UNUSED, size_t len UNUSED, void *user UNUSED)
{
}

static void on_run(struct engine_run *r UNUSED, const struct engine_run_result *res,
		   const struct err *e, void *user)
{
	assert_null(e);
	assert_int_equal(res->end, ENGINE_END_LOST);
	answered(user);
}

static void on_fd(int fd, const struct err *e, void *user)
{
	assert_int_equal(fd, -1);
	assert_int_equal(e->code, ERR_SANDBOX_LOST);
	answered(user);
}

static void on_done(const struct err *e UNUSED, void *user)
{
	answered(user);
}

static void on_list(const struct engine_file *files UNUSED, size_t n UNUSED, bool more UNUSED,
		    const struct err *e UNUSED, void *user)
{
	answered(user);
}

static void on_usage(const struct engine_usage *u UNUSED, const struct err *e UNUSED, void *user)
{
	answered(user);
}

static void on_checkpoint(const struct engine_checkpoint *p UNUSED, const struct err *e UNUSED,
			  void *user)
{
	answered(user);
}

/* ---- the world ---- */

static int setup(void **state)
{
	static struct world w;
	const struct proto_mon_hello hello = {
	    .head = PROTO_HEAD(MON_HELLO, proto_mon_hello), .version = PROTO_VERSION, .slots = 3};
	const struct proto_mon_created created = {.head =
						      PROTO_HEAD(MON_CREATED, proto_mon_created)};
	const struct proto_init_ready ready = {.head = PROTO_HEAD(INIT_READY, proto_init_ready)};
	struct err e = ERR_INIT;
	int pair[2], chan[2];

	w = (struct world){.init = -1};
	assert_true(sd_event_new(&w.loop) >= 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, chan), 0);
	w.monitor = pair[1];
	w.init = chan[1];
	w.engine = engine_new(&native_ops);
	assert_non_null(w.engine);
	front_init(front_engine_of(w.engine), &(struct engine_config){0});
	front_engine_of(w.engine)->monitor_fd = pair[0];
	assert_int_equal(engine_levels_read("", "", "", &w.engine->levels, &e), 0);
	assert_true(fd_send(w.monitor, &hello, sizeof(hello), NULL, 0, 0) > 0);
	assert_int_equal(engine_open(w.engine, w.loop, &e), 0);
	assert_int_equal(engine_create(w.engine, &create, on_created, &w, &e), 0);
	assert_true(fd_send(w.monitor, &created, sizeof(created), &chan[0], 1, 0) > 0);
	assert_true(fd_send(w.init, &ready, sizeof(ready), NULL, 0, 0) > 0);
	(void)close(chan[0]);
	turn(&w);
	assert_non_null(w.sandbox);
	*state = &w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	(void)fd_close(w->monitor);
	(void)fd_close(w->init);
	(void)engine_close(w->engine);
	(void)sd_event_unref(w->loop);
	return 0;
}

static int run(struct world *w, struct err *e)
{
	const struct engine_run_spec spec = {.kind = ENGINE_RUN_PYTHON,
					     .code = "1",
					     .code_len = 1,
					     .stdin_fd = -1,
					     .on_output = on_output,
					     .on_done = on_run,
					     .user = w};
	struct engine_run *r;

	return engine_run(w->sandbox, &spec, &r, e);
}

static void monitor_says_gone(struct world *w)
{
	const struct proto_mon_gone gone = {.head = PROTO_HEAD(MON_GONE, proto_mon_gone)};

	assert_true(fd_send(w->monitor, &gone, sizeof(gone), NULL, 0, 0) > 0);
	turn(w);
}

/* ---- cases ---- */

/* Init was killed, and the loop has not seen it yet: whatever is asked, the answer is that the sandbox is lost. */
static void test_just_ended(void **state)
{
	struct world *w = *state;
	uint32_t put;

	w->init = fd_close(w->init);
#define LOST(call)                                                                                 \
	do {                                                                                       \
		struct err e = ERR_INIT;                                                           \
		assert_true((call) < 0);                                                           \
		assert_string_equal(err_code_name(e.code), err_code_name(ERR_SANDBOX_LOST));       \
	} while (0)
	LOST(run(w, &e));
	LOST(engine_open_file(w->sandbox, "a", on_fd, w, &e));
	LOST(engine_put_file(w->sandbox, "a", true, &put, on_fd, w, &e));
	LOST(engine_commit_file(w->sandbox, 1, "a", true, true, on_done, w, &e));
	LOST(engine_remove_file(w->sandbox, "a", true, on_done, w, &e));
	LOST(engine_list_files(w->sandbox, "", on_list, w, &e));
	LOST(engine_usage(w->sandbox, on_usage, w, &e));
	LOST(engine_save_checkpoint(w->sandbox, 0, on_checkpoint, w, &e));
#undef LOST
	turn(w);
	assert_int_equal(w->n_answers, 0);
}

/* The owner lets go of a sandbox when it hears that its run ended with it. It must hear of the end of the sandbox, too,
 * and once. */
static void let_go(struct world *w, bool channel_first)
{
	struct err e = ERR_INIT;

	w->lets_go = true;
	assert_int_equal(run(w, &e), 0);
	if (channel_first) {
		w->init = fd_close(w->init);
		turn(w);
	}
	assert_int_equal(w->n_answers, 0); /* the run waits for what the sandbox used */
	monitor_says_gone(w);
	assert_int_equal(w->n_answers, 1);
	assert_int_equal(w->n_destroyed, 1);
}

static void test_let_go_in_run(void **state)
{
	let_go(*state, true);
}

static void test_let_go_gone_first(void **state)
{
	let_go(*state, false);
}

/* The same where a question is aborted, and others wait behind it. */
static void test_let_go_in_question(void **state)
{
	struct world *w = *state;
	struct err e = ERR_INIT;

	w->lets_go = true;
	assert_int_equal(engine_open_file(w->sandbox, "a", on_fd, w, &e), 0);
	assert_int_equal(engine_list_files(w->sandbox, "", on_list, w, &e), 0);
	assert_int_equal(engine_usage(w->sandbox, on_usage, w, &e), 0);
	assert_int_equal(engine_save_checkpoint(w->sandbox, 0, on_checkpoint, w, &e), 0);
	monitor_says_gone(w);
	assert_int_equal(w->n_answers, 4);
	assert_int_equal(w->n_destroyed, 1);
}

/* The same without memory to wait for another turn: nobody who waits behind is told by what is freed. */
static void test_let_go_without_memory(void **state)
{
	no_memory = true;
	test_let_go_in_question(state);
	no_memory = false;
}

static void test_let_go_in_run_without_memory(void **state)
{
	no_memory = true;
	let_go(*state, true);
	no_memory = false;
}

static void on_closed_fd(int fd, const struct err *e, void *user)
{
	assert_int_equal(fd, -1);
	assert_int_equal(e->code, ERR_CANCELLED);
	answered(user);
}

static void on_closed_checkpoint(const struct engine_checkpoint *p, const struct err *e, void *user)
{
	assert_null(p);
	assert_int_equal(e->code, ERR_CANCELLED);
	answered(user);
}

/* While a sandbox is destroyed its file system is shut under its init, which then fails at what it was asked. */
static void test_errors_of_the_end(void **state)
{
	struct world *w = *state;
	struct proto_init_filed filed = {
	    .head = PROTO_HEAD(INIT_FILED, proto_init_filed), .seq = 1, .errnum = EIO};
	struct proto_init_checkpointed saved = {
	    .head = PROTO_HEAD(INIT_CHECKPOINTED, proto_init_checkpointed), .errnum = EIO};
	struct err e = ERR_INIT;

	assert_int_equal(engine_open_file(w->sandbox, "a", on_closed_fd, w, &e), 0);
	filed.seq = w->sandbox->next_seq;
	assert_int_equal(engine_save_checkpoint(w->sandbox, 0, on_closed_checkpoint, w, &e), 0);
	saved.seq = w->sandbox->next_seq;
	engine_destroy(TAKE_PTR(w->sandbox), on_destroyed, w);
	assert_true(fd_send(w->init, &filed, sizeof(filed), NULL, 0, 0) > 0);
	assert_true(fd_send(w->init, &saved, sizeof(saved), NULL, 0, 0) > 0);
	turn(w);
	assert_int_equal(w->n_answers, 0);
	monitor_says_gone(w);
	assert_int_equal(w->n_answers, 2);
	assert_int_equal(w->n_destroyed, 1);
}

static void on_refused_run(struct engine_run *r UNUSED, const struct engine_run_result *res,
			   const struct err *e, void *user)
{
	assert_null(res);
	assert_int_equal(e->code, ERR_ENGINE_UNAVAILABLE);
	answered(user);
}

/* A busy machine has no interpreter for a run with state: that passes, and is no error of the run or the server. */
static void test_no_interpreter(void **state)
{
	struct world *w = *state;
	const struct engine_run_spec spec = {.kind = ENGINE_RUN_STATEFUL,
					     .code = "1",
					     .code_len = 1,
					     .stdin_fd = -1,
					     .on_output = on_output,
					     .on_done = on_refused_run,
					     .user = w};
	struct engine_run *r;
	struct err e = ERR_INIT;

	w->sandbox->warm = true;
	assert_int_equal(engine_run(w->sandbox, &spec, &r, &e), 0);
	const struct proto_init_ended ended = {.head = PROTO_HEAD(INIT_ENDED, proto_init_ended),
					       .run = 1,
					       .end = PROTO_END_FAILED,
					       .value = ENOTSUP};
	assert_true(fd_send(w->init, &ended, sizeof(ended), NULL, 0, 0) > 0);
	turn(w);
	assert_int_equal(w->n_answers, 1);
}

#define VALUE_BYTES (3u << 20)

static size_t value_bytes;

static void on_value(struct engine_run *r UNUSED, enum engine_stream stream,
		     const void *data UNUSED, size_t len, void *user UNUSED)
{
	if (stream == ENGINE_RESULT)
		value_bytes += len;
}

static void on_value_run(struct engine_run *r UNUSED, const struct engine_run_result *res,
			 const struct err *e, void *user)
{
	assert_null(e);
	assert_int_equal(res->end, ENGINE_END_EXITED);
	answered(user);
}

/* A run whose value threads read piece by piece: init has said its end, and nothing is delivered yet. Returns the pool. */
static int run_with_value(struct world *w)
{
	static char value[VALUE_BYTES];
	const struct engine_run_spec spec = {.kind = ENGINE_RUN_STATEFUL,
					     .code = "1",
					     .code_len = 1,
					     .stdin_fd = -1,
					     .on_output = on_value,
					     .on_done = on_value_run,
					     .user = w};
	union proto_frame f;
	struct engine_run *r;
	struct err e = ERR_INIT;
	int fds[FDIO_PASS_MAX];
	size_t n = 0;
	const int pool = workers_begin();

	assert_true(pool >= 0);
	value_bytes = 0;
	memset(value, 'v', sizeof(value));
	w->sandbox->warm = true;
	assert_int_equal(engine_run(w->sandbox, &spec, &r, &e), 0);
	do
		assert_true(fd_recv(w->init, &f, sizeof(f), fds, &n, 0) > 0);
	while (n < 5);
	assert_int_equal(fd_write_all(fds[4], value, sizeof(value)), 0);
	fd_close_many(fds, n);
	const struct proto_init_ended ended = {
	    .head = PROTO_HEAD(INIT_ENDED, proto_init_ended), .run = 1, .end = PROTO_END_EXITED};
	assert_true(fd_send(w->init, &ended, sizeof(ended), NULL, 0, 0) > 0);
	turn(w);
	assert_int_equal(w->n_answers, 0);
	return pool;
}

static void test_large_value(void **state)
{
	struct world *w = *state;
	const int pool = run_with_value(w);

	while (w->n_answers == 0) {
		assert_int_equal(poll(&(struct pollfd){.fd = pool, .events = POLLIN}, 1, 20000), 1);
		workers_deliver();
	}
	assert_int_equal(value_bytes, VALUE_BYTES);
	workers_end();
	assert_int_equal(w->n_answers, 1);
}

/* The sandbox goes while its value is read: the run had ended before, its value is whole, and it is told once. */
static void test_lost_while_value_is_read(void **state)
{
	struct world *w = *state;

	(void)run_with_value(w);
	w->init = fd_close(w->init);
	turn(w);
	assert_int_equal(w->n_answers, 1);
	assert_int_equal(value_bytes, VALUE_BYTES);
	workers_end();
	assert_int_equal(w->n_answers, 1);
}

static void test_closed_while_value_is_read(void **state)
{
	struct world *w = *state;

	(void)run_with_value(w);
	engine_destroy(TAKE_PTR(w->sandbox), on_destroyed, w);
	monitor_says_gone(w);
	workers_end();
	assert_int_equal(w->n_answers, 1);
	assert_int_equal(w->n_destroyed, 1);
	assert_int_equal(value_bytes, VALUE_BYTES);
}

/* Nobody lets go: the sandbox has ended, and its descriptors are closed. */
static void test_ended_keeps_no_descriptor(void **state)
{
	struct world *w = *state;
	int counter[2];

	assert_int_equal(pipe(counter), 0);
	w->sandbox->counters.cpu = counter[0];
	w->init = fd_close(w->init);
	turn(w);
	monitor_says_gone(w);
	assert_int_equal(w->sandbox->counters.cpu, -1);
	engine_destroy(TAKE_PTR(w->sandbox), on_destroyed, w);
	turn(w);
	assert_int_equal(w->n_destroyed, 1);
	(void)close(counter[1]);
}

/* Init said why it could not set up the sandbox, and the end of it is heard of first. */
static void last_words(struct world *w, const void *words, size_t size, enum err_code code)
{
	const struct proto_mon_created created = {
	    .head = PROTO_HEAD(MON_CREATED, proto_mon_created), .slot = 1};
	struct front_engine *g = front_engine_of(w->engine);
	struct err e = ERR_INIT;
	int chan[2];

	engine_destroy(TAKE_PTR(w->sandbox), on_destroyed, w);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, chan), 0);
	assert_int_equal(engine_create(w->engine, &create, on_created, w, &e), 0);
	assert_true(fd_send(w->monitor, &created, sizeof(created), &chan[0], 1, 0) > 0);
	turn(w);
	assert_true(fd_send(chan[1], words, size, NULL, 0, 0) > 0);
	(void)close(chan[0]);
	(void)close(chan[1]);
	front_gone(g->slots[1], 0);
	assert_null(w->sandbox);
	assert_string_equal(err_code_name(w->refused), err_code_name(code));
}

static void test_last_words(void **state)
{
	const struct proto_init_failed failed = {.head = PROTO_HEAD(INIT_FAILED, proto_init_failed),
						 .step = PROTO_STEP_WORKSPACE,
						 .errnum = ENOTDIR};

	last_words(*state, &failed, sizeof(failed), ERR_WORKSPACE_DAMAGED);
}

static void test_no_last_words(void **state)
{
	const struct proto_init_ready ready = {.head = PROTO_HEAD(INIT_READY, proto_init_ready)};

	last_words(*state, &ready, sizeof(ready), ERR_SANDBOX_LOST);
}

static void on_memory(uint64_t bytes, void *user)
{
	assert_int_equal(bytes, 0);
	answered(user);
}

static void says_unsupported(struct world *w, uint32_t type, uint32_t of)
{
	const struct proto_mon_unsupported m = {
	    .head = PROTO_HEAD(MON_UNSUPPORTED, proto_mon_unsupported), .type = type, .of = of};

	assert_true(fd_send(w->monitor, &m, sizeof(m), NULL, 0, 0) > 0);
	turn(w);
}

/* The maker has no figure for all sandboxes together: whoever asked is told so, and the maker stays. */
static void test_memory_unsupported(void **state)
{
	struct world *w = *state;

	engine_memory(w->engine, on_memory, w);
	assert_int_equal(w->n_answers, 0);
	says_unsupported(w, PROTO_MON_USAGE, PROTO_SLOT_ALL);
	assert_int_equal(w->n_answers, 1);
	assert_false(front_engine_of(w->engine)->dead);
}

/* No maker lacks what is no request: this one is broken. */
static void test_no_request_unsupported(void **state)
{
	struct world *w = *state;

	says_unsupported(w, PROTO_MON_GONE, 0);
	assert_true(front_engine_of(w->engine)->dead);
}

static void test_unknown_unsupported(void **state)
{
	struct world *w = *state;

	says_unsupported(w, UINT32_MAX, 0);
	assert_true(front_engine_of(w->engine)->dead);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	    T(test_just_ended),
	    T(test_let_go_in_run),
	    T(test_let_go_gone_first),
	    T(test_let_go_in_question),
	    T(test_let_go_without_memory),
	    T(test_let_go_in_run_without_memory),
	    T(test_errors_of_the_end),
	    T(test_no_interpreter),
	    T(test_large_value),
	    T(test_lost_while_value_is_read),
	    T(test_closed_while_value_is_read),
	    T(test_ended_keeps_no_descriptor),
	    T(test_last_words),
	    T(test_no_last_words),
	    T(test_memory_unsupported),
	    T(test_no_request_unsupported),
	    T(test_unknown_unsupported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
