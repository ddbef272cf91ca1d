/* SPDX-License-Identifier: Apache-2.0 */
/* The life of one sandbox in the keeper.
 *
 *   FREE -> (WAITING ->) LOOKING -> MAKING -> STARTING -> AWAITED -> UP -> REMOVING -> EMPTYING -> FREE
 *               any state before UP -------------------------> REMOVING
 *
 * Each arrow but AWAITED -> UP is one call of the daemon, and at most one call of a cell is under way
 * (EMPTYING: one for each volume). When the front asks for the end during a call, the cell goes on to
 * REMOVING when that call is answered. Init may connect before the daemon has said that the container
 * is started. */
#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/docker/keeper/keeper.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#define AWAIT_NS  (20 * NS_PER_S)
#define OOM_SCORE 800u /* of runs: the kernel ends them before init */

static const char *const volumes[] = {"data", "venv"};

static void remove_cell(struct cell *b);

/* ---- answers to the front ---- */

static void tell_failed(struct cell *b, uint32_t step, int errnum)
{
	struct proto_mon_created m = {.head = PROTO_HEAD(MON_CREATED, proto_mon_created),
				      .slot = b->slot,
				      .step = step,
				      .errnum = errnum};

	keeper_send(b->keeper, &m.head, NULL, 0);
	b->told = b->ended = true;
}

/* The slot of a sandbox that was refused is free for the front at once; so the cell must not be in the
 * way of the next one. What is left of it goes to the debris. */
static void forget(struct cell *b)
{
	struct keeper *k = b->keeper;
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/cells/%s/socket", k->folder, b->name);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s/cells/%s", k->folder, b->name);
	(void)rmdir(path);
	b->listener = fd_close(b->listener);
	b->channel = fd_close(b->channel);
	b->lock = fd_close(b->lock);
	counters_close(b);
	const uint32_t slot = b->slot;
	*b = (struct cell){.slot = slot,
			   .keeper = k,
			   .listener = -1,
			   .channel = -1,
			   .lock = -1,
			   .memory = -1,
			   .memory_stat = -1,
			   .cpu = -1,
			   .pids = -1};
}

static void tell_gone(struct cell *b)
{
	struct proto_mon_gone m = {
	    .head = PROTO_HEAD(MON_GONE, proto_mon_gone), .slot = b->slot, .cpu_ns = b->cpu_ns};

	forget(b);
	keeper_send(b->keeper, &m.head, NULL, 0);
}

/* It could not be made: the front hears why, and its container goes without the front. */
static void fail(struct cell *b, struct container_fault f)
{
	if (b->state >= CELL_MAKING)
		debris_add(b->keeper, b->name);
	if (!b->told)
		tell_failed(b, f.step, f.errnum);
	forget(b);
}

/* ---- init ---- */

static int listen_at(struct keeper *k, struct cell *b)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	char path[PATH_MAX];

	/* Nobody but root enters the parent folder on the host. In the container, the mount begins
	 * below it. */
	(void)snprintf(path, sizeof(path), "%s/cells/%s", k->folder, b->name);
	if (mkdir(path, 0711) < 0)
		return -errno;
	/* sun_path is short: the folder is reached through a descriptor. */
	_cleanup_fd_ int dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/socket", dir);
	_cleanup_fd_ int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (sock < 0 || bind(sock, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    fchmodat(dir, "socket", 0666, 0) < 0 || listen(sock, 1) < 0)
		return -errno;
	b->listener = TAKE_FD(sock);
	return 0;
}

/* A file system in memory that is mounted nowhere, for the files of checkpoints. -1 = not possible
 * here; the sandbox works without checkpoints then. */
static int make_store(const struct keeper *k, const struct cell *b)
{
	const struct proto_limits *l = &b->c.limits;
	const bool mapped = k->about.userns;
	char size[32], inodes[16], id[16];
	_cleanup_fd_ int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);

	(void)snprintf(size, sizeof(size), "%llu",
		       (unsigned long long)MIN(l->workspace_bytes, l->memory_bytes));
	(void)snprintf(inodes, sizeof(inodes), "%u", l->workspace_inodes);
	(void)snprintf(id, sizeof(id), "%u", mapped ? 0 : KEEPER_UID);
	const char *const options[][2] = {{"size", size},
					  {"nr_inodes", inodes},
					  {"mode", mapped ? "777" : "700"},
					  {"uid", id},
					  {"gid", id}};
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, options[i][0],
				      options[i][1], 0) < 0)
			return -1;
	if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC,
			    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

