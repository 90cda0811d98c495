//! Compilation to Rust of IDL files in the form that ROS 2 generates: 180 files that include each
//! other, each separately with its includes, and all into one file.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::fmt::Write;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use idl::{Compiler, Generator};

const PACKAGES: usize = 12;
const MESSAGES: usize = 15;

const TYPES: [&str; 12] = [
    "boolean",
    "octet",
    "uint8",
    "int16",
    "uint32",
    "int64",
    "float",
    "double",
    "string",
    "string<64>",
    "sequence<double>",
    "sequence<uint8, 256>",
];

/// A message of a package: constants, a typedef for its arrays, and members with comments, defaults
/// and units; it includes earlier messages.
fn message(package: usize, number: usize) -> String {
    let all = package * MESSAGES + number;
    let mut text = format!(
        "// generated from a message of an interface package\n// with input from \
         bench_{package}_msgs/msg/Message{number}.msg\n\n"
    );
    let others: Vec<usize> = (1..=4).filter_map(|step| all.checked_sub(step * 7)).collect();
    for other in &others {
        let (package, number) = (other / MESSAGES, other % MESSAGES);
        writeln!(text, "#include \"bench_{package}_msgs/msg/Message{number}.idl\"")
            .expect("a string takes all");
    }
    write!(
        text,
        "\nmodule bench_{package}_msgs {{\n  module msg {{\n    typedef double double__{number}_9[9];\n    \
         module Message{number}_Constants {{\n"
    )
    .expect("a string takes all");
    for constant in 0..8 {
        write!(
            text,
            "      @verbatim (language=\"comment\", text=\n        \"What {constant} stands for.\" \"\\n\" \
             \"In more than one line.\")\n      const uint8 MODE_{constant} = {constant};\n"
        )
        .expect("a string takes all");
    }
    write!(
        text,
        "    }};\n    @verbatim (language=\"comment\", text=\n      \"A message of a package.\" \"\\n\" \
         \"It has members of many types.\")\n    struct Message{number} {{\n"
    )
    .expect("a string takes all");
    for (index, other) in others.iter().enumerate() {
        let (package, number) = (other / MESSAGES, other % MESSAGES);
        writeln!(text, "      bench_{package}_msgs::msg::Message{number} part_{index};\n")
            .expect("a string takes all");
    }
    writeln!(text, "      double__{number}_9 covariance;\n").expect("a string takes all");
    for member in 0..14 {
        let ty = TYPES[(all + member) % TYPES.len()];
        let default = if ty == "int64" { "      @default (value=5)\n" } else { "" };
        write!(
            text,
            "      @verbatim (language=\"comment\", text=\n        \"Member {member}, in [m].\")\n{default}      \
             @unit (value=\"m\")\n      {ty} member_{member};\n\n"
        )
        .expect("a string takes all");
    }
    text + "    };\n  };\n};\n"
}

fn compile(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let mut paths: Vec<PathBuf> = Vec::new();
    let (mut bytes, mut lines) = (0, 0);
    for package in 0..PACKAGES {
        let directory = folder.path().join(format!("bench_{package}_msgs/msg"));
        std::fs::create_dir_all(&directory).expect("a folder can be made");
        for number in 0..MESSAGES {
            let text = message(package, number);
            bytes += text.len();
            lines += text.lines().count();
            let path = directory.join(format!("Message{number}.idl"));
            std::fs::write(&path, text).expect("a file can be written");
            paths.push(path);
        }
    }
    println!("{} files, {lines} lines, {bytes} bytes", paths.len());
    let compiler = Compiler::new().include(folder.path());
    let run = |paths: &[PathBuf]| {
        let compiled = compiler.compile(paths).expect("the files are there");
        let specification = compiled.specification.expect("the files are right");
        Generator::new().generate(&specification)
    };
    let mut group = criterion.benchmark_group("idl");
    group.sample_size(10).measurement_time(Duration::from_secs(5));
    group.bench_function("180 files, each for itself", |bencher| {
        bencher.iter(|| {
            for path in &paths {
                black_box(run(std::slice::from_ref(path)));
            }
        });
    });
    group.bench_function("180 files into one", |bencher| {
        bencher.iter(|| black_box(run(&paths)));
    });
    group.finish();
}

criterion_group!(benches, compile);
criterion_main!(benches);
