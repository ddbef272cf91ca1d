/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper against a front that has been taken over: the input is what the front sends, what the daemon answers, and
 * when. Whatever comes, the keeper makes only the calls that it knows, answers each request once, mounts the packages of
 * a sandbox into its own helpers alone, removes no sandbox before its helpers, and has nothing left at its end.
 *
 * The input: steps. A step is one byte, low half what happens, high half which one. Messages of the front have more
 * bytes (steps.h). */
#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/maker/docker/keeper/keeper.h"
#include "fuzz.h"
#include "steps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define SLOTS     6u
#define STEPS_MAX 64
#define CALLS_MAX 64
#define NAMES_MAX 256
#define WHICH     8 /* the high half */

struct call { /* that the daemon has not answered */
	char path[PROTO_IMAGE_MAX * 3 + 64];
	daemon_fn cb;
	void *user;
};

struct container {
	char name[KEEPER_NAME];
	char helped[KEEPER_NAME]; /* whose packages it has; "" = its own */
	bool gone;
};

static struct keeper k;
static struct call calls[CALLS_MAX];
static size_t n_calls;
static struct container containers[NAMES_MAX];
static size_t n_containers;
static bool announced[SLOTS];
static int front;
static int inits[STEPS_MAX];
static size_t n_inits;

/* ---- what stands around the keeper's own files ---- */

/* meson.build renames it. No file system for checkpoints can be made here. */
long fuzz_syscall(long number, ...);
long fuzz_syscall(long number, ...)
{
	(void)number;
	errno = ENOSYS;
	return -1;
}

int daemon_start(struct daemon *a UNUSED, const char *method, const char *path,
		 const char *json UNUSED, unsigned timeout_s UNUSED, daemon_fn cb, void *user)
{
	ASSERT(streq(method, "GET") || streq(method, "POST") || streq(method, "DELETE"));
	ASSERT(text_starts_with(path, "/images/") || text_starts_with(path, "/containers/") ||
	       text_starts_with(path, "/volumes/"));
	if (n_calls == CALLS_MAX)
		return -ENOMEM;
	(void)snprintf(calls[n_calls].path, sizeof(calls[n_calls].path), "%s", path);
	calls[n_calls].cb = cb;
	calls[n_calls++].user = user;
	return 0;
}

void keeper_send(struct keeper *me, const struct proto_head *frame, int *fds, size_t n)
{
	union proto_frame f = {0};

	(void)me, (void)fds;
	memcpy(&f, frame, frame->size);
	ASSERT(proto_check(&f, frame->size, n, PROTO_PARTY_M, PROTO_PARTY_F) == 0);
	if (f.head.type == PROTO_MON_CREATED) {
		ASSERT(f.created.slot < SLOTS && !announced[f.created.slot]);
		ASSERT((f.created.step == PROTO_STEP_NONE) == (n > 0));
		announced[f.created.slot] = n > 0;
	} else if (f.head.type == PROTO_MON_GONE) {
		ASSERT(f.gone.slot < SLOTS);
		announced[f.gone.slot] = false;
	}
}

static struct container *container_of(const char *name)
{
	for (size_t i = 0; i < n_containers; i++)
		if (streq(containers[i].name, name))
			return &containers[i];
	return NULL;
}

/* The body is not read here: what matters is whose packages it would mount. */
char *container_json(const struct keeper *me, const struct docker_sandbox *b)
{
	const struct docker_sandbox *h = docker_sandbox_helped(b);

	(void)me;
	ASSERT(n_containers < NAMES_MAX && (b->helper_of == 0) == (h == NULL));
	ASSERT(!h || (h->number == b->helps && announced[h->slot]));
	ASSERT(!h || h->helper_of == 0); /* it would have no packages to mount */
	struct container *c = &containers[n_containers++];
	*c = (struct container){0};
	(void)snprintf(c->name, sizeof(c->name), "%s", b->name);
	(void)snprintf(c->helped, sizeof(c->helped), "%s", h ? h->name : "");
	return strdup("{}");
}

char *container_volume_json(const struct keeper *me, const struct docker_sandbox *b,
			    const char *part)
{
	(void)me, (void)b, (void)part;
	return strdup("{}");
}

char *container_update_json(const struct proto_mon_limit *l)
{
	ASSERT(l->what != 0);
	return strdup("{}");
}

void container_path(const struct docker_sandbox *b, char *ret, size_t size)
{
	(void)snprintf(ret, size, "/containers/create?name=%s", b->name);
}

struct container_fault container_fault(uint32_t step, int status UNUSED, const char *body UNUSED,
				       size_t len UNUSED)
{
	return (struct container_fault){step, EIO};
}

int container_read_image(struct docker_sandbox *b, const char *body UNUSED, size_t len UNUSED)
{
	(void)snprintf(b->image_id, sizeof(b->image_id), "sha256:00");
	return 0;
}

bool container_is_podman(const struct keeper *me UNUSED)
{
	return false;
}

int counters_open(struct docker_sandbox *b UNUSED, pid_t pid UNUSED, int *ret_oom UNUSED,
		  int *ret_peak UNUSED, int *ret_cpu UNUSED)
{
	return -EPERM;
}

