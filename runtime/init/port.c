/* SPDX-License-Identifier: Apache-2.0 */
/* The servers of a sandbox: which there are, connections to them, and the one that init itself is. init connects, because it is in the network namespace of
 * the sandbox, and hands the socket out; the front never enters that namespace. What a socket holds counts for the process that
 * made it: init, and so the sandbox. */
#include "health.h"

#include "base/fdio.h"
#include "base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 20

static int try(const struct sockaddr *to, socklen_t size)
{
	_cleanup_fd_ int fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	struct pollfd p = {.fd = fd, .events = POLLOUT};
	int error = 0;
	socklen_t error_size = sizeof(error);

	if (fd < 0)
		return -errno;
	if (connect(fd, to, size) < 0 && errno != EINPROGRESS)
		return -errno;
	/* On loopback the answer comes at once, unless the server does not accept what it has: then the front waits. */
	if (poll(&p, 1, PATIENCE_MS) > 0 &&
	    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size) == 0 && error != 0)
		return -error;
	return TAKE_FD(fd);
}

int port_connect(uint32_t port)
{
	const struct sockaddr_in v4 = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
					.sin6_port = htons((uint16_t)port),
					.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	const int fd = try((const struct sockaddr *)&v4, sizeof(v4));

	if (fd != -ECONNREFUSED)
		return fd;
	/* Servers that listen on "localhost" may have chosen the other address of that name. */
	const int other = try((const struct sockaddr *)&v6, sizeof(v6));
	return other < 0 ? -ECONNREFUSED : other;
}

/* ---- the one that init is ---- */

#define HEALTH_BACKLOG 8
#define REQUEST_MAX    2048
#define ANSWER(status, type, length, body)                                                         \
	"HTTP/1.1 " status "\r\nContent-Type: " type "\r\nContent-Length: " length                 \
	"\r\nConnection: close\r\n\r\n" body

static struct {
	int fd; /* that listens */
	uint32_t port;
} health = {.fd = -1};

void health_begin(uint32_t port)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const int on = 1;
	_cleanup_fd_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (health.fd >= 0 || fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return;
	/* Best effort: then whoever sends nothing does not wake init. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    listen(fd, HEALTH_BACKLOG) < 0)
		return;
	health.fd = TAKE_FD(fd);
	health.port = port;
}

int health_fd(void)
{
	return health.fd;
}

void health_answer(void)
{
	static const char good[] = ANSWER("200 OK", "application/json", "4", "\"OK\"");
	static const char other[] =
	    ANSWER("404 Not Found", "text/plain", "28", "inside, only /health answers");
	static const char asked[] = "GET /health ";
	char request[REQUEST_MAX];
	/* cppcheck-suppress nullPointer ; cppcheck does not know that accept4() takes NULL */
	_cleanup_fd_ int fd = accept4(health.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (fd < 0 || poll(&p, 1, PATIENCE_MS) <= 0)
		return;
	/* A request that comes in pieces has its first line in the first of them. All of it is read, so that the end of the
	 * connection is no reset, which could overtake the answer. */
	const ssize_t n = recv(fd, request, sizeof(request), 0);
	if (n <= 0)
		return;
	const bool is_good =
	    (size_t)n >= sizeof(asked) - 1 && memcmp(request, asked, sizeof(asked) - 1) == 0;
	(void)!send(fd, is_good ? good : other, is_good ? sizeof(good) - 1 : sizeof(other) - 1,
		    MSG_NOSIGNAL);
}

/* ---- which there are ---- */

#define LINES_MAX    20000U /* of the kernel's table, of all sockets of TCP */
#define LINKS_MAX    20000U /* descriptors that are looked at */
#define STATE_LISTEN 0x0aU

struct listener {
	uint64_t inode;
	struct proto_port port;
};

struct listeners {
	unsigned n;
	bool more; /* than there are places */
	struct listener all[PROTO_PORTS_MAX];
};

/* A local address as the kernel prints it, hexadecimal 32-bit words: one that a connection to loopback reaches. */
static bool is_reached(const char *address)
{
	static const char *const addresses[] = {
	    "00000000",                         /* 0.0.0.0 */
	    "0100007F",                         /* 127.0.0.1 */
	    "00000000000000000000000000000000", /* :: */
	    "00000000000000000000000001000000", /* ::1 */
	    "0000000000000000FFFF00000100007F", /* ::ffff:127.0.0.1 */
	};

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++)
		if (strcmp(address, addresses[i]) == 0)
			return true;
	return false;
}

/* Columns of /proc/net/tcp, proc(5): number, local address, remote address, state, …, inode. */
enum { COLUMN_LOCAL = 1, COLUMN_STATE = 3, COLUMN_INODE = 9, COLUMNS };

static bool is_hex_digit(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F');
}

static uint32_t hex(const char *s)
{
	uint32_t n = 0;

	for (; is_hex_digit(*s); s++)
		n = n * 16 + (uint32_t)(*s <= '9' ? *s - '0' : *s - 'A' + 10);
	return n;
}

/* Where PORT goes. The kernel's table has no order, so without a free place it takes that of the largest number: then the
 * same listeners always give the same list. NULL: PORT itself is the largest. */
