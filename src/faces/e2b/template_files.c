/* SPDX-License-Identifier: Apache-2.0 */
/* What a build copies comes before its steps, as archives by their hash. They wait in the workspace of a sandbox that nobody else reaches,
 * so they count as files of the user, and what is uploaded goes the way of all uploads: an address of envd with the token of that
 * sandbox. Archives end with the build; the hash is the client's and never looked into. */
#include "faces/e2b/templates.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define LIFE_S (2 * BUILD_SECONDS)

struct waiting {
	struct list node; /* of e2b_build.waiting */
	struct e2b_call *call;
	char hash[65];
};

bool e2b_is_hash(const char *text)
{
	return strlen(text) == 64 && text[strspn(text, "0123456789abcdef")] == '\0';
}

static void answer(struct e2b_build *b, struct e2b_call *c, const char *hash)
{
	const struct e2b_sandbox *s = b->archives;
	char base[HTTP_BASE_SIZE];
	const char *top = c->req && http_request_base(c->req, base) ? base : c->face->config.base;
	_cleanup_(buf_done) struct buf url = BUF_INIT(2048);

	(void)!buf_printf(&url, "%s" E2B_PREFIX "/files?path=%s" E2B_ARCHIVE_END, top, hash);
	e2b_reply(c, 201,
		  json_pack("{s:b, s:s, s:{s:s, s:s, s:s}}", "present", 0, "url", buf_str(&url),
			    "headers", "E2b-Sandbox-Id", s->id, "X-Access-Token", s->token,
			    "Content-Type", "application/octet-stream"));
}

static void end_waiting(struct e2b_build *b, const struct err *e)
{
	struct waiting *w;

	while ((w = list_pop_first(&b->waiting, struct waiting, node))) {
		if (e)
			e2b_fail(w->call, e);
		else
			answer(b, w->call, w->hash);
		free(w);
	}
}

void e2b_archives_done(struct e2b_build *b)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_CANCELLED, 0, "the build has ended");
	end_waiting(b, &e);
}

static void on_made(struct sandbox *made, const struct err *e, void *user)
{
	struct e2b_build *b = user;
	struct err failed = e ? *e : ERR_INIT;

	b->making = false;
	if (!e && b->template)
		(void)!e2b_sandbox_begin(b->archives, made, &failed);
	else if (!e)
		(void)err_set(&failed, ERR_CANCELLED, 0, "the build has ended");
	if (failed.code == ERR_NONE) {
		e2b_sandbox_set_end(b->archives, LIFE_S, false);
	} else {
		struct err ignored = ERR_INIT;

		if (made)
			(void)!sandbox_close(made, true, NULL, NULL, &ignored);
		b->archives = e2b_sandbox_unref(b->archives);
	}
	end_waiting(b, failed.code != ERR_NONE ? &failed : NULL);
	(void)e2b_build_unref(b);
}

static int make(struct e2b_build *b, struct e2b_call *c, struct err *e)
{
	const struct sandbox_choice network = {0};
	struct sandbox_options options = {0};
	json_t *o = json_object();
	const int r = sandbox_options_read(o, false, &options, e);

	json_decref(o);
	if (r < 0)
		return r;
	b->archives = e2b_sandbox_new(c->face, c->who);
	if (!b->archives)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a template");
	b->archives->hidden = b->archives->is_private = true;
	b->archives->metadata = json_object();
	b->making = true;
	manager_open_new(c->face->config.manager, c->who->owner, b->archives->id, &network,
			 &options, on_made, e2b_build_ref(b));
	sandbox_options_done(&options);
	return 0;
}

void e2b_archive_address(struct e2b_call *c)
{
	char alias[TEMPLATE_NAME + 1], tag[TEMPLATE_NAME + 1];
	const char *name = http_request_param(c->req, "template");
	const char *hash = http_request_param(c->req, "hash");
	const struct e2b_template *t =
	    e2b_read_name(name, alias, tag) ? e2b_template_of(c->face, c->who->owner, alias) : NULL;
	struct e2b_build *b = t ? list_last(&t->builds, struct e2b_build, node) : NULL;
	struct err e = ERR_INIT;

	if (!e2b_is_hash(hash)) {
		e2b_refuse(c, ERR_INVALID_ARGUMENT, "hash: 64 hexadecimal digits");
		return;
	}
	if (!b || b->state != BUILD_WAITING) {
		e2b_refuse(c, ERR_NOT_FOUND,
			   "there is no template of that name with a build that waits");
		return;
	}
	if (b->archives && b->archives->sandbox) {
		answer(b, c, hash);
		return;
	}
	struct waiting *w = calloc(1, sizeof(*w));
	if (!w) {
		e2b_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	w->call = c;
	memcpy(w->hash, hash, sizeof(w->hash));
	list_append(&b->waiting, &w->node);
	if (!b->making && make(b, c, &e) < 0)
		end_waiting(b, &e);
}
