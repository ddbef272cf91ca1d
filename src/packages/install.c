/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a job in the helper of its sandbox. Each step ends in a callback of that sandbox.
 * job_succeed() and job_fail() may end the job at any step. */
#include "packages/jobs.h"

#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"
#include "packages_scripts.h"

#include <string.h>

#define HELPER_MEMORY_MORE (UINT64_C(256) << 20)
#define HELPER_INODES      (PLAN_WHEELS_MAX + 64u)
#define TEXT_MAX           4000u /* bytes of the installer's output in a message */
#define ROWS_MAX           PACKAGES_LIST_MAX

/* ---- ends ---- */

void job_progress(struct job *j, const char *text, unsigned done, unsigned total)
{
	if (j->record)
		record_progress(j->record, text, done, total);
}

/* What whoever asked for a list, or about the index, is told. The cause keeps its code where it says what to do: that
 * the server has no room, no memory, no image. The rest comes from the programs that looked. That a helper was lost is
 * no reason to give up the sandbox, which lives as far as anybody knows. */
static void set_error(struct job *j, const char *message, struct err *e)
{
	const bool list = j->kind == JOB_LIST;
	enum err_code code = j->cause.code;

	if (!sandbox_engine(j->sandbox, e)) /* everything else that failed follows from that */
		return;
	switch ((int)code) {
	case ERR_TIMEOUT:
		code = list ? ERR_TIMEOUT : ERR_INDEX_UNAVAILABLE;
		break;
	case ERR_NONE:
	case ERR_EXECUTION_FAILED:
	case ERR_NOT_FOUND:
	case ERR_SANDBOX_LOST:
	case ERR_SYSTEM:
		code = list ? ERR_PACKAGES_UNREADABLE : ERR_INDEX_UNAVAILABLE;
		break;
	default:
		break;
	}
	(void)err_set(e, code, 0, "%s: %s",
		      list ? "the packages cannot be listed" : "the package index cannot be asked",
		      message);
}

/* Frees J, then reports. In this order, because the callback may ask for the next job. */
static void end(struct job *j, enum package_word word, const char *message, const char *errors,
		const json_t *installed)
{
	struct packages *p = j->packages;
	struct record *record = TAKE_PTR(j->record);
	packages_status_fn cb = j->cb;
	packages_list_fn list_cb = j->list_cb;
	packages_entry_fn entry_cb = j->entry_cb;
	bool check = j->kind == JOB_CHECK;
	void *user = j->user;
	json_t *kept = json_incref((json_t *)(uintptr_t)installed);
	/* Some callers pass a name from the plan of J. */
	_cleanup_free_ char *own_message = strdup(message);
	_cleanup_free_ char *own_errors = errors ? strdup(errors) : NULL;
	struct err e = ERR_INIT;

	if (list_cb || entry_cb)
		set_error(j, message, &e);
	job_free(j);
	message = own_message ? own_message : "no memory";
	errors = own_errors;
	if (record)
		record_end(record, word, message, errors, kept);
	else if (list_cb)
		list_cb(NULL, 0, &e, user);
	else if (entry_cb)
		entry_cb(NULL, &e, user);
	else
		status_tell(cb, user, word, check, message, errors);
	json_decref(kept);
	packages_pump(p);
}

static void job_succeed(struct job *j, const char *message, const json_t *installed)
{
	end(j, PACKAGE_SUCCESS, message, NULL, installed);
}

void job_fail(struct job *j, const char *message, const char *errors)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(PACKAGES_MESSAGE_MAX);
	static const char *const verbs[] = {[JOB_INSTALL] = "Failed to install ",
					    [JOB_UNINSTALL] = "Failed to uninstall ",
					    [JOB_LIST] = "",
					    [JOB_LOOK_UP] = "",
					    [JOB_CHECK] = "Error checking package status: "};
	bool named = j->kind == JOB_INSTALL || j->kind == JOB_UNINSTALL;
	bool more = errors && *errors && !streq(errors, message);
	int r = buf_printf(&text, "%s%s%s%s%s%s", verbs[j->kind], named ? j->text : "",
			   named ? ": " : "", message, more ? ": " : "", more ? errors : "");

	end(j, j->kind == JOB_CHECK ? PACKAGE_ERROR : PACKAGE_FAILED,
	    r < 0 ? message : buf_str(&text), errors ? errors : message, NULL);
}

const char *result_error(const json_t *result)
{
	return json_string_value(json_object_get(result, "error"));
}

/* The message of a failure for people: the script's own, otherwise what pip wrote, otherwise
 * that of E. */
