/* SPDX-License-Identifier: Apache-2.0 */
/* The resolver of one installation: a fresh sandbox without anybody's data. It asks the index
 * which wheels are needed and fetches those that the cache does not have. */
#include "packages/jobs.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "packages_scripts.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#define FILES_MAX                                                                                  \
	(2 * PLAN_WHEELS_MAX) /* wheels that an answer names; each of the plan is looked for */
#define MEMORY_MORE                                                                                \
	(UINT64_C(768) << 20) /* beyond the size of the files, which are in memory as
					   * well */
#define TMP_BYTES    (UINT64_C(64) << 20)
#define LOOKUP_BYTES (UINT64_C(16) << 20) /* one small wheel, for its metadata */
#define INODES       200000u
#define NOFILE       1024u
#define PIDS_MIN     64u
#define CA_PATH      "ca.pem"
#define WHEELS_PATH  "wheels/"
#define FOLDER_PATH  "index/"
#define PROXY        "http://127.0.0.1:3128"

/* ---- what both scripts are told ---- */

static int add_trusted(json_t *where, const struct url *index)
{
	const bool v6 = strchr(index->host, ':') != NULL;
	char trusted[300];

	(void)snprintf(trusted, sizeof(trusted), "%s%s%s:%u", v6 ? "[" : "", index->host,
		       v6 ? "]" : "", index->port);
	return json_array_append_new(where, json_string("--trusted-host")) +
	       json_array_append_new(where, json_string(trusted));
}

static int add_where(const struct job *j, json_t *where)
{
	const struct packages *p = j->packages;
	int r = 0;

	if (p->config.wheel_fd >= 0)
		return json_array_append_new(where, json_string("--no-index")) +
		       json_array_append_new(where, json_string("--find-links")) +
		       json_array_append_new(where, json_string(FOLDER_PATH));
	r += json_array_append_new(where, json_string("--index-url"));
	r += json_array_append_new(where, json_string(p->index_url));
	r += json_array_append_new(where, json_string("--proxy"));
	r += json_array_append_new(where, json_string(PROXY));
	if (p->config.ca_fd >= 0) {
		r += json_array_append_new(where, json_string("--cert"));
		r += json_array_append_new(where, json_string(CA_PATH));
	}
	if (!p->index.https)
		r += add_trusted(where, &p->index);
	if (!p->extra_index_url[0])
		return r;
	r += json_array_append_new(where, json_string("--extra-index-url"));
	r += json_array_append_new(where, json_string(p->extra_index_url));
	return p->extra_index.https ? r : r + add_trusted(where, &p->extra_index);
}

/* SPECS is owned. NULL: no memory. */
static json_t *make_job(const struct job *j, const char *what, json_t *specs)
{
	json_t *where = json_array();

	if (!where || add_where(j, where) != 0) {
		json_decref(where);
		json_decref(specs);
		return NULL;
	}
	return json_pack("{s:s, s:o, s:o, s:i, s:I, s:I, s:O}", "do", what, "specs", specs, "where",
			 where, "sources", (int)j->packages->config.allow_sources, "max_bytes",
			 (json_int_t)j->packages->config.max_bytes, "disk_bytes",
			 (json_int_t)sandbox_policy(j->sandbox)->limits.workspace_bytes, "have",
			 j->have);
}

/* ---- the end ---- */

/* Every wheel is open now. */
static void finish(struct job *j)
{
	struct packages *p = j->packages;

	j->cpu_ns += packages_sandbox_cpu_ns(j->resolver);
	j->resolver = packages_sandbox_free(j->resolver);
	/* A plan that built packages or local wheels had a part in is used for this installation
	 * alone. */
	if (!p->config.allow_sources && p->config.wheel_fd < 0)
		plans_keep(p->plans, j->key, &j->plan);
	job_unpack(j);
}

/* ---- fetching ---- */

