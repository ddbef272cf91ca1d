/* SPDX-License-Identifier: Apache-2.0 */
/* The row about the object store of a router. It writes an object, reads it and deletes it, since each of these may be refused alone. */
#include "doctor/doctor.h"

#include "app/app.h"
#include "base/libcurl.h"
#include "base/rand.h"
#include "base/text.h"
#include "objects/send.h"
#include "objects/sign.h"

#include <string.h>

#define EACH_MS 5000u
#define GOOD_S  (OBJECTS_CLOCK_S + 60)

struct check {
	const struct objects_store *store;
	struct objects_client *client;
	char key[64], text[33];
	const char *header; /* NULL, or one that is not signed */
	bool copies;
	struct buf got;
};

static int ask_for(struct check *c, const char *method, const char *key, const char *text,
		   struct err *e)
{
	_cleanup_(buf_done) struct buf address = BUF_INIT(OBJECTS_ADDRESS_MAX);
	const struct objects_order order = {
	    .method = method,
	    .key = key,
	    .length = text ? strlen(text) : OBJECTS_LENGTH_ANY,
	    .seconds = GOOD_S,
	    .at = now_wall_ns() / NS_PER_S,
	};
	int r = objects_sign(c->store, &order, &address, e);

	if (r < 0)
		return r;
	const struct objects_request request = {
	    .method = method,
	    .address = buf_str(&address),
	    .what = key,
	    .body = text,
	    .len = text ? strlen(text) : 0,
	    .header = c->header,
	    .ret = streq(method, "GET") ? &c->got : NULL,
	    .deadline_ms = EACH_MS,
	};
	return objects_send(c->client, &request, e);
}

static int ask(struct check *c, const char *method, struct err *e)
{
	return ask_for(c, method, c->key, streq(method, "PUT") ? c->text : NULL, e);
}

/* A worker will get addresses for uploads. Some stores heed headers that were not signed, and with this one it could read any
 * object of the bucket. */
static void try_copy(struct check *c)
{
	char copy[80], header[256];
	struct err e = ERR_INIT;

	(void)snprintf(copy, sizeof(copy), "%s-copy", c->key);
	(void)snprintf(header, sizeof(header), "X-Amz-Copy-Source: /%s/%s", c->store->bucket,
		       c->key);
	c->header = header;
	const int r = ask_for(c, "PUT", copy, "", &e);
	c->header = NULL;
	if (r < 0 && r != -EIO)
		return;
	c->copies = ask_for(c, "GET", copy, NULL, &e) == 0 && streq(buf_str(&c->got), c->text);
	(void)!ask_for(c, "DELETE", copy, NULL, &e);
}

static int read_back(struct check *c, struct err *e)
{
	const int r = ask(c, "GET", e);

	return r == 0 && !streq(buf_str(&c->got), c->text)
		   ? err_set(e, ERR_OBJECTS_REFUSED, 0, "GET %s: other bytes than were stored",
			     c->key)
		   : r;
}

/* Who decides by "there is no such object" must hear just that. */
static int is_gone(struct check *c, struct err *e)
{
	struct err told = ERR_INIT;
	const int r = ask(c, "GET", &told);

	if (r == -ENOENT)
		return 0;
	if (r == 0)
		return err_set(e, ERR_OBJECTS_REFUSED, 0, "GET %s: it is still there after DELETE",
			       c->key);
	*e = told;
	return r == -EACCES ? err_wrap(e, "a deleted object (the account needs s3:ListBucket, too)")
			    : r;
}

static int try_all(struct check *c, struct err *e)
{
	int r = ask(c, "PUT", e);

	if (r < 0 && r != -EIO) /* refused, so nothing is there */
		return r;
	r = r < 0 ? r : read_back(c, e);
	if (r == 0)
		try_copy(c);
	/* Also if no answer came: the object may be there. The first error counts. */
	struct err later = ERR_INIT;
	int end = ask(c, "DELETE", &later);
	end = r < 0 || end < 0 ? end : is_gone(c, &later);
	if (r == 0 && end < 0)
		*e = later;
	return r < 0 ? r : end;
}

static int look(const struct settings *s, struct objects_store *store, bool *copies, struct err *e)
{
	struct check c = {.store = store, .got = BUF_INIT(sizeof(c.text))};
	int r = app_check_objects(s, e);

	r = r < 0 ? r : app_check_moves_key(s, e);
	r = r < 0 ? r : app_objects(s, store, e);
	r = r < 0 ? r : libcurl_load(e);
	r = r < 0 ? r : objects_client_new(&c.client, s->objects_ca, e);
	if (r < 0)
		return r;
	rand_hex(c.text, 16);
	(void)snprintf(c.key, sizeof(c.key), "caisson/doctor/%s", c.text);
	r = try_all(&c, e);
	*copies = c.copies;
	c.client = objects_client_free(c.client);
	buf_done(&c.got);
	return r;
}

void row_objects(const struct doctor_facts *f, struct doctor_row *r)
{
	const struct settings *s = f->settings;
	struct objects_store store = {0};
	struct err e = ERR_INIT;

	if (!app_names_objects(s))
		return;
	bool copies = false;
	const int x = look(s, &store, &copies, &e);
	if (x < 0) {
		r->state = DOCTOR_MISSING;
		(void)snprintf(r->value, sizeof(r->value), "%s", e.text);
		(void)snprintf(r->mend, sizeof(r->mend),
			       "SANDBOX_OBJECTS_…; docs/fleet.md, \"An object store\"");
	} else {
		(void)snprintf(r->value, sizeof(r->value),
			       "bucket %s at %s: writes, reads and deletes%s", store.bucket,
			       store.host,
			       s->objects_key[0] ? "; stored sandboxes are saved there" : "");
		if (copies) {
			r->state = DOCTOR_NOTE;
			(void)snprintf(
			    r->mend, sizeof(r->mend),
			    "another store, or a newer version: this one heeds headers that "
			    "were not signed (X-Amz-Copy-Source), so an address for one "
			    "upload reads every object");
		} else if (!store.tls) {
			r->state = DOCTOR_NOTE;
			(void)snprintf(r->mend, sizeof(r->mend),
				       "https://, unless nobody else can read this network: signed "
				       "addresses pass in "
				       "the clear");
		}
	}
	objects_store_done(&store);
}
