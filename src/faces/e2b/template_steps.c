/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a build, each by its type. */
#include "faces/e2b/template_build.h"

#include "base/text.h"
#include "base/workers.h"
#include "sandbox/upload.h"

#include <string.h>

/* ---- steps ---- */

static const char *arg(const json_t *step, size_t i)
{
	const json_t *v = json_array_get(json_object_get(step, "args"), i);
	const char *text = json_string_value(v);

	return text && strlen(text) == json_string_length(v) ? text : "";
}

static bool is_name(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z');
}

/* $NAME and ${NAME} become what they are worth; `\$` stays a dollar. */
static int expand(const json_t *env, const char *text, struct buf *ret)
{
	char name[SANDBOX_ENV_NAME_MAX + 1];
	int r = 0;

	while (*text && r == 0) {
		const bool braces = text[0] == '$' && text[1] == '{';
		const char *from = text + 1 + braces;
		size_t n = 0;

		if (text[0] == '\\' && text[1] == '$') {
			r = buf_add_char(ret, '$');
			text += 2;
			continue;
		}
		while (text[0] == '$' && is_name(from[n]))
			n++;
		if (n == 0 || n >= sizeof(name) || (braces && from[n] != '}')) {
			r = buf_add_char(ret, *text++);
			continue;
		}
		memcpy(name, from, n);
		name[n] = '\0';
		const char *value = json_string_value(json_object_get(env, name));
		r = buf_add_str(ret, value ? value : "");
		text = from + n + braces;
	}
	return r;
}

static int set_variable(json_t *env, const char *name, const char *text, struct err *e)
{
	_cleanup_(buf_done) struct buf value = BUF_INIT(SANDBOX_ENV_VALUE_MAX);

	if (expand(env, text, &value) < 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "the value of %.128s is longer than %d bytes", name,
			       SANDBOX_ENV_VALUE_MAX);
	if (json_object_set_new(env, name, json_string(buf_str(&value))) < 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "the name or the value of '%.128s' is not UTF-8", name);
	return 0;
}

/* The variables become an option of each sandbox of the template, so the same rules refuse them now. */
static int check_env(json_t *env, struct err *e)
{
	struct sandbox_options options = {0};
	json_t *o = json_pack("{s:O}", "env", env);
	int r = sandbox_options_read(o, false, &options, e);

	json_decref(o);
	sandbox_options_done(&options);
	if (r == 0 && json_object_size(env) > BUILD_ENV_MAX)
		r = err_set(e, ERR_INVALID_ARGUMENT, 0, "a template may have at most %d variables",
			    BUILD_ENV_MAX);
	return r;
}

static void do_env(struct building *w, const json_t *step)
{
	json_t *env = w->build->setup.env;
	const size_t n = json_array_size(json_object_get(step, "args"));
	struct err e = ERR_INIT, said = ERR_INIT;
	int r = 0;

	for (size_t i = 0; i + 1 < n && r == 0; i += 2)
		r = set_variable(env, arg(step, i), arg(step, i + 1), &e);
	r = r < 0 ? r : check_env(env, &e);
	if (r == 0) {
		building_next_step(w);
		return;
	}
	(void)err_set(&said, e.code, 0, "ENV: %s", e.text);
	building_fail(w, &said);
}

/* Absolute, from the working folder on. */
static int absolute(const struct building *w, const char *path, struct buf *ret)
{
	_cleanup_(buf_done) struct buf given = BUF_INIT(ENGINE_PATH_MAX);
	int r = expand(w->build->setup.env, path, &given);

	if (r == 0 && buf_str(&given)[0] != '/')
		r = buf_printf(ret, "%s/", w->build->setup.workdir);
	return r < 0 ? r : buf_add_str(ret, buf_str(&given));
}

static const char *user_of(const struct building *w)
{
	return w->build->setup.root ? "root" : "user";
}

