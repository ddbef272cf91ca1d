/* SPDX-License-Identifier: Apache-2.0 */
/* What the router of a fleet asks about requests to this face: whom they are about, and how they are refused. It has no sandboxes. */
#include "faces/e2b/templates.h"

#include "base/jsonio.h"
#include "base/text.h"

#include <string.h>

#define TAG ":default" /* of a snapshot: snapshots.c */
/* Of a body that is read on the loop; rarely one has more. */
#define BODY_MAX   (64u << 10) /* bytes */
#define VALUES_MAX 2048u       /* about 100 ns each */
#define DEPTH_MAX  16u

static int gone(struct err *e)
{
	return err_set(e, ERR_SESSION_NOT_FOUND, 0, "there is no such sandbox");
}

/* TEXT without TAG. */
static int copy_id(const char *text, char ret[FLEET_NAMES_SIZE], struct err *e)
{
	const size_t len = strlen(text), tag = sizeof(TAG) - 1;
	const size_t n = len > tag && streq(text + len - tag, TAG) ? len - tag : len;

	if (n >= FLEET_NAMES_SIZE)
		return gone(e);
	memcpy(ret, text, n);
	ret[n] = '\0';
	return 0;
}

static int names_of_path(const struct http_request *req, struct fleet_names *ret, struct err *e)
{
	const char *id = http_request_param(req, "id");
	const char *template = http_request_param(req, "template");
	const char *header = http_request_header(req, "e2b-sandbox-id");

	if (id && header && !streq(id, header))
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "E2b-Sandbox-Id names another sandbox than the address");
	return id || template ? copy_id(id ? id : template, ret->id, e) : gone(e);
}

static int find(const struct http_request *req, const void *row, struct fleet_names *ret,
		struct err *e)
{
	const struct e2b_bound *b = row;
	const char *token = http_request_header(req, "x-access-token");
	char id[E2B_ID_SIZE];

	*ret = (struct fleet_names){0};
	if (b->route->service == E2B_CONTROL)
		return names_of_path(req, ret, e);
	if (token && strlen(token) == E2B_TOKEN_SIZE - 1)
		(void)!text_copy(ret->token, sizeof(ret->token), token);
	if (e2b_id_of(req, id))
		return text_copy(ret->id, sizeof(ret->id), id);
	if (http_request_header(req, "e2b-sandbox-id") || e2b_is_port_name(req))
		return gone(e); /* or they name two */
	if (e2b_is_signed(b, req))
		return err_set(
		    e, ERR_INVALID_ARGUMENT, 0,
		    "this address names no sandbox, and this server has several workers: use it "
		    "with the header E2b-Sandbox-Id, or let the operator set SANDBOX_PORT_DOMAIN "
		    "and set E2B_DOMAIN instead of E2B_SANDBOX_URL");
	return ret->token[0] ? 0 : gone(e);
}

/* The member of a body that names what the call is about. */
static const char *member_of(const struct e2b_bound *b)
{
	if (b->route->fn == e2b_make_template || b->route->fn == e2b_remove_tags)
		return "name";
	return b->route->fn == e2b_assign_tags ? "target" : "templateID";
}

static json_t *read_body(const char *body, size_t len)
{
	const bool fits = len > 0 && len <= BODY_MAX;
	const size_t n = fits ? jsonio_count(body, len, VALUES_MAX, DEPTH_MAX) : 0;
	json_t *o = NULL;

	return n > 0 && n <= VALUES_MAX && jsonio_read(body, len, 0, &o, NULL) == 0 ? o : NULL;
}

static bool find_kept(const struct http_request *req, const void *row, const char *body, size_t len,
		      char ret[FLEET_KEPT_SIZE])
{
	char tag[TEMPLATE_NAME + 1];
	const char *name = http_request_param(req, "template");
	_Static_assert(FLEET_KEPT_SIZE == TEMPLATE_NAME + 1,
		       "names are as long as a router has them");

	if (!name)
		name = http_request_param(req, "alias");
	json_t *o = name ? NULL : read_body(body, len);
	if (!name)
		name = json_string_value(json_object_get(o, member_of(row)));
	/* No client can make these in a fleet. */
	const bool found = name && e2b_read_name(name, ret, tag) && !e2b_is_own_image(ret);

	json_decref(o);
	return found;
}

static void refuse(struct http_request *req, const void *row, const struct err *e)
{
	const enum e2b_service service = ((const struct e2b_bound *)row)->route->service;
	const bool dead = e->code == ERR_SESSION_NOT_FOUND || e->code == ERR_NODE_LOST;
	char id[E2B_ID_SIZE];

	if (dead && service != E2B_CONTROL)
		e2b_refuse_dead(req, e2b_id_of(req, id) ? id : "");
	else
		e2b_refuse_request(req, service, e);
}

const struct fleet_face e2b_fleet_face = {.name = "e2b",
					  .admit = e2b_admit,
					  .find = find,
					  .find_kept = find_kept,
					  .kept_path = E2B_PREFIX "/templates/aliases/",
					  .refuse = refuse};
