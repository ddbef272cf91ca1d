/* SPDX-License-Identifier: Apache-2.0 */
#include "api/auth/accounting.h"

#include "api/auth/auth.h"

#include "base/rand.h"
#include "base/text.h"
#include "sandbox/process.h"

#include <signal.h>
#include <sodium.h>
#include <string.h>

#define MINUTE_NS (60 * NS_PER_S)
#define DAY_MS    UINT64_C(86400000)
#define WAYS      4u /* entries of one bucket */

const uint64_t accounting_bounds_ms[ACCOUNTING_BUCKETS] = {1,    5,    10,    50,    100,   500,
							   1000, 5000, 10000, 60000, 300000};

static const char *const kinds[] = {
    [ENGINE_RUN_PYTHON] = "code",
    [ENGINE_RUN_ARGV] = "command",
    [ENGINE_RUN_STATEFUL] = "stateful",
};

/* What is remembered of one owner. */
struct account {
	char owner[STORE_OWNER_SIZE];
	bool used;
	uint64_t looked_ns; /* when quota and CPU time were read from the store */
	struct store_quota quota;
	uint64_t day;       /* UTC, since 1970 */
	uint64_t cpu_us;    /* used on that day */
	uint64_t minute_ns; /* when the current minute began */
	uint64_t n_runs;
	uint64_t wall_minute,
	    n_wall; /* since 1970, and runs that began in it: a fleet has no other minute */
};

struct accounting {
	struct accounting_config config;
	struct accounting_stats stats;
	uint8_t hash_key[crypto_shorthash_KEYBYTES];
	struct account accounts[ACCOUNTING_OWNERS];
};

/* ---- accounts ---- */

/* A 0 in a user's own quota means nothing is allowed. In a setting 0 means no limit and -1 means
 * nothing. */
static int64_t choose(int64_t own, int64_t setting)
{
	if (own != STORE_QUOTA_DEFAULT)
		return own;
	return setting == 0 ? INT64_MAX : MAX(setting, 0);
}

int accounting_quota(struct accounting *l, const char *owner, struct store_quota *ret,
		     struct err *e)
{
	const struct store_quota *server = &l->config.quota;
	struct store_user u = {.quota = STORE_QUOTA_DEFAULTS};
	int r = *owner && l->config.store ? store_user_get(l->config.store, owner, &u, e) : 0;

	if (r < 0)
		return r;
	*ret = (struct store_quota){
	    .sandboxes = choose(u.quota.sandboxes, server->sandboxes),
	    .cpu_s_per_day = choose(u.quota.cpu_s_per_day, server->cpu_s_per_day),
	    .disk_bytes = choose(u.quota.disk_bytes, server->disk_bytes),
	    .runs_per_minute = choose(u.quota.runs_per_minute, server->runs_per_minute),
	};
	return 0;
}

static struct account *account_of(struct accounting *l, const char *owner)
{
	uint8_t hash[crypto_shorthash_BYTES];
	uint32_t index;
	struct account *oldest;

	(void)crypto_shorthash(hash, (const uint8_t *)owner, strlen(owner), l->hash_key);
	memcpy(&index, hash, sizeof(index));
	struct account *place = &l->accounts[index % (ACCOUNTING_OWNERS / WAYS) * WAYS];
	oldest = place;
	for (unsigned i = 0; i < WAYS; i++) {
		if (place[i].used && streq(place[i].owner, owner))
			return &place[i];
		if (!place[i].used || (oldest->used && place[i].looked_ns < oldest->looked_ns))
			oldest = &place[i];
	}
	*oldest = (struct account){.used = true};
	(void)snprintf(oldest->owner, sizeof(oldest->owner), "%s", owner);
	return oldest;
}

/* Reads quota and CPU time from the store, at most once a minute. Rows of this server that are still in the queue
 * are not in the store's sum. They are in the account's own, which has those of no other server: the larger one
 * counts, until the day ends. So a run does not wait for the disk. */
