/* SPDX-License-Identifier: Apache-2.0 */
/* The first half of a start, with privileges: monitor, log, packages, opener, store. Then all
 * privileges are given up. */
#include "app/app.h"

#include "app/image_builder.h"
#include "app/opener.h"
#include "app/profile.h"
#include "base/fdio.h"
#include "base/large.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "config/paths.h"
#include "fleet/router/slices.h"
#include "walls/confine.h"
#include "walls/privileges.h"

#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>

#define ENGINE_SLOTS_MAX 60000u
/* What a router becomes that root has started, as a front does whose engine keeps ids for it: no account has this one. */
#define ROUTER_ID UINT32_C(1879113727)
/* A sandbox that is being destroyed still occupies its slot while the next one is made. */
#define ENGINE_SLOTS_MORE 64u
#define MEMORY_WORKSPACE  (UINT64_C(512) << 20) /* default size of a workspace in memory */

bool app_lacks_image(const struct app *a)
{
	char path[PATH_MAX + ENGINE_NAME_MAX + 32];

	if (!streq(a->settings.engine, "native")) /* the daemon has it, or says so */
		return false;
	(void)snprintf(path, sizeof(path), "%s/images/%s/root", a->state_dir, a->image);
	return access(path, F_OK) < 0;
}

static int check_image(const struct app *a, struct err *e)
{
	char path[PATH_MAX + ENGINE_NAME_MAX + 32];

	if (!app_lacks_image(a))
		return 0;
	(void)snprintf(path, sizeof(path), "%s/images", a->state_dir);
	const int made = fd_make_dirs(path, 0755);
	if (made < 0) /* the entry point of a container could not link its images there either */
		return err_set(e, ERR_IMAGE_MISSING, -made,
			       "there is no image '%s', and %s cannot be made; give the server a "
			       "folder that it can write (in a container a volume: --volume "
			       "caisson-state:%s)",
			       a->image, path, a->state_dir);
	errno = ENOENT;
	(void)err_set(e, ERR_IMAGE_MISSING, errno == ENOENT ? 0 : errno,
		      "there is no image '%s' in %s/images; build it once with: caisson image "
		      "build %s",
		      a->image, a->state_dir, a->image);
	return -ENOENT;
}

/* `stdio` answers its client without an image too: the person at the client learns from the calls what
 * to do, and they work as soon as the image is built. The server that the profile `code` replaces ends
 * with an error, and so does this one. */
static bool may_lack_image(const struct app *a)
{
	if (a->settings.image_source[0] && a->mode != APP_RUN)
		return true; /* it is downloaded while the server answers */
	return a->mode == APP_STDIO && profile_of(&a->settings)->tools != TOOLS_IN_CODE;
}

/* If root starts the program, the front continues with a uid that owns nothing, so the log is opened
 * before. A new log folder is given to that uid, so that log files can be rotated. An existing folder
 * stays as it is: its owner decided who may write there. */
static void prepare_log(const struct app *a)
{
	char path[PATH_MAX];
	uid_t uid;
	gid_t gid;
	struct err e = ERR_INIT;
	bool file = a->mode == APP_STDIO && profile_of(&a->settings)->log_file;

	if ((!file && !settings_is_explicit(&a->settings, SETTING_ID_log_file)) ||
	    a->settings.log_file[0] == '\0' || geteuid() != 0 ||
	    text_copy(path, sizeof(path), a->settings.log_file) < 0 ||
	    engine_front_ids(a->engine, &uid, &gid, &e) < 0 || uid == 0)
		return;
	const char *folder = dirname(path);
	if (mkdir(folder, 0755) == 0) {
		_cleanup_fd_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && fchown(fd, uid, gid) < 0)
			LOG_WARNING("log_folder_failed", LOG_S("folder", folder));
	}
	log_open();
}

/* The promises on disk hold there as well, but no blocks are kept for stored sandboxes. */
static void judge_disk(const struct app *a)
{
	if (geteuid() == 0 && a->mode == APP_SERVE && !fd_folder_allocates(a->state_dir))
		LOG_WARNING("disk_cannot_allocate", LOG_S("folder", a->state_dir),
			    LOG_S("effect",
				  "if another program fills this disk, a stored sandbox can "
				  "lose what it has not flushed"));
}

/* Called with privileges. `stdio` works without a store, because its sandboxes end with it. */
static int begin_store(struct app *a, struct err *e)
{
	struct err why = ERR_INIT;

	if (a->mode == APP_RUN)
		return 0;
	int r = app_open_store(a, a->mode == APP_SERVE ? e : &why);
	if (r < 0 && a->mode == APP_SERVE)
		return r;
	if (r < 0)
		LOG_WARNING("store_unavailable", LOG_S("error", why.text));
	else if (store_watch_runs(a->store, &why) < 0)
		LOG_WARNING("runs_not_watched", LOG_S("error", why.text));
	return 0;
}

/* The folder that PATH is in. */
static void folder_of(const char *path, char ret[PATH_MAX])
{
	char copy[PATH_MAX];

	if (!path || text_copy(copy, sizeof(copy), path) < 0 ||
	    text_copy(ret, PATH_MAX, dirname(copy)) < 0)
		ret[0] = '\0';
}

