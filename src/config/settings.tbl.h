/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all settings. Made from it: struct settings, the readers of environment, flags and
 * file, the error for a wrong value, `caisson config`, and docs/configuration.md.
 *
 * S(TYPE, field, needs, "toml.key", "ENV", "default", min, max, "allowed", "meaning")
 *   TYPE     STR PATH INT SIZE MILLI BOOL PORT ADDR CHOICE SECRET (settings.h says what each takes)
 *   field    member of struct settings; the flag is --field with '-' for '_'
 *   needs    what a maker of sandboxes must be able to do so that the setting holds: a word of engine/protocol/caps.tbl.h
 *            and which sandboxes it is about. A server whose maker cannot do it does not start if the setting is given.
 *            SESSION(WORD), STORED(WORD), BOTH(WORD): a limit of each of them; SANDBOX_ALLOW_WEAKER can excuse it
 *            SERVER(WORD, "value"): the whole server, if the setting has this value; "" = any but the default
 *            NOTHING: the front alone heeds it, or every maker can do it on every host
 *   default  in the form that a user would write
 *   min max  bounds in the unit of the field (INT: itself, SIZE: bytes, MILLI: thousandths,
 *            STR and PATH: length)
 *   allowed  what the error for a wrong value says is allowed; CHOICE: the words, separated by '|'
 *
 * Names, defaults and meanings of the first block are the contract of the first tool family. */
/* clang-format off */
#define MIB INT64_C(1048576)
#define TIB INT64_C(1099511627776)

S(STR, image, NOTHING, "session.image", "SANDBOX_IMAGE", "llm-sandbox:latest", 1, 200, "the name of an image",
  "Image of a new sandbox. On the native engine `llm-sandbox:latest` and `python-sandbox:latest` "
  "mean `science`.")
S(SIZE, memory_limit, BOTH(MEMORY), "session.memory_limit", "SANDBOX_MEMORY_LIMIT", "512m", 6 * MIB, 16 * TIB,
  "a size such as 512m or 2g, at least 6m, or 0 for no limit",
  "Memory of a sandbox. Swap and the files of /tmp count, and those of the workspace if it is in memory "
  "(SANDBOX_WORKSPACE). Cached pages of files count, too, but make room for everything else. In the profiles `full` and `all` "
  "the default is a 48th of the machine's memory (or of SANDBOX_TOTAL_MEMORY), from 512m to 2g.")
S(MILLI, cpu_limit, BOTH(CPU), "session.cpu_limit", "SANDBOX_CPU_LIMIT", "1.0", 10, 1024000,
  "a number of cores from 0.01 to 1024, or 0 for no limit",
  "CPU time of a sandbox, in cores, on average: after a rest it may have twice as much for a tenth of a second.")
S(INT, exec_timeout_s, NOTHING, "session.exec_timeout_s", "SANDBOX_EXEC_TIMEOUT_S", "60", 0, 604800,
  "whole seconds from 0 (no limit) to 604800", "Longest time of one run in seconds; 0 means unlimited.")
S(INT, max_timeout_s, NOTHING, "session.max_timeout_s", "SANDBOX_MAX_TIMEOUT_S", "600", 0, 604800,
  "whole seconds from 0 (no limit) to 604800",
  "Longest time in seconds that a call may ask for with timeout_s. A call that asks for more is refused. 0 means "
  "unlimited. Calls may always ask for as much as SANDBOX_EXEC_TIMEOUT_S.")
S(INT, session_ttl_m, NOTHING, "session.ttl_m", "SANDBOX_SESSION_TTL_M", "30", 0, 525600,
  "whole minutes from 0 to 525600",
  "A session that was not used for this many minutes is closed at the next sweep, if it has no files, variables, packages or "
  "checkpoints. In the profiles code, classic and both so is any other.")
S(INT, session_keep_m, NOTHING, "session.keep_m", "SANDBOX_SESSION_KEEP_M", "240", 0, 525600,
  "whole minutes from 0 to 525600",
  "The same for a session that holds files, variables, packages or checkpoints; never less than SANDBOX_SESSION_TTL_M. "
  "While SANDBOX_MAX_SESSIONS is reached, the one of them that nobody has used for longest, and not for SANDBOX_SESSION_TTL_M, "
  "is closed for a new session. In the profiles code, classic and both it holds only if it is set.")
S(INT, max_sessions, NOTHING, "session.max", "SANDBOX_MAX_SESSIONS", "10", 1, 100000,
  "a whole number from 1 (0 would refuse every sandbox) to 100000",
  "Sessions that may exist at the same time. In the profiles `full` and `all` the default is what this machine's memory "
  "(or SANDBOX_TOTAL_MEMORY) holds at SANDBOX_MEMORY_LIMIT each, from 10 to 1000; and at this number an unused session of "
  "the same caller without files, variables, packages and options is closed for a new one.")
S(INT, parallel_runs, NOTHING, "limits.parallel_runs", "SANDBOX_PARALLEL_RUNS", "4", 0, 32,
  "a whole number from 0 to 32",
  "Runs that may execute in one sandbox beside the one that is on, where a client asks for it (`parallel`).")
S(INT, cleanup_interval_m, NOTHING, "session.cleanup_interval_m", "SANDBOX_CLEANUP_INTERVAL_M", "5", 1, 10080,
  "whole minutes from 1 to 10080", "Minutes between two sweeps for unused sandboxes.")
S(INT, max_upload_bytes, NOTHING, "limits.max_upload_bytes", "SANDBOX_MAX_UPLOAD_BYTES", "52428800", 0, TIB,
  "a whole number of bytes from 0 to 1099511627776", "Largest file that a client may upload, in bytes. In the profiles `full` and `all` the default over REST and on the page "
  "is 524288000.")
S(INT, max_message_bytes, NOTHING, "limits.max_message_bytes", "SANDBOX_MAX_MESSAGE_BYTES", "0", 0, TIB,
  "a whole number of bytes from 0 to 1099511627776",
  "Longest message that a client may send, in bytes. 0 means 83886080, or more where the largest upload "
  "needs more in base64.")
S(INT, max_artifact_read_bytes, NOTHING, "limits.max_artifact_read_bytes", "SANDBOX_MAX_ARTIFACT_READ_BYTES",
  "10485760", 0, 1073741824, "a whole number of bytes from 0 to 1073741824",
  "Largest file that a tool returns inside its answer, in bytes. In the profiles code and both links have this "
  "limit, too, unless SANDBOX_MAX_LINK_BYTES is set.")
S(INT, max_link_bytes, NOTHING, "limits.max_link_bytes", "SANDBOX_MAX_LINK_BYTES", "0", 0, TIB,
  "a whole number of bytes from 0 (any) to 1099511627776",
  "Largest file that an artifact link (`/files/…`) serves, in bytes; a larger one is answered 413. 0 means "
  "unlimited. If this is not set, the limit in the profiles code and both is SANDBOX_MAX_ARTIFACT_READ_BYTES, "
  "and there is none in the others.")
