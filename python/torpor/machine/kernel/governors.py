# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Governors into the running kernel and out of it; what was done can be undone."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from torpor import _engine
from torpor.machine.kernel import journal
from torpor.machine.kernel.build import Builder
from torpor.machine.kernel.errors import KernelError
from torpor.machine.kernel.journal import Journal, Keeper
from torpor.machine.kernel.modules import CORE, Governor, module_of
from torpor.machine.kernel.system import System

#: The governor that was current before Torpor's, for `unload`, which may be another process.
_BEFORE = "/run/torpor/governor"


@contextmanager
def undone_on_failure() -> Iterator[ExitStack]:
    """Yield a stack of undo actions, which run only if the block ends in an error."""
    with ExitStack() as undo:
        yield undo
        undo.pop_all()


def load(
    system: System,
    builder: Builder,
    governors: Sequence[Governor],
    undo: ExitStack,
    keeper: Keeper | None = None,
) -> None:
    """Load the core and the governors that are not loaded yet; build them if necessary.

    It makes none of them current. ``keeper`` is notified of each module before.
    """
    version = system.version(CORE)
    if version not in (None, _engine.__version__):
        raise KernelError(
            f"modules of Torpor {version} are loaded, and this is {_engine.__version__}",
            "torpor kernel unload removes them",
        )
    absent = [g for g in governors if not system.is_loaded(g.module)]
    if not absent:
        return
    builder.build_missing(absent)
    if not system.is_loaded(CORE):
        if keeper is not None:
            keeper.module(CORE)
        system.insmod(builder.path(CORE))
        undo.callback(_undo, system, CORE, lambda: system.rmmod(CORE))
    for governor in absent:
        _insert(system, builder, governor, undo, keeper)


def _insert(
    system: System, builder: Builder, governor: Governor, undo: ExitStack, keeper: Keeper | None
) -> None:
    if governor.name in system.governors:
        raise KernelError(
            f"the kernel offers another governor as `{governor.name}`, so Torpor's cannot be "
            f"loaded",
            "torpor kernel unload removes Torpor's",
        )
    if keeper is not None:
        keeper.module(governor.module)
    system.insmod(builder.path(governor.module), governor.parameters)
    undo.callback(_undo, system, governor.module, lambda: system.rmmod(governor.module))


def keep(system: System, undo: ExitStack, keeper: Keeper) -> None:
    """Undone, the governor that is current now is current again; ``keeper`` is notified."""
    before = system.governor
    if before is None:
        raise KernelError("the kernel does not report its governor, so it could not be restored")
    keeper.governor(before)

    def put_back() -> None:
        if system.governor != before:
            system.set_governor(before)

    undo.callback(_undo, system, f"`{before}` as governor", put_back)


def use(system: System, name: str, *, is_for_a_while: bool = False) -> None:
    """Make an available governor current.

    Where it stays, `unload` will go back to the one before. Where it is for a while, a journal
    knows that one, and what `unload` would go back to remains.
    """
    # A dry run has not loaded what it would have.
    if name not in system.governors and not system.is_dry_run:
        raise KernelError(
            f"the kernel offers no governor `{name}`: it has {', '.join(system.governors)}",
            "torpor kernel load GOVERNOR adds one",
        )
    before = system.governor
    if before == name:
        return
    if before is not None and not is_ours(system, before) and not is_for_a_while:
        _remember(system, before)
    system.set_governor(name)


def unload(system: System, names: Sequence[str] = ()) -> list[str]:
    """Unload governors by any of their names, or all of Torpor's and the core; return modules."""
    loaded = loaded_governors(system)
    wanted = [_find(name, loaded) for name in names] or loaded
    _leave(system, wanted)
    for module in wanted:
        system.rmmod(module)
    if system.is_loaded(CORE) and set(loaded) <= set(wanted):
        system.rmmod(CORE)
        wanted = [*wanted, CORE]
    return wanted


def restore(system: System) -> Journal | None:
    """Undo what a process that was killed has changed for a while; return that, if there was any.

    Raises :class:`KernelError` where something of it cannot be undone; the rest is.
    """
    left = journal.read(system)
    if left is None:
        return None
    if left.governor is not None and system.governor != left.governor:
        name = left.governor
        _undo(system, f"`{name}` as governor", lambda: use(system, name, is_for_a_while=True))
    for module in filter(system.is_loaded, reversed(left.modules)):
        _undo(system, module, partial(system.rmmod, module))
    if system.unrestored:
        raise KernelError(f"not restored: {', '.join(system.unrestored)}")
    journal.remove(system)
    return left


def loaded_governors(system: System) -> list[str]:
    """Torpor's modules that are governors: those that use the core."""
    return [module for module in system.holders(CORE) if module.startswith("torpor_")]


def is_ours(system: System, governor: str) -> bool:
    return system.is_loaded(module_of(governor))


def _find(name: str, loaded: Sequence[str]) -> str:
    for module in (name, module_of(name), module_of(f"t-{name}")):
        if module in loaded:
            return module
    raise KernelError(
        f"none of Torpor's governors is loaded as `{name}`: loaded is {', '.join(loaded) or 'none'}"
    )


def _leave(system: System, modules: Sequence[str]) -> None:
    """Make another governor current if one of these is: the kernel keeps it loaded otherwise."""
    if system.governor is None or module_of(system.governor) not in modules:
        return
    others = [name for name in system.governors if module_of(name) not in modules]
    before = system.read(_BEFORE)
    if not others:
        raise KernelError(f"`{system.governor}` is the only governor, and the kernel requires one")
    # The kernel's own go first: they are there after the next unload, too.
    own = [name for name in others if not is_ours(system, name)]
    system.set_governor(before if before in others else (own or others)[0])


def _remember(system: System, governor: str) -> None:
    if system.is_dry_run:
        return
    file = system.machine.path(_BEFORE)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{governor}\n")
    except OSError as error:
        raise KernelError(f"`{file}` cannot be written: {error.strerror}") from error


def _undo(system: System, what: str, change: Callable[[], None]) -> None:
    """One thing that cannot be undone keeps no other from it."""
    try:
        change()
    except KernelError as error:
        system.unrestored.append(what)
        system.tell(f"# not undone: {error}")
