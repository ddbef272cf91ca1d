/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of libraries whose own words do not say what to do. Private to this folder. */
#pragma once

/* TEXT is the end of what a failed run wrote to stderr, as signs_tail() gives it. Returns what to do, or NULL. */
const char *error_hint_of(const char *text);
