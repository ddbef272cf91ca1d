/* SPDX-License-Identifier: Apache-2.0 */
/* One order. Private to src/moving. It belongs to the loop; while `busy` is set, a job on a thread (transfer.c) has what is marked with
 * "job", and the loop touches none of it but `stop`. */
#pragma once

#include "base/list.h"
#include "moving/orders.h"
#include "objects/sign.h"
#include "sandbox/moving.h"
#include "snapshot/snapshot.h"

#define ORDER_ID_SIZE 17u
#define ORDER_OBJECTS (SNAPSHOT_BLOCKS_MAX + 1)

enum order_kind { ORDER_SAVE, ORDER_LOAD };
enum order_state {
	ORDER_WORKING, /* nothing is wanted of a router */
	ORDER_WANTS,
	ORDER_DONE,
	ORDER_FAILED,
	ORDER_STATES,
};

struct address {
	struct list node;
	uint32_t index;
	char text[]; /* a credential */
};

struct order {
	struct list node;      /* of orders.list, until it is ended */
	struct orders *orders; /* NULL: ended; only a job holds it */
	const char *orders_ca; /* borrowed */
	char name[ORDER_ID_SIZE];
	enum order_kind kind;
	enum order_state state;
	struct err error;
	struct snapshot_id id;        /* of what is saved or loaded */
	uint32_t epoch;               /* of a load: the new one */
	char proof[STORE_PROOF_SIZE]; /* of a load: that its epoch is given to this worker */
	uint64_t change;              /* of a save */
	uint64_t disk_bytes;          /* of a load: the most */
	struct snapshot_id base_id;   /* of a save; generation 0: there is no base */
	uint8_t key[SNAPSHOT_KEY_BYTES];
	uint8_t
	    hash[SNAPSHOT_HASH_BYTES]; /* of the manifest: known for a load, the result of a save */
	uint8_t base_hash[SNAPSHOT_HASH_BYTES];
	uint64_t asked_ns; /* when a router asked last */
	bool waits;        /* for the manager */
	struct departure *departure;
	struct arrival *arrival;
	/* job */
	bool busy;
	atomic_bool stop;
	void (*next)(struct order *o); /* what follows the job, on the loop */
	int disk;
	struct snapshot *base, *snapshot;
	struct buf record;                /* the text of the sandbox */
	struct buf manifest;              /* of a save: sealed */
	struct list addresses;            /* struct address, owned: to be used by the next job */
	struct err failed;                /* of the job */
	uint8_t had[SNAPSHOT_BITS_BYTES]; /* objects that are there */
	uint8_t
	    given[SNAPSHOT_BITS_BYTES]; /* whose addresses wait in `addresses`, or are being used */
};

struct orders {
	struct orders_config config;
	struct list list; /* struct order */
	unsigned n;
	uint64_t version;
	bool asked; /* some router saves what rests here */
	sd_event_source *tick;
};

static inline bool bit_of(const uint8_t bits[SNAPSHOT_BITS_BYTES], uint32_t index)
{
	return bits[index / 8] >> (index % 8) & 1;
}

/* ---- order.c ---- */

/* Takes over O, all of whose words are set, and begins it. After an error it is the caller's. */
int order_begin_save(struct orders *all, struct order *o, struct err *e) MUST_CHECK;
int order_begin_load(struct orders *all, struct order *o, struct err *e) MUST_CHECK;
struct order *order_new(void);
struct order *order_free(struct order *o);
struct order *order_find(const struct orders *all, const char *name);
/* There may be addresses, or everything may be there: goes on. */
void order_go_on(struct order *o);
/* KEEP: the outcome is noted. O may be freed. */
void order_end(struct order *o, bool keep);
/* The first object from index FROM on that has no address yet. False: none is wanted. */
bool order_next_want(const struct order *o, uint32_t from, struct snapshot_place *ret);
/* Adds the address of an object, if it is wanted. INVALID_ARGUMENT. */
int order_add_address(struct order *o, const struct snapshot_place *at, const char *text,
		      struct err *e) MUST_CHECK;

/* ---- transfer.c: jobs, on threads ---- */

void transfer_plan(void *user);  /* of a save: its base, and the plan */
void transfer_open(void *user);  /* of a load: its manifest */
void transfer_send(void *user);  /* of a save: objects with addresses */
void transfer_get(void *user);   /* of a load: the same */
void transfer_empty(void *user); /* of a load: the new disk gets its length */
void transfer_flush(void *user); /* of a load: the disk is flushed and closed */

/* ---- orders_json.c ---- */

/* RET: a new order; or the words of a drop or of a forget. */
enum order_word { WORD_SAVE, WORD_LOAD, WORD_DROP, WORD_FORGET };
struct order_words {
	enum order_word word;
	struct order *order; /* of a save or load: the caller's */
	char incarnation[STORE_INCARNATION_SIZE];
	uint32_t epoch;
};
int words_read(const char *text, size_t len, struct order_words *ret, struct err *e) MUST_CHECK;
/* The addresses of TEXT, added to O. */
int addresses_read(struct order *o, const char *text, size_t len, struct err *e) MUST_CHECK;
int end_read(const char *text, size_t len, bool *ret_keep, struct err *e) MUST_CHECK;
json_t *order_json(const struct order *o);
json_t *wants_json(const struct order *o, uint32_t from);
