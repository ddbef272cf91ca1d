/* SPDX-License-Identifier: Apache-2.0 */
/* A front that went bad: whatever it sends to the monitor that is not an allowed request ends the
 * monitor (and with it all sandboxes) at once, and the host is as before.
 *
 *   monitor_abuse [--as UID | --daemon URL]
 *
 * With --daemon it is the keeper of the engine on containers. */
#include "state_dir.h"

#include "base/fdio.h"
#include "base/parse.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "engine/front/front.h"
#include "engine/protocol/proto.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define SLOTS       4
#define END_WAIT_MS 20000 /* it is there at once but on a machine that is very busy */

static int number;
static const char *daemon_url; /* NULL: the native engine */

static void expect(bool ok, const char *what)
{
	if (ok)
		return;
	(void)printf("not ok %d - %s\n", number + 1, what);
	(void)fflush(stdout);
	_exit(1);
}

static const struct proto_mon_create good = {
    .head = PROTO_HEAD(MON_CREATE, proto_mon_create),
    .limits = {.memory_bytes = 256 << 20,
	       .workspace_bytes = 1 << 20,
	       .tmp_bytes = 1 << 20,
	       .cpu_milli = 1000,
	       .pids = 32,
	       .workspace_inodes = 100,
	       .nofile = 64},
    .image = "no-such-image",
};

/* Each fills F and returns how many bytes to send; *RET_FD: a descriptor to send too. */
static size_t garbage(union proto_frame *f, int *ret_fd UNUSED)
{
	memset(f, 0xa5, sizeof(*f));
	return sizeof(*f);
}

static size_t one_byte(union proto_frame *f UNUSED, int *ret_fd UNUSED)
{
	return 1;
}

static size_t too_long(union proto_frame *f, int *ret_fd UNUSED)
{
	f->create = good;
	return sizeof(f->create) + 1;
}

static size_t wrong_direction(union proto_frame *f, int *ret_fd UNUSED)
{
	f->gone = (struct proto_mon_gone){.head = PROTO_HEAD(MON_GONE, proto_mon_gone)};
	return sizeof(f->gone);
}

static size_t for_init(union proto_frame *f, int *ret_fd UNUSED)
{
	f->signal = (struct proto_init_signal){.head = PROTO_HEAD(INIT_SIGNAL, proto_init_signal),
					       .signo = 9};
	return sizeof(f->signal);
}

static size_t slot_beyond(union proto_frame *f, int *ret_fd UNUSED)
{
	f->create = good;
	f->create.slot = SLOTS;
	return sizeof(f->create);
}

static size_t destroy_beyond(union proto_frame *f, int *ret_fd UNUSED)
{
	f->slot = (struct proto_mon_slot){.head = PROTO_HEAD(MON_DESTROY, proto_mon_slot),
					  .slot = UINT32_MAX};
	return sizeof(f->slot);
}

static size_t usage_beyond(union proto_frame *f, int *ret_fd UNUSED)
{
	f->slot =
	    (struct proto_mon_slot){.head = PROTO_HEAD(MON_USAGE, proto_mon_slot), .slot = SLOTS};
	return sizeof(f->slot);
}

static size_t warm_beyond(union proto_frame *f, int *ret_fd UNUSED)
{
	f->slot =
	    (struct proto_mon_slot){.head = PROTO_HEAD(MON_WARM, proto_mon_slot), .slot = SLOTS};
	return sizeof(f->slot);
}

static const struct proto_mon_limit other_limit = {.head = PROTO_HEAD(MON_LIMIT, proto_mon_limit),
						   .what = PROTO_LIMIT_MEMORY,
						   .memory_bytes = UINT64_C(64) << 20};

static size_t limit_beyond(union proto_frame *f, int *ret_fd UNUSED)
{
	f->limit = other_limit;
	f->limit.slot = SLOTS;
	return sizeof(f->limit);
}

static size_t limit_nothing(union proto_frame *f, int *ret_fd UNUSED)
{
	f->limit = other_limit;
	f->limit.what = 0;
	return sizeof(f->limit);
}

static size_t limit_unknown(union proto_frame *f, int *ret_fd UNUSED)
{
	f->limit = other_limit;
	f->limit.what |= 8;
	return sizeof(f->limit);
}

static size_t limit_no_memory(union proto_frame *f, int *ret_fd UNUSED)
{
	f->limit = other_limit;
	f->limit.memory_bytes = 4096;
	return sizeof(f->limit);
}

