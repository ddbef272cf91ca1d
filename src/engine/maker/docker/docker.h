/* SPDX-License-Identifier: Apache-2.0 */
/* The engine that makes its sandboxes in containers: of Docker, or of Podman's compatible socket.
 *
 * Whoever may talk to the daemon can become root on its machine. So the daemon's socket belongs to a
 * process of its own, the keeper, which speaks to the front like the monitor of the native engine:
 * the messages MON_... of protocol/proto.h, fixed in size. What the front does is the same for both
 * (engine/front): slots, pool, stored workspaces, memory of all sandboxes together.
 *
 * Init is the first process of a container. It comes in with a read-only bind mount and connects to
 * a socket in a folder that only this container has. So the daemon must run on this machine. */
#pragma once

#include "engine/engine.h"

#define DOCKER_HOST_MAX 200 /* bytes of the daemon's address */

struct engine_ops;
extern const struct engine_ops docker_ops;

struct keeper_config {
	const char *state_dir;  /* absolute; the keeper's own folder is `docker` below it */
	uint32_t max_sandboxes; /* 1 .. PROTO_SLOTS_MAX */
	bool warm;
	const char *host;  /* unix:///path, tcp://host:port; "" = the first socket that is there */
	const char *certs; /* folder with ca.pem, cert.pem, key.pem; "" = no TLS */
	struct engine_levels levels;
	const char *install_tool; /* engine_config.install_tool; "" = none */
};

/* Runs the keeper on descriptor 3 until its channel closes; returns the exit status. */
int keeper_main(const struct keeper_config *config);

/* Whether the daemon's runtime of a level can be used. */
enum docker_runtime {
	DOCKER_RUNTIME_GOOD,
	DOCKER_RUNTIME_MISSING, /* the daemon has no runtime of that name */
};

/* What a daemon says about itself. */
struct docker_about {
	char host[DOCKER_HOST_MAX]; /* where it was found */
	char product[32];           /* "Docker", "Podman" */
	char version[32];
	char api[16];                      /* the version of the API that both speak */
	char runtime[ENGINE_RUNTIME_SIZE]; /* its default */
	char runtimes[512];                /* the names of all, with blanks between them */
	enum docker_runtime level[ENGINE_LEVELS_MAX]; /* whether each level can be made */
	char cgroup[16];                              /* "v1", "v2" */
	uint32_t enforced;                            /* enum engine_cap bits */
	uint32_t best_effort;
	bool userns;   /* it maps the ids of containers to others */
	bool rootless; /* it runs as a plain user */
	bool seccomp;
};

/* Asks the daemon of CONFIG, for at most a few seconds. */
int docker_look(const struct keeper_config *config, struct docker_about *ret,
		struct err *e) MUST_CHECK;
