/* SPDX-License-Identifier: Apache-2.0 */
/* What children of the monitor do not need of its memory.
 *
 * The program is one for all verbs, so some twenty shared libraries are in the monitor that only other
 * processes use: of its 140 mappings 110. Each fork copied them, with the pages that the dynamic linker has
 * written to, and each sandbox takes two forks. That was a third of the processor time of the monitor and its
 * makers. The monitor's own code and that of its children call the C library alone.
 *
 * A child that called another library would end at once with SIGSEGV. The dynamic linker does not look into
 * the libraries either, because the program is linked with BIND_NOW. */
#include "engine/maker/native/monitor/monitor.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

/* Names of files: the C library and its dynamic linker. Before glibc 2.34 the C library had more files, and
 * libpthread has read(2), write(2) and open(2) of its own there, which the program then calls. A build with
 * sanitizers needs theirs, too. */
static const char *const needed[] = {"libc.so",    "libpthread.so", "libdl.so", "librt.so",
				     "libutil.so", "ld-linux",      "ld-musl",  "libasan",
				     "libubsan",   "libtsan"};

static bool is_needed(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (strncmp(name, needed[i], strlen(needed[i])) == 0)
			return true;
	return name[0] == '\0' || !slash; /* the program itself; the kernel's vdso has no path */
}

static int leave_out(struct dl_phdr_info *info, size_t size, void *data)
{
	const uintptr_t page = (uintptr_t)getauxval(AT_PAGESZ);
	uintptr_t low = UINTPTR_MAX;
	uintptr_t high = 0;

	(void)size;
	(void)data;
	if (is_needed(info->dlpi_name))
		return 0;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];
		if (h->p_type != PT_LOAD)
			continue;
		low = MIN(low, (info->dlpi_addr + h->p_vaddr) & ~(page - 1));
		high =
		    MAX(high, (info->dlpi_addr + h->p_vaddr + h->p_memsz + page - 1) & ~(page - 1));
	}
	/* Without it forks cost more; nothing else. */
	if (low < high)
		(void)madvise((void *)low, high - low, MADV_DONTFORK);
	return 0;
}

void monitor_slim_children(void)
{
	/* A library that is preloaded may stand between a child and the C library. */
	if (!getenv("LD_PRELOAD"))
		(void)dl_iterate_phdr(leave_out, NULL);
}
