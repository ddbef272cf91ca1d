/* SPDX-License-Identifier: Apache-2.0 */
/* Every message of the native engine.
 * M(NAME, from, to, struct, most descriptors, "what it asks or tells")
 *   from, to   F front, M monitor, I init; a receiver refuses what is not addressed to it
 * The size of a message is that of its struct; any other length ends the connection. */
M(MON_HELLO, M, F, proto_mon_hello, 0, "the monitor is up; what it can enforce")
M(MON_CREATE, F, M, proto_mon_create, 0, "make a sandbox in a free slot")
M(MON_CREATED, M, F, proto_mon_created, 3, "channel to init, out-of-memory counter, peak; or why not")
M(MON_DESTROY, F, M, proto_mon_slot, 0, "kill a sandbox; a slot that is free already is no error")
M(MON_GONE, M, F, proto_mon_slot, 0, "a sandbox is gone, its slot is free again")
M(MON_USAGE, F, M, proto_mon_slot, 0, "what does a sandbox use")
M(MON_USED, M, F, proto_mon_used, 0, "answer to MON_USAGE")
M(MON_FORGET, F, M, proto_mon_forget, 0, "remove a stored workspace")
M(MON_FORGOTTEN, M, F, proto_mon_forgotten, 0, "answer to MON_FORGET")
M(INIT_CONFIG, M, I, proto_init_config, 8, "first message to init: limits and the descriptors it lives with")
M(INIT_READY, I, F, proto_init_ready, 1, "isolation is complete, runs may start; the way out, if asked for")
M(INIT_FAILED, I, F, proto_init_failed, 0, "a step of the set-up failed; init ends")
M(INIT_RUN, F, I, proto_init_run, 6, "start a run")
M(INIT_SIGNAL, F, I, proto_init_signal, 0, "signal the run, or end it")
M(INIT_ENDED, I, F, proto_init_ended, 0, "a run has ended and nothing of it is left")
M(INIT_FILE, F, I, proto_init_file, 0, "open, put, commit, remove, list, measure")
M(INIT_FILED, I, F, proto_init_filed, 1, "answer to INIT_FILE")
