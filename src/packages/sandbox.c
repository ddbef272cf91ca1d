/* SPDX-License-Identifier: Apache-2.0 */
#include "packages/sandbox.h"

#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"

#include <string.h>

#define CODE_MAX   (4u << 20)
#define GRACE_NS   NS_PER_S
#define OUTPUT_ALL (1u << 30)

struct packages_sandbox {
	sd_event *loop;
	struct engine *engine;
	struct engine_sandbox *handle;
	struct egress *egress;
	struct egress_policy *policy; /* reference */
	struct egress_gate *gate;
	char label[EGRESS_LABEL_MAX + 1];
	char payer[WORKERS_WHO_SIZE];
	bool freed;             /* packages_sandbox_free() was called: no callback any more */
	unsigned pending;       /* calls of the engine that have not ended yet */
	packages_sandbox_fn cb; /* callback of the current operation */
	void *user;
	struct buf code;   /* script of the current run */
	struct buf output; /* the last PACKAGES_SANDBOX_OUTPUT_MAX bytes */
	struct buf answer; /* whole */
	int answered;      /* -errno: it could not be kept */
	json_t *result;
	struct copy *copy;
	int file; /* file of the current copy */
	char path[ENGINE_PATH_MAX];
	uint32_t put; /* the engine's number of the file being written */
	int other;    /* borrowed: the other end of the copy */
	uint64_t max;
	char wanted[SHA256_HEX]; /* digest that the copied bytes must have; "" = any */
	char sha256[SHA256_HEX];
	uint64_t bytes;
	struct err failed; /* error of a copy; told when its file has been removed */
};

static void close_file(struct packages_sandbox *b)
{
	workers_close(b->payer, b->file);
	b->file = -1;
}

static void maybe_gone(struct packages_sandbox *b)
{
	if (!b->freed || b->pending > 0)
		return;
	buf_done(&b->code);
	buf_done(&b->output);
	buf_done(&b->answer);
	json_decref(b->result);
	free(b);
}

static void begin(struct packages_sandbox *b, packages_sandbox_fn cb, void *user)
{
	ASSERT(!b->cb && !b->freed);
	b->cb = cb;
	b->user = user;
}

static void end(struct packages_sandbox *b, const struct err *e)
{
	packages_sandbox_fn cb = b->cb;

	b->cb = NULL;
	if (cb && !b->freed)
		cb(b, e, b->user);
}

/* A call of the engine has ended. False: packages_sandbox_free() was called, and the sandbox may be freed now. */
static bool call_ended(struct packages_sandbox *b)
{
	b->pending--;
	if (!b->freed)
		return true;
	maybe_gone(b);
	return false;
}

/* Reports an operation that could not begin. Callers expect every callback from the event loop,
 * never from inside their own call. */
static int on_refused(sd_event_source *source, void *user)
{
	struct packages_sandbox *b = user;

	(void)sd_event_source_disable_unref(source);
	if (call_ended(b))
		end(b, &b->failed);
	return 0;
}

static void refuse(struct packages_sandbox *b)
{
	sd_event_source *source = NULL;

	b->pending++;
	if (sd_event_add_defer(b->loop, &source, on_refused, b) < 0) {
		b->pending--;
		end(b, &b->failed);
	}
}

/* ---- making and ending ---- */

static void on_destroyed(const struct err *e UNUSED, void *user)
{
	(void)call_ended(user);
}

static void destroy(struct packages_sandbox *b)
{
	struct engine_sandbox *handle = TAKE_PTR(b->handle);

	if (!handle)
		return;
	b->pending++;
	engine_destroy(handle, on_destroyed, b);
}

static int open_gate(struct packages_sandbox *b, struct err *e)
{
	int fd = engine_take_egress(b->handle);

	if (fd < 0)
		return err_set(e, ERR_ENGINE_NOT_BUILT_IN, 0,
			       "this engine gives sandboxes no way out");
	return egress_open_gate(b->egress, fd, b->label, b->policy, NULL, &b->gate, e);
}

static void on_created(struct engine_sandbox *s, const struct engine_policy *policy UNUSED,
		       const struct err *e, void *user)
{
	struct packages_sandbox *b = user;
	struct err failed = ERR_INIT;

	b->handle = e ? NULL : s;
	if (b->freed)
		destroy(b);
	if (!call_ended(b))
		return;
	if (!e && b->policy && open_gate(b, &failed) < 0)
		e = &failed;
	end(b, e);
}

