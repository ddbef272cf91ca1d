/* SPDX-License-Identifier: Apache-2.0 */
/* The data of libraries, which relocation has made the zygote's own: some MiB, a few pages in each of
 * 270 libraries. fork(2) copies the page tables of such memory, and a page table covers 2 MiB. So the
 * few pages cost each interpreter a third of its page tables, and objects of the kernel for each mapping.
 *
 * Here the same bytes go into memory files, which are mapped privately in their place. fork(2) does not
 * copy page tables of a file: a fork reads them again when it needs a page, 16 pages at a time, and gets
 * a copy of its own when it writes. All forks of the zygote share the files. So they are sealed, and have
 * no permission bits: otherwise mincore(2) would tell everybody which pages are in memory.
 * Each range has a file of its own: the kernel keeps a tree of all mappings of a file, into which each
 * fork enters, and one file would have a million of them in 2,000 sandboxes.
 *
 * Only what the loader itself has mapped for a library may move. Memory that happens to lie behind it
 * can have been given a meaning that a file does not have: MADV_WIPEONFORK keeps random numbers of two
 * forks apart, and allocators take MADV_DONTNEED for a way to get zeros.
 *
 * Nothing may write to a range between the copy and the mapping. So this file calls nothing but the
 * kernel there, and the ranges are not those of the C library (pages.py). */
#include "extension.h"

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct range {
	uint64_t start;
	uint64_t bytes;
	uint64_t write; /* the mapping is writable */
};

/* Shortens the range at DATA to the writable segment of a library in which it begins. Returns 0 if it
 * begins in none of this library (dl_iterate_phdr(3)). */
static int clip(struct dl_phdr_info *info, size_t size, void *data)
{
	const uint64_t rest = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	struct range *r = data;

	(void)size;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const uint64_t start = info->dlpi_addr + p->p_vaddr;
		const uint64_t end = (start + p->p_memsz + rest) & ~rest;

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_W) || r->start < (start & ~rest) ||
		    r->start >= end)
			continue;
		if (r->bytes > end - r->start)
			r->bytes = end - r->start;
		return 1;
	}
	return 0;
}

static bool move(int fd, const struct range *r)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
	const int prot = PROT_READ | (r->write ? PROT_WRITE : 0);
	void *at = (void *)(uintptr_t)r->start;

	if (pwrite(fd, at, (size_t)r->bytes, 0) != (ssize_t)r->bytes || fchmod(fd, 0) < 0 ||
	    fcntl(fd, F_ADD_SEALS, seals) < 0)
		return false;
	const void *mapped = mmap(at, (size_t)r->bytes, prot, MAP_PRIVATE | MAP_FIXED, fd, 0);
	return mapped == at;
}

size_t library_move(const void *ranges, size_t len)
{
	const struct range *all = ranges;
	size_t moved = 0;

	for (size_t i = 0; i < len / sizeof(*all); i++) {
		struct range r = all[i];
		int fd = dl_iterate_phdr(clip, &r)
			     ? memfd_create("libraries", MFD_CLOEXEC | MFD_ALLOW_SEALING)
			     : -1;
		if (fd < 0)
			continue;
		if (move(fd, &r))
			moved += (size_t)r.bytes;
		(void)close(fd);
	}
	return moved;
}
