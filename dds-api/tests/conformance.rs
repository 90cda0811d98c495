//! List of the requirements of DDS 1.4, and checks of its statements about this product.
//!
//! ```text
//!   name     an operation, count or rule, in the standard's words
//!   here     its name here: `Type::member`, or `Type`
//!   by       tests that show it: `file::test` of `dds-api/tests` or a subfolder, or with full path
//!   note     further information
//!   absent   instead of `by`: the reason, and the replacement
//!   none     instead of `by`: there is nothing to show
//! ```
//! A test shows a call if the call occurs in the test or in the items of its file that it uses.
//! After a change of the list run `UPDATE_CONFORMANCE=1 cargo test -p dds-api --test conformance`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "conformance/page.rs"]
mod page;
#[path = "conformance/tree.rs"]
mod tree;

use std::collections::{BTreeMap, BTreeSet};

use dds_api::infrastructure::StatusKind;
use dds_api::qos::PolicyId;
use toml::{Table, Value};
use tree::{Product, TestFile, path_of, root};

/// An interface, a status or a policy.
struct SpecItem {
    name: String,
    rows: Vec<SpecRow>,
}

struct SpecRow {
    name: String,
    coverage: RowCoverage,
}

enum RowCoverage {
    Shown { here: Vec<String>, by: Vec<(String, String)>, note: String },
    Absent(String),
    NoRule(String),
}

const CHAPTERS: [(&str, &str); 3] = [
    ("Operations", include_str!("conformance/operations.toml")),
    ("Statuses", include_str!("conformance/statuses.toml")),
    ("Policies", include_str!("conformance/policies.toml")),
];

fn text(table: &Table, key: &str) -> Option<String> {
    table.get(key).map(|value| value.as_str().unwrap().to_owned())
}

fn texts(table: &Table, key: &str) -> Vec<String> {
    let list = table.get(key).map(|value| value.as_array().unwrap().iter());
    list.into_iter().flatten().map(|value| value.as_str().unwrap().to_owned()).collect()
}

fn tables<'a>(table: &'a Table, key: &str) -> impl Iterator<Item = &'a Table> + use<'a> {
    table[key].as_array().unwrap().iter().map(|value| value.as_table().unwrap())
}

fn row(table: &Table) -> SpecRow {
    let name = text(table, "name").unwrap();
    let known = ["name", "here", "by", "note", "absent", "none"];
    let strange: Vec<&String> = table.keys().filter(|key| !known.contains(&key.as_str())).collect();
    assert!(strange.is_empty(), "{name}: {strange:?}");
    let said = |key: &str| text(table, key).filter(|text| !text.is_empty());
    let by = texts(table, "by").into_iter().map(|test| {
        let (file, test) = test.rsplit_once("::").unwrap();
        (file.to_owned(), test.to_owned())
    });
    let by: Vec<_> = by.collect();
    let coverage = match (said("absent"), said("none")) {
        (Some(why), None) if by.is_empty() => RowCoverage::Absent(why),
        (None, Some(why)) if by.is_empty() => RowCoverage::NoRule(why),
        (None, None) if !by.is_empty() => {
            let note = said("note").unwrap_or_default();
            RowCoverage::Shown { here: texts(table, "here"), by, note }
        }
        _ => panic!("{name}: tests, or why there are none"),
    };
    SpecRow { name, coverage }
}

fn chapters() -> Vec<(&'static str, Vec<SpecItem>)> {
    let part = |table: &Table| SpecItem {
        name: text(table, "name").unwrap(),
        rows: tables(table, "rows").map(row).collect(),
    };
    let chapter = |list: &str| {
        let list: Value = Value::Table(list.parse::<Table>().unwrap());
        tables(list.as_table().unwrap(), "part").map(part).collect()
    };
    CHAPTERS.map(|(name, list)| (name, chapter(list))).into_iter().collect()
}

