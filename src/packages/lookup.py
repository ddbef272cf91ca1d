# SPDX-License-Identifier: Apache-2.0
"""What the index has under one name, for a person who is about to install it. Runs in a resolver, behind quick.py.

Only the name that was asked for is looked up. A guess at similar names would show people exactly those that somebody has registered
to be mistaken for others.
"""
VERSIONS_MAX = 30
SUMMARY_MAX = 500


def versions_of(chooser, files):
    known = {}
    for row in files:
        name = row['filename']
        parts = name.split('-') if name.endswith('.whl') else re.sub(r'\.(tar\.gz|zip)$', '', name).rsplit('-', 1)
        try:
            if len(parts) > 1 and not row.get('yanked'):
                known[chooser.version.Version(parts[1])] = parts[1]
        except chooser.version.InvalidVersion:
            pass
    return [known[v] for v in sorted(known, reverse=True)]


def look_up():
    chooser = Chooser()
    name = plain(JOB['specs'][0])
    try:
        files = chooser.ahead.files(name)
    except Missing:
        return {'missing': True}
    versions = versions_of(chooser, files)
    found = {'name': JOB['specs'][0], 'versions': versions[:VERSIONS_MAX], 'total': len(versions), 'version': None, 'summary': '', 'why': ''}
    try:
        version, row = chooser.pick(name, files, chooser.specifiers.SpecifierSet())
    except GiveUp as e:
        if JOB['sources'] and versions:
            return dict(found, version=versions[0])
        found['why'] = e.args[0] if e.args else 'nothing under this name fits the Python of this sandbox'
        return found
    found['version'] = str(version)
    if isinstance(row.get('size'), int):
        found['size'] = row['size']
    try:
        head = chooser.metadata(row).decode('utf-8').replace('\r\n', '\n').split('\n\n', 1)[0]
    except Exception:  # the index need not give it apart from the wheel
        return found
    for line in head.split('\n'):
        key, _, value = line.partition(':')
        if key.lower() == 'name' and plain(value.strip()) == name:
            found['name'] = value.strip()
        elif key.lower() == 'summary':
            found['summary'] = value.strip()[:SUMMARY_MAX]
    return found


def main():
    os.makedirs('wheels', exist_ok=True)
    try:
        result = look_up()
    except OSError as e:
        result = {'error': 'no connection: %s' % e}
    except Exception:  # its text may hold the address, and that may hold a secret
        result = {'error': 'it does not answer as an index does'}
    answer(result)


main()
