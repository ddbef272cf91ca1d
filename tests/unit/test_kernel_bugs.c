/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/doctor.h"
#include "doctor/kernel_bugs.h"

#include "base/attr.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define V KERNEL_VERSION

/* What uname and /proc/version_signature say, and what is made of it. */
static const struct {
	const char *release;
	const char *version;
	const char *signature;
	uint32_t number;
	enum kernel_basis basis;
} names[] = {
    {"6.12.59", "#1 SMP", "", V(6, 12, 59), KERNEL_UPSTREAM},
    {"6.18.0", "#1 SMP", "", V(6, 18, 0), KERNEL_UPSTREAM},
    {"6.18.44-fc", "#1 SMP", "", V(6, 18, 44), KERNEL_UPSTREAM},
    {"6.17.8-300.fc43.x86_64", "#1 SMP", "", V(6, 17, 8), KERNEL_UPSTREAM},
    {"5.15.167.4-microsoft-standard-WSL2", "#1 SMP", "", V(5, 15, 167), KERNEL_UPSTREAM},
    {"6.1.0-38-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.147-1 (2025-08-02)", "", V(6, 1, 147),
     KERNEL_DEBIAN},
    {"6.12.48+deb13-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.12.48-1 (2025-09-20)", "",
     V(6, 12, 48), KERNEL_DEBIAN},
    {"6.12.9+bpo-amd64", "#1 SMP Debian 6.12.9-1~bpo12+1 (2025-01-19)", "", V(6, 12, 9),
     KERNEL_DEBIAN},
    {"6.8.0-48-generic", "#48-Ubuntu SMP", "Ubuntu 6.8.0-48.48-generic 6.8.12", V(6, 8, 12),
     KERNEL_UBUNTU},
    /* numbers that say nothing */
    {"6.8.0-48-generic", "#48-Ubuntu SMP", "", 0, KERNEL_OPAQUE},
    {"4.18.0-553.el8_10.x86_64", "#1 SMP", "", 0, KERNEL_OPAQUE},
    {"5.14.0-503.11.1.el9_5.x86_64", "#1 SMP", "", 0, KERNEL_OPAQUE},
    {"5.15.3-1.el9uek.x86_64", "#1 SMP", "", 0, KERNEL_OPAQUE},
    {"6.4.0-150600.23.25-default", "#1 SMP", "", 0, KERNEL_OPAQUE},
    {"6.18.0-rc4", "#1 SMP", "", 0, KERNEL_OPAQUE},
    {"6.18-rc4", "#1 SMP", "", 0, KERNEL_OPAQUE},
    {"6.18-amd64", "#1 SMP Debian 6.18~rc4-1~exp1", "", 0, KERNEL_OPAQUE},
    {"", "", "", 0, KERNEL_OPAQUE},
    {"6", "", "", 0, KERNEL_OPAQUE},
    {"6.", "", "", 0, KERNEL_OPAQUE},
    {"x.6.1", "", "", 0, KERNEL_OPAQUE},
    {"6.1024.1", "", "", 0, KERNEL_OPAQUE},
    {"99999999999999999999.1.1", "", "", 0, KERNEL_OPAQUE},
    {"6.1.2", "Debian ", "", 0, KERNEL_OPAQUE},
    {"6.1.2", "", "Ubuntu ", 0, KERNEL_OPAQUE},
    {"5.9.16", "#1 SMP", "", V(5, 9, 16), KERNEL_OLD},
    {"4.4.0", "#1 SMP", "", V(4, 4, 0), KERNEL_OLD},
};

static void test_names(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct kernel_version v =
		    kernel_version_find(names[i].release, names[i].version, names[i].signature);

		if (v.number != names[i].number || v.basis != names[i].basis)
			fail_msg("%s: %#x, basis %d", names[i].release, v.number, (int)v.basis);
	}
}

