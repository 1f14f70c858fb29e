"""A server on a Zen 4 says how numpy sorts faster, in the names of the numpy that runs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from streameval_server._service.slow_sort import VARIABLE, advice, slow_sort_advice

ZEN_4 = (
    "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n\nprocessor : 1"
)


@pytest.mark.parametrize(
    ("processor", "features", "names"),
    [
        (ZEN_4, ["X86_V3", "X86_V4", "AVX512_ICL"], "X86_V4 AVX512_ICL"),
        (ZEN_4, ["AVX2", "AVX512F", "AVX512_SKX"], "AVX512F AVX512_SKX"),
        (ZEN_4, ["X86_V3", "AVX2"], None),
        (ZEN_4.replace("25", "26"), ["X86_V4"], None),
        (ZEN_4.replace("AuthenticAMD", "GenuineIntel"), ["X86_V4"], None),
        ("", ["X86_V4"], None),
    ],
)
def test_the_advice_names_the_features_in_use(
    processor: str, features: list[str], names: str | None
) -> None:
    """Those that are in use and slow on this processor alone; no advice without any."""
    said = advice(processor, features)
    if names is None:
        assert said is None
    else:
        assert said is not None
        assert said.endswith(f'{VARIABLE}="{names}"')


def test_the_advice_is_followed_by_silence() -> None:
    """A process that starts as advised uses no such feature, so that nothing is said."""
    said = slow_sort_advice()
    names = "" if said is None else said.split('"')[1]
    code = "from streameval_server._service.slow_sort import slow_sort_advice as say; print(say())"
    environment = {**os.environ, VARIABLE: names}
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"
