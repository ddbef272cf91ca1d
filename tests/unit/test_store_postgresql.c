/* SPDX-License-Identifier: Apache-2.0 */
/* store in PostgreSQL: addresses that lead nowhere, a server that is killed, connections that are lost, two writers, a lock that stays.
 * All but the first kind need the server of tests/suites/postgres. */
#include "base/rand.h"
#include "base/text.h"
#include "store/store.h"
#include "store_database.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#define PASSWORD "hunter2-%2Fsecret"
#define RUNS     2000

struct world {
	char dir[64], path[96];
	struct store *s;
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/caisson-postgresql-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	(void)snprintf(w->path, sizeof(w->path), "%s/caisson.db", w->dir);
	empty_database();
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	w->s = store_close(w->s);
	assert_int_equal(rmdir(w->dir), 0); /* nothing of the database is here */
	free(w);
	return 0;
}

static int open_at(struct world *w, const char *address, unsigned busy_ms, struct err *e)
{
	const struct store_config config = {
	    .path = w->path, .address = address, .busy_ms = busy_ms};

	return store_open(&config, &w->s, e);
}

static void open_here(struct world *w)
{
	struct err e = ERR_INIT;

	if (open_at(w, test_address(), 5000, &e) < 0)
		fail_msg("%s", e.text);
}

static int add_user(struct world *w, const char *name, struct err *e)
{
	struct store_user u = {.active = true, .quota = STORE_QUOTA_DEFAULTS};

	(void)snprintf(u.name, sizeof(u.name), "%s", name);
	return store_user_add(w->s, &u, e);
}

static int64_t number(const char *sql)
{
	int64_t n = -1;

	assert_int_equal(psql(sql, &n), 0);
	return n;
}

#define NEEDS_SERVER()                                                                             \
	do {                                                                                       \
		if (!test_address()) {                                                             \
			print_message("skipped: `tests/run postgres` starts a server for it\n");   \
			skip();                                                                    \
		}                                                                                  \
	} while (0)

/* ---- without a server ---- */

static void test_addresses(void **state)
{
	static const struct {
		const char *address;
		enum err_code code;
	} rows[] = {
	    {"postgresql://u:" PASSWORD "@/d?host=/nonexistent", ERR_STORE_UNREACHABLE},
	    {"postgresql://u:" PASSWORD "@127.0.0.1:1/d?sslmode=disable", ERR_STORE_UNREACHABLE},
	    {"postgresql://u:" PASSWORD "@127.0.0.1:1/d?sslmode=verify-full",
	     ERR_STORE_UNREACHABLE},
	    {"postgresql://u:" PASSWORD "%zz@/d", ERR_STORE_FAILED},
	    {"postgresql://u:" PASSWORD "@/d?no_such_option=1", ERR_STORE_FAILED},
	    {"postgresql://u:" PASSWORD "@127.0.0.1:port/d", ERR_STORE_UNREACHABLE},
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err e = ERR_INIT;
		const int r = open_at(w, rows[i].address, 0, &e);

		assert_true(r < 0);
		assert_null(w->s);
		if (strstr(e.text, "built without") || strstr(e.text, "not installed")) {
			print_message("skipped: %s\n", e.text);
			skip();
		}
		assert_int_equal(e.code, rows[i].code);
		assert_true(text_starts_with(e.text, "the database, "));
		assert_null(strstr(e.text, "hunter2"));
	}
}

/* ---- a server that goes and comes ---- */

static void add_runs(struct world *w, int n)
{
	const struct store_run r = {.id = "r", .owner = "ada", .sandbox = "s", .started_ms = 1};

	for (int i = 0; i < n; i++)
		store_note_run(w->s, &r, 0);
}

