/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/asked.h"

#include "base/rand.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define REMEMBERED_NS (3600 * NS_PER_S)
#define QUESTIONS_MAX 4096u /* of all owners; the oldest is forgotten first */

struct asked { /* the newest first */
	struct asked *next;
	uint64_t at_ns;
	size_t owner_len;
	char text[]; /* owner, NUL, domain, NUL */
};

static const char *domain_of(const struct asked *a)
{
	return a->text + a->owner_len + 1;
}

/* From *AT on all are too old, or too many. */
static void cut(struct asked **at)
{
	asked_free(*at);
	*at = NULL;
}

bool asked_may(struct asked **list, const char *owner, const char *domain, unsigned again,
	       uint64_t now)
{
	unsigned of_host = 0, of_owner = 0, n = 0;

	for (struct asked **at = list; *at; at = &(*at)->next) {
		if (now - (*at)->at_ns > REMEMBERED_NS || ++n >= QUESTIONS_MAX) {
			cut(at);
			break;
		}
		if (!streq((*at)->text, owner))
			continue;
		of_owner++;
		of_host += streq(domain_of(*at), domain);
	}
	return of_host <= again && of_owner < ASKED_HOSTS * (again + 1);
}

void asked_note(struct asked **list, const char *owner, const char *domain, uint64_t now)
{
	size_t owner_len = strlen(owner), domain_len = strlen(domain);
	struct asked *a = malloc(sizeof(*a) + owner_len + domain_len + 2);

	if (!a)
		return;
	a->at_ns = now;
	a->owner_len = owner_len;
	memcpy(a->text, owner, owner_len + 1);
	memcpy(a->text + owner_len + 1, domain, domain_len + 1);
	a->next = *list;
	*list = a;
}

void asked_forget(struct asked **list, const char *owner, const char *domain)
{
	for (struct asked **at = list; *at;) {
		struct asked *a = *at;

		if (!streq(a->text, owner) || !streq(domain_of(a), domain)) {
			at = &a->next;
			continue;
		}
		*at = a->next;
		free(a);
	}
}

void asked_free(struct asked *list)
{
	while (list) {
		struct asked *gone = list;
		list = gone->next;
		free(gone);
	}
}
