/* SPDX-License-Identifier: Apache-2.0 */
/* The processors: as many as the sandbox may use, and what the instruction CPUID tells everybody about their kind. */
#include "machine_files.h"

#include "base/parse.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define PROCESSORS_MAX 1024

/* The front gives the CPU limit to each run, rounded up, if the machine has more. */
unsigned machine_processors_limit(void)
{
	const char *limit = getenv("PYTHON_CPU_COUNT");
	uint64_t n = 0;

	return limit && parse_u64(limit, 1, PROCESSORS_MAX, &n) == 0 ? (unsigned)n : 0;
}

unsigned machine_processors(void)
{
	const unsigned limit = machine_processors_limit();
	cpu_set_t set;

	if (limit > 0)
		return limit;
	CPU_ZERO(&set);
	return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

void machine_cpu_list(int fd)
{
	const unsigned n = machine_processors();

	(void)dprintf(fd, n > 1 ? "0-%u\n" : "0\n", n - 1);
}

/* The bits of FIRST to LAST as a bitmap of the kernel, one word of 32 bits after the other. */
static void add_bitmap(int fd, unsigned first, unsigned last)
{
	for (unsigned word = (machine_processors() - 1) / 32 + 1; word-- > 0;) {
		uint32_t bits = 0;

		for (unsigned i = 0; i < 32; i++)
			if (word * 32 + i >= first && word * 32 + i <= last)
				bits |= UINT32_C(1) << i;
		(void)dprintf(fd, "%08x%s", bits, word > 0 ? "," : "\n");
	}
}

/* One socket, with as many cores of one thread as there are processors: lscpu, joblib and others count them so. */
bool machine_topology(int fd, unsigned cpu, const char *name)
{
	static const struct {
		const char *name;
		enum { CORE, SOCKET, OF_CORE, OF_SOCKET } what;
	} files[] = {{"core_id", CORE},          {"physical_package_id", SOCKET},
		     {"die_id", SOCKET},         {"thread_siblings", OF_CORE},
		     {"core_cpus", OF_CORE},     {"core_siblings", OF_SOCKET},
		     {"package_cpus", OF_SOCKET}};
	const unsigned n = machine_processors();

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const size_t len = strlen(files[i].name);
		const bool list =
		    files[i].what >= OF_CORE && strcmp(name + strnlen(name, len), "_list") == 0;

		if (cpu >= n || strncmp(name, files[i].name, len) != 0 || !(list || !name[len]))
			continue;
		if (fd < 0)
			return true;
		if (files[i].what < OF_CORE)
			(void)dprintf(fd, "%u\n", files[i].what == CORE ? cpu : 0);
		else if (!list)
			add_bitmap(fd, files[i].what == OF_CORE ? cpu : 0,
				   files[i].what == OF_CORE ? cpu : n - 1);
		else if (files[i].what == OF_CORE)
			(void)dprintf(fd, "%u\n", cpu);
		else
			machine_cpu_list(fd);
		return true;
	}
	return false;
}

#if defined(__x86_64__)

enum { EAX, EBX, ECX, EDX };

