"""A raster image, written as PNG with only the standard library."""
import struct
import zlib

# Each letter has 5 x 7 dots: a row of bits for each line, from the top. Lower case is drawn as
# upper case.
GLYPHS = {
    "0": "0E11131519110E", "1": "040C040404040E", "2": "0E11010204081F", "3": "1F02040201110E",
    "4": "02060A121F0202", "5": "1F101E0101110E", "6": "0608101E11110E", "7": "1F010204080808",
    "8": "0E11110E11110E", "9": "0E11110F01020C", "A": "0E1111111F1111", "B": "1E11111E11111E",
    "C": "0E11101010110E", "D": "1C12111111121C", "E": "1F10101E10101F", "F": "1F10101E101010",
    "G": "0E11101711110F", "H": "1111111F111111", "I": "0E04040404040E", "J": "0702020202120C",
    "K": "11121418141211", "L": "1010101010101F", "M": "111B1515111111", "N": "11111915131111",
    "O": "0E11111111110E", "P": "1E11111E101010", "Q": "0E11111115120D", "R": "1E11111E141211",
    "S": "0F10100E01011E", "T": "1F040404040404", "U": "1111111111110E", "V": "11111111110A04",
    "W": "11111115151B11", "X": "11110A040A1111", "Y": "1111110A040404", "Z": "1F01020408101F",
    ".": "00000000000C0C", ",": "00000000040408", "-": "0000001F000000", "/": "01010204081010",
    "%": "18190204081303", "(": "02040808080402", ")": "08040202020408", "=": "00001F001F0000",
    "+": "0004041F040400", ":": "000C0C000C0C00", "_": "0000000000001F", " ": "00000000000000",
}
ROWS = {letter: bytes.fromhex(code) for letter, code in GLYPHS.items()}


class Canvas:
    def __init__(self, width, height):
        self.width, self.height = width, height
        self.dots = bytearray(b"\xff" * (3 * width * height))

    def dot(self, x, y, colour):
        if 0 <= x < self.width and 0 <= y < self.height:
            at = 3 * (y * self.width + x)
            self.dots[at:at + 3] = bytes(colour)

    def square(self, x, y, half, colour):
        for row in range(y - half, y + half + 1):
            for column in range(x - half, x + half + 1):
                self.dot(column, row, colour)

    def disc(self, x, y, radius, colour):
        for row in range(-radius, radius + 1):
            for column in range(-radius, radius + 1):
                if row * row + column * column <= radius * radius:
                    self.dot(x + column, y + row, colour)

    def line(self, start, end, colour, half=1, dash=0):
        """`dash`: dots drawn, then as many left out; 0: solid."""
        (x0, y0), (x1, y1) = start, end
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(steps + 1):
            if dash and step // dash % 2:
                continue
            self.square(round(x0 + (x1 - x0) * step / steps), round(y0 + (y1 - y0) * step / steps), half, colour)

    def text(self, x, y, words, colour=(40, 40, 40), scale=2):
        for letter in words.upper():
            for row, bits in enumerate(ROWS.get(letter, ROWS[" "])):
                for column in range(5):
                    if bits >> (4 - column) & 1:
                        for dot in range(scale * scale):
                            self.dot(x + column * scale + dot % scale, y + row * scale + dot // scale, colour)
            x += 6 * scale

    def png(self):
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        stride = 3 * self.width
        lines = b"".join(b"\0" + self.dots[i:i + stride] for i in range(0, len(self.dots), stride))
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        data = zlib.compress(lines, 9)
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def text_width(words, scale=2):
    return 6 * scale * len(words) - scale
