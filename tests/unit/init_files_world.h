/* SPDX-License-Identifier: Apache-2.0 */
/* init's file agent on folders of this machine, for tests of it: the front is the test. Each test runs once as that of a
 * sandbox that sends descriptors, and once as an inward one (BOTH). */
#pragma once

#include "base/attr.h"
#include "base/fdio.h"
#include "file_places.h"
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

extern struct init in;
extern uint32_t seq, last_put; /* COMMIT and DROP name the last put */
extern struct proto_init_filed answer;
extern int answer_fd;
extern char root[64]; /* the workspace */
extern int front;     /* the other end of init's channel */

int set_up(void **state);
int tear_down(void **state);
/* One request to its end; the errno of the answer, -1 = refused as impossible. */
int ask(enum proto_file_op op, const char *path, uint32_t flags);
void put(const char *path, const char *text);
void assert_content(const char *path, const char *want);

#define BOTH(test)                                                                                 \
	cmocka_unit_test_setup_teardown(test, set_up, tear_down),                                  \
	    cmocka_unit_test_prestate_setup_teardown(test, set_up, tear_down, &in)
