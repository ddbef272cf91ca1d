/* SPDX-License-Identifier: Apache-2.0 */
#include "app/egress_audit.h"

#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_MAX   256u /* labels that are counted separately at the same time */
#define ACCURACY_US 1000000u

struct slot {
	char label[EGRESS_LABEL_MAX + 1];
	uint64_t since_ns; /* begin of its window; 0 = the slot is free */
	unsigned rows;
	uint64_t left_out;
	unsigned ends; /* of connections: they are in the log, not in the audit log */
	uint64_t ends_left_out;
};

struct egress_audit {
	struct egress_audit_config config;
	sd_event_source *timer; /* runs while something was left out */
	bool armed;
	struct slot all;
	struct slot slots[SLOTS_MAX];
};

/* ---- rows ---- */

static void write_row(struct egress_audit *a, const char *label, struct store_audit *row)
{
	const char *slash = strrchr(label, '/');

	if (!a->config.store)
		return;
	row->class = STORE_AUDIT_NETWORK;
	if (slash)
		(void)snprintf(row->actor, sizeof(row->actor), "%.*s", (int)(slash - label), label);
	store_note_audit(a->config.store, row);
}

static const char *id_of(const char *label)
{
	const char *slash = strrchr(label, '/');

	return slash ? slash + 1 : label;
}

/* Reports how much was left out, and begins a new window. */
static void turn_window(struct egress_audit *a, struct slot *s, uint64_t now)
{
	struct store_audit row = {.action = "egress.more", .result = "left_out"};

	if (s->left_out > 0 || s->ends_left_out > 0)
		LOG_INFO("egress_more", LOG_S("sandbox", s->label), LOG_U("decisions", s->left_out),
			 LOG_U("ends", s->ends_left_out));
	if (s->left_out > 0) {
		(void)snprintf(row.object, sizeof(row.object), "%.*s", STORE_OBJECT_SIZE - 1,
			       id_of(s->label));
		(void)snprintf(row.detail, sizeof(row.detail), "%ju more decisions",
			       (uintmax_t)s->left_out);
		write_row(a, s->label, &row);
	}
	s->since_ns = now;
	s->rows = s->ends = 0;
	s->left_out = s->ends_left_out = 0;
}

/* ---- windows ---- */

static bool is_due(const struct slot *s)
{
	return s->left_out > 0 || s->ends_left_out > 0;
}

static bool is_over(const struct slot *s, uint64_t now)
{
	return now - s->since_ns >= EGRESS_AUDIT_WINDOW_NS;
}

/* The slot of LABEL. If there is none: the slot with the oldest window, which LABEL takes over. */
static struct slot *slot_of(struct egress_audit *a, const char *label, uint64_t now)
{
	struct slot *oldest = &a->slots[0];

	for (struct slot *s = a->slots; s < a->slots + SLOTS_MAX; s++) {
		if (s->since_ns > 0 && streq(s->label, label)) {
			if (is_over(s, now))
				turn_window(a, s, now);
			return s;
		}
		if (s->since_ns < oldest->since_ns)
			oldest = s;
	}
	turn_window(a, oldest, now);
	(void)snprintf(oldest->label, sizeof(oldest->label), "%s", label);
	return oldest;
}

static int on_window(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct egress_audit *a = user;
	uint64_t now = a->config.now();

	loop_work("timer", "network audit");
	a->armed = false;
	for (struct slot *s = a->slots; s < a->slots + SLOTS_MAX; s++) {
		if (is_due(s) && is_over(s, now))
			turn_window(a, s, now);
		a->armed = a->armed || is_due(s);
	}
	if (!a->armed)
		return 0;
	(void)sd_event_source_set_time_relative(source, EGRESS_AUDIT_WINDOW_NS / NS_PER_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* With the timer, a flood is reported also when no more events follow it. If the timer cannot be
 * made, that happens at the end. */
static void arm(struct egress_audit *a)
{
	const uint64_t window_us = EGRESS_AUDIT_WINDOW_NS / NS_PER_US;

	if (a->armed || !a->config.loop)
		return;
	if (!a->timer)
		a->armed = sd_event_add_time_relative(a->config.loop, &a->timer, CLOCK_MONOTONIC,
						      window_us, ACCURACY_US, on_window, a) >= 0;
	else
		a->armed = sd_event_source_set_time_relative(a->timer, window_us) >= 0 &&
			   sd_event_source_set_enabled(a->timer, SD_EVENT_ONESHOT) >= 0;
}

/* Is there room for one more row, of this label and of all? False: no, and it was counted as left
 * out. */
static bool take(struct egress_audit *a, unsigned *own, unsigned *all, uint64_t *left_out)
{
	if (*own >= EGRESS_AUDIT_ROWS || *all >= EGRESS_AUDIT_ROWS_ALL) {
		++*left_out;
		arm(a);
		return false;
	}
	++*own;
	++*all;
	return true;
}

bool egress_audit_note(struct egress_audit *a, const struct egress_event *event)
{
	struct store_audit row = {0};
	uint64_t now = a->config.now();

	struct slot *s = slot_of(a, event->label, now);
	if (is_over(&a->all, now))
		turn_window(a, &a->all, now);
	if (event->verdict == EGRESS_ENDED)
		return take(a, &s->ends, &a->all.ends, &s->ends_left_out);
	if (!take(a, &s->rows, &a->all.rows, &s->left_out))
		return false;
	(void)snprintf(row.action, sizeof(row.action), "%s",
		       event->verdict == EGRESS_ALLOWED ? "egress.allow" : "egress.refuse");
	(void)snprintf(row.object, sizeof(row.object), "%s %s:%u", id_of(event->label), event->host,
		       event->port);
	(void)snprintf(row.result, sizeof(row.result), "%s", event->reason);
	(void)snprintf(row.detail, sizeof(row.detail), "%s %s", event->method, event->address);
	write_row(a, event->label, &row);
	return true;
}

struct egress_audit *egress_audit_new(const struct egress_audit_config *config)
{
	struct egress_audit *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->config = *config;
	if (!a->config.now)
		a->config.now = now_ns;
	a->all.since_ns = a->config.now();
	return a;
}

struct egress_audit *egress_audit_free(struct egress_audit *a)
{
	if (!a)
		return NULL;
	for (struct slot *s = a->slots; s < a->slots + SLOTS_MAX; s++)
		turn_window(a, s, 0);
	(void)sd_event_source_disable_unref(a->timer);
	free(a);
	return NULL;
}
