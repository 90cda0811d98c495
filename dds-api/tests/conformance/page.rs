//! The page generated from the list.
//!
//! Owns: the conversion of rows to `docs/reference/conformance.md`. Never does: look at the source
//! tree.

use std::fmt::Write;

use super::tree::path_of;
use super::{RowCoverage, SpecItem};

const BEGINNING: &str = "\
# Conformance

What DDS 1.4 asks for, row by row: every operation of its platform-independent model, every status with its counts, and every rule of
every policy, those that DDS-XTypes adds among them; and, in a chapter of its own, what this product adds. A row is *shown* by the
tests that it names, or **absent**, with the reason and with what there is instead. The list stands in
[`dds-api/tests/conformance`](../../dds-api/tests/conformance); this page is made of it by
`UPDATE_CONFORMANCE=1 cargo test -p dds-api --test conformance`. Without that, the same test checks that the page is the list's, that each
named test is there and is run, that each named call is public, and that the tests of a row use it.
";

/// Returns the page of these chapters.
pub(crate) fn page(chapters: &[(&str, Vec<SpecItem>)]) -> String {
    let mut page = BEGINNING.to_owned();
    page.push_str(
        "\n| chapter | rows | shown | absent | no rule |\n| --- | --- | --- | --- | --- |\n",
    );
    for (chapter, parts) in chapters {
        let coverages: Vec<&RowCoverage> =
            parts.iter().flat_map(|part| &part.rows).map(|row| &row.coverage).collect();
        let count = |wanted: fn(&RowCoverage) -> bool| {
            coverages.iter().filter(|coverage| wanted(coverage)).count()
        };
        let shown = count(|coverage| matches!(coverage, RowCoverage::Shown { .. }));
        let absent = count(|coverage| matches!(coverage, RowCoverage::Absent(_)));
        let none = count(|coverage| matches!(coverage, RowCoverage::NoRule(_)));
        let link = chapter.to_lowercase().replace(' ', "-");
        let all = coverages.len();
        writeln!(page, "| [{chapter}](#{link}) | {all} | {shown} | {absent} | {none} |").unwrap();
    }
    let mut absences = String::new();
    for (_, parts) in chapters {
        for part in parts {
            let absent =
                part.rows.iter().filter(|row| matches!(row.coverage, RowCoverage::Absent(_)));
            let names: Vec<&str> = absent.map(|row| row.name.as_str()).collect();
            if !names.is_empty() {
                writeln!(absences, "* {}: {}", part.name, names.join("; ")).unwrap();
            }
        }
    }
    match absences.is_empty() {
        true => page.push_str("\nNo row is absent.\n"),
        false => write!(page, "\nAbsent in one look:\n\n{absences}").unwrap(),
    }
    for (chapter, parts) in chapters {
        write!(page, "\n## {chapter}\n").unwrap();
        for part in parts {
            write!(page, "\n### {}\n| the standard | here | shown by |\n", part.name).unwrap();
            page.push_str("| --- | --- | --- |\n");
            for row in &part.rows {
                let (here, by) = columns(&row.coverage);
                writeln!(page, "| {} | {here} | {by} |", row.name).unwrap();
            }
        }
    }
    page
}

fn columns(coverage: &RowCoverage) -> (String, String) {
    match coverage {
        RowCoverage::Absent(why) => ("**absent**".to_owned(), why.clone()),
        RowCoverage::NoRule(why) => ("-".to_owned(), why.clone()),
        RowCoverage::Shown { here, by, note } => {
            let here = here.iter().map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ");
            let here = [here, note.clone()].into_iter().filter(|it| !it.is_empty());
            let by = by.iter().map(|(file, test)| {
                format!("[{}](../../{})::{test}", file.rsplit('/').next().unwrap(), path_of(file))
            });
            (here.collect::<Vec<_>>().join(": "), by.collect::<Vec<_>>().join(", "))
        }
    }
}
