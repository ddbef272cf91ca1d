/* SPDX-License-Identifier: Apache-2.0 */
/* How the router refuses a request, and what it reads of a worker's refusal. */
#include "fleet/router/parts.h"

#include "base/text.h"
#include "fleet/identity.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define RETRY_AFTER "2"

bool bound_is_mcp(const struct bound *b)
{
	return b->place == PLACE_MCP || b->place == PLACE_STREAM || b->place == PLACE_QUERY;
}

void hop_respond(const struct bound *b, struct http_request *req, enum err_code code,
		 const char *why)
{
	const int status = err_code_http(code);
	struct err e = ERR_INIT;

	if (b->face_row) {
		(void)err_set(&e, code, 0, "%s", why);
		b->router->face->refuse(req, b->face_row, &e);
		return;
	}
	if (status == 503)
		(void)http_add_header(req, "Retry-After", RETRY_AFTER);
	if (!bound_is_mcp(b)) {
		http_respond_problem(req, code, why, NULL);
		return;
	}
	json_t *body =
	    json_pack("{s:s, s:n, s:{s:i, s:s, s:{s:s}}}", "jsonrpc", "2.0", "id", "error", "code",
		      -32000, "message", why, "data", "code", err_code_name(code));
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	json_decref(body);
	/* A client whose session is gone begins a new one when it hears 404. */
	http_respond_take(req, code == ERR_NODE_LOST ? 404 : status, "application/json", text,
			  text ? strlen(text) : 0);
}

/* Codes of a worker that is full, while another one may not be. A quota of the caller is none of them. */
static const enum err_code full[] = {ERR_MAX_SESSIONS, ERR_TOO_MANY_FILES, ERR_OUT_OF_MEMORY,
				     ERR_HOST_DISK_FULL, ERR_ENGINE_UNAVAILABLE};
/* Those of them that do not say that it is full, but that it lacks something. */
static const enum err_code unable[] = {ERR_ENGINE_UNAVAILABLE};
/* The worker does not believe us, which is no fault of the client. */
static const enum err_code ours[] = {ERR_IDENTITY_MISSING, ERR_IDENTITY_INVALID};

static bool says(const char *body, size_t len, const enum err_code *codes, size_t n)
{
	char text[64];

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(text, sizeof(text), "\"code\":\"%s\"", err_code_name(codes[i]));
		if (memmem(body, len, text, strlen(text)))
			return true;
	}
	return false;
}

bool hop_says_full(const char *body, size_t len)
{
	return says(body, len, full, ARRAY_SIZE(full));
}

bool hop_says_unable(const char *body, size_t len)
{
	return says(body, len, unable, ARRAY_SIZE(unable));
}

bool hop_says_ours(const char *body, size_t len)
{
	return says(body, len, ours, ARRAY_SIZE(ours));
}

const char *hop_error_of(const struct relay_reply *reply)
{
	for (unsigned i = 0; i < reply->n_fields; i++)
		if (strcasecmp(reply->fields[i].name, FLEET_ERROR_HEADER) == 0)
			return reply->fields[i].value;
	return NULL;
}

static bool is_among(const char *code, const enum err_code *codes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (streq(code, err_code_name(codes[i])))
			return true;
	return false;
}

bool hop_is_full(const char *code)
{
	return is_among(code, full, ARRAY_SIZE(full));
}

bool hop_is_unable(const char *code)
{
	return is_among(code, unable, ARRAY_SIZE(unable));
}

bool hop_is_ours(const char *code)
{
	return is_among(code, ours, ARRAY_SIZE(ours));
}