S(INT, max_line_bytes, NOTHING, "limits.max_line_bytes", "SANDBOX_MAX_LINE_BYTES", "10420224", 0, TIB,
  "a whole number of bytes from 0 (any) to 1099511627776",
  "Longest answer with a file over stdio, in bytes. For a larger file the answer has a link instead: clients "
  "that use the TypeScript SDKs end a connection when 10 MiB wait to be read. 0 means unlimited, which is "
  "the default in profiles code, classic and both.")
S(INT, answer_bytes, NOTHING, "limits.answer_bytes", "SANDBOX_ANSWER_BYTES", "1000000", 0, TIB,
  "a whole number of bytes from 0 (any) to 1099511627776",
  "Longest answer of the tools that only the profile `full` has, and of resources, in bytes, over any transport. "
  "Pictures are made smaller until they fit together; one that stays too large, and a larger file, is a link. "
  "Claude Desktop refuses an answer of more than 1 MB, its text included. 0 means unlimited.")
S(INT, max_output_bytes, NOTHING, "limits.max_output_bytes", "SANDBOX_MAX_OUTPUT_BYTES", "102400", 0,
  67108864, "a whole number of bytes from 0 to 67108864",
  "How many bytes of each output stream of a run are kept.")
S(INT, whole_output_bytes, NOTHING, "limits.whole_output_bytes", "SANDBOX_WHOLE_OUTPUT_BYTES", "16777216", 0,
  1073741824, "a whole number of bytes from 0 to 1073741824",
  "If an answer has only a part of an output stream, so many bytes of it are kept as a file in /mnt/data/.output. "
  "0 means no such files. The profiles code, classic and both make none.")
S(INT, output_stop_bytes, NOTHING, "limits.output_stop_bytes", "SANDBOX_OUTPUT_STOP_BYTES", "8589934592", 0, TIB,
  "a whole number of bytes from 0 to 1099511627776",
  "A run that writes more bytes than this to one stream is ended with the reason output_limit; 0 means never.")
S(INT, max_code_bytes, NOTHING, "limits.max_code_bytes", "SANDBOX_MAX_CODE_BYTES", "102400", 0, 67108864,
  "a whole number of bytes from 0 to 67108864", "Longest code of one run, and longest text for its standard input, each in bytes of UTF-8.")
S(STR, http_host, NOTHING, "artifacts.host", "SANDBOX_HTTP_HOST", "127.0.0.1", 1, 255, "an address",
  "Address that artifact links are served on.")
S(PORT, http_port, NOTHING, "artifacts.port", "SANDBOX_HTTP_PORT", "8080", 0, 65535,
  "a port from 0 (any free one) to 65535, or off",
  "Port that artifact links are served on. If it is taken, a free port is used. `off` means no links.")
S(INT, link_hours, NOTHING, "artifacts.link_hours", "SANDBOX_LINK_HOURS", "24", 0, 87600,
  "whole hours from 0 (no end) to 87600",
  "Hours until a signed link to a file of a session ends. Links are signed if clients must authenticate, or if "
  "other machines can reach the links.")
S(INT, stored_link_hours, NOTHING, "artifacts.stored_link_hours", "SANDBOX_STORED_LINK_HOURS", "0", 0, 87600,
  "whole hours from 0 (no end) to 87600",
  "The same for files of stored sandboxes. 0 means that a link works as long as the file is there and its "
  "owner is an active user.")
S(INT, upload_link_m, NOTHING, "artifacts.upload_link_m", "SANDBOX_UPLOAD_LINK_M", "15", 1, 1440, "whole minutes from 1 to 1440",
  "Minutes until a link ends by which a person uploads one file (`sandbox_add_file`).")
S(STR, log_level, NOTHING, "log.level", "SANDBOX_LOG_LEVEL", "INFO", 1, 32, "a level",
  "DEBUG, INFO, WARNING or ERROR, in upper or lower case. Any other word means INFO.")
S(PATH, log_file, NOTHING, "log.file", "SANDBOX_LOG_FILE", "logs/sandbox.log", 0, 4000,
  "a path, or nothing for no file",
  "Log file, relative to the working directory. The profile `code` writes it by default, the other "
  "profiles only when this is set.")
S(CHOICE, log_format, NOTHING, "log.format", "SANDBOX_LOG_FORMAT", "console", 0, 0, "console|json",
  "Format of log lines.")

S(CHOICE, profile, NOTHING, "server.profile", "SANDBOX_PROFILE", "full", 0, 0, "code|classic|both|full|all",
  "Set of tools that a client sees.")
S(ADDR, listen, NOTHING, "server.listen", "SANDBOX_LISTEN", "127.0.0.1:8181", 3, 300, "HOST:PORT",
  "Address of `caisson serve`.")
S(STR, tls_listen, NOTHING, "tls.listen", "SANDBOX_TLS_LISTEN", "", 0, 300, "HOST:PORT, or nothing",
  "A second address of `caisson serve`, where it speaks HTTPS (TLS 1.3 and 1.2), such as 0.0.0.0:443. It needs a certificate, its key, "
  "and GnuTLS (Debian: libgnutls30). Commands on this machine go on using SANDBOX_LISTEN.")
S(PATH, tls_certificate, NOTHING, "tls.certificate", "SANDBOX_TLS_CERTIFICATE", "", 0, 4000, "a path, or nothing",
  "The certificate of SANDBOX_TLS_LISTEN, in PEM, followed by those that lead from it to a root. It is read again when it changes and "
  "on SIGHUP, with the rights of whoever started the server; connections that are open stay.")
S(PATH, tls_key, NOTHING, "tls.key", "SANDBOX_TLS_KEY", "", 0, 4000, "a path, or nothing",
  "The private key of that certificate, in PEM, without a password. It is read again with it.")
S(CHOICE, fleet_role, NOTHING, "fleet.role", "SANDBOX_ROLE", "all", 0, 0, "all|worker|router",
  "What `caisson serve` is in a fleet. `all`: a server of its own. `worker`: it makes sandboxes for routers, which judge who asks; it "
  "serves them at SANDBOX_TLS_LISTEN, and needs SANDBOX_FLEET_CA and SANDBOX_FLEET_KEY. `router`: it judges who asks, makes no sandboxes itself, and sends requests "
  "on to the workers of SANDBOX_FLEET_WORKERS; it also needs SANDBOX_FLEET_CA, SANDBOX_FLEET_KEY, SANDBOX_FLEET_CERTIFICATE and "
  "SANDBOX_FLEET_CERTIFICATE_KEY.")
