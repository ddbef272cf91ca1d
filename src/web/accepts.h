/* SPDX-License-Identifier: Apache-2.0 */
/* Accept-Encoding, RFC 9110 §12.5.3. Private to src/web. */
#pragma once

#include <stdbool.h>

/* May an answer have the content coding CODING ("gzip")? HEADER NULL: no, only unchanged bytes are known to be
 * welcome. A coding with q=0 is refused; "*" names every coding that is not named itself. */
bool accepts_coding(const char *header, const char *coding);
