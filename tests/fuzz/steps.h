/* SPDX-License-Identifier: Apache-2.0 */
/* For targets whose input is a list of steps: how it is read, and how a front that was taken over sends a request of
 * which some bytes are wrong. Three bytes of the input stand before those of a message: what it is about (for the
 * target), where the wrong bytes begin (times four), and how many there are. */
#pragma once

#include "base/fdio.h"
#include "engine/protocol/proto.h"

#include <sys/socket.h>

#define STEP_PATCH_MAX 32

struct input {
	const uint8_t *at, *end;
};

static inline unsigned input_take(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

/* Overwrites LEN bytes of F and sends it over FRONT; the longest patch comes with a descriptor, too. */
static inline void input_send(struct input *in, int front, union proto_frame *f, unsigned at,
			      unsigned len)
{
	const size_t size = MIN(f->head.size, sizeof(*f));

	for (unsigned i = 0; i < len; i++)
		((uint8_t *)f)[(at * 4U + i) % size] = (uint8_t)input_take(in);
	(void)!fd_send(front, f, size, &front, len == STEP_PATCH_MAX - 1, MSG_DONTWAIT);
}
