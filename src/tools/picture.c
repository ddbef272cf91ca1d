/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/picture.h"

#include "base/base64.h"
#include "base/buf.h"
#include "base/parse.h"
#include "base/rand.h"
#include "tools/extras.h"
#include "tools/program.h"
#include "tools/resources.h"

#include <string.h>

#define PAGES_MAX 1000000u

struct picture {
	picture_fn cb;
	void *user;
};

/* Defines source(), which gives something that Image.open() takes, by the form. A program that is not
 * there is a FileNotFoundError, a module an ImportError; the next way is tried then. */
static const char *const sources[] = {
    [PICTURE_RASTER] = "def source():\n"
		       "    return path\n",
    [PICTURE_SVG] =
	"def source():\n"
	"    ways = (['rsvg-convert', '-a', '-w', str(side), '-h', str(side), path],\n"
	"            ['convert', b'svg:' + path, 'png:-'])\n"
	"    for way in ways:\n"
	"        try:\n"
	"            return io.BytesIO(run(way))\n"
	"        except FileNotFoundError:\n"
	"            pass\n"
	"    import cairosvg\n"
	"    return io.BytesIO(cairosvg.svg2png(url=os.fsdecode(path), output_width=side))\n",
    [PICTURE_PDF] =
	"def source():\n"
	"    try:\n"
	"        info = run(['pdfinfo', path]).decode('utf-8', 'replace')\n"
	"        for line in info.splitlines():\n"
	"            if line.startswith('Pages:'):\n"
	"                print('pages', int(line.split()[1]), file=sys.stderr)\n"
	"        n = str(page)\n"
	"        return io.BytesIO(run(['pdftoppm', '-png', '-f', n, '-l', n, '-scale-to',\n"
	"                               str(side), '-singlefile', path]))\n"
	"    except FileNotFoundError:\n"
	"        pass\n"
	"    try:\n"
	"        import pypdfium2\n"
	"        doc = pypdfium2.PdfDocument(os.fsdecode(path))\n"
	"        print('pages', len(doc), file=sys.stderr)\n"
	"        sheet = doc[page - 1]\n"
	"        return sheet.render(scale=side / max(sheet.get_size())).to_pil()\n"
	"    except ImportError:\n"
	"        pass\n"
	"    import fitz\n"
	"    doc = fitz.open(os.fsdecode(path))\n"
	"    print('pages', len(doc), file=sys.stderr)\n"
	"    sheet = doc[page - 1]\n"
	"    zoom = side / max(sheet.rect.width, sheet.rect.height)\n"
	"    return io.BytesIO(sheet.get_pixmap(matrix=fitz.Matrix(zoom, zoom)).tobytes('png'))\n",
};

/* Tries sizes from the largest down. PNG keeps lines sharp; JPEG is for photographs. */
static const char program[] =
    "import io, os, subprocess, sys, warnings\n"
    "from PIL import Image, ImageOps\n"
    "Image.MAX_IMAGE_PIXELS = pixels\n"
    "warnings.simplefilter('error', Image.DecompressionBombWarning)\n"
    "def run(argv):\n"
    "    return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,\n"
    "                          stderr=subprocess.DEVNULL, check=True).stdout\n"
    "def picture():\n"
    "    found = source()\n"
    "    return found if isinstance(found, Image.Image) else Image.open(found)\n"
    "def small():\n"
    "    with picture() as im:\n"
    "        im = ImageOps.exif_transpose(im)\n"
    "        if im.mode.startswith('I') or im.mode == 'F':\n"
    "            im = im.convert('F')\n"
    "            low, high = im.getextrema()\n"
    "            k = 255 / ((high - low) or 1)\n"
    "            im = im.point(lambda v: v * k - low * k).convert('L')\n"
    "        if im.mode not in ('L', 'RGB', 'RGBA'):\n"
    "            im = im.convert('RGBA' if 'transparency' in im.info or 'A' in im.mode else "
    "'RGB')\n"
    "        for size in (side, side * 2 // 3, side * 2 // 5, side // 4, side // 8):\n"
    "            im.thumbnail((size, size))\n"
    "            flat = im\n"
    "            if im.mode == 'RGBA':\n"
    "                flat = Image.new('RGB', im.size, 'white')\n"
    "                flat.paste(im, mask=im.getchannel('A'))\n"
    "            for form, kind, more in ((im, 'PNG', {}), (flat, 'JPEG', {'quality': 85}),\n"
    "                                     (flat, 'JPEG', {'quality': 60})):\n"
    "                out = io.BytesIO()\n"
    "                form.save(out, kind, **more)\n"
    "                if out.tell() <= most:\n"
    "                    return out.getvalue()\n"
    "    return b''\n"
    "data = small()\n"
    "while data:\n"
    "    data = data[os.write(1, data):]\n";

