/* SPDX-License-Identifier: Apache-2.0 */
/* Opens what clients get: tools, resources and prompts of the profile, and artifact links. */
#include "app/app.h"

#include "api/auth/auth.h"
#include "app/opener.h"
#include "app/profile.h"
#include "base/text.h"
#include "web/results_view.h"

static int open_registry(struct app *a, struct err *e)
{
	const struct profile *profile = profile_of(&a->settings);
	bool full = profile->full;
	struct mcp_server_config config = {
	    .name = profile->server_name,
	    .version = CAISSON_VERSION,
	    .title = profile->title,
	    .instructions = profile->instructions,
	    .may_call = auth_may_call,
	    .may_ask = auth_may_ask,
	    .budgets = a->budgets,
	    .fleet = app_fleet(a),
	    .icons = profile->icons,
	    .offers = MCP_OFFER_RESOURCES | MCP_OFFER_PROMPTS,
	};

	/* The servers that the exact profiles replace answered a call of an unknown tool so. */
	config.unknown_tool_is_result = !full;
	config.refusals_fail_post = profile->posts_fail;
	if (profile->code)
		config.offers |= MCP_OFFER_TOOLS_LIST_CHANGED | MCP_OFFER_LOGGING;
	if (full)
		config.offers |= MCP_OFFER_RESOURCES_LIST_CHANGED | MCP_OFFER_RESOURCES_SUBSCRIBE |
				 MCP_OFFER_COMPLETIONS | MCP_OFFER_TASKS;
	a->mcp = mcp_server_new(&config, e);
	if (!a->mcp)
		return -ENOMEM;
	int r = tools_add(a->tools, a->mcp, profile->tools, e);
	if (r < 0 || !full)
		return r;
	r = tools_add_resources(a->tools, a->mcp, e);
	return r < 0 ? r : tools_add_prompts(a->tools, a->mcp, e);
}

/* Answers in profiles code, classic and both are contracts: the bound holds there only if it was set
 * explicitly. */
static uint64_t line_bound(const struct settings *s)
{
	bool bounded = profile_of(s)->full || settings_is_explicit(s, SETTING_ID_max_line_bytes);

	return bounded ? (uint64_t)s->max_line_bytes : 0;
}

/* In the first family's contract a link does not serve a file that is too large for a tool. */
static uint64_t link_bytes(const struct settings *s)
{
	const struct profile *profile = profile_of(s);

	if (settings_is_explicit(s, SETTING_ID_max_link_bytes))
		return s->max_link_bytes > 0 ? (uint64_t)s->max_link_bytes : UINT64_MAX;
	return profile->code && !profile->full ? (uint64_t)s->max_artifact_read_bytes : UINT64_MAX;
}

static int open_links(struct app *a, struct http_server *http, struct err *e)
{
	const struct settings *s = &a->settings;
	struct links_config links = {
	    .loop = a->loop,
	    .manager = a->manager,
	    .http = http,
	    .host = s->http_host,
	    .port = s->http_port,
	    .public_url = s->public_url,
	    /* Where others can reach the listener, links are signed, so that ids cannot be guessed. A worker has no
	     * credential of its own, and the clients of its routers are anybody. */
	    .sign = app_is_worker(a) || s->api_key[0] != '\0' || s->require_auth ||
		    !app_is_loopback(s->http_host),
	    .store = a->store,
	    .life_s = (uint64_t)s->link_hours * 3600,
	    .stored_life_s = (uint64_t)s->stored_link_hours * 3600,
	    .max_bytes = link_bytes(s),
	    .upload_max_bytes = (uint64_t)s->max_upload_bytes,
	    .upload_life_s = (uint64_t)s->upload_link_m * 60,
	    .budgets = a->budgets,
	    .fleet = app_fleet(a),
	};

	return links_new(&links, &a->links, e);
}

/* Whoever serves begins later than the tools. */
static int port_url(void *user, const char *base, const char *owner, const char *id, uint16_t port,
		    struct buf *ret)
{
	const struct app *a = user;

	return a->port_url ? a->port_url(a->port_user, base, owner, id, port, ret) : -ENOTSUP;
}

int app_open_mcp(struct app *a, struct http_server *http, struct err *e)
{
	const struct settings *s = &a->settings;

	int r = open_links(a, http, e);
	if (r < 0)
		return r;
	struct tools_config tools = {
	    .loop = a->loop,
	    .manager = a->manager,
	    .packages = a->packages,
	    .budgets = a->budgets,
	    .domain_answered = app_domain_answered,
	    .domain_user = a,
	    .audit = app_tool_audit,
	    .audit_user = a,
	    .domain_again = (unsigned)s->network_ask_again,
	    .max_upload_bytes = (uint64_t)s->max_upload_bytes,
	    .max_read_bytes = (uint64_t)s->max_artifact_read_bytes,
	    .max_line_bytes = line_bound(s),
	    .answer_bytes = (uint64_t)s->answer_bytes,
	    .network_ask = s->network_ask,
	    .has_extras = profile_of(s)->full,
	    .max_code_bytes = (uint64_t)s->max_code_bytes,
	    .exec_timeout_s = (uint64_t)s->exec_timeout_s,
	    .has_landlock = a->has_landlock,
	    .result_chars = (size_t)s->result_chars,
	    .save_figures = streq(s->save_figures, "on"),
	    .save_figures_extras = !streq(s->save_figures, "off"),
	    .task_after_s = (uint64_t)s->task_after_s,
	    .link_base = links_base,
	    .link_expire = links_expire,
	    .link_query = links_query,
	    .upload_link = links_upload,
	    .upload_link_s = (uint64_t)s->upload_link_m * 60,
	    .classic_base = links_main_base,
	    .link_user = a->links,
	    .port_url = port_url,
	    .port_user = a,
	    .view = web_has_results_view() ? web_results_view : NULL,
	    .max_classic_code = (uint64_t)MAX(s->max_code_bytes, s->stored_output_bytes),
	    .local_user = s->default_user_id,
	    .open_local = a->opener ? opener_open : NULL,
	    .list_local = opener_list,
	    .local_for_others = settings_is_explicit(s, SETTING_ID_local_roots),
	    .local_user_data = a->opener,
	};
	a->tools = tools_new(&tools, e);
	return a->tools ? open_registry(a, e) : -ENOMEM;
}