/* Until the helper has written N rows. */
static void write_out(struct world *w, uint64_t n)
{
	struct store_counts counts = {0};

	for (int tries = 0; tries < 60 && counts.written < n; tries++) {
		store_flush(w->s);
		store_count(w->s, &counts);
		(void)usleep(50 * 1000);
	}
	assert_int_equal(counts.written, n);
	assert_int_equal(counts.queued, 0);
	assert_int_equal(counts.lost, 0);
	assert_int_equal(counts.aside, 0);
}

static void test_killed_server(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct err e = ERR_INIT;
	struct store_user got;

	open_here(w);
	assert_int_equal(add_user(w, "ada", &e), 0);
	add_runs(w, 100);
	write_out(w, 100);
	server("CAISSON_TEST_DATABASE_KILL");

	const uint64_t since = now_ns();
	assert_true(add_user(w, "bob", &e) < 0);
	assert_int_equal(e.code, ERR_STORE_UNREACHABLE);
	assert_true(store_user_find(w->s, "ada", &got, &e) < 0);
	assert_int_equal(e.code, ERR_STORE_UNREACHABLE);
	assert_true(now_ns() - since < 2 * NS_PER_S);
	add_runs(w, 100);
	store_flush(w->s);
	assert_true(store_in_trouble(w->s, &e));
	assert_int_equal(e.code, ERR_STORE_UNREACHABLE);

	server("CAISSON_TEST_DATABASE_START");
	(void)usleep(300 * 1000); /* the next try */
	e = ERR_INIT;
	assert_int_equal(add_user(w, "bob", &e), 0);
	assert_int_equal(store_user_find(w->s, "ada", &got, &e), 1);
	write_out(w, 200);
	assert_false(store_in_trouble(w->s, NULL));
	assert_int_equal(number("SELECT count(*) FROM runs"), 200);
	assert_int_equal(number("SELECT count(*) FROM users"), 2);
}

/* Many batches, also when the store is closed. */
static void test_many_rows(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;

	open_here(w);
	add_runs(w, RUNS);
	write_out(w, RUNS);
	add_runs(w, 1200);
	w->s = store_close(w->s);
	assert_int_equal(number("SELECT count(*) FROM runs"), RUNS + 1200);
	assert_int_equal(number("SELECT n FROM run_owners"), RUNS + 1200);
}

/* Ends the connection of the store while it writes runs, for it waits for our lock. */
static void lose_a_batch(struct world *w)
{
	struct store_counts counts;

	add_runs(w, 1);
	assert_int_equal(psql("DO $$ BEGIN LOCK TABLE runs IN EXCLUSIVE MODE; FOR i IN 1..1000 LOOP"
			      " PERFORM pg_stat_clear_snapshot(), pg_sleep(0.01);"
			      " PERFORM pg_terminate_backend(pid) FROM pg_stat_activity"
			      " WHERE application_name = 'caisson' AND wait_event_type = 'Lock';"
			      " EXIT WHEN FOUND; END LOOP; END $$",
			      NULL),
			 0);
	for (int i = 0; i < 1000; i++) {
		store_count(w->s, &counts);
		if (counts.failed > 0)
			return;
		(void)usleep(10 * 1000);
	}
	fail_msg("no batch has failed");
}

/* Rows are written once, however often the connection is lost, also while a commit is on its way. */
static void test_lost_connections(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct err e = ERR_INIT;

	open_here(w);
	lose_a_batch(w);
	for (int i = 0; i < 40; i++) {
		add_runs(w, RUNS / 40);
		(void)usleep(10 * 1000);
		(void)number("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
			     " WHERE pid <> pg_backend_pid() AND application_name = 'caisson'");
		(void)usleep(40 * 1000);
	}
	write_out(w, 1 + RUNS);
	assert_int_equal(number("SELECT count(*) FROM runs"), 1 + RUNS);
	assert_int_equal(number("SELECT runs FROM usage"), 1 + RUNS);
	assert_int_equal(add_user(w, "ada", &e), 0);
}

/* ---- answers that are lost ---- */