void job_fail_err(struct job *j, const struct err *e, const struct packages_sandbox *sandbox)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(3 * TEXT_MAX + 16);
	const struct buf *output = sandbox ? packages_sandbox_output(sandbox) : NULL;
	const char *word = sandbox ? result_error(packages_sandbox_result(sandbox)) : NULL;
	size_t skip = output && output->len > TEXT_MAX ? output->len - TEXT_MAX : 0;

	if (e)
		j->cause = *e;
	if (!e && word && !streq(word, "pip")) {
		_cleanup_(buf_done) struct buf own = BUF_INIT(3 * TEXT_MAX + 16);
		int r = text_add_utf8_lossy(&own, word, MIN(strlen(word), (size_t)TEXT_MAX));
		job_fail(j, r < 0 ? "it failed" : buf_str(&own), NULL);
		return;
	}
	if (output && text_add_utf8_lossy(&text, output->data + skip, output->len - skip) < 0)
		buf_reset(&text);
	while (text.len > 0 && strchr(" \r\n", text.data[text.len - 1]))
		text.data[--text.len] = '\0';
	if (e && e->code == ERR_TIMEOUT) {
		job_fail(j, e->text, NULL);
	} else if (text.len > 0 && sandbox == j->resolver &&
		   strstr(buf_str(&text), "No space left on device")) {
		/* The index did not tell sizes, so pip has downloaded until the resolver's disk was full. */
		char own[200];
		(void)snprintf(own, sizeof(own),
			       "the wheels have more than the %ju MiB that one installation may "
			       "have (SANDBOX_INSTALL_MAX_BYTES)",
			       (uintmax_t)(j->packages->config.max_bytes >> 20));
		job_fail(j, own, NULL);
	} else if (e && (e->code == ERR_STORE_FULL || e->code == ERR_NO_SPACE)) {
		struct err own = *e;
		(void)err_set(&own, e->code, 0, "%s. %s", e->text, err_code_hint(e->code));
		job_fail(j, own.text, NULL);
	} else if (text.len > 0) {
		job_fail(j, buf_str(&text), buf_str(&text));
	} else {
		job_fail(j, e ? e->text : "it failed", NULL);
	}
}

void job_fail_memory(struct job *j)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "an installation");
	job_fail_err(j, &e, NULL);
}

/* ---- unpacking ---- */

static void note_installed(const struct job *j)
{
	const struct packages_config *c = &j->packages->config;

	for (size_t i = 0; c->changed && i < j->plan.n; i++)
		c->changed(j->sandbox, j->plan.wheels[i].name, j->plan.wheels[i].version, c->user);
}

static void on_installed(struct packages_sandbox *b, const struct err *e, void *user)
{
	struct job *j = user;
	_cleanup_(buf_done) struct buf text = BUF_INIT(PACKAGES_SPEC_MAX + 64);

	if (e || result_error(packages_sandbox_result(b))) {
		job_fail_err(j, e, b);
		return;
	}
	note_installed(j);
	int r = buf_printf(&text, "Successfully installed %s", j->text);
	job_succeed(j, r < 0 ? "Successfully installed" : buf_str(&text),
		    json_object_get(packages_sandbox_result(b), "installed"));
}

static void unpack(struct job *j)
{
	json_t *wheels = json_array();
	int r = wheels ? 0 : -1;

	for (size_t i = 0; i < j->plan.n && r == 0; i++) {
		const struct wheel *w = &j->plan.wheels[i];
		r = json_array_append_new(wheels, json_pack("{s:s, s:s, s:s, s:i}", "file", w->file,
							    "name", w->name, "version", w->version,
							    "requested", (int)w->requested));
	}
	json_t *job = r == 0 ? json_pack("{s:O, s:I}", "wheels", wheels, "max_bytes",
					 8 * (json_int_t)j->packages->config.max_bytes)
			     : NULL;
	json_decref(wheels);
	if (!job) {
		job_fail_memory(j);
		return;
	}
	job_progress(j, "Installing", 3, 4);
	packages_sandbox_run(j->helper, job, packages_unpack_text, j->packages->config.timeout_ns,
			     on_installed, j);
}

static void give_next(struct job *j);

/* If a wheel's bytes have changed, the wheel and the plan that named it are forgotten, so that
 * the next try fetches it again. */
static void on_given(struct packages_sandbox *b UNUSED, const struct err *e, void *user)
{
	struct job *j = user;

	if (e) {
		if (e->code == ERR_SYSTEM)
			cache_drop(j->packages->cache, j->plan.wheels[j->at].sha256);
		plans_forget(j->packages->plans, j->key);
		job_fail_err(j, e, NULL);
		return;
	}
	j->at++;
	give_next(j);
}

