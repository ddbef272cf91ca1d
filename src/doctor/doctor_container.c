/* SPDX-License-Identifier: Apache-2.0 */
/* The row about the flags of a container. Whether this is a container cannot be known: the files that
 * container engines leave behind are on other machines, too. So the row judges by what is missing here
 * and would come with a flag, and it is silent where nothing is. packaging/container/README.md has the
 * same flags in a table. */
#include "doctor/doctor.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fdio.h"
#include "base/text.h"
#include "engine/engine.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILE_MAX_BYTES (4u << 20) /* of mountinfo */

/* The capabilities without which something of packaging/container/compose.yaml is lost. The monitor keeps
 * some more where it has them (walls/monitor_caps.tbl.h). */
static const struct {
	unsigned cap;
	const char *name;
} wanted_caps[] = {
#define W(name)                                                                                    \
	{                                                                                          \
		CAP_##name, #name                                                                  \
	}
    W(SYS_ADMIN), W(SETUID), W(SETGID),     W(SETPCAP),      W(CHOWN),
    W(KILL),      W(MKNOD),  W(SYS_PTRACE), W(DAC_OVERRIDE),
#undef W
};

static void add(char *list, size_t size, const char *word)
{
	const size_t n = strlen(list);

	(void)snprintf(list + n, size - n, "%s%s", n > 0 ? " " : "", word);
}

static void add_lost(struct doctor_row *r, const char *what)
{
	const size_t n = strlen(r->value);

	(void)snprintf(r->value + n, sizeof(r->value) - n, "%s%s", n > 0 ? "; " : "", what);
}

/* Whether something that sandboxes need was tried here and refused, other than /proc. */
static bool refused(const struct host_probe *p)
{
	for (int i = 0; i < PROBE_TRY_MAX_; i++)
		if (i != PROBE_PROC && p->tried[i] > 0 && probe_try_needed((enum probe_try)i))
			return true;
	return !p->seccomp || !p->openat2 || !p->pidfd || !p->close_range;
}

static void say_caps(const struct container_facts *c, struct doctor_row *r)
{
	char flag[48];
	char names[128] = "";

	for (size_t i = 0; i < ARRAY_SIZE(wanted_caps); i++)
		if (!(c->caps >> wanted_caps[i].cap & 1)) {
			(void)snprintf(flag, sizeof(flag), "--cap-add %s", wanted_caps[i].name);
			add(r->mend, sizeof(r->mend), flag);
			add(names, sizeof(names), wanted_caps[i].name);
		}
	if (names[0]) {
		char text[192];

		(void)snprintf(text, sizeof(text), "root without the capabilities %s", names);
		add_lost(r, text);
	}
}

void doctor_container_say(const struct container_facts *c, struct doctor_row *r)
{
	const struct host_probe *p = c->probe;
	const bool root = p->uid == 0;

	if (root)
		say_caps(c, r);
	if (refused(p) && c->filtered) {
		add_lost(r, "a system call filter refuses namespaces or mounts");
		add(r->mend, sizeof(r->mend), "--security-opt seccomp=seccomp.json");
	}
	if (refused(p) && c->apparmor[0]) {
		add_lost(r, "AppArmor confines this process, and may refuse mounts");
		add(r->mend, sizeof(r->mend), "--security-opt apparmor=unconfined");
	}
	if (p->tried[PROBE_PROC] > 0 && p->tried[PROBE_TMPFS] == 0) {
		add_lost(r, "/proc is masked, so sandboxes cannot have their own");
		add(r->mend, sizeof(r->mend), "--security-opt systempaths=unconfined");
	}
	if (c->cgroup_read_only && !(p->enforced & ENGINE_CAP_MEMORY)) {
		add_lost(r, "control groups are read-only, so memory and CPU are not limited");
		add(r->mend, sizeof(r->mend),
		    root ? "--security-opt writable-cgroups=true (or --cap-add SYS_ADMIN and the "
			   "image's own entry point)"
			 : "--user 0 --cap-add SYS_ADMIN");
	}
	if (root && !p->loop) {
		add_lost(r, "no loop devices, so there are no stored sandboxes");
		add(r->mend, sizeof(r->mend),
		    "--device /dev/loop-control --device-cgroup-rule 'b 7:* rmw'");
	}
	if (!r->value[0])
		return;
	r->state = DOCTOR_NOTE;
	char said[sizeof(r->value)];

	memcpy(said, r->value, sizeof(said));
	(void)snprintf(r->value, sizeof(r->value), "if this is a container, it lacks flags: %.440s",
		       said);
}

