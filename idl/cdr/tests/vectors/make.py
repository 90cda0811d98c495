#!/usr/bin/env python3
"""Writes vectors.txt: values of some types as other implementations encode them.

    python3 -m pip install --target DIR pycdr2==1.0.0 cyclonedds==11.0.1
    PYTHONPATH=DIR python3 make.py > vectors.txt

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


if __name__ == "__main__":
    for implementation in ["pycdr2", "cyclonedds"]:
        write(implementation)
