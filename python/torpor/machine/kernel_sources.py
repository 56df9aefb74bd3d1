# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Obtains the source of a Linux release, as Debian packages it.

The one place that fetches: `torpor kernel fetch`, `torpor simulate`, `make kernel` and the tests
use it. It imports nothing of Torpor, so that a checkout runs it as a script before it is built:

    python3 python/torpor/machine/kernel_sources.py 6.12 [--folder DIR] [--also PATH]...
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

#: Files of a tree that hosting needs; `crates/torpor-sim/src/kernel/source.rs` has the same list.
WANTED = (
    *("Makefile", "COPYING", "drivers/base", "drivers/cpufreq", "drivers/cpuidle", "include"),
    *("io_uring", "kernel", "lib", "mm"),
)
#: In a fetched tree: the package that it is from.
ORIGIN = "torpor-origin.json"
#: Names a folder of sources, into which they are then fetched.
SOURCES_ENV = "TORPOR_KERNEL_SOURCES"
#: In the cache: what the archive had when it was asked last, and for how long that is believed.
ANSWER = "archive.json"
ANSWER_MAX_AGE_S = 24 * 3600
#: The exit status if a package is not available.
UNAVAILABLE = 77

_RELEASE = r"\d+\.\d+"
_POINT_RELEASE = r"(\d+\.\d+)\.\d+"
_PACKAGE = r"linux-source-(\d+\.\d+)"
_ELSEWHERE = (
    "`-k` takes a tree, a tarball (linux-6.6.tar.xz) or TREE:REV of a git repository: "
    "those of kernel.org, of Android (kernel/common) or of a vendor"
)
_SECURITY_SUITES = ("bullseye-security", "bookworm-security", "trixie-security")
_SUITES = ("trixie-backports", "forky", "sid", "experimental")


class UnavailableError(Exception):
    """Why a source cannot be obtained here, on one line."""


#: Takes what is done, how much of it, and of how much; 0 if that is not known.
Watch = Callable[[str, int, int], None]
#: How often it is told, by time and by files.
_TOLD_S = 0.5
_FILES_TOLD = 500
_UNPACKED = "unpacking, files looked at"


def cache_folder(name: str = "") -> Path:
    """Return Torpor's folder in the user's cache, or one in it: such as ``runs``.

    As the XDG Base Directory Specification has it, a relative $XDG_CACHE_HOME is ignored.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return home / "torpor" / name


def folders() -> list[Path]:
    """Return the folders that a release is looked up in, first things first."""
    named = os.environ.get(SOURCES_ENV)
    return [*([Path(named)] if named else []), Path("/usr/src"), cache_folder("sources")]


def is_release(kernel: str) -> bool:
    """Whether a kernel's name is a release such as 6.12."""
    return re.fullmatch(_RELEASE, kernel) is not None


def find(release: str) -> Path | None:
    """Return the folder or tarball of a release's source, if it is on this machine."""
    for folder in folders():
        for path in sorted(folder.glob(f"linux-source-{release}*")):
            if re.fullmatch(rf"linux-source-{re.escape(release)}(\.0)?(\.tar.*)?", path.name):
                return path
    return None


def fetch(
    release: str,
    folder: Path | None = None,
    also: tuple[str, ...] = (),
    say: Callable[[str], None] = lambda _line: None,
    watch: Watch = lambda _what, _done, _total: None,
) -> Path:
    """Return the unpacked source of a release, fetched if it is not in the folder.

    The folder is by default the one that $TORPOR_KERNEL_SOURCES names, else the user's cache.
    ``also`` names further parts of the tree, ``say`` is given a line before anything is fetched,
    ``watch`` what is done, how much of it, and of how much (0 if that is not known).
    Raises :class:`UnavailableError`.
    """
    if point := re.fullmatch(_POINT_RELEASE, release):
        raise UnavailableError(
            f"`{release}` is a point release, and Debian's archive has only the last one of each "
            f"release; `torpor kernel fetch {point[1]}` fetches that\nhint: {_ELSEWHERE}"
        )
    if not is_release(release):
        raise UnavailableError(f"`{release}` is not a release such as 6.12")
    named = os.environ.get(SOURCES_ENV)
    folder = folder or (Path(named) if named else cache_folder("sources"))
    place = folder / f"linux-source-{release}"
    if _is_complete(place, also):
        return place
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise UnavailableError(
                f"no {tool} on this machine: put a tree into ${SOURCES_ENV}/{place.name}, "
                "or name one by its path"
            )
    # Imported here, as others below: each simulation asks this module where its caches are.
    import tempfile

    try:
        _private(folder)
        # One process fetches; others wait for it.
        with _locked(folder), tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as work:
            if not _is_complete(place, also):
                _fetch(place, Path(work), also, say, watch)
    except OSError as error:
        raise UnavailableError(f"{place}: {error.strerror or error}") from error
    return place


