# SPDX-License-Identifier: Apache-2.0
"""The quick way of resolve.py, in the same sandbox: the simple index (PEP 503, 691, 658) over kept connections.

quick_plan() takes the newest version that fits of each package. Where that is not the whole answer, it gives up: two requirements
that contradict each other, a package that is not on the index or has no wheel here, an answer of an unknown form. What this script
says is only a proposal: the front checks every name, address and digest.
"""
import base64
import hashlib
import http.client
import json
import os
import re
import ssl
import sys
import threading
import urllib.parse

PAGE_MAX = 64 << 20
METADATA_MAX = 4 << 20
EARLY_MAX = 4 << 20  # a wheel up to this size is fetched as soon as it is chosen; its metadata comes with it
UNIVERSAL = 1 << 20  # the rank of a wheel for every Python 3: behind all that are made for this one
ROUNDS_MAX = 200
THREADS = 8
WAIT_S = 15
VERSIONS_SHOWN = 8  # of a package of which no version fits
UNREACHED = 'The package index cannot be reached.'
ACCEPT = 'application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1'


class GiveUp(Exception):
    """ARGS[0], where it is there, is a line for people."""


class TooLarge(Exception):
    """ARGS[0] says which limit, and how large the wheels are. pip would download them all the same, until the disk is full."""


class Missing(GiveUp):
    """The index knows nothing under that address."""


def no_version(name, specifier, versions):
    """What to say if the index has NAME, but none of its VERSIONS (newest first) is what SPECIFIER asks for."""
    shown = ', '.join(str(v) for v in versions[:VERSIONS_SHOWN])
    more = len(versions) - VERSIONS_SHOWN
    return ('The package index has no version of %s that is %s. It has %s%s.'
            % (name, specifier, shown, ' and %d older ones' % more if more > 0 else ''))


def option(name):
    where = JOB['where']
    return where[where.index(name) + 1] if name in where else None


def indexes():
    return [url for url in (option('--index-url'), option('--extra-index-url')) if url]


def is_quick():
    return bool(indexes()) and not JOB['sources'] and not any('@' in url.split('/')[2] for url in indexes())


def mib(size):
    return '%d MiB' % -(-size >> 20)


def check_sizes(rows):
    """ROWS: (name, version, row of the index) of each wheel. Not every index tells sizes; what is unpacked is never smaller than its wheel by much."""
    sizes = sorted(((row.get('size') or 0, '%s %s' % (name, version)) for name, version, row in rows), reverse=True)
    total = sum(size for size, _ in sizes)
    largest = ', '.join('%s %s' % (name, mib(size)) for size, name in sizes[:4] if size)
    more = ' The largest are %s.' % largest if len(sizes) > 1 else ''
    if total > JOB['max_bytes']:
        raise TooLarge('the wheels have %s, and one installation may have %s (SANDBOX_INSTALL_MAX_BYTES).%s Nothing was downloaded.'
                       % (mib(total), mib(JOB['max_bytes']), more))
    if 0 < JOB['disk_bytes'] < total:
        raise TooLarge('the wheels have %s, and the disk of this sandbox %s (SANDBOX_WORKSPACE_LIMIT; disk_mb when it is created).%s Nothing was downloaded.'
                       % (mib(total), mib(JOB['disk_bytes']), more))


# ---- connections ----

