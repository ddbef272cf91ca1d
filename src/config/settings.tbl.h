/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all settings: struct settings, the readers of environment, flags and file, the texts
 * of refusals, `caisson config` and docs/configuration.md are made from it.
 *
 * S(TYPE, field, "toml.key", "ENV", "default", min, max, "allowed", "meaning")
 *   TYPE     STR PATH INT SIZE MILLI BOOL PORT ADDR CHOICE SECRET (settings.h says what each takes)
 *   field    member of struct settings; the flag is --field with '-' for '_'
 *   default  in the form that a user would write
 *   min max  bounds in the unit of the field (INT: itself, SIZE: bytes, MILLI: thousandths,
 *            STR and PATH: length)
 *   allowed  what a refusal says; CHOICE: the words themselves, separated by '|'
 *
 * The first block has the names, defaults and meanings of the first tool family's contract. */
#define MIB INT64_C(1048576)
#define TIB INT64_C(1099511627776)

S(STR, image, "session.image", "SANDBOX_IMAGE", "llm-sandbox:latest", 1, 200, "the name of an image",
  "Image of a new sandbox. On the native engine `llm-sandbox:latest` and `python-sandbox:latest` "
  "mean `science`.")
S(SIZE, memory_limit, "session.memory_limit", "SANDBOX_MEMORY_LIMIT", "512m", 6 * MIB, 16 * TIB,
  "a size such as 512m or 2g, at least 6m",
  "Memory of a sandbox, swap, page cache and an ephemeral workspace included.")
S(MILLI, cpu_limit, "session.cpu_limit", "SANDBOX_CPU_LIMIT", "1.0", 10, 1024000,
  "a number of cores from 0.01 to 1024", "CPU time of a sandbox, in cores.")
S(INT, exec_timeout_s, "session.exec_timeout_s", "SANDBOX_EXEC_TIMEOUT_S", "60", 0, 604800,
  "whole seconds from 0 (no limit) to 604800", "Time of one run in seconds; 0 = no limit.")
S(INT, session_ttl_m, "session.ttl_m", "SANDBOX_SESSION_TTL_M", "30", 0, 525600,
  "whole minutes from 0 to 525600",
  "Minutes without use after which a sandbox is closed by the next sweep.")
S(INT, max_sessions, "session.max", "SANDBOX_MAX_SESSIONS", "10", 1, 100000,
  "a whole number from 1 to 100000", "Sandboxes that may exist at the same time.")
S(INT, cleanup_interval_m, "session.cleanup_interval_m", "SANDBOX_CLEANUP_INTERVAL_M", "5", 1, 10080,
  "whole minutes from 1 to 10080", "Minutes between two sweeps for unused sandboxes.")
S(INT, max_upload_bytes, "limits.max_upload_bytes", "SANDBOX_MAX_UPLOAD_BYTES", "52428800", 0, TIB,
  "a whole number of bytes from 0 to 1099511627776", "Largest uploaded file.")
S(INT, max_message_bytes, "limits.max_message_bytes", "SANDBOX_MAX_MESSAGE_BYTES", "0", 0, TIB,
  "a whole number of bytes from 0 to 1099511627776",
  "Longest message of a client. 0 = 83886080, or what the largest upload needs in base64 when that is "
  "more.")
S(INT, max_artifact_read_bytes, "limits.max_artifact_read_bytes", "SANDBOX_MAX_ARTIFACT_READ_BYTES",
  "10485760", 0, 1073741824, "a whole number of bytes from 0 to 1073741824",
  "Largest file that a tool returns inside its answer. Links have no such limit.")
S(INT, max_line_bytes, "limits.max_line_bytes", "SANDBOX_MAX_LINE_BYTES", "10420224", 0, TIB,
  "a whole number of bytes from 0 (any) to 1099511627776",
  "Longest answer with a file over stdio; a file that would make it longer is answered with its link. "
  "Clients on the TypeScript SDKs end a connection that has 10 MiB waiting to be read. 0 = any; so it is "
  "in the profiles other than `full`, whose answers are contracts, unless it is set.")
S(INT, max_output_bytes, "limits.max_output_bytes", "SANDBOX_MAX_OUTPUT_BYTES", "102400", 0,
  67108864, "a whole number of bytes from 0 to 67108864",
  "Bytes kept of each output stream of a run.")