S(PATH, fleet_ca, NOTHING, "fleet.ca", "SANDBOX_FLEET_CA", "", 0, 4000, "a path, or nothing",
  "Certificates of the authority of the fleet, in PEM. Routers and workers talk only to peers with a certificate of it, and with the DNS name "
  "of their role in it: router.caisson.internal, worker.caisson.internal. A worker reads it again with SANDBOX_TLS_CERTIFICATE.")
S(PATH, fleet_key, NOTHING, "fleet.key", "SANDBOX_FLEET_KEY", "", 0, 4000, "a path, or nothing",
  "A file of 32 to 4096 random bytes, the same at all routers and workers. With it the ids of sandboxes and sessions name their worker, and "
  "nobody else can make such ids.")
S(STR, fleet_name, NOTHING, "fleet.name", "SANDBOX_FLEET_NAME", "", 0, 253, "a name, or nothing",
  "Name of this worker in its fleet, other than those of the others. Empty: the name of the machine, which in Kubernetes is that of the pod.")
S(PATH, fleet_workers, NOTHING, "fleet.workers", "SANDBOX_FLEET_WORKERS", "", 0, 4000, "a path, or nothing",
  "The workers of a router: a file with one HOST:PORT a line, such as 10.0.0.7:8443 or workers.fleet.svc:8443; what follows a # does not "
  "count. All addresses of a name are workers. In a pod of Kubernetes, endpointslices:NAMESPACE/NAME:PORT names a Service, all of whose pods are workers. "
  "It is read again when it changes.")
S(PATH, fleet_certificate, NOTHING, "fleet.certificate", "SANDBOX_FLEET_CERTIFICATE", "", 0, 4000, "a path, or nothing",
  "The certificate that a router shows to workers, in PEM, with the DNS name router.caisson.internal.")
S(PATH, fleet_certificate_key, NOTHING, "fleet.certificate_key", "SANDBOX_FLEET_CERTIFICATE_KEY", "", 0, 4000, "a path, or nothing",
  "The private key of that certificate, in PEM, without a password.")
S(STR, objects_endpoint, NOTHING, "objects.endpoint", "SANDBOX_OBJECTS_ENDPOINT", "", 0, 300, "https://HOST or https://HOST:PORT, or nothing",
  "Object store with the protocol of S3 for snapshots of stored sandboxes, such as https://s3.eu-central-1.amazonaws.com, without the bucket. For routers "
  "(SANDBOX_ROLE), which need SANDBOX_OBJECTS_BUCKET and SANDBOX_OBJECTS_CREDENTIALS, too; with SANDBOX_OBJECTS_KEY sandboxes are saved there.")
S(STR, objects_bucket, NOTHING, "objects.bucket", "SANDBOX_OBJECTS_BUCKET", "", 0, 63, "the name of a bucket, or nothing",
  "The bucket. It has to be there already, for nothing else, without rules that delete objects by their age, and without versions and object lock, which keep "
  "what is deleted.")
S(STR, objects_region, NOTHING, "objects.region", "SANDBOX_OBJECTS_REGION", "us-east-1", 1, 63, "the name of a region",
  "The region of the bucket. Stores other than Amazon's mostly take the default.")
S(BOOL, objects_path_style, NOTHING, "objects.path_style", "SANDBOX_OBJECTS_PATH_STYLE", "off", 0, 0, "on or off",
  "The bucket is part of the path (https://HOST/BUCKET/…) and not of the host name (https://BUCKET.HOST/…). Most stores other than Amazon's need it.")
S(PATH, objects_credentials, NOTHING, "objects.credentials", "SANDBOX_OBJECTS_CREDENTIALS", "", 0, 4000, "a path, or nothing",
  "A file with the lines `aws_access_key_id = …` and `aws_secret_access_key = …`, of an account that may read, write and delete objects of the bucket and list it "
  "(s3:ListBucket). Routers alone have it.")
S(PATH, objects_ca, NOTHING, "objects.ca", "SANDBOX_OBJECTS_CA", "", 0, 4000, "a path, or nothing",
  "Certificates of the authorities of the object store, in PEM. No other counts then. Empty: those that this machine knows. Workers take it, too.")
S(PATH, objects_key, NOTHING, "objects.key", "SANDBOX_OBJECTS_KEY", "", 0, 4000, "a path, or nothing",
  "A file of 32 to 4096 random bytes, the same at all routers and nowhere else. With it, and SANDBOX_DATABASE, workers save stored sandboxes to the object store "
  "whenever they come to rest, and another worker goes on with those of one that is lost. What is saved can be read with it alone.")
S(SIZE, objects_user_bytes, NOTHING, "objects.user_bytes", "SANDBOX_OBJECTS_USER_BYTES", "0", 0, 1024 * TIB,
  "a size such as 10g, or 0 for no limit",
  "What the saved sandboxes of one user may have in the object store. One that would exceed it is not saved.")
S(SIZE, objects_total_bytes, NOTHING, "objects.total_bytes", "SANDBOX_OBJECTS_TOTAL_BYTES", "0", 0, 1024 * TIB,
  "a size such as 10t, or 0 for no limit",
  "The same of all users together.")
S(STR, app_host, NOTHING, "server.host", "APP_HOST", "", 0, 255, "an address, or nothing",
  "Address of `caisson serve`, under the name that the second tool family used. `server.listen` takes precedence.")
S(INT, app_port, NOTHING, "server.port", "APP_PORT", "8181", 0, 65535, "a port from 0 to 65535",
  "Port of `caisson serve`, under the name that the second tool family used. `server.listen` takes precedence.")
S(INT, max_connections, NOTHING, "server.max_connections", "SANDBOX_MAX_CONNECTIONS", "0", 0, 1000000,
  "a whole number from 0 to 1000000",
  "How many connections `caisson serve` keeps at the same time. When more arrive, idle ones are closed first. "
  "0 means as many as the limit of open files allows with two files for each, at most 16000.")
S(INT, max_connections_per_address, NOTHING, "server.max_connections_per_address",
  "SANDBOX_MAX_CONNECTIONS_PER_ADDRESS", "512", 0, 1000000, "a whole number from 0 (any) to 1000000",
  "How many connections one client address may have (IPv6: one /64 prefix). Connections from this machine "
  "are not counted. Raise it if a proxy on another machine stands in front.")
S(INT, head_timeout_s, NOTHING, "server.head_timeout_s", "SANDBOX_HEAD_TIMEOUT_S", "15", 1, 3600,
  "whole seconds from 1 to 3600", "Seconds within which the head of a request must arrive.")
S(INT, idle_timeout_s, NOTHING, "server.idle_timeout_s", "SANDBOX_IDLE_TIMEOUT_S", "75", 1, 86400,
  "whole seconds from 1 to 86400", "Seconds that a connection may wait between requests.")
S(INT, stall_timeout_s, NOTHING, "server.stall_timeout_s", "SANDBOX_STALL_TIMEOUT_S", "60", 1, 86400,
  "whole seconds from 1 to 86400",
  "A connection is closed when its client reads nothing of an answer for this many seconds, or sends a "
  "body slower than 1 KiB a second.")
