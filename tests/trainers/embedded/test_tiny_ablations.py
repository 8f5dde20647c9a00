"""The script that makes the ablation tables still runs; what it finds is in trainers/embedded/README.md."""

import pytest

pytest.importorskip("torch", reason="learning needs the train extra")
pytest.importorskip("tyro", reason="the command reads its flags with it")

from tests.trainers.embedded import tiny_ablations


@pytest.mark.slow
def test_the_ablation_tables_are_made(tmp_path):
    text = tiny_ablations.main([str(tmp_path), "--seeds", "0", "--iterations", "1", "--deals", "4"])
    assert (tmp_path / "ablations.md").read_text(encoding="utf-8") == text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    settings = sum(map(len, tiny_ablations.ALONE.values())), len(tiny_ablations.SETTINGS)
    assert len(rows) == (2 + settings[0]) + (3 + settings[1])
    assert [run.parent.name for run in sorted((tmp_path / "runs").glob("*/seed_0"))] == sorted(tiny_ablations.SETTINGS)
