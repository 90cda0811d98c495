#!/usr/bin/env python3
"""Writes vectors.txt: type objects as other implementations make them.

    idlc types.idl                                          (Debian: cyclonedds-tools 0.10.2)
    python3 -m pip install --target DIR cyclonedds==11.0.1
    PYTHONPATH=DIR python3 make.py types.c > vectors.txt

Each line: the implementation, the type, and a TypeMapping of it as XCDR2, little endian: the type objects of
all types that it is made of. Those of the types of types.idl come from idlc, which knows no types that contain
themselves; those come from the Python package.
"""

import re
import sys
from dataclasses import dataclass
from typing import Optional

import cyclonedds.idl as idl
import cyclonedds.idl.annotations as ann
import cyclonedds.idl.types as types

text = open(sys.argv[1]).read()
for name, body in re.findall(r"#define TYPE_MAP_CDR_(\w+) \(unsigned char \[\]\)\{(.*?)\}", text, re.S):
    if name == "V_Everything":
        digits = re.findall(r"0x([0-9a-f]{2})", body)
        print("idlc", name.replace("_", "::"), "".join(digits))


@dataclass
@ann.appendable
class Tree(idl.IdlStruct, typename="V.Tree"):
    value: types.int8
    children: types.sequence["Tree"]
    next: Optional["Tree"]
    ann.external("next")


@dataclass
@ann.mutable
class Husband(idl.IdlStruct, typename="V.Husband"):
    name: str
    wife: Optional["Wife"]
    ann.external("wife")


@dataclass
@ann.mutable
class Wife(idl.IdlStruct, typename="V.Wife"):
    name: str
    husband: Optional["Husband"]
    ann.external("husband")


for of in [Tree, Husband]:
    of.__idl__.populate()
    of.__idl__.get_type_mapping()
    print("python", of.__idl__.idl_transformed_typename.replace(".", "::"), bytes(of.__idl__._xt_bytedata[1]).hex())
