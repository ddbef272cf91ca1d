/* SPDX-License-Identifier: Apache-2.0 */
#include "image/oci.h"

#include "base/jsonio.h"
#include "base/text.h"
#include "image/def.h"

#include <string.h>

#define TOKEN_MIN '!'
#define TOKEN_MAX '~'

static int invalid(struct err *e, const char *what)
{
	return err_set(e, ERR_IMAGE_INVALID, EBADMSG, "the image's %s", what);
}

const char *oci_architecture(void)
{
#if defined(__x86_64__)
	return "amd64";
#elif defined(__aarch64__)
	return "arm64";
#else
#error "what images call this machine"
#endif
}

bool oci_is_architecture(const char *name)
{
	return streq(name, "amd64") || streq(name, "arm64");
}

bool oci_is_time(const char *s)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd";
	size_t i = 0;

	for (; form[i]; i++)
		if (form[i] == 'd' ? s[i] < '0' || s[i] > '9' : s[i] != form[i])
			return false;
	return s[i] && strlen(s) <= OCI_TIME_MAX &&
	       strspn(s + i, "0123456789.:+-Z") == strlen(s + i);
}

void oci_digest_end(crypto_hash_sha256_state *h, char ret[OCI_DIGEST_LEN + 1])
{
	unsigned char sum[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(sum) + 1];

	(void)crypto_hash_sha256_final(h, sum);
	text_hex(sum, sizeof(sum), hex);
	(void)snprintf(ret, OCI_DIGEST_LEN + 1, "sha256:%s", hex);
}

bool oci_is_digest(const char *s)
{
	return strlen(s) == OCI_DIGEST_LEN && text_starts_with(s, "sha256:") &&
	       strspn(s + 7, "0123456789abcdef") == 64;
}

static const char *get_str(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	/* A NUL within a string would cut it short. */
	return s && strlen(s) == json_string_length(json_object_get(o, key)) ? s : "";
}

static int read_object(const char *text, size_t len, const char *what, json_t **ret, struct err *e)
{
	json_t *json = NULL;

	if (len > OCI_JSON_MAX)
		return invalid(e, "document is larger than 4 MiB");
	int r = jsonio_read(text, len, JSON_REJECT_DUPLICATES, &json, NULL);

	if (r >= 0 && !json_is_object(json)) {
		json_decref(json);
		r = -EBADMSG;
	}
	if (r < 0)
		return err_set(e, ERR_IMAGE_INVALID, -r, "the image's %s is no JSON object", what);
	*ret = json;
	return 0;
}

static int take_blob(const json_t *o, uint64_t max, struct oci_blob *ret, struct err *e)
{
	const char *digest = get_str(o, "digest");
	const json_int_t size = json_integer_value(json_object_get(o, "size"));

	if (!oci_is_digest(digest))
		return invalid(e, "manifest has a digest that is no sha256");
	if (size < 0 || (uint64_t)size > max)
		return invalid(e, "manifest has a part that is too large");
	/* A layer with addresses of its own is fetched from elsewhere; nobody checked those. */
	if (json_object_get(o, "urls"))
		return invalid(e, "manifest has a layer that must be fetched from elsewhere");
	(void)snprintf(ret->digest, sizeof(ret->digest), "%s", digest);
	ret->size = (uint64_t)size;
	return 0;
}

bool oci_is_index(const char *text, size_t len)
{
	json_t *json = NULL;
	struct err ignored = ERR_INIT;

	if (read_object(text, len, "manifest", &json, &ignored) < 0)
		return false;
	const bool index = json_is_array(json_object_get(json, "manifests"));

	json_decref(json);
	return index;
}

/* An entry without a platform is for any machine; attestations say "unknown". */
static bool fits(const json_t *entry)
{
	const json_t *platform = json_object_get(entry, "platform");

	return !platform || (streq(get_str(platform, "os"), "linux") &&
			     streq(get_str(platform, "architecture"), oci_architecture()));
}

static bool has_tag(const json_t *entry, const char *tag)
{
	const json_t *notes = json_object_get(entry, "annotations");

	return !tag || !tag[0] || streq(get_str(notes, "org.opencontainers.image.ref.name"), tag) ||
	       streq(get_str(notes, "io.containerd.image.name"), tag);
}

