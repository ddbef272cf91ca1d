/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/app.h"

#include "api/auth.h"

#include "base/base64.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "cmd/limits.h"
#include "cmd/opener.h"
#include "cmd/settings.h"
#include "config/paths.h"
#include "engine/native/confine.h"
#include "engine/native/native.h"
#include "mcp/peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

/* What a message has beside the file that it uploads. */
#define UPLOAD_WORDS_MAX  (64u << 10)
#define MONITOR_SLOTS_MAX 60000u
/* A sandbox that is being destroyed still has its place while the next one is made. */
#define MONITOR_SLOTS_MORE 64u

/* A prompt in a box, as SVG: clients draw it beside the server's name. */
static const char server_icons[] =
    "[{\"src\":\"data:image/svg+xml;base64,"
    "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHZpZXdCb3g9IjAgMCA0"
    "OCA0OCI+PHJlY3QgeD0iNSIgeT0iOSIgd2lkdGg9IjM4IiBoZWlnaHQ9IjMwIiByeD0iNiIg"
    "ZmlsbD0iIzFiN2Y1YyIvPjxwYXRoIGQ9Ik0xNCAxOWw2IDUtNiA1IiBmaWxsPSJub25lIiBz"
    "dHJva2U9IiNmZmYiIHN0cm9rZS13aWR0aD0iNCIvPjxwYXRoIGQ9Ik0yNCAzMGgxMCIgc3Ry"
    "b2tlPSIjZmZmIiBzdHJva2Utd2lkdGg9IjQiLz48L3N2Zz4="
    "\",\"mimeType\":\"image/svg+xml\",\"sizes\":[\"any\"]}]";

static const struct {
	const char *profile;
	const char *server_name;
	const char *title;
	bool log_file; /* written by default */
	bool code;     /* the tools of the first family */
	bool classic;  /* those of the second */
	bool full;     /* and the extras */
	const char *instructions;
} profiles[] = {
    {"code", "code_sandbox_mcp", NULL, true, true, false, false, NULL},
    {"classic", "Python Sandbox Executor", NULL, false, false, true, false,
     tools_classic_instructions},
    {"both", "caisson", "Caisson", false, true, true, false, NULL},
    {"full", "caisson", "Caisson", false, true, true, true,
     "Runs Python and shell commands in isolated sandboxes without network. A session is made "
     "by the first call; give its session_id back to go on with its files in /mnt/data. Each run "
     "of sandbox_run_python starts a fresh interpreter unless stateful is true. When a run "
     "fails, read stderr, correct the code, and run again in the same session. Files of a run "
     "come with a download_url for people."},
};

/* ---- settings ---- */

static size_t profile_index(const struct settings *s)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(profiles) - 1 && !streq(profiles[i].profile, s->profile))
		i++;
	return i;
}

static void configure_log(struct app *a)
{
	const struct settings *s = &a->settings;
	bool file = profiles[profile_index(s)].log_file && a->mode != APP_RUN;
	struct log_config config = {
	    .format = streq(s->log_format, "json") ? LOG_FORMAT_JSON : LOG_FORMAT_CONSOLE,
	};

	if (settings_is_explicit(s, SETTING_ID_log_file))
		file = true;
	file = file && s->log_file[0] != '\0';
	(void)log_level_parse(s->log_level, &config.level);
	config.file = file ? s->log_file : NULL;
	config.to_stderr = a->mode == APP_SERVE || (a->mode == APP_STDIO && !file);
	a->log_is_file = config.file && !config.to_stderr;
	log_configure(&config);
}

int app_settings(struct app *a, const char *verb, enum app_mode mode, bool file_in_cwd, int *argc,
		 char **argv, struct err *e)
{
	*a = (struct app){.verb = verb,
			  .mode = mode,
			  .monitor_fd = -1,
			  .ca_fd = -1,
			  .cache_fd = -1,
			  .wheel_fd = -1};
	int r = cmd_settings(&a->settings, file_in_cwd, argc, argv, e);
	r = r < 0 ? r : config_state_dir(&a->settings, a->state_dir, sizeof(a->state_dir), e);
	r = r < 0 ? r : config_image_name(&a->settings, a->image, e);
	if (r < 0)
		return r;
	configure_log(a);
	return 0;
}

