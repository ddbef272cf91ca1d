/* SPDX-License-Identifier: Apache-2.0 */
/* Default places of files and folders. */
#pragma once

#include "config/settings.h"

/* The state folder of the settings, neither resolved nor made: --state-dir, else
 * /var/lib/caisson as root, $XDG_DATA_HOME/caisson or ~/.local/share/caisson otherwise. Always
 * absolute. */
int config_state_dir(const struct settings *s, char *ret, size_t size, struct err *e) MUST_CHECK;

/* Name of the image on the native engine: "llm-sandbox:latest" and "python-sandbox:latest" are
 * science; a `:latest` at the end of any name is dropped. On docker the reference itself. RET has
 * CONFIG_IMAGE_SIZE bytes. */
#define CONFIG_IMAGE_SIZE 208
int config_image_name(const struct settings *s, char *ret, struct err *e) MUST_CHECK;

/* Where the image NAME is downloaded from: "HOST/FOLDER/NAME:TAG". ERR_NOT_FOUND: SANDBOX_IMAGE_SOURCE is empty.
 * ERR_SETTING_INVALID: it names no folder of a registry. */
int config_image_reference(const struct settings *s, const char *name, char *ret, size_t size,
			   struct err *e) MUST_CHECK;

/* The socket over which `stdio` finds `serve`: --socket, else /run/caisson/server.sock as root,
 * $XDG_RUNTIME_DIR/caisson/server.sock otherwise, and run/server.sock in the state folder for a user without a runtime
 * folder, as in a container. RET is "" if there is none: the setting is `off`, or the path is too long. */
int config_socket_path(const struct settings *s, char *ret, size_t size, struct err *e) MUST_CHECK;
