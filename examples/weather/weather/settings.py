"""Settings of the plugin."""

from pydantic_settings import BaseSettings, SettingsConfigDict


class WeatherSettings(BaseSettings):
    """Read from the environment, as SPINDLE_WEATHER_MAX_STATIONS."""

    model_config = SettingsConfigDict(env_prefix="SPINDLE_WEATHER_")

    max_stations: int = 100
