"""Measures uv with pools of several sizes and with a workqueue, in turns; scripts/uv bench runs it.

It appends to a CSV file and prints the medians of all that is in it.
"""

import argparse
import csv
import os
import pathlib
import shutil
import statistics
import sys
import time

HERE = pathlib.Path(__file__).parent
# How uv reads its cache: the program, and what its environment says.
WAYS = {
    "2 threads": ("stock", {"UV_CONCURRENT_CACHE_READS": "2"}),
    "4 threads (uv's own)": ("stock", {"UV_CONCURRENT_CACHE_READS": "4"}),
    "8 threads": ("stock", {"UV_CONCURRENT_CACHE_READS": "8"}),
    "512 threads": ("stock", {"UV_CONCURRENT_CACHE_READS": "512"}),
    "cmwq": ("cmwq", {}),
    "cmwq, scope cpu": ("cmwq", {"CMWQ_DEFAULT_AFFINITY_SCOPE": "cpu"}),
}
BASE = "4 threads (uv's own)"
COLUMNS = ["load", "way", "seconds", "cpu_s", "switches", "memory_kb"]


def loads(folder):
    """What uv is told, by the name of the load."""
    compile = ["pip", "compile", "--quiet", "--no-header", "--python", sys.executable]
    compile += [HERE / "requirements.in", "-o", folder / "resolved.txt"]
    install = ["pip", "install", "--quiet", "--no-deps", "--python", sys.executable]
    install += ["--target", folder / "installed", "-r", folder / "pinned.txt"]
    return {
        "resolve, offline": [*compile, "--offline"],
        "resolve, warm": compile,
        "install, warm": install,
    }


def run(way, command, folder):
    """Seconds, CPU seconds, context switches and memory of one run in a process of its own."""
    (folder / "resolved.txt").unlink(missing_ok=True)
    shutil.rmtree(folder / "installed", ignore_errors=True)
    program, says = WAYS[way]
    fixed = {"UV_CACHE_DIR": str(folder / "cache"), "UV_NO_PROGRESS": "1"}
    fixed["UV_CONFIG_FILE"] = str(HERE / "uv.toml")
    fixed |= says
    words = [str(word) for word in (folder / program, *command)]
    began = time.monotonic()
    pid = os.posix_spawn(words[0], words, {**os.environ, **fixed})
    _, status, used = os.wait4(pid, 0)
    seconds = time.monotonic() - began
    if status != 0:
        raise SystemExit(f"{way}: {words}: status {status}")
    switches = used.ru_nvcsw + used.ru_nivcsw
    return seconds, used.ru_utime + used.ru_stime, switches, used.ru_maxrss


def measure(arguments):
    folder = arguments.folder
    commands = loads(folder)
    is_new = not arguments.csv.exists()
    with open(arguments.csv, "a", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        if is_new:
            rows.writerow(COLUMNS)
        for load, command in commands.items():
            for round in range(-1, arguments.rounds):
                names = list(WAYS)
                # Each begins as often as another, and follows each other one.
                turn = names[round % len(names):] + names[: round % len(names)]
                for way in turn if round % 2 else reversed(turn):
                    figures = run(way, command, folder)
                    # The first round only warms up.
                    if round >= 0:
                        rows.writerow([load, way, *figures])
            file.flush()


def fill(arguments):
    """The cache, and the list of what is to be installed."""
    folder = arguments.folder
    commands = loads(folder)
    names = [HERE / "install.in" if word == HERE / "requirements.in" else word for word in commands["resolve, warm"]]
    run(BASE, names, folder)
    shutil.copy(folder / "resolved.txt", folder / "pinned.txt")
    run(BASE, commands["install, warm"], folder)
    run(BASE, commands["resolve, warm"], folder)
    for name in ("resolved.txt", "pinned.txt"):
        lines = (folder / name).read_text().splitlines()
        print(name, sum("==" in line for line in lines), "projects", file=sys.stderr)


def show(path):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    print("| load | cache reads on | time ms (range) | CPU ms (range) | switches | MiB | time / 4 threads | CPU / 4 threads |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    for load in dict.fromkeys(row["load"] for row in rows):
        of = {way: [row for row in rows if (row["load"], row["way"]) == (load, way)] for way in WAYS}

        def values(way, column):
            return [float(row[column]) for row in of[way]]

        for way in WAYS:
            def cell(column):
                all = values(way, column)
                return f"{statistics.median(all) * 1e3:.0f} ({min(all) * 1e3:.0f} to {max(all) * 1e3:.0f})"

            # Rounds are compared in pairs: what disturbs one run often disturbs its neighbours.
            def ratio(column):
                return statistics.median(a / b for a, b in zip(values(way, column), values(BASE, column)))

            cells = [load, way, cell("seconds"), cell("cpu_s"), f"{statistics.median(values(way, 'switches')):.0f}"]
            cells += [f"{statistics.median(values(way, 'memory_kb')) / 1024:.0f}"]
            print("|", " | ".join([*cells, f"{ratio('seconds'):.3f}", f"{ratio('cpu_s'):.3f}"]), "|")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--csv", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    fill(arguments)
    measure(arguments)
    show(arguments.csv)


main()