static size_t destroy_flags(union proto_frame *f, int *ret_fd UNUSED)
{
	f->slot =
	    (struct proto_mon_slot){.head = PROTO_HEAD(MON_DESTROY, proto_mon_slot), .flags = 4};
	return sizeof(f->slot);
}

static size_t image_path(union proto_frame *f, int *ret_fd UNUSED)
{
	f->create = good;
	(void)snprintf(f->create.image, sizeof(f->create.image), "../../../etc");
	return sizeof(f->create);
}

/* The name of an image becomes part of a path of the daemon's API. */
static size_t image_api(union proto_frame *f, const char *name)
{
	f->create = good;
	(void)snprintf(f->create.image, sizeof(f->create.image), "%s", name);
	return sizeof(f->create);
}

static size_t image_query(union proto_frame *f, int *ret_fd UNUSED)
{
	return image_api(f, "base/json?all=1&x=");
}

static size_t image_escaped(union proto_frame *f, int *ret_fd UNUSED)
{
	return image_api(f, "base%2f..%2f..%2fcontainers");
}

static size_t image_up(union proto_frame *f, int *ret_fd UNUSED)
{
	return image_api(f, "base/../../containers/caisson");
}

static size_t image_line(union proto_frame *f, int *ret_fd UNUSED)
{
	return image_api(f, "base HTTP/1.1\r\nX: y");
}

static size_t image_option(union proto_frame *f, int *ret_fd UNUSED)
{
	return image_api(f, "--privileged");
}

static size_t image_none(union proto_frame *f, int *ret_fd UNUSED)
{
	return image_api(f, "");
}

static size_t level_beyond(union proto_frame *f, int *ret_fd UNUSED)
{
	f->create = good;
	f->create.level = PROTO_LEVELS_MAX - 1;
	return sizeof(f->create);
}

static size_t image_endless(union proto_frame *f, int *ret_fd UNUSED)
{
	f->create = good;
	memset(f->create.image, 'a', sizeof(f->create.image));
	return sizeof(f->create);
}

static size_t no_limits(union proto_frame *f, int *ret_fd UNUSED)
{
	f->create = good;
	f->create.limits.memory_bytes = UINT64_MAX;
	return sizeof(f->create);
}

static size_t key_path(union proto_frame *f, int *ret_fd UNUSED)
{
	f->create = good;
	(void)snprintf(f->create.persist, sizeof(f->create.persist), "../../etc/shadow");
	return sizeof(f->create);
}

static size_t key_endless(union proto_frame *f, int *ret_fd UNUSED)
{
	f->create = good;
	memset(f->create.persist, 'a', sizeof(f->create.persist));
	return sizeof(f->create);
}

static size_t forget_path(union proto_frame *f, int *ret_fd UNUSED)
{
	f->forget = (struct proto_mon_forget){.head = PROTO_HEAD(MON_FORGET, proto_mon_forget)};
	(void)snprintf(f->forget.persist, sizeof(f->forget.persist), "..");
	return sizeof(f->forget);
}

static size_t forget_option(union proto_frame *f, int *ret_fd UNUSED)
{
	f->forget = (struct proto_mon_forget){.head = PROTO_HEAD(MON_FORGET, proto_mon_forget)};
	(void)snprintf(f->forget.persist, sizeof(f->forget.persist), "-rf");
	return sizeof(f->forget);
}

static size_t forget_nothing(union proto_frame *f, int *ret_fd UNUSED)
{
	f->forget = (struct proto_mon_forget){.head = PROTO_HEAD(MON_FORGET, proto_mon_forget)};
	return sizeof(f->forget);
}

static size_t disk_path(union proto_frame *f, int *ret_fd UNUSED)
{
	f->disk = (struct proto_mon_disk){.head = PROTO_HEAD(MON_DISK, proto_mon_disk)};
	(void)snprintf(f->disk.persist, sizeof(f->disk.persist), "../../etc/shadow");
	return sizeof(f->disk);
}

static size_t disk_odd(union proto_frame *f, int *ret_fd UNUSED)
{
	f->disk = (struct proto_mon_disk){.head = PROTO_HEAD(MON_DISK, proto_mon_disk),
					  .what = PROTO_DISK_MAX_,
					  .persist = "key"};
	return sizeof(f->disk);
}

static size_t disk_endless(union proto_frame *f, int *ret_fd UNUSED)
{
	f->disk = (struct proto_mon_disk){.head = PROTO_HEAD(MON_DISK, proto_mon_disk),
					  .what = PROTO_DISK_NEW,
					  .bytes = UINT64_MAX,
					  .persist = "key"};
	return sizeof(f->disk);
}

