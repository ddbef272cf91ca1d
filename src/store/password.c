/* SPDX-License-Identifier: Apache-2.0 */
/* Passwords: argon2id, 64 MiB and about 0.1 s each (a login twice that), one at a time on a thread of
 * the pool. A flood of logins costs at most one core and 64 MiB, and never a turn of the loop. Each lane has a
 * short queue; when it is full, the next password is refused at once. */
#include "store/db.h"

#include "base/text.h"
#include "base/workers.h"

#include <argon2.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define MEMORY_KIB 65536u
#define PASSES     2u
#define PREFIX     "$argon2id$v=19$m=65536,t=2,p=1$"
#define SALT_BYTES 16u
#define HASH_BYTES 32u
#define BASE64_MAX 48u /* characters of a salt or a hash, with the NUL */
#define FREE_STEP  (1u << 20)

/* The hash of a random text that nobody knows. Checking it costs the same as a real one. */
static const char nobody[] = PREFIX "cpcQ0sL//ERfJVORXeo8pQ"
				    "$EQl/7QfJmKW2buKJaouj8leVukjNPaXIN0WYi7b6amM";

/* ---- argon2id (RFC 9106), with a memory of our own ---- */

/* crypto_pwhash(3) of libsodium lets the kernel fill 64 MiB in one call (MAP_POPULATE). Meanwhile the process's map of
 * memory is locked, and every mmap(2) and munmap(2) of the event loop waits: 0.2 s on a busy machine. libargon2 takes
 * the memory from us: it is filled page by page as it is used, and given back in steps. */
static int take_memory(uint8_t **ret, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*ret = p == MAP_FAILED ? NULL : p;
	return p == MAP_FAILED ? -errno : 0;
}

static void give_memory(uint8_t *p, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += FREE_STEP)
		(void)madvise(p + at, MIN((size_t)FREE_STEP, bytes - at), MADV_DONTNEED);
	(void)munmap(p, bytes);
}

static int derive(const uint8_t salt[SALT_BYTES], const char *password, void *ret, size_t len)
{
	argon2_context c = {.out = ret,
			    .outlen = (uint32_t)len,
			    .pwd = (uint8_t *)(uintptr_t)password,
			    .pwdlen = (uint32_t)strlen(password),
			    .salt = (uint8_t *)(uintptr_t)salt,
			    .saltlen = SALT_BYTES,
			    .t_cost = PASSES,
			    .m_cost = MEMORY_KIB,
			    .lanes = 1,
			    .threads = 1,
			    .version = ARGON2_VERSION_13,
			    .allocate_cbk = take_memory,
			    .free_cbk = give_memory};

	return argon2_ctx(&c, Argon2_id) == ARGON2_OK ? 0 : -ENOMEM;
}