static void do_workdir(struct building *w, const json_t *step)
{
	/* What is made on the way belongs to the user. */
	static const char script[] =
	    "p=$1; new=; while [ ! -e \"$p\" ]; do new=$p; p=$(dirname \"$p\"); done\n"
	    "mkdir -p -- \"$1\"; [ -z \"$new\" ] || chown -R \"$2:\" -- \"$new\"";
	_cleanup_(buf_done) struct buf path = BUF_INIT(ENGINE_PATH_MAX);

	if (absolute(w, arg(step, 0), &path) < 0 ||
	    text_copy(w->build->setup.workdir, sizeof(w->build->setup.workdir), buf_str(&path)) <
		0) {
		building_fail_with(w, ERR_INVALID_ARGUMENT, "WORKDIR: a path");
		return;
	}
	const char *const args[4] = {w->build->setup.workdir, user_of(w)};
	building_run_script(w, script, args, building_next_step);
}

static void do_user(struct building *w, const json_t *step)
{
	const char *name = arg(step, 0);

	if (!streq(name, "root") && !streq(name, "user")) {
		building_fail_with(w, ERR_INVALID_ARGUMENT,
				   "USER: sandboxes of this server have the users root and user");
		return;
	}
	w->build->setup.root = streq(name, "root");
	building_next_step(w);
}

static void do_run(struct building *w, const json_t *step)
{
	const char *user = arg(step, 1);
	const char *argv[] = {"/bin/bash", "-l", "-c", arg(step, 0), NULL};
	const struct building_command c = {.root =
					       *user ? streq(user, "root") : w->build->setup.root,
					   .cwd = w->build->setup.workdir,
					   .argv = argv};

	if (*user && !streq(user, "root") && !streq(user, "user"))
		building_fail_with(w, ERR_INVALID_ARGUMENT,
				   "RUN: sandboxes of this server have the users root and user");
	else
		building_run(w, &c, building_next_step);
}

/* ---- COPY ---- */

/* A file is moved to its place, or into it if that ends with a slash; of a folder the content. */
static void unpack(struct building *w)
{
	static const char script[] =
	    "t=$(mktemp -d /srv/.copy.XXXXXX); trap 'rm -rf -- \"$t\" \"$HOME_ARCHIVE\"' EXIT\n"
	    "tar -xf \"$HOME_ARCHIVE\" -C \"$t\" --no-same-owner\n"
	    "s=$1; case $s in *[*?[]*) s=${s%%[*?[]*}; case $s in */*) s=${s%/*} ;; *) s=. ;; esac "
	    ";; esac\n"
	    "p=$t/$s; [ -e \"$p\" ] || [ -L \"$p\" ] || { echo \"$s is not in the archive\" >&2; "
	    "exit 1; }\n"
	    "case $3 in *:*) o=$3 ;; *) o=$3: ;; esac; chown -hR \"$o\" -- \"$p\"\n"
	    "[ -z \"$4\" ] || chmod -R \"$4\" -- \"$p\"\n"
	    "if [ -d \"$p\" ] && [ ! -L \"$p\" ]; then mkdir -p -- \"$2\"; cp -a -- \"$p/.\" "
	    "\"$2/\"\n"
	    "else case $2 in */) mkdir -p -- \"$2\"; mv -f -- \"$p\" \"$2\" ;;\n"
	    "*) mkdir -p -- \"$(dirname -- \"$2\")\"; [ -d \"$2\" ] && mv -f -- \"$p\" \"$2/\" || "
	    "mv -f -T -- \"$p\" \"$2\" ;; esac; fi";
	const json_t *step = json_array_get(w->steps, w->at - 1);
	_cleanup_(buf_done) struct buf to = BUF_INIT(ENGINE_PATH_MAX);
	const char *owner = arg(step, 2);

	if (absolute(w, arg(step, 1), &to) < 0) {
		building_fail_with(w, ERR_INVALID_ARGUMENT, "COPY: a path");
		return;
	}
	(void)json_object_set_new(w->build->setup.env, "HOME_ARCHIVE",
				  json_string(E2B_HOME "/" BUILD_ARCHIVE));
	const char *const args[4] = {arg(step, 0), buf_str(&to), *owner ? owner : user_of(w),
				     arg(step, 3)};
	building_run_script(w, script, args, building_next_step);
	(void)json_object_del(w->build->setup.env, "HOME_ARCHIVE");
}