class Pool:
    """Connections through the proxy, kept by host; each is used by one thread at a time."""

    def __init__(self):
        self.lock = threading.Lock()
        self.idle = {}
        self.context = None
        proxy = urllib.parse.urlsplit(option('--proxy'))
        self.proxy = (proxy.hostname, proxy.port)

    def tls(self):
        with self.lock:
            if self.context is None:
                self.context = ssl.create_default_context(cafile=option('--cert'))
            return self.context

    def connect(self, parts):
        if parts.scheme == 'https':
            c = http.client.HTTPSConnection(*self.proxy, timeout=WAIT_S, context=self.tls())
            c.set_tunnel(parts.hostname, parts.port or 443)
            return c
        return http.client.HTTPConnection(*self.proxy, timeout=WAIT_S)

    def get(self, url, most, accept='*/*', out=None):
        """The body of an answer with status 200, of at most MOST bytes; into the file OUT, if there is one."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ('http', 'https') or not parts.hostname:
            raise GiveUp
        who, _, host = parts.netloc.rpartition('@')
        key = (parts.scheme, host)
        target = parts.path + ('?' + parts.query if parts.query else '')
        if parts.scheme == 'http':
            target = 'http://' + host + target
        headers = {'Host': host, 'Accept': accept, 'User-Agent': 'caisson', 'Accept-Encoding': 'identity'}
        if who:
            headers['Authorization'] = 'Basic ' + base64.b64encode(urllib.parse.unquote_to_bytes(who)).decode('ascii')
        with self.lock:
            kept = self.idle.get(key)
            c = kept.pop() if kept else None
        c = c or self.connect(parts)
        c.request('GET', target, headers=headers)
        answer = c.getresponse()
        if answer.status != 200:
            raise Missing if answer.status == 404 else GiveUp(UNREACHED) if answer.status in (502, 503, 504) else GiveUp
        body, size = [], 0
        while True:
            piece = answer.read(1 << 20)
            if not piece:
                break
            size += len(piece)
            if size > most:
                raise GiveUp
            if out:
                out.write(piece)
            else:
                body.append(piece)
        if not answer.will_close:
            with self.lock:
                self.idle.setdefault(key, []).append(c)
        return b''.join(body), answer.headers.get_content_type()


def in_parallel(work, rows):
    """[work(row)...]; the first failure is the failure of all."""
    if len(rows) < 2:
        return [work(row) for row in rows]
    results, failed, todo = [None] * len(rows), [], list(enumerate(rows))

    def worker():
        while not failed:
            try:
                n, row = todo.pop()
            except IndexError:
                return
            try:
                results[n] = work(row)
            except Exception as e:  # it is raised again below, in the main thread
                failed.append(e)
    threads = [threading.Thread(target=worker) for _ in range(min(THREADS, len(rows)))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]
    return results


# ---- pages ----

def rows_of_html(text):
    from html.parser import HTMLParser
    rows = []

    class Page(HTMLParser):
        def handle_starttag(self, tag, attributes):
            a = dict(attributes)
            if tag == 'base':
                raise GiveUp
            if tag == 'a' and a.get('href'):
                url, _, fragment = a['href'].partition('#')
                rows.append({'url': url, 'filename': urllib.parse.unquote(url.split('?')[0].rsplit('/', 1)[-1]),
                             'hashes': dict([fragment.split('=', 1)]) if '=' in fragment else {},
                             'requires-python': a.get('data-requires-python'), 'yanked': 'data-yanked' in a,
                             'core-metadata': 'data-core-metadata' in a or 'data-dist-info-metadata' in a})
    Page().feed(text)
    return rows


def files_of(pool, name):
    """The rows of every index that knows NAME."""
    found = None
    for index in indexes():
        try:
            found = (found or []) + files_at(pool, index, name)
        except Missing:
            pass
    if found is None:
        raise Missing
    return found


def files_at(pool, index, name):
    url = index.rstrip('/') + '/' + name + '/'
    body, kind = pool.get(url, PAGE_MAX, ACCEPT)
    if kind.endswith('+json'):
        rows = json.loads(body)['files']
    elif kind.endswith('html'):
        rows = rows_of_html(body.decode('utf-8'))
    else:
        raise GiveUp
    for row in rows:
        row['url'] = urllib.parse.urljoin(url, row['url'])
    return rows


def plain(name):
    return re.sub('[-_.]+', '-', name).lower()


class Ahead:
    """Asks for the pages of the requested packages, in threads, while the modules that read them are loaded."""

    def __init__(self, pool, have):
        self.pool, self.pages = pool, {}
        for text in JOB['specs'][:THREADS]:
            m = re.match(r'[A-Za-z0-9][A-Za-z0-9._-]*', text)
            name = plain(m.group()) if m else None
            if name and name not in have and name not in self.pages:
                self.pages[name] = page = {}
                page['thread'] = threading.Thread(target=self.ask, args=(name, page), daemon=True)
                page['thread'].start()

    def ask(self, name, page):
        try:
            page['rows'] = files_of(self.pool, name)
        except Exception as e:  # it is raised again in files()
            page['failed'] = e

    def files(self, name):
        page = self.pages.pop(name, None)
        if page is None:
            return files_of(self.pool, name)
        page['thread'].join()
        if 'failed' in page:
            raise page['failed']
        return page['rows']


# ---- the choice ----

class Chooser:
    def __init__(self):
        self.pool = Pool()
        self.have = self.installed()
        self.ahead = Ahead(self.pool, self.have)
        from pip._vendor.packaging import requirements, specifiers, tags, utils, version
        self.requirements, self.specifiers, self.tags, self.utils, self.version = requirements, specifiers, tags, utils, version
        self.all_ranks = None
        self.lock = threading.Lock()
        self.python = '%d.%d.%d' % sys.version_info[:3]
        self.chosen = {}
        self.files = {}
        self.rows = {}

    def installed(self):
        found = {}
        for folder in reversed(sys.path):
            try:
                entries = os.listdir(folder or '.')
            except OSError:
                continue
            for entry in entries:
                if entry.endswith(('.dist-info', '.egg-info')):
                    parts = entry.rsplit('.', 1)[0].split('-')
                    found[plain(parts[0])] = parts[1] if len(parts) > 1 else None
        for name, version in JOB['have']:
            found[plain(name)] = version
        return found

    def ranks(self):
        """{tag: its place}. There are more than a thousand, and most packages need none of them."""
        with self.lock:
            if self.all_ranks is None:
                self.all_ranks = {tag: n for n, tag in enumerate(self.tags.sys_tags())}
            return self.all_ranks

    def fits(self, row):
        """The rank of a wheel here, lower is better; None if it does not fit."""
        needs = row.get('requires-python')
        if needs and not self.specifiers.SpecifierSet(needs).contains(self.python):
            return None
        _, _, build, tags = self.utils.parse_wheel_filename(row['filename'])
        if all(t.platform == 'any' for t in tags) and any(str(t) == 'py3-none-any' for t in tags):
            ranks = [UNIVERSAL]
        else:
            ranks = [self.ranks()[t] for t in tags if t in self.ranks()]
        return (min(ranks), [-b if isinstance(b, int) else 0 for b in build[:1]]) if ranks else None

    def choose(self, name, specifier):
        return self.pick(name, self.ahead.files(name), specifier)

    def pick(self, name, files, specifier):
        """(version, its row among FILES): the newest that SPECIFIER allows and that has a wheel that fits here."""
        versions = {}
        for row in files:
            parts = row['filename'].split('-')
            if row['filename'].endswith('.whl') and len(parts) >= 5 and not row.get('yanked'):
                versions.setdefault(parts[1], []).append(row)
        known = {}
        for text in versions:
            try:
                known[self.version.Version(text)] = text
            except self.version.InvalidVersion:
                pass
        for version in sorted(specifier.filter(known), reverse=True):
            ranked = sorted(((rank, row['filename'], row) for row in versions[known[version]]
                             for rank in [self.fits(row)] if rank is not None), key=lambda r: r[:2])
            if ranked:
                return version, ranked[0][2]
        archives = self.archives(files)
        if (known or archives) and not any(specifier.filter(known)) and not any(specifier.filter(archives)):
            raise GiveUp(no_version(name, specifier, sorted({*known, *archives}, reverse=True)))
        if archives:
            raise GiveUp('%s%s has no wheel for Python %d.%d on the package index, only source archives or wheels for others. Building '
                         'from source is off; the operator of this server can turn it on with SANDBOX_PIP_SOURCE_BUILDS=on.'
                         % (name, specifier, *sys.version_info[:2]))
        raise GiveUp

    def archives(self, files):
        """The versions of which there are source archives."""
        found = set()
        for row in files:
            if row['filename'].endswith(('.tar.gz', '.zip')) and not row.get('yanked'):
                try:
                    found.add(self.utils.parse_sdist_filename(row['filename'])[1])
                except (self.utils.InvalidSdistFilename, self.version.InvalidVersion):
                    pass
        return found

    def fetch(self, row):
        path = 'wheels/' + row['filename']
        if '/' in row['filename'] or row['filename'].startswith('.'):
            raise GiveUp
        with open(path, 'wb') as f:
            self.pool.get(row['url'], JOB['max_bytes'], out=f)
        with open(path, 'rb') as f:
            if hashlib.file_digest(f, 'sha256').hexdigest() != row['hashes']['sha256']:
                raise GiveUp
        return path

    def metadata(self, row):
        if (row.get('size') or 0) <= EARLY_MAX or not (row.get('core-metadata') or row.get('dist-info-metadata')):
            import zipfile
            with zipfile.ZipFile(self.fetch(row)) as z:
                info = [n for n in z.namelist() if re.fullmatch(r'[^/]+\.dist-info/METADATA', n)]
                if len(info) != 1 or z.getinfo(info[0]).file_size > METADATA_MAX:
                    raise GiveUp
                return z.read(info[0])
        return self.pool.get(row['url'] + '.metadata', METADATA_MAX)[0]

    def take(self, need):
        """Chooses the version of one package; returns (name, version, its requirements)."""
        name, specifier = need
        version, row = self.choose(name, specifier)
        if not re.fullmatch('[0-9a-f]{64}', (row.get('hashes') or {}).get('sha256', '')):
            raise GiveUp
        if (row.get('size') or 0) > EARLY_MAX:
            check_sizes([(name, version, row)])
        requires, said = [], {}
        for line in self.metadata(row).decode('utf-8').replace('\r\n', '\n').split('\n\n', 1)[0].split('\n'):
            key, _, value = line.partition(':')
            if key.lower() == 'requires-dist':
                requires.append(value.strip())
            elif key.lower() in ('name', 'version'):
                said[key.lower()] = value.strip()
        if plain(said['name']) != name or self.version.Version(said['version']) != version:
            raise GiveUp
        self.files[name] = row
        self.rows[name] = {'name': said['name'], 'version': said['version'], 'url': row['url'], 'sha256': row['hashes']['sha256']}
        return name, version, [self.requirements.Requirement(text) for text in requires]

    def is_new(self, need):
        """Does NEED ask for a package that is neither here nor chosen? Everything that contradicts gives up."""
        name = plain(need.name)
        if need.url:
            raise GiveUp
        version = self.chosen[name][0] if name in self.chosen else self.have.get(name, '')
        if version is None or (version != '' and name not in self.chosen and need.extras):
            raise GiveUp
        if version == '':
            return True
        fits = need.specifier.contains(version, prereleases=True)
        if not fits and name in self.chosen:
            raise GiveUp
        return not fits

    def solve(self):
        todo = [r for r in (self.requirements.Requirement(t) for t in JOB['specs']) if not r.marker or r.marker.evaluate({'extra': ''})]
        requested = {plain(r.name) for r in todo}
        for _ in range(ROUNDS_MAX):
            new = {}
            for need in todo:
                if self.is_new(need):
                    name = plain(need.name)
                    new[name] = new[name] & need.specifier if name in new else need.specifier
            for name, version, requires in in_parallel(self.take, sorted(new.items())):
                self.chosen[name] = (version, requires, set())
            todo = self.next_needs(todo)
            if not todo:
                check_sizes([(name, self.chosen[name][0], row) for name, row in self.files.items()])
                return [dict(row, requested=name in requested) for name, row in self.rows.items()]
        raise GiveUp

    def next_needs(self, needs):
        """What the chosen packages among those in NEEDS require, with the extras that NEEDS names and that were not looked at yet."""
        found = []
        for need in needs:
            name = plain(need.name)
            if name not in self.chosen:
                continue
            _, requires, done = self.chosen[name]
            for extra in sorted({'', *need.extras} - done):
                done.add(extra)
                found += [r for r in requires if (r.marker.evaluate({'extra': extra}) if r.marker else extra == '')]
        return found


# ---- what resolve.py calls ----

def quick_plan():
    """(rows of a plan, None), or (None, what to tell people if pip fails as well)."""
    if not is_quick():
        return None, None
    try:
        return Chooser().solve(), None
    except TooLarge:
        raise
    except GiveUp as e:
        return None, e.args[0] if e.args else None
    except OSError:
        return None, UNREACHED
    except Exception:  # pip decides about everything that is unexpected here, and its messages are the better ones
        return None, None


def quick_fetch():
    if not is_quick():
        return False
    rows = []
    for spec in JOB['specs']:
        m = re.fullmatch(r'\S+ @ (\S+)#sha256=([0-9a-f]{64})', spec)
        if not m:
            return False
        rows.append({'url': m.group(1), 'filename': urllib.parse.unquote(m.group(1).split('?')[0].rsplit('/', 1)[-1]),
                     'hashes': {'sha256': m.group(2)}})
    try:
        fetcher = Chooser.__new__(Chooser)
        fetcher.pool = Pool()
        in_parallel(fetcher.fetch, rows)
        return True
    except Exception:  # as above
        return False
