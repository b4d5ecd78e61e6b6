"""The benchmarks as pictures, from the stored results and nothing else.

    python pictures.py                     # writes docs/images/benchmarks_*.png
    python pictures.py --output FOLDER

Results of a peer are compared with the newest default fit that learned the same rows, table by
table: the means over the splits that both have. Of several files with results of a peer on a table,
the newest one counts. "Within" is 1 % of an error and 0.01 nats of a density.
"""

import argparse
import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import common
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, PercentFormatter
from matplotlib.transforms import Bbox

IMAGES = common.HERE.parent / "images"
OURS = "default fit"
PEERS = {  # colours of Okabe and Ito, and markers
    OURS: ("#0072B2", "o"),
    "CatBoost": ("#E69F00", "s"),
    "HistGradientBoosting": ("#D55E00", "^"),
    "GaussianProcessRegressor": ("#009E73", "D"),
    "GPflow, SGPR": ("#CC79A7", "v"),
    "GPyTorch, exact": ("#56B4E9", "P"),
    "GPyTorch, VNNGP": ("#4D4D4D", "X"),
    "GPBoost, Vecchia": ("#8C6D31", "p"),
    "xRFM": ("#A0A000", "*"),
}
LABEL_PEERS = ("CatBoost", "HistGradientBoosting", "GaussianProcessClassifier")
LABEL_PEERS += ("logistic regression",)
BETTER, LEVEL, WORSE, NOTHING = "#0072B2", "#C8C8C8", "#E69F00", "#FFFFFF"
SCORES = {"rmse": "Error (RMSE)", "log_density": "Log density", "log_loss": "Log loss of labels"}
WITHIN = {"rmse": "within 1 %", "log_density": "within 0.01 nats", "log_loss": "within 0.01 nats"}
MOST_NAMED = 5  # tables of a line
INK, PALE = "#222222", "#777777"
STYLE = {"font.size": 10, "axes.edgecolor": PALE, "axes.labelcolor": INK, "text.color": INK}
STYLE |= {"axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 11}
STYLE |= {"axes.grid": True, "grid.color": "#E4E4E4", "axes.axisbelow": True, "legend.fontsize": 9}
STYLE |= {"figure.facecolor": "white", "savefig.dpi": 100, "legend.frameon": False}
STYLE |= {"axes.titleweight": "bold", "axes.titlelocation": "left", "font.family": "DejaVu Sans"}


# -- stored results --------------------------------------------------------------------


@dataclass
class Result:
    """What one method reached on one split of one table."""

    source: str  # the file, without its ending
    table: str
    split: str
    method: str
    entry: dict

    @property
    def place(self):
        """Rows are the same where this and the number of rows are."""
        scheme = "uci" if self.source in UCI and "log_loss" not in self.entry else self.source
        return scheme, self.table, self.split, self.entry["n"]

    @property
    def seconds(self):
        """Of the fit: of all processors where they are stored, or else by the clock."""
        names = ("fit_cpu_seconds", "cpu_seconds", "fit_seconds", "seconds")
        return next(self.entry[name] for name in names if name in self.entry)

    @property
    def commit(self):
        return self.entry.get("commit", EARLIER.get(self.source, "")).split()[0]


UCI = ("quick", "neighbours", "near_exact", "defaults")  # their splits are the same
SOURCES = ("quick", "frames", "neighbours", "near_exact", "defaults", "classification")  # by age
EARLIER = {"defaults": "c98abc9", "classification": "c98abc9"}  # entries that name no commit
NAMES = {  # of methods in the files
    "default": OURS,
    "auto": OURS,
    "ours": OURS,
    "frame": OURS,
    "complete": OURS,
    "CatBoost": "CatBoost",
    "HistGradientBoosting": "HistGradientBoosting",
    "boosting": "HistGradientBoosting",
    "GaussianProcessRegressor": "GaussianProcessRegressor",
    "GPR": "GaussianProcessRegressor",
    "exact": "GaussianProcessRegressor",
    "GPflow": "GPflow, SGPR",
    "GPyTorch exact": "GPyTorch, exact",
    "GPyTorch VNNGP": "GPyTorch, VNNGP",
    "GPBoost Vecchia": "GPBoost, Vecchia",
    "xRFM": "xRFM",
    "logistic": "logistic regression",
}


def results():
    """All results of default fits and of peers, without tables whose values were removed."""
    found = []
    for source in SOURCES:
        parts = {"near_exact": "quality/", "classification": "defaults/"}.get(source, "")
        for key, entry in common.read_json(common.RESULTS / f"{source}.json").items():
            table, split, method = key.removeprefix(parts).rsplit("/", 2)
            if key.startswith(parts) and method in NAMES and "," not in table:
                name = NAMES[method]
                if "nlpd" in entry:
                    entry |= {"log_loss": entry["nlpd"]}
                    name = name.replace("Regressor", "Classifier")
                found.append(Result(source, table, split, name, entry))
    return found


@dataclass
class Pair:
    """A peer and a default fit on the same rows: means over splits of a score, and of seconds."""

    table: str
    peer: str
    ours: float
    theirs: float
    seconds: tuple  # ours, theirs
    n: int
    commits: set


def pairs_of(found, score):
    """(pairs, tables without a result) of a score, by peer."""
    ours, theirs = defaultdict(dict), defaultdict(lambda: defaultdict(list))
    for one in found:
        if one.method == OURS and score in one.entry:
            ours[one.place].setdefault(one.source, one)
        elif one.method != OURS:
            theirs[one.method, one.table][one.source].append(one)
    pairs, nothing = defaultdict(list), defaultdict(list)
    scored = {one.table for by_source in ours.values() for one in by_source.values()}
    for (peer, table), by_source in theirs.items():
        shared = (paired(ours, by_source[source], score) for source in SOURCES)
        best = next((pair for pair in shared if pair is not None), None)
        if best is not None:
            pairs[peer].append(best)
        elif table in scored and any(
            "failed" in one.entry for part in by_source.values() for one in part
        ):
            nothing[peer].append(table)
    return pairs, nothing


def paired(ours, theirs, score):
    """The `Pair` of the results of a peer on a table, or None."""
    theirs = [one for one in theirs if score in one.entry]
    for source in SOURCES:
        both = [(ours[one.place].get(source), one) for one in theirs if one.place in ours]
        both = [(mine, one) for mine, one in both if mine is not None]
        if both:
            mine, its = (np.mean([one.entry[score] for one in part]) for part in zip(*both))
            seconds = tuple(np.mean([one.seconds for one in part]) for part in zip(*both))
            commits = {mine.commit for mine, _ in both}
            first = both[0][1]
            return Pair(first.table, first.method, mine, its, seconds, first.entry["n"], commits)
    return None


def table_of(name):
    """The rows of the first table of results/`name`, as lists of strings."""
    lines = (common.RESULTS / name).read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    return [row for row in rows[2:] if len(row) == len(rows[0])]


def told_commits(pairs):
    """The commits of the default fits among pairs, in words."""
    found = sorted({commit for part in pairs for one in part for commit in one.commits})
    return f"Default fits at commits {', '.join(found)}."


# -- accuracy and seconds --------------------------------------------------------------


def accuracy_and_seconds(found):
    """Scores beside those of default fits, against the seconds of the fit."""
    fig, axes = plt.subplots(1, 2, figsize=(11, 6.4))
    limits = {"log_density": (-20, 3), "rmse": (0.3, 10)}
    pairs = {score: pairs_of(found, score)[0] for score in limits}
    for ax, score in zip(axes, limits):
        draw_peers(ax, pairs[score], score, limits[score])
    scaled(axes)
    handles = axes[0].get_legend_handles_labels()[0]
    fig.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 0.055), ncol=4)
    about = "Small: a table; large: the median of a method (number of tables with a log density). "
    used = [part for found in pairs.values() for part in found.values()]
    fig.text(0.01, 0.012, about + "\n" + told_commits(used), fontsize=9, color=PALE)
    fig.tight_layout(rect=(0, 0.19, 1, 1), w_pad=2)
    return fig


