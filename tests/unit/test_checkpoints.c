/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints, branches and forks of the manager, on the fake engine: names and their limit, the
 * order of what is asked, and what remains when a step fails. */
#include "base/rand.h"
#include "base/text.h"
#include "manager_world.h"
#include "sandbox/checkpoints.h"
#include "sandbox/file_writer.h"
#include "sandbox/manager.h"
#include "sandbox/upload.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
/* cmocka wants those before it */
#include <cmocka.h>

struct world {
	struct manager_world m;
	struct sandbox *sandbox; /* reference */
};

static void on_open(struct sandbox *s, const struct err *e, void *user)
{
	struct world *w = user;

	assert_null(e);
	w->sandbox = sandbox_ref(s);
}

/* A run's code says what it does: "set 5", "crash". */
static void script(struct fake_run *r, const char *workspace UNUSED, const char *code,
		   size_t len UNUSED, struct engine_run_result *res)
{
	struct fake_engine *f = (struct fake_engine *)fake_run_sandbox(r)->engine;

	if (strncmp(code, "set ", 4) == 0) {
		f->state = (unsigned)(code[4] - '0');
		res->state_kept = true;
	} else if (streq(code, "crash")) {
		f->state = 99; /* the engine's own matter: it must be gone back from */
		res->end = ENGINE_END_SIGNALED;
		res->exit_code = 139;
	}
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	manager_world_open(&w->m, (struct manager_config){.output_max = 100, .max_sandboxes = 3});
	w->m.fake->script = script;
	manager_open(w->m.manager, "", "s", on_open, w);
	manager_world_turn(&w->m);
	assert_non_null(w->sandbox);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	manager_world_turn(&w->m);
	w->sandbox = sandbox_unref(w->sandbox);
	manager_world_close(&w->m);
	free(w);
	return 0;
}

/* ---- checkpoints ---- */

struct told {
	unsigned n;
	enum err_code code;
	uint64_t files;
};

static void on_point(const struct checkpoint *c, const struct err *e, void *user)
{
	struct told *t = user;

	t->n++;
	t->code = e ? e->code : ERR_NONE;
	t->files = c ? c->files : 0;
}

static enum err_code save(struct world *w, const char *name)
{
	struct told t = {0};
	struct err e = ERR_INIT;

	if (sandbox_checkpoint(w->sandbox, name, on_point, &t, &e) < 0)
		return e.code;
	assert_int_equal(t.n, 0); /* never before the call has returned */
	manager_world_turn(&w->m);
	assert_int_equal(t.n, 1);
	assert_false(sandbox_is_busy(w->sandbox));
	return t.code;
}

static enum err_code restore(struct world *w, const char *name)
{
	struct told t = {0};
	struct err e = ERR_INIT;

	if (sandbox_restore(w->sandbox, name, false, on_point, &t, &e) < 0)
		return e.code;
	manager_world_turn(&w->m);
	assert_int_equal(t.n, 1);
	assert_false(sandbox_is_busy(w->sandbox));
	return t.code;
}

static enum err_code drop(struct world *w, const char *name)
{
	struct told t = {0};
	struct err e = ERR_INIT;

	if (sandbox_drop_checkpoint(w->sandbox, name, on_point, &t, &e) < 0)
		return e.code;
	manager_world_turn(&w->m);
	return t.code;
}

static void test_names_and_limit(void **state)
{
	struct world *w = *state;
	char name[3] = "a0";

	assert_int_equal(save(w, ""), ERR_INVALID_ARGUMENT);
	assert_int_equal(save(w, CHECKPOINTS_BASE), ERR_INVALID_ARGUMENT);
	assert_int_equal(save(w, "a/b"), ERR_INVALID_ARGUMENT);
	for (unsigned i = 0; i < CHECKPOINTS_MAX; i++) {
		name[1] = (char)('0' + i);
		w->m.fake->state = i;
		assert_int_equal(save(w, name), ERR_NONE);
	}
	assert_int_equal(save(w, "more"), ERR_TOO_MANY_CHECKPOINTS);
	w->m.fake->state = 7;
	assert_int_equal(save(w, "a3"), ERR_NONE); /* replaced */
	assert_int_equal(w->m.fake->n_drops, 1);
	assert_int_equal(checkpoints_count(w->sandbox), CHECKPOINTS_MAX);
	w->m.fake->state = 50;
	assert_int_equal(restore(w, "a3"), ERR_NONE);
	assert_int_equal(w->m.fake->state, 7);
	assert_int_equal(drop(w, "a1"), ERR_NONE);
	assert_int_equal(restore(w, "a1"), ERR_CHECKPOINT_NOT_FOUND);
	assert_int_equal(drop(w, "a1"), ERR_CHECKPOINT_NOT_FOUND);
	assert_int_equal(save(w, "more"), ERR_NONE);
}

