/* SPDX-License-Identifier: Apache-2.0 */
/* image: signatures of images, and that a layout begins with the digest that was signed. */
#include "base/fdio.h"
#include "base/text.h"
#include "image/bundle.h"
#include "image/signature.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Made by packaging/release/sign, and checked by minisign. */
#define KEY    "RWS7rtQfQPLgFYWLKE8Tr9G6y4GCEaqSNctRZCN7/BvL4ds8+8Nah13x"
#define OTHER  "RWQAAAAAAAAAAIWLKE8Tr9G6y4GCEaqSNctRZCN7/BvL4ds8+8Nah13x"
#define DIGEST "sha256:8206ef0cb67a4976cd166ce8e4ae53abe35698d02545ee80ba52b52e1a0fe02b"
static const char signature[] =
    "untrusted comment: signature of base@" DIGEST "\n"
    "RUS7rtQfQPLgFYnAk2eyhnK/7nk5SDG/mOKnnLk0yCR0HeXnBGtZ/"
    "qLaiicheWHOt7AHDCVwDCA64sJza8WmnMGLRoZEcMX"
    "+qwY=\n"
    "trusted comment: image base@" DIGEST "\n"
    "Fwg+ubT60zfsW2I2/NpJHlDsujqle80Jm3m76zk9hy3WprOxqCPYoo6xDsOnxxxvfDzRLJ86DWxzejWD3G4TCA==\n";

static bool holds(const char *keys, const char *text, size_t len, const char *name,
		  const char *digest)
{
	struct signature_keys parsed;
	struct err e = ERR_INIT;

	assert_int_equal(signature_parse_keys(keys, &parsed, &e), 0);
	if (signature_check(&parsed, text, len, name, digest, &e) >= 0)
		return true;
	assert_int_equal(e.code, ERR_IMAGE_INVALID);
	return false;
}

static void test_good(void **state UNUSED)
{
	assert_true(holds(KEY, signature, strlen(signature), "base", DIGEST));
	assert_true(holds(OTHER "," KEY " ", signature, strlen(signature), "base", DIGEST));
	assert_true(holds(KEY, signature, strlen(signature) - 1, "base", DIGEST));
	assert_false(holds(OTHER, signature, strlen(signature), "base", DIGEST));
	assert_false(holds("", signature, strlen(signature), "base", DIGEST));
	assert_false(holds(KEY, signature, strlen(signature), "bas", DIGEST));
	assert_false(holds(KEY, signature, strlen(signature), "base", DIGEST "0"));
}

/* Whatever is cut off or changed behind the comment that nobody signed, nothing holds. */
static void test_damaged(void **state UNUSED)
{
	const size_t len = strlen(signature);
	const size_t from = (size_t)(strchr(signature, '\n') + 1 - signature);
	char text[sizeof(signature)];

	for (size_t n = 0; n < len - 1; n++)
		assert_false(holds(KEY, signature, n, "base", DIGEST));
	for (size_t i = from; i < len; i++) {
		memcpy(text, signature, sizeof(text));
		text[i] ^= 1;
		assert_false(holds(KEY, text, len, "base", DIGEST));
		text[i] = '\0';
		assert_false(holds(KEY, text, len, "base", DIGEST));
	}
}

static void test_keys(void **state UNUSED)
{
	static const char *const wrong[] = {"x", KEY "A", "RWS7", KEY KEY,
					    KEY "," KEY "," KEY "," KEY "," KEY};
	struct signature_keys keys;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		assert_true(signature_parse_keys(wrong[i], &keys, &e) < 0);
		assert_int_equal(e.code, ERR_SETTING_INVALID);
	}
	assert_int_equal(signature_parse_keys(" " KEY ",\n" OTHER ", ", &keys, &e), 0);
	assert_int_equal(keys.n, 2);
	assert_int_equal(signature_parse_keys(" ", &keys, &e), 0);
	assert_int_equal(keys.n, 0);
}

/* ---- a layout, as a process writes it that was taken over by what it read ---- */

static void quiet_text(void *user UNUSED, const char *text UNUSED)
{
}

static void quiet_tick(void *user UNUSED, const char *text UNUSED, uint64_t done UNUSED,
		       uint64_t total UNUSED)
{
}

static int unpack(int folder, const char *digest, struct err *e)
{
	static const struct image_watch w = {
	    .step = quiet_text, .tick = quiet_tick, .warn = quiet_text, .cancel_fd = -1};
	struct bundle_facts facts = {0};

	const struct bundle_source source = {
	    .folder = folder, .kind = BUNDLE_OCI, .digest = digest};

	return bundle_unpack(&source, folder, &w, &facts, e);
}

static void test_layout_begins_with(void **state UNUSED)
{
	static const char other[] =
	    "sha256:0000000000000000000000000000000000000000000000000000000000000000";
	char path[] = "/tmp/caisson-signature-XXXXXX", index[256];
	struct err e = ERR_INIT;

	assert_non_null(mkdtemp(path));
	_cleanup_fd_ int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int file =
	    openat(folder, "index.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	const int n =
	    snprintf(index, sizeof(index),
		     "{\"manifests\":[{\"digest\":\"%s\",\"size\":2,\"mediaType\":\"x\"}]}", other);

	assert_int_equal(fd_write_all(file, index, (size_t)n), 0);
	assert_true(unpack(folder, DIGEST, &e) < 0);
	assert_non_null(strstr(e.text, "sha256:8206ef0cb67a")); /* was announced */
	/* Of the one that it begins with, the blob is missing. */
	e = (struct err)ERR_INIT;
	assert_true(unpack(folder, other, &e) < 0);
	assert_non_null(strstr(e.text, "lacks"));
	e = (struct err)ERR_INIT;
	assert_true(unpack(folder, "", &e) < 0);
	assert_non_null(strstr(e.text, "lacks"));
	assert_int_equal(unlinkat(folder, "index.json", 0), 0);
	assert_int_equal(rmdir(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_good),
	    cmocka_unit_test(test_damaged),
	    cmocka_unit_test(test_keys),
	    cmocka_unit_test(test_layout_begins_with),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
