/* SPDX-License-Identifier: Apache-2.0 */
#include "engine_client.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"

#include <grp.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define BUDGET_MS 60000

const struct engine_limits default_limits = {
    .memory_bytes = UINT64_C(512) << 20,
    .cpu_milli = 1000,
    .pids = 64,
    .workspace_bytes = UINT64_C(64) << 20,
    .workspace_inodes = 4096,
    .tmp_bytes = UINT64_C(64) << 20,
    .nofile = 256,
};

void expect_at(bool ok, const char *what, const char *file, int line, const struct outcome *o)
{
	if (ok)
		return;
	(void)printf("not ok 1 - %s:%d: %s\n", file, line, what);
	if (o)
		(void)printf("# done %d error %s '%s' end %d exit %d signal %d\n# stdout: "
			     "%.2000s\n# stderr: %.2000s\n# value: %.2000s\n",
			     o->done, err_code_name(o->e.code), o->e.text, (int)o->result.end,
			     o->result.exit_code, o->result.signal, o->out, o->err, o->value);
	(void)fflush(stdout);
	_exit(1);
}

bool begin_tests(const char *state_dir, const char *image, uint64_t as)
{
	char root[4096];

	(void)signal(SIGPIPE, SIG_IGN);
	(void)snprintf(root, sizeof(root), "%s/images/%s/root", state_dir, image);
	if (access(root, F_OK) < 0) {
		(void)printf("1..0 # SKIP the image '%s' is not built\n", image);
		return false;
	}
	if (as != 0 && geteuid() == 0)
		EXPECT(setgroups(0, NULL) == 0 && setresgid((gid_t)as, (gid_t)as, (gid_t)as) == 0 &&
		       setresuid((uid_t)as, (uid_t)as, (uid_t)as) == 0);
	return true;
}

void turn_until(struct client *c, const bool *done, uint64_t budget_ms)
{
	uint64_t end = now_ns() + budget_ms * NS_PER_MS;

	while (!*done) {
		EXPECT(now_ns() < end);
		EXPECT(sd_event_run(c->loop, 100000) >= 0);
	}
}

static void on_created(struct engine_sandbox *s, const struct engine_policy *p, const struct err *e,
		       void *user)
{
	struct outcome *o = user;

	EXPECT(!o->done);
	o->done = true;
	o->sandbox = s;
	if (p)
		o->policy = *p;
	if (e)
		o->e = *e;
}

static void on_done(const struct err *e, void *user)
{
	struct outcome *o = user;

	EXPECT(!o->done);
	o->done = true;
	if (e)
		o->e = *e;
}

bool want_warm;

struct engine_sandbox *make_sandbox(struct client *c, const char *image,
				    const struct engine_limits *l, struct outcome *o)
{
	struct engine_create create = {.limits = *l, .warm = want_warm};

	EXPECT(text_copy(create.image, sizeof(create.image), image) == 0);
	return create_sandbox(c, &create, o);
}

struct engine_sandbox *create_sandbox(struct client *c, const struct engine_create *create,
				      struct outcome *o)
{
	*o = (struct outcome){.fd = -1};
	if (engine_create(c->engine, create, on_created, o, &o->e) < 0)
		return NULL;
	EXPECT(!o->done);
	turn_until(c, &o->done, BUDGET_MS);
	return o->sandbox;
}

void end_sandbox(struct client *c, struct engine_sandbox *s)
{
	static struct outcome o;

	o = (struct outcome){.fd = -1};
	engine_destroy(s, on_done, &o);
	EXPECT(!o.done);
	turn_until(c, &o.done, BUDGET_MS);
	EXPECT_OF(&o, o.e.code == ERR_NONE);
}

static void on_output(struct engine_run *r UNUSED, enum engine_stream s, const void *data,
		      size_t len, void *user)
{
	struct outcome *o = user;
	char *const tos[] = {NULL, o->out, o->err, o->value};
	size_t *const ats[] = {NULL, &o->out_len, &o->err_len, &o->value_len};
	char *to = tos[s];
	size_t *at = ats[s];
	size_t n = MIN(len, TEXT_MAX - 1 - *at);

	EXPECT(len > 0 && !o->done);
	if (!o->first_ns)
		o->first_ns = now_ns();
	memcpy(to + *at, data, n);
	*at += n;
}

static void on_run_done(struct engine_run *r UNUSED, const struct engine_run_result *res,
			const struct err *e, void *user)
{
	struct outcome *o = user;

	EXPECT(!o->done && !res == !!e);
	o->done = true;
	o->have_result = res;
	if (res)
		o->result = *res;
	if (e)
		o->e = *e;
}

struct engine_run *start_run(struct engine_sandbox *s, struct engine_run_spec *spec,
			     struct outcome *o)
{
	struct engine_run *r = NULL;

