# SPDX-License-Identifier: Apache-2.0
"""push.py CERTIFICATES LAYOUT URL NAME: puts the images of an OCI layout into a registry, the one with a name as "latest"."""
import json
import os
import ssl
import sys
import urllib.request

CERTIFICATES, LAYOUT, URL, NAME = sys.argv[1:]
TRUST = ssl.create_default_context(cafile=CERTIFICATES)
BLOBS = os.path.join(LAYOUT, 'blobs', 'sha256')


def ask(method, url, body, kind='application/octet-stream'):
    return urllib.request.urlopen(urllib.request.Request(url, data=body, method=method, headers={'Content-Type': kind}), context=TRUST)


def blob(digest):
    with open(os.path.join(BLOBS, digest), 'rb') as f:
        return f.read()


for digest in os.listdir(BLOBS):
    place = ask('POST', f'{URL}/v2/{NAME}/blobs/uploads/', b'').headers['Location']
    ask('PUT', f'{place}{"&" if "?" in place else "?"}digest=sha256:{digest}', blob(digest))
with open(os.path.join(LAYOUT, 'index.json'), encoding='utf-8') as index:
    for manifest in json.load(index)['manifests']:
        if manifest['mediaType'].endswith('.index.v1+json'):
            for machine in json.loads(blob(manifest['digest'][7:]))['manifests']:
                ask('PUT', f'{URL}/v2/{NAME}/manifests/{machine["digest"]}', blob(machine['digest'][7:]), machine['mediaType'])
        tag = manifest['annotations']['org.opencontainers.image.ref.name']
        ask('PUT', f'{URL}/v2/{NAME}/manifests/{"latest" if ":" in tag else tag}', blob(manifest['digest'][7:]), manifest['mediaType'])