/* The open bugs of a version; those after '?' are not known to be mended. */
static const struct {
	uint32_t version;
	const char *machine;
	const char *bugs;
} kernels[] = {
    {V(5, 10, 54), "x86_64", "2021-0920 2022-42703 2024-26923 2024-36971 ?"},
    {V(5, 10, 55), "x86_64", "2022-42703 2024-26923 2024-36971 ?"},
    {V(5, 10, 141), "x86_64", "2024-26923 2024-36971 ?"},
    {V(5, 10, 219), "x86_64", "?"},
    {V(5, 15, 161), "x86_64", "?"},
    {V(5, 15, 178), "x86_64", "?"},
    {V(5, 15, 179), "x86_64", "2025-37964 ?"},
    {V(5, 15, 179), "aarch64", "?"},
    {V(5, 15, 183), "x86_64", "?"},
    {V(5, 15, 209), "x86_64", "? 2026-43074 2026-46242"},
    /* a branch that ended keeps its bugs */
    {V(5, 18, 19), "x86_64", "2022-42703 2024-26923 2024-36971 ?"},
    {V(6, 1, 36), "x86_64", "2023-3269 2024-26923 2024-36971 ?"},
    {V(6, 1, 140), "x86_64", "?"},
    /* backports bring bugs of later kernels */
    {V(6, 1, 141), "x86_64", "2025-40214 2026-23394 2026-53361 2026-80521 ?"},
    {V(6, 1, 176), "x86_64", "2026-23394 2026-46242 2026-53361 2026-80521 ?"},
    {V(6, 1, 188), "x86_64", "2026-80521 ?"},
    {V(6, 1, 189), "x86_64", "?"},
    {V(6, 6, 144), "x86_64", "? 2026-80521"},
    {V(6, 12, 15), "aarch64",
     "2025-40214 2026-23394 2026-43074 2026-46242 2026-53361 2026-80521 ?"},
    {V(6, 12, 58), "x86_64", "2025-40214 2026-23394 2026-43074 2026-46242 2026-53361 2026-80521 ?"},
    {V(6, 12, 59), "x86_64", "2026-23394 2026-43074 2026-46242 2026-53361 2026-80521 ?"},
    {V(6, 12, 110), "x86_64", "2026-80521 ?"},
    {V(6, 12, 111), "x86_64", "?"},
    {V(6, 13, 4), "x86_64",
     "2025-37964 2025-40214 2026-23394 2026-43074 2026-46242 2026-53361 2026-80521 ?"},
    {V(6, 18, 44), "x86_64", "2026-80521 ?"},
    {V(7, 1, 3), "x86_64", "2026-80521 ?"},
    {V(7, 1, 10), "x86_64", "?"},
    {V(7, 2, 0), "x86_64", "?"},
    {V(9, 0, 0), "x86_64", "?"},
};

static void list(uint32_t version, const char *machine, enum kernel_verdict wanted, char *ret,
		 size_t size)
{
	for (size_t i = 0; i < n_kernel_bugs; i++) {
		size_t n = strlen(ret);

		if (kernel_bug_judge(&kernel_bugs[i], version, machine, NULL) != wanted)
			continue;
		(void)snprintf(ret + n, size - n, "%s%s", n ? " " : "",
			       kernel_bugs[i].cve + strlen("CVE-"));
	}
}

static void test_kernels(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_SIZE(kernels); i++) {
		char got[512] = "";

		list(kernels[i].version, kernels[i].machine, KERNEL_OPEN, got, sizeof(got));
		(void)snprintf(got + strlen(got), sizeof(got) - strlen(got), got[0] ? " ?" : "?");
		list(kernels[i].version, kernels[i].machine, KERNEL_UNKNOWN, got, sizeof(got));
		assert_string_equal(got, kernels[i].bugs);
	}
}

