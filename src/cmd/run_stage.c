/* SPDX-License-Identifier: Apache-2.0 */
/* What `caisson run` does between the making of its sandbox and the first run: copies files in, then
 * installs packages. */
#include "cmd/run_verb.h"

#include "base/fdio.h"
#include "base/text.h"
#include "sandbox/upload.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void copy_next(struct run_verb *v);

static void on_copied(uint64_t written UNUSED, const struct err *e, void *user)
{
	struct run_verb *v = user;
	struct run_input *input = &v->inputs.list[v->next_input++];

	input->fd = fd_close(input->fd);
	if (e)
		run_verb_fail(v, e);
	else
		copy_next(v);
}

static void on_installed(const struct package_status *status, void *user)
{
	struct run_verb *v = user;
	struct err e = ERR_INIT;

	if (status->word == PACKAGE_SUCCESS) {
		v->staged(v);
		return;
	}
	if (status->errors[0])
		(void)!fd_write_all(STDERR_FILENO, status->errors, strlen(status->errors));
	(void)err_set(&e, ERR_EXECUTION_FAILED, 0, "--with: %.400s", status->message);
	run_verb_fail(v, &e);
}

static void install(struct run_verb *v)
{
	struct err e = ERR_INIT;
	const struct packages_request request = {
	    .spec = buf_str(&v->packages),
	    .wait_ns = UINT64_MAX,
	    .cb = on_installed,
	    .user = v,
	};

	if (v->packages.len == 0)
		v->staged(v);
	else if (packages_install(v->app.packages, v->sandbox, &request, &e) < 0)
		run_verb_fail(v, &e);
}

static void copy_next(struct run_verb *v)
{
	struct err e = ERR_INIT;

	if (v->next_input == v->inputs.n) {
		install(v);
		return;
	}
	const struct run_input *input = &v->inputs.list[v->next_input];
	const struct upload_request request = {
	    .path = input->path,
	    .overwrite = true,
	    .source = {.fd = input->fd, .len = input->size},
	    .on_done = on_copied,
	    .user = v,
	};

	if (sandbox_upload(v->sandbox, &request, &e) < 0)
		run_verb_fail(v, &e);
}

void run_stage(struct run_verb *v)
{
	copy_next(v);
}

/* ---- before the start ---- */

int run_stage_prepare(struct run_verb *v, const struct run_args *a, struct err *e)
{
	int r = 0;

	v->inputs.max_bytes = v->app.settings.workspace_limit;
	buf_init(&v->packages, PACKAGES_SPEC_MAX);
	for (size_t i = 0; r >= 0 && a->in[i]; i++)
		r = run_inputs_add(&v->inputs, a->in[i], e);
	if (r >= 0 && v->inputs.left_out > 0)
		(void)fprintf(stderr, "caisson run: %u links and special files are not copied\n",
			      v->inputs.left_out);
	for (size_t i = 0; r >= 0 && a->with[i]; i++)
		if (buf_printf(&v->packages, "%s\n", a->with[i]) < 0)
			r = err_set(e, ERR_USAGE, 0, "--with: the packages are too many");
	if (r >= 0 && v->packages.len > 0) {
		r = packages_check_spec(v->packages.data, v->packages.len, e);
		r = r < 0 ? err_wrap(e, "--with") : 0;
	}
	return r;
}

/* `--env NAME` takes the value from our own environment, so that a secret need not be on a command line,
 * which every user of the machine can read. */
static int add_variable(json_t *env, const char *text, struct err *e)
{
	size_t len = strcspn(text, "=");
	char name[SANDBOX_ENV_NAME_MAX + 1];

	if (len == 0 || len >= sizeof(name))
		return err_set(e, ERR_USAGE, 0, "--env: give NAME=VALUE, or NAME of a variable");
	memcpy(name, text, len);
	name[len] = '\0';
	const char *value = text[len] ? text + len + 1 : getenv(name);
	if (!value)
		return err_set(e, ERR_USAGE, 0, "--env %s: there is no such variable", name);
	json_t *json = json_string(value);
	if (!json)
		return err_set(e, ERR_USAGE, 0, "--env %s: the value is not UTF-8", name);
	return json_object_set_new(env, name, json) < 0 ? err_set(e, ERR_USAGE, 0, "--env %s", name)
							: 0;
}

int run_stage_options(const struct run_args *a, struct sandbox_options *ret, struct err *e)
{
	json_t *env = json_object();
	json_t *object = json_pack("{s:o}", "env", env);
	int r = object ? 0 : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "--env");

	for (size_t i = 0; r >= 0 && a->env[i]; i++)
		r = add_variable(env, a->env[i], e);
	r = r < 0 ? r : sandbox_options_read(object, false, ret, e);
	json_decref(object);
	return r;
}
