/* SPDX-License-Identifier: Apache-2.0 */
/* The table of routes: every address that the SDKs ask for. */
#include "faces/e2b/face.h"

#include "api/json_body.h"

#include <stdlib.h>

#define P(path) E2B_PREFIX path

/* clang-format off */
const struct e2b_route e2b_routes[] = {
    {HTTP_POST, P("/sandboxes"), E2B_CONTROL, e2b_create_v1, false},
    {HTTP_POST, P("/v2/sandboxes"), E2B_CONTROL, e2b_create_v2, false},
    {HTTP_GET, P("/sandboxes"), E2B_CONTROL, e2b_list_v1, true},
    {HTTP_GET, P("/v2/sandboxes"), E2B_CONTROL, e2b_list_v2, true},
    {HTTP_GET, P("/sandboxes/{id}"), E2B_CONTROL, e2b_info, true},
    {HTTP_DELETE, P("/sandboxes/{id}"), E2B_CONTROL, e2b_kill, false},
    {HTTP_POST, P("/sandboxes/{id}/connect"), E2B_CONTROL, e2b_connect, false},
    {HTTP_POST, P("/v2/sandboxes/{id}/connect"), E2B_CONTROL, e2b_connect, false},
    {HTTP_POST, P("/sandboxes/{id}/timeout"), E2B_CONTROL, e2b_set_timeout, false},
    {HTTP_POST, P("/sandboxes/{id}/refreshes"), E2B_CONTROL, e2b_refresh, false},
    {HTTP_GET, P("/sandboxes/{id}/metrics"), E2B_CONTROL, e2b_metrics, true},

    {HTTP_GET, P("/sandboxes/metrics"), E2B_CONTROL, e2b_metrics_of_many, true},
    {HTTP_GET, P("/sandboxes/{id}/logs"), E2B_CONTROL, e2b_not_offered, true},
    {HTTP_GET, P("/v2/sandboxes/{id}/logs"), E2B_CONTROL, e2b_not_offered, true},
    {HTTP_GET, P("/events/sandboxes"), E2B_CONTROL, e2b_not_offered, true},
    {HTTP_GET, P("/events/sandboxes/{id}"), E2B_CONTROL, e2b_not_offered, true},
    {HTTP_GET, P("/events/webhooks"), E2B_CONTROL, e2b_not_offered, true},
    {HTTP_POST, P("/events/webhooks"), E2B_CONTROL, e2b_not_offered, false},
    {HTTP_GET, P("/events/webhooks/{webhook}"), E2B_CONTROL, e2b_not_offered, true},
    {HTTP_PATCH, P("/events/webhooks/{webhook}"), E2B_CONTROL, e2b_not_offered, false},
    {HTTP_DELETE, P("/events/webhooks/{webhook}"), E2B_CONTROL, e2b_not_offered, false},

    {HTTP_POST, P("/sandboxes/{id}/pause"), E2B_CONTROL, e2b_pause, false},
    {HTTP_POST, P("/sandboxes/{id}/resume"), E2B_CONTROL, e2b_resume, false},
    {HTTP_POST, P("/sandboxes/{id}/snapshots"), E2B_CONTROL, e2b_make_snapshot, false},
    {HTTP_POST, P("/sandboxes/{id}/fork"), E2B_CONTROL, e2b_fork, false},
    {HTTP_PUT, P("/sandboxes/{id}/network"), E2B_CONTROL, e2b_update_network, false},
    {HTTP_GET, P("/snapshots"), E2B_CONTROL, e2b_list_snapshots, true},
    {HTTP_POST, P("/v3/templates"), E2B_CONTROL, e2b_make_template, false, true},
    {HTTP_GET, P("/v2/templates"), E2B_CONTROL, e2b_list_templates, true, true},
    {HTTP_GET, P("/templates"), E2B_CONTROL, e2b_list_templates, true, true},
    {HTTP_GET, P("/templates/aliases/{alias}"), E2B_CONTROL, e2b_find_alias, true, true},
    {HTTP_DELETE, P("/templates/{template}"), E2B_CONTROL, e2b_delete_template, false},
    {HTTP_GET, P("/templates/{template}"), E2B_CONTROL, e2b_one_template, true, true},
    {HTTP_GET, P("/templates/{template}/tags"), E2B_CONTROL, e2b_list_tags, true, true},
    {HTTP_POST, P("/templates/tags"), E2B_CONTROL, e2b_assign_tags, false, true},
    {HTTP_DELETE, P("/templates/tags"), E2B_CONTROL, e2b_remove_tags, false, true},
    {HTTP_GET, P("/templates/{template}/files/{hash}"), E2B_CONTROL, e2b_archive_address, false, true},
    {HTTP_POST, P("/v2/templates/{template}/builds/{build}"), E2B_CONTROL, e2b_start_build, false, true},
    {HTTP_GET, P("/templates/{template}/builds/{build}/status"), E2B_CONTROL, e2b_build_status, true, true},
    {HTTP_GET, P("/templates/{template}/builds/{build}/logs"), E2B_CONTROL, e2b_not_offered, true, true},
    {HTTP_GET, P("/volumes/{volume}"), E2B_CONTROL, e2b_not_offered, true},
    {HTTP_DELETE, P("/volumes/{volume}"), E2B_CONTROL, e2b_not_offered, false},
    {HTTP_GET, P("/secrets/{secret}"), E2B_CONTROL, e2b_not_offered, true},
    {HTTP_POST, P("/secrets/{secret}"), E2B_CONTROL, e2b_not_offered, false},
    {HTTP_DELETE, P("/secrets/{secret}"), E2B_CONTROL, e2b_not_offered, false},
    {HTTP_GET, P("/volumes"), E2B_CONTROL, e2b_not_offered, true},
    {HTTP_POST, P("/volumes"), E2B_CONTROL, e2b_not_offered, false},
    {HTTP_GET, P("/secrets"), E2B_CONTROL, e2b_not_offered, true},
    {HTTP_POST, P("/secrets"), E2B_CONTROL, e2b_not_offered, false},
    {HTTP_GET, P("/volumecontent/{volume}/{what}"), E2B_CONTROL, e2b_not_offered, true},
    {HTTP_POST, P("/volumecontent/{volume}/{what}"), E2B_CONTROL, e2b_not_offered, false},
    {HTTP_PUT, P("/volumecontent/{volume}/{what}"), E2B_CONTROL, e2b_not_offered, false},
    {HTTP_PATCH, P("/volumecontent/{volume}/{what}"), E2B_CONTROL, e2b_not_offered, false},
    {HTTP_DELETE, P("/volumecontent/{volume}/{what}"), E2B_CONTROL, e2b_not_offered, false},

    /* To make a template public; and how SDKs built templates before they sent steps. */
    {HTTP_PATCH, P("/templates/{template}"), E2B_CONTROL, e2b_not_offered, false},
    {HTTP_PATCH, P("/v2/templates/{template}"), E2B_CONTROL, e2b_not_offered, false},
    {HTTP_POST, P("/templates"), E2B_CONTROL, e2b_not_offered, false},
    {HTTP_POST, P("/v2/templates"), E2B_CONTROL, e2b_not_offered, false},
    {HTTP_POST, P("/templates/{template}"), E2B_CONTROL, e2b_not_offered, false},
    {HTTP_POST, P("/templates/{template}/builds/{build}"), E2B_CONTROL, e2b_not_offered, false},

    {HTTP_POST, P("/process.Process/StreamInput"), E2B_STREAM, e2b_not_offered, false},
    {HTTP_POST, P("/process.Process/Start"), E2B_STREAM, e2b_start_process, false},
    {HTTP_POST, P("/process.Process/Connect"), E2B_STREAM, e2b_connect_process, false},
    {HTTP_POST, P("/process.Process/List"), E2B_RPC, e2b_list_processes, false},
    {HTTP_POST, P("/process.Process/SendInput"), E2B_RPC, e2b_send_input, false},
    {HTTP_POST, P("/process.Process/CloseStdin"), E2B_RPC, e2b_close_input, false},
    {HTTP_POST, P("/process.Process/SendSignal"), E2B_RPC, e2b_send_signal, false},
    {HTTP_POST, P("/process.Process/Update"), E2B_RPC, e2b_update_process, false},

    {HTTP_POST, P("/filesystem.Filesystem/Stat"), E2B_RPC, e2b_stat, false},
    {HTTP_POST, P("/filesystem.Filesystem/MakeDir"), E2B_RPC, e2b_make_dir, false},
    {HTTP_POST, P("/filesystem.Filesystem/Move"), E2B_RPC, e2b_move, false},
    {HTTP_POST, P("/filesystem.Filesystem/ListDir"), E2B_RPC, e2b_list_dir, false},
    {HTTP_POST, P("/filesystem.Filesystem/Remove"), E2B_RPC, e2b_remove, false},
    {HTTP_POST, P("/filesystem.Filesystem/WatchDir"), E2B_STREAM, e2b_watch_dir, false},
    {HTTP_POST, P("/filesystem.Filesystem/CreateWatcher"), E2B_RPC, e2b_create_watcher, false},
    {HTTP_POST, P("/filesystem.Filesystem/GetWatcherEvents"), E2B_RPC, e2b_watcher_events, false},
    {HTTP_POST, P("/filesystem.Filesystem/RemoveWatcher"), E2B_RPC, e2b_remove_watcher, false},

    {HTTP_GET, P("/files"), E2B_FILES, e2b_get_file, false},
    {HTTP_POST, P("/files"), E2B_FILES, e2b_put_files, false},
    {HTTP_PUT, P("/files"), E2B_FILES, e2b_put_file, false}, /* to addresses that we have told */

    {HTTP_POST, P("/execute"), E2B_CODE, e2b_execute, false},
    {HTTP_GET, P("/contexts"), E2B_CODE, e2b_list_contexts, false},
    {HTTP_POST, P("/contexts"), E2B_CODE, e2b_make_context, false},
    {HTTP_POST, P("/contexts/{context}/restart"), E2B_CODE, e2b_restart_context, false},
    {HTTP_DELETE, P("/contexts/{context}"), E2B_CODE, e2b_end_context, false},

    {HTTP_GET, P("/health"), E2B_HEALTH, e2b_health, false},
};
/* clang-format on */
const size_t e2b_n_routes = ARRAY_SIZE(e2b_routes);

