/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive doubly linked list: the head is a node that points to itself when empty. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev;
	struct list *next;
};

static inline void list_init(struct list *l)
{
	l->prev = l;
	l->next = l;
}

static inline bool list_is_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_append(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

/* Safe on a node that is in no list, if it was initialised. */
static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

#define list_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))
/* The body may remove NODE itself, nothing else. */
#define list_for_each(node, head)                                                                  \
	for (struct list *node = (head)->next, *node##_next = node->next; node != (head);          \
	     node = node##_next, node##_next = node->next)