size_t app_max_message(const struct app *a)
{
	const uint64_t needed = BASE64_ENCODED_LEN((uint64_t)a->settings.max_upload_bytes);

	if (a->settings.max_message_bytes > 0)
		return (size_t)a->settings.max_message_bytes;
	return (size_t)MAX(needed + UPLOAD_WORDS_MAX, (uint64_t)MCP_MESSAGE_MAX);
}

bool app_is_loopback(const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (streq(host, "localhost"))
		return true;
	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* ---- privileges ---- */

static bool is_native(const struct app *a)
{
	return streq(a->settings.engine, "native");
}

static int check_image(const struct app *a, struct err *e)
{
	char path[PATH_MAX + ENGINE_NAME_MAX + 32];

	(void)snprintf(path, sizeof(path), "%s/images/%s/root", a->state_dir, a->image);
	if (access(path, F_OK) == 0)
		return 0;
	(void)err_set(e, ERR_IMAGE_MISSING, errno == ENOENT ? 0 : errno,
		      "there is no image '%s' in %s/images", a->image, a->state_dir);
	return -ENOENT;
}

/* Root's front becomes a uid that owns nothing. The log is opened before; its folder is made for
 * that uid, unless it is there already: then its owner decided who may write. */
static void prepare_log(const struct app *a)
{
	char path[PATH_MAX];
	uid_t uid;
	gid_t gid;
	struct err e = ERR_INIT;
	bool file = a->mode == APP_STDIO && profiles[profile_index(&a->settings)].log_file;

	if ((!file && !settings_is_explicit(&a->settings, SETTING_ID_log_file)) ||
	    a->settings.log_file[0] == '\0' || geteuid() != 0 ||
	    text_copy(path, sizeof(path), a->settings.log_file) < 0 ||
	    native_front_uid(a->monitor_fd, &uid, &gid, &e) < 0 || uid == 0)
		return;
	const char *folder = dirname(path);
	if (mkdir(folder, 0755) == 0) {
		_cleanup_fd_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && fchown(fd, uid, gid) < 0)
			LOG_WARNING("log_folder_failed", LOG_S("folder", folder));
	}
	log_open();
}

/* While the rights are there. `stdio` is useful without it: its sandboxes end with it anyway. */
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

/* The folder of PATH. */
static void folder_of(const char *path, char ret[PATH_MAX])
{
	char copy[PATH_MAX];

	if (!path || text_copy(copy, sizeof(copy), path) < 0 ||
	    text_copy(ret, PATH_MAX, dirname(copy)) < 0)
		ret[0] = '\0';
}

/* Privileges go, and with them every system call and file that the front does not need. */
static int confine(struct app *a, struct err *e)
{
	char log[PATH_MAX], socket[PATH_MAX], store[APP_STORE_PATH_MAX];
	const struct native_places places = {.state = a->state_dir,
					     .store = store,
					     .log = log,
					     .socket = socket,
					     .wheels = a->settings.pip_wheel_dir};

	app_store_path(a, store);
	log_open(); /* its folder is there then */
	folder_of(log_path(), log);
	folder_of(a->socket_path, socket);
	/* While the paths can still be opened. Without Landlock the uid alone bounds the files;
	 * `doctor` and the policy say so. */
	_cleanup_fd_ int files = native_confine_files(&places);
	a->has_landlock = files >= 0;
	if (files < 0)
		LOG_WARNING("no_landlock", LOG_I("errno", -files));
	const int r = native_drop_front_privileges(a->monitor_fd, e);
	return r < 0 ? r : native_confine_front(files, e);
}

static bool starts_in_root(void)
{
	char cwd[PATH_MAX];

	return getcwd(cwd, sizeof(cwd)) && streq(cwd, "/");
}

/* Files of this machine go only to those who are on it. The folder in which somebody starts the
 * program is offered without being asked for, but never all files of the machine (a service starts
 * in /), nor behind a proxy, where nobody knows who is on it: there the setting must be made. */