def _private(folder: Path) -> None:
    """Make the folder; what lies in the cache is compiled and run."""
    if folder == cache_folder("sources"):
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_complete(place: Path, also: tuple[str, ...]) -> bool:
    needed = ("Makefile", "drivers/cpuidle/governors", "mm/internal.h")
    if not all((place / part).exists() for part in needed):
        return False
    if all((place / part).exists() for part in also):
        return True
    # Not every release has every part.
    return set(also) <= _further_parts(place)


def _further_parts(place: Path) -> set[str]:
    """Return the parts beyond :data:`WANTED` that a tree was fetched with."""
    origin = place / ORIGIN
    return set(json.loads(origin.read_text(encoding="utf-8"))["also"] if origin.is_file() else [])


def _fetch(
    place: Path, work: Path, also: tuple[str, ...], say: Callable[[str], None], watch: Watch
) -> None:
    # The tree that this one replaces may have been fetched with further parts: keep them.
    parts = sorted(_further_parts(place).union(also))
    # apt may fetch as a user of its own.
    work.chmod(0o755)
    options = _findable(place.name, work, say)
    whole_mb = _say_size(place.name, options, say) // 10**6

    def tell() -> None:
        done = sum(path.stat().st_size for path in work.rglob("*") if path.is_file())
        watch(f"fetching {place.name}, MB", min(done // 10**6, whole_mb), whole_mb)

    _apt(work, *options, "download", place.name, tell=tell)
    [package] = work.glob("*.deb")
    tree = work / "tree"
    _unpack(package, place.name, tree, (*WANTED, *parts), watch)
    origin = {
        "package": place.name,
        "version": _run(["dpkg-deb", "-f", package, "Version"]).strip(),
        "sha256": _sha256(package),
        "also": parts,
    }
    (tree / ORIGIN).write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")
    # A folder with less in it may be there, and somebody may read it.
    if place.exists():
        place.rename(work / "less")
    tree.rename(place)


def _findable(package: str, work: Path, say: Callable[[str], None]) -> list[str]:
    """Return apt's options by which it knows the package; any user's, as nothing is installed."""
    for folder in ("lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    here = [f"Dir::Cache={work}/cache"]
    if os.geteuid() == 0:
        here.append("APT::Sandbox::User=root")
    fresh = [*here, f"Dir::State::lists={work}/lists", "Acquire::Languages=none"]
    every = [*fresh, f"Dir::Etc::sourcelist={work}/sources.list", "Dir::Etc::sourceparts=-"]
    # The machine's own package lists, then fresh ones of its suites if it has none, then fresh ones
    # of all Debian suites.
    options = _words(here)
    if _knows(package, options):
        return options
    known = _releases(options)
    _check_answer(package, known)
    problem = ""
    for settings in ([] if known else [fresh]) + [every]:
        what = "Debian's other suites" if settings is every else "this machine's suites"
        say(f"{package} is not in the package lists here: asking {what}, up to a minute")
        options = _words(settings)
        try:
            if settings is every:
                (work / "sources.list").write_text(_all_suites(), encoding="utf-8")
            _apt(work, *options, "update")
        except UnavailableError as error:
            problem = str(error)
            continue
        if _knows(package, options):
            return options
        known |= _releases(options)
    if problem:
        raise UnavailableError(f"no package {package} can be found: {problem}")
    _keep_answer(known)
    raise UnavailableError(_lacks(package, known))


def _words(settings: list[str]) -> list[str]:
    return [word for setting in settings for word in ("-o", setting)]


def _knows(package: str, options: list[str]) -> bool:
    try:
        _run(["apt-get", "-qq", *options, "download", "--print-uris", package])
    except UnavailableError:
        return False
    return True


def _releases(options: list[str]) -> set[str]:
    """Return the releases whose source is in the package lists that the options name."""
    try:
        names = _run(["apt-cache", *options, "pkgnames", "linux-source-"])
    except (UnavailableError, OSError):
        return set()
    return {found[1] for name in names.split() if (found := re.fullmatch(_PACKAGE, name))}


def _check_answer(package: str, known: set[str]) -> None:
    """Raise if the archive lacked the package when it was asked last, not long ago."""
    try:
        answer = json.loads((cache_folder("sources") / ANSWER).read_text(encoding="utf-8"))
        asked_s, releases = float(answer["asked_s"]), {str(name) for name in answer["releases"]}
    except (OSError, ValueError, KeyError, TypeError):
        return
    found = re.fullmatch(_PACKAGE, package)
    if 0 <= time.time() - asked_s < ANSWER_MAX_AGE_S and found and found[1] not in releases:
        raise UnavailableError(_lacks(package, known | releases))


def _keep_answer(releases: set[str]) -> None:
    folder = cache_folder("sources")
    _private(folder)
    answer = {"asked_s": time.time(), "releases": sorted(releases)}
    (folder / ANSWER).write_text(json.dumps(answer) + "\n", encoding="utf-8")


def _lacks(package: str, known: set[str]) -> str:
    have = sorted(known, key=lambda release: [int(part) for part in release.split(".")])
    listed = ", ".join(have) or "no release"
    return f"Debian's archive has no package {package}; it has {listed}\nhint: {_ELSEWHERE}"


def _all_suites() -> str:
    """Return apt's list of Debian's suites, at the places where this machine's own are."""
    own = _run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"])
    lines = []
    for place in sorted(set(own.split())):
        suites = _SECURITY_SUITES if "security" in place else _SUITES
        lines += [f"deb {place} {suite} main\n" for suite in suites]
    return "".join(lines)


def _say_size(package: str, options: list[str], say: Callable[[str], None]) -> int:
    """Say what is fetched, and return its size in bytes."""
    uris = _run(["apt-get", "-qq", *options, "download", "--print-uris", package])
    size = next((int(word) for word in uris.split() if word.isdigit()), 0)
    say(f"fetching {package} with apt-get, {size / 1e6:.0f} MB; its parts that run are unpacked")
    return size


def _apt(work: Path, *words: str, tell: Callable[[], None] = lambda: None) -> None:
    _run(["apt-get", "-qq", *words], work, tell)


def _run(
    command: list[str | Path],
    folder: Path | None = None,
    tell: Callable[[], None] = lambda: None,
) -> str:
    """Return what a command prints; ``tell`` is called while it runs."""
    import subprocess

    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True) as process:
        while True:
            try:
                printed, said = process.communicate(timeout=_TOLD_S)
                break
            except subprocess.TimeoutExpired:
                tell()
            except BaseException:
                process.kill()
                raise
    if process.returncode != 0:
        lines = [line for line in said.splitlines() if line] or ["it says nothing"]
        raise UnavailableError(f"{command[0]} fails: {lines[-1]}")
    return printed


def _unpack(package: Path, name: str, tree: Path, wanted: tuple[str, ...], watch: Watch) -> None:
    """Take the wanted files out of the tarball in a package."""
    import subprocess
    import tarfile

    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|") as data:
            for member in data:
                if member.name == f"./usr/src/{name}.tar.xz":
                    tarball = data.extractfile(member)
                    assert tarball is not None
                    _unpack_wanted(tarball, tree, wanted, lambda n: watch(_UNPACKED, n, 0))
                    break
        process.kill()
    if not _is_complete(tree, ()):
        raise UnavailableError(f"{name}: its tarball lacks files of the scheduler or of CPU idle")


def _unpack_wanted(
    tarball: IO[bytes], tree: Path, wanted: tuple[str, ...], tell: Callable[[int], None]
) -> None:
    import tarfile

    with tarfile.open(fileobj=tarball, mode="r|xz") as archive:
        for number, member in enumerate(archive):
            if not number % _FILES_TOLD:
                tell(number)
            inside = member.name.partition("/")[2]
            is_wanted = any(inside == path or inside.startswith(f"{path}/") for path in wanted)
            if not is_wanted or ".." in inside.split("/"):
                continue
            place = tree / inside
            if member.issym() and not _leaves(inside, member.linkname):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(member.linkname)
            elif member.isfile() and (text := archive.extractfile(member)):
                place.parent.mkdir(parents=True, exist_ok=True)
                with place.open("wb") as file:
                    shutil.copyfileobj(text, file)


def _leaves(inside: str, link: str) -> bool:
    """Whether a link in a tree leads out of it."""
    target = os.path.normpath(os.path.join(os.path.dirname(inside), link))
    return target.startswith(("..", "/"))


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def main(arguments: list[str] | None = None) -> int:
    """Print the folder of a release's source."""
    import argparse

    parser = argparse.ArgumentParser(description="Obtains the source of a Linux release.")
    parser.add_argument("release", help="for example 6.12")
    parser.add_argument("--folder", type=Path, help=f"default: {cache_folder('sources')}")
    parser.add_argument("--also", action="append", default=[], metavar="PATH")
    given = parser.parse_args(arguments)
    try:
        also = tuple(given.also)
        place = fetch(given.release, given.folder, also, lambda line: print(line, file=sys.stderr))
    except UnavailableError as error:
        print(error, file=sys.stderr)
        return UNAVAILABLE
    print(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