S(STR, public_url, NOTHING, "server.public_url", "SANDBOX_PUBLIC_URL", "", 0, 1000,
  "a URL such as https://box.example.org, or nothing",
  "Start of the links that clients get, if a proxy stands in front.")
S(STR, port_domain, NOTHING, "server.port_domain", "SANDBOX_PORT_DOMAIN", "auto", 1, 200,
  "auto, off, or a domain such as ports.example.org, whose names all lead here",
  "Servers in sandboxes get addresses PORT-SANDBOX.DOMAIN, each with an origin of its own for browsers. auto: localhost, if "
  "no other machine can reach this server, else off; then they are at /p/SANDBOX/PORT/ alone, where many pages cannot work.")
S(BOOL, public_ports, NOTHING, "server.public_ports", "SANDBOX_PUBLIC_PORTS", "off", 0, 1, "on or off",
  "Whether owners may make ports of their sandboxes public: whoever knows the address PORT-SANDBOX.DOMAIN then reaches the server "
  "there without a key. It needs SANDBOX_PORT_DOMAIN. Sandboxes of E2B's SDKs are public then, unless they say otherwise.")
S(STR, faces, NOTHING, "server.faces", "SANDBOX_FACES", "", 0, 200, "names separated by commas: e2b",
  "APIs of other systems that this server offers as well, so that their clients work here unchanged. e2b: below /faces/e2b.")
S(STR, allowed_hosts, NOTHING, "server.allowed_hosts", "SANDBOX_ALLOWED_HOSTS", "", 0, 2000,
  "host names separated by commas, or *",
  "Further host names that clients may use for the server.")
S(STR, allowed_origins, NOTHING, "server.allowed_origins", "SANDBOX_ALLOWED_ORIGINS", "", 0, 2000,
  "origins such as http://localhost:6274 separated by commas, or *",
  "Web pages from these origins may use the server, besides pages of the server itself. Programs other "
  "than browsers send no Origin and do not need this.")
S(STR, page_origins, NOTHING, "server.page_origins", "SANDBOX_PAGE_ORIGINS", "auto", 0, 2000,
  "auto, or origins such as http://localhost:5173 separated by commas, or nothing",
  "Web pages from these origins may register users, log in, and manage the keys and sandboxes of a user who "
  "logged in, but use nothing else. `auto` means the page of the second family on this machine "
  "(http://localhost:5173 and 127.0.0.1, and port 4173) in the profiles classic and both, if only this machine "
  "can reach the server.")
S(STR, trusted_proxies, NOTHING, "server.trusted_proxies", "SANDBOX_TRUSTED_PROXIES", "", 0, 2000,
  "addresses and networks such as 127.0.0.1, 10.0.0.0/8 separated by commas",
  "Proxies in front of the server, whose Forwarded or X-Forwarded-For header gives the address of the "
  "client. A request in which the two name different clients is refused. Without this setting addresses limit "
  "no logins: all clients may share that of a proxy.")
S(SECRET, api_key, NOTHING, "auth.api_key", "SANDBOX_API_KEY", "", 0, 200, "at least 16 characters",
  "Key that HTTP clients must send. Required to listen on an address that other machines can reach.")
S(BOOL, require_auth, NOTHING, "auth.require_auth", "SANDBOX_REQUIRE_AUTH", "off", 0, 1, "on or off",
  "Every HTTP client must authenticate, on loopback too: with a user's key or token, or with "
  "SANDBOX_API_KEY.")
S(STR, default_user_id, NOTHING, "auth.default_user_id", "SANDBOX_DEFAULT_USER_ID", "root", 1, 63,
  "a name of 1 to 63 characters",
  "Name of the local user, who needs no account, in the tools of the second family.")
S(CHOICE, open_registration, NOTHING, "auth.open_registration", "SANDBOX_OPEN_REGISTRATION", "auto", 0, 0,
  "auto|on|off",
  "Whether anybody may make an account over HTTP. `auto` allows it only if the server requires no "
  "authentication and no other machine can reach it. Where it is off, an invitation "
  "(`caisson user invite`) lets one person make an account.")
S(INT, token_minutes, NOTHING, "auth.token_minutes", "SANDBOX_TOKEN_MINUTES", "300", 1, 525600,
  "whole minutes from 1 to 525600", "Minutes until the token from a login expires.")
S(INT, password_min, NOTHING, "auth.password_min", "SANDBOX_PASSWORD_MIN", "8", 6, 256,
  "whole bytes from 6 to 256",
  "Shortest password of a new user, in bytes. In the profiles classic and both the default is 6, as the page of "
  "the second family permits.")
S(PATH, db_path, NOTHING, "auth.db_path", "SANDBOX_DB_PATH", "", 0, 4000, "an absolute path, or nothing",
  "Database file of users, keys, sandboxes and history. Empty: caisson.db in the state folder.")
S(SECRET, database, NOTHING, "auth.database", "SANDBOX_DATABASE", "", 0, 2000,
  "postgresql://USER:PASSWORD@HOST/DATABASE, or the absolute path of a file that has it",
  "PostgreSQL database of users, keys, invitations, sign-ins and audit log, in place of SANDBOX_DB_PATH. For routers "
  "(SANDBOX_ROLE), and for the verbs `user` and `key`. It may be named by the path of a file, since it has a password.")
S(INT, user_sandbox_limit, NOTHING, "auth.user_sandbox_limit", "SANDBOX_USER_SANDBOX_LIMIT", "3", -1, 1000000,
  "a whole number from 0 (no limit) to 1000000, or -1 for none",
  "How many persistent sandboxes one user may have. In a `config.toml` of the second tool family 0 means none, "
  "as it did there.")
S(INT, user_cpu_s_per_day, NOTHING, "auth.user_cpu_s_per_day", "SANDBOX_USER_CPU_S_PER_DAY", "0", 0, 1000000000,
  "whole seconds from 0 (no limit) to 1000000000",
  "CPU seconds that the runs of one user may use in one day (UTC).")
S(INT, user_runs_per_minute, NOTHING, "auth.user_runs_per_minute", "SANDBOX_USER_RUNS_PER_MINUTE", "0", 0,
  1000000, "a whole number from 0 (no limit) to 1000000", "How many runs one user may start in a minute.")
S(INT, user_disk_bytes, NOTHING, "auth.user_disk_bytes", "SANDBOX_USER_DISK_BYTES", "0", 0, TIB,
  "a whole number of bytes from 0 (no limit) to 1099511627776",
  "Sum of the workspace limits of one user's persistent sandboxes, in bytes.")
S(STR, budgets, NOTHING, "auth.budgets", "SANDBOX_BUDGETS", "", 0, 2000,
  "NAME=EACH or NAME=EACH/TOTAL, separated by commas",
  "How much of a thing one user may have at the same time, and all users together, such as "
  "`streams=64, tasks=16/400`. docs/budgets.md has the names and the defaults. Administrators, and everybody "
  "on a server without authentication, are bound by the totals alone.")
