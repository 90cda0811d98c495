#!/usr/bin/env python3
"""Writes vectors.txt: values of some types as other implementations encode them.

    python3 -m pip install --target DIR pycdr2==1.0.0 cyclonedds==11.0.1 rosbags==0.11.9
    (PYTHONPATH=DIR python3 make.py; NODE_PATH=JS/node_modules node make.cjs) > vectors.txt

with `npm install --prefix JS @foxglove/cdr@3.5.0`.

Each line: the implementation, the type, the encoding, the bytes. The values are those of ../vectors.rs.
Where an implementation cannot do a type, or not in an encoding, the line is missing and standard error says so.
"""

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Optional


def types_of(name):
    """The same types, made of the parts of one of the packages."""
    if name == "pycdr2":
        main, ann, types = import_module("pycdr2"), import_module("pycdr2.annotations"), import_module("pycdr2.types")
    else:
        main = import_module("cyclonedds.idl")
        ann, types = import_module("cyclonedds.idl.annotations"), import_module("cyclonedds.idl.types")
    IdlStruct, IdlUnion, IdlEnum, IdlBitmask = main.IdlStruct, main.IdlUnion, main.IdlEnum, main.IdlBitmask
    made = {}

    @dataclass
    @ann.final
    class Basics(IdlStruct, typename="Basics"):
        a: bool
        b: types.uint8
        c: types.int16
        d: types.uint64
        e: types.float32
        f: types.float64
        g: types.char
        h: types.int32
        i: str
        j: types.int64

    made["basics"] = Basics(True, 200, -2, 1 << 40, 1.5, -2.25, "x", -7, "text", -(1 << 40))

    @dataclass
    @ann.final
    class Point(IdlStruct, typename="Point"):
        x: types.int32
        y: types.float64

    class Color(IdlEnum, typename="Color", default="Green"):
        Red = 0
        Green = 5
        Blue = 9

    @dataclass
    @ann.final
    class Rows(IdlStruct, typename="Rows"):
        a: types.sequence[types.uint8]
        b: types.sequence[types.float64]
        c: types.sequence[str]
        d: types.array[types.float64, 2]
        e: types.array[str, 2]
        f: types.sequence[types.sequence[types.int16]]
        g: types.sequence[Point]
        h: types.array[types.array[types.int16, 2], 2]
        i: types.sequence[bool]

    made["rows"] = Rows([1, 2, 3], [0.5], ["a", ""], [1.0, 2.0], ["bc", "d"], [[1], [2, 3]], [Point(1, 2.0)], [[1, 2], [3, 4]], [True, False])

    @dataclass
    @ann.final
    class Enums(IdlStruct, typename="Enums"):
        a: Color
        b: types.sequence[Color]
        c: types.array[Color, 2]

    made["enums"] = Enums(Color.Blue, [Color.Red, Color.Green], [Color.Green, Color.Blue])

    @dataclass
    @ann.bit_bound(12)
    class Flags(IdlBitmask, typename="Flags"):
        READ: bool = False
        WRITE: bool = False
        for_others: bool = False

    @dataclass
    @ann.final
    class Masks(IdlStruct, typename="Masks"):
        a: types.uint8
        b: Flags

    made["masks"] = Masks(1, Flags(READ=True, for_others=True))

    @dataclass
    @ann.appendable
    class Inner(IdlStruct, typename="Inner"):
        a: types.uint8
        b: str

    @dataclass
    @ann.appendable
    class Appended(IdlStruct, typename="Appended"):
        a: types.uint8
        b: Inner
        c: types.sequence[Inner]
        d: types.uint64
        e: Point

    made["appended"] = Appended(1, Inner(2, "in"), [Inner(3, ""), Inner(4, "x")], 5, Point(6, 7.0))

    @dataclass
    @ann.final
    class Optionals(IdlStruct, typename="Optionals"):
        a: Optional[types.uint8]
        b: Optional[types.float64]
        c: Optional[str]
        d: Optional[Point]
        e: types.uint16

    made["optionals"] = Optionals(9, None, "there", Point(1, 2.0), 3)

    @dataclass
    @ann.mutable
    class Mutable(IdlStruct, typename="Mutable"):
        a: types.uint8
        ann.member_id("a", 7)
        b: types.uint64
        ann.must_understand("b")
        c: str
        d: Optional[types.int16]
        e: Optional[types.int32]
        f: types.sequence[types.uint8]
        g: types.sequence[types.float64]
        h: types.sequence[types.uint32]
        i: types.sequence[str]
        j: Inner
        k: Point
        l: Color
        m: types.array[types.int16, 3]

    made["mutable"] = Mutable(1, 2, "three", None, 5, [6, 7], [8.5], [9, 10], ["el", "even"], Inner(12, "in"), Point(13, 14.0), Color.Blue, [15, 16, 17])

    @ann.final
    class Number(IdlUnion, discriminator=types.int32, typename="Number"):
        a: types.case[1, types.float64]
        b: types.case[[2, 3], str]
        c: types.default[types.uint8]

    @dataclass
    @ann.final
    class Unions(IdlStruct, typename="Unions"):
        a: types.uint8
        b: Number
        c: Number
        d: types.sequence[Number]

    made["unions"] = Unions(1, Number(discriminator=1, value=2.5), Number(discriminator=2, value="two"), [Number(discriminator=0, value=3)])

    @ann.appendable
    class Choice(IdlUnion, discriminator=Color, typename="Choice"):
        a: types.case[Color.Red, types.float64]
        b: types.case[[Color.Green, Color.Blue], Inner]

    @dataclass
    @ann.appendable
    class Choices(IdlStruct, typename="Choices"):
        a: Choice
        b: types.sequence[Choice]

    made["choices"] = Choices(Choice(discriminator=Color.Green, value=Inner(1, "a")), [Choice(discriminator=Color.Red, value=2.5)])

    @dataclass
    @ann.final
    class Keyed(IdlStruct, typename="Keyed"):
        a: types.uint8
        b: str
        ann.key("b")
        c: types.uint64
        ann.key("c")
        d: Point
        ann.key("d")

    made["keyed"] = Keyed(1, "name", 1 << 40, Point(2, 3.0))

    @dataclass
    @ann.mutable
    class Short(IdlStruct, typename="Short"):
        a: types.uint8
        ann.key("a")
        ann.member_id("a", 9)
        b: types.float64
        c: types.uint32
        ann.key("c")
        ann.member_id("c", 4)

    made["short"] = Short(1, 2.5, 3)
    return made


