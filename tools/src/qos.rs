//! `squall qos`: profiles and applications in XML.
//!
//! Owns: the output about them. Never does: read or judge one; `qos_profiles` does, and `dds_api`
//! for types.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use dds_api::domain::ApplicationFiles;
use qos_profiles::xml::{
    FilePosition, Ignored, Origin, ProfileErrors, QosProvider, ResolvedEntity, UnknownProfile,
};
use qos_profiles::{EntityKind, Offered, Requested, Value, incompatible};
use serde_json::{Value as Json, json};

use crate::outcome::{CommandAnswer, CommandResult, Failure, show};

/// Command for profiles.
#[derive(Args, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
    squall qos check fleet.xml\n  \
    squall qos show fleet.xml Fleet::State\n  \
    squall qos convert DEFAULT_FASTDDS_PROFILES.xml --out fleet.xml\n  \
    squall qos match --file fleet.xml Fleet::State Fleet::Display"
)]
pub(crate) struct QosArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Read files of profiles and applications, and report all errors, including those in types and
    /// references to them; exit code 1 if there are any. Files that are named together may refer to
    /// each other.
    #[command(after_help = "Example:\n  squall qos check fleet.xml common.xml --json")]
    Check(CheckArgs),
    /// Print a profile with all values resolved, each with its origin: the profile, a base, or the
    /// standard's default.
    #[command(after_help = "Examples:\n  \
        squall qos show fleet.xml Fleet::State\n  \
        squall qos show fleet.xml Fleet::State --topic WingLeft\n  \
        squall qos show Squall::Atomic --xml                  a ready-made one, as a file")]
    Show(ShowArgs),
    /// Write the profiles of files, those of other products too, as one file in the form of the
    /// standard. What has no effect here is named in a comment at its beginning.
    #[command(
        after_help = "Example:\n  squall qos convert DEFAULT_FASTDDS_PROFILES.xml --out fleet.xml"
    )]
    Convert(ConvertArgs),
    /// Report whether a writer of one profile would match a reader of another, and the reasons if
    /// not; exit code 1 if not.
    #[command(after_help = "Example:\n  \
        squall qos match --file fleet.xml Fleet::State SquallAvionics::PeriodicState --topic WingLeft")]
    Match(MatchArgs),
}

