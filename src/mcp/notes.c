/* SPDX-License-Identifier: Apache-2.0 */
/* Notes that handlers keep for a client between its calls. A client with a connection or an MCP session
 * has its note there. Requests of the modern era over HTTP have neither: they share the notes of all
 * clients with the same credential and the same name, and mcp_call_other_note() tells whether these are
 * more than one. */
#include "mcp/objects.h"

#include <stdlib.h>
#include <string.h>

#define NOTES_MAX      512u /* of such clients */
#define NOTES_EACH     16u  /* of one principal */
#define NOTES_LAPSE_MS (15 * 60 * 1000)

struct note {
	struct list node; /* in mcp_server.notes, the latest first */
	char *principal;  /* owned */
	char client[MCP_CLIENT_NAME_SIZE];
	char text[MCP_NOTE_MAX + 1];
	char other[MCP_NOTE_MAX + 1]; /* the one before */
	int64_t other_ms;             /* when that was used last */
	int64_t used_ms;
};

static bool has_own(const struct mcp_call *c)
{
	return c->peer && (c->transport != MCP_TRANSPORT_HTTP || c->peer->session);
}

uint64_t mcp_call_connection(const struct mcp_call *c)
{
	return has_own(c) ? c->peer->number : 0;
}

static void note_free(struct note *n)
{
	list_remove(&n->node);
	free(n->principal);
	free(n);
}

void server_forget_notes(struct mcp_server *s)
{
	list_for_each(l, &s->notes)
		note_free(list_entry(l, struct note, node));
}

static void client_of(const struct mcp_call *c, char ret[MCP_CLIENT_NAME_SIZE])
{
	(void)snprintf(ret, MCP_CLIENT_NAME_SIZE, "%s", mcp_call_client_name(c));
}

static struct note *find(const struct mcp_call *c)
{
	char client[MCP_CLIENT_NAME_SIZE];

	client_of(c, client);
	list_for_each(l, &c->server->notes) {
		struct note *n = list_entry(l, struct note, node);

		if (streq(n->principal, c->who->principal) && streq(n->client, client))
			return n;
	}
	return NULL;
}

/* Keeps the numbers of notes below their limits; the oldest ones go. */
static void make_room(struct mcp_server *s, const char *principal)
{
	unsigned n = 0, own = 0;

	list_for_each(l, &s->notes) {
		struct note *x = list_entry(l, struct note, node);
		const bool is_own = streq(x->principal, principal);

		own += is_own ? 1 : 0;
		if ((is_own && own >= NOTES_EACH) || ++n >= NOTES_MAX)
			note_free(x);
	}
}

/* Without memory the client has no note, which handlers expect anyway. */
static struct note *note_new(struct mcp_call *c)
{
	make_room(c->server, c->who->principal);
	struct note *n = calloc(1, sizeof(*n));

	if (n)
		n->principal = strdup(c->who->principal);
	if (!n || !n->principal) {
		free(n);
		return NULL;
	}
	list_init(&n->node);
	client_of(c, n->client);
	return n;
}

static void keep_shared(struct mcp_call *c, const char *text)
{
	struct note *n = find(c);
	const int64_t now = server_tick_ms(c->server);

	if (!text) {
		if (n)
			note_free(n);
		return;
	}
	n = n ? n : note_new(c);
	if (!n)
		return;
	if (!streq(n->text, text)) {
		memcpy(n->other, n->text, sizeof(n->other));
		n->other_ms = n->used_ms;
		(void)snprintf(n->text, sizeof(n->text), "%s", text);
	}
	n->used_ms = now;
	list_remove(&n->node);
	list_prepend(&c->server->notes, &n->node);
}

void mcp_call_keep_note(struct mcp_call *c, const char *note)
{
	note = note && strlen(note) <= MCP_NOTE_MAX ? note : NULL;
	if (!has_own(c)) {
		keep_shared(c, note);
		return;
	}
	if (c->peer->note && note && streq(c->peer->note, note))
		return;
	free(c->peer->note);
	c->peer->note = note ? strdup(note) : NULL;
}

const char *mcp_call_note(const struct mcp_call *c)
{
	if (has_own(c))
		return c->peer->note;
	const struct note *n = find(c);

	return n ? n->text : NULL;
}

const char *mcp_call_other_note(const struct mcp_call *c)
{
	const struct note *n = has_own(c) ? NULL : find(c);

	return n && n->other[0] && n->other_ms + NOTES_LAPSE_MS > server_tick_ms(c->server)
		   ? n->other
		   : NULL;
}
