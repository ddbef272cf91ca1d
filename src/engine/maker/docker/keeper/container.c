/* SPDX-License-Identifier: Apache-2.0 */
/* The one kind of container that the keeper makes. Everything that a container could get is decided
 * here: what is not listed below, it does not have. */
#include "base/jsonio.h"
#include "base/log.h"
#include "base/text.h"
#include "base/walls.h"
#include "engine/maker/docker/keeper/keeper.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define TMP_INODES   65536u /* as in a sandbox of our own (runtime/init/setup_root.c) */
#define HOME_INODES  4096u
#define HOME_BYTES   (UINT64_C(16) << 20)
#define NOFILE_LEAST 1024u /* init's own; it lowers the limit of each run */
#define INODES_MORE  2u    /* the root of a file system */
#define NPROC_MOST   4096u

/* Buffers of the container's network namespace, as in a sandbox of our own (runtime/init/network.c). */
static const char *const sysctls[][2] = {
    {"net.ipv4.tcp_rmem", "4096 16384 65536"},
    {"net.ipv4.tcp_wmem", "4096 16384 65536"},
    {"net.core.somaxconn", "128"},
};

/* What describes the host or its other processes. A program that reads such a file finds it empty; a
 * sandbox of our own has none of them. A path that this kernel lacks is no error. */
static const char *const masked[] = {
    "/sys",
    "/proc/acpi",
    "/proc/asound",
    "/proc/buddyinfo",
    "/proc/bus",
    "/proc/cgroups",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/consoles",
    "/proc/crypto",
    "/proc/devices",
    "/proc/diskstats",
    "/proc/dma",
    "/proc/driver",
    "/proc/dynamic_debug",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/irq",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/locks",
    "/proc/mdstat",
    "/proc/misc",
    "/proc/modules",
    "/proc/mtrr",
    "/proc/pagetypeinfo",
    "/proc/partitions",
    "/proc/pressure",
    "/proc/sched_debug",
    "/proc/schedstat",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/softirqs",
    "/proc/swaps",
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/sysvipc",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/tty",
    "/proc/vmallocinfo",
    "/proc/vmstat",
    "/proc/zoneinfo",
};

static int add(json_t *list, json_t *value)
{
	return json_array_append_new(list, value);
}

bool container_is_podman(const struct keeper *k)
{
	return streq(k->about.product, "Podman");
}

static json_t *bind_mount(const char *from, const char *to, bool writable)
{
	return json_pack("{s:s, s:s, s:s, s:b, s:{s:s}}", "Type", "bind", "Source", from, "Target",
			 to, "ReadOnly", !writable, "BindOptions", "Propagation", "rprivate");
}

static void volume_name(const struct docker_sandbox *b, const char *part, char *ret, size_t size)
{
	(void)snprintf(ret, size, "%s-%s", b->name, part);
}

/* A volume in memory with a hard limit, which the daemon mounts and removes. */
static json_t *volume_options(const struct keeper *k, const struct docker_sandbox *b)
{
	const struct proto_limits *l = &b->c.limits;
	const bool open = k->about.userns || container_is_podman(k);
	char options[160];

	/* Where the daemon maps ids, uid 1000 of a container is another one here, and Podman gives
	 * volumes to root. Nobody but the container reaches the volume, so everybody may write. */
	char owner[32] = "";
	if (!k->about.userns)
		(void)snprintf(owner, sizeof(owner), "uid=%u,gid=%u,", KEEPER_UID, KEEPER_UID);
	/* A limit in pages, because Podman takes "size" for a quota of its own. */
	(void)snprintf(options, sizeof(options),
		       "nr_blocks=%llu,nr_inodes=%u,%smode=%s,nosuid,nodev",
		       (unsigned long long)(l->workspace_bytes / (uint64_t)sysconf(_SC_PAGESIZE)),
		       l->workspace_inodes + INODES_MORE, owner, open ? "0777" : "0755");
	return json_pack("{s:s, s:s, s:s}", "type", "tmpfs", "device", "tmpfs", "o", options);
}

