/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes belong to a background process. There are two ways to tell, because gVisor (runsc
 * 20221219) answers PR_GET_CHILD_SUBREAPER (prctl(2)) with EINVAL: there orphans come to init.
 *
 *   reapers  a process of ours is the parent of the program and adopts its orphans: background.c. A process belongs to
 *            the background process whose reaper is among its ancestors.
 *   marks    init is the parent of the program. The hard limit of the program's resident memory (RLIMIT_RSS, which no
 *            kernel enforces) has a value of its own: the mark. fork(2) and execve(2) keep it, and init reads it with
 *            prlimit(2). A process belongs to the background process whose mark it has, or one of its ancestors has.
 *
 * Where there is a root user, the server of a command of sudo (asked_sudo.c) has a mark, too: what is below it belongs to the
 * background process from which the request came.
 *
 * A program can lower the limit, and so lose its mark. Its processes still have one with the mark among their ancestors. Those of
 * them that become orphans are taken for processes of a run: they end with the next run or with the session. A process of a
 * run can take the mark of a background process. Then it ends with that. Both give a program nothing that it could not have
 * otherwise: it can also ask a background process or the session to start a process. */
#include "root_user.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#define DEPTH_MAX 256 /* of a chain of parents that is followed */
#define LOOKS     4   /* at a chain that changes meanwhile */
/* So high that a program can set a limit as it likes. */
#define MARK_FIRST (UINT64_C(1) << 62)

uint64_t background_mark(uint32_t id)
{
	return MARK_FIRST + id;
}

bool background_marks(struct init *in)
{
	int set;

	if (in->background.by == BACKGROUND_BY_UNKNOWN)
		in->background.by = prctl(PR_GET_CHILD_SUBREAPER, &set, 0, 0, 0) == 0
					? BACKGROUND_BY_REAPERS
					: BACKGROUND_BY_MARKS;
	return in->background.by == BACKGROUND_BY_MARKS;
}

static uint64_t mark_of(pid_t pid)
{
	struct rlimit l;

	if (prlimit(pid, RLIMIT_RSS, NULL, &l) < 0 || l.rlim_max < MARK_FIRST)
		return 0;
	return l.rlim_max;
}

/* The one that PID itself tells of. A program is known by its number before it has its mark. */
static const struct init_background *of_itself(const struct init *in, pid_t pid)
{
	const bool is_sudo = in->background.by == BACKGROUND_BY_REAPERS && root_user_is_there(in);
	const uint64_t mark =
	    is_sudo || in->background.by == BACKGROUND_BY_MARKS ? mark_of(pid) : 0;

	for (size_t i = 0; i < PROTO_BACKGROUND_MAX; i++) {
		const struct init_background *b = &in->background.at[i];
		if (b->state == BACKGROUND_FREE)
			continue;
		if (in->background.by == BACKGROUND_BY_MARKS
			? pid == b->pid || mark == background_mark(b->id)
			: pid == b->reaper || (is_sudo && mark == background_mark(b->id)))
			return b;
	}
	return NULL;
}

const struct init_background *background_owner(const struct init *in, pid_t pid)
{
	pid_t at = pid;

	for (int look = 0; look < LOOKS && in->background.n > 0; look++) {
		struct end_stat st;
		for (int i = 0; i < DEPTH_MAX; i++) {
			if (at <= 1)
				return NULL;
			const struct init_background *b = of_itself(in, at);
			if (b)
				return b;
			if (!end_stat(in, at, &st))
				break; /* it has ended meanwhile, and its children have another parent */
			at = st.parent;
		}
		at = pid;
	}
	return NULL;
}

bool background_any(const struct init *in)
{
	return in->background.n > 0;
}

bool background_keeps(const struct init *in, pid_t pid)
{
	return background_owner(in, pid) != NULL;
}

void background_look(struct init *in, pid_t pid)
{
	in->background.ended = background_owner(in, pid);
}

bool background_looks(const struct init *in)
{
	return in->background.n > 0 && in->background.by == BACKGROUND_BY_MARKS;
}
