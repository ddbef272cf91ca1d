# SPDX-License-Identifier: Apache-2.0
"""What the bridge has to know of a message. Its bytes go through unchanged."""
import base64
import json
import re

META_VERSION = 'io.modelcontextprotocol/protocolVersion'
NAMES = {'tools/call': 'name', 'prompts/get': 'name', 'resources/read': 'uri'}
PLAIN = re.compile(r'[!-~]([ -~]*[!-~])?')


class Number(str):
    """A number as it was written: 1.0 and 2^64 are ids, too."""


DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=Number)


def read(line):
    """The objects of a message: one, or those of a batch. None of what is no message."""
    try:
        value = DECODER.decode(line.decode())
    except (ValueError, RecursionError):
        return []
    return [m for m in (value if isinstance(value, list) else [value]) if isinstance(m, dict)]


def written(value):
    """An id in JSON; also what tells ids apart: 1 is not "1"."""
    return str(value) if isinstance(value, Number) else json.dumps(value)


def is_request(m):
    return isinstance(m.get('method'), str) and 'id' in m


def is_answer(m):
    return 'id' in m and ('result' in m or 'error' in m)


def params_of(m):
    params = m.get('params')
    return params if isinstance(params, dict) else {}


def revision_of(m):
    """The revision that a message of the modern era carries in itself, else ''."""
    meta = params_of(m).get('_meta')
    revision = meta.get(META_VERSION) if isinstance(meta, dict) else None
    return revision if isinstance(revision, str) and not isinstance(revision, Number) else ''


def header_value(text):
    if PLAIN.fullmatch(text) and not (text.startswith('=?base64?') and text.endswith('?=')):
        return text
    return f'=?base64?{base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()}?='


def modern_headers(m, revision):
    """What a message of the modern era repeats in headers."""
    headers = {'MCP-Protocol-Version': header_value(revision), 'Mcp-Method': header_value(m['method'])}
    name = params_of(m).get(NAMES.get(m['method'], ''))
    if isinstance(name, str):
        headers['Mcp-Name'] = header_value(name)
    return headers


def one_line(data):
    """A message as a line of stdio: its line ends can only stand between words."""
    return data.replace(b'\r', b' ').replace(b'\n', b' ')


def failure(request_id, text, status=None):
    data = f',"data":{{"status":{status}}}' if status else ''
    return f'{{"jsonrpc":"2.0","id":{request_id},"error":{{"code":-32000,"message":{json.dumps(text)}{data}}}}}'.encode()
