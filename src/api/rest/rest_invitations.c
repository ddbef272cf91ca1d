/* SPDX-License-Identifier: Apache-2.0 */
/* REST: invitations. With an invitation one person makes an account where registration is closed,
 * by POST /api/register (classic_users.c). */
#include "api/rest/rows.h"

#include "base/json_text.h"
#include "base/text.h"

#include <string.h>

#define TEXT_MAX 65536u          /* of one row */
#define LIFE_S   (7 * 24 * 3600) /* default life, in seconds */

/* TEXT: the invitation itself; NULL: it is not shown. */
static int invitation_text(struct buf *b, const struct store_invitation *i, const char *text)
{
	char created[API_TIME_SIZE], expires[API_TIME_SIZE];

	return json_text_object(b, "ssssst", "id", i->id, "role", store_role_name(i->role), "note",
				i->note, "created_at", api_time(i->created_ms, created),
				"expires_at", api_time(i->expires_ms, expires), "invitation", text);
}

static bool add_invitation(const struct store_invitation *i, void *user)
{
	struct rows *r = user;

	return rows_begin(r) && rows_end(r, invitation_text(r->out, i, NULL));
}

static int each_invitation(struct rows *r, struct store *reading, struct err *e)
{
	return store_invitation_each(reading, &r->mark, add_invitation, r, e);
}

void rest_list_invitations(struct rest_call *c)
{
	rows_reply(c, rows_new(c, "invitations", each_invitation));
}

void rest_new_invitation(struct rest_call *c)
{
	_cleanup_(buf_done) struct buf answer = BUF_INIT(TEXT_MAX);
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
	if (invitation_text(&answer, &i, text) < 0)
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
	else
		rest_reply_text(c, 201, &answer);
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
