#!/usr/bin/env python3
"""The texts of SVG pictures are inside the picture, and no two of them overlap. Usage: svg_texts.py FILE.svg...

The widths are those of DejaVu Sans, by class of character, rounded up."""
import re
import sys
import xml.etree.ElementTree as tree


def width(text, size):
    total = 0
    for letter in text:
        if letter in "il.,:;|!'()[]/ j-I":
            total += 0.40
        elif letter in "mwMW%@…":
            total += 1.0
        else:
            total += 0.70 if letter.isupper() else 0.64
    return total * size


def box(element, size):
    """Returns left, top, right and bottom."""
    text = "".join(element.itertext())
    size = float(element.get("font-size", size))
    x, y, wide = float(element.get("x", 0)), float(element.get("y", 0)), width(text, size)
    left = x - {"middle": wide / 2, "end": wide}.get(element.get("text-anchor"), 0)
    turn = re.match(r"rotate\(-90[ ,]", element.get("transform", ""))
    if turn:  # around its own point
        up = left - x
        return text, (x - 0.8 * size, y - up - wide, x + 0.25 * size, y - up)
    return text, (left, y - 0.8 * size, left + wide, y + 0.25 * size)


def overlap(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def main():
    errors = 0
    for path in sys.argv[1:]:
        root = tree.parse(path).getroot()
        _, _, wide, high = map(float, root.get("viewBox").split())
        name = "{http://www.w3.org/2000/svg}text"
        boxes = [box(element, root.get("font-size", "16")) for element in root.iter(name)]
        wrong = [f'"{text}" leaves the picture' for text, at in boxes
                 if at[0] < 0 or at[1] < 0 or at[2] > wide or at[3] > high]
        for index, (text, at) in enumerate(boxes):
            wrong += [f'"{text}" overlaps "{other}"' for other, there in boxes[:index] if overlap(at, there)]
        if not boxes:
            wrong.append("no text")
        errors += len(wrong)
        for each in wrong:
            print(f"{path}: {each}")
    return 1 if errors else 0


sys.exit(main())
