"""What a terminal shows of an answer: a table, and bars with a mark where the ideal is."""

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from services.cli.benching.figures import Answer, Run

BAR_WIDTH = 48
_EIGHTHS = " ▏▎▍▌▋▊▉"
_IDEAL = "┊"
UNKNOWN = "not known"
BUSY_CORES = 0.3
_HEADINGS = (
    "processes",
    "jobs/s",
    "efficiency",
    "CPU ms\na job",
    "Postgres\nms a job",
    "Postgres\nof all",
    "duplicates",
)


def table_of(answer: Answer) -> Table:
    """One row per run."""
    title = f"{answer.experiment.title}, {answer.experiment.slots} sends at once in each process"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for run in answer.runs:
        table.add_row(*_cells(answer, run))
    return table


def _cells(answer: Answer, run: Run) -> list[str]:
    postgres, share = run.postgres_ms_per_job, run.postgres_share
    return [
        str(run.workers),
        f"{run.rate:,.0f}",
        f"{answer.efficiency(run):.2f}",
        f"{run.worker_ms_per_job:.3f}",
        UNKNOWN if postgres is None else f"{postgres:.3f}",
        UNKNOWN if share is None else f"{share:.0%}",
        str(run.duplicates),
    ]


def warning_of(answer: Answer) -> str:
    """What makes the figures doubtful, or '' when nothing is known to."""
    busiest = max((run.other_cores or 0 for run in answer.runs), default=0)
    if busiest < BUSY_CORES:
        return ""
    return f"Other work took up to {busiest:.1f} cores meanwhile: measure again on a quiet machine."


def plot_of(answer: Answer) -> Text:
    """A bar per run; the mark is where it would end if each process did as much as the first."""
    longest = max(run.rate for run in answer.runs)
    plot = Text()
    for run in answer.runs:
        plot.append(f"{run.workers:>3} ")
        plot.append(bar(run.rate / longest, answer.ideal(run.workers) / longest), style="cyan")
        plot.append(f" {run.rate:,.0f}/s\n")
    plot.append(f"    {_IDEAL} each process as much as the first", style="dim")
    return plot


def bar(length: float, mark: float, width: int = BAR_WIDTH) -> str:
    """``length`` of ``width`` (0 to 1) in block characters, with a mark at ``mark`` unless that is past the end."""
    eighths = round(8 * length * width)
    full, part = divmod(eighths, 8)
    cells = list(("█" * full + (_EIGHTHS[part] if part else "")).ljust(width))[:width]
    if 0 < mark <= 1:
        cells[min(round(mark * width), width) - 1] = _IDEAL
    return "".join(cells)
