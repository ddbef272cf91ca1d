/* SPDX-License-Identifier: Apache-2.0 */
/* The life of one sandbox in the keeper.
 *
 *   FREE -> (WAITING ->) LOOKING -> MAKING -> STARTING -> AWAITED -> UP -> REMOVING -> EMPTYING -> FREE
 *               any state before UP -------------------------> REMOVING
 *
 * Each arrow but AWAITED -> UP is one call of the daemon, and at most one call of a sandbox is under way
 * (EMPTYING: one for each volume). A sandbox that is helped is removed when none of its helpers is left: they
 * have its packages mounted, and their containers would hold its volume or its stored folder. When the front asks for the end during a call, the sandbox goes on to
 * REMOVING when that call is answered. Init may connect before the daemon has said that the container
 * is started. */
#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/maker/docker/keeper/keeper.h"

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
/* A helper has the packages of the other sandbox mounted, and no volume of its own for them. */
static size_t n_volumes(const struct docker_sandbox *b)
{
	return b->helper_of ? 1 : ARRAY_SIZE(volumes);
}

static void remove_sandbox(struct docker_sandbox *b);
static void go_down(struct docker_sandbox *b);

/* ---- answers to the front ---- */

static void tell_failed(struct docker_sandbox *b, uint32_t step, int errnum)
{
	struct proto_mon_created m = {.head = PROTO_HEAD(MON_CREATED, proto_mon_created),
				      .slot = b->slot,
				      .step = step,
				      .errnum = errnum};

	keeper_send(b->keeper, &m.head, NULL, 0);
	b->told = b->ended = true;
}

/* The slot of a sandbox that was refused is free for the front at once; so the sandbox must not be in the
 * way of the next one. What is left of it goes to the leftovers. */
static void forget(struct docker_sandbox *b)
{
	struct keeper *k = b->keeper;
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/channels/%s/socket", k->folder, b->name);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s/channels/%s", k->folder, b->name);
	(void)rmdir(path);
	b->listener = fd_close(b->listener);
	b->channel = fd_close(b->channel);
	b->lock = fd_close(b->lock);
	counters_close(b);
	const uint32_t slot = b->slot;
	struct docker_sandbox *helped = b->helper_of ? &k->sandboxes[b->helper_of - 1] : NULL;
	helped = helped && helped->number == b->helps ? helped : NULL;
	/* A container that is made late makes the volumes that it mounts, also one that was removed. */
	if (helped)
		helped->late = helped->late || b->late;
	helped = helped && helped->ended ? helped : NULL;
	*b = (struct docker_sandbox){.slot = slot,
				     .keeper = k,
				     .listener = -1,
				     .channel = -1,
				     .lock = -1,
				     .memory = -1,
				     .memory_stat = -1,
				     .cpu = -1,
				     .pids = -1};
	if (helped)
		go_down(helped); /* it may have waited for this helper */
}

static void tell_gone(struct docker_sandbox *b)
{
	struct proto_mon_gone m = {
	    .head = PROTO_HEAD(MON_GONE, proto_mon_gone), .slot = b->slot, .cpu_ns = b->cpu_ns};

	if (b->late)
		leftovers_add(b->keeper, b->name, true);
	keeper_send(b->keeper, &m.head, NULL, 0);
	forget(b);
}

/* It could not be made: the front hears why, and its container goes without the front. */
static void fail(struct docker_sandbox *b, struct container_fault f)
{
	if (b->state >= SANDBOX_MAKING)
		leftovers_add(b->keeper, b->name, b->late);
	if (!b->told)
		tell_failed(b, f.step, f.errnum);
	forget(b);
}

/* ---- init ---- */

static int listen_at(struct keeper *k, struct docker_sandbox *b)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	char path[PATH_MAX];

	/* Nobody but root enters the parent folder on the host. In the container, the mount begins
	 * below it. */
	(void)snprintf(path, sizeof(path), "%s/channels/%s", k->folder, b->name);
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
static int make_store(const struct keeper *k, const struct docker_sandbox *b)
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

