/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas of REST answers: S(Name, "JSON"). */
/* clang-format off */
#define STRING  "{\"type\":\"string\"}"
#define INTEGER "{\"type\":\"integer\"}"
#define BOOLEAN "{\"type\":\"boolean\"}"
#define MAYBE "{\"type\":[\"string\",\"null\"]}"
#define WHEN    "{\"type\":\"string\",\"format\":\"date-time\"}"
#define TIME    "{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}"
#define LIST(key, name)                                                                            \
	"{\"type\":\"object\",\"required\":[\"" key "\"],\"properties\":{\"" key                   \
	"\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/" name "\"}}}}"

S(Anything, "{\"type\":\"object\"}")
S(Problem, "{\"type\":\"object\",\"required\":[\"type\",\"title\",\"status\",\"detail\",\"code\"],"
	   "\"properties\":{\"type\":" STRING ",\"title\":" STRING ",\"status\":" INTEGER
	   ",\"detail\":" STRING ",\"code\":" STRING ",\"hint\":" STRING ",\"member\":" STRING ",\"sessions\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}}}}")
#define INTEGERS "{\"type\":\"array\",\"items\":" INTEGER "}"
S(Usage, "{\"type\":\"object\",\"required\":[\"memory_bytes\",\"cpu_ms\",\"pids\",\"disk_bytes\"],\"properties\":{"
	 "\"memory_bytes\":" INTEGER ",\"cpu_ms\":" INTEGER ",\"pids\":" INTEGER ",\"disk_bytes\":" INTEGER
	 ",\"series\":{\"type\":\"object\",\"required\":[\"at_ms\",\"memory_bytes\",\"cpu_ms\",\"disk_bytes\"],\"properties\":{\"at_ms\":" INTEGERS ",\"memory_bytes\":" INTEGERS
	 ",\"cpu_ms\":" INTEGERS ",\"disk_bytes\":" INTEGERS "}}}}")
#undef INTEGERS
S(Sandbox,
  "{\"type\":\"object\",\"required\":[\"id\",\"owner\",\"kind\",\"name\",\"state\","
  "\"busy\",\"age_s\",\"network\",\"image\",\"level\",\"labels\",\"env\",\"limits\"],\"properties\":{\"id\":" STRING ",\"owner\":" STRING
  ",\"kind\":{\"enum\":[\"session\",\"stored\"]},\"name\":" STRING
  ",\"state\":{\"enum\":[\"active\",\"stored\"]},\"busy\":" BOOLEAN ",\"age_s\":" INTEGER
  ",\"idle_s\":" INTEGER ",\"runs\":" INTEGER ",\"keepable\":" BOOLEAN ",\"parent\":" STRING ",\"host_disk_full\":" BOOLEAN ",\"root\":" BOOLEAN
  ",\"usage\":{\"$ref\":\"#/components/schemas/Usage\"},\"network\":{\"enum\":[\"none\",\"packages\",\"allowlist\",\"open\"]}"
  ",\"domains\":{\"type\":\"array\",\"items\":" STRING "},\"image\":" STRING ",\"level\":" STRING
  ",\"labels\":{\"type\":\"object\",\"additionalProperties\":" STRING "}"
  ",\"env\":{\"type\":\"array\",\"items\":" STRING "},\"workdir\":" STRING ",\"public\":" BOOLEAN
  ",\"limits\":{\"type\":\"object\",\"required\":[\"memory_mb\",\"cpus\",\"processes\",\"disk_mb\",\"ttl_s\"],\"properties\":{\"memory_mb\":" INTEGER
  ",\"cpus\":{\"type\":\"number\"},\"processes\":" INTEGER ",\"disk_mb\":" INTEGER
  ",\"timeout_s\":" INTEGER ",\"ttl_s\":" INTEGER "}}}}")
S(Sandboxes, LIST("sandboxes", "Sandbox"))
S(Checkpoint, "{\"type\":\"object\",\"required\":[\"name\",\"state\",\"files\",\"bytes\",\"age_s\"],"
	      "\"properties\":{\"name\":" STRING
	      ",\"state\":{\"enum\":[\"kept\",\"fresh\",\"lost\"]},\"files\":" INTEGER
	      ",\"bytes\":" INTEGER ",\"skipped\":" INTEGER ",\"age_s\":" INTEGER ",\"by\":" MAYBE
	      ",\"parent\":" MAYBE ",\"not_saved\":{\"type\":\"array\",\"items\":" STRING
	      "},\"gone\":{\"type\":\"array\",\"items\":" STRING "}}}")
