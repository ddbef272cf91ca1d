/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares an unpacked root file system so that an engine can mount it read-only: mount points, the
 * names that sandboxes expect, the user `sandbox`. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#define SANDBOX_USER "sandbox"
#define SANDBOX_UID  1000

int image_root_finish(int root, struct err *e) MUST_CHECK;