static int refresh(struct accounting *l, struct account *a, uint64_t now, struct err *e)
{
	const uint64_t day = store_now_ms() / DAY_MS;
	struct store_quota quota;
	uint64_t cpu_us = 0;

	if (a->looked_ns > 0 && a->looked_ns + MINUTE_NS > now)
		return 0;
	int r = accounting_quota(l, a->owner, &quota, e);
	if (r == 0 && l->config.store && quota.cpu_s_per_day != INT64_MAX)
		r = store_usage_today(l->config.store, a->owner, &cpu_us, e);
	if (r < 0)
		return r;
	a->quota = quota;
	a->cpu_us = a->day == day ? MAX(a->cpu_us, cpu_us) : cpu_us;
	a->day = day;
	a->looked_ns = now;
	return 0;
}

/* ---- a fleet ---- */

static struct fleet_use elsewhere(const struct accounting *l, const char *owner)
{
	return l->config.elsewhere ? fleet_tally_get(l->config.elsewhere, owner)
				   : (struct fleet_use){0};
}

static void tell(const struct accounting *l, const struct account *a)
{
	if (!l->config.uses)
		return;
	struct fleet_use use = fleet_tally_get(l->config.uses, a->owner);
	const uint64_t day = fleet_use_day(store_now_ms());
	const uint64_t cpu_us = a->day == day ? MIN(a->cpu_us, FLEET_USE_MAX) : 0;
	/* An account that had to give way to another one knows less than was told of it. */
	use.cpu_us = use.day == day ? MAX(use.cpu_us, cpu_us) : cpu_us;
	use.day = day;
	use.minute = a->wall_minute;
	use.runs = a->n_wall;
	(void)!fleet_tally_set(l->config.uses, a->owner, &use);
}

static bool may_run_in_fleet(const struct accounting *l, struct account *a)
{
	const uint64_t minute = fleet_use_minute(store_now_ms());
	const struct fleet_use others = elsewhere(l, a->owner);

	if (a->wall_minute != minute)
		a->n_wall = 0;
	a->wall_minute = minute;
	return others.minute != minute ||
	       a->n_wall + others.runs < (uint64_t)a->quota.runs_per_minute;
}

/* ---- hooks of the manager ---- */

static int check_cpu(const struct accounting *l, const struct account *a, struct err *e)
{
	const struct fleet_use others = elsewhere(l, a->owner);
	const uint64_t there = others.day == fleet_use_day(store_now_ms()) ? others.cpu_us : 0;

	if ((a->cpu_us + there) / 1000000 < (uint64_t)a->quota.cpu_s_per_day)
		return 0;
	return err_set(e, ERR_QUOTA_EXCEEDED, 0,
		       "Your runs have used the %jd CPU seconds of this day (UTC)",
		       (intmax_t)a->quota.cpu_s_per_day);
}

static int admit(void *user, const struct sandbox *s, struct err *e)
{
	struct accounting *l = user;
	uint64_t now = now_ns();
	struct account *a = account_of(l, sandbox_owner(s));
	int r = refresh(l, a, now, e);

	if (r < 0)
		return r;
	if (a->minute_ns == 0 || a->minute_ns + MINUTE_NS <= now) {
		a->minute_ns = now;
		a->n_runs = 0;
	}
	if (a->n_runs >= (uint64_t)a->quota.runs_per_minute || !may_run_in_fleet(l, a))
		return err_set(e, ERR_QUOTA_EXCEEDED, 0,
			       "You may start %jd runs in a minute; wait for the next one",
			       (intmax_t)a->quota.runs_per_minute);
	r = check_cpu(l, a, e);
	a->n_runs += r == 0;
	a->n_wall += r == 0;
	if (r == 0)
		tell(l, a);
	return r;
}

static int admit_work(void *user, const struct sandbox *s, struct err *e)
{
	struct accounting *l = user;
	struct account *a = account_of(l, sandbox_owner(s));
	int r = refresh(l, a, now_ns(), e);

	return r < 0 ? r : check_cpu(l, a, e);
}

static void count(struct accounting_stats *s, const struct run_result *result)
{
	size_t i = 0;

	if ((unsigned)result->reason < ACCOUNTING_REASONS)
		s->runs[result->reason]++;
	s->run_ms += result->duration_ms;
	s->run_cpu_ns += result->cpu_ns;
	s->output_bytes += result->out.total + result->err.total;
	while (i < ACCOUNTING_BUCKETS && result->duration_ms > accounting_bounds_ms[i])
		i++;
	s->run_buckets[i]++;
}

