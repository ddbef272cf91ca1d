/* SPDX-License-Identifier: Apache-2.0 */
/* What people see of the builds: the last one, of whatever kind. */
#include "build/file_build.h"

#include <time.h>

json_t *file_build_last_other(const struct builds *b)
{
	const struct build_images *images = &b->config.images;
	json_t *other = images->build_of(images->user);
	json_t *which = json_pack("{s:O*, s:O*, s:O*}", "name", json_object_get(other, "name"),
				  "what", json_object_get(other, "what"), "began_at",
				  json_object_get(other, "began_at"));

	json_decref(other);
	return which;
}

static json_t *time_json(uint64_t ms)
{
	const time_t t = (time_t)(ms / 1000);
	char text[32];
	struct tm tm;

	if (ms == 0 || !gmtime_r(&t, &tm) || strftime(text, sizeof(text), "%FT%TZ", &tm) == 0)
		return json_null();
	return json_string(text);
}

static json_t *file_json(const struct file_build *f)
{
	static const char *const states[] = {[FILE_BUILD_GOES_ON] = "building",
					     [FILE_BUILD_DONE] = "done",
					     [FILE_BUILD_FAILED] = "failed",
					     [FILE_BUILD_CANCELLED] = "cancelled"};

	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s, s:I, s:O}", "name", f->image, "what",
			 "build", "state", states[f->state], "began_at", time_json(f->began_ms),
			 "ended_at", time_json(f->ended_ms), "reason", f->reason, "dropped",
			 (json_int_t)f->dropped, "lines", f->lines);
}

json_t *builds_json(const struct builds *b)
{
	const struct build_images *images = &b->config.images;
	const struct file_build *f = b->file;
	json_t *other = f && f->state != FILE_BUILD_GOES_ON ? file_build_last_other(b) : NULL;
	const bool is_last = f && (!other || json_equal(other, f->other));

	json_decref(other);
	return is_last ? file_json(f) : images->build_of(images->user);
}
