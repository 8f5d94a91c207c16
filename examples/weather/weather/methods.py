"""Extractor methods about the weather."""

from spindle import Element, Method, register_method


def read_degrees(element: Element, argument: str | None) -> float:
    return float(element.text().rstrip("°C "))


register_method("degrees", method=Method("double", read_degrees, about="a temperature in °C"))
