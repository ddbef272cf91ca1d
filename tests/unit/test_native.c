/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine's parsers and checks: messages, paths, id files, control group files. */
#include "base/attr.h"
#include "base/foreign_ids.h"
#include "base/parse.h"
#include "engine/maker/native/monitor/monitor.h"
#include "engine/protocol/proto.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_messages(void **state UNUSED)
{
	union proto_frame f = {0};

	f.slot =
	    (struct proto_mon_slot){.head = PROTO_HEAD(MON_DESTROY, proto_mon_slot), .slot = 3};
	assert_int_equal(proto_check(&f, sizeof(f.slot), 0, PROTO_PARTY_F, PROTO_PARTY_M), 0);
	/* wrong direction, wrong length, a descriptor too many, cut head */
	assert_int_equal(proto_check(&f, sizeof(f.slot), 0, PROTO_PARTY_M, PROTO_PARTY_F), -1);
	assert_int_equal(proto_check(&f, sizeof(f.slot), 0, PROTO_PARTY_F, PROTO_PARTY_I), -1);
	assert_int_equal(proto_check(&f, sizeof(f.slot) - 1, 0, PROTO_PARTY_F, PROTO_PARTY_M), -1);
	assert_int_equal(proto_check(&f, sizeof(f), 0, PROTO_PARTY_F, PROTO_PARTY_M), -1);
	assert_int_equal(proto_check(&f, sizeof(f.slot), 1, PROTO_PARTY_F, PROTO_PARTY_M), -1);
	assert_int_equal(proto_check(&f, 4, 0, PROTO_PARTY_F, PROTO_PARTY_M), -1);
	assert_int_equal(proto_check(&f, 0, 0, PROTO_PARTY_F, PROTO_PARTY_M), -1);
	f.head.size++;
	assert_int_equal(proto_check(&f, sizeof(f.slot), 0, PROTO_PARTY_F, PROTO_PARTY_M), -1);
	for (uint32_t type = 0; type < 3; type++) {
		f.head = (struct proto_head){.type = type ? PROTO_TYPE_MAX_ + type - 1 : 0,
					     .size = sizeof(f.slot)};
		assert_int_equal(proto_check(&f, sizeof(f.slot), 0, PROTO_PARTY_F, PROTO_PARTY_M),
				 -1);
	}
	f.head.type = UINT32_MAX;
	assert_int_equal(proto_check(&f, sizeof(f.slot), 0, PROTO_PARTY_F, PROTO_PARTY_M), -1);
}

static void test_paths(void **state UNUSED)
{
	static const struct {
		const char *path;
		bool ok;
	} rows[] = {
	    {"a", true},       {"a/b", true},       {"...", true},    {".a", true},
	    {"a.", true},      {"..a", true},       {"a/..b", true},  {"a b\n\xff", true},
	    {"-", true},       {"", false},         {"/", false},     {"//", false},
	    {"a/", false},     {"a//b", false},     {".", false},     {"..", false},
	    {"a/..", false},   {"a/.", false},      {"./a", false},   {"../a", false},
	    {"a/../b", false}, {"a/./b", false},    {"/a", true},     {"/a/b", true},
	    {"/...", true},    {"/mnt/data", true}, {"//a", false},   {"/a/", false},
	    {"/.", false},     {"/..", false},      {"/../a", false}, {"/./a", false},
	    {"/a//b", false},  {"/a/..", false},
	};
	char path[PROTO_PATH_MAX] = "";

	assert_true(proto_path_ok(path, true));
	path[0] = '/';
	assert_true(proto_path_ok(path, true));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)snprintf(path, sizeof(path), "%s", rows[i].path);
		if (proto_path_ok(path, false) != rows[i].ok)
			fail_msg("'%s'", rows[i].path);
	}
	memset(path, 'a', sizeof(path)); /* no end */
	assert_false(proto_path_ok(path, false));
	path[256] = '\0'; /* a part of 256 bytes */
	assert_false(proto_path_ok(path, false));
	path[255] = '\0';
	assert_true(proto_path_ok(path, false));
	for (size_t i = 0; i < sizeof(path); i++)
		path[i] = i % 2 ? '/' : 'a';
	path[sizeof(path) - 1] = '\0';
	assert_true(proto_path_ok(path, false));
	for (size_t i = 0; i < sizeof(path) - 1; i++)
		path[i] = i % 2 ? 'a' : '/';
	path[sizeof(path) - 1] = 'a'; /* no end */
	assert_false(proto_path_ok(path, false));
	path[sizeof(path) - 2] = '\0';
	assert_true(proto_path_ok(path, false));
	path[sizeof(path) - 3] = '\0';
	assert_false(proto_path_ok(path, false));
}

