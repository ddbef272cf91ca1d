/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a sandbox: loopback, the way out, and bounds for what sockets hold.
 *
 * The kernel charges the buffers of a socket to the control group of the process that made it.
 * Three things escape that, so that a sandbox could hold gigabytes of the host:
 *   - a TCP connection that nobody has accepted was made by the network code and belongs to no
 *     group. Its receive buffer grows to tcp_rmem[2], 32 MiB on many hosts;
 *   - on cgroup v1 no buffer is charged until the group has memory.kmem.tcp.limit_in_bytes, which
 *     the monitor sets (cgroup1.c);
 *   - without control groups nothing is charged.
 * So sockets_bound() makes the buffers of this network namespace small, and sockets_watch() looks
 * how many sockets there are during a run. Small buffers cost nothing here: loopback moved 5 GB/s
 * with these and 2.4 GB/s with the defaults of the same kernel, whose buffers leave the cache.
 *
 * UNIX sockets need neither where a control group counts: the sender allocates what waits in them and is charged
 * for it. Where nothing counts, memory_watch.c adds sockets_unix_bytes(). */
#include "init.h"

#include "base/fdio.h"
#include "base/parse.h"
#include "base/walls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EGRESS_BACKLOG 128
#define TEXT_MAX       2048
#define DIAG_BUFFER    16384 /* the kernel fills at most this much at once, netlink(7) */

/* The most that one socket holds in both directions: tcp_rmem[2] + tcp_wmem[2] of the table below;
 * for UDP the usual net.core.rmem_default, which a run cannot raise (the filter swallows
 * SO_RCVBUF). */
#define TCP_BYTES (UINT64_C(128) << 10)
#define UDP_BYTES (UINT64_C(208) << 10)
/* What the kernel needs for a UNIX socket in which nothing waits: socket, inode, file and entry. */
#define UNIX_OBJECT_BYTES UINT64_C(2560)
/* So many UNIX sockets are looked at, which takes 0.2 s; a sandbox with more counts as too large. */
#define UNIX_SOCKETS_MOST 65536U

/* Below /proc/sys/net; each belongs to the network namespace, ip-sysctl in the kernel's docs.
 * Three numbers are minimum, default and maximum in bytes. */
static const struct {
	const char *path;
	const char *value;
} sysctls[] = {
    {"sys/net/ipv4/tcp_rmem", "4096 16384 65536"},
    {"sys/net/ipv4/tcp_wmem", "4096 16384 65536"},
    /* connections of one listener that nobody has accepted */
    {"sys/net/core/somaxconn", "128"},
    {"sys/net/ipv4/tcp_max_syn_backlog", "128"},
    /* closed connections that the kernel remembers for a minute; they belong to no group */
    {"sys/net/ipv4/tcp_max_tw_buckets", "4096"},
};

