//! `squall idl print`: types as IDL.
//!
//! Owns: the choice of the source. Never does: write IDL; `idl_xtypes` does.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use dds_api::domain::ApplicationFiles;
use dds_api::topic::LogDescription;
use idl_xtypes::{DynamicType, NotInIdl, type_names};
use serde_json::json;

use super::SearchArgs;
use crate::arguments;
use crate::outcome::{CommandAnswer, CommandResult, Failure, show};
use crate::topics::recording::{begins_recording, types_of};
use crate::topics::{Domain, announced};
use crate::types::CompiledFile;

/// Types to print.
#[derive(Args, Debug)]
pub(super) struct PrintArgs {
    /// File with types: XML, IDL, an interface file of ROS 2, a recording of squall record, or the
    /// description of a logged topic (STREAM.topic in a log folder).
    #[arg(value_name = "FILE", required_unless_present = "topic")]
    file: Option<PathBuf>,
    /// Names of types, with their modules. Without one: all types of the file.
    #[arg(value_name = "TYPE")]
    names: Vec<String>,
    /// Print the type of this topic, which participants of the domain announce.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["file", "names"])]
    topic: Option<String>,
    /// Seconds to wait for a participant that has the topic.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = arguments::duration)]
    wait: Duration,
    #[command(flatten)]
    domain: Domain,
    #[command(flatten)]
    search: SearchArgs,
}

impl From<NotInIdl> for Failure {
    fn from(error: NotInIdl) -> Failure {
        Failure::new(error.to_string())
    }
}

/// Runs the command.
pub(super) fn run(args: &PrintArgs, json: bool) -> CommandResult {
    let types = match (&args.topic, &args.file) {
        (Some(topic), _) => vec![of_topic(args, topic)?],
        (None, Some(file)) => chosen(of_file(args, file)?, file, &args.names)?,
        (None, None) => return Err(Failure::Usage("name a file or a topic".to_owned())),
    };
    let text = DynamicType::all_to_idl(&types)?;
    let names: Vec<&str> = types.iter().map(DynamicType::name).collect();
    show(json, &json!({ "types": names, "idl": text }), &text)?;
    Ok(CommandAnswer::Yes)
}

fn of_topic(args: &PrintArgs, topic: &str) -> Result<DynamicType, Failure> {
    let participant = args.domain.join()?;
    let found = announced(&participant, topic, args.wait)?;
    let of = found.dynamic_type().cloned();
    of.ok_or_else(|| {
        Failure::new(format!("no participant announces the type of the topic `{topic}`"))
    })
}

/// Returns the types of a file, whose kind follows from its name and its first bytes.
fn of_file(args: &PrintArgs, file: &Path) -> Result<Vec<DynamicType>, Failure> {
    let mut first = Vec::new();
    File::open(file)
        .and_then(|from| from.take(16).read_to_end(&mut first))
        .map_err(|error| Failure::unreadable(file, &error))?;
    if begins_recording(&first) {
        return types_of(file);
    }
    if first.starts_with(b"squall topic ") {
        return of_description(file);
    }
    match file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("xml")) {
        true => of_xml(file),
        false => CompiledFile::read(file, &args.search)?.all(),
    }
}

fn of_description(file: &Path) -> Result<Vec<DynamicType>, Failure> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let stream = file.file_stem().unwrap_or_default().to_string_lossy();
    let of = LogDescription::read(folder, stream).data_type().cloned();
    let of = of.ok_or_else(|| {
        Failure::new(format!("{} does not describe the type of its topic", file.display()))
    })?;
    Ok(vec![of])
}

fn of_xml(file: &Path) -> Result<Vec<DynamicType>, Failure> {
    let wrong = |words: String| Failure::Usage(format!("{} is wrong\n{words}", file.display()));
    let files =
        ApplicationFiles::from_files([file]).map_err(|errors| wrong(format!("{errors:#}")))?;
    let names = type_names(files.types());
    let types = DynamicType::all_from_idl(files.types(), names.iter().map(String::as_str));
    types.into_iter().collect::<Result<_, _>>().map_err(|error| wrong(error.to_string()))
}

/// Returns the types of these names; all types without a name.
fn chosen(
    types: Vec<DynamicType>,
    file: &Path,
    names: &[String],
) -> Result<Vec<DynamicType>, Failure> {
    let of = file.display();
    if types.is_empty() {
        return Err(Failure::new(format!("{of} has no types")));
    }
    if names.is_empty() {
        return Ok(types);
    }
    let all: Vec<DynamicType> = types.iter().flat_map(DynamicType::named_types).collect();
    let named = |name: &String| {
        let found = all.iter().find(|one| one.name() == name).cloned();
        found.ok_or_else(|| {
            let mut known: Vec<&str> = all.iter().map(DynamicType::name).collect();
            known.sort_unstable();
            known.dedup();
            let known = known.join(", ");
            Failure::Usage(format!("there is no type `{name}` in {of}; its types are {known}"))
        })
    };
    names.iter().map(named).collect()
}
