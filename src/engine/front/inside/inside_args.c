/* SPDX-License-Identifier: Apache-2.0 */
/* Working folder, command line and environment of a run, as one sealed file. */
#include "engine/front/inside/inside.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/text.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

static const char *const base_env[] = {
#define BOTH(text) text,
#define RUN(text)  text,
#define ZYGOTE(text)
#include "engine/protocol/environment.tbl.h"
#undef BOTH
#undef RUN
#undef ZYGOTE
    NULL,
};

/* What is other for a root user. Debian has programs for it in folders that are not on the PATH of others. */
static const char *const root_env[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "USER=root",
    "LOGNAME=root",
    NULL,
};

/* Whether somebody gave NAME=... in ENV, where NAME is that of BASE. */
static bool is_overridden(const char *base, const char *const *env)
{
	size_t name = strcspn(base, "=") + 1;

	for (size_t i = 0; env && env[i]; i++)
		if (strncmp(env[i], base, name) == 0)
			return true;
	return false;
}

static int add_string(struct buf *b, const char *s)
{
	return buf_add(b, s, strlen(s) + 1);
}

static int add_strings(struct buf *b, const char *const *list, uint32_t *count,
		       const char *const *unless)
{
	int r = 0;

	for (size_t i = 0; list && list[i] && r == 0; i++) {
		if (unless && is_overridden(list[i], unless))
			continue;
		if (++*count > PROTO_ARG_MAX)
			return -E2BIG;
		r = add_string(b, list[i]);
	}
	return r;
}

static int add_base(struct buf *b, const struct engine_run_spec *spec, uint32_t *count)
{
	const char *list[ARRAY_SIZE(base_env) + ARRAY_SIZE(root_env)] = {NULL};
	size_t n = 0;

	for (size_t i = 0; base_env[i]; i++)
		if (!spec->root || !is_overridden(base_env[i], root_env))
			list[n++] = base_env[i];
	for (size_t i = 0; spec->root && root_env[i]; i++)
		list[n++] = root_env[i];
	return add_strings(b, list, count, spec->env);
}

/* Variables that an interpreter, its C library or a preloaded module reads only at start-up. A run
 * that sets one must start cold. */
static const char *const start_names[] = {
    "PYTHON", "LD_",  "GLIBC_",   "MALLOC_", "LC_", "LANG",  "OPENBLAS_",
    "OMP_",   "MKL_", "NUMEXPR_", "ARROW_",  "MPL", "HOME=",
};

bool inside_run_can_be_warm(const struct engine_run_spec *spec)
{
	for (size_t i = 0; spec->env && spec->env[i]; i++)
		for (size_t k = 0; k < ARRAY_SIZE(start_names); k++)
			if (text_starts_with(spec->env[i], start_names[k]))
				return false;
	return spec->kind == ENGINE_RUN_PYTHON && !spec->argv;
}

/* How many processors the CPU limit is worth, for programs that start as many threads; nothing if that
 * is no fewer than there are. Python asks the first name; OpenMP, OpenBLAS and nproc(1) ask the second. */
static int add_processors(struct buf *b, const struct engine_limits *l, uint32_t *count,
			  const char *const *unless)
{
	char python[48];
	char omp[48];
	const char *const list[] = {python, omp, NULL};
	const unsigned n = l->cpu_milli / 1000 + (l->cpu_milli % 1000 > 0);

	cpu_set_t usable;
	if (n == 0 || sched_getaffinity(0, sizeof(usable), &usable) < 0 ||
	    n >= (unsigned)CPU_COUNT(&usable))
		return 0;
	(void)snprintf(python, sizeof(python), "PYTHON_CPU_COUNT=%u", n);
	(void)snprintf(omp, sizeof(omp), "OMP_NUM_THREADS=%u", n);
	return add_strings(b, list, count, unless);
}

/* What `free` and psutil call the memory of the machine (runtime/python/limits.py). /dev/shm tells it, too, but
 * keeps the size that it was made with. */
static int add_memory(struct buf *b, const struct engine_sandbox *s, uint32_t *count)
{
	const uint64_t bytes = s->policy.limits.memory_bytes;
	char memory[48];
	const char *const list[] = {memory, NULL};

	if (bytes == s->made_memory)
		return 0;
	(void)snprintf(memory, sizeof(memory), "CAISSON_MEMORY=%llu", (unsigned long long)bytes);
	return add_strings(b, list, count, NULL);
}

int inside_run_args(const struct engine_sandbox *s, const struct engine_run_spec *spec,
		    struct proto_init_run *m)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(PROTO_ARGS_MAX);
	int r = add_string(&b, spec->cwd ? spec->cwd : "/mnt/data");

	if (r == 0 && spec->kind != ENGINE_RUN_STATEFUL)
		r = add_strings(&b, spec->argv, &m->argc, NULL);
	if (r == 0)
		r = add_base(&b, spec, &m->envc);
	if (r == 0)
		r = add_processors(&b, &s->policy.limits, &m->envc, spec->env);
	if (r == 0)
		r = add_memory(&b, s, &m->envc);
	if (r == 0)
		r = add_strings(&b, spec->env, &m->envc, NULL);
	if (r < 0)
		return r;
	m->args_size = (uint32_t)b.len;
	return fd_sealed_memfd("args", b.data, b.len);
}