/* A /proc with sys/, mounted nowhere. Its net/ shows the namespace of whoever opens it. */
static int open_full_proc(void)
{
	_cleanup_fd_ int context = (int)syscall(SYS_fsopen, "proc", FSOPEN_CLOEXEC);

	if (context < 0 || syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	int fd = (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC,
			      MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Best effort: a kernel that lacks a setting keeps its default, and sockets_watch() still holds. */
void sockets_bound(void)
{
	if (!wall_stands(WALL_SOCKETS))
		return;
	_cleanup_fd_ int proc = open_full_proc();
	if (proc < 0)
		return;
	for (size_t i = 0; i < sizeof(sysctls) / sizeof(sysctls[0]); i++) {
		_cleanup_fd_ int fd = openat(proc, sysctls[i].path, O_WRONLY | O_CLOEXEC);
		if (fd >= 0)
			(void)!write(fd, sysctls[i].value, strlen(sysctls[i].value));
	}
}

int loopback_up(void)
{
	_cleanup_fd_ int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {.ifr_name = "lo"};

	if (sock < 0 || ioctl(sock, SIOCGIFFLAGS, &ifr) < 0)
		return -errno;
	ifr.ifr_flags = (short)(ifr.ifr_flags | IFF_UP);
	return ioctl(sock, SIOCSIFFLAGS, &ifr) < 0 ? -errno : 0;
}

int egress_listen(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(PROTO_EGRESS_PORT),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	_cleanup_fd_ int sock = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (sock < 0 || bind(sock, (const struct sockaddr *)&to, sizeof(to)) < 0 ||
	    listen(sock, EGRESS_BACKLOG) < 0)
		return -errno;
	return TAKE_FD(sock);
}

/* The number behind "PROTOCOL: inuse " in a sockstat file; 0 = not there. */
static uint64_t in_use(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	uint64_t value = 0;

	if (!at)
		return 0;
	at += strlen(key);
	return parse_u64_n(at, strspn(at, "0123456789"), 0, UINT32_MAX, &value) < 0 ? 0 : value;
}

/* proc(5), net/sockstat: sockets of this network namespace, unaccepted connections included. */
static uint64_t held_by(const struct init *in, const char *file, const char *tcp, const char *udp)
{
	char text[TEXT_MAX];
	_cleanup_fd_ int fd = openat(in->proc, file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return 0;
	text[n] = '\0';
	return in_use(text, tcp) * TCP_BYTES + in_use(text, udp) * UDP_BYTES;
}

bool sockets_watch(const struct init *in)
{
	return wall_stands(WALL_SOCKETS) &&
	       held_by(in, "1/net/sockstat", "TCP: inuse ", "UDP: inuse ") +
		       held_by(in, "1/net/sockstat6", "TCP6: inuse ", "UDP6: inuse ") >
		   in->config.limits.memory_bytes;
}

/* ANSWER: a struct unix_diag_msg and its attributes. What was sent and nobody has read is charged
 * to the sender. */
static uint64_t held_by_one(const char *answer, size_t size)
{
	uint32_t figures[SK_MEMINFO_WMEM_ALLOC + 1];
	struct nlattr a;

	for (size_t at = sizeof(struct unix_diag_msg); at < size && size - at >= sizeof(a);
	     at += (a.nla_len + 3U) & ~3U) {
		memcpy(&a, answer + at, sizeof(a));
		if (a.nla_len < sizeof(a) || a.nla_len > size - at)
			break;
		if (a.nla_type != UNIX_DIAG_MEMINFO || a.nla_len < sizeof(a) + sizeof(figures))
			continue;
		memcpy(figures, answer + at + sizeof(a), sizeof(figures));
		return UNIX_OBJECT_BYTES + figures[SK_MEMINFO_WMEM_ALLOC];
	}
	return UNIX_OBJECT_BYTES;
}

struct unix_sum {
	uint64_t bytes;
	unsigned n;
	bool lacking; /* the kernel has no unix_diag */
};

/* The errno of a struct nlmsgerr, negative. */
static int error_in(const char *answer, size_t size)
{
	int error = 0;

	if (size >= sizeof(error))
		memcpy(&error, answer, sizeof(error));
	return error;
}

/* One part of the list of sockets. False: it was the last one. */
static bool add_part(struct unix_sum *sum, const char *part, size_t size)
{
	struct nlmsghdr h;

	for (size_t at = 0; at < size && size - at >= sizeof(h); at += (h.nlmsg_len + 3U) & ~3U) {
		memcpy(&h, part + at, sizeof(h));
		sum->lacking = h.nlmsg_type == NLMSG_ERROR &&
			       error_in(part + at + sizeof(h), size - at - sizeof(h)) == -ENOENT;
		if (h.nlmsg_type == NLMSG_DONE || h.nlmsg_type == NLMSG_ERROR ||
		    h.nlmsg_len < sizeof(h) || h.nlmsg_len > size - at)
			return false;
		sum->bytes += held_by_one(part + at + sizeof(h), h.nlmsg_len - sizeof(h));
		sum->n++;
	}
	return true;
}

uint64_t sockets_unix_bytes(void)
{
	const struct {
		struct nlmsghdr head;
		struct unix_diag_req body;
	} ask = {
	    .head = {.nlmsg_len = sizeof(ask),
		     .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		     .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
	    .body = {.sdiag_family = AF_UNIX,
		     .udiag_states = UINT32_MAX,
		     .udiag_show = UDIAG_SHOW_MEMINFO},
	};
	/* Such a kernel looks for the module at each question, which takes milliseconds. */
	static bool lacking;
	char part[DIAG_BUFFER];
	struct unix_sum sum = {0};
	ssize_t n;

	if (!wall_stands(WALL_SOCKETS) || lacking)
		return 0;
	_cleanup_fd_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (fd < 0 || send(fd, &ask, sizeof(ask), 0) != (ssize_t)sizeof(ask))
		return 0;
	do {
		n = recv(fd, part, sizeof(part), MSG_DONTWAIT);
	} while (n > 0 && add_part(&sum, part, (size_t)n) && sum.n < UNIX_SOCKETS_MOST);
	lacking = sum.lacking;
	return sum.n < UNIX_SOCKETS_MOST ? sum.bytes : UINT64_MAX / 2;
}