static void test_limits(void **state UNUSED)
{
	const struct proto_limits good = {
	    .memory_bytes = PROTO_MEMORY_MIN,
	    .workspace_bytes = PROTO_DISK_MAX,
	    .tmp_bytes = PROTO_DISK_MIN,
	    .cpu_milli = PROTO_CPU_MIN,
	    .pids = PROTO_PIDS_MIN,
	    .workspace_inodes = PROTO_INODES_MAX,
	    .nofile = PROTO_NOFILE_MAX,
	};
	struct proto_limits l;

	assert_true(proto_limits_ok(&good));
#define REFUSED(field, value)                                                                      \
	do {                                                                                       \
		l = good;                                                                          \
		l.field = (value);                                                                 \
		assert_false(proto_limits_ok(&l));                                                 \
	} while (0)
	REFUSED(memory_bytes, PROTO_MEMORY_MIN - 1);
	REFUSED(memory_bytes, UINT64_MAX);
	REFUSED(workspace_bytes, 0);
	REFUSED(workspace_bytes, PROTO_DISK_MAX + 1);
	REFUSED(tmp_bytes, PROTO_DISK_MIN - 1);
	REFUSED(cpu_milli, 0);
	REFUSED(cpu_milli, UINT32_MAX);
	REFUSED(pids, 0);
	REFUSED(pids, PROTO_PIDS_MAX + 1);
	REFUSED(workspace_inodes, 0);
	REFUSED(nofile, 0);
	REFUSED(nofile, UINT32_MAX);
#undef REFUSED
}

static void test_create_request(void **state UNUSED)
{
	struct native_monitor_config config = {.max_sandboxes = 2};
	struct monitor_sandbox sandboxes[2] = {{.state = SANDBOX_FREE}, {.state = SANDBOX_LIVE}};
	struct monitor m = {.config = &config, .sandboxes = sandboxes};
	const struct proto_mon_create good = {
	    .head = PROTO_HEAD(MON_CREATE, proto_mon_create),
	    .limits = {.memory_bytes = 1 << 30,
		       .workspace_bytes = 1 << 30,
		       .tmp_bytes = 1 << 30,
		       .cpu_milli = 1000,
		       .pids = 64,
		       .workspace_inodes = 1000,
		       .nofile = 100},
	    .image = "science",
	};
	union proto_frame f = {.create = good};
	struct proto_mon_create *c = &f.create;

	assert_int_equal(requests_check(&m, &f), 0);
	c->slot = 1; /* in use */
	assert_int_equal(requests_check(&m, &f), -EINVAL);
	c->slot = 2; /* beyond the last */
	assert_int_equal(requests_check(&m, &f), -EINVAL);
	*c = good;
	c->warm = 2;
	assert_int_equal(requests_check(&m, &f), -EINVAL);
	*c = good;
	memset(c->image, 'a', sizeof(c->image)); /* no end */
	assert_int_equal(requests_check(&m, &f), -EINVAL);
	static const char *const names[] = {"", "..", "../x", "a/b", "A", ".hidden", "a\nb"};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		*c = good;
		(void)snprintf(c->image, sizeof(c->image), "%s", names[i]);
		assert_int_equal(requests_check(&m, &f), -EINVAL);
	}
	*c = good;
	c->limits.pids = 0;
	assert_int_equal(requests_check(&m, &f), -EINVAL);
}

