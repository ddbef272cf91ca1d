/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to addresses and names under rules for blocks. The canary listens at port {P} of every address of 9.9.0.0/16
 * and 2620:fe::/32.
 *
 * T("name", SHAPE, "list", "answers", "host", HELLO, "reason")
 *   SHAPE    LISTED    the operator's list is LIST
 *            CHOSEN    LIST was chosen from a list of *.example.org and every address, at port {P}
 *            CHOSEN_OPEN  it was chosen from every public host
 *            GUARDED   *.example.org, 9.0.0.0/8 and every IPv6 address at port {P}, but what LIST denies
 *            GUARDED_OPEN  every public host but those
 *            TRUSTED   good.example.org:{P} wherever it leads, but those
 *   answers  of the resolver, separated by blanks
 *   host     without a port: at port {P}
 *   HELLO    NOTHING: a plain request; else the greeting behind CONNECT
 *   reason   "ok": the canary has answered */

/* The operator's list: a block allows addresses, and no name that leads there. */
T("address", LISTED, "9.9.9.0/24:{P}", "", "9.9.9.9", NOTHING, "ok")
T("another one", LISTED, "9.9.9.0/24:{P}", "", "9.9.8.255", NOTHING, "address_not_allowed")
T("its port", LISTED, "9.9.9.0/24", "", "9.9.9.9", NOTHING, "port_not_allowed")
T("a name for it", LISTED, "9.9.9.0/24:{P}", "9.9.9.9", "good.example.org", NOTHING, "host_not_allowed")
T("IPv6", LISTED, "[2620:fe::/32]:{P}", "", "[2620:fe:0::9]", NOTHING, "ok")
T("IPv6, another one", LISTED, "[2620:fe::/32]:{P}", "", "[2620:ff::9]", NOTHING, "address_not_allowed")
T("mapped", LISTED, "0.0.0.0/0:{P} [::/0]:{P}", "", "[::ffff:9.9.9.9]", NOTHING, "address_refused")
T("mapped, in hexadecimal", LISTED, "0.0.0.0/0:{P} [::/0]:{P}", "", "[::ffff:909:909]", NOTHING, "address_refused")
T("NAT64", LISTED, "0.0.0.0/0:{P} [::/0]:{P}", "", "[64:ff9b::909:909]", NOTHING, "address_refused")
T("loopback", LISTED, "0.0.0.0/0:{P}", "", "127.0.0.1", NOTHING, "address_refused")
T("loopback, IPv6", LISTED, "[::/0]:{P}", "", "[::1]", NOTHING, "address_refused")
T("metadata", LISTED, "0.0.0.0/0:{P}", "", "169.254.169.254", NOTHING, "address_refused")
T("private", LISTED, "0.0.0.0/0:{P}", "", "10.0.0.1", NOTHING, "address_refused")
T("octal", LISTED, "0.0.0.0/0:{P}", "", "011.9.9.9", NOTHING, "bad_host")
T("decimal", LISTED, "0.0.0.0/0:{P}", "", "151587081", NOTHING, "bad_host")
T("zone", LISTED, "[::/0]:{P}", "", "[2620:fe::9%25lo]", NOTHING, "bad_host")
T("short", LISTED, "0.0.0.0/0:{P}", "", "9.9.2313", NOTHING, "bad_host")

/* A tunnel to an address. */
T("TLS without a name", LISTED, "9.9.9.9:{P}", "", "9.9.9.9", UNNAMED, "ok")
T("TLS without extensions", LISTED, "9.9.9.9:{P}", "", "9.9.9.9", BARE, "ok")
T("TLS for a name that is not allowed", LISTED, "9.9.9.9:{P}", "", "9.9.9.9", GOOD, "server_name_mismatch")
T("TLS for a name that is", LISTED, "9.9.9.9:{P} *.example.org:{P}", "", "9.9.9.9", GOOD, "ok")
T("TLS for another", LISTED, "9.9.9.9:{P} *.example.org:{P}", "", "9.9.9.9", EVIL, "server_name_mismatch")
T("TLS for an address", LISTED, "9.9.9.9:{P}", "", "9.9.9.9", ADDRESS_NAME, "server_name_mismatch")
T("TLS for a hidden name", LISTED, "9.9.9.9:{P} *.example.org:{P}", "", "9.9.9.9", ECH, "hidden_server_name")
T("two names", LISTED, "9.9.9.9:{P} *.example.org:{P}", "", "9.9.9.9", TWO_NAMES, "server_name_mismatch")
T("no TLS", LISTED, "9.9.9.9:{P}", "", "9.9.9.9", SSH, "not_tls")
T("no TLS, HTTP", LISTED, "9.9.9.9:{P}", "", "9.9.9.9", HTTP, "not_tls")
T("TLS in pieces", LISTED, "9.9.9.9:{P}", "", "9.9.9.9", FRAGMENTED, "tls_fragmented")
T("a name needs its own", LISTED, "9.9.9.9:{P} *.example.org:{P}", "9.9.9.9", "good.example.org", UNNAMED, "no_server_name")

