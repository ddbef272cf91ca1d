/* SPDX-License-Identifier: Apache-2.0 */
/* Every message between the front, the makers, and init.
 * M(NAME, from, to, struct, most descriptors, served, "what it asks or tells")
 *   from, to   F front, M a maker (monitor or keeper), I init; a receiver refuses messages from or to others
 *   served     BOTH(X), MONITOR(X): a request from F to M, and the makers that have it as serve_X(). Every maker checks
 *              it with check_X() (maker/common/requests.c); one that lacks it answers MON_UNSUPPORTED, and the front
 *              takes that with lacks_X()
 *              FRONT(X): from M to F; the front takes it with on_X()
 *              OTHER: the first message of a maker, and all of init
 * The tables of functions are made from this one, so a function that is missing does not compile.
 * The size of a message is that of its struct; any other length ends the connection. */
/* clang-format off */
M(MON_HELLO, M, F, proto_mon_hello, 1, OTHER, "the monitor is up; what it can enforce; the folder of images, if there is one")
M(MON_CREATE, F, M, proto_mon_create, 0, BOTH(create), "make a sandbox in a free slot")
M(MON_CREATED, M, F, proto_mon_created, 4, FRONT(created), "channel to init, counters: out of memory, peak, CPU; or the step that failed")
M(MON_DESTROY, F, M, proto_mon_slot, 0, BOTH(destroy), "kill a sandbox; a slot that is free already is no error")
M(MON_GONE, M, F, proto_mon_gone, 0, FRONT(gone), "nothing of a sandbox is left, its slot is free again; its CPU time, if asked for")
M(MON_USAGE, F, M, proto_mon_slot, 0, BOTH(usage), "what does a sandbox use")
M(MON_USED, M, F, proto_mon_used, 0, FRONT(used), "answer to MON_USAGE")
M(MON_FORGET, F, M, proto_mon_forget, 0, BOTH(forget), "remove a stored workspace")
M(MON_FORGOTTEN, M, F, proto_mon_forgotten, 0, FRONT(forgotten), "answer to MON_FORGET")
M(MON_WARM, F, M, proto_mon_slot, 0, MONITOR(warm), "a clean interpreter for a sandbox that has lost its own")
M(MON_WARMED, M, F, proto_mon_warmed, 1, FRONT(warmed), "answer to MON_WARM: the channel to it, for init")
M(INIT_CONFIG, M, I, proto_init_config, 8, OTHER, "first message to init: limits and the descriptors it lives with")
M(INIT_READY, I, F, proto_init_ready, 1, OTHER, "isolation is complete, runs may start; the egress listener, if asked for; a contained init always tries to send one")
M(INIT_FAILED, I, F, proto_init_failed, 0, OTHER, "a step of the set-up failed; init ends")
M(INIT_COLD, I, F, proto_init_cold, 0, OTHER, "the clean interpreter is gone; runs are cold until there is another")
M(INIT_ZYGOTE, I, F, proto_init_zygote, 0, OTHER, "the interpreter that a contained init starts itself has ended too often, and what it said last; once")
M(INIT_WARM, F, I, proto_init_warm, 1, OTHER, "the channel to a new clean interpreter; or there will be none")
M(INIT_REST, F, I, proto_init_note, 0, OTHER, "end every interpreter that can be forked again")
M(INIT_RUN, F, I, proto_init_run, 7, OTHER, "start a run")
M(INIT_SIGNAL, F, I, proto_init_signal, 0, OTHER, "signal the run, or end it")
M(INIT_ENDED, I, F, proto_init_ended, 0, OTHER, "a run has ended and all its processes are killed")
M(INIT_FILE, F, I, proto_init_file, 1, OTHER, "open, put, commit, remove, list, measure")
M(INIT_FILED, I, F, proto_init_filed, 1, OTHER, "answer to INIT_FILE")
M(INIT_CHECKPOINT, F, I, proto_init_checkpoint, 0, OTHER, "save, restore or drop a checkpoint")
M(INIT_CHECKPOINTED, I, F, proto_init_checkpointed, 0, OTHER, "answer to INIT_CHECKPOINT")
M(MON_LIMIT, F, M, proto_mon_limit, 0, BOTH(limit), "other limits for a sandbox that lives")
M(MON_LIMITED, M, F, proto_mon_limited, 0, FRONT(limited), "answer to MON_LIMIT")
M(INIT_LIMIT, F, I, proto_init_limit, 0, OTHER, "limits of the sandbox were changed; init keeps its own watches in step")
M(MON_CHARGED, F, M, proto_mon_charged, 0, MONITOR(charged), "how much of the memory of all sandboxes together is charged to others")
M(MON_UNSUPPORTED, M, F, proto_mon_unsupported, 0, FRONT(unsupported), "answer to a request that this maker does not serve")
M(MON_RATION, M, F, proto_mon_ration, 0, FRONT(ration), "how much of its disk a sandbox gets from the host")
M(MON_SPACE, M, F, proto_mon_space, 0, FRONT(space), "how much space the disk of the host has, and how much of it is promised")
M(MON_ZYGOTE, M, F, proto_mon_zygote, 0, FRONT(zygote), "the zygote of an image could not be started, and what it said; once until one was")
M(MON_KEEP, F, M, proto_mon_keep, 0, MONITOR(keep), "the workspace of a session that lives becomes a stored one")
M(MON_KEPT, M, F, proto_mon_kept, 0, FRONT(kept), "answer to MON_KEEP")
M(INIT_FORGET, F, I, proto_init_forget, 0, OTHER, "end the session of a context")
M(INIT_KEEP, F, I, proto_init_note, 0, OTHER, "the workspace may be stored from now on: what is uploaded is flushed")
