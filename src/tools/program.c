/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/program.h"

#include "tools/last_bytes.h"

#include <string.h>

struct program {
	struct buf code;
	struct buf out;
	char err[PROGRAM_ERR_MAX];
	size_t err_len;
	bool too_much;
	program_fn cb;
	void *user;
};

int program_add_bytes(struct buf *code, const char *name, const char *data, size_t len)
{
	int r = buf_printf(code, "%s = b'", name);

	for (size_t i = 0; r == 0 && i < len; i++)
		r = buf_printf(code, "\\x%02x", (unsigned)(unsigned char)data[i]);
	return r < 0 ? r : buf_add_str(code, "'\n");
}

static void program_free(struct program *p)
{
	buf_done(&p->code);
	buf_done(&p->out);
	free(p);
}

static void on_output(struct run *r, enum engine_stream stream, const void *data, size_t len,
		      void *user)
{
	struct program *p = user;

	if (stream == ENGINE_STDERR)
		last_bytes_add(p->err, sizeof(p->err), &p->err_len, data, len);
	if (stream != ENGINE_STDOUT || p->too_much)
		return;
	if (buf_add(&p->out, data, len) == 0)
		return;
	p->too_much = true;
	run_cancel(r);
}

static void on_done(struct run *r UNUSED, const struct run_result *result, const struct err *e,
		    void *user)
{
	struct program *p = user;
	struct program_result end = {.out = &p->out, .err = p->err, .err_len = p->err_len};

	if (!e) {
		end.reason = result->reason;
		end.good = result->reason == RUN_EXITED && result->exit_code == 0 && !p->too_much;
	}
	p->cb(e ? NULL : &end, e, p->user);
	program_free(p);
}

int program_run(struct sandbox *s, struct buf *code, size_t out_max, uint64_t timeout_ns,
		program_fn cb, void *user, struct err *e)
{
	struct program *p = calloc(1, sizeof(*p));
	struct run *run;

	if (!p) {
		buf_done(code);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a program");
	}
	p->code = *code;
	*code = (struct buf){0};
	buf_init(&p->out, out_max);
	p->cb = cb;
	p->user = user;
	const struct run_request request = {
	    .kind = ENGINE_RUN_PYTHON,
	    .code = buf_str(&p->code),
	    .code_len = p->code.len,
	    .timeout_ns = timeout_ns,
	    .own = true,
	    .unbounded = true,
	    .no_artifacts = true,
	    .on_output = on_output,
	    .on_done = on_done,
	    .user = p,
	};
	int r = sandbox_run(s, &request, &run, e);
	if (r < 0)
		program_free(p);
	return r;
}