static json_t *labels_of(const struct keeper *k)
{
	return json_pack("{s:s, s:s}", LABEL_STATE, k->state_id, LABEL_INSTANCE, k->instance);
}

char *container_volume_json(const struct keeper *k, const struct docker_sandbox *b,
			    const char *part)
{
	char name[KEEPER_NAME + 8];
	size_t len;

	volume_name(b, part, name, sizeof(name));
	json_t *doc = json_pack("{s:s, s:s, s:o, s:o}", "Name", name, "Driver", "local",
				"DriverOpts", volume_options(k, b), "Labels", labels_of(k));
	char *text = jsonio_text(doc, JSON_COMPACT, &len);

	json_decref(doc);
	return text;
}

/* Docker makes the volume together with the container. Podman takes no options there, so for it the
 * volume was made before. */
static json_t *volume_mount(const struct keeper *k, const struct docker_sandbox *b,
			    const char *part, const char *to, bool writable)
{
	char name[KEEPER_NAME + 8];

	volume_name(b, part, name, sizeof(name));
	json_t *options =
	    container_is_podman(k)
		? json_pack("{s:b}", "NoCopy", 1)
		: json_pack("{s:b, s:o, s:{s:s, s:o}}", "NoCopy", 1, "Labels", labels_of(k),
			    "DriverConfig", "Name", "local", "Options", volume_options(k, b));
	return json_pack("{s:s, s:s, s:s, s:b, s:o}", "Type", "volume", "Source", name, "Target",
			 to, "ReadOnly", !writable, "VolumeOptions", options);
}

static json_t *stored_mount(const struct keeper *k, const struct docker_sandbox *b,
			    const char *part, const char *to, bool writable)
{
	char path[PATH_MAX];

	keep_path(k, b->c.persist, part, path, sizeof(path));
	return bind_mount(path, to, writable);
}

static json_t *data_mount(const struct keeper *k, const struct docker_sandbox *b, const char *part,
			  const char *to, bool writable)
{
	return b->stored ? stored_mount(k, b, part, to, writable)
			 : volume_mount(k, b, part, to, writable);
}

static json_t *mounts_of(const struct keeper *k, const struct docker_sandbox *b)
{
	const struct docker_sandbox *helped = docker_sandbox_helped(b);
	json_t *list = json_array();
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; i < parts_n; i++) {
		(void)snprintf(path, sizeof(path), "%s/parts/%s", k->folder, parts[i].file);
		r |= add(list, bind_mount(path, parts[i].where, false));
	}
	(void)snprintf(path, sizeof(path), "%s/channels/%s", k->folder, b->name);
	r |= add(list, bind_mount(path, "/caisson-channel", false));
	r |= add(list, data_mount(k, b, "data", "/mnt/data", true));
	r |= add(list, data_mount(k, b, "data", "/app/results", true));
	r |= add(list, data_mount(k, b, "data", "/home/user", true));
	if (b->stored) {
		r |= add(list, stored_mount(k, b, "tmp", "/tmp", true));
		if (container_is_podman(k)) /* see tmpfs_of() */
			r |= add(list, stored_mount(k, b, "tmp", "/var/tmp", true));
		r |= add(list, stored_mount(k, b, "home", "/home/sandbox", true));
	}
	/* A helper installs packages for another sandbox, whose runs may only read them. */
	r |= add(list, data_mount(k, helped ? helped : b, "venv", "/app/.venv", helped != NULL));
	if (r != 0) {
		json_decref(list);
		return NULL;
	}
	return list;
}

/* Folders that have a mount of ours, or contain one. */
static bool is_ours(const char *path)
{
	static const char *const ours[] = {"/",          "/tmp",       "/home",    "/home/sandbox",
					   "/mnt",       "/mnt/data",  "/app",     "/app/results",
					   "/home/user", "/app/.venv", "/caisson", "/proc",
					   "/dev",       "/sys",       "/usr",     "/etc"};

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		if (streq(path, ours[i]))
			return true;
	return false;
}

