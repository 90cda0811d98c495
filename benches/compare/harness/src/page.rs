//! The page of a run, in Markdown.

use std::fmt::Write as _;

use crate::log::{FigureKind, RunLog};
use crate::scenario::Scenario;
use crate::statistics::{Quartiles, three_digits};
use crate::systems::{ATOMIC, ComparedSystem, SYSTEMS, UNORDERED};

/// Folder of the plots, beside the page.
pub(crate) const PLOTS: &str = "compare";
/// Longest line of a paragraph.
const LINE: usize = 150;

/// Returns the system with a name, if it is known.
pub(crate) fn system(name: &str) -> Option<&'static ComparedSystem> {
    SYSTEMS.iter().find(|system| system.name == name)
}

/// Returns the label of a system in tables.
pub(crate) fn label(name: &str) -> &str {
    system(name).map_or(name, |system| system.label)
}

/// Returns a table.
fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule: Vec<String> = head.iter().map(|_| "---".to_owned()).collect();
    let body: String = rows.iter().map(|row| line(row)).collect();
    line(head) + &line(&rule) + &body
}

/// Returns a median with its quartiles, in units of `unit`.
fn cell(quartiles: Option<Quartiles>, unit: f64) -> String {
    let Some(Quartiles { low, median, high }) = quartiles else { return "–".to_owned() };
    let [low, median, high] = [low, median, high].map(|value| three_digits(value / unit));
    format!("{median} ({low}–{high})")
}

/// Scenarios of a number of subscribers.
fn scenarios(log: &RunLog, subs: usize) -> Vec<Scenario> {
    log.scenarios.iter().copied().filter(|scenario| scenario.subs == subs).collect()
}

fn head(first: &str, scenarios: &[Scenario]) -> Vec<String> {
    let sizes = scenarios.iter().map(|scenario| scenario.size_name());
    [first.to_owned()].into_iter().chain(sizes).collect()
}

/// Rates of all systems to a number of subscribers, after those of the bare ring.
fn rates(log: &RunLog, subs: usize) -> String {
    let scenarios = scenarios(log, subs);
    let ring = scenarios.iter().map(|&scenario| cell(log.ring(scenario), 1e3));
    let mut rows = vec![["bare polling ring".to_owned()].into_iter().chain(ring).collect()];
    for entry in log.measured() {
        let cells = scenarios.iter().map(|&scenario| {
            let failed = log.failures(&entry.name, scenario).map_or("", |_| " †");
            cell(log.quartiles(&entry.name, scenario, FigureKind::Rate), 1e3) + failed
        });
        rows.push([label(&entry.name).to_owned()].into_iter().chain(cells).collect::<Vec<_>>());
    }
    table(&head("thousand messages a second", &scenarios), &rows)
}

/// How many times faster atomic and unordered were than each other system.
fn ratios(log: &RunLog, subs: usize) -> String {
    let scenarios = scenarios(log, subs);
    let ratio = |first: &str, second: &str, scenario: Scenario| {
        let found = log.advantage(first, second, scenario, FigureKind::Rate);
        found.map_or("–".to_owned(), |found| three_digits(found.median))
    };
    let mut rows = Vec::new();
    for entry in log.measured().filter(|entry| ![ATOMIC, UNORDERED].contains(&entry.name.as_str()))
    {
        let cells = scenarios.iter().map(|&scenario| {
            let [atomic, unordered] =
                [ATOMIC, UNORDERED].map(|first| ratio(first, &entry.name, scenario));
            format!("{atomic} / {unordered}")
        });
        rows.push([label(&entry.name).to_owned()].into_iter().chain(cells).collect::<Vec<_>>());
    }
    table(&head("atomic / unordered by", &scenarios), &rows)
}