static int configure(struct docker_sandbox *b)
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
	int fds[PROTO_CONFIG_BASE_FDS + 1] = {k->liveness_read, k->filter, -1};
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
static void bring_up(struct docker_sandbox *b)
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
	 * nothing of this machine's kernel counts them. If this server is in another PID namespace than the
	 * container (peer pid 0), or sees another /proc, nobody can look. Either way init watches memory, and
	 * the policy does not claim that the limits hold. */
	int r = getsockopt(b->channel, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	b->uncounted = r == 0 && counters_open(b, peer.pid, &oom, &peak, &cpu) < 0;
	if (r < 0 || configure(b) < 0) {
		fail(b, (struct container_fault){PROTO_STEP_CONTAINER_INIT, EPERM});
		return;
	}
	fds[n++] = b->channel;
	m.fds |= b->uncounted ? PROTO_CREATED_UNCOUNTED : 0;
	add_fd(oom, PROTO_CREATED_OOM, fds, &n, &m.fds);
	add_fd(peak, PROTO_CREATED_PEAK, fds, &n, &m.fds);
	add_fd(cpu, PROTO_CREATED_CPU, fds, &n, &m.fds);
	b->state = SANDBOX_UP;
	b->told = true;
	keeper_send(b->keeper, &m.head, fds, n);
	fd_close_many(fds, n);
	b->channel = -1;
}

