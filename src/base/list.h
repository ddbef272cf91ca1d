/* SPDX-License-Identifier: Apache-2.0 */
/* The linked list of this project: doubly linked and intrusive, so an element needs no allocation
 * and leaves its list in constant time.
 *
 * A struct list is either a head or the node inside an element. Both point at themselves while the
 * list is empty or the element is in no list, so both must be initialised before their first use.
 *
 *	struct job { struct list node; … };
 *	struct list jobs = LIST_INIT(jobs);
 *	list_append(&jobs, &job->node);
 *	list_for_each(n, &jobs)
 *		look_at(list_entry(n, struct job, node)); */
#pragma once

#include "base/attr.h"

#include <stdbool.h>

struct list {
	struct list *prev;
	struct list *next;
};

/* For the definition of a variable: a list without elements. */
#define LIST_INIT(name) ((struct list){&(name), &(name)})

static inline void list_init(struct list *l)
{
	l->prev = l;
	l->next = l;
}

/* Of a head: the list has no element. Of a node: it is in no list. */
static inline bool list_is_empty(const struct list *l)
{
	return l->next == l;
}

/* NODE must be in no list, here and in list_append(). */
static inline void list_prepend(struct list *head, struct list *node)
{
	node->prev = head;
	node->next = head->next;
	head->next->prev = node;
	head->next = node;
}

static inline void list_append(struct list *head, struct list *node)
{
	list_prepend(head->prev, node);
}

/* Safe on a node that is in no list, if it was initialised. */
static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* Moves all elements of FROM to the end of TO; FROM is empty then. */
static inline void list_splice(struct list *to, struct list *from)
{
	if (list_is_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

/* Takes the first node out of the list; NULL: the list is empty. */
static inline struct list *list_pop(struct list *head)
{
	struct list *node = head->next;

	if (node == head)
		return NULL;
	list_remove(node);
	return node;
}

/* The element that NODE is a member of. NODE must not be NULL. */
#define list_entry(node, type, member) CONTAINER_OF(node, type, member)

/* The first or the last element; NULL: the list is empty. */
#define list_first(head, type, member)                                                             \
	(list_is_empty(head) ? NULL : list_entry((head)->next, type, member))
#define list_last(head, type, member)                                                              \
	(list_is_empty(head) ? NULL : list_entry((head)->prev, type, member))

/* Takes the first element out of the list; NULL: the list is empty. */
#define list_pop_first(head, type, member)                                                         \
	(list_is_empty(head) ? NULL : list_entry(list_pop(head), type, member))

/* The body may remove NODE and free its element. It must not remove any other node. */
#define list_for_each(node, head)                                                                  \
	for (struct list *node = (head)->next, *node##_next = node->next; node != (head);          \
	     node = node##_next, node##_next = node->next)