int oci_parse_index(const char *text, size_t len, const char *tag, struct oci_blob *ret,
		    struct err *e)
{
	json_t *json = NULL;
	const json_t *found = NULL;
	size_t tagged = 0;
	size_t fitting = 0;
	size_t i;
	json_t *entry;
	int r = read_object(text, len, "index", &json, e);

	if (r < 0)
		return r;
	const json_t *list = json_object_get(json, "manifests");

	if (!json_is_array(list) || json_array_size(list) > OCI_MANIFESTS_MAX)
		r = invalid(e, "index has no list of manifests, or one of more than 256");
	json_array_foreach(list, i, entry) {
		if (r < 0 || !has_tag(entry, tag))
			continue;
		tagged++;
		if (!fits(entry))
			continue;
		fitting++;
		/* Entries that say which machine they are for come before those that do not. */
		if (!found ||
		    (!json_object_get(found, "platform") && json_object_get(entry, "platform")))
			found = entry;
	}
	if (r >= 0 && tagged == 0)
		r = err_set(e, ERR_NOT_FOUND, 0, "the archive has no image with that tag");
	else if (r >= 0 && !found)
		r = err_set(e, ERR_IMAGE_UNSUITABLE, 0, "the image is not made for linux/%s",
			    oci_architecture());
	else if (r >= 0 && fitting > 1 && !json_object_get(found, "platform"))
		r = err_set(e, ERR_INVALID_ARGUMENT, 0,
			    "the archive has several images; choose one with --tag");
	if (r >= 0)
		r = take_blob(found, OCI_JSON_MAX, ret, e);
	json_decref(json);
	return r;
}

int oci_parse_manifest(const char *text, size_t len, struct oci_manifest *ret, struct err *e)
{
	json_t *json = NULL;
	size_t i;
	json_t *layer;
	int r = read_object(text, len, "manifest", &json, e);

	if (r < 0)
		return r;
	*ret = (struct oci_manifest){0};
	const json_t *layers = json_object_get(json, "layers");

	if (json_integer_value(json_object_get(json, "schemaVersion")) != 2)
		r = invalid(e, "manifest has not schema version 2");
	else if (!json_is_array(layers) || json_array_size(layers) > OCI_LAYERS_MAX)
		r = invalid(e, "manifest has no list of layers, or one of more than 128");
	if (r >= 0)
		r = take_blob(json_object_get(json, "config"), OCI_JSON_MAX, &ret->config, e);
	json_array_foreach(layers, i, layer) {
		if (r >= 0)
			r = take_blob(layer, OCI_BLOB_MAX, &ret->layers[ret->n_layers], e);
		if (r >= 0)
			ret->n_layers++;
	}
	json_decref(json);
	return r;
}

static void take_path(const json_t *env, char ret[OCI_ENV_MAX + 1])
{
	size_t i;
	json_t *row;

	json_array_foreach(env, i, row) {
		const char *s = json_string_value(row);

		if (s && text_starts_with(s, "PATH=") && strlen(s) <= OCI_ENV_MAX &&
		    image_is_text(s, strlen(s)))
			(void)snprintf(ret, OCI_ENV_MAX + 1, "%s", s + strlen("PATH="));
	}
}

int oci_parse_config(const char *text, size_t len, struct oci_config *ret, struct err *e)
{
	json_t *json = NULL;
	size_t i;
	json_t *id;
	int r = read_object(text, len, "configuration", &json, e);

	if (r < 0)
		return r;
	*ret = (struct oci_config){0};
	const json_t *ids = json_object_get(json_object_get(json, "rootfs"), "diff_ids");
	const char *os = get_str(json, "os");
	const char *arch = get_str(json, "architecture");

	if (!streq(os, "linux") || !streq(arch, oci_architecture()))
		r = err_set(e, ERR_IMAGE_UNSUITABLE, 0,
			    "the image is made for %.20s/%.20s, and this machine is linux/%s",
			    image_is_text(os, strlen(os)) && os[0] ? os : "?",
			    image_is_text(arch, strlen(arch)) && arch[0] ? arch : "?",
			    oci_architecture());
	else if (!json_is_array(ids) || json_array_size(ids) > OCI_LAYERS_MAX)
		r = invalid(e, "configuration has no list of layers, or one of more than 128");
	json_array_foreach(ids, i, id) {
		const char *s = json_string_value(id);

		if (r >= 0 && (!s || !oci_is_digest(s)))
			r = invalid(e, "configuration has a digest that is no sha256");
		if (r >= 0)
			(void)snprintf(ret->diff_ids[ret->n_diff_ids++], OCI_DIGEST_LEN + 1, "%s",
				       s);
	}
	if (r >= 0)
		take_path(json_object_get(json_object_get(json, "config"), "Env"), ret->path);
	if (r >= 0 && oci_is_time(get_str(json, "created")))
		(void)snprintf(ret->created, sizeof(ret->created), "%s", get_str(json, "created"));
	json_decref(json);
	return r;
}

