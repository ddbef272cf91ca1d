/* SPDX-License-Identifier: Apache-2.0 */
#include "app/app.h"

#include "app/image_builder.h"
#include "app/image_fetch.h"
#include "app/limits.h"
#include "app/opener.h"
#include "app/profile.h"
#include "app/read_settings.h"
#include "app/reopener.h"
#include "base/base64.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "config/paths.h"
#include "mcp/peer.h"
#include "sandbox/rest.h"

#include <arpa/inet.h>
#include <signal.h>
#include <string.h>

/* Room in a message for everything but the file that it uploads. */
#define UPLOAD_WORDS_MAX (64u << 10)

/* ---- settings ---- */

static void configure_log(struct app *a)
{
	const struct settings *s = &a->settings;
	bool file = profile_of(s)->log_file && a->mode != APP_RUN;
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

static bool is_admin(const char *principal, void *user)
{
	const struct app *a = user;
	struct err ignored = ERR_INIT;
	struct store_user u;

	return a->store && store_user_get(a->store, principal, &u, &ignored) == 1 && u.active &&
	       u.role == STORE_ROLE_ADMIN;
}

static int make_budgets(struct app *a, struct err *e)
{
	const struct settings *s = &a->settings;
	/* 0: any number from one address. */
	uint64_t per_address = s->max_connections_per_address
				   ? (uint64_t)s->max_connections_per_address
				   : INT64_MAX / 2;

	a->budgets = budgets_new(&(struct budgets_config){.is_admin = is_admin, .user = a});
	if (!a->budgets)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the budgets");
	budgets_set(a->budgets, BUDGET_CONNECTIONS,
		    &(struct budget_bounds){.stranger = per_address});
	if (streq(s->fleet_role, "router")) /* all that its workers do for clients passes it */
		budgets_set(a->budgets, BUDGET_PORT_REQUESTS,
			    &(struct budget_bounds){.each = 1024, .total = 8192});
	int r = budgets_parse(a->budgets, s->budgets, e);
	return r < 0 ? err_wrap(e, "SANDBOX_BUDGETS") : 0;
}

/* What "auto" means here is decided once, and everything else reads the result. */
static int choose_engine(struct app *a, struct err *e)
{
	const char *chosen = engine_choose(a->settings.engine, a->engine_why);

	if (streq(chosen, a->settings.engine))
		return 0;
	char *copy = strdup(chosen);
	if (!copy)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "settings");
	free(a->settings.engine);
	a->settings.engine = copy;
	return 0;
}

/* The other verbs can be needed where these settings do not hold: to take a key back, to save the data. */
static bool makes_sandboxes(const struct app *a)
{
	return !app_is_router(a) && (a->mode != APP_RUN || streq(a->verb, "run"));
}

int app_take_settings(struct app *a, const char *verb, enum app_mode mode, struct settings *s,
		      struct err *e)
{
	*a = (struct app){.verb = verb,
			  .mode = mode,
			  .settings = *s,
			  .ca_fd = -1,
			  .cache_fd = -1,
			  .wheel_fd = -1};
	*s = (struct settings){0};
	int r = choose_engine(a, e);
	if (r == 0 &&
	    makes_sandboxes(a)) /* app_begin() asks again, and knows what this host allows */
		r = limits_server(&a->settings, engine_caps_most(a->settings.engine), e);
	r = r < 0 ? r : read_levels(&a->settings, a->settings.engine, &a->levels, e);
	r = r < 0 ? r : config_state_dir(&a->settings, a->state_dir, sizeof(a->state_dir), e);
	r = r < 0 ? r : config_image_name(&a->settings, a->image, e);
	if (r < 0)
		return r;
	limits_by_machine(&a->settings, limits_machine_bytes(&a->settings));
	configure_log(a);
	if (a->engine_why[0])
		LOG_INFO("engine_chosen", LOG_S("why", a->engine_why));
	return make_budgets(a, e);
}