/* The text of the reference implementation, which libsodium writes as well: RET has STORE_HASH_SIZE bytes. */
static int hash_with(const uint8_t salt[SALT_BYTES], const char *password, char *ret)
{
	uint8_t out[HASH_BYTES];
	char salt64[BASE64_MAX], out64[BASE64_MAX];

	if (derive(salt, password, out, sizeof(out)) < 0)
		return -ENOMEM;
	(void)sodium_bin2base64(salt64, sizeof(salt64), salt, SALT_BYTES,
				sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
	(void)sodium_bin2base64(out64, sizeof(out64), out, sizeof(out),
				sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
	(void)snprintf(ret, STORE_HASH_SIZE, PREFIX "%s$%s", salt64, out64);
	return 0;
}

static int hash(const char *password, char *ret)
{
	uint8_t salt[SALT_BYTES];

	randombytes_buf(salt, sizeof(salt));
	return hash_with(salt, password, ret);
}

/* Whether TEXT is the hash of PASSWORD. */
static bool fits(const char *text, const char *password)
{
	const char *const salt64 = text + strlen(PREFIX);
	uint8_t salt[SALT_BYTES];
	char other[STORE_HASH_SIZE] = "";
	size_t n = 0;

	return text_starts_with(text, PREFIX) &&
	       sodium_base642bin(salt, sizeof(salt), salt64, strcspn(salt64, "$"), NULL, &n, NULL,
				 sodium_base64_VARIANT_ORIGINAL_NO_PADDING) == 0 &&
	       n == sizeof(salt) && hash_with(salt, password, other) == 0 &&
	       strlen(text) == strlen(other) && sodium_memcmp(text, other, strlen(other)) == 0;
}

static int check_length(const char *password, unsigned min, struct err *e)
{
	size_t len = strlen(password);

	if (len >= min && len <= STORE_PASSWORD_MAX)
		return 0;
	return err_set(e, ERR_INVALID_ARGUMENT, 0, "a password has %u to %d bytes", min,
		       STORE_PASSWORD_MAX);
}

unsigned store_password_min(const struct store *s)
{
	return s->config.password_min;
}

int store_hash_now(const char *password, unsigned min, char *ret, struct err *e)
{
	int r = check_length(password, min, e);

	if (r < 0)
		return r;
	r = hash(password, ret);
	return r < 0 ? err_set(e, ERR_OUT_OF_MEMORY, -r, "a password") : 0;
}

/* ---- jobs ---- */

/* Makes what store_check_fn calls LOGIN: a second argon2id of the password, so that guessing it is as
 * expensive as guessing the password. Its salt comes from the stored hash: a new password has another. */
static bool make_login(struct hash_job *job)
{
	uint8_t salt[SALT_BYTES];

	(void)crypto_generichash(salt, sizeof(salt), (const uint8_t *)job->hash, strlen(job->hash),
				 NULL, 0);
	return derive(salt, job->password, job->login, sizeof(job->login)) == 0;
}

static void compute(void *user)
{
	struct hash_job *job = user;

	if (job->check)
		job->ok = fits(job->hash, job->password) && make_login(job);
	else
		job->ok = hash(job->password, job->hash) == 0;
	sodium_memzero(job->password, sizeof(job->password));
}

/* ---- on the loop ---- */

static void job_free(struct hash_job *job)
{
	sodium_memzero(job, sizeof(*job));
	free(job);
}

/* Calls back, with the error CODE unless that is ERR_NONE. */
static void tell(struct hash_job *job, enum err_code code, const char *text)
{
	struct err e = ERR_INIT;

	if (code != ERR_NONE)
		(void)err_set(&e, code, 0, "%s", text);
	else if (!job->check && !job->ok)
		(void)err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a password");
	else if (job->check && (!job->ok || !job->user.id[0]))
		(void)err_set(&e, ERR_UNAUTHORIZED, 0, "Incorrect username or password");
	if (job->check)
		job->on_check(e.code == ERR_NONE ? &job->user : NULL,
			      e.code == ERR_NONE ? job->login : NULL, e.code ? &e : NULL, job->arg);
	else
		job->on_hash(e.code == ERR_NONE ? job->hash : NULL, e.code ? &e : NULL, job->arg);
}

static void answer(struct hash_job *job, enum err_code code, const char *text)
{
	tell(job, code, text);
	job_free(job);
}

static const char too_many[] = "too many passwords are being checked";
static const char ends[] = "the server is shutting down";

/* The oldest job of the lane, but one of somebody else than the last one if there is any. */
static struct hash_job *next_in_lane(struct hashes *h, unsigned lane)
{
	struct hash_job *job = list_first(&h->jobs[lane], struct hash_job, node);

	list_for_each(n, &h->jobs[lane]) {
		struct hash_job *other = list_entry(n, struct hash_job, node);

		if (other->from != h->last_from[lane]) {
			job = other;
			break;
		}
	}
	if (job) {
		list_remove(&job->node);
		h->last_from[lane] = job->from;
	}
	return job;
}

/* The lanes take turns, so that a flood in one does not delay another. */
static struct hash_job *next_job(struct hashes *h)
{
	for (unsigned i = 0; i < STORE_LANE_MAX_; i++) {
		unsigned lane = (h->turn + i) % STORE_LANE_MAX_;
		struct hash_job *job = next_in_lane(h, lane);

		if (!job)
			continue;
		h->turn = (lane + 1) % STORE_LANE_MAX_;
		return job;
	}
	return NULL;
}

static void start_next(struct hashes *h);

static void on_computed(void *user)
{
	struct hash_job *job = user;
	struct store *s = job->store;

	if (!s) { /* it was answered */
		job_free(job);
		return;
	}
	s->hashes.running = NULL;
	s->hashes.n_jobs[job->lane]--;
	s->hashes.done++;
	start_next(&s->hashes);
	answer(job, ERR_NONE, NULL);
}

static void start_next(struct hashes *h)
{
	struct hash_job *job;

	while (!h->running && (job = next_job(h))) {
		h->running = job;
		if (workers_run("passwords", compute, on_computed, job) == 0)
			continue;
		h->running = NULL;
		h->n_jobs[job->lane]--;
		answer(job, ERR_RATE_LIMITED, too_many);
	}
}

static unsigned count_from(const struct list *jobs, uint64_t from)
{
	unsigned n = 0;

	list_for_each(l, jobs)
		n += list_entry(l, struct hash_job, node)->from == from;
	return n;
}

/* The lane of JOB is full: whoever has the most in it loses the newest one, if that is more than JOB's own
 * would have. */
static bool make_place(struct hashes *h, const struct hash_job *job)
{
	struct list *jobs = &h->jobs[job->lane];
	unsigned most = count_from(jobs, job->from) + 1;
	struct hash_job *loser = NULL;

	list_for_each(l, jobs) {
		struct hash_job *other = list_entry(l, struct hash_job, node);
		const unsigned n = count_from(jobs, other->from);

		if (n > most || (loser && other->from == loser->from)) {
			most = n;
			loser = other;
		}
	}
	if (!loser)
		return false;
	list_remove(&loser->node);
	h->n_jobs[loser->lane]--;
	answer(loser, ERR_RATE_LIMITED, too_many);
	return true;
}

static int push(struct store *s, struct hash_job *job, struct err *e)
{
	struct hashes *h = &s->hashes;

	if (h->ended || (h->n_jobs[job->lane] >= STORE_HASHES_MAX && !make_place(h, job))) {
		job_free(job);
		return h->ended ? err_set(e, ERR_CANCELLED, 0, "%s", ends)
				: err_set(e, ERR_RATE_LIMITED, 0, "%s", too_many);
	}
	job->store = s;
	list_append(&h->jobs[job->lane], &job->node);
	h->n_jobs[job->lane]++;
	start_next(h);
	return 0;
}

static struct hash_job *job_new(const char *password, enum store_lane lane, uint64_t from,
				void *arg, struct err *e)
{
	struct hash_job *job = calloc(1, sizeof(*job));

	if (!job) {
		(void)err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a password");
		return NULL;
	}
	copy_text(job->password, sizeof(job->password), password);
	job->lane = lane;
	job->from = from;
	job->arg = arg;
	return job;
}

int store_hash_password(struct store *s, const char *password, enum store_lane lane, uint64_t from,
			store_hash_fn cb, void *user, struct err *e)
{
	int r = check_length(password, s->config.password_min, e);

	if (r < 0)
		return r;
	struct hash_job *job = job_new(password, lane, from, user, e);
	if (!job)
		return -ENOMEM;
	job->on_hash = cb;
	return push(s, job, e);
}

int store_check_password(struct store *s, const char *name, const char *password,
			 enum store_lane lane, uint64_t from, store_check_fn cb, void *user,
			 struct err *e)
{
	struct hash_job *job = job_new(password, lane, from, user, e);

	if (!job)
		return -ENOMEM;
	job->check = true;
	job->on_check = cb;
	int r = store_user_find(s, name, &job->user, e);
	if (r < 0) {
		job_free(job);
		return r;
	}
	/* A password that is too long is wrong. Without this check its cut form might be right. */
	bool real = r > 0 && job->user.hash[0] && strlen(password) <= STORE_PASSWORD_MAX;
	if (!real)
		job->user.id[0] = '\0';
	copy_text(job->hash, sizeof(job->hash), real ? job->user.hash : nobody);
	return push(s, job, e);
}

void hashes_open(struct store *s)
{
	for (size_t i = 0; i < STORE_LANE_MAX_; i++)
		list_init(&s->hashes.jobs[i]);
}

void store_cancel_passwords(struct store *s)
{
	struct hash_job *job;

	if (!s || s->hashes.ended)
		return;
	s->hashes.ended = true;
	job = TAKE_PTR(s->hashes.running);
	if (job) { /* a thread still reads it */
		job->store = NULL;
		tell(job, ERR_CANCELLED, ends);
	}
	for (size_t i = 0; i < STORE_LANE_MAX_; i++)
		while ((job = list_pop_first(&s->hashes.jobs[i], struct hash_job, node)))
			answer(job, ERR_CANCELLED, ends);
}
