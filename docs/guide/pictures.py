#!/usr/bin/env python3
"""Draws the pictures of the guide.

    pictures.py            writes them to src/pictures
    pictures.py --check    fails if a file there is not what would be written

Each picture has a background of its own, so that it is legible on light and on dark pages.
Pictures of measurements are drawn from measured.json; benchmarks draw theirs themselves.
"""

import json
import math
import sys
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
PICTURES = HERE / "src" / "pictures"
PAPER, INK, FAINT, LINE = "#fbfaf6", "#1c2530", "#5b6775", "#c9ccd1"
TCP, RDMA, SHARED, LLC, CLC = "#6b7280", "#b45309", "#0f766e", "#6d28d9", "#1d4ed8"


class Picture:
    """An SVG picture that grows."""

    def __init__(self, name, width, height, what):
        self.name, self.width, self.height, self.parts = name, width, height, []
        self.what = what

    def add(self, tag, text=None, **attributes):
        names = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
        written = "".join(f' {key}="{escape(str(value))}"' for key, value in names.items())
        body = "/>" if text is None else f">{escape(text)}</{tag}>"
        self.parts.append(f"<{tag}{written}{body}")

    def text(self, x, y, text, size=14, colour=INK, anchor="start", weight="normal"):
        self.add("text", text, x=x, y=y, font_size=size, fill=colour, text_anchor=anchor,
                 font_weight=weight)

    def box(self, x, y, width, height, lines=(), colour=INK, fill="#ffffff", size=14):
        self.add("rect", x=x, y=y, width=width, height=height, rx=6, fill=fill, stroke=colour,
                 stroke_width=1.5)
        first = y + height / 2 - (len(lines) - 1) * 9 + 5
        for number, line in enumerate(lines):
            self.text(x + width / 2, first + 18 * number, line, size=size, anchor="middle",
                      weight="bold" if number == 0 and len(lines) > 1 else "normal")

    def line(self, x1, y1, x2, y2, colour=INK, width=1.5, dash=None):
        more = {"stroke_dasharray": dash} if dash else {}
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=colour, stroke_width=width, **more)

    def arrow(self, x1, y1, x2, y2, colour=INK, width=1.5, dash=None):
        angle = math.atan2(y2 - y1, x2 - x1)
        back = 9 if width < 3 else 14
        end = (x2 - back * 0.8 * math.cos(angle), y2 - back * 0.8 * math.sin(angle))
        self.line(x1, y1, round(end[0], 1), round(end[1], 1), colour, width, dash)
        points = [(x2, y2)] + [
            (x2 - back * math.cos(angle + side), y2 - back * math.sin(angle + side))
            for side in (0.42, -0.42)
        ]
        self.add("polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), fill=colour)

    def svg(self):
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" font-family="sans-serif" role="img">'
        )
        paper = (f'<rect width="{self.width}" height="{self.height}" rx="8" fill="{PAPER}" '
                 f'stroke="{LINE}"/>')
        title = f"<title>{escape(self.what)}</title>"
        return "\n".join([head, title, paper, *self.parts, "</svg>", ""])


def ways():
    p = Picture("ways", 760, 330, "One socket, three carriers: shared memory, RDMA, TCP")
    p.box(30, 30, 180, 52, ["a program", "connect, read, write"])
    p.box(30, 110, 180, 52, ["SMC", "for each connection"], colour=CLC)
    p.arrow(120, 82, 120, 110)
    for row, (colour, name, about, peer) in enumerate([
        (SHARED, "SMC-D", "shared memory", "a process of the same host"),
        (RDMA, "SMC-R", "RDMA writes over RoCE", "a host in reach of an RNIC"),
        (TCP, "TCP", "as if SMC were not there", "everyone else"),
    ]):
        y = 20 + row * 80
        p.arrow(210, 136, 318, y + 28, colour, 2.5)
        p.box(320, y, 190, 56, [name, about], colour=colour)
        p.arrow(510, y + 28, 566, y + 28, colour, 2.5)
        p.text(572, y + 33, peer, size=12)
    p.text(30, 290, "Each connection begins as TCP, and both ends agree over it. If one of them does not "
           "use SMC,", 13, FAINT)
    p.text(30, 310, "it stays TCP from its first byte, and the program does not notice.", 13, FAINT)
    return p


