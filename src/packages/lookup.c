/* SPDX-License-Identifier: Apache-2.0 */
/* What the index has under a name, for a person who is about to install it. A resolver asks (lookup.py); what
 * it answers is checked here and remembered. */
#include "packages/jobs.h"

#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#define ENTRIES_MAX 256u  /* remembered; then all are forgotten */
#define KNOWN_MAX   8192u /* bytes of an answer that is remembered; they have one or two */
#define TEXT_MAX    2000u /* bytes of a text of the index */
#define TOTAL_MAX   1000000

/* ---- memory ---- */

/* Everything that the answer depends on, except the index itself. */
static void make_key(const struct job *j, char *ret, size_t size)
{
	const uint64_t *image = sandbox_policy(j->sandbox)->image_id;
	char name[SPEC_NAME_MAX + 1];

	spec_canonical(j->spec->items[0].name, name);
	(void)snprintf(ret, size, "%jx %jx %jx %s %s", (uintmax_t)image[0], (uintmax_t)image[1],
		       (uintmax_t)image[2], name, sandbox_image(j->sandbox));
}

#define KEY_SIZE (3 * 17 + SPEC_NAME_MAX + ENGINE_NAME_MAX + 3)

/* A borrowed reference, or NULL. */
static json_t *recall(const struct job *j)
{
	char key[KEY_SIZE];

	make_key(j, key, sizeof(key));
	json_t *known = json_object_get(j->packages->entries, key);
	const json_int_t at = json_integer_value(json_object_get(known, "at"));
	return known && now_ns() - (uint64_t)at < j->packages->config.plan_ttl_ns
		   ? json_object_get(known, "result")
		   : NULL;
}

static void remember(const struct job *j, json_t *result)
{
	json_t *entries = j->packages->entries;
	char key[KEY_SIZE];

	if (json_object_size(entries) >= ENTRIES_MAX)
		(void)json_object_clear(entries);
	make_key(j, key, sizeof(key));
	(void)json_object_set_new(
	    entries, key, json_pack("{s:I, s:O}", "at", (json_int_t)now_ns(), "result", result));
}

/* ---- the answer ---- */

static const char *word_of(const json_t *value)
{
	const char *s = json_string_value(value);

	return s && spec_is_word(s) ? s : "";
}

static const char *text_of(const json_t *value)
{
	const char *s = json_string_value(value);

	return s && strlen(s) <= TEXT_MAX ? s : "";
}

static void tell_missing(struct job *j)
{
	struct packages *p = j->packages;
	packages_entry_fn cb = j->entry_cb;
	void *user = j->user;
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_NOT_FOUND, 0, "the package index has nothing named '%s'",
		      j->spec->items[0].name);
	job_free(j);
	cb(NULL, &e, user);
	packages_pump(p);
}

static void tell(struct job *j, json_t *result)
{
	struct packages *p = j->packages;
	packages_entry_fn cb = j->entry_cb;
	void *user = j->user;
	const char *versions[PACKAGES_VERSIONS_MAX];
	struct package_entry entry = {
	    .name = word_of(json_object_get(result, "name")),
	    .version = word_of(json_object_get(result, "version")),
	    .summary = text_of(json_object_get(result, "summary")),
	    .why = text_of(json_object_get(result, "why")),
	    .versions = versions,
	};
	const json_int_t bytes = json_integer_value(json_object_get(result, "size"));
	const json_int_t total = json_integer_value(json_object_get(result, "total"));
	size_t i;
	json_t *version;

	json_array_foreach(json_object_get(result, "versions"), i, version)
		if (entry.n_versions < PACKAGES_VERSIONS_MAX && *word_of(version))
			versions[entry.n_versions++] = word_of(version);
	entry.bytes = bytes > 0 ? (uint64_t)bytes : 0;
	entry.total = total > 0 && total <= TOTAL_MAX ? (uint64_t)total : entry.n_versions;
	(void)json_incref(result);
	job_free(j);
	cb(&entry, NULL, user);
	json_decref(result);
	packages_pump(p);
}