S(INT, output_stop_bytes, "limits.output_stop_bytes", "SANDBOX_OUTPUT_STOP_BYTES", "8589934592", 0, TIB,
  "a whole number of bytes from 0 to 1099511627776",
  "A run that writes more than this to one stream is ended (reason output_limit); 0 = never.")
S(INT, max_code_bytes, "limits.max_code_bytes", "SANDBOX_MAX_CODE_BYTES", "102400", 0, 67108864,
  "a whole number of bytes from 0 to 67108864", "Longest source text of one run, in bytes of UTF-8.")
S(STR, http_host, "artifacts.host", "SANDBOX_HTTP_HOST", "127.0.0.1", 1, 255, "an address",
  "Address of the listener for artifact links.")
S(PORT, http_port, "artifacts.port", "SANDBOX_HTTP_PORT", "8080", 0, 65535,
  "a port from 0 (any free one) to 65535, or off",
  "Port of the listener for artifact links. A taken port means a free one; `off` means no links.")
S(STR, log_level, "log.level", "SANDBOX_LOG_LEVEL", "INFO", 1, 32, "a level",
  "DEBUG, INFO, WARNING or ERROR in any case; another word means INFO.")
S(PATH, log_file, "log.file", "SANDBOX_LOG_FILE", "logs/sandbox.log", 0, 4000,
  "a path, or nothing for no file",
  "Log file, relative to the working directory. In the profile `code` it is written by default; in "
  "the others only when this is set.")
S(CHOICE, log_format, "log.format", "SANDBOX_LOG_FORMAT", "console", 0, 0, "console|json",
  "Form of log lines.")

S(CHOICE, profile, "server.profile", "SANDBOX_PROFILE", "full", 0, 0, "code|classic|both|full",
  "Set of tools that a client sees.")
S(ADDR, listen, "server.listen", "SANDBOX_LISTEN", "127.0.0.1:8181", 3, 300, "HOST:PORT",
  "Address of `caisson serve`.")
S(STR, app_host, "server.host", "APP_HOST", "", 0, 255, "an address, or nothing",
  "Address of `caisson serve`, under the name of the second family; `server.listen` wins.")
S(INT, app_port, "server.port", "APP_PORT", "8181", 0, 65535, "a port from 0 to 65535",
  "Port of `caisson serve`, under the name of the second family; `server.listen` wins.")
S(INT, max_connections, "server.max_connections", "SANDBOX_MAX_CONNECTIONS", "0", 0, 1000000,
  "a whole number from 0 to 1000000",
  "Connections that `caisson serve` has at the same time; idle ones go first when there are more. 0 = "
  "what the limit of open files leaves, at most 16000.")
S(INT, max_connections_per_address, "server.max_connections_per_address",
  "SANDBOX_MAX_CONNECTIONS_PER_ADDRESS", "512", 0, 1000000, "a whole number from 0 (any) to 1000000",
  "Connections of one client address (IPv6: of one /64); loopback is not counted. Raise it where a "
  "proxy on another machine stands in front.")
S(INT, head_timeout_s, "server.head_timeout_s", "SANDBOX_HEAD_TIMEOUT_S", "15", 1, 3600,
  "whole seconds from 1 to 3600", "Seconds in which the head of a request must have arrived.")
S(INT, idle_timeout_s, "server.idle_timeout_s", "SANDBOX_IDLE_TIMEOUT_S", "75", 1, 86400,
  "whole seconds from 1 to 86400", "Seconds that a connection may wait between requests.")
S(INT, stall_timeout_s, "server.stall_timeout_s", "SANDBOX_STALL_TIMEOUT_S", "60", 1, 86400,
  "whole seconds from 1 to 86400",
  "Seconds after which an answer that nobody takes, or a body that brings less than 1 KiB a second, "
  "ends its connection.")
S(STR, public_url, "server.public_url", "SANDBOX_PUBLIC_URL", "", 0, 1000,
  "a URL such as https://box.example.org, or nothing",
  "Base of the links given to clients, when a proxy stands in front.")
S(STR, allowed_hosts, "server.allowed_hosts", "SANDBOX_ALLOWED_HOSTS", "", 0, 2000,
  "host names separated by commas, or *",
  "Further names under which browsers and clients may address the server.")
