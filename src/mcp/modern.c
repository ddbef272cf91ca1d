/* SPDX-License-Identifier: Apache-2.0 */
/* The order of checks that revision 2026-07-28 demands, and server/discover. */
#include "mcp/objects.h"

bool caps_cover(const json_t *caps, const json_t *needs)
{
	const char *key;
	json_t *need;

	json_object_foreach((json_t *)(uintptr_t)needs, key, need) {
		const json_t *have = json_object_get(caps, key);

		if (!have || json_is_false(have) || json_is_null(have))
			return false;
		if (json_is_object(need) && !caps_cover(have, need))
			return false;
	}
	return true;
}

void modern_refuse_capability(struct mcp_call *c, json_t *caps)
{
	call_fail(c, MCP_ERR_CLIENT_CAPABILITY, json_pack("{s:o}", "requiredCapabilities", caps),
		  "Missing required client capability");
}

/* Step 1: the envelope. */
static bool check_envelope(struct mcp_call *c, const char **ret_version)
{
	const json_t *meta = mcp_call_meta(c);
	const json_t *version = json_object_get(meta, META_VERSION);
	json_t *caps = json_object_get(meta, META_CLIENT_CAPS);
	const json_t *level = json_object_get(meta, META_LOG_LEVEL);
	int l = -1;

	if (!json_is_string(version) ||
	    strlen(json_string_value(version)) != json_string_length(version)) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "_meta must have %s: a string", META_VERSION);
		return false;
	}
	if (!json_is_object(caps) && !json_means_none(caps)) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "_meta must have %s: an object",
			  META_CLIENT_CAPS);
		return false;
	}
	if (level) {
		l = json_is_string(level) ? level_by_name(json_string_value(level)) : -EINVAL;
		if (l < 0) {
			call_fail(c, MCP_ERR_PARAMS, NULL, "%s is no log level", META_LOG_LEVEL);
			return false;
		}
	}
	c->level = l;
	c->client_caps = json_incref(caps);
	*ret_version = json_string_value(version);
	return true;
}

/* Steps 2 to 4: version and method. The headers must agree with the body, and both must be known.
 */
static bool check_version(struct mcp_call *c, const char *version, const char *method,
			  const struct mcp_http_facts *facts)
{
	if (facts && !header_equals(facts->protocol_version, version)) {
		call_fail(c, MCP_ERR_HEADER, NULL, "Header mismatch: MCP-Protocol-Version");
		return false;
	}
	if (!revision_is_modern(revision_by_name(version))) {
		call_fail(c, MCP_ERR_VERSION,
			  json_pack("{s:o,s:s}", "supported", revision_modern_names(), "requested",
				    version),
			  "Unsupported protocol version");
		return false;
	}
	c->revision = revision_by_name(version);
	if (facts && !header_equals(facts->method, method)) {
		call_fail(c, MCP_ERR_HEADER, NULL, "Header mismatch: Mcp-Method");
		return false;
	}
	return true;
}

/* Step 6: Mcp-Name. If the parameter is missing or wrong, the handler reports that. */
static bool check_name(struct mcp_call *c, const struct mcp_http_facts *facts)
{
	static const struct {
		unsigned flag;
		const char *key;
	} sources[] = {
	    {METHOD_NAME, "name"},
	    {METHOD_URI, "uri"},
	    {METHOD_TASK, "taskId"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(sources) && facts; i++) {
		const char *want;

		if (!(c->method->flags & sources[i].flag))
			continue;
		want = call_param(c, sources[i].key, URI_MAX);
		if (!facts->name || (want && !header_equals(facts->name, want))) {
			call_fail(c, MCP_ERR_HEADER, NULL, "Header mismatch: Mcp-Name");
			return false;
		}
	}
	return true;
}

bool modern_check(struct mcp_call *c, const char *method, const struct mcp_http_facts *facts)
{
	const char *version = NULL;

	if (!check_envelope(c, &version) || !check_version(c, version, method, facts))
		return false;
	c->method = method_find(c->server, method, MCP_ERA_MODERN);
	if (!c->method) {
		call_fail(c, MCP_ERR_METHOD, NULL, "Method not found (supported: %s)",
			  revision_name(MCP_REV_2026_07_28));
		return false;
	}
	if (!check_name(c, facts))
		return false;
	if ((c->method->flags & METHOD_TASK) && !mcp_call_client_extension(c, EXT_TASKS)) {
		modern_refuse_capability(c, json_pack("{s:{s:{}}}", "extensions", EXT_TASKS));
		return false;
	}
	return true;
}

void run_discover(struct mcp_call *c)
{
	const struct mcp_server *s = c->server;
	json_t *r = json_pack("{s:o,s:o}", "supportedVersions", revision_modern_names(),
			      "capabilities", server_capabilities(s, c->revision, c->client_caps));

	if (r && s->config.instructions &&
	    json_object_set_new(r, "instructions", json_string(s->config.instructions)) < 0) {
		json_decref(r);
		r = NULL;
	}
	mcp_call_finish(c, r);
}