S(Checkpoints, LIST("checkpoints", "Checkpoint"))
S(Branch, "{\"type\":\"object\",\"required\":[\"name\",\"state\"],\"properties\":{\"name\":" STRING
	  ",\"state\":{\"enum\":[\"kept\",\"fresh\",\"lost\",\"unchanged\"]},\"exit_code\":" INTEGER
	  ",\"reason\":" STRING ",\"stdout\":" STRING ",\"stderr\":" STRING ",\"value\":" STRING
	  ",\"duration_ms\":" INTEGER ",\"error\":" STRING ",\"message\":" STRING "}}")
S(Branches, LIST("branches", "Branch"))
S(Fork, "{\"type\":\"object\",\"required\":[\"id\",\"forked_from\",\"files\",\"bytes\"],"
	"\"properties\":{\"id\":" STRING ",\"forked_from\":" STRING ",\"files\":" INTEGER
	",\"bytes\":" INTEGER ",\"skipped\":" INTEGER "}}")
#define STREAM                                                                                     \
	"{\"type\":\"object\",\"required\":[\"text\",\"from\",\"next\"],\"properties\":{\"text\":" STRING ",\"from\":" INTEGER \
	",\"next\":" INTEGER "}}"
S(Context, "{\"type\":\"object\",\"required\":[\"name\",\"runs\"],\"properties\":{\"name\":" STRING ",\"runs\":" INTEGER "}}")
S(Contexts, LIST("contexts", "Context"))
S(Process,
  "{\"type\":\"object\",\"required\":[\"id\",\"command\",\"state\",\"input\",\"started_at\",\"duration_ms\",\"stdout_bytes\","
  "\"stderr_bytes\"],\"properties\":{\"id\":" STRING ",\"name\":" STRING ",\"command\":" STRING
  ",\"state\":{\"enum\":[\"running\",\"ended\"]},\"input\":" BOOLEAN ",\"started_at\":" TIME ",\"duration_ms\":" INTEGER
  ",\"stdout_bytes\":" INTEGER ",\"stderr_bytes\":" INTEGER ",\"exit_code\":" INTEGER ",\"reason\":" STRING
  ",\"killed\":" INTEGER ",\"cpu_ms\":" INTEGER ",\"peak_bytes\":" INTEGER ",\"error\":" STRING ",\"message\":" STRING
  ",\"terminal\":{\"type\":\"object\",\"required\":[\"rows\",\"columns\"],\"properties\":{\"rows\":" INTEGER ",\"columns\":" INTEGER "}},\"stdout\":" STREAM ",\"stderr\":" STREAM "}}")
#undef STREAM
S(Processes, LIST("processes", "Process"))
S(Terminals, LIST("terminals", "Process"))
S(Port,
  "{\"type\":\"object\",\"required\":[\"port\",\"path\"],\"properties\":{\"port\":" INTEGER ",\"path\":" STRING ",\"pid\":" INTEGER
  ",\"program\":" STRING "}}")
S(Ports, LIST("ports", "Port"))
S(PortAddress,
  "{\"type\":\"object\",\"required\":[\"url\",\"expires_at\"],\"properties\":{\"url\":" STRING ",\"expires_at\":" TIME "}}")
S(Package,
  "{\"type\":\"object\",\"required\":[\"name\",\"version\",\"from_image\"],\"properties\":{"
  "\"name\":" STRING ",\"version\":" STRING ",\"from_image\":" BOOLEAN "}}")
S(Packages, LIST("packages", "Package"))
S(PackageEntry,
  "{\"type\":\"object\",\"required\":[\"name\",\"versions\"],\"properties\":{"
  "\"name\":" STRING ",\"version\":" STRING ",\"summary\":" STRING ",\"why\":" STRING
  ",\"bytes\":" INTEGER ",\"versions\":{\"type\":\"array\",\"items\":" STRING
  "},\"total\":" INTEGER "}}")