S(STR, allowed_origins, "server.allowed_origins", "SANDBOX_ALLOWED_ORIGINS", "", 0, 2000,
  "origins such as http://localhost:6274 separated by commas, or *",
  "Origins whose pages may use the server from a browser, besides those that come from the server "
  "itself. Programs that are no browsers send no Origin and need nothing here.")
S(SECRET, api_key, "auth.api_key", "SANDBOX_API_KEY", "", 0, 200, "at least 16 characters",
  "Key that HTTP clients must send. Needed to listen on more than loopback.")
S(BOOL, require_auth, "auth.require_auth", "SANDBOX_REQUIRE_AUTH", "off", 0, 1, "on or off",
  "Every HTTP client must show who it is, on loopback too: with a user's key or token, or with "
  "SANDBOX_API_KEY.")
S(STR, default_user_id, "auth.default_user_id", "SANDBOX_DEFAULT_USER_ID", "root", 1, 63,
  "a name of 1 to 63 characters",
  "What the tools of the second family call the local user, who needs no account.")
S(CHOICE, open_registration, "auth.open_registration", "SANDBOX_OPEN_REGISTRATION", "auto", 0, 0,
  "auto|on|off",
  "Whether anybody may make an account over HTTP; `auto`: only where the server asks nobody who it is "
  "and no other machine can reach it. An invitation (`caisson user invite`) lets one person in "
  "wherever this is off.")
S(INT, token_minutes, "auth.token_minutes", "SANDBOX_TOKEN_MINUTES", "300", 1, 525600,
  "whole minutes from 1 to 525600", "Life of the token that a login gives.")
S(PATH, db_path, "auth.db_path", "SANDBOX_DB_PATH", "", 0, 4000, "an absolute path, or nothing",
  "File of users, keys, sandboxes and history. Empty: caisson.db in the state folder.")
S(INT, user_sandbox_limit, "auth.user_sandbox_limit", "SANDBOX_USER_SANDBOX_LIMIT", "3", 0, 1000000,
  "a whole number from 0 (no limit) to 1000000", "Persistent sandboxes of one user.")
S(INT, user_cpu_s_per_day, "auth.user_cpu_s_per_day", "SANDBOX_USER_CPU_S_PER_DAY", "0", 0, 1000000000,
  "whole seconds from 0 (no limit) to 1000000000",
  "CPU seconds that the runs of one user may use in one day (UTC).")
S(INT, user_runs_per_minute, "auth.user_runs_per_minute", "SANDBOX_USER_RUNS_PER_MINUTE", "0", 0,
  1000000, "a whole number from 0 (no limit) to 1000000", "Runs that one user may start in a minute.")
S(INT, user_disk_bytes, "auth.user_disk_bytes", "SANDBOX_USER_DISK_BYTES", "0", 0, TIB,
  "a whole number of bytes from 0 (no limit) to 1099511627776",
  "Bytes of files that the persistent sandboxes of one user may hold, by their limits.")
S(INT, runs_keep, "history.runs", "SANDBOX_HISTORY_RUNS", "100000", 100, 1000000000,
  "a whole number from 100 to 1000000000", "Runs kept in the history (neither code nor output).")
S(INT, audit_keep, "history.audit", "SANDBOX_HISTORY_AUDIT", "1000000", 1000, 1000000000,
  "a whole number from 1000 to 1000000000", "Rows kept of the audit log.")
S(PATH, state_dir, "server.state_dir", "SANDBOX_STATE_DIR", "", 0, 4000, "an absolute path",
  "Images and state. Empty: /var/lib/caisson as root, else $XDG_DATA_HOME/caisson or "
  "~/.local/share/caisson.")
S(PATH, socket, "server.socket", "SANDBOX_SOCKET", "", 0, 107, "an absolute path, or off",
  "Unix socket on which `caisson serve` takes the `caisson stdio` of the same user, and where that "
  "looks for it. Empty: /run/caisson/server.sock as root, else $XDG_RUNTIME_DIR/caisson/server.sock.")
S(BOOL, bridge, "server.bridge", "SANDBOX_BRIDGE", "on", 0, 1, "on or off",
  "Let `caisson stdio` share a running `caisson serve` of the same user, when no setting stands "
  "against it; `--no-bridge` is off.")
S(CHOICE, engine, "server.engine", "SANDBOX_ENGINE", "native", 0, 0, "native|docker",
  "What makes sandboxes.")
S(BOOL, warm, "session.warm", "SANDBOX_WARM", "on", 0, 1, "on or off",
  "Fork interpreters from a warm one where that is possible.")
