# SPDX-License-Identifier: Apache-2.0
"""SPDX 2.3, CycloneDX 1.6, and the texts of all licences. The same parts give the same bytes."""
import datetime
import hashlib
import json
import re
import uuid

TOOL = 'caisson-sbom'
LINKS = {'dynamic': 'DYNAMIC_LINK', 'static': 'STATIC_LINK', 'inside': 'CONTAINS'}


def stamp(epoch):
    return datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ')


def unique(document):
    """A UUID of the document's content."""
    return uuid.UUID(hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:32], version=5)


def text_of(document):
    return json.dumps(document, indent=1, ensure_ascii=False) + '\n'


def ordered(parts):
    return sorted(parts, key=lambda p: (p.purl, p.how))


def root_licence(whole):
    return whole['licence'] or 'NOASSERTION'


def spdx(whole, parts, direct, epoch):
    """WHOLE: name, version, purl, sha256 and licence of what the document is about. DIRECT: purls that it needs by itself."""
    def ref(purl):
        return 'SPDXRef-' + re.sub('[^A-Za-z0-9.]+', '-', purl.split('?')[0][4:]).strip('-') + '-' + hashlib.sha256(purl.encode()).hexdigest()[:8]

    def package(name, version, purl, declared, concluded, purpose):
        return {'SPDXID': ref(purl), 'name': name, 'versionInfo': version, 'downloadLocation': 'NOASSERTION', 'filesAnalyzed': False,
                'licenseConcluded': concluded, 'licenseDeclared': declared, 'copyrightText': 'NOASSERTION', 'primaryPackagePurpose': purpose,
                'externalRefs': [{'referenceCategory': 'PACKAGE-MANAGER', 'referenceType': 'purl', 'referenceLocator': purl}]}

    top = package(whole['name'], whole['version'], whole['purl'], root_licence(whole), root_licence(whole), whole['kind'])
    if whole['sha256']:
        top['checksums'] = [{'algorithm': 'SHA256', 'checksumValue': whole['sha256']}]
    packages, links, texts = [top], [], {}
    for p in ordered(parts):
        entry = package(p.name, p.version, p.purl, p.declared.expression if p.declared else 'NOASSERTION',
                        p.concluded.expression if p.concluded else 'NOASSERTION', 'LIBRARY')
        if p.sha512:
            entry['checksums'] = [{'algorithm': 'SHA512', 'checksumValue': p.sha512}]
        packages.append(entry)
        texts.update(p.declared.texts if p.declared else {})
        if p.how == 'loaded':
            links.append((ref(p.purl), 'OPTIONAL_DEPENDENCY_OF', top['SPDXID']))
        elif p.how != 'dynamic' or p.purl in direct:
            links.append((top['SPDXID'], LINKS[p.how], ref(p.purl)))
        links += [(ref(p.purl), 'DEPENDS_ON', ref(other)) for other in sorted(p.needs)]
    document = {
        'spdxVersion': 'SPDX-2.3', 'dataLicense': 'CC0-1.0', 'SPDXID': 'SPDXRef-DOCUMENT', 'name': f'{whole["name"]}-{whole["version"]}',
        'creationInfo': {'created': stamp(epoch), 'creators': [f'Tool: {TOOL}']}, 'packages': packages,
        'relationships': [{'spdxElementId': a, 'relationshipType': how, 'relatedSpdxElement': b}
                          for a, how, b in [('SPDXRef-DOCUMENT', 'DESCRIBES', top['SPDXID']), *links]],
    }
    if texts:
        document['hasExtractedLicensingInfos'] = [{'licenseId': i, 'name': i[len('LicenseRef-'):], 'extractedText': texts[i]} for i in sorted(texts)]
    document['documentNamespace'] = f'urn:uuid:{unique(document)}'
    return text_of(document)


def cyclonedx(whole, parts, direct, epoch):
    def licence(expression, how):
        if not expression:
            return []
        if re.search(r' (AND|OR|WITH) ', expression) or expression.startswith('LicenseRef-'):
            return [{'expression': expression, 'acknowledgement': how}]
        return [{'license': {'id': expression, 'acknowledgement': how}}]

    components, depends = [], {whole['purl']: set(direct)}
    for p in ordered(parts):
        c = {'type': 'library', 'bom-ref': p.purl, 'name': p.name, 'version': p.version, 'purl': p.purl}
        if p.purl.startswith('pkg:npm/%40'):
            c['group'], c['name'] = p.name.split('/')
        if p.how == 'loaded':
            c['scope'] = 'optional'
        if p.sha512:
            c['hashes'] = [{'alg': 'SHA-512', 'content': p.sha512}]
        # An expression stands alone: what was concluded comes before what the package declares.
        c['licenses'] = licence(p.concluded.expression, 'concluded') if p.concluded else licence(p.declared and p.declared.expression, 'declared')
        if not c['licenses']:
            del c['licenses']
        texts = p.declared.texts if p.declared and not p.concluded else {}
        c['properties'] = [{'name': 'caisson:linkage', 'value': p.how}] + [{'name': f'caisson:licence:{i}', 'value': texts[i]} for i in sorted(texts)]
        components.append(c)
        depends.setdefault(p.purl, set()).update(p.needs)
        if p.how in ('static', 'inside', 'loaded'):
            depends[whole['purl']].add(p.purl)
    top = {'type': 'container' if whole['kind'] == 'CONTAINER' else 'application', 'bom-ref': whole['purl'], 'name': whole['name'],
           'version': whole['version'], 'purl': whole['purl']}
    if whole['sha256']:
        top['hashes'] = [{'alg': 'SHA-256', 'content': whole['sha256']}]
    if whole['licence']:
        top['licenses'] = licence(whole['licence'], 'declared')
    document = {
        'bomFormat': 'CycloneDX', 'specVersion': '1.6', 'version': 1,
        'metadata': {'timestamp': stamp(epoch), 'tools': {'components': [{'type': 'application', 'name': TOOL}]}, 'component': top},
        'components': components, 'dependencies': [{'ref': r, 'dependsOn': sorted(depends[r])} for r in sorted(depends)],
    }
    document['serialNumber'] = f'urn:uuid:{unique(document)}'
    return text_of(document)


def notices(whole, parts, common):
    """The texts of the licences of all parts; each text once, under the names of all that have it. COMMON(name): a text that others refer to."""
    by_text = {}
    for p in ordered(parts):
        by_text.setdefault(p.text.strip(), []).append(f'{p.name} {p.version}')
    rule = '-' * 72
    pieces = [f'{whole["name"]} is under the Apache License, Version 2.0. It is linked with, loads and contains parts of the packages below,\n'
              'whose licences follow. A text that says /usr/share/common-licenses/NAME means the text of this name at the end.']
    referred = set()
    for text, names in sorted(by_text.items(), key=lambda pair: pair[1]):
        referred.update(n.rstrip('.') for n in re.findall(r'/usr/share/common-licenses/([A-Za-z0-9.-]+)', text))
        pieces.append('\n'.join(dict.fromkeys(names)) + '\n\n' + (text or '(its package has no text of a licence)'))
    for name in sorted(referred):
        text = common(name)
        if text:
            pieces.append(f'/usr/share/common-licenses/{name}\n\n{text.strip()}')
    return f'\n\n{rule}\n\n'.join(pieces) + '\n'
