/* SPDX-License-Identifier: Apache-2.0 */
/* The engines that this build has, and the one place that answers for operations that an engine
 * lacks. */
#include "engine/engine_ops.h"

#include "base/text.h"
#include "engine/front/inside/inside.h"
#include "engine/maker/docker/docker.h"
#include "engine/maker/native/native.h"
#include "engine/maker/native/probe.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define FRONT_USER "caisson"

/* With those of /tmp, of pipes and of sockets, a file takes 1 to 2 KiB of the kernel's memory without what
 * is in its buffers. */
#define BYTES_OF_FILE    (24u << 10)
#define UNCOUNTED        4u
#define OPEN_FILES_LEAST 1024u
#define OPEN_FILES_MOST  65536u

static const struct {
	const char *name;
	const struct engine_ops *ops; /* NULL: known, not in this build */
} engines[] = {
    {"native", &native_ops},
    {"docker", &docker_ops},
};

static int find(const char *name, const struct engine_ops **ret, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
		if (!streq(engines[i].name, name))
			continue;
		*ret = engines[i].ops;
		return *ret ? 0
			    : err_set(e, ERR_ENGINE_NOT_BUILT_IN, 0,
				      "the engine '%s' is not built in", name);
	}
	return err_set(e, ERR_SETTING_INVALID, EINVAL, "there is no engine '%s'", name);
}

int engine_check_name(const char *name, struct err *e)
{
	const struct engine_ops *ops = NULL;

	return find(name, &ops, e);
}

const char *engine_choose(const char *name, char why[ENGINE_WHY_MAX])
{
	static struct host_probe found;

	why[0] = '\0';
	if (!streq(name, "auto"))
		return name;
	host_probe_run(&found);
	if (host_probe_usable(&found)) {
		(void)snprintf(why, ENGINE_WHY_MAX,
			       "engine native: this machine has all that it needs");
		return "native";
	}
	for (int i = 0; i < PROBE_TRY_MAX_; i++)
		if (found.tried[i] > 0 && probe_try_needed((enum probe_try)i)) {
			(void)snprintf(why, ENGINE_WHY_MAX, "engine docker: native needs %s (%s)",
				       probe_try_text((enum probe_try)i), strerror(found.tried[i]));
			return "docker";
		}
	(void)snprintf(why, ENGINE_WHY_MAX,
		       "engine docker: native needs what this machine lacks "
		       "('caisson doctor' lists it)");
	return "docker";
}

/* The answer for an operation that an engine does not have. */
static int lacks(const struct engine_ops *ops, const char *what, struct err *e)
{
	return err_set(e, ERR_ENGINE_NOT_BUILT_IN, ENOTSUP, "the engine '%s' cannot %s", ops->name,
		       what);
}

/* ---- the engine itself ---- */

struct engine *engine_new(const struct engine_ops *ops)
{
	struct engine *g = calloc(1, ops->size);

	if (!g)
		return NULL;
	g->ops = ops;
	list_init(&g->idle.sandboxes);
	return g;
}

int engine_begin(const char *name, const struct engine_config *config, struct engine **ret,
		 struct err *e)
{
	const struct engine_ops *ops = NULL;
	int r = find(name, &ops, e);

	if (r < 0 || !ops)
		return r;
	struct engine *g = engine_new(ops);
	if (!g)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "engine");
	g->idle.rest_ns = config->rest_ns;
	g->idle.max = config->spares;
	r = ops->begin(g, config, e);
	if (r < 0)
		engine_close(g);
	else
		*ret = g;
	return r;
}

int engine_front_ids(const struct engine *g, uid_t *ret_uid, gid_t *ret_gid, struct err *e)
{
	*ret_uid = getuid();
	*ret_gid = getgid();
	if (geteuid() != 0)
		return 0;
	const struct passwd *pw = getpwnam(FRONT_USER);
	if (pw && pw->pw_uid != 0) {
		*ret_uid = pw->pw_uid;
		*ret_gid = pw->pw_gid;
	} else if (g->front_uid != 0) {
		*ret_uid = g->front_uid;
		*ret_gid = g->front_uid;
	} else {
		return err_set(e, ERR_INTERNAL, 0, "the engine keeps no uid for the front");
	}
	return 0;
}

