/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas of REST answers: S(Name, "JSON"). */
#define STRING  "{\"type\":\"string\"}"
#define INTEGER "{\"type\":\"integer\"}"
#define BOOLEAN "{\"type\":\"boolean\"}"
#define TIME    "{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}"
#define LIST(key, name)                                                                            \
	"{\"type\":\"object\",\"required\":[\"" key "\"],\"properties\":{\"" key                   \
	"\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/" name "\"}}}}"

S(Anything, "{\"type\":\"object\"}")
S(Problem, "{\"type\":\"object\",\"required\":[\"type\",\"title\",\"status\",\"detail\",\"code\"],"
	   "\"properties\":{\"type\":" STRING ",\"title\":" STRING ",\"status\":" INTEGER
	   ",\"detail\":" STRING ",\"code\":" STRING ",\"hint\":" STRING "}}")
S(Sandbox,
  "{\"type\":\"object\",\"required\":[\"id\",\"owner\",\"kind\",\"name\",\"state\","
  "\"busy\",\"age_s\",\"network\"],\"properties\":{\"id\":" STRING ",\"owner\":" STRING
  ",\"kind\":{\"enum\":[\"session\",\"stored\"]},\"name\":" STRING
  ",\"state\":{\"enum\":[\"active\",\"stored\"]},\"busy\":" BOOLEAN ",\"age_s\":" INTEGER
  ",\"idle_s\":" INTEGER ",\"network\":{\"enum\":[\"none\",\"packages\",\"allowlist\",\"open\"]}"
  ",\"domains\":{\"type\":\"array\",\"items\":" STRING "}}}")
S(Sandboxes, LIST("sandboxes", "Sandbox"))
S(Package,
  "{\"type\":\"object\",\"required\":[\"name\",\"version\",\"from_image\"],\"properties\":{"
  "\"name\":" STRING ",\"version\":" STRING ",\"from_image\":" BOOLEAN "}}")
S(Packages, LIST("packages", "Package"))
S(PackageStatus,
  "{\"type\":\"object\",\"required\":[\"packages\",\"status\",\"message\",\"complete\"],"
  "\"properties\":{\"packages\":" STRING ",\"status\":{\"enum\":[\"installing\",\"success\","
  "\"failed\",\"not_found\",\"error\"]},\"message\":" STRING ",\"stderr\":" STRING
  ",\"complete\":" BOOLEAN ",\"installed\":{\"type\":\"array\",\"items\":" STRING
  "},\"started_at\":" TIME ",\"ended_at\":" TIME ",\"elapsed_ms\":" INTEGER "}}")
S(Run, "{\"type\":\"object\",\"required\":[\"id\",\"sandbox\",\"status\"],\"properties\":{"
       "\"id\":" STRING ",\"sandbox\":" STRING
       ",\"status\":{\"enum\":[\"running\",\"done\",\"failed\"]},\"reason\":" STRING
       ",\"exit_code\":" INTEGER ",\"stdout\":" STRING ",\"stderr\":" STRING ",\"value\":" STRING
       ",\"stdout_truncated\":" BOOLEAN ",\"stderr_truncated\":" BOOLEAN ",\"duration_ms\":" INTEGER
       ",\"cpu_ms\":" INTEGER ",\"peak_bytes\":" INTEGER ",\"error\":" STRING ",\"message\":" STRING
       ",\"artifacts\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":["
       "\"name\",\"size\"]}}}}")
S(RunRow, "{\"type\":\"object\",\"required\":[\"id\",\"owner\",\"sandbox\",\"kind\",\"reason\","
	  "\"exit_code\",\"started_at\",\"duration_ms\",\"cpu_us\",\"peak_bytes\","
	  "\"output_bytes\"]}")
S(RunRows, LIST("runs", "RunRow"))
S(File, "{\"type\":\"object\",\"required\":[\"path\",\"size\"],\"properties\":{\"path\":" STRING
	",\"size\":" INTEGER "}}")
S(Written, LIST("files", "File"))
S(Entry, "{\"type\":\"object\",\"required\":[\"name\",\"type\",\"size\",\"modified_at\"],"
	 "\"properties\":{\"name\":" STRING ",\"type\":{\"enum\":[\"file\",\"folder\",\"link\","
	 "\"other\"]},\"size\":" INTEGER ",\"modified_at\":" TIME "}}")
S(Files, LIST("files", "Entry"))
S(Me, "{\"type\":\"object\",\"required\":[\"id\",\"name\",\"how\",\"admin\",\"read_only\"],"
      "\"properties\":{\"id\":" STRING ",\"name\":" STRING ",\"how\":{\"enum\":[\"open\","
      "\"server_key\",\"key\",\"token\"]},\"admin\":" BOOLEAN ",\"read_only\":" BOOLEAN "}}")
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
	    "\"result\",\"detail\",\"peer\"]}")
S(AuditRows, LIST("rows", "AuditRow"))
S(Stats, "{\"type\":\"object\",\"required\":[\"sandboxes\",\"runs\",\"http_answers\","
	 "\"output_bytes\"],\"properties\":{\"sandboxes\":" INTEGER ",\"http_answers\":" INTEGER
	 ",\"output_bytes\":" INTEGER "}}")
#undef INVITATION_MEMBERS
#undef KEY_MEMBERS
#undef LIST
#undef TIME
#undef BOOLEAN
#undef INTEGER
#undef STRING