/// Every named test exists and is run, every call is public, and the tests use the calls that they
/// should show.
#[test]
fn listed_tests_exist_and_use_listed_public_calls() {
    let product = Product::read();
    let mut files: BTreeMap<String, Option<TestFile>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (_, parts) in chapters() {
        for (part, row) in
            parts.iter().flat_map(|part| part.rows.iter().map(move |row| (part, row)))
        {
            let place = format!("{}, {}", part.name, row.name);
            let RowCoverage::Shown { here, by, .. } = &row.coverage else { continue };
            let mut shown = BTreeSet::new();
            for (file, test) in by {
                let found =
                    files.entry(path_of(file)).or_insert_with_key(|path| TestFile::read(path));
                let body = found.as_ref().ok_or("there is no such file".to_owned());
                match body.and_then(|found| Ok((found, found.test(test)?))) {
                    Ok((found, body)) => {
                        shown.extend(found.reached(&body).into_iter().map(str::to_owned));
                    }
                    Err(why) => wrong.push(format!("{place}: {file}::{test}: {why}")),
                }
            }
            for item in here {
                let last = item.rsplit("::").next().unwrap();
                if !product.has(item) {
                    wrong.push(format!("{place}: there is no public `{item}`"));
                }
                // A type without a member stands for the effect of its values.
                if item.contains("::") && !shown.contains(last) {
                    wrong.push(format!("{place}: none of its tests uses `{last}`"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Entries without proof are detected: the call is not public, the test does not use it, or the
/// test does not exist or is not run.
#[test]
fn checker_rejects_unknown_calls_unused_calls_and_missing_tests() {
    let product = Product::read();
    for (item, is_there) in [
        ("DataReader::take_next_instance", true),
        ("DataReader::take_everything", false),
        ("DataReader::follows_instances", false),
        ("Sample", true),
        ("Shelf", false),
        ("SampleInfo::valid_data", true),
        ("LivelinessLostStatus::total_count", true),
        ("DataWriterListener::on_liveliness_lost", true),
        ("DataWriterListener::on_sample_lost", false),
    ] {
        assert_eq!(product.has(item), is_there, "{item}");
    }
    let reading = TestFile::read(&path_of("reading")).unwrap();
    let body = reading.test("instances_are_gone_through_one_by_one").unwrap();
    let reached = reading.reached(&body);
    assert!(reached.contains("read_next_instance") && reached.contains("wait_for_acknowledgments"));
    assert!(!reached.contains("take_next_instance") && !reached.contains("take_next_sample"));
    assert!(reading.test("nobody_wrote_this").is_err());
    assert!(reading.test("values").is_err(), "it is no test");
    assert!(TestFile::read(&path_of("nothing")).is_none());
}

/// Names of operations in a row: `get_entity` in `StatusCondition.get_entity`.
fn operations(row: &str) -> impl Iterator<Item = &str> {
    let names = row.split(", ").map(|name| name.split(' ').next().unwrap());
    names.map(|name| name.rsplit('.').next().unwrap()).filter(|name| name.contains('_'))
}

/// A search in the documentation for a name of the standard finds the call: the call has the name,
/// or has it as an alias.
#[test]
fn each_operation_of_the_standard_is_found_by_its_name() {
    let product = Product::read();
    let chapters = chapters();
    let mut wrong = Vec::new();
    let mut count = 0;
    let parts = chapters[0].1.iter().filter(|part| !part.name.contains("annex"));
    for part in parts {
        let rows = part.rows.iter().filter(|row| {
            row.name.starts_with(|it: char| it.is_lowercase()) || row.name.contains('.')
        });
        for row in rows {
            let RowCoverage::Shown { here, .. } = &row.coverage else { continue };
            for operation in operations(&row.name) {
                count += 1;
                let is_found = here
                    .iter()
                    .any(|item| product.is_found(item.rsplit("::").next().unwrap(), operation));
                if !is_found {
                    wrong.push(format!(
                        "{}, {operation}: not a name or alias of {here:?}",
                        part.name
                    ));
                }
            }
        }
    }
    assert!(count > 120, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The list has a part for each status and each policy, in the standard's order, and for each
/// policy a row for each kind of rule.
#[test]
fn list_covers_each_status_policy_and_kind_of_rule() {
    let chapters = chapters();
    let names = |at: usize| chapters[at].1.iter().map(|part| part.name.as_str());
    assert!(names(1).take(13).eq(StatusKind::ALL.iter().map(|kind| kind.name())));
    assert!(names(2).eq(PolicyId::ALL.iter().map(|policy| policy.name())));
    for (part, policy) in chapters[2].1.iter().zip(PolicyId::ALL) {
        let rules: Vec<&str> = part
            .rows
            .iter()
            .map(|row| row.name.split_once(':').map_or(&*row.name, |it| it.0))
            .collect();
        let mut kinds = rules.clone();
        kinds.dedup();
        assert_eq!(
            kinds,
            ["default", "consistency", "changeability", "RxO", "behaviour"],
            "{policy}"
        );
        let says = |rule: &str, what: &str| {
            part.rows.iter().any(|row| row.name.starts_with(rule) && row.name.contains(what))
        };
        assert_eq!(
            says("changeability", "may change"),
            policy.changeable_after_enable(),
            "{policy}"
        );
        assert_eq!(says("RxO", "not compared"), !policy.requested_offered(), "{policy}");
    }
    for (_, parts) in &chapters {
        let mut rows = BTreeSet::new();
        for (part, row) in
            parts.iter().flat_map(|part| part.rows.iter().map(move |row| (part, row)))
        {
            assert!(
                rows.insert((&part.name, &row.name)),
                "{}, {} stands there twice",
                part.name,
                row.name
            );
        }
    }
}

#[test]
fn conformance_page_matches_list() {
    let path = root().join("docs/reference/conformance.md");
    let page = page::page(&chapters());
    if std::env::var_os("UPDATE_CONFORMANCE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page,
        "make the page anew, with UPDATE_CONFORMANCE=1, and read the difference"
    );
}
