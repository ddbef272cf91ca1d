/* SPDX-License-Identifier: Apache-2.0 */
/* Makes an unpacked root file system into one that an engine can mount read-only: the places that
 * it mounts over, the names that it expects, the user `sandbox`. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#define SANDBOX_USER "sandbox"
#define SANDBOX_UID  1000

int image_root_finish(int root, struct err *e) MUST_CHECK;