int engine_open(struct engine *g, sd_event *loop, struct err *e)
{
	g->loop = sd_event_ref(loop);
	int r = g->ops->open(g, e);
	if (r < 0)
		engine_close(g);
	return r;
}

void engine_close(struct engine *g)
{
	if (!g)
		return;
	g->closing = true;
	inside_idle_close(g);
	g->ops->close(g);
	g->loop = sd_event_unref(g->loop);
	free(g);
}

int engine_probe(const char *name, const struct engine_config *config, sd_event *loop,
		 engine_probe_fn cb, void *user, struct err *e)
{
	const struct engine_ops *ops = NULL;
	int r = find(name, &ops, e);

	if (r < 0 || !ops)
		return r;
	return ops->probe ? ops->probe(config, loop, cb, user, e)
			  : lacks(ops, "tell what it can enforce", e);
}

const char *engine_get_image(const struct engine *g)
{
	return g && g->ops->get_image ? g->ops->get_image
				      : "build it once with: caisson image build";
}

uint32_t engine_caps(const struct engine *g)
{
	return g->enforced;
}

uint32_t engine_caps_most(const char *name)
{
	const struct engine_ops *ops = NULL;
	struct err none = ERR_INIT;

	return find(name, &ops, &none) == 0 && ops ? ops->caps : 0;
}

const struct engine_levels *engine_levels(const struct engine *g)
{
	return &g->levels;
}

void engine_pool(const struct engine *g, struct engine_pool *ret)
{
	*ret = (struct engine_pool){0};
	if (g->ops->pool)
		g->ops->pool(g, ret);
}

void engine_on_end(struct engine *g, engine_end_fn cb, void *user)
{
	g->on_end = cb;
	g->on_end_user = user;
}

const struct err *engine_lost(const struct engine *g)
{
	return g->lost.code == ERR_NONE ? NULL : &g->lost;
}

void engine_space(const struct engine *g, struct engine_space *ret)
{
	*ret = g->space;
}

void engine_memory(struct engine *g, engine_memory_fn cb, void *user)
{
	if (!g->ops->memory || g->ops->memory(g, cb, user) < 0)
		cb(0, user);
}

void engine_prepare(struct engine *g, const struct engine_create *c)
{
	if (g->ops->prepare)
		g->ops->prepare(g, c);
}

/* How many files a process may have open if nobody chose a number: one for each 24 KiB of the sandbox's
 * memory, from 1,024 to 65,536. If the kernel does not count the memory (not COUNTED), nothing charges what
 * belongs to open files, and a fourth of that is permitted. */
static uint32_t open_files(uint64_t memory_bytes, bool counted)
{
	const uint64_t each = counted ? BYTES_OF_FILE : UNCOUNTED * BYTES_OF_FILE;
	const uint64_t n = memory_bytes == 0 ? OPEN_FILES_MOST : memory_bytes / each;

	return (uint32_t)MIN(MAX(n, (uint64_t)OPEN_FILES_LEAST), (uint64_t)OPEN_FILES_MOST);
}

static uint32_t open_files_here(const struct engine *g, uint64_t memory_bytes)
{
	const uint32_t n = open_files(memory_bytes, engine_caps(g) & ENGINE_CAP_MEMORY);
	const uint32_t most = g->ops->open_files_most ? g->ops->open_files_most : n;
	struct rlimit own;

	/* A sandbox cannot have more than the process that makes it. */
	if (getrlimit(RLIMIT_NOFILE, &own) < 0 || own.rlim_max > OPEN_FILES_MOST)
		own.rlim_max = OPEN_FILES_MOST;
	return MIN(MIN(n, most), (uint32_t)MAX(own.rlim_max, (rlim_t)16));
}