S(INT, signin_hours, NOTHING, "auth.signin_hours", "SANDBOX_SIGNIN_HOURS", "168", 1, 8760, "whole hours from 1 to 8760",
  "How long a browser stays signed in to the page. A sign-in ends earlier with the user, the password or the key.")
S(INT, runs_keep, NOTHING, "history.runs", "SANDBOX_HISTORY_RUNS", "100000", 100, 1000000000,
  "a whole number from 100 to 1000000000", "How many runs the history keeps, without code and output. Above it whoever has most loses the oldest.")
S(CHOICE, history_content, NOTHING, "history.content", "SANDBOX_HISTORY_CONTENT", "on", 0, 0, "on|code|off",
  "What the page's history keeps of each run: `on` keeps code, the beginning and end of its output, and small pictures; `code` "
  "keeps the code alone; `off` keeps nothing. Values of a sandbox's environment are masked in it. People see their own runs.")
S(SIZE, history_user_bytes, NOTHING, "history.user_bytes", "SANDBOX_HISTORY_USER_BYTES", "64m", MIB, TIB,
  "a size such as 64m, from 1m to 1t", "Code and output that the history keeps for one user; the oldest goes first.")
S(SIZE, history_bytes, NOTHING, "history.bytes", "SANDBOX_HISTORY_BYTES", "1g", MIB, TIB, "a size such as 1g, from 1m to 1t",
  "Code and output that the history keeps for all users together.")
S(INT, audit_keep, NOTHING, "history.audit", "SANDBOX_HISTORY_AUDIT", "1000000", 1000, 1000000000,
  "a whole number from 1000 to 1000000000", "How many rows the audit log keeps of what was done. Of connections of sandboxes it keeps as many "
  "again, of requests that failed and of refused ones a tenth each.")
S(PATH, state_dir, NOTHING, "server.state_dir", "SANDBOX_STATE_DIR", "", 0, 4000, "an absolute path",
  "Folder of images and state. Empty: /var/lib/caisson as root, else $XDG_DATA_HOME/caisson or "
  "~/.local/share/caisson.")
S(PATH, socket, NOTHING, "server.socket", "SANDBOX_SOCKET", "", 0, 107, "an absolute path, or off",
  "Unix socket of `caisson serve`, over which `caisson stdio` of the same user shares its engine. "
  "Empty: /run/caisson/server.sock as root, else $XDG_RUNTIME_DIR/caisson/server.sock, or run/server.sock in the state folder.")
S(BOOL, bridge, NOTHING, "server.bridge", "SANDBOX_BRIDGE", "on", 0, 1, "on or off",
  "Let `caisson stdio` share the engine of a running `caisson serve` of the same user, if their settings "
  "agree. `--no-bridge` is the same as off.")
S(BOOL, image_builds, NOTHING, "server.image_builds", "SANDBOX_IMAGE_BUILDS", "on", 0, 1, "on or off",
  "Administrators may build the images that this machine has definitions of from the page and over REST. A "
  "process that keeps the rights of the account that started `caisson serve` does it; with off there is none. With SANDBOX_ROOT "
  "they may make images of sandboxes, too.")
S(STR, image_source, NOTHING, "server.image_source", "SANDBOX_IMAGE_SOURCE", CAISSON_IMAGE_SOURCE, 0, 400,
  "HOST[:PORT]/FOLDER or HOST[:PORT]/FOLDER:TAG, or nothing",
  "Folder of a registry from which SANDBOX_IMAGE is downloaded where it is missing, such as `registry.example/caisson`: the "
  "image `science` is `registry.example/caisson/science` there, with that tag or `latest`. Empty: nothing is downloaded unasked.")
S(STR, image_key, NOTHING, "server.image_key", "SANDBOX_IMAGE_KEY", CAISSON_IMAGE_KEY, 0, 400,
  "public keys of minisign separated by commas, or nothing",
  "One of these keys must have signed an image that comes from a registry, and the file of SANDBOX_RELEASE_URL. Empty: signatures "
  "of images are not looked at.")
S(STR, release_url, NOTHING, "server.release_url", "SANDBOX_RELEASE_URL", CAISSON_RELEASE_URL, 0, 400, "an https address, or nothing",
  "File of the newest release, which `caisson upgrade --check` reads; the signature is beside it, with `.minisig` at the end of "
  "the address. Nothing else asks for it.")
S(CHOICE, engine, NOTHING, "server.engine", "SANDBOX_ENGINE", "native", 0, 0, "native|docker|auto",
  "Engine that makes the sandboxes: `native`, or `docker` for containers of Docker or Podman. `auto` is native "
  "where this machine has what that needs (`caisson doctor`), else docker.")
S(STR, docker_host, NOTHING, "docker.host", "DOCKER_HOST", "", 0, 199, "unix:///PATH or tcp://HOST:PORT",
  "Address of the container daemon, which must run on this machine. Empty: the first of /run/docker.sock, "
  "$XDG_RUNTIME_DIR/docker.sock, and Podman's sockets in the same folders.")
S(PATH, docker_certs, NOTHING, "docker.certs", "DOCKER_CERT_PATH", "", 0, 4000, "an absolute path",
  "Folder with ca.pem, cert.pem and key.pem for a daemon behind TLS.")
S(STR, runtime, SERVER(RUNTIME, ""), "docker.runtime", "SANDBOX_RUNTIME", "", 0, 63, "the name of a runtime that the daemon has",
  "What makes the containers of levels that name no runtime: runc, crun. Empty: the daemon's default.")
S(STR, levels, SERVER(RUNTIME, ""), "docker.levels", "SANDBOX_LEVELS", "", 0, 799, "NAME=RUNTIME, separated by commas, or nothing",
  "Levels of isolation that a client may choose for a sandbox (`level`), each with the runtime of the daemon that "
  "makes its sandboxes, such as `standard=runc,other=crun`. A name without =RUNTIME has SANDBOX_RUNTIME. Empty: one "
  "level, `standard`, as on the native engine.")
S(STR, level, NOTHING, "session.level", "SANDBOX_LEVEL", "", 0, 32, "the name of a level, or nothing",
  "Level of isolation of sandboxes for which nobody chooses one. Empty: the first of SANDBOX_LEVELS.")
S(BOOL, warm, NOTHING, "session.warm", "SANDBOX_WARM", "on", 0, 1, "on or off",
  "Fork Python from an interpreter that has loaded the image's modules, where that is possible.")
S(INT, pool, NOTHING, "session.pool", "SANDBOX_POOL", "1", 0, 64, "a whole number from 0 to 64",
  "How many sandboxes are made in advance for the next sessions; 0 means none.")
