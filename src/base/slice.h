/* SPDX-License-Identifier: Apache-2.0 */
/* Short slices of CPU time (sched_setattr(2), since Linux 6.12). A thread that asks for short slices is chosen sooner when it
 * wakes up, also before one that is in the middle of a long slice, and gets no more in the sum. For threads that others wait
 * for and that work for less than a millisecond at a time: the event loop, the pool of threads, the init of a sandbox. */
#pragma once

#include "base/attr.h"

/* The calling thread has short slices and the nice value NICE from now on. Children and threads that it makes later have
 * neither: theirs is 0 where NICE is below. A kernel before 6.12 ignores the slice. -EPERM: NICE is below the present value,
 * and the process may not. Then nothing has changed. */
int slice_short(int nice) MUST_CHECK;