static int configure(struct cell *b)
{
	const struct keeper *k = b->keeper;
	struct proto_init_config c = {
	    .head = PROTO_HEAD(INIT_CONFIG, proto_init_config),
	    .limits = b->c.limits,
	    .fds = (b->c.egress ? PROTO_CONFIG_EGRESS : 0u) |
		   (b->stored ? PROTO_CONFIG_FOLDER | PROTO_CONFIG_STORED : 0u) |
		   (b->c.warm && k->config->warm ? PROTO_CONFIG_ZYGOTE : 0u),
	    .poll_memory = b->uncounted || !(k->about.enforced & ENGINE_CAP_MEMORY),
	    .oom_score = OOM_SCORE,
	};
	int fds[PROTO_CONFIG_BASE_FDS + 1] = {k->lifeline_read, k->filter, -1};
	size_t n = PROTO_CONFIG_BASE_FDS;
	_cleanup_fd_ int store = make_store(k, b);

	if (store >= 0) {
		c.fds |= PROTO_CONFIG_STORE;
		fds[n++] = store;
	}
	ssize_t sent = fd_send(b->channel, &c, sizeof(c), fds, n, MSG_DONTWAIT);
	return sent < 0 ? (int)sent : 0;
}

/* The first 16 hex digits of an image's id, which tell one image from another. */
static uint64_t id_part(const char *id)
{
	const char *hex = strchr(id, ':');
	uint64_t value = 0;

	hex = hex ? hex + 1 : id;
	for (int i = 0; i < 16 && text_hex_digit(hex[i]) >= 0; i++)
		value = value << 4 | (uint64_t)text_hex_digit(hex[i]);
	return value;
}

static void add_fd(int fd, uint32_t bit, int *fds, size_t *n, uint32_t *bits)
{
	if (fd < 0)
		return;
	fds[(*n)++] = fd;
	*bits |= bit;
}

