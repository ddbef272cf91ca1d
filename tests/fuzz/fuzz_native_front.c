/* SPDX-License-Identifier: Apache-2.0 */
/* A front whose init is hostile, and whose monitor is broken: a fake monitor makes one sandbox and
 * owes the answer for a second one, and the input is what "init" and the monitor send. Each message
 * of the input: one byte of kind (who speaks, and the type of message, or raw), one of descriptors,
 * then bytes. Whatever comes, the front must neither crash nor wait, nor keep a descriptor. */
#include "base/fdio.h"
#include "base/log.h"
#include "base/text.h"
#include "descriptors.h"
#include "engine/engine.h"
#include "engine/engine_names.h"
#include "engine/front/front.h"
#include "engine/maker/native/native.h"
#include "engine/protocol/proto.h"
#include "fuzz.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define SLOTS 3

struct world {
	sd_event *loop;
	struct engine *engine;
	int monitor; /* the fake's end */
	int init;
	struct engine_sandbox *sandbox;
};

static void on_created(struct engine_sandbox *s, const struct engine_policy *p UNUSED,
		       const struct err *e UNUSED, void *user)
{
	((struct world *)user)->sandbox = s;
}

static void on_output(struct engine_run *r UNUSED, enum engine_stream s UNUSED,
		      const void *data UNUSED, size_t len UNUSED, void *user UNUSED)
{
}

static void on_run(struct engine_run *r UNUSED, const struct engine_run_result *res UNUSED,
		   const struct err *e UNUSED, void *user UNUSED)
{
}

static void on_fd(int fd, const struct err *e UNUSED, void *user UNUSED)
{
	if (fd >= 0)
		(void)close(fd);
}

static void on_done(const struct err *e UNUSED, void *user UNUSED)
{
}

static void on_stat(const struct engine_stat *st UNUSED, const struct err *e UNUSED,
		    void *user UNUSED)
{
}

static void on_list(const struct engine_file *files UNUSED, size_t n UNUSED, bool more UNUSED,
		    const struct err *e UNUSED, void *user UNUSED)
{
}

static void on_usage(const struct engine_usage *u UNUSED, const struct err *e UNUSED,
		     void *user UNUSED)
{
}

static void turn(struct world *w)
{
	while (sd_event_run(w->loop, 0) > 0)
		;
}

static void on_second(struct engine_sandbox *s UNUSED, const struct engine_policy *p UNUSED,
		      const struct err *e UNUSED, void *user UNUSED)
{
}

static const struct engine_create create = {
    .image = "x",
    .warm = true,
    .limits = {.memory_bytes = 1 << 30,
	       .cpu_milli = 1000,
	       .pids = 10,
	       .workspace_bytes = 1 << 20,
	       .workspace_inodes = 100,
	       .tmp_bytes = 1 << 20,
	       .nofile = 64},
};

/* The first sandbox, in slot 0, is ready. */
static bool make_sandbox(struct world *w)
{
	const struct proto_mon_created created = {.head =
						      PROTO_HEAD(MON_CREATED, proto_mon_created)};
	const struct proto_init_ready ready = {.head = PROTO_HEAD(INIT_READY, proto_init_ready)};
	struct err e = ERR_INIT;
	int chan[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, chan) < 0)
		return false;
	w->init = chan[1];
	const bool made = engine_create(w->engine, &create, on_created, w, &e) == 0 &&
			  fd_send(w->monitor, &created, sizeof(created), &chan[0], 1, 0) > 0 &&
			  fd_send(w->init, &ready, sizeof(ready), NULL, 0, 0) > 0;
	(void)close(chan[0]);
	turn(w);
	return made && w->sandbox;
}

static bool build(struct world *w)
{
	int pair[2];
	struct err e = ERR_INIT;
	const struct proto_mon_hello hello = {.head = PROTO_HEAD(MON_HELLO, proto_mon_hello),
					      .version = PROTO_VERSION,
					      .slots = SLOTS};

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ||
	    sd_event_new(&w->loop) < 0)
		return false;
	w->monitor = pair[1];
	w->engine = engine_new(&native_ops);
	if (!w->engine)
		return false;
	front_init(front_engine_of(w->engine), &(struct engine_config){0});
	front_engine_of(w->engine)->monitor_fd = pair[0];
	if (engine_levels_read("", "", "", &w->engine->levels, &e) < 0)
		return false;
	return fd_send(w->monitor, &hello, sizeof(hello), NULL, 0, 0) > 0 &&
	       engine_open(w->engine, w->loop, &e) == 0 && make_sandbox(w);
}

static void on_checkpoint(const struct engine_checkpoint *p UNUSED, const struct err *e UNUSED,
			  void *user UNUSED)
{
}

/* A run (or a checkpoint) and one question of each kind, so that every answer has somebody who waits for
 * it. */