static int make_code(struct buf *b, const char *path, enum picture_form form, unsigned page,
		     size_t most)
{
	char full[ENGINE_PATH_MAX + sizeof(TOOLS_WORKSPACE)];
	int r = buf_printf(b, "side, pixels, most, page = %d, %d, %zu, %u\n", PICTURE_SIDE_MAX,
			   PICTURE_PIXELS_MAX, most, page);

	(void)snprintf(full, sizeof(full), TOOLS_WORKSPACE "%s", path);
	r = r < 0 ? r : program_add_bytes(b, "path", full, strlen(full));
	r = r < 0 ? r : buf_add_str(b, sources[form]);
	return r < 0 ? r : buf_add_str(b, program);
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

/* "pages N" in the first line of stderr; 0: it is not there. */
static unsigned pages_of(const struct program_result *r)
{
	static const char word[] = "pages ";
	char text[32] = "";
	uint64_t n = 0;

	for (size_t i = 0; i < r->err_len && i < sizeof(text) - 1 && r->err[i] != '\n'; i++)
		text[i] = r->err[i];
	if (strncmp(text, word, strlen(word)) != 0 ||
	    parse_u64(text + strlen(word), 0, PAGES_MAX, &n) < 0)
		return 0;
	return (unsigned)n;
}

static void on_end(const struct program_result *r, const struct err *e, void *user)
{
	struct picture *p = user;

	p->cb(!e && r->good ? make_block(r->out) : NULL, e ? 0 : pages_of(r), p->user);
	free(p);
}

size_t picture_share(const uint64_t *sizes, size_t n, uint64_t room)
{
	bool counted[EXTRAS_IMAGES_MAX] = {false};
	uint64_t share = 0;

	for (size_t left = n, before = 0; left > 0 && left != before;) {
		before = left;
		share = room / left;
		for (size_t i = 0; i < n; i++) {
			if (counted[i] || sizes[i] > share)
				continue;
			counted[i] = true;
			room -= sizes[i];
			left--;
			if (i == 0)
				return (size_t)MIN(share, (uint64_t)EXTRAS_IMAGE_BYTES_MAX);
			break;
		}
	}
	return (size_t)MIN(share, (uint64_t)EXTRAS_IMAGE_BYTES_MAX);
}

json_t *picture_link(const struct sandbox *s, const char *path, uint64_t size)
{
	_cleanup_(buf_done) struct buf uri = BUF_INIT(4 * ENGINE_PATH_MAX);
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (resources_add_uri(&uri, sandbox_id(s), path) < 0)
		return NULL;
	return json_pack("{s:s, s:s, s:o, s:s, s:I}", "type", "resource_link", "uri", buf_str(&uri),
			 "name", tools_json_bytes(name, strlen(name)), "mimeType", mime_type(path),
			 "size", (json_int_t)size);
}

int picture_make(struct sandbox *s, const char *path, enum picture_form form, unsigned page,
		 size_t most, picture_fn cb, void *user, struct err *e)
{
	struct picture *p = calloc(1, sizeof(*p));
	struct buf code = BUF_INIT(PROGRAM_MAX + 8 * ENGINE_PATH_MAX);

	if (!p)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a picture");
	p->cb = cb;
	p->user = user;
	int r = make_code(&code, path, form, page, most);
	if (r < 0) {
		buf_done(&code);
		free(p);
		return err_set(e, ERR_INVALID_PATH, -r, "the path of a picture");
	}
	r = program_run(s, &code, most, PICTURE_TIMEOUT_NS, on_end, p, e);
	if (r < 0)
		free(p);
	return r;
}