/// One-way times, and how many times longer they are than those of atomic and unordered.
fn latency(log: &RunLog, scenario: Scenario) -> String {
    let mut rows = Vec::new();
    for entry in log.measured() {
        let name = entry.name.as_str();
        let figure = |kind| cell(log.quartiles(name, scenario, kind), 1e3);
        let failed = log.failures(name, scenario).map_or("", |_| " †");
        let ratio = |first: &str, kind| {
            let found = log.advantage(first, name, scenario, kind).filter(|_| first != name);
            found.map_or("–".to_owned(), |found| three_digits(found.median))
        };
        let [p50, p99] = [FigureKind::P50, FigureKind::P99]
            .map(|kind| format!("{} / {}", ratio(ATOMIC, kind), ratio(UNORDERED, kind)));
        rows.push(vec![
            label(name).to_owned(),
            figure(FigureKind::P50) + failed,
            figure(FigureKind::P99),
            figure(FigureKind::P999),
            p50,
            p99,
        ]);
    }
    let head = [
        "µs one way",
        "p50",
        "p99",
        "p99.9",
        "p50 by atomic / unordered",
        "p99 by atomic / unordered",
    ];
    table(&head.map(str::to_owned), &rows)
}

/// Medians of the bare ring right before the measurements of each system.
fn probes(log: &RunLog) -> String {
    let head = ["thousand messages a second".to_owned()]
        .into_iter()
        .chain(log.scenarios.iter().map(|scenario| scenario.name()));
    let rows: Vec<Vec<String>> = log
        .measured()
        .map(|entry| {
            let cells = log.scenarios.iter().map(|&scenario| {
                let probe = log.quartiles(&entry.name, scenario, FigureKind::Probe);
                probe.map_or("–".to_owned(), |probe| three_digits(probe.median / 1e3))
            });
            [label(&entry.name).to_owned()].into_iter().chain(cells).collect()
        })
        .collect();
    table(&head.collect::<Vec<_>>(), &rows)
}

/// Guarantees of each system with the settings of its peer.
fn guarantees(log: &RunLog) -> String {
    let head = ["system", "version", "transport", "loss", "order", "agreement after a crash"];
    let rows: Vec<Vec<String>> = log
        .systems
        .iter()
        .map(|entry| {
            let known = system(&entry.name);
            let text = |of: fn(&ComparedSystem) -> &'static str| {
                known.map_or(String::new(), |known| of(known).to_owned())
            };
            let version = match &entry.absent {
                Some(_) => "absent".to_owned(),
                None => entry.version.clone(),
            };
            vec![
                label(&entry.name).to_owned(),
                version,
                text(|it| it.transport),
                text(|it| it.loss),
                text(|it| it.order),
                text(|it| it.crash),
            ]
        })
        .collect();
    table(&head.map(str::to_owned), &rows)
}

/// Systems that were not measured, and measurements that failed.
fn failures(log: &RunLog) -> String {
    let absent = log.systems.iter().filter_map(|entry| {
        let reason = entry.absent.as_ref()?;
        Some(format!("* {} is absent: {}\n", label(&entry.name), one_line(reason)))
    });
    let mut text: String = absent.collect();
    for entry in log.measured() {
        for &scenario in &log.scenarios {
            let Some(found) = log.failures(&entry.name, scenario) else { continue };
            let (name, of) = (label(&entry.name), scenario.name());
            let (failed, all) = (found.failed, found.all);
            let first = one_line(&found.first);
            // Writing to a string never fails.
            let _ = writeln!(text, "* {name}, {of}: {failed} of {all} failed. The first: {first}");
        }
    }
    if text.is_empty() { "All measurements were valid.\n".to_owned() } else { text }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "/")
}

/// Returns a paragraph in lines of at most [`LINE`] characters.
fn wrapped(paragraph: &str) -> String {
    let (mut text, mut length) = (String::new(), 0);
    for word in paragraph.split(' ') {
        let width = word.chars().count();
        let is_first = length == 0;
        if !is_first && length + 1 + width > LINE {
            text.push('\n');
            length = 0;
        } else if !is_first {
            text.push(' ');
            length += 1;
        }
        text.push_str(word);
        length += width;
    }
    text.push('\n');
    text
}