def write(name):
    support = import_module("pycdr2._support" if name == "pycdr2" else "cyclonedds.idl._support")
    for what, value in types_of(name).items():
        idl = type(value).__idl__
        for version, order in [(1, "Big"), (1, "Little"), (2, "Big"), (2, "Little")]:
            label = f"xcdr{version}-{order.lower()}"
            try:
                endianness = getattr(support.Endianness, order)
                encoded = idl.serialize(value, use_version_2=version == 2, endianness=endianness)
                print(name, what, label, encoded.hex())
            except Exception as error:
                print(f"{name}: {what} in {label}: {error!r}", file=sys.stderr)
        if what in ("keyed", "short"):
            try:
                if name == "pycdr2":
                    print(name, what, "key", idl.key(value, True).hex())
                    print(name, what, "keyhash", idl.keyhash(value, True).hex())
                elif what == "keyed":
                    # Of types that are not final it gives the holder of the key with its headers, not what
                    # the hash is made of.
                    key = idl.serialize_key_normalized(value, True, support.Endianness.Big)
                    print(name, what, "key", key.hex())
            except Exception as error:
                print(f"{name}: the key of {what}: {error!r}", file=sys.stderr)


# The same types as ROS has them: an enum is its number, a row of rows is one row, and a sequence of sequences
# one of structs, which are their members in version 1.
ROS = {
    "basics": """
        bool a
        uint8 b
        int16 c
        uint64 d
        float32 e
        float64 f
        uint8 g
        int32 h
        string i
        int64 j""",
    "point": """
        int32 x
        float64 y""",
    "row": "int16[] a",
    "rows": """
        uint8[] a
        float64[] b
        string[] c
        float64[2] d
        string[2] e
        t/row[] f
        t/point[] g
        int16[4] h
        bool[] i""",
    "enums": """
        int32 a
        int32[] b
        int32[2] c""",
    "masks": """
        uint8 a
        uint16 b""",
    "inner": """
        uint8 a
        string b""",
    "appended": """
        uint8 a
        t/inner b
        t/inner[] c
        uint64 d
        t/point e""",
    "keyed": """
        uint8 a
        string b
        uint64 c
        t/point d""",
}


def write_rosbags():
    """rosbags knows version 1 alone, and nothing that ROS has not."""
    import numpy
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.EMPTY)
    types = {}
    for name, text in ROS.items():
        lines = "\n".join(line.strip() for line in text.splitlines())
        types.update(get_types_from_msg(lines, f"t/msg/{name}"))
    store.register(types)

    def made(name, *values):
        return store.types[f"t/msg/{name}"](*values)

    def row(kind, *values):
        return numpy.array(values, dtype=kind)

    def point(x, y):
        return made("point", x, y)

    def inner(a, b):
        return made("inner", a, b)

    values = [
        made("basics", True, 200, -2, 1 << 40, 1.5, -2.25, ord("x"), -7, "text", -(1 << 40)),
        made(
            "rows",
            row("uint8", 1, 2, 3),
            row("float64", 0.5),
            ["a", ""],
            row("float64", 1.0, 2.0),
            ["bc", "d"],
            [made("row", row("int16", 1)), made("row", row("int16", 2, 3))],
            [point(1, 2.0)],
            row("int16", 1, 2, 3, 4),
            row("bool", True, False),
        ),
        made("enums", 9, row("int32", 0, 5), row("int32", 5, 9)),
        made("masks", 1, 0b101),
        made("appended", 1, inner(2, "in"), [inner(3, ""), inner(4, "x")], 5, point(6, 7.0)),
        made("keyed", 1, "name", 1 << 40, point(2, 3.0)),
    ]
    for value in values:
        of = value.__msgtype__
        what = of.rsplit("/", 1)[1]
        for order in ["big", "little"]:
            encoded = store.serialize_cdr(value, of, little_endian=order == "little")
            print("rosbags", what, f"xcdr1-{order}", bytes(encoded).hex())


if __name__ == "__main__":
    for implementation in ["pycdr2", "cyclonedds"]:
        write(implementation)
    write_rosbags()