static void ask(struct world *w, bool checkpoint)
{
	struct err e = ERR_INIT;
	struct engine_run *r;
	struct engine_run_spec spec = {.kind = ENGINE_RUN_PYTHON,
				       .code = "1",
				       .code_len = 1,
				       .stdin_fd = -1,
				       .on_output = on_output,
				       .on_done = on_run};
	uint32_t put = 0;

	if (checkpoint) /* never beside a run */
		(void)!engine_save_checkpoint(w->sandbox, 0, on_checkpoint, NULL, &e);
	else
		(void)!engine_run(w->sandbox, &spec, &r, &e);
	(void)!engine_open_file(w->sandbox, "a", on_fd, NULL, &e);
	(void)!engine_put_file(w->sandbox, "b", true, &put, on_fd, NULL, &e);
	(void)!engine_list_files(w->sandbox, "/tmp", on_list, NULL, &e);
	(void)!engine_commit_file(w->sandbox, put, "b", true, true, on_done, NULL, &e);
	(void)!engine_usage(w->sandbox, on_usage, NULL, &e);
	struct engine_limits limits = create.limits;
	limits.memory_bytes /= 2;
	(void)!engine_change(w->sandbox, &limits, on_done, NULL, &e);
	(void)!engine_create(w->engine, &create, on_second, NULL, &e);
	(void)!engine_keep(w->sandbox, "kept", on_done, NULL, &e);
	(void)!engine_forget(w->engine, "key", on_done, NULL, &e);
	(void)!engine_stat_file(w->sandbox, "/", on_stat, NULL, &e);
	(void)!engine_set_attributes(w->sandbox, "f", "user.a\0b", sizeof("user.a\0b"), on_done,
				     NULL, &e);
	(void)!engine_make_folder(w->sandbox, "c", 0, on_done, NULL, &e);
	(void)!engine_move_file(w->sandbox, "c", "d", false, on_done, NULL, &e);
}

enum { FROM_MONITOR = 128, RAW = 64 }; /* bits of the kind */

static const struct proto_head *head_of(unsigned kind)
{
	static const struct proto_head from_init[] = {
	    PROTO_HEAD(INIT_READY, proto_init_ready),
	    PROTO_HEAD(INIT_FAILED, proto_init_failed),
	    PROTO_HEAD(INIT_ENDED, proto_init_ended),
	    PROTO_HEAD(INIT_FILED, proto_init_filed),
	    PROTO_HEAD(INIT_CHECKPOINTED, proto_init_checkpointed),
	    PROTO_HEAD(INIT_COLD, proto_init_cold)};
	static const struct proto_head from_monitor[] = {
	    PROTO_HEAD(MON_CREATED, proto_mon_created),
	    PROTO_HEAD(MON_GONE, proto_mon_gone),
	    PROTO_HEAD(MON_USED, proto_mon_used),
	    PROTO_HEAD(MON_FORGOTTEN, proto_mon_forgotten),
	    PROTO_HEAD(MON_WARMED, proto_mon_warmed),
	    PROTO_HEAD(MON_HELLO, proto_mon_hello),
	    PROTO_HEAD(MON_LIMITED, proto_mon_limited),
	    PROTO_HEAD(MON_UNSUPPORTED, proto_mon_unsupported),
	    PROTO_HEAD(MON_SPACE, proto_mon_space),
	    PROTO_HEAD(MON_ZYGOTE, proto_mon_zygote),
	    PROTO_HEAD(MON_KEPT, proto_mon_kept)};

	return kind & FROM_MONITOR ? &from_monitor[kind % RAW % ARRAY_SIZE(from_monitor)]
				   : &from_init[kind % RAW % ARRAY_SIZE(from_init)];
}

/* A descriptor to send along: a file, one that can be read without end, or a channel. */
static int make_fd(unsigned how)
{
	int fd;

	if (how & 32U)
		return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (how & 64U)
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	fd = memfd_create("x", MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, how * 64) < 0)
		abort();
	return fd;
}

static size_t send_one(struct world *w, const uint8_t *data, size_t size)
{
	union proto_frame f = {0};
	int fds[FDIO_PASS_MAX];
	const int to = data[0] & FROM_MONITOR ? w->monitor : w->init;
	size_t n_fds = data[1] % 4;
	size_t n = MIN(size - 2, sizeof(f));
	size_t send = n;

	memcpy(&f, data + 2, n);
	if (!(data[0] & RAW)) { /* a plausible head */
		f.head = *head_of(data[0]);
		send = f.head.size;
		n = MIN(n, send);
	}
	for (size_t i = 0; i < n_fds; i++)
		fds[i] = make_fd(data[1]);
	if (fd_send(to, &f, send, fds, n_fds, MSG_DONTWAIT) < 0)
		turn(w);
	fd_close_many(fds, n_fds);
	return n + 2;
}

int fuzz_native_front(const uint8_t *data, size_t size)
{
	struct world w = {.monitor = -1, .init = -1};
	const size_t before = fuzz_count_descriptors();

	log_change(LOG_LEVEL_ERROR, LOG_FORMAT_CONSOLE); /* figures that are lies are warned of */
	if (!build(&w))
		abort();
	ask(&w, size > 0 && (data[size - 1] & 1));
	while (size > 2 && w.engine) {
		size_t used = send_one(&w, data, size);
		turn(&w);
		data += used;
		size -= used;
	}
	turn(&w);
	(void)close(w.monitor);
	(void)close(w.init);
	engine_close(w.engine);
	(void)sd_event_unref(w.loop);
	ASSERT(fuzz_count_descriptors() == before);
	return 0;
}