/// Files to check.
#[derive(Args, Debug)]
struct CheckArgs {
    /// Files of profiles and applications.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// Files to convert.
#[derive(Args, Debug)]
struct ConvertArgs {
    /// Files of profiles.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Output file, which must not exist; standard output without it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Profile to show.
#[derive(Args, Debug)]
struct ShowArgs {
    /// Files, then the profile's name. Without a file: those that SQUALL_QOS_FILES names and
    /// SQUALL_QOS_PROFILES.xml in the working folder.
    #[arg(required = true, value_name = "[FILE]... LIB::PROFILE")]
    files_and_profile: Vec<String>,
    /// Show the values for entities of this topic, by the profile's filters.
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,
    /// Print the profile as a file, with all its values.
    #[arg(long, conflicts_with = "topic")]
    xml: bool,
}

/// Profiles to compare.
#[derive(Args, Debug)]
struct MatchArgs {
    /// Profile of the writer and its publisher.
    #[arg(value_name = "OFFER")]
    offer: String,
    /// Profile of the reader and its subscriber.
    #[arg(value_name = "REQUEST")]
    request: String,
    /// A file of profiles; may be given several times. Without it: those that SQUALL_QOS_FILES
    /// names and SQUALL_QOS_PROFILES.xml in the working folder.
    #[arg(long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Compare the values for entities of this topic, by the profiles' filters.
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: &QosArgs, json: bool) -> CommandResult {
    match &args.command {
        Command::Check(args) => check(args, json),
        Command::Show(args) => show_profile(args, json),
        Command::Convert(args) => convert(args, json),
        Command::Match(args) => compare(args, json),
    }
}

impl From<UnknownProfile> for Failure {
    fn from(error: UnknownProfile) -> Failure {
        Failure::new(error.to_string())
    }
}

/// Returns the profiles of files, or of the environment if no file is named.
fn provider(files: &[PathBuf]) -> Result<QosProvider, ProfileErrors> {
    if files.is_empty() { QosProvider::from_environment() } else { QosProvider::from_files(files) }
}

/// Reports the errors in files, instead of the requested answer.
fn refuse(errors: &ProfileErrors, files: usize, json: bool) -> CommandResult {
    show(json, &report(files, errors), &text(errors))?;
    Ok(CommandAnswer::No)
}

fn check(args: &CheckArgs, json: bool) -> CommandResult {
    match ApplicationFiles::from_files(&args.files) {
        Err(errors) => refuse(&errors, args.files.len(), json),
        Ok(files) => {
            let provider = files.provider();
            let ignored = provider.ignored();
            let names = own_names(provider)?;
            let mut report = json!({ "files": args.files.len(), "errors": [], "profiles": names });
            report["ignored"] = ignored.iter().map(ignored_fields).collect();
            let mut text: String = ignored.iter().map(|ignored| format!("{ignored}\n")).collect();
            text += &match names.len() {
                0 => "No profile; nothing is wrong.".to_owned(),
                1 => "One profile, nothing is wrong.".to_owned(),
                many => format!("{many} profiles, nothing is wrong."),
            };
            let participants = files.participant_names();
            if !participants.is_empty() {
                text += &format!("\nParticipants: {}.", participants.join(", "));
                let types: Vec<&str> = files.type_names().collect();
                text += &format!("\nTypes of topics: {}.", types.join(", "));
                report["participants"] = json!(participants);
                report["types"] = json!(types);
            }
            show(json, &report, &text)?;
            Ok(CommandAnswer::Yes)
        }
    }
}

fn convert(args: &ConvertArgs, json: bool) -> CommandResult {
    let provider = match provider(&args.files) {
        Ok(provider) => provider,
        Err(errors) => return refuse(&errors, args.files.len(), json),
    };
    let (xml, names) = (provider.to_xml(), own_names(&provider)?);
    let ignored: Json = provider.ignored().iter().map(ignored_fields).collect();
    let mut report = json!({ "profiles": names, "ignored": ignored, "out": args.out });
    let Some(out) = &args.out else {
        report["xml"] = json!(xml);
        show(json, &report, &xml)?;
        return Ok(CommandAnswer::Yes);
    };
    let written = File::create_new(out).and_then(|mut file| file.write_all(xml.as_bytes()));
    written.map_err(|error| Failure::new(format!("{}: {error}", out.display())))?;
    show(json, &report, &format!("{} profiles in {}", names.len(), out.display()))?;
    Ok(CommandAnswer::Yes)
}

/// Returns the names of the profiles that are not ready-made.
fn own_names(provider: &QosProvider) -> Result<Vec<String>, Failure> {
    let ready_made = QosProvider::from_str("<dds/>");
    let ready_made = ready_made.map_err(|errors| Failure::new(errors.to_string()))?.profile_names();
    Ok(provider.profile_names().into_iter().filter(|name| !ready_made.contains(name)).collect())
}

fn place_fields(place: &FilePosition) -> Json {
    json!({ "file": place.file(), "line": place.line(), "column": place.column() })
}

fn ignored_fields(ignored: &Ignored) -> Json {
    let mut fields = place_fields(&ignored.place);
    fields["path"] = json!(ignored.path);
    fields["product"] = json!(ignored.product);
    fields["advice"] = json!(ignored.advice);
    fields["count"] = json!(ignored.count);
    fields
}

fn report(files: usize, errors: &ProfileErrors) -> Json {
    let errors = errors.errors().iter().map(|error| {
        let mut fields = place_fields(&error.place);
        fields["path"] = json!(error.path);
        fields["found"] = json!(error.found);
        fields["expected"] = json!(error.expected);
        fields["suggestion"] = json!(error.suggestion);
        fields["message"] = json!(error.to_string());
        fields
    });
    let errors: Vec<Json> = errors.collect();
    json!({ "files": files, "errors": errors })
}

fn text(errors: &ProfileErrors) -> String {
    let count = match errors.errors().len() {
        1 => "One thing is wrong.".to_owned(),
        many => format!("{many} things are wrong."),
    };
    format!("{errors:#}\n{count}")
}

fn show_profile(args: &ShowArgs, json: bool) -> CommandResult {
    let Some((name, files)) = args.files_and_profile.split_last() else {
        return Err(Failure::Usage("name a profile".to_owned()));
    };
    let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
    let provider = match provider(&files) {
        Ok(provider) => provider,
        Err(errors) => return refuse(&errors, files.len(), json),
    };
    if args.xml {
        let xml = provider.profile(name)?.to_xml();
        show(json, &json!({ "profile": name, "xml": xml }), &xml)?;
        return Ok(CommandAnswer::Yes);
    }
    let entities = match &args.topic {
        None => provider.profile(name)?.entities,
        Some(topic) => {
            let one = |kind| provider.entity(kind, name, Some(topic));
            EntityKind::ALL.into_iter().map(one).collect::<Result<Vec<_>, _>>()?
        }
    };
    let fields: Vec<Json> = entities.iter().map(entity_fields).collect();
    let mut text = format!("{name}\n");
    entities.iter().for_each(|entity| text += &entity_text(entity));
    if entities.is_empty() {
        text += "  names no policy: everything has the standard's default\n";
    }
    show(json, &json!({ "profile": name, "topic": args.topic, "entities": fields }), &text)?;
    Ok(CommandAnswer::Yes)
}

fn origin_fields(value: Json, origin: &Origin) -> Json {
    let (word, source) = match origin {
        Origin::Default => return json!({ "value": value, "from": "default" }),
        Origin::Profile(source) => ("profile", source),
        Origin::Base(source) => ("base", source),
    };
    let mut fields = place_fields(&source.place);
    fields["value"] = value;
    fields["from"] = json!(word);
    fields["profile"] = json!(&*source.name);
    fields
}

fn entity_fields(entity: &ResolvedEntity) -> Json {
    let kind = entity.qos.kind();
    let mut policies = json!({});
    for (policy, name) in kind.policies() {
        for (index, field) in policy.fields().iter().enumerate() {
            let Some(value) = entity.qos.value(policy, index) else { continue };
            let told = match &value {
                Value::Bool(value) => json!(value),
                Value::Unsigned(value) => json!(value),
                Value::Signed(value) => json!(value),
                Value::Length(value) => json!(value),
                Value::Duration(value) => json!(value),
                Value::Texts(value) => json!(value),
                Value::Octets(value) => json!(value),
                Value::Kind(_) | Value::Kinds(_) => json!(field.show(&value).to_string()),
            };
            policies[name][field.name] = origin_fields(told, entity.origin(policy, index));
        }
    }
    let properties = entity.properties.iter().enumerate().map(|(index, property)| {
        let mut fields = origin_fields(json!(property.value), entity.property_origin(index));
        fields["name"] = json!(property.name);
        fields["propagate"] = json!(property.propagate);
        fields
    });
    json!({
        "kind": kind.element(),
        "name": entity.name,
        "topic_filter": entity.topic_filter,
        "level": entity.level().map(|level| level.to_string()),
        "properties": properties.collect::<Vec<Json>>(),
        "policies": policies,
    })
}

fn entity_text(entity: &ResolvedEntity) -> String {
    let kind = entity.qos.kind();
    let mut text = format!("  {}", kind.word());
    if let Some(name) = &entity.name {
        text += &format!(" {name}");
    }
    if let Some(filter) = &entity.topic_filter {
        text += &format!(", for topics `{filter}`");
    }
    if let Some(level) = entity.level() {
        text += &format!(": {level}");
    }
    text.push('\n');
    let mut line = |name: String, value: String, origin: &Origin| {
        text += &format!("    {name:<56} {value:<24} {origin}\n");
    };
    for (policy, name) in kind.policies() {
        for (index, field) in policy.fields().iter().enumerate() {
            if let Some(value) = entity.qos.value(policy, index) {
                let value = field.show(&value).to_string();
                line(format!("{name}.{}", field.name), value, entity.origin(policy, index));
            }
        }
    }
    for (index, property) in entity.properties.iter().enumerate() {
        line(property.name.clone(), property.value.clone(), entity.property_origin(index));
    }
    text
}

fn compare(args: &MatchArgs, json: bool) -> CommandResult {
    let provider = match provider(&args.files) {
        Ok(provider) => provider,
        Err(errors) => return refuse(&errors, args.files.len(), json),
    };
    let topic = args.topic.as_deref();
    let (offer, request) = (args.offer.as_str(), args.request.as_str());
    let writer = match topic {
        Some(topic) => provider.datawriter_qos_for(offer, topic)?,
        None => provider.datawriter_qos(offer)?,
    };
    let reader = match topic {
        Some(topic) => provider.datareader_qos_for(request, topic)?,
        None => provider.datareader_qos(request)?,
    };
    // If the name refers to a set of an endpoint, its publisher or subscriber has the defaults.
    let publisher = provider.publisher_qos(offer).unwrap_or_default();
    let subscriber = provider.subscriber_qos(request).unwrap_or_default();
    let found = incompatible(
        &Offered { writer: &writer, publisher: &publisher },
        &Requested { reader: &reader, subscriber: &subscriber },
    );
    let mut reasons: Vec<(String, String)> =
        found.into_iter().map(|found| (found.name.to_owned(), found.reason)).collect();
    if !publisher.partition.meets(&subscriber.partition) {
        let reason = format!(
            "the publisher is in {}, the subscriber in {}; both need a common name, or one a name \
             that matches a pattern of the other",
            partitions(&publisher.partition.name),
            partitions(&subscriber.partition.name)
        );
        reasons.push(("PARTITION".to_owned(), reason));
    }
    let compatible = reasons.is_empty();
    let mut text = if compatible {
        format!("A writer of {offer} matches a reader of {request}.\n")
    } else {
        format!("A writer of {offer} does not match a reader of {request}:\n")
    };
    for (policy, reason) in &reasons {
        text += &format!("  {policy}: {reason}\n");
    }
    let reasons: Vec<Json> = reasons
        .iter()
        .map(|(policy, reason)| json!({ "policy": policy, "reason": reason }))
        .collect();
    let report = json!({
        "offer": offer, "request": request, "topic": topic, "compatible": compatible, "reasons": reasons,
    });
    show(json, &report, &text)?;
    Ok(if compatible { CommandAnswer::Yes } else { CommandAnswer::No })
}

fn partitions(names: &[String]) -> String {
    if names.is_empty() {
        return "the partition without a name".to_owned();
    }
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