def ladder():
    rows = [
        ("h", "TCP connects, and both SYNs announce SMC"),
        (1, TCP, "SYN + option E2D4C3D9"), (-1, TCP, "SYN-ACK + option E2D4C3D9"), (1, TCP, "ACK"),
        ("h", "CLC: the two agree, in messages over TCP"),
        (1, CLC, "Proposal: who I am, my subnets, GIDs, ISM devices"),
        (-1, CLC, "Accept: queue pair, key and address of my RMB, token"),
        (1, CLC, "Confirm: the same of mine"),
        ("h", "LLC: the link is tried, in messages over RoCE (SMC-R only)"),
        (-1, LLC, "CONFIRM LINK"), (1, LLC, "CONFIRM LINK, reply"),
        (-1, LLC, "ADD LINK: is there a second path?"), (1, LLC, "ADD LINK, reply"),
        ("h", "Data: written into the peer's memory, then announced by CDC"),
        (1, RDMA, "RDMA WRITE into the server's ring"), (1, SHARED, "CDC: producer cursor"),
        (-1, SHARED, "CDC: consumer cursor"),
        ("h", "End: both sides close by CDC, then TCP"),
        (1, SHARED, "CDC: sending done, closed"), (-1, SHARED, "CDC: closed"), (1, TCP, "FIN"),
    ]
    height = 96 + sum(36 if row[0] == "h" else 27 for row in rows)
    p = Picture("handshake", 760, height, "The messages of a connection over SMC-R")
    p.box(40, 16, 110, 34, ["client"])
    p.box(610, 16, 110, 34, ["server"])
    p.line(95, 50, 95, height - 20, LINE)
    p.line(665, 50, 665, height - 20, LINE)
    y = 62
    for row in rows:
        if row[0] == "h":
            y += 36
            p.text(380, y - 8, row[1], 13, FAINT, "middle")
        else:
            y += 27
            direction, colour, text = row
            width = 3.5 if "WRITE" in text else 1.8
            ends = (97, 663) if direction > 0 else (663, 97)
            p.arrow(ends[0], y, ends[1], y, colour, width)
            p.text(380, y - 5, text, 13, colour, "middle")
    return p


def cursors():
    p = Picture("cursors", 760, 300, "A ring with its producer and consumer cursors")
    p.text(30, 32, "The ring of the reader: memory that the writer writes", 14, INK, weight="bold")
    cell, x0, y0, cells = 43, 30, 60, 16
    for number in range(cells):
        filled = 4 <= number < 11
        p.add("rect", x=x0 + number * cell, y=y0, width=cell, height=46,
              fill="#c7e5e1" if filled else "#ffffff", stroke=LINE, stroke_width=1)
    p.text(x0 + 7.5 * cell, y0 + 28, "written, not read yet", 13, INK, "middle")
    p.text(x0 + 2 * cell, y0 + 28, "free", 13, FAINT, "middle")
    p.text(x0 + 13.5 * cell, y0 + 28, "free: the window", 13, FAINT, "middle")
    consumer, producer = x0 + 4 * cell, x0 + 11 * cell
    p.arrow(consumer, y0 + 92, consumer, y0 + 48, CLC, 2.5)
    p.text(consumer, y0 + 110, "consumer cursor", 14, CLC, "middle", "bold")
    p.text(consumer, y0 + 128, "the reader moves it,", 13, FAINT, "middle")
    p.text(consumer, y0 + 145, "and sends it by CDC", 13, FAINT, "middle")
    p.arrow(producer, y0 + 92, producer, y0 + 48, RDMA, 2.5)
    p.text(producer, y0 + 110, "producer cursor", 14, RDMA, "middle", "bold")
    p.text(producer, y0 + 128, "the writer moves it behind its WRITE,", 13, FAINT, "middle")
    p.text(producer, y0 + 145, "and sends it by CDC", 13, FAINT, "middle")
    p.text(30, 250, "A cursor is a position and a count of wraps, so that a full ring is not an empty "
           "one. Window:", 13, FAINT)
    p.text(30, 270, "size − (producer − consumer). No byte passes through a kernel, and none is copied "
           "by the receiving end", 13, FAINT)
    p.text(30, 288, "before the program reads it.", 13, FAINT)
    return p


def shared():
    p = Picture("smc-d", 760, 320, "SMC-D: two processes that write into each other's memory")
    for x, name, mine in ((30, "process A", "A reads here, B writes"),
                          (480, "process B", "B reads here, A writes")):
        p.box(x, 30, 250, 200, colour=FAINT)
        p.text(x + 125, 56, name, 15, INK, "middle", "bold")
        p.box(x + 25, 150, 200, 56, ["DMB", mine], colour=SHARED, fill="#e3f3f1", size=13)
        p.box(x + 25, 76, 200, 40, ["read, write"], size=13)
    p.arrow(255, 88, 505, 162, SHARED, 2.5)
    p.arrow(505, 104, 255, 178, SHARED, 2.5)
    p.text(380, 84, "write: bytes, then the head", 13, SHARED, "middle")
    p.box(250, 246, 260, 34, ["Unix socket, once: sealed memory files"], colour=TCP, size=12)
    p.line(155, 230, 250, 263, TCP, 1.5, "4 4")
    p.line(605, 230, 510, 263, TCP, 1.5, "4 4")
    p.text(380, 304, "The head of a DMB is the CDC message: two cursors and flags, 32 bytes.", 13, FAINT,
           "middle")
    return p


