/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson monitor STATE_DIR MAX_SANDBOXES WARM ZYGOTE_IDLE_S ZYGOTE_AGE_S ZYGOTE_FORKS
 * TOTAL_BYTES`: the privileged process of the native engine. Only native_monitor_start() starts it,
 * with its channel as descriptor 3. It reads no settings. */
#include "cmd/cmd.h"

#include "base/parse.h"
#include "engine/inside/proto.h"
#include "engine/native/native.h"

int cmd_monitor(int argc, char **argv)
{
	struct native_monitor_config config = {0};
	uint64_t max;

	if (argc != 8 || argv[1][0] != '/' || parse_u64(argv[2], 1, PROTO_SLOTS_MAX, &max) < 0 ||
	    parse_bool(argv[3], &config.warm) < 0 ||
	    parse_u64(argv[4], 0, NATIVE_ZYGOTE_MAX, &config.zygote.idle_s) < 0 ||
	    parse_u64(argv[5], 0, NATIVE_ZYGOTE_MAX, &config.zygote.age_s) < 0 ||
	    parse_u64(argv[6], 0, NATIVE_ZYGOTE_MAX, &config.zygote.forks) < 0 ||
	    parse_u64(argv[7], 0, UINT64_MAX, &config.total_bytes) < 0)
		return cmd_usage("monitor", "it is started by the other verbs, not by hand");
	config.state_dir = argv[1];
	config.max_sandboxes = (uint32_t)max;
	return monitor_main(&config);
}