def draw_peers(ax, pairs, score, limits):
    """A small point per table, and a large one at the median of each method."""
    level = 0.0 if score == "log_density" else 1.0
    own = {one.table: one.seconds[0] for part in pairs.values() for one in part}
    for peer, (colour, marker) in PEERS.items():
        x = [one.seconds[1] for one in pairs[peer]] if peer != OURS else [*own.values()]
        y = beside(pairs[peer], score) if peer != OURS else np.full(len(x), level)
        y = np.clip(y, *limits)
        look = {"color": colour, "marker": marker, "linestyle": "none"}
        ax.plot(x, y, markersize=5, alpha=0.5, markeredgewidth=0, **look)
        look |= {"markersize": 17 if marker == "*" else 13, "markeredgecolor": "white"}
        label = f"{peer} ({len(x)})"
        ax.plot(np.median(x), np.median(y), zorder=5, label=label, **look)


def beside(pairs, score):
    """Scores of a peer beside ours."""
    if score == "log_density":
        return np.array([one.theirs - one.ours for one in pairs])
    return np.array([one.theirs / one.ours for one in pairs])


def scaled(axes):
    """Axes of differences of densities, and of ratios of errors."""
    left, right = axes
    left.set_yscale("symlog", linthresh=0.1, linscale=0.7)
    ticks = [-20, -10, -3, -1, -0.3, -0.1, 0, 0.1, 0.3]
    left.set_yticks(ticks, ["−20 or less", *(f"{tick:g}".replace("-", "−") for tick in ticks[1:])])
    left.set_ylim(-27, 0.4)
    left.set_title("Log density minus ours, nats per row")
    right.set_yscale("log")
    ticks = [0.8, 0.9, 1, 1.2, 1.5, 2, 3, 5, 10]
    right.set_yticks(ticks, [*(f"{tick:g}" for tick in ticks[:-1]), "10 or more"])
    right.set_ylim(11.5, 0.75)
    right.set_title("RMSE divided by ours")
    for ax, level in zip(axes, (0.0, 1.0)):
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(FuncFormatter(plain))
        ax.minorticks_off()
        ax.set_xlabel("seconds of the fit (processor seconds where stored)")
        ax.axhline(level, color=BETTER, lw=1)
        ax.text(0.99, 0.985, "↑ better than ours", transform=ax.transAxes, ha="right", va="top")
        ax.text(0.99, 0.015, "↓ worse", transform=ax.transAxes, ha="right")