S(PackageStatus,
  "{\"type\":\"object\",\"required\":[\"packages\",\"status\",\"message\",\"complete\"],"
  "\"properties\":{\"packages\":" STRING ",\"status\":{\"enum\":[\"installing\",\"success\","
  "\"failed\",\"not_found\",\"error\"]},\"message\":" STRING ",\"stderr\":" STRING
  ",\"complete\":" BOOLEAN ",\"installed\":{\"type\":\"array\",\"items\":" STRING
  "},\"started_at\":" TIME ",\"ended_at\":" TIME ",\"elapsed_ms\":" INTEGER "}}")
#define WHOLE_FILE                                                                                 \
	"{\"type\":\"object\",\"required\":[\"path\",\"size\",\"complete\"],\"properties\":{"      \
	"\"path\":" STRING ",\"size\":" INTEGER ",\"complete\":" BOOLEAN "}}"
#define RESULT_HEAD                                                                                \
	"\"kind\":{\"enum\":[\"display\",\"result\",\"clear\"]},\"offset\":" INTEGER ",\"end\":" INTEGER               \
	",\"file\":" STRING ",\"left_out\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":["       \
	"\"type\",\"bytes\"],\"properties\":{\"type\":" STRING ",\"bytes\":" INTEGER "}}}"
S(Result, "{\"type\":\"object\",\"required\":[\"kind\",\"offset\",\"end\",\"data\",\"left_out\"],\"properties\":{"
	  RESULT_HEAD ",\"data\":{\"type\":\"object\",\"additionalProperties\":" STRING "}}}")
S(Results, "{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/Result\"}}")
#define SESSION_STATE                                                                              \
	",\"context\":" STRING ",\"state\":{\"enum\":[\"kept\",\"unchanged\",\"carried\",\"lost\"]},\"gone\":{\"type\":\"array\"," \
	"\"items\":" STRING "}"
S(Run, "{\"type\":\"object\",\"required\":[\"id\",\"sandbox\",\"status\"],\"properties\":{"
       "\"id\":" STRING ",\"sandbox\":" STRING
       ",\"status\":{\"enum\":[\"running\",\"done\",\"failed\"]},\"reason\":" STRING
       ",\"exit_code\":" INTEGER ",\"stdout\":" STRING ",\"stderr\":" STRING ",\"value\":" STRING
       ",\"ended_cwd\":" STRING ",\"stdout_truncated\":" BOOLEAN ",\"stderr_truncated\":" BOOLEAN
       ",\"value_truncated\":" BOOLEAN SESSION_STATE ",\"hint\":" STRING ",\"stdout_file\":" WHOLE_FILE ",\"stderr_file\":" WHOLE_FILE
       ",\"value_file\":" WHOLE_FILE ",\"duration_ms\":" INTEGER
       ",\"cpu_ms\":" INTEGER ",\"peak_bytes\":" INTEGER ",\"error\":" STRING ",\"message\":" STRING
       ",\"artifacts_more\":" BOOLEAN ",\"results\":{\"$ref\":\"#/components/schemas/Results\"}"
       ",\"artifacts\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":["
       "\"name\",\"size\"],\"properties\":{\"name\":" STRING ",\"size\":" INTEGER "}}}}}")
S(Table, "{\"type\":\"object\",\"required\":[\"kind\",\"columns\",\"rows\",\"total\",\"offset\"],\"properties\":{"
	 "\"kind\":" STRING ",\"columns\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"name\",\"type\"],"
	 "\"properties\":{\"name\":" STRING ",\"type\":" STRING "}}},"
	 "\"rows\":{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":{}}},\"total\":{\"type\":[\"integer\",\"null\"]},"
	 "\"sheets\":{\"type\":\"array\",\"items\":" STRING "},\"offset\":" INTEGER
	 ",\"encoding\":" STRING ",\"sure\":" INTEGER "}}")
S(Names, "{\"type\":\"object\",\"required\":[\"start\",\"end\",\"items\"],\"properties\":{\"start\":" INTEGER
	 ",\"end\":" INTEGER ",\"items\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"label\","
	 "\"type\"],\"properties\":{\"label\":" STRING ",\"type\":" STRING "}}}}}")
S(RunRow, "{\"type\":\"object\",\"required\":[\"id\",\"owner\",\"sandbox\",\"kind\",\"reason\","
	  "\"exit_code\",\"started_at\",\"duration_ms\",\"cpu_us\",\"peak_bytes\","
	  "\"output_bytes\"]}")
