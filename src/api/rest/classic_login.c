/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/token: exchanges a name and a password for a token. login_limits.h limits how fast
 * passwords can be guessed. */
#include "api/api_state.h"

#include "api/auth/login_limits.h"
#include "base/rand.h"
#include "base/text.h"

#include <sodium.h>
#include <string.h>
#include <strings.h>

#define WAITING_MAX       1024u /* logins that wait for their turn */
#define WAITING_DEVICES   128u  /* of these, for browsers in which the name logged in before */
#define WAITING_ALIKE_MAX 32u   /* those of one network, or with a token for one name */

struct login {
	struct list node; /* in api.logins */
	struct api *api;
	struct http_request *req; /* NULL: the client has disconnected */
	sd_event_source *turn;
	char network[HTTP_NETWORK_TEXT]; /* "" = not known */
	char device[AUTH_DEVICE_SIZE];   /* "" = none */
	api_login_fn done;               /* NULL: the answer has the second family's form */
	void *user;
	char name[STORE_NAME_SIZE];
	char password[STORE_PASSWORD_MAX + 1];
};

static struct login_source source_of(const struct login *l)
{
	return (struct login_source){.network = l->network, .name = l->name, .device = l->device};
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

static void fail(struct login *l, enum err_code code, const char *text)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, code, 0, "%s", text);
	l->done(NULL, &e, l->user);
}

static void too_many(struct login *l)
{
	struct http_request *req = l->req;

	if (l->done) {
		fail(l, ERR_RATE_LIMITED, "Too many failed logins; try again in some seconds");
		return;
	}

	(void)http_add_header(req, "Retry-After", "10");
	api_detail(req, 429, "Too many failed logins; try again in some seconds");
}

static void answer_wrong(struct login *l, const struct err *failed, bool was_over)
{
	if (failed->code == ERR_UNAUTHORIZED && was_over)
		too_many(l);
	else if (l->done)
		l->done(NULL, failed, l->user);
	else
		api_detail(l->req, err_code_http(failed->code), failed->text);
}

static void on_checked(const struct store_user *u, const uint8_t *login, const struct err *failed,
		       void *user)
{
	struct login *l = user;
	struct login_limits *limits = l->api->login_limits;
	const struct login_source who = source_of(l);
	bool was_over = login_limits_over(limits, &who, now_ns());
	char token[TOKEN_SIZE];
	struct err e = ERR_INIT;

	if (!l->done)
		api_audit(l->api, l->req, NULL, "user.login", l->name,
			  failed ? err_code_name(failed->code) : "ok");
	if (!failed || failed->code == ERR_UNAUTHORIZED)
		login_limits_note(limits, &who, !failed, now_ns());
	if (!l->req && !l->done)
		;
	else if (failed)
		answer_wrong(l, failed, was_over);
	else if (l->done && !u->active)
		fail(l, ERR_UNAUTHORIZED, "Inactive user");
	else if (l->done)
		l->done(u, NULL, l->user);
	else if (!u->active)
		api_detail(l->req, 400, "Inactive user");
	else if (auth_token(l->api->config.auth, u, login, token, &e) < 0)
		api_detail(l->req, err_code_http(e.code), e.text);
	else {
		auth_set_device(l->api->config.auth, l->req, u->name);
		api_json(l->req, 200,
			 json_pack("{s:s, s:s}", "access_token", token, "token_type", "bearer"));
	}
	login_free(l);
}

/* Begins the check. When this returns, L is freed or waits for on_checked(). */
static void check(struct login *l)
{
	const struct login_source who = source_of(l);
	const struct login_limits *limits = l->api->login_limits;
	bool known = login_limits_knows(l->api->login_limits, &who);
	struct err e = ERR_INIT;
	int r = store_check_password(l->api->config.store, l->name, l->password,
				     known ? STORE_LANE_KNOWN : STORE_LANE_LOGIN,
				     login_limits_from(limits, &who, known), on_checked, l, &e);

	sodium_memzero(l->password, sizeof(l->password));
	if (r >= 0)
		return;
	if (l->done)
		l->done(NULL, &e, l->user);
	else if (l->req)
		api_detail(l->req, err_code_http(e.code), e.text);
	login_free(l);
}

static int on_turn(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct login *l = user;

	leave(l);
	if (l->req || l->done)
		check(l);
	else
		login_free(l);
	return 0;
}

static void on_gone(void *user)
{
	((struct login *)user)->req = NULL;
}

/* Those that wait and share a count of places with L: of its name if it has a token, else of its network. */
static unsigned count_alike(const struct login *l)
{
	unsigned n = 0;

	list_for_each(node, &l->api->logins) {
		const struct login *w = list_entry(node, struct login, node);

		if (l->device[0])
			n += w->device[0] && strcasecmp(w->name, l->name) == 0;
		else
			n += !w->device[0] && l->network[0] && streq(w->network, l->network);
	}
	return n;
}

/* Strangers leave places to those whose browser has a token. */
static bool has_place(const struct login *l)
{
	const unsigned max = l->device[0] ? WAITING_MAX : WAITING_MAX - WAITING_DEVICES;

	return l->api->n_logins < max && count_alike(l) < WAITING_ALIKE_MAX;
}

/* Makes the login wait. Returns false if it cannot wait. */
static bool wait_turn(struct login *l, int64_t wait_ns)
{
	struct api *a = l->api;

	if (wait_ns < 0 || !has_place(l) ||
	    sd_event_add_time_relative(a->config.loop, &l->turn, CLOCK_MONOTONIC,
				       (uint64_t)wait_ns / NS_PER_US, 0, on_turn, l) < 0)
		return false;
	list_append(&a->logins, &l->node);
	a->n_logins++;
	return true;
}

void classic_logins_done(struct api *a)
{
	list_for_each(n, &a->logins) {
		struct login *l = list_entry(n, struct login, node);

		if (l->done)
			fail(l, ERR_CANCELLED, "the server is shutting down");
		login_free(l);
	}
}

static void begin(struct login *l, const struct http_request *req)
{
	if (!http_request_network(req, l->network))
		l->network[0] = '\0';
	auth_device(l->api->config.auth, req, l->name, l->device);
	const struct login_source who = source_of(l);
	int64_t wait_ns = login_limits_wait(l->api->login_limits, &who, now_ns());

	if (wait_ns == 0) {
		check(l);
	} else if (!wait_turn(l, wait_ns)) {
		too_many(l);
		login_free(l);
	}
}

void api_login(struct api *a, const struct http_request *req, const char *name,
	       const char *password, api_login_fn done, void *user)
{
	struct login *l = calloc(1, sizeof(*l));
	struct err e = ERR_INIT;

	if (!l) {
		(void)err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a login");
		done(NULL, &e, user);
		return;
	}
	list_init(&l->node);
	l->api = a;
	l->done = done;
	l->user = user;
	(void)snprintf(l->name, sizeof(l->name), "%s", name);
	(void)snprintf(l->password, sizeof(l->password), "%s", password);
	begin(l, req);
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
	http_request_on_gone(req, on_gone, l);
	begin(l, req);
}