S(INT, pool_max, NOTHING, "session.pool_max", "SANDBOX_POOL_MAX", "8", 0, 1024,
  "a whole number from 0 to 1024",
  "How many sandboxes are made in advance while sessions are opened often. Without demand the pool shrinks "
  "to `session.pool`. A number smaller than `session.pool` means `session.pool`.")
S(INT, rest_s, NOTHING, "session.rest_s", "SANDBOX_REST_S", "300", 0, 31536000,
  "whole seconds from 0 (never) to 31536000",
  "After this many seconds without a run a sandbox frees the memory of its waiting interpreters. The next "
  "run starts them again. Files and the variables of stateful sessions stay.")
S(INT, spares, NOTHING, "session.spares", "SANDBOX_SPARES", "100", 0, 65536, "a whole number from 0 (all) to 65536",
  "How many idle sandboxes keep waiting interpreters, at 3 to 9 MiB each: those that were used last. The others "
  "free theirs at once, and their next run waits some milliseconds for new ones. Files and variables stay.")
S(SIZE, total_memory, SERVER(TOTAL, ""), "session.total_memory", "SANDBOX_TOTAL_MEMORY", "0", 0, 16 * TIB,
  "a size such as 8g, or 0 for no limit",
  "Memory of all sandboxes together. Uploads into workspaces in memory count. When little of it is left, idle sandboxes free "
  "the memory of their waiting interpreters, the least recently used first, and new sessions and uploads are "
  "refused. When none is left, runs are ended.")
S(SIZE, total_disk, STORED(DISK), "sandbox.total_disk", "SANDBOX_TOTAL_DISK", "0", 0, 16 * TIB,
  "a size such as 100g, or 0 for no limit",
  "Sum of the workspace limits of all stored sandboxes. A stored sandbox that would exceed it is refused. "
  "Workspaces of sessions do not count: they take from the host's disk only what they hold, and stop at its reserve. Without root the workspace limit of "
  "a stored sandbox cannot be enforced exactly: while this is set, none is made then, unless "
  "`session.allow_weaker` names disk.")
S(INT, zygote_idle_s, NOTHING, "session.zygote_idle_s", "SANDBOX_ZYGOTE_IDLE_S", "3600", 0, 31536000,
  "whole seconds from 0 (never) to 31536000",
  "After this many seconds without a sandbox of an image, its pool and its warm interpreter are ended. The "
  "next session starts cold and starts them again.")
S(INT, zygote_age_s, NOTHING, "session.zygote_age_s", "SANDBOX_ZYGOTE_AGE_S", "21600", 0, 31536000,
  "whole seconds from 0 (never) to 31536000",
  "Age in seconds at which the warm interpreter of an image is replaced, because all sandboxes that are "
  "forked from it share its memory layout and hash seed. No session waits for the replacement.")
S(INT, zygote_forks, NOTHING, "session.zygote_forks", "SANDBOX_ZYGOTE_FORKS", "10000", 0, 1000000000,
  "a whole number from 0 (no limit) to 1000000000",
  "The warm interpreter of an image is replaced after this many sandboxes.")
S(INT, kill_grace_ms, NOTHING, "session.kill_grace_ms", "SANDBOX_KILL_GRACE_MS", "1000", 0, 60000,
  "whole milliseconds from 0 to 60000",
  "A run at its deadline is asked to end by a signal. Its processes are killed this many milliseconds later.")
S(CHOICE, workspace, SERVER(ON_DISK, "disk"), "session.workspace", "SANDBOX_WORKSPACE", "auto", 0, 0, "auto|disk|memory",
  "Where the files of a session are kept. disk: a file system of its own in a sparse file in the state folder, "
  "which ends with the session; memory: a tmpfs, whose files count as memory of the sandbox. auto means disk if "
  "the server was started by root, has loop devices and mke2fs, and its state folder is not in memory; else memory.")
S(SIZE, workspace_limit, SESSION(DISK), "session.workspace_limit", "SANDBOX_WORKSPACE_LIMIT", "2g", MIB, 16 * TIB,
  "a size such as 512m or 2g, at least 1m",
  "Size of all files and installed packages of a session. If its workspace is in memory the default is 512m.")
S(INT, workspace_files, SESSION(DISK), "session.workspace_files", "SANDBOX_WORKSPACE_FILES", "131072", 16, 100000000,
  "a whole number from 16 to 100000000", "Number of files and folders in a workspace.")
S(SIZE, tmp_limit, NOTHING, "session.tmp_limit", "SANDBOX_TMP_LIMIT", "64m", MIB, 16 * TIB,
  "a size such as 64m, at least 1m",
  "Size of all files in /tmp of a sandbox. In a stored sandbox `sandbox.workspace_limit` limits /tmp.")
S(INT, pids_limit, BOTH(PIDS), "session.pids_limit", "SANDBOX_PIDS_LIMIT", "384", 4, 1000000,
  "a whole number from 4 to 1000000", "Number of processes and threads of a sandbox.")
S(SIZE, max_memory_limit, NOTHING, "limits.max_memory", "SANDBOX_MAX_MEMORY_LIMIT", "0", 0, 16 * TIB,
  "a size such as 4g, or 0",
  "The most memory that a client may choose for a sandbox (`memory_mb`). 0 means no more than sandboxes get "
  "without choosing: the larger one of SANDBOX_MEMORY_LIMIT and SANDBOX_STORED_MEMORY_LIMIT.")
S(MILLI, max_cpu_limit, NOTHING, "limits.max_cpu", "SANDBOX_MAX_CPU_LIMIT", "0", 0, 1024000,
  "a number of cores from 0 to 1024",
  "The most CPU time in cores that a client may choose for a sandbox (`cpus`). 0 means SANDBOX_CPU_LIMIT.")
S(INT, max_pids_limit, NOTHING, "limits.max_pids", "SANDBOX_MAX_PIDS_LIMIT", "0", 0, 1000000,
  "a whole number from 0 to 1000000",
  "The most processes and threads that a client may choose for a sandbox (`processes`). 0 means "
  "SANDBOX_PIDS_LIMIT.")
S(SIZE, max_workspace_limit, NOTHING, "limits.max_workspace", "SANDBOX_MAX_WORKSPACE_LIMIT", "0", 0, 16 * TIB,
  "a size such as 10g, or 0",
  "The largest size of all files that a client may choose for a sandbox (`disk_mb`). 0 means the larger one of "
  "SANDBOX_WORKSPACE_LIMIT and SANDBOX_STORED_WORKSPACE_LIMIT.")
S(INT, max_ttl_m, NOTHING, "limits.max_ttl_m", "SANDBOX_MAX_TTL_M", "1440", 0, 525600,
  "whole minutes from 0 to 525600",
  "The longest time without use that a client may choose for a sandbox (`ttl_s`), in minutes. It is never "
  "less than SANDBOX_SESSION_TTL_M and SANDBOX_SESSION_KEEP_M.")
