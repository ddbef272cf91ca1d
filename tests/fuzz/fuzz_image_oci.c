/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of container images, release files, names of images, what registries ask for.
 * Properties: what is accepted is within its limits; a refusal has one line of text. */
#include "fuzz.h"

#include "base/attr.h"
#include "image/fetch.h"
#include "image/oci.h"
#include "image/ref.h"
#include "image/release.h"

#include <string.h>

static void check(int r, const struct err *e)
{
	if (r < 0)
		ASSERT(e->text[0] != '\0' && !strchr(e->text, '\n'));
}

static void documents(const char *text, size_t size)
{
	static struct oci_manifest manifest;
	static struct oci_config config;
	static struct docker_archive archive;
	static struct release release;
	struct oci_blob blob;
	struct err e = ERR_INIT;
	char token[256];
	int r = oci_parse_index(text, size, NULL, &blob, &e);

	check(r, &e);
	if (r >= 0)
		ASSERT(oci_is_digest(blob.digest) && blob.size <= OCI_JSON_MAX);
	r = oci_parse_manifest(text, size, &manifest, &e);
	check(r, &e);
	for (size_t i = 0; r >= 0 && i < manifest.n_layers; i++)
		ASSERT(oci_is_digest(manifest.layers[i].digest) &&
		       manifest.layers[i].size <= OCI_BLOB_MAX);
	r = oci_parse_config(text, size, &config, &e);
	check(r, &e);
	for (size_t i = 0; r >= 0 && i < config.n_diff_ids; i++)
		ASSERT(oci_is_digest(config.diff_ids[i]));
	r = oci_parse_docker(text, size, NULL, &archive, &e);
	check(r, &e);
	ASSERT(r < 0 || archive.n_layers <= OCI_LAYERS_MAX);
	r = release_parse(text, size, &release, &e);
	check(r, &e);
	for (size_t i = 0; r >= 0 && i < release.n; i++)
		ASSERT(!strpbrk(release.files[i].name, "/ \n\033"));
	if (r >= 0)
		ASSERT(release_compare(release.version, release.version) == 0);
	if (oci_parse_token(text, size, token, sizeof(token)) == 0)
		ASSERT(!strpbrk(token, "\r\n "));
	(void)oci_is_index(text, size);
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	static char user[FETCH_SECRET_MAX], password[FETCH_SECRET_MAX];
	_cleanup_free_ char *text = malloc(size + 1);
	struct fetch_challenge challenge;
	struct image_ref ref;
	struct err e = ERR_INIT;

	ASSERT(text);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	documents(text, size);
	int r = image_ref_parse(text, &ref, &e);

	check(r, &e);
	if (r >= 0 && ref.kind == REF_REGISTRY)
		ASSERT(ref.host[0] && ref.name[0] && ref.tag[0] && !strstr(ref.name, ".."));
	fetch_parse_challenge(text, &challenge);
	int found UNUSED = fetch_find_login(text, size, "r.example", user, password);

	return 0;
}
