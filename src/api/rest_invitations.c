/* SPDX-License-Identifier: Apache-2.0 */
/* REST: invitations. With an invitation one person makes an account where registration is closed,
 * by POST /api/register (classic_users.c). */
#include "api/rest.h"

#include "base/text.h"

#include <string.h>

#define LIFE_S (7 * 24 * 3600) /* default life, in seconds */

static json_t *invitation_json(const struct store_invitation *i)
{
	char created[API_TIME_SIZE], expires[API_TIME_SIZE];

	return json_pack("{s:s, s:s, s:s, s:s, s:s}", "id", i->id, "role", store_role_name(i->role),
			 "note", i->note, "created_at", api_time(i->created_ms, created),
			 "expires_at", api_time(i->expires_ms, expires));
}

static void add_invitation(const struct store_invitation *i, void *user)
{
	(void)json_array_append_new(user, invitation_json(i));
}

void rest_list_invitations(struct rest_call *c)
{
	json_t *list = json_array();
	struct err e = ERR_INIT;

	if (store_invitation_each(c->api->config.store, add_invitation, list, &e) < 0) {
		json_decref(list);
		rest_fail(c, &e);
		return;
	}
	rest_reply(c, 200, json_pack("{s:o}", "invitations", list));
}

void rest_new_invitation(struct rest_call *c)
{
	uint64_t life_s = (uint64_t)rest_int(c, "expires_in_s", LIFE_S);
	struct store_invitation i = {.expires_ms = store_now_ms() + life_s * 1000};
	char text[STORE_KEY_SIZE];
	struct err e = ERR_INIT;

	c->action = "user.invite";
	if (streq(rest_text(c, "role", ""), "admin"))
		i.role = STORE_ROLE_ADMIN;
	(void)snprintf(i.note, sizeof(i.note), "%s", rest_text(c, "note", ""));
	if (store_invitation_add(c->api->config.store, &i, text, &e) < 0) {
		rest_fail(c, &e);
		return;
	}
	(void)snprintf(c->object, sizeof(c->object), "%s", i.id);
	json_t *answer = invitation_json(&i);
	(void)json_object_set_new(answer, "invitation", json_string(text));
	rest_reply(c, 201, answer);
}

void rest_withdraw_invitation(struct rest_call *c)
{
	const char *id = http_request_param(c->req, "invitation");
	struct err e = ERR_INIT;

	c->action = "user.uninvite";
	int r = text_is_utf8(id, strlen(id)) ? store_invitation_remove(c->api->config.store, id, &e)
					     : 0;
	if (r < 0) {
		rest_fail(c, &e);
	} else if (r == 0) {
		rest_refuse(c, ERR_NOT_FOUND, "There is no such invitation");
	} else {
		(void)snprintf(c->object, sizeof(c->object), "%s", id);
		rest_reply(c, 204, NULL);
	}
}