/* Bits of CPUID that programs look for, by the names of Linux (arch/x86/include/asm/cpufeatures.h). */
static const struct {
	unsigned leaf, word, bit;
	const char *name;
} flags[] = {
    {1, EDX, 0, "fpu"},
    {1, EDX, 4, "tsc"},
    {1, EDX, 8, "cx8"},
    {1, EDX, 15, "cmov"},
    {1, EDX, 23, "mmx"},
    {1, EDX, 24, "fxsr"},
    {1, EDX, 25, "sse"},
    {1, EDX, 26, "sse2"},
    {1, EDX, 28, "ht"},
    {0x80000001, EDX, 20, "nx"},
    {0x80000001, EDX, 29, "lm"},
    {1, ECX, 0, "pni"},
    {1, ECX, 1, "pclmulqdq"},
    {1, ECX, 9, "ssse3"},
    {1, ECX, 12, "fma"},
    {1, ECX, 13, "cx16"},
    {1, ECX, 19, "sse4_1"},
    {1, ECX, 20, "sse4_2"},
    {1, ECX, 22, "movbe"},
    {1, ECX, 23, "popcnt"},
    {1, ECX, 25, "aes"},
    {1, ECX, 26, "xsave"},
    {1, ECX, 28, "avx"},
    {1, ECX, 29, "f16c"},
    {1, ECX, 30, "rdrand"},
    {0x80000001, ECX, 5, "abm"},
    {0x80000001, ECX, 6, "sse4a"},
    {7, EBX, 3, "bmi1"},
    {7, EBX, 5, "avx2"},
    {7, EBX, 8, "bmi2"},
    {7, EBX, 9, "erms"},
    {7, EBX, 16, "avx512f"},
    {7, EBX, 17, "avx512dq"},
    {7, EBX, 18, "rdseed"},
    {7, EBX, 19, "adx"},
    {7, EBX, 21, "avx512ifma"},
    {7, EBX, 28, "avx512cd"},
    {7, EBX, 29, "sha_ni"},
    {7, EBX, 30, "avx512bw"},
    {7, EBX, 31, "avx512vl"},
    {7, ECX, 1, "avx512vbmi"},
    {7, ECX, 6, "avx512_vbmi2"},
    {7, ECX, 8, "gfni"},
    {7, ECX, 9, "vaes"},
    {7, ECX, 10, "vpclmulqdq"},
    {7, ECX, 11, "avx512_vnni"},
    {7, ECX, 12, "avx512_bitalg"},
    {7, ECX, 14, "avx512_vpopcntdq"},
    {7, EDX, 22, "amx_bf16"},
    {7, EDX, 23, "avx512_fp16"},
    {7, EDX, 24, "amx_tile"},
    {7, EDX, 25, "amx_int8"},
};

static void ask(unsigned leaf, unsigned ret[4])
{
	memset(ret, 0, 4 * sizeof(ret[0]));
	(void)__get_cpuid_count(leaf, 0, &ret[EAX], &ret[EBX], &ret[ECX], &ret[EDX]);
}

/* CPUID, leaf 1: the extended parts count only for certain families. */
static void add_kind(int fd)
{
	unsigned words[4], brand[3][4];
	char vendor[13] = "", name[sizeof(brand) + 1] = "";

	ask(0, words);
	memcpy(vendor, &words[EBX], 4);
	memcpy(vendor + 4, &words[EDX], 4);
	memcpy(vendor + 8, &words[ECX], 4);
	for (unsigned i = 0; i < 3; i++)
		ask(0x80000002 + i, brand[i]);
	memcpy(name, brand, sizeof(brand));
	ask(1, words);
	const unsigned base = words[EAX] >> 8 & 15, model = words[EAX] >> 4 & 15;
	const unsigned family = base == 15 ? base + (words[EAX] >> 20 & 255) : base;
	(void)dprintf(
	    fd,
	    "vendor_id\t: %s\ncpu family\t: %u\nmodel\t\t: %u\nmodel name\t: %s\nstepping\t: %u\n",
	    vendor, family, base >= 6 ? model + (words[EAX] >> 16 & 15) * 16 : model,
	    name + strspn(name, " "), words[EAX] & 15);
}

static void add_flags(int fd)
{
	(void)dprintf(fd, "flags\t\t:");
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		unsigned words[4];

		ask(flags[i].leaf, words);
		if (words[flags[i].word] >> flags[i].bit & 1)
			(void)dprintf(fd, " %s", flags[i].name);
	}
	(void)dprintf(fd, "\n");
}

#else

static void add_kind(int fd)
{
	(void)fd;
}

static void add_flags(int fd)
{
	(void)fd;
}

#endif

void machine_cpuinfo(int fd)
{
	const unsigned n = machine_processors();

	for (unsigned i = 0; i < n; i++) {
		(void)dprintf(fd, "processor\t: %u\n", i);
		add_kind(fd);
		(void)dprintf(fd,
			      "physical id\t: 0\nsiblings\t: %u\ncore id\t\t: %u\ncpu cores\t: "
			      "%u\napicid\t\t: %u\ninitial apicid\t: %u\nfpu\t\t: yes\n",
			      n, i, n, i, i);
		add_flags(fd);
		(void)dprintf(fd, "\n");
	}
}