static void on_copied(uint64_t written UNUSED, const struct err *e, void *user)
{
	struct building *w = user;

	workers_close(w->build->id, w->fd);
	w->fd = -1;
	w->opening = false;
	if (w->stopped)
		building_free(w);
	else if (e)
		building_fail(w, e);
	else
		unpack(w);
}

static void on_archive(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct building *w = user;
	struct err failed = ERR_INIT;

	w->opening = false;
	w->fd = fd;
	if (w->stopped) {
		building_free(w);
		return;
	}
	if (e) {
		(void)err_set(&failed, ERR_NOT_FOUND, 0,
			      "what is to be copied was not uploaded: %s", e->text);
		w->fd = -1;
		building_fail(w, &failed);
		return;
	}
	const struct upload_request request = {.path = BUILD_ARCHIVE,
					       .overwrite = true,
					       .source = {.fd = fd, .len = info->size},
					       .on_done = on_copied,
					       .user = w};
	w->opening = true;
	if (sandbox_upload(w->sandbox, &request, &failed) < 0) {
		w->opening = false;
		building_fail(w, &failed);
	}
}

static void do_copy(struct building *w, const json_t *step)
{
	const char *hash = json_string_value(json_object_get(step, "filesHash"));
	struct e2b_sandbox *archives = w->build->archives;
	struct err e = ERR_INIT;

	if (!hash || !e2b_is_hash(hash) || !archives || !archives->sandbox) {
		building_fail_with(w, ERR_NOT_FOUND, "what is to be copied was not uploaded");
		return;
	}
	(void)snprintf(w->path, sizeof(w->path), "%s" E2B_ARCHIVE_END, hash);
	w->opening = true;
	if (sandbox_open_file(archives->sandbox, w->path, on_archive, w, &e) < 0) {
		w->opening = false;
		building_fail(w, &e);
	}
}

static const struct {
	const char *type;
	void (*fn)(struct building *w, const json_t *step);
} kinds[] = {{"ENV", do_env},
	     {"WORKDIR", do_workdir},
	     {"USER", do_user},
	     {"RUN", do_run},
	     {"COPY", do_copy}};

void building_log_step(struct building *w, size_t i, const char *front)
{
	_cleanup_(buf_done) struct buf line = BUF_INIT(BUILD_LINE_MAX);
	const json_t *step = json_array_get(w->steps, i), *v;
	const char *type = json_string_value(json_object_get(step, "type"));
	size_t k;

	(void)snprintf(w->step, sizeof(w->step), "%zu", i + 1);
	(void)!buf_printf(&line, "%s[%zu/%zu] %s", front, i + 1, json_array_size(w->steps),
			  type ? type : "?");
	json_array_foreach(json_object_get(step, "args"), k, v)
		(void)!buf_printf(&line, " %.200s", arg(step, k));
	e2b_build_log(w->build, "info", w->step, buf_str(&line), line.len);
}

void building_next_step(struct building *w)
{
	const json_t *step = json_array_get(w->steps, w->at);
	const char *type = json_string_value(json_object_get(step, "type"));

	if (building_make_point(w))
		return;
	if (!step) {
		(void)snprintf(w->step, sizeof(w->step), "finalize");
		building_finalize(w);
		return;
	}
	building_log_step(w, w->at++, "");
	for (size_t i = 0; type && i < ARRAY_SIZE(kinds); i++)
		if (streq(kinds[i].type, type)) {
			kinds[i].fn(w, step);
			return;
		}
	building_fail_with(w, ERR_INVALID_ARGUMENT, "this server does not know such a step");
}
