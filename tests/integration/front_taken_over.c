/* SPDX-License-Identifier: Apache-2.0 */
/* A front that an attacker has taken over and that knows the protocol: it makes and ends real sandboxes
 * in any order and number, talks to their init with real descriptors, and at the end sends a request
 * with flipped bits. Another one gives everything that it has to a sandbox, reads no answer, and ends.
 * Whatever it does, its monitor ends with it and leaves nothing on the host, and a sandbox of another
 * front goes on working.
 *
 *   front_taken_over [--as UID] [--seconds N] [--seed N] [--daemon URL]
 *
 * Every round is made from its seed alone, which a failure prints. With --daemon the monitor is the
 * keeper of the engine on containers; who starts this looks at what becomes of the daemon's containers. */
#include "before.h"
#include "engine_client.h"
#include "state_dir.h"

#include "base/fdio.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "engine/front/front.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS        6
#define STEPS        120u   /* of a round */
#define STEPS_DAEMON 40u    /* the same, where a sandbox takes a second */
#define END_WAIT_MS  120000 /* a disk that writes back gigabytes lets an unmount wait */
#define IMAGE        "base"

static struct options {
	uint64_t as;
	uint64_t seconds;
	uint64_t seed;
	const char *daemon; /* NULL: the native engine */
} options = {.seconds = 5};

static struct attacker {
	int monitor;
	int inits[SLOTS]; /* channels to init, -1 = none */
	bool taken[SLOTS];
	uint32_t answers; /* since the beginning of the round */
} a;

static struct outcome o;
static unsigned made, refused; /* sandboxes of all rounds */

/* ---- chance: xorshift64, so that a seed is a whole round ---- */

static uint64_t state;

static uint64_t any(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)(any() % n);
}

/* ---- what it sends ---- */