/* Stands between store and server. Shared with the processes that relay. */
struct relay {
	char from[96], to[96]; /* sockets */
	pid_t pid;
	volatile int
	    lose; /* commits whose answer is lost: the server gets them, and then the connection ends */
	volatile int lost;   /* of those */
	volatile int closed; /* nobody can connect */
};

static int unix_socket(const char *path, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	(void)snprintf(ret->sun_path, sizeof(ret->sun_path), "%s", path);
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/* False: the connection has ended. */
static bool pass(struct relay *r, int from, int to, bool of_client)
{
	char data[65536];
	const ssize_t n = read(from, data, sizeof(data));

	if (n <= 0 || send(to, data, (size_t)n, MSG_NOSIGNAL) != n)
		return false;
	if (!of_client || r->lose == 0 || !memmem(data, (size_t)n, "COMMIT", 7))
		return true;
	r->lose--;
	r->lost++;
	(void)usleep(200 * 1000); /* the server commits */
	return false;
}

static void relay_one(struct relay *r, int client)
{
	struct sockaddr_un to;
	const int server = unix_socket(r->to, &to);

	if (r->closed || connect(server, (struct sockaddr *)&to, sizeof(to)) < 0)
		_exit(0);
	for (;;) {
		struct pollfd p[] = {{.fd = client, .events = POLLIN},
				     {.fd = server, .events = POLLIN}};

		(void)poll(p, 2, -1);
		if ((p[0].revents && !pass(r, client, server, true)) ||
		    (p[1].revents && !pass(r, server, client, false)))
			_exit(0);
	}
}

static void relay_all(struct relay *r)
{
	struct sockaddr_un from;
	const int listening = unix_socket(r->from, &from);

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGCHLD, SIG_IGN);
	if (bind(listening, (struct sockaddr *)&from, sizeof(from)) < 0 ||
	    listen(listening, 16) < 0)
		_exit(1);
	for (;;) {
		const int client = accept(listening, NULL, NULL);

		if (client >= 0 && fork() == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			relay_one(r, client);
		}
		(void)close(client);
	}
}

static struct relay *start_relay(struct world *w)
{
	const char *folder = strstr(test_address(), "host=");
	struct relay *r =
	    mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char address[256];

	assert_true(r != MAP_FAILED);
	assert_non_null(folder);
	(void)snprintf(r->to, sizeof(r->to), "%.64s/.s.PGSQL.5432", folder + 5);
	(void)snprintf(r->from, sizeof(r->from), "%s/.s.PGSQL.5432", w->dir);
	const pid_t pid = fork(); /* not into what is shared: it would be 0 there */
	assert_true(pid >= 0);
	if (pid == 0)
		relay_all(r);
	r->pid = pid;
	while (access(r->from, F_OK) < 0)
		(void)usleep(1000);
	(void)usleep(50 * 1000); /* it listens */
	struct err e = ERR_INIT;
	(void)snprintf(address, sizeof(address), "postgresql://caisson@/caisson?host=%s", w->dir);
	if (open_at(w, address, 5000, &e) < 0)
		fail_msg("%s", e.text);
	return r;
}

static void end_relay(struct world *w, struct relay *r)
{
	w->s = store_close(w->s);
	assert_int_equal(kill(r->pid, SIGKILL), 0);
	assert_int_equal(waitpid(r->pid, NULL, 0), r->pid);
	assert_int_equal(unlink(r->from), 0);
	(void)munmap(r, sizeof(*r));
}