/// Returns the page.
pub(crate) fn page(log: &RunLog) -> String {
    let machine = &log.machine;
    let paragraphs = [
        format!(
            "Squall DDS and other systems in one run: one publisher, one or three subscribers, each \
             a process of its own, on one host. This page is written by `{}`.",
            log.command
        ),
        format!(
            "**Machine**: {} cores of {}, {} GiB, Linux {}, {}. Load average before the run: {}.",
            machine.cores,
            machine.processor,
            machine.memory_gib,
            machine.kernel,
            machine.distribution,
            machine.load_before
        ),
        format!(
            "**Method**: each system sends the same payloads, which the publisher writes whole and \
             the subscribers check at both ends. Delivery is reliable, and a full queue makes the \
             publisher wait. A measurement with a lost, repeated or corrupt message is invalid. Two \
             warm-ups choose the number of messages for about {} s. In each of {} repeats the \
             systems take turns, and another one begins each time. A bare polling ring runs right \
             before each measurement and shows how near the cores are at that moment. Figures are \
             medians (with quartiles) over the repeats; ratios are medians of the ratios within a \
             repeat. [The README](../../benches/compare/README.md) states the settings of each \
             system.",
            three_digits(log.seconds),
            log.repeats
        ),
    ];
    let mut text = "# Beside other systems\n".to_owned();
    for paragraph in paragraphs {
        text.push('\n');
        text.push_str(&wrapped(&paragraph));
    }
    let mut section = |title: &str, parts: &[String]| {
        // Writing to a string never fails.
        let _ = write!(text, "\n## {title}\n{}", parts.join("\n"));
    };
    section("What each system guarantees", &[guarantees(log)]);
    for (subs, name) in [(1, "one subscriber"), (3, "three subscribers")] {
        if !scenarios(log, subs).is_empty() {
            let plot = format!("![Throughput to {name}]({PLOTS}/throughput-{subs}.svg)\n");
            let explained = "Atomic and unordered, how many times as fast as each system:\n";
            let parts = [plot, rates(log, subs), explained.to_owned(), ratios(log, subs)];
            section(&format!("Throughput to {name}"), &parts);
        }
    }
    for scenario in scenarios(log, 0) {
        let plot = format!("![Latency]({PLOTS}/latency.svg)\n");
        let title = format!("Latency, {}", scenario.size_name());
        section(&title, &[plot, latency(log, scenario)]);
    }
    section("The bare ring right before each system", &[probes(log)]);
    section("Failed measurements († above)", &[failures(log)]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::sample;

    #[test]
    fn page_has_figures_ratios_failures_and_absent_systems() {
        let text = page(&sample());
        for part in [
            "| Squall DDS, atomic | 4,000 (3,000–5,000) |",
            "| zenoh | 2,000 (1,500–2,500) |",
            "| zenoh | 2.00 / – |",
            "| RustDDS | – † |",
            "| zenoh | 30.0 (30.0–30.0) | 60.0 (60.0–60.0) | 90.0 (90.0–90.0) | 100 / – | 100 / – |",
            "* Cyclone DDS is absent: no package",
            "* RustDDS, 128 B to one: 3 of 3 failed. The first: invalid: 5 lost",
            "| bare polling ring | 50,000 (50,000–50,000) |",
        ] {
            assert!(text.contains(part), "no `{part}` in\n{text}");
        }
    }

    #[test]
    fn paragraphs_are_wrapped_between_words() {
        let text = wrapped(&["word"; 100].join(" "));
        assert!(text.lines().all(|line| line.len() <= LINE && line.ends_with("word")));
        assert_eq!(text.split_whitespace().count(), 100);
    }

    #[test]
    fn all_rows_of_a_table_have_as_many_cells_as_its_head() {
        let mut cells = 0;
        for line in page(&sample()).lines() {
            let here = line.matches('|').count();
            assert!(here == 0 || cells == 0 || here == cells, "{line}");
            cells = here;
        }
    }
}
