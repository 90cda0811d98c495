//! `squall types`: types in IDL as peers see them.
//!
//! Owns: the output about types, and the choice among a file's types. Never does: judge them;
//! `idl_xtypes` does.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, Subcommand};
use idl::Specification;
use idl_cdr::{Extensibility, TryConstruct};
use idl_xtypes::standard::{TypeIdentifier, TypeObjectHashId};
use idl_xtypes::{
    CaseDescription, ConsistencyKind, DynamicData, DynamicType, MemberDescription, ObjectKind,
    TypeConsistency, TypeDescription, TypeObjectError, TypeShape, object_bytes, topic_types,
    type_names,
};
use serde_json::{Value, json};

use crate::idl::SearchArgs;
use crate::outcome::{CommandAnswer, CommandResult, Failure, say, show, tell};

/// Command for types.
#[derive(Args, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
    squall types show nav.idl Nav::Track\n  \
    squall types assign new/nav.idl old/nav.idl --type Nav::Track\n  \
    echo '{aircraft: 7}' | squall types convert nav.idl --type Nav::Track --json\n\n\
    An invalid file ends with exit code 2; squall idl check reports the same errors."
)]
pub(crate) struct TypesArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Print types with their members, ids, flags, bounds, and the sizes and hashes of their
    /// type objects.
    #[command(after_help = "Examples:\n  \
        squall types show nav.idl                      the types of topics, and their members\n  \
        squall types show nav.idl Nav::Track --json")]
    Show(ShowArgs),
    /// Report whether a reader of one file's type accepts samples of a writer of another's, and the
    /// reasons if not; exit code 1 if not.
    #[command(after_help = "Examples:\n  \
        squall types assign new/nav.idl old/nav.idl --type Nav::Track\n  \
        squall types assign new.idl old.idl --prevent-type-widening --ignore-string-bounds=false\n\n\
        The switches are those of the reader's TYPE_CONSISTENCY_ENFORCEMENT. The missing switch,\n\
        force_type_validation, concerns peers that do not announce their type definitions.")]
    Assign(AssignArgs),
    /// Read a sample from standard input, as JSON or as text, and print it as text; as JSON
    /// with --json.
    #[command(after_help = "Examples:\n  \
        squall types convert nav.idl --type Nav::Track < sample.json\n  \
        echo '{aircraft: 7}' | squall types convert nav.idl --json")]
    Convert(ConvertArgs),
}

/// Types to show.
#[derive(Args, Debug)]
struct ShowArgs {
    /// IDL file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name of the type, with its modules. Without it: all possible topic types.
    #[arg(value_name = "TYPE")]
    name: Option<String>,
    #[command(flatten)]
    search: SearchArgs,
}

/// Types to compare, and the rules.
#[derive(Args, Debug)]
struct AssignArgs {
    /// File with the reader's type.
    #[arg(value_name = "READER")]
    reader: PathBuf,
    /// File with the writer's type.
    #[arg(value_name = "WRITER")]
    writer: PathBuf,
    /// Name of the type, with its modules. May be left out if the reader's file has only one
    /// topic type.
    #[arg(long = "type", value_name = "NAME")]
    name: Option<String>,
    /// Name of the writer's type, if it is another one.
    #[arg(long, value_name = "NAME")]
    writer_type: Option<String>,
    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    consistency: ConsistencyArgs,
}

/// Switches of TYPE_CONSISTENCY_ENFORCEMENT.
#[derive(Args, Debug)]
#[command(next_help_heading = "Type consistency")]
struct ConsistencyArgs {
    /// Refuse every type except the same one.
    #[arg(long)]
    disallow_type_coercion: bool,
    /// Whether a sequence or map of the reader may be shorter than one of the writer.
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true",
        num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    ignore_sequence_bounds: bool,
    /// Whether a string of the reader may be shorter than one of the writer.
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true",
        num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    ignore_string_bounds: bool,
    /// Whether members are identified by their ids only.
    #[arg(long, value_name = "BOOL", default_value_t = false, default_missing_value = "true",
        num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    ignore_member_names: bool,
    /// Whether a writer's type that has more members than the reader's is refused.
    #[arg(long, value_name = "BOOL", default_value_t = false, default_missing_value = "true",
        num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    prevent_type_widening: bool,
}

/// Type of the sample.
#[derive(Args, Debug)]
struct ConvertArgs {
    /// IDL file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name of the type, with its modules. May be left out if the file has only one topic type.
    #[arg(long = "type", value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    search: SearchArgs,
}

/// Runs the command.
pub(crate) fn run(args: &TypesArgs, json: bool) -> CommandResult {
    match &args.command {
        Command::Show(args) => show_types(args, json),
        Command::Assign(args) => assign(args, json),
        Command::Convert(args) => convert(args, json),
    }
}