S(BOOL, templates, NOTHING, "limits.templates", "SANDBOX_TEMPLATES", "off", 0, 1, "on or off",
  "Clients of the face E2B may build templates, which are images of this server that only they can use. It takes SANDBOX_ROOT and "
  "SANDBOX_IMAGE_BUILDS.")
S(SIZE, template_cache, NOTHING, "limits.template_cache", "SANDBOX_TEMPLATE_CACHE", "4g", 0, 1 * TIB,
  "a size such as 4g, or 0",
  "Disk space for the cache points of one user's templates, with which later builds begin instead of repeating steps. The one "
  "that was unused for longest is removed first. 0: each build begins anew.")
S(STR, pulls, NOTHING, "limits.pulls", "SANDBOX_PULLS", "", 0, 4000,
  "repositories such as docker.io/library/python, docker.io/library/* or registry.example/*, separated by commas, or nothing",
  "What builds of templates and Dockerfiles may download from registries if the image that they begin with is missing: `*` at the end "
  "stands for every repository below, and all tags are permitted. Nothing inside this network is asked, unless the registry is listed by "
  "an address or name that is inside, or as `inside:registry.example/*`. It takes SANDBOX_ROOT and SANDBOX_IMAGE_BUILDS. Empty: builds download nothing.")
S(SIZE, pull_cache, NOTHING, "limits.pull_cache", "SANDBOX_PULL_CACHE", "16g", MIB, 16 * TIB,
  "a size such as 16g, from 1m",
  "Disk space for all images that builds have downloaded (SANDBOX_PULLS), of which 256 are kept at most. The one that was looked up longest ago is removed first, "
  "unless it is in use. No such image may be larger.")
S(BOOL, root, SERVER(ROOT, "on"), "limits.root", "SANDBOX_ROOT", "off", 0, 1, "on or off",
  "Sandboxes may be made with a root user, who can install packages of the system (apt-get): uid 0 of the sandbox's own "
  "user namespace, without rights outside. Needs the native engine, a server that root started, and control groups.")
S(STR, images_allowed, NOTHING, "limits.images", "SANDBOX_IMAGES", "", 0, 4000,
  "names of images separated by commas, *, or nothing",
  "Images that a client may choose for a sandbox (`image`), besides SANDBOX_IMAGE. `*` means every image of "
  "this server. Each image in use keeps a warm interpreter in memory.")
S(INT, nofile_limit, NOTHING, "session.nofile_limit", "SANDBOX_NOFILE_LIMIT", "0", 0, 1048576,
  "0, or a whole number from 16 to 1048576",
  "Number of open files of one process in a sandbox. 0 means one for each 24 KiB of its memory, from 1,024 to 65,536 "
  "(20,000 and more with 512m), and a fourth of that where no control group counts the memory.")
S(STR, allow_weaker, NOTHING, "session.allow_weaker", "SANDBOX_ALLOW_WEAKER", "", 0, 100,
  "names of limits separated by commas: memory, cpu, pids, disk",
  "Limits that may be best effort on a machine that cannot enforce them. Without this the server refuses to "
  "start if a limit that was set cannot be enforced.")
S(CHOICE, save_figures, NOTHING, "session.save_figures", "SANDBOX_SAVE_FIGURES", "auto", 0, 0, "auto|on|off",
  "Save figures of matplotlib that a run has drawn but not saved as figure-N.png in the workspace, and what a "
  "notebook would show for the last expression. `auto` does so only in the tools of the profile `full` and "
  "with `caisson run --out`: the contracts of the other profiles have no such files.")
S(INT, result_chars, NOTHING, "limits.result_chars", "SANDBOX_RESULT_CHARS", "16000", 1000, 1000000,
  "a whole number from 1000 to 1000000",
  "Longest text in one answer of the tools that only the profile `full` has, in bytes of UTF-8. Four bytes of plain English are about one "
  "token of a model; of numbers and signs, which take more tokens, fewer bytes go in.")

S(INT, task_after_s, NOTHING, "session.task_after_s", "SANDBOX_TASK_AFTER_S", "30", 0, 604800,
  "whole seconds from 0 (never) to 604800",
  "After this many seconds a run continues as a background task, for clients that support tasks. Only in the "
  "profile `full`.")

S(INT, stored_exec_timeout_s, NOTHING, "sandbox.exec_timeout_s", "SANDBOX_STORED_EXEC_TIMEOUT_S", "300", 0,
  604800, "whole seconds from 0 (no limit) to 604800",
  "Longest time in seconds of one run in a stored sandbox (`create_sandbox`); 0 means unlimited.")
S(INT, stored_output_bytes, NOTHING, "sandbox.max_output_bytes", "SANDBOX_STORED_MAX_OUTPUT_BYTES", "1048576",
  0, 67108864, "a whole number of bytes from 0 to 67108864",
  "How many bytes of each output stream are kept of a run in a stored sandbox.")
S(SIZE, stored_memory_limit, STORED(MEMORY), "sandbox.memory_limit", "SANDBOX_STORED_MEMORY_LIMIT", "1g", 6 * MIB,
  16 * TIB, "a size such as 512m or 2g, at least 6m", "Memory of a stored sandbox, including swap. The default is at least that of a session.")
S(SIZE, stored_workspace_limit, STORED(DISK), "sandbox.workspace_limit", "SANDBOX_STORED_WORKSPACE_LIMIT", "2g", MIB,
  16 * TIB, "a size such as 512m or 2g, at least 1m",
  "Size of all files and installed packages of a stored sandbox, with /tmp and the home folder, which outlive a "
  "restart. A sandbox keeps the limit that it was made with.")
S(INT, stored_workspace_files, STORED(DISK), "sandbox.workspace_files", "SANDBOX_STORED_WORKSPACE_FILES", "131072",
  16, 100000000, "a whole number from 16 to 100000000",
  "Number of files and folders of a stored sandbox, including those of installed packages.")
S(INT, stored_idle_s, NOTHING, "sandbox.idle_timeout_s", "SANDBOX_STORED_IDLE_TIMEOUT_S", "600", 1, 31536000,
  "whole seconds from 1 to 31536000",
  "After this many seconds without use the next sweep ends the processes of a stored sandbox. Its files "
  "stay, and the next use starts it again.")
S(INT, stored_active, NOTHING, "sandbox.max_active", "SANDBOX_STORED_MAX_ACTIVE", "20", 1, 10000,
  "a whole number from 1 to 10000",
  "How many stored sandboxes may run at the same time (budget `active_stored`). When another one starts, the one that was unused longest "
  "is stopped. With root each takes its whole SANDBOX_STORED_WORKSPACE_LIMIT on the disk of the host meanwhile, as long "
  "as there is room.")