void docker_sandbox_connected(struct docker_sandbox *b)
{
	struct sockaddr_un peer;
	socklen_t len = sizeof(peer);
	int fd = accept4(b->listener, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	b->channel = fd;
	b->listener = fd_close(b->listener); /* one connection, ever */
	if (b->started && b->state == SANDBOX_AWAITED)
		bring_up(b);
}

static void begin(struct docker_sandbox *b);

void docker_sandbox_tick(struct docker_sandbox *b, uint64_t now)
{
	if (b->state == SANDBOX_WAITING)
		begin(b);
	if (b->state == SANDBOX_AWAITED && now >= b->until)
		fail(b, (struct container_fault){PROTO_STEP_CONTAINER_INIT, ETIMEDOUT});
}

/* ---- making ---- */

/* The front asked for the end meanwhile, or the daemon refused. True = go on. */
static bool goes_on(struct docker_sandbox *b, bool ok, uint32_t step, int status, const char *body,
		    size_t len)
{
	/* Without an answer, the daemon may still do what it was asked for. */
	b->late = b->late || (status == 0 && b->state >= SANDBOX_MAKING);
	if (!ok)
		fail(b, container_fault(step, status, body, len));
	else if (b->ended && b->state == SANDBOX_LOOKING) /* the daemon has nothing of it */
		tell_gone(b);
	else if (b->ended)
		remove_sandbox(b);
	else
		return true;
	return false;
}

static void on_started(int status, const char *body, size_t len, void *user)
{
	struct docker_sandbox *b = user;
	const bool ok = status == 204 || status == 304;

	if (!goes_on(b, ok, PROTO_STEP_CONTAINER_START, status, body, len))
		return;
	b->started = true;
	b->state = SANDBOX_AWAITED;
	b->until = now_ns() + AWAIT_NS;
	if (b->channel >= 0)
		bring_up(b);
}

static void call(struct docker_sandbox *b, enum docker_sandbox_state next, const char *method,
		 const char *path, const char *json, daemon_fn cb)
{
	b->state = next;
	if (daemon_start(b->keeper->daemon, method, path, json, CALL_S, cb, b) < 0)
		fail(b, (struct container_fault){PROTO_STEP_DAEMON, ENOMEM});
}

static void on_made(int status, const char *body, size_t len, void *user)
{
	struct docker_sandbox *b = user;
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
	call(b, SANDBOX_STARTING, "POST", path, NULL, on_started);
}

static void make_container(struct docker_sandbox *b)
{
	char path[KEEPER_NAME + 64];

	/* The sandbox to help may have ended while the daemon looked for the image, and another one may have its
	 * slot. */
	if (b->helper_of && !docker_sandbox_helped(b)) {
		fail(b, (struct container_fault){PROTO_STEP_HELPER, ESRCH});
		return;
	}
	_cleanup_free_ char *json = container_json(b->keeper, b);
	if (!json) {
		fail(b, (struct container_fault){PROTO_STEP_CONTAINER_CREATE, ENOMEM});
		return;
	}
	container_path(b, path, sizeof(path));
	call(b, SANDBOX_MAKING, "POST", path, json, on_made);
}

static void make_volume(struct docker_sandbox *b);

static void on_volume(int status, const char *body, size_t len, void *user)
{
	struct docker_sandbox *b = user;

	if (!goes_on(b, status == 201, PROTO_STEP_CONTAINER_CREATE, status, body, len))
		return;
	b->volumes_made++;
	make_volume(b);
}

/* One after the other, then the container. */
static void make_volume(struct docker_sandbox *b)
{
	if (b->volumes_made == n_volumes(b)) {
		make_container(b);
		return;
	}
	_cleanup_free_ char *json = container_volume_json(b->keeper, b, volumes[b->volumes_made]);
	if (!json)
		fail(b, (struct container_fault){PROTO_STEP_CONTAINER_CREATE, ENOMEM});
	else
		call(b, SANDBOX_MAKING, "POST", "/volumes/create", json, on_volume);
}

static void on_image(int status, const char *body, size_t len, void *user)
{
	struct docker_sandbox *b = user;

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
static void ask_image(struct docker_sandbox *b)
{
	char path[PROTO_IMAGE_MAX * 3 + 32];

	(void)snprintf(path, sizeof(path), "/images/%s/json", b->c.image);
	call(b, SANDBOX_LOOKING, "GET", path, NULL, on_image);
}

/* Whether the sandbox that has the stored workspace of B is about to give it back. The front may open a
 * workspace again as soon as it has closed it, and removing a container takes a moment. */
static bool is_leaving(const struct docker_sandbox *b)
{
	const struct keeper *k = b->keeper;

	for (uint32_t i = 0; i < k->config->max_sandboxes; i++)
		if (&k->sandboxes[i] != b && k->sandboxes[i].ended &&
		    streq(k->sandboxes[i].c.persist, b->c.persist))
			return true;
	return false;
}

static void begin(struct docker_sandbox *b)
{
	struct keeper *k = b->keeper;
	int r = b->stored ? keep_open(k, b) : 0;

	if (r == -EBUSY && is_leaving(b) && now_ns() < b->until) {
		b->state = SANDBOX_WAITING;
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

const struct docker_sandbox *docker_sandbox_helped(const struct docker_sandbox *b)
{
	const struct docker_sandbox *h =
	    b->helper_of ? &b->keeper->sandboxes[b->helper_of - 1] : NULL;

	/* A helper has no packages of its own that another one could mount. */
	return h && h->state == SANDBOX_UP && !h->ended && h->number == b->helps && !h->helper_of
		   ? h
		   : NULL;
}

void docker_sandbox_create(struct keeper *k, const struct proto_mon_create *c)
{
	struct docker_sandbox *b = &k->sandboxes[c->slot];

	b->c = *c;
	proto_leave_out_walls(&b->c.limits);
	b->number = ++k->serial;
	b->helper_of = c->helper_of;
	b->helps = c->helper_of ? k->sandboxes[c->helper_of - 1].number : 0;
	b->stored = c->persist[0] != '\0';
	(void)snprintf(b->name, sizeof(b->name), KEEPER_PREFIX "%s-%s-%u", k->state_id, k->instance,
		       b->number);
	if (c->helper_of && !docker_sandbox_helped(b)) {
		fail(b, (struct container_fault){PROTO_STEP_HELPER, ESRCH});
		return;
	}
	if (leftovers_is_much(k)) {
		fail(b, (struct container_fault){PROTO_STEP_DAEMON, EBUSY});
		return;
	}
	b->until = now_ns() + AWAIT_NS;
	begin(b);
}

/* ---- the end ---- */

static void on_emptied(int status, const char *body, size_t len, void *user)
{
	struct docker_sandbox *b = user;

	(void)body, (void)len;
	if (!daemon_says_gone(status))
		leftovers_add(b->keeper, b->name, b->late);
	if (--b->empty == 0)
		tell_gone(b);
}

static void remove_volumes(struct docker_sandbox *b)
{
	char path[KEEPER_NAME + 32];

	b->state = SANDBOX_EMPTYING;
	b->empty = 1;
	for (size_t i = 0; i < n_volumes(b) && !b->stored; i++) {
		(void)snprintf(path, sizeof(path), "/volumes/%s-%s", b->name, volumes[i]);
		b->empty += daemon_start(b->keeper->daemon, "DELETE", path, NULL, CALL_S,
					 on_emptied, b) == 0;
	}
	on_emptied(204, NULL, 0, b);
}

static void on_removed(int status, const char *body, size_t len, void *user)
{
	struct docker_sandbox *b = user;

	(void)body, (void)len;
	if (daemon_says_gone(status)) {
		remove_volumes(b);
		return;
	}
	leftovers_add(b->keeper, b->name, b->late);
	tell_gone(b);
}

static void remove_sandbox(struct docker_sandbox *b)
{
	char path[KEEPER_NAME + 64];

	b->cpu_ns = MAX(b->cpu_ns, counters_cpu(b));
	b->listener = fd_close(b->listener);
	b->channel = fd_close(b->channel);
	b->state = SANDBOX_REMOVING;
	(void)snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", b->name);
	if (daemon_start(b->keeper->daemon, "DELETE", path, NULL, CALL_S, on_removed, b) < 0)
		on_removed(0, NULL, 0, b);
}

/* Ends the helpers of B, whatever they are at. True: some are still there. */
static bool end_helpers(struct docker_sandbox *b)
{
	struct keeper *k = b->keeper;
	bool left = false;

	for (uint32_t i = 0; i < k->config->max_sandboxes; i++) {
		const struct docker_sandbox *h = &k->sandboxes[i];
		if (h->helper_of != b->slot + 1 || h->helps != b->number)
			continue;
		docker_sandbox_destroy(k, i);
		left = left || h->state != SANDBOX_FREE;
	}
	return left;
}

/* The next step of the end of B, which was asked for. In a state that is not here a call of the daemon is under way,
 * whose answer goes on. */
static void go_down(struct docker_sandbox *b)
{
	if (b->state == SANDBOX_WAITING)
		tell_gone(b);
	if (b->state != SANDBOX_AWAITED && b->state != SANDBOX_UP)
		return;
	const bool left = end_helpers(b);
	/* If the last helper ended at once, B has gone on already. */
	if (!left && (b->state == SANDBOX_AWAITED || b->state == SANDBOX_UP))
		remove_sandbox(b);
}

void docker_sandbox_destroy(struct keeper *k, uint32_t slot)
{
	struct docker_sandbox *b = &k->sandboxes[slot];

	if (b->state == SANDBOX_FREE || b->ended)
		return;
	b->ended = true;
	go_down(b);
}

/* ---- figures ---- */

void docker_sandbox_usage(struct keeper *k, uint32_t slot)
{
	struct proto_mon_used m = {.head = PROTO_HEAD(MON_USED, proto_mon_used), .slot = slot};

	if (slot == PROTO_SLOT_ALL) {
		for (uint32_t i = 0; i < k->config->max_sandboxes; i++)
			m.memory_bytes += counters_memory(&k->sandboxes[i]);
	} else {
		const struct docker_sandbox *b = &k->sandboxes[slot];
		m.memory_bytes = counters_read(b->memory);
		m.cpu_ns = counters_cpu(b);
		m.pids = (uint32_t)counters_read(b->pids);
	}
	keeper_send(k, &m.head, NULL, 0);
}