/* ---- this process ---- */

static uint64_t own_caps(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	if (syscall(SYS_capget, &head, data) < 0)
		return 0;
	return (uint64_t)data[1].effective << 32 | data[0].effective;
}

bool doctor_cgroup_read_only(const char *mountinfo)
{
	for (size_t len; *mountinfo; mountinfo += len + (mountinfo[len] == '\n')) {
		len = strcspn(mountinfo, "\n");
		const char *dash = memmem(mountinfo, len, " - cgroup", strlen(" - cgroup"));
		/* The sixth field: the options of this mount. The name of the root comes before the point. */
		const char *at = mountinfo;

		for (int i = 0; dash && at && i < 5; i++) {
			at = memchr(at, ' ', (size_t)(dash - at));
			at = at ? at + 1 : NULL;
		}
		if (dash && at && (text_starts_with(at, "ro,") || text_starts_with(at, "ro ")))
			return true;
	}
	return false;
}

static bool read_small(const char *path, struct buf *b)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && fd_read_file(fd, b) == 0;
}

const char *doctor_cgroup_fault(bool root)
{
	_cleanup_(buf_done) struct buf mounts = BUF_INIT(FILE_MAX_BYTES);

	if (!read_small("/proc/self/mountinfo", &mounts) || !strstr(buf_str(&mounts), " - cgroup"))
		return "no control groups are mounted: sudo mount -t cgroup2 none /sys/fs/cgroup";
	if (doctor_cgroup_read_only(buf_str(&mounts)))
		return "the control groups are mounted read-only: in a container, --security-opt "
		       "writable-cgroups=true; else sudo mount -o remount,rw /sys/fs/cgroup";
	return root ? "the controller is not in the kernel or not enabled for this process's "
		      "control group"
		    : "no control group is delegated to this user: systemd-run --user --scope -p "
		      "Delegate=yes caisson …; or run `caisson serve` as root";
}

static bool is_filtered(void)
{
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) > 0;
}

void row_container(const struct doctor_facts *f, struct doctor_row *r)
{
	_cleanup_(buf_done) struct buf mounts = BUF_INIT(FILE_MAX_BYTES);
	_cleanup_(buf_done) struct buf label = BUF_INIT(FILE_MAX_BYTES);
	struct container_facts c = {
	    .probe = &f->probe, .caps = own_caps(), .filtered = is_filtered()};

	if (read_small("/proc/self/mountinfo", &mounts))
		c.cgroup_read_only = doctor_cgroup_read_only(buf_str(&mounts));
	if (read_small("/proc/self/attr/apparmor/current", &label) &&
	    !text_starts_with(buf_str(&label), "unconfined"))
		(void)snprintf(c.apparmor, sizeof(c.apparmor), "%.*s",
			       (int)strcspn(buf_str(&label), "\n"), buf_str(&label));
	doctor_container_say(&c, r);
}

void doctor_container_flags(char *ret, size_t size)
{
	struct doctor_facts *f = calloc(1, sizeof(*f));
	struct doctor_row row = {0};

	ret[0] = '\0';
	if (!f)
		return;
	host_probe_run(&f->probe);
	row_container(f, &row);
	free(f);
	/* Without the others there are sandboxes, only weaker ones: the start has failed for another reason. */
	if (strstr(row.mend, "--cap-add") || strstr(row.mend, "--security-opt seccomp") ||
	    strstr(row.mend, "--security-opt apparmor") ||
	    strstr(row.mend, "--security-opt systempaths"))
		(void)snprintf(ret, size, "%s: %s", row.value, row.mend);
}

/* Those of wanted_caps[] without which the engine opens, and then no session can be made. */
static bool lacks_cap(void)
{
	const uint64_t needed =
	    UINT64_C(1) << CAP_SYS_ADMIN | UINT64_C(1) << CAP_SYS_PTRACE | UINT64_C(1) << CAP_CHOWN;

	return geteuid() == 0 && (own_caps() & needed) != needed;
}

void doctor_container_refusal(char *ret, size_t size)
{
	const bool lacks = lacks_cap(), filtered = is_filtered();
	struct doctor_row row = {0};

	ret[0] = '\0';
	if (!lacks && !filtered)
		return;
	struct doctor_facts *f = calloc(1, sizeof(*f));
	if (!f)
		return;
	host_probe_run(&f->probe);
	row_container(f, &row);
	if (row.mend[0] && (lacks || refused(&f->probe) || f->probe.tried[PROBE_PROC] > 0))
		(void)snprintf(ret, size, "%s: %s", row.value, row.mend);
	free(f);
}