S(RunRows, LIST("runs", "RunRow"))
#define CELL_TEXT                                                                                  \
	"{\"type\":\"object\",\"required\":[\"text\",\"total\",\"cut\"],\"properties\":{\"text\":" STRING    \
	",\"total\":" INTEGER ",\"cut\":" BOOLEAN "}}"
S(Cell, "{\"type\":\"object\",\"required\":[\"seq\",\"run\",\"sandbox\",\"owner\",\"status\",\"kind\",\"asked_by\","
	"\"code\",\"code_cut\",\"started_at\",\"stdout\",\"stderr\",\"value\",\"files\"],\"properties\":{"
	"\"seq\":{\"type\":[\"integer\",\"null\"]},\"place\":" STRING ",\"number\":" INTEGER ",\"run\":" STRING ",\"sandbox\":" STRING
	",\"sandbox_name\":" STRING ",\"image\":" STRING ",\"owner\":" STRING
	",\"status\":{\"enum\":[\"queued\",\"running\",\"done\",\"failed\"]},\"kind\":" STRING
	",\"asked_by\":{\"type\":\"object\",\"required\":[\"how\",\"name\"],\"properties\":{\"how\":" STRING ",\"name\":" STRING
	"}},\"language\":{\"enum\":[\"javascript\",\"typescript\"]},\"code\":" STRING ",\"code_cut\":" BOOLEAN ",\"started_at\":" TIME
	",\"duration_ms\":" INTEGER ",\"cpu_ms\":" INTEGER ",\"peak_bytes\":" INTEGER
	",\"cwd\":" STRING ",\"ended_cwd\":" STRING SESSION_STATE
	",\"reason\":" STRING ",\"exit_code\":" INTEGER ",\"error\":" MAYBE ",\"stdout\":" CELL_TEXT
	",\"stderr\":" CELL_TEXT ",\"value\":" CELL_TEXT
	",\"results\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"kind\",\"offset\",\"end\","
	"\"types\",\"left_out\"],\"properties\":{" RESULT_HEAD ",\"types\":{\"type\":\"array\",\"items\":" STRING "}}}}"
	",\"files\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"name\",\"size\",\"kept\"],\"properties\":{\"name\":" STRING
	",\"size\":" INTEGER ",\"kept\":" BOOLEAN "}}}}}")
S(Notebook, "{\"type\":\"object\",\"required\":[\"sandbox\",\"live\",\"cells\",\"more\"],\"properties\":{"
	    "\"sandbox\":" STRING ",\"live\":" BOOLEAN
	    ",\"cells\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/Cell\"}},\"more\":"
	    BOOLEAN "}}")
S(NotebookRow, "{\"type\":\"object\",\"required\":[\"sandbox\",\"live\",\"first_at\",\"last_at\",\"cells\","
	       "\"bytes\"],\"properties\":{\"sandbox\":" STRING ",\"seq\":" INTEGER ",\"owner\":" STRING ",\"name\":" STRING
	       ",\"image\":" STRING ",\"live\":" BOOLEAN ",\"first_at\":" TIME ",\"last_at\":" TIME
	       ",\"cells\":" INTEGER ",\"bytes\":" INTEGER ",\"last_code\":" STRING "}}")
S(Notebooks, "{\"type\":\"object\",\"required\":[\"notebooks\",\"next\"],\"properties\":{\"notebooks\":{"
	     "\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/NotebookRow\"}},\"next\":{"
	     "\"type\":[\"integer\",\"string\",\"null\"]}}}")
S(Cells, "{\"type\":\"object\",\"required\":[\"cells\",\"next\"],\"properties\":{\"cells\":{\"type\":\"array\","
	 "\"items\":{\"$ref\":\"#/components/schemas/Cell\"}},\"next\":{\"type\":[\"integer\",\"string\",\"null\"]}}}")
#undef CELL_TEXT
#undef RESULT_HEAD
S(WorkspaceFile, "{\"type\":\"object\",\"required\":[\"path\",\"size\"],\"properties\":{\"path\":" STRING
	",\"size\":" INTEGER "}}")