# -- wins ------------------------------------------------------------------------------


def typical(pairs, score):
    """The median difference, in words."""
    if score == "rmse":
        return f"{np.median([one.ours / one.theirs for one in pairs]):.2f} times theirs"
    sign = 1 if score == "log_density" else -1
    median = np.median([sign * (one.ours - one.theirs) for one in pairs])
    return f"{signed(median)} nats"


def signed(number):
    """Two digits and a sign, if there is anything to sign."""
    return "0.00" if abs(number) < 0.005 else f"{number:+.2f}".replace("-", "−")


def wins(found):
    """On how many tables default fits are better, level or worse than each peer."""
    peers = {score: [peer for peer in PEERS if peer != OURS] for score in ("rmse", "log_density")}
    peers["log_loss"] = list(LABEL_PEERS)
    heights = [len(part) for part in peers.values()]
    fig, axes = plt.subplots(3, 1, figsize=(11, 9.8), height_ratios=heights)
    used = []
    for ax, (score, names) in zip(axes, peers.items()):
        pairs, nothing = pairs_of(found, score)
        used += [pairs[name] for name in names]
        for row, name in enumerate(names):
            bar_of(ax, row, pairs[name], nothing[name], score)
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.set_title(f"{SCORES[score]}; level: {WITHIN[score]}")
        ax.set_xlim(0, 68)
        ax.grid(False)
        ax.tick_params(length=0)
        ax.set_xticks([])
        ax.spines[["bottom", "left"]].set_visible(False)
    shown = {"ours better": BETTER, "level": LEVEL, "ours worse": WORSE}
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in shown.values()]
    handles.append(plt.Rectangle((0, 0), 1, 1, facecolor=NOTHING, edgecolor=PALE, hatch="///"))
    names = [*shown, "the peer did not end within 300 s"]
    fig.legend(handles, names, loc="lower center", bbox_to_anchor=(0.5, 0.045), ncol=4)
    about = "In bars: tables. Right: the median of our errors over the peer's, or of what we gain."
    fig.text(0.01, 0.008, f"{about}\n{told_commits(used)}", fontsize=9, color=PALE)
    fig.tight_layout(rect=(0, 0.075, 1, 1))
    return fig