def fallback():
    p = Picture("fallback", 760, 430, "How a connection becomes SMC-D, SMC-R or TCP")
    steps = [
        ("Does this side's policy permit SMC with the peer?", "Policy"),
        ("Is the peer on this host, and calls back?", None),
        ("Did SYN and SYN-ACK carry the option?", "NotOffered, NoOption, CannotAsk"),
        ("Has each side an RNIC that reaches the other?", "NoDevice, or Decline"),
        ("Does CONFIRM LINK pass over RoCE in time?", "Decline, 0x02010000"),
    ]
    for row, (question, why) in enumerate(steps):
        y = 24 + row * 70
        p.box(30, y, 370, 42, [question], size=13)
        if row + 1 < len(steps):
            p.arrow(215, y + 42, 215, y + 70)
            p.text(224, y + 60, "no: another host" if why is None else "yes", 12, FAINT)
        if why is None:
            p.arrow(400, y + 21, 508, y + 21, SHARED, 2.5)
            p.text(454, y + 14, "yes", 12, SHARED, "middle")
            p.box(510, y, 210, 42, ["SMC-D"], colour=SHARED, fill="#e3f3f1")
        else:
            p.arrow(400, y + 21, 508, y + 21, TCP, 1.5)
            p.text(454, y + 14, "no", 12, TCP, "middle")
            p.box(510, y, 210, 42, ["TCP", why], colour=TCP, size=12)
    p.arrow(215, 346, 215, 374, RDMA, 2.5)
    p.text(224, 364, "yes", 12, RDMA)
    p.box(30, 376, 370, 36, ["SMC-R"], colour=RDMA, fill="#fbeedd")
    return p


def containers():
    p = Picture("containers", 760, 320, "Which containers reach each other by SMC-D")
    p.box(24, 24, 430, 220, colour=FAINT)
    p.text(44, 48, "one network namespace: a pod, --network container:…, host", 13, FAINT)
    p.box(50, 80, 170, 60, ["container A", "uid 1000"], colour=SHARED)
    p.box(258, 80, 170, 60, ["container B", "uid 1000"], colour=SHARED)
    p.box(258, 166, 170, 60, ["container C", "uid 1001"], colour=SHARED)
    p.arrow(220, 104, 258, 104, SHARED, 2.5)
    p.arrow(258, 118, 220, 118, SHARED, 2.5)
    p.text(239, 74, "SMC-D", 13, SHARED, "middle", "bold")
    p.arrow(220, 140, 256, 180, SHARED, 2.5)
    p.arrow(256, 180, 220, 140, SHARED, 2.5)
    p.text(176, 188, "SMC-D", 13, SHARED, "middle", "bold")
    p.box(530, 24, 206, 220, colour=FAINT)
    p.text(550, 48, "another one", 13, FAINT)
    p.box(550, 80, 166, 60, ["container D", "uid 1000"], colour=TCP)
    p.arrow(428, 104, 548, 104, TCP, 1.5, "5 4")
    p.text(490, 96, "TCP", 13, TCP, "middle", "bold")
    p.text(24, 276, "What counts is the network namespace: the kernel names the other end of a "
           "connection in it,", 13, FAINT)
    p.text(24, 296, "and the processes call each other there.", 13, FAINT)
    return p


def bars(name, title, what, note, rows, unit):
    """Horizontal bars, in groups: (group, [(label, value, colour)])."""
    count = sum(len(group) for _, group in rows)
    height = 74 + count * 26 + len(rows) * 16 + 30
    p = Picture(name, 760, height, what)
    p.text(24, 32, title, 15, INK, weight="bold")
    most = max(value for _, group in rows for _, value, _ in group)
    y = 56
    for group, values in rows:
        p.text(24, y + 18, group, 13)
        for label, value, colour in values:
            width = max(2, round(430 * value / most, 1))
            p.add("rect", x=220, y=y + 3, width=width, height=19, fill=colour, rx=2)
            p.text(210, y + 18, label, 12, FAINT, "end")
            shown = f"{value:,.1f}" if value < 100 else f"{value:,.0f}"
            p.text(226 + width, y + 18, f"{shown} {unit}", 12)
            y += 26
        y += 16
    p.text(24, height - 18, note, 12, FAINT)
    return p


def measured():
    data = HERE / "measured.json"
    if not data.exists():
        return
    colours = {"TCP": TCP, "Unix socket": CLC, "SMC-D": SHARED}
    for plot in json.loads(data.read_text()):
        rows = [(row["load"], [(carrier, value, colours[carrier])
                               for carrier, value in row["values"].items()])
                for row in plot["rows"]]
        yield bars(plot["name"], plot["title"], plot["title"], plot["note"], rows, plot["unit"])


def main():
    checks = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not checks:
        sys.exit(__doc__)
    PICTURES.mkdir(exist_ok=True)
    stale = []
    pictures = [ways(), ladder(), cursors(), shared(), fallback(), containers(), *measured()]
    for picture in pictures:
        file = PICTURES / f"{picture.name}.svg"
        if not checks:
            file.write_text(picture.svg())
        elif not file.exists() or file.read_text() != picture.svg():
            stale.append(file.name)
    if stale:
        sys.exit(f"not as docs/guide/pictures.py draws them: {', '.join(stale)}")


if __name__ == "__main__":
    main()