void job_looked_up(struct packages_sandbox *b, const struct err *e, void *user)
{
	struct job *j = user;
	json_t *result = e ? NULL : (json_t *)(uintptr_t)packages_sandbox_result(b);

	if (e || result_error(result)) {
		job_fail_err(j, e, b);
	} else if (json_is_true(json_object_get(result, "missing"))) {
		tell_missing(j);
	} else {
		if (jsonio_size(result, KNOWN_MAX) <= KNOWN_MAX)
			remember(j, result);
		(void)json_incref(result); /* the sandbox owns it, and goes with the job */
		tell(j, result);
		json_decref(result);
	}
}

/* ---- a folder of wheels ---- */

/* The version of the wheel FILE, NAME-VERSION-..., if it is of the package CANONICAL. */
static bool version_of(const char *file, const char *canonical, char ret[SPEC_NAME_MAX + 1])
{
	char name[SPEC_NAME_MAX + 1];
	char have[SPEC_NAME_MAX + 1];
	const size_t n = strcspn(file, "-");
	const char *version = file[n] ? file + n + 1 : "";
	const size_t len = strcspn(version, "-");

	if (n > SPEC_NAME_MAX || len == 0 || len > SPEC_NAME_MAX)
		return false;
	memcpy(name, file, n);
	name[n] = '\0';
	memcpy(ret, version, len);
	ret[len] = '\0';
	spec_canonical(name, have);
	return streq(have, canonical) && spec_is_word(ret);
}

static int newest_first(const void *a, const void *b)
{
	return strverscmp(b, a);
}

/* The versions of the package s->name, the newest first. */
static void search_folder(struct step *s)
{
	const int dir =
	    openat(s->packages->config.wheel_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *d = dir < 0 ? NULL : fdopendir(dir);

	s->error = d ? 0 : -errno;
	for (struct dirent *de; d && s->n < PACKAGES_VERSIONS_MAX && (de = readdir(d));) {
		char file[256];
		if (url_wheel_name(de->d_name, file) && streq(file, de->d_name) &&
		    version_of(file, s->name, s->versions[s->n]))
			s->n++;
	}
	qsort(s->versions, s->n, sizeof(*s->versions), newest_first);
}

static void on_searched(struct job *j, struct step *s)
{
	if (s->error < 0) {
		job_fail(j, "the folder of wheels cannot be read (SANDBOX_PIP_WHEEL_DIR)", NULL);
		return;
	}
	if (s->n == 0) {
		tell_missing(j);
		return;
	}
	json_t *versions = json_array();
	for (size_t i = 0; i < s->n; i++)
		if (i == 0 || !streq(s->versions[i], s->versions[i - 1]))
			(void)json_array_append_new(versions, json_string(s->versions[i]));
	json_t *result = json_pack("{s:s, s:s, s:o}", "name", j->spec->items[0].name, "version",
				   s->versions[0], "versions", versions);
	if (result)
		tell(j, result);
	else
		job_fail_memory(j);
	json_decref(result);
}

static void look_in_folder(struct job *j)
{
	struct step *s = step_new(j, search_folder, on_searched);

	if (s)
		s->versions = calloc(PACKAGES_VERSIONS_MAX, sizeof(*s->versions));
	if (!s || !s->versions) {
		free(s);
		job_fail_memory(j);
		return;
	}
	spec_canonical(j->spec->items[0].name, s->name);
	step_start(s);
}

/* ---- the start ---- */

void job_look_up(struct job *j)
{
	json_t *known = recall(j);

	if (known) {
		tell(j, known);
		return;
	}
	if (j->packages->config.wheel_fd < 0) {
		j->have = json_array();
		job_resolve(j);
		return;
	}
	look_in_folder(j);
}