/* Gives up privileges, and every system call and file that the front does not need. */
static int front_ids(const struct app *a, uid_t *ret_uid, gid_t *ret_gid, struct err *e)
{
	const struct passwd *pw = geteuid() == 0 ? getpwnam("caisson") : NULL;

	if (a->engine)
		return engine_front_ids(a->engine, ret_uid, ret_gid, e);
	*ret_uid = getuid();
	*ret_gid = getgid();
	if (geteuid() == 0) {
		const bool named = pw && pw->pw_uid != 0;

		*ret_uid = named ? pw->pw_uid : ROUTER_ID;
		*ret_gid = named ? pw->pw_gid : ROUTER_ID;
	}
	return 0;
}

static int confine(struct app *a, struct err *e)
{
	char log[PATH_MAX], socket[PATH_MAX], store[APP_STORE_PATH_MAX];
	const struct confine_places places = {.state = a->state_dir,
					      .store = store,
					      .log = log,
					      .socket = socket,
					      .wheels = a->settings.pip_wheel_dir,
					      .account =
						  a->router_files ? FLEET_SLICES_ACCOUNT : NULL};

	app_store_path(a, store);
	log_open(); /* now its folder exists */
	folder_of(log_path(), log);
	folder_of(a->socket_path, socket);
	/* This must happen while the paths can still be opened. Without Landlock only the uid limits
	 * which files can be opened; `doctor` and the policy say so. */
	_cleanup_fd_ int files = confine_files(&places);
	a->has_landlock = files >= 0;
	if (files < 0)
		LOG_WARNING("no_landlock", LOG_I("errno", -files));
	uid_t uid;
	gid_t gid;
	int r = front_ids(a, &uid, &gid, e);
	loop_goes_first();
	r = r < 0 ? r : privileges_drop(uid, gid, e);
	return r < 0 ? r : confine_front(files, e);
}

static bool starts_in_root(void)
{
	char cwd[PATH_MAX];

	return getcwd(cwd, sizeof(cwd)) && streq(cwd, "/");
}

/* Files of this machine go to clients on this machine. The opener has the rights of whoever starts
 * the program. Without a setting it serves clients with the same uid, who come over stdio or a
 * bridge, from the folder in which the program is started; but never all files of the machine (a
 * service starts in /). Others on this machine get files only from folders that the operator named:
 * whoever connects to a loopback port may be any account. */
static int begin_opener(struct app *a, struct err *e)
{
	const struct settings *s = &a->settings;
	bool chosen = settings_is_explicit(s, SETTING_ID_local_roots);
	bool local = a->mode == APP_STDIO ||
		     (a->mode == APP_SERVE && !app_is_worker(a) && app_is_loopback(a->listen_host));

	if (!chosen && starts_in_root())
		return 0;

	if (!local || profile_of(s)->tools == TOOLS_IN_CODE)
		return 0;
	return opener_start(s->local_roots, &a->opener, e);
}

/* How many sandboxes may exist at once: sessions, active stored sandboxes, and some that help, wait
 * in the pool, or are being destroyed. */
static uint32_t slots_of(const struct settings *s)
{
	return (uint32_t)MIN((uint64_t)s->max_sessions + (uint64_t)s->stored_active +
				 ENGINE_SLOTS_MORE,
			     (uint64_t)ENGINE_SLOTS_MAX);
}

static enum engine_workspace workspace_of(const struct settings *s)
{
	if (streq(s->workspace, "disk"))
		return ENGINE_WORKSPACE_DISK;
	return streq(s->workspace, "memory") ? ENGINE_WORKSPACE_MEMORY : ENGINE_WORKSPACE_AUTO;
}

static int begin_engine(struct app *a, struct err *e)
{
	const struct settings *s = &a->settings;
	const struct engine_config config = {
	    .state_dir = a->state_dir,
	    .max_sandboxes = slots_of(s),
	    .warm = s->warm,
	    .pool = s->warm ? (uint32_t)s->pool : 0,
	    .pool_max = (uint32_t)s->pool_max,
	    .rest_ns = (uint64_t)s->rest_s * NS_PER_S,
	    .spares = (uint32_t)s->spares,
	    .idle_ns = (uint64_t)s->zygote_idle_s * NS_PER_S,
	    .total_bytes = s->total_memory,
	    .docker = {.host = s->docker_host,
		       .certs = s->docker_certs,
		       .runtime = s->runtime,
		       .levels = s->levels,
		       .level = s->level},
	    .install_tool = profile_of(s)->install_tool,
	    .workspace = workspace_of(s),
	    .moves = app_is_worker(a),
	    .zygote = {.idle_s = (uint64_t)s->zygote_idle_s,
		       .age_s = (uint64_t)s->zygote_age_s,
		       .forks = (uint64_t)s->zygote_forks},
	};

	int r = engine_begin(s->engine, &config, &a->engine, e);

	if (r == 0)
		a->levels = *engine_levels(a->engine); /* and which of them are possible */
	/* What this host lets the engine do. */
	r = r < 0 ? r : limits_server(s, engine_caps(a->engine), e);
	/* A default that is fit for a disk would be a promise of memory. */
	if (r == 0 && !(engine_caps(a->engine) & ENGINE_CAP_ON_DISK) &&
	    !settings_is_explicit(s, SETTING_ID_workspace_limit))
		a->settings.workspace_limit = MIN(s->workspace_limit, MEMORY_WORKSPACE);
	return r;
}