static bool is_among(const json_t *files, const char *name)
{
	size_t i;
	json_t *file;

	json_array_foreach(files, i, file)
		if (json_is_string(file) && streq(json_string_value(file), name))
			return true;
	return false;
}

static void get_next(struct job *j);

static void on_got(struct packages_sandbox *b, const struct err *e, void *user)
{
	struct job *j = user;
	struct wheel *w = &j->plan.wheels[j->at];
	struct packages *p = j->packages;

	if (e) {
		job_fail_err(j, e, NULL);
		return;
	}
	if (w->sha256[0] && !streq(w->sha256, packages_sandbox_sha256(b))) {
		job_fail(j, "a wheel is not what the index says of it", w->file);
		return;
	}
	(void)snprintf(w->sha256, sizeof(w->sha256), "%s", packages_sandbox_sha256(b));
	if (!p->config.allow_sources)
		cache_keep(p->cache, w->fd, w->sha256, packages_sandbox_bytes(b));
	j->at++;
	get_next(j);
}

static void begin_wheel(struct step *s)
{
	s->fd = cache_begin(s->packages->cache);
}

static void on_begun(struct job *j, struct step *s)
{
	char path[sizeof(WHEELS_PATH) + 256];
	struct wheel *w = &j->plan.wheels[j->at];

	if (s->fd < 0) {
		job_fail_memory(j);
		return;
	}
	w->fd = TAKE_FD(s->fd);
	(void)snprintf(path, sizeof(path), "%s%s", WHEELS_PATH, w->file);
	packages_sandbox_get(j->resolver, path, w->fd, j->packages->config.max_bytes, on_got, j);
}

static void get_next(struct job *j)
{
	while (j->at < j->plan.n && j->plan.wheels[j->at].fd >= 0)
		j->at++;
	if (j->at == j->plan.n) {
		finish(j);
		return;
	}
	struct step *s = step_new(j, begin_wheel, on_begun);
	if (s)
		step_start(s);
	else
		job_fail_memory(j);
}

/* The name of a wheel that is built from source is known only afterwards: NAME-VERSION-... A wheel of the index
 * must be the file that the index has, whatever the programs of other packages did to it here. */
static bool find_built(const json_t *files, struct wheel *w)
{
	char want[SPEC_NAME_MAX + 1];
	char have[SPEC_NAME_MAX + 1];
	size_t i;
	json_t *file;

	if (w->file[0])
		return is_among(files, w->file);
	spec_canonical(w->name, want);
	json_array_foreach(files, i, file) {
		const char *name = json_string_value(file);
		size_t len = name ? strcspn(name, "-") : 0;
		char stem[SPEC_NAME_MAX + 1];

		if (!name || len == 0 || len > SPEC_NAME_MAX || strlen(name) >= sizeof(w->file))
			continue;
		memcpy(stem, name, len);
		stem[len] = '\0';
		spec_canonical(stem, have);
		if (streq(want, have) && url_wheel_name(name, w->file)) {
			w->sha256[0] = '\0'; /* that was the digest of the source */
			return true;
		}
	}
	return false;
}

static void take_built(struct job *j, const json_t *files)
{
	for (size_t i = 0; i < j->plan.n; i++) {
		struct wheel *w = &j->plan.wheels[i];
		if (w->fd < 0 && (json_array_size(files) > FILES_MAX || !find_built(files, w))) {
			job_fail(j, "no wheel was built", w->name);
			return;
		}
	}
	j->at = 0;
	get_next(j);
}

static void on_fetched(struct packages_sandbox *b, const struct err *e, void *user)
{
	struct job *j = user;

	if (e || result_error(packages_sandbox_result(b))) {
		job_fail_err(j, e, b);
		return;
	}
	j->at = 0;
	get_next(j);
}