static void test_failed_successor_leaves_the_old(void **state)
{
	struct world *w = *state;

	w->m.fake->state = 1;
	assert_int_equal(save(w, "a"), ERR_NONE);
	w->m.fake->state = 2;
	w->m.fake->fail_save = ERR_NO_SPACE;
	assert_int_equal(save(w, "a"), ERR_NO_SPACE);
	assert_int_equal(restore(w, "a"), ERR_NONE);
	assert_int_equal(w->m.fake->state, 1);
	w->m.fake->fail_restore = ERR_CHECKPOINT_LOST;
	assert_int_equal(restore(w, "a"), ERR_CHECKPOINT_LOST);
	assert_int_equal(restore(w, "a"), ERR_NONE);
}

static void test_busy(void **state)
{
	struct world *w = *state;
	struct told t = {0};
	struct err e = ERR_INIT;
	struct run *run;
	struct run_request q = {.kind = ENGINE_RUN_STATEFUL, .code = "set 1", .code_len = 5};
	struct upload_request u = {.path = "f", .source = {.data = "x", .fd = -1, .len = 1}};

	assert_int_equal(sandbox_checkpoint(w->sandbox, "a", on_point, &t, &e), 0);
	assert_true(sandbox_is_busy(w->sandbox));
	assert_true(sandbox_run(w->sandbox, &q, &run, &e) < 0);
	assert_int_equal(e.code, ERR_SESSION_BUSY);
	assert_true(sandbox_upload(w->sandbox, &u, &e) < 0);
	assert_int_equal(e.code, ERR_SESSION_BUSY);
	assert_int_equal(restore(w, "a"), ERR_SESSION_BUSY);
	assert_true(sandbox_close(w->sandbox, false, NULL, NULL, &e) < 0);
	manager_world_turn(&w->m);
	assert_int_equal(t.n, 1);
	assert_false(sandbox_is_busy(w->sandbox));
}

/* ---- writers of files ---- */

struct wrote {
	unsigned ready, ended;
	uint64_t written;
	enum err_code code;
};

static void on_writer_ready(void *user)
{
	struct wrote *t = user;

	t->ready++;
}

static void on_writer_end(uint64_t written, const struct err *e, void *user)
{
	struct wrote *t = user;

	t->ended++;
	t->written = written;
	t->code = e ? e->code : ERR_NONE;
}

static struct file_writer *begin_file(struct world *w, const char *path, struct wrote *t)
{
	static const struct file_writer_ops ops = {on_writer_ready, on_writer_end};
	struct file_writer *ret = NULL;
	struct err e = ERR_INIT;

	assert_int_equal(file_writer_new(w->sandbox, path, false, &ops, t, &ret, &e), 0);
	return ret;
}

/* A writer that waits for bytes does not keep a checkpoint away; its commit waits for one. */
static void test_writer_and_checkpoint(void **state)
{
	struct world *w = *state;
	struct wrote t = {0};
	struct told told = {0};
	struct err e = ERR_INIT;
	struct file_writer *f = begin_file(w, "f", &t);

	assert_true(sandbox_checkpoint(w->sandbox, "a", on_point, &told, &e) < 0);
	manager_world_turn(&w->m);
	assert_int_equal(t.ready, 1);
	assert_int_equal(file_writer_add(f, "abc", 3, &e), 0);
	assert_false(sandbox_is_idle(w->sandbox));
	e = ERR_INIT;
	assert_int_equal(sandbox_checkpoint(w->sandbox, "a", on_point, &told, &e), 0);
	file_writer_commit(f);
	assert_int_equal(told.n, 0);
	manager_world_turn(&w->m);
	assert_int_equal(told.n, 1);
	assert_int_equal(t.ended, 1);
	assert_int_equal(t.code, ERR_NONE);
	assert_int_equal(t.written, 3);
	assert_true(sandbox_is_idle(w->sandbox));
}