S(INT, pool, "session.pool", "SANDBOX_POOL", "1", 0, 64, "a whole number from 0 to 64",
  "Sandboxes kept ready for the next session that asks for the same; 0 for none.")
S(INT, pool_max, "session.pool_max", "SANDBOX_POOL_MAX", "8", 0, 1024,
  "a whole number from 0 to 1024",
  "Sandboxes kept ready while sessions are opened often. Without demand the pool shrinks to "
  "`session.pool`; a number below that counts as that.")
S(INT, rest_s, "session.rest_s", "SANDBOX_REST_S", "300", 0, 31536000,
  "whole seconds from 0 (never) to 31536000",
  "Seconds without a run after which a sandbox gives back the memory of interpreters that wait. The "
  "next run brings them back; files and the state of stateful sessions stay.")
S(SIZE, total_memory, "session.total_memory", "SANDBOX_TOTAL_MEMORY", "0", 0, 16 * TIB,
  "a size such as 8g, or 0 for no limit",
  "Memory of all sandboxes together. Near it, idle sandboxes give back the memory of interpreters "
  "that wait, the least recently used first, and new sessions are refused; at it, runs are ended.")
S(SIZE, total_disk, "sandbox.total_disk", "SANDBOX_TOTAL_DISK", "0", 0, 16 * TIB,
  "a size such as 100g, or 0 for no limit",
  "Disk of all stored sandboxes together, by their limits: one that would not fit is refused. Workspaces "
  "of sessions are memory (`session.total_memory`). As a plain user the limit of a stored sandbox is best "
  "effort, so there none is made while this is set, unless `session.allow_weaker` names disk.")
S(INT, zygote_idle_s, "session.zygote_idle_s", "SANDBOX_ZYGOTE_IDLE_S", "3600", 0, 31536000,
  "whole seconds from 0 (never) to 31536000",
  "Seconds without any sandbox of an image after which its pool and its warm interpreter are dropped; "
  "the next session starts cold and brings them back.")
S(INT, zygote_age_s, "session.zygote_age_s", "SANDBOX_ZYGOTE_AGE_S", "21600", 0, 31536000,
  "whole seconds from 0 (never) to 31536000",
  "Age in seconds at which the warm interpreter of an image is replaced by a new one: sandboxes share "
  "its layout of memory and its hash seed. Nobody waits for that.")
S(INT, zygote_forks, "session.zygote_forks", "SANDBOX_ZYGOTE_FORKS", "10000", 0, 1000000000,
  "a whole number from 0 (no limit) to 1000000000",
  "Sandboxes after which the warm interpreter of an image is replaced by a new one.")
S(INT, kill_grace_ms, "session.kill_grace_ms", "SANDBOX_KILL_GRACE_MS", "1000", 0, 60000,
  "whole milliseconds from 0 to 60000",
  "Milliseconds from the polite end of a run at its deadline to the kill of all its processes.")
S(SIZE, workspace_limit, "session.workspace_limit", "SANDBOX_WORKSPACE_LIMIT", "512m", MIB, 16 * TIB,
  "a size such as 512m or 2g, at least 1m", "Bytes of files in a workspace.")
S(INT, workspace_files, "session.workspace_files", "SANDBOX_WORKSPACE_FILES", "65536", 16, 100000000,
  "a whole number from 16 to 100000000", "Files and folders in a workspace.")
S(SIZE, tmp_limit, "session.tmp_limit", "SANDBOX_TMP_LIMIT", "64m", MIB, 16 * TIB,
  "a size such as 64m, at least 1m", "Bytes of files in /tmp of a sandbox.")
S(INT, pids_limit, "session.pids_limit", "SANDBOX_PIDS_LIMIT", "256", 4, 1000000,
  "a whole number from 4 to 1000000", "Processes and threads of a sandbox.")
S(INT, nofile_limit, "session.nofile_limit", "SANDBOX_NOFILE_LIMIT", "1024", 16, 1048576,
  "a whole number from 16 to 1048576", "Open files of one process in a sandbox.")
S(STR, allow_weaker, "session.allow_weaker", "SANDBOX_ALLOW_WEAKER", "", 0, 100,
  "names of limits separated by commas: memory, cpu, pids, disk",
  "Limits that were set and may be best effort where this machine cannot enforce them; without it "
  "the start is refused there.")
