/* SPDX-License-Identifier: Apache-2.0 */
/* The row of `caisson doctor` about kernel bugs that no wall of a sandbox keeps away. It is never more
 * than a note: only a version number was read and nothing was tried. A distribution that fixes bugs
 * without a new version number must not be reported as weaker for ever. */
#include "doctor/doctor.h"
#include "doctor/kernel_bugs.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fdio.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#define SIGNATURE_FILE "/proc/version_signature" /* Ubuntu's kernels have it */
#define SIGNATURE_MAX  256
#define LIST_MAX       320 /* every number of the table, with commas */

#define SAY(r, ...)  ((void)snprintf((r)->value, sizeof((r)->value), __VA_ARGS__))
#define MEND(r, ...) ((void)snprintf((r)->mend, sizeof((r)->mend), __VA_ARGS__))

struct tally {
	size_t n_open;
	size_t n_unknown;
	char open[LIST_MAX];
	char unknown[LIST_MAX];
	uint32_t
	    fixed_here; /* release of the same branch that fixes all that the branch fixes; 0 = none */
	uint32_t fixed_later; /* mainline release that fixes the rest; 0 = no rest */
};

static void add(char list[LIST_MAX], const char *cve)
{
	size_t n = strlen(list);

	(void)snprintf(list + n, LIST_MAX - n, "%s%s", n ? ", " : "", cve);
}

static bool same_branch(uint32_t a, uint32_t b)
{
	return KERNEL_MAJOR(a) == KERNEL_MAJOR(b) && KERNEL_MINOR(a) == KERNEL_MINOR(b);
}

static void count(uint32_t version, const char *machine, struct tally *t)
{
	for (size_t i = 0; i < n_kernel_bugs; i++) {
		uint32_t fixed;

		switch (kernel_bug_judge(&kernel_bugs[i], version, machine, &fixed)) {
		case KERNEL_OPEN:
			t->n_open++;
			add(t->open, kernel_bugs[i].cve);
			if (same_branch(fixed, version))
				t->fixed_here = MAX(t->fixed_here, fixed);
			else
				t->fixed_later = MAX(t->fixed_later, fixed);
			break;
		case KERNEL_UNKNOWN:
			t->n_unknown++;
			add(t->unknown, kernel_bugs[i].cve);
			break;
		case KERNEL_CLOSED:
		default:
			break;
		}
	}
}

static void say_mend(uint32_t v, const struct tally *t, struct doctor_row *r)
{
	if (t->fixed_later)
		MEND(r,
		     "use a newer branch: no release of Linux %" PRIu32 ".%" PRIu32
		     " fixes all of them, %" PRIu32 ".%" PRIu32 " and later do",
		     KERNEL_MAJOR(v), KERNEL_MINOR(v), KERNEL_MAJOR(t->fixed_later),
		     KERNEL_MINOR(t->fixed_later));
	else if (t->fixed_here)
		MEND(r,
		     "update the kernel: fixed from %" PRIu32 ".%" PRIu32 ".%" PRIu32
		     " on; then reboot",
		     KERNEL_MAJOR(v), KERNEL_MINOR(v), KERNEL_PATCH(t->fixed_here));
	else
		MEND(r, "use the newest release of a branch that is looked after");
}

static void say_judged(const struct kernel_version *v, const char *machine, struct doctor_row *r)
{
	struct tally t = {0};
	size_t n;

	count(v->number, machine, &t);
	if (t.n_open + t.n_unknown == 0) {
		SAY(r, "none of the %zu that reach through the walls", n_kernel_bugs);
		return;
	}
	SAY(r, "%zu of the %zu that reach through the walls%s%s%s", t.n_open, n_kernel_bugs,
	    t.n_open ? ": " : "", t.open,
	    v->basis == KERNEL_UBUNTU   ? "; or fewer: Ubuntu adds fixes without a new number"
	    : v->basis == KERNEL_DEBIAN ? "; or fewer, where Debian was quicker than upstream"
					: "");
	n = strlen(r->value);
	if (t.n_unknown)
		(void)snprintf(r->value + n, sizeof(r->value) - n,
			       "; perhaps %s: no release of this branch is known to fix it",
			       t.unknown);
	r->state = DOCTOR_NOTE;
	if (v->basis == KERNEL_UBUNTU)
		MEND(r, "keep the kernel up to date; what Ubuntu has fixed: "
			"https://ubuntu.com/security/cves");
	else
		say_mend(v->number, &t, r);
}

void doctor_bugs_say(const struct kernel_version *v, const char *release, const char *machine,
		     struct doctor_row *r)
{
	switch (v->basis) {
	case KERNEL_OPAQUE:
		r->state = DOCTOR_NOTE;
		SAY(r,
		    "cannot be judged: this distribution's version numbers do not say (Linux "
		    "%.65s)",
		    release);
		MEND(r, "keep the kernel up to date; docs/kernel-bugs.md has the numbers to ask "
			"the distribution for");
		return;
	case KERNEL_OLD:
		r->state = DOCTOR_NOTE;
		SAY(r, "not counted: older than Linux %u.%u, which the list begins with",
		    KERNEL_MAJOR(KERNEL_FIRST), KERNEL_MINOR(KERNEL_FIRST));
		MEND(r, "use a branch that is looked after");
		return;
	case KERNEL_UPSTREAM:
	case KERNEL_DEBIAN:
	case KERNEL_UBUNTU:
	default:
		say_judged(v, machine, r);
	}
}

static void read_signature(char ret[SIGNATURE_MAX])
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(SIGNATURE_MAX - 1);
	_cleanup_fd_ int fd = open(SIGNATURE_FILE, O_RDONLY | O_CLOEXEC);

	ret[0] = '\0';
	if (fd < 0 || fd_read_file(fd, &b) < 0)
		return;
	(void)snprintf(ret, SIGNATURE_MAX, "%.*s", (int)strcspn(buf_str(&b), "\n"), buf_str(&b));
}

void row_known_bugs(const struct doctor_facts *f UNUSED, struct doctor_row *r)
{
	char signature[SIGNATURE_MAX];
	struct utsname u;

	if (uname(&u) < 0) {
		r->state = DOCTOR_NOTE;
		SAY(r, "cannot be judged: the kernel does not say its version");
		return;
	}
	read_signature(signature);
	struct kernel_version v = kernel_version_find(u.release, u.version, signature);
	doctor_bugs_say(&v, u.release, u.machine, r);
}