static void fill_row(struct store_run *row, const struct sandbox *s, enum engine_run_kind kind,
		     const struct run_result *result)
{
	uint64_t now_ms = store_now_ms();

	*row = (struct store_run){
	    .exit_code = result->exit_code,
	    .started_ms = now_ms > result->duration_ms ? now_ms - result->duration_ms : 0,
	    .duration_ms = result->duration_ms,
	    .cpu_us = (result->cpu_ns + result->cpu_before_ns) / NS_PER_US,
	    .peak_bytes = result->peak_bytes,
	    .out_bytes = result->out.total + result->err.total,
	};
	(void)snprintf(row->id, sizeof(row->id), "%s", result->id);
	(void)snprintf(row->owner, sizeof(row->owner), "%s", sandbox_owner(s));
	(void)snprintf(row->sandbox, sizeof(row->sandbox), "%s", sandbox_id(s));
	(void)snprintf(row->kind, sizeof(row->kind), "%s",
		       (unsigned)kind < ARRAY_SIZE(kinds) ? kinds[kind] : "");
	(void)snprintf(row->reason, sizeof(row->reason), "%s", run_reason_name(result->reason));
}

/* Stores the row that the history shows if this server never sees the end of the run. */
static uint32_t begin(void *user, const struct sandbox *s, enum engine_run_kind kind,
		      const char *run)
{
	const struct accounting *l = user;
	const struct run_result unseen = {
	    .id = run, .reason = RUN_LOST, .exit_code = 128 + SIGKILL};
	struct store_run row;

	fill_row(&row, s, kind, &unseen);
	return store_run_begin(l->config.store, &row);
}

static void note_cpu(struct accounting *l, const struct sandbox *s, uint64_t cpu_us)
{
	struct account *a = account_of(l, sandbox_owner(s));

	a->cpu_us += cpu_us;
	tell(l, a);
}

static void note(void *user, const struct sandbox *s, enum engine_run_kind kind, uint32_t ticket,
		 const struct run_result *result)
{
	struct accounting *l = user;
	struct store_run row;

	if (!result) {
		store_run_forget(l->config.store, ticket);
		return;
	}
	fill_row(&row, s, kind, result);
	count(&l->stats, result);
	note_cpu(l, s, row.cpu_us);
	store_note_run(l->config.store, &row, ticket);
}

/* A row of the history, so that the quota survives the server. */
static void note_work(void *user, const struct sandbox *s, const char *kind, uint64_t duration_ns,
		      uint64_t cpu_ns)
{
	struct accounting *l = user;
	char id[17];
	const struct run_result done = {.id = id,
					.reason = RUN_EXITED,
					.duration_ms = duration_ns / NS_PER_MS,
					.cpu_ns = cpu_ns};
	struct store_run row;

	rand_hex(id, sizeof(id) / 2);
	fill_row(&row, s, ENGINE_RUN_ARGV, &done);
	(void)snprintf(row.kind, sizeof(row.kind), "%s", kind);
	note_cpu(l, s, row.cpu_us);
	l->stats.run_cpu_ns += cpu_ns;
	store_note_run(l->config.store, &row, 0);
}

/* ---- life ---- */

static void *credential_ref(const void *credential)
{
	return caller_ref(credential);
}

int accounting_new(const struct accounting_config *config, struct accounting **ret, struct err *e)
{
	struct accounting *l = calloc(1, sizeof(*l));

	if (!l)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the accounting of runs");
	l->config = *config;
	rand_bytes(l->hash_key, sizeof(l->hash_key));
	struct manager_accounting hooks = {.admit = admit,
					   .begin = begin,
					   .note = note,
					   .admit_work = admit_work,
					   .note_work = note_work,
					   .user = l};
	manager_set_accounting(config->manager, &hooks);
	manager_keep_credentials(config->manager,
				 &(struct process_credentials){credential_ref, caller_unref});
	*ret = l;
	return 0;
}

struct accounting *accounting_free(struct accounting *l)
{
	free(l);
	return NULL;
}

const struct accounting_stats *accounting_stats(const struct accounting *l)
{
	return &l->stats;
}