/// A compiled file.
pub(crate) struct CompiledFile<'a> {
    path: &'a Path,
    specification: Specification,
}

impl<'a> CompiledFile<'a> {
    pub(crate) fn read(path: &'a Path, search: &SearchArgs) -> Result<Self, Failure> {
        let compiled = search
            .compiler()
            .compile(&[path])
            .map_err(|error| Failure::unreadable(path, &error))?;
        let diagnostics = compiled.diagnostics;
        match compiled.specification {
            Some(specification) => {
                if !diagnostics.is_empty() {
                    tell(format_args!("{diagnostics}"));
                }
                Ok(Self { path, specification })
            }
            None => Err(Failure::Usage(format!("{} is wrong\n{diagnostics}", path.display()))),
        }
    }

    /// Returns the type of this name.
    pub(crate) fn named(&self, name: &str) -> Result<DynamicType, Failure> {
        let file = self.path.display();
        DynamicType::from_idl(&self.specification, name).map_err(|error| match error {
            TypeObjectError::Missing { .. } => Failure::Usage(format!(
                "there is no type `{name}` in {file}; {}",
                listed(&topic_types(&self.specification))
            )),
            error => Failure::Usage(format!("{file}: {error}")),
        })
    }

    /// Returns all types except typedefs.
    pub(crate) fn all(&self) -> Result<Vec<DynamicType>, Failure> {
        type_names(&self.specification).iter().map(|name| self.named(name)).collect()
    }

    /// Returns the given name, or that of the only topic type.
    pub(crate) fn name(&self, given: Option<&str>) -> Result<String, Failure> {
        if let Some(name) = given {
            return Ok(name.to_owned());
        }
        let mut names = topic_types(&self.specification);
        match names.len() {
            1 => Ok(names.remove(0)),
            _ => Err(Failure::Usage(format!(
                "name a type of {} with --type; {}",
                self.path.display(),
                listed(&names)
            ))),
        }
    }
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "the file has no type for topics".to_owned(),
        names => format!("its types for topics are {}", names.join(", ")),
    }
}

fn show_types(args: &ShowArgs, json: bool) -> CommandResult {
    let source = CompiledFile::read(&args.file, &args.search)?;
    let names = match &args.name {
        Some(name) => vec![name.clone()],
        None => topic_types(&source.specification),
    };
    if names.is_empty() {
        return Err(Failure::Usage(format!(
            "{}: name a type; {}",
            args.file.display(),
            listed(&[])
        )));
    }
    let (mut texts, mut fields) = (Vec::new(), Vec::new());
    let mut shown: Vec<String> = Vec::new();
    for name in &names {
        let of = source.named(name)?;
        let stands_for = of.to_string();
        if stands_for != *name {
            texts.push(format!("{name}: stands for {stands_for}\n"));
            fields.push(json!({ "name": name, "kind": "typedef", "type": stands_for }));
        }
        for part in of.named_types() {
            let Some(description) = part.description() else { continue };
            if shown.contains(&description.name) {
                continue;
            }
            let objects = [
                TypeObjectInfo::of(&part, ObjectKind::Minimal),
                TypeObjectInfo::of(&part, ObjectKind::Complete),
            ];
            texts.push(type_text(&description, &objects));
            fields.push(type_fields(&description, &objects));
            shown.push(description.name);
        }
    }
    show(json, &json!({ "file": args.file, "types": fields }), &texts.join("\n"))?;
    Ok(CommandAnswer::Yes)
}

/// Data of a type object for the output.
struct TypeObjectInfo {
    bytes: usize,
    hash: String,
    /// Position and number of the types that contain each other and share a hash.
    component: Option<(i32, i32)>,
}

impl TypeObjectInfo {
    fn of(of: &DynamicType, kind: ObjectKind) -> Self {
        let made = of.objects(kind);
        let own = made.objects.iter().find(|pair| pair.type_identifier == made.identifier);
        let (hash, component) = match &made.identifier {
            TypeIdentifier::Minimal(hash) | TypeIdentifier::Complete(hash) => (&hash[..], None),
            TypeIdentifier::Component(id) => {
                let (TypeObjectHashId::Minimal(hash) | TypeObjectHashId::Complete(hash)) =
                    &id.sc_component_id;
                (&hash[..], Some((id.scc_index, id.scc_length)))
            }
            _ => (&[][..], None),
        };
        Self {
            bytes: own.map_or(0, |pair| object_bytes(&pair.type_object).len()),
            hash: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            component,
        }
    }