/* Whoever edits the table: every release is told once, in order, and mended after it was broken. */
static void test_table(void **state UNUSED)
{
	for (size_t i = 0; i < n_kernel_bugs; i++) {
		const struct kernel_bug *b = &kernel_bugs[i];
		uint32_t last = 0;

		assert_true(text_starts_with(b->cve, "CVE-20"));
		assert_true(b->fixed == KERNEL_FIX_UNKNOWN || b->fixed > b->since);
		for (size_t k = 0; k < ARRAY_SIZE(b->branches); k++) {
			uint32_t since = b->branches[k].since;
			uint32_t fixed = b->branches[k].fixed;
			uint32_t branch = since ? since : fixed;

			if (branch == 0)
				continue; /* the rest of the row */
			assert_true(KERNEL_MAJOR(branch) >= KERNEL_MAJOR(KERNEL_FIRST));
			assert_true(branch >> KERNEL_PART_BITS > last);
			last = branch >> KERNEL_PART_BITS;
			assert_true(b->fixed == KERNEL_FIX_UNKNOWN || branch < b->fixed);
			if (fixed == KERNEL_FIX_UNKNOWN || fixed == KERNEL_FIX_NEVER)
				assert_true(since != 0);
			else if (since)
				assert_true(since >> KERNEL_PART_BITS ==
						fixed >> KERNEL_PART_BITS &&
					    since < fixed);
			else
				assert_true(fixed > b->since);
		}
	}
}

static void say(uint32_t number, enum kernel_basis basis, struct doctor_row *ret)
{
	const struct kernel_version v = {number, basis};

	*ret = (struct doctor_row){0};
	doctor_bugs_say(&v, "4.18.0-553.el8", "x86_64", ret);
}

static void test_row(void **state UNUSED)
{
	struct doctor_row r;

	say(V(7, 2, 0), KERNEL_UPSTREAM, &r);
	assert_int_equal(r.state, DOCTOR_OK);
	assert_true(text_starts_with(r.value, "none of the "));
	assert_string_equal(r.mend, "");

	say(V(6, 12, 94), KERNEL_UPSTREAM, &r);
	assert_int_equal(r.state, DOCTOR_NOTE);
	assert_true(text_ends_with(r.value, ": CVE-2026-46242, CVE-2026-53361, CVE-2026-80521"));
	assert_non_null(strstr(r.mend, "fixed from 6.12.111 on"));

	say(V(6, 13, 12), KERNEL_UPSTREAM, &r);
	assert_int_equal(r.state, DOCTOR_NOTE);
	assert_non_null(strstr(r.mend, "no release of Linux 6.13 fixes all of them, 7.2 and"));

	say(V(6, 6, 144), KERNEL_UPSTREAM, &r);
	assert_int_equal(r.state, DOCTOR_NOTE);
	assert_non_null(strstr(r.value, "0 of the "));
	assert_non_null(strstr(r.value, "perhaps CVE-2026-80521"));

	say(V(6, 1, 147), KERNEL_DEBIAN, &r);
	assert_int_equal(r.state, DOCTOR_NOTE);
	assert_non_null(strstr(r.value, "or fewer, where Debian"));
	assert_non_null(strstr(r.mend, "fixed from 6.1.189 on"));

	say(V(6, 8, 12), KERNEL_UBUNTU, &r);
	assert_int_equal(r.state, DOCTOR_NOTE);
	assert_non_null(strstr(r.value, "Ubuntu adds fixes"));

	say(0, KERNEL_OPAQUE, &r);
	assert_int_equal(r.state, DOCTOR_NOTE);
	assert_non_null(strstr(r.value, "cannot be judged"));
	assert_non_null(strstr(r.value, "(Linux 4.18.0-553.el8)"));

	say(V(5, 9, 16), KERNEL_OLD, &r);
	assert_int_equal(r.state, DOCTOR_NOTE);
}

/* No version has a list that is cut. */
static void test_fits(void **state UNUSED)
{
	for (uint32_t major = 5; major < 8; major++)
		for (uint32_t minor = 0; minor < 20; minor++)
			for (uint32_t patch = 0; patch < 300; patch++) {
				struct doctor_row r;

				say(V(major, minor, patch), KERNEL_UBUNTU, &r);
				assert_true(strlen(r.value) < sizeof(r.value) - 1);
				assert_true(strlen(r.mend) < sizeof(r.mend) - 1);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_names), cmocka_unit_test(test_kernels),
	    cmocka_unit_test(test_table), cmocka_unit_test(test_row),
	    cmocka_unit_test(test_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