static void give_next(struct job *j)
{
	if (j->at == j->plan.n) {
		unpack(j);
		return;
	}
	const struct wheel *w = &j->plan.wheels[j->at];
	packages_sandbox_put(j->helper, w->file, w->fd, w->sha256[0] ? w->sha256 : NULL, on_given,
			     j);
}

void job_unpack(struct job *j)
{
	char message[PACKAGES_SPEC_MAX + 64];

	if (j->plan.n == 0) {
		(void)snprintf(message, sizeof(message), "Package %s is already installed",
			       j->text);
		job_succeed(j, message, NULL);
		return;
	}
	job_progress(j, "Unpacking", 2, 4);
	j->at = 0;
	give_next(j);
}

/* ---- the plan ---- */

static void add_to_hash(crypto_hash_sha256_state *sha, const char *text)
{
	(void)crypto_hash_sha256_update(sha, (const uint8_t *)text, strlen(text) + 1);
}

/* The key of a plan: everything that the answer of an index depends on, except the index itself.
 * An image that was rebuilt counts as another image, even under the same name. */
static int make_key(struct job *j)
{
	size_t len;
	_cleanup_free_ char *have = jsonio_text(j->have, JSON_COMPACT, &len);
	const uint64_t *image = sandbox_policy(j->sandbox)->image_id;
	uint8_t digest[crypto_hash_sha256_BYTES];
	crypto_hash_sha256_state sha;

	if (!have)
		return -ENOMEM;
	(void)crypto_hash_sha256_init(&sha);
	add_to_hash(&sha, sandbox_image(j->sandbox));
	(void)crypto_hash_sha256_update(&sha, (const uint8_t *)image, sizeof(*image) * 3);
	add_to_hash(&sha, have);
	for (size_t i = 0; i < j->spec->n; i++)
		add_to_hash(&sha, j->spec->items[i].text);
	(void)crypto_hash_sha256_final(&sha, digest);
	text_hex(digest, sizeof(digest), j->key);
	return 0;
}

/* A remembered plan is used if the cache still has all of its wheels. */
static void on_opened(struct job *j, struct step *s)
{
	if (step_take_wheels(s) == 0) {
		job_unpack(j);
	} else {
		plan_done(&j->plan);
		job_resolve(j);
	}
}

/* ---- what is there ---- */

/* Reads [[name, version], ...] from a list of a result. Leaves out entries that are not plain
 * words. */
static json_t *take_rows(const json_t *result, const char *key, size_t max)
{
	json_t *rows = json_array();
	size_t i;
	json_t *row;

	json_array_foreach(json_object_get(result, key), i, row) {
		const char *name = json_string_value(json_array_get(row, 0));
		const char *version = json_string_value(json_array_get(row, 1));

		if (!name || !version || !spec_is_word(name) || !spec_is_word(version) ||
		    json_array_size(rows) >= max)
			continue;
		if (json_array_append_new(rows, json_pack("[s, s]", name, version)) < 0)
			break;
	}
	return rows;
}

static void tell_list(struct job *j, const json_t *here, const json_t *image)
{
	struct packages *p = j->packages;
	size_t n_here = json_array_size(here);
	size_t n = n_here + json_array_size(image);
	struct package_row *rows = calloc(n + 1, sizeof(*rows));
	packages_list_fn cb = j->list_cb;
	void *user = j->user;

	if (!rows) {
		job_fail_memory(j);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		const json_t *row =
		    i < n_here ? json_array_get(here, i) : json_array_get(image, i - n_here);
		rows[i] = (struct package_row){
		    .name = json_string_value(json_array_get(row, 0)),
		    .version = json_string_value(json_array_get(row, 1)),
		    .from_image = i >= n_here,
		};
	}
	job_free(j);
	cb(rows, n, NULL, user);
	free(rows);
	packages_pump(p);
}

static bool has(const json_t *rows, const char *name)
{
	char want[SPEC_NAME_MAX + 1];
	char have[SPEC_NAME_MAX + 1];
	size_t i;
	json_t *row;

	spec_canonical(name, want);
	json_array_foreach(rows, i, row) {
		spec_canonical(json_string_value(json_array_get(row, 0)), have);
		if (streq(want, have))
			return true;
	}
	return false;
}