	*o = (struct outcome){.fd = -1};
	spec->on_output = on_output;
	spec->on_done = on_run_done;
	spec->user = o;
	if (engine_run(s, spec, &r, &o->e) < 0)
		return NULL;
	EXPECT(!o->done);
	return r;
}

void run_python(struct client *c, struct engine_sandbox *s, const char *code, uint64_t timeout_ms,
		struct outcome *o)
{
	struct engine_run_spec spec = {
	    .kind = ENGINE_RUN_PYTHON,
	    .code = code,
	    .code_len = strlen(code),
	    .stdin_fd = -1,
	    .timeout_ns = timeout_ms * NS_PER_MS,
	    .grace_ns = 500 * NS_PER_MS,
	};

	if (start_run(s, &spec, o))
		turn_until(c, &o->done, BUDGET_MS);
}

void run_cell(struct client *c, struct engine_sandbox *s, const char *code, uint64_t timeout_ms,
	      struct outcome *o)
{
	struct engine_run_spec spec = {
	    .kind = ENGINE_RUN_STATEFUL,
	    .code = code,
	    .code_len = strlen(code),
	    .stdin_fd = -1,
	    .timeout_ns = timeout_ms * NS_PER_MS,
	    .grace_ns = 500 * NS_PER_MS,
	};

	if (start_run(s, &spec, o))
		turn_until(c, &o->done, BUDGET_MS);
}

void run_argv(struct client *c, struct engine_sandbox *s, const char *const *argv,
	      struct outcome *o)
{
	struct engine_run_spec spec = {
	    .kind = ENGINE_RUN_ARGV, .argv = argv, .stdin_fd = -1, .timeout_ns = 10 * NS_PER_S};

	if (start_run(s, &spec, o))
		turn_until(c, &o->done, BUDGET_MS);
}

static void on_fd(int fd, const struct err *e, void *user)
{
	struct outcome *o = user;

	EXPECT(!o->done && (fd >= 0) == !e);
	o->done = true;
	o->fd = fd;
	if (e)
		o->e = *e;
}

int open_path(struct client *c, struct engine_sandbox *s, const char *path, struct outcome *o)
{
	*o = (struct outcome){.fd = -1};
	if (engine_open_file(s, path, on_fd, o, &o->e) < 0)
		return -1;
	turn_until(c, &o->done, BUDGET_MS);
	return o->fd;
}

enum err_code put_text(struct client *c, struct engine_sandbox *s, const char *path,
		       const char *text, bool overwrite)
{
	static struct outcome o;

	uint32_t put = 0;

	o = (struct outcome){.fd = -1};
	if (engine_put_file(s, path, overwrite, &put, on_fd, &o, &o.e) < 0)
		return o.e.code;
	turn_until(c, &o.done, BUDGET_MS);
	if (o.fd < 0)
		return o.e.code;
	bool keep = fd_write_all(o.fd, text, strlen(text)) == 0;
	(void)close(o.fd);
	o = (struct outcome){.fd = -1};
	EXPECT(engine_commit_file(s, put, path, overwrite, keep, on_done, &o, &o.e) == 0);
	turn_until(c, &o.done, BUDGET_MS);
	return keep ? o.e.code : ERR_NO_SPACE;
}

static void on_list(const struct engine_file *files, size_t n, bool more, const struct err *e,
		    void *user)
{
	struct outcome *o = user;

	EXPECT(!o->done);
	o->done = true;
	o->n_files = n;
	o->more = more;
	for (size_t i = 0; i < n && i < ARRAY_SIZE(o->files); i++)
		o->files[i] = files[i];
	if (e)
		o->e = *e;
}

void list_path(struct client *c, struct engine_sandbox *s, const char *path, struct outcome *o)
{
	*o = (struct outcome){.fd = -1};
	if (engine_list_files(s, path, on_list, o, &o->e) == 0)
		turn_until(c, &o->done, BUDGET_MS);
}

enum err_code remove_path(struct client *c, struct engine_sandbox *s, const char *path,
			  bool recursive)
{
	static struct outcome o;

	o = (struct outcome){.fd = -1};
	if (engine_remove_file(s, path, recursive, on_done, &o, &o.e) < 0)
		return o.e.code;
	turn_until(c, &o.done, BUDGET_MS);
	return o.e.code;
}

static void on_usage(const struct engine_usage *u, const struct err *e, void *user)
{
	struct outcome *o = user;

	EXPECT(!o->done);
	o->done = true;
	if (u)
		o->usage = *u;
	if (e)
		o->e = *e;
}

void usage_of(struct client *c, struct engine_sandbox *s, struct outcome *o)
{
	*o = (struct outcome){.fd = -1};
	EXPECT(engine_usage(s, on_usage, o, &o->e) == 0);
	turn_until(c, &o->done, BUDGET_MS);
}