struct packages_sandbox *packages_sandbox_new(const struct packages_sandbox_config *config,
					      packages_sandbox_fn cb, void *user, struct err *e)
{
	struct packages_sandbox *b = calloc(1, sizeof(*b));

	if (!b) {
		(void)err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a helper sandbox");
		return NULL;
	}
	b->loop = config->loop;
	b->engine = config->engine;
	b->egress = config->egress;
	b->policy = config->policy ? egress_policy_ref(config->policy) : NULL;
	(void)snprintf(b->label, sizeof(b->label), "%s", config->label ? config->label : "");
	(void)snprintf(b->payer, sizeof(b->payer), "%s", config->payer ? config->payer : "");
	b->file = -1;
	buf_init(&b->code, CODE_MAX);
	buf_init(&b->output, 4 * PACKAGES_SANDBOX_OUTPUT_MAX);
	buf_init(&b->answer, PACKAGES_SANDBOX_RESULT_MAX);
	begin(b, cb, user);
	b->pending = 1;
	if (engine_create(b->engine, config->create, on_created, b, e) == 0)
		return b;
	b->pending = 0;
	return packages_sandbox_free(b);
}

uint64_t packages_sandbox_cpu_ns(const struct packages_sandbox *b)
{
	return b && b->handle ? engine_cpu_ns(b->handle) : 0;
}

struct packages_sandbox *packages_sandbox_free(struct packages_sandbox *b)
{
	if (!b)
		return NULL;
	b->freed = true;
	b->copy = copy_cancel(b->copy);
	close_file(b);
	b->gate = egress_close_gate(b->gate);
	b->policy = egress_policy_unref(b->policy);
	b->pending++; /* keeps the sandbox alive while destroy() runs */
	destroy(b);
	(void)call_ended(b);
	return NULL;
}

/* ---- runs ---- */

static void on_output(struct engine_run *r UNUSED, enum engine_stream stream, const void *data,
		      size_t len, void *user)
{
	struct packages_sandbox *b = user;
	const char *at = data;

	if (stream == ENGINE_STDOUT) {
		if (b->answered == 0)
			b->answered = buf_add(&b->answer, at, len);
		return;
	}
	if (len > PACKAGES_SANDBOX_OUTPUT_MAX) {
		at += len - PACKAGES_SANDBOX_OUTPUT_MAX;
		len = PACKAGES_SANDBOX_OUTPUT_MAX;
	}
	if (b->output.len + len > 2 * PACKAGES_SANDBOX_OUTPUT_MAX)
		buf_consume(&b->output, b->output.len + len - PACKAGES_SANDBOX_OUTPUT_MAX);
	if (buf_add(&b->output, at, len) < 0)
		buf_reset(&b->output); /* without memory the text is lost; the work goes on */
}

/* An answer that a thread reads: megabytes of JSON take tens of milliseconds. */
struct reading {
	struct packages_sandbox *sandbox;
	struct buf text;
	json_t *result;
	int error;
};

/* About how many values TEXT has; what stands in strings counts, too. */
static size_t values_in(const struct buf *text)
{
	size_t n = 0;

	for (size_t i = 0; i < text->len; i++)
		n += text->data[i] == ',' || text->data[i] == '[' || text->data[i] == '{';
	return n;
}

static void read_answer(void *user)
{
	struct reading *r = user;

	r->error = values_in(&r->text) > PACKAGES_SANDBOX_VALUES_MAX
		       ? -EBADMSG
		       : jsonio_read_on_thread(buf_str(&r->text), r->text.len,
					       JSON_REJECT_DUPLICATES, &r->result);
	buf_done(&r->text);
}

static void answer_was_read(void *user)
{
	struct reading *r = user;
	struct packages_sandbox *b = r->sandbox;
	const int error = r->error;
	json_t *result = r->result;
	struct err e = ERR_INIT;

	free(r);
	if (!call_ended(b)) {
		json_decref(result);
		return;
	}
	b->result = result;
	if (error == -ENOMEM)
		(void)err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "its result");
	else if (error < 0 || !json_is_object(result))
		(void)err_set(&e, ERR_EXECUTION_FAILED, 0, "it left no result");
	end(b, e.code == ERR_NONE ? NULL : &e);
}