def bar_of(ax, row, pairs, nothing, score):
    """The bar of one peer."""
    outcomes = [common.outcome(one.ours, one.theirs, score) for one in pairs]
    counts = [outcomes.count(value) for value in (1, 0, -1)] + [len(nothing)]
    inks = "white", INK, INK, INK
    left = 0
    for count, colour, ink in zip(counts, (BETTER, LEVEL, WORSE, NOTHING), inks):
        if count:
            look = {"hatch": "///", "edgecolor": PALE} if colour == NOTHING else {"edgecolor": "w"}
            ax.barh(row, count, left=left, color=colour, height=0.72, **look)
            back = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            back = back if colour == NOTHING else None
            middle = left + count / 2
            ax.text(middle, row, str(count), ha="center", va="center", color=ink, bbox=back)
            left += count
    lost = [one.table for one, found in zip(pairs, outcomes) if found < 0]
    lost[MOST_NAMED:] = [f"{len(lost) - MOST_NAMED} more"] if len(lost) > MOST_NAMED else []
    words = typical(pairs, score) + (f"; worse on {', '.join(lost)}" if lost else "")
    ax.text(left + 0.5, row, words, va="center", fontsize=9, color="#555555")


# -- time and memory -------------------------------------------------------------------

POSTERIORS = {  # of default fits: names, colours and markers
    "exact": ("exact process", "#009E73", "D"),
    "inducing": ("inducing points", "#E69F00", "^"),
    "neighbors": ("neighbours", "#0072B2", "o"),
}


def time_and_memory(found):
    """Seconds and memory of default fits by n, and of single evaluations by m and n."""
    fig, axes = plt.subplots(2, 2, figsize=(11, 9))
    own = [one for one in found if one.method == OURS and "posterior" in one.entry]
    own = [one for one in own if one.source in ("quick", "frames", "neighbours")]
    for ax, what in zip(axes[0], ("seconds", "peak_mb")):
        for name, (word, colour, marker) in POSTERIORS.items():
            part = [one for one in own if one.entry["posterior"] == name]
            part = [one for one in part if "log_density" in one.entry]
            if what == "peak_mb":
                part = [one for one in part if what in one.entry]
            values = [one.seconds if what == "seconds" else one.entry[what] for one in part]
            with_slope(ax, [one.entry["n"] for one in part], values, word, colour, marker)
        known = common.read_json(common.RESULTS / "neighbors_any_size.json").values()
        known = [one for one in known if one["d"] == 2]
        key = "fit (CPU s)" if what == "seconds" else "at most (MB)"
        n = [one["rows"] for one in known]
        word = "neighbours, 2 columns, made-up rows"
        with_slope(ax, n, [one[key] for one in known], word, "#56B4E9", "s")
        ax.set_xlabel("rows n")
    axes[0, 0].set_title("Default fits: seconds of all processors")
    axes[0, 1].set_title("Default fits: resident memory at most (MB)")
    evaluations(*axes[1])
    for ax in axes.ravel():
        plain_log(ax)
    fig.tight_layout(rect=(0, 0.03, 1, 1), h_pad=2)
    commits = {one["commit"].split()[0] for one in known} | {one.commit for one in own}
    told = f"Above: commits {', '.join(sorted(commits))}. Below: c98abc9."
    fig.text(0.01, 0.008, told, fontsize=9, color=PALE)
    return fig


def with_slope(ax, x, y, name, colour, marker):
    """Points, and the line of least squares through their logarithms."""
    x, y = np.array(x, dtype=float), np.array(y, dtype=float)
    if not len(x):
        return
    slope, level = np.polyfit(np.log(x), np.log(y), 1)
    label = f"{name}: slope {slope:.2f}"
    ax.plot(x, y, marker, color=colour, markersize=6, alpha=0.75, markeredgewidth=0, label=label)
    ends = np.array([x.min(), x.max()])
    ax.plot(ends, np.exp(level) * ends**slope, color=colour, lw=1.5)