    fn text(&self) -> String {
        let component = match self.component {
            Some((place, count)) => format!(", type {place} of {count} that contain each other"),
            None => String::new(),
        };
        format!("type object {:>6} bytes, hash {}{component}", self.bytes, self.hash)
    }

    fn fields(&self) -> Value {
        let mut fields = json!({ "bytes": self.bytes, "hash": self.hash });
        if let Some((place, count)) = self.component {
            fields["component"] = json!({ "index": place, "length": count });
        }
        fields
    }
}

fn type_text(of: &TypeDescription, [minimal, complete]: &[TypeObjectInfo; 2]) -> String {
    let (mut head, mut rows) = (Vec::new(), Vec::new());
    match &of.shape {
        TypeShape::Structure { extensibility, nested, base, members } => {
            head.extend(["struct", extensibility_word(*extensibility)].map(str::to_owned));
            head.extend(nested.then(|| "nested".to_owned()));
            head.extend(base.as_ref().map(|base| format!("with the members of {base}")));
            rows.extend(members.iter().map(|member| member_row(member, Vec::new())));
        }
        TypeShape::Union { extensibility, nested, discriminator, cases } => {
            head.extend(["union", extensibility_word(*extensibility)].map(str::to_owned));
            head.extend(nested.then(|| "nested".to_owned()));
            rows.push(member_row(discriminator, Vec::new()));
            rows.extend(cases.iter().map(case_row));
        }
        TypeShape::Enumeration { bit_bound, literals, default } => {
            head.push(format!("enum of {bit_bound} bits"));
            rows.extend(literals.iter().map(|(name, value)| {
                let word = if Some(name) == default.as_ref() { "default" } else { "" };
                [value.to_string(), name.clone(), word.to_owned(), String::new()]
            }));
        }
        TypeShape::Bitmask { bit_bound, flags } => {
            head.push(format!("bitmask of {bit_bound} bits"));
            rows.extend(
                flags.iter().map(|(name, bit)| {
                    [bit.to_string(), name.clone(), String::new(), String::new()]
                }),
            );
        }
        TypeShape::Bitset(fields) => {
            head.push("bitset".to_owned());
            rows.extend(fields.iter().map(|field| {
                let bits = match field.bits {
                    1 => "1 bit".to_owned(),
                    bits => format!("{bits} bits"),
                };
                [field.position.to_string(), field.name.clone(), field.type_name.clone(), bits]
            }));
        }
        TypeShape::Alias(stands_for) => head.push(format!("stands for {stands_for}")),
    }
    format!(
        "{}: {}\n{}  minimal  {}\n  complete {}\n",
        of.name,
        head.join(", "),
        table(&rows),
        minimal.text(),
        complete.text()
    )
}

/// Formats columns as wide as their contents; the first column has numbers.
fn table(rows: &[[String; 4]]) -> String {
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second, third) = (width(0).max(4), width(1), width(2));
    let mut text = String::new();
    for [number, name, of, words] in rows {
        let line = format!("  {number:>first$}  {name:<second$}  {of:<third$}  {words}");
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn member_row(member: &MemberDescription, mut words: Vec<String>) -> [String; 4] {
    words.extend(flag_words(member).into_iter().map(str::to_owned));
    if member.try_construct != TryConstruct::Discard {
        words.push(format!("try_construct {}", try_construct_word(member.try_construct)));
    }
    [member.id.to_string(), member.name.clone(), member.type_name.clone(), words.join(", ")]
}

fn case_row(case: &CaseDescription) -> [String; 4] {
    let mut words: Vec<String> = case.labels.iter().map(|label| format!("case {label}")).collect();
    words.extend(case.default.then(|| "default".to_owned()));
    match &case.member {
        Some(member) => member_row(member, words),
        None => [String::new(), "nothing".to_owned(), String::new(), words.join(", ")],
    }
}

fn flag_words(member: &MemberDescription) -> Vec<&'static str> {
    let words = [
        (member.key, "key"),
        (member.must_understand, "must_understand"),
        (member.optional, "optional"),
        (member.external, "external"),
    ];
    words.into_iter().filter_map(|(is, word)| is.then_some(word)).collect()
}

