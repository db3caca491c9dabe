"""The tables of streams, their channels, and the models that score them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from edge_agent.settings.tables import Name, Table

ChannelName = Annotated[str, Field(min_length=1, max_length=64)]


class ChannelSettings(Table):
    """One channel of a stream: where it stands in the payload, its unit and its limits."""

    path: str | None = Field(
        default=None,
        description="Path in the payload, as a.b or list[0]; default: the channel's name.",
    )
    unit: str = Field(default="", max_length=32, description="Unit of the values.")
    min: float | None = Field(default=None, description="Lower values are impossible: rejected.")
    max: float | None = Field(default=None, description="Higher values are impossible: rejected.")
    alarm_below: float | None = Field(
        default=None, description="Lower values raise an alarm (tier rule)."
    )
    alarm_above: float | None = Field(
        default=None, description="Higher values raise an alarm (tier rule)."
    )

    @model_validator(mode="after")
    def _ordered(self) -> ChannelSettings:
        if self.min is not None and self.max is not None and self.min >= self.max:
            raise ValueError(f"min ({self.min:g}) must be below max ({self.max:g})")
        return self


class StreamSettings(Table):
    """`[[stream]]`: one source, or with wildcards in `topic` one stream for each topic."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9_.{}\-/]{1,128}$",
        description="Name of the stream; {0}, {1} … stand for the levels of the topic.",
    )
    topic: str = Field(min_length=1, max_length=1024, description="MQTT topic filter.")
    profile: Literal["json"] = Field(default="json", description="Payload convention.")
    time: Literal["checked", "recorded", "arrival"] = Field(
        default="checked",
        description="checked: implausible times are replaced by the arrival time and flagged; "
        "recorded: the payload's time is trusted; arrival: the payload's time is ignored.",
    )
    time_path: str | None = Field(
        default=None, description="Path of the reading's time; absent: common key names are tried."
    )
    channels: dict[ChannelName, ChannelSettings] = Field(
        min_length=1, max_length=256, description="The channels, by name."
    )
    window: int = Field(
        default=0, ge=0, le=65536, description="Readings a window; 0: the model's, or 1."
    )
    hop: int = Field(
        default=0, ge=0, le=65536, description="Readings between windows; 0: the model's, or 1."
    )
    model: Name | None = Field(default=None, description="Model family that scores the windows.")
    deadline_ms: float = Field(
        default=250, ge=5, le=60000, description="Time for a verdict, from arrival."
    )
    escalate: Literal["auto", "never"] = Field(
        default="auto", description="Whether uncertain windows may go to the hub."
    )
    alarm_labels: tuple[str, ...] = Field(
        default=("anomaly", "breach"), description="Labels that raise an alarm."
    )
    rearm_windows: int = Field(
        default=25, ge=1, le=100000, description="Quiet windows that end an alarm's episode."
    )

    @field_validator("topic")
    @classmethod
    def _filter(cls, topic: str) -> str:
        levels = topic.split("/")
        for position, level in enumerate(levels):
            if "#" in level and (level != "#" or position != len(levels) - 1):
                raise ValueError("'#' must be the whole last level of a topic filter")
            if "+" in level and level != "+":
                raise ValueError("'+' must be a whole level of a topic filter")
        if topic.startswith("$share/"):
            raise ValueError("shared subscriptions would split a stream between devices")
        return topic


class ModelSettings(Table):
    """`[[model]]`: a package that the device starts with."""

    package: Path = Field(description="Folder with the package's manifest.json.")