static json_t *tmpfs_of(const struct keeper *k, const struct docker_sandbox *b)
{
	const bool podman = container_is_podman(k);
	char tmp[128], home[128], names[32] = "";

	/* Podman knows neither an owner nor a number of names here. Nobody else is in the container,
	 * and names count as its memory. */
	if (!podman)
		(void)snprintf(names, sizeof(names), ",nr_inodes=%u", TMP_INODES);
	(void)snprintf(tmp, sizeof(tmp), "rw,nosuid,nodev,exec,mode=1777,size=%llu%s",
		       (unsigned long long)b->c.limits.tmp_bytes, names);
	if (podman)
		(void)snprintf(home, sizeof(home), "rw,nosuid,nodev,exec,mode=0777,size=%llu",
			       (unsigned long long)HOME_BYTES);
	else
		(void)snprintf(
		    home, sizeof(home),
		    "rw,nosuid,nodev,exec,mode=0700,uid=%u,gid=%u,nr_inodes=%u,size=%llu",
		    KEEPER_UID, KEEPER_UID, HOME_INODES, (unsigned long long)HOME_BYTES);
	/* Those of a stored sandbox are folders of its workspace. */
	json_t *t =
	    b->stored ? json_object() : json_pack("{s:s, s:s}", "/tmp", tmp, "/home/sandbox", home);
	/* A folder that the image declares as a volume would become a writable one without a limit. */
	for (unsigned i = 0; t && i < b->volumes.n; i++)
		if (!is_ours(b->volumes.path[i]) &&
		    json_object_set_new(t, b->volumes.path[i],
					json_string("ro,nosuid,nodev,noexec,size=4k")) != 0) {
			json_decref(t);
			return NULL;
		}
	/* In a read-only container Podman mounts a tmpfs without a limit on /var/tmp, unless we mount something there.
	 * In our images /var/tmp is a link to /tmp, so that tmpfs would hide ours. */
	if (t && podman && !b->stored &&
	    json_object_set_new(t, "/var/tmp", json_string(tmp)) != 0) {
		json_decref(t);
		return NULL;
	}
	return t;
}

static json_t *ulimit(const char *name, uint64_t value)
{
	return json_pack("{s:s, s:I, s:I}", "Name", name, "Soft", (json_int_t)value, "Hard",
			 (json_int_t)value);
}

static json_t *ulimits_of(const struct keeper *k, const struct docker_sandbox *b)
{
	struct rlimit own;
	json_t *list = json_array();
	/* A daemon without CAP_SYS_RESOURCE cannot raise what it has itself. */
	int r = add(list, ulimit("nofile", MAX(b->c.limits.nofile, NOFILE_LEAST)));

	if (wall_stands(WALL_CORE)) /* see run_limits() in runtime/init/run_child.c */
		r |= add(list, ulimit("core", 1));
	if (container_is_podman(k) && getrlimit(RLIMIT_NPROC, &own) == 0)
		r |= add(list, ulimit("nproc", MIN((uint64_t)own.rlim_max, NPROC_MOST)));
	if (r != 0) {
		json_decref(list);
		return NULL;
	}
	return list;
}

static json_t *sysctls_json(void)
{
	json_t *t = json_object();

	/* Without a namespace of its own they would be the host's, and Docker refuses that. */
	const bool own = wall_stands(WALL_SOCKETS) && wall_stands(WALL_NET);

	for (size_t i = 0; own && i < ARRAY_SIZE(sysctls); i++)
		if (json_object_set_new(t, sysctls[i][0], json_string(sysctls[i][1])) != 0) {
			json_decref(t);
			return NULL;
		}
	return t;
}

