//! Variables in files: `$(NAME)` in attributes and texts.
//!
//! Owns: the values of variables, from the environment and from `configuration_variables` of the
//! same file, and their insertion. Never does: insert a variable into the value of another one.

use super::error::{LineColumn, UnplacedError, quoted};
use std::collections::BTreeMap;

/// Maximum length of a text with its variables inserted, in bytes.
const LONGEST: usize = 1 << 20;

/// Variables of one file, and the errors in their use.
#[derive(Default)]
pub(super) struct Variables {
    /// Values in the file.
    own: BTreeMap<String, String>,
    /// Whether the environment may be used: not in a program with more rights than its caller.
    by_environment: bool,
    errors: Vec<(LineColumn, UnplacedError)>,
}

impl Variables {
    pub(super) fn new(own: BTreeMap<String, String>, by_environment: bool) -> Self {
        Self { own, by_environment, errors: Vec::new() }
    }

    /// Inserts the values of variables into a text. A variable without a value stays, and is an
    /// error.
    pub(super) fn insert(&mut self, text: String, at: LineColumn) -> String {
        if !text.contains("$(") {
            return text;
        }
        let mut whole = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("$(") {
            whole += before;
            let Some((name, after)) = after.split_once(')') else {
                self.error(at, format!("found {} without `)`", quoted(rest)), "expected `$(NAME)`");
                return text;
            };
            match self.value(name) {
                Some(value) => whole += &value,
                None => {
                    let found = format!("found the variable {}, which has no value", quoted(name));
                    let expected = "expected it in the environment, or in `configuration_variables` of this file";
                    self.error(at, found, expected);
                    whole += &format!("$({name})");
                }
            }
            if whole.len() > LONGEST {
                let found = format!("found a text of {} bytes", whole.len());
                self.error(at, found, &format!("expected {LONGEST} at most"));
                return text;
            }
            rest = after;
        }
        whole + rest
    }

    /// Takes the errors found so far.
    pub(super) fn take_errors(&mut self) -> Vec<(LineColumn, UnplacedError)> {
        std::mem::take(&mut self.errors)
    }

    /// Returns the value of a variable; the environment takes precedence.
    fn value(&self, name: &str) -> Option<String> {
        let of_process = match self.by_environment && is_name(name) {
            true => std::env::var(name).ok(),
            false => None,
        };
        of_process.or_else(|| self.own.get(name).cloned())
    }

    fn error(&mut self, at: LineColumn, found: String, expected: &str) {
        self.errors.push((at, UnplacedError::new(found, expected)));
    }
}

/// Whether the environment can have a variable of this name.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inserted(text: &str) -> (String, usize) {
        let own = [("A", "one"), ("B", "$(A)"), ("CARGO_PKG_NAME", "own")];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut variables = Variables::new(own.into(), true);
        let text = variables.insert(text.to_owned(), LineColumn::default());
        (text, variables.take_errors().len())
    }

    #[test]
    fn values_are_inserted_and_missing_ones_are_errors() {
        for (text, expected, errors) in [
            ("plain $ (A) ${A}", "plain $ (A) ${A}", 0),
            ("$(A)", "one", 0),
            ("x$(A)y$(A)z", "xoneyonez", 0),
            // A value is not searched for variables.
            ("$(B)", "$(A)", 0),
            ("$(C) $(A)", "$(C) one", 1),
            ("$()", "$()", 1),
            ("$(A", "$(A", 1),
        ] {
            assert_eq!(inserted(text), (expected.to_owned(), errors), "{text}");
        }
    }

    #[test]
    fn environment_takes_precedence_unless_it_must_not_be_used() {
        assert_eq!(inserted("$(CARGO_PKG_NAME)"), ("qos-profiles".to_owned(), 0));
        let own = BTreeMap::from([("CARGO_PKG_NAME".to_owned(), "own".to_owned())]);
        let mut variables = Variables::new(own, false);
        let text = variables.insert("$(CARGO_PKG_NAME)".to_owned(), LineColumn::default());
        assert_eq!(text, "own");
    }
}
