"""What was written before 0.1.0 is refused in one line, and never read as format 1."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streameval import DriftDetector, Evaluator, LabelJoiner, WindowedEvaluator
from streameval._joining.codec import decode_joiner
from streameval.checks import UnknownFormatError
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.errors import StorageError
from streameval_server._state.pairs.pair_file import PairFile
from streameval_server._state.stream_file import StreamFile

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parent / "data" / "unreleased"
READERS: dict[str, tuple[Callable[[bytes], object], str]] = {
    "state-1-other.bin": (Evaluator.from_bytes, "an evaluator"),
    "state-2-clusters.bin": (Evaluator.from_bytes, "an evaluator"),
    "state-3-weighted-cells.bin": (Evaluator.from_bytes, "an evaluator"),
    "windowed-1.bin": (WindowedEvaluator.from_bytes, "a windowed evaluator"),
    "windowed-2.bin": (WindowedEvaluator.from_bytes, "a windowed evaluator"),
    "joiner-1.bin": (decode_joiner, "a joiner"),
    "label-joiner-1.bin": (LabelJoiner.from_bytes, "a label joiner"),
    "detector-1.bin": (DriftDetector.from_bytes, "a drift detector"),
    "stream-1.sve": (StreamFile.from_bytes, "an exported stream"),
    "pair-1.sve": (PairFile.from_bytes, "an exported pair"),
}


@pytest.mark.parametrize("name", READERS)
def test_bytes_from_before_the_first_release_are_refused(name: str) -> None:
    """The line says what they are, and what to do."""
    data = (DATA / name).read_bytes()
    read, what = READERS[name]
    with pytest.raises(UnknownFormatError) as caught:
        read(data)
    assert str(caught.value) == (
        f"{what} from before the first release of streameval (it begins with {data[:4]!r}) "
        "cannot be read: write it again with this version"
    )


def test_a_log_from_before_the_first_release_is_refused(tmp_path: Path) -> None:
    """The line names the file, which stays as it is."""
    path = Path(shutil.copy(DATA / "log.db", tmp_path / "streameval.db"))
    before = path.read_bytes()
    for read_only in (True, False):
        with pytest.raises(StorageError) as caught:
            SqliteStorage(path, read_only=read_only).open()
        assert str(caught.value) == (
            f"{path} was written by a development version from before 0.1.0, whose log no release "
            "reads: move it away, or export its streams with the version that wrote it"
        )
    assert path.read_bytes() == before