static bool has_repo_tag(const json_t *image, const char *tag)
{
	size_t i;
	json_t *row;

	if (!tag || !tag[0])
		return true;
	json_array_foreach(json_object_get(image, "RepoTags"), i, row) {
		const char *s = json_string_value(row);

		if (s && streq(s, tag))
			return true;
	}
	return false;
}

static int take_name(const json_t *value, char ret[OCI_PATH_MAX + 1], struct err *e)
{
	const char *s = json_string_value(value);

	if (!s || !s[0] || strlen(s) != json_string_length(value) || strlen(s) > OCI_PATH_MAX)
		return invalid(e, "manifest.json has a name of no file");
	(void)snprintf(ret, OCI_PATH_MAX + 1, "%s", s);
	return 0;
}

static int take_docker(const json_t *image, struct docker_archive *ret, struct err *e)
{
	const json_t *layers = json_object_get(image, "Layers");
	size_t i;
	json_t *layer;

	*ret = (struct docker_archive){0};
	int r = take_name(json_object_get(image, "Config"), ret->config, e);

	if (r >= 0 && (!json_is_array(layers) || json_array_size(layers) > OCI_LAYERS_MAX))
		r = invalid(e, "manifest.json has no list of layers, or one of more than 128");
	json_array_foreach(layers, i, layer) {
		if (r >= 0)
			r = take_name(layer, ret->layers[ret->n_layers], e);
		if (r >= 0)
			ret->n_layers++;
	}
	return r;
}

int oci_parse_docker(const char *text, size_t len, const char *tag, struct docker_archive *ret,
		     struct err *e)
{
	json_t *json = NULL;
	const json_t *found = NULL;
	size_t matches = 0;
	size_t i;
	json_t *image;

	if (len > OCI_JSON_MAX)
		return invalid(e, "document is larger than 4 MiB");
	int r = jsonio_read(text, len, JSON_REJECT_DUPLICATES, &json, NULL);

	if (r < 0 || !json_is_array(json) || json_array_size(json) > OCI_MANIFESTS_MAX)
		r = invalid(e, "manifest.json is no list of at most 256 images");
	json_array_foreach(json, i, image) {
		if (r < 0 || !has_repo_tag(image, tag))
			continue;
		matches++;
		found = image;
	}
	if (r >= 0 && matches == 0)
		r = err_set(e, ERR_NOT_FOUND, 0, "the archive has no image with that tag");
	else if (r >= 0 && matches > 1)
		r = err_set(e, ERR_INVALID_ARGUMENT, 0,
			    "the archive has several images; choose one with --tag");
	if (r >= 0)
		r = take_docker(found, ret, e);
	json_decref(json);
	return r;
}

int oci_parse_token(const char *text, size_t len, char *ret, size_t size)
{
	json_t *json = NULL;
	struct err ignored = ERR_INIT;
	int r = read_object(text, len, "token", &json, &ignored);

	if (r < 0)
		return -EBADMSG;
	const char *token = get_str(json, "token");

	if (!token[0])
		token = get_str(json, "access_token");
	r = token[0] && strlen(token) < size ? 0 : -EBADMSG;
	for (const char *s = token; r >= 0 && *s; s++)
		if (*s < TOKEN_MIN || *s > TOKEN_MAX)
			r = -EBADMSG;
	if (r >= 0)
		r = text_copy(ret, size, token);
	json_decref(json);
	return r;
}
