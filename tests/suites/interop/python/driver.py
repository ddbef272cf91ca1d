# SPDX-License-Identifier: Apache-2.0
"""Drives the official Python client, of either generation, for the tests of this folder.

Its argument is a JSON object: transport (stdio, http, sse), era (legacy, auto, or a revision), command and
env for stdio, url and headers for the others. Once connected it prints {"ready": REVISION, "tools": [NAME…]},
then for every line {"name", "arguments"} on standard input the result of that call as one line. End of input
closes the connection.
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack, asynccontextmanager

import mcp
from mcp import StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client

CALL_TIMEOUT_S = 90


def say(value):
    print(json.dumps(value), flush=True)


def stdio(how):
    command, *args = how["command"]
    return stdio_client(StdioServerParameters(command=command, args=args, env=how["env"]))


def transport_v1(how):
    from mcp.client.streamable_http import streamablehttp_client

    if how["transport"] == "stdio":
        return stdio(how)
    if how["transport"] == "sse":
        return sse_client(how["url"], headers=how["headers"])
    return streamablehttp_client(how["url"], headers=how["headers"])


@asynccontextmanager
async def connect_v1(how):
    from datetime import timedelta

    async with AsyncExitStack() as stack:
        streams = await stack.enter_async_context(transport_v1(how))
        timeout = timedelta(seconds=CALL_TIMEOUT_S)
        session = await stack.enter_async_context(mcp.ClientSession(streams[0], streams[1], read_timeout_seconds=timeout))
        hello = await session.initialize()
        yield session, hello.protocolVersion


@asynccontextmanager
async def connect_v2(how):
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async with AsyncExitStack() as stack:
        if how["transport"] == "stdio":
            transport = stdio(how)
        elif how["transport"] == "sse":
            transport = sse_client(how["url"], headers=how["headers"])
        else:
            http = await stack.enter_async_context(create_mcp_http_client(headers=how["headers"]))
            transport = streamable_http_client(how["url"], http_client=http)
        client = Client(transport, mode=how["era"], read_timeout_seconds=CALL_TIMEOUT_S)
        yield await stack.enter_async_context(client), client.protocol_version


async def main():
    how = json.loads(sys.argv[1])
    connect = connect_v2 if hasattr(mcp, "Client") else connect_v1
    async with connect(how) as (session, revision):
        listed = await session.list_tools()
        say({"ready": revision, "tools": [tool.name for tool in listed.tools]})
        while line := await asyncio.to_thread(sys.stdin.readline):
            request = json.loads(line)
            result = await session.call_tool(request["name"], request["arguments"])
            say(result.model_dump(mode="json", by_alias=True, exclude_none=True))


asyncio.run(main())
