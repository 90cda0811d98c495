//! Text and JSON of samples: a sample that is read can be written, and is read again as the same.

use idl_xtypes::DynamicData;

use crate::kinds::{ENCODINGS, selected};
use crate::outcome::{Outcome, OutcomeBuilder};

/// Words of the grammar.
pub(crate) const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\u0041",
    "\\ud83d\\ude00",
    "\\",
    "//",
    "\n",
    "null",
    "true",
    "false",
    "NaN",
    "-Infinity",
    "1e308",
    "-0.0",
    "18446744073709551615",
    "-9223372036854775808",
    "0x",
    "discriminator",
    "type_objects",
    "key",
    "value",
    "next",
    "children",
    "{next: {}}",
    "[{}, {}]",
    "Red",
    "READ | WRITE",
    "derived",
    "base",
];

pub(crate) fn check(bytes: &[u8]) -> Outcome {
    let mut outcome = OutcomeBuilder::default();
    let [of, text @ ..] = bytes else { return outcome.outcome() };
    let kind = selected(*of);
    outcome.kind(*of);
    match DynamicData::parse(&kind.of, &String::from_utf8_lossy(text)) {
        Ok(data) => {
            outcome.kind(true).size(data.to_text().len());
            comes_back(&data);
        }
        Err(error) => {
            outcome.said(&error.to_string());
        }
    }
    outcome.outcome()
}

/// Checks that a sample can be written in every form and is read again as the same. Texts are
/// compared, because text does not distinguish the bits of a NaN.
pub(crate) fn comes_back(data: &DynamicData) {
    let (text, json) = (data.to_text(), data.to_json());
    for form in [&text, &json, &data.to_json_line()] {
        let again = DynamicData::parse(data.of(), form)
            .unwrap_or_else(|error| panic!("its own text is refused: {error}: {form}"));
        assert_eq!(again.to_text(), text);
        assert_eq!(again.to_json(), json);
    }
    for encoding in ENCODINGS {
        let payload = data.to_cdr(encoding).expect("a value that was read can be written");
        assert_eq!(data.cdr_size(encoding), Ok(payload.len()));
        let again = DynamicData::from_cdr(data.of(), &payload)
            .unwrap_or_else(|error| panic!("its own bytes are refused: {error}: {text}"));
        assert_eq!(again.to_text(), text, "{encoding:?}");
    }
}