static int begin_opener(struct app *a, struct err *e)
{
	const struct settings *s = &a->settings;
	bool chosen = settings_is_explicit(s, SETTING_ID_local_roots);
	bool local =
	    a->mode == APP_STDIO || (a->mode == APP_SERVE && app_is_loopback(a->listen_host) &&
				     (chosen || !s->public_url[0]));

	if (!chosen && starts_in_root())
		return 0;

	if (!local || !profiles[profile_index(s)].classic)
		return 0;
	return opener_start(s->local_roots, &a->opener, e);
}

/* Processes that may be there at once: sessions, active stored sandboxes, and some that help, wait
 * or are just ending. */
static uint32_t slots_of(const struct settings *s)
{
	return (uint32_t)MIN((uint64_t)s->max_sessions + (uint64_t)s->stored_active +
				 MONITOR_SLOTS_MORE,
			     (uint64_t)MONITOR_SLOTS_MAX);
}

int app_begin(struct app *a, struct err *e)
{
	/* Other engines need no monitor; none of them is built in yet. */
	if (!is_native(a))
		return err_set(e, ERR_ENGINE_NOT_BUILT_IN, 0, "the engine '%s' is not built in",
			       a->settings.engine);
	int r = check_image(a, e);
	if (r < 0)
		return r;
	struct native_monitor_config config = {
	    .state_dir = a->state_dir,
	    .max_sandboxes = slots_of(&a->settings),
	    .warm = a->settings.warm,
	    .zygote = {.idle_s = (uint64_t)a->settings.zygote_idle_s,
		       .age_s = (uint64_t)a->settings.zygote_age_s,
		       .forks = (uint64_t)a->settings.zygote_forks},
	    .total_bytes = a->settings.total_memory,
	};
	r = native_monitor_start(&config, &a->monitor_fd, e);
	if (r < 0)
		return r;
	prepare_log(a);
	r = app_prepare_packages(a, e);
	if (r < 0)
		return r;
	r = begin_opener(a, e); /* a fork: before the store has a thread */
	r = r < 0 ? r : begin_store(a, e);
	return r < 0 ? r : confine(a, e);
}

/* ---- loop, manager, tools ---- */

static int open_engine(void *user, struct engine **ret, struct err *e)
{
	struct app *a = user;
	int monitor_fd = TAKE_FD(a->monitor_fd);
	struct engine_config config = {
	    .state_dir = a->state_dir,
	    .max_sandboxes = (uint32_t)a->settings.max_sessions,
	    .warm = a->settings.warm,
	    .pool = a->settings.warm ? (uint32_t)a->settings.pool : 0,
	    .pool_max = (uint32_t)a->settings.pool_max,
	    .rest_ns = (uint64_t)a->settings.rest_s * NS_PER_S,
	    .idle_ns = (uint64_t)a->settings.zygote_idle_s * NS_PER_S,
	    .total_bytes = a->settings.total_memory,
	    .monitor_fd = monitor_fd,
	};

	if (is_native(a) && monitor_fd < 0)
		return err_set(e, ERR_ENGINE_UNAVAILABLE, 0, "the engine's monitor is gone");
	return engine_open(a->settings.engine, a->loop, &config, ret, e);
}

static int open_ledger(struct app *a, struct err *e)
{
	const struct settings *s = &a->settings;
	struct ledger_config config = {
	    .store = a->store,
	    .manager = a->manager,
	    .quota = {.sandboxes = s->user_sandbox_limit,
		      .cpu_s_per_day = s->user_cpu_s_per_day,
		      .disk_bytes = s->user_disk_bytes,
		      .runs_per_minute = s->user_runs_per_minute},
	};

	return ledger_new(&config, &a->ledger, e);
}

/* Once for each time that it begins or ends. */
static void on_store_trouble(const struct err *e, uint64_t queued, void *user UNUSED)
{
	if (e)
		LOG_ERROR("history_not_written", LOG_S("error", e->text),
			  LOG_S("hint", err_code_hint(e->code)), LOG_U("rows_waiting", queued));
	else
		LOG_INFO("history_written_again", LOG_U("rows_waiting", queued));
}

