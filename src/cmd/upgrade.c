/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson upgrade --check [--json]` says whether there is a newer release, and where. It changes nothing: packages are
 * upgraded by what installed them.
 *
 * Exit status: 0: this is the newest; 1: there is a newer one; any other: nobody knows. */
#include "app/read_settings.h"
#include "cmd/cmd.h"

#include "base/jsonio.h"
#include "base/text.h"
#include "image/oci.h"
#include "image/release.h"

#include <inttypes.h>
#include <stdlib.h>

#define VERB  "upgrade"
#define NEWER 1

static void ignore_step(void *user UNUSED, const char *text UNUSED)
{
}

static void ignore_tick(void *user UNUSED, const char *text UNUSED, uint64_t done UNUSED,
			uint64_t total UNUSED)
{
}

static bool is_for_here(const struct release_file *f)
{
	return streq(f->architecture, "any") || streq(f->architecture, oci_architecture());
}

static void print_text(const struct release *r, const char *url, bool newer)
{
	char where[RELEASE_URL_MAX + RELEASE_NAME_MAX];

	if (!newer) {
		(void)printf("caisson %s is the newest\n", CAISSON_VERSION);
		return;
	}
	(void)printf("caisson %s is there (you have %s)\n", r->version, CAISSON_VERSION);
	for (size_t i = 0; i < r->n; i++) {
		const struct release_file *f = &r->files[i];

		if (!is_for_here(f))
			continue;
		release_file_url(url, f, where);
		(void)printf("  %-8s %s\n           sha256 %s\n", f->kind, where, f->sha256);
	}
}

static json_t *file_json(const struct release_file *f, const char *url)
{
	char where[RELEASE_URL_MAX + RELEASE_NAME_MAX];

	release_file_url(url, f, where);
	return json_pack("{s:s, s:s, s:s, s:s, s:I}", "kind", f->kind, "architecture",
			 f->architecture, "url", where, "sha256", f->sha256, "size",
			 (json_int_t)f->size);
}

static int print_json(const struct release *r, const char *url, bool newer)
{
	json_t *files = json_array();
	int failed = files ? 0 : -ENOMEM;

	for (size_t i = 0; failed == 0 && i < r->n; i++)
		if (is_for_here(&r->files[i]))
			failed = json_array_append_new(files, file_json(&r->files[i], url));
	json_t *doc = failed ? NULL
			     : json_pack("{s:s, s:s, s:b, s:O}", "installed", CAISSON_VERSION,
					 "newest", r->version, "newer", newer, "files", files);
	size_t len = 0;
	_cleanup_free_ char *text = jsonio_text(doc, JSON_INDENT(2), &len);

	json_decref(doc);
	json_decref(files);
	if (!text)
		return -ENOMEM;
	(void)puts(text);
	return 0;
}

/* Both are there, and the keys are keys. */
static int check_settings(const struct settings *s, struct signature_keys *ret, struct err *e)
{
	if (!s->release_url[0])
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "set SANDBOX_RELEASE_URL to the address of a release file; this "
			       "version has none built in");
	if (!s->image_key[0])
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "set SANDBOX_IMAGE_KEY to the public key that signs releases; "
			       "without it nothing is believed");
	return signature_parse_keys(s->image_key, ret, e);
}

static int check(const struct settings *s, bool json, struct err *e)
{
	static struct release release;
	const struct image_watch w = {
	    .step = ignore_step, .tick = ignore_tick, .warn = ignore_step, .cancel_fd = -1};
	struct signature_keys keys;
	int r = check_settings(s, &keys, e);

	if (r >= 0)
		r = release_fetch(s->release_url, getenv("SSL_CERT_FILE"), &keys, &w, &release, e);
	if (r < 0)
		return r;
	const bool newer = release_compare(release.version, CAISSON_VERSION) > 0;

	if (!json)
		print_text(&release, s->release_url, newer);
	else if (print_json(&release, s->release_url, newer) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "printing JSON");
	return newer ? NEWER : 0;
}

int cmd_upgrade(int argc, char **argv)
{
	_cleanup_(settings_done) struct settings s = {0};
	struct err e = ERR_INIT;
	bool json = false, asked = false;

	if (read_settings(&s, true, &argc, argv, &e) < 0)
		return cmd_fail(VERB, &e);
	for (int i = 1; i < argc; i++) {
		const bool known = streq(argv[i], "--check") || streq(argv[i], "--json");

		if (!known)
			return cmd_unknown(VERB, argv[i], &e) < 0 ? cmd_fail(VERB, &e) : 0;
		asked = asked || streq(argv[i], "--check");
		json = json || streq(argv[i], "--json");
	}
	if (!asked)
		return cmd_usage(VERB, "--check is all that it does; whatever installed caisson "
				       "upgrades it");
	const int r = check(&s, json, &e);

	return r < 0 ? cmd_fail(VERB, &e) : r;
}
