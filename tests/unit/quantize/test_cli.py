import json
from pathlib import Path

import numpy as np
import pytest

from quantize.cli import main
from quantize.package import read_package
from tests.unit.quantize.toy_models import dense_model, typical_rows, windows

RECIPE = "from tests.unit.quantize.toy_models import plan\n"
GATED = RECIPE + (
    "from quantize.plan import Gate\n"
    "import functools\n"
    "plan = functools.partial(plan, gates=(Gate('device-int8.flagged', at_least=1.1),))\n"
)
DESCRIPTION = """
family = "pump"
release = 2
version = "1.0"
created = "2026-12-01T00:00:00Z"
kind = "anomaly"
labels = ["normal", "anomaly"]
data = "four weeks of the pump at rest"
windows = "windows.npz"

[features]
channels = ["x"]
window = 4
hop = 1
steps = [{kind = "values"}]

[compatibility]
channels = [{name = "x", unit = "bar", low = -5.0, high = 5.0}]
period_s = 1.0

[[variants]]
name = "device-float32"
role = "device"
precision = "float32"
file = "model.onnx"
resources = {max_p95_ms = 50.0, ram_mb = 8.0}
"""


@pytest.fixture
def family(tmp_path: Path) -> Path:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "recipe.py").write_text(RECIPE)
    return tmp_path / "toy"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model.onnx").write_bytes(dense_model(4, 8, 4))
    np.savez(tmp_path / "rows.npz", features=typical_rows(100, 4))
    data = windows(50)
    np.savez(tmp_path / "windows.npz", values=data.values, times=data.times)
    (tmp_path / "pump.toml").write_text(DESCRIPTION)
    return tmp_path / "model.onnx"


def test_a_recipe_is_built_checked_and_proved(family, capsys):
    assert main(["recipe", str(family), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["variants"]) == {"device-int8", "hub-float32"}
    assert json.loads((family / "report.json").read_text())["family"] == "toy"
    assert main(["recipe", str(family), "--check", "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert checked["problems"] == []
    assert checked["identical"] is True
    assert main(["report", str(family / "package")]) == 0
    assert "every golden vector is right" in capsys.readouterr().out


def test_a_check_fails_when_the_package_is_damaged(family, capsys):
    main(["recipe", str(family)])
    (family / "package" / "device-int8.onnx").write_bytes(b"x")
    assert main(["recipe", str(family), "--check"]) == 1
    assert "the manifest says" in capsys.readouterr().err


def test_a_missed_gate_exits_1_and_writes_nothing(family, capsys):
    (family / "recipe.py").write_text(GATED)
    assert main(["recipe", str(family)]) == 1
    assert "is not packed" in capsys.readouterr().err
    assert not (family / "package").exists()


@pytest.mark.parametrize("text", [None, "x = 1\n", "def plan(): return 5\n"])
def test_a_folder_without_a_recipe_exits_2(tmp_path, capsys, text):
    if text is not None:
        (tmp_path / "recipe.py").write_text(text)
    assert main(["recipe", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("quantize: ")


def test_ones_own_model_is_quantized_and_compared_on_rows_held_out(model, capsys):
    out = model.parent / "small.onnx"
    arguments = ["onnx", str(model), "--calibration", str(model.parent / "rows.npz")]
    assert main([*arguments, "--out", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["int8_bytes"] == out.stat().st_size
    assert "held out" in report["measured_on"]
    assert main([*arguments, "--out", str(out)]) == 0
    assert "one row" in capsys.readouterr().out


def test_pickled_calibration_is_refused(model, capsys):
    evil = model.parent / "evil.npz"
    np.savez(evil, features=np.array([{}], dtype=object))
    out = model.parent / "out.onnx"
    assert main(["onnx", str(model), "--calibration", str(evil), "--out", str(out)]) == 2
    assert "without pickles" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"a": typical_rows(2, 4), "b": typical_rows(2, 4)}, "the model's input is 'features'"),
        ({"features": typical_rows(2, 3)}, "does not accept"),
        ({"features": np.array(["x"])}, "calibration data is numbers"),
    ],
)
def test_calibration_that_does_not_fit_exits_2_with_the_reason(model, capsys, arrays, reason):
    np.savez(model.parent / "rows.npz", **arrays)
    arguments = ["onnx", str(model), "--calibration", str(model.parent / "rows.npz")]
    assert main([*arguments, "--out", str(model.parent / "out.onnx")]) == 2
    assert reason in capsys.readouterr().err


def test_a_description_becomes_a_package_with_its_own_threshold(model, capsys):
    out = model.parent / "package"
    assert main(["package", str(model.parent / "pump.toml"), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["family"] == "pump"
    (variant,) = read_package(out).manifest.variants
    assert variant.threshold is not None
    assert variant.threshold > 0
    assert main(["report", str(out)]) == 0


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('kind = "anomaly"', 'kind = "guess"', "kind"),
        ("release = 2", "release = 0", "release must be at least 1"),
        ("window = 4", "window = 5", "expected"),
        ("windows.npz", "nothing.npz", "nothing.npz"),
        ('file = "model.onnx"', 'file = "pump.toml"', "cannot load"),
        ("family", "familly", "familly"),
    ],
)
def test_a_description_that_is_wrong_exits_2_with_the_reason(model, capsys, before, after, reason):
    (model.parent / "pump.toml").write_text(DESCRIPTION.replace(before, after))
    out = model.parent / "package"
    assert main(["package", str(model.parent / "pump.toml"), "--out", str(out)]) == 2
    assert reason in capsys.readouterr().err
    assert not out.exists()
