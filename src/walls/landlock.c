/* SPDX-License-Identifier: Apache-2.0 */
#include "walls/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule       445
#define __NR_landlock_restrict_self  446
#endif

/* The kernel's interface at level 7, under our own names: the headers of Debian 12 stop at level 2. */
#define LL_VERSION      (1U << 0) /* LANDLOCK_CREATE_RULESET_VERSION */
#define LL_PATH_BENEATH 1         /* LANDLOCK_RULE_PATH_BENEATH */
#define LL_LOG_OFF      (1U << 0) /* LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF */

#define FS_EXECUTE     (1ULL << 0)
#define FS_WRITE_FILE  (1ULL << 1)
#define FS_READ_FILE   (1ULL << 2)
#define FS_READ_DIR    (1ULL << 3)
#define FS_REMOVE_DIR  (1ULL << 4)
#define FS_REMOVE_FILE (1ULL << 5)
#define FS_MAKE_CHAR   (1ULL << 6)
#define FS_MAKE_DIR    (1ULL << 7)
#define FS_MAKE_REG    (1ULL << 8)
#define FS_MAKE_SOCK   (1ULL << 9)
#define FS_MAKE_FIFO   (1ULL << 10)
#define FS_MAKE_BLOCK  (1ULL << 11)
#define FS_MAKE_SYM    (1ULL << 12)
#define FS_REFER       (1ULL << 13) /* level 2 */
#define FS_TRUNCATE    (1ULL << 14) /* level 3 */
#define FS_IOCTL_DEV   (1ULL << 15) /* level 5 */

#define SCOPE_ABSTRACT_UNIX (1ULL << 0) /* level 6 */
#define SCOPE_SIGNAL        (1ULL << 1) /* level 6 */

struct ll_ruleset {
	uint64_t handled_fs;
	uint64_t handled_net; /* level 4; stays 0, because the network namespace is the wall */
	uint64_t scoped;      /* level 6 */
};

struct ll_path {
	uint64_t allowed;
	int32_t parent_fd;
} __attribute__((packed));

#define READ   (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR)
#define DEVICE (FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE) /* open(…, O_TRUNC) of /dev/null */
#define WRITE                                                                                      \
	(READ | FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG |       \
	 FS_MAKE_SOCK | FS_MAKE_FIFO | FS_MAKE_SYM | FS_REFER | FS_TRUNCATE)

static const uint64_t rights_of[] = {
    [LANDLOCK_READ] = READ,
    [LANDLOCK_WRITE] = WRITE,
    [LANDLOCK_DEVICE] = DEVICE,
    [LANDLOCK_TERMINAL] = DEVICE | FS_READ_DIR | FS_IOCTL_DEV,
};

/* The rights that a file can have; the kernel refuses rules that give others to a file. */
#define FILE_RIGHTS (FS_EXECUTE | FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

static const struct {
	const char *path;
	enum landlock_rights rights;
} table[] = {
#define L(path, rights, why) {path, LANDLOCK_##rights},
#include "walls/run_files.tbl.h"
#undef L
};

int landlock_abi(void)
{
	long v = syscall(__NR_landlock_create_ruleset, NULL, 0, LL_VERSION);

	return v < 0 ? 0 : (int)v;
}

static uint64_t handled_at(int abi)
{
	uint64_t fs = (WRITE & ~(FS_REFER | FS_TRUNCATE)) | FS_MAKE_CHAR | FS_MAKE_BLOCK;

	if (abi >= 2)
		fs |= FS_REFER;
	if (abi >= 3)
		fs |= FS_TRUNCATE;
	if (abi >= 5)
		fs |= FS_IOCTL_DEV;
	return fs;
}

static size_t ruleset_size_at(int abi)
{
	return abi >= 6   ? sizeof(struct ll_ruleset)
	       : abi >= 4 ? offsetof(struct ll_ruleset, scoped)
			  : offsetof(struct ll_ruleset, handled_net);
}

int landlock_add(int ruleset, const char *root, const char *path, enum landlock_rights rights)
{
	const uint64_t allowed = rights_of[rights] & handled_at(landlock_abi());
	char full[512];
	size_t n = strlen(root);
	size_t m = strlen(path);
	struct statx st;

	if (n + m >= sizeof(full))
		return -ENAMETOOLONG;
	memcpy(full, root, n);
	memcpy(full + n, path, m + 1);
	int fd = open(full, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	int r = 0;
	/* not fstat(2): zygotes load this, and C libraries before 2.33 have no such function */
	if (statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &st) < 0) {
		r = -errno;
	} else {
		struct ll_path rule = {.allowed = allowed, .parent_fd = fd};

		if (!S_ISDIR(st.stx_mode))
			rule.allowed &= FILE_RIGHTS;
		if (syscall(__NR_landlock_add_rule, ruleset, LL_PATH_BENEATH, &rule, 0) != 0)
			r = -errno;
	}
	(void)close(fd);
	return r;
}

int landlock_new(void)
{
	int abi = landlock_abi();

	if (abi < LANDLOCK_ABI_MIN)
		return -EOPNOTSUPP;
	struct ll_ruleset attr = {
	    .handled_fs = handled_at(abi),
	    .scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL,
	};
	int fd = (int)syscall(__NR_landlock_create_ruleset, &attr, ruleset_size_at(abi), 0);
	return fd < 0 ? -errno : fd;
}

int landlock_prepare(const char *root)
{
	int fd = landlock_new();

	if (fd < 0)
		return fd;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		int r = landlock_add(fd, root, table[i].path, table[i].rights);

		if (r < 0) {
			(void)close(fd);
			return r;
		}
	}
	return fd;
}

int landlock_prepare_root(const char *root)
{
	const int fd = landlock_prepare(root);
	const int r = fd < 0 ? fd : landlock_add(fd, root, "/", LANDLOCK_WRITE);

	if (fd >= 0 && r < 0)
		(void)close(fd);
	return r < 0 ? r : fd;
}

int landlock_apply(int ruleset_fd)
{
	/* Refused calls of hostile code must not fill the audit log of the host. */
	unsigned int flags = landlock_abi() >= 7 ? LL_LOG_OFF : 0;

	if (syscall(__NR_landlock_restrict_self, ruleset_fd, flags) != 0)
		return -errno;
	return 0;
}