int app_settings(struct app *a, const char *verb, enum app_mode mode, bool file_in_cwd, int *argc,
		 char **argv, struct err *e)
{
	struct settings s = {0};
	const int r = read_settings(&s, file_in_cwd, argc, argv, e);

	/* A verb that fails tells it as its settings say, as far as they were read. */
	if (r >= 0)
		return app_take_settings(a, verb, mode, &s, e);
	*a = (struct app){
	    .verb = verb, .mode = mode, .settings = s, .ca_fd = -1, .cache_fd = -1, .wheel_fd = -1};
	return r;
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

/* ---- loop and manager ---- */

static int open_engine(void *user, struct engine **ret, struct err *e)
{
	struct app *a = user;
	struct engine *engine = TAKE_PTR(a->engine);

	if (!engine)
		return err_set(e, ERR_ENGINE_UNAVAILABLE, 0, "the engine could not be opened");
	int r = engine_open(engine, a->loop, e);
	if (r == 0)
		*ret = engine;
	return r;
}

static int open_accounting(struct app *a, struct err *e)
{
	const struct settings *s = &a->settings;
	struct accounting_config config = {
	    .store = a->store,
	    .manager = a->manager,
	    .quota = {.sandboxes = s->user_sandbox_limit,
		      .cpu_s_per_day = s->user_cpu_s_per_day,
		      .disk_bytes = s->user_disk_bytes,
		      .runs_per_minute = s->user_runs_per_minute},
	};

	if (app_count_uses(a, e) < 0)
		return -e->errnum;
	config.uses = a->uses;
	config.elsewhere = a->elsewhere;
	return accounting_new(&config, &a->accounting, e);
}

static int open_cells(struct app *a, struct err *e)
{
	const char *keep = a->settings.history_content;
	struct cells_config config = {
	    .loop = a->loop,
	    .manager = a->manager,
	    .store = a->store,
	    .budgets = a->budgets,
	    .keep = streq(keep, "on")     ? CELLS_KEEP_ALL
		    : streq(keep, "code") ? CELLS_KEEP_CODE
					  : CELLS_KEEP_NOTHING,
	};

	return cells_new(&config, &a->cells, e);
}

/* Logs once when the trouble begins and once when it ends. */
static void on_store_trouble(const struct err *e, uint64_t queued, void *user UNUSED)
{
	if (e)
		LOG_ERROR("history_not_written", LOG_S("error", e->text),
			  LOG_S("hint", err_code_hint(e->code)), LOG_U("rows_waiting", queued));
	else
		LOG_INFO("history_written_again", LOG_U("rows_waiting", queued));
}

static void on_store_aside(const char *what, const struct err *e, uint64_t n, void *user UNUSED)
{
	LOG_OFTEN(LOG_LEVEL_ERROR, "row_put_aside", LOG_S("row", what), LOG_U("rows", n),
		  LOG_S("error", e->text));
}

static struct manager_config sessions(struct app *a)
{
	const struct settings *s = &a->settings;

	return (struct manager_config){
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
	    .run_timeout_max_ns = (uint64_t)s->max_timeout_s * NS_PER_S,
	    .grace_ns = (uint64_t)s->kill_grace_ms * NS_PER_MS,
	    .ttl_ns = (uint64_t)s->session_ttl_m * 60 * NS_PER_S,
	    .keep_ns = profile_of(s)->full || settings_is_explicit(s, SETTING_ID_session_keep_m)
			   ? (uint64_t)s->session_keep_m * 60 * NS_PER_S
			   : 0,
	    .sweep_ns = (uint64_t)s->cleanup_interval_m * 60 * NS_PER_S,
	    .output_max = (uint64_t)s->max_output_bytes,
	    .output_stop = (uint64_t)s->output_stop_bytes,
	    .whole_output_max = (uint64_t)s->whole_output_bytes,
	    .max_sandboxes = (unsigned)s->max_sessions,
	    .parallel_runs = (unsigned)s->parallel_runs,
	    .give_up_empty = profile_of(s)->full,
	    .maxima = {.memory_bytes = s->max_memory_limit,
		       .workspace_bytes = s->max_workspace_limit,
		       .ttl_ns = (uint64_t)s->max_ttl_m * 60 * NS_PER_S,
		       .cpu_milli = (uint32_t)s->max_cpu_limit,
		       .pids = (uint32_t)s->max_pids_limit,
		       .root = s->root,
		       .images = s->images_allowed,
		       .levels = &a->levels},
	    .budgets = a->budgets,
	    .fleet = app_fleet(a),
	};
}

static int on_jobs(sd_event_source *source UNUSED, int fd UNUSED, uint32_t events UNUSED,
		   void *user UNUSED)
{
	workers_deliver();
	return 0;
}

static int open_workers(struct app *a, struct err *e)
{
	int fd = workers_begin();
	int r = fd < 0 ? fd : sd_event_add_io(a->loop, &a->workers, fd, EPOLLIN, on_jobs, NULL);

	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "the pool of threads") : 0;
}

static void tell_clients(void *user, double progress, const char *text)
{
	struct app *a = user;

	if (a->mcp)
		mcp_server_tell_waiting(a->mcp, progress, text);
}

static int want_image(void *user, const char *image, sandbox_done_fn cb, void *arg, struct err *e)
{
	struct app *a = user;

	return image_fetch_wait(a->image_fetch, image, cb, arg, e);
}

static int open_image_fetch(struct app *a, struct err *e)
{
	char from[PATH_MAX];
	const struct image_fetch_config config = {.loop = a->loop,
						  .builder = a->image_builder,
						  .image = a->image,
						  .from = from,
						  .tell = tell_clients,
						  .user = a};

	if (!a->image_builder || !a->settings.image_source[0])
		return 0;
	int r = config_image_reference(&a->settings, a->image, from, sizeof(from), e);

	r = r < 0 ? r : image_fetch_new(&config, &a->image_fetch, e);
	if (r >= 0 && a->lacks_image)
		image_fetch_begin(a->image_fetch);
	return r;
}

static int open_loop(struct app *a, struct err *e)
{
	int r = sd_event_default(&a->loop);

	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "the event loop");
	r = open_workers(a, e);
	if (r < 0)
		return r;
	r = a->store ? store_attach(a->store, a->loop) : 0;
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "the store's answers");
	if (a->store) {
		store_on_trouble(a->store, on_store_trouble, NULL);
		store_on_aside(a->store, on_store_aside, NULL);
	}
	return app_follow_files(a, e);
}