int engine_create(struct engine *g, const struct engine_create *c, engine_create_fn cb, void *user,
		  struct err *e)
{
	struct engine_create full = *c;

	if (full.limits.nofile == 0)
		full.limits.nofile = open_files_here(g, full.limits.memory_bytes);
	return g->ops->create(g, &full, cb, user, e);
}

int engine_forget(struct engine *g, const char *persist_id, engine_done_fn cb, void *user,
		  struct err *e)
{
	return g->ops->forget ? g->ops->forget(g, persist_id, cb, user, e)
			      : lacks(g->ops, "store workspaces", e);
}

/* ---- disks.h ---- */

static int order(struct engine *g, const struct engine_disk_order *o, struct err *e)
{
	return g->ops->disk ? g->ops->disk(g, o, e)
			    : lacks(g->ops, "give stored workspaces away as files", e);
}

int engine_disk_read(struct engine *g, const char *persist_id, engine_disk_fn cb, void *user,
		     struct err *e)
{
	const struct engine_disk_order o = {
	    .what = ENGINE_DISK_READ, .persist_id = persist_id, .had = cb, .user = user};

	return order(g, &o, e);
}

int engine_disk_new(struct engine *g, const char *persist_id, uint64_t bytes, engine_disk_fn cb,
		    void *user, struct err *e)
{
	const struct engine_disk_order o = {.what = ENGINE_DISK_NEW,
					    .persist_id = persist_id,
					    .bytes = bytes,
					    .had = cb,
					    .user = user};

	return order(g, &o, e);
}

int engine_disk_keep(struct engine *g, const char *persist_id, engine_done_fn cb, void *user,
		     struct err *e)
{
	const struct engine_disk_order o = {
	    .what = ENGINE_DISK_KEEP, .persist_id = persist_id, .done = cb, .user = user};

	return order(g, &o, e);
}

int engine_disk_drop(struct engine *g, const char *persist_id, struct err *e)
{
	const struct engine_disk_order o = {.what = ENGINE_DISK_DROP, .persist_id = persist_id};

	return order(g, &o, e);
}

/* ---- what engine/front/inside asks ---- */

int engine_ask_usage(struct engine_sandbox *s)
{
	const struct engine_ops *ops = s->engine->ops;

	return ops->usage ? ops->usage(s) : -ENOTSUP;
}

bool engine_can_warm(const struct engine *g)
{
	return g->ops->warm != NULL;
}

int engine_ask_warm(struct engine_sandbox *s)
{
	const struct engine_ops *ops = s->engine->ops;

	return ops->warm ? ops->warm(s) : -ENOTSUP;
}

int engine_ask_change(struct engine_sandbox *s, const struct engine_limits *l)
{
	const struct engine_ops *ops = s->engine->ops;

	return ops->change ? ops->change(s, l) : -ENOTSUP;
}

bool engine_keeps(const struct engine *g)
{
	return g->ops->keep != NULL;
}

int engine_ask_keep(struct engine_sandbox *s, const char *persist_id)
{
	const struct engine_ops *ops = s->engine->ops;

	return ops->keep ? ops->keep(s, persist_id) : -ENOTSUP;
}

void engine_note_ready(struct engine_sandbox *s)
{
	if (s->engine->ops->ready)
		s->engine->ops->ready(s);
}

int engine_count_upload(struct engine *g, uint64_t bytes, struct err *e)
{
	return g->ops->count_upload ? g->ops->count_upload(g, bytes, e) : 0;
}

void engine_uncount_upload(struct engine *g, uint64_t bytes)
{
	if (g->ops->uncount_upload)
		g->ops->uncount_upload(g, bytes);
}

void engine_note_idle(struct engine_sandbox *s)
{
	if (s->engine->ops->idle)
		s->engine->ops->idle(s);
}
