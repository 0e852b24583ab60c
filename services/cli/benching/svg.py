"""The plot of `waybill bench` as an SVG document: throughput over processes, beside the ideal line."""

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from services.cli.benching.figures import Answer, Run

WIDTH, HEIGHT = 480, 400
"""Of one panel."""
LEFT, RIGHT, TOP, BOTTOM = 70, 30, 70, 60
_STEPS = (1, 2, 4, 5, 10)
INK, SOFT, FAINT, IDEAL, MEASURED = "#1f2933", "#52606d", "#e4e7eb", "#9aa5b1", "#2563eb"


def drawing_of(answers: Sequence[Answer]) -> str:
    """One panel per answer, side by side; well-formed XML that needs nothing from anywhere."""
    width = WIDTH * len(answers)
    root = Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {HEIGHT}", width=str(width))
    root.set("font-family", "system-ui, sans-serif")
    root.set("font-size", "12")
    SubElement(root, "title").text = "waybill bench: jobs a second over worker processes"
    SubElement(root, "rect", width="100%", height="100%", fill="white")
    for place, answer in enumerate(answers):
        _Panel(SubElement(root, "g", transform=f"translate({place * WIDTH} 0)"), answer).draw()
    return tostring(root, encoding="unicode")


class _Panel:
    """One answer: axes from zero, a dashed line where the ideal is, a point with its figures for each run."""

    def __init__(self, group: Element, answer: Answer) -> None:
        self._group = group
        self._answer = answer
        self._most = max(run.workers for run in answer.runs)
        fastest = max(run.rate for run in answer.runs)
        # The ideal is part of the picture as long as what was measured stays readable beside it.
        self._step = step_for(max(fastest, min(answer.ideal(self._most), 2 * fastest)))
        self._top = self._step * 5

    def draw(self) -> None:
        """All of it."""
        self._text(LEFT, 28, self._answer.experiment.title, size="16", weight="600")
        self._text(LEFT, 48, f"{self._answer.experiment.slots} sends at once in each process", fill=SOFT)
        self._draw_axes()
        reach = min(self._most, self._top / self._answer.ideal(1))
        self._line([(0, 0), (reach, self._answer.ideal(reach))], stroke=IDEAL, dash="5 4")
        points = [(run.workers, run.rate) for run in self._answer.runs]
        self._line([(0, 0), *points], stroke=MEASURED)
        before = 0.0
        for run in self._answer.runs:
            # Beside a line that falls to the point there is room below it only.
            self._draw_point(run, 0 if run.rate >= before else 40)
            before = run.rate

    def _draw_point(self, run: Run, lower: float) -> None:
        x, y = self._x(run.workers), self._y(run.rate)
        self._label(x - 6, y - 20 + lower, f"{run.rate:,.0f}/s", INK, "600")
        self._label(x - 6, y - 7 + lower, f"{self._answer.efficiency(run):.2f}", SOFT, "400")
        SubElement(self._group, "circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r="4", fill=MEASURED)

    def _draw_axes(self) -> None:
        for number in range(6):
            y = self._y(number * self._step)
            edges = {"x1": str(LEFT), "x2": str(WIDTH - RIGHT), "y1": f"{y:.1f}", "y2": f"{y:.1f}"}
            SubElement(self._group, "line", edges, stroke=INK if number == 0 else FAINT)
            self._text(LEFT - 8, y + 4, f"{number * self._step:,.0f}", anchor="end")
        for run in self._answer.runs:
            self._text(self._x(run.workers), HEIGHT - BOTTOM + 20, str(run.workers), anchor="middle")
        self._text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "worker processes", anchor="middle")
        self._text(LEFT - 8, TOP - 16, "jobs/s", anchor="end", fill=SOFT)

    def _x(self, workers: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * workers / self._most

    def _y(self, rate: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * rate / self._top

    def _line(self, points: Sequence[tuple[float, float]], *, stroke: str, dash: str = "none") -> None:
        path = " ".join(f"{self._x(workers):.1f},{self._y(rate):.1f}" for workers, rate in points)
        line = SubElement(self._group, "polyline", points=path, fill="none", stroke=stroke)
        line.set("stroke-width", "2")
        line.set("stroke-dasharray", dash)

    def _label(self, x: float, y: float, text: str, fill: str, weight: str) -> None:
        # White under it first, so that a line behind does not cross it out.
        under = self._text(x, y, text, weight=weight, fill="white", anchor="end")
        under.attrib |= {"stroke": "white", "stroke-width": "4", "aria-hidden": "true"}
        self._text(x, y, text, weight=weight, fill=fill, anchor="end")

    def _text(
        self, x: float, y: float, text: str, *, size: str = "12", weight: str = "400", fill: str = INK, anchor: str = ""
    ) -> Element:
        attributes = {"x": f"{x:.1f}", "y": f"{y:.1f}", "fill": fill, "font-size": size, "font-weight": weight}
        element = SubElement(self._group, "text", attributes | {"text-anchor": anchor or "start"})
        element.text = text
        return element


def step_for(highest: float) -> float:
    """The distance of grid lines, a round number, of which five reach ``highest``."""
    magnitude = 1.0
    while magnitude * 10 * 5 < highest:
        magnitude *= 10
    return next(step * magnitude for step in _STEPS if step * magnitude * 5 >= highest)