/* The server committed, and nobody heard of it. */
static void test_lost_answers(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct err e = ERR_INIT;
	struct relay *r = start_relay(w);

	r->lose = 1;
	assert_int_equal(add_user(w, "ada", &e), 0); /* the server is asked what became of it */
	assert_int_equal(r->lost, 1);
	assert_int_equal(number("SELECT count(*) FROM users"), 1);
	r->lose = 1;
	add_runs(w, 10);
	write_out(w, 10);
	assert_int_equal(r->lost, 2);
	assert_int_equal(number("SELECT count(*) FROM runs"), 10);

	/* While it cannot be asked, nobody says that the change was made or was not. */
	r->lose = 1;
	r->closed = 1;
	assert_true(add_user(w, "bob", &e) < 0);
	assert_int_equal(e.code, ERR_STORE_UNREACHABLE);
	assert_non_null(strstr(e.text, "look whether"));
	assert_int_equal(r->lost, 3);
	r->closed = 0;
	(void)usleep(300 * 1000);
	/* And a batch is not written again. */
	r->lose = 1;
	add_runs(w, 10);
	for (int i = 0; i < 300 && r->lost < 4; i++)
		(void)usleep(10 * 1000);
	r->closed = 1;
	assert_int_equal(r->lost, 4);
	(void)usleep(1500 * 1000);
	r->closed = 0;
	write_out(w, 20);
	assert_int_equal(number("SELECT count(*) FROM runs"), 20);
	assert_int_equal(number("SELECT runs FROM usage"), 20);
	end_relay(w, r);
}

/* ---- others ---- */

static void child_adds(const char *path, int wanted)
{
	struct world w = {0};
	struct err e = ERR_INIT;
	int n = 0;

	(void)snprintf(w.path, sizeof(w.path), "%s", path);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || open_at(&w, test_address(), 5000, &e) < 0)
		_exit(100);
	for (int i = 0; i < wanted; i++) {
		struct store_sandbox b = {.owner = "ada", .disk_bytes = 1};

		e = ERR_INIT;
		if (store_sandbox_add(w.s, &b, "", &(struct store_room){.owner_count = 25}, &e) ==
		    0)
			n++;
		else if (e.code != ERR_QUOTA_EXCEEDED)
			_exit(101);
	}
	w.s = store_close(w.s);
	_exit(n);
}

/* Nobody passes a limit together. */
static void test_two_writers(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	pid_t pids[2];
	int sum = 0;

	open_here(w);
	w->s = store_close(w->s);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0)
			child_adds(w->path, 20);
	}
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFEXITED(status));
		assert_true(WEXITSTATUS(status) <= 20);
		sum += WEXITSTATUS(status);
	}
	assert_int_equal(sum, 25);
	assert_int_equal(number("SELECT count(*) FROM sandboxes"), 25);
}

/* The lock of all writers, held by somebody else. */
static void test_foreign_lock(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct err e = ERR_INIT;

	open_here(w);
	w->s = store_close(w->s);
	assert_int_equal(open_at(w, test_address(), 50, &e), 0);
	const pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(psql("BEGIN; SELECT pg_advisory_xact_lock(8386112020297315432);"
			   "SELECT pg_sleep(2)",
			   NULL));
	while (number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0)
		(void)usleep(10 * 1000);
	assert_true(add_user(w, "ada", &e) < 0);
	assert_int_equal(e.code, ERR_STORE_BUSY);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	e = ERR_INIT;
	assert_int_equal(add_user(w, "ada", &e), 0);
}

static void test_read_only(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct err e = ERR_INIT;
	struct store_user got;

	open_here(w);
	assert_int_equal(add_user(w, "ada", &e), 0);
	w->s = store_close(w->s);
	char address[512];
	(void)snprintf(address, sizeof(address),
		       "%s&options=-c%%20default_transaction_read_only%%3Don", test_address());
	assert_true(open_at(w, address, 5000, &e) < 0);
	assert_int_equal(e.code, ERR_STORE_READ_ONLY);
	e = ERR_INIT;
	open_here(w);
	assert_int_equal(store_user_find(w->s, "ADA", &got, &e), 1);
	assert_int_equal(add_user(w, "Ada", &e), -EEXIST);
	assert_int_equal(e.code, ERR_ALREADY_EXISTS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_addresses, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_killed_server, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_many_rows, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_lost_connections, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_lost_answers, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_two_writers, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_foreign_lock, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_read_only, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
