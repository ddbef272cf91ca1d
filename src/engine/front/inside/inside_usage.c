/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox uses: the engine counts its memory, CPU time and processes; init counts the bytes
 * and inodes of the workspace. One question to each, one answer to the caller. */
#include "engine/front/inside/inside.h"

#include "base/parse.h"
#include "base/text.h"

#include <string.h>

int engine_usage(struct engine_sandbox *s, engine_usage_fn cb, void *user, struct err *e)
{
	struct proto_init_file m = {.head = PROTO_HEAD(INIT_FILE, proto_init_file),
				    .op = PROTO_FILE_MEASURE};
	int r = inside_check_ready(s, e);

	if (r < 0)
		return r;
	struct inside_usage_op *o = calloc(1, sizeof(*o));
	if (!o)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "usage");
	o->seq = m.seq = ++s->next_seq;
	o->cb = cb;
	o->user = user;
	r = engine_ask_usage(s);
	if (r == -ENOTSUP) { /* the engine counts nothing: those figures stay 0 */
		o->from_engine = true;
		r = 0;
	}
	if (r == 0)
		r = channel_send(s->init, &m.head, NULL, 0);
	if (r < 0) {
		free(o);
		return inside_refuse(e, r, ERR_SYSTEM, "the sandbox cannot be asked");
	}
	list_append(&s->usages, &o->node);
	inside_wait(s);
	return 0;
}

static void answer(struct engine_sandbox *s)
{
	struct inside_usage_op *o;

	while ((o = list_first(&s->usages, struct inside_usage_op, node)) && o->from_init &&
	       o->from_engine) {
		list_remove(&o->node);
		o->cb(&o->usage, NULL, o->user);
		free(o);
	}
}

void inside_used(struct engine_sandbox *s, const struct engine_usage *u)
{
	list_for_each(l, &s->usages) {
		struct inside_usage_op *o = list_entry(l, struct inside_usage_op, node);

		if (o->from_engine)
			continue;
		o->from_engine = true;
		o->usage.memory_bytes = u->memory_bytes;
		o->usage.cpu_ns = u->cpu_ns;
		o->usage.pids = u->pids;
		break;
	}
	answer(s);
}

int inside_measured(struct engine_sandbox *s, const struct proto_init_filed *m)
{
	list_for_each(l, &s->usages) {
		struct inside_usage_op *o = list_entry(l, struct inside_usage_op, node);

		if (o->seq != m->seq || o->from_init)
			continue;
		o->from_init = true;
		o->usage.workspace_bytes = m->bytes;
		o->usage.workspace_inodes = m->inodes;
		o->usage.has_packages = m->more & PROTO_MEASURED_PACKAGES;
		o->usage.host_is_full = m->more & PROTO_MEASURED_CLOSED;
		answer(s);
		return 0;
	}
	return -EPROTO;
}

void inside_usages_abort(struct engine_sandbox *s, const struct err *e)
{
	struct inside_usage_op *o;

	while ((o = list_pop_first(&s->usages, struct inside_usage_op, node))) {
		o->cb(NULL, e, o->user);
		free(o);
	}
}

uint64_t inside_oom_kills(const struct engine_sandbox *s)
{
	static const char key[] = "oom_kill ";
	char text[512];
	uint64_t value;
	ssize_t n = s->counters.oom >= 0 ? pread(s->counters.oom, text, sizeof(text) - 1, 0) : -1;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!text_starts_with(line, key))
			continue;
		line += strlen(key);
		return parse_u64_n(line, strcspn(line, "\n"), 0, UINT64_MAX, &value) == 0 ? value
											  : 0;
	}
	return 0;
}

uint64_t inside_peak_bytes(const struct engine_sandbox *s)
{
	const int fd = s->counters.peak;
	char text[32];
	uint64_t value;
	ssize_t n = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : -1;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	return parse_u64_n(text, strcspn(text, "\n"), 0, UINT64_MAX, &value) == 0 ? value : 0;
}
