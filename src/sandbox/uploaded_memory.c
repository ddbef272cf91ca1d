/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that uploads take, where workspaces are in memory. The kernel charges a page of a file to the process
 * that writes it first: to the front, not to the sandbox. So the engine is told of uploads, and counts them
 * towards the memory of all sandboxes together.
 *
 * Written bytes are added as they come. What code in the sandbox removes is not seen, so the workspace is
 * measured again: uploads never take more than all its files do. That happens after each run, after files
 * were removed, every MEASURE_NS while the sandbox is in use, and of all sandboxes when an upload was refused.
 * So at most MEASURE_NS after files are gone their memory is free for everybody.
 *
 * /tmp and the home folder of a session are in memory, too, also where its workspace is on a disk, and nobody measures
 * them. What was uploaded there counts until the session ends, up to what both can hold. */
#include "base/rand.h"
#include "sandbox/file_writer.h"
#include "sandbox/manager.h"

#define MEASURE_NS NS_PER_S
#define HOME_BYTES (UINT64_C(16) << 20) /* of a home folder in memory: runtime/init/setup_root.c */

static bool is_counted(const struct sandbox *s, bool outside)
{
	return !s->stored && (outside || !(s->policy.enforced & ENGINE_CAP_ON_DISK));
}

void sandbox_uncount_uploads(struct sandbox *s, bool outside, uint64_t bytes)
{
	uint64_t *counted = outside ? &s->outside_bytes : &s->uploaded_bytes;

	bytes = MIN(bytes, *counted); /* a measure may have taken it back already */
	*counted -= bytes;
	if (bytes > 0 && s->manager->engine)
		engine_uncount_upload(s->manager->engine, bytes);
}

void sandbox_uncount_all(struct sandbox *s)
{
	sandbox_uncount_uploads(s, false, s->uploaded_bytes);
	sandbox_uncount_uploads(s, true, s->outside_bytes);
}

static void on_measured(const struct engine_usage *u, const struct err *e, void *user)
{
	struct sandbox *s = user;

	s->measuring = false;
	if (!e) {
		/* Bytes that came after the question may be missing in the answer. */
		const uint64_t most = u->workspace_bytes + s->uploaded_since;

		s->measured_ns = manager_now(s->manager);
		if (s->uploaded_bytes > most)
			sandbox_uncount_uploads(s, false, s->uploaded_bytes - most);
	}
	(void)sandbox_unref(s);
}

void sandbox_measure_uploads(struct sandbox *s)
{
	struct err ignored = ERR_INIT;

	if (s->uploaded_bytes == 0 || s->measuring || s->state != SANDBOX_READY ||
	    s->manager->closing)
		return;
	s->measuring = true;
	/* What no thread has written yet may be missing, too. */
	s->uploaded_since = file_writers_waiting(s);
	if (engine_usage(s->handle, on_measured, sandbox_ref(s), &ignored) == 0)
		return;
	s->measuring = false;
	(void)sandbox_unref(s);
}

/* Was S in use since it was last measured? A sandbox at rest is not woken for nothing. */
static bool may_have_changed(const struct sandbox *s)
{
	return !sandbox_is_idle(s) || s->used_ns >= s->measured_ns;
}

static void arm(struct manager *m);

static int on_time(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct manager *m = user;
	bool any = false;

	m->measure_timer = sd_event_source_disable_unref(m->measure_timer);
	for (size_t i = 0; i < MANAGER_BUCKETS; i++)
		list_for_each(l, &m->buckets[i]) {
			struct sandbox *s = list_entry(l, struct sandbox, node);

			any = any || s->uploaded_bytes > 0;
			if (may_have_changed(s))
				sandbox_measure_uploads(s);
		}
	if (any)
		arm(m);
	return 0;
}

/* Without memory for the timer, files that go during a run count until its end. */
static void arm(struct manager *m)
{
	if (!m->measure_timer && !m->closing)
		(void)!sd_event_add_time_relative(m->config.loop, &m->measure_timer,
						  CLOCK_MONOTONIC, MEASURE_NS / NS_PER_US,
						  MEASURE_NS / NS_PER_US / 8, on_time, m);
}

int sandbox_count_upload(struct sandbox *s, bool outside, uint64_t bytes, uint64_t *ret,
			 struct err *e)
{
	uint64_t *counted = outside ? &s->outside_bytes : &s->uploaded_bytes;
	const uint64_t max =
	    outside ? s->policy.limits.tmp_bytes + HOME_BYTES : s->policy.limits.workspace_bytes;
	const uint64_t more = max == 0 ? bytes : MIN(bytes, max - MIN(max, *counted));

	if (!is_counted(s, outside))
		return 0;
	if (engine_count_upload(s->manager->engine, more, e) < 0) {
		/* Somebody may have removed files meanwhile: the next try sees it. */
		for (size_t i = 0; i < MANAGER_BUCKETS; i++)
			list_for_each(l, &s->manager->buckets[i])
				sandbox_measure_uploads(list_entry(l, struct sandbox, node));
		return -ENOMEM;
	}
	*counted += more;
	*ret += more;
	if (outside)
		return 0;
	if (s->measuring)
		s->uploaded_since += more;
	arm(s->manager);
	return 0;
}