/* Docker's own list has a few of these only, and is not used then. */
static json_t *masked_json(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(masked); i++)
		if (add(list, json_string(masked[i])) != 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

/* The variable is there in tests of the tests alone (base/walls.h). */
static json_t *environment(void)
{
	json_t *list = json_array();

	if (walls_variable() && add(list, json_string(walls_variable())) != 0) {
		json_decref(list);
		return NULL;
	}
	return list;
}

/* Podman takes the list as an option: mask=PATH:PATH... */
static json_t *mask_option(void)
{
	char text[2048] = "mask=";

	for (size_t i = 0; i < ARRAY_SIZE(masked); i++) {
		const size_t len = strlen(text);
		(void)snprintf(text + len, sizeof(text) - len, "%s%s", i > 0 ? ":" : "", masked[i]);
	}
	return json_string(text);
}

static json_t *security_of(const struct keeper *k)
{
	_cleanup_free_ char *seccomp = NULL;
	json_t *list = json_array();
	int r = add(list, json_string("no-new-privileges"));

	if (container_is_podman(k))
		r |= add(list, mask_option());

	if (!wall_stands(WALL_FILTER)) {
		r |= add(list, json_string("seccomp=unconfined"));
	} else if (k->about.seccomp) {
		/* Docker takes the profile itself, Podman the path of a file with it. */
		const bool file = container_is_podman(k);
		if ((file ? asprintf(&seccomp, "seccomp=%s/parts/" PROFILE_FILE, k->folder)
			  : asprintf(&seccomp, "seccomp=%s", k->profile)) < 0)
			seccomp = NULL;
		r |= add(list, json_string(seccomp));
	}
	if (r != 0) {
		json_decref(list);
		return NULL;
	}
	return list;
}

static json_t *host_config(const struct keeper *k, const struct docker_sandbox *b)
{
	const struct proto_limits *l = &b->c.limits;
	json_t *h = json_pack(
	    "{s:s, s:[s], s:b, s:o, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:s, s:s, s:s, s:b, s:b, "
	    "s:b, "
	    "s:{s:s}, s:{s:s}, s:o, s:o, s:o}",
	    "NetworkMode", wall_stands(WALL_NET) ? "none" : "host", "CapDrop", "ALL",
	    "ReadonlyRootfs", 1, "SecurityOpt", security_of(k), "Memory",
	    (json_int_t)l->memory_bytes, "MemorySwap", (json_int_t)l->memory_bytes, "NanoCpus",
	    (json_int_t)l->cpu_milli * 1000000, "PidsLimit", (json_int_t)l->pids + PIDS_SPARE,
	    "ShmSize", (json_int_t)(l->memory_bytes / 2), "Ulimits", ulimits_of(k, b), "Tmpfs",
	    tmpfs_of(k, b), "IpcMode", wall_stands(WALL_IPC) ? "private" : "host", "CgroupnsMode",
	    "private", "PidMode", "", "Privileged", 0, "PublishAllPorts", 0, "Init", 0, "LogConfig",
	    "Type", "none", "RestartPolicy", "Name", "no", "Mounts", mounts_of(k, b), "Sysctls",
	    sysctls_json(), "MaskedPaths", masked_json());

	const char *runtime = k->config->levels.at[b->c.level].runtime;
	if (h && runtime[0] && json_object_set_new(h, "Runtime", json_string(runtime)) != 0) {
		json_decref(h);
		return NULL;
	}
	return h;
}

char *container_json(const struct keeper *k, const struct docker_sandbox *b)
{
	size_t len;
	json_t *doc = json_pack(
	    "{s:s, s:s, s:s, s:[s], s:[s], s:s, s:b, s:b, s:b, s:b, s:b, s:b, s:{s:[s]}, s:{s:s, "
	    "s:s}, "
	    "s:s, s:o, s:o}",
	    "Image", b->image_id, "Hostname", "sandbox", "User", "1000:1000", "Entrypoint",
	    "/caisson/init", "Cmd", "/caisson-channel/socket", "WorkingDir", "/", "Tty", 0,
	    "OpenStdin", 0, "AttachStdin", 0, "AttachStdout", 0, "AttachStderr", 0,
	    "NetworkDisabled", wall_stands(WALL_NET), "Healthcheck", "Test", "NONE", "Labels",
	    LABEL_STATE, k->state_id, LABEL_INSTANCE, k->instance, "StopSignal", "SIGKILL", "Env",
	    environment(), "HostConfig", host_config(k, b));
	char *text = jsonio_text(doc, JSON_COMPACT, &len);

	json_decref(doc);
	return text;
}

char *container_update_json(const struct proto_mon_limit *l)
{
	json_t *doc = json_object();
	int r = doc ? 0 : -1;
	size_t len;

	if (l->what & PROTO_LIMIT_MEMORY) {
		r |= json_object_set_new(doc, "Memory", json_integer((json_int_t)l->memory_bytes));
		r |= json_object_set_new(doc, "MemorySwap",
					 json_integer((json_int_t)l->memory_bytes));
	}
	if (l->what & PROTO_LIMIT_CPU)
		r |= json_object_set_new(doc, "NanoCpus",
					 json_integer((json_int_t)l->cpu_milli * 1000000));
	if (l->what & PROTO_LIMIT_PIDS)
		r |= json_object_set_new(doc, "PidsLimit",
					 json_integer((json_int_t)l->pids + PIDS_SPARE));
	char *text = r == 0 ? jsonio_text(doc, JSON_COMPACT, &len) : NULL;

	json_decref(doc);
	return text;
}

void container_path(const struct docker_sandbox *b, char *ret, size_t size)
{
	(void)snprintf(ret, size, "/containers/create?name=%s", b->name);
}

/* ---- answers ---- */

static const struct {
	const char *word; /* in the daemon's message */
	uint32_t step;    /* 0 = the one at which it came */
	int errnum;
} faults[] = {
    {"no space left on device", 0, ENOSPC},
    {"disk quota exceeded", 0, EDQUOT},
    {"o such image", PROTO_STEP_IMAGE, ENOENT},
    {"ind source path does not exist", PROTO_STEP_CONTAINER_FOLDER, ENOENT},
    {"no such file or directory", PROTO_STEP_CONTAINER_FOLDER, ENOENT},
    {"unknown or invalid runtime", PROTO_STEP_CONTAINER_RUNTIME, ENOENT},
    {"nknown runtime", PROTO_STEP_CONTAINER_RUNTIME, ENOENT},
    {"cannot allocate memory", 0, ENOMEM},
};

/* Clients can cause as many of these as they like, and nobody may read what is written here: a line that would have to
 * wait is left out. */
static void write_answer(int status, const char *said)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

	/* A pipe that is ready takes PIPE_BUF bytes. */
	if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) && log_may_write("daemon_answered"))
		(void)dprintf(STDERR_FILENO, "caisson keeper: the daemon answered %d: %.300s\n",
			      status, said);
}

