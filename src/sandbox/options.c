/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a sandbox as a value: copying, merging, and their text in the record of a stored
 * sandbox. */
#include "base/jsonio.h"
#include "base/text.h"
#include "sandbox/options_pairs.h"

#include <string.h>

void sandbox_options_done(struct sandbox_options *o)
{
	pairs_done(&o->labels);
	pairs_done(&o->env);
	pairs_done(&o->gone_labels);
	pairs_done(&o->gone_env);
	*o = (struct sandbox_options){0};
}

int sandbox_options_copy(const struct sandbox_options *from, struct sandbox_options *ret)
{
	struct sandbox_options copy = *from;

	copy.labels = copy.env = copy.gone_labels = copy.gone_env = (struct sandbox_pairs){0};
	if (pairs_copy(&from->labels, &copy.labels) < 0 || pairs_copy(&from->env, &copy.env) < 0 ||
	    pairs_copy(&from->gone_labels, &copy.gone_labels) < 0 ||
	    pairs_copy(&from->gone_env, &copy.gone_env) < 0) {
		sandbox_options_done(&copy);
		return -ENOMEM;
	}
	*ret = copy;
	return 0;
}

static int merge_pairs(struct sandbox_pairs *p, const struct sandbox_pairs *set,
		       const struct sandbox_pairs *gone)
{
	char name[SANDBOX_ENV_NAME_MAX + 1];

	for (size_t i = 0; i < gone->n + set->n; i++) {
		const char *line = i < gone->n ? gone->list[i] : set->list[i - gone->n];
		const size_t len = strcspn(line, "=");

		memcpy(name, line, len);
		name[len] = '\0';
		if (i < gone->n)
			pairs_remove(p, name);
		else if (pairs_set(p, name, line + len + 1) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int check_labels(const struct sandbox_options *o, struct err *e)
{
	if (o->labels.n <= SANDBOX_LABELS_MAX)
		return 0;
	(void)err_set(e, ERR_INVALID_ARGUMENT, 0,
		      "'labels' is not valid: a sandbox has at most %d labels", SANDBOX_LABELS_MAX);
	return err_set_member(e, "labels");
}

int sandbox_options_merge(struct sandbox_options *o, const struct sandbox_options *change,
			  struct err *e)
{
	struct sandbox_options sum;

	if (sandbox_options_copy(o, &sum) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the options of a sandbox");
	sum.given |= change->given;
	for (unsigned x = 0; x < SANDBOX_OPTION_MAX_; x++)
		if (sandbox_option_given(change, x))
			sum.number[x] = change->number[x];
	if (sandbox_option_given(change, SANDBOX_OPTION_NAME))
		memcpy(sum.name, change->name, sizeof(sum.name));
	if (sandbox_option_given(change, SANDBOX_OPTION_IMAGE))
		memcpy(sum.image, change->image, sizeof(sum.image));
	if (sandbox_option_given(change, SANDBOX_OPTION_LEVEL))
		memcpy(sum.level, change->level, sizeof(sum.level));
	if (sandbox_option_given(change, SANDBOX_OPTION_WORKDIR))
		memcpy(sum.workdir, change->workdir, sizeof(sum.workdir));
	int r = merge_pairs(&sum.labels, &change->labels, &change->gone_labels);
	r = r < 0 ? r : merge_pairs(&sum.env, &change->env, &change->gone_env);
	if (r < 0)
		(void)err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the options of a sandbox");
	r = r < 0 ? r : check_labels(&sum, e);
	r = r < 0 ? r : sandbox_options_check_env(&sum.env, e);
	if (r < 0) {
		sandbox_options_done(&sum);
		return r;
	}
	sandbox_options_done(o);
	*o = sum;
	return 0;
}

/* ---- as JSON ---- */

static json_t *labels_json(const struct sandbox_options *o)
{
	json_t *labels = json_object();

	if (!labels || pairs_add_json(&o->labels, labels) == 0)
		return labels;
	json_decref(labels);
	return NULL;
}

static json_t *value_of(const struct sandbox_options *o, enum sandbox_option x)
{
	const struct sandbox_option_row *row = &sandbox_option_rows[x];

	if (row->type == SANDBOX_OPTION_TYPE_BOOL)
		return json_boolean(o->number[x]);
	if (row->type == SANDBOX_OPTION_TYPE_INT)
		return json_integer(o->number[x]);
	if (row->type == SANDBOX_OPTION_TYPE_NUMBER)
		return json_real((double)o->number[x] / 1000);
	if (row->type == SANDBOX_OPTION_TYPE_TEXT)
		return json_string(x == SANDBOX_OPTION_NAME    ? o->name
				   : x == SANDBOX_OPTION_IMAGE ? o->image
				   : x == SANDBOX_OPTION_LEVEL ? o->level
							       : o->workdir);
	return x == SANDBOX_OPTION_ENV ? pairs_names(&o->env) : labels_json(o);
}

/* The options that were given, without those of the set LEFT_OUT. */
static json_t *make_json(const struct sandbox_options *o, uint32_t left_out)
{
	json_t *object = json_object();

	for (unsigned x = 0; object && x < SANDBOX_OPTION_MAX_; x++)
		if ((o->given & ~left_out) >> x & 1 &&
		    json_object_set_new(object, sandbox_option_rows[x].member, value_of(o, x)) <
			0) {
			json_decref(object);
			return NULL;
		}
	return object;
}

json_t *sandbox_options_json(const struct sandbox_options *o)
{
	return make_json(o, 1u << SANDBOX_OPTION_PUBLIC);
}

/* ---- in a record ---- */

int sandbox_options_text(const struct sandbox_options *o, struct buf *text, struct buf *env)
{
	/* The record has name and image in columns of their own. */
	const uint32_t elsewhere =
	    1u << SANDBOX_OPTION_NAME | 1u << SANDBOX_OPTION_IMAGE | 1u << SANDBOX_OPTION_ENV;
	json_t *object = make_json(o, elsewhere);
	int r = object ? 0 : -ENOMEM;

	if (object && json_object_size(object) > 0)
		r = jsonio_add(text, object, JSON_COMPACT);
	json_decref(object);
	if (r < 0 || o->env.n == 0)
		return r;
	object = json_object();
	r = object ? pairs_add_json(&o->env, object) : -ENOMEM;
	r = r < 0 ? r : jsonio_add(env, object, JSON_COMPACT);
	json_decref(object);
	return r;
}

static int parse_object(const char *text, json_t **ret)
{
	*ret = NULL;
	return *text ? jsonio_read(text, strlen(text), 0, ret, NULL) : 0;
}

int sandbox_options_parse(const char *text, const char *env, struct sandbox_options *ret)
{
	struct sandbox_options o = {0};
	struct err ignored = ERR_INIT;
	json_t *object = NULL, *variables = NULL;
	int r = parse_object(text, &object);

	r = r < 0 ? r : parse_object(env, &variables);
	for (unsigned x = 0; r == 0 && x < SANDBOX_OPTION_MAX_; x++) {
		json_t *v = x == SANDBOX_OPTION_ENV
				? variables
				: json_object_get(object, sandbox_option_rows[x].member);

		if (v && sandbox_option_read(x, v, false, &o, &ignored) < 0 &&
		    ignored.code == ERR_OUT_OF_MEMORY)
			r = -ENOMEM;
	}
	json_decref(object);
	json_decref(variables);
	if (r < 0)
		sandbox_options_done(&o);
	else
		*ret = o;
	return r;
}