/* A chosen list. A name is allowed by a name alone: one that is asked for tells others of the question, wherever it leads. */
T("chosen address", CHOSEN, "9.9.9.9:{P}", "", "9.9.9.9", UNNAMED, "ok")
T("chosen, another one", CHOSEN, "9.9.9.9:{P}", "", "9.9.9.8", NOTHING, "address_not_allowed")
T("a name that leads there", CHOSEN, "9.9.9.9:{P}", "9.9.9.9", "good.example.org", NOTHING, "host_not_allowed")
T("beside another name", CHOSEN, "other.example.org:{P} 9.9.9.9:{P}", "9.9.9.9", "good.example.org", NOTHING, "host_not_allowed")
T("a listed name wins", CHOSEN, "9.9.9.9:{P} good.example.org:{P}", "9.9.7.7", "good.example.org", GOOD, "ok")
T("with another greeting", CHOSEN, "9.9.9.9:{P} good.example.org:{P}", "9.9.9.9", "good.example.org", EVIL, "server_name_mismatch")
T("a private one spoils all", CHOSEN, "9.9.9.9:{P} good.example.org:{P}", "9.9.9.9 10.0.0.1", "good.example.org", NOTHING, "address_refused")
T("a mapped one, too", CHOSEN, "9.9.9.9:{P} good.example.org:{P}", "::ffff:9.9.9.9", "good.example.org", NOTHING, "address_refused")
T("open, a name that leads there", CHOSEN_OPEN, "9.9.9.9:443", "9.9.9.9", "any.example.net", NOTHING, "host_not_allowed")

/* What is denied of the operator's policy, and exceptions. */
T("denied address", GUARDED, "!9.9.9.0/24", "", "9.9.9.9", NOTHING, "address_not_allowed")
T("not denied", GUARDED, "!9.9.9.0/24", "", "9.9.8.8", NOTHING, "ok")
T("excepted", GUARDED, "!9.9.9.0/24 9.9.9.9", "", "9.9.9.9", NOTHING, "ok")
T("excepted first", GUARDED, "9.9.9.9 !9.9.9.0/24", "", "9.9.9.9", NOTHING, "ok")
T("an exception widens nothing", GUARDED, "!9.9.9.0/24 1.1.1.1 10.0.0.1", "", "1.1.1.1", NOTHING, "address_not_allowed")
T("nor to private ones", GUARDED, "10.0.0.1", "10.0.0.1", "good.example.org", NOTHING, "address_refused")
T("denied for a name", GUARDED, "!9.9.9.0/24", "9.9.9.9", "good.example.org", NOTHING, "address_not_allowed")
T("denied for all its addresses", GUARDED, "!9.9.9.0/24", "9.9.9.1 9.9.9.2 9.9.9.3 9.9.9.4 9.9.9.5", "good.example.org", GOOD, "address_not_allowed")
T("its other address is used", GUARDED, "!9.9.9.0/24", "9.9.9.1 9.9.9.2 9.9.9.3 9.9.9.4 9.9.8.5", "good.example.org", GOOD, "ok")
T("denied IPv6", GUARDED, "!2620:fe::/48", "2620:fe::1", "good.example.org", NOTHING, "address_not_allowed")
T("not its neighbour", GUARDED, "!2620:fe::/48", "2620:fe:1::1", "good.example.org", NOTHING, "ok")
T("open, denied", GUARDED_OPEN, "!9.9.9.9", "", "9.9.9.9:443", NOTHING, "address_not_allowed")
T("open, not denied", GUARDED_OPEN, "!9.9.9.9", "", "9.9.9.8:443", NOTHING, "connect_failed")
T("open, another port", GUARDED_OPEN, "!9.9.9.9", "", "9.9.9.8", NOTHING, "port_not_allowed")
T("open, private", GUARDED_OPEN, "!9.9.9.9 10.0.0.1", "", "10.0.0.1:443", NOTHING, "address_refused")
T("trusted, and denied", TRUSTED, "!127.0.0.0/8", "127.0.0.1", "good.example.org", NOTHING, "address_not_allowed")
T("trusted, and excepted", TRUSTED, "!127.0.0.0/8 127.0.0.1", "127.0.0.1", "good.example.org", NOTHING, "ok")
