/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the bytes of one message and turns them into a JSON document. */
#include "mcp/objects.h"

#include "base/jsonio.h"
#include "mcp/exact.h"
#include "mcp/scanner.h"

/* Values in one message. They limit the memory of the tree, and the time to build it: some milliseconds. */
#define VALUES_MAX 5000U

struct mcp_reader {
	struct scanner scan;
};

/* What a fault of the scanner means for the client, and the errno that the transport gets. */
static const struct {
	enum message_fault fault;
	int error;
	const char *why;
} faults[] = {
    [SCAN_OK] = {MESSAGE_OK, 0, NULL},
    [SCAN_SYNTAX] = {MESSAGE_NOT_JSON, -EBADMSG, "The message is not JSON"},
    [SCAN_UTF8] = {MESSAGE_NOT_JSON, -EBADMSG, "The message is not UTF-8"},
    [SCAN_DEPTH] = {MESSAGE_INVALID, -E2BIG, "The message is nested too deeply"},
    [SCAN_VALUES] = {MESSAGE_INVALID, -E2BIG, "The message has too many values"},
    [SCAN_TOO_LARGE] = {MESSAGE_TOO_LARGE, -EMSGSIZE, NULL},
    [SCAN_NO_MEMORY] = {MESSAGE_NO_MEMORY, -ENOMEM, NULL},
    [SCAN_OVER_BUDGET] = {MESSAGE_OVER_BUDGET, -EDQUOT, NULL},
    [SCAN_NO_SPILL] = {MESSAGE_NO_MEMORY, -ENOSPC, NULL},
};

struct mcp_reader *mcp_reader_new(const struct mcp_reader_config *config)
{
	static const struct mcp_reader_config defaults;
	const struct mcp_reader_config *c = config ? config : &defaults;
	struct mcp_reader *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	scanner_init(&r->scan, &(struct scan_limits){
				   .max_message = c->max_message ? c->max_message : MCP_MESSAGE_MAX,
				   .max_rest = c->max_inline ? c->max_inline : MCP_INLINE_MAX,
				   .spill_min = c->spill_min ? c->spill_min : MCP_SPILL_MIN,
				   .max_values = VALUES_MAX,
				   .max_depth = MCP_DEPTH_MAX,
				   .budgets = c->budgets,
			       });
	return r;
}

struct mcp_reader *mcp_reader_free(struct mcp_reader *r)
{
	if (r) {
		scanner_done(&r->scan);
		free(r);
	}
	return NULL;
}

int mcp_reader_feed(struct mcp_reader *r, const char *bytes, size_t len)
{
	const size_t before = r->scan.n_bytes;
	const enum scan_fault fault = scanner_feed(&r->scan, bytes, len);

	/* The rest of a message that is only wrong, and not too large, may have the id of its request. */
	if (r->scan.discarding && fault <= SCAN_DEPTH && r->scan.n_bytes - before == len)
		return 0;
	return faults[fault].error;
}

void mcp_reader_set_payer(struct mcp_reader *r, const char *principal)
{
	(void)snprintf(r->scan.payer, sizeof(r->scan.payer), "%s", principal);
}

bool mcp_reader_is_blank(const struct mcp_reader *r)
{
	return scanner_is_blank(&r->scan);
}

void mcp_reader_reset(struct mcp_reader *r)
{
	scanner_reset(&r->scan);
}

/* The scanner has checked the syntax. These errors only show when the tree is built. */
static const struct {
	enum json_error_code code;
	enum message_fault fault;
	const char *why;
} objections[] = {
    {json_error_duplicate_key, MESSAGE_INVALID, "The message has a duplicate key"},
    {json_error_numeric_overflow, MESSAGE_INVALID, "The message has a number out of range"},
    {json_error_null_byte_in_key, MESSAGE_INVALID, "The message has a NUL in a key"},
};

static enum message_fault parse(const struct buf *rest, json_t **ret_root, const char **ret_why)
{
	json_error_t e;

	const int r =
	    jsonio_read(buf_str(rest), rest->len,
			JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, ret_root, &e);
	if (r == 0)
		return MESSAGE_OK;
	if (r == -ENOMEM)
		return MESSAGE_NO_MEMORY;
	for (size_t i = 0; i < ARRAY_SIZE(objections); i++) {
		if (objections[i].code == json_error_code(&e)) {
			*ret_why = objections[i].why;
			return objections[i].fault;
		}
	}
	*ret_why = "The message is not JSON";
	return MESSAGE_NOT_JSON;
}

static enum message_fault parse_exact(const struct buf *rest, json_t **ret_root,
				      const char **ret_why)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(rest->len + (size_t)VALUES_MAX * EXACT_MORE);

	if (exact_hide(buf_str(rest), rest->len, &b) < 0)
		return MESSAGE_NO_MEMORY;
	return parse(&b, ret_root, ret_why);
}

/* The id of a request that is refused, so that its sender knows which one it was. */
static json_t *refused_id(const struct scanner *scan)
{
	size_t len;
	const char *text = scanner_id(scan, &len);
	json_t *id = exact_number(text, len);

	if (id)
		return id;
	if (len == 0 || jsonio_read(text, len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &id, NULL) < 0)
		return NULL;
	if (json_is_string(id) || json_is_integer(id))
		return id;
	json_decref(id);
	return NULL;
}

enum message_fault reader_take(struct mcp_reader *r, struct message *ret)
{
	const enum scan_fault scanned = scanner_end(&r->scan);
	enum message_fault fault = faults[scanned].fault;

	*ret = (struct message){.why = faults[scanned].why};
	ret->size = r->scan.rest.len;
	if (fault == MESSAGE_OK)
		fault =
		    (r->scan.has_exact ? parse_exact : parse)(&r->scan.rest, &ret->root, &ret->why);
	if (fault != MESSAGE_OK)
		ret->id = refused_id(&r->scan);
	if (fault == MESSAGE_OK)
		ret->spill = TAKE_PTR(r->scan.spill);
	scanner_reset(&r->scan);
	return fault;
}
