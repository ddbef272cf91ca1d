# SPDX-License-Identifier: Apache-2.0
"""The workflow of docs/rest.md with a client that openapi-python-client made: a sandbox, a file, a run, a list, bytes back, an error."""
import io
import sys

sys.path.insert(0, sys.argv[1])
from made import Client  # noqa: E402
from made.api.default import (create_sandbox, delete_file, delete_sandbox, get_file, list_files, preview_table, put_file, start_run)  # noqa: E402
from made.models import CreateSandboxBody, Problem, StartRunBody, Table  # noqa: E402
from made.types import File  # noqa: E402

CSV = b"city,people\nPorto,230000\nOsaka,2700000\n"
client = Client(base_url=sys.argv[2])
PATH = "deep/er/cities.csv"  # the client encodes its slashes
box = create_sandbox.sync(client=client, body=CreateSandboxBody()).id
put = put_file.sync_detailed(box, client=client, path=PATH, body=File(payload=io.BytesIO(CSV)))
assert put.status_code == 201, put
run = start_run.sync(box, client=client, body=StartRunBody(command="wc -l < cities.csv; cd /tmp", cwd="deep/er", wait=True))
assert (run.stdout, run.exit_code, run.ended_cwd) == ("3\n", 0, "/tmp"), run
listed = list_files.sync(box, client=client, path="deep/er")
assert [(f.name, f.size) for f in listed.files] == [("cities.csv", len(CSV))], listed
got = get_file.sync_detailed(box, client=client, path=PATH)
assert got.content == CSV and got.parsed.payload.read() == CSV, got
table = preview_table.sync(box, client=client, path=PATH)
assert isinstance(table, Table) and [c.name for c in table.columns] == ["city", "people"] and len(table.rows) == 2, table
wrong = start_run.sync(box, client=client, body=StartRunBody(command="true", cwd="nowhere", wait=True))
assert isinstance(wrong, Problem) and wrong.code == "invalid_path", wrong
assert delete_file.sync_detailed(box, client=client, path=PATH).status_code == 204
assert delete_sandbox.sync_detailed(box, client=client).status_code == 204
print("held: a sandbox, a file, a run, a list, bytes back, a table, an error, the end")
