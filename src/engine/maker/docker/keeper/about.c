/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/maker/docker/keeper/about.h"

#include "base/jsonio.h"
#include "base/parse.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ASK_S       5u
#define REPLY_MAX   (1u << 20)
#define API_MAJOR   1u
#define MINOR_LEAST 40u /* Docker 19.03, Podman 3 */
#define MINOR_MOST  47u /* the newest whose calls were read */

static const char *text_of(const json_t *doc, const char *key)
{
	const char *s = json_string_value(json_object_get(doc, key));

	return s ? s : "";
}

/* "1.N" -> N; 0 = not such a version. */
static uint32_t minor_of(const char *s)
{
	uint64_t n;

	return text_starts_with(s, "1.") && parse_u64(s + 2, 1, 999, &n) == 0 ? (uint32_t)n : 0;
}

static int unreadable(const struct daemon *a, struct err *e)
{
	return err_set(e, ERR_ENGINE_UNAVAILABLE, 0,
		       "what answers at %s is no container daemon that Caisson knows",
		       daemon_host(a));
}

static int ask(struct daemon *a, const char *path, json_t **ret, struct err *e)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(REPLY_MAX);
	json_error_t why;
	const int status = daemon_ask(a, "GET", path, NULL, ASK_S, &reply);

	if (status == 0)
		return err_set(e, ERR_ENGINE_UNAVAILABLE, 0,
			       "the container daemon at %s does not answer (%s); start it, or set "
			       "DOCKER_HOST",
			       daemon_host(a), daemon_why(a));
	if (status != 200 || jsonio_read(reply.data, reply.len, 0, ret, &why) < 0)
		return unreadable(a, e);
	return 0;
}

static void name_product(const json_t *version, struct docker_about *ret)
{
	const json_t *list = json_object_get(version, "Components");
	const char *first = text_of(json_array_get(list, 0), "Name");

	(void)snprintf(ret->product, sizeof(ret->product), "%s",
		       strstr(first, "Podman") ? "Podman" : "Docker");
	(void)snprintf(ret->version, sizeof(ret->version), "%.31s", text_of(version, "Version"));
}

static int negotiate(struct daemon *a, struct docker_about *ret, struct err *e)
{
	json_t *doc = NULL;
	int r = ask(a, "/version", &doc, e);

	if (r < 0)
		return r;
	const uint32_t most = minor_of(text_of(doc, "ApiVersion"));
	const uint32_t least = minor_of(text_of(doc, "MinAPIVersion"));
	const uint32_t minor = MIN(most, MINOR_MOST);

	name_product(doc, ret);
	json_decref(doc);
	if (most == 0)
		return unreadable(a, e);
	if (minor < MINOR_LEAST || least > MINOR_MOST)
		return err_set(
		    e, ERR_ENGINE_UNAVAILABLE, 0,
		    "%s %s speaks version 1.%u to 1.%u of the Docker API; Caisson needs one "
		    "from 1.%u to 1.%u",
		    ret->product, ret->version, least, most, MINOR_LEAST, MINOR_MOST);
	(void)snprintf(ret->api, sizeof(ret->api), "v%u.%u", API_MAJOR, minor);
	daemon_set_version(a, ret->api);
	return 0;
}

static bool has_option(const json_t *info, const char *name)
{
	const json_t *list = json_object_get(info, "SecurityOptions");
	char prefix[40];

	(void)snprintf(prefix, sizeof(prefix), "name=%s", name);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *s = json_string_value(json_array_get(list, i));
		if (s && (streq(s, name) || text_starts_with(s, prefix)))
			return true;
	}
	return false;
}

static void take_cap(const json_t *info, const char *key, uint32_t cap, struct docker_about *ret)
{
	if (json_is_true(json_object_get(info, key)))
		ret->enforced |= cap;
	else
		ret->best_effort |= cap;
}

