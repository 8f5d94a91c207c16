"""A plugin that finds product images by EAN, built on nothing but the interface of plugins."""

from spindle import Plugin

plugin = Plugin(
    description="Find product images by EAN, for one country at a time.",
    modules=("plugins.ean_image_sourcing.similarity",),
    router="plugins.ean_image_sourcing.rest:router",
    pipelines="plugins.ean_image_sourcing.pipelines",
)