static void fetch(struct job *j)
{
	json_t *specs = json_array();
	int r = specs ? 0 : -1;

	for (size_t i = 0; i < j->plan.n && r == 0; i++) {
		const struct wheel *w = &j->plan.wheels[i];
		char spec[SPEC_NAME_MAX + PLAN_URL_MAX + 100];

		if (w->fd >= 0)
			continue;
		(void)snprintf(spec, sizeof(spec), "%s @ %s%s%s", w->name, w->url,
			       w->sha256[0] ? "#sha256=" : "", w->sha256);
		r = json_array_append_new(specs, json_string(spec));
	}
	json_t *job = r == 0 ? make_job(j, "fetch", specs) : NULL;
	if (!job) {
		job_fail_memory(j);
		return;
	}
	job_progress(j, "Downloading", 1, 4);
	packages_sandbox_run(j->resolver, job, packages_resolve_text,
			     j->packages->config.timeout_ns, on_fetched, j);
}

/* ---- the plan ---- */

/* Has the resolver fetched every wheel that is not open yet, in the same run? Then their names are
 * in FILES. */
static bool are_fetched(const struct job *j, const json_t *files)
{
	if (json_array_size(files) > FILES_MAX)
		return false;
	for (size_t i = 0; i < j->plan.n; i++) {
		const struct wheel *w = &j->plan.wheels[i];

		if (w->fd < 0 && !is_among(files, w->file))
			return false;
	}
	return true;
}

static void on_opened(struct job *j, struct step *s)
{
	const json_t *files = json_object_get(packages_sandbox_result(j->resolver), "wheels");

	if (step_take_wheels(s) == 0) {
		finish(j);
	} else if (j->packages->config.allow_sources) {
		take_built(j, files);
	} else if (are_fetched(j, files)) {
		j->at = 0;
		get_next(j);
	} else {
		fetch(j);
	}
}

static void on_resolved(struct packages_sandbox *b, const struct err *e, void *user)
{
	struct job *j = user;

	if (e || result_error(packages_sandbox_result(b))) {
		job_fail_err(j, e, b);
		return;
	}
	if (plan_parse(json_object_get(packages_sandbox_result(b), "plan"),
		       j->packages->config.allow_sources, &j->plan) < 0) {
		job_fail(j, "the index answers with something that is no list of wheels", NULL);
		return;
	}
	job_open_wheels(j, on_opened);
}

static void ask(struct job *j)
{
	const bool look = j->kind == JOB_LOOK_UP;
	json_t *specs = json_array();
	int r = specs ? 0 : -1;

	for (size_t i = 0; i < j->spec->n && r == 0; i++)
		r = json_array_append_new(specs, json_string(j->spec->items[i].text));
	json_t *job = r == 0 ? make_job(j, "resolve", specs) : NULL;
	if (!job)
		job_fail_memory(j);
	else if (look)
		packages_sandbox_run(j->resolver, job, packages_lookup_text, SHORT_RUN_NS,
				     job_looked_up, j);
	else
		packages_sandbox_run(j->resolver, job, packages_resolve_text,
				     j->packages->config.timeout_ns, on_resolved, j);
}

/* ---- what the resolver is given ---- */

/* Opens the next file of the folder of wheels (s->at of them were given already). The error is -ENODATA after the
 * last one; else s->path is the file that cannot be read, "" for the folder. */
