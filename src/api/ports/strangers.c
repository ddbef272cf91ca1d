/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to names of ports: of the owner, who shows a pass or a key; of whoever has the token of a sandbox of a face; and of
 * strangers, where the sandbox is public. A stranger gets what the server inside says, and nothing on account of the owner: the
 * connection counts for the stranger's address, the request has a budget of its own (BUDGET_PUBLIC_REQUESTS) and a rate, it makes
 * no sandbox active, and keeps none alive. Whether there is a sandbox that is not public, strangers do not learn. */
#include "api/ports/ports.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/walls.h"

#include <string.h>

#define VOUCHED_MS (UINT64_C(12) * 3600 * 1000) /* as long as a pass holds */

/* ---- who is there ---- */

/* "": all strangers look alike to us, behind a proxy that we do not know. */
static void network_of(const struct http_request *req, char ret[HTTP_NETWORK_TEXT])
{
	const char *payer = http_request_payer(req);

	if (http_request_network(req, ret))
		return;
	if (text_copy(ret, HTTP_NETWORK_TEXT, streq(payer, BUDGET_LOCAL) ? "" : payer) < 0)
		ret[0] = '\0';
}

int port_admit_stranger(struct api *a, struct exchange *x, struct sandbox *s, struct err *e)
{
	const char *owner = sandbox_owner(s);
	const struct budgets *b = a->config.budgets;
	const uint64_t most = b ? budget_bounds(b, BUDGET_PUBLIC_REQUESTS).each / 4 : UINT64_MAX;
	uint64_t n = 0;

	if (!wall_stands(WALL_STRANGERS)) {
		list_append(&a->strangers, &x->node);
		return 0;
	}
	network_of(x->relay.req, x->network);
	list_for_each(l, &a->strangers) {
		const struct exchange *other = list_entry(l, struct exchange, node);

		n += x->network[0] && streq(other->network, x->network) && other->sandbox &&
		     streq(sandbox_owner(other->sandbox), owner);
	}
	/* First, so that what is refused here takes nothing of the rate, which all have together. */
	int r = n < MAX(most, UINT64_C(1))
		    ? sandbox_admit_stranger(s, x->network, e)
		    : err_set(e, ERR_BUDGET_EXCEEDED, 0,
			      "your address has too many requests to this server that have not "
			      "been answered to the end");
	r = r < 0 ? r
		  : budget_take(a->config.budgets, owner, BUDGET_PUBLIC_REQUESTS, 1, &x->share, e);
	if (r == 0)
		list_append(&a->strangers, &x->node);
	return r;
}

bool port_is_welcome(const struct exchange *x)
{
	return list_is_empty(&x->node) || sandbox_is_public(x->sandbox);
}

void ports_end_strangers(struct api *a)
{
	list_for_each(l, &a->strangers) {
		struct exchange *x = list_entry(l, struct exchange, node);

		if (port_is_welcome(x))
			continue;
		if (x->relay.stream || x->relay.socket)
			relay_cut(&x->relay, 1008);
		else if (
		    x->relay
			.source) /* else it is being connected, and looks by itself afterwards */
			port_refuse(x, ERR_UNAUTHORIZED, "this port is not public any more");
	}
}

void ports_done(struct api *a)
{
	list_for_each(l, &a->strangers)
		list_remove(l);
}

/* ---- names ---- */

static void refuse(const struct port_visit *v, struct http_request *req, enum err_code code,
		   const char *why)
{
	if (!v->face || !v->face->refuse(v->face->user, req, v->name.id, v->name.port, code))
		http_respond_problem(req, code, why, NULL);
}

/* OWNER is answerable for what REQ does: if the owner is removed, it ends. The request itself counts for nobody. NULL: the owner
 * is found by name. False: there is no such user any more. */
static bool vouch(struct api *a, struct http_request *req, const struct caller *owner,
		  const char *name)
{
	if (owner)
		http_request_set_caller(req, caller_ref(owner), caller_unref);
	else if (!auth_by_pass(a->config.auth, req, name, now_wall_ns() / NS_PER_MS + VOUCHED_MS))
		return false;
	http_request_set_principal(req, "");
	return true;
}

/* WHO, who has shown a pass or a key, is the owner, as far as we know: OWNER is known of sandboxes of a face and of public ones. A
 * key that may do little opens what is open to everybody. */
static bool is_owner(const struct caller *who, const char *owner, bool is_open)
{
	if (!who || (owner && !streq(who->owner, owner)))
		return false;
	return !is_open || (!who->read_only && auth_may_change(who, "openPort"));
}

void port_on_name(struct http_request *req, void *user)
{
	struct api *a = user;
	struct port_visit v = {.base = ""};
	const struct api_port_face *face = &a->port_face;
	const struct caller *owner = NULL;
	enum api_port_door door = API_PORT_UNKNOWN;
	bool answered;

	if (!port_name_of(req, &v.name)) {
		http_respond_problem(req, ERR_NOT_FOUND, "no port has this name", NULL);
		return;
	}
	const struct caller *who = port_identify(a, req, &v.name, &answered);
	if (answered)
		return;
	if (face->look)
		door = face->look(face->user, req, v.name.id, &owner);
	v.face = door == API_PORT_UNKNOWN ? NULL : face;
	if (door == API_PORT_GONE) {
		refuse(&v, req, ERR_SESSION_NOT_FOUND, "no sandbox has this name");
		return;
	}
	struct sandbox *open = manager_find_public(a->config.manager, v.name.id);
	v.owner = owner ? owner->owner : open ? sandbox_owner(open) : NULL;
	if (is_owner(who, v.owner, open != NULL)) {
		if (!port_may_use(req, who))
			return;
		v.owner = who->owner;
	} else if ((open || door == API_PORT_OPEN) && vouch(a, req, owner, v.owner)) {
		/* A pass that opens nothing here is for nobody else to read. */
		if (port_drop_pass(a, req, false))
			return;
		v.open = door == API_PORT_OPEN ? NULL : open;
	} else {
		refuse(&v, req, ERR_UNAUTHORIZED,
		       "this address needs a pass: open the port anew on the page of the server");
		return;
	}
	if (v.face)
		face->wake(face->user, v.name.id);
	port_begin(a, req, &v);
}