S(Path, "{\"type\":\"object\",\"required\":[\"path\"],\"properties\":{\"path\":" STRING "}}")
S(Written, LIST("files", "WorkspaceFile"))
S(Entry, "{\"type\":\"object\",\"required\":[\"name\",\"type\",\"size\",\"modified_at\"],"
	 "\"properties\":{\"name\":" STRING ",\"type\":{\"enum\":[\"file\",\"folder\",\"link\","
	 "\"other\"]},\"size\":" INTEGER ",\"modified_at\":" WHEN "}}")
S(Files, LIST("files", "Entry"))
S(Me, "{\"type\":\"object\",\"required\":[\"id\",\"name\",\"how\",\"admin\",\"read_only\",\"budgets\"],"
      "\"properties\":{\"id\":" STRING ",\"name\":" STRING ",\"how\":{\"enum\":[\"open\","
      "\"server_key\",\"key\",\"token\",\"cookie\"]},\"admin\":" BOOLEAN ",\"read_only\":" BOOLEAN
      ",\"budgets\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"object\","
      "\"required\":[\"used\",\"max\"],\"properties\":{\"used\":" INTEGER ",\"max\":" INTEGER
      "}}}}}")
S(Session, "{\"type\":\"object\",\"required\":[\"required\",\"signed_in\",\"how\",\"methods\",\"registration\","
	   "\"loopback\",\"version\",\"profile\",\"base\",\"history\",\"password_min\",\"me\"],\"properties\":{"
	   "\"required\":" BOOLEAN ",\"signed_in\":" BOOLEAN ",\"how\":" MAYBE
	   ",\"registration\":{\"enum\":[\"open\",\"invitation\",\"off\"]},\"loopback\":" BOOLEAN
	   ",\"version\":" STRING ",\"profile\":" STRING ",\"base\":" STRING ",\"history\":{\"enum\":[\"on\",\"code\",\"off\"]}"
	   ",\"password_min\":" INTEGER ",\"methods\":{\"type\":\"array\",\"items\":" STRING "}"
	   ",\"me\":{\"oneOf\":[{\"type\":\"null\"},{\"$ref\":\"#/components/schemas/Me\"}]}}}")
S(User, "{\"type\":\"object\",\"required\":[\"id\",\"name\",\"email\",\"role\",\"active\","
	"\"created_at\"],\"properties\":{\"id\":" STRING ",\"name\":" STRING ",\"email\":" STRING
	",\"role\":{\"enum\":[\"user\",\"admin\"]},\"active\":" BOOLEAN ",\"created_at\":" TIME
	",\"max_sandboxes\":" INTEGER ",\"max_cpu_s_per_day\":" INTEGER
	",\"max_disk_bytes\":" INTEGER ",\"max_runs_per_minute\":" INTEGER "}}")
S(Users, LIST("users", "User"))
#define KEY_MEMBERS                                                                                \
	"\"id\":" STRING ",\"user\":" STRING ",\"name\":" STRING ",\"hint\":" STRING               \
	",\"scope\":{\"enum\":[\"full\",\"read\",\"admin\"]},\"profile\":" STRING                  \
	",\"created_at\":" TIME ",\"expires_at\":" TIME ",\"used_at\":" TIME
S(Key,
  "{\"type\":\"object\",\"required\":[\"id\",\"user\",\"scope\"],\"properties\":{" KEY_MEMBERS "}}")
S(NewKey, "{\"type\":\"object\",\"required\":[\"id\",\"user\",\"scope\",\"key\"],\"properties\":{"
	  "\"key\":" STRING "," KEY_MEMBERS "}}")
S(Keys, LIST("keys", "Key"))
#define INVITATION_MEMBERS                                                                         \
	"\"id\":" STRING ",\"role\":{\"enum\":[\"user\",\"admin\"]},\"note\":" STRING              \
	",\"created_at\":" TIME ",\"expires_at\":" TIME
S(Invitation, "{\"type\":\"object\",\"required\":[\"id\",\"role\",\"expires_at\"],\"properties\":{"
	      INVITATION_MEMBERS "}}")
S(NewInvitation, "{\"type\":\"object\",\"required\":[\"id\",\"role\",\"expires_at\",\"invitation\"],"
		 "\"properties\":{\"invitation\":" STRING "," INVITATION_MEMBERS "}}")