/* Its manager never has a sandbox, and is there for those who ask it how many there are. */
static int open_without_engine(struct app *a, struct err *e)
{
	struct manager_config config = sessions(a);
	int r = open_loop(a, e);

	config.loop = a->loop;
	r = r < 0 ? r : manager_new(&config, &a->manager, e);
	r = r < 0 ? r : open_accounting(a, e);
	return r < 0 ? r : open_cells(a, e);
}

int app_open(struct app *a, struct err *e)
{
	const struct settings *s = &a->settings;
	struct manager_config config = sessions(a);

	if (app_is_router(a))
		return open_without_engine(a, e);
	memcpy(config.image, a->image, sizeof(config.image));
	struct limits_insisted insisted;
	int r = limits_insisted(s, &insisted, e);
	if (r < 0)
		return r;
	config.limits.explicit_mask = insisted.session;
	config.stored = app_stored(a, insisted.stored);
	r = open_loop(a, e);
	if (r < 0)
		return r;
	config.loop = a->loop;
	r = opener_attach(a->opener, a->loop);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "the opener's answers");
	r = image_builder_attach(a->image_builder, a->loop);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "the answers of the image builder");
	r = image_builder_attach(a->image_puller, a->loop);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "the answers of the process that downloads");
	r = open_image_fetch(a, e);
	if (r < 0)
		return r;
	if (a->image_fetch)
		config.want_image = want_image;
	r = app_open_egress(a, e);
	config.egress = a->egress;
	config.network = a->network;
	memcpy(config.network_may, a->network_may, sizeof(config.network_may));
	config.network_ask = a->settings.network_ask;
	config.public_ports = a->settings.public_ports;
	config.index = app_index(a);
	r = r < 0 ? r : manager_new(&config, &a->manager, e);
	r = r < 0 ? r : open_accounting(a, e);
	r = r < 0 ? r : open_cells(a, e);
	r = r < 0 ? r : app_open_packages(a, e);
	if (r == 0)
		cells_watch_packages(a->cells, a->packages);
	return r;
}

static bool hangup_is_ignored(void)
{
	struct sigaction hangup;

	return sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_IGN;
}

void app_hold_hangup(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGHUP);
	if (!hangup_is_ignored())
		(void)sigprocmask(SIG_BLOCK, &set, NULL);
}

int app_on_stop(struct app *a, sd_event_signal_handler_t fn, void *user, struct err *e)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
	size_t n = ARRAY_SIZE(signals);
	int r = 0;

	/* sd-event blocks the signal, and a blocked signal reaches the loop even if it is ignored. */
	if (hangup_is_ignored())
		n--;
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = sd_event_add_signal(a->loop, NULL, signals[i] | SD_EVENT_SIGNAL_PROCMASK, fn,
					user);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "the event loop") : 0;
}

int app_end(struct app *a)
{
	return a->manager ? manager_rest_all(a->manager) : sd_event_exit(a->loop, 0);
}

void app_done(struct app *a)
{
	store_cancel_passwords(a->store);
	workers_end(); /* jobs are delivered while their owners exist; from now on all happens at once */
	a->workers = sd_event_source_disable_unref(a->workers);
	a->packages = packages_free(a->packages);
	a->image_fetch =
	    image_fetch_free(a->image_fetch); /* calls that wait for it have their errors */
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
	a->reopener = reopener_free(a->reopener);
	a->image_builder = image_builder_free(a->image_builder);
	a->image_puller = image_builder_free(a->image_puller);
	a->cells = cells_free(a->cells);
	a->accounting = accounting_free(a->accounting);
	a->uses = fleet_tally_free(a->uses);
	a->elsewhere = fleet_tally_free(a->elsewhere);
	a->store = store_close(a->store);
	engine_close(TAKE_PTR(a->engine));
	a->ca_fd = fd_close(a->ca_fd);
	a->cache_fd = fd_close(a->cache_fd);
	a->wheel_fd = fd_close(a->wheel_fd);
	a->loop = sd_event_unref(a->loop);
	a->budgets = budgets_free(a->budgets);
	settings_done(&a->settings);
	log_close();
}

int app_fail(const struct app *a, const struct err *e)
{
	const char *hint = err_code_hint(e->code);

	/* If the log goes to stderr, the line below is enough. The end of an engine is in the log. */
	const bool lost =
	    a->manager && manager_engine(a->manager) && engine_lost(manager_engine(a->manager));
	if (a->log_is_file && !lost)
		LOG_ERROR("startup_failed", LOG_S("verb", a->verb), LOG_S("error", e->text));
	(void)fprintf(stderr, "ERROR: %s%s%s\n", e->text, *hint ? ". " : "", hint);
	/* In the servers that this program replaces, these two errors have exit status 1. */
	if (e->code == ERR_IMAGE_MISSING || e->code == ERR_ENGINE_UNAVAILABLE)
		return 1;
	return err_code_exit(e->code);
}
