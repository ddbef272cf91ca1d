/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/picture.h"

#include "base/base64.h"
#include "base/buf.h"
#include "base/rand.h"
#include "tools/extras.h"

#include <string.h>

#define CODE_MAX (8u << 10)

struct shrink {
	struct buf code;
	struct buf out;
	bool too_much;
	picture_fn cb;
	void *user;
};

/* Tries sizes from the largest down. PNG keeps lines sharp; JPEG is for photographs. */
static const char program[] =
    "import io, os, warnings\n"
    "from PIL import Image, ImageOps\n"
    "Image.MAX_IMAGE_PIXELS = pixels\n"
    "warnings.simplefilter('error', Image.DecompressionBombWarning)\n"
    "def small():\n"
    "    with Image.open(path) as im:\n"
    "        im = ImageOps.exif_transpose(im)\n"
    "        if im.mode not in ('L', 'RGB', 'RGBA'):\n"
    "            im = im.convert('RGBA' if 'transparency' in im.info or 'A' in im.mode else "
    "'RGB')\n"
    "        for size in (side, side * 2 // 3, side * 2 // 5):\n"
    "            im.thumbnail((size, size))\n"
    "            flat = im\n"
    "            if im.mode == 'RGBA':\n"
    "                flat = Image.new('RGB', im.size, 'white')\n"
    "                flat.paste(im, mask=im.getchannel('A'))\n"
    "            for form, kind, more in (im, 'PNG', {}), (flat, 'JPEG', {'quality': 85}):\n"
    "                out = io.BytesIO()\n"
    "                form.save(out, kind, **more)\n"
    "                if out.tell() <= most:\n"
    "                    return out.getvalue()\n"
    "    return b''\n"
    "data = small()\n"
    "while data:\n"
    "    data = data[os.write(1, data):]\n";

/* Writes PATH as a bytes literal of Python, so that no byte of it can become code. */
static int make_code(struct buf *b, const char *path)
{
	int r = buf_printf(b, "side, pixels, most = %d, %d, %u\npath = b'/mnt/data/",
			   PICTURE_SIDE_MAX, PICTURE_PIXELS_MAX, EXTRAS_IMAGE_BYTES_MAX);

	for (const char *p = path; r == 0 && *p; p++)
		r = buf_printf(b, "\\x%02x", (unsigned)(unsigned char)*p);
	return r < 0 ? r : buf_printf(b, "'\n%s", program);
}

static json_t *make_block(const struct buf *data)
{
	const uint8_t *bytes = (const uint8_t *)buf_str(data);
	const char *type = extras_image_type(bytes, data->len);
	_cleanup_free_ char *text = type ? malloc(BASE64_ENCODED_LEN(data->len) + 1) : NULL;

	if (!text)
		return NULL;
	base64_encode(bytes, data->len, text);
	return mcp_image(text, BASE64_ENCODED_LEN(data->len), type);
}

static void on_output(struct run *r, enum engine_stream stream, const void *data, size_t len,
		      void *user)
{
	struct shrink *s = user;

	if (stream != ENGINE_STDOUT || s->too_much)
		return;
	if (buf_add(&s->out, data, len) == 0)
		return;
	s->too_much = true;
	run_cancel(r);
}

static void shrink_free(struct shrink *s)
{
	buf_done(&s->code);
	buf_done(&s->out);
	free(s);
}

static void on_done(struct run *r UNUSED, const struct run_result *result, const struct err *e,
		    void *user)
{
	struct shrink *s = user;
	const bool good = !e && result->reason == RUN_EXITED && result->exit_code == 0;

	s->cb(good && !s->too_much ? make_block(&s->out) : NULL, s->user);
	shrink_free(s);
}

int picture_shrink(struct sandbox *sandbox, const char *path, picture_fn cb, void *user,
		   struct err *e)
{
	struct shrink *s = calloc(1, sizeof(*s));
	struct run *run;

	if (!s)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a picture");
	buf_init(&s->code, CODE_MAX);
	buf_init(&s->out, EXTRAS_IMAGE_BYTES_MAX);
	s->cb = cb;
	s->user = user;
	int r = make_code(&s->code, path);
	if (r < 0) {
		r = err_set(e, ERR_INVALID_PATH, -r, "the path of a picture");
	} else {
		const struct run_request request = {
		    .kind = ENGINE_RUN_PYTHON,
		    .code = buf_str(&s->code),
		    .code_len = s->code.len,
		    .timeout_ns = PICTURE_TIMEOUT_NS,
		    .unbounded = true,
		    .no_artifacts = true,
		    .on_output = on_output,
		    .on_done = on_done,
		    .user = s,
		};
		r = sandbox_run(sandbox, &request, &run, e);
	}
	if (r < 0)
		shrink_free(s);
	return r;
}
