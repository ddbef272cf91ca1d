/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

struct letter {
	char c;
	struct list node;
};

/* The letters of the list in order, as a string in TEXT; checks the links in both directions. */
static const char *spell(const struct list *head, char text[8])
{
	size_t n = 0;

	for (struct list *l = head->next; l != head && n < 7; l = l->next) {
		assert_ptr_equal(l->next->prev, l);
		assert_ptr_equal(l->prev->next, l);
		text[n++] = list_entry(l, struct letter, node)->c;
	}
	text[n] = '\0';
	return text;
}

static void add(struct list *head, struct letter *letters, const char *text)
{
	for (size_t i = 0; text[i]; i++) {
		letters[i].c = text[i];
		list_init(&letters[i].node);
		list_append(head, &letters[i].node);
	}
}

static void test_order(void **state)
{
	struct list head = LIST_INIT(head);
	struct letter l[3], first = {.c = 'x'};
	char text[8];

	(void)state;
	assert_true(list_is_empty(&head));
	add(&head, l, "abc");
	assert_false(list_is_empty(&head));
	list_prepend(&head, &first.node);
	assert_string_equal(spell(&head, text), "xabc");
	assert_ptr_equal(list_first(&head, struct letter, node), &first);
	assert_ptr_equal(list_last(&head, struct letter, node), &l[2]);
}

static void test_remove(void **state)
{
	struct list head = LIST_INIT(head);
	struct letter l[3];
	char text[8];

	(void)state;
	add(&head, l, "abc");
	list_remove(&l[1].node);
	assert_string_equal(spell(&head, text), "ac");
	assert_true(list_is_empty(&l[1].node));
	list_remove(&l[1].node); /* again: it is in no list */
	assert_string_equal(spell(&head, text), "ac");
	list_remove(&l[0].node);
	list_remove(&l[2].node);
	assert_true(list_is_empty(&head));
}

static void test_pop(void **state)
{
	struct list head = LIST_INIT(head);
	struct letter l[2];

	(void)state;
	assert_null(list_pop(&head));
	assert_null(list_pop_first(&head, struct letter, node));
	assert_null(list_first(&head, struct letter, node));
	assert_null(list_last(&head, struct letter, node));
	add(&head, l, "ab");
	assert_ptr_equal(list_pop_first(&head, struct letter, node), &l[0]);
	assert_ptr_equal(list_pop_first(&head, struct letter, node), &l[1]);
	assert_true(list_is_empty(&head));
}

static void test_splice(void **state)
{
	struct list to = LIST_INIT(to), from = LIST_INIT(from);
	struct letter a[2], b[2];
	char text[8];

	(void)state;
	list_splice(&to, &from);
	assert_true(list_is_empty(&to));
	add(&from, b, "cd");
	list_splice(&to, &from);
	assert_string_equal(spell(&to, text), "cd");
	assert_true(list_is_empty(&from));
	add(&from, a, "ab");
	list_splice(&to, &from);
	assert_string_equal(spell(&to, text), "cdab");
	assert_true(list_is_empty(&from));
}

static void test_remove_in_a_loop(void **state)
{
	struct list head = LIST_INIT(head);
	struct letter l[5];
	char text[8];

	(void)state;
	add(&head, l, "abcde");
	list_for_each(n, &head) {
		if (list_entry(n, struct letter, node)->c % 2)
			list_remove(n);
	}
	assert_string_equal(spell(&head, text), "bd");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_order),
	    cmocka_unit_test(test_remove),
	    cmocka_unit_test(test_pop),
	    cmocka_unit_test(test_splice),
	    cmocka_unit_test(test_remove_in_a_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