static struct listener *place_of(struct listeners *l, uint32_t port)
{
	struct listener *largest = &l->all[0];

	if (l->n < PROTO_PORTS_MAX)
		return &l->all[l->n++];
	l->more = true;
	for (unsigned i = 1; i < l->n; i++)
		if (l->all[i].port.port > largest->port.port)
			largest = &l->all[i];
	return port < largest->port.port ? largest : NULL;
}

static void add_line(struct listeners *l, char *line)
{
	char *columns[COLUMNS];
	size_t n = 0;
	uint64_t inode;

	for (char *p = line + strspn(line, " "); *p && n < COLUMNS; p += strspn(p, " ")) {
		columns[n++] = p;
		p += strcspn(p, " \n");
		if (*p)
			*p++ = '\0';
	}
	char *colon = n == COLUMNS ? strchr(columns[COLUMN_LOCAL], ':') : NULL;
	if (!colon || hex(columns[COLUMN_STATE]) != STATE_LISTEN ||
	    parse_u64(columns[COLUMN_INODE], 0, UINT64_MAX, &inode) < 0)
		return;
	*colon = '\0';
	const uint32_t port = hex(colon + 1);
	if (port == PROTO_EGRESS_PORT || port == 0 || port > 65535 ||
	    (health.fd >= 0 && port == health.port) || !is_reached(columns[COLUMN_LOCAL]))
		return;
	for (unsigned i = 0; i < l->n; i++)
		if (l->all[i].port.port == port)
			return;
	struct listener *place = place_of(l, port);
	if (place)
		*place = (struct listener){.inode = inode, .port.port = port};
}

static void read_table(const struct init *in, struct listeners *l, const char *path)
{
	char line[256];
	const int fd = openat(in->proc, path, O_RDONLY | O_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (!f) {
		(void)fd_close(fd);
		return; /* a kernel without that protocol */
	}
	for (unsigned i = 0; i < LINES_MAX && fgets(line, sizeof(line), f); i++)
		add_line(l, line);
	(void)fclose(f);
}

static void name_it(int process, struct proto_port *p, uint32_t pid)
{
	_cleanup_fd_ int fd = openat(process, "comm", O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? -1 : read(fd, p->name, sizeof(p->name) - 1);

	p->pid = pid;
	/* The kernel adds a line feed, and the name itself may have others. */
	p->name[n <= 0 ? 0 : p->name[n - 1] == '\n' ? n - 1 : n] = '\0';
}

/* Which of the listeners has the process in the folder PROCESS? */
static void look_at(int process, uint32_t pid, struct listeners *l, unsigned *links)
{
	const int fd = openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *de;
	char to[64];

	if (!d) {
		(void)fd_close(fd);
		return;
	}
	while (*links > 0 && (de = readdir(d))) {
		const ssize_t n = readlinkat(dirfd(d), de->d_name, to, sizeof(to) - 1);
		uint64_t inode;

		--*links;
		if (n <= 9 || strncmp(to, "socket:[", 8) != 0 ||
		    parse_u64_n(to + 8, (size_t)n - 9, 0, UINT64_MAX, &inode) < 0)
			continue;
		for (unsigned i = 0; i < l->n; i++)
			if (l->all[i].inode == inode && l->all[i].port.pid == 0)
				name_it(process, &l->all[i].port, pid);
	}
	(void)closedir(d);
}

static void find_processes(const struct init *in, struct listeners *l)
{
	const int fd = openat(in->proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	unsigned links = LINKS_MAX;
	const struct dirent *de;
	uint64_t pid;

	if (!d) {
		(void)fd_close(fd);
		return;
	}
	while ((de = readdir(d))) {
		if (parse_u64(de->d_name, 2, UINT32_MAX, &pid) < 0) /* 1 is init */
			continue;
		_cleanup_fd_ int process =
		    openat(dirfd(d), de->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (process >= 0)
			look_at(process, (uint32_t)pid, l, &links);
	}
	(void)closedir(d);
}

static int compare(const void *a, const void *b)
{
	const struct listener *x = a, *y = b;

	return x->port.port < y->port.port ? -1 : x->port.port > y->port.port;
}

uint32_t ports_read(const struct init *in, struct proto_port ret[PROTO_PORTS_MAX], bool *ret_more)
{
	static struct listeners l;

	l.n = 0;
	l.more = false;
	read_table(in, &l, "1/net/tcp");
	read_table(in, &l, "1/net/tcp6");
	if (l.n > 0)
		find_processes(in, &l);
	qsort(l.all, l.n, sizeof(l.all[0]), compare);
	for (unsigned i = 0; i < l.n; i++)
		ret[i] = l.all[i].port;
	*ret_more = l.more;
	return l.n;
}

int ports_list(const struct init *in, int out)
{
	static struct proto_port ports[PROTO_PORTS_MAX];
	bool more;
	const uint32_t n = ports_read(in, ports, &more);
	const int r = fd_write_all(out, ports, n * sizeof(ports[0]));

	return r < 0 ? r : (int)n;
}
