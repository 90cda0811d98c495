// Writes lines of vectors.txt: values of some types as @foxglove/cdr encodes them. How it is run: make.py.
//
// It writes numbers, texts, lengths and headers where it is told to; which types have which headers is said here, sizes that
// are in front are those of what it has written.

const { CdrSizeCalculator, CdrWriter, EncapsulationKind: Kind } = require("@foxglove/cdr");

const inner = (w, framed, a, b) => {
  if (framed) w.dHeader(1 + 3 + 4 + b.length + 1);
  return w.uint8(a).string(b);
};
const point = (w, x, y) => w.int32(x).float64(y);

// What another writer, in the same place, needs for the same.
function size(kind, at, write) {
  const other = new CdrWriter({ kind });
  for (let count = 0; count < at; count++) other.uint8(0);
  write(other);
  return other.size - 4 - at;
}

// Writes with the size in front, in version 2.
function sized(w, write) {
  if (!w.isCDR2) return write(w);
  w.align(4);
  const at = w.size - 4 + 4;
  w.dHeader(size(w.kind, at, write));
  write(w);
}

const types = {
  basics: (w) =>
    w
      .int8(1)
      .uint8(200)
      .int16(-2)
      .uint64(1n << 40n)
      .float32(1.5)
      .float64(-2.25)
      .uint8("x".charCodeAt(0))
      .int32(-7)
      .string("text")
      .int64(-(1n << 40n)),
  rows: (w) => {
    w.uint8Array([1, 2, 3], true).float64Array([0.5], true);
    sized(w, (w) => w.sequenceLength(2).string("a").string(""));
    w.float64Array([1, 2]);
    sized(w, (w) => w.string("bc").string("d"));
    sized(w, (w) => w.sequenceLength(2).int16Array([1], true).int16Array([2, 3], true));
    sized(w, (w) => point(w.sequenceLength(1), 1, 2));
    w.int16Array([1, 2, 3, 4]).uint8Array([1, 0], true);
  },
  enums: (w) => {
    w.int32(9);
    sized(w, (w) => w.sequenceLength(2).int32(0).int32(5));
    sized(w, (w) => w.int32(5).int32(9));
  },
  masks: (w) => w.uint8(1).uint16(5),
  appended: (w) =>
    sized(w, (w) => {
      w.uint8(1);
      inner(w, w.isCDR2, 2, "in");
      sized(w, (w) => {
        w.sequenceLength(2);
        inner(w, w.isCDR2, 3, "");
        inner(w, w.isCDR2, 4, "x");
      });
      w.uint64(5n);
      point(w, 6, 7);
    }),
  keyed: (w) => point(w.uint8(1).string("name").uint64(1n << 40n), 2, 3),
};

const plain = [
  ["xcdr1-big", Kind.CDR_BE, Kind.CDR_BE],
  ["xcdr1-little", Kind.CDR_LE, Kind.CDR_LE],
  ["xcdr2-big", Kind.RTPS_CDR2_BE, Kind.RTPS_DELIMITED_CDR2_BE],
  ["xcdr2-little", Kind.RTPS_CDR2_LE, Kind.RTPS_DELIMITED_CDR2_LE],
];
for (const [what, write] of Object.entries(types)) {
  for (const [form, final, delimited] of plain) {
    const w = new CdrWriter({ kind: what === "appended" ? delimited : final });
    write(w);
    console.log("foxglove", what, form, Buffer.from(w.data).toString("hex"));
  }
}

// Members with their ids and lengths: `short` of vectors.rs.
for (const [form, kind] of [
  ["xcdr1-big", Kind.PL_CDR_BE],
  ["xcdr1-little", Kind.PL_CDR_LE],
  ["xcdr2-big", Kind.RTPS_PL_CDR2_BE],
  ["xcdr2-little", Kind.RTPS_PL_CDR2_LE],
]) {
  const w = new CdrWriter({ kind });
  sized(w, (w) => {
    w.emHeader(true, 9, 1).uint8(1);
    w.emHeader(false, 10, 8).float64(2.5);
    w.emHeader(true, 4, 4).uint32(3);
    if (!w.isCDR2) w.sentinelHeader();
  });
  console.log("foxglove short", form, Buffer.from(w.data).toString("hex"));
}