static void open_next(struct step *s)
{
	int dir = openat(s->packages->config.wheel_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *d = dir < 0 ? NULL : fdopendir(dir);
	size_t n = 0;

	s->error = d ? -ENODATA : -errno;
	if (!d)
		return;
	for (struct dirent *de; (de = readdir(d));) {
		char name[256];
		if (!url_wheel_name(de->d_name, name) || !streq(name, de->d_name) || n++ < s->at)
			continue;
		(void)snprintf(s->path, sizeof(s->path), "%s%s", FOLDER_PATH, name);
		s->fd = openat(dirfd(d), name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
		s->error = s->fd < 0 ? -errno : 0;
		return;
	}
}

static void fail_local(struct job *j, const char *path, int error)
{
	char text[512];
	const char *name = strrchr(path, '/');

	(void)snprintf(text, sizeof(text),
		       "the folder of wheels cannot be read (SANDBOX_PIP_WHEEL_DIR): %s%s%s",
		       name ? name + 1 : "", name ? ": " : "", strerror(error));
	job_fail(j, text, NULL);
}

static void give_next(struct job *j);

static void on_given(struct packages_sandbox *b UNUSED, const struct err *e, void *user)
{
	struct job *j = user;

	if (e) {
		job_fail_err(j, e, NULL);
		return;
	}
	j->at++;
	give_next(j);
}

static void give(struct job *j, const char *path)
{
	if (j->giving >= 0)
		packages_sandbox_put(j->resolver, path, j->giving, NULL, on_given, j);
	else
		ask(j);
}

static void on_next(struct job *j, struct step *s)
{
	if (s->error < 0 && s->error != -ENODATA) {
		fail_local(j, s->path, -s->error);
		return;
	}
	j->giving = TAKE_FD(s->fd);
	give(j, s->path);
}

static void give_next(struct job *j)
{
	const struct packages_config *c = &j->packages->config;

	workers_close(sandbox_owner(j->sandbox), j->giving);
	j->giving = -1;
	if (c->wheel_fd < 0) {
		if (j->at == 0 && c->ca_fd >= 0)
			j->giving = fd_dup(c->ca_fd);
		give(j, CA_PATH);
		return;
	}
	struct step *s = step_new(j, open_next, on_next);
	if (!s) {
		job_fail_memory(j);
		return;
	}
	s->at = j->at;
	step_start(s);
}

static void on_ready(struct packages_sandbox *b UNUSED, const struct err *e, void *user)
{
	struct job *j = user;

	if (e) {
		job_fail_err(j, e, NULL);
		return;
	}
	j->at = 0;
	give_next(j);
}

void job_resolve(struct job *j)
{
	struct packages *p = j->packages;
	struct engine_create create = {.limits = sandbox_policy(j->sandbox)->limits,
				       .warm = true,
				       .owner = sandbox_owner(j->sandbox),
				       .single = true, /* a pool is for sessions, not for this */
				       .egress = p->config.wheel_fd < 0};
	const uint64_t files = j->kind == JOB_LOOK_UP ? LOOKUP_BYTES : 2 * p->config.max_bytes;
	struct err e = ERR_INIT;
	char label[EGRESS_LABEL_MAX + 1];

	create.limits.explicit_mask = 0;
	create.limits.workspace_bytes = files;
	create.limits.workspace_inodes = INODES;
	create.limits.tmp_bytes = TMP_BYTES;
	create.limits.memory_bytes = files + TMP_BYTES + MEMORY_MORE;
	create.limits.nofile = NOFILE;
	create.limits.pids = MAX(create.limits.pids, PIDS_MIN);
	(void)snprintf(create.image, sizeof(create.image), "%s", sandbox_image(j->sandbox));
	(void)snprintf(create.level, sizeof(create.level), "%s",
		       sandbox_policy(j->sandbox)->level.name);
	(void)snprintf(label, sizeof(label), "%s%spackages of %s", sandbox_owner(j->sandbox),
		       sandbox_owner(j->sandbox)[0] ? "/" : "", sandbox_id(j->sandbox));
	const struct packages_sandbox_config config = {.loop = p->config.loop,
						       .engine = manager_engine(p->config.manager),
						       .create = &create,
						       .egress = p->config.egress,
						       .policy = create.egress ? p->policy : NULL,
						       .label = label,
						       .payer = sandbox_owner(j->sandbox)};
	job_progress(j, "Asking the index", 0, 4);
	j->resolver = packages_sandbox_new(&config, on_ready, j, &e);
	if (!j->resolver)
		job_fail_err(j, &e, NULL);
}
