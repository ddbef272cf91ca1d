/* SPDX-License-Identifier: Apache-2.0 */
/* For which hosts a person was asked and has not said yes, during the last hour: so that nobody is
 * worn down by a model that asks again and again, in another sandbox or for one host more. Kept by
 * the owner of the sandboxes, in memory. For this folder alone. */
#pragma once

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define ASKED_HOSTS 8u /* of one owner all hosts together: as many questions as for eight */

/* LIST: questions that were asked; list_init() makes it empty. */

/* May OWNER's person be asked for DOMAIN, AGAIN times after the first? NOW is monotonic, in ns. */
bool asked_may(struct list *list, const char *owner, const char *domain, unsigned again,
	       uint64_t now);
/* The question goes out. Without memory it is not counted. */
void asked_note(struct list *list, const char *owner, const char *domain, uint64_t now);
/* The person said yes. */
void asked_forget(struct list *list, const char *owner, const char *domain);
void asked_free(struct list *list);
