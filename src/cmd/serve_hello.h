/* SPDX-License-Identifier: Apache-2.0 */
/* What `caisson serve` prints when all its listeners are open. */
#pragma once

#include "app/app.h"

/* Prints to stdout how to reach the server at BASE: for clients, and of a worker for routers, on TLS_PORT. NEEDS_KEY: clients need a
 * key. */
void serve_hello(const struct app *a, const char *base, uint16_t tls_port, bool needs_key);
