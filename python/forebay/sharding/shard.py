"""The ``Shard`` of a process: its rank and the number of processes, which decide the rows that it trains
on."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .. import _forebay
from ..errors import InvalidError
from ..options.checks import whole
from . import launchers
from .devices import place_of, rows_of_processes, sharding_of
from .mesh import is_of_jax, names_of, place_in

__all__ = ["Shard"]

_LOG = logging.getLogger("forebay")


@dataclass(frozen=True, kw_only=True, repr=False)
class Shard:
    """The share of the rows that one training process gets.

    Parameters
    ----------
    rank : int
        Number of this process, from 0 to ``world - 1``.
    world : int
        Number of processes, at least 1.

    Raises
    ------
    InvalidError
        A number is out of range.

    Examples
    --------
    >>> import forebay as fb
    >>> [len(fb.Loader("data/train/", batch_size=32, shard=fb.Shard(rank=rank, world=2))) for rank in (0, 1)]
    [4, 4]
    """

    rank: int
    """Number of this process, from 0."""
    world: int
    """Number of processes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", whole(self.rank, "rank", 0, 32))
        object.__setattr__(self, "world", whole(self.world, "world", 1, 32))
        if self.rank >= self.world:
            raise InvalidError(
                f"rank must be less than world, got rank={self.rank} and world={self.world} "
                f"(ranks run from 0 to {self.world - 1})"
            )

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Shard:
        """The shard of this process, from the environment variables that its launcher set.

        It reads the variables of torchrun, Horovod, JAX, TensorFlow (``TF_CONFIG``), hosts of TPUs, Open MPI,
        PMI and SLURM. It logs the variables that it used at level INFO, to the logger ``forebay``. Variables
        of two launchers are accepted if one started the other, and each task of the outer launcher started
        the same number of inner tasks.

        Parameters
        ----------
        environ : mapping from str to str, optional
            Environment variables. Default: the environment of this process.

        Returns
        -------
        Shard
            Rank and world of the innermost launcher.

        Raises
        ------
        InvalidError
            No launcher is found, two launchers contradict each other, a variable is not a number in range, or
            the process has no shard: the script of a SLURM job, an evaluator or a parameter server of
            TensorFlow.

        Examples
        --------
        >>> import forebay as fb
        >>> fb.Shard.from_env({"RANK": "3", "WORLD_SIZE": "8"})
        forebay.Shard(rank=3, world=8)
        """
        environ = os.environ if environ is None else environ
        said = launchers.found(environ)
        if not said:
            raise launchers.nothing(environ)
        innermost, *outer = said
        shard = cls._said(innermost)
        for one in outer:
            if not _nested(shard, cls._said(one)):
                raise InvalidError(
                    f"{innermost.launcher} says {innermost}, but {one.launcher} says {one} (unset the pair that is "
                    f"wrong, or {launchers.NEXT})"
                )
        _LOG.info("rank %d of %d, from %s (%s)", shard.rank, shard.world, innermost, innermost.launcher)
        return shard

    @classmethod
    def _said(cls, said: launchers.Said) -> Shard:
        try:
            return cls(rank=int(said.rank), world=int(said.world))
        except (TypeError, ValueError) as error:
            variables = " and ".join(f"{name}={value!r}" for name, value in said.variables.items())
            raise InvalidError(
                f"{variables} are not a rank and a world size: {error} (correct them, or {launchers.NEXT})"
            ) from None

    @classmethod
    def from_sharding(cls, sharding: Any) -> Shard:
        """The shard of this JAX process, for global batches that are divided by ``sharding``.

        Processes whose devices hold the same rows of a batch, such as those of one replica of a model that is
        split over them, have the same rank and read the same rows.

        Parameters
        ----------
        sharding : jax.sharding.Sharding
            The sharding of a global batch, whose first dimension is the rows.

        Returns
        -------
        Shard
            Its ``rank`` is the position of this process's rows among the parts of a batch, and its ``world``
            is the number of different parts.

        Raises
        ------
        InvalidError
            ``sharding`` is not a sharding of JAX, has no device of this process, or divides the rows so that
            two processes share only some of their rows, or have different numbers of rows.

        Examples
        --------
        >>> import forebay as fb
        >>> import jax
        >>> sharding = jax.sharding.NamedSharding(jax.make_mesh((1,), ("data",)), jax.sharding.PartitionSpec("data"))
        >>> fb.Shard.from_sharding(sharding)
        forebay.Shard(rank=0, world=1)
        """
        process, rows = rows_of_processes(sharding)
        return cls(**place_of(process, rows))

    @classmethod
    def from_mesh(cls, mesh: Any, axes: str | Iterable[str] = ("dp",), *, rank: int | None = None) -> Shard:
        """The shard of this process in a mesh: a grid of processes, of which only some axes divide the data.

        Processes with the same coordinates on the axes of the data have the same rank and read the same rows.
        They hold parts of one replica of the model, such as those of tensor or pipeline parallelism.

        Parameters
        ----------
        mesh : torch DeviceMesh, jax Mesh or mapping from str to int
            The mesh. A mapping has the size of each axis, with the outermost axis first: processes are counted
            along the last axis first, as PyTorch and JAX do.
        axes : str or iterable of str, default ("dp",)
            The axes that divide the data. If there are several, ranks are counted along the last one first.
        rank : int, optional
            With a mapping, the number of this process in the mesh. Default: the rank that the launcher set,
            which :meth:`from_env` reads.

        Returns
        -------
        Shard
            Its ``world`` is the product of the sizes of ``axes``.

        Raises
        ------
        InvalidError
            The mesh has no such axis, its axes have no names, this process is not in it, or its size is not
            the number of processes that the launcher started.

        Examples
        --------
        Process 5 of 16, in two pipeline stages of four replicas, each with two tensor-parallel parts:

        >>> import forebay as fb
        >>> fb.Shard.from_mesh({"pp": 2, "dp": 4, "tp": 2}, rank=5)
        forebay.Shard(rank=2, world=4)
        """
        data = names_of(axes)
        if is_of_jax(mesh):
            if rank is not None:
                raise InvalidError("rank was given beside a Mesh of JAX, which knows it (leave it out)")
            return cls.from_sharding(sharding_of(mesh, data))
        place = place_in(mesh, rank, cls._of_launcher)
        found, world = _forebay.shard_of_mesh(place.rank, place.axes, data)
        return cls(rank=found, world=world)

    @classmethod
    def _of_launcher(cls) -> tuple[int, int]:
        shard = cls.from_env()
        return shard.rank, shard.world

    def __repr__(self) -> str:
        return f"forebay.Shard(rank={self.rank}, world={self.world})"


def _nested(inner: Shard, outer: Shard) -> bool:
    """Whether ``inner`` fits ``outer``, if each process of the outer launcher started the same number of
    processes of the inner one."""
    if inner.world % outer.world:
        return False
    return inner.rank // (inner.world // outer.world) == outer.rank