/* Init runs and the daemon has said so: the front gets the channel. */
static void bring_up(struct cell *b)
{
	struct proto_mon_created m = {.head = PROTO_HEAD(MON_CREATED, proto_mon_created),
				      .slot = b->slot,
				      .image_ino = id_part(b->image_id)};
	struct ucred peer;
	socklen_t len = sizeof(peer);
	int oom = -1, peak = -1, cpu = -1;
	int fds[4];
	size_t n = 0;

	/* A runtime with a kernel of its own may leave its processes out of the container's groups: then
	 * nothing of this machine's kernel counts them. */
	int r = getsockopt(b->channel, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	b->uncounted = r == 0 && counters_open(b, peer.pid, &oom, &peak, &cpu) == -EPERM;
	if (r < 0 || configure(b) < 0) {
		fail(b, (struct container_fault){PROTO_STEP_CONTAINER_INIT, EPERM});
		return;
	}
	fds[n++] = b->channel;
	m.fds |= b->uncounted ? PROTO_CREATED_UNCOUNTED : 0;
	add_fd(oom, PROTO_CREATED_OOM, fds, &n, &m.fds);
	add_fd(peak, PROTO_CREATED_PEAK, fds, &n, &m.fds);
	add_fd(cpu, PROTO_CREATED_CPU, fds, &n, &m.fds);
	b->state = CELL_UP;
	b->told = true;
	keeper_send(b->keeper, &m.head, fds, n);
	fd_close_many(fds, n);
	b->channel = -1;
}

void cell_connected(struct cell *b)
{
	struct sockaddr_un peer;
	socklen_t len = sizeof(peer);
	int fd = accept4(b->listener, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	b->channel = fd;
	b->listener = fd_close(b->listener); /* one connection, ever */
	if (b->started && b->state == CELL_AWAITED)
		bring_up(b);
}

static void begin(struct cell *b);

void cell_tick(struct cell *b, uint64_t now)
{
	if (b->state == CELL_WAITING)
		begin(b);
	if (b->state == CELL_AWAITED && now >= b->until)
		fail(b, (struct container_fault){PROTO_STEP_CONTAINER_INIT, ETIMEDOUT});
}

/* ---- making ---- */

/* The front asked for the end meanwhile, or the daemon refused. True = go on. */
static bool goes_on(struct cell *b, bool ok, uint32_t step, int status, const char *body,
		    size_t len)
{
	if (!ok)
		fail(b, container_fault(step, status, body, len));
	else if (b->ended)
		remove_cell(b);
	else
		return true;
	return false;
}

static void on_started(int status, const char *body, size_t len, void *user)
{
	struct cell *b = user;
	const bool ok = status == 204 || status == 304;

	if (!goes_on(b, ok, PROTO_STEP_CONTAINER_START, status, body, len))
		return;
	b->started = true;
	b->state = CELL_AWAITED;
	b->until = now_ns() + AWAIT_NS;
	if (b->channel >= 0)
		bring_up(b);
}

static void call(struct cell *b, enum cell_state next, const char *method, const char *path,
		 const char *json, daemon_fn cb)
{
	b->state = next;
	if (daemon_start(b->keeper->daemon, method, path, json, CALL_S, cb, b) < 0)
		fail(b, (struct container_fault){PROTO_STEP_DAEMON, ENOMEM});
}

static void on_made(int status, const char *body, size_t len, void *user)
{
	struct cell *b = user;
	json_t *doc = NULL;
	json_error_t why;
	char path[KEEPER_NAME + 32];

	if (!goes_on(b, status == 201, PROTO_STEP_CONTAINER_CREATE, status, body, len))
		return;
	if (jsonio_read(body, len, 0, &doc, &why) == 0) {
		const char *id = json_string_value(json_object_get(doc, "Id"));
		(void)!text_copy(b->id, sizeof(b->id), id ? id : "");
	}
	json_decref(doc);
	(void)snprintf(path, sizeof(path), "/containers/%s/start", b->name);
	call(b, CELL_STARTING, "POST", path, NULL, on_started);
}

static void make_container(struct cell *b)
{
	char path[KEEPER_NAME + 64];
	_cleanup_free_ char *json = container_json(b->keeper, b);

	if (!json) {
		fail(b, (struct container_fault){PROTO_STEP_CONTAINER_CREATE, ENOMEM});
		return;
	}
	container_path(b, path, sizeof(path));
	call(b, CELL_MAKING, "POST", path, json, on_made);
}

static void make_volume(struct cell *b);

static void on_volume(int status, const char *body, size_t len, void *user)
{
	struct cell *b = user;

	if (!goes_on(b, status == 201, PROTO_STEP_CONTAINER_CREATE, status, body, len))
		return;
	b->volumes_made++;
	make_volume(b);
}

/* One after the other, then the container. */
static void make_volume(struct cell *b)
{
	if (b->volumes_made == ARRAY_SIZE(volumes)) {
		make_container(b);
		return;
	}
	_cleanup_free_ char *json = container_volume_json(b->keeper, b, volumes[b->volumes_made]);
	if (!json)
		fail(b, (struct container_fault){PROTO_STEP_CONTAINER_CREATE, ENOMEM});
	else
		call(b, CELL_MAKING, "POST", "/volumes/create", json, on_volume);
}

static void on_image(int status, const char *body, size_t len, void *user)
{
	struct cell *b = user;

	if (!goes_on(b, status == 200, PROTO_STEP_IMAGE, status, body, len))
		return;
	const int r = container_read_image(b, body, len);
	if (r < 0)
		fail(b, (struct container_fault){PROTO_STEP_IMAGE, -r});
	else if (container_is_podman(b->keeper) && !b->stored)
		make_volume(b);
	else
		make_container(b);
}

/* An image's reference goes into the path of a call; requests.c has checked its characters. */
static void ask_image(struct cell *b)
{
	char path[PROTO_IMAGE_MAX * 3 + 32];

	(void)snprintf(path, sizeof(path), "/images/%s/json", b->c.image);
	call(b, CELL_LOOKING, "GET", path, NULL, on_image);
}

/* Whether the sandbox that has the stored workspace of B is about to give it back. The front may open a
 * workspace again as soon as it has closed it, and removing a container takes a moment. */
static bool is_leaving(const struct cell *b)
{
	const struct keeper *k = b->keeper;

	for (uint32_t i = 0; i < k->config->max_sandboxes; i++)
		if (&k->cells[i] != b && k->cells[i].ended &&
		    streq(k->cells[i].c.persist, b->c.persist))
			return true;
	return false;
}

static void begin(struct cell *b)
{
	struct keeper *k = b->keeper;
	int r = b->stored ? keep_open(k, b) : 0;

	if (r == -EBUSY && is_leaving(b) && now_ns() < b->until) {
		b->state = CELL_WAITING;
		return;
	}
	if (r < 0) {
		fail(b, (struct container_fault){PROTO_STEP_STORED, -r});
		return;
	}
	r = listen_at(k, b);
	if (r < 0) {
		fail(b, (struct container_fault){PROTO_STEP_CHANNEL, -r});
		return;
	}
	ask_image(b);
}

void cell_create(struct keeper *k, const struct proto_mon_create *c)
{
	struct cell *b = &k->cells[c->slot];

	b->c = *c;
	proto_leave_out_walls(&b->c.limits);
	b->helper_of = c->helper_of;
	b->stored = c->persist[0] != '\0';
	(void)snprintf(b->name, sizeof(b->name), "caisson-%s-%u", k->instance, ++k->serial);
	if (c->helper_of && k->cells[c->helper_of - 1].state != CELL_UP) {
		fail(b, (struct container_fault){PROTO_STEP_HELPER, ESRCH});
		return;
	}
	b->until = now_ns() + AWAIT_NS;
	begin(b);
}

/* ---- the end ---- */

static void on_emptied(int status, const char *body, size_t len, void *user)
{
	struct cell *b = user;

	(void)body, (void)len;
	if (status == 0 || (status >= 400 && status != 404))
		debris_add(b->keeper, b->name);
	if (--b->empty == 0)
		tell_gone(b);
}

static void remove_volumes(struct cell *b)
{
	char path[KEEPER_NAME + 32];

	b->state = CELL_EMPTYING;
	b->empty = 1;
	for (size_t i = 0; i < ARRAY_SIZE(volumes) && !b->stored; i++) {
		if (i == 1 && b->helper_of) /* it has used those of the other sandbox */
			continue;
		(void)snprintf(path, sizeof(path), "/volumes/%s-%s", b->name, volumes[i]);
		b->empty += daemon_start(b->keeper->daemon, "DELETE", path, NULL, CALL_S,
					 on_emptied, b) == 0;
	}
	on_emptied(204, NULL, 0, b);
}

static void on_removed(int status, const char *body, size_t len, void *user)
{
	struct cell *b = user;

	(void)body, (void)len;
	if (status >= 200 && (status < 400 || status == 404)) {
		remove_volumes(b);
		return;
	}
	debris_add(b->keeper, b->name);
	tell_gone(b);
}

static void remove_cell(struct cell *b)
{
	char path[KEEPER_NAME + 64];

	b->cpu_ns = MAX(b->cpu_ns, counters_cpu(b));
	b->listener = fd_close(b->listener);
	b->channel = fd_close(b->channel);
	b->state = CELL_REMOVING;
	(void)snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", b->name);
	if (daemon_start(b->keeper->daemon, "DELETE", path, NULL, CALL_S, on_removed, b) < 0)
		on_removed(0, NULL, 0, b);
}

void cell_destroy(struct keeper *k, uint32_t slot)
{
	struct cell *b = &k->cells[slot];

	if (b->state == CELL_FREE || b->ended)
		return;
	b->ended = true;
	/* A helper must be gone before the sandbox that it helps. The front sees to that; a helper
	 * whose sandbox was lost ends here. */
	for (uint32_t i = 0; i < k->config->max_sandboxes; i++)
		if (k->cells[i].helper_of == slot + 1 && k->cells[i].state == CELL_UP)
			cell_destroy(k, i);
	if (b->state == CELL_WAITING)
		tell_gone(b);
	else if (b->state == CELL_AWAITED || b->state == CELL_UP)
		remove_cell(b);
}

/* ---- figures ---- */

void cell_usage(struct keeper *k, uint32_t slot)
{
	struct proto_mon_used m = {.head = PROTO_HEAD(MON_USED, proto_mon_used), .slot = slot};

	if (slot == PROTO_SLOT_ALL) {
		for (uint32_t i = 0; i < k->config->max_sandboxes; i++)
			m.memory_bytes += counters_read(k->cells[i].memory);
	} else {
		const struct cell *b = &k->cells[slot];
		m.memory_bytes = counters_read(b->memory);
		m.cpu_ns = counters_cpu(b);
		m.pids = (uint32_t)counters_read(b->pids);
	}
	keeper_send(k, &m.head, NULL, 0);
}

/* Init makes its interpreters itself. */
void cell_warm(struct keeper *k, uint32_t slot)
{
	struct proto_mon_warmed m = {.head = PROTO_HEAD(MON_WARMED, proto_mon_warmed),
				     .slot = slot};

	keeper_send(k, &m.head, NULL, 0);
}
