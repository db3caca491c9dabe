"""Promises that hold for every key there is, today's and tomorrow's."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from edge_agent import settings as module
from edge_agent.errors import ConfigurationError
from edge_agent.settings import Settings, load_settings

TABLES = [
    kind
    for kind in vars(module).values()
    if isinstance(kind, type)
    and issubclass(kind, BaseModel)
    and kind.__module__.startswith(module.__name__)
]


def keys() -> Iterator[tuple[str, str, FieldInfo]]:
    for table in TABLES:
        if table is not Settings:
            for name, field in table.model_fields.items():
                yield table.__name__, name, field


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_frozen_and_refuses_what_it_does_not_know(table):
    assert table.model_config["frozen"]
    assert table.model_config["extra"] == "forbid"


def test_every_key_is_described():
    assert [f"{table}.{name}" for table, name, field in keys() if not field.description] == []


def test_every_time_carries_its_unit():
    times = {"timeout", "interval", "age", "jitter", "deadline", "keepalive"}
    named = [name for _, name, _ in keys() if times & set(name.split("_"))]
    assert len(named) > 8
    assert [name for name in named if not name.endswith(("_s", "_ms"))] == []


TOML = st.recursive(
    st.sampled_from(["1", "-1", "1e308", "nan", "true", '"x"', '""', "[]", "{}", "1979-05-27"]),
    lambda inner: st.lists(inner, max_size=2).map(lambda parts: "[" + ", ".join(parts) + "]"),
    max_leaves=3,
)
TOP = st.sampled_from([*Settings.model_fields, "self", "_env_file", "x"])


@given(st.dictionaries(TOP, TOML, max_size=4), st.text("[]{}=\"'#\n abc1.", max_size=30))
def test_no_file_raises_anything_but_a_configuration_error(tmp_path_factory, tables, tail):
    path = tmp_path_factory.mktemp("config", numbered=True) / "agent.toml"
    text = "".join(f"{key} = {value}\n" for key, value in tables.items()) + tail
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load_settings(path)
    assert str(path) in str(caught.value)
