"""fetch.py PROJECT VERSION FILE: the source of a release from PyPI, or from the index that PIP_INDEX_URL names.

Not by `pip download`, which builds a project's metadata, for which uv needs a build system of its own.
"""

import hashlib
import os
import re
import sys
import urllib.parse
import urllib.request

project, version, file = sys.argv[1:]
index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
with urllib.request.urlopen(f"{index}/{project}/", timeout=180) as answer:
    page, base = answer.read().decode(), answer.geturl()
link = re.search(rf'href="([^"#]*/{project}-{re.escape(version)}\.tar\.gz)#sha256=(\w+)', page)
if link is None:
    raise SystemExit(f"{index} has no source of {project} {version}")
with urllib.request.urlopen(urllib.parse.urljoin(base, link[1]), timeout=180) as answer:
    source = answer.read()
if hashlib.sha256(source).hexdigest() != link[2]:
    raise SystemExit(f"{link[1]}: not what {index} says")
with open(file, "wb") as out:
    out.write(source)
