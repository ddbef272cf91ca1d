/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson keeper STATE_DIR MAX_SANDBOXES WARM HOST CERTS RUNTIME LEVELS LEVEL INSTALL_TOOL`: the process
 * that talks to the container daemon. Only docker_begin() starts it, with its channel as descriptor 3. It reads no
 * settings. */
#include "cmd/cmd.h"

#include "base/parse.h"
#include "engine/maker/docker/docker.h"
#include "engine/protocol/proto.h"

#include <string.h>

int cmd_keeper(int argc, char **argv)
{
	struct keeper_config config = {0};
	struct err e = ERR_INIT;
	uint64_t max;

	if (argc != 10 || argv[1][0] != '/' || parse_u64(argv[2], 1, PROTO_SLOTS_MAX, &max) < 0 ||
	    parse_bool(argv[3], &config.warm) < 0 || strlen(argv[9]) > ENGINE_TOOL_MAX)
		return cmd_usage("keeper", "it is started by the other verbs, not by hand");
	if (engine_levels_read(argv[7], argv[8], argv[6], &config.levels, &e) < 0)
		return cmd_usage("keeper", "%s", e.text);
	config.state_dir = argv[1];
	config.max_sandboxes = (uint32_t)max;
	config.host = argv[4];
	config.certs = argv[5];
	config.install_tool = argv[9];
	return keeper_main(&config);
}