def evaluations(by_m, by_n):
    """Seconds of one value and gradient, inducing points and the exact process."""
    stored = common.read_json(common.RESULTS / "small_evaluations.json")
    looks = zip((500, 2000, 5000, 15000, 36000), COLOURS, "oDs^v")
    for n, colour, marker in looks:
        found = {
            int(key.split("/")[3]): one["ours"] for key, one in stored.items() if of(key, 2, n)
        }
        with_slope(by_m, [*found], [*found.values()], f"n = {n:,}", colour, marker)
    by_m.set_title("One value and gradient, two threads: seconds")
    by_m.set_xlabel("inducing points m")
    for m, colour, marker in zip((100, 500, 1000), COLOURS, "oDs"):
        found = {
            int(key.split("/")[2]): one["ours"]
            for key, one in stored.items()
            if of(key, 2) and key.split("/")[3] == str(m)
        }
        with_slope(by_n, [*found], [*found.values()], f"m = {m:,}", colour, marker)
    exact = common.read_json(common.RESULTS / "exact_engine.json")
    exact = {
        int(k.split("/")[1]): v["ours"] for k, v in exact.items() if k.startswith("evaluation")
    }
    with_slope(by_n, [*map(int, exact)], [*exact.values()], "exact process", "#CC79A7", "P")
    by_n.set_title("One value and gradient, two threads: seconds, by rows")
    by_n.set_xlabel("rows n")


COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#4D4D4D")


def of(key, threads, n=None):
    """Whether a key of small_evaluations.json has so many threads and rows."""
    _, found, rows, _, bound = key.split("/")
    return bound == "titsias_new" and found == str(threads) and n in (None, int(rows))


def plain_log(ax):
    """Logarithmic axes with plain numbers, and a legend that covers nothing."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.set_ylim(low, high * (high / low) ** 0.4)
    for axis, (start, end) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, (low, high))):
        steps = (1, 2, 5) if end / start < 200 else (1,)
        ticks = [step * 10.0**power for power in range(-4, 9) for step in steps]
        axis.set_ticks([tick for tick in ticks if start <= tick <= end])
        axis.set_major_formatter(FuncFormatter(plain))
    ax.minorticks_off()
    ax.legend(loc="upper left")


def plain(value, _=None):
    """A number without powers."""
    return f"{value / 1e6:g} M" if value >= 1e6 else f"{value:,.0f}" if value >= 1 else f"{value:g}"


# -- coverage --------------------------------------------------------------------------


def coverage(_):
    """Shares of test targets in intervals of four levels, of the model and conformal."""
    rows = table_of("intervals.md")
    tables = [row for row in rows if row[0] != "mean"]
    found = np.array([[cell.split(" / ") for cell in row[2:6]] for row in tables], dtype=float)
    fig, ax = plt.subplots(figsize=(11, 5.2))
    rng = np.random.RandomState(0)
    looks = ("of the model", "#0072B2", "o", -0.19), ("conformal", "#D55E00", "^", 0.19)
    for k, (name, colour, marker, shift) in enumerate(looks):
        for level in range(4):
            values = found[:, level, k]
            x = level + shift + rng.uniform(-0.12, 0.12, len(values))
            ax.plot(x, values, marker, color=colour, alpha=0.5, markersize=6, markeredgewidth=0)
            mean, width = values.mean(), np.array([-0.16, 0.16])
            label = f"{name}: a table, and the mean" if level == 0 else None
            ax.plot(level + shift + width, [mean, mean], color=colour, lw=3.5)
            ax.plot([], [], marker=marker, color=colour, lw=3, label=label)
            beside = level + shift, 1.015
            ax.text(
                *beside, f"{100 * mean:.1f} %", ha="center", va="bottom", color=colour, fontsize=10
            )
    for level, wanted in enumerate((0.5, 0.8, 0.9, 0.95)):
        ax.plot([level - 0.4, level + 0.4], [wanted, wanted], color=INK, lw=1, ls="--")
    ax.plot([], [], color=INK, lw=1, ls="--", label="what is promised")
    ax.set_xticks(range(4), ["50 % intervals", "80 %", "90 %", "95 %"])
    ax.grid(axis="x", visible=False)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    ax.set_ylim(0.3, 1.06)
    ax.set_ylabel("test targets inside the interval")
    ax.legend(loc="lower right")
    commit = re.search(r"Commit (\w+)", (common.RESULTS / "intervals.md").read_text())[1]
    about = f"{len(tables)} tables, default fits at commit {commit}. Above: means over the tables."
    fig.text(0.01, 0.012, about, fontsize=9, color=PALE)
    fig.tight_layout(rect=(0, 0.03, 1, 1))
    return fig


# -- is it for me? ---------------------------------------------------------------------


def choice(found):
    """Errors beside CatBoost's, against what no method explains."""
    pairs = pairs_of(found, "rmse")[0]
    best = defaultdict(lambda: np.inf)
    for part in pairs.values():
        for one in part:
            best[one.table] = min(best[one.table], one.ours, one.theirs)
    chosen = sorted(pairs["CatBoost"], key=lambda one: one.ours / one.theirs)
    x = np.maximum([best[one.table] ** 2 for one in chosen], LEAST_NOISE)
    ratios = np.array([one.ours / one.theirs for one in chosen])
    sizes = size_of(np.array([one.n for one in chosen]))
    fig, ax = plt.subplots(figsize=(11, 7))
    colours = np.where(ratios < 0.99, BETTER, np.where(ratios > 1.01, WORSE, "#8A8A8A"))
    ax.scatter(x, ratios, s=sizes, color=colours, alpha=0.75, edgecolor="white", zorder=3)
    finish_choice(fig, ax, highest=max(1.12, 1.1 * ratios.max()))
    place_names(ax, [one.table for one in chosen], x, ratios, sizes)
    fig.text(0.01, 0.012, told_commits([chosen]), fontsize=9, color=PALE)
    return fig


