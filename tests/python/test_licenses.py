# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Licenses: of each file, and of what is installed."""

import hashlib
import json
import re
import sys
from importlib.metadata import distribution
from pathlib import Path

from processes import ran
from torpor import _engine

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = Path(_engine.__file__).parent
HZ = (100, 250, 300, 1000)
#: Files by authors who have read a kernel's file of the same kind.
MIRRORS = {
    "cpuidle": "haltpoll ladder menu menu-3.7 menu-3.8 menu-6.12 teo teo-6.6 teo-6.12 tide",
    "ioboost": "intel-pstate iowait",
}


def test_each_file_has_a_license_and_an_author():
    done = ran(sys.executable, "-m", "reuse", "--root", ROOT, "lint")
    assert done.returncode == 0, done.stdout + done.stderr


def test_mirrors_of_kernel_code_are_under_gpl_alone():
    for folder, mirrors in MIRRORS.items():
        for source in (ROOT / "governors" / folder).glob("*.c"):
            text = source.read_text(encoding="utf-8")
            is_mirror = source.stem in mirrors.split()
            spdx = "GPL-2.0-only" if is_mirror else "MIT OR GPL-2.0-only"
            assert text.startswith(f"// SPDX-License-Identifier: {spdx}\n"), source
            module = "GPL" if is_mirror else "Dual MIT/GPL"
            assert f'MODULE_LICENSE("{module}");' in text, source


def test_policies_are_files_and_no_part_of_extension():
    extension = Path(_engine.__file__).read_bytes()
    for folder in MIRRORS:
        sources = {path.name: path for path in (ROOT / "governors" / folder).glob("*.[ch]")}
        expected = set(sources)
        for source in sources.values():
            installed = (INSTALLED / "policies" / folder / source.name).read_bytes()
            assert installed == source.read_bytes()
            # Headers are Torpor's, and part of the interface that policies are built with.
            if source.suffix == ".h":
                continue
            # Kernels alone call a boost, each with an image of its own.
            if folder == "cpuidle":
                expected |= {f"{source.stem}-{hz}.so" for hz in HZ}
            # Texts that only this policy's image has: its messages, its parameters' descriptions.
            texts = re.findall(r'MODULE_PARM_DESC\(\w+,\s*"([^"]{12,})', installed.decode())
            texts += re.findall(r"^ \* DOC: (.{12,})$", installed.decode(), re.M)
            assert texts, source
            for text in texts:
                assert text.encode() not in extension, f"{source.name}: {text}"
        found = {path.name for path in (INSTALLED / "policies" / folder).iterdir()}
        assert found == expected


def test_images_of_kernels_are_files_with_their_license():
    folder = INSTALLED / "kernels"
    notice = (folder / "README.md").read_text(encoding="utf-8")
    text = re.search(r"`torpor-VERSION\.dist-info/(licenses/\S+)`", notice)[1]
    [license_file] = [path for path in distribution("torpor").files if str(path).endswith(text)]
    assert "GNU GENERAL PUBLIC LICENSE" in license_file.read_text(encoding="utf-8")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["license"] == "GPL-2.0-only"
    images = {image["file"]: image["sha256"] for image in manifest["images"]}
    installed = {path.name: path.read_bytes() for path in folder.glob("*.so")}
    assert {name: hashlib.sha256(image).hexdigest() for name, image in installed.items()} == images


def test_package_names_every_license_and_has_the_texts():
    metadata = distribution("torpor").metadata
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    expression = re.search(r'^license = "(.*)"$', project, re.M)[1]
    assert metadata["License-Expression"] == expression
    assert {"(MIT OR GPL-2.0-only)", "GPL-2.0-only", "Apache-2.0"} <= set(expression.split(" AND "))
    texts = {Path(name).name for name in metadata.get_all("License-File")}
    assert texts == {"GPL-2.0-only.txt", "MIT.txt", "LICENSE-THIRD-PARTY.txt"}


def test_listed_crates_match_the_lock_file():
    done = ran(sys.executable, ROOT / "scripts" / "third_party.py", "--check", cwd=ROOT)
    assert done.returncode == 0, done.stderr