void app_image_env(const struct app *a, const char *ret[APP_IMAGE_ENV][2])
{
	const struct settings *s = &a->settings;
	const char *const env[APP_IMAGE_ENV][2] = {
	    {"SANDBOX_STATE_DIR", a->state_dir},         {"SANDBOX_PROFILE", s->profile},
	    {"SANDBOX_PIP_INDEX_URL", s->pip_index_url}, {"SANDBOX_PIP_CA_FILE", s->pip_ca_file},
	    {"SANDBOX_PIP_WHEEL_DIR", s->pip_wheel_dir}, {"SANDBOX_IMAGE_SOURCE", s->image_source},
	    {"SANDBOX_IMAGE_KEY", s->image_key},         {"SANDBOX_PULLS", s->pulls},
	};

	memcpy(ret, env, sizeof(env));
}

/* What builds of clients begin with is downloaded by a process of its own. */
static int begin_image_puller(struct app *a, struct err *e)
{
	const char *env[APP_IMAGE_ENV + 1][2];
	char cache[24];

	app_image_env(a, env);
	(void)snprintf(cache, sizeof(cache), "%" PRIu64, a->settings.pull_cache);
	env[APP_IMAGE_ENV][0] = "SANDBOX_PULL_CACHE";
	env[APP_IMAGE_ENV][1] = cache;
	const struct image_builder_config config = {
	    .env = env, .n_env = ARRAY_SIZE(env), .bases = true};

	return image_builder_start(&config, &a->image_puller, e);
}

/* The image builder gets what the server's settings say of images, and the server's environment. */
static int begin_image_builder(struct app *a, struct err *e)
{
	const struct settings *s = &a->settings;
	const char *env[APP_IMAGE_ENV][2];

	app_image_env(a, env);
	const bool builds = s->image_builds && a->n_image_defs > 0;
	const bool pulls =
	    s->image_source[0] && a->mode != APP_RUN && (a->lacks_image || a->mode == APP_SERVE);
	const bool commits = a->own_image || (s->image_builds && s->root && a->mode == APP_SERVE);
	const struct image_builder_config config = {.names = a->image_defs,
						    .n = builds ? a->n_image_defs : 0,
						    .pulled = pulls ? a->image : NULL,
						    .env = env,
						    .n_env = ARRAY_SIZE(env),
						    .commits = commits,
						    .own = a->own_image};

	if ((!builds && !pulls && !commits) || !streq(s->engine, "native"))
		return 0;
	const int r = image_builder_start(&config, &a->image_builder, e);

	return r < 0 || !commits || !s->pulls[0] ? r : begin_image_puller(a, e);
}

bool app_builds_templates(const struct app *a)
{
	const struct settings *s = &a->settings;

	return s->templates && s->root && s->image_builds && a->image_builder;
}

/* A wrong setting is said at the start, not when the image is needed. */
static int check_source(const struct app *a, struct err *e)
{
	char reference[PATH_MAX];

	if (!a->settings.image_source[0] || !streq(a->settings.engine, "native"))
		return 0;
	return config_image_reference(&a->settings, a->image, reference, sizeof(reference), e);
}

/* Its threads come after its last fork, as everywhere. */
static int begin_router(struct app *a, struct err *e)
{
	int r = app_begin_reopener(a, e);

	r = r < 0 ? r : app_begin_router(a, e);
	r = r < 0 ? r : app_begin_tls(a, e);
	r = r < 0 ? r : begin_store(a, e);
	return r < 0 ? r : confine(a, e);
}

int app_begin(struct app *a, struct err *e)
{
	if (app_is_router(a)) {
		large_blocks_return();
		return begin_router(a, e);
	}
	int r = engine_check_name(a->settings.engine, e);

	large_blocks_return();
	a->lacks_image = app_lacks_image(a);
	r = r < 0 ? r : check_source(a, e);
	r = r < 0 || may_lack_image(a) ? r : check_image(a, e);
	r = r < 0 ? r : begin_engine(a, e);
	if (r < 0)
		return r;
	prepare_log(a);
	r = app_prepare_packages(a, e);
	if (r < 0)
		return r;
	r = begin_opener(a, e); /* it forks, so before the store starts a thread */
	r = r < 0 ? r : app_begin_reopener(a, e);
	r = r < 0 ? r : begin_image_builder(a, e);
	r = r < 0 ? r : app_begin_tls(a, e);
	r = r < 0 ? r : app_begin_fleet(a, e);
	r = r < 0 ? r : begin_store(a, e);
	judge_disk(a);
	return r < 0 ? r : confine(a, e);
}