static void test_subids(void **state UNUSED)
{
	static const struct {
		const char *text;
		int r;
		uint32_t first, count;
	} rows[] = {
	    {"", -ENOENT, 0, 0},
	    {"ann:100000:65536\n", 0, 100000, 65536},
	    {"ann:100000:65536", 0, 100000, 65536},    /* no newline at the end */
	    {"1000:200000:65536\n", 0, 200000, 65536}, /* by number */
	    {"bob:1:65536\nann:300000:70000\n", 0, 300000, 70000},
	    {"ann:100000:10\nann:400000:65536\n", 0, 400000,
	     65536}, /* the first one is too small */
	    {"anna:100000:65536\nan:1:65536\n", -ENOENT, 0, 0},
	    {"ann:100000\nann\n:::\nann::65536\n", -ENOENT, 0, 0},
	    {"ann:0:65536\n", -ENOENT, 0, 0}, /* would hand out the host's root */
	    {"ann:-1:65536\n", -ENOENT, 0, 0},
	    {"ann:4294900000:4294967295\n", -ENOENT, 0, 0}, /* beyond the last id */
	    {"ann:100000:65536:1\n", -ENOENT, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t first = 0;
		uint32_t count = 0;
		assert_int_equal(ids_parse_subid(rows[i].text, "ann", 1000, 1000, &first, &count),
				 rows[i].r);
		assert_int_equal(first, rows[i].first);
		assert_int_equal(count, rows[i].count);
	}
}

/* Which ids a monitor takes in a user namespace that has these. */
static void test_ids_in_map(void **state UNUSED)
{
	static const uint32_t want = 1879048192;
	static const struct {
		const char *map;
		bool enough;
		uint32_t first, count;
	} rows[] = {
	    {"         0          0 4294967295\n", true, 1879048192, 65536},
	    {"0 300000 65536\n", true, 1000, 64536}, /* a pod with a user namespace of its own */
	    {"0 300000 65536\n1879048192 1879048192 65536\n", true, 1879048192, 65536},
	    {"0 300000 65536\n1879048192 1879048192 65535\n", true, 1879048192, 65535},
	    {"0 1000 1\n1 100000 65536\n", true, 1000, 64537}, /* rootless Podman */
	    {"0 300000 17384\n", true, 1000, 16384},
	    {"0 300000 17383\n", false, 1000, 16383},
	    {"0 1000 1\n", false, 0, 0},
	    {"", false, 0, 0},
	    {"0 300000 1000000\n", true, 1000, 65535},
	    {"4294901760 300000 65535\n", true, 4294901760, 65535}, /* up to the last id */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t first = 0, count = 0;

		assert_int_equal(ids_in_map(rows[i].map, want, &first, &count), rows[i].enough);
		assert_int_equal(first, rows[i].first);
		assert_int_equal(count, rows[i].count);
	}
}

/* The number at *AT, which is moved behind it and the character that ends it. */
static uint32_t next_number(const char **at)
{
	const size_t len = strcspn(*at, " \n");
	uint64_t n;

	assert_int_equal(parse_u64_n(*at, len, 0, UINT32_MAX, &n), 0);
	*at += len + 1;
	return (uint32_t)n;
}

/* Of an image with foreign owners: the same ids at the same places, and 0 by itself. */
static void foreign_ids_are_mapped(void **state UNUSED)
{
	char plain[IDS_MAP_MAX], foreign[IDS_MAP_MAX];
	ids_root_map(0, 5, 1, false, plain);
	ids_root_map(0, 5, 1, true, foreign);
	const char *p = plain, *f = foreign;
	uint32_t seen = 0;
	while (*f) {
		const uint32_t inside = next_number(&f), at = next_number(&f), n = next_number(&f);
		assert_true(inside == 0 ? n == 1 : inside > FOREIGN_FIRST);
		seen += n;
		if (inside != FOREIGN_FIRST + 1000)
			continue;
		assert_int_equal(next_number(&p), 1000);
		assert_int_equal(next_number(&p), at);
		assert_int_equal(next_number(&p), n);
	}
	uint32_t all = 1;
	while (*p) {
		(void)next_number(&p);
		(void)next_number(&p);
		all += next_number(&p);
	}
	assert_int_equal(seen, all);
}

/* Each sandbox with a root user has ids that no other has, nor any slot, and all that are given back are given again. */
static void test_root_ids(void **state UNUSED)
{
	static bool taken[IDS_PER_RANGE];
	static const uint32_t slots = 4096;
	static struct ids ids = {.mode = IDS_RANGE, .count = IDS_PER_RANGE};
	uint32_t root;

	struct native_monitor_config config = {.max_sandboxes = slots};
	struct monitor m = {.root = true,
			    .ids = ids,
			    .config = &config,
			    .cgroup.enforced = PROTO_CAP_PIDS | PROTO_CAP_MEMORY};
	assert_true(monitor_has_root(&m));
	config.max_sandboxes = IDS_PER_RANGE / 2;
	assert_false(monitor_has_root(&m));
	for (uint32_t i = 0; i < slots; i++)
		taken[ids_slot(&ids, i)] = true;
	for (uint32_t i = 0; i < ROOTS_MAX; i++) {
		char map[IDS_MAP_MAX];
		uint32_t lines = 0, least = UINT32_MAX;

		assert_int_equal(ids_take_root(&ids, &root), 0);
		ids_root_map(0, ids_slot(&ids, i), root, false, map);
		for (const char *p = map; *p; lines++) {
			const uint32_t inside = next_number(&p), at = next_number(&p),
				       n = next_number(&p);
			least = MIN(least, inside);
			if (lines == 0) { /* its own uid */
				assert_int_equal(inside, 1000);
				assert_int_equal(at, ids_slot(&ids, i));
				continue;
			}
			assert_true(at + n <= ID_OWNER);
			for (uint32_t k = at; k < at + n; k++) {
				assert_false(taken[k]);
				taken[k] = true;
			}
		}
		assert_int_equal(lines, 5);
		assert_int_equal(least, 0);
	}
	assert_int_equal(ids_take_root(&ids, &root), -EAGAIN);
	assert_int_equal(ids_give_root(&ids, 7), 0);
	assert_int_equal(ids_give_root(&ids, 0), 0);
	assert_int_equal(ids_take_root(&ids, &root), 0);
	assert_int_equal(root, 7);
}

static const char hybrid_mounts[] =
    "22 1 0:20 / /proc rw,nosuid - proc proc rw\n"
    "30 25 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
    "31 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct\n"
    "32 25 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "33 25 0:30 /docker/abc /inner/pids rw - cgroup cgroup rw,pids\n"
    "34 25 0:31 / /odd\\040name rw - cgroup cgroup rw,freezer\n"
    "broken\n\n";
static const char hybrid_self[] =
    "12:cpu,cpuacct:/user.slice\n11:memory:/\n10:pids:/docker/abc/x\n9:freezer:/\n0::/me.scope\n";

static void test_groups(void **state UNUSED)
{
	static const struct {
		const char *name;
		int r;
		const char *path;
		size_t mount_len;
	} rows[] = {
	    {"cpu", 0, "/sys/fs/cgroup/cpu,cpuacct/user.slice", 26},
	    {"cpuacct", 0, "/sys/fs/cgroup/cpu,cpuacct/user.slice", 26},
	    {"memory", 0, "/sys/fs/cgroup/memory", 21},
	    {"pids", 0, "/inner/pids/x", 11}, /* a part of the tree, as in a container */
	    {NULL, 0, "/sys/fs/cgroup/unified/me.scope", 22},
	    {"freezer", -ENOENT, NULL, 0}, /* a mount point that needs decoding is left alone */
	    {"acct", -ENOENT, NULL, 0},
	    {"devices", -ENOENT, NULL, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char path[PATH_MAX];
		size_t len = 0;
		assert_int_equal(cgroup_find(hybrid_mounts, hybrid_self, rows[i].name, path, &len),
				 rows[i].r);
		if (rows[i].r == 0) {
			assert_string_equal(path, rows[i].path);
			assert_int_equal(len, rows[i].mount_len);
		}
	}
	char path[PATH_MAX];
	size_t len;
	/* a group outside of what the mount shows */
	assert_int_equal(cgroup_find("1 1 0:1 /docker/abc /x rw - cgroup c rw,pids\n",
				     "1:pids:/docker/abcd\n", "pids", path, &len),
			 -ENOENT);
	assert_int_equal(cgroup_find("", "", "pids", path, &len), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(foreign_ids_are_mapped),
	    cmocka_unit_test(test_messages),
	    cmocka_unit_test(test_paths),
	    cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_create_request),
	    cmocka_unit_test(test_subids),
	    cmocka_unit_test(test_ids_in_map),
	    cmocka_unit_test(test_groups),
	    cmocka_unit_test(test_root_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