struct container_fault container_fault(uint32_t step, int status, const char *body, size_t len)
{
	struct container_fault f = {step, EIO};
	json_t *doc = NULL;
	json_error_t why;

	if (status == 0)
		return (struct container_fault){PROTO_STEP_DAEMON, ECONNREFUSED};
	if (jsonio_read(body, len, 0, &doc, &why) == 0) {
		const char *said = json_string_value(json_object_get(doc, "message"));
		for (size_t i = 0; said && i < ARRAY_SIZE(faults); i++)
			if (strstr(said, faults[i].word)) {
				f = (struct container_fault){faults[i].step ? faults[i].step : step,
							     faults[i].errnum};
				break;
			}
		if (said)
			write_answer(status, said);
	}
	if (status == 404 && step == PROTO_STEP_IMAGE)
		f = (struct container_fault){PROTO_STEP_IMAGE, ENOENT};
	json_decref(doc);
	return f;
}

int container_read_image(struct docker_sandbox *b, const char *body, size_t len)
{
	json_t *doc = NULL;
	json_error_t why;
	const char *path;
	json_t *ignored;
	int r = jsonio_read(body, len, 0, &doc, &why);

	if (r < 0)
		return r;
	const char *id = json_string_value(json_object_get(doc, "Id"));
	if (!id || text_copy(b->image_id, sizeof(b->image_id), id) < 0)
		r = -EPROTO;
	b->volumes.n = 0;
	json_object_foreach(json_object_get(json_object_get(doc, "Config"), "Volumes"), path,
			    ignored) {
		if (b->volumes.n == IMAGE_VOLUMES || path[0] != '/' || strchr(path, ':') ||
		    text_copy(b->volumes.path[b->volumes.n], VOLUME_PATH, path) < 0)
			r = -E2BIG;
		else
			b->volumes.n++;
	}
	json_decref(doc);
	return r;
}
