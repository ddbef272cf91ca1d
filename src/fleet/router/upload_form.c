/* SPDX-License-Identifier: Apache-2.0 */
/* The page of an upload link. */
#include "fleet/router/parts.h"

#include <string.h>

/* No scripts, nothing from elsewhere; the form goes back to where it came from. */
#define PAGE_POLICY                                                                                \
	"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; "     \
	"frame-ancestors 'none'"

static const char page[] =
    "<!doctype html><html lang=\"en\"><meta charset=utf-8>"
    "<meta name=viewport content=\"width=device-width\"><title>Upload a file</title>"
    "<body style=\"font-family:sans-serif;margin:3em\"><h1>Upload a file</h1>"
    "<p>It goes into the sandbox that this link was made for. The link is for one file.</p>"
    "<form method=post enctype=multipart/form-data>"
    "<p><input type=file name=file "
    "required></p><p><button>Upload</button></p></form></body></html>\n";

void upload_form_respond(struct http_request *req)
{
	(void)http_add_header(req, "Cache-Control", "no-store");
	(void)http_add_header(req, "Content-Security-Policy", PAGE_POLICY);
	/* The address is a credential. The form itself needs an Origin, which no-referrer removes. */
	(void)http_add_header(req, "Referrer-Policy", "same-origin");
	http_respond(req, 200, "text/html; charset=utf-8", page, sizeof(page) - 1);
}
