/* SPDX-License-Identifier: Apache-2.0 */
/* How many processors and how much memory there are, for programs that ask the C library. It would ask the kernel, which tells
 * the host's: programs would start as many threads, and take as much memory, and be slow or killed. */
#include "machine_files.h"

#include "old_libc.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/sysinfo.h>

#define PUBLIC __attribute__((visibility("default")))

/* As many of the processors that the kernel permits as the sandbox has time for. Which ones does not matter: the CPU limit is
 * one of time. */
PUBLIC int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	const long n = syscall(SYS_sched_getaffinity, pid, size, set);
	unsigned left = machine_processors_limit();

	if (n < 0)
		return -1;
	if ((size_t)n < size)
		memset((char *)set + n, 0, size - (size_t)n);
	for (size_t i = 0; left > 0 && i < (size_t)n * 8; i++)
		if (CPU_ISSET_S(i, size, set) && --left == 0)
			for (i++; i < (size_t)n * 8; i++)
				CPU_CLR_S(i, size, set);
	return 0;
}

PUBLIC int get_nprocs(void)
{
	return (int)machine_processors();
}

PUBLIC int get_nprocs_conf(void)
{
	return (int)machine_processors();
}

PUBLIC long sysconf(int name)
{
	static _Atomic(void *)
	    known; /* a program calls it in the child of a fork, too, where looking it up would wait */
	long (*original)(int);
	void *found = atomic_load(&known);

	if (!found) {
		found = dlsym(RTLD_NEXT, "sysconf");
		atomic_store(&known, found);
	}
	memcpy(&original, &found, sizeof(original));
	if (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF)
		return (long)machine_processors();
	if (name == _SC_PHYS_PAGES || name == _SC_AVPHYS_PAGES)
		return (long)(machine_memory(name == _SC_AVPHYS_PAGES) /
			      (uint64_t)original(_SC_PAGESIZE));
	return original(name);
}
