/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/file_kind.h"

#include "base/text.h"
#include "tools/extras.h"

#include <string.h>

enum file_kind file_kind_of(const char *path, const uint8_t *data, size_t len)
{
	static const struct {
		const char *magic;
		size_t len;
		enum file_kind kind;
	} kinds[] = {
	    {"%PDF-", 5, KIND_PDF},    {"II*\0", 4, KIND_RASTER}, {"MM\0*", 4, KIND_RASTER},
	    {"II+\0", 4, KIND_RASTER}, {"BM", 2, KIND_RASTER},
	};
	bool has_nul = memchr(data, '\0', len) != NULL;

	if (extras_image_type(data, len))
		return KIND_PICTURE;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (len >= kinds[i].len && memcmp(data, kinds[i].magic, kinds[i].len) == 0 &&
		    (has_nul || kinds[i].kind == KIND_PDF))
			return kinds[i].kind;
	if (!has_nul && streq(mime_type(path), "image/svg+xml") && memmem(data, len, "<svg", 4))
		return KIND_SVG;
	const bool utf16 =
	    len >= 2 && (memcmp(data, "\xFF\xFE", 2) == 0 || memcmp(data, "\xFE\xFF", 2) == 0);
	return has_nul && !utf16 ? KIND_OTHER : KIND_TEXT;
}

const char *file_reader(const char *path)
{
	static const struct {
		const char *ending;
		const char *hint;
	} readers[] = {
	    {".xlsx", "pandas.read_excel(path, sheet_name=None)"},
	    {".xls", "pandas.read_excel(path, sheet_name=None)"},
	    {".parquet", "pandas.read_parquet(path)"},
	    {".feather", "pandas.read_feather(path)"},
	    {".npy", "numpy.load(path)"},
	    {".npz", "numpy.load(path)"},
	    {".zip", "zipfile.ZipFile(path).namelist()"},
	    {".tar", "tarfile.open(path).getnames()"},
	    {".tgz", "tarfile.open(path).getnames()"},
	    {".gz", "gzip.open(path)"},
	    {".sqlite", "sqlite3.connect(path)"},
	    {".db", "sqlite3.connect(path)"},
	    {".docx", "docx.Document(path)"},
	    {".pptx", "pptx.Presentation(path)"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
		if (text_ends_with(path, readers[i].ending))
			return readers[i].hint;
	return "code";
}
