import pytest

from edge_agent.errors import ConfigurationError
from edge_agent.inference.load import load_scorers
from tests.fakes.packages import write_package
from tests.fakes.settings import settings_of, stream


def test_every_declared_package_is_loaded_by_family(tmp_path):
    packages = [write_package(tmp_path / name, family=name) for name in ("a", "b")]
    settings = settings_of(stream(model="b"), model=[{"package": path} for path in packages])
    loaded = load_scorers(settings)
    assert sorted(loaded.scorers) == ["a", "b"]
    assert loaded.failures == {}


def test_a_package_that_fails_costs_its_streams_a_tier_no_more(tmp_path):
    good, bad = write_package(tmp_path / "good"), tmp_path / "bad"
    settings = settings_of(
        stream(model="other"),
        stream("s2", model="tiny"),
        model=[{"package": good}, {"package": bad}],
    )
    loaded = load_scorers(settings)
    assert list(loaded.scorers) == ["tiny"]
    assert list(loaded.failures) == [str(bad)]


def test_two_packages_of_one_family_are_refused(tmp_path):
    packages = [write_package(tmp_path / name) for name in ("a", "b")]
    settings = settings_of(model=[{"package": path} for path in packages])
    with pytest.raises(ConfigurationError, match="second package of family 'tiny'"):
        load_scorers(settings)


def test_a_stream_whose_model_nobody_declares_is_refused_with_those_declared(tmp_path):
    settings = settings_of(stream(model="big"), model=[{"package": write_package(tmp_path)}])
    with pytest.raises(ConfigurationError, match=r"'pump'.*'big'.*declared: tiny"):
        load_scorers(settings)
