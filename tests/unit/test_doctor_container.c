/* SPDX-License-Identifier: Apache-2.0 */
/* The row of `caisson doctor` about the flags of a container: which flag it names for what is missing. */
#include "doctor/doctor.h"

#include "base/attr.h"
#include "base/text.h"
#include "engine/engine.h"

#include <errno.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ALL       ((UINT64_C(1) << 41) - 1)
#define BIT(cap)  (UINT64_C(1) << (cap))
#define READ_ONLY true
#define FILTERED  true

static const struct {
	const char *name;
	uid_t uid;
	uint64_t caps;
	int refused; /* errno of the overlay and of the pid namespace */
	int proc;    /* errno of /proc */
	bool filtered, read_only, limited, loop;
	const char *apparmor;
	const char *value; /* what the row contains; NULL = the row is silent */
	const char *mend;
} cases[] = {
    {"root on a host", 0, ALL, 0, 0, false, false, true, true, "", NULL, ""},
    {"root on a host without CAP_SYS_RESOURCE", 0, ALL & ~BIT(CAP_SYS_RESOURCE), 0, 0, false, false,
     true, true, "", NULL, ""},
    {"a plain user on a host", 1000, 0, 0, 0, false, false, false, false, "", NULL, ""},
    {"a plain user whose machine forbids namespaces", 1000, 0, EPERM, -1, false, false, false,
     false, "", NULL, ""},
    {"everything that helps", 0, ALL, 0, 0, FILTERED, false, true, true, "docker-default (enforce)",
     NULL, ""},
    {"no loop device", 0, ALL, 0, 0, FILTERED, false, true, false, "", "no loop devices",
     "--device /dev/loop-control --device-cgroup-rule 'b 7:* rmw'"},
    {"root without rights", 0, ALL & ~BIT(CAP_SYS_ADMIN) & ~BIT(CAP_MKNOD), 0, 0, FILTERED, false,
     true, true, "", "root without the capabilities SYS_ADMIN MKNOD",
     "--cap-add SYS_ADMIN --cap-add MKNOD"},
    {"a default profile", 1000, 0, EPERM, -1, FILTERED, false, false, false, "",
     "a system call filter refuses", "--security-opt seccomp=seccomp.json"},
    {"AppArmor", 1000, 0, EACCES, -1, false, false, false, false, "docker-default (enforce)",
     "AppArmor confines", "--security-opt apparmor=unconfined"},
    {"a masked /proc", 1000, 0, 0, EPERM, FILTERED, false, false, false, "", "/proc is masked",
     "--security-opt systempaths=unconfined"},
    {"groups that cannot be written, root", 0, ALL, 0, 0, FILTERED, READ_ONLY, false, true, "",
     "control groups are read-only", "--security-opt writable-cgroups=true"},
    {"groups that cannot be written, plain user", 1000, 0, 0, 0, FILTERED, READ_ONLY, false, false,
     "", "control groups are read-only", "--user 0 --cap-add SYS_ADMIN"},
};

static void test_flags(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct host_probe p = {.uid = cases[i].uid,
				       .enforced = cases[i].limited ? ENGINE_CAP_MEMORY : 0,
				       .loop = cases[i].loop,
				       .seccomp = true,
				       .openat2 = true,
				       .pidfd = true,
				       .close_range = true};
		struct container_facts c = {.probe = &p,
					    .caps = cases[i].caps,
					    .filtered = cases[i].filtered,
					    .cgroup_read_only = cases[i].read_only};
		struct doctor_row r = {0};

		p.tried[PROBE_OVERLAY] = p.tried[PROBE_PIDNS] = cases[i].refused;
		p.tried[PROBE_PROC] = cases[i].proc;
		(void)!text_copy(c.apparmor, sizeof(c.apparmor), cases[i].apparmor);
		doctor_container_say(&c, &r);
		print_message("%s: %s\n", cases[i].name, r.value);
		assert_string_equal(r.mend, cases[i].value ? r.mend : "");
		if (!cases[i].value) {
			assert_string_equal(r.value, "");
			continue;
		}
		assert_int_equal(r.state, DOCTOR_NOTE);
		assert_true(text_starts_with(r.value, "if this is a container, it lacks flags: "));
		assert_non_null(strstr(r.value, cases[i].value));
		assert_true(text_starts_with(r.mend, cases[i].mend));
	}
}

/* Everything at once fits. */
static void test_all_flags(void **state UNUSED)
{
	struct host_probe p = {0};
	struct container_facts c = {.probe = &p, .filtered = true, .cgroup_read_only = true};
	struct doctor_row r = {0};

	p.tried[PROBE_USERNS] = p.tried[PROBE_PROC] = EPERM;
	(void)!text_copy(c.apparmor, sizeof(c.apparmor), "docker-default (enforce)");
	doctor_container_say(&c, &r);
	assert_non_null(strstr(r.mend, "systempaths=unconfined"));
	assert_non_null(strstr(r.mend, "--device-cgroup-rule 'b 7:* rmw'"));
	assert_null(strstr(r.mend, "SYS_RESOURCE"));
}

static void test_mounts(void **state UNUSED)
{
	static const struct {
		const char *text;
		bool read_only;
	} mounts[] = {
	    {"", false},
	    {"31 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n", false},
	    {"31 23 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n", true},
	    {"30 23 0:25 / /sys ro,nosuid - sysfs sysfs ro\n"
	     "31 23 0:26 /docker/1 /sys/fs/cgroup/memory ro,nosuid master:9 - cgroup cgroup "
	     "rw,memory\n",
	     true},
	    {"30 23 0:25 / /sys ro,nosuid - sysfs sysfs ro\n", false},
	    {"31 23 0:26 /ro, /sys/fs/cgroup rw,ro - cgroup cgroup rw,memory", false},
	    {"31 23 - cgroup", false},
	    {" - cgroup", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++)
		assert_int_equal(doctor_cgroup_read_only(mounts[i].text), mounts[i].read_only);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_flags),
	    cmocka_unit_test(test_all_flags),
	    cmocka_unit_test(test_mounts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