S(BOOL, stored_variables, NOTHING, "sandbox.keep_variables", "SANDBOX_STORED_VARIABLES", "on", 0, 1, "on or off",
  "Keep the variables of a stateful session of a stored sandbox while it rests, on its disk, and when the server is stopped. Up to a "
  "quarter of the size of its files, and what can be written in 3 s. The native engine has this.")
S(BOOL, strict_ids, NOTHING, "sandbox.strict_ids", "SANDBOX_STRICT_IDS", "off", 0, 1, "on or off",
  "Refuse an unknown id that has the form of a stored sandbox's id. Otherwise the tools of the first family "
  "make a session of that name.")
S(STR, local_roots, NOTHING, "upload.local_roots", "SANDBOX_UPLOAD_LOCAL_ROOTS", ".", 0, 4000,
  "folders separated by ':', * for any path, or nothing",
  "Folders of this machine that `upload_file_to_sandbox` may read, with the privileges of the user who started "
  "the server. Relative folders start in its working directory. If this is not set, only clients of the same "
  "user may (`caisson stdio`), and nobody if the server was started in `/`. If it is set, every client of a "
  "server that listens on loopback may read these folders.")
S(STR, pip_index_url, NOTHING, "mirror.pypi_index_url", "SANDBOX_PIP_INDEX_URL", "", 0, 2000,
  "an http:// or https:// address, or nothing",
  "Package index (its `simple` page). It may have a private address, because the operator names it. Empty: "
  "the index in the pip configuration of the user who starts the server, else https://pypi.org/simple.")
S(STR, pip_extra_index_url, NOTHING, "packages.extra_index_url", "SANDBOX_PIP_EXTRA_INDEX_URL", "", 0, 2000,
  "an http:// or https:// address, or nothing",
  "A second package index, for instance https://download.pytorch.org/whl/cpu for PyTorch without CUDA. Of each package the "
  "newest version that fits is taken, wherever it is, so everybody who can publish on either index is trusted with every name.")
S(CHOICE, pip_tell_index, NOTHING, "packages.tell_index", "SANDBOX_PIP_TELL_INDEX", "auto", 0, 0, "auto|on|off",
  "Tell sandboxes that may reach the package index its address, so that pip works inside. `auto` does not "
  "if a part of the path could be a token, that is, anything but plain words and short numbers. An address "
  "with a user name or a query is never told.")
S(STR, pip_extra_hosts, NOTHING, "packages.extra_hosts", "SANDBOX_PIP_EXTRA_HOSTS", "", 0, 4000,
  "host or host:port, separated by blanks or commas",
  "Further public hosts that the pages of the package index may link to.")
S(PATH, pip_wheel_dir, NOTHING, "packages.wheel_dir", "SANDBOX_PIP_WHEEL_DIR", "", 0, 4000,
  "an absolute path, or nothing",
  "Folder of wheels that is used instead of a package index: installations then need no network. All users "
  "of this machine must be able to read its files.")
S(PATH, pip_ca_file, NOTHING, "packages.ca_file", "SANDBOX_PIP_CA_FILE", "", 0, 4000, "an absolute path, or nothing",
  "File of certificates (PEM) that the package index is checked against. Empty: the file in pip's "
  "configuration, else the certificates of this machine.")
S(BOOL, pip_sources, NOTHING, "packages.source_builds", "SANDBOX_PIP_SOURCE_BUILDS", "off", 0, 1, "on or off",
  "Build packages that have no wheel. A build runs the package's code, in a sandbox of its own that can reach "
  "the package index only.")
S(INT, install_timeout_s, NOTHING, "packages.timeout_s", "SANDBOX_INSTALL_TIMEOUT_S", "600", 1, 86400,
  "whole seconds from 1 to 86400", "Longest time of one installation in seconds, including the wait for other installations.")
S(SIZE, install_max_bytes, NOTHING, "packages.max_bytes", "SANDBOX_INSTALL_MAX_BYTES", "1g", MIB, TIB,
  "a size such as 200m or 4g, from 1m to 1024g",
  "Size of the wheels of one installation. Unpacked, they count as files of the sandbox.")
S(SIZE, wheel_cache_bytes, NOTHING, "packages.cache_bytes", "SANDBOX_WHEEL_CACHE_BYTES", "2g", 0, 16 * TIB,
  "a size such as 2g, or 0 for none",
  "Size of the wheels that are kept for further installations, in `packages/wheels` of the state folder.")
S(INT, index_ttl_m, NOTHING, "packages.index_ttl_m", "SANDBOX_INDEX_TTL_M", "60", 0, 525600,
  "whole minutes from 0 (not at all) to 525600",
  "For how many minutes an answer of the package index is remembered.")
S(CHOICE, network, NOTHING, "sandbox.network", "SANDBOX_NETWORK", "none", 0, 0, "none|packages|allowlist|open",
  "What sandboxes may reach, through a proxy that resolves and checks every name (`HTTP_PROXY` is set): "
  "`none`: nothing; `packages`: the package index; `allowlist`: the hosts in `sandbox.network_allow`; `open`: "
  "every public host.")
S(STR, network_allow, NOTHING, "sandbox.network_allow", "SANDBOX_NETWORK_ALLOW", "", 0, 16000,
  "host, host:port, *.host, an address or a block of addresses, separated by blanks or commas",
  "Hosts of the policy `allowlist`. Without a port, 80 and 443 are meant. `*.host` means all names below "
  "host. `8.8.8.0/24` and `[2620:fe::/48]:8443` mean hosts that are written as such an address, not names. "
  "Empty means no host.")
S(BOOL, network_open, NOTHING, "sandbox.network_open", "SANDBOX_NETWORK_OPEN", "off", 0, 1, "on or off",
  "Permit the value `open` in `sandbox.network` and `sandbox.network_max`.")
S(CHOICE, network_max, NOTHING, "sandbox.network_max", "SANDBOX_NETWORK_MAX", "none", 0, 0, "none|packages|allowlist|open",
  "The widest policy that a client may choose for a sandbox instead of `sandbox.network`. `packages`: the "
  "package index; `allowlist`: also lists of hosts from `sandbox.network_allow`; `open`: also every public "
  "host, and lists of them. A client may always choose `none`, or a list of hosts that `sandbox.network` allows.")
S(BOOL, network_ask, NOTHING, "sandbox.network_ask", "SANDBOX_NETWORK_ASK", "off", 0, 1, "on or off",
  "When a model asks for a host (`sandbox_allow_domain`, profile `full`), ask the person at the client, who may "
  "allow it for this sandbox. Every sandbox then has the proxy, and none is taken from the pool.")
S(INT, network_ask_again, NOTHING, "sandbox.network_ask_again", "SANDBOX_NETWORK_ASK_AGAIN", "1", 0, 100,
  "whole number from 0 to 100",
  "How often within an hour a person may be asked again for a host that was not allowed, over all sandboxes. "
  "For all hosts together a user is asked at most as often as for eight hosts.")

#undef MIB
#undef TIB
