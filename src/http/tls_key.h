/* SPDX-License-Identifier: Apache-2.0 */
/* The key in a peer's certificate. A peer chooses how large it is, and the library verifies a signature by it before it asks whether the
 * certificate is acceptable: an RSA key of 100,000 bits with an exponent of the same size would keep the event loop for minutes. */
#pragma once

/* SESSION ends its handshake when a certificate comes whose key is costly. */
void tls_key_bound(void *session);
