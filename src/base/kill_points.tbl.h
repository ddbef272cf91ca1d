/* SPDX-License-Identifier: Apache-2.0 */
/* Where a test build can be stopped or killed: K(NAME, "process", "what has just happened").
 * The process is the one that passes the point. For each row tests/suites/kill has an operation that
 * must reach it. */

/* ---- creation ---- */
K(REQUEST_READ, "front", "the head of a request was checked")
K(SANDBOX_RESERVED, "front", "the id is in the table")
K(CREATE_SENT, "front", "the monitor was asked for a sandbox")
K(CREATE_TAKEN, "monitor", "the request for a sandbox was checked")
K(TEMPLATE_ENTERED, "template", "the image's namespaces are there, with nothing in them")
K(TEMPLATE_BUILT, "template", "the image's mounts are made")
K(CGROUP_MADE, "monitor", "the sandbox has its control groups")
K(MAKER_FORKED, "monitor", "the maker was forked")
K(MAKER_JOINED, "maker", "it has joined the groups")
K(MAKER_ENTERED, "maker", "it is in the image's namespaces, with the uid of the sandbox")
K(MAKER_MAPPED, "maker", "the sandbox's user namespace is there")
K(INIT_CLONED, "maker", "init was cloned, and nobody knows its pid")
K(INIT_PLACED, "maker", "in init's process, before init is executed")
K(MAKER_ENDED, "monitor", "the end of the maker was seen")
K(CREATED_SENT, "monitor", "the front was told of the sandbox")
K(INIT_CONFIGURED, "init", "it has read what it is to be")
K(INIT_MOUNTED, "init", "the mounts are made, nothing is left of the template's")
K(INIT_DROPPED, "init", "all privileges are given up")
K(INIT_READY, "init", "the front was told that it is ready")
K(CREATED_TAKEN, "front", "the channel to init has come")
K(READY_TAKEN, "front", "init is ready")
K(POOL_FILLED, "front", "a sandbox of the pool is ready")
K(POOL_CLAIMED, "front", "a sandbox was taken from the pool")

/* ---- warm interpreters ---- */
K(ZYGOTE_FORKED, "monitor", "the process of a zygote was forked")
K(ZYGOTE_READY, "zygote", "everything is imported")
K(CLEAN_ASKED, "monitor", "the zygote was asked for a clean interpreter")
K(CLEAN_TAKEN, "zygote", "it was asked for a clean interpreter")
K(CLEAN_FORKED, "zygote", "a clean interpreter was forked, and the process between the two goes")
K(CLEAN_ENTERED, "interpreter", "the clean interpreter is in its sandbox")
K(SPARE_TIED, "interpreter", "a spare has joined the groups and is tied")

/* ---- a run ---- */
K(RUN_SENT, "front", "code and pipes were sent to init")
K(RUN_TAKEN, "init", "the request for a run was checked")
K(RUN_GIVEN, "init", "a spare has got the code")
K(RUN_ENTERED, "interpreter", "a spare has become the run")
K(RUN_FORKED, "init", "a cold run was forked")
K(RUN_TIED, "run", "a cold run is tied, and not executed yet")
K(OUTPUT_READ, "front", "the first output was read")
K(RUN_OVER, "init", "the first process has ended, nothing else was killed yet")
K(END_SENT, "init", "the front was told of the end")
K(END_TAKEN, "front", "the end of a run has come")
K(RUN_SCANNED, "front", "the new files are known")
K(RUN_NOTED, "front", "the row of history waits to be written")
K(ANSWER_WRITTEN, "front", "the whole answer was given to the kernel")

/* ---- state ---- */
K(STATE_TAKEN, "init", "the run of a session has become its state, the old one is gone")
K(NEXT_READY, "init", "the session has a fork for its next run")
K(CHECKPOINT_SENT, "front", "init was asked to keep or to bring back a state")
K(CHECKPOINT_TAKEN, "init", "the question about a state was checked")
K(FILES_COPIED, "copier", "the files of a kept state are copied, and have no name yet")
K(FILES_ASIDE, "copier", "the files of before are aside, nothing came back yet")
K(FILES_BACK, "copier", "the files came back, those of before are still aside")
K(CHECKPOINT_DONE, "init", "the state is kept or back, the front does not know")
K(CHECKPOINT_ANSWERED, "front", "the answer about a state has come")

/* ---- the end of a sandbox ---- */
K(CLOSE_MARKED, "front", "the id is out of the table")
K(DESTROY_SENT, "front", "the monitor was asked to end a sandbox")
K(DESTROY_TAKEN, "monitor", "the request to end a sandbox was checked")
K(INIT_KILLED, "monitor", "init was killed")
K(INIT_REAPED, "monitor", "init is reaped, the groups are there")
K(CGROUP_REMOVED, "monitor", "the groups are removed")
K(GONE_SENT, "monitor", "the front was told that nothing is left")
K(GONE_TAKEN, "front", "nothing is left of the sandbox")

/* ---- stored sandboxes ---- */
K(RECORD_ADDED, "front", "the record is stored, there is no workspace yet")
K(STORED_ASIDE, "maker", "a new workspace is complete and flushed, and has no name")
K(STORED_NAMED, "maker", "a new workspace has its name")
K(STORED_LOCKED, "maker", "the workspace is locked")
K(DISK_ATTACHED, "maker", "the workspace is attached to a loop device")
K(STORED_MOUNTED, "maker", "the workspace is a mount that is attached nowhere")
K(FORGET_SENT, "front", "the monitor was asked to forget a workspace")
K(STORED_DEAD, "monitor", "the workspace has lost its name")
K(SWEEP_BEGUN, "sweep", "what lost its name is about to be removed")
K(STORED_FORGOTTEN, "monitor", "the front was told that the workspace is gone")
K(FORGOTTEN_TAKEN, "front", "the workspace is gone, the record is there")
K(RECORD_REMOVED, "front", "the record is gone")

/* ---- the database ---- */
K(COMMIT_NEXT, "front", "a transaction is complete but for its commit")
K(COMMIT_DONE, "front", "a transaction is committed")
