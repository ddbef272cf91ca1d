/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson monitor STATE_DIR MAX_SANDBOXES WARM ZYGOTE_IDLE_S ZYGOTE_AGE_S ZYGOTE_FORKS
 * TOTAL_BYTES INSTALL_TOOL WORKSPACE`: the privileged process of the native engine. Only native_begin() starts it,
 * with its channel as descriptor 3. It reads no settings. */
#include "cmd/cmd.h"

#include "base/parse.h"
#include "engine/maker/native/native.h"
#include "engine/protocol/proto.h"

#include <string.h>

#define TOOL_CHARS "abcdefghijklmnopqrstuvwxyz_"

int cmd_monitor(int argc, char **argv)
{
	struct native_monitor_config config = {0};
	uint64_t max;
	uint64_t workspace;

	if (argc != 11 || argv[1][0] != '/' || parse_u64(argv[2], 1, PROTO_SLOTS_MAX, &max) < 0 ||
	    parse_bool(argv[3], &config.warm) < 0 ||
	    parse_u64(argv[4], 0, NATIVE_ZYGOTE_MAX, &config.zygote.idle_s) < 0 ||
	    parse_u64(argv[5], 0, NATIVE_ZYGOTE_MAX, &config.zygote.age_s) < 0 ||
	    parse_u64(argv[6], 0, NATIVE_ZYGOTE_MAX, &config.zygote.forks) < 0 ||
	    parse_u64(argv[7], 0, UINT64_MAX, &config.total_bytes) < 0 ||
	    strspn(argv[8], TOOL_CHARS) != MIN(strlen(argv[8]), (size_t)ENGINE_TOOL_MAX) ||
	    parse_u64(argv[9], 0, ENGINE_WORKSPACE_MAX_ - 1, &workspace) < 0 ||
	    parse_bool(argv[10], &config.moves) < 0)
		return cmd_usage("monitor", "it is started by the other verbs, not by hand");
	config.state_dir = argv[1];
	config.install_tool = argv[8][0] ? argv[8] : NULL;
	config.max_sandboxes = (uint32_t)max;
	config.workspace = (enum engine_workspace)workspace;
	return monitor_main(&config);
}