/* The names of all runtimes, as far as there is room for them. */
static void name_runtimes(const json_t *info, struct docker_about *ret)
{
	json_t *list = json_object_get(info, "Runtimes"), *value;
	const char *name;
	size_t len = 0;

	json_object_foreach(list, name, value) {
		if (len + strlen(name) + 2 > sizeof(ret->runtimes))
			return;
		(void)snprintf(ret->runtimes + len, sizeof(ret->runtimes) - len, "%s%s",
			       len > 0 ? " " : "", name);
		len = strlen(ret->runtimes);
	}
}

/* NAME is "" for the daemon's default. */
static enum docker_runtime judge(const json_t *info, const char *name)
{
	const bool named = *name != '\0';

	name = named ? name : text_of(info, "DefaultRuntime");
	const json_t *row = json_object_get(json_object_get(info, "Runtimes"), name);

	/* Podman calls its default by a path, which is not in the list. */
	return row || !named ? DOCKER_RUNTIME_GOOD : DOCKER_RUNTIME_MISSING;
}

static int take_runtimes(const json_t *info, const struct keeper_config *config,
			 struct docker_about *ret, struct err *e)
{
	const struct engine_levels *l = &config->levels;

	(void)snprintf(ret->runtime, sizeof(ret->runtime), "%.63s",
		       text_of(info, "DefaultRuntime"));
	name_runtimes(info, ret);
	for (unsigned i = 0; i < l->n; i++)
		ret->level[i] = judge(info, l->at[i].runtime);
	const struct engine_level *usual = &l->at[l->usual];
	const char *name = usual->runtime[0] ? usual->runtime : ret->runtime;
	if (ret->level[l->usual] == DOCKER_RUNTIME_MISSING)
		return err_set(e, ERR_ENGINE_UNAVAILABLE, 0,
			       "%s has no runtime '%s', which the level %s has "
			       "(SANDBOX_RUNTIME, SANDBOX_LEVELS); it has: %s",
			       ret->product, name, usual->name, ret->runtimes);
	return 0;
}

int about_ask(struct daemon *a, const struct keeper_config *config, struct docker_about *ret,
	      struct err *e)
{
	json_t *info = NULL;

	*ret = (struct docker_about){0};
	(void)snprintf(ret->host, sizeof(ret->host), "%s", daemon_host(a));
	int r = negotiate(a, ret, e);
	r = r < 0 ? r : ask(a, "/info", &info, e);
	if (r < 0)
		return r;
	if (!streq(text_of(info, "OSType"), "linux")) {
		json_decref(info);
		return err_set(e, ERR_ENGINE_UNAVAILABLE, 0,
			       "the daemon makes no Linux containers");
	}
	take_cap(info, "MemoryLimit", ENGINE_CAP_MEMORY, ret);
	take_cap(info, "CpuCfsQuota", ENGINE_CAP_CPU, ret);
	take_cap(info, "PidsLimit", ENGINE_CAP_PIDS, ret);
	/* Volumes in memory have a size. */
	ret->enforced |= ENGINE_CAP_DISK | ENGINE_CAP_RUNTIME;
	ret->best_effort |= ENGINE_CAP_OWN_UID;
	/* Only root may give the folders of a stored workspace to the uid of containers. */
	if (geteuid() == 0)
		ret->best_effort |= ENGINE_CAP_PERSISTENT;
	if (config->warm)
		ret->enforced |= ENGINE_CAP_WARM;
	ret->userns = has_option(info, "userns");
	ret->rootless = has_option(info, "rootless");
	ret->seccomp = has_option(info, "seccomp");
	(void)snprintf(ret->cgroup, sizeof(ret->cgroup), "v%.14s",
		       *text_of(info, "CgroupVersion") ? text_of(info, "CgroupVersion") : "?");
	r = take_runtimes(info, config, ret, e);
	json_decref(info);
	return r;
}

int docker_look(const struct keeper_config *config, struct docker_about *ret, struct err *e)
{
	struct daemon *a = NULL;
	int r = daemon_new(config, &a, e);

	r = r < 0 ? r : about_ask(a, config, ret, e);
	(void)daemon_free(a);
	return r;
}
