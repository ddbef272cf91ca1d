/* SPDX-License-Identifier: Apache-2.0 */
/* Where links and names of ports lead: what they have in them says it, since nobody shows a credential. */
#include "fleet/router/moves.h"

#include "base/parse.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define PASSES_MAX 4  /* of one request; each is a question to the store */
#define LABEL_MAX  63 /* of a part of a host name: RFC 1035 §2.3.4 */

static int by_id(const struct fleet_router *f, const char *id, char ret[FLEET_WORKER_SIZE],
		 char name[LINK_NAME_SIZE])
{
	/* Its id stays. What another worker made before is void at the one that has it now; what that one makes leads there. */
	const bool moved = moves_where(f, id, ret);

	if (moved && ret[0])
		return 0;
	if (!moved && fleet_id_has_form(id))
		return fleet_id_worker(f->config.key, id, ret) ? 0 : -ENOENT;
	(void)!text_copy(name, LINK_NAME_SIZE, id);
	return -ENOENT;
}

/* If the owner has chosen the name of the sandbox, the signature names the worker. */
static int by_file(const struct fleet_router *f, const struct http_request *req,
		   char ret[FLEET_WORKER_SIZE], char name[LINK_NAME_SIZE])
{
	const char *session = http_request_param(req, "session");
	const char *id = session ? session : http_request_query(req, "sandbox_id");
	const char *signature = http_request_query(req, "s");

	if (!id)
		return -ENOENT;
	/* A name may look like an id. */
	if (!signature || fleet_id_worker(f->config.key, id, ret))
		return by_id(f, id, ret, name);
	return fleet_id_worker(f->config.key, signature, ret) ? 0 : -ENOENT;
}

/* "8000-ID.ports.example.org" */
static int by_host(const struct fleet_router *f, const struct http_request *req,
		   char ret[FLEET_WORKER_SIZE], char name[LINK_NAME_SIZE])
{
	const char *host = http_request_header(req, "host");
	const size_t digits = host ? strspn(host, "0123456789") : 0;
	char id[LABEL_MAX + 1] = "";

	if (digits == 0 || host[digits] != '-')
		return -ENOENT;
	const size_t len = strcspn(host + digits + 1, ".");
	if (len == 0 || len > LABEL_MAX)
		return -ENOENT;
	/* Names are the same in any case; ids that we make have small letters. */
	for (size_t i = 0; i < len; i++)
		id[i] = (char)tolower((unsigned char)host[digits + 1 + i]);
	return by_id(f, id, ret, name);
}

int link_worker(const struct fleet_router *f, const struct http_request *req, enum place place,
		char ret[FLEET_WORKER_SIZE], char name[LINK_NAME_SIZE])
{
	name[0] = '\0';
	if (place == PLACE_NAME)
		return by_host(f, req, ret, name);
	if (place == PLACE_LINK)
		return by_file(f, req, ret, name);
	const char *token = http_request_param(req, "token");
	return fleet_token_worker(f->config.key, token, ret) ? 0 : -ENOENT;
}

/* ---- passes ---- */

struct passes {
	struct fleet_router *router;
	struct http_request *req;
	unsigned n;
	bool hold;
};

/* "UNTIL.OWNER.MAC", LEN bytes. What is no pass, the worker refuses. */
static void judge(struct passes *s, const char *pass, size_t len)
{
	const char *dot = memchr(pass, '.', len), *last = memrchr(pass, '.', len);
	char owner[STORE_OWNER_SIZE];
	uint64_t until;

	if (!s->hold || !dot || last <= dot || (size_t)(last - dot - 1) >= sizeof(owner) ||
	    parse_u64_n(pass, (size_t)(dot - pass), 0, UINT64_MAX / 1000, &until) < 0)
		return;
	memcpy(owner, dot + 1, (size_t)(last - dot - 1));
	owner[last - dot - 1] = '\0';
	s->hold = ++s->n <= PASSES_MAX &&
		  auth_by_pass(s->router->config.auth, s->req, owner, until * 1000);
}

/* The worker takes whichever is right, and a parameter that we take away may stand before one of them. */
static void judge_all(struct passes *s)
{
	static const char parameter[] = RELAY_PASS_NAME "=";
	const size_t skip = sizeof(parameter) - 1;

	for (const char *p = http_request_raw_query(s->req); p && *p; p += *p == '&') {
		const size_t len = strcspn(p, "&");

		if (strncmp(p, parameter, skip) == 0)
			judge(s, p + skip, len - skip);
		p += len;
	}
	for (const char *p = http_request_header(s->req, "cookie"); p && *p; p += strcspn(p, ";")) {
		p += strspn(p, "; ");
		const size_t len = strcspn(p, ";"), name = strcspn(p, "=;");

		if (relay_is_pass(p, len))
			judge(s, p + name + 1, len - name - 1);
	}
}

bool link_passes_hold(struct fleet_router *f, struct http_request *req, const struct caller *who)
{
	struct passes s = {.router = f, .req = req, .hold = true};

	judge_all(&s);
	if (s.n > 0)
		/* Nobody has checked that the pass is one: the request counts for nobody. */
		http_request_set_principal(req, who ? who->owner : "");
	/* It ends with the credential, or else with the user of the pass: the local user never ends. */
	if (s.n > 0 && who && who->how != CALLER_LOCAL)
		http_request_set_caller(req, caller_ref(who), caller_unref);
	return s.hold;
}
