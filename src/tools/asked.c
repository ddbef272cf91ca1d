/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/asked.h"

#include "base/rand.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define REMEMBERED_NS (3600 * NS_PER_S)
#define QUESTIONS_MAX 4096u /* of all owners together; the oldest is forgotten first */

struct asked { /* one question; the list is newest first */
	struct list node;
	uint64_t at_ns;
	size_t owner_len;
	char text[]; /* owner, NUL, domain, NUL */
};

static const char *domain_of(const struct asked *a)
{
	return a->text + a->owner_len + 1;
}

bool asked_may(struct list *list, const char *owner, const char *domain, unsigned again,
	       uint64_t now)
{
	unsigned of_host = 0, of_owner = 0, n = 0;

	list_for_each(l, list) {
		struct asked *a = list_entry(l, struct asked, node);

		if (now - a->at_ns > REMEMBERED_NS || ++n >= QUESTIONS_MAX) {
			list_remove(l);
			free(a);
		} else if (streq(a->text, owner)) {
			of_owner++;
			of_host += streq(domain_of(a), domain);
		}
	}
	return of_host <= again && of_owner < ASKED_HOSTS * (again + 1);
}

void asked_note(struct list *list, const char *owner, const char *domain, uint64_t now)
{
	size_t owner_len = strlen(owner), domain_len = strlen(domain);
	struct asked *a = malloc(sizeof(*a) + owner_len + domain_len + 2);

	if (!a)
		return;
	a->at_ns = now;
	a->owner_len = owner_len;
	memcpy(a->text, owner, owner_len + 1);
	memcpy(a->text + owner_len + 1, domain, domain_len + 1);
	list_prepend(list, &a->node);
}

void asked_forget(struct list *list, const char *owner, const char *domain)
{
	list_for_each(l, list) {
		struct asked *a = list_entry(l, struct asked, node);

		if (streq(a->text, owner) && streq(domain_of(a), domain)) {
			list_remove(l);
			free(a);
		}
	}
}

void asked_free(struct list *list)
{
	list_for_each(l, list)
		free(list_entry(l, struct asked, node));
	list_init(list);
}
