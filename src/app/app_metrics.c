/* SPDX-License-Identifier: Apache-2.0 */
/* What /metrics says of certificates. It is noted when they are read: nobody waits for a disk to be asked. */
#include "app/app.h"

#include "http/tls_facts.h"

static const char *const uses[APP_CERTIFICATES] = {"listener", "router", "authority"};

void app_note_certificate(struct app *a, enum app_certificate which, const char *pem, size_t len)
{
	struct err ignored = ERR_INIT;
	int64_t until_s = 0;

	if (http_tls_look_end(pem, len, &until_s, &ignored) == 0)
		a->certificates[which].until_s = until_s;
}

void app_note_refused(struct app *a, enum app_certificate which, bool refused)
{
	a->certificates[which].refused = refused;
}

static int add_certificates(const struct app *a, struct buf *out)
{
	int r = buf_add_str(
	    out,
	    "# HELP caisson_certificate_end_timestamp_seconds When the first certificate ends of "
	    "those that the file had when it was read last.\n"
	    "# TYPE caisson_certificate_end_timestamp_seconds gauge\n");

	for (unsigned i = 0; i < APP_CERTIFICATES && r == 0; i++)
		if (a->certificates[i].until_s != 0)
			r = buf_printf(
			    out, "caisson_certificate_end_timestamp_seconds{use=\"%s\"} %jd\n",
			    uses[i], (intmax_t)a->certificates[i].until_s);
	r = r < 0 ? r
		  : buf_add_str(out,
				"# HELP caisson_certificate_refused 1: new files cannot be used, "
				"and the certificate of before is in use.\n"
				"# TYPE caisson_certificate_refused gauge\n");
	/* An authority is refused together with the certificate beside it. */
	for (unsigned i = 0; i < APP_CERTIFICATE_AUTHORITY && r == 0; i++)
		if (a->certificates[i].until_s != 0)
			r = buf_printf(out, "caisson_certificate_refused{use=\"%s\"} %d\n", uses[i],
				       a->certificates[i].refused);
	return r;
}

int app_metrics(struct buf *out, void *app)
{
	const struct app *a = app;
	const bool has = a->tls || a->router_files;
	int r = has ? add_certificates(a, out) : 0;

	return r < 0 || !a->router_files ? r : app_fleet_metrics(out, app);
}