static int take_result(struct packages_sandbox *b, struct err *e)
{
	if (b->answered < 0)
		return b->answered == -ENOMEM
			   ? err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "its result")
			   : err_set(e, ERR_EXECUTION_FAILED, 0, "it left no result");
	struct reading *r = malloc(sizeof(*r));
	if (!r)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "its result");
	*r = (struct reading){.sandbox = b, .text = b->answer};
	buf_init(&b->answer, PACKAGES_SANDBOX_RESULT_MAX);
	b->pending++;
	if (workers_run_counted(b->payer, read_answer, answer_was_read, r) == 0)
		return 0;
	b->pending--;
	buf_done(&r->text);
	free(r);
	return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "its result");
}

static void on_run_done(struct engine_run *r UNUSED, const struct engine_run_result *res,
			const struct err *e, void *user)
{
	struct packages_sandbox *b = user;
	struct err failed = ERR_INIT;

	if (!call_ended(b))
		return;
	if (e)
		failed = *e;
	else if (res->end == ENGINE_END_TIMEOUT)
		(void)err_set(&failed, ERR_TIMEOUT, 0, "it took too long");
	else if (res->end == ENGINE_END_OOM)
		(void)err_set(&failed, ERR_OUT_OF_MEMORY, 0, "it needed more memory than there is");
	else if (res->end != ENGINE_END_EXITED || res->exit_code != 0)
		(void)err_set(&failed, ERR_EXECUTION_FAILED, 0, "it ended with status %d",
			      res->exit_code);
	else if (take_result(b, &failed) == 0)
		return;
	end(b, &failed);
}

static int make_code(struct packages_sandbox *b, json_t *job, const char *script, struct err *e)
{
	/* Python reads JSON as a literal if it has no true, false, null and only ASCII. */
	size_t len;
	_cleanup_free_ char *text = jsonio_text(job, JSON_ENSURE_ASCII | JSON_COMPACT, &len);
	int r = text ? 0 : -ENOMEM;

	json_decref(job);
	buf_reset(&b->code);
	r = r < 0 ? r : buf_printf(&b->code, "JOB = %s\n%s", text, script);
	return r < 0 ? err_set(e, ERR_OUT_OF_MEMORY, -r, "a script for a helper sandbox") : 0;
}

void packages_sandbox_run(struct packages_sandbox *b, json_t *job, const char *script,
			  uint64_t timeout_ns, packages_sandbox_fn cb, void *user)
{
	struct engine_run *run = NULL;

	begin(b, cb, user);
	b->failed = ERR_INIT;
	buf_reset(&b->output);
	buf_reset(&b->answer);
	b->answered = 0;
	json_decref(b->result);
	b->result = NULL;
	if (make_code(b, job, script, &b->failed) < 0) {
		refuse(b);
		return;
	}
	struct engine_run_spec spec = {
	    .kind = ENGINE_RUN_PYTHON,
	    .code = b->code.data,
	    .code_len = b->code.len,
	    .stdin_fd = -1,
	    .timeout_ns = timeout_ns,
	    .grace_ns = GRACE_NS,
	    .output_kill = OUTPUT_ALL,
	    .on_output = on_output,
	    .on_done = on_run_done,
	    .user = b,
	};
	b->pending++;
	if (engine_run(b->handle, &spec, &run, &b->failed) == 0)
		return;
	b->pending--;
	refuse(b);
}

const struct buf *packages_sandbox_output(const struct packages_sandbox *b)
{
	return &b->output;
}

const json_t *packages_sandbox_result(const struct packages_sandbox *b)
{
	return b->result;
}

/* ---- files ---- */

/* Keeps the error of a copy. FULL: the error code for a full disk, which differs by direction. */
static void note_copy(struct packages_sandbox *b, int r, enum err_code full, const char *sha256,
		      uint64_t bytes)
{
	b->copy = NULL;
	close_file(b);
	memcpy(b->sha256, sha256, sizeof(b->sha256));
	b->bytes = bytes;
	b->failed = ERR_INIT;
	if (r == -EBUSY)
		(void)err_set(&b->failed, ERR_RATE_LIMITED, EBUSY, "%s", b->path);
	else if (r == -ENOSPC || r == -EDQUOT)
		(void)err_set(&b->failed, full, -r, "%s", b->path);
	else if (r < 0)
		(void)err_set(&b->failed, ERR_SYSTEM, -r, "%s", b->path);
	else if (b->wanted[0] && !streq(b->wanted, sha256))
		(void)err_set(&b->failed, ERR_SYSTEM, 0, "%s is damaged", b->path);
}

