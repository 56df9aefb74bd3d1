# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Chooses the kernel that a series is applied to, and says why; never guesses."""

import os
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from torpor import _engine
from torpor.ask.trial.series import Series, TrialError, commit_of, git
from torpor.machine import kernel_sources
from torpor.results.files import read_bytes

#: Commits of a history that are compared with a series' blobs.
_COMMITS = 5000
#: Time for each search in a history.
_SEARCH_S = 60.0
#: Rejected hunks that an error lists.
_REJECTS = 40
#: Tags that an error names.
_TAGS = 3

_Tell = Callable[[str], None]


@dataclass(frozen=True)
class Base:
    """A kernel by the engine's name for it."""

    spec: str
    name: str
    why: str
    #: Repository that has it.
    tree: str | None = None
    #: Revision there; None for the files as they lie.
    revision: str | None = None


def choose(series: Series, onto: str | None, tell: _Tell = lambda _text: None) -> Base:
    """Return the base of a series.

    It is the commit that the series names if the tree has it, else the newest commit that has all
    blobs of the series' ``index`` lines, else what ``onto`` names, else the default kernel.
    """
    named = None if onto is None else _named(onto)
    tree = named.tree if named else series.repository
    if tree is not None:
        revision = (named and named.revision) or series.start or "HEAD"
        found = _of_series(series, tree, named) or _by_blobs(series, tree, revision, tell)
        if found is not None:
            return found
    if named is not None:
        return named
    if series.repository is not None and series.start is not None:
        why = "the first revision of the range"
        return _at(series.repository, series.start, why)
    kernel = _engine.default_kernel()
    return Base(kernel, f"Linux {kernel}", "the default, as the series names no base")


def _named(onto: str) -> Base:
    """Return what the user named: ``TREE:REV``, a folder, a tarball or a release."""
    why = "as --onto names it"
    path = os.path.expanduser(onto)
    if os.path.isdir(path):
        top = git(path, "rev-parse", "--show-toplevel")
        is_top = top is not None and os.path.samefile(top.strip(), path)
        return Base(path, os.path.basename(path.rstrip("/")), why, path if is_top else None)
    tree, colon, revision = path.rpartition(":")
    if colon and os.path.isdir(tree):
        commit = commit_of(tree, revision)
        if commit is None:
            raise TrialError(f"--onto {onto}: `{tree}` has no revision `{revision}`")
        name = f"{os.path.basename(tree.rstrip('/'))}:{revision}"
        return Base(f"{tree}:{revision}", name, why, tree, revision)
    return Base(path, onto if os.path.exists(path) else f"Linux {onto}", why)


def _at(tree: str, commit: str, why: str) -> Base:
    near = git(tree, "describe", "--tags", "--match", "v*", commit)
    name = near.strip() if near else commit[:12]
    return Base(f"{tree}:{commit}", name, why, tree, commit)


def _of_series(series: Series, tree: str, named: Base | None) -> Base | None:
    """Return the commit that the series names, if the tree has it."""
    given = series.read["base_commit"]
    commit = commit_of(tree, given) if given else None
    if commit is None:
        return None
    why = f"base-commit {commit[:12]} of the series"
    if named and named.revision and commit_of(tree, named.revision) != commit:
        why += f", not {named.revision}, which --onto names"
    return _at(tree, commit, why)


def first_blobs(series: Series) -> dict[str, str]:
    """Return the blob of each file before the series, where its first diff names it."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    for patch in series.patches:
        for file in patch["files"]:
            old = file["old_path"] or file["path"]
            if not seen & {old, file["path"]} and file["old_blob"] and file["kind"] != "add":
                found[old] = file["old_blob"]
            seen |= {old, file["path"]}
    return found


def _by_blobs(series: Series, tree: str, revision: str, tell: _Tell) -> Base | None:
    """Return the newest commit of a history in which all of the series' blobs are."""
    blobs = first_blobs(series)
    if not blobs:
        return None
    began_s = time.monotonic()
    if _blobs_match(tree, revision, blobs):
        commit = commit_of(tree, revision)
        return _at(tree, commit, "all blobs of its index lines are there") if commit else None
    tell(f"looking for the series' {len(blobs)} blobs in the history of `{tree}`")
    log = git(
        *(tree, "log", f"--max-count={_COMMITS}", "--format=%H", revision, "--", *blobs),
        timeout_s=_SEARCH_S,
    )
    for commit in (log or "").split():
        if time.monotonic() - began_s > _SEARCH_S:
            break
        if _blobs_match(tree, commit, blobs):
            return _at(tree, commit, "the newest commit with all blobs of its index lines")
    tell("no commit there has all of them")
    return None


def _blobs_match(tree: str, commit: str, blobs: dict[str, str]) -> bool:
    own = blobs_at(tree, [commit], list(blobs))[commit]
    return all((own[path] or "").startswith(blob) for path, blob in blobs.items())