static void tell_check(struct job *j, const json_t *here, const json_t *image)
{
	char message[PACKAGES_SPEC_MAX + 64];
	bool all = true;

	for (size_t i = 0; i < j->spec->n; i++)
		all = all &&
		      (has(here, j->spec->items[i].name) || has(image, j->spec->items[i].name));
	(void)snprintf(message, sizeof(message), "%s %s%s",
		       all ? "Package" : "No installation record found for", j->text,
		       all ? " is already installed" : "");
	end(j, all ? PACKAGE_SUCCESS : PACKAGE_NOT_FOUND, message, NULL, NULL);
}

static void on_list(struct packages_sandbox *b, const struct err *e, void *user)
{
	struct job *j = user;

	if (e || result_error(packages_sandbox_result(b))) {
		job_fail_err(j, e, b);
		return;
	}
	json_t *here = take_rows(packages_sandbox_result(b), "here", ROWS_MAX);
	json_t *image =
	    take_rows(packages_sandbox_result(b), "image", ROWS_MAX - json_array_size(here));
	if (j->kind == JOB_LIST) {
		tell_list(j, here, image);
	} else if (j->kind == JOB_CHECK) {
		tell_check(j, here, image);
	} else {
		j->have = take_rows(packages_sandbox_result(b), "here", HAVE_MAX);
		if (!j->have || make_key(j) < 0)
			job_fail_memory(j);
		else if (plans_find(j->packages->plans, j->key, &j->plan) == 0)
			job_open_wheels(j, on_opened);
		else
			job_resolve(j);
	}
	json_decref(here);
	json_decref(image);
}

static void on_removed(struct packages_sandbox *b, const struct err *e, void *user)
{
	struct job *j = user;
	char message[PACKAGES_SPEC_MAX + 64];

	if (e || result_error(packages_sandbox_result(b))) {
		job_fail_err(j, e, b);
		return;
	}
	/* Earlier records about this sandbox are no longer true. */
	record_drop_ended(j->packages, j->sandbox);
	const struct packages_config *c = &j->packages->config;
	for (size_t i = 0; c->changed && i < j->spec->n; i++)
		c->changed(j->sandbox, j->spec->items[i].name, NULL, c->user);
	(void)snprintf(message, sizeof(message), "Successfully uninstalled %s", j->text);
	job_succeed(j, message, NULL);
}

static json_t *first_job(const struct job *j)
{
	json_t *names = json_array();

	if (j->kind != JOB_UNINSTALL) {
		json_decref(names);
		return json_pack("{s:s, s:i}", "do", "list", "all",
				 (int)(j->all || j->kind == JOB_CHECK));
	}
	for (size_t i = 0; i < j->spec->n; i++)
		if (json_array_append_new(names, json_string(j->spec->items[i].name)) < 0)
			break;
	return json_pack("{s:s, s:o}", "do", "uninstall", "names", names);
}

static void on_helper(struct packages_sandbox *b, const struct err *e, void *user)
{
	struct job *j = user;
	json_t *job = e ? NULL : first_job(j);

	if (e)
		job_fail_err(j, e, NULL);
	else if (!job)
		job_fail_memory(j);
	else
		packages_sandbox_run(b, job, packages_list_text, SHORT_RUN_NS,
				     j->kind == JOB_UNINSTALL ? on_removed : on_list, j);
}

void job_start(struct job *j)
{
	struct packages *p = j->packages;
	struct err e = ERR_INIT;
	struct engine_create create = {.limits = sandbox_policy(j->sandbox)->limits,
				       .warm = true,
				       .owner = sandbox_owner(j->sandbox),
				       .helper_of = sandbox_engine(j->sandbox, &e)};

	if (!create.helper_of) {
		job_fail_err(j, &e, NULL);
		return;
	}
	/* The helper's workspace holds the wheels. The unpacked packages count as files of the
	 * sandbox itself. */
	create.limits.explicit_mask = 0;
	create.limits.workspace_bytes = p->config.max_bytes;
	create.limits.workspace_inodes = HELPER_INODES;
	create.limits.memory_bytes += p->config.max_bytes + HELPER_MEMORY_MORE;
	(void)snprintf(create.image, sizeof(create.image), "%s", sandbox_image(j->sandbox));
	(void)snprintf(create.level, sizeof(create.level), "%s",
		       sandbox_policy(j->sandbox)->level.name);
	const struct packages_sandbox_config config = {.loop = p->config.loop,
						       .engine = manager_engine(p->config.manager),
						       .create = &create,
						       .payer = sandbox_owner(j->sandbox)};
	j->helper = packages_sandbox_new(&config, on_helper, j, &e);
	if (!j->helper)
		job_fail_err(j, &e, NULL);
}
