/* SPDX-License-Identifier: Apache-2.0 */
#include "base/slice.h"

#include <errno.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_NS UINT64_C(200000)

int slice_short(int nice)
{
	const struct sched_attr attr = {
	    .size = sizeof(attr),
	    .sched_policy = SCHED_NORMAL,
	    .sched_flags = SCHED_FLAG_RESET_ON_FORK,
	    .sched_nice = nice,
	    .sched_runtime = SLICE_NS,
	};

	return syscall(SYS_sched_setattr, 0, &attr, 0) < 0 ? -errno : 0;
}