def blobs_at(tree: str, commits: list[str], paths: list[str]) -> dict[str, dict[str, str | None]]:
    """Return the blobs of files at commits; None for a file that is not there."""
    asked = "".join(f"{commit}:{path}\n" for commit in commits for path in paths)
    said = git(tree, "cat-file", "--batch-check", given=asked.encode(), timeout_s=_SEARCH_S)
    lines = iter((said or "").splitlines())
    found: dict[str, dict[str, str | None]] = {}
    for commit in commits:
        found[commit] = {}
        for path in paths:
            blob, _, kind = next(lines, "").partition(" ")
            found[commit][path] = blob if kind.startswith("blob ") else None
    return found


def check_applies(base: Base, series: Series, tell: _Tell = lambda _text: None) -> None:
    """Raise :class:`TrialError` for a series that does not apply, with every hunk and a hint."""
    with tempfile.TemporaryDirectory(prefix="torpor-") as folder:
        if not _lay_out(base, _old_paths(series), Path(folder)):
            # The engine says so where it unpacks the base.
            return
        rejects = _engine.apply_series(series.path, folder)["rejects"]
    if not rejects:
        return
    problem = "\n".join(reject["text"] for reject in rejects[:_REJECTS])
    if len(rejects) > _REJECTS:
        problem += f"\nand {len(rejects) - _REJECTS} more"
    hint = ""
    if base.tree is not None:
        tags = [*applying_tags(base.tree, series, tell)]
        if tags:
            hint = f"\nhint: --onto {base.tree}:{tags[0]}, the newest tag on which all apply"
            hint += f"; also {', '.join(tags[1:])}" if tags[1:] else ""
        else:
            hint = f"\nhint: they apply to no tag of `{base.tree}` that was tried"
    else:
        hint = "\nhint: --onto TREE:REV names another base; a git tree has all"
    if any(reject["reason"] == "lost-space" for reject in rejects):
        hint = "\nhint: fetch the raw mail: `b4 am MESSAGE-ID`, or the list's archive with /raw"
    if missing := series.read["missing"]:
        names = ", ".join(map(str, missing))
        hint = f"\nnot in the source: patch {names} of the series{hint}; `b4 am` fetches all of it"
    raise TrialError(f"the series does not apply to {base.name}\n{problem}{hint}")


def _old_paths(series: Series) -> list[str]:
    names = (
        name for p in series.patches for f in p["files"] for name in (f["old_path"], f["path"])
    )
    return [name for name in dict.fromkeys(names) if name]


def _lay_out(base: Base, paths: list[str], folder: Path) -> bool:
    """Copy a base's files that a series touches into a folder; return whether it was possible."""
    if base.tree is not None and base.revision is not None:
        _lay_out_blobs(
            base.tree, blobs_at(base.tree, [base.revision], paths)[base.revision], folder
        )
        return True
    place = Path(base.spec)
    if not place.exists():
        found = kernel_sources.find(base.spec)
        if found is None:
            return False
        place = found
    if place.is_dir():
        for path in paths:
            if (place / path).is_file():
                _write(folder / path, read_bytes(place / path))
        return True
    if not place.is_file():
        raise TrialError(f"`{place}` is neither a folder nor a file")
    try:
        with tarfile.open(place) as archive:
            for member in archive:
                path = member.name.removeprefix("./").partition("/")[2]
                if path in paths and member.isfile() and (file := archive.extractfile(member)):
                    _write(folder / path, file.read())
    except (OSError, tarfile.TarError):
        return False
    return True


def _lay_out_blobs(tree: str, blobs: dict[str, str | None], folder: Path) -> None:
    for path, blob in blobs.items():
        if blob and (text := git(tree, "cat-file", "blob", blob)) is not None:
            _write(folder / path, text.encode("utf-8", "surrogateescape"))


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def applying_tags(tree: str, series: Series, tell: _Tell) -> Iterator[str]:
    """Yield the newest tags on which a whole series applies, as far as a minute goes."""
    listed = git(tree, "tag", "--list", "v*", "--sort=-v:refname") or ""
    tags, paths = listed.split(), _old_paths(series)
    if not tags:
        return
    tell(f"looking for a tag of `{tree}` on which the series applies: {len(tags)} tags")
    began_s, found = time.monotonic(), 0
    # Many tags have the same files.
    known: dict[tuple[str | None, ...], bool] = {}
    for tag, blobs in blobs_at(tree, tags, paths).items():
        key = tuple(blobs.values())
        if key not in known:
            if time.monotonic() - began_s > _SEARCH_S:
                return
            known[key] = any(key) and _applies(tree, blobs, series)
        if known[key]:
            yield tag
            found += 1
            if found == _TAGS:
                return


def _applies(tree: str, blobs: dict[str, str | None], series: Series) -> bool:
    with tempfile.TemporaryDirectory(prefix="torpor-") as folder:
        _lay_out_blobs(tree, blobs, Path(folder))
        return not _engine.apply_series(series.path, folder)["rejects"]
