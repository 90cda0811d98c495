//! The types of applications, and the errors in them and in filters on them.
//!
//! Owns: the translation of a compiler message about a line into an error about the element behind
//! that line. Never does: know IDL.

use std::collections::{BTreeMap, BTreeSet};

use dds_sql::Filter;
use idl::{Diagnostic, Severity, Specification};
use idl_xtypes::{DynamicData, DynamicType, TopicData, TypeShape, topic_types};
use qos_profiles::xml::{
    ApplicationTypes, FilePosition, FilterDescription, ProfileError, TypeText, nearest_name,
};

/// Maximum number of reported errors.
const MOST_ERRORS: usize = 100;
/// Text that the compiler puts in front of a name that was probably meant.
const GUESS: &str = "; did you mean `";

/// All types of the files, and those that topics have, by name.
#[derive(Default)]
pub(super) struct TopicTypes {
    by_name: BTreeMap<String, DynamicType>,
    pub(super) specification: Specification,
}

impl TopicTypes {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    pub(super) fn get(&self, name: &str) -> Option<&DynamicType> {
        self.by_name.get(name)
    }

    /// Builds the types that the files mention, and returns the errors in them.
    pub(super) fn read(&mut self, types: &ApplicationTypes<'_>) -> Vec<ProfileError> {
        let specification = match idl::parse("types", types.text.idl()) {
            Ok(specification) => specification,
            Err(diagnostics) => {
                let errors = diagnostics.iter().filter(|told| told.severity == Severity::Error);
                return errors.filter_map(|diagnostic| error(types.text, diagnostic)).collect();
            }
        };
        let mut errors = Vec::new();
        let tell = |errors: &mut Vec<ProfileError>, wrong: ProfileError| {
            if errors.len() < MOST_ERRORS && !errors.contains(&wrong) {
                errors.push(wrong);
            }
        };
        let known = topic_types(&specification);
        let names: BTreeSet<&str> =
            types.registered.iter().map(|registered| &*registered.type_name).collect();
        let made = DynamicType::all_from_idl(&specification, names.iter().copied());
        let made: BTreeMap<&str, _> = names.into_iter().zip(made).collect();
        for registered in &types.registered {
            let name = registered.type_name.as_str();
            let found = match &made[name] {
                Ok(of) if is_for_topics(of) => continue,
                Ok(_) => format!("type_ref: found `{name}`, which is not a struct or union"),
                Err(_) if !known.iter().any(|known| known == name) => {
                    format!("type_ref: found `{name}`, which is not there")
                }
                Err(wrong) => format!("type_ref: found `{name}`: {wrong}"),
            };
            // The file may have left out the module.
            let known_name = known
                .iter()
                .find(|name_with_modules| name_with_modules.rsplit("::").next() == Some(name));
            let (position, path) = registered.place.clone();
            let expected =
                "expected a struct or union of these files, with its modules: `Module::Type`"
                    .to_owned();
            let suggestion = known_name
                .cloned()
                .or_else(|| nearest_name(name, known.iter().map(String::as_str)));
            tell(&mut errors, ProfileError { place: position, path, found, expected, suggestion });
        }
        let made = made.into_iter().filter_map(|(name, of)| Some((name.to_owned(), of.ok()?)));
        self.by_name.extend(made);
        for (name, filter) in &types.filters {
            if let Some(wrong) = self.get(name).and_then(|of| check(filter, of)) {
                tell(&mut errors, wrong);
            }
        }
        self.specification = specification;
        errors
    }
}

fn is_for_topics(of: &DynamicType) -> bool {
    let shape = of.description().map(|description| description.shape);
    matches!(shape, Some(TypeShape::Structure { .. } | TypeShape::Union { .. }))
}

/// Returns the error in a filter on samples of a type, if there is one.
fn check(filter: &FilterDescription, of: &DynamicType) -> Option<ProfileError> {
    let wrong =
        Filter::in_type(DynamicData::fields(of), &filter.expression, &filter.parameters).err()?;
    let (position, path) = filter.place.clone();
    let found = format!("the expression is wrong {wrong}");
    let expected =
        format!("expected one of members of `{}`, with a value for each `%N`", of.name());
    Some(ProfileError { place: position, path, found, expected, suggestion: None })
}

/// Turns a compiler message about a line into an error about the element behind that line.
fn error(text: &TypeText, diagnostic: &Diagnostic) -> Option<ProfileError> {
    let (position, path) = text.origin(diagnostic.line)?;
    let (message, suggestion) = match diagnostic.message.split_once(GUESS) {
        Some((message, guess)) => {
            (message, guess.split_once('`').map(|(guess, _)| guess.to_owned()))
        }
        None => (diagnostic.message.as_str(), None),
    };
    let (found, expected) = match message.split_once("; ") {
        Some((found, expected)) => (found.to_owned(), expected.to_owned()),
        None => (message.to_owned(), "expected a type as defined by DDS-XTYPES".to_owned()),
    };
    let first: Option<FilePosition> = diagnostic
        .related
        .first()
        .and_then(|other| text.origin(other.line))
        .map(|(position, _)| position);
    let found = match first {
        Some(first) if first != position => format!("{found}; the other is at {first}"),
        _ => found,
    };
    Some(ProfileError { place: position, path, found, expected, suggestion })
}
