/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/server_facts.h"

#include "base/text.h"
#include "cmd/cmd.h"
#include "config/paths.h"
#include "image/image.h"

#define VALUE_MAX 512

static int add_image(void *user, const struct image_manifest *m)
{
	json_t *row = json_pack(
	    "{s:s, s:I, s:s, s:s, s:I, s:s}", "name", image_manifest_str(m, "name"), "bytes",
	    (json_int_t)image_manifest_u64(m, "size_bytes"), "built_at",
	    image_manifest_str(m, "built_at"), "python", image_manifest_str(m, "python_version"),
	    "packages", (json_int_t)image_manifest_n_packages(m), "description",
	    image_manifest_str(m, "description"));

	return json_array_append_new(user, row) < 0 ? -ENOMEM : 0;
}

static void gather_images(struct server_facts *f, const struct settings *s)
{
	struct image_store store = {.dir = -1};
	char state_dir[PATH_MAX];
	struct err ignored = ERR_INIT;

	if (config_state_dir(s, state_dir, sizeof(state_dir), &ignored) >= 0 &&
	    image_store_open(&store, state_dir, false, &ignored) >= 0)
		(void)!image_manifest_each(&store, add_image, f->images, &ignored);
	image_store_done(&store);
}

void server_facts_gather(struct server_facts *f, const struct app *a)
{
	*f = (struct server_facts){.app = a, .images = json_array()};
	gather_images(f, &a->settings);
	f->doctor = cmd_doctor_rows(&a->settings);
}

void server_facts_done(struct server_facts *f)
{
	json_decref(f->images);
	json_decref(f->doctor);
	*f = (struct server_facts){0};
}

static json_t *images_json(const struct server_facts *f)
{
	json_t *all = json_deep_copy(f->images), *row;
	size_t i;

	json_array_foreach(all, i, row) {
		const char *name = json_string_value(json_object_get(row, "name"));

		if (json_object_set_new(row, "default",
					json_boolean(name && streq(name, f->app->image))) < 0) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

static json_t *settings_json(const struct settings *s)
{
	json_t *all = json_array();
	char value[VALUE_MAX];

	for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++) {
		const struct setting_row *row = &setting_rows[id];
		const bool secret = row->type == SETTING_SECRET;

		settings_format(s, id, value, sizeof(value));
		if (json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:b, s:s}", "name",
							 row->env, "value", secret ? "" : value,
							 "from", setting_source_name(s->source[id]),
							 "secret", secret, "help", row->doc)) < 0) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

json_t *server_facts_json(bool admin, void *user)
{
	const struct server_facts *f = user;
	const struct settings *s = &f->app->settings;
	json_t *doc = json_pack("{s:s, s:s, s:o}", "profile", s->profile, "engine", s->engine,
				"images", images_json(f));

	if (doc && admin &&
	    (json_object_set_new(doc, "settings", settings_json(s)) < 0 ||
	     json_object_set_new(doc, "doctor",
				 f->doctor ? json_deep_copy(f->doctor) : json_array()) < 0)) {
		json_decref(doc);
		return NULL;
	}
	return doc;
}
