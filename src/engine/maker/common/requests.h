/* SPDX-License-Identifier: Apache-2.0 */
/* What the processes that make sandboxes (the monitor and the keeper) do with every request of the front.
 *
 * Each of them has its handlers in a table that is generated from engine/protocol/messages.tbl.h: the
 * column `served` says who serves a request. A process that lacks a handler that this column promises
 * does not compile, and neither does a request without a check. A valid request that a process does not serve is answered with MON_UNSUPPORTED. A
 * message that fails a check comes from a broken front: it ends the connection, the process and every
 * sandbox. */
#pragma once

#include "base/attr.h"
#include "engine/protocol/proto.h"

/* Receives one message of the front, and checks it against the table of messages. Descriptors are
 * closed: no request has any. 0, -EAGAIN: none is there, -EPIPE: the front has ended, -EPROTO: it is
 * no message of the front, or another -errno. Never waits. */
int request_receive(int channel, union proto_frame *ret) MUST_CHECK;

/* Checks the fields that mean the same to every process with SLOTS sandboxes at most. What only one process
 * knows (levels, names of images, states of sandboxes) it checks itself. 0 or -EINVAL. */
int request_check(const union proto_frame *f, uint32_t slots) MUST_CHECK;

/* The answer to a request that a process does not serve. */
struct proto_mon_unsupported request_unsupported(const union proto_frame *f);