void counters_close(struct docker_sandbox *b UNUSED)
{
}

uint64_t counters_read(int fd UNUSED)
{
	return 0;
}

uint64_t counters_cpu(const struct docker_sandbox *b UNUSED)
{
	return 0;
}

uint64_t counters_memory(const struct docker_sandbox *b UNUSED)
{
	return 0;
}

int keep_open(struct keeper *me, struct docker_sandbox *b)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		if (&me->sandboxes[i] != b && me->sandboxes[i].state != SANDBOX_FREE &&
		    me->sandboxes[i].stored && me->sandboxes[i].state != SANDBOX_WAITING &&
		    streq(me->sandboxes[i].c.persist, b->c.persist))
			return -EBUSY;
	return 0;
}

int keep_forget(struct keeper *me UNUSED, const char *key)
{
	ASSERT(key[0] && !strchr(key, '/'));
	return 0;
}

/* ---- the front ---- */

static void fill(union proto_frame *f, unsigned what, uint32_t slot, unsigned about)
{
	memset(f, 0, sizeof(*f));
	if (what == 0) {
		f->create =
		    (struct proto_mon_create){.head = PROTO_HEAD(MON_CREATE, proto_mon_create),
					      .slot = slot,
					      .warm = about & 1U,
					      .egress = about >> 1 & 1U,
					      .helper_of = about >> 2 & 7U,
					      .limits = {.memory_bytes = 256 << 20,
							 .workspace_bytes = 1 << 20,
							 .tmp_bytes = 1 << 20,
							 .cpu_milli = 1000,
							 .pids = 32,
							 .workspace_inodes = 100,
							 .nofile = 64}};
		f->create.image[0] = 'a';
		f->create.persist[0] = about & 128U ? 'k' : '\0';
	} else if (what == 1) {
		f->slot = (struct proto_mon_slot){.head = PROTO_HEAD(MON_DESTROY, proto_mon_slot),
						  .slot = slot,
						  .flags = about & 3U};
	} else if (what == 2) {
		f->slot = (struct proto_mon_slot){.head = PROTO_HEAD(MON_USAGE, proto_mon_slot),
						  .slot = about & 1U ? PROTO_SLOT_ALL : slot};
	} else if (what == 3) {
		f->limit = (struct proto_mon_limit){.head = PROTO_HEAD(MON_LIMIT, proto_mon_limit),
						    .slot = slot,
						    .what = about & 7U,
						    .memory_bytes = UINT64_C(64) << 20,
						    .cpu_milli = 500,
						    .pids = 20};
	} else if (what == 4) {
		f->forget = (struct proto_mon_forget){
		    .head = PROTO_HEAD(MON_FORGET, proto_mon_forget), .seq = slot};
		f->forget.persist[0] = (char)about;
		if (about & 128U) { /* no key begins so */
			f->keep = (struct proto_mon_keep){
			    .head = PROTO_HEAD(MON_KEEP, proto_mon_keep), .slot = slot};
			f->keep.persist[0] = (char)(about & 127U);
		}
	} else if (about & 1U) {
		f->slot = (struct proto_mon_slot){.head = PROTO_HEAD(MON_WARM, proto_mon_slot),
						  .slot = slot};
	} else {
		f->charged = (struct proto_mon_charged){
		    .head = PROTO_HEAD(MON_CHARGED, proto_mon_charged), .bytes = about};
	}
}

enum { SAYS = 6 };

static void say(unsigned what, unsigned which, struct input *in)
{
	static union proto_frame f;
	const unsigned about = input_take(in), at = input_take(in),
		       len = input_take(in) % STEP_PATCH_MAX;

	fill(&f, what, which % WHICH, about);
	input_send(in, front, &f, at, len);
}

/* ---- the daemon, and init ---- */

static void name_in(const char *path, const char *before, char ret[KEEPER_NAME])
{
	const char *at = path + strlen(before);

	(void)snprintf(ret, KEEPER_NAME, "%.*s",
		       (int)MIN(strcspn(at, "?/"), (size_t)KEEPER_NAME - 1), at);
}

static void removed(const char *path)
{
	char name[KEEPER_NAME];

	name_in(path, "/containers/", name);
	struct container *c = container_of(name);
	if (!c)
		return;
	for (size_t i = 0; i < n_containers; i++)
		ASSERT(containers[i].gone || k.n_leftovers > 0 ||
		       !streq(containers[i].helped, name));
	c->gone = true;
}

static void answer(unsigned which, int status)
{
	if (n_calls == 0)
		return;
	const size_t at = which % n_calls;
	const struct call c = calls[at];

	memmove(&calls[at], &calls[at + 1], (n_calls - at - 1) * sizeof(calls[0]));
	n_calls--;
	const bool create = text_starts_with(c.path, "/containers/create");
	const bool removal = text_starts_with(c.path, "/containers/") && strstr(c.path, "?force");
	if (status == 404 && removal)
		removed(c.path);
	if (status == 0 || status >= 400) {
		c.cb(status, "{}", 2, c.user);
		return;
	}
	if (removal)
		removed(c.path);
	c.cb(text_starts_with(c.path, "/images/") || strstr(c.path, "/update") ? 200
	     : create                                                          ? 201
									       : 204,
	     "{}", 2, c.user);
}

