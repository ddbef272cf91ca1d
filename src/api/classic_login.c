/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/token: exchanges a name and a password for a token. login_limits.h limits how fast
 * passwords can be guessed. */
#include "api/api_state.h"

#include "api/login_limits.h"
#include "base/rand.h"
#include "base/text.h"

#include <sodium.h>
#include <string.h>

#define WAITING_MAX 256u /* logins that wait for their turn */

struct login {
	struct list node; /* in api.logins */
	struct api *api;
	struct http_request *req; /* NULL: the client has disconnected */
	sd_event_source *turn;
	char network[HTTP_NETWORK_TEXT]; /* "" = not known */
	char name[STORE_NAME_SIZE];
	char password[STORE_PASSWORD_MAX + 1];
};

static struct login_source source_of(const struct login *l)
{
	return (struct login_source){.network = l->network, .name = l->name};
}

/* Removes the login from those that wait for their turn. */
static void leave(struct login *l)
{
	if (l->turn)
		l->api->n_logins--;
	list_remove(&l->node);
	l->turn = sd_event_source_disable_unref(l->turn);
}

static void login_free(struct login *l)
{
	leave(l);
	sodium_memzero(l, sizeof(*l));
	free(l);
}

static void too_many(struct http_request *req)
{
	(void)http_add_header(req, "Retry-After", "10");
	api_detail(req, 429, "Too many failed logins; try again in some seconds");
}

static void answer_wrong(struct login *l, const struct err *failed, bool was_over)
{
	if (failed->code == ERR_UNAUTHORIZED && was_over)
		too_many(l->req);
	else
		api_detail(l->req, err_code_http(failed->code), failed->text);
}

static void on_checked(const struct store_user *u, const struct err *failed, void *user)
{
	struct login *l = user;
	struct login_limits *limits = l->api->login_limits;
	const struct login_source who = source_of(l);
	bool was_over = login_limits_over(limits, &who, now_ns());
	char token[TOKEN_SIZE];
	struct err e = ERR_INIT;

	api_audit(l->api, l->req, NULL, "user.login", l->name,
		  failed ? err_code_name(failed->code) : "ok");
	if (!failed || failed->code == ERR_UNAUTHORIZED)
		login_limits_note(limits, &who, !failed, now_ns());
	if (!l->req)
		;
	else if (failed)
		answer_wrong(l, failed, was_over);
	else if (!u->active)
		api_detail(l->req, 400, "Inactive user");
	else if (auth_token(l->api->config.auth, u, token, &e) < 0)
		api_detail(l->req, err_code_http(e.code), e.text);
	else
		api_json(l->req, 200,
			 json_pack("{s:s, s:s}", "access_token", token, "token_type", "bearer"));
	login_free(l);
}

/* Begins the check. When this returns, L is freed or waits for on_checked(). */
static void check(struct login *l)
{
	const struct login_source who = source_of(l);
	enum store_lane lane =
	    login_limits_knows(l->api->login_limits, &who) ? STORE_LANE_KNOWN : STORE_LANE_LOGIN;
	struct err e = ERR_INIT;
	int r = store_check_password(l->api->config.store, l->name, l->password, lane, on_checked,
				     l, &e);

	sodium_memzero(l->password, sizeof(l->password));
	if (r >= 0)
		return;
	if (l->req)
		api_detail(l->req, err_code_http(e.code), e.text);
	login_free(l);
}

static int on_turn(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct login *l = user;

	leave(l);
	if (l->req)
		check(l);
	else
		login_free(l);
	return 0;
}

static void on_gone(void *user)
{
	((struct login *)user)->req = NULL;
}

/* Makes the login wait. Returns false if it cannot wait. */
static bool wait_turn(struct login *l, int64_t wait_ns)
{
	struct api *a = l->api;

	if (wait_ns < 0 || a->n_logins >= WAITING_MAX ||
	    sd_event_add_time_relative(a->config.loop, &l->turn, CLOCK_MONOTONIC,
				       (uint64_t)wait_ns / NS_PER_US, 0, on_turn, l) < 0)
		return false;
	list_append(&a->logins, &l->node);
	a->n_logins++;
	return true;
}

void classic_logins_done(struct api *a)
{
	list_for_each(n, &a->logins)
		login_free(list_entry(n, struct login, node));
}

void classic_post_token(struct http_request *req, void *user)
{
	struct login *l = calloc(1, sizeof(*l));

	if (!l) {
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory", NULL);
		return;
	}
	list_init(&l->node);
	l->api = user;
	l->req = req;
	if (api_form_value(req, "username", l->name, sizeof(l->name)) < 0 ||
	    api_form_value(req, "password", l->password, sizeof(l->password)) < 0) {
		api_invalid(req, "username", "username and password are needed, as a form");
		login_free(l);
		return;
	}
	if (!http_request_network(req, l->network))
		l->network[0] = '\0';
	const struct login_source who = source_of(l);
	int64_t wait_ns = login_limits_wait(l->api->login_limits, &who, now_ns());
	http_request_on_gone(req, on_gone, l);
	if (wait_ns == 0) {
		check(l);
	} else if (!wait_turn(l, wait_ns)) {
		too_many(req);
		login_free(l);
	}
}
