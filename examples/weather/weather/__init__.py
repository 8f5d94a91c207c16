"""A plugin about the weather."""

from spindle import Plugin

plugin = Plugin(
    description="The weather at places, and the stations that an organization has there.",
    modules=("weather.stages", "weather.climate", "weather.methods", "weather.actions", "weather.units"),
    credentials={"CLIMATE": {"CLIMATE_KEY": ("api_key",), "CLIMATE_URL": ("endpoint",)}},
    router="weather.rest:router",
    settings="weather.settings:WeatherSettings",
    migrations="weather.migrations",
    pipelines="weather.pipelines",
)
