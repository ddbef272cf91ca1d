/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker tells the router of its fleet about a name: whether it keeps a template or a snapshot under it. */
#include "faces/e2b/templates.h"

#include "base/text.h"
#include "fleet/kept.h"

/* When the template changed last. */
static uint64_t changed_ms(const struct e2b_template *t)
{
	uint64_t ms = t->created_ms;

	list_for_each(l, &t->builds) {
		const struct e2b_build *b = list_entry(l, struct e2b_build, node);

		ms = MAX(ms, MAX(b->created_ms, b->finished_ms));
	}
	return ms;
}

unsigned e2b_builds_open(const struct e2b *f, const char *owner, const struct e2b_template *named,
			 unsigned *ret_templates)
{
	unsigned templates = 0, open = 0;

	list_for_each(l, &f->templates) {
		const struct e2b_template *t = list_entry(l, struct e2b_template, node);

		if (!streq(t->owner, owner))
			continue;
		templates++;
		list_for_each(k, &t->builds) {
			const struct e2b_build *b = list_entry(k, struct e2b_build, node);

			open +=
			    b->state == BUILD_GOES_ON || (b->state == BUILD_WAITING && t != named);
		}
	}
	if (ret_templates)
		*ret_templates = templates;
	return open;
}

static json_t *kept_json(const char *id, uint64_t at)
{
	return id ? json_pack("{s:s, s:I}", "id", id, "at", (json_int_t)at) : json_null();
}

void e2b_tell_kept(struct e2b_call *c)
{
	char alias[TEMPLATE_NAME + 1], tag[TEMPLATE_NAME + 1];
	const char *owner = c->who->owner;
	const struct e2b *f = c->face;
	unsigned have = 0;

	if (!e2b_read_name(http_request_param(c->req, "alias"), alias, tag)) {
		e2b_refuse(c, ERR_INVALID_ARGUMENT, "this is no name of a template");
		return;
	}
	const struct e2b_template *t = e2b_template_of(f, owner, alias);
	uint64_t at = 0;
	const char *snapshot = e2b_snapshot_named(f, owner, alias, &at);
	const unsigned open = e2b_builds_open(f, owner, t, &have);

	static const char *const members[] = FLEET_KEPT_MEMBERS;
	json_t *o = json_pack("{s:i, s:i, s:i, s:i}", "have", (int)have, "most",
			      f->config.templates ? TEMPLATES_MAX : 0, "open", (int)open,
			      "open_most", f->config.templates ? BUILDS_OPEN_MAX : 0);
	(void)json_object_set_new(o, members[FLEET_KEPT_TEMPLATE],
				  kept_json(t ? t->id : NULL, t ? changed_ms(t) : 0));
	(void)json_object_set_new(o, members[FLEET_KEPT_SNAPSHOT], kept_json(snapshot, at));
	e2b_reply(c, 200, o);
}
