# SPDX-License-Identifier: Apache-2.0
"""Lists and removes packages of /app/.venv. venv.py is put in front of it."""


def of_image():
    found = {}
    for folder in ('/usr/lib/python3/dist-packages', '/usr/local/lib/%s/dist-packages' % PYTHON,
                   '/usr/lib/%s/site-packages' % PYTHON, '/usr/local/lib/%s/site-packages' % PYTHON):
        for key, row in installed(folder).items():
            found.setdefault(key, row)
    return found


def do_uninstall():
    have, image, removed = installed(SITE), of_image(), []
    for name in JOB['names']:
        if canonical(name) in have:
            continue
        if canonical(name) in image:
            raise Refused('%s is part of the image and stays' % name)
        raise Refused('%s is not installed' % name)
    for name in JOB['names']:
        row = have.get(canonical(name))
        if row and row[0] + '==' + row[1] not in removed:
            remove(row[2])
            removed.append('%s==%s' % row[:2])
    return {'removed': removed}


def do_list():
    def rows(found):
        return [row[:2] for _, row in sorted(found.items())][:ROWS_MAX]
    result = {'here': rows(installed(SITE))}
    if JOB['all']:
        result['image'] = rows(of_image())
    return result


main({'uninstall': do_uninstall, 'list': do_list}[JOB['do']])