static bool start_copy(struct packages_sandbox *b, int from, int to, uint64_t max, copy_fn cb)
{
	b->copy = copy_start(b->loop, b->payer, from, to, max, cb, b);
	if (b->copy)
		return true;
	close_file(b);
	(void)err_set(&b->failed, ERR_OUT_OF_MEMORY, ENOMEM, "%s", b->path);
	return false;
}

static void on_committed(const struct err *e, void *user)
{
	struct packages_sandbox *b = user;

	if (call_ended(b))
		end(b, b->failed.code != ERR_NONE ? &b->failed : e);
}

static void commit(struct packages_sandbox *b)
{
	struct err e = ERR_INIT;
	bool keep = b->failed.code == ERR_NONE;

	b->pending++;
	if (engine_commit_file(b->handle, b->put, b->path, ENGINE_FILE_OVERWRITE, keep,
			       on_committed, b, &e) == 0)
		return;
	b->pending--;
	if (keep)
		b->failed = e;
	refuse(b);
}

static void on_put_copied(int r, const char *sha256, uint64_t bytes, void *user)
{
	struct packages_sandbox *b = user;

	note_copy(b, r, ERR_NO_SPACE, sha256, bytes);
	commit(b);
}

/* The engine has opened a file, or failed. True: it is open and the copy may begin. */
static bool file_came(struct packages_sandbox *b, int fd, const struct err *e)
{
	if (!call_ended(b)) {
		workers_close("", fd); /* B may be gone */
		return false;
	}
	if (e) {
		end(b, e);
		return false;
	}
	b->file = fd;
	return true;
}

static void on_put_fd(int fd, const struct err *e, void *user)
{
	struct packages_sandbox *b = user;

	if (!file_came(b, fd, e))
		return;
	if (!start_copy(b, b->other, fd, UINT64_MAX, on_put_copied))
		commit(b);
}

void packages_sandbox_put(struct packages_sandbox *b, const char *path, int fd, const char *sha256,
			  packages_sandbox_fn cb, void *user)
{
	begin(b, cb, user);
	b->failed = ERR_INIT;
	b->other = fd;
	(void)snprintf(b->path, sizeof(b->path), "%s", path);
	(void)snprintf(b->wanted, sizeof(b->wanted), "%s", sha256 ? sha256 : "");
	b->pending++;
	if (engine_put_file(b->handle, path, ENGINE_FILE_OVERWRITE, &b->put, on_put_fd, b,
			    &b->failed) == 0)
		return;
	b->pending--;
	refuse(b);
}

static void on_got(int r, const char *sha256, uint64_t bytes, void *user)
{
	struct packages_sandbox *b = user;

	note_copy(b, r, ERR_STORE_FULL, sha256, bytes);
	end(b, b->failed.code != ERR_NONE ? &b->failed : NULL);
}

static void on_get_fd(int fd, const struct err *e, void *user)
{
	struct packages_sandbox *b = user;

	if (!file_came(b, fd, e))
		return;
	if (!start_copy(b, fd, b->other, b->max, on_got))
		end(b, &b->failed);
}

void packages_sandbox_get(struct packages_sandbox *b, const char *path, int fd, uint64_t max,
			  packages_sandbox_fn cb, void *user)
{
	begin(b, cb, user);
	b->failed = ERR_INIT;
	b->other = fd;
	b->max = max;
	b->wanted[0] = '\0';
	(void)snprintf(b->path, sizeof(b->path), "%s", path);
	b->pending++;
	if (engine_open_file(b->handle, path, on_get_fd, b, &b->failed) == 0)
		return;
	b->pending--;
	refuse(b);
}

const char *packages_sandbox_sha256(const struct packages_sandbox *b)
{
	return b->sha256;
}

uint64_t packages_sandbox_bytes(const struct packages_sandbox *b)
{
	return b->bytes;
}