/* A broken connection is no failure: the monitor may have ended already. */
static void send_frame(int fd, union proto_frame *f, size_t n, const int *fds, size_t n_fds)
{
	(void)!fd_send(fd, f, n, fds, n_fds, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void create(void)
{
	static const char *const keys[] = {"", "", "", "first", "second", "0-0"};
	union proto_frame f = {0};
	uint32_t slot = below(SLOTS);

	if (a.taken[slot]) /* a request for a slot that is taken would end the monitor */
		return;
	f.create = (struct proto_mon_create){
	    .head = PROTO_HEAD(MON_CREATE, proto_mon_create),
	    .slot = slot,
	    .warm = below(2),
	    .egress = below(2),
	    .limits = {.memory_bytes = (uint64_t)(8 + below(56)) << 20,
		       .workspace_bytes = (uint64_t)(1 + below(4)) << 20,
		       .tmp_bytes = PROTO_DISK_MIN + any() % (1 << 20),
		       .cpu_milli = PROTO_CPU_MIN + below(2000),
		       .pids = PROTO_PIDS_MIN + below(32),
		       .workspace_inodes = PROTO_INODES_MIN + below(100),
		       .nofile = PROTO_NOFILE_MIN + below(64)},
	};
	(void)!text_copy(f.create.image, sizeof(f.create.image),
			 below(8) ? IMAGE : "no-such-image");
	(void)!text_copy(f.create.persist, sizeof(f.create.persist), keys[below(ARRAY_SIZE(keys))]);
	if (!f.create.persist[0] && below(3) == 0) {
		uint32_t whom = below(SLOTS);
		f.create.helper_of = whom == slot ? 0 : whom + 1;
	}
	a.taken[slot] = true;
	send_frame(a.monitor, &f, sizeof(f.create), NULL, 0);
}

static void slot_request(enum proto_type type, uint32_t flags)
{
	union proto_frame f = {0};

	f.slot = (struct proto_mon_slot){
	    .head = {.type = type, .size = sizeof(f.slot)}, .slot = below(SLOTS), .flags = flags};
	send_frame(a.monitor, &f, sizeof(f.slot), NULL, 0);
}

static void destroy(void)
{
	slot_request(PROTO_MON_DESTROY, below(4));
}

static void warm(void)
{
	slot_request(PROTO_MON_WARM, 0);
}

static void usage(void)
{
	slot_request(PROTO_MON_USAGE, below(UINT32_MAX));
}

static void limit(void)
{
	union proto_frame f = {0};

	f.limit = (struct proto_mon_limit){.head = PROTO_HEAD(MON_LIMIT, proto_mon_limit),
					   .slot = below(SLOTS),
					   .what = 1 + below(PROTO_LIMIT_ALL),
					   .memory_bytes = PROTO_MEMORY_MIN + any() % (64 << 20),
					   .cpu_milli = PROTO_CPU_MIN + below(2000),
					   .pids = PROTO_PIDS_MIN + below(32)};
	send_frame(a.monitor, &f, sizeof(f.limit), NULL, 0);
}

static void forget(void)
{
	static const char *const keys[] = {"first", "second", "0-0", "never-made"};
	union proto_frame f = {0};

	f.forget = (struct proto_mon_forget){.head = PROTO_HEAD(MON_FORGET, proto_mon_forget),
					     .seq = below(100)};
	(void)!text_copy(f.forget.persist, sizeof(f.forget.persist), keys[below(ARRAY_SIZE(keys))]);
	send_frame(a.monitor, &f, sizeof(f.forget), NULL, 0);
}

static void keep(void)
{
	static const char *const keys[] = {"first", "kept", "0-0"};
	union proto_frame f = {0};

	f.keep = (struct proto_mon_keep){.head = PROTO_HEAD(MON_KEEP, proto_mon_keep),
					 .slot = below(SLOTS)};
	(void)!text_copy(f.keep.persist, sizeof(f.keep.persist), keys[below(ARRAY_SIZE(keys))]);
	send_frame(a.monitor, &f, sizeof(f.keep), NULL, 0);
}

static void disk(void)
{
	static const char *const keys[] = {"first", "kept", "0-0", "never-made"};
	union proto_frame f = {0};

	f.disk = (struct proto_mon_disk){.head = PROTO_HEAD(MON_DISK, proto_mon_disk),
					 .seq = below(100),
					 .what = below(PROTO_DISK_MAX_)};
	f.disk.bytes = f.disk.what == PROTO_DISK_NEW ? any() % PROTO_DISK_MAX : 0;
	(void)!text_copy(f.disk.persist, sizeof(f.disk.persist), keys[below(ARRAY_SIZE(keys))]);
	send_frame(a.monitor, &f, sizeof(f.disk), NULL, 0);
}

/* A descriptor of a kind that nobody expects. */
static int odd_descriptor(void)
{
	int p[2];

	switch (below(5)) {
	case 0:
		return open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	case 1:
		return memfd_create("odd", MFD_CLOEXEC);
	case 2:
		return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	case 3:
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	default:
		if (pipe2(p, O_CLOEXEC) < 0)
			return -1;
		(void)close(p[0]);
		return p[1];
	}
}

/* To an init: a run with descriptors that are none of those that it needs, or any bytes. */
static void to_init(void)
{
	union proto_frame f = {0};
	int fds[PROTO_FDS_MAX] = {0};
	size_t n = 0;
	int init = a.inits[below(SLOTS)];

	if (init < 0)
		return;
	if (below(2)) {
		f.run = (struct proto_init_run){.head = PROTO_HEAD(INIT_RUN, proto_init_run),
						.run = 1 + below(3),
						.kind = below(5),
						.fds = below(32),
						.argc = below(4),
						.envc = below(4),
						.args_size = below(4096),
						.warm = below(4),
						.timeout_ns = any()};
		for (; n < below(PROTO_FDS_MAX); n++)
			if ((fds[n] = odd_descriptor()) < 0)
				break;
		send_frame(init, &f, sizeof(f.run), fds, n);
	} else {
		for (size_t i = 0; i < sizeof(f) / sizeof(uint64_t); i++)
			((uint64_t *)(void *)&f)[i] = any();
		send_frame(init, &f, 1 + below(sizeof(f)), NULL, 0);
	}
	while (n > 0)
		(void)close(fds[--n]);
}

static void hang_up(void)
{
	uint32_t slot = below(SLOTS);

	a.inits[slot] = fd_close(a.inits[slot]);
}

/* ---- what it hears ---- */

static void take_answer(const union proto_frame *f, int *fds, size_t n)
{
	uint32_t slot = f->slot.slot;

	if (f->head.type == PROTO_MON_SPACE ||
	    f->head.type == PROTO_MON_ZYGOTE) /* what the monitor says by itself */
		return;
	a.answers++;
	if (f->head.type == PROTO_MON_CREATED && slot < SLOTS && n > 0) {
		(void)fd_close(a.inits[slot]);
		a.inits[slot] = TAKE_FD(fds[0]);
		made++;
	} else if (f->head.type == PROTO_MON_CREATED && slot < SLOTS) {
		a.taken[slot] = false;
		refused++;
	} else if (f->head.type == PROTO_MON_GONE && slot < SLOTS) {
		a.taken[slot] = false;
		a.inits[slot] = fd_close(a.inits[slot]);
	}
}

/* Reads what is there, and waits up to MS for the first. False: the monitor has ended. */
static bool listen_for(int ms)
{
	struct pollfd p = {.fd = a.monitor, .events = POLLIN};
	union proto_frame f;
	int fds[FDIO_PASS_MAX];
	size_t n;

	while (poll(&p, 1, ms) == 1) {
		ssize_t r = fd_recv(a.monitor, &f, sizeof(f), fds, &n, MSG_DONTWAIT);
		if (r <= 0)
			return r == -EAGAIN;
		take_answer(&f, fds, n);
		fd_close_many(fds, n);
		ms = 0;
	}
	return true;
}

/* The last request: a good one with some bits flipped, a wrong length, or a descriptor. */
static void last_request(void)
{
	union proto_frame f = {0};
	int fd = below(2) ? odd_descriptor() : -1;
	size_t n = sizeof(f.create);

	f.create = (struct proto_mon_create){.head = PROTO_HEAD(MON_CREATE, proto_mon_create),
					     .limits = {.memory_bytes = 64 << 20,
							.workspace_bytes = 1 << 20,
							.tmp_bytes = 1 << 20,
							.cpu_milli = 1000,
							.pids = 32,
							.workspace_inodes = 100,
							.nofile = 64},
					     .image = IMAGE};
	for (uint32_t i = below(8); i > 0; i--)
		((unsigned char *)&f)[below((uint32_t)n)] ^= (unsigned char)(1U << below(8));
	if (below(4) == 0)
		n = 1 + below(sizeof(f));
	send_frame(a.monitor, &f, n, &fd, fd >= 0);
	(void)fd_close(fd);
}

/* ---- a round ---- */

static const struct step {
	uint32_t weight;
	void (*fn)(void);
} steps[] = {{8, create},  {6, destroy}, {3, warm},  {2, usage}, {2, forget},
	     {6, to_init}, {2, hang_up}, {2, limit}, {2, keep},  {2, disk}};

static uint32_t steps_of_round(void)
{
	return options.daemon ? STEPS_DAEMON : STEPS;
}

static void one_step(void)
{
	uint32_t sum = 0;
	size_t i = 0;

	for (i = 0; i < ARRAY_SIZE(steps); i++)
		sum += steps[i].weight;
	uint32_t pick = below(sum);
	for (i = 0; pick >= steps[i].weight; i++)
		pick -= steps[i].weight;
	steps[i].fn();
}

static const char *engine(void)
{
	return options.daemon ? "docker" : "native";
}

static struct engine_config config_of(const char *dir, uint32_t slots)
{
	return (struct engine_config){
	    .state_dir = dir, .max_sandboxes = slots, .docker = {.host = options.daemon}};
}

static void begin_round(const char *dir)
{
	struct engine_config config = config_of(dir, SLOTS);
	struct engine *g = NULL;

	config.warm = true;

	a = (struct attacker){.monitor = -1};
	memset(a.inits, -1, sizeof(a.inits));
	o = (struct outcome){.fd = -1};
	EXPECT_OF(&o, engine_begin(engine(), &config, &g, &o.e) == 0);
	a.monitor = TAKE_FD(front_engine_of(g)->monitor_fd);
	front_engine_of(g)->monitor_pid = 0; /* it lives on: nobody waits for its end here */
	engine_close(g);
	EXPECT(listen_for(END_WAIT_MS) && a.answers == 1); /* MON_HELLO */
}

static void end_round(void)
{
	struct pollfd p = {.fd = a.monitor, .events = POLLIN};

	for (size_t i = 0; i < SLOTS; i++)
		a.inits[i] = fd_close(a.inits[i]);
	/* The monitor ends when it cannot be written to any more; it must not wait for an answer. */
	EXPECT(shutdown(a.monitor, SHUT_WR) == 0 || errno == ENOTCONN);
	while (listen_for(END_WAIT_MS))
		EXPECT(poll(&p, 1, END_WAIT_MS) == 1);
	a.monitor = fd_close(a.monitor);
}

static void check_victim(struct client *c, struct engine_sandbox *victim)
{
	run_python(c, victim, "print(open('mine').read())", 60000, &o);
	EXPECT_OF(&o, o.have_result && o.result.exit_code == 0 && streq(o.out, "untouched\n"));
}

static void one_round(const char *dir, uint64_t seed)
{
	const struct before before = before_look(dir);
	char group[64];
	bool up = true;

	state = seed * 2 + 1;
	begin_round(dir);
	before_group_of_newest(group);
	for (uint32_t i = 0; i < steps_of_round() && up; i++) {
		one_step();
		up = listen_for(below(3) ? 0 : (int)below(options.daemon ? 500 : 30));
	}
	EXPECT(up); /* nothing of this is refused */
	last_request();
	end_round();
	before_expect_again(&before, group, dir);
}

/* ---- a front that gives itself away ---- */

static struct engine_sandbox *make_victim(struct client *c, const char *dir);

/* Every socket that this process has, on its way to whoever reads *RET. */
static void pack_sockets(int *ret)
{
	union proto_frame f = {0};
	int pair[2];
	int fds[FDIO_PASS_MAX];
	size_t n = 0, all = 0;

	EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	for (int fd = 3; fd < 64; fd++) {
		int type;
		socklen_t len = sizeof(type);
		if (fd == pair[0] || fd == pair[1] ||
		    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0)
			continue;
		fds[n++] = fd;
		all++;
		if (n == 2) {
			EXPECT(fd_send(pair[0], &f, 1, fds, n, 0) == 1);
			n = 0;
		}
	}
	EXPECT(n == 0 || fd_send(pair[0], &f, 1, fds, n, 0) == 1);
	EXPECT(all >= 2); /* the monitor's channel, and that of an init */
	*ret = pair[1];
}

/* Asks until the monitor waits for its reader. */
static void flood(int monitor)
{
	struct pollfd p = {.fd = monitor, .events = POLLOUT};
	union proto_frame f = {0};

	f.slot = (struct proto_mon_slot){.head = PROTO_HEAD(MON_USAGE, proto_mon_slot)};
	while (poll(&p, 1, 1000) == 1)
		send_frame(monitor, &f, sizeof(f.slot), NULL, 0);
}

NORETURN static void give_and_end(const char *dir)
{
	static const char code[] = "print('here', flush=True)\nimport time\ntime.sleep(600)";
	struct engine_run_spec spec = {
	    .kind = ENGINE_RUN_PYTHON, .code = code, .code_len = sizeof(code) - 1};
	struct client c = {0};
	struct engine_sandbox *s = make_victim(&c, dir);
	const uint64_t until = now_ns() + END_WAIT_MS * NS_PER_MS;

	pack_sockets(&spec.stdin_fd);
	EXPECT_OF(&o, start_run(s, &spec, &o) != NULL);
	while (o.out_len == 0 && now_ns() < until)
		EXPECT_OF(&o, !o.done && sd_event_run(c.loop, 100000) >= 0);
	EXPECT_OF(&o, o.out_len > 0);
	flood(front_engine_of(c.engine)->monitor_fd);
	_exit(0);
}

/* What the sandbox has keeps no channel of the front open: the monitor sees that the front itself has ended. */
static void given_away(const char *dir)
{
	const struct before before = before_look(dir);
	int status;
	const pid_t front = fork();

	EXPECT(front >= 0);
	if (front == 0)
		give_and_end(dir);
	EXPECT(waitpid(front, &status, 0) == front && status == 0);
	before_expect_again(&before, "", dir);
}

/* ---- the program ---- */

static void parse_options(int argc, char **argv)
{
	options.seed = now_ns() % 1000000;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (streq(argv[i], "--daemon")) {
			options.daemon = argv[i + 1];
			continue;
		}
		uint64_t *to = streq(argv[i], "--as")        ? &options.as
			       : streq(argv[i], "--seconds") ? &options.seconds
			       : streq(argv[i], "--seed")    ? &options.seed
							     : NULL;
		EXPECT(to && parse_u64(argv[i + 1], 0, UINT32_MAX, to) == 0);
	}
}

/* A state folder of its own whose images are the others'. This process goes on as a child; its parent
 * removes the folder. */
static void make_state(char dir[64])
{
	char images[4200];
	char link[128];
	int status;

	(void)snprintf(dir, 64, "/tmp/caisson-taken-XXXXXX");
	EXPECT(mkdtemp(dir) != NULL);
	(void)snprintf(images, sizeof(images), "%s/images", test_state_dir());
	(void)snprintf(link, sizeof(link), "%s/images", dir);
	EXPECT(symlink(images, link) == 0);
	pid_t child = fork();
	EXPECT(child >= 0);
	if (child == 0)
		return;
	EXPECT(waitpid(child, &status, 0) == child);
	if (fork() == 0)
		(void)execl("/bin/rm", "rm", "-rf", dir, NULL);
	(void)wait(NULL);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static struct engine_sandbox *make_victim(struct client *c, const char *dir)
{
	const struct engine_config config = config_of(dir, 2);

	o = (struct outcome){.fd = -1};
	EXPECT(sd_event_new(&c->loop) >= 0);
	EXPECT_OF(&o, engine_begin(engine(), &config, &c->engine, &o.e) == 0);
	EXPECT_OF(&o, engine_open(c->engine, c->loop, &o.e) == 0);
	struct engine_sandbox *s = make_sandbox(c, IMAGE, &default_limits, &o);
	EXPECT_OF(&o, s != NULL);
	EXPECT(put_text(c, s, "mine", "untouched", false) == ERR_NONE);
	return s;
}

int main(int argc, char **argv)
{
	struct client c = {0};
	char dir[64];
	unsigned rounds = 0;

	if (argc > 1 && streq(argv[1], "monitor"))
		return cmd_monitor(argc - 1, argv + 1);
	if (argc > 1 && streq(argv[1], "keeper"))
		return cmd_keeper(argc - 1, argv + 1);
	parse_options(argc, argv);
	if (!begin_tests(test_state_dir(), IMAGE, options.as))
		return 0;
	make_state(dir);
	EXPECT(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
	/* Root has mounts of its own, so that what other programs mount meanwhile is not counted. */
	if (geteuid() == 0)
		EXPECT(unshare(CLONE_NEWNS) == 0 &&
		       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	struct engine_sandbox *victim = make_victim(&c, dir);
	given_away(dir);
	check_victim(&c, victim);
	uint64_t end = now_ns() + options.seconds * NS_PER_S;
	do {
		(void)printf("# round of seed %ju\n", (uintmax_t)(options.seed + rounds));
		(void)fflush(stdout);
		one_round(dir, options.seed + rounds++);
		check_victim(&c, victim);
	} while (now_ns() < end);
	end_sandbox(&c, victim);
	engine_close(c.engine);
	(void)sd_event_unref(c.loop);
	EXPECT(made > rounds / 2); /* otherwise little was attacked; a busy machine makes fewer */
	(void)printf(
	    "ok 1 - %u rounds of %u steps, %u sandboxes made, %u not, left nothing\n1..1\n", rounds,
	    steps_of_round(), made, refused);
	return 0;
}
