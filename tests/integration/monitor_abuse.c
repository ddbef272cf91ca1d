/* SPDX-License-Identifier: Apache-2.0 */
/* A front that went bad: whatever it sends to the monitor that is not an allowed request ends the
 * monitor (and with it all sandboxes) at once, and the host is as before.
 *
 *   monitor_abuse [--as UID] */
#include "state_dir.h"

#include "base/fdio.h"
#include "base/parse.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "engine/inside/proto.h"
#include "engine/native/front/front.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define SLOTS       4
#define END_WAIT_MS 20000 /* it is there at once but on a machine that is very busy */

static int number;

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

static size_t no_total(union proto_frame *f, int *ret_fd UNUSED)
{
	f->elsewhere = (struct proto_mon_elsewhere){
	    .head = PROTO_HEAD(MON_ELSEWHERE, proto_mon_elsewhere), .bytes = 1};
	return sizeof(f->elsewhere);
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
} cases[] = {
    {"garbage", garbage},
    {"one byte", one_byte},
    {"a request with a byte too many", too_long},
    {"an answer instead of a request", wrong_direction},
    {"a message for init", for_init},
    {"a slot that does not exist", slot_beyond},
    {"an interpreter for a slot that does not exist", warm_beyond},
    {"memory charged elsewhere, without a limit on all", no_total},
    {"an unknown flag", destroy_flags},
    {"destroying a slot that does not exist", destroy_beyond},
    {"usage of a slot that does not exist", usage_beyond},
    {"limits of a slot that does not exist", limit_beyond},
    {"a change of no limit", limit_nothing},
    {"a change of an unknown limit", limit_unknown},
    {"a memory limit out of bounds", limit_no_memory},
    {"a path as image", image_path},
    {"an image name without end", image_endless},
    {"limits out of bounds", no_limits},
    {"a path as key", key_path},
    {"a key without end", key_endless},
    {"forgetting a path", forget_path},
    {"forgetting what begins like an option", forget_option},
    {"forgetting nothing", forget_nothing},
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

	if (engine_begin("native", &config, &g, e) == 0) {
		fd = TAKE_FD(native_engine_of(g)->monitor_fd);
		native_engine_of(g)->monitor_pid = 0; /* it lives on: nobody waits for its end */
	}
	engine_close(g);
	return fd;
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

	return poll(&p, 1, END_WAIT_MS) == 1 &&
	       fd_recv(fd, &f, sizeof(f), fds, &n, MSG_DONTWAIT) <= 0;
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
	int fds[FDIO_PASS_MAX];
	size_t n;

	f.slot =
	    (struct proto_mon_slot){.head = PROTO_HEAD(MON_DESTROY, proto_mon_slot), .slot = 1};
	expect(fd_send(fd, &f, sizeof(f.slot), NULL, 0, 0) > 0,
	       "send"); /* free: it may have ended by itself */
	f.create = good;
	expect(fd_send(fd, &f, sizeof(f.create), NULL, 0, 0) > 0, "send");
	expect(fd_recv(fd, &f, sizeof(f), fds, &n, 0) > 0 && f.head.type == PROTO_MON_CREATED &&
		   n == 0 && f.created.step == PROTO_STEP_IMAGE && f.created.errnum == ENOENT,
	       "an image that is not there is an answer, not an end");
	f.slot = (struct proto_mon_slot){.head = PROTO_HEAD(MON_WARM, proto_mon_slot), .slot = 1};
	expect(fd_send(fd, &f, sizeof(f.slot), NULL, 0, 0) > 0, "send");
	expect(fd_recv(fd, &f, sizeof(f), fds, &n, 0) > 0 && f.head.type == PROTO_MON_WARMED &&
		   n == 0 && f.warmed.slot == 1,
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
	config.state_dir = test_state_dir();
	if (argc == 3 && streq(argv[1], "--as") && geteuid() == 0) {
		expect(parse_u64(argv[2], 1, 65533, &as) == 0 && setgroups(0, NULL) == 0 &&
			   setresgid((gid_t)as, (gid_t)as, (gid_t)as) == 0 &&
			   setresuid((uid_t)as, (uid_t)as, (uid_t)as) == 0,
		       "become a plain user");
	}
	const char *why = unavailable();
	if (why) {
		(void)printf("1..0 # SKIP %s\n", why);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		one(i);
	harmless();
	(void)printf("1..%d\n", number);
	return 0;
}
