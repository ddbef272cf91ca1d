/* SPDX-License-Identifier: Apache-2.0 */
/* Turns settings into the configuration of package installation and of the network of sandboxes. */
#include "app/app.h"

#include "app/pip_config.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* The front writes the cache of wheels after it gave up its privileges, so its folder must belong to
 * the front's uid. This also takes the folder back from the uid of an earlier server. */
static void prepare_cache(struct app *a)
{
	char path[PATH_MAX + 32];
	struct err e = ERR_INIT;
	uid_t uid;
	gid_t gid;

	int n = snprintf(path, sizeof(path), "%s/packages/wheels", a->state_dir);
	if (n < 0 || (size_t)n >= sizeof(path) || a->settings.wheel_cache_bytes == 0 ||
	    fd_make_dirs(path, 0755) < 0)
		return;
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	if (geteuid() == 0 &&
	    (engine_front_ids(a->engine, &uid, &gid, &e) < 0 || fchown(fd, uid, gid) < 0))
		return;
	a->cache_fd = TAKE_FD(fd);
}

int app_prepare_packages(struct app *a, struct err *e)
{
	struct pip_config pip;
	const char *setting = a->settings.pip_index_url;

	pip_config_read(&pip);
	a->ca_fd = pip_config_open_ca(&pip, a->settings.pip_ca_file, &a->index_has_own_ca);
	a->index_is_trusted = setting[0] != '\0' || pip.index_url[0] != '\0';
	(void)snprintf(a->index_url, sizeof(a->index_url), "%s",
		       setting[0]         ? setting
		       : pip.index_url[0] ? pip.index_url
					  : PIP_DEFAULT_INDEX);
	prepare_cache(a);
	const char *wheels = a->settings.pip_wheel_dir;
	if (*wheels == '\0')
		return 0;
	a->wheel_fd = open(wheels, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (a->wheel_fd >= 0)
		return 0;
	return err_set(e, ERR_SETTING_INVALID, errno, "SANDBOX_PIP_WHEEL_DIR: '%s'", wheels);
}

/* ---- what is told of the way out ---- */

static void on_egress(const struct egress_event *event, void *user)
{
	static const char *const events[] = {[EGRESS_ALLOWED] = "egress_allowed",
					     [EGRESS_REFUSED] = "egress_refused",
					     [EGRESS_ENDED] = "egress_ended"};
	struct app *a = user;

	if (!egress_audit_note(a->egress_audit, event))
		return;
	LOG_INFO(events[event->verdict], LOG_S("sandbox", event->label),
		 LOG_S("reason", event->reason), LOG_S("method", event->method),
		 LOG_S("host", event->host), LOG_U("port", event->port),
		 LOG_S("address", event->address), LOG_U("sent", event->sent),
		 LOG_U("received", event->received));
}

void app_tool_audit(const char *principal, const char *action, const char *object,
		    const char *result, void *user)
{
	const struct app *a = user;

	if (a->store)
		store_audit(a->store, principal, action, object, result, NULL, NULL);
}

void app_domain_answered(const struct sandbox *s, const char *domain, bool allowed, void *user)
{
	const struct app *a = user;
	const char *result = allowed ? "ok" : "declined";
	char object[SANDBOX_ID_MAX + EGRESS_ENTRY_SIZE + 1];

	LOG_INFO("network_asked", LOG_S("sandbox", sandbox_id(s)), LOG_S("host", domain),
		 LOG_S("result", result));
	if (!a->store)
		return;
	(void)snprintf(object, sizeof(object), "%s %s", sandbox_id(s), domain);
	store_audit(a->store, sandbox_owner(s), "network.allow", object, result, NULL, NULL);
}

static void on_changed(const struct sandbox *s, const char *name, const char *version, void *user)
{
	struct app *a = user;
	struct err e = ERR_INIT;
	struct store_package row = {.status = "success", .ended_ms = now_wall_ns() / NS_PER_MS};
	int r;

	if (!a->store || !sandbox_is_stored(s))
		return;
	(void)snprintf(row.name, sizeof(row.name), "%s", name);
	(void)snprintf(row.version, sizeof(row.version), "%s", version ? version : "");
	r = version ? store_package_set(a->store, sandbox_id(s), &row, &e)
		    : store_package_remove(a->store, sandbox_id(s), name, &e);
	if (r < 0)
		LOG_WARNING("package_not_recorded", LOG_S("sandbox", sandbox_id(s)),
			    LOG_S("error", e.text));
}

/* One configuration for both users: the policy for the index, and the installation itself. */
static struct packages_config packages_settings(struct app *a)
{
	const struct settings *s = &a->settings;

	return (struct packages_config){
	    .loop = a->loop,
	    .manager = a->manager,
	    .egress = a->egress,
	    .budgets = a->budgets,
	    .cache_fd = -1,
	    .cache_bytes = s->wheel_cache_bytes,
	    .plan_ttl_ns = (uint64_t)s->index_ttl_m * 60 * NS_PER_S,
	    .index_url = a->index_url,
	    .extra_index_url = s->pip_extra_index_url,
	    .extra_hosts = s->pip_extra_hosts,
	    .index_is_trusted = a->index_is_trusted,
	    .index_has_own_ca = a->index_has_own_ca,
	    .tell = streq(s->pip_tell_index, "on")    ? PACKAGES_TELL_ON
		    : streq(s->pip_tell_index, "off") ? PACKAGES_TELL_OFF
						      : PACKAGES_TELL_AUTO,
	    .wheel_fd = a->wheel_fd,
	    .ca_fd = -1,
	    .allow_sources = s->pip_sources,
	    .timeout_ns = (uint64_t)s->install_timeout_s * NS_PER_S,
	    .max_bytes = s->install_max_bytes,
	    .changed = on_changed,
	    .user = a,
	};
}

static int check_open(const struct settings *s, struct err *e)
{
	if (s->network_open || (!streq(s->network, "open") && !streq(s->network_max, "open")))
		return 0;
	(void)err_set(e, ERR_SETTING_INVALID, 0,
		      "%s: 'open' lets sandboxes reach every public host; "
		      "SANDBOX_NETWORK_OPEN=on permits it",
		      streq(s->network, "open") ? "SANDBOX_NETWORK" : "SANDBOX_NETWORK_MAX");
	return -EINVAL;
}

static struct egress_policy *make_policy(struct app *a, enum egress_kind kind, struct err *e)
{
	const struct packages_config packages = packages_settings(a);

	if (kind == EGRESS_PACKAGES)
		return packages_policy(&packages, e);
	struct egress_policy *p = egress_policy_new(kind);
	if (!p)
		(void)err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the network's policy");
	else if (kind == EGRESS_ALLOWLIST && egress_policy_add(p, a->settings.network_allow, e) < 0)
		p = egress_policy_unref(p);
	return p;
}

/* The widest policy: every list of hosts that a client chooses must be within it. */
static struct egress_policy *make_widest(struct app *a, bool open, bool listed, struct err *e)
{
	struct egress_policy *p = make_policy(a, open ? EGRESS_OPEN : EGRESS_ALLOWLIST, e);

	/* `open` allows only the usual ports; the list may add others. */
	if (p && open && listed && egress_policy_add(p, a->settings.network_allow, e) < 0)
		p = egress_policy_unref(p);
	return p;
}

/* Makes the default policy of sandboxes and the policies that clients may choose instead. */
static int open_choices(struct app *a, struct err *e)
{
	enum egress_kind kind = EGRESS_NONE, max = EGRESS_NONE;

	(void)egress_kind_parse(a->settings.network, &kind);
	(void)egress_kind_parse(a->settings.network_max, &max);
	bool open = kind == EGRESS_OPEN || max == EGRESS_OPEN;
	bool listed = kind == EGRESS_ALLOWLIST || max >= EGRESS_ALLOWLIST;
	const bool may[EGRESS_KINDS] = {
	    [EGRESS_PACKAGES] = kind == EGRESS_PACKAGES || max >= EGRESS_PACKAGES,
	    [EGRESS_ALLOWLIST] = open || listed,
	    [EGRESS_OPEN] = open,
	};

	a->network = make_policy(a, kind, e);
	if (!a->network)
		return -EINVAL;
	for (enum egress_kind k = EGRESS_PACKAGES; k < EGRESS_KINDS; k++) {
		if (!may[k])
			continue;
		a->network_may[k] =
		    k == EGRESS_ALLOWLIST ? make_widest(a, open, listed, e) : make_policy(a, k, e);
		if (!a->network_may[k])
			return -EINVAL;
	}
	return 0;
}

int app_open_egress(struct app *a, struct err *e)
{
	const struct egress_config egress = {.loop = a->loop, .audit = on_egress, .user = a};
	const struct packages_config packages = packages_settings(a);
	int r = check_open(&a->settings, e);

	if (r == 0)
		r = packages_check_secrets(&packages, e);
	if (r < 0)
		return r;
	const struct egress_audit_config audit = {.loop = a->loop, .store = a->store};
	a->egress_audit = egress_audit_new(&audit);
	if (!a->egress_audit)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the audit log");
	r = egress_new(&egress, &a->egress, e);
	return r < 0 ? r : open_choices(a, e);
}

struct sandbox_index app_index(struct app *a)
{
	const struct packages_config packages = packages_settings(a);

	packages_inside(&packages, &a->inside);
	return (struct sandbox_index){
	    .host = a->inside.host, .port = a->inside.port, .env = a->inside.env};
}

int app_open_packages(struct app *a, struct err *e)
{
	struct packages_config config = packages_settings(a);

	config.ca_fd = TAKE_FD(a->ca_fd);
	config.cache_fd = TAKE_FD(a->cache_fd);
	config.wheel_fd = TAKE_FD(a->wheel_fd);
	return packages_new(&config, &a->packages, e);
}
