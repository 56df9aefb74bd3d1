# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The source of a kernel is fetched by apt's tools, of which these are small ones."""

import io
import json
import os
import tarfile

import pytest

from torpor.machine import kernel_sources

PACKAGE = "linux-source-6.12"
TREE = {
    "Makefile": "VERSION = 6\nPATCHLEVEL = 12\n",
    "drivers/cpuidle/governors/menu.c": "int menu;\n",
    "drivers/net/big.c": "int net;\n",
    "mm/internal.h": "\n",
    "arch/arm64/boot/dts/a.dts": "/ {};\n",
}
APT = """#!/bin/sh
echo "$*" >>"$LOG"
case " $* " in
*" --print-uris "*) echo "'x' linux-source.deb 153000000 SHA256:0" ;;
*" download "*) : >linux-source.deb ;;
esac
"""
DPKG_DEB = """#!/bin/sh
case $1 in
-f) echo 6.12.9-1 ;;
*) cat "$DATA" ;;
esac
"""


def add(tar, name, text):
    entry = tarfile.TarInfo(name)
    entry.size = len(text)
    tar.addfile(entry, io.BytesIO(text))


def package() -> bytes:
    """Return the data of a package with a tree, in which a link leads out."""
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:xz") as tar:
        for name, text in TREE.items():
            add(tar, f"{PACKAGE}/{name}", text.encode())
        for name, target in (("lib/inside.h", "../mm/internal.h"), ("lib/out.h", "../../x")):
            link = tarfile.TarInfo(f"{PACKAGE}/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
    outer = io.BytesIO()
    with tarfile.open(fileobj=outer, mode="w") as tar:
        add(tar, f"./usr/src/{PACKAGE}.tar.xz", inner.getvalue())
    return outer.getvalue()


@pytest.fixture
def apt(tmp_path, monkeypatch):
    """Put the small tools first on the path; return the log of the calls of apt-get."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (("apt-get", APT), ("dpkg-deb", DPKG_DEB)):
        (tools / name).write_text(text, encoding="utf-8")
        (tools / name).chmod(0o755)
    (tmp_path / "data").write_bytes(package())
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TORPOR_KERNEL_SOURCES", raising=False)
    return tmp_path / "log"


def test_only_the_parts_that_run_are_unpacked(apt, tmp_path):
    said = []
    place = kernel_sources.fetch("6.12", say=said.append)
    assert place == tmp_path / "cache/torpor/sources" / PACKAGE
    found = {str(path.relative_to(place)) for path in place.rglob("*") if not path.is_dir()}
    wanted = {"Makefile", "drivers/cpuidle/governors/menu.c", "mm/internal.h", "lib/inside.h"}
    assert found == wanted | {kernel_sources.ORIGIN}
    origin = json.loads((place / kernel_sources.ORIGIN).read_text(encoding="utf-8"))
    assert (origin["package"], origin["version"]) == (PACKAGE, "6.12.9-1")
    assert len(said) == 1 and "153 MB" in said[0]
    assert kernel_sources.find("6.12") == place


def test_present_source_is_not_fetched_again(apt):
    first = kernel_sources.fetch("6.12")
    calls = apt.read_text(encoding="utf-8")
    assert kernel_sources.fetch("6.12") == first
    assert apt.read_text(encoding="utf-8") == calls
    with_trees = kernel_sources.fetch("6.12", also=("arch/arm64/boot/dts", "arch/none"))
    assert (with_trees / "arch/arm64/boot/dts/a.dts").is_file()
    calls = apt.read_text(encoding="utf-8")
    kernel_sources.fetch("6.12", also=("arch/none",))
    assert apt.read_text(encoding="utf-8") == calls, "the release has no such part"


def test_a_fetch_keeps_parts_of_the_one_before(apt):
    kernel_sources.fetch("6.12", also=("arch/arm64/boot/dts",))
    place = kernel_sources.fetch("6.12", also=("drivers/net",))
    assert (place / "drivers/net/big.c").is_file()
    assert (place / "arch/arm64/boot/dts/a.dts").is_file()


def test_missing_source_is_explained_in_one_line(apt, tmp_path, monkeypatch):
    (tmp_path / "tools" / "apt-get").write_text("#!/bin/sh\necho E: no network >&2\nexit 100\n")
    with pytest.raises(kernel_sources.UnavailableError, match="E: no network") as error:
        kernel_sources.fetch("6.12")
    assert "\n" not in str(error.value)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(kernel_sources.UnavailableError, match=r"put a tree into \$TORPOR_KERNEL"):
        kernel_sources.fetch("6.12")
    with pytest.raises(kernel_sources.UnavailableError, match="not a release"):
        kernel_sources.fetch("../6.12")


LACKING = """#!/bin/sh
echo "$*" >>"$LOG"
case " $* " in
*" --print-uris "*) echo "E: Unable to locate package" >&2; exit 100 ;;
esac
"""


def test_what_the_archive_lacks_is_said_at_once(apt, tmp_path):
    (tmp_path / "tools" / "apt-get").write_text(LACKING, encoding="utf-8")
    names = "echo linux-source-6.1; echo linux-source-6.12; echo linux-source-6.12-doc"
    (tmp_path / "tools" / "apt-cache").write_text(f"#!/bin/sh\n{names}\n", encoding="utf-8")
    (tmp_path / "tools" / "apt-cache").chmod(0o755)
    said = []
    with pytest.raises(kernel_sources.UnavailableError, match=r"it has 6\.1, 6\.12\n") as error:
        kernel_sources.fetch("6.6", say=said.append)
    assert "tarball" in str(error.value)
    assert len(said) == 1 and "not in the package lists here" in said[0]
    asked = apt.read_text(encoding="utf-8").count("update")
    assert asked == 1, "the machine's own lists name releases: only other suites are asked"
    with pytest.raises(kernel_sources.UnavailableError, match=r"linux-source-6\.6; it has"):
        kernel_sources.fetch("6.6", say=said.append)
    assert apt.read_text(encoding="utf-8").count("update") == asked
    assert len(said) == 1


def test_a_point_release_names_its_release(apt):
    with pytest.raises(kernel_sources.UnavailableError, match=r"kernel fetch 6\.12`"):
        kernel_sources.fetch("6.12.47")
    assert not apt.exists()
