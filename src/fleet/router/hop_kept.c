/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about templates and snapshots, and for sandboxes made of one. An id names its worker. For a name all workers are asked. */
#include "fleet/router/hop.h"

#include <inttypes.h>
#include <string.h>

static void refuse_unsure(struct hop *h, const char *worker)
{
	hop_refuse(h, ERR_NODE_UNREACHABLE,
		   "worker %s does not answer now, and may have this template", worker);
}

/* A new template, or a new build of one. The limits of a worker are those of an owner in the whole fleet. */
static bool has_room(struct hop *h, const struct seek_answer *a)
{
	if (a->most > 0 && a->have >= a->most && !a->worker[0])
		hop_refuse(h, ERR_QUOTA_EXCEEDED,
			   "you have %" PRIu64 " templates, and more are not kept: delete one",
			   a->have);
	else if (a->open_most > 0 && a->open >= a->open_most)
		hop_refuse(h, ERR_QUOTA_EXCEEDED,
			   "%" PRIu64 " of your builds wait or go on: let one end", a->open);
	else
		return true;
	return false;
}

/* A name that nobody has. */
static void no_worker(struct hop *h, const struct seek_answer *a)
{
	if (h->place == PLACE_NEW) { /* the name of an image, maybe */
		memcpy(h->unsure, a->silent, sizeof(h->unsure));
		hop_place(h);
	} else if (a->silent[0]) {
		refuse_unsure(h, a->silent);
	} else if (h->place == PLACE_KEEP) { /* two routers choose the same worker */
		h->place = PLACE_NEW;
		h->name = h->kept;
		hop_place(h);
	} else {
		hop_refuse(h, ERR_NOT_FOUND, "there is no template or snapshot of that name");
	}
}

static void on_sought(const struct seek_answer *a, void *user)
{
	struct hop *h = user;

	h->seek = NULL;
	if (h->place == PLACE_KEEP && !has_room(h, a))
		return;
	if (!a->worker[0]) {
		no_worker(h, a);
		return;
	}
	h->place = PLACE_ID;
	hop_to_owner(h, a->worker);
}

bool hop_by_kept(struct hop *h)
{
	const struct fleet_router *f = h->router;
	char worker[FLEET_WORKER_SIZE];
	struct err e = ERR_INIT;
	struct seek *seek;

	const bool must = h->place == PLACE_KEPT || h->place == PLACE_KEEP;
	if (!must && (!h->bound->face_row || h->place != PLACE_NEW))
		return false;
	if (!f->face->find_kept(h->req, h->bound->face_row, h->body.data, h->body.len, h->kept)) {
		h->kept[0] = '\0';
		if (must && h->body.len > 0 && !http_request_param(h->req, "template"))
			hop_refuse(h, ERR_INVALID_ARGUMENT,
				   "the request has no name for a template, or is too long: small "
				   "letters, digits, '-' and '_', and then :TAG");
		else if (must)
			hop_refuse(h, ERR_NOT_FOUND,
				   "there is no template or snapshot of that name");
		return must;
	}
	if (fleet_id_worker(f->config.key, h->kept, worker)) {
		h->place = PLACE_ID;
		hop_to_owner(h, worker);
		return true;
	}
	const bool deletes =
	    http_request_method(h->req) == HTTP_DELETE && http_request_param(h->req, "template");
	const enum seek_use use = !must ? SEEK_SOURCE : deletes ? SEEK_DELETE : SEEK_TEMPLATE;
	if (seek_begin(h->bound, h->who, h->kept, use, on_sought, h, &seek, &e) < 0)
		hop_refuse(h, e.code, "%s", e.text);
	else if (seek)
		h->seek = seek;
	return true;
}
