/* SPDX-License-Identifier: Apache-2.0 */
/* REST: the ports that servers in a sandbox listen on, and addresses for browsers. What passes to them is in api/ports. */
#include "api/ports/ports.h"
#include "api/rest/rest.h"

#include <string.h>

json_t *rest_port_json(const char *sandbox, const struct engine_port *p)
{
	char path[PORT_PATH_MAX];

	(void)snprintf(path, sizeof(path), "/p/%s/%u/", sandbox, p->port);
	json_t *row = json_pack("{s:i, s:s}", "port", p->port, "path", path);
	if (p->pid > 0) {
		(void)json_object_set_new(row, "pid", json_integer(p->pid));
		(void)json_object_set_new(row, "program", rest_name(p->name));
	}
	return row;
}

static void on_ports(const struct engine_port *ports, size_t n, const struct err *e, void *user)
{
	struct rest_call *c = user;
	json_t *all = json_array();

	if (e) {
		json_decref(all);
		rest_fail(c, e);
		return;
	}
	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(all, rest_port_json(sandbox_id(c->sandbox), &ports[i]));
	rest_reply(c, 200, json_pack("{s:o}", "ports", all));
}

static void list(struct rest_call *c)
{
	struct err e = ERR_INIT;

	if (sandbox_list_ports(c->sandbox, on_ports, c, &e) < 0)
		rest_fail(c, &e);
}

void rest_list_ports(struct rest_call *c)
{
	rest_sandbox(c, list);
}

static void open_port(struct rest_call *c)
{
	_cleanup_(buf_done) struct buf address = BUF_INIT(2 * HTTP_BASE_SIZE);
	struct port_name n = {.port = (uint16_t)rest_int(c, "port", 0)};
	uint64_t until;

	if (!c->req) { /* the client has left: nobody needs an address */
		rest_refuse(c, ERR_CANCELLED, "the client has left");
		return;
	}
	(void)snprintf(n.id, sizeof(n.id), "%s", sandbox_id(c->sandbox));
	if (port_address(c->api, c->req, c->owner, &n, &address, &until) < 0)
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
	else
		rest_reply(c, 201,
			   json_pack("{s:s, s:o}", "url", buf_str(&address), "expires_at",
				     rest_time(until * UINT64_C(1000000000))));
}

void rest_open_port(struct rest_call *c)
{
	c->action = "port.open";
	rest_sandbox(c, open_port);
}