static size_t keep_path(union proto_frame *f, int *ret_fd UNUSED)
{
	f->keep = (struct proto_mon_keep){.head = PROTO_HEAD(MON_KEEP, proto_mon_keep)};
	(void)snprintf(f->keep.persist, sizeof(f->keep.persist), "../images/x");
	return sizeof(f->keep);
}

static size_t keep_nobody(union proto_frame *f, int *ret_fd UNUSED)
{
	f->keep = (struct proto_mon_keep){
	    .head = PROTO_HEAD(MON_KEEP, proto_mon_keep), .slot = UINT32_MAX, .persist = "key"};
	return sizeof(f->keep);
}

static size_t no_total(union proto_frame *f, int *ret_fd UNUSED)
{
	f->charged = (struct proto_mon_charged){.head = PROTO_HEAD(MON_CHARGED, proto_mon_charged),
						.bytes = 1};
	return sizeof(f->charged);
}

static size_t helps_itself(union proto_frame *f, int *ret_fd UNUSED)
{
	f->create = good;
	f->create.helper_of = f->create.slot + 1;
	return sizeof(f->create);
}

static size_t helps_nobody(union proto_frame *f, int *ret_fd UNUSED)
{
	f->create = good;
	f->create.helper_of = SLOTS + 1;
	return sizeof(f->create);
}

static size_t descriptor(union proto_frame *f, int *ret_fd)
{
	f->slot = (struct proto_mon_slot){.head = PROTO_HEAD(MON_DESTROY, proto_mon_slot)};
	*ret_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	return sizeof(f->slot);
}

static const struct {
	const char *name;
	size_t (*make)(union proto_frame *f, int *ret_fd);
	bool monitor_only; /* the keeper does not serve it, and says so */
} cases[] = {
    {"garbage", garbage},
    {"one byte", one_byte},
    {"a request with a byte too many", too_long},
    {"an answer instead of a request", wrong_direction},
    {"a message for init", for_init},
    {"a slot that does not exist", slot_beyond},
    {"an interpreter for a slot that does not exist", warm_beyond},
    {"memory charged elsewhere, without a limit on all", no_total, .monitor_only = true},
    {"an unknown flag", destroy_flags},
    {"destroying a slot that does not exist", destroy_beyond},
    {"usage of a slot that does not exist", usage_beyond},
    {"limits of a slot that does not exist", limit_beyond},
    {"a change of no limit", limit_nothing},
    {"a change of an unknown limit", limit_unknown},
    {"a memory limit out of bounds", limit_no_memory},
    {"a path as image", image_path},
    {"an image name without end", image_endless},
    {"an image name with a query", image_query},
    {"an image name with escapes", image_escaped},
    {"an image name that goes up", image_up},
    {"an image name with a line", image_line},
    {"an option as image", image_option},
    {"no image", image_none},
    {"a level of isolation that does not exist", level_beyond},
    {"limits out of bounds", no_limits},
    {"a path as key", key_path},
    {"a key without end", key_endless},
    {"forgetting a path", forget_path},
    {"forgetting what begins like an option", forget_option},
    {"forgetting nothing", forget_nothing},
    {"the file of a disk under a path", disk_path},
    {"something else with the file of a disk", disk_odd},
    {"a disk without end", disk_endless},
    {"keeping under a path", keep_path},
    {"keeping what no slot can have", keep_nobody},
    {"a helper of itself", helps_itself},
    {"a helper of a slot that does not exist", helps_nobody},
    {"an unexpected descriptor", descriptor},
};

static struct engine_config config = {.max_sandboxes = SLOTS};

/* A monitor of our own: the channel to it, or < 0 with E set. */
static int start_monitor(struct err *e)
{
	struct engine *g = NULL;
	int fd = -1;

	if (engine_begin(daemon_url ? "docker" : "native", &config, &g, e) == 0) {
		fd = TAKE_FD(front_engine_of(g)->monitor_fd);
		front_engine_of(g)->monitor_pid = 0; /* it lives on: nobody waits for its end */
	}
	engine_close(g);
	return fd;
}

/* The next message that answers something: the monitor also says by itself how much room the disk has. */
static ssize_t next(int fd, union proto_frame *f, size_t *n)
{
	int fds[FDIO_PASS_MAX];
	ssize_t r;

	do
		r = fd_recv(fd, f, sizeof(*f), fds, n, 0);
	while (r > 0 && (f->head.type == PROTO_MON_SPACE || f->head.type == PROTO_MON_ZYGOTE));
	return r;
}