int app_open(struct app *a, struct err *e)
{
	const struct settings *s = &a->settings;
	struct manager_config config = {
	    .open_engine = open_engine,
	    .user = a,
	    .limits = {.memory_bytes = s->memory_limit,
		       .cpu_milli = (uint32_t)s->cpu_limit,
		       .pids = (uint32_t)s->pids_limit,
		       .workspace_bytes = s->workspace_limit,
		       .workspace_inodes = (uint32_t)s->workspace_files,
		       .tmp_bytes = s->tmp_limit,
		       .nofile = (uint32_t)s->nofile_limit},
	    .warm = s->warm,
	    .run_timeout_ns = (uint64_t)s->exec_timeout_s * NS_PER_S,
	    .grace_ns = (uint64_t)s->kill_grace_ms * NS_PER_MS,
	    .ttl_ns = (uint64_t)s->session_ttl_m * 60 * NS_PER_S,
	    .sweep_ns = (uint64_t)s->cleanup_interval_m * 60 * NS_PER_S,
	    .output_max = (uint64_t)s->max_output_bytes,
	    .output_stop = (uint64_t)s->output_stop_bytes,
	    .max_sandboxes = (unsigned)s->max_sessions,
	};

	memcpy(config.image, a->image, sizeof(config.image));
	struct limits_insisted insisted;
	int r = limits_insisted(s, &insisted, e);
	if (r < 0)
		return r;
	config.limits.explicit_mask = insisted.session;
	config.stored = app_stored(a, insisted.stored);
	r = sd_event_default(&a->loop);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "the event loop");
	config.loop = a->loop;
	r = a->store ? store_attach(a->store, a->loop) : 0;
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "the store's answers");
	if (a->store)
		store_on_trouble(a->store, on_store_trouble, NULL);
	r = opener_attach(a->opener, a->loop);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "the opener's answers");
	r = app_open_egress(a, e);
	config.egress = a->egress;
	config.network = a->network;
	memcpy(config.network_may, a->network_may, sizeof(config.network_may));
	config.network_ask = a->settings.network_ask;
	config.index = app_index(a);
	r = r < 0 ? r : manager_new(&config, &a->manager, e);
	r = r < 0 ? r : open_ledger(a, e);
	return r < 0 ? r : app_open_packages(a, e);
}

static int open_registry(struct app *a, struct err *e)
{
	size_t profile = profile_index(&a->settings);
	bool full = profiles[profile].full;
	struct mcp_server_config config = {
	    .name = profiles[profile].server_name,
	    .version = CAISSON_VERSION,
	    .title = profiles[profile].title,
	    .instructions = profiles[profile].instructions,
	    .may_call = auth_may_call,
	    .icons = full ? server_icons : NULL,
	    .offers = MCP_OFFER_RESOURCES | MCP_OFFER_PROMPTS,
	};

	if (profiles[profile].code)
		config.offers |= MCP_OFFER_TOOLS_LIST_CHANGED | MCP_OFFER_LOGGING;
	if (full)
		config.offers |= MCP_OFFER_RESOURCES_LIST_CHANGED | MCP_OFFER_RESOURCES_SUBSCRIBE |
				 MCP_OFFER_COMPLETIONS | MCP_OFFER_TASKS;
	a->mcp = mcp_server_new(&config, e);
	if (!a->mcp)
		return -ENOMEM;
	int r = profiles[profile].code ? tools_add_code(a->tools, a->mcp, e) : 0;
	if (r >= 0 && profiles[profile].classic)
		r = tools_add_classic(a->tools, a->mcp, full, e);
	if (r < 0 || !full)
		return r;
	r = tools_add_extras(a->tools, a->mcp, e);
	r = r < 0 ? r : tools_add_packages(a->tools, a->mcp, e);
	if (r >= 0 && a->settings.network_ask)
		r = tools_add_network(a->tools, a->mcp, e);
	r = r < 0 ? r : tools_add_resources(a->tools, a->mcp, e);
	return r < 0 ? r : tools_add_prompts(a->tools, a->mcp, e);
}

int app_on_stop(struct app *a, sd_event_signal_handler_t fn, void *user, struct err *e)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
	struct sigaction hangup;
	size_t n = ARRAY_SIZE(signals);
	int r = 0;

	/* A blocked signal is delivered to the loop even where it is ignored. */
	if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_IGN)
		n--;
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = sd_event_add_signal(a->loop, NULL, signals[i] | SD_EVENT_SIGNAL_PROCMASK, fn,
					user);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "the event loop") : 0;
}

