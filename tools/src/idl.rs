//! `squall idl`: checking IDL files, compiling them to Rust, and printing types as IDL.
//!
//! Owns: the output of a compiler run. Never does: anything about IDL; the crate `idl` does.

mod print;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use idl::build::{Build, BuildError, Built};
use idl::model::Extensibility;
use idl::{Compiler, Diagnostic, Diagnostics, Generator, Severity};
use serde_json::{Value, json};

use crate::outcome::{CommandAnswer, CommandResult, Failure, show};

/// Command for IDL files.
#[derive(Args, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
    squall idl check nav.idl -I /opt/ros/share -D DEBUG\n  \
    squall idl gen nav.idl -o src/nav.rs\n  \
    squall idl gen std_msgs/msg/*.msg -I /opt/ros/share -o src/std_msgs.rs\n  \
    squall idl print --topic Attitude"
)]
pub(crate) struct IdlArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Check files and report all errors; exit code 1 if there are any.
    #[command(after_help = "Example:\n  squall idl check nav.idl -I idl -D LIMIT=20")]
    Check(InputArgs),
    /// Generate Rust for files and the files they include.
    #[command(after_help = "Examples:\n  \
        squall idl gen nav.idl -o nav.rs\n  \
        squall idl gen a.idl b.idl -o messages.rs     one file; what both include is in it once\n  \
        squall idl gen a.idl b.idl -o src/generated   a file for each, with all that it includes")]
    Gen(GenArgs),
    /// Print types as IDL: those of a file, or the type that the participants of a topic announce.
    #[command(after_help = "Examples:\n  \
        squall idl print types.xml                     all types of an XML file\n  \
        squall idl print types.xml Nav::Track          one type, and the types within it\n  \
        squall idl print flight.rec                    the types of recorded topics\n  \
        squall idl print --topic Attitude > attitude.idl\n\n\
        The text compiles to the same types. Constants, typedefs and comments are not parts of types and are left out.")]
    Print(print::PrintArgs),
}

/// Files and settings to read with.
#[derive(Args, Debug)]
struct InputArgs {
    /// IDL files, or interface files of ROS 2 packages (.msg, .srv, .action).
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    search: SearchArgs,
}

/// Settings for reading files.
#[derive(Args, Debug)]
pub(crate) struct SearchArgs {
    /// Directory to search for included files.
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Define a macro; without a value it is 1.
    #[arg(short = 'D', value_name = "NAME[=VALUE]", value_parser = define)]
    define: Vec<(String, String)>,
}

impl SearchArgs {
    /// Returns a compiler with these settings.
    pub(crate) fn compiler(&self) -> Compiler {
        let compiler = self.include.iter().fold(Compiler::new(), Compiler::include);
        let define =
            |compiler: Compiler, (name, value): &(String, String)| compiler.define(name, value);
        self.define.iter().fold(compiler, define)
    }
}

/// Arguments of the generation.
#[derive(Args, Debug)]
struct GenArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Output: a file `NAME.rs`, or a directory.
    #[arg(short, long, value_name = "OUT")]
    out: PathBuf,
    /// Extensibility of types without an annotation.
    #[arg(long, value_name = "KIND", value_enum)]
    default_extensibility: Option<ExtensibilityKind>,
    /// Path of `DdsType` in the generated code, if not in the crate `dds-api`.
    #[arg(long, value_name = "PATH")]
    crate_path: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ExtensibilityKind {
    Final,
    Appendable,
    Mutable,
}

fn define(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, "1"));
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        return Err(format!("`{name}` is no name of a macro"));
    }
    if value.contains(['\n', '\r']) {
        return Err("a macro's value is one line".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Runs the command.
pub(crate) fn run(args: &IdlArgs, json: bool) -> CommandResult {
    match &args.command {
        Command::Check(input) => check(input, json),
        Command::Gen(args) => generate(args, json),
        Command::Print(args) => print::run(args, json),
    }
}

/// Checks each file separately, as it would be compiled.
fn check(input: &InputArgs, json: bool) -> CommandResult {
    let compiler = input.search.compiler();
    let mut diagnostics = Diagnostics::default();
    for file in &input.files {
        let compiled =
            compiler.compile(&[file]).map_err(|error| Failure::unreadable(file, &error))?;
        diagnostics.merge(compiled.diagnostics);
    }
    tell(&input.files, &diagnostics, None, json)
}

fn generate(args: &GenArgs, json: bool) -> CommandResult {
    let mut generator = Generator::new();
    if let Some(path) = &args.crate_path {
        generator = generator.crate_path(path);
    }
    if let Some(kind) = args.default_extensibility {
        generator = generator.default_extensibility(match kind {
            ExtensibilityKind::Final => Extensibility::Final,
            ExtensibilityKind::Appendable => Extensibility::Appendable,
            ExtensibilityKind::Mutable => Extensibility::Mutable,
        });
    }
    let mut build = Build::new().generator(generator);
    for directory in &args.input.search.include {
        build = build.include(directory);
    }
    for (name, value) in &args.input.search.define {
        build = build.define(name, value);
    }
    let directory = match args.out.extension() {
        Some(extension) if extension == "rs" => {
            let name = args.out.file_stem().unwrap_or_default();
            build = build.together(&name.to_string_lossy());
            args.out.parent().unwrap_or(Path::new("")).to_owned()
        }
        _ => args.out.clone(),
    };
    if !directory.as_os_str().is_empty() {
        std::fs::create_dir_all(&directory).map_err(|error| {
            Failure::new(format!("the directory {} cannot be made: {error}", directory.display()))
        })?;
    }
    match build.compile_into(&args.input.files, &directory) {
        Ok(Built { written, diagnostics, .. }) => {
            tell(&args.input.files, &diagnostics, Some(&written), json)
        }
        Err(BuildError::Idl(diagnostics)) => tell(&args.input.files, &diagnostics, Some(&[]), json),
        Err(error @ (BuildError::SameOutput { .. } | BuildError::NoName { .. })) => {
            Err(Failure::Usage(format!("{error}; or give -o a name that ends in .rs")))
        }
        Err(BuildError::Read { file, error }) => Err(Failure::unreadable(&file, &error)),
        Err(error) => Err(Failure::new(error.to_string())),
    }
}

/// Shows the messages about the files, and the files written.
fn tell(
    files: &[PathBuf],
    diagnostics: &Diagnostics,
    written: Option<&[PathBuf]>,
    json: bool,
) -> CommandResult {
    let of = |severity: Severity| -> Vec<Value> {
        let those = diagnostics.iter().filter(|one| one.severity == severity);
        those.map(fields).collect()
    };
    let errors = of(Severity::Error);
    let (count, outcome) = match errors.len() {
        0 => (String::new(), CommandAnswer::Yes),
        1 => ("one error".to_owned(), CommandAnswer::No),
        many => (format!("{many} errors"), CommandAnswer::No),
    };
    let plural = if files.len() == 1 { "" } else { "s" };
    let mut text = String::new();
    if !diagnostics.is_empty() {
        text += &format!("{diagnostics}\n");
    }
    text += &match (outcome, written) {
        (CommandAnswer::No, Some(_)) => format!("{count}; nothing is written"),
        (CommandAnswer::No, None) => count,
        (CommandAnswer::Yes, None) => format!("Nothing is wrong in {} file{plural}.", files.len()),
        (CommandAnswer::Yes, Some(written)) => {
            let written: Vec<String> =
                written.iter().map(|one| one.display().to_string()).collect();
            format!("Written: {}", written.join(", "))
        }
    };
    let mut report = json!({
        "files": files,
        "errors": errors,
        "warnings": of(Severity::Warning),
        "notes": of(Severity::Note),
    });
    if let Some(written) = written {
        report["written"] = json!(written);
    }
    show(json, &report, &text)?;
    Ok(outcome)
}

fn fields(diagnostic: &Diagnostic) -> Value {
    let Diagnostic { file, line, column, message, .. } = diagnostic;
    json!({ "file": file, "line": line, "column": column, "message": message })
}