/* Dropped while it is opened and later, beside another one for the same path. */
static void test_writer_dropped(void **state)
{
	struct world *w = *state;
	struct wrote t = {0}, second = {0};
	struct err e = ERR_INIT;
	struct file_writer *f = begin_file(w, "f", &t);

	assert_null(file_writer_drop(f));
	manager_world_turn(&w->m);
	f = begin_file(w, "f", &t);
	struct file_writer *g = begin_file(w, "f", &second);
	manager_world_turn(&w->m);
	assert_int_equal(t.ready, 1);
	assert_int_equal(file_writer_add(f, "x", 1, &e), 0);
	file_writer_close(f);
	file_writer_commit(g);
	assert_null(file_writer_drop(f));
	manager_world_turn(&w->m);
	assert_int_equal(t.ended, 0);
	assert_int_equal(second.ended, 1);
	assert_int_equal(second.code, ERR_NONE);
	assert_int_equal(second.written, 0);
	assert_true(sandbox_is_idle(w->sandbox));
}

/* The sandbox ends while one writer is open and one waits to commit. */
static void test_writer_loses_its_sandbox(void **state)
{
	struct world *w = *state;
	struct wrote open = {0}, waiting = {0};
	struct told told = {0};
	struct err e = ERR_INIT;

	(void)begin_file(w, "open", &open);
	struct file_writer *f = begin_file(w, "waiting", &waiting);
	manager_world_turn(&w->m);
	assert_int_equal(sandbox_checkpoint(w->sandbox, "a", on_point, &told, &e), 0);
	file_writer_commit(f);
	assert_int_equal(waiting.ended, 0);
	assert_int_equal(sandbox_close(w->sandbox, true, NULL, NULL, &e), 0);
	assert_int_equal(open.ended, 1);
	assert_int_equal(open.code, ERR_SANDBOX_LOST);
	assert_int_equal(waiting.ended, 1);
	assert_int_equal(waiting.code, ERR_SANDBOX_LOST);
	manager_world_turn(&w->m);
	assert_int_equal(told.n, 1);
}

/* ---- branches ---- */

struct branches {
	struct world *w;
	unsigned n_runs, n_kept, n_unkept, n_failed, n_done;
	enum err_code code;
	unsigned seen[BRANCHES_MAX]; /* the state when the run had ended */
	bool cancel, close;
	struct branch *branch;
	enum err_code fail_next; /* of the restore that follows a continuation */
};

static void on_run(size_t i, const struct run_result *result, const struct err *e, void *user)
{
	struct branches *b = user;
	struct err ignored = ERR_INIT;

	assert_true(result || e);
	b->seen[i] = b->w->m.fake->state;
	b->n_runs++;
	if (b->cancel)
		branch_cancel(b->branch);
	if (b->close)
		assert_int_equal(sandbox_close(b->w->sandbox, true, NULL, NULL, &ignored), 0);
}

static void on_kept(size_t i UNUSED, const struct checkpoint *c, const struct err *e, void *user)
{
	struct branches *b = user;

	b->w->m.fake->fail_restore = b->fail_next;
	b->n_kept += c ? 1 : 0;
	b->n_failed += e ? 1 : 0;
	b->n_unkept += !c && !e ? 1 : 0;
}

static void on_done(uint32_t kinds UNUSED, const struct err *e, void *user)
{
	struct branches *b = user;

	b->n_done++;
	b->code = e ? e->code : ERR_NONE;
}

static void branch(struct branches *b, const struct branch_item *items, size_t n)
{
	const struct branch_request q = {.items = items,
					 .n = n,
					 .on_run = on_run,
					 .on_kept = on_kept,
					 .on_done = on_done,
					 .user = b};
	struct err e = ERR_INIT;

	if (sandbox_branch(b->w->sandbox, &q, &b->branch, &e) < 0) {
		b->code = e.code;
		return;
	}
	manager_world_turn(&b->w->m);
	assert_int_equal(b->n_done, 1);
	assert_false(sandbox_is_busy(b->w->sandbox));
}