/* The first families' answers are contracts: there only who sets a bound gets one. */
static uint64_t line_bound(const struct settings *s)
{
	bool bounded =
	    profiles[profile_index(s)].full || settings_is_explicit(s, SETTING_ID_max_line_bytes);

	return bounded ? (uint64_t)s->max_line_bytes : 0;
}

int app_open_mcp(struct app *a, struct http_server *http, struct err *e)
{
	const struct settings *s = &a->settings;
	struct links_config links = {
	    .loop = a->loop,
	    .manager = a->manager,
	    .http = http,
	    .host = s->http_host,
	    .port = s->http_port,
	    .public_url = s->public_url,
	    /* Whoever can reach the listener must not guess ids. */
	    .sign = s->api_key[0] != '\0' || s->require_auth || !app_is_loopback(s->http_host),
	};
	int r = links_new(&links, &a->links, e);
	if (r < 0)
		return r;
	struct tools_config tools = {
	    .loop = a->loop,
	    .manager = a->manager,
	    .packages = a->packages,
	    .domain_answered = app_domain_answered,
	    .domain_user = a,
	    .domain_again = (unsigned)s->network_ask_again,
	    .max_upload_bytes = (uint64_t)s->max_upload_bytes,
	    .max_read_bytes = (uint64_t)s->max_artifact_read_bytes,
	    .max_line_bytes = line_bound(s),
	    .has_extras = profiles[profile_index(s)].full,
	    .max_code_bytes = (uint64_t)s->max_code_bytes,
	    .exec_timeout_s = (uint64_t)s->exec_timeout_s,
	    .has_landlock = a->has_landlock,
	    .result_chars = (size_t)s->result_chars,
	    .save_figures = streq(s->save_figures, "on"),
	    .save_figures_extras = !streq(s->save_figures, "off"),
	    .task_after_s = (uint64_t)s->task_after_s,
	    .link_base = links_base,
	    .link_query = links_query,
	    .classic_base = links_main_base,
	    .link_user = a->links,
	    .max_classic_code = (uint64_t)MAX(s->max_code_bytes, s->stored_output_bytes),
	    .local_user = s->default_user_id,
	    .open_local = a->opener ? opener_open : NULL,
	    .local_user_data = a->opener,
	};
	a->tools = tools_new(&tools, e);
	return a->tools ? open_registry(a, e) : -ENOMEM;
}

void app_done(struct app *a)
{
	a->packages = packages_free(a->packages);
	a->manager = manager_free(a->manager);
	a->egress = egress_free(a->egress);
	a->network = egress_policy_unref(a->network);
	for (size_t i = 0; i < ARRAY_SIZE(a->network_may); i++)
		a->network_may[i] = egress_policy_unref(a->network_may[i]);
	a->egress_audit = egress_audit_free(a->egress_audit);
	a->mcp = mcp_server_free(a->mcp);
	a->tools = tools_free(a->tools);
	a->links = links_free(a->links);
	a->opener = opener_free(a->opener);
	a->ledger = ledger_free(a->ledger);
	a->store = store_close(a->store);
	a->monitor_fd = fd_close(a->monitor_fd);
	a->ca_fd = fd_close(a->ca_fd);
	a->cache_fd = fd_close(a->cache_fd);
	a->wheel_fd = fd_close(a->wheel_fd);
	a->loop = sd_event_unref(a->loop);
	settings_done(&a->settings);
	log_close();
}

int app_fail(const struct app *a, const struct err *e)
{
	const char *hint = err_code_hint(e->code);

	/* On stderr one line is enough. */
	if (a->log_is_file)
		LOG_ERROR("startup_failed", LOG_S("verb", a->verb), LOG_S("error", e->text));
	(void)fprintf(stderr, "ERROR: %s%s%s\n", e->text, *hint ? ". " : "", hint);
	/* Those two had the status 1 in the servers that this one replaces. */
	if (e->code == ERR_IMAGE_MISSING || e->code == ERR_ENGINE_UNAVAILABLE)
		return 1;
	return err_code_exit(e->code);
}
