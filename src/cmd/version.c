/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <stdio.h>

int cmd_version(int argc UNUSED, char **argv UNUSED)
{
	(void)printf("caisson %s\n", CAISSON_VERSION);
	return 0;
}
