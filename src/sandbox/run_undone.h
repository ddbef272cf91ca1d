/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/engine.h"

/* What runs whose callers heard no answer have done to the variables of their session. */
struct run_undone {
	bool back; /* the variables went back to those before such a run */
	bool lost; /* or there were none to go back to */
	bool late; /* in a result: other clients have used the session since then */
	struct engine_left left;
};

/* Who has to be told. All clients of a session have one state. If only the next of them was told, the one that cancelled
 * the run would go on as if its changes were there, whenever another one asks first. So each client that had used the
 * session is told once, with its next answer. A client that nobody knows is told, too, until the one that cancelled has
 * been: many clients cancel by closing their connection, and come back on a new one. */
#define SESSION_CLIENTS_MAX 8u /* the ones that have used it last */
struct session_clients {
	struct session_client {
		uint64_t id;       /* run_client(); 0 = free */
		bool owed;         /* it has to be told */
	} at[SESSION_CLIENTS_MAX]; /* the latest first */
	uint64_t canceller;
	bool unheard; /* the canceller has not been told */
	bool used;    /* a run of the session has ended since */
};
