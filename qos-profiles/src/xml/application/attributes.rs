//! Attributes of types and members, and their IDL form.
//!
//! Owns: their spellings, and the guarantee that only names, numbers and quoted texts from them get
//! into the IDL text. Never does: look up a name.

use super::types::TypeReader;
use crate::xml::error::{ElementPath, UnplacedError, quoted};
use crate::xml::read::attributes;
use crate::xml::source::Element;
use crate::xml::suggest::suggest;
use crate::xml::values::{boolean, no_text, one_of};

/// Kinds of types, in the spellings of the standard and of products, with their IDL form.
#[rustfmt::skip]
const KINDS: [(&str, &str); 38] = [
    ("boolean", "boolean"), ("byte", "octet"), ("octet", "octet"), ("char8", "char"), ("char", "char"),
    ("char16", "wchar"), ("char32", "wchar"), ("wchar", "wchar"), ("int8", "int8"), ("uint8", "uint8"),
    ("int16", "int16"), ("short", "int16"), ("uint16", "uint16"), ("unsignedShort", "uint16"),
    ("int32", "int32"), ("long", "int32"), ("uint32", "uint32"), ("unsignedLong", "uint32"),
    ("int64", "int64"), ("longLong", "int64"), ("uint64", "uint64"), ("unsignedLongLong", "uint64"),
    ("float32", "float"), ("float", "float"), ("float64", "double"), ("double", "double"),
    ("float128", "long double"), ("longDouble", "long double"), ("string", "string"), ("string8", "string"),
    ("bool", "boolean"), ("uShort", "uint16"), ("uLong", "uint32"), ("uLongLong", "uint64"),
    ("wstring", "wstring"), ("string16", "wstring"), ("nonBasic", NON_BASIC), ("non_basic", NON_BASIC),
];
const NON_BASIC: &str = "";
impl TypeReader<'_> {
    /// Checks an element that has only attributes.
    pub(super) fn leaf(&mut self, element: &Element, path: &ElementPath<'_>, known: &[&str]) {
        attributes(self.report, element, known, path);
        if let Err(error) = no_text(element, || "expected attributes alone".to_owned()) {
            self.report_error(element, path, error);
        }
        for child in &element.children {
            let path = &path.inner(&child.name);
            let error = UnplacedError::new("found an unknown element", "expected attributes alone");
            self.report_error(child, path, error);
        }
    }

    pub(super) fn required<'e>(
        &mut self,
        element: &'e Element,
        name: &str,
        path: &ElementPath<'_>,
    ) -> Option<&'e str> {
        let value = element.attribute(name);
        if value.is_none() {
            self.report_error(
                element,
                path,
                UnplacedError::new(format!("found no attribute `{name}`"), "expected one"),
            );
        }
        value
    }

    /// Reports an attribute with an invalid value.
    fn unfit(
        &mut self,
        attribute: &str,
        text: &str,
        expected: &str,
        element: &Element,
        path: &ElementPath<'_>,
    ) {
        let found = format!("{attribute}: found {}", quoted(text));
        self.report_error(element, path, UnplacedError::new(found, expected));
    }

    /// Returns an attribute that has two spellings.
    pub(super) fn either<'e>(
        &mut self,
        element: &'e Element,
        [first, second]: [&'static str; 2],
        path: &ElementPath<'_>,
    ) -> Option<(&'static str, &'e str)> {
        match (element.attribute(first), element.attribute(second)) {
            (Some(_), Some(_)) => {
                let found = format!("found both `{first}` and `{second}`");
                self.report_error(element, path, UnplacedError::new(found, "expected one of them"));
                None
            }
            (Some(value), None) => Some((first, value)),
            (None, value) => value.map(|value| (second, value)),
        }
    }

    /// Whether an attribute, in one of its spellings, is true.
    pub(super) fn is(&mut self, element: &Element, names: &[&str], path: &ElementPath<'_>) -> bool {
        let said = names.iter().find_map(|name| Some((name, element.attribute(name)?)));
        let Some((name, text)) = said else { return false };
        boolean(text).unwrap_or_else(|error| {
            let found = format!("{name}: {}", error.found);
            self.report_error(element, path, UnplacedError { found, ..error });
            false
        })
    }

    /// Returns the name of a definition in a form that is not a keyword of IDL.
    pub(super) fn name(&mut self, element: &Element, path: &ElementPath<'_>) -> Option<String> {
        let name = self.required(element, "name", path)?;
        if is_word(name) {
            return Some(format!("_{name}"));
        }
        let expected = "expected a letter, then letters, digits and `_`";
        self.unfit("name", name, expected, element, path);
        None
    }

    /// Returns the name of a type or constant that is defined elsewhere.
    pub(super) fn reference(
        &mut self,
        text: &str,
        attribute: &str,
        element: &Element,
        path: &ElementPath<'_>,
    ) -> Option<String> {
        let (absolute, names) = match text.strip_prefix("::") {
            Some(names) => ("::", names),
            None => ("", text),
        };
        let parts: Vec<&str> = names.split("::").collect();
        if parts.iter().all(|part| is_word(part)) {
            let parts: Vec<String> = parts.iter().map(|part| format!("_{part}")).collect();
            return Some(absolute.to_owned() + &parts.join("::"));
        }
        let expected = "expected a name, with `::` after each module";
        self.unfit(attribute, text, expected, element, path);
        None
    }

    /// Returns a number, or an expression of constants.
    pub(super) fn expression(
        &mut self,
        text: &str,
        attribute: &str,
        element: &Element,
        path: &ElementPath<'_>,
    ) -> Option<String> {
        let text = text.trim();
        let mut depth = 0_i32;
        let sound = text.bytes().all(|byte| {
            depth += i32::from(byte == b'(') - i32::from(byte == b')');
            depth >= 0 && (byte.is_ascii_alphanumeric() || b"_:+-*/%|&^~(). ".contains(&byte))
        });
        if sound && depth == 0 && !text.is_empty() && !text.contains("//") && !text.contains("/*") {
            return Some(text.to_owned());
        }
        let expected = "expected a number, or an expression of numbers and constants";
        self.unfit(attribute, text, expected, element, path);
        None
    }

    /// Returns a value of a kind of type in IDL syntax.
    pub(super) fn literal(
        &mut self,
        kind: &str,
        text: &str,
        attribute: &str,
        element: &Element,
        path: &ElementPath<'_>,
    ) -> Option<String> {
        let kind = KINDS.iter().find(|(name, _)| *name == kind).map_or(NON_BASIC, |(_, idl)| *idl);
        let (mark, wide) = match kind {
            "string" => ('"', ""),
            "wstring" => ('"', "L"),
            "char" => ('\'', ""),
            "wchar" => ('\'', "L"),
            "boolean" => {
                return match boolean(text) {
                    Ok(true) => Some("TRUE".to_owned()),
                    Ok(false) => Some("FALSE".to_owned()),
                    Err(error) => {
                        let found = format!("{attribute}: {}", error.found);
                        self.report_error(element, path, UnplacedError { found, ..error });
                        None
                    }
                };
            }
            _ => return self.expression(text, attribute, element, path),
        };
        // Some products write the quotation marks of IDL around the value.
        let inner =
            text.strip_prefix(mark).and_then(|text| text.strip_suffix(mark)).unwrap_or(text);
        let mut literal = format!("{wide}{mark}");
        for letter in inner.chars() {
            if letter.is_control() {
                let expected = "expected printable letters";
                self.unfit(attribute, text, expected, element, path);
                return None;
            }
            if letter == mark || letter == '\\' {
                literal.push('\\');
            }
            literal.push(letter);
        }
        literal.push(mark);
        Some(literal)
    }

    pub(super) fn extensibility(
        &mut self,
        element: &Element,
        path: &ElementPath<'_>,
    ) -> &'static str {
        const NAMES: [&str; 3] = ["final", "appendable", "mutable"];
        let Some(text) = element.attribute("extensibility") else { return "" };
        let plain = text.to_ascii_lowercase();
        match plain.strip_suffix("_extensibility").unwrap_or(&plain) {
            "final" => "@final ",
            "appendable" | "extensible" => "@appendable ",
            "mutable" => "@mutable ",
            other => {
                let found = format!("extensibility: found {}", quoted(text));
                let error = UnplacedError::new(found, format!("expected {}", one_of(&NAMES)));
                self.report_error(element, path, error.suggest(suggest(other, NAMES)));
                ""
            }
        }
    }

    /// Returns the annotations of a struct or union.
    pub(super) fn type_notes(&mut self, element: &Element, path: &ElementPath<'_>) -> String {
        let mut notes = self.extensibility(element, path).to_owned();
        let is_part =
            element.attribute("topLevel").is_some() && !self.is(element, &["topLevel"], path);
        if self.is(element, &["nested"], path) || is_part {
            notes += "@nested ";
        }
        match element.attribute("autoid").map(|text| (text, text.to_ascii_lowercase())) {
            None => {}
            Some((_, kind)) if kind == "hash" => notes += "@autoid(HASH) ",
            Some((_, kind)) if kind == "sequential" => notes += "@autoid(SEQUENTIAL) ",
            Some((text, _)) => {
                self.unfit("autoid", text, "expected `sequential` or `hash`", element, path);
            }
        }
        notes
    }

    pub(super) fn member_notes(&mut self, element: &Element, path: &ElementPath<'_>) -> String {
        let mut notes = String::new();
        const MARKS: [(&[&str], &str); 4] = [
            (&["key"], "@key "),
            (&["optional"], "@optional "),
            (&["mustUnderstand", "must_understand"], "@must_understand "),
            (&["external"], "@external "),
        ];
        for (names, mark) in MARKS {
            if self.is(element, names, path) {
                notes += mark;
            }
        }
        if let Some(id) = element.attribute("id")
            && let Some(id) = self.expression(id, "id", element, path)
        {
            notes += &format!("@id({id}) ");
        }
        match element.attribute("hashid") {
            None => {}
            Some("") => notes += "@hashid ",
            Some(of) => {
                let of = self.literal("string", of, "hashid", element, path);
                notes += &of.map(|of| format!("@hashid({of}) ")).unwrap_or_default();
            }
        }
        if let Some(default) = element.attribute("default") {
            let kind = element.attribute("type").unwrap_or_default();
            let default = self.literal(kind, default, "default", element, path);
            notes += &default.map(|value| format!("@default({value}) ")).unwrap_or_default();
        }
        if let Some((which, text)) = self.either(element, ["tryConstruct", "try_construct"], path) {
            const NAMES: [&str; 3] = ["DISCARD", "USE_DEFAULT", "TRIM"];
            let name = text.to_ascii_uppercase();
            if NAMES.contains(&name.as_str()) {
                notes += &format!("@try_construct({name}) ");
            } else {
                let found = format!("{which}: found {}", quoted(text));
                let error = UnplacedError::new(found, format!("expected {}", one_of(&NAMES)));
                self.report_error(element, path, error.suggest(suggest(text, NAMES)));
            }
        }
        notes
    }

    /// Returns the declaration of a member or typedef: its type, its name, and the lengths of
    /// an array.
    pub(super) fn declared(&mut self, element: &Element, path: &ElementPath<'_>) -> Option<String> {
        let (name, kind) = (self.name(element, path), self.type_of(element, path));
        let kind = self.collection(kind, element, path);
        let mut lengths = String::new();
        for length in
            element.attribute("arrayDimensions").into_iter().flat_map(|text| text.split(','))
        {
            let length = self.expression(length, "arrayDimensions", element, path)?;
            lengths += &format!("[{length}]");
        }
        Some(format!("{} {}{lengths}", kind?, name?))
    }

    /// Returns a map or sequence of a type, if attributes ask for one.
    pub(super) fn collection(
        &mut self,
        kind: Option<String>,
        element: &Element,
        path: &ElementPath<'_>,
    ) -> Option<String> {
        let key = self.either(element, ["mapKeyType", "key_type"], path);
        let sequence = element.attribute("sequenceMaxLength");
        if let Some(name) = ["mapKeyNonBasicTypeName", "mapKeyStringMaxLength", "mapMaxLength"]
            .into_iter()
            .find(|name| key.is_none() && element.attribute(name).is_some())
        {
            let error =
                UnplacedError::new(format!("found `{name}`"), "expected it beside `mapKeyType`");
            self.report_error(element, path, error);
        }
        let bound =
            |bound: Option<String>| bound.map(|bound| format!(", {bound}")).unwrap_or_default();
        match (key, sequence) {
            (Some(_), Some(_)) => {
                let found = "found both `mapKeyType` and `sequenceMaxLength`";
                let expected = "expected one of them; a sequence of maps takes a typedef";
                self.report_error(element, path, UnplacedError::new(found, expected));
                None
            }
            (None, None) => kind,
            (None, Some(text)) => {
                let most = self.bound(text, "sequenceMaxLength", element, path)?;
                Some(format!("sequence<{}{}>", kind?, bound(most)))
            }
            (Some((which, key)), None) => {
                let names = [which, "mapKeyNonBasicTypeName", "mapKeyStringMaxLength"];
                let key = self.kind(key, names, element, path)?;
                let most = match element.attribute("mapMaxLength") {
                    None => None,
                    Some(text) => self.bound(text, "mapMaxLength", element, path)?,
                };
                Some(format!("map<{key}, {}{}>", kind?, bound(most)))
            }
        }
    }

    /// Returns the type that `type` and `nonBasicTypeName` name.
    pub(super) fn type_of(&mut self, element: &Element, path: &ElementPath<'_>) -> Option<String> {
        let kind = self.required(element, "type", path)?;
        self.kind(kind, ["type", "nonBasicTypeName", "stringMaxLength"], element, path)
    }

    pub(super) fn kind(
        &mut self,
        kind: &str,
        [which, of_name, of_bound]: [&str; 3],
        element: &Element,
        path: &ElementPath<'_>,
    ) -> Option<String> {
        let (name, bound) = (element.attribute(of_name), element.attribute(of_bound));
        let Some((_, idl)) = KINDS.iter().find(|(known, _)| *known == kind) else {
            let found = format!("{which}: found {}", quoted(kind));
            let expected = "expected a basic type such as `int32`, `float64` or `string`, or `nonBasic` with the type's name in";
            let error = UnplacedError::new(found, format!("{expected} `{of_name}`"));
            let meant = suggest(kind, KINDS.map(|(known, _)| known));
            self.report_error(element, path, error.suggest(meant));
            return None;
        };
        if bound.is_some() && !idl.ends_with("string") {
            let error =
                UnplacedError::new(format!("found `{of_bound}`"), "expected it of a string alone");
            self.report_error(element, path, error);
            return None;
        }
        match (name, *idl) {
            (Some(name), NON_BASIC) => self.reference(name, of_name, element, path),
            (None, NON_BASIC) => {
                let error = UnplacedError::new(
                    format!("found no attribute `{of_name}`"),
                    "expected the type's name in it",
                );
                self.report_error(element, path, error);
                None
            }
            (Some(_), _) => {
                let found = format!("found `{of_name}` beside the type `{kind}`");
                self.report_error(
                    element,
                    path,
                    UnplacedError::new(found, "expected it beside `nonBasic` alone"),
                );
                None
            }
            (None, idl) => match bound {
                None => Some(idl.to_owned()),
                Some(text) => {
                    let most = self.bound(text, of_bound, element, path)?;
                    Some(most.map_or_else(|| idl.to_owned(), |most| format!("{idl}<{most}>")))
                }
            },
        }
    }

    /// Returns a bound; `None` if the attribute says that there is no limit.
    #[allow(clippy::option_option, reason = "wrong, no limit, or a limit")]
    pub(super) fn bound(
        &mut self,
        text: &str,
        attribute: &str,
        element: &Element,
        path: &ElementPath<'_>,
    ) -> Option<Option<String>> {
        if text.trim() == "-1" {
            return Some(None);
        }
        self.expression(text, attribute, element, path).map(Some)
    }
}

/// Whether the text is an identifier.
fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