LEAST_NOISE = 1e-5
SPREAD = 0.03  # logarithms of ratios that are nearer to 0 have more room


def size_of(n):
    """The area of a point for so many rows."""
    return 25 + 50 * (np.log10(n) - 2)


def finish_choice(fig, ax, highest):
    """Axes, words and the legend of sizes."""
    ax.set_xscale("log")
    ax.set_xlim(LEAST_NOISE * 0.7, 6)
    ax.set_xlabel("share of the variance that no method explains (squared RMSE of the best one)")
    ticks = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0]
    ax.set_xticks(ticks, ["0.001 % or less", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"])
    stretch = (
        (lambda r: np.arcsinh(np.log(np.maximum(r, 1e-9)) / SPREAD)),
        (lambda s: np.exp(SPREAD * np.sinh(s))),
    )
    ax.set_yscale("function", functions=stretch)
    ticks = [0.0005, 0.01, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.3, 1.6, 2.0]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_ylim(0.00015, highest)
    ax.set_ylabel("RMSE of the default fit divided by CatBoost's (axis wider near 1)")
    ax.axhline(1.0, color=INK, lw=1)
    ax.text(LEAST_NOISE * 0.8, 1.015, "CatBoost has smaller errors", color=PALE, va="bottom")
    ax.text(LEAST_NOISE * 0.8, 0.985, "ours are smaller", color=PALE, va="top")
    for n, word in ((200, "200 rows"), (10_000, "10,000"), (1_000_000, "a million")):
        look = {"color": "#8A8A8A", "alpha": 0.75, "edgecolor": "white"}
        ax.scatter([], [], s=size_of(n), label=word, **look)
    ax.legend(loc="lower right", title="rows learned", labelspacing=1.1)
    fig.tight_layout(rect=(0, 0.03, 1, 1))


def place_names(ax, names, x, y, sizes):
    """Names beside their points, where neither a name nor a point is in the way."""
    fig = ax.figure
    fig.canvas.draw()
    radii = np.sqrt(sizes / np.pi) * fig.dpi / 72
    centres = ax.transData.transform(np.column_stack([x, y]))
    taken = [Bbox([c - r, c + r]) for c, r in zip(centres, radii)]
    taken += [text.get_window_extent() for text in ax.texts]
    level = ax.transData.transform((1.0, 1.0))[1]
    taken.append(Bbox([[0.0, level - 1.0], [fig.bbox.x1, level + 1.0]]))
    for name, centre, radius in zip(names, centres, radii):
        best = None
        for far, angle in product((4, 14, 26, 40, 60), np.pi * np.array(ANGLES) / 4):
            way = np.array([np.cos(angle), np.sin(angle)])
            text = ax.annotate(
                name,
                centre,
                centre + (radius + far) * way,
                xycoords="figure pixels",
                textcoords="figure pixels",
                ha="left" if way[0] > 0.1 else "right" if way[0] < -0.1 else "center",
                va="bottom" if way[1] > 0.1 else "top" if way[1] < -0.1 else "center",
                arrowprops={"arrowstyle": "-", "color": PALE, "lw": 0.7} if far > 10 else None,
            )
            box = text.get_window_extent()
            inside = ax.bbox.x0 < box.x0 and box.x1 < ax.bbox.x1 and box.y1 < ax.bbox.y1
            if inside and not any(box.overlaps(other) for other in taken):
                best = box
                break
            text.remove()
        if best is not None:
            taken.append(best)


ANGLES = (0, 4, 2, -2, 1, -1, 3, -3)  # in eighths of a turn, the best one first


# -- what a default fit costs ----------------------------------------------------------

WIDTHS = (8, 16, 32, 1000)  # columns: a colour for tables with at most so many
COLOURS_OF_WIDTHS = ("#56B4E9", "#0072B2", "#E69F00", "#D55E00")
MARKERS_OF_KINDS = {"rmse": "o", "log_loss": "^"}


def cost(_):
    """CPU seconds of default fits against rows, by columns, beside those of CatBoost."""
    seconds, about = defaultdict(list), {}
    for key, entry in common.read_json(common.RESULTS / "wild.json").items():
        table, _, method = key.split("/")
        if method in ("now", "CatBoost") and "cpu_seconds" in entry:
            seconds[table, method].append(entry["cpu_seconds"])
            about[table] = entry
    fig, ax = plt.subplots(figsize=(11, 6))
    for table, entry in about.items():
        marker = MARKERS_OF_KINDS["rmse" if "rmse" in entry else "log_loss"]
        colour = COLOURS_OF_WIDTHS[np.searchsorted(WIDTHS, entry["d"])]
        looks = {"now": {"s": 90, "color": colour}, "CatBoost": {"s": 25, "color": "#B8B8B8"}}
        for method, look in looks.items():
            if (table, method) in seconds:
                y = np.mean(seconds[table, method])
                ax.scatter(entry["n"], y, marker=marker, edgecolor="white", **look, zorder=3)
    for colour, most, least in zip(COLOURS_OF_WIDTHS, WIDTHS, (1, *WIDTHS)):
        label = f"{least} to {most} columns" if most < WIDTHS[-1] else f"more than {least}"
        ax.scatter([], [], s=90, color=colour, label=label)
    for kind, marker in MARKERS_OF_KINDS.items():
        label = "numbers" if kind == "rmse" else "labels"
        ax.scatter([], [], s=60, color=INK, marker=marker, label=label)
    ax.scatter([], [], s=25, color="#B8B8B8", label="CatBoost on the same table")
    plain_log(ax)
    ax.set_xlabel("training rows")
    ax.set_ylabel("CPU seconds of a default fit")
    ax.legend(frameon=False, ncols=2)
    return fig


# -- all of them -----------------------------------------------------------------------

PICTURES = {
    "accuracy_and_seconds": accuracy_and_seconds,
    "wins": wins,
    "time_and_memory": time_and_memory,
    "coverage": coverage,
    "choice": choice,
    "cost": cost,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=IMAGES, help="folder of the pictures")
    args = parser.parse_args()
    found = results()
    with plt.rc_context(STYLE):
        for name, draw in PICTURES.items():
            fig = draw(found)
            path = args.output / f"benchmarks_{name}.png"
            fig.savefig(path, metadata={"Software": None})
            plt.close(fig)
            common.progress(path)


if __name__ == "__main__":
    main()
