/* SPDX-License-Identifier: Apache-2.0 */
/* Passwords: argon2id of libsodium, 64 MiB and about 0.1 s each (a login twice that), one at a time on the helper thread.
 * A flood of logins costs at most one core and 64 MiB, and never a turn of the loop. Each lane has a
 * short queue; when it is full, the next password is refused at once. */
#include "store/db.h"

#include <sodium.h>
#include <string.h>

/* The hash of a random text that nobody knows. Checking it costs the same as a real one. */
static const char nobody[] = "$argon2id$v=19$m=65536,t=2,p=1$cpcQ0sL//ERfJVORXeo8pQ"
			     "$EQl/7QfJmKW2buKJaouj8leVukjNPaXIN0WYi7b6amM";

_Static_assert(STORE_HASH_SIZE >= crypto_pwhash_STRBYTES, "room for a hash");

static int hash(const char *password, char *ret)
{
	char out[crypto_pwhash_STRBYTES];

	if (crypto_pwhash_str(out, password, strlen(password), crypto_pwhash_OPSLIMIT_INTERACTIVE,
			      crypto_pwhash_MEMLIMIT_INTERACTIVE) < 0)
		return -ENOMEM;
	copy_text(ret, STORE_HASH_SIZE, out);
	return 0;
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
	uint8_t salt[crypto_pwhash_SALTBYTES];

	(void)crypto_generichash(salt, sizeof(salt), (const uint8_t *)job->hash, strlen(job->hash),
				 NULL, 0);
	return crypto_pwhash(job->login, sizeof(job->login), job->password, strlen(job->password),
			     salt, crypto_pwhash_OPSLIMIT_INTERACTIVE,
			     crypto_pwhash_MEMLIMIT_INTERACTIVE, crypto_pwhash_ALG_ARGON2ID13) == 0;
}

void hash_job_run(struct hash_job *job)
{
	if (job->check)
		job->ok = crypto_pwhash_str_verify(job->hash, job->password,
						   strlen(job->password)) == 0 &&
			  make_login(job);
	else
		job->ok = hash(job->password, job->hash) == 0;
	sodium_memzero(job->password, sizeof(job->password));
}

static void job_free(struct hash_job *job)
{
	sodium_memzero(job, sizeof(*job));
	free(job);
}

static int refuse(struct err *e)
{
	return err_set(e, ERR_RATE_LIMITED, 0, "too many passwords are being checked");
}

static unsigned count_from(const struct list *jobs, uint64_t from)
{
	unsigned n = 0;

	list_for_each(l, jobs)
		n += list_entry(l, struct hash_job, node)->from == from;
	return n;
}

/* The lane of JOB is full: whoever has the most in it loses the newest one, if that is more than JOB's own
 * would have. Called with the lock held. */
static bool make_place(struct helper *h, const struct hash_job *job)
{
	struct list *jobs = &h->jobs[job->lane];
	unsigned most = count_from(jobs, job->from) + 1;
	struct hash_job *loser = NULL;
	uint64_t one = 1;

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
	loser->refused = true;
	list_append(&h->done, &loser->node);
	(void)!write(h->event_fd, &one, sizeof(one));
	return true;
}

static int push(struct store *s, struct hash_job *job, struct err *e)
{
	struct helper *h = &s->helper;
	int r = 0;

	(void)pthread_mutex_lock(&h->lock);
	if (h->n_jobs[job->lane] >= STORE_HASHES_MAX && !make_place(h, job))
		r = -EAGAIN;
	else
		r = helper_start(s);
	if (r == 0) {
		list_append(&h->jobs[job->lane], &job->node);
		h->n_jobs[job->lane]++;
		(void)pthread_cond_signal(&h->work);
	}
	(void)pthread_mutex_unlock(&h->lock);
	if (r == 0)
		return 0;
	job_free(job);
	return refuse(e);
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

static void answer(struct hash_job *job, bool cancelled)
{
	struct err e = ERR_INIT;

	if (cancelled)
		(void)err_set(&e, ERR_CANCELLED, 0, "the server is shutting down");
	else if (job->refused)
		(void)refuse(&e);
	else if (!job->check && !job->ok)
		(void)err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a password");
	else if (job->check && (!job->ok || !job->user.id[0]))
		(void)err_set(&e, ERR_UNAUTHORIZED, 0, "Incorrect username or password");
	if (job->check)
		job->on_check(e.code == ERR_NONE ? &job->user : NULL,
			      e.code == ERR_NONE ? job->login : NULL, e.code ? &e : NULL, job->arg);
	else
		job->on_hash(e.code == ERR_NONE ? job->hash : NULL, e.code ? &e : NULL, job->arg);
	job_free(job);
}

void hash_answers(struct store *s)
{
	struct helper *h = &s->helper;

	for (;;) {
		(void)pthread_mutex_lock(&h->lock);
		struct hash_job *job = list_pop_first(&h->done, struct hash_job, node);
		if (job)
			h->n_jobs[job->lane]--;
		(void)pthread_mutex_unlock(&h->lock);
		if (!job)
			return;
		answer(job, false);
	}
}

/* For the end of the store, when the helper thread has ended. */
void hash_cancel(struct store *s)
{
	struct helper *h = &s->helper;
	struct hash_job *job;

	for (size_t i = 0; i < STORE_LANE_MAX_; i++)
		list_splice(&h->done, &h->jobs[i]);
	while ((job = list_pop_first(&h->done, struct hash_job, node)))
		answer(job, true);
}