static const struct branch_item items[] = {
    {"one", "set 1", 5}, {"bad", "crash", 5}, {"two", "set 2", 5}};

static void test_branches(void **state)
{
	struct branches b = {.w = *state};
	struct fake_engine *f = b.w->m.fake;

	f->state = 5;
	branch(&b, items, 3);
	assert_int_equal(b.code, ERR_NONE);
	assert_int_equal(f->state, 5);
	assert_int_equal(b.n_runs, 3);
	assert_int_equal(b.n_kept, 2);
	assert_int_equal(b.n_unkept, 1);
	assert_int_equal(f->n_saves, 3); /* the base and two ends */
	/* at the beginning, before the second and the third, and at the end */
	assert_int_equal(f->n_restores, 4);
	assert_int_equal(f->n_drops, 1);
	assert_int_equal(checkpoints_count(b.w->sandbox), 2);
	assert_int_equal(restore(b.w, "two"), ERR_NONE);
	assert_int_equal(f->state, 2);
	assert_int_equal(restore(b.w, "bad"), ERR_CHECKPOINT_NOT_FOUND);
}

static void test_branch_refused(void **state)
{
	struct branches b = {.w = *state};
	const struct branch_item same[] = {{"a", "1", 1}, {"a", "2", 1}};
	const struct branch_item base[] = {{CHECKPOINTS_BASE, "1", 1}};

	branch(&b, items, 0);
	assert_int_equal(b.code, ERR_INVALID_ARGUMENT);
	branch(&b, same, 2);
	assert_int_equal(b.code, ERR_INVALID_ARGUMENT);
	branch(&b, base, 1);
	assert_int_equal(b.code, ERR_INVALID_ARGUMENT);
	b.w->m.fake->fail_save = ERR_NO_SPACE;
	branch(&b, items, 1);
	assert_int_equal(b.code, ERR_NO_SPACE);
	assert_int_equal(b.n_runs, 0);
}

static void test_branch_cannot_begin(void **state)
{
	struct branches b = {.w = *state};

	b.w->m.fake->state = 5;
	b.w->m.fake->fail_restore = ERR_CHECKPOINT_LOST;
	branch(&b, items, 3);
	assert_int_equal(b.code, ERR_CHECKPOINT_LOST);
	assert_int_equal(b.n_runs, 0);
	assert_int_equal(b.w->m.fake->state, 5);
	assert_int_equal(checkpoints_count(b.w->sandbox), 0);
}

/* The base is lost; the session that was set aside comes back without it. */
static void test_branch_cannot_go_on(void **state)
{
	struct branches b = {.w = *state, .fail_next = ERR_CHECKPOINT_LOST};

	b.w->m.fake->state = 5;
	branch(&b, items, 3);
	assert_int_equal(b.code, ERR_CHECKPOINT_LOST);
	assert_int_equal(b.n_runs, 1);
	assert_int_equal(b.w->m.fake->state, 5);
	assert_int_equal(checkpoints_count(b.w->sandbox), 1);
}

static void test_branch_cannot_return(void **state)
{
	struct branches b = {.w = *state, .fail_next = ERR_CHECKPOINT_PARTIAL};

	b.w->m.fake->state = 5;
	branch(&b, items, 1);
	b.w->m.fake->fail_restore = ERR_NONE;
	assert_int_equal(b.code, ERR_CHECKPOINT_PARTIAL);
	assert_int_equal(restore(b.w, "before-branch"), ERR_NONE);
	assert_int_equal(b.w->m.fake->state, 5);
}

static void test_branch_cancelled(void **state)
{
	struct branches b = {.w = *state, .cancel = true};

	b.w->m.fake->state = 5;
	branch(&b, items, 3);
	assert_int_equal(b.code, ERR_CANCELLED);
	assert_int_equal(b.n_runs, 1);
	assert_int_equal(b.w->m.fake->state, 5);
	assert_int_equal(checkpoints_count(b.w->sandbox), 0);
}