S(CHOICE, save_figures, "session.save_figures", "SANDBOX_SAVE_FIGURES", "auto", 0, 0, "auto|on|off",
  "Save the figures of matplotlib that a run has drawn and not saved (what plt.show() would show) as "
  "figure-N.png in the workspace, and what a notebook would show of a last expression. `auto`: only in "
  "the tools of the profile `full` and with `caisson run --out`; the contracts of the other profiles know no such "
  "files.")
S(INT, result_chars, "limits.result_chars", "SANDBOX_RESULT_CHARS", "40000", 1000, 1000000,
  "a whole number from 1000 to 1000000",
  "Characters of text in one answer of the tools that are only in the profile `full`.")

S(INT, task_after_s, "session.task_after_s", "SANDBOX_TASK_AFTER_S", "30", 0, 604800,
  "whole seconds from 0 (never) to 604800",
  "Seconds after which a run goes on as a background task, for clients that know tasks; only in the "
  "profile `full`.")

S(INT, stored_exec_timeout_s, "sandbox.exec_timeout_s", "SANDBOX_STORED_EXEC_TIMEOUT_S", "300", 0,
  604800, "whole seconds from 0 (no limit) to 604800",
  "Time of one run in a stored sandbox (`create_sandbox`); 0 = no limit.")
S(INT, stored_output_bytes, "sandbox.max_output_bytes", "SANDBOX_STORED_MAX_OUTPUT_BYTES", "1048576",
  0, 67108864, "a whole number of bytes from 0 to 67108864",
  "Bytes kept of each output stream of a run in a stored sandbox.")
S(SIZE, stored_memory_limit, "sandbox.memory_limit", "SANDBOX_STORED_MEMORY_LIMIT", "1g", 6 * MIB,
  16 * TIB, "a size such as 512m or 2g, at least 6m", "Memory of a stored sandbox, swap included.")
S(SIZE, stored_workspace_limit, "sandbox.workspace_limit", "SANDBOX_STORED_WORKSPACE_LIMIT", "2g", MIB,
  16 * TIB, "a size such as 512m or 2g, at least 1m",
  "Bytes of files and installed packages of a new stored sandbox; it keeps them for life.")
S(INT, stored_workspace_files, "sandbox.workspace_files", "SANDBOX_STORED_WORKSPACE_FILES", "131072",
  16, 100000000, "a whole number from 16 to 100000000",
  "Files and folders of a new stored sandbox, those of installed packages included.")
S(INT, stored_idle_s, "sandbox.idle_timeout_s", "SANDBOX_STORED_IDLE_TIMEOUT_S", "600", 1, 31536000,
  "whole seconds from 1 to 31536000",
  "Seconds without use after which the next sweep ends the processes of a stored sandbox. Its files "
  "stay; the next use starts it again.")
S(INT, stored_active, "sandbox.max_active", "SANDBOX_STORED_MAX_ACTIVE", "20", 1, 10000,
  "a whole number from 1 to 10000",
  "Stored sandboxes with processes at the same time; the one unused for longest makes room.")
S(BOOL, strict_ids, "sandbox.strict_ids", "SANDBOX_STRICT_IDS", "off", 0, 1, "on or off",
  "Refuse an unknown id that looks like that of a stored sandbox, where the first tool family would "
  "make a session of that name.")
S(STR, local_roots, "upload.local_roots", "SANDBOX_UPLOAD_LOCAL_ROOTS", ".", 0, 4000,
  "folders separated by ':', * for any path, or nothing",
  "Folders of this machine from which `upload_file_to_sandbox` may read, with the rights of whoever "
  "started the server; relative ones start in its working directory. Unless it is set, only clients of "
  "the same user may (`caisson stdio`), and nobody where the server is started in `/`. Set, it opens "
  "these folders to every client of a server that listens on loopback.")
S(STR, pip_index_url, "mirror.pypi_index_url", "SANDBOX_PIP_INDEX_URL", "", 0, 2000,
  "an http:// or https:// address, or nothing",
  "Package index (its `simple` page). It is trusted as written here, on a private address too. Empty: "
  "what the pip of whoever starts the server is configured for, else https://pypi.org/simple.")
