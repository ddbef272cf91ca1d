/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_allow_domain: one more host that a sandbox may reach, if the person at the client
 * agrees. The person is told exactly which host and which sandbox; only the answer to that
 * counts. The question has no reason given by the model, because a model would write whatever
 * makes people agree. */
#include "base/rand.h"
#include "tools/extras.h"

#include <string.h>

#define ANSWER "allow_domain"

json_t *extras_domains(const struct sandbox *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < sandbox_n_domains(s); i++)
		if (json_array_append_new(list, json_string(sandbox_domain(s, i))) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static void add_host(const char *host, void *user)
{
	(void)!json_array_append_new(user, json_string(host));
}

int extras_add_network(json_t *object, const struct tools *t, const struct sandbox *s)
{
	json_t *domains = json_array();

	(void)manager_network(t->config.manager, sandbox_choice(s), add_host, domains);
	int r = json_object_set_new(object, "network", json_string(sandbox_network(s)));
	if (r == 0 && json_array_size(domains) > 0)
		r = json_object_set(object, "domains", domains);
	json_decref(domains);
	return r;
}

static void finish_allowed(struct mcp_call *call, const struct sandbox *s, const char *domain)
{
	extras_finish(call,
		      json_pack("{s:s, s:s, s:s, s:o}", "session_id", sandbox_id(s), "status",
				"allowed", "domain", domain, "network_allowed", extras_domains(s)));
}

static enum extras_word ask_person(struct mcp_call *call, const struct sandbox *s,
				   const char *domain)
{
	char message[EGRESS_ENTRY_SIZE + SANDBOX_ID_MAX + 200];

	(void)snprintf(
	    message, sizeof(message),
	    "May code in sandbox %s reach the host %s%s? Until the sandbox ends it could load "
	    "anything from there and send anything that it has there.",
	    sandbox_id(s), domain, strchr(domain, ':') ? "" : " (ports 80 and 443)");
	return extras_ask(call, ANSWER, message, "Allow this host");
}

/* The domain in ARGUMENTS, in the form in which hosts are compared. */
static bool get_domain(struct mcp_call *call, const json_t *arguments, char *ret)
{
	struct mcp_text_ref text = tools_text_arg(call, arguments, "domain");
	struct err e = ERR_INIT;

	if (text.text && text.len == strlen(text.text) &&
	    egress_entry_parse(text.text, ret, &e) == 0)
		return true;
	extras_fail(call, "invalid_domain",
		    "Give one name without a scheme, a path or a wildcard: example.org, or "
		    "example.org:8443.",
		    "The domain is not host or host:port with a name of at least two parts.");
	return false;
}

/* May the person be asked? False: the call is finished. A call that brings the answer was
 * counted when its question was sent. */
static bool may_ask(struct tools *t, struct mcp_call *call, const struct sandbox *s,
		    const char *domain)
{
	struct err e = ERR_INIT;
	int r = sandbox_check_domain(s, domain, &e);

	if (r == -EEXIST)
		finish_allowed(call, s, domain);
	else if (r < 0)
		extras_fail(call, err_code_name(e.code),
			    "Use what it may reach already, or a new session.", "%s", e.text);
	else if (!extras_can_ask(call))
		extras_fail(call, "cannot_ask",
			    "Ask the person to have the host added to sandbox.network_allow.",
			    "The client cannot ask its person, so %s cannot be allowed.", domain);
	else if (!mcp_call_input(call, ANSWER) &&
		 !asked_may(&t->asked, sandbox_owner(s), domain, t->config.domain_again, now_ns()))
		extras_fail(call, "asked_too_often",
			    "Go on without it. The person can have the host added to "
			    "sandbox.network_allow.",
			    "The person was asked for hosts too often within an hour, so the "
			    "question about %s was not sent.",
			    domain);
	else
		return true;
	return false;
}

void extras_allow_domain(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;
	char domain[EGRESS_ENTRY_SIZE];
	struct err e = ERR_INIT;

	if (!get_domain(call, arguments, domain))
		return;
	struct sandbox *s = extras_session(t, call, arguments);
	if (!s || !may_ask(t, call, s, domain))
		return;
	const char *owner = sandbox_owner(s);
	if (!mcp_call_input(call, ANSWER))
		asked_note(&t->asked, owner, domain, now_ns());
	enum extras_word word = ask_person(call, s, domain);
	if (word == EXTRAS_ASKED)
		return;
	if (word == EXTRAS_AGREED)
		asked_forget(&t->asked, owner, domain);
	int r = word == EXTRAS_AGREED ? sandbox_allow_domain(s, domain, &e) : 0;
	if (t->config.domain_answered && r == 0)
		t->config.domain_answered(s, domain, word == EXTRAS_AGREED, t->config.domain_user);
	if (r < 0)
		extras_fail_err(call, &e);
	else if (word == EXTRAS_AGREED)
		finish_allowed(call, s, domain);
	else
		extras_fail(call, "declined", "Go on without it; do not ask again unprompted.",
			    "The person did not allow %s.", domain);
}