static struct http_route row_of(const struct e2b_route *route)
{
	struct http_route row = {
	    .methods = route->method,
	    .pattern = route->path,
	    .handler = e2b_dispatch,
	    .flags = HTTP_ROUTE_AUTH,
	    .admit = e2b_admit,
	};

	switch (route->service) {
	case E2B_FILES:
		row.flags |= (unsigned)HTTP_ROUTE_STREAM_BODY | (unsigned)HTTP_ROUTE_CODED_BODY;
		row.body_max = UINT64_MAX;
		break;
	case E2B_STREAM:
		row.body_max = E2B_FRAME_MAX;
		break;
	case E2B_CONTROL:
	case E2B_RPC:
	case E2B_CODE:
	case E2B_HEALTH:
		row.body_max = API_BODY_MAX;
		break;
	}
	return row;
}

/* Names of our own have no prefix. Addresses of files are made by clients, who know the host but not our prefix. */
static int add_own_rows(struct e2b *f, struct http_server *http, unsigned scopes)
{
	int r = 0;

	f->own_rows = calloc(e2b_n_routes, sizeof(*f->own_rows));
	if (!f->own_rows)
		return -ENOMEM;
	for (size_t i = 0; i < e2b_n_routes && r == 0; i++) {
		const bool files = e2b_routes[i].service == E2B_FILES;

		f->own_rows[i] = f->rows[i];
		f->own_rows[i].pattern += sizeof(E2B_PREFIX) - 1;
		r = http_server_add_routes(http, &f->own_rows[i], 1,
					   HTTP_SCOPE_FACES | (files ? scopes : 0), &f->bounds[i]);
	}
	return r;
}

int e2b_add_routes(struct e2b *f, struct http_server *http, unsigned scopes, struct err *e)
{
	f->rows = calloc(e2b_n_routes, sizeof(*f->rows));
	f->bounds = calloc(e2b_n_routes, sizeof(*f->bounds));
	if (!f->rows || !f->bounds)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the face of E2B");
	for (size_t i = 0; i < e2b_n_routes; i++) {
		f->bounds[i] = (struct e2b_bound){.face = f, .route = &e2b_routes[i]};
		f->rows[i] = row_of(&e2b_routes[i]);
		const int r = http_server_add_routes(http, &f->rows[i], 1, scopes, &f->bounds[i]);
		if (r < 0)
			return err_set(e, ERR_INTERNAL, -r, "routes of the face of E2B");
	}
	const int r = add_own_rows(f, http, scopes);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "routes of the face of E2B") : 0;
}