S(CHOICE, pip_tell_index, "packages.tell_index", "SANDBOX_PIP_TELL_INDEX", "auto", 0, 0, "auto|on|off",
  "Tell sandboxes that may reach the index its address, so that pip inside works. auto: unless a part of "
  "its path could be a token (anything but plain words and short numbers). Never one with a user part or "
  "a query.")
S(STR, pip_extra_hosts, "packages.extra_hosts", "SANDBOX_PIP_EXTRA_HOSTS", "", 0, 4000,
  "host or host:port, separated by blanks or commas",
  "Further public hosts that the pages of the index may lead to.")
S(PATH, pip_wheel_dir, "packages.wheel_dir", "SANDBOX_PIP_WHEEL_DIR", "", 0, 4000,
  "an absolute path, or nothing",
  "Folder of wheels used instead of an index: installations then need no network at all. Its files must "
  "be readable for everybody.")
S(PATH, pip_ca_file, "packages.ca_file", "SANDBOX_PIP_CA_FILE", "", 0, 4000, "an absolute path, or nothing",
  "Certificates (PEM) that the index's is checked against. Empty: pip's own setting, else this machine's.")
S(BOOL, pip_sources, "packages.source_builds", "SANDBOX_PIP_SOURCE_BUILDS", "off", 0, 1, "on or off",
  "Build packages that have no wheel. Their code runs while they are installed, in a sandbox that "
  "holds nothing else and reaches the index alone.")
S(INT, install_timeout_s, "packages.timeout_s", "SANDBOX_INSTALL_TIMEOUT_S", "600", 1, 86400,
  "whole seconds from 1 to 86400", "Time of one installation, waiting for others included.")
S(SIZE, install_max_bytes, "packages.max_bytes", "SANDBOX_INSTALL_MAX_BYTES", "1g", MIB, TIB,
  "a size such as 200m or 4g, from 1m to 1024g",
  "Bytes of the wheels of one installation. Unpacked they count as files of the sandbox.")
S(SIZE, wheel_cache_bytes, "packages.cache_bytes", "SANDBOX_WHEEL_CACHE_BYTES", "2g", 0, 16 * TIB,
  "a size such as 2g, or 0 for none",
  "Wheels kept for the next installation, in `packages/wheels` of the state folder.")
S(INT, index_ttl_m, "packages.index_ttl_m", "SANDBOX_INDEX_TTL_M", "60", 0, 525600,
  "whole minutes from 0 (not at all) to 525600",
  "Minutes for which the index's answer to a request is remembered.")
S(CHOICE, network, "sandbox.network", "SANDBOX_NETWORK", "none", 0, 0, "none|packages|allowlist|open",
  "What sandboxes may reach, by a proxy that resolves and checks for them (`HTTP_PROXY` is set): nothing; "
  "the package index; the hosts of `sandbox.network_allow`; every public host.")
S(STR, network_allow, "sandbox.network_allow", "SANDBOX_NETWORK_ALLOW", "", 0, 16000,
  "host, host:port or *.host, separated by blanks or commas",
  "Hosts of the policy `allowlist`, at ports 80 and 443 where none is written. `*.host` means the names "
  "below host. Empty means nothing.")
S(BOOL, network_open, "sandbox.network_open", "SANDBOX_NETWORK_OPEN", "off", 0, 1, "on or off",
  "Permit `open`, as `sandbox.network` or as `sandbox.network_max`.")
S(CHOICE, network_max, "sandbox.network_max", "SANDBOX_NETWORK_MAX", "none", 0, 0, "none|packages|allowlist|open",
  "The widest policy that whoever makes a sandbox may choose for it instead of `sandbox.network`: the package "
  "index; also lists of hosts within `sandbox.network_allow`; also every public host, and lists of them. "
  "`none`, and lists within `sandbox.network`, may always be chosen.")
S(BOOL, network_ask, "sandbox.network_ask", "SANDBOX_NETWORK_ASK", "off", 0, 1, "on or off",
  "Let the person at the client allow a sandbox further hosts, one by one, when a model asks for them "
  "(`sandbox_allow_domain`, profile full). Every sandbox then has the proxy, and none is taken from the pool.")
S(INT, network_ask_again, "sandbox.network_ask_again", "SANDBOX_NETWORK_ASK_AGAIN", "1", 0, 100,
  "whole number from 0 to 100",
  "How often within an hour a person may be asked again for a host that was not allowed, in whatever sandbox. "
  "All hosts of a user together: as many questions as for eight.")

#undef MIB
#undef TIB
