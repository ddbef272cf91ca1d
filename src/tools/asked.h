/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers for one hour, in memory and per owner, for which hosts a person was asked without
 * saying yes. It limits how often a model can ask: neither another sandbox nor one more host
 * gives it more questions. Private to this folder. */
#pragma once

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define ASKED_HOSTS 8u /* an owner gets as many questions in all as for this many hosts */

/* LIST holds the questions; initialise it with list_init(). */

/* May OWNER's person be asked for DOMAIN? After the first question there may be AGAIN more
 * within the hour. NOW is monotonic, in ns. */
bool asked_may(struct list *list, const char *owner, const char *domain, unsigned again,
	       uint64_t now);
/* Counts a question that is being asked. Without memory it is not counted. */
void asked_note(struct list *list, const char *owner, const char *domain, uint64_t now);
/* The person agreed: forgets the questions for DOMAIN. */
void asked_forget(struct list *list, const char *owner, const char *domain);
void asked_free(struct list *list);
