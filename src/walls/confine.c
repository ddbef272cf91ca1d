/* SPDX-License-Identifier: Apache-2.0 */
#include "walls/confine.h"

#include "base/fdio.h"
#include "walls/filter.h"
#include "walls/landlock.h"

#include <linux/capability.h>
#include <sys/prctl.h>

static int load(const struct filter_table *table, struct err *e)
{
	struct filter_program p;
	int r = filter_compile(table, getpid(), &p, e);

	if (r < 0)
		return r;
	r = filter_load(p.insn, p.n);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "the system call filter of the server") : 0;
}

/* ---- the front ---- */

enum place {
	PLACE_ROOT,
	PLACE_STATE,
	PLACE_STORE,
	PLACE_LOG,
	PLACE_SOCKET,
	PLACE_WHEELS,
	PLACE_ACCOUNT,
	PLACE_MAX_,
};

static const struct {
	enum place place;
	const char *path;
	enum landlock_rights rights;
} front_files[] = {
#define F(place, path, rights, why) {PLACE_##place, path, LANDLOCK_##rights},
#include "walls/front_files.tbl.h"
#undef F
};

static int add_files(int ruleset, const struct confine_places *places)
{
	const char *const roots[PLACE_MAX_] = {
	    [PLACE_ROOT] = "",
	    [PLACE_STATE] = places->state,
	    [PLACE_STORE] = places->store,
	    [PLACE_LOG] = places->log,
	    [PLACE_SOCKET] = places->socket,
	    [PLACE_WHEELS] = places->wheels,
	    [PLACE_ACCOUNT] = places->account,
	};

	for (size_t i = 0; i < ARRAY_SIZE(front_files); i++) {
		const char *root = roots[front_files[i].place];
		int r;

		if (!root || (front_files[i].place != PLACE_ROOT && !*root))
			continue;
		r = landlock_add(ruleset, root, front_files[i].path, front_files[i].rights);
		if (r < 0)
			return r;
	}
	return 0;
}

int confine_files(const struct confine_places *places)
{
	int ruleset = landlock_new();
	int r;

	if (ruleset < 0)
		return ruleset;
	r = add_files(ruleset, places);
	if (r < 0) {
		(void)close(ruleset);
		return r;
	}
	return ruleset;
}

int confine_front(int files, struct err *e)
{
	const int r = files < 0 ? 0 : landlock_apply(files);

	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "the rules for the server's files");
	return load(&filter_front, e);
}

/* ---- the monitor ---- */

static const uint64_t monitor_caps =
#define K(cap, why) UINT64_C(1) << (cap) |
#include "walls/monitor_caps.tbl.h"
#undef K
    0;

static int keep_caps(uint64_t keep)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	for (unsigned cap = 0; cap < 64; cap++)
		if (!(keep >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 &&
		    errno != EINVAL)
			return -errno;
	if (syscall(__NR_capget, &head, data) < 0)
		return -errno;
	for (unsigned i = 0; i < 2; i++) {
		const uint32_t mask = (uint32_t)(keep >> (32 * i));

		data[i].permitted &= mask;
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	return syscall(__NR_capset, &head, data) < 0 ? -errno : 0;
}

int confine_monitor(struct err *e)
{
	const int r = keep_caps(monitor_caps);

	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "capabilities cannot be given up");
	return load(&filter_monitor, e);
}

/* ---- the keeper ---- */

#define KEEPER_CAPS                                                                                \
	(UINT64_C(1) << CAP_SYS_ADMIN |    /* file systems for checkpoints, mounted nowhere */     \
	 UINT64_C(1) << CAP_CHOWN |        /* folders of stored workspaces */                      \
	 UINT64_C(1) << CAP_DAC_OVERRIDE | /* removing them, whatever their modes are */           \
	 UINT64_C(1) << CAP_FOWNER)

static int keeper_files(const char *folder, const char *certs)
{
	static const char *const read[] = {
	    "/usr", "/lib", "/lib64", "/etc", "/proc", "/sys", "/run/systemd/resolve"};
	static const char *const devices[] = {"/dev/null", "/dev/urandom", "/dev/random"};
	_cleanup_fd_ int rules = landlock_new();
	int r = rules < 0 ? rules : landlock_add(rules, "", folder, LANDLOCK_WRITE);

	for (size_t i = 0; i < ARRAY_SIZE(read) && r == 0; i++)
		r = landlock_add(rules, "", read[i], LANDLOCK_READ);
	for (size_t i = 0; i < ARRAY_SIZE(devices) && r == 0; i++)
		r = landlock_add(rules, "", devices[i], LANDLOCK_DEVICE);
	if (r == 0 && certs[0])
		r = landlock_add(rules, "", certs, LANDLOCK_READ);
	return r == 0 ? landlock_apply(rules) : r;
}

int confine_keeper(const char *folder, const char *certs, struct err *e)
{
	int r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;

	r = r < 0 || geteuid() != 0 ? r : keep_caps(KEEPER_CAPS);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "capabilities cannot be given up");
	r = keeper_files(folder, certs);
	if (r < 0 && r != -EOPNOTSUPP)
		return err_set(e, ERR_SYSTEM, -r, "the rules for the keeper's files");
	return load(&filter_monitor, e);
}
