# SPDX-License-Identifier: Apache-2.0
"""A resolver of names for the tests: all below E2B_DOMAIN lead to this machine, as the operator's wildcard entry would have it."""
import os
import socket

DOMAIN = os.environ.get('E2B_DOMAIN', '').partition(':')[0]
ask = socket.getaddrinfo


def getaddrinfo(host, *args, **more):
	name = host.decode() if isinstance(host, bytes) else host
	return ask('127.0.0.1' if DOMAIN and name and name.endswith('.' + DOMAIN) else host, *args, **more)


socket.getaddrinfo = getaddrinfo