static void connect_init(unsigned which)
{
	struct docker_sandbox *b = &k.sandboxes[which % SLOTS];
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	if (b->listener < 0 || n_inits == STEPS_MAX)
		return;
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%.40s/channels/%.50s/socket", k.folder,
		       b->name);
	/* Init stays: its configuration comes when the daemon has said that the container is started. */
	inits[n_inits] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (connect(inits[n_inits++], (const struct sockaddr *)&at, sizeof(at)) == 0)
		docker_sandbox_connected(b);
}

/* ---- between any two events ---- */

static void check(void)
{
	unsigned changes = 0;

	list_for_each(node, &k.changes)
		changes++;
	ASSERT(changes == k.n_changes && changes <= SLOTS);
	for (uint32_t i = 0; i < SLOTS; i++) {
		const struct docker_sandbox *b = &k.sandboxes[i];
		ASSERT((b->number != 0) == (b->state != SANDBOX_FREE));
		ASSERT(b->state != SANDBOX_UP || announced[i] || b->ended);
		ASSERT(b->state != SANDBOX_FREE ||
		       (b->listener < 0 && b->channel < 0 && b->lock < 0));
		if (b->helper_of == 0)
			continue;
		/* While a helper is there, its sandbox is neither removed nor replaced. */
		const struct docker_sandbox *h = &k.sandboxes[b->helper_of - 1];
		ASSERT(h->number == b->helps && h->state == SANDBOX_UP);
	}
}

static char folder[] = "/tmp/caisson-fuzz-XXXXXX";
static char channels_folder[sizeof(folder) + 10];

/* At the end of the program. Nothing else may be in it. */
static void remove_folder(void)
{
	(void)rmdir(channels_folder);
	(void)rmdir(folder);
}

/* Once: a folder for each input would be most of the work. */
static void make_folder(void)
{
	if (channels_folder[0])
		return;
	if (!mkdtemp(folder))
		abort();
	(void)snprintf(channels_folder, sizeof(channels_folder), "%s/channels", folder);
	if (mkdir(channels_folder, 0700) < 0 || atexit(remove_folder) != 0)
		abort();
}

static void begin(void)
{
	static struct keeper_config config = {
	    .max_sandboxes = SLOTS, .warm = true, .levels = {.n = 1}};
	static struct docker_sandbox sandboxes[SLOTS];
	int pair[2];

	make_folder();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	front = pair[1];
	n_calls = n_containers = n_inits = 0;
	memset(announced, 0, sizeof(announced));
	k = (struct keeper){
	    .config = &config, .channel = pair[0], .filter = 1, .sandboxes = sandboxes};
	k.about.enforced = ENGINE_CAP_MEMORY | ENGINE_CAP_CPU | ENGINE_CAP_PIDS;
	list_init(&k.changes);
	(void)snprintf(k.folder, sizeof(k.folder), "%s", folder);
	(void)snprintf(k.instance, sizeof(k.instance), "0123456789abcdef");
	for (uint32_t i = 0; i < SLOTS; i++)
		sandboxes[i] = (struct docker_sandbox){.slot = i,
						       .keeper = &k,
						       .listener = -1,
						       .channel = -1,
						       .lock = -1,
						       .memory = -1,
						       .memory_stat = -1,
						       .cpu = -1,
						       .pids = -1};
}

static void end(void)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		docker_sandbox_destroy(&k, i);
	for (unsigned i = 0; i < 1000 && n_calls > 0; i++)
		answer(0, 200);
	for (uint32_t i = 0; i < SLOTS; i++)
		ASSERT(k.sandboxes[i].state == SANDBOX_FREE && !announced[i]);
	for (uint32_t i = 0; i < n_containers; i++)
		ASSERT(containers[i].gone || k.n_leftovers > 0);
	limits_close(&k);
	free(k.leftovers);
	fd_close_many(inits, n_inits);
	k.channel = fd_close(k.channel);
	front = fd_close(front);
}

int fuzz_keeper(const uint8_t *data, size_t size)
{
	struct input in = {.at = data, .end = data + size};
	static const int statuses[] = {200, 500, 404, 0};
	bool up = true;

	begin();
	for (unsigned i = 0; i < STEPS_MAX && up && in.at < in.end; i++) {
		const unsigned step = input_take(&in), what = step & 15U, which = step >> 4;
		if (what < SAYS)
			say(what, which, &in);
		else if (what < SAYS + ARRAY_SIZE(statuses))
			answer(which, statuses[what - SAYS]);
		else
			connect_init(which);
		for (uint32_t j = 0; j < SLOTS; j++)
			docker_sandbox_tick(&k.sandboxes[j], now_ns());
		up = keeper_take(&k) == 0;
		check();
	}
	end();
	return 0;
}