fn type_fields(of: &TypeDescription, [minimal, complete]: &[TypeObjectInfo; 2]) -> Value {
    let mut fields = match &of.shape {
        TypeShape::Structure { extensibility, nested, base, members } => json!({
            "kind": "struct",
            "extensibility": extensibility_word(*extensibility),
            "nested": nested,
            "base": base,
            "members": members.iter().map(member_fields).collect::<Vec<Value>>(),
        }),
        TypeShape::Union { extensibility, nested, discriminator, cases } => json!({
            "kind": "union",
            "extensibility": extensibility_word(*extensibility),
            "nested": nested,
            "discriminator": member_fields(discriminator),
            "cases": cases.iter().map(|case| json!({
                "labels": case.labels,
                "default": case.default,
                "member": case.member.as_ref().map(member_fields),
            })).collect::<Vec<Value>>(),
        }),
        TypeShape::Enumeration { bit_bound, literals, default } => json!({
            "kind": "enum",
            "bit_bound": bit_bound,
            "literals": literals.iter().map(|(name, value)| json!({
                "name": name, "value": value,
            })).collect::<Vec<Value>>(),
            "default": default,
        }),
        TypeShape::Bitmask { bit_bound, flags } => json!({
            "kind": "bitmask",
            "bit_bound": bit_bound,
            "flags": flags.iter().map(|(name, position)| json!({
                "name": name, "position": position,
            })).collect::<Vec<Value>>(),
        }),
        TypeShape::Bitset(fields) => json!({
            "kind": "bitset",
            "fields": fields.iter().map(|field| json!({
                "name": field.name,
                "position": field.position,
                "bits": field.bits,
                "type": field.type_name,
            })).collect::<Vec<Value>>(),
        }),
        TypeShape::Alias(stands_for) => json!({ "kind": "typedef", "type": stands_for }),
    };
    fields["name"] = json!(of.name);
    fields["minimal"] = minimal.fields();
    fields["complete"] = complete.fields();
    fields
}

fn member_fields(member: &MemberDescription) -> Value {
    json!({
        "id": member.id,
        "name": member.name,
        "type": member.type_name,
        "flags": flag_words(member),
        "try_construct": try_construct_word(member.try_construct),
    })
}

fn extensibility_word(of: Extensibility) -> &'static str {
    match of {
        Extensibility::Final => "final",
        Extensibility::Appendable => "appendable",
        Extensibility::Mutable => "mutable",
    }
}

fn try_construct_word(of: TryConstruct) -> &'static str {
    match of {
        TryConstruct::Discard => "discard",
        TryConstruct::UseDefault => "use_default",
        TryConstruct::Trim => "trim",
    }
}

fn assign(args: &AssignArgs, json: bool) -> CommandResult {
    let reader = CompiledFile::read(&args.reader, &args.search)?;
    let writer = CompiledFile::read(&args.writer, &args.search)?;
    let name = reader.name(args.name.as_deref())?;
    let of_reader = reader.named(&name)?;
    let writer_name = args.writer_type.as_deref().unwrap_or(&name);
    let of_writer = writer.named(writer_name)?;
    let consistency = args.consistency.policy();
    let checked = consistency.check(&of_reader, &of_writer);
    let (reader, writer) = (args.reader.display(), args.writer.display());
    let who = |takes: &str| {
        format!(
            "A reader of {name} ({reader}) {takes} samples of a writer of {writer_name} ({writer})"
        )
    };
    let (outcome, text) = match &checked {
        Ok(()) => (CommandAnswer::Yes, format!("{}.", who("takes"))),
        Err(mismatch) => (CommandAnswer::No, format!("{}:\n  {mismatch}", who("does not take"))),
    };
    let report = json!({
        "reader": { "file": args.reader, "type": name },
        "writer": { "file": args.writer, "type": writer_name },
        "assignable": checked.is_ok(),
        "path": checked.as_ref().err().map(|mismatch| &mismatch.path),
        "reason": checked.as_ref().err().map(|mismatch| &mismatch.reason),
    });
    show(json, &report, &text)?;
    Ok(outcome)
}

impl ConsistencyArgs {
    fn policy(&self) -> TypeConsistency {
        TypeConsistency {
            kind: match self.disallow_type_coercion {
                true => ConsistencyKind::DisallowTypeCoercion,
                false => ConsistencyKind::AllowTypeCoercion,
            },
            ignore_sequence_bounds: self.ignore_sequence_bounds,
            ignore_string_bounds: self.ignore_string_bounds,
            ignore_member_names: self.ignore_member_names,
            prevent_type_widening: self.prevent_type_widening,
            // Both types are fully known from their files.
            force_type_validation: false,
        }
    }
}

fn convert(args: &ConvertArgs, json: bool) -> CommandResult {
    let source = CompiledFile::read(&args.file, &args.search)?;
    let of = source.named(&source.name(args.name.as_deref())?)?;
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::new(format!("standard input cannot be read: {error}")))?;
    let sample = DynamicData::parse(&of, &text)
        .map_err(|error| Failure::new(format!("standard input: {error}")))?;
    if json {
        // No JSON library is used, because some numbers of IDL types exceed its range.
        say(&sample.to_json_line())?;
    } else {
        say(&sample.to_text())?;
    }
    Ok(CommandAnswer::Yes)
}