static int start(void)
{
	union proto_frame f;
	int fds[FDIO_PASS_MAX];
	size_t n;
	struct err e = ERR_INIT;
	int fd = start_monitor(&e);

	expect(fd >= 0, e.text);
	expect(fd_recv(fd, &f, sizeof(f), fds, &n, 0) > 0 && f.head.type == PROTO_MON_HELLO,
	       "hello");
	return fd;
}

static bool has_ended(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	union proto_frame f;
	int fds[FDIO_PASS_MAX];
	size_t n;

	do {
		if (poll(&p, 1, END_WAIT_MS) != 1)
			return false;
		if (fd_recv(fd, &f, sizeof(f), fds, &n, MSG_DONTWAIT) <= 0)
			return true;
	} while (f.head.type == PROTO_MON_SPACE || f.head.type == PROTO_MON_ZYGOTE);
	return false;
}

static void one(size_t i)
{
	static union {
		union proto_frame f;
		char room[sizeof(union proto_frame) + 1];
	} m;
	int pass = -1;
	int fd = start();

	memset(&m, 0, sizeof(m));
	size_t n = cases[i].make(&m.f, &pass);
	expect(fd_send(fd, &m, n, &pass, pass >= 0, 0) == (ssize_t)n, "send");
	if (pass >= 0)
		(void)close(pass);
	expect(has_ended(fd), cases[i].name);
	(void)close(fd);
	(void)printf("ok %d - %s\n", ++number, cases[i].name);
}

/* What is allowed although it looks odd must not end it. */
static void harmless(void)
{
	int fd = start();
	union proto_frame f = {0};
	size_t n;

	f.slot =
	    (struct proto_mon_slot){.head = PROTO_HEAD(MON_DESTROY, proto_mon_slot), .slot = 1};
	expect(fd_send(fd, &f, sizeof(f.slot), NULL, 0, 0) > 0,
	       "send"); /* free: it may have ended by itself */
	f.create = good;
	expect(fd_send(fd, &f, sizeof(f.create), NULL, 0, 0) > 0, "send");
	expect(next(fd, &f, &n) > 0 && f.head.type == PROTO_MON_CREATED && n == 0 &&
		   f.created.step == PROTO_STEP_IMAGE && f.created.errnum == ENOENT,
	       "an image that is not there is an answer, not an end");
	f.slot = (struct proto_mon_slot){.head = PROTO_HEAD(MON_WARM, proto_mon_slot), .slot = 1};
	expect(fd_send(fd, &f, sizeof(f.slot), NULL, 0, 0) > 0, "send");
	expect(next(fd, &f, &n) > 0 && n == 0 &&
		   (daemon_url ? f.head.type == PROTO_MON_UNSUPPORTED &&
				     f.unsupported.type == PROTO_MON_WARM && f.unsupported.of == 1
			       : f.head.type == PROTO_MON_WARMED && f.warmed.slot == 1),
	       "no interpreter for a sandbox that is gone: an answer, not an end");
	(void)close(fd);
	(void)printf("ok %d - harmless requests\n", ++number);
}

/* Why this user can have no monitor on this host; NULL = one starts. */
static const char *unavailable(void)
{
	static struct err e = ERR_INIT;
	int fd = start_monitor(&e);

	if (fd < 0)
		return e.code == ERR_ENGINE_UNAVAILABLE ? e.text : NULL;
	(void)close(fd);
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t as;

	if (argc > 1 && streq(argv[1], "monitor"))
		return cmd_monitor(argc - 1, argv + 1);
	if (argc > 1 && streq(argv[1], "keeper"))
		return cmd_keeper(argc - 1, argv + 1);
	config.state_dir = test_state_dir();
	if (argc == 3 && streq(argv[1], "--as") && geteuid() == 0) {
		expect(parse_u64(argv[2], 1, 65533, &as) == 0 && setgroups(0, NULL) == 0 &&
			   setresgid((gid_t)as, (gid_t)as, (gid_t)as) == 0 &&
			   setresuid((uid_t)as, (uid_t)as, (uid_t)as) == 0,
		       "become a plain user");
	}
	if (argc == 3 && streq(argv[1], "--daemon"))
		config.docker.host = daemon_url = argv[2];
	const char *why = unavailable();
	if (why) {
		(void)printf("1..0 # SKIP %s\n", why);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (!daemon_url || !cases[i].monitor_only)
			one(i);
	harmless();
	(void)printf("1..%d\n", number);
	return 0;
}