static void test_branch_closed(void **state)
{
	struct branches b = {.w = *state, .close = true};

	branch(&b, items, 3);
	assert_int_equal(b.code, ERR_SANDBOX_LOST);
	assert_int_equal(b.n_runs, 1);
	assert_int_equal(manager_count(b.w->m.manager), 0);
}

/* ---- forks ---- */

struct forked {
	unsigned n;
	enum err_code code;
	char id[SANDBOX_ID_MAX + 1];
	uint64_t files, bytes;
	uint32_t skipped;
};

static void on_forked(const struct fork_result *r, const struct err *e, void *user)
{
	struct forked *f = user;

	f->n++;
	f->code = e ? e->code : ERR_NONE;
	if (!r)
		return;
	(void)snprintf(f->id, sizeof(f->id), "%s", sandbox_id(r->sandbox));
	f->files = r->files;
	f->bytes = r->bytes;
	f->skipped = r->skipped;
	assert_string_equal(sandbox_parent(r->sandbox), "s");
}

static void put(const struct world *w, const char *name, const char *text)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/1/%s", w->m.fake->root, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

static void test_fork(void **state)
{
	struct world *w = *state;
	struct forked f = {0};
	struct err e = ERR_INIT;
	char path[128];

	put(w, "a", "aaa");
	put(w, "empty", "");
	(void)snprintf(path, sizeof(path), "%s/1/link", w->m.fake->root);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(sandbox_fork(w->sandbox, "copy", on_forked, &f, &e), 0);
	assert_true(sandbox_is_busy(w->sandbox));
	manager_world_turn(&w->m);
	assert_int_equal(f.n, 1);
	assert_int_equal(f.code, ERR_NONE);
	assert_string_equal(f.id, "copy");
	assert_int_equal(f.files, 2);
	assert_int_equal(f.bytes, 3);
	assert_int_equal(f.skipped, 1);
	assert_false(sandbox_is_busy(w->sandbox));
	assert_true(sandbox_fork(w->sandbox, "copy", on_forked, &f, &e) < 0);
	assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
	assert_true(sandbox_fork(w->sandbox, "../x", on_forked, &f, &e) < 0);
	assert_int_equal(e.code, ERR_INVALID_SESSION_ID);
}

static struct sandbox *ends_in_read; /* its next read(2) fails, and it is closed */

/* In place of the library's. */
ssize_t pread(int fd, void *to, size_t len, off_t at)
{
	struct err e = ERR_INIT;

	if (!ends_in_read)
		return syscall(SYS_pread64, fd, to, len, at);
	(void)!sandbox_close(ends_in_read, true, NULL, NULL, &e);
	ends_in_read = NULL;
	errno = EIO;
	return -1;
}

/* A forced deletion shuts the file system of the source while a file of it is copied. */
static void test_fork_of_ending(void **state)
{
	struct world *w = *state;
	struct forked f = {0};
	struct err e = ERR_INIT;

	put(w, "a", "aaa");
	assert_int_equal(sandbox_fork(w->sandbox, "copy", on_forked, &f, &e), 0);
	ends_in_read = w->sandbox;
	manager_world_turn(&w->m);
	assert_null(ends_in_read);
	assert_int_equal(f.n, 1);
	assert_int_equal(f.code, ERR_SANDBOX_LOST);
	assert_int_equal(manager_count(w->m.manager), 0);
}

static void test_fork_fails_as_a_whole(void **state)
{
	struct world *w = *state;
	struct forked f = {0};
	struct err e = ERR_INIT;

	w->m.fake->fail_create = true;
	assert_int_equal(sandbox_fork(w->sandbox, NULL, on_forked, &f, &e), 0);
	manager_world_turn(&w->m);
	assert_int_equal(f.code, ERR_ENGINE_UNAVAILABLE);
	assert_false(sandbox_is_busy(w->sandbox));
	assert_int_equal(manager_count(w->m.manager), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_names_and_limit, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_failed_successor_leaves_the_old, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_busy, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_writer_and_checkpoint, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_writer_dropped, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_writer_loses_its_sandbox, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_branches, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_branch_refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_branch_cannot_begin, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_branch_cannot_go_on, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_branch_cannot_return, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_branch_cancelled, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_branch_closed, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_fork, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_fork_of_ending, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_fork_fails_as_a_whole, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