S(Invitations, LIST("invitations", "Invitation"))
S(AuditRow, "{\"type\":\"object\",\"required\":[\"id\",\"at\",\"actor\",\"action\",\"object\","
	    "\"result\",\"detail\",\"peer\",\"count\"],\"properties\":{\"id\":" INTEGER ",\"at\":" TIME
	    ",\"actor\":" STRING ",\"action\":" STRING ",\"object\":" STRING ",\"result\":" STRING
	    ",\"detail\":" STRING ",\"peer\":" STRING ",\"count\":" INTEGER "}}")
S(AuditRows, LIST("rows", "AuditRow"))
S(Server, "{\"type\":\"object\",\"required\":[\"version\",\"uptime_s\",\"profile\",\"engine\",\"pool\","
	  "\"images\"],\"properties\":{\"version\":" STRING ",\"uptime_s\":" INTEGER
	  ",\"profile\":" STRING ",\"engine\":" STRING ",\"worker\":" STRING "}}")
S(ImageBuild,
  "{\"type\":\"object\",\"required\":[\"name\",\"what\",\"state\",\"began_at\",\"ended_at\",\"reason\",\"dropped\",\"lines\"],"
  "\"properties\":{\"name\":" STRING ",\"what\":{\"enum\":[\"build\",\"download\",\"change\",\"remove\"]}"
  ",\"state\":{\"enum\":[\"building\",\"downloading\",\"removing\",\"stopping\",\"done\","
  "\"failed\",\"cancelled\"]},\"began_at\":" WHEN ",\"ended_at\":" TIME ",\"reason\":" STRING ",\"dropped\":" INTEGER
  ",\"lines\":{\"type\":\"array\",\"items\":" STRING "}}}")
S(ImageDefinition, "{\"type\":\"object\",\"required\":[\"name\",\"description\"],\"properties\":{\"name\":" STRING
		   ",\"description\":" STRING "}}")
S(Image, "{\"type\":\"object\",\"required\":[\"name\",\"bytes\",\"built_at\",\"python\",\"packages\",\"description\","
	 "\"default\",\"of_sandbox\"],\"properties\":{\"name\":" STRING ",\"bytes\":" INTEGER ",\"built_at\":" STRING
	 ",\"python\":" STRING ",\"packages\":" INTEGER ",\"description\":" STRING ",\"default\":" BOOLEAN
	 ",\"of_sandbox\":" BOOLEAN "}}")
S(Images, "{\"type\":\"object\",\"required\":[\"images\",\"definitions\",\"why_not\",\"of_sandboxes\",\"build\"],\"properties\":{"
	  "\"images\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/Image\"}},"
	  "\"definitions\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/ImageDefinition\"}},"
	  "\"why_not\":" STRING ",\"of_sandboxes\":" BOOLEAN ",\"build\":{\"oneOf\":[{\"type\":\"null\"},"
	  "{\"$ref\":\"#/components/schemas/ImageBuild\"}]}}}")
S(Figures, "{\"type\":\"object\",\"required\":[\"step_s\",\"at\",\"series\"],\"properties\":{"
	   "\"step_s\":" INTEGER ",\"at\":{\"type\":\"array\",\"items\":" INTEGER "}}}")
S(FleetWorker,
  "{\"type\":\"object\",\"required\":[\"address\",\"state\",\"since\",\"listed\"],\"properties\":{\"address\":" STRING
  ",\"state\":{\"enum\":[\"ready\",\"not_ready\",\"draining\",\"unreachable\",\"lost\",\"refused\",\"unknown\"]},\"since\":" WHEN
  ",\"listed\":" BOOLEAN ",\"id\":" STRING ",\"name\":" STRING ",\"version\":" STRING ",\"epoch\":" STRING ",\"requests\":" INTEGER
  ",\"sandboxes\":" INTEGER ",\"sandboxes_max\":" INTEGER "}}")
S(Fleet, LIST("workers", "FleetWorker"))
S(Stats, "{\"type\":\"object\",\"required\":[\"sandboxes\",\"runs\",\"http_answers\","
	 "\"output_bytes\"],\"properties\":{\"sandboxes\":" INTEGER ",\"http_answers\":" INTEGER
	 ",\"output_bytes\":" INTEGER "}}")
#undef INVITATION_MEMBERS
#undef KEY_MEMBERS
#undef LIST
#undef TIME
#undef WHEN
#undef MAYBE
#undef BOOLEAN
#undef INTEGER
#undef STRING
