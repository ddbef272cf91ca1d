/* SPDX-License-Identifier: Apache-2.0 */
/* The key with which a server shows that it speaks WebSocket: RFC 6455 §4.2.2. */
#pragma once

#include <stdbool.h>

#define WS_ACCEPT_SIZE 29 /* 20 bytes as base64, and NUL */

/* Is TEXT 16 bytes as base64, as Sec-WebSocket-Key must be? */
bool ws_is_key(const char *text);
/* The value of Sec-WebSocket-Accept for such a key. */
void ws_accept(const char *key, char ret[WS_ACCEPT_SIZE]);
